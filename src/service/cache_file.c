/*-------------------------------------------------------------------------
 *
 * cache_file.c
 *	  Which columns were cached, on disk, so that they can be loaded after a
 *	  restart: the file gpuscan_columns in the data directory.
 *
 *		gpuscan columns, version 3, of system 7561234567890123456
 *		3 columns
 *		16384,16390,1,cuda:0
 *		...
 *
 * A line for each column: its database, relation and attribute, and the device that
 * has it, those of pinned tables first, then those used last.  No data is kept.  Instead of
 * an attribute there may be an expression's identity, whose file says what it is
 * (program/expression_file.c).
 *
 * The service writes it when the server shuts down, another process (warm/launcher.c)
 * now and then; each to a temporary name of its own, which is then renamed.  A failure
 * to write costs no more than a line in the log.  What is read is only
 * a proposal: whoever loads a column looks whether there is one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "lib/stringinfo.h"
#include "program/expression_file.h"
#include "service/cache_file.h"
#include "service/shmem.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define FILE_NAME "gpuscan_columns"
#define HEADER "gpuscan columns, version 3, of system " UINT64_FORMAT "\n%u columns\n"
#define MAX_FILE_SIZE (128 + GPUSCAN_CACHE_MAX_ROWS * 112)

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
	if (x->attnum != y->attnum)
		return x->attnum - y->attnum;
	if (x->device != y->device)
		return (int) x->device - (int) y->device;
	return memcmp(x->expression.identity, y->expression.identity, sizeof(x->expression.identity));
}

/* Room for what names a column of a relation */
typedef char ColumnText[GPUSCAN_IDENTITY_DIGITS + 1];

static const char *
name_column(const GpuScanCacheRow *row, ColumnText text)
{
	const uint8 *identity = row->expression.identity;

	if (row->attnum != 0)
		snprintf(text, sizeof(ColumnText), "%d", row->attnum);
	else
		text[hex_encode((const char *) identity, sizeof(row->expression.identity), text)] = '\0';
	return text;
}

/* False if it is not one. */
static bool
parse_column(const ColumnText text, GpuScanCacheColumn *column)
{
	bool is_expression = strlen(text) == GPUSCAN_IDENTITY_DIGITS;

	column->attnum = is_expression ? 0 : atoi(text);
	memset(column->identity, 0, sizeof(column->identity));
	if (is_expression && strspn(text, "0123456789abcdef") == GPUSCAN_IDENTITY_DIGITS)
		hex_decode(text, GPUSCAN_IDENTITY_DIGITS, (char *) column->identity);
	return is_expression || column->attnum != 0;
}

void
gpuscan_cache_file_write(const GpuScanCacheRow *rows, uint32 nrows, const char *temporary)
{
	GpuScanCacheRow *sorted = palloc(Max(nrows, 1) * sizeof(GpuScanCacheRow));
	StringInfoData text;

	memcpy(sorted, rows, nrows * sizeof(GpuScanCacheRow));
	qsort(sorted, nrows, sizeof(GpuScanCacheRow), compare_rows);
	initStringInfo(&text);
	appendStringInfo(&text, HEADER, GetSystemIdentifier(), nrows);
	for (uint32 i = 0; i < nrows; i++)
	{
		ColumnText column;

		appendStringInfo(&text, "%u,%u,%s,%s\n", sorted[i].database, sorted[i].relid,
						 name_column(&sorted[i], column),
						 gpuscan_shared->devices[sorted[i].device].name);
	}

	if (written == NULL || strcmp(written, text.data) != 0)
	{
		if (!gpuscan_write_text(temporary, &text, true))
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
		ColumnText name;

		text += len;
		len = -1;
		if (sscanf(text, "%u,%u,%64[^,\n],%15[^\n]\n%n", &column->database, &column->relid, name,
				   column->device, &len) != 4 ||
			len < 0 || !parse_column(name, column))
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
