/*-------------------------------------------------------------------------
 *
 * codegen.h
 *	  From a Program and its layouts to CUDA C.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_CODEGEN_H
#define GPUSCAN_CUDA_CODEGEN_H

#include "device/cpu/cpu.h"
#include "launch.h"

/* More shapes of layouts than this are PostgreSQL's. */
#define CUDA_MAX_SHAPES 32

/* One COUNT_DISTINCT */
typedef struct CudaSourceDistinct
{
	uint32_t counter;	 /* its offset in a group's row */
	uint32_t entry_size; /* bytes of a pair of group and value */
} CudaSourceDistinct;

/* An extremum of an input that pieces may be passed over for (CudaSkip) */
typedef struct CudaSourceSkip
{
	uint16_t input;
	uint16_t agg;
	bool is_min;
} CudaSourceSkip;

/* What a kernel reads: each has a module of its own, compiled when it is first needed */
typedef enum CudaKind
{
	CUDA_PAGES,
	CUDA_CACHED
} CudaKind;

#define CUDA_NUM_KINDS 2

typedef struct CudaSource
{
	struct Generator *generator;
	uint16_t *shapes;  /* of each layout; malloc'd */
	uint32_t row_size; /* of a group's row on the device */
	uint32_t ndistinct;
	CudaSourceDistinct *distinct; /* malloc'd */
	bool has_texts;				  /* keys or distinct values are kept as texts */
	bool has_text_keys;
	bool has_sums; /* float sums that may have to be anchored anew */

	/* Of the kernel over cached columns */
	uint32_t threads;	 /* of a thread block; 0: there are too many columns for it */
	uint32_t nslots;	 /* of groups in shared memory; 0: they are not kept there */
	uint32_t slots_size; /* in bytes */
	bool numbered;		 /* groups may have numbers, by these inputs */
	uint16_t number_inputs[CUDA_NUMBERED_KEYS];
	uint32_t nskips;
	CudaSourceSkip skips[CUDA_SKIPS];
} CudaSource;

/* Lays everything out; free it in any case.  What it is made of stays in place until then. */
extern GpuScanCode gpuscan_cuda_source_create(CudaSource *source, const CpuPlan *plan,
											  const GpuScanRequestOptions *options);

/*
 * The kernels of a request, malloc'd; NULL: out of memory.  Two requests with the
 * same text are served by the same kernels, whatever their parameters.
 */
extern char *gpuscan_cuda_source_text(const CudaSource *source, CudaKind kind);
extern void gpuscan_cuda_source_free(CudaSource *source);

#endif /* GPUSCAN_CUDA_CODEGEN_H */
