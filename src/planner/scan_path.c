/*-------------------------------------------------------------------------
 *
 * scan_path.c
 *	  GpuScan: a base relation whose conditions a device evaluates.
 *
 * The conditions are split: those that compile go to the device, the others
 * stay in the plan's qual and see only the tuples that passed.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

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

/*
 * The RestrictInfos that the device evaluates; the conditions that PostgreSQL
 * evaluates are appended to *local.  A condition that may leak what it sees
 * waits for those of a lower security level that stay behind.
 */
static List *
split_quals(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, bool values, List **local)
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
		if (gpuscan_plan_filter(root, rel, list_make1(rinfo->clause), values, false, &reason) !=
			NULL)
			eligible = lappend(eligible, rinfo);
		else
		{
			*local = lappend(*local, rinfo->clause);
			barrier = Min(barrier, rinfo->security_level);
			if (values)
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
			if (values)
				gpuscan_rejected_note(
					"GpuScan", rte->relid,
					"a condition has to wait for one of a security policy or barrier");
		}
	}
	return device;
}

/*
 * Adds a GpuScan path, or notes why not.  With `values` its conditions may be such
 * that PostgreSQL evaluates once for each value of a column: how many columns.
 */
static int
add_scan_path(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, bool values)
{
	const char *reason = NULL;
	List *local_quals = NIL;
	List *device = split_quals(root, rel, rte, values, &local_quals);
	GpuScanCompiled *compiled;
	QualCost local_cost;
	double passed;
	double cached;
	double tuples; /* on those */
	CustomPath *path;
	Path *replaced;

	if (device == NIL)
		return 0;
	compiled = gpuscan_plan_filter(root, rel, get_actual_clauses(device), values, false, &reason);
	if (compiled == NULL)
	{
		gpuscan_rejected_note("GpuScan", rte->relid, reason);
		return 0;
	}
	replaced = gpuscan_replaced_path(rel);
	if (replaced == NULL)
		replaced = create_seqscan_path(root, rel, NULL, 0);

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->custom_paths = list_make1(replaced);
	path->custom_private = device;
	path->methods = &scan_path_methods;

	passed = rel->tuples * clauselist_selectivity(root, device, 0, JOIN_INNER, NULL);
	cost_qual_eval(&local_cost, local_quals, root);
	cached =
		gpuscan_cost_cached_pages(root, list_make1_int(rel->relid), rte->relid, compiled, &tuples);
	gpuscan_cost(&path->path, rel->pages - cached, rel->tuples,
				 gpuscan_cost_operations(compiled->program), passed, 0, passed,
				 local_cost.per_tuple + rel->reltarget->cost.per_tuple);
	gpuscan_cost_hits(&path->path, rel->pages, rel->tuples,
					  gpuscan_cost_operations(compiled->program), cached, passed);
	gpuscan_cost_values(&path->path, rel->tuples, list_length(compiled->valued));
	if (values)
		gpuscan_rejected_note_cost("GpuScan", rte->relid, &path->path, replaced);
	gpuscan_add_path(rel, &path->path);
	return list_length(compiled->valued);
}

/* Adds GpuScan paths to a base relation, or notes why not. */
void
gpuscan_plan_scan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	const char *reason = NULL;

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
	if (add_scan_path(root, rel, rte, true) > 0 && !gpuscan_force)
		add_scan_path(root, rel, rte, false);
}

/* The plan node; see planner.h for what it carries. */
static Plan *
plan_scan(PlannerInfo *root pg_attribute_unused(), RelOptInfo *rel, CustomPath *best_path,
		  List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	ListCell *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		bool on_device = list_member_ptr(best_path->custom_private, rinfo);

		if (rinfo->pseudoconstant)
			continue;
		scan->custom_exprs = lappend(scan->custom_exprs, rinfo->clause);
		scan->custom_private = lappend_int(scan->custom_private, on_device);
		if (!on_device)
			scan->scan.plan.qual = lappend(scan->scan.plan.qual, rinfo->clause);
	}

	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = rel->relid;
	scan->flags = best_path->flags;
	scan->custom_plans = custom_plans;
	scan->methods = &gpuscan_scan_methods;
	gpuscan_jit_offloaded(&best_path->path);
	return &scan->scan.plan;
}
