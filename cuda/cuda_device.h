/*-------------------------------------------------------------------------
 *
 * cuda_device.h
 *	  What the files of the cuda device share.
 *
 * Every request is served by one lane: a host thread with streams and pinned
 * memory, which stays for the next request.  Up to CUDA_SLOTS launches of a
 * lane are under way at a time, each in a slot with a stream of its own; they
 * work on the same table, and only a table that grows waits for all of them.
 * Behind each launch the counters of the table and what it made of its tuples
 * come back in one piece.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_DEVICE_H
#define GPUSCAN_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "codegen.h"
#include "columns.h"
#include "driver.h"
#include "kernel_files.h"
#include "launch.h"

#define CUDA_SLOTS 3
#define CUDA_MAX_REGIONS 16

/* Blocks, and bytes of pinned memory, of one launch; a batch goes beyond if it is larger itself. */
#define CUDA_LAUNCH_BLOCKS 4096
#define CUDA_LAUNCH_PINNED ((size_t) 8 * 1024 * 1024)

/* Rows are copied to the host in pieces of this size. */
#define CUDA_WINDOW_SIZE ((size_t) 4 * 1024 * 1024)

/*
 * Compiled kernels, kernels.c
 */
typedef enum CudaKernelState
{
	CUDA_KERNELS_COMPILING,
	CUDA_KERNELS_READY,
	CUDA_KERNELS_FAILED
} CudaKernelState;

typedef struct CudaKernels
{
	struct CudaKernels *next; /* the one used last comes first */
	GpuScanDevice *device;
	CudaKernelState state; /* and the two above: under the cache's lock */
	uint32_t users;		   /* the same; the thread that compiles is one */
	char *text;
	GpuScanCode code; /* of a failure */
	CUmodule module;
	CUfunction run;	   /* over tuples of pages, or over cached columns */
	CUfunction rehash; /* and the following: NULL where there is none */
	CUfunction rehash_pairs;
	CUfunction anchor;
	CUfunction emit;
	uint64_t compile_ns; /* one of the two is how they were made */
	uint64_t read_ns;
	uint32_t threads;	 /* of a thread block of `run` */
	uint32_t max_grid;	 /* thread blocks that the device holds at a time */
	uint32_t slots_size; /* bytes of shared memory for groups, */
	uint32_t slots_grid; /* and thread blocks with them; 0: it has not so much */
} CudaKernels;

typedef struct CudaKernelCache
{
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a state, or `compiling` */
	CudaKernels *first;
	uint32_t n;
	uint32_t compiling; /* threads */
} CudaKernelCache;

/*
 * Compiles a text for an architecture.  *image is malloc'd; false: *log, if not
 * NULL, is malloc'd and says why.
 */
extern bool gpuscan_cuda_compile(const char *text, int major, int minor, char **image, size_t *size,
								 char **log);

extern void gpuscan_cuda_kernels_init(GpuScanDevice *device);

/* After the last request. */
extern void gpuscan_cuda_kernels_free_all(GpuScanDevice *device);

/*
 * Finds or compiles a request's kernels of a kind, if it has none yet;
 * GPUSCAN_CANCELLED if it is ended meanwhile.
 */
extern GpuScanCode gpuscan_cuda_kernels_get(GpuScanRequest *request, CudaKind kind);
extern void gpuscan_cuda_kernels_release(GpuScanDevice *device, CudaKernels *kernels);

/*
 * Lanes, lane.c
 */
typedef struct CudaSeek
{
	uint64_t *hits;
	uint32_t map_page;
	uint32_t nsegments;
	GpuScanCachedSegment *segments[];
} CudaSeek;

typedef struct CudaBatch
{
	struct CudaBatch *next;
	struct CudaBatch *next_fill; /* under the device's lock, as the following */
	uint32_t parts;				 /* that are not done: running it, and its columns */
	GpuScanCode code;
	GpuScanRequest *request;
	GpuScanBatch batch;
	CudaSeek *seek; /* instead of blocks, or NULL */
	uint32_t ndeferred;
} CudaBatch;

/* Where a request's memory on the device begins: what kernels tell the host */
typedef struct CudaReport
{
	CudaControl control;
	_Alignas(64) CudaResult results[CUDA_SLOTS + 1]; /* of the slots, and the table's kernels */
} CudaReport;

#define CUDA_TABLE_RESULT CUDA_SLOTS

typedef struct CudaSlot
{
	CUstream streams[CUDA_NUM_KINDS]; /* over pages has priority: the bus should not wait */
	CudaKind kind;					  /* of the last launch, as its stream */
	CUstream stream;
	CUevent start; /* of the last launch's kernel */
	CUevent stop;
	bool timed; /* its time is in the statistics */
	bool busy;
	CudaBatch *batches; /* of the launch */
	uint32_t nblocks;
	uint32_t ntuples;
	uint64_t bytes;		 /* that a launch moves */
	uint32_t generation; /* of the table at the launch */
	char *pinned;		 /* CudaBlock[], copies of places and blocks, outcomes */
	size_t pinned_size;
	uint8_t *outcomes; /* in `pinned` */
	CUdeviceptr outcome;
	size_t outcome_size;
	CudaResult *result;					  /* in the lane's reports */
	CUdeviceptr partials[CUDA_NUM_KINDS]; /* of thread blocks; 0: none has run */
	uint32_t npartials[CUDA_NUM_KINDS];	  /* of those that have run */

	/* Of a launch over cached columns */
	CudaSegment *segments; /* in `pinned` */
	uint64_t *hits;		   /* of a seek, behind them */
	uint32_t nsegments;
	uint32_t nranges;
	uint32_t pieces; /* of each range */
	CudaHints hints;
	CUdeviceptr cached; /* the segments' copy, and CudaProgress[], or words of a seek */
	size_t cached_size;
} CudaSlot;

typedef struct CudaLane
{
	struct CudaLane *next;
	GpuScanDevice *device;
	pthread_t thread;
	pthread_cond_t wake;
	GpuScanRequest *request; /* under the device's lock; NULL: idle */
	bool opened;			 /* streams and pinned memory are there */
	CUevent origin;			 /* from which the request's events are measured */
	CUstream stream;		 /* of everything but the slots' launches */
	CUevent ready;			 /* what the stream had to do when the last launch was started */
	CudaSlot slots[CUDA_SLOTS];
	CudaReport *reports; /* pinned: a copy for each CudaReport.results */
	char *window;		 /* pinned, CUDA_WINDOW_SIZE; what a request begins with, then its result */
} CudaLane;

extern bool gpuscan_cuda_is_ended(GpuScanRequest *request);

/* Has so much pinned memory in a slot, and what its tuples' outcomes take. */
extern GpuScanCode gpuscan_cuda_reserve(GpuScanRequest *request, CudaSlot *slot, size_t pinned);

/* Starts a request's kernel of the slot's kind. */
extern GpuScanCode gpuscan_cuda_run(GpuScanRequest *request, CudaSlot *slot, uint32_t grid,
									size_t shared, CudaLaunch *launch);

/* A part of a batch is done.  With the last one it is answered, if its request goes on, and freed. */
extern void gpuscan_cuda_answer(CudaBatch *batch, GpuScanCode code);

/* The thread of a lane. */
extern void *gpuscan_cuda_lane_main(void *lane);

/* Host memory that the device reads in place */
typedef struct CudaRegion
{
	const char *base;
	size_t size;
	CUdeviceptr address;
	bool registered; /* by this device, not by one that was opened before it */
} CudaRegion;

/*
 * What the server's log is to hear, message.c; under a lock of its own
 */
#define CUDA_MESSAGES 4
#define CUDA_MESSAGE_SIZE 1024

typedef struct CudaMessages
{
	pthread_mutex_t lock;
	uint32_t n;
	char text[CUDA_MESSAGES][CUDA_MESSAGE_SIZE];
} CudaMessages;

/* Puts a message down, cut to CUDA_MESSAGE_SIZE; it is lost where nobody takes the others. */
extern void gpuscan_cuda_say(GpuScanDevice *device, const char *head, const char *text);
extern bool gpuscan_cuda_take_message(GpuScanDevice *device, char *text, size_t size);

struct GpuScanDevice
{
	CUdevice device;
	CUcontext context;
	int major;
	int minor;
	int multiprocessors;
	char model[64];
	size_t memory_total;
	CUmemoryPool pool;
	uint64_t pool_limit; /* that the pool keeps; set by begin */
	_Atomic uint64_t memory_used;
	atomic_bool failed; /* the context can serve nobody any more */
	CudaMessages messages;
	CudaKernelCache kernels;
	CudaKernelFiles kernel_files; /* set before the first request */
	uint32_t nregions;			  /* set before the first request */
	CudaRegion regions[CUDA_MAX_REGIONS];
	CudaColumns columns;
	CudaFillers fillers;

	pthread_mutex_t lock;
	bool closing; /* under the lock, as is the list */
	CudaLane *lanes;
};

struct GpuScanRequest
{
	GpuScanDevice *device;
	CudaLane *lane;
	GpuScanRequestOptions options;
	CpuPlan *plan;
	atomic_bool cancel; /* the same as `ended`, for threads that make columns */

	/* Under the device's lock */
	bool ended;
	bool finishing;
	CudaBatch *first; /* batches that wait */
	CudaBatch *last;
	CudaBatch *seeks;	   /* that wait, in no order */
	uint32_t filling;	   /* threads that make columns now, */
	uint32_t fill_limit;   /* and may at a time */
	uint64_t fill_ns;	   /* that they took, */
	uint64_t fill_bytes;   /* and moved over the bus */
	CpuPartial **partials; /* of each of the device's threads, its own */
	GpuScanCachedSegment *
		*cached; /* segments, of which the first `cached_taken` do not wait any more */
	uint32_t ncached;
	uint32_t cached_taken;

	/* The lane's */
	GpuScanCode code; /* the first failure of an aggregation, or of the beginning */
	CudaSource source;
	CudaKernels *kernels[CUDA_NUM_KINDS]; /* those that it has needed */
	uint64_t used;						  /* bytes of device memory */
	GpuScanRequestStats stats;
	uint64_t timed_until; /* kernels are in the statistics up to here; ns from the lane's origin */
	CUdeviceptr fixed;	  /* CudaReport, CudaDistinct[], Program, addresses of layouts, layouts */
	size_t fixed_size;
	uint64_t program; /* there */
	uint64_t layouts;
	CudaTable table;
	CudaDistinct *distinct; /* the host's copy */
	uint32_t generation;	/* of the table: grows with it */
	bool finished;

	/* The result; once finished, fetch's */
	uint32_t nrows;
	uint64_t rows; /* in device memory, or 0 */
	char *row;	   /* the one without keys, in host memory */
	char *texts;   /* a copy of table.texts */
	size_t texts_used;
	uint32_t next_row;
	uint32_t window_first; /* the rows that the lane's window holds */
	uint32_t window_end;
};

extern uint64_t gpuscan_cuda_now_ns(void);

/*
 * Launches over cached columns, cached.c
 */
extern GpuScanCode
gpuscan_cuda_push_cached(GpuScanRequest *request, GpuScanCachedSegment *const *segments,
						 uint32_t nsegments);

/* Takes segments that wait and prepares a launch over them; clear the slot in any case. */
extern GpuScanCode gpuscan_cuda_cached_take(GpuScanRequest *request, CudaSlot *slot);
extern void gpuscan_cuda_cached_clear(GpuScanRequest *request, CudaSlot *slot);

/* Starts the kernel; `again`: over the tuples that wait. */
extern GpuScanCode
gpuscan_cuda_cached_start(GpuScanRequest *request, CudaSlot *slot, CudaLaunch *launch);

/*
 * Scans that look for blocks in cached columns, seek.c
 */
extern GpuScanCode gpuscan_cuda_seek(GpuScanRequest *request, const GpuScanSeek *seek);

/* Takes one that waits; NULL: none. */
extern CudaBatch *gpuscan_cuda_seek_take(GpuScanRequest *request);

/* True if there is no kernel for the request; then all blocks are wanted. */
extern bool gpuscan_cuda_seek_is_trivial(const GpuScanRequest *request);
extern void gpuscan_cuda_seek_find_all(const CudaSeek *seek);

/* Hands out what a launch that is over has found. */
extern void gpuscan_cuda_seek_hand_out(const CudaSlot *slot);

/* Maps a result of the driver; what cannot be recovered from marks the device. */
extern GpuScanCode gpuscan_cuda_code(GpuScanDevice *device, CUresult result);

/*
 * Memory of a request, memory.c, and its tables, table.c.  All on the lane's
 * stream.
 */
extern GpuScanCode gpuscan_cuda_alloc(GpuScanRequest *request, size_t size, CUdeviceptr *pointer);
extern void gpuscan_cuda_free(GpuScanRequest *request, CUdeviceptr pointer, size_t size);

/* Adds to a counter, unless it came to more than `limit`. */
extern bool gpuscan_cuda_charge(_Atomic uint64_t *used, size_t size, uint64_t limit);

/* The device's pool, and how many bytes it keeps of what was given back. */
extern bool gpuscan_cuda_pool_open(GpuScanDevice *device);
extern void gpuscan_cuda_pool_limit(GpuScanDevice *device, uint64_t limit);

extern GpuScanCode gpuscan_cuda_table_create(GpuScanRequest *request);
extern void gpuscan_cuda_table_free(GpuScanRequest *request);

/* Makes room where `full` says; no launch is under way. */
extern GpuScanCode gpuscan_cuda_table_grow(GpuScanRequest *request, uint32_t full);

/* Makes the result, when every launch is done. */
extern GpuScanCode gpuscan_cuda_table_finish(GpuScanRequest *request);

/* The kernels that work on the table alone: every kind has them */
extern const CudaKernels *gpuscan_cuda_table_kernels(const GpuScanRequest *request);

/* Their argument */
extern CudaLaunch gpuscan_cuda_table_launch(const GpuScanRequest *request);

/* One of CudaReport.results in device memory */
extern uint64_t gpuscan_cuda_result_at(const GpuScanRequest *request, uint32_t number);

extern GpuScanCode
gpuscan_cuda_fetch(GpuScanRequest *request, void *buf, size_t size, uint32_t *nrows);

/* Returns the code of a step that failed; CUDA: the driver's call as such a step, of `request`. */
#define TRY(expression)                                                                            \
	do                                                                                             \
	{                                                                                              \
		GpuScanCode try_code = (expression);                                                       \
                                                                                                   \
		if (try_code != GPUSCAN_OK)                                                                \
			return try_code;                                                                       \
	} while (0)

#define CUDA(call) gpuscan_cuda_code(request->device, gpuscan_cuda.call)

#endif /* GPUSCAN_CUDA_DEVICE_H */
