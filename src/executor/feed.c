/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  A process's part in feeding a request: pages in, deferred tuples again.
 *
 * Pages are read in the order of a sequential scan, and every free batch of
 * the request is kept filled.  A page stays pinned while it is in a batch.
 * Tuples with compressed or out-of-line values come back from the device
 * unseen; made flat by PostgreSQL they go in again.  So do pages that the device turns out not
 * to keep.
 *
 * Where expressions are columns, no page is pushed, but all of its tuples, made
 * flat with the expressions' values.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/feed.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* A page that the device was thought to keep, and did not. */
typedef struct MissingPage
{
	uint32 layout;
	BlockNumber block;
} MissingPage;

/* A tuple that the device could not decode, made flat. */
typedef struct StagedTuple
{
	uint32 layout;
	HeapTuple tuple;
} StagedTuple;

static void
close_reader(GpuScanFeed *feed)
{
	GpuScanHeapCounts counts = gpuscan_heap_counts(feed->reader);

	feed->counters.read += counts.read;
	feed->counters.loaded += counts.loaded;
	feed->counters.loose += counts.loose;
	gpuscan_heap_close(feed->reader);
	feed->reader = NULL;
}

bool
gpuscan_feed_next_page(GpuScanFeed *feed)
{
	while (!feed->have_page)
	{
		if (feed->reader == NULL)
		{
			if (feed->current == list_length(feed->relations))
				return false;
			feed->reader =
				gpuscan_heap_open(list_nth(feed->relations, feed->current), feed->snapshot,
								  feed->scans ? feed->scans[feed->current] : NULL,
								  feed->plans ? feed->plans[feed->current] : NULL,
								  feed->takes_kept && feed->evaluators == NULL);
		}
		feed->have_page = gpuscan_heap_next(feed->reader, &feed->page);
		if (!feed->have_page && !gpuscan_feed_is_planned(feed))
			return false;
		if (!feed->have_page)
		{
			close_reader(feed);
			feed->current++;
		}
	}
	return true;
}

void
gpuscan_feed_prepare(GpuScanFeed *feed)
{
	ListCell *lc;

	if (feed->expressions == NULL)
		return;
	feed->evaluators = palloc(list_length(feed->relations) * sizeof(GpuScanEvaluator *));
	foreach(lc, feed->relations)
	{
		int i = foreach_current_index(lc);

		feed->evaluators[i] = gpuscan_evaluator_create(lfirst(lc), feed->expressions[i],
													   feed->attnums[i], feed->ncolumns);
	}
}

void
gpuscan_feed_fail(GpuScanFeed *feed, GpuScanRowFailure failure)
{
	feed->failure = failure;
	if (feed->failed != NULL)
		pg_atomic_write_u32(feed->failed, failure);
	gpuscan_client_fail(feed->client,
						failure == GPUSCAN_ROW_TOO_LARGE
							? "a row with its expressions is too large for the request's memory"
							: "an expression raised an error for a row");
}

/*
 * A tuple of a range that is only loaded cannot be had: nothing comes of the batch but that
 * it says so.
 */
static void
spoil(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	gpuscan_client_spoil(batch);
	if (gpuscan_client_batch_is_empty(batch))
		(void) gpuscan_client_add_tuple(
			batch, feed->current, gpuscan_evaluator_form_nulls(feed->evaluators[feed->current]),
			true);
}

/* Puts what is left of the page's tuples into a batch, with expressions' values. */
static bool
add_tuples(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	const GpuScanHeapPage *page = &feed->page;
	GpuScanEvaluator *evaluator = feed->evaluators[feed->current];

	for (; feed->ntuples < page->ntuples && !gpuscan_client_is_spoiled(batch); feed->ntuples++)
	{
		OffsetNumber offset = gpuscan_heap_line_pointer(page, feed->ntuples);
		GpuScanRowFailure failure =
			feed->failed == NULL ? GPUSCAN_ROW_FORMED : pg_atomic_read_u32(feed->failed);
		HeapTuple tuple = NULL;
		bool added;

		CHECK_FOR_INTERRUPTS();
		if (failure == GPUSCAN_ROW_FORMED)
			tuple =
				gpuscan_evaluator_form(evaluator, BufferGetPage(page->buffer), offset, &failure);
		added = tuple != NULL && gpuscan_client_add_tuple(batch, feed->current, tuple, page->fills);
		feed->counters.evaluated += added;
		if (added)
			continue;
		if (!feed->spoils)
		{
			if (tuple == NULL)
				gpuscan_feed_fail(feed, failure);
			return false;
		}
		spoil(feed, batch);
	}
	feed->ntuples = 0;
	ReleaseBuffer(page->buffer);
	return true;
}

/* Puts the page, or what is left of it, into a batch; false if that is full, or the client fails. */
static bool
add_page(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	const GpuScanHeapPage *page = &feed->page;

	if (feed->evaluators != NULL)
		return add_tuples(feed, batch);
	if (page->kept != 0)
	{
		bool added = gpuscan_client_add_kept(batch, feed->current, page->block, page->lsn,
											 page->kept, page->ntuples);

		feed->counters.kept += added;
		return added;
	}
	if (!gpuscan_client_add_page(batch, feed->current, page->buffer, page->offsets, page->ntuples,
								 page->fills))
		return false;
	if (page->lsn != InvalidXLogRecPtr)
		gpuscan_client_keep_page(batch, page->lsn);
	return true;
}

/* The range that the page is of, if it is loaded. */
static GpuScanRangeState *
range_of_page(const GpuScanFeed *feed)
{
	return feed->page.range == feed->unfit ? NULL : feed->page.range;
}

/*
 * Puts pages into a batch that has none: those of one range to load, or any
 * others.
 */
static void
add_pages(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	GpuScanRangeState *range = range_of_page(feed);
	uint32 layout = feed->current;

	if (range != NULL)
		gpuscan_client_expect_range(batch);
	do
	{
		if (!add_page(feed, batch))
		{
			/* a range of pages fits; one of tuples that have grown may not, and is not loaded */
			Assert(range == NULL || feed->evaluators != NULL);
			if (range != NULL)
				feed->unfit = range;
			return;
		}
		feed->have_page = false;
	} while (gpuscan_feed_next_page(feed) && range_of_page(feed) == range);
	if (range != NULL)
	{
		gpuscan_client_fill(batch, layout, range);
		pfree(range);
	}
}

/* True if there is something to push, as far as is known. */
static bool
has_input(const GpuScanFeed *feed)
{
	return !feed->input_done || feed->staged != NIL || feed->again != NIL;
}

/* Puts pages that the device did not keep into a batch; false if that is full. */
static bool
add_again(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	OffsetNumber offsets[MaxHeapTuplesPerPage];

	while (feed->again != NIL)
	{
		MissingPage *missing = linitial(feed->again);
		GpuScanHeapPage page;

		CHECK_FOR_INTERRUPTS();
		gpuscan_heap_read_again(list_nth(feed->relations, missing->layout), feed->snapshot,
								missing->block, offsets, &page);
		if (!gpuscan_client_add_page(batch, missing->layout, page.buffer, page.offsets,
									 page.ntuples, false))
		{
			ReleaseBuffer(page.buffer);
			return false;
		}
		if (page.lsn != InvalidXLogRecPtr)
			gpuscan_client_keep_page(batch, page.lsn);
		pfree(missing);
		feed->again = list_delete_first(feed->again);
	}
	return true;
}

/* Fills one batch; false if there was nothing to put into it. */
static bool
fill_batch(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	while (feed->staged != NIL)
	{
		StagedTuple *staged = linitial(feed->staged);

		if (!gpuscan_client_add_tuple(batch, staged->layout, staged->tuple, false))
			return true;
		heap_freetuple(staged->tuple);
		feed->staged = list_delete_first(feed->staged);
	}
	if (!add_again(feed, batch))
		return true;
	if (gpuscan_feed_next_page(feed) &&
		(range_of_page(feed) == NULL || gpuscan_client_batch_is_empty(batch)))
		add_pages(feed, batch);
	feed->input_done = !feed->have_page;
	return !gpuscan_client_batch_is_empty(batch);
}

uint64
gpuscan_feed_blocks(const GpuScanFeed *feed)
{
	uint64 blocks = 0;
	ListCell *lc;

	foreach(lc, feed->relations)
	{
		int i = foreach_current_index(lc);

		blocks += feed->plans != NULL && feed->plans[i] != NULL
					  ? feed->plans[i]->nblocks
					  : RelationGetNumberOfBlocks((Relation) lfirst(lc));
	}
	return blocks;
}

void
gpuscan_feed_report(GpuScanFeed *feed)
{
	Oid relid = InvalidOid;
	uint64 done = feed->counters.read;

	if (!feed->announced)
		gpuscan_client_expect_blocks(feed->client, gpuscan_feed_blocks(feed));
	feed->announced = true;
	if (feed->current < list_length(feed->relations))
		relid = RelationGetRelid((Relation) list_nth(feed->relations, feed->current));
	if (feed->reader != NULL)
		done += gpuscan_heap_counts(feed->reader).read;
	gpuscan_client_report(feed->client, relid, done);
}

void
gpuscan_feed_fill(GpuScanFeed *feed)
{
	MemoryContext old = MemoryContextSwitchTo(feed->context);
	GpuScanClientBatch *batch;

	while ((has_input(feed) || gpuscan_feed_wants_to_ask(feed)) &&
		   gpuscan_client_failure(feed->client) == NULL &&
		   (batch = gpuscan_client_batch(feed->client)) != NULL)
	{
		gpuscan_feed_report(feed);
		if (!has_input(feed))
			gpuscan_feed_ask(feed, batch);
		else if (fill_batch(feed, batch))
			gpuscan_client_push(feed->client, batch);
		else
			gpuscan_client_release(feed->client, batch);
	}
	gpuscan_feed_report(feed);
	MemoryContextSwitchTo(old);
}

/* Makes a tuple flat that the device could not decode. */
static void
stage(GpuScanFeed *feed, uint32 layout, Page page, OffsetNumber offset)
{
	StagedTuple *staged = palloc(sizeof(StagedTuple));

	CHECK_FOR_INTERRUPTS();
	staged->layout = layout;
	staged->tuple = gpuscan_heap_flatten(list_nth(feed->relations, layout), page, offset,
										 feed->attnums[layout], feed->ncolumns);
	feed->staged = lappend(feed->staged, staged);
	feed->counters.detoasted++;
}

/* Those of a page that the device keeps */
static void
stage_kept(GpuScanFeed *feed, const GpuScanClientKept *kept)
{
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	GpuScanHeapPage page = {0};

	for (uint32 i = 0; i < kept->ntuples; i++)
	{
		if ((kept->deferred[i / 64] >> i % 64 & 1) == 0)
			continue;
		if (page.buffer == InvalidBuffer)
			gpuscan_heap_read_again(list_nth(feed->relations, kept->layout), feed->snapshot,
									kept->blkno, offsets, &page);
		Assert(page.ntuples == (int) kept->ntuples);
		stage(feed, kept->layout, BufferGetPage(page.buffer), gpuscan_heap_line_pointer(&page, i));
	}
	if (page.buffer != InvalidBuffer)
		ReleaseBuffer(page.buffer);
}

/* Learns from a completed batch which pages the device keeps, and which it does not. */
static void
take_kept(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	for (int i = 0; i < gpuscan_client_num_blocks(batch); i++)
	{
		GpuScanClientBlock block = gpuscan_client_block(batch, i);

		if (block.kept != 0)
			gpuscan_heap_set_kept(list_nth(feed->relations, block.layout), block.blkno, block.lsn,
								  block.kept);
	}
	for (uint32 i = 0; i < gpuscan_client_num_kept(batch); i++)
	{
		GpuScanClientKept kept = gpuscan_client_kept(batch, i);
		MissingPage *missing;

		if (kept.deferred != NULL)
			stage_kept(feed, &kept);
		if (!kept.missing)
			continue;
		gpuscan_heap_set_kept(list_nth(feed->relations, kept.layout), kept.blkno, kept.lsn, 0);
		feed->counters.kept--;
		missing = palloc(sizeof(MissingPage));
		missing->layout = kept.layout;
		missing->block = kept.blkno;
		feed->again = lappend(feed->again, missing);
	}
}

/* Makes flat the tuples of a batch that the device could not decode. */
static void
stage_deferred(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	if (gpuscan_client_num_deferred(batch) == 0)
		return;
	for (int i = 0; i < gpuscan_client_num_blocks(batch); i++)
	{
		GpuScanClientBlock block = gpuscan_client_block(batch, i);

		for (uint32 j = 0; j < block.ntuples; j++)
		{
			if (block.outcome[j] == GPUSCAN_TUPLE_DEFERRED)
				stage(feed, block.layout, block.page, gpuscan_client_line_pointer(&block, j));
		}
	}
}

void
gpuscan_feed_all(GpuScanFeed *feed)
{
	for (;;)
	{
		GpuScanClientBatch *batch;
		MemoryContext old;

		gpuscan_feed_fill(feed);
		batch = gpuscan_client_completed(feed->client, true);
		if (batch == NULL)
			break;
		old = MemoryContextSwitchTo(feed->context);
		stage_deferred(feed, batch);
		take_kept(feed, batch);
		MemoryContextSwitchTo(old);
		gpuscan_client_release(feed->client, batch);
	}
}

void
gpuscan_feed_end(GpuScanFeed *feed)
{
	if (feed->have_page && BufferIsValid(feed->page.buffer))
		ReleaseBuffer(feed->page.buffer);
	feed->have_page = false;
	if (feed->reader != NULL)
		close_reader(feed);
	for (int i = 0; feed->evaluators != NULL && i < list_length(feed->relations); i++)
		gpuscan_evaluator_release(feed->evaluators[i]);
}

void
gpuscan_feed_rewind(GpuScanFeed *feed)
{
	ListCell *lc;

	foreach(lc, feed->staged)
		heap_freetuple(((StagedTuple *) lfirst(lc))->tuple);
	list_free_deep(feed->staged);
	feed->staged = NIL;
	list_free_deep(feed->again);
	feed->again = NIL;
	feed->ntuples = 0;
	feed->unfit = NULL;
	feed->failed = NULL;
	feed->failure = GPUSCAN_ROW_FORMED;
	if (feed->scans != NULL)
		pfree(feed->scans);
	feed->scans = NULL;
	feed->current = 0;
	feed->input_done = false;
	feed->plans = NULL;
	feed->announced = false;
	feed->counters = (GpuScanFeedCounters){0};
}
