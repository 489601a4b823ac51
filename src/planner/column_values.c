/*-------------------------------------------------------------------------
 *
 * column_values.c
 *	  Whether expressions over a column are evaluated once for each of its
 *	  values, see program/map.c: where these are few; or else for each row.
 *
 * Neither where there is a security policy or barrier: what an evaluation shows of a
 * value, such as a notice, it would show of rows that the user may not see.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/planner.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* Rows for each value, for its evaluation and the look at the column to be worth it */
#define MIN_ROWS_PER_VALUE 4

/* Bytes of the Program that a value takes beside itself: its place, slots, a result */
#define BYTES_PER_VALUE 40

const GpuScanColumnValues *
gpuscan_plan_values(void *planned, const Var *column, const char **reason)
{
	static const GpuScanColumnValues unknown = {0};
	const GpuScanPlanned *p = planned;
	Oid relid = planner_rt_fetch(p->rel->relid, p->root)->relid;
	double tuples = Max(p->rel->tuples, 1);
	GpuScanCompileInput group;
	VariableStatData variable;
	bool is_default;
	double n;
	double size;

	if (p->root->qual_security_level > 0)
	{
		*reason = "an expression that no device computes has to wait for a security policy or "
				  "barrier";
		return NULL;
	}
	group = gpuscan_program_group_values(relid, column);
	if (gpuscan_program_compile(&group, reason) == NULL)
		return NULL;
	examine_variable(p->root, (Node *) column, 0, &variable);
	n = get_variable_numdistinct(&variable, &is_default);
	ReleaseVariableStats(variable);
	size = n * (BYTES_PER_VALUE + 2 * get_attavgwidth(relid, column->varattno));
	if (n > GPUSCAN_MAX_COLUMN_VALUES || size > GPUSCAN_MAX_PROGRAM_SIZE ||
		(n * MIN_ROWS_PER_VALUE > tuples && !gpuscan_force))
	{
		*reason = psprintf("column %s has too many values, about %.0f, for an expression that no "
						   "device computes",
						   get_attname(relid, column->varattno, false), n);
		return NULL;
	}
	return &unknown;
}

/* Whether expressions may be columns: they are evaluated for all rows. */
bool
gpuscan_plan_with_expressions(const PlannerInfo *root)
{
	return root->qual_security_level == 0;
}

/*
 * The filter of conditions compiled, or NULL with a reason.  `values`: also what
 * PostgreSQL evaluates for each value of a column; `expressions`: for each row.
 */
GpuScanCompiled *
gpuscan_plan_filter(PlannerInfo *root, RelOptInfo *rel, List *quals, bool values, bool expressions,
					const char **reason)
{
	GpuScanPlanned planned = {root, rel};
	GpuScanCompileInput input = {
		.varno = rel->relid,
		.relid = planner_rt_fetch(rel->relid, root)->relid,
		.quals = quals,
		.values_of = values ? gpuscan_plan_values : NULL,
		.arg = &planned,
		.with_expressions = expressions,
	};

	return gpuscan_program_compile(&input, reason);
}
