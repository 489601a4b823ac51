/*-------------------------------------------------------------------------
 *
 * blocks.h
 *	  From what a backend says of a batch to what the device gets; see blocks.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_BLOCKS_H
#define GPUSCAN_BLOCKS_H

#include "gpuscan.h"

#include "device/device.h"
#include "service/cache.h"
#include "service/channel.h"

/* Of one place of a channel's ring; zeros at first */
typedef struct GpuScanTakenBlocks
{
	uint32 n;
	uint32 capacity;
	GpuScanBlock *blocks;
	uint32 nkept;
	uint32 *kept; /* numbers of pages that the device keeps, or will, which are in use */
} GpuScanTakenBlocks;

/*
 * Takes the blocks of a batch, in place of those before, which have ended; `use`, of its request, may be
 * NULL.  Says in the batch which pages the device keeps.  Returns what is not well formed, or NULL.
 */
extern const char *gpuscan_blocks_take(GpuScanTakenBlocks *taken, GpuScanChannelBatch *batch,
									   uint32 nlayouts, const GpuScanCacheUse *use);

/* The device does not use them any more; `good`: what they said of pages was so up to now. */
extern void gpuscan_blocks_end(GpuScanTakenBlocks *taken, bool good);

#endif /* GPUSCAN_BLOCKS_H */
