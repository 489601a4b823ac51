/*-------------------------------------------------------------------------
 *
 * service.h
 *	  What init.c and the views need of the service.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_SERVICE_H
#define GPUSCAN_SERVICE_H

#include "gpuscan.h"

#include "datatype/timestamp.h"

/* From _PG_init while shared libraries are preloaded: hooks for shared memory, and the worker. */
extern void gpuscan_service_register(void);

/* The background worker's main function. */
extern PGDLLEXPORT void gpuscan_service_main(Datum arg);

/* A request, for the view gpuscan_activity. */
typedef struct GpuScanActivity
{
	int pid;			/* of its backend */
	const char *state;	/* static */
	const char *device; /* in shared memory */
	uint64 tuples;		/* pushed so far */
	uint32 memory_mb;	/* that it may use */
	TimestampTz opened;
} GpuScanActivity;

/* Fills out[0 .. max - 1] with the requests in use; returns how many. */
extern int gpuscan_service_activity(GpuScanActivity *out, int max);

/* The service's pid, 0 if none runs; *starts says how often it was started. */
extern int gpuscan_service_pid(uint32 *starts);

#endif /* GPUSCAN_SERVICE_H */
