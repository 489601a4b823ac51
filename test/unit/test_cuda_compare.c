/*-------------------------------------------------------------------------
 *
 * test_cuda_compare.c
 *	  The cuda device against the cpu device: random Programs over random
 *	  tables, outcome by outcome, group by group, bit by bit.
 *
 * A Program is random straight-line code: inputs of every decoding, constants,
 * instructions whose operands have the right class, a filter, keys and
 * aggregates.  Both devices must end with the same code.  Where they both have
 * a result, each outcome and each byte of each group row must be the same.  The
 * same is done over cached columns, with any number of groups expected.
 *
 * Skipped where there is no CUDA device.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_fixture.h"

#include <math.h>

#define NUM_TABLES 4

/* Of a table some of whose ranges' headers tell much */
#define TOLD_RANGES 24
#define TOLD_BLOCKS 8

/* Runs of a Program over it */
#define TOLD_LIMITS 8

enum
{
	C_BOOL,
	C_INT2,
	C_INT4,
	C_TEXT,
	C_INT8,
	C_PRICE,
	C_FLOAT4,
	C_FLOAT8,
	NUM_COLUMNS
};

static const GpuScanAttr attrs[] = {{1, 1, 0, C_BOOL},	 {2, 2, 0, C_INT2},	 {4, 4, 0, C_INT4},
									{-1, 4, 0, C_TEXT},	 {8, 8, 0, C_INT8},	 {-1, 4, 0, C_PRICE},
									{4, 4, 0, C_FLOAT4}, {8, 8, 0, C_FLOAT8}};

/* The same columns in another order, with others between */
static const GpuScanAttr other_attrs[] = {
	{8, 8, 0, C_FLOAT8}, {-1, 4, 0, -1},	{-1, 4, 0, C_PRICE}, {1, 1, 0, C_BOOL},
	{4, 4, 0, -1},		 {4, 4, 0, -1},		{-1, 4, 0, -1},		 {2, 2, 0, -1},
	{2, 2, 0, C_INT2},	 {8, 8, 0, C_INT8}, {4, 4, 0, C_INT4},	 {4, 4, 0, C_FLOAT4},
	{-1, 4, 0, C_TEXT}};

/* Groups expected with which the device keeps none in shared memory; and whether it may at all */
#define TOO_MANY_GROUPS 100000
static bool in_slots;

static uint64_t seed;

static uint32_t
below(uint32_t n)
{
	return (uint32_t) (unit_random(&seed) % n);
}

/*
 * Tables
 */

/* NULL now and then; of few or many values, as `spread` says */
static Value
random_value(int column, uint32_t spread, bool faults)
{
	/* of the last one a sum is PostgreSQL's */
	static const double doubles[] = {0.0, -0.0, -1.5, NAN, INFINITY, 1e100, 1e-300, 1e300};
	char text[16];
	int32_t number = (int32_t) below(spread) - (int32_t) (spread / 3);

	if (below(12) == 0)
		return null_value();
	switch (column)
	{
		case C_BOOL:
			return fixed_value(below(2) ? "\1" : "", 1);
		case C_INT2:
			return fixed_value(&(int16_t){(int16_t) number}, 2);
		case C_INT4:
			return int4_value(below(50) == 0 ? INT32_MAX : number);
		case C_INT8:
			return int8_value(below(50) == 0 ? INT64_MAX / 3 : number * 1000003LL);
		case C_FLOAT4:
			return fixed_value(&(float){(float) number / 8}, 4);
		case C_FLOAT8:
			if (below(200) == 0)
				return f64_value(doubles[below(faults ? 8 : 7)]);
			return f64_value(number == 0 ? 1 : number * pow(10, (int) below(40) - 20));
		case C_PRICE:
			return numeric_value(faults && below(300) == 0 ? V_COMPRESSED
								 : below(2)				   ? V_SHORT
														   : V_LONG,
								 number * (below(3) ? 1 : 12345678901LL));
		default:
			snprintf(text, sizeof(text), "%.*s%d", (int) below(9), "abcdefghi", number % 100);
			if (faults && below(300) == 0)
				return text_value(below(2) ? V_COMPRESSED : V_EXTERNAL, text);
			return text_value(below(2) ? V_SHORT : V_LONG, text);
	}
}

static Table *
random_table(uint32_t n, uint32_t spread, uint32_t layout, bool faults)
{
	const GpuScanAttr *a = layout == 0 ? attrs : other_attrs;
	int natts = layout == 0 ? NUM_COLUMNS : (int) (sizeof(other_attrs) / sizeof(attrs[0]));
	Table *table = new_table(a);

	table->layout = layout;
	for (uint32_t i = 0; i < n; i++)
	{
		Value values[16];

		for (int k = 0; k < natts; k++)
		{
			if (a[k].column >= 0)
				values[k] = random_value(a[k].column, spread, faults);
			else if (a[k].len == -1)
				values[k] = text_value(below(2) ? V_SHORT : V_COMPRESSED, "unneeded");
			else
				values[k] = fixed_value("abcdefgh", (uint32_t) a[k].len);
		}
		add_tuple(table, below(20) == 0 ? (int) below((uint32_t) natts) : natts, values);
	}
	return table;
}

/* What the values of a column have in common, in one range */
typedef enum Mood
{
	MOOD_RANDOM,
	MOOD_NULL,
	MOOD_CONSTANT,
	MOOD_NEAR,
	MOOD_ZEROS, /* of floats: zeros of both signs, and nothing above them */
	NUM_MOODS
} Mood;

/* An INT8 is a number of `unit`, and a little more */
static Value
value_of_mood(int column, Mood mood, int32_t range, uint32_t unit)
{
	static const double zeros[] = {0.0, -0.0, -1.0};
	int32_t number = (range - TOLD_RANGES / 2) * 10 + (mood == MOOD_CONSTANT ? 0 : (int) below(10));
	double f = number;
	float f4;

	if (mood == MOOD_RANDOM)
		return random_value(column, 40, false);
	if (mood == MOOD_NULL)
		return null_value();
	if (mood == MOOD_ZEROS)
		f = zeros[below(3)];
	if (mood == MOOD_CONSTANT && range % 8 == 0)
		f = zeros[range / 8 % 2];
	f4 = (float) (mood == MOOD_ZEROS ? f : -1 - fabs(f));
	switch (column)
	{
		case C_BOOL:
			return fixed_value(range % 2 ? "\1" : "", 1);
		case C_INT2:
			return fixed_value(&(int16_t){(int16_t) number}, 2);
		case C_INT4:
			return int4_value(number);
		case C_INT8:
			return int8_value((int64_t) number * unit + below(unit / 65536 + 1));
		case C_FLOAT4:
			return fixed_value(&f4, 4);
		case C_FLOAT8:
			return f64_value(f);
		case C_PRICE:
			return numeric_value(V_SHORT, number);
		default:
			return text_value(V_SHORT, below(2) || mood == MOOD_CONSTANT ? "told" : "");
	}
}

/*
 * Of TOLD_RANGES ranges of TOLD_BLOCKS blocks each.  The greatest FLOAT4 is a zero of either sign
 * in one range, all of whose rows count.
 */
static Table *
told_table(uint32_t unit)
{
	Table *table = new_table(attrs);

	for (uint32_t range = 0; range < TOLD_RANGES; range++)
	{
		Mood moods[NUM_COLUMNS];

		for (int c = 0; c < NUM_COLUMNS; c++)
			moods[c] = (Mood) below(NUM_MOODS);
		moods[C_FLOAT4] = range == 2 ? MOOD_ZEROS : (Mood) (MOOD_NULL + below(3));
		add_page(table);
		while (table->nblocks < (range + 1) * TOLD_BLOCKS ||
			   table->blocks[table->nblocks - 1].ntuples < 20)
		{
			Value values[NUM_COLUMNS];

			for (int c = 0; c < NUM_COLUMNS; c++)
				values[c] = value_of_mood(c, moods[c], (int32_t) range, unit);
			add_tuple(table, NUM_COLUMNS, values);
		}
	}
	return table;
}

/*
 * Programs
 */
static const GpuScanDecode decodes[] = {
	GPUSCAN_DECODE_BOOL, GPUSCAN_DECODE_INT2,  GPUSCAN_DECODE_INT4,	  GPUSCAN_DECODE_TEXT,
	GPUSCAN_DECODE_INT8, GPUSCAN_DECODE_DEC64, GPUSCAN_DECODE_FLOAT4, GPUSCAN_DECODE_FLOAT8};

static uint16_t
random_register(const Builder *b, unsigned cls)
{
	uint16_t candidates[256];
	uint32_t n = 0;

	for (uint16_t r = 0; r < b->header.nregs; r++)
	{
		if (cls == GPUSCAN_ANY || b->classes[r] == cls)
			candidates[n++] = r;
	}
	return n == 0 ? NO_REG : candidates[below(n)];
}

/* A list of each class, for the sets of five i32, three i64 and of texts, and for NULL */
static void
add_lists(Builder *b, const uint32_t *texts)
{
	static const uint8_t bools[] = {0, 1, 1, 0, 1, 0};
	static const int32_t i32s[] = {7, -7, 0, 1, 2, 3};
	static const int64_t i64s[] = {INT64_MAX, -7, 0, 1, 2, 3};
	static const uint64_t i128s[] = {0, 1, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0};
	static const float f32s[] = {0, 1.5F, NAN, -3, 2, 7};
	static const double f64s[] = {0, 1.5, NAN, -3, 2, 7};
	const uint32_t strings[] = {texts[0], texts[1], texts[2], texts[3], texts[0], texts[1],
								texts[2], texts[3], texts[0], texts[1], texts[2], texts[3]};
	const void *values[] = {bools, i32s, i64s, i128s, f32s, f64s, strings};

	for (unsigned cls = 0; cls < GPUSCAN_NUM_CLASSES; cls++)
	{
		uint8_t flags[6] = {0};

		flags[below(6)] = GPUSCAN_NULL;
		if (below(2))
			flags[below(6)] = GPUSCAN_ERROR;
		add_list(b, cls, values[cls], flags, 4 + below(3));
	}
}

static void
add_sources(Builder *b)
{
	static const int32_t i32s[] = {-3, 0, 1, 5, 17};
	static const int64_t i64s[] = {-1000003, 0, 5000015};
	static const double f64s[] = {-1.5, 1, 3.25, NAN};
	static const uint64_t i128s[] = {0, 0, 100, 0};
	uint32_t texts[4] = {0, 1, 0, 2};

	add_input(b, C_BOOL, GPUSCAN_DECODE_BOOL, 0);
	add_input(b, C_INT2, GPUSCAN_DECODE_INT2, 0);
	add_input(b, C_INT4, GPUSCAN_DECODE_INT4, 0);
	add_input(b, C_INT8, GPUSCAN_DECODE_INT8, 0);
	add_input(b, C_FLOAT4, GPUSCAN_DECODE_FLOAT4, 0);
	add_input(b, C_FLOAT8, GPUSCAN_DECODE_FLOAT8, 0);
	add_input(b, C_PRICE, GPUSCAN_DECODE_DEC64, 2);
	add_input(b, C_PRICE, GPUSCAN_DECODE_DEC128, 3);
	add_input(b, C_PRICE, GPUSCAN_DECODE_DSCALE, 0);
	add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0);
	add_param(b, GPUSCAN_BOOL, 1);
	add_param(b, GPUSCAN_I32, below(20));
	add_param(b, GPUSCAN_I64, -5);
	add_param(b, GPUSCAN_I128, 123456);
	/* some sums of these overflow */
	add_param(b, GPUSCAN_I128, below(2) ? 1 : -1);
	b->params[b->header.nparams - 1].hi ^= UINT64_C(1) << (48 + below(14));
	add_f64(b, 2.5);
	add_text(b, "abc7");
	add_null(b, below(GPUSCAN_TEXT));
	add_set(b, GPUSCAN_I32, i32s, 5, below(2));
	add_set(b, GPUSCAN_I64, i64s, 3, below(2));
	add_set(b, GPUSCAN_F64, f64s, 4, below(2));
	add_set(b, GPUSCAN_I128, i128s, 2, false);
	texts[0] = add_blob(b, "a", 1);
	texts[2] = add_blob(b, "ab", 2);
	add_text_set(b, texts, 2);
	b->sets[b->header.nsets - 1].has_null = (uint16_t) below(2);
	add_lists(b, texts);
}

static void
add_random_instr(Builder *b)
{
	GpuScanOp op = (GpuScanOp) below(GPUSCAN_NUM_OPS);
	const GpuScanOpInfo *info = &gpuscan_ops[op];
	uint16_t operands[3] = {0, 0, 0};
	uint16_t aux = 0;

	for (int i = 0; i < 3; i++)
	{
		if (info->src[i] != GPUSCAN_NONE)
			operands[i] = random_register(b, info->src[i]);
		if (operands[i] == NO_REG)
			return;
	}
	if (info->set)
	{
		while (aux < b->header.nsets && b->sets[aux].cls != info->src[0])
			aux++;
		if (aux == b->header.nsets)
			return;
	}
	while (info->list && b->lists[aux].cls != info->dst)
		aux++;
	add_instr(b, op, operands[0], operands[1], operands[2], aux);
}

static void
add_random_aggregate(Builder *b)
{
	GpuScanAggKind kind = (GpuScanAggKind) below(GPUSCAN_AGG_COUNT_DISTINCT + 1);
	uint16_t arg = random_register(b, GPUSCAN_ANY);
	uint16_t filter = below(3) == 0 ? random_register(b, GPUSCAN_BOOL) : NO_REG;

	if (kind == GPUSCAN_AGG_COUNT && below(2))
		arg = NO_REG;
	else if (gpuscan_agg_state_size(kind, b->classes[arg]) == 0)
		return;
	add_agg(b, kind, arg, filter);
}

/* Errors are frequent in random code: short Programs end with a result. */
static GpuScanProgram *
random_program(bool aggregate, bool grouped)
{
	Builder *b = new_builder(NUM_COLUMNS, aggregate);

	add_sources(b);
	for (uint32_t i = below(aggregate ? 6 : 30); i > 0; i--)
		add_random_instr(b);
	if (below(3) > 0)
		b->header.filter = random_register(b, GPUSCAN_BOOL);
	for (uint32_t i = 1 + below(3); grouped && i > 0; i--)
		add_key(b, random_register(b, GPUSCAN_ANY));
	for (uint32_t i = 1 + below(6); aggregate && i > 0; i--)
		add_random_aggregate(b);
	return build_program(b);
}

/* A scan, mostly of few rows */
static GpuScanProgram *
random_scan(void)
{
	Builder *b = new_builder(NUM_COLUMNS, false);
	uint16_t rare;

	add_sources(b);
	for (uint32_t i = below(30); i > 0; i--)
		add_random_instr(b);
	b->header.filter = random_register(b, GPUSCAN_BOOL);
	rare = add_instr(b, GPUSCAN_OP_I32_EQ, b->inputs[2].reg, b->params[1].reg, 0, 0);
	if (below(4) > 0)
		b->header.filter = add_instr(b, GPUSCAN_OP_AND, rare, b->header.filter, 0, 0);
	return build_program(b);
}

/* A column as most queries have it, declared not to have NULLs in one of `n` cases: often it has */
static uint16_t
plain_input(Builder *b, uint32_t c, uint32_t n)
{
	uint16_t reg = add_input(b, (int) c, decodes[c], c == C_PRICE ? 2 : 0);

	b->inputs[b->header.ninputs - 1].not_null = below(n) == 0;
	return reg;
}

/*
 * What most queries are: a key or two, aggregates of columns, and perhaps a comparison.  Kernels over
 * columns have ways of their own for that.
 */
static GpuScanProgram *
usual_program(bool grouped)
{
	static const GpuScanOp comparisons[] = {GPUSCAN_OP_I32_GT, GPUSCAN_OP_I32_LE,
											GPUSCAN_OP_I32_NE};
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t inputs[NUM_COLUMNS];

	for (int c = 0; c < NUM_COLUMNS; c++)
		inputs[c] = NO_REG;
	for (uint32_t i = 1 + below(2); grouped && i > 0; i--)
	{
		uint32_t c = below(i == 1 ? C_INT8 + 1 : C_INT4 + 1);

		if (inputs[c] == NO_REG)
			add_key(b, inputs[c] = plain_input(b, c, 8));
	}
	for (uint32_t i = 1 + below(4); i > 0; i--)
	{
		uint32_t c = below(3) == 0 ? C_FLOAT8 : C_INT4 + below(NUM_COLUMNS - C_INT4);
		GpuScanAggKind kind =
			below(3) ? GPUSCAN_AGG_SUM_F64 : (GpuScanAggKind) below(GPUSCAN_AGG_BIT_OR + 1);

		c += c == C_TEXT;
		if (inputs[c] == NO_REG)
			inputs[c] = plain_input(b, c, 8);
		if (kind == GPUSCAN_AGG_SUM_F64 && b->classes[inputs[c]] == GPUSCAN_I64)
			kind = GPUSCAN_AGG_SUM_I128;
		if (gpuscan_agg_state_size(kind, b->classes[inputs[c]]) > 0)
			add_agg(b, kind, inputs[c], NO_REG);
	}
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	if (below(2))
	{
		uint32_t c = C_INT2 + below(2);
		uint16_t limit = add_param(b, GPUSCAN_I32, below(40));

		if (inputs[c] == NO_REG)
			inputs[c] = plain_input(b, c, 8);
		limit = add_instr(b, comparisons[below(3)], inputs[c], limit, 0, 0);
		if (below(4))
			b->header.filter = limit;
		else
			add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, limit);
	}
	return build_program(b);
}

/* The input for a column, which is there once */
static uint16_t
input_once(Builder *b, uint16_t *inputs, uint32_t c)
{
	if (inputs[c] == NO_REG)
		inputs[c] = plain_input(b, c, 4);
	return inputs[c];
}

/*
 * Groups with extrema of columns that ascend, so that most ranges do not change some of them;
 * of few columns, since one that is unusual in a range makes that a range like others
 */
static GpuScanProgram *
ascending_program(void)
{
	static const uint32_t keys[] = {C_BOOL, C_INT2, C_TEXT};
	static const uint32_t args[] = {C_INT4, C_PRICE, C_INT2};
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t inputs[NUM_COLUMNS];

	for (int c = 0; c < NUM_COLUMNS; c++)
		inputs[c] = NO_REG;
	for (uint32_t i = below(3), n = 1 + below(5) / 4; n > 0; i++, n--)
		add_key(b, input_once(b, inputs, keys[i % 3]));
	add_agg(b, GPUSCAN_AGG_MIN + below(2), input_once(b, inputs, C_INT8), NO_REG);
	for (uint32_t i = below(6); i > 2; i--)
		add_agg(b, GPUSCAN_AGG_MIN + below(2),
				input_once(b, inputs, below(2) ? C_INT8 : args[below(3)]), NO_REG);
	if (below(3) == 0)
		add_agg(b, GPUSCAN_AGG_SUM_F64, input_once(b, inputs, C_FLOAT8), NO_REG);
	return build_program(b);
}

/* One that bounds of columns decide for some ranges */
static uint16_t
told_condition(Builder *b, const uint16_t *inputs)
{
	static const GpuScanOp comparisons[][6] = {
		{GPUSCAN_OP_I32_EQ, GPUSCAN_OP_I32_NE, GPUSCAN_OP_I32_LT, GPUSCAN_OP_I32_LE,
		 GPUSCAN_OP_I32_GT, GPUSCAN_OP_I32_GE},
		{GPUSCAN_OP_I64_EQ, GPUSCAN_OP_I64_NE, GPUSCAN_OP_I64_LT, GPUSCAN_OP_I64_LE,
		 GPUSCAN_OP_I64_GT, GPUSCAN_OP_I64_GE}};
	uint32_t c = below(NUM_COLUMNS);
	uint16_t operands[2] = {inputs[c], 0};
	bool wide = c == C_INT8 || c == C_PRICE;
	uint32_t swapped = below(2);

	if (c == C_BOOL && below(2))
		return inputs[c];
	if (below(5) == 0 || (!wide && c != C_INT2 && c != C_INT4))
		return add_instr(b, below(2) ? GPUSCAN_OP_IS_NULL : GPUSCAN_OP_IS_NOT_NULL, inputs[c], 0, 0,
						 0);
	operands[1] = add_param(b, wide ? GPUSCAN_I64 : GPUSCAN_I32, 0);
	return add_instr(b, comparisons[wide][below(6)], operands[swapped], operands[!swapped], 0, 0);
}

/* Has a filter compare with other constants, often with a bound of a range, in the same kernel. */
static void
choose_limits(GpuScanProgram *program)
{
	for (int i = 0; i < program->nparams; i++)
	{
		GpuScanParam *param = (GpuScanParam *) &GPUSCAN_PARAMS(program)[i];
		int64_t limit = ((int64_t) below(TOLD_RANGES) - TOLD_RANGES / 2) * 10 + below(2) * 9;

		param->lo = (uint64_t) limit;
		param->hi = limit < 0 ? UINT64_MAX : 0;
	}
}

/* One that headers tell the answer of, where they tell the filter's: most are. */
static GpuScanProgram *
told_program(void)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t inputs[NUM_COLUMNS];

	for (int c = 0; c < NUM_COLUMNS; c++)
		inputs[c] = add_input(b, c, decodes[c], c == C_PRICE ? 2 : 0);
	for (uint32_t i = 1 + below(8); i > 0; i--)
	{
		uint32_t c = below(NUM_COLUMNS);
		GpuScanAggKind first = c == C_BOOL ? GPUSCAN_AGG_BOOL_AND : GPUSCAN_AGG_MIN;
		bool counts = c == C_TEXT || below(3) == 0;

		add_agg(b, counts ? GPUSCAN_AGG_COUNT : (GpuScanAggKind) (first + below(2)), inputs[c],
				NO_REG);
	}
	if (below(2))
		add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	if (below(10) == 0)
		add_agg(b, GPUSCAN_AGG_SUM_F64, inputs[C_FLOAT4], NO_REG);
	for (uint32_t i = below(4); i > 0; i--)
	{
		uint16_t condition = told_condition(b, inputs);

		if (b->header.filter != NO_REG)
			condition = add_instr(b, below(3) ? GPUSCAN_OP_OR : GPUSCAN_OP_AND, b->header.filter,
								  condition, 0, 0);
		b->header.filter = condition;
	}
	return build_program(b);
}

/* More columns than a word has bits, or nearly */
static GpuScanProgram *
wide_program(void)
{
	Builder *b = new_builder(NUM_COLUMNS, true);

	for (uint32_t i = 48 + below(3) * 8; i > 0; i--)
		add_agg(b, GPUSCAN_AGG_SUM_I64, add_input(b, C_INT4, GPUSCAN_DECODE_INT4, 0), NO_REG);
	return build_program(b);
}

/*
 * Comparing
 */
static const GpuScanProgram *sorted_program;
static const char *sorted_base;

/* By NULL bits, then by keys; rows of one result have different keys. */
static int
compare_rows(const void *a, const void *b)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(sorted_program);
	int order = memcmp(a, b, 8);

	for (int k = 0; order == 0 && k < sorted_program->nkeys; k++)
	{
		const char *x = (const char *) a + keys[k].offset;
		const char *y = (const char *) b + keys[k].offset;

		if (keys[k].cls == GPUSCAN_TEXT)
		{
			const uint32_t *p = (const uint32_t *) x;
			const uint32_t *q = (const uint32_t *) y;

			order = p[1] != q[1] ? (p[1] > q[1] ? 1 : -1)
								 : memcmp(sorted_base + p[0], sorted_base + q[0], p[1]);
		}
		else
			order = memcmp(x, y, gpuscan_key_size(keys[k].cls));
	}
	return order;
}

static void
sort_rows(const GpuScanProgram *program, Run *run)
{
	sorted_program = program;
	sorted_base = run->rows;
	qsort(run->rows, run->nrows, run->row_size, compare_rows);
}

/* Aggregates whose states differ; a state of no input has no value. */
static int
compare_states(const GpuScanProgram *program, const char *x, const char *y)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	int wrong = 0;

	for (int i = 0; i < program->naggs; i++)
	{
		const char *a = x + aggs[i].offset;
		const char *b = y + aggs[i].offset;
		size_t size = gpuscan_agg_state_size(aggs[i].kind, aggs[i].cls);
		bool same = memcmp(a, b, *(const int64_t *) a == 0 ? 8 : size) == 0;

		/* what NaN an extremum has is not said */
		if (!same && (aggs[i].kind == GPUSCAN_AGG_MIN || aggs[i].kind == GPUSCAN_AGG_MAX) &&
			(aggs[i].cls == GPUSCAN_F32 || aggs[i].cls == GPUSCAN_F64))
			same = memcmp(a, b, 8) == 0 && isnan(((const GpuScanValueState *) a)->value.f) &&
				   isnan(((const GpuScanValueState *) b)->value.f);
		if (!same)
		{
			printf("# %s of %s differs\n", gpuscan_agg_name(aggs[i].kind),
				   gpuscan_class_name(aggs[i].cls));
			wrong++;
		}
	}
	return wrong;
}

static int
compare_runs(const GpuScanProgram *program, Run *cpu, Run *cuda)
{
	int wrong = 0;

	/* an aggregation's batch may pass whose sum the other device found too large already */
	if (cpu->finish_code != cuda->finish_code ||
		(!program->aggregate && cpu->batch_code != cuda->batch_code))
	{
		printf("# codes: cpu %d, %d, cuda %d, %d\n", cpu->batch_code, cpu->finish_code,
			   cuda->batch_code, cuda->finish_code);
		return 1;
	}
	if (cpu->finish_code != GPUSCAN_OK || cpu->batch_code != GPUSCAN_OK)
		return 0;
	if (cpu->stats.tuples != cuda->stats.tuples || cpu->stats.passed != cuda->stats.passed ||
		cpu->stats.groups != cuda->stats.groups || cpu->nrows != cuda->nrows)
	{
		printf("# cpu: %llu tuples, %llu passed, %zu rows; cuda: %llu, %llu, %zu\n",
			   (unsigned long long) cpu->stats.tuples, (unsigned long long) cpu->stats.passed,
			   cpu->nrows, (unsigned long long) cuda->stats.tuples,
			   (unsigned long long) cuda->stats.passed, cuda->nrows);
		return 1;
	}
	if (!program->aggregate)
		return 0;
	sort_rows(program, cpu);
	sort_rows(program, cuda);
	for (size_t i = 0; i < cpu->nrows; i++)
	{
		const char *x = cpu->rows + i * cpu->row_size;
		const char *y = cuda->rows + i * cuda->row_size;
		bool same = true;

		if (program->nkeys > 0)
		{
			/* texts lie elsewhere: compare under the base of each */
			const GpuScanKey *keys = GPUSCAN_KEYS(program);

			same = memcmp(x, y, 8) == 0;
			for (int k = 0; same && k < program->nkeys; k++)
			{
				const uint32_t *p = (const uint32_t *) (x + keys[k].offset);
				const uint32_t *q = (const uint32_t *) (y + keys[k].offset);

				if (keys[k].cls == GPUSCAN_TEXT)
					same = p[1] == q[1] && memcmp(cpu->rows + p[0], cuda->rows + q[0], p[1]) == 0;
				else
					same = memcmp(p, q, gpuscan_key_size(keys[k].cls)) == 0;
			}
		}
		if (!same)
			printf("# keys of row %zu differ\n", i);
		wrong += !same + compare_states(program, x, y);
		if (wrong > 5)
			break;
	}
	return wrong;
}

typedef struct Device
{
	const GpuScanDeviceOps *ops;
	GpuScanDevice *device;
} Device;

static Run *
run_on(const Device *on, const GpuScanProgram *program, const GpuScanLayout *const *layouts,
	   Table *const *tables, int ntables, uint32_t per_batch)
{
	GpuScanRequestOptions options = run_options(new_run(), program, layouts, 2, 0);

	device_ops = on->ops;
	return run_tables(on->device, &options, tables, ntables, per_batch, 0);
}

/* The outcomes of all tables, one after the other */
static uint8_t *
copy_outcomes(Table *const *tables, int ntables, size_t *n)
{
	uint8_t *outcomes = malloc(1);

	*n = 0;
	for (int t = 0; t < ntables; t++)
	{
		for (uint32_t i = 0; i < tables[t]->nblocks; i++)
		{
			GpuScanBlock *block = &tables[t]->blocks[i];

			outcomes = realloc(outcomes, *n + block->ntuples + 1);
			memcpy(outcomes + *n, block->outcome, block->ntuples);
			memset(block->outcome, 77, block->ntuples);
			*n += block->ntuples;
		}
	}
	return outcomes;
}

static void
print_program(const GpuScanProgram *program, uint64_t start)
{
	char listing[8192];

	(void) gpuscan_program_print(program, listing, sizeof(listing));
	printf("# seed %llu:\n", (unsigned long long) start);
	for (char *line = strtok(listing, "\n"); line != NULL; line = strtok(NULL, "\n"))
		printf("#   %s\n", line);
}

static void
compare_devices(const Device *devices, const char *name, int rounds, bool aggregate, bool grouped,
				const GpuScanLayout *const *layouts, Table *const *tables, int ntables)
{
	int wrong = 0;
	int results = 0;

	for (int round = 0; round < rounds; round++)
	{
		uint64_t start = seed;
		GpuScanProgram *program = random_program(aggregate, grouped);
		uint32_t per_batch = 1 + below(64);
		Run *runs[2];
		uint8_t *outcomes[2];
		size_t n;
		int bad;

		for (int d = 0; d < 2; d++)
		{
			runs[d] = run_on(&devices[d], program, layouts, tables, ntables, per_batch);
			outcomes[d] = copy_outcomes(tables, ntables, &n);
		}
		bad = compare_runs(program, runs[0], runs[1]);
		if (runs[0]->batch_code == GPUSCAN_OK && runs[0]->finish_code == GPUSCAN_OK)
		{
			results++;
			if (memcmp(outcomes[0], outcomes[1], n) != 0)
			{
				printf("# outcomes differ\n");
				bad++;
			}
		}
		if (bad > 0)
			print_program(program, start);
		wrong += bad > 0;
		release(runs[0]);
		release(runs[1]);
		free(outcomes[0]);
		free(outcomes[1]);
		free(program);
	}
	ok(wrong == 0, "%s: %d Programs, %d with a result (%d differ)", name, rounds, results, wrong);
}

/*
 * Columns
 */
#define MAX_RANGES 256
#define NUM_INPUTS 10 /* that add_sources makes */
#define MANY_INPUTS 64

/* A table's columns, on one device, of the inputs that random Programs have */
typedef struct Columns
{
	uint32_t nranges;
	GpuScanInput inputs[NUM_INPUTS];
	GpuScanDictionary *dictionaries[NUM_INPUTS];
	GpuScanChunk *chunks[MAX_RANGES][NUM_INPUTS];
	bool unfit[MAX_RANGES][NUM_INPUTS];
	GpuScanFill fills[MAX_RANGES];
	GpuScanBatch batches[MAX_RANGES];
	GpuScanCachedRange ranges[MAX_RANGES];
	GpuScanRows runs[MAX_RANGES][2];
	uint16_t ends[MAX_RANGES][GPUSCAN_RANGE_BLOCKS];

	/* As a Program wants them */
	const GpuScanDictionary *wanted_dictionaries[MANY_INPUTS];
	const GpuScanChunk *wanted[MAX_RANGES][MANY_INPUTS];
	GpuScanCachedSegment segments[2];
} Columns;

static Columns *
make_columns(const Device *on, const GpuScanLayout *const *layouts, Table *table, uint32_t blocks)
{
	Columns *columns = calloc(1, sizeof(Columns));
	Builder *b = new_builder(NUM_COLUMNS, true);
	GpuScanRequestOptions options;
	GpuScanRequest *request;
	GpuScanProgram *program;
	Run *run = new_run();

	add_sources(b);
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	program = build_program(b);
	memcpy(columns->inputs, GPUSCAN_INPUTS(program), sizeof(columns->inputs));
	for (int i = 0; i < NUM_INPUTS; i++)
	{
		unsigned cls = gpuscan_decode_class((GpuScanDecode) GPUSCAN_INPUTS(program)[i].decode);

		if (cls != GPUSCAN_BOOL)
			columns->dictionaries[i] = gpuscan_dictionary_create((GpuScanClass) cls);
	}
	options = run_options(run, program, layouts, 2, 0);
	options.columns_limit = UINT64_C(1) << 30;
	on->ops->begin(on->device, &options, &request);
	for (uint32_t first = 0; first < table->nblocks; first += blocks)
	{
		uint32_t r = columns->nranges++;
		uint32_t left = table->nblocks - first;

		columns->fills[r] = (GpuScanFill){.dictionaries = columns->dictionaries,
										  .chunks = columns->chunks[r],
										  .unfit = columns->unfit[r]};
		columns->batches[r] = (GpuScanBatch){
			.nblocks = left < blocks ? left : blocks,
			.blocks = &table->blocks[first],
			.fill = &columns->fills[r],
		};
		on->ops->push(request, &columns->batches[r]);
	}
	WAIT_FOR(run, run->answered == columns->nranges);
	on->ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	release(run);
	free(program);
	return columns;
}

/* Two segments of ranges, all or most of whose rows count; false: a chunk is missing. */
static bool
make_ranges(Columns *columns)
{
	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		bool whole = r % 4 >= 2;
		uint16_t n;
		uint16_t first;

		for (int i = 0; i < NUM_INPUTS; i++)
		{
			if (columns->chunks[r][i] == NULL)
				return false;
		}
		n = (uint16_t) columns->chunks[r][0]->nrows;
		for (uint32_t i = 0; i < GPUSCAN_RANGE_BLOCKS; i++)
		{
			const GpuScanBatch *batch = &columns->batches[r];

			columns->ends[r][i] = (uint16_t) ((i > 0 ? columns->ends[r][i - 1] : 0) +
											  (i < batch->nblocks ? batch->blocks[i].ntuples : 0));
		}
		columns->runs[r][0] = (GpuScanRows){0, (uint16_t) (n / 3)};
		first = (uint16_t) (n / 3 + (whole ? 0 : r % 2));
		columns->runs[r][1] = (GpuScanRows){first, (uint16_t) (whole ? n - first : n / 2)};
		columns->ranges[r] = (GpuScanCachedRange){.number = r,
												  .ends = columns->ends[r],
												  .nruns = r % 5 == 4 ? 1 : 2,
												  .nblocks = columns->batches[r].nblocks,
												  .runs = columns->runs[r],
												  .chunks = columns->wanted[r],
												  .dictionaries = columns->wanted_dictionaries};
	}
	columns->segments[0] =
		(GpuScanCachedSegment){.nranges = columns->nranges / 3, .ranges = columns->ranges};
	columns->segments[1] =
		(GpuScanCachedSegment){.nranges = columns->nranges - columns->nranges / 3,
							   .ranges = columns->ranges + columns->nranges / 3};
	return true;
}

static void
forget_segments(const Device *on, Columns *columns)
{
	for (int s = 0; s < 2 && on->ops->forget_segment != NULL; s++)
		on->ops->forget_segment(on->device, &columns->segments[s]);
}

/* Has the segments those columns that a Program reads. */
static void
choose_columns(const Device *on, Columns *columns, const GpuScanProgram *program)
{
	forget_segments(on, columns);
	for (int i = 0; i < program->ninputs; i++)
	{
		const GpuScanInput *input = &GPUSCAN_INPUTS(program)[i];
		int c = 0;

		while (columns->inputs[c].column != input->column ||
			   columns->inputs[c].decode != input->decode)
			c++;
		columns->wanted_dictionaries[i] = columns->dictionaries[c];
		for (uint32_t r = 0; r < columns->nranges; r++)
			columns->wanted[r][i] = columns->chunks[r][c];
	}
}

static void
free_columns(const Device *on, Columns *columns)
{
	forget_segments(on, columns);
	for (int i = 0; i < NUM_INPUTS; i++)
	{
		for (uint32_t r = 0; r < columns->nranges; r++)
		{
			if (columns->chunks[r][i] != NULL)
				on->ops->free_chunk(on->device, columns->chunks[r][i]);
		}
		if (columns->dictionaries[i] == NULL)
			continue;
		if (on->ops->forget_dictionary != NULL)
			on->ops->forget_dictionary(on->device, columns->dictionaries[i]);
		gpuscan_dictionary_free(columns->dictionaries[i]);
	}
	free(columns);
}

static Run *
run_cached(const Device *on, const GpuScanProgram *program, const GpuScanLayout *const *layouts,
		   Columns *columns, uint64_t groups, GpuScanPass pass)
{
	GpuScanCachedSegment *segments[] = {&columns->segments[0], &columns->segments[1]};
	Run *run = new_run();
	GpuScanRequestOptions options = run_options(run, program, layouts, 2, 0);
	GpuScanRequest *request;

	options.groups_expected = groups;
	options.pass = pass;
	device_ops = on->ops;
	on->ops->begin(on->device, &options, &request);
	on->ops->push_cached(request, segments, 2);
	on->ops->finish(request);
	WAIT_FOR(run, run->finished);
	if (run->finish_code == GPUSCAN_OK)
		fetch_all(request, program, 64 * 1024, run);
	on->ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	return run;
}

/* Whether two passes have as many groups together as one */
static bool
passes_add_up(const Device *on, const GpuScanProgram *program, const GpuScanLayout *const *layouts,
			  Columns *columns, const Run *whole)
{
	uint64_t groups = 0;
	bool failed = false;

	for (uint32_t number = 0; number < 2; number++)
	{
		Run *run = run_cached(on, program, layouts, columns, 0, (GpuScanPass){1, number});

		groups += run->nrows;
		failed |= run->finish_code != GPUSCAN_OK;
		release(run);
	}
	return failed || groups == whole->nrows;
}

typedef enum Kind
{
	KIND_RANDOM,
	KIND_USUAL,
	KIND_WIDE,
	KIND_TOLD,
	KIND_ASCENDING
} Kind;

#define NUM_HITS (2 * GPUSCAN_MAP_RANGES)

static Run *
run_seek(const Device *on, const GpuScanProgram *program, const GpuScanLayout *const *layouts,
		 Columns *columns, uint64_t *hits)
{
	GpuScanCachedSegment *segments[] = {&columns->segments[0], &columns->segments[1]};
	Run *run = new_run();
	GpuScanRequestOptions options = run_options(run, program, layouts, 2, 0);
	GpuScanRequest *request;

	memset(hits, 0, NUM_HITS * sizeof(uint64_t));
	on->ops->begin(on->device, &options, &request);
	on->ops->seek(request, &(GpuScanSeek){.segments = segments, .nsegments = 2, .hits = hits});
	WAIT_FOR(run, run->answered == 1);
	on->ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	return run;
}

static void
compare_seeks(const Device *devices, const char *name, int rounds,
			  const GpuScanLayout *const *layouts, Table *table)
{
	Columns *columns[2];
	int wrong = 0;
	int results = 0;

	for (int d = 0; d < 2; d++)
	{
		columns[d] = make_columns(&devices[d], layouts, table, GPUSCAN_RANGE_BLOCKS);
		if (!make_ranges(columns[d]))
		{
			ok(false, "%s: columns on %s", name, devices[d].ops->name);
			return;
		}
	}
	for (int round = 0; round < rounds; round++)
	{
		uint64_t start = seed;
		GpuScanProgram *program = random_scan();
		uint64_t *hits = calloc(2 * NUM_HITS, sizeof(uint64_t));
		Run *runs[2];
		bool some = false;
		bool bad;

		for (int d = 0; d < 2; d++)
			choose_columns(&devices[d], columns[d], program);
		for (int d = 0; d < 2; d++)
			runs[d] = run_seek(&devices[d], program, layouts, columns[d], hits + d * NUM_HITS);
		bad = runs[0]->batch_code != GPUSCAN_OK || runs[1]->batch_code != GPUSCAN_OK ||
			  runs[0]->stats.tuples != runs[1]->stats.tuples ||
			  runs[0]->stats.blocks_skipped != runs[1]->stats.blocks_skipped ||
			  memcmp(hits, hits + NUM_HITS, NUM_HITS * sizeof(uint64_t)) != 0;
		for (uint32_t r = 0; r < columns[0]->nranges; r++)
			some |= hits[r] != 0 &&
					(uint32_t) __builtin_popcountll(hits[r]) < columns[0]->ranges[r].nblocks;
		results += some;
		if (bad)
			print_program(program, start);
		wrong += bad;
		release(runs[0]);
		release(runs[1]);
		free(hits);
		free(program);
	}
	for (int d = 0; d < 2; d++)
		free_columns(&devices[d], columns[d]);
	ok(wrong == 0, "%s: %d Programs, %d of which want a part of the blocks (%d differ)", name,
	   rounds, results, wrong);
}

static void
compare_cached(const Device *devices, const char *name, int rounds, bool grouped, Kind kind,
			   const GpuScanLayout *const *layouts, Table *table)
{
	static const uint64_t expected[] = {0, 3, 100, 1000, TOO_MANY_GROUPS};
	Columns *columns[2];
	int wrong = 0;
	int results = 0;
	GpuScanProgram *program = NULL;

	for (int d = 0; d < 2; d++)
	{
		columns[d] = make_columns(&devices[d], layouts, table,
								  kind >= KIND_TOLD ? TOLD_BLOCKS : GPUSCAN_RANGE_BLOCKS);
		if (!make_ranges(columns[d]))
		{
			ok(false, "%s: columns on %s", name, devices[d].ops->name);
			return;
		}
	}
	for (int round = 0; round < rounds; round++)
	{
		uint64_t start = seed;
		uint64_t groups = expected[below(5)];
		Run *runs[2];
		int bad;

		if (!in_slots)
			groups = TOO_MANY_GROUPS;
		if (kind != KIND_TOLD || round % TOLD_LIMITS == 0)
		{
			free(program);
			program = kind == KIND_TOLD		   ? told_program()
					  : kind == KIND_ASCENDING ? ascending_program()
					  : kind == KIND_USUAL	   ? usual_program(grouped)
					  : kind == KIND_WIDE	   ? wide_program()
											   : random_program(true, grouped);
		}
		if (kind == KIND_TOLD)
			choose_limits(program);
		for (int d = 0; d < 2; d++)
			choose_columns(&devices[d], columns[d], program);
		for (int d = 0; d < 2; d++)
			runs[d] =
				run_cached(&devices[d], program, layouts, columns[d], groups, (GpuScanPass){0, 0});
		bad = compare_runs(program, runs[0], runs[1]);
		if (runs[0]->finish_code == GPUSCAN_OK)
		{
			results++;
			if (grouped && round % 4 == 0 &&
				!passes_add_up(&devices[1], program, layouts, columns[1], runs[0]))
			{
				printf("# passes do not add up\n");
				bad++;
			}
		}
		if (bad > 0)
			print_program(program, start);
		wrong += bad > 0;
		release(runs[0]);
		release(runs[1]);
	}
	free(program);
	for (int d = 0; d < 2; d++)
		free_columns(&devices[d], columns[d]);
	ok(wrong == 0, "%s: %d Programs, %d with a result (%d differ)", name, rounds, results, wrong);
}

static void
fill_columns(Table *table)
{
	for (uint32_t i = 0; i < table->nblocks; i++)
		table->blocks[i].fills = true;
}

int
main(int argc, char **argv)
{
	const char *error = "";
	const char *rounds_text = getenv("GPUSCAN_TEST_ROUNDS");
	int rounds = rounds_text == NULL ? 40 : atoi(rounds_text);
	const char *slots_text = getenv("GPUSCAN_TEST_SLOTS");
	const GpuScanLayout *layouts[2];
	Missing missing[NUM_COLUMNS] = {[C_INT4] = {"\7\0\0\0", 4}, [C_TEXT] = {"\11abc", 4}};
	Device devices[2] = {{&gpuscan_cpu_device, NULL}, {&gpuscan_cuda_device, NULL}};
	Table *tables[NUM_TABLES];
	Table *large;
	Table *told[2];

	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	in_slots = slots_text == NULL || atoi(slots_text) != 0;
	devices[1].device = gpuscan_cuda_device.open(0, 0, &error);
	if (devices[1].device == NULL)
	{
		printf("1..0 # SKIP %s\n", error);
		return 0;
	}
	devices[0].device = gpuscan_cpu_device.open(0, 0, &error);
	layouts[0] = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, missing);
	layouts[1] = new_layout(other_attrs, sizeof(other_attrs) / sizeof(attrs[0]), NUM_COLUMNS, NULL);
	tables[0] = random_table(3000, 40, 0, false);
	tables[1] = random_table(2000, 1000, 1, true);
	tables[2] = random_table(500, 100000, 0, true);
	tables[3] = random_table(300, 3, 1, false);
	large = random_table(200000, 100000, 0, false);
	told[0] = told_table(1);
	told[1] = told_table(1U << 30); /* more than a quick word has bits for */
	fill_columns(large);
	fill_columns(told[0]);
	fill_columns(told[1]);
	for (int t = 0; t < NUM_TABLES; t++)
		fill_columns(tables[t]);

	compare_devices(devices, "scans", rounds, false, false, layouts, tables, NUM_TABLES);
	compare_devices(devices, "without keys", rounds, true, false, layouts, tables, NUM_TABLES);
	compare_devices(devices, "groups", rounds * 2, true, true, layouts, tables, NUM_TABLES);
	compare_devices(devices, "many groups", rounds, true, true, layouts, &large, 1);
	compare_seeks(devices, "seeks", rounds, layouts, tables[0]);
	compare_seeks(devices, "seeks, many tuples", rounds, layouts, large);
	compare_cached(devices, "cached, without keys", rounds, false, KIND_RANDOM, layouts, tables[0]);
	compare_cached(devices, "cached, groups", rounds * 2, true, KIND_RANDOM, layouts, tables[3]);
	compare_cached(devices, "cached, many groups", rounds * 2, true, KIND_RANDOM, layouts, large);
	compare_cached(devices, "cached, usual without keys", rounds, false, KIND_USUAL, layouts,
				   tables[0]);
	compare_cached(devices, "cached, usual groups", rounds * 2, true, KIND_USUAL, layouts,
				   tables[0]);
	compare_cached(devices, "cached, many usual groups", rounds, true, KIND_USUAL, layouts, large);
	compare_cached(devices, "cached, many columns", 3, false, KIND_WIDE, layouts, tables[0]);
	compare_cached(devices, "cached, told by headers", rounds * 2 * TOLD_LIMITS, false, KIND_TOLD,
				   layouts, told[0]);
	compare_cached(devices, "cached, extrema by headers", rounds * 2, true, KIND_ASCENDING, layouts,
				   told[0]);
	compare_cached(devices, "cached, far extrema", rounds * 2, true, KIND_ASCENDING, layouts,
				   told[1]);
	gpuscan_cuda_device.close(devices[1].device);
	gpuscan_cpu_device.close(devices[0].device);
	return done_testing();
}
