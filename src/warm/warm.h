/*-------------------------------------------------------------------------
 *
 * warm.h
 *	  Loading columns into the cache in the background: see README.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_WARM_H
#define GPUSCAN_WARM_H

#include "gpuscan.h"

/* What the launcher asks of a worker, beside its database */
typedef enum GpuScanWarmTask
{
	GPUSCAN_WARM_RESTORE, /* load what is remembered on disk */
	GPUSCAN_WARM_REFRESH  /* load again what has changed of what is cached */
} GpuScanWarmTask;

/* From _PG_init while shared libraries are preloaded. */
extern void gpuscan_warm_register(void);

/* launcher.c, worker.c: the main functions of the background workers */
extern PGDLLEXPORT void gpuscan_warm_launcher_main(Datum arg);
extern PGDLLEXPORT void gpuscan_warm_worker_main(Datum arg);

#endif /* GPUSCAN_WARM_H */
