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
	const char *device; /* in shared memory; NULL while none serves it */
	uint64 tuples;		/* pushed so far */
	uint32 memory_mb;	/* that it may use */
	TimestampTz opened;
	Oid database;
	Oid relid;			 /* that it reads; 0: none, or not yet */
	uint64 blocks_done;	 /* read by this process */
	uint64 blocks_total; /* to read, by those that feed it too; 0: it feeds another's */
} GpuScanActivity;

/* Fills out[0 .. max - 1] with the requests in use; returns how many. */
extern int gpuscan_service_activity(GpuScanActivity *out, int max);

/* A device, for the view gpuscan_devices. */
typedef struct GpuScanDeviceActivity
{
	const char *device; /* in shared memory */
	const char *model;	/* the same; may be empty */
	const char *state;	/* static */
	uint64 memory_total;
	uint64 memory_limit;
	uint64 memory_used;
	uint64 cache_limit; /* of columns in its own memory */
	uint64 cache_used;
	uint64 host_cache_used; /* of its columns in the host's */
	bool is_cuda;
	uint32 running;
	uint64 served;
	uint32 failures;
} GpuScanDeviceActivity;

/* The device of this number, of those that were opened since the server's start; false: no more. */
extern bool gpuscan_service_device(uint32 number, GpuScanDeviceActivity *out);

/* The service's pid, 0 if none runs; *starts says how often it was started. */
extern int gpuscan_service_pid(uint32 *starts);

/* ---- for warm/ ---- */

/* Which start of the service this is, from 1 on; 0: it does not run. */
extern uint32 gpuscan_service_generation(void);

/* Whether it has loaded what was cached before its start, and so knows what is worth remembering. */
extern bool gpuscan_service_is_warm(void);
extern void gpuscan_service_set_warm(uint32 generation);

/* Whether it runs, and columns are cached. */
extern bool gpuscan_service_keeps_columns(void);

/* Has the service wake this process when it starts. */
extern void gpuscan_service_set_launcher(void);

#endif /* GPUSCAN_SERVICE_H */
