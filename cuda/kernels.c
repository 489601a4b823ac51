/*-------------------------------------------------------------------------
 *
 * kernels.c
 *	  Compiling kernels, and keeping them.
 *
 * The cache is keyed by the whole text of a kernel, so that nothing has to be
 * said about what may differ between two requests that share one.  It keeps a
 * bounded number, and drops the one that nobody used for longest.  Behind it
 * are files (kernel_files.c), whose key is all that NVRTC would be given.
 *
 * Compiling runs in a thread of its own, without the lock: other requests go on
 * meanwhile, a request that waits can be ended, and one that wants the same
 * kernel waits for the same thread.  A text that does not compile stays in the
 * cache too, with its failure.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"
#include "text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_KERNELS 256

/* A request that waits for a compiler looks so often if it was ended. */
#define WAIT_NS 10000000

static char *
compile_log(nvrtcProgram program)
{
	size_t size = 0;
	char *log;

	if (gpuscan_nvrtc.get_log_size(program, &size) != 0)
		return NULL;
	log = malloc(size + 1);
	if (log == NULL || gpuscan_nvrtc.get_log(program, log) != 0)
	{
		free(log);
		return NULL;
	}
	return log;
}

/* NVRTC's options behind that for the architecture */
#define NUM_OPTIONS 6
#define OPTIONS "-device-int128", "-fmad=false", "-std=c++17", "-default-device", "-w"

bool
gpuscan_cuda_compile(const char *text, int major, int minor, char **image, size_t *size, char **log)
{
	char arch[40];
	const char *const options[NUM_OPTIONS] = {arch, OPTIONS};
	nvrtcProgram program;
	bool ok;

	*image = NULL;
	*log = NULL;
	snprintf(arch, sizeof(arch), "-arch=sm_%d%d", major, minor);
	if (gpuscan_nvrtc.create_program(&program, text, "gpuscan.cu", CUDA_NUM_TEXTS,
									 gpuscan_cuda_texts, gpuscan_cuda_text_names) != 0)
		return false;
	ok = gpuscan_nvrtc.compile_program(program, NUM_OPTIONS, options) == 0;
	if (!ok)
		*log = compile_log(program);
	ok = ok && gpuscan_nvrtc.get_cubin_size(program, size) == 0;
	if (ok)
		*image = malloc(*size);
	ok = *image != NULL && gpuscan_nvrtc.get_cubin(program, *image) == 0;
	if (!ok)
	{
		free(*image);
		*image = NULL;
	}
	(void) gpuscan_nvrtc.destroy_program(&program);
	return ok;
}

/* All that an image depends on, malloc'd: NVRTC's version and whatever it is given */
static char *
make_key(const CudaKernels *kernels)
{
	static const char *const options[NUM_OPTIONS - 1] = {OPTIONS};
	char *key = NULL;
	size_t size;
	int major;
	int minor;
	FILE *out;

	if (gpuscan_nvrtc.version(&major, &minor) != 0)
		return NULL;
	out = open_memstream(&key, &size);
	if (out == NULL)
		return NULL;
	fprintf(out, "NVRTC %d.%d sm_%d%d", major, minor, kernels->device->major,
			kernels->device->minor);
	for (int i = 0; i < NUM_OPTIONS - 1; i++)
		fprintf(out, " %s", options[i]);
	for (int i = 0; i < CUDA_NUM_TEXTS; i++)
		fprintf(out, "\n%s\n%s", gpuscan_cuda_text_names[i], gpuscan_cuda_texts[i]);
	fprintf(out, "\n%s", kernels->text);
	if (fclose(out) != 0)
	{
		free(key);
		return NULL;
	}
	return key;
}

static void
free_kernels(CudaKernels *kernels)
{
	if (kernels->module != NULL)
		(void) gpuscan_cuda.module_unload(kernels->module);
	free(kernels->text);
	free(kernels);
}

/* Finds kernels by their text and counts one more user.  Under the cache's lock. */
static CudaKernels *
find_kernels(CudaKernelCache *cache, const char *text)
{
	for (CudaKernels **link = &cache->first; *link != NULL; link = &(*link)->next)
	{
		CudaKernels *kernels = *link;

		if (strcmp(kernels->text, text) == 0)
		{
			*link = kernels->next;
			kernels->next = cache->first;
			cache->first = kernels;
			kernels->users++;
			return kernels;
		}
	}
	return NULL;
}

/* Drops the last that has no user.  Under the cache's lock. */
static void
evict_kernels(CudaKernelCache *cache)
{
	CudaKernels **victim = NULL;
	CudaKernels *kernels;

	for (CudaKernels **link = &cache->first; *link != NULL; link = &(*link)->next)
	{
		if ((*link)->users == 0)
			victim = link;
	}
	if (victim == NULL)
		return;
	kernels = *victim;
	*victim = kernels->next;
	cache->n--;
	free_kernels(kernels);
}

static CUresult
load_module(CudaKernels *kernels, const char *image)
{
	const struct
	{
		const char *name;
		CUfunction *function;
	} functions[] = {
		{"k_run", &kernels->run},		{"k_cached", &kernels->run},
		{"k_seek", &kernels->run},		{"k_rehash", &kernels->rehash},
		{"k_emit", &kernels->emit},		{"k_rehash_pairs", &kernels->rehash_pairs},
		{"k_anchor", &kernels->anchor},
	};
	CUresult result = gpuscan_cuda.module_load(&kernels->module, image);
	int blocks = 0;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		char definition[32];

		snprintf(definition, sizeof(definition), "\n%s(", functions[i].name);
		if (result == CUDA_SUCCESS && strstr(kernels->text, definition) != NULL)
			result = gpuscan_cuda.module_get_function(functions[i].function, kernels->module,
													  functions[i].name);
	}
	if (result == CUDA_SUCCESS)
		result = gpuscan_cuda.occupancy(&blocks, kernels->run, (int) kernels->threads, 0);
	kernels->max_grid =
		(uint32_t) (blocks > 0 ? blocks : 1) * (uint32_t) kernels->device->multiprocessors;

	/* some devices do not have so much */
	blocks = 0;
	if (result == CUDA_SUCCESS && kernels->slots_size > 0 &&
		gpuscan_cuda.function_set_attribute(kernels->run,
											CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
											(int) kernels->slots_size) == CUDA_SUCCESS)
		result = gpuscan_cuda.occupancy(&blocks, kernels->run, (int) kernels->threads,
										kernels->slots_size);
	kernels->slots_grid = (uint32_t) blocks * (uint32_t) kernels->device->multiprocessors;
	return result;
}

/* Loads what a file has under the key; false: it must be compiled. */
static bool
read_kernels(CudaKernels *kernels, const char *key)
{
	uint64_t start = gpuscan_cuda_now_ns();
	char *image = gpuscan_kernel_files_read(&kernels->device->kernel_files, key);
	bool loaded = image != NULL && load_module(kernels, image) == CUDA_SUCCESS;

	free(image);
	if (loaded)
		kernels->read_ns = gpuscan_cuda_now_ns() - start;
	else if (kernels->module != NULL)
	{
		(void) gpuscan_cuda.module_unload(kernels->module);
		kernels->module = NULL;
	}
	return loaded;
}

static GpuScanCode
compile_kernels(CudaKernels *kernels, const char *key)
{
	GpuScanDevice *device = kernels->device;
	uint64_t start = gpuscan_cuda_now_ns();
	GpuScanCode code;
	size_t size = 0;
	char *image;
	char *log;

	gpuscan_nvtx_push("gpuscan compile");
	if (!gpuscan_cuda_compile(kernels->text, device->major, device->minor, &image, &size, &log))
	{
		gpuscan_cuda_say(device, "a kernel does not compile", log);
		code = GPUSCAN_LEFT_TO_POSTGRES;
	}
	else
		code = gpuscan_cuda_code(device, load_module(kernels, image));
	gpuscan_nvtx_pop();
	kernels->compile_ns = gpuscan_cuda_now_ns() - start;
	if (code == GPUSCAN_OK && key != NULL)
		gpuscan_kernel_files_write(&device->kernel_files, key, image, size);
	free(image);
	free(log);
	return code;
}

static GpuScanCode
make_kernels(CudaKernels *kernels)
{
	GpuScanDevice *device = kernels->device;
	GpuScanCode code;
	char *key = NULL;

	code = gpuscan_cuda_code(device, gpuscan_cuda.context_set_current(device->context));
	if (code != GPUSCAN_OK)
		return code;
	if (device->kernel_files.directory != NULL)
		key = make_key(kernels);
	if (key == NULL || !read_kernels(kernels, key))
		code = compile_kernels(kernels, key);
	free(key);
	return code;
}

static void *
compiler_main(void *arg)
{
	CudaKernels *kernels = arg;
	CudaKernelCache *cache = &kernels->device->kernels;
	GpuScanCode code = make_kernels(kernels);

	pthread_mutex_lock(&cache->lock);
	kernels->code = code;
	/* another time there may be room: nobody is to find this one */
	if (code == GPUSCAN_OUT_OF_MEMORY)
		kernels->text[0] = '\0';
	kernels->state = code == GPUSCAN_OK ? CUDA_KERNELS_READY : CUDA_KERNELS_FAILED;
	kernels->users--;
	cache->compiling--;
	pthread_cond_broadcast(&cache->changed);
	pthread_mutex_unlock(&cache->lock);
	return NULL;
}

/*
 * A new entry, with a thread that compiles it; NULL: out of memory.  Takes the text
 * over.  Under the cache's lock.
 */
static CudaKernels *
start_compiler(GpuScanDevice *device, const CudaSource *source, CudaKind kind, char *text)
{
	CudaKernelCache *cache = &device->kernels;
	CudaKernels *kernels = calloc(1, sizeof(CudaKernels));
	sigset_t all;
	sigset_t saved;
	pthread_t thread;
	int error;

	if (kernels == NULL)
	{
		free(text);
		return NULL;
	}
	kernels->device = device;
	kernels->text = text;
	kernels->threads = kind == CUDA_PAGES ? CUDA_THREADS : source->threads;
	kernels->slots_size = kind == CUDA_PAGES ? 0 : source->slots_size;

	/* signals are for the caller's own thread */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	error = pthread_create(&thread, NULL, compiler_main, kernels);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (error != 0)
	{
		free_kernels(kernels);
		return NULL;
	}
	(void) pthread_detach(thread);
	if (cache->n >= MAX_KERNELS)
		evict_kernels(cache);
	kernels->users = 2;
	kernels->next = cache->first;
	cache->first = kernels;
	cache->n++;
	cache->compiling++;
	return kernels;
}

GpuScanCode
gpuscan_cuda_kernels_get(GpuScanRequest *request, CudaKind kind)
{
	CudaKernelCache *cache = &request->device->kernels;
	CudaKernels **kernels = &request->kernels[kind];
	GpuScanCode code = GPUSCAN_OK;
	char *text;
	bool found;

	if (*kernels != NULL)
		return GPUSCAN_OK;
	text = gpuscan_cuda_source_text(&request->source, kind);
	if (text == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	pthread_mutex_lock(&cache->lock);
	*kernels = find_kernels(cache, text);
	found = *kernels != NULL;
	if (found)
		free(text);
	else
		*kernels = start_compiler(request->device, &request->source, kind, text);
	if (*kernels == NULL)
		code = GPUSCAN_OUT_OF_MEMORY;
	while (code == GPUSCAN_OK && (*kernels)->state == CUDA_KERNELS_COMPILING)
	{
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += WAIT_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		(void) pthread_cond_timedwait(&cache->changed, &cache->lock, &until);
		if (gpuscan_cuda_is_ended(request))
			code = GPUSCAN_CANCELLED;
	}
	if (code == GPUSCAN_OK)
		code = (*kernels)->code;
	if (code == GPUSCAN_OK && !found)
	{
		request->stats.compile_ns += (*kernels)->compile_ns;
		request->stats.kernel_read_ns += (*kernels)->read_ns;
	}
	if (code == GPUSCAN_OK)
		request->stats.kernels_reused =
			request->stats.compile_ns == 0 && request->stats.kernel_read_ns == 0;
	if (code != GPUSCAN_OK && *kernels != NULL)
	{
		(*kernels)->users--;
		*kernels = NULL;
	}
	pthread_mutex_unlock(&cache->lock);
	return code;
}

void
gpuscan_cuda_kernels_release(GpuScanDevice *device, CudaKernels *kernels)
{
	pthread_mutex_lock(&device->kernels.lock);
	kernels->users--;
	pthread_mutex_unlock(&device->kernels.lock);
}

void
gpuscan_cuda_kernels_init(GpuScanDevice *device)
{
	pthread_mutex_init(&device->kernels.lock, NULL);
	pthread_cond_init(&device->kernels.changed, NULL);
}

void
gpuscan_cuda_kernels_free_all(GpuScanDevice *device)
{
	CudaKernelCache *cache = &device->kernels;

	pthread_mutex_lock(&cache->lock);
	while (cache->compiling > 0)
		pthread_cond_wait(&cache->changed, &cache->lock);
	while (cache->first != NULL)
	{
		CudaKernels *next = cache->first->next;

		free_kernels(cache->first);
		cache->first = next;
	}
	pthread_mutex_unlock(&cache->lock);
	pthread_cond_destroy(&cache->changed);
	pthread_mutex_destroy(&cache->lock);
}
