/*-------------------------------------------------------------------------
 *
 * evaluator.c
 *	  Tuples with the values of expressions, for requests whose Program has expressions
 *	  among its columns.
 *
 * A tuple is deformed, PostgreSQL evaluates the expressions over it, and what the
 * Program reads, its attributes and the values, is formed to a new, flat tuple.
 *
 * Everything lives in the memory context that was current at create, without a
 * reference to anything that is counted, so it ends with that.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/htup_details.h"
#include "executor/evaluator.h"
#include "executor/executor.h"
#include "heap/heap.h"
#include "utils/memutils.h"

struct GpuScanEvaluator
{
	Oid relid;
	TupleDesc desc; /* of what is formed */
	const AttrNumber *attnums;
	int ncolumns;
	int natts; /* of the relation */
	int last;  /* of these, that is formed */
	int nexpressions;
	ExprState **states;
	ExprContext *econtext;
	TupleTableSlot *slot;
	HeapTupleData tuple; /* in it */
	Datum *values;		 /* of desc */
	bool *isnull;
};

GpuScanEvaluator *
gpuscan_evaluator_create(Relation rel, List *expressions, const AttrNumber *attnums, int ncolumns)
{
	GpuScanEvaluator *evaluator = palloc0(sizeof(GpuScanEvaluator));
	ListCell *lc;

	evaluator->relid = RelationGetRelid(rel);
	evaluator->desc = gpuscan_heap_descriptor(rel, expressions);
	evaluator->attnums = attnums;
	evaluator->ncolumns = ncolumns;
	evaluator->natts = RelationGetDescr(rel)->natts;
	for (int i = 0; i < ncolumns; i++)
	{
		if (attnums[i] <= evaluator->natts)
			evaluator->last = Max(evaluator->last, attnums[i]);
	}
	evaluator->nexpressions = list_length(expressions);
	evaluator->states = palloc(evaluator->nexpressions * sizeof(ExprState *));
	evaluator->econtext = CreateStandaloneExprContext();

	/* of a copy, which is not counted */
	evaluator->slot = MakeSingleTupleTableSlot(CreateTupleDescCopyConstr(RelationGetDescr(rel)),
											   &TTSOpsHeapTuple);
	evaluator->econtext->ecxt_scantuple = evaluator->slot;
	evaluator->values = palloc(evaluator->desc->natts * sizeof(Datum));
	evaluator->isnull = palloc(evaluator->desc->natts * sizeof(bool));

	/* without a parent an expression is not handed to the JIT */
	foreach(lc, expressions)
		evaluator->states[foreach_current_index(lc)] = ExecInitExpr(lfirst(lc), NULL);
	return evaluator;
}

HeapTuple
gpuscan_evaluator_form(GpuScanEvaluator *evaluator, Page page, OffsetNumber offset)
{
	ExprContext *econtext = evaluator->econtext;
	TupleTableSlot *slot = evaluator->slot;
	ItemId lp = PageGetItemId(page, offset);
	HeapTuple result;
	MemoryContext old;

	Assert(ItemIdIsNormal(lp));
	ResetExprContext(econtext);
	evaluator->tuple.t_data = (HeapTupleHeader) PageGetItem(page, lp);
	evaluator->tuple.t_len = ItemIdGetLength(lp);
	evaluator->tuple.t_tableOid = evaluator->relid;
	ItemPointerSetInvalid(&evaluator->tuple.t_self);
	ExecStoreHeapTuple(&evaluator->tuple, slot, false);
	if (evaluator->last > 0)
		slot_getsomeattrs(slot, evaluator->last);
	memcpy(evaluator->values, slot->tts_values, evaluator->last * sizeof(Datum));
	memcpy(evaluator->isnull, slot->tts_isnull, evaluator->last * sizeof(bool));
	for (int i = 0; i < evaluator->nexpressions; i++)
	{
		if (!gpuscan_try_evaluate(evaluator->states[i], econtext,
								  &evaluator->values[evaluator->natts + i],
								  &evaluator->isnull[evaluator->natts + i]))
			return NULL;
	}
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	result = gpuscan_heap_form(evaluator->desc, evaluator->values, evaluator->isnull,
							   evaluator->attnums, evaluator->ncolumns);
	MemoryContextSwitchTo(old);
	return result;
}
