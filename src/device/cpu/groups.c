/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Group tables.
 *
 * Rows lie in chunks that never move, in the order in which groups appeared.
 * The table proper is an array of slots, open addressing with linear probing;
 * a slot holds a row's address and 16 bits of its hash.  The slot where a
 * probe starts is the leading bits of the hash, so that a table is in the
 * order of hashes (but for what probing displaced), and merge.c can take it
 * apart by ranges of hashes without sorting.  Growing needs no key: the row
 * keeps its hash.
 *
 * A chunk of keys is looked up in passes, each of which prefetches what the
 * next one reads: slots, then rows, then the comparison of keys column by
 * column.  What is left, new groups and collisions, is done one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#define MIN_LOG2_SLOTS 11
#define MAX_LOG2_SLOTS 31
#define ROW_CHUNK_MIN ((size_t) 16 * 1024)
#define ROW_CHUNK_MAX ((size_t) 8 * 1024 * 1024)

void
gpuscan_cpu_groups_init(CpuGroups *groups, const GpuScanProgram *program, CpuMemory *memory,
						uint32_t skip_bits)
{
	memset(groups, 0, sizeof(*groups));
	groups->program = program;
	groups->memory = memory;
	groups->skip_bits = skip_bits;
	groups->texts.memory = memory;
}

static inline uint32_t
first_slot(const CpuGroups *groups, uint32_t hash)
{
	return (hash << groups->skip_bits) >> (32 - groups->log2_slots);
}

static inline uint64_t
make_slot(const char *row, uint32_t hash)
{
	return (uint64_t) (uintptr_t) row << 16 | (hash & 0xffff);
}

/* Puts a row that is not there yet into the first empty slot from its own on. */
static void
place_row(CpuGroups *groups, const char *row, uint32_t hash)
{
	uint32_t mask = (UINT32_C(1) << groups->log2_slots) - 1;
	uint32_t slot = first_slot(groups, hash);

	while (groups->slots[slot] != 0)
		slot = (slot + 1) & mask;
	groups->slots[slot] = make_slot(row, hash);
}

bool
gpuscan_cpu_groups_reserve(CpuGroups *groups, uint64_t ngroups)
{
	uint32_t log2_slots = groups->slots == NULL ? MIN_LOG2_SLOTS : groups->log2_slots;
	uint64_t *old = groups->slots;
	size_t old_size = sizeof(uint64_t) << groups->log2_slots;
	size_t row_size = groups->program->row_size;

	/* half full at most */
	while (ngroups > (UINT64_C(1) << log2_slots) / 2)
		log2_slots++;
	if (old != NULL && log2_slots == groups->log2_slots)
		return true;
	if (log2_slots > MAX_LOG2_SLOTS)
		return false;

	groups->slots = gpuscan_cpu_alloc(groups->memory, sizeof(uint64_t) << log2_slots);
	if (groups->slots == NULL)
	{
		groups->slots = old;
		return false;
	}
	groups->log2_slots = log2_slots;
	for (const CpuRowChunk *chunk = groups->first; chunk != NULL; chunk = chunk->next)
	{
		for (uint32_t i = 0; i < chunk->nrows; i++)
			place_row(groups, chunk->rows + i * row_size, CPU_ROW_HASH(chunk->rows + i * row_size));
	}
	gpuscan_cpu_free(groups->memory, old, old_size);
	return true;
}

/* A new row of zeros; NULL: out of memory. */
static char *
add_row(CpuGroups *groups)
{
	size_t row_size = groups->program->row_size;
	CpuRowChunk *chunk = groups->last;

	if (chunk == NULL || chunk->nrows == chunk->capacity)
	{
		size_t size = chunk == NULL ? ROW_CHUNK_MIN : chunk->size * 2;

		if (size > ROW_CHUNK_MAX)
			size = ROW_CHUNK_MAX;
		if (size < sizeof(CpuRowChunk) + row_size)
			size = sizeof(CpuRowChunk) + row_size;
		chunk = gpuscan_cpu_alloc(groups->memory, size);
		if (chunk == NULL)
			return NULL;
		chunk->size = size;
		chunk->capacity = (uint32_t) ((size - sizeof(CpuRowChunk)) / row_size);
		if (groups->last == NULL)
			groups->first = chunk;
		else
			groups->last->next = chunk;
		groups->last = chunk;
	}
	groups->ngroups++;
	return chunk->rows + chunk->nrows++ * row_size;
}

char *
gpuscan_cpu_groups_single(CpuGroups *groups)
{
	return groups->first != NULL ? groups->first->rows : add_row(groups);
}

static inline uint64_t
row_word(const char *row, uint32_t offset)
{
	return *(const uint64_t *) (row + offset);
}

static inline bool
row_text_equals(const char *row, uint32_t offset, GsText text)
{
	const CpuBytes *bytes = (const CpuBytes *) (uintptr_t) row_word(row, offset);

	return bytes == NULL ? text.len == 0
						 : bytes->len == text.len && bytes_equal(bytes->data, text.p, text.len);
}

/* True if key k of the row is that of tuple i, NULLs aside. */
static inline bool
key_equals(const char *row, const GpuScanKey *key, const void *values, uint32_t i)
{
	const uint64_t *words = values;

	switch (key->cls)
	{
		case GPUSCAN_TEXT:
			return row_text_equals(row, key->offset, ((const GsText *) values)[i]);
		case GPUSCAN_I128:
			return row_word(row, key->offset) == words[2 * i] &&
				   row_word(row, key->offset + 8) == words[2 * i + 1];
		default:
			return row_word(row, key->offset) == words[i];
	}
}

/* Writes tuple i's keys into a new row; false: out of memory. */
static bool
store_keys(CpuGroups *groups, const CpuKeys *keys, uint32_t i, char *row)
{
	const GpuScanKey *key = GPUSCAN_KEYS(groups->program);

	*(uint64_t *) row = (uint64_t) keys->hashes[i] << 32 | keys->nulls[i];
	for (int k = 0; k < groups->program->nkeys; k++)
	{
		const uint64_t *words = keys->columns[k].values;
		uint64_t *dst = (uint64_t *) (row + key[k].offset);

		if (key[k].cls == GPUSCAN_I128)
		{
			dst[0] = words[2 * i];
			dst[1] = words[2 * i + 1];
		}
		else if (key[k].cls != GPUSCAN_TEXT)
			dst[0] = words[i];
		else
		{
			GsText text = ((const GsText *) keys->columns[k].values)[i];
			const CpuBytes *bytes;

			/* the row of an empty text, or NULL, has no bytes */
			if (text.len == 0)
				continue;
			if (keys->owned)
				bytes = (const CpuBytes *) (text.p - offsetof(CpuBytes, data));
			else
				bytes = gpuscan_cpu_arena_copy(&groups->texts, text.p, text.len);
			if (bytes == NULL)
				return false;
			dst[0] = (uint64_t) (uintptr_t) bytes;
		}
	}
	return true;
}

char *
gpuscan_cpu_groups_add(CpuGroups *groups, const CpuKeys *keys, uint32_t i)
{
	char *row;

	/* without slots it is the first search that makes them, of all rows */
	if (groups->slots != NULL && !gpuscan_cpu_groups_reserve(groups, groups->ngroups + 1))
		return NULL;
	row = add_row(groups);
	if (row == NULL || !store_keys(groups, keys, i, row))
		return NULL;
	if (groups->slots != NULL)
		place_row(groups, row, keys->hashes[i]);
	return row;
}

/* Finds or makes the group of tuple i; NULL: out of memory. */
static char *
find_or_add(CpuGroups *groups, const CpuKeys *keys, uint32_t i)
{
	const GpuScanKey *key = GPUSCAN_KEYS(groups->program);
	uint32_t mask = (UINT32_C(1) << groups->log2_slots) - 1;
	uint32_t hash = keys->hashes[i];
	char *row;

	for (uint32_t at = first_slot(groups, hash);; at = (at + 1) & mask)
	{
		uint64_t slot = groups->slots[at];
		bool equal;

		if (slot == 0)
		{
			row = add_row(groups);
			if (row == NULL || !store_keys(groups, keys, i, row))
				return NULL;
			groups->slots[at] = make_slot(row, hash);
			return row;
		}
		if ((uint16_t) slot != (uint16_t) hash)
			continue;
		row = CPU_SLOT_ROW(slot);
		equal = CPU_ROW_NULLS(row) == keys->nulls[i];
		for (int k = 0; equal && k < groups->program->nkeys; k++)
			equal = key_equals(row, &key[k], keys->columns[k].values, i);
		if (equal)
			return row;
	}
}

/* Clears rows[i] where key k is another. */
static void
compare_column(const CpuKeyColumn *column, const GpuScanKey *key, uint32_t n, char **rows)
{
	const uint64_t *words = column->values;
	const GsText *texts = column->values;

#define COMPARE(equal)                                                                             \
	for (uint32_t i = 0; i < n; i++)                                                               \
	rows[i] = rows[i] != NULL && (equal) ? rows[i] : NULL

	if (key->cls == GPUSCAN_TEXT)
		COMPARE(row_text_equals(rows[i], key->offset, texts[i]));
	else if (key->cls == GPUSCAN_I128)
		COMPARE(key_equals(rows[i], key, words, i));
	else
		COMPARE(row_word(rows[i], key->offset) == words[i]);
#undef COMPARE
}

bool
gpuscan_cpu_groups_find(CpuGroups *groups, const CpuKeys *keys, char **rows)
{
	const GpuScanKey *key = GPUSCAN_KEYS(groups->program);
	size_t row_size = groups->program->row_size;
	uint32_t n = keys->n;
	uint32_t mask;
	bool prefetch;

	if (!gpuscan_cpu_groups_reserve(groups, groups->ngroups + n))
		return false;
	mask = (UINT32_C(1) << groups->log2_slots) - 1;
	prefetch = sizeof(uint64_t) << groups->log2_slots > CPU_PREFETCH_BYTES ||
			   groups->ngroups * row_size > CPU_PREFETCH_BYTES;

	if (prefetch)
	{
		for (uint32_t i = 0; i < n; i++)
			__builtin_prefetch(&groups->slots[first_slot(groups, keys->hashes[i])]);
	}

	/* candidates: the first row from the slot on whose 16 bits agree */
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t hash = keys->hashes[i];
		uint32_t at = first_slot(groups, hash);
		uint64_t slot = groups->slots[at];

		while (slot != 0 && (uint16_t) slot != (uint16_t) hash)
		{
			at = (at + 1) & mask;
			slot = groups->slots[at];
		}
		rows[i] = CPU_SLOT_ROW(slot);
		if (prefetch)
			cpu_prefetch_row(rows[i], row_size);
	}

	for (uint32_t i = 0; i < n; i++)
		rows[i] = rows[i] != NULL && CPU_ROW_NULLS(rows[i]) == keys->nulls[i] ? rows[i] : NULL;
	for (int k = 0; k < groups->program->nkeys; k++)
		compare_column(&keys->columns[k], &key[k], n, rows);

	for (uint32_t i = 0; i < n; i++)
	{
		if (rows[i] == NULL && (rows[i] = find_or_add(groups, keys, i)) == NULL)
			return false;
	}
	return true;
}

void
gpuscan_cpu_groups_free_rows(CpuGroups *groups)
{
	CpuRowChunk *chunk = groups->first;

	while (chunk != NULL)
	{
		CpuRowChunk *next = chunk->next;

		gpuscan_cpu_free(groups->memory, chunk, chunk->size);
		chunk = next;
	}
	if (groups->slots != NULL)
		gpuscan_cpu_free(groups->memory, groups->slots, sizeof(uint64_t) << groups->log2_slots);
	groups->first = NULL;
	groups->last = NULL;
	groups->slots = NULL;
}
