/*-------------------------------------------------------------------------
 *
 * test_cpu_agg.c
 *	  The cpu device aggregating: every aggregate against a simple one written
 *	  here, any number of threads with the same bits, keys of every class, errors,
 *	  limits, and requests that end in the middle.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_fixture.h"

#include <math.h>
#include <unistd.h>

static GpuScanDevice *device;

enum
{
	C_KEY,
	C_INT,
	C_FLOAT,
	C_PRICE,
	C_TEXT,
	C_BIG,
	C_SMALL,
	NUM_COLUMNS
};

static const GpuScanAttr attrs[] = {{4, 4, 0, C_KEY},	 {4, 4, 0, C_INT},	 {8, 8, 0, C_FLOAT},
									{-1, 4, 0, C_PRICE}, {-1, 4, 0, C_TEXT}, {8, 8, 0, C_BIG},
									{4, 4, 0, C_SMALL}};

typedef struct Record
{
	int32_t key;
	int32_t number; /* NULL where a multiple of 7 */
	double f;		/* NULL where number is */
	int64_t price;	/* hundredths */
	char text[16];
	int64_t big;
	float small;
} Record;

static Record *
make_records(uint32_t n, uint32_t ngroups, uint64_t seed)
{
	Record *records = calloc(n + 1, sizeof(Record));

	for (uint32_t i = 0; i < n; i++)
	{
		Record *r = &records[i];

		r->key = (int32_t) (unit_random(&seed) % ngroups) - 5;
		r->number = (int32_t) (unit_random(&seed) % 2001) - 1000;
		r->f =
			((double) (int64_t) unit_random(&seed)) * pow(10, -(double) (unit_random(&seed) % 30));
		r->price = (int64_t) (unit_random(&seed) % 2000001) - 1000000;
		snprintf(r->text, sizeof(r->text), "%.*s%u", (int) (unit_random(&seed) % 9), "abcdefghi",
				 (unsigned) (unit_random(&seed) % 50));
		r->big = (int64_t) unit_random(&seed);
		r->small = (float) r->number / 8;
	}
	return records;
}

static bool
is_null(const Record *r)
{
	return r->number % 7 == 0;
}

static Table *
make_table(const Record *records, uint32_t n)
{
	Table *table = new_table(attrs);

	for (uint32_t i = 0; i < n; i++)
	{
		const Record *r = &records[i];
		Value values[NUM_COLUMNS] = {int4_value(r->key),
									 is_null(r) ? null_value() : int4_value(r->number),
									 is_null(r) ? null_value() : f64_value(r->f),
									 numeric_value(i % 2 ? V_SHORT : V_LONG, r->price),
									 text_value(i % 3 ? V_SHORT : V_LONG, r->text),
									 int8_value(r->big),
									 fixed_value(&r->small, 4)};

		add_tuple(table, NUM_COLUMNS, values);
	}
	return table;
}

static GpuScanLayout *
layout(void)
{
	return new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
}

/* Runs over one table; options->threads and so on are the caller's. */
static Run *
run_with(const GpuScanProgram *program, Table *table, uint32_t threads, uint64_t seed)
{
	const GpuScanLayout *l = layout();
	GpuScanRequestOptions options = run_options(new_run(), program, &l, 1, threads);
	Run *run = run_tables(device, &options, &table, 1, 3, seed);

	free((void *) l);
	return run;
}

/* The code that a whole request ends with. */
static GpuScanCode
code_of(GpuScanProgram *program, Table *table)
{
	Run *run = run_with(program, table, 0, 0);
	GpuScanCode code = run->finish_code;

	release(run);
	return code;
}

static uint32_t sort_offset;

static int
compare_rows(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) ((const char *) a + sort_offset);
	int64_t y = *(const int64_t *) ((const char *) b + sort_offset);
	uint64_t nx = *(const uint64_t *) a;
	uint64_t ny = *(const uint64_t *) b;

	return nx != ny ? (nx > ny) - (nx < ny) : (x > y) - (x < y);
}

static void
sort_rows(Run *run, uint32_t offset)
{
	sort_offset = offset;
	qsort(run->rows, run->nrows, run->row_size, compare_rows);
}

#define STATE(type, run, i, offset)                                                                \
	((const type *) ((run)->rows + (size_t) (i) * (run)->row_size + (offset)))

static gs_i128
wide(uint64_t lo, int64_t hi)
{
	return (gs_i128) ((gs_u128) (uint64_t) hi << 64 | lo);
}

/*
 * One Program with every aggregate, by an int key
 */
typedef struct Everything
{
	GpuScanProgram *program;
	uint32_t key, count, count_number, sum, sum_price, squares, sum_f, squares_f, min, max, min_f,
		max_small, and, or, bit_and, bit_or, distinct, distinct_text, filtered, min_price,
		sum_small, distinct_wide;
} Everything;

static Everything
everything(bool with_key)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t key = add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0);
	uint16_t number = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
	uint16_t f = add_input(b, C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0);
	uint16_t price = add_input(b, C_PRICE, GPUSCAN_DECODE_DEC64, 2);
	uint16_t price_wide = add_input(b, C_PRICE, GPUSCAN_DECODE_DEC128, 2);
	uint16_t text = add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0);
	uint16_t big = add_input(b, C_BIG, GPUSCAN_DECODE_INT8, 0);
	uint16_t small = add_input(b, C_SMALL, GPUSCAN_DECODE_FLOAT4, 0);
	uint16_t positive = add_instr(b, GPUSCAN_OP_I32_GT, number, add_param(b, GPUSCAN_I32, 0), 0, 0);
	Everything e = {0};

	/* WHERE price > -500 */
	b->header.filter =
		add_instr(b, GPUSCAN_OP_I64_GT, price, add_param(b, GPUSCAN_I64, -50000), 0, 0);
	if (with_key)
		e.key = add_key(b, key);
	e.count = add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	e.count_number = add_agg(b, GPUSCAN_AGG_COUNT, number, NO_REG);
	e.sum = add_agg(b, GPUSCAN_AGG_SUM_I64, number, NO_REG);
	e.sum_price = add_agg(b, GPUSCAN_AGG_SUM_I128, price, NO_REG);
	e.squares = add_agg(b, GPUSCAN_AGG_SQUARES_I128, number, NO_REG);
	e.sum_f = add_agg(b, GPUSCAN_AGG_SUM_F64, f, NO_REG);
	e.squares_f = add_agg(b, GPUSCAN_AGG_SQUARES_F64, f, positive);
	e.min = add_agg(b, GPUSCAN_AGG_MIN, number, NO_REG);
	e.max = add_agg(b, GPUSCAN_AGG_MAX, big, NO_REG);
	e.min_f = add_agg(b, GPUSCAN_AGG_MIN, f, NO_REG);
	e.max_small = add_agg(b, GPUSCAN_AGG_MAX, small, NO_REG);
	e.and = add_agg(b, GPUSCAN_AGG_BOOL_AND, positive, NO_REG);
	e.or = add_agg(b, GPUSCAN_AGG_BOOL_OR, positive, NO_REG);
	e.bit_and = add_agg(b, GPUSCAN_AGG_BIT_AND, number, NO_REG);
	e.bit_or = add_agg(b, GPUSCAN_AGG_BIT_OR, big, positive);
	e.distinct = add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, number, NO_REG);
	e.distinct_text = add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, text, positive);
	e.filtered = add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, positive);
	e.min_price = add_agg(b, GPUSCAN_AGG_MIN, price_wide, positive);
	e.sum_small = add_agg(b, GPUSCAN_AGG_SUM_F64, small, NO_REG);
	e.distinct_wide = add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, price_wide, NO_REG);
	e.program = build_program(b);
	return e;
}

/* What the aggregates are for the records of one key. */
typedef struct Expected
{
	int64_t count, numbers, sum, squares, min, max, bit_and, bit_or, filtered, distinct,
		distinct_text, min_price, distinct_price;
	gs_i128 sum_price;
	bool and, or ;
	double min_f, max_small, sum_small;
	GpuScanFSum3 sum_f;
	GpuScanFSum5 squares_f;
} Expected;

static int
compare_int64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a;
	int64_t y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int64_t
count_distinct(void *values, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	int64_t count = n > 0;

	qsort(values, n, size, compare);
	for (size_t i = 1; i < n; i++)
		count += compare((char *) values + (i - 1) * size, (char *) values + i * size) != 0;
	return count;
}

static Expected
expect(const Record *records, uint32_t n, const int32_t *key)
{
	Expected x = {.and = true, .bit_and = -1, .min_f = INFINITY, .max_small = -INFINITY};
	int64_t *numbers = malloc((n + 1) * sizeof(int64_t));
	int64_t *prices = malloc((n + 1) * sizeof(int64_t));
	char(*texts)[16] = malloc((n + 1) * sizeof(*texts));

	for (uint32_t i = 0; i < n; i++)
	{
		const Record *r = &records[i];
		bool positive = !is_null(r) && r->number > 0;

		if (r->price <= -50000 || (key != NULL && r->key != *key))
			continue;
		prices[x.count++] = r->price;
		x.sum_price += r->price;
		x.max = x.count == 1 || r->big > x.max ? r->big : x.max;
		x.max_small = r->small > x.max_small ? r->small : x.max_small;
		x.sum_small += r->small; /* eighths: exact */
		if (!is_null(r))
		{
			numbers[x.numbers++] = r->number;
			x.sum += r->number;
			x.squares += (int64_t) r->number * r->number;
			x.min = x.numbers == 1 || r->number < x.min ? r->number : x.min;
			x.min_f = r->f < x.min_f ? r->f : x.min_f;
			x.and &= positive;
			x.or |= positive;
			x.bit_and &= r->number;
			gs_fsum3_add(&x.sum_f, r->f);
		}
		if (positive)
		{
			memcpy(texts[x.filtered++], r->text, 16);
			x.bit_or |= r->big;
			x.min_price = x.filtered == 1 || r->price < x.min_price ? r->price : x.min_price;
			gs_fsum5_add_square(&x.squares_f, r->f);
		}
	}
	x.distinct = count_distinct(numbers, (size_t) x.numbers, sizeof(int64_t), compare_int64);
	x.distinct_price = count_distinct(prices, (size_t) x.count, sizeof(int64_t), compare_int64);
	x.distinct_text = count_distinct(texts, (size_t) x.filtered, 16, compare_texts);
	free(numbers);
	free(prices);
	free(texts);
	return x;
}

/* The number of aggregates that differ in row i. */
static int
differences(const Everything *e, const Run *run, size_t i, const Expected *x)
{
	const GpuScanSum128State *price = STATE(GpuScanSum128State, run, i, e->sum_price);
	const GpuScanSquares128State *squares = STATE(GpuScanSquares128State, run, i, e->squares);
	const GpuScanValue128State *min_price = STATE(GpuScanValue128State, run, i, e->min_price);
	const GpuScanSumF64State *sum_f = STATE(GpuScanSumF64State, run, i, e->sum_f);
	const GpuScanSquaresF64State *squares_f = STATE(GpuScanSquaresF64State, run, i, e->squares_f);
	const GpuScanSumF64State *sum_small = STATE(GpuScanSumF64State, run, i, e->sum_small);
	int wrong = 0;

	wrong += STATE(GpuScanCountState, run, i, e->count)->n != x->count;
	wrong += STATE(GpuScanCountState, run, i, e->count_number)->n != x->numbers;
	wrong += STATE(GpuScanCountState, run, i, e->filtered)->n != x->filtered;
	wrong += STATE(GpuScanSum64State, run, i, e->sum)->n != x->numbers;
	wrong += STATE(GpuScanSum64State, run, i, e->sum)->sum != x->sum;
	wrong += price->n != x->count || wide(price->lo, price->hi) != x->sum_price;
	wrong += wide(squares->lo, squares->hi) != x->sum ||
			 wide(squares->squares_lo, squares->squares_hi) != x->squares;
	wrong += sum_f->n != x->numbers || memcmp(&sum_f->sum, &x->sum_f, sizeof(x->sum_f)) != 0;
	wrong += squares_f->n != x->filtered ||
			 memcmp(&squares_f->squares, &x->squares_f, sizeof(x->squares_f)) != 0;
	wrong += sum_small->n != x->count ||
			 (x->count > 0 && gs_fsum3_result(&sum_small->sum) != x->sum_small);
	wrong += STATE(GpuScanCountState, run, i, e->distinct)->n != x->distinct;
	wrong += STATE(GpuScanCountState, run, i, e->distinct_text)->n != x->distinct_text;
	wrong += STATE(GpuScanCountState, run, i, e->distinct_wide)->n != x->distinct_price;
	if (x->count > 0)
	{
		wrong += STATE(GpuScanValueState, run, i, e->max_small)->value.f != x->max_small;
		wrong += STATE(GpuScanValueState, run, i, e->max)->value.i != x->max;
	}
	if (x->numbers > 0)
	{
		wrong += STATE(GpuScanValueState, run, i, e->min)->value.i != x->min;
		wrong += STATE(GpuScanValueState, run, i, e->min_f)->value.f != x->min_f;
		wrong += STATE(GpuScanValueState, run, i, e->and)->value.i != x->and;
		wrong += STATE(GpuScanValueState, run, i, e->or)->value.i != x->or ;
		wrong += STATE(GpuScanValueState, run, i, e->bit_and)->value.i != x->bit_and;
	}
	if (x->filtered > 0)
	{
		wrong += STATE(GpuScanValueState, run, i, e->bit_or)->value.i != x->bit_or;
		wrong += wide(min_price->lo, min_price->hi) != x->min_price;
	}
	return wrong;
}

static void
test_everything(void)
{
	const uint32_t counts[] = {0, 1, 2047, 2048, 2049, FEWER(20000)};

	for (int c = 0; c < 6; c++)
	{
		uint32_t n = counts[c];
		Record *records = make_records(n, 300, 11 + n);
		Table *table = make_table(records, n);
		Everything e = everything(true);
		Run *run = run_with(e.program, table, 1, 0);
		Expected x;
		int64_t seen = 0;
		int wrong = 0;

		for (size_t i = 0; i < run->nrows; i++)
		{
			int32_t key = (int32_t) *STATE(int64_t, run, i, e.key);

			x = expect(records, n, &key);
			seen += x.count;
			wrong += differences(&e, run, i, &x);
		}
		x = expect(records, n, NULL);
		ok(wrong == 0 && seen == x.count, "%u tuples, %zu groups, every aggregate (%d wrong)", n,
		   run->nrows, wrong);
		ok(run->stats.tuples == n && run->stats.passed == (uint64_t) x.count &&
			   run->stats.groups == run->nrows,
		   "statistics");
		release(run);

		e = everything(false);
		run = run_with(e.program, table, 1, 0);
		ok(run->nrows == 1 && differences(&e, run, 0, &x) == 0, "without keys");
		release(run);
		free_table(table);
		free(records);
	}
}

/* The same rows, whatever the threads and the order of batches. */
static void
test_threads(uint32_t n, uint32_t ngroups, bool with_key)
{
	Record *records = make_records(n, ngroups, 5);
	Table *table = make_table(records, n);
	Everything e = everything(with_key);
	Run *first = run_with(e.program, table, 1, 0);
	int wrong = 0;

	sort_rows(first, e.key);
	for (uint64_t seed = 1; seed <= (is_quick() ? 3 : 12); seed++)
	{
		Run *run = run_with(e.program, table, (uint32_t) seed % 5, seed);

		sort_rows(run, e.key);
		wrong += run->nrows != first->nrows || run->stats.groups != first->nrows ||
				 memcmp(run->rows, first->rows, first->size) != 0;
		release(run);
	}
	ok(wrong == 0, "%u tuples, %zu groups: the same bits with 1 to 4 threads (%d differ)", n,
	   first->nrows, wrong);
	release(first);
	free_table(table);
	free(records);
}

/* Passes have each group once, and together all of them. */
static void
test_passes(uint32_t n, uint32_t ngroups)
{
	Record *records = make_records(n, ngroups, 5);
	Table *table = make_table(records, n);
	const GpuScanLayout *l = layout();
	Everything e = everything(true);
	Run *whole = run_with(e.program, table, 0, 0);
	Run *all = new_run();
	size_t most = 0;

	all->rows = malloc(2 * whole->size + 1);
	all->row_size = whole->row_size;
	for (uint32_t i = 0; i < GPUSCAN_MAX_PASSES; i++)
	{
		GpuScanRequestOptions options = run_options(new_run(), e.program, &l, 1, 0);
		Run *run;

		/* a quarter in one pass, the others in fine ones, as after a pass that did not fit */
		if (i > 0 && i % 4 == 0)
			continue;
		options.pass = (GpuScanPass){i == 0 ? 3 : GPUSCAN_MAX_PASSES - 1, i};
		run = run_tables(device, &options, &table, 1, 8, i);
		if (all->nrows + run->nrows <= 2 * whole->nrows)
			memcpy(all->rows + all->nrows * all->row_size, run->rows, run->nrows * run->row_size);
		all->nrows += run->nrows;
		if (i > 0 && run->nrows > most)
			most = run->nrows;
		release(run);
	}
	ok(all->nrows == whole->nrows && most < whole->nrows / 20, "%zu groups in passes, %zu at most",
	   whole->nrows, most);
	sort_rows(all, e.key);
	sort_rows(whole, e.key);
	ok(memcmp(all->rows, whole->rows, whole->size) == 0, "they are those of one pass");
	release(all);
	release(whole);
	free_table(table);
	free(records);
}

/* GROUP BY text, a nullable int, a float, a wide numeric; count(*) */
static void
test_keys(void)
{
	uint32_t n = FEWER(30000);
	Record *records = make_records(n, 10, 3);
	Table *table = make_table(records, n);
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint32_t text, number, small, price, count;
	GpuScanProgram *program;
	Run *runs[2];
	int wrong = 0;
	int64_t seen = 0;

	text = add_key(b, add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0));
	number =
		add_key(b, add_instr(b, GPUSCAN_OP_INT4_MOD, add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0),
							 add_param(b, GPUSCAN_I32, 3), 0, 0));
	small = add_key(b, add_instr(b, GPUSCAN_OP_F32_ABS,
								 add_input(b, C_SMALL, GPUSCAN_DECODE_FLOAT4, 0), 0, 0, 0));
	price = add_key(b, add_instr(b, GPUSCAN_OP_DEC128_ROUND,
								 add_input(b, C_PRICE, GPUSCAN_DECODE_DEC128, 2),
								 add_param(b, GPUSCAN_I128, 1000000), 0, 0));
	count = add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	program = build_program(b);
	runs[0] = run_with(program, table, 1, 0);
	runs[1] = run_with(program, table, 4, 9);

	/* each row's count, by looking through some of the records */
	for (size_t i = 0; i < runs[1]->nrows; i++)
	{
		const uint32_t *place = STATE(uint32_t, runs[1], i, text);
		int64_t expected = 0;

		seen += STATE(GpuScanCountState, runs[1], i, count)->n;
		for (uint32_t k = 0; i % 50 == 0 && k < n; k++)
		{
			const Record *r = &records[k];
			uint64_t null = *STATE(uint64_t, runs[1], i, 0);

			expected += strlen(r->text) == place[1] &&
						memcmp(runs[1]->rows + place[0], r->text, place[1]) == 0 &&
						(null & 2) >> 1 == is_null(r) &&
						(is_null(r) || *STATE(int64_t, runs[1], i, number) == r->number % 3) &&
						*STATE(double, runs[1], i, small) == fabsf(r->small) &&
						*STATE(int64_t, runs[1], i, price) == llround((double) r->price / 1000000);
		}
		wrong += i % 50 == 0 && STATE(GpuScanCountState, runs[1], i, count)->n != expected;
	}
	ok(wrong == 0 && seen == n && runs[0]->nrows == runs[1]->nrows &&
		   runs[0]->size == runs[1]->size,
	   "four keys, %zu groups (%d wrong)", runs[1]->nrows, wrong);
	release(runs[0]);
	release(runs[1]);
	free_table(table);
	free(records);
}

static const GpuScanAttr float_attrs[] = {{8, 8, 0, 0}, {4, 4, 0, 1}};

/* A table of doubles, and of 0 beside each */
static Table *
float_table(const double *values, int n)
{
	Table *table = new_table(float_attrs);

	for (int i = 0; i < n; i++)
	{
		Value pair[2] = {f64_value(values[i]), int4_value(0)};

		add_tuple(table, 2, pair);
	}
	return table;
}

static Run *
run_floats(GpuScanAggKind kind, bool as_key, const double *values, int n)
{
	Builder *b = new_builder(2, true);
	uint16_t reg = add_input(b, 0, GPUSCAN_DECODE_FLOAT8, 0);
	const GpuScanLayout *l = new_layout(float_attrs, 2, 2, NULL);

	if (as_key)
		add_key(b, reg);
	add_agg(b, kind, reg, NO_REG);
	return run_table(device, build_program(b), l, float_table(values, n), 1);
}

static void
test_floats(void)
{
	const double nans[] = {NAN, -NAN, 1, 1, INFINITY};
	const double zeros[] = {0.0, -0.0, -1};
	const double minus[] = {-0.0, -0.0, -1};
	const double above[] = {0.0, -0.0, 5};
	const double huge[] = {1e308, 1e308, -1e308};
	Run *run = run_floats(GPUSCAN_AGG_COUNT, true, nans, 5);

	ok(run->nrows == 3, "NaNs are one group");
	ok(run_floats(GPUSCAN_AGG_COUNT, true, minus, 3)->finish_code == GPUSCAN_LEFT_TO_POSTGRES,
	   "a key of -0");
	ok(run_floats(GPUSCAN_AGG_MAX, false, zeros, 3)->finish_code == GPUSCAN_LEFT_TO_POSTGRES,
	   "max of both zeros");
	run = run_floats(GPUSCAN_AGG_MAX, false, minus, 3);
	ok(run->finish_code == GPUSCAN_OK && signbit(STATE(GpuScanValueState, run, 0, 8)->value.f) &&
		   STATE(GpuScanValueState, run, 0, 8)->n == 3,
	   "max of -0 alone is -0");
	run = run_floats(GPUSCAN_AGG_MAX, false, above, 3);
	ok(run->finish_code == GPUSCAN_OK && STATE(GpuScanValueState, run, 0, 8)->value.f == 5 &&
		   STATE(GpuScanValueState, run, 0, 8)->n == 3,
	   "both zeros below the max");
	run = run_floats(GPUSCAN_AGG_MAX, false, nans, 5);
	ok(isnan(STATE(GpuScanValueState, run, 0, 8)->value.f), "NaN is the max");
	run = run_floats(GPUSCAN_AGG_MIN, false, nans, 5);
	ok(STATE(GpuScanValueState, run, 0, 8)->value.f == 1, "NaN is not the min");
	run = run_floats(GPUSCAN_AGG_COUNT_DISTINCT, false, zeros, 3);
	ok(STATE(GpuScanCountState, run, 0, 8)->n == 2, "the zeros are one distinct value");
	run = run_floats(GPUSCAN_AGG_COUNT_DISTINCT, false, nans, 5);
	ok(STATE(GpuScanCountState, run, 0, 8)->n == 3, "NaNs are one distinct value");
	ok(run_floats(GPUSCAN_AGG_SUM_F64, false, huge, 3)->finish_code == GPUSCAN_LEFT_TO_POSTGRES,
	   "a sum that may overflow");
}

/*
 * Sums of groups whose summands change in size every 1,000 tuples: up, down, to zeros, and
 * beyond what is summed the quick way.
 */
static void
test_group_sums(uint32_t ngroups)
{
	static const double sizes[] = {1, 0x1p40, 1, 0x1p-20, 0x1p6, 0x1p80, 0, 0x1p-200, 0x1p20, 1};
	const uint32_t n = 10000;
	GpuScanFSum3 *sums = calloc(ngroups, sizeof(GpuScanFSum3));
	GpuScanFSum3 *small_sums = calloc(ngroups, sizeof(GpuScanFSum3));
	Record *records = make_records(n, ngroups, 11);
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint32_t key = add_key(b, add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0));
	uint32_t sum =
		add_agg(b, GPUSCAN_AGG_SUM_F64, add_input(b, C_FLOAT, GPUSCAN_DECODE_FLOAT8, 0), NO_REG);
	uint32_t small_sum =
		add_agg(b, GPUSCAN_AGG_SUM_F64, add_input(b, C_SMALL, GPUSCAN_DECODE_FLOAT4, 0), NO_REG);
	GpuScanProgram *program = build_program(b);
	int wrong = 0;
	Run *run;

	for (uint32_t i = 0; i < n; i++)
	{
		Record *r = &records[i];

		r->f = sizes[i / 1000] * (double) r->big * 0x1p-63;
		if (i % 1000 == 999)
			r->f = i % 2000 == 999 ? NAN : -INFINITY;
		r->small = (float) r->f;
		gs_fsum3_add_f32(&small_sums[r->key + 5], r->small);
		if (!is_null(r))
			gs_fsum3_add(&sums[r->key + 5], r->f);
	}
	run = run_with(program, make_table(records, n), 1, 0);
	for (size_t i = 0; i < run->nrows; i++)
	{
		int64_t group = *STATE(int64_t, run, i, key) + 5;

		wrong += memcmp(&STATE(GpuScanSumF64State, run, i, sum)->sum, &sums[group],
						sizeof(GpuScanFSum3)) != 0;
		wrong += memcmp(&STATE(GpuScanSumF64State, run, i, small_sum)->sum, &small_sums[group],
						sizeof(GpuScanFSum3)) != 0;
	}
	ok(run->nrows > ngroups / 2 && wrong == 0, "sums of %u groups whose summands change in size",
	   ngroups);
	release(run);
	free(program);
	free(records);
	free(sums);
	free(small_sums);
}

/* 10 / number, as an aggregate's argument, with a filter that keeps zeros away or not */
static GpuScanProgram *
division(bool in_case, bool with_filter, bool in_where, bool as_key)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t number = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
	uint16_t zero = add_param(b, GPUSCAN_I32, 0);
	uint16_t quotient =
		add_instr(b, GPUSCAN_OP_INT4_DIV, add_param(b, GPUSCAN_I32, 10), number, 0, 0);
	uint16_t safe = add_instr(b, GPUSCAN_OP_I32_NE, number, zero, 0, 0);

	if (in_case)
		quotient = add_instr(b, GPUSCAN_OP_SELECT_I32, safe, quotient, zero, 0);
	if (in_where)
		b->header.filter = safe;
	if (as_key)
		add_key(b, quotient);
	add_agg(b, GPUSCAN_AGG_SUM_I64, quotient, with_filter ? safe : NO_REG);
	return build_program(b);
}

static void
test_errors(void)
{
	Table *table = new_table(attrs);
	Builder *b = new_builder(NUM_COLUMNS, true);

	for (int i = 0; i < 5000; i++)
	{
		Value values[2] = {int4_value(i), int4_value(i % 3)};

		add_tuple(table, 2, values);
	}
	ok(code_of(division(false, false, false, false), table) == GPUSCAN_LEFT_TO_POSTGRES,
	   "an error reaches an aggregate");
	ok(code_of(division(false, true, false, false), table) == GPUSCAN_OK,
	   "an error behind the aggregate's filter");
	ok(code_of(division(true, false, false, false), table) == GPUSCAN_OK,
	   "an error in a branch that CASE does not take");
	ok(code_of(division(false, false, true, false), table) == GPUSCAN_OK,
	   "an error in tuples that WHERE rejects");
	ok(code_of(division(false, true, false, true), table) == GPUSCAN_LEFT_TO_POSTGRES,
	   "an error as a key");

	b->header.filter = add_instr(b, GPUSCAN_OP_I32_EQ,
								 add_instr(b, GPUSCAN_OP_INT4_DIV, add_param(b, GPUSCAN_I32, 10),
										   add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0), 0, 0),
								 add_param(b, GPUSCAN_I32, 5), 0, 0);
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	ok(code_of(build_program(b), table) == GPUSCAN_LEFT_TO_POSTGRES, "an error in WHERE");

	/* a line pointer that is dead */
	*(uint32_t *) (table->blocks[1].base + GPUSCAN_PAGE_HEADER_SIZE + 40) |= 3 << 15;
	ok(code_of(division(true, false, false, false), table) == GPUSCAN_LEFT_TO_POSTGRES,
	   "a malformed tuple");
	free_table(table);
}

static void
test_deferred(void)
{
	Table *table = new_table(attrs);
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t number = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
	const GpuScanLayout *l = layout();
	uint32_t key, sum;
	int wrong = 0;
	Run *run;

	for (int i = 0; i < 100; i++)
	{
		Value values[NUM_COLUMNS] = {int4_value(1),
									 int4_value(i),
									 f64_value(1),
									 numeric_value(V_SHORT, 100),
									 text_value(i % 5 == 0 ? V_COMPRESSED : V_SHORT, "t"),
									 int8_value(1),
									 int4_value(1)};

		add_tuple(table, NUM_COLUMNS, values);
	}
	b->header.filter = add_instr(b, GPUSCAN_OP_I32_GE, number, add_param(b, GPUSCAN_I32, 50), 0, 0);
	key = add_key(b, add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0));
	sum = add_agg(b, GPUSCAN_AGG_SUM_I64, number, NO_REG);
	run = run_table(device, build_program(b), l, table, 1);
	for (uint32_t i = 0; i < 100; i++)
		wrong += table->blocks[0].outcome[i] !=
				 (i >= 50 && i % 5 == 0 ? GPUSCAN_TUPLE_DEFERRED : GPUSCAN_TUPLE_REJECTED);
	ok(wrong == 0 && run->nrows == 1 && STATE(uint32_t, run, 0, key)[1] == 1 &&
		   STATE(GpuScanSum64State, run, 0, sum)->n == 40 &&
		   STATE(GpuScanSum64State, run, 0, sum)->sum == 3725 - 725,
	   "deferred behind the filter alone");
	ok(run->stats.tuples == 90 && run->stats.passed == 40, "deferred tuples are not counted");
	release(run);
}

static GpuScanProgram *
by_key(bool distinct)
{
	Builder *b = new_builder(NUM_COLUMNS, true);

	add_key(b, add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0));
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	if (distinct)
		add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, add_input(b, C_BIG, GPUSCAN_DECODE_INT8, 0), NO_REG);
	return build_program(b);
}

static void
test_limits(void)
{
	Record *records = make_records(FEWER(100000), FEWER(50000), 1);
	Table *table = make_table(records, FEWER(100000));
	const GpuScanLayout *l = layout();
	int wrong = 0;
	int failed = 0;
	uint64_t highest = 0;
	char buf[64] __attribute__((aligned(8)));
	GpuScanRequestOptions options;
	GpuScanRequest *request;
	GpuScanProgram *program;
	uint32_t nrows;
	Run *run = run_with(by_key(true), table, 0, 0);
	size_t ngroups = run->nrows;

	release(run);

	/* every limit up to one that suffices */
	for (uint64_t limit = 1000; failed >= 0; limit = limit * 5 / 4)
	{
		options = run_options(new_run(), by_key(true), &l, 1, 3);
		options.memory_limit = limit;
		run = run_tables(device, &options, &table, 1, 8, limit);
		wrong += run->stats.memory > limit;
		if (run->finish_code == GPUSCAN_OK)
		{
			highest = run->stats.memory;
			wrong += run->nrows != ngroups;
			failed = -failed;
		}
		else
		{
			wrong += run->finish_code != GPUSCAN_OUT_OF_MEMORY;
			failed++;
		}
		release(run);
	}
	ok(wrong == 0 && failed < -5 && highest > 1000000, "%d memory limits, until %llu bytes suffice",
	   -failed, (unsigned long long) highest);

	/* fetch into a buffer too small for one row, then into one for two */
	program = by_key(false);
	options = run_options(new_run(), program, &l, 1, 1);
	run = options.arg;
	device_ops->begin(device, &options, &request);
	device_ops->push(request, &(GpuScanBatch){.nblocks = 1, .blocks = table->blocks});
	WAIT_FOR(run, run->answered == 1);
	device_ops->finish(request);
	WAIT_FOR(run, run->finished);
	ok(device_ops->fetch(request, buf, 23, &nrows) == GPUSCAN_OUT_OF_MEMORY,
	   "a buffer for less than a row");
	ok(device_ops->fetch(request, buf, 63, &nrows) == GPUSCAN_OK && nrows == 2,
	   "a buffer for two rows");
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);

	/* nothing pushed at all */
	for (int with_key = 0; with_key < 2; with_key++)
	{
		Everything e = everything(with_key);

		options = run_options(new_run(), e.program, &l, 1, 0);
		run = run_tables(device, &options, &table, 0, 8, 0);
		ok(run->finish_code == GPUSCAN_OK && run->nrows == !with_key, "no batch, %s keys",
		   with_key ? "with" : "without");
		release(run);
	}
	free_table(table);
	free(records);
}

static void
test_end(void)
{
	Record *records = make_records(FEWER(60000), FEWER(30000), 1);
	Table *table = make_table(records, FEWER(60000));
	const GpuScanLayout *l = layout();
	uint64_t seed = 99;
	int wrong = 0;
	int finished = 0;

	for (int round = 0; round < 200; round++)
	{
		Run *run = new_run();
		GpuScanRequestOptions options = run_options(run, by_key(round % 2), &l, 1, 0);
		GpuScanRequest *request;
		uint32_t pushed = 0;

		device_ops->begin(device, &options, &request);
		for (uint32_t i = 0; i + 20 < table->nblocks; i += 20, pushed++)
			device_ops->push(request, &(GpuScanBatch){.nblocks = 20, .blocks = &table->blocks[i]});
		if (round % 4 >= 2)
		{
			WAIT_FOR(run, run->answered == pushed);
			device_ops->finish(request);
		}
		usleep((useconds_t) (unit_random(&seed) % 2000));
		device_ops->end(request);
		WAIT_FOR(run, run->ended > 0);
		wrong += run->ended != 1;
		finished += run->finished;
		release(run);
	}
	ok(wrong == 0, "200 requests ended in the middle, %d of them finished", finished);
	free_table(table);
	free(records);
}

/* Corrupted pages give some answer or none, but no access out of bounds (ASan watches). */
static void
test_corruption(void)
{
	Record *records = make_records(100, 10, 8);
	Table *table = make_table(records, 100);
	Everything e = everything(true);
	char good[PAGE_SIZE];
	uint64_t seed = 4;
	int answered = 0;

	table->nblocks = 1;
	memcpy(good, table->blocks[0].base, PAGE_SIZE);
	for (int round = 0; round < ROUNDS(1000); round++)
	{
		char *page = (char *) table->blocks[0].base;
		GpuScanCode code;
		Run *run;

		memcpy(page, good, PAGE_SIZE);
		for (uint64_t flips = 1 + unit_random(&seed) % 4; flips > 0; flips--)
			page[unit_random(&seed) % PAGE_SIZE] ^= (char) (1 << unit_random(&seed) % 8);
		run = run_with(e.program, table, 0, 0);
		code = run->finish_code;
		answered += code == GPUSCAN_OK;
		if (code != GPUSCAN_OK && code != GPUSCAN_LEFT_TO_POSTGRES)
			answered = -100000;
		release(run);
	}
	ok(answered > 0 && answered < ROUNDS(1000), "corrupted pages, %d aggregated", answered);
	free_table(table);
	free(records);
}

int
main(void)
{
	device = open_device(4);
	test_everything();
	test_threads(3000, 1, true);
	test_threads(FEWER(20000), 500, true);
	test_threads(FEWER(60000), FEWER(40000), true);
	test_threads(FEWER(60000), 1, false);
	test_passes(FEWER(20000), FEWER(5000));
	test_keys();
	test_floats();
	test_group_sums(40);
	test_group_sums(4000);
	test_errors();
	test_deferred();
	test_limits();
	test_end();
	test_corruption();
	device_ops->close(device);
	return done_testing();
}
