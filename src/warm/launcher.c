/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The background worker that keeps the cache warm.
 *
 *	 whenever the service has started:
 *		for each database of the file of remembered columns: run a worker, and wait
 *	 every gpuscan.cache_refresh_interval:
 *		ask the service what it has cached
 *		for each database with relations that may have something to load: run a
 *			worker, and wait
 *		now and then, write what is cached to the file, and remove files of expressions
 *			that are not
 *
 * A relation may have something to load if it was vacuumed since we looked last, by
 * the statistics, which need no connection to its database, and if it is new here.
 * Where vacuums are not counted, as on a standby, also as long as it has blocks
 * that are not all-visible, which its readers tell the service.  So where nothing changes,
 * nothing is started, and a look costs one question to the service.
 *
 * The file is not written before what is in it was loaded: it would lose that.
 *
 * The launcher sees the shared catalogs only.  It runs on a standby too, and ends with status
 * 1, so that the postmaster starts it again.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "program/expression_file.h"
#include "service/cache_file.h"
#include "service/client.h"
#include "service/service.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/sinval.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/pgstat_internal.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#include "warm/warm.h"

/* Looks from one write of the file to the next. */
#define LOOKS_PER_WRITE 5

/* A relation with cached columns, at a look */
typedef struct Known
{
	Oid database;
	Oid relid;
	int64 vacuums;
	bool load; /* it may have something to load */
} Known;

static MemoryContext looks_context; /* of `known` */
static Known *known = NULL;			/* by database and relation */
static uint32 nknown = 0;
static uint32 looks = 0;
static bool out_of_workers = false; /* the log says so */

void
gpuscan_warm_register(void)
{
	BackgroundWorker worker = {
		.bgw_name = "gpuscan cache launcher",
		.bgw_type = "gpuscan cache launcher",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = 5,
		.bgw_library_name = "gpuscan",
		.bgw_function_name = "gpuscan_warm_launcher_main",
	};

	RegisterBackgroundWorker(&worker);
}

static void
handle_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
	if (catchupInterruptPending)
		ProcessCatchupInterrupt();
	if (ShutdownRequestPending)
		proc_exit(1);
}

/* Sleeps until the latch is set; a negative time: for ever. */
static void
nap(long milliseconds)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (milliseconds < 0 ? 0 : WL_TIMEOUT),
					 milliseconds, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Runs a worker to its end.  False if none can be started. */
static bool
run_worker(Oid database, GpuScanWarmTask task)
{
	BackgroundWorker worker = {
		.bgw_name = "gpuscan cache worker",
		.bgw_type = "gpuscan cache worker",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "gpuscan",
		.bgw_function_name = "gpuscan_warm_worker_main",
		.bgw_main_arg = ObjectIdGetDatum(database),
		.bgw_notify_pid = MyProcPid,
	};
	BackgroundWorkerHandle *handle;
	pid_t pid;

	worker.bgw_extra[0] = task;
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
	{
		if (!out_of_workers)
			ereport(LOG, (errmsg("could not start a background worker to load cached columns"),
						  errhint("You might need to increase max_worker_processes.")));
		out_of_workers = true;
		return false;
	}
	out_of_workers = false;
	while (GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
	{
		nap(-1);
		if (ShutdownRequestPending)
			TerminateBackgroundWorker(handle);
		handle_interrupts();
	}
	pfree(handle);
	return true;
}

/* Whether there is such a database, to which one can connect. */
static bool
database_exists(Oid database)
{
	MemoryContext context = CurrentMemoryContext;
	bool exists = false;
	HeapTuple tuple;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (HeapTupleIsValid(tuple))
	{
		exists = ((Form_pg_database) GETSTRUCT(tuple))->datallowconn;
		ReleaseSysCache(tuple);
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return exists;
}

/* Loads what is remembered, unless no worker can be had for that now. */
static void
restore(void)
{
	uint32 generation = gpuscan_service_generation();
	uint32 n;
	const GpuScanCacheColumn *columns = gpuscan_cache_file_read(&n);
	List *databases = NIL;
	ListCell *lc;

	for (uint32 i = 0; i < n; i++)
		databases = list_append_unique_oid(databases, columns[i].database);
	foreach(lc, databases)
	{
		if (database_exists(lfirst_oid(lc)) && !run_worker(lfirst_oid(lc), GPUSCAN_WARM_RESTORE))
			return;
	}
	gpuscan_service_set_warm(generation);
}

/* How often the relation was vacuumed, as far as this server knows. */
static int64
count_vacuums(Oid database, Oid relid)
{
	PgStat_StatTabEntry *entry = pgstat_fetch_entry(PGSTAT_KIND_RELATION, database, relid);

	return entry == NULL ? 0 : entry->vacuum_count + entry->autovac_vacuum_count;
}

static int
compare_known(const void *a, const void *b)
{
	const Known *x = a;
	const Known *y = b;

	if (x->database != y->database)
		return x->database < y->database ? -1 : 1;
	return x->relid == y->relid ? 0 : x->relid < y->relid ? -1 : 1;
}

/* Makes `known` those of the report. */
static void
look_at_report(const GpuScanCacheRow *rows, uint32 n)
{
	Known *now = MemoryContextAlloc(looks_context, Max(n, 1) * sizeof(Known));
	uint32 nnow = 0;
	bool is_counting = pgstat_track_counts && !RecoveryInProgress();

	pgstat_clear_snapshot();
	for (uint32 i = 0; i < n; i++)
	{
		Known *relation = &now[nnow];
		const Known *before;

		/* a relation's rows on a device follow each other */
		if (i > 0 && rows[i].relid == rows[i - 1].relid &&
			rows[i].database == rows[i - 1].database && rows[i].device == rows[i - 1].device)
			continue;
		nnow++;
		relation->database = rows[i].database;
		relation->relid = rows[i].relid;
		relation->vacuums = count_vacuums(rows[i].database, rows[i].relid);
		before =
			nknown == 0 ? NULL : bsearch(relation, known, nknown, sizeof(Known), compare_known);
		relation->load = before == NULL || before->vacuums != relation->vacuums ||
						 (rows[i].loose && !is_counting);
	}
	pgstat_clear_snapshot();
	qsort(now, nnow, sizeof(Known), compare_known);
	if (known != NULL)
		pfree(known);
	known = now;
	nknown = nnow;
}

/* Remembers what is cached, and forgets what expressions were. */
static void
remember(const GpuScanCacheRow *rows, uint32 nrows)
{
	Size size = sizeof(rows->expression.identity);
	uint8 *identities = palloc(Max(nrows, 1) * size);
	uint32 n = 0;

	gpuscan_cache_file_write(rows, nrows, "gpuscan_columns.tmp");
	for (uint32 i = 0; i < nrows; i++)
	{
		if (rows[i].attnum == 0)
			memcpy(identities + n++ * size, rows[i].expression.identity, size);
	}
	gpuscan_expression_file_sweep(identities, n);
}

/* Loads what has changed. */
static void
refresh(void)
{
	uint32 n;
	const GpuScanCacheRow *rows = gpuscan_client_cache_rows(&n);
	bool exists = false;
	bool done = false; /* for this database */

	/* it may just have exited, or have no slot for us */
	if (n == 0)
		return;
	look_at_report(rows, n);
	if (++looks % LOOKS_PER_WRITE == 0)
		remember(rows, n);
	for (uint32 i = 0; i < nknown; i++)
	{
		Oid database = known[i].database;

		if (i == 0 || database != known[i - 1].database)
		{
			exists = database_exists(database);
			done = false;
		}
		if (!exists)
			(void) gpuscan_client_cache_evict(database, known[i].relid);
		else if (known[i].load && !done)
		{
			done = true;
			if (!run_worker(database, GPUSCAN_WARM_REFRESH))
			{
				/* the next look begins with nothing known */
				nknown = 0;
				return;
			}
		}
	}
}

static void
look(void)
{
	MemoryContext context =
		AllocSetContextCreate(TopMemoryContext, "gpuscan look", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	if (gpuscan_service_is_warm())
		refresh();
	else
		restore();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
gpuscan_warm_launcher_main(Datum arg pg_attribute_unused())
{
	TimestampTz next = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	looks_context = AllocSetContextCreate(TopMemoryContext, "gpuscan looks", ALLOCSET_SMALL_SIZES);
	gpuscan_service_set_launcher();

	for (;;)
	{
		TimestampTz now;

		handle_interrupts();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			next = 0;
		}
		if (gpuscan_cache_refresh_interval == 0 || !gpuscan_service_keeps_columns())
		{
			nap(-1);
			continue;
		}
		now = GetCurrentTimestamp();
		if (now >= next || !gpuscan_service_is_warm())
		{
			look();
			next = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
											   gpuscan_cache_refresh_interval * 1000);
		}
		nap(Max(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next), 1));
	}
}
