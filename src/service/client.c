/*-------------------------------------------------------------------------
 *
 * client.c
 *	  One request, from its backend's side: open, push, complete, finish,
 *	  fetch, close.
 *
 * Memory: the client is palloc'd by its caller's context; its batches belong to
 * the session's channel (session.c), which the next request uses again; what
 * the service reads lies in the channel's segment (channel.h).
 *
 * A request is opened without an answer from the service: what it has against
 * it arrives as a failure later.  So a request costs a backend one sleep for
 * each batch that is not done in time, one for the first rows, and one to
 * close, and no more.
 *
 * How it fails: `failure` of the channel, a service of another generation, or
 * none.  Every wait looks at both, and is woken for both: the exiting service
 * wakes all backends.  The time-out of a wait is a second line of defence.
 *
 * An abort resets the memory context, and its callback abandons the slot; the
 * service then ends the request and frees the slot, and nobody waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "service/client_impl.h"
#include "service/service.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#define MIN_SHARE 8

/* The first batches are small, so that the device begins early, if not with what is cached. */
#define FIRST_BATCH_BLOCKS 16

#define WAIT_TIMEOUT_MS 1000

/* The one place that gives the codes of devices a text. */
static const char *
failure_text(GpuScanCode code)
{
	switch (code)
	{
		case GPUSCAN_OK:
			return NULL;
		case GPUSCAN_LEFT_TO_POSTGRES:
			return "a value is outside what the device computes exactly";
		case GPUSCAN_OUT_OF_MEMORY:
			return "the request needs more memory than gpuscan.query_memory_limit or the device's "
				   "limit allows";
		case GPUSCAN_CANCELLED:
			return "the request was cancelled";
		case GPUSCAN_INVALID:
			return "the gpuscan service rejected the request as not well formed";
		case GPUSCAN_DEVICE_FAILED:
			break;
	}
	return "the device failed";
}

/* True if the client has failed, by now. */
static bool
has_failed(GpuScanClient *client)
{
	if (client->failure == NULL)
	{
		client->failure = failure_text(pg_atomic_read_u32(&client->chan->failure));
		if (client->failure == NULL && !gpuscan_session_service_lives(client->generation))
			client->failure = "the gpuscan service exited";
	}
	return client->failure != NULL;
}

/* Sleeps until `what` has happened, the request has failed, or the service is gone. */
static void
wait_for(GpuScanClient *client, uint32 what)
{
	if (gpuscan_channel_answered(client->chan, what))
		return;

	/* The exchange is a full barrier: see channel.h. */
	pg_atomic_exchange_u32(&client->chan->waiting, what);
	while (!gpuscan_channel_answered(client->chan, what) &&
		   gpuscan_session_service_lives(client->generation))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, WAIT_TIMEOUT_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	pg_atomic_write_u32(&client->chan->waiting, GPUSCAN_WAIT_NOTHING);

	/* Read what came with the answer after the answer. */
	pg_read_barrier();
}

/* Gives slot and channel back, which the service no longer touches. */
static void
let_go(GpuScanClient *client)
{
	gpuscan_slot_free(client->slot);
	client->slot = NULL;
	gpuscan_session_give_channel(client->channel);
}

/*
 * The client's memory goes away: at abort, or long after close.  Pins are left
 * to the resource owner.  May neither raise an error nor wait.
 */
static void
abandon(void *arg)
{
	GpuScanClient *client = arg;
	GpuScanSlot *slot = client->slot;
	uint32 expected = GPUSCAN_SLOT_OPEN;

	if (slot == NULL)
		return;

	if (!pg_atomic_compare_exchange_u32(&slot->state, &expected, GPUSCAN_SLOT_ABANDONED))
	{
		let_go(client);
		return;
	}

	client->slot = NULL;
	if (gpuscan_session_service_lives(client->generation))
		gpuscan_slot_ring(slot);
	else
		gpuscan_slot_free_abandoned(slot);
	gpuscan_session_give_channel(client->channel);
}

/*
 * The pins that one client may hold: a fair share of the buffers.  Where that is
 * next to nothing it holds none, and its pages are copied.
 */
static int
pin_limit(void)
{
	int share = NBuffers / MaxBackends;

	return share < MIN_SHARE ? 0 : Min(GPUSCAN_RING_BATCHES * GPUSCAN_BATCH_BLOCKS, share);
}

/* Makes an idle channel the client's. */
static void
prepare_channel(GpuScanChannel *chan)
{
	chan->fault = gpuscan_fault_parse(gpuscan_inject_fault);
	pg_atomic_write_u32(&chan->npushed, 0);
	pg_atomic_write_u32(&chan->finish, 0);
	pg_atomic_write_u32(&chan->closing, 0);
	pg_atomic_write_u32(&chan->waiting, GPUSCAN_WAIT_NOTHING);
	pg_atomic_write_u32(&chan->failure, GPUSCAN_OK);
	pg_atomic_write_u32(&chan->idle, 0);
	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
		pg_atomic_write_u32(&chan->batches[i].confirmed, 0);
	for (int i = 0; i < GPUSCAN_RESULTS; i++)
		pg_atomic_write_u32(&chan->results[i].full, 0);
}

/* A client with a channel and a slot, which is still the backend's own. */
static GpuScanClient *
create_client(uint32 generation, const char **reason)
{
	GpuScanClient *client;
	GpuScanSessionChannel *channel;

	/* Anything that may raise an error comes before the slot is claimed. */
	client = palloc0(sizeof(GpuScanClient));
	channel = gpuscan_session_take_channel(reason);
	if (channel == NULL)
		return NULL;
	client->slot = gpuscan_slot_claim(reason);
	if (client->slot == NULL)
	{
		gpuscan_session_give_channel(channel);
		return NULL;
	}
	client->channel = channel;
	client->chan = channel->chan;
	client->generation = generation;
	client->max_pins = pin_limit();
	client->batch_blocks = Min(FIRST_BATCH_BLOCKS, gpuscan_shared->batch_blocks);
	client->reset.func = abandon;
	client->reset.arg = client;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &client->reset);

	channel->generation = generation;
	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
	{
		channel->batches[i].client = client;
		channel->batches[i].state = GPUSCAN_BATCH_FREE;
	}
	prepare_channel(client->chan);
	client->slot->generation = generation;
	client->slot->channel = dsm_segment_handle(channel->seg);
	return client;
}

/* Hands the client's slot to the service. */
static void
open_slot(GpuScanClient *client)
{
	pg_write_barrier();
	pg_atomic_write_u32(&client->slot->state, GPUSCAN_SLOT_OPEN);
	gpuscan_slot_ring(client->slot);
}

/* The generation of the service that runs; 0 with *reason. */
static uint32
running_service(const char **reason)
{
	uint32 generation;

	if (gpuscan_shared == NULL)
	{
		*reason = "gpuscan is not in shared_preload_libraries";
		return 0;
	}
	generation = pg_atomic_read_u32(&gpuscan_shared->running);
	if (generation == 0)
		*reason = "the gpuscan service is not running";
	pg_read_barrier();
	return generation;
}

GpuScanClient *
gpuscan_client_open(const GpuScanProgram *program, const GpuScanLayout *const *layouts,
					int nlayouts, const GpuScanClientOptions *options, const char **reason)
{
	GpuScanClient *client;
	GpuScanChannel *chan;
	uint32 generation = running_service(reason);
	Size size = MAXALIGN(program->size);

	if (generation == 0)
		return NULL;
	for (int i = 0; i < nlayouts; i++)
		size += MAXALIGN(layouts[i]->size);
	if (program->size > GPUSCAN_MAX_PROGRAM_SIZE || size > GPUSCAN_REQUEST_SIZE)
	{
		*reason = "the expressions or the relations are too many for one request";
		return NULL;
	}

	client = create_client(generation, reason);
	if (client == NULL)
		return NULL;
	chan = client->chan;
	client->is_scan = !program->aggregate;
	size = MAXALIGN(program->size);
	memcpy(chan->request, program, program->size);
	for (int i = 0; i < nlayouts; i++)
	{
		memcpy(chan->request + size, layouts[i], layouts[i]->size);
		size += MAXALIGN(layouts[i]->size);
	}
	chan->request_size = size;
	chan->nlayouts = nlayouts;
	chan->threads = gpuscan_cpu_threads;
	chan->pass = options->pass;
	chan->tuples_expected = options->tuples_expected;
	chan->groups_expected = options->groups_expected;
	chan->background = options->background;
	strlcpy(chan->device, options->device != NULL ? options->device : "", sizeof(chan->device));
	open_slot(client);
	return client;
}

GpuScanClientName
gpuscan_client_name(const GpuScanClient *client)
{
	return (GpuScanClientName){
		.generation = client->generation,
		.slot = client->slot - gpuscan_shared->slots,
		.serial = client->slot->serial,
	};
}

GpuScanClient *
gpuscan_client_join(GpuScanClientName leader, const char **reason)
{
	GpuScanClient *client = create_client(leader.generation, reason);

	if (client == NULL)
		return NULL;
	client->slot->leader = leader.slot;
	client->slot->leader_serial = leader.serial;
	open_slot(client);
	return client;
}

bool
gpuscan_client_has_cache(const GpuScanClient *client)
{
	(void) client;
	return gpuscan_service_keeps_columns();
}

int
gpuscan_client_feeders(void)
{
	return gpuscan_shared->feeders;
}

bool
gpuscan_client_on_gpus(void)
{
	return gpuscan_shared != NULL && gpuscan_shared->on_gpus;
}

GpuScanClientBatch *
gpuscan_client_batch(GpuScanClient *client)
{
	if (has_failed(client))
		return NULL;

	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
	{
		GpuScanClientBatch *batch = &client->channel->batches[i];

		if (batch->state == GPUSCAN_BATCH_FREE)
		{
			batch->state = GPUSCAN_BATCH_FILLING;
			batch->nblocks = 0;
			batch->nkept = 0;
			batch->spoiled = false;
			batch->ntuples = 0;
			batch->max_blocks = client->batch_blocks;
			batch->items = 0;
			batch->staging = 0;
			batch->shared->kind = GPUSCAN_KIND_TUPLES;
			return batch;
		}
	}
	return NULL;
}

void
gpuscan_client_expect_blocks(GpuScanClient *client, uint64 total)
{
	pg_atomic_write_u64(&client->slot->blocks_total, total);
}

void
gpuscan_client_report(GpuScanClient *client, Oid relid, uint64 done)
{
	pg_atomic_write_u32(&client->slot->relid, relid);
	pg_atomic_write_u64(&client->slot->blocks_done, done);
}

void
gpuscan_client_push(GpuScanClient *client, GpuScanClientBatch *batch)
{
	GpuScanSlot *slot = client->slot;

	Assert(batch->state == GPUSCAN_BATCH_FILLING);
	Assert(!gpuscan_client_batch_is_empty(batch) || batch->shared->kind >= GPUSCAN_KIND_SURVEY);
	if (has_failed(client))
		return;

	batch->state = GPUSCAN_BATCH_PUSHED;
	batch->shared->nblocks = batch->nblocks;
	batch->shared->nkept = batch->nkept;
	pg_atomic_write_u32(&batch->shared->done, 0);
	client->chan->queue[client->npushed % GPUSCAN_RING_BATCHES] = batch - client->channel->batches;
	batch->number = ++client->npushed;
	client->batch_blocks = Min(batch->nblocks > 0 ? client->batch_blocks * 2 : GPUSCAN_BATCH_BLOCKS,
							   gpuscan_shared->batch_blocks);
	pg_write_barrier();
	pg_atomic_write_u32(&client->chan->npushed, client->npushed);
	pg_atomic_write_u64(&slot->tuples, pg_atomic_read_u64(&slot->tuples) + batch->ntuples);
	gpuscan_slot_ring(slot);
}

/* The index of the oldest batch that is pushed and not released. */
static uint32
oldest_pushed(const GpuScanClient *client)
{
	return client->chan->queue[client->nreleased % GPUSCAN_RING_BATCHES];
}

GpuScanClientBatch *
gpuscan_client_completed(GpuScanClient *client, bool wait)
{
	bool failed = has_failed(client);
	uint32 index;
	bool done;
	bool is_answer; /* the service's own */

	if (client->nreleased == client->npushed)
		return NULL;

	index = oldest_pushed(client);
	is_answer = client->chan->batches[index].kind >= GPUSCAN_KIND_SURVEY && !client->is_scan;
	if (failed && !is_answer)
		return NULL;
	if (wait)
		wait_for(client, GPUSCAN_WAIT_BATCH + index);
	done = pg_atomic_read_u32(&client->chan->batches[index].done) != 0;
	pg_read_barrier();

	/* A batch that failed is done too, after its failure was set; such an answer is right in any case. */
	failed = has_failed(client);
	return done && (!failed || is_answer) ? &client->channel->batches[index] : NULL;
}

GpuScanClientBatch *
gpuscan_client_abandoned(GpuScanClient *client)
{
	if (client->nreleased != client->npushed)
		return &client->channel->batches[oldest_pushed(client)];
	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
	{
		GpuScanClientBatch *batch = &client->channel->batches[i];

		if (batch->state == GPUSCAN_BATCH_FILLING && batch->nblocks > 0)
			return batch;
	}
	return NULL;
}

void
gpuscan_client_release(GpuScanClient *client, GpuScanClientBatch *batch)
{
	Assert(batch->state != GPUSCAN_BATCH_FREE);
	if (batch->state == GPUSCAN_BATCH_PUSHED)
	{
		client->nreleased++;
		if (pg_atomic_read_u32(&batch->shared->done) != 0)
			pg_atomic_write_u32(&batch->shared->confirmed, batch->number);
		pg_memory_barrier();
	}
	gpuscan_batch_unpin(batch);
	batch->state = GPUSCAN_BATCH_FREE;
}

void
gpuscan_client_finished(GpuScanClient *client)
{
	client->finished = true;
}

bool
gpuscan_client_finish(GpuScanClient *client)
{
	Assert(client->nreleased == client->npushed);
	if (has_failed(client))
		return false;

	if (!client->finished)
	{
		pg_atomic_write_u32(&client->chan->finish, 1);
		gpuscan_slot_ring(client->slot);
	}
	wait_for(client, GPUSCAN_WAIT_RESULT);
	return !has_failed(client);
}

bool
gpuscan_client_fetch(GpuScanClient *client, const char **rows, uint32 *nrows)
{
	GpuScanChannelResult *results = client->chan->results;
	uint32 area = client->nfetched % GPUSCAN_RESULTS;

	*nrows = 0;
	if (has_failed(client))
		return false;

	/* The chunk before this one has been read. */
	if (client->nfetched > 0)
	{
		GpuScanChannelResult *last = &results[(client->nfetched - 1) % GPUSCAN_RESULTS];

		if (last->nrows == 0)
			return true;
		pg_memory_barrier();
		pg_atomic_write_u32(&last->full, 0);
		gpuscan_slot_ring(client->slot);
	}

	wait_for(client, GPUSCAN_WAIT_RESULT + area);
	if (has_failed(client))
		return false;
	client->nfetched++;
	*rows = results[area].rows;
	*nrows = results[area].nrows;
	return true;
}

const char *
gpuscan_client_failure(const GpuScanClient *client)
{
	return client->failure;
}

void
gpuscan_client_fail(GpuScanClient *client, const char *reason)
{
	if (client->failure == NULL)
		client->failure = reason;
}

bool
gpuscan_client_out_of_memory(const GpuScanClient *client)
{
	return pg_atomic_read_u32(&client->chan->failure) == GPUSCAN_OUT_OF_MEMORY;
}

const char *
gpuscan_client_device(const GpuScanClient *client)
{
	return client->device;
}

void
gpuscan_client_close(GpuScanClient *client, GpuScanRequestStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (client->slot == NULL)
		return;

	pg_atomic_write_u32(&client->chan->closing, 1);
	gpuscan_slot_ring(client->slot);
	wait_for(client, GPUSCAN_WAIT_IDLE);
	if (pg_atomic_read_u32(&client->chan->idle) != 0)
		*stats = client->chan->stats;
	client->device = gpuscan_slot_device(client->slot);

	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
	{
		if (client->channel->batches[i].state != GPUSCAN_BATCH_FREE)
			gpuscan_batch_unpin(&client->channel->batches[i]);
	}
	let_go(client);
}

/* Has the service obey a command; its answer, a palloc'd copy of nrows of `size` bytes. */
static void *
command(GpuScanCacheCommandKind kind, Oid database, Oid relid, Size size, uint32 *nrows)
{
	GpuScanRequestStats stats;
	GpuScanClient *client = NULL;
	const char *reason;
	const char *rows = NULL;
	void *copy;
	uint32 generation = running_service(&reason);

	*nrows = 0;
	if (generation != 0)
		client = create_client(generation, &reason);
	if (client == NULL)
		return NULL;
	client->slot->leader = GPUSCAN_SLOT_COMMAND;
	*(GpuScanCacheCommand *) client->chan->request =
		(GpuScanCacheCommand){.kind = kind, .database = database, .relid = relid};
	open_slot(client);
	(void) gpuscan_client_fetch(client, &rows, nrows);
	copy = palloc(*nrows * size + 1);
	memcpy(copy, rows, *nrows * size);
	gpuscan_client_close(client, &stats);
	return copy;
}

const GpuScanCacheRow *
gpuscan_client_cache_rows(uint32 *nrows)
{
	return command(GPUSCAN_CACHE_REPORT, InvalidOid, InvalidOid, sizeof(GpuScanCacheRow), nrows);
}

uint64
gpuscan_client_cache_evict(Oid database, Oid relid)
{
	uint32 nrows;
	const uint64 *bytes = command(GPUSCAN_CACHE_EVICT, database, relid, sizeof(uint64), &nrows);

	return nrows > 0 ? *bytes : 0;
}
