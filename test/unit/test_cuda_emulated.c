/*-------------------------------------------------------------------------
 *
 * test_cuda_emulated.c
 *	  The emulated CUDA device itself: a kernel that is right gives its result,
 *	  each mistake that a GPU would answer by hanging or with anything at all
 *	  fails the launch, and streams do nothing in an order that nobody asked for.
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
	if (result == CUDA_SUCCESS)
		result = gpuscan_cuda.stream_synchronize(NULL);
	if (result == CUDA_SUCCESS || result == LAUNCH_FAILED)
		(void) gpuscan_cuda.module_unload(module);
	/* a failure stays for as long as the context */
	(void) gpuscan_cuda.primary_context_release(0);
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

/*
 * Streams
 */
#define ROUNDS 100

/* What a chain of copies, over two streams, leaves in a number that is 0 before */
typedef struct Chain
{
	bool wait_event; /* the second stream waits for the first */
	bool wait;		 /* and the host for the second */
	bool pageable;	 /* the number is not pinned */
} Chain;

/* Returns how many times of ROUNDS the chain is not done. */
static int
count_undone(Chain chain)
{
	CUstream streams[2];
	CUevent event;
	uint64_t *numbers; /* pinned */
	int undone = 0;

	for (int i = 0; i < 2; i++)
		(void) gpuscan_cuda.stream_create(&streams[i], CU_STREAM_NON_BLOCKING, 0);
	(void) gpuscan_cuda.event_create(&event, 0);
	(void) gpuscan_cuda.host_alloc((void **) &numbers, 2 * sizeof(uint64_t), 0);
	for (int i = 0; i < ROUNDS; i++)
	{
		uint64_t pageable = 0;
		uint64_t *to = chain.pageable ? &pageable : &numbers[1];
		CUdeviceptr memory[2];

		numbers[0] = 42;
		numbers[1] = 0;
		for (int k = 0; k < 2; k++)
			(void) gpuscan_cuda.alloc_async(&memory[k], sizeof(uint64_t), streams[0]);
		(void) gpuscan_cuda.copy_to_device(memory[0], numbers, sizeof(uint64_t), streams[0]);
		(void) gpuscan_cuda.event_record(event, streams[0]);
		if (chain.wait_event)
			(void) gpuscan_cuda.stream_wait_event(streams[1], event, 0);
		(void) gpuscan_cuda.copy_on_device(memory[1], memory[0], sizeof(uint64_t), streams[1]);
		(void) gpuscan_cuda.copy_to_host(to, memory[1], sizeof(uint64_t), streams[1]);
		if (chain.wait)
			(void) gpuscan_cuda.stream_synchronize(streams[1]);
		undone += *to != 42;
		for (int k = 0; k < 2; k++)
			(void) gpuscan_cuda.stream_synchronize(streams[k]);
		for (int k = 0; k < 2; k++)
			(void) gpuscan_cuda.free_async(memory[k], streams[0]);
	}
	for (int i = 0; i < 2; i++)
		(void) gpuscan_cuda.stream_destroy(streams[i]);
	(void) gpuscan_cuda.event_destroy(event);
	(void) gpuscan_cuda.host_free(numbers);
	return undone;
}

/* The time of an event that nobody has waited for, then of one that somebody has */
static bool
has_time_when_done(void)
{
	bool early = true;
	CUevent event;
	CUdeviceptr memory;
	float ms;

	(void) gpuscan_cuda.event_create(&event, 0);
	for (int i = 0; i < ROUNDS && early; i++)
	{
		(void) gpuscan_cuda.alloc_async(&memory, 8, NULL);
		(void) gpuscan_cuda.free_async(memory, NULL);
		(void) gpuscan_cuda.event_record(event, NULL);
		early = gpuscan_cuda.event_elapsed(&ms, event, event) == CUDA_SUCCESS;
	}
	(void) gpuscan_cuda.stream_synchronize(NULL);
	return !early && gpuscan_cuda.event_elapsed(&ms, event, event) == CUDA_SUCCESS;
}

int
main(void)
{
	int undone;
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

	ok(count_undone((Chain){.wait_event = true, .wait = true}) == 0,
	   "two streams, an event between them");
	ok(count_undone((Chain){.wait_event = true, .pageable = true}) == 0,
	   "a copy to memory that is not pinned waits");
	undone = count_undone((Chain){.wait = true});
	ok(undone > ROUNDS / 4, "no event between them is noticed (%d of %d)", undone, ROUNDS);
	undone = count_undone((Chain){.wait_event = true});
	ok(undone > ROUNDS / 4, "a host that does not wait is noticed (%d of %d)", undone, ROUNDS);
	ok(has_time_when_done(), "an event has no time until it is done");
	return done_testing();
}
