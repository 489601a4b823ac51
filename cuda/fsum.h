/*-------------------------------------------------------------------------
 *
 * fsum.h
 *	  Sums of floats that do not depend on the order of addition.
 *
 * Adding doubles one after the other rounds after each step, so threads that
 * split the rows in another way get other last digits.  Here every sum is one
 * of integers.  The idea is Demmel and Nguyen's ("Parallel Reproducible
 * Summation", IEEE Transactions on Computers 64(7), 2015; ReproBLAS), the
 * integer windows are those of Neal's small superaccumulator ("Fast exact
 * summation using small and large superaccumulators", 2015).
 *
 * The grid.  A finite double is a 53-bit integer m at a bit position p, the
 * value being +-m * 2^(p - 1074) with p from 0 to 2045.  The positions are cut
 * into windows of 30 bits: position p lies in window p / 30, wherever the
 * double came from.  So the bits of m fall into at most three windows, and make
 * in each a piece below 2^30, to which we give the sign of the double.
 *
 * The accumulator.  It keeps one signed 64-bit sum of pieces for each of the n
 * highest windows: w[0] for window `top`, w[1] for top - 1, and so on, where
 * `top` is the highest window that a summand reached so far.  Pieces for lower
 * windows are dropped; when `top` grows, the windows that fall out at the lower
 * end are dropped whole.  Windows pass no carries to each other: as many pieces
 * as GPUSCAN_FSUM_MAX_N fit 63 bits, and where a state counted more values its
 * sum means nothing and is PostgreSQL's to make.
 *
 * Why order does not matter.  Let T be the final `top`, the maximum over the
 * summands, in any order and any tree of merges.  An accumulator whose top was
 * lower kept all of T's windows that its summands reach, since its windows
 * begin lower.  So in the end w[i] is the sum of the pieces of all summands in
 * window T - i: a sum of integers, which is associative.
 *
 * The error.  Each summand loses less than 1 in the lowest kept window, which is
 * 2^(30 * (T - n + 1)), while the largest summand has a bit in window T.
 * So n = 3 is off by less than N * 2^-60 * max|x| for N summands, before the one
 * rounding of the result; adding doubles in PostgreSQL's order is off by up to
 * N * 2^-53 * sum|x|.  Squares are formed exactly, in 106 bits, and n = 5 keeps
 * them to N * 2^-119 * max x^2 (the highest of the 106 bits may be 0), so that the
 * difference in a variance survives cancellation.
 *
 * What PostgreSQL does beyond the finite is kept in the bits of `special`.  It
 * raises an error when its running sum overflows, which depends on the order.  So
 * a summand large enough that GPUSCAN_FSUM_MAX_N of them might overflow gives
 * GPUSCAN_FSUM_HUGE: the request is then left to PostgreSQL.  The sum of
 * nothing but -0 is -0.
 *
 * An accumulator of zero bytes is empty.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_FSUM_H
#define GPUSCAN_FSUM_H

#ifndef __CUDACC_RTC__
#include "scalar.h"
#endif

typedef struct GpuScanFSum3
{
	int32_t top;
	uint32_t special;
	int64_t w[3];
} GpuScanFSum3;

typedef struct GpuScanFSum5
{
	int32_t top;
	uint32_t special;
	int64_t w[5];
} GpuScanFSum5;

#define GPUSCAN_FSUM_MAX_N ((int64_t) 1 << 33)

#define GPUSCAN_FSUM_NAN 1
#define GPUSCAN_FSUM_POSITIVE_INFINITY 2
#define GPUSCAN_FSUM_NEGATIVE_INFINITY 4
#define GPUSCAN_FSUM_HUGE 8			/* leave the sum to PostgreSQL */
#define GPUSCAN_FSUM_NOT_MINUS_0 16 /* a summand other than -0 was seen */

#define GS_FSUM_BITS 30
#define GS_FSUM_MASK ((1 << GS_FSUM_BITS) - 1)

/*
 * The largest biased exponents that are not huge.  float4pl: the sum of so many
 * summands stays below 2^128, as the double's exponent.  float8_accum: the square
 * of N * x - Sx, its largest intermediate result, stays below 2^1024; avg() keeps
 * squares too, and shares its state here with sum(), which could go further.
 */
#define GS_FSUM_F64_LIMIT (1023 + 476)
#define GS_FSUM_F32_LIMIT (1023 + 92)

/* A double in its parts; a subnormal has the position of the smallest normal */
typedef struct GsFloatParts
{
	uint64_t mantissa;
	int32_t exponent; /* biased */
	int32_t position; /* of the mantissa's lowest bit */
	int32_t negative;
} GsFloatParts;

GS_FN GsFloatParts
gs_float_parts(double x)
{
	GsFloatParts parts;
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	parts.exponent = (int32_t) (bits >> 52 & 0x7FF);
	parts.negative = (int32_t) (bits >> 63);
	parts.mantissa = (bits & 0xFFFFFFFFFFFFFULL) | (uint64_t) (parts.exponent != 0) << 52;
	parts.position = parts.exponent - (parts.exponent != 0);
	return parts;
}

/* The bit of `special` for a summand whose exponent is beyond its limit */
GS_FN uint32_t
gs_fsum_special(GsFloatParts parts)
{
	if (parts.exponent != 0x7FF)
		return GPUSCAN_FSUM_HUGE;
	if ((parts.mantissa & 0xFFFFFFFFFFFFFULL) != 0)
		return GPUSCAN_FSUM_NAN;
	return parts.negative ? GPUSCAN_FSUM_NEGATIVE_INFINITY : GPUSCAN_FSUM_POSITIVE_INFINITY;
}

/* Makes `top` at least as high as a summand's */
GS_FN void
gs_fsum_raise(int32_t *top, int64_t *w, int n, int32_t new_top)
{
	int32_t shift = new_top - *top;

	if (shift <= 0)
		return;
	for (int i = n - 1; i >= 0; i--)
		w[i] = i >= shift ? w[i - shift] : 0;
	*top = new_top;
}

/*
 * Adds a signed piece to a window, which may lie below the kept ones (or, for a
 * piece of 0, above).  No branch: values of changing size would mispredict it.
 */
GS_FN void
gs_fsum_add_piece(int32_t top, int64_t *w, int n, int32_t window, uint32_t piece, int32_t negative)
{
	uint32_t i = (uint32_t) (top - window);
	int kept = i < (uint32_t) n;
	int64_t value = kept ? (int64_t) piece : 0;

	w[kept ? i : 0] += (value ^ -(int64_t) negative) + negative;
}

/* A summand cut up: piece i lies in window `window` + i, the highest bit that may be set in `top` */
typedef struct GsFSumPieces
{
	int32_t top;
	int32_t window;
	uint32_t piece[5];
} GsFSumPieces;

/* Cuts up a double whose exponent is within the limit: three pieces */
GS_FN GsFSumPieces
gs_fsum_cut(GsFloatParts parts)
{
	GsFSumPieces pieces;
	int32_t shift = (int32_t) ((uint32_t) parts.position % GS_FSUM_BITS);

	pieces.window = (int32_t) ((uint32_t) parts.position / GS_FSUM_BITS);
	pieces.top = pieces.window + 1 + (shift >= 2 * GS_FSUM_BITS - 52);
	pieces.piece[0] = (uint32_t) parts.mantissa << shift & GS_FSUM_MASK;
	pieces.piece[1] = (uint32_t) (parts.mantissa >> (GS_FSUM_BITS - shift)) & GS_FSUM_MASK;
	pieces.piece[2] = (uint32_t) (parts.mantissa >> GS_FSUM_BITS) >> (GS_FSUM_BITS - shift);
	return pieces;
}

/* Cuts up the exact square of a double whose exponent is within the limit: five pieces */
GS_FN GsFSumPieces
gs_fsum_cut_square(GsFloatParts parts)
{
	GsFSumPieces pieces;
	gs_u128 square = (gs_u128) parts.mantissa * parts.mantissa;
	int32_t position = 2 * parts.position - 1074;
	int32_t shift;

	/* What lies below the smallest subnormal is lost, as it is in a product */
	if (position < 0)
	{
		square = position > -128 ? square >> -position : 0;
		position = 0;
	}
	shift = position % GS_FSUM_BITS;
	pieces.top = (position + 105) / GS_FSUM_BITS;
	pieces.window = position / GS_FSUM_BITS;
	pieces.piece[0] = (uint32_t) (square << shift) & GS_FSUM_MASK;
	for (int i = 1; i < 5; i++)
		pieces.piece[i] = (uint32_t) (square >> (i * GS_FSUM_BITS - shift)) & GS_FSUM_MASK;
	return pieces;
}

/* Adds the lowest `npieces` pieces */
GS_FN void
gs_fsum_add_pieces(int32_t *top, int64_t *w, int n, GsFSumPieces pieces, int npieces,
				   int32_t negative)
{
	gs_fsum_raise(top, w, n, pieces.top);
	for (int i = 0; i < npieces; i++)
		gs_fsum_add_piece(*top, w, n, pieces.window + i, pieces.piece[i], negative);
}

#ifndef __CUDACC_RTC__

/* The exact value of an accumulator is +-(magnitude + a rest below 1) * 2^exponent;
 * a rest sets the lowest bit of a magnitude that then has its highest bit set. */
typedef struct GsFSumValue
{
	gs_u128 magnitude;
	int32_t exponent;
	int negative;
} GsFSumValue;

/* Passes the carries of sign * w on: digits in [0, 2^30) behind a head */
static inline gs_i128
gs_fsum_carry(const int64_t *w, int n, int sign, uint32_t *digits)
{
	gs_i128 carry = 0;

	for (int i = n - 1; i > 0; i--)
	{
		carry += (gs_i128) w[i] * sign;
		digits[i] = (uint32_t) (carry & GS_FSUM_MASK);
		carry >>= GS_FSUM_BITS;
	}
	return carry + (gs_i128) w[0] * sign;
}

static inline GsFSumValue
gs_fsum_value(int32_t top, const int64_t *w, int n)
{
	GsFSumValue value = {0, top * GS_FSUM_BITS - 1074, 0};
	uint32_t digits[5];
	gs_i128 head;
	int rest = 0;

	/* three windows fit 128 bits */
	if (n == 3)
	{
		head = ((gs_i128) w[0] * (1 << GS_FSUM_BITS) + w[1]) * (1 << GS_FSUM_BITS) + w[2];
		value.negative = head < 0;
		value.magnitude = gs_u128_abs(head);
		value.exponent -= 2 * GS_FSUM_BITS;
		return value;
	}
	head = gs_fsum_carry(w, n, 1, digits);
	if (head < 0)
	{
		value.negative = 1;
		head = gs_fsum_carry(w, n, -1, digits);
	}
	value.magnitude = (gs_u128) head;
	for (int i = 1; i < n; i++)
	{
		uint64_t high = (uint64_t) (value.magnitude >> 64);
		int room = high >> (64 - GS_FSUM_BITS) == 0 ? GS_FSUM_BITS : __builtin_clzll(high);

		value.magnitude = value.magnitude << room | digits[i] >> (GS_FSUM_BITS - room);
		value.exponent -= room;
		rest |= (digits[i] & ((1U << (GS_FSUM_BITS - room)) - 1)) != 0;
	}
	value.magnitude |= (gs_u128) rest;
	return value;
}

/*
 * magnitude * 2^exponent, rounded once, to nearest and ties to even: every value
 * is a multiple of 2^-1074, so scaling a subnormal does not round again.  A
 * million results should not take two calls of a library each.
 */
static inline double
gs_fsum_round(gs_u128 magnitude, int exponent)
{
	uint64_t high = (uint64_t) (magnitude >> 64);
	double power;
	uint64_t bits;

	/* 64 bits, of which the lowest stands for those that are left out */
	if (high != 0)
	{
		int shift = 64 - __builtin_clzll(high);
		uint64_t rest = (uint64_t) magnitude << (64 - shift);

		magnitude = magnitude >> shift | (rest != 0);
		exponent += shift;
	}
	if (exponent < -1022 || exponent > 1023 - 64)
		return ldexp((double) (uint64_t) magnitude, exponent);
	bits = (uint64_t) (exponent + 1023) << 52;
	memcpy(&power, &bits, sizeof(power));
	return (double) (uint64_t) magnitude * power;
}

static inline double
gs_fsum_result(int32_t top, uint32_t special, const int64_t *w, int n)
{
	const uint32_t infinities = GPUSCAN_FSUM_POSITIVE_INFINITY | GPUSCAN_FSUM_NEGATIVE_INFINITY;
	GsFSumValue value;
	double r;

	if ((special & GPUSCAN_FSUM_NAN) != 0 || (special & infinities) == infinities)
		return NAN;
	if ((special & infinities) != 0)
		return (special & GPUSCAN_FSUM_POSITIVE_INFINITY) != 0 ? INFINITY : -INFINITY;
	if ((special & GPUSCAN_FSUM_NOT_MINUS_0) == 0)
		return -0.0;
	value = gs_fsum_value(top, w, n);
	r = gs_fsum_round(value.magnitude, value.exponent);
	return value.negative ? -r : r;
}

/*
 * The finite part of the sum in quadruple precision, correctly rounded.  Look
 * at `special` first.
 */
static inline __float128
gs_fsum5_to_f128(const GpuScanFSum5 *sum)
{
	GsFSumValue value = gs_fsum_value(sum->top, sum->w, 5);
	int half = value.exponent / 2;
	__float128 r = (__float128) value.magnitude;

	/* powers of two in steps that a double holds; all exact */
	r *= (__float128) ldexp(1.0, half) * (__float128) ldexp(1.0, value.exponent - half);
	return value.negative ? -r : r;
}

/*
 * gs_fsum3_result, gs_fsum5_result: float8's sum(), not where GPUSCAN_FSUM_HUGE
 * is set.  That of an empty accumulator is -0, the neutral element; avg(), which
 * starts from 0, adds 0.0.
 */
#define GS_FSUM_RESULT(N)                                                                          \
	static inline double gs_fsum##N##_result(const GpuScanFSum##N *sum)                            \
	{                                                                                              \
		return gs_fsum_result(sum->top, sum->special, sum->w, N);                                  \
	}
#else
#define GS_FSUM_RESULT(N)
#endif

/*
 * For N windows:
 *
 *	 gs_fsumN_add(sum, x)			adds a float8
 *	 gs_fsumN_add_f32(sum, x)		adds a float4, whose running sum in PostgreSQL is
 *									a float4
 *	 gs_fsumN_add_square(sum, x)	adds the square of x; what a variance makes of an
 *									infinity is the affair of `special`'s reader
 *	 gs_fsumN_merge(sum, from)		adds all that `from` has seen
 */
#define GS_FSUM_DEFINE(N)                                                                          \
	GS_FN void gs_fsum##N##_add_within(GpuScanFSum##N *sum, double x, int32_t limit)               \
	{                                                                                              \
		GsFloatParts parts = gs_float_parts(x);                                                    \
                                                                                                   \
		if (parts.exponent > limit)                                                                \
		{                                                                                          \
			sum->special |= GPUSCAN_FSUM_NOT_MINUS_0 | gs_fsum_special(parts);                     \
			return;                                                                                \
		}                                                                                          \
		if (parts.mantissa != 0 || !parts.negative)                                                \
			sum->special |= GPUSCAN_FSUM_NOT_MINUS_0;                                              \
		gs_fsum_add_pieces(&sum->top, sum->w, N, gs_fsum_cut(parts), 3, parts.negative);           \
	}                                                                                              \
	GS_FN void gs_fsum##N##_add(GpuScanFSum##N *sum, double x)                                     \
	{                                                                                              \
		gs_fsum##N##_add_within(sum, x, GS_FSUM_F64_LIMIT);                                        \
	}                                                                                              \
	GS_FN void gs_fsum##N##_add_f32(GpuScanFSum##N *sum, float x)                                  \
	{                                                                                              \
		gs_fsum##N##_add_within(sum, x, GS_FSUM_F32_LIMIT);                                        \
	}                                                                                              \
	GS_FN void gs_fsum##N##_add_square(GpuScanFSum##N *sum, double x)                              \
	{                                                                                              \
		GsFloatParts parts = gs_float_parts(x);                                                    \
                                                                                                   \
		parts.negative = 0;                                                                        \
		sum->special |= GPUSCAN_FSUM_NOT_MINUS_0;                                                  \
		if (parts.exponent > GS_FSUM_F64_LIMIT)                                                    \
			sum->special |= gs_fsum_special(parts);                                                \
		else                                                                                       \
			gs_fsum_add_pieces(&sum->top, sum->w, N, gs_fsum_cut_square(parts), 5, 0);             \
	}                                                                                              \
	GS_FN void gs_fsum##N##_merge(GpuScanFSum##N *sum, const GpuScanFSum##N *from)                 \
	{                                                                                              \
		int32_t shift;                                                                             \
                                                                                                   \
		gs_fsum_raise(&sum->top, sum->w, N, from->top);                                            \
		shift = sum->top - from->top;                                                              \
		for (int i = shift; i < N; i++)                                                            \
			sum->w[i] += from->w[i - shift];                                                       \
		sum->special |= from->special;                                                             \
	}                                                                                              \
	GS_FSUM_RESULT(N)

GS_FSUM_DEFINE(3)
GS_FSUM_DEFINE(5)

#ifndef __CUDACC_RTC__

/*
 * The same for a processor, in the arithmetic of doubles, which is exact here: x in
 * units of the lowest kept window is below 2^90 where x reaches no window above
 * `top`, and cut towards zero it is the three pieces.  For the tops between these, of
 * which no summand is huge and no scale overflows.
 */
#define GS_FSUM_PLAIN_MIN 5
#define GS_FSUM_PLAIN_MAX 37
#define GS_FSUM_PLAIN_LIMIT 0x1p90

static inline int
gs_fsum3_is_plain(int32_t top)
{
	return (uint32_t) top - GS_FSUM_PLAIN_MIN <= GS_FSUM_PLAIN_MAX - GS_FSUM_PLAIN_MIN;
}

/* What turns a double into units of the lowest of three windows, if `top` is plain */
static inline double
gs_fsum3_scale(int32_t top)
{
	uint64_t bits = (uint64_t) (1023 + 1074 - GS_FSUM_BITS * ((int64_t) top - 2)) << 52;
	double scale;

	memcpy(&scale, &bits, sizeof(scale));
	return scale;
}

/* gs_fsum3_add, or _add_f32 of a float, if that is plain; else false. */
static inline int
gs_fsum3_add_plain(GpuScanFSum3 *sum, double x)
{
	double units = x * gs_fsum3_scale(sum->top);
	int64_t high;
	int64_t low;
	int64_t middle;

	if (!gs_fsum3_is_plain(sum->top) || !(fabs(units) < GS_FSUM_PLAIN_LIMIT) || x == 0)
		return 0;
	high = (int32_t) (units * 0x1p-60);
	low = (int64_t) (units - (double) high * 0x1p60);
	middle = (low + (low >> 63 & GS_FSUM_MASK)) >> GS_FSUM_BITS;
	sum->special |= GPUSCAN_FSUM_NOT_MINUS_0;
	sum->w[0] += high;
	sum->w[1] += middle;
	sum->w[2] += low - middle * (1 << GS_FSUM_BITS);
	return 1;
}

#endif

#endif /* GPUSCAN_FSUM_H */
