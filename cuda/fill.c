/*-------------------------------------------------------------------------
 *
 * fill.c
 *	  Columns of a batch, made by threads of the host.
 *
 * While the GPU runs a batch that fills, a thread of the device's decodes and
 * encodes its tuples as the cpu device does, puts the chunks into device memory
 * or, where that is full, into pinned memory, and hands out their headers.  The
 * batch is answered when both are done.
 *
 * A chunk that finds no room, or whose copy fails, is missing, and the query does
 * not care.
 *
 * Ending.  Batches that wait are dropped, and the request's lane waits for the
 * threads that are at its batches, a few milliseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <signal.h>
#include <stdlib.h>

/* More than the columns of most ranges have */
#define STAGING_SIZE ((size_t) 2 * 1024 * 1024)

/*
 * The queue.  Under the device's lock.
 */
void
gpuscan_cuda_fill_push(CudaBatch *batch)
{
	CudaFillers *fillers = &batch->request->device->fillers;
	CudaBatch **link = &fillers->first;

	while (*link != NULL)
		link = &(*link)->next_fill;
	*link = batch;
	batch->next_fill = NULL;
	batch->parts++;
	pthread_cond_signal(&fillers->work);
}

/* Takes the batch that waits longest of those whose request may have one more thread. */
static CudaBatch *
pop_batch(CudaFillers *fillers)
{
	CudaBatch **link = &fillers->first;
	CudaBatch *batch;

	while (*link != NULL && (*link)->request->filling >= (*link)->request->fill_limit)
		link = &(*link)->next_fill;
	batch = *link;
	if (batch != NULL)
		*link = batch->next_fill;
	return batch;
}

void
gpuscan_cuda_fill_end(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;
	CudaBatch **link = &device->fillers.first;
	CudaBatch *dropped = NULL;

	pthread_mutex_lock(&device->lock);
	while (*link != NULL)
	{
		CudaBatch *batch = *link;

		if (batch->request != request)
		{
			link = &batch->next_fill;
			continue;
		}
		*link = batch->next_fill;
		batch->next_fill = dropped;
		dropped = batch;
	}
	while (request->filling > 0)
		pthread_cond_wait(&request->lane->wake, &device->lock);
	pthread_mutex_unlock(&device->lock);

	while (dropped != NULL)
	{
		CudaBatch *next = dropped->next_fill;

		gpuscan_cuda_answer(dropped, GPUSCAN_CANCELLED);
		dropped = next;
	}
	for (uint32_t i = 0; i < device->fillers.nthreads; i++)
	{
		if (request->partials[i] != NULL)
			gpuscan_cpu_partial_free(request->partials[i]);
	}
	free(request->partials);
}

/*
 * Making columns
 */
static GpuScanCode
open_filler(CudaFiller *filler)
{
	GpuScanDevice *device = filler->device;

	if (filler->stream == NULL)
		TRY(gpuscan_cuda_code(
			device, gpuscan_cuda.stream_create(&filler->stream, CU_STREAM_NON_BLOCKING, 0)));
	if (filler->staging == NULL)
		TRY(gpuscan_cuda_code(device,
							  gpuscan_cuda.host_alloc((void **) &filler->staging, STAGING_SIZE,
													  CU_MEMHOSTALLOC_PORTABLE)));
	return GPUSCAN_OK;
}

static GpuScanCode
synchronize(CudaFiller *filler)
{
	filler->staged = 0;
	return gpuscan_cuda_code(filler->device, gpuscan_cuda.stream_synchronize(filler->stream));
}

/* Copies to device memory; done when the stream is. */
static GpuScanCode
copy(CudaFiller *filler, uint64_t address, const char *data, size_t size)
{
	while (size > 0)
	{
		size_t room = STAGING_SIZE - filler->staged;
		size_t n = size < room ? size : room;
		char *staging = filler->staging + filler->staged;

		if (room == 0)
		{
			TRY(synchronize(filler));
			continue;
		}
		memcpy(staging, data, n);
		filler->staged += n;
		TRY(gpuscan_cuda_code(filler->device,
							  gpuscan_cuda.copy_to_device(address, staging, n, filler->stream)));
		address += n;
		data += n;
		size -= n;
	}
	return GPUSCAN_OK;
}

/* Puts a chunk where kernels read it, and returns its header; NULL: it could not be done. */
static GpuScanChunk *
store(CudaFiller *filler, const GpuScanRequestOptions *options, const GpuScanChunk *chunk)
{
	GpuScanDevice *device = filler->device;
	CudaPlace place;
	GpuScanChunk *header;
	GpuScanCode code = GPUSCAN_OK;

	if (!gpuscan_cuda_columns_alloc(device, filler->stream, chunk->size, options->columns_limit,
									options->device_memory_limit, &place))
		return NULL;
	if (place.tier == GPUSCAN_TIER_HOST)
		memcpy((void *) (uintptr_t) place.address, chunk, chunk->size);
	else
		code = copy(filler, place.address, (const char *) chunk, chunk->size);
	header = code == GPUSCAN_OK ? gpuscan_cuda_chunk_header(chunk, &place) : NULL;
	if (header == NULL)
		gpuscan_cuda_columns_free(device, filler->stream, &place);
	return header;
}

/* Stores all chunks of a batch; returns how many bytes went over the bus. */
static uint64_t
store_all(CudaFiller *filler, const GpuScanRequestOptions *options, const GpuScanFill *fill)
{
	bool failed = open_filler(filler) != GPUSCAN_OK;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < options->program->ninputs; i++)
	{
		GpuScanChunk *chunk = fill->chunks[i];

		if (chunk == NULL)
			continue;
		fill->chunks[i] = failed ? NULL : store(filler, options, chunk);
		if (fill->chunks[i] != NULL && fill->chunks[i]->tier == GPUSCAN_TIER_DEVICE)
			bytes += chunk->size;
		free(chunk);
	}
	failed = failed || synchronize(filler) != GPUSCAN_OK;
	for (uint32_t i = 0; failed && i < options->program->ninputs; i++)
	{
		gpuscan_cuda_free_chunk(filler->device, fill->chunks[i]);
		fill->chunks[i] = NULL;
	}
	return bytes;
}

/* Whether the batch is well formed; where it is not the lane fails the request. */
static bool
batch_is_valid(const GpuScanRequest *request, const GpuScanBatch *batch)
{
	for (uint32_t i = 0; i < batch->nblocks; i++)
	{
		if (!gpuscan_cpu_block_is_valid(request->plan, &batch->blocks[i]))
			return false;
	}
	return batch->nblocks > 0;
}

/* Makes the columns of a batch; returns the same. */
static uint64_t
make_columns(CudaFiller *filler, CudaBatch *batch)
{
	GpuScanRequest *request = batch->request;
	CpuPartial **partial = &request->partials[filler->number];

	if (*partial == NULL)
		*partial = gpuscan_cpu_partial_create(request->plan, 0, NULL, &request->cancel);
	if (*partial == NULL || !batch_is_valid(request, &batch->batch))
		return 0;
	gpuscan_cpu_fill(*partial, &batch->batch);
	return store_all(filler, &request->options, batch->batch.fill);
}

/* Called and returns under the lock. */
static void
fill(CudaFiller *filler, CudaBatch *batch)
{
	GpuScanDevice *device = filler->device;
	GpuScanRequest *request = batch->request;
	uint64_t start = gpuscan_cuda_now_ns();
	uint64_t bytes;

	request->filling++;
	pthread_mutex_unlock(&device->lock);
	gpuscan_nvtx_push("gpuscan fill");
	bytes = make_columns(filler, batch);
	gpuscan_nvtx_pop();

	/* before the batch is answered, so that they are complete when all are */
	pthread_mutex_lock(&device->lock);
	request->fill_bytes += bytes;
	request->fill_ns += gpuscan_cuda_now_ns() - start;
	pthread_mutex_unlock(&device->lock);
	gpuscan_cuda_answer(batch, GPUSCAN_OK);

	pthread_mutex_lock(&device->lock);
	if (--request->filling == 0)
		pthread_cond_signal(&request->lane->wake);
}

static void
close_filler(CudaFiller *filler)
{
	if (filler->stream != NULL)
		(void) gpuscan_cuda.stream_destroy(filler->stream);
	if (filler->staging != NULL)
		(void) gpuscan_cuda.host_free(filler->staging);
}

static void *
filler_main(void *arg)
{
	CudaFiller *filler = arg;
	GpuScanDevice *device = filler->device;
	CudaFillers *fillers = &device->fillers;

	(void) gpuscan_cuda.context_set_current(device->context);
	pthread_mutex_lock(&device->lock);
	for (;;)
	{
		CudaBatch *batch = pop_batch(fillers);

		if (batch != NULL)
			fill(filler, batch);
		else if (fillers->trim)
		{
			fillers->trim = false;
			pthread_mutex_unlock(&device->lock);
			gpuscan_cuda_pinned_trim(device);
			pthread_mutex_lock(&device->lock);
		}
		else if (device->closing)
			break;
		else
			pthread_cond_wait(&fillers->work, &device->lock);
	}
	pthread_mutex_unlock(&device->lock);
	close_filler(filler);
	return NULL;
}

void
gpuscan_cuda_fill_trim(GpuScanDevice *device)
{
	pthread_mutex_lock(&device->lock);
	device->fillers.trim = true;
	pthread_cond_signal(&device->fillers.work);
	pthread_mutex_unlock(&device->lock);
}

bool
gpuscan_cuda_fill_open(GpuScanDevice *device, uint32_t threads)
{
	CudaFillers *fillers = &device->fillers;
	sigset_t all;
	sigset_t saved;

	if (threads == 0)
		threads = 1;
	fillers->threads = calloc(threads, sizeof(CudaFiller));
	if (fillers->threads == NULL)
		return false;
	pthread_cond_init(&fillers->work, NULL);

	/* signals are for the caller's own thread */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	for (; fillers->nthreads < threads; fillers->nthreads++)
	{
		CudaFiller *filler = &fillers->threads[fillers->nthreads];

		filler->device = device;
		filler->number = fillers->nthreads;
		if (pthread_create(&filler->thread, NULL, filler_main, filler) != 0)
			break;
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return fillers->nthreads == threads;
}

void
gpuscan_cuda_fill_close(GpuScanDevice *device)
{
	CudaFillers *fillers = &device->fillers;

	if (fillers->threads == NULL)
		return;
	pthread_mutex_lock(&device->lock);
	pthread_cond_broadcast(&fillers->work);
	pthread_mutex_unlock(&device->lock);
	for (uint32_t i = 0; i < fillers->nthreads; i++)
		pthread_join(fillers->threads[i].thread, NULL);
	pthread_cond_destroy(&fillers->work);
	free(fillers->threads);
}
