/*-------------------------------------------------------------------------
 *
 * fault.h
 *	  Faults that tests inject into the service; see fault.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_FAULT_H
#define GPUSCAN_FAULT_H

#include "gpuscan.h"

typedef enum GpuScanFaultKind
{
	GPUSCAN_FAULT_NONE,
	GPUSCAN_FAULT_SERVICE_EXIT, /* the service exits */
	GPUSCAN_FAULT_DEVICE_ERROR, /* the device's answer becomes GPUSCAN_OUT_OF_MEMORY */
	GPUSCAN_FAULT_DEVICE_LOST,	/* or GPUSCAN_DEVICE_FAILED */
	GPUSCAN_FAULT_WAIT			/* the backend waits, or the service */
} GpuScanFaultKind;

typedef enum GpuScanFaultPoint
{
	GPUSCAN_AT_BEGIN,
	GPUSCAN_AT_PUSH,
	GPUSCAN_AT_BATCH_DONE,
	GPUSCAN_AT_FINISH,
	GPUSCAN_AT_FETCH,
	GPUSCAN_AT_CLOSE,
	GPUSCAN_AT_LOAD
} GpuScanFaultPoint;

typedef struct GpuScanFault
{
	GpuScanFaultKind kind;
	GpuScanFaultPoint point;
	int remaining; /* times that the point is yet to be passed */
} GpuScanFault;

/* True if `name` is a value for gpuscan.inject_fault.  For its check hook. */
extern bool gpuscan_fault_is_valid(const char *name);

/* The fault that `name` stands for; kind NONE if it is empty or not valid. */
extern GpuScanFault gpuscan_fault_parse(const char *name);

/* Says, each time that a request passes `point`, which fault happens there. */
extern GpuScanFaultKind gpuscan_fault_at(GpuScanFault *fault, GpuScanFaultPoint point);

/* The point's name, as in the setting. */
extern const char *gpuscan_fault_point_name(GpuScanFaultPoint point);

#endif /* GPUSCAN_FAULT_H */
