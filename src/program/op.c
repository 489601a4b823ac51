/*-------------------------------------------------------------------------
 *
 * op.c
 *	  Tables about the operations, classes and aggregates of a Program.
 *
 *-------------------------------------------------------------------------
 */
#include "program/op.h"

#include "aggregate.h"

#define GPUSCAN_UNARY(name, dst, a, fn)                                                            \
	{#name, GPUSCAN_##dst, {GPUSCAN_##a, GPUSCAN_NONE, GPUSCAN_NONE}, false, false, false},
#define GPUSCAN_UNARY_E(name, dst, a, fn)                                                          \
	{#name, GPUSCAN_##dst, {GPUSCAN_##a, GPUSCAN_NONE, GPUSCAN_NONE}, false, false, false},
#define GPUSCAN_BINARY(name, dst, a, b, fn)                                                        \
	{#name, GPUSCAN_##dst, {GPUSCAN_##a, GPUSCAN_##b, GPUSCAN_NONE}, false, false, false},
#define GPUSCAN_BINARY_E(name, dst, a, b, fn)                                                      \
	{#name, GPUSCAN_##dst, {GPUSCAN_##a, GPUSCAN_##b, GPUSCAN_NONE}, false, false, false},
/* the operations with a set are ANY_EQ and FIND, those with a list TAKE */
#define GPUSCAN_SPECIAL(name, dst, a, b, c)                                                        \
	{#name,                                                                                        \
	 GPUSCAN_##dst,                                                                                \
	 {GPUSCAN_##a, GPUSCAN_##b, GPUSCAN_##c},                                                      \
	 true,                                                                                         \
	 GPUSCAN_OP_##name >= GPUSCAN_OP_ANY_EQ_I32 && GPUSCAN_OP_##name <= GPUSCAN_OP_FIND_TEXT,      \
	 GPUSCAN_OP_##name >= GPUSCAN_OP_TAKE_BOOL && GPUSCAN_OP_##name <= GPUSCAN_OP_TAKE_TEXT},

const GpuScanOpInfo gpuscan_ops[GPUSCAN_NUM_OPS] = {
#include "program/ops.h"
};

static const char *const class_names[GPUSCAN_NUM_CLASSES] = {"bool", "i32", "i64", "i128",
															 "f32",	 "f64", "text"};

static const struct
{
	const char *name;
	uint8_t cls;
} decodes[] = {
	[GPUSCAN_DECODE_BOOL] = {"bool", GPUSCAN_BOOL},
	[GPUSCAN_DECODE_INT2] = {"int2", GPUSCAN_I32},
	[GPUSCAN_DECODE_INT4] = {"int4", GPUSCAN_I32},
	[GPUSCAN_DECODE_INT8] = {"int8", GPUSCAN_I64},
	[GPUSCAN_DECODE_FLOAT4] = {"float4", GPUSCAN_F32},
	[GPUSCAN_DECODE_FLOAT8] = {"float8", GPUSCAN_F64},
	[GPUSCAN_DECODE_DEC64] = {"dec64", GPUSCAN_I64},
	[GPUSCAN_DECODE_DEC128] = {"dec128", GPUSCAN_I128},
	[GPUSCAN_DECODE_DSCALE] = {"dscale", GPUSCAN_I32},
	[GPUSCAN_DECODE_TEXT] = {"text", GPUSCAN_TEXT},
};

#define NUM_DECODES (sizeof(decodes) / sizeof(decodes[0]))

/* Bytes of a state by the argument's class, in the order of GpuScanClass */
typedef struct AggInfo
{
	const char *name;
	uint8_t size[GPUSCAN_NUM_CLASSES];
} AggInfo;

#define COUNT sizeof(GpuScanCountState)
#define VALUE sizeof(GpuScanValueState)
#define VALUE128 sizeof(GpuScanValue128State)
#define SUM128 sizeof(GpuScanSum128State)
#define SQUARES128 sizeof(GpuScanSquares128State)

static const AggInfo aggs[] = {
	[GPUSCAN_AGG_COUNT] = {"count", {COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT}},
	[GPUSCAN_AGG_SUM_I64] = {"sum_i64", {[GPUSCAN_I32] = sizeof(GpuScanSum64State)}},
	[GPUSCAN_AGG_SUM_I128] = {"sum_i128", {[GPUSCAN_I64] = SUM128, [GPUSCAN_I128] = SUM128}},
	[GPUSCAN_AGG_SQUARES_I128] =
		{"squares_i128",
		 {[GPUSCAN_I32] = SQUARES128, [GPUSCAN_I64] = SQUARES128, [GPUSCAN_I128] = SQUARES128}},
	[GPUSCAN_AGG_SUM_F64] =
		{"sum_f64",
		 {[GPUSCAN_F32] = sizeof(GpuScanSumF64State), [GPUSCAN_F64] = sizeof(GpuScanSumF64State)}},
	[GPUSCAN_AGG_SQUARES_F64] = {"squares_f64",
								 {[GPUSCAN_F32] = sizeof(GpuScanSquaresF64State),
								  [GPUSCAN_F64] = sizeof(GpuScanSquaresF64State)}},
	[GPUSCAN_AGG_MIN] = {"min", {0, VALUE, VALUE, VALUE128, VALUE, VALUE, 0}},
	[GPUSCAN_AGG_MAX] = {"max", {0, VALUE, VALUE, VALUE128, VALUE, VALUE, 0}},
	[GPUSCAN_AGG_BOOL_AND] = {"bool_and", {[GPUSCAN_BOOL] = VALUE}},
	[GPUSCAN_AGG_BOOL_OR] = {"bool_or", {[GPUSCAN_BOOL] = VALUE}},
	[GPUSCAN_AGG_BIT_AND] = {"bit_and", {[GPUSCAN_I32] = VALUE, [GPUSCAN_I64] = VALUE}},
	[GPUSCAN_AGG_BIT_OR] = {"bit_or", {[GPUSCAN_I32] = VALUE, [GPUSCAN_I64] = VALUE}},
	[GPUSCAN_AGG_COUNT_DISTINCT] = {"count_distinct",
									{COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT}},
};

#define NUM_AGGS (sizeof(aggs) / sizeof(aggs[0]))

const char *
gpuscan_class_name(unsigned cls)
{
	return cls < GPUSCAN_NUM_CLASSES ? class_names[cls] : "?";
}

const char *
gpuscan_decode_name(unsigned decode)
{
	return decode < NUM_DECODES ? decodes[decode].name : "?";
}

const char *
gpuscan_agg_name(unsigned kind)
{
	return kind < NUM_AGGS ? aggs[kind].name : "?";
}

uint8_t
gpuscan_decode_class(unsigned decode)
{
	return decode < NUM_DECODES ? decodes[decode].cls : GPUSCAN_NONE;
}

size_t
gpuscan_key_size(unsigned cls)
{
	if (cls >= GPUSCAN_NUM_CLASSES)
		return 0;
	return cls == GPUSCAN_I128 ? 16 : 8;
}

size_t
gpuscan_agg_state_size(unsigned kind, unsigned cls)
{
	if (kind >= NUM_AGGS || cls >= GPUSCAN_NUM_CLASSES)
		return 0;
	return aggs[kind].size[cls];
}

size_t
gpuscan_set_member_size(unsigned cls)
{
	static const uint8_t sizes[GPUSCAN_NUM_CLASSES] = {[GPUSCAN_I32] = 4,
													   [GPUSCAN_I64] = 8,
													   [GPUSCAN_I128] = 16,
													   [GPUSCAN_F64] = 8,
													   [GPUSCAN_TEXT] = 8};

	return cls < GPUSCAN_NUM_CLASSES ? sizes[cls] : 0;
}

size_t
gpuscan_list_value_size(unsigned cls)
{
	switch (cls)
	{
		case GPUSCAN_BOOL:
			return sizeof(uint8_t);
		case GPUSCAN_F32:
			return sizeof(float);
		default:
			return gpuscan_set_member_size(cls);
	}
}
