/*-------------------------------------------------------------------------
 *
 * encode.c
 *	  From values in registers to a chunk.
 *
 *	 count the NULLs, put a value of the range in the place of each
 *	 least and greatest value; are all the same?
 *	 what the smallest plain encoding takes: CONSTANT, PACKED or RAW
 *	 with a dictionary: the distinct values, and whether their codes are better
 *
 * Codes win where they, and the values that the dictionary would have to add,
 * take less than the plain encoding: for numbers at most half of it, because a
 * code is one step further from its value.  So a column of many values soon
 * stops adding to its dictionary, and one of few pays for them once.
 *
 * All memory but the chunk is freed before the return.
 *
 *-------------------------------------------------------------------------
 */
#include "columns/dictionary.h"

#include <stdlib.h>

#define MAX_CHUNK ((uint64_t) 1 << 30)

/* Numbers of fewer bits have no codes. */
#define MIN_CODED_WIDTH 16

/* If more than MAX_SAMPLED of the first SAMPLE numbers are distinct, the rest is not looked at. */
#define SAMPLE 4096
#define MAX_SAMPLED 3072

/* A power of two, of which GPUSCAN_RANGE_TUPLES take less than two thirds */
#define NUM_SLOTS 32768

const uint8_t gpuscan_columns_value_size[GPUSCAN_NUM_CLASSES] = {1, 4, 8, 16, 4, 8, sizeof(GsText)};

typedef struct Scratch
{
	Distinct distinct;
	uint16_t index[GPUSCAN_RANGE_TUPLES]; /* each row's value among the distinct ones */
	uint16_t slots[NUM_SLOTS];			  /* index + 1; 0: empty */
	gs_u128 filled[GPUSCAN_RANGE_TUPLES]; /* values with the NULLs' places filled */
} Scratch;

_Static_assert(GPUSCAN_RANGE_TUPLES < NUM_SLOTS / 3 * 2, "slots are too few");

typedef struct Column
{
	GpuScanClass cls;
	uint32_t n;
	uint32_t nnulls;
	const uint8_t *flags; /* NULL: none */
	const void *values;	  /* none of them garbage */
	gs_u128 min;		  /* words; not of TEXT */
	gs_u128 max;
	bool constant;
} Column;

static void
set_words(uint64_t *words, gs_u128 value)
{
	words[0] = (uint64_t) value;
	words[1] = (uint64_t) (value >> 64);
}

static uint64_t
round_up(uint64_t size, uint64_t to)
{
	return (size + to - 1) / to * to;
}

/* A chunk without its data; NULL: out of memory. */
static GpuScanChunk *
make_chunk(const Column *column, GpuScanEncoding encoding, uint64_t data_size)
{
	bool bitmap = column->nnulls > 0 && column->nnulls < column->n;
	uint64_t nulls_size = bitmap ? round_up(column->n, 64) / 8 : 0;
	uint64_t data = round_up(sizeof(GpuScanChunk) + nulls_size, 16);
	uint64_t size = round_up(data + data_size, 16);
	GpuScanChunk *chunk = size <= MAX_CHUNK ? calloc(1, size) : NULL;

	if (chunk == NULL)
		return NULL;
	chunk->size = (uint32_t) size;
	chunk->nrows = column->n;
	chunk->nnulls = column->nnulls;
	chunk->encoding = (uint8_t) encoding;
	chunk->cls = (uint8_t) column->cls;
	chunk->data = (uint32_t) data;
	if (column->cls != GPUSCAN_TEXT && column->nnulls < column->n)
	{
		chunk->has_summary = 1;
		set_words(chunk->min, column->min);
		set_words(chunk->max, column->max);
	}
	if (bitmap)
	{
		uint64_t *nulls = (uint64_t *) (chunk + 1);

		chunk->nulls = sizeof(GpuScanChunk);
		for (uint32_t i = 0; i < column->n;)
		{
			uint64_t bits = 0;
			uint32_t end = column->n - i < 64 ? column->n : i + 64;

			for (uint32_t k = 0; i < end; i++, k++)
				bits |= (uint64_t) (column->flags[i] & GPUSCAN_NULL) << k;
			*nulls++ = bits;
		}
	}
	return chunk;
}

/*
 * Packing
 */
static uint64_t
packed_size(uint32_t n, uint32_t width)
{
	return (((uint64_t) n * width >> 6) + 2) * sizeof(uint64_t);
}

/* Writes n numbers, `number` being the i-th. */
#define PACK(number)                                                                               \
	do                                                                                             \
	{                                                                                              \
		uint64_t *word = (uint64_t *) ((char *) chunk + chunk->data);                              \
		uint64_t bits = 0;                                                                         \
		uint32_t used = 0;                                                                         \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
		{                                                                                          \
			uint64_t next = (number);                                                              \
                                                                                                   \
			bits |= next << used;                                                                  \
			used += width;                                                                         \
			if (used >= 64)                                                                        \
			{                                                                                      \
				*word++ = bits;                                                                    \
				used -= 64;                                                                        \
				bits = used > 0 ? next >> (width - used) : 0;                                      \
			}                                                                                      \
		}                                                                                          \
		*word = bits;                                                                              \
	} while (0)

static GpuScanChunk *
encode_packed(const Column *column, uint32_t width)
{
	GpuScanChunk *chunk =
		make_chunk(column, GPUSCAN_ENCODING_PACKED, packed_size(column->n, width));
	uint64_t base = (uint64_t) column->min;
	uint32_t n = column->n;

	if (chunk == NULL)
		return NULL;
	chunk->width = (uint8_t) width;
	set_words(chunk->base, column->min);
	switch (column->cls)
	{
		case GPUSCAN_BOOL:
			PACK(((const uint8_t *) column->values)[i] - base);
			break;
		case GPUSCAN_I32:
			PACK((uint64_t) ((const int32_t *) column->values)[i] - base);
			break;
		case GPUSCAN_I64:
			PACK(((const uint64_t *) column->values)[i] - base);
			break;
		default:
			PACK((uint64_t) ((const gs_u128 *) column->values)[i] - base);
			break;
	}
	return chunk;
}

static GpuScanChunk *
encode_codes(const Column *column, const Scratch *scratch)
{
	const uint32_t *codes = scratch->distinct.codes;
	uint32_t n = column->n;
	uint32_t min = UINT32_MAX;
	uint32_t max = 0;
	uint32_t width;
	GpuScanChunk *chunk;

	for (uint32_t d = 0; d < scratch->distinct.n; d++)
	{
		min = codes[d] < min ? codes[d] : min;
		max = codes[d] > max ? codes[d] : max;
	}
	width = bit_width(max - min);
	chunk = make_chunk(column, GPUSCAN_ENCODING_CODES, packed_size(n, width));
	if (chunk == NULL)
		return NULL;
	chunk->width = (uint8_t) width;
	chunk->base[0] = min;
	PACK(codes[scratch->index[i]] - min);
	return chunk;
}

static GpuScanChunk *
encode_constant(const Column *column)
{
	bool text = column->cls == GPUSCAN_TEXT && column->nnulls < column->n;
	GsText value = text ? *(const GsText *) column->values : (GsText){NULL, 0};
	GpuScanChunk *chunk = make_chunk(column, GPUSCAN_ENCODING_CONSTANT, value.len);

	if (chunk == NULL || column->nnulls == column->n)
		return chunk;
	if (text)
	{
		chunk->base[0] = value.len;
		if (value.len > 0)
			memcpy((char *) chunk + chunk->data, value.p, value.len);
	}
	else
		set_words(chunk->base, column->min);
	return chunk;
}

static GpuScanChunk *
encode_raw(const Column *column)
{
	uint64_t size = (uint64_t) column->n * gpuscan_columns_value_size[column->cls];
	GpuScanChunk *chunk = make_chunk(column, GPUSCAN_ENCODING_RAW, size + sizeof(uint64_t));

	if (chunk != NULL)
		memcpy((char *) chunk + chunk->data, column->values, size);
	return chunk;
}

static inline bool
is_null(const Column *column, uint32_t i)
{
	return column->nnulls > 0 && (column->flags[i] & GPUSCAN_NULL) != 0;
}

static uint64_t
raw_text_size(const Column *column)
{
	const GsText *texts = column->values;
	uint64_t size = (column->n + UINT64_C(1)) * sizeof(uint32_t);

	for (uint32_t i = 0; i < column->n; i++)
		size += is_null(column, i) ? 0 : texts[i].len;
	return size;
}

static GpuScanChunk *
encode_raw_text(const Column *column, uint64_t size)
{
	const GsText *texts = column->values;
	GpuScanChunk *chunk = make_chunk(column, GPUSCAN_ENCODING_RAW, size);
	uint32_t *offsets;
	uint32_t at;

	if (chunk == NULL)
		return NULL;
	offsets = (uint32_t *) ((char *) chunk + chunk->data);
	at = chunk->data + (column->n + 1) * (uint32_t) sizeof(uint32_t);
	for (uint32_t i = 0; i < column->n; i++)
	{
		uint32_t len = is_null(column, i) ? 0 : texts[i].len;

		offsets[i] = at;
		if (len > 0)
			memcpy((char *) chunk + at, texts[i].p, len);
		at += len;
	}
	offsets[column->n] = at;
	return chunk;
}

/*
 * Looking at the values
 */

#define FILL(T)                                                                                    \
	do                                                                                             \
	{                                                                                              \
		T *filled = (T *) scratch->filled;                                                         \
		T value = ((const T *) values)[first];                                                     \
                                                                                                   \
		for (uint32_t i = 0; i < column->n; i++)                                                   \
			filled[i] = is_null(column, i) ? value : ((const T *) values)[i];                      \
	} while (0)

/* The values with the first that is not NULL in the place of each NULL */
static const void *
fill(const Column *column, const void *values, Scratch *scratch)
{
	uint32_t first = 0;

	while (is_null(column, first))
		first++;
	switch (gpuscan_columns_value_size[column->cls])
	{
		case 1:
			FILL(uint8_t);
			break;
		case 4:
			FILL(uint32_t);
			break;
		case 8:
			FILL(uint64_t);
			break;
		default:
			FILL(gs_u128);
			break;
	}
	return scratch->filled;
}

#define LESS(a, b) ((a) < (b))
#define FLOAT_LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))

#define SUMMARIZE(T, Bits, less)                                                                   \
	do                                                                                             \
	{                                                                                              \
		const T *values = column->values;                                                          \
		const Bits *bits = column->values;                                                         \
		T min = values[0];                                                                         \
		T max = values[0];                                                                         \
		Bits differ = 0;                                                                           \
                                                                                                   \
		for (uint32_t i = 0; i < column->n; i++)                                                   \
		{                                                                                          \
			min = less(values[i], min) ? values[i] : min;                                          \
			max = less(max, values[i]) ? values[i] : max;                                          \
			differ |= bits[i] ^ bits[0];                                                           \
		}                                                                                          \
		column->min = value_words(column->cls, &min, 0);                                           \
		column->max = value_words(column->cls, &max, 0);                                           \
		column->constant = differ == 0;                                                            \
	} while (0)

static void
summarize(Column *column)
{
	switch (column->cls)
	{
		case GPUSCAN_BOOL:
			SUMMARIZE(uint8_t, uint8_t, LESS);
			break;
		case GPUSCAN_I32:
			SUMMARIZE(int32_t, uint32_t, LESS);
			break;
		case GPUSCAN_I64:
			SUMMARIZE(int64_t, uint64_t, LESS);
			break;
		case GPUSCAN_I128:
			SUMMARIZE(gs_i128, gs_u128, LESS);
			break;
		case GPUSCAN_F32:
			SUMMARIZE(float, uint32_t, FLOAT_LESS);
			break;
		case GPUSCAN_F64:
			SUMMARIZE(double, uint64_t, FLOAT_LESS);
			break;
		case GPUSCAN_TEXT:
		{
			const GsText *texts = column->values;
			uint32_t same = 1;

			while (same < column->n && texts_equal(texts[same], texts[0]))
				same++;
			column->constant = same == column->n;
			break;
		}
	}
}

static inline bool
values_equal(const Column *column, uint32_t i, uint32_t j)
{
	if (column->cls == GPUSCAN_TEXT)
		return texts_equal(((const GsText *) column->values)[i],
						   ((const GsText *) column->values)[j]);
	return value_words(column->cls, column->values, i) ==
		   value_words(column->cls, column->values, j);
}

/* Finds the distinct values; false: numbers of too many. */
static bool
find_distinct(const Column *column, Scratch *scratch)
{
	Distinct *distinct = &scratch->distinct;

	distinct->n = 0;
	memset(scratch->slots, 0, sizeof(scratch->slots));
	for (uint32_t i = 0; i < column->n; i++)
	{
		uint32_t hash = hash_value(column->cls, column->values, i);
		uint32_t slot = hash % NUM_SLOTS;
		uint32_t d;

		if (i == SAMPLE && distinct->n > MAX_SAMPLED && column->cls != GPUSCAN_TEXT)
			return false;
		while ((d = scratch->slots[slot]) != 0 &&
			   (distinct->hashes[d - 1] != hash || !values_equal(column, distinct->rows[d - 1], i)))
			slot = (slot + 1) % NUM_SLOTS;
		if (d == 0)
		{
			distinct->rows[distinct->n] = (uint16_t) i;
			distinct->hashes[distinct->n] = hash;
			d = ++distinct->n;
			scratch->slots[slot] = (uint16_t) d;
		}
		scratch->index[i] = (uint16_t) (d - 1);
	}
	return true;
}

static GpuScanChunk *
encode_text(const Column *column, GpuScanDictionary *dictionary, Scratch *scratch)
{
	uint64_t raw_size = raw_text_size(column);
	uint64_t plain_size =
		column->constant ? sizeof(uint32_t) + ((const GsText *) column->values)->len : raw_size;

	if (dictionary != NULL && find_distinct(column, scratch) &&
		gpuscan_dictionary_codes(dictionary, column->values, &scratch->distinct, column->n,
								 plain_size))
		return encode_codes(column, scratch);
	return column->constant ? encode_constant(column) : encode_raw_text(column, raw_size);
}

static GpuScanChunk *
encode_number(const Column *column, GpuScanDictionary *dictionary, Scratch *scratch)
{
	uint32_t width = 8 * gpuscan_columns_value_size[column->cls];
	gs_u128 range = column->max - column->min;
	bool packed = column->cls != GPUSCAN_F32 && column->cls != GPUSCAN_F64 && range <= UINT64_MAX &&
				  bit_width((uint64_t) range) < width;

	if (column->constant)
		return encode_constant(column);
	if (packed)
		width = bit_width((uint64_t) range);
	if (dictionary != NULL && width >= MIN_CODED_WIDTH && find_distinct(column, scratch) &&
		gpuscan_dictionary_codes(dictionary, column->values, &scratch->distinct, column->n,
								 (uint64_t) column->n * width / 8 / 2))
		return encode_codes(column, scratch);
	return packed ? encode_packed(column, width) : encode_raw(column);
}

GpuScanChunk *
gpuscan_columns_encode(GpuScanClass cls, const void *values, const uint8_t *flags, uint32_t n,
					   GpuScanDictionary *dictionary)
{
	Column column = {.cls = cls, .n = n, .flags = flags, .values = values};
	Scratch *scratch;
	GpuScanChunk *chunk;

	for (uint32_t i = 0; flags != NULL && i < n; i++)
		column.nnulls += flags[i] & GPUSCAN_NULL;
	if (column.nnulls == n)
		return encode_constant(&column);

	scratch = malloc(sizeof(*scratch));
	if (scratch == NULL)
		return NULL;
	if (column.nnulls > 0)
		column.values = fill(&column, values, scratch);
	summarize(&column);
	chunk = cls == GPUSCAN_TEXT ? encode_text(&column, dictionary, scratch)
								: encode_number(&column, dictionary, scratch);
	free(scratch);
	return chunk;
}
