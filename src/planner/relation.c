/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  Which queries and relations are not offloaded, and why.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/heapam.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "planner/planner.h"
#include "utils/rel.h"

/* Why nothing of this query (level) is offloaded, or NULL. */
const char *
gpuscan_query_rejected(PlannerInfo *root)
{
	Query	   *parse = root->parse;
	Const	   *limit = (Const *) parse->limitCount;

	/* EvalPlanQual would run our scans again for single rows */
	if (parse->commandType != CMD_SELECT && parse->commandType != CMD_INSERT)
		return "UPDATE, DELETE and MERGE are not offloaded";
	if (parse->rowMarks != NIL)
		return "row locks are not offloaded";
	if (limit != NULL && IsA(limit, Const) && !limit->constisnull && DatumGetInt64(limit->constvalue) == 0)
		return "LIMIT 0 needs no rows";
	return NULL;
}

/* Why a plain relation is not scanned, or NULL. */
const char *
gpuscan_relation_rejected(RangeTblEntry *rte)
{
	Relation	rel;
	bool		heap;

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
