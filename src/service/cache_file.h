/*-------------------------------------------------------------------------
 *
 * cache_file.h
 *	  Which columns were cached, on disk; see cache_file.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CACHE_FILE_H
#define GPUSCAN_CACHE_FILE_H

#include "gpuscan.h"

#include "service/cache_message.h"

typedef struct GpuScanCacheColumn
{
	Oid database;
	Oid relid;
	int attnum; /* 0: it is an expression */
	uint8 identity[sizeof(((GpuScanExpression *) 0)->identity)];
	char device[16]; /* its name */
} GpuScanCacheColumn;

/*
 * Remembers columns, by way of a temporary file of the caller's own, unless this
 * process has written the same before.
 */
extern void
gpuscan_cache_file_write(const GpuScanCacheRow *rows, uint32 nrows, const char *temporary);

/* What is remembered, palloc'd, the most wanted first; *n is 0 without a file, or with one that is not ours. */
extern GpuScanCacheColumn *gpuscan_cache_file_read(uint32 *n);

#endif /* GPUSCAN_CACHE_FILE_H */
