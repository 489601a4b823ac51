/*-------------------------------------------------------------------------
 *
 * cache_message.h
 *	  What a backend and the service say to each other about cached columns.
 *
 * Survey: of many pages of a relation's visibility map, the LSN of each and
 * whether it calls all of its blocks all-visible.  The service answers those pages
 * all of whose blocks it answers from the cache, as it has done before; the others
 * are looked up.
 *
 * Lookup: of one page of the map, its LSN and the blocks that it calls
 * all-visible.  The service answers which of them it answers from
 * the cache, which ranges it would like to get as batches that fill it, and which
 * blocks' page LSNs it has to see first, because the map page's LSN has moved.
 * The backend then asks again with those LSNs, in the order of the blocks.
 *
 * A scan is told, where these questions are answered from the cache, which of the blocks
 * have a row that it may want: a word for each range of the pages asked about, in the order of the
 * question, where LSNs were.  A survey of its is answered up to the first page that is not.
 *
 * Fill: which blocks of which range a batch has, beside others that are loose; or that an expression
 * cannot be evaluated for all of their rows.
 *
 * heap/README.md says why this is enough to know that a block has not changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CACHE_MESSAGE_H
#define GPUSCAN_CACHE_MESSAGE_H

#include "gpuscan.h"

#include "access/xlogdefs.h"
#include "columns/ranges.h"
#include "device/device.h"
#include "storage/relfilenode.h"

/* Which relation's file it is */
typedef struct GpuScanCacheName
{
	RelFileNode node;
	Oid relid;
} GpuScanCacheName;

/* What both questions begin with */
typedef struct GpuScanCacheQuestion
{
	GpuScanCacheName name;
	uint32 layout;	 /* of the relation in the request */
	uint32 map_page; /* the first */
	bool more;		 /* another question follows, whatever the answer is */
	bool finish;	 /* if all is answered there is no other input */
	bool loose;		 /* blocks of the relation are known not to be all-visible, so far */
	bool pinned;	 /* its columns are not dropped for others */

	/* The answer: the input is complete; and of the cached blocks */
	bool finished;
	uint64 ntuples;

	/* and those all of whose columns lie in the device's own memory, and others; 0 if it has none */
	uint32 in_tier[GPUSCAN_TIER_HOST + 1];
} GpuScanCacheQuestion;

typedef struct GpuScanCacheMapPage
{
	XLogRecPtr map_lsn;
	uint32 nblocks; /* that the relation has there, if all of them are all-visible; else 0 */
	bool cached;	/* the answer */
} GpuScanCacheMapPage;

typedef struct GpuScanCacheSurvey
{
	GpuScanCacheQuestion question;
	uint32 npages;
	GpuScanCacheMapPage pages[FLEXIBLE_ARRAY_MEMBER];
} GpuScanCacheSurvey;

/* A map page's ranges are answered in so many pieces: see cache_segment.c */
#define GPUSCAN_PIECE_RANGES 64
#define GPUSCAN_MAP_PIECES ((GPUSCAN_MAP_RANGES + GPUSCAN_PIECE_RANGES - 1) / GPUSCAN_PIECE_RANGES)

typedef struct GpuScanCacheLookup
{
	GpuScanCacheQuestion question;
	bool with_lsns; /* of the blocks of `verify` */
	XLogRecPtr map_lsn;
	uint64 visible[GPUSCAN_MAP_RANGES];

	/* The answer: blocks in none of these are read as usual */
	bool whole[GPUSCAN_MAP_PIECES]; /* all that are all-visible are cached; the rest is not set */
	uint64 verify[GPUSCAN_MAP_RANGES];
	uint64 cached[GPUSCAN_MAP_RANGES];
	bool load[GPUSCAN_MAP_RANGES]; /* the whole range */
} GpuScanCacheLookup;

typedef struct GpuScanCacheFill
{
	uint32 layout;
	bool unfit; /* nothing is kept but that expressions cannot be cached */
	GpuScanRangeState state;
} GpuScanCacheFill;

/* A request of the kind that has no Program, but tells the cache to do something */
typedef enum GpuScanCacheCommandKind
{
	GPUSCAN_CACHE_REPORT, /* the answer's rows are GpuScanCacheRows */
	GPUSCAN_CACHE_EVICT	  /* its row is a uint64, the bytes */
} GpuScanCacheCommandKind;

typedef struct GpuScanCacheCommand
{
	GpuScanCacheCommandKind kind;
	Oid database;
	Oid relid;
} GpuScanCacheCommand;

/* A number of an expression that is no attribute's, in all likelihood another's neither */
static inline int
gpuscan_expression_number(const GpuScanExpression *expression)
{
	uint32 bits;

	memcpy(&bits, expression->identity, sizeof(bits));
	return -1 - (int) (bits >> 1);
}

/* A column */
typedef struct GpuScanCacheRow
{
	Oid database;
	Oid relid;
	int attnum;								/* 0: it is an expression */
	int ranges[GPUSCAN_ENCODING_CODES + 1]; /* of each encoding */
	uint32 device;							/* of those of the server */
	int64 blocks;
	int64 device_bytes; /* in the device's own memory, and in the host's */
	int64 host_bytes;
	int64 hits;	 /* ranges that it answered */
	uint64 used; /* the greater, the later */
	bool pinned;
	bool loose; /* the relation had blocks that were not all-visible when it was read last */
	GpuScanExpression expression;
} GpuScanCacheRow;

/* That are reported, at most */
#define GPUSCAN_CACHE_MAX_ROWS 5000

#endif /* GPUSCAN_CACHE_MESSAGE_H */
