/*-------------------------------------------------------------------------
 *
 * states.h
 *	  Aggregate states on the device.  Part of kernel.h.
 *
 * Without keys every thread has states of its own in the form of aggregate.h
 * (local_...), which are merged by thread block.
 *
 * With keys a group's states lie in its row and are advanced by atomics
 * (group_...).  They have a form of their own in which zero bytes are the state
 * of no input, and become aggregate.h's at the end (emit_...):
 *
 *	 counters	the group's tuples; then for an aggregate with a filter the
 *				arguments that count, else those that do not (NULLs are rare)
 *	 sums		two words, or three where 128 bits might overflow
 *	 extrema	the largest code of a value, a minimum being a maximum of
 *				complements; of 128 bits under a lock
 *	 bits		OR; AND being an OR of complements
 *	 float sums	see below
 *
 * A float sum has one window more than fsum.h's accumulators, above those that
 * its first summand needed, and is anchored there: windows do not move while
 * tuples add to them.  A summand beyond says so in `want` and waits until the
 * host has run k_anchor, which moves the windows.  Nothing that fsum.h keeps is
 * ever dropped: the highest window of all summands, `top`, is not below that of
 * the first.
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

	static_assert(sizeof(State) * CUDA_THREADS <= CUDA_WARPS * CUDA_PAGE_SIZE, "too large");
	__syncthreads();
	states[threadIdx.x] = mine;
	__syncthreads();
#pragma unroll 1
	for (uint32_t n = CUDA_THREADS / 2; n > 0; n /= 2)
	{
		if (threadIdx.x < n && states[threadIdx.x + n].n != 0)
			bad |= Merge::merge(states[threadIdx.x], states[threadIdx.x + n]);
		__syncthreads();
	}
	if (threadIdx.x == 0 && states[0].n != 0)
		bad |= Merge::merge(*(State *) partial, states[0]);
	if (bad)
		atomicMax(&result_of(launch)->code, LEFT_TO_POSTGRES);
}

/*
 * Group states
 */
GS_DEVICE void
group_add_wide(uint64_t *s, gs_i128 value)
{
	uint64_t lo = (uint64_t) value;
	uint64_t hi = (uint64_t) (value >> 64);

	if (lo != 0)
		hi += add_atomic(&s[0], lo) > ~lo;
	if (hi != 0)
		add_atomic(&s[1], hi);
}

/* With a third word, which sees what 128 bits lose */
GS_DEVICE_CALL void
group_add_checked(uint64_t *s, gs_i128 value)
{
	uint64_t lo = (uint64_t) value;
	uint64_t hi = (uint64_t) (value >> 64);
	uint64_t carry = lo != 0 && add_atomic(&s[0], lo) > ~lo;
	uint64_t top = value < 0 ? ~0ULL : 0;

	top += hi + carry < carry;
	hi += carry;
	if (hi != 0)
		top += add_atomic(&s[1], hi) > ~hi;
	if (top != 0)
		add_atomic(&s[2], top);
}

/* True if the square does not fit */
GS_DEVICE_CALL bool
group_squares(uint64_t *s, gs_i128 value)
{
	gs_i128 squared;
	bool bad = square(value, squared);

	group_add_checked(s, value);
	group_add_checked(s + 3, squared);
	return bad;
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

GS_DEVICE void
group_max(uint64_t *s, uint64_t code)
{
	if (load_relaxed(s) < code)
		atomicMax((gs_word *) s, (gs_word) code);
}

template <bool is_min>
GS_DEVICE void
group_extremum(uint64_t *s, int64_t value)
{
	group_max(s, is_min ? ~extremum_code(value) : extremum_code(value));
}

/* The second word has a bit for each zero that was seen. */
template <bool is_min>
GS_DEVICE void
group_extremum(uint64_t *s, double value)
{
	group_max(s, is_min ? ~extremum_code(value) : extremum_code(value));
	if (value == 0)
	{
		uint64_t bit = signbit(value) ? 2 : 1;

		if ((load_relaxed(s + 1) & bit) == 0)
			atomicOr((gs_word *) (s + 1), (gs_word) bit);
	}
}

/* Lock (1: taken, 2: there is a value), low and high word */
template <bool is_min>
GS_DEVICE_CALL void
group_extremum(uint64_t *s, gs_i128 value)
{
	for (bool done = false; !done;)
	{
		gs_word lock = atomicAdd((gs_word *) s, 0ULL);

		if ((lock & 1) == 0 && atomicCAS((gs_word *) s, lock, lock | 1) == lock)
		{
			gs_i128 old;

			__threadfence();
			old = wide(load_relaxed(s + 1), load_relaxed(s + 2));
			if (lock == 0 || (is_min ? value < old : value > old))
			{
				atomicExch((gs_word *) (s + 1), (gs_word) value);
				atomicExch((gs_word *) (s + 2), (gs_word) (value >> 64));
			}
			__threadfence();
			atomicExch((gs_word *) s, 2ULL);
			done = true;
		}
		else
			__nanosleep(20);
	}
}

GS_DEVICE void
group_or(uint64_t *s, uint64_t bits)
{
	if ((load_relaxed(s) & bits) != bits)
		atomicOr((gs_word *) s, (gs_word) bits);
}

/*
 * Float sums
 */
template <int n> struct GroupSum
{
	int32_t base; /* the highest window + 1, or 0: not anchored */
	int32_t top;
	uint32_t special;
	int32_t want; /* the highest window that a summand waits for, or 0 */
	uint64_t w[n];
};

/* Makes sure that the windows reach up to `top`; false: the tuple waits. */
template <int n>
GS_DEVICE bool
sum_reach(const CudaLaunch &launch, GroupSum<n> *s, int32_t top)
{
	int32_t base = (int32_t) load_relaxed((const uint32_t *) &s->base);

	if (base == 0)
	{
		base = atomicCAS(&s->base, 0, top + 2);
		base = base == 0 ? top + 2 : base;
	}
	if (top < base)
		return true;
	atomicMax(&s->want, top);
	atomicOr(&result_of(launch)->full, CUDA_FULL_SUMS);
	return false;
}

template <int n>
GS_DEVICE void
sum_special(GroupSum<n> *s, uint32_t bits)
{
	if ((load_relaxed(&s->special) & bits) != bits)
		atomicOr(&s->special, bits);
}

template <int n>
GS_DEVICE void
sum_pieces(GroupSum<n> *s, const GsFSumPieces &pieces, int npieces, int32_t negative)
{
	int32_t base = (int32_t) load_relaxed((const uint32_t *) &s->base);

	if ((int32_t) load_relaxed((const uint32_t *) &s->top) < pieces.top)
		atomicMax(&s->top, pieces.top);
#pragma unroll
	for (int i = 0; i < npieces; i++)
	{
		uint32_t at = (uint32_t) (base - 1 - (pieces.window + i));
		uint64_t piece = pieces.piece[i];

		if (piece != 0 && at < n)
			add_atomic(&s->w[at], negative ? 0 - piece : piece);
	}
}

/* Makes room for a summand; its exponent may be beyond the limit. */
template <int n>
GS_DEVICE_CALL bool
sum_prepare(const CudaLaunch &launch, GroupSum<n> *s, double value, int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);

	if (parts.exponent > limit || parts.mantissa == 0)
		return true;
	return sum_reach(launch, s, gs_fsum_cut(parts).top);
}

template <int n>
GS_DEVICE_CALL void
sum_add(GroupSum<n> *s, double value, int32_t limit)
{
	GsFloatParts parts = gs_float_parts(value);

	if (parts.exponent > limit)
	{
		sum_special(s, GPUSCAN_FSUM_NOT_MINUS_0 | gs_fsum_special(parts));
		return;
	}
	if (parts.mantissa != 0 || !parts.negative)
		sum_special(s, GPUSCAN_FSUM_NOT_MINUS_0);
	sum_pieces(s, gs_fsum_cut(parts), 3, parts.negative);
}

template <int n>
GS_DEVICE_CALL bool
sum_prepare_square(const CudaLaunch &launch, GroupSum<n> *s, double value)
{
	GsFloatParts parts = gs_float_parts(value);

	if (parts.exponent > GS_FSUM_F64_LIMIT || parts.mantissa == 0)
		return true;
	return sum_reach(launch, s, gs_fsum_cut_square(parts).top);
}

template <int n>
GS_DEVICE_CALL void
sum_add_square(GroupSum<n> *s, double value)
{
	GsFloatParts parts = gs_float_parts(value);

	parts.negative = 0;
	sum_special(s, GPUSCAN_FSUM_NOT_MINUS_0);
	if (parts.exponent > GS_FSUM_F64_LIMIT)
		sum_special(s, gs_fsum_special(parts));
	else
		sum_pieces(s, gs_fsum_cut_square(parts), 5, 0);
}

/* Moves the windows up to what is waited for.  By one thread, alone. */
template <int n>
GS_DEVICE_CALL void
sum_anchor(GroupSum<n> *s)
{
	int32_t shift = s->want + 2 - s->base;

	if (s->want == 0)
		return;
	if (shift > 0)
	{
		for (int i = n - 1; i >= 0; i--)
			s->w[i] = i >= shift ? s->w[i - shift] : 0;
		s->base += shift;
	}
	s->want = 0;
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

template <class FSum, int n>
GS_DEVICE_CALL bool
emit_fsum(FSum *out, int kept, const GroupSum<n> *s)
{
	out->top = s->top;
	out->special = s->special;
	for (int i = 0; i < kept; i++)
	{
		uint32_t at = (uint32_t) (s->base - 1 - (s->top - i));

		out->w[i] = at < n ? (int64_t) s->w[at] : 0;
	}
	return (s->special & GPUSCAN_FSUM_HUGE) == 0;
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
