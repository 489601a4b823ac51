/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The gpuscan service: a background worker that owns the devices.
 *
 *	 open the devices, publish a new generation, then for ever:
 *		serve the requests that have news		(request.c)
 *		log what devices have to say			(devices.c)
 *		unmap channels that were discarded		(mapping.c)
 *		if there is nothing to serve, move some cached columns to where they belong (cache_memory.c)
 *		sleep until a backend sets the latch or a device thread writes the eventfd
 *
 * It has no database connection, so it runs from the postmaster's start on, on
 * a hot standby too.  The main thread alone calls PostgreSQL.  Device threads
 * have every signal blocked; what they have to say goes through atomics, and
 * `asleep` says whether the eventfd has to be written as well.
 *
 * How it ends: always by proc_exit with a status other than 0, so that the
 * postmaster starts it again and lets everybody else live.  Before shared
 * memory is detached the devices are closed, their threads with them; only then do
 * backends hear that this generation is gone, so that they may unpin pages and
 * use channels again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "service/cache.h"
#include "service/cache_file.h"
#include "service/devices.h"
#include "service/mapping.h"
#include "service/request.h"
#include "service/service.h"
#include "service/shmem.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

static int event_fd = -1;
static pg_atomic_uint32 asleep; /* 1 while the main thread may be in its sleep */

void
gpuscan_service_register(void)
{
	BackgroundWorker worker = {
		.bgw_name = "gpuscan service",
		.bgw_type = "gpuscan service",
		.bgw_flags = BGWORKER_SHMEM_ACCESS,
		.bgw_start_time = BgWorkerStart_PostmasterStart,
		.bgw_restart_time = 1,
		.bgw_library_name = "gpuscan",
		.bgw_function_name = "gpuscan_service_main",
	};

	gpuscan_shmem_register();
	RegisterBackgroundWorker(&worker);
}

/* For device threads: has the main thread look for news. */
static void
wake_main_thread(void)
{
	if (pg_atomic_exchange_u32(&asleep, 0) != 0)
	{
		uint64 one = 1;
		ssize_t written = write(event_fd, &one, sizeof(one));

		/* A full counter wakes as well; there is no other failure. */
		(void) written;
	}
}

/* Takes down what the service has put up, before shared memory is detached. */
static void
on_exit_service(int code, Datum arg)
{
	(void) code;
	(void) arg;

	gpuscan_devices_close();
	pg_atomic_write_u32(&gpuscan_shared->running, 0);
	pg_memory_barrier();
	for (int i = 0; i < gpuscan_shared->nslots; i++)
	{
		GpuScanSlot *slot = &gpuscan_shared->slots[i];

		gpuscan_slot_free_abandoned(slot);
		if (pg_atomic_read_u32(&slot->state) == GPUSCAN_SLOT_OPEN)
			gpuscan_slot_wake(slot);
	}
}

/* Opens the devices and tells the backends. */
static void
start_service(void)
{
	uint32 threads = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);
	uint32 generation;
	uint32 launcher;

	event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (event_fd < 0)
		ereport(FATAL, (errcode_for_file_access(), errmsg("could not create an eventfd: %m")));

	before_shmem_exit(on_exit_service, (Datum) 0);
	gpuscan_devices_open(threads);

	generation = pg_atomic_add_fetch_u32(&gpuscan_shared->starts, 1);
	gpuscan_shared->pid = MyProcPid;
	gpuscan_shared->latch = MyLatch;
	gpuscan_mapping_setup();
	gpuscan_request_setup(threads, generation, wake_main_thread);
	pg_write_barrier();
	pg_atomic_write_u32(&gpuscan_shared->running, generation);
	pg_memory_barrier();
	launcher = pg_atomic_read_u32(&gpuscan_shared->launcher);
	if (launcher != 0)
		SetLatch(&ProcGlobal->allProcs[launcher - 1].procLatch);
	ereport(DEBUG1, (errmsg_internal("gpuscan service started for the %uth time", generation)));
}

/* Has the next start of the server load what is cached now. */
static void
remember_columns(void)
{
	GpuScanCacheRow *rows;

	if (gpuscan_cache_refresh_interval == 0 || !gpuscan_service_is_warm() ||
		!gpuscan_service_keeps_columns())
		return;
	rows = palloc(GPUSCAN_CACHE_MAX_ROWS * sizeof(GpuScanCacheRow));
	gpuscan_cache_file_write(rows, gpuscan_cache_report(rows, GPUSCAN_CACHE_MAX_ROWS),
							 "gpuscan_columns.exit.tmp");
}

static void
handle_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
	{
		ereport(DEBUG1, (errmsg_internal("gpuscan service shutting down")));
		remember_columns();
		proc_exit(1);
	}
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		gpuscan_cache_limits_changed();
	}
}

void
gpuscan_service_main(Datum arg)
{
	WaitEventSet *events;

	(void) arg;
	pg_atomic_init_u32(&asleep, 0);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	start_service();

	events = CreateWaitEventSet(TopMemoryContext, 3);
	AddWaitEventToSet(events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(events, WL_SOCKET_READABLE, event_fd, NULL, NULL);

	for (;;)
	{
		WaitEvent event;
		uint64 count;
		bool untidy;

		ResetLatch(MyLatch);
		handle_interrupts();
		gpuscan_request_serve_all();
		untidy = gpuscan_cache_tidy(!gpuscan_request_is_pending());
		gpuscan_devices_look();
		gpuscan_mapping_sweep();
		if (untidy)
			continue;

		/* The exchange is a full barrier: who comes later sees it, and wakes us. */
		pg_atomic_exchange_u32(&asleep, 1);
		if (!gpuscan_request_is_pending())
		{
			(void) WaitEventSetWait(events, -1, &event, 1, PG_WAIT_EXTENSION);
			if (event.events & WL_SOCKET_READABLE)
			{
				ssize_t got = read(event_fd, &count, sizeof(count));

				(void) got;
			}
		}
		pg_atomic_write_u32(&asleep, 0);
	}
}
