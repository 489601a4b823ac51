/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  What an offloaded node costs, in PostgreSQL's units.
 *
 * Reading a page costs what a sequential scan pays for it: the backend reads
 * it.  One whose columns are cached is not read, and costs nothing, but for those of a scan that have a
 * row of its.  A tuple and each operation on it cost less than in PostgreSQL's
 * executor by what gpuscan.tuple_cost and gpuscan.operator_cost say; a row that
 * comes back costs a PostgreSQL tuple again.  expression_cost.c has what PostgreSQL evaluates for the cache.
 *
 * A GPU keeps up with the bus: 40 million tuples of six queries took an H200 80 to
 * 110 ms, reading included, where fifteen workers of PostgreSQL took 220 to 750 and
 * were estimated at 0.0008 to 0.0015 a tuple besides reading.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "planner/planner.h"
#include "service/client.h"
#include "utils/lsyscache.h"

/* Of the costs of a tuple and of its operations */
#define GPU_SHARE 0.2

/* Of running so many operations on each of some tuples, decoding included */
static Cost
device_cost(double tuples, int operations)
{
	return (gpuscan_tuple_cost + gpuscan_operator_cost * operations) * tuples *
		   (gpuscan_client_on_gpus() ? GPU_SHARE : 1);
}

/*
 * Fills the path's costs: `tuples` on `pages` are read, and `filter_operations`
 * run on each of them; on the `passed` ones `operations` more; and `rows` come
 * back that each cost `cost_per_row` more than a tuple does.
 */
void
gpuscan_cost(Path *path, double pages, double tuples, int filter_operations, double passed,
			 int operations, double rows, Cost cost_per_row)
{
	path->startup_cost = gpuscan_request_cost;
	path->total_cost = gpuscan_request_cost + seq_page_cost * pages +
					   device_cost(tuples, filter_operations) + device_cost(passed, operations) +
					   (cpu_tuple_cost + cost_per_row) * rows;
}

/*
 * Adds what it costs to find the values of so many columns: a request each, over the
 * column alone.  It is read once, and lies in the cache from then on.
 */
void
gpuscan_cost_values(Path *path, double tuples, int ncolumns)
{
	Cost cost = gpuscan_request_cost + device_cost(tuples, 0);

	path->startup_cost += cost * ncolumns;
	path->total_cost += cost * ncolumns;
}

/*
 * Adds what it costs a scan to read those of its cached pages that have one of the
 * `passed` rows, which may lie anywhere; where they lie together fewer pages have
 * them, which nobody knows before.  Pages here and there cost what they cost a bitmap heap scan.  And before
 * the first row comes, the filter has run on all rows of a page of the visibility map.  Returns how many pages.
 */
double
gpuscan_cost_hits(Path *path, double pages, double tuples, int operations, double cached,
				  double passed)
{
	double hits = cached * (1 - exp(-passed / Max(pages, 1)));

	if (cached > 0)
		path->startup_cost += device_cost(tuples, operations) * Min(GPUSCAN_MAP_BLOCKS / pages, 1);
	path->total_cost +=
		hits * (random_page_cost - (random_page_cost - seq_page_cost) * sqrt(hits / Max(pages, 1)));
	return hits;
}

/* Pages of one relation that need not be read, with some columns of its parent. */
static double
cached_pages(const RelOptInfo *rel, Oid relid, Oid parent, const GpuScanCompiled *compiled)
{
	double cached = compiled->ncolumns == 0 ? gpuscan_client_cached_pages(relid, 0) : rel->pages;

	for (int i = 0; i < compiled->ncolumns && cached > 0; i++)
	{
		AttrNumber attnum = compiled->attnums[i];
		double pages;

		if (attnum < 0)
			pages = gpuscan_client_cached_pages(
				relid, gpuscan_cost_expression_number(
						   relid, parent, list_nth(compiled->expressions, -1 - attnum)));
		else
		{
			if (relid != parent)
				attnum = get_attnum(relid, get_attname(parent, attnum, false));
			pages = gpuscan_client_cached_pages(relid, attnum);
		}
		cached = Min(cached, pages);
	}

	/* what is not all-visible is read all the same */
	return Min(cached, rel->pages) * rel->allvisfrac;
}

/*
 * Pages that need not be read, as far as the service has told: their columns are cached; and their
 * tuples.
 *
 * A plan that is kept, of a prepared statement, does not learn of what comes later.
 * Nor does a table come into the cache by queries for which PostgreSQL's plan
 * costs less: but once it is there, ours do.
 */
double
gpuscan_cost_cached_pages(PlannerInfo *root, List *relids, Oid parent,
						  const GpuScanCompiled *compiled, double *tuples)
{
	double pages = 0;
	ListCell *lc;

	*tuples = 0;
	foreach(lc, relids)
	{
		int rti = lfirst_int(lc);
		RelOptInfo *rel = find_base_rel(root, rti);
		double cached = cached_pages(rel, planner_rt_fetch(rti, root)->relid, parent, compiled);

		pages += cached;
		if (cached > 0)
			*tuples += rel->tuples * cached / rel->pages;
	}
	return pages;
}

/* The operations of a tuple in a Program: decoding, computing, grouping. */
int
gpuscan_cost_operations(const GpuScanProgram *program)
{
	return program->ninputs + program->ninstrs + 2 * (program->nkeys + program->naggs);
}
