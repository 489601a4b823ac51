/*-------------------------------------------------------------------------
 *
 * test_fsum.c
 *	  cuda/fsum.h: any order and any tree of merges give the same bits, and the
 *	  result is the exact sum, rounded once, within the error bound.
 *
 * The exact reference is a fixed-point number of 2304 bits, wide enough for
 * every double and every square.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <stdlib.h>

#include "aggregate.h"

#include "unit.h"

#define MAX_VALUES 3000

/* A two's complement integer in units of 2^-1074 */
#define WORDS 72
typedef struct Exact
{
	uint32_t word[WORDS];
} Exact;

static void
exact_add_bits(Exact *exact, gs_u128 magnitude, int position, bool negative)
{
	uint64_t carry = negative;

	for (int i = 0; i < WORDS; i++)
	{
		int shift = 32 * i - position;
		uint32_t bits = 0;

		if (shift >= 0 && shift < 128)
			bits = (uint32_t) (magnitude >> shift);
		else if (shift < 0 && shift > -32)
			bits = (uint32_t) (magnitude << -shift);
		carry += (uint64_t) exact->word[i] + (negative ? ~bits : bits);
		exact->word[i] = (uint32_t) carry;
		carry >>= 32;
	}
}

static void
exact_add(Exact *exact, double x)
{
	GsFloatParts parts = gs_float_parts(x);

	exact_add_bits(exact, parts.mantissa, parts.position, parts.negative);
}

static void
exact_negate(Exact *exact)
{
	uint64_t carry = 1;

	for (int i = 0; i < WORDS; i++)
	{
		carry += (uint32_t) ~exact->word[i];
		exact->word[i] = (uint32_t) carry;
		carry >>= 32;
	}
}

/* Rounded to nearest, ties to even, bit by bit */
static double
exact_result(Exact exact)
{
	bool negative = exact.word[WORDS - 1] >> 31;
	uint64_t mantissa = 0;
	int high = 32 * WORDS - 1;
	int low;
	bool rest = false;
	double r;

#define BIT(i) ((exact.word[(i) / 32] >> ((i) % 32) & 1) != 0)
	if (negative)
		exact_negate(&exact);
	while (high >= 0 && !BIT(high))
		high--;
	if (high < 0)
		return 0.0;
	low = high > 52 ? high - 52 : 0;
	for (int i = high; i >= low; i--)
		mantissa = mantissa << 1 | BIT(i);
	for (int i = 0; i < low - 1; i++)
		rest |= BIT(i);
	if (low > 0 && BIT(low - 1) && (rest || (mantissa & 1)))
		mantissa++;
	r = ldexp((double) mantissa, low - 1074);
	return negative ? -r : r;
}

static bool
same_bits(double a, double b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

static void
shuffle(double *x, int n, uint64_t *seed)
{
	for (int i = n - 1; i > 0; i--)
	{
		int j = (int) (unit_random(seed) % (uint64_t) (i + 1));
		double t = x[i];

		x[i] = x[j];
		x[j] = t;
	}
}

/* Sums x with a random tree of merges, some of whose leaves are empty */
static void
sum_tree(const double *x, int n, uint64_t *seed, GpuScanSquaresF64State *state, GpuScanFSum3 *sum3)
{
	GpuScanSquaresF64State right = {0};
	GpuScanFSum3 right3 = {0};
	int left = n > 0 ? (int) (unit_random(seed) % (uint64_t) (n + 1)) : 0;

	if (n < 4 || unit_random(seed) % 8 == 0)
	{
		for (int i = 0; i < n; i++)
		{
			gs_fsum3_add(sum3, x[i]);
			gs_fsum5_add(&state->sum, x[i]);
			gs_fsum5_add_square(&state->squares, x[i]);
		}
		return;
	}
	sum_tree(x, left, seed, state, sum3);
	sum_tree(x + left, n - left, seed, &right, &right3);
	gs_fsum3_merge(sum3, &right3);
	gs_fsum5_merge(&state->sum, &right.sum);
	gs_fsum5_merge(&state->squares, &right.squares);
}

/* A finite double whose exponent is within `range` of `exponent`, biased */
static double
random_double(uint64_t *seed, int exponent, int range)
{
	uint64_t random = unit_random(seed);
	uint64_t e = (uint64_t) (exponent + (int) (unit_random(seed) % (uint64_t) range));
	uint64_t bits = (random & 0x800FFFFFFFFFFFFF) | e << 52;
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static void
test_orders(const char *name, int exponent, int range, bool cancelling)
{
	static double x[MAX_VALUES];
	uint64_t seed = (uint64_t) exponent * 3 + (uint64_t) range;
	int moved = 0;
	int inexact = 0;
	int beyond = 0;

	for (int round = 0; round < 30; round++)
	{
		int n = 1 + (int) (unit_random(&seed) % MAX_VALUES);
		GpuScanFSum3 first = {0};
		GpuScanSquaresF64State first5 = {0};
		Exact exact = {{0}};
		double max = 0;
		double error;
		double expected;

		for (int i = 0; i < n; i++)
		{
			x[i] = cancelling && i >= n / 2 ? -x[i - n / 2] : random_double(&seed, exponent, range);
			max = fmax(max, fabs(x[i]));
			exact_add(&exact, x[i]);
		}
		for (int order = 0; order < 10; order++)
		{
			GpuScanFSum3 sum3 = {0};
			GpuScanSquaresF64State state = {0};

			sum_tree(x, n, &seed, &state, &sum3);
			if (order == 0)
			{
				first = sum3;
				first5 = state;
			}
			moved += memcmp(&first, &sum3, sizeof(first)) != 0;
			moved += memcmp(&first5, &state, sizeof(first5)) != 0;
			shuffle(x, n, &seed);
		}
		expected = exact_result(exact);
		error = fabs(gs_fsum3_result(&first) - expected);
		beyond += error > n * ldexp(max, -60) + fabs(expected) * DBL_EPSILON;
		/* where 5 windows hold all the bits there is no error but the last rounding */
		if (range <= 60)
			inexact += !same_bits(gs_fsum5_result(&first5.sum), expected) ||
					   (double) gs_fsum5_to_f128(&first5.sum) != expected;
	}
	ok(moved == 0, "%s: every order and tree gives the same bits", name);
	ok(beyond == 0, "%s: within the error bound", name);
	ok(inexact == 0, "%s: five windows are exact", name);
}

/* Exact sums of squares, against quadruple precision */
static void
test_squares(void)
{
	uint64_t seed = 11;
	int failed = 0;

	for (int round = 0; round < 200; round++)
	{
		GpuScanSquaresF64State state = {0};
		__float128 squares = 0;
		__float128 difference;

		for (int i = 0; i < 500; i++)
		{
			double x = random_double(&seed, 1023 - round, 8);

			gs_fsum5_add_square(&state.squares, x);
			squares += (__float128) x * x;
		}
		difference = gs_fsum5_to_f128(&state.squares) / squares - 1;
		/* the reference rounds 500 times to 113 bits */
		failed += difference > 1e-31Q || difference < -1e-31Q;
	}
	ok(failed == 0, "squares agree with quadruple precision");
}

static void
test_variance(void)
{
	GpuScanSquaresF64State state = {0};
	__float128 sum;
	double deviation;

	/* 1e9 + {4, 7, 13, 16}: Sxx = 90 */
	for (int i = 0; i < 4; i++)
	{
		static const double x[] = {4, 7, 13, 16};

		state.n++;
		gs_fsum5_add(&state.sum, 1e9 + x[i]);
		gs_fsum5_add_square(&state.squares, 1e9 + x[i]);
	}
	sum = gs_fsum5_to_f128(&state.sum);
	deviation = (double) (gs_fsum5_to_f128(&state.squares) - sum * sum / state.n);
	ok(deviation == 90, "a variance survives cancellation");
}

static double
sum3(int n, const double *x)
{
	GpuScanFSum3 sum = {0};

	for (int i = 0; i < n; i++)
		gs_fsum3_add(&sum, x[i]);
	return gs_fsum3_result(&sum);
}

#define SUM(...)                                                                                   \
	sum3((int) (sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static void
test_values(void)
{
	GpuScanFSum3 empty = {0};
	GpuScanFSum3 sum = {0};

	ok(SUM(1, 2, 3) == 6, "1 + 2 + 3");
	ok(SUM(0.1, 0.2, 0.3) == 0.6, "0.1 + 0.2 + 0.3 is 0.6 rounded once");
	ok(SUM(1e16, 1, -1e16) == 1, "1e16 + 1 - 1e16");
	ok(SUM(9007199254740992.0, 1) == 9007199254740992.0, "a tie goes to even, down");
	ok(SUM(9007199254740994.0, 1) == 9007199254740996.0, "a tie goes to even, up");
	ok(SUM(9007199254740992.0, 1, 0x1p-6) == 9007199254740994.0, "above a tie goes up");
	ok(SUM(-9007199254740992.0, -1, 0x1p-6) == -9007199254740992.0, "below a tie goes down");
	ok(SUM(5e-324) == 5e-324 && SUM(5e-324, 5e-324) == 1e-323, "the smallest subnormals");
	ok(SUM(5e-324, -DBL_MIN) == -(DBL_MIN - 5e-324), "subnormal and normal");
	ok(SUM(DBL_MIN, -5e-324, 5e-324) == DBL_MIN, "across the subnormal boundary");
	ok(same_bits(SUM(-0.0, -0.0), -0.0), "-0 + -0 is -0");
	ok(same_bits(SUM(-0.0, 0.0), 0.0), "-0 + 0 is 0");
	ok(same_bits(SUM(-0.0, 1, -1), 0.0), "-0 + 1 - 1 is 0");
	ok(same_bits(SUM(-1, 1), 0.0), "-1 + 1 is 0");
	ok(isnan(SUM(1, NAN)) && isnan(SUM(INFINITY, -INFINITY)) && isnan(SUM(INFINITY, NAN)), "NaN");
	ok(SUM(INFINITY, -1e300) == INFINITY && SUM(-INFINITY, 1) == -INFINITY, "infinities");

	gs_fsum3_add(&sum, 0x1p476);
	gs_fsum3_add(&sum, 0x1p476);
	ok((sum.special & GPUSCAN_FSUM_HUGE) == 0 && gs_fsum3_result(&sum) == 0x1p477,
	   "the largest that is not huge");
	gs_fsum3_merge(&empty, &sum);
	ok(memcmp(&empty, &sum, sizeof(sum)) == 0, "merging into an empty accumulator copies");
	gs_fsum3_add(&sum, 0x1p477);
	ok((sum.special & GPUSCAN_FSUM_HUGE) != 0, "huge");
	sum = (GpuScanFSum3){0};
	gs_fsum3_add_f32(&sum, 0x1p92f);
	ok((sum.special & GPUSCAN_FSUM_HUGE) == 0, "the largest float4 that is not huge");
	gs_fsum3_add_f32(&sum, -0x1p93f);
	ok((sum.special & GPUSCAN_FSUM_HUGE) != 0, "a huge float4");
}

static void
test_square_values(void)
{
	GpuScanFSum5 sum = {0};

	gs_fsum5_add_square(&sum, -0.0);
	ok(same_bits(gs_fsum5_result(&sum), 0.0), "the square of -0 is 0");
	gs_fsum5_add_square(&sum, 1e-200);
	ok(gs_fsum5_result(&sum) == 0, "a square that underflows");
	gs_fsum5_add_square(&sum, 0x1p-537);
	ok(gs_fsum5_result(&sum) == 0x1p-1074, "the smallest square");
	gs_fsum5_add_square(&sum, -0x1.fp476);
	ok((sum.special & GPUSCAN_FSUM_HUGE) == 0 && gs_fsum5_result(&sum) == 0x1.fp476 * 0x1.fp476,
	   "the largest square");
	gs_fsum5_add_square(&sum, 0x1p477);
	ok((sum.special & GPUSCAN_FSUM_HUGE) != 0, "a huge square");
	gs_fsum5_add_square(&sum, -INFINITY);
	ok(gs_fsum5_result(&sum) == INFINITY, "the square of -infinity");
}

/* As many of the largest pieces as an accumulator may take, by doubling */
static void
test_capacity(void)
{
	GpuScanFSum5 sum = {0};
	double x = -0x1.fffffffffffffp59; /* every bit of its windows set but the lowest */

	gs_fsum5_add(&sum, x);
	for (int i = 0; i < 33; i++)
		gs_fsum5_merge(&sum, &(GpuScanFSum5){sum.top,
											 sum.special,
											 {sum.w[0], sum.w[1], sum.w[2], sum.w[3], sum.w[4]}});
	ok(gs_fsum5_result(&sum) == ldexp(x, 33), "2^33 summands");
}

/* Against the library's functions, for numbers of any size */
static void
test_rounding(void)
{
	uint64_t seed = 5;
	int wrong = 0;

	for (int i = 0; i < 200000; i++)
	{
		gs_u128 magnitude = (gs_u128) unit_random(&seed) << 64 | unit_random(&seed);
		int exponent = (int) (unit_random(&seed) % 2000) - 1074;

		magnitude >>= unit_random(&seed) % 128;
		/* ties, and numbers next to them */
		if (i % 4 == 0)
			magnitude = (magnitude >> 60 << 60) + (i % 3);
		/* subnormal results are exact, as sums are */
		if (exponent < -1022)
			magnitude = magnitude % 2 + (gs_u128) (i % 1000);
		wrong +=
			!same_bits(gs_fsum_round(magnitude, exponent), ldexp((double) magnitude, exponent));
	}
	ok(wrong == 0, "rounding agrees with the library");
}

/* What gs_fsum3_add_plain takes it adds as gs_fsum3_add does, to the bit. */
static void
test_plain(void)
{
	uint64_t seed = 7;
	int wrong = 0;
	int taken = 0;

	for (int round = 0; round < 2000; round++)
	{
		int base = (int) (unit_random(&seed) % 2000);
		GpuScanFSum3 expected = {0};
		GpuScanFSum3 plain = {0};

		for (int i = 0; i < 100; i++)
		{
			uint64_t random = unit_random(&seed);
			uint64_t exponent = (uint64_t) base + unit_random(&seed) % 100;
			uint64_t bits =
				(random & ~(UINT64_C(0x7FF) << 52)) | (exponent > 0x7FF ? 0x7FF : exponent) << 52;
			double x;

			/* short mantissas, zeros */
			if (i % 10 == 0)
				bits &= ~(uint64_t) 0 << 40;
			if (i % 17 == 0)
				bits &= UINT64_C(1) << 63;
			memcpy(&x, &bits, sizeof(x));
			gs_fsum3_add(&expected, x);
			if (gs_fsum3_add_plain(&plain, x))
				taken++;
			else
				gs_fsum3_add(&plain, x);
			wrong += memcmp(&expected, &plain, sizeof(plain)) != 0;
		}
	}
	ok(wrong == 0 && taken > 50000, "%d values added in the arithmetic of doubles", taken);
}

int
main(void)
{
	test_orders("close", 1000, 20, false);
	test_orders("apart", 90, 1400, false);
	test_orders("subnormal", 0, 60, false);
	test_orders("cancelling", 1010, 40, true);
	test_orders("everything", 0, 1499, false);
	test_orders("large", 1448, 50, true);
	test_squares();
	test_variance();
	test_values();
	test_square_values();
	test_capacity();
	test_rounding();
	test_plain();
	return done_testing();
}
