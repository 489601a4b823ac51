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
 * A bin is a chain of blocks, each for as many records as a chunk has tuples.  A record is
 * all that is kept of a tuple: so each tuple goes to one line of the cache, which is asked for
 * when the one before it is written, and not to one for each register.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* Of all bins of a request, in bytes: so that each group has some tuples there */
#define MEMORY_OF_BINS (UINT64_C(128) * 1024 * 1024)

/* Of the request's limit, what they may take */
#define MEMORY_SHARE 8

/* Behind each block, so that the lines that bins are written to lie in all sets of a cache */
#define BLOCK_GAP 64

/* How far ahead of a record the line is that will be written soon */
#define AHEAD 128

/* A register that aggregates read, and where records have its value and its flags */
typedef struct Column
{
	uint16_t reg;
	uint8_t size;
	bool flagged; /* flags are kept: not all of them are clear */
	uint32_t value;
	uint32_t flags;
} Column;

/* Where the next record of a bin goes */
typedef struct End
{
	uint32_t word;
	uint32_t room; /* records that still go into the block */
	uint32_t block;
} End;

struct CpuBins
{
	uint32_t nbins;
	uint32_t shift;
	uint32_t record; /* its size in words */
	uint32_t number; /* where it has the number */
	uint32_t nblocks;
	uint32_t nused;		  /* blocks; the first one of bin i is block i */
	uint32_t *next_block; /* in the chain */
	End *ends;
	char *memory;
	size_t size;
	uint16_t ncolumns;
	Column columns[];
};

/* 128 bits, at any word */
typedef struct Wide
{
	uint64_t words[2];
} Wide;

static size_t
block_size(const CpuBins *bins)
{
	return (size_t) CPU_CHUNK * bins->record * sizeof(uint64_t) + BLOCK_GAP;
}

/* Finds out which registers aggregates read, and lays out the record. */
static void
list_columns(CpuBins *bins, const GpuScanProgram *program)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	const uint8_t *classes = GPUSCAN_REG_CLASSES(program);
	uint32_t at = 0;

	for (uint16_t reg = 0; reg < program->nregs; reg++)
	{
		bool read = false;

		for (int i = 0; i < program->naggs; i++)
			read |= aggs[i].arg == reg || aggs[i].filter == reg;
		if (read)
			bins->columns[bins->ncolumns++] =
				(Column){.reg = reg, .size = gpuscan_columns_value_size[classes[reg]]};
	}
	for (uint32_t size = sizeof(Wide); size > 0; size /= 2)
	{
		if (size == sizeof(uint32_t))
		{
			bins->number = at;
			at += size;
		}
		for (int i = 0; i < bins->ncolumns; i++)
		{
			if (bins->columns[i].size == size)
			{
				bins->columns[i].value = at;
				at += size;
			}
		}
	}
	for (int i = 0; i < bins->ncolumns; i++)
		bins->columns[i].flags = at++;
	bins->record = (at + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

static void
begin_block(CpuBins *bins, uint32_t bin, uint32_t block)
{
	bins->ends[bin] =
		(End){(uint32_t) (block * block_size(bins) / sizeof(uint64_t)), CPU_CHUNK, block};
}

static void
empty(CpuBins *bins)
{
	bins->nused = bins->nbins;
	for (uint32_t i = 0; i < bins->nbins; i++)
		begin_block(bins, i, i);
}

static bool
create_arrays(CpuBins *bins, CpuMemory *memory)
{
	bins->next_block = malloc(bins->nblocks * sizeof(uint32_t));
	bins->ends = malloc(bins->nbins * sizeof(End));
	if (bins->next_block == NULL || bins->ends == NULL)
		return false;
	bins->size = bins->nblocks * block_size(bins);
	bins->memory = gpuscan_cpu_alloc(memory, bins->size);
	return bins->memory != NULL;
}

/* Without memory for bins there are none. */
void
gpuscan_cpu_bins_create(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanProgram *program = plan->program;
	uint64_t available = partial->memory->limit / MEMORY_SHARE;
	CpuBins *bins;

	if (plan->nbins == 0)
		return;
	partial->bins = bins = calloc(1, sizeof(CpuBins) + program->nregs * sizeof(Column));
	if (bins == NULL)
		return;
	list_columns(bins, program);
	if (available > MEMORY_OF_BINS)
		available = MEMORY_OF_BINS;
	bins->nbins = plan->nbins;
	bins->shift = plan->bin_shift;
	bins->nblocks = (uint32_t) (available / plan->threads / block_size(bins));

	/* one that is being filled for each bin, and as many that are full */
	if (bins->nblocks < 2 * bins->nbins || !create_arrays(bins, partial->memory))
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
	free(bins->ends);
	free(bins);
	partial->bins = NULL;
}

/* Finds a place in its bin for each tuple of the chunk, and writes its number there. */
static void
find_places(CpuBins *bins, const uint32_t *restrict numbers, uint32_t n, uint32_t *restrict places)
{
	End *restrict ends = bins->ends;
	uint64_t *memory = (uint64_t *) bins->memory;
	uint32_t shift = bins->shift;
	uint32_t record = bins->record;
	uint32_t at = bins->number;

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t bin = numbers[i] >> shift;
		End *end = &ends[bin];
		char *to = (char *) (memory + end->word);

		places[i] = end->word;
		*(uint32_t *) (to + at) = numbers[i];
		__builtin_prefetch(to + AHEAD, 1);
		end->word += record;
		if (--end->room == 0)
		{
			bins->next_block[end->block] = bins->nused;
			begin_block(bins, bin, bins->nused++);
		}
	}
}

/* Writes something of each tuple of the chunk to its record. */
#define SCATTER(T, source, at)                                                                     \
	do                                                                                             \
	{                                                                                              \
		char *restrict to = bins->memory + (at);                                                   \
		const T *restrict from = (source);                                                         \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
			*(T *) (to + places[i] * sizeof(uint64_t)) = from[i];                                  \
	} while (0)

static void
scatter(CpuBins *bins, Column *column, const CpuRegister *reg, const uint32_t *restrict places,
		uint32_t n)
{
	switch (column->size)
	{
		case 1:
			SCATTER(uint8_t, reg->values, column->value);
			break;
		case 4:
			SCATTER(uint32_t, reg->values, column->value);
			break;
		case 8:
			SCATTER(uint64_t, reg->values, column->value);
			break;
		default:
			SCATTER(Wide, reg->values, column->value);
			break;
	}
	if (!reg->clean && !column->flagged)
	{
		/* those of the records that there are; of any that are there later, they are written */
		for (uint32_t block = 0; block < bins->nused; block++)
		{
			char *flags = bins->memory + block * block_size(bins) + column->flags;

			for (uint32_t i = 0; i < CPU_CHUNK; i++)
				flags[i * bins->record * sizeof(uint64_t)] = 0;
		}
		column->flagged = true;
	}
	if (column->flagged)
		SCATTER(uint8_t, reg->flags, column->flags);
}

GpuScanCode
gpuscan_cpu_bins_add(CpuPartial *partial)
{
	CpuBins *bins = partial->bins;
	uint32_t n = partial->tuples.n;
	uint32_t places[CPU_CHUNK];

	partial->tuples_seen -= n;
	find_places(bins, partial->numbers, n, places);
	for (int i = 0; i < bins->ncolumns; i++)
		scatter(bins, &bins->columns[i], &partial->registers[bins->columns[i].reg], places, n);

	/* the next chunk may end a block of each bin */
	return bins->nblocks - bins->nused < bins->nbins ? gpuscan_cpu_bins_empty(partial) : GPUSCAN_OK;
}

/* Reads something of each record of a block. */
#define COLLECT(T, target, at)                                                                     \
	do                                                                                             \
	{                                                                                              \
		const char *restrict from = records + (at);                                                \
		T *restrict to = (target);                                                                 \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
			to[i] = *(const T *) (from + i * size);                                                \
	} while (0)

static void
collect(const Column *column, const char *records, size_t size, uint32_t n, CpuRegister *reg)
{
	switch (column->size)
	{
		case 1:
			COLLECT(uint8_t, reg->values, column->value);
			break;
		case 4:
			COLLECT(uint32_t, reg->values, column->value);
			break;
		case 8:
			COLLECT(uint64_t, reg->values, column->value);
			break;
		default:
			COLLECT(Wide, reg->values, column->value);
			break;
	}
	if (column->flagged)
		COLLECT(uint8_t, reg->own, column->flags);
	cpu_set_flags(reg, column->flagged);
}

/* Aggregates the first n tuples of a block. */
static GpuScanCode
run_block(CpuPartial *partial, uint32_t block, uint32_t n)
{
	const CpuBins *bins = partial->bins;
	const char *records = bins->memory + block * block_size(bins);
	size_t size = bins->record * sizeof(uint64_t);

	if (atomic_load_explicit(partial->cancel, memory_order_relaxed))
		return GPUSCAN_CANCELLED;
	partial->tuples_seen += n;
	COLLECT(uint32_t, partial->numbers, bins->number);
	if (!gpuscan_cpu_index_find_numbers(partial, partial->numbers, n))
		return GPUSCAN_OUT_OF_MEMORY;
	for (int i = 0; i < bins->ncolumns; i++)
		collect(&bins->columns[i], records, size, n, &partial->registers[bins->columns[i].reg]);
	return gpuscan_cpu_advance(partial->plan->program, partial->registers, n, partial->rows,
							   partial->numbers, NULL, partial->sets, partial->pairs);
}

GpuScanCode
gpuscan_cpu_bins_empty(CpuPartial *partial)
{
	CpuBins *bins = partial->bins;
	GpuScanCode code = GPUSCAN_OK;

	for (uint32_t i = 0; bins != NULL && code == GPUSCAN_OK && i < bins->nbins; i++)
	{
		const End *end = &bins->ends[i];

		for (uint32_t block = i; code == GPUSCAN_OK && block != end->block;
			 block = bins->next_block[block])
			code = run_block(partial, block, CPU_CHUNK);
		if (code == GPUSCAN_OK && end->room < CPU_CHUNK)
			code = run_block(partial, end->block, CPU_CHUNK - end->room);
	}
	if (bins != NULL)
		empty(bins);
	return code;
}
