/*-------------------------------------------------------------------------
 *
 * cached.c
 *	  Launches over cached columns.
 *
 * Segments queue up until the lane has a slot free, which takes all that wait, up
 * to a bound, for one launch.  What the kernel cannot do for want of room is in the
 * progress of its pieces, with which it is launched again.
 *
 * Groups are kept in shared memory where the planner or the table says that they
 * fit, and several times where they are few.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>

/* Pieces of ranges that each warp should have */
#define WARP_PIECES 4

/* Ranges of one launch; a segment goes beyond if it is larger itself. */
#define LAUNCH_RANGES 32768

GpuScanCode
gpuscan_cuda_push_cached(GpuScanRequest *request, GpuScanCachedSegment *const *segments,
						 uint32_t nsegments)
{
	GpuScanCachedSegment **grown;
	GpuScanCode code = GPUSCAN_OUT_OF_MEMORY;

	if (!request->options.program->aggregate)
		return GPUSCAN_INVALID;
	pthread_mutex_lock(&request->device->lock);
	grown = realloc(request->cached,
					((size_t) request->ncached + nsegments) * sizeof(GpuScanCachedSegment *));
	if (grown != NULL)
	{
		memcpy(grown + request->ncached, segments, nsegments * sizeof(GpuScanCachedSegment *));
		request->cached = grown;
		request->ncached += nsegments;
		pthread_cond_signal(&request->lane->wake);
		code = GPUSCAN_OK;
	}
	pthread_mutex_unlock(&request->device->lock);
	return code;
}

/* Takes segments for one launch off the queue; malloc'd. */
static GpuScanCachedSegment **
take_segments(GpuScanRequest *request, CudaSlot *slot)
{
	GpuScanCachedSegment **taken;

	slot->nsegments = 0;
	slot->nranges = 0;
	pthread_mutex_lock(&request->device->lock);
	taken = malloc((request->ncached - request->cached_taken) * sizeof(GpuScanCachedSegment *));
	while (taken != NULL && request->cached_taken < request->ncached)
	{
		GpuScanCachedSegment *segment = request->cached[request->cached_taken];

		if (slot->nsegments > 0 && segment->nranges > LAUNCH_RANGES - slot->nranges)
			break;
		taken[slot->nsegments++] = segment;
		slot->nranges += segment->nranges;
		request->cached_taken++;
		if (slot->nranges >= LAUNCH_RANGES)
			break;
	}
	if (taken == NULL)
		request->cached_taken = request->ncached; /* the request fails */
	pthread_mutex_unlock(&request->device->lock);
	return taken;
}

/* Takes a seek that waits for one launch; a list of its segments, malloc'd. */
static GpuScanCachedSegment **
take_seek(GpuScanRequest *request, CudaSlot *slot)
{
	const CudaSeek *seek;
	GpuScanCachedSegment **taken;

	slot->batches = gpuscan_cuda_seek_take(request);
	seek = slot->batches->seek;
	slot->nsegments = 0;
	slot->nranges = 0;
	taken = malloc((seek->nsegments + 1) * sizeof(GpuScanCachedSegment *));
	if (gpuscan_cuda_seek_is_trivial(request))
		gpuscan_cuda_seek_find_all(seek);
	for (uint32_t i = 0;
		 taken != NULL && !gpuscan_cuda_seek_is_trivial(request) && i < seek->nsegments; i++)
	{
		if (seek->segments[i]->nranges == 0)
			continue;
		taken[slot->nsegments++] = seek->segments[i];
		slot->nranges += seek->segments[i]->nranges;
	}
	return taken;
}

/* True if a tuple may have to wait for room */
static bool
may_wait(const GpuScanRequest *request)
{
	return request->options.program->nkeys > 0 || request->source.ndistinct > 0;
}

/* Bytes of a slot's segments, and of the words of a seek behind them */
static size_t
segments_size(const CudaSlot *slot)
{
	return (slot->nsegments * sizeof(CudaSegment) + 15) / 16 * 16;
}

static size_t
hits_size(const CudaSlot *slot)
{
	return slot->batches != NULL ? slot->nranges * sizeof(uint64_t) : 0;
}

/*
 * Groups in shared memory or not, the device holds so many warps at a time; each should have several
 * pieces, that none is the last for long, and not too many, since each has to be opened.
 */
static uint32_t
choose_pieces(const GpuScanRequest *request, uint32_t nranges)
{
	const CudaKernels *kernels = request->kernels[CUDA_CACHED];
	uint64_t warps = (uint64_t) kernels->max_grid * kernels->threads / 32;
	uint64_t wanted = nranges == 0 ? 1 : warps * WARP_PIECES / nranges + 1;

	return wanted < CUDA_PIECES ? (uint32_t) wanted : CUDA_PIECES;
}

/* How many groups there can be by the numbers of their keys, if slots are enough for them; else 0 */
static uint32_t
number_keys(const GpuScanRequest *request, const CudaBounds *bounds, CudaNumbers *keys)
{
	const GpuScanProgram *program = request->options.program;
	uint64_t groups = request->source.numbered ? 1 : 0;

	for (int k = 0; k < program->nkeys && groups > 0; k++)
	{
		const CudaBounds *key = &bounds[request->source.number_inputs[k]];
		uint32_t shift = GPUSCAN_KEYS(program)[k].cls == GPUSCAN_TEXT ? 2 : 0; /* of an offset */
		uint64_t span =
			key->low > key->high ? 0 : ((uint64_t) key->high - (uint64_t) key->low) >> shift;

		if (key->unknown || span >= request->source.nslots)
			return 0;
		keys[k] = (CudaNumbers){(int64_t) ((uint64_t) key->low - (UINT64_C(1) << shift)), shift,
								(uint32_t) span + 2};
		groups *= span + 2;
		if (groups > request->source.nslots)
			return 0;
	}
	return (uint32_t) groups;
}

/* What headers say of an extremum, in as many bits as there are for it */
static CudaSkip
make_skip(const GpuScanRequest *request, const CudaBounds *bounds, const CudaSourceSkip *of)
{
	const uint64_t sign = UINT64_C(1) << 63;
	const CudaBounds *arg = &bounds[of->input];
	uint64_t range = (uint64_t) arg->high - (uint64_t) arg->low;
	uint64_t max = (UINT64_C(1) << CUDA_SKIP_BITS / request->source.nskips) - 1;
	CudaSkip skip = {.known = !arg->unknown && arg->low <= arg->high};

	if (!skip.known)
		return skip;
	skip.origin = of->is_min ? ~((uint64_t) arg->high ^ sign) : (uint64_t) arg->low ^ sign;
	while (range >> skip.shift >= max)
		skip.shift++;
	return skip;
}

static GpuScanCode
prepare_segments(GpuScanRequest *request, CudaSlot *slot, GpuScanCachedSegment **segments)
{
	size_t progress_size =
		may_wait(request) ? (size_t) slot->nranges * slot->pieces * sizeof(CudaProgress) : 0;
	size_t size = segments_size(slot) + progress_size + hits_size(slot);
	CudaBounds bounds[GPUSCAN_MAX_REGISTERS];
	uint32_t first = 0;

	if (slot->nranges > UINT32_MAX / CUDA_PIECES)
		return GPUSCAN_OUT_OF_MEMORY;
	TRY(gpuscan_cuda_reserve(request, slot, segments_size(slot) + hits_size(slot)));
	slot->segments = (CudaSegment *) slot->pinned;
	slot->hits = (uint64_t *) (slot->pinned + segments_size(slot));
	for (uint32_t i = 0; i < request->options.program->ninputs; i++)
		bounds[i] = CUDA_NO_BOUNDS;
	for (uint32_t i = 0; i < slot->nsegments; i++)
	{
		TRY(gpuscan_cuda_segment_prepare(request, segments[i], &slot->segments[i], bounds));
		slot->segments[i].nranges = segments[i]->nranges;
		slot->segments[i].first = first;
		first += segments[i]->nranges;
	}
	slot->hints.groups = number_keys(request, bounds, slot->hints.keys);
	for (uint32_t j = 0; j < request->source.nskips; j++)
		slot->hints.skips[j] = make_skip(request, bounds, &request->source.skips[j]);
	TRY(gpuscan_cuda_alloc(request, size, &slot->cached));
	slot->cached_size = size;
	request->stats.bus_bytes += segments_size(slot) + hits_size(slot);
	if (hits_size(slot) > 0)
		TRY(CUDA(
			fill(slot->cached + segments_size(slot), 0, hits_size(slot), request->lane->stream)));
	return CUDA(copy_to_device(slot->cached, slot->segments, slot->nsegments * sizeof(CudaSegment),
							   request->lane->stream));
}

GpuScanCode
gpuscan_cuda_cached_take(GpuScanRequest *request, CudaSlot *slot)
{
	bool aggregate = request->options.program->aggregate;
	GpuScanCachedSegment **segments =
		aggregate ? take_segments(request, slot) : take_seek(request, slot);
	GpuScanCode code = request->code;

	slot->kind = CUDA_CACHED;
	slot->ntuples = 0;
	slot->bytes = sizeof(CudaReport);
	if (segments == NULL)
		code = GPUSCAN_OUT_OF_MEMORY;
	if (code == GPUSCAN_OK && request->source.threads == 0 && aggregate)
		code = GPUSCAN_LEFT_TO_POSTGRES;
	/* a seek that is trivial has none */
	if (code == GPUSCAN_OK && slot->nranges > 0)
		code = gpuscan_cuda_kernels_get(request, CUDA_CACHED);
	if (code == GPUSCAN_OK && slot->nranges > 0)
	{
		slot->pieces = choose_pieces(request, slot->nranges);
		code = prepare_segments(request, slot, segments);
	}
	free(segments);
	return code;
}

void
gpuscan_cuda_cached_clear(GpuScanRequest *request, CudaSlot *slot)
{
	gpuscan_cuda_free(request, slot->cached, slot->cached_size);
	slot->cached = 0;
}

/*
 * How often a group has a slot in shared memory, less 1: as often as there is room
 * for with half of the slots empty, but not for more than the threads of a warp.
 */
static uint32_t
choose_replicas(const GpuScanRequest *request, const CudaSlot *slot)
{
	uint64_t numbers = slot->hints.groups; /* all of which have slots */
	uint64_t groups = request->options.groups_expected;
	uint32_t nslots = request->source.nslots;
	uint32_t replicas = 1;

	if (nslots == 0 || request->kernels[CUDA_CACHED]->slots_grid == 0 ||
		request->options.pass.mask != 0 || groups > nslots)
		return CUDA_NOT_SHARED;
	while (groups > 0 && replicas < 32 && groups * replicas * 4 <= nslots &&
		   numbers * replicas * 2 <= nslots)
		replicas *= 2;
	return replicas - 1;
}

/* A number near the golden section of n that has no divisor in common with it */
static uint32_t
choose_stride(uint32_t n)
{
	uint32_t stride = (uint32_t) (n * 0.618);

	for (;; stride++)
	{
		uint32_t a = n;
		uint32_t b = stride;

		while (b != 0)
		{
			uint32_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			return stride;
	}
}

GpuScanCode
gpuscan_cuda_cached_start(GpuScanRequest *request, CudaSlot *slot, CudaLaunch *launch)
{
	const CudaKernels *kernels = request->kernels[CUDA_CACHED];
	uint32_t nitems = slot->nranges * slot->pieces;
	uint32_t warps;
	uint32_t grid;
	uint32_t replicas;
	bool shared;
	uint32_t max_grid;

	if (nitems == 0)
		return GPUSCAN_OK;
	warps = kernels->threads / 32;
	grid = (nitems + warps - 1) / warps;
	replicas = choose_replicas(request, slot);
	shared = replicas != CUDA_NOT_SHARED;
	max_grid = shared ? kernels->slots_grid : kernels->max_grid;
	launch->segments = slot->cached;
	launch->nsegments = slot->nsegments;
	launch->nranges = slot->nranges;
	launch->pieces = slot->pieces;
	launch->stride = choose_stride(nitems);
	launch->replicas = replicas;
	launch->numbered = slot->hints.groups > 0;
	launch->hints = slot->hints;
	if (may_wait(request))
		launch->progress = slot->cached + segments_size(slot);
	launch->hits = slot->cached + segments_size(slot);
	TRY(gpuscan_cuda_run(request, slot, grid < max_grid ? grid : max_grid,
						 shared ? kernels->slots_size : 0, launch));
	if (hits_size(slot) == 0)
		return GPUSCAN_OK;
	return CUDA(copy_to_host(slot->hits, launch->hits, hits_size(slot), slot->stream));
}
