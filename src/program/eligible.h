/*-------------------------------------------------------------------------
 *
 * eligible.h
 *	  The one list of types, functions and aggregates that may be offloaded.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_ELIGIBLE_H
#define GPUSCAN_ELIGIBLE_H

#include "gpuscan.h"

#include "program/op.h"

/* What the compiler does with a call of a listed function. */
typedef enum GpuScanAction
{
	GPUSCAN_DO_OP,		 /* `op`, operands widened to its classes */
	GPUSCAN_DO_COMPARE,	 /* `op` is a GpuScanComparison */
	GPUSCAN_DO_CAST,	 /* to the function's result type */
	GPUSCAN_DO_NEGATE,	 /* numeric */
	GPUSCAN_DO_ABS,		 /* numeric */
	GPUSCAN_DO_ADD,		 /* numeric */
	GPUSCAN_DO_SUBTRACT, /* numeric */
	GPUSCAN_DO_MULTIPLY, /* numeric */
	GPUSCAN_DO_TYPMOD	 /* numeric(numeric, typmod) */
} GpuScanAction;

/* In the order of the comparison operations of each class in ops.h. */
typedef enum GpuScanComparison
{
	GPUSCAN_EQ,
	GPUSCAN_NE,
	GPUSCAN_LT,
	GPUSCAN_LE,
	GPUSCAN_GT,
	GPUSCAN_GE
} GpuScanComparison;

typedef struct GpuScanFunction
{
	Oid funcid;
	GpuScanAction action;
	int op;
} GpuScanFunction;

typedef struct GpuScanAggregateFunction
{
	Oid aggfnoid;
	GpuScanAggKind kind;
} GpuScanAggregateFunction;

/* The list's entry, or NULL. */
extern const GpuScanFunction *gpuscan_eligible_function(Oid funcid);
extern const GpuScanAggregateFunction *gpuscan_eligible_aggregate(Oid aggfnoid);

/*
 * False if an immutable function of PostgreSQL's gives another result under other settings, or
 * at another time, all the same.
 */
extern bool gpuscan_eligible_is_immutable(Oid funcid);

/*
 * False if values of this base type are not handled.  *cls is the class of its
 * registers, and *decode how an attribute of it is read; for numeric, those of
 * up to 18 digits.
 */
extern bool gpuscan_eligible_type(Oid type, GpuScanClass *cls, GpuScanDecode *decode);

#endif /* GPUSCAN_ELIGIBLE_H */
