/*-------------------------------------------------------------------------
 *
 * pinned.c
 *	  Pinned memory for columns that device memory has no room for.
 *
 * To pin memory takes milliseconds, so it is done by pieces of some megabytes.
 * Of a piece, units of 512 bytes are handed out, the first that are free in a
 * row; a bit for each says which are taken.  A piece remembers how long a row
 * it can have at most, so that one that is full costs a look at that number.
 *
 * Of the pieces that become empty one is kept.  Others are given back by a thread
 * that may wait (fill.c), since that is slow too.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>

#define UNIT ((size_t) 512)
#define PIECE_SIZE ((size_t) 32 * 1024 * 1024)

typedef struct CudaPinnedPiece
{
	char *base;
	uint32_t nunits;
	uint32_t ntaken;
	uint32_t longest; /* no more units in a row are free */
	uint64_t taken[]; /* a bit for each unit */
} CudaPinnedPiece;

void
gpuscan_cuda_pinned_init(CudaPinned *pinned)
{
	pthread_mutex_init(&pinned->lock, NULL);
	pthread_mutex_init(&pinned->grows, NULL);
}

static void
free_piece(CudaPinnedPiece *piece)
{
	(void) gpuscan_cuda.host_free(piece->base);
	free(piece);
}

void
gpuscan_cuda_pinned_close(CudaPinned *pinned)
{
	for (uint32_t i = 0; i < pinned->npieces; i++)
		free_piece(pinned->pieces[i]);
	free(pinned->pieces);
	pthread_mutex_destroy(&pinned->lock);
	pthread_mutex_destroy(&pinned->grows);
}

static uint32_t
units_of(size_t size)
{
	return (uint32_t) ((size + UNIT - 1) / UNIT);
}

/* The first of n free units in a row, or nunits. */
static uint32_t
find_row(const CudaPinnedPiece *piece, uint32_t n)
{
	uint32_t unit = 0;
	uint32_t row = 0;

	while (unit < piece->nunits)
	{
		uint32_t left = 64 - unit % 64;
		uint64_t word = piece->taken[unit / 64] >> unit % 64;
		uint32_t same;

		if ((word & 1) != 0)
		{
			same = ~word == 0 ? 64 : (uint32_t) __builtin_ctzll(~word);
			row = 0;
		}
		else
		{
			same = word == 0 ? left : (uint32_t) __builtin_ctzll(word);
			row += same;
		}
		unit += same;
		if (row >= n && unit - row + n <= piece->nunits)
			return unit - row;
	}
	return piece->nunits;
}

static void
mark(CudaPinnedPiece *piece, uint32_t first, uint32_t n)
{
	for (uint32_t unit = first; unit < first + n; unit++)
		piece->taken[unit / 64] ^= (uint64_t) 1 << unit % 64;
}

/* Takes units of some piece.  Under the lock. */
static void *
take(CudaPinned *pinned, uint32_t n)
{
	for (uint32_t i = 0; i < pinned->npieces; i++)
	{
		uint32_t at = (pinned->next + i) % pinned->npieces;
		CudaPinnedPiece *piece = pinned->pieces[at];
		uint32_t first;

		if (piece->longest < n)
			continue;
		first = find_row(piece, n);
		if (first == piece->nunits)
		{
			piece->longest = n - 1;
			continue;
		}
		mark(piece, first, n);
		pinned->nempty -= piece->ntaken == 0;
		piece->ntaken += n;
		pinned->next = at;
		return piece->base + first * UNIT;
	}
	return NULL;
}

static void *
take_locked(CudaPinned *pinned, uint32_t n)
{
	void *pointer;

	pthread_mutex_lock(&pinned->lock);
	pointer = take(pinned, n);
	pthread_mutex_unlock(&pinned->lock);
	return pointer;
}

static CudaPinnedPiece *
make_piece(GpuScanDevice *device, uint32_t n)
{
	uint32_t nunits = n > units_of(PIECE_SIZE) ? n : units_of(PIECE_SIZE);
	CudaPinnedPiece *piece =
		calloc(1, sizeof(CudaPinnedPiece) + (nunits + 63) / 64 * sizeof(uint64_t));

	if (piece == NULL)
		return NULL;
	piece->nunits = nunits;
	piece->longest = nunits;
	if (gpuscan_cuda_code(device, gpuscan_cuda.host_alloc((void **) &piece->base, nunits * UNIT,
														  CU_MEMHOSTALLOC_PORTABLE)) != GPUSCAN_OK)
	{
		free(piece);
		return NULL;
	}
	return piece;
}

/* Where a piece with this address is, or belongs.  Under the lock. */
static uint32_t
find_piece(const CudaPinned *pinned, const char *base)
{
	uint32_t low = 0;
	uint32_t high = pinned->npieces;

	while (low < high)
	{
		uint32_t middle = (low + high) / 2;
		const CudaPinnedPiece *piece = pinned->pieces[middle];

		if (piece->base + piece->nunits * UNIT <= base)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Under the lock; false: out of memory. */
static bool
add_piece(CudaPinned *pinned, CudaPinnedPiece *piece)
{
	uint32_t at;

	if (pinned->npieces == pinned->capacity)
	{
		uint32_t capacity = pinned->capacity * 2 + 16;
		CudaPinnedPiece **pieces = realloc(pinned->pieces, capacity * sizeof(*pieces));

		if (pieces == NULL)
			return false;
		pinned->pieces = pieces;
		pinned->capacity = capacity;
	}
	at = find_piece(pinned, piece->base);
	memmove(pinned->pieces + at + 1, pinned->pieces + at,
			(pinned->npieces - at) * sizeof(*pinned->pieces));
	pinned->pieces[at] = piece;
	pinned->npieces++;
	pinned->nempty++;
	pinned->next = at;
	return true;
}

void *
gpuscan_cuda_pinned_alloc(GpuScanDevice *device, size_t size)
{
	CudaPinned *pinned = &device->columns.pinned;
	uint32_t n = units_of(size);
	void *pointer = take_locked(pinned, n);
	CudaPinnedPiece *piece;
	bool added;

	if (pointer != NULL)
		return pointer;

	/* one piece is enough for all that find no room now */
	pthread_mutex_lock(&pinned->grows);
	pointer = take_locked(pinned, n);
	piece = pointer == NULL ? make_piece(device, n) : NULL;
	if (piece != NULL)
	{
		pthread_mutex_lock(&pinned->lock);
		added = add_piece(pinned, piece);
		pointer = added ? take(pinned, n) : NULL;
		pthread_mutex_unlock(&pinned->lock);
		if (!added)
			free_piece(piece);
	}
	pthread_mutex_unlock(&pinned->grows);
	return pointer;
}

bool
gpuscan_cuda_pinned_free(GpuScanDevice *device, void *pointer, size_t size)
{
	CudaPinned *pinned = &device->columns.pinned;
	CudaPinnedPiece *piece;
	bool trim;

	pthread_mutex_lock(&pinned->lock);
	piece = pinned->pieces[find_piece(pinned, pointer)];
	mark(piece, (uint32_t) ((size_t) ((char *) pointer - piece->base) / UNIT), units_of(size));
	piece->ntaken -= units_of(size);
	piece->longest = piece->nunits;
	pinned->nempty += piece->ntaken == 0;
	trim = pinned->nempty > 1;
	pthread_mutex_unlock(&pinned->lock);
	return trim;
}

/* Takes an empty piece out of the list if there are others; NULL: there are none. */
static CudaPinnedPiece *
take_empty(CudaPinned *pinned)
{
	CudaPinnedPiece *empty = NULL;

	pthread_mutex_lock(&pinned->lock);
	for (uint32_t i = 0; pinned->nempty > 1 && empty == NULL; i++)
	{
		if (pinned->pieces[i]->ntaken > 0)
			continue;
		empty = pinned->pieces[i];
		pinned->npieces--;
		pinned->nempty--;
		memmove(pinned->pieces + i, pinned->pieces + i + 1,
				(pinned->npieces - i) * sizeof(*pinned->pieces));
	}
	pthread_mutex_unlock(&pinned->lock);
	return empty;
}

void
gpuscan_cuda_pinned_trim(GpuScanDevice *device)
{
	CudaPinnedPiece *piece;

	while ((piece = take_empty(&device->columns.pinned)) != NULL)
		free_piece(piece);
}
