/*
 * Modules and a compiler for devices that run no kernel.
 */
#include "fake.h"

#include <string.h>

#define NO_BINARY_FOR_GPU 209

int
cuModuleLoadData(CUmodule *module, const void *image)
{
	*module = NULL;
	return *(const char *) image == fake_exists("other-driver") ? fake_result() : NO_BINARY_FOR_GPU;
}

int
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
											size_t shared)
{
	*blocks = 1;
	return fake_result();
}

int
nvrtcVersion(int *major, int *minor)
{
	*major = 13;
	*minor = 0;
	return 0;
}

int
nvrtcCompileProgram(nvrtcProgram program, int noptions, const char *const *options)
{
	return fake_exists("no-compiler") ? 6 : 0;
}

int
nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
	*size = 64;
	return 0;
}

int
nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
	memset(cubin, fake_exists("other-driver"), 64);
	return 0;
}

#define LOG "the fake compiler compiles nothing"

int
nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
	*size = sizeof(LOG);
	return 0;
}

int
nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
	memcpy(log, LOG, sizeof(LOG));
	return 0;
}
