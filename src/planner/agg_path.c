/*-------------------------------------------------------------------------
 *
 * agg_path.c
 *	  GpuAgg: grouping and aggregation over one base relation, with its
 *	  partitions or inheritance children.
 *
 * The node scans the relation itself, so every condition on it must compile.
 * What it returns to PostgreSQL's own projection and HAVING are the keys and
 * the finished aggregates.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/nodes.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "planner/planner.h"
#include "program/compile.h"
#include "program/eligible.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* What the path hands to the plan: lists, in this order, in custom_private. */
typedef enum AggPathPrivate
{
	PATH_KEYS,
	PATH_AGGREFS,
	PATH_QUALS,
	PATH_RELIDS, /* the relation, then those scanned */
	PATH_HAVING,
	PATH_VALUED /* attributes whose values are asked for */
} AggPathPrivate;

typedef struct OutputContext
{
	List *keys;
	List *aggrefs;
	const char *reason; /* why an output cannot be had, or NULL */
} OutputContext;

static Plan *plan_aggregation(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
							  List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods agg_path_methods = {
	.CustomName = "GpuAgg",
	.PlanCustomPath = plan_aggregation,
};

/*
 * Collects the Aggrefs of an output expression.  A column outside of them that
 * is no key depends on the keys (they hold the primary key): it becomes one.
 */
static bool
output_walker(Node *node, OutputContext *context)
{
	if (node == NULL)
		return false;
	if (list_member(context->keys, node))
		return false;
	if (IsA(node, Aggref))
	{
		context->aggrefs = list_append_unique(context->aggrefs, node);
		return false;
	}
	if (IsA(node, GroupingFunc))
	{
		context->reason = "GROUPING is not offloaded";
		return true;
	}
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		context->keys = lappend(context->keys, node);
		return false;
	}
	return expression_tree_walker(node, output_walker, context);
}

/* The grouping expressions; reason is set where equality is not a listed one. */
static List *
group_keys(PlannerInfo *root, List *clauses, const char **reason)
{
	List *keys = NIL;
	ListCell *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		const GpuScanFunction *equality = gpuscan_eligible_function(get_opcode(clause->eqop));

		if (equality == NULL || equality->action != GPUSCAN_DO_COMPARE ||
			equality->op != GPUSCAN_EQ)
		{
			*reason = "grouping by this type is not offloaded";
			return NIL;
		}
		keys = lappend(keys, get_sortgroupclause_expr(clause, root->processed_tlist));
	}
	return keys;
}

/*
 * The relations to scan, as a list of range table indexes, and their pages and
 * tuples: the relation itself, or its partitions and children not excluded.
 */
static List *
scanned_relations(PlannerInfo *root, RelOptInfo *rel, double *pages, double *tuples,
				  const char **reason)
{
	List *relids = NIL;

	*pages = *tuples = 0;
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *child = root->simple_rel_array[i];
		RangeTblEntry *rte = root->simple_rte_array[i];

		if (child == NULL || rte->rtekind != RTE_RELATION || rte->inh || IS_DUMMY_REL(child))
			continue;
		if (child != rel && !(child->reloptkind == RELOPT_OTHER_MEMBER_REL &&
							  bms_equal(child->top_parent_relids, rel->relids)))
			continue;
		if ((*reason = gpuscan_relation_rejected(rte)) != NULL)
			return NIL;
		relids = lappend_int(relids, i);
		*pages += child->pages;
		*tuples += child->tuples;
	}
	return relids;
}

/* All-visible pages of those of the relations that may be cached */
static double
visible_pages(PlannerInfo *root, List *relids)
{
	double pages = 0;
	ListCell *lc;

	foreach(lc, relids)
	{
		RelOptInfo *rel = find_base_rel(root, lfirst_int(lc));

		if (gpuscan_cost_may_cache(planner_rt_fetch(lfirst_int(lc), root)->relid))
			pages += rel->pages * rel->allvisfrac;
	}
	return pages;
}

/*
 * The conditions in the order in which a scan of PostgreSQL's evaluates them, by
 * security level, then by cost: which of them hides another's error depends on
 * it.  (For a GpuScan create_customscan_plan orders them.)
 */
static List *
ordered_quals(PlannerInfo *root, List *restrictinfo)
{
	int n = list_length(restrictinfo);
	RestrictInfo **order = palloc(Max(n, 1) * sizeof(RestrictInfo *));
	Cost *costs = palloc(Max(n, 1) * sizeof(Cost));
	Index *levels = palloc(Max(n, 1) * sizeof(Index));
	List *quals = NIL;

	for (int i = 0; i < n; i++)
	{
		RestrictInfo *rinfo = list_nth_node(RestrictInfo, restrictinfo, i);
		QualCost cost;
		Index level;
		int j = i;

		/* a cheap leakproof condition need not wait for security barriers */
		cost_qual_eval_node(&cost, (Node *) rinfo, root);
		level = rinfo->leakproof && cost.per_tuple <= 10 * cpu_operator_cost
					? 0
					: rinfo->security_level;
		for (; j > 0 &&
			   (levels[j - 1] > level || (levels[j - 1] == level && costs[j - 1] > cost.per_tuple));
			 j--)
		{
			order[j] = order[j - 1];
			costs[j] = costs[j - 1];
			levels[j] = levels[j - 1];
		}
		order[j] = rinfo;
		costs[j] = cost.per_tuple;
		levels[j] = level;
	}
	for (int i = 0; i < n; i++)
		quals = lappend(quals, order[i]->clause);
	return quals;
}

/*
 * Adds a GpuAgg path to the relation of a grouping, or of a DISTINCT over what
 * was not grouped, or notes why not.
 */
void
gpuscan_plan_aggregation(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
						 RelOptInfo *output_rel)
{
	Query *parse = root->parse;
	bool grouping = stage == UPPERREL_GROUP_AGG;
	List *clauses = grouping ? parse->groupClause : parse->distinctClause;
	Node *having = grouping ? parse->havingQual : NULL;
	RangeTblEntry *rte;
	GpuScanCompileInput input = {0};
	GpuScanCompiled *compiled;
	OutputContext output = {0};
	const char *reason = NULL;
	List *quals = NIL;
	List *relids = NIL;
	GpuScanPages pages = {0};
	double tuples = 0;
	double cached_tuples;
	double groups = 1;
	GpuScanPlanned planned = {root, input_rel};
	int filter_operations;
	Path *replaced;
	CustomPath *path;

	if (input_rel->reloptkind != RELOPT_BASEREL || IS_DUMMY_REL(input_rel) ||
		gpuscan_too_cheap(output_rel) || (grouping && !parse->hasAggs && clauses == NIL))
		return;
	rte = planner_rt_fetch(input_rel->relid, root);
	if (rte->rtekind != RTE_RELATION)
		return;

	reason = gpuscan_query_rejected(root);
	if (reason == NULL && parse->groupingSets != NIL)
		reason = "grouping sets are not offloaded";
	if (reason == NULL && !grouping && parse->hasDistinctOn)
		reason = "DISTINCT ON is not offloaded";
	if (reason == NULL && parse->hasTargetSRFs)
		reason = "set-returning functions beside aggregates are not offloaded";
	if (reason == NULL)
		relids = scanned_relations(root, input_rel, &pages.all, &tuples, &reason);
	if (reason == NULL)
		output.keys = group_keys(root, clauses, &reason);
	replaced = gpuscan_replaced_path(output_rel);
	if (reason == NULL && replaced == NULL)
		reason = "PostgreSQL answers it from an index";
	if (reason == NULL)
	{
		output_walker((Node *) replaced->pathtarget->exprs, &output);
		output_walker(having, &output);
		reason = output.reason;
	}
	if (reason != NULL)
	{
		gpuscan_rejected_note("GpuAgg", rte->relid, reason);
		return;
	}

	quals = ordered_quals(root, input_rel->baserestrictinfo);

	input.varno = input_rel->relid;
	input.relid = rte->relid;
	input.quals = quals;
	input.aggregate = true;
	input.keys = output.keys;
	input.aggrefs = output.aggrefs;
	input.values_of = gpuscan_plan_values;
	input.arg = &planned;
	input.with_expressions = gpuscan_plan_with_expressions(root);
	compiled = gpuscan_program_compile(&input, &reason);
	if (compiled != NULL && !gpuscan_force && list_length(relids) == 1 &&
		gpuscan_failed_before(planner_rt_fetch(linitial_int(relids), root)->relid, rte->relid,
							  compiled->expressions))
	{
		reason = "an expression failed for a row before";
		compiled = NULL;
	}
	if (compiled == NULL)
	{
		gpuscan_rejected_note("GpuAgg", rte->relid, reason);
		return;
	}

	pages.missing =
		pages.all - gpuscan_cost_cached_pages(root, relids, rte->relid, compiled, &cached_tuples);
	if (compiled->expressions != NIL)
		pages.visible = visible_pages(root, relids);

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = output_rel;
	path->path.pathtarget = replaced->pathtarget;
	path->path.rows = replaced->rows;
	path->custom_paths = list_make1(replaced);
	path->custom_private =
		list_make5(output.keys, output.aggrefs, quals, lcons_int(input_rel->relid, relids), having);
	path->custom_private = lappend(path->custom_private, compiled->valued);
	path->methods = &agg_path_methods;

	if (output.keys != NIL)
		groups = estimate_num_groups(root, output.keys, input_rel->rows, NULL, NULL);
	filter_operations = gpuscan_cost_operations(
		gpuscan_plan_filter(root, input_rel, quals, true, input.with_expressions, &reason)
			->program);
	gpuscan_cost(&path->path, pages.missing, tuples, filter_operations, input_rel->rows,
				 gpuscan_cost_operations(compiled->program) - filter_operations, groups,
				 cpu_operator_cost * list_length(output.aggrefs) +
					 replaced->pathtarget->cost.per_tuple);
	gpuscan_cost_values(&path->path, tuples, list_length(compiled->valued));
	gpuscan_cost_evaluation(&path->path, root, input_rel, rte->relid, compiled->expressions, pages,
							tuples - cached_tuples);
	path->path.startup_cost = path->path.total_cost - cpu_tuple_cost * groups;
	gpuscan_rejected_note_cost("GpuAgg", rte->relid, &path->path, replaced);
	gpuscan_add_path(output_rel, &path->path);
}

static bool
param_walker(Node *node, List **params)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		*params = list_append_unique(*params, node);
	return expression_tree_walker(node, param_walker, params);
}

/* A row of expressions that no expression of a query is equal to. */
static Expr *
junk_row(List *args)
{
	RowExpr *row = makeNode(RowExpr);

	row->args = args;
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	return (Expr *) row;
}

/* The plan node; see planner.h for what it carries. */
static Plan *
plan_aggregation(PlannerInfo *root, RelOptInfo *rel pg_attribute_unused(), CustomPath *best_path,
				 List *tlist, List *clauses pg_attribute_unused(), List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List *keys = list_nth(best_path->custom_private, PATH_KEYS);
	List *aggrefs = list_nth(best_path->custom_private, PATH_AGGREFS);
	List *quals = list_nth(best_path->custom_private, PATH_QUALS);
	List *relids = list_nth(best_path->custom_private, PATH_RELIDS);
	List *outputs = list_concat_copy(keys, aggrefs);
	List *relations = NIL;
	List *scan_tlist = NIL;
	AttrNumber resno = 1;
	ListCell *lc;

	foreach(lc, outputs)
		scan_tlist = lappend(scan_tlist, makeTargetEntry(lfirst(lc), resno++, NULL, false));
	foreach(lc, relids)
		relations = lappend(
			relations, makeVar(lfirst_int(lc), InvalidAttrNumber, RECORDOID, -1, InvalidOid, 0));
	scan_tlist = lappend(scan_tlist, makeTargetEntry(junk_row(quals), resno++, NULL, true));
	scan_tlist = lappend(scan_tlist, makeTargetEntry(junk_row(relations), resno, NULL, true));

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = list_nth(best_path->custom_private, PATH_HAVING);
	scan->flags = best_path->flags;
	scan->custom_plans = custom_plans;
	scan->custom_scan_tlist = copyObject(scan_tlist);
	param_walker((Node *) scan_tlist, &scan->custom_exprs);
	scan->custom_private = list_concat(list_make3_int(list_length(keys), list_length(aggrefs),
													  gpuscan_plan_with_expressions(root)),
									   list_nth(best_path->custom_private, PATH_VALUED));
	scan->methods = &gpuscan_agg_methods;
	gpuscan_jit_offloaded(&best_path->path);
	return &scan->scan.plan;
}
