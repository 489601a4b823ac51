/*-------------------------------------------------------------------------
 *
 * loose.c
 *	  Which tuples of a loose page a snapshot sees.
 *
 * Most tuples of a page that somebody has written to are as old as ever, which
 * their hint bits and the snapshot's xmin tell.  So does the fate of a tuple whose inserter
 * has aborted, or whose deleter has committed, long ago.  Any other tuple is
 * HeapTupleSatisfiesVisibility()'s.
 *
 * Where that was so for all tuples of a page, no later snapshot sees anything else of it
 * as long as its LSN is the same: invariant 9 in README.md.  Dashboards ask again and
 * again beside writers, and looking at a hundred tuple headers costs as many cache
 * misses.  So a session remembers what it saw of some thousand pages, and in which
 * buffers they were, in memory of its own that lives as long as the session.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/loose.h"

#include "access/heapam.h"
#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* Pages that are remembered, at most; beyond that all are forgotten */
#define MAX_REMEMBERED 32768

typedef struct PageName
{
	RelFileNode node;
	BlockNumber block;
} PageName;

typedef struct Remembered
{
	PageName name;
	char status;
	GpuScanLoosePage page;
} Remembered;

#define SH_PREFIX pages
#define SH_ELEMENT_TYPE Remembered
#define SH_KEY_TYPE PageName
#define SH_KEY name
#define SH_HASH_KEY(table, key)                                                                    \
	hash_combine(murmurhash32((key).node.relNode), murmurhash32((key).block))
#define SH_EQUAL(table, a, b) (RelFileNodeEquals((a).node, (b).node) && (a).block == (b).block)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static pages_hash *remembered = NULL;

GpuScanLoosePage *
gpuscan_loose_recall(Relation rel, BlockNumber block)
{
	PageName name = {.node = rel->rd_node, .block = block};
	Remembered *entry = remembered != NULL ? pages_lookup(remembered, name) : NULL;

	return entry != NULL ? &entry->page : NULL;
}

void
gpuscan_loose_remember(Relation rel, BlockNumber block, const GpuScanLoosePage *page)
{
	PageName name = {.node = rel->rd_node, .block = block};
	bool found;

	if (remembered == NULL)
		remembered = pages_create(TopMemoryContext, 256, NULL);
	if (remembered->members >= MAX_REMEMBERED)
		pages_reset(remembered);
	pages_insert(remembered, name, &found)->page = *page;
}

void
gpuscan_heap_set_kept(Relation rel, BlockNumber block, XLogRecPtr lsn, uint32 kept)
{
	GpuScanLoosePage *known = gpuscan_loose_recall(rel, block);

	if (known != NULL && known->lsn == lsn)
		known->kept = kept;
}

bool
gpuscan_loose_is_true(const GpuScanLoosePage *known, Buffer buffer, Snapshot snapshot)
{
	return known->lsn == BufferGetLSNAtomic(buffer) &&
		   TransactionIdFollowsOrEquals(snapshot->xmin, known->xmin);
}

typedef enum Fate
{
	FATE_VISIBLE,
	FATE_INVISIBLE,
	FATE_OPEN /* HeapTupleSatisfiesVisibility() knows */
} Fate;

static inline bool
is_before(TransactionId xid, TransactionId xmin)
{
	return TransactionIdIsNormal(xid) && NormalTransactionIdPrecedes(xid, xmin);
}

/*
 * What HeapTupleSatisfiesMVCC() finds out, in its order, of a tuple that says itself what a
 * snapshot of this xmin, and any of a later one, sees.
 */
static inline Fate
find_fate(HeapTupleHeader tuple, TransactionId xmin)
{
	uint16 bits = tuple->t_infomask;

	if ((bits & HEAP_XMIN_COMMITTED) == 0)
		return (bits & HEAP_XMIN_INVALID) != 0 ? FATE_INVISIBLE : FATE_OPEN;
	if ((bits & HEAP_XMIN_INVALID) == 0 && !is_before(HeapTupleHeaderGetRawXmin(tuple), xmin))
		return FATE_OPEN;
	if ((bits & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(bits))
		return FATE_VISIBLE;
	return (bits & (HEAP_XMAX_COMMITTED | HEAP_XMAX_IS_MULTI)) == HEAP_XMAX_COMMITTED &&
				   is_before(HeapTupleHeaderGetRawXmax(tuple), xmin)
			   ? FATE_INVISIBLE
			   : FATE_OPEN;
}

void
gpuscan_loose_examine(Relation rel, Snapshot snapshot, Buffer buffer, GpuScanLoosePage *page)
{
	Page heap_page = BufferGetPage(buffer);
	OffsetNumber last = PageGetMaxOffsetNumber(heap_page);
	HeapTupleData tuple = {.t_tableOid = RelationGetRelid(rel)};

	*page = (GpuScanLoosePage){
		.lsn = BufferGetLSNAtomic(buffer),
		.xmin = snapshot->xmin,
		.buffer = buffer,
	};
	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		ItemId item = PageGetItemId(heap_page, offset);
		bool visible;
		Fate fate;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(heap_page, item);
		fate = find_fate(tuple.t_data, snapshot->xmin);
		visible = fate == FATE_VISIBLE;
		if (fate == FATE_OPEN)
		{
			tuple.t_len = ItemIdGetLength(item);
			ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), offset);
			visible = HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer);

			/* which may have set hint bits */
			if (find_fate(tuple.t_data, snapshot->xmin) == FATE_OPEN)
				page->xmin = InvalidTransactionId;
		}
		page->visible[(offset - 1) / 64] |= (uint64) visible << (offset - 1) % 64;
		page->ntuples += visible;
	}
}

int
gpuscan_loose_list(const GpuScanLoosePage *page, OffsetNumber **offsets)
{
	OffsetNumber *list = *offsets;
	int n = 0;

	for (int i = 0; i < GPUSCAN_LOOSE_WORDS; i++)
	{
		for (uint64 word = page->visible[i]; word != 0; word &= word - 1)
			list[n++] = i * 64 + pg_rightmost_one_pos64(word) + FirstOffsetNumber;
	}
	if (n > 0 && list[n - 1] == n)
		*offsets = NULL;
	return n;
}
