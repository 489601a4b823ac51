/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading a heap relation page by page, as a sequential scan sees it.
 *
 *		open:	begin a sequential scan, with page-at-a-time visibility
 *		next:	for each block that is left
 *					heapgetpage()
 *					if any tuple is visible: pin the page again, return it
 *		close:	end the scan
 *
 * heapgetpage() is the sequential scan's own routine: it prunes, takes the
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
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

struct GpuScanHeapReader
{
	HeapScanDesc scan;
	BlockNumber next; /* the block that is read next */
};

GpuScanHeapReader *
gpuscan_heap_open(Relation rel, Snapshot snapshot)
{
	GpuScanHeapReader *reader = palloc(sizeof(GpuScanHeapReader));

	Assert(rel->rd_tableam == GetHeapamTableAmRoutine());
	Assert(IsMVCCSnapshot(snapshot));

	reader->scan = (HeapScanDesc) table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	reader->next = 0;
	return reader;
}

bool
gpuscan_heap_next(GpuScanHeapReader *reader, Buffer *buffer, const OffsetNumber **offsets,
				  int *ntuples)
{
	HeapScanDesc scan = reader->scan;
	Relation rel = scan->rs_base.rs_rd;

	while (reader->next < scan->rs_nblocks)
	{
		heapgetpage(&scan->rs_base, reader->next++);
		if (scan->rs_ntuples == 0)
			continue;

		/* In bulk what pgstat_count_heap_getnext() counts one by one */
		if (pgstat_should_count_relation(rel))
			rel->pgstat_info->t_counts.t_tuples_returned += scan->rs_ntuples;

		IncrBufferRefCount(scan->rs_cbuf);
		*buffer = scan->rs_cbuf;
		*offsets = scan->rs_vistuples;
		*ntuples = scan->rs_ntuples;
		return true;
	}

	/* Waiting for a device's result must not keep vacuum off the last page */
	if (BufferIsValid(scan->rs_cbuf))
	{
		ReleaseBuffer(scan->rs_cbuf);
		scan->rs_cbuf = InvalidBuffer;
	}
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
	table_endscan(&reader->scan->rs_base);
	pfree(reader);
}
