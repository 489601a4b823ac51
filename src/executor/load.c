/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Loading columns into the cache with no query that needs them, or ahead of a scan.
 *
 * The request is that of an aggregation, count() of each column, which reads a
 * column as other queries do.  The service is told that nobody waits for it, and
 * of its answer only the ranges to load are read.  Its result is never asked for:
 * it ends when all is loaded.
 *
 * Attributes are loaded together, an expression by itself.
 *
 * For a scan whose filter has expressions for columns the same is done first, by a
 * request of its own: PostgreSQL evaluates each expression once for each row of what is to
 * be loaded, in parallel workers too, and the scan then seeks in the cache.  Somebody waits
 * for that, so the service offers what it offers to an aggregation.
 *
 * An error that an evaluation raises need not be a query's: such a range is not loaded, and left
 * alone until it changes.
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
#include "program/expression_file.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* count() of an expression */
static Aggref *
count_of(Expr *expr)
{
	Aggref *aggref = makeNode(Aggref);

	aggref->aggfnoid = F_COUNT_ANY;
	aggref->aggtype = INT8OID;
	aggref->args = list_make1(makeTargetEntry(expr, 1, NULL, false));
	return aggref;
}

/* An attribute as an expression; NULL if it is no more. */
static Expr *
attribute(Relation rel, Index varno, AttrNumber attnum)
{
	TupleDesc desc = RelationGetDescr(rel);
	Form_pg_attribute att;

	if (attnum < 1 || attnum > desc->natts || TupleDescAttr(desc, attnum - 1)->attisdropped)
		return NULL;
	att = TupleDescAttr(desc, attnum - 1);
	return (Expr *) makeVar(varno, attnum, att->atttypid, att->atttypmod, att->attcollation, 0);
}

/* The Program that reads those of the attributes that a device reads; NULL: none. */
static GpuScanCompiled *
compile_attributes(Relation rel, List *attnums)
{
	GpuScanCompileInput input = {.varno = 1, .relid = RelationGetRelid(rel), .aggregate = true};
	List *aggrefs = NIL;
	const char *reason;
	ListCell *lc;

	foreach(lc, attnums)
	{
		Expr *expr = attribute(rel, 1, lfirst_int(lc));

		if (expr == NULL)
			continue;
		input.aggrefs = list_make1(count_of(expr));
		if (gpuscan_program_compile(&input, &reason) != NULL)
			aggrefs = lappend(aggrefs, linitial(input.aggrefs));
	}
	input.aggrefs = aggrefs;
	return aggrefs == NIL ? NULL : gpuscan_program_compile(&input, &reason);
}

/* The Program that reads the expression as a column; NULL if it is not read so any more. */
static GpuScanCompiled *
compile_expression(Relation rel, Expr *expr)
{
	GpuScanCompileInput input = {
		.varno = 1,
		.relid = RelationGetRelid(rel),
		.aggregate = true,
		.aggrefs = list_make1(count_of(expr)),
		.with_expressions = true,
	};
	const char *reason;
	GpuScanCompiled *compiled = gpuscan_program_compile(&input, &reason);

	if (compiled == NULL || compiled->ncolumns != 1 ||
		!equal(compiled->expressions, list_make1(expr)))
		return NULL;
	compiled->attnums[0] = RelationGetDescr(rel)->natts + 1;
	return compiled;
}

/* Feeds the request with what is to be loaded.  False if it was stopped. */
static bool
feed_all(GpuScanFeed *feed, Relation rel, const GpuScanLoad *what)
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
		if (what->stop(rel))
			return false;
	}
}

/* Loads the Program's columns.  False if it was stopped. */
static bool
load(Relation rel, const GpuScanLoad *what, GpuScanCompiled *compiled)
{
	const GpuScanLayout *layout =
		gpuscan_heap_layout(rel, compiled->attnums, compiled->ncolumns, compiled->expressions);
	GpuScanFeed feed = {
		.context = CurrentMemoryContext,
		.relations = list_make1(rel),
		.attnums = &compiled->attnums,
		.ncolumns = compiled->ncolumns,
		.expressions = compiled->expressions != NIL ? &compiled->expressions : NULL,
		.snapshot = GetActiveSnapshot(),
		.background = true,
		.spoils = true,
	};
	GpuScanClientOptions options = {
		.tuples_expected = Max(rel->rd_rel->reltuples, 0),
		.background = true,
		.device = what->device,
	};
	bool complete = true;
	GpuScanRequestStats stats;
	const char *reason;

	gpuscan_feed_prepare(&feed);
	feed.client = gpuscan_client_open(compiled->program, &layout, 1, &options, &reason);
	if (feed.client != NULL && gpuscan_client_has_cache(feed.client))
		complete = feed_all(&feed, rel, what);
	if (feed.client != NULL)
	{
		gpuscan_client_close(feed.client, &stats);
		gpuscan_feed_end(&feed);
	}
	return complete;
}

/* False if it was stopped. */
static bool
load_attributes(Relation rel, const GpuScanLoad *what)
{
	GpuScanCompiled *compiled = compile_attributes(rel, what->attnums);

	return compiled == NULL || load(rel, what, compiled);
}

/* The same. */
static bool
load_expression(Relation rel, const GpuScanLoad *what, const uint8 *identity)
{
	Expr *expr = gpuscan_expression_file_read(rel, identity);
	GpuScanCompiled *compiled = expr == NULL ? NULL : compile_expression(rel, expr);

	return compiled == NULL || load(rel, what, compiled);
}

bool
gpuscan_load_columns(Relation rel, const GpuScanLoad *what)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "gpuscan load", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	bool complete = true;

	if (rel->rd_tableam == GetHeapamTableAmRoutine() && RelationIsPopulated(rel) &&
		gpuscan_feed_may_be_cached(rel))
	{
		ListCell *lc;

		complete = load_attributes(rel, what);
		foreach(lc, what->identities)
			complete = complete && load_expression(rel, what, lfirst(lc));
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return complete;
}

void
gpuscan_load_expressions(GpuScanNodeState *node, const GpuScanCompileInput *filter,
						 const GpuScanCompiled *compiled)
{
	GpuScanCompileInput input = {
		.varno = filter->varno,
		.relid = filter->relid,
		.aggregate = true,
		.with_expressions = true,
	};
	GpuScanFeedCounters counters;
	const char *reason;
	GpuScanRun *run;

	if (!gpuscan_client_has_cache(NULL) || !gpuscan_feed_may_be_cached(node->parent))
		return;
	for (int i = 0; i < compiled->ncolumns; i++)
	{
		AttrNumber attnum = compiled->attnums[i];
		Expr *expr = attnum < 0 ? list_nth(compiled->expressions, -1 - attnum)
								: attribute(node->parent, filter->varno, attnum);

		input.aggrefs = lappend(input.aggrefs, count_of(expr));
	}
	run = gpuscan_run_begin(node, &input, 0, &reason);
	if (run == NULL)
		return;
	run->feed.background = run->feed.spoils = true;
	(void) gpuscan_run_feed(node, run);
	node->loaded_on = gpuscan_run_end(run, &counters);
	node->counters.feed.read += counters.read;
	node->counters.feed.loaded += counters.loaded;
	node->counters.feed.evaluated += counters.evaluated;
}
