/*-------------------------------------------------------------------------
 *
 * test_kernel_files.c
 *	  The files of compiled kernels: what is kept comes back, and nothing else
 *	  does, whatever lies in the directory.
 *
 *-------------------------------------------------------------------------
 */
#include "kernel_files.h"
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IMAGE_SIZE 500

static char base[] = "/tmp/gpuscan-kernels-XXXXXX";
static char directory[64];
static CudaKernelFiles files;

static void
make_image(const char *key, char *image)
{
	uint64_t state = strlen(key) + (unsigned char) key[strlen(key) - 1];

	for (int i = 0; i < IMAGE_SIZE; i++)
		image[i] = (char) unit_random(&state);
}

static void
keep(const char *key)
{
	char image[IMAGE_SIZE];

	make_image(key, image);
	gpuscan_kernel_files_write(&files, key, image, IMAGE_SIZE);
}

/* 1: the image that was kept; 0: none; -1: anything else */
static int
found(const char *key)
{
	char expected[IMAGE_SIZE];
	char *image = gpuscan_kernel_files_read(&files, key);
	int result = 0;

	make_image(key, expected);
	if (image != NULL)
		result = memcmp(image, expected, IMAGE_SIZE) == 0 ? 1 : -1;
	free(image);
	return result;
}

/* Counts the files, and takes the path of the last one. */
static int
list(char *path, size_t size)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	int n = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		if (entry->d_name[0] == '.')
			continue;
		n++;
		if (path != NULL)
			snprintf(path, size, "%s/%s", directory, entry->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

static int
count_files(void)
{
	return list(NULL, 0);
}

static size_t
slurp(const char *path, char *content, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t got = read(fd, content, size);

	close(fd);
	return got < 0 ? 0 : (size_t) got;
}

static void
spill(const char *path, const char *content, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (write(fd, content, size) != (ssize_t) size)
		abort();
	close(fd);
}

static void
clear(void)
{
	char path[512];

	while (list(path, sizeof(path)) > 0)
		unlink(path);
}

static void
reopen(uint64_t limit)
{
	gpuscan_kernel_files_close(&files);
	gpuscan_kernel_files_open(&files, directory, limit);
}

static void
test_basics(void)
{
	struct stat st;
	char path[512];

	ok(found("a") == 0 && access(directory, F_OK) != 0, "nothing is there before the first write");
	keep("a");
	keep("b");
	ok(found("a") == 1 && found("b") == 1 && found("c") == 0, "what was kept is found");
	ok(stat(directory, &st) == 0 && (st.st_mode & 0777) == 0700, "the directory is ours alone");
	ok(list(path, sizeof(path)) == 2 && stat(path, &st) == 0 && (st.st_mode & 0777) == 0600,
	   "and so are the files");
	keep("a");
	ok(found("a") == 1 && count_files() == 2, "keeping it again changes nothing");
	clear();
}

/* A file with every byte flipped in turn, cut at every length, and with something behind it */
static void
test_damage(void)
{
	char path[512];
	char content[2048];
	size_t size;
	int wrong = 0;
	int left = 0;

	keep("damage");
	list(path, sizeof(path));
	size = slurp(path, content, sizeof(content));
	for (size_t i = 0; i < size * 8; i++)
	{
		content[i / 8] ^= (char) (1 << i % 8);
		spill(path, content, size);
		content[i / 8] ^= (char) (1 << i % 8);
		wrong += found("damage") != 0;
		left += count_files();
	}
	ok(wrong == 0, "no bit can flip unseen in %zu bytes", size);
	for (size_t n = 0; n < size; n++)
	{
		spill(path, content, n);
		wrong += found("damage") != 0;
		left += count_files();
	}
	ok(wrong == 0, "no file can be cut short unseen");
	spill(path, content, size + 1);
	ok(found("damage") == 0, "nor made longer");
	ok(left == 0, "each of them was removed");
	spill(path, content, size);
	ok(found("damage") == 1, "the file as it was is read");
	clear();
}

/* A file whose name is another key's, as if their hashes were the same */
static void
test_other_key(void)
{
	char path[512];
	char content[2048];
	size_t size;

	keep("first");
	list(path, sizeof(path));
	clear();
	keep("other");
	{
		char other[512];

		list(other, sizeof(other));
		size = slurp(other, content, sizeof(content));
		spill(path, content, size);
	}
	ok(found("first") == 0 && found("other") == 1, "a file with another key is not used");
	clear();
}

static void
test_foreign(void)
{
	char path[512];
	char content[2048];
	char target[128];
	size_t size;

	keep("foreign");
	list(path, sizeof(path));
	size = slurp(path, content, sizeof(content));

	chmod(path, 0622);
	ok(found("foreign") == 0 && count_files() == 0, "a file that others may write is not used");

	snprintf(target, sizeof(target), "%s/target", base);
	spill(target, content, size);
	ok(symlink(target, path) == 0 && found("foreign") == 0 && count_files() == 0,
	   "nor is a link, which goes");
	ok(access(target, F_OK) == 0, "what it leads to stays");
	unlink(target);

	ok(mkfifo(path, 0600) == 0 && found("foreign") == 0, "nor a pipe, which nobody waits for");
	ok(mkdir(path, 0700) == 0 && found("foreign") == 0, "nor a directory");
	keep("foreign");
	ok(found("foreign") == 0 && count_files() == 1, "in whose place nothing can be kept");
	rmdir(path);

	keep("foreign");
	if (geteuid() == 0)
	{
		if (chown(path, 12345, 0) != 0)
			abort();
		ok(found("foreign") == 0, "nor somebody else's file");
		keep("foreign");
		if (chown(directory, 12345, 0) != 0)
			abort();
		ok(found("foreign") == 0, "nor one in somebody else's directory");
		if (chown(directory, 0, 0) != 0)
			abort();
		ok(found("foreign") == 1, "which is left as it is");
	}
	chmod(directory, 0777);
	ok(found("foreign") == 0, "a directory that others may write is not used");
	keep("more");
	chmod(directory, 0700);
	ok(found("foreign") == 1 && found("more") == 0, "neither for reading nor for writing");
	clear();

	rmdir(directory);
	snprintf(target, sizeof(target), "%s/elsewhere", base);
	if (mkdir(target, 0700) != 0 || symlink(target, directory) != 0)
		abort();
	keep("foreign");
	ok(found("foreign") == 0 && rmdir(target) == 0, "nor is a link in its place");
	unlink(directory);
	spill(directory, "x", 1);
	keep("foreign");
	ok(found("foreign") == 0, "nor a file");
	unlink(directory);
}

static void
test_limit(void)
{
	char path[512];
	struct stat st;
	int all = 1;

	reopen(1024 * 1024);
	keep("0");
	list(path, sizeof(path));
	if (stat(path, &st) != 0)
		abort();
	clear();
	reopen((uint64_t) st.st_size * 3);
	for (char key[2] = "1"; key[0] <= '3'; key[0]++)
	{
		keep(key);
		usleep(20000);
	}
	ok(count_files() == 3, "files are kept up to the limit");
	all = found("1");
	usleep(20000);
	keep("4");
	ok(all && count_files() == 3 && found("2") == 0 && found("1") == 1 && found("3") == 1 &&
		   found("4") == 1,
	   "then the one goes that was used least recently");
	reopen((uint64_t) st.st_size - 1);
	keep("5");
	ok(found("5") == 0 && count_files() == 3, "what exceeds the limit alone is not kept");
	reopen((uint64_t) st.st_size);
	usleep(20000);
	keep("5");
	ok(found("5") == 1 && count_files() == 1, "a lower limit holds from the next file on");
	clear();
	reopen(1024 * 1024);
}

static void
test_leftovers(void)
{
	char path[512];

	keep("a");
	snprintf(path, sizeof(path), "%s/new.1.2", directory);
	spill(path, "half", 4);
	reopen(1024 * 1024);
	ok(count_files() == 1 && found("a") == 1, "what a crash left half written goes at the start");
	clear();
}

/* A disk that is full, as far as a limit on the size of files is one */
static void
test_full_disk(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
	{
		struct rlimit limit = {100, 100};

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		keep("full");
		_exit(found("full") == 0 && count_files() == 0 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	ok(status == 0, "a full disk leaves nothing behind");
}

static void *
use_files(void *arg)
{
	uint64_t state = (uint64_t) (uintptr_t) arg;
	int wrong = 0;

	for (int i = 0; i < 300; i++)
	{
		char key[2] = {(char) ('a' + unit_random(&state) % 8), 0};

		if (unit_random(&state) % 2)
			keep(key);
		wrong += found(key) < 0;
	}
	return (void *) (uintptr_t) wrong;
}

static void
test_threads(void)
{
	pthread_t threads[4];
	uintptr_t wrong = 0;

	reopen(4000);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, use_files, (void *) (i + 1));
	for (int i = 0; i < 4; i++)
	{
		void *result;

		pthread_join(threads[i], &result);
		wrong += (uintptr_t) result;
	}
	ok(wrong == 0, "threads that read, write and evict see whole files");
	clear();
}

int
main(void)
{
	if (mkdtemp(base) == NULL)
		abort();
	snprintf(directory, sizeof(directory), "%s/kernels", base);
	ok(gpuscan_kernel_files_read(&files, "a") == NULL, "without a directory nothing is found");
	keep("a");
	gpuscan_kernel_files_open(&files, directory, 1024 * 1024);
	test_basics();
	test_damage();
	test_other_key();
	test_foreign();
	test_limit();
	test_leftovers();
	test_full_disk();
	test_threads();
	gpuscan_kernel_files_close(&files);
	rmdir(directory);
	rmdir(base);
	return done_testing();
}
