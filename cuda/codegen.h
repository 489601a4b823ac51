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

/* More shapes of layouts than this are PostgreSQL's. */
#define CUDA_MAX_SHAPES 32

/* One COUNT_DISTINCT */
typedef struct CudaSourceDistinct
{
	uint32_t counter;	 /* its offset in a group's row */
	uint32_t entry_size; /* bytes of a pair of group and value */
} CudaSourceDistinct;

typedef struct CudaSource
{
	char *text; /* malloc'd */
	size_t size;
	uint16_t *shapes;  /* of each layout; malloc'd */
	uint32_t row_size; /* of a group's row on the device */
	uint32_t ndistinct;
	CudaSourceDistinct *distinct; /* malloc'd */
	bool has_texts;				  /* keys or distinct values are kept as texts */
	bool has_text_keys;
	bool has_sums; /* float sums that may have to be anchored anew */
} CudaSource;

/*
 * Writes the kernels of a request.  Two requests with the same text are served
 * by the same kernels, whatever their parameters.
 */
extern GpuScanCode gpuscan_cuda_source_create(CudaSource *source, const CpuPlan *plan,
											  const GpuScanRequestOptions *options);
extern void gpuscan_cuda_source_free(CudaSource *source);

#endif /* GPUSCAN_CUDA_CODEGEN_H */
