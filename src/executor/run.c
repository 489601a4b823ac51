/*-------------------------------------------------------------------------
 *
 * run.c
 *	  One execution of a node on a device: compile, open a request, end it.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/attmap.h"
#include "executor/load.h"
#include "executor/result.h"
#include "planner/planner.h"
#include "program/expression_file.h"
#include "program/identity.h"
#include "utils/memutils.h"

/* The attributes of `rel` that are the parent's `attnums`, and behind them its expressions. */
static AttrNumber *
map_attnums(Relation rel, Relation parent, const AttrNumber *attnums, int n)
{
	AttrNumber *mapped = palloc(Max(n, 1) * sizeof(AttrNumber));
	AttrMap *map = NULL;

	if (rel != parent)
		map = build_attrmap_by_name(RelationGetDescr(rel), RelationGetDescr(parent));
	for (int i = 0; i < n; i++)
	{
		if (attnums[i] < 0)
			mapped[i] = RelationGetDescr(rel)->natts - attnums[i];
		else
			mapped[i] = map ? map->attnums[attnums[i] - 1] : attnums[i];
	}
	if (map)
		free_attrmap(map);
	return mapped;
}

/* Opens the request of a pass; false with *reason. */
static bool
open_request(GpuScanRun *run, GpuScanPass pass, const char **reason)
{
	GpuScanClientOptions options = {
		.pass = pass,
		.groups_expected = run->groups_expected / (pass.mask + 1),
		.device = run->device,
	};
	double tuples = 0;
	ListCell *lc;

	foreach(lc, run->feed.relations)
		tuples += Max(((Relation) lfirst(lc))->rd_rel->reltuples, 0);
	options.tuples_expected = (uint64) tuples;
	run->client =
		gpuscan_client_open(run->compiled->program, (const GpuScanLayout *const *) run->layouts,
							list_length(run->feed.relations), &options, reason);
	run->feed.client = run->client;
	return run->client != NULL;
}

/*
 * Compiles, and opens a request over the relations that the node scans; NULL with
 * *reason.
 */
GpuScanRun *
gpuscan_run_begin(GpuScanNodeState *node, const GpuScanCompileInput *input, uint64 groups_expected,
				  const char **reason)
{
	EState *estate = node->css.ss.ps.state;
	MemoryContext context =
		AllocSetContextCreate(estate->es_query_cxt, "gpuscan run", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GpuScanRun *run = palloc0(sizeof(GpuScanRun));
	int n = list_length(node->scanned);
	List **own = palloc0(Max(n, 1) * sizeof(List *));
	GpuScanPass all = {0};

	run->context = context;
	run->groups_expected = groups_expected;
	run->feed.context = context;
	run->feed.relations = node->scanned;
	run->feed.snapshot = estate->es_snapshot;
	run->feed.attnums = palloc(Max(n, 1) * sizeof(AttrNumber *));
	run->layouts = palloc(Max(n, 1) * sizeof(GpuScanLayout *));
	run->compiled = gpuscan_program_compile(input, reason);
	if (run->compiled != NULL)
	{
		if (node->loads_first && run->compiled->expressions != NIL)
		{
			node->loads_first = false;
			gpuscan_load_expressions(node, input, run->compiled);
		}
		run->device = node->loaded_on;
		for (int i = 0; i < n; i++)
		{
			Relation rel = list_nth(node->scanned, i);

			run->feed.attnums[i] =
				map_attnums(rel, node->parent, run->compiled->attnums, run->compiled->ncolumns);
			if (run->compiled->expressions != NIL)
				own[i] = gpuscan_identity_own(rel, node->parent, run->compiled->expressions);
			run->layouts[i] =
				gpuscan_heap_layout(rel, run->feed.attnums[i], run->compiled->ncolumns, own[i]);
		}
		run->feed.ncolumns = run->compiled->ncolumns;
		run->feed.expressions = run->compiled->expressions != NIL ? own : NULL;
		gpuscan_feed_prepare(&run->feed);
		if (open_request(run, all, reason) && n > 0)
			gpuscan_cost_paid(RelationGetRelid(node->parent), run->compiled->expressions);
	}
	MemoryContextSwitchTo(old);
	if (run->client != NULL)
		return run;
	*reason = MemoryContextStrdup(estate->es_query_cxt, *reason);
	MemoryContextDelete(context);
	return NULL;
}

/*
 * Starts an execution: node->run is set, or the replaced plan is started with
 * the reason.  Expressions are those of `parent`; `relations` are scanned.
 */
void
gpuscan_run_open(GpuScanNodeState *node, const GpuScanCompileInput *input, Relation parent,
				 List *relations)
{
	uint64 groups =
		input->aggregate ? (uint64) Min(node->css.ss.ps.plan->plan_rows, UINT32_MAX) : 0;
	const char *reason = NULL;

	node->parent = parent;
	node->scanned = relations;
	node->run = gpuscan_run_begin(node, input, groups, &reason);
	if (node->run == NULL)
		gpuscan_replaced_start(node, reason);
}

/* Gives the device all input of an aggregation; false if that fails. */
bool
gpuscan_run_feed(GpuScanNodeState *node, GpuScanRun *run)
{
	GpuScanFeeders *feeders;

	run->feed.takes_kept = true;
	gpuscan_feed_look_up(&run->feed);
	if (gpuscan_client_failure(run->client) != NULL)
		return false;
	feeders = gpuscan_feeders_launch(&run->feed);
	gpuscan_feed_all(&run->feed);
	if (feeders != NULL)
	{
		gpuscan_feed_end(&run->feed);
		node->counters.workers += gpuscan_feeders_wait(feeders, &run->feed);
	}
	return gpuscan_client_failure(run->client) == NULL;
}

/* The same, and waits for the result. */
bool
gpuscan_run_aggregate(GpuScanNodeState *node, GpuScanRun *run)
{
	return gpuscan_run_feed(node, run) && gpuscan_client_finish(run->client);
}

/* Has background workers know a relation's expressions, which now may be cached. */
static void
keep_expressions(Relation rel, const GpuScanLayout *layout, List *expressions)
{
	const GpuScanColumn *columns = GPUSCAN_LAYOUT_COLUMNS(layout);
	int natts = RelationGetNumberOfAttributes(rel);

	if (!gpuscan_feed_may_be_cached(rel))
		return;
	for (int i = 0; i < layout->ncolumns; i++)
	{
		const GpuScanExpression *expression =
			(const GpuScanExpression *) ((const char *) layout + columns[i].expression);

		if (columns[i].expression != 0)
			gpuscan_expression_file_keep(rel, list_nth(expressions, columns[i].attnum - natts),
										 expression->identity);
	}
}

/* Tells others, or the planner, what has become of a request's expressions. */
static void
note_expressions(const GpuScanRun *run)
{
	const GpuScanFeed *feed = &run->feed;
	ListCell *lc;

	if (feed->failure != GPUSCAN_ROW_FORMED && list_length(feed->relations) == 1)
		gpuscan_failed_remember(linitial(feed->relations), feed->expressions[0]);
	if (gpuscan_client_failure(run->client) != NULL || gpuscan_cache_refresh_interval == 0 ||
		!gpuscan_client_has_cache(run->client))
		return;
	foreach(lc, feed->relations)
	{
		int i = foreach_current_index(lc);

		keep_expressions(lfirst(lc), run->layouts[i], feed->expressions[i]);
	}
}

/* Ends the request, also in the middle. */
static void
end_request(GpuScanRun *run, GpuScanRequestStats *stats)
{
	if (run->feed.expressions != NULL)
		note_expressions(run);
	gpuscan_client_close(run->client, stats);
	gpuscan_feed_end(&run->feed);
}

/* Ends a run that is not the node's; returns the device that it was on, or NULL. */
const char *
gpuscan_run_end(GpuScanRun *run, GpuScanFeedCounters *counters)
{
	GpuScanRequestStats stats;
	const char *device;

	end_request(run, &stats);
	device = gpuscan_client_device(run->client);
	*counters = run->feed.counters;
	MemoryContextDelete(run->context);
	return device;
}

/* Ends the request, also in the middle, and adds to the node's counters. */
void
gpuscan_run_end_request(GpuScanNodeState *node)
{
	GpuScanRun *run = node->run;
	GpuScanRequestStats stats;

	if (run == NULL || run->client == NULL)
		return;
	end_request(run, &stats);
	if (gpuscan_client_device(run->client) != NULL)
		node->counters.device = gpuscan_client_device(run->client);
	run->client = NULL;
	node->counters.feed.cached += run->feed.counters.cached;
	for (int tier = 0; tier <= GPUSCAN_TIER_HOST; tier++)
		node->counters.feed.in_tier[tier] += run->feed.counters.in_tier[tier];
	node->counters.feed.read += run->feed.counters.read;
	node->counters.feed.loaded += run->feed.counters.loaded;
	node->counters.feed.loose += run->feed.counters.loose;
	node->counters.feed.kept += run->feed.counters.kept;
	node->counters.feed.detoasted += run->feed.counters.detoasted;
	node->counters.feed.evaluated += run->feed.counters.evaluated;
	node->counters.stats.tuples += stats.tuples;
	node->counters.stats.passed += stats.passed;
	node->counters.stats.groups += stats.groups;
	node->counters.stats.blocks_skipped += stats.blocks_skipped;
	node->counters.stats.busy_ns += stats.busy_ns;
	node->counters.stats.bus_bytes += stats.bus_bytes;
	node->counters.stats.kernel_ns += stats.kernel_ns;
	node->counters.stats.compile_ns += stats.compile_ns;
	node->counters.stats.kernel_read_ns += stats.kernel_read_ns;
	node->counters.stats.kernels_reused += stats.kernels_reused;
	node->counters.stats.memory = Max(node->counters.stats.memory, stats.memory);
}

/*
 * Ends the request and opens one for another pass over all of the input.
 * False with *reason, and no request.
 */
bool
gpuscan_run_start_over(GpuScanNodeState *node, GpuScanPass pass, const char **reason)
{
	GpuScanRun *run = node->run;
	MemoryContext old = MemoryContextSwitchTo(run->context);
	bool opened;

	gpuscan_run_end_request(node);
	gpuscan_feed_rewind(&run->feed);
	opened = open_request(run, pass, reason);
	MemoryContextSwitchTo(old);
	return opened;
}

/* Ends the execution, and frees what it had. */
void
gpuscan_run_close(GpuScanNodeState *node)
{
	if (node->run == NULL)
		return;
	gpuscan_run_end_request(node);
	if (node->run->result != NULL)
		gpuscan_result_free(node->run->result);
	MemoryContextDelete(node->run->context);
	node->run = NULL;
}
