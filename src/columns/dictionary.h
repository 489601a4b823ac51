/*-------------------------------------------------------------------------
 *
 * dictionary.h
 *	  What the encoder asks of a dictionary, and how both see values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COLUMNS_DICTIONARY_H
#define GPUSCAN_COLUMNS_DICTIONARY_H

#include "columns/columns.h"
#include "program/bytes.h"

/* Bits that hold a number */
static inline uint32_t
bit_width(uint64_t number)
{
	return number == 0 ? 0 : 64 - (uint32_t) __builtin_clzll(number);
}

/* The two words of value i of an array of a class that is not TEXT, see chunk.h */
static inline gs_u128
value_words(GpuScanClass cls, const void *values, uint32_t i)
{
	switch (cls)
	{
		case GPUSCAN_BOOL:
			return ((const uint8_t *) values)[i];
		case GPUSCAN_I32:
			return (uint64_t) ((const int32_t *) values)[i];
		case GPUSCAN_F32:
			return ((const uint32_t *) values)[i];
		case GPUSCAN_I128:
			return ((const gs_u128 *) values)[i];
		default:
			return ((const uint64_t *) values)[i];
	}
}

/* Distinct values of one range, by their rows, each with its hash */
typedef struct Distinct
{
	uint32_t n;
	uint16_t rows[GPUSCAN_RANGE_TUPLES];
	uint32_t hashes[GPUSCAN_RANGE_TUPLES];
	uint32_t codes[GPUSCAN_RANGE_TUPLES]; /* for the dictionary to fill in */
} Distinct;

static inline uint32_t
hash_value(GpuScanClass cls, const void *values, uint32_t i)
{
	gs_u128 words;

	if (cls == GPUSCAN_TEXT)
	{
		GsText text = ((const GsText *) values)[i];

		return (uint32_t) (bytes_hash(text.p, text.len) >> 32);
	}
	words = value_words(cls, values, i);
	return (uint32_t) (bytes_mix((uint64_t) words, (uint64_t) (words >> 64)) >> 32);
}

static inline bool
texts_equal(GsText a, GsText b)
{
	return a.len == b.len && bytes_equal(a.p, b.p, a.len);
}

/*
 * Gives the codes of the values, adding those that are not there, if packed
 * codes of nrows rows and the values added take at most max_size bytes.  Else,
 * or if there is no room, false, and nothing is added.
 */
extern bool gpuscan_dictionary_codes(GpuScanDictionary *dictionary, const void *values,
									 Distinct *distinct, uint32_t nrows, uint64_t max_size);

#endif /* GPUSCAN_COLUMNS_DICTIONARY_H */
