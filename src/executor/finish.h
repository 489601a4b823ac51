/*-------------------------------------------------------------------------
 *
 * finish.h
 *	  From a group row of a device to PostgreSQL's values.
 *
 * Keys become Datums of their type.  An aggregate's state becomes the
 * transition value that PostgreSQL's own aggregate would have, and PostgreSQL's
 * own final function makes the result, so scale, rounding and NaN are its.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_FINISH_H
#define GPUSCAN_FINISH_H

#include "gpuscan.h"

#include "program/compile.h"

typedef struct GpuScanFinish GpuScanFinish;

/* Looks up final functions once.  Lives in the current memory context. */
extern GpuScanFinish *gpuscan_finish_create(const GpuScanProgram *program,
											const GpuScanFinishColumn *columns, int ncolumns);

/*
 * Fills values[i] and isnull[i] for every column from the group row at `row`,
 * which lies in the chunk that starts at `chunk`.  row = NULL stands for the
 * one row of an ungrouped aggregation that saw no tuple.  Results live in the
 * current memory context, or in `chunk`.
 */
extern void gpuscan_finish_row(GpuScanFinish *finish, const char *chunk, const char *row,
							   Datum *values, bool *isnull);

/* True if gpuscan_finish_row can make this aggregate's result from a device's state. */
extern bool gpuscan_finish_supports(Oid aggfnoid);

#endif /* GPUSCAN_FINISH_H */
