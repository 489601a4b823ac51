/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  The service's part of the main shared memory.
 *
 * There is no lock here: each field has one writer at a time, which the slot's
 * state says, and the state changes by compare-and-swap.
 *
 *	 FREE -> OWNED			a backend claims the slot
 *	 OWNED -> OPEN			the backend has filled it; the service serves it
 *	 OPEN -> OWNED			the service has let go of everything of the request
 *	 OWNED -> FREE			the backend has read the last of it
 *	 OPEN -> ABANDONED		the backend was cancelled and does not wait
 *	 ABANDONED -> FREE		the service has let go of everything of the request
 *
 * A service that exits first closes its device, then clears `running`, then
 * frees abandoned slots, then wakes every backend.  A backend whose slot is
 * OPEN for a generation that does not run has the slot, its channel and its
 * pages for itself.  A backend that abandons a slot looks at `running`
 * afterwards, so that one of the two frees it.  If the service is killed, the
 * postmaster makes shared memory anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "service/service.h"
#include "service/shmem.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"


GpuScanShared *gpuscan_shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static const char *const phase_names[] = {
	[GPUSCAN_PHASE_QUEUED] = "queued",		 [GPUSCAN_PHASE_SCANNING] = "scanning",
	[GPUSCAN_PHASE_FINISHING] = "finishing", [GPUSCAN_PHASE_RETURNING] = "returning rows",
	[GPUSCAN_PHASE_ENDING] = "ending",
};

static Size
doorbells_offset(void)
{
	return CACHELINEALIGN(add_size(offsetof(GpuScanShared, slots),
								   mul_size(gpuscan_max_requests, sizeof(GpuScanSlot))));
}

static Size
shared_size(void)
{
	return add_size(doorbells_offset(), mul_size(gpuscan_max_requests, sizeof(pg_atomic_uint32)));
}

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shared_size());
}

static void
shmem_startup(void)
{
	bool found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	gpuscan_shared = ShmemInitStruct("gpuscan service", shared_size(), &found);
	if (!found)
	{
		memset(gpuscan_shared, 0, shared_size());
		pg_atomic_init_u32(&gpuscan_shared->starts, 0);
		pg_atomic_init_u32(&gpuscan_shared->running, 0);
		pg_atomic_init_u32(&gpuscan_shared->discards, 0);
		pg_atomic_init_u32(&gpuscan_shared->launcher, 0);
		pg_atomic_init_u32(&gpuscan_shared->warmed, 0);
		pg_atomic_init_u32(&gpuscan_shared->ndevices, 0);
		for (int i = 0; i < GPUSCAN_MAX_DEVICE_ENTRIES; i++)
		{
			GpuScanDeviceEntry *entry = &gpuscan_shared->devices[i];

			pg_atomic_init_u32(&entry->state, GPUSCAN_DEVICE_CLOSED);
			pg_atomic_init_u32(&entry->failures, 0);
			pg_atomic_init_u32(&entry->failures_in_a_row, 0);
			pg_atomic_init_u32(&entry->running, 0);
			pg_atomic_init_u64(&entry->served, 0);
			pg_atomic_init_u64(&entry->memory_used, 0);
		}
		for (int i = 0; i < GPUSCAN_COVERAGE_PLACES; i++)
		{
			pg_atomic_init_u64(&gpuscan_shared->coverage[i].key, 0);
			pg_atomic_init_u32(&gpuscan_shared->coverage[i].ranges, 0);
		}
		gpuscan_shared->nslots = gpuscan_max_requests;
		gpuscan_shared->doorbells =
			(pg_atomic_uint32 *) ((char *) gpuscan_shared + doorbells_offset());
		for (int i = 0; i < gpuscan_shared->nslots; i++)
		{
			pg_atomic_init_u32(&gpuscan_shared->doorbells[i], 0);
			pg_atomic_init_u32(&gpuscan_shared->slots[i].state, GPUSCAN_SLOT_FREE);
			pg_atomic_init_u32(&gpuscan_shared->slots[i].phase, GPUSCAN_PHASE_QUEUED);
			pg_atomic_init_u32(&gpuscan_shared->slots[i].device, GPUSCAN_NO_DEVICE);
			pg_atomic_init_u64(&gpuscan_shared->slots[i].tuples, 0);
			pg_atomic_init_u32(&gpuscan_shared->slots[i].relid, InvalidOid);
			pg_atomic_init_u64(&gpuscan_shared->slots[i].blocks_done, 0);
			pg_atomic_init_u64(&gpuscan_shared->slots[i].blocks_total, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
gpuscan_shmem_register(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}

GpuScanSlot *
gpuscan_slot_claim(const char **reason)
{
	for (int i = 0; i < gpuscan_shared->nslots; i++)
	{
		GpuScanSlot *slot = &gpuscan_shared->slots[i];
		uint32 expected = GPUSCAN_SLOT_FREE;

		if (pg_atomic_read_u32(&slot->state) == GPUSCAN_SLOT_FREE &&
			pg_atomic_compare_exchange_u32(&slot->state, &expected, GPUSCAN_SLOT_OWNED))
		{
			slot->serial++;
			slot->leader = GPUSCAN_SLOT_REQUEST;
			slot->memory_mb = gpuscan_query_memory_limit;
			slot->pid = MyProcPid;
			slot->database = MyDatabaseId;
			slot->procno = MyProc->pgprocno;
			slot->opened = GetCurrentTimestamp();
			pg_atomic_write_u64(&slot->tuples, 0);
			pg_atomic_write_u32(&slot->relid, InvalidOid);
			pg_atomic_write_u64(&slot->blocks_done, 0);
			pg_atomic_write_u64(&slot->blocks_total, 0);
			pg_atomic_write_u32(&slot->phase, GPUSCAN_PHASE_QUEUED);
			pg_atomic_write_u32(&slot->device, GPUSCAN_NO_DEVICE);
			return slot;
		}
	}

	*reason = "all gpuscan.max_requests request slots are in use";
	return NULL;
}

void
gpuscan_slot_free(GpuScanSlot *slot)
{
	pg_atomic_write_u32(&slot->state, GPUSCAN_SLOT_FREE);
}

void
gpuscan_slot_free_abandoned(GpuScanSlot *slot)
{
	uint32 expected = GPUSCAN_SLOT_ABANDONED;

	if (pg_atomic_compare_exchange_u32(&slot->state, &expected, GPUSCAN_SLOT_OWNED))
		gpuscan_slot_free(slot);
}

void
gpuscan_slot_ring(GpuScanSlot *slot)
{
	pg_atomic_uint32 *doorbell = &gpuscan_shared->doorbells[slot - gpuscan_shared->slots];

	/* A bell that still rings has a wake-up under way. */
	if (pg_atomic_exchange_u32(doorbell, 1) == 0)
		SetLatch(gpuscan_shared->latch);
}

void
gpuscan_slot_wake(const GpuScanSlot *slot)
{
	SetLatch(&ProcGlobal->allProcs[slot->procno].procLatch);
}

const char *
gpuscan_slot_device(GpuScanSlot *slot)
{
	uint32 device = pg_atomic_read_u32(&slot->device);

	return device == GPUSCAN_NO_DEVICE ? NULL : gpuscan_shared->devices[device].label;
}

int
gpuscan_service_activity(GpuScanActivity *out, int max)
{
	int n = 0;

	if (gpuscan_shared == NULL)
		return 0;

	for (int i = 0; i < gpuscan_shared->nslots && n < max; i++)
	{
		GpuScanSlot *slot = &gpuscan_shared->slots[i];
		uint32 state = pg_atomic_read_u32(&slot->state);

		if (state == GPUSCAN_SLOT_FREE)
			continue;
		out[n].pid = slot->pid;
		out[n].state = state == GPUSCAN_SLOT_ABANDONED
						   ? "cancelled"
						   : phase_names[pg_atomic_read_u32(&slot->phase)];
		out[n].tuples = pg_atomic_read_u64(&slot->tuples);
		out[n].device = gpuscan_slot_device(slot);
		out[n].memory_mb = slot->memory_mb;
		out[n].opened = slot->opened;
		out[n].database = slot->database;
		out[n].relid = pg_atomic_read_u32(&slot->relid);
		out[n].blocks_done = pg_atomic_read_u64(&slot->blocks_done);
		out[n].blocks_total = pg_atomic_read_u64(&slot->blocks_total);
		n++;
	}
	return n;
}

uint32
gpuscan_service_generation(void)
{
	return pg_atomic_read_u32(&gpuscan_shared->running);
}

bool
gpuscan_service_is_warm(void)
{
	uint32 running = gpuscan_service_generation();

	return running != 0 && pg_atomic_read_u32(&gpuscan_shared->warmed) == running;
}

void
gpuscan_service_set_warm(uint32 generation)
{
	pg_atomic_write_u32(&gpuscan_shared->warmed, generation);
}

bool
gpuscan_service_keeps_columns(void)
{
	return gpuscan_service_generation() != 0 && gpuscan_shared->has_cache &&
		   (gpuscan_cpu_cache_size > 0 ||
			(gpuscan_shared->on_gpus && gpuscan_device_cache_size != 0));
}

void
gpuscan_service_set_launcher(void)
{
	pg_atomic_write_u32(&gpuscan_shared->launcher, MyProc->pgprocno + 1);
}

int
gpuscan_service_pid(uint32 *starts)
{
	*starts = gpuscan_shared ? pg_atomic_read_u32(&gpuscan_shared->starts) : 0;
	if (gpuscan_shared == NULL || pg_atomic_read_u32(&gpuscan_shared->running) == 0)
		return 0;
	return gpuscan_shared->pid;
}
