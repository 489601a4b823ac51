/*-------------------------------------------------------------------------
 *
 * result.h
 *	  The group rows of an aggregation, all of them, in the backend.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_RESULT_H
#define GPUSCAN_RESULT_H

#include "gpuscan.h"

#include "program/program.h"
#include "service/client.h"

typedef struct GpuScanResult GpuScanResult;

/*
 * Lives in the current memory context; a temporary file may be open until
 * gpuscan_result_free, or until the resource owner closes it.
 */
extern GpuScanResult *gpuscan_result_create(const GpuScanProgram *program);

/*
 * Fetches every chunk of a finished request, behind those of the requests
 * before it.  False if the client failed; the result is of no use then.
 */
extern bool gpuscan_result_collect(GpuScanResult *result, GpuScanClient *client);

/* After the last request. */
extern void gpuscan_result_rewind(GpuScanResult *result);

/*
 * The next group row and the chunk that it lies in, valid until the next call;
 * NULL at the end.
 */
extern const char *gpuscan_result_next(GpuScanResult *result, const char **chunk);
extern void gpuscan_result_free(GpuScanResult *result);

#endif /* GPUSCAN_RESULT_H */
