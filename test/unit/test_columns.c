/*-------------------------------------------------------------------------
 *
 * test_columns.c
 *	  src/columns/: what is decoded is what was encoded, to the bit, in any
 *	  pieces and by all functions; chunks are as small as they should be;
 *	  dictionaries keep their codes, their bounds and their accounts.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "columns/columns.h"

#include "unit.h"

#define MAX_ROWS GPUSCAN_RANGE_TUPLES
#define HEADER sizeof(GpuScanChunk)

static const char *const class_names[GPUSCAN_NUM_CLASSES] = {"bool", "i32", "i64", "i128",
															 "f32",	 "f64", "text"};

/* The input of a test, and what came back */
typedef struct Values
{
	GpuScanClass cls;
	uint32_t n;
	bool has_flags;
	uint8_t flags[MAX_ROWS];
	gs_u128 values[MAX_ROWS]; /* room for any class */
	char text[MAX_ROWS][24];
} Values;

typedef struct Output
{
	uint8_t flags[MAX_ROWS];
	gs_u128 values[MAX_ROWS];
	uint16_t rows[MAX_ROWS];
	uint32_t codes[MAX_ROWS];
} Output;

static size_t
size_of(GpuScanClass cls)
{
	return gpuscan_columns_value_size[cls];
}

static char *
at(const void *values, GpuScanClass cls, uint32_t i)
{
	return (char *) values + i * size_of(cls);
}

static void
put(Values *v, uint32_t i, uint64_t low, uint64_t high)
{
	uint64_t words[2] = {low, high};

	memcpy(at(v->values, v->cls, i), words, size_of(v->cls));
}

static void
put_text(Values *v, uint32_t i, const char *p, uint32_t len)
{
	((GsText *) v->values)[i] = (GsText){p, len};
}

static bool
same(GpuScanClass cls, const void *a, const void *b)
{
	const GsText *s = a;
	const GsText *t = b;

	if (cls != GPUSCAN_TEXT)
		return memcmp(a, b, size_of(cls)) == 0;
	return s->len == t->len && (s->len == 0 || memcmp(s->p, t->p, s->len) == 0);
}

/* True if PostgreSQL has a before b */
static bool
before(GpuScanClass cls, const void *a, const void *b)
{
	double x;
	double y;

	switch (cls)
	{
		case GPUSCAN_BOOL:
			return *(const uint8_t *) a < *(const uint8_t *) b;
		case GPUSCAN_I32:
			return *(const int32_t *) a < *(const int32_t *) b;
		case GPUSCAN_I64:
			return *(const int64_t *) a < *(const int64_t *) b;
		case GPUSCAN_I128:
			return *(const gs_i128 *) a < *(const gs_i128 *) b;
		case GPUSCAN_F32:
			x = *(const float *) a;
			y = *(const float *) b;
			break;
		default:
			x = *(const double *) a;
			y = *(const double *) b;
			break;
	}
	return isnan(y) ? !isnan(x) : x < y;
}

static void
read_one(const GpuScanChunk *chunk, const GsValues *dictionary, uint32_t row, void *value)
{
	switch (chunk->cls)
	{
		case GPUSCAN_BOOL:
			*(uint8_t *) value = gs_chunk_bool(chunk, dictionary, row);
			break;
		case GPUSCAN_I32:
			*(int32_t *) value = gs_chunk_i32(chunk, dictionary, row);
			break;
		case GPUSCAN_I64:
			*(int64_t *) value = gs_chunk_i64(chunk, dictionary, row);
			break;
		case GPUSCAN_I128:
			*(gs_i128 *) value = gs_chunk_i128(chunk, dictionary, row);
			break;
		case GPUSCAN_F32:
			*(float *) value = gs_chunk_f32(chunk, dictionary, row);
			break;
		case GPUSCAN_F64:
			*(double *) value = gs_chunk_f64(chunk, dictionary, row);
			break;
		case GPUSCAN_TEXT:
			*(GsText *) value = gs_chunk_text(chunk, dictionary, row);
			break;
	}
}

static uint8_t
flags_of(const Values *v, uint32_t row)
{
	return v->has_flags ? v->flags[row] : 0;
}

/* Even what stands for a NULL may be looked at */
static _Thread_local uint64_t looked_at;

static bool
row_is(const Values *v, uint32_t row, uint8_t flags, const void *value)
{
	const GsText *text = value;

	if (v->cls == GPUSCAN_TEXT)
		looked_at += text->len > 0 ? (uint64_t) text->p[text->len - 1] : 0;
	if (v->cls == GPUSCAN_BOOL && *(const uint8_t *) value > 1)
		return false;
	return flags == flags_of(v, row) &&
		   (flags != 0 || same(v->cls, value, at(v->values, v->cls, row)));
}

static bool
check_range(const Values *v, const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
			uint32_t first, uint32_t n, Output *out)
{
	const void *in_place = gpuscan_columns_in_place(chunk, first);
	uint8_t any = gpuscan_columns_decode(chunk, dictionary, first, n, out->values, out->flags);
	uint8_t expected = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		expected |= flags_of(v, first + i);
		if (!row_is(v, first + i, any == 0 ? 0 : out->flags[i], at(out->values, v->cls, i)))
			return false;
		if (in_place != NULL &&
			memcmp(at(in_place, v->cls, i), at(out->values, v->cls, i), size_of(v->cls)) != 0)
			return false;
	}
	return any == expected;
}

static bool
check_rows(const Values *v, const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
		   uint64_t *seed, Output *out)
{
	GsValues own = {NULL, NULL};
	uint32_t n = v->n < 300 ? v->n : 300;
	uint8_t any;

	for (uint32_t i = 0; i < n; i++)
		out->rows[i] = (uint16_t) (unit_random(seed) % v->n);
	any = gpuscan_columns_decode_rows(chunk, dictionary, out->rows, n, out->values, out->flags);
	if (dictionary != NULL)
		own = gpuscan_dictionary_values(dictionary);
	for (uint32_t i = 0; i < n; i++)
	{
		gs_u128 value;

		if (!row_is(v, out->rows[i], any == 0 ? 0 : out->flags[i], at(out->values, v->cls, i)))
			return false;
		read_one(chunk, &own, out->rows[i], &value);
		if (!row_is(v, out->rows[i], gs_chunk_flags(chunk, out->rows[i]), &value))
			return false;
	}
	return true;
}

static bool
check_codes(const Values *v, const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
			uint32_t first, uint32_t n, Output *out)
{
	GsValues own;

	if (chunk->encoding != GPUSCAN_ENCODING_CODES)
		return true;
	own = gpuscan_dictionary_values(dictionary);
	gpuscan_columns_codes(chunk, first, n, out->codes);
	for (uint32_t i = 0; i < n; i++)
	{
		GsText text;
		const void *value = &text;

		if (out->codes[i] >= gpuscan_dictionary_count(dictionary) ||
			out->codes[i] != gs_chunk_code(chunk, first + i))
			return false;
		if (v->cls == GPUSCAN_TEXT)
			text = gs_text_at(&own, out->codes[i]);
		else
			value = at(own.data, v->cls, out->codes[i]);
		if (flags_of(v, first + i) == 0 && !same(v->cls, value, at(v->values, v->cls, first + i)))
			return false;
	}
	return true;
}

/* A value of the summary is one of the values, and none lies beyond. */
static bool
check_summary(const Values *v, const GpuScanChunk *chunk)
{
	uint32_t nnulls = 0;
	bool seen_min = false;
	bool seen_max = false;

	for (uint32_t i = 0; i < v->n; i++)
	{
		const void *value = at(v->values, v->cls, i);

		if (flags_of(v, i) != 0)
			nnulls++;
		else if (v->cls != GPUSCAN_TEXT)
		{
			if (before(v->cls, value, chunk->min) || before(v->cls, chunk->max, value))
				return false;
			seen_min |= same(v->cls, value, chunk->min);
			seen_max |= same(v->cls, value, chunk->max);
		}
	}
	if (v->cls == GPUSCAN_I32 && (chunk->min[0] != (uint64_t) (int32_t) chunk->min[0] ||
								  chunk->max[0] != (uint64_t) (int32_t) chunk->max[0]))
		return false;
	return chunk->nrows == v->n && chunk->nnulls == nnulls &&
		   chunk->has_summary == (v->cls != GPUSCAN_TEXT && nnulls < v->n) &&
		   seen_min == chunk->has_summary && seen_max == chunk->has_summary &&
		   (chunk->nulls != 0) == (nnulls > 0 && nnulls < v->n) && chunk->size % 16 == 0;
}

/* Encodes and decodes in all ways; the chunk is the caller's to free, NULL if something is wrong. */
static GpuScanChunk *
round_trip(const Values *v, GpuScanDictionary *dictionary, uint64_t *seed)
{
	Output *out = malloc(sizeof(*out));
	GpuScanChunk *chunk =
		gpuscan_columns_encode(v->cls, v->values, v->has_flags ? v->flags : NULL, v->n, dictionary);
	GpuScanDictionary *used = chunk->encoding == GPUSCAN_ENCODING_CODES ? dictionary : NULL;
	bool good = check_summary(v, chunk) && check_range(v, chunk, used, 0, v->n, out) &&
				check_codes(v, chunk, used, 0, v->n, out);

	for (int i = 0; i < 6 && good && v->n > 0; i++)
	{
		uint32_t first = (uint32_t) (unit_random(seed) % v->n);
		uint32_t n = (uint32_t) (unit_random(seed) % (v->n - first + 1));

		n = i < 5 && n > 40 ? 40 : n;
		good = check_range(v, chunk, used, first, n, out) &&
			   check_codes(v, chunk, used, first, n, out) && check_rows(v, chunk, used, seed, out);
	}
	free(out);
	if (good)
		return chunk;
	free(chunk);
	return NULL;
}

/*
 * Values
 */
static const uint64_t special_f64[] = {0,
									   UINT64_C(0x8000000000000000),
									   UINT64_C(0x7FF0000000000000),
									   UINT64_C(0xFFF0000000000000),
									   UINT64_C(0x7FF8000000000000),
									   UINT64_C(0xFFF8000000000001),
									   UINT64_C(0x7FF0000000000001),
									   1,
									   UINT64_C(0x3FF0000000000000),
									   UINT64_C(0xFFEFFFFFFFFFFFFF)};
static const uint32_t special_f32[] = {0,		   0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
									   0xFFC00001, 0x7F800001, 1,		   0x3F800000, 0xFF7FFFFF};
static const int64_t special_i64[] = {INT64_MIN, INT64_MAX, 0, -1, 1, INT32_MIN, INT32_MAX};

typedef enum Kind
{
	ONE_VALUE,
	FEW,	  /* 5 values */
	SOME,	  /* about 500 */
	WIDE,	  /* any bits */
	EXTREMES, /* special values */
	NUM_KINDS
} Kind;

/* Number `which` of the values of a class, or any */
static void
make_value(Values *v, uint32_t i, Kind kind, uint64_t which, uint64_t *seed)
{
	uint64_t low;
	uint64_t high;

	low = which * UINT64_C(0xD1B54A32D192ED03);
	high = kind == WIDE ? unit_random(seed) : which;
	switch (v->cls)
	{
		case GPUSCAN_BOOL:
			put(v, i, which & 1, 0);
			break;
		case GPUSCAN_TEXT:
			if (kind == EXTREMES)
				memset(v->text[i], (int) which, sizeof(v->text[i]));
			else
				snprintf(v->text[i], sizeof(v->text[i]), "%llx", (unsigned long long) low);
			put_text(v, i, v->text[i],
					 kind == EXTREMES ? (uint32_t) (which % 24) : (uint32_t) strlen(v->text[i]));
			break;
		case GPUSCAN_I32:
		case GPUSCAN_I64:
			put(v, i, kind == EXTREMES ? (uint64_t) special_i64[which % 7] : low, 0);
			break;
		case GPUSCAN_I128:
			put(v, i, kind == EXTREMES ? which : low,
				kind == EXTREMES ? (uint64_t) special_i64[which % 7] : high);
			break;
		case GPUSCAN_F32:
			put(v, i, kind == EXTREMES ? special_f32[which % 10] : low, 0);
			break;
		case GPUSCAN_F64:
			put(v, i, kind == EXTREMES ? special_f64[which % 10] : low, 0);
			break;
	}
}

static void
make_values(Values *v, Kind kind, uint64_t *seed)
{
	for (uint32_t i = 0; i < v->n; i++)
	{
		uint64_t random = unit_random(seed);

		make_value(v, i, kind,
				   kind == ONE_VALUE  ? 1
				   : kind == FEW	  ? random % 5
				   : kind == SOME	  ? random % 500
				   : kind == EXTREMES ? random % 70
									  : random,
				   seed);
	}
}

typedef enum Nulls
{
	NO_FLAGS,
	NONE,
	A_FEW,
	HALF,
	ALL_BUT_ONE,
	ALL,
	NUM_NULLS
} Nulls;

/* NULLs, with values beside them that no value has, nor may have. */
static void
make_nulls(Values *v, Nulls nulls, uint64_t *seed)
{
	uint32_t one = v->n == 0 ? 0 : (uint32_t) (unit_random(seed) % v->n);

	v->has_flags = nulls != NO_FLAGS;
	for (uint32_t i = 0; i < v->n; i++)
	{
		bool null = nulls == A_FEW		   ? unit_random(seed) % 50 == 0
					: nulls == HALF		   ? unit_random(seed) % 2 == 0
					: nulls == ALL_BUT_ONE ? i != one
										   : nulls == ALL;

		v->flags[i] = null ? GPUSCAN_NULL : 0;
		if (null)
		{
			put(v, i, UINT64_C(0x5555AAAA7777EEEE), 99);
			if (v->cls == GPUSCAN_TEXT)
				put_text(v, i, NULL, 0);
		}
	}
}

static void
test_classes(Values *v)
{
	static const uint32_t sizes[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 1000, 3001, MAX_ROWS};
	uint64_t seed = 1;

	for (int cls = 0; cls < GPUSCAN_NUM_CLASSES; cls++)
	{
		int failures = 0;

		v->cls = (GpuScanClass) cls;
		for (int kind = 0; kind < NUM_KINDS; kind++)
		{
			GpuScanDictionary *dictionary = gpuscan_dictionary_create(v->cls);

			for (int nulls = 0; nulls < NUM_NULLS; nulls++)
			{
				for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
				{
					for (int with = 0; with < 2; with++)
					{
						GpuScanChunk *chunk;

						if (sizes[s] == MAX_ROWS && nulls != NO_FLAGS && nulls != A_FEW)
							continue;
						v->n = sizes[s];
						make_values(v, (Kind) kind, &seed);
						make_nulls(v, (Nulls) nulls, &seed);
						chunk = round_trip(v, with ? dictionary : NULL, &seed);
						if (chunk == NULL)
						{
							printf("# kind %d, nulls %d, %u rows, dictionary %d\n", kind, nulls,
								   v->n, with);
							failures++;
						}
						free(chunk);
					}
				}
			}
			gpuscan_dictionary_free(dictionary);
		}
		ok(failures == 0, "%s: all kinds of values, NULLs and sizes", class_names[cls]);
	}
}

/* Numbers whose range takes exactly `width` bits */
static void
test_widths(Values *v)
{
	static const GpuScanClass classes[] = {GPUSCAN_I32, GPUSCAN_I64, GPUSCAN_I128};
	uint64_t seed = 2;

	v->has_flags = false;
	for (int c = 0; c < 3; c++)
	{
		uint32_t max_width = c == 0 ? 32 : 64;
		int failures = 0;

		v->cls = classes[c];
		for (uint32_t width = 0; width <= max_width; width++)
		{
			uint64_t mask = width == 0 ? 0 : ~UINT64_C(0) >> (64 - width);
			GpuScanEncoding expected = width == 0					  ? GPUSCAN_ENCODING_CONSTANT
									   : width == 8 * size_of(v->cls) ? GPUSCAN_ENCODING_RAW
																	  : GPUSCAN_ENCODING_PACKED;
			GpuScanChunk *chunk;

			v->n = 1000 + width;
			for (uint32_t i = 0; i < v->n; i++)
			{
				uint64_t number = i == 3 ? 0 : i == 5 ? mask : unit_random(&seed) & mask;
				gs_i128 base = c == 0 ? INT32_MIN : c == 1 ? INT64_MIN : -(gs_i128) (mask / 3);
				gs_u128 value = (gs_u128) base + number;

				put(v, i, (uint64_t) value, (uint64_t) (value >> 64));
			}
			chunk = round_trip(v, NULL, &seed);
			if (chunk == NULL || chunk->encoding != expected ||
				(expected == GPUSCAN_ENCODING_PACKED && chunk->width != width) ||
				chunk->size > HEADER + (uint64_t) v->n * width / 8 + 32)
			{
				printf("# width %u\n", width);
				failures++;
			}
			free(chunk);
		}
		ok(failures == 0, "%s: every width from 0 to %u", class_names[v->cls], max_width);
	}
}

/*
 * Sizes and choices
 */
static bool
encoded_as(const Values *v, GpuScanDictionary *dictionary, GpuScanEncoding encoding, uint32_t width,
		   uint64_t data_size)
{
	uint64_t seed = 3;
	GpuScanChunk *chunk = round_trip(v, dictionary, &seed);
	uint64_t nulls = chunk != NULL && chunk->nulls != 0 ? v->n / 8 + 8 : 0;
	bool good = chunk != NULL && chunk->encoding == encoding && chunk->width == width &&
				chunk->size <= HEADER + nulls + data_size + 32;

	if (chunk != NULL && !good)
		printf("# encoding %u, width %u, size %u\n", chunk->encoding, chunk->width, chunk->size);
	free(chunk);
	return good;
}

static void
test_sizes(Values *v)
{
	uint64_t seed = 4;
	uint32_t n = MAX_ROWS;
	GpuScanDictionary *dictionary = gpuscan_dictionary_create(GPUSCAN_TEXT);

	v->n = n;
	v->has_flags = false;
	v->cls = GPUSCAN_I32;
	for (uint32_t i = 0; i < n; i++)
		put(v, i, 1000000 + unit_random(&seed) % 500, 0);
	ok(encoded_as(v, NULL, GPUSCAN_ENCODING_PACKED, 9, n * 9 / 8), "500 numbers take 9 bits");
	make_nulls(v, ALL_BUT_ONE, &seed);
	ok(encoded_as(v, NULL, GPUSCAN_ENCODING_CONSTANT, 0, 0), "one number and NULLs: a bitmap");
	make_nulls(v, ALL, &seed);
	ok(encoded_as(v, NULL, GPUSCAN_ENCODING_CONSTANT, 0, 0), "NULLs alone: nothing");

	v->has_flags = false;
	v->cls = GPUSCAN_TEXT;
	make_values(v, SOME, &seed);
	ok(encoded_as(v, dictionary, GPUSCAN_ENCODING_CODES, 9, n * 9 / 8), "500 texts take 9 bits");
	make_values(v, ONE_VALUE, &seed);
	ok(encoded_as(v, dictionary, GPUSCAN_ENCODING_CODES, 0, 0), "one text is a code of no bits");
	ok(encoded_as(v, NULL, GPUSCAN_ENCODING_CONSTANT, 0, 16),
	   "and without a dictionary is kept once");
	make_values(v, WIDE, &seed);
	ok(encoded_as(v, dictionary, GPUSCAN_ENCODING_RAW, 0, n * 20), "texts of many kinds are raw");
	ok(gpuscan_dictionary_count(dictionary) <= 501, "and are not added to the dictionary");
	gpuscan_dictionary_free(dictionary);

	for (int cls = GPUSCAN_I64; cls <= GPUSCAN_F64; cls++)
	{
		dictionary = gpuscan_dictionary_create((GpuScanClass) cls);
		v->cls = (GpuScanClass) cls;
		make_values(v, SOME, &seed);
		ok(encoded_as(v, dictionary, GPUSCAN_ENCODING_CODES, 9, n * 9 / 8),
		   "500 wide values of %s take 9 bits", class_names[cls]);
		make_values(v, WIDE, &seed);
		ok(encoded_as(v, dictionary, GPUSCAN_ENCODING_RAW, 0, n * size_of(v->cls)),
		   "values of %s of many kinds are raw", class_names[cls]);
		gpuscan_dictionary_free(dictionary);
	}
}

/*
 * Dictionaries
 */
static bool
encode_texts(Values *v, GpuScanDictionary *dictionary, const char *prefix, int first, int distinct,
			 uint8_t *encoding)
{
	uint64_t seed = 5;
	GpuScanChunk *chunk;

	for (uint32_t i = 0; i < v->n; i++)
	{
		int len =
			snprintf(v->text[i], sizeof(v->text[i]), "%s%d", prefix, first + (int) i % distinct);

		put_text(v, i, v->text[i], (uint32_t) len);
	}
	chunk = round_trip(v, dictionary, &seed);
	if (chunk == NULL)
		return false;
	*encoding = chunk->encoding;
	free(chunk);
	return true;
}

static void
test_full(Values *v)
{
	GpuScanDictionary *dictionary = gpuscan_dictionary_create(GPUSCAN_TEXT);
	uint64_t empty = gpuscan_dictionary_size(dictionary);
	uint64_t size;
	uint8_t encoding;
	char *long_text;
	int failures = 0;
	int first = 0;

	v->cls = GPUSCAN_TEXT;
	v->has_flags = false;
	v->n = 8000;
	do
	{
		failures += !encode_texts(v, dictionary, "", first, 4000, &encoding);
		first += 4000;
	} while (encoding == GPUSCAN_ENCODING_CODES && first < 100000);
	ok(failures == 0 && first == 17 * 4000 && gpuscan_dictionary_count(dictionary) == 64000,
	   "a dictionary takes no range that needs more codes than are left");
	ok(encode_texts(v, dictionary, "", 62000, 2000, &encoding) &&
		   encoding == GPUSCAN_ENCODING_CODES,
	   "and still serves a range whose values it has");
	ok(encode_texts(v, dictionary, "", 64000, 1536, &encoding) &&
		   encoding == GPUSCAN_ENCODING_CODES &&
		   gpuscan_dictionary_count(dictionary) == GPUSCAN_DICTIONARY_CODES,
	   "every code can be given");
	ok(encode_texts(v, dictionary, "x", 0, 10, &encoding) && encoding == GPUSCAN_ENCODING_RAW,
	   "a full dictionary leaves values raw");
	size = gpuscan_dictionary_size(dictionary) - empty;
	ok(size > 65536 * 13 && size < 65536 * 24, "its size is accounted: %u", (unsigned) size);
	gpuscan_dictionary_free(dictionary);

	/* by bytes: each range brings 16 texts of 100,000 bytes */
	dictionary = gpuscan_dictionary_create(GPUSCAN_TEXT);
	long_text = malloc(300000);
	for (int i = 0; i < 300000; i++)
		long_text[i] = (char) (i * 7 + i / 1000);
	v->n = 32;
	for (int range = 0; range < 3; range++)
	{
		uint64_t seed = 6;
		GpuScanChunk *chunk;

		for (uint32_t i = 0; i < v->n; i++)
			put_text(v, i, long_text + 16 * range + i % 16, 100000);
		chunk = round_trip(v, dictionary, &seed);
		ok(chunk != NULL &&
			   chunk->encoding == (range < 2 ? GPUSCAN_ENCODING_CODES : GPUSCAN_ENCODING_RAW),
		   "long texts have codes while there is room: range %d", range);
		free(chunk);
	}
	ok(gpuscan_dictionary_size(dictionary) < GPUSCAN_DICTIONARY_TEXT + 10000,
	   "no text goes beyond it");
	free(long_text);
	gpuscan_dictionary_free(dictionary);
}

/* Codes, and where their values lie, stay as others are added. */
static void
test_stable(Values *v)
{
	GpuScanDictionary *dictionary = gpuscan_dictionary_create(GPUSCAN_TEXT);
	GpuScanChunk *chunk;
	GsText before_growth[100];
	GsText after_growth[100];
	int moved = 0;
	uint64_t seed = 7;
	uint8_t encoding;

	v->cls = GPUSCAN_TEXT;
	v->has_flags = false;
	v->n = 100;
	make_values(v, FEW, &seed);
	chunk = round_trip(v, dictionary, &seed);
	gpuscan_columns_decode(chunk, dictionary, 0, 100, before_growth, NULL);
	v->n = 18000;
	for (int i = 0; i < 7; i++)
		encode_texts(v, dictionary, "new ", i * 9000, 9000, &encoding);
	ok(gpuscan_dictionary_count(dictionary) == 63005, "a dictionary grows");
	gpuscan_columns_decode(chunk, dictionary, 0, 100, after_growth, NULL);
	for (int i = 0; i < 100; i++)
		moved +=
			before_growth[i].p != after_growth[i].p || before_growth[i].len != after_growth[i].len;
	ok(moved == 0, "texts stay where they are while their dictionary grows");
	free(chunk);
	gpuscan_dictionary_free(dictionary);
}

#define NUM_THREADS 4
#define NUM_ROUNDS 30

typedef struct Encoder
{
	pthread_t thread;
	GpuScanDictionary *dictionary;
	GpuScanClass cls;
	uint64_t seed;
	int failures;
} Encoder;

static void *
run_encoder(void *argument)
{
	Encoder *encoder = argument;
	Values *v = calloc(1, sizeof(*v));

	v->cls = encoder->cls;
	for (int round = 0; round < NUM_ROUNDS; round++)
	{
		GpuScanChunk *chunk;

		/* the same values, met in other orders */
		v->n = 200 + 100 * (uint32_t) round;
		for (uint32_t i = 0; i < v->n; i++)
			make_value(v, i, SOME, unit_random(&encoder->seed) % (20 * (uint64_t) (round + 1)),
					   &encoder->seed);
		make_nulls(v, A_FEW, &encoder->seed);
		chunk = round_trip(v, encoder->dictionary, &encoder->seed);
		encoder->failures += chunk == NULL || gpuscan_dictionary_size(encoder->dictionary) == 0;
		free(chunk);
	}
	free(v);
	return NULL;
}

static void
test_concurrent(GpuScanClass cls)
{
	GpuScanDictionary *dictionary = gpuscan_dictionary_create(cls);
	Encoder encoders[NUM_THREADS];
	GsValues own;
	int failures = 0;
	int repeated = 0;

	for (int i = 0; i < NUM_THREADS; i++)
	{
		encoders[i] = (Encoder){.dictionary = dictionary, .cls = cls, .seed = 100 + (uint64_t) i};
		pthread_create(&encoders[i].thread, NULL, run_encoder, &encoders[i]);
	}
	for (int i = 0; i < NUM_THREADS; i++)
	{
		pthread_join(encoders[i].thread, NULL);
		failures += encoders[i].failures;
	}
	own = gpuscan_dictionary_values(dictionary);
	for (uint32_t i = 0; i < gpuscan_dictionary_count(dictionary); i++)
	{
		for (uint32_t j = 0; j < i; j++)
		{
			GsText a;
			GsText b;

			if (cls == GPUSCAN_TEXT)
			{
				a = gs_text_at(&own, i);
				b = gs_text_at(&own, j);
				repeated += same(cls, &a, &b);
			}
			else
				repeated += same(cls, at(own.data, cls, i), at(own.data, cls, j));
		}
	}
	ok(failures == 0, "%s: encoders share a dictionary", class_names[cls]);
	ok(gpuscan_dictionary_count(dictionary) == 600 && repeated == 0,
	   "%s: which has each value once", class_names[cls]);
	gpuscan_dictionary_free(dictionary);
}

/* A chunk is copied to devices as it is. */
static void
test_moved(Values *v)
{
	uint64_t seed = 8;
	GpuScanChunk *chunk;
	GpuScanChunk *copy;
	Output *out = malloc(sizeof(*out));

	v->cls = GPUSCAN_TEXT;
	v->n = 1000;
	make_values(v, WIDE, &seed);
	make_nulls(v, HALF, &seed);
	chunk = gpuscan_columns_encode(v->cls, v->values, v->flags, v->n, NULL);
	copy = malloc(chunk->size);
	memcpy(copy, chunk, chunk->size);
	free(chunk);
	ok(check_range(v, copy, NULL, 0, v->n, out), "a chunk can be moved");
	free(copy);
	free(out);
}

int
main(void)
{
	Values *v = calloc(1, sizeof(*v));

	test_classes(v);
	test_widths(v);
	test_sizes(v);
	test_full(v);
	test_stable(v);
	test_concurrent(GPUSCAN_TEXT);
	test_concurrent(GPUSCAN_I64);
	test_concurrent(GPUSCAN_F64);
	test_moved(v);
	free(v);
	return done_testing();
}
