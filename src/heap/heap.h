/*-------------------------------------------------------------------------
 *
 * heap.h
 *	  Reading heap relations: visible tuples page by page, the layout that a
 *	  device needs to decode them, and the tuples that a device cannot decode.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_HEAP_H
#define GPUSCAN_HEAP_H

#include "gpuscan.h"

#include "access/htup.h"
#include "access/relscan.h"
#include "program/program.h"
#include "storage/buf.h"
#include "storage/bufpage.h"
#include "storage/off.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

typedef struct GpuScanHeapReader GpuScanHeapReader;

/*
 * Opens a scan of `rel`, which uses the heap access method and is locked,
 * under an MVCC snapshot, or our part of a parallel scan with the same snapshot.  Takes the predicate lock of a sequential scan and
 * counts as one in pg_stat.  Lives in the current memory context.
 */
extern GpuScanHeapReader *
gpuscan_heap_open(Relation rel, Snapshot snapshot, ParallelTableScanDesc parallel);

/*
 * The next page that has visible tuples: its buffer with a pin that becomes the
 * caller's, and the visible line pointers, valid until the next call; *offsets is
 * NULL for the first *ntuples.  False at the end.
 */
extern bool gpuscan_heap_next(GpuScanHeapReader *reader, Buffer *buffer,
							  const OffsetNumber **offsets, int *ntuples);
extern uint64 gpuscan_heap_blocks_read(const GpuScanHeapReader *reader);
extern void gpuscan_heap_close(GpuScanHeapReader *reader);

/*
 * The layout of rel's tuples for a Program whose column i is rel's attribute
 * attnums[i] (from 1, not dropped).  palloc'd.
 */
extern GpuScanLayout *gpuscan_heap_layout(Relation rel, const AttrNumber *attnums, int ncolumns);

/*
 * A copy of the tuple at a page's line pointer in which the attributes named
 * are detoasted and every other varlena attribute is NULL, palloc'd.
 */
extern HeapTuple gpuscan_heap_flatten(Relation rel, Page page, OffsetNumber offset,
									  const AttrNumber *attnums, int ncolumns);

#endif /* GPUSCAN_HEAP_H */
