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

/* The first word of a slot; READY: with what keys.slot_bits() says of the keys */
#define SLOT_EMPTY 0
#define SLOT_BUSY 1
#define SLOT_READY 0x80000000U
#define SLOT_PROBES 16
#define NO_SLOT 0xFFFFFFFFU

/* Word n of a slot */
#define SLOT_WORD(slot, n) (slots + (n) *SLOTS + (slot))
#define SLOT_LONG(slot, n) ((uint64_t *) (slots + (n) *SLOTS) + (slot))

/* Loaded or stored once, and as a whole */
template <class T>
GS_DEVICE volatile T &
seen_by_others(T *p)
{
	return *(volatile T *) p;
}

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
	hash = (hash ^ word) * 0x9E3779B1U;
	return hash ^ hash >> 15;
}

/* The hash of a number: neighbours have slots of their own, mostly. */
GS_DEVICE uint32_t
slot_near(uint32_t word)
{
	return word + word / SLOTS * 0x9E3779B1U;
}

GS_DEVICE uint32_t
slot_at(uint32_t hash, uint32_t probe, uint32_t replicas)
{
	return ((hash + probe) * (replicas + 1) & (SLOTS - 1)) | (threadIdx.x & replicas);
}

/*
 * Looking for a slot
 *
 * The state and the words of the keys are loaded without an order among them, since
 * keeping one would have the second load wait for the first.  A word of a key that is
 * read too early is 0, as the block began with it.  So the state, which is written
 * behind the keys, has a bit for each word whether it is 0 (keys.slot_bits()): a reader with
 * a 0 there needs that bit, and any other needs the word itself.  At worst a reader does not
 * find a slot that has just been made, and makes another.
 *
 * Whoever reads the row of a slot found in this way needs a fence before it.
 */

/* The slot of a group, or NO_SLOT; not the first that it may have */
template <class Keys>
GS_DEVICE_CALL uint32_t
find_other_slot(const Keys &keys, uint32_t hash, uint32_t replicas)
{
	const uint32_t ready = SLOT_READY | keys.slot_bits();

	GS_ROLLED
	for (uint32_t probe = 1; probe < SLOT_PROBES; probe++)
	{
		uint32_t slot = slot_at(hash, probe, replicas);
		uint32_t state = seen_by_others(&slots[slot]);

		if (state == ready && keys.is_in(slot))
			return slot;
		if (state == SLOT_EMPTY)
			break;
	}
	return NO_SLOT;
}

/* What is called gets a copy, so that the keys themselves stay in registers. */
template <class Keys>
GS_DEVICE uint32_t
find_slot(const Keys &keys, uint32_t hash, uint32_t replicas)
{
	uint32_t slot = slot_at(hash, 0, replicas);
	uint32_t state = seen_by_others(&slots[slot]);

	if (keys.is_in(slot) & (state == (SLOT_READY | keys.slot_bits())))
		return slot;
	if (state == SLOT_EMPTY)
		return NO_SLOT;
	Keys copy = keys;
	return find_other_slot(copy, hash, replicas);
}

/* Makes one for a group that has a row, if there is room. */
template <class Keys>
GS_DEVICE_CALL uint32_t
make_slot(const Keys &keys, uint32_t hash, uint32_t replicas, uint32_t row)
{
	const uint32_t ready = SLOT_READY | keys.slot_bits();

	for (uint32_t probe = 0; probe < SLOT_PROBES;)
	{
		uint32_t slot = slot_at(hash, probe, replicas);
		uint32_t state = atomicCAS(&slots[slot], SLOT_EMPTY, SLOT_BUSY);

		if (state == SLOT_EMPTY)
		{
			keys.put_in(slot);
			*SLOT_WORD(slot, 1) = row;
			__threadfence_block();
			atomicExch(&slots[slot], ready);
			return slot;
		}
		if (state == SLOT_BUSY)
		{
			__nanosleep(20);
			continue;
		}
		if (state == ready && keys.is_in(slot))
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

/* Into two words, where the second mostly stays as it is */
GS_DEVICE void
slot_add(uint32_t *word, int64_t value)
{
	uint32_t low = (uint32_t) value;
	uint64_t sum = (uint64_t) atomicAdd(word, low) + low;
	uint32_t high = (uint32_t) (value >> 32) + (uint32_t) (sum >> 32);

	if (high != 0)
		atomicAdd(word + SLOTS, high);
}

/* Into three words, where the others mostly stay as they are */
GS_DEVICE void
slot_add_wide(uint32_t *word, int64_t value)
{
	uint32_t low = (uint32_t) value;
	int64_t rest = (value >> 32) + (atomicAdd(word, low) > ~low);
	uint32_t words[2] = {(uint32_t) rest, (uint32_t) (rest >> 32)};

	if (rest != 0)
		slot_add(word + SLOTS, words);
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
 * A float sum: a word as SumHead.base, with two bits more, two words for each window, and
 * what usual_summand() looks at.  A slot that does not reach a summand asks the
 * group's row, and is anchored where that is.  The row's `top` is at most two below
 * its base then, so there is more to say of it only after a summand in the highest
 * window.
 */
#define SLOT_WINDOW(word, i) ((word) + (1 + 2 * (i)) * SLOTS)
#define SLOT_USUAL(word) ((word) + 9 * SLOTS)
#define SLOT_HIGHEST 31		 /* bit: there was a summand in the highest window */
#define SLOT_ZERO (1U << 30) /* the row knows of a zero */
#define SLOT_SPECIAL ((1U << 30) - 1 - SUM_BASE)

/* The group's row in the table, and in it the head of a sum */
GS_DEVICE SumHead *
slot_sum_head(const CudaLaunch &launch, uint32_t slot, uint32_t row_size, uint32_t offset)
{
	__threadfence_block();
	return (SumHead *) ((char *) launch.table.rows + (uint64_t) *SLOT_WORD(slot, 1) * row_size +
						offset);
}

/* What a slot that does not reach a summand has for a head then; 0: the tuple waits. */
GS_DEVICE_CALL uint32_t
slot_sum_anchor(const CudaLaunch &launch, SumHead *s, uint32_t *word, int32_t top, bool is_zero)
{
	uint32_t head = seen_by_others(word);
	uint32_t more = SLOT_ZERO;

	if (is_zero && (head & SLOT_ZERO) != 0)
		return head;
	if (top + 1 == (int32_t) (head & SUM_BASE))
		more = 1U << SLOT_HIGHEST;
	else if (!sum_reach(launch, s, top, is_zero))
		return 0;
	else if (!is_zero)
		more = load_relaxed(&s->base) & SUM_BASE;
	atomicOr(word, more);
	return head | more;
}

/* A summand, made ready; one that is beyond the limit has no pieces that a slot keeps */
struct SlotSummand
{
	int32_t top;
	int32_t window;
	int32_t piece[3]; /* signed */
	uint32_t special;
	bool is_zero;
	uint32_t head; /* of the slot that reaches it */
};

GS_DEVICE SlotSummand
slot_summand(double value, int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);
	GsFSumPieces pieces = gs_fsum_cut(parts);
	SlotSummand made = {pieces.top, pieces.window, {}, GPUSCAN_FSUM_NOT_MINUS_0, false, 0};

#pragma unroll
	for (int i = 0; i < 3; i++)
		made.piece[i] = ((int32_t) pieces.piece[i] ^ -parts.negative) + parts.negative;

	/* zeros, subnormal numbers, and those beyond */
	if ((uint32_t) (parts.exponent - 1) >= (uint32_t) limit)
	{
		made.is_zero = parts.exponent == 0 && parts.mantissa == 0;
		if (made.is_zero && parts.negative)
			made.special = 0;
		if (parts.exponent > limit)
		{
			made.special |= gs_fsum_special(parts);
			made.top = -2;
			made.window = -256;
		}
	}
	return made;
}

/* Makes sure that a slot reaches a summand. */
GS_DEVICE void
slot_sum_prepare(const CudaLaunch &launch, uint32_t slot, uint32_t row_size, uint32_t offset,
				 uint32_t *word, SlotSummand &summand, bool &waits)
{
	uint32_t head = seen_by_others(word);

	if (summand.top + 2 > (int32_t) ((head & SUM_BASE) + (head >> SLOT_HIGHEST)))
	{
		head = slot_sum_anchor(launch, slot_sum_head(launch, slot, row_size, offset), word,
							   summand.top, summand.is_zero);
		waits |= head == 0;
	}
	summand.head = head;
}

/*
 * The highest window, and below it a bound: what has an exponent of 1 up to that is
 * reached, and says nothing special
 */
GS_DEVICE uint32_t
slot_sum_usual(uint32_t head, int32_t limit)
{
	int32_t base = (int32_t) (head & SUM_BASE);
	int32_t reached =
		GS_FSUM_BITS * (base + (int32_t) (head >> SLOT_HIGHEST) - 3) + 2 * GS_FSUM_BITS - 52;

	if (reached <= 0 || (head >> SUM_SPECIAL & GPUSCAN_FSUM_NOT_MINUS_0) == 0)
		return 0;
	return (uint32_t) (base - 1) << 16 | (uint32_t) min(reached, limit);
}

GS_DEVICE void
slot_sum_add(uint32_t *word, const SlotSummand &summand, int32_t limit)
{
	uint32_t usual = slot_sum_usual(summand.head | summand.special << SUM_SPECIAL, limit);
	uint32_t first = (summand.head & SUM_BASE) - 1 - (uint32_t) summand.window;

#pragma unroll
	for (int i = 0; i < 3; i++)
	{
		uint32_t at = first - (uint32_t) i;

		if (at < 4 && summand.piece[i] != 0)
			slot_add(SLOT_WINDOW(word, at), summand.piece[i]);
	}
	if ((summand.special & ~(summand.head >> SUM_SPECIAL)) != 0)
		atomicOr(word, summand.special << SUM_SPECIAL);
	if (usual != seen_by_others(SLOT_USUAL(word)))
		*(volatile uint32_t *) SLOT_USUAL(word) = usual;
}

/*
 * The same of what is usual, in as few instructions: of a group that has its first
 * slot, numbers that are neither zero nor beyond, and sums that reach them
 */
template <class Keys>
GS_DEVICE bool
find_usual_slot(const Keys &keys, uint32_t replicas, uint32_t &slot)
{
	slot = slot_at(keys.slot_hash(), 0, replicas);
	const uint32_t state = seen_by_others(&slots[slot]);

	return keys.is_in(slot) & (state == (SLOT_READY | keys.slot_bits()));
}

struct UsualSummand
{
	uint32_t first;	   /* window of the slot that has the first piece */
	uint32_t piece[3]; /* signed */
};

/* false: it is not usual. */
GS_DEVICE bool
usual_summand(double value, const uint32_t *word, UsualSummand &made)
{
	uint32_t usual = seen_by_others(SLOT_USUAL(word));
	GsFloatParts parts = gs_float_parts(value);

	parts.mantissa |= 1ULL << 52;
	parts.position = parts.exponent - 1;
	GsFSumPieces pieces = gs_fsum_cut(parts);
	made.first = (usual >> 16) - (uint32_t) pieces.window;
#pragma unroll
	for (int i = 0; i < 3; i++)
		made.piece[i] = (pieces.piece[i] ^ -parts.negative) + parts.negative;
	return (uint32_t) parts.position < (usual & 0xFFFF);
}

/* A last piece without a window is 0, and the word before the windows can have that added. */
GS_DEVICE void
usual_sum_add(uint32_t *word, const UsualSummand &summand, int32_t limit)
{
	uint32_t *window = SLOT_WINDOW(word, 0) + (int32_t) summand.first * 2 * SLOTS;

#pragma unroll
	for (int i = 0; i < 3; i++)
	{
		if ((int32_t) summand.first < 4 + i)
			slot_add(window - 2 * i * SLOTS, (int64_t) (int32_t) summand.piece[i]);
	}
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
	uint32_t special = word[0] & SLOT_SPECIAL;

	if (word[0] >> SLOT_HIGHEST != 0)
		atomicMax(&s->top, (int32_t) (word[0] & SUM_BASE) - 1);
	if (special != 0)
		atomicOr(&s->base, special);
	for (int i = 0; i < 4; i++)
		flush_add(&windows[i], slot_long(SLOT_WINDOW(word, i)));
}

#endif /* GPUSCAN_CUDA_SHARED_H */
