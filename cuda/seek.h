/*-------------------------------------------------------------------------
 *
 * seek.h
 *	  What the kernel of a scan over cached columns is made of, besides cached.h: it
 *	  finds the blocks with a row that the filter does not reject.  Read by NVRTC alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_SEEK_H
#define GPUSCAN_CUDA_SEEK_H

#include "cached.h"

/* The block of a range in whose part of the chunks a row lies */
GS_DEVICE uint32_t
block_of_row(const uint16_t *ends, uint32_t row)
{
	uint32_t block = 0;

	GS_ROLLED
	for (uint32_t step = CUDA_RANGE_BLOCKS / 2; step > 0; step /= 2)
	{
		if (ends[block + step - 1] <= row)
			block += step;
	}
	return block;
}

/* Of a range, found by the whole warp */
GS_DEVICE const uint16_t *
find_ends(const CudaLaunch &launch, uint32_t number)
{
	CudaSegment segment = find_segment(launch, number);

	return (const uint16_t *) ((const CudaRange *) segment.ranges)[number - segment.first].ends;
}

/*
 * Sets the bits of blocks in the words of their ranges.  keep() is as in
 * run_pieces(), but that it has a bit for a row whose filter fails too.
 */
template <uint64_t which, class FilterBounds, class IsPlain, class Keep>
GS_DEVICE void
seek_pieces(const CudaLaunch &launch, CudaColumn *columns, uint32_t ncolumns,
			FilterBounds filter_bounds, IsPlain is_plain, Keep keep)
{
	auto tell = [](uint32_t, bool) { return false; };
	uint32_t told = 0;
	uint32_t lane = threadIdx.x % 32;
	uint32_t warps = gridDim.x * (blockDim.x / 32);
	uint32_t nitems = launch.nranges * launch.pieces;
	uint32_t wanted_rows = 0;
	uint64_t done = 0;

	for (uint32_t i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < nitems; i += warps)
	{
		uint32_t item = (uint32_t) ((uint64_t) i * launch.stride % nitems);
		uint32_t number = item / launch.pieces;
		uint64_t *hits = (uint64_t *) launch.hits + number;
		RowCursor cursor = open_piece(launch, columns, ncolumns, item, filter_bounds, tell, told);
		const bool plain = is_plain();
		const uint16_t *ends = 0;
		uint64_t blocks = 0;
		uint32_t end = 0; /* of the last block among them: a thread's rows ascend */
		uint32_t first;
		uint32_t n;

		while ((n = cursor.take(FILTER_ROWS * 32, first)) > 0)
		{
			uint32_t wanted;

			done += n;
			first += min(lane, n - 1);
			prefetch<FILTER_ROWS>(columns, which, cursor.row, cursor.stop);
			if (plain && n == FILTER_ROWS * 32)
				wanted = keep(Truth<true>(), first, n);
			else
				wanted = keep(Truth<false>(), first, n);
			wanted &= rows_there(n);
			wanted_rows += __popc(wanted);
			if (__ballot_sync(WARP, wanted != 0) == 0)
				continue;
			if (ends == 0)
				ends = find_ends(launch, number);
			GS_ROLLED
			for (uint32_t k = 0; k < FILTER_ROWS; k++)
			{
				uint32_t row = first + k * 32;

				if ((wanted >> k & 1) != 0 && row >= end)
				{
					uint32_t block = block_of_row(ends, row);

					blocks |= 1ULL << block;
					end = ends[block];
				}
			}
		}
		if ((load_relaxed(hits) & blocks) != blocks)
			atomicOr((gs_word *) hits, (gs_word) blocks);
	}
	__syncwarp();
	if (lane == 0 && done != 0)
		add_atomic(&result_of(launch)->cached, done);
	add_count(&result_of(launch)->passed, wanted_rows);
}

#endif /* GPUSCAN_CUDA_SEEK_H */
