/*-------------------------------------------------------------------------
 *
 * load.h
 *	  Loading columns into the cache with no query that needs them, or ahead of a scan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_LOAD_H
#define GPUSCAN_LOAD_H

#include "gpuscan.h"

#include "executor/nodes.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

/* What to load of a relation */
typedef struct GpuScanLoad
{
	List *attnums;	  /* integers */
	List *identities; /* of expressions, const uint8 * */
	const char *device;
	bool (*stop)(Relation rel); /* asked after each range: true ends it */
} GpuScanLoad;

/*
 * Loads what is missing of a relation's columns, on the device while there is room, and reads
 * nothing else; under the active snapshot.  On another device, if none of that name serves.
 * False if it was stopped.  Where there is nothing to
 * load, or it fails, it leaves that to the next query.
 */
extern bool gpuscan_load_columns(Relation rel, const GpuScanLoad *what);

/*
 * Loads what is missing of the columns that a scan's filter was compiled to, expressions
 * among them, and that the cache wants to have now.
 */
extern void gpuscan_load_expressions(GpuScanNodeState *node, const GpuScanCompileInput *filter,
									 const GpuScanCompiled *compiled);

#endif /* GPUSCAN_LOAD_H */
