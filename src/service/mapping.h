/*-------------------------------------------------------------------------
 *
 * mapping.h
 *	  The channels that the service has mapped; see mapping.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_MAPPING_H
#define GPUSCAN_MAPPING_H

#include "gpuscan.h"

#include "service/channel.h"
#include "storage/dsm.h"

typedef struct GpuScanMapping
{
	dsm_handle handle; /* the hash key */
	bool busy;		   /* a request uses it */
	dsm_segment *seg;
	GpuScanChannel *chan;
} GpuScanMapping;

extern void gpuscan_mapping_setup(void);

/* The channel, now busy; NULL if it is gone, of another size, or busy already. */
extern GpuScanMapping *gpuscan_mapping_take(dsm_handle handle);

/* The request is over.  The channel stays mapped. */
extern void gpuscan_mapping_give(GpuScanMapping *mapping);

/* Unmaps the channels that their backends have let go of and no request uses. */
extern void gpuscan_mapping_sweep(void);

#endif /* GPUSCAN_MAPPING_H */
