/*-------------------------------------------------------------------------
 *
 * aggregate.h
 *	  The aggregate states inside a group row, shared by every device and by
 *	  the finishing code in backends.  Sums of floats: fsum.h.
 *
 * All fields are 8 bytes wide, so a state needs 8-byte alignment and no more.
 * n counts the arguments that were not NULL (count(*): the tuples); where it
 * is 0 the aggregate is NULL and the other fields mean nothing.  An all-zero
 * state is the state of no input.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_AGGREGATE_H
#define GPUSCAN_AGGREGATE_H

#include "fsum.h"

/* COUNT, COUNT_DISTINCT */
typedef struct GpuScanCountState
{
	int64_t n;
} GpuScanCountState;

/* SUM_I64 */
typedef struct GpuScanSum64State
{
	int64_t n;
	int64_t sum;
} GpuScanSum64State;

/* SUM_I128 */
typedef struct GpuScanSum128State
{
	int64_t n;
	uint64_t lo;
	int64_t hi;
} GpuScanSum128State;

/* SQUARES_I128 */
typedef struct GpuScanSquares128State
{
	int64_t n;
	uint64_t lo;
	int64_t hi;
	uint64_t squares_lo;
	int64_t squares_hi;
} GpuScanSquares128State;

/* SUM_F64 */
typedef struct GpuScanSumF64State
{
	int64_t n;
	GpuScanFSum3 sum;
} GpuScanSumF64State;

/* SQUARES_F64 */
typedef struct GpuScanSquaresF64State
{
	int64_t n;
	GpuScanFSum5 sum;
	GpuScanFSum5 squares;
} GpuScanSquaresF64State;

/*
 * MIN, MAX of I32 (as int64_t), I64, F32 (as the double it equals), F64;
 * BOOL_AND, BOOL_OR, BIT_AND, BIT_OR.
 */
typedef struct GpuScanValueState
{
	int64_t n;
	union
	{
		int64_t i;
		double f;
	} value;
} GpuScanValueState;

/* MIN, MAX of I128 */
typedef struct GpuScanValue128State
{
	int64_t n;
	uint64_t lo;
	int64_t hi;
} GpuScanValue128State;

#endif /* GPUSCAN_AGGREGATE_H */
