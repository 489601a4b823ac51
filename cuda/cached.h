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

/* Room for rows that the filter keeps; FILTER_ROWS of each thread are looked at together */
#define QUEUE_ROWS 256

/*
 * Column.flags: one of these, or none for `base` + a number of `width` bits, as RAW
 * has it with base 0, and CONSTANT with no bits
 */
#define COLUMN_WIDE 1 /* the same of more than 32 bits, which may begin anywhere */
#define COLUMN_CODES 2
#define COLUMN_RAW 4	  /* of 128 bits, or a text */
#define COLUMN_CONSTANT 8 /* a text */

/* What open_column() says besides: see usual_value() */
#define COLUMN_UNUSUAL (1U << 29)

/* And of NULLs, if there are any: there is a bitmap; it is all of them */
#define COLUMN_HAS_NULLS (1U << 30)
#define COLUMN_IS_NULL (1U << 31)

/* A chunk, open.  What every value needs comes first, in the order of wide loads. */
struct __align__(16) Column
{
	const char *data;
	uint32_t width;
	uint32_t flags;
	uint64_t base;
	uint64_t mask;		   /* of `width` bits */
	const uint32_t *nulls; /* the bitmap */
	union
	{
		const char *values; /* CODES: the dictionary's; CONSTANT: the text */
		const char *chunk;	/* RAW texts count their offsets from it */
		uint64_t high;		/* of `base` */
	};
	const uint32_t *offsets; /* CODES of texts */
};

GS_DEVICE void
open_column(Column *column, uint64_t address, const GsValues *dictionary)
{
	const GpuScanChunk *chunk = (const GpuScanChunk *) address;
	Column made;

	made.data = gs_chunk_data(chunk);
	made.nulls = (const uint32_t *) (address + chunk->nulls);
	made.base = chunk->base[0];
	made.high = chunk->base[1];
	made.offsets = 0;
	made.width = chunk->width;
	made.flags = made.width > 32 ? COLUMN_WIDE : 0;
	if (chunk->encoding == GPUSCAN_ENCODING_CODES)
	{
		made.flags = COLUMN_CODES;
		made.values = dictionary->data;
		made.offsets = dictionary->offsets;
	}
	else if (chunk->encoding == GPUSCAN_ENCODING_CONSTANT)
	{
		made.flags = chunk->cls == GPUSCAN_TEXT ? COLUMN_CONSTANT : 0;
		made.width = 0;
		if (chunk->cls == GPUSCAN_TEXT)
			made.values = made.data;
		made.data = (const char *) chunk;
	}
	else if (chunk->encoding == GPUSCAN_ENCODING_RAW)
	{
		bool is_large = chunk->cls == GPUSCAN_TEXT || chunk->cls == GPUSCAN_I128;

		made.flags = is_large ? COLUMN_RAW : 0;
		made.chunk = (const char *) chunk;
		made.base = 0;
		made.width = chunk->cls == GPUSCAN_BOOL								  ? 8
					 : chunk->cls == GPUSCAN_I64 || chunk->cls == GPUSCAN_F64 ? 64
																			  : 32;
	}
	if (chunk->nulls != 0)
		made.flags |= COLUMN_HAS_NULLS;
	else if (chunk->nnulls > 0)
		made.flags |= COLUMN_IS_NULL;
	made.mask = made.width == 0 ? 0 : ~0ULL >> (64 - made.width);
	if ((chunk->cls == GPUSCAN_TEXT) != ((made.flags & COLUMN_CODES) != 0) ||
		(made.flags & (COLUMN_RAW | COLUMN_CONSTANT | COLUMN_IS_NULL)) != 0 ||
		(chunk->cls == GPUSCAN_F64 && made.width != 64))
		made.flags |= COLUMN_UNUSUAL;
	*column = made;
}

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
fetch(const Column &column, uint32_t row)
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
	if (sizeof(T) == 8 && (head.w & COLUMN_WIDE) != 0)
		fetched.word[2] = __ldg(words + 2);
	fetched.nulls = (uint32_t) ((int32_t) head.w >> 31);
	if ((head.w & COLUMN_HAS_NULLS) != 0)
		fetched.nulls = __ldg(&column.nulls[row >> 5]);
	return fetched;
}

/*
 * The same of the rows behind[i] * 32 behind `row`: their bits lie as those of `row`
 * do, in other words.  A column that is known to be plain has neither NULLs nor codes.
 * (Made of this with n = 1, loads of one row would wait for each other.)
 */
template <class T, bool plain, int n>
GS_DEVICE void
fetch(const Column &column, uint32_t row, const uint32_t (&behind)[n], Fetched (&fetched)[n])
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
		if (sizeof(T) == 8 && (head.w & COLUMN_WIDE) != 0)
			fetched[i].word[2] = __ldg(p + 2);
		fetched[i].nulls = plain ? 0 : (uint32_t) ((int32_t) head.w >> 31);
	}
	if (!plain && (head.w & COLUMN_HAS_NULLS) != 0)
	{
		const uint32_t *nulls = column.nulls + (row >> 5);

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
fetched_code(const Column &column, const Fetched &fetched, uint32_t row)
{
	uint32_t bits = __funnelshift_r(fetched.word[0], fetched.word[1], row * column.width & 31);

	return (uint32_t) column.base + (bits & (uint32_t) column.mask);
}

/* The bits of a value, those of a code's too */
template <class T>
GS_DEVICE T
fetched_value(const Column &column, const Fetched &fetched, uint32_t row)
{
	uint32_t shift = row * column.width & 31;
	uint32_t low =
		__funnelshift_r(fetched.word[0], fetched.word[1], shift) & (uint32_t) column.mask;

	if ((column.flags & COLUMN_CODES) != 0)
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
 * Values of a column that is as most are: numbers without a dictionary, texts with
 * one (then they are codes), and some NULLs at most.  Several rows are 32 apart.
 */
template <class T, int n>
GS_DEVICE void
usual_values(const Column &column, uint32_t row, T (&values)[n])
{
	const uint4 head = *(const uint4 *) &column;
	uint32_t bit = row * head.z;
	const uint32_t *words = (const uint32_t *) ((uint64_t) head.y << 32 | head.x) + (bit >> 5);

#pragma unroll
	for (int i = 0; i < n; i++, words += head.z)
	{
		uint32_t low = __ldg(words);
		uint32_t next = __ldg(words + 1);
		uint32_t last = 0;

		if (sizeof(T) == 8 && (head.w & COLUMN_WIDE) != 0)
			last = __ldg(words + 2);
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
usual_values(const Column &column, uint32_t row, double (&values)[n])
{
#pragma unroll
	for (int i = 0; i < n; i++)
		values[i] = __ldg((const double *) column.data + row + i * 32);
}

/* A word for each row that has a bit for it, at its place among 32 rows, if it is NULL */
template <int n>
GS_DEVICE void
usual_nulls(const Column &column, uint32_t row, uint32_t (&nulls)[n])
{
#pragma unroll
	for (int i = 0; i < n; i++)
		nulls[i] = 0;
	if ((column.flags & COLUMN_HAS_NULLS) != 0)
	{
		const uint32_t *words = column.nulls + (row >> 5);

#pragma unroll
		for (int i = 0; i < n; i++)
			nulls[i] = __ldg(words + i);
	}
}

/* The same of rows that were fetched together, `row` the first */
template <bool plain, class T, int n>
GS_DEVICE void
fetched_values(const Column &column, const Fetched (&fetched)[n], uint32_t row, T (&values)[n])
{
	typedef typename Bits<sizeof(T)>::Word Word;
	uint32_t shift = row * column.width & 31;
	uint32_t low[n];

#pragma unroll
	for (int i = 0; i < n; i++)
		low[i] =
			__funnelshift_r(fetched[i].word[0], fetched[i].word[1], shift) & (uint32_t) column.mask;
	if (!plain && (column.flags & COLUMN_CODES) != 0)
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
column_flags(const Column &column, uint32_t row)
{
	if ((column.flags & COLUMN_HAS_NULLS) == 0)
		return column.flags >> 31;
	return __ldg(&column.nulls[row >> 5]) >> (row & 31) & 1;
}

GS_DEVICE uint32_t
column_code(const Column &column, uint32_t row)
{
	return (uint32_t) column.base +
		   (uint32_t) gs_unpack((const uint64_t *) column.data, column.width, row);
}

GS_DEVICE gs_i128
column_i128(const Column &column, uint32_t row)
{
	if ((column.flags & COLUMN_RAW) != 0)
		return ((const gs_i128 *) column.data)[row];
	if ((column.flags & COLUMN_CODES) != 0)
		return ((const gs_i128 *) column.values)[column_code(column, row)];
	return (gs_i128) ((gs_u128) wide(column.base, column.high) +
					  gs_unpack((const uint64_t *) column.data, column.width, row));
}

GS_DEVICE GsText
column_text(const Column &column, uint32_t row)
{
	const uint32_t *offsets = (const uint32_t *) column.data + row;
	GsText text = {column.values, (uint32_t) column.base};

	if ((column.flags & COLUMN_CONSTANT) != 0)
		return text;
	if ((column.flags & COLUMN_CODES) != 0)
		offsets = column.offsets + column_code(column, row);
	text.p = column.chunk + offsets[0];
	text.len = offsets[1] - offsets[0];
	return text;
}

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
 * Has the next rows of all columns on their way, rows * 32 of them, while the warp is
 * at others.
 */
template <uint32_t rows>
GS_DEVICE void
prefetch(const Column *columns, uint32_t ncolumns, const RowCursor &cursor)
{
	uint32_t i = threadIdx.x % 32 / (2 * rows);
	uint32_t row = cursor.row + threadIdx.x % (2 * rows) * 16;

	for (; i < ncolumns && row < cursor.stop; i += 16 / rows)
	{
		const char *p = columns[i].data + (row * columns[i].width >> 3);

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
};

GS_DEVICE Bounds
bounds_of_input(uint64_t address, bool is_integer)
{
	const GpuScanChunk *chunk = (const GpuScanChunk *) address;
	bool all_null = chunk->nnulls == chunk->nrows;

	return {(int64_t) chunk->min[0],
			(int64_t) chunk->max[0],
			is_integer && (all_null || chunk->has_summary),
			all_null,
			chunk->nnulls > 0,
			true};
}

GS_DEVICE Bounds
bounds_of_param(int64_t value, bool is_integer, bool is_null)
{
	return {value, value, is_integer, is_null, is_null, true};
}

GS_DEVICE Bounds
bounds_of_truth(bool may_be_true, bool may_be_null)
{
	return {0, 0, false, false, may_be_null, may_be_true};
}

/* Of a comparison that two values pass if one of three holds: a < b, a = b, a > b */
GS_DEVICE Bounds
bounds_of_comparison(const Bounds &a, const Bounds &b, bool less, bool equal, bool greater)
{
	Bounds bounds = bounds_of_truth(true, a.may_be_null || b.may_be_null);

	if (!a.known || !b.known)
		return bounds;
	bounds.all_null = a.all_null || b.all_null;
	bounds.may_be_true = !bounds.all_null && ((less && a.low < b.high) ||
											  (equal && a.low <= b.high && b.low <= a.high) ||
											  (greater && a.high > b.low));
	return bounds;
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
 * Opens the columns of a piece, and returns its rows: none where may_pass(chunks)
 * says so.
 */
template <class MayPass>
GS_DEVICE RowCursor
open_piece(const CudaLaunch &launch, Column *columns, uint32_t ncolumns, uint32_t item,
		   MayPass may_pass)
{
	uint32_t number = item / CUDA_PIECES;
	uint32_t piece = item % CUDA_PIECES;
	CudaSegment segment = find_segment(launch, number);
	CudaRange range = ((const CudaRange *) segment.ranges)[number - segment.first];
	uint32_t size = (range.nrows + CUDA_PIECES * 128 - 1) / (CUDA_PIECES * 128) * 128;
	RowCursor cursor = {(const RowRun *) range.runs, range.nruns, piece * size, 0, 0, 0};

	if (!may_pass((const uint64_t *) range.chunks))
	{
		if (piece == 0 && threadIdx.x % 32 == 0)
			add_atomic(&result_of(launch)->skipped, range.nblocks);
	}
	else if (cursor.skip < range.nrows)
		cursor.left = min(size, range.nrows - cursor.skip);
	__syncwarp();
	for (uint32_t i = threadIdx.x % 32; cursor.left > 0 && i < ncolumns; i += 32)
		open_column(&columns[i], ((const uint64_t *) range.chunks)[i],
					(const GsValues *) segment.dictionaries + i);
	__syncwarp();
	return cursor;
}

/* The rows of a piece that the filter keeps, of one warp */
struct Queue
{
	uint16_t rows[QUEUE_ROWS + 2];
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
are_usual(const Column *columns, uint32_t ncolumns)
{
	uint32_t flags = 0;

	for (uint32_t i = 0; i < ncolumns; i++)
		flags |= columns[i].flags;
	return (flags & COLUMN_UNUSUAL) == 0;
}

/*
 * Runs tuple(row, found) for each row that the filter keeps: keep(plain, row, n,
 * failed) has a bit for each 32nd row from `row` on, FILTER_ROWS of them, of a warp's n
 * rows; plain: there are so many, and is_plain() is true of the filter's columns.
 * tuple() returns an outcome, or CUDA_TUPLE_WAITS.  Behind it the
 * whole warp runs advance(found), with what each thread put into its Found, where
 * one has put something there.
 *
 * BATCH_ROWS rows of each thread go together.  Where columns are usual, quick(row)
 * comes first: of the rows from `row` on, it returns a bit for each for which it has done what
 * tuple() would do.
 */
template <bool filtered, bool has_quick, class Found, class MayPass, class IsPlain, class Keep,
		  class Quick, class Tuple, class Advance>
GS_DEVICE void
run_pieces(const CudaLaunch &launch, Column *columns, uint32_t ncolumns, Queue *queue,
		   MayPass may_pass, IsPlain is_plain, Keep keep, Quick quick, Tuple tuple, Advance advance)
{
	uint32_t lane = threadIdx.x % 32;
	uint32_t warps = gridDim.x * (blockDim.x / 32);
	uint32_t nitems = launch.nranges * CUDA_PIECES;
	CudaResult *result = result_of(launch);
	Counts counts = {0, 0, 0};
	uint64_t done = 0;

	for (uint32_t i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < nitems; i += warps)
	{
		uint32_t item = (uint32_t) ((uint64_t) i * launch.stride % nitems);
		CudaProgress before = {};
		uint32_t todo_before = 0;
		uint32_t kept = 0;	 /* tuples that the filter kept and that were taken from the queue */
		uint32_t seen = 0;	 /* rows */
		uint32_t head = 0;	 /* of the queue */
		uint32_t queued = 0; /* rows in it */
		uint32_t waiting = 0;

		if (__any_sync(WARP, load_relaxed(&result->code) != 0))
			break;
		if (launch.again)
		{
			before = ((const CudaProgress *) launch.progress)[item];
#pragma unroll
			for (uint32_t k = 0; k < BATCH_ROWS; k++)
				todo_before |= (before.mask[k] >> lane & 1) << k;
			if (!__any_sync(WARP, todo_before != 0))
				continue;
		}
		RowCursor cursor = open_piece(launch, columns, ncolumns, item, may_pass);
		const bool plain = is_plain();
		const bool usual = has_quick && launch.replicas != CUDA_NOT_SHARED &&
						   are_usual(columns, ncolumns);

		for (;;)
		{
			uint32_t first = 0;
			uint32_t n;

			if (filtered)
			{
				while (queued < BATCH_ROWS * 32 &&
					   (n = cursor.take(FILTER_ROWS * 32, first)) > 0)
				{
					uint32_t wanted;
					bool failed = false;

					seen += n;
					first += min(lane, n - 1);
					if (plain && n == FILTER_ROWS * 32)
						wanted = keep(Truth<true>(), first, n, failed);
					else
						wanted = keep(Truth<false>(), first, n, failed);
					wanted &= rows_there(n);
#pragma unroll
					for (uint32_t k = 0; k < FILTER_ROWS; k++)
					{
						bool is_wanted = wanted >> k & 1;
						uint32_t votes = __ballot_sync(WARP, is_wanted);
						uint32_t place = head + queued + __popc(votes & ((1U << lane) - 1));

						/* no branch: those that are not wanted have a place, too */
						queue->rows[is_wanted ? place % QUEUE_ROWS : QUEUE_ROWS] =
							(uint16_t) (first + k * 32);
						queued += __popc(votes);
					}
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
				prefetch<BATCH_ROWS>(columns, ncolumns, cursor);
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
			if (launch.again && kept == before.kept)
				todo = todo_before;
			else if (usual && (n == BATCH_ROWS * 32 || (BATCH_ROWS == 1 && lane < n)))
			{
				uint32_t quickly = quick(first);

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
