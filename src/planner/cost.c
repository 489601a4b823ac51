/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  What an offloaded node costs, in PostgreSQL's units.
 *
 * Reading a page costs what a sequential scan pays for it: the backend reads
 * it.  A tuple and each operation on it cost less than in PostgreSQL's
 * executor by what gpuscan.tuple_cost and gpuscan.operator_cost say; a row that
 * comes back costs a PostgreSQL tuple again.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "planner/planner.h"

/*
 * Fills the path's costs: `tuples` on `pages` are read, `operations` run on
 * each tuple, and `rows` come back that each cost `cost_per_row` more.
 */
void
gpuscan_cost(Path *path, double pages, double tuples, int operations, double rows, Cost cost_per_row)
{
	Cost		read = seq_page_cost * pages + gpuscan_tuple_cost * tuples +
	gpuscan_operator_cost * operations * tuples;

	path->startup_cost = gpuscan_request_cost;
	path->total_cost = gpuscan_request_cost + read + (cpu_tuple_cost + cost_per_row) * rows;
}
