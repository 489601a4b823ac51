/*-------------------------------------------------------------------------
 *
 * evaluator.c
 *	  Tuples with the values of expressions, for requests whose Program has expressions
 *	  among its columns.
 *
 * A tuple is deformed, PostgreSQL evaluates the expressions over it, and what the
 * Program reads, its attributes and the values, is formed to a new, flat tuple.
 *
 * That happens for every row, also for those that PostgreSQL would not look at, so
 * whatever error it raises need not be the query's: memory that is not there, a value
 * that is damaged.  The node then runs its replaced plan, or does not load the range, where
 * that is all that it is for.  There is no subtransaction, which a
 * parallel worker cannot have, but what an error may leave behind is let go of as one
 * does it: a resource owner has the buffers and relations of a toasted value.
 *
 * Everything else lives in the memory context that was current at create, without a
 * reference to anything that is counted, so it ends with that.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "executor/evaluator.h"
#include "executor/executor.h"
#include "heap/heap.h"
#include "miscadmin.h"
#include "service/client.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

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
	ResourceOwner owner; /* since the first tuple, until it is released */
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

static void
release_owner(ResourceOwner owner, bool commit)
{
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, commit, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, commit, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, commit, false);
}

void
gpuscan_evaluator_release(GpuScanEvaluator *evaluator)
{
	if (evaluator->owner == NULL)
		return;
	release_owner(evaluator->owner, true);
	ResourceOwnerDelete(evaluator->owner);
	evaluator->owner = NULL;
}

/* True for what is asked of the session or its transaction, and has nothing to do with values. */
static bool
is_interruption(int sqlerrcode)
{
	return ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION ||
		   ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK;
}

/* Lets go of what an error has left, as AbortSubTransaction does. */
static void
clean_up(GpuScanEvaluator *evaluator)
{
	HOLD_INTERRUPTS();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	AbortBufferIO();
	UnlockBuffers();
	ConditionVariableCancelSleep();
	LockErrorCleanup();
	release_owner(evaluator->owner, false);
	RESUME_INTERRUPTS();
}

/* Adds a value of a column to the tuple's size; false if no batch has room for it. */
static bool
add_value_size(const GpuScanEvaluator *evaluator, int att, Size *size)
{
	if (!evaluator->isnull[att] && TupleDescAttr(evaluator->desc, att)->attlen == -1)
		*size += toast_raw_datum_size(evaluator->values[att]);
	return *size <= gpuscan_client_max_tuple_size();
}

static HeapTuple
form_values(GpuScanEvaluator *evaluator)
{
	MemoryContext old = MemoryContextSwitchTo(evaluator->econtext->ecxt_per_tuple_memory);
	HeapTuple result = gpuscan_heap_form(evaluator->desc, evaluator->values, evaluator->isnull,
										 evaluator->attnums, evaluator->ncolumns);

	MemoryContextSwitchTo(old);
	return result;
}

/* Evaluates and forms; NULL if the tuple is too large. */
static HeapTuple
form_tuple(GpuScanEvaluator *evaluator)
{
	ExprContext *econtext = evaluator->econtext;
	TupleTableSlot *slot = evaluator->slot;
	Size size = 0;

	if (evaluator->last > 0)
		slot_getsomeattrs(slot, evaluator->last);
	memcpy(evaluator->values, slot->tts_values, evaluator->last * sizeof(Datum));
	memcpy(evaluator->isnull, slot->tts_isnull, evaluator->last * sizeof(bool));
	for (int i = 0; i < evaluator->ncolumns; i++)
	{
		int att = evaluator->attnums[i] - 1;

		if (att < evaluator->natts && !add_value_size(evaluator, att, &size))
			return NULL;
	}
	for (int i = 0; i < evaluator->nexpressions; i++)
	{
		int att = evaluator->natts + i;

		evaluator->values[att] =
			ExecEvalExprSwitchContext(evaluator->states[i], econtext, &evaluator->isnull[att]);
		if (!add_value_size(evaluator, att, &size))
			return NULL;
	}
	return form_values(evaluator);
}

HeapTuple
gpuscan_evaluator_form_nulls(GpuScanEvaluator *evaluator)
{
	memset(evaluator->isnull, true, evaluator->desc->natts * sizeof(bool));
	return form_values(evaluator);
}

HeapTuple
gpuscan_evaluator_form(GpuScanEvaluator *evaluator, Page page, OffsetNumber offset,
					   GpuScanRowFailure *failure)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ItemId lp = PageGetItemId(page, offset);
	HeapTuple volatile result = NULL;
	volatile GpuScanRowFailure failing = GPUSCAN_ROW_TOO_LARGE;

	Assert(ItemIdIsNormal(lp));
	ResetExprContext(evaluator->econtext);
	evaluator->tuple.t_data = (HeapTupleHeader) PageGetItem(page, lp);
	evaluator->tuple.t_len = ItemIdGetLength(lp);
	evaluator->tuple.t_tableOid = evaluator->relid;
	ItemPointerSetInvalid(&evaluator->tuple.t_self);
	ExecStoreHeapTuple(&evaluator->tuple, evaluator->slot, false);
	if (evaluator->owner == NULL)
		evaluator->owner = ResourceOwnerCreate(owner, "gpuscan evaluator");
	CurrentResourceOwner = evaluator->owner;
	PG_TRY();
	{
		result = form_tuple(evaluator);
	}
	PG_CATCH();
	{
		CurrentResourceOwner = owner;
		if (is_interruption(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		clean_up(evaluator);
		failing = GPUSCAN_ROW_ERROR;
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	*failure = failing;
	return result;
}
