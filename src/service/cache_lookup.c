/*-------------------------------------------------------------------------
 *
 * cache_lookup.c
 *	  What the cache answers of a relation's blocks, by what a backend read of the
 *	  visibility map; heap/README.md has the argument.
 *
 * A survey is answered from kept segments alone.  A lookup is too, if there is one for
 * the very LSN and bits; else each of the map page's ranges is looked at, and what that
 * gives is kept, if it will be the same the next time: every block that is all-visible is
 * answered, or of a range that cannot be cached.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "service/cache_impl.h"

typedef enum RangeStatus
{
	RANGE_USELESS, /* somebody loads it just now, or there is no room */
	RANGE_UNFIT,   /* it cannot be cached */
	RANGE_TO_LOAD,
	RANGE_TO_VERIFY,
	RANGE_CURRENT
} RangeStatus;

/*
 * Finds out what to do with a range, of which `visible` blocks are all-visible.
 * `lsns` are those of `verify`, or NULL.  In a range that is current, *blocks are.
 */
static RangeStatus
look_at_range(GpuScanCacheUse *use, uint32 layout, uint32 range, XLogRecPtr map_lsn, uint64 visible,
			  uint64 verify, const XLogRecPtr *lsns, uint64 *blocks)
{
	Table *table = use->tables[layout];
	GpuScanRangeState *state = table->ranges[range];
	bool is_loading = table->loading[range] != 0 || table->dead;
	bool complete = state != NULL;
	bool has_unfit = false;

	for (int i = 0; i < use->program->ninputs; i++)
	{
		Chunk *chunk = get_chunk(use->columns[layout][i], range);

		complete &= chunk != NULL && chunk != UNFIT;
		has_unfit |= chunk == UNFIT;
	}
	if (has_unfit && state != NULL && state->map_lsn == map_lsn)
		return RANGE_UNFIT;
	if (!complete)
		return is_loading || !gpuscan_cache_may_load(use) ? RANGE_USELESS : RANGE_TO_LOAD;

	if (state->map_lsn != map_lsn)
	{
		uint64 same = 0;

		if (lsns == NULL)
			return RANGE_TO_VERIFY;
		for (int i = 0; i < GPUSCAN_RANGE_BLOCKS; i++)
		{
			uint64 bit = UINT64CONST(1) << i;

			if ((verify & bit) != 0 && *lsns++ == state->lsns[i])
				same |= bit;
		}

		/* The range takes the new LSN, with those blocks for which that was proven. */
		gpuscan_cache_range_changes(table, range);
		state->blocks &= same & visible;
		state->map_lsn = map_lsn;
	}
	*blocks = state->blocks & visible;
	if (*blocks != visible && !is_loading && (use->background || use->reloads_left > 0))
	{
		use->reloads_left -= !use->background;
		return RANGE_TO_LOAD;
	}
	return *blocks == 0 ? RANGE_USELESS : RANGE_CURRENT;
}

/* True if the segment is the answer to what the map said of its page. */
static bool
is_answer(const Segment *segment, XLogRecPtr map_lsn, const uint64 *visible)
{
	if (segment->map_lsn != map_lsn ||
		memcmp(segment->visible, visible, segment->nwords * sizeof(uint64)) != 0)
		return false;
	for (int i = segment->nwords; i < GPUSCAN_MAP_RANGES; i++)
	{
		if (visible[i] != 0)
			return false;
	}
	return true;
}

/* Adds what a segment has to the answer. */
static void
count_answer(GpuScanCacheQuestion *question, const Segment *segment)
{
	question->ntuples += segment->ntuples;
	for (int tier = 0; tier < TIERS; tier++)
		question->in_tier[tier] += segment->in_tier[tier];
}

static void
count_nothing(GpuScanCacheQuestion *question)
{
	question->ntuples = 0;
	memset(question->in_tier, 0, sizeof(question->in_tier));
}

/* Answers a lookup from a kept segment. */
static void
answer_from_segment(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, Segment *segment)
{
	Size size = segment->nwords * sizeof(uint64);

	count_answer(&lookup->question, segment);
	lookup->whole = memcmp(segment->blocks, segment->visible, size) == 0;
	if (!lookup->whole)
	{
		memset(lookup->verify, 0, sizeof(lookup->verify));
		memset(lookup->load, 0, sizeof(lookup->load));
		memset(lookup->cached, 0, sizeof(lookup->cached));
		memcpy(lookup->cached, segment->blocks, size);
	}
	if (!use->background)
		gpuscan_cache_use_segment(use, segment);
}

/* Answers a lookup range by range. */
static void
look_at_ranges(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, const XLogRecPtr *lsns)
{
	uint32 layout = lookup->question.layout;
	Table *table = use->tables[layout];
	uint64 visible[GPUSCAN_MAP_RANGES];
	bool keep = lsns == NULL && !use->background;
	bool whole = lsns == NULL;
	Segment *segment = NULL;
	uint32 max = 0;

	memcpy(visible, lookup->visible, sizeof(visible));
	for (uint32 i = 0; i < GPUSCAN_MAP_RANGES; i++)
		max += visible[i] != 0;
	if (!use->background)
		segment = gpuscan_cache_create_segment(use, layout, lookup->question.map_page, max);
	for (uint32 i = 0; i < GPUSCAN_MAP_RANGES; i++)
	{
		uint32 range = lookup->question.map_page * GPUSCAN_MAP_RANGES + i;
		uint64 verify = lookup->verify[i];
		RangeStatus status = RANGE_UNFIT;
		uint64 blocks = 0;

		/* The second time only what has been verified is new. */
		if (lsns != NULL && verify == 0)
			continue;
		lookup->verify[i] = 0;
		lookup->cached[i] = 0;
		lookup->load[i] = false;
		if (visible[i] != 0)
			status = look_at_range(use, layout, range, lookup->map_lsn, visible[i], verify, lsns,
								   &blocks);
		if (lsns != NULL)
			lsns += pg_popcount64(verify);

		if (status == RANGE_TO_VERIFY)
			lookup->verify[i] = visible[i] & table->ranges[range]->blocks;
		if (status == RANGE_TO_VERIFY && lookup->verify[i] == 0)
			status = RANGE_TO_LOAD;
		if (status == RANGE_TO_LOAD)
		{
			lookup->load[i] = true;
			table->loading[range] = use->began;
			use->loads = true;
		}
		if (status == RANGE_CURRENT && segment != NULL)
		{
			lookup->cached[i] = blocks;
			gpuscan_cache_add_range(segment, table->ranges[range], blocks);
		}
		use->more |= lookup->verify[i] != 0;
		whole &= lookup->cached[i] == visible[i];
		keep &= status == RANGE_UNFIT || (status == RANGE_CURRENT && blocks == visible[i]);
	}
	lookup->whole = whole;
	if (segment != NULL)
		count_answer(&lookup->question, segment);
	if (keep)
		gpuscan_cache_keep_segment(segment, lookup->map_lsn, visible, lookup->cached);
	if (segment != NULL)
		gpuscan_cache_use_segment(use, segment);
}

/* True if nothing but what was answered belongs to the request's input. */
static bool
is_finished(const GpuScanCacheUse *use, const GpuScanCacheQuestion *question)
{
	return question->finish && !use->more && !use->incomplete;
}

bool
gpuscan_cache_lookup(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, const XLogRecPtr *lsns)
{
	uint32 layout = lookup->question.layout;
	Table *table = gpuscan_cache_question(use, &lookup->question, 1);
	Segment *segment;

	if (table == NULL)
		return false;
	count_nothing(&lookup->question);
	use->more = lookup->question.more;
	segment = gpuscan_cache_find_segment(table, lookup->question.map_page, use->columns[layout],
										 use->program->ninputs);
	if (lsns == NULL && segment != NULL && is_answer(segment, lookup->map_lsn, lookup->visible))
		answer_from_segment(use, lookup, segment);
	else
	{
		if (lsns == NULL)
			use->reloads_left += GPUSCAN_MAP_RANGES / 8;
		look_at_ranges(use, lookup, lsns);
	}
	use->incomplete |= lookup->question.loose || !lookup->whole;
	lookup->question.finished = is_finished(use, &lookup->question);
	return true;
}

bool
gpuscan_cache_survey(GpuScanCacheUse *use, GpuScanCacheSurvey *survey, uint32 npages)
{
	const GpuScanCacheQuestion question = survey->question;
	Table *table = gpuscan_cache_question(use, &question, npages);

	if (table == NULL)
		return false;
	count_nothing(&survey->question);
	use->more = question.more;
	for (uint32 i = 0; i < npages; i++)
	{
		GpuScanCacheMapPage *page = &survey->pages[i];
		uint32 nblocks = page->nblocks;
		Segment *segment = NULL;

		if (nblocks > 0)
			segment = gpuscan_cache_find_segment(
				table, question.map_page + i, use->columns[question.layout], use->program->ninputs);
		page->cached =
			segment != NULL && segment->map_lsn == page->map_lsn && segment->nblocks == nblocks;
		use->more |= !page->cached;
		use->incomplete |= !page->cached;
		if (!page->cached && !use->program->aggregate)
			break;
		if (!page->cached)
			continue;
		count_answer(&survey->question, segment);
		if (!use->background)
			gpuscan_cache_use_segment(use, segment);
	}
	survey->question.finished = is_finished(use, &question);
	return true;
}

uint32
gpuscan_cache_take_answers(GpuScanCacheUse *use, bool all, GpuScanCachedSegment *const **segments)
{
	uint32 n = all || !use->more ? use->nanswers : 0;

	*segments = use->answers;
	use->nanswers -= n;
	return n;
}
