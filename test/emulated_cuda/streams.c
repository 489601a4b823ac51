/*-------------------------------------------------------------------------
 *
 * streams.c
 *	  Streams of the emulated device, and what is in them but launches: copies,
 *	  fills, and memory that comes and goes in their order.
 *
 * A stream does nothing until somebody waits for it, or for another that waits
 * for an event of its; the thread that waits does the work.  Now and then a call
 * has some stream do a little sooner, at random, from EMULATED_CUDA_SEED.  So who
 * forgets to wait finds nothing done, and who relies on an order that no event
 * makes finds another one.  What several threads of the host do meets by chance.
 *
 * As on a GPU a copy from memory that is not pinned has read it when the call
 * returns, and one to such memory has written it.  Memory that is freed is
 * overwritten, that of the device when its stream comes to it; so is what is
 * allocated, which no other stream may use before that.  Pinned memory is gone at
 * once.
 *
 * What fails in a stream is the result of who waits, and of every call from then
 * on, until the context is given back.
 *
 *-------------------------------------------------------------------------
 */
#include "driver.h"
#include "emulated.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALID_HANDLE 400
#define NOT_READY 600

/* One call of so many has a stream get on, by fewer operations than this. */
#define CALLS_BETWEEN 8
#define MAX_STEPS 6

typedef struct Operation
{
	struct Operation *next;
	CUresult (*run)(void *argument);
	void *argument;
} Operation;

/* Stays when it is destroyed, since events may name it */
struct CUstream_st
{
	struct CUstream_st *next; /* of those that are not */
	Operation *first;		  /* that nobody does yet */
	Operation **last;
	uint64_t added; /* operations, */
	uint64_t done;	/* and so many of them are over */
	bool running;	/* a thread does one */
};

struct CUevent_st
{
	CUstream stream; /* NULL: not recorded */
	uint64_t number; /* that many operations of the stream are before it */
};

/* Pinned memory */
typedef struct Pinned
{
	struct Pinned *next;
	char *base;
	size_t size;
} Pinned;

typedef struct Wait
{
	CUstream stream;
	uint64_t number;
} Wait;

typedef struct Copy
{
	void *dst;
	const void *src;
	size_t size;
	char data[]; /* of memory that is not pinned */
} Copy;

typedef struct Fill
{
	void *dst;
	unsigned char value;
	size_t size;
} Fill;

/* All but what a thread that runs an operation does is under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some_done = PTHREAD_COND_INITIALIZER;
static struct CUstream_st main_stream = {.last = &main_stream.first}; /* NULL's */
static CUstream streams = &main_stream;
static uint32_t nstreams = 1;
static Pinned *pinned;
static CUresult failure;
static unsigned random_state;

static void __attribute__((constructor)) read_seed(void)
{
	const char *text = getenv("EMULATED_CUDA_SEED");

	random_state = text == NULL ? 1 : (unsigned) atoi(text);
}

static void *
allocate(size_t size)
{
	void *memory = malloc(size);

	if (memory == NULL)
		abort();
	return memory;
}

/*
 * Operations
 */

/* Does a stream's next operation, or waits for the thread that is at one; there is one.  Under the lock. */
static void
step(CUstream stream)
{
	Operation *operation = stream->first;

	if (stream->running)
	{
		pthread_cond_wait(&some_done, &lock);
		return;
	}
	stream->running = true;
	stream->first = operation->next;
	if (stream->first == NULL)
		stream->last = &stream->first;
	if (failure == CUDA_SUCCESS)
	{
		CUresult result;

		pthread_mutex_unlock(&lock);
		result = operation->run(operation->argument);
		pthread_mutex_lock(&lock);
		if (failure == CUDA_SUCCESS)
			failure = result;
	}
	free(operation->argument);
	free(operation);
	stream->running = false;
	stream->done++;
	pthread_cond_broadcast(&some_done);
}

/* Returns when a stream has done so many operations.  Under the lock. */
static void
finish(CUstream stream, uint64_t number)
{
	while (stream->done < number)
		step(stream);
}

/* Has some stream do some of what it has to.  Under the lock. */
static void
get_on(void)
{
	CUstream stream = streams;

	for (uint32_t n = (uint32_t) rand_r(&random_state) % nstreams; n > 0; n--)
		stream = stream->next;
	for (int n = rand_r(&random_state) % MAX_STEPS; n > 0; n--)
	{
		if (!stream->running && stream->done < stream->added)
			step(stream);
	}
}

static CUstream
stream_of(CUstream stream)
{
	return stream == NULL ? &main_stream : stream;
}

CUresult
emulated_enqueue(CUstream stream, CUresult (*run)(void *argument), void *argument)
{
	Operation *operation = allocate(sizeof(*operation));
	CUresult result;

	*operation = (Operation){.run = run, .argument = argument};
	stream = stream_of(stream);
	pthread_mutex_lock(&lock);
	*stream->last = operation;
	stream->last = &operation->next;
	stream->added++;
	if (rand_r(&random_state) % CALLS_BETWEEN == 0)
		get_on();
	result = failure;
	pthread_mutex_unlock(&lock);
	return result;
}

/* Waits for all that is in a stream. */
static CUresult
drain(CUstream stream)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	finish(stream, stream->added);
	result = failure;
	pthread_mutex_unlock(&lock);
	return result;
}

int
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	pthread_mutex_lock(&lock);
	failure = CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/*
 * Streams and events
 */
int
cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	CUstream s = calloc(1, sizeof(*s));

	if (s == NULL)
		abort();
	s->last = &s->first;
	pthread_mutex_lock(&lock);
	s->next = streams;
	streams = s;
	nstreams++;
	pthread_mutex_unlock(&lock);
	*stream = s;
	return CUDA_SUCCESS;
}

int
cuStreamDestroy_v2(CUstream stream)
{
	CUresult result = drain(stream);
	CUstream *link = &streams;

	pthread_mutex_lock(&lock);
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	nstreams--;
	pthread_mutex_unlock(&lock);
	return result;
}

int
cuStreamSynchronize(CUstream stream)
{
	return drain(stream_of(stream));
}

int
cuEventCreate(CUevent *event, unsigned flags)
{
	*event = calloc(1, sizeof(**event));
	if (*event == NULL)
		abort();
	return CUDA_SUCCESS;
}

int
cuEventDestroy_v2(CUevent event)
{
	free(event);
	return CUDA_SUCCESS;
}

int
cuEventRecord(CUevent event, CUstream stream)
{
	CUresult result;

	stream = stream_of(stream);
	pthread_mutex_lock(&lock);
	event->stream = stream;
	event->number = stream->added;
	result = failure;
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult
run_wait(void *argument)
{
	Wait *wait = argument;

	pthread_mutex_lock(&lock);
	finish(wait->stream, wait->number);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

int
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	Wait *wait;

	if (event->stream == NULL)
		return CUDA_SUCCESS;
	wait = allocate(sizeof(*wait));
	*wait = (Wait){event->stream, event->number};
	return emulated_enqueue(stream, run_wait, wait);
}

/* Every kernel takes a millisecond. */
int
cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	static int now;
	CUresult result = INVALID_HANDLE;

	pthread_mutex_lock(&lock);
	*ms = (float) now++;
	if (failure != CUDA_SUCCESS)
		result = failure;
	else if (start->stream != NULL && end->stream != NULL)
		result = start->stream->done >= start->number && end->stream->done >= end->number
					 ? CUDA_SUCCESS
					 : NOT_READY;
	pthread_mutex_unlock(&lock);
	if (result == NOT_READY)
		fprintf(stderr, "# emulated CUDA: nobody has waited for an event whose time is asked\n");
	return result;
}

/*
 * Memory
 */
static CUresult
run_fill(void *argument)
{
	Fill *fill = argument;

	memset(fill->dst, fill->value, fill->size);
	return CUDA_SUCCESS;
}

int
cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t size, CUstream stream)
{
	Fill *fill = allocate(sizeof(*fill));

	*fill = (Fill){(void *) dst, value, size};
	return emulated_enqueue(stream, run_fill, fill);
}

int
cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream)
{
	*pointer = (CUdeviceptr) allocate(size);
	return cuMemsetD8Async(*pointer, EMULATED_POISON, size, stream);
}

static CUresult
run_free(void *argument)
{
	void **pointer = argument;

	memset(*pointer, EMULATED_POISON, malloc_usable_size(*pointer));
	free(*pointer);
	return CUDA_SUCCESS;
}

int
cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
	void **argument = allocate(sizeof(*argument));

	*argument = (void *) pointer;
	return emulated_enqueue(stream, run_free, argument);
}

int
cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
	Pinned *piece = allocate(sizeof(*piece));
	CUresult result;

	*pointer = calloc(1, size);
	if (*pointer == NULL)
		abort();
	pthread_mutex_lock(&lock);
	*piece = (Pinned){.next = pinned, .base = *pointer, .size = size};
	pinned = piece;
	result = failure;
	pthread_mutex_unlock(&lock);
	return result;
}

int
cuMemFreeHost(void *pointer)
{
	Pinned **link = &pinned;
	Pinned *piece;

	pthread_mutex_lock(&lock);
	while ((*link)->base != pointer)
		link = &(*link)->next;
	piece = *link;
	*link = piece->next;
	pthread_mutex_unlock(&lock);
	memset(pointer, EMULATED_POISON, piece->size);
	free(pointer);
	free(piece);
	return CUDA_SUCCESS;
}

static bool
is_pinned(const void *memory)
{
	const char *p = memory;
	const Pinned *piece;

	pthread_mutex_lock(&lock);
	for (piece = pinned; piece != NULL; piece = piece->next)
	{
		if (p >= piece->base && p < piece->base + piece->size)
			break;
	}
	pthread_mutex_unlock(&lock);
	return piece != NULL;
}

static CUresult
run_copy(void *argument)
{
	Copy *copy = argument;

	memcpy(copy->dst, copy->src, copy->size);
	return CUDA_SUCCESS;
}

/* `now`: the source is the caller's again when the call returns. */
static CUresult
enqueue_copy(void *dst, const void *src, size_t size, bool now, CUstream stream)
{
	Copy *copy = allocate(sizeof(*copy) + (now ? size : 0));

	*copy = (Copy){.dst = dst, .src = src, .size = size};
	if (now)
		copy->src = memcpy(copy->data, src, size);
	return emulated_enqueue(stream, run_copy, copy);
}

int
cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	CUresult result = enqueue_copy(dst, (const void *) src, size, false, stream);

	return is_pinned(dst) ? result : cuStreamSynchronize(stream);
}

int
cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	return enqueue_copy((void *) dst, src, size, !is_pinned(src), stream);
}

int
cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
	return enqueue_copy((void *) dst, (const void *) src, size, false, stream);
}
