/*-------------------------------------------------------------------------
 *
 * cached.h
 *	  What a kernel over cached columns is made of, besides kernel.h.  Read by
 *	  NVRTC alone.
 *
 * A warp takes one piece of a range after the other.  It keeps in shared memory
 * what is the same for all rows of a column's chunk; its threads load registers
 * from chunks by row.
 *
 * Where there is a filter, the warp evaluates it for several rows of each thread
 * at a time, so that many loads are under way, and puts the rows that it keeps
 * into a queue, from which full warps go on.
 *
 * When a tuple must wait for room, the piece is left where it is; tuples that were
 * done stay done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_CACHED_H
#define GPUSCAN_CUDA_CACHED_H

#include "kernel.h"

#include "columns/chunk.h"

/* Room for rows that the filter keeps: a full warp's less one, and those looked at together */
#define QUEUE_ROWS (FILTER_ROWS * 64)

/* Rows of a thread that are prefetched together, where there is no filter */
#define AHEAD_ROWS 8

/* The unsigned number of a size */
template <int size> struct Bits
{
	typedef uint64_t Word;
};
template <> struct Bits<4>
{
	typedef uint32_t Word;
};
template <> struct Bits<1>
{
	typedef uint8_t Word;
};

/*
 * Loading a value takes two steps, so that the loads of all columns are under way
 * before the first is waited for.
 */
struct Fetched
{
	uint32_t word[3]; /* from that on where the value begins */
	uint32_t nulls;	  /* of its 32 neighbours */
};

template <class T>
GS_DEVICE Fetched
fetch(const CudaColumn &column, uint32_t row)
{
	/* data, width and flags, in one load */
	const uint4 head = *(const uint4 *) &column;
	uint32_t bit = row * head.z;
	const uint32_t *words = (const uint32_t *) ((uint64_t) head.y << 32 | head.x) + (bit >> 5);
	Fetched fetched;

	/* there are two words behind the last one */
	fetched.word[0] = __ldg(words);
	fetched.word[1] = __ldg(words + 1);
	fetched.word[2] = 0;
	if (sizeof(T) == 8 && (head.w & CUDA_COLUMN_WIDE) != 0)
		fetched.word[2] = __ldg(words + 2);
	fetched.nulls = (uint32_t) ((int32_t) head.w >> 31);
	if ((head.w & CUDA_COLUMN_HAS_NULLS) != 0)
		fetched.nulls = __ldg((const uint32_t *) column.nulls + (row >> 5));
	return fetched;
}

/*
 * The same of the rows behind[i] * 32 behind `row`: their bits lie as those of `row`
 * do, in other words.  A column that is known to be plain has neither NULLs nor codes.
 * (Made of this with n = 1, loads of one row would wait for each other.)
 */
template <class T, bool plain, int n>
GS_DEVICE void
fetch(const CudaColumn &column, uint32_t row, const uint32_t (&behind)[n], Fetched (&fetched)[n])
{
	/* data, width and flags, in one load */
	const uint4 head = *(const uint4 *) &column;
	uint32_t bit = row * head.z;
	const uint32_t *words = (const uint32_t *) ((uint64_t) head.y << 32 | head.x) + (bit >> 5);

#pragma unroll
	for (int i = 0; i < n; i++)
	{
		const uint32_t *p = words + behind[i] * head.z;

		fetched[i].word[0] = __ldg(p);
		fetched[i].word[1] = __ldg(p + 1);
		fetched[i].word[2] = 0;
		if (sizeof(T) == 8 && (head.w & CUDA_COLUMN_WIDE) != 0)
			fetched[i].word[2] = __ldg(p + 2);
		fetched[i].nulls = plain ? 0 : (uint32_t) ((int32_t) head.w >> 31);
	}
	if (!plain && (head.w & CUDA_COLUMN_HAS_NULLS) != 0)
	{
		const uint32_t *nulls = (const uint32_t *) column.nulls + (row >> 5);

#pragma unroll
		for (int i = 0; i < n; i++)
			fetched[i].nulls = __ldg(nulls + behind[i]);
	}
}

GS_DEVICE uint8_t
fetched_flags(const Fetched &fetched, uint32_t row)
{
	return fetched.nulls >> (row & 31) & 1;
}

GS_DEVICE uint32_t
fetched_code(const CudaColumn &column, const Fetched &fetched, uint32_t row)
{
	uint32_t bits = __funnelshift_r(fetched.word[0], fetched.word[1], row * column.width & 31);

	return (uint32_t) column.base + (bits & (uint32_t) column.mask);
}

/* The bits of a value, those of a code's too */
template <class T>
GS_DEVICE T
fetched_value(const CudaColumn &column, const Fetched &fetched, uint32_t row)
{
	uint32_t shift = row * column.width & 31;
	uint32_t low =
		__funnelshift_r(fetched.word[0], fetched.word[1], shift) & (uint32_t) column.mask;

	if ((column.flags & CUDA_COLUMN_CODES) != 0)
		return __ldg((const T *) column.values + ((uint32_t) column.base + low));
	if (sizeof(T) < 8)
		return bits_as<T>((typename Bits<sizeof(T)>::Word)((uint32_t) column.base + low));
	return bits_as<T>((typename Bits<sizeof(T)>::Word)(
		column.base + ((uint64_t) (__funnelshift_r(fetched.word[1], fetched.word[2], shift) &
								   (uint32_t) (column.mask >> 32))
						   << 32 |
					   low)));
}

/*
 * A load that stays before the next __syncwarp(), as __ldg() does not: those of a batch are
 * to be under way together, and not each where its value is needed
 */
template <class T>
GS_DEVICE T
load_now(const T *p)
{
#ifdef GPUSCAN_EMULATED_PRELUDE_H
	return *p;
#else
	T value;

	if (sizeof(T) == 8)
	{
		uint64_t word;

		asm volatile("ld.global.u64 %0, [%1];" : "=l"(word) : "l"(p));
		value = bits_as<T>(word);
	}
	else
	{
		uint32_t word;

		asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(p));
		value = (T) word;
	}
	return value;
#endif
}

/*
 * Values of a column that is as most are: numbers without a dictionary, texts with
 * one (then they are codes), and some NULLs at most.  Several rows are 32 apart.
 */
template <class T, int n>
GS_DEVICE void
usual_values(const CudaColumn &column, uint32_t row, T (&values)[n])
{
	const uint4 head = *(const uint4 *) &column;
	uint32_t bit = row * head.z;
	const uint32_t *words = (const uint32_t *) ((uint64_t) head.y << 32 | head.x) + (bit >> 5);

#pragma unroll
	for (int i = 0; i < n; i++, words += head.z)
	{
		uint32_t low = load_now(words);
		uint32_t next = load_now(words + 1);
		uint32_t last = 0;

		if (sizeof(T) == 8 && (head.w & CUDA_COLUMN_WIDE) != 0)
			last = load_now(words + 2);
		low = __funnelshift_r(low, next, bit) & (uint32_t) column.mask;
		if (sizeof(T) < 8)
			values[i] = bits_as<T>((typename Bits<sizeof(T)>::Word)((uint32_t) column.base + low));
		else
		{
			uint32_t high = __funnelshift_r(next, last, bit) & (uint32_t) (column.mask >> 32);

			values[i] = bits_as<T>(
				(typename Bits<sizeof(T)>::Word)(column.base + ((uint64_t) high << 32 | low)));
		}
	}
}

template <int n>
GS_DEVICE void
usual_values(const CudaColumn &column, uint32_t row, double (&values)[n])
{
#pragma unroll
	for (int i = 0; i < n; i++)
		values[i] = load_now((const double *) column.data + row + i * 32);
}

template <class T>
GS_DEVICE void
usual_value(const CudaColumn &column, uint32_t row, T &value)
{
	T values[1];

	usual_values(column, row, values);
	value = values[0];
}

/* A word for each row that has a bit for it, at its place among 32 rows, if it is NULL */
template <int n>
GS_DEVICE void
usual_nulls(const CudaColumn &column, uint32_t row, uint32_t (&nulls)[n])
{
#pragma unroll
	for (int i = 0; i < n; i++)
		nulls[i] = 0;
	if (column.nulls != 0)
	{
		const uint32_t *words = (const uint32_t *) column.nulls + (row >> 5);

#pragma unroll
		for (int i = 0; i < n; i++)
			nulls[i] = load_now(words + i);
	}
}

/* The same of rows that were fetched together, `row` the first */
template <bool plain, class T, int n>
GS_DEVICE void
fetched_values(const CudaColumn &column, const Fetched (&fetched)[n], uint32_t row, T (&values)[n])
{
	typedef typename Bits<sizeof(T)>::Word Word;
	uint32_t shift = row * column.width & 31;
	uint32_t low[n];

#pragma unroll
	for (int i = 0; i < n; i++)
		low[i] =
			__funnelshift_r(fetched[i].word[0], fetched[i].word[1], shift) & (uint32_t) column.mask;
	if (!plain && (column.flags & CUDA_COLUMN_CODES) != 0)
	{
#pragma unroll
		for (int i = 0; i < n; i++)
			values[i] = __ldg((const T *) column.values + ((uint32_t) column.base + low[i]));
	}
	else if (sizeof(T) < 8)
	{
#pragma unroll
		for (int i = 0; i < n; i++)
			values[i] = bits_as<T>((Word) ((uint32_t) column.base + low[i]));
	}
	else
	{
#pragma unroll
		for (int i = 0; i < n; i++)
		{
			uint32_t high = __funnelshift_r(fetched[i].word[1], fetched[i].word[2], shift) &
							(uint32_t) (column.mask >> 32);

			values[i] = bits_as<T>((Word) (column.base + ((uint64_t) high << 32 | low[i])));
		}
	}
}

/* The same of classes that are loaded at once */
GS_DEVICE uint8_t
column_flags(const CudaColumn &column, uint32_t row)
{
	if ((column.flags & CUDA_COLUMN_HAS_NULLS) == 0)
		return column.flags >> 31;
	return __ldg((const uint32_t *) column.nulls + (row >> 5)) >> (row & 31) & 1;
}

GS_DEVICE uint32_t
column_code(const CudaColumn &column, uint32_t row)
{
	return (uint32_t) column.base +
		   (uint32_t) gs_unpack((const uint64_t *) column.data, column.width, row);
}

GS_DEVICE gs_i128
column_i128(const CudaColumn &column, uint32_t row)
{
	if ((column.flags & CUDA_COLUMN_RAW) != 0)
		return ((const gs_i128 *) column.data)[row];
	if ((column.flags & CUDA_COLUMN_CODES) != 0)
		return ((const gs_i128 *) column.values)[column_code(column, row)];
	return (gs_i128) ((gs_u128) wide(column.base, column.base_high) +
					  gs_unpack((const uint64_t *) column.data, column.width, row));
}

GS_DEVICE GsText
column_text(const CudaColumn &column, uint32_t row)
{
	const uint32_t *offsets = (const uint32_t *) column.data + row;
	GsText text = {(const char *) column.values, (uint32_t) column.base};

	if ((column.flags & CUDA_COLUMN_CONSTANT) != 0)
		return text;
	if ((column.flags & CUDA_COLUMN_CODES) != 0)
		offsets = (const uint32_t *) column.offsets + column_code(column, row);
	text.p = (const char *) column.values + offsets[0];
	text.len = offsets[1] - offsets[0];
	return text;
}

/* Pieces are of a multiple of so many rows, but for a range's last one. */
#define PIECE_ROWS 256

/* GpuScanRows, device.h */
struct RowRun
{
	uint16_t first;
	uint16_t n;
};

/* Walks over rows, some neighbours at a time. */
struct RowCursor
{
	const RowRun *run;
	uint32_t nruns;
	uint32_t skip; /* rows of the coming runs to pass over */
	uint32_t left; /* rows behind `stop` */
	uint32_t row;
	uint32_t stop;

	/* Up to n rows from `first` on; 0: there are no more. */
	GS_MEMBER uint32_t
	take(uint32_t n, uint32_t &first)
	{
		while (row == stop && left > 0 && nruns > 0)
		{
			RowRun r = *run;

			run++;
			nruns--;
			if (skip >= r.n)
			{
				skip -= r.n;
				continue;
			}
			row = r.first + skip;
			stop = row + min(left, r.n - skip);
			left -= stop - row;
			skip = 0;
		}
		first = row;
		n = min(n, stop - row);
		row += n;
		return n;
	}
};

/*
 * Has rows of some columns, a bit of `which` for each, on their way to the L2 cache while
 * the warp is at others: rows * 32 of them, as far as the run goes.
 */
template <uint32_t rows>
GS_DEVICE void
prefetch(const CudaColumn *columns, uint64_t which, uint32_t row, uint32_t stop)
{
	row += threadIdx.x % (2 * rows) * 16;
	for (uint32_t i = threadIdx.x % 32 / (2 * rows); row < stop && i < 64 && which >> i != 0;
		 i += 16 / rows)
	{
		const char *p = (const char *) columns[i].data + (row * columns[i].width >> 3);

		if ((which >> i & 1) != 0)
			asm volatile("prefetch.global.L2 [%0];" : : "l"(p));
	}
}

/*
 * What a range's chunks say of a register, as in columns/skip.c, whose rules these are
 */
struct Bounds
{
	int64_t low; /* known: those that are not NULL are low .. high */
	int64_t high;
	bool known;
	bool all_null;
	bool may_be_null;
	bool may_be_true;
	bool may_be_other; /* false, or NULL */
};

GS_DEVICE Bounds
bounds_of_input(const CudaColumn &column)
{
	bool all_null = (column.flags & CUDA_COLUMN_IS_NULL) != 0;

	return {column.low,
			column.high,
			(column.flags & CUDA_COLUMN_BOUNDED) != 0,
			all_null,
			(column.flags & (CUDA_COLUMN_HAS_NULLS | CUDA_COLUMN_IS_NULL)) != 0,
			true,
			true};
}

GS_DEVICE Bounds
bounds_of_param(int64_t value, bool is_integer, bool is_null)
{
	return {value, value, is_integer, is_null, is_null, true, true};
}

GS_DEVICE Bounds
bounds_of_truth(bool may_be_true, bool may_be_other, bool may_be_null)
{
	return {0, 0, false, false, may_be_null, may_be_true, may_be_other};
}

/* True if one of these may hold of two values, as far as it is asked for: a < b, a = b, a > b */
GS_DEVICE bool
may_hold(const Bounds &a, const Bounds &b, bool less, bool equal, bool greater)
{
	return (less && a.low < b.high) || (equal && a.low <= b.high && b.low <= a.high) ||
		   (greater && a.high > b.low);
}

/* Of a comparison that two values pass if one of those holds */
GS_DEVICE Bounds
bounds_of_comparison(const Bounds &a, const Bounds &b, bool less, bool equal, bool greater)
{
	Bounds bounds = bounds_of_truth(true, true, a.may_be_null || b.may_be_null);

	if (!a.known || !b.known)
		return bounds;
	bounds.all_null = a.all_null || b.all_null;
	bounds.may_be_true = !bounds.all_null && may_hold(a, b, less, equal, greater);
	bounds.may_be_other = bounds.may_be_null || may_hold(a, b, !less, !equal, !greater);
	return bounds;
}

/*
 * What headers tell of aggregates, as in device/cpu/summary.c
 */

/* CudaColumn.low or .high, as a register */
template <class T>
GS_DEVICE T
bound_value(int64_t word)
{
	return bits_as<T>((typename Bits<sizeof(T)>::Word) word);
}

/* True if a float's bound is zero: which of the two zeros, a header does not say. */
template <class T>
GS_DEVICE bool
is_zero(const CudaColumn &column, int64_t word)
{
	return column.nnulls != column.nrows && bound_value<T>(word) == 0;
}

/* The segment of a range, found by the whole warp */
GS_DEVICE CudaSegment
find_segment(const CudaLaunch &launch, uint32_t range)
{
	const CudaSegment *segments = (const CudaSegment *) launch.segments;
	uint32_t first = 0;
	uint32_t n = launch.nsegments;

	while (n > 1)
	{
		uint32_t step = (n + 31) / 32;
		uint32_t at = threadIdx.x % 32 * step;
		bool before = at < n && segments[first + at].first <= range;
		uint32_t chosen = (__popc(__ballot_sync(WARP, before)) - 1) * step;

		first += chosen;
		n = min(step, n - chosen);
	}
	return segments[first];
}

/*
 * Opens the columns of a piece, and returns its rows: none where filter_bounds() says so
 * of the columns, and none where all rows of the range pass and tell(nrows, leads) has
 * advanced the states by them, in the thread that leads and has their number in `told`.
 */
template <class FilterBounds, class Tell>
GS_DEVICE RowCursor
open_piece(const CudaLaunch &launch, CudaColumn *columns, uint32_t ncolumns, uint32_t item,
		   FilterBounds filter_bounds, Tell tell, uint32_t &told)
{
	const uint32_t parts = sizeof(CudaColumn) / sizeof(uint4);
	uint32_t number = item / launch.pieces;
	uint32_t piece = item % launch.pieces;
	CudaSegment segment = find_segment(launch, number);
	const uint4 *from =
		(const uint4 *) segment.columns + (uint64_t) (number - segment.first) * ncolumns * parts;
	CudaRange range = ((const CudaRange *) segment.ranges)[number - segment.first];
	uint32_t size = (range.nrows / launch.pieces + PIECE_ROWS - 1) / PIECE_ROWS * PIECE_ROWS;
	RowCursor cursor = {(const RowRun *) range.runs, range.nruns, piece * size, 0, 0, 0};

	__syncwarp();
	for (uint32_t i = threadIdx.x % 32; i < ncolumns * parts; i += 32)
		((uint4 *) columns)[i] = __ldg(from + i);
	__syncwarp();
	const Bounds filter = filter_bounds();
	const bool leads = piece == 0 && threadIdx.x % 32 == 0;
	if (!filter.may_be_true)
	{
		if (leads)
			add_atomic(&result_of(launch)->skipped, range.nblocks);
	}
	else if (!filter.may_be_other && tell(range.nrows, leads))
		told = leads ? range.nrows : 0;
	else if (cursor.skip < range.nrows)
		cursor.left = piece + 1 < launch.pieces ? min(size, range.nrows - cursor.skip)
												: range.nrows - cursor.skip;
	return cursor;
}

/* The rows of a piece that the filter keeps, of one warp */
struct Queue
{
	uint16_t rows[QUEUE_ROWS];
};

/* A piece is left: of each thread's rows behind `kept`, those of `todo` are not done. */
template <uint32_t rows>
GS_DEVICE void
leave_piece(const CudaLaunch &launch, uint32_t item, uint32_t kept, uint32_t todo, uint32_t seen)
{
	CudaProgress progress = {kept, seen, {}};

#pragma unroll
	for (uint32_t k = 0; k < rows; k++)
		progress.mask[k] = __ballot_sync(WARP, todo >> k & 1);
	if (threadIdx.x % 32 == 0)
		((CudaProgress *) launch.progress)[item] = progress;
}

/*
 * Puts rows into the queue from `place` on, `wanted` with a bit for each 32nd row from `row` on;
 * returns how many of the warp.
 */
GS_DEVICE uint32_t
put_into(Queue *queue, uint32_t place, uint32_t row, uint32_t wanted)
{
	uint32_t sum = __popc(wanted);

#pragma unroll
	for (uint32_t step = 1; step < 32; step *= 2)
	{
		uint32_t other = __shfl_up_sync(WARP, sum, step);

		sum += threadIdx.x % 32 >= step ? other : 0;
	}
	place += sum - __popc(wanted);
	for (; wanted != 0; wanted &= wanted - 1)
		queue->rows[place++ % QUEUE_ROWS] = (uint16_t) (row + (__ffs(wanted) - 1) * 32);
	return __shfl_sync(WARP, sum, 31);
}

template <bool truth> struct Truth
{
	static const bool value = truth;
};

/* Of FILTER_ROWS rows of a thread, those that there are among n of the warp: as fetch() has them */
template <bool all>
GS_DEVICE void
rows_behind(uint32_t n, uint32_t (&behind)[FILTER_ROWS])
{
#pragma unroll
	for (uint32_t k = 0; k < FILTER_ROWS; k++)
		behind[k] = all || k * 32 + threadIdx.x % 32 < n ? k : 0;
}

/* A bit for each of them that is there */
GS_DEVICE uint32_t
rows_there(uint32_t n)
{
	return (1U << (n + 31 - threadIdx.x % 32) / 32) - 1;
}

/* True if all columns of a warp are usual ones */
GS_DEVICE bool
are_usual(const CudaColumn *columns, uint32_t ncolumns)
{
	uint32_t flags = 0;

	for (uint32_t i = 0; i < ncolumns; i++)
		flags |= columns[i].flags;
	return (flags & CUDA_COLUMN_UNUSUAL) == 0;
}

/*
 * The number of a piece, in the warp's first thread.  Thread blocks that begin late, because another
 * request has their place, find less to do; what is taken early is on its way while the
 * warp is at another piece.
 */
GS_DEVICE uint32_t
take_piece(CudaResult *result)
{
	return threadIdx.x % 32 == 0 ? atomicAdd(&result->taken, 1) : 0;
}

/*
 * Runs tuple(row, found) for each row that the filter keeps: keep(plain, row, n,
 * failed) has a bit for each 32nd row from `row` on, FILTER_ROWS of them, of a warp's n
 * rows; plain: there are so many, and is_plain() is true of the filter's columns.
 * tuple() returns an outcome, or CUDA_TUPLE_WAITS.  Behind it the
 * whole warp runs advance(found), with what each thread put into its Found, where
 * one has put something there.
 *
 * which() columns are read of every row.  BATCH_ROWS rows of each thread go together.
 * Where the columns of a piece are usual, begin_quick() comes before all rows, and quick(row)
 * before others: of the rows from `row` on, it returns a bit for each for which it has done
 * what tuple() would do.
 */
template <bool filtered, bool has_quick, bool has_numbers, class Found, class Which,
		  class FilterBounds, class Tell, class IsPlain, class Keep, class BeginQuick, class Quick,
		  class Tuple, class Advance>
GS_DEVICE void
run_pieces(const CudaLaunch &launch, CudaColumn *columns, uint32_t ncolumns, Queue *queue,
		   Which which, FilterBounds filter_bounds, Tell tell, IsPlain is_plain, Keep keep,
		   BeginQuick begin_quick, Quick quick, Tuple tuple, Advance advance)
{
	uint32_t lane = threadIdx.x % 32;
	uint32_t nitems = launch.nranges * launch.pieces;
	CudaResult *result = result_of(launch);
	Counts counts = {0, 0, 0};
	uint64_t done = 0;
	uint32_t next = take_piece(result);

	for (;;)
	{
		uint32_t number = __shfl_sync(WARP, next, 0);
		uint32_t item = (uint32_t) ((uint64_t) number * launch.stride % nitems);
		CudaProgress before = {};
		uint32_t todo_before = 0;
		uint32_t kept = 0;	 /* tuples that the filter kept and that were taken from the queue */
		uint32_t seen = 0;	 /* rows */
		uint32_t head = 0;	 /* of the queue */
		uint32_t queued = 0; /* rows in it */
		uint32_t waiting = 0;
		uint32_t told = 0; /* rows of a range that its headers answer for */

		if (number >= nitems || __any_sync(WARP, load_relaxed(&result->code) != 0))
			break;
		next = take_piece(result);
		if (launch.again)
		{
			before = ((const CudaProgress *) launch.progress)[item];
#pragma unroll
			for (uint32_t k = 0; k < BATCH_ROWS; k++)
				todo_before |= (before.mask[k] >> lane & 1) << k;
			if (!__any_sync(WARP, todo_before != 0))
				continue;
		}
		RowCursor cursor = open_piece(launch, columns, ncolumns, item, filter_bounds, tell, told);
		counts.passed += told;
		done += told;
		const bool plain = is_plain();
		const bool usual = has_quick && launch.replicas != CUDA_NOT_SHARED &&
						   are_usual(columns, ncolumns) && begin_quick();

		/*
		 * Rows from `row` on that are to do; without a filter as many more of the run as are
		 * usual, of which those that come last are left in `row` and `todo`
		 */
		auto hurry = [&](auto numbered, uint32_t &row, uint32_t &todo) -> uint32_t
		{
			for (;;)
			{
				uint32_t quickly = quick(numbered, row, todo);

				if (filtered || cursor.stop - cursor.row < BATCH_ROWS * 32 ||
					!__all_sync(WARP, quickly == todo))
					return quickly;
				/* some batches at a time, behind the one that comes next */
				if ((cursor.row & (AHEAD_ROWS - 1) * 32) < BATCH_ROWS * 32)
					prefetch<AHEAD_ROWS>(columns, which(), cursor.row + BATCH_ROWS * 32,
										 cursor.stop);
				counts.passed += __popc(todo);
				todo = (1U << BATCH_ROWS) - 1;
				cursor.row += BATCH_ROWS * 32;
				row += BATCH_ROWS * 32;
				seen += BATCH_ROWS * 32;
				kept += BATCH_ROWS * 32;
			}
		};

		for (;;)
		{
			uint32_t first = 0;
			uint32_t n;

			if (filtered)
			{
				while (queued < BATCH_ROWS * 32 && (n = cursor.take(FILTER_ROWS * 32, first)) > 0)
				{
					uint32_t wanted;
					bool failed = false;

					seen += n;
					first += min(lane, n - 1);
					prefetch<FILTER_ROWS>(columns, which(), cursor.row, cursor.stop);
					if (plain && n == FILTER_ROWS * 32)
						wanted = keep(Truth<true>(), first, n, failed);
					else
						wanted = keep(Truth<false>(), first, n, failed);
					wanted &= rows_there(n);
					queued += put_into(queue, head + queued, first, wanted);
					if (failed)
						atomicMax(&result->code, LEFT_TO_POSTGRES);
				}
				n = min(queued, BATCH_ROWS * 32U);
				__syncwarp();
				first = queue->rows[(head + min(lane, n - 1)) % QUEUE_ROWS];
				__syncwarp();
				head += n;
				queued -= n;
			}
			else
			{
				n = cursor.take(BATCH_ROWS * 32, first);
				seen += n;
				prefetch<AHEAD_ROWS>(columns, which(), cursor.row, cursor.stop);
				/* a run's last rows come with others before them, which are passed over */
				if (n < BATCH_ROWS * 32 && cursor.row >= BATCH_ROWS * 32)
					first = cursor.row - BATCH_ROWS * 32;
				first += lane;
			}
			if (n == 0)
				break;

			/* done before this launch, all of them or some */
			if (kept < before.kept)
			{
				kept += n;
				continue;
			}
			uint32_t todo = rows_there(n);
			if (!filtered && first != cursor.row - n + lane)
				todo = ((1U << BATCH_ROWS) - 1) & ~rows_there(BATCH_ROWS * 32 - n);
			if (launch.again && kept == before.kept)
				todo = todo_before;
			else if (usual && (filtered ? lane < n : cursor.row >= BATCH_ROWS * 32))
			{
				uint32_t quickly;

				if (has_numbers && launch.numbered)
					quickly = hurry(Truth<true>(), first, todo);
				else
					quickly = hurry(Truth<false>(), first, todo);
				counts.passed += __popc(quickly);
				todo &= ~quickly;
			}
			if (__any_sync(WARP, todo != 0))
			{
				uint32_t waits = 0;

				GS_ROLLED
				for (uint32_t k = 0; k < BATCH_ROWS; k++)
				{
					uint32_t made = REJECTED;
					Found found;

					if (todo >> k & 1)
					{
						made = tuple(first + k * 32, found);
						counts.passed += made == PASSED;
						if (made == RECHECK)
							atomicMax(&result->code, LEFT_TO_POSTGRES);
					}
					__syncwarp();
					advance(found);
					waits |= (uint32_t) (made == CUDA_TUPLE_WAITS) << k;
				}
				waiting = waits;
				if (__any_sync(WARP, waits != 0))
					break;
			}
			kept += n;
		}
		done += seen - before.seen;
		counts.waiting += __any_sync(WARP, waiting != 0) && lane == 0;
		if (launch.progress != 0)
			leave_piece<BATCH_ROWS>(launch, item, kept, waiting, seen);
	}
	__syncwarp();
	if (lane == 0 && done != 0)
		add_atomic(&result->cached, done);
	add_count(&result->waiting, counts.waiting);
	add_count(&result->passed, counts.passed);
}

#endif /* GPUSCAN_CUDA_CACHED_H */
