/*-------------------------------------------------------------------------
 *
 * run.c
 *	  One execution of a node on a device: compile, open a request, end it.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/attmap.h"
#include "executor/nodes.h"
#include "executor/result.h"
#include "utils/memutils.h"

/* The attributes of `rel` that are the parent's `attnums`. */
static AttrNumber *
map_attnums(Relation rel, Relation parent, const AttrNumber *attnums, int n)
{
	AttrNumber *mapped = palloc(Max(n, 1) * sizeof(AttrNumber));
	AttrMap *map = NULL;

	if (rel != parent)
		map = build_attrmap_by_name(RelationGetDescr(rel), RelationGetDescr(parent));
	for (int i = 0; i < n; i++)
		mapped[i] = map ? map->attnums[attnums[i] - 1] : attnums[i];
	if (map)
		free_attrmap(map);
	return mapped;
}

/*
 * Starts an execution: node->run is set, or the replaced plan is started with
 * the reason.  Expressions are those of `parent`; `relations` are scanned.
 */
void
gpuscan_run_open(GpuScanNodeState *node, const GpuScanCompileInput *input, Relation parent,
				 List *relations)
{
	EState *estate = node->css.ss.ps.state;
	MemoryContext context =
		AllocSetContextCreate(estate->es_query_cxt, "gpuscan run", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GpuScanRun *run = palloc0(sizeof(GpuScanRun));
	const char *reason = NULL;
	int n = list_length(relations);
	double tuples = 0;
	GpuScanLayout **layouts = palloc(Max(n, 1) * sizeof(GpuScanLayout *));

	run->context = context;
	run->feed.context = context;
	run->feed.relations = relations;
	run->feed.snapshot = estate->es_snapshot;
	run->feed.attnums = palloc(Max(n, 1) * sizeof(AttrNumber *));
	run->compiled = gpuscan_program_compile(input, &reason);
	if (run->compiled != NULL)
	{
		for (int i = 0; i < n; i++)
		{
			Relation rel = list_nth(relations, i);

			tuples += Max(rel->rd_rel->reltuples, 0);
			run->feed.attnums[i] =
				map_attnums(rel, parent, run->compiled->attnums, run->compiled->ncolumns);
			layouts[i] = gpuscan_heap_layout(rel, run->feed.attnums[i], run->compiled->ncolumns);
		}
		run->feed.ncolumns = run->compiled->ncolumns;
		run->client =
			gpuscan_client_open(run->compiled->program, (const GpuScanLayout *const *) layouts, n,
								(uint64) tuples, &reason);
	}
	MemoryContextSwitchTo(old);
	if (run->client == NULL)
	{
		reason = MemoryContextStrdup(estate->es_query_cxt, reason);
		MemoryContextDelete(context);
		gpuscan_replaced_start(node, reason);
		return;
	}
	run->feed.client = run->client;
	node->run = run;
}

/* Ends the request, also in the middle, and adds to the node's counters. */
void
gpuscan_run_end_request(GpuScanNodeState *node)
{
	GpuScanRun *run = node->run;
	GpuScanRequestStats stats;

	if (run == NULL || run->client == NULL)
		return;
	gpuscan_client_close(run->client, &stats);
	if (gpuscan_client_device(run->client) != NULL)
		node->counters.device = gpuscan_client_device(run->client);
	run->client = NULL;
	gpuscan_feed_end(&run->feed);
	node->counters.blocks += run->feed.blocks;
	node->counters.detoasted += run->feed.detoasted;
	node->counters.stats.tuples += stats.tuples;
	node->counters.stats.passed += stats.passed;
	node->counters.stats.groups += stats.groups;
	node->counters.stats.busy_ns += stats.busy_ns;
	node->counters.stats.memory = Max(node->counters.stats.memory, stats.memory);
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
