/*-------------------------------------------------------------------------
 *
 * cache.c
 *	  The functions gpuscan_cache(), gpuscan_evict() and gpuscan_prewarm().
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "service/client.h"
#include "service/service.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* PG_FUNCTION_INFO_V1 of PostgreSQL 15 does not export the function itself */
extern PGDLLEXPORT Datum gpuscan_cache(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum gpuscan_evict(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum gpuscan_prewarm(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(gpuscan_cache);
PG_FUNCTION_INFO_V1(gpuscan_evict);
PG_FUNCTION_INFO_V1(gpuscan_prewarm);

static const char *const encodings[] = {
	[GPUSCAN_ENCODING_CONSTANT] = "constant",
	[GPUSCAN_ENCODING_PACKED] = "packed",
	[GPUSCAN_ENCODING_RAW] = "raw",
	[GPUSCAN_ENCODING_CODES] = "codes",
};

/* The encodings that a column's ranges have, the most frequent one first. */
static char *
list_encodings(const GpuScanCacheRow *row)
{
	StringInfoData text;
	bool listed[lengthof(encodings)] = {0};

	initStringInfo(&text);
	for (;;)
	{
		int next = -1;

		for (int i = 0; i < (int) lengthof(encodings); i++)
		{
			if (!listed[i] && row->ranges[i] > 0 &&
				(next < 0 || row->ranges[i] > row->ranges[next]))
				next = i;
		}
		if (next < 0)
			return text.data;
		listed[next] = true;
		appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "", encodings[next]);
	}
}

/* One row for each cached column of any database, on each device. */
Datum
gpuscan_cache(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32 n;
	const GpuScanCacheRow *rows = gpuscan_client_cache_rows(&n);
	GpuScanDeviceActivity device;

	InitMaterializedSRF(fcinfo, 0);
	for (uint32 i = 0; i < n; i++)
	{
		Datum values[10];
		bool isnull[10] = {0};

		values[0] = ObjectIdGetDatum(rows[i].database);
		values[1] = ObjectIdGetDatum(rows[i].relid);
		isnull[2] = rows[i].attnum == 0;
		values[2] = Int16GetDatum(rows[i].attnum);
		values[3] = CStringGetTextDatum(list_encodings(&rows[i]));
		values[4] = Int64GetDatum(rows[i].blocks);
		isnull[5] = !gpuscan_service_device(rows[i].device, &device);
		values[5] = isnull[5] ? (Datum) 0 : CStringGetTextDatum(device.device);
		isnull[6] = isnull[5] || !device.is_cuda;
		values[6] = Int64GetDatum(rows[i].device_bytes);
		values[7] = Int64GetDatum(rows[i].host_bytes);
		values[8] = Int64GetDatum(rows[i].hits);
		isnull[9] = !isnull[2] || rows[i].database != MyDatabaseId;
		values[9] = isnull[9] ? (Datum) 0 : CStringGetTextDatum(rows[i].expression.text);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
	}
	return (Datum) 0;
}

/* Drops the relation's columns, and its partitions'; returns the bytes. */
Datum
gpuscan_evict(PG_FUNCTION_ARGS)
{
	List *relids = find_all_inheritors(PG_GETARG_OID(0), NoLock, NULL);
	uint64 bytes = 0;
	ListCell *lc;

	foreach(lc, relids)
		bytes += gpuscan_client_cache_evict(MyDatabaseId, lfirst_oid(lc));
	PG_RETURN_INT64(bytes);
}

/* Has a query of ours read some columns, given as ", count(column)" each; returns the rows. */
static int64
read_columns(Oid relid, const char *counts)
{
	StringInfoData query;
	bool isnull;

	initStringInfo(&query);
	appendStringInfo(&query, "SELECT pg_catalog.count(*)%s FROM %s", counts,
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
												get_rel_name(relid)));
	if (SPI_execute(query.data, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/*
 * Reads all columns, one after the other, since one that we do not read ourselves
 * would take the others with it.
 */
static int64
read_all_columns(Oid relid)
{
	Relation rel = relation_open(relid, AccessShareLock);
	TupleDesc desc = RelationGetDescr(rel);
	int64 rows = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			rows = read_columns(
				relid, psprintf(", pg_catalog.count(%s)", quote_identifier(NameStr(att->attname))));
	}
	relation_close(rel, NoLock);
	return rows;
}

static int64
read_named_columns(Oid relid, ArrayType *columns)
{
	StringInfoData counts;
	Datum *names;
	bool *nulls;
	int n;

	initStringInfo(&counts);
	deconstruct_array(columns, TEXTOID, -1, false, TYPALIGN_INT, &names, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("name of a column must not be null")));
		appendStringInfo(&counts, ", pg_catalog.count(%s)",
						 quote_identifier(TextDatumGetCString(names[i])));
	}
	return read_columns(relid, counts.data);
}

/* Fills the cache with columns of a relation; returns its rows. */
Datum
gpuscan_prewarm(PG_FUNCTION_ARGS)
{
	Oid relid;
	int level;
	int64 rows;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	relid = PG_GETARG_OID(0);
	if (get_rel_name(relid) == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relid)));

	level = NewGUCNestLevel();
	(void) set_config_option("gpuscan.enabled", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	(void) set_config_option("gpuscan.force", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	rows = PG_ARGISNULL(1) ? read_all_columns(relid)
						   : read_named_columns(relid, PG_GETARG_ARRAYTYPE_P(1));
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	AtEOXact_GUC(false, level);
	PG_RETURN_INT64(rows);
}
