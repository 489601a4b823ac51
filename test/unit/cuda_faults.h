/*-------------------------------------------------------------------------
 *
 * cuda_faults.h
 *	  Calls of the CUDA driver that fail, one after the other.
 *
 * The functions of the driver are pointers in a table, and those that a request
 * calls are replaced by ones that count and fail at the Nth call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_FAULTS_H
#define GPUSCAN_CUDA_FAULTS_H

#include <pthread.h>

#include "../../cuda/driver.h"

#define ERROR_LAUNCH_FAILED 719

static CudaDriver real;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls;	 /* that could fail */
static int fail_at;	 /* the call that fails; 0: none */
static int error;	 /* and what it returns */
static int pieces;	 /* of device memory, and of pinned memory, allocated and not freed */
static bool persist; /* all calls from there on fail: a lost context stays lost */

/* What a call is to return instead of doing anything, or 0 */
static int
fault(bool allocates)
{
	int result = 0;

	pthread_mutex_lock(&lock);
	if (error != CUDA_ERROR_OUT_OF_MEMORY || allocates)
	{
		calls++;
		if (fail_at > 0 && (calls == fail_at || (persist && calls > fail_at)))
			result = error;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static void
count_piece(int n)
{
	pthread_mutex_lock(&lock);
	pieces += n;
	pthread_mutex_unlock(&lock);
}

static int
faulty_alloc_async(CUdeviceptr *pointer, size_t size, CUstream stream)
{
	int result = fault(true);

	if (result == 0)
		result = real.alloc_async(pointer, size, stream);
	if (result == 0)
		count_piece(1);
	return result;
}

static int
counted_free_async(CUdeviceptr pointer, CUstream stream)
{
	count_piece(-1);
	return real.free_async(pointer, stream);
}

static int
faulty_host_alloc(void **pointer, size_t size, unsigned flags)
{
	int result = fault(true);

	if (result == 0)
		result = real.host_alloc(pointer, size, flags);
	if (result == 0)
		count_piece(1);
	return result;
}

static int
counted_host_free(void *pointer)
{
	count_piece(-1);
	return real.host_free(pointer);
}

#define FAULTY(member, allocates, parameters, arguments)                                           \
	static int faulty_##member parameters                                                          \
	{                                                                                              \
		int result = fault(allocates);                                                             \
                                                                                                   \
		return result != 0 ? result : real.member arguments;                                       \
	}

FAULTY(module_load, true, (CUmodule * module, const void *image), (module, image))
FAULTY(stream_create, false, (CUstream * stream, unsigned flags, int priority),
	   (stream, flags, priority))
FAULTY(stream_synchronize, false, (CUstream stream), (stream))
FAULTY(copy_to_host, false, (void *dst, CUdeviceptr src, size_t size, CUstream stream),
	   (dst, src, size, stream))
FAULTY(copy_to_device, false, (CUdeviceptr dst, const void *src, size_t size, CUstream stream),
	   (dst, src, size, stream))
FAULTY(copy_on_device, false, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
	   (dst, src, size, stream))
FAULTY(fill, false, (CUdeviceptr dst, unsigned char value, size_t size, CUstream stream),
	   (dst, value, size, stream))
FAULTY(launch, false,
	   (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		unsigned bz, unsigned shared, CUstream stream, void **params, void **extra),
	   (function, gx, gy, gz, bx, by, bz, shared, stream, params, extra))

FAULTY(event_create, false, (CUevent * event, unsigned flags), (event, flags))
FAULTY(event_record, false, (CUevent event, CUstream stream), (event, stream))
FAULTY(stream_wait_event, false, (CUstream stream, CUevent event, unsigned flags),
	   (stream, event, flags))
FAULTY(event_elapsed, false, (float *ms, CUevent start, CUevent end), (ms, start, end))

static inline void
replace_functions(void)
{
	real = gpuscan_cuda;
	gpuscan_cuda.alloc_async = faulty_alloc_async;
	gpuscan_cuda.free_async = counted_free_async;
	gpuscan_cuda.host_alloc = faulty_host_alloc;
	gpuscan_cuda.host_free = counted_host_free;
	gpuscan_cuda.module_load = faulty_module_load;
	gpuscan_cuda.stream_create = faulty_stream_create;
	gpuscan_cuda.stream_synchronize = faulty_stream_synchronize;
	gpuscan_cuda.copy_to_host = faulty_copy_to_host;
	gpuscan_cuda.copy_to_device = faulty_copy_to_device;
	gpuscan_cuda.copy_on_device = faulty_copy_on_device;
	gpuscan_cuda.fill = faulty_fill;
	gpuscan_cuda.launch = faulty_launch;
	gpuscan_cuda.event_create = faulty_event_create;
	gpuscan_cuda.event_record = faulty_event_record;
	gpuscan_cuda.stream_wait_event = faulty_stream_wait_event;
	gpuscan_cuda.event_elapsed = faulty_event_elapsed;
}

#endif /* GPUSCAN_CUDA_FAULTS_H */
