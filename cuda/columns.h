/*-------------------------------------------------------------------------
 *
 * columns.h
 *	  Cached columns of the cuda device: the memory that they lie in, the threads
 *	  that make them, and what is made of them for kernels.
 *
 * A chunk lies in device memory, or in pinned memory of the host that kernels
 * read in place; what the service holds is its header alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_COLUMNS_H
#define GPUSCAN_CUDA_COLUMNS_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "driver.h"
#include "launch.h"

struct CudaBatch;

/* The main thread's stream; the others, which do not block, neither wait for it nor it for them. */
#define CUDA_MAIN_STREAM NULL

/* Where something lies that kernels read; size 0: nowhere */
typedef struct CudaPlace
{
	uint64_t address; /* of pinned memory it is the host's too */
	size_t size;
	GpuScanTier tier;
} CudaPlace;

/*
 * Pinned memory in pieces of some size, pinned.c; under a lock of its own
 */
typedef struct CudaPinned
{
	pthread_mutex_t lock;
	pthread_mutex_t grows;			 /* taken before the other by who adds a piece */
	struct CudaPinnedPiece **pieces; /* by address */
	uint32_t npieces;
	uint32_t capacity;
	uint32_t nempty;
	uint32_t next; /* where to look first */
} CudaPinned;

extern void gpuscan_cuda_pinned_init(CudaPinned *pinned);
extern void gpuscan_cuda_pinned_close(CudaPinned *pinned);

/* Aligned to 512 bytes; NULL: out of memory. */
extern void *gpuscan_cuda_pinned_alloc(GpuScanDevice *device, size_t size);

/* True if pieces are empty that should be given back. */
extern bool gpuscan_cuda_pinned_free(GpuScanDevice *device, void *pointer, size_t size);

/* Gives empty pieces back but for one, which takes milliseconds for each. */
extern void gpuscan_cuda_pinned_trim(GpuScanDevice *device);

/*
 * Chunks, columns.c
 */
typedef struct CudaColumns
{
	_Atomic uint64_t used; /* bytes of device memory */
	uint64_t limit;		   /* of the last request that began; the main thread's */
	CudaPinned pinned;
	struct CudaKeptPages *kept; /* pieces of memory for pages; the main thread's */

	/* What is made of segments and dictionaries, segment.c */
	pthread_mutex_t lock;
	struct CudaMirror *mirrors; /* the one used last comes first */
} CudaColumns;

extern void gpuscan_cuda_columns_init(GpuScanDevice *device);
extern void gpuscan_cuda_columns_close(GpuScanDevice *device);

/*
 * Takes device memory if that leaves columns and everything within the limits,
 * else pinned memory.  False: there is neither.
 */
extern bool
gpuscan_cuda_columns_alloc(GpuScanDevice *device, CUstream stream, size_t size,
						   uint64_t columns_limit, uint64_t device_limit, CudaPlace *place);
extern void
gpuscan_cuda_columns_free(GpuScanDevice *device, CUstream stream, const CudaPlace *place);

/* A chunk's header for one that is at `place`, or NULL: out of memory. */
extern GpuScanChunk *gpuscan_cuda_chunk_header(const GpuScanChunk *chunk, const CudaPlace *place);

extern void gpuscan_cuda_free_chunk(GpuScanDevice *device, GpuScanChunk *chunk);
extern GpuScanChunk *
gpuscan_cuda_move_chunk(GpuScanDevice *device, GpuScanChunk *chunk, GpuScanTier tier);

/* Places for pages, CUDA_KEPT_SIZE bytes each. */
extern uint64_t
gpuscan_cuda_keep_pages(GpuScanDevice *device, uint32_t n, uint32_t page_size, uint64_t *places);

/*
 * What the headers of chunks say of an input: values are low .. high, none where that is
 * empty; of texts that have codes, the addresses of their offsets
 */
typedef struct CudaBounds
{
	int64_t low;
	int64_t high;
	bool unknown;
} CudaBounds;

/* To be widened */
#define CUDA_NO_BOUNDS ((CudaBounds){INT64_MAX, INT64_MIN, false})

/*
 * Makes of a segment what kernels read, if nobody has before; of a lane's thread.
 * *out but for `first` is what a launch needs.  Widens the bounds of each input.
 */
extern GpuScanCode
gpuscan_cuda_segment_prepare(GpuScanRequest *request, GpuScanCachedSegment *segment,
							 CudaSegment *out, CudaBounds *bounds);
extern void gpuscan_cuda_forget_segment(GpuScanDevice *device, GpuScanCachedSegment *segment);
extern void
gpuscan_cuda_forget_dictionary(GpuScanDevice *device, const GpuScanDictionary *dictionary);

/*
 * The threads that make columns, fill.c
 */
typedef struct CudaFiller
{
	GpuScanDevice *device;
	uint32_t number;
	pthread_t thread;
	CUstream stream; /* NULL: not there yet, as is `staging` */
	char *staging;	 /* pinned */
	size_t staged;	 /* bytes of it whose copies may be under way */
} CudaFiller;

/* Under the device's lock but for what is a thread's own */
typedef struct CudaFillers
{
	pthread_cond_t work;
	CudaFiller *threads;
	uint32_t nthreads;
	struct CudaBatch *first; /* batches that wait */
	bool trim;				 /* pinned memory is to be given back */
} CudaFillers;

/* False: out of memory, or of threads. */
extern bool gpuscan_cuda_fill_open(GpuScanDevice *device, uint32_t threads);

/* When no request is left, and `closing` is set. */
extern void gpuscan_cuda_fill_close(GpuScanDevice *device);

/* Has the columns of a batch made, which is answered when that is done too.  Under the lock. */
extern void gpuscan_cuda_fill_push(struct CudaBatch *batch);

/* Has pinned memory given back. */
extern void gpuscan_cuda_fill_trim(GpuScanDevice *device);

/* Drops the batches of a request that was ended, and waits for those that threads are at. */
extern void gpuscan_cuda_fill_end(GpuScanRequest *request);

#endif /* GPUSCAN_CUDA_COLUMNS_H */
