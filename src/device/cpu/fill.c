/*-------------------------------------------------------------------------
 *
 * fill.c
 *	  Columns for the cache, made of the tuples of a batch.
 *
 * All inputs are decoded in one go, as a phase of their own, and encoded.  If a
 * tuple has a value that is deferred or malformed that says nothing about the
 * other inputs, so then they are decoded one by one, and only those that have such
 * a value are unfit.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* The values of one input */
typedef struct Values
{
	char *values;
	uint8_t *flags;
	uint8_t any; /* the union of the flags */
} Values;

static void
append(Values *values, uint32_t at, const CpuRegister *reg, uint32_t size, uint32_t n)
{
	memcpy(values->values + (size_t) at * size, reg->values, (size_t) n * size);
	if (reg->clean)
		return;
	memcpy(values->flags + at, reg->own, n);
	for (uint32_t i = 0; i < n; i++)
		values->any |= reg->own[i];
}

/* Decodes the chunk's tuples; false if one has a fault. */
static bool
collect_chunk(CpuPartial *partial, const CpuPhase *phase, const CpuDecode *decode, Values *values,
			  uint32_t at)
{
	const CpuPlan *plan = partial->plan;
	const uint8_t *classes = GPUSCAN_REG_CLASSES(plan->program);
	CpuTuples *tuples = &partial->tuples;

	gpuscan_cpu_decode(decode, phase, tuples, partial->registers);
	if (tuples->nfaults > 0)
		return false;
	for (int i = 0; i < phase->ninputs; i++)
	{
		uint16_t reg = phase->inputs[i].reg;

		append(&values[plan->input_of_reg[reg]], at, &partial->registers[reg],
			   gpuscan_columns_value_size[classes[reg]], tuples->n);
	}
	return true;
}

/* Decodes a phase's inputs of all tuples to be cached; false if one has a fault. */
static bool
collect(CpuPartial *partial, const GpuScanBatch *batch, const CpuPhase *phase,
		const CpuDecode *decode, Values *values)
{
	CpuTuples *tuples = &partial->tuples;
	uint32_t at = 0;

	tuples->n = 0;
	for (uint32_t b = 0; b < batch->nblocks; b++)
	{
		const GpuScanBlock *block = &batch->blocks[b];

		for (uint32_t i = 0; block->fills && i < block->ntuples;)
		{
			i = gpuscan_cpu_add_tuples(tuples, block, i, NULL);
			if (tuples->n < CPU_CHUNK)
			{
				if (i < block->ntuples)
					return false;
				continue;
			}
			if (!collect_chunk(partial, phase, decode, values, at))
				return false;
			at += tuples->n;
			tuples->n = 0;
		}
	}
	return tuples->n == 0 || collect_chunk(partial, phase, decode, values, at);
}

static bool
is_cancelled(const CpuPartial *partial)
{
	return atomic_load_explicit(partial->cancel, memory_order_relaxed);
}

/* Decodes inputs one by one. */
static void
collect_fit(CpuPartial *partial, const GpuScanBatch *batch, const GpuScanLayout *layout,
			Values *values)
{
	const GpuScanProgram *program = partial->plan->program;

	for (int i = 0; i < program->ninputs && !is_cancelled(partial); i++)
	{
		GpuScanInput input = GPUSCAN_INPUTS(program)[i];
		CpuPhase phase = {.ninputs = 1, .inputs = &input};
		CpuDecode decode = {0};

		values[i].any = 0;
		if (gpuscan_cpu_decode_create(&decode, layout, &phase))
			batch->fill->unfit[i] = !collect(partial, batch, &phase, &decode, &values[i] - i);
		gpuscan_cpu_decode_free(&decode);
	}
}

void
gpuscan_cpu_fill(CpuPartial *partial, const GpuScanBatch *batch)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanProgram *program = plan->program;
	const GpuScanFill *fill = batch->fill;
	Values *values = calloc((size_t) program->ninputs + 1, sizeof(Values));
	uint32_t layout = batch->blocks[0].layout;
	bool enough_memory = values != NULL;
	uint32_t n = 0;

	for (uint32_t b = 0; b < batch->nblocks; b++)
		n += batch->blocks[b].fills ? batch->blocks[b].ntuples : 0;
	if (n > GPUSCAN_RANGE_TUPLES)
		n = 0;
	for (int i = 0; enough_memory && i < program->ninputs; i++)
	{
		unsigned cls = GPUSCAN_REG_CLASSES(program)[GPUSCAN_INPUTS(program)[i].reg];

		values[i].values = malloc((size_t) n * gpuscan_columns_value_size[cls] + 1);
		values[i].flags = calloc((size_t) n + 1, 1);
		enough_memory = values[i].values != NULL && values[i].flags != NULL;
	}

	if (enough_memory && n > 0)
	{
		if (!collect(partial, batch, &plan->phases[CPU_FILL], &plan->layouts[layout][CPU_FILL],
					 values))
			collect_fit(partial, batch, plan->layout_sources[layout], values);
		for (int i = 0; i < program->ninputs && !is_cancelled(partial); i++)
		{
			unsigned cls = GPUSCAN_REG_CLASSES(program)[GPUSCAN_INPUTS(program)[i].reg];

			fill->unfit[i] |= (values[i].any & GPUSCAN_ERROR) != 0;
			if (!fill->unfit[i])
				fill->chunks[i] = gpuscan_columns_encode(
					(GpuScanClass) cls, values[i].values,
					values[i].any != 0 ? values[i].flags : NULL, n, fill->dictionaries[i]);
		}
	}
	for (int i = 0; values != NULL && i < program->ninputs; i++)
	{
		free(values[i].values);
		free(values[i].flags);
	}
	free(values);
	partial->tuples.n = 0;
}
