/*-------------------------------------------------------------------------
 *
 * distinct.c
 *	  count(DISTINCT): sets of pairs of a group and a value.
 *
 * One set for each aggregate and thread.  A pair names its group by the address
 * of its row; its hash, though, comes from the group's hash and the value, so
 * that all threads agree on it, and, as in groups.c, its leading bits say
 * where probing starts.  The pair is counted in the group's state when it is new.
 *
 * A value is a word that is equal exactly where PostgreSQL calls the values
 * equal, or bytes in the set's arena.
 *
 * Where both groups and values are few (index.c), all threads share one bit for
 * each pair instead: whoever sets it counts the pair.  Pairs that have no bit, for a
 * value that no cached range has, go to the sets.
 *
 * Each partial table counts its pairs.  A merge adds the counts, and takes away the
 * pairs that several sets have.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#define MIN_LOG2_SLOTS 11
#define MAX_LOG2_SLOTS 31

/* So many before they say something of the others. */
#define MIN_TUPLES_SEEN 32768

uint32_t
gpuscan_cpu_distinct_hash(const CpuDistinct *set, const char *hash_row, uint64_t value)
{
	if (set->bytes)
	{
		const CpuBytes *bytes = (const CpuBytes *) (uintptr_t) value;

		value = bytes_hash(bytes->data, bytes->len);
	}
	return (uint32_t) (bytes_mix(CPU_ROW_HASH(hash_row), value) >> 32);
}

/* Entries that so many slots hold: two thirds full at most. */
static inline uint64_t
room(uint32_t log2_slots)
{
	return (UINT64_C(1) << log2_slots) / 3 * 2;
}

static inline uint32_t
first_slot(const CpuDistinct *set, uint32_t hash)
{
	return (hash << set->skip_bits) >> (32 - set->log2_slots);
}

void
gpuscan_cpu_distinct_init(CpuDistinct *set, CpuMemory *memory, unsigned cls, uint32_t skip_bits)
{
	memset(set, 0, sizeof(*set));
	set->memory = memory;
	set->bytes = cls == GPUSCAN_I128 || cls == GPUSCAN_TEXT;
	set->skip_bits = skip_bits;
	set->values.memory = memory;
}

static void
place_entry(CpuDistinct *set, CpuDistinctEntry entry, uint32_t hash)
{
	uint32_t mask = (UINT32_C(1) << set->log2_slots) - 1;
	uint32_t at = first_slot(set, hash);

	while (set->entries[at].row_tag != 0)
		at = (at + 1) & mask;
	set->entries[at] = entry;
}

/*
 * Makes room for that many entries in all.  Entries are moved in the order of
 * their hashes, into twice the room, so they never pile up.
 */
bool
gpuscan_cpu_distinct_reserve(CpuDistinct *set, uint64_t nentries)
{
	const uint32_t ahead = 16;
	uint32_t log2_slots = set->entries == NULL ? MIN_LOG2_SLOTS : set->log2_slots;
	uint64_t nold = set->entries == NULL ? 0 : UINT64_C(1) << set->log2_slots;
	CpuDistinctEntry *old = set->entries;

	while (nentries > room(log2_slots))
		log2_slots++;
	if (old != NULL && log2_slots == set->log2_slots)
		return true;
	if (log2_slots > MAX_LOG2_SLOTS)
		return false;

	set->entries = gpuscan_cpu_alloc(set->memory, sizeof(CpuDistinctEntry) << log2_slots);
	if (set->entries == NULL)
	{
		set->entries = old;
		return false;
	}
	set->log2_slots = log2_slots;
	for (uint64_t i = 0; i < nold; i++)
	{
		if (i + ahead < nold)
			__builtin_prefetch(CPU_SLOT_ROW(old[i + ahead].row_tag));
		if (old[i].row_tag != 0)
			place_entry(set, old[i],
						gpuscan_cpu_distinct_hash(set, CPU_SLOT_ROW(old[i].row_tag), old[i].value));
	}
	gpuscan_cpu_free(set->memory, old, nold * sizeof(CpuDistinctEntry));
	return true;
}

static inline bool
entry_equals(const CpuDistinct *set, const CpuDistinctEntry *entry, uint64_t row_tag,
			 const CpuPairs *pairs, uint32_t i)
{
	const CpuBytes *bytes;

	if (entry->row_tag != row_tag)
		return false;
	if (!set->bytes)
		return entry->value == pairs->words[i];
	bytes = (const CpuBytes *) (uintptr_t) entry->value;
	return bytes->len == pairs->texts[i].len &&
		   bytes_equal(bytes->data, pairs->texts[i].p, bytes->len);
}

/* The value of a new entry for pair i; false: out of memory. */
static bool
make_value(CpuDistinct *set, const CpuPairs *pairs, uint32_t i, uint64_t *value)
{
	const CpuBytes *bytes;

	if (!set->bytes)
	{
		*value = pairs->words[i];
		return true;
	}
	if (pairs->owned)
		bytes = (const CpuBytes *) (pairs->texts[i].p - offsetof(CpuBytes, data));
	else
		bytes = gpuscan_cpu_arena_copy(&set->values, pairs->texts[i].p, pairs->texts[i].len);
	*value = (uint64_t) (uintptr_t) bytes;
	return bytes != NULL;
}

/*
 * Makes room for n more entries.  A set that has to grow grows to what the
 * tuples seen so far let expect of all of them, if that can be had: most of the
 * cost of a large set would be moving its entries and touching new memory.
 */
static bool
make_room(CpuDistinct *set, uint32_t n)
{
	uint64_t needed = set->nentries + n;
	uint64_t expected = 0;

	if (set->entries != NULL && needed <= room(set->log2_slots))
		return true;
	if (set->tuples_expected > 0 && *set->tuples_seen >= MIN_TUPLES_SEEN)
		expected = (uint64_t) ((double) set->nentries / (double) *set->tuples_seen *
							   (double) set->tuples_expected);
	return (expected > needed && gpuscan_cpu_distinct_reserve(set, expected)) ||
		   gpuscan_cpu_distinct_reserve(set, needed);
}

/* Adds to a count what several pairs of one group in a row made of it: the only group, perhaps. */
typedef struct Counter
{
	int64_t *count;
	int64_t pending;
	bool shared;
} Counter;

static inline void
flush(Counter *counter)
{
	if (counter->count == NULL)
		return;
	if (counter->shared)
		__atomic_fetch_add(counter->count, counter->pending, __ATOMIC_RELAXED);
	else
		*counter->count += counter->pending;
}

static inline void
add_to_count(Counter *counter, char *row, uint32_t offset, int64_t value)
{
	if (counter->count != (int64_t *) (row + offset))
	{
		flush(counter);
		counter->count = (int64_t *) (row + offset);
		counter->pending = 0;
	}
	counter->pending += value;
}

/* Takes the pairs that the set's bits know, and counts those that are new. */
static void
add_bits(const CpuBits *bits, CpuPairs *pairs, uint32_t offset)
{
	Counter counter = {0};
	uint64_t places[CPU_CHUNK];
	uint32_t nothers = 0;

	for (uint32_t i = 0; i < pairs->n; i++)
	{
		uint64_t value = pairs->words[i] - bits->values.first;
		bool known = pairs->numbers[i] < bits->ngroups && value < bits->values.size;

		places[i] = known ? pairs->numbers[i] * bits->values.size + value : UINT64_MAX;
		if (known)
			__builtin_prefetch((const void *) &bits->words[places[i] / 64], 1);
	}
	for (uint32_t i = 0; i < pairs->n; i++)
	{
		if (places[i] == UINT64_MAX)
		{
			pairs->rows[nothers] = pairs->rows[i];
			pairs->words[nothers++] = pairs->words[i];
		}
		else
		{
			_Atomic uint64_t *word = &bits->words[places[i] / 64];
			uint64_t bit = UINT64_C(1) << places[i] % 64;

			if ((atomic_load_explicit(word, memory_order_relaxed) & bit) == 0 &&
				(atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit) == 0)
				add_to_count(&counter, pairs->rows[i], offset, 1);
		}
	}
	flush(&counter);
	pairs->n = nothers;
}

/* Adds pairs; `if_new` and `if_old` to the counts. */
static bool
add_pairs(CpuDistinct *set, CpuPairs *pairs, char *const *hash_rows, uint32_t offset,
		  Counter counter, int64_t if_new, int64_t if_old)
{
	uint32_t n = pairs->n;
	uint32_t mask;

	if (!make_room(set, n))
		return false;
	mask = (UINT32_C(1) << set->log2_slots) - 1;

	for (uint32_t i = 0; i < n; i++)
	{
		uint64_t value =
			set->bytes ? bytes_hash(pairs->texts[i].p, pairs->texts[i].len) : pairs->words[i];

		pairs->hashes[i] = (uint32_t) (bytes_mix(CPU_ROW_HASH(hash_rows[i]), value) >> 32);
		__builtin_prefetch(&set->entries[first_slot(set, pairs->hashes[i])], 1);
	}

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t at = first_slot(set, pairs->hashes[i]);
		uint64_t row_tag =
			(uint64_t) (uintptr_t) pairs->rows[i] << 16 | (uint16_t) pairs->hashes[i];
		bool is_new;

		while (set->entries[at].row_tag != 0 &&
			   !entry_equals(set, &set->entries[at], row_tag, pairs, i))
			at = (at + 1) & mask;
		is_new = set->entries[at].row_tag == 0;
		if (is_new)
		{
			if (!make_value(set, pairs, i, &set->entries[at].value))
				return false;
			set->entries[at].row_tag = row_tag;
			set->nentries++;
		}
		if ((is_new ? if_new : if_old) != 0)
			add_to_count(&counter, pairs->rows[i], offset, is_new ? if_new : if_old);
	}
	flush(&counter);
	return true;
}

bool
gpuscan_cpu_distinct_add(CpuDistinct *set, CpuPairs *pairs, uint32_t offset)
{
	if (set->bits != NULL)
		add_bits(set->bits, pairs, offset);
	return pairs->n == 0 || add_pairs(set, pairs, pairs->rows, offset, (Counter){0}, 1, 0);
}

bool
gpuscan_cpu_distinct_merge(CpuDistinct *set, CpuPairs *pairs, char *const *hash_rows,
						   uint32_t offset)
{
	return add_pairs(set, pairs, hash_rows, offset, (Counter){.shared = true}, 0, -1);
}

void
gpuscan_cpu_distinct_free_entries(CpuDistinct *set)
{
	if (set->entries != NULL)
		gpuscan_cpu_free(set->memory, set->entries, sizeof(CpuDistinctEntry) << set->log2_slots);
	set->entries = NULL;
}
