/*-------------------------------------------------------------------------
 *
 * evaluator.h
 *	  Expressions that PostgreSQL evaluates where an error need not be the query's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_EVALUATOR_H
#define GPUSCAN_EVALUATOR_H

#include "gpuscan.h"

#include "access/htup.h"
#include "nodes/execnodes.h"
#include "storage/bufpage.h"
#include "storage/off.h"
#include "utils/rel.h"

/*
 * Evaluates; false if that raises an error which may not be the query's.  Only for
 * PostgreSQL's own C functions, see parameter.c.
 */
extern bool
gpuscan_try_evaluate(ExprState *state, ExprContext *econtext, Datum *value, bool *isnull);

/* What forms tuples of a relation with expressions' values */
typedef struct GpuScanEvaluator GpuScanEvaluator;

/* For the relation's own expressions; columns as in gpuscan_heap_layout. */
extern GpuScanEvaluator *
gpuscan_evaluator_create(Relation rel, List *expressions, const AttrNumber *attnums, int ncolumns);

/*
 * The tuple at a line pointer of a pinned page, flat and with the values, until the next
 * call.  NULL: an evaluation has raised an error.
 */
extern HeapTuple
gpuscan_evaluator_form(GpuScanEvaluator *evaluator, Page page, OffsetNumber offset);

#endif /* GPUSCAN_EVALUATOR_H */
