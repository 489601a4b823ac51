/*-------------------------------------------------------------------------
 *
 * compile.h
 *	  From PostgreSQL's expressions to a Program, or a reason why not.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COMPILE_H
#define GPUSCAN_COMPILE_H

#include "gpuscan.h"

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "program/program.h"

/*
 * Gives the value of an expression without Vars (a Param, or a stable function
 * of such) for this execution, in memory that outlives the compilation.
 * Returns false if it cannot be had: the Program cannot be made.
 */
typedef bool (*GpuScanEvaluate)(void *arg, Expr *expr, Datum *value, bool *isnull);

/* Values of a column, each once, without NULL. */
typedef struct GpuScanColumnValues
{
	uint32 n;
	Datum *values;
} GpuScanColumnValues;

/*
 * The values that a column has in this execution, in memory that outlives the
 * compilation; while planning, none, and only whether there is a point in asking
 * for them.  NULL with *reason where not.
 */
typedef const GpuScanColumnValues *(*GpuScanValuesOf)(void *arg, const Var *column,
													  const char **reason);

/*
 * Evaluates an expression over that column for each of n values and then for
 * NULL: results[n + 1], and in flags 0, GPUSCAN_NULL, or GPUSCAN_ERROR where
 * PostgreSQL raises an error.
 */
typedef void (*GpuScanEvaluateEach)(void *arg, Expr *expr, const GpuScanColumnValues *values,
									Datum *results, uint8 *flags);

typedef struct GpuScanCompileInput
{
	Index varno; /* the relation's in all expressions */
	Oid relid;	 /* for statistics of unconstrained numerics */
	List *quals; /* implicitly ANDed */
	bool aggregate;
	List *keys;				   /* expressions */
	List *aggrefs;			   /* Aggrefs */
	GpuScanEvaluate evaluate;  /* NULL while planning: only the Program's shape
								 * counts */
	GpuScanValuesOf values_of; /* NULL: only what a device computes is wanted */
	GpuScanEvaluateEach evaluate_each;
	void *arg;			   /* of these functions */
	bool with_expressions; /* columns may be expressions, see expression_column.c */
} GpuScanCompileInput;

/* What a group row's key or aggregate is to PostgreSQL; see executor/finish.h. */
typedef struct GpuScanFinishColumn
{
	bool is_key;
	int index;		  /* the Program's key, or aggregate */
	Oid type;		  /* of the result */
	int32 typmod;	  /* of a key */
	Oid aggfnoid;	  /* of an aggregate */
	Oid argtype;	  /* its argument's type, or InvalidOid */
	int scale;		  /* numeric key or argument: digits after the point */
	int dscale_index; /* numeric argument whose display scale varies: the
								 * Program's MAX of it, else -1 */
} GpuScanFinishColumn;

typedef struct GpuScanCompiled
{
	GpuScanProgram *program;
	int ncolumns;
	AttrNumber *attnums; /* of relation varno, or -1 - i: expression i; [ncolumns] */
	List *expressions;	 /* that PostgreSQL evaluates for each tuple */
	List *valued;		 /* attributes of it whose values were asked for */
	int noutputs;		 /* keys, then aggregates, as in the input's lists */
	GpuScanFinishColumn *outputs;
} GpuScanCompiled;

/*
 * Compiles into palloc'd memory.  NULL: *reason, palloc'd or static, says what
 * cannot be offloaded, worded as "function f(integer) is not offloaded".
 */
extern GpuScanCompiled *
gpuscan_program_compile(const GpuScanCompileInput *input, const char **reason);

/*
 * What groups by the values of a column of the relation.  Texts are grouped by their
 * bytes, since an expression may tell apart what is equal under a collation.
 */
extern GpuScanCompileInput gpuscan_program_group_values(Oid relid, const Var *column);

#endif /* GPUSCAN_COMPILE_H */
