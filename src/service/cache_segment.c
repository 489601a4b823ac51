/*-------------------------------------------------------------------------
 *
 * cache_segment.c
 *	  Segments: what the device is given of a map page, kept for later requests.
 *
 * A segment describes the ranges of one page of the visibility map, or of a piece of it, to the device,
 * with the columns of a Program in its order.  One that is kept also knows for what LSN and bits
 * of the map page it is the answer, so that a request with the same columns, which
 * finds the piece as it was, need not look at its ranges.
 *
 * A write clears a bit.  So that beside writers not all of a page's ranges have to be looked at
 * again, it is cut into pieces while it has loose blocks; while it has none, as most
 * pages of most tables, it is one piece.
 *
 *	 valid		in its piece's list, for others to find; there is one of each list of columns
 *	 not valid	of its user alone; freed when it is released
 *
 * It is valid from keep_segment until anything of the piece's ranges changes in the directory,
 * which says so beforehand (range_changes).  It has its own copy of what it says
 * of the ranges, and its chunks are pinned; so whoever uses it goes on with what was
 * true when he asked.
 *
 * Valid segments that nobody uses, the longest unused first, are freed when all segments
 * take more than a part of the cache's memory.  They never keep a chunk from being
 * dropped: dropping is a change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "service/cache_impl.h"
#include "utils/memutils.h"

/* Of the cache's memory, what segments may take while nobody uses them */
#define SEGMENTS_SHARE 16

static dlist_head idle_segments = DLIST_STATIC_INIT(idle_segments);
static uint64 segments_bytes = 0;

static void
free_segment(Segment *segment)
{
	const GpuScanOpenDevice *device = segment->table->key.device;

	if (device->ops->forget_segment != NULL)
		device->ops->forget_segment(device->device, &segment->cached);
	for (uint32 i = 0; i < segment->nchunks; i++)
		gpuscan_cache_unpin_chunk(device, segment->chunks[i]);
	segments_bytes -= segment->size;
	gpuscan_cache_count_overhead(device, -(int64) segment->size);
	MemoryContextDelete(segment->context);
}

static slist_head *
kept_of(Table *table, uint32 map_page, uint32 piece)
{
	return &table->kept[map_page * GPUSCAN_PIECES + piece];
}

static void
invalidate(Segment *segment)
{
	slist_delete(kept_of(segment->table, segment->map_page, segment->piece), &segment->of_piece);
	segment->valid = false;
	if (segment->users == 0)
	{
		dlist_delete(&segment->idle);
		free_segment(segment);
	}
}

static void
invalidate_all(slist_head *kept)
{
	while (!slist_is_empty(kept))
		invalidate(slist_head_element(Segment, of_piece, kept));
}

void
gpuscan_cache_range_changes(Table *table, uint32 range)
{
	uint32 map_page = range / GPUSCAN_MAP_RANGES;

	invalidate_all(kept_of(table, map_page, 0));
	invalidate_all(kept_of(table, map_page, 1 + range % GPUSCAN_MAP_RANGES / GPUSCAN_PIECE_RANGES));
}

Segment *
gpuscan_cache_find_segment(Table *table, uint32 map_page, uint32 piece, Column *const *columns,
						   int ncolumns)
{
	slist_iter iter;

	slist_foreach(iter, kept_of(table, map_page, piece))
	{
		Segment *segment = slist_container(Segment, of_piece, iter.cur);

		if (segment->ncolumns == ncolumns &&
			memcmp(segment->columns, columns, ncolumns * sizeof(Column *)) == 0)
			return segment;
	}
	return NULL;
}

Segment *
gpuscan_cache_create_segment(GpuScanCacheUse *use, uint32 layout, uint32 map_page, uint32 piece,
							 uint32 nranges)
{
	MemoryContext context = AllocSetContextCreate(gpuscan_cache_context, "gpuscan cached segment",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Segment *segment = palloc0(sizeof(Segment));
	int n = use->program->ninputs;
	int max = Max(n, 1);

	segment->context = context;
	segment->table = use->tables[layout];
	segment->map_page = map_page;
	segment->piece = piece;
	segment->ncolumns = n;
	segment->columns = palloc(max * sizeof(Column *));
	memcpy(segment->columns, use->columns[layout], n * sizeof(Column *));
	segment->dictionaries = palloc(max * sizeof(GpuScanDictionary *));
	memcpy(segment->dictionaries, use->dictionaries[layout], n * sizeof(GpuScanDictionary *));
	segment->chunks = palloc(Max(nranges, 1) * max * sizeof(Chunk *));
	segment->ranges = palloc(Max(nranges, 1) * sizeof(GpuScanCachedRange));
	segment->cached.map_page = map_page;
	segment->cached.ranges = segment->ranges;
	MemoryContextSwitchTo(old);
	return segment;
}

void
gpuscan_cache_add_range(Segment *segment, const GpuScanRangeState *state, uint64 blocks)
{
	int n = segment->ncolumns;
	GpuScanRows runs[GPUSCAN_RANGE_BLOCKS];
	uint16 ends[GPUSCAN_RANGE_BLOCKS];
	const GpuScanChunk **chunks;
	GpuScanRows *copy;
	uint16 *copied_ends;
	uint32 nruns = 0;
	uint32 row = 0;

	for (int i = 0; i < GPUSCAN_RANGE_BLOCKS; i++)
	{
		/* blocks that were taken out of the state have their tuples in the chunks too */
		uint32 ntuples = state->ntuples[i];

		if (ntuples > 0 && (blocks & (UINT64CONST(1) << i)) != 0)
		{
			if (nruns > 0 && runs[nruns - 1].first + runs[nruns - 1].n == (int) row)
				runs[nruns - 1].n += ntuples;
			else
				runs[nruns++] = (GpuScanRows){row, ntuples};
			segment->ntuples += ntuples;
		}
		row += ntuples;
		ends[i] = row;
	}
	if (nruns == 0)
		return;

	chunks = MemoryContextAlloc(segment->context, Max(n, 1) * sizeof(GpuScanChunk *));
	for (int i = 0; i < n; i++)
	{
		Chunk *chunk = get_chunk(segment->columns[i], state->range);

		chunk->pins++;
		chunks[i] = chunk->chunk;
		segment->chunks[segment->nchunks++] = chunk;
	}
	gpuscan_cache_count_blocks(segment->table->key.device, chunks, n, pg_popcount64(blocks),
							   segment->in_tier);
	copy = MemoryContextAlloc(segment->context, nruns * sizeof(GpuScanRows));
	memcpy(copy, runs, nruns * sizeof(GpuScanRows));
	copied_ends = MemoryContextAlloc(segment->context, sizeof(ends));
	memcpy(copied_ends, ends, sizeof(ends));
	segment->ranges[segment->cached.nranges++] = (GpuScanCachedRange){
		.number = state->range % GPUSCAN_MAP_RANGES,
		.nruns = nruns,
		.nblocks = pg_popcount64(blocks),
		.ends = copied_ends,
		.runs = copy,
		.chunks = chunks,
		.dictionaries = segment->dictionaries,
	};
}

uint32
gpuscan_cache_count_first_blocks(const uint64 *blocks, uint32 nwords)
{
	uint32 n = 0;

	for (uint32 i = 0; i < nwords; i++)
	{
		/* none behind the first that is missing, of this range or one before */
		if ((blocks[i] & (blocks[i] + 1)) != 0 || (blocks[i] != 0 && n != i * GPUSCAN_RANGE_BLOCKS))
			return 0;
		n += pg_popcount64(blocks[i]);
	}
	return n;
}

void
gpuscan_cache_keep_segment(Segment *segment, uint64 map_lsn, const uint64 *visible,
						   const uint64 *blocks)
{
	Table *table = segment->table;
	Segment *older = gpuscan_cache_find_segment(table, segment->map_page, segment->piece,
												segment->columns, segment->ncolumns);
	uint32 n = gpuscan_piece_ranges(segment->piece);

	while (n > 0 && visible[n - 1] == 0)
		n--;
	segment->map_lsn = map_lsn;
	segment->nwords = n;
	segment->visible = MemoryContextAlloc(segment->context, 2 * Max(n, 1) * sizeof(uint64));
	segment->blocks = segment->visible + n;
	memcpy(segment->visible, visible, n * sizeof(uint64));
	memcpy(segment->blocks, blocks, n * sizeof(uint64));
	segment->nblocks = segment->piece == 0 ? gpuscan_cache_count_first_blocks(blocks, n) : 0;
	if (older != NULL)
		invalidate(older);
	slist_push_head(kept_of(table, segment->map_page, segment->piece), &segment->of_piece);
	segment->valid = true;
}

void
gpuscan_cache_use_segment(GpuScanCacheUse *use, Segment *segment)
{
	MemoryContext old = MemoryContextSwitchTo(use->context);

	if (segment->size == 0)
	{
		/* new */
		segment->size = MemoryContextMemAllocated(segment->context, false);
		segments_bytes += segment->size;
		gpuscan_cache_count_overhead(use->device, segment->size);
	}
	else if (segment->users == 0)
		dlist_delete(&segment->idle);
	segment->users++;
	use->segments = lappend(use->segments, segment);
	for (int i = 0; i < segment->ncolumns; i++)
		segment->columns[i]->hits += segment->cached.nranges;
	if (segment->cached.nranges > 0)
	{
		if (use->nanswers == use->max_answers)
		{
			Size size;

			use->max_answers = Max(use->max_answers * 2, 32);
			size = use->max_answers * sizeof(GpuScanCachedSegment *);
			use->answers = use->answers == NULL ? palloc(size) : repalloc(use->answers, size);
		}
		use->answers[use->nanswers++] = &segment->cached;
	}
	MemoryContextSwitchTo(old);
}

static void
release_segment(Segment *segment)
{
	if (--segment->users > 0)
		return;
	if (!segment->valid)
	{
		free_segment(segment);
		return;
	}
	dlist_push_tail(&idle_segments, &segment->idle);
	while (segments_bytes > gpuscan_cache_overhead_limit() / SEGMENTS_SHARE &&
		   !dlist_is_empty(&idle_segments))
		invalidate(dlist_head_element(Segment, idle, &idle_segments));
}

void
gpuscan_cache_end_answers(GpuScanCacheUse *use)
{
	ListCell *lc;

	foreach(lc, use->segments)
		release_segment(lfirst(lc));
	list_free(use->segments);
	use->segments = NIL;
}
