/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  From rows of a chunk to registers.
 *
 * Eight numbers of w bits fill w bytes, so within each eight every number lies
 * at a constant offset and shift: there is a loop for each width, all made from
 * one, without a shift that the processor would have to look up.  Rows before
 * and behind whole eights are read one by one, with chunk.h's functions.
 *
 *-------------------------------------------------------------------------
 */
#include "columns/dictionary.h"

/* Rows decoded to codes, or to numbers, before they become values */
#define BLOCK 256

/* Number k of eight at p */
static inline __attribute__((always_inline)) uint64_t
unpack_one(const char *p, uint32_t width, uint32_t k)
{
	uint32_t shift = k * width % 8;
	uint64_t bits = bytes_load_u64(p + k * width / 8) >> shift;

	if (shift + width > 64)
		bits |= (uint64_t) (uint8_t) p[k * width / 8 + 8] << (64 - shift);
	return width == 64 ? bits : bits & (((uint64_t) 1 << width) - 1);
}

#define WIDTHS_8(X, i) X(i) X(i + 1) X(i + 2) X(i + 3) X(i + 4) X(i + 5) X(i + 6) X(i + 7)
#define WIDTHS_32(X, i) WIDTHS_8(X, i) WIDTHS_8(X, i + 8) WIDTHS_8(X, i + 16) WIDTHS_8(X, i + 24)

#define UNPACK_CASE(w)                                                                             \
	case w:                                                                                        \
		for (uint32_t e = 0; e < neights; e++)                                                     \
		{                                                                                          \
			for (uint32_t k = 0; k < 8; k++)                                                       \
				out[8 * e + k] = base + (Number) unpack_one(p + (size_t) e * (w), w, k);           \
		}                                                                                          \
		break;

/* The rows [first, first + n) of PACKED or CODES, plus `add`, as numbers of type T */
#define UNPACK(name, T, widths)                                                                    \
	static void name(const GpuScanChunk *chunk, uint32_t first, uint32_t n, uint64_t add,          \
					 T *restrict out)                                                              \
	{                                                                                              \
		typedef T Number;                                                                          \
		uint32_t width = chunk->width;                                                             \
		Number base = (Number) add;                                                                \
		uint32_t neights;                                                                          \
		const char *p;                                                                             \
                                                                                                   \
		for (; n > 0 && first % 8 != 0; n--)                                                       \
			*out++ = base + (Number) gs_chunk_bits(chunk, first++);                                \
		neights = n / 8;                                                                           \
		p = gs_chunk_data(chunk) + first / 8 * width;                                              \
		switch (width)                                                                             \
		{                                                                                          \
			widths                                                                                 \
		}                                                                                          \
		for (uint32_t i = 8 * neights; i < n; i++)                                                 \
			out[i] = base + (Number) gs_chunk_bits(chunk, first + i);                              \
	}

UNPACK(unpack_u32, uint32_t, WIDTHS_32(UNPACK_CASE, 0))
UNPACK(unpack_u64, uint64_t, WIDTHS_32(UNPACK_CASE, 0) WIDTHS_32(UNPACK_CASE, 32) UNPACK_CASE(64))

/* Bits [first, first + n) of a bitmap as bytes; returns their union. */
static uint8_t
unpack_bits(const char *bitmap, uint32_t first, uint32_t n, uint8_t *out)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < n; i += 8)
	{
		const uint8_t *p = (const uint8_t *) bitmap + (first + i) / 8;
		uint64_t byte = (uint8_t) ((p[0] | p[1] << 8) >> (first + i) % 8);
		/* bit k alone in byte k, then made 1 */
		uint64_t spread = byte * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
		uint64_t ones = (spread + UINT64_C(0x7F7F7F7F7F7F7F7F)) >> 7 & UINT64_C(0x0101010101010101);

		if (n - i < 8)
			ones &= ((uint64_t) 1 << 8 * (n - i)) - 1;
		memcpy(out + i, &ones, n - i < 8 ? n - i : 8);
		any |= ones;
	}
	return any != 0;
}

uint8_t
gpuscan_columns_flags(const GpuScanChunk *chunk, uint32_t first, uint32_t n, uint8_t *flags)
{
	if (chunk->nnulls == 0 || n == 0)
		return 0;
	if (chunk->nulls != 0)
		return unpack_bits((const char *) chunk + chunk->nulls, first, n, flags) * GPUSCAN_NULL;
	memset(flags, GPUSCAN_NULL, n);
	return GPUSCAN_NULL;
}

void
gpuscan_columns_codes(const GpuScanChunk *chunk, uint32_t first, uint32_t n, uint32_t *codes)
{
	unpack_u32(chunk, first, n, chunk->base[0], codes);
}

/*
 * One case for each class but TEXT: its type, and the function of chunk.h
 */
#define EACH_NUMBER_CLASS(CASE)                                                                    \
	CASE(GPUSCAN_BOOL, uint8_t, gs_chunk_bool)                                                     \
	CASE(GPUSCAN_I32, int32_t, gs_chunk_i32)                                                       \
	CASE(GPUSCAN_I64, int64_t, gs_chunk_i64)                                                       \
	CASE(GPUSCAN_I128, gs_i128, gs_chunk_i128)                                                     \
	CASE(GPUSCAN_F32, float, gs_chunk_f32)                                                         \
	CASE(GPUSCAN_F64, double, gs_chunk_f64)

static void
decode_constant(const GpuScanChunk *chunk, uint32_t n, void *values)
{
#define CONSTANT(cls, T, read)                                                                     \
	case cls:                                                                                      \
	{                                                                                              \
		T value = read(chunk, NULL, 0);                                                            \
		T *out = values;                                                                           \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
			out[i] = value;                                                                        \
		break;                                                                                     \
	}

	switch (chunk->cls)
	{
		EACH_NUMBER_CLASS(CONSTANT)
		CONSTANT(GPUSCAN_TEXT, GsText, gs_chunk_text)
	}
}

static void
decode_packed(const GpuScanChunk *chunk, uint32_t first, uint32_t n, void *values)
{
	switch (chunk->cls)
	{
		case GPUSCAN_BOOL:
			/* 0 or 1, of one bit */
			unpack_bits(gs_chunk_data(chunk), first, n, values);
			break;
		case GPUSCAN_I32:
			unpack_u32(chunk, first, n, chunk->base[0], values);
			break;
		case GPUSCAN_I64:
			unpack_u64(chunk, first, n, chunk->base[0], values);
			break;
		default:
			for (uint32_t done = 0, some; done < n; done += some)
			{
				gs_u128 *out = (gs_u128 *) values + done;
				gs_u128 base = *(const gs_u128 *) chunk->base;
				uint64_t low[BLOCK];

				some = n - done < BLOCK ? n - done : BLOCK;
				unpack_u64(chunk, first + done, some, 0, low);
				for (uint32_t i = 0; i < some; i++)
					out[i] = base + low[i];
			}
			break;
	}
}

static void
decode_raw(const GpuScanChunk *chunk, uint32_t first, uint32_t n, void *values)
{
	const void *in_place = gpuscan_columns_in_place(chunk, first);

	if (in_place != NULL)
		memcpy(values, in_place, (size_t) n * gpuscan_columns_value_size[chunk->cls]);
	else
	{
		for (uint32_t i = 0; i < n; i++)
			((GsText *) values)[i] = gs_chunk_text(chunk, NULL, first + i);
	}
}

static void
decode_codes(const GpuScanChunk *chunk, const GpuScanDictionary *dictionary, uint32_t first,
			 uint32_t n, void *values)
{
	GsValues own = gpuscan_dictionary_values(dictionary);
	uint32_t codes[BLOCK];

#define LOOK_UP(cls, T, read)                                                                      \
	case cls:                                                                                      \
		for (uint32_t i = 0; i < some; i++)                                                        \
			((T *) values)[done + i] = ((const T *) own.data)[codes[i]];                           \
		break;

	for (uint32_t done = 0, some; done < n; done += some)
	{
		some = n - done < BLOCK ? n - done : BLOCK;
		gpuscan_columns_codes(chunk, first + done, some, codes);
		switch (chunk->cls)
		{
			EACH_NUMBER_CLASS(LOOK_UP)
			case GPUSCAN_TEXT:
				for (uint32_t i = 0; i < some; i++)
					((GsText *) values)[done + i] = gs_text_at(&own, codes[i]);
				break;
		}
	}
}

uint8_t
gpuscan_columns_decode(const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
					   uint32_t first, uint32_t n, void *values, uint8_t *flags)
{
	switch (chunk->encoding)
	{
		case GPUSCAN_ENCODING_CONSTANT:
			decode_constant(chunk, n, values);
			break;
		case GPUSCAN_ENCODING_PACKED:
			decode_packed(chunk, first, n, values);
			break;
		case GPUSCAN_ENCODING_RAW:
			decode_raw(chunk, first, n, values);
			break;
		default:
			decode_codes(chunk, dictionary, first, n, values);
			break;
	}
	return gpuscan_columns_flags(chunk, first, n, flags);
}

uint8_t
gpuscan_columns_decode_rows(const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
							const uint16_t *rows, uint32_t n, void *values, uint8_t *flags)
{
	GsValues own = {NULL, NULL};
	uint8_t any = 0;

	if (dictionary != NULL)
		own = gpuscan_dictionary_values(dictionary);
	switch (chunk->cls)
	{
#define READ_ROWS(cls, T, read)                                                                    \
	case cls:                                                                                      \
		for (uint32_t i = 0; i < n; i++)                                                           \
			((T *) values)[i] = read(chunk, &own, rows[i]);                                        \
		break;

		EACH_NUMBER_CLASS(READ_ROWS)
		READ_ROWS(GPUSCAN_TEXT, GsText, gs_chunk_text)
	}
	if (chunk->nnulls == 0)
		return 0;
	for (uint32_t i = 0; i < n; i++)
	{
		flags[i] = gs_chunk_flags(chunk, rows[i]);
		any |= flags[i];
	}
	return any;
}
