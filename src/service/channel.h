/*-------------------------------------------------------------------------
 *
 * channel.h
 *	  What one request's backend and the service share: the layout of a
 *	  dynamic shared memory segment.
 *
 * The backend makes the segment, and keeps it for its later requests; each
 * side has it mapped at an address of its own, so there are no pointers in it.
 * A process that helps to feed another's request has a channel of its own, of
 * which `request` and the results are not used.  Who may write:
 *
 *	 - `request` and the options: the backend, before the slot is OPEN.  The
 *	   service works on a private copy of the Program and the layouts.
 *	 - a batch: the backend until it is pushed (its index put into `queue` and
 *	   `npushed` advanced), then the service and its device until `done`, then
 *	   the backend again.
 *	 - `confirmed` of a batch: the backend, as it releases one that is done, before
 *	   it unpins the pages.  One that aborts does not, and so the pages may have
 *	   changed under the device.
 *	 - a result: the service until `full`, then the backend until it clears it.
 *	 - `failure` is set once, by the service or a device thread, and then every
 *	   wait of the backend but the one for `idle` ends.
 *
 * Each side stores what it has to say, then, after a full barrier, looks
 * whether the other sleeps: the backend rings the slot's doorbell, the service
 * reads `waiting`.  The sleeper first says that it sleeps, then, after a
 * barrier, looks once more at what it waits for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CHANNEL_H
#define GPUSCAN_CHANNEL_H

#include "gpuscan.h"

#include "access/htup_details.h"
#include "device/device.h"
#include "port/atomics.h"
#include "service/cache_message.h"
#include "service/fault.h"
#include "storage/buf.h"

#define GPUSCAN_RING_BATCHES 8
#define GPUSCAN_BATCH_BLOCKS 256

/* Pages of a batch, besides, that the device is thought to keep: it works on them while the backend goes on */
#define GPUSCAN_BATCH_KEPT 512

/* Tuples of one block, and of a batch: most pages hold fewer than they could */
#define GPUSCAN_BLOCK_TUPLES MaxHeapTuplesPerPage
#define GPUSCAN_BATCH_TUPLES (GPUSCAN_BATCH_BLOCKS * 128)

/* Line pointer numbers, or GpuScanStagedTuples, of a batch's blocks: of a range's in any case */
#define GPUSCAN_BATCH_ITEMS                                                                        \
	(GPUSCAN_RANGE_BLOCKS * GPUSCAN_BLOCK_TUPLES * sizeof(GpuScanStagedTuple))

/*
 * Copied pages and tuples of a batch: all of a range's pages may have to be copied, or their
 * tuples with values that PostgreSQL added
 */
#define GPUSCAN_BATCH_STAGING (GPUSCAN_RANGE_BLOCKS * BLCKSZ * 3 / 2)

/* The Program, and behind it the layouts, each at a multiple of 8 */
#define GPUSCAN_REQUEST_SIZE (2 * GPUSCAN_MAX_PROGRAM_SIZE)

#define GPUSCAN_RESULTS 2
#define GPUSCAN_RESULT_SIZE (1024 * 1024)

/* What a backend may wait for; a batch is waited for as 1 + its index. */
#define GPUSCAN_WAIT_NOTHING 0
#define GPUSCAN_WAIT_BATCH 1
#define GPUSCAN_WAIT_RESULT (GPUSCAN_WAIT_BATCH + GPUSCAN_RING_BATCHES)
#define GPUSCAN_WAIT_IDLE (GPUSCAN_WAIT_RESULT + GPUSCAN_RESULTS)

typedef enum GpuScanBlockKind
{
	GPUSCAN_PAGE_ALL,	 /* the first ntuples line pointers of a page */
	GPUSCAN_PAGE_LISTED, /* those that its items name */
	GPUSCAN_STAGED		 /* tuples in staging memory, which its items place from `page` on */
} GpuScanBlockKind;

typedef struct GpuScanChannelBlock
{
	GpuScanBlockKind kind;
	uint32 layout;
	uint32 ntuples;
	Buffer buffer;	/* a page in a shared buffer, or InvalidBuffer */
	uint32 page;	/* where a copied page, or the first of its tuples, lies in staging memory */
	uint32 items;	/* where its items lie in the batch's */
	uint32 outcome; /* where its outcomes lie in outcome */
	bool fills;		/* for the cache */

	/* Of a page that the device may keep; lsn 0: it is not to */
	BlockNumber block;
	XLogRecPtr lsn;
	uint32
		kept; /* the service's answer: the number by which it is kept; 0: it is not, or not yet */
} GpuScanChannelBlock;

/* A page that the device is thought to keep */
typedef struct GpuScanChannelKept
{
	uint32 kept;
	uint32 layout;
	BlockNumber block;
	uint32 ntuples;
	XLogRecPtr lsn;
	bool missing; /* the answer: it has to be read */
} GpuScanChannelKept;

typedef enum GpuScanBatchKind
{
	GPUSCAN_KIND_TUPLES,
	GPUSCAN_KIND_FILL,	 /* with `fill` */
	GPUSCAN_KIND_SURVEY, /* a GpuScanCacheSurvey in items; see cache_message.h */
	GPUSCAN_KIND_LOOKUP	 /* a GpuScanCacheLookup in items, LSNs in staging */
} GpuScanBatchKind;

/* The blocks that a scan may want, in staging, of each page of the map */
#define GPUSCAN_HITS_SIZE (GPUSCAN_MAP_RANGES * sizeof(uint64))

/* Pages of the map that one survey asks about, at most */
#define GPUSCAN_SURVEY_PAGES                                                                       \
	((GPUSCAN_BATCH_ITEMS - offsetof(GpuScanCacheSurvey, pages)) / sizeof(GpuScanCacheMapPage))

/* The same of a scan */
#define GPUSCAN_SEEK_PAGES (GPUSCAN_BATCH_STAGING / GPUSCAN_HITS_SIZE)

typedef struct GpuScanChannelBatch
{
	pg_atomic_uint32 done;
	pg_atomic_uint32 confirmed; /* the number of the push that was released */
	GpuScanBatchKind kind;
	GpuScanCacheFill fill;
	uint32 ndeferred; /* tuples, once it is done */
	uint32 nblocks;
	uint32 nkept;
	uint32 nmissing; /* of them, once it is done */
	GpuScanChannelBlock blocks[GPUSCAN_BATCH_BLOCKS];
	GpuScanChannelKept kept[GPUSCAN_BATCH_KEPT];

	/* Of each of them, if any tuple of the batch is deferred: its tuples that are */
	uint64 deferred[GPUSCAN_BATCH_KEPT][(GPUSCAN_BLOCK_TUPLES + 63) / 64];
	uint8 outcome[GPUSCAN_BATCH_TUPLES];
	char items[GPUSCAN_BATCH_ITEMS] pg_attribute_aligned(PG_CACHE_LINE_SIZE);
	char staging[GPUSCAN_BATCH_STAGING] pg_attribute_aligned(PG_CACHE_LINE_SIZE);
} GpuScanChannelBatch;

typedef struct GpuScanChannelResult
{
	pg_atomic_uint32 full;
	uint32 nrows; /* 0: there are no more */
	char rows[GPUSCAN_RESULT_SIZE] pg_attribute_aligned(PG_CACHE_LINE_SIZE);
} GpuScanChannelResult;

typedef struct GpuScanChannel
{
	/* The backend tells the service */
	pg_atomic_uint32 npushed;	/* batches since the request was opened */
	pg_atomic_uint32 finish;	/* the input is complete */
	pg_atomic_uint32 closing;	/* the backend wants no more */
	pg_atomic_uint32 waiting;	/* GPUSCAN_WAIT_... */
	pg_atomic_uint32 discarded; /* the backend has detached; the service may */

	/* The service tells the backend */
	pg_atomic_uint32 failure;  /* GpuScanCode */
	pg_atomic_uint32 idle;	   /* nobody in the service touches the channel or a page */
	GpuScanRequestStats stats; /* set before `idle` */

	uint32 queue[GPUSCAN_RING_BATCHES]; /* indexes of pushed batches */
	uint32 threads;						/* of the device; 0: all */
	uint64 tuples_expected;				/* 0: unknown */
	uint64 groups_expected;				/* the same */
	GpuScanPass pass;
	bool background; /* it only loads columns */
	char device[16]; /* where it had better run, or empty */
	uint32 nlayouts;
	uint32 request_size;
	GpuScanFault fault;
	char request[GPUSCAN_REQUEST_SIZE] pg_attribute_aligned(PG_CACHE_LINE_SIZE);
	GpuScanChannelBatch batches[GPUSCAN_RING_BATCHES];
	GpuScanChannelResult results[GPUSCAN_RESULTS];
} GpuScanChannel;

/* True if what `waiting` names has happened, or cannot happen any more. */
static inline bool
gpuscan_channel_answered(GpuScanChannel *chan, uint32 waiting)
{
	if (waiting == GPUSCAN_WAIT_IDLE)
		return pg_atomic_read_u32(&chan->idle) != 0;
	if (pg_atomic_read_u32(&chan->failure) != GPUSCAN_OK)
		return true;
	if (waiting >= GPUSCAN_WAIT_RESULT)
		return pg_atomic_read_u32(&chan->results[waiting - GPUSCAN_WAIT_RESULT].full) != 0;
	return pg_atomic_read_u32(&chan->batches[waiting - GPUSCAN_WAIT_BATCH].done) != 0;
}

#endif /* GPUSCAN_CHANNEL_H */
