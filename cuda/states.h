/*-------------------------------------------------------------------------
 *
 * states.h
 *	  Aggregate states on the device.  Part of kernel.h.
 *
 * Without keys every thread has states of its own in the form of aggregate.h
 * (local_...), which are merged by thread block.
 *
 * With keys a group's states lie in its row and are advanced by atomics, one for
 * the threads of a warp that are at the same group (group_...).  They have a form of their own in which zero bytes are the state
 * of no input, and become aggregate.h's at the end (emit_...):
 *
 *	 counters	the group's tuples; then for an aggregate with a filter the
 *				arguments that count, else those that do not (NULLs are rare)
 *	 sums		two words, or three where 128 bits might overflow
 *	 extrema	the largest code of a value, a minimum being a maximum of
 *				complements; of 128 bits under a version
 *	 bits		OR; AND being an OR of complements
 *	 float sums	see below
 *
 * A float sum has one window more than fsum.h's accumulators, above those that
 * its first summand needed, and is anchored there: windows do not move while
 * tuples add to them.  A summand beyond raises `top` and waits until the host has
 * run k_anchor, which moves the windows.  Nothing that fsum.h keeps is ever
 * dropped: the highest window of all summands, `top`, is not below that of the
 * first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_STATES_H
#define GPUSCAN_CUDA_STATES_H

/* In n of a float MIN or MAX: zeros of both signs were compared; as in device/cpu/aggregate.c. */
#define ZERO_TIE (1LL << 62)

/* Adds to a 128-bit number in two words; true if it overflows. */
GS_DEVICE bool
add_wide(uint64_t &lo, int64_t &hi, gs_i128 value)
{
	gs_i128 old = wide(lo, (uint64_t) hi);
	gs_i128 sum = (gs_i128) ((gs_u128) old + (gs_u128) value);

	lo = (uint64_t) sum;
	hi = (int64_t) (sum >> 64);
	return ((old ^ sum) & (value ^ sum)) < 0;
}

/* The square, true if it does not fit 127 bits */
GS_DEVICE_CALL bool
square(gs_i128 value, gs_i128 &dst)
{
	gs_u128 r;
	bool overflows = gs_u128_mul_overflows(gs_u128_abs(value), gs_u128_abs(value), &r);

	dst = (gs_i128) r;
	return overflows || dst < 0;
}

/*
 * Local states: advancing
 */
GS_DEVICE bool
local_sum(GpuScanSum64State &s, int32_t value)
{
	s.n++;
	s.sum += value;
	return false;
}

GS_DEVICE bool
local_sum(GpuScanSum128State &s, gs_i128 value)
{
	s.n++;
	return add_wide(s.lo, s.hi, value);
}

GS_DEVICE_CALL bool
local_squares(GpuScanSquares128State &s, gs_i128 value)
{
	gs_i128 squared;
	bool bad = square(value, squared);

	s.n++;
	bad |= add_wide(s.lo, s.hi, value);
	bad |= add_wide(s.squares_lo, s.squares_hi, squared);
	return bad;
}

GS_DEVICE_CALL bool
local_sum(GpuScanSumF64State &s, double value)
{
	s.n++;
	gs_fsum3_add(&s.sum, value);
	return false;
}

GS_DEVICE_CALL bool
local_sum(GpuScanSumF64State &s, float value)
{
	s.n++;
	gs_fsum3_add_f32(&s.sum, value);
	return false;
}

GS_DEVICE_CALL bool
local_squares(GpuScanSquaresF64State &s, double value)
{
	s.n++;
	gs_fsum5_add(&s.sum, value);
	gs_fsum5_add_square(&s.squares, value);
	return false;
}

template <bool is_min>
GS_DEVICE void
local_extremum(GpuScanValueState &s, int64_t value)
{
	if (s.n++ == 0 || (is_min ? value < s.value.i : value > s.value.i))
		s.value.i = value;
}

template <bool is_min>
GS_DEVICE void
float_extremum(GpuScanValueState &s, double value, bool first)
{
	double old = first ? value : s.value.f;

	value = bits_as<double>(float_word(value));
	if (value == old && signbit(value) != signbit(old))
		s.n |= ZERO_TIE;
	if (is_min)
		gs_f64_min(old, value, &s.value.f);
	else
		gs_f64_max(old, value, &s.value.f);
}

template <bool is_min>
GS_DEVICE void
local_extremum(GpuScanValueState &s, double value)
{
	bool first = s.n++ == 0;

	float_extremum<is_min>(s, value, first);
}

template <bool is_min>
GS_DEVICE void
local_extremum(GpuScanValue128State &s, gs_i128 value)
{
	gs_i128 old = wide(s.lo, (uint64_t) s.hi);

	if (s.n++ == 0 || (is_min ? value < old : value > old))
	{
		s.lo = (uint64_t) value;
		s.hi = (int64_t) (value >> 64);
	}
}

GS_DEVICE void
local_and(GpuScanValueState &s, int64_t value)
{
	s.value.i = s.n++ == 0 ? value : s.value.i & value;
}

GS_DEVICE void
local_or(GpuScanValueState &s, int64_t value)
{
	s.n++;
	s.value.i |= value;
}

/*
 * Local states: merging states that have seen something; true: overflow
 */

/* gs_fsumN_merge with n windows; `special` follows `top`.  Kept small: it runs rarely. */
GS_DEVICE_CALL void
merge_fsum(int32_t *top, uint32_t *special, int64_t *w, const int32_t *from_top,
		   const int64_t *from_w, int n)
{
	int32_t shift;

	gs_fsum_raise(top, w, n, *from_top);
	shift = *top - *from_top;
#pragma unroll 1
	for (int i = shift; i < n; i++)
		w[i] += from_w[i - shift];
	*special |= *(const uint32_t *) (from_top + 1);
}

struct MergeCount
{
	GS_MEMBER static bool
	merge(GpuScanCountState &s, const GpuScanCountState &from)
	{
		s.n += from.n;
		return false;
	}
};

struct MergeSum
{
	GS_MEMBER static bool
	merge(GpuScanSum64State &s, const GpuScanSum64State &from)
	{
		s.n += from.n;
		s.sum += from.sum;
		return false;
	}
	GS_MEMBER static bool
	merge(GpuScanSum128State &s, const GpuScanSum128State &from)
	{
		s.n += from.n;
		return add_wide(s.lo, s.hi, wide(from.lo, (uint64_t) from.hi));
	}
	GS_MEMBER static bool
	merge(GpuScanSquares128State &s, const GpuScanSquares128State &from)
	{
		bool bad = add_wide(s.lo, s.hi, wide(from.lo, (uint64_t) from.hi));

		s.n += from.n;
		return bad | add_wide(s.squares_lo, s.squares_hi,
							  wide(from.squares_lo, (uint64_t) from.squares_hi));
	}
	GS_MEMBER static bool
	merge(GpuScanSumF64State &s, const GpuScanSumF64State &from)
	{
		s.n += from.n;
		merge_fsum(&s.sum.top, &s.sum.special, s.sum.w, &from.sum.top, from.sum.w, 3);
		return false;
	}
	GS_MEMBER static bool
	merge(GpuScanSquaresF64State &s, const GpuScanSquaresF64State &from)
	{
		s.n += from.n;
		merge_fsum(&s.sum.top, &s.sum.special, s.sum.w, &from.sum.top, from.sum.w, 5);
		merge_fsum(&s.squares.top, &s.squares.special, s.squares.w, &from.squares.top,
				   from.squares.w, 5);
		return false;
	}
};

template <bool is_min> struct MergeExtremum
{
	GS_MEMBER static bool
	merge(GpuScanValueState &s, const GpuScanValueState &from)
	{
		int64_t n = s.n + from.n;

		local_extremum<is_min>(s, from.value.i);
		s.n = n;
		return false;
	}
	GS_MEMBER static bool
	merge(GpuScanValue128State &s, const GpuScanValue128State &from)
	{
		int64_t n = s.n + from.n;

		local_extremum<is_min>(s, wide(from.lo, (uint64_t) from.hi));
		s.n = n;
		return false;
	}
};

template <bool is_min> struct MergeFloatExtremum
{
	GS_MEMBER static bool
	merge(GpuScanValueState &s, const GpuScanValueState &from)
	{
		bool first = s.n == 0;

		s.n = ((s.n & ~ZERO_TIE) + (from.n & ~ZERO_TIE)) | ((s.n | from.n) & ZERO_TIE);
		float_extremum<is_min>(s, from.value.f, first);
		return false;
	}
};

struct MergeAnd
{
	GS_MEMBER static bool
	merge(GpuScanValueState &s, const GpuScanValueState &from)
	{
		s.value.i = s.n == 0 ? from.value.i : s.value.i & from.value.i;
		s.n += from.n;
		return false;
	}
};

struct MergeOr
{
	GS_MEMBER static bool
	merge(GpuScanValueState &s, const GpuScanValueState &from)
	{
		s.value.i |= from.value.i;
		s.n += from.n;
		return false;
	}
};

/* Merges the states of a thread block's threads into the one in its partial row. */
template <class Merge, class State>
GS_DEVICE_CALL void
merge_block(const CudaLaunch &launch, const State &mine, char *shared, char *partial)
{
	State *states = (State *) shared;
	bool bad = false;

	__syncthreads();
	states[threadIdx.x] = mine;
	__syncthreads();
#pragma unroll 1
	for (uint32_t n = blockDim.x; n > 1;)
	{
		uint32_t half = (n + 1) / 2;

		if (threadIdx.x < n - half && states[threadIdx.x + half].n != 0)
			bad |= Merge::merge(states[threadIdx.x], states[threadIdx.x + half]);
		n = half;
		__syncthreads();
	}
	if (threadIdx.x == 0 && states[0].n != 0)
		bad |= Merge::merge(*(State *) partial, states[0]);
	if (bad)
		atomicMax(&result_of(launch)->code, LEFT_TO_POSTGRES);
}

/*
 * Group states
 *
 * Where there are few groups, atomics would queue up at a few words.  So the
 * threads of a warp that advance the same group, which are peers, add up first,
 * and one of them goes to memory.  Every function here that takes Peers is called
 * by the whole warp.  A thread that has not `selected` adds nothing, and without
 * a tuple it has a row of its own that is not there.
 */
#define WARP 0xFFFFFFFFU

struct Peers
{
	uint32_t mine;	/* threads of the warp with this thread's group */
	uint32_t above; /* of these, the ones behind this thread */
	uint32_t rank;	/* how many are before it; 0: it goes to memory */
};

GS_DEVICE Peers
find_peers(uint32_t row)
{
	uint32_t self = 1U << threadIdx.x % 32;
	Peers peers;

	peers.mine = __match_any_sync(WARP, row);
	peers.above = peers.mine & ~(self | (self - 1));
	peers.rank = __popc(peers.mine & (self - 1));
	return peers;
}

/* Merges n words with those of the peers; the one with rank 0 gets the result. */
template <class Merge>
GS_DEVICE void
merge_peers(const Peers &peers, uint64_t *w, int n, Merge merge)
{
	uint32_t above = peers.above;
	uint32_t rank = peers.rank;

	/* each takes over what the next one has that is still there, and every other leaves */
	while (__any_sync(WARP, above != 0))
	{
		int from = above != 0 ? __ffs(above) - 1 : threadIdx.x % 32;

#pragma unroll 1
		for (int i = 0; i < n; i++)
		{
			uint64_t other = __shfl_sync(WARP, (gs_word) w[i], from);

			if (above != 0)
				w[i] = merge(w[i], other);
		}
		above &= ~__ballot_sync(WARP, rank & 1);
		rank >>= 1;
	}
}

GS_DEVICE_CALL void
sum_peers(const Peers &peers, uint64_t *w, int n)
{
	merge_peers(peers, w, n, [](uint64_t a, uint64_t b) { return a + b; });
}

GS_DEVICE void
group_count(const Peers &peers, uint64_t *s, bool selected)
{
	uint32_t n = __popc(__ballot_sync(WARP, selected) & peers.mine);

	if (peers.rank == 0 && n != 0)
		add_atomic(s, n);
}

GS_DEVICE void
group_add(const Peers &peers, uint64_t *s, bool selected, int64_t value)
{
	uint64_t sum = selected ? (uint64_t) value : 0;

	sum_peers(peers, &sum, 1);
	if (peers.rank == 0 && sum != 0)
		add_atomic(s, sum);
}

/* Adds a number of two words, or of three. */
GS_DEVICE void
add_words(uint64_t *s, uint64_t lo, uint64_t hi)
{
	if (lo != 0)
		hi += add_atomic(&s[0], lo) > ~lo;
	if (hi != 0)
		add_atomic(&s[1], hi);
}

GS_DEVICE void
add_words(uint64_t *s, uint64_t lo, uint64_t hi, uint64_t top)
{
	uint64_t carry = lo != 0 && add_atomic(&s[0], lo) > ~lo;

	top += hi + carry < carry;
	hi += carry;
	if (hi != 0)
		top += add_atomic(&s[1], hi) > ~hi;
	if (top != 0)
		add_atomic(&s[2], top);
}

/* Into two words; what the peers add up are halves, which do not overflow. */
GS_DEVICE_CALL void
group_add_wide(const Peers &peers, uint64_t *s, bool selected, int64_t value)
{
	uint64_t w[2] = {selected ? (uint32_t) value : 0, selected ? (uint64_t) (value >> 32) : 0};
	uint64_t lo;

	sum_peers(peers, w, 2);
	if (peers.rank != 0)
		return;
	lo = w[0] + (w[1] << 32);
	add_words(s, lo, (uint64_t) ((int64_t) w[1] >> 32) + (lo < w[0]));
}

/* Into three words, of which the third sees what 128 bits lose */
GS_DEVICE_CALL void
group_add_wide(const Peers &peers, uint64_t *s, bool selected, gs_i128 value)
{
	uint64_t w[4];
	gs_u128 sum;
	uint64_t top;

	for (int i = 0; i < 3; i++)
		w[i] = selected ? (uint32_t) (value >> 32 * i) : 0;
	w[3] = selected ? (uint64_t) (int64_t) (value >> 96) : 0;
	sum_peers(peers, w, 4);
	if (peers.rank != 0)
		return;
	sum = w[0] + ((gs_u128) w[1] << 32) + ((gs_u128) w[2] << 64);
	top = (uint64_t) ((int64_t) w[3] >> 32) + (sum + ((gs_u128) w[3] << 96) < sum);
	sum += (gs_u128) w[3] << 96;
	add_words(s, (uint64_t) sum, (uint64_t) (sum >> 64), top);
}

/* True if the square does not fit */
GS_DEVICE_CALL bool
group_squares(const Peers &peers, uint64_t *s, bool selected, gs_i128 value)
{
	gs_i128 squared;
	bool bad = square(value, squared);

	group_add_wide(peers, s, selected, value);
	group_add_wide(peers, s + 3, selected, squared);
	return selected && bad;
}

/* The order of codes is that of values; -0 is below 0, NaN the largest. */
GS_DEVICE uint64_t
extremum_code(int64_t value)
{
	return (uint64_t) value ^ 1ULL << 63;
}

GS_DEVICE uint64_t
extremum_code(double value)
{
	uint64_t word = float_word(value);

	return word ^ ((int64_t) word < 0 ? ~0ULL : 1ULL << 63);
}

GS_DEVICE double
float_of_code(uint64_t code)
{
	return bits_as<double>(code ^ ((int64_t) code < 0 ? 1ULL << 63 : ~0ULL));
}

/* 0 changes nothing. */
GS_DEVICE_CALL void
group_max(const Peers &peers, uint64_t *s, uint64_t code)
{
	merge_peers(peers, &code, 1, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
	if (peers.rank == 0 && code != 0 && load_relaxed(s) < code)
		atomicMax((gs_word *) s, (gs_word) code);
}

GS_DEVICE_CALL void
group_or(const Peers &peers, uint64_t *s, uint64_t bits)
{
	merge_peers(peers, &bits, 1, [](uint64_t a, uint64_t b) { return a | b; });
	if (peers.rank == 0 && bits != 0 && (load_relaxed(s) & bits) != bits)
		atomicOr((gs_word *) s, (gs_word) bits);
}

template <bool is_min>
GS_DEVICE void
group_extremum(const Peers &peers, uint64_t *s, bool selected, int64_t value)
{
	uint64_t code = extremum_code(value);

	group_max(peers, s, !selected ? 0 : is_min ? ~code : code);
}

/* The second word has a bit for each zero that was seen. */
template <bool is_min>
GS_DEVICE void
group_extremum(const Peers &peers, uint64_t *s, bool selected, double value)
{
	uint64_t code = extremum_code(value);

	group_max(peers, s, !selected ? 0 : is_min ? ~code : code);
	group_or(peers, s + 1, !selected || value != 0 ? 0 : signbit(value) ? 2 : 1);
}

/* A version (0: no value; odd: being written), low and high word */
template <bool is_min>
GS_DEVICE_CALL void
group_extremum(const Peers &peers, uint64_t *s, bool selected, gs_i128 value)
{
	for (bool done = !selected; !done;)
	{
		uint64_t version = load_acquire(s);
		gs_i128 old = wide(load_relaxed(s + 1), load_relaxed(s + 2));

		__threadfence();
		if ((version & 1) != 0)
			__nanosleep(20);
		else if (version != 0 && (is_min ? value >= old : value <= old))
			done = load_relaxed(s) == version;
		else if (atomicCAS((gs_word *) s, (gs_word) version, (gs_word) (version | 1)) == version)
		{
			atomicExch((gs_word *) (s + 1), (gs_word) value);
			atomicExch((gs_word *) (s + 2), (gs_word) (value >> 64));
			__threadfence();
			atomicExch((gs_word *) s, (gs_word) (version + 2));
			done = true;
		}
	}
}

/*
 * Float sums: a head, which is read with the keys, and windows elsewhere
 */
struct SumHead
{
	uint32_t base; /* the highest window + 1, or 0: not anchored; above it the bits of `special` */
	int32_t top;   /* the highest window of all summands, of waiting ones too */
};

#define SUM_BASE 0xFFFF
#define SUM_SPECIAL 16

/*
 * Makes sure that the windows reach up to the top of a summand; false: the tuple
 * waits.  A zero needs no window, and would anchor them too low for others.
 */
GS_DEVICE bool
sum_reach(const CudaLaunch &launch, SumHead *s, int32_t top, bool is_zero)
{
	uint64_t head = load_relaxed((const uint64_t *) s);
	uint32_t base = (uint32_t) head;

	if ((int32_t) (head >> 32) < top)
		atomicMax(&s->top, top);
	if (is_zero)
		return true;
	while ((base & SUM_BASE) == 0)
	{
		uint32_t old = atomicCAS(&s->base, base, base | (uint32_t) (top + 2));

		base = old == base ? base | (uint32_t) (top + 2) : old;
	}
	if (top < (int32_t) (base & SUM_BASE))
		return true;
	atomicOr(&result_of(launch)->full, CUDA_FULL_SUMS);
	return false;
}

/* Makes room for a summand; its exponent may be beyond the limit. */
GS_DEVICE_CALL bool
sum_prepare(const CudaLaunch &launch, SumHead *s, double value, int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);

	return parts.exponent > limit ||
		   sum_reach(launch, s, gs_fsum_cut(parts).top, parts.mantissa == 0);
}

GS_DEVICE_CALL bool
sum_prepare_square(const CudaLaunch &launch, SumHead *s, double value)
{
	GsFloatParts parts = gs_float_parts(value);

	return parts.exponent > GS_FSUM_F64_LIMIT ||
		   sum_reach(launch, s, gs_fsum_cut_square(parts).top, parts.mantissa == 0);
}

/* Adds pieces, if there are any, to n windows. */
GS_DEVICE_CALL void
sum_pieces(const Peers &peers, SumHead *s, uint64_t *w, int n, const GsFSumPieces &pieces,
		   int npieces, int32_t negative, uint32_t special)
{
	int32_t base = npieces == 0 ? 0 : (int32_t) (load_relaxed(&s->base) & SUM_BASE);
	uint64_t words[6] = {0, 0, 0, 0, 0, 0};

#pragma unroll 1
	for (int i = 0; i < npieces; i++)
	{
		uint32_t at = (uint32_t) (base - 1 - (pieces.window + i));

		if (at < (uint32_t) n)
			words[at] = negative ? 0 - (uint64_t) pieces.piece[i] : pieces.piece[i];
	}
	sum_peers(peers, words, n);
#pragma unroll 1
	for (int i = 0; peers.rank == 0 && i < n; i++)
	{
		if (words[i] != 0)
			add_atomic(&w[i], words[i]);
	}
	if (special != 0 && (special & ~(load_relaxed(&s->base) >> SUM_SPECIAL)) != 0)
		atomicOr(&s->base, special << SUM_SPECIAL);
}

GS_DEVICE_CALL void
sum_add(const Peers &peers, SumHead *s, uint64_t *w, int n, bool selected, double value,
		int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);
	bool beyond = parts.exponent > limit;
	uint32_t special = beyond ? gs_fsum_special(parts) : 0;

	if (beyond || parts.mantissa != 0 || !parts.negative)
		special |= GPUSCAN_FSUM_NOT_MINUS_0;
	sum_pieces(peers, s, w, n, gs_fsum_cut(parts), selected && !beyond ? 3 : 0, parts.negative,
			   selected ? special : 0);
}

GS_DEVICE_CALL void
sum_add_square(const Peers &peers, SumHead *s, uint64_t *w, int n, bool selected, double value)
{
	GsFloatParts parts = gs_float_parts(value);
	bool beyond = parts.exponent > GS_FSUM_F64_LIMIT;
	uint32_t special = GPUSCAN_FSUM_NOT_MINUS_0;

	parts.negative = 0;
	if (beyond)
		special |= gs_fsum_special(parts);
	sum_pieces(peers, s, w, n, gs_fsum_cut_square(parts), selected && !beyond ? 5 : 0, 0,
			   selected ? special : 0);
}

/* Moves n windows up to what is waited for.  By one thread, alone. */
GS_DEVICE_CALL void
sum_anchor(SumHead *s, uint64_t *w, int n)
{
	int32_t base = (int32_t) (s->base & SUM_BASE);
	int32_t shift = s->top + 2 - base;

	if (base == 0 || s->top < base)
		return;
	for (int i = n - 1; i >= 0; i--)
		w[i] = i >= shift ? w[i - shift] : 0;
	s->base += (uint32_t) shift;
}

/*
 * From group states to aggregate.h's; false where PostgreSQL must compute the
 * aggregate.
 */
GS_DEVICE bool
emit_sum(GpuScanSum128State *out, const uint64_t *s, bool checked)
{
	out->lo = s[0];
	out->hi = (int64_t) s[1];
	return !checked || (int64_t) s[2] == out->hi >> 63;
}

GS_DEVICE_CALL bool
emit_squares(GpuScanSquares128State *out, const uint64_t *s)
{
	out->lo = s[0];
	out->hi = (int64_t) s[1];
	out->squares_lo = s[3];
	out->squares_hi = (int64_t) s[4];
	return (int64_t) s[2] == out->hi >> 63 && s[5] == 0 && out->squares_hi >= 0;
}

/* Windows are kept but for the one above. */
template <class FSum>
GS_DEVICE_CALL bool
emit_fsum(FSum *out, const SumHead *s, const uint64_t *w, int n)
{
	int32_t base = (int32_t) (s->base & SUM_BASE);

	out->top = s->top;
	out->special = s->base >> SUM_SPECIAL;
	for (int i = 0; i < n - 1; i++)
	{
		uint32_t at = (uint32_t) (base - 1 - (s->top - i));

		out->w[i] = at < (uint32_t) n ? (int64_t) w[at] : 0;
	}
	return (out->special & GPUSCAN_FSUM_HUGE) == 0;
}

template <bool is_min>
GS_DEVICE void
emit_extremum(GpuScanValueState *out, const uint64_t *s)
{
	out->value.i = (int64_t) ((is_min ? ~s[0] : s[0]) ^ 1ULL << 63);
}

template <bool is_min>
GS_DEVICE bool
emit_float_extremum(GpuScanValueState *out, const uint64_t *s)
{
	out->value.f = float_of_code(is_min ? ~s[0] : s[0]);
	return s[1] != 3 || out->value.f != 0;
}

#endif /* GPUSCAN_CUDA_STATES_H */
