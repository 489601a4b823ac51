/*-------------------------------------------------------------------------
 *
 * test_cuda_emulated.c
 *	  The emulated CUDA device itself: a kernel that is right gives its result,
 *	  and each mistake that a GPU would answer by hanging or with anything at all
 *	  fails the launch.
 *
 * Runs on that device alone.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../../cuda/cuda_device.h"
#include "unit.h"

#define THREADS 64
#define LAUNCH_FAILED 719

static uint64_t values[2 * THREADS];

/* Runs a kernel of two blocks over `values`, of which each thread has v. */
static CUresult
run(const char *body)
{
	static const char *const text =
		"#include \"kernel.h\"\n"
		"extern \"C\" __global__ void\nk_test(uint64_t *values)\n{\n"
		"\t__shared__ uint32_t shared[64];\n"
		"\tuint32_t lane = threadIdx.x & 31;\n"
		"\tuint64_t &v = values[blockIdx.x * blockDim.x + threadIdx.x];\n%s\n}\n";
	char source[4096];
	char *image;
	char *log;
	size_t size;
	CUmodule module;
	CUfunction function;
	uint64_t *argument = values;
	void *params[] = {&argument};
	CUresult result;

	snprintf(source, sizeof(source), text, body);
	if (!gpuscan_cuda_compile(source, 9, 0, &image, &size, &log))
	{
		printf("# %s\n", log);
		free(log);
		return -1;
	}
	for (uint32_t i = 0; i < 2 * THREADS; i++)
		values[i] = i;
	result = gpuscan_cuda.module_load(&module, image);
	if (result == CUDA_SUCCESS)
		result = gpuscan_cuda.module_get_function(&function, module, "k_test");
	if (result == CUDA_SUCCESS)
		result = gpuscan_cuda.launch(function, 2, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL);
	if (result == CUDA_SUCCESS || result == LAUNCH_FAILED)
		(void) gpuscan_cuda.module_unload(module);
	free(image);
	return result;
}

static void
fails(const char *name, const char *body)
{
	CUresult result = run(body);

	ok(result == LAUNCH_FAILED, "%s fails the launch (%d)", name, result);
}

/* Whether each value is expected(its number) */
static bool
all_are(uint64_t (*expected)(uint64_t))
{
	for (uint32_t i = 0; i < 2 * THREADS; i++)
	{
		if (values[i] != expected(i))
		{
			printf("# value %u is %llu\n", i, (unsigned long long) values[i]);
			return false;
		}
	}
	return true;
}

static uint64_t
neighbour(uint64_t i)
{
	return (i & ~UINT64_C(31)) | ((i + 1) % 32);
}

static uint64_t
warp_sum(uint64_t i)
{
	return 32 * (i & ~UINT64_C(31)) + 31 * 16;
}

static uint64_t
opposite(uint64_t i)
{
	return THREADS - 1 - i % THREADS;
}

static uint64_t
poison(uint64_t i)
{
	(void) i;
	return 0xA5A5A5A5;
}

static uint64_t
peers(uint64_t i)
{
	return UINT64_C(0x11111111) << i % 4;
}

int
main(void)
{
	const char *error = "";
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (driver == NULL || dlsym(driver, "emulated_warp") == NULL ||
		!gpuscan_cuda_driver_open(&error) || !gpuscan_cuda_nvrtc_open(&error))
	{
		printf("1..0 # SKIP the CUDA device is not the emulated one\n");
		return 0;
	}
	ok(run("v = __shfl_sync(0xFFFFFFFFU, v, lane + 1);") == CUDA_SUCCESS && all_are(neighbour),
	   "a shuffle");
	ok(run("for (int i = 16; i > 0; i /= 2)\n v += __shfl_xor_sync(0xFFFFFFFFU, v, i);") ==
			   CUDA_SUCCESS &&
		   all_are(warp_sum),
	   "a sum by shuffles");
	ok(run("v = __match_any_sync(0xFFFFFFFFU, lane % 4);") == CUDA_SUCCESS && all_are(peers),
	   "threads with the same value");
	ok(run("shared[threadIdx.x] = threadIdx.x;\n__syncthreads();\nv = shared[63 - threadIdx.x];") ==
			   CUDA_SUCCESS &&
		   all_are(opposite),
	   "shared memory");
	ok(run("if (v > 999)\n shared[v] = 1;\nv = shared[threadIdx.x];") == CUDA_SUCCESS &&
		   all_are(poison),
	   "shared memory that nobody wrote");

	fails("a vote of half a warp", "if (lane < 16)\n v = __any_sync(0xFFFFFFFFU, 1);");
	fails("a vote at two places", "if (lane < 16)\n v = __any_sync(0xFFFFFFFFU, 1);\n"
								  "else\n v = __any_sync(0xFFFFFFFFU, 0);");
	fails("a warp with two masks", "if (lane < 16)\n __syncwarp(0xFFFFU);\n"
								   "else\n __syncwarp(0xFFFFFFFFU);");
	fails("a thread outside its mask", "__syncwarp(1U);");
	fails("a shuffle from outside the mask",
		  "if (lane < 16)\n v = __shfl_sync(0xFFFFU, v, lane + 16);");
	fails("a barrier that a thread leaves out", "if (threadIdx.x != 7)\n __syncthreads();");
	fails("barriers at two places", "if (threadIdx.x < 32)\n __syncthreads();\n"
									"else\n __syncthreads();");
	fails("a wild store", "*(volatile int *) (uint64_t) (8 + v % 2) = 1;");
	ok(run("v = __shfl_sync(0xFFFFFFFFU, v, lane + 1);") == CUDA_SUCCESS && all_are(neighbour),
	   "the next launch is not disturbed");
	return done_testing();
}
