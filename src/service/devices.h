/*-------------------------------------------------------------------------
 *
 * devices.h
 *	  The service's devices; see devices.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_DEVICES_H
#define GPUSCAN_DEVICES_H

#include "gpuscan.h"

#include "device/device.h"
#include "service/shmem.h"

/* What gpuscan.device names */
typedef struct GpuScanDeviceList
{
	int n;							  /* 0: "auto" */
	int numbers[GPUSCAN_MAX_DEVICES]; /* of CUDA devices; -1: the cpu device */
} GpuScanDeviceList;

/* False: *error, a static sentence, says what is wrong.  For the check hook, too. */
extern bool gpuscan_devices_parse(const char *setting, GpuScanDeviceList *list, const char **error);

typedef struct GpuScanOpenDevice
{
	const GpuScanDeviceOps *ops;
	GpuScanDevice *device;
	GpuScanDeviceEntry *entry; /* in shared memory */
} GpuScanOpenDevice;

/* The bytes that all requests together may have on the device. */
extern uint64 gpuscan_devices_memory_limit(const GpuScanDeviceEntry *entry);

/* Of those, the bytes that columns may have; 0: it has no memory of its own, or not for columns. */
extern uint64 gpuscan_devices_cache_limit(const GpuScanDeviceEntry *entry);

/* The rest is for the service's main thread. */

/* Opens the devices of gpuscan.device; there is one at least afterwards. */
extern void gpuscan_devices_open(uint32 threads);
extern void gpuscan_devices_close(void);

/* One of them, counted from 0; NULL: there are no more. */
extern const GpuScanOpenDevice *gpuscan_devices_get(int i);

/*
 * The device for one more request, that of the name if it serves; and that request's
 * end, good or not.
 */
extern const GpuScanOpenDevice *gpuscan_devices_take(const char *name);
extern void gpuscan_devices_give(const GpuScanOpenDevice *open, bool well);

/* Logs what the devices have to say, and shows what they use. */
extern void gpuscan_devices_look(void);

/* Ends the service because of a device that failed. */
extern void gpuscan_devices_give_up(const GpuScanOpenDevice *open) pg_attribute_noreturn();

#endif /* GPUSCAN_DEVICES_H */
