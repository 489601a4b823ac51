/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  From the threads' partial tables to the final ones.
 *
 * A group's hash is the same in every partial table and tables are in the order
 * of hashes, so the merge goes by ranges of hashes that have nothing to do with
 * each other: its partitions, one final table and one task each.
 *
 * Step 0 completes the partial tables by the tuples that still are in bins.
 * Step 1 merges groups.  A row that was merged keeps, in place of its key, the
 * address of the final row.  Step 2 merges the sets of count(DISTINCT), whose
 * pairs find their group by that address; these partitions are ranges of the
 * pairs' hashes, so that one large group is spread over threads as well.
 * Step 3 makes the states final.
 *
 * Where one thread did all the work its table is the final one, and where each did
 * that of a part of the groups all their tables are: steps 1 and 2 have no tasks.
 *
 * Entries come in the order of their hashes, which would pile them up at the
 * front of a small table that grows on the way: final tables start with room
 * for four times the largest part that goes into them.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

/* Below, one task is faster than many. */
#define PARTITION_MIN_ENTRIES 8192

#define PREFETCH_DISTANCE 16

/* Where a row that was merged keeps its final row. */
#define FORWARD(row) (*(char **) ((row) + sizeof(uint64_t)))

/* What one task of step 1 or 2 needs. */
typedef struct Scratch
{
	CpuKeys keys;
	CpuPairs pairs;
	uint32_t n;
	char *sources[CPU_CHUNK];
	char *rows[CPU_CHUNK];
} Scratch;

static uint32_t
partition_of(uint32_t hash, uint32_t bits)
{
	return (uint32_t) ((uint64_t) hash << bits >> 32);
}

/* Before step 1: makes the final tables. */
static GpuScanCode
create_tables(CpuMerge *merge)
{
	const GpuScanProgram *program = merge->plan->program;
	uint64_t entries = 0;
	uint32_t ntables;

	for (uint32_t i = 0; i < merge->npartials; i++)
	{
		entries += merge->partials[i]->groups.ngroups;
		for (int d = 0; d < merge->plan->ndistinct; d++)
			entries += merge->partials[i]->sets[d].nentries;
	}
	if (!merge->disjoint && entries >= PARTITION_MIN_ENTRIES)
		merge->bits = CPU_PARTITION_BITS;

	ntables = merge->disjoint ? merge->npartials : program->nkeys == 0 ? 1 : 1U << merge->bits;
	ntables = ntables > 0 ? ntables : 1;
	merge->tables = calloc(ntables, sizeof(CpuGroups));
	if (merge->tables == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	merge->ntables = ntables;
	for (uint32_t i = 0; i < merge->ntables; i++)
		gpuscan_cpu_groups_init(&merge->tables[i], program, merge->memory, merge->bits);

	for (uint32_t i = 0; merge->disjoint && i < merge->npartials; i++)
	{
		/* the texts stay with the partial table */
		merge->tables[i] = merge->partials[i]->groups;
		merge->tables[i].texts.last = NULL;
		merge->partials[i]->groups.first = NULL;
		merge->partials[i]->groups.slots = NULL;
	}
	if (program->nkeys == 0 && gpuscan_cpu_groups_single(&merge->tables[0]) == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	return GPUSCAN_OK;
}

GpuScanCode
gpuscan_cpu_merge_start(CpuMerge *merge, int step, uint32_t *ntasks)
{
	GpuScanCode code = step == 1 ? create_tables(merge) : GPUSCAN_OK;

	*ntasks = 0;
	if (code != GPUSCAN_OK)
		return code;
	switch (step)
	{
		case 0:
			merge->disjoint |= merge->npartials == 1;
			*ntasks = merge->plan->nbins > 0 ? merge->npartials : 0;
			break;
		case 1:
			*ntasks = merge->disjoint ? 0 : merge->ntables;
			break;
		case 2:
			*ntasks = merge->disjoint ? 0 : (uint32_t) merge->plan->ndistinct << merge->bits;
			break;
		default:
			*ntasks = merge->plan->needs_check ? merge->ntables : 0;
	}
	return GPUSCAN_OK;
}

/* Aggregates what a partial has in bins; a merge needs the slots of its table as well. */
static GpuScanCode
complete_partial(CpuMerge *merge, CpuPartial *partial)
{
	GpuScanCode code = gpuscan_cpu_bins_empty(partial);

	gpuscan_cpu_bins_free(partial);
	if (code == GPUSCAN_OK && !merge->disjoint && partial->groups.ngroups > 0 &&
		!gpuscan_cpu_groups_reserve(&partial->groups, partial->groups.ngroups))
		code = GPUSCAN_OUT_OF_MEMORY;
	return code;
}

/* Takes the keys of the collected rows; they were hashed before. */
static void
load_keys(CpuKeys *keys, const GpuScanProgram *program, char *const *sources, uint32_t n)
{
	const GpuScanKey *key = GPUSCAN_KEYS(program);

	keys->n = n;
	keys->owned = true;
	for (uint32_t i = 0; i < n; i++)
	{
		keys->nulls[i] = CPU_ROW_NULLS(sources[i]);
		keys->hashes[i] = CPU_ROW_HASH(sources[i]);
	}
	for (int k = 0; k < program->nkeys; k++)
	{
		uint64_t *words = keys->columns[k].buffer;
		GsText *texts = keys->columns[k].buffer;

		for (uint32_t i = 0; i < n; i++)
		{
			const uint64_t *stored = (const uint64_t *) (sources[i] + key[k].offset);

			if (key[k].cls == GPUSCAN_TEXT)
			{
				const CpuBytes *bytes = (const CpuBytes *) (uintptr_t) *stored;

				texts[i] = bytes == NULL ? (GsText){NULL, 0} : (GsText){bytes->data, bytes->len};
			}
			else if (key[k].cls == GPUSCAN_I128)
				memcpy(words + 2 * i, stored, 16);
			else
				words[i] = *stored;
		}
	}
}

static GpuScanCode
merge_rows(CpuMerge *merge, CpuGroups *table, Scratch *scratch)
{
	const GpuScanProgram *program = merge->plan->program;
	uint32_t n = scratch->n;

	scratch->n = 0;
	if (n == 0)
		return GPUSCAN_OK;
	if (atomic_load_explicit(merge->cancel, memory_order_relaxed))
		return GPUSCAN_CANCELLED;
	if (program->nkeys == 0)
		scratch->rows[0] = gpuscan_cpu_groups_single(table);
	else
	{
		load_keys(&scratch->keys, program, scratch->sources, n);
		if (!gpuscan_cpu_groups_find(table, &scratch->keys, scratch->rows))
			return GPUSCAN_OUT_OF_MEMORY;
	}
	if (!gpuscan_cpu_merge_states(program, n, scratch->rows, scratch->sources))
		return GPUSCAN_LEFT_TO_POSTGRES;
	for (uint32_t i = 0; merge->plan->ndistinct > 0 && i < n; i++)
		FORWARD(scratch->sources[i]) = scratch->rows[i];
	return GPUSCAN_OK;
}

/*
 * The slots of a partition: from *at on, `*n` of them, and then those up to the
 * first empty one, for what probing displaced.
 */
static void
partition_slots(uint32_t log2_slots, uint32_t bits, uint32_t partition, uint32_t *at, uint32_t *n)
{
	*n = UINT32_C(1) << (log2_slots - bits);
	*at = partition * *n;
}

static GpuScanCode
merge_group_partition(CpuMerge *merge, const CpuGroups *from, uint32_t partition, Scratch *scratch)
{
	CpuGroups *table = &merge->tables[partition];
	uint32_t bits = merge->bits;
	uint32_t mask = (UINT32_C(1) << from->log2_slots) - 1;
	uint32_t at;
	uint32_t n;

	if (merge->plan->program->nkeys == 0)
	{
		if (from->first != NULL)
			scratch->sources[scratch->n++] = from->first->rows;
		return merge_rows(merge, table, scratch);
	}
	if (from->slots == NULL)
		return GPUSCAN_OK;
	partition_slots(from->log2_slots, bits, partition, &at, &n);

	for (uint32_t i = 0; i < n || (bits > 0 && from->slots[at] != 0); i++, at = (at + 1) & mask)
	{
		uint64_t slot = from->slots[at];

		__builtin_prefetch(CPU_SLOT_ROW(from->slots[(at + PREFETCH_DISTANCE) & mask]));
		if (slot == 0 || partition_of(CPU_ROW_HASH(CPU_SLOT_ROW(slot)), bits) != partition)
			continue;
		scratch->sources[scratch->n++] = CPU_SLOT_ROW(slot);
		if (scratch->n == CPU_CHUNK)
		{
			GpuScanCode code = merge_rows(merge, table, scratch);

			if (code != GPUSCAN_OK)
				return code;
		}
	}
	return merge_rows(merge, table, scratch);
}

static GpuScanCode
merge_groups(CpuMerge *merge, uint32_t partition, Scratch *scratch)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < merge->npartials; i++)
	{
		if (merge->partials[i]->groups.ngroups > most)
			most = merge->partials[i]->groups.ngroups;
	}
	if (!gpuscan_cpu_keys_create(&scratch->keys, merge->plan->program) ||
		(merge->plan->program->nkeys > 0 &&
		 !gpuscan_cpu_groups_reserve(&merge->tables[partition], (most * 2 >> merge->bits) + 1)))
		return GPUSCAN_OUT_OF_MEMORY;

	for (uint32_t i = 0; i < merge->npartials; i++)
	{
		GpuScanCode code =
			merge_group_partition(merge, &merge->partials[i]->groups, partition, scratch);

		if (code != GPUSCAN_OK)
			return code;
	}
	return GPUSCAN_OK;
}

static GpuScanCode
merge_pairs(CpuMerge *merge, CpuDistinct *set, uint32_t offset, Scratch *scratch)
{
	scratch->pairs.n = scratch->n;
	scratch->n = 0;
	if (atomic_load_explicit(merge->cancel, memory_order_relaxed))
		return GPUSCAN_CANCELLED;
	if (!gpuscan_cpu_distinct_merge(set, &scratch->pairs, scratch->sources, offset))
		return GPUSCAN_OUT_OF_MEMORY;
	return GPUSCAN_OK;
}

static GpuScanCode
merge_set_partition(CpuMerge *merge, const CpuDistinct *from, uint32_t offset, uint32_t partition,
					CpuDistinct *set, Scratch *scratch)
{
	uint32_t bits = merge->bits;
	uint32_t mask = (UINT32_C(1) << from->log2_slots) - 1;
	CpuPairs *pairs = &scratch->pairs;
	uint32_t at;
	uint32_t n;

	if (from->entries == NULL)
		return GPUSCAN_OK;
	partition_slots(from->log2_slots, bits, partition, &at, &n);

	for (uint32_t i = 0; i < n || (bits > 0 && from->entries[at].row_tag != 0);
		 i++, at = (at + 1) & mask)
	{
		const CpuDistinctEntry *entry = &from->entries[at];
		char *row = CPU_SLOT_ROW(entry->row_tag);

		__builtin_prefetch(CPU_SLOT_ROW(from->entries[(at + PREFETCH_DISTANCE) & mask].row_tag));
		if (row == NULL ||
			partition_of(gpuscan_cpu_distinct_hash(from, row, entry->value), bits) != partition)
			continue;
		scratch->sources[scratch->n] = row;
		pairs->rows[scratch->n] = FORWARD(row);
		if (from->bytes)
		{
			const CpuBytes *bytes = (const CpuBytes *) (uintptr_t) entry->value;

			pairs->texts[scratch->n] = (GsText){bytes->data, bytes->len};
		}
		else
			pairs->words[scratch->n] = entry->value;
		if (++scratch->n == CPU_CHUNK)
		{
			GpuScanCode code = merge_pairs(merge, set, offset, scratch);

			if (code != GPUSCAN_OK)
				return code;
		}
	}
	return merge_pairs(merge, set, offset, scratch);
}

/* The offset of the states of the program's d-th COUNT_DISTINCT, and its class. */
static const GpuScanAgg *
distinct_aggregate(const GpuScanProgram *program, uint32_t d)
{
	const GpuScanAgg *agg = GPUSCAN_AGGS(program);

	for (;; agg++)
	{
		if (agg->kind == GPUSCAN_AGG_COUNT_DISTINCT && d-- == 0)
			return agg;
	}
}

static GpuScanCode
merge_sets(CpuMerge *merge, uint32_t d, uint32_t partition, Scratch *scratch)
{
	const GpuScanAgg *agg = distinct_aggregate(merge->plan->program, d);
	GpuScanCode code = GPUSCAN_OK;
	uint64_t most = 0;
	CpuDistinct set;

	for (uint32_t i = 0; i < merge->npartials; i++)
	{
		if (merge->partials[i]->sets[d].nentries > most)
			most = merge->partials[i]->sets[d].nentries;
	}
	if (most == 0)
		return GPUSCAN_OK;
	gpuscan_cpu_distinct_init(&set, merge->memory, agg->cls, merge->bits);
	scratch->pairs.owned = true;
	if (!gpuscan_cpu_distinct_reserve(&set, (most * 8 / 3 >> merge->bits) + 1))
		code = GPUSCAN_OUT_OF_MEMORY;
	for (uint32_t i = 0; code == GPUSCAN_OK && i < merge->npartials; i++)
		code = merge_set_partition(merge, &merge->partials[i]->sets[d], agg->offset, partition,
								   &set, scratch);
	gpuscan_cpu_distinct_free_entries(&set);
	return code;
}

static GpuScanCode
finish_table(CpuMerge *merge, CpuGroups *table)
{
	const GpuScanProgram *program = merge->plan->program;

	for (CpuRowChunk *chunk = table->first; chunk != NULL; chunk = chunk->next)
	{
		for (uint32_t i = 0; i < chunk->nrows; i++)
		{
			if (i % CPU_CHUNK == 0 && atomic_load_explicit(merge->cancel, memory_order_relaxed))
				return GPUSCAN_CANCELLED;
			if (!gpuscan_cpu_finish_states(program, chunk->rows + (size_t) i * program->row_size))
				return GPUSCAN_LEFT_TO_POSTGRES;
		}
	}
	return GPUSCAN_OK;
}

GpuScanCode
gpuscan_cpu_merge_task(CpuMerge *merge, int step, uint32_t task)
{
	Scratch *scratch;
	GpuScanCode code;

	if (step == 0)
		return complete_partial(merge, merge->partials[task]);
	if (step == 3)
		return finish_table(merge, &merge->tables[task]);

	scratch = calloc(1, sizeof(Scratch));
	if (scratch == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	if (step == 1)
		code = merge_groups(merge, task, scratch);
	else
		code = merge_sets(merge, task >> merge->bits, task & ((1U << merge->bits) - 1), scratch);
	gpuscan_cpu_keys_free(&scratch->keys, merge->plan->program);
	free(scratch);
	return code;
}

/* Frees what the final tables do not need: partial rows and sets, but texts. */
void
gpuscan_cpu_merge_release(CpuMerge *merge)
{
	for (uint32_t i = 0; i < merge->npartials; i++)
	{
		gpuscan_cpu_groups_free_rows(&merge->partials[i]->groups);
		for (int d = 0; d < merge->plan->ndistinct; d++)
		{
			gpuscan_cpu_distinct_free_entries(&merge->partials[i]->sets[d]);
			gpuscan_cpu_arena_free(&merge->partials[i]->sets[d].values);
		}
	}
}

void
gpuscan_cpu_merge_free(CpuMerge *merge)
{
	for (uint32_t i = 0; merge->tables != NULL && i < merge->ntables; i++)
		gpuscan_cpu_groups_free_rows(&merge->tables[i]);
	free(merge->tables);
	merge->tables = NULL;
}
