/*-------------------------------------------------------------------------
 *
 * session.c
 *	  The channels of a session: made when first needed, kept for reuse.
 *
 * Making a channel costs about a millisecond, for the kernel has to find and clear
 * its memory; using it again costs nothing, for the service keeps it mapped
 * too.  So a session keeps up to KEPT_CHANNELS of them when no request uses
 * them.
 *
 * A channel whose request was abandoned is not used again before the service
 * has said that it is idle, or is gone.  A backend that detaches leaves the
 * memory to the service, which detaches when it has let go of it: see
 * `discarded`.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/client_impl.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#define KEPT_CHANNELS 2

static dlist_head channels = DLIST_STATIC_INIT(channels);

bool
gpuscan_session_service_lives(uint32 generation)
{
	return pg_atomic_read_u32(&gpuscan_shared->running) == generation;
}

/* Whether the service might still touch it. */
static bool
is_idle(GpuScanSessionChannel *channel)
{
	return pg_atomic_read_u32(&channel->chan->idle) != 0 ||
		   !gpuscan_session_service_lives(channel->generation);
}

/* The segment goes away, by our own hand or as the session ends. */
static void
on_channel_detach(dsm_segment *seg, Datum arg)
{
	GpuScanChannel *chan = (GpuScanChannel *) DatumGetPointer(arg);

	(void) seg;
	pg_atomic_write_u32(&chan->discarded, 1);
	pg_atomic_fetch_add_u32(&gpuscan_shared->discards, 1);
	if (pg_atomic_read_u32(&gpuscan_shared->running) != 0)
		SetLatch(gpuscan_shared->latch);
}

/*
 * A new segment, mapped as long as the session lives; NULL with *reason.
 *
 * dsm_create raises an error where the memory cannot be had.  Up to its return
 * nothing but a resource owner of our own knows of the segment, so the error
 * can be taken back.
 */
static dsm_segment *
create_segment(const char **reason)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner saved = CurrentResourceOwner;
	ResourceOwner owner = ResourceOwnerCreate(NULL, "gpuscan channel");
	dsm_segment *volatile seg = NULL;

	CurrentResourceOwner = owner;
	PG_TRY();
	{
		seg = dsm_create(sizeof(GpuScanChannel), DSM_CREATE_NULL_IF_MAXSEGMENTS);
		if (seg)
			dsm_pin_mapping(seg);
		else
			*reason = "the server has no dynamic shared memory segment left";
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		seg = NULL;
		*reason = error->message;
	}
	PG_END_TRY();
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	CurrentResourceOwner = saved;
	ResourceOwnerDelete(owner);
	return seg;
}

static GpuScanSessionChannel *
create_channel(const char **reason)
{
	GpuScanSessionChannel *channel;
	dsm_segment *seg = create_segment(reason);

	if (seg == NULL)
		return NULL;

	channel = MemoryContextAllocZero(TopMemoryContext, sizeof(GpuScanSessionChannel));
	channel->seg = seg;
	channel->chan = dsm_segment_address(seg);
	dlist_push_head(&channels, &channel->node);

	pg_atomic_init_u32(&channel->chan->npushed, 0);
	pg_atomic_init_u32(&channel->chan->finish, 0);
	pg_atomic_init_u32(&channel->chan->closing, 0);
	pg_atomic_init_u32(&channel->chan->waiting, GPUSCAN_WAIT_NOTHING);
	pg_atomic_init_u32(&channel->chan->discarded, 0);
	pg_atomic_init_u32(&channel->chan->failure, GPUSCAN_OK);
	pg_atomic_init_u32(&channel->chan->idle, 1);
	for (int i = 0; i < GPUSCAN_RING_BATCHES; i++)
	{
		channel->batches[i].shared = &channel->chan->batches[i];
		pg_atomic_init_u32(&channel->chan->batches[i].done, 0);
		pg_atomic_init_u32(&channel->chan->batches[i].confirmed, 0);
	}
	for (int i = 0; i < GPUSCAN_RESULTS; i++)
		pg_atomic_init_u32(&channel->chan->results[i].full, 0);
	on_dsm_detach(seg, on_channel_detach, PointerGetDatum(channel->chan));
	return channel;
}

GpuScanSessionChannel *
gpuscan_session_take_channel(const char **reason)
{
	GpuScanSessionChannel *channel = NULL;
	dlist_iter iter;

	dlist_foreach(iter, &channels)
	{
		GpuScanSessionChannel *candidate = dlist_container(GpuScanSessionChannel, node, iter.cur);

		if (!candidate->used && is_idle(candidate))
		{
			channel = candidate;
			break;
		}
	}
	if (channel == NULL)
		channel = create_channel(reason);
	if (channel)
		channel->used = true;
	return channel;
}

void
gpuscan_session_give_channel(GpuScanSessionChannel *channel)
{
	int kept = 0;
	dlist_iter iter;

	channel->used = false;
	dlist_foreach(iter, &channels)
	{
		if (!dlist_container(GpuScanSessionChannel, node, iter.cur)->used)
			kept++;
	}
	if (kept > KEPT_CHANNELS)
	{
		dlist_delete(&channel->node);
		dsm_detach(channel->seg);
		pfree(channel);
	}
}
