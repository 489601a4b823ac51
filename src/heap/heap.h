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
#include "columns/ranges.h"
#include "nodes/pg_list.h"
#include "port/atomics.h"
#include "program/program.h"
#include "storage/buf.h"
#include "storage/bufpage.h"
#include "storage/off.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

typedef struct GpuScanHeapReader GpuScanHeapReader;

/* Blocks of a range that are to be read */
typedef struct GpuScanHeapPart
{
	uint32 range;
	bool load; /* for the cache */
	uint64 blocks;
} GpuScanHeapPart;

/*
 * What is to be read of a relation while the cache answers the rest.  Flat, so
 * that processes can share it: whoever is free takes the next part.
 */
typedef struct GpuScanHeapPlan
{
	pg_atomic_uint32 next;
	uint32 nparts;
	uint64 nblocks; /* in all parts */
	GpuScanHeapPart parts[FLEXIBLE_ARRAY_MEMBER];
} GpuScanHeapPlan;

static inline Size
gpuscan_heap_plan_size(uint32 nparts)
{
	return offsetof(GpuScanHeapPlan, parts) + nparts * sizeof(GpuScanHeapPart);
}

/*
 * Opens a scan of `rel`, which uses the heap access method and is locked,
 * under an MVCC snapshot, or our part of a parallel scan with the same snapshot,
 * of all blocks or those of `plan`.  With `takes_kept` it gives pages that a device
 * keeps without their buffers.  Takes the predicate lock of a sequential scan and
 * counts as one in pg_stat.  Lives in the current memory context.
 */
extern GpuScanHeapReader *
gpuscan_heap_open(Relation rel, Snapshot snapshot, ParallelTableScanDesc parallel,
				  GpuScanHeapPlan *plan, bool takes_kept);

/* A page that has visible tuples */
typedef struct GpuScanHeapPage
{
	BlockNumber block;
	Buffer buffer;	/* with a pin that becomes the caller's; InvalidBuffer: it is kept */
	XLogRecPtr lsn; /* if a device may keep the page, else 0 */
	uint32 kept;	/* the number by which it does, or 0 */
	const OffsetNumber *offsets; /* of them, valid until the next call; NULL: the first ntuples */
	int ntuples;
	GpuScanRangeState *range; /* of a range to load, palloc'd, the caller's once it is complete:
							   * when the next page is of another one */
	bool fills;				  /* it is one of range->blocks */
} GpuScanHeapPage;

/* The line pointer number of its tuple i. */
static inline OffsetNumber
gpuscan_heap_line_pointer(const GpuScanHeapPage *page, int i)
{
	return page->offsets != NULL ? page->offsets[i] : FirstOffsetNumber + i;
}

/* The next page; false at the end. */
extern bool gpuscan_heap_next(GpuScanHeapReader *reader, GpuScanHeapPage *page);

/*
 * A page of a device that has turned out not to keep it, or that has tuples which it cannot
 * decode: its tuples that are visible, in the same order as before.  `offsets` has room for them.
 */
extern void gpuscan_heap_read_again(Relation rel, Snapshot snapshot, BlockNumber block,
									OffsetNumber *offsets, GpuScanHeapPage *page);

/* Where a device keeps the page as it is with this LSN; 0: it does not. */
extern void gpuscan_heap_set_kept(Relation rel, BlockNumber block, XLogRecPtr lsn, uint32 kept);

/* The plan lies elsewhere and may have more parts; after the end of the last one too. */
extern void gpuscan_heap_extend(GpuScanHeapReader *reader, GpuScanHeapPlan *plan);

/* Blocks so far */
typedef struct GpuScanHeapCounts
{
	uint64 read;   /* those without visible tuples included */
	uint64 loaded; /* for the cache */
	uint64 loose;
} GpuScanHeapCounts;

extern GpuScanHeapCounts gpuscan_heap_counts(const GpuScanHeapReader *reader);
extern void gpuscan_heap_close(GpuScanHeapReader *reader);

/* map.c */

/* Whether LSNs tell that a block of the relation has not changed. */
extern bool gpuscan_heap_is_cacheable(Relation rel);

/* The blocks of a range that a relation of so many blocks has. */
static inline uint64
gpuscan_heap_range_blocks(uint32 range, BlockNumber nblocks)
{
	BlockNumber first = gpuscan_range_first_block(range);
	BlockNumber end = Min(nblocks, gpuscan_range_first_block(range + 1));

	if (first >= end)
		return 0;
	return ~UINT64CONST(0) >> (GPUSCAN_RANGE_BLOCKS - (end - first));
}

/* The blocks that a relation of so many has in a page of the map. */
static inline uint32
gpuscan_heap_map_page_blocks(uint32 map_page, BlockNumber nblocks)
{
	return Min(nblocks - map_page * GPUSCAN_MAP_BLOCKS, GPUSCAN_MAP_BLOCKS);
}

/*
 * Whether the first n > 0 blocks of a map page are all-visible, and its LSN.  *map keeps a
 * pin of the map page looked at last.
 */
extern XLogRecPtr
gpuscan_heap_survey_map(Relation rel, uint32 map_page, uint32 n, Buffer *map, bool *all_visible);

/* The all-visible blocks of n ranges of one map page, and its LSN; the same. */
extern XLogRecPtr
gpuscan_heap_read_map(Relation rel, uint32 first, int n, Buffer *map, uint64 *visible);

/* The LSNs of the pages of some of the blocks of n ranges, one after the other. */
extern void
gpuscan_heap_read_lsns(Relation rel, uint32 first, int n, const uint64 *blocks, XLogRecPtr *lsns);

/* Counts tuples in pg_stat as a sequential scan does. */
extern void gpuscan_heap_count_tuples(Relation rel, uint64 ntuples);

/* label.c: what the owner of a relation, or of the table that it is a partition of, said */
typedef enum GpuScanLabel
{
	GPUSCAN_LABEL_NONE,
	GPUSCAN_LABEL_NEVER, /* is not cached */
	GPUSCAN_LABEL_ALWAYS /* stays, once it is cached */
} GpuScanLabel;

extern GpuScanLabel gpuscan_heap_label(Relation rel);
extern void gpuscan_heap_register_labels(void);

/*
 * The layout of rel's tuples for a Program whose column i is rel's attribute
 * attnums[i] (from 1, not dropped), or, behind those that rel has, one of the
 * expressions, which are rel's own.  palloc'd.
 */
extern GpuScanLayout *
gpuscan_heap_layout(Relation rel, const AttrNumber *attnums, int ncolumns, List *expressions);

/* The descriptor of rel's tuples with the expressions' values behind them; not counted. */
extern TupleDesc gpuscan_heap_descriptor(Relation rel, List *expressions);

/*
 * A tuple of `desc` from all of its values, in which the attributes named are
 * detoasted and every other one is NULL, palloc'd.
 */
extern HeapTuple gpuscan_heap_form(TupleDesc desc, const Datum *values, const bool *isnull,
								   const AttrNumber *attnums, int ncolumns);

/* That of the tuple at a page's line pointer. */
extern HeapTuple gpuscan_heap_flatten(Relation rel, Page page, OffsetNumber offset,
									  const AttrNumber *attnums, int ncolumns);

#endif /* GPUSCAN_HEAP_H */
