/*-------------------------------------------------------------------------
 *
 * cache_kept.c
 *	  Loose pages that devices keep in memory of their own.
 *
 * What a session has found out about a loose page often holds for as long as the page's
 * LSN stays (invariant 9 in heap/README.md).  Then the page itself need not cross the
 * bus each time.  The first batch that has it leaves a copy on the device, with the numbers of the
 * visible line pointers; a later one names the copy and the LSN, and the backend has
 * not even pinned the page.
 *
 * A copy is taken over when the backend has confirmed that it had the page pinned until
 * the batch was done, as columns are (channel.h).  There is one of a block: of the latest LSN
 * that came.  Copies that have not been used for long make room for others; those that
 * batches under way use are pinned.  What a device has once made room for stays until the service ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "service/cache_impl.h"
#include "utils/memutils.h"

/* Pages of a device, at most, and so many are made room for at a time */
#define MAX_KEPT 32768
#define PIECE 256
#define MAX_PIECES (GPUSCAN_MAX_DEVICE_ENTRIES * MAX_KEPT / PIECE)

/* Of a device's room for columns, what pages may take */
#define SHARE 16

/*
 * A page stays that one of so many requests before has used: who needs more than there is
 * room for would else drive out what he needs next, and find none.
 */
#define RECENT_REQUESTS 64

typedef enum KeptState
{
	KEPT_FREE,
	KEPT_NEW, /* the device is to make the copy */
	KEPT_THERE,
	KEPT_OLD /* there is another one */
} KeptState;

typedef struct Kept
{
	dlist_node node; /* of `free`, or, if it is there and nobody uses it, of `idle` */
	KeptState state;
	uint32 number;
	Table *table;
	BlockNumber block;
	uint32 ntuples;
	XLogRecPtr lsn;
	uint64 place;
	const GpuScanOpenDevice *device;
	uint32 pins;
	uint64 used; /* when, by the clock of requests */
} Kept;

/* Of a device */
typedef struct KeptPages
{
	dlist_head free;
	dlist_head idle; /* the one that was used last comes last */
	uint32 nplaces;
} KeptPages;

typedef struct KeptName
{
	Table *table;
	BlockNumber block;
} KeptName;

typedef struct KeptEntry
{
	KeptName name;
	Kept *kept;
	char status;
} KeptEntry;

#define SH_PREFIX kept
#define SH_ELEMENT_TYPE KeptEntry
#define SH_KEY_TYPE KeptName
#define SH_KEY name
#define SH_HASH_KEY(tb, key)                                                                       \
	hash_combine(murmurhash32((uint32) (uintptr_t) (key).table), murmurhash32((key).block))
#define SH_EQUAL(tb, a, b) ((a).table == (b).table && (a).block == (b).block)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static Kept *pieces[MAX_PIECES]; /* of PIECE; number n is the n-th, from 1 */
static uint32 nall = 0;
static KeptPages devices[GPUSCAN_MAX_DEVICE_ENTRIES];
static kept_hash *there = NULL; /* those that are KEPT_THERE */

static Kept *
get(uint32 number)
{
	return &pieces[(number - 1) / PIECE][(number - 1) % PIECE];
}

static KeptPages *
pages_of(const GpuScanOpenDevice *device)
{
	return &devices[device->entry - gpuscan_shared->devices];
}

static void
forget(Kept *kept)
{
	Assert(kept->pins == 0);
	if (kept->state == KEPT_THERE)
	{
		kept_delete(there, (KeptName){.table = kept->table, .block = kept->block});
		dlist_delete(&kept->node);
	}
	kept->state = KEPT_FREE;
	kept->table->nkept--;
	kept->table = NULL;
	dlist_push_head(&pages_of(kept->device)->free, &kept->node);
}

/* Makes places on a device, if there may be more. */
static void
make_places(const GpuScanOpenDevice *device)
{
	KeptPages *pages = pages_of(device);
	uint64 limit = gpuscan_cache_columns_limit(device, false) / SHARE;
	uint64 places[PIECE];
	Kept *piece;
	uint64 size;

	if (pages->nplaces + PIECE > MAX_KEPT || (uint64) (pages->nplaces + PIECE) * BLCKSZ > limit)
		return;
	size = device->ops->keep_pages(device->device, PIECE, BLCKSZ, places);
	if (size == 0)
		return;
	gpuscan_cache_count_kept(device, size);
	if (there == NULL)
		there = kept_create(gpuscan_cache_context, 1024, NULL);
	piece = MemoryContextAllocZero(gpuscan_cache_context, PIECE * sizeof(Kept));
	pieces[nall / PIECE] = piece;
	for (int i = 0; i < PIECE; i++)
	{
		piece[i] = (Kept){.number = ++nall, .device = device, .place = places[i]};
		dlist_push_tail(&pages->free, &piece[i].node);
	}
	pages->nplaces += PIECE;
}

/* A place on the request's device that is free, or can be; NULL: there is none. */
static Kept *
take_place(const GpuScanCacheUse *use)
{
	KeptPages *pages = pages_of(use->device);

	if (dlist_is_empty(&pages->free))
		make_places(use->device);
	if (dlist_is_empty(&pages->free) && !dlist_is_empty(&pages->idle))
	{
		Kept *oldest = dlist_head_element(Kept, node, &pages->idle);

		if (oldest->used + RECENT_REQUESTS < use->began)
			forget(oldest);
	}
	return dlist_is_empty(&pages->free)
			   ? NULL
			   : dlist_container(Kept, node, dlist_pop_head_node(&pages->free));
}

static Kept *
find(const GpuScanCacheUse *use, uint32 layout, const GpuScanKeptPage *page)
{
	Table *table = layout < use->nlayouts ? use->tables[layout] : NULL;
	Kept *kept = page->number >= 1 && page->number <= nall ? get(page->number) : NULL;

	/* another device has numbers of its own */
	if (kept == NULL || kept->state != KEPT_THERE || kept->table != table ||
		kept->block != page->block)
	{
		KeptName name = {.table = table, .block = page->block};
		KeptEntry *entry = there != NULL && table != NULL ? kept_lookup(there, name) : NULL;

		kept = entry != NULL ? entry->kept : NULL;
	}
	return kept != NULL && kept->lsn == page->lsn && kept->ntuples == page->ntuples ? kept : NULL;
}

uint64
gpuscan_cache_use_kept(const GpuScanCacheUse *use, uint32 layout, GpuScanKeptPage *page)
{
	Kept *kept = find(use, layout, page);

	if (kept == NULL)
		return 0;
	if (kept->pins++ == 0)
		dlist_delete(&kept->node);
	kept->used = Max(kept->used, use->began);
	page->number = kept->number;
	return kept->place;
}

uint64
gpuscan_cache_begin_keep(const GpuScanCacheUse *use, uint32 layout, GpuScanKeptPage *page)
{
	Table *table = use->tables[layout];
	Kept *kept;

	if (table == NULL || table->dead || use->background || use->device->ops->keep_pages == NULL)
		return 0;
	kept = find(use, layout, page);
	if (kept != NULL)
	{
		page->number = kept->number;
		return 0;
	}
	kept = take_place(use);
	if (kept == NULL)
		return 0;
	table->nkept++;
	kept->state = KEPT_NEW;
	kept->table = table;
	kept->block = page->block;
	kept->lsn = page->lsn;
	kept->ntuples = page->ntuples;
	kept->used = use->began;
	kept->pins = 1;
	page->number = kept->number;
	return kept->place;
}

/* A copy is there now, in place of an older one; another batch may have brought the same, or a newer one. */
static void
put(Kept *kept)
{
	KeptName name = {.table = kept->table, .block = kept->block};
	bool exists;
	KeptEntry *entry = kept_insert(there, name, &exists);
	Kept *old = exists ? entry->kept : NULL;

	if (exists && old->lsn >= kept->lsn)
	{
		forget(kept);
		return;
	}
	entry->kept = kept;
	kept->state = KEPT_THERE;
	dlist_push_tail(&pages_of(kept->device)->idle, &kept->node);
	if (!exists)
		return;
	old->state = KEPT_OLD;
	if (old->pins > 0)
		return;
	dlist_delete(&old->node);
	forget(old);
}

void
gpuscan_cache_end_kept(uint32 number, bool good)
{
	Kept *kept = get(number);

	if (--kept->pins > 0)
		return;
	if (kept->state == KEPT_THERE)
		dlist_push_tail(&pages_of(kept->device)->idle, &kept->node);
	else if (kept->state == KEPT_NEW && good && !kept->table->dead)
		put(kept);
	else
		forget(kept);
}

void
gpuscan_cache_forget_kept(Table *table)
{
	for (uint32 i = 1; i <= nall && table->nkept > 0; i++)
	{
		Kept *kept = get(i);

		if (kept->state != KEPT_FREE && kept->table == table)
			forget(kept);
	}
}
