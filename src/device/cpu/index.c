/*-------------------------------------------------------------------------
 *
 * index.c
 *	  Finding groups by number, without hashing.
 *
 * Where cached ranges say that all keys are among few integers, or codes of one
 * dictionary, the keys of a tuple are one number, and an array has the row of
 * each number.  It is nothing but a shortcut into the group table: a number's
 * first tuple goes through the table and leaves the row in the array.  So do all
 * tuples without a number: those of pages, which have no codes, or values that
 * no cached range has.
 *
 * The last number stands for tuples outside and never has a row.
 *
 * Where groups are many, each thread takes a part of them and looks at all cached
 * tuples: reading keys costs less than having a group in several tables, and merging
 * those.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* Numbers of which there are always few enough; beyond, so many for each tuple. */
#define FEW_NUMBERS 16384
#define MAX_NUMBERS (UINT64_C(1) << 24)
#define TUPLES_PER_NUMBER 4

/* Bits for pairs may take so many bytes for each tuple: less than an entry of a set. */
#define BYTES_PER_TUPLE 8

/* Every part looks at the keys of all tuples. */
#define MAX_PARTS 8

/* Groups whose numbers differ in no more than these last bits are of one part, so that
 * parts share no lines of arrays. */
#define PART_SHIFT 6

/* What a bin's groups take, so that they stay in the L2 cache, and how many bins there are,
 * of all of which a line is being written. */
#define BIN_BYTES ((uint64_t) 512 * 1024)
#define MIN_BINS 4
#define MAX_BINS 512

/* Of the request's limit, what an array or bits may take */
#define MEMORY_SHARE 8

/* Of all ranges of a segment, in `prepared` */
typedef struct CpuSegment
{
	uint64_t ntuples;
	struct
	{
		int64_t min; /* of integers; greater than max: there are none */
		int64_t max;
	} inputs[];
} CpuSegment;

bool
gpuscan_cpu_segment_prepare(GpuScanCachedSegment *segment, uint32_t ninputs)
{
	CpuSegment *prepared = malloc(sizeof(CpuSegment) + ninputs * sizeof(prepared->inputs[0]));

	if (prepared == NULL)
		return false;
	prepared->ntuples = 0;
	for (uint32_t i = 0; i < ninputs; i++)
	{
		prepared->inputs[i].min = INT64_MAX;
		prepared->inputs[i].max = INT64_MIN;
	}
	for (uint32_t r = 0; r < segment->nranges; r++)
	{
		const GpuScanCachedRange *range = &segment->ranges[r];

		for (uint32_t k = 0; k < range->nruns; k++)
			prepared->ntuples += range->runs[k].n;
		for (uint32_t i = 0; i < ninputs; i++)
		{
			const GpuScanChunk *chunk = range->chunks[i];

			if (!chunk->has_summary)
				continue;
			if ((int64_t) chunk->min[0] < prepared->inputs[i].min)
				prepared->inputs[i].min = (int64_t) chunk->min[0];
			if ((int64_t) chunk->max[0] > prepared->inputs[i].max)
				prepared->inputs[i].max = (int64_t) chunk->max[0];
		}
	}
	segment->prepared = prepared;
	return true;
}

void
gpuscan_cpu_segment_forget(GpuScanDevice *device, GpuScanCachedSegment *segment)
{
	(void) device;
	free(segment->prepared);
	segment->prepared = NULL;
}

/* The codes that the segments have, if they share a dictionary */
static CpuDomain
code_domain(GpuScanCachedSegment *const *segments, uint32_t nsegments, uint16_t input)
{
	CpuDomain domain = {.dictionary = segments[0]->ranges[0].dictionaries[input]};

	for (uint32_t s = 1; s < nsegments; s++)
	{
		if (segments[s]->ranges[0].dictionaries[input] != domain.dictionary)
			return (CpuDomain){0};
	}
	if (domain.dictionary != NULL)
		domain.size = gpuscan_dictionary_count(domain.dictionary);
	return domain;
}

/* The integers from the least to the greatest that the segments have */
static CpuDomain
value_domain(GpuScanCachedSegment *const *segments, uint32_t nsegments, uint16_t input)
{
	int64_t min = INT64_MAX;
	int64_t max = INT64_MIN;

	for (uint32_t s = 0; s < nsegments; s++)
	{
		const CpuSegment *segment = segments[s]->prepared;

		if (segment->inputs[input].min < min)
			min = segment->inputs[input].min;
		if (segment->inputs[input].max > max)
			max = segment->inputs[input].max;
	}
	if (min > max || (uint64_t) max - (uint64_t) min >= MAX_NUMBERS)
		return (CpuDomain){0};
	return (CpuDomain){.first = (uint64_t) min, .size = (uint64_t) max - (uint64_t) min + 1};
}

/* What is known of a register; size 0: nothing, or it has too many values. */
static CpuDomain
register_domain(const CpuPlan *plan, GpuScanCachedSegment *const *segments, uint32_t nsegments,
				uint16_t reg)
{
	uint16_t input = plan->input_of_reg[reg];

	if (plan->program->ninputs == 0 || GPUSCAN_INPUTS(plan->program)[input].reg != reg)
		return (CpuDomain){0};
	switch (GPUSCAN_REG_CLASSES(plan->program)[reg])
	{
		case GPUSCAN_TEXT:
			return code_domain(segments, nsegments, input);
		case GPUSCAN_BOOL:
		case GPUSCAN_I32:
		case GPUSCAN_I64:
			return value_domain(segments, nsegments, input);
		default:
			return (CpuDomain){0};
	}
}

static bool
has_text_key(const GpuScanProgram *program)
{
	for (int k = 0; k < program->nkeys; k++)
	{
		if (GPUSCAN_KEYS(program)[k].cls == GPUSCAN_TEXT)
			return true;
	}
	return false;
}

static size_t
index_size(uint64_t numbers)
{
	return (numbers + 1) * sizeof(char *);
}

/* Bits for aggregates whose pairs are few; for texts, of which pages have no codes, there are none. */
static void
create_bits(CpuPlan *plan, GpuScanCachedSegment *const *segments, uint32_t nsegments,
			uint64_t ntuples, CpuMemory *memory)
{
	const GpuScanProgram *program = plan->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	CpuBits *bits = plan->bits;
	uint64_t ngroups = program->nkeys == 0 ? 1 : plan->nnumbers;

	if (has_text_key(program))
		return;
	for (int i = 0; ngroups > 0 && i < program->naggs; i++)
	{
		CpuDomain domain;
		uint64_t size;

		if (aggs[i].kind != GPUSCAN_AGG_COUNT_DISTINCT)
			continue;
		domain = register_domain(plan, segments, nsegments, aggs[i].arg);
		size = (ngroups * domain.size + 63) / 64 * sizeof(uint64_t);
		if (domain.dictionary == NULL && domain.size > 0 &&
			size <= FEW_NUMBERS + ntuples * BYTES_PER_TUPLE && size <= memory->limit / MEMORY_SHARE)
			*bits = (CpuBits){gpuscan_cpu_alloc(memory, size), size, ngroups, domain};
		bits++;
	}
}

/* Whether tuples are set apart by their groups before they are aggregated, bins.c */
static void
plan_bins(CpuPlan *plan)
{
	const GpuScanProgram *program = plan->program;
	const uint8_t *classes = GPUSCAN_REG_CLASSES(program);
	uint64_t group_size = program->row_size + sizeof(char *);
	uint64_t size;

	for (int d = 0; plan->nnumbers > 0 && d < plan->ndistinct; d++)
		group_size += plan->bits[d].size / plan->nnumbers;
	size = plan->nnumbers * group_size / plan->nparts;
	for (int i = 0; i < plan->nlast; i++)
	{
		/* they refer to what is overwritten */
		if (classes[plan->last[i]] == GPUSCAN_TEXT)
			return;
	}
	/* a few groups of many numbers are in the cache anyway */
	if (size < MIN_BINS * BIN_BYTES ||
		(plan->groups_expected > 0 &&
		 plan->groups_expected * group_size / plan->nparts < MIN_BINS * BIN_BYTES))
		return;
	while (plan->nnumbers >> plan->bin_shift >= MAX_BINS ||
		   size / ((plan->nnumbers >> plan->bin_shift) + 1) < BIN_BYTES)
		plan->bin_shift++;
	plan->nbins = (uint32_t) (plan->nnumbers >> plan->bin_shift) + 1;
}

void
gpuscan_cpu_plan_numbers(CpuPlan *plan, GpuScanCachedSegment *const *segments, uint32_t nsegments,
						 CpuMemory *memory)
{
	const GpuScanProgram *program = plan->program;
	const GpuScanKey *key = GPUSCAN_KEYS(program);
	uint64_t numbers = program->nkeys > 0 && plan->pass.mask == 0;
	uint64_t expected = plan->tuples_expected * plan->threads;
	uint64_t ntuples = 0;

	for (uint32_t i = 0; i < nsegments; i++)
		ntuples += ((const CpuSegment *) segments[i]->prepared)->ntuples;

	/* others may follow */
	ntuples = expected > ntuples ? expected : ntuples;
	for (int k = 0; numbers > 0 && k < program->nkeys; k++)
	{
		CpuDomain domain = register_domain(plan, segments, nsegments, key[k].reg);

		plan->domains[k] = domain;
		numbers *= domain.size > 0 ? domain.size + 1 : 0;
		if (numbers > MAX_NUMBERS)
			numbers = 0;
	}
	if ((numbers <= FEW_NUMBERS || numbers <= ntuples / TUPLES_PER_NUMBER / plan->threads) &&
		index_size(numbers) * plan->threads <= memory->limit / MEMORY_SHARE)
		plan->nnumbers = numbers;
	if (plan->nnumbers > FEW_NUMBERS && !has_text_key(program) &&
		program->filter == GPUSCAN_NO_REGISTER && plan->threads <= MAX_PARTS)
		plan->nparts = plan->threads;
	create_bits(plan, segments, nsegments, ntuples, memory);
	plan_bins(plan);
}

void
gpuscan_cpu_plan_free_bits(CpuPlan *plan, CpuMemory *memory)
{
	for (int d = 0; plan != NULL && d < plan->ndistinct; d++)
	{
		gpuscan_cpu_free(memory, plan->bits[d].words, plan->bits[d].size);
		plan->bits[d].words = NULL;
	}
}

static void
free_registers(CpuPartial *partial)
{
	for (int k = 0; partial->new_keys != NULL && k < partial->plan->program->nkeys; k++)
	{
		free(partial->new_keys[k].values);
		free(partial->new_keys[k].own);
	}
	free(partial->new_keys);
	partial->new_keys = NULL;
}

bool
gpuscan_cpu_index_create(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;

	if (plan->nnumbers == 0)
		return true;
	partial->new_keys = calloc(plan->program->nkeys, sizeof(CpuRegister));
	for (int k = 0; partial->new_keys != NULL && k < plan->program->nkeys; k++)
	{
		partial->new_keys[k].values = aligned_alloc(64, CPU_CHUNK * 16);
		partial->new_keys[k].own = malloc(CPU_CHUNK);
		if (partial->new_keys[k].values == NULL || partial->new_keys[k].own == NULL)
			return false;
	}
	if (partial->new_keys == NULL)
		return false;
	partial->index = gpuscan_cpu_alloc(partial->memory, index_size(plan->nnumbers));
	return partial->index != NULL;
}

void
gpuscan_cpu_index_free(CpuPartial *partial)
{
	gpuscan_cpu_free(partial->memory, partial->index, index_size(partial->plan->nnumbers));
	partial->index = NULL;
	free_registers(partial);
}

/* True if key k is a text whose codes in the current range are numbers. */
static bool
key_is_coded(const CpuPartial *partial, int k)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanCachedRange *range = partial->cached;
	uint16_t input = plan->input_of_reg[GPUSCAN_KEYS(plan->program)[k].reg];

	return range != NULL && range->chunks[input]->encoding == GPUSCAN_ENCODING_CODES &&
		   range->dictionaries[input] == plan->domains[k].dictionary;
}

bool
gpuscan_cpu_index_applies(const CpuPartial *partial)
{
	const GpuScanKey *key = GPUSCAN_KEYS(partial->plan->program);

	for (int k = 0; partial->index != NULL && k < partial->plan->program->nkeys; k++)
	{
		if (key[k].cls == GPUSCAN_TEXT && !key_is_coded(partial, k))
			return false;
	}
	return partial->index != NULL;
}

/* Moves the number of a tuple's keys on by one key: value d of `size` values, or NULL. */
#define ADD_DIGITS(T, digit)                                                                       \
	do                                                                                             \
	{                                                                                              \
		const T *values = from;                                                                    \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
		{                                                                                          \
			uint64_t d = (uint64_t) (digit) -first;                                                \
                                                                                                   \
			outside[i] |= d >= size;                                                               \
			numbers[i] = numbers[i] * ((uint32_t) size + 1) + (uint32_t) d;                        \
		}                                                                                          \
	} while (0)

CLONES static void
add_digits(unsigned cls, CpuDomain domain, const void *from, uint32_t n, uint32_t *restrict numbers,
		   uint8_t *restrict outside)
{
	uint64_t first = domain.first;
	uint64_t size = domain.size;

	switch (cls)
	{
		case GPUSCAN_BOOL:
			ADD_DIGITS(uint8_t, values[i] != 0);
			break;
		case GPUSCAN_I32:
			ADD_DIGITS(int32_t, (int64_t) values[i]);
			break;
		case GPUSCAN_I64:
			ADD_DIGITS(int64_t, values[i]);
			break;
		default:
			ADD_DIGITS(uint32_t, values[i]);
			break;
	}
}

/* The codes and flags of the chunk's tuples */
static void
read_codes(const CpuPartial *partial, uint16_t input, uint32_t n, uint32_t *codes, CpuRegister *reg)
{
	const GpuScanChunk *chunk = partial->cached->chunks[input];
	uint8_t any = 0;

	if (partial->dense)
	{
		gpuscan_columns_codes(chunk, partial->first, n, codes);
		any = gpuscan_columns_flags(chunk, partial->first, n, reg->own);
	}
	else
	{
		for (uint32_t i = 0; i < n; i++)
			codes[i] = gs_chunk_code(chunk, partial->picked[i]);
		for (uint32_t i = 0; chunk->nnulls > 0 && i < n; i++)
			any |= reg->own[i] = gs_chunk_flags(chunk, partial->picked[i]);
	}
	cpu_set_flags(reg, any);
}

/*
 * The numbers of the chunk's keys.  Those outside have one too, which others may
 * share.  False if a key is an error.
 */
static bool
number_keys(CpuPartial *partial, uint32_t n, uint32_t *numbers, uint8_t *outside)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanKey *key = GPUSCAN_KEYS(plan->program);
	uint32_t before[CPU_CHUNK];
	uint8_t outside_before[CPU_CHUNK];
	uint32_t codes[CPU_CHUNK];

	memset(numbers, 0, n * sizeof(uint32_t));
	memset(outside, 0, n);
	for (int k = 0; k < plan->program->nkeys; k++)
	{
		CpuDomain domain = plan->domains[k];
		CpuRegister reg = partial->registers[key[k].reg];

		if (key[k].cls == GPUSCAN_TEXT)
		{
			reg.own = partial->new_keys[k].own;
			read_codes(partial, plan->input_of_reg[key[k].reg], n, codes, &reg);
			reg.values = codes;
		}
		if (!reg.clean)
		{
			memcpy(before, numbers, n * sizeof(uint32_t));
			memcpy(outside_before, outside, n);
		}
		add_digits(key[k].cls, domain, reg.values, n, numbers, outside);
		for (uint32_t i = 0; !reg.clean && i < n; i++)
		{
			if (reg.flags[i] == GPUSCAN_ERROR)
				return false;
			if (reg.flags[i] == GPUSCAN_NULL)
			{
				numbers[i] = before[i] * ((uint32_t) domain.size + 1) + (uint32_t) domain.size;
				outside[i] = outside_before[i];
			}
		}
	}
	return true;
}

/* Loads the keys of some of the chunk's tuples into registers of their own. */
static void
load_new_keys(CpuPartial *partial, const uint16_t *some, uint32_t n)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanKey *key = GPUSCAN_KEYS(plan->program);
	uint16_t rows[CPU_CHUNK];

	for (uint32_t i = 0; partial->cached != NULL && i < n; i++)
		rows[i] = partial->dense ? (uint16_t) (partial->first + some[i]) : partial->picked[some[i]];
	for (int k = 0; k < plan->program->nkeys; k++)
	{
		const CpuRegister *from = &partial->registers[key[k].reg];
		CpuRegister *to = &partial->new_keys[k];
		uint16_t input = plan->input_of_reg[key[k].reg];

		if (key[k].cls == GPUSCAN_TEXT)
			cpu_set_flags(to, gpuscan_columns_decode_rows(partial->cached->chunks[input],
														  partial->cached->dictionaries[input],
														  rows, n, to->values, to->own));
		else
			gpuscan_cpu_gather(to, from, key[k].cls, some, n);
	}
}

/* Gives those outside the last number; true if there are any. */
CLONES static bool
mark_outside(const uint8_t *restrict outside, uint32_t n, uint32_t last, uint32_t *restrict numbers)
{
	uint8_t any = 0;

	for (uint32_t i = 0; i < n; i++)
		any |= outside[i];
	for (uint32_t i = 0; any && i < n; i++)
		numbers[i] = outside[i] ? last : numbers[i];
	return any;
}

GpuScanCode
gpuscan_cpu_index_number(CpuPartial *partial)
{
	uint8_t outside[CPU_CHUNK];

	if (!number_keys(partial, partial->tuples.n, partial->numbers, outside))
		return GPUSCAN_LEFT_TO_POSTGRES;
	partial->any_outside = mark_outside(outside, partial->tuples.n,
										(uint32_t) partial->plan->nnumbers, partial->numbers);
	return GPUSCAN_OK;
}

/* Says of each number whether its group is the part's. */
CLONES static void
find_part(const uint32_t *restrict numbers, uint32_t n, uint32_t part, uint32_t nparts,
		  uint8_t *restrict ours)
{
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t hash = (numbers[i] >> PART_SHIFT) * UINT32_C(2654435761);

		ours[i] = (uint64_t) hash * nparts >> 32 == part;
	}
}

uint32_t
gpuscan_cpu_index_select(CpuPartial *partial, uint16_t *kept)
{
	uint32_t *numbers = partial->numbers;
	uint8_t outside[CPU_CHUNK];
	uint8_t ours[CPU_CHUNK];
	uint32_t n;

	/* cached values are no errors */
	(void) number_keys(partial, partial->tuples.n, numbers, outside);
	find_part(numbers, partial->tuples.n, partial->part, partial->plan->nparts, ours);
	partial->any_outside =
		mark_outside(outside, partial->tuples.n, (uint32_t) partial->plan->nnumbers, numbers);
	n = gpuscan_cpu_list(ours, partial->tuples.n, kept);
	for (uint32_t k = 0; k < n; k++)
		numbers[k] = numbers[kept[k]];
	return n;
}

/* Looks for the rows of numbers; lists those that have none, and returns how many. */
static uint32_t
look_up(CpuPartial *partial, const uint32_t *numbers, uint32_t n, uint16_t *missing)
{
	const CpuPlan *plan = partial->plan;
	char **index = partial->index;
	uint32_t nmissing = 0;
	bool all = true;

	if (plan->nnumbers > FEW_NUMBERS)
	{
		for (uint32_t i = 0; i < n; i++)
			__builtin_prefetch(&index[numbers[i]]);
	}
	for (uint32_t i = 0; i < n; i++)
	{
		partial->rows[i] = index[numbers[i]];
		all &= partial->rows[i] != NULL;
	}
	for (uint32_t i = 0; !all && i < n; i++)
	{
		missing[nmissing] = (uint16_t) i;
		nmissing += partial->rows[i] == NULL;
	}
	if (partial->groups.ngroups * plan->program->row_size > CPU_PREFETCH_BYTES)
	{
		for (uint32_t i = 0; i < n; i++)
			cpu_prefetch_row(partial->rows[i], plan->program->row_size);
	}
	return nmissing;
}

GpuScanCode
gpuscan_cpu_index_find(CpuPartial *partial)
{
	const CpuPlan *plan = partial->plan;
	const uint32_t *numbers = partial->numbers;
	char *found[CPU_CHUNK];
	uint16_t missing[CPU_CHUNK];
	uint32_t nmissing = look_up(partial, numbers, partial->tuples.n, missing);

	if (nmissing == 0)
		return GPUSCAN_OK;
	load_new_keys(partial, missing, nmissing);
	if (!gpuscan_cpu_keys_load(&partial->keys, plan->program, partial->new_keys, nmissing))
		return GPUSCAN_LEFT_TO_POSTGRES;
	if (!gpuscan_cpu_groups_find(&partial->groups, &partial->keys, found))
		return GPUSCAN_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < nmissing; i++)
	{
		partial->rows[missing[i]] = found[i];
		if (numbers[missing[i]] < plan->nnumbers)
			partial->index[numbers[missing[i]]] = found[i];
	}
	return GPUSCAN_OK;
}

/* Makes the keys of some of the numbers. */
static void
make_new_keys(CpuPartial *partial, const uint32_t *numbers, const uint16_t *some, uint32_t n)
{
	const CpuPlan *plan = partial->plan;
	const GpuScanKey *key = GPUSCAN_KEYS(plan->program);
	uint32_t left[CPU_CHUNK];

	for (uint32_t i = 0; i < n; i++)
		left[i] = numbers[some[i]];
	for (int k = plan->program->nkeys - 1; k >= 0; k--)
	{
		CpuRegister *reg = &partial->new_keys[k];
		uint32_t size = (uint32_t) plan->domains[k].size;
		uint8_t any = 0;

		for (uint32_t i = 0; i < n; i++)
		{
			uint32_t digit = left[i] % (size + 1);
			uint64_t value = plan->domains[k].first + digit;

			left[i] /= size + 1;
			any |= reg->own[i] = digit == size ? GPUSCAN_NULL : 0;
			if (key[k].cls == GPUSCAN_BOOL)
				((uint8_t *) reg->values)[i] = (uint8_t) value;
			else if (key[k].cls == GPUSCAN_I32)
				((int32_t *) reg->values)[i] = (int32_t) value;
			else
				((int64_t *) reg->values)[i] = (int64_t) value;
		}
		cpu_set_flags(reg, any);
	}
}

bool
gpuscan_cpu_index_find_numbers(CpuPartial *partial, const uint32_t *numbers, uint32_t n)
{
	uint16_t missing[CPU_CHUNK];
	uint32_t nmissing = look_up(partial, numbers, n, missing);

	if (nmissing == 0)
		return true;
	make_new_keys(partial, numbers, missing, nmissing);
	(void) gpuscan_cpu_keys_load(&partial->keys, partial->plan->program, partial->new_keys,
								 nmissing);
	for (uint32_t i = 0; i < nmissing; i++)
	{
		char **row = &partial->index[numbers[missing[i]]];

		/* unless the block has it twice */
		if (*row == NULL)
			*row = gpuscan_cpu_groups_add(&partial->groups, &partial->keys, i);
		if (*row == NULL)
			return false;
		partial->rows[missing[i]] = *row;
	}
	return true;
}
