/*-------------------------------------------------------------------------
 *
 * client.h
 *	  The service as an executor node sees it.
 *
 * A client is one request: open, then fill and push batches and take back the
 * completed ones in the order they were pushed, then (for an aggregation)
 * finish and fetch, then close.  Every wait is interruptible and ends when the
 * service or the postmaster dies.  No function here raises an error but for an
 * interrupt: a call that fails leaves the reason in gpuscan_client_failure,
 * every later call fails too, and the node runs its replaced plan.
 *
 * A client lives in the memory context that was current at open; when that is
 * reset or deleted, as in an aborted transaction, the service is told to drop
 * the request, and buffer pins are left to their resource owner.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CLIENT_H
#define GPUSCAN_CLIENT_H

#include "gpuscan.h"

#include "access/htup.h"
#include "device/device.h"
#include "service/cache_message.h"
#include "storage/block.h"
#include "storage/buf.h"
#include "storage/bufpage.h"
#include "storage/off.h"

typedef struct GpuScanClient GpuScanClient;
typedef struct GpuScanClientBatch GpuScanClientBatch;

/* Names a request, for other processes. */
typedef struct GpuScanClientName
{
	uint32 generation;
	uint32 slot;
	uint32 serial;
} GpuScanClientName;

/* A block of a completed batch.  For a page, tuple i is line pointer offsets[i]. */
typedef struct GpuScanClientBlock
{
	uint32 layout;
	Buffer buffer;	   /* pinned; InvalidBuffer for a copied page and staged tuples */
	BlockNumber blkno; /* of the page; InvalidBlockNumber for staged tuples */
	XLogRecPtr lsn;	   /* with which the device was asked to keep it; 0: it was not */
	uint32 kept;	   /* the number by which it does; 0: it does not, or not yet */
	Page page;		   /* in the buffer, or its copy; NULL for staged tuples */
	uint32 ntuples;
	const OffsetNumber *offsets; /* NULL: 1 .. ntuples, or staged tuples */
	const uint8 *outcome;		 /* GpuScanOutcome of each tuple */
} GpuScanClientBlock;

/* A page of a completed batch that the device was thought to keep */
typedef struct GpuScanClientKept
{
	uint32 layout;
	BlockNumber blkno;
	XLogRecPtr lsn;
	uint32 ntuples;
	bool missing;			/* it did not; nothing was seen of it */
	const uint64 *deferred; /* bits of tuples, or NULL: there are none */
} GpuScanClientKept;

/* The line pointer number of tuple i of a block that is a page. */
static inline OffsetNumber
gpuscan_client_line_pointer(const GpuScanClientBlock *block, uint32 i)
{
	return block->offsets ? block->offsets[i] : FirstOffsetNumber + i;
}

/* What a request is, beside its Program */
typedef struct GpuScanClientOptions
{
	GpuScanPass pass;
	uint64 tuples_expected; /* 0: unknown */
	uint64 groups_expected; /* the same */
	bool background;		/* nobody waits: it loads columns, and computes nothing */
	const char *device;		/* it had better run there; NULL: anywhere */
} GpuScanClientOptions;

/*
 * Starts a request; the Program and the layouts are copied.  NULL if there is
 * no service, no free request slot, or no memory: *reason, a static or
 * palloc'd string, says which.
 */
extern GpuScanClient *
gpuscan_client_open(const GpuScanProgram *program, const GpuScanLayout *const *layouts,
					int nlayouts, const GpuScanClientOptions *options, const char **reason);

/*
 * The name by which others may join the request, and a client that does so, of
 * another process: its batches go to that request, which it can neither finish nor
 * fetch.  NULL as in open; a request that is no more fails the client.
 */
extern GpuScanClientName gpuscan_client_name(const GpuScanClient *client);
extern GpuScanClient *gpuscan_client_join(GpuScanClientName leader, const char **reason);

/*
 * What is in the cache, palloc'd, and how many rows that are; and dropping what is
 * there of a relation, which returns the bytes.  Nothing, where no service runs.
 */
extern const GpuScanCacheRow *gpuscan_client_cache_rows(uint32 *nrows);
extern uint64 gpuscan_client_cache_evict(Oid database, Oid relid);

/*
 * For planners: pages of which a column is in the cache of the device that will get a
 * query, as far as is known: an attribute by its number, an expression by the one that
 * gpuscan_expression_number gives it, or for 0 what a count of rows needs.
 */
extern double gpuscan_client_cached_pages(Oid relid, int number);

/* Processes that can keep the device busy. */
extern int gpuscan_client_feeders(void);

/* True if every device that serves, or did last, is a GPU. */
extern bool gpuscan_client_on_gpus(void);

/* An empty batch to fill, or NULL while all are pushed and not yet released. */
extern GpuScanClientBatch *gpuscan_client_batch(GpuScanClient *client);

/*
 * Adds the visible tuples of a page, the first ntuples if `offsets` is NULL.  Takes over the caller's pin on `buffer`
 * when it returns true; false says that the batch is full.  The page is read in
 * place from a shared buffer, and copied from a local one, or where the client
 * holds its share of pins: a copied page is unpinned at once.  `fills`: its
 * tuples are for the cache too.
 */
extern bool gpuscan_client_add_page(GpuScanClientBatch *batch, uint32 layout, Buffer buffer,
									const OffsetNumber *offsets, int ntuples, bool fills);

/*
 * Asks the device to keep the page that was added last, as one with this LSN: its tuples
 * that were added are those that all see whose snapshots are not older than ours
 * (gpuscan_loose_is_true).  The answer comes with the batch.
 */
extern void gpuscan_client_keep_page(GpuScanClientBatch *batch, XLogRecPtr lsn);

/*
 * Adds the tuples of a page that the device keeps by that number, as one with the LSN that it
 * has now; false says that the batch is full.
 */
extern bool gpuscan_client_add_kept(GpuScanClientBatch *batch, uint32 layout, BlockNumber block,
									XLogRecPtr lsn, uint32 kept, int ntuples);

/* The bytes of the largest tuple that an empty batch has room for. */
extern Size gpuscan_client_max_tuple_size(void);

/*
 * Adds a tuple without toasted values; false says that the batch is full.  A
 * tuple that fits no empty batch fails the client.  `fills` as above.
 */
extern bool
gpuscan_client_add_tuple(GpuScanClientBatch *batch, uint32 layout, HeapTuple tuple, bool fills);

extern bool gpuscan_client_batch_is_empty(const GpuScanClientBatch *batch);

/* Whether the service keeps columns. */
extern bool gpuscan_client_has_cache(const GpuScanClient *client);

/*
 * Make an empty batch a question to the cache, for the caller to fill in before
 * it is pushed; the answer is in the same place once it is completed.
 */
extern GpuScanCacheSurvey *gpuscan_client_survey(GpuScanClientBatch *batch, uint32 *max_pages);
extern bool gpuscan_client_is_survey(const GpuScanClientBatch *batch);
extern GpuScanCacheLookup *gpuscan_client_lookup(GpuScanClientBatch *batch, XLogRecPtr **lsns);

/* Whether a batch is a question; and of a scan's that is completed, what the device says of the blocks. */
extern bool gpuscan_client_is_question(const GpuScanClientBatch *batch);
extern const uint64 *gpuscan_client_hits(const GpuScanClientBatch *batch);

/* Makes room for all pages of a range in an empty batch. */
extern void gpuscan_client_expect_range(GpuScanClientBatch *batch);

/* Says what range a batch was filled with, before it is pushed. */
extern void
gpuscan_client_fill(GpuScanClientBatch *batch, uint32 layout, const GpuScanRangeState *state);

/* Says, and has said, that a value of its range cannot be had: expressions are not cached there. */
extern void gpuscan_client_spoil(GpuScanClientBatch *batch);
extern bool gpuscan_client_is_spoiled(const GpuScanClientBatch *batch);

/* Says how far reading is, for whom it may concern: blocks that are to be read, and of what. */
extern void gpuscan_client_expect_blocks(GpuScanClient *client, uint64 total);
extern void gpuscan_client_report(GpuScanClient *client, Oid relid, uint64 done);

extern void gpuscan_client_push(GpuScanClient *client, GpuScanClientBatch *batch);

/*
 * The oldest batch that was pushed and not yet released, once it is completed.
 * NULL where it is not and `wait` is false, where there is none, or where the
 * client has failed.
 */
extern GpuScanClientBatch *gpuscan_client_completed(GpuScanClient *client, bool wait);
extern int gpuscan_client_num_blocks(const GpuScanClientBatch *batch);

/* Tuples of a completed batch with the outcome GPUSCAN_TUPLE_DEFERRED. */
extern uint32 gpuscan_client_num_deferred(const GpuScanClientBatch *batch);
extern GpuScanClientBlock gpuscan_client_block(const GpuScanClientBatch *batch, int i);

/* Pages that were added with gpuscan_client_add_kept; 0 if there is nothing to say of any of them */
extern uint32 gpuscan_client_num_kept(const GpuScanClientBatch *batch);
extern GpuScanClientKept gpuscan_client_kept(const GpuScanClientBatch *batch, uint32 i);

/*
 * After a failure: a batch, in the order they were pushed, that was not released,
 * or that was filled and could not be pushed any more.  Its outcomes mean
 * nothing.  NULL if there is none.
 */
extern GpuScanClientBatch *gpuscan_client_abandoned(GpuScanClient *client);

/* Unpins the batch's pages and makes it free. */
extern void gpuscan_client_release(GpuScanClient *client, GpuScanClientBatch *batch);

/* The answer to a question said that the service takes the input for complete. */
extern void gpuscan_client_finished(GpuScanClient *client);

/* Ends an aggregation's input, after every batch was released; waits for the result. */
extern bool gpuscan_client_finish(GpuScanClient *client);

/*
 * The next chunk of group rows, valid until the next call; *nrows is 0 at the
 * end.  False: the client failed.
 */
extern bool gpuscan_client_fetch(GpuScanClient *client, const char **rows, uint32 *nrows);

/* Why the client failed, or NULL. */
extern const char *gpuscan_client_failure(const GpuScanClient *client);

/* Fails it, for a reason that is a static string. */
extern void gpuscan_client_fail(GpuScanClient *client, const char *reason);

/* True if it failed for want of memory, which a pass over fewer groups may not. */
extern bool gpuscan_client_out_of_memory(const GpuScanClient *client);

/* The device that served the request, for EXPLAIN; known once it is closed, else NULL. */
extern const char *gpuscan_client_device(const GpuScanClient *client);

/*
 * Ends the request, also in the middle, and waits until the device lets go of
 * pages still pushed; unpins them.  *stats is zeroed where the service did not
 * answer.
 */
extern void gpuscan_client_close(GpuScanClient *client, GpuScanRequestStats *stats);

#endif /* GPUSCAN_CLIENT_H */
