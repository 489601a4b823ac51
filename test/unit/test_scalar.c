/*-------------------------------------------------------------------------
 *
 * test_scalar.c
 *	  cuda/scalar.h at its edges.  Expected values are PostgreSQL 15's; an "E"
 *	  check expects the error flag.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <stdlib.h>

#include "scalar.h"

#include "unit.h"

/* fn(a, b) gives `expected` without an error; fn(a, b) gives an error */
#define OK2(T, fn, a, b, expected)                                                                 \
	do                                                                                             \
	{                                                                                              \
		T r_;                                                                                      \
		uint8_t e_ = fn(a, b, &r_);                                                                \
		ok(e_ == 0 && same_##T(r_, expected), "%s(%s, %s) = %s", #fn, #a, #b, #expected);          \
	} while (0)
#define E2(T, fn, a, b)                                                                            \
	do                                                                                             \
	{                                                                                              \
		T r_;                                                                                      \
		ok(fn(a, b, &r_) == GPUSCAN_ERROR, "%s(%s, %s) is an error", #fn, #a, #b);                 \
	} while (0)
#define OK1(T, fn, a, expected)                                                                    \
	do                                                                                             \
	{                                                                                              \
		T r_;                                                                                      \
		uint8_t e_ = fn(a, &r_);                                                                   \
		ok(e_ == 0 && same_##T(r_, expected), "%s(%s) = %s", #fn, #a, #expected);                  \
	} while (0)
#define E1(T, fn, a)                                                                               \
	do                                                                                             \
	{                                                                                              \
		T r_;                                                                                      \
		ok(fn(a, &r_) == GPUSCAN_ERROR, "%s(%s) is an error", #fn, #a);                            \
	} while (0)
#define V2(T, fn, a, b, expected)                                                                  \
	do                                                                                             \
	{                                                                                              \
		T r_;                                                                                      \
		fn(a, b, &r_);                                                                             \
		ok(same_##T(r_, expected), "%s(%s, %s) = %s", #fn, #a, #b, #expected);                     \
	} while (0)

#define same_int32_t(a, b) ((a) == (b))
#define same_int64_t(a, b) ((a) == (b))
#define same_uint8_t(a, b) ((a) == (b))
#define same_gs_i128(a, b) ((a) == (b))

/* The same bits, or both NaN */
static bool
same_double(double a, double b)
{
	return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof(a)) == 0;
}

static bool
same_float(float a, float b)
{
	return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof(a)) == 0;
}

static void
test_integers(void)
{
	OK2(int32_t, gs_int2_add, 32766, 1, 32767);
	E2(int32_t, gs_int2_add, 32767, 1);
	E2(int32_t, gs_int2_sub, -32768, 1);
	OK2(int32_t, gs_int2_mul, -16384, 2, -32768);
	E2(int32_t, gs_int2_mul, -32768, -32768);
	E2(int32_t, gs_int2_div, -32768, -1);
	OK2(int32_t, gs_int2_div, -32767, -1, 32767);
	E2(int32_t, gs_int2_div, 1, 0);
	E1(int32_t, gs_int2_neg, -32768);
	E1(int32_t, gs_int2_abs, -32768);
	OK1(int32_t, gs_int2_abs, -32767, 32767);

	OK2(int32_t, gs_int4_add, INT32_MAX, -1, INT32_MAX - 1);
	E2(int32_t, gs_int4_add, INT32_MAX, 1);
	E2(int32_t, gs_int4_add, INT32_MIN, -1);
	OK2(int32_t, gs_int4_sub, -1, INT32_MAX, INT32_MIN);
	E2(int32_t, gs_int4_sub, 0, INT32_MIN);
	OK2(int32_t, gs_int4_mul, INT32_MIN, 1, INT32_MIN);
	E2(int32_t, gs_int4_mul, INT32_MIN, -1);
	E2(int32_t, gs_int4_mul, 65536, 32768);
	OK2(int32_t, gs_int4_div, -7, 2, -3);
	E2(int32_t, gs_int4_div, INT32_MIN, -1);
	E2(int32_t, gs_int4_div, 5, 0);
	OK2(int32_t, gs_int4_mod, INT32_MIN, -1, 0);
	OK2(int32_t, gs_int4_mod, -7, 3, -1);
	E2(int32_t, gs_int4_mod, 5, 0);
	E1(int32_t, gs_int4_neg, INT32_MIN);
	OK1(int32_t, gs_int4_neg, INT32_MAX, -INT32_MAX);
	E1(int32_t, gs_int4_abs, INT32_MIN);
	OK1(int32_t, gs_int4_abs, -5, 5);

	OK2(int64_t, gs_int8_add, INT64_MAX, INT64_MIN, -1);
	E2(int64_t, gs_int8_add, INT64_MAX, 1);
	E2(int64_t, gs_int8_add, INT64_MIN, -1);
	OK2(int64_t, gs_int8_sub, -1, INT64_MAX, INT64_MIN);
	E2(int64_t, gs_int8_sub, 0, INT64_MIN);
	E2(int64_t, gs_int8_sub, INT64_MIN, 1);
	OK2(int64_t, gs_int8_mul, INT64_C(4294967296), -INT64_C(2147483648), INT64_MIN);
	E2(int64_t, gs_int8_mul, INT64_C(4294967296), INT64_C(2147483648));
	E2(int64_t, gs_int8_mul, INT64_MIN, -1);
	E2(int64_t, gs_int8_div, INT64_MIN, -1);
	E2(int64_t, gs_int8_div, 1, 0);
	OK2(int64_t, gs_int8_div, INT64_MIN, 1, INT64_MIN);
	OK2(int64_t, gs_int8_mod, INT64_MIN, -1, 0);
	E2(int64_t, gs_int8_mod, 1, 0);
	E1(int64_t, gs_int8_neg, INT64_MIN);
	E1(int64_t, gs_int8_abs, INT64_MIN);

	E1(int32_t, gs_i32_to_int2, 32768);
	OK1(int32_t, gs_i32_to_int2, -32768, -32768);
	E1(int32_t, gs_i64_to_i32, INT64_C(2147483648));
	OK1(int32_t, gs_i64_to_i32, INT64_C(-2147483648), INT32_MIN);
	E1(int64_t, gs_i128_to_i64, (gs_i128) INT64_MAX + 1);
	OK1(int64_t, gs_i128_to_i64, (gs_i128) INT64_MIN, INT64_MIN);
}

static void
test_dates(void)
{
	const int32_t max = 2145031948; /* 5874897-12-31 */
	const int64_t day = INT64_C(86400000000);

	OK2(int32_t, gs_date_add, max - 1, 1, max);
	E2(int32_t, gs_date_add, max, 1);
	E2(int32_t, gs_date_add, max, INT32_MAX);
	E2(int32_t, gs_date_add, -2451545, -1);
	OK2(int32_t, gs_date_add, INT32_MIN, 5, INT32_MIN);
	OK2(int32_t, gs_date_add, INT32_MAX, INT32_MIN, INT32_MAX);
	OK2(int32_t, gs_date_sub, 0, 2451545, -2451545);
	E2(int32_t, gs_date_sub, 0, 2451546);
	E2(int32_t, gs_date_sub, 0, INT32_MIN);
	OK2(int32_t, gs_date_sub, INT32_MAX, 5, INT32_MAX);
	OK2(int32_t, gs_date_diff, 10, 30, -20);
	E2(int32_t, gs_date_diff, 10, INT32_MAX);
	E2(int32_t, gs_date_diff, INT32_MIN, 10);

	OK1(int64_t, gs_date_to_timestamp, -1, -day);
	OK1(int64_t, gs_date_to_timestamp, 106751982, 106751982 * day);
	E1(int64_t, gs_date_to_timestamp, 106751983);
	OK1(int64_t, gs_date_to_timestamp, INT32_MIN, INT64_MIN);
	OK1(int64_t, gs_date_to_timestamp, INT32_MAX, INT64_MAX);
	OK1(int32_t, gs_timestamp_to_date, -1, -1);
	OK1(int32_t, gs_timestamp_to_date, -day, -1);
	OK1(int32_t, gs_timestamp_to_date, -day - 1, -2);
	OK1(int32_t, gs_timestamp_to_date, day - 1, 0);
	OK1(int32_t, gs_timestamp_to_date, INT64_C(9223371331199999999), 106751982);
	E1(int32_t, gs_timestamp_to_date, INT64_C(9223371331200000000));
	E1(int32_t, gs_timestamp_to_date, INT64_C(-211813488000000001));
	OK1(int32_t, gs_timestamp_to_date, INT64_C(-211813488000000000), -2451545);
	OK1(int32_t, gs_timestamp_to_date, INT64_MIN, INT32_MIN);
	OK1(int32_t, gs_timestamp_to_date, INT64_MAX, INT32_MAX);
}

static void
test_floats(void)
{
	E2(double, gs_f64_add, DBL_MAX, DBL_MAX);
	OK2(double, gs_f64_add, INFINITY, DBL_MAX, INFINITY);
	OK2(double, gs_f64_add, INFINITY, -INFINITY, NAN);
	OK2(double, gs_f64_sub, -0.0, 0.0, -0.0);
	OK2(double, gs_f64_sub, 0.0, 0.0, 0.0);
	OK2(double, gs_f64_sub, INFINITY, INFINITY, NAN);
	E2(double, gs_f64_sub, -DBL_MAX, DBL_MAX);
	E2(double, gs_f64_mul, 1e200, 1e200);
	E2(double, gs_f64_mul, 1e-200, 1e-200);
	OK2(double, gs_f64_mul, 0.0, -1e-200, -0.0);
	OK2(double, gs_f64_mul, 0.0, INFINITY, NAN);
	OK2(double, gs_f64_mul, 5e-324, 1.0, 5e-324);
	E2(double, gs_f64_div, 1.0, 0.0);
	E2(double, gs_f64_div, 1.0, -0.0);
	E2(double, gs_f64_div, INFINITY, 0.0);
	E2(double, gs_f64_div, 0.0, 0.0);
	OK2(double, gs_f64_div, NAN, 0.0, NAN);
	OK2(double, gs_f64_div, 1.0, INFINITY, 0.0);
	OK2(double, gs_f64_div, INFINITY, INFINITY, NAN);
	E2(double, gs_f64_div, DBL_MAX, 0.5);
	E2(double, gs_f64_div, DBL_MIN, DBL_MAX);
	E2(float, gs_f32_add, FLT_MAX, FLT_MAX);
	E2(float, gs_f32_mul, 1e-30f, 1e-30f);
	E2(float, gs_f32_div, 1.0f, 0.0f);
	OK2(float, gs_f32_div, 1.0f, 3.0f, 1.0f / 3.0f);
	OK2(float, gs_f32_sub, -INFINITY, 1.0f, -INFINITY);

	E1(float, gs_f64_to_f32, 1e39);
	E1(float, gs_f64_to_f32, 1e-60);
	OK1(float, gs_f64_to_f32, -INFINITY, -INFINITY);
	OK1(float, gs_f64_to_f32, NAN, NAN);
	OK1(float, gs_f64_to_f32, -0.0, -0.0f);
	OK1(float, gs_f64_to_f32, 1e-45, 1e-45f);
	OK1(int32_t, gs_f64_to_i32, 2.5, 2);
	OK1(int32_t, gs_f64_to_i32, 3.5, 4);
	OK1(int32_t, gs_f64_to_i32, -2.5, -2);
	OK1(int32_t, gs_f64_to_i32, 2147483647.4, INT32_MAX);
	E1(int32_t, gs_f64_to_i32, 2147483647.5);
	OK1(int32_t, gs_f64_to_i32, -2147483648.5, INT32_MIN);
	E1(int32_t, gs_f64_to_i32, -2147483648.6);
	E1(int32_t, gs_f64_to_i32, NAN);
	E1(int32_t, gs_f64_to_i32, INFINITY);
	OK1(int64_t, gs_f64_to_i64, 9223372036854774784.0, INT64_C(9223372036854774784));
	E1(int64_t, gs_f64_to_i64, 9223372036854775808.0);
	OK1(int64_t, gs_f64_to_i64, -9223372036854775808.0, INT64_MIN);
	E1(int64_t, gs_f64_to_i64, NAN);
}

static void
test_order(void)
{
	/* ascending under PostgreSQL's order, but for the two zeros */
	const double v[] = {-INFINITY, -1.0, -0.0, 0.0, 5e-324, 1.0, INFINITY, NAN};
	const int n = sizeof(v) / sizeof(v[0]);
	int failed = 0;

	for (int i = 0; i < n; i++)
	{
		for (int j = 0; j < n; j++)
		{
			bool equal = i == j || (v[i] == 0 && v[j] == 0);
			bool less = i < j && !equal;
			bool greater = i > j && !equal;
			uint8_t r[6];
			double least;
			double greatest;
			float leastf;

			gs_f64_eq(v[i], v[j], &r[0]);
			gs_f64_ne(v[i], v[j], &r[1]);
			gs_f64_lt(v[i], v[j], &r[2]);
			gs_f64_le(v[i], v[j], &r[3]);
			gs_f64_gt(v[i], v[j], &r[4]);
			gs_f64_ge(v[i], v[j], &r[5]);
			failed += r[0] != equal || r[1] != !equal || r[2] != less || r[3] != !greater ||
					  r[4] != greater || r[5] != !less;
			gs_f64_least(v[i], v[j], &least);
			gs_f64_greatest(v[i], v[j], &greatest);
			failed += !same_double(least, greater ? v[j] : v[i]);
			failed += !same_double(greatest, less ? v[j] : v[i]);
			gs_f32_least((float) v[i], (float) v[j], &leastf);
			failed += v[i] != 5e-324 && v[j] != 5e-324 &&
					  !same_float(leastf, (float) (greater ? v[j] : v[i]));
			gs_f64_min(v[i], v[j], &least);
			gs_f64_max(v[i], v[j], &greatest);
			failed += !same_double(least, v[i < j ? i : j]);
			failed += !same_double(greatest, v[i > j ? i : j]);
		}
	}
	ok(failed == 0, "order of doubles");
	V2(uint8_t, gs_i128_lt, -((gs_i128) 1 << 100), 0, 1);
	V2(int32_t, gs_i32_least, INT32_MIN, INT32_MAX, INT32_MIN);
	V2(int64_t, gs_i64_greatest, INT64_MIN, INT64_MAX, INT64_MAX);
	V2(uint8_t, gs_i32_ge, 3, 3, 1);
}

static void
test_sets(void)
{
	const int32_t i32[] = {INT32_MIN, -5, 0, 7, INT32_MAX};
	const double f64[] = {-INFINITY, 0.0, 2.5, NAN};
	const uint64_t i128[] = {5, UINT64_MAX /* -2^64 + 5 */, 3, 0, 0, 1};
	const char *base = "abcde";
	const uint32_t texts[] = {0, 2, 3, 0, 2, 3};

	ok(gs_i32_any(INT32_MIN, i32, 5) && gs_i32_any(7, i32, 5) && gs_i32_any(INT32_MAX, i32, 5),
	   "members of an int4 set");
	ok(!gs_i32_any(6, i32, 5) && !gs_i32_any(8, i32, 5) && !gs_i32_any(INT32_MAX, i32, 4) &&
		   !gs_i32_any(0, i32, 0),
	   "others are no members");
	ok(gs_f64_any(-0.0, f64, 4) && gs_f64_any(NAN, f64, 4) && !gs_f64_any(NAN, f64, 3) &&
		   !gs_f64_any(2.4, f64, 4) && !gs_f64_any(INFINITY, f64, 4),
	   "a float set");
	ok(gs_i128_any(3, i128, 3) && gs_i128_any((gs_i128) 1 << 64, i128, 3) &&
		   gs_i128_any(5 - ((gs_i128) 1 << 64), i128, 3) && !gs_i128_any(4, i128, 3),
	   "a numeric set");
	ok(gs_text_any((GsText){"cde", 3}, base, texts, 3) &&
		   gs_text_any((GsText){NULL, 0}, base, texts, 3) &&
		   !gs_text_any((GsText){"cdf", 3}, base, texts, 3),
	   "a text set");
}

static void
test_texts(void)
{
	GsText r;

	V2(uint8_t, gs_text_eq, ((GsText){"abc", 3}), ((GsText){"abd", 2}), 0);
	V2(uint8_t, gs_text_eq, ((GsText){"abc", 2}), ((GsText){"abd", 2}), 1);
	V2(uint8_t, gs_text_ne, ((GsText){NULL, 0}), ((GsText){"", 0}), 0);
	gs_bpchar_trim((GsText){"a b  ", 5}, &r);
	ok(r.len == 3, "bpchar loses trailing blanks");
	gs_bpchar_trim((GsText){"   ", 3}, &r);
	ok(r.len == 0, "bpchar of blanks is empty");
}

static void
test_decimals(void)
{
	const gs_i128 big = (gs_i128) (GS_1E38 - 1);

	V2(int64_t, gs_dec64_round, 15, 10, 2);
	V2(int64_t, gs_dec64_round, -15, 10, -2);
	V2(int64_t, gs_dec64_round, 14, 10, 1);
	V2(int64_t, gs_dec64_round, -14, 10, -1);
	V2(int64_t, gs_dec64_round, 7, 1, 7);
	V2(int64_t, gs_dec64_round, INT64_MIN, 0, INT64_MIN);
	V2(int64_t, gs_dec64_round, INT64_C(500000000000000000), INT64_C(1000000000000000000), 1);
	V2(gs_i128, gs_dec128_round, -big, 10, -(gs_i128) (GS_1E38 / 10));
	V2(gs_i128, gs_dec64_mul_wide, INT64_MIN, INT64_MIN, (gs_i128) 1 << 126);
	OK2(int64_t, gs_dec64_check, 99, 100, 99);
	OK2(int64_t, gs_dec64_check, -99, 100, -99);
	E2(int64_t, gs_dec64_check, 100, 100);
	E2(int64_t, gs_dec64_check, INT64_MIN, 100);
	E2(gs_i128, gs_dec128_check, -100, 100);
	OK2(gs_i128, gs_dec128_check, big, (gs_i128) GS_1E38, big);

	OK2(gs_i128, gs_dec128_add, big, 0, big);
	E2(gs_i128, gs_dec128_add, big, 1);
	E2(gs_i128, gs_dec128_add, big, big);
	E2(gs_i128, gs_dec128_sub, -big, big);
	OK2(gs_i128, gs_dec128_sub, big, big, 0);
	OK2(gs_i128, gs_dec128_mul, big, -1, -big);
	E2(gs_i128, gs_dec128_mul, (gs_i128) GS_1E19, (gs_i128) GS_1E19);
	OK2(gs_i128, gs_dec128_mul, (gs_i128) GS_1E19, -(gs_i128) (GS_1E19 / 10),
		-(gs_i128) (GS_1E38 / 10));
	E2(gs_i128, gs_dec128_mul, (gs_i128) 1 << 64, (gs_i128) 1 << 64);
	E2(gs_i128, gs_dec128_mul, (gs_i128) 1 << 100, (gs_i128) 1 << 28);
	E2(gs_i128, gs_dec128_mul, big, big);

	OK2(double, gs_dec64_to_f64, 12345, 2, 123.45);
	OK2(double, gs_dec64_to_f64, -1, 22, -1e-22);
	OK2(double, gs_dec64_to_f64, 0, 5, 0.0);
	OK2(double, gs_dec64_to_f64, (INT64_C(1) << 53) - 1, 0, 9007199254740991.0);
	E2(double, gs_dec64_to_f64, INT64_C(1) << 53, 0);
	E2(double, gs_dec64_to_f64, 1, 23);
	E2(double, gs_dec64_to_f64, 1, -1);
	E2(double, gs_dec128_to_f64, (gs_i128) 1 << 64, 0);
	OK2(double, gs_dec128_to_f64, -314, 2, -3.14);
}

/* Compares the 128-bit multiplication with the compiler's on random magnitudes */
static void
test_multiplication(void)
{
	uint64_t seed = 1;
	int failed = 0;

	for (int i = 0; i < 1000000; i++)
	{
		gs_u128 a = (gs_u128) unit_random(&seed) << 64 | unit_random(&seed);
		gs_u128 b = (gs_u128) unit_random(&seed) << 64 | unit_random(&seed);
		gs_u128 r;
		gs_u128 expected;

		a >>= unit_random(&seed) % 128;
		b >>= unit_random(&seed) % 128;
		failed += gs_u128_mul_overflows(a, b, &r) != __builtin_mul_overflow(a, b, &expected);
		failed += !__builtin_mul_overflow(a, b, &expected) && r != expected;
	}
	ok(failed == 0, "128-bit multiplication");
}

/*
 * numeric
 */
typedef struct Encoded
{
	unsigned char bytes[64];
	uint32_t len;
} Encoded;

/* A numeric as numeric.c's make_result would store it */
static Encoded
encode(bool is_short, bool negative, int dscale, int weight, int ndigits, const int *digits)
{
	Encoded e = {{0}, 0};
	uint16_t header;
	int16_t word;

	if (is_short)
		header = (uint16_t) (0x8000 | (negative ? 0x2000 : 0) | dscale << 7 |
							 (weight < 0 ? 0x40 : 0) | (weight & 0x3F));
	else
		header = (uint16_t) ((negative ? 0x4000 : 0) | dscale);
	memcpy(e.bytes, &header, 2);
	e.len = 2;
	if (!is_short)
	{
		word = (int16_t) weight;
		memcpy(e.bytes + e.len, &word, 2);
		e.len += 2;
	}
	for (int i = 0; i < ndigits; i++)
	{
		word = (int16_t) digits[i];
		memcpy(e.bytes + e.len, &word, 2);
		e.len += 2;
	}
	return e;
}

/* Encodes magnitude * 10^-dscale in base 10000, without leading or trailing zero digits */
static Encoded
encode_value(bool is_short, bool negative, gs_u128 magnitude, int dscale)
{
	int digits[16];
	int n = 0;
	int pad = (4 - dscale % 4) % 4;
	int weight = -(dscale + 3) / 4 - 1;
	int first = 16;
	gs_u128 rest = magnitude;

	/* the last digit holds the last (dscale mod 4) decimals */
	if (pad > 0 && rest != 0)
	{
		int scale = (int) gs_power10[4 - pad];

		digits[--first] = (int) (rest % (gs_u128) scale) * (int) gs_power10[pad];
		rest /= (gs_u128) scale;
		weight++;
	}
	for (; rest != 0; rest /= 10000)
	{
		digits[--first] = (int) (rest % 10000);
		weight++;
	}
	n = 16 - first;
	while (n > 0 && digits[first + n - 1] == 0)
		n--;
	while (n > 0 && digits[first] == 0)
		first++, n--, weight--;
	return encode(is_short, negative, dscale, n == 0 ? 0 : weight, n, digits + first);
}

static void
test_numeric_random(void)
{
	uint64_t seed = 2;
	int failed = 0;

	for (int i = 0; i < 500000; i++)
	{
		int ndecimals = (int) (unit_random(&seed) % 39);
		gs_u128 magnitude = (gs_u128) unit_random(&seed) * unit_random(&seed) % GS_1E38;
		int dscale = (int) (unit_random(&seed) % 38);
		int scale = dscale + (int) (unit_random(&seed) % 4);
		bool negative = unit_random(&seed) % 2;
		bool is_short = unit_random(&seed) % 2;
		bool fits128 = true;
		gs_i128 expected;
		gs_i128 r128;
		int64_t r64;
		int32_t r32;
		Encoded e;

		for (int j = ndecimals; j < 38; j++)
			magnitude /= 10;
		if (unit_random(&seed) % 3 == 0)
			magnitude = magnitude / 1000000 * 1000000;
		e = encode_value(is_short, negative, magnitude, dscale);
		for (int j = dscale; j < scale; j++)
		{
			fits128 = fits128 && magnitude < GS_1E38 / 10;
			magnitude *= fits128 ? 10 : 1;
		}
		expected = negative ? -(gs_i128) magnitude : (gs_i128) magnitude;

		if (gs_numeric_to_i128(e.bytes, e.len, scale, &r128) == 0)
			failed += !fits128 || r128 != expected;
		else
			failed += fits128;
		if (gs_numeric_to_i64(e.bytes, e.len, scale, &r64) == 0)
			failed += !fits128 || magnitude >= GS_1E18 || r64 != (int64_t) expected;
		else
			failed += fits128 && magnitude < GS_1E18;
		failed += gs_numeric_dscale(e.bytes, e.len, &r32) != 0 || r32 != dscale;
	}
	ok(failed == 0, "random numerics in both forms");
}

#define DECODES(e, scale, expected)                                                                \
	do                                                                                             \
	{                                                                                              \
		Encoded e_ = (e);                                                                          \
		int64_t r64_;                                                                              \
		gs_i128 r128_;                                                                             \
		ok(gs_numeric_to_i64(e_.bytes, e_.len, scale, &r64_) == 0 && r64_ == (expected) &&         \
			   gs_numeric_to_i128(e_.bytes, e_.len, scale, &r128_) == 0 && r128_ == (expected),    \
		   "%s at scale %d is %s", #e, scale, #expected);                                          \
	} while (0)
#define FAILS(e, scale)                                                                            \
	do                                                                                             \
	{                                                                                              \
		Encoded e_ = (e);                                                                          \
		int64_t r64_;                                                                              \
		ok(gs_numeric_to_i64(e_.bytes, e_.len, scale, &r64_) == GPUSCAN_ERROR,                     \
		   "%s at scale %d is an error", #e, scale);                                               \
	} while (0)

static void
test_numeric(void)
{
	const int d123[] = {123};
	const int d1_5[] = {1, 5000};
	const int ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	const int nines[] = {99, 9999, 9999, 9999, 9999};
	Encoded special = encode(true, false, 0, 0, 1, d123);
	gs_i128 r128;
	int64_t r64;
	int32_t r32;
	int failed = 0;

	DECODES(encode(true, false, 0, 0, 0, NULL), 4, 0);
	DECODES(encode(true, true, 2, 0, 1, d123), 2, -12300);
	DECODES(encode(true, false, 0, 1, 1, d123), 0, 1230000);
	DECODES(encode(true, false, 4, -1, 1, d123), 4, 123);
	DECODES(encode(true, false, 8, -2, 1, d123), 8, 123);
	DECODES(encode(true, false, 1, 0, 2, d1_5), 1, 15);
	DECODES(encode(false, true, 1, 0, 2, d1_5), 3, -1500);
	FAILS(encode(true, false, 1, 0, 2, d1_5), 0);
	FAILS(encode(true, false, 4, -1, 1, d123), 3);
	FAILS(encode(true, false, 8, -2, 1, d123), 4);
	DECODES(encode(true, false, 0, 4, 5, nines), 0, INT64_C(999999999999999999));
	FAILS(encode(true, false, 0, 4, 5, nines), 1);
	FAILS(encode(true, false, 0, 5, 5, nines), 0);
	FAILS(encode(true, false, 0, 40, 1, d123), 0);
	FAILS(encode(true, false, 0, 11, 12, ones), 0);
	FAILS(encode(false, false, 0, 32767, 1, d123), 38);
	FAILS(encode(false, false, 16383, -32768, 1, d123), 38);

	for (int i = 0; i < 3; i++)
	{
		const uint16_t headers[] = {0xC000, 0xD000, 0xF000};

		memcpy(special.bytes, &headers[i], 2);
		failed += gs_numeric_to_i64(special.bytes, 2, 0, &r64) != GPUSCAN_ERROR;
		failed += gs_numeric_to_i128(special.bytes, 2, 0, &r128) != GPUSCAN_ERROR;
		failed += gs_numeric_dscale(special.bytes, 2, &r32) != GPUSCAN_ERROR;
	}
	ok(failed == 0, "NaN and infinities are errors");
}

/* Every length of every content is read within bounds: ASan watches the heap block */
static void
test_numeric_malformed(void)
{
	uint64_t seed = 3;
	uint64_t sum = 0;
	int failed = 0;

	for (int i = 0; i < 200000; i++)
	{
		uint32_t len = (uint32_t) (unit_random(&seed) % 40);
		unsigned char *block = malloc(len + 1);
		gs_i128 r128;
		int64_t r64;
		int32_t r32;
		uint8_t e64;
		uint8_t e128;

		for (uint32_t j = 0; j < len + 1; j++)
			block[j] = (unsigned char) unit_random(&seed);
		/* data at an odd address */
		e64 = gs_numeric_to_i64(block + 1, len, (int) (unit_random(&seed) % 39), &r64);
		e128 = gs_numeric_to_i128(block + 1, len, (int) (unit_random(&seed) % 39), &r128);
		sum += (uint64_t) gs_numeric_dscale(block + 1, len, &r32) + (uint64_t) r64;
		failed += (len < 2 || len % 2 != 0) && (e64 == 0 || e128 == 0);
		failed += e64 == 0 && gs_u64_abs(r64) >= GS_1E18;
		failed += e128 == 0 && gs_u128_abs(r128) >= GS_1E38;
		free(block);
	}
	ok(failed == 0 && sum != 0, "malformed numerics stay in bounds");
}

int
main(void)
{
	test_integers();
	test_dates();
	test_floats();
	test_order();
	test_sets();
	test_texts();
	test_decimals();
	test_multiplication();
	test_numeric();
	test_numeric_random();
	test_numeric_malformed();
	return done_testing();
}
