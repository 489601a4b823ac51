/*-------------------------------------------------------------------------
 *
 * loose.h
 *	  Which tuples of a loose page a snapshot sees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_LOOSE_H
#define GPUSCAN_LOOSE_H

#include "heap/heap.h"

#include "access/htup_details.h"

#define GPUSCAN_LOOSE_WORDS ((MaxHeapTuplesPerPage + 63) / 64)

/* What a snapshot sees of a page */
typedef struct GpuScanLoosePage
{
	XLogRecPtr lsn;
	TransactionId xmin; /* all of this xmin or a later one see the same; or invalid */
	Buffer buffer;
	uint32 kept;	/* the number by which a device keeps the page with these tuples, or 0 */
	uint16 ntuples; /* that are visible */
	uint64 visible[GPUSCAN_LOOSE_WORDS]; /* line pointers, from the first on */
} GpuScanLoosePage;

/* What is remembered of a block, or NULL; it stays in place until another page is remembered. */
extern GpuScanLoosePage *gpuscan_loose_recall(Relation rel, BlockNumber block);
extern void gpuscan_loose_remember(Relation rel, BlockNumber block, const GpuScanLoosePage *page);

/* Whether what is remembered of the page, which is locked, is what the snapshot sees of it. */
extern bool gpuscan_loose_is_true(const GpuScanLoosePage *known, Buffer buffer, Snapshot snapshot);

/* Finds out what the snapshot sees of a page that is locked. */
extern void
gpuscan_loose_examine(Relation rel, Snapshot snapshot, Buffer buffer, GpuScanLoosePage *page);

/*
 * The numbers of the visible line pointers, and how many; *offsets, which has room for them, is
 * NULL if they are the first.
 */
extern int gpuscan_loose_list(const GpuScanLoosePage *page, OffsetNumber **offsets);

#endif /* GPUSCAN_LOOSE_H */
