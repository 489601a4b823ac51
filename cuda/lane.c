/*-------------------------------------------------------------------------
 *
 * lane.c
 *	  Serving requests: from batches to launches, and back to outcomes.
 *
 *	 set up the request: compile its kernels, upload the Program, make tables
 *	 until the request is ended
 *		gather the batches that wait into a launch, if a slot is free
 *		else complete the oldest launch
 *			while tuples wait for room: grow the tables, launch again
 *			hand outcomes out, answer the batches
 *		once everything is done and finish was called: make the result
 *
 * A block in registered memory is read in place by the kernel, any other is
 * copied to pinned memory first; so are its line pointers or staged places.
 *
 * A launch for which there is no memory is tried with its first batch alone.
 *
 * Order.  Memory is allocated, filled and freed on the lane's stream, and what a
 * request or a launch begins with is copied there.  The host waits for none of
 * that: before each kernel the slot's stream waits for an event of the lane's.
 * What is copied lies in pinned memory that stays as it is: a slot's until its
 * launch, which was behind the copy, is over, and the window until the same
 * stream copies the result there.  Before memory is freed the host has waited
 * for the kernels that use it.  A launch that fails, and a request that is taken
 * apart, wait for both streams; then nobody reads pinned memory any more.  That
 * there is no memory, the driver says at once, of the call; any other error of
 * what is under way loses the context, and comes out where the host waits.
 *
 * Ending.  A launch under way is waited for, since its kernel reads the
 * request's memory; it takes a few milliseconds at most.  Batches are not
 * answered any more.
 *
 * Failing.  A failed batch of an aggregation makes its result worthless: what
 * comes behind is answered with the same code.  An error of CUDA fails the
 * request, and if the context is lost the device.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>
#include <time.h>

uint64_t
gpuscan_cuda_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

bool
gpuscan_cuda_is_ended(GpuScanRequest *request)
{
	bool ended;

	pthread_mutex_lock(&request->device->lock);
	ended = request->ended;
	pthread_mutex_unlock(&request->device->lock);
	return ended;
}

static size_t
round_up(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

/*
 * Streams and pinned memory, which the lane keeps
 */
static GpuScanCode
open_lane(GpuScanRequest *request)
{
	CudaLane *lane = request->lane;

	if (lane->opened)
		return GPUSCAN_OK;
	if (lane->origin == NULL)
		TRY(CUDA(event_create(&lane->origin, 0)));
	if (lane->stream == NULL)
		TRY(CUDA(stream_create(&lane->stream, CU_STREAM_NON_BLOCKING, -1)));
	if (lane->ready == NULL)
		TRY(CUDA(event_create(&lane->ready, CU_EVENT_DISABLE_TIMING)));
	if (lane->reports == NULL)
		TRY(CUDA(host_alloc((void **) &lane->reports, (CUDA_SLOTS + 1) * sizeof(CudaReport),
							CU_MEMHOSTALLOC_PORTABLE)));
	for (int i = 0; i < CUDA_SLOTS; i++)
	{
		CudaSlot *slot = &lane->slots[i];

		for (int kind = 0; kind < CUDA_NUM_KINDS; kind++)
		{
			if (slot->streams[kind] == NULL)
				TRY(CUDA(stream_create(&slot->streams[kind], CU_STREAM_NON_BLOCKING,
									   kind == CUDA_PAGES ? -1 : 0)));
		}
		slot->stream = slot->streams[CUDA_PAGES];
		if (slot->start == NULL)
			TRY(CUDA(event_create(&slot->start, 0)));
		if (slot->stop == NULL)
			TRY(CUDA(event_create(&slot->stop, 0)));
		slot->result = &lane->reports[i].results[i];
	}
	if (lane->window == NULL)
		TRY(CUDA(host_alloc((void **) &lane->window, CUDA_WINDOW_SIZE, CU_MEMHOSTALLOC_PORTABLE)));
	lane->opened = true;
	return GPUSCAN_OK;
}

static void
close_lane(CudaLane *lane)
{
	if (lane->origin != NULL)
		(void) gpuscan_cuda.event_destroy(lane->origin);
	if (lane->ready != NULL)
		(void) gpuscan_cuda.event_destroy(lane->ready);
	for (int i = 0; i < CUDA_SLOTS; i++)
	{
		if (lane->slots[i].start != NULL)
			(void) gpuscan_cuda.event_destroy(lane->slots[i].start);
		if (lane->slots[i].stop != NULL)
			(void) gpuscan_cuda.event_destroy(lane->slots[i].stop);
		for (int kind = 0; kind < CUDA_NUM_KINDS; kind++)
		{
			if (lane->slots[i].streams[kind] != NULL)
				(void) gpuscan_cuda.stream_destroy(lane->slots[i].streams[kind]);
		}
		if (lane->slots[i].pinned != NULL)
			(void) gpuscan_cuda.host_free(lane->slots[i].pinned);
	}
	if (lane->stream != NULL)
		(void) gpuscan_cuda.stream_destroy(lane->stream);
	if (lane->reports != NULL)
		(void) gpuscan_cuda.host_free(lane->reports);
	if (lane->window != NULL)
		(void) gpuscan_cuda.host_free(lane->window);
}

/*
 * The beginning of a request
 */

/* All that never changes its size, in one piece and by one copy; the tables are there. */
static GpuScanCode
upload_fixed(GpuScanRequest *request)
{
	const GpuScanRequestOptions *options = &request->options;
	size_t distinct_size = request->source.ndistinct * sizeof(CudaDistinct);
	size_t program_at = round_up(sizeof(CudaReport) + distinct_size, 256);
	size_t layouts_at = program_at + round_up(options->program->size, 256);
	size_t size = layouts_at + round_up(options->nlayouts * sizeof(uint64_t), 16);
	size_t at = size;
	char *copy = request->lane->window;

	for (uint32_t i = 0; i < options->nlayouts; i++)
		size += round_up(options->layouts[i]->size, 16);
	if (size > CUDA_WINDOW_SIZE)
		return GPUSCAN_OUT_OF_MEMORY;
	TRY(gpuscan_cuda_alloc(request, size, &request->fixed));
	request->fixed_size = size;
	request->table.control = request->fixed;
	request->table.distinct = request->fixed + sizeof(CudaReport);
	request->program = request->fixed + program_at;
	request->layouts = request->fixed + layouts_at;

	memset(copy, 0, size);
	if (distinct_size > 0)
		memcpy(copy + sizeof(CudaReport), request->distinct, distinct_size);
	memcpy(copy + program_at, options->program, options->program->size);
	for (uint32_t i = 0; i < options->nlayouts; i++)
	{
		((uint64_t *) (copy + layouts_at))[i] = request->fixed + at;
		memcpy(copy + at, options->layouts[i], options->layouts[i]->size);
		at += round_up(options->layouts[i]->size, 16);
	}
	request->stats.bus_bytes += size;
	return CUDA(copy_to_device(request->fixed, copy, size, request->lane->stream));
}

/* Bytes of the rows that thread blocks leave where there is one group */
static size_t
partials_size(const GpuScanRequest *request, CudaKind kind)
{
	return (size_t) request->kernels[kind]->max_grid * request->options.program->row_size;
}

/* Makes them for a slot, before its first launch of a kind. */
static GpuScanCode
make_partials(GpuScanRequest *request, CudaSlot *slot, CudaKind kind)
{
	size_t size = partials_size(request, kind);

	if (!request->options.program->aggregate || request->options.program->nkeys > 0 ||
		slot->partials[kind] != 0)
		return GPUSCAN_OK;
	TRY(gpuscan_cuda_alloc(request, size, &slot->partials[kind]));
	return CUDA(fill(slot->partials[kind], 0, size, request->lane->stream));
}

static GpuScanCode
set_up(GpuScanRequest *request)
{
	if (atomic_load(&request->device->failed))
		return GPUSCAN_DEVICE_FAILED;
	if (request->options.only_fills)
		return GPUSCAN_OK;
	TRY(CUDA(context_set_current(request->device->context)));
	TRY(open_lane(request));
	memset(request->lane->reports, 0, (CUDA_SLOTS + 1) * sizeof(CudaReport));
	TRY(gpuscan_cuda_source_create(&request->source, request->plan, &request->options));
	TRY(gpuscan_cuda_table_create(request));
	TRY(upload_fixed(request));
	return CUDA(event_record(request->lane->origin, request->lane->stream));
}

/*
 * Gathering batches
 */

/* The address at which the device reads host memory in place, or 0 */
static uint64_t
device_address(const GpuScanDevice *device, const void *memory, size_t size, size_t align)
{
	const char *p = memory;

	for (uint32_t i = 0; i < device->nregions; i++)
	{
		const CudaRegion *region = &device->regions[i];

		if (p >= region->base && size <= region->size &&
			(size_t) (p - region->base) <= region->size - size)
		{
			uint64_t address = region->address + (uint64_t) (p - region->base);

			return address % align == 0 ? address : 0;
		}
	}
	return 0;
}

/* What a block takes of pinned memory, and where it is read in place */
typedef struct BlockPlan
{
	uint64_t base; /* 0: to be copied */
	uint64_t places;
	size_t base_size;
	size_t places_size;
} BlockPlan;

static BlockPlan
plan_block(const GpuScanDevice *device, const GpuScanBlock *block)
{
	const void *places = block->staged != NULL ? (const void *) block->staged : block->offsets;
	size_t width = block->staged != NULL ? sizeof(GpuScanStagedTuple) : sizeof(uint16_t);
	size_t size = places != NULL ? block->ntuples * width : 0;
	BlockPlan plan = {0, 0, 0, 0};

	if (block->base == NULL)
		return (BlockPlan){.base = block->kept, .places = block->kept + CUDA_KEPT_PLACES};

	/* a large one is not copied to shared memory, where nobody changes it any more */
	if (block->size <= CUDA_PAGE_SIZE && block->size % 16 == 0)
		plan.base = device_address(device, block->base, block->size, 16);
	if (size > 0)
		plan.places = device_address(device, places, size, width);
	plan.base_size = plan.base == 0 ? round_up(block->size, 16) : 0;
	plan.places_size = plan.places == 0 ? round_up(size, 16) : 0;
	return plan;
}

/* Blocks and bytes of a batch; false if it is not well formed */
static bool
measure_batch(const GpuScanRequest *request, const GpuScanBatch *batch, size_t *pinned,
			  uint64_t *ntuples)
{
	*pinned = batch->nblocks * sizeof(CudaBlock);
	*ntuples = 0;
	for (uint32_t i = 0; i < batch->nblocks; i++)
	{
		BlockPlan plan;

		if (!gpuscan_cpu_block_is_valid(request->plan, &batch->blocks[i]))
			return false;
		plan = plan_block(request->device, &batch->blocks[i]);
		*pinned += plan.base_size + plan.places_size;
		*ntuples += batch->blocks[i].ntuples;
	}
	*pinned += *ntuples;
	return *ntuples <= INT32_MAX;
}

void
gpuscan_cuda_answer(CudaBatch *batch, GpuScanCode code)
{
	const GpuScanRequestOptions *options = &batch->request->options;
	pthread_mutex_t *lock = &batch->request->device->lock;
	bool ended;
	bool last;

	pthread_mutex_lock(lock);
	ended = batch->request->ended;
	last = --batch->parts == 0;
	if (code != GPUSCAN_OK)
		batch->code = code;
	pthread_mutex_unlock(lock);
	if (!last)
		return;
	if (!ended)
		options->batch_done(options->arg, batch->batch.tag, batch->code, batch->ndeferred);
	free(batch->seek);
	free(batch);
}

/* Takes the batch that waits longest; NULL: none. */
static CudaBatch *
pop_batch(GpuScanRequest *request)
{
	CudaBatch *batch;

	pthread_mutex_lock(&request->device->lock);
	batch = request->first;
	if (batch != NULL)
	{
		request->first = batch->next;
		if (request->first == NULL)
			request->last = NULL;
	}
	pthread_mutex_unlock(&request->device->lock);
	return batch;
}

/* Puts it back. */
static void
unpop_batch(GpuScanRequest *request, CudaBatch *batch)
{
	pthread_mutex_lock(&request->device->lock);
	batch->next = request->first;
	request->first = batch;
	if (request->last == NULL)
		request->last = batch;
	pthread_mutex_unlock(&request->device->lock);
}

/* Takes batches for one launch, and answers those that get none. */
static size_t
take_batches(GpuScanRequest *request, CudaSlot *slot)
{
	CudaBatch **link = &slot->batches;
	size_t total = 0;
	CudaBatch *batch;

	slot->kind = CUDA_PAGES;
	slot->nblocks = 0;
	slot->ntuples = 0;
	while ((batch = pop_batch(request)) != NULL)
	{
		size_t pinned = 0;
		uint64_t ntuples = 0;
		GpuScanCode code = request->code;

		batch->ndeferred = 0;
		if (code == GPUSCAN_OK && !measure_batch(request, &batch->batch, &pinned, &ntuples))
			code = GPUSCAN_INVALID;
		if (code != GPUSCAN_OK || request->options.only_fills)
		{
			if (request->options.program->aggregate)
				request->code = code;
			gpuscan_cuda_answer(batch, code);
			continue;
		}
		if (slot->batches != NULL &&
			(slot->nblocks + batch->batch.nblocks > CUDA_LAUNCH_BLOCKS ||
			 total + pinned > CUDA_LAUNCH_PINNED || slot->ntuples + ntuples > INT32_MAX))
		{
			unpop_batch(request, batch);
			break;
		}
		batch->next = NULL;
		*link = batch;
		link = &batch->next;
		total += pinned;
		slot->nblocks += batch->batch.nblocks;
		slot->ntuples += (uint32_t) ntuples;
	}
	return total;
}

/* Frees what waits of a request that was ended. */
static void
drop_batches(GpuScanRequest *request)
{
	CudaBatch *batch;

	while ((batch = pop_batch(request)) != NULL)
		gpuscan_cuda_answer(batch, GPUSCAN_CANCELLED);
	while ((batch = gpuscan_cuda_seek_take(request)) != NULL)
		gpuscan_cuda_answer(batch, GPUSCAN_CANCELLED);
}

/*
 * Launching
 */
GpuScanCode
gpuscan_cuda_reserve(GpuScanRequest *request, CudaSlot *slot, size_t pinned)
{
	if (slot->pinned_size < pinned)
	{
		size_t size = round_up(pinned + pinned / 4, (size_t) 64 * 1024);

		if (slot->pinned != NULL)
			(void) CUDA(host_free(slot->pinned));
		slot->pinned = NULL;
		slot->pinned_size = 0;
		TRY(CUDA(host_alloc((void **) &slot->pinned, size, CU_MEMHOSTALLOC_PORTABLE)));
		slot->pinned_size = size;
	}
	if (slot->outcome_size < slot->ntuples)
	{
		size_t size = round_up(slot->ntuples + slot->ntuples / 4, (size_t) 64 * 1024);

		gpuscan_cuda_free(request, slot->outcome, slot->outcome_size);
		slot->outcome_size = 0;
		TRY(gpuscan_cuda_alloc(request, size, &slot->outcome));
		slot->outcome_size = size;
	}
	return GPUSCAN_OK;
}

/* Copies to pinned memory and returns its address. */
static uint64_t
copy_to_pinned(char **pinned, const void *data, size_t size)
{
	uint64_t address = (uint64_t) (uintptr_t) *pinned;

	memcpy(*pinned, data, size);
	*pinned += round_up(size, 16);
	return address;
}

static void
fill_blocks(GpuScanRequest *request, CudaSlot *slot)
{
	CudaBlock *to = (CudaBlock *) slot->pinned;
	char *pinned = slot->pinned + slot->nblocks * sizeof(CudaBlock);
	uint32_t outcome = 0;

	slot->bytes = slot->nblocks * sizeof(CudaBlock) + sizeof(CudaReport);
	for (CudaBatch *batch = slot->batches; batch != NULL; batch = batch->next)
	{
		for (uint32_t i = 0; i < batch->batch.nblocks; i++)
		{
			const GpuScanBlock *block = &batch->batch.blocks[i];
			BlockPlan plan = plan_block(request->device, block);

			*to = (CudaBlock){.base = plan.base,
							  .places = plan.places,
							  .size = block->size,
							  .ntuples = block->ntuples,
							  .outcome = outcome,
							  .layout = (uint16_t) block->layout,
							  .shape = request->source.shapes[block->layout],
							  .staged = block->staged != NULL,
							  .keep = block->base != NULL ? block->kept : 0};
			if (plan.base_size > 0)
				to->base = copy_to_pinned(&pinned, block->base, block->size);
			if (plan.places_size > 0 && block->staged == NULL)
				to->places =
					copy_to_pinned(&pinned, block->offsets, block->ntuples * sizeof(uint16_t));
			else if (plan.places_size > 0)
				to->places = copy_to_pinned(&pinned, block->staged,
											block->ntuples * sizeof(GpuScanStagedTuple));
			if (block->base != NULL)
				slot->bytes += block->size;
			if (block->staged != NULL)
				slot->bytes += block->ntuples * sizeof(GpuScanStagedTuple);
			else if (block->offsets != NULL)
				slot->bytes += block->ntuples * sizeof(uint16_t);
			outcome += block->ntuples;
			to++;
		}
	}
	slot->outcomes = (uint8_t *) pinned;
}

GpuScanCode
gpuscan_cuda_run(GpuScanRequest *request, CudaSlot *slot, uint32_t grid, size_t shared,
				 CudaLaunch *launch)
{
	const CudaKernels *kernels = request->kernels[slot->kind];
	void *params[] = {launch};

	if (slot->npartials[slot->kind] < grid)
		slot->npartials[slot->kind] = grid;
	return CUDA(launch(kernels->run, grid, 1, 1, kernels->threads, 1, 1, (unsigned) shared,
					   slot->stream, params, NULL));
}

/*
 * A thread block for each multiprocessor is enough to keep the bus busy; more would only wait for it, and
 * keep other requests' kernels away.
 */
static GpuScanCode
start_blocks(GpuScanRequest *request, CudaSlot *slot, CudaLaunch *launch)
{
	const CudaKernels *kernels = request->kernels[CUDA_PAGES];
	uint32_t grid = (slot->nblocks + CUDA_WARPS - 1) / CUDA_WARPS;
	uint32_t max_grid = (uint32_t) request->device->multiprocessors;

	if (max_grid > kernels->max_grid)
		max_grid = kernels->max_grid;
	launch->blocks = (uint64_t) (uintptr_t) slot->pinned;
	launch->nblocks = slot->nblocks;
	launch->outcome = slot->outcome;
	if (grid == 0)
		return GPUSCAN_OK;
	return gpuscan_cuda_run(request, slot, grid < max_grid ? grid : max_grid, 0, launch);
}

/* Starts the kernel over the slot's blocks or ranges; `again`: over the tuples that wait. */
static GpuScanCode
start_kernel(GpuScanRequest *request, CudaSlot *slot, bool again)
{
	CudaLane *lane = request->lane;
	uint32_t number = (uint32_t) (slot - lane->slots);
	CudaLaunch launch = gpuscan_cuda_table_launch(request);

	launch.result = gpuscan_cuda_result_at(request, number);
	launch.partials = slot->partials[slot->kind];
	launch.again = again;
	slot->stream = slot->streams[slot->kind];
	slot->generation = request->generation;
	slot->timed = false;
	request->stats.bus_bytes += slot->bytes;
	TRY(CUDA(event_record(lane->ready, lane->stream)));
	TRY(CUDA(stream_wait_event(slot->stream, lane->ready, 0)));
	TRY(CUDA(fill(launch.result, 0, sizeof(CudaResult), slot->stream)));
	TRY(CUDA(event_record(slot->start, slot->stream)));
	TRY(slot->kind == CUDA_CACHED ? gpuscan_cuda_cached_start(request, slot, &launch)
								  : start_blocks(request, slot, &launch));
	TRY(CUDA(event_record(slot->stop, slot->stream)));
	return CUDA(
		copy_to_host(&lane->reports[number], request->fixed, sizeof(CudaReport), slot->stream));
}

/* Puts all batches of a launch back but the first; returns the pinned memory that one needs. */
static size_t
shrink_launch(GpuScanRequest *request, CudaSlot *slot)
{
	CudaBatch *rest = slot->batches->next;
	CudaBatch *last = rest;
	size_t pinned = 0;
	uint64_t ntuples = 0;

	while (last->next != NULL)
		last = last->next;
	pthread_mutex_lock(&request->device->lock);
	last->next = request->first;
	request->first = rest;
	if (request->last == NULL)
		request->last = last;
	pthread_mutex_unlock(&request->device->lock);

	slot->batches->next = NULL;
	(void) measure_batch(request, &slot->batches->batch, &pinned, &ntuples);
	slot->nblocks = slot->batches->batch.nblocks;
	slot->ntuples = (uint32_t) ntuples;
	return pinned;
}

static GpuScanCode
launch_slot(GpuScanRequest *request, CudaSlot *slot, size_t pinned)
{
	GpuScanCode code = gpuscan_cuda_kernels_get(request, CUDA_PAGES);

	gpuscan_nvtx_push("gpuscan launch");
	if (code == GPUSCAN_OK)
		code = make_partials(request, slot, CUDA_PAGES);
	if (code == GPUSCAN_OK)
	{
		code = gpuscan_cuda_reserve(request, slot, pinned);
		if (code == GPUSCAN_OUT_OF_MEMORY && slot->batches->next != NULL)
			code = gpuscan_cuda_reserve(request, slot, shrink_launch(request, slot));
	}
	if (code == GPUSCAN_OK)
	{
		fill_blocks(request, slot);
		code = start_kernel(request, slot, false);
	}
	gpuscan_nvtx_pop();
	return code;
}

/* Starts a launch over the segments that wait, without an answer but the request's, or of a seek. */
static GpuScanCode
launch_cached(GpuScanRequest *request, CudaSlot *slot)
{
	GpuScanCode code;

	gpuscan_nvtx_push("gpuscan launch");
	code = gpuscan_cuda_cached_take(request, slot);
	if (code == GPUSCAN_OK)
		code = make_partials(request, slot, CUDA_CACHED);
	if (code == GPUSCAN_OK)
		code = start_kernel(request, slot, false);
	gpuscan_nvtx_pop();
	return code;
}

/*
 * Completing
 */

/* Adds the time of a launch that is over; of kernels that overlap each moment counts once. */
static GpuScanCode
time_kernel(GpuScanRequest *request, CudaSlot *slot)
{
	float start;
	float stop;
	uint64_t from;
	uint64_t to;

	if (slot->timed)
		return GPUSCAN_OK;
	TRY(CUDA(event_elapsed(&start, request->lane->origin, slot->start)));
	TRY(CUDA(event_elapsed(&stop, request->lane->origin, slot->stop)));
	from = (uint64_t) ((double) start * 1e6);
	to = (uint64_t) ((double) stop * 1e6);
	if (from < request->timed_until)
		from = request->timed_until;
	if (to > from)
	{
		request->stats.kernel_ns += to - from;
		request->timed_until = to;
	}
	slot->timed = true;
	return GPUSCAN_OK;
}

/* Waits for a launch, and launches again until no tuple waits. */
static GpuScanCode
run_out(GpuScanRequest *request, CudaSlot *slot, uint64_t *deferred)
{
	for (;;)
	{
		TRY(CUDA(stream_synchronize(slot->stream)));
		TRY(time_kernel(request, slot));
		if (slot->result->code != 0)
			return (GpuScanCode) slot->result->code;
		request->stats.passed += slot->result->passed;
		request->stats.tuples += slot->result->cached;
		request->stats.blocks_skipped += slot->result->skipped;
		*deferred += slot->result->deferred;
		if (slot->result->waiting == 0)
			return GPUSCAN_OK;
		if (gpuscan_cuda_is_ended(request))
			return GPUSCAN_CANCELLED;
		/* a table that could not grow may lack a part; its result is not wanted any more */
		if (request->code != GPUSCAN_OK)
			return request->code;
		/* in the order of their launches */
		for (int i = 1; i < CUDA_SLOTS; i++)
		{
			CudaSlot *slots = request->lane->slots;
			CudaSlot *other = &slots[(slot - slots + i) % CUDA_SLOTS];

			TRY(CUDA(stream_synchronize(other->stream)));
			if (other->busy)
				TRY(time_kernel(request, other));
		}
		/* another launch may have made the room */
		if (slot->generation == request->generation)
		{
			GpuScanCode code;

			gpuscan_nvtx_push("gpuscan grow");
			code = gpuscan_cuda_table_grow(request, slot->result->full);
			gpuscan_nvtx_pop();
			TRY(code);
		}
		TRY(start_kernel(request, slot, true));
	}
}

/* Hands a block's outcomes out; returns how many of its tuples are deferred. */
static uint32_t
hand_out(const GpuScanBlock *block, const uint8_t *outcome)
{
	bool is_kept = block->base == NULL;
	uint32_t n = 0;

	if (is_kept)
		memset(block->deferred, 0, (block->ntuples + 63) / 64 * sizeof(uint64_t));
	else
		memcpy(block->outcome, outcome, block->ntuples);
	for (uint32_t i = 0; i < block->ntuples; i++)
	{
		bool deferred = outcome[i] == GPUSCAN_TUPLE_DEFERRED;

		n += deferred;
		if (is_kept)
			block->deferred[i / 64] |= (uint64_t) deferred << i % 64;
	}
	return n;
}

static GpuScanCode
hand_outcomes_out(GpuScanRequest *request, CudaSlot *slot, uint64_t deferred)
{
	bool all_same = request->options.program->aggregate && deferred == 0;
	const uint8_t *outcome = slot->outcomes;

	if (!all_same && slot->ntuples > 0)
	{
		request->stats.bus_bytes += slot->ntuples;
		TRY(CUDA(copy_to_host(slot->outcomes, slot->outcome, slot->ntuples, slot->stream)));
		TRY(CUDA(stream_synchronize(slot->stream)));
	}
	for (CudaBatch *batch = slot->batches; batch != NULL; batch = batch->next)
	{
		for (uint32_t i = 0; i < batch->batch.nblocks; i++)
		{
			const GpuScanBlock *block = &batch->batch.blocks[i];

			if (!all_same)
				batch->ndeferred += hand_out(block, outcome);
			else if (block->base != NULL)
				memset(block->outcome, GPUSCAN_TUPLE_REJECTED, block->ntuples);
			outcome += block->ntuples;
		}
	}
	request->stats.tuples += slot->ntuples - deferred;
	return GPUSCAN_OK;
}

/* Answers the batches of a launch; nothing is wanted of it any more. */
static void
answer_slot(GpuScanRequest *request, CudaSlot *slot, GpuScanCode code)
{
	if (code != GPUSCAN_OK && request->options.program->aggregate && request->code == GPUSCAN_OK)
		request->code = code;
	/* a call that failed may leave a copy, or a kernel that reads the batches' pages */
	if (code != GPUSCAN_OK)
	{
		(void) CUDA(stream_synchronize(request->lane->stream));
		(void) CUDA(stream_synchronize(slot->stream));
	}
	while (slot->batches != NULL)
	{
		CudaBatch *batch = slot->batches;

		slot->batches = batch->next;
		gpuscan_cuda_answer(batch, code);
	}
	gpuscan_cuda_cached_clear(request, slot);
	slot->busy = false;
}

static void
complete_slot(GpuScanRequest *request, CudaSlot *slot)
{
	uint64_t deferred = 0;
	GpuScanCode code = run_out(request, slot, &deferred);

	if (code == GPUSCAN_OK && slot->kind == CUDA_CACHED && slot->batches != NULL)
		gpuscan_cuda_seek_hand_out(slot);
	if (code == GPUSCAN_OK && slot->kind == CUDA_PAGES)
		code = hand_outcomes_out(request, slot, deferred);
	if (code == GPUSCAN_OK)
		code = request->options.program->aggregate ? request->code : GPUSCAN_OK;
	answer_slot(request, slot, code);
}

/*
 * The end, and the loop
 */
static void
take_apart(GpuScanRequest *request)
{
	void (*ended)(void *arg, const GpuScanRequestStats *stats) = request->options.ended;
	void *arg = request->options.arg;
	GpuScanRequestStats stats;

	drop_batches(request);
	gpuscan_cuda_fill_end(request);
	stats = request->stats;
	stats.busy_ns += request->fill_ns;
	stats.bus_bytes += request->fill_bytes;
	if (request->lane->stream != NULL)
		(void) CUDA(stream_synchronize(request->lane->stream));
	for (int i = 0; i < CUDA_SLOTS; i++)
	{
		CudaSlot *slot = &request->lane->slots[i];

		if (slot->stream != NULL)
			(void) CUDA(stream_synchronize(slot->stream));
		for (CudaBatch *batch = slot->batches; batch != NULL;)
		{
			CudaBatch *next = batch->next;

			gpuscan_cuda_answer(batch, GPUSCAN_CANCELLED);
			batch = next;
		}
		slot->batches = NULL;
		slot->busy = false;
		gpuscan_cuda_free(request, slot->outcome, slot->outcome_size);
		gpuscan_cuda_cached_clear(request, slot);
		for (int kind = 0; kind < CUDA_NUM_KINDS; kind++)
		{
			if (slot->partials[kind] != 0)
				gpuscan_cuda_free(request, slot->partials[kind],
								  partials_size(request, (CudaKind) kind));
			slot->partials[kind] = 0;
			slot->npartials[kind] = 0;
		}
		slot->outcome = 0;
		slot->outcome_size = 0;
	}
	gpuscan_cuda_table_free(request);
	gpuscan_cuda_free(request, request->fixed, request->fixed_size);
	for (int kind = 0; kind < CUDA_NUM_KINDS; kind++)
	{
		if (request->kernels[kind] != NULL)
			gpuscan_cuda_kernels_release(request->device, request->kernels[kind]);
	}
	gpuscan_cuda_source_free(&request->source);
	gpuscan_cpu_plan_free(request->plan);
	free(request->cached);
	free(request);
	ended(arg, &stats);
}


/* What a request has for its lane to do */
typedef struct Work
{
	bool batch;
	bool cached;
	bool finish;
} Work;

/* Waits until there is something to do, if nothing is under way; false: the request was ended. */
static bool
wait_for_work(GpuScanRequest *request, bool under_way, Work *work)
{
	GpuScanDevice *device = request->device;
	bool ended;

	pthread_mutex_lock(&device->lock);
	for (;;)
	{
		ended = request->ended;
		work->batch = request->first != NULL;
		work->cached = request->cached_taken < request->ncached || request->seeks != NULL;
		work->finish = request->finishing && !request->finished && !work->batch && !work->cached;
		if (under_way || ended || work->batch || work->cached || work->finish)
			break;
		pthread_cond_wait(&request->lane->wake, &device->lock);
	}
	pthread_mutex_unlock(&device->lock);
	return !ended;
}

/* Gives a slot something to do; true: a launch is under way. */
static bool
fill_slot(GpuScanRequest *request, CudaSlot *slot, const Work *work)
{
	GpuScanCode code;

	if (work->cached)
		code = launch_cached(request, slot);
	else
	{
		size_t pinned = take_batches(request, slot);

		if (slot->batches == NULL)
			return false;
		code = launch_slot(request, slot, pinned);
	}
	slot->busy = true;
	if (code != GPUSCAN_OK)
		answer_slot(request, slot, code);
	return code == GPUSCAN_OK;
}

static void
serve(GpuScanRequest *request)
{
	CudaSlot *slots = request->lane->slots;
	uint32_t oldest = 0; /* launches under way: `oldest` up to `next` */
	uint32_t next = 0;
	Work work;

	request->code = set_up(request);
	while (wait_for_work(request, next > oldest, &work))
	{
		uint64_t start = gpuscan_cuda_now_ns();

		if ((work.batch || work.cached) && next - oldest < CUDA_SLOTS)
			next += fill_slot(request, &slots[next % CUDA_SLOTS], &work);
		else if (next > oldest)
			complete_slot(request, &slots[oldest++ % CUDA_SLOTS]);
		else if (work.finish)
		{
			gpuscan_nvtx_push("gpuscan finish");
			if (request->code == GPUSCAN_OK)
				request->code = gpuscan_cuda_table_finish(request);
			gpuscan_nvtx_pop();
			request->finished = true;
			request->options.finish_done(request->options.arg, request->code);
		}
		request->stats.busy_ns += gpuscan_cuda_now_ns() - start;
	}
}

void *
gpuscan_cuda_lane_main(void *arg)
{
	CudaLane *lane = arg;
	GpuScanDevice *device = lane->device;

	(void) gpuscan_cuda.context_set_current(device->context);
	pthread_mutex_lock(&device->lock);
	for (;;)
	{
		if (lane->request != NULL)
		{
			GpuScanRequest *request = lane->request;

			pthread_mutex_unlock(&device->lock);
			serve(request);

			/* from here on the lane may be given to another request, which waits for us */
			pthread_mutex_lock(&device->lock);
			lane->request = NULL;
			pthread_mutex_unlock(&device->lock);
			take_apart(request);
			pthread_mutex_lock(&device->lock);
		}
		else if (device->closing)
			break;
		else
			pthread_cond_wait(&lane->wake, &device->lock);
	}
	pthread_mutex_unlock(&device->lock);
	close_lane(lane);
	return NULL;
}
