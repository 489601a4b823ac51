/*-------------------------------------------------------------------------
 *
 * failed.c
 *	  Expressions that have raised an error for a row in this session.
 *
 * Evaluating them again would end as it did, after all the rows before that one, and then
 * PostgreSQL's plan would run.  So the planner does not choose it again for some time,
 * unless something has happened to the relation by which what a session knows of it is
 * invalidated: DDL, TRUNCATE, VACUUM that finds other numbers of pages or rows.
 *
 * Which of a query's expressions it was is not known, so all of them together are remembered,
 * and only where a query reads one relation.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/table.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "planner/planner.h"
#include "program/identity.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#define NUM_FAILURES 64
#define MEMORY_MS (10 * 60 * 1000)

static struct
{
	Oid relid;
	uint64 expressions;
	TimestampTz when;
} failures[NUM_FAILURES];
static uint32 nfailures = 0; /* since the session began */

/* For relation caches' invalidation. */
static void
forget(Datum arg pg_attribute_unused(), Oid relid)
{
	for (int i = 0; i < NUM_FAILURES; i++)
	{
		if (!OidIsValid(relid) || failures[i].relid == relid)
			failures[i].relid = InvalidOid;
	}
}

static uint64
hash_expressions(Relation rel, List *expressions)
{
	uint64 hash = 0;
	ListCell *lc;

	foreach(lc, expressions)
	{
		GpuScanExpression expression;

		gpuscan_identity_set(rel, lfirst(lc), &expression);
		hash = hash_combine64(
			hash, hash_bytes_extended(expression.identity, sizeof(expression.identity), 0));
	}
	return hash;
}

/* Remembers that one of the relation's own expressions has failed. */
void
gpuscan_failed_remember(Relation rel, List *expressions)
{
	if (nfailures == 0)
		CacheRegisterRelcacheCallback(forget, (Datum) 0);
	failures[nfailures % NUM_FAILURES].expressions = hash_expressions(rel, expressions);
	failures[nfailures % NUM_FAILURES].when = GetCurrentStatementStartTimestamp();
	failures[nfailures % NUM_FAILURES].relid = RelationGetRelid(rel);
	nfailures++;
}

/* True if one of the expressions over the parent's columns of a relation has failed. */
bool
gpuscan_failed_before(Oid relid, Oid parent, List *expressions)
{
	Relation rel;
	Relation of;
	uint64 hash;

	if (nfailures == 0 || expressions == NIL)
		return false;
	/* the planner holds locks */
	rel = table_open(relid, NoLock);
	of = table_open(parent, NoLock);
	hash = hash_expressions(rel, gpuscan_identity_own(rel, of, expressions));
	table_close(of, NoLock);
	table_close(rel, NoLock);
	for (int i = 0; i < NUM_FAILURES; i++)
	{
		if (failures[i].relid == relid && failures[i].expressions == hash &&
			!TimestampDifferenceExceeds(failures[i].when, GetCurrentStatementStartTimestamp(),
										MEMORY_MS))
			return true;
	}
	return false;
}
