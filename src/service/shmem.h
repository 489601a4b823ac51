/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  What the service and its clients share in the main shared memory: who
 *	  the service is, and one slot for each request.  See shmem.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_SHMEM_H
#define GPUSCAN_SHMEM_H

#include "gpuscan.h"

#include "columns/columns.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/latch.h"

typedef enum GpuScanSlotState
{
	GPUSCAN_SLOT_FREE,
	GPUSCAN_SLOT_OWNED,	   /* a backend's: being filled, or acknowledged as ended */
	GPUSCAN_SLOT_OPEN,	   /* a request that the service serves */
	GPUSCAN_SLOT_ABANDONED /* the same, whose backend has gone away */
} GpuScanSlotState;

/* How far a request has come, for the view. */
typedef enum GpuScanPhase
{
	GPUSCAN_PHASE_QUEUED,
	GPUSCAN_PHASE_SCANNING,
	GPUSCAN_PHASE_FINISHING,
	GPUSCAN_PHASE_RETURNING,
	GPUSCAN_PHASE_ENDING
} GpuScanPhase;

#define GPUSCAN_NO_DEVICE PG_UINT32_MAX

/* A slot that feeds no other's request has instead of its leader: */
#define GPUSCAN_SLOT_REQUEST (-1)
#define GPUSCAN_SLOT_COMMAND (-2) /* a GpuScanCacheCommand */

typedef struct GpuScanSlot
{
	pg_atomic_uint32 state;	 /* GpuScanSlotState */
	pg_atomic_uint32 phase;	 /* GpuScanPhase; set by the service */
	pg_atomic_uint32 device; /* index of its device, or GPUSCAN_NO_DEVICE; set by the service */
	pg_atomic_uint64 tuples; /* pushed so far; set by the backend */

	/* How far the backend is with reading pages; set by it */
	pg_atomic_uint32 relid; /* that it reads, or 0 */
	pg_atomic_uint64 blocks_done;
	pg_atomic_uint64 blocks_total; /* of all relations; 0: another process knows */

	/* Set by the backend while the slot is OWNED. */
	uint32 serial;		  /* of its uses */
	int leader;			  /* the slot whose request it feeds; or one of those below */
	uint32 leader_serial; /* of that slot's use */
	uint32 generation;	  /* of the service that it is meant for */
	uint32 memory_mb;	  /* that the request may use */
	int pid;
	Oid database;
	int procno; /* whose latch to set */
	dsm_handle channel;
	TimestampTz opened;
} GpuScanSlot;

typedef enum GpuScanDeviceState
{
	GPUSCAN_DEVICE_CLOSED, /* the service does not run */
	GPUSCAN_DEVICE_RUNNING,
	GPUSCAN_DEVICE_LOST, /* it failed, and was not opened since */
	GPUSCAN_DEVICE_LEFT_ALONE
} GpuScanDeviceState;

/* What is known of a device that was opened since the server's start; set by the service */
typedef struct GpuScanDeviceEntry
{
	/* Never change, so that EXPLAIN may point to them */
	char name[16];	/* as in gpuscan.device */
	char model[64]; /* or empty */
	char label[96]; /* both */
	bool cuda;
	uint64 memory_total;

	pg_atomic_uint32 state; /* GpuScanDeviceState */
	pg_atomic_uint32 failures;
	pg_atomic_uint32 failures_in_a_row;
	pg_atomic_uint32 running; /* requests */
	pg_atomic_uint64 served;  /* requests that ended well */
	pg_atomic_uint64 memory_used;
	pg_atomic_uint64 cached[GPUSCAN_TIER_HOST + 1]; /* bytes of its columns in each tier */
} GpuScanDeviceEntry;

/* Those that a setting can name, and the cpu device in their place */
#define GPUSCAN_MAX_DEVICES 16
#define GPUSCAN_MAX_DEVICE_ENTRIES (GPUSCAN_MAX_DEVICES + 1)

/* A column's, or with attribute number 0 a relation's, ranges in the cache; see coverage.c */
typedef struct GpuScanCoverage
{
	pg_atomic_uint64 key;
	pg_atomic_uint32 ranges; /* of all devices; 0: the place is free */
} GpuScanCoverage;

#define GPUSCAN_COVERAGE_PLACES 4096

typedef struct GpuScanShared
{
	pg_atomic_uint32 starts;   /* of the service so far; its generations */
	pg_atomic_uint32 running;  /* the generation that serves, or 0 */
	pg_atomic_uint32 discards; /* channels whose backend let go of them */

	/* Set by the service before `running`. */
	int pid;
	Latch *latch;
	uint32 batch_blocks; /* that a batch had better have */
	uint32 feeders;		 /* processes that can keep a device busy */
	bool has_cache;		 /* every device takes columns */
	bool on_gpus;		 /* every device is one */

	/* What the warm launcher and the service tell each other */
	pg_atomic_uint32 launcher; /* its pgprocno + 1; 0: there was none */
	pg_atomic_uint32 warmed;   /* the generation that has what was cached before it */

	pg_atomic_uint32 ndevices; /* entries filled in; none goes away */
	GpuScanDeviceEntry devices[GPUSCAN_MAX_DEVICE_ENTRIES];

	GpuScanCoverage coverage[GPUSCAN_COVERAGE_PLACES];

	int nslots;
	pg_atomic_uint32 *doorbells; /* one a slot: the backend has news */
	GpuScanSlot slots[FLEXIBLE_ARRAY_MEMBER];
} GpuScanShared;

/* NULL in a server that did not preload the library. */
extern GpuScanShared *gpuscan_shared;

extern void gpuscan_shmem_register(void);

/*
 * A free slot, OWNED by this backend; NULL with *reason, a static string, where
 * there is none.
 */
extern GpuScanSlot *gpuscan_slot_claim(const char **reason);

/* Makes a slot free that the caller alone holds. */
extern void gpuscan_slot_free(GpuScanSlot *slot);

/* Frees the slot if it is ABANDONED; only where no service serves it. */
extern void gpuscan_slot_free_abandoned(GpuScanSlot *slot);

/* Tells the service that there is news in the slot. */
extern void gpuscan_slot_ring(GpuScanSlot *slot);

/* The device that serves it, in shared memory; NULL while none does. */
extern const char *gpuscan_slot_device(GpuScanSlot *slot);

/* Sets the latch of the slot's backend. */
extern void gpuscan_slot_wake(const GpuScanSlot *slot);

#endif /* GPUSCAN_SHMEM_H */
