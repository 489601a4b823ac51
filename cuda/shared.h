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

/* Word n of a slot; of one whose first word is at `words` */
#define SLOT_WORD(slot, n) (slots + (n) *SLOTS + (slot))
#define SLOT_LONG(slot, n) ((uint64_t *) (slots + (n) *SLOTS) + (slot))
#define WORD(n) (words + (n) *SLOTS)
#define LONG(n) ((uint64_t *) (words + (n) *SLOTS + slot))

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

/* The number of a key */
GS_DEVICE uint32_t
number_of_key(const CudaNumbers &numbers, uint32_t key, bool is_null)
{
	return is_null ? 0 : key - (uint32_t) numbers.origin;
}

GS_DEVICE uint32_t
number_of_key(const CudaNumbers &numbers, uint64_t key, bool is_null)
{
	return is_null ? 0 : (uint32_t) ((key - (uint64_t) numbers.origin) >> numbers.shift);
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

/* Where groups have numbers, a slot is of one group, and a group has no other. */
GS_DEVICE uint32_t
slot_probes(const CudaLaunch &launch)
{
	return launch.numbered ? 1 : SLOT_PROBES;
}

/* The slot of a group, or NO_SLOT; not the first that it may have */
template <class Keys>
GS_DEVICE_CALL uint32_t
find_other_slot(const CudaLaunch &launch, const Keys &keys, uint32_t hash)
{
	const uint32_t ready = SLOT_READY | keys.slot_bits();

	GS_ROLLED
	for (uint32_t probe = 1; probe < slot_probes(launch); probe++)
	{
		uint32_t slot = slot_at(hash, probe, launch.replicas);
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
find_slot(const CudaLaunch &launch, const Keys &keys, uint32_t hash)
{
	uint32_t slot = slot_at(hash, 0, launch.replicas);
	uint32_t state = seen_by_others(&slots[slot]);

	if (keys.is_in(slot) & (state == (SLOT_READY | keys.slot_bits())))
		return slot;
	if (state == SLOT_EMPTY)
		return NO_SLOT;
	Keys copy = keys;
	return find_other_slot(launch, copy, hash);
}

/* Makes one for a group that has a row, if there is room. */
template <class Keys>
GS_DEVICE_CALL uint32_t
make_slot(const CudaLaunch &launch, const Keys &keys, uint32_t hash, uint32_t row)
{
	const uint32_t ready = SLOT_READY | keys.slot_bits();

	for (uint32_t probe = 0; probe < slot_probes(launch);)
	{
		uint32_t slot = slot_at(hash, probe, launch.replicas);
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
	uint64_t sum = (uint64_t) atomicAdd(word, low) + low;
	/* with the sign behind it, unless the carry has made it 0 */
	uint32_t words[2] = {(uint32_t) (value >> 32) + (uint32_t) (sum >> 32),
						 (uint32_t) (value >> 63)};

	if (words[0] != 0)
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
 * A float sum: a word as SumHead.base, with two bits more, and two words for each window.
 * A slot that does not reach a summand asks the group's row, and is anchored where that
 * is.  The row's `top` is at most two below its base then, so there is more to say of it
 * only after a summand in the highest window.
 */
#define SLOT_WINDOW(word, i) ((word) + (1 + 2 * (i)) * SLOTS)
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
 * A slot's quick words: what the usual way needs to know of it.  There is one for each
 * float sum, with the highest window that the group's sum has, and whether that is the
 * slot's second.  The first of them, which is there without sums too, has a bit that the slot
 * is ready, and what is known of extrema (CudaSkip).  Whoever changes a word may undo what
 * others have written meanwhile: whatever it said once stays true.
 */
#define QUICK_SECOND 1
#define QUICK_WINDOW 0x7E
#define QUICK_READY 0x80

/* Bits of a sum's windows replace others. */
GS_DEVICE void
slot_set_quick(uint32_t *word, uint32_t bits)
{
	uint32_t old = seen_by_others((const uint32_t *) word);
	uint32_t quick =
		((bits & QUICK_WINDOW) != 0 ? old & ~(QUICK_WINDOW | QUICK_SECOND) : old) | bits;

	if (quick != old)
		seen_by_others(word) = quick;
}

/* What a slot's extremum is at least, in `mask` at `shift` */
GS_DEVICE void
slot_set_skip(uint32_t *word, const CudaSkip &skip, uint32_t shift, uint32_t mask,
			  const uint64_t *s)
{
	uint32_t old = seen_by_others((const uint32_t *) word);
	uint32_t least = (uint32_t) ((seen_by_others(s) - skip.origin) >> skip.shift);

	if (skip.known && (old >> shift & mask) < least)
		seen_by_others(word) = (old & ~(mask << shift)) | least << shift;
}

/* What a slot has to know for all of a chunk to be passed over */
template <bool is_min>
GS_DEVICE uint32_t
skip_needs(const CudaSkip &skip, const CudaColumn &column)
{
	uint64_t code = is_min ? ~extremum_code(column.low) : extremum_code(column.high);

	return skip.known ? (uint32_t) ((code - skip.origin) >> skip.shift) + 1 : 0xFFFFFFFF;
}

GS_DEVICE void
slot_sum_add(uint32_t *word, const SlotSummand &summand)
{
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
}

/* What a sum's quick word is to say of windows, behind a summand */
GS_DEVICE uint32_t
slot_sum_quick(const SlotSummand &summand, int32_t limit)
{
	const uint32_t special = summand.head >> SUM_SPECIAL | summand.special;
	const int32_t highest = (int32_t) (summand.head >> SLOT_HIGHEST);
	const int32_t top = (int32_t) (summand.head & SUM_BASE) - 2 + highest;

	if (top < 3 || GS_FSUM_BITS * top - 22 > limit || (special & GPUSCAN_FSUM_NOT_MINUS_0) == 0)
		return 0;
	return (uint32_t) (top << 1 | (1 - highest));
}

/*
 * The same of what is usual, in as few instructions: of a group that has its first
 * slot, and summands that its sums reach
 */

/* The slots' address in a register, where the compiler would work it out again and again */
GS_DEVICE uint32_t *
slots_at_hand()
{
#ifdef GPUSCAN_EMULATED_PRELUDE_H
	return slots;
#else
	uint32_t at = (uint32_t) __cvta_generic_to_shared(slots);

	asm volatile("" : "+r"(at));
	return (uint32_t *) __cvta_shared_to_generic(at);
#endif
}

/* True if a slot is the group's, where groups have no numbers */
template <class Keys>
GS_DEVICE bool
is_slot_of(const Keys &keys, uint32_t slot)
{
	return keys.is_in(slot) & (seen_by_others(&slots[slot]) == (SLOT_READY | keys.slot_bits()));
}

/* Pieces of a summand for the highest window that its sum has, and the two below it */
struct QuickSummand
{
	uint32_t second; /* they begin at the slot's second window */
	int32_t piece[3];
	uint32_t high[3]; /* what is added to the windows' high words */
};

/*
 * Cuts up a double by adding to its magnitude a power of two so large that the last bit
 * of the sum is a window's: what is left then is below it.  false: a window above would
 * be needed, or it is none of the numbers that have windows.
 */
GS_DEVICE bool
quick_summand(double value, uint32_t quick, QuickSummand &made)
{
	const uint32_t high = (uint32_t) __double2hiint(value);
	/* exponent of the highest window's power */
	uint32_t power = (quick & QUICK_WINDOW) * (GS_FSUM_BITS << 19) + (1 << 20);
	/* never, where there is no window */
	const bool fits = (int32_t) (high & 0x7FFFFFFF) < (int32_t) (power - (22 << 20));
	double rest = fabs(value);

	made.second = quick & QUICK_SECOND;
#pragma unroll
	for (int i = 0; i < 3; i++, power -= GS_FSUM_BITS << 20)
	{
		const double window = __hiloint2double((int) power, 0);
		const double sum = __dadd_rz(rest, window);

		made.piece[i] = __double2loint(sum);
		made.piece[i] = (int32_t) high < 0 ? -made.piece[i] : made.piece[i];
		rest -= sum - window;
	}
	return fits;
}

/* Adds pieces to low words, which are under way together; mostly there is none for the highest window. */
GS_DEVICE void
quick_sum_add(uint32_t *word, QuickSummand &summand)
{
	uint32_t *window = SLOT_WINDOW(word, 0) + summand.second * 2 * SLOTS;

	if (summand.piece[0] != 0)
		slot_add(window, summand.piece[0]);
#pragma unroll
	for (int i = 1; i < 3; i++)
	{
		const uint32_t piece = (uint32_t) summand.piece[i];
		const uint64_t sum = (uint64_t) atomicAdd(window + i * 2 * SLOTS, piece) + piece;

		summand.high[i] = (uint32_t) (summand.piece[i] >> 31) + (uint32_t) (sum >> 32);
	}
}

/* And what comes of it to the high ones */
GS_DEVICE void
quick_sum_carry(uint32_t *word, const QuickSummand &summand)
{
	uint32_t *window = SLOT_WINDOW(word, 0) + summand.second * 2 * SLOTS;

#pragma unroll
	for (int i = 1; i < 3; i++)
	{
		if (summand.high[i] != 0)
			atomicAdd(window + (i * 2 + 1) * SLOTS, summand.high[i]);
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
