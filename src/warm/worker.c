/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Loads columns of one database into the cache, and ends.
 *
 *		for each relation that is remembered, or cached, in a transaction of its own
 *			unless it is locked against reading: load what is missing
 *
 * Nobody may have to wait for it.  It asks for its lock without waiting, and after each
 * range looks whether somebody waits for that lock: then it goes on with the next
 * relation, and comes back to this one at the end.  If somebody wants the database for
 * himself, to drop it, or copy it, it ends.  It uses one thread of the device and drops nothing
 * that is cached.
 *
 * An error, such as a conflict with recovery, leaves out the relation; pg_cancel_backend()
 * and pg_terminate_backend() end it.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "executor/load.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "service/cache_file.h"
#include "service/client.h"
#include "service/service.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "warm/warm.h"

/* A relation, and what to load there */
typedef struct Wanted
{
	Oid relid;
	GpuScanLoad what;
} Wanted;

static bool ending = false; /* of this process, as soon as possible */

/* Whether somebody waits for a lock on the database that our session does not allow. */
static bool
is_database_wanted(void)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	(void) LockRelease(&tag, RowExclusiveLock, false);
	return false;
}

/* Whether somebody waits for a lock that conflicts with the AccessShareLock that we hold. */
static bool
is_relation_wanted(Relation rel)
{
	/* a lock that conflicts with no more is not given past those who wait */
	if (!ConditionalLockRelation(rel, RowShareLock))
		return true;
	UnlockRelation(rel, RowShareLock);
	return false;
}

static bool
should_stop(Relation rel)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	ending |= gpuscan_cache_refresh_interval == 0 || is_database_wanted();
	return ending || is_relation_wanted(rel);
}

/* Loads what is missing of a relation.  False if somebody else wanted it. */
static bool
load_relation(const Wanted *wanted)
{
	Relation rel;
	bool complete = false;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (ConditionalLockRelationOid(wanted->relid, AccessShareLock))
	{
		rel = try_relation_open(wanted->relid, NoLock);
		if (rel == NULL)
			(void) gpuscan_client_cache_evict(MyDatabaseId, wanted->relid);
		else
		{
			char *activity = psprintf("loading columns of %s", RelationGetRelationName(rel));

			pgstat_report_activity(STATE_RUNNING, activity);
			complete = gpuscan_load_columns(rel, &wanted->what);
			relation_close(rel, AccessShareLock);
		}
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	return complete;
}

/* The same; an error is reported, and leaves the relation out. */
static bool
try_to_load(const Wanted *wanted)
{
	volatile bool complete = true;

	PG_TRY();
	{
		complete = load_relation(wanted);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		ending |= geterrcode() == ERRCODE_QUERY_CANCELED;
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	return complete;
}

static bool
has_identity(List *identities, const uint8 *identity)
{
	ListCell *lc;

	foreach(lc, identities)
	{
		if (memcmp(lfirst(lc), identity, sizeof(((GpuScanExpression *) 0)->identity)) == 0)
			return true;
	}
	return false;
}

/*
 * Adds a column to those wanted, in the order in which relations come first: an attribute, or, if
 * that is 0, an expression.
 */
static List *
add_wanted(List *all, Oid relid, int attnum, const uint8 *identity, const char *device)
{
	Wanted *wanted = NULL;
	ListCell *lc;

	foreach(lc, all)
	{
		Wanted *other = lfirst(lc);

		if (other->relid == relid && strcmp(other->what.device, device) == 0)
			wanted = other;
	}
	if (wanted == NULL)
	{
		wanted = palloc0(sizeof(Wanted));
		wanted->relid = relid;
		wanted->what.device = pstrdup(device);
		wanted->what.stop = should_stop;
		all = lappend(all, wanted);
	}
	if (attnum != 0)
		wanted->what.attnums = list_append_unique_int(wanted->what.attnums, attnum);
	else if (!has_identity(wanted->what.identities, identity))
		wanted->what.identities = lappend(wanted->what.identities, (void *) identity);
	return all;
}

/* What the task is about, in this database. */
static List *
list_wanted(GpuScanWarmTask task)
{
	List *all = NIL;
	uint32 n;

	if (task == GPUSCAN_WARM_RESTORE)
	{
		const GpuScanCacheColumn *columns = gpuscan_cache_file_read(&n);

		for (uint32 i = 0; i < n; i++)
		{
			if (columns[i].database == MyDatabaseId)
				all = add_wanted(all, columns[i].relid, columns[i].attnum, columns[i].identity,
								 columns[i].device);
		}
	}
	else
	{
		const GpuScanCacheRow *rows = gpuscan_client_cache_rows(&n);
		GpuScanDeviceActivity device;

		for (uint32 i = 0; i < n; i++)
		{
			if (rows[i].database == MyDatabaseId && gpuscan_service_device(rows[i].device, &device))
				all = add_wanted(all, rows[i].relid, rows[i].attnum, rows[i].expression.identity,
								 device.device);
		}
	}
	return all;
}

static void
override(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

void
gpuscan_warm_worker_main(Datum arg)
{
	List *left;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	override("search_path", "");
	override("statement_timeout", "0");
	override("lock_timeout", "0");
	override("default_transaction_isolation", "read committed");
	override("gpuscan.cpu_threads", "1");

	MemoryContextSwitchTo(TopMemoryContext);
	left = list_wanted(MyBgworkerEntry->bgw_extra[0]);
	for (int round = 0; round < 2; round++)
	{
		List *again = NIL;
		ListCell *lc;

		foreach(lc, left)
		{
			if (ending)
				return;
			if (!try_to_load(lfirst(lc)))
				again = lappend(again, lfirst(lc));
			MemoryContextSwitchTo(TopMemoryContext);
		}
		left = again;
	}
}
