/*-------------------------------------------------------------------------
 *
 * cached.c
 *	  Asking the service what it answers from its cache, before anything is read.
 *
 *		for each relation whose LSNs tell what has changed
 *			for each page of its visibility map
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

/* Sends a question and waits for the answer; NULL if the client fails. */
static GpuScanCacheLookup *
ask(GpuScanFeed *feed, const GpuScanCacheLookup *question, const uint64 *verify)
{
	GpuScanClientBatch *batch = gpuscan_client_batch(feed->client);
	GpuScanCacheLookup *lookup;
	XLogRecPtr *lsns;

	if (batch == NULL)
		return NULL;
	lookup = gpuscan_client_lookup(batch, &lsns);
	*lookup = *question;
	if (verify != NULL)
		gpuscan_heap_read_lsns(list_nth(feed->relations, lookup->layout),
							   lookup->map_page * GPUSCAN_MAP_RANGES, GPUSCAN_MAP_RANGES, verify,
							   lsns);
	gpuscan_client_push(feed->client, batch);
	batch = gpuscan_client_completed(feed->client, true);
	if (batch == NULL)
		return NULL;
	gpuscan_client_release(feed->client, batch);
	return lookup;
}

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
		blocks &= ~answer->cached[i];
		plan->ranges[range].blocks = blocks;
		plan->ranges[range].load = answer->load[i];
		plan->nblocks += pg_popcount64(blocks);
	}
}

/* NULL if the client fails. */
static GpuScanHeapPlan *
make_plan(GpuScanFeed *feed, int layout)
{
	Relation rel = list_nth(feed->relations, layout);
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	uint32 nmap_pages = (nblocks + GPUSCAN_MAP_BLOCKS - 1) / GPUSCAN_MAP_BLOCKS;
	uint32 nranges = nmap_pages * GPUSCAN_MAP_RANGES;
	GpuScanHeapPlan *plan = MemoryContextAllocHuge(feed->context, gpuscan_heap_plan_size(nranges));
	GpuScanCacheLookup *question = palloc0(sizeof(GpuScanCacheLookup));
	Buffer map = InvalidBuffer;

	pg_atomic_init_u32(&plan->next, 0);
	plan->nranges = nranges;
	plan->nblocks = 0;
	question->name.node = rel->rd_node;
	question->name.relid = RelationGetRelid(rel);
	question->layout = layout;
	for (uint32 page = 0; page < nmap_pages; page++)
	{
		uint32 first = page * GPUSCAN_MAP_RANGES;
		GpuScanCacheLookup *answer;

		question->map_page = page;
		question->with_lsns = false;
		question->map_lsn =
			gpuscan_heap_read_map(rel, first, GPUSCAN_MAP_RANGES, &map, question->visible);
		for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
			question->visible[i] &= gpuscan_heap_range_blocks(first + i, nblocks);
		if (!is_any(question->visible))
		{
			/* nothing can be cached here: nothing to ask */
			memset(question->cached, 0, sizeof(question->cached));
			memset(question->load, 0, sizeof(question->load));
			add_to_plan(feed, plan, question, nblocks);
			continue;
		}
		answer = ask(feed, question, NULL);
		if (answer != NULL && is_any(answer->verify))
		{
			count_answer(feed, rel, answer);
			*question = *answer;
			question->with_lsns = true;
			answer = ask(feed, question, question->verify);
		}
		if (answer == NULL)
		{
			plan = NULL;
			break;
		}
		count_answer(feed, rel, answer);
		add_to_plan(feed, plan, answer, nblocks);
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	pfree(question);
	return plan;
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
		if (gpuscan_heap_is_cacheable(list_nth(feed->relations, i)))
			feed->plans[i] = make_plan(feed, i);
		if (gpuscan_client_failure(feed->client) != NULL)
			return;
	}
}
