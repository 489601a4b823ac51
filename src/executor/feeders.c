/*-------------------------------------------------------------------------
 *
 * feeders.c
 *	  Parallel workers that feed one request.
 *
 * One process finds, pins and checks about 5 GB/s of pages, a tenth of what
 * the bus takes.  So an aggregation of much input starts parallel workers, as
 * PostgreSQL's own index builds do, for the time that it reads.  They join the
 * request (service/client.h) with batches of their own, and share the blocks of
 * each relation by PostgreSQL's parallel scan; the workers' snapshot, combo
 * command ids and locks are PostgreSQL's business too.  What is evaluated in a
 * worker, expressions that are columns, is parallel safe.
 *
 * There may be fewer workers than asked for, or none: whoever is there reads.
 * A worker whose client fails just ends; the leader hears of a failed request by
 * itself.  A worker's error is raised in the leader.
 *
 *		toc:	Shared, and for each relation its Part, its scan, and, if it has them, its
 *				plan and its expressions
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/feed.h"
#include "executor/instrument.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Starting a worker takes the time in which the leader reads about as many. */
#define BLOCKS_PER_FEEDER 8192

/* The same where the tuples of each block have expressions evaluated */
#define BLOCKS_PER_EVALUATOR 512

#define KEY_SHARED UINT64CONST(1)
#define KEY_QUERY UINT64CONST(2)
#define KEY_PART UINT64CONST(0x1000000) /* + index of the relation */
#define KEY_SCAN UINT64CONST(0x2000000)
#define KEY_PLAN UINT64CONST(0x3000000)
#define KEY_EXPRESSIONS UINT64CONST(0x4000000)

/* What became of a worker's part */
typedef struct Outcome
{
	GpuScanFeedCounters counters;
	BufferUsage buffers;
	WalUsage wal;
} Outcome;

typedef struct Shared
{
	GpuScanClientName client;
	int nrelations;
	int ncolumns;
	bool spoils; /* as in GpuScanFeed, both */
	pg_atomic_uint32 failed;
	Outcome outcomes[FLEXIBLE_ARRAY_MEMBER]; /* of each worker */
} Shared;

/* A relation */
typedef struct Part
{
	Oid relid;
	AttrNumber attnums[FLEXIBLE_ARRAY_MEMBER];
} Part;

struct GpuScanFeeders
{
	ParallelContext *context;
	Shared *shared;
};

static GpuScanHeapPlan *
plan_of(const GpuScanFeed *feed, int i)
{
	return feed->plans != NULL ? feed->plans[i] : NULL;
}

/* Workers that the input is worth; a limit of any relation is one for all. */
static int
count_workers(GpuScanFeed *feed)
{
	bool evaluates = feed->evaluators != NULL;
	int limit = max_parallel_workers_per_gather;
	int share = evaluates ? BLOCKS_PER_EVALUATOR : BLOCKS_PER_FEEDER;
	ListCell *lc;

	if (max_parallel_workers_per_gather == 0 || IsParallelWorker() || !ActiveSnapshotSet())
		return 0;
	/* reading alone is limited by what the device takes */
	if (!evaluates)
		limit = Min(limit, gpuscan_client_feeders() - 1);
	foreach(lc, feed->relations)
	{
		Relation rel = lfirst(lc);
		int wanted;

		/* no other process sees the buffers of a temporary table */
		if (RelationUsesLocalBuffers(rel))
			return 0;
		/* a relation that has other options says -1 */
		wanted = RelationGetParallelWorkers(rel, -1);
		if (wanted >= 0)
			limit = Min(limit, wanted);
	}
	if (force_parallel_mode != FORCE_PARALLEL_OFF && gpuscan_feed_blocks(feed) > 0)
		return Max(limit, 1);
	return Min(limit, (int) (gpuscan_feed_blocks(feed) / share));
}

static Size
part_size(const GpuScanFeed *feed)
{
	return offsetof(Part, attnums) + feed->ncolumns * sizeof(AttrNumber);
}

static void
estimate(ParallelContext *context, const GpuScanFeed *feed)
{
	shm_toc_estimator *estimator = &context->estimator;
	ListCell *lc;

	shm_toc_estimate_chunk(estimator,
						   offsetof(Shared, outcomes) + context->nworkers * sizeof(Outcome));
	shm_toc_estimate_chunk(estimator, strlen(debug_query_string ? debug_query_string : "") + 1);
	shm_toc_estimate_keys(estimator, 2);
	foreach(lc, feed->relations)
	{
		shm_toc_estimate_chunk(estimator, part_size(feed));
		shm_toc_estimate_chunk(estimator, table_parallelscan_estimate(lfirst(lc), feed->snapshot));
		shm_toc_estimate_keys(estimator, 2);
		if (plan_of(feed, foreach_current_index(lc)) != NULL)
		{
			shm_toc_estimate_chunk(
				estimator,
				gpuscan_heap_plan_size(plan_of(feed, foreach_current_index(lc))->nparts));
			shm_toc_estimate_keys(estimator, 1);
		}
		if (feed->expressions != NULL)
		{
			shm_toc_estimate_chunk(
				estimator, strlen(nodeToString(feed->expressions[foreach_current_index(lc)])) + 1);
			shm_toc_estimate_keys(estimator, 1);
		}
	}
}

/* Fills the toc, and gives the leader its own view of the scans. */
static Shared *
share(ParallelContext *context, GpuScanFeed *feed)
{
	Size size = offsetof(Shared, outcomes) + context->nworkers * sizeof(Outcome);
	Shared *shared = shm_toc_allocate(context->toc, size);
	const char *text = debug_query_string ? debug_query_string : "";
	char *query = shm_toc_allocate(context->toc, strlen(text) + 1);
	ListCell *lc;

	memset(shared, 0, size);
	shared->client = gpuscan_client_name(feed->client);
	shared->nrelations = list_length(feed->relations);
	shared->ncolumns = feed->ncolumns;
	shared->spoils = feed->spoils;
	pg_atomic_init_u32(&shared->failed, GPUSCAN_ROW_FORMED);
	feed->failed = &shared->failed;
	shm_toc_insert(context->toc, KEY_SHARED, shared);
	strcpy(query, text);
	shm_toc_insert(context->toc, KEY_QUERY, query);

	feed->scans =
		MemoryContextAlloc(feed->context, shared->nrelations * sizeof(ParallelTableScanDesc));
	foreach(lc, feed->relations)
	{
		Relation rel = lfirst(lc);
		int i = foreach_current_index(lc);
		Part *part = shm_toc_allocate(context->toc, part_size(feed));
		ParallelTableScanDesc scan =
			shm_toc_allocate(context->toc, table_parallelscan_estimate(rel, feed->snapshot));

		part->relid = RelationGetRelid(rel);
		memcpy(part->attnums, feed->attnums[i], feed->ncolumns * sizeof(AttrNumber));
		shm_toc_insert(context->toc, KEY_PART + i, part);

		table_parallelscan_initialize(rel, scan, feed->snapshot);
		scan->phs_syncscan = false;
		shm_toc_insert(context->toc, KEY_SCAN + i, scan);
		feed->scans[i] = scan;

		if (plan_of(feed, i) != NULL)
		{
			Size size = gpuscan_heap_plan_size(feed->plans[i]->nparts);
			GpuScanHeapPlan *plan = shm_toc_allocate(context->toc, size);

			memcpy(plan, feed->plans[i], size);
			shm_toc_insert(context->toc, KEY_PLAN + i, plan);
			feed->plans[i] = plan;
		}
		if (feed->expressions != NULL)
		{
			const char *tree = nodeToString(feed->expressions[i]);
			char *copy = shm_toc_allocate(context->toc, strlen(tree) + 1);

			strcpy(copy, tree);
			shm_toc_insert(context->toc, KEY_EXPRESSIONS + i, copy);
		}
	}
	return shared;
}

GpuScanFeeders *
gpuscan_feeders_launch(GpuScanFeed *feed)
{
	int nworkers = count_workers(feed);
	GpuScanFeeders *feeders;

	if (nworkers <= 0)
		return NULL;

	feeders = MemoryContextAlloc(feed->context, sizeof(GpuScanFeeders));
	EnterParallelMode();
	feeders->context = CreateParallelContext("gpuscan", "gpuscan_feeder_main", nworkers);
	estimate(feeders->context, feed);
	InitializeParallelDSM(feeders->context);
	feeders->shared = share(feeders->context, feed);
	LaunchParallelWorkers(feeders->context);
	return feeders;
}

int
gpuscan_feeders_wait(GpuScanFeeders *feeders, GpuScanFeed *feed)
{
	ParallelContext *context = feeders->context;
	int launched = context->nworkers_launched;
	GpuScanRowFailure failure;

	WaitForParallelWorkersToFinish(context);
	for (int i = 0; i < launched; i++)
	{
		Outcome *outcome = &feeders->shared->outcomes[i];

		feed->counters.read += outcome->counters.read;
		feed->counters.loaded += outcome->counters.loaded;
		feed->counters.loose += outcome->counters.loose;
		feed->counters.kept += outcome->counters.kept;
		feed->counters.detoasted += outcome->counters.detoasted;
		feed->counters.evaluated += outcome->counters.evaluated;
		InstrAccumParallelQuery(&outcome->buffers, &outcome->wal);
	}
	failure = pg_atomic_read_u32(&feeders->shared->failed);
	if (failure != GPUSCAN_ROW_FORMED)
		gpuscan_feed_fail(feed, failure);
	feed->failed = NULL;
	DestroyParallelContext(context);
	ExitParallelMode();
	return launched;
}

/* A worker's main function. */
void
gpuscan_feeder_main(dsm_segment *seg, shm_toc *toc)
{
	Shared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	Outcome *outcome = &shared->outcomes[ParallelWorkerNumber];
	GpuScanFeed feed = {0};
	const char *reason;
	ListCell *lc;

	(void) seg;
	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, false);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);

	InstrStartParallelQuery();
	feed.context = CurrentMemoryContext;
	feed.snapshot = GetActiveSnapshot();
	feed.announced = true;
	feed.ncolumns = shared->ncolumns;
	feed.spoils = shared->spoils;
	feed.attnums = palloc(shared->nrelations * sizeof(AttrNumber *));
	feed.scans = palloc(shared->nrelations * sizeof(ParallelTableScanDesc));
	feed.plans = palloc(shared->nrelations * sizeof(GpuScanHeapPlan *));
	feed.failed = &shared->failed;
	for (int i = 0; i < shared->nrelations; i++)
	{
		Part *part = shm_toc_lookup(toc, KEY_PART + i, false);
		const char *expressions = shm_toc_lookup(toc, KEY_EXPRESSIONS + i, true);

		feed.relations = lappend(feed.relations, table_open(part->relid, AccessShareLock));
		feed.attnums[i] = part->attnums;
		feed.scans[i] = shm_toc_lookup(toc, KEY_SCAN + i, false);
		feed.plans[i] = shm_toc_lookup(toc, KEY_PLAN + i, true);
		if (expressions == NULL)
			continue;
		if (feed.expressions == NULL)
			feed.expressions = palloc(shared->nrelations * sizeof(List *));
		feed.expressions[i] = stringToNode(expressions);
	}
	gpuscan_feed_prepare(&feed);

	feed.client = gpuscan_client_join(shared->client, &reason);
	if (feed.client != NULL)
	{
		GpuScanRequestStats stats;

		gpuscan_feed_all(&feed);
		gpuscan_client_close(feed.client, &stats);
		gpuscan_feed_end(&feed);
	}
	foreach(lc, feed.relations)
		table_close(lfirst(lc), AccessShareLock);

	outcome->counters = feed.counters;
	InstrEndParallelQuery(&outcome->buffers, &outcome->wal);
}
