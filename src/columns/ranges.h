/*-------------------------------------------------------------------------
 *
 * ranges.h
 *	  Ranges of heap blocks, as the cache of columns counts them.
 *
 * A page of the visibility map speaks of GPUSCAN_MAP_BLOCKS heap blocks.  Those
 * are cut into ranges of GPUSCAN_RANGE_BLOCKS from the first one on, so that no
 * range needs two map pages; the last range of a map page is shorter.  Some of a
 * range's blocks are a uint64_t, bit i for its block i.
 *
 * No PostgreSQL here; heap/map.c compares the numbers with the server's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_RANGES_H
#define GPUSCAN_RANGES_H

#include "columns/columns.h"

#define GPUSCAN_MAP_BLOCKS 32672
#define GPUSCAN_MAP_RANGES ((GPUSCAN_MAP_BLOCKS + GPUSCAN_RANGE_BLOCKS - 1) / GPUSCAN_RANGE_BLOCKS)

static inline uint32_t
gpuscan_range_of_block(uint32_t block)
{
	return block / GPUSCAN_MAP_BLOCKS * GPUSCAN_MAP_RANGES +
		   block % GPUSCAN_MAP_BLOCKS / GPUSCAN_RANGE_BLOCKS;
}

static inline uint32_t
gpuscan_range_first_block(uint32_t range)
{
	return range / GPUSCAN_MAP_RANGES * GPUSCAN_MAP_BLOCKS +
		   range % GPUSCAN_MAP_RANGES * GPUSCAN_RANGE_BLOCKS;
}

/* What is known of those blocks of a range that were read while they were all-visible. */
typedef struct GpuScanRangeState
{
	uint32_t range;
	uint64_t map_lsn; /* of the map page, from before they were read */
	uint64_t blocks;  /* which they are */
	uint64_t lsns[GPUSCAN_RANGE_BLOCKS];
	uint16_t ntuples[GPUSCAN_RANGE_BLOCKS];
} GpuScanRangeState;

#endif /* GPUSCAN_RANGES_H */
