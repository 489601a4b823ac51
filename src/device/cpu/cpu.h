/*-------------------------------------------------------------------------
 *
 * cpu.h
 *	  What the files of the cpu device share.
 *
 * A CpuPlan is made of a Program once per request and never changes.  Every
 * worker thread that takes part in a request has a CpuPartial of its own:
 * registers for one chunk of tuples, a group table, and sets for
 * count(DISTINCT).  Only CpuMemory and the request's few counters are shared.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CPU_H
#define GPUSCAN_CPU_H

#include <stdatomic.h>

#include "aggregate.h"
#include "device/device.h"
#include "program/bytes.h"
#include "program/op.h"
#include "scalar.h"

/* Tuples that run through the Program at a time: their registers stay in the L2 cache. */
#define CPU_CHUNK 1024

/* Tables are merged in at most 1 << CPU_PARTITION_BITS tasks. */
#define CPU_PARTITION_BITS 6

/* A function that is compiled for wider vectors as well, and chosen at run time.
 * The sanitizers do not work with the resolvers of cloned functions. */
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) &&              \
	!defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define CLONES __attribute__((target_clones("default", "avx2")))
#endif
#else
#define CLONES
#endif

/*
 * memory.c: memory that counts against a request's limit.  Thread-safe.
 */
typedef struct CpuMemory
{
	uint64_t limit;
	uint64_t device_limit;
	_Atomic uint64_t *device_used; /* by all requests */
	_Atomic uint64_t used;
	_Atomic uint64_t peak;
} CpuMemory;

/* Zeroed, aligned to 64 bytes; NULL beyond a limit. */
extern void *gpuscan_cpu_alloc(CpuMemory *memory, size_t size);
extern void gpuscan_cpu_free(CpuMemory *memory, void *pointer, size_t size);

/* Bytes that outlive the page they came from. */
typedef struct CpuBytes
{
	uint32_t len;
	char data[];
} CpuBytes;

typedef struct CpuArena
{
	CpuMemory *memory;
	struct CpuArenaChunk *last;
} CpuArena;

extern CpuBytes *gpuscan_cpu_arena_copy(CpuArena *arena, const char *data, uint32_t len);
extern void gpuscan_cpu_arena_free(CpuArena *arena);

/*
 * plan.c: the Program, taken apart.
 *
 * What the filter needs runs over every tuple, the rest over those it kept:
 * two phases, each with its inputs and instructions.  A third one has all inputs,
 * for the cache.
 */
typedef enum CpuPhaseNumber
{
	CPU_FILTER,
	CPU_REST,
	CPU_FILL,
	CPU_NUM_PHASES
} CpuPhaseNumber;

typedef struct CpuPhase
{
	uint16_t ninputs;
	uint16_t ninstrs;
	GpuScanInput *inputs; /* sorted by column */
	GpuScanInstr *instrs;
} CpuPhase;

/* A column that a phase reads from a layout's tuples. */
typedef struct CpuFetch
{
	uint16_t att;
	bool fixed;			  /* at `offset` in every tuple without NULLs */
	uint16_t first_input; /* the phase's inputs that read it */
	uint16_t ninputs;
	uint32_t offset;
	GsText missing; /* value where the tuple has too few attributes; p NULL: NULL */
} CpuFetch;

/* One layout as one phase reads it. */
typedef struct CpuDecode
{
	const GpuScanAttr *attrs;
	uint16_t natts;	 /* up to the last attribute that the phase needs */
	uint16_t nfixed; /* leading attributes at constant offsets */
	uint16_t nfetches;
	uint32_t fixed_size;   /* bytes of the leading attributes */
	CpuFetch *fetches;	   /* by attribute number */
	int16_t *fetch_of_att; /* -1: not needed */
} CpuDecode;

/* What reads a register besides the filter */
typedef enum CpuKeyUse
{
	CPU_NO_KEY,
	CPU_KEY_AND_MORE,
	CPU_ONLY_KEY
} CpuKeyUse;

/* Integers that a register may have, or the codes of a text; size 0: unknown */
typedef struct CpuDomain
{
	uint64_t first;
	uint64_t size;
	const GpuScanDictionary *dictionary;
} CpuDomain;

/*
 * A COUNT_DISTINCT where groups have numbers and values are few: a bit for each pair
 * that was seen, of all threads.  No words: there are none.
 */
typedef struct CpuBits
{
	_Atomic uint64_t *words;
	size_t size; /* in bytes */
	uint64_t ngroups;
	CpuDomain values;
} CpuBits;

typedef struct CpuPlan
{
	const GpuScanProgram *program;
	CpuPhase phases[CPU_NUM_PHASES];
	uint16_t ncarried;
	uint16_t *carried; /* registers that the rest takes over from the filter */
	uint16_t nlast;
	uint16_t *last;		  /* registers that keys and aggregates read */
	uint16_t max_fetches; /* of any CpuDecode */
	uint32_t nlayouts;
	CpuDecode (*layouts)[CPU_NUM_PHASES];
	const GpuScanLayout *const *layout_sources;
	uint16_t *input_of_reg; /* its number in the Program, of registers that are inputs */
	uint8_t *key_use;		/* of each register, a CpuKeyUse */
	CpuDomain *domains;		/* of the keys, if all of them are known: */
	uint64_t nnumbers;		/* how many values they have together; 0: too many, or unknown */
	struct CpuBits *bits;	/* of each COUNT_DISTINCT */
	uint32_t nparts;		/* of the groups; each has a partial of its own for cached ranges */
	uint32_t nbins;			/* by which cached tuples are set apart; 0: they are not */
	uint32_t bin_shift;		/* a bin is a number without so many bits */
	GpuScanPass pass;
	bool needs_check;	/* states must be looked at before the end */
	bool summarized;	/* headers of chunks may tell what the aggregates need */
	uint16_t ndistinct; /* COUNT_DISTINCT aggregates */
	uint32_t threads;
	uint64_t tuples_expected; /* of each thread; 0: unknown */
	uint64_t groups_expected; /* 0: unknown */
} CpuPlan;

/* NULL: out of memory. */
extern CpuPlan *gpuscan_cpu_plan_create(const GpuScanRequestOptions *options);
extern void gpuscan_cpu_plan_free(CpuPlan *plan);

static inline bool
gpuscan_cpu_block_is_valid(const CpuPlan *plan, const GpuScanBlock *block)
{
	return block->layout < plan->nlayouts && block->size <= INT32_MAX;
}

/*
 * What a segment keeps of its ranges, so that a request need not look at each of
 * them, index.c.  False: out of memory.
 */
extern bool gpuscan_cpu_segment_prepare(GpuScanCachedSegment *segment, uint32_t ninputs);
extern void gpuscan_cpu_segment_forget(GpuScanDevice *device, GpuScanCachedSegment *segment);

/* Learns from segments what values keys have, before any thread sees the plan; index.c. */
extern void gpuscan_cpu_plan_numbers(CpuPlan *plan, GpuScanCachedSegment *const *segments,
									 uint32_t nsegments, CpuMemory *memory);

/* When no tuple will come any more. */
extern void gpuscan_cpu_plan_free_bits(CpuPlan *plan, CpuMemory *memory);

/* How a layout's tuples have a phase's inputs.  False: out of memory; free it all the same. */
extern bool
gpuscan_cpu_decode_create(CpuDecode *decode, const GpuScanLayout *layout, const CpuPhase *phase);
extern void gpuscan_cpu_decode_free(CpuDecode *decode);

/*
 * Registers, eval.c
 */
typedef struct CpuRegister
{
	void *values;
	uint8_t *flags; /* `own`, or zeros where clean */
	uint8_t *own;
	bool clean; /* no flag is set in this chunk */
} CpuRegister;

extern const uint8_t gpuscan_cpu_zeros[CPU_CHUNK];

/* Says which flags a register has after `own` was written; `any` is their union. */
static inline void
cpu_set_flags(CpuRegister *reg, uint8_t any)
{
	reg->clean = any == 0;
	reg->flags = any == 0 ? (uint8_t *) gpuscan_cpu_zeros : reg->own;
}

/* Lists those of a chunk's tuples whose byte is 1, and not 0; returns how many. */
extern uint32_t gpuscan_cpu_list(const uint8_t *chosen, uint32_t n, uint16_t *list);

/* Moves the values of some tuples, ascending, to the front of a register, perhaps the same. */
extern void gpuscan_cpu_gather(CpuRegister *to, const CpuRegister *from, unsigned cls,
							   const uint16_t *some, uint32_t n);

/* Runs a phase's instructions over n tuples. */
extern void gpuscan_cpu_eval(const GpuScanProgram *program, const CpuPhase *phase,
							 CpuRegister *registers, uint32_t n);

/* Fills the registers of parameters, for whole chunks. */
extern void gpuscan_cpu_load_params(const GpuScanProgram *program, CpuRegister *registers);

/*
 * Tuples of the current chunk, decode.c
 */
typedef struct CpuTupleInfo
{
	uint32_t size; /* bytes from the first attribute on */
	uint16_t natts;
	uint8_t hoff; /* bytes before the first attribute */
	uint8_t has_null;
} CpuTupleInfo;

typedef struct CpuTuples
{
	uint32_t n;
	const char *data[CPU_CHUNK]; /* the first attribute */
	CpuTupleInfo info[CPU_CHUNK];
	uint8_t *outcome[CPU_CHUNK];
	uint8_t fault[CPU_CHUNK]; /* what decoding made of the tuple, 0: all well */
	uint32_t nfaults;
	uint16_t odd[CPU_CHUNK]; /* scratch: tuples that need a walk from the start */
	GsText *located;		 /* scratch: CPU_CHUNK values for each fetch */
} CpuTuples;

/*
 * Adds the tuples of a block from the i-th on, until the chunk is full or a
 * tuple is malformed.  Returns the first that was not added.  `next` is the
 * block to come, whose page is fetched from memory meanwhile, or NULL.
 */
extern uint32_t gpuscan_cpu_add_tuples(CpuTuples *tuples, const GpuScanBlock *block, uint32_t i,
									   const GpuScanBlock *next);

/*
 * Decodes a phase's inputs into registers.  Tuples with a toasted value get
 * the fault GPUSCAN_TUPLE_DEFERRED, malformed ones GPUSCAN_TUPLE_RECHECK, and
 * NULLs in their registers.
 */
extern void gpuscan_cpu_decode(const CpuDecode *decode, const CpuPhase *phase, CpuTuples *tuples,
							   CpuRegister *registers);

/* Reads the varlena header at p of which `size` bytes are ours. */
typedef enum CpuVarlena
{
	CPU_VARLENA_PLAIN,
	CPU_VARLENA_TOASTED,
	CPU_VARLENA_MALFORMED
} CpuVarlena;

extern CpuVarlena
gpuscan_cpu_varlena(const char *p, uint32_t size, GsText *payload, uint32_t *total);

/*
 * Keys of a chunk, columns normalized so that equal keys have equal words:
 * keys.c makes them from registers, merge.c from group rows.
 */
typedef struct CpuKeyColumn
{
	const void *values; /* uint64_t; I128: uint64_t[2]; TEXT: GsText */
	void *buffer;		/* for `values` that are no register's; CPU_CHUNK * 16 bytes */
} CpuKeyColumn;

typedef struct CpuKeys
{
	uint32_t n;
	bool owned;		 /* texts are the data of a CpuBytes that outlives the table */
	uint32_t *nulls; /* bit k: key k is NULL; its value is zero */
	uint32_t *hashes;
	uint32_t *other_hashes; /* bits that are not in `hashes`, for passes */
	CpuKeyColumn *columns;
} CpuKeys;

extern bool gpuscan_cpu_keys_create(CpuKeys *keys, const GpuScanProgram *program);
extern void gpuscan_cpu_keys_free(CpuKeys *keys, const GpuScanProgram *program);

/* From a register for each key; false if a key is an error. */
extern bool gpuscan_cpu_keys_load(CpuKeys *keys, const GpuScanProgram *program,
								  const CpuRegister *registers, uint32_t n);

/* Lists the tuples whose groups are the pass's; returns how many. */
extern uint32_t gpuscan_cpu_keys_select(const CpuKeys *keys, GpuScanPass pass, uint16_t *kept);

/*
 * Group tables, groups.c
 *
 * A group row is as in program.h, but the first word holds the key's hash
 * above the NULL bits, and a text key is a pointer to its CpuBytes.
 */
#define CPU_ROW_NULLS(row) ((uint32_t) * (const uint64_t *) (row))
#define CPU_ROW_HASH(row) ((uint32_t) (*(const uint64_t *) (row) >> 32))

typedef struct CpuRowChunk
{
	struct CpuRowChunk *next;
	size_t size;
	uint32_t nrows;
	uint32_t capacity;
	uint64_t pad[5];
	char rows[];
} CpuRowChunk;

typedef struct CpuGroups
{
	const GpuScanProgram *program;
	CpuMemory *memory;
	uint64_t ngroups;
	uint64_t *slots; /* row << 16 | low bits of the hash; 0: empty; NULL before the first search */
	uint32_t log2_slots;
	uint32_t skip_bits; /* leading bits that all hashes here share */
	CpuRowChunk *first;
	CpuRowChunk *last;
	CpuArena texts;
} CpuGroups;

/* Tables of more bytes than this do not stay in the caches near the core. */
#define CPU_PREFETCH_BYTES ((size_t) 128 * 1024)

/* All lines of a row that will be written; NULL is no harm. */
static inline void
cpu_prefetch_row(const char *row, size_t size)
{
	for (size_t at = 0; at < size; at += 64)
		__builtin_prefetch((const void *) ((uintptr_t) row + at), 1);
	__builtin_prefetch((const void *) ((uintptr_t) row + size - 1), 1);
}

#define CPU_SLOT_ROW(slot) ((char *) (uintptr_t) ((slot) >> 16))

extern void gpuscan_cpu_groups_init(CpuGroups *groups, const GpuScanProgram *program,
									CpuMemory *memory, uint32_t skip_bits);

/* Makes room for that many groups in all; false: out of memory. */
extern bool gpuscan_cpu_groups_reserve(CpuGroups *groups, uint64_t ngroups);

/* Makes the group of the i-th key, which is not there yet; NULL: out of memory. */
extern char *gpuscan_cpu_groups_add(CpuGroups *groups, const CpuKeys *keys, uint32_t i);

/* Finds or makes the group of each key; false: out of memory. */
extern bool gpuscan_cpu_groups_find(CpuGroups *groups, const CpuKeys *keys, char **rows);

/* The one row of a table without keys; NULL: out of memory. */
extern char *gpuscan_cpu_groups_single(CpuGroups *groups);

/* Frees all but the texts, which other tables may refer to. */
extern void gpuscan_cpu_groups_free_rows(CpuGroups *groups);

/*
 * Sets of (group, value), distinct.c
 */
typedef struct CpuDistinctEntry
{
	uint64_t row_tag; /* row << 16 | low bits of the hash; 0: empty */
	uint64_t value;	  /* a word, or a pointer to CpuBytes */
} CpuDistinctEntry;

typedef struct CpuDistinct
{
	CpuMemory *memory;
	bool bytes; /* I128 and TEXT */
	uint32_t log2_slots;
	uint32_t skip_bits;
	uint64_t nentries;
	uint64_t tuples_expected;	 /* 0: unknown */
	const uint64_t *tuples_seen; /* of them, where they are known */
	CpuDistinctEntry *entries;
	CpuArena values;
	const CpuBits *bits; /* of the request, for the pairs that they know; or NULL */
} CpuDistinct;

/* The pairs to add: the value of the i-th tuple and its group. */
typedef struct CpuPairs
{
	uint32_t n;
	char *rows[CPU_CHUNK];
	uint64_t words[CPU_CHUNK];
	uint32_t numbers[CPU_CHUNK]; /* of the groups, where the set has bits */
	GsText texts[CPU_CHUNK];	 /* where the set holds bytes */
	bool owned;					 /* texts are the data of a CpuBytes that outlives the set */
	uint32_t hashes[CPU_CHUNK];	 /* scratch */
} CpuPairs;

extern void
gpuscan_cpu_distinct_init(CpuDistinct *set, CpuMemory *memory, unsigned cls, uint32_t skip_bits);
extern bool gpuscan_cpu_distinct_reserve(CpuDistinct *set, uint64_t nentries);

/*
 * Adds pairs, and one to the GpuScanCountState at `offset` in its row for each
 * new one.  False: out of memory.
 */
extern bool gpuscan_cpu_distinct_add(CpuDistinct *set, CpuPairs *pairs, uint32_t offset);

/*
 * Adds pairs that were counted before in the rows of partial tables, `hash_rows`;
 * takes one from the sum of those counts for each that is not new.
 */
extern bool gpuscan_cpu_distinct_merge(CpuDistinct *set, CpuPairs *pairs, char *const *hash_rows,
									   uint32_t offset);

/* The hash of an entry whose group's hash is that of `hash_row`. */
extern uint32_t
gpuscan_cpu_distinct_hash(const CpuDistinct *set, const char *hash_row, uint64_t value);
extern void gpuscan_cpu_distinct_free_entries(CpuDistinct *set);

/*
 * States, aggregate.c
 */

/* Advances every aggregate by n tuples of the groups `rows`, with `numbers`, or of `single`. */
extern GpuScanCode gpuscan_cpu_advance(const GpuScanProgram *program, const CpuRegister *registers,
									   uint32_t n, char *const *rows, const uint32_t *numbers,
									   char *single, CpuDistinct *sets, CpuPairs *pairs);

/* Merges the states of source rows into others; false: overflow. */
extern bool gpuscan_cpu_merge_states(const GpuScanProgram *program, uint32_t n, char *const *rows,
									 char *const *sources);

/* Makes a row final; false if PostgreSQL must compute it. */
extern bool gpuscan_cpu_finish_states(const GpuScanProgram *program, char *row);

/*
 * One thread's part of a request, partial.c
 */
typedef struct CpuPartial
{
	const CpuPlan *plan;
	CpuMemory *memory;
	const atomic_bool *cancel;
	CpuRegister *registers;
	void *register_memory;
	CpuTuples tuples;
	uint32_t layout; /* of the tuples in the chunk */

	/* Instead, if the chunk's tuples are cached: where, and which rows they are */
	const GpuScanCachedRange *cached;
	bool dense; /* `first` and those that follow, else `picked`, ascending */
	uint32_t first;
	uint16_t picked[CPU_CHUNK];
	uint64_t *hits; /* of a scan: the range's word in a GpuScanSeek */

	char *rows[CPU_CHUNK];
	CpuKeys keys;
	CpuGroups groups;
	uint32_t part; /* of the groups, whose tuples alone it takes of cached ranges */
	char **index;  /* the rows of groups by number, or NULL; index.c */
	uint32_t numbers[CPU_CHUNK];
	bool any_outside;	   /* some of the numbers are the last */
	struct CpuBins *bins;  /* for tuples that are aggregated later, or NULL */
	bool binned;		   /* it was tried to make them */
	CpuRegister *new_keys; /* of tuples that have no row there */
	uint64_t tuples_seen;  /* of its part, but for those in bins */
	CpuDistinct *sets;	   /* one for each COUNT_DISTINCT */
	CpuPairs *pairs;
	uint32_t ndeferred; /* of the batch run last */
	uint64_t glances;	/* at cached ranges of which it needed no more than the chunks' headers */
	GpuScanRequestStats stats;
} CpuPartial;

/* memory is NULL for one that makes columns and no more. */
extern CpuPartial *gpuscan_cpu_partial_create(const CpuPlan *plan, uint32_t part, CpuMemory *memory,
											  const atomic_bool *cancel);
extern void gpuscan_cpu_partial_free(CpuPartial *partial);

/* Runs a batch, or the tuples of a cached range, of a scan with the range's word of hits. */
extern GpuScanCode gpuscan_cpu_partial_run(CpuPartial *partial, const GpuScanBatch *batch);
extern GpuScanCode gpuscan_cpu_partial_run_cached(CpuPartial *partial,
												  const GpuScanCachedRange *range, uint64_t *hits);

/*
 * Whole cached ranges by what their chunks' headers say, summary.c
 */

/* Whether headers may tell all that the Program asks for. */
extern bool gpuscan_cpu_plan_is_summarized(const CpuPlan *plan);

/* Aggregates the range if its headers tell enough; false if they do not. */
extern bool
gpuscan_cpu_run_summary(CpuPartial *partial, const GpuScanCachedRange *range, GpuScanCode *code);

/*
 * Groups by number, index.c
 */
extern bool gpuscan_cpu_index_create(CpuPartial *partial);
extern void gpuscan_cpu_index_free(CpuPartial *partial);

/* True if it can be asked about the tuples at hand; then it needs no text that is only a key. */
extern bool gpuscan_cpu_index_applies(const CpuPartial *partial);

/* Finds the numbers of the chunk's tuples; those outside have the last one. */
extern GpuScanCode gpuscan_cpu_index_number(CpuPartial *partial);

/*
 * Lists the chunk's tuples that belong to the partial's part of the groups, and
 * finds their numbers; returns how many.
 */
extern uint32_t gpuscan_cpu_index_select(CpuPartial *partial, uint16_t *kept);

/* Finds or makes the groups of the chunk's tuples, whose numbers are there. */
extern GpuScanCode gpuscan_cpu_index_find(CpuPartial *partial);

/*
 * The same of any numbers but the last, of keys that are no texts.  False: out of
 * memory.
 */
extern bool
gpuscan_cpu_index_find_numbers(CpuPartial *partial, const uint32_t *numbers, uint32_t n);

/*
 * Bins, bins.c
 */
typedef struct CpuBins CpuBins;

/* If the plan has bins and there is memory for them */
extern void gpuscan_cpu_bins_create(CpuPartial *partial);
extern void gpuscan_cpu_bins_free(CpuPartial *partial);

/*
 * Sets the chunk's tuples apart, whose numbers are there and not the last.  Registers, numbers
 * and rows may be others' afterwards, who had to make room.
 */
extern GpuScanCode gpuscan_cpu_bins_add(CpuPartial *partial);

/* Aggregates all that is in bins, if there are any. */
extern GpuScanCode gpuscan_cpu_bins_empty(CpuPartial *partial);

/* Makes the columns of a batch whose blocks are valid, fill.c. */
extern void gpuscan_cpu_fill(CpuPartial *partial, const GpuScanBatch *batch);

/*
 * Merging partial tables into final ones, merge.c
 *
 * In steps of independent tasks; the tasks of a step may run at the same time,
 * a step starts when the one before it is done.
 */
typedef struct CpuMerge
{
	const CpuPlan *plan;
	CpuMemory *memory;
	const atomic_bool *cancel;
	CpuPartial **partials;
	uint32_t npartials;
	bool disjoint;	   /* no two of them have a group in common */
	uint32_t bits;	   /* 1 << bits partitions */
	CpuGroups *tables; /* the result, `ntables` */
	uint32_t ntables;
} CpuMerge;

#define CPU_MERGE_STEPS 4

/* Starts a step, which may have no tasks. */
extern GpuScanCode gpuscan_cpu_merge_start(CpuMerge *merge, int step, uint32_t *ntasks);
extern GpuScanCode gpuscan_cpu_merge_task(CpuMerge *merge, int step, uint32_t task);

/* After the last step. */
extern void gpuscan_cpu_merge_release(CpuMerge *merge);
extern void gpuscan_cpu_merge_free(CpuMerge *merge);

/*
 * Handing rows out, result.c
 */
typedef struct CpuCursor
{
	uint32_t table;
	const CpuRowChunk *chunk;
	uint32_t row;
} CpuCursor;

extern GpuScanCode
gpuscan_cpu_fetch(const GpuScanProgram *program, const CpuGroups *tables, uint32_t ntables,
				  CpuCursor *cursor, void *buf, size_t size, uint32_t *nrows);

#endif /* GPUSCAN_CPU_H */
