/*-------------------------------------------------------------------------
 *
 * test_cpu_cached.c
 *	  A device making columns of batches, and aggregating over them: the same
 *	  groups, to the bit, as over the pages they came from.
 *
 *-------------------------------------------------------------------------
 */
#include "columns_fixture.h"

/* By two columns of few values, one of which has NULLs, or by many users */
static GpuScanProgram *
make_keyed(bool many)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t number = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
	uint16_t f = add_input(b, C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0);
	uint16_t few = add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0);

	if (many)
		add_key(b, add_input(b, C_USER, GPUSCAN_DECODE_INT4, 0));
	else
	{
		add_key(b, add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0));
		add_key(b, add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0));
	}
	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, few, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_F64, f, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, number, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	return build_program(b);
}

/*
 * By users and a truth, so many that tuples are set apart before they are aggregated,
 * with values of all sizes; with a filter that keeps half of them, or none
 */
static GpuScanProgram *
make_binned(bool filtered)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t key = add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0);
	uint16_t f = add_input(b, C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0);
	uint16_t price = add_input(b, C_PRICE, GPUSCAN_DECODE_DEC64, 2);
	uint16_t wide = add_input(b, C_PRICE, GPUSCAN_DECODE_DEC128, 2);
	uint16_t truth = add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0);

	add_key(b, add_input(b, C_USER, GPUSCAN_DECODE_INT4, 0));
	add_key(b, truth);
	if (filtered)
		b->header.filter =
			add_instr(b, GPUSCAN_OP_I32_LT, key, add_param(b, GPUSCAN_I32, 20), 0, 0);
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_F64, f, truth);
	add_agg(b, GPUSCAN_AGG_MIN, key, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_I128, price, NO_REG);
	add_agg(b, GPUSCAN_AGG_MAX, wide, NO_REG);
	add_agg(b, GPUSCAN_AGG_BOOL_OR, truth, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, key, NO_REG);
	return build_program(b);
}

/* One group */
static GpuScanProgram *
make_total(void)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t f = add_input(b, C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0);
	uint16_t few = add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0);

	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, few, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_F64, f, add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0));
	return build_program(b);
}

/* What headers of chunks tell, with a filter for prices below a limit, or without one for 0 */
static GpuScanProgram *
make_summary(int64_t limit)
{
	static const struct
	{
		uint16_t column, decode, scale;
	} sources[] = {{C_INT, GPUSCAN_DECODE_INT4, 0},
				   {C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0},
				   {C_PRICE, GPUSCAN_DECODE_DEC64, 2},
				   {C_PRICE, GPUSCAN_DECODE_DEC128, 2}};
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t text = add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0);
	uint16_t truth = add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0);

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
	{
		uint16_t reg = add_input(b, sources[i].column, sources[i].decode, sources[i].scale);

		add_agg(b, GPUSCAN_AGG_MIN, reg, NO_REG);
		add_agg(b, GPUSCAN_AGG_MAX, reg, NO_REG);
		add_agg(b, GPUSCAN_AGG_COUNT, reg, NO_REG);
	}
	add_agg(b, GPUSCAN_AGG_COUNT, text, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	add_agg(b, GPUSCAN_AGG_BOOL_AND, truth, NO_REG);
	add_agg(b, GPUSCAN_AGG_BOOL_OR, truth, NO_REG);
	if (limit > 0)
		b->header.filter = add_instr(b, GPUSCAN_OP_I64_LT, b->inputs[4].reg,
									 add_param(b, GPUSCAN_I64, limit), 0, 0);
	return build_program(b);
}

/*
 * Aggregates columns for the blocks i with i % of < some, pages for the others.
 * Neighbours are one run, but where of == 2.  The first range comes alone: the others
 * have values that it has not.
 */
static Run *
run_cached(const GpuScanProgram *program, const GpuScanLayout *layout, Table *table,
		   Columns *columns, uint32_t some, uint32_t of)
{
	Run *run;
	GpuScanRequest *request = begin(program, &layout, &run);
	GpuScanBatch *batches = calloc(table->nblocks, sizeof(GpuScanBatch));
	uint32_t nbatches = 0;

	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		GpuScanCachedRange *range = &columns->ranges[r];
		uint32_t row = 0;

		*range = (GpuScanCachedRange){.nblocks = columns->batches[r].nblocks,
									  .runs = columns->runs[r],
									  .chunks = (const GpuScanChunk *const *) columns->chunks[r],
									  .dictionaries =
										  (const GpuScanDictionary *const *) columns->dictionaries};
		for (uint32_t i = 0; i < columns->batches[r].nblocks; i++)
		{
			GpuScanBlock *block = &table->blocks[r * GPUSCAN_RANGE_BLOCKS + i];
			GpuScanRows *last = range->nruns > 0 ? &columns->runs[r][range->nruns - 1] : NULL;

			if (i % of >= some || !block->fills)
				batches[nbatches++] = (GpuScanBatch){.nblocks = 1, .blocks = block};
			else if (of != 2 && last != NULL && last->first + last->n == row)
				last->n += (uint16_t) block->ntuples;
			else
				columns->runs[r][range->nruns++] =
					(GpuScanRows){(uint16_t) row, (uint16_t) block->ntuples};
			row += block->fills ? block->ntuples : 0;
		}
	}
	columns->segments[0] = (GpuScanCachedSegment){.nranges = 1, .ranges = columns->ranges};
	columns->segments[1] =
		(GpuScanCachedSegment){.nranges = columns->nranges - 1, .ranges = columns->ranges + 1};
	for (int i = 0; i < 2; i++)
		device_ops->push_cached(request, &(GpuScanCachedSegment *){&columns->segments[i]}, 1);
	for (uint32_t i = 0; i < nbatches; i++)
		device_ops->push(request, &batches[i]);
	finish(request, program, run, nbatches);
	for (int i = 0; i < 2; i++)
		device_ops->forget_segment(device, &columns->segments[i]);
	free(batches);
	return run;
}

static bool
same(const Run *a, const Run *b)
{
	return a->finish_code == GPUSCAN_OK && b->finish_code == GPUSCAN_OK && a->nrows == b->nrows &&
		   memcmp(a->rows, b->rows, a->nrows * a->row_size) == 0 &&
		   a->stats.tuples == b->stats.tuples && a->stats.passed == b->stats.passed;
}

/* With so much memory for requests over columns */
static void
test_limited(uint32_t n, GpuScanProgram *program, uint64_t limit, const char *name)
{
	static const uint32_t parts[][2] = {{1, 1}, {2, 2}, {1, 2}, {2, 3}, {1, 7}, {63, 64}};
	Table *table = make_table(n, n);
	GpuScanLayout *layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	Columns *columns = calloc(1, sizeof(Columns));
	Run *expected;

	for (uint32_t i = 0; i < table->nblocks; i++)
		table->blocks[i].fills = n % 2 == 0 || i % 64 != 63;
	expected = run_filling(program, layout, table, columns);
	ok(expected->finish_code == GPUSCAN_OK && expected->nrows > 0, "%u tuples from pages", n);
	for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
	{
		uint64_t saved = memory_limit;
		Run *run;

		memory_limit = limit;
		run = run_cached(program, layout, table, columns, parts[p][0], parts[p][1]);
		memory_limit = saved;
		ok(same(run, expected), "%u tuples, %u in %u blocks from columns, %s", n, parts[p][0],
		   parts[p][1], name);
		release(run);
	}
	release(expected);
	free_columns(columns);
	free(program);
	free(layout);
	free_table(table);
}

static void
test_columns(uint32_t n, GpuScanProgram *program, const char *name)
{
	test_limited(n, program, memory_limit, name);
}

/* A filter that no range passes */
static void
test_skipped_ranges(void)
{
	Table *table = make_table(30000, 7);
	GpuScanLayout *layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	GpuScanProgram *program = make_program(100);
	Columns *columns = calloc(1, sizeof(Columns));
	Run *run;

	for (uint32_t i = 0; i < table->nblocks; i++)
		table->blocks[i].fills = true;
	release(run_filling(program, layout, table, columns));
	run = run_cached(program, layout, table, columns, 1, 1);
	ok(run->nrows == 0 && run->stats.tuples == 0 && run->stats.blocks_skipped == table->nblocks,
	   "ranges are skipped and counted");
	release(run);
	free_columns(columns);
	free(program);
	free(layout);
	free_table(table);
}

/* Blocks that do not fill, and inputs that cannot be cached */
static void
test_unfit(void)
{
	Table *table = make_table(20000, 5);
	GpuScanLayout *layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	GpuScanProgram *program = make_program(0);
	Columns *columns = calloc(1, sizeof(Columns));
	Value toasted[NUM_COLUMNS] = {int4_value(1),
								  int4_value(1),
								  f64_value(1),
								  numeric_value(V_SHORT, 1),
								  text_value(V_EXTERNAL, "x"),
								  null_value()};
	uint32_t ntuples = 0;
	Run *run;

	add_tuple(table, NUM_COLUMNS, toasted);
	for (uint32_t i = 0; i < table->nblocks; i++)
	{
		table->blocks[i].fills = i % 3 != 0 || i == table->nblocks - 1;
		ntuples +=
			i < GPUSCAN_RANGE_BLOCKS && table->blocks[i].fills ? table->blocks[i].ntuples : 0;
	}
	run = run_filling(program, layout, table, columns);
	ok(run->ndeferred == 1, "a toasted value is deferred");
	for (int i = 0; i < MAX_INPUTS; i++)
	{
		uint32_t last = columns->nranges - 1;
		bool is_text = GPUSCAN_INPUTS(program)[i].decode == GPUSCAN_DECODE_TEXT;

		ok(columns->chunks[0][i] != NULL && columns->chunks[0][i]->nrows == ntuples,
		   "input %d of the blocks that fill", i);
		ok(columns->unfit[last][i] == is_text && (columns->chunks[last][i] == NULL) == is_text,
		   "input %d beside a toasted value", i);
	}
	release(run);
	free_columns(columns);
	free(program);
	free(layout);
	free_table(table);
}

/*
 * Headers that lie show where they are believed: of whole ranges, by Programs that
 * need no more, on the cpu device, for which reading columns takes longer.
 */
static void
test_summary(void)
{
	Table *table = make_table(30000, 7);
	GpuScanLayout *layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	GpuScanProgram *programs[] = {make_summary(0), make_total(), make_summary(INT64_MAX)};

	for (int p = 0; p < 3; p++)
	{
		Columns *columns = calloc(1, sizeof(Columns));
		Run *expected;
		Run *whole;
		Run *part;

		for (uint32_t i = 0; i < table->nblocks; i++)
			table->blocks[i].fills = true;
		expected = run_filling(programs[p], layout, table, columns);
		for (int i = 0; i < programs[p]->ninputs; i++)
		{
			columns->chunks[0][i]->max[0] ^= 3;
			columns->chunks[0][i]->max[1]++;
		}
		whole = run_cached(programs[p], layout, table, columns, 1, 1);
		part = run_cached(programs[p], layout, table, columns, 1, 2);
		ok(same(whole, expected) == (p == 1 || device_ops != &gpuscan_cpu_device),
		   "headers are believed, Program %d", p);
		ok(same(part, expected), "but not of a part of a range, Program %d", p);
		release(whole);
		release(part);
		release(expected);
		free_columns(columns);
		free(programs[p]);
	}
	free(layout);
	free_table(table);
}

/* A filter over values 10 .. 20, or NULLs alone */
static void
test_skip(void)
{
	static const struct
	{
		GpuScanOp op;
		int32_t low, high;		   /* the constants for which some value passes */
		int32_t all_low, all_high; /* all do; of NE, none is between them */
	} comparisons[] = {
		{GPUSCAN_OP_I32_EQ, 10, 20, 100, -100}, {GPUSCAN_OP_I32_LT, 11, 99, 21, 99},
		{GPUSCAN_OP_I32_LE, 10, 99, 20, 99},	{GPUSCAN_OP_I32_GT, -99, 19, -99, 9},
		{GPUSCAN_OP_I32_GE, -99, 20, -99, 10},	{GPUSCAN_OP_I32_NE, -99, 99, 10, 20}};
	int32_t values[11];
	uint8_t nulls[11];
	const GpuScanChunk *chunk;
	const GpuScanChunk *no_values;
	const GpuScanChunk *some_nulls;

	for (int i = 0; i < 11; i++)
		values[i] = 10 + i;
	memset(nulls, GPUSCAN_NULL, sizeof(nulls));
	chunk = gpuscan_columns_encode(GPUSCAN_I32, values, NULL, 11, NULL);
	no_values = gpuscan_columns_encode(GPUSCAN_I32, values, nulls, 11, NULL);
	memset(nulls, 0, 10);
	some_nulls = gpuscan_columns_encode(GPUSCAN_I32, values, nulls, 11, NULL);
	for (size_t c = 0; c < sizeof(comparisons) / sizeof(comparisons[0]); c++)
	{
		int wrong = 0;

		for (int32_t constant = -99; constant <= 99; constant++)
		{
			Builder *b = new_builder(NUM_COLUMNS, true);
			uint16_t input = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
			uint16_t param = add_param(b, GPUSCAN_I32, constant);
			uint16_t simple = add_instr(b, comparisons[c].op, input, param, 0, 0);
			uint16_t division =
				add_instr(b, GPUSCAN_OP_I32_EQ, input,
						  add_instr(b, GPUSCAN_OP_INT4_DIV, input, param, 0, 0), 0, 0);
			uint16_t filters[5] = {simple, add_instr(b, GPUSCAN_OP_AND, simple, simple, 0, 0),
								   add_instr(b, GPUSCAN_OP_OR, simple, division, 0, 0),
								   add_instr(b, GPUSCAN_OP_IS_NULL, input, 0, 0, 0),
								   add_instr(b, GPUSCAN_OP_IS_NOT_NULL, input, 0, 0, 0)};
			bool all =
				(constant >= comparisons[c].all_low && constant <= comparisons[c].all_high) !=
				(comparisons[c].op == GPUSCAN_OP_I32_NE);
			bool some = constant >= comparisons[c].low && constant <= comparisons[c].high;
			GpuScanProgram *program = build_program(b);

			for (int f = 0; f < 3; f++)
			{
				program->filter = filters[f];
				wrong += gpuscan_columns_may_pass(program, &chunk) != (some || f == 2);
				wrong += gpuscan_columns_may_pass(program, &no_values) != (f == 2);
				wrong += gpuscan_columns_all_pass(program, &chunk) != (all && f != 2);
				wrong += gpuscan_columns_all_pass(program, &no_values);
				wrong += gpuscan_columns_all_pass(program, &some_nulls);
			}
			program->filter = filters[3];
			wrong += gpuscan_columns_may_pass(program, &chunk);
			wrong += !gpuscan_columns_all_pass(program, &no_values);
			wrong += !gpuscan_columns_may_pass(program, &some_nulls);
			wrong += gpuscan_columns_all_pass(program, &some_nulls);
			program->filter = filters[4];
			wrong += gpuscan_columns_may_pass(program, &no_values);
			wrong += !gpuscan_columns_all_pass(program, &chunk);
			wrong += !gpuscan_columns_may_pass(program, &some_nulls);
			wrong += gpuscan_columns_all_pass(program, &some_nulls);
			free(program);
		}
		ok(wrong == 0, "ranges skipped, or taken whole, by comparison %zu", c);
	}
	free((void *) chunk);
	free((void *) no_values);
	free((void *) some_nulls);
}

int
main(void)
{
	device = open_device(4);
	test_columns(1, make_program(0), "no filter");
	test_columns(1024, make_program(0), "no filter");
	test_columns(30000, make_program(0), "no filter");
	test_columns(30000, make_program(2), "half of them");
	test_columns(30000, make_program(20), "one in 20");
	test_columns(170000, make_program(2), "half of many");
	test_columns(30001, make_keyed(false), "by texts");
	test_columns(30001, make_total(), "one group");
	test_columns(1, make_summary(0), "from headers");
	test_columns(30000, make_summary(0), "from headers");
	test_columns(30001, make_summary(0), "from headers");
	test_columns(30000, make_summary(99990), "some from headers");
	test_columns(170000, make_keyed(true), "many groups");
	test_columns(170001, make_keyed(true), "many groups, some of which have no columns");
	for (int filtered = 0; filtered < 2; filtered++)
	{
		test_columns(170000, make_binned(filtered), "in bins");
		test_columns(170001, make_binned(filtered), "in bins, or outside");
		test_limited(170001, make_binned(filtered), UINT64_C(48) << 20,
					 "in bins that are emptied in between");
	}
	test_skipped_ranges();
	test_summary();
	test_unfit();
	test_skip();
	device_ops->close(device);
	return done_testing();
}
