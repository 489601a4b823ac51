/*
 * Memory of devices whose streams are empty: copies are made at once.
 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

int
cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream)
{
	void *memory = malloc(size);

	/* it is not cleared, as on a GPU */
	memset(memory, 0xA5, size);
	*pointer = (CUdeviceptr) memory;
	return fake_result();
}

int
cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
	free((void *) pointer);
	return fake_result();
}

int
cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
	*pointer = calloc(1, size);
	return fake_result();
}

int
cuMemFreeHost(void *pointer)
{
	free(pointer);
	return fake_result();
}

int
cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	memcpy(dst, (const void *) src, size);
	return fake_result();
}

int
cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	memcpy((void *) dst, src, size);
	return fake_result();
}

int
cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
	memcpy((void *) dst, (const void *) src, size);
	return fake_result();
}

int
cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t size, CUstream stream)
{
	memset((void *) dst, value, size);
	return fake_result();
}

/* Every kernel takes a millisecond. */
int
cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	static _Atomic int now;

	*ms = (float) now++;
	return fake_result();
}
