/*-------------------------------------------------------------------------
 *
 * run.c
 *	  One execution of a node on a device: compile, open a request, feed it.
 *
 * The backend reads pages in the order of a sequential scan and keeps every
 * free batch of the request filled.  A page stays pinned while it is in a
 * batch.  Tuples with compressed or out-of-line values come back from the
 * device unseen; made flat by PostgreSQL they go in again (node_agg.c).
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/attmap.h"
#include "executor/nodes.h"
#include "executor/result.h"
#include "storage/bufmgr.h"
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
	double groups = input->aggregate ? Min(node->css.ss.ps.plan->plan_rows, UINT32_MAX) : 0;
	GpuScanLayout **layouts = palloc(Max(n, 1) * sizeof(GpuScanLayout *));

	run->context = context;
	run->relations = relations;
	run->snapshot = estate->es_snapshot;
	run->attnums = palloc(Max(n, 1) * sizeof(AttrNumber *));
	run->compiled = gpuscan_program_compile(input, &reason);
	if (run->compiled != NULL)
	{
		for (int i = 0; i < n; i++)
		{
			Relation rel = list_nth(relations, i);

			tuples += Max(rel->rd_rel->reltuples, 0);
			run->attnums[i] =
				map_attnums(rel, parent, run->compiled->attnums, run->compiled->ncolumns);
			layouts[i] = gpuscan_heap_layout(rel, run->attnums[i], run->compiled->ncolumns);
		}
		run->client =
			gpuscan_client_open(run->compiled->program, (const GpuScanLayout *const *) layouts, n,
								(uint64) tuples, (uint64) groups, &reason);
	}
	MemoryContextSwitchTo(old);
	if (run->client == NULL)
	{
		reason = MemoryContextStrdup(estate->es_query_cxt, reason);
		MemoryContextDelete(context);
		gpuscan_replaced_start(node, reason);
		return;
	}
	node->run = run;
	node->counters.device = gpuscan_client_device(run->client);
}

/*
 * Reads on, until run->have_page says that there is a page to push.  False at
 * the end of the input.
 */
bool
gpuscan_run_next_page(GpuScanNodeState *node)
{
	GpuScanRun *run = node->run;

	while (!run->have_page)
	{
		if (run->reader == NULL)
		{
			if (run->current == list_length(run->relations))
				return false;
			run->reader = gpuscan_heap_open(list_nth(run->relations, run->current), run->snapshot);
		}
		run->have_page = gpuscan_heap_next(run->reader, &run->buffer, &run->offsets, &run->ntuples);
		if (!run->have_page)
		{
			node->counters.blocks += gpuscan_heap_blocks_read(run->reader);
			gpuscan_heap_close(run->reader);
			run->reader = NULL;
			run->current++;
		}
	}
	return true;
}

/* Fills one batch; false if there was nothing to put into it. */
static bool
fill_batch(GpuScanNodeState *node, GpuScanClientBatch *batch)
{
	GpuScanRun *run = node->run;

	while (run->staged != NIL)
	{
		GpuScanStaged *staged = linitial(run->staged);

		if (!gpuscan_client_add_tuple(batch, staged->layout, staged->tuple))
			return true;
		heap_freetuple(staged->tuple);
		run->staged = list_delete_first(run->staged);
	}
	while (gpuscan_run_next_page(node))
	{
		if (!gpuscan_client_add_page(batch, run->current, run->buffer, run->offsets, run->ntuples))
			return true;
		run->have_page = false;
	}
	run->input_done = true;
	return !gpuscan_client_batch_is_empty(batch);
}

/*
 * Pushes batches while there are free ones and input for them.  Sets input_done
 * when all that is known so far was pushed.
 */
void
gpuscan_run_fill(GpuScanNodeState *node)
{
	GpuScanRun *run = node->run;
	MemoryContext old = MemoryContextSwitchTo(run->context);
	GpuScanClientBatch *batch;

	while ((!run->input_done || run->staged != NIL) &&
		   gpuscan_client_failure(run->client) == NULL &&
		   (batch = gpuscan_client_batch(run->client)) != NULL)
	{
		if (fill_batch(node, batch))
			gpuscan_client_push(run->client, batch);
		else
			gpuscan_client_release(run->client, batch);
	}
	MemoryContextSwitchTo(old);
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
	run->client = NULL;
	if (run->have_page)
		ReleaseBuffer(run->buffer);
	if (run->reader != NULL)
	{
		node->counters.blocks += gpuscan_heap_blocks_read(run->reader);
		gpuscan_heap_close(run->reader);
	}
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
