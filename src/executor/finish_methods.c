/*-------------------------------------------------------------------------
 *
 * finish_methods.c
 *	  How one value of a group row becomes a Datum.
 *
 * The results are PostgreSQL's:
 *
 *	 - count, min, max, bool_*, bit_*, sum(int2), sum(int4): the state holds the
 *	   value.
 *	 - sum of int8 and numeric: the exact sum as a numeric with the display scale
 *	   that PostgreSQL's accumulator would have.
 *	 - avg of integers and numeric: int8_avg, numeric_poly_avg and numeric_avg
 *	   all are numeric_div(sum, count); so is ours.
 *	 - variances of integers and numeric: the exact sums go through the aggregate's
 *	   deserialization function, as a parallel worker's would, and its final function.
 *	 - avg of floats: float8_avg() is the quotient of sum and count; so is ours.
 *	 - variances of floats: float8[3] {N, Sx, Sxx} through the final function.
 *
 * Two differences are meant.  A sum of float4 is the exact sum rounded to
 * float4 once, where PostgreSQL rounds at every step.  Sxx comes from the sums
 * of values and of squares, subtracted with 113 bits; what is below their
 * rounding error is zero, where PostgreSQL shows its own rounding error.
 *
 * No sum of floats overflows here: a device leaves a request with a summand that
 * might make one (GPUSCAN_FSUM_HUGE) to PostgreSQL, for which no row comes here.
 *
 * A method allocates its result, and what a final function allocates on the
 * way, in the current memory context.
 *
 *-------------------------------------------------------------------------
 */
#include "executor/finish_methods.h"

#include <float.h>

#include "aggregate.h"
#include "catalog/pg_type.h"
#include "executor/finish_numeric.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgroids.h"

/*
 * Values: keys, and the states that hold one.
 */

#define METHOD(name)                                                                               \
	static Datum name(                                                                             \
		GpuScanFinishSlot *slot pg_attribute_unused(), const char *chunk pg_attribute_unused(),    \
		const char *row pg_attribute_unused(), const char *at, bool *isnull pg_attribute_unused())

METHOD(value_bool)
{
	return BoolGetDatum(*(const int64 *) at != 0);
}

METHOD(value_int2)
{
	return Int16GetDatum((int16) * (const int64 *) at);
}

METHOD(value_int4)
{
	return Int32GetDatum((int32) * (const int64 *) at);
}

METHOD(value_int8)
{
	return Int64GetDatum(*(const int64 *) at);
}

METHOD(value_float4)
{
	return Float4GetDatum((float4) * (const double *) at);
}

METHOD(value_float8)
{
	return Float8GetDatum(*(const double *) at);
}

METHOD(value_text)
{
	const uint32 *text = (const uint32 *) at;

	return PointerGetDatum(cstring_to_text_with_len(chunk + text[0], text[1]));
}

METHOD(value_numeric64)
{
	return NumericGetDatum(
		gpuscan_finish_numeric(slot->scratch, *(const int64 *) at, slot->scale, slot->scale));
}

static inline int128
make_int128(uint64 lo, int64 hi)
{
	return (int128) ((uint128) (uint64) hi << 64 | lo);
}

METHOD(value_numeric128)
{
	const uint64 *words = (const uint64 *) at;

	return NumericGetDatum(gpuscan_finish_numeric(
		slot->scratch, make_int128(words[0], (int64) words[1]), slot->scale, slot->scale));
}

GpuScanFinishMethod
gpuscan_finish_value_method(Oid type, GpuScanClass cls)
{
	switch (type)
	{
		case BOOLOID:
			return value_bool;
		case INT2OID:
			return value_int2;
		case INT4OID:
		case DATEOID:
			return value_int4;
		case INT8OID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return value_int8;
		case FLOAT4OID:
			return value_float4;
		case FLOAT8OID:
			return value_float8;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
			return value_text;
		case NUMERICOID:
			return cls == GPUSCAN_I128 ? value_numeric128 : value_numeric64;
		default:
			elog(ERROR, "no value of type %u comes from a device", type);
	}
}

/*
 * Sums and averages.
 */

static inline int
display_scale(const GpuScanFinishSlot *slot, const char *row)
{
	if (slot->dscale_offset == 0)
		return slot->scale;
	return (int) ((const GpuScanValueState *) (row + slot->dscale_offset))->value.i;
}

/* The state of SUM_I64 or SUM_I128 as a numeric. */
static inline Numeric
scaled_sum(GpuScanFinishSlot *slot, const char *row, int128 sum)
{
	return gpuscan_finish_numeric(slot->scratch, sum, slot->scale, display_scale(slot, row));
}

static inline Datum
numeric_average(Numeric sum, int64 n)
{
	return NumericGetDatum(numeric_div_opt_error(sum, int64_to_numeric(n), NULL));
}

METHOD(sum_i64)
{
	return Int64GetDatum(((const GpuScanSum64State *) at)->sum);
}

METHOD(sum_i128)
{
	const GpuScanSum128State *state = (const GpuScanSum128State *) at;

	return NumericGetDatum(scaled_sum(slot, row, make_int128(state->lo, state->hi)));
}

METHOD(avg_i64)
{
	const GpuScanSum64State *state = (const GpuScanSum64State *) at;

	return numeric_average(scaled_sum(slot, row, state->sum), state->n);
}

METHOD(avg_i128)
{
	const GpuScanSum128State *state = (const GpuScanSum128State *) at;

	return numeric_average(scaled_sum(slot, row, make_int128(state->lo, state->hi)), state->n);
}

METHOD(sum_float8)
{
	return Float8GetDatum(gs_fsum3_result(&((const GpuScanSumF64State *) at)->sum));
}

METHOD(sum_float4)
{
	return Float4GetDatum((float4) gs_fsum3_result(&((const GpuScanSumF64State *) at)->sum));
}

METHOD(avg_float)
{
	const GpuScanSumF64State *state = (const GpuScanSumF64State *) at;

	/* float8_accum() begins with 0, so nothing but -0 sums up to 0 */
	return Float8GetDatum((gs_fsum3_result(&state->sum) + 0.0) / (float8) state->n);
}

/*
 * Variances.
 */

/*
 * The sum of squared differences from the mean: NaN if any input is infinite or
 * NaN, as float8_accum() has it.
 */
static float8
squared_deviations(const GpuScanSquaresF64State *state)
{
	const uint32 not_finite =
		GPUSCAN_FSUM_NAN | GPUSCAN_FSUM_POSITIVE_INFINITY | GPUSCAN_FSUM_NEGATIVE_INFINITY;

	/* The roundings below come to 5 * 2^-113 of the sum of squares at most */
	const double noise = DBL_EPSILON * DBL_EPSILON / 64;
	__float128 sum;
	__float128 squares;
	__float128 deviations;

	if ((state->sum.special | state->squares.special) & not_finite)
		return get_float8_nan();

	sum = gs_fsum5_to_f128(&state->sum);
	squares = gs_fsum5_to_f128(&state->squares);
	deviations = squares - sum * sum / state->n;
	return deviations > squares * noise ? (float8) deviations : 0.0;
}

METHOD(variance_float)
{
	const GpuScanSquaresF64State *state = (const GpuScanSquaresF64State *) at;
	Datum result;

	slot->transvalues[0] = state->n;
	slot->transvalues[1] = gs_fsum5_result(&state->sum);
	slot->transvalues[2] = squared_deviations(state);
	slot->final->isnull = false;
	result = FunctionCallInvoke(slot->final);
	*isnull = slot->final->isnull;
	return result;
}

METHOD(variance_i128)
{
	const GpuScanSquares128State *state = (const GpuScanSquares128State *) at;
	FunctionCallInfo deserialize = slot->deserialize;
	FunctionCallInfo final = slot->final;
	bytea *serialized;
	Datum result;

	serialized = gpuscan_finish_squares(
		slot->scratch, deserialize->flinfo->fn_oid == F_NUMERIC_POLY_DESERIALIZE, state->n,
		make_int128(state->lo, state->hi), make_int128(state->squares_lo, state->squares_hi),
		slot->scale, display_scale(slot, row));
	deserialize->args[0].value = PointerGetDatum(serialized);
	final->args[0].value = FunctionCallInvoke(deserialize);
	final->isnull = false;
	result = FunctionCallInvoke(final);
	*isnull = final->isnull;
	return result;
}

METHOD(count)
{
	return Int64GetDatum(((const GpuScanCountState *) at)->n);
}

GpuScanFinishMethod
gpuscan_finish_state_method(GpuScanFinishFamily family, GpuScanAggKind kind, Oid type)
{
	switch (kind)
	{
		case GPUSCAN_AGG_COUNT:
		case GPUSCAN_AGG_COUNT_DISTINCT:
			return count;
		case GPUSCAN_AGG_SUM_I64:
			return family == GPUSCAN_FINISH_SUM ? sum_i64 : avg_i64;
		case GPUSCAN_AGG_SUM_I128:
			return family == GPUSCAN_FINISH_SUM ? sum_i128 : avg_i128;
		case GPUSCAN_AGG_SUM_F64:
			if (family == GPUSCAN_FINISH_AVG)
				return avg_float;
			return type == FLOAT4OID ? sum_float4 : sum_float8;
		case GPUSCAN_AGG_SQUARES_I128:
			return variance_i128;
		case GPUSCAN_AGG_SQUARES_F64:
			return variance_float;
		default:
			elog(ERROR, "a state of kind %d holds a value", (int) kind);
	}
}
