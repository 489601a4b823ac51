/*-------------------------------------------------------------------------
 *
 * jit.c
 *	  Whether PostgreSQL should compile its part of a plan.
 *
 * It decides by the cost of the whole plan, of which a device may do nearly
 * all: compiling what evaluates the rows that come back took 50 ms of a query
 * that took 250.  So the device's part does not count.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "jit/jit.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "planner/planner.h"

static planner_hook_type prev_planner_hook = NULL;

static Cost offloaded; /* of the statement that is being planned */

/* Notes a path of ours whose plan is made. */
void
gpuscan_jit_offloaded(const Path *path)
{
	offloaded += path->total_cost - cpu_tuple_cost * path->rows;
}

static PlannedStmt *
plan(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	Cost outer = offloaded;
	PlannedStmt *stmt;
	Cost rest;

	offloaded = 0;
	stmt = prev_planner_hook ? prev_planner_hook(parse, query_string, cursor_options, params)
							 : standard_planner(parse, query_string, cursor_options, params);
	rest = stmt->planTree->total_cost - offloaded;
	if (offloaded > 0 && rest <= jit_above_cost)
		stmt->jitFlags = PGJIT_NONE;
	if (offloaded > 0 && rest <= jit_optimize_above_cost)
		stmt->jitFlags &= ~PGJIT_OPT3;
	if (offloaded > 0 && rest <= jit_inline_above_cost)
		stmt->jitFlags &= ~PGJIT_INLINE;
	offloaded = outer;
	return stmt;
}

void
gpuscan_jit_install(void)
{
	prev_planner_hook = planner_hook;
	planner_hook = plan;
}
