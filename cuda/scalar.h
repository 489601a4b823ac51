/*-------------------------------------------------------------------------
 *
 * scalar.h
 *	  PostgreSQL's scalar semantics, written once for every device.
 *
 * This file is read by gcc, for the cpu device, and its text stands in front
 * of kernels that NVRTC compiles (with -device-int128), so it keeps to what C
 * and CUDA C++ have in common and needs no header under NVRTC.
 *
 * One function for each operation of ops.h:
 *
 *	 void fn(a, b, T *dst)		cannot fail
 *	 uint8_t fn(a, b, T *dst)	returns 0, or GPUSCAN_ERROR where PostgreSQL would
 *								raise an error or we could not be exact
 *
 * Whether a value is used is decided by flags beside it, so functions are also
 * called with what lies in the register of a NULL or an error: they take any
 * operand without undefined behaviour, always write *dst, and avoid branches so
 * that a loop over them can be vectorized.
 *
 * Float operations must not be contracted into a fused multiply-add: gcc is
 * run with -ffp-contract=off, NVRTC with -fmad=false.
 *
 * The authority for each piece is PostgreSQL's source: int.c, int8.c, float.c
 * and utils/float.h, date.c, timestamp.c, numeric.c, varchar.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_SCALAR_H
#define GPUSCAN_SCALAR_H

/* GS_ROLLED: before a loop that NVRTC is not to unroll, which costs compile time */
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define GS_FN static __device__ inline
#define GS_TABLE static __device__ const
#define GS_ROLLED _Pragma("unroll 1")
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#define GS_FN static inline
#define GS_TABLE static const
#define GS_ROLLED
#endif

/* As in program.h, token for token, so that a difference does not compile */
#define GPUSCAN_NULL 1
#define GPUSCAN_ERROR 2

typedef __int128 gs_i128;
typedef unsigned __int128 gs_u128;

typedef struct GsText
{
	const char *p;
	uint32_t len;
} GsText;

#define GS_ERROR_IF(condition) ((uint8_t) ((condition) ? GPUSCAN_ERROR : 0))

#define GS_1E18 ((uint64_t) 1000000000000000000)
#define GS_1E19 ((uint64_t) 10000000000000000000U)
#define GS_1E38 ((gs_u128) GS_1E19 * GS_1E19)

GS_TABLE uint64_t gs_power10[20] = {1,
									10,
									100,
									1000,
									10000,
									100000,
									1000000,
									10000000,
									100000000,
									1000000000,
									10000000000,
									100000000000,
									1000000000000,
									10000000000000,
									100000000000000,
									1000000000000000,
									10000000000000000,
									100000000000000000,
									GS_1E18,
									GS_1E19};

/* The powers of ten that a double holds exactly */
GS_TABLE double gs_f64_power10[23] = {1e0,	1e1,  1e2,	1e3,  1e4,	1e5,  1e6,	1e7,
									  1e8,	1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
									  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

GS_FN uint64_t
gs_u64_abs(int64_t a)
{
	return a < 0 ? 0 - (uint64_t) a : (uint64_t) a;
}

GS_FN gs_u128
gs_u128_abs(gs_i128 a)
{
	return a < 0 ? 0 - (gs_u128) a : (gs_u128) a;
}

/*
 * Casts that cannot fail
 */
#define GS_CAST(name, from, to)                                                                    \
	GS_FN void name(from a, to *dst)                                                               \
	{                                                                                              \
		*dst = (to) a;                                                                             \
	}

GS_CAST(gs_bool_to_i32, uint8_t, int32_t)
GS_CAST(gs_i32_to_i64, int32_t, int64_t)
GS_CAST(gs_i64_to_i128, int64_t, gs_i128)
GS_CAST(gs_i32_to_f32, int32_t, float)
GS_CAST(gs_i32_to_f64, int32_t, double)
GS_CAST(gs_i64_to_f32, int64_t, float)
GS_CAST(gs_i64_to_f64, int64_t, double)
GS_CAST(gs_f32_to_f64, float, double)

GS_FN void
gs_i32_to_bool(int32_t a, uint8_t *dst)
{
	*dst = a != 0;
}

/*
 * Narrowing
 */
GS_FN uint8_t
gs_i32_to_int2(int32_t a, int32_t *dst)
{
	*dst = a;
	return GS_ERROR_IF(a != (int16_t) a);
}

GS_FN uint8_t
gs_i64_to_i32(int64_t a, int32_t *dst)
{
	*dst = (int32_t) a;
	return GS_ERROR_IF(a != (int32_t) a);
}

GS_FN uint8_t
gs_i128_to_i64(gs_i128 a, int64_t *dst)
{
	*dst = (int64_t) a;
	return GS_ERROR_IF(a != (int64_t) a);
}

GS_FN uint8_t
gs_f32_is_inf(float a)
{
	return fabsf(a) > 3.40282346638528859811704183484516925e+38F;
}

GS_FN uint8_t
gs_f64_is_inf(double a)
{
	return fabs(a) > 1.79769313486231570814527423731704357e+308;
}

/* dtof */
GS_FN uint8_t
gs_f64_to_f32(double a, float *dst)
{
	float r = (float) a;

	*dst = r;
	return GS_ERROR_IF((gs_f32_is_inf(r) & !gs_f64_is_inf(a)) | ((r == 0.0f) & (a != 0.0)));
}

/* dtoi4, and ftoi4 of a widened float4; a NaN compares false */
GS_FN uint8_t
gs_f64_to_i32(double a, int32_t *dst)
{
	double r = rint(a);
	int fits = (r >= -2147483648.0) & (r < 2147483648.0);

	*dst = (int32_t) (fits ? r : 0.0);
	return GS_ERROR_IF(!fits);
}

/* dtoi8 */
GS_FN uint8_t
gs_f64_to_i64(double a, int64_t *dst)
{
	double r = rint(a);
	int fits = (r >= -9223372036854775808.0) & (r < 9223372036854775808.0);

	*dst = (int64_t) (fits ? r : 0.0);
	return GS_ERROR_IF(!fits);
}

/*
 * Integers
 */
GS_FN uint8_t
gs_int2_add(int32_t a, int32_t b, int32_t *dst)
{
	return gs_i32_to_int2((int32_t) ((uint32_t) a + (uint32_t) b), dst);
}

GS_FN uint8_t
gs_int2_sub(int32_t a, int32_t b, int32_t *dst)
{
	return gs_i32_to_int2((int32_t) ((uint32_t) a - (uint32_t) b), dst);
}

GS_FN uint8_t
gs_int2_mul(int32_t a, int32_t b, int32_t *dst)
{
	return gs_i32_to_int2((int32_t) ((uint32_t) a * (uint32_t) b), dst);
}

GS_FN uint8_t
gs_int4_add(int32_t a, int32_t b, int32_t *dst)
{
	return gs_i64_to_i32((int64_t) a + b, dst);
}

GS_FN uint8_t
gs_int4_sub(int32_t a, int32_t b, int32_t *dst)
{
	return gs_i64_to_i32((int64_t) a - b, dst);
}

GS_FN uint8_t
gs_int4_mul(int32_t a, int32_t b, int32_t *dst)
{
	return gs_i64_to_i32((int64_t) a * b, dst);
}

GS_FN uint8_t
gs_int4_div(int32_t a, int32_t b, int32_t *dst)
{
	int bad = (b == 0) | ((a == INT32_MIN) & (b == -1));

	*dst = a / (bad ? 1 : b);
	return GS_ERROR_IF(bad);
}

/* A quotient of int2s; 32768, the only one that is none, does not fit */
GS_FN uint8_t
gs_int2_div(int32_t a, int32_t b, int32_t *dst)
{
	uint8_t error = gs_int4_div(a, b, dst);

	return error | gs_i32_to_int2(*dst, dst);
}

/* a % -1 is 0, computed as a % 1 since INT_MIN % -1 traps */
GS_FN uint8_t
gs_int4_mod(int32_t a, int32_t b, int32_t *dst)
{
	*dst = a % ((b == 0) | (b == -1) ? 1 : b);
	return GS_ERROR_IF(b == 0);
}

GS_FN uint8_t
gs_int2_neg(int32_t a, int32_t *dst)
{
	return gs_int2_sub(0, a, dst);
}

GS_FN uint8_t
gs_int2_abs(int32_t a, int32_t *dst)
{
	return gs_int2_sub(a < 0 ? 0 : a, a < 0 ? a : 0, dst);
}

GS_FN uint8_t
gs_int4_neg(int32_t a, int32_t *dst)
{
	return gs_int4_sub(0, a, dst);
}

GS_FN uint8_t
gs_int4_abs(int32_t a, int32_t *dst)
{
	return gs_int4_sub(a < 0 ? 0 : a, a < 0 ? a : 0, dst);
}

/* Two numbers of one sign overflow where the result's sign is the other */
GS_FN uint8_t
gs_int8_add(int64_t a, int64_t b, int64_t *dst)
{
	int64_t r = (int64_t) ((uint64_t) a + (uint64_t) b);

	*dst = r;
	return GS_ERROR_IF(((a ^ r) & (b ^ r)) < 0);
}

GS_FN uint8_t
gs_int8_sub(int64_t a, int64_t b, int64_t *dst)
{
	int64_t r = (int64_t) ((uint64_t) a - (uint64_t) b);

	*dst = r;
	return GS_ERROR_IF(((a ^ b) & (a ^ r)) < 0);
}

GS_FN uint8_t
gs_int8_mul(int64_t a, int64_t b, int64_t *dst)
{
	return gs_i128_to_i64((gs_i128) a * b, dst);
}

GS_FN uint8_t
gs_int8_div(int64_t a, int64_t b, int64_t *dst)
{
	int bad = (b == 0) | ((a == INT64_MIN) & (b == -1));

	*dst = a / (bad ? 1 : b);
	return GS_ERROR_IF(bad);
}

GS_FN uint8_t
gs_int8_mod(int64_t a, int64_t b, int64_t *dst)
{
	*dst = a % ((b == 0) | (b == -1) ? 1 : b);
	return GS_ERROR_IF(b == 0);
}

GS_FN uint8_t
gs_int8_neg(int64_t a, int64_t *dst)
{
	return gs_int8_sub(0, a, dst);
}

GS_FN uint8_t
gs_int8_abs(int64_t a, int64_t *dst)
{
	return gs_int8_sub(a < 0 ? 0 : a, a < 0 ? a : 0, dst);
}

/*
 * Dates: days since 2000-01-01, -infinity INT32_MIN, infinity INT32_MAX.
 * Timestamps: microseconds since then, INT64_MIN and INT64_MAX.
 */
#define GS_DATE_MIN (-2451545)			/* 4714-11-24 BC, Julian day 0 */
#define GS_DATE_END 2145031949			/* 5874898-01-01 */
#define GS_TIMESTAMP_END_DATE 106751983 /* 294277-01-01 */
#define GS_USECS_PER_DAY 86400000000LL
#define GS_DATE_IS_FINITE(d) (((d) != INT32_MIN) & ((d) != 0x7FFFFFFF))

/* date_pli */
GS_FN uint8_t
gs_date_add(int32_t a, int32_t b, int32_t *dst)
{
	int finite = GS_DATE_IS_FINITE(a);
	int64_t r = (int64_t) a + b;

	*dst = finite ? (int32_t) r : a;
	return GS_ERROR_IF(finite & ((r < GS_DATE_MIN) | (r >= GS_DATE_END)));
}

/* date_mii */
GS_FN uint8_t
gs_date_sub(int32_t a, int32_t b, int32_t *dst)
{
	int finite = GS_DATE_IS_FINITE(a);
	int64_t r = (int64_t) a - b;

	*dst = finite ? (int32_t) r : a;
	return GS_ERROR_IF(finite & ((r < GS_DATE_MIN) | (r >= GS_DATE_END)));
}

/* date_mi */
GS_FN uint8_t
gs_date_diff(int32_t a, int32_t b, int32_t *dst)
{
	uint8_t error = GS_ERROR_IF(!GS_DATE_IS_FINITE(a) | !GS_DATE_IS_FINITE(b));

	return error | gs_int4_sub(a, b, dst);
}

/* date2timestamp */
GS_FN uint8_t
gs_date_to_timestamp(int32_t a, int64_t *dst)
{
	int64_t r = a * GS_USECS_PER_DAY;

	r = a == INT32_MIN ? INT64_MIN : r;
	r = a == 0x7FFFFFFF ? 0x7FFFFFFFFFFFFFFFLL : r;
	*dst = r;
	return GS_ERROR_IF(GS_DATE_IS_FINITE(a) & (a >= GS_TIMESTAMP_END_DATE));
}

/* timestamp_date; outside the range of timestamps the calendar is PostgreSQL's affair */
GS_FN uint8_t
gs_timestamp_to_date(int64_t a, int32_t *dst)
{
	int finite = (a != INT64_MIN) & (a != 0x7FFFFFFFFFFFFFFFLL);
	int64_t day = a / GS_USECS_PER_DAY - (a % GS_USECS_PER_DAY < 0);

	day = a == INT64_MIN ? INT32_MIN : day;
	day = a == 0x7FFFFFFFFFFFFFFFLL ? 0x7FFFFFFF : day;
	*dst = (int32_t) day;
	return GS_ERROR_IF(finite & ((day < GS_DATE_MIN) | (day >= GS_TIMESTAMP_END_DATE)));
}

/*
 * Floats, for float and double alike
 */
#define GS_FLOAT_OPS(cls, T, abs)                                                                  \
	GS_FN uint8_t gs_##cls##_add(T a, T b, T *dst)                                                 \
	{                                                                                              \
		T r = a + b;                                                                               \
                                                                                                   \
		*dst = r;                                                                                  \
		return GS_ERROR_IF(gs_##cls##_is_inf(r) & !gs_##cls##_is_inf(a) & !gs_##cls##_is_inf(b));  \
	}                                                                                              \
	GS_FN uint8_t gs_##cls##_sub(T a, T b, T *dst)                                                 \
	{                                                                                              \
		return gs_##cls##_add(a, -b, dst);                                                         \
	}                                                                                              \
	GS_FN uint8_t gs_##cls##_mul(T a, T b, T *dst)                                                 \
	{                                                                                              \
		T r = a * b;                                                                               \
                                                                                                   \
		*dst = r;                                                                                  \
		return GS_ERROR_IF(                                                                        \
			(gs_##cls##_is_inf(r) & !gs_##cls##_is_inf(a) & !gs_##cls##_is_inf(b)) |               \
			((r == 0) & (a != 0) & (b != 0)));                                                     \
	}                                                                                              \
	GS_FN uint8_t gs_##cls##_div(T a, T b, T *dst)                                                 \
	{                                                                                              \
		T r = a / b;                                                                               \
                                                                                                   \
		*dst = r;                                                                                  \
		return GS_ERROR_IF(((b == 0) & (a == a)) |                                                 \
						   (gs_##cls##_is_inf(r) & !gs_##cls##_is_inf(a)) |                        \
						   ((r == 0) & (a != 0) & !gs_##cls##_is_inf(b)));                         \
	}                                                                                              \
	GS_FN void gs_##cls##_neg(T a, T *dst)                                                         \
	{                                                                                              \
		*dst = -a;                                                                                 \
	}                                                                                              \
	GS_FN void gs_##cls##_abs(T a, T *dst)                                                         \
	{                                                                                              \
		*dst = abs(a);                                                                             \
	}

GS_FLOAT_OPS(f32, float, fabsf)
GS_FLOAT_OPS(f64, double, fabs)

/*
 * Scaled numerics of 64 bits: the compiler has made sure that results fit
 */
GS_FN void
gs_dec64_add(int64_t a, int64_t b, int64_t *dst)
{
	*dst = (int64_t) ((uint64_t) a + (uint64_t) b);
}

GS_FN void
gs_dec64_sub(int64_t a, int64_t b, int64_t *dst)
{
	*dst = (int64_t) ((uint64_t) a - (uint64_t) b);
}

GS_FN void
gs_dec64_mul(int64_t a, int64_t b, int64_t *dst)
{
	*dst = (int64_t) ((uint64_t) a * (uint64_t) b);
}

GS_FN void
gs_dec64_mul_wide(int64_t a, int64_t b, gs_i128 *dst)
{
	*dst = (gs_i128) a * b;
}

/* Rounds half away from zero, as numeric does; a divisor that is none counts as 1 */
GS_FN void
gs_dec64_round(int64_t a, int64_t b, int64_t *dst)
{
	uint64_t value = gs_u64_abs(a);
	uint64_t divisor = b > 0 ? (uint64_t) b : 1;
	uint64_t rest = value % divisor;
	uint64_t r = value / divisor + (rest >= divisor - rest);

	*dst = (int64_t) (a < 0 ? 0 - r : r);
}

GS_FN void
gs_dec64_neg(int64_t a, int64_t *dst)
{
	*dst = (int64_t) (0 - (uint64_t) a);
}

GS_FN void
gs_dec64_abs(int64_t a, int64_t *dst)
{
	*dst = (int64_t) gs_u64_abs(a);
}

GS_FN uint8_t
gs_dec64_check(int64_t a, int64_t b, int64_t *dst)
{
	*dst = a;
	return GS_ERROR_IF((b <= 0) | (gs_u64_abs(a) >= (uint64_t) b));
}

/*
 * Correctly rounded, as reading the numeric's text is: both operands of the
 * division are exact, so IEEE rounds once.
 */
GS_FN uint8_t
gs_dec64_to_f64(int64_t a, int32_t b, double *dst)
{
	int bad = (gs_u64_abs(a) >= (uint64_t) 1 << 53) | (b < 0) | (b > 22);

	*dst = (double) a / gs_f64_power10[bad ? 0 : b];
	return GS_ERROR_IF(bad);
}

/*
 * Scaled numerics of 128 bits: results below 10^38 or an error
 */
GS_FN uint8_t
gs_dec128_result(int negative, gs_u128 magnitude, int bad, gs_i128 *dst)
{
	*dst = (gs_i128) (negative ? 0 - magnitude : magnitude);
	return GS_ERROR_IF(bad | (magnitude >= GS_1E38));
}

/* Overflow of 128 bits as in gs_int8_add */
GS_FN uint8_t
gs_dec128_add(gs_i128 a, gs_i128 b, gs_i128 *dst)
{
	gs_i128 r = (gs_i128) ((gs_u128) a + (gs_u128) b);

	return gs_dec128_result(r < 0, gs_u128_abs(r), ((a ^ r) & (b ^ r)) < 0, dst);
}

GS_FN uint8_t
gs_dec128_sub(gs_i128 a, gs_i128 b, gs_i128 *dst)
{
	gs_i128 r = (gs_i128) ((gs_u128) a - (gs_u128) b);

	return gs_dec128_result(r < 0, gs_u128_abs(r), ((a ^ b) & (a ^ r)) < 0, dst);
}

/*
 * a * b into *dst, whether it overflows returned.  With a = ah, al and b = bh,
 * bl in halves of 64 bits, it fits where ah or bh is 0 and the sum of the rest does.
 */
GS_FN int
gs_u128_mul_overflows(gs_u128 a, gs_u128 b, gs_u128 *dst)
{
	uint64_t ah = (uint64_t) (a >> 64);
	uint64_t bh = (uint64_t) (b >> 64);
	gs_u128 low = (gs_u128) (uint64_t) a * (uint64_t) b;
	gs_u128 cross = (gs_u128) ah * (uint64_t) b | (gs_u128) bh * (uint64_t) a;
	gs_u128 r = (cross << 64) + low;

	*dst = r;
	return ((ah != 0) & (bh != 0)) | ((cross >> 64) != 0) | (r < low);
}

GS_FN uint8_t
gs_dec128_mul(gs_i128 a, gs_i128 b, gs_i128 *dst)
{
	gs_u128 r;
	int overflows = gs_u128_mul_overflows(gs_u128_abs(a), gs_u128_abs(b), &r);

	return gs_dec128_result((a < 0) != (b < 0), r, overflows, dst);
}

GS_FN void
gs_dec128_round(gs_i128 a, gs_i128 b, gs_i128 *dst)
{
	gs_u128 value = gs_u128_abs(a);
	gs_u128 divisor = b > 0 ? (gs_u128) b : 1;
	gs_u128 r = value / divisor;
	gs_u128 rest = value - r * divisor;

	r += rest >= divisor - rest;
	*dst = (gs_i128) (a < 0 ? 0 - r : r);
}

GS_FN void
gs_dec128_neg(gs_i128 a, gs_i128 *dst)
{
	*dst = (gs_i128) (0 - (gs_u128) a);
}

GS_FN void
gs_dec128_abs(gs_i128 a, gs_i128 *dst)
{
	*dst = (gs_i128) gs_u128_abs(a);
}

GS_FN uint8_t
gs_dec128_check(gs_i128 a, gs_i128 b, gs_i128 *dst)
{
	*dst = a;
	return GS_ERROR_IF((b <= 0) | (gs_u128_abs(a) >= (gs_u128) b));
}

GS_FN uint8_t
gs_dec128_to_f64(gs_i128 a, int32_t b, double *dst)
{
	int64_t narrow;
	uint8_t error = gs_i128_to_i64(a, &narrow);

	return error | gs_dec64_to_f64(narrow, b, dst);
}

/*
 * Comparisons of a class from its "equal" and "less", and what follows from
 * them: LEAST and GREATEST keep a in a tie.
 */
#define GS_COMPARISONS(cls, T)                                                                     \
	GS_FN void gs_##cls##_eq(T a, T b, uint8_t *dst)                                               \
	{                                                                                              \
		*dst = gs_##cls##_is_equal(a, b);                                                          \
	}                                                                                              \
	GS_FN void gs_##cls##_ne(T a, T b, uint8_t *dst)                                               \
	{                                                                                              \
		*dst = !gs_##cls##_is_equal(a, b);                                                         \
	}                                                                                              \
	GS_FN void gs_##cls##_lt(T a, T b, uint8_t *dst)                                               \
	{                                                                                              \
		*dst = gs_##cls##_is_less(a, b);                                                           \
	}                                                                                              \
	GS_FN void gs_##cls##_le(T a, T b, uint8_t *dst)                                               \
	{                                                                                              \
		*dst = !gs_##cls##_is_less(b, a);                                                          \
	}                                                                                              \
	GS_FN void gs_##cls##_gt(T a, T b, uint8_t *dst)                                               \
	{                                                                                              \
		*dst = gs_##cls##_is_less(b, a);                                                           \
	}                                                                                              \
	GS_FN void gs_##cls##_ge(T a, T b, uint8_t *dst)                                               \
	{                                                                                              \
		*dst = !gs_##cls##_is_less(a, b);                                                          \
	}                                                                                              \
	GS_FN void gs_##cls##_least(T a, T b, T *dst)                                                  \
	{                                                                                              \
		*dst = gs_##cls##_is_less(b, a) ? b : a;                                                   \
	}                                                                                              \
	GS_FN void gs_##cls##_greatest(T a, T b, T *dst)                                               \
	{                                                                                              \
		*dst = gs_##cls##_is_less(a, b) ? b : a;                                                   \
	}

#define GS_INTEGER_ORDER(cls, T)                                                                   \
	GS_FN uint8_t gs_##cls##_is_equal(T a, T b)                                                    \
	{                                                                                              \
		return a == b;                                                                             \
	}                                                                                              \
	GS_FN uint8_t gs_##cls##_is_less(T a, T b)                                                     \
	{                                                                                              \
		return a < b;                                                                              \
	}                                                                                              \
	GS_COMPARISONS(cls, T)

/* NaN equals itself and is the largest */
#define GS_FLOAT_ORDER(cls, T)                                                                     \
	GS_FN uint8_t gs_##cls##_is_equal(T a, T b)                                                    \
	{                                                                                              \
		return (a == b) | ((a != a) & (b != b));                                                   \
	}                                                                                              \
	GS_FN uint8_t gs_##cls##_is_less(T a, T b)                                                     \
	{                                                                                              \
		return (a < b) | ((a == a) & (b != b));                                                    \
	}                                                                                              \
	GS_COMPARISONS(cls, T)

GS_INTEGER_ORDER(i32, int32_t)
GS_INTEGER_ORDER(i64, int64_t)
GS_INTEGER_ORDER(i128, gs_i128)
GS_FLOAT_ORDER(f32, float)
GS_FLOAT_ORDER(f64, double)

/*
 * min() and max() of doubles (and of floats, widened).  PostgreSQL's answer
 * between -0 and 0 depends on the order of rows; to be the same on every run
 * ours is -0 for min and 0 for max.
 */
GS_FN void
gs_f64_min(double a, double b, double *dst)
{
	int first = gs_f64_is_less(a, b) | ((a == b) & (signbit(a) != 0));

	*dst = first ? a : b;
}

GS_FN void
gs_f64_max(double a, double b, double *dst)
{
	int first = gs_f64_is_less(b, a) | ((a == b) & (signbit(a) == 0));

	*dst = first ? a : b;
}

/*
 * Members of a sorted set.  `set` is the array in the Program, whose layout is
 * that of GpuScanSet; it is 8-byte aligned at least.  The search keeps the
 * first member that is not less than `a` in [lo, lo + n].
 */
#define GS_ANY(cls, T, member)                                                                     \
	/* its number, or count */                                                                     \
	GS_FN uint32_t gs_##cls##_find(T a, const void *set, uint32_t count)                           \
	{                                                                                              \
		uint32_t lo = 0;                                                                           \
		uint32_t n = count;                                                                        \
                                                                                                   \
		while (n > 0)                                                                              \
		{                                                                                          \
			uint32_t half = n / 2;                                                                 \
			int right = gs_##cls##_is_less(member(set, lo + half), a);                             \
                                                                                                   \
			lo += right ? half + 1 : 0;                                                            \
			n = right ? n - half - 1 : half;                                                       \
		}                                                                                          \
		return lo < count && gs_##cls##_is_equal(member(set, lo), a) ? lo : count;                 \
	}                                                                                              \
	GS_FN uint8_t gs_##cls##_any(T a, const void *set, uint32_t count)                             \
	{                                                                                              \
		return gs_##cls##_find(a, set, count) < count;                                             \
	}

#define GS_MEMBER_I32(set, i) (((const int32_t *) (set))[i])
#define GS_MEMBER_I64(set, i) (((const int64_t *) (set))[i])
#define GS_MEMBER_F64(set, i) (((const double *) (set))[i])
#define GS_MEMBER_I128(set, i)                                                                     \
	((gs_i128) ((gs_u128) ((const uint64_t *) (set))[2 * (i) + 1] << 64 |                          \
				((const uint64_t *) (set))[2 * (i)]))

GS_ANY(i32, int32_t, GS_MEMBER_I32)
GS_ANY(i64, int64_t, GS_MEMBER_I64)
GS_ANY(i128, gs_i128, GS_MEMBER_I128)
GS_ANY(f64, double, GS_MEMBER_F64)

/*
 * Texts: equality under a deterministic collation is that of bytes
 */
GS_FN uint8_t
gs_bytes_equal(const char *a, const char *b, uint32_t len)
{
#ifdef __CUDACC_RTC__
	GS_ROLLED
	for (uint32_t i = 0; i < len; i++)
	{
		if (a[i] != b[i])
			return 0;
	}
	return 1;
#else
	return len == 0 || memcmp(a, b, len) == 0;
#endif
}

GS_FN uint8_t
gs_text_is_equal(GsText a, GsText b)
{
	return a.len == b.len && gs_bytes_equal(a.p, b.p, a.len);
}

GS_FN void
gs_text_eq(GsText a, GsText b, uint8_t *dst)
{
	*dst = gs_text_is_equal(a, b);
}

GS_FN void
gs_text_ne(GsText a, GsText b, uint8_t *dst)
{
	*dst = !gs_text_is_equal(a, b);
}

/* bpchartruelen */
GS_FN void
gs_bpchar_trim(GsText a, GsText *dst)
{
	GS_ROLLED
	while (a.len > 0 && a.p[a.len - 1] == ' ')
		a.len--;
	*dst = a;
}

/* `program` is the Program's start, from which a set's texts have their offsets */
GS_FN uint8_t
gs_text_any(GsText a, const char *program, const uint32_t *set, uint32_t count)
{
	GS_ROLLED
	for (uint32_t i = 0; i < count; i++)
	{
		if (a.len == set[2 * i + 1] && gs_bytes_equal(a.p, program + set[2 * i], a.len))
			return 1;
	}
	return 0;
}

/* FNV-1a */
GS_FN uint32_t
gs_text_hash(GsText a)
{
	uint32_t hash = 2166136261u;

	GS_ROLLED
	for (uint32_t i = 0; i < a.len; i++)
		hash = (hash ^ (uint8_t) a.p[i]) * 16777619u;
	return hash;
}

/* The number of the set's member by its slots, see GpuScanSet; or count */
GS_FN uint32_t
gs_text_find(GsText a, const char *program, const uint32_t *set, uint32_t count,
			 const uint32_t *slots)
{
	uint32_t mask = slots[0];
	uint32_t hash = gs_text_hash(a);

	GS_ROLLED
	for (uint32_t i = 0; i <= mask; i++)
	{
		uint32_t slot = slots[1 + ((hash + i) & mask)];

		if (slot == 0)
			return count;
		if (a.len == set[2 * (slot - 1) + 1] &&
			gs_bytes_equal(a.p, program + set[2 * (slot - 1)], a.len))
			return slot - 1;
	}
	return count;
}

/* The flags of FIND, where a value with flags `fa` was found `at`, or is none of count */
GS_FN uint8_t
gs_find_flags(uint8_t fa, uint32_t at, uint32_t count)
{
	return fa != GPUSCAN_NULL && at == count ? GPUSCAN_ERROR : 0;
}

/* TAKE, from the arrays of a GpuScanList */
GS_FN uint8_t
gs_take_flags(uint8_t fa, int32_t at, const char *flags, uint32_t count)
{
	if (fa != 0)
		return fa;
	return (uint32_t) at < count ? (uint8_t) flags[at] : GPUSCAN_ERROR;
}

#define GS_MEMBER_BOOL(list, i) (((const uint8_t *) (list))[i])
#define GS_MEMBER_F32(list, i) (((const float *) (list))[i])
#define GS_TAKE(cls, T, member)                                                                    \
	GS_FN T gs_##cls##_take(int32_t at, const void *list, uint32_t count)                          \
	{                                                                                              \
		uint32_t i = (uint32_t) at < count ? (uint32_t) at : 0;                                    \
                                                                                                   \
		return member(list, i);                                                                    \
	}

GS_TAKE(bool, uint8_t, GS_MEMBER_BOOL)
GS_TAKE(i32, int32_t, GS_MEMBER_I32)
GS_TAKE(i64, int64_t, GS_MEMBER_I64)
GS_TAKE(i128, gs_i128, GS_MEMBER_I128)
GS_TAKE(f32, float, GS_MEMBER_F32)
GS_TAKE(f64, double, GS_MEMBER_F64)

GS_FN GsText
gs_text_take(int32_t at, const char *program, const uint32_t *list, uint32_t count)
{
	const uint32_t *place = list + 2 * ((uint32_t) at < count ? (uint32_t) at : 0);
	GsText text = {program + place[0], place[1]};

	return text;
}

GS_FN void
gs_not(uint8_t a, uint8_t *dst)
{
	*dst = !a;
}

/*
 * Decoding of numeric (numeric.c, NumericChoice).  `data` is the varlena's
 * content, unaligned: a uint16 header, in the long form an int16 weight, then
 * int16 digits to base 10000, the first of which counts 10000^weight.
 */
#define GS_NUMERIC_SIGN_MASK 0xC000
#define GS_NUMERIC_NEG 0x4000
#define GS_NUMERIC_SHORT 0x8000
#define GS_NUMERIC_SPECIAL 0xC000 /* NaN and infinities */

/* 2^24 / 10^i rounded up: exact quotients of what is below 10000 */
GS_TABLE uint32_t gs_numeric_reciprocal[4] = {16777216, 1677722, 167773, 16778};

typedef struct GsNumeric
{
	const unsigned char *digits;
	int ndigits;
	int weight;
	int dscale;
	int negative;
} GsNumeric;

GS_FN uint32_t
gs_load_u16(const unsigned char *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* GPUSCAN_ERROR for a special value, or a length that cannot be */
GS_FN uint8_t
gs_numeric_open(const unsigned char *data, uint32_t len, GsNumeric *num)
{
	uint32_t header;

	if (len < 2 || (len & 1) != 0)
		return GPUSCAN_ERROR;
	header = gs_load_u16(data);
	if ((header & GS_NUMERIC_SIGN_MASK) == GS_NUMERIC_SHORT)
	{
		num->negative = (header & 0x2000) != 0;
		num->dscale = (int) (header & 0x1F80) >> 7;
		num->weight = (int) (header & 0x3F) - (int) (header & 0x40);
		num->digits = data + 2;
		num->ndigits = (int) (len - 2) / 2;
		return 0;
	}
	if ((header & GS_NUMERIC_SIGN_MASK) == GS_NUMERIC_SPECIAL || len < 4)
		return GPUSCAN_ERROR;
	num->negative = (header & GS_NUMERIC_SIGN_MASK) == GS_NUMERIC_NEG;
	num->dscale = (int) (header & 0x3FFF);
	num->weight = (int16_t) gs_load_u16(data + 2);
	num->digits = data + 4;
	num->ndigits = (int) (len - 4) / 2;
	return 0;
}

/*
 * The magnitude of num * 10^scale, where that is an integer below 10^38.
 *
 * With the last digit counting 10^exponent after scaling, it is
 *		head * 10^(exponent + 4) + last * 10^exponent
 * where head is made of all digits but the last.  PostgreSQL stores no trailing
 * zero digits, so an exponent of -4 or less leaves a fraction, and one of -1 to
 * -3 needs `last` to be divisible.  A malformed number gives some number or an error.
 */
GS_FN uint8_t
gs_numeric_magnitude(const GsNumeric *num, int scale, gs_u128 *dst)
{
	int n = num->ndigits;
	int exponent = scale + 4 * (num->weight - n + 1);
	uint64_t small = 0;
	uint64_t last;
	gs_u128 head;
	gs_u128 tail;

	*dst = 0;
	if (n == 0)
		return 0;
	if (exponent < -3 || exponent > 37 || n > 11)
		return GPUSCAN_ERROR;

	for (int i = 0; i < (n <= 5 ? n - 1 : 4); i++)
		small = small * 10000 + gs_load_u16(num->digits + 2 * i);
	last = gs_load_u16(num->digits + 2 * (n - 1));

	if (exponent < 0)
	{
		uint64_t quotient = last * gs_numeric_reciprocal[-exponent] >> 24;

		if (quotient * gs_power10[-exponent] != last)
			return GPUSCAN_ERROR;
		tail = quotient;
	}
	else if (exponent < 20)
		tail = (gs_u128) last * gs_power10[exponent];
	else if (gs_u128_mul_overflows((gs_u128) last * GS_1E19, gs_power10[exponent - 19], &tail))
		return GPUSCAN_ERROR;

	if (n <= 5 && exponent < 16)
	{
		*dst = (gs_u128) small * gs_power10[exponent + 4] + tail;
		return 0;
	}

	head = small;
	GS_ROLLED
	for (int i = 4; i < n - 1; i++)
	{
		/* beyond, the whole is 10^38 at least */
		if (head >= GS_1E38 / 10000)
			return GPUSCAN_ERROR;
		head = head * 10000 + gs_load_u16(num->digits + 2 * i);
	}
	GS_ROLLED
	for (int left = exponent + 4; left > 0 && head != 0; left -= 19)
	{
		if (gs_u128_mul_overflows(head, gs_power10[left < 19 ? left : 19], &head))
			return GPUSCAN_ERROR;
	}
	*dst = head + tail;
	return GS_ERROR_IF(head >= GS_1E38 || tail >= GS_1E38 || *dst >= GS_1E38);
}

/*
 * |value| < 10^18, or an error.  As above, in 64 bits: the first digit is not 0,
 * so one that counts 10^18 or more makes the value too large.
 */
GS_FN uint8_t
gs_numeric_to_i64(const unsigned char *data, uint32_t len, int scale, int64_t *dst)
{
	GsNumeric num;
	int exponent;
	uint64_t head = 0;
	uint64_t tail;
	gs_u128 magnitude;

	*dst = 0;
	if (gs_numeric_open(data, len, &num) != 0)
		return GPUSCAN_ERROR;
	if (num.ndigits == 0)
		return 0;
	exponent = scale + 4 * (num.weight - num.ndigits + 1);
	if (exponent < -3 || exponent + 4 * (num.ndigits - 1) > 17)
		return GPUSCAN_ERROR;

	GS_ROLLED
	for (int i = 0; i < num.ndigits - 1; i++)
	{
		if (head >= GS_1E18 / 10000)
			return GPUSCAN_ERROR;
		head = head * 10000 + gs_load_u16(num.digits + 2 * i);
	}
	tail = gs_load_u16(num.digits + 2 * (num.ndigits - 1));
	if (exponent < 0)
	{
		uint64_t quotient = tail * gs_numeric_reciprocal[-exponent] >> 24;

		if (quotient * gs_power10[-exponent] != tail)
			return GPUSCAN_ERROR;
		magnitude = quotient;
	}
	else
		magnitude = (gs_u128) tail * gs_power10[exponent];
	if (head != 0)
		magnitude += (gs_u128) head * gs_power10[exponent + 4];
	if (magnitude >= GS_1E18)
		return GPUSCAN_ERROR;
	*dst = num.negative ? -(int64_t) magnitude : (int64_t) magnitude;
	return 0;
}

/* |value| < 10^38, or an error */
GS_FN uint8_t
gs_numeric_to_i128(const unsigned char *data, uint32_t len, int scale, gs_i128 *dst)
{
	GsNumeric num;
	gs_u128 magnitude;

	*dst = 0;
	if (gs_numeric_open(data, len, &num) != 0 || gs_numeric_magnitude(&num, scale, &magnitude) != 0)
		return GPUSCAN_ERROR;
	*dst = num.negative ? -(gs_i128) magnitude : (gs_i128) magnitude;
	return 0;
}

/* The display scale: digits after the point */
GS_FN uint8_t
gs_numeric_dscale(const unsigned char *data, uint32_t len, int32_t *dst)
{
	GsNumeric num;

	*dst = 0;
	if (gs_numeric_open(data, len, &num) != 0)
		return GPUSCAN_ERROR;
	*dst = num.dscale;
	return 0;
}

#endif /* GPUSCAN_SCALAR_H */
