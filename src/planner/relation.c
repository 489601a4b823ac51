/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  Which queries and relations are not offloaded, and why; which of
 *	  PostgreSQL's paths a node can replace.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/heapam.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "optimizer/pathnode.h"
#include "planner/planner.h"
#include "utils/rel.h"

/* Why nothing of this query (level) is offloaded, or NULL. */
const char *
gpuscan_query_rejected(PlannerInfo *root)
{
	Query *parse = root->parse;
	Const *limit = (Const *) parse->limitCount;

	/* EvalPlanQual would run our scans again for single rows */
	if (parse->commandType != CMD_SELECT && parse->commandType != CMD_INSERT)
		return "UPDATE, DELETE and MERGE are not offloaded";
	if (parse->rowMarks != NIL)
		return "row locks are not offloaded";
	if (limit != NULL && IsA(limit, Const) && !limit->constisnull &&
		DatumGetInt64(limit->constvalue) == 0)
		return "LIMIT 0 needs no rows";
	return NULL;
}

/* Why a plain relation is not scanned, or NULL. */
const char *
gpuscan_relation_rejected(RangeTblEntry *rte)
{
	Relation rel;
	bool heap;

	if (rte->tablesample != NULL)
		return "TABLESAMPLE is not offloaded";
	if (rte->relkind == RELKIND_FOREIGN_TABLE)
		return "foreign tables are not offloaded";
	if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW)
		return "this kind of relation is not offloaded";
	if (IsCatalogRelationOid(rte->relid))
		return "system catalogs are not offloaded";

	/* the planner holds a lock */
	rel = table_open(rte->relid, NoLock);
	heap = rel->rd_tableam == GetHeapamTableAmRoutine();
	table_close(rel, NoLock);
	return heap ? NULL : "its access method is not heap";
}

/* The size of a path's node, or 0 for those that no node of ours replaces. */
static size_t
replaceable_size(const Path *path)
{
	/* a MinMaxAggPath would have setrefs.c replace our Aggrefs too */
	switch (path->pathtype)
	{
		case T_SeqScan:
			return sizeof(Path);
		case T_IndexScan:
		case T_IndexOnlyScan:
			return sizeof(IndexPath);
		case T_BitmapHeapScan:
			return sizeof(BitmapHeapPath);
		case T_TidScan:
			return sizeof(TidPath);
		case T_TidRangeScan:
			return sizeof(TidRangePath);
		case T_Agg:
			return sizeof(AggPath);
		case T_Group:
			return sizeof(GroupPath);
		case T_Unique:
			return sizeof(UpperUniquePath);
		default:
			return 0;
	}
}

/*
 * The relation's cheapest path that can stand in for ours, or NULL.  A copy, since add_path frees a path that
 * ours beats.
 */
Path *
gpuscan_replaced_path(RelOptInfo *rel)
{
	Path *best = NULL;
	ListCell *lc;

	foreach(lc, rel->pathlist)
	{
		Path *path = lfirst(lc);

		if (replaceable_size(path) > 0 && path->param_info == NULL &&
			(best == NULL || path->total_cost < best->total_cost))
			best = path;
	}
	if (best != NULL)
	{
		Path *copy = palloc(replaceable_size(best));

		memcpy(copy, best, replaceable_size(best));
		best = copy;
	}
	return best;
}

/* Adds our path to PostgreSQL's, or with gpuscan.force puts it in their place. */
void
gpuscan_add_path(RelOptInfo *rel, Path *path)
{
	if (gpuscan_force)
	{
		rel->pathlist = NIL;
		rel->partial_pathlist = NIL;
	}
	add_path(rel, path);
}

/* True if PostgreSQL has a path that costs less than starting a request: planning goes on at once. */
bool
gpuscan_too_cheap(RelOptInfo *rel)
{
	ListCell *lc;

	if (gpuscan_force || gpuscan_explain_rejected)
		return false;
	foreach(lc, rel->pathlist)
	{
		if (((Path *) lfirst(lc))->total_cost <= gpuscan_request_cost)
			return true;
	}
	return false;
}
