/*-------------------------------------------------------------------------
 *
 * kernel_files.c
 *	  Compiled kernels kept in files, so that a restart compiles nothing again.
 *
 * A file holds its whole key and the image.  Its name is a hash of the key, but
 * a reader compares the key itself, so two keys with one hash cost a compilation
 * and no more.  A checksum over both finds what a disk or a crash made of it.
 *
 * An image runs on the device with all rights of the server, so a file is
 * trusted only where nobody else could have written it: the directory and the
 * file must belong to us and be writable by us alone, and neither may be a link.
 *
 * A file is written under another name, flushed, and renamed, so that no reader
 * sees half of it.  Whatever fails leaves things as if nothing had been kept.
 * When all files together exceed the limit, those go that were used least
 * recently: reading a file sets its modification time.
 *
 * Several threads, and several devices, may use the same directory.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "kernel_files.h"
#include "program/bytes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31304C4E524B5347 /* GSKRNL01; change it when the form changes */

/* No image is as large as this. */
#define MAX_IMAGE ((uint64_t) 64 * 1024 * 1024)

#define SUFFIX ".kernel"
#define NAME_LEN (16 + sizeof(SUFFIX))
#define TEMPORARY "new."

typedef struct Header
{
	uint64_t magic;
	uint64_t key_size;
	uint64_t image_size;
	uint64_t checksum; /* of the two before, of the key and of the image, which follow */
} Header;

static uint64_t
checksum(const Header *header, const char *key, const char *image)
{
	uint64_t hash = bytes_fnv(BYTES_FNV_START, header, offsetof(Header, checksum));

	hash = bytes_fnv(hash, key, header->key_size);
	return bytes_fnv(hash, image, header->image_size);
}

static void
file_name(const char *key, char *name)
{
	snprintf(name, NAME_LEN, "%016llx" SUFFIX,
			 (unsigned long long) bytes_fnv(BYTES_FNV_START, key, strlen(key)));
}

static bool
is_ours(int fd, mode_t type, struct stat *st)
{
	return fstat(fd, st) == 0 && (st->st_mode & S_IFMT) == type && st->st_uid == geteuid() &&
		   (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The directory's descriptor, or -1 */
static int
open_directory(const CudaKernelFiles *files, bool make)
{
	struct stat st;
	int fd;

	if (files->directory == NULL)
		return -1;
	if (make)
		(void) mkdir(files->directory, S_IRWXU);
	fd = open(files->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !is_ours(fd, S_IFDIR, &st))
	{
		(void) close(fd);
		fd = -1;
	}
	return fd;
}

static bool
read_all(int fd, void *buf, size_t size)
{
	for (size_t done = 0; done < size;)
	{
		ssize_t got = read(fd, (char *) buf + done, size - done);

		if (got <= 0)
			return false;
		done += (size_t) got;
	}
	return true;
}

static bool
write_all(int fd, const void *buf, size_t size)
{
	for (size_t done = 0; done < size;)
	{
		ssize_t put = write(fd, (const char *) buf + done, size - done);

		if (put <= 0)
			return false;
		done += (size_t) put;
	}
	return true;
}

/* The image in an open file; NULL if the file is not ours, not whole, or another key's. */
static char *
read_file(int fd, const char *key)
{
	struct stat st;
	Header header;
	char *content;
	char *image = NULL;

	if (!is_ours(fd, S_IFREG, &st) || !read_all(fd, &header, sizeof(header)) ||
		header.magic != MAGIC || header.key_size != strlen(key) || header.image_size > MAX_IMAGE ||
		(uint64_t) st.st_size != sizeof(header) + header.key_size + header.image_size)
		return NULL;
	content = malloc(header.key_size + header.image_size + 1);
	if (content == NULL)
		return NULL;
	if (read_all(fd, content, header.key_size + header.image_size) &&
		header.checksum == checksum(&header, content, content + header.key_size) &&
		memcmp(content, key, header.key_size) == 0)
		image = malloc(header.image_size + 1);
	if (image != NULL)
		memcpy(image, content + header.key_size, header.image_size);
	free(content);
	return image;
}

char *
gpuscan_kernel_files_read(const CudaKernelFiles *files, const char *key)
{
	int directory = open_directory(files, false);
	char name[NAME_LEN];
	char *image = NULL;
	int fd;

	if (directory < 0)
		return NULL;
	file_name(key, name);
	/* O_NONBLOCK: should it be a pipe */
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
	{
		image = read_file(fd, key);
		if (image != NULL)
			(void) futimens(fd, NULL);
		(void) close(fd);
	}
	/* what is of no use goes, be it a link or somebody else's */
	if (fd >= 0 ? image == NULL : errno == ELOOP || errno == EACCES)
		(void) unlinkat(directory, name, 0);
	(void) close(directory);
	return image;
}

static bool
is_kernel(const char *name)
{
	return strlen(name) == NAME_LEN - 1 && strcmp(name + 16, SUFFIX) == 0;
}

static bool
is_temporary(const char *name)
{
	return strncmp(name, TEMPORARY, sizeof(TEMPORARY) - 1) == 0;
}

/* The directory's entries; takes the descriptor over.  NULL: none can be read. */
static DIR *
list_directory(int directory)
{
	DIR *list = fdopendir(directory);

	if (list == NULL)
		(void) close(directory);
	return list;
}

/*
 * Removes the file used least recently; false if all together keep to the limit.
 */
static bool
evict_file(int directory, uint64_t limit)
{
	DIR *list = list_directory(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct timespec oldest = {0, 0};
	char victim[NAME_LEN] = "";
	uint64_t total = 0;
	struct dirent *entry;

	if (list == NULL)
		return false;
	while ((entry = readdir(list)) != NULL)
	{
		struct stat st;

		if (!is_kernel(entry->d_name) ||
			fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		total += (uint64_t) st.st_size;
		if (victim[0] == '\0' || st.st_mtim.tv_sec < oldest.tv_sec ||
			(st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec < oldest.tv_nsec))
		{
			memcpy(victim, entry->d_name, NAME_LEN);
			oldest = st.st_mtim;
		}
	}
	(void) closedir(list);
	return total > limit && unlinkat(directory, victim, 0) == 0;
}

void
gpuscan_kernel_files_write(const CudaKernelFiles *files, const char *key, const char *image,
						   size_t size)
{
	static atomic_uint counter;
	Header header = {.magic = MAGIC, .key_size = strlen(key), .image_size = size};
	char name[NAME_LEN];
	char temporary[64];
	int directory;
	bool written;
	int fd;

	if (size > MAX_IMAGE || sizeof(header) + header.key_size + size > files->limit)
		return;
	directory = open_directory(files, true);
	if (directory < 0)
		return;
	header.checksum = checksum(&header, key, image);
	file_name(key, name);
	snprintf(temporary, sizeof(temporary), TEMPORARY "%ld.%u", (long) getpid(),
			 atomic_fetch_add(&counter, 1));
	fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				S_IRUSR | S_IWUSR);
	if (fd >= 0)
	{
		written = write_all(fd, &header, sizeof(header)) && write_all(fd, key, header.key_size) &&
				  write_all(fd, image, size) && fsync(fd) == 0;
		if (close(fd) != 0 || !written || renameat(directory, temporary, directory, name) != 0)
			(void) unlinkat(directory, temporary, 0);
		while (evict_file(directory, files->limit))
			;
	}
	(void) close(directory);
}

void
gpuscan_kernel_files_open(CudaKernelFiles *files, const char *directory, uint64_t limit)
{
	DIR *list;
	struct dirent *entry;

	files->directory = strdup(directory);
	files->limit = limit;
	list = list_directory(open_directory(files, false));
	if (list == NULL)
		return;
	while ((entry = readdir(list)) != NULL)
	{
		if (is_temporary(entry->d_name))
			(void) unlinkat(dirfd(list), entry->d_name, 0);
	}
	(void) closedir(list);
}

void
gpuscan_kernel_files_close(CudaKernelFiles *files)
{
	free(files->directory);
	files->directory = NULL;
}
