/*-------------------------------------------------------------------------
 *
 * device.h
 *	  What a device does for the service.  No PostgreSQL here.
 *
 * Life of a request, all calls from the service's main thread:
 *
 *	 begin, then any number of push; each batch is answered by one batch_done,
 *	 which tells how many of its tuples are deferred.
 *	 For an aggregation, finish once every batch is answered; it is answered by
 *	 one finish_done; then fetch until it says that there is no more.
 *	 end at any time, also in the middle: the device stops working on the
 *	 request within 100 ms and calls ended once it will touch none of the
 *	 request's memory again.  batch_done and finish_done may be missing then.
 *
 * Callbacks come from device threads and may call nothing of PostgreSQL's.
 * Nothing here blocks for long; fetch copies at most one result chunk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_DEVICE_H
#define GPUSCAN_DEVICE_H

#include "columns/ranges.h"
#include "program/program.h"

typedef enum GpuScanCode
{
	GPUSCAN_OK = 0,
	GPUSCAN_LEFT_TO_POSTGRES, /* an error flag reached a result: run the replaced plan */
	GPUSCAN_OUT_OF_MEMORY,	  /* the request's limit, or the device's */
	GPUSCAN_CANCELLED,
	GPUSCAN_INVALID,	  /* the Program, a layout or a batch is not well formed */
	GPUSCAN_DEVICE_FAILED /* the device can serve nobody any more */
} GpuScanCode;

/* What became of one tuple of a batch. */
typedef enum GpuScanOutcome
{
	GPUSCAN_TUPLE_REJECTED, /* the filter was not true; an aggregation: seen */
	GPUSCAN_TUPLE_PASSED,	/* scan only: the filter was true */
	GPUSCAN_TUPLE_RECHECK,	/* scan only: PostgreSQL decides */
	GPUSCAN_TUPLE_DEFERRED	/* a needed value is compressed or out of line: not
							 * seen; PostgreSQL detoasts and pushes it again */
} GpuScanOutcome;

/* A tuple that was copied out of its page. */
typedef struct GpuScanStagedTuple
{
	uint32_t offset; /* of its header from the block's base, a multiple of 8 */
	uint32_t len;
} GpuScanStagedTuple;

/*
 * Tuples in one piece of memory: those of a heap page that `offsets` name by
 * line pointer number (from 1), the first `ntuples` of a page, or staged ones.
 * The device writes outcome[0 .. ntuples - 1].  All memory stays in place until batch_done (or
 * ended), but a page may change under a device whose request is being ended:
 * it checks each line pointer, header and length that it reads.
 *
 * A page with `kept` is put down there too, with the numbers of these line pointers.  Where
 * base is NULL, as it may be in an aggregation, they are read from there; there are no outcomes
 * then, but, if any tuple of the batch is deferred, a bit for each in
 * deferred[0 .. (ntuples - 1) / 64].
 */
typedef struct GpuScanBlock
{
	const char *base;
	uint32_t size; /* bytes at base: BLCKSZ for a page */
	uint32_t ntuples;
	uint32_t layout;				  /* index of the relation's layout */
	const uint16_t *offsets;		  /* NULL: line pointers 1 .. ntuples, or staged tuples */
	const GpuScanStagedTuple *staged; /* staged tuples, or NULL */
	uint8_t *outcome;
	uint64_t *deferred;
	uint64_t kept; /* one of keep_pages' places, or 0 */
	bool fills;	   /* its tuples go into the batch's columns too */
} GpuScanBlock;

/*
 * Columns to make of a batch besides running it: of each input of the Program,
 * the chunk of the tuples in the blocks that fill, in their order.  chunks and
 * unfit come as NULL and false.  A chunk goes back with free_chunk; one that is
 * missing could not be made for lack of memory, or, where `unfit` is set, because
 * of a value that has to be flagged or deferred.
 */
typedef struct GpuScanFill
{
	GpuScanDictionary *const *dictionaries; /* of each input, or NULL */
	GpuScanChunk **chunks;
	bool *unfit;
} GpuScanFill;

typedef struct GpuScanBatch
{
	uint32_t nblocks;
	uint32_t pad;
	const GpuScanBlock *blocks; /* stays in place until batch_done */
	const GpuScanFill *fill;	/* the same; or NULL */
	void *tag;
} GpuScanBatch;

/* Tuples of a range whose values lie in chunks: rows first .. first + n - 1. */
typedef struct GpuScanRows
{
	uint16_t first;
	uint16_t n;
} GpuScanRows;

typedef struct GpuScanCachedRange
{
	uint32_t number; /* of the map page's ranges, this one */
	uint32_t nruns;
	uint32_t nblocks; /* whose tuples they are */
	const uint16_t
		*ends; /* of each block of the range, the row behind its last one in the chunks */
	const GpuScanRows *runs;
	const GpuScanChunk *const *chunks; /* of each input of the Program */
	const GpuScanDictionary *const *dictionaries;
} GpuScanCachedRange;

/*
 * Ranges that share their dictionaries.  What a device has made of them to work
 * faster stays in `prepared`, for later requests of the same inputs, until
 * forget_segment; it is NULL at first.
 */
typedef struct GpuScanCachedSegment
{
	uint32_t map_page; /* whose ranges they are */
	uint32_t nranges;
	const GpuScanCachedRange *ranges;
	void *prepared;
} GpuScanCachedSegment;

/*
 * Cached ranges of a scan, to learn which blocks are worth reading.  There is a word for
 * each range of the map pages from `map_page` on, all 0; in that of a range the device sets the bit of each block that has a row which the
 * filter keeps, or whose filter ends in an error flag.
 */
typedef struct GpuScanSeek
{
	GpuScanCachedSegment *const *segments;
	uint32_t nsegments;
	uint32_t map_page;
	uint64_t *hits; /* stay in place until batch_done */
	void *tag;
} GpuScanSeek;

/* The words of a segment's map page, each range's at its number */
static inline uint64_t *
gpuscan_seek_hits(uint64_t *hits, uint32_t map_page, const GpuScanCachedSegment *segment)
{
	return hits + (size_t) (segment->map_page - map_page) * GPUSCAN_MAP_RANGES;
}

typedef struct GpuScanRequestStats
{
	uint64_t tuples; /* seen */
	uint64_t passed; /* the filter was true */
	uint64_t groups;
	uint64_t blocks_skipped; /* of cached ranges, by what their chunks say of their values */
	uint64_t busy_ns;		 /* summed over the device's threads */
	uint64_t memory;		 /* bytes held at the most */

	/* Of a device with a memory of its own that compiles Programs, else 0 */
	uint64_t bus_bytes;		 /* moved from and to the host's memory */
	uint64_t kernel_ns;		 /* that kernels ran over tuples */
	uint64_t compile_ns;	 /* that compiling took, if it was done for this request */
	uint64_t kernel_read_ns; /* the same of reading what was compiled before */
	uint64_t kernels_reused; /* 1: they were in memory */
} GpuScanRequestStats;

/*
 * A part of an aggregation's groups: those whose keys' hash is `number` in the
 * bits of `mask`, which is 2^n - 1.  {0, 0}: all of them.
 */
#define GPUSCAN_MAX_PASSES 64

typedef struct GpuScanPass
{
	uint32_t mask;
	uint32_t number;
} GpuScanPass;

typedef struct GpuScanRequestOptions
{
	const GpuScanProgram *program;		 /* checked; stays in place until ended */
	const GpuScanLayout *const *layouts; /* the same */
	uint32_t nlayouts;
	GpuScanPass pass;			  /* tuples of other groups are seen, and no more */
	uint32_t threads;			  /* at most so many of the device's threads */
	uint64_t tuples_expected;	  /* about so many will be pushed; 0: unknown */
	uint64_t groups_expected;	  /* of an aggregation; 0: unknown */
	uint64_t memory_limit;		  /* bytes of group tables and texts */
	uint64_t device_memory_limit; /* bytes of all requests together */
	uint64_t
		columns_limit; /* bytes of all columns in the device's own memory; more go to the host's */
	bool only_fills;   /* batches make columns, and nothing else comes of them */
	void *arg;
	void (*batch_done)(void *arg, void *tag, GpuScanCode code, uint32_t ndeferred);
	void (*finish_done)(void *arg, GpuScanCode code);
	void (*ended)(void *arg, const GpuScanRequestStats *stats);
} GpuScanRequestOptions;

typedef struct GpuScanDevice GpuScanDevice;
typedef struct GpuScanRequest GpuScanRequest;

typedef struct GpuScanDeviceStatus
{
	char model[64];			 /* empty: it has no name but its own */
	uint64_t memory_total;	 /* bytes */
	uint64_t memory_used;	 /* by requests and columns */
	uint64_t memory_columns; /* of it, where a device has a memory of its own */
} GpuScanDeviceStatus;

typedef struct GpuScanDeviceOps
{
	const char *name;
	uint32_t batch_blocks; /* a batch of so many keeps it at work without waiting */

	/* How many devices there are; 0: *error says why there is none. */
	int (*count)(const char **error);

	/* Opens device `number` with `threads` worker threads.  NULL: *error says why. */
	GpuScanDevice *(*open)(int number, uint32_t threads, const char **error);
	void (*status)(GpuScanDevice *device, GpuScanDeviceStatus *status);

	/*
	 * Takes what the device has to say to the server's log, the oldest first;
	 * false: no more.  NULL: it never says anything.  The main thread asks when a
	 * callback has woken it.
	 */
	bool (*take_message)(GpuScanDevice *device, char *text, size_t size);

	/* Ends every request, joins every thread.  Callbacks may still come. */
	void (*close)(GpuScanDevice *device);

	/* *request is set with GPUSCAN_OK alone; options is copied. */
	GpuScanCode (*begin)(GpuScanDevice *device, const GpuScanRequestOptions *options,
						 GpuScanRequest **request);
	GpuScanCode (*push)(GpuScanRequest *request, const GpuScanBatch *batch);

	/*
	 * Ranges of an aggregation whose columns are at hand, all of which stay in
	 * place until ended, but for the array of pointers.  No answer: finish waits
	 * for them, and tells of a failure.
	 */
	GpuScanCode (*push_cached)(GpuScanRequest *request, GpuScanCachedSegment *const *segments,
							   uint32_t nsegments);

	/*
	 * The same of a scan; answered by batch_done, as a batch is, with no tuples deferred.
	 * There is a range in one of the segments.
	 */
	GpuScanCode (*seek)(GpuScanRequest *request, const GpuScanSeek *seek);
	GpuScanCode (*finish)(GpuScanRequest *request);

	/*
	 * Copies whole group rows, with their texts behind them, into buf (8-byte
	 * aligned).  *nrows = 0 says that there are no more.  A row that does not
	 * fit an empty buffer gives GPUSCAN_OUT_OF_MEMORY.
	 */
	GpuScanCode (*fetch)(GpuScanRequest *request, void *buf, size_t size, uint32_t *nrows);
	void (*end)(GpuScanRequest *request);

	/*
	 * The columns that a device has made, which no request uses any more.
	 * move_chunk returns the chunk in another tier, and the old one is gone; NULL:
	 * there is no room, and it stays what it was.  Before a segment, a dictionary
	 * or a chunk of it is freed the device forgets it.  move_chunk and forget_dictionary
	 * are NULL for a device that keeps chunks right behind their headers.
	 */
	void (*free_chunk)(GpuScanDevice *device, GpuScanChunk *chunk);
	GpuScanChunk *(*move_chunk)(GpuScanDevice *device, GpuScanChunk *chunk, GpuScanTier tier);
	void (*forget_segment)(GpuScanDevice *device, GpuScanCachedSegment *segment);
	void (*forget_dictionary)(GpuScanDevice *device, const GpuScanDictionary *dictionary);

	/*
	 * Makes n places for pages of a size in the device's memory, up to close; returns the
	 * bytes that they take, or 0: it has no room for them, or keeps no pages of that size.
	 * What lies in a place is there when the batch is done.  NULL where that is of no use to
	 * the device.
	 */
	uint64_t (*keep_pages)(GpuScanDevice *device, uint32_t n, uint32_t page_size, uint64_t *places);

	/*
	 * Says that blocks will lie in this memory, which stays until close; before
	 * the first request.  NULL where that is of no use to the device.  A device
	 * serves blocks elsewhere too, more slowly.  Several devices may be told of
	 * the same memory; the first that was is the last to be closed.
	 */
	GpuScanCode (*register_memory)(GpuScanDevice *device, void *base, size_t size);

	/*
	 * Lets the device keep what it compiles in a directory, which it makes, up to
	 * so many bytes; before the first request.  NULL where it compiles nothing.
	 */
	void (*keep_kernels)(GpuScanDevice *device, const char *directory, uint64_t limit);
} GpuScanDeviceOps;

extern const GpuScanDeviceOps gpuscan_cpu_device;
extern const GpuScanDeviceOps gpuscan_cuda_device;

#endif /* GPUSCAN_DEVICE_H */
