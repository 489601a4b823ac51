/*-------------------------------------------------------------------------
 *
 * scan_path.c
 *	  GpuScan: a base relation whose conditions a device evaluates.
 *
 * The conditions are split: those that compile go to the device, the others
 * stay in the plan's qual and see only the tuples that passed.  Where one of them has an
 * expression that is a column of the cache, the device says which blocks to read,
 * and PostgreSQL evaluates all conditions there.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include <float.h>

#include "executor/nodes.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "planner/planner.h"
#include "program/compile.h"

static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
					   List *clauses, List *custom_plans);

static const CustomPathMethods scan_path_methods = {
	.CustomName = "GpuScan",
	.PlanCustomPath = plan_scan,
};

/* What of its conditions a path leaves to the device */
typedef struct Variant
{
	bool notes;		  /* it says why not */
	bool expressions; /* also what PostgreSQL evaluates for each row, and is cached */
	bool values;	  /* also what it evaluates for each value of a column */
} Variant;

static GpuScanCompiled *
compile(PlannerInfo *root, RelOptInfo *rel, List *quals, Variant variant, const char **reason)
{
	return gpuscan_plan_filter(root, rel, quals, variant.values, variant.expressions, reason);
}

/*
 * The RestrictInfos that the device evaluates; the conditions that PostgreSQL
 * evaluates are appended to *local.  A condition that may leak what it sees
 * waits for those of a lower security level that stay behind.
 */
static List *
split_quals(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, Variant variant, List **local)
{
	List *eligible = NIL;
	List *device = NIL;
	Index barrier = PG_UINT32_MAX;
	ListCell *lc;

	/* a gating Result above the scan tests those without Vars */
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const char *reason = NULL;

		if (rinfo->pseudoconstant)
			continue;
		if (compile(root, rel, list_make1(rinfo->clause), variant, &reason) != NULL)
			eligible = lappend(eligible, rinfo);
		else
		{
			*local = lappend(*local, rinfo->clause);
			barrier = Min(barrier, rinfo->security_level);
			if (variant.notes)
				gpuscan_rejected_note("GpuScan", rte->relid, reason);
		}
	}
	foreach(lc, eligible)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->leakproof || rinfo->security_level <= barrier)
			device = lappend(device, rinfo);
		else
		{
			*local = lappend(*local, rinfo->clause);
			if (variant.notes)
				gpuscan_rejected_note(
					"GpuScan", rte->relid,
					"a condition has to wait for one of a security policy or barrier");
		}
	}
	return device;
}

/*
 * Adds a GpuScan path, and returns what was compiled; or NULL, and notes why not.  *cheapest
 * becomes the path, if it costs less.
 */
static const GpuScanCompiled *
add_scan_path(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, Variant variant,
			  Path *replaced, Path *cheapest)
{
	const char *reason = NULL;
	List *local_quals = NIL;
	List *device = split_quals(root, rel, rte, variant, &local_quals);
	GpuScanCompiled *compiled;
	QualCost local_cost;
	double passed;
	double cached;
	double tuples; /* on those */
	CustomPath *path;

	if (device == NIL)
		return NULL;
	compiled = compile(root, rel, get_actual_clauses(device), variant, &reason);
	if (compiled == NULL)
	{
		gpuscan_rejected_note("GpuScan", rte->relid, reason);
		return NULL;
	}
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->custom_paths = list_make1(replaced);
	path->custom_private =
		list_make3(list_make1_int(compiled->expressions != NIL), device, compiled->valued);
	path->methods = &scan_path_methods;

	passed = rel->tuples * clauselist_selectivity(root, device, 0, JOIN_INNER, NULL);
	cost_qual_eval(&local_cost, local_quals, root);
	cached =
		gpuscan_cost_cached_pages(root, list_make1_int(rel->relid), rte->relid, compiled, &tuples);
	gpuscan_cost(&path->path, rel->pages - cached, rel->tuples,
				 gpuscan_cost_operations(compiled->program), passed, 0, passed,
				 local_cost.per_tuple + rel->reltarget->cost.per_tuple);
	if (compiled->expressions != NIL)
		gpuscan_cost_expressions(&path->path, root, rel, rte->relid, compiled, cached, passed);
	else
		gpuscan_cost_hits(&path->path, rel->pages, rel->tuples,
						  gpuscan_cost_operations(compiled->program), cached, passed);
	gpuscan_cost_values(&path->path, rel->tuples, list_length(compiled->valued));
	if (path->path.total_cost < cheapest->total_cost)
		*cheapest = path->path;
	gpuscan_add_path(rel, &path->path);
	return compiled;
}

/*
 * Adds GpuScan paths to a base relation, or notes why not: with expressions in the cache;
 * without, but with those that are evaluated for each value of a column; with what a device
 * computes alone.
 */
void
gpuscan_plan_scan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	const char *reason = NULL;
	Variant variant = {.notes = true, .values = true};
	const GpuScanCompiled *compiled;
	Path cheapest = {.total_cost = DBL_MAX};
	Path *replaced;

	if (rte->rtekind != RTE_RELATION || rte->inh || IS_DUMMY_REL(rel) ||
		rel->baserestrictinfo == NIL || gpuscan_too_cheap(rel) ||
		(rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL))
		return;
	if ((reason = gpuscan_query_rejected(root)) != NULL ||
		(reason = gpuscan_relation_rejected(rte)) != NULL)
	{
		gpuscan_rejected_note("GpuScan", rte->relid, reason);
		return;
	}
	variant.expressions = gpuscan_plan_with_expressions(root) && gpuscan_cost_may_cache(rte->relid);
	replaced = gpuscan_replaced_path(rel);
	if (replaced == NULL)
		replaced = create_seqscan_path(root, rel, NULL, 0);
	compiled = add_scan_path(root, rel, rte, variant, replaced, &cheapest);
	if (compiled == NULL ? variant.expressions : compiled->expressions != NIL && !gpuscan_force)
	{
		variant.notes = compiled == NULL;
		variant.expressions = false;
		compiled = add_scan_path(root, rel, rte, variant, replaced, &cheapest);
	}
	if (compiled != NULL && compiled->valued != NIL && !gpuscan_force)
	{
		variant.notes = false;
		variant.values = false;
		(void) add_scan_path(root, rel, rte, variant, replaced, &cheapest);
	}
	if (cheapest.total_cost < DBL_MAX)
		gpuscan_rejected_note_cost("GpuScan", rte->relid, &cheapest, replaced);
}

/* The plan node; see planner.h for what it carries. */
static Plan *
plan_scan(PlannerInfo *root pg_attribute_unused(), RelOptInfo *rel, CustomPath *best_path,
		  List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List *device = lsecond(best_path->custom_private);
	ListCell *lc;

	scan->custom_private = list_copy(linitial(best_path->custom_private));
	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		bool on_device = list_member_ptr(device, rinfo);

		if (rinfo->pseudoconstant)
			continue;
		scan->custom_exprs = lappend(scan->custom_exprs, rinfo->clause);
		scan->custom_private = lappend_int(scan->custom_private, on_device);
		if (!on_device)
			scan->scan.plan.qual = lappend(scan->scan.plan.qual, rinfo->clause);
	}
	scan->custom_private = list_concat(scan->custom_private, lthird(best_path->custom_private));

	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = rel->relid;
	scan->flags = best_path->flags;
	scan->custom_plans = custom_plans;
	scan->methods = &gpuscan_scan_methods;
	gpuscan_jit_offloaded(&best_path->path);
	return &scan->scan.plan;
}
