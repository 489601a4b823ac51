/*-------------------------------------------------------------------------
 *
 * driver.c
 *	  Opening libcuda, NVRTC and NVTX.
 *
 * NVRTC's file name carries the major version of CUDA, and a toolkit outside
 * the loader's path is looked for at its usual place.
 *
 * NVTX 3 is a header for those who link: it loads what NVTX_INJECTION64_PATH
 * names, which a profiler sets for what it starts, and else does nothing.  The
 * toolkit has the same as a library, which we open where that variable is set.
 *
 *-------------------------------------------------------------------------
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>

CudaDriver gpuscan_cuda;
CudaNvrtc gpuscan_nvrtc;
static CudaNvtx nvtx;

static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
										  "/usr/local/cuda/lib64/libnvrtc.so", NULL};
static const char *const nvtx_names[] = {"libnvtx3interop.so.1", "libnvToolsExt.so.1",
										 "/usr/local/cuda/lib64/libnvtx3interop.so.1",
										 "/usr/local/cuda/lib64/libnvToolsExt.so.1", NULL};

static void *
open_library(const char *const *names)
{
	void *library = NULL;

	for (; library == NULL && *names != NULL; names++)
		library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
	return library;
}

/* Fills a member; an object pointer becomes one to a function as POSIX has it. */
static bool
find_symbol(void *library, const char *name, void *member)
{
	*(void **) member = dlsym(library, name);
	return *(void **) member != NULL;
}

#define FIND(table, member, name) find_symbol(library, #name, &(table).member)

static void
open_nvtx(void)
{
	void *library = getenv("NVTX_INJECTION64_PATH") == NULL ? NULL : open_library(nvtx_names);
	CudaNvtx found;

	if (library == NULL)
		return;
#define F(member, name, args)                                                                      \
	if (!FIND(found, member, name))                                                                \
		return;
	CUDA_NVTX_FUNCTIONS(F)
#undef F
	nvtx = found;
}

void
gpuscan_nvtx_push(const char *name)
{
	if (nvtx.range_push != NULL)
		(void) nvtx.range_push(name);
}

void
gpuscan_nvtx_pop(void)
{
	if (nvtx.range_pop != NULL)
		(void) nvtx.range_pop();
}

bool
gpuscan_cuda_driver_open(const char **error)
{
	static void *library;

	if (library != NULL)
		return true;
	library = open_library(driver_names);
	if (library == NULL)
	{
		*error = "there is no CUDA driver (libcuda.so.1)";
		return false;
	}
#define F(member, name, args)                                                                      \
	if (!FIND(gpuscan_cuda, member, name))                                                         \
	{                                                                                              \
		*error = "the CUDA driver is too old: it has no " #name;                                   \
		dlclose(library);                                                                          \
		library = NULL;                                                                            \
		return false;                                                                              \
	}
	CUDA_DRIVER_FUNCTIONS(F)
#undef F
	open_nvtx();
	return true;
}

bool
gpuscan_cuda_nvrtc_open(const char **error)
{
	static void *library;

	if (library != NULL)
		return true;
	library = open_library(nvrtc_names);
	if (library == NULL)
	{
		*error = "there is no CUDA run-time compiler (libnvrtc.so)";
		return false;
	}
#define F(member, name, args)                                                                      \
	if (!FIND(gpuscan_nvrtc, member, name))                                                        \
	{                                                                                              \
		*error = "the CUDA run-time compiler is too old: it has no " #name;                        \
		dlclose(library);                                                                          \
		library = NULL;                                                                            \
		return false;                                                                              \
	}
	CUDA_NVRTC_FUNCTIONS(F)
#undef F
	return true;
}
