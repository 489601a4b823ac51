/*-------------------------------------------------------------------------
 *
 * replaced_plan.c
 *	  The CPU plan that a node replaced, and the end and rescan of nodes.
 *
 * The plan is initialized only when it is needed.  It has the node's own target
 * (planner.h says why), conditions and HAVING, so its rows are the node's rows;
 * they are copied into the node's own slot because the plan above was
 * built for a virtual one.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/executor.h"
#include "executor/nodes.h"

/* From now on, until a rescan, the replaced plan gives the rows. */
void
gpuscan_replaced_start(GpuScanNodeState *node, const char *reason)
{
	CustomScan *scan = (CustomScan *) node->css.ss.ps.plan;
	EState *estate = node->css.ss.ps.state;

	node->replaced_reason = reason;
	if (node->css.custom_ps == NIL)
	{
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

		node->css.custom_ps =
			list_make1(ExecInitNode(linitial(scan->custom_plans), estate, node->eflags));
		MemoryContextSwitchTo(old);
	}
}

TupleTableSlot *
gpuscan_replaced_next(GpuScanNodeState *node)
{
	TupleTableSlot *result = node->css.ss.ps.ps_ResultTupleSlot;
	TupleTableSlot *slot = ExecProcNode(linitial(node->css.custom_ps));
	int natts = result->tts_tupleDescriptor->natts;

	ExecClearTuple(result);
	if (TupIsNull(slot))
		return NULL;
	slot_getallattrs(slot);
	memcpy(result->tts_values, slot->tts_values, natts * sizeof(Datum));
	memcpy(result->tts_isnull, slot->tts_isnull, natts * sizeof(bool));
	return ExecStoreVirtualTuple(result);
}

/*
 * Gives the node a projection into a virtual slot also where it would return
 * the scan's slot as it is: the replaced plan's rows go into the same slot.
 */
void
gpuscan_node_force_projection(GpuScanNodeState *node, TupleDesc tupdesc)
{
	PlanState *ps = &node->css.ss.ps;

	if (ps->ps_ResultTupleSlot == NULL)
		ExecInitResultSlot(ps, &TTSOpsVirtual);
	ExecAssignProjectionInfo(ps, tupdesc);
}

void
gpuscan_node_end(GpuScanNodeState *node)
{
	gpuscan_run_close(node);
	if (node->css.custom_ps != NIL)
		ExecEndNode(linitial(node->css.custom_ps));
}

void
gpuscan_node_rescan(GpuScanNodeState *node)
{
	gpuscan_run_close(node);
	node->started = node->finished = false;
	if (node->css.custom_ps != NIL)
	{
		PlanState *replaced = linitial(node->css.custom_ps);

		/* ExecReScan does this for ordinary children only */
		if (node->css.ss.ps.chgParam != NULL)
			UpdateChangedParamSet(replaced, node->css.ss.ps.chgParam);
		if (replaced->chgParam == NULL)
			ExecReScan(replaced);
	}
}
