/*-------------------------------------------------------------------------
 *
 * columns.c
 *	  Chunks of columns: where they lie, and that they go and move; and places for pages.
 *
 * Device memory comes from the driver's pool.  What columns take of it counts
 * with all else against the device's limit, and has a limit of its own below
 * that, so that group tables find room beside a cache that is full.
 *
 * The service's main thread frees and moves chunks that no request uses.  So
 * nothing has to wait for a kernel, and freeing waits for nothing at all.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>

typedef struct CudaKeptPages
{
	struct CudaKeptPages *next;
	CudaPlace place;
} CudaKeptPages;

void
gpuscan_cuda_columns_init(GpuScanDevice *device)
{
	gpuscan_cuda_pinned_init(&device->columns.pinned);
	pthread_mutex_init(&device->columns.lock, NULL);
}

void
gpuscan_cuda_columns_close(GpuScanDevice *device)
{
	CudaKeptPages *kept;

	while ((kept = device->columns.kept) != NULL)
	{
		device->columns.kept = kept->next;
		gpuscan_cuda_columns_free(device, CUDA_MAIN_STREAM, &kept->place);
		free(kept);
	}
	gpuscan_cuda_pinned_close(&device->columns.pinned);
	pthread_mutex_destroy(&device->columns.lock);
}

static bool
device_alloc(GpuScanDevice *device, CUstream stream, uint64_t columns_limit, uint64_t device_limit,
			 CudaPlace *place)
{
	CUdeviceptr pointer;
	CUresult result;

	if (!gpuscan_cuda_charge(&device->columns.used, place->size, columns_limit))
		return false;
	if (gpuscan_cuda_charge(&device->memory_used, place->size, device_limit))
	{
		result = gpuscan_cuda.alloc_async(&pointer, place->size, stream);
		if (gpuscan_cuda_code(device, result) == GPUSCAN_OK)
		{
			place->address = pointer;
			place->tier = GPUSCAN_TIER_DEVICE;
			return true;
		}
		atomic_fetch_sub(&device->memory_used, place->size);
	}
	atomic_fetch_sub(&device->columns.used, place->size);
	return false;
}

static bool
host_alloc(GpuScanDevice *device, CudaPlace *place)
{
	place->address = (uintptr_t) gpuscan_cuda_pinned_alloc(device, place->size);
	place->tier = GPUSCAN_TIER_HOST;
	return place->address != 0;
}

bool
gpuscan_cuda_columns_alloc(GpuScanDevice *device, CUstream stream, size_t size,
						   uint64_t columns_limit, uint64_t device_limit, CudaPlace *place)
{
	place->size = size;
	return device_alloc(device, stream, columns_limit, device_limit, place) ||
		   host_alloc(device, place);
}

void
gpuscan_cuda_columns_free(GpuScanDevice *device, CUstream stream, const CudaPlace *place)
{
	if (place->tier == GPUSCAN_TIER_HOST)
	{
		if (gpuscan_cuda_pinned_free(device, (void *) (uintptr_t) place->address, place->size))
			gpuscan_cuda_fill_trim(device);
		return;
	}
	(void) gpuscan_cuda_code(device, gpuscan_cuda.free_async(place->address, stream));
	atomic_fetch_sub(&device->columns.used, place->size);
	atomic_fetch_sub(&device->memory_used, place->size);
}

static CudaPlace
place_of(const GpuScanChunk *chunk)
{
	return (CudaPlace){chunk->address, chunk->size, (GpuScanTier) chunk->tier};
}

GpuScanChunk *
gpuscan_cuda_chunk_header(const GpuScanChunk *chunk, const CudaPlace *place)
{
	GpuScanChunk *header = malloc(sizeof(GpuScanChunk));

	if (header == NULL)
		return NULL;
	*header = *chunk;
	header->address = place->address;
	header->tier = place->tier;
	return header;
}

void
gpuscan_cuda_free_chunk(GpuScanDevice *device, GpuScanChunk *chunk)
{
	CudaPlace place;

	if (chunk == NULL)
		return;
	place = place_of(chunk);
	(void) gpuscan_cuda.context_set_current(device->context);
	gpuscan_cuda_columns_free(device, CUDA_MAIN_STREAM, &place);
	free(chunk);
}

GpuScanChunk *
gpuscan_cuda_move_chunk(GpuScanDevice *device, GpuScanChunk *chunk, GpuScanTier tier)
{
	CudaPlace from = place_of(chunk);
	CudaPlace to = {.size = chunk->size};
	CUresult result;

	if (from.tier == tier)
		return chunk;
	(void) gpuscan_cuda.context_set_current(device->context);
	if (tier == GPUSCAN_TIER_HOST)
	{
		if (!host_alloc(device, &to))
			return NULL;
		result = gpuscan_cuda.copy_to_host((void *) (uintptr_t) to.address, from.address, to.size,
										   CUDA_MAIN_STREAM);
	}
	else
	{
		if (!device_alloc(device, CUDA_MAIN_STREAM, device->columns.limit, device->pool_limit, &to))
			return NULL;
		result = gpuscan_cuda.copy_to_device(to.address, (void *) (uintptr_t) from.address, to.size,
											 CUDA_MAIN_STREAM);
	}
	if (result == CUDA_SUCCESS)
		result = gpuscan_cuda.stream_synchronize(CUDA_MAIN_STREAM);
	if (gpuscan_cuda_code(device, result) != GPUSCAN_OK)
	{
		gpuscan_cuda_columns_free(device, CUDA_MAIN_STREAM, &to);
		return NULL;
	}
	gpuscan_cuda_columns_free(device, CUDA_MAIN_STREAM, &from);
	chunk->address = to.address;
	chunk->tier = to.tier;
	return chunk;
}

uint64_t
gpuscan_cuda_keep_pages(GpuScanDevice *device, uint32_t n, uint32_t page_size, uint64_t *places)
{
	CudaKeptPages *kept = page_size == CUDA_PAGE_SIZE ? malloc(sizeof(CudaKeptPages)) : NULL;

	if (kept == NULL)
		return 0;
	kept->place.size = (size_t) n * CUDA_KEPT_SIZE;
	(void) gpuscan_cuda.context_set_current(device->context);
	if (!device_alloc(device, CUDA_MAIN_STREAM, device->columns.limit, device->pool_limit,
					  &kept->place))
	{
		free(kept);
		return 0;
	}
	/* other streams will use it */
	if (gpuscan_cuda_code(device, gpuscan_cuda.stream_synchronize(CUDA_MAIN_STREAM)) != GPUSCAN_OK)
	{
		gpuscan_cuda_columns_free(device, CUDA_MAIN_STREAM, &kept->place);
		free(kept);
		return 0;
	}
	kept->next = device->columns.kept;
	device->columns.kept = kept;
	for (uint32_t i = 0; i < n; i++)
		places[i] = kept->place.address + (uint64_t) i * CUDA_KEPT_SIZE;
	return kept->place.size;
}
