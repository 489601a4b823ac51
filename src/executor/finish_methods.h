/*-------------------------------------------------------------------------
 *
 * finish_methods.h
 *	  How one value of a group row becomes a Datum; finish.c only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_FINISH_METHODS_H
#define GPUSCAN_FINISH_METHODS_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "program/program.h"

typedef struct GpuScanFinishSlot GpuScanFinishSlot;

/*
 * Makes the Datum of a key or state that is not NULL.  `at` is the column's
 * value_offset into the row; *isnull is false at the call.
 */
typedef Datum (*GpuScanFinishMethod)(GpuScanFinishSlot *slot, const char *chunk, const char *row,
									 const char *at, bool *isnull);

struct GpuScanFinishSlot
{
	GpuScanFinishMethod method;
	uint64 null_bit;	 /* key: its bit in the row's first word, else 0 */
	bool null_if_empty;	 /* aggregate: NULL where the state's n is 0 */
	uint32 state_offset; /* aggregate: into the row */
	uint32 value_offset; /* key, state, or the value in the state */
	int scale;
	uint32 dscale_offset; /* of the state with the display scale, or 0 */
	StringInfo scratch;
	FunctionCallInfo deserialize; /* variance of integers and numeric */
	FunctionCallInfo final;		  /* variance */
	float8 *transvalues;		  /* of floats, inside final's argument: N, Sx, Sxx */
};

/* How an aggregate's result comes from its state. */
typedef enum GpuScanFinishFamily
{
	GPUSCAN_FINISH_NONE,
	GPUSCAN_FINISH_COUNT,
	GPUSCAN_FINISH_VALUE,
	GPUSCAN_FINISH_SUM,
	GPUSCAN_FINISH_AVG,
	GPUSCAN_FINISH_VARIANCE
} GpuScanFinishFamily;

/* The method for a key, or for the value that a state holds. */
extern GpuScanFinishMethod gpuscan_finish_value_method(Oid type, GpuScanClass cls);

/* The method for an aggregate of another family, from its state and its result's type. */
extern GpuScanFinishMethod
gpuscan_finish_state_method(GpuScanFinishFamily family, GpuScanAggKind kind, Oid type);

#endif /* GPUSCAN_FINISH_METHODS_H */
