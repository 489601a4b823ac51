/*-------------------------------------------------------------------------
 *
 * planner.h
 *	  The planner's side: hooks, paths, costs, and reasons for not offloading.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_PLANNER_H
#define GPUSCAN_PLANNER_H

#include "gpuscan.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "program/compile.h"
#include "utils/relcache.h"

/*
 * Neither path supports projection: the node has exactly its path's target, and
 * so has its child, the plan that it replaced.  A Result above computes the rest.
 *
 * What a GpuScan's plan carries.  custom_exprs: all conditions, in PostgreSQL's
 * order.  custom_private: an integer list, 1 for each of them that the device
 * evaluates and 0 for each that stays in the plan's qual.
 *
 * What a GpuAgg's plan carries.  custom_scan_tlist: the keys, the Aggrefs, and
 * two resjunk rows that are never computed: the conditions, and whole-row Vars
 * of the relation that expressions speak of and of each relation that is
 * scanned, so that setrefs.c renumbers both.  custom_exprs: every Param in
 * these, so that the planner sees them.  custom_private: the numbers of keys
 * and Aggrefs, whether expressions may be columns, and the attributes for whose
 * values others are evaluated.
 */
typedef enum GpuAggPrivate
{
	GPUAGG_NUM_KEYS,
	GPUAGG_NUM_AGGREFS,
	GPUAGG_WITH_EXPRESSIONS,
	GPUAGG_VALUED /* and behind it */
} GpuAggPrivate;

/* hooks.c */
extern void gpuscan_planner_install(void);

/* scan_path.c, agg_path.c */
extern void gpuscan_plan_scan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern void gpuscan_plan_aggregation(PlannerInfo *root, UpperRelationKind stage,
									 RelOptInfo *input_rel, RelOptInfo *output_rel);

/* relation.c */
extern const char *gpuscan_query_rejected(PlannerInfo *root);
extern const char *gpuscan_relation_rejected(RangeTblEntry *rte);
extern Path *gpuscan_replaced_path(RelOptInfo *rel);
extern bool gpuscan_too_cheap(RelOptInfo *rel);
extern void gpuscan_add_path(RelOptInfo *rel, Path *path);

/* failed.c */
extern void gpuscan_failed_remember(Relation rel, List *expressions);
extern bool gpuscan_failed_before(Oid relid, Oid parent, List *expressions);

/* cost.c */
extern void gpuscan_cost(Path *path, double pages, double tuples, int filter_operations,
						 double passed, int operations, double rows, Cost cost_per_row);
extern double gpuscan_cost_cached_pages(PlannerInfo *root, List *relids, Oid parent,
										const GpuScanCompiled *compiled, double *tuples);
extern void gpuscan_cost_evaluation(Path *path, PlannerInfo *root, RelOptInfo *rel, Oid relid,
									List *expressions, double pages, double tuples);
extern void gpuscan_cost_hits(Path *path, double pages, double tuples, int operations,
							  double cached, double passed);
extern int gpuscan_cost_operations(const GpuScanProgram *program);
extern void gpuscan_cost_values(Path *path, double tuples, int ncolumns);

/* column_values.c */

/* A relation that is planned, the argument of gpuscan_plan_values, which is a GpuScanValuesOf */
typedef struct GpuScanPlanned
{
	PlannerInfo *root;
	RelOptInfo *rel;
} GpuScanPlanned;

extern const GpuScanColumnValues *
gpuscan_plan_values(void *planned, const Var *column, const char **reason);

extern bool gpuscan_plan_with_expressions(const PlannerInfo *root);

extern GpuScanCompiled *gpuscan_plan_filter(PlannerInfo *root, RelOptInfo *rel, List *quals,
											bool values, bool expressions, const char **reason);

/* jit.c */
extern void gpuscan_jit_install(void);
extern void gpuscan_jit_offloaded(const Path *path);

/* rejected.c: what EXPLAIN shows with gpuscan.explain_rejected */
extern void gpuscan_rejected_reset(void);
extern void gpuscan_rejected_note(const char *node, Oid relid, const char *reason);
extern void
gpuscan_rejected_note_cost(const char *node, Oid relid, const Path *ours, const Path *theirs);
extern List *gpuscan_rejected_list(void);

#endif /* GPUSCAN_PLANNER_H */
