/*-------------------------------------------------------------------------
 *
 * client_impl.h
 *	  What the files of the client's side share: session.c, batch.c, client.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CLIENT_IMPL_H
#define GPUSCAN_CLIENT_IMPL_H

#include "lib/ilist.h"
#include "service/channel.h"
#include "service/client.h"
#include "service/shmem.h"
#include "storage/dsm.h"

typedef enum GpuScanBatchState
{
	GPUSCAN_BATCH_FREE,
	GPUSCAN_BATCH_FILLING,
	GPUSCAN_BATCH_PUSHED
} GpuScanBatchState;

/* The backend's private side of a batch */
struct GpuScanClientBatch
{
	GpuScanClient *client;
	GpuScanChannelBatch *shared;
	GpuScanBatchState state;
	uint32 number; /* of the client's pushes, this one */
	bool spoiled;

	/* Used so far of what the shared side has */
	uint32 nblocks;
	uint32 nkept;
	uint32 ntuples; /* of the blocks */
	uint32 max_blocks;
	uint32 items;
	uint32 staging;

	Buffer buffers[GPUSCAN_BATCH_BLOCKS]; /* pinned, or InvalidBuffer */
	BlockNumber blknos[GPUSCAN_BATCH_BLOCKS];
};

/* A channel of this session, in TopMemoryContext; session.c keeps the list. */
typedef struct GpuScanSessionChannel
{
	dlist_node node;
	dsm_segment *seg;
	GpuScanChannel *chan;
	uint32 generation; /* of the service that last got it */
	bool used;		   /* by a client */
	GpuScanClientBatch batches[GPUSCAN_RING_BATCHES];
} GpuScanSessionChannel;

struct GpuScanClient
{
	GpuScanSlot *slot; /* NULL once closed */
	GpuScanSessionChannel *channel;
	GpuScanChannel *chan; /* channel->chan */
	uint32 generation;	  /* of the service that serves it */
	bool is_scan;		  /* whose questions the device answers */
	bool finished;		  /* the service knows that the input is complete */
	const char *failure;
	const char *device; /* in shared memory; set by close */
	int pins;			/* held through pages in batches */
	int max_pins;
	uint32 batch_blocks; /* that the next batch may have */
	uint32 npushed;
	uint32 nreleased; /* of the pushed batches */
	uint32 nfetched;  /* results */
	MemoryContextCallback reset;
};

/* session.c */

/* True if the service of this generation runs. */
extern bool gpuscan_session_service_lives(uint32 generation);

/* A channel that nobody uses; NULL with *reason where none can be made. */
extern GpuScanSessionChannel *gpuscan_session_take_channel(const char **reason);

/* Gives it back, though the service may not have let go of it yet. */
extern void gpuscan_session_give_channel(GpuScanSessionChannel *channel);

/* batch.c */

/* Unpins every page of the batch. */
extern void gpuscan_batch_unpin(GpuScanClientBatch *batch);

#endif /* GPUSCAN_CLIENT_IMPL_H */
