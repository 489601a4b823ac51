/*-------------------------------------------------------------------------
 *
 * columns.h
 *	  Cached columns: encoding values to chunks, dictionaries, decoding.
 *
 * A range is GPUSCAN_RANGE_BLOCKS neighbouring heap blocks (ranges.h).  Of a range and an input there is one GpuScanChunk (chunk.h).
 *
 * Values are given and returned as registers hold them: uint8_t, int32_t,
 * int64_t, __int128, float, double or GsText, and flags beside them.
 *
 * No PostgreSQL here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COLUMNS_H
#define GPUSCAN_COLUMNS_H

#include "columns/chunk.h"
#include "program/program.h"

#define GPUSCAN_RANGE_BLOCKS 64

/* At most so many tuples lie in a range of 8 kB pages (291 in each). */
#define GPUSCAN_RANGE_TUPLES (GPUSCAN_RANGE_BLOCKS * 291)

/* Bytes of a value in a register, by class; encode.c */
extern const uint8_t gpuscan_columns_value_size[GPUSCAN_NUM_CLASSES];

/*
 * The dictionary of a column (of one input), dictionary.c
 *
 * Append-only: a code once given stays, and so does the memory of its value,
 * until the dictionary is freed.  Whoever has a chunk reads the values of its
 * codes without a lock.  Its owner frees it after all its chunks.
 */
#define GPUSCAN_DICTIONARY_CODES 65536
#define GPUSCAN_DICTIONARY_TEXT (4 * 1024 * 1024) /* bytes of its texts in all */

typedef struct GpuScanDictionary GpuScanDictionary;

/* Any class but BOOL, which needs none.  NULL: out of memory. */
extern GpuScanDictionary *gpuscan_dictionary_create(GpuScanClass cls);
extern void gpuscan_dictionary_free(GpuScanDictionary *dictionary);

/* Bytes of memory that it has now; how many codes it has given. */
extern uint64_t gpuscan_dictionary_size(const GpuScanDictionary *dictionary);
extern uint32_t gpuscan_dictionary_count(const GpuScanDictionary *dictionary);

/* Where its values are, and stay; those of codes that a chunk has may be read. */
extern GsValues gpuscan_dictionary_values(const GpuScanDictionary *dictionary);

/*
 * Encodes n <= GPUSCAN_RANGE_TUPLES values, encode.c
 *
 * flags is NULL where there are none; each is 0 or GPUSCAN_NULL.  dictionary,
 * or NULL, is the column's; any number of threads may encode with it.  The
 * chunk is the caller's to free().  NULL: out of memory, or a chunk beyond 1 GB.
 */
extern GpuScanChunk *
gpuscan_columns_encode(GpuScanClass cls, const void *values, const uint8_t *flags, uint32_t n,
					   GpuScanDictionary *dictionary);

/*
 * Decodes the rows [first, first + n), decode.c
 *
 * Returns 0, or GPUSCAN_NULL where a row is NULL; only then flags are written.
 * Texts point into the chunk or the dictionary.  dictionary may be NULL where
 * the chunk's encoding is not CODES.
 */
extern uint8_t
gpuscan_columns_decode(const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
					   uint32_t first, uint32_t n, void *values, uint8_t *flags);

/* The same for rows[0 .. n - 1], numbers of rows in the chunk in any order. */
extern uint8_t
gpuscan_columns_decode_rows(const GpuScanChunk *chunk, const GpuScanDictionary *dictionary,
							const uint16_t *rows, uint32_t n, void *values, uint8_t *flags);

/* The codes of the rows [first, first + n) of CODES; of a NULL, any code that the chunk may have. */
extern void
gpuscan_columns_codes(const GpuScanChunk *chunk, uint32_t first, uint32_t n, uint32_t *codes);

/* The flags alone. */
extern uint8_t
gpuscan_columns_flags(const GpuScanChunk *chunk, uint32_t first, uint32_t n, uint8_t *flags);

/*
 * False if no row of a range, of whose inputs the chunks are, is one that the
 * Program's filter keeps or that it leaves to PostgreSQL, skip.c.
 */
extern bool
gpuscan_columns_may_pass(const GpuScanProgram *program, const GpuScanChunk *const *chunks);

/* True if the filter is known to keep all of them, or there is none. */
extern bool
gpuscan_columns_all_pass(const GpuScanProgram *program, const GpuScanChunk *const *chunks);

/* The values from row `first` on, where the chunk has them as registers do, or NULL. */
static inline const void *
gpuscan_columns_in_place(const GpuScanChunk *chunk, uint32_t first)
{
	if (chunk->encoding != GPUSCAN_ENCODING_RAW || chunk->cls == GPUSCAN_TEXT)
		return NULL;
	return gs_chunk_data(chunk) + (size_t) first * gpuscan_columns_value_size[chunk->cls];
}

#endif /* GPUSCAN_COLUMNS_H */
