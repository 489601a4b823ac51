/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  Where the planner asks us for paths.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "planner/planner.h"

static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;
static create_upper_paths_hook_type prev_create_upper_paths_hook = NULL;

static void
set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (prev_set_rel_pathlist_hook)
		prev_set_rel_pathlist_hook(root, rel, rti, rte);
	if (gpuscan_enabled)
		gpuscan_plan_scan(root, rel, rte);
}

static void
create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				   RelOptInfo *output_rel, void *extra)
{
	if (prev_create_upper_paths_hook)
		prev_create_upper_paths_hook(root, stage, input_rel, output_rel, extra);
	if (gpuscan_enabled && (stage == UPPERREL_GROUP_AGG || stage == UPPERREL_DISTINCT))
		gpuscan_plan_aggregation(root, stage, input_rel, output_rel);
}

void
gpuscan_planner_install(void)
{
	prev_set_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = set_rel_pathlist;
	prev_create_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = create_upper_paths;
	gpuscan_jit_install();
}
