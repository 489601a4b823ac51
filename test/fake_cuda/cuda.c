/*
 * A CUDA driver, compiler and profiler without a GPU, for tests in t/: devices that can be
 * opened, have the host's memory, and run no kernel, so that no tuple passes a filter.
 * Files in GPUSCAN_FAKE_CUDA say what goes wrong: `broken-N`, device N fails whatever it
 * is asked; `no-compiler`, no kernel compiles; `other-driver`, only what is
 * compiled from now on can be loaded.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAUNCH_FAILED 719

static __thread uintptr_t current; /* number of the device + 1 */
static void *registered;

int
fake_exists(const char *name)
{
	const char *folder = getenv("GPUSCAN_FAKE_CUDA");
	char path[1024];

	if (folder == NULL)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

int
fake_result(void)
{
	char name[32];

	snprintf(name, sizeof(name), "broken-%d", (int) current - 1);
	return fake_exists(name) ? LAUNCH_FAILED : CUDA_SUCCESS;
}

int
cuInit(unsigned flags)
{
	return CUDA_SUCCESS;
}

int
cuDeviceGetCount(int *count)
{
	*count = 2;
	return CUDA_SUCCESS;
}

int
cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

int
cuDeviceGetName(char *name, int size, CUdevice device)
{
	snprintf(name, (size_t) size, "Fake GPU %d", device);
	return CUDA_SUCCESS;
}

int
cuDeviceTotalMem_v2(size_t *size, CUdevice device)
{
	*size = (size_t) 10 << 30;
	return CUDA_SUCCESS;
}

int
cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 1;
	return CUDA_SUCCESS;
}

int
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = (CUcontext) (uintptr_t) (device + 1);
	return CUDA_SUCCESS;
}

int
cuCtxSetCurrent(CUcontext context)
{
	current = (uintptr_t) context;
	return CUDA_SUCCESS;
}

int
cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	*pool = NULL;
	return CUDA_SUCCESS;
}

/* Portable: once for all devices */
int
cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags)
{
	if (registered == pointer)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	registered = pointer;
	return CUDA_SUCCESS;
}

int
cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned flags)
{
	*pointer = (CUdeviceptr) host;
	return registered == host ? CUDA_SUCCESS : LAUNCH_FAILED;
}

int
cuGetErrorName(CUresult error, const char **name)
{
	*name = error == LAUNCH_FAILED ? "FAKE_ERROR_LAUNCH_FAILED" : "FAKE_ERROR";
	return CUDA_SUCCESS;
}

/* The profiler's side of ranges: a line in a file for each */
static int
note_range(const char *what, const char *name)
{
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/ranges", getenv("GPUSCAN_FAKE_CUDA"));
	file = fopen(path, "a");
	if (file != NULL)
	{
		fprintf(file, "%s%s\n", what, name);
		fclose(file);
	}
	return 0;
}

int
nvtxRangePushA(const char *name)
{
	return note_range("begin ", name);
}

int
nvtxRangePop(void)
{
	return note_range("end", "");
}
