/*-------------------------------------------------------------------------
 *
 * cache_memory.c
 *	  The memory of the cache: chunks, dictionaries, and who may stay where.
 *
 * A chunk lies in one of two tiers: in the memory of its device, up to
 * gpuscan.device_cache_size on each, or in the host's, where all devices together
 * have gpuscan.cpu_cache_size.  The cpu device has the second alone.  What the
 * service itself needs (dictionaries, states of ranges) counts as the host's.
 *
 * A new chunk is kept if there is room, or can be made at the cost of columns that
 * no request has used since this one began, the longest unused first.  So a scan of more
 * than there is room for keeps what fits, instead of driving out at the end what
 * it will look for first the next time.  What leaves device memory is demoted to the
 * host's, if there is room, or can be made in the same way; else, and what leaves
 * the host's memory, is dropped.  Columns of pinned tables do not leave for others,
 * and a background request, for which nobody waits, drives out none.
 *
 * Moving a chunk takes some 20 us, for which all requests wait.  So a turn of the
 * main loop moves few, and drops what it cannot demote.  In turns that have nothing
 * else to do gpuscan_cache_tidy() demotes in advance, so that a sixteenth of
 * the device's share is free for new chunks, and promotes chunks of the host's
 * memory that are used more than others on the device.
 *
 * A column that a request uses stays where it is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/cache_impl.h"
#include "utils/memutils.h"

/* Chunks that a turn of the main loop moves at the most */
#define MOVES_PER_TURN 8

/* Chunks of a column that drive others out of device memory, for each use of it */
#define SWAPS_PER_USE 64

/* Bytes that a turn drops at the most because a limit was lowered */
#define DROPS_PER_TURN (16 * 1024 * 1024)

Chunk gpuscan_cache_unfit;

static uint64 totals[TIERS]; /* bytes */
static uint32 moves_left = MOVES_PER_TURN;
static bool is_tidy = true; /* as far as is known */

/* ---- counting ---- */

static bool
has_tiers(const GpuScanOpenDevice *device)
{
	return device->ops->move_chunk != NULL;
}

static GpuScanTier
tier_of(const GpuScanOpenDevice *device, const GpuScanChunk *chunk)
{
	return has_tiers(device) ? chunk->tier : GPUSCAN_TIER_HOST;
}

static void
count(const GpuScanOpenDevice *device, GpuScanTier tier, int64 bytes)
{
	pg_atomic_uint64 *of_device = &device->entry->cached[tier];

	pg_atomic_write_u64(of_device, pg_atomic_read_u64(of_device) + bytes);
	totals[tier] += bytes;
}

uint64
gpuscan_cache_bytes(void)
{
	return totals[GPUSCAN_TIER_DEVICE] + totals[GPUSCAN_TIER_HOST];
}

uint64
gpuscan_cache_column_bytes(const Column *column, GpuScanTier tier)
{
	bool has_dictionary = tier == GPUSCAN_TIER_HOST || has_tiers(column->table->key.device);

	return column->bytes[tier] + (has_dictionary ? column->dictionary_size : 0);
}

void
gpuscan_cache_count_blocks(const GpuScanOpenDevice *device, const GpuScanChunk *const *chunks,
						   int nchunks, uint32 nblocks, uint32 *in_tier)
{
	GpuScanTier tier = GPUSCAN_TIER_DEVICE;

	if (!has_tiers(device))
		return;
	for (int i = 0; i < nchunks; i++)
	{
		if (chunks[i]->tier == GPUSCAN_TIER_HOST)
			tier = GPUSCAN_TIER_HOST;
	}
	in_tier[tier] += nblocks;
}

/* Bytes that count against the limit of a tier */
static uint64
used_bytes(const GpuScanOpenDevice *device, GpuScanTier tier)
{
	return tier == GPUSCAN_TIER_HOST ? totals[tier]
									 : pg_atomic_read_u64(&device->entry->cached[tier]);
}

static uint64
tier_limit(const GpuScanOpenDevice *device, GpuScanTier tier)
{
	return tier == GPUSCAN_TIER_HOST ? (uint64) gpuscan_cpu_cache_size * 1024 * 1024
									 : gpuscan_devices_cache_limit(device->entry);
}

/* What is filled with nobody waiting for it, and kept free for new chunks otherwise */
static uint64
spare_limit(const GpuScanOpenDevice *device, GpuScanTier tier)
{
	return tier_limit(device, tier) / 16 * 15;
}

/* Also where a device has columns in a memory of its own and none are to be in the host's */
uint64
gpuscan_cache_overhead_limit(void)
{
	const GpuScanOpenDevice *device;
	uint64 limit = tier_limit(NULL, GPUSCAN_TIER_HOST);

	for (int i = 0; (device = gpuscan_devices_get(i)) != NULL; i++)
		limit += tier_limit(device, GPUSCAN_TIER_DEVICE) / 16;
	return limit;
}

void
gpuscan_cache_count_overhead(const GpuScanOpenDevice *device, int64 bytes)
{
	count(device, GPUSCAN_TIER_HOST, bytes);
}

void
gpuscan_cache_count_kept(const GpuScanOpenDevice *device, int64 bytes)
{
	count(device, GPUSCAN_TIER_DEVICE, bytes);
}

uint64
gpuscan_cache_columns_limit(const GpuScanOpenDevice *device, bool background)
{
	return background ? spare_limit(device, GPUSCAN_TIER_DEVICE)
					  : tier_limit(device, GPUSCAN_TIER_DEVICE);
}

/* ---- chunks ---- */

static void
free_chunk(const GpuScanOpenDevice *device, Chunk *chunk)
{
	GpuScanTier tier = tier_of(device, chunk->chunk);

	/* another may have its place */
	if (tier == GPUSCAN_TIER_DEVICE)
		is_tidy = false;
	count(device, tier, -(int64) chunk->chunk->size);
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
	const GpuScanOpenDevice *device = column->table->key.device;
	Chunk *chunk = get_chunk(column, range);

	if (chunk == NULL)
		return;
	gpuscan_cache_range_changes(column->table, range);
	column->chunks[range] = NULL;
	if (chunk == UNFIT)
		return;
	column->nchunks--;
	gpuscan_cache_count_range(column->table, column_number(column), -1);
	column->bytes[tier_of(device, chunk->chunk)] -= chunk->chunk->size;
	if (chunk->pins > 0)
		chunk->dropped = true;
	else
		free_chunk(device, chunk);
}

static void
set_chunk(Column *column, uint32 range, Chunk *chunk)
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

/* A chunk of the column has come to a tier. */
static void
count_chunk(Column *column, uint32 range, GpuScanTier tier)
{
	column->bytes[tier] += column->chunks[range]->chunk->size;
	column->ends[tier] = Max(column->ends[tier], range + 1);
}

void
gpuscan_cache_put_unfit(Column *column, uint32 range)
{
	set_chunk(column, range, UNFIT);
}

/* Puts a chunk of a column without users into another tier.  False: it stays where it is. */
static bool
move_chunk(Column *column, uint32 range, GpuScanTier tier)
{
	const GpuScanOpenDevice *device = column->table->key.device;
	Chunk *chunk = column->chunks[range];
	GpuScanTier from = tier_of(device, chunk->chunk);
	uint32 size = chunk->chunk->size;
	GpuScanChunk *moved;

	if (moves_left == 0)
		return false;
	moves_left--;
	gpuscan_cache_range_changes(column->table, range);
	Assert(chunk->pins == 0);
	moved = device->ops->move_chunk(device->device, chunk->chunk, tier);
	if (moved == NULL)
		return false;
	chunk->chunk = moved;
	column->bytes[from] -= size;
	count(device, from, -(int64) size);
	count_chunk(column, range, tier);
	count(device, tier, size);
	return true;
}

/* ---- dictionaries ---- */

/* One that a device with a memory of its own reads is there too. */
void
gpuscan_cache_count_dictionary(Column *column)
{
	const GpuScanOpenDevice *device = column->table->key.device;
	uint64 size = column->dictionary ? gpuscan_dictionary_size(column->dictionary) : 0;
	int64 growth = size - column->dictionary_size;

	count(device, GPUSCAN_TIER_HOST, growth);
	if (has_tiers(device))
		count(device, GPUSCAN_TIER_DEVICE, growth);
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

/* Room to be made: until a tier has no more than `target` bytes. */
typedef struct Room
{
	const GpuScanOpenDevice *device; /* of the tier of device memory */
	GpuScanTier tier;
	uint64 target;
	uint64 before; /* at the cost of columns not used since */
	bool drops;	   /* not only by demoting */
} Room;

static bool make_room(const Room *room);

static bool
is_full(const Room *room)
{
	return used_bytes(room->device, room->tier) > room->target;
}

/* The first column to leave; NULL: none may. */
static Column *
find_victim(const Room *room)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;
	Column *victim = NULL;

	hash_seq_init(&status, gpuscan_cache_tables);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		slist_iter iter;

		if (entry->table->pinned ||
			(room->tier == GPUSCAN_TIER_DEVICE && entry->key.device != room->device))
			continue;
		slist_foreach(iter, &entry->table->columns)
		{
			Column *column = slist_container(Column, node, iter.cur);

			if (column->bytes[room->tier] > 0 && column->users == 0 &&
				column->used < room->before && (victim == NULL || column->used < victim->used))
				victim = column;
		}
	}
	return victim;
}

/* The last range with a chunk in the tier, plus 1; 0: there is none. */
static uint32
last_chunk(Column *column, GpuScanTier tier)
{
	const GpuScanOpenDevice *device = column->table->key.device;
	uint32 end = column->ends[tier];

	for (; end > 0; end--)
	{
		const Chunk *chunk = column->chunks[end - 1];

		if (chunk != NULL && chunk != UNFIT && tier_of(device, chunk->chunk) == tier)
			break;
	}
	column->ends[tier] = end;
	return end;
}

/* Moves a chunk to the host's memory, at the cost of columns not used since `before`. */
static bool
demote(Column *column, uint32 range, uint64 before)
{
	uint64 limit = tier_limit(NULL, GPUSCAN_TIER_HOST);
	uint32 size = column->chunks[range]->chunk->size;
	Room room = {
		.tier = GPUSCAN_TIER_HOST,
		.target = limit - size,
		.before = Min(before, column->used),
		.drops = true,
	};

	return moves_left > 0 && size <= limit && make_room(&room) &&
		   move_chunk(column, range, GPUSCAN_TIER_HOST);
}

/* Makes room at the cost of a column's chunks, from its last range on.  False: one could not leave. */
static bool
shrink_column(Column *column, const Room *room)
{
	uint32 end;

	while (is_full(room) && (end = last_chunk(column, room->tier)) > 0)
	{
		if (room->tier == GPUSCAN_TIER_DEVICE && demote(column, end - 1, room->before))
			continue;
		if (!room->drops)
			return false;
		gpuscan_cache_drop_chunk(column, end - 1);
	}
	if (column->nchunks == 0 && column->table->pins == 0)
		gpuscan_cache_free_dictionary(column);
	return true;
}

static bool
make_room(const Room *room)
{
	while (is_full(room))
	{
		Column *victim = find_victim(room);

		if (victim == NULL || !shrink_column(victim, room))
			return false;
	}
	return true;
}

/* Makes room for a request. */
static bool
make_room_for(const GpuScanCacheUse *use, GpuScanTier tier, uint64 bytes)
{
	uint64 limit = tier_limit(use->device, tier);
	Room room = {
		.device = use->device,
		.tier = tier,
		.target = limit - bytes,
		.before = use->background ? 0 : use->began,
		.drops = true,
	};

	return bytes <= limit && make_room(&room);
}

static bool
may_load_into(const GpuScanCacheUse *use, GpuScanTier tier)
{
	Room room = {
		.device = use->device,
		.tier = tier,
		.target = spare_limit(use->device, tier),
		.before = use->background ? 0 : use->began,
	};

	return tier_limit(use->device, tier) > 0 && (!is_full(&room) || find_victim(&room) != NULL);
}

bool
gpuscan_cache_may_load(GpuScanCacheUse *use)
{
	if (!use->knows_room)
		use->may_load = may_load_into(use, GPUSCAN_TIER_HOST) ||
						(has_tiers(use->device) && may_load_into(use, GPUSCAN_TIER_DEVICE));
	use->knows_room = true;
	return use->may_load;
}

void
gpuscan_cache_free_state(const GpuScanOpenDevice *device, GpuScanRangeState *state)
{
	count(device, GPUSCAN_TIER_HOST, -(int64) sizeof(GpuScanRangeState));
	pfree(state);
}

GpuScanRangeState *
gpuscan_cache_make_state(const GpuScanCacheUse *use)
{
	if (!make_room_for(use, GPUSCAN_TIER_HOST, sizeof(GpuScanRangeState)) &&
		totals[GPUSCAN_TIER_HOST] + sizeof(GpuScanRangeState) > gpuscan_cache_overhead_limit())
		return NULL;
	count(use->device, GPUSCAN_TIER_HOST, sizeof(GpuScanRangeState));
	return MemoryContextAlloc(gpuscan_cache_context, sizeof(GpuScanRangeState));
}

void
gpuscan_cache_put_chunk(const GpuScanCacheUse *use, Column *column, uint32 range,
						GpuScanChunk *made)
{
	GpuScanTier tier = tier_of(use->device, made);
	Chunk *chunk = MemoryContextAllocZero(gpuscan_cache_context, sizeof(Chunk));

	chunk->chunk = made;
	set_chunk(column, range, chunk);
	column->nchunks++;
	gpuscan_cache_count_range(column->table, column_number(column), 1);
	count_chunk(column, range, tier);
	count(use->device, tier, made->size);
	is_tidy = false;
	if (!make_room_for(use, tier, 0) &&
		!(tier == GPUSCAN_TIER_DEVICE && demote(column, range, use->background ? 0 : use->began)))
		gpuscan_cache_drop_chunk(column, range);
}

void
gpuscan_cache_expect_chunks(const GpuScanCacheUse *use, Column *const *columns,
							const GpuScanRangeState *state)
{
	uint32 ntuples = count_tuples(state);
	uint64 bytes = 0;

	if (!has_tiers(use->device))
		return;
	for (int i = 0; i < use->program->ninputs; i++)
	{
		const Column *column = columns[i];

		if (column->nchunks > 0)
			bytes += (column->bytes[GPUSCAN_TIER_DEVICE] + column->bytes[GPUSCAN_TIER_HOST]) /
					 column->nchunks;
		else
			bytes += ntuples * gpuscan_columns_value_size[column->cls];
	}
	(void) make_room_for(use, GPUSCAN_TIER_DEVICE, bytes * use->nfills);
}

/* ---- between requests ---- */

void
gpuscan_cache_use_column(const GpuScanCacheUse *use, Column *column)
{
	column->users++;
	if (use->background)
		return;
	column->used = Max(column->used, use->began);
	column->swaps = SWAPS_PER_USE;
}

void
gpuscan_cache_release_column(Column *column)
{
	const GpuScanOpenDevice *device = column->table->key.device;

	column->users--;
	if (used_bytes(device, GPUSCAN_TIER_HOST) > tier_limit(device, GPUSCAN_TIER_HOST) ||
		(has_tiers(device) &&
		 (column->bytes[GPUSCAN_TIER_HOST] > 0 ||
		  used_bytes(device, GPUSCAN_TIER_DEVICE) > spare_limit(device, GPUSCAN_TIER_DEVICE))))
		is_tidy = false;
}

/* The column of a device used last of those with chunks in the host's memory; NULL: none. */
static Column *
find_candidate(const GpuScanOpenDevice *device)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;
	Column *candidate = NULL;

	hash_seq_init(&status, gpuscan_cache_tables);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		slist_iter iter;

		if (entry->key.device != device)
			continue;
		slist_foreach(iter, &entry->table->columns)
		{
			Column *column = slist_container(Column, node, iter.cur);

			if (column->bytes[GPUSCAN_TIER_HOST] > 0 && column->users == 0 &&
				(candidate == NULL || column->used > candidate->used))
				candidate = column;
		}
	}
	return candidate;
}

/* Promotes some chunks of the host's memory.  False: there is nothing to do, or no room. */
static bool
promote_some(const GpuScanOpenDevice *device)
{
	Column *column = find_candidate(device);
	uint64 limit = spare_limit(device, GPUSCAN_TIER_DEVICE);
	uint32 end;
	bool any = false;

	/* a swap is two moves */
	while (column != NULL && moves_left > 1 && (end = last_chunk(column, GPUSCAN_TIER_HOST)) > 0)
	{
		uint32 size = column->chunks[end - 1]->chunk->size;
		Room room = {
			.device = device,
			.tier = GPUSCAN_TIER_DEVICE,
			.target = limit - size,
			.before = column->used,
			.drops = true,
		};

		if (size > limit)
			break;
		if (is_full(&room))
		{
			if (column->swaps == 0 || !make_room(&room))
				break;
			column->swaps--;
		}
		if (!move_chunk(column, end - 1, GPUSCAN_TIER_DEVICE))
			break;
		any = true;
	}
	return any;
}

/* Has what is in a tier fit its limit, if that was lowered.  False: it does. */
static bool
keep_limit(const GpuScanOpenDevice *device, GpuScanTier tier)
{
	uint64 used = used_bytes(device, tier);
	Room room = {
		.device = device,
		.tier = tier,
		.target = Max(tier_limit(device, tier), used - Min(used, DROPS_PER_TURN)),
		.before = PG_UINT64_MAX,
		.drops = true,
	};

	return is_full(&room) && make_room(&room);
}

/* Demotes some chunks, so that there is room for new ones.  False: there is, or there can be no more. */
static bool
demote_some(const GpuScanOpenDevice *device)
{
	uint64 used = used_bytes(device, GPUSCAN_TIER_DEVICE);
	Room room = {
		.device = device,
		.tier = GPUSCAN_TIER_DEVICE,
		.target = spare_limit(device, GPUSCAN_TIER_DEVICE),
		.before = PG_UINT64_MAX,
	};

	(void) make_room(&room);
	return used_bytes(device, GPUSCAN_TIER_DEVICE) < used;
}

bool
gpuscan_cache_tidy(bool idle)
{
	const GpuScanOpenDevice *device;

	moves_left = MOVES_PER_TURN;
	if (!idle || is_tidy)
		return false;
	if (keep_limit(NULL, GPUSCAN_TIER_HOST))
		return true;
	for (int i = 0; (device = gpuscan_devices_get(i)) != NULL; i++)
	{
		if (has_tiers(device) && (keep_limit(device, GPUSCAN_TIER_DEVICE) || demote_some(device) ||
								  promote_some(device)))
			return true;
	}
	is_tidy = true;
	return false;
}

void
gpuscan_cache_limits_changed(void)
{
	is_tidy = false;
}
