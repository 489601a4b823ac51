/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading a heap relation page by page, as a sequential scan sees it.
 *
 *		open:	begin a sequential scan, with page-at-a-time visibility
 *		next:	for each block that is left
 *					settled: take down its normal line pointers
 *					loose: heapgetpage(), and pin the page again
 *					if any tuple is visible: return the page
 *		close:	end the scan
 *
 * A block is settled if the visibility map says so and, under the buffer lock,
 * so does the page: all its tuples are visible to every snapshot, which is what
 * heapgetpage() goes by too.  Such tuples are live, so they have no serializable
 * conflict that would have to be looked for, and there is nothing to prune.  (In
 * a snapshot taken during recovery no block is: see heapgetpage().)
 *
 * Every other block is loose.  For it, heapgetpage() is the sequential scan's own routine: it prunes, takes the
 * buffer lock, tests each tuple's visibility (hint bits, HOT chains, our own
 * commands), looks for serializable conflicts and lets interrupts in, once a
 * page.  The scan descriptor took the relation's predicate lock and counted the
 * scan.  So what is visible, locked, counted and conflicting here is what a
 * SeqScan node would have made of it, by construction.
 *
 * The scan keeps one pin, on its current page, and drops it on the next.  The
 * caller gets a pin of its own, so that a device can read the page in place
 * after the buffer lock is gone.  That is safe because tuples of a pinned page
 * do not move: pruning and vacuum's removal need a cleanup lock.
 *
 * Blocks are read from the first to the last, which is what the kernel's
 * readahead wants.  Synchronized scans are off, so that results come in the
 * order of the table whenever they come in order at all.  The bulk-read ring of
 * buffers is on; a page that is still pinned when its turn in the ring comes is
 * replaced there by another buffer.
 *
 * Nothing leaks on an error: pins and the relation's reference count belong to
 * the current resource owner, memory to the current context, and the snapshot
 * is the caller's registered one.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/heap.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

struct GpuScanHeapReader
{
	HeapScanDesc scan;
	BlockNumber next; /* the block that is read next */
	Buffer map;		  /* the visibility map's page looked at last, pinned */
	OffsetNumber settled[MaxHeapTuplesPerPage];
};

GpuScanHeapReader *
gpuscan_heap_open(Relation rel, Snapshot snapshot)
{
	GpuScanHeapReader *reader = palloc(sizeof(GpuScanHeapReader));

	Assert(rel->rd_tableam == GetHeapamTableAmRoutine());
	Assert(IsMVCCSnapshot(snapshot));

	reader->scan = (HeapScanDesc) table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	reader->next = 0;
	reader->map = InvalidBuffer;
	return reader;
}

/*
 * Pins a settled block and takes down its line pointers.  False if it turns out
 * to be loose.
 */
static bool
read_settled(GpuScanHeapReader *reader, BlockNumber block, Buffer *buffer, int *ntuples)
{
	HeapScanDesc scan = reader->scan;
	Relation rel = scan->rs_base.rs_rd;
	Page page;
	bool settled;

	CHECK_FOR_INTERRUPTS();
	*buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, scan->rs_strategy);
	LockBuffer(*buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(*buffer);
	TestForOldSnapshot(scan->rs_base.rs_snapshot, rel, page);
	settled = PageIsAllVisible(page);
	*ntuples = 0;
	if (settled)
	{
		OffsetNumber last = PageGetMaxOffsetNumber(page);

		for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
		{
			if (ItemIdIsNormal(PageGetItemId(page, offset)))
				reader->settled[(*ntuples)++] = offset;
		}
	}
	LockBuffer(*buffer, BUFFER_LOCK_UNLOCK);
	if (*ntuples == 0)
		ReleaseBuffer(*buffer);
	return settled;
}

/* Drops the pin that the scan keeps on its current page. */
static void
release_scan_page(HeapScanDesc scan)
{
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	scan->rs_cbuf = InvalidBuffer;
}

/* The same for a block of any kind; *ntuples = 0: nothing is pinned. */
static void
read_block(GpuScanHeapReader *reader, BlockNumber block, Buffer *buffer,
		   const OffsetNumber **offsets, int *ntuples)
{
	HeapScanDesc scan = reader->scan;

	if (!scan->rs_base.rs_snapshot->takenDuringRecovery &&
		VM_ALL_VISIBLE(scan->rs_base.rs_rd, block, &reader->map) &&
		read_settled(reader, block, buffer, ntuples))
	{
		*offsets = reader->settled;
		release_scan_page(scan);
		return;
	}
	heapgetpage(&scan->rs_base, block);
	*ntuples = scan->rs_ntuples;
	*offsets = scan->rs_vistuples;
	*buffer = scan->rs_cbuf;
	if (*ntuples > 0)
		IncrBufferRefCount(*buffer);
}

static void
release_map(GpuScanHeapReader *reader)
{
	if (BufferIsValid(reader->map))
		ReleaseBuffer(reader->map);
	reader->map = InvalidBuffer;
}

bool
gpuscan_heap_next(GpuScanHeapReader *reader, Buffer *buffer, const OffsetNumber **offsets,
				  int *ntuples)
{
	HeapScanDesc scan = reader->scan;
	Relation rel = scan->rs_base.rs_rd;

	while (reader->next < scan->rs_nblocks)
	{
		read_block(reader, reader->next++, buffer, offsets, ntuples);
		if (*ntuples == 0)
			continue;

		/* In bulk what pgstat_count_heap_getnext() counts one by one */
		if (pgstat_should_count_relation(rel))
			rel->pgstat_info->t_counts.t_tuples_returned += *ntuples;
		return true;
	}

	/* Waiting for a device's result must not keep vacuum off the last page */
	release_map(reader);
	release_scan_page(scan);
	return false;
}

/*
 * Blocks read so far, those without visible tuples included.
 */
uint64
gpuscan_heap_blocks_read(const GpuScanHeapReader *reader)
{
	return reader->next;
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
