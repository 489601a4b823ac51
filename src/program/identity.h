/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Expressions over a relation's columns, as columns of their own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_IDENTITY_H
#define GPUSCAN_IDENTITY_H

#include "gpuscan.h"

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "program/program.h"
#include "utils/rel.h"

/* Expressions over the parent's columns as those over rel's, as range table entry 1. */
extern List *gpuscan_identity_own(Relation rel, Relation parent, List *expressions);

/* Sets all but the text of one of rel's own; and the text. */
extern void gpuscan_identity_set(Relation rel, Expr *expr, GpuScanExpression *expression);
extern void gpuscan_identity_name(Relation rel, Expr *expr, GpuScanExpression *expression);

/*
 * The missing value of attribute `attnum`, from 0, in *value, a varlena detoasted; false
 * where a tuple that is too short has NULL.
 */
extern bool gpuscan_identity_missing(TupleDesc desc, int attnum, Datum *value);

#endif /* GPUSCAN_IDENTITY_H */
