/*-------------------------------------------------------------------------
 *
 * launch.h
 *	  What the host and a generated kernel tell each other.
 *
 * Read by gcc and by NVRTC.  Addresses are device addresses in a uint64_t, so
 * that both sides lay the structs out alike.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_LAUNCH_H
#define GPUSCAN_CUDA_LAUNCH_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

/*
 * Threads of a thread block; each of its warps works on a page of its own.  Kernels over columns
 * leave room for one such block on each multiprocessor, of so many registers a thread.
 */
#define CUDA_THREADS 64
#define CUDA_WARPS (CUDA_THREADS / 32)

/* A range of cached columns is worked on in so many pieces at most, each by a warp. */
#define CUDA_PIECES 8

/* Heap blocks of a range at the most: GPUSCAN_RANGE_BLOCKS */
#define CUDA_RANGE_BLOCKS 64

/* Blocks up to this size are copied to shared memory, larger ones read in place. */
#define CUDA_PAGE_SIZE 8192

/* In place of an outcome: the tuple waits for a larger table. */
#define CUDA_TUPLE_WAITS 0xFF

/* CudaLaunch.replicas: groups are not kept in shared memory */
#define CUDA_NOT_SHARED 0xFFFFFFFFU

/* CudaResult.full: what a tuple waits for */
#define CUDA_FULL_ROWS 1
#define CUDA_FULL_TEXTS 2
#define CUDA_FULL_SUMS 4	 /* windows of a float sum */
#define CUDA_FULL_DISTINCT 8 /* a table of count(DISTINCT) */

/* One GpuScanBlock; a multiple of 16 bytes, since copies follow an array of them */
typedef struct CudaBlock
{
	uint64_t base; /* 16-byte aligned */
	uint64_t
		places; /* uint16_t of line pointers, or GpuScanStagedTuple; 0: line pointers from 1 on */
	uint32_t size;
	uint32_t ntuples;
	uint32_t outcome; /* index of its first tuple's outcome */
	uint16_t layout;
	uint16_t shape; /* of the layout */
	uint64_t staged;
	uint64_t keep; /* where the page goes, and behind it its places; or 0 */
} CudaBlock;

/* A page that is kept, and a uint16_t for each line pointer that it can have; a multiple of 16 */
#define CUDA_KEPT_PLACES CUDA_PAGE_SIZE
#define CUDA_KEPT_SIZE (CUDA_PAGE_SIZE + 592)

/*
 * CudaColumn.flags: one of these, or none for `base` + a number of `width` bits, as RAW
 * has it with base 0, and CONSTANT with no bits
 */
#define CUDA_COLUMN_WIDE 1 /* the same of more than 32 bits, which may begin anywhere */
#define CUDA_COLUMN_CODES 2
#define CUDA_COLUMN_RAW 4	   /* of 128 bits, or a text */
#define CUDA_COLUMN_CONSTANT 8 /* a text */

/* And of all of them: not a number without a dictionary, or a text with one; low and high say something */
#define CUDA_COLUMN_UNUSUAL (1U << 28)
#define CUDA_COLUMN_BOUNDED (1U << 29)

/* And of NULLs, if there are any: there is a bitmap; it is all of them */
#define CUDA_COLUMN_HAS_NULLS (1U << 30)
#define CUDA_COLUMN_IS_NULL (1U << 31)

/* A chunk, open.  What every value needs comes first, in the order of wide loads. */
typedef struct CudaColumn
{
	uint64_t data;
	uint32_t width;
	uint32_t flags;
	uint64_t base;
	uint64_t mask;	 /* of `width` bits */
	uint64_t nulls;	 /* uint32_t[], the bitmap; or 0 */
	uint64_t values; /* CODES: the dictionary's; CONSTANT: the text; RAW texts count from it */
	union
	{
		uint64_t offsets;	/* CODES of texts: uint32_t[] */
		uint64_t base_high; /* of 128 bits */
	};
	int64_t low; /* least and greatest of those that are not NULL: first words of chunk.h's */
	int64_t high;
	uint32_t nrows;
	uint32_t nnulls;
} CudaColumn;

/*
 * A range of cached columns, GpuScanCachedRange, and a segment of them
 */
typedef struct CudaRange
{
	uint64_t runs; /* GpuScanRows[] */
	uint64_t ends; /* uint16_t[], of each block the row behind its last */
	uint16_t nruns;
	uint16_t nblocks; /* whose tuples they are */
	uint32_t nrows;	  /* of all runs */
} CudaRange;

typedef struct CudaSegment
{
	uint64_t ranges;  /* CudaRange[] */
	uint64_t columns; /* CudaColumn[], of each range and input */
	uint32_t nranges;
	uint32_t first; /* ranges of the request's segments before this one */
} CudaSegment;

/*
 * What the headers of a launch's chunks say of groups in shared memory.  Keys that are
 * inputs have numbers: 0 if NULL, else key - origin >> shift, which is at least 1.  Where there are few, each
 * group has a slot by its numbers.
 */
#define CUDA_NUMBERED_KEYS 4

typedef struct CudaNumbers
{
	int64_t origin;
	uint32_t shift;
	uint32_t count;
} CudaNumbers;

/*
 * And of extrema of inputs.  (code - origin) >> shift is known of a slot's, and tells of
 * most pieces that they change nothing.  Codes are those of states.h.
 */
#define CUDA_SKIPS 3
#define CUDA_SKIP_BITS 24 /* of a slot's quick word (shared.h), from this one on: for all of them */
#define CUDA_SKIP_FIRST 8

typedef struct CudaSkip
{
	uint64_t origin;
	uint32_t shift;
	uint32_t known;
} CudaSkip;

typedef struct CudaHints
{
	CudaNumbers keys[CUDA_NUMBERED_KEYS];
	CudaSkip skips[CUDA_SKIPS];
	uint32_t groups; /* that there can be by their numbers; 0: they have none */
	uint32_t pad;
} CudaHints;

/* What a launch made of its tuples */
typedef struct CudaResult
{
	uint32_t code; /* GpuScanCode */
	uint32_t full; /* CUDA_FULL_... */
	uint64_t waiting;
	uint64_t deferred;
	uint64_t passed;
	uint64_t cached;  /* tuples of columns that k_cached is done with */
	uint64_t skipped; /* blocks of ranges of which no tuple can pass the filter */
	uint32_t taken;	  /* pieces of ranges, by warps */
	uint32_t pad;
} CudaResult;

/* Rows of a thread that kernels over columns may take together, at most */
#define CUDA_BATCH_ROWS 2

/*
 * How far a piece of a range has come: its first `kept` tuples of those that the
 * filter keeps are done, and behind them all of the next batch but those of the masks, of
 * 32 tuples each, which wait; 0: everything is done
 */
typedef struct CudaProgress
{
	uint32_t kept;
	uint32_t seen; /* tuples of the piece that are in CudaResult.cached */
	uint32_t mask[CUDA_BATCH_ROWS];
} CudaProgress;

/*
 * A table of count(DISTINCT): pairs of claim word and value.  A claim holds the
 * group's row + 1 in its low half and 31 bits of the hash above.
 */
typedef struct CudaDistinct
{
	uint64_t entries;
	uint32_t mask; /* number of entries - 1 */
	uint32_t full; /* this one was */
} CudaDistinct;

/* The counters of a table, in device memory */
typedef struct CudaControl
{
	uint32_t nrows; /* may run beyond the capacity */
	uint32_t pad;
	uint64_t texts_used; /* the same */
} CudaControl;

/* The table of a request */
typedef struct CudaTable
{
	uint64_t control;
	uint64_t claims; /* of groups: hash << 32 | row + 1 */
	uint64_t rows;
	uint64_t texts;
	uint64_t distinct; /* CudaDistinct[] */
	uint64_t texts_size;
	uint32_t claims_mask;
	uint32_t max_rows;
} CudaTable;

/* The argument of k_run, and with the last members of k_cached */
typedef struct CudaLaunch
{
	CudaTable table;
	uint64_t program;
	uint64_t layouts; /* uint64_t[], addresses of GpuScanLayouts */
	uint64_t blocks;
	uint64_t outcome;
	uint64_t result;
	uint64_t partials; /* without keys: a group row for each thread block */
	uint32_t nblocks;
	uint32_t again; /* only tuples that wait */
	uint32_t pass_mask;
	uint32_t pass;	   /* a GpuScanPass */
	uint64_t segments; /* CudaSegment[] */
	uint64_t progress; /* CudaProgress[], of each piece; 0: no tuple can wait */
	uint64_t hits; /* of a scan: uint64_t[], of each range, a bit for each block that is wanted */
	uint32_t nsegments;
	uint32_t nranges;
	uint32_t pieces;   /* of each range */
	uint32_t stride;   /* between pieces that are taken one after the other */
	uint32_t replicas; /* of a group in shared memory, less 1; CUDA_NOT_SHARED: none */
	uint32_t numbered; /* groups have slots by their numbers */
	uint32_t pad;
	CudaHints hints;
} CudaLaunch;

#endif /* GPUSCAN_CUDA_LAUNCH_H */
