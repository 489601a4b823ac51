/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings, in the order of docs/settings.md.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include <float.h>
#include <limits.h>

#include "service/devices.h"
#include "service/fault.h"
#include "utils/guc.h"

bool gpuscan_enabled = true;
bool gpuscan_force = false;
bool gpuscan_explain_rejected = false;
char *gpuscan_device = NULL;
int gpuscan_device_memory_limit = 0;
int gpuscan_device_cache_size = -1;
int gpuscan_max_device_failures = 3;
int gpuscan_kernel_cache_size = 256;
int gpuscan_cpu_threads = 0;
int gpuscan_cpu_memory_limit = 4096;
int gpuscan_cpu_cache_size = 1024;
int gpuscan_cache_refresh_interval = 60;
int gpuscan_query_memory_limit = 2048;
int gpuscan_max_requests = 256;
double gpuscan_request_cost = 100;
double gpuscan_tuple_cost = 0.001;
double gpuscan_operator_cost = 0.0002;
char *gpuscan_inject_fault = NULL;

static bool
check_device(char **newval, void **extra pg_attribute_unused(),
			 GucSource source pg_attribute_unused())
{
	GpuScanDeviceList list;
	const char *error;

	if (gpuscan_devices_parse(*newval, &list, &error))
		return true;
	GUC_check_errdetail("%s", error);
	GUC_check_errhint("Use \"auto\", or a list of \"cpu\", \"cuda\" and \"cuda:N\", such as "
					  "\"cuda:0, cuda:1\".");
	return false;
}

static bool
check_inject_fault(char **newval, void **extra pg_attribute_unused(),
				   GucSource source pg_attribute_unused())
{
	if (**newval == '\0' || gpuscan_fault_is_valid(*newval))
		return true;
	GUC_check_errdetail(
		"A fault is \"service-exit\", \"device-error\" or \"device-lost\", a colon and a point of "
		"a "
		"request, such as \"service-exit:push\", and may end in a colon and a count; or it is "
		"\"wait:load\" or \"wait:close\".");
	return false;
}

void
gpuscan_define_settings(void)
{
	DefineCustomBoolVariable("gpuscan.enabled", "Lets the planner offload scans and aggregates.",
							 "Turn it off to compare with PostgreSQL's own plans.",
							 &gpuscan_enabled, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("gpuscan.force",
							 "Offloads everything that can be offloaded, whatever it costs.",
							 "For tests. Plans are usually slower with it on small tables.",
							 &gpuscan_force, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("gpuscan.explain_rejected",
							 "Makes EXPLAIN say why a scan or an aggregation was not offloaded.",
							 NULL, &gpuscan_explain_rejected, false, PGC_USERSET, 0, NULL, NULL,
							 NULL);
	DefineCustomStringVariable(
		"gpuscan.device", "Sets the devices that run what is offloaded.",
		"\"auto\" is every CUDA device, or the cpu device where there is none. Requests go to the "
		"device of the list that has the fewest.",
		&gpuscan_device, "auto", PGC_POSTMASTER, GUC_LIST_INPUT, check_device, NULL, NULL);
	DefineCustomIntVariable("gpuscan.device_memory_limit",
							"Sets the memory that all running queries may use on one CUDA device.",
							"0 means 80 percent of the device's memory.",
							&gpuscan_device_memory_limit, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable(
		"gpuscan.device_cache_size",
		"Sets the memory for columns that one CUDA device keeps between queries.",
		"-1 means half of gpuscan.device_memory_limit; 0 keeps columns in the host's memory alone. "
		"Raise it where gpuscan_cache shows columns in the host's memory.",
		&gpuscan_device_cache_size, -1, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("gpuscan.max_device_failures",
							"Sets after how many failures in a row a CUDA device is left alone.",
							"It is used again after a restart of the server.",
							&gpuscan_max_device_failures, 3, 1, INT_MAX, PGC_SIGHUP, 0, NULL, NULL,
							NULL);
	DefineCustomIntVariable(
		"gpuscan.kernel_cache_size",
		"Sets the disk space for compiled kernels, in gpuscan_kernels under the data directory.",
		"0 keeps none, so that each shape of query is compiled again after a restart.",
		&gpuscan_kernel_cache_size, 256, 0, INT_MAX, PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("gpuscan.cpu_threads",
							"Sets how many threads of the cpu device may work on one query.",
							"0 means every core. Lower it to leave cores to other sessions.",
							&gpuscan_cpu_threads, 0, 0, 1024, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gpuscan.cpu_memory_limit",
							"Sets the memory that all running queries may use on the cpu device.",
							"Raise it if many large groupings run at once and EXPLAIN ANALYZE "
							"shows their replaced plans.",
							&gpuscan_cpu_memory_limit, 4096, 64, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("gpuscan.cpu_cache_size",
							"Sets the host's memory for columns that devices keep between queries.",
							"0 keeps none there, and turns the cache of the cpu device off. Raise "
							"it until gpuscan_cache "
							"shows the columns that queries read. What GPUs have of it is pinned.",
							&gpuscan_cpu_cache_size, 1024, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable(
		"gpuscan.cache_refresh_interval",
		"Sets how often columns that have changed are loaded into the cache in the background.",
		"0 loads nothing in the background, neither then nor after a restart.",
		&gpuscan_cache_refresh_interval, 60, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL,
		NULL);
	DefineCustomIntVariable(
		"gpuscan.query_memory_limit", "Sets the memory that one query may use on a device.",
		"A query that needs more runs PostgreSQL's own plan.", &gpuscan_query_memory_limit, 2048, 1,
		INT_MAX, PGC_SUSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("gpuscan.max_requests",
							"Sets how many offloaded plan nodes may run at once in all sessions.",
							"A node that finds no free place runs PostgreSQL's own plan.",
							&gpuscan_max_requests, 256, 1, 65536, PGC_POSTMASTER, 0, NULL, NULL,
							NULL);
	DefineCustomRealVariable(
		"gpuscan.request_cost",
		"Sets the planner's estimate of the cost of starting an offloaded plan node.",
		"Raise it if small tables are offloaded and should not be.", &gpuscan_request_cost, 100, 0,
		DBL_MAX, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomRealVariable(
		"gpuscan.tuple_cost",
		"Sets the planner's estimate of the cost of reading a tuple on a device.",
		"Compare it with cpu_tuple_cost.", &gpuscan_tuple_cost, 0.001, 0, DBL_MAX, PGC_USERSET,
		GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomRealVariable("gpuscan.operator_cost",
							 "Sets the planner's estimate of the cost of an operation on a device.",
							 "Compare it with cpu_operator_cost.", &gpuscan_operator_cost, 0.0002,
							 0, DBL_MAX, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomStringVariable("gpuscan.inject_fault", "Makes a request fail at a given point.",
							   "For tests.", &gpuscan_inject_fault, "", PGC_SUSET,
							   GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, check_inject_fault, NULL, NULL);
	MarkGUCPrefixReserved("gpuscan");
}
