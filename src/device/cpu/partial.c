/*-------------------------------------------------------------------------
 *
 * partial.c
 *	  Running batches through a Program, chunk by chunk.
 *
 *	 for each tuple of the batch
 *		find it in its page, add it to the chunk
 *		when the chunk is full, or the layout changes, or the batch ends:
 *			decode what the filter needs, evaluate the filter
 *			keep the tuples for which it is true
 *			for an aggregation
 *				decode and evaluate the rest for them
 *				find their groups, those of the pass alone, advance the aggregates
 *
 * A tuple with a toasted value is deferred where the value would be read: one
 * that the filter rejects never is, if only the aggregates need it.
 *
 * A chunk never spans batches, since a batch's outcomes are complete when it is
 * answered.
 *
 * A cached range runs in the same way, but that its registers are loaded from
 * chunks of columns, instead of decoded from tuples.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* Where a filter keeps one row in so many, loading all is as cheap as loading those. */
#define DENSE_SPAN 5

/* True if other partials take tuples of the same chunk. */
static bool
takes_part(const CpuPartial *partial)
{
	return partial->cached != NULL && partial->plan->nparts > 1;
}

static bool
create_registers(CpuPartial *partial)
{
	const GpuScanProgram *program = partial->plan->program;
	const uint8_t *classes = GPUSCAN_REG_CLASSES(program);
	size_t size = 0;
	char *memory;

	for (int i = 0; i < program->nregs; i++)
		size += (size_t) (gpuscan_columns_value_size[classes[i]] + 1) * CPU_CHUNK;
	partial->registers = calloc((size_t) program->nregs + 1, sizeof(CpuRegister));
	partial->register_memory = memory = aligned_alloc(64, size + CPU_CHUNK);
	if (partial->registers == NULL || memory == NULL)
		return false;
	for (int i = 0; i < program->nregs; i++)
	{
		partial->registers[i].values = memory;
		memory += (size_t) gpuscan_columns_value_size[classes[i]] * CPU_CHUNK;
		partial->registers[i].own = (uint8_t *) memory;
		memory += CPU_CHUNK;
		cpu_set_flags(&partial->registers[i], 0);
	}
	gpuscan_cpu_load_params(program, partial->registers);
	return true;
}

static bool
create_aggregation(CpuPartial *partial)
{
	const GpuScanProgram *program = partial->plan->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	int set = 0;

	gpuscan_cpu_groups_init(&partial->groups, program, partial->memory, 0);
	if (!gpuscan_cpu_keys_create(&partial->keys, program) || !gpuscan_cpu_index_create(partial))
		return false;
	if (partial->plan->ndistinct == 0)
		return true;

	partial->sets = calloc(partial->plan->ndistinct, sizeof(CpuDistinct));
	partial->pairs = malloc(sizeof(CpuPairs));
	if (partial->sets == NULL || partial->pairs == NULL)
		return false;
	for (int i = 0; i < program->naggs; i++)
	{
		if (aggs[i].kind != GPUSCAN_AGG_COUNT_DISTINCT)
			continue;
		gpuscan_cpu_distinct_init(&partial->sets[set], partial->memory, aggs[i].cls, 0);
		if (partial->plan->bits[set].words != NULL)
			partial->sets[set].bits = &partial->plan->bits[set];
		partial->sets[set].tuples_expected = partial->plan->tuples_expected;
		partial->sets[set++].tuples_seen = &partial->tuples_seen;
	}
	return true;
}

/* NULL: out of memory. */
CpuPartial *
gpuscan_cpu_partial_create(const CpuPlan *plan, uint32_t part, CpuMemory *memory,
						   const atomic_bool *cancel)
{
	CpuPartial *partial = calloc(1, sizeof(CpuPartial));

	if (partial == NULL)
		return NULL;
	partial->plan = plan;
	partial->part = part;
	partial->memory = memory;
	partial->cancel = cancel;
	partial->tuples.located = calloc((size_t) plan->max_fetches * CPU_CHUNK + 1, sizeof(GsText));
	if (partial->tuples.located == NULL || !create_registers(partial) ||
		(plan->program->aggregate && memory != NULL && !create_aggregation(partial)))
	{
		gpuscan_cpu_partial_free(partial);
		return NULL;
	}
	return partial;
}

void
gpuscan_cpu_partial_free(CpuPartial *partial)
{
	for (int i = 0; partial->sets != NULL && i < partial->plan->ndistinct; i++)
	{
		gpuscan_cpu_distinct_free_entries(&partial->sets[i]);
		gpuscan_cpu_arena_free(&partial->sets[i].values);
	}
	gpuscan_cpu_groups_free_rows(&partial->groups);
	gpuscan_cpu_arena_free(&partial->groups.texts);
	gpuscan_cpu_keys_free(&partial->keys, partial->plan->program);
	gpuscan_cpu_index_free(partial);
	gpuscan_cpu_bins_free(partial);
	free(partial->sets);
	free(partial->pairs);
	free(partial->tuples.located);
	free(partial->registers);
	free(partial->register_memory);
	free(partial);
}

static void
gather_register(CpuPartial *partial, uint16_t reg, const uint16_t *some, uint32_t n)
{
	gpuscan_cpu_gather(&partial->registers[reg], &partial->registers[reg],
					   GPUSCAN_REG_CLASSES(partial->plan->program)[reg], some, n);
}

/* Reduces the chunk to the n tuples kept; `rest`: with the second phase's inputs. */
static void
compact(CpuPartial *partial, const uint16_t *kept, uint32_t n, bool rest)
{
	const CpuPlan *plan = partial->plan;
	const CpuPhase *phase = &plan->phases[CPU_REST];
	CpuTuples *tuples = &partial->tuples;

	if (partial->cached != NULL)
	{
		for (uint32_t i = 0; i < n; i++)
			partial->picked[i] =
				partial->dense ? (uint16_t) (partial->first + kept[i]) : partial->picked[kept[i]];
		partial->dense = false;
	}
	for (uint32_t i = 0; partial->cached == NULL && i < n; i++)
	{
		tuples->data[i] = tuples->data[kept[i]];
		tuples->info[i] = tuples->info[kept[i]];
		tuples->outcome[i] = tuples->outcome[kept[i]];
	}
	tuples->n = n;
	for (int i = 0; i < plan->ncarried; i++)
		gather_register(partial, plan->carried[i], kept, n);
	for (int i = 0; rest && i < phase->ninputs; i++)
		gather_register(partial, phase->inputs[i].reg, kept, n);
}

/* Loads a register from a chunk of a column. */
static void
load_register(CpuPartial *partial, const GpuScanInput *input)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanCachedRange *range = partial->cached;
	const uint16_t *rows = partial->picked;
	uint32_t n = partial->tuples.n;
	uint32_t first = partial->dense ? partial->first : rows[0];
	uint32_t span = partial->dense ? n : rows[n - 1] - first + 1;
	uint16_t number = plan->input_of_reg[input->reg];
	const GpuScanChunk *chunk = range->chunks[number];
	const GpuScanDictionary *dictionary = range->dictionaries[number];
	CpuRegister *reg = &partial->registers[input->reg];

	if (span > CPU_CHUNK || span > n * DENSE_SPAN)
	{
		cpu_set_flags(
			reg, gpuscan_columns_decode_rows(chunk, dictionary, rows, n, reg->values, reg->own));
		return;
	}
	cpu_set_flags(reg,
				  gpuscan_columns_decode(chunk, dictionary, first, span, reg->values, reg->own));
	if (span > n)
	{
		uint16_t kept[CPU_CHUNK];

		for (uint32_t i = 0; i < n; i++)
			kept[i] = (uint16_t) (rows[i] - first);
		gather_register(partial, input->reg, kept, n);
	}
}

/* Reduces the chunk to tuples of the partial's groups, and loads the inputs that are keys. */
static void
keep_part(CpuPartial *partial)
{
	const CpuPhase *phase = &partial->plan->phases[CPU_REST];
	const uint8_t *use = partial->plan->key_use;
	uint16_t kept[CPU_CHUNK];
	uint32_t nkept;

	for (int i = 0; i < phase->ninputs; i++)
	{
		if (use[phase->inputs[i].reg] != CPU_NO_KEY)
			load_register(partial, &phase->inputs[i]);
	}
	nkept = gpuscan_cpu_index_select(partial, kept);
	for (int i = 0; i < phase->ninputs; i++)
	{
		if (use[phase->inputs[i].reg] != CPU_NO_KEY)
			gather_register(partial, phase->inputs[i].reg, kept, nkept);
	}
	compact(partial, kept, nkept, false);
}

/* Fills the registers of a phase's inputs. */
static void
load_inputs(CpuPartial *partial, CpuPhaseNumber number)
{
	const CpuPhase *phase = &partial->plan->phases[number];
	const uint8_t *classes = GPUSCAN_REG_CLASSES(partial->plan->program);
	CpuTuples *tuples = &partial->tuples;
	bool by_code;

	if (partial->cached == NULL)
	{
		gpuscan_cpu_decode(&partial->plan->layouts[partial->layout][number], phase, tuples,
						   partial->registers);
		return;
	}
	tuples->nfaults = 0;
	by_code = number == CPU_REST && gpuscan_cpu_index_applies(partial);
	for (int i = 0; i < phase->ninputs; i++)
	{
		uint16_t reg = phase->inputs[i].reg;
		CpuKeyUse use = partial->plan->key_use[reg];

		if (!(by_code && use == CPU_ONLY_KEY && classes[reg] == GPUSCAN_TEXT) &&
			!(takes_part(partial) && use != CPU_NO_KEY))
			load_register(partial, &phase->inputs[i]);
	}
}

static bool
load_keys(CpuPartial *partial)
{
	const GpuScanProgram *program = partial->plan->program;
	const GpuScanKey *key = GPUSCAN_KEYS(program);
	CpuRegister registers[GPUSCAN_MAX_KEYS];

	for (int k = 0; k < program->nkeys; k++)
		registers[k] = partial->registers[key[k].reg];
	return gpuscan_cpu_keys_load(&partial->keys, program, registers, partial->tuples.n);
}

/* Finds the groups of the chunk's tuples, and drops those of other passes. */
static GpuScanCode
find_groups(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;
	CpuTuples *tuples = &partial->tuples;

	if (!load_keys(partial))
		return GPUSCAN_LEFT_TO_POSTGRES;
	if (plan->pass.mask != 0)
	{
		uint16_t kept[CPU_CHUNK];

		tuples->n = gpuscan_cpu_keys_select(&partial->keys, plan->pass, kept);
		for (int i = 0; i < plan->nlast; i++)
			gather_register(partial, plan->last[i], kept, tuples->n);
		if (!load_keys(partial))
			return GPUSCAN_LEFT_TO_POSTGRES;
	}
	if (!gpuscan_cpu_groups_find(&partial->groups, &partial->keys, partial->rows))
		return GPUSCAN_OUT_OF_MEMORY;
	return GPUSCAN_OK;
}

/* Tells what became of the tuples with a fault; `keep` turns false for them. */
static GpuScanCode
report_faults(CpuPartial *partial, uint8_t *keep)
{
	const CpuTuples *tuples = &partial->tuples;

	for (uint32_t i = 0; i < tuples->n; i++)
	{
		if (tuples->fault[i] == 0)
			continue;
		keep[i] = false;
		*tuples->outcome[i] = tuples->fault[i];
		if (tuples->fault[i] == GPUSCAN_TUPLE_DEFERRED)
		{
			partial->stats.tuples--;
			partial->ndeferred++;
		}
		else if (partial->plan->program->aggregate)
			return GPUSCAN_LEFT_TO_POSTGRES;
	}
	return GPUSCAN_OK;
}

/* The block of a range in whose part of the chunks a row lies */
static uint32_t
block_of_row(const GpuScanCachedRange *range, uint32_t row)
{
	uint32_t block = 0;

	for (uint32_t step = GPUSCAN_RANGE_BLOCKS / 2; step > 0; step /= 2)
	{
		if (range->ends[block + step - 1] <= row)
			block += step;
	}
	return block;
}

/* Says what became of a tuple of a scan that is not rejected. */
static void
set_outcome(CpuPartial *partial, uint32_t i, GpuScanOutcome outcome)
{
	uint32_t row = partial->dense ? partial->first + i : partial->picked[i];

	if (partial->cached != NULL)
		*partial->hits |= UINT64_C(1) << block_of_row(partial->cached, row);
	else
		*partial->tuples.outcome[i] = (uint8_t) outcome;
}

/* Turns `keep` false where the filter is not true; an error is PostgreSQL's. */
static GpuScanCode
report_flags(CpuPartial *partial, const CpuRegister *filter, uint8_t *keep)
{
	const CpuTuples *tuples = &partial->tuples;

	for (uint32_t i = 0; i < tuples->n; i++)
	{
		if (filter->flags[i] == GPUSCAN_ERROR && (tuples->nfaults == 0 || tuples->fault[i] == 0))
		{
			if (partial->plan->program->aggregate)
				return GPUSCAN_LEFT_TO_POSTGRES;
			set_outcome(partial, i, GPUSCAN_TUPLE_RECHECK);
		}
		keep[i] = filter->flags[i] == 0 && keep[i];
	}
	return GPUSCAN_OK;
}

/* Lists the tuples for which `filter` (NULL: none) is true and that have no fault. */
static GpuScanCode
select_tuples(CpuPartial *partial, const CpuRegister *filter, uint16_t *kept, uint32_t *nkept)
{
	const CpuTuples *tuples = &partial->tuples;
	uint8_t keep[CPU_CHUNK];
	GpuScanCode code = GPUSCAN_OK;

	if (filter == NULL)
		memset(keep, true, tuples->n);
	for (uint32_t i = 0; filter != NULL && i < tuples->n; i++)
		keep[i] = ((const uint8_t *) filter->values)[i] != 0;
	if (filter != NULL && !filter->clean)
		code = report_flags(partial, filter, keep);
	if (code == GPUSCAN_OK && tuples->nfaults > 0)
		code = report_faults(partial, keep);

	*nkept = gpuscan_cpu_list(keep, tuples->n, kept);
	return code;
}

/*
 * Finds the groups of the chunk's tuples by number, or keeps the tuples in bins
 * until later.
 */
static GpuScanCode
find_numbers(CpuPartial *partial, bool *later)
{
	GpuScanCode code = takes_part(partial) ? GPUSCAN_OK : gpuscan_cpu_index_number(partial);

	if (code != GPUSCAN_OK)
		return code;
	*later = partial->cached != NULL && partial->bins != NULL && !partial->any_outside;
	return *later ? gpuscan_cpu_bins_add(partial) : gpuscan_cpu_index_find(partial);
}

/* Runs the second phase over the tuples that were kept. */
static GpuScanCode
aggregate_chunk(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanProgram *program = plan->program;
	const CpuPhase *phase = &plan->phases[CPU_REST];
	CpuTuples *tuples = &partial->tuples;
	char *single = NULL;

	if (takes_part(partial))
	{
		keep_part(partial);
		partial->tuples_seen += tuples->n;
	}
	if (tuples->n == 0)
		return GPUSCAN_OK;
	load_inputs(partial, CPU_REST);
	if (tuples->nfaults > 0)
	{
		uint16_t kept[CPU_CHUNK];
		uint32_t nkept;
		GpuScanCode code = select_tuples(partial, NULL, kept, &nkept);

		if (code != GPUSCAN_OK)
			return code;
		compact(partial, kept, nkept, true);
	}
	partial->stats.passed += tuples->n;
	gpuscan_cpu_eval(program, phase, partial->registers, tuples->n);

	if (program->nkeys == 0)
	{
		single = gpuscan_cpu_groups_single(&partial->groups);
		if (single == NULL)
			return GPUSCAN_OUT_OF_MEMORY;
	}
	else
	{
		bool later = false;
		GpuScanCode code = gpuscan_cpu_index_applies(partial) ? find_numbers(partial, &later)
															  : find_groups(partial);

		if (code != GPUSCAN_OK || later)
			return code;
	}
	return gpuscan_cpu_advance(program, partial->registers, tuples->n, partial->rows,
							   partial->numbers, single, partial->sets, partial->pairs);
}

/* Runs the chunk and empties it. */
static GpuScanCode
run_chunk(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanProgram *program = plan->program;
	const CpuPhase *phase = &plan->phases[CPU_FILTER];
	CpuTuples *tuples = &partial->tuples;
	uint16_t kept[CPU_CHUNK];
	uint32_t nkept;
	GpuScanCode code;

	if (tuples->n == 0)
		return GPUSCAN_OK;
	if (atomic_load_explicit(partial->cancel, memory_order_relaxed))
		return GPUSCAN_CANCELLED;

	if (!takes_part(partial) || partial->part == 0)
		partial->stats.tuples += tuples->n;
	if (!takes_part(partial))
		partial->tuples_seen += tuples->n;
	load_inputs(partial, CPU_FILTER);
	gpuscan_cpu_eval(program, phase, partial->registers, tuples->n);
	code = select_tuples(
		partial,
		program->filter == GPUSCAN_NO_REGISTER ? NULL : &partial->registers[program->filter], kept,
		&nkept);
	if (code == GPUSCAN_OK && !program->aggregate)
	{
		partial->stats.passed += nkept;
		for (uint32_t i = 0; i < nkept; i++)
			set_outcome(partial, kept[i], GPUSCAN_TUPLE_PASSED);
	}
	else if (code == GPUSCAN_OK && nkept > 0)
	{
		if (nkept < tuples->n)
			compact(partial, kept, nkept, false);
		code = aggregate_chunk(partial);
	}
	tuples->n = 0;
	return code;
}

/*
 * Adds a block's tuples to the chunk, and runs it whenever it is full.  Every
 * tuple is rejected until it is found to be something else.
 */
static GpuScanCode
run_block(CpuPartial *partial, const GpuScanBlock *block, const GpuScanBlock *next)
{
	CpuTuples *tuples = &partial->tuples;
	GpuScanCode code = GPUSCAN_OK;

	if (block->ntuples > 0)
		memset(block->outcome, GPUSCAN_TUPLE_REJECTED, block->ntuples);
	for (uint32_t i = 0; code == GPUSCAN_OK && i < block->ntuples;)
	{
		i = gpuscan_cpu_add_tuples(tuples, block, i, next);
		if (tuples->n == CPU_CHUNK)
			code = run_chunk(partial);
		else if (i < block->ntuples)
		{
			/* malformed */
			if (partial->plan->program->aggregate)
				return GPUSCAN_LEFT_TO_POSTGRES;
			block->outcome[i++] = GPUSCAN_TUPLE_RECHECK;
			partial->stats.tuples++;
		}
	}
	return code;
}

GpuScanCode
gpuscan_cpu_partial_run(CpuPartial *partial, const GpuScanBatch *batch)
{
	GpuScanCode code = GPUSCAN_OK;

	partial->tuples.n = 0;
	partial->cached = NULL;
	partial->ndeferred = 0;
	for (uint32_t b = 0; code == GPUSCAN_OK && b < batch->nblocks; b++)
	{
		const GpuScanBlock *block = &batch->blocks[b];
		const GpuScanBlock *next = b + 1 < batch->nblocks ? block + 1 : NULL;

		if (!gpuscan_cpu_block_is_valid(partial->plan, block))
			return GPUSCAN_INVALID;
		if (next != NULL && !gpuscan_cpu_block_is_valid(partial->plan, next))
			next = NULL;
		if (block->layout != partial->layout)
			code = run_chunk(partial);
		partial->layout = block->layout;
		if (code == GPUSCAN_OK)
			code = run_block(partial, block, next);
	}
	return code == GPUSCAN_OK ? run_chunk(partial) : code;
}

/* Adds rows to the chunk; a run of them alone stays dense. */
static void
add_rows(CpuPartial *partial, uint32_t first, uint32_t n)
{
	CpuTuples *tuples = &partial->tuples;

	if (tuples->n == 0)
	{
		partial->first = first;
		partial->dense = true;
		tuples->n = n;
		return;
	}
	for (uint32_t i = 0; partial->dense && i < tuples->n; i++)
		partial->picked[i] = (uint16_t) (partial->first + i);
	partial->dense = false;
	for (uint32_t i = 0; i < n; i++)
		partial->picked[tuples->n++] = (uint16_t) (first + i);
}

GpuScanCode
gpuscan_cpu_partial_run_cached(CpuPartial *partial, const GpuScanCachedRange *range, uint64_t *hits)
{
	CpuTuples *tuples = &partial->tuples;
	GpuScanCode code = GPUSCAN_OK;

	if (!gpuscan_columns_may_pass(partial->plan->program, range->chunks))
	{
		partial->stats.blocks_skipped += range->nblocks;
		partial->glances++;
		return GPUSCAN_OK;
	}
	if (partial->plan->summarized && gpuscan_cpu_run_summary(partial, range, &code))
	{
		partial->glances++;
		return code;
	}
	if (!partial->binned)
		gpuscan_cpu_bins_create(partial);
	partial->binned = true;
	tuples->n = 0;
	partial->cached = range;
	partial->hits = hits;
	for (uint32_t r = 0; r < range->nruns; r++)
	{
		uint32_t first = range->runs[r].first;
		uint32_t left = range->runs[r].n;

		while (code == GPUSCAN_OK && left > 0)
		{
			uint32_t room = CPU_CHUNK - tuples->n;
			uint32_t n = left < room ? left : room;

			add_rows(partial, first, n);
			first += n;
			left -= n;
			if (tuples->n == CPU_CHUNK)
				code = run_chunk(partial);
		}
	}
	return code == GPUSCAN_OK ? run_chunk(partial) : code;
}
