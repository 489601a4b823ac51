/*-------------------------------------------------------------------------
 *
 * load.h
 *	  Loading columns into the cache with no query that needs them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_LOAD_H
#define GPUSCAN_LOAD_H

#include "gpuscan.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

/*
 * Loads what is missing of a relation's attributes, given as an integer list, on a device
 * while there is room, and reads nothing else; under the active snapshot.  On another
 * device, if none of that name serves.  Asks `stop`
 * after each range: true ends it.  False if it was stopped.  Where there is nothing to
 * load, or it fails, it leaves that to the next query.
 */
extern bool
gpuscan_load_columns(Relation rel, List *attnums, const char *device, bool (*stop)(Relation rel));

#endif /* GPUSCAN_LOAD_H */
