/*-------------------------------------------------------------------------
 *
 * launch.c
 *	  Modules of the emulated device, and launches of their kernels.
 *
 * An image is a shared object with its size before it.  A launch is put into its
 * stream; its thread blocks run on EMULATED_CUDA_THREADS threads of the host, 2
 * unless told.  With 1 a launch does the same again each time.
 *
 * Shared memory is the module's thread-local storage, that of one thread of the
 * host being one thread block's at a time.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "driver.h"
#include "emulated.h"
#include "image.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INVALID_VALUE 1
#define NO_BINARY_FOR_GPU 209
#define NOT_FOUND 500
#define LAUNCH_FAILED 719

#define MAX_HOST_THREADS 16
#define MAX_PARAMS 16

struct CUfunc_st
{
	struct CUfunc_st *next;
	struct CUmod_st *module;
	char name[64];
	void (*call)(void **params);
	const size_t *sizes; /* of the parameters, and 0 */
};

struct CUmod_st
{
	void *library;
	size_t tls_id;
	size_t shared_size;			/* of static and dynamic shared memory */
	char *(*dynamic)(size_t *); /* the latter on the calling thread, and its size */
	CUfunction functions;
};

/* Finds a library's thread-local storage by its number. */
static int
find_storage(struct dl_phdr_info *info, size_t size, void *module)
{
	CUmodule m = module;

	if (info->dlpi_tls_modid != m->tls_id)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			m->shared_size = info->dlpi_phdr[i].p_memsz;
	}
	return 1;
}

int
cuModuleLoadData(CUmodule *module, const void *image)
{
	const EmulatedImage *header = image;
	CUmodule m;
	char path[] = "/tmp/emulated-cuda-XXXXXX";
	int fd;

	if (memcmp(header->magic, EMULATED_MAGIC, sizeof(header->magic)) != 0)
		return NO_BINARY_FOR_GPU;
	m = calloc(1, sizeof(*m));
	fd = mkstemp(path);
	if (m == NULL || fd < 0 || write(fd, header + 1, header->size) != (ssize_t) header->size)
		abort();
	m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	close(fd);
	unlink(path);
	if (m->library == NULL)
	{
		fprintf(stderr, "# emulated CUDA: %s\n", dlerror());
		free(m);
		return NO_BINARY_FOR_GPU;
	}
	*(void **) &m->dynamic = dlsym(m->library, "emulated_dynamic");
	(void) dlinfo(m->library, RTLD_DI_TLS_MODID, &m->tls_id);
	(void) dl_iterate_phdr(find_storage, m);
	*module = m;
	return CUDA_SUCCESS;
}

int
cuModuleUnload(CUmodule module)
{
	while (module->functions != NULL)
	{
		CUfunction next = module->functions->next;

		free(module->functions);
		module->functions = next;
	}
	(void) dlclose(module->library);
	free(module);
	return CUDA_SUCCESS;
}

int
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUfunction f = calloc(1, sizeof(*f));
	const size_t *(*sizes)(void);
	char symbol[128];

	if (f == NULL)
		abort();
	snprintf(f->name, sizeof(f->name), "%s", name);
	snprintf(symbol, sizeof(symbol), "emulated_call_%s", name);
	*(void **) &f->call = dlsym(module->library, symbol);
	snprintf(symbol, sizeof(symbol), "emulated_sizes_%s", name);
	*(void **) &sizes = dlsym(module->library, symbol);
	if (sizes != NULL)
		f->sizes = sizes();
	f->module = module;
	f->next = module->functions;
	module->functions = f;
	*function = f;
	if (f->call == NULL)
		fprintf(stderr, "# emulated CUDA: there is no kernel %s\n", name);
	return f->call == NULL ? NOT_FOUND : CUDA_SUCCESS;
}

/* Of the one multiprocessor */
int
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
											size_t shared)
{
	*blocks = 3;
	return CUDA_SUCCESS;
}

/*
 * Shared memory
 */

/* So much behind it is watched. */
#define WATCHED 1024

static size_t
watched_size(const EmulatedLaunch *launch, size_t room)
{
	return launch->shared + WATCHED < room ? launch->shared + WATCHED : room;
}

void
emulated_shared_clear(EmulatedLaunch *launch)
{
	CUmodule module = launch->module;
	void *found = NULL;
	char *shared;
	char *dynamic;
	size_t room;

	/* a thread that has not used it yet has none */
	dynamic = module->dynamic(&room);
	if (dlinfo(module->library, RTLD_DI_TLS_DATA, &found) != 0 || found == NULL)
		abort();
	shared = found;
	memset(shared, EMULATED_POISON, (size_t) (dynamic - shared));
	memset(dynamic, EMULATED_POISON, watched_size(launch, room));
	memset(dynamic + room, EMULATED_POISON,
		   (size_t) (shared + module->shared_size - (dynamic + room)));
}

bool
emulated_shared_check(EmulatedLaunch *launch)
{
	size_t room;
	const char *dynamic = launch->module->dynamic(&room);

	for (size_t i = launch->shared; i < watched_size(launch, room); i++)
	{
		if (dynamic[i] != (char) EMULATED_POISON)
			return false;
	}
	return true;
}

/*
 * Launches
 */

/* One in a stream */
typedef struct QueuedLaunch
{
	EmulatedLaunch launch;
	void *params[MAX_PARAMS]; /* in `copies` */
	_Alignas(16) char copies[];
} QueuedLaunch;

static void *
host_thread(void *launch)
{
	emulated_run_blocks(launch);
	return NULL;
}

static uint32_t
host_threads(void)
{
	const char *text = getenv("EMULATED_CUDA_THREADS");
	int n = text == NULL ? 2 : atoi(text);

	return n < 1 ? 1 : n > MAX_HOST_THREADS ? MAX_HOST_THREADS : (uint32_t) n;
}

static CUresult
run_launch(void *queued)
{
	EmulatedLaunch *launch = &((QueuedLaunch *) queued)->launch;
	pthread_t threads[MAX_HOST_THREADS];
	uint32_t n = host_threads();
	uint32_t started = 0;

	if (n > launch->grid)
		n = launch->grid;
	while (started < n - 1 && pthread_create(&threads[started], NULL, host_thread, launch) == 0)
		started++;
	emulated_run_blocks(launch);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	return atomic_load(&launch->failed) ? LAUNCH_FAILED : CUDA_SUCCESS;
}

static size_t
aligned(size_t size)
{
	return (size + 15) / 16 * 16;
}

int
cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
			   CUstream stream, void **params, void **extra)
{
	QueuedLaunch *queued;
	size_t size = 0;
	size_t dynamic;
	char *copy;

	(void) function->module->dynamic(&dynamic);
	if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 ||
		block_x > EMULATED_MAX_THREADS || block_y != 1 || block_z != 1 || shared > dynamic ||
		extra != NULL)
		return INVALID_VALUE;
	for (size_t i = 0; function->sizes[i] != 0; i++)
	{
		if (i == MAX_PARAMS)
			return INVALID_VALUE;
		size += aligned(function->sizes[i]);
	}
	queued = malloc(sizeof(*queued) + size);
	if (queued == NULL)
		abort();
	queued->launch = (EmulatedLaunch){.kernel = function->name,
									  .call = function->call,
									  .params = queued->params,
									  .grid = grid_x,
									  .threads = block_x,
									  .shared = shared,
									  .module = function->module};
	/* they are the caller's again when the call returns */
	copy = queued->copies;
	for (size_t i = 0; function->sizes[i] != 0; i++)
	{
		queued->params[i] = copy;
		memcpy(copy, params[i], function->sizes[i]);
		copy += aligned(function->sizes[i]);
	}
	return emulated_enqueue(stream, run_launch, queued);
}
