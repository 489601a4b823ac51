/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading a heap relation page by page, as a sequential scan sees it.
 *
 *		open:	begin a sequential scan, with page-at-a-time visibility
 *		next:	for each block that is left, of those that are ours in a parallel scan
 *					settled: take down its normal line pointers
 *					loose: take down those of its visible tuples
 *					if any tuple is visible: return the page
 *		close:	end the scan
 *
 * A block is settled if the visibility map says so and, under the buffer lock,
 * so does the page: all its tuples are visible to every snapshot, which is what
 * heapgetpage() goes by too.  Such tuples are live, so they have no serializable
 * conflict that would have to be looked for, and there is nothing to prune.  (In
 * a snapshot taken during recovery no block is: see heapgetpage().)
 *
 * Every other block is loose.  What heapgetpage() does with it is done here: it
 * is pruned, then under the buffer lock each tuple's visibility is tested, or
 * remembered (loose.c).  Where serializable conflicts have to be looked for, heapgetpage() itself is
 * called, and its page pinned again.  The scan descriptor took the relation's
 * predicate lock and counted the scan.  So what is visible, locked, counted and
 * conflicting here is what a SeqScan node would have made of it.
 *
 * The caller gets a pin, so that a device can read the page in place
 * after the buffer lock is gone.  That is safe because tuples of a pinned page
 * do not move: pruning and vacuum's removal need a cleanup lock.
 *
 * Blocks are read from the first to the last, which is what the kernel's
 * readahead wants; in a parallel scan, in pieces that PostgreSQL deals out.
 * Synchronized scans are off, so that results come in the
 * order of the table whenever they come in order at all.  The bulk-read ring of
 * buffers is on; a page that is still pinned when its turn in the ring comes is
 * replaced there by another buffer.
 *
 * A device takes 50 GB/s of pages, six a microsecond, so what a settled block
 * costs here counts.  Neighbouring blocks often lie in neighbouring buffers,
 * which spares the look into the table of buffers, and lets us ask for the
 * memory of the next block ahead of time.  A wrong guess costs a comparison.
 *
 * Nothing leaks on an error: pins and the relation's reference count belong to
 * the current resource owner, memory to the current context, and the snapshot
 * is the caller's registered one.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/loose.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/snapmgr.h"

/* Of a page: its header and the line pointers of about 120 tuples */
#define PREFETCH_LINES 8
#define LINE_SIZE 64

/* Blocks whose parts are taken from a plan at once, if they are few */
#define BLOCKS_AT_ONCE 16

/* Of a plan whose loose pages are remembered; more would be forgotten before they are read again */
#define MAX_REMEMBERED_BLOCKS 16384

struct GpuScanHeapReader
{
	HeapScanDesc scan;
	BlockNumber next; /* the block that is read next, if we scan alone */
	GpuScanHeapCounts counts;
	Buffer map;	 /* the visibility map's page looked at last, pinned */
	Buffer last; /* the buffer of the settled block before */

	/* Where there is a plan */
	GpuScanHeapPlan *plan;
	bool remember; /* what is seen of loose pages */
	bool takes_kept;
	uint32 part;			  /* the next of those that are ours */
	uint32 end;				  /* of them */
	uint32 range;			  /* of the part that is being read */
	uint64 left;			  /* its blocks that are left */
	bool load;				  /* it is for the cache */
	uint64 visible;			  /* if so, what the map said at its start */
	GpuScanRangeState *state; /* if so */
	bool handed_out;		  /* the caller knows the state */

	OffsetNumber offsets[MaxHeapTuplesPerPage];
};

GpuScanHeapReader *
gpuscan_heap_open(Relation rel, Snapshot snapshot, ParallelTableScanDesc parallel,
				  GpuScanHeapPlan *plan, bool takes_kept)
{
	GpuScanHeapReader *reader = palloc0(sizeof(GpuScanHeapReader));
	TableScanDesc scan;

	Assert(rel->rd_tableam == GetHeapamTableAmRoutine());
	Assert(IsMVCCSnapshot(snapshot));

	if (parallel != NULL)
		scan = table_beginscan_parallel(rel, parallel);
	else
		scan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	reader->scan = (HeapScanDesc) scan;
	reader->plan = plan;
	reader->remember = plan != NULL && plan->nblocks <= MAX_REMEMBERED_BLOCKS;
	reader->takes_kept = takes_kept;
	if (parallel != NULL && plan == NULL)
		table_block_parallelscan_startblock_init(rel, reader->scan->rs_parallelworkerdata,
												 (ParallelBlockTableScanDesc) parallel);
	reader->map = InvalidBuffer;
	reader->last = InvalidBuffer;
	return reader;
}

/*
 * A range to load begins: what the map says is read before its blocks are.
 * Invariants 2 and 3 in README.md.
 */
static void
begin_load(GpuScanHeapReader *reader)
{
	if (reader->state == NULL || reader->handed_out)
		reader->state = palloc(sizeof(GpuScanRangeState));
	memset(reader->state, 0, sizeof(GpuScanRangeState));
	reader->handed_out = false;
	reader->state->range = reader->range;
	reader->state->map_lsn = gpuscan_heap_read_map(reader->scan->rs_base.rs_rd, reader->range, 1,
												   &reader->map, &reader->visible);
}

/*
 * Asks for the memory that read_loose() will look at of the pages of our parts that are remembered: of
 * all of them before the first is locked.  A lock waits until the processor has found the addresses of
 * what it was asked for, which takes long; many at once it finds side by side.
 */
static void
prefetch_remembered(const GpuScanHeapReader *reader)
{
	for (uint32 part = reader->part; part < reader->end; part++)
	{
		const GpuScanHeapPart *from = &reader->plan->parts[part];

		for (uint64 left = from->load ? 0 : from->blocks; left != 0; left &= left - 1)
		{
			BlockNumber block =
				gpuscan_range_first_block(from->range) + pg_rightmost_one_pos64(left);
			const GpuScanLoosePage *known =
				gpuscan_loose_recall(reader->scan->rs_base.rs_rd, block);

			if (known == NULL)
				continue;
			__builtin_prefetch(GetBufferDescriptor(known->buffer - 1));
			__builtin_prefetch(BufferGetBlock(known->buffer));
		}
	}
}

/* Takes the plan's next part, or a few that have not many blocks.  False: none is left. */
static bool
take_parts(GpuScanHeapReader *reader)
{
	GpuScanHeapPlan *plan = reader->plan;
	uint32 first = pg_atomic_read_u32(&plan->next);
	uint32 end;

	do
	{
		int nblocks = 0;

		end = first;
		while (end < plan->nparts && (end == first || nblocks < BLOCKS_AT_ONCE))
			nblocks += pg_popcount64(plan->parts[end++].blocks);
		if (end == first)
			return false;
	} while (!pg_atomic_compare_exchange_u32(&plan->next, &first, end));

	reader->part = first;
	reader->end = end;
	if (reader->remember)
		prefetch_remembered(reader);
	return true;
}

/* The next block of the plan */
static BlockNumber
next_planned_block(GpuScanHeapReader *reader)
{
	const GpuScanHeapPart *part;
	int i;

	while (reader->left == 0)
	{
		reader->load = false;
		if (reader->part == reader->end && !take_parts(reader))
			return InvalidBlockNumber;
		part = &reader->plan->parts[reader->part++];
		reader->range = part->range;
		reader->left = part->blocks;
		reader->load = part->load && reader->left != 0;
		if (reader->load)
			begin_load(reader);
	}
	i = pg_rightmost_one_pos64(reader->left);
	reader->left &= reader->left - 1;
	return gpuscan_range_first_block(reader->range) + i;
}

/* The next block to read; InvalidBlockNumber at the end. */
static BlockNumber
next_block(GpuScanHeapReader *reader)
{
	HeapScanDesc scan = reader->scan;

	if (reader->plan != NULL)
		return next_planned_block(reader);
	if (scan->rs_base.rs_parallel != NULL)
		return table_block_parallelscan_nextpage(
			scan->rs_base.rs_rd, scan->rs_parallelworkerdata,
			(ParallelBlockTableScanDesc) scan->rs_base.rs_parallel);
	return reader->next < scan->rs_nblocks ? reader->next++ : InvalidBlockNumber;
}

/* Asks for the memory of what pin_guess() and take_line_pointers() will look at. */
static void
prefetch_buffer(Buffer buffer)
{
	const char *page;

	if (buffer > NBuffers)
		return;
	page = (const char *) BufferGetBlock(buffer);
	__builtin_prefetch(GetBufferDescriptor(buffer - 1));
	for (int line = 0; line < PREFETCH_LINES; line++)
		__builtin_prefetch(page + line * LINE_SIZE);
}

/*
 * Pins a buffer if it holds the block.  Not if it has to be marked as used:
 * ReadRecentBuffer() does not do that.
 */
static Buffer
pin_guess(Relation rel, BlockNumber block, Buffer guess)
{
	BufferDesc *desc;

	if (guess <= InvalidBuffer || guess > NBuffers || RelationUsesLocalBuffers(rel))
		return InvalidBuffer;
	desc = GetBufferDescriptor(guess - 1);
	if (desc->tag.blockNum != block ||
		BUF_STATE_GET_USAGECOUNT(pg_atomic_read_u32(&desc->state)) == 0 ||
		!ReadRecentBuffer(rel->rd_node, MAIN_FORKNUM, block, guess))
		return InvalidBuffer;
	pgstat_count_buffer_read(rel);
	pgstat_count_buffer_hit(rel);
	return guess;
}

/*
 * The line pointers of a settled page.  *offsets is NULL if the first *ntuples
 * are normal and there are no others.
 */
static void
take_line_pointers(GpuScanHeapReader *reader, Page page, const OffsetNumber **offsets, int *ntuples)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	const ItemIdData *items = ((PageHeader) page)->pd_linp;
	bool all_normal = true;

	for (int i = 0; i < last; i++)
		all_normal &= ItemIdIsNormal(&items[i]);
	*offsets = NULL;
	*ntuples = last;
	if (all_normal)
		return;

	*offsets = reader->offsets;
	*ntuples = 0;
	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		if (ItemIdIsNormal(&items[offset - 1]))
			reader->offsets[(*ntuples)++] = offset;
	}
}

/*
 * Pins a block, and lets interrupts in.  It may be in the buffer that is remembered, else in the one
 * behind the last, and then so may the next block be.
 */
static Buffer
pin_block(GpuScanHeapReader *reader, BlockNumber block, const GpuScanLoosePage *known)
{
	HeapScanDesc scan = reader->scan;
	Buffer buffer;

	CHECK_FOR_INTERRUPTS();
	buffer =
		pin_guess(scan->rs_base.rs_rd, block, known != NULL ? known->buffer : reader->last + 1);
	if (!BufferIsValid(buffer))
		buffer = ReadBufferExtended(scan->rs_base.rs_rd, MAIN_FORKNUM, block, RBM_NORMAL,
									scan->rs_strategy);
	reader->last = buffer;
	if (known == NULL && !BufferIsLocal(buffer))
		prefetch_buffer(buffer + 1);
	return buffer;
}

/*
 * Pins a settled block and takes down its line pointers.  False if it turns out
 * to be loose.
 */
static bool
read_settled(GpuScanHeapReader *reader, BlockNumber block, GpuScanHeapPage *out, XLogRecPtr *lsn)
{
	HeapScanDesc scan = reader->scan;
	Relation rel = scan->rs_base.rs_rd;
	Page page;
	bool settled;

	out->buffer = pin_block(reader, block, NULL);
	LockBuffer(out->buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(out->buffer);
	TestForOldSnapshot(scan->rs_base.rs_snapshot, rel, page);
	settled = PageIsAllVisible(page);
	*lsn = PageGetLSN(page);
	out->ntuples = 0;
	if (settled)
		take_line_pointers(reader, page, &out->offsets, &out->ntuples);
	LockBuffer(out->buffer, BUFFER_LOCK_UNLOCK);
	if (out->ntuples == 0)
		ReleaseBuffer(out->buffer);
	return settled;
}

/*
 * Reads a block of a range to load, if it was all-visible when that began.
 * False if it turns out to be loose.
 *
 * In a snapshot taken during recovery the page's own flag does not tell: so the
 * map must not have changed since, which it does whenever a bit is set.
 */
static bool
load_block(GpuScanHeapReader *reader, BlockNumber block, GpuScanHeapPage *out)
{
	GpuScanRangeState *state = reader->state;
	int i = block - gpuscan_range_first_block(reader->range);
	uint64 bit = UINT64CONST(1) << i;
	uint64 visible;
	XLogRecPtr lsn;

	if ((reader->visible & bit) == 0 || !read_settled(reader, block, out, &lsn))
		return false;
	if (reader->scan->rs_base.rs_snapshot->takenDuringRecovery &&
		(gpuscan_heap_read_map(reader->scan->rs_base.rs_rd, reader->range, 1, &reader->map,
							   &visible) != state->map_lsn ||
		 (visible & bit) == 0))
	{
		if (out->ntuples > 0)
			ReleaseBuffer(out->buffer);
		return false;
	}
	state->blocks |= bit;
	state->lsns[i] = lsn;
	state->ntuples[i] = out->ntuples;
	out->fills = true;
	reader->counts.loaded++;
	return true;
}

/* Drops the pin that the scan keeps on its current page. */
static void
release_scan_page(HeapScanDesc scan)
{
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	scan->rs_cbuf = InvalidBuffer;
}

/*
 * Pins a loose block and takes down the line pointers of its visible tuples; of one that a
 * device keeps, and that has not changed, its number is enough.
 */
static void
read_loose(GpuScanHeapReader *reader, BlockNumber block, GpuScanLoosePage *known,
		   GpuScanHeapPage *out)
{
	HeapScanDesc scan = reader->scan;
	Relation rel = scan->rs_base.rs_rd;
	Snapshot snapshot = scan->rs_base.rs_snapshot;
	OffsetNumber *offsets = reader->offsets;
	GpuScanLoosePage found;
	bool is_known;

	out->buffer = pin_block(reader, block, known);
	heap_page_prune_opt(rel, out->buffer);
	LockBuffer(out->buffer, BUFFER_LOCK_SHARE);
	TestForOldSnapshot(snapshot, rel, BufferGetPage(out->buffer));
	is_known = known != NULL && gpuscan_loose_is_true(known, out->buffer, snapshot);
	if (is_known)
		known->buffer = out->buffer;
	else
		gpuscan_loose_examine(rel, snapshot, out->buffer, &found);
	LockBuffer(out->buffer, BUFFER_LOCK_UNLOCK);

	if (is_known && reader->takes_kept)
	{
		out->lsn = known->lsn;
		out->kept = known->kept;
	}
	if (out->kept != 0)
	{
		out->ntuples = known->ntuples;
		ReleaseBuffer(out->buffer);
		out->buffer = InvalidBuffer;
		return;
	}
	out->ntuples = gpuscan_loose_list(is_known ? known : &found, &offsets);
	out->offsets = offsets;
	if (reader->remember && !is_known && TransactionIdIsValid(found.xmin))
		gpuscan_loose_remember(rel, block, &found);
	if (out->ntuples == 0)
		ReleaseBuffer(out->buffer);
}

/* The same for a transaction whose conflicts with others count. */
static void
read_loose_serializable(GpuScanHeapReader *reader, BlockNumber block, GpuScanHeapPage *out)
{
	HeapScanDesc scan = reader->scan;

	heapgetpage(&scan->rs_base, block);
	out->ntuples = scan->rs_ntuples;
	out->offsets = scan->rs_vistuples;
	out->buffer = scan->rs_cbuf;
	if (out->ntuples > 0)
		IncrBufferRefCount(out->buffer);
}

/* Reads a block of any kind; if it has no tuples, nothing is pinned. */
static void
read_block(GpuScanHeapReader *reader, BlockNumber block, GpuScanHeapPage *out)
{
	HeapScanDesc scan = reader->scan;
	GpuScanLoosePage *known =
		reader->remember ? gpuscan_loose_recall(scan->rs_base.rs_rd, block) : NULL;
	bool is_kept = known != NULL && known->kept != 0 && reader->takes_kept;
	XLogRecPtr lsn;

	out->block = block;
	out->lsn = InvalidXLogRecPtr;
	out->kept = 0;
	out->fills = false;
	out->range = NULL;

	/* what a device keeps is read as it was, whatever the map says now */
	if (reader->load ? load_block(reader, block, out)
					 : !is_kept && !scan->rs_base.rs_snapshot->takenDuringRecovery &&
						   VM_ALL_VISIBLE(scan->rs_base.rs_rd, block, &reader->map) &&
						   read_settled(reader, block, out, &lsn))
		release_scan_page(scan);
	else
	{
		reader->counts.loose++;
		if (CheckForSerializableConflictOutNeeded(scan->rs_base.rs_rd, scan->rs_base.rs_snapshot))
			read_loose_serializable(reader, block, out);
		else
			read_loose(reader, block, known, out);
	}
	if (reader->load && out->ntuples > 0)
	{
		out->range = reader->state;
		reader->handed_out = true;
	}
}

void
gpuscan_heap_read_again(Relation rel, Snapshot snapshot, BlockNumber block, OffsetNumber *offsets,
						GpuScanHeapPage *page)
{
	GpuScanLoosePage found;

	*page = (GpuScanHeapPage){.block = block, .buffer = ReadBuffer(rel, block)};
	LockBuffer(page->buffer, BUFFER_LOCK_SHARE);
	gpuscan_loose_examine(rel, snapshot, page->buffer, &found);
	LockBuffer(page->buffer, BUFFER_LOCK_UNLOCK);
	if (TransactionIdIsValid(found.xmin))
		page->lsn = found.lsn;
	page->ntuples = gpuscan_loose_list(&found, &offsets);
	page->offsets = offsets;
}

static void
release_map(GpuScanHeapReader *reader)
{
	if (BufferIsValid(reader->map))
		ReleaseBuffer(reader->map);
	reader->map = InvalidBuffer;
}

bool
gpuscan_heap_next(GpuScanHeapReader *reader, GpuScanHeapPage *page)
{
	HeapScanDesc scan = reader->scan;
	BlockNumber block;

	while ((block = next_block(reader)) != InvalidBlockNumber)
	{
		reader->counts.read++;
		read_block(reader, block, page);
		if (page->ntuples == 0)
			continue;

		/* In bulk what pgstat_count_heap_getnext() counts one by one */
		gpuscan_heap_count_tuples(scan->rs_base.rs_rd, page->ntuples);
		return true;
	}

	/* Waiting for a device's result must not keep vacuum off the last page */
	release_map(reader);
	release_scan_page(scan);
	return false;
}

void
gpuscan_heap_extend(GpuScanHeapReader *reader, GpuScanHeapPlan *plan)
{
	reader->plan = plan;
}

GpuScanHeapCounts
gpuscan_heap_counts(const GpuScanHeapReader *reader)
{
	return reader->counts;
}

/*
 * Ends the scan.  Pins that gpuscan_heap_next gave away stay.
 */
void
gpuscan_heap_close(GpuScanHeapReader *reader)
{
	release_map(reader);
	table_endscan(&reader->scan->rs_base);
	pfree(reader);
}
