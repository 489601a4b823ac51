/*-------------------------------------------------------------------------
 *
 * seek.c
 *	  Scans that look for blocks in cached columns.
 *
 * A seek is queued as a batch, apart from those of pages, and has a launch of its
 * own.  The kernel has a word for each range, which lie behind the segments in the slot's
 * memory, and come to pinned memory behind the kernel.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>

_Static_assert(CUDA_RANGE_BLOCKS == GPUSCAN_RANGE_BLOCKS, "as kernels have it");

GpuScanCode
gpuscan_cuda_seek(GpuScanRequest *request, const GpuScanSeek *from)
{
	size_t size = from->nsegments * sizeof(GpuScanCachedSegment *);
	CudaBatch *batch = malloc(sizeof(CudaBatch));
	CudaSeek *seek = malloc(sizeof(CudaSeek) + size);

	if (batch == NULL || seek == NULL)
	{
		free(batch);
		free(seek);
		return GPUSCAN_OUT_OF_MEMORY;
	}
	*seek =
		(CudaSeek){.hits = from->hits, .map_page = from->map_page, .nsegments = from->nsegments};
	memcpy(seek->segments, from->segments, size);
	*batch = (CudaBatch){.request = request, .batch = {.tag = from->tag}, .seek = seek, .parts = 1};

	pthread_mutex_lock(&request->device->lock);
	batch->next = request->seeks;
	request->seeks = batch;
	pthread_cond_signal(&request->lane->wake);
	pthread_mutex_unlock(&request->device->lock);
	return GPUSCAN_OK;
}

CudaBatch *
gpuscan_cuda_seek_take(GpuScanRequest *request)
{
	CudaBatch *batch;

	pthread_mutex_lock(&request->device->lock);
	batch = request->seeks;
	if (batch != NULL)
	{
		request->seeks = batch->next;
		batch->next = NULL;
	}
	pthread_mutex_unlock(&request->device->lock);
	return batch;
}

bool
gpuscan_cuda_seek_is_trivial(const GpuScanRequest *request)
{
	return request->source.threads == 0 || request->options.program->filter == GPUSCAN_NO_REGISTER;
}

void
gpuscan_cuda_seek_find_all(const CudaSeek *seek)
{
	for (uint32_t s = 0; s < seek->nsegments; s++)
	{
		uint64_t *hits = gpuscan_seek_hits(seek->hits, seek->map_page, seek->segments[s]);

		for (uint32_t r = 0; r < seek->segments[s]->nranges; r++)
			hits[seek->segments[s]->ranges[r].number] = UINT64_MAX;
	}
}

void
gpuscan_cuda_seek_hand_out(const CudaSlot *slot)
{
	const CudaSeek *seek = slot->batches->seek;
	const uint64_t *words = slot->hits;

	for (uint32_t s = 0; slot->nranges > 0 && s < seek->nsegments; s++)
	{
		uint64_t *hits = gpuscan_seek_hits(seek->hits, seek->map_page, seek->segments[s]);

		for (uint32_t r = 0; r < seek->segments[s]->nranges; r++)
			hits[seek->segments[s]->ranges[r].number] = *words++;
	}
}
