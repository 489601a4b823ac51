/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Differences between PostgreSQL's major versions, all of them here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COMPAT_H
#define GPUSCAN_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "gpuscan needs PostgreSQL 15"
#endif

#endif /* GPUSCAN_COMPAT_H */
