/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Groups in shared memory: the states of a thread block's tuples, which go to
 *	  the table when the block ends.  Part of what a kernel over cached columns is
 *	  made of.
 *
 * A group has a slot, found by open addressing, and knows its row in the table:
 * whoever makes a slot has made sure of the row.  A group may have several slots,
 * as replicas for some of a warp's threads each, which queue up less where groups
 * are few; or because a text has several places.  A tuple whose group finds no
 * slot goes to the table itself.
 *
 * States are in words of 32 bits, since only these have fast atomics in shared
 * memory: word n of slot s is slots[n * SLOTS + s], so that neighbours lie in
 * different banks.  Longer numbers pass carries on.
 *
 * A float sum has the windows of its row, anchored where that is, so they only
 * have to be added up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_SHARED_H
#define GPUSCAN_CUDA_SHARED_H

extern __shared__ __align__(16) uint32_t slots[];

/* The first word of a slot; READY: with the NULL bits of the keys */
#define SLOT_EMPTY 0
#define SLOT_BUSY 1
#define SLOT_READY 0x80000000U
#define SLOT_PROBES 16
#define NO_SLOT 0xFFFFFFFFU

/* Word n of a slot */
#define SLOT_WORD(slot, n) (slots + (n) *SLOTS + (slot))
#define SLOT_LONG(slot, n) ((uint64_t *) (slots + (n) *SLOTS) + (slot))

template <class T>
GS_DEVICE T
seen_by_others(const T *p)
{
	return *(const volatile T *) p;
}

/* Adds a part of a key to a hash. */
GS_DEVICE uint32_t
slot_mix(uint32_t hash, uint32_t word)
{
	return (hash ^ word) * 0x9E3779B1U;
}

GS_DEVICE uint32_t
slot_at(uint32_t hash, uint32_t probe, uint32_t replicas)
{
	return (((hash >> 20) + probe) * (replicas + 1) & (SLOTS - 1)) | (threadIdx.x & replicas);
}

/* The slot of a group, or NO_SLOT */
template <class Keys>
GS_DEVICE uint32_t
find_slot(const Keys &keys, uint32_t hash, uint32_t replicas)
{
	GS_ROLLED
	for (uint32_t probe = 0; probe < SLOT_PROBES; probe++)
	{
		uint32_t slot = slot_at(hash, probe, replicas);
		uint32_t state = seen_by_others(&slots[slot]);

		if (state == (SLOT_READY | keys.nulls) && keys.is_in(slot))
			return slot;
		if (state == SLOT_EMPTY)
			break;
	}
	return NO_SLOT;
}

/* Makes one for a group that has a row, if there is room. */
template <class Keys>
GS_DEVICE_CALL uint32_t
make_slot(const Keys &keys, uint32_t hash, uint32_t replicas, uint32_t row)
{
	for (uint32_t probe = 0; probe < SLOT_PROBES;)
	{
		uint32_t slot = slot_at(hash, probe, replicas);
		uint32_t state = atomicCAS(&slots[slot], SLOT_EMPTY, SLOT_BUSY);

		if (state == SLOT_EMPTY)
		{
			keys.put_in(slot);
			*SLOT_WORD(slot, 1) = row;
			__threadfence_block();
			atomicExch(&slots[slot], SLOT_READY | keys.nulls);
			return slot;
		}
		if (state == SLOT_BUSY)
		{
			__nanosleep(20);
			continue;
		}
		if (state == (SLOT_READY | keys.nulls) && keys.is_in(slot))
			return slot;
		probe++;
	}
	return NO_SLOT;
}

/*
 * Advancing
 */

/* Adds a number of n words. */
template <int n>
GS_DEVICE void
slot_add(uint32_t *word, const uint32_t (&value)[n])
{
	uint32_t carry = 0;

#pragma unroll
	for (int i = 0; i < n; i++)
	{
		uint32_t x = value[i] + carry;

		carry = x < carry;
		if (x != 0)
			carry += atomicAdd(&word[i * SLOTS], x) > ~x;
	}
}

GS_DEVICE void
slot_add(uint32_t *word, int64_t value)
{
	uint32_t words[2] = {(uint32_t) value, (uint32_t) (value >> 32)};

	slot_add(word, words);
}

/* Into three words */
GS_DEVICE void
slot_add_wide(uint32_t *word, int64_t value)
{
	uint32_t words[3] = {(uint32_t) value, (uint32_t) (value >> 32), (uint32_t) (value >> 63)};

	slot_add(word, words);
}

/* Into five words */
GS_DEVICE void
slot_add_wide(uint32_t *word, gs_i128 value)
{
	uint32_t words[5] = {(uint32_t) value, (uint32_t) (value >> 32), (uint32_t) (value >> 64),
						 (uint32_t) (value >> 96), (uint32_t) (value >> 127)};

	slot_add(word, words);
}

GS_DEVICE void
slot_max(uint64_t *s, uint64_t code)
{
	if (seen_by_others(s) < code)
		atomicMax((gs_word *) s, (gs_word) code);
}

GS_DEVICE void
slot_or(uint64_t *s, uint64_t bits)
{
	if ((seen_by_others(s) & bits) != bits)
		atomicOr((gs_word *) s, (gs_word) bits);
}

template <bool is_min>
GS_DEVICE void
slot_extremum(uint64_t *s, uint64_t *zeros, int64_t value)
{
	uint64_t code = extremum_code(value);

	slot_max(s, is_min ? ~code : code);
}

template <bool is_min>
GS_DEVICE void
slot_extremum(uint64_t *s, uint64_t *zeros, double value)
{
	uint64_t code = extremum_code(value);

	slot_max(s, is_min ? ~code : code);
	if (value == 0)
		slot_or(zeros, signbit(value) ? 2 : 1);
}

/*
 * A float sum: words as in SumHead, then two for each window.  A slot that does not
 * reach a summand asks the group's row, and is anchored where that is.
 */
#define SLOT_WINDOW(word, i) ((word) + (2 + 2 * (i)) * SLOTS)

GS_DEVICE_CALL bool
slot_sum_anchor(const CudaLaunch &launch, SumHead *s, uint32_t *word, int32_t top)
{
	if (!sum_reach(launch, s, top, false))
		return false;
	atomicOr(word, load_relaxed(&s->base) & SUM_BASE);
	return true;
}

GS_DEVICE bool
slot_sum_prepare(const CudaLaunch &launch, SumHead *s, uint32_t *word, double value, int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);
	int32_t top = gs_fsum_cut(parts).top;

	if (parts.exponent > limit)
		return true;
	if ((int32_t) seen_by_others(word + SLOTS) < top)
		atomicMax((int32_t *) word + SLOTS, top);
	return parts.mantissa == 0 || top < (int32_t) (seen_by_others(word) & SUM_BASE) ||
		   slot_sum_anchor(launch, s, word, top);
}

GS_DEVICE void
slot_sum_add(uint32_t *word, double value, int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);
	bool beyond = parts.exponent > limit;
	uint32_t special = beyond ? gs_fsum_special(parts) : 0;
	uint32_t base = seen_by_others(word);

	if (beyond || parts.mantissa != 0 || !parts.negative)
		special |= GPUSCAN_FSUM_NOT_MINUS_0;
	if (!beyond)
	{
		GsFSumPieces pieces = gs_fsum_cut(parts);

#pragma unroll
		for (int i = 0; i < 3; i++)
		{
			uint32_t at = (base & SUM_BASE) - 1 - (uint32_t) (pieces.window + i);
			int64_t piece = parts.negative ? -(int64_t) pieces.piece[i] : pieces.piece[i];

			if (at < 4)
				slot_add(SLOT_WINDOW(word, at), piece);
		}
	}
	if ((special & ~(base >> SUM_SPECIAL)) != 0)
		atomicOr(word, special << SUM_SPECIAL);
}

/*
 * To a group's row
 */
GS_DEVICE uint64_t
slot_long(const uint32_t *word)
{
	return (uint64_t) word[SLOTS] << 32 | word[0];
}

GS_DEVICE void
flush_add(uint64_t *s, uint64_t value)
{
	if (value != 0)
		add_atomic(s, value);
}

GS_DEVICE void
flush_wide(uint64_t *s, const uint32_t *word)
{
	add_words(s, slot_long(word), (uint64_t) (int64_t) (int32_t) word[2 * SLOTS]);
}

GS_DEVICE void
flush_wider(uint64_t *s, const uint32_t *word)
{
	add_words(s, slot_long(word), slot_long(word + 2 * SLOTS),
			  (uint64_t) (int64_t) (int32_t) word[4 * SLOTS]);
}

GS_DEVICE void
flush_max(uint64_t *s, uint64_t code)
{
	if (load_relaxed(s) < code)
		atomicMax((gs_word *) s, (gs_word) code);
}

GS_DEVICE void
flush_or(uint64_t *s, uint64_t bits)
{
	if ((load_relaxed(s) & bits) != bits)
		atomicOr((gs_word *) s, (gs_word) bits);
}

GS_DEVICE void
flush_sum(SumHead *s, uint64_t *windows, const uint32_t *word)
{
	uint32_t special = word[0] & ~SUM_BASE;

	if (load_relaxed((const uint32_t *) &s->top) < word[SLOTS])
		atomicMax(&s->top, (int32_t) word[SLOTS]);
	if (special != 0)
		atomicOr(&s->base, special);
	for (int i = 0; i < 4; i++)
		flush_add(&windows[i], slot_long(SLOT_WINDOW(word, i)));
}

#endif /* GPUSCAN_CUDA_SHARED_H */
