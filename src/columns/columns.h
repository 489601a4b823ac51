/*-------------------------------------------------------------------------
 *
 * columns.h
 *	  Cached columns: the values that one input has in a range of heap
 *	  blocks, encoded.  No PostgreSQL here.
 *
 * A range is GPUSCAN_RANGE_BLOCKS neighbouring heap blocks, at a multiple of
 * that number.  Of a range and an input (attribute, decoding, scale) there is
 * one GpuScanChunk: position-independent memory that can be copied to a device
 * as it is.  Its values are those that decoding a tuple would have put into a
 * register, in the order of blocks and line pointers; NULL is the only flag that
 * a cached value may have.
 *
 * Text, and values of few kinds, are codes of a dictionary that the column's
 * chunks share: append-only, so that a code once given stays.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COLUMNS_H
#define GPUSCAN_COLUMNS_H

#include "program/program.h"

#define GPUSCAN_RANGE_BLOCKS 64

/* At most so many tuples lie in a range of 8 kB pages (291 in each). */
#define GPUSCAN_RANGE_TUPLES (GPUSCAN_RANGE_BLOCKS * 291)

typedef enum GpuScanEncoding
{
	GPUSCAN_ENCODING_CONSTANT, /* one value, or NULL, for all rows */
	GPUSCAN_ENCODING_PACKED,   /* BOOL, I32, I64, and I128 whose range fits: value - base in `width` bits */
	GPUSCAN_ENCODING_RAW,	   /* the register's own representation */
	GPUSCAN_ENCODING_CODES	   /* `width` bits, a code of the column's dictionary */
} GpuScanEncoding;

typedef struct GpuScanChunk
{
	uint32_t size; /* of the whole, in bytes, a multiple of 16 */
	uint32_t nrows;
	uint32_t nnulls;
	uint8_t encoding; /* GpuScanEncoding */
	uint8_t cls;	  /* GpuScanClass of the register */
	uint8_t width;	  /* bits of a packed value or code, 0 .. 64 */
	uint8_t has_summary;
	uint32_t nulls; /* offset of a bitmap, bit set for NULL; 0: there are none */
	uint32_t data;	/* offset; 8-byte aligned, and readable 8 bytes beyond its end */
	uint64_t base[2]; /* PACKED: added to each value; CONSTANT: the value */
	uint64_t min[2];  /* of the values that are not NULL, where has_summary */
	uint64_t max[2];
} GpuScanChunk;

#endif /* GPUSCAN_COLUMNS_H */
