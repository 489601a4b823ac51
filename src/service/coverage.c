/*-------------------------------------------------------------------------
 *
 * coverage.c
 *	  How much of a column is cached, for planners: a small hash table in shared
 *	  memory.
 *
 * The service's main thread counts the ranges that come and go; anybody reads.
 * There is no lock: a key is one atomic word and so is its count, and whoever reads
 * one of each that do not belong together makes a plan that costs more than
 * it could.  For the same reason a column that finds no place is left out, and two that
 * have the same key are one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "service/cache_impl.h"
#include "service/client.h"
#include "service/shmem.h"

/* Places where a key may be */
#define PROBES 8

static uint64
make_key(Oid database, Oid relid, int number)
{
	return (uint64) relid << 32 | hash_combine(murmurhash32(database), murmurhash32(number));
}

static GpuScanCoverage *
place(uint64 key, int probe)
{
	uint32 hash = murmurhash32((uint32) (key >> 32) ^ (uint32) key);

	return &gpuscan_shared->coverage[(hash + probe) % GPUSCAN_COVERAGE_PLACES];
}

static GpuScanCoverage *
find(uint64 key)
{
	for (int i = 0; i < PROBES; i++)
	{
		if (pg_atomic_read_u64(&place(key, i)->key) == key)
			return place(key, i);
	}
	return NULL;
}

/* A place that counts nothing, now the key's */
static GpuScanCoverage *
occupy(uint64 key)
{
	for (int i = 0; i < PROBES; i++)
	{
		if (pg_atomic_read_u32(&place(key, i)->ranges) == 0)
		{
			pg_atomic_write_u64(&place(key, i)->key, key);
			return place(key, i);
		}
	}
	return NULL;
}

void
gpuscan_cache_clear_coverage(void)
{
	for (int i = 0; i < GPUSCAN_COVERAGE_PLACES; i++)
		pg_atomic_write_u32(&gpuscan_shared->coverage[i].ranges, 0);
}

void
gpuscan_cache_count_range(const Table *table, int number, int change)
{
	uint64 key = make_key(table->key.name.node.dbNode, table->key.name.relid, number);
	GpuScanCoverage *coverage = find(key);

	if (coverage == NULL && change > 0)
		coverage = occupy(key);
	if (coverage != NULL && (change > 0 || pg_atomic_read_u32(&coverage->ranges) > 0))
		pg_atomic_write_u32(&coverage->ranges, pg_atomic_read_u32(&coverage->ranges) + change);
}

double
gpuscan_client_cached_pages(Oid relid, int number)
{
	GpuScanCoverage *coverage;
	int ndevices = 0;

	if (gpuscan_shared == NULL || pg_atomic_read_u32(&gpuscan_shared->running) == 0)
		return 0;
	for (uint32 i = 0; i < pg_atomic_read_u32(&gpuscan_shared->ndevices); i++)
		ndevices += pg_atomic_read_u32(&gpuscan_shared->devices[i].state) == GPUSCAN_DEVICE_RUNNING;
	coverage = find(make_key(MyDatabaseId, relid, number));
	if (coverage == NULL || ndevices == 0)
		return 0;

	/* each device has columns of its own, and any may get the query */
	return (double) pg_atomic_read_u32(&coverage->ranges) * GPUSCAN_RANGE_BLOCKS / ndevices;
}
