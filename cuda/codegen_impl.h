/*-------------------------------------------------------------------------
 *
 * codegen_impl.h
 *	  What the files of code generation share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_CODEGEN_IMPL_H
#define GPUSCAN_CUDA_CODEGEN_IMPL_H

#include <stdio.h>
#include <stdlib.h>

#include "codegen.h"

/* Where an aggregate keeps what in a group's row on the device */
typedef struct AggPlace
{
	uint32_t counter; /* of arguments that count or, without a filter, that do not; 0: none */
	uint32_t state;
	uint32_t windows;  /* of a float sum */
	uint32_t distinct; /* number of its table */

	/* Words of a slot in shared memory; of `counter`, 0: none */
	uint32_t slot_counter;
	uint32_t slot_state;
	uint32_t slot_quick; /* of a float sum */
} AggPlace;

typedef struct Generator
{
	FILE *out;
	const CpuPlan *plan;
	const GpuScanProgram *program;
	const uint8_t *classes;
	CudaSource *source;
	AggPlace *places;
	uint32_t *key_offsets;
	uint32_t count_offset;
	uint32_t nshapes;
	uint32_t first_of_shape[CUDA_MAX_SHAPES]; /* a layout of each shape */
	uint32_t slot_keys;						  /* words of a slot: of the first key */
	uint32_t slot_count;					  /* of the count of tuples */
	uint32_t slot_quick;					  /* the first quick word */
	uint32_t slot_words;					  /* all of them */
} Generator;

#define EMIT(...) fprintf(g->out, __VA_ARGS__)

static inline bool
is_float(unsigned cls)
{
	return cls == GPUSCAN_F32 || cls == GPUSCAN_F64;
}

/* A key or argument of 32 bits */
static inline bool
is_short(unsigned cls)
{
	return cls == GPUSCAN_I32 || cls == GPUSCAN_BOOL;
}

/* The type of a register of each class, codegen.c */
extern const char *const gpuscan_cuda_types[GPUSCAN_NUM_CLASSES];

/*
 * codegen.c
 */
extern void gpuscan_cuda_emit_params(Generator *g);
extern void gpuscan_cuda_emit_instr(Generator *g, const GpuScanInstr *instr);
extern void gpuscan_cuda_emit_keys(Generator *g);
extern void gpuscan_cuda_emit_find_row(Generator *g);
extern void gpuscan_cuda_emit_selections(Generator *g);
extern void gpuscan_cuda_emit_local_merge(Generator *g);

/* Advances a thread's state of aggregate i by its argument, if sI. */
extern void gpuscan_cuda_emit_local_advance(Generator *g, int i);

/* What both kernels do with a tuple whose row is known: room, then states, or what Found needs */
extern void gpuscan_cuda_emit_row(Generator *g, bool local, bool advances);

/*
 * codegen_cached.c
 */

/* Decides on threads and slots of the kernel over cached columns. */
extern void gpuscan_cuda_place_cached(Generator *g);

/* What comes before the keys' struct; the kernel; that of a scan */
extern void gpuscan_cuda_emit_cached_head(Generator *g);
extern void gpuscan_cuda_emit_cached(Generator *g);
extern void gpuscan_cuda_emit_seek(Generator *g);

/* True if a phase loads an input, a key's text, only where the group's slot does not say enough. */
extern bool gpuscan_cuda_is_lazy(const Generator *g, int phase, const GpuScanInput *input);

/*
 * codegen_slot.c
 */

/* The input that is a register, or -1 */
extern int gpuscan_cuda_input_of(const Generator *g, uint16_t reg);

/* Places a slot's words; false if groups cannot be kept in slots. */
extern bool gpuscan_cuda_place_slot(Generator *g);

/* Members of Keys; finding a slot, advancing one, and at the end of a thread block all of them */
extern void gpuscan_cuda_emit_slot_keys(Generator *g);
extern void gpuscan_cuda_emit_find_slot(Generator *g);
extern void gpuscan_cuda_emit_slot_advance(Generator *g);
extern void gpuscan_cuda_emit_flush(Generator *g);

/* The way of usual rows, if there is one: what lasts, and its functions */
extern bool gpuscan_cuda_has_quick(const Generator *g);
extern void gpuscan_cuda_emit_quick_state(Generator *g);
extern void gpuscan_cuda_emit_quick(Generator *g);

/*
 * codegen_group.c
 */

/* The limit of a float sum's exponents; if it advances by an argument; if another has its counter */
extern const char *gpuscan_cuda_sum_limit(const GpuScanAgg *agg);
extern bool gpuscan_cuda_counted_before(const Generator *g, int i);

/* Lays a group's row out. */
extern void gpuscan_cuda_place_states(Generator *g);

/* The struct of aggregate.h of an aggregate's state */
extern const char *gpuscan_cuda_state_type(const GpuScanAgg *agg);

/* Of k_run: the struct Found; finding room for a tuple; filling Found; the advance */
extern void gpuscan_cuda_emit_found_struct(Generator *g, bool local);
extern void gpuscan_cuda_emit_prepare(Generator *g);
extern void gpuscan_cuda_emit_found(Generator *g);
extern void gpuscan_cuda_emit_advance(Generator *g, bool local);

/* Kernels */
extern void gpuscan_cuda_emit_rehash(Generator *g);
extern void gpuscan_cuda_emit_rehash_pairs(Generator *g);
extern void gpuscan_cuda_emit_anchor(Generator *g);
extern void gpuscan_cuda_emit_emit(Generator *g);

#endif /* GPUSCAN_CUDA_CODEGEN_IMPL_H */
