/*-------------------------------------------------------------------------
 *
 * bins.c
 *	  Setting tuples of many groups apart before they are aggregated.
 *
 * A tuple of a million groups finds its row in no cache: the processor waits for
 * the lines of the row, of the array of rows, and of the bits of a
 * count(DISTINCT).  Where groups have numbers (index.c), what aggregates need of
 * a tuple, and its number, are therefore written to one of some hundred bins
 * first, each for a range of numbers whose rows fit into the cache of a core; and
 * when there is no more room, each bin is aggregated at a time.  Rows then come
 * into the cache once a bin instead of once a tuple.
 *
 * The bins are arrays, one for the numbers and one for the values of each register
 * that aggregates read, cut into blocks of a chunk's size.  A bin is a chain of
 * blocks, which registers can point into.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* Of all bins of a request, in bytes: so that each group has some tuples there */
#define MEMORY_OF_BINS (UINT64_C(128) * 1024 * 1024)

/* Of the request's limit, what they may take */
#define MEMORY_SHARE 8

/* A register that aggregates read */
typedef struct Column
{
	uint16_t reg;
	uint8_t size; /* of a value */
	bool flagged; /* its flags are kept: not all of them are clear */
	char *values;
	uint8_t *flags;
} Column;

struct CpuBins
{
	uint32_t nbins;
	uint32_t shift;
	uint32_t nblocks;
	uint32_t nused;		  /* blocks; the first one of bin i is block i */
	uint32_t *next_block; /* in the chain */
	uint32_t *end;		  /* of each bin: the place behind its last tuple */
	char *memory;
	size_t size;
	uint32_t *numbers;
	CpuRegister *registers; /* into blocks; those that no aggregate reads are not set */
	uint16_t ncolumns;
	Column columns[];
};

/* Finds out which registers aggregates read, and the bytes that a tuple takes. */
static size_t
list_columns(CpuBins *bins, const GpuScanProgram *program)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	const uint8_t *classes = GPUSCAN_REG_CLASSES(program);
	size_t size = sizeof(uint32_t);

	for (uint16_t reg = 0; reg < program->nregs; reg++)
	{
		bool read = false;

		for (int i = 0; i < program->naggs; i++)
			read |= aggs[i].arg == reg || aggs[i].filter == reg;
		if (!read)
			continue;
		bins->columns[bins->ncolumns++] =
			(Column){.reg = reg, .size = gpuscan_columns_value_size[classes[reg]]};
		size += gpuscan_columns_value_size[classes[reg]] + 1;
	}
	return size;
}

static void
empty(CpuBins *bins)
{
	bins->nused = bins->nbins;
	for (uint32_t i = 0; i < bins->nbins; i++)
		bins->end[i] = i * CPU_CHUNK;
}

static bool
create_arrays(CpuBins *bins, CpuMemory *memory, size_t tuple_size)
{
	size_t ntuples = (size_t) bins->nblocks * CPU_CHUNK;
	char *at;

	bins->next_block = malloc(bins->nblocks * sizeof(uint32_t));
	bins->end = malloc(bins->nbins * sizeof(uint32_t));
	if (bins->registers == NULL || bins->next_block == NULL || bins->end == NULL)
		return false;
	bins->size = ntuples * tuple_size;
	bins->memory = at = gpuscan_cpu_alloc(memory, bins->size);
	if (at == NULL)
		return false;
	bins->numbers = (uint32_t *) at;
	at += ntuples * sizeof(uint32_t);
	for (int i = 0; i < bins->ncolumns; i++)
	{
		bins->columns[i].values = at;
		at += ntuples * bins->columns[i].size;
		bins->columns[i].flags = (uint8_t *) at;
		at += ntuples;
	}
	return true;
}

/* Without memory for bins there are none. */
void
gpuscan_cpu_bins_create(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanProgram *program = plan->program;
	uint64_t available = partial->memory->limit / MEMORY_SHARE;
	CpuBins *bins;
	size_t tuple_size;

	if (plan->nbins == 0)
		return;
	partial->bins = bins = calloc(1, sizeof(CpuBins) + program->nregs * sizeof(Column));
	if (bins == NULL)
		return;
	tuple_size = list_columns(bins, program);
	if (available > MEMORY_OF_BINS)
		available = MEMORY_OF_BINS;
	bins->nbins = plan->nbins;
	bins->shift = plan->bin_shift;
	bins->nblocks = (uint32_t) (available / plan->threads / CPU_CHUNK / tuple_size);
	bins->registers = calloc((size_t) program->nregs + 1, sizeof(CpuRegister));

	/* one that is being filled for each bin, and as many that are full */
	if (bins->nblocks < 2 * bins->nbins || !create_arrays(bins, partial->memory, tuple_size))
	{
		gpuscan_cpu_bins_free(partial);
		return;
	}
	empty(bins);
}

void
gpuscan_cpu_bins_free(CpuPartial *partial)
{
	CpuBins *bins = partial->bins;

	if (bins == NULL)
		return;
	gpuscan_cpu_free(partial->memory, bins->memory, bins->size);
	free(bins->next_block);
	free(bins->end);
	free(bins->registers);
	free(bins);
	partial->bins = NULL;
}

/* Finds a place in its bin for each tuple of the chunk. */
static void
find_places(CpuBins *bins, const uint32_t *restrict numbers, uint32_t n, uint32_t *restrict places)
{
	uint32_t *restrict end = bins->end;
	uint32_t *restrict to = bins->numbers;
	uint32_t shift = bins->shift;

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t bin = numbers[i] >> shift;
		uint32_t place = end[bin]++;

		places[i] = place;
		to[place] = numbers[i];
		if ((place + 1) % CPU_CHUNK == 0)
		{
			bins->next_block[place / CPU_CHUNK] = bins->nused;
			end[bin] = bins->nused++ * CPU_CHUNK;
		}
	}
}

#define SCATTER(T)                                                                                 \
	do                                                                                             \
	{                                                                                              \
		T *restrict to = (T *) column->values;                                                     \
		const T *restrict from = reg->values;                                                      \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
			to[places[i]] = from[i];                                                               \
	} while (0)

static void
scatter(CpuBins *bins, Column *column, const CpuRegister *reg, const uint32_t *places, uint32_t n)
{
	switch (column->size)
	{
		case 1:
			SCATTER(uint8_t);
			break;
		case 4:
			SCATTER(uint32_t);
			break;
		case 8:
			SCATTER(uint64_t);
			break;
		default:
			SCATTER(gs_i128);
			break;
	}
	if (!reg->clean && !column->flagged)
	{
		memset(column->flags, 0, (size_t) bins->nblocks * CPU_CHUNK);
		column->flagged = true;
	}
	if (column->flagged)
	{
		uint8_t *restrict to = column->flags;
		const uint8_t *restrict from = reg->flags;

		for (uint32_t i = 0; i < n; i++)
			to[places[i]] = from[i];
	}
}

GpuScanCode
gpuscan_cpu_bins_add(CpuPartial *partial)
{
	CpuBins *bins = partial->bins;
	uint32_t n = partial->tuples.n;
	uint32_t places[CPU_CHUNK];

	/* each tuple of the chunk may be the last of its block */
	if (bins->nblocks - bins->nused < (n < bins->nbins ? n : bins->nbins))
	{
		GpuScanCode code = gpuscan_cpu_bins_empty(partial);

		if (code != GPUSCAN_OK)
			return code;
	}
	partial->tuples_seen -= n;
	find_places(bins, partial->numbers, n, places);
	for (int i = 0; i < bins->ncolumns; i++)
		scatter(bins, &bins->columns[i], &partial->registers[bins->columns[i].reg], places, n);
	return GPUSCAN_OK;
}

/* Aggregates the first n tuples of a block. */
static GpuScanCode
run_block(CpuPartial *partial, uint32_t block, uint32_t n)
{
	CpuBins *bins = partial->bins;
	size_t first = (size_t) block * CPU_CHUNK;

	if (atomic_load_explicit(partial->cancel, memory_order_relaxed))
		return GPUSCAN_CANCELLED;
	partial->tuples_seen += n;
	if (!gpuscan_cpu_index_find_numbers(partial, bins->numbers + first, n))
		return GPUSCAN_OUT_OF_MEMORY;
	for (int i = 0; i < bins->ncolumns; i++)
	{
		const Column *column = &bins->columns[i];
		CpuRegister *reg = &bins->registers[column->reg];

		reg->values = column->values + first * column->size;
		reg->own = column->flags + first;
		cpu_set_flags(reg, column->flagged);
	}
	return gpuscan_cpu_advance(partial->plan->program, bins->registers, n, partial->rows,
							   bins->numbers + first, NULL, partial->sets, partial->pairs);
}

GpuScanCode
gpuscan_cpu_bins_empty(CpuPartial *partial)
{
	CpuBins *bins = partial->bins;
	GpuScanCode code = GPUSCAN_OK;

	for (uint32_t i = 0; bins != NULL && code == GPUSCAN_OK && i < bins->nbins; i++)
	{
		uint32_t last = bins->end[i] / CPU_CHUNK;

		for (uint32_t block = i; code == GPUSCAN_OK && block != last;
			 block = bins->next_block[block])
			code = run_block(partial, block, CPU_CHUNK);
		if (code == GPUSCAN_OK && bins->end[i] % CPU_CHUNK > 0)
			code = run_block(partial, last, bins->end[i] % CPU_CHUNK);
	}
	if (bins != NULL)
		empty(bins);
	return code;
}
