/*-------------------------------------------------------------------------
 *
 * node_agg.c
 *	  GpuAgg: grouping and aggregation of relations on a device.
 *
 *		push every page; make flat what comes back deferred, and push it
 *		finish, fetch all group rows, end the request
 *		if the groups did not fit into memory, start over, in passes
 *		then for each row
 *			keys and final values into the scan slot
 *			HAVING, projection: PostgreSQL's
 *
 * The request is over before the first row is returned, so whatever fails in it,
 * the replaced plan can still run.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/executor.h"
#include "executor/finish.h"
#include "executor/nodes.h"
#include "executor/result.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
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
	state->node.valued = list_copy_tail(scan->custom_private, GPUAGG_VALUED);
	state->varno = linitial_node(Var, relations->args)->varno;
	/* which also refuses a materialized view without data */
	state->parent = ExecOpenScanRelation(estate, state->varno, eflags);
	for_each_from(lc, relations->args, 1)
		state->relations = lappend(state->relations,
								   ExecGetRangeTableRelation(estate, lfirst_node(Var, lc)->varno));
	gpuscan_node_force_projection(&state->node, css->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
}

/*
 * Collects all groups; NULL, or why that failed.
 *
 * Where the device has too little memory, the input is read in passes, each for
 * the groups whose hash has a certain number in its last bits: as many passes as
 * it takes, by doubling.  A pass that is done stays done, whatever becomes of
 * the others; bit i of `done` says so of all groups with i in the bits of the
 * finest pass.
 */
static const char *
collect(GpuAggState *state)
{
	GpuScanRun *run = state->node.run;
	const GpuScanProgram *program = run->compiled->program;
	GpuScanPass pass = {0};
	uint64 done = 0;
	uint32 passes = 0;
	const char *reason;

	StaticAssertStmt(GPUSCAN_MAX_PASSES == 64, "one bit for each");
	run->result = gpuscan_result_create(program);
	do
	{
		if (gpuscan_run_aggregate(&state->node, run))
		{
			if (!gpuscan_result_collect(run->result, run->client))
				return gpuscan_client_failure(run->client);
			passes++;
			for (uint32 i = pass.number; i < GPUSCAN_MAX_PASSES; i += pass.mask + 1)
				done |= UINT64CONST(1) << i;
			if (done == PG_UINT64_MAX)
			{
				gpuscan_result_rewind(run->result);
				state->node.counters.passes = Max(state->node.counters.passes, passes);
				return NULL;
			}
			while ((done >> pass.number & 1) != 0)
				pass.number = (pass.number + 1) & pass.mask;
		}
		else if (gpuscan_client_out_of_memory(run->client) && program->nkeys > 0 &&
				 pass.mask < GPUSCAN_MAX_PASSES - 1)
			pass.mask = pass.mask << 1 | 1;
		else
			return gpuscan_client_failure(run->client);
	} while (gpuscan_run_start_over(&state->node, pass, &reason));
	return reason;
}

/* True unless a condition that is the same for every tuple is not true. */
static bool
gate_is_open(GpuAggState *state)
{
	ListCell *lc;

	foreach(lc, state->quals)
	{
		Datum value;
		bool isnull;

		if (!contain_var_clause(lfirst(lc)) &&
			gpuscan_parameter_evaluate(state, lfirst(lc), &value, &isnull) &&
			(isnull || !DatumGetBool(value)))
			return false;
	}
	return true;
}

static void
start(GpuAggState *state)
{
	GpuScanNodeState *node = &state->node;
	EState *estate = node->css.ss.ps.state;
	CustomScan *scan = (CustomScan *) node->css.ss.ps.plan;
	GpuScanCompileInput input = {0};
	GpuScanRun *run;
	MemoryContext old;
	const char *reason;

	node->started = true;
	input.varno = state->varno;
	input.relid = RelationGetRelid(state->parent);
	input.quals = state->quals;
	input.aggregate = true;
	input.keys = state->keys;
	input.aggrefs = state->aggrefs;
	input.evaluate = gpuscan_parameter_evaluate;
	input.values_of = gpuscan_column_values;
	input.evaluate_each = gpuscan_parameter_evaluate_each;
	input.arg = state;
	input.with_expressions = list_nth_int(scan->custom_private, GPUAGG_WITH_EXPRESSIONS) != 0;
	gpuscan_run_open(node, &input, state->parent, gate_is_open(state) ? state->relations : NIL);
	run = node->run;
	if (run == NULL)
		return;

	old = MemoryContextSwitchTo(run->context);
	reason = collect(state);
	if (reason == NULL)
	{
		gpuscan_run_end_request(node);
		state->finish = gpuscan_finish_create(run->compiled->program, run->compiled->outputs,
											  run->compiled->noutputs);
		MemoryContextSwitchTo(old);
	}
	else
	{
		reason = MemoryContextStrdup(estate->es_query_cxt, reason);
		MemoryContextSwitchTo(old);
		gpuscan_run_close(node);
		gpuscan_replaced_start(node, reason);
	}
}

/* Puts the next group into the scan slot; false at the end. */
static bool
next_group(GpuAggState *state)
{
	TupleTableSlot *slot = state->node.css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->node.css.ss.ps.ps_ExprContext;
	const char *chunk;
	const char *row;
	MemoryContext old;

	ExecClearTuple(slot);
	row = gpuscan_result_next(state->node.run->result, &chunk);
	if (row == NULL)
		return false;

	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	gpuscan_finish_row(state->finish, chunk, row, slot->tts_values, slot->tts_isnull);
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
