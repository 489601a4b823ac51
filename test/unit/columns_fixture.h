/*-------------------------------------------------------------------------
 *
 * columns_fixture.h
 *	  What the tests of cached columns share: a table, and columns made of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COLUMNS_FIXTURE_H
#define GPUSCAN_COLUMNS_FIXTURE_H

#include "cpu_fixture.h"

#include "program/bytes.h"

static GpuScanDevice *device;
static uint64_t columns_limit = UINT64_C(1) << 30;
static uint64_t memory_limit = UINT64_C(4) << 30;
static bool only_fills = false;

enum
{
	C_KEY,
	C_INT,
	C_FLOAT,
	C_PRICE,
	C_TEXT,
	C_BOOL,
	C_USER,
	NUM_COLUMNS
};

static const GpuScanAttr attrs[] = {{4, 4, 0, C_KEY},	 {4, 4, 0, C_INT},	 {8, 8, 0, C_FLOAT},
									{-1, 4, 0, C_PRICE}, {-1, 4, 0, C_TEXT}, {1, 1, 0, C_BOOL},
									{4, 4, 0, C_USER}};

static const char *const words[] = {"", "a", "of", "words",
									"some longer words, too long for a word"};

/*
 * If n is odd, some tuples of each 64th block, which has no columns then, have
 * values that occur nowhere else.
 */
static inline Table *
make_table(uint32_t n, uint64_t seed)
{
	Table *table = new_table(attrs);

	for (uint32_t i = 0; i < n; i++)
	{
		uint64_t r = unit_random(&seed);
		uint8_t truth = r % 3 == 0;
		bool apart = n % 2 == 1 && table->nblocks > 0 && table->nblocks % 64 == 0 &&
					 table->blocks[table->nblocks - 1].ntuples < 30;
		Value values[NUM_COLUMNS] = {
			int4_value(apart ? 77 : (int32_t) (r % 40)),
			r % 7 == 0 ? null_value() : int4_value((int32_t) (r >> 40)),
			r % 11 == 0 ? null_value() : f64_value((double) (int64_t) r / 3),
			numeric_value(r % 2 ? V_SHORT : V_LONG, (int64_t) (r >> 20) % 100000),
			r % 13 == 0 ? null_value() : text_value(V_SHORT, words[(r >> 8) % 5]),
			fixed_value(&truth, 1),
			r % 19 == 0 ? null_value()
						: int4_value((int32_t) (apart ? 1000000 + i % 50 : (r >> 24) % 20000))};

		add_tuple(table, NUM_COLUMNS, values);
	}
	return table;
}

/* With a filter that keeps one tuple in `share`, or without one for 0 */
static inline GpuScanProgram *
make_program(int share)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t key = add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0);
	uint16_t number = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
	uint16_t f = add_input(b, C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0);
	uint16_t price = add_input(b, C_PRICE, GPUSCAN_DECODE_DEC64, 2);
	uint16_t text = add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0);
	uint16_t truth = add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0);

	if (share > 0)
		b->header.filter =
			add_instr(b, GPUSCAN_OP_I32_LT, key, add_param(b, GPUSCAN_I32, 40 / share), 0, 0);
	add_key(b, key);
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_I64, number, truth);
	add_agg(b, GPUSCAN_AGG_SUM_F64, f, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_I128, price, NO_REG);
	add_agg(b, GPUSCAN_AGG_MAX, price, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, text, NO_REG);
	return build_program(b);
}

#define MAX_INPUTS 6
#define MAX_RANGES 100

/* What a first run leaves behind */
typedef struct Columns
{
	uint32_t nranges;
	GpuScanDictionary *dictionaries[MAX_INPUTS];
	GpuScanChunk *chunks[MAX_RANGES][MAX_INPUTS];
	bool unfit[MAX_RANGES][MAX_INPUTS];
	GpuScanFill fills[MAX_RANGES];
	GpuScanBatch batches[MAX_RANGES];
	GpuScanCachedRange ranges[MAX_RANGES];
	GpuScanRows runs[MAX_RANGES][GPUSCAN_RANGE_BLOCKS];
	GpuScanCachedSegment segments[2];
} Columns;

static size_t sorted_size;

static inline int
compare_rows(const void *a, const void *b)
{
	return memcmp(a, b, sorted_size);
}

/* Ends a request's input and returns its groups in an order of their own. */
static inline Run *
finish(GpuScanRequest *request, const GpuScanProgram *program, Run *run, uint32_t nbatches)
{
	WAIT_FOR(run, run->answered == nbatches);
	device_ops->finish(request);
	WAIT_FOR(run, run->finished);
	if (run->finish_code == GPUSCAN_OK)
		fetch_all(request, program, 64 * 1024, run);
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	for (int k = 0; k < program->nkeys; k++)
	{
		const GpuScanKey *key = &GPUSCAN_KEYS(program)[k];

		for (size_t i = 0; key->cls == GPUSCAN_TEXT && i < run->nrows; i++)
		{
			uint32_t *text = (uint32_t *) (run->rows + i * run->row_size + key->offset);
			uint64_t hash = bytes_hash(run->rows + text[0], text[1]);

			memcpy(text, &hash, sizeof(hash));
		}
	}
	sorted_size = run->row_size;
	if (run->nrows > 0)
		qsort(run->rows, run->nrows, run->row_size, compare_rows);
	return run;
}

static inline GpuScanRequest *
begin(const GpuScanProgram *program, const GpuScanLayout *const *layout, Run **run)
{
	GpuScanRequestOptions options = run_options(*run = new_run(), program, layout, 1, 2);
	GpuScanRequest *request = NULL;

	options.columns_limit = columns_limit;
	options.memory_limit = memory_limit;
	options.only_fills = only_fills;
	device_ops->begin(device, &options, &request);
	return request;
}

/* Gives a request the pages, range by range, to make columns of the blocks that fill. */
static inline void
push_filling(GpuScanRequest *request, const GpuScanProgram *program, Table *table, Columns *columns)
{
	for (int i = 0; i < program->ninputs; i++)
	{
		unsigned cls = GPUSCAN_REG_CLASSES(program)[GPUSCAN_INPUTS(program)[i].reg];

		if (cls != GPUSCAN_BOOL)
			columns->dictionaries[i] = gpuscan_dictionary_create((GpuScanClass) cls);
	}
	for (uint32_t first = 0; first < table->nblocks; first += GPUSCAN_RANGE_BLOCKS)
	{
		uint32_t r = columns->nranges++;
		uint32_t left = table->nblocks - first;

		columns->fills[r] = (GpuScanFill){.dictionaries = columns->dictionaries,
										  .chunks = columns->chunks[r],
										  .unfit = columns->unfit[r]};
		columns->batches[r] = (GpuScanBatch){
			.nblocks = left < GPUSCAN_RANGE_BLOCKS ? left : GPUSCAN_RANGE_BLOCKS,
			.blocks = &table->blocks[first],
			.fill = &columns->fills[r],
		};
		device_ops->push(request, &columns->batches[r]);
	}
}

static inline Run *
run_filling(const GpuScanProgram *program, const GpuScanLayout *layout, Table *table,
			Columns *columns)
{
	Run *run;
	GpuScanRequest *request = begin(program, &layout, &run);

	push_filling(request, program, table, columns);
	return finish(request, program, run, columns->nranges);
}

static inline void
free_columns(Columns *columns)
{
	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		for (int i = 0; i < MAX_INPUTS; i++)
			device_ops->free_chunk(device, columns->chunks[r][i]);
	}
	for (int i = 0; i < MAX_INPUTS; i++)
	{
		if (columns->dictionaries[i] != NULL && device_ops->forget_dictionary != NULL)
			device_ops->forget_dictionary(device, columns->dictionaries[i]);
		gpuscan_dictionary_free(columns->dictionaries[i]);
	}
	free(columns);
}

#endif /* GPUSCAN_COLUMNS_FIXTURE_H */
