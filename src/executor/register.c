/*-------------------------------------------------------------------------
 *
 * register.c
 *	  Makes our plan nodes known, so that plans can be copied and read back.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/nodes.h"

void
gpuscan_nodes_register(void)
{
	RegisterCustomScanMethods(&gpuscan_scan_methods);
	RegisterCustomScanMethods(&gpuscan_agg_methods);
}
