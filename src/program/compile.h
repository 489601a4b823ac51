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

typedef struct GpuScanCompileInput
{
	Index varno; /* the relation's in all expressions */
	Oid relid;	 /* for statistics of unconstrained numerics */
	List *quals; /* implicitly ANDed */
	bool aggregate;
	List *keys;				  /* expressions */
	List *aggrefs;			  /* Aggrefs */
	GpuScanEvaluate evaluate; /* NULL while planning: only the Program's shape
								 * counts */
	void *evaluate_arg;
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
	AttrNumber *attnums; /* of relation varno; [ncolumns] */
	int noutputs;		 /* keys, then aggregates, as in the input's lists */
	GpuScanFinishColumn *outputs;
} GpuScanCompiled;

/*
 * Compiles into palloc'd memory.  NULL: *reason, palloc'd or static, says what
 * cannot be offloaded, worded as "function f(integer) is not offloaded".
 */
extern GpuScanCompiled *
gpuscan_program_compile(const GpuScanCompileInput *input, const char **reason);

#endif /* GPUSCAN_COMPILE_H */
