/*-------------------------------------------------------------------------
 *
 * map.c
 *	  The visibility map and the LSNs by which cached columns are known to be
 *	  current: see README.md, "What the cache may keep".
 *
 * Bits and LSN of a map page are read together under its share lock, and both
 * are changed under its exclusive lock only.  So they are those of one moment, and
 * what was done to a heap page before its bit was cleared, or set, is seen.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/heap.h"

#include "access/parallel.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

StaticAssertDecl(GPUSCAN_MAP_BLOCKS ==
					 (BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * BITS_PER_BYTE / BITS_PER_HEAPBLOCK,
				 "a page of the visibility map has another size");

/* Of each two bits of a word the lower one. */
static inline uint64
even_bits(uint64 word)
{
	word &= UINT64CONST(0x5555555555555555);
	if (word == UINT64CONST(0x5555555555555555))
		return UINT64CONST(0xFFFFFFFF);
	word = (word | word >> 1) & UINT64CONST(0x3333333333333333);
	word = (word | word >> 2) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
	word = (word | word >> 4) & UINT64CONST(0x00FF00FF00FF00FF);
	word = (word | word >> 8) & UINT64CONST(0x0000FFFF0000FFFF);
	return (word | word >> 16) & UINT64CONST(0xFFFFFFFF);
}

/* The bits of 64 blocks of a map page, fewer in its last range. */
static uint64
range_bits(Page page, uint32 range)
{
	const char *bits = PageGetContents(page) + range * (GPUSCAN_RANGE_BLOCKS / 4);
	uint64 words[2] = {0};
	uint32 left = GPUSCAN_MAP_BLOCKS / 4 - range * (GPUSCAN_RANGE_BLOCKS / 4);

	if (left >= sizeof(words))
		memcpy(words, bits, sizeof(words));
	else
		memcpy(words, bits, left);
	return even_bits(words[0]) | even_bits(words[1]) << 32;
}

bool
gpuscan_heap_is_cacheable(Relation rel)
{
	/* a worker does not know which files its leader's transaction made */
	return !IsParallelWorker() && RelationNeedsWAL(rel) && !IsCatalogRelation(rel) &&
		   rel->rd_createSubid == InvalidSubTransactionId &&
		   rel->rd_firstRelfilenodeSubid == InvalidSubTransactionId &&
		   !OldSnapshotThresholdActive();
}

/* Whether the first n blocks of a map page are all-visible. */
static bool
first_are_visible(Page page, uint32 n)
{
	const uint64 *words = (const uint64 *) PageGetContents(page);
	const uint64 lower = UINT64CONST(0x5555555555555555);
	uint64 all = lower;

	for (uint32 i = 0; i < n / 32; i++)
		all &= words[i];
	if (n % 32 > 0)
		all &= words[n / 32] | ~UINT64CONST(0) << n % 32 * 2;
	return all == lower;
}

XLogRecPtr
gpuscan_heap_survey_map(Relation rel, uint32 map_page, uint32 n, Buffer *map, bool *all_visible)
{
	XLogRecPtr lsn;
	Page page;

	*all_visible = false;

	/* for the pin; what it says is read again below */
	(void) visibilitymap_get_status(rel, map_page * GPUSCAN_MAP_BLOCKS, map);
	if (!BufferIsValid(*map))
		return InvalidXLogRecPtr;

	page = BufferGetPage(*map);
	LockBuffer(*map, BUFFER_LOCK_SHARE);
	lsn = PageGetLSN(page);
	*all_visible = first_are_visible(page, n);
	LockBuffer(*map, BUFFER_LOCK_UNLOCK);
	return lsn;
}

XLogRecPtr
gpuscan_heap_read_map(Relation rel, uint32 first, int n, Buffer *map, uint64 *visible)
{
	XLogRecPtr lsn = InvalidXLogRecPtr;
	Page page;

	/* for the pin; what it says is read again below */
	(void) visibilitymap_get_status(rel, gpuscan_range_first_block(first), map);
	memset(visible, 0, n * sizeof(uint64));
	if (!BufferIsValid(*map))
		return lsn;

	page = BufferGetPage(*map);
	LockBuffer(*map, BUFFER_LOCK_SHARE);
	lsn = PageGetLSN(page);
	for (int i = 0; i < n; i++)
		visible[i] = range_bits(page, first % GPUSCAN_MAP_RANGES + i);
	LockBuffer(*map, BUFFER_LOCK_UNLOCK);
	return lsn;
}

void
gpuscan_heap_read_lsns(Relation rel, uint32 first, int n, const uint64 *blocks, XLogRecPtr *lsns)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);

	for (int i = 0; i < n; i++)
	{
		BlockNumber start = gpuscan_range_first_block(first + i);

		for (int b = 0; b < GPUSCAN_RANGE_BLOCKS; b++)
		{
			Buffer buffer;

			if ((blocks[i] & (UINT64CONST(1) << b)) == 0)
				continue;
			CHECK_FOR_INTERRUPTS();
			buffer = ReadBufferExtended(rel, MAIN_FORKNUM, start + b, RBM_NORMAL, strategy);
			LockBuffer(buffer, BUFFER_LOCK_SHARE);
			*lsns++ = PageGetLSN(BufferGetPage(buffer));
			UnlockReleaseBuffer(buffer);
		}
	}
	FreeAccessStrategy(strategy);
}

void
gpuscan_heap_count_tuples(Relation rel, uint64 ntuples)
{
	if (pgstat_should_count_relation(rel))
		rel->pgstat_info->t_counts.t_tuples_returned += ntuples;
}
