/*-------------------------------------------------------------------------
 *
 * expression_file.c
 *	  Expressions that are cached columns, on disk, for processes that load columns with no
 *	  query: the folder gpuscan_expressions in the data directory.
 *
 * A file has the text of which the identity is the hash (identity.c), and the identity's digits
 * for a name.  So it says by itself whether it is whole, before anything of it is looked
 * at; no file is ever changed, and relations and partitions of one shape have one in common.
 *
 * A session writes the file when a request with the expression has ended well, and touches it
 * whenever another has; under a temporary name, without waiting for the disk: a crash may leave a file
 * that is not whole, which its first reader removes.  The launcher removes those
 * of no cached column (warm/launcher.c), a while after they were touched last, for what it knows of the
 * cache may be older.
 *
 * A failure to write costs no more than a line in the log.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "common/file_perm.h"
#include "miscadmin.h"
#include "program/expression_file.h"
#include "program/identity.h"
#include "storage/fd.h"
#include "utils/builtins.h"

#define FOLDER "gpuscan_expressions"
#define MAX_FILES 10000
#define MAX_FILE_SIZE 65536

/* Seconds for which a file stays that no cached column needs */
#define MIN_AGE 600

#define IDENTITY_SIZE sizeof(((GpuScanExpression *) 0)->identity)

static void
make_path(const uint8 *identity, char *path)
{
	strcpy(path, FOLDER "/");
	path += strlen(path);
	path[hex_encode((const char *) identity, IDENTITY_SIZE, path)] = '\0';
}

static int
count_files(void)
{
	DIR *dir = AllocateDir(FOLDER);
	int n = 0;

	while (ReadDirExtended(dir, FOLDER, LOG) != NULL)
		n++;
	FreeDir(dir);
	return n;
}

bool
gpuscan_write_text(const char *path, const StringInfoData *text, bool sync)
{
	int fd = OpenTransientFile(path, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	bool ok;

	if (fd < 0)
		return false;
	errno = 0;
	ok = write(fd, text->data, text->len) == text->len && (!sync || pg_fsync(fd) == 0);
	if (!ok && errno == 0)
		errno = ENOSPC;
	return CloseTransientFile(fd) == 0 && ok;
}

void
gpuscan_expression_file_keep(Relation rel, Expr *expr, const uint8 *identity)
{
	char path[MAXPGPATH];
	char temporary[MAXPGPATH];
	StringInfoData text;

	make_path(identity, path);
	if (utime(path, NULL) == 0 || errno != ENOENT)
		return;
	(void) MakePGDirectory(FOLDER);
	if (count_files() >= MAX_FILES)
		return;
	initStringInfo(&text);
	gpuscan_identity_write(rel, expr, &text);
	snprintf(temporary, sizeof(temporary), "%s.%d", path, MyProcPid);
	if (text.len <= MAX_FILE_SIZE &&
		(!gpuscan_write_text(temporary, &text, false) || rename(temporary, path) != 0))
	{
		ereport(LOG,
				(errcode_for_file_access(), errmsg("could not write file \"%s\": %m", temporary)));
		(void) unlink(temporary);
	}
	pfree(text.data);
}

/* The file's bytes; false if it is not there. */
static bool
read_text(const char *path, StringInfo text)
{
	FILE *file = AllocateFile(path, PG_BINARY_R);

	if (file == NULL)
		return false;
	initStringInfo(text);
	enlargeStringInfo(text, MAX_FILE_SIZE + 1);
	text->len = fread(text->data, 1, MAX_FILE_SIZE + 1, file);
	text->data[text->len] = '\0';
	FreeFile(file);
	return true;
}

Expr *
gpuscan_expression_file_read(Relation rel, const uint8 *identity)
{
	char path[MAXPGPATH];
	uint8 hash[IDENTITY_SIZE];
	StringInfoData text;

	make_path(identity, path);
	if (!read_text(path, &text))
		return NULL;
	gpuscan_identity_hash(&text, hash);
	if (memcmp(hash, identity, IDENTITY_SIZE) == 0)
		return gpuscan_identity_read(rel, &text);
	ereport(LOG, (errmsg("removing file \"%s\"", path),
				  errdetail("It is not whole, or has been changed."),
				  errhint("The expression is cached again as queries need it.")));
	(void) unlink(path);
	return NULL;
}

static int
compare_identities(const void *a, const void *b)
{
	return memcmp(a, b, IDENTITY_SIZE);
}

/* True if the file's name is one of n identities, in order. */
static bool
is_wanted(const char *name, const uint8 *identities, uint32 n)
{
	uint8 identity[IDENTITY_SIZE];

	if (strlen(name) != GPUSCAN_IDENTITY_DIGITS ||
		strspn(name, "0123456789abcdef") != GPUSCAN_IDENTITY_DIGITS)
		return false;
	hex_decode(name, GPUSCAN_IDENTITY_DIGITS, (char *) identity);
	return n > 0 && bsearch(identity, identities, n, IDENTITY_SIZE, compare_identities) != NULL;
}

void
gpuscan_expression_file_sweep(uint8 *identities, uint32 n)
{
	time_t latest = time(NULL) - MIN_AGE;
	DIR *dir = AllocateDir(FOLDER);
	struct dirent *entry;

	if (dir == NULL)
		return;
	qsort(identities, n, IDENTITY_SIZE, compare_identities);
	while ((entry = ReadDirExtended(dir, FOLDER, LOG)) != NULL)
	{
		char path[MAXPGPATH * 2];
		struct stat status;

		CHECK_FOR_INTERRUPTS();
		snprintf(path, sizeof(path), FOLDER "/%s", entry->d_name);
		if (!is_wanted(entry->d_name, identities, n) && lstat(path, &status) == 0 &&
			S_ISREG(status.st_mode) && status.st_mtime < latest)
			(void) unlink(path);
	}
	FreeDir(dir);
}
