/*-------------------------------------------------------------------------
 *
 * node_scan.c
 *	  GpuScan: a scan whose conditions a device evaluates.
 *
 * The device answers each batch with what became of each tuple.  The pages are
 * still pinned here, so a tuple that passed is returned as a sequential scan
 * returns it, with all columns and in the same order; the plan's projection
 * and its other conditions are PostgreSQL's.
 *
 * A tuple that the device could not decide (an error, a toasted value) has all
 * conditions evaluated here.  So has every tuple once the request has failed:
 * unlike an aggregation, a scan can go on in the middle.
 *
 * Where expressions are columns of the cache it is so from the start: what is missing
 * there is loaded, the device says which blocks may have rows, and the tuples of these
 * and of those that are not cached have all conditions evaluated here.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/nodes.h"
#include "miscadmin.h"
#include "planner/planner.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

typedef struct GpuScanState
{
	GpuScanNodeState node;
	List *relations; /* of the one relation */
	List *device_quals;
	ExprState *local_quals; /* what the device leaves to us of a tuple that passed */
	ExprState *all_quals;	/* what a recheck evaluates */
	bool with_expressions;
	bool returned; /* a row, since the start or rescan */
	bool failed;   /* the request did: we go on alone */

	/* where we are, in the batch taken back last or in one page that is evaluated here */
	GpuScanClientBatch *batch;
	GpuScanClientBlock block;
	int nblocks;
	int block_no;
	uint32 tuple_no;
	HeapTupleData tuple;
} GpuScanState;

/* ExecScan's check of a row that EvalPlanQual supplies. */
static bool
recheck(ScanState *ss, TupleTableSlot *slot)
{
	GpuScanState *state = (GpuScanState *) ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQual(state->all_quals, econtext);
}

/* Puts tuple i of the current block into the slot. */
static void
store_tuple(GpuScanState *state, uint32 i, TupleTableSlot *slot)
{
	const GpuScanClientBlock *block = &state->block;
	OffsetNumber offset = gpuscan_client_line_pointer(block, i);
	ItemId lp = PageGetItemId(block->page, offset);

	state->tuple.t_data = (HeapTupleHeader) PageGetItem(block->page, lp);
	state->tuple.t_len = ItemIdGetLength(lp);
	state->tuple.t_tableOid = RelationGetRelid(state->node.css.ss.ss_currentRelation);
	ItemPointerSet(&state->tuple.t_self, block->blkno, offset);

	/* a page that was copied into the batch goes away with it */
	if (BufferIsValid(block->buffer))
		ExecStoreBufferHeapTuple(&state->tuple, slot, block->buffer);
	else
	{
		ExecForceStoreHeapTuple(&state->tuple, slot, false);
		slot->tts_tableOid = state->tuple.t_tableOid;
	}
}

/* The next tuple in what we have that meets all conditions, or false. */
static bool
next_in_batch(GpuScanState *state, TupleTableSlot *slot)
{
	ExprContext *econtext = state->node.css.ss.ps.ps_ExprContext;
	bool here = state->failed || state->with_expressions;

	while (state->block_no < state->nblocks)
	{
		if (state->tuple_no == 0 && state->batch != NULL)
			state->block = gpuscan_client_block(state->batch, state->block_no);
		while (state->tuple_no < state->block.ntuples)
		{
			uint32 i = state->tuple_no++;
			int outcome = here ? GPUSCAN_TUPLE_RECHECK : state->block.outcome[i];
			bool passed = outcome == GPUSCAN_TUPLE_PASSED;
			ExprState *quals = passed ? state->local_quals : state->all_quals;

			if (outcome == GPUSCAN_TUPLE_REJECTED)
				continue;
			store_tuple(state, i, slot);
			state->node.counters.rechecked += !passed;
			if (quals == NULL)
				return true;
			CHECK_FOR_INTERRUPTS();
			ResetExprContext(econtext);
			econtext->ecxt_scantuple = slot;
			if (ExecQual(quals, econtext))
				return true;
			InstrCountFiltered1(&state->node.css.ss.ps, 1);
		}
		state->block_no++;
		state->tuple_no = 0;
	}
	return false;
}

static void
release_batch(GpuScanState *state)
{
	if (state->batch != NULL)
		gpuscan_client_release(state->node.run->client, state->batch);
	else if (state->nblocks > 0)
		ReleaseBuffer(state->block.buffer);
	state->batch = NULL;
	state->nblocks = state->block_no = 0;
	state->tuple_no = 0;
}

/* Asks the cache the next question, and takes the answer; false if the request failed. */
static bool
ask(GpuScanFeed *feed)
{
	GpuScanClientBatch *batch = gpuscan_client_batch(feed->client);

	if (batch == NULL)
		return false;
	gpuscan_feed_ask(feed, batch);

	/* there is none where that needs no service */
	batch = gpuscan_client_completed(feed->client, true);
	if (batch == NULL)
		return gpuscan_client_failure(feed->client) == NULL;
	gpuscan_feed_take_answer(feed, batch);
	gpuscan_client_release(feed->client, batch);
	return true;
}

/*
 * The next page whose tuples are evaluated here; asks the cache the next question when there is
 * no page left.  False at the end, or if the request failed.
 */
static bool
next_page(GpuScanState *state)
{
	GpuScanFeed *feed = &state->node.run->feed;
	MemoryContext old = MemoryContextSwitchTo(feed->context);
	bool found;

	while (!(found = gpuscan_feed_next_page(feed)) && gpuscan_feed_wants_to_ask(feed) && ask(feed))
		;
	MemoryContextSwitchTo(old);
	if (!found)
		return false;
	gpuscan_feed_report(feed);
	feed->have_page = false;
	state->nblocks = 1;
	state->block = (GpuScanClientBlock){
		.buffer = feed->page.buffer,
		.page = BufferGetPage(feed->page.buffer),
		.blkno = BufferGetBlockNumber(feed->page.buffer),
		.ntuples = feed->page.ntuples,
		.offsets = feed->page.offsets,
	};
	return true;
}

/*
 * After a failure: the next batch that the device did not answer, or the next
 * page that was never pushed.
 */
static bool
next_local(GpuScanState *state)
{
	state->batch = gpuscan_client_abandoned(state->node.run->client);
	if (state->batch == NULL)
		return next_page(state);
	state->nblocks = gpuscan_client_num_blocks(state->batch);
	return true;
}

/* The next answered batch; false at the end, or if the request failed. */
static bool
next_batch(GpuScanState *state)
{
	GpuScanRun *run = state->node.run;

	if (state->with_expressions)
		return next_page(state);
	for (;;)
	{
		gpuscan_feed_fill(&run->feed);
		state->batch = gpuscan_client_completed(run->client, true);
		if (state->batch == NULL)
			return false;
		if (!gpuscan_client_is_question(state->batch))
			break;
		gpuscan_feed_take_answer(&run->feed, state->batch);
		release_batch(state);
	}
	state->nblocks = gpuscan_client_num_blocks(state->batch);
	return true;
}

/* Tells the planner what was found by expressions, at the end of the scan. */
static void
learn(GpuScanState *state)
{
	const GpuScanRun *run = state->node.run;
	MemoryContext old = MemoryContextSwitchTo(run->context);

	if (run->compiled->expressions != NIL && run->feed.counters.cached > 0)
		gpuscan_cost_learn(RelationGetRelid(state->node.parent), run->compiled->expressions,
						   (double) run->feed.counters.hits / run->feed.counters.cached);
	MemoryContextSwitchTo(old);
}

/*
 * ExecScan's access method.  Gives an empty slot also where the request failed
 * before the first row: then the run is closed and the replaced plan is ready.
 */
static TupleTableSlot *
next_tuple(ScanState *ss)
{
	GpuScanState *state = (GpuScanState *) ss;
	GpuScanNodeState *node = &state->node;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	while (!next_in_batch(state, slot))
	{
		ExecClearTuple(slot);
		release_batch(state);
		if (!state->failed)
		{
			if (next_batch(state))
				continue;
			if (gpuscan_client_failure(node->run->client) == NULL)
			{
				node->finished = true;
				learn(state);
				return slot;
			}
			node->replaced_reason = MemoryContextStrdup(ss->ps.state->es_query_cxt,
														gpuscan_client_failure(node->run->client));
			if (!state->returned)
			{
				gpuscan_run_close(node);
				gpuscan_replaced_start(node, node->replaced_reason);
				return slot;
			}
			state->failed = true;
			gpuscan_feed_plan_rest(&node->run->feed);
		}
		if (!next_local(state))
		{
			node->finished = true;
			return slot;
		}
	}
	state->returned = true;
	return slot;
}

static void
begin(CustomScanState *css, EState *estate, int eflags)
{
	GpuScanState *state = (GpuScanState *) css;
	CustomScan *scan = (CustomScan *) css->ss.ps.plan;
	TupleDesc tupdesc = RelationGetDescr(css->ss.ss_currentRelation);
	ListCell *lc;

	state->node.eflags = eflags;
	state->relations = list_make1(css->ss.ss_currentRelation);
	state->with_expressions = list_nth_int(scan->custom_private, GPUSCAN_WITH_EXPRESSIONS) != 0;
	state->node.loads_first = state->with_expressions;
	foreach(lc, scan->custom_exprs)
	{
		if (list_nth_int(scan->custom_private, GPUSCAN_ON_DEVICE + foreach_current_index(lc)) != 0)
			state->device_quals = lappend(state->device_quals, lfirst(lc));
	}
	state->node.valued =
		list_copy_tail(scan->custom_private, GPUSCAN_ON_DEVICE + list_length(scan->custom_exprs));

	/* the slot that ExecInitCustomScan made holds no heap tuples */
	ExecInitScanTupleSlot(estate, &css->ss, tupdesc,
						  table_slot_callbacks(css->ss.ss_currentRelation));
	gpuscan_node_force_projection(&state->node, tupdesc);
	/* not ExecScan's, or a tuple that is rechecked would have them evaluated twice */
	css->ss.ps.qual = NULL;
	state->local_quals = ExecInitQual(scan->scan.plan.qual, &css->ss.ps);
	state->all_quals = ExecInitQual(scan->custom_exprs, &css->ss.ps);
}

static void
start(GpuScanState *state)
{
	ScanState *ss = &state->node.css.ss;
	GpuScanCompileInput input = {0};

	state->node.started = true;
	state->returned = state->failed = false;
	input.varno = ((Scan *) ss->ps.plan)->scanrelid;
	input.relid = RelationGetRelid(ss->ss_currentRelation);
	input.quals = state->device_quals;
	input.evaluate = gpuscan_parameter_evaluate;
	input.values_of = gpuscan_column_values;
	input.evaluate_each = gpuscan_parameter_evaluate_each;
	input.arg = state;
	input.with_expressions = state->with_expressions;
	gpuscan_run_open(&state->node, &input, ss->ss_currentRelation, state->relations);
	if (state->node.run == NULL)
		return;
	state->node.run->feed.only_asks = state->with_expressions;
	gpuscan_feed_search(&state->node.run->feed);
}

static TupleTableSlot *
execute(CustomScanState *css)
{
	GpuScanState *state = (GpuScanState *) css;
	TupleTableSlot *slot;

	if (!state->node.started)
		start(state);
	if (state->node.finished)
		return ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	if (state->node.run == NULL)
		return gpuscan_replaced_next(&state->node);
	slot = ExecScan(&css->ss, next_tuple, recheck);

	/* an Append above may run many of us: leave the request slot to the next one */
	if (state->node.finished)
		gpuscan_run_close(&state->node);
	else if (state->node.run == NULL)
		slot = gpuscan_replaced_next(&state->node);
	return slot;
}

static void
rewind_batch(GpuScanState *state)
{
	ExecClearTuple(state->node.css.ss.ss_ScanTupleSlot);
	if (state->node.run != NULL)
		release_batch(state);
}

static void
end(CustomScanState *css)
{
	rewind_batch((GpuScanState *) css);
	gpuscan_node_end((GpuScanNodeState *) css);
}

static void
rescan(CustomScanState *css)
{
	rewind_batch((GpuScanState *) css);
	ExecScanReScan(&css->ss);
	gpuscan_node_rescan((GpuScanNodeState *) css);
}

static void
explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	GpuScanState *state = (GpuScanState *) css;

	if (es->analyze)
		rewind_batch(state);
	gpuscan_explain_expressions("Device Filter", state->device_quals, &state->node, ancestors, es);
	gpuscan_explain_node(&state->node, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "GpuScan",
	.BeginCustomScan = begin,
	.ExecCustomScan = execute,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *scan pg_attribute_unused())
{
	GpuScanState *state = (GpuScanState *) newNode(sizeof(GpuScanState), T_CustomScanState);

	state->node.css.methods = &exec_methods;
	return (Node *) state;
}

const CustomScanMethods gpuscan_scan_methods = {
	.CustomName = "GpuScan",
	.CreateCustomScanState = create_state,
};
