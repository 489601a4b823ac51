/*-------------------------------------------------------------------------
 *
 * threads.c
 *	  The threads of a thread block, each with a stack of its own, on one thread
 *	  of the host.
 *
 * One runs until it waits for others: at an operation of its warp, at a barrier
 * of the block, or asleep since another has to get on.  So that the order of
 * what they do in between is another one each time, one that comes to an atomic
 * may have to let others go first.
 *
 * Operations of a warp are done when every thread of the mask has come to the
 * same one, with the same mask and at the same place of the kernel's text.  All
 * but __syncwarp() are that strict: on a GPU threads that meet at different
 * places exchange nothing.  When nobody can go on, or a thread is gone that
 * others name in their mask, the launch fails, and it is said where each thread
 * is.  The rest of the block is left where it stands.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "emulated.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#define STACK_SIZE (256 * 1024)
#define GUARD_SIZE 4096

/* A block that runs longer hangs. */
#define MAX_SECONDS 120

/* One atomic of so many lets others go first. */
#define ATOMICS_BETWEEN 16

/* As in prelude.h */
typedef struct Index
{
	uint32_t x;
	uint32_t y;
	uint32_t z;
} Index;

typedef struct Indexes
{
	Index thread;
	Index block;
	Index block_size;
	Index grid_size;
} Indexes;

typedef enum Op
{
	OP_SYNC,
	OP_BALLOT,
	OP_SHUFFLE,
	OP_MATCH,
	OP_SUM,
	OP_MIN,
	OP_MAX,
	OP_MIN_SIGNED,
	OP_MAX_SIGNED,
	OP_AND,
	OP_OR,
	OP_XOR
} Op;

static const char *const op_names[] = {"__syncwarp",		"a vote",
									   "a shuffle",			"__match_any_sync",
									   "__reduce_add_sync", "__reduce_min_sync",
									   "__reduce_max_sync", "__reduce_min_sync",
									   "__reduce_max_sync", "__reduce_and_sync",
									   "__reduce_or_sync",	"__reduce_xor_sync"};

typedef enum State
{
	READY,
	AT_WARP,
	AT_BLOCK,
	GONE
} State;

typedef struct Thread
{
	void *stack_pointer; /* while it does not run */
	State state;
	Op op; /* AT_WARP */
	uint32_t mask;
	uint64_t value;
	uint32_t from;
	uint64_t result;
	const char *file; /* AT_WARP and AT_BLOCK: the place */
	int line;
} Thread;

/* Bits of a warp's threads */
typedef struct Warp
{
	uint32_t waiting; /* AT_WARP */
	uint32_t gone;	  /* or never there */
} Warp;

/* A host thread's; kept for the next */
typedef struct Machine
{
	struct Machine *next; /* of those that nobody uses */
	char *stacks;
	Thread threads[EMULATED_MAX_THREADS];
	Warp warps[EMULATED_MAX_THREADS / 32];
	uint32_t nthreads;
	uint32_t current;
	uint32_t at_block; /* threads that wait there */
	uint32_t gone;
	uint64_t random;
	void *stack_pointer; /* of the host's thread while one of the threads runs */
	EmulatedLaunch *launch;
	char signal_stack[64 * 1024];
} Machine;

__thread Indexes emulated_indexes __attribute__((tls_model("initial-exec")));
static __thread Machine *machine;
static _Atomic uint64_t next_seed = 1;

/*
 * Goes on at `to`, having left the way back in *from.
 */
extern void emulated_switch(void **from, void *to);
extern void emulated_switched(void);

__asm__(".text\n"
		".hidden emulated_switch\n"
		".globl emulated_switch\n"
		".hidden emulated_switched\n"
		".globl emulated_switched\n"
		"emulated_switch:\n"
		"\tpush %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n"
		"\tmov %rsp, (%rdi)\n"
		"\tmov %rsi, %rsp\n"
		"emulated_switched:\n"
		"\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n"
		"\tret\n");

static uint64_t
random_word(void)
{
	machine->random ^= machine->random << 13;
	machine->random ^= machine->random >> 7;
	machine->random ^= machine->random << 17;
	return machine->random;
}

static void
leave(void)
{
	Machine *m = machine;

	emulated_switch(&m->threads[m->current].stack_pointer, m->stack_pointer);
}

/*
 * Failures
 */
static const char *
base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash == NULL ? file : slash + 1;
}

/* Says what is wrong, once a launch. */
static bool
complain(const char *what)
{
	EmulatedLaunch *launch = machine->launch;

	if (atomic_exchange(&launch->failed, true))
		return false;
	fprintf(stderr, "# emulated CUDA: %s, thread block %u of %u, %u threads: %s\n", launch->kernel,
			emulated_indexes.block.x, launch->grid, launch->threads, what);
	return true;
}

static bool
is_at_same(const Thread *a, const Thread *b)
{
	if (a->state != b->state)
		return false;
	if (a->state != AT_WARP && a->state != AT_BLOCK)
		return true;
	return a->line == b->line && strcmp(a->file, b->file) == 0 &&
		   (a->state == AT_BLOCK || (a->op == b->op && a->mask == b->mask));
}

/* Where all threads are, those at the same place in one line */
static void
print_threads(void)
{
	for (uint32_t i = 0, end; i < machine->nthreads; i = end)
	{
		const Thread *t = &machine->threads[i];

		for (end = i + 1; end < machine->nthreads && end / 32 == i / 32; end++)
		{
			if (!is_at_same(t, &machine->threads[end]))
				break;
		}
		fprintf(stderr, "#   threads %u to %u (warp %u): ", i, end - 1, i / 32);
		if (t->state == AT_WARP)
			fprintf(stderr, "at %s, %s:%d, mask %08x\n", op_names[t->op], base_name(t->file),
					t->line, t->mask);
		else if (t->state == AT_BLOCK)
			fprintf(stderr, "at __syncthreads, %s:%d\n", base_name(t->file), t->line);
		else
			fprintf(stderr, t->state == GONE ? "gone\n" : "running\n");
	}
}

/* The running thread's; the block ends here. */
static void
fail(const char *what)
{
	if (complain(what))
		print_threads();
	leave();
	abort();
}

void
emulated_trap(const char *why, const char *file, int line)
{
	char what[512];

	snprintf(what, sizeof(what), "thread %u at %s:%d: %s", machine->current, base_name(file), line,
			 why);
	fail(what);
}

/* A fault of the processor in a thread of a kernel ends the launch, as on a GPU. */
static void
on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *where = context;
	Machine *m = machine;
	char what[128];

	if (m == NULL)
	{
		signal(number, SIG_DFL);
		return;
	}
	snprintf(what, sizeof(what), "thread %u: %s at address %p", m->current, strsignal(number),
			 info->si_addr);
	(void) complain(what);
	where->uc_mcontext.gregs[REG_RSP] = (greg_t) (uintptr_t) m->stack_pointer;
	where->uc_mcontext.gregs[REG_RIP] = (greg_t) (uintptr_t) emulated_switched;
}

static void
catch_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	sigaction(SIGILL, &action, NULL);
}

/*
 * What kernels call
 */
void
emulated_nanosleep(void)
{
	leave();
}

void
emulated_atomic(void)
{
	if (random_word() % ATOMICS_BETWEEN == 0)
		leave();
}

void
emulated_block(const char *file, int line)
{
	Thread *self = &machine->threads[machine->current];

	self->state = AT_BLOCK;
	self->file = file;
	self->line = line;
	if (++machine->at_block < machine->nthreads)
	{
		leave();
		return;
	}
	for (uint32_t i = 0; i < machine->nthreads; i++)
	{
		if (!is_at_same(self, &machine->threads[i]))
			fail("threads are at different calls of __syncthreads");
	}
	for (uint32_t i = 0; i < machine->nthreads; i++)
		machine->threads[i].state = READY;
	machine->at_block = 0;
}

/* Gives the threads of a mask, which are all there, their results. */
static void
do_warp(Thread *warp, Op op, uint32_t mask)
{
	const uint64_t first = warp[__builtin_ctz(mask)].value;
	uint64_t all = op == OP_SUM || op == OP_BALLOT ? 0 : first;

	for (uint32_t i = 0; i < 32; i++)
	{
		uint64_t value = warp[i].value;

		if ((mask >> i & 1) == 0)
			continue;
		switch (op)
		{
			case OP_BALLOT:
				all |= value << i;
				break;
			case OP_SUM:
				all += value;
				break;
			case OP_MIN:
				all = value < all ? value : all;
				break;
			case OP_MAX:
				all = value > all ? value : all;
				break;
			case OP_MIN_SIGNED:
				all = (int64_t) value < (int64_t) all ? value : all;
				break;
			case OP_MAX_SIGNED:
				all = (int64_t) value > (int64_t) all ? value : all;
				break;
			case OP_AND:
				all &= value;
				break;
			case OP_OR:
				all |= value;
				break;
			case OP_XOR:
				all ^= i == (uint32_t) __builtin_ctz(mask) ? 0 : value;
				break;
			default:
				break;
		}
	}
	for (uint32_t i = 0; i < 32; i++)
	{
		Thread *t = &warp[i];

		if ((mask >> i & 1) == 0)
			continue;
		t->result = all;
		if (op == OP_MATCH)
		{
			t->result = 0;
			for (uint32_t k = 0; k < 32; k++)
			{
				if ((mask >> k & 1) != 0 && warp[k].value == t->value)
					t->result |= UINT64_C(1) << k;
			}
		}
		else if (op == OP_SHUFFLE)
		{
			if ((mask >> t->from & 1) == 0)
				fail("a shuffle reads from a thread that is not in its mask");
			t->result = warp[t->from].value;
		}
		t->state = READY;
	}
}

/* Whether the threads of a mask, which all wait, do so for each other */
static bool
have_met(const Thread *warp, const Thread *self)
{
	for (uint32_t rest = self->mask; rest != 0; rest &= rest - 1)
	{
		const Thread *t = &warp[__builtin_ctz(rest)];

		if (t->op != self->op || t->mask != self->mask ||
			(t->op != OP_SYNC && (t->line != self->line ||
								  (t->file != self->file && strcmp(t->file, self->file) != 0))))
			return false;
	}
	return true;
}

uint64_t
emulated_warp(Op op, uint32_t mask, uint64_t value, uint32_t from, const char *file, int line)
{
	Machine *m = machine;
	Thread *self = &m->threads[m->current];
	Thread *warp = self - m->current % 32;
	Warp *lanes = &m->warps[m->current / 32];

	self->op = op;
	self->mask = mask;
	self->value = value;
	self->from = from;
	self->file = file;
	self->line = line;
	self->state = AT_WARP;
	lanes->waiting |= 1U << m->current % 32;
	if ((mask >> m->current % 32 & 1) == 0)
		fail("a thread is not in its own mask");
	if ((lanes->gone & mask) != 0)
		fail("a thread of the mask is gone");
	if ((lanes->waiting & mask) == mask && have_met(warp, self))
	{
		do_warp(warp, op, mask);
		lanes->waiting &= ~mask;
	}
	else
		leave();
	return self->result;
}

/*
 * Blocks
 */

/* The first function on a thread's stack */
static void
thread_main(void)
{
	Machine *m = machine;

	m->launch->call(m->launch->params);
	m->threads[m->current].state = GONE;
	m->warps[m->current / 32].gone |= 1U << m->current % 32;
	m->gone++;
	leave();
	abort();
}

static void
start_threads(Machine *m)
{
	for (uint32_t i = 0; i < m->nthreads; i++)
	{
		/* not all at the same places of the processor's caches */
		char *top = m->stacks + (size_t) (i + 1) * STACK_SIZE - (size_t) (i % 64) * 448;
		void **stack = (void **) (top - 128);

		/* as emulated_switch() leaves it: six registers, the way back, and what called it */
		memset(stack, 0, 128);
		stack[6] = (void *) (uintptr_t) thread_main;
		m->threads[i] = (Thread){.stack_pointer = stack, .state = READY};
	}
	for (uint32_t w = 0; w < (m->nthreads + 31) / 32; w++)
	{
		uint32_t n = m->nthreads - w * 32;

		m->warps[w] = (Warp){.gone = n < 32 ? ~0U << n : 0};
	}
	m->gone = 0;
	m->at_block = 0;
}

static Machine *
make_machine(void)
{
	Machine *m = calloc(1, sizeof(Machine));
	size_t size = (size_t) EMULATED_MAX_THREADS * STACK_SIZE;

	if (m == NULL)
		abort();
	m->stacks = mmap(NULL, size, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->stacks == MAP_FAILED)
		abort();
	for (size_t at = 0; at < size; at += STACK_SIZE)
		(void) mprotect(m->stacks + at, GUARD_SIZE, PROT_NONE);
	m->random = 0x9E3779B97F4A7C15 * atomic_fetch_add(&next_seed, 1);
	return m;
}

static Machine *idle;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static Machine *
take_machine(void)
{
	Machine *m;

	pthread_mutex_lock(&idle_lock);
	m = idle;
	if (m != NULL)
		idle = m->next;
	pthread_mutex_unlock(&idle_lock);
	return m != NULL ? m : make_machine();
}

static void
give_machine(Machine *m)
{
	m->launch = NULL;
	pthread_mutex_lock(&idle_lock);
	m->next = idle;
	idle = m;
	pthread_mutex_unlock(&idle_lock);
}

static void
run_block(Machine *m)
{
	time_t start = time(NULL);
	uint32_t passes = 0;

	start_threads(m);
	while (m->gone < m->nthreads)
	{
		uint32_t first = (uint32_t) random_word() % m->nthreads;
		bool any = false;

		for (uint32_t k = 0; k < m->nthreads; k++)
		{
			uint32_t i = first + k < m->nthreads ? first + k : first + k - m->nthreads;

			if (m->threads[i].state != READY)
				continue;
			any = true;
			m->current = i;
			emulated_indexes.thread.x = i;
			emulated_switch(&m->stack_pointer, m->threads[i].stack_pointer);
			if (atomic_load_explicit(&m->launch->failed, memory_order_relaxed))
				return;
		}
		if (!any || (++passes % 4096 == 0 && time(NULL) - start > MAX_SECONDS))
		{
			if (complain(any ? "it does not end" : "threads wait for each other"))
				print_threads();
			return;
		}
	}
	if (!emulated_shared_check(m->launch))
		(void) complain("it wrote beyond the launch's dynamic shared memory");
}

void
emulated_run_blocks(EmulatedLaunch *launch)
{
	Machine *m = take_machine();
	stack_t signals = {.ss_sp = m->signal_stack, .ss_size = sizeof(m->signal_stack)};
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	stack_t before;
	uint32_t block;

	(void) pthread_once(&once, catch_faults);
	m->launch = launch;
	m->nthreads = launch->threads;
	machine = m;
	(void) sigaltstack(&signals, &before);
	while ((block = atomic_fetch_add(&launch->next, 1)) < launch->grid &&
		   !atomic_load(&launch->failed))
	{
		emulated_indexes = (Indexes){.block = {block, 0, 0},
									 .block_size = {launch->threads, 1, 1},
									 .grid_size = {launch->grid, 1, 1}};
		emulated_shared_clear(launch);
		run_block(m);
	}
	(void) sigaltstack(&before, NULL);
	machine = NULL;
	give_machine(m);
}
