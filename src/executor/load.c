/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Loading columns into the cache with no query that needs them.
 *
 * The request is that of an aggregation, count() of each column, which reads a
 * column as other queries do.  The service is told that nobody waits for it, and
 * of its answer only the ranges to load are read.  Its result is never asked for:
 * it ends when all is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/heapam.h"
#include "catalog/pg_type.h"
#include "executor/feed.h"
#include "executor/load.h"
#include "nodes/makefuncs.h"
#include "program/compile.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* count() of an attribute; NULL if it is no more. */
static Aggref *
count_attribute(Relation rel, AttrNumber attnum)
{
	TupleDesc desc = RelationGetDescr(rel);
	Aggref *aggref;
	Form_pg_attribute att;

	if (attnum < 1 || attnum > desc->natts || TupleDescAttr(desc, attnum - 1)->attisdropped)
		return NULL;
	att = TupleDescAttr(desc, attnum - 1);
	aggref = makeNode(Aggref);
	aggref->aggfnoid = F_COUNT_ANY;
	aggref->aggtype = INT8OID;
	aggref->args = list_make1(makeTargetEntry(
		(Expr *) makeVar(1, attnum, att->atttypid, att->atttypmod, att->attcollation, 0), 1, NULL,
		false));
	return aggref;
}

/* The Program that reads those of the attributes that a device reads; NULL: none. */
static GpuScanCompiled *
compile(Relation rel, List *attnums)
{
	GpuScanCompileInput input = {.varno = 1, .relid = RelationGetRelid(rel), .aggregate = true};
	List *aggrefs = NIL;
	const char *reason;
	ListCell *lc;

	foreach(lc, attnums)
	{
		Aggref *aggref = count_attribute(rel, lfirst_int(lc));

		if (aggref == NULL)
			continue;
		input.aggrefs = list_make1(aggref);
		if (gpuscan_program_compile(&input, &reason) != NULL)
			aggrefs = lappend(aggrefs, aggref);
	}
	input.aggrefs = aggrefs;
	return aggrefs == NIL ? NULL : gpuscan_program_compile(&input, &reason);
}

/* Feeds the request with what is to be loaded.  False if it was stopped. */
static bool
load(GpuScanFeed *feed, Relation rel, bool (*stop)(Relation rel))
{
	gpuscan_feed_look_up(feed);
	if (feed->plans == NULL || feed->plans[0] == NULL || feed->plans[0]->nblocks == 0)
		return true;
	for (;;)
	{
		GpuScanClientBatch *batch;

		gpuscan_feed_fill(feed);
		batch = gpuscan_client_completed(feed->client, true);
		if (batch == NULL)
			return true;
		gpuscan_client_release(feed->client, batch);
		if (stop(rel))
			return false;
	}
}

bool
gpuscan_load_columns(Relation rel, List *attnums, const char *device, bool (*stop)(Relation rel))
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "gpuscan load", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GpuScanCompiled *compiled = NULL;
	bool complete = true;

	if (rel->rd_tableam == GetHeapamTableAmRoutine() && RelationIsPopulated(rel) &&
		gpuscan_heap_is_cacheable(rel) && gpuscan_heap_label(rel) != GPUSCAN_LABEL_NEVER)
		compiled = compile(rel, attnums);
	if (compiled != NULL)
	{
		const GpuScanLayout *layout =
			gpuscan_heap_layout(rel, compiled->attnums, compiled->ncolumns, NIL);
		GpuScanFeed feed = {
			.context = context,
			.relations = list_make1(rel),
			.attnums = &compiled->attnums,
			.ncolumns = compiled->ncolumns,
			.snapshot = GetActiveSnapshot(),
			.background = true,
		};
		GpuScanClientOptions options = {
			.tuples_expected = Max(rel->rd_rel->reltuples, 0),
			.background = true,
			.device = device,
		};
		GpuScanRequestStats stats;
		const char *reason;

		feed.client = gpuscan_client_open(compiled->program, &layout, 1, &options, &reason);
		if (feed.client != NULL && gpuscan_client_has_cache(feed.client))
			complete = load(&feed, rel, stop);
		if (feed.client != NULL)
		{
			gpuscan_client_close(feed.client, &stats);
			gpuscan_feed_end(&feed);
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return complete;
}
