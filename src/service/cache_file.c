/*-------------------------------------------------------------------------
 *
 * cache_file.c
 *	  Which columns were cached, on disk, so that they can be loaded after a
 *	  restart: the file gpuscan_columns in the data directory.
 *
 *		gpuscan columns, version 2, of system 7561234567890123456
 *		3 columns
 *		16384,16390,1,cuda:0
 *		...
 *
 * A line for each column: its database, relation and attribute, and the device that
 * has it, those of pinned tables first, then those used last.  No data is kept, and no
 * expressions.
 *
 * The service writes it when the server shuts down, another process (warm/launcher.c)
 * now and then; each to a temporary name of its own, which is then renamed.  A failure
 * to write costs no more than a line in the log.  What is read is only
 * a proposal: whoever loads a column looks whether there is one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "lib/stringinfo.h"
#include "service/cache_file.h"
#include "service/shmem.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#define FILE_NAME "gpuscan_columns"
#define HEADER "gpuscan columns, version 2, of system " UINT64_FORMAT "\n%u columns\n"
#define MAX_FILE_SIZE (128 + GPUSCAN_CACHE_MAX_ROWS * 56)

static char *written = NULL; /* by this process, the last time */

static int
compare_rows(const void *a, const void *b)
{
	const GpuScanCacheRow *x = a;
	const GpuScanCacheRow *y = b;

	if (x->pinned != y->pinned)
		return x->pinned ? -1 : 1;
	if (x->used != y->used)
		return x->used > y->used ? -1 : 1;
	if (x->relid != y->relid)
		return x->relid < y->relid ? -1 : 1;
	return x->attnum != y->attnum ? x->attnum - y->attnum : (int) x->device - (int) y->device;
}

/* False with errno. */
static bool
write_text(const char *path, const char *text, size_t len)
{
	int fd = OpenTransientFile(path, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	bool ok;

	if (fd < 0)
		return false;
	errno = 0;
	ok = write(fd, text, len) == (ssize_t) len && pg_fsync(fd) == 0;
	if (!ok && errno == 0)
		errno = ENOSPC;
	return CloseTransientFile(fd) == 0 && ok;
}

void
gpuscan_cache_file_write(const GpuScanCacheRow *rows, uint32 nrows, const char *temporary)
{
	GpuScanCacheRow *sorted = palloc(Max(nrows, 1) * sizeof(GpuScanCacheRow));
	uint32 n = 0;
	StringInfoData text;

	for (uint32 i = 0; i < nrows; i++)
	{
		if (rows[i].attnum != 0)
			sorted[n++] = rows[i];
	}
	qsort(sorted, n, sizeof(GpuScanCacheRow), compare_rows);
	initStringInfo(&text);
	appendStringInfo(&text, HEADER, GetSystemIdentifier(), n);
	for (uint32 i = 0; i < n; i++)
		appendStringInfo(&text, "%u,%u,%d,%s\n", sorted[i].database, sorted[i].relid,
						 sorted[i].attnum, gpuscan_shared->devices[sorted[i].device].name);

	if (written == NULL || strcmp(written, text.data) != 0)
	{
		if (!write_text(temporary, text.data, text.len))
		{
			ereport(LOG, (errcode_for_file_access(),
						  errmsg("could not write file \"%s\": %m", temporary)));
			(void) unlink(temporary);
		}
		else if (durable_rename(temporary, FILE_NAME, LOG) == 0)
		{
			if (written != NULL)
				pfree(written);
			written = MemoryContextStrdup(TopMemoryContext, text.data);
		}
	}
	pfree(text.data);
	pfree(sorted);
}

/* The file's bytes, palloc'd; NULL if there is none. */
static char *
read_text(void)
{
	FILE *file = AllocateFile(FILE_NAME, PG_BINARY_R);
	char *text;
	size_t len;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG, (errcode_for_file_access(),
						  errmsg("could not open file \"%s\": %m", FILE_NAME)));
		return NULL;
	}
	text = palloc(MAX_FILE_SIZE + 1);
	len = fread(text, 1, MAX_FILE_SIZE, file);
	text[len] = '\0';
	FreeFile(file);
	return text;
}

/* False if the text is not what we write. */
static bool
parse(const char *text, GpuScanCacheColumn *columns, uint32 *n)
{
	uint64 system;
	uint32 expected;
	int len = -1;

	*n = 0;
	if (sscanf(text, HEADER "%n", &system, &expected, &len) != 2 || len < 0 ||
		system != GetSystemIdentifier() || expected > GPUSCAN_CACHE_MAX_ROWS)
		return false;
	while (*n < expected)
	{
		GpuScanCacheColumn *column = &columns[*n];

		text += len;
		len = -1;
		if (sscanf(text, "%u,%u,%d,%15[^\n]\n%n", &column->database, &column->relid,
				   &column->attnum, column->device, &len) != 4 ||
			len < 0)
			return false;
		(*n)++;
	}
	return text[len] == '\0';
}

GpuScanCacheColumn *
gpuscan_cache_file_read(uint32 *n)
{
	GpuScanCacheColumn *columns = palloc(GPUSCAN_CACHE_MAX_ROWS * sizeof(GpuScanCacheColumn));
	char *text = read_text();

	*n = 0;
	if (text != NULL && !parse(text, columns, n))
	{
		*n = 0;
		ereport(LOG, (errmsg("ignoring file \"%s\"", FILE_NAME),
					  errdetail("It is not whole, or not of this server."),
					  errhint("Columns are cached again as queries read them.")));
	}
	if (text != NULL)
		pfree(text);
	return columns;
}
