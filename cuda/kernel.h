/*-------------------------------------------------------------------------
 *
 * kernel.h
 *	  What every generated kernel is made of.  Read by NVRTC alone.
 *
 * A warp takes a page into shared memory, each of its threads takes tuples.
 * All lengths of a page are checked as in device/cpu/decode.c, whose rules
 * these are; no loop runs longer than a page, a text or a table is.
 *
 * Memory that other threads write is read with acquire loads or atomics.  A
 * claim word is published with release once what it leads to is complete, so
 * plain loads may follow an acquire load of it.
 *
 * Of an aggregation in passes, only tuples whose groups are the pass's go on.
 *
 * A tuple goes through two steps.  First it finds its group, widens its float
 * sums and enters its count(DISTINCT) values; any of these can fail for want of
 * room, all of them may be repeated, and a tuple that fails waits for the next
 * launch, when the host has made room.  Then its states advance, which cannot
 * fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_KERNEL_H
#define GPUSCAN_CUDA_KERNEL_H

#include "scalar.h"

#include "aggregate.h"
#include "program/heap_format.h"
#include "launch.h"
#include "program/program.h"

#define GS_DEVICE static __device__ inline
#define GS_DEVICE_CALL static __device__ __noinline__
#define GS_MEMBER __device__ inline

/* GpuScanCode and GpuScanOutcome, device.h */
#define LEFT_TO_POSTGRES 1
#define REJECTED 0
#define PASSED 1
#define RECHECK 2
#define DEFERRED 3

typedef unsigned long long gs_word;

GS_DEVICE uint64_t
load_acquire(const uint64_t *p)
{
	uint64_t value;

	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
	return value;
}

GS_DEVICE void
store_release(uint64_t *p, uint64_t value)
{
	asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}

GS_DEVICE uint64_t
load_relaxed(const uint64_t *p)
{
	uint64_t value;

	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(p));
	return value;
}

GS_DEVICE uint32_t
load_relaxed(const uint32_t *p)
{
	uint32_t value;

	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p));
	return value;
}

GS_DEVICE uint64_t
add_atomic(uint64_t *p, uint64_t value)
{
	return atomicAdd((gs_word *) p, (gs_word) value);
}

GS_DEVICE gs_i128
wide(uint64_t lo, uint64_t hi)
{
	return (gs_i128) ((gs_u128) hi << 64 | lo);
}

GS_DEVICE CudaResult *
result_of(const CudaLaunch &launch)
{
	return (CudaResult *) launch.result;
}

/*
 * Tuples
 */
struct Tuple
{
	const char *data; /* the first attribute */
	const uint8_t *nulls;
	uint32_t size; /* bytes from there on */
	uint32_t natts;
};

/* Finds tuple i of a block; false if it is malformed. */
GS_DEVICE bool
open_tuple(const CudaBlock &block, const char *base, uint32_t i, Tuple &tuple)
{
	uint32_t offset;
	uint32_t len;
	uint32_t nulls;
	uint32_t hoff;

	if (block.staged)
	{
		const uint32_t *place = (const uint32_t *) block.places + 2 * i;

		offset = place[0];
		len = place[1];
	}
	else
	{
		uint32_t number = block.places ? ((const uint16_t *) block.places)[i] : i + 1;
		uint32_t pointer = GPUSCAN_PAGE_HEADER_SIZE + (number - 1) * 4;
		uint32_t lp;

		if (number == 0 || pointer + 4 > block.size)
			return false;
		lp = *(const uint32_t *) (base + pointer);
		if (GPUSCAN_LP_FLAGS(lp) != GPUSCAN_LP_NORMAL)
			return false;
		offset = GPUSCAN_LP_OFF(lp);
		len = GPUSCAN_LP_LEN(lp);
	}
	if (len < GPUSCAN_TUPLE_HEADER_SIZE || len > block.size || offset > block.size - len ||
		offset % 8 != 0)
		return false;
	base += offset;
	tuple.natts = *(const uint16_t *) (base + GPUSCAN_TUPLE_INFOMASK2) & GPUSCAN_TUPLE_NATTS_MASK;
	tuple.nulls = *(const uint16_t *) (base + GPUSCAN_TUPLE_INFOMASK) & GPUSCAN_TUPLE_HASNULL
					  ? (const uint8_t *) base + GPUSCAN_TUPLE_HEADER_SIZE
					  : (const uint8_t *) 0;
	nulls = tuple.nulls ? (tuple.natts + 7) / 8 : 0;
	hoff = *(const uint8_t *) (base + GPUSCAN_TUPLE_HOFF);
	if (hoff < GPUSCAN_TUPLE_HEADER_SIZE + nulls || hoff > len || hoff % 8 != 0)
		return false;
	if (nulls == 0)
		tuple.nulls = (const uint8_t *) 0;
	tuple.data = base + hoff;
	tuple.size = len - hoff;
	return true;
}

/* Reads the varlena at p, of which `size` bytes are ours; returns a fault. */
GS_DEVICE uint32_t
read_varlena(const char *p, uint32_t size, GsText &payload, uint32_t &total)
{
	uint8_t first;
	uint32_t word;

	if (size < 1)
		return RECHECK;
	first = (uint8_t) *p;
	if (GPUSCAN_VARLENA_IS_EXTERNAL(first))
	{
		total = GPUSCAN_VARLENA_ONDISK_SIZE;
		return size < total || (uint8_t) p[1] != GPUSCAN_VARTAG_ONDISK ? RECHECK : DEFERRED;
	}
	if (GPUSCAN_VARLENA_IS_1B(first))
	{
		total = GPUSCAN_VARLENA_1B_SIZE(first);
		payload.p = p + 1;
		payload.len = total - 1;
		return total > size ? RECHECK : 0;
	}
	if (size < 4)
		return RECHECK;
	memcpy(&word, p, 4);
	total = GPUSCAN_VARLENA_4B_SIZE(word);
	if (total < 4 || total > size)
		return RECHECK;
	payload.p = p + 4;
	payload.len = total - 4;
	return GPUSCAN_VARLENA_4B_IS_COMPRESSED(word) ? DEFERRED : 0;
}

/* The value that tuples without the attribute have. */
GS_DEVICE_CALL GsText
missing_value(const char *layout, uint32_t column)
{
	const GpuScanLayout *l = (const GpuScanLayout *) layout;
	const GpuScanColumn *c = &GPUSCAN_LAYOUT_COLUMNS(l)[column];
	const GpuScanAttr *attr = &GPUSCAN_LAYOUT_ATTRS(l)[c->attnum];
	GsText value = {0, 0};
	uint32_t total;

	if (c->missing == 0 || c->missing >= l->size)
		return value;
	if (attr->len == -1)
	{
		if (read_varlena(layout + c->missing, l->size - c->missing, value, total) != 0)
			value.p = (const char *) 0;
	}
	else if (attr->len > 0 && (uint32_t) attr->len <= l->size - c->missing)
	{
		value.p = layout + c->missing;
		value.len = (uint32_t) attr->len;
	}
	return value;
}

/*
 * Steps of a walk over a tuple's attributes, over one that is not NULL and starts
 * at `offset` or behind padding there.  They return a fault; after RECHECK the
 * walk is over.
 */
GS_DEVICE uint32_t
walk_fixed(const Tuple &tuple, uint32_t len, uint32_t align, uint32_t &offset, GsText &value)
{
	offset = (offset + align - 1) & ~(align - 1);
	if (offset > tuple.size || len > tuple.size - offset)
		return RECHECK;
	value.p = tuple.data + offset;
	value.len = len;
	offset += len;
	return 0;
}

/* What a call finds, in registers */
struct Step
{
	GsText value;
	uint32_t offset; /* behind it */
	uint32_t fault;
};

GS_DEVICE_CALL Step
find_varlena(const char *data, uint32_t size, uint32_t align, uint32_t offset)
{
	Step step = {{0, 0}, 0, RECHECK};
	uint32_t total = 0;

	/* a byte that is not zero is no padding before a varlena */
	if (offset >= size || data[offset] == 0)
		offset = (offset + align - 1) & ~(align - 1);
	if (offset <= size)
		step.fault = read_varlena(data + offset, size - offset, step.value, total);
	step.offset = offset + total;
	return step;
}

GS_DEVICE uint32_t
walk_varlena(const Tuple &tuple, uint32_t align, bool needed, uint32_t &offset, GsText &value)
{
	Step step = find_varlena(tuple.data, tuple.size, align, offset);

	value = step.value;
	offset = step.offset;
	return needed || step.fault == RECHECK ? step.fault : 0;
}

GS_DEVICE uint32_t
walk_cstring(const Tuple &tuple, uint32_t align, uint32_t &offset)
{
	offset = (offset + align - 1) & ~(align - 1);
	GS_ROLLED
	while (offset < tuple.size && tuple.data[offset] != 0)
		offset++;
	return offset++ < tuple.size ? 0 : RECHECK;
}

/*
 * Walks over the first natts attributes of any tuple; that of attribute i is put
 * into values[value_of[i]], unless that is negative.
 */
GS_DEVICE_CALL uint32_t
walk_tuple(Tuple tuple, const char *layout, const int16_t *value_of, uint32_t natts, GsText *values)
{
	const GpuScanAttr *attrs = GPUSCAN_LAYOUT_ATTRS((const GpuScanLayout *) layout);
	uint32_t offset = 0;
	uint32_t fault = 0;

	GS_ROLLED
	for (uint32_t att = 0; att < natts; att++)
	{
		bool needed = value_of[att] >= 0;
		GsText value = {0, 0};
		int len = attrs[att].len;
		uint32_t f = 0;

		if (att >= tuple.natts)
		{
			if (needed)
				value = missing_value(layout, attrs[att].column);
		}
		else if (tuple.nulls && (tuple.nulls[att >> 3] & (1 << (att & 7))) == 0)
			;
		else if (len == -1)
			f = walk_varlena(tuple, attrs[att].align, needed, offset, value);
		else if (len == -2)
			f = walk_cstring(tuple, attrs[att].align, offset);
		else
			f = walk_fixed(tuple, (uint32_t) len, attrs[att].align, offset, value);
		if (f == RECHECK)
			return RECHECK;
		fault |= f;
		if (needed)
		{
			values[value_of[att]].p = value.p;
			values[value_of[att]].len = value.len;
		}
	}
	return fault;
}

/*
 * Values
 */
template <class T>
GS_DEVICE T
load(const char *p)
{
	return *(const T *) p;
}

template <class T>
GS_DEVICE T
load_unaligned(const char *p)
{
	T value;

	memcpy(&value, p, sizeof(value));
	return value;
}

struct Number64
{
	int64_t value;
	uint32_t flags;
};

GS_DEVICE_CALL Number64
number64(GsText value, int scale)
{
	Number64 number;

	number.flags =
		gs_numeric_to_i64((const unsigned char *) value.p, value.len, scale, &number.value);
	return number;
}

GS_DEVICE uint8_t
numeric_to_i64(GsText value, int scale, int64_t *dst)
{
	Number64 number = number64(value, scale);

	*dst = number.value;
	return (uint8_t) number.flags;
}

GS_DEVICE_CALL uint8_t
numeric_to_i128(GsText value, int scale, gs_i128 *dst)
{
	return gs_numeric_to_i128((const unsigned char *) value.p, value.len, scale, dst);
}

GS_DEVICE uint8_t
numeric_dscale(GsText value, int32_t *dst)
{
	return gs_numeric_dscale((const unsigned char *) value.p, value.len, dst);
}

/* The flags of a strict operation, `mine` if its operands have none */
GS_DEVICE uint8_t
strict(uint32_t operands, uint8_t mine)
{
	uint8_t flags = (uint8_t) (operands & ~(operands >> 1));

	return flags != 0 ? flags : mine;
}

GS_DEVICE uint8_t
logic(uint8_t a, uint8_t fa, uint8_t b, uint8_t fb, uint8_t deciding, uint8_t &flags)
{
	bool a_decides = fa == 0 && a == deciding;
	bool b_decides = fb == 0 && b == deciding;

	if (fa == GPUSCAN_ERROR || (fb == GPUSCAN_ERROR && !a_decides))
		flags = GPUSCAN_ERROR;
	else
		flags = a_decides || b_decides ? 0 : fa | fb;
	return a_decides || b_decides ? deciding : !deciding;
}

GS_DEVICE uint8_t
distinct(uint8_t fa, uint8_t fb, uint8_t c, uint8_t fc, uint8_t &flags)
{
	flags = (fa | fb) & GPUSCAN_ERROR;
	if (fa == 0 && fb == 0)
	{
		flags = fc;
		return c;
	}
	return fa != fb;
}

GS_DEVICE uint8_t
any_flags(uint8_t fa, bool found, const GpuScanSet *set)
{
	if (fa == GPUSCAN_NULL && set->n == 0 && !set->has_null)
		return 0;
	return fa != 0 ? fa : (!found && set->has_null ? GPUSCAN_NULL : 0);
}

GS_DEVICE GsText
text_param(const char *program, const GpuScanParam *param)
{
	GsText text = {program + param->lo, param->len};

	return text;
}

template <class T, class W>
GS_DEVICE T
bits_as(W word)
{
	T value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

/*
 * Words that are equal where PostgreSQL calls the values equal
 */
#define CANONICAL_NAN 0x7FF8000000000000ULL
#define NEGATIVE_ZERO 0x8000000000000000ULL

GS_DEVICE uint64_t
float_word(double value)
{
	return value != value ? CANONICAL_NAN : bits_as<uint64_t>(value);
}

/* the same with one zero */
GS_DEVICE uint64_t
distinct_word(double value)
{
	return value == 0 ? 0 : float_word(value);
}

GS_DEVICE uint64_t
mix(uint64_t a, uint64_t b)
{
	gs_u128 product = (gs_u128) (a ^ 0x9E3779B97F4A7C15ULL) * (gs_u128) (b ^ 0xD6E8FEB86659FD93ULL);

	return (uint64_t) product ^ (uint64_t) (product >> 64);
}

GS_DEVICE_CALL uint64_t
mix(uint64_t hash, GsText text)
{
	uint64_t word = 0;

	GS_ROLLED
	for (uint32_t i = 0; i < text.len; i++)
	{
		word = word << 8 | (uint8_t) text.p[i];
		if (i % 8 == 7)
		{
			hash = mix(hash, word);
			word = 0;
		}
	}
	return mix(mix(hash, word), (uint64_t) text.len);
}

/*
 * Texts that outlive their page: a length of 4 bytes, then the bytes, at an
 * offset that is a multiple of 8 in table.texts
 */
GS_DEVICE_CALL bool
keep_text(const CudaLaunch &launch, GsText text, uint64_t &offset)
{
	uint64_t need = ((uint64_t) text.len + 4 + 7) / 8 * 8;
	char *texts = (char *) launch.table.texts;

	offset = add_atomic(&((CudaControl *) launch.table.control)->texts_used, need);
	if (need > launch.table.texts_size || offset > launch.table.texts_size - need)
	{
		atomicOr(&result_of(launch)->full, CUDA_FULL_TEXTS);
		return false;
	}
	*(uint32_t *) (texts + offset) = text.len;
	GS_ROLLED
	for (uint32_t i = 0; i < text.len; i++)
		texts[offset + 4 + i] = text.p[i];
	return true;
}

GS_DEVICE GsText
kept_text(const CudaLaunch &launch, uint64_t offset)
{
	const char *p = (const char *) launch.table.texts + offset;
	GsText text = {p + 4, *(const uint32_t *) p};

	return text;
}

/*
 * Groups.  A claim word is 0, or the hash above the row + 1; while its row is
 * made the low half is ROW_BUSY, and ROW_DEAD if that failed: then no row can
 * be made in this launch any more, and the host builds the claims anew.
 */
#define ROW_BUSY 0xFFFFFFFFU
#define ROW_DEAD 0xFFFFFFFEU
#define NO_ROW 0xFFFFFFFFU

/* Keys has equals(launch, row), and make(launch, row) that may fail. */
template <class Keys>
GS_DEVICE bool
make_row(const CudaLaunch &launch, Keys &keys, uint32_t hash, uint32_t &row)
{
	char *p;

	if (!keys.keep_texts(launch))
		return false;
	row = atomicAdd(&((CudaControl *) launch.table.control)->nrows, 1);
	if (row >= launch.table.max_rows)
	{
		atomicOr(&result_of(launch)->full, CUDA_FULL_ROWS);
		return false;
	}
	p = (char *) launch.table.rows + (uint64_t) row * Keys::row_size;
	keys.write(p);
	*(uint64_t *) p = (uint64_t) hash << 32 | keys.nulls;
	return true;
}

/* NO_ROW: the tuple waits. */
template <class Keys>
GS_DEVICE_CALL uint32_t
find_row(const CudaLaunch &launch, Keys &keys, uint32_t hash)
{
	uint64_t *claims = (uint64_t *) launch.table.claims;
	uint32_t mask = launch.table.claims_mask;
	uint32_t at = hash & mask;
	uint64_t tag = (uint64_t) hash << 32;

	for (uint32_t probes = 0; probes <= mask;)
	{
		uint64_t claim = load_acquire(&claims[at]);

		if (claim == 0)
		{
			uint32_t row;

			if (load_relaxed(&result_of(launch)->full) & (CUDA_FULL_ROWS | CUDA_FULL_TEXTS))
				return NO_ROW;
			if (atomicCAS((gs_word *) &claims[at], 0ULL, (gs_word) (tag | ROW_BUSY)) != 0)
				continue;
			if (!make_row(launch, keys, hash, row))
			{
				store_release(&claims[at], tag | ROW_DEAD);
				return NO_ROW;
			}
			store_release(&claims[at], tag | (row + 1));
			return row;
		}
		if ((claim & ~0xFFFFFFFFULL) == tag)
		{
			uint32_t row = (uint32_t) claim;

			if (row == ROW_BUSY)
			{
				__nanosleep(20);
				continue;
			}
			if (row != ROW_DEAD && keys.equals(launch, (const char *) launch.table.rows +
														   (uint64_t) (row - 1) * Keys::row_size))
				return row - 1;
		}
		at = (at + 1) & mask;
		probes++;
	}
	atomicOr(&result_of(launch)->full, CUDA_FULL_ROWS);
	return NO_ROW;
}

/* Enters a row into claims made anew.  By k_rehash. */
GS_DEVICE void
place_row(const CudaLaunch &launch, uint32_t row, uint32_t hash)
{
	uint64_t *claims = (uint64_t *) launch.table.claims;
	uint32_t mask = launch.table.claims_mask;
	uint32_t at = hash & mask;
	gs_word claim = (gs_word) hash << 32 | (row + 1);

	for (uint32_t probes = 0; probes <= mask; probes++)
	{
		if (atomicCAS((gs_word *) &claims[at], 0ULL, claim) == 0)
			return;
		at = (at + 1) & mask;
	}
}

#include "states.h"

/*
 * count(DISTINCT): one table of (row, value) for each.  A value of 32 bits makes
 * one word with the row + 1 above it.  Any other is a word, or the offset of its
 * bytes, behind a claim: the row + 1 with 31 bits of the hash above it and a bit
 * while the value is written.
 */
#define PAIR_BUSY (1ULL << 63)
#define PAIR_DEAD (~0ULL)
#define PAIR_PROBES 256

struct Word
{
	uint64_t value;

	GS_MEMBER uint64_t
	hash(uint32_t row) const
	{
		return mix(row, value);
	}
	GS_MEMBER static uint64_t
	hash_word(const CudaLaunch &launch, uint32_t row, uint64_t word)
	{
		return mix(row, word);
	}
	GS_MEMBER bool
	keep(const CudaLaunch &launch, uint64_t &word) const
	{
		word = value;
		return true;
	}
	GS_MEMBER bool
	equals(const CudaLaunch &launch, uint64_t word) const
	{
		return word == value;
	}
};

struct Bytes
{
	GsText value;

	GS_MEMBER uint64_t
	hash(uint32_t row) const
	{
		return mix(row, value);
	}
	GS_MEMBER static uint64_t
	hash_word(const CudaLaunch &launch, uint32_t row, uint64_t word)
	{
		return mix(row, kept_text(launch, word));
	}
	GS_MEMBER bool
	keep(const CudaLaunch &launch, uint64_t &word) const
	{
		return keep_text(launch, value, word);
	}
	GS_MEMBER bool
	equals(const CudaLaunch &launch, uint64_t word) const
	{
		return gs_text_is_equal(kept_text(launch, word), value);
	}
};

GS_DEVICE uint64_t
pair_claim(uint32_t row, uint64_t hash)
{
	return ((hash >> 32) & 0x7FFFFFFF) << 32 | (row + 1);
}

GS_DEVICE uint32_t
pair_slot(uint64_t hash)
{
	return (uint32_t) (hash ^ hash >> 32);
}

/* The tuple waits. */
GS_DEVICE bool
pairs_are_full(const CudaLaunch &launch, CudaDistinct *table)
{
	table->full = 1;
	atomicOr(&result_of(launch)->full, CUDA_FULL_DISTINCT);
	return false;
}

/* The functions below add a pair, and say if it is new; false: the tuple waits. */
GS_DEVICE_CALL bool
add_pair(const CudaLaunch &launch, uint32_t number, uint32_t row, uint32_t value, bool &is_new)
{
	CudaDistinct *table = (CudaDistinct *) launch.table.distinct + number;
	uint64_t *entries = (uint64_t *) table->entries;
	uint64_t wanted = (uint64_t) (row + 1) << 32 | value;
	uint32_t at = pair_slot(mix(row, value)) & table->mask;

	for (uint32_t probes = 0; probes < PAIR_PROBES; probes++)
	{
		uint64_t entry = load_relaxed(&entries[at]);

		if (entry == 0)
			entry = atomicCAS((gs_word *) &entries[at], 0ULL, (gs_word) wanted);
		if (entry == 0)
			is_new = true;
		if (entry == 0 || entry == wanted)
			return true;
		at = (at + 1) & table->mask;
	}
	return pairs_are_full(launch, table);
}

template <class Value>
GS_DEVICE_CALL bool
add_pair(const CudaLaunch &launch, uint32_t number, uint32_t row, const Value &value, bool &is_new)
{
	CudaDistinct *table = (CudaDistinct *) launch.table.distinct + number;
	uint64_t *entries = (uint64_t *) table->entries;
	uint32_t mask = table->mask;
	uint64_t hash = value.hash(row);
	uint64_t wanted = pair_claim(row, hash);
	uint32_t at = pair_slot(hash) & mask;

	for (uint32_t probes = 0; probes < PAIR_PROBES;)
	{
		uint64_t *entry = entries + 2 * (uint64_t) at;
		uint64_t claim = load_acquire(entry);

		if (claim == 0)
		{
			if (load_relaxed(&result_of(launch)->full) & CUDA_FULL_TEXTS)
				return false;
			if (atomicCAS((gs_word *) entry, 0ULL, (gs_word) (wanted | PAIR_BUSY)) != 0)
				continue;
			if (!value.keep(launch, entry[1]))
			{
				store_release(entry, PAIR_DEAD);
				table->full = 1;
				return false;
			}
			store_release(entry, wanted);
			is_new = true;
			return true;
		}
		if (claim == (wanted | PAIR_BUSY))
		{
			__nanosleep(20);
			continue;
		}
		if (claim == wanted && value.equals(launch, entry[1]))
			return true;
		at = (at + 1) & mask;
		probes++;
	}
	return pairs_are_full(launch, table);
}

/* Enter the pairs of an old table into a new one.  By k_rehash_pairs. */
GS_DEVICE_CALL void
place_pairs(const CudaLaunch &launch, const CudaDistinct &old, uint32_t number)
{
	CudaDistinct *table = (CudaDistinct *) launch.table.distinct + number;
	gs_word *entries = (gs_word *) table->entries;

	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i <= old.mask;
		 i += gridDim.x * blockDim.x)
	{
		gs_word entry = ((const gs_word *) old.entries)[i];
		uint32_t at = pair_slot(mix((entry >> 32) - 1, (uint32_t) entry)) & table->mask;
		uint32_t probes = 0;

		if (entry == 0)
			continue;
		for (; probes < PAIR_PROBES && atomicCAS(&entries[at], 0ULL, entry) != 0; probes++)
			at = (at + 1) & table->mask;
		if (probes == PAIR_PROBES)
			(void) pairs_are_full(launch, table);
	}
}

template <class Value>
GS_DEVICE_CALL void
place_pairs(const CudaLaunch &launch, const CudaDistinct &old, uint32_t number)
{
	CudaDistinct *table = (CudaDistinct *) launch.table.distinct + number;
	uint64_t *entries = (uint64_t *) table->entries;
	const uint64_t *from = (const uint64_t *) old.entries;

	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i <= old.mask;
		 i += gridDim.x * blockDim.x)
	{
		uint64_t claim = from[2 * i];
		uint64_t word = from[2 * i + 1];
		uint32_t probes = 0;
		uint32_t at;
		uint64_t hash;

		if (claim == 0 || claim == PAIR_DEAD)
			continue;
		hash = Value::hash_word(launch, (uint32_t) claim - 1, word);
		at = pair_slot(hash) & table->mask;
		while (probes < PAIR_PROBES &&
			   atomicCAS((gs_word *) &entries[2 * (uint64_t) at], 0ULL, (gs_word) claim) != 0)
		{
			at = (at + 1) & table->mask;
			probes++;
		}
		if (probes < PAIR_PROBES)
			entries[2 * (uint64_t) at + 1] = word;
		else
			atomicOr(&result_of(launch)->full, CUDA_FULL_DISTINCT);
	}
}

/*
 * Pages
 */
GS_DEVICE void
copy_page(const CudaBlock &block, char *page)
{
	const uint4 *src = (const uint4 *) block.base;
	uint4 *dst = (uint4 *) page;
	uint32_t n = (block.size + 15) / 16;
	uint32_t i = threadIdx.x % 32;

	/* eight loads of each thread under way */
	GS_ROLLED
	for (; i + 7 * 32 < n; i += 8 * 32)
	{
		uint4 loaded[8];

#pragma unroll
		for (uint32_t k = 0; k < 8; k++)
			loaded[k] = __ldcg(&src[i + k * 32]);
#pragma unroll
		for (uint32_t k = 0; k < 8; k++)
			dst[i + k * 32] = loaded[k];
	}
	GS_ROLLED
	for (; i < n; i += 32)
		dst[i] = __ldcg(&src[i]);
}

/* Puts down a page that is in shared memory, and where its n tuples are. */
GS_DEVICE_CALL void
keep_page(uint64_t keep, const char *page, const uint16_t *places, uint32_t n)
{
	uint4 *dst = (uint4 *) keep;
	uint16_t *kept = (uint16_t *) (keep + CUDA_KEPT_PLACES);

	GS_ROLLED
	for (uint32_t i = threadIdx.x % 32; i < CUDA_PAGE_SIZE / 16; i += 32)
		dst[i] = ((const uint4 *) page)[i];
	GS_ROLLED
	for (uint32_t i = threadIdx.x % 32; i < n; i += 32)
		kept[i] = places ? places[i] : i + 1;
}

/* What a thread counted */
struct Counts
{
	uint32_t waiting;
	uint32_t deferred;
	uint32_t passed;
};

GS_DEVICE_CALL void
add_count(uint64_t *total, uint32_t count)
{
	for (int i = 16; i > 0; i /= 2)
		count += __shfl_down_sync(0xFFFFFFFFU, count, i);
	if (threadIdx.x % 32 == 0 && count != 0)
		add_atomic(total, count);
}

/*
 * Runs tuple(...) for each tuple of the launch.  It returns an outcome,
 * CUDA_TUPLE_WAITS, or the outcome PASSED for an aggregation's kept tuples too.
 * Behind it the whole warp runs advance(...), with what each thread put into its
 * Found, which may be nothing.
 */
struct NothingFound
{
};

template <bool is_scan, class Found, class Function, class Advance>
GS_DEVICE void
run_blocks(const CudaLaunch &launch, char *pages, Function tuple, Advance advance)
{
	uint32_t lane = threadIdx.x % 32;
	char *page = pages + threadIdx.x / 32 * CUDA_PAGE_SIZE;
	uint8_t *outcomes = (uint8_t *) launch.outcome;
	Counts counts = {0, 0, 0};

	for (uint32_t b = blockIdx.x * CUDA_WARPS + threadIdx.x / 32; b < launch.nblocks;
		 b += gridDim.x * CUDA_WARPS)
	{
		CudaBlock block = ((const CudaBlock *) launch.blocks)[b];
		const char *base = page;

		if (__any_sync(WARP, load_relaxed(&result_of(launch)->code) != 0))
			break;
		if (block.size <= CUDA_PAGE_SIZE)
			copy_page(block, page);
		else
			base = (const char *) block.base;
		__syncwarp();
		if (block.keep)
			keep_page(block.keep, page, (const uint16_t *) block.places, block.ntuples);
		for (uint32_t first = 0; first < block.ntuples; first += 32)
		{
			uint32_t i = first + lane;
			uint8_t *outcome = &outcomes[block.outcome + i];
			Found found;

			if (i < block.ntuples && (!launch.again || *outcome == CUDA_TUPLE_WAITS))
			{
				uint32_t made = RECHECK;
				Tuple t;

				if (open_tuple(block, base, i, t))
					made = tuple(t, block, found);
				counts.passed += made == PASSED;
				counts.waiting += made == CUDA_TUPLE_WAITS;
				counts.deferred += made == DEFERRED;
				if (!is_scan && made == RECHECK)
					atomicMax(&result_of(launch)->code, LEFT_TO_POSTGRES);
				*outcome = (uint8_t) (!is_scan && made == PASSED ? REJECTED : made);
			}
			__syncwarp();
			advance(found);
		}
		__syncwarp();
	}
	__syncwarp();
	add_count(&result_of(launch)->waiting, counts.waiting);
	add_count(&result_of(launch)->deferred, counts.deferred);
	add_count(&result_of(launch)->passed, counts.passed);
}

#endif /* GPUSCAN_CUDA_KERNEL_H */
