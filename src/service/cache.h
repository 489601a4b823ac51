/*-------------------------------------------------------------------------
 *
 * cache.h
 *	  The directory of cached columns; see cache.c.  Main thread only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CACHE_H
#define GPUSCAN_CACHE_H

#include "gpuscan.h"

#include "device/device.h"
#include "service/cache_message.h"
#include "service/devices.h"
#include "storage/block.h"

/* A request's hold on the cache: what it uses stays until it is released. */
typedef struct GpuScanCacheUse GpuScanCacheUse;

extern void gpuscan_cache_setup(void);

/*
 * Of a request on the device; the Program and the layouts, checked, stay until release.
 * Where nobody waits, in the background, all is to be loaded that has changed, or is missing
 * and has room.
 */
extern GpuScanCacheUse *
gpuscan_cache_use(const GpuScanOpenDevice *device, const GpuScanProgram *program,
				  const GpuScanLayout *const *layouts, uint32 nlayouts, bool background);
extern void gpuscan_cache_release(GpuScanCacheUse *use);

/* Answers a lookup; `lsns` may be NULL.  False: it is not well formed. */
extern bool
gpuscan_cache_lookup(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, const XLogRecPtr *lsns);

/* Answers a survey of so many pages; the same. */
extern bool gpuscan_cache_survey(GpuScanCacheUse *use, GpuScanCacheSurvey *survey, uint32 npages);

/*
 * What the device has to be given for the answers since the last call, or, unless
 * all is wanted, nothing while other answers will follow.  Returns how many.
 */
extern uint32
gpuscan_cache_take_answers(GpuScanCacheUse *use, bool all, GpuScanCachedSegment *const **segments);

/* Lets go of the answers so far, which the device does not need any more. */
extern void gpuscan_cache_end_answers(GpuScanCacheUse *use);

/* Where the device puts the columns that a batch fills; NULL where they are not wanted. */
extern GpuScanFill *gpuscan_cache_begin_fill(GpuScanCacheUse *use, const GpuScanCacheFill *fill);

/* Takes the columns over, or, unless `good`, throws them away. */
extern void gpuscan_cache_end_fill(GpuScanCacheUse *use, const GpuScanCacheFill *fill,
								   GpuScanFill *columns, bool good);

/*
 * Loose pages that the device keeps, cache_kept.c, of a relation that has been asked about.  A batch
 * has hold of those that it uses or makes, until end_kept.
 */
typedef struct GpuScanKeptPage
{
	BlockNumber block;
	uint32 ntuples;
	XLogRecPtr lsn;
	uint32 number; /* by which it may be found sooner; 0: unknown */
} GpuScanKeptPage;

/* The place of a page, and its number; 0: it is not kept. */
extern uint64
gpuscan_cache_use_kept(const GpuScanCacheUse *use, uint32 layout, GpuScanKeptPage *page);

/*
 * A place for a page that the batch brings, and its number; 0: there is none, or, with a
 * number, it is kept already.
 */
extern uint64
gpuscan_cache_begin_keep(const GpuScanCacheUse *use, uint32 layout, GpuScanKeptPage *page);

/* `good`: what the batch brought is what it said. */
extern void gpuscan_cache_end_kept(uint32 number, bool good);

/* Bytes of columns that a request may have the device put into memory of its own. */
extern uint64 gpuscan_cache_columns_limit(const GpuScanOpenDevice *device, bool background);

/*
 * Has what is cached lie in the right memory, a little of it, in a turn of the main
 * loop that is `idle`.  True: there may be more to do.
 */
extern bool gpuscan_cache_tidy(bool idle);

/* The settings were read again. */
extern void gpuscan_cache_limits_changed(void);

/* Drops what is cached of a relation, in any of its files; returns the bytes. */
extern uint64 gpuscan_cache_evict(Oid database, Oid relid);

/* Fills out[0 .. max - 1] with columns; returns how many. */
extern uint32 gpuscan_cache_report(GpuScanCacheRow *out, uint32 max);

#endif /* GPUSCAN_CACHE_H */
