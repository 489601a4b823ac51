/*-------------------------------------------------------------------------
 *
 * cache_lookup.c
 *	  What the cache answers of a relation's blocks, by what a backend read of the
 *	  visibility map; heap/README.md has the argument.
 *
 * A survey is answered from kept segments alone.  So is each piece of a map page that is looked up, if there
 * is one for the very LSN and bits; else each of the piece's ranges is looked at, and what that
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

/* True if the segment is the answer to what the map said of its piece. */
static bool
is_answer(const Segment *segment, XLogRecPtr map_lsn, const uint64 *visible)
{
	if (segment->map_lsn != map_lsn ||
		memcmp(segment->visible, visible, segment->nwords * sizeof(uint64)) != 0)
		return false;
	for (uint32 i = segment->nwords; i < gpuscan_piece_ranges(segment->piece); i++)
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

/* Answers a piece from a kept segment; true if all that is all-visible is cached. */
static bool
answer_from_segment(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, Segment *segment)
{
	Size size = segment->nwords * sizeof(uint64);
	bool whole = memcmp(segment->blocks, segment->visible, size) == 0;

	count_answer(&lookup->question, segment);
	if (!whole)
	{
		uint32 first = gpuscan_piece_first_range(segment->piece);
		uint32 n = gpuscan_piece_ranges(segment->piece);

		memset(&lookup->verify[first], 0, n * sizeof(lookup->verify[0]));
		memset(&lookup->load[first], 0, n * sizeof(lookup->load[0]));
		memset(&lookup->cached[first], 0, n * sizeof(lookup->cached[0]));
		memcpy(&lookup->cached[first], segment->blocks, size);
	}
	if (!use->background)
		gpuscan_cache_use_segment(use, segment);
	return whole;
}

/* Answers a piece range by range; the same. */
static bool
look_at_ranges(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, uint32 piece,
			   const XLogRecPtr *lsns)
{
	uint32 layout = lookup->question.layout;
	uint32 map_page = lookup->question.map_page;
	uint32 first = gpuscan_piece_first_range(piece);
	uint32 n = gpuscan_piece_ranges(piece);
	Table *table = use->tables[layout];
	uint64 visible[GPUSCAN_MAP_RANGES];
	bool keep = lsns == NULL && !use->background;
	bool whole = lsns == NULL;
	Segment *segment = NULL;
	uint32 max = 0;

	memcpy(visible, &lookup->visible[first], n * sizeof(uint64));
	for (uint32 i = 0; i < n; i++)
		max += visible[i] != 0;
	if (!use->background)
		segment = gpuscan_cache_create_segment(use, layout, map_page, piece, max);
	for (uint32 i = 0; i < n; i++)
	{
		uint32 at = first + i;
		uint32 range = map_page * GPUSCAN_MAP_RANGES + at;
		uint64 verify = lookup->verify[at];
		RangeStatus status = RANGE_UNFIT;
		uint64 blocks = 0;

		/* The second time only what has been verified is new. */
		if (lsns != NULL && verify == 0)
			continue;
		lookup->verify[at] = 0;
		lookup->cached[at] = 0;
		lookup->load[at] = false;
		if (visible[i] != 0)
			status = look_at_range(use, layout, range, lookup->map_lsn, visible[i], verify, lsns,
								   &blocks);
		if (lsns != NULL)
			lsns += pg_popcount64(verify);

		if (status == RANGE_TO_VERIFY)
			lookup->verify[at] = visible[i] & table->ranges[range]->blocks;
		if (status == RANGE_TO_VERIFY && lookup->verify[at] == 0)
			status = RANGE_TO_LOAD;
		if (status == RANGE_TO_LOAD)
		{
			lookup->load[at] = true;
			table->loading[range] = use->began;
			use->loads = true;
		}
		if (status == RANGE_CURRENT && segment != NULL)
		{
			lookup->cached[at] = blocks;
			gpuscan_cache_add_range(segment, table->ranges[range], blocks);
		}
		use->more |= lookup->verify[at] != 0;
		whole &= lookup->cached[at] == visible[i];
		keep &= status == RANGE_UNFIT || (status == RANGE_CURRENT && blocks == visible[i]);
	}
	if (segment != NULL)
		count_answer(&lookup->question, segment);
	if (keep)
		gpuscan_cache_keep_segment(segment, lookup->map_lsn, visible, &lookup->cached[first]);
	if (segment != NULL)
		gpuscan_cache_use_segment(use, segment);
	return whole;
}

/* Answers a piece; the same. */
static bool
look_up_piece(GpuScanCacheUse *use, GpuScanCacheLookup *lookup, uint32 piece)
{
	uint32 layout = lookup->question.layout;
	Segment *segment =
		gpuscan_cache_find_segment(use->tables[layout], lookup->question.map_page, piece,
								   use->columns[layout], use->program->ninputs);

	if (segment != NULL &&
		is_answer(segment, lookup->map_lsn, &lookup->visible[gpuscan_piece_first_range(piece)]))
		return answer_from_segment(use, lookup, segment);
	use->reloads_left += gpuscan_piece_ranges(piece) / 8;
	return look_at_ranges(use, lookup, piece, NULL);
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
	bool whole = true;

	if (gpuscan_cache_question(use, &lookup->question, 1) == NULL)
		return false;
	count_nothing(&lookup->question);
	use->more = lookup->question.more;
	if (lsns != NULL)
		whole = look_at_ranges(use, lookup, 0, lsns);
	else if (gpuscan_cache_count_first_blocks(lookup->visible, GPUSCAN_MAP_RANGES) > 0)
	{
		whole = look_up_piece(use, lookup, 0);
		memset(lookup->whole, whole, sizeof(lookup->whole));
	}
	else
	{
		for (uint32 piece = 1; piece < GPUSCAN_PIECES; piece++)
		{
			lookup->whole[piece - 1] = look_up_piece(use, lookup, piece);
			whole &= lookup->whole[piece - 1];
		}
	}
	use->incomplete |= lookup->question.loose || !whole;
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
			segment =
				gpuscan_cache_find_segment(table, question.map_page + i, 0,
										   use->columns[question.layout], use->program->ninputs);
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
