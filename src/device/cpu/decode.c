/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  From heap tuples to registers.
 *
 * Most tuples have no NULLs and all attributes that are needed.  In them the
 * leading attributes of fixed length lie at constant offsets and are gathered
 * column by column, straight from the page.  Whatever comes behind the first
 * attribute of variable length is located first, tuple by tuple, by a walk
 * like heap_deform_tuple's; odd tuples are walked from their first attribute.
 *
 * A page is read while it may change, and may be corrupted.  Every length is
 * read once, into a local variable, and compared with the bytes that there
 * are before it is used; a change afterwards can give wrong values, for a
 * request that is being ended, but no access out of bounds.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include "program/heap_format.h"

#define LINE_SIZE 64
#define PREFETCH_MIN_TUPLES 24

/* Where tuple i of a block is said to be; false if nowhere. */
static inline bool
read_pointer(const GpuScanBlock *block, uint32_t i, uint32_t *offset, uint32_t *len)
{
	if (block->staged == NULL)
	{
		uint32_t number = block->offsets != NULL ? block->offsets[i] : i + 1;
		uint32_t pointer = GPUSCAN_PAGE_HEADER_SIZE + (number - 1) * 4;
		uint32_t lp;

		if (number == 0 || pointer + 4 > block->size)
			return false;
		lp = bytes_load_u32(block->base + pointer);
		*offset = GPUSCAN_LP_OFF(lp);
		*len = GPUSCAN_LP_LEN(lp);
		return GPUSCAN_LP_FLAGS(lp) == GPUSCAN_LP_NORMAL;
	}
	*offset = block->staged[i].offset;
	*len = block->staged[i].len;
	return true;
}

/* Adds tuple i; false if it is malformed. */
static inline bool
add_tuple(CpuTuples *tuples, const GpuScanBlock *block, uint32_t i)
{
	const char *tuple;
	uint32_t offset;
	uint32_t len;
	uint32_t natts;
	uint32_t hoff;
	uint32_t nulls;

	if (!read_pointer(block, i, &offset, &len) || len < GPUSCAN_TUPLE_HEADER_SIZE ||
		len > block->size || offset > block->size - len || offset % 8 != 0)
		return false;
	tuple = block->base + offset;
	natts = bytes_load_u16(tuple + GPUSCAN_TUPLE_INFOMASK2) & GPUSCAN_TUPLE_NATTS_MASK;
	nulls = bytes_load_u16(tuple + GPUSCAN_TUPLE_INFOMASK) & GPUSCAN_TUPLE_HASNULL ? (natts + 7) / 8
																				   : 0;
	hoff = (uint8_t) tuple[GPUSCAN_TUPLE_HOFF];
	if (hoff < GPUSCAN_TUPLE_HEADER_SIZE + nulls || hoff > len || hoff % 8 != 0)
		return false;

	tuples->data[tuples->n] = tuple + hoff;
	tuples->info[tuples->n] =
		(CpuTupleInfo){len - hoff, (uint16_t) natts, (uint8_t) hoff, nulls > 0};
	tuples->outcome[tuples->n] = &block->outcome[i];
	tuples->n++;
	return true;
}

/*
 * Pages lie anywhere in memory, and their tuples are read backwards: the
 * processor does not guess what comes.  So each tuple pays for some lines of the
 * next page, if enough tuples there are wanted.
 */
static inline void
prefetch_lines(const GpuScanBlock *next, uint32_t first, uint32_t n)
{
	for (uint32_t line = first; line < first + n && line * LINE_SIZE < next->size; line++)
		__builtin_prefetch(next->base + line * LINE_SIZE, 0, 2);
}

uint32_t
gpuscan_cpu_add_tuples(CpuTuples *tuples, const GpuScanBlock *block, uint32_t i,
					   const GpuScanBlock *next)
{
	uint32_t lines = 0;

	if (next != NULL && next->staged == NULL && next->ntuples >= PREFETCH_MIN_TUPLES)
		lines = next->size / LINE_SIZE / block->ntuples + 1;
	while (i < block->ntuples && tuples->n < CPU_CHUNK)
	{
		if (lines > 0)
			prefetch_lines(next, i * lines, lines);
		if (!add_tuple(tuples, block, i))
			break;
		i++;
	}
	return i;
}

CpuVarlena
gpuscan_cpu_varlena(const char *p, uint32_t size, GsText *payload, uint32_t *total)
{
	uint8_t first;

	if (size < 1)
		return CPU_VARLENA_MALFORMED;
	first = (uint8_t) *p;
	if (GPUSCAN_VARLENA_IS_EXTERNAL(first))
	{
		*total = GPUSCAN_VARLENA_ONDISK_SIZE;
		if (size < *total || (uint8_t) p[1] != GPUSCAN_VARTAG_ONDISK)
			return CPU_VARLENA_MALFORMED;
		return CPU_VARLENA_TOASTED;
	}
	if (GPUSCAN_VARLENA_IS_1B(first))
	{
		*total = GPUSCAN_VARLENA_1B_SIZE(first);
		if (*total > size)
			return CPU_VARLENA_MALFORMED;
		*payload = (GsText){p + 1, *total - 1};
		return CPU_VARLENA_PLAIN;
	}
	else
	{
		uint32_t word;

		if (size < 4)
			return CPU_VARLENA_MALFORMED;
		word = bytes_load_u32(p);
		*total = GPUSCAN_VARLENA_4B_SIZE(word);
		if ((word & 1) != 0 || *total < 4 || *total > size)
			return CPU_VARLENA_MALFORMED;
		if (GPUSCAN_VARLENA_4B_IS_COMPRESSED(word))
			return CPU_VARLENA_TOASTED;
		*payload = (GsText){p + 4, *total - 4};
		return CPU_VARLENA_PLAIN;
	}
}

/*
 * Reads the attribute at *offset, or behind the padding there, and moves
 * *offset behind it.  Returns the fault.
 */
static inline uint8_t
next_value(const GpuScanAttr *attr, const char *data, uint32_t size, uint32_t *offset,
		   GsText *value)
{
	uint32_t at = *offset;
	uint32_t total;
	uint8_t fault = 0;

	/* att_align_pointer: a byte that is not zero is no padding before a varlena */
	if (attr->len != -1 || at >= size || data[at] == 0)
		at = (at + attr->align - 1) & ~((uint32_t) attr->align - 1);
	if (at >= size)
		return GPUSCAN_TUPLE_RECHECK;

	*value = (GsText){data + at, 0};
	if (attr->len == -1)
	{
		CpuVarlena kind = gpuscan_cpu_varlena(data + at, size - at, value, &total);

		if (kind == CPU_VARLENA_MALFORMED)
			return GPUSCAN_TUPLE_RECHECK;
		if (kind == CPU_VARLENA_TOASTED)
			fault = GPUSCAN_TUPLE_DEFERRED;
	}
	else
	{
		total = attr->len > 0 ? (uint32_t) attr->len : (uint32_t) strnlen(data + at, size - at) + 1;
		if (total > size - at)
			return GPUSCAN_TUPLE_RECHECK;
		value->len = total;
	}
	*offset = at + total;
	return fault;
}

/* Walks odd tuple i from its first attribute to the last that is needed. */
static void
walk_tuple(const CpuDecode *decode, CpuTuples *tuples, uint32_t i)
{
	const char *data = tuples->data[i];
	const CpuTupleInfo *info = &tuples->info[i];
	const uint8_t *nulls = (const uint8_t *) data - info->hoff + GPUSCAN_TUPLE_HEADER_SIZE;
	uint32_t offset = 0;

	tuples->fault[i] = 0;
	for (uint32_t att = 0; att < decode->natts; att++)
	{
		int16_t fetch = decode->fetch_of_att[att];
		GsText value = {NULL, 0};
		uint8_t fault = 0;

		if (att >= info->natts)
			value = fetch < 0 ? value : decode->fetches[fetch].missing;
		else if (!info->has_null || (nulls[att >> 3] & (1 << (att & 7))) != 0)
			fault = next_value(&decode->attrs[att], data, info->size, &offset, &value);

		if (fault == GPUSCAN_TUPLE_RECHECK || (fault != 0 && fetch >= 0))
			tuples->fault[i] = fault;
		if (fault == GPUSCAN_TUPLE_RECHECK)
			return;
		if (fetch >= 0)
			tuples->located[(size_t) fetch * CPU_CHUNK + i] = value;
	}
}

/*
 * Walks the other tuples over one attribute, from at[i] on; a tuple that is
 * to be passed over has NOWHERE there.  Returns the union of the faults.
 */
#define NOWHERE UINT32_MAX

static uint8_t
walk_attribute(const CpuDecode *decode, CpuTuples *tuples, uint32_t att, uint32_t *at)
{
	const GpuScanAttr *attr = &decode->attrs[att];
	int16_t fetch = decode->fetch_of_att[att];
	GsText ignored;
	uint8_t faults = 0;

	for (uint32_t i = 0; i < tuples->n; i++)
	{
		const char *data = tuples->data[i];
		uint32_t size = tuples->info[i].size;
		GsText *value = fetch >= 0 ? &tuples->located[(size_t) fetch * CPU_CHUNK + i] : &ignored;
		uint8_t fault;

		if (at[i] == NOWHERE)
			continue;
		if (attr->len == -1 && at[i] < size)
		{
			/* in most cases a short varlena */
			uint8_t first = (uint8_t) data[at[i]];
			uint32_t total = GPUSCAN_VARLENA_1B_SIZE(first);

			if (GPUSCAN_VARLENA_IS_1B(first) && total > 0 && total <= size - at[i])
			{
				*value = (GsText){data + at[i] + 1, total - 1};
				at[i] += total;
				continue;
			}
		}
		fault = next_value(attr, data, size, &at[i], value);
		if (fault == GPUSCAN_TUPLE_RECHECK || (fault != 0 && fetch >= 0))
		{
			tuples->fault[i] = fault;
			at[i] = NOWHERE;
			faults |= fault;
		}
	}
	return faults;
}

static inline bool
is_odd(const CpuDecode *decode, const CpuTupleInfo *info)
{
	return (info->has_null != 0) | (info->natts < decode->natts) |
		   (info->size < decode->fixed_size);
}

/*
 * Locates what lies at no constant offset.  True if some tuple is odd: then
 * every value is to be taken from tuples->located.
 */
static bool
locate(const CpuDecode *decode, CpuTuples *tuples)
{
	uint32_t n = tuples->n;
	uint32_t nodd = 0;
	uint32_t at[CPU_CHUNK];
	uint8_t faults = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		bool odd = is_odd(decode, &tuples->info[i]);

		at[i] = odd ? NOWHERE : decode->fixed_size;
		tuples->odd[nodd] = (uint16_t) i;
		nodd += odd;
	}

	if (nodd > 0)
	{
		for (int f = 0; f < decode->nfetches && decode->fetches[f].fixed; f++)
		{
			uint32_t offset = decode->fetches[f].offset;
			GsText *located = tuples->located + (size_t) f * CPU_CHUNK;

			for (uint32_t i = 0; i < n; i++)
				located[i].p = tuples->data[i] + offset;
		}
	}
	for (uint32_t att = decode->nfixed; att < decode->natts; att++)
		faults |= walk_attribute(decode, tuples, att, at);
	for (uint32_t i = 0; i < nodd; i++)
	{
		walk_tuple(decode, tuples, tuples->odd[i]);
		faults |= tuples->fault[tuples->odd[i]];
	}

	for (uint32_t i = 0; faults != 0 && i < n; i++)
	{
		if (tuples->fault[i] == 0)
			continue;
		tuples->nfaults++;
		for (int f = 0; f < decode->nfetches; f++)
			tuples->located[(size_t) f * CPU_CHUNK + i].p = NULL;
	}
	return nodd > 0;
}

/*
 * One loop for values at a constant offset, one for located values.  `convert`
 * makes a value *dst of class type T from the bytes at p and `len` of them,
 * and gives flags.
 */
#define DECODE_LOOPS(T, convert)                                                                   \
	do                                                                                             \
	{                                                                                              \
		T *values = reg->values;                                                                   \
		uint8_t any = 0;                                                                           \
                                                                                                   \
		if (located == NULL)                                                                       \
		{                                                                                          \
			for (uint32_t i = 0; i < n; i++)                                                       \
			{                                                                                      \
				const char *p = data[i] + offset;                                                  \
				const uint32_t len = 0;                                                            \
				T *dst = &values[i];                                                               \
                                                                                                   \
				(void) len;                                                                        \
				any |= convert;                                                                    \
			}                                                                                      \
		}                                                                                          \
		else                                                                                       \
		{                                                                                          \
			for (uint32_t i = 0; i < n; i++)                                                       \
			{                                                                                      \
				const char *p = located[i].p;                                                      \
				const uint32_t len = located[i].len;                                               \
				T *dst = &values[i];                                                               \
                                                                                                   \
				(void) len;                                                                        \
				if (p != NULL)                                                                     \
					reg->own[i] = convert;                                                         \
				else                                                                               \
				{                                                                                  \
					memset(dst, 0, sizeof(T));                                                     \
					reg->own[i] = GPUSCAN_NULL;                                                    \
				}                                                                                  \
				any |= reg->own[i];                                                                \
			}                                                                                      \
		}                                                                                          \
		cpu_set_flags(reg, any);                                                                   \
	} while (0)

#define COPY(p, dst) (memcpy(dst, p, sizeof(*(dst))), 0)

static inline uint8_t
copy_int2(const char *p, int32_t *dst)
{
	*dst = (int16_t) bytes_load_u16(p);
	return 0;
}

static inline uint8_t
copy_bool(const char *p, uint8_t *dst)
{
	*dst = *p != 0;
	return 0;
}

static inline uint8_t
copy_text(const char *p, uint32_t len, GsText *dst)
{
	*dst = (GsText){p, len};
	return 0;
}

/* Decodes one input of tuples; `located` is NULL where all lie at `offset`. */
static void
decode_input(const GpuScanInput *input, uint32_t n, const char *const *data, uint32_t offset,
			 const GsText *located, CpuRegister *reg)
{
	switch ((GpuScanDecode) input->decode)
	{
		case GPUSCAN_DECODE_BOOL:
			DECODE_LOOPS(uint8_t, copy_bool(p, dst));
			break;
		case GPUSCAN_DECODE_INT2:
			DECODE_LOOPS(int32_t, copy_int2(p, dst));
			break;
		case GPUSCAN_DECODE_INT4:
			DECODE_LOOPS(int32_t, COPY(p, dst));
			break;
		case GPUSCAN_DECODE_INT8:
			DECODE_LOOPS(int64_t, COPY(p, dst));
			break;
		case GPUSCAN_DECODE_FLOAT4:
			DECODE_LOOPS(float, COPY(p, dst));
			break;
		case GPUSCAN_DECODE_FLOAT8:
			DECODE_LOOPS(double, COPY(p, dst));
			break;
		case GPUSCAN_DECODE_DEC64:
			DECODE_LOOPS(int64_t,
						 gs_numeric_to_i64((const unsigned char *) p, len, input->scale, dst));
			break;
		case GPUSCAN_DECODE_DEC128:
			DECODE_LOOPS(gs_i128,
						 gs_numeric_to_i128((const unsigned char *) p, len, input->scale, dst));
			break;
		case GPUSCAN_DECODE_DSCALE:
			DECODE_LOOPS(int32_t, gs_numeric_dscale((const unsigned char *) p, len, dst));
			break;
		case GPUSCAN_DECODE_TEXT:
			DECODE_LOOPS(GsText, copy_text(p, len, dst));
			break;
	}
}

void
gpuscan_cpu_decode(const CpuDecode *decode, const CpuPhase *phase, CpuTuples *tuples,
				   CpuRegister *registers)
{
	bool irregular;

	tuples->nfaults = 0;
	if (decode->nfetches == 0)
		return;
	memset(tuples->fault, 0, tuples->n);
	irregular = locate(decode, tuples);

	for (int f = 0; f < decode->nfetches; f++)
	{
		const CpuFetch *fetch = &decode->fetches[f];
		const GsText *located = tuples->located + (size_t) f * CPU_CHUNK;

		for (uint32_t i = 0; i < fetch->ninputs; i++)
		{
			const GpuScanInput *input = &phase->inputs[fetch->first_input + i];

			decode_input(input, tuples->n, tuples->data, fetch->offset,
						 fetch->fixed && !irregular ? NULL : located, &registers[input->reg]);
		}
	}
}
