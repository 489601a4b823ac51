/*-------------------------------------------------------------------------
 *
 * cache.c
 *	  The directory of cached columns, by relation, range and column.
 *
 *		Table		a relation's file
 *			Range	of a range of its blocks: which of them are here, their LSNs and tuples
 *			Column	one input (attribute or expression, decoding, scale): a chunk for each
 *					range, or none
 *
 * Everything is in the service's private memory and belongs to its main thread.
 * Device threads read chunks that a request pins, and make new ones, which come
 * here once their batch is done and the backend has confirmed that its pages were
 * pinned all the time.
 *
 * Whether a block is current is decided in cache_lookup.c.  A range's chunks
 * all have the tuples of the same blocks in the same state: a batch that brings
 * another state drops what was there.  Blocks that have changed are taken out of
 * the Range; their tuples stay in the chunks and are skipped.  As soon as such a
 * block is all-visible again the range is loaded anew, so that nothing is patched;
 * a request does not do that for more than a part of its ranges, for its own sake.
 *
 * Lifetimes: a request pins Tables, and a segment (cache_segment.c) its chunks.  A Table that is evicted while
 * it is pinned is dead: nobody finds it any more, and the last pin frees it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "port/pg_bitutils.h"
#include "service/cache_impl.h"
#include "storage/block.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* Of a table, that no request uses */
#define MAX_EXPRESSIONS 256

MemoryContext gpuscan_cache_context;
HTAB *gpuscan_cache_tables;
static uint64 request_clock = 0;

void
gpuscan_cache_setup(void)
{
	HASHCTL ctl = {
		.keysize = sizeof(TableKey),
		.entrysize = sizeof(TableEntry),
	};

	gpuscan_cache_context =
		AllocSetContextCreate(TopMemoryContext, "gpuscan cache", ALLOCSET_DEFAULT_SIZES);
	ctl.hcxt = gpuscan_cache_context;
	gpuscan_cache_tables =
		hash_create("gpuscan cached tables", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	gpuscan_cache_clear_coverage();
}

/* ---- tables ---- */

/* To be called before columns are freed: they are in segments. */
static void
forget_segments(Table *table)
{
	for (uint32 i = 0; i < table->nranges; i++)
		gpuscan_cache_range_changes(table, i);
}

/* Frees a column that is off the table's list. */
static void
free_column(Column *column)
{
	for (uint32 i = 0; i < column->nslots; i++)
		gpuscan_cache_drop_chunk(column, i);
	gpuscan_cache_free_dictionary(column);
	if (column->chunks != NULL)
		pfree(column->chunks);
	pfree(column);
}

static void
free_table(Table *table)
{
	forget_segments(table);
	gpuscan_cache_forget_kept(table);
	while (!slist_is_empty(&table->columns))
		free_column(slist_container(Column, node, slist_pop_head_node(&table->columns)));
	for (uint32 i = 0; i < table->nranges; i++)
	{
		if (table->ranges[i] != NULL)
		{
			gpuscan_cache_free_state(table->key.device, table->ranges[i]);
			gpuscan_cache_count_range(table, 0, -1);
		}
	}
	if (table->nranges > 0)
	{
		pfree(table->ranges);
		pfree(table->loading);
		pfree(table->kept);
	}
	pfree(table);
}

/* Nobody finds it from now on. */
static void
forget_table(Table *table)
{
	hash_search(gpuscan_cache_tables, &table->key, HASH_REMOVE, NULL);
	table->dead = true;
	if (table->pins == 0)
		free_table(table);
}

static void
unpin_table(Table *table)
{
	if (--table->pins == 0 && table->dead)
		free_table(table);
}

/* Forgets the files of a relation, on one device but for the file `keep`, or on all. */
static void
forget_relation(Oid database, Oid relid, const TableKey *keep)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;

	hash_seq_init(&status, gpuscan_cache_tables);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		const GpuScanCacheName *name = &entry->key.name;

		if (name->node.dbNode == database && name->relid == relid &&
			(keep == NULL || (entry->key.device == keep->device &&
							  !RelFileNodeEquals(name->node, keep->name.node))))
			forget_table(entry->table);
	}
}

static Table *
find_table(const GpuScanOpenDevice *device, const GpuScanCacheName *name)
{
	TableKey key = {.name = *name, .device = device};
	bool found;
	TableEntry *entry = hash_search(gpuscan_cache_tables, &key, HASH_FIND, NULL);
	Table *table;

	if (entry != NULL)
		return entry->table;

	/* A file that is not the relation's any more is never asked for again. */
	forget_relation(name->node.dbNode, name->relid, &key);
	table = MemoryContextAllocZero(gpuscan_cache_context, sizeof(Table));
	table->key = key;
	entry = hash_search(gpuscan_cache_tables, &key, HASH_ENTER, &found);
	entry->table = table;
	return table;
}

/* Has room for the ranges of so many map pages. */
static void
reserve_ranges(Table *table, uint32 npages)
{
	uint32 n = npages * GPUSCAN_MAP_RANGES;
	int flags = MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO;
	GpuScanRangeState **ranges;
	uint64 *loading;
	slist_head *kept;

	if (n <= table->nranges)
		return;
	ranges = MemoryContextAllocExtended(gpuscan_cache_context, n * sizeof(ranges[0]), flags);
	loading = MemoryContextAllocExtended(gpuscan_cache_context, n * sizeof(loading[0]), flags);
	kept = MemoryContextAllocExtended(gpuscan_cache_context,
									  (Size) npages * GPUSCAN_PIECES * sizeof(kept[0]), flags);
	if (table->nranges > 0)
	{
		memcpy(kept, table->kept,
			   table->nranges / GPUSCAN_MAP_RANGES * GPUSCAN_PIECES * sizeof(kept[0]));
		pfree(table->kept);
		memcpy(ranges, table->ranges, table->nranges * sizeof(ranges[0]));
		memcpy(loading, table->loading, table->nranges * sizeof(loading[0]));
		pfree(table->ranges);
		pfree(table->loading);
	}
	table->ranges = ranges;
	table->loading = loading;
	table->kept = kept;
	table->nranges = n;
}

static void
drop_range(Table *table, uint32 range)
{
	slist_iter iter;

	slist_foreach(iter, &table->columns)
		gpuscan_cache_drop_chunk(slist_container(Column, node, iter.cur), range);
	if (table->ranges[range] != NULL)
	{
		gpuscan_cache_free_state(table->key.device, table->ranges[range]);
		table->ranges[range] = NULL;
		gpuscan_cache_count_range(table, 0, -1);
	}
}

/* ---- columns ---- */

/*
 * What decoding an attribute depends on beside its bytes: where they lie, which
 * the attributes before it say, and the value of tuples that end before it.
 */
static uint64
hash_layout(const GpuScanLayout *layout, uint32 column)
{
	const GpuScanAttr *attrs = GPUSCAN_LAYOUT_ATTRS(layout);
	const GpuScanColumn *columns = GPUSCAN_LAYOUT_COLUMNS(layout);
	uint32 missing = columns[column].missing;
	uint32 end = layout->size;
	uint64 hash = 0;

	for (int i = 0; i <= columns[column].attnum; i++)
		hash = hash_combine64(
			hash, hash_bytes_uint32_extended((uint16) attrs[i].len << 8 | attrs[i].align, 0));
	if (missing == 0)
		return hash;
	for (int i = 0; i < layout->ncolumns; i++)
	{
		if (columns[i].missing > missing)
			end = Min(end, columns[i].missing);
	}
	return hash_combine64(
		hash, hash_bytes_extended((const unsigned char *) layout + missing, end - missing, 0));
}

/* The expression used least recently, of those that nobody uses, if the table has many of them. */
static Column *
expression_too_many(Table *table)
{
	Column *oldest = NULL;
	int n = 0;
	slist_iter iter;

	slist_foreach(iter, &table->columns)
	{
		Column *column = slist_container(Column, node, iter.cur);

		if (!column->is_expression || column->users > 0)
			continue;
		n++;
		if (oldest == NULL || column->used < oldest->used)
			oldest = column;
	}
	return n < MAX_EXPRESSIONS ? NULL : oldest;
}

/*
 * Makes room for one more: a query with another constant has another expression.  Those that
 * were in use when others came may be several too many.
 */
static void
limit_expressions(Table *table)
{
	Column *oldest;

	while ((oldest = expression_too_many(table)) != NULL)
	{
		forget_segments(table);
		slist_delete(&table->columns, &oldest->node);
		free_column(oldest);
	}
}

static Column *
find_column(Table *table, const GpuScanLayout *layout, const GpuScanInput *input, GpuScanClass cls)
{
	const GpuScanColumn *source = &GPUSCAN_LAYOUT_COLUMNS(layout)[input->column];
	bool is_expression = source->expression != 0;
	const GpuScanExpression *expression =
		(const GpuScanExpression *) ((const char *) layout + source->expression);
	uint16 attnum = is_expression ? 0 : source->attnum;
	uint64 hash = is_expression ? 0 : hash_layout(layout, input->column);
	Column *column;
	slist_iter iter;

	slist_foreach(iter, &table->columns)
	{
		column = slist_container(Column, node, iter.cur);
		if (column->attnum == attnum && column->is_expression == is_expression &&
			column->decode == input->decode && column->scale == input->scale &&
			column->cls == cls && column->layout_hash == hash &&
			(!is_expression || memcmp(column->expression.identity, expression->identity,
									  sizeof(expression->identity)) == 0))
			return column;
	}
	if (is_expression)
		limit_expressions(table);
	column = MemoryContextAllocZero(gpuscan_cache_context, sizeof(Column));
	column->table = table;
	column->attnum = attnum;
	column->decode = input->decode;
	column->scale = input->scale;
	column->cls = cls;
	column->layout_hash = hash;
	column->is_expression = is_expression;
	if (is_expression)
	{
		column->expression = *expression;
		column->expression.text[sizeof(expression->text) - 1] = '\0';
	}
	slist_push_head(&table->columns, &column->node);
	return column;
}

/* ---- a request ---- */

GpuScanCacheUse *
gpuscan_cache_use(const GpuScanOpenDevice *device, const GpuScanProgram *program,
				  const GpuScanLayout *const *layouts, uint32 nlayouts, bool background)
{
	MemoryContext context =
		AllocSetContextCreate(gpuscan_cache_context, "gpuscan cache use", ALLOCSET_DEFAULT_SIZES);
	GpuScanCacheUse *use = MemoryContextAllocZero(context, sizeof(GpuScanCacheUse));

	use->context = context;
	use->device = device;
	use->program = program;
	use->layouts = layouts;
	use->nlayouts = nlayouts;
	use->background = background;
	use->began = ++request_clock;
	use->tables = MemoryContextAllocZero(context, nlayouts * sizeof(Table *));
	use->columns = MemoryContextAllocZero(context, nlayouts * sizeof(Column **));
	use->dictionaries = MemoryContextAllocZero(context, nlayouts * sizeof(GpuScanDictionary **));
	use->reloads_left = GPUSCAN_MIN_RELOADS;
	return use;
}

void
gpuscan_cache_release(GpuScanCacheUse *use)
{
	gpuscan_cache_end_answers(use);
	for (uint32 i = 0; i < use->nlayouts; i++)
	{
		Table *table = use->tables[i];

		if (table == NULL)
			continue;
		for (uint32 r = 0; use->loads && r < table->nranges; r++)
		{
			if (table->loading[r] == use->began)
				table->loading[r] = 0;
		}
		for (int c = 0; c < use->program->ninputs; c++)
			gpuscan_cache_release_column(use->columns[i][c]);
		unpin_table(table);
	}
	MemoryContextDelete(use->context);
}

/* Pins the layout's table and finds its columns, at the first lookup. */
static void
attach(GpuScanCacheUse *use, uint32 layout, const GpuScanCacheName *name)
{
	const GpuScanProgram *program = use->program;
	const GpuScanInput *inputs = GPUSCAN_INPUTS(program);
	int n = Max(program->ninputs, 1);
	Table *table = find_table(use->device, name);

	table->pins++;
	use->tables[layout] = table;
	use->columns[layout] = MemoryContextAlloc(use->context, n * sizeof(Column *));
	use->dictionaries[layout] = MemoryContextAlloc(use->context, n * sizeof(GpuScanDictionary *));
	for (int i = 0; i < program->ninputs; i++)
	{
		GpuScanClass cls = GPUSCAN_REG_CLASSES(program)[inputs[i].reg];
		Column *column = find_column(table, use->layouts[layout], &inputs[i], cls);

		if (column->dictionary == NULL && cls != GPUSCAN_BOOL)
			column->dictionary = gpuscan_dictionary_create(cls);
		gpuscan_cache_count_dictionary(column);
		gpuscan_cache_use_column(use, column);
		use->columns[layout][i] = column;
		use->dictionaries[layout][i] = column->dictionary;
	}
}

Table *
gpuscan_cache_question(GpuScanCacheUse *use, const GpuScanCacheQuestion *question, uint32 npages)
{
	uint32 layout = question->layout;
	uint32 map_page = question->map_page;
	uint32 max_pages = MaxBlockNumber / GPUSCAN_MAP_BLOCKS + 1;
	Table *table;

	if (layout >= use->nlayouts || npages > max_pages || map_page > max_pages - npages)
		return NULL;
	if (use->tables[layout] == NULL)
		attach(use, layout, &question->name);
	table = use->tables[layout];
	if (memcmp(&table->key.name, &question->name, sizeof(GpuScanCacheName)) != 0)
		return NULL;
	table->pinned = question->pinned;
	/* a scan asks about the first page of the map before the others */
	table->loose = question->loose || (map_page > 0 && table->loose);
	reserve_ranges(table, map_page + npages);
	return table;
}

GpuScanFill *
gpuscan_cache_begin_fill(GpuScanCacheUse *use, const GpuScanCacheFill *fill)
{
	int n = Max(use->program->ninputs, 1);
	Table *table;
	GpuScanFill *columns;

	if (fill->layout >= use->nlayouts)
		return NULL;
	table = use->tables[fill->layout];
	if (table == NULL || fill->state.range >= table->nranges)
		return NULL;
	use->nfills++;
	gpuscan_cache_expect_chunks(use, use->columns[fill->layout], &fill->state);
	columns = MemoryContextAlloc(use->context, sizeof(GpuScanFill));
	columns->dictionaries = use->dictionaries[fill->layout];
	columns->chunks = MemoryContextAllocZero(use->context, n * sizeof(GpuScanChunk *));
	columns->unfit = MemoryContextAllocZero(use->context, n * sizeof(bool));
	return columns;
}

static bool
same_state(const GpuScanRangeState *a, const GpuScanRangeState *b)
{
	if (a->blocks != b->blocks)
		return false;
	for (int i = 0; i < GPUSCAN_RANGE_BLOCKS; i++)
	{
		if (a->ntuples[i] != b->ntuples[i])
			return false;
		if ((a->blocks & (UINT64CONST(1) << i)) != 0 && a->lsns[i] != b->lsns[i])
			return false;
	}
	return true;
}

/* Makes the range's state the given one, and drops chunks of another state. */
static bool
set_state(GpuScanCacheUse *use, Table *table, const GpuScanRangeState *state)
{
	GpuScanRangeState *old = table->ranges[state->range];

	gpuscan_cache_range_changes(table, state->range);
	if (old != NULL && same_state(old, state))
	{
		/* either LSN is from before the blocks were read, or was proven for them */
		old->map_lsn = Max(old->map_lsn, state->map_lsn);
		return true;
	}
	if (old != NULL)
		drop_range(table, state->range);
	old = gpuscan_cache_make_state(use);
	if (old == NULL)
		return false;
	*old = *state;
	table->ranges[state->range] = old;
	gpuscan_cache_count_range(table, 0, 1);
	return true;
}

void
gpuscan_cache_end_fill(GpuScanCacheUse *use, const GpuScanCacheFill *fill, GpuScanFill *columns,
					   bool good)
{
	Table *table = use->tables[fill->layout];
	uint32 range = fill->state.range;
	uint32 ntuples = count_tuples(&fill->state);

	use->nfills--;
	table->loading[range] = 0;
	good = good && !table->dead && set_state(use, table, &fill->state);
	for (int i = 0; i < use->program->ninputs; i++)
	{
		Column *column = use->columns[fill->layout][i];
		GpuScanChunk *made = columns->chunks[i];
		bool unfit = fill->unfit ? column->is_expression : columns->unfit[i];

		gpuscan_cache_count_dictionary(column);
		if (good && !fill->unfit && made != NULL && made->nrows == ntuples &&
			get_chunk(column, range) == NULL)
			gpuscan_cache_put_chunk(use, column, range, made);
		else
			use->device->ops->free_chunk(use->device->device, made);
		if (good && unfit && get_chunk(column, range) == NULL)
			gpuscan_cache_put_unfit(column, range);
	}
	pfree(columns->chunks);
	pfree(columns->unfit);
	pfree(columns);
}

/* ---- for people ---- */

uint64
gpuscan_cache_evict(Oid database, Oid relid)
{
	uint64 before = gpuscan_cache_bytes();

	forget_relation(database, relid, NULL);
	return before - gpuscan_cache_bytes();
}

static void
report_column(const Table *table, const Column *column, GpuScanCacheRow *row)
{
	*row = (GpuScanCacheRow){
		.database = table->key.name.node.dbNode,
		.relid = table->key.name.relid,
		.attnum = column->is_expression ? 0 : column->attnum + 1,
		.device = table->key.device->entry - gpuscan_shared->devices,
		.device_bytes = gpuscan_cache_column_bytes(column, GPUSCAN_TIER_DEVICE),
		.host_bytes = gpuscan_cache_column_bytes(column, GPUSCAN_TIER_HOST),
		.hits = column->hits,
		.used = column->used,
		.pinned = table->pinned,
		.loose = table->loose,
	};
	if (column->is_expression)
		row->expression = column->expression;
	for (uint32 i = 0; i < column->nslots; i++)
	{
		const Chunk *chunk = column->chunks[i];

		if (chunk == NULL || chunk == UNFIT)
			continue;
		row->blocks += pg_popcount64(table->ranges[i]->blocks);
		row->ranges[chunk->chunk->encoding]++;
	}
}

uint32
gpuscan_cache_report(GpuScanCacheRow *out, uint32 max)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;
	uint32 n = 0;

	hash_seq_init(&status, gpuscan_cache_tables);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		slist_iter iter;

		slist_foreach(iter, &entry->table->columns)
		{
			Column *column = slist_container(Column, node, iter.cur);

			if (column->nchunks > 0 && n < max)
				report_column(entry->table, column, &out[n++]);
		}
	}
	return n;
}
