/*-------------------------------------------------------------------------
 *
 * aggregate.c
 *	  Advancing, merging and finishing aggregate states.
 *
 * One aggregate at a time over a chunk: first the tuples that count are
 * selected, by the aggregate's filter and its argument's NULLs, then one loop
 * advances the states of their groups.  Without keys there is one state, which
 * the loop keeps in registers.
 *
 * Every state is a sum of integers or an extremum, so neither the order of
 * tuples nor the number of threads shows in the result.  The exception is an
 * extremum of floats that is zero while both zeros occurred: PostgreSQL shows
 * the one that its order of rows gives.  Such a tie leaves a mark in the
 * state's count, and if the extremum still is zero at the end, the result is
 * PostgreSQL's.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

/* In n of a float MIN or MAX: zeros of both signs were compared. */
#define ZERO_TIE (INT64_C(1) << 62)

/* The tuples that count for one aggregate, and where their states are. */
typedef struct Selection
{
	uint32_t n;
	const uint16_t *index; /* of the tuples, or NULL: the first n */
	const void *values;	   /* the argument's register */
	char *const *rows;	   /* by tuple */
	const uint32_t *numbers;
	char *single; /* the one row of an aggregation without keys, or NULL */
	uint32_t offset;
} Selection;

/*
 * Says which tuples count, of those for which `counts` has what the filter is; returns the
 * union of the flags that reach the aggregate.
 */
CLONES static uint8_t
judge(const uint8_t *restrict filter_flags, const uint8_t *restrict arg_flags, uint32_t n,
	  uint8_t *restrict counts)
{
	uint8_t flags = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		uint8_t seen = (uint8_t) (filter_flags[i] == 0) & (uint8_t) (counts[i] != 0);

		flags |= filter_flags[i] | (uint8_t) (arg_flags[i] & -seen);
		counts[i] = seen & (uint8_t) (arg_flags[i] == 0);
	}
	return flags;
}

/*
 * Selects the tuples that an aggregate sees and whose argument is not NULL.
 * False if an error reaches the aggregate.
 */
static bool
select_tuples(const GpuScanAgg *agg, const CpuRegister *registers, uint32_t n, uint16_t *index,
			  Selection *selection)
{
	const uint8_t *filter_flags = gpuscan_cpu_zeros;
	const uint8_t *arg_flags = gpuscan_cpu_zeros;
	bool filtered = agg->filter != GPUSCAN_NO_REGISTER;
	uint8_t counts[CPU_CHUNK];
	uint8_t flags;

	if (filtered)
		filter_flags = registers[agg->filter].flags;
	if (agg->arg != GPUSCAN_NO_REGISTER)
		arg_flags = registers[agg->arg].flags;

	selection->n = n;
	selection->index = NULL;
	if (!filtered && arg_flags == gpuscan_cpu_zeros)
		return true;

	if (filtered)
		memcpy(counts, registers[agg->filter].values, n);
	else
		memset(counts, true, n);
	flags = judge(filter_flags, arg_flags, n, counts);
	selection->n = gpuscan_cpu_list(counts, n, index);
	selection->index = index;
	return (flags & GPUSCAN_ERROR) == 0;
}

/* Runs `body` for tuple i, with its value v and the state s of its group. */
#define FOR_GROUP(State, T, body)                                                                  \
	do                                                                                             \
	{                                                                                              \
		State *s = (State *) (rows[i] + offset);                                                   \
		T v = values[i];                                                                           \
                                                                                                   \
		s->n++;                                                                                    \
		body;                                                                                      \
	} while (0)

/* Runs `body` for each selected tuple, with its value v and its state s. */
#define FOR_EACH_VALUE(State, T, body)                                                             \
	do                                                                                             \
	{                                                                                              \
		const T *values = in->values;                                                              \
		const uint16_t *index = in->index;                                                         \
		char *const *rows = in->rows;                                                              \
		uint32_t offset = in->offset;                                                              \
		uint32_t n = in->n;                                                                        \
                                                                                                   \
		if (in->single != NULL)                                                                    \
		{                                                                                          \
			State state = *(State *) (in->single + in->offset);                                    \
			State *s = &state;                                                                     \
                                                                                                   \
			for (uint32_t k = 0; k < n; k++)                                                       \
			{                                                                                      \
				T v = values[index == NULL ? k : index[k]];                                        \
                                                                                                   \
				s->n++;                                                                            \
				body;                                                                              \
			}                                                                                      \
			*(State *) (in->single + in->offset) = state;                                          \
		}                                                                                          \
		else if (index == NULL)                                                                    \
		{                                                                                          \
			for (uint32_t i = 0; i < n; i++)                                                       \
				FOR_GROUP(State, T, body);                                                         \
		}                                                                                          \
		else                                                                                       \
		{                                                                                          \
			for (uint32_t k = 0; k < n; k++)                                                       \
			{                                                                                      \
				uint32_t i = index[k];                                                             \
                                                                                                   \
				FOR_GROUP(State, T, body);                                                         \
			}                                                                                      \
		}                                                                                          \
	} while (0)

/* Runs `body` for each pair of a state s and a state `from` of some input. */
#define FOR_EACH_STATE(State, body)                                                                \
	for (uint32_t i = 0; i < n; i++)                                                               \
	{                                                                                              \
		State *s = (State *) (rows[i] + agg->offset);                                              \
		const State *from = (const State *) (sources[i] + agg->offset);                            \
                                                                                                   \
		if (from->n != 0)                                                                          \
		{                                                                                          \
			body;                                                                                  \
		}                                                                                          \
	}

/* Adds to a 128-bit number in two words; true if it overflows. */
static inline bool
add_wide(uint64_t *lo, int64_t *hi, gs_i128 value)
{
	gs_i128 sum = (gs_i128) ((gs_u128) (uint64_t) *hi << 64 | *lo);
	bool overflow = __builtin_add_overflow(sum, value, &sum);

	*lo = (uint64_t) sum;
	*hi = (int64_t) (sum >> 64);
	return overflow;
}

static inline gs_i128
wide(uint64_t lo, int64_t hi)
{
	return (gs_i128) ((gs_u128) (uint64_t) hi << 64 | lo);
}

static inline bool
add_square(GpuScanSquares128State *s, gs_i128 value)
{
	gs_i128 square;

	return __builtin_mul_overflow(value, value, &square) || add_wide(&s->lo, &s->hi, value) ||
		   add_wide(&s->squares_lo, &s->squares_hi, square);
}

static inline void
advance_extremum(GpuScanValueState *s, double value, bool first, bool is_min)
{
	double old = first ? value : s->value.f;

	if (value == old && signbit(value) != signbit(old))
		s->n |= ZERO_TIE;
	if (is_min)
		gs_f64_min(old, value, &s->value.f);
	else
		gs_f64_max(old, value, &s->value.f);
}

static inline void
merge_extremum(GpuScanValueState *s, const GpuScanValueState *from, bool is_min)
{
	int64_t n = ((s->n & ~ZERO_TIE) + (from->n & ~ZERO_TIE)) | ((s->n | from->n) & ZERO_TIE);
	bool first = s->n == 0;

	s->n = n;
	advance_extremum(s, from->value.f, first, is_min);
}

static void
advance_count(const Selection *in)
{
	if (in->single != NULL)
	{
		((GpuScanCountState *) (in->single + in->offset))->n += in->n;
		return;
	}
	for (uint32_t k = 0; k < in->n; k++)
		((GpuScanCountState *) (in->rows[in->index == NULL ? k : in->index[k]] + in->offset))->n++;
}

#define LANES 8

/* The highest window that any of the doubles reaches */
static inline __attribute__((always_inline)) int32_t
top_of(const double *restrict values, uint32_t n)
{
	int64_t most = 0;
	double largest;

	for (uint32_t i = 0; i < n; i++)
	{
		int64_t bits = ((const int64_t *) values)[i] & INT64_MAX;

		most = bits > most ? bits : most;
	}
	memcpy(&largest, &most, sizeof(largest));
	return gs_fsum_cut(gs_float_parts(largest)).top;
}

/*
 * Adds doubles to a sum, as many as gs_fsum3_add_plain takes all at once; returns
 * how many.  The pieces of a chunk's values are integers whose sums doubles hold.
 */
CLONES static uint32_t
add_plain(GpuScanFSum3 *sum, const double *restrict values, uint32_t n)
{
	double high[LANES] = {0};
	double middle[LANES] = {0};
	double low[LANES] = {0};
	double scale;
	int32_t top;

	n -= n % LANES;
	top = top_of(values, n);
	top = top > sum->top ? top : sum->top;
	if (!gs_fsum3_is_plain(top))
		return 0;

	scale = gs_fsum3_scale(top);
	for (uint32_t i = 0; i < n; i += LANES)
	{
		for (uint32_t k = 0; k < LANES; k++)
		{
			double rest = values[i + k] * scale;
			double piece = (int32_t) (rest * 0x1p-60);

			high[k] += piece;
			rest -= piece * 0x1p60;
			piece = (int32_t) (rest * 0x1p-30);
			middle[k] += piece;
			rest -= piece * 0x1p30;
			low[k] += (int32_t) rest;
		}
	}
	gs_fsum_raise(&sum->top, sum->w, 3, top);
	sum->special |= GPUSCAN_FSUM_NOT_MINUS_0;
	for (uint32_t k = 0; k < LANES; k++)
	{
		sum->w[0] += (int64_t) high[k];
		sum->w[1] += (int64_t) middle[k];
		sum->w[2] += (int64_t) low[k];
	}
	return n;
}

/* Adds a value, of a class of floats, of any size. */
static void
add_any(GpuScanFSum3 *sum, unsigned cls, double value)
{
	if (!gs_fsum3_add_plain(sum, value))
		gs_fsum3_add_within(sum, value, cls == GPUSCAN_F32 ? GS_FSUM_F32_LIMIT : GS_FSUM_F64_LIMIT);
}

/* The sum of the only group */
static void
advance_single_sum(const Selection *in, unsigned cls, const double *values)
{
	GpuScanSumF64State *state = (GpuScanSumF64State *) (in->single + in->offset);

	state->n += in->n;
	for (uint32_t k = add_plain(&state->sum, values, in->n); k < in->n; k++)
		add_any(&state->sum, cls, values[k]);
}

/* Doubles that are cut up at a time */
#define CUT 256

/* Windows above those that they reach */
#define ABOVE 3

/*
 * Their pieces in windows[ABOVE], which is that of `top`, and the three below; those above are 0.
 * A sum takes three windows in a row, so they serve all whose top is not far away.
 */
typedef struct Pieces
{
	int32_t top;
	int32_t windows[ABOVE + 4][CUT];
} Pieces;

/* Far from that of any sum */
#define NO_TOP (INT32_MAX / 2)

/* False where they are not plain. */
CLONES static bool
cut_up(Pieces *pieces, const double *restrict values, uint32_t n)
{
	double scale;

	pieces->top = top_of(values, n);
	if (!gs_fsum3_is_plain(pieces->top) || !gs_fsum3_is_plain(pieces->top - 1))
		return false;
	scale = gs_fsum3_scale(pieces->top);
	for (uint32_t k = 0; k < n; k++)
	{
		double rest = values[k] * scale;
		int32_t piece = (int32_t) (rest * 0x1p-60);

		pieces->windows[ABOVE][k] = piece;
		rest -= piece * 0x1p60;
		piece = (int32_t) (rest * 0x1p-30);
		pieces->windows[ABOVE + 1][k] = piece;
		rest -= piece * 0x1p30;
		piece = (int32_t) rest;
		pieces->windows[ABOVE + 2][k] = piece;
		pieces->windows[ABOVE + 3][k] = (int32_t) ((rest - piece) * 0x1p30);
	}
	return true;
}

/*
 * Sums of groups.  Where a sum's top is that of the pieces, or next to it and not below what
 * the value reaches, nothing remains but to add them: such a top is plain, so the sum has seen
 * a value that is not -0, and pieces of zeros are 0.  Other sums are added to one by one.
 */
static void
advance_group_sums(const Selection *in, unsigned cls, const double *values)
{
	const uint16_t *index = in->index;
	char *const *rows = in->rows;
	uint32_t offset = in->offset;
	Pieces pieces;

	memset(&pieces, 0, sizeof(pieces));
	for (uint32_t first = 0, some; first < in->n; first += some)
	{
		uint16_t others[CUT];
		uint32_t nothers = 0;
		uint32_t top;

		some = in->n - first < CUT ? in->n - first : CUT;
		if (!cut_up(&pieces, values + first, some))
			pieces.top = NO_TOP;
		top = (uint32_t) pieces.top + 1;
		for (uint32_t k = 0; k < some; k++)
		{
			uint32_t i = index == NULL ? first + k : index[first + k];
			GpuScanSumF64State *s = (GpuScanSumF64State *) (rows[i] + offset);
			uint32_t window = top - (uint32_t) s->sum.top;
			bool fits = window <= 1 + (uint32_t) (pieces.windows[ABOVE][k] == 0);
			const int32_t *piece = &pieces.windows[fits ? ABOVE - 1 + window : 0][k];

			s->n++;
			s->sum.w[0] += piece[0];
			s->sum.w[1] += piece[CUT];
			s->sum.w[2] += piece[2 * CUT];
			others[nothers] = (uint16_t) (first + k);
			nothers += !fits;
		}
		for (uint32_t o = 0; o < nothers; o++)
		{
			uint32_t k = others[o];
			char *row = rows[index == NULL ? k : index[k]];

			add_any(&((GpuScanSumF64State *) (row + offset))->sum, cls, values[k]);
		}
	}
}

/* Sums of doubles, or floats; those selected are put in a row first. */
static void
advance_float_sum(const Selection *in, unsigned cls)
{
	const float *floats = in->values;
	const double *values = in->values;
	double buffer[CPU_CHUNK];

	if (cls == GPUSCAN_F32 || in->index != NULL)
	{
		for (uint32_t k = 0; k < in->n; k++)
		{
			uint32_t i = in->index == NULL ? k : in->index[k];

			buffer[k] = cls == GPUSCAN_F32 ? floats[i] : values[i];
		}
		values = buffer;
	}
	if (in->single != NULL)
		advance_single_sum(in, cls, values);
	else
		advance_group_sums(in, cls, values);
}

static bool
advance_sum(const Selection *in, unsigned cls)
{
	bool bad = false;

	switch (cls)
	{
		case GPUSCAN_I32:
			FOR_EACH_VALUE(GpuScanSum64State, int32_t,
						   bad |= __builtin_add_overflow(s->sum, (int64_t) v, &s->sum));
			break;
		case GPUSCAN_I64:
			/* so many that it overflows cannot be counted */
			FOR_EACH_VALUE(GpuScanSum128State, int64_t, (void) add_wide(&s->lo, &s->hi, v));
			break;
		case GPUSCAN_I128:
			FOR_EACH_VALUE(GpuScanSum128State, gs_i128, bad |= add_wide(&s->lo, &s->hi, v));
			break;
		default:
			advance_float_sum(in, cls);
	}
	return !bad;
}

static bool
advance_squares(const Selection *in, unsigned cls)
{
	bool bad = false;

	switch (cls)
	{
		case GPUSCAN_I32:
			FOR_EACH_VALUE(GpuScanSquares128State, int32_t, bad |= add_square(s, v));
			break;
		case GPUSCAN_I64:
			FOR_EACH_VALUE(GpuScanSquares128State, int64_t, bad |= add_square(s, v));
			break;
		case GPUSCAN_I128:
			FOR_EACH_VALUE(GpuScanSquares128State, gs_i128, bad |= add_square(s, v));
			break;
		case GPUSCAN_F32:
			FOR_EACH_VALUE(GpuScanSquaresF64State, float, gs_fsum5_add(&s->sum, v);
						   gs_fsum5_add_square(&s->squares, v));
			break;
		case GPUSCAN_F64:
			FOR_EACH_VALUE(GpuScanSquaresF64State, double, gs_fsum5_add(&s->sum, v);
						   gs_fsum5_add_square(&s->squares, v));
			break;
	}
	return !bad;
}

/* `better` compares a value v with the extremum so far. */
#define ADVANCE_EXTREMUM(is_min, better)                                                           \
	switch (cls)                                                                                   \
	{                                                                                              \
		case GPUSCAN_I32:                                                                          \
			FOR_EACH_VALUE(GpuScanValueState, int32_t,                                             \
						   if (s->n == 1 || v better s->value.i) s->value.i = v);                  \
			break;                                                                                 \
		case GPUSCAN_I64:                                                                          \
			FOR_EACH_VALUE(GpuScanValueState, int64_t,                                             \
						   if (s->n == 1 || v better s->value.i) s->value.i = v);                  \
			break;                                                                                 \
		case GPUSCAN_I128:                                                                         \
			FOR_EACH_VALUE(                                                                        \
				GpuScanValue128State, gs_i128, if (s->n == 1 || v better wide(s->lo, s->hi)) {     \
					s->lo = (uint64_t) v;                                                          \
					s->hi = (int64_t) (v >> 64);                                                   \
				});                                                                                \
			break;                                                                                 \
		case GPUSCAN_F32:                                                                          \
			FOR_EACH_VALUE(GpuScanValueState, float, advance_extremum(s, v, s->n == 1, is_min));   \
			break;                                                                                 \
		case GPUSCAN_F64:                                                                          \
			FOR_EACH_VALUE(GpuScanValueState, double, advance_extremum(s, v, s->n == 1, is_min));  \
			break;                                                                                 \
	}

static void
advance_min(const Selection *in, unsigned cls)
{
	ADVANCE_EXTREMUM(true, <);
}

static void
advance_max(const Selection *in, unsigned cls)
{
	ADVANCE_EXTREMUM(false, >);
}

/* `body` for a state of bits */
#define ADVANCE_BITS(body)                                                                         \
	switch (cls)                                                                                   \
	{                                                                                              \
		case GPUSCAN_BOOL:                                                                         \
			FOR_EACH_VALUE(GpuScanValueState, uint8_t, body);                                      \
			break;                                                                                 \
		case GPUSCAN_I32:                                                                          \
			FOR_EACH_VALUE(GpuScanValueState, int32_t, body);                                      \
			break;                                                                                 \
		case GPUSCAN_I64:                                                                          \
			FOR_EACH_VALUE(GpuScanValueState, int64_t, body);                                      \
			break;                                                                                 \
	}

static void
advance_and(const Selection *in, unsigned cls)
{
	ADVANCE_BITS(s->value.i = s->n == 1 ? v : s->value.i & v);
}

static void
advance_or(const Selection *in, unsigned cls)
{
	ADVANCE_BITS(s->value.i |= v);
}

/* The word of a double for which NaNs, and the two zeros, are one value. */
static inline uint64_t
distinct_word(double value)
{
	uint64_t word;

	if (value != value)
		value = NAN;
	if (value == 0)
		value = 0;
	memcpy(&word, &value, sizeof(word));
	return word;
}

static bool
advance_distinct(const Selection *in, unsigned cls, CpuDistinct *set, CpuPairs *pairs)
{
	pairs->n = in->n;
	pairs->owned = false;

#define PAIRS(T, member, expression)                                                               \
	for (uint32_t k = 0; k < in->n; k++)                                                           \
	{                                                                                              \
		uint32_t i = in->index == NULL ? k : in->index[k];                                         \
		const T *v = &((const T *) in->values)[i];                                                 \
                                                                                                   \
		pairs->rows[k] = in->single != NULL ? in->single : in->rows[i];                            \
		pairs->numbers[k] = in->single != NULL ? 0 : in->numbers[i];                               \
		pairs->member[k] = expression;                                                             \
	}

	switch ((GpuScanClass) cls)
	{
		case GPUSCAN_BOOL:
			PAIRS(uint8_t, words, *v);
			break;
		case GPUSCAN_I32:
			PAIRS(int32_t, words, (uint64_t) (int64_t) *v);
			break;
		case GPUSCAN_I64:
			PAIRS(int64_t, words, (uint64_t) *v);
			break;
		case GPUSCAN_F32:
			PAIRS(float, words, distinct_word(*v));
			break;
		case GPUSCAN_F64:
			PAIRS(double, words, distinct_word(*v));
			break;
		case GPUSCAN_I128:
			PAIRS(gs_i128, texts, ((GsText){(const char *) v, sizeof(*v)}));
			break;
		case GPUSCAN_TEXT:
			PAIRS(GsText, texts, *v);
			break;
	}
#undef PAIRS
	return gpuscan_cpu_distinct_add(set, pairs, in->offset);
}

GpuScanCode
gpuscan_cpu_advance(const GpuScanProgram *program, const CpuRegister *registers, uint32_t n,
					char *const *rows, const uint32_t *numbers, char *single, CpuDistinct *sets,
					CpuPairs *pairs)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	uint16_t index[CPU_CHUNK];
	bool ok = true;

	for (int i = 0; ok && i < program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		Selection in = {.rows = rows, .numbers = numbers, .single = single, .offset = agg->offset};

		if (!select_tuples(agg, registers, n, index, &in))
			return GPUSCAN_LEFT_TO_POSTGRES;
		if (agg->arg != GPUSCAN_NO_REGISTER)
			in.values = registers[agg->arg].values;

		switch ((GpuScanAggKind) agg->kind)
		{
			case GPUSCAN_AGG_COUNT:
				advance_count(&in);
				break;
			case GPUSCAN_AGG_SUM_I64:
			case GPUSCAN_AGG_SUM_I128:
			case GPUSCAN_AGG_SUM_F64:
				ok = advance_sum(&in, agg->cls);
				break;
			case GPUSCAN_AGG_SQUARES_I128:
			case GPUSCAN_AGG_SQUARES_F64:
				ok = advance_squares(&in, agg->cls);
				break;
			case GPUSCAN_AGG_MIN:
				advance_min(&in, agg->cls);
				break;
			case GPUSCAN_AGG_MAX:
				advance_max(&in, agg->cls);
				break;
			case GPUSCAN_AGG_BOOL_AND:
			case GPUSCAN_AGG_BIT_AND:
				advance_and(&in, agg->cls);
				break;
			case GPUSCAN_AGG_BOOL_OR:
			case GPUSCAN_AGG_BIT_OR:
				advance_or(&in, agg->cls);
				break;
			case GPUSCAN_AGG_COUNT_DISTINCT:
				if (!advance_distinct(&in, agg->cls, sets++, pairs))
					return GPUSCAN_OUT_OF_MEMORY;
				break;
		}
	}
	return ok ? GPUSCAN_OK : GPUSCAN_LEFT_TO_POSTGRES;
}

/* `better` compares integer extrema */
#define MERGE_EXTREMUM(is_min, better)                                                             \
	if (is_float)                                                                                  \
		FOR_EACH_STATE(GpuScanValueState, merge_extremum(s, from, is_min))                         \
	else if (agg->cls == GPUSCAN_I128)                                                             \
		FOR_EACH_STATE(                                                                            \
			GpuScanValue128State,                                                                  \
			if (s->n == 0 || wide(from->lo, from->hi) better wide(s->lo, s->hi)) {                 \
				s->lo = from->lo;                                                                  \
				s->hi = from->hi;                                                                  \
			} s->n += from->n)                                                                     \
	else                                                                                           \
		FOR_EACH_STATE(GpuScanValueState,                                                          \
					   if (s->n == 0 || from->value.i better s->value.i) s->value = from->value;   \
					   s->n += from->n)

static bool
merge_aggregate(const GpuScanAgg *agg, uint32_t n, char *const *rows, char *const *sources)
{
	bool is_float = agg->cls == GPUSCAN_F32 || agg->cls == GPUSCAN_F64;
	bool bad = false;

	switch ((GpuScanAggKind) agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
		case GPUSCAN_AGG_COUNT_DISTINCT:
			FOR_EACH_STATE(GpuScanCountState, s->n += from->n);
			break;
		case GPUSCAN_AGG_SUM_I64:
			FOR_EACH_STATE(GpuScanSum64State, s->n += from->n;
						   bad |= __builtin_add_overflow(s->sum, from->sum, &s->sum));
			break;
		case GPUSCAN_AGG_SUM_I128:
			FOR_EACH_STATE(GpuScanSum128State, s->n += from->n;
						   bad |= add_wide(&s->lo, &s->hi, wide(from->lo, from->hi)));
			break;
		case GPUSCAN_AGG_SQUARES_I128:
			FOR_EACH_STATE(GpuScanSquares128State, s->n += from->n;
						   bad |= add_wide(&s->lo, &s->hi, wide(from->lo, from->hi));
						   bad |= add_wide(&s->squares_lo, &s->squares_hi,
										   wide(from->squares_lo, from->squares_hi)));
			break;
		case GPUSCAN_AGG_SUM_F64:
			FOR_EACH_STATE(GpuScanSumF64State, s->n += from->n;
						   gs_fsum3_merge(&s->sum, &from->sum));
			break;
		case GPUSCAN_AGG_SQUARES_F64:
			FOR_EACH_STATE(GpuScanSquaresF64State, s->n += from->n;
						   gs_fsum5_merge(&s->sum, &from->sum);
						   gs_fsum5_merge(&s->squares, &from->squares));
			break;
		case GPUSCAN_AGG_MIN:
			MERGE_EXTREMUM(true, <);
			break;
		case GPUSCAN_AGG_MAX:
			MERGE_EXTREMUM(false, >);
			break;
		case GPUSCAN_AGG_BOOL_AND:
		case GPUSCAN_AGG_BIT_AND:
			FOR_EACH_STATE(GpuScanValueState,
						   s->value.i = s->n == 0 ? from->value.i : s->value.i & from->value.i;
						   s->n += from->n);
			break;
		case GPUSCAN_AGG_BOOL_OR:
		case GPUSCAN_AGG_BIT_OR:
			FOR_EACH_STATE(GpuScanValueState, s->value.i |= from->value.i; s->n += from->n);
			break;
	}
	return !bad;
}

bool
gpuscan_cpu_merge_states(const GpuScanProgram *program, uint32_t n, char *const *rows,
						 char *const *sources)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	bool ok = true;

	for (int i = 0; i < program->naggs; i++)
		ok &= merge_aggregate(&aggs[i], n, rows, sources);
	return ok;
}

bool
gpuscan_cpu_finish_states(const GpuScanProgram *program, char *row)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	bool ok = true;

	for (int i = 0; i < program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		char *state = row + agg->offset;

		if (agg->kind == GPUSCAN_AGG_SUM_F64)
		{
			const GpuScanSumF64State *s = (const GpuScanSumF64State *) state;

			ok &= s->n <= GPUSCAN_FSUM_MAX_N && (s->sum.special & GPUSCAN_FSUM_HUGE) == 0;
		}
		else if (agg->kind == GPUSCAN_AGG_SQUARES_F64)
		{
			const GpuScanSquaresF64State *s = (const GpuScanSquaresF64State *) state;

			ok &= s->n <= GPUSCAN_FSUM_MAX_N &&
				  ((s->sum.special | s->squares.special) & GPUSCAN_FSUM_HUGE) == 0;
		}
		else if ((agg->kind == GPUSCAN_AGG_MIN || agg->kind == GPUSCAN_AGG_MAX) &&
				 (agg->cls == GPUSCAN_F32 || agg->cls == GPUSCAN_F64))
		{
			GpuScanValueState *s = (GpuScanValueState *) state;

			ok &= (s->n & ZERO_TIE) == 0 || s->value.f != 0;
			s->n &= ~ZERO_TIE;
		}
	}
	return ok;
}
