/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  Memory that counts against its request's limit and the device's.
 *
 * Small pieces come from malloc.  Pieces of some megabytes are mapped at
 * boundaries of huge pages, and the kernel is asked to use them: a group
 * table is read at random, and each access beyond the TLB's reach costs twice.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t) 2 * 1024 * 1024)
#define ARENA_CHUNK_MIN ((size_t) 4 * 1024)
#define ARENA_CHUNK_MAX ((size_t) 1024 * 1024)

typedef struct CpuArenaChunk
{
	struct CpuArenaChunk *previous;
	size_t size; /* with this header */
	size_t used;
} CpuArenaChunk;

static void
uncharge(CpuMemory *memory, size_t size)
{
	atomic_fetch_sub_explicit(&memory->used, size, memory_order_relaxed);
	atomic_fetch_sub_explicit(memory->device_used, size, memory_order_relaxed);
}

static bool
charge(CpuMemory *memory, size_t size)
{
	uint64_t used = atomic_fetch_add_explicit(&memory->used, size, memory_order_relaxed) + size;
	uint64_t device_used =
		atomic_fetch_add_explicit(memory->device_used, size, memory_order_relaxed);
	uint64_t peak = atomic_load_explicit(&memory->peak, memory_order_relaxed);

	if (used > memory->limit || device_used + size > memory->device_limit)
	{
		uncharge(memory, size);
		return false;
	}
	while (used > peak &&
		   !atomic_compare_exchange_weak_explicit(&memory->peak, &peak, used, memory_order_relaxed,
												  memory_order_relaxed))
		;
	return true;
}

/* Maps more than asked for and gives back what lies beyond the boundaries. */
static void *
map_huge(size_t size)
{
	char *start =
		mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (start == MAP_FAILED)
		return NULL;
	before = (HUGE_PAGE - (uintptr_t) start % HUGE_PAGE) % HUGE_PAGE;
	if (before > 0)
		munmap(start, before);
	munmap(start + before + size, HUGE_PAGE - before);
	(void) madvise(start + before, size, MADV_HUGEPAGE);
	return start + before;
}

static size_t
round_up(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

void *
gpuscan_cpu_alloc(CpuMemory *memory, size_t size)
{
	void *pointer;

	if (size > memory->limit || !charge(memory, size))
		return NULL;
	if (size >= HUGE_PAGE)
		pointer = map_huge(round_up(size, HUGE_PAGE));
	else
	{
		pointer = aligned_alloc(64, round_up(size, 64));
		if (pointer != NULL)
			memset(pointer, 0, size);
	}
	if (pointer == NULL)
		uncharge(memory, size);
	return pointer;
}

void
gpuscan_cpu_free(CpuMemory *memory, void *pointer, size_t size)
{
	if (pointer == NULL)
		return;
	if (size >= HUGE_PAGE)
		munmap(pointer, round_up(size, HUGE_PAGE));
	else
		free(pointer);
	uncharge(memory, size);
}

/* NULL: out of memory. */
CpuBytes *
gpuscan_cpu_arena_copy(CpuArena *arena, const char *data, uint32_t len)
{
	size_t need = round_up(sizeof(CpuBytes) + len, 8);
	CpuArenaChunk *chunk = arena->last;
	CpuBytes *bytes;

	if (chunk == NULL || chunk->size - chunk->used < need)
	{
		size_t size = chunk == NULL ? ARENA_CHUNK_MIN : chunk->size * 2;

		if (size > ARENA_CHUNK_MAX)
			size = ARENA_CHUNK_MAX;
		if (size < sizeof(CpuArenaChunk) + need)
			size = sizeof(CpuArenaChunk) + need;
		chunk = gpuscan_cpu_alloc(arena->memory, size);
		if (chunk == NULL)
			return NULL;
		chunk->previous = arena->last;
		chunk->size = size;
		chunk->used = sizeof(CpuArenaChunk);
		arena->last = chunk;
	}
	bytes = (CpuBytes *) ((char *) chunk + chunk->used);
	chunk->used += need;
	bytes->len = len;
	if (len > 0)
		memcpy(bytes->data, data, len);
	return bytes;
}

void
gpuscan_cpu_arena_free(CpuArena *arena)
{
	CpuArenaChunk *chunk = arena->last;

	while (chunk != NULL)
	{
		CpuArenaChunk *previous = chunk->previous;

		gpuscan_cpu_free(arena->memory, chunk, chunk->size);
		chunk = previous;
	}
	arena->last = NULL;
}
