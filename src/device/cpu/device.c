/*-------------------------------------------------------------------------
 *
 * device.c
 *	  The cpu device: its threads, and the life of a request.
 *
 * The worker threads share one list of requests and take from it in turn:
 *
 *	 a request that was ended and that no thread works on: take it apart
 *	 a batch that waits: run it
 *	 cached ranges that wait: run some
 *	 a request to finish and all of whose batches are done: a task of the merge
 *
 * At most `limit` threads work on one request at a time.  A thread that runs
 * a batch takes one of the request's idle partials, or makes one, so there are
 * no more partials than threads that ever ran at the same time.
 *
 * Locking.  The device's mutex protects the list, and of each request all that
 * is marked so below; it is held for a few instructions at a time, never over a
 * batch, a task, a callback, or memory given back to the system.  What else a
 * request has is written before threads see it, or by the one thread that
 * `active` counts.  The result is read by fetch, after finish_done.
 *
 * Ending.  end sets a flag that threads look at after each chunk, and drops the
 * batches that wait.  Whichever thread finds that nobody works on the request
 * any more takes it apart and calls ended, the last that anyone hears of it.
 *
 * Failing.  A batch of an aggregation that failed makes the result worthless:
 * batches behind it are answered with the same code, and so is finish.  The
 * batches of a scan fail one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Of cached ranges: about a millisecond of work */
#define RANGES_AT_ONCE 4

typedef struct QueuedBatch
{
	struct QueuedBatch *next;
	GpuScanBatch batch;
} QueuedBatch;

/* What was pushed by one call: in the request's list until all is taken, and freed when all is done */
typedef struct QueuedRanges
{
	struct QueuedRanges *next;
	GpuScanCachedSegment **segments;
	uint32_t nsegments;
	uint64_t *hits;	   /* of a scan, as in GpuScanSeek, or NULL */
	uint32_t map_page; /* if so */
	void *tag;		   /* if so */
	GpuScanCode code;
	uint64_t untaken; /* ranges, each once for every part */
	uint32_t working; /* threads with some that they have taken */
	struct
	{
		uint32_t segments;
		uint32_t ranges; /* of the next one */
	} taken[];			 /* by each part */
} QueuedRanges;

/* Ranges of one segment that a thread has taken */
typedef struct Taken
{
	QueuedRanges *queued;
	const GpuScanCachedRange *ranges;
	uint32_t n;
	uint64_t *hits; /* of its map page, or NULL */
} Taken;

typedef enum RequestState
{
	COLLECTING, /* batches */
	FINISHING,	/* finish was called */
	MERGING,	/* tasks of `step` */
	FINISHED	/* finish_done was called, or is being called */
} RequestState;

struct GpuScanRequest
{
	GpuScanDevice *device;
	GpuScanRequestOptions options;
	CpuPlan *plan;
	CpuMemory memory;
	uint32_t limit; /* threads at a time */
	atomic_bool cancel;
	CpuCursor cursor; /* of fetch, the caller's */

	/* Protected by the device's mutex */
	GpuScanRequest *next;
	bool ended;
	RequestState state;
	GpuScanCode code;	/* the first failure of an aggregation */
	uint32_t active;	/* threads that work on the request now */
	QueuedBatch *first; /* batches that wait */
	QueuedBatch *last;
	QueuedRanges *ranges; /* cached ones that wait, the last pushed first */
	uint32_t npartials;
	uint32_t nidle;
	CpuPartial **partials; /* all of them */
	CpuPartial **idle;	   /* those that no thread uses, but of parts of the groups: */
	CpuPartial **parts;	   /* NULL: not there yet */
	bool *part_is_busy;
	uint64_t busy_ns;
	CpuMerge merge;
	int step;			/* of the merge */
	uint32_t next_task; /* of the step, up to ntasks */
	uint32_t ntasks;
};

struct GpuScanDevice
{
	pthread_mutex_t lock;
	pthread_cond_t work; /* something may be there to do */
	uint32_t nthreads;
	pthread_t *threads;
	uint64_t memory_total;
	_Atomic uint64_t memory_used; /* by all requests */

	/* Protected by `lock` */
	bool closing;
	GpuScanRequest *requests; /* the next to be served comes first */
};

static uint64_t
thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

/* Puts a request at the end of the list.  Under the lock. */
static void
append_request(GpuScanDevice *device, GpuScanRequest *request)
{
	GpuScanRequest **link = &device->requests;

	while (*link != NULL)
		link = &(*link)->next;
	request->next = NULL;
	*link = request;
}

/* Under the lock. */
static void
remove_request(GpuScanDevice *device, GpuScanRequest *request)
{
	GpuScanRequest **link = &device->requests;

	while (*link != request)
		link = &(*link)->next;
	*link = request->next;
}

/* Frees a request's memory.  Nobody else knows the request any more. */
static void
free_request(GpuScanRequest *request)
{
	gpuscan_cpu_merge_free(&request->merge);
	for (uint32_t i = 0; i < request->npartials; i++)
		gpuscan_cpu_partial_free(request->partials[i]);
	gpuscan_cpu_plan_free_bits(request->plan, &request->memory);
	gpuscan_cpu_plan_free(request->plan);
	free(request->partials);
	free(request->idle);
	free(request->parts);
	free(request->part_is_busy);
	free(request);
}

static void
take_apart(GpuScanRequest *request)
{
	void (*ended)(void *arg, const GpuScanRequestStats *stats) = request->options.ended;
	void *arg = request->options.arg;
	GpuScanRequestStats stats = {.busy_ns = request->busy_ns,
								 .memory = atomic_load(&request->memory.peak)};

	for (uint32_t i = 0; i < request->npartials; i++)
	{
		stats.tuples += request->partials[i]->stats.tuples;
		stats.passed += request->partials[i]->stats.passed;
		stats.blocks_skipped += request->partials[i]->stats.blocks_skipped;
	}
	for (uint32_t i = 0; request->state == FINISHED && i < request->merge.ntables; i++)
		stats.groups += request->merge.tables[i].ngroups;
	free_request(request);
	ended(arg, &stats);
}

/* Takes the batch that waits longest.  Under the lock. */
static QueuedBatch *
pop_batch(GpuScanRequest *request)
{
	QueuedBatch *queued = request->first;

	request->first = queued->next;
	if (request->first == NULL)
		request->last = NULL;
	return queued;
}

/*
 * A partial for this thread, that of a part of the groups or any, and the time now; called under the lock and returns
 * without it.  *code is what became of the request so far.
 */
static CpuPartial *
begin_work(GpuScanRequest *request, bool by_parts, uint32_t part, GpuScanCode *code,
		   uint64_t *start)
{
	CpuPartial *partial = NULL;

	if (by_parts)
		partial = request->parts[part];
	else if (request->nidle > 0)
		partial = request->idle[--request->nidle];

	*start = thread_ns();
	*code = request->code;
	pthread_mutex_unlock(&request->device->lock);
	if (partial == NULL)
	{
		partial =
			gpuscan_cpu_partial_create(request->plan, part, &request->memory, &request->cancel);
		if (partial != NULL)
		{
			pthread_mutex_lock(&request->device->lock);
			request->partials[request->npartials++] = partial;
			if (by_parts)
				request->parts[part] = partial;
			pthread_mutex_unlock(&request->device->lock);
		}
	}
	if (partial == NULL)
		*code = GPUSCAN_OUT_OF_MEMORY;
	return partial;
}

/* Called without the lock, and returns under it. */
static void
end_work(GpuScanRequest *request, CpuPartial *partial, GpuScanCode code, uint64_t start)
{
	uint64_t ns = thread_ns() - start;

	pthread_mutex_lock(&request->device->lock);
	if (partial != NULL)
		request->idle[request->nidle++] = partial;
	request->busy_ns += ns;
	if (request->code == GPUSCAN_OK && request->options.program->aggregate)
		request->code = code;
}

/* Ranges that wait for a part that no thread works on, or NULL.  Under the lock. */
static QueuedRanges *
find_ranges(const GpuScanRequest *request, uint32_t *part)
{
	QueuedRanges *queued;

	for (queued = request->ranges; queued != NULL; queued = queued->next)
	{
		for (*part = 0; *part < request->plan->nparts; (*part)++)
		{
			if (queued->taken[*part].segments < queued->nsegments && !request->part_is_busy[*part])
				return queued;
		}
	}
	return NULL;
}

static void
free_ranges(QueuedRanges *queued)
{
	free(queued->segments);
	free(queued);
}

/* Takes some of the ranges, at most RANGES_AT_ONCE, for a part.  Under the lock. */
static Taken
take_ranges(GpuScanRequest *request, QueuedRanges *queued, uint32_t part)
{
	QueuedRanges **link = &request->ranges;
	const GpuScanCachedSegment *segment = queued->segments[queued->taken[part].segments];
	uint32_t first = queued->taken[part].ranges;
	uint32_t left = segment->nranges - first;
	Taken taken = {.queued = queued,
				   .ranges = segment->ranges + first,
				   .n = left < RANGES_AT_ONCE ? left : RANGES_AT_ONCE};

	if (queued->hits != NULL)
		taken.hits = gpuscan_seek_hits(queued->hits, queued->map_page, segment);
	queued->taken[part].ranges += taken.n;
	if (taken.n == left)
	{
		queued->taken[part].segments++;
		queued->taken[part].ranges = 0;
	}
	queued->working++;
	queued->untaken -= taken.n;
	if (queued->untaken > 0)
		return taken;
	while (*link != queued)
		link = &(*link)->next;
	*link = queued->next;
	return taken;
}

/* Ranges are done; with the last of them, answers a scan.  Called and returns under the lock. */
static void
end_ranges(GpuScanRequest *request, const Taken *taken, GpuScanCode code)
{
	QueuedRanges *queued = taken->queued;

	if (queued->code == GPUSCAN_OK)
		queued->code = code;
	if (--queued->working > 0 || queued->untaken > 0)
		return;
	if (queued->hits != NULL)
	{
		pthread_mutex_unlock(&request->device->lock);
		request->options.batch_done(request->options.arg, queued->tag, queued->code, 0);
		pthread_mutex_lock(&request->device->lock);
	}
	free_ranges(queued);
}

/* Runs cached ranges, without the lock.  True if it had to look at no more than headers. */
static bool
run_some(CpuPartial *partial, const Taken *taken, GpuScanCode *code)
{
	uint64_t glances = partial->glances;

	for (uint32_t i = 0; *code == GPUSCAN_OK && i < taken->n; i++)
	{
		const GpuScanCachedRange *range = &taken->ranges[i];

		*code = gpuscan_cpu_partial_run_cached(
			partial, range, taken->hits != NULL ? &taken->hits[range->number] : NULL);
	}
	return *code == GPUSCAN_OK && partial->glances - glances == taken->n;
}

/* Runs some cached ranges.  Called and returns under the lock. */
static void
run_ranges(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;
	bool by_parts = request->plan->nparts > 1;
	uint32_t part = 0;
	QueuedRanges *queued = find_ranges(request, &part);
	Taken taken = take_ranges(request, queued, part);
	CpuPartial *partial;
	GpuScanCode code;
	uint64_t start;

	request->part_is_busy[part] = by_parts;
	partial = begin_work(request, by_parts, part, &code, &start);
	while (code == GPUSCAN_OK && run_some(partial, &taken, &code) && !by_parts)
	{
		const Taken done = taken;

		/* that took less time than beginning and ending does: go on */
		pthread_mutex_lock(&device->lock);
		queued = find_ranges(request, &part);
		if (queued != NULL)
		{
			taken = take_ranges(request, queued, part);
			end_ranges(request, &done, code);
		}
		pthread_mutex_unlock(&device->lock);
		if (queued == NULL)
			break;
	}
	end_work(request, by_parts ? NULL : partial, code, start);
	request->part_is_busy[part] = false;
	end_ranges(request, &taken, code);
	if (by_parts)
		pthread_cond_signal(&device->work);
}

/*
 * Runs a batch and answers it.  Called and returns under the lock.
 */
static void
run_batch(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;
	QueuedBatch *queued = pop_batch(request);
	uint32_t ndeferred = 0;
	CpuPartial *partial;
	GpuScanCode code;
	uint64_t start;

	partial = begin_work(request, false, 0, &code, &start);
	if (code == GPUSCAN_OK && !request->options.only_fills)
	{
		code = gpuscan_cpu_partial_run(partial, &queued->batch);
		ndeferred = partial->ndeferred;
	}
	if (code == GPUSCAN_OK && queued->batch.fill != NULL)
		gpuscan_cpu_fill(partial, &queued->batch);
	end_work(request, partial, code, start);

	/* after the counters, so that they are complete once every batch is answered */
	pthread_mutex_unlock(&device->lock);
	request->options.batch_done(request->options.arg, queued->batch.tag, code, ndeferred);
	free(queued);
	pthread_mutex_lock(&device->lock);
}

/*
 * Goes on to the next step of the merge that has tasks; after the last one, or a
 * failure, answers finish.  Called and returns under the lock.
 */
static void
next_step(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;
	GpuScanCode code;

	do
	{
		request->step++;
		request->next_task = 0;
		request->ntasks = 0;
		if (request->step < CPU_MERGE_STEPS && request->code == GPUSCAN_OK)
			request->code =
				gpuscan_cpu_merge_start(&request->merge, request->step, &request->ntasks);
	} while (request->ntasks == 0 && request->step < CPU_MERGE_STEPS);
	if (request->ntasks > 0)
	{
		pthread_cond_broadcast(&device->work);
		return;
	}

	request->state = FINISHED;
	code = request->code;
	pthread_mutex_unlock(&device->lock);
	gpuscan_cpu_plan_free_bits(request->plan, &request->memory);
	gpuscan_cpu_merge_release(&request->merge);
	request->options.finish_done(request->options.arg, code);
	pthread_mutex_lock(&device->lock);
}

/* Called and returns under the lock, when no other thread works on the request. */
static void
start_merge(GpuScanRequest *request)
{
	uint32_t nparts = 0;

	request->state = MERGING;
	request->step = -1;
	request->merge = (CpuMerge){.plan = request->plan,
								.memory = &request->memory,
								.cancel = &request->cancel,
								.partials = request->partials,
								.npartials = request->npartials};
	for (uint32_t part = 0; part < request->plan->nparts; part++)
		nparts += request->parts[part] != NULL;
	request->merge.disjoint = nparts == request->npartials;
	next_step(request);
}

/* Called and returns under the lock. */
static void
run_merge_task(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;
	uint32_t task = request->next_task++;
	uint64_t start = thread_ns();
	GpuScanCode code;

	pthread_mutex_unlock(&device->lock);
	code = gpuscan_cpu_merge_task(&request->merge, request->step, task);
	start = thread_ns() - start;
	pthread_mutex_lock(&device->lock);

	request->busy_ns += start;
	if (request->code == GPUSCAN_OK)
		request->code = code;
	if (request->code != GPUSCAN_OK)
		request->next_task = request->ntasks;
	if (request->next_task == request->ntasks && request->active == 1 && !request->ended)
		next_step(request);
}

typedef void (*Work)(GpuScanRequest *request);

/* What a thread can do for a request, or NULL.  Under the lock. */
static Work
find_work(const GpuScanRequest *request)
{
	uint32_t part;

	if (request->ended || request->active >= request->limit)
		return NULL;
	if (request->first != NULL)
		return run_batch;
	if (find_ranges(request, &part) != NULL)
		return run_ranges;
	if (request->state == FINISHING && request->active == 0)
		return start_merge;
	if (request->state == MERGING && request->next_task < request->ntasks)
		return run_merge_task;
	return NULL;
}

/* Serves one request, if one needs it.  Called and returns under the lock. */
static bool
serve_one(GpuScanDevice *device)
{
	for (GpuScanRequest *request = device->requests; request != NULL; request = request->next)
	{
		Work work = find_work(request);

		if (request->ended && request->active == 0)
		{
			remove_request(device, request);
			pthread_mutex_unlock(&device->lock);
			take_apart(request);
			pthread_mutex_lock(&device->lock);
			return true;
		}
		if (work != NULL)
		{
			remove_request(device, request);
			append_request(device, request);
			request->active++;
			work(request);
			request->active--;
			return true;
		}
	}
	return false;
}

static void *
worker_main(void *arg)
{
	GpuScanDevice *device = arg;

	pthread_mutex_lock(&device->lock);
	for (;;)
	{
		if (serve_one(device))
			continue;
		if (device->closing && device->requests == NULL)
			break;
		pthread_cond_wait(&device->work, &device->lock);
	}
	/* the others may wait for a last request that is gone now */
	pthread_cond_broadcast(&device->work);
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

static void cpu_close(GpuScanDevice *device);

static int
cpu_count(const char **error)
{
	(void) error;
	return 1;
}

static GpuScanDevice *
cpu_open(int number, uint32_t threads, const char **error)
{
	GpuScanDevice *device = calloc(1, sizeof(GpuScanDevice));
	long ncpus = sysconf(_SC_NPROCESSORS_ONLN);
	sigset_t all;
	sigset_t saved;

	(void) number;
	if (threads == 0)
		threads = ncpus > 0 ? (uint32_t) ncpus : 1;
	if (device != NULL)
		device->threads = calloc(threads, sizeof(pthread_t));
	if (device == NULL || device->threads == NULL)
	{
		free(device);
		*error = "out of memory";
		return NULL;
	}
	device->memory_total = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
	pthread_mutex_init(&device->lock, NULL);
	pthread_cond_init(&device->work, NULL);

	/* signals are for the caller's own thread */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	while (device->nthreads < threads &&
		   pthread_create(&device->threads[device->nthreads], NULL, worker_main, device) == 0)
		device->nthreads++;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);

	if (device->nthreads < threads)
	{
		cpu_close(device);
		*error = "could not create a thread";
		return NULL;
	}
	return device;
}

/* Under the lock. */
static void
end_request(GpuScanRequest *request)
{
	atomic_store(&request->cancel, true);
	request->ended = true;
	while (request->first != NULL)
		free(pop_batch(request));
	while (request->ranges != NULL)
	{
		QueuedRanges *queued = request->ranges;

		request->ranges = queued->next;
		queued->untaken = 0;
		queued->hits = NULL;
		if (queued->working == 0)
			free_ranges(queued);
	}
}

static void
cpu_close(GpuScanDevice *device)
{
	pthread_mutex_lock(&device->lock);
	device->closing = true;
	for (GpuScanRequest *request = device->requests; request != NULL; request = request->next)
		end_request(request);
	pthread_cond_broadcast(&device->work);
	pthread_mutex_unlock(&device->lock);

	for (uint32_t i = 0; i < device->nthreads; i++)
		pthread_join(device->threads[i], NULL);
	pthread_cond_destroy(&device->work);
	pthread_mutex_destroy(&device->lock);
	free(device->threads);
	free(device);
}

static void
cpu_status(GpuScanDevice *device, GpuScanDeviceStatus *status)
{
	memset(status, 0, sizeof(*status));
	status->memory_total = device->memory_total;
	status->memory_used = atomic_load_explicit(&device->memory_used, memory_order_relaxed);
}

static GpuScanCode
cpu_begin(GpuScanDevice *device, const GpuScanRequestOptions *options, GpuScanRequest **request)
{
	GpuScanRequest *r = calloc(1, sizeof(GpuScanRequest));

	if (r == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	r->device = device;
	r->options = *options;
	r->memory.limit = options->memory_limit;
	r->memory.device_limit = options->device_memory_limit;
	r->memory.device_used = &device->memory_used;
	r->limit = options->threads == 0 || options->threads > device->nthreads ? device->nthreads
																			: options->threads;
	r->options.threads = r->limit;
	r->plan = gpuscan_cpu_plan_create(&r->options);
	r->partials = calloc(2 * (size_t) r->limit, sizeof(CpuPartial *));
	r->idle = calloc(r->limit, sizeof(CpuPartial *));
	r->parts = calloc(r->limit, sizeof(CpuPartial *));
	r->part_is_busy = calloc(r->limit, sizeof(bool));
	if (r->plan == NULL || r->partials == NULL || r->idle == NULL || r->parts == NULL ||
		r->part_is_busy == NULL)
	{
		free_request(r);
		return GPUSCAN_OUT_OF_MEMORY;
	}

	pthread_mutex_lock(&device->lock);
	append_request(device, r);
	pthread_mutex_unlock(&device->lock);
	*request = r;
	return GPUSCAN_OK;
}

static GpuScanCode
cpu_push(GpuScanRequest *request, const GpuScanBatch *batch)
{
	GpuScanDevice *device = request->device;
	QueuedBatch *queued = malloc(sizeof(QueuedBatch));

	if (queued == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	queued->next = NULL;
	queued->batch = *batch;

	pthread_mutex_lock(&device->lock);
	if (request->last == NULL)
		request->first = queued;
	else
		request->last->next = queued;
	request->last = queued;
	pthread_cond_signal(&device->work);
	pthread_mutex_unlock(&device->lock);
	return GPUSCAN_OK;
}

/* A list of segments; NULL: out of memory. */
static QueuedRanges *
list_segments(const GpuScanRequest *request, GpuScanCachedSegment *const *segments,
			  uint32_t nsegments)
{
	QueuedRanges *queued =
		calloc(1, sizeof(QueuedRanges) + request->limit * sizeof(queued->taken[0]));

	if (queued == NULL)
		return NULL;
	queued->segments = malloc((nsegments + 1) * sizeof(GpuScanCachedSegment *));
	if (queued->segments == NULL)
	{
		free(queued);
		return NULL;
	}
	memcpy(queued->segments, segments, nsegments * sizeof(GpuScanCachedSegment *));
	queued->nsegments = nsegments;
	for (uint32_t i = 0; i < nsegments; i++)
		queued->untaken += segments[i]->nranges;
	return queued;
}

/* Has the threads work on them. */
static void
queue_segments(GpuScanRequest *request, QueuedRanges *queued)
{
	GpuScanDevice *device = request->device;

	pthread_mutex_lock(&device->lock);
	queued->untaken *= request->plan->nparts;
	queued->next = request->ranges;
	request->ranges = queued;
	pthread_cond_broadcast(&device->work);
	pthread_mutex_unlock(&device->lock);
}

static GpuScanCode
cpu_push_cached(GpuScanRequest *request, GpuScanCachedSegment *const *segments, uint32_t nsegments)
{
	GpuScanDevice *device = request->device;
	uint32_t ninputs = request->options.program->ninputs;
	QueuedRanges *queued = list_segments(request, segments, nsegments);
	bool untouched;

	if (queued == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	queued->nsegments = 0;
	for (uint32_t i = 0; i < nsegments; i++)
	{
		if (segments[i]->prepared == NULL && !gpuscan_cpu_segment_prepare(segments[i], ninputs))
		{
			free_ranges(queued);
			return GPUSCAN_OUT_OF_MEMORY;
		}
		if (segments[i]->nranges > 0)
			queued->segments[queued->nsegments++] = segments[i];
	}
	if (queued->nsegments == 0)
	{
		free_ranges(queued);
		return GPUSCAN_OK;
	}
	pthread_mutex_lock(&device->lock);
	untouched = request->npartials + request->active == 0 && request->first == NULL &&
				request->ranges == NULL && request->code == GPUSCAN_OK;
	pthread_mutex_unlock(&device->lock);
	if (untouched)
		gpuscan_cpu_plan_numbers(request->plan, queued->segments, queued->nsegments,
								 &request->memory);
	queue_segments(request, queued);
	return GPUSCAN_OK;
}

static GpuScanCode
cpu_seek(GpuScanRequest *request, const GpuScanSeek *seek)
{
	QueuedRanges *queued = list_segments(request, seek->segments, seek->nsegments);

	if (queued == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	queued->hits = seek->hits;
	queued->map_page = seek->map_page;
	queued->tag = seek->tag;
	queue_segments(request, queued);
	return GPUSCAN_OK;
}

static void
cpu_free_chunk(GpuScanDevice *device, GpuScanChunk *chunk)
{
	(void) device;
	free(chunk);
}

static GpuScanCode
cpu_finish(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;

	if (!request->options.program->aggregate)
		return GPUSCAN_INVALID;
	pthread_mutex_lock(&device->lock);
	request->state = FINISHING;
	pthread_cond_signal(&device->work);
	pthread_mutex_unlock(&device->lock);
	return GPUSCAN_OK;
}

static GpuScanCode
cpu_fetch(GpuScanRequest *request, void *buf, size_t size, uint32_t *nrows)
{
	return gpuscan_cpu_fetch(request->options.program, request->merge.tables,
							 request->merge.ntables, &request->cursor, buf, size, nrows);
}

static void
cpu_end(GpuScanRequest *request)
{
	GpuScanDevice *device = request->device;

	pthread_mutex_lock(&device->lock);
	end_request(request);
	pthread_cond_signal(&device->work);
	pthread_mutex_unlock(&device->lock);
}

const GpuScanDeviceOps gpuscan_cpu_device = {
	.name = "cpu",
	.batch_blocks = 32, /* pages that stay in a core's cache, and work for each thread */
	.count = cpu_count,
	.open = cpu_open,
	.status = cpu_status,
	.close = cpu_close,
	.begin = cpu_begin,
	.push = cpu_push,
	.push_cached = cpu_push_cached,
	.seek = cpu_seek,
	.finish = cpu_finish,
	.fetch = cpu_fetch,
	.end = cpu_end,
	.free_chunk = cpu_free_chunk,
	.forget_segment = gpuscan_cpu_segment_forget,
};
