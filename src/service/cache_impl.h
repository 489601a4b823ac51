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
	uint16 attnum; /* from 0 */
	uint16 decode;
	uint16 scale;
	GpuScanClass cls;
	uint64 layout_hash; /* of what else decoding depends on */
	GpuScanDictionary *dictionary;
	uint64 dictionary_size; /* as it is counted */
	uint32 nchunks;
	uint32 nslots;
	Chunk **chunks; /* of each range below nslots, or NULL, or UNFIT */
	uint64 used;	/* when, by the clock of requests */
	uint64 hits;
	uint64 bytes;
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
	List *segments;					   /* GpuScanCachedSegment that the device was given */
	Chunk **pinned;
	uint32 npinned;
	uint32 max_pinned;
	uint32 reloads_left;
	bool loads;		 /* ranges are marked as loading */
	bool background; /* its backend only loads */
};

/* cache.c: of all that is cached; and TableEntry by TableKey */
extern MemoryContext gpuscan_cache_context;
extern HTAB *gpuscan_cache_tables;

/* cache_memory.c: the bytes of chunks, dictionaries and states of ranges */
extern uint64 gpuscan_cache_bytes;

/* Instead of a chunk: a value of the range cannot be cached. */
extern Chunk gpuscan_cache_unfit;
#define UNFIT (&gpuscan_cache_unfit)

static inline Chunk *
get_chunk(const Column *column, uint32 range)
{
	return range < column->nslots ? column->chunks[range] : NULL;
}

extern void gpuscan_cache_put_chunk(Column *column, uint32 range, Chunk *chunk);
extern void gpuscan_cache_drop_chunk(Column *column, uint32 range);
extern void gpuscan_cache_unpin_chunk(const GpuScanOpenDevice *device, Chunk *chunk);

/* Counts a dictionary's bytes as they are now. */
extern void gpuscan_cache_count_dictionary(Column *column);
extern void gpuscan_cache_free_dictionary(Column *column);

/*
 * Makes room at the cost of columns not used since the request began, or of none
 * if nobody waits for it.  False: there is none.
 */
extern bool gpuscan_cache_make_room(const GpuScanCacheUse *use, uint64 bytes);

/*
 * Whether ranges that are missing may be loaded with nobody waiting for them.  Not
 * to the last byte, or what does not fit would be read again and again.
 */
extern bool gpuscan_cache_has_spare_room(void);

#endif /* GPUSCAN_CACHE_IMPL_H */
