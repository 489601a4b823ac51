/*-------------------------------------------------------------------------
 *
 * feed.h
 *	  Feeding a request with the tuples of relations, by one process or
 *	  by several.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_FEED_H
#define GPUSCAN_FEED_H

#include "gpuscan.h"

#include "executor/evaluator.h"
#include "heap/heap.h"
#include "nodes/pg_list.h"
#include "service/client.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"

/* Blocks and tuples so far */
typedef struct GpuScanFeedCounters
{
	uint64 cached;						   /* blocks: answered from the cache */
	uint64 in_tier[GPUSCAN_TIER_HOST + 1]; /* of those, as in GpuScanCacheQuestion */
	uint64 hits;						   /* of those cached, that may have a row of a scan's */
	uint64 read;
	uint64 loaded;	  /* of those read, put into the cache */
	uint64 loose;	  /* of those read, that were not all-visible */
	uint64 kept;	  /* of those, answered from what the device keeps of pages */
	uint64 detoasted; /* tuples */
	uint64 evaluated; /* tuples for which PostgreSQL evaluated expressions */
} GpuScanFeedCounters;

/* A process's part in feeding a request */
typedef struct GpuScanFeed
{
	MemoryContext context; /* of what it makes */
	GpuScanClient *client;
	List *relations;	  /* of Relation, read one after the other; layouts of the request */
	AttrNumber **attnums; /* of each relation, for the Program's columns */
	int ncolumns;
	List **expressions;			   /* of each relation, its own, that are columns; or NULL */
	GpuScanEvaluator **evaluators; /* of these, of each relation; or NULL */
	pg_atomic_uint32 *failed;	   /* GpuScanRowFailure, of any process; NULL: we feed alone */
	GpuScanRowFailure failure;	   /* why it ended early */
	Snapshot snapshot;
	bool background;			  /* nothing but loading: see load.h */
	bool takes_kept;			  /* of pages that a device keeps, nobody needs the rows */
	bool spoils;				  /* if so, a row's failure is no more than its range's */
	bool only_asks;				  /* a scan: its pages are not pushed, but evaluated here */
	bool announced;				  /* how much there is to read; or that is another's to do */
	ParallelTableScanDesc *scans; /* of each relation, or NULL: we feed alone */
	GpuScanHeapPlan **plans;	  /* of each relation, NULL: all of it; or NULL */
	struct GpuScanSearch *search; /* of a scan that asks the cache as it goes, or NULL */

	int current; /* index into relations */
	GpuScanHeapReader *reader;
	bool have_page; /* the page below waits for a free batch */
	GpuScanHeapPage page;
	int ntuples;					/* of the page that are in a batch */
	const GpuScanRangeState *unfit; /* a range whose tuples did not fit into one batch */
	List *staged;					/* tuples made flat, to push */
	List *again;					/* MissingPages */
	bool input_done;
	GpuScanFeedCounters counters;
} GpuScanFeed;

/* cached.c */

/* Whether a relation's columns are looked for in the cache, and loaded there. */
extern bool gpuscan_feed_may_be_cached(Relation rel);

/*
 * Asks what the service answers from its cache, gives that to the device, and
 * plans to read the rest; of an aggregation, before anything is pushed.
 */
extern void gpuscan_feed_look_up(GpuScanFeed *feed);

/*
 * Has a scan of one relation read only what the cache does not answer, or says may
 * have a row that it wants; before anything is pushed.
 */
extern void gpuscan_feed_search(GpuScanFeed *feed);

/* Whether no answer will add anything to what is to be read, and whether a question is to be asked. */
extern bool gpuscan_feed_is_planned(const GpuScanFeed *feed);
extern bool gpuscan_feed_wants_to_ask(const GpuScanFeed *feed);

/* Makes the batch the next question and pushes it, or releases it where no answer is needed. */
extern void gpuscan_feed_ask(GpuScanFeed *feed, GpuScanClientBatch *batch);

/* Plans to read what the answer leaves. */
extern void gpuscan_feed_take_answer(GpuScanFeed *feed, GpuScanClientBatch *batch);

/* Plans to read all of which there is no answer; when the client has failed. */
extern void gpuscan_feed_plan_rest(GpuScanFeed *feed);

/* feed.c */

/*
 * Reads on, until feed->have_page says that there is a page to push.  False at
 * the end of the input.
 */
extern bool gpuscan_feed_next_page(GpuScanFeed *feed);

/*
 * Pushes batches while there are free ones and input for them.  Sets input_done
 * when all that is known so far was pushed.
 */
extern void gpuscan_feed_fill(GpuScanFeed *feed);

/* Makes the evaluators of the relations' expressions, if there are any. */
extern void gpuscan_feed_prepare(GpuScanFeed *feed);

/* A row could not be formed, here or in another process, for what gpuscan_evaluator_form says. */
extern void gpuscan_feed_fail(GpuScanFeed *feed, GpuScanRowFailure failure);

/* Tells the view how far reading is; while pages are pushed that is done here. */
extern void gpuscan_feed_report(GpuScanFeed *feed);

/* The blocks that are to be read, by all processes. */
extern uint64 gpuscan_feed_blocks(const GpuScanFeed *feed);

/* Feeds an aggregation with all input, until every batch is completed or the client fails. */
extern void gpuscan_feed_all(GpuScanFeed *feed);

/* Ends reading, also in the middle; once the client is closed. */
extern void gpuscan_feed_end(GpuScanFeed *feed);

/* Makes a feed that has ended ready to feed all input to another request. */
extern void gpuscan_feed_rewind(GpuScanFeed *feed);

/* feeders.c */
typedef struct GpuScanFeeders GpuScanFeeders;

/*
 * Starts parallel workers that feed the same request, and makes `feed` one part
 * of the work.  NULL where the input is too small for that, or must be read by
 * this process alone.
 */
extern GpuScanFeeders *gpuscan_feeders_launch(GpuScanFeed *feed);

/*
 * Waits until the workers are done, after `feed` itself has ended, adds what they
 * read to its counters, and returns how many there were.
 */
extern int gpuscan_feeders_wait(GpuScanFeeders *feeders, GpuScanFeed *feed);

extern PGDLLEXPORT void gpuscan_feeder_main(dsm_segment *seg, shm_toc *toc);

#endif /* GPUSCAN_FEED_H */
