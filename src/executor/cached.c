/*-------------------------------------------------------------------------
 *
 * cached.c
 *	  Asking the service what it answers from its cache.
 *
 * An aggregation asks before anything is read:
 *
 *		of each relation whose LSNs tell what has changed
 *			ask, in one question, about all pages of its visibility map
 *		for each page that the service does not answer as a whole
 *			read the map page again; ask about its blocks
 *			if the service wants to see LSNs of heap pages, read them; ask again
 *			plan to read the blocks that the cache does not answer
 *
 * A relation of one page of the map is asked about its blocks at once.  Several questions are
 * under way at a time.
 *
 * A scan asks as it goes, the next question when it has pushed what the last one's answer left: about
 * one page of the map, then two, then four, as long as the service answers all of them, so that a
 * LIMIT does not have much looked at in vain.  It plans to read what is not answered, and the blocks that
 * may have rows of its.  As the answers are the device's, none counts once the request has
 * failed.
 *
 * The snapshot was taken before: a block that is all-visible now is so for it.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/feed.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define FIRST_PARTS 64

/* A relation that is asked about */
typedef struct Subject
{
	Relation rel;
	uint32 layout;
	BlockNumber nblocks;
	bool pinned;
	bool loose; /* a block is not all-visible, as far as we have looked */
	uint32 max_parts;
	GpuScanHeapPlan *plan;
} Subject;

/* What is to be asked */
typedef struct Question
{
	Subject *subject;
	uint32 map_page;
	uint32 npages;				/* in one question, from map_page on; 0: about the blocks of one */
	GpuScanCacheLookup *answer; /* that wants to see LSNs, or NULL */
} Question;

typedef struct Inquiry
{
	GpuScanFeed *feed;
	List *questions; /* of Question */
	int asked;		 /* of them */
	int unanswered;	 /* by the service */
	bool complete;	 /* nothing is to be read, as far as is known */
} Inquiry;

static void
add_question(Inquiry *inquiry, Subject *subject, uint32 map_page, uint32 npages,
			 GpuScanCacheLookup *answer)
{
	Question *question = palloc(sizeof(Question));

	*question = (Question){subject, map_page, npages, answer};
	inquiry->questions = lappend(inquiry->questions, question);
}

static bool
is_any(const uint64 *blocks)
{
	uint64 any = 0;

	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
		any |= blocks[i];
	return any != 0;
}

/* Whether the service wants to see LSNs of heap pages. */
static bool
wants_lsns(const GpuScanCacheLookup *lookup)
{
	uint64 any = 0;

	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
	{
		if (!lookup->whole[i / GPUSCAN_PIECE_RANGES])
			any |= lookup->verify[i];
	}
	return any != 0;
}

/* A copy of an answer to ask again with, if the service wants to see LSNs; else NULL. */
static GpuScanCacheLookup *
copy_to_ask_again(const GpuScanCacheLookup *lookup)
{
	GpuScanCacheLookup *copy;

	if (!wants_lsns(lookup))
		return NULL;
	copy = palloc(sizeof(GpuScanCacheLookup));
	*copy = *lookup;
	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
	{
		if (copy->whole[i / GPUSCAN_PIECE_RANGES])
			copy->verify[i] = 0;
	}
	return copy;
}

/* ---- the plan ---- */

static void
plan_to_read(Inquiry *inquiry, Subject *subject, uint32 range, uint64 blocks, bool load)
{
	GpuScanHeapPlan *plan = subject->plan;

	inquiry->complete = false;

	if (plan->nparts == subject->max_parts)
	{
		subject->max_parts *= 2;
		plan = subject->plan = repalloc_huge(plan, gpuscan_heap_plan_size(subject->max_parts));
	}
	plan->parts[plan->nparts++] = (GpuScanHeapPart){.range = range, .load = load, .blocks = blocks};
	plan->nblocks += pg_popcount64(blocks);
}

/*
 * Plans to read what a map page's answer leaves; of a scan also the cached blocks in
 * `hits`, else NULL.
 */
static void
plan_map_page(Inquiry *inquiry, Subject *subject, const GpuScanCacheLookup *answer,
			  const uint64 *hits)
{
	GpuScanFeed *feed = inquiry->feed;

	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
	{
		uint32 range = answer->question.map_page * GPUSCAN_MAP_RANGES + i;
		uint64 blocks = gpuscan_heap_range_blocks(range, subject->nblocks);
		bool whole = answer->whole[i / GPUSCAN_PIECE_RANGES];
		uint64 cached = whole ? answer->visible[i] : answer->cached[i];
		/* pages that are not pushed load nothing */
		bool load = !whole && answer->load[i] && !feed->only_asks;

		feed->counters.cached += pg_popcount64(blocks & cached);
		if (hits != NULL)
			feed->counters.hits += pg_popcount64(blocks & cached & hits[i]);
		blocks &= ~cached | (hits != NULL ? hits[i] : 0);
		if (blocks != 0 && (load || !feed->background))
			plan_to_read(inquiry, subject, range, blocks, load);
	}
}

/* ---- asking ---- */

static void
begin_question(const Inquiry *inquiry, const Subject *subject, uint32 map_page, bool more,
			   GpuScanCacheQuestion *question)
{
	*question = (GpuScanCacheQuestion){
		.name.node = subject->rel->rd_node,
		.name.relid = RelationGetRelid(subject->rel),
		.layout = subject->layout,
		.map_page = map_page,
		.more = more,
		.finish = inquiry->complete,
		.loose = subject->loose,
		.pinned = subject->pinned,
	};
}

/* False if there is nothing to ask. */
static bool
ask_survey(Inquiry *inquiry, const Question *question, bool more, GpuScanClientBatch *batch)
{
	Subject *subject = question->subject;
	Buffer map = InvalidBuffer;
	bool any = false;
	uint32 max_pages;
	GpuScanCacheSurvey *survey = gpuscan_client_survey(batch, &max_pages);

	survey->npages = Min(question->npages, max_pages);
	for (uint32 i = 0; i < survey->npages; i++)
	{
		GpuScanCacheMapPage *page = &survey->pages[i];
		uint32 map_page = question->map_page + i;
		uint32 n = gpuscan_heap_map_page_blocks(map_page, subject->nblocks);
		bool all_visible;

		page->map_lsn = gpuscan_heap_survey_map(subject->rel, map_page, n, &map, &all_visible);
		page->nblocks = all_visible ? n : 0;
		page->cached = false;
		any |= all_visible;
		subject->loose |= !all_visible;
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	begin_question(inquiry, subject, question->map_page, more || question->npages > max_pages,
				   &survey->question);
	return any;
}

/* False if there is nothing to ask. */
static bool
ask_lookup(const Inquiry *inquiry, const Question *question, bool more, GpuScanClientBatch *batch)
{
	Subject *subject = question->subject;
	uint32 first = question->map_page * GPUSCAN_MAP_RANGES;
	Buffer map = InvalidBuffer;
	XLogRecPtr *lsns;
	GpuScanCacheLookup *lookup = gpuscan_client_lookup(batch, &lsns);

	if (question->answer != NULL)
	{
		*lookup = *question->answer;
		pfree(question->answer);
		lookup->with_lsns = true;
		lookup->question.more = more;
		lookup->question.finish = false;
		gpuscan_heap_read_lsns(subject->rel, first, GPUSCAN_MAP_RANGES, lookup->verify, lsns);
		return true;
	}
	lookup->with_lsns = false;
	lookup->map_lsn =
		gpuscan_heap_read_map(subject->rel, first, GPUSCAN_MAP_RANGES, &map, lookup->visible);
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
	{
		uint64 all = gpuscan_heap_range_blocks(first + i, subject->nblocks);

		lookup->visible[i] &= all;
		subject->loose |= lookup->visible[i] != all;
	}
	begin_question(inquiry, subject, question->map_page, more, &lookup->question);
	return is_any(lookup->visible);
}

/* ---- answers ---- */

static void
take_survey(Inquiry *inquiry, Subject *subject, const GpuScanCacheSurvey *survey)
{
	for (uint32 i = 0; i < survey->npages; i++)
	{
		if (survey->pages[i].cached)
			inquiry->feed->counters.cached += survey->pages[i].nblocks;
		else
			add_question(inquiry, subject, survey->question.map_page + i, 0, NULL);
	}
}

static void
take_lookup(Inquiry *inquiry, Subject *subject, const GpuScanCacheLookup *lookup)
{
	GpuScanCacheLookup *copy = copy_to_ask_again(lookup);

	if (copy != NULL)
		add_question(inquiry, subject, lookup->question.map_page, 0, copy);
	else
		plan_map_page(inquiry, subject, lookup, NULL);
}

/* Plans to read a map page that there is nothing to ask about. */
static void
plan_unseen(Inquiry *inquiry, Subject *subject, GpuScanCacheLookup *lookup)
{
	/* none of no blocks */
	memset(lookup->whole, true, sizeof(lookup->whole));
	plan_map_page(inquiry, subject, lookup, NULL);
}

/* Asks the next question, or answers it where that needs no service. */
static void
ask(Inquiry *inquiry, GpuScanClientBatch *batch)
{
	Question *question = list_nth(inquiry->questions, inquiry->asked++);
	bool more = inquiry->asked < list_length(inquiry->questions);
	bool survey = question->npages > 0;
	bool any = survey ? ask_survey(inquiry, question, more, batch)
					  : ask_lookup(inquiry, question, more, batch);
	XLogRecPtr *lsns;
	uint32 max_pages;

	if (survey)
	{
		uint32 n = gpuscan_client_survey(batch, &max_pages)->npages;

		if (n < question->npages)
			add_question(inquiry, question->subject, question->map_page + n, question->npages - n,
						 NULL);
	}
	if (any)
	{
		gpuscan_client_push(inquiry->feed->client, batch);
		inquiry->unanswered++;
		return;
	}
	if (survey)
		take_survey(inquiry, question->subject, gpuscan_client_survey(batch, &max_pages));
	else
		plan_unseen(inquiry, question->subject, gpuscan_client_lookup(batch, &lsns));
	gpuscan_client_release(inquiry->feed->client, batch);
}

static void
count_tiers(GpuScanFeed *feed, const GpuScanCacheQuestion *question)
{
	for (int tier = 0; tier <= GPUSCAN_TIER_HOST; tier++)
		feed->counters.in_tier[tier] += question->in_tier[tier];
}

/* Waits for the oldest answer.  False: there is none, or the client fails. */
static bool
take_answer(Inquiry *inquiry, Subject *subjects)
{
	GpuScanClientBatch *batch = gpuscan_client_completed(inquiry->feed->client, true);
	const GpuScanCacheQuestion *question;
	XLogRecPtr *lsns;
	uint32 max_pages;
	Subject *subject;

	if (batch == NULL)
		return false;
	inquiry->unanswered--;
	if (gpuscan_client_is_survey(batch))
	{
		const GpuScanCacheSurvey *survey = gpuscan_client_survey(batch, &max_pages);

		question = &survey->question;
		subject = &subjects[question->layout];
		take_survey(inquiry, subject, survey);
	}
	else
	{
		const GpuScanCacheLookup *lookup = gpuscan_client_lookup(batch, &lsns);

		question = &lookup->question;
		subject = &subjects[question->layout];
		take_lookup(inquiry, subject, lookup);
	}
	if (question->finished)
		gpuscan_client_finished(inquiry->feed->client);
	/* what is only loaded is not read for anybody */
	if (!inquiry->feed->spoils)
		gpuscan_heap_count_tuples(subject->rel, question->ntuples);
	count_tiers(inquiry->feed, question);
	gpuscan_client_release(inquiry->feed->client, batch);
	return true;
}

bool
gpuscan_feed_may_be_cached(Relation rel)
{
	return gpuscan_heap_is_cacheable(rel) && gpuscan_heap_label(rel) != GPUSCAN_LABEL_NEVER;
}

/* Prepares to ask about a relation; returns how many pages its map has. */
static uint32
begin_subject(Inquiry *inquiry, Subject *subject, Relation rel, uint32 layout)
{
	BlockNumber nblocks;

	/* as a scan does when it begins: from now on a writer finds that we read the relation */
	PredicateLockRelation(rel, inquiry->feed->snapshot);
	nblocks = RelationGetNumberOfBlocks(rel);
	*subject = (Subject){
		.rel = rel,
		.layout = layout,
		.nblocks = nblocks,
		.pinned = gpuscan_heap_label(rel) == GPUSCAN_LABEL_ALWAYS,
		.max_parts = FIRST_PARTS,
		.plan = palloc0(gpuscan_heap_plan_size(FIRST_PARTS)),
	};
	pg_atomic_init_u32(&subject->plan->next, 0);
	return (nblocks + GPUSCAN_MAP_BLOCKS - 1) / GPUSCAN_MAP_BLOCKS;
}

void
gpuscan_feed_look_up(GpuScanFeed *feed)
{
	int n = Max(list_length(feed->relations), 1);
	Inquiry inquiry = {.feed = feed, .complete = !feed->background};
	MemoryContext old;
	Subject *subjects;
	ListCell *lc;

	if (!gpuscan_client_has_cache(feed->client))
		return;
	old = MemoryContextSwitchTo(feed->context);
	subjects = palloc0(n * sizeof(Subject));
	foreach(lc, feed->relations)
	{
		Relation rel = lfirst(lc);
		uint32 layout = foreach_current_index(lc);
		uint32 npages;

		if (gpuscan_feed_may_be_cached(rel))
		{
			npages = begin_subject(&inquiry, &subjects[layout], rel, layout);
			if (npages > 0)
				add_question(&inquiry, &subjects[layout], 0, npages > 1 ? npages : 0, NULL);
		}
		else
			inquiry.complete = false;
	}
	do
	{
		GpuScanClientBatch *batch;

		while (inquiry.asked < list_length(inquiry.questions) &&
			   (batch = gpuscan_client_batch(feed->client)) != NULL)
			ask(&inquiry, batch);
	} while (take_answer(&inquiry, subjects));

	/* what a request that has failed meanwhile got from the cache is all, or does not count */
	if (inquiry.unanswered > 0)
		feed->counters = (GpuScanFeedCounters){0};
	if (gpuscan_client_failure(feed->client) == NULL)
	{
		feed->plans = palloc0(n * sizeof(GpuScanHeapPlan *));
		for (int i = 0; i < n; i++)
			feed->plans[i] = subjects[i].plan;
	}
	list_free_deep(inquiry.questions);
	pfree(subjects);
	MemoryContextSwitchTo(old);
}

/* ---- a scan ---- */

typedef struct GpuScanSearch
{
	Inquiry inquiry;
	Subject subject;
	uint32 nmap_pages;
	uint32 map_page; /* what comes before is planned */
	uint32 ahead;	 /* pages that the next question is about; a survey, if they are more than 1 */
	bool asked;		 /* it is under way */
	GpuScanCacheLookup *answer;		 /* of the map page, that wants to see LSNs, or NULL */
	uint64 hits[GPUSCAN_MAP_RANGES]; /* if so, of the blocks that it has answered */
} GpuScanSearch;

void
gpuscan_feed_search(GpuScanFeed *feed)
{
	Relation rel = linitial(feed->relations);
	GpuScanSearch *search;
	MemoryContext old;

	if (!gpuscan_client_has_cache(feed->client) || !gpuscan_feed_may_be_cached(rel))
		return;
	old = MemoryContextSwitchTo(feed->context);
	search = palloc0(sizeof(GpuScanSearch));
	search->inquiry.feed = feed;
	search->ahead = 1;
	search->nmap_pages = begin_subject(&search->inquiry, &search->subject, rel, 0);
	feed->search = search;
	feed->plans = palloc(sizeof(GpuScanHeapPlan *));
	feed->plans[0] = search->subject.plan;
	MemoryContextSwitchTo(old);
}

bool
gpuscan_feed_is_planned(const GpuScanFeed *feed)
{
	return feed->search == NULL || feed->search->map_page == feed->search->nmap_pages;
}

bool
gpuscan_feed_wants_to_ask(const GpuScanFeed *feed)
{
	return !gpuscan_feed_is_planned(feed) && !feed->search->asked;
}

/* Parts have been added to the plan. */
static void
extend_reader(GpuScanFeed *feed)
{
	feed->plans[0] = feed->search->subject.plan;
	if (feed->reader != NULL)
		gpuscan_heap_extend(feed->reader, feed->plans[0]);
	feed->input_done = false;
	feed->announced = false;
}

void
gpuscan_feed_ask(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	GpuScanSearch *search = feed->search;
	bool survey = search->ahead > 1;
	Question question = {
		.subject = &search->subject,
		.map_page = search->map_page,
		.npages = survey ? Min(search->ahead, search->nmap_pages - search->map_page) : 0,
		.answer = search->answer,
	};
	XLogRecPtr *lsns;

	search->answer = NULL;
	search->asked = survey ? ask_survey(&search->inquiry, &question, false, batch)
						   : ask_lookup(&search->inquiry, &question, false, batch);
	if (search->asked)
	{
		gpuscan_client_push(feed->client, batch);
		return;
	}
	if (survey)
		search->ahead = 1;
	else
	{
		plan_unseen(&search->inquiry, &search->subject, gpuscan_client_lookup(batch, &lsns));
		search->map_page++;
		extend_reader(feed);
	}
	gpuscan_client_release(feed->client, batch);
}

/* Plans to read the hits in the pages of a survey that are answered. */
static void
plan_survey(GpuScanSearch *search, const GpuScanCacheSurvey *survey, const uint64 *hits)
{
	Subject *subject = &search->subject;
	uint32 n = 0;

	for (; n < survey->npages && survey->pages[n].cached; n++)
	{
		search->inquiry.feed->counters.cached += survey->pages[n].nblocks;
		for (int i = 0; i < GPUSCAN_MAP_RANGES; i++, hits++)
		{
			search->inquiry.feed->counters.hits += pg_popcount64(*hits);
			if (*hits != 0)
				plan_to_read(&search->inquiry, subject, search->map_page * GPUSCAN_MAP_RANGES + i,
							 *hits, false);
		}
		search->map_page++;
	}
	search->ahead = n == survey->npages ? survey->npages * 2 : 1;
}

static void
plan_lookup(GpuScanSearch *search, const GpuScanCacheLookup *lookup, const uint64 *hits)
{
	for (int i = 0; i < GPUSCAN_MAP_RANGES; i++)
		search->hits[i] |= hits[i];
	search->answer = copy_to_ask_again(lookup);
	if (search->answer != NULL)
		return;
	plan_map_page(&search->inquiry, &search->subject, lookup, search->hits);
	memset(search->hits, 0, sizeof(search->hits));
	search->map_page++;
	search->ahead = 2;
}

void
gpuscan_feed_take_answer(GpuScanFeed *feed, GpuScanClientBatch *batch)
{
	GpuScanSearch *search = feed->search;
	MemoryContext old = MemoryContextSwitchTo(feed->context);
	const uint64 *hits = gpuscan_client_hits(batch);
	const GpuScanCacheQuestion *question;
	XLogRecPtr *lsns;
	uint32 max_pages;

	search->asked = false;
	if (gpuscan_client_is_survey(batch))
	{
		const GpuScanCacheSurvey *survey = gpuscan_client_survey(batch, &max_pages);

		question = &survey->question;
		plan_survey(search, survey, hits);
	}
	else
	{
		const GpuScanCacheLookup *lookup = gpuscan_client_lookup(batch, &lsns);

		question = &lookup->question;
		plan_lookup(search, lookup, hits);
	}
	count_tiers(feed, question);
	extend_reader(feed);
	MemoryContextSwitchTo(old);
}

void
gpuscan_feed_plan_rest(GpuScanFeed *feed)
{
	GpuScanSearch *search = feed->search;
	MemoryContext old = MemoryContextSwitchTo(feed->context);

	if (gpuscan_feed_is_planned(feed))
		return;
	for (uint32 range = search->map_page * GPUSCAN_MAP_RANGES;
		 range < search->nmap_pages * GPUSCAN_MAP_RANGES; range++)
	{
		uint64 blocks = gpuscan_heap_range_blocks(range, search->subject.nblocks);

		if (blocks != 0)
			plan_to_read(&search->inquiry, &search->subject, range, blocks, false);
	}
	search->map_page = search->nmap_pages;
	extend_reader(feed);
	MemoryContextSwitchTo(old);
}
