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
 * order.  custom_private: an integer list, whether expressions may be columns,
 * then 1 for each of the conditions that the device evaluates and 0 for each that
 * stays in the plan's qual, and the attributes for whose values others are evaluated.
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

typedef enum GpuScanPrivate
{
	GPUSCAN_WITH_EXPRESSIONS,
	GPUSCAN_ON_DEVICE /* and behind it, and the attributes */
} GpuScanPrivate;

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
extern double gpuscan_cost_hits(Path *path, double pages, double tuples, int operations,
								double cached, double passed);
extern int gpuscan_cost_operations(const GpuScanProgram *program);
extern void gpuscan_cost_values(Path *path, double tuples, int ncolumns);

/* expression_cost.c */

/* How many pages a node scans, and of those, all-visible ones that may be cached, and ones that are not */
typedef struct GpuScanPages
{
	double all;
	double visible;
	double missing;
} GpuScanPages;

/* Whether the service keeps columns of the relation. */
extern bool gpuscan_cost_may_cache(Oid relid);

/* The number by which the service knows an expression over the parent's columns of a relation */
extern int gpuscan_cost_expression_number(Oid relid, Oid parent, Expr *expr);

/*
 * Adds what it costs that PostgreSQL evaluates expressions for tuples that are not
 * cached, on pages that are missing, which the processes that read them share, and to form the
 * tuples anew.  `rel` is a relation, or the parent of those that have the pages.
 *
 * PostgreSQL's plan evaluates as much, or less, so it mostly costs less.  Of what a session asks for
 * again a quarter is this query's, since it is done once, for later ones too: so it comes into the
 * cache.  Returns that share.
 */
extern double gpuscan_cost_evaluation(Path *path, PlannerInfo *root, RelOptInfo *rel, Oid relid,
									  List *expressions, GpuScanPages pages, double tuples);

/*
 * Adds what a scan costs besides whose conditions have expressions: to load them, reading included,
 * of which the same holds; and that PostgreSQL evaluates all conditions on the pages that may have one of
 * the `passed` rows, and on those that are never cached.
 */
extern void gpuscan_cost_expressions(Path *path, PlannerInfo *root, RelOptInfo *rel, Oid relid,
									 const GpuScanCompiled *compiled, double cached, double passed);

/* A request begins that evaluates these expressions where they are not cached. */
extern void gpuscan_cost_paid(Oid relid, List *expressions);

/* Of the cached pages so many were `found` to have a row, by conditions with these expressions. */
extern void gpuscan_cost_learn(Oid relid, List *expressions, double found);

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
