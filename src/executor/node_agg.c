/*-------------------------------------------------------------------------
 *
 * node_agg.c
 *	  GpuAgg: grouping and aggregation of relations on a device.
 *
 *		push every page; make flat what comes back deferred, and push it
 *		finish; then for each group row that is fetched
 *			keys and final values into the scan slot
 *			HAVING, projection: PostgreSQL's
 *
 * All input is read before the first row is returned, so whatever fails, the
 * replaced plan can still run.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/executor.h"
#include "executor/finish.h"
#include "executor/nodes.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "planner/planner.h"
#include "utils/memutils.h"
#include "utils/rel.h"

typedef struct GpuAggState
{
	GpuScanNodeState node;
	List *keys;
	List *aggrefs;
	List *quals;
	Index varno; /* that expressions speak of */
	Relation parent;
	List *relations; /* that are scanned */

	GpuScanFinish *finish;
	const char *rows; /* the chunk fetched last */
	uint32 nrows;
	uint32 row_no;
} GpuAggState;

static void
begin(CustomScanState *css, EState *estate, int eflags)
{
	GpuAggState *state = (GpuAggState *) css;
	CustomScan *scan = (CustomScan *) css->ss.ps.plan;
	int nkeys = list_nth_int(scan->custom_private, GPUAGG_NUM_KEYS);
	int naggrefs = list_nth_int(scan->custom_private, GPUAGG_NUM_AGGREFS);
	RowExpr *quals;
	RowExpr *relations;
	ListCell *lc;

	state->node.eflags = eflags;
	for (int i = 0; i < nkeys + naggrefs; i++)
	{
		TargetEntry *tle = list_nth(scan->custom_scan_tlist, i);

		if (i < nkeys)
			state->keys = lappend(state->keys, tle->expr);
		else
			state->aggrefs = lappend(state->aggrefs, tle->expr);
	}
	quals = (RowExpr *) ((TargetEntry *) list_nth(scan->custom_scan_tlist, nkeys + naggrefs))->expr;
	relations =
		(RowExpr *) ((TargetEntry *) list_nth(scan->custom_scan_tlist, nkeys + naggrefs + 1))->expr;
	state->quals = quals->args;
	state->varno = linitial_node(Var, relations->args)->varno;
	state->parent = ExecGetRangeTableRelation(estate, state->varno);
	for_each_from(lc, relations->args, 1)
		state->relations = lappend(state->relations,
								   ExecGetRangeTableRelation(estate, lfirst_node(Var, lc)->varno));
	gpuscan_node_force_projection(&state->node, css->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
}

/* Makes flat the tuples of a batch that the device could not decode. */
static void
stage_deferred(GpuAggState *state, GpuScanClientBatch *batch)
{
	GpuScanRun *run = state->node.run;
	MemoryContext old = MemoryContextSwitchTo(run->context);

	for (int i = 0; i < gpuscan_client_num_blocks(batch); i++)
	{
		GpuScanClientBlock block = gpuscan_client_block(batch, i);
		Relation rel = list_nth(state->relations, block.layout);

		for (uint32 j = 0; j < block.ntuples; j++)
		{
			GpuScanStaged *staged;

			if (block.outcome[j] != GPUSCAN_TUPLE_DEFERRED)
				continue;
			CHECK_FOR_INTERRUPTS();
			staged = palloc(sizeof(GpuScanStaged));
			staged->layout = block.layout;
			staged->tuple =
				gpuscan_heap_flatten(rel, block.page, block.offsets[j], run->attnums[block.layout],
									 run->compiled->ncolumns);
			run->staged = lappend(run->staged, staged);
			state->node.counters.staged++;
		}
	}
	MemoryContextSwitchTo(old);
}

/* Gives the device all input, and waits for the result. */
static bool
aggregate(GpuAggState *state)
{
	GpuScanRun *run = state->node.run;

	for (;;)
	{
		GpuScanClientBatch *batch;

		gpuscan_run_fill(&state->node);
		batch = gpuscan_client_completed(run->client, true);
		if (batch == NULL)
			break;
		stage_deferred(state, batch);
		gpuscan_client_release(run->client, batch);
	}
	return gpuscan_client_failure(run->client) == NULL && gpuscan_client_finish(run->client);
}

static void
start(GpuAggState *state)
{
	GpuScanNodeState *node = &state->node;
	EState *estate = node->css.ss.ps.state;
	GpuScanCompileInput input = {0};
	MemoryContext old;

	node->started = true;
	state->rows = NULL;
	state->nrows = state->row_no = 0;
	input.varno = state->varno;
	input.relid = RelationGetRelid(state->parent);
	input.quals = state->quals;
	input.aggregate = true;
	input.keys = state->keys;
	input.aggrefs = state->aggrefs;
	input.evaluate = gpuscan_parameter_evaluate;
	input.evaluate_arg = state;
	gpuscan_run_open(node, &input, state->parent, state->relations);
	if (node->run == NULL)
		return;

	/* the first chunk too comes before any row: it can fail */
	if (aggregate(state) && gpuscan_client_fetch(node->run->client, &state->rows, &state->nrows))
	{
		old = MemoryContextSwitchTo(node->run->context);
		state->finish =
			gpuscan_finish_create(node->run->compiled->program, node->run->compiled->outputs,
								  node->run->compiled->noutputs);
		MemoryContextSwitchTo(old);
	}
	else
	{
		const char *reason =
			MemoryContextStrdup(estate->es_query_cxt, gpuscan_client_failure(node->run->client));

		gpuscan_run_close(node);
		gpuscan_replaced_start(node, reason);
	}
}

/* Puts the next group into the scan slot; false at the end. */
static bool
next_group(GpuAggState *state)
{
	GpuScanRun *run = state->node.run;
	TupleTableSlot *slot = state->node.css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->node.css.ss.ps.ps_ExprContext;
	MemoryContext old;

	ExecClearTuple(slot);
	if (state->row_no == state->nrows)
	{
		if (state->nrows == 0)
			return false;
		state->row_no = 0;
		if (!gpuscan_client_fetch(run->client, &state->rows, &state->nrows))
			ereport(ERROR, (errcode(ERRCODE_SYSTEM_ERROR),
							errmsg("could not read the rest of an aggregation's result: %s",
								   gpuscan_client_failure(run->client)),
							errdetail("Some of its rows had been returned already."),
							errhint("Run the query again.")));
		if (state->nrows == 0)
			return false;
	}

	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	gpuscan_finish_row(state->finish, state->rows,
					   state->rows + (size_t) state->row_no++ * run->compiled->program->row_size,
					   slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);
	ExecStoreVirtualTuple(slot);
	return true;
}

static TupleTableSlot *
execute(CustomScanState *css)
{
	GpuAggState *state = (GpuAggState *) css;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;

	if (!state->node.started)
		start(state);
	if (state->node.finished)
		return ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (state->node.run == NULL)
		return gpuscan_replaced_next(&state->node);

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (!next_group(state))
		{
			state->node.finished = true;
			gpuscan_run_close(&state->node);
			return ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
		}
		econtext->ecxt_scantuple = css->ss.ss_ScanTupleSlot;
		if (ExecQual(css->ss.ps.qual, econtext))
			return ExecProject(css->ss.ps.ps_ProjInfo);
		InstrCountFiltered1(&css->ss, 1);
	}
}

static void
end(CustomScanState *css)
{
	gpuscan_node_end((GpuScanNodeState *) css);
}

static void
rescan(CustomScanState *css)
{
	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	gpuscan_node_rescan((GpuScanNodeState *) css);
}

static void
explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	GpuAggState *state = (GpuAggState *) css;

	gpuscan_explain_relations(state->relations, es);
	gpuscan_explain_expressions("Group Key", state->keys, &state->node, ancestors, es);
	gpuscan_explain_expressions("Device Filter", state->quals, &state->node, ancestors, es);
	gpuscan_explain_node(&state->node, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "GpuAgg",
	.BeginCustomScan = begin,
	.ExecCustomScan = execute,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *scan pg_attribute_unused())
{
	GpuAggState *state = (GpuAggState *) newNode(sizeof(GpuAggState), T_CustomScanState);

	state->node.css.methods = &exec_methods;
	return (Node *) state;
}

const CustomScanMethods gpuscan_agg_methods = {
	.CustomName = "GpuAgg",
	.CreateCustomScanState = create_state,
};
