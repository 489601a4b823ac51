/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  Everything that EXPLAIN shows of us: all labels are here.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/nodes.h"
#include "nodes/value.h"
#include "planner/planner.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

static ExplainOneQuery_hook_type prev_ExplainOneQuery_hook = NULL;

/* A list of expressions over the scanned relation's columns. */
void
gpuscan_explain_expressions(const char *label, List *exprs, GpuScanNodeState *node, List *ancestors,
							ExplainState *es)
{
	List *context;
	List *texts = NIL;
	bool prefix = list_length(es->rtable) > 1 || es->verbose;
	ListCell *lc;

	if (exprs == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);
	foreach(lc, exprs)
		texts = lappend(texts, deparse_expression(lfirst(lc), context, prefix, false));
	ExplainPropertyList(label, texts, es);
}

void
gpuscan_explain_relations(List *relations, ExplainState *es)
{
	List *names = NIL;
	ListCell *lc;

	foreach(lc, relations)
		names = lappend(names, RelationGetRelationName((Relation) lfirst(lc)));
	ExplainPropertyList(list_length(names) == 1 ? "Relation" : "Relations", names, es);
}

/* A counter: text shows it if it is not zero, other formats always. */
static void
counter(const char *label, const char *unit, uint64 value, ExplainState *es)
{
	if (value != 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyUInteger(label, unit, value, es);
}

/* Where the device's kernels came from: the most that any of the node's requests took. */
static void
explain_kernel(const GpuScanRequestStats *stats, ExplainState *es)
{
	uint64 ns = stats->compile_ns > 0 ? stats->compile_ns : stats->kernel_read_ns;
	const char *origin = stats->compile_ns > 0		 ? "compiled"
						 : stats->kernel_read_ns > 0 ? "read from disk"
													 : "reused";

	if (ns == 0 && stats->kernels_reused == 0)
		return;
	if (ns > 0 && es->timing)
		ExplainPropertyText("Kernel", psprintf("%s in %.1f ms", origin, ns / 1e6), es);
	else
		ExplainPropertyText("Kernel", origin, es);
}

/* What both nodes show under ANALYZE. */
void
gpuscan_explain_node(GpuScanNodeState *node, ExplainState *es)
{
	GpuScanCounters *counters = &node->counters;

	if (!es->analyze)
		return;

	/* the request's own figures come with its end */
	gpuscan_run_end_request(node);
	if (counters->device != NULL)
		ExplainPropertyText("Device", counters->device, es);
	if (counters->passes > 1 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyUInteger("Passes", NULL, counters->passes, es);
	if (node->replaced_reason != NULL)
		ExplainPropertyText("Replaced Plan", node->replaced_reason, es);
	counter("Workers Launched", NULL, counters->workers, es);
	counter("Blocks Cached", NULL, counters->feed.cached, es);
	counter("Blocks from Device Memory", NULL, counters->feed.in_tier[GPUSCAN_TIER_DEVICE], es);
	counter("Blocks from Host Memory", NULL, counters->feed.in_tier[GPUSCAN_TIER_HOST], es);
	counter("Blocks Skipped", NULL, counters->stats.blocks_skipped, es);
	counter("Blocks Read", NULL, counters->feed.read, es);
	counter("Blocks Loaded", NULL, counters->feed.loaded, es);
	counter("Blocks Loose", NULL, counters->feed.loose, es);
	counter("Blocks Loose on Device", NULL, counters->feed.kept, es);
	counter("Tuples Detoasted", NULL, counters->feed.detoasted, es);
	counter("Tuples Rechecked", NULL, counters->rechecked, es);
	counter("Tuples Evaluated", NULL, counters->feed.evaluated, es);
	counter("Distinct Values Evaluated", NULL, counters->evaluated, es);
	if (es->verbose)
	{
		counter("Tuples Read", NULL, counters->stats.tuples, es);
		counter("Tuples Passed", NULL, counters->stats.passed, es);
		counter("Groups", NULL, counters->stats.groups, es);
	}
	explain_kernel(&counters->stats, es);
	counter("Bus Traffic", "kB", (counters->stats.bus_bytes + 1023) / 1024, es);
	if (es->timing)
	{
		ExplainPropertyFloat("Device Time", "ms", counters->stats.busy_ns / 1e6, 3, es);
		if (counters->stats.kernel_ns > 0 || es->format != EXPLAIN_FORMAT_TEXT)
			ExplainPropertyFloat("Kernel Time", "ms", counters->stats.kernel_ns / 1e6, 3, es);
	}
	if (es->verbose)
		counter("Device Memory", "kB", (counters->stats.memory + 1023) / 1024, es);
}

/* As PostgreSQL explains a query where there is no hook. */
static void
explain_query(Query *query, int cursorOptions, IntoClause *into, ExplainState *es,
			  const char *queryString, ParamListInfo params, QueryEnvironment *queryEnv)
{
	PlannedStmt *plan;
	instr_time start;
	instr_time duration;
	BufferUsage before;
	BufferUsage used;

	if (es->buffers)
		before = pgBufferUsage;
	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, queryString, cursorOptions, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	if (es->buffers)
	{
		memset(&used, 0, sizeof(used));
		BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
	}
	ExplainOnePlan(plan, into, es, queryString, params, queryEnv, &duration,
				   es->buffers ? &used : NULL);
}

/* Explains, then shows what the planner rejected. */
static void
explain_one_query(Query *query, int cursorOptions, IntoClause *into, ExplainState *es,
				  const char *queryString, ParamListInfo params, QueryEnvironment *queryEnv)
{
	List *notes = NIL;
	ListCell *lc;

	if (gpuscan_explain_rejected)
		gpuscan_rejected_reset();
	if (prev_ExplainOneQuery_hook)
		prev_ExplainOneQuery_hook(query, cursorOptions, into, es, queryString, params, queryEnv);
	else
		explain_query(query, cursorOptions, into, es, queryString, params, queryEnv);

	if (!gpuscan_explain_rejected)
		return;
	foreach(lc, gpuscan_rejected_list())
		notes = lappend(notes, strVal(lfirst(lc)));
	if (notes == NIL)
		return;
	ExplainOpenGroup("GpuScan", NULL, true, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		foreach(lc, notes)
			ExplainPropertyText("GpuScan Rejected", lfirst(lc), es);
	}
	else
		ExplainPropertyList("GpuScan Rejected", notes, es);
	ExplainCloseGroup("GpuScan", NULL, true, es);
}

void
gpuscan_explain_install(void)
{
	prev_ExplainOneQuery_hook = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
}
