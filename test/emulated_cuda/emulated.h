/*-------------------------------------------------------------------------
 *
 * emulated.h
 *	  What the parts of the emulated device share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_EMULATED_H
#define GPUSCAN_EMULATED_H

#include "driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What nobody has written yet has these bytes. */
#define EMULATED_POISON 0xA5

#define EMULATED_MAX_THREADS 1024

typedef struct EmulatedLaunch
{
	const char *kernel;
	void (*call)(void **params); /* the kernel, by one of its threads */
	void **params;
	uint32_t grid; /* thread blocks */
	uint32_t threads;
	uint32_t shared; /* bytes of dynamic shared memory */
	CUmodule module;
	_Atomic uint32_t next; /* the first thread block that has not begun */
	atomic_bool failed;	   /* it has been said why */
} EmulatedLaunch;

/* Runs thread blocks on the calling thread of the host until there is none left. */
extern void emulated_run_blocks(EmulatedLaunch *launch);

/*
 * Shared memory on the calling thread, before a block and behind it; false: the block wrote
 * beyond what the launch has.
 */
extern void emulated_shared_clear(EmulatedLaunch *launch);
extern bool emulated_shared_check(EmulatedLaunch *launch);

/*
 * Puts something into a stream: what it does, with an argument that is malloc's and freed then.
 * The result is that of the call of the driver: nothing is done behind something that failed.
 */
extern CUresult
emulated_enqueue(CUstream stream, CUresult (*run)(void *argument), void *argument);

#endif /* GPUSCAN_EMULATED_H */
