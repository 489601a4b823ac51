/*-------------------------------------------------------------------------
 *
 * chunk.h
 *	  A chunk of a cached column: the format, and access to one of its values.
 *
 * A chunk holds the values of one input (attribute, decoding, scale) in a range
 * of heap blocks: what decoding a tuple would have put into a register, in the
 * order of blocks and line pointers.  NULL is the only flag that they may have.
 * It is position-independent, starts at a multiple of 16, and can be copied to
 * a device as it is.  Of one that lies elsewhere the host keeps the header, with
 * its `address` and `tier`.
 *
 *	 CONSTANT	one value, or all NULL
 *	 PACKED		BOOL, I32, I64, I128: base + an unsigned number of `width` bits
 *	 CODES		any class: base + a number of `width` bits is the value's code
 *				in the dictionary that the chunks of a column share
 *	 RAW		the register's own representation, or for TEXT offsets and bytes
 *
 * What stands in the place of a NULL is a value of the class.
 *
 * Read by gcc and by NVRTC, as scalar.h is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COLUMNS_CHUNK_H
#define GPUSCAN_COLUMNS_CHUNK_H

#include "scalar.h"

typedef enum GpuScanEncoding
{
	GPUSCAN_ENCODING_CONSTANT,
	GPUSCAN_ENCODING_PACKED,
	GPUSCAN_ENCODING_RAW,
	GPUSCAN_ENCODING_CODES
} GpuScanEncoding;

/* Where a chunk lies, if not behind its header: memory that the device reads in place */
typedef enum GpuScanTier
{
	GPUSCAN_TIER_DEVICE, /* its own */
	GPUSCAN_TIER_HOST	 /* the host's, pinned: a GPU reads it over the bus */
} GpuScanTier;

/*
 * A value is kept in two words, low and high, by its first bytes: int32_t is
 * sign-extended to 64 bits; a float is its own bits, those above it zero.
 *
 * The summary is in PostgreSQL's order: NaN above all others, zeros alike (of
 * zeros of both signs it has either).
 */
typedef struct GpuScanChunk
{
	uint32_t size; /* of the whole, in bytes, a multiple of 16 */
	uint32_t nrows;
	uint32_t nnulls;	 /* all of them: CONSTANT without a value */
	uint8_t encoding;	 /* GpuScanEncoding */
	uint8_t cls;		 /* GpuScanClass of the register */
	uint8_t width;		 /* of PACKED and CODES, 0 .. 64 */
	uint8_t has_summary; /* not for TEXT, nor where all are NULL */
	uint32_t nulls;		 /* offset of a bitmap in uint64_t, set for NULL; 0: none, or all */
	uint32_t data;		 /* offset, a multiple of 16; see below */
	uint64_t address;	 /* of the whole for the device, if it is not right here; else 0 */
	uint32_t tier;		 /* GpuScanTier */
	uint32_t pad[3];
	uint64_t base[2]; /* CONSTANT: the value, of TEXT the length; else see above */
	uint64_t min[2];
	uint64_t max[2];
} GpuScanChunk;

/*
 * At `data` lie, for
 *	 CONSTANT	of TEXT, the bytes
 *	 PACKED, CODES	bits in uint64_t, the lowest first, one more behind the last
 *	 RAW		the values, and a uint64_t behind them; for TEXT uint32_t[nrows + 1], the offsets from the
 *				chunk's start of each text and of the last one's end, and the bytes
 */

/* Values in a row: a dictionary's by code, or those of a RAW chunk. */
typedef struct GsValues
{
	const char *data;		 /* the values; for TEXT what offsets count from */
	const uint32_t *offsets; /* TEXT: where each begins, and the last ends */
} GsValues;

GS_FN const char *
gs_chunk_data(const GpuScanChunk *chunk)
{
	return (const char *) chunk + chunk->data;
}

/* The flags of a row */
GS_FN uint8_t
gs_chunk_flags(const GpuScanChunk *chunk, uint32_t row)
{
	if (chunk->nulls == 0)
		return chunk->nnulls > 0 ? GPUSCAN_NULL : 0;
	return (((const uint64_t *) ((const char *) chunk + chunk->nulls))[row >> 6] >> (row & 63)) & 1
			   ? GPUSCAN_NULL
			   : 0;
}

/* Number `row` of those of `width` bits in words */
GS_FN uint64_t
gs_unpack(const uint64_t *words, uint32_t width, uint32_t row)
{
	uint64_t bit = (uint64_t) row * width;
	uint32_t shift = (uint32_t) bit & 63;
	uint64_t low = words[bit >> 6] >> shift;
	uint64_t high = words[(bit >> 6) + 1] << 1 << (63 - shift);

	return (low | high) & (width == 0 ? 0 : ~(uint64_t) 0 >> (64 - width));
}

GS_FN uint64_t
gs_chunk_bits(const GpuScanChunk *chunk, uint32_t row)
{
	return gs_unpack((const uint64_t *) gs_chunk_data(chunk), chunk->width, row);
}

/* The code of a row, in CODES */
GS_FN uint32_t
gs_chunk_code(const GpuScanChunk *chunk, uint32_t row)
{
	return (uint32_t) (chunk->base[0] + gs_chunk_bits(chunk, row));
}

/* The value of a row: of its class's type, given the column's dictionary */
#define GS_CHUNK_VALUE(name, T, packed)                                                            \
	GS_FN T name(const GpuScanChunk *chunk, const GsValues *dictionary, uint32_t row)              \
	{                                                                                              \
		switch (chunk->encoding)                                                                   \
		{                                                                                          \
			case GPUSCAN_ENCODING_CONSTANT:                                                        \
				return *(const T *) chunk->base;                                                   \
			case GPUSCAN_ENCODING_PACKED:                                                          \
				return packed;                                                                     \
			case GPUSCAN_ENCODING_RAW:                                                             \
				return ((const T *) gs_chunk_data(chunk))[row];                                    \
			default:                                                                               \
				return ((const T *) dictionary->data)[gs_chunk_code(chunk, row)];                  \
		}                                                                                          \
	}

GS_CHUNK_VALUE(gs_chunk_bool, uint8_t, (uint8_t) (chunk->base[0] + gs_chunk_bits(chunk, row)))
GS_CHUNK_VALUE(gs_chunk_i32, int32_t, (int32_t) (chunk->base[0] + gs_chunk_bits(chunk, row)))
GS_CHUNK_VALUE(gs_chunk_i64, int64_t, (int64_t) (chunk->base[0] + gs_chunk_bits(chunk, row)))
GS_CHUNK_VALUE(gs_chunk_i128, gs_i128,
			   (gs_i128) (*(const gs_u128 *) chunk->base + gs_chunk_bits(chunk, row)))
GS_CHUNK_VALUE(gs_chunk_f32, float, 0) /* never packed */
GS_CHUNK_VALUE(gs_chunk_f64, double, 0)

GS_FN GsText
gs_text_at(const GsValues *values, uint32_t i)
{
	GsText text = {values->data + values->offsets[i], values->offsets[i + 1] - values->offsets[i]};

	return text;
}

GS_FN GsText
gs_chunk_text(const GpuScanChunk *chunk, const GsValues *dictionary, uint32_t row)
{
	GsValues raw = {(const char *) chunk, (const uint32_t *) gs_chunk_data(chunk)};
	GsText constant = {gs_chunk_data(chunk), (uint32_t) chunk->base[0]};

	switch (chunk->encoding)
	{
		case GPUSCAN_ENCODING_CONSTANT:
			return constant;
		case GPUSCAN_ENCODING_RAW:
			return gs_text_at(&raw, row);
		default:
			return gs_text_at(dictionary, gs_chunk_code(chunk, row));
	}
}

#endif /* GPUSCAN_COLUMNS_CHUNK_H */
