/*-------------------------------------------------------------------------
 *
 * kernels.c
 *	  Compiling kernels, and keeping them.
 *
 * The cache is keyed by the whole text of a kernel, so that nothing has to be
 * said about what may differ between two requests that share one.  It keeps a
 * bounded number, and drops the one that nobody used for longest.
 *
 * Compiling runs without the lock: other requests go on meanwhile.  Two that
 * want the same kernel at once may compile it twice.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_KERNELS 256

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

bool
gpuscan_cuda_compile(const char *text, int major, int minor, char **image, char **log)
{
	char arch[40];
	const char *const options[] = {arch, "-device-int128", "-fmad=false", "-std=c++17",
								   "-default-device", "-w"};
	nvrtcProgram program;
	size_t size = 0;
	bool ok;

	*image = NULL;
	*log = NULL;
	snprintf(arch, sizeof(arch), "-arch=sm_%d%d", major, minor);
	if (gpuscan_nvrtc.create_program(&program, text, "gpuscan.cu", CUDA_NUM_TEXTS,
									 gpuscan_cuda_texts, gpuscan_cuda_text_names) != 0)
		return false;
	ok = gpuscan_nvrtc.compile_program(program, sizeof(options) / sizeof(options[0]), options) == 0;
	if (!ok)
		*log = compile_log(program);
	ok = ok && gpuscan_nvrtc.get_cubin_size(program, &size) == 0;
	if (ok)
		*image = malloc(size);
	ok = *image != NULL && gpuscan_nvrtc.get_cubin(program, *image) == 0;
	if (!ok)
	{
		free(*image);
		*image = NULL;
	}
	(void) gpuscan_nvrtc.destroy_program(&program);
	return ok;
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
load_module(GpuScanDevice *device, CudaKernels *kernels, const char *image,
			const CudaSource *source)
{
	const struct
	{
		const char *name;
		CUfunction *function;
		bool wanted;
	} functions[] = {
		{"k_run", &kernels->run, true},
		{"k_rehash", &kernels->rehash, strstr(source->text, "k_rehash(") != NULL},
		{"k_emit", &kernels->emit, strstr(source->text, "k_emit(") != NULL},
		{"k_rehash_pairs", &kernels->rehash_pairs, source->ndistinct > 0},
		{"k_anchor", &kernels->anchor, source->has_sums},
	};
	CUresult result = gpuscan_cuda.module_load(&kernels->module, image);
	int blocks = 0;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		if (result == CUDA_SUCCESS && functions[i].wanted)
			result = gpuscan_cuda.module_get_function(functions[i].function, kernels->module,
													  functions[i].name);
	}
	if (result == CUDA_SUCCESS)
		result = gpuscan_cuda.occupancy(&blocks, kernels->run, CUDA_THREADS, 0);
	kernels->max_grid = (uint32_t) (blocks > 0 ? blocks : 1) * (uint32_t) device->multiprocessors;
	return result;
}

GpuScanCode
gpuscan_cuda_kernels_get(GpuScanDevice *device, const CudaSource *source, CudaKernels **kernels)
{
	CudaKernelCache *cache = &device->kernels;
	CudaKernels *made;
	CudaKernels *found;
	GpuScanCode code = GPUSCAN_OK;
	char *image;
	char *log;

	pthread_mutex_lock(&cache->lock);
	*kernels = find_kernels(cache, source->text);
	pthread_mutex_unlock(&cache->lock);
	if (*kernels != NULL)
		return GPUSCAN_OK;

	made = calloc(1, sizeof(CudaKernels));
	if (made == NULL || (made->text = strdup(source->text)) == NULL)
	{
		free(made);
		return GPUSCAN_OUT_OF_MEMORY;
	}
	if (!gpuscan_cuda_compile(source->text, device->major, device->minor, &image, &log))
	{
		fprintf(stderr, "gpuscan: a kernel does not compile: %s\n", log == NULL ? "" : log);
		code = GPUSCAN_LEFT_TO_POSTGRES;
	}
	else
		code = gpuscan_cuda_code(device, load_module(device, made, image, source));
	free(image);
	free(log);
	if (code != GPUSCAN_OK)
	{
		free_kernels(made);
		return code;
	}

	pthread_mutex_lock(&cache->lock);
	found = find_kernels(cache, source->text);
	if (found == NULL)
	{
		if (cache->n >= MAX_KERNELS)
			evict_kernels(cache);
		made->users = 1;
		made->next = cache->first;
		cache->first = made;
		cache->n++;
	}
	pthread_mutex_unlock(&cache->lock);
	if (found != NULL)
		free_kernels(made);
	*kernels = found != NULL ? found : made;
	return GPUSCAN_OK;
}

void
gpuscan_cuda_kernels_release(GpuScanDevice *device, CudaKernels *kernels)
{
	pthread_mutex_lock(&device->kernels.lock);
	kernels->users--;
	pthread_mutex_unlock(&device->kernels.lock);
}

void
gpuscan_cuda_kernels_free_all(GpuScanDevice *device)
{
	CudaKernels *kernels = device->kernels.first;

	while (kernels != NULL)
	{
		CudaKernels *next = kernels->next;

		free_kernels(kernels);
		kernels = next;
	}
	device->kernels.first = NULL;
}
