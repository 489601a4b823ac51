/*-------------------------------------------------------------------------
 *
 * driver.h
 *	  The functions of the CUDA driver, of NVRTC and of NVTX that we call,
 *	  opened at run time.
 *
 * There is no link-time dependency on CUDA, nor on its headers: what we need of
 * cuda.h and nvrtc.h is declared here, as their stable binary interface has it.
 * The libraries are opened once per process and stay open.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_DRIVER_H
#define GPUSCAN_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

#define CUDA_SUCCESS 0
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED 712
#define CU_STREAM_NON_BLOCKING 1
#define CU_EVENT_DISABLE_TIMING 2
#define CU_MEMHOSTALLOC_PORTABLE 1
#define CU_MEMHOSTREGISTER_PORTABLE 1
#define CU_MEMPOOL_ATTR_RELEASE_THRESHOLD 4
#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT 16
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR 75
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR 76

/* F(member, name in the library, arguments) */
#define CUDA_DRIVER_FUNCTIONS(F)                                                                   \
	F(init, cuInit, (unsigned flags))                                                              \
	F(device_get_count, cuDeviceGetCount, (int *count))                                            \
	F(device_get, cuDeviceGet, (CUdevice * device, int ordinal))                                   \
	F(device_get_name, cuDeviceGetName, (char *name, int size, CUdevice device))                   \
	F(device_total_memory, cuDeviceTotalMem_v2, (size_t * size, CUdevice device))                  \
	F(device_get_attribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))    \
	F(primary_context_retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))    \
	F(primary_context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                    \
	F(context_set_current, cuCtxSetCurrent, (CUcontext context))                                   \
	F(default_pool, cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device))             \
	F(pool_set_attribute, cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value))  \
	F(pool_trim, cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep))                                \
	F(alloc_async, cuMemAllocAsync, (CUdeviceptr * pointer, size_t size, CUstream stream))         \
	F(free_async, cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream))                          \
	F(host_alloc, cuMemHostAlloc, (void **pointer, size_t size, unsigned flags))                   \
	F(host_free, cuMemFreeHost, (void *pointer))                                                   \
	F(host_register, cuMemHostRegister_v2, (void *pointer, size_t size, unsigned flags))           \
	F(host_unregister, cuMemHostUnregister, (void *pointer))                                       \
	F(host_get_device_pointer, cuMemHostGetDevicePointer_v2,                                       \
	  (CUdeviceptr * pointer, void *host, unsigned flags))                                         \
	F(copy_to_host, cuMemcpyDtoHAsync_v2,                                                          \
	  (void *dst, CUdeviceptr src, size_t size, CUstream stream))                                  \
	F(copy_to_device, cuMemcpyHtoDAsync_v2,                                                        \
	  (CUdeviceptr dst, const void *src, size_t size, CUstream stream))                            \
	F(copy_on_device, cuMemcpyDtoDAsync_v2,                                                        \
	  (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream))                            \
	F(fill, cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t size, CUstream stream)) \
	F(stream_create, cuStreamCreateWithPriority,                                                   \
	  (CUstream * stream, unsigned flags, int priority))                                           \
	F(stream_destroy, cuStreamDestroy_v2, (CUstream stream))                                       \
	F(stream_synchronize, cuStreamSynchronize, (CUstream stream))                                  \
	F(stream_wait_event, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))      \
	F(event_create, cuEventCreate, (CUevent * event, unsigned flags))                              \
	F(event_destroy, cuEventDestroy_v2, (CUevent event))                                           \
	F(event_record, cuEventRecord, (CUevent event, CUstream stream))                               \
	F(event_elapsed, cuEventElapsedTime, (float *ms, CUevent start, CUevent end))                  \
	F(module_load, cuModuleLoadData, (CUmodule * module, const void *image))                       \
	F(module_unload, cuModuleUnload, (CUmodule module))                                            \
	F(module_get_function, cuModuleGetFunction,                                                    \
	  (CUfunction * function, CUmodule module, const char *name))                                  \
	F(function_set_attribute, cuFuncSetAttribute, (CUfunction function, int attribute, int value)) \
	F(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                      \
	  (int *blocks, CUfunction function, int threads, size_t shared))                              \
	F(launch, cuLaunchKernel,                                                                      \
	  (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
	   unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,        \
	   void **extra))                                                                              \
	F(get_error_name, cuGetErrorName, (CUresult error, const char **name))

#define CUDA_NVRTC_FUNCTIONS(F)                                                                    \
	F(version, nvrtcVersion, (int *major, int *minor))                                             \
	F(create_program, nvrtcCreateProgram,                                                          \
	  (nvrtcProgram * program, const char *source, const char *name, int nheaders,                 \
	   const char *const *headers, const char *const *names))                                      \
	F(destroy_program, nvrtcDestroyProgram, (nvrtcProgram * program))                              \
	F(compile_program, nvrtcCompileProgram,                                                        \
	  (nvrtcProgram program, int noptions, const char *const *options))                            \
	F(get_cubin_size, nvrtcGetCUBINSize, (nvrtcProgram program, size_t * size))                    \
	F(get_cubin, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin))                               \
	F(get_log_size, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * size))                 \
	F(get_log, nvrtcGetProgramLog, (nvrtcProgram program, char *log))

#define CUDA_NVTX_FUNCTIONS(F)                                                                     \
	F(range_push, nvtxRangePushA, (const char *name))                                              \
	F(range_pop, nvtxRangePop, (void) )

#define CUDA_MEMBER(member, name, args) int(*member) args;

typedef struct CudaDriver
{
	CUDA_DRIVER_FUNCTIONS(CUDA_MEMBER)
} CudaDriver;

typedef struct CudaNvrtc
{
	CUDA_NVRTC_FUNCTIONS(CUDA_MEMBER)
} CudaNvrtc;

/* NULLs where no profiler has asked for ranges */
typedef struct CudaNvtx
{
	CUDA_NVTX_FUNCTIONS(CUDA_MEMBER)
} CudaNvtx;

#undef CUDA_MEMBER

extern CudaDriver gpuscan_cuda;
extern CudaNvrtc gpuscan_nvrtc;

/* Opens the libraries.  False: *error, a static string, says what is missing. */
extern bool gpuscan_cuda_driver_open(const char **error);
extern bool gpuscan_cuda_nvrtc_open(const char **error);

/* A range of this thread's time with a name, for profilers; ranges nest. */
extern void gpuscan_nvtx_push(const char *name);
extern void gpuscan_nvtx_pop(void);

#endif /* GPUSCAN_CUDA_DRIVER_H */
