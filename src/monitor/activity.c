/*-------------------------------------------------------------------------
 *
 * activity.c
 *	  The functions behind the views.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "fmgr.h"
#include "funcapi.h"
#include "service/service.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* PG_FUNCTION_INFO_V1 of PostgreSQL 15 does not export the function itself */
extern PGDLLEXPORT Datum gpuscan_activity(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum gpuscan_devices(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum gpuscan_service(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(gpuscan_activity);
PG_FUNCTION_INFO_V1(gpuscan_devices);
PG_FUNCTION_INFO_V1(gpuscan_service);

/* One row for each request in use. */
Datum
gpuscan_activity(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GpuScanActivity *requests = palloc(gpuscan_max_requests * sizeof(GpuScanActivity));
	int n = gpuscan_service_activity(requests, gpuscan_max_requests);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
	{
		Datum values[10];
		bool isnull[10] = {0};

		values[0] = Int32GetDatum(requests[i].pid);
		values[1] = CStringGetTextDatum(requests[i].state);
		isnull[2] = requests[i].device == NULL;
		if (!isnull[2])
			values[2] = CStringGetTextDatum(requests[i].device);
		values[3] = Int64GetDatum(requests[i].tuples);
		values[4] = Int64GetDatum((int64) requests[i].memory_mb * 1024 * 1024);
		values[5] = TimestampTzGetDatum(requests[i].opened);
		values[6] = ObjectIdGetDatum(requests[i].database);
		isnull[7] = requests[i].relid == InvalidOid;
		values[7] = ObjectIdGetDatum(requests[i].relid);
		values[8] = Int64GetDatum((int64) requests[i].blocks_done);
		isnull[9] = requests[i].blocks_total == 0;
		values[9] = Int64GetDatum((int64) requests[i].blocks_total);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
	}
	return (Datum) 0;
}

/* One row for each device that was opened since the server's start. */
Datum
gpuscan_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GpuScanDeviceActivity device;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; gpuscan_service_device(i, &device); i++)
	{
		Datum values[12];
		bool isnull[12] = {0};

		values[0] = CStringGetTextDatum(device.device);
		isnull[1] = device.model[0] == '\0';
		values[1] = CStringGetTextDatum(device.model);
		values[2] = CStringGetTextDatum(device.state);
		values[3] = Int64GetDatum((int64) device.memory_total);
		values[4] = Int64GetDatum((int64) device.memory_limit);
		values[5] = Int64GetDatum((int64) device.memory_used);
		isnull[6] = isnull[7] = !device.is_cuda;
		values[6] = Int64GetDatum((int64) device.cache_limit);
		values[7] = Int64GetDatum((int64) device.cache_used);
		values[8] = Int64GetDatum((int64) device.host_cache_used);
		values[9] = Int32GetDatum((int32) device.running);
		values[10] = Int64GetDatum((int64) device.served);
		values[11] = Int64GetDatum(device.failures);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
	}
	return (Datum) 0;
}

/* The service's pid, NULL if none runs, and how often it was started. */
Datum
gpuscan_service(PG_FUNCTION_ARGS)
{
	TupleDesc tupdesc;
	Datum values[2];
	bool isnull[2] = {0};
	uint32 starts;
	int pid = gpuscan_service_pid(&starts);

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	isnull[0] = pid == 0;
	values[0] = Int32GetDatum(pid);
	values[1] = Int64GetDatum(starts);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, isnull));
}
