/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  From what a backend says of a batch to what the device gets.
 *
 * What a backend wrote is taken for what a buggy backend may have written: descriptions
 * of blocks are turned into private ones, with addresses of this process.  The
 * line pointer numbers and staged tuples of a pushed batch are checked in
 * place: a backend does not change a batch before it is done, and the device
 * checks what it reads of pages and tuples anyway.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/blocks.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* Makes the device's block of the backend's.  False if it is not well formed. */
static bool
take_block(uint32 nlayouts, GpuScanChannelBatch *batch, uint32 i, GpuScanBlock *block)
{
	GpuScanChannelBlock from = batch->blocks[i];
	bool staged = from.kind == GPUSCAN_STAGED;
	bool in_staging = staged || from.buffer == InvalidBuffer;
	Size item_size = staged ? sizeof(GpuScanStagedTuple) : sizeof(OffsetNumber);

	if (in_staging && (from.page % MAXIMUM_ALIGNOF != 0 || from.page > GPUSCAN_BATCH_STAGING))
		return false;
	if (from.layout >= nlayouts || from.ntuples == 0 || from.ntuples > GPUSCAN_BLOCK_TUPLES ||
		from.outcome > GPUSCAN_BATCH_TUPLES - from.ntuples || from.items % MAXIMUM_ALIGNOF != 0 ||
		(from.kind != GPUSCAN_PAGE_ALL &&
		 from.items > GPUSCAN_BATCH_ITEMS - from.ntuples * item_size))
		return false;

	*block = (GpuScanBlock){
		.ntuples = from.ntuples,
		.layout = from.layout,
		.outcome = batch->outcome + from.outcome,
		.fills = from.fills,
	};

	if (staged)
	{
		const GpuScanStagedTuple *staged = (GpuScanStagedTuple *) (batch->items + from.items);
		uint32 limit = GPUSCAN_BATCH_STAGING - from.page;
		uint32 used = 0;

		for (uint32 t = 0; t < from.ntuples; t++)
		{
			if (staged[t].offset % MAXIMUM_ALIGNOF != 0 || staged[t].offset > limit ||
				staged[t].len < SizeofHeapTupleHeader || staged[t].len > limit - staged[t].offset)
				return false;
			used = Max(used, MAXALIGN(staged[t].offset + staged[t].len));
		}
		block->staged = staged;
		block->base = batch->staging + from.page;
		block->size = used;
	}
	else
	{
		/* which lie in another core's cache, and are the device's to check */
		if (from.kind == GPUSCAN_PAGE_LISTED)
			block->offsets = (OffsetNumber *) (batch->items + from.items);
		block->size = BLCKSZ;
		if (from.buffer == InvalidBuffer)
		{
			if (from.page > GPUSCAN_BATCH_STAGING - BLCKSZ)
				return false;
			block->base = batch->staging + from.page;
		}
		else
		{
			/* Shared buffers lie at one address in every process. */
			if (from.buffer < 1 || from.buffer > NBuffers)
				return false;
			block->base = BufferGetBlock(from.buffer);
		}
	}
	return true;
}

/* Has a page kept that is not yet. */
static void
keep(GpuScanTakenBlocks *taken, const GpuScanCacheUse *use, GpuScanChannelBlock *from,
	 GpuScanBlock *block)
{
	GpuScanKeptPage page = {.block = from->block, .ntuples = block->ntuples, .lsn = from->lsn};

	if (page.lsn == InvalidXLogRecPtr || block->staged != NULL)
		return;
	block->kept = gpuscan_cache_begin_keep(use, block->layout, &page);
	if (block->kept != 0)
		taken->kept[taken->nkept++] = page.number;
	from->kept = page.number;
}

/* Makes the device's block of a page that it keeps; false if it does not. */
static bool
take_kept(GpuScanTakenBlocks *taken, const GpuScanCacheUse *use, GpuScanChannelBatch *batch,
		  uint32 i, GpuScanBlock *block)
{
	GpuScanChannelKept from = batch->kept[i];
	GpuScanKeptPage page = {
		.block = from.block, .ntuples = from.ntuples, .lsn = from.lsn, .number = from.kept};
	uint64 place = gpuscan_cache_use_kept(use, from.layout, &page);

	if (place == 0)
	{
		batch->kept[i].missing = true;
		batch->nmissing++;
		return false;
	}
	*block = (GpuScanBlock){
		.size = BLCKSZ,
		.ntuples = from.ntuples,
		.layout = from.layout,
		.deferred = batch->deferred[i],
		.kept = place,
	};
	taken->kept[taken->nkept++] = page.number;
	return true;
}

static void
reserve(GpuScanTakenBlocks *taken, uint32 n)
{
	if (n <= taken->capacity)
		return;
	if (taken->capacity > 0)
	{
		pfree(taken->blocks);
		pfree(taken->kept);
	}
	taken->capacity = Max(n, GPUSCAN_BATCH_BLOCKS);
	taken->blocks = MemoryContextAlloc(TopMemoryContext, taken->capacity * sizeof(GpuScanBlock));
	taken->kept = MemoryContextAlloc(TopMemoryContext, taken->capacity * sizeof(uint32));
}

const char *
gpuscan_blocks_take(GpuScanTakenBlocks *taken, GpuScanChannelBatch *batch, uint32 nlayouts,
					const GpuScanCacheUse *use)
{
	uint32 nblocks = batch->nblocks;
	uint32 nkept = batch->nkept;

	Assert(taken->nkept == 0);
	taken->n = 0;
	batch->nmissing = 0;
	if (nblocks > GPUSCAN_BATCH_BLOCKS || nkept > GPUSCAN_BATCH_KEPT || nblocks + nkept == 0 ||
		(nkept > 0 && use == NULL))
		return "the number of a batch's blocks is wrong";
	reserve(taken, nblocks + nkept);
	for (; taken->n < nblocks; taken->n++)
	{
		if (!take_block(nlayouts, batch, taken->n, &taken->blocks[taken->n]))
			return "a block is not well formed";
		if (use != NULL)
			keep(taken, use, &batch->blocks[taken->n], &taken->blocks[taken->n]);
	}
	for (uint32 i = 0; i < nkept; i++)
		taken->n += take_kept(taken, use, batch, i, &taken->blocks[taken->n]);
	return NULL;
}

void
gpuscan_blocks_end(GpuScanTakenBlocks *taken, bool good)
{
	for (uint32 i = 0; i < taken->nkept; i++)
		gpuscan_cache_end_kept(taken->kept[i], good);
	taken->nkept = 0;
}
