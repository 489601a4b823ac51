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

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "program/program.h"
#include "utils/rel.h"

/* Expressions over the parent's columns as those over rel's, as range table entry 1. */
extern List *gpuscan_identity_own(Relation rel, Relation parent, List *expressions);

/* Sets all but the text of one of rel's own; and the text. */
extern void gpuscan_identity_set(Relation rel, Expr *expr, GpuScanExpression *expression);
extern void gpuscan_identity_name(Relation rel, Expr *expr, GpuScanExpression *expression);

/* Appends what the identity of one of rel's own is made of; and hashes that. */
extern void gpuscan_identity_write(Relation rel, Expr *expr, StringInfo text);
extern void gpuscan_identity_hash(const StringInfoData *text, uint8 *identity);

/*
 * The expression of such a text, which had better be one that a server wrote.  NULL if it has
 * another identity in this relation as it is now, or is none that may be a column.
 */
extern Expr *gpuscan_identity_read(Relation rel, const StringInfoData *text);

/*
 * The missing value of attribute `attnum`, from 0, in *value, a varlena detoasted; false
 * where a tuple that is too short has NULL.
 */
extern bool gpuscan_identity_missing(TupleDesc desc, int attnum, Datum *value);

#endif /* GPUSCAN_IDENTITY_H */
