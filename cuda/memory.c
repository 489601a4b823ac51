/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  Device memory of requests, taken and counted; that of columns is in columns.c.
 *
 * It comes from the driver's stream-ordered pool, which keeps what was given
 * back, up to the device's limit, so that most requests wait for no allocation.
 * A request that the driver has no memory for may find it there in pieces of
 * other sizes: the pool is made to let go of them before it is asked again.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

bool
gpuscan_cuda_pool_open(GpuScanDevice *device)
{
	return gpuscan_cuda.default_pool(&device->pool, device->device) == CUDA_SUCCESS;
}

void
gpuscan_cuda_pool_limit(GpuScanDevice *device, uint64_t limit)
{
	if (device->pool_limit == limit)
		return;
	device->pool_limit = limit;
	(void) gpuscan_cuda.pool_set_attribute(device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &limit);
}

bool
gpuscan_cuda_charge(_Atomic uint64_t *used, size_t size, uint64_t limit)
{
	if (atomic_fetch_add(used, size) + size <= limit)
		return true;
	atomic_fetch_sub(used, size);
	return false;
}

/* Counts memory against the limits of the request and of the device. */
static bool
charge(GpuScanRequest *request, size_t size)
{
	const GpuScanRequestOptions *options = &request->options;

	if (size > options->memory_limit || request->used > options->memory_limit - size ||
		!gpuscan_cuda_charge(&request->device->memory_used, size, options->device_memory_limit))
		return false;
	request->used += size;
	return true;
}

static void
uncharge(GpuScanRequest *request, size_t size)
{
	request->used -= size;
	atomic_fetch_sub(&request->device->memory_used, size);
}

GpuScanCode
gpuscan_cuda_alloc(GpuScanRequest *request, size_t size, CUdeviceptr *pointer)
{
	CUstream stream = request->lane->stream;
	CUresult result;
	GpuScanCode code;

	*pointer = 0;
	if (!charge(request, size))
		return GPUSCAN_OUT_OF_MEMORY;
	result = gpuscan_cuda.alloc_async(pointer, size, stream);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
	{
		(void) gpuscan_cuda.stream_synchronize(stream);
		(void) gpuscan_cuda.pool_trim(request->device->pool, 0);
		result = gpuscan_cuda.alloc_async(pointer, size, stream);
	}
	code = gpuscan_cuda_code(request->device, result);
	if (code != GPUSCAN_OK)
	{
		*pointer = 0;
		uncharge(request, size);
		return code;
	}
	if (request->used > request->stats.memory)
		request->stats.memory = request->used;
	return GPUSCAN_OK;
}

void
gpuscan_cuda_free(GpuScanRequest *request, CUdeviceptr pointer, size_t size)
{
	if (pointer == 0)
		return;
	(void) CUDA(free_async(pointer, request->lane->stream));
	uncharge(request, size);
}
