/*-------------------------------------------------------------------------
 *
 * test_cpu_scan.c
 *	  The cpu device decoding tuples and filtering them: hand-made pages with
 *	  every kind of attribute, batch boundaries, flags, corruption, and requests
 *	  that end in the middle.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_fixture.h"

#include <unistd.h>

static GpuScanDevice *device;

/* a bool, an int2 ... each column's type as a GpuScanAttr needs it */
enum
{
	C_BOOL,
	C_INT2,
	C_INT4,
	C_INT8,
	C_FLOAT4,
	C_FLOAT8,
	C_TEXT,
	C_NUMERIC,
	C_LAST,
	NUM_COLUMNS
};

/* with a dropped varlena, a cstring, and a dropped bigint in between */
static const GpuScanAttr mixed[] = {{1, 1, 0, C_BOOL},	 {2, 2, 0, C_INT2},	  {8, 8, 0, C_INT8},
									{4, 4, 0, C_FLOAT4}, {8, 8, 0, C_FLOAT8}, {-1, 4, 0, -1},
									{4, 4, 0, C_INT4},	 {-2, 1, 0, -1},	  {-1, 4, 0, C_TEXT},
									{8, 8, 0, -1},		 {-1, 8, 0, -1},	  {-1, 4, 0, C_NUMERIC},
									{4, 4, 0, C_LAST}};
#define NUM_MIXED 13

/* a tuple of `mixed` whose columns have the values that mixed_program looks for */
static void
mixed_values(Value *values)
{
	const char yes = 1;
	const int16_t int2 = -300;
	const float float4 = 1.5f;

	values[0] = fixed_value(&yes, 1);
	values[1] = fixed_value(&int2, 2);
	values[2] = int8_value(INT64_C(-5000000000));
	values[3] = fixed_value(&float4, 4);
	values[4] = f64_value(0.1);
	values[5] = text_value(V_SHORT, "dropped");
	values[6] = int4_value(77);
	values[7] = text_value(V_CSTRING, "c string");
	values[8] = text_value(V_SHORT, "needle");
	values[9] = int8_value(1);
	values[10] = text_value(V_LONG, "dropped, too");
	values[11] = numeric_value(V_SHORT, -1234567);
	values[12] = int4_value(9);
}

/* WHERE every column = its value */
static GpuScanProgram *
mixed_program(void)
{
	Builder *b = new_builder(NUM_COLUMNS, false);
	uint16_t equal[NUM_COLUMNS];
	uint16_t reg;

	equal[C_BOOL] = add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0);
	reg = add_input(b, C_INT2, GPUSCAN_DECODE_INT2, 0);
	equal[C_INT2] = add_instr(b, GPUSCAN_OP_I32_EQ, reg, add_param(b, GPUSCAN_I32, -300), 0, 0);
	reg = add_input(b, C_INT4, GPUSCAN_DECODE_INT4, 0);
	equal[C_INT4] = add_instr(b, GPUSCAN_OP_I32_EQ, reg, add_param(b, GPUSCAN_I32, 77), 0, 0);
	reg = add_input(b, C_INT8, GPUSCAN_DECODE_INT8, 0);
	equal[C_INT8] =
		add_instr(b, GPUSCAN_OP_I64_EQ, reg, add_param(b, GPUSCAN_I64, INT64_C(-5000000000)), 0, 0);
	reg = add_instr(b, GPUSCAN_OP_F32_TO_F64, add_input(b, C_FLOAT4, GPUSCAN_DECODE_FLOAT4, 0), 0,
					0, 0);
	equal[C_FLOAT4] = add_instr(b, GPUSCAN_OP_F64_EQ, reg, add_f64(b, 1.5), 0, 0);
	reg = add_input(b, C_FLOAT8, GPUSCAN_DECODE_FLOAT8, 0);
	equal[C_FLOAT8] = add_instr(b, GPUSCAN_OP_F64_EQ, reg, add_f64(b, 0.1), 0, 0);
	reg = add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0);
	equal[C_TEXT] = add_instr(b, GPUSCAN_OP_TEXT_EQ, reg, add_text(b, "needle"), 0, 0);
	reg = add_input(b, C_NUMERIC, GPUSCAN_DECODE_DEC64, 2);
	reg = add_instr(b, GPUSCAN_OP_I64_EQ, reg, add_param(b, GPUSCAN_I64, -1234567), 0, 0);
	equal[C_NUMERIC] = add_instr(b, GPUSCAN_OP_AND, reg,
								 add_instr(b, GPUSCAN_OP_I128_EQ,
										   add_input(b, C_NUMERIC, GPUSCAN_DECODE_DEC128, 3),
										   add_param(b, GPUSCAN_I128, -12345670), 0, 0),
								 0, 0);
	reg = add_input(b, C_LAST, GPUSCAN_DECODE_INT4, 0);
	equal[C_LAST] = add_instr(b, GPUSCAN_OP_I32_EQ, reg, add_param(b, GPUSCAN_I32, 9), 0, 0);

	b->header.filter = equal[0];
	for (int i = 1; i < NUM_COLUMNS; i++)
		b->header.filter = add_instr(b, GPUSCAN_OP_AND, b->header.filter, equal[i], 0, 0);
	return build_program(b);
}

/* Puts n tuples through a scan; the outcome of the i-th is in its table's blocks. */
static GpuScanCode
scan(const GpuScanProgram *program, const GpuScanLayout *layout, Table *table,
	 GpuScanRequestStats *stats)
{
	Run *run = run_table(device, program, layout, table, 0);
	GpuScanCode code = run->batch_code;

	if (stats != NULL)
		*stats = run->stats;
	release(run);
	return code;
}

static uint8_t
outcome(const Table *table, uint32_t i)
{
	for (uint32_t b = 0; b < table->nblocks; b++)
	{
		if (i < table->blocks[b].ntuples)
			return table->blocks[b].outcome[i];
		i -= table->blocks[b].ntuples;
	}
	return 99;
}

static void
test_decoding(void)
{
	GpuScanProgram *program = mixed_program();
	GpuScanLayout *layout = new_layout(mixed, NUM_MIXED, NUM_COLUMNS, NULL);
	const char *reason = "";
	Table *table = new_table(mixed);
	Value values[NUM_MIXED];
	const int changes[] = {0, 1, 2, 3, 4, 6, 8, 11, 12};
	const int ignored[] = {5, 7, 9, 10};
	uint32_t n = 0;
	int wrong = 0;

	ok(gpuscan_layout_check(layout, layout->size, program, &reason),
	   "the layout is well formed: %s", reason);

	/* texts of every length before an aligned attribute, in both forms */
	for (int len = 0; len < 120; len++, n++)
	{
		mixed_values(values);
		values[5] = text_value(len % 2 ? V_SHORT : V_LONG, "");
		values[5].len = (uint32_t) len;
		values[10].kind = len % 3 ? V_SHORT : V_LONG;
		values[8].kind = len % 5 ? V_SHORT : V_LONG;
		values[11].kind = len % 7 ? V_SHORT : V_LONG;
		add_tuple(table, NUM_MIXED, values);
	}
	scan(program, layout, table, NULL);
	for (uint32_t i = 0; i < n; i++)
		wrong += outcome(table, i) != GPUSCAN_TUPLE_PASSED;
	ok(wrong == 0, "every column decodes behind texts of 120 lengths (%d wrong)", wrong);
	free_table(table);

	/* NULL in what the Program does not read, with tuples without NULLs between */
	table = new_table(mixed);
	for (int mask = 0; mask < 16; mask++)
	{
		mixed_values(values);
		for (int i = 0; i < 4; i++)
			values[ignored[i]] = mask & (1 << i) ? null_value() : values[ignored[i]];
		add_tuple(table, NUM_MIXED, values);
	}
	scan(program, layout, table, NULL);
	wrong = 0;
	for (uint32_t i = 0; i < 16; i++)
		wrong += outcome(table, i) != GPUSCAN_TUPLE_PASSED;
	ok(wrong == 0, "NULLs in columns that are not read (%d wrong)", wrong);
	free_table(table);

	/* each column changed, then NULL */
	table = new_table(mixed);
	for (int i = 0; i < 9; i++)
	{
		mixed_values(values);
		/* of the numeric a digit that leaves its scale as it is */
		values[changes[i]].data[changes[i] == 11 ? 2 : values[changes[i]].len - 1] ^= 1;
		add_tuple(table, NUM_MIXED, values);
		values[changes[i]] = null_value();
		add_tuple(table, NUM_MIXED, values);
	}
	scan(program, layout, table, NULL);
	wrong = 0;
	for (uint32_t i = 0; i < 18; i++)
		wrong += outcome(table, i) != GPUSCAN_TUPLE_REJECTED;
	ok(wrong == 0, "another value, or NULL, in each column (%d wrong)", wrong);
	free_table(table);

	/* toasted values */
	table = new_table(mixed);
	mixed_values(values);
	values[5].kind = V_EXTERNAL;
	values[10].kind = V_COMPRESSED;
	add_tuple(table, NUM_MIXED, values);
	mixed_values(values);
	values[8].kind = V_COMPRESSED;
	add_tuple(table, NUM_MIXED, values);
	mixed_values(values);
	values[11].kind = V_EXTERNAL;
	values[5] = null_value();
	add_tuple(table, NUM_MIXED, values);
	mixed_values(values);
	add_tuple(table, NUM_MIXED, values);
	GpuScanRequestStats stats;

	scan(program, layout, table, &stats);
	ok(outcome(table, 0) == GPUSCAN_TUPLE_PASSED, "a toasted value that is not read");
	ok(outcome(table, 1) == GPUSCAN_TUPLE_DEFERRED, "a compressed value is deferred");
	ok(outcome(table, 2) == GPUSCAN_TUPLE_DEFERRED, "an external value is deferred");
	ok(outcome(table, 3) == GPUSCAN_TUPLE_PASSED, "its neighbour is not");
	ok(stats.tuples == 2 && stats.passed == 2, "deferred tuples are not counted");
	free_table(table);
}

static void
test_missing(void)
{
	GpuScanProgram *program = mixed_program();
	const char text[] = {7 << 1 | 1, 'n', 'e', 'e', 'd', 'l', 'e'};
	const Value number = numeric_value(V_SHORT, -1234567);
	const int32_t nine = 9;
	char numeric[16];
	Missing missing[NUM_COLUMNS] = {{NULL, 0}};
	GpuScanLayout *layout;
	Table *table = new_table(mixed);
	Value values[NUM_MIXED];
	int wrong = 0;

	numeric[0] = (char) ((number.len + 1) << 1 | 1);
	memcpy(numeric + 1, number.data, number.len);
	missing[C_TEXT] = (Missing){text, sizeof(text)};
	missing[C_NUMERIC] = (Missing){numeric, number.len + 1};
	missing[C_LAST] = (Missing){&nine, sizeof(nine)};
	layout = new_layout(mixed, NUM_MIXED, NUM_COLUMNS, missing);

	mixed_values(values);
	for (int natts = 0; natts <= NUM_MIXED; natts++)
		add_tuple(table, natts, values);
	values[7] = null_value();
	add_tuple(table, 8, values);
	scan(program, layout, table, NULL);
	for (int natts = 0; natts <= NUM_MIXED; natts++)
		wrong += outcome(table, (uint32_t) natts) !=
				 (natts >= 7 ? GPUSCAN_TUPLE_PASSED : GPUSCAN_TUPLE_REJECTED);
	ok(wrong == 0, "missing attributes have their values, or are NULL (%d wrong)", wrong);
	ok(outcome(table, NUM_MIXED + 1) == GPUSCAN_TUPLE_PASSED, "the same beside a NULL");
	free_table(table);
}

static const GpuScanAttr ints[] = {{4, 4, 0, 0}, {4, 4, 0, 1}};

/* WHERE a % 3 = 0 */
static GpuScanProgram *
third_program(void)
{
	Builder *b = new_builder(2, false);
	uint16_t a = add_input(b, 0, GPUSCAN_DECODE_INT4, 0);
	uint16_t rest = add_instr(b, GPUSCAN_OP_INT4_MOD, a, add_param(b, GPUSCAN_I32, 3), 0, 0);

	b->header.filter = add_instr(b, GPUSCAN_OP_I32_EQ, rest, add_param(b, GPUSCAN_I32, 0), 0, 0);
	return build_program(b);
}

static void
test_boundaries(void)
{
	const uint32_t counts[] = {0, 1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 10000};
	GpuScanProgram *program = third_program();
	GpuScanLayout *layout = new_layout(ints, 2, 2, NULL);

	for (int c = 0; c < 10; c++)
	{
		Table *table = new_table(ints);
		GpuScanRequestStats stats;
		int wrong = 0;

		add_page(table);
		for (uint32_t i = 0; i < counts[c]; i++)
		{
			Value values[2] = {int4_value((int32_t) i), null_value()};

			add_tuple(table, 1 + (i % 5 == 0), values);
		}
		scan(program, layout, table, &stats);
		for (uint32_t i = 0; i < counts[c]; i++)
			wrong +=
				outcome(table, i) != (i % 3 == 0 ? GPUSCAN_TUPLE_PASSED : GPUSCAN_TUPLE_REJECTED);
		ok(wrong == 0 && stats.tuples == counts[c] && stats.passed == (counts[c] + 2) / 3,
		   "%u tuples (%d wrong)", counts[c], wrong);
		free_table(table);
	}
}

static void
test_staged(void)
{
	GpuScanProgram *program = third_program();
	GpuScanLayout *layout = new_layout(ints, 2, 2, NULL);
	char *memory = aligned_alloc(8, 4096);
	GpuScanStagedTuple staged[50];
	uint8_t outcomes[50];
	GpuScanBlock block = {.base = memory, .ntuples = 50, .staged = staged, .outcome = outcomes};
	Table table = {.attrs = ints, .nblocks = 1, .blocks = &block};
	int wrong = 0;

	memset(memory, 0, 4096);
	for (int i = 0; i < 50; i++)
	{
		Value values[2] = {int4_value(i), int4_value(1)};

		staged[i].offset = (uint32_t) i * 64;
		staged[i].len = form_tuple(memory + i * 64, ints, 2, values);
	}
	block.size = staged[49].offset + staged[49].len;
	staged[30].offset += 4;
	staged[33].len = 4000;
	scan(program, layout, &table, NULL);
	for (int i = 0; i < 50; i++)
	{
		uint8_t expected = i % 3 == 0 ? GPUSCAN_TUPLE_PASSED : GPUSCAN_TUPLE_REJECTED;

		wrong += outcomes[i] != (i == 30 || i == 33 ? GPUSCAN_TUPLE_RECHECK : expected);
	}
	ok(wrong == 0, "staged tuples, two of them misplaced (%d wrong)", wrong);
	free(memory);
}

/*
 * A value of column `column`: 0 false, 1 true, NULL NULL, 2 an error
 */
static uint16_t
add_four_valued(Builder *b, int column)
{
	uint16_t x = add_input(b, column, GPUSCAN_DECODE_INT4, 0);
	uint16_t one = add_param(b, GPUSCAN_I32, 1);
	uint16_t left = add_instr(b, GPUSCAN_OP_INT4_SUB, add_param(b, GPUSCAN_I32, 2), x, 0, 0);
	uint16_t quotient = add_instr(b, GPUSCAN_OP_INT4_DIV, one, left, 0, 0);

	return add_instr(b, GPUSCAN_OP_I32_EQ, quotient, one, 0, 0);
}

/* One letter for each of the 16 pairs of values F, T, N, E of a and b: the outcome's */
static void
check_flags(GpuScanProgram *program, const char *expected, const char *name)
{
	static const char letters[] = {[GPUSCAN_TUPLE_REJECTED] = '-',
								   [GPUSCAN_TUPLE_PASSED] = 'T',
								   [GPUSCAN_TUPLE_RECHECK] = 'E'};
	GpuScanLayout *layout = new_layout(ints, 2, 2, NULL);
	Table *table = new_table(ints);
	const int32_t codes[] = {0, 1, -1, 2};
	char got[17] = {0};

	for (int i = 0; i < 16; i++)
	{
		Value values[2];

		for (int k = 0; k < 2; k++)
		{
			int32_t code = codes[k == 0 ? i / 4 : i % 4];

			values[k] = code < 0 ? null_value() : int4_value(code);
		}
		add_tuple(table, 2, values);
	}
	scan(program, layout, table, NULL);
	for (uint32_t i = 0; i < 16; i++)
		got[i] = letters[outcome(table, i)];
	ok(strcmp(got, expected) == 0, "%s: %s", name, got);
	free_table(table);
}

/* op(a, b, c), where c stands for a = b unless the operation needs no third */
static GpuScanProgram *
flags_program(GpuScanOp op, bool not )
{
	Builder *b = new_builder(2, false);
	uint16_t x = add_four_valued(b, 0);
	uint16_t y = add_four_valued(b, 1);
	uint16_t z = add_param(b, GPUSCAN_BOOL, 1);

	b->header.filter = add_instr(b, op, x, y, z, 0);
	if (not )
		b->header.filter = add_instr(b, GPUSCAN_OP_NOT, b->header.filter, 0, 0, 0);
	return build_program(b);
}

static void
test_flags(void)
{
	Builder *b;
	uint16_t reg;
	const int32_t members[] = {0, 1};

	/* rows: a = F, T, N, E; columns: b the same */
	check_flags(flags_program(GPUSCAN_OP_AND, false), "-----T-E---EEEEE", "AND");
	check_flags(flags_program(GPUSCAN_OP_AND, true), "TTTTT--ET--EEEEE", "NOT AND");
	check_flags(flags_program(GPUSCAN_OP_OR, false), "-T-ETTTT-T-EEEEE", "OR");
	check_flags(flags_program(GPUSCAN_OP_OR, true), "T--E-------EEEEE", "NOT OR");
	check_flags(flags_program(GPUSCAN_OP_IS_NULL, false), "--------TTTTEEEE", "IS NULL");
	check_flags(flags_program(GPUSCAN_OP_IS_NOT_NULL, false), "TTTTTTTT----EEEE", "IS NOT NULL");
	check_flags(flags_program(GPUSCAN_OP_IS_TRUE, false), "----TTTT----EEEE", "IS TRUE");
	check_flags(flags_program(GPUSCAN_OP_IS_NOT_TRUE, false), "TTTT----TTTTEEEE", "IS NOT TRUE");
	check_flags(flags_program(GPUSCAN_OP_IS_FALSE, false), "TTTT--------EEEE", "IS FALSE");
	check_flags(flags_program(GPUSCAN_OP_IS_NOT_FALSE, false), "----TTTTTTTTEEEE", "IS NOT FALSE");
	check_flags(flags_program(GPUSCAN_OP_IS_DISTINCT, false), "TTTETTTETT-EEEEE", "IS DISTINCT");
	check_flags(flags_program(GPUSCAN_OP_SELECT_BOOL, false), "TTTT-T-ETTTTEEEE",
				"CASE WHEN a THEN b ELSE true");
	check_flags(flags_program(GPUSCAN_OP_COALESCE_BOOL, false), "----TTTT-T-EEEEE", "COALESCE");
	check_flags(flags_program(GPUSCAN_OP_NULLIF_BOOL, false), "---ET-TE---EEEEE", "NULLIF");

	b = new_builder(2, false);
	reg = add_instr(b, GPUSCAN_OP_LEAST_I32, add_input(b, 0, GPUSCAN_DECODE_INT4, 0),
					add_input(b, 1, GPUSCAN_DECODE_INT4, 0), 0, 0);
	b->header.filter = add_instr(b, GPUSCAN_OP_I32_GE, reg, add_param(b, GPUSCAN_I32, 1), 0, 0);
	check_flags(build_program(b), "-----TTT-T-T-TTT", "least(a, b) >= 1");

	for (int has_null = 0; has_null < 2; has_null++)
	{
		b = new_builder(2, false);
		reg = add_input(b, 0, GPUSCAN_DECODE_INT4, 0);
		reg = add_instr(b, GPUSCAN_OP_ANY_EQ_I32, reg, 0, 0,
						add_set(b, GPUSCAN_I32, members, 2, has_null));
		b->header.filter = add_instr(b, GPUSCAN_OP_NOT, reg, 0, 0, 0);
		check_flags(build_program(b), has_null ? "----------------" : "------------TTTT",
					has_null ? "a NOT IN (0, 1, NULL)" : "a NOT IN (0, 1)");
	}
	b = new_builder(2, false);
	reg = add_instr(b, GPUSCAN_OP_ANY_EQ_I32, add_input(b, 0, GPUSCAN_DECODE_INT4, 0), 0, 0,
					add_set(b, GPUSCAN_I32, members, 0, false));
	b->header.filter = add_instr(b, GPUSCAN_OP_NOT, reg, 0, 0, 0);
	check_flags(build_program(b), "TTTTTTTTTTTTTTTT", "NOT a = ANY ('{}')");
}

/* A value made of a column's, by lists for 0, 1 and NULL, or for two texts and NULL */
static void
test_lists(void)
{
	static const int32_t numbers[] = {0, 1};
	static const uint8_t bools[] = {1, 0, 1};
	static const uint8_t flags[] = {0, GPUSCAN_NULL, 0};
	static const uint8_t errors[] = {0, GPUSCAN_ERROR, 0};
	static const int64_t i64s[] = {7, 0, -7};
	static const double f64s[] = {1.5, 0, 2.5};
	static const char *const texts[] = {"o'k", "other", "neither"};
	Builder *b = new_builder(2, false);
	uint16_t at = add_instr(b, GPUSCAN_OP_FIND_I32, add_input(b, 0, GPUSCAN_DECODE_INT4, 0), 0, 0,
							add_set(b, GPUSCAN_I32, numbers, 2, false));

	b->header.filter =
		add_instr(b, GPUSCAN_OP_TAKE_BOOL, at, 0, 0, add_list(b, GPUSCAN_BOOL, bools, flags, 3));
	check_flags(build_program(b), "TTTT----TTTTEEEE", "f(a)");

	b = new_builder(2, false);
	at = add_instr(
		b, GPUSCAN_OP_FIND_I64,
		add_instr(b, GPUSCAN_OP_I32_TO_I64, add_input(b, 0, GPUSCAN_DECODE_INT4, 0), 0, 0, 0), 0, 0,
		add_set(b, GPUSCAN_I64, (const int64_t[]){0, 1}, 2, false));
	b->header.filter = add_instr(
		b, GPUSCAN_OP_I64_EQ,
		add_instr(b, GPUSCAN_OP_TAKE_I64, at, 0, 0, add_list(b, GPUSCAN_I64, i64s, errors, 3)),
		add_param(b, GPUSCAN_I64, -7), 0, 0);
	check_flags(build_program(b), "----EEEETTTTEEEE", "f(a) = -7");

	b = new_builder(2, false);
	at = add_instr(b, GPUSCAN_OP_COALESCE_I32, add_input(b, 0, GPUSCAN_DECODE_INT4, 0),
				   add_param(b, GPUSCAN_I32, -1), 0, 0);
	b->header.filter = add_instr(
		b, GPUSCAN_OP_F64_EQ,
		add_instr(b, GPUSCAN_OP_TAKE_F64, at, 0, 0, add_list(b, GPUSCAN_F64, f64s, errors, 2)),
		add_f64(b, 1.5), 0, 0);
	check_flags(build_program(b), "TTTTEEEEEEEEEEEE", "a number that is not of the list");

	for (int i = 0; i < 3; i++)
	{
		uint32_t members[4];
		uint32_t made[6];

		b = new_builder(2, false);
		for (int t = 0; t < 3; t++)
		{
			made[2 * t] = add_blob(b, texts[t], strlen(texts[t]));
			made[2 * t + 1] = (uint32_t) strlen(texts[t]);
		}
		memcpy(members, made, sizeof(members));
		at = add_instr(b, GPUSCAN_OP_FIND_TEXT, add_text(b, texts[i]), 0, 0,
					   add_text_set(b, members, 2));
		b->header.filter =
			add_instr(b, GPUSCAN_OP_TEXT_EQ,
					  add_instr(b, GPUSCAN_OP_TAKE_TEXT, at, 0, 0,
								add_list(b, GPUSCAN_TEXT, made + 2, (const uint8_t[3]){0}, 2)),
					  add_text(b, "other"), 0, 0);
		check_flags(build_program(b),
					i == 0	 ? "TTTTTTTTTTTTTTTT"
					: i == 1 ? "----------------"
							 : "EEEEEEEEEEEEEEEE",
					texts[i]);
	}
}

/* Every outcome is one, and nothing is read out of bounds (ASan watches). */
static void
test_corruption(void)
{
	GpuScanProgram *program = mixed_program();
	GpuScanLayout *layout = new_layout(mixed, NUM_MIXED, NUM_COLUMNS, NULL);
	uint64_t seed = 42;
	Table *table = new_table(mixed);
	Value values[NUM_MIXED];
	char good[PAGE_SIZE];
	int wrong = 0;
	int rechecked = 0;

	for (int i = 0; table->nblocks < 2; i++)
	{
		mixed_values(values);
		if (i % 3 == 0)
			values[i % NUM_MIXED] = null_value();
		if (i % 4 == 0)
			values[8].kind = V_LONG;
		add_tuple(table, i % 11 == 0 ? NUM_MIXED - 1 : NUM_MIXED, values);
	}
	table->nblocks = 1;
	memcpy(good, table->blocks[0].base, PAGE_SIZE);
	for (int round = 0; round < ROUNDS(3000); round++)
	{
		char *page = (char *) table->blocks[0].base;
		uint64_t flips = 1 + unit_random(&seed) % 40;

		memcpy(page, good, PAGE_SIZE);
		for (uint64_t i = 0; i < flips; i++)
			page[unit_random(&seed) % PAGE_SIZE] ^= (char) (1 << unit_random(&seed) % 8);
		if (round % 10 == 0)
			((uint16_t *) table->blocks[0].offsets)[round % 50] = (uint16_t) unit_random(&seed);
		memset(table->blocks[0].outcome, 99, table->blocks[0].ntuples);
		scan(program, layout, table, NULL);
		for (uint32_t i = 0; i < table->blocks[0].ntuples; i++)
		{
			wrong += table->blocks[0].outcome[i] > GPUSCAN_TUPLE_DEFERRED;
			rechecked += table->blocks[0].outcome[i] == GPUSCAN_TUPLE_RECHECK;
		}
	}
	ok(wrong == 0 && rechecked > 100, "corrupted pages, %d tuples left to PostgreSQL", rechecked);
}

static void
test_layouts(void)
{
	static const GpuScanAttr swapped[] = {{-1, 4, 0, -1}, {4, 4, 0, 1}, {4, 4, 0, 0}};
	GpuScanProgram *program = third_program();
	const GpuScanLayout *layouts[2] = {new_layout(ints, 2, 2, NULL),
									   new_layout(swapped, 3, 2, NULL)};
	Table *tables[2] = {new_table(ints), new_table(swapped)};
	GpuScanBlock blocks[40];
	Table both = {.blocks = blocks};
	GpuScanRequestOptions options = run_options(new_run(), program, layouts, 2, 0);
	Table *list = &both;
	Run *run;
	int wrong = 0;

	tables[1]->layout = 1;
	for (int i = 0; i < 3000; i++)
	{
		Value first[2] = {int4_value(i), int4_value(1)};
		Value second[3] = {text_value(V_SHORT, "x"), int4_value(1), int4_value(i)};

		add_tuple(tables[0], 2, first);
		add_tuple(tables[1], 3, second);
	}
	/* their pages in turn */
	for (uint32_t i = 0; i < 20; i++)
	{
		for (int t = 0; t < 2; t++)
		{
			if (i < tables[t]->nblocks)
				blocks[both.nblocks++] = tables[t]->blocks[i];
		}
	}
	run = run_tables(device, &options, &list, 1, 40, 0);
	for (uint32_t i = 0; i < 6000; i++)
	{
		uint8_t expected = i % 3000 % 3 == 0 ? GPUSCAN_TUPLE_PASSED : GPUSCAN_TUPLE_REJECTED;

		wrong += outcome(tables[i / 3000], i % 3000) != expected;
	}
	ok(wrong == 0 && run->stats.passed == 2000, "two layouts in one batch (%d wrong)", wrong);
	release(run);

	blocks[1].layout = 2;
	options = run_options(new_run(), program, layouts, 2, 0);
	run = run_tables(device, &options, &list, 1, 40, 0);
	ok(run->batch_code == GPUSCAN_INVALID, "a layout that there is not");
	release(run);
}

static Table *
ints_table(int ntuples)
{
	Table *table = new_table(ints);

	for (int i = 0; i < ntuples; i++)
	{
		Value values[2] = {int4_value(i), int4_value(1)};

		add_tuple(table, 2, values);
	}
	return table;
}

static void
test_end(void)
{
	GpuScanProgram *program = third_program();
	const GpuScanLayout *layout = new_layout(ints, 2, 2, NULL);
	Table *table = ints_table(20000);
	GpuScanBatch batch = {.nblocks = table->nblocks, .blocks = table->blocks};
	uint64_t seed = 7;
	int wrong = 0;

	for (int round = 0; round < 300; round++)
	{
		Run *run = new_run();
		GpuScanRequestOptions options = run_options(run, program, &layout, 1, 1);
		GpuScanRequest *request;

		device_ops->begin(device, &options, &request);
		for (int i = 0; i < 3; i++)
			device_ops->push(request, &batch);
		if (round % 3 > 0)
			usleep((useconds_t) (unit_random(&seed) % 500));
		device_ops->end(request);
		WAIT_FOR(run, run->ended > 0);
		wrong += run->ended != 1;
		release(run);
	}
	ok(wrong == 0, "300 requests ended in the middle");
	free_table(table);
}

static void
test_close(void)
{
	GpuScanProgram *program = third_program();
	const GpuScanLayout *layout = new_layout(ints, 2, 2, NULL);
	GpuScanDevice *other = open_device(3);
	Table *tables[20];
	Run *runs[20];
	int wrong = 0;

	for (int i = 0; i < 20; i++)
	{
		GpuScanRequestOptions options;
		GpuScanRequest *request;
		GpuScanBatch batch;

		tables[i] = ints_table(5000);
		batch = (GpuScanBatch){.nblocks = tables[i]->nblocks, .blocks = tables[i]->blocks};
		runs[i] = new_run();
		options = run_options(runs[i], program, &layout, 1, 2);
		device_ops->begin(other, &options, &request);
		device_ops->push(request, &batch);
	}
	device_ops->close(other);
	for (int i = 0; i < 20; i++)
		wrong += runs[i]->ended != 1;
	ok(wrong == 0, "close ends requests");
}

int
main(void)
{
	device = open_device(3);
	test_decoding();
	test_missing();
	test_boundaries();
	test_staged();
	test_flags();
	test_lists();
	test_layouts();
	test_corruption();
	test_end();
	test_close();
	device_ops->close(device);
	return done_testing();
}
