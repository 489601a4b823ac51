/*-------------------------------------------------------------------------
 *
 * cached.c
 *	  Asking the service what it answers from its cache, before anything is read.
 *
 *		for each relation whose LSNs tell what has changed
 *			for each page of its visibility map, several under way at a time
 *				read the map page; ask
 *				if the service wants to see LSNs of heap pages, read them; ask again
 *			plan to read the blocks that the cache does not answer
 *
 * The snapshot was taken before: a block that is all-visible now is so for it.
 * The device works on what is cached while we go on.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/feed.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

static bool
is_any(const uint64 *blocks)
{
	uint64 any = 0;

	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
		any |= blocks[i];
	return any != 0;
}

static void
count_answer(GpuScanFeed *feed, Relation rel, const GpuScanCacheLookup *answer)
{
	gpuscan_heap_count_tuples(rel, answer->ntuples);
	feed->counters.skipped += answer->nskipped;
}

/* Puts a map page's ranges into the plan. */
static void
add_to_plan(GpuScanFeed *feed, GpuScanHeapPlan *plan, const GpuScanCacheLookup *answer,
			BlockNumber nblocks)
{
	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
	{
		uint32 range = answer->map_page * GPUSCAN_MAP_RANGES + i;
		uint64 blocks = gpuscan_heap_range_blocks(range, nblocks);

		feed->counters.cached += pg_popcount64(blocks & answer->cached[i]);
		if (feed->background && !answer->load[i])
			blocks = 0;
		blocks &= ~answer->cached[i];
		plan->ranges[range].blocks = blocks;
		plan->ranges[range].load = answer->load[i];
		plan->nblocks += pg_popcount64(blocks);
	}
}

/*
 * Waits for the oldest answer and puts it into the plan; or, where the service
 * wants to see LSNs first, asks again.  False: there is none, or the client fails.
 */
static bool
take_answer(GpuScanFeed *feed, GpuScanHeapPlan *plan, BlockNumber nblocks)
{
	GpuScanClientBatch *batch = gpuscan_client_completed(feed->client, true);
	GpuScanCacheLookup *lookup;
	GpuScanCacheLookup *question;
	XLogRecPtr *lsns;
	Relation rel;

	if (batch == NULL)
		return false;
	lookup = gpuscan_client_lookup(batch, &lsns);
	rel = list_nth(feed->relations, lookup->layout);
	count_answer(feed, rel, lookup);
	if (!is_any(lookup->verify))
	{
		add_to_plan(feed, plan, lookup, nblocks);
		gpuscan_client_release(feed->client, batch);
		return true;
	}
	question = palloc(sizeof(GpuScanCacheLookup));
	*question = *lookup;
	question->with_lsns = true;
	gpuscan_client_release(feed->client, batch);
	batch = gpuscan_client_batch(feed->client);
	if (batch != NULL)
	{
		lookup = gpuscan_client_lookup(batch, &lsns);
		*lookup = *question;
		gpuscan_heap_read_lsns(rel, lookup->map_page * GPUSCAN_MAP_RANGES, GPUSCAN_MAP_RANGES,
							   lookup->verify, lsns);
		gpuscan_client_push(feed->client, batch);
	}
	pfree(question);
	return batch != NULL;
}

/* Asks about all pages of the map, several at a time; NULL if the client fails. */
static GpuScanHeapPlan *
make_plan(GpuScanFeed *feed, int layout)
{
	Relation rel = list_nth(feed->relations, layout);
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	uint32 nmap_pages = (nblocks + GPUSCAN_MAP_BLOCKS - 1) / GPUSCAN_MAP_BLOCKS;
	uint32 nranges = nmap_pages * GPUSCAN_MAP_RANGES;
	GpuScanHeapPlan *plan = MemoryContextAllocHuge(feed->context, gpuscan_heap_plan_size(nranges));
	bool pinned = gpuscan_heap_label(rel) == GPUSCAN_LABEL_ALWAYS;
	Buffer map = InvalidBuffer;

	pg_atomic_init_u32(&plan->next, 0);
	plan->nranges = nranges;
	plan->nblocks = 0;
	for (uint32 page = 0; page < nmap_pages; page++)
	{
		uint32 first = page * GPUSCAN_MAP_RANGES;
		GpuScanClientBatch *batch;
		GpuScanCacheLookup *lookup;
		XLogRecPtr *lsns;

		while ((batch = gpuscan_client_batch(feed->client)) == NULL)
		{
			if (!take_answer(feed, plan, nblocks))
				break;
		}
		if (batch == NULL)
			break;
		lookup = gpuscan_client_lookup(batch, &lsns);
		memset(lookup, 0, sizeof(GpuScanCacheLookup));
		lookup->name.node = rel->rd_node;
		lookup->name.relid = RelationGetRelid(rel);
		lookup->layout = layout;
		lookup->pinned = pinned;
		lookup->background = feed->background;
		lookup->map_page = page;
		lookup->map_lsn =
			gpuscan_heap_read_map(rel, first, GPUSCAN_MAP_RANGES, &map, lookup->visible);
		for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
		{
			uint64 all = gpuscan_heap_range_blocks(first + i, nblocks);

			lookup->visible[i] &= all;
			lookup->loose |= lookup->visible[i] != all;
		}
		if (is_any(lookup->visible))
			gpuscan_client_push(feed->client, batch);
		else
		{
			/* nothing can be cached here: nothing to ask */
			add_to_plan(feed, plan, lookup, nblocks);
			gpuscan_client_release(feed->client, batch);
		}
	}
	while (take_answer(feed, plan, nblocks))
		;
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	return gpuscan_client_failure(feed->client) == NULL ? plan : NULL;
}

void
gpuscan_feed_look_up(GpuScanFeed *feed)
{
	if (!gpuscan_client_has_cache(feed->client))
		return;
	feed->plans = MemoryContextAllocZero(feed->context, Max(list_length(feed->relations), 1) *
															sizeof(GpuScanHeapPlan *));
	for (int i = 0; i < list_length(feed->relations); i++)
	{
		Relation rel = list_nth(feed->relations, i);

		if (gpuscan_heap_is_cacheable(rel) && gpuscan_heap_label(rel) != GPUSCAN_LABEL_NEVER)
			feed->plans[i] = make_plan(feed, i);
		if (gpuscan_client_failure(feed->client) != NULL)
			return;
	}
}
