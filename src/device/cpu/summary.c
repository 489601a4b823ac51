/*-------------------------------------------------------------------------
 *
 * summary.c
 *	  Aggregates of whole cached ranges by what their chunks' headers say.
 *
 * Without keys, and where the filter keeps all of a range, counts need no more
 * than the numbers of values and NULLs, and extrema the least and the greatest
 * value.  A state is made of them, and merged as that of another thread would be.
 *
 * Of zeros of both signs a header has either, while it is PostgreSQL's order of
 * rows that decides which an extremum is: ranges with an extremum of zero are
 * aggregated value by value, which finds out.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* Whether headers can tell what the aggregate needs. */
static bool
is_summarized(const CpuPlan *plan, const GpuScanAgg *agg)
{
	const GpuScanProgram *program = plan->program;

	if (agg->filter != GPUSCAN_NO_REGISTER)
		return false;
	if (agg->arg != GPUSCAN_NO_REGISTER &&
		(program->ninputs == 0 ||
		 GPUSCAN_INPUTS(program)[plan->input_of_reg[agg->arg]].reg != agg->arg))
		return false;
	switch (agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
		case GPUSCAN_AGG_MIN:
		case GPUSCAN_AGG_MAX:
		case GPUSCAN_AGG_BOOL_AND:
		case GPUSCAN_AGG_BOOL_OR:
			return true;
		default:
			return false;
	}
}

bool
gpuscan_cpu_plan_is_summarized(const CpuPlan *plan)
{
	const GpuScanProgram *program = plan->program;
	bool all = program->aggregate && program->nkeys == 0;

	for (int i = 0; all && i < program->naggs; i++)
		all = is_summarized(plan, &GPUSCAN_AGGS(program)[i]);
	return all;
}

/* The state of one extremum; false if the header does not tell. */
static bool
make_extremum(const GpuScanAgg *agg, const GpuScanChunk *chunk, char *state)
{
	bool is_min = agg->kind == GPUSCAN_AGG_MIN || agg->kind == GPUSCAN_AGG_BOOL_AND;
	const uint64_t *words = is_min ? chunk->min : chunk->max;
	GpuScanValueState *s = (GpuScanValueState *) state;
	float f;

	s->n = chunk->nrows - chunk->nnulls;
	if (s->n == 0)
		return true;
	switch (agg->cls)
	{
		case GPUSCAN_I128:
			*(GpuScanValue128State *) state =
				(GpuScanValue128State){.n = s->n, .lo = words[0], .hi = (int64_t) words[1]};
			return true;
		case GPUSCAN_F32:
			memcpy(&f, words, sizeof(f));
			s->value.f = f;
			return f != 0;
		case GPUSCAN_F64:
			memcpy(&s->value.f, words, sizeof(double));
			return s->value.f != 0;
		default:
			s->value.i = (int64_t) words[0];
			return true;
	}
}

/* Makes the states of a range; false if the headers do not tell. */
static bool
make_states(const CpuPlan *plan, const GpuScanCachedRange *range, uint32_t nrows, char *row)
{
	const GpuScanProgram *program = plan->program;

	for (int i = 0; i < program->naggs; i++)
	{
		const GpuScanAgg *agg = &GPUSCAN_AGGS(program)[i];
		char *state = row + agg->offset;
		const GpuScanChunk *chunk;

		if (agg->arg == GPUSCAN_NO_REGISTER)
		{
			((GpuScanCountState *) state)->n = nrows;
			continue;
		}
		chunk = range->chunks[plan->input_of_reg[agg->arg]];
		if (chunk->nrows != nrows)
			return false;
		if (agg->kind == GPUSCAN_AGG_COUNT)
			((GpuScanCountState *) state)->n = nrows - chunk->nnulls;
		else if (!make_extremum(agg, chunk, state))
			return false;
	}
	return true;
}

bool
gpuscan_cpu_run_summary(CpuPartial *partial, const GpuScanCachedRange *range, GpuScanCode *code)
{
	const GpuScanProgram *program = partial->plan->program;
	char *row;
	char *single;
	uint32_t nrows = 0;
	bool done;

	if (!gpuscan_columns_all_pass(program, range->chunks))
		return false;
	row = calloc(1, program->row_size);
	single = gpuscan_cpu_groups_single(&partial->groups);
	for (uint32_t r = 0; r < range->nruns; r++)
		nrows += range->runs[r].n;
	done = row != NULL && single != NULL && make_states(partial->plan, range, nrows, row);
	if (done)
	{
		*code = gpuscan_cpu_merge_states(program, 1, &single, &row) ? GPUSCAN_OK
																	: GPUSCAN_LEFT_TO_POSTGRES;
		partial->stats.tuples += nrows;
		partial->stats.passed += nrows;
	}
	free(row);
	return done;
}
