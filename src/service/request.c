/*-------------------------------------------------------------------------
 *
 * request.c
 *	  The service's side of requests: from a slot and a channel to a device.
 *
 * Each slot has a Request here, in private memory, which stays in place: the
 * device's callbacks get its address.  The main thread alone calls the device
 * and changes a Request; device threads run the three callbacks, which store
 * into atomics and call `wake`, and no more.
 *
 *	 serve(request), whenever its backend or its device has news:
 *		begin it, if it is new: copy and check the Program, call begin
 *		unless it has failed or its backend wants no more:
 *			check and push the batches that the backend pushed
 *			finish, once the backend says so
 *			fetch into the result areas that are empty
 *		else, or if its last row is fetched:
 *			end it
 *		if the device has ended it and its backend wants no more:
 *			let go of the channel, then of the slot
 *		wake the backend, if what it waits for has happened
 *
 * What a backend wrote is taken for what a buggy backend may have written.
 * The Program and the layouts are copied before they are checked; blocks.c does
 * that of batches.
 *
 * How it fails: fail() stores the code in the channel, and the next turn ends
 * the request.  GPUSCAN_DEVICE_FAILED ends the whole service.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/blocks.h"
#include "service/cache.h"
#include "service/devices.h"
#include "service/mapping.h"
#include "service/request.h"
#include "service/shmem.h"
#include "utils/memutils.h"

typedef struct Request Request;

/* A place of a channel's ring; its address is the tag of the device's batch. */
typedef struct Batch
{
	Request *request;
	pg_atomic_uint32 in_flight;
	GpuScanTakenBlocks taken;
	GpuScanCode code;  /* once it is done */
	uint32 number;	   /* of the request's pushes, this one */
	GpuScanFill *fill; /* where its columns go, or NULL */
	GpuScanCacheFill fill_of;
} Batch;

struct Request
{
	GpuScanSlot *slot;
	pg_atomic_uint32 *news;	 /* a device thread has something to say */
	GpuScanMapping *mapping; /* NULL: the slot is not being served */
	GpuScanChannel *chan;
	GpuScanFault fault;

	/* Whose request at the device its batches go to: itself, or the one it feeds */
	Request *leader;
	uint32 nfeeders; /* others whose leader it is */

	/* Copies of what the channel's `request` holds, in one piece of memory */
	GpuScanProgram *program;
	const GpuScanLayout **layouts;
	uint32 nlayouts;

	GpuScanCacheUse *cache;			 /* on a device that takes columns, or NULL */
	Batch *seeking;					 /* whose question the device answers, of a scan, or NULL */
	const GpuScanOpenDevice *device; /* that serves it */
	GpuScanRequest *running;		 /* the device's; NULL if it never began */
	uint32 npushed;					 /* batches passed on */
	uint32 ndone_seen;				 /* of ndone, by the main thread */
	uint32 nresults;				 /* result areas filled */
	bool background;				 /* it only loads columns */
	bool finishing;
	bool exhausted; /* the last row is in a result area */
	bool ending;
	bool closing_seen;

	/* Set by device threads */
	pg_atomic_uint32 ndone;
	pg_atomic_uint32 draining; /* a feeder that ends: each batch done is news */
	pg_atomic_uint32 finished;
	pg_atomic_uint32 ended;

	Batch batches[GPUSCAN_RING_BATCHES];
};

static uint32 device_threads;
static uint32 service_generation;
static void (*wake_main_thread)(void);

static Request *requests;	   /* one for each slot */
static pg_atomic_uint32 *news; /* the same, together in few cache lines */

void
gpuscan_request_setup(uint32 threads, uint32 generation, void (*wake)(void))
{
	int nslots = gpuscan_shared->nslots;

	device_threads = threads;
	service_generation = generation;
	wake_main_thread = wake;
	requests = MemoryContextAllocZero(TopMemoryContext, mul_size(nslots, sizeof(Request)));
	news = MemoryContextAllocZero(TopMemoryContext, mul_size(nslots, sizeof(pg_atomic_uint32)));
	gpuscan_cache_setup();
	for (int i = 0; i < nslots; i++)
	{
		pg_atomic_init_u32(&news[i], 0);
		requests[i].slot = &gpuscan_shared->slots[i];
		requests[i].news = &news[i];
		for (int j = 0; j < GPUSCAN_RING_BATCHES; j++)
			requests[i].batches[j].request = &requests[i];
	}
}

/* ---- device threads ---- */

static void
report(Request *request)
{
	pg_atomic_write_u32(request->news, 1);
	wake_main_thread();
}

/* The first failure counts. */
static void
fail(Request *request, GpuScanCode code)
{
	uint32 expected = GPUSCAN_OK;

	(void) pg_atomic_compare_exchange_u32(&request->chan->failure, &expected, code);
}

/* The main thread need not hear of a batch that nobody waits for. */
static void
batch_done(void *arg, void *tag, GpuScanCode code, uint32_t ndeferred)
{
	Request *leader = arg;
	Batch *batch = tag;
	Request *request = batch->request;
	GpuScanChannel *chan = request->chan;
	uint32 index = batch - request->batches;
	bool is_news = code != GPUSCAN_OK || request->fault.kind != GPUSCAN_FAULT_NONE;

	if (code != GPUSCAN_OK)
	{
		fail(request, code);
		fail(leader, code);
		report(leader);
	}
	chan->batches[index].ndeferred = ndeferred;
	batch->code = code;
	pg_write_barrier();
	pg_atomic_write_u32(&batch->in_flight, 0);
	pg_write_barrier();

	/* The exchange is a full barrier: see channel.h. */
	pg_atomic_exchange_u32(&chan->batches[index].done, 1);
	is_news |= pg_atomic_read_u32(&chan->waiting) == GPUSCAN_WAIT_BATCH + index;

	/* From here on a feeder's channel may be gone. */
	pg_atomic_fetch_add_u32(&request->ndone, 1);
	if (is_news || pg_atomic_read_u32(&request->draining) != 0)
		report(request);
}

static void
finish_done(void *arg, GpuScanCode code)
{
	Request *request = arg;

	if (code != GPUSCAN_OK)
		fail(request, code);
	pg_write_barrier();
	pg_atomic_write_u32(&request->finished, 1);
	report(request);
}

static void
ended(void *arg, const GpuScanRequestStats *stats)
{
	Request *request = arg;

	request->chan->stats = *stats;
	pg_write_barrier();

	/* From here on the channel may be gone. */
	pg_atomic_write_u32(&request->ended, 1);
	report(request);
}

/* ---- the main thread ---- */

/* The code that the request's fault has for this point, GPUSCAN_OK: none; may exit. */
static GpuScanCode
injected_code(Request *request, GpuScanFaultPoint point)
{
	GpuScanFaultKind kind = gpuscan_fault_at(&request->fault, point);

	if (kind == GPUSCAN_FAULT_SERVICE_EXIT)
		ereport(FATAL, (errcode(ERRCODE_ADMIN_SHUTDOWN),
						errmsg("gpuscan service exits at \"%s\" by gpuscan.inject_fault",
							   gpuscan_fault_point_name(point))));
	if (kind == GPUSCAN_FAULT_WAIT)
		pg_usleep(50 * 1000);
	if (kind == GPUSCAN_FAULT_DEVICE_LOST)
		return GPUSCAN_DEVICE_FAILED;
	return kind == GPUSCAN_FAULT_DEVICE_ERROR ? GPUSCAN_OUT_OF_MEMORY : GPUSCAN_OK;
}

/* Fails a request, and the one that it feeds, which lacks its input now. */
static void
fail_all(Request *request, GpuScanCode code)
{
	Request *leader = request->leader;

	fail(request, code);
	if (leader != NULL && leader != request)
	{
		fail(leader, code);
		report(leader);
	}
}

/* Takes a device's answer.  True if it is GPUSCAN_OK. */
static bool
succeeded(Request *request, GpuScanFaultPoint point, GpuScanCode code)
{
	GpuScanCode injected = injected_code(request, point);

	if (injected != GPUSCAN_OK)
		code = injected;
	if (code != GPUSCAN_OK)
		fail_all(request, code);
	return code == GPUSCAN_OK;
}

static void
reject(Request *request, const char *why)
{
	ereport(LOG, (errmsg("gpuscan service rejected a request of process %d", request->slot->pid),
				  errdetail_internal("%s", why)));
	fail_all(request, GPUSCAN_INVALID);
}

/* Copies the Program and the layouts, and checks the copies. */
static bool
copy_program(Request *request)
{
	GpuScanChannel *chan = request->chan;
	uint32 size = chan->request_size;
	uint32 nlayouts = chan->nlayouts;
	uint32 offset;
	const char *why = "its size is wrong";

	if (size < sizeof(GpuScanProgram) || size > GPUSCAN_REQUEST_SIZE ||
		nlayouts > GPUSCAN_REQUEST_SIZE / sizeof(GpuScanLayout))
	{
		reject(request, why);
		return false;
	}

	request->program =
		MemoryContextAlloc(TopMemoryContext, MAXALIGN(size) + nlayouts * sizeof(GpuScanLayout *));
	memcpy(request->program, chan->request, size);
	request->layouts = (const GpuScanLayout **) ((char *) request->program + MAXALIGN(size));
	request->nlayouts = nlayouts;

	if (request->program->size > Min(size, GPUSCAN_MAX_PROGRAM_SIZE) ||
		!gpuscan_program_check(request->program, request->program->size, &why))
	{
		reject(request, why);
		return false;
	}
	offset = MAXALIGN(request->program->size);
	for (uint32 i = 0; i < nlayouts; i++)
	{
		const GpuScanLayout *layout = (const GpuScanLayout *) ((char *) request->program + offset);

		if (offset + sizeof(GpuScanLayout) > size || layout->size > size - offset ||
			!gpuscan_layout_check(layout, layout->size, request->program, &why))
		{
			reject(request, why);
			return false;
		}
		request->layouts[i] = layout;
		offset += MAXALIGN(layout->size);
	}
	return true;
}

/* Frees a slot whose backend is gone and whose request never began. */
static void
discard(GpuScanSlot *slot)
{
	GpuScanMapping *mapping = gpuscan_mapping_take(slot->channel);

	if (mapping)
	{
		pg_atomic_write_u32(&mapping->chan->idle, 1);
		gpuscan_mapping_give(mapping);
	}
	gpuscan_slot_free_abandoned(slot);
}

static void serve(Request *request);

static void
set_device(Request *request, const GpuScanOpenDevice *device)
{
	request->device = device;
	pg_atomic_write_u32(&request->slot->device, device->entry - gpuscan_shared->devices);
}

/* Makes the request one that feeds another. */
static void
join(Request *request)
{
	GpuScanSlot *slot = request->slot;
	Request *leader = slot->leader < gpuscan_shared->nslots ? &requests[slot->leader] : NULL;

	request->leader = NULL;
	if (leader != NULL && leader->mapping == NULL)
		serve(leader);
	if (leader == NULL || leader->mapping == NULL || leader->slot->serial != slot->leader_serial ||
		leader->running == NULL || leader->finishing || leader->ending)
	{
		fail(request, GPUSCAN_CANCELLED);
		return;
	}
	request->leader = leader;
	set_device(request, leader->device);
	request->nlayouts = leader->nlayouts;
	leader->nfeeders++;
	pg_atomic_write_u32(&slot->phase, GPUSCAN_PHASE_SCANNING);
}

/* Does what a command says; its answer is a result. */
static void
obey(Request *request)
{
	GpuScanCacheCommand command = *(GpuScanCacheCommand *) request->chan->request;
	GpuScanChannelResult *result = &request->chan->results[0];

	StaticAssertStmt(GPUSCAN_CACHE_MAX_ROWS * sizeof(GpuScanCacheRow) <= GPUSCAN_RESULT_SIZE,
					 "a report does not fit into a result");
	if (command.kind == GPUSCAN_CACHE_REPORT)
		result->nrows =
			gpuscan_cache_report((GpuScanCacheRow *) result->rows, GPUSCAN_CACHE_MAX_ROWS);
	else
	{
		*(uint64 *) result->rows = gpuscan_cache_evict(command.database, command.relid);
		result->nrows = 1;
	}
	request->exhausted = true;
	pg_write_barrier();
	pg_atomic_write_u32(&result->full, 1);
}

/* Takes a slot that is OPEN.  False if its channel is gone, and so its backend. */
static bool
begin(Request *request)
{
	GpuScanChannel *chan;
	char device[sizeof(chan->device)];

	request->mapping = gpuscan_mapping_take(request->slot->channel);
	if (request->mapping == NULL)
		return false;
	request->chan = chan = request->mapping->chan;
	memset(&chan->stats, 0, sizeof(chan->stats));
	request->fault = chan->fault;
	request->program = NULL;
	request->cache = NULL;
	request->seeking = NULL;
	request->device = NULL;
	request->running = NULL;
	request->leader = request;
	request->nfeeders = 0;
	request->npushed = 0;
	request->ndone_seen = 0;
	request->nresults = 0;
	request->finishing = false;
	request->exhausted = false;
	request->ending = false;
	request->closing_seen = false;
	pg_atomic_write_u32(&request->ndone, 0);
	pg_atomic_write_u32(&request->draining, 0);
	pg_atomic_write_u32(&request->finished, 0);
	pg_atomic_write_u32(&request->ended, 0);
	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
		pg_atomic_write_u32(&request->batches[i].in_flight, 0);

	if (request->slot->leader == GPUSCAN_SLOT_COMMAND)
	{
		obey(request);
		return true;
	}
	if (request->slot->leader >= 0)
	{
		join(request);
		return true;
	}
	strlcpy(device, chan->device, sizeof(device));
	request->background = chan->background;
	set_device(request, gpuscan_devices_take(device));
	if (chan->pass.mask >= GPUSCAN_MAX_PASSES || (chan->pass.mask & (chan->pass.mask + 1)) != 0 ||
		chan->pass.number > chan->pass.mask)
		reject(request, "its pass is not well formed");
	else if (copy_program(request))
	{
		GpuScanRequestOptions options = {
			.program = request->program,
			.layouts = request->layouts,
			.nlayouts = request->nlayouts,
			.pass = chan->pass,
			.threads = chan->threads > 0 ? Min(chan->threads, device_threads) : device_threads,
			.tuples_expected = chan->tuples_expected,
			.groups_expected = chan->groups_expected,
			.memory_limit = (uint64) request->slot->memory_mb * 1024 * 1024,
			.device_memory_limit = gpuscan_devices_memory_limit(request->device->entry),
			.columns_limit = gpuscan_cache_columns_limit(request->device, request->background),
			.only_fills = request->background,
			.arg = request,
			.batch_done = batch_done,
			.finish_done = finish_done,
			.ended = ended,
		};

		(void) succeeded(
			request, GPUSCAN_AT_BEGIN,
			request->device->ops->begin(request->device->device, &options, &request->running));
		if (request->running != NULL && request->device->ops->push_cached != NULL)
			request->cache = gpuscan_cache_use(request->device, request->program, request->layouts,
											   request->nlayouts, request->background);
		pg_atomic_write_u32(&request->slot->phase, GPUSCAN_PHASE_SCANNING);
	}
	return true;
}

/*
 * Takes over the columns that a batch made, and the pages.  They are good if the backend had
 * the batch's pages pinned until it was done, which it says before it unpins them.
 */
static void
end_fill(Request *request, uint32 index)
{
	Batch *batch = &request->batches[index];
	GpuScanChannelBatch *shared = &request->chan->batches[index];
	bool good;

	if (batch->fill == NULL && batch->taken.nkept == 0)
		return;
	good = pg_atomic_read_u32(&batch->in_flight) == 0 &&
		   pg_atomic_read_u32(&shared->confirmed) == batch->number;
	pg_read_barrier();
	good = good && batch->code == GPUSCAN_OK;
	gpuscan_blocks_end(&batch->taken, good);
	if (batch->fill != NULL)
		gpuscan_cache_end_fill(request->leader->cache, &batch->fill_of, batch->fill, good);
	batch->fill = NULL;
}

static void
end_fills(Request *request)
{
	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
		end_fill(request, i);
}

/*
 * Gives the device what the cache has answered, in one piece; unless `all`, only if
 * no other answers will follow.  False if the request has failed.
 */
static bool
push_answers(Request *request, bool all)
{
	GpuScanCachedSegment *const *segments;
	uint32 n;

	if (request->cache == NULL || !request->program->aggregate)
		return true;
	n = gpuscan_cache_take_answers(request->cache, all, &segments);
	return n == 0 || succeeded(request, GPUSCAN_AT_PUSH,
							   request->device->ops->push_cached(request->running, segments, n));
}

/* Lets go of what the device has used for a scan's last question. */
static void
end_seek(Request *request)
{
	if (request->seeking == NULL || pg_atomic_read_u32(&request->seeking->in_flight) != 0)
		return;
	gpuscan_cache_end_answers(request->cache);
	request->seeking = NULL;
}

/*
 * Has the device find the blocks that a scan may want, of those that the cache has
 * answered; it is the device that answers the batch then.  False if the request has failed.
 */
static bool
seek(Request *request, uint32 index, uint32 npages)
{
	GpuScanChannelBatch *shared = &request->chan->batches[index];
	Batch *batch = &request->batches[index];
	GpuScanSeek seek = {.hits = (uint64 *) shared->staging, .tag = batch};

	/* what both kinds of questions begin with; npages is at most GPUSCAN_SEEK_PAGES */
	seek.map_page = ((const GpuScanCacheQuestion *) shared->items)->map_page;
	seek.nsegments = gpuscan_cache_take_answers(request->cache, true, &seek.segments);
	memset(seek.hits, 0, npages * GPUSCAN_HITS_SIZE);
	if (seek.nsegments == 0)
	{
		pg_atomic_fetch_add_u32(&request->ndone, 1);
		pg_atomic_exchange_u32(&shared->done, 1);
		return true;
	}
	request->seeking = batch;
	pg_atomic_write_u32(&batch->in_flight, 1);
	return succeeded(request, GPUSCAN_AT_PUSH, request->device->ops->seek(request->running, &seek));
}

static bool finish(Request *request);

/* Answers a batch that asks what is cached. */
static bool
answer(Request *request, uint32 index)
{
	GpuScanChannelBatch *batch = &request->chan->batches[index];
	bool good = request->cache != NULL && request->seeking == NULL;
	bool finished = false;
	uint32 npages = 1;

	if (good && batch->kind == GPUSCAN_KIND_SURVEY)
	{
		GpuScanCacheSurvey *survey = (GpuScanCacheSurvey *) batch->items;

		npages = survey->npages;
		good =
			npages <= (request->program->aggregate ? GPUSCAN_SURVEY_PAGES : GPUSCAN_SEEK_PAGES) &&
			gpuscan_cache_survey(request->cache, survey, npages);
		finished = survey->question.finished;
	}
	else if (good)
	{
		GpuScanCacheLookup *lookup = (GpuScanCacheLookup *) batch->items;
		const XLogRecPtr *lsns = lookup->with_lsns ? (const XLogRecPtr *) batch->staging : NULL;

		good = gpuscan_cache_lookup(request->cache, lookup, lsns);
		finished = lookup->question.finished;
	}
	if (!good)
	{
		reject(request, "a question to the cache is not well formed");
		return false;
	}
	request->npushed++;
	if (!request->program->aggregate)
		return seek(request, index, npages);
	pg_atomic_fetch_add_u32(&request->ndone, 1);
	if (!push_answers(request, false))
		return false;
	pg_atomic_exchange_u32(&batch->done, 1);
	return !finished || finish(request);
}

/* Passes on the next batch of the queue.  False if the request has failed. */
static bool
push(Request *request)
{
	GpuScanChannel *chan = request->chan;
	uint32 index = chan->queue[request->npushed % GPUSCAN_RING_BATCHES];
	GpuScanBatch to = {0};
	GpuScanChannelBatch *from;
	const char *why;
	Batch *batch;

	if (index >= GPUSCAN_RING_BATCHES || request->leader->finishing ||
		pg_atomic_read_u32(&request->batches[index].in_flight) != 0)
	{
		reject(request, "a batch was pushed out of turn");
		return false;
	}
	batch = &request->batches[index];
	end_fill(request, index);
	from = &chan->batches[index];
	if (from->kind == GPUSCAN_KIND_SURVEY || from->kind == GPUSCAN_KIND_LOOKUP)
		return answer(request, index);
	if (!push_answers(request->leader, true))
		return false;
	why = gpuscan_blocks_take(&batch->taken, from, request->nlayouts, request->leader->cache);
	if (why != NULL)
	{
		gpuscan_blocks_end(&batch->taken, false);
		reject(request, why);
		return false;
	}
	to.nblocks = batch->taken.n;
	to.blocks = batch->taken.blocks;
	to.tag = batch;

	if (from->kind == GPUSCAN_KIND_FILL && request->leader->cache != NULL)
	{
		batch->fill_of = from->fill;
		batch->fill = gpuscan_cache_begin_fill(request->leader->cache, &batch->fill_of);
	}
	to.fill = batch->fill;

	batch->number = ++request->npushed;
	if (to.nblocks == 0)
	{
		/* pages that are not kept any more, and nothing else */
		from->ndeferred = 0;
		pg_atomic_fetch_add_u32(&request->ndone, 1);
		pg_atomic_exchange_u32(&from->done, 1);
		return true;
	}
	pg_atomic_write_u32(&batch->in_flight, 1);
	return succeeded(request, GPUSCAN_AT_PUSH,
					 request->device->ops->push(request->leader->running, &to));
}

/* Ends the input.  False if the request has failed. */
static bool
finish(Request *request)
{
	bool under_way = request->nfeeders > 0;

	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
		under_way |= pg_atomic_read_u32(&request->batches[i].in_flight) != 0;
	if (under_way)
	{
		reject(request, "it was finished before its last batch was done");
		return false;
	}
	if (request->program == NULL || !request->program->aggregate || request->background)
	{
		reject(request, "a request without a result was finished");
		return false;
	}
	request->finishing = true;
	pg_atomic_write_u32(&request->slot->phase, GPUSCAN_PHASE_FINISHING);
	if (!push_answers(request, true) ||
		!succeeded(request, GPUSCAN_AT_FINISH, request->device->ops->finish(request->running)))
		return false;

	/* while the device finishes */
	end_fills(request);
	return true;
}

/* Fills the result areas that are empty. */
static void
fetch(Request *request)
{
	pg_atomic_write_u32(&request->slot->phase, GPUSCAN_PHASE_RETURNING);
	while (!request->exhausted)
	{
		GpuScanChannelResult *result = &request->chan->results[request->nresults % GPUSCAN_RESULTS];
		uint32 nrows = 0;

		if (pg_atomic_read_u32(&result->full) != 0)
			return;
		if (!succeeded(request, GPUSCAN_AT_FETCH,
					   request->device->ops->fetch(request->running, result->rows,
												   GPUSCAN_RESULT_SIZE, &nrows)))
			return;
		result->nrows = nrows;
		request->exhausted = nrows == 0;
		request->nresults++;
		pg_write_barrier();
		pg_atomic_write_u32(&result->full, 1);
	}
}

/* Does what the backend asked for and the device is ready for. */
static void
advance(Request *request)
{
	GpuScanChannel *chan = request->chan;

	/* The order matters: a backend pushes before it finishes. */
	bool finish_wanted = pg_atomic_read_u32(&chan->finish) != 0;
	uint32 npushed;

	pg_read_barrier();
	npushed = pg_atomic_read_u32(&chan->npushed);
	pg_read_barrier();
	if (npushed - request->npushed > GPUSCAN_RING_BATCHES)
	{
		reject(request, "too many batches were pushed");
		return;
	}
	end_seek(request);
	while (request->npushed != npushed)
	{
		if (!push(request))
			return;
	}
	if (finish_wanted && !request->finishing && !finish(request))
		return;
	if (pg_atomic_read_u32(&request->finished) != 0 &&
		pg_atomic_read_u32(&chan->failure) == GPUSCAN_OK)
	{
		pg_read_barrier();
		fetch(request);
	}
}

/* Takes a feeder off its leader. */
static void
leave(Request *request)
{
	if (request->leader != NULL && request->leader != request)
	{
		end_fills(request);
		request->leader->nfeeders--;
		request->leader = NULL;
	}
}

/* Fails those that feed a request which ends; `gone`: the device has let go of it. */
static void
cut_feeders_off(Request *request, bool gone)
{
	for (int i = 0; request->nfeeders > 0 && i < gpuscan_shared->nslots; i++)
	{
		Request *feeder = &requests[i];

		if (feeder == request || feeder->mapping == NULL || feeder->leader != request)
			continue;
		fail(feeder, GPUSCAN_CANCELLED);
		if (gone)
			leave(feeder);
		report(feeder);
	}
}

/* Tells the device to end the request. */
static void
end(Request *request)
{
	request->ending = true;
	pg_atomic_write_u32(&request->slot->phase, GPUSCAN_PHASE_ENDING);
	if (request->running)
	{
		cut_feeders_off(request, false);
		request->device->ops->end(request->running);
	}
	else if (request->leader == request)
		pg_atomic_write_u32(&request->ended, 1);
	else
		pg_atomic_exchange_u32(&request->draining, 1);
}

/* Whether the device touches nothing of the request any more. */
static bool
is_ended(Request *request)
{
	if (request->leader == request)
		return pg_atomic_read_u32(&request->ended) != 0;
	return request->leader == NULL || pg_atomic_read_u32(&request->ndone) == request->npushed;
}

/* The device and the backend are through with it. */
static void
let_go(Request *request)
{
	GpuScanSlot *slot = request->slot;
	GpuScanChannel *chan = request->chan;
	uint32 expected = GPUSCAN_SLOT_OPEN;
	bool owned;

	if (request->leader == request && request->device != NULL)
		gpuscan_devices_give(request->device, request->ndone_seen > 0 &&
												  pg_atomic_read_u32(&chan->failure) == GPUSCAN_OK);
	leave(request);
	if (request->cache)
	{
		end_fills(request);
		gpuscan_cache_release(request->cache);
	}
	if (request->program)
		pfree(request->program);

	/*
	 * First the slot becomes the backend's, then `idle` says that it may free
	 * it; see the states in shmem.c.  It may be another's when we wake: that
	 * costs it a look around.
	 */
	owned = pg_atomic_compare_exchange_u32(&slot->state, &expected, GPUSCAN_SLOT_OWNED);
	pg_write_barrier();
	pg_atomic_exchange_u32(&chan->idle, 1);
	if (!owned)
		gpuscan_slot_free(slot);
	else if (pg_atomic_read_u32(&chan->waiting) == GPUSCAN_WAIT_IDLE)
		gpuscan_slot_wake(slot);
	gpuscan_mapping_give(request->mapping);
	request->mapping = NULL;
}

/* The device serves nobody any more: end the service; its sessions run replaced plans. */
static void
give_up_device(const Request *request)
{
	for (int i = 0; i < gpuscan_shared->nslots; i++)
	{
		if (requests[i].mapping)
			fail(&requests[i], GPUSCAN_DEVICE_FAILED);
	}
	gpuscan_devices_give_up(request->device);
}

static void
serve(Request *request)
{
	GpuScanSlot *slot = request->slot;
	uint32 state = pg_atomic_read_u32(&slot->state);
	GpuScanChannel *chan;
	bool unwanted;
	uint32 failure;
	uint32 waiting;

	if (request->mapping == NULL)
	{
		if (state != GPUSCAN_SLOT_OPEN && state != GPUSCAN_SLOT_ABANDONED)
			return;
		pg_read_barrier();
		if (slot->generation != service_generation)
			return;
		if (state == GPUSCAN_SLOT_ABANDONED || !begin(request))
		{
			discard(slot);
			return;
		}
	}
	chan = request->chan;
	unwanted = state == GPUSCAN_SLOT_ABANDONED || pg_atomic_read_u32(&chan->closing) != 0;

	for (; request->ndone_seen != pg_atomic_read_u32(&request->ndone); request->ndone_seen++)
		(void) injected_code(request, GPUSCAN_AT_BATCH_DONE);
	if (unwanted && !request->closing_seen)
	{
		request->closing_seen = true;
		(void) injected_code(request, GPUSCAN_AT_CLOSE);
	}

	if (!unwanted && !request->ending && pg_atomic_read_u32(&chan->failure) == GPUSCAN_OK)
		advance(request);
	failure = pg_atomic_read_u32(&chan->failure);
	if (failure == GPUSCAN_DEVICE_FAILED)
		give_up_device(request);
	if (!request->ending && (unwanted || failure != GPUSCAN_OK || request->exhausted))
		end(request);
	if (request->ending && is_ended(request))
	{
		pg_read_barrier();
		cut_feeders_off(request, true);
		if (unwanted)
		{
			let_go(request);
			return;
		}
	}

	pg_memory_barrier();
	waiting = pg_atomic_read_u32(&chan->waiting);
	if (waiting > GPUSCAN_WAIT_NOTHING && waiting < GPUSCAN_WAIT_IDLE &&
		gpuscan_channel_answered(chan, waiting))
		gpuscan_slot_wake(slot);
}

bool
gpuscan_request_is_pending(void)
{
	for (int i = 0; i < gpuscan_shared->nslots; i++)
	{
		if (pg_atomic_read_u32(&news[i]) != 0 ||
			pg_atomic_read_u32(&gpuscan_shared->doorbells[i]) != 0)
			return true;
	}
	return false;
}

void
gpuscan_request_serve_all(void)
{
	for (int i = 0; i < gpuscan_shared->nslots; i++)
	{
		pg_atomic_uint32 *doorbell = &gpuscan_shared->doorbells[i];
		bool pending = false;

		/* The exchange is a full barrier: what is read now is not older than the bell. */
		if (pg_atomic_read_u32(doorbell) != 0)
			pending |= pg_atomic_exchange_u32(doorbell, 0) != 0;
		if (pg_atomic_read_u32(&news[i]) != 0)
			pending |= pg_atomic_exchange_u32(&news[i], 0) != 0;
		if (pending)
			serve(&requests[i]);
	}
}
