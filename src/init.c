/*-------------------------------------------------------------------------
 *
 * init.c
 *	  Loading: settings, hooks, shared memory and the service.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "compat.h"
#include "executor/nodes.h"
#include "fmgr.h"
#include "heap/heap.h"
#include "miscadmin.h"
#include "planner/planner.h"
#include "service/service.h"
#include "warm/warm.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("gpuscan must be loaded when the server starts"),
				 errdetail("It needs shared memory and a background worker, which only the start "
						   "of the server can give it."),
				 errhint("Add \"gpuscan\" to shared_preload_libraries and restart the server.")));

	gpuscan_define_settings();
	gpuscan_service_register();
	gpuscan_warm_register();
	gpuscan_heap_register_labels();
	gpuscan_nodes_register();
	gpuscan_planner_install();
	gpuscan_explain_install();
}
