/*-------------------------------------------------------------------------
 *
 * evaluator.h
 *	  Tuples with the values of expressions that PostgreSQL evaluates for each row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_EVALUATOR_H
#define GPUSCAN_EVALUATOR_H

#include "gpuscan.h"

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "storage/bufpage.h"
#include "storage/off.h"
#include "utils/rel.h"

/* What forms tuples of a relation with expressions' values */
typedef struct GpuScanEvaluator GpuScanEvaluator;

/* For the relation's own expressions; columns as in gpuscan_heap_layout. */
extern GpuScanEvaluator *
gpuscan_evaluator_create(Relation rel, List *expressions, const AttrNumber *attnums, int ncolumns);

/* Why a row is not formed */
typedef enum GpuScanRowFailure
{
	GPUSCAN_ROW_FORMED,
	GPUSCAN_ROW_ERROR,
	GPUSCAN_ROW_TOO_LARGE /* no batch has room for its values */
} GpuScanRowFailure;

/*
 * The tuple at a line pointer of a pinned page, flat and with the values, until the next
 * call.  NULL with *failure: an error need not be the query's.
 */
extern HeapTuple gpuscan_evaluator_form(GpuScanEvaluator *evaluator, Page page, OffsetNumber offset,
										GpuScanRowFailure *failure);

/* A tuple like those, of NULLs; the same. */
extern HeapTuple gpuscan_evaluator_form_nulls(GpuScanEvaluator *evaluator);

/* Frees what does not end with the memory context, and with the resource owner of the first call. */
extern void gpuscan_evaluator_release(GpuScanEvaluator *evaluator);

#endif /* GPUSCAN_EVALUATOR_H */
