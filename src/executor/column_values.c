/*-------------------------------------------------------------------------
 *
 * column_values.c
 *	  The values that a column has in the tuples that a node scans.
 *
 * A request before the node's own groups by the column: what it returns are the
 * values that the snapshot sees, of cached and of loose blocks, of every partition,
 * each once.  It reads one column, which lies in the cache from the first time on.
 * Rejected: the values of the cache's dictionaries.  They may be of tuples long
 * gone, and are not those of blocks that are not cached, nor of chunks that need no
 * dictionary, so that a tuple's value might be unknown.
 *
 * No column is asked for its values of which the planner did not think that they are few.
 * The snapshot stays, so a rescan uses the values again.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/finish.h"
#include "executor/nodes.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

typedef struct ColumnValues
{
	GpuScanColumnValues values;
	AttrNumber attnum;
	const char *reason; /* why they cannot be had, or NULL */
} ColumnValues;

/* Takes over what a finished run found, into the current context; or why not. */
static const char *
take_values(GpuScanRun *run, const Var *column, GpuScanColumnValues *values)
{
	const GpuScanCompiled *compiled = run->compiled;
	GpuScanFinish *finish = gpuscan_finish_create(compiled->program, compiled->outputs, 1);
	Size size = 0;
	int16 typlen;
	bool typbyval;
	const char *rows;
	uint32 nrows;

	get_typlenbyval(column->vartype, &typlen, &typbyval);
	values->n = 0;
	values->values = palloc(GPUSCAN_MAX_COLUMN_VALUES * sizeof(Datum));
	while (gpuscan_client_fetch(run->client, &rows, &nrows) && nrows > 0)
	{
		for (uint32 i = 0; i < nrows; i++)
		{
			Datum value;
			bool isnull;

			gpuscan_finish_row(finish, rows, rows + (Size) i * compiled->program->row_size, &value,
							   &isnull);
			if (isnull)
				continue;
			if (!typbyval)
				size += datumGetSize(value, typbyval, typlen);
			if (values->n == GPUSCAN_MAX_COLUMN_VALUES || size > GPUSCAN_MAX_PROGRAM_SIZE)
				return "a column has too many values for an expression that no device computes";
			values->values[values->n++] = datumCopy(value, typbyval, typlen);
		}
	}
	return gpuscan_client_failure(run->client);
}

/* Finds the values, into the current context; or says why not. */
static const char *
find_values(GpuScanNodeState *node, const Var *column, GpuScanColumnValues *values)
{
	GpuScanCompileInput input =
		gpuscan_program_group_values(RelationGetRelid(node->parent), column);
	const char *reason;
	GpuScanFeedCounters counters;
	GpuScanRun *run;

	run = gpuscan_run_begin(node, &input, GPUSCAN_MAX_COLUMN_VALUES, &reason);
	if (run == NULL)
		return reason;
	if (gpuscan_run_aggregate(node, run))
		reason = take_values(run, column, values);
	else
		reason = gpuscan_client_failure(run->client);
	if (reason != NULL)
		reason = pstrdup(reason);
	(void) gpuscan_run_end(run, &counters);
	return reason;
}

/* A GpuScanValuesOf; `arg` is the node. */
const GpuScanColumnValues *
gpuscan_column_values(void *arg, const Var *column, const char **reason)
{
	static const GpuScanColumnValues none = {0};
	GpuScanNodeState *node = arg;
	ColumnValues *values = NULL;
	MemoryContext old;
	ListCell *lc;

	if (!list_member_int(node->valued, column->varattno))
	{
		*reason = "a column may have too many values for an expression that no device computes";
		return NULL;
	}
	if (node->scanned == NIL)
		return &none;
	foreach(lc, node->column_values)
	{
		if (((ColumnValues *) lfirst(lc))->attnum == column->varattno)
			values = lfirst(lc);
	}
	if (values == NULL)
	{
		old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);
		values = palloc0(sizeof(ColumnValues));
		values->attnum = column->varattno;
		values->reason = find_values(node, column, &values->values);
		node->column_values = lappend(node->column_values, values);
		if (values->reason == NULL)
			node->counters.evaluated += values->values.n;
		MemoryContextSwitchTo(old);
	}
	*reason = values->reason;
	return values->reason == NULL ? &values->values : NULL;
}
