/*-------------------------------------------------------------------------
 *
 * cache_impl.h
 *	  What the files of the directory of cached columns share; see cache.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CACHE_IMPL_H
#define GPUSCAN_CACHE_IMPL_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "service/cache.h"
#include "utils/hsearch.h"

#define TIERS (GPUSCAN_TIER_HOST + 1)

typedef struct Chunk
{
	GpuScanChunk *chunk;
	uint32 pins;
	bool dropped;
} Chunk;

typedef struct Column
{
	slist_node node;
	struct Table *table;
	uint16 attnum; /* from 0; of an expression 0 */
	bool is_expression;
	uint16 decode;
	uint16 scale;
	GpuScanClass cls;
	uint64 layout_hash; /* of what else decoding depends on, if it is an attribute */
	GpuScanExpression expression;
	GpuScanDictionary *dictionary;
	uint64 dictionary_size; /* as it is counted */
	uint32 nchunks;
	uint32 nslots;
	Chunk **chunks;		 /* of each range below nslots, or NULL, or UNFIT */
	uint64 bytes[TIERS]; /* of chunks there */
	uint32 ends[TIERS];	 /* no chunk of this range or one above lies there */
	uint32 swaps;		 /* chunks that may drive others out of device memory before the next use */
	uint32 users;		 /* requests */
	uint64 used;		 /* when, by the clock of requests */
	uint64 hits;
} Column;

/* A relation's file on a device, which has columns of its own */
typedef struct TableKey
{
	GpuScanCacheName name;
	const GpuScanOpenDevice *device;
} TableKey;

typedef struct Table
{
	TableKey key;
	slist_head columns;
	uint32 nranges;
	GpuScanRangeState **ranges; /* or NULL */
	uint64 *loading;			/* the request that loads the range, or 0 */
	slist_head *kept;			/* of each map page, of each piece, segments that are valid */
	uint32 nkept;				/* loose pages that the device keeps */
	uint32 pins;
	bool pinned; /* its columns are not dropped for others */
	bool loose;	 /* it had blocks that were not all-visible when we were asked last */
	bool dead;
} Table;

typedef struct TableEntry
{
	TableKey key;
	Table *table;
} TableEntry;

/* Ranges of which a request loads again what has changed: these, and an eighth of all. */
#define GPUSCAN_MIN_RELOADS 16

/*
 * The pieces of a map page that segments are of: 0 is the whole page; where that has loose
 * blocks, so that it will change again, it is cut into others.
 */
#define GPUSCAN_PIECES (1 + GPUSCAN_MAP_PIECES)

static inline uint32
gpuscan_piece_first_range(uint32 piece)
{
	return piece == 0 ? 0 : (piece - 1) * GPUSCAN_PIECE_RANGES;
}

static inline uint32
gpuscan_piece_ranges(uint32 piece)
{
	return piece == 0
			   ? GPUSCAN_MAP_RANGES
			   : Min(GPUSCAN_MAP_RANGES - gpuscan_piece_first_range(piece), GPUSCAN_PIECE_RANGES);
}

struct GpuScanCacheUse
{
	MemoryContext context;
	const GpuScanOpenDevice *device;
	const GpuScanProgram *program;
	const GpuScanLayout *const *layouts;
	uint32 nlayouts;
	uint64 began;					   /* by the clock of requests */
	Table **tables;					   /* of each layout, pinned, or NULL */
	Column ***columns;				   /* of each layout and input */
	GpuScanDictionary ***dictionaries; /* the same */
	List *segments;					   /* Segments that it uses */
	GpuScanCachedSegment **answers;	   /* of those, that the device has not been given yet */
	uint32 nanswers;
	uint32 max_answers;
	uint32 reloads_left;
	bool knows_room; /* may_load has been found out */
	bool may_load;
	uint32 nfills;	 /* batches under way that fill */
	bool more;		 /* other answers will follow */
	bool incomplete; /* blocks are to be read besides */
	bool loads;		 /* ranges are marked as loading */
	bool background; /* its backend only loads */
};

/*
 * Ranges of a piece of a map page with the columns of a Program, cache_segment.c.  Chunks
 * are pinned as long as it exists.
 */
typedef struct Segment
{
	GpuScanCachedSegment cached; /* what the device gets */
	MemoryContext context;		 /* all of it */
	Table *table;
	uint32 map_page;
	uint32 piece;
	slist_node of_piece; /* while it is valid */
	dlist_node idle;	 /* while it is valid and nobody uses it */
	bool valid;
	uint32 users; /* requests */
	uint64 size;  /* as it is counted */
	uint64 map_lsn;
	uint64 ntuples;
	uint32 in_tier[TIERS]; /* as in GpuScanCacheQuestion */
	uint32 nblocks;		   /* if they are all that a relation of so many has there; else 0 */
	uint32 nwords;		   /* of: */
	uint64 *visible; /* what the map said, by range of the piece, up to the last that is not 0 */
	uint64 *blocks;	 /* those that are answered */
	int ncolumns;
	Column **columns;
	const GpuScanDictionary **dictionaries;
	uint32 nchunks;
	Chunk **chunks;
	GpuScanCachedRange *ranges;
} Segment;

/* cache_kept.c: when a table is freed */
extern void gpuscan_cache_forget_kept(Table *table);

/* cache.c: of all that is cached; and TableEntry by TableKey */
extern MemoryContext gpuscan_cache_context;
extern HTAB *gpuscan_cache_tables;

/*
 * The table of a question, with room for so many pages of the map; pinned at the
 * first question.  NULL: the question is not well formed.
 */
extern Table *
gpuscan_cache_question(GpuScanCacheUse *use, const GpuScanCacheQuestion *question, uint32 npages);

/* coverage.c */

/*
 * Counts a range that has come (1) or gone (-1), of a column by its number for planners, or, with
 * 0, of the table.
 */
extern void gpuscan_cache_count_range(const Table *table, int number, int change);
extern void gpuscan_cache_clear_coverage(void);

/* cache_segment.c */

/* To be called before anything that is known of a range changes, or a chunk of it moves. */
extern void gpuscan_cache_range_changes(Table *table, uint32 range);

/* The kept segment of a piece of a map page with those columns, or NULL. */
extern Segment *gpuscan_cache_find_segment(Table *table, uint32 map_page, uint32 piece,
										   Column *const *columns, int ncolumns);

/* A new segment, for at most so many ranges; used by the request, kept for others with keep. */
extern Segment *gpuscan_cache_create_segment(GpuScanCacheUse *use, uint32 layout, uint32 map_page,
											 uint32 piece, uint32 nranges);
extern void
gpuscan_cache_add_range(Segment *segment, const GpuScanRangeState *state, uint64 blocks);
extern void gpuscan_cache_keep_segment(Segment *segment, uint64 map_lsn, const uint64 *visible,
									   const uint64 *blocks);

/* If the blocks are the first ones of a map page, how many; else 0. */
extern uint32 gpuscan_cache_count_first_blocks(const uint64 *blocks, uint32 nwords);

/* Has the request use it: its answer is given to the device. */
extern void gpuscan_cache_use_segment(GpuScanCacheUse *use, Segment *segment);

/* Instead of a chunk: a value of the range cannot be cached. */
extern Chunk gpuscan_cache_unfit;
#define UNFIT (&gpuscan_cache_unfit)

/* The column's number for planners. */
static inline int
column_number(const Column *column)
{
	return column->is_expression ? gpuscan_expression_number(&column->expression)
								 : column->attnum + 1;
}

static inline Chunk *
get_chunk(const Column *column, uint32 range)
{
	return range < column->nslots ? column->chunks[range] : NULL;
}

static inline uint32
count_tuples(const GpuScanRangeState *state)
{
	uint32 n = 0;

	for (int i = 0; i < GPUSCAN_RANGE_BLOCKS; i++)
		n += state->ntuples[i];
	return n;
}

/* ---- cache_memory.c ---- */

/* All bytes, of every device: those of chunks, dictionaries, states of ranges, and segments */
extern uint64 gpuscan_cache_bytes(void);

/* Of the host's memory, what all but chunks may take; and that it takes more, or less */
extern uint64 gpuscan_cache_overhead_limit(void);
extern void gpuscan_cache_count_overhead(const GpuScanOpenDevice *device, int64 bytes);

/* Pages take more of a device's own memory. */
extern void gpuscan_cache_count_kept(const GpuScanOpenDevice *device, int64 bytes);

/* A new state of a range; NULL: there is no room. */
extern GpuScanRangeState *gpuscan_cache_make_state(const GpuScanCacheUse *use);
extern void gpuscan_cache_free_state(const GpuScanOpenDevice *device, GpuScanRangeState *state);

/* Takes a new chunk, which goes back to the device where there is no room for it. */
extern void gpuscan_cache_put_chunk(const GpuScanCacheUse *use, Column *column, uint32 range,
									GpuScanChunk *made);
extern void gpuscan_cache_put_unfit(Column *column, uint32 range);
extern void gpuscan_cache_drop_chunk(Column *column, uint32 range);
extern void gpuscan_cache_unpin_chunk(const GpuScanOpenDevice *device, Chunk *chunk);

extern void gpuscan_cache_count_dictionary(Column *column); /* as it is now */
extern void gpuscan_cache_free_dictionary(Column *column);

/* Of a column in a tier, with its dictionary */
extern uint64 gpuscan_cache_column_bytes(const Column *column, GpuScanTier tier);

/* Counts blocks by the tier in which their chunks lie. */
extern void
gpuscan_cache_count_blocks(const GpuScanOpenDevice *device, const GpuScanChunk *const *chunks,
						   int nchunks, uint32 nblocks, uint32 *in_tier);

/* A request uses the column, and does not any more. */
extern void gpuscan_cache_use_column(const GpuScanCacheUse *use, Column *column);
extern void gpuscan_cache_release_column(Column *column);

/* Makes room in the device's own memory for the chunks that batches under way will bring. */
extern void gpuscan_cache_expect_chunks(const GpuScanCacheUse *use, Column *const *columns,
										const GpuScanRangeState *state);

/*
 * Whether ranges that are missing are worth loading: there is room, or can be made,
 * though not to the last byte, or what does not fit would be loaded again and again.
 */
extern bool gpuscan_cache_may_load(GpuScanCacheUse *use);

#endif /* GPUSCAN_CACHE_IMPL_H */
