/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Filling a batch with pages and tuples, and reading what became of them.
 *
 * A page is read in place, from the shared buffer, which stays pinned until
 * the batch is released.  A session holds no more pins than its share; beyond
 * that, and for temporary tables, whose buffers no other process can see, the
 * page is copied into the batch.  The copy is made without a lock, under the
 * same argument that lets the device read the page without one: under a pin
 * the tuples that the line pointers name neither move nor change what a
 * device reads of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/client_impl.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/fmgrprotos.h"

/* How far ahead the descriptors of buffers are asked for, which others have pinned meanwhile */
#define UNPIN_AHEAD 8

bool
gpuscan_client_add_page(GpuScanClientBatch *batch, uint32 layout, Buffer buffer,
						const OffsetNumber *offsets, int ntuples, bool fills)
{
	GpuScanChannelBatch *shared = batch->shared;
	bool copied = BufferIsLocal(buffer) || batch->client->pins >= batch->client->max_pins;
	Size items_size = offsets ? MAXALIGN(ntuples * sizeof(OffsetNumber)) : 0;
	GpuScanChannelBlock *block;

	Assert(batch->state == GPUSCAN_BATCH_FILLING);
	Assert(ntuples > 0 && ntuples <= GPUSCAN_BLOCK_TUPLES);

	if (batch->nblocks >= batch->max_blocks || batch->ntuples + ntuples > GPUSCAN_BATCH_TUPLES ||
		batch->items + items_size > GPUSCAN_BATCH_ITEMS ||
		(copied && batch->staging + BLCKSZ > GPUSCAN_BATCH_STAGING))
		return false;

	block = &shared->blocks[batch->nblocks];
	*block = (GpuScanChannelBlock){
		.kind = offsets ? GPUSCAN_PAGE_LISTED : GPUSCAN_PAGE_ALL,
		.layout = layout,
		.ntuples = ntuples,
		.buffer = copied ? InvalidBuffer : buffer,
		.items = batch->items,
		.outcome = batch->ntuples,
		.fills = fills,
	};
	if (offsets)
		memcpy(shared->items + batch->items, offsets, ntuples * sizeof(OffsetNumber));
	batch->buffers[batch->nblocks] = block->buffer;
	batch->blknos[batch->nblocks] = BufferGetBlockNumber(buffer);
	if (copied)
	{
		block->page = batch->staging;
		memcpy(shared->staging + batch->staging, BufferGetPage(buffer), BLCKSZ);
		batch->staging += BLCKSZ;
		ReleaseBuffer(buffer);
	}
	else
		batch->client->pins++;
	batch->nblocks++;
	batch->ntuples += ntuples;
	batch->items += items_size;
	return true;
}

void
gpuscan_client_keep_page(GpuScanClientBatch *batch, XLogRecPtr lsn)
{
	GpuScanChannelBlock *block = &batch->shared->blocks[batch->nblocks - 1];

	Assert(block->kind != GPUSCAN_STAGED);
	block->block = batch->blknos[batch->nblocks - 1];
	block->lsn = lsn;
}

bool
gpuscan_client_add_kept(GpuScanClientBatch *batch, uint32 layout, BlockNumber block, XLogRecPtr lsn,
						uint32 kept, int ntuples)
{
	if (batch->nkept == GPUSCAN_BATCH_KEPT)
		return false;
	batch->shared->kept[batch->nkept++] = (GpuScanChannelKept){
		.kept = kept,
		.layout = layout,
		.block = block,
		.ntuples = ntuples,
		.lsn = lsn,
	};
	return true;
}

uint32
gpuscan_client_num_kept(const GpuScanClientBatch *batch)
{
	return batch->shared->nmissing > 0 || batch->shared->ndeferred > 0 ? batch->nkept : 0;
}

GpuScanClientKept
gpuscan_client_kept(const GpuScanClientBatch *batch, uint32 i)
{
	const GpuScanChannelKept *kept = &batch->shared->kept[i];

	return (GpuScanClientKept){
		.layout = kept->layout,
		.blkno = kept->block,
		.lsn = kept->lsn,
		.ntuples = kept->ntuples,
		.missing = kept->missing,
		.deferred =
			batch->shared->ndeferred > 0 && !kept->missing ? batch->shared->deferred[i] : NULL,
	};
}

/* The block that one more staged tuple goes to; NULL if the batch is full. */
static GpuScanChannelBlock *
staged_block(GpuScanClientBatch *batch, uint32 layout, bool fills)
{
	GpuScanChannelBlock *block;

	if (batch->ntuples == GPUSCAN_BATCH_TUPLES ||
		batch->items + sizeof(GpuScanStagedTuple) > GPUSCAN_BATCH_ITEMS)
		return NULL;

	if (batch->nblocks > 0)
	{
		block = &batch->shared->blocks[batch->nblocks - 1];
		if (block->kind == GPUSCAN_STAGED && block->layout == layout && block->fills == fills &&
			block->ntuples < GPUSCAN_BLOCK_TUPLES)
			return block;
	}

	if (batch->nblocks == GPUSCAN_BATCH_BLOCKS)
		return NULL;
	batch->buffers[batch->nblocks] = InvalidBuffer;
	batch->blknos[batch->nblocks] = InvalidBlockNumber;
	block = &batch->shared->blocks[batch->nblocks++];
	*block = (GpuScanChannelBlock){
		.kind = GPUSCAN_STAGED,
		.layout = layout,
		.buffer = InvalidBuffer,
		.page = batch->staging,
		.items = batch->items,
		.outcome = batch->ntuples,
		.fills = fills,
	};
	return block;
}

Size
gpuscan_client_max_tuple_size(void)
{
	return GPUSCAN_BATCH_STAGING;
}

bool
gpuscan_client_add_tuple(GpuScanClientBatch *batch, uint32 layout, HeapTuple tuple, bool fills)
{
	Size size = MAXALIGN(tuple->t_len);
	GpuScanChannelBlock *block;
	GpuScanStagedTuple *staged;

	Assert(batch->state == GPUSCAN_BATCH_FILLING);

	if (size > GPUSCAN_BATCH_STAGING)
		batch->client->failure = "a tuple is too large for the request's memory";
	if (size > GPUSCAN_BATCH_STAGING - batch->staging)
		return false;
	block = staged_block(batch, layout, fills);
	if (block == NULL)
		return false;

	staged = (GpuScanStagedTuple *) (batch->shared->items + batch->items);
	staged->offset = batch->staging - block->page;
	staged->len = tuple->t_len;
	memcpy(batch->shared->staging + batch->staging, tuple->t_data, tuple->t_len);
	block->ntuples++;
	batch->ntuples++;
	batch->items += sizeof(GpuScanStagedTuple);
	batch->staging += size;
	return true;
}

GpuScanCacheSurvey *
gpuscan_client_survey(GpuScanClientBatch *batch, uint32 *max_pages)
{
	Assert(batch->nblocks == 0);
	batch->shared->kind = GPUSCAN_KIND_SURVEY;
	*max_pages = batch->client->is_scan ? GPUSCAN_SEEK_PAGES : GPUSCAN_SURVEY_PAGES;
	return (GpuScanCacheSurvey *) batch->shared->items;
}

bool
gpuscan_client_is_survey(const GpuScanClientBatch *batch)
{
	return batch->shared->kind == GPUSCAN_KIND_SURVEY;
}

GpuScanCacheLookup *
gpuscan_client_lookup(GpuScanClientBatch *batch, XLogRecPtr **lsns)
{
	StaticAssertStmt(sizeof(GpuScanCacheLookup) <= GPUSCAN_BATCH_ITEMS, "a lookup is too large");
	StaticAssertStmt(GPUSCAN_MAP_RANGES * GPUSCAN_RANGE_BLOCKS * sizeof(XLogRecPtr) <=
						 GPUSCAN_BATCH_STAGING,
					 "a lookup's LSNs are too many");
	Assert(batch->nblocks == 0);
	batch->shared->kind = GPUSCAN_KIND_LOOKUP;
	*lsns = (XLogRecPtr *) batch->shared->staging;
	return (GpuScanCacheLookup *) batch->shared->items;
}

bool
gpuscan_client_is_question(const GpuScanClientBatch *batch)
{
	return batch->shared->kind >= GPUSCAN_KIND_SURVEY;
}

const uint64 *
gpuscan_client_hits(const GpuScanClientBatch *batch)
{
	return (const uint64 *) batch->shared->staging;
}

/* For tests: waits for whoever has the advisory lock. */
static void
wait_for_test(void)
{
	GpuScanFault fault = gpuscan_fault_parse(gpuscan_inject_fault);

	if (fault.kind != GPUSCAN_FAULT_WAIT || fault.point != GPUSCAN_AT_LOAD)
		return;
	DirectFunctionCall1(pg_advisory_lock_int8, Int64GetDatum(1));
	DirectFunctionCall1(pg_advisory_unlock_int8, Int64GetDatum(1));
}

void
gpuscan_client_expect_range(GpuScanClientBatch *batch)
{
	StaticAssertStmt(GPUSCAN_RANGE_BLOCKS <= GPUSCAN_BATCH_BLOCKS &&
						 GPUSCAN_RANGE_TUPLES <= GPUSCAN_BATCH_TUPLES,
					 "a range does not fit a batch");
	Assert(batch->nblocks == 0);
	batch->max_blocks = GPUSCAN_RANGE_BLOCKS;
	wait_for_test();
}

void
gpuscan_client_fill(GpuScanClientBatch *batch, uint32 layout, const GpuScanRangeState *state)
{
	batch->shared->kind = GPUSCAN_KIND_FILL;
	batch->shared->fill.layout = layout;
	batch->shared->fill.unfit = batch->spoiled;
	batch->shared->fill.state = *state;
}

void
gpuscan_client_spoil(GpuScanClientBatch *batch)
{
	batch->spoiled = true;
}

bool
gpuscan_client_is_spoiled(const GpuScanClientBatch *batch)
{
	return batch->spoiled;
}

bool
gpuscan_client_batch_is_empty(const GpuScanClientBatch *batch)
{
	return batch->nblocks == 0 && batch->nkept == 0;
}

int
gpuscan_client_num_blocks(const GpuScanClientBatch *batch)
{
	return batch->nblocks;
}

uint32
gpuscan_client_num_deferred(const GpuScanClientBatch *batch)
{
	return batch->shared->ndeferred;
}

GpuScanClientBlock
gpuscan_client_block(const GpuScanClientBatch *batch, int i)
{
	GpuScanChannelBatch *shared = batch->shared;
	const GpuScanChannelBlock *block = &shared->blocks[i];
	GpuScanClientBlock result = {
		.layout = block->layout,
		.buffer = batch->buffers[i],
		.blkno = batch->blknos[i],
		.lsn = block->lsn,
		.kept = block->kept,
		.ntuples = block->ntuples,
		.outcome = shared->outcome + block->outcome,
	};

	if (block->kind != GPUSCAN_STAGED)
	{
		if (block->kind == GPUSCAN_PAGE_LISTED)
			result.offsets = (const OffsetNumber *) (shared->items + block->items);
		result.page = BufferIsValid(result.buffer) ? BufferGetPage(result.buffer)
												   : (Page) (shared->staging + block->page);
	}
	return result;
}

void
gpuscan_batch_unpin(GpuScanClientBatch *batch)
{
	for (uint32 i = 0; i < batch->nblocks; i++)
	{
		if (i + UNPIN_AHEAD < batch->nblocks && BufferIsValid(batch->buffers[i + UNPIN_AHEAD]))
			__builtin_prefetch(GetBufferDescriptor(batch->buffers[i + UNPIN_AHEAD] - 1));
		if (BufferIsValid(batch->buffers[i]))
		{
			ReleaseBuffer(batch->buffers[i]);
			batch->buffers[i] = InvalidBuffer;
			batch->client->pins--;
		}
	}
}
