/*-------------------------------------------------------------------------
 *
 * device.c
 *	  The cuda device: opening it, and what the service's main thread calls.
 *
 * A request gets a lane (lane.c) when it begins, an idle one or a new one, and
 * keeps it until it is ended.  What the main thread and the lane share lies
 * under the device's mutex, which is held for a few instructions at a time.
 * begin does no more on the main thread than to take the Program apart; the
 * lane compiles it.
 *
 * Without a driver, a compiler or a device, open says which, and nothing else
 * happens.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "cuda_device.h"

#include <signal.h>
#include <stdlib.h>

GpuScanCode
gpuscan_cuda_code(GpuScanDevice *device, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return GPUSCAN_OK;
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return GPUSCAN_OUT_OF_MEMORY;
	if (!atomic_exchange(&device->failed, true))
	{
		const char *name = NULL;

		(void) gpuscan_cuda.get_error_name(result, &name);
		gpuscan_cuda_say(device, "a call of the CUDA driver failed", name);
	}
	return GPUSCAN_DEVICE_FAILED;
}

static int
cuda_count(const char **error)
{
	int count = 0;

	if (!gpuscan_cuda_driver_open(error) || !gpuscan_cuda_nvrtc_open(error))
		return 0;
	if (gpuscan_cuda.init(0) != CUDA_SUCCESS ||
		gpuscan_cuda.device_get_count(&count) != CUDA_SUCCESS || count <= 0)
	{
		*error = "there is no CUDA device";
		return 0;
	}
	return count;
}

static bool
open_context(GpuScanDevice *device, int number, const char **error)
{
	int count = cuda_count(error);

	if (count == 0)
		return false;
	if (number >= count || gpuscan_cuda.device_get(&device->device, number) != CUDA_SUCCESS)
	{
		*error = "there is no CUDA device of this number";
		return false;
	}
	if (gpuscan_cuda.device_get_name(device->model, sizeof(device->model), device->device) !=
			CUDA_SUCCESS ||
		gpuscan_cuda.device_total_memory(&device->memory_total, device->device) != CUDA_SUCCESS ||
		gpuscan_cuda.device_get_attribute(&device->major,
										  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
										  device->device) != CUDA_SUCCESS ||
		gpuscan_cuda.device_get_attribute(&device->minor,
										  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
										  device->device) != CUDA_SUCCESS ||
		gpuscan_cuda.device_get_attribute(&device->multiprocessors,
										  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
										  device->device) != CUDA_SUCCESS)
	{
		*error = "the CUDA device does not say what it is";
		return false;
	}
	if (device->major < 7)
	{
		*error = "the CUDA device is too old: compute capability 7.0 is needed";
		return false;
	}
	if (gpuscan_cuda.primary_context_retain(&device->context, device->device) != CUDA_SUCCESS)
	{
		*error = "the CUDA device gives no context";
		return false;
	}
	if (gpuscan_cuda.context_set_current(device->context) != CUDA_SUCCESS ||
		!gpuscan_cuda_pool_open(device))
	{
		(void) gpuscan_cuda.primary_context_release(device->device);
		*error = "the CUDA device's context cannot be used";
		return false;
	}
	return true;
}

static void cuda_close(GpuScanDevice *device);

static GpuScanDevice *
cuda_open(int number, uint32_t threads, const char **error)
{
	GpuScanDevice *device = calloc(1, sizeof(GpuScanDevice));

	if (device == NULL)
	{
		*error = "out of memory";
		return NULL;
	}
	if (!open_context(device, number, error))
	{
		free(device);
		return NULL;
	}
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->messages.lock, NULL);
	gpuscan_cuda_kernels_init(device);
	gpuscan_cuda_columns_init(device);
	if (!gpuscan_cuda_fill_open(device, threads))
	{
		cuda_close(device);
		*error = "could not create a thread";
		return NULL;
	}
	return device;
}

static void
cuda_status(GpuScanDevice *device, GpuScanDeviceStatus *status)
{
	memcpy(status->model, device->model, sizeof(status->model));
	status->memory_total = device->memory_total;
	status->memory_used = atomic_load(&device->memory_used);
	status->memory_columns = atomic_load(&device->columns.used);
}

/* Under the lock. */
static void
end_request(GpuScanRequest *request)
{
	request->ended = true;
	atomic_store(&request->cancel, true);
	pthread_cond_signal(&request->lane->wake);
}

static void
cuda_close(GpuScanDevice *device)
{
	CudaLane *lane;

	pthread_mutex_lock(&device->lock);
	device->closing = true;
	for (lane = device->lanes; lane != NULL; lane = lane->next)
	{
		if (lane->request != NULL)
			end_request(lane->request);
		pthread_cond_signal(&lane->wake);
	}
	pthread_mutex_unlock(&device->lock);

	for (lane = device->lanes; lane != NULL;)
	{
		CudaLane *next = lane->next;

		pthread_join(lane->thread, NULL);
		pthread_cond_destroy(&lane->wake);
		free(lane);
		lane = next;
	}
	gpuscan_cuda_fill_close(device);
	(void) gpuscan_cuda.context_set_current(device->context);
	gpuscan_cuda_kernels_free_all(device);
	gpuscan_cuda_columns_close(device);
	gpuscan_kernel_files_close(&device->kernel_files);
	for (uint32_t i = 0; i < device->nregions; i++)
	{
		if (device->regions[i].registered)
			(void) gpuscan_cuda.host_unregister((void *) (uintptr_t) device->regions[i].base);
	}
	(void) gpuscan_cuda.primary_context_release(device->device);
	pthread_mutex_destroy(&device->messages.lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static GpuScanCode
cuda_register_memory(GpuScanDevice *device, void *base, size_t size)
{
	CudaRegion *region = &device->regions[device->nregions];
	CUresult result;

	if (device->nregions == CUDA_MAX_REGIONS)
		return GPUSCAN_OUT_OF_MEMORY;
	if (gpuscan_cuda.context_set_current(device->context) != CUDA_SUCCESS)
		return GPUSCAN_INVALID;

	/* portable: what one device has registered is there for all */
	result = gpuscan_cuda.host_register(base, size, CU_MEMHOSTREGISTER_PORTABLE);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return GPUSCAN_INVALID;
	if (gpuscan_cuda.host_get_device_pointer(&region->address, base, 0) != CUDA_SUCCESS)
	{
		if (result == CUDA_SUCCESS)
			(void) gpuscan_cuda.host_unregister(base);
		return GPUSCAN_INVALID;
	}
	region->registered = result == CUDA_SUCCESS;
	region->base = base;
	region->size = size;
	device->nregions++;
	return GPUSCAN_OK;
}

static void
cuda_keep_kernels(GpuScanDevice *device, const char *directory, uint64_t limit)
{
	gpuscan_kernel_files_open(&device->kernel_files, directory, limit);
}

/* An idle lane, or a new one whose thread runs; NULL: out of memory.  Under the lock. */
static CudaLane *
find_lane(GpuScanDevice *device)
{
	CudaLane *lane = device->lanes;
	sigset_t all;
	sigset_t saved;
	int error;

	while (lane != NULL && lane->request != NULL)
		lane = lane->next;
	if (lane != NULL)
		return lane;
	lane = calloc(1, sizeof(CudaLane));
	if (lane == NULL)
		return NULL;
	lane->device = device;
	pthread_cond_init(&lane->wake, NULL);

	/* signals are for the caller's own thread */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	error = pthread_create(&lane->thread, NULL, gpuscan_cuda_lane_main, lane);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (error != 0)
	{
		pthread_cond_destroy(&lane->wake);
		free(lane);
		return NULL;
	}
	lane->next = device->lanes;
	device->lanes = lane;
	return lane;
}

static GpuScanCode
cuda_begin(GpuScanDevice *device, const GpuScanRequestOptions *options, GpuScanRequest **request)
{
	GpuScanRequest *r;

	if (atomic_load(&device->failed))
		return GPUSCAN_DEVICE_FAILED;
	r = calloc(1, sizeof(GpuScanRequest));
	if (r == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	r->device = device;
	r->options = *options;
	r->fill_limit = options->threads > 0 ? options->threads : device->fillers.nthreads;
	r->options.threads = 1; /* groups are put together by the lane alone */
	gpuscan_cuda_pool_limit(device, options->device_memory_limit);
	device->columns.limit = options->columns_limit;
	r->partials = calloc(device->fillers.nthreads, sizeof(CpuPartial *));
	r->plan = gpuscan_cpu_plan_create(&r->options);
	if (r->plan != NULL && r->partials != NULL)
	{
		pthread_mutex_lock(&device->lock);
		r->lane = find_lane(device);
		if (r->lane != NULL)
		{
			r->lane->request = r;
			pthread_cond_signal(&r->lane->wake);
		}
		pthread_mutex_unlock(&device->lock);
	}
	if (r->lane == NULL)
	{
		gpuscan_cpu_plan_free(r->plan);
		free(r->partials);
		free(r);
		return GPUSCAN_OUT_OF_MEMORY;
	}
	*request = r;
	return GPUSCAN_OK;
}

static GpuScanCode
cuda_push(GpuScanRequest *request, const GpuScanBatch *batch)
{
	CudaBatch *queued = malloc(sizeof(CudaBatch));

	if (queued == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	*queued = (CudaBatch){.request = request, .batch = *batch, .parts = 1};

	pthread_mutex_lock(&request->device->lock);
	if (request->last == NULL)
		request->first = queued;
	else
		request->last->next = queued;
	request->last = queued;
	if (batch->fill != NULL)
		gpuscan_cuda_fill_push(queued);
	pthread_cond_signal(&request->lane->wake);
	pthread_mutex_unlock(&request->device->lock);
	return GPUSCAN_OK;
}

static GpuScanCode
cuda_finish(GpuScanRequest *request)
{
	if (!request->options.program->aggregate)
		return GPUSCAN_INVALID;
	pthread_mutex_lock(&request->device->lock);
	request->finishing = true;
	pthread_cond_signal(&request->lane->wake);
	pthread_mutex_unlock(&request->device->lock);
	return GPUSCAN_OK;
}

static GpuScanCode
cuda_fetch(GpuScanRequest *request, void *buf, size_t size, uint32_t *nrows)
{
	GpuScanCode code;

	gpuscan_nvtx_push("gpuscan fetch");
	code = gpuscan_cuda_fetch(request, buf, size, nrows);
	gpuscan_nvtx_pop();
	return code;
}

static void
cuda_end(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;

	pthread_mutex_lock(&device->lock);
	end_request(request);
	pthread_mutex_unlock(&device->lock);
}

const GpuScanDeviceOps gpuscan_cuda_device = {
	.name = "cuda",
	.batch_blocks = 256,
	.count = cuda_count,
	.open = cuda_open,
	.status = cuda_status,
	.take_message = gpuscan_cuda_take_message,
	.close = cuda_close,
	.begin = cuda_begin,
	.push = cuda_push,
	.push_cached = gpuscan_cuda_push_cached,
	.seek = gpuscan_cuda_seek,
	.finish = cuda_finish,
	.fetch = cuda_fetch,
	.end = cuda_end,
	.free_chunk = gpuscan_cuda_free_chunk,
	.move_chunk = gpuscan_cuda_move_chunk,
	.forget_segment = gpuscan_cuda_forget_segment,
	.forget_dictionary = gpuscan_cuda_forget_dictionary,
	.keep_pages = gpuscan_cuda_keep_pages,
	.register_memory = cuda_register_memory,
	.keep_kernels = cuda_keep_kernels,
};
