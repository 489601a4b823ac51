/*-------------------------------------------------------------------------
 *
 * cache_memory.c
 *	  The memory of the cache: chunks, dictionaries, and who may stay.
 *
 * A chunk is kept if there is room, or can be made by dropping chunks of
 * columns that no request has used since this one began, the longest unused
 * first.  So a scan of more than there is room for keeps what fits, instead of
 * driving out at the end what it will look for first the next time.  Columns of
 * pinned tables are not dropped for others, and a background request, for which
 * nobody waits, drops none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/cache_impl.h"
#include "utils/memutils.h"

Chunk gpuscan_cache_unfit;
uint64 gpuscan_cache_bytes = 0;

/* ---- chunks ---- */

static void
free_chunk(const GpuScanOpenDevice *device, Chunk *chunk)
{
	gpuscan_cache_bytes -= chunk->chunk->size;
	device->ops->free_chunk(device->device, chunk->chunk);
	pfree(chunk);
}

void
gpuscan_cache_unpin_chunk(const GpuScanOpenDevice *device, Chunk *chunk)
{
	if (--chunk->pins == 0 && chunk->dropped)
		free_chunk(device, chunk);
}

void
gpuscan_cache_drop_chunk(Column *column, uint32 range)
{
	Chunk *chunk = get_chunk(column, range);

	if (chunk == NULL)
		return;
	gpuscan_cache_range_changes(column->table, range);
	column->chunks[range] = NULL;
	if (chunk == UNFIT)
		return;
	column->nchunks--;
	column->bytes -= chunk->chunk->size;
	if (chunk->pins > 0)
		chunk->dropped = true;
	else
		free_chunk(column->table->key.device, chunk);
}

void
gpuscan_cache_put_chunk(Column *column, uint32 range, Chunk *chunk)
{
	if (range >= column->nslots)
	{
		uint32 n = Max(range + 1, column->nslots * 2);
		Chunk **chunks = MemoryContextAllocExtended(gpuscan_cache_context, n * sizeof(Chunk *),
													MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

		if (column->chunks != NULL)
		{
			memcpy(chunks, column->chunks, column->nslots * sizeof(Chunk *));
			pfree(column->chunks);
		}
		column->chunks = chunks;
		column->nslots = n;
	}
	gpuscan_cache_range_changes(column->table, range);
	column->chunks[range] = chunk;
}

void
gpuscan_cache_count_dictionary(Column *column)
{
	uint64 size = column->dictionary ? gpuscan_dictionary_size(column->dictionary) : 0;

	gpuscan_cache_bytes += size - column->dictionary_size;
	column->dictionary_size = size;
}

void
gpuscan_cache_free_dictionary(Column *column)
{
	const GpuScanOpenDevice *device = column->table->key.device;

	if (column->dictionary == NULL)
		return;
	if (device->ops->forget_dictionary != NULL)
		device->ops->forget_dictionary(device->device, column->dictionary);
	gpuscan_dictionary_free(column->dictionary);
	column->dictionary = NULL;
	gpuscan_cache_count_dictionary(column);
}

/* ---- room ---- */

uint64
gpuscan_cache_limit(void)
{
	return (uint64) gpuscan_cpu_cache_size * 1024 * 1024;
}

/* Drops chunks of a column, from its last range on, until there is room. */
static void
shrink_column(Column *column, uint64 bytes)
{
	for (uint32 i = column->nslots; i > 0 && gpuscan_cache_bytes + bytes > gpuscan_cache_limit();
		 i--)
		gpuscan_cache_drop_chunk(column, i - 1);
	if (column->nchunks == 0 && column->table->pins == 0)
		gpuscan_cache_free_dictionary(column);
}

bool
gpuscan_cache_make_room(const GpuScanCacheUse *use, uint64 bytes)
{
	uint64 began = use->background ? 0 : use->began;

	while (gpuscan_cache_bytes + bytes > gpuscan_cache_limit())
	{
		HASH_SEQ_STATUS status;
		TableEntry *entry;
		Column *victim = NULL;

		hash_seq_init(&status, gpuscan_cache_tables);
		while ((entry = hash_seq_search(&status)) != NULL)
		{
			slist_iter iter;

			if (entry->table->pinned)
				continue;
			slist_foreach(iter, &entry->table->columns)
			{
				Column *column = slist_container(Column, node, iter.cur);

				if (column->nchunks > 0 && column->used < began &&
					(victim == NULL || column->used < victim->used))
					victim = column;
			}
		}
		if (victim == NULL)
			return false;
		shrink_column(victim, bytes);
	}
	return true;
}

bool
gpuscan_cache_has_spare_room(void)
{
	return gpuscan_cache_bytes < gpuscan_cache_limit() / 16 * 15;
}
