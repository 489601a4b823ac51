/*-------------------------------------------------------------------------
 *
 * op.h
 *	  What can be said about the operations, classes and aggregates of a
 *	  Program without running it: their numbers, names, operands and sizes.
 *	  The operations come from ops.h, the tables are in op.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_OP_H
#define GPUSCAN_OP_H

#include "program/program.h"

typedef enum GpuScanOp
{
#define GPUSCAN_UNARY(name, dst, a, fn) GPUSCAN_OP_##name,
#define GPUSCAN_UNARY_E(name, dst, a, fn) GPUSCAN_OP_##name,
#define GPUSCAN_BINARY(name, dst, a, b, fn) GPUSCAN_OP_##name,
#define GPUSCAN_BINARY_E(name, dst, a, b, fn) GPUSCAN_OP_##name,
#define GPUSCAN_SPECIAL(name, dst, a, b, c) GPUSCAN_OP_##name,
#include "program/ops.h"
	GPUSCAN_NUM_OPS
} GpuScanOp;

/* In place of a GpuScanClass: an operand of any class, and no operand */
#define GPUSCAN_ANY 0xFE
#define GPUSCAN_NONE 0xFF

typedef struct GpuScanOpInfo
{
	const char *name;
	uint8_t dst;	/* GpuScanClass of the result */
	uint8_t src[3]; /* of a, b, c; GPUSCAN_ANY, or GPUSCAN_NONE: not read */
	bool special;	/* looks at its operands' flags itself */
	bool set;		/* `aux` is a set whose class is src[0] */
	bool list;		/* `aux` is a list whose class is dst */
} GpuScanOpInfo;

/* Indexed by GpuScanOp */
extern const GpuScanOpInfo gpuscan_ops[GPUSCAN_NUM_OPS];

/* Names for listings; "?" for a number that is none. */
extern const char *gpuscan_class_name(unsigned cls);
extern const char *gpuscan_decode_name(unsigned decode);
extern const char *gpuscan_agg_name(unsigned kind);

/* The class of the register that a GpuScanDecode fills, or GPUSCAN_NONE for a number that is none. */
extern uint8_t gpuscan_decode_class(unsigned decode);

/* Bytes of a key of this class in a group row, or 0 for a number that is no class. */
extern size_t gpuscan_key_size(unsigned cls);

/*
 * Bytes of an aggregate's state in a group row, or 0 where the aggregate does
 * not take arguments of this class.  count(*) has no argument, and takes any.
 */
extern size_t gpuscan_agg_state_size(unsigned kind, unsigned cls);

/* Bytes of a set's member of this class, or 0 where there are no such sets. */
extern size_t gpuscan_set_member_size(unsigned cls);

/* Bytes of a list's value of this class, or 0 for a number that is no class. */
extern size_t gpuscan_list_value_size(unsigned cls);

#endif /* GPUSCAN_OP_H */
