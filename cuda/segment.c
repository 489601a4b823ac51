/*-------------------------------------------------------------------------
 *
 * segment.c
 *	  What kernels read of segments of cached columns, and of their dictionaries.
 *
 * Of a segment there is one piece of memory, made when a lane first needs it and
 * kept until the service lets the segment go:
 *
 *	 CudaRange[]		of each range
 *	 CudaColumn[]		of each range and input, what its chunk's header says
 *	 GpuScanRows[]		the runs of all ranges
 *	 uint16_t[]			of each range, where its blocks end
 *	 the chunks that lie behind their headers, in memory no kernel reads
 *
 * Of a dictionary there is a mirror, with room to grow: what is there stays, so
 * new values are written behind it beside kernels that read.  If the room is too
 * small a larger mirror takes its place, and the old one stays for the segments
 * that were made with it.  They need no more: a chunk's codes are older than it.
 *
 * This memory counts as columns but no limit stops it: it is small, and the
 * request would fail without it.  Where the device has none, pinned memory does.
 *
 * A lock covers all of it.  Whoever holds it has waited for what he copied, so
 * that any stream may read what the next one finds.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>

/* Least room of a mirror */
#define MIN_VALUES 256
#define MIN_TEXT 4096

typedef struct CudaMirror
{
	struct CudaMirror *next;
	const GpuScanDictionary *dictionary;
	uint32_t users; /* segments, and the list */
	uint32_t count; /* of values */
	uint32_t max_count;
	uint32_t size; /* bytes of values, or of texts */
	uint32_t max_size;
	CudaPlace place; /* values; behind max_size, rounded, offsets of texts */
} CudaMirror;

typedef struct CudaPrepared
{
	CudaSegment segment;
	CudaPlace place;
	CudaBounds *bounds; /* of each input; malloc'd */
	uint32_t nmirrors;
	CudaMirror *mirrors[];
} CudaPrepared;

static size_t
align16(size_t size)
{
	return (size + 15) / 16 * 16;
}

static CUstream
stream_of(const GpuScanRequest *request)
{
	return request->lane->stream;
}

static GpuScanCode
alloc(GpuScanRequest *request, size_t size, CudaPlace *place)
{
	if (gpuscan_cuda_columns_alloc(request->device, stream_of(request), size, UINT64_MAX,
								   UINT64_MAX, place))
		return GPUSCAN_OK;
	return atomic_load(&request->device->failed) ? GPUSCAN_DEVICE_FAILED : GPUSCAN_OUT_OF_MEMORY;
}

static GpuScanCode
copy_to(GpuScanRequest *request, const CudaPlace *place, size_t offset, const void *data,
		size_t size)
{
	if (size == 0)
		return GPUSCAN_OK;
	request->stats.bus_bytes += size;
	if (place->tier == GPUSCAN_TIER_DEVICE)
		return CUDA(copy_to_device(place->address + offset, data, size, stream_of(request)));
	memcpy((char *) (uintptr_t) place->address + offset, data, size);
	return GPUSCAN_OK;
}

/*
 * Mirrors of dictionaries.  All under the lock.
 */
static void
release_mirror(GpuScanDevice *device, CUstream stream, CudaMirror *mirror)
{
	if (--mirror->users > 0)
		return;
	gpuscan_cuda_columns_free(device, stream, &mirror->place);
	free(mirror);
}

/* Takes a dictionary's mirror out of the list; NULL: there is none. */
static CudaMirror *
unlink_mirror(GpuScanDevice *device, const GpuScanDictionary *dictionary)
{
	CudaMirror **link = &device->columns.mirrors;
	CudaMirror *mirror;

	while (*link != NULL && (*link)->dictionary != dictionary)
		link = &(*link)->next;
	mirror = *link;
	if (mirror != NULL)
		*link = mirror->next;
	return mirror;
}

/* Room for twice as much as there is, but for no more than a dictionary can have */
static uint32_t
room(uint32_t needed, uint32_t min, uint32_t max)
{
	uint32_t wanted = needed < min / 2 ? min : needed * 2;

	return wanted < max ? wanted : max;
}

static GpuScanCode
make_mirror(GpuScanRequest *request, const GpuScanDictionary *dictionary, GpuScanClass cls,
			uint32_t count, uint32_t size, CudaMirror **mirror)
{
	bool text = cls == GPUSCAN_TEXT;
	CudaMirror *made = calloc(1, sizeof(CudaMirror));
	size_t total;
	GpuScanCode code;

	if (made == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	made->dictionary = dictionary;
	made->users = 1;
	made->max_count = room(count, MIN_VALUES, GPUSCAN_DICTIONARY_CODES);
	made->max_size = text ? room(size, MIN_TEXT, GPUSCAN_DICTIONARY_TEXT)
						  : made->max_count * gpuscan_columns_value_size[cls];
	total = align16(made->max_size) + (text ? (made->max_count + 1) * sizeof(uint32_t) : 0);
	code = alloc(request, total, &made->place);
	if (code != GPUSCAN_OK)
	{
		free(made);
		return code;
	}
	*mirror = made;
	return GPUSCAN_OK;
}

/* Writes the values that a mirror does not have. */
static GpuScanCode
extend_mirror(GpuScanRequest *request, CudaMirror *mirror, const GsValues *values, GpuScanClass cls,
			  uint32_t count, uint32_t size)
{
	uint32_t first = mirror->count == 0 ? 0 : mirror->count + 1; /* offset that is not there */

	TRY(copy_to(request, &mirror->place, mirror->size, values->data + mirror->size,
				size - mirror->size));
	if (cls == GPUSCAN_TEXT)
		TRY(copy_to(request, &mirror->place, align16(mirror->max_size) + first * sizeof(uint32_t),
					values->offsets + first, (count + 1 - first) * sizeof(uint32_t)));
	mirror->count = count;
	mirror->size = size;
	return GPUSCAN_OK;
}

/* Finds or makes the mirror of all that a dictionary has now; NULL: it has nothing. */
static GpuScanCode
get_mirror(GpuScanRequest *request, const GpuScanDictionary *dictionary, GpuScanClass cls,
		   CudaMirror **found)
{
	GpuScanDevice *device = request->device;
	uint32_t count = dictionary == NULL ? 0 : gpuscan_dictionary_count(dictionary);
	CudaMirror *mirror;
	GsValues values;
	uint32_t size;
	GpuScanCode code = GPUSCAN_OK;

	*found = NULL;
	if (count == 0)
		return GPUSCAN_OK;
	values = gpuscan_dictionary_values(dictionary);
	size = cls == GPUSCAN_TEXT ? values.offsets[count] : count * gpuscan_columns_value_size[cls];
	mirror = unlink_mirror(device, dictionary);
	if (mirror != NULL && (count > mirror->max_count || size > mirror->max_size))
	{
		release_mirror(device, stream_of(request), mirror);
		mirror = NULL;
	}
	if (mirror == NULL)
		code = make_mirror(request, dictionary, cls, count, size, &mirror);
	if (mirror == NULL)
		return code;
	mirror->next = device->columns.mirrors;
	device->columns.mirrors = mirror;
	if (count > mirror->count)
		TRY(extend_mirror(request, mirror, &values, cls, count, size));
	*found = mirror;
	return GPUSCAN_OK;
}

/*
 * Segments
 */

/* Of a range */
#define ENDS_SIZE (GPUSCAN_RANGE_BLOCKS * sizeof(uint16_t))

/* Where the parts of a segment's memory begin */
typedef struct Layout
{
	size_t columns;
	size_t runs;
	size_t ends;
	size_t chunks;
	size_t size;
} Layout;

static Layout
lay_out(const GpuScanCachedSegment *segment, uint32_t ninputs)
{
	size_t nruns = 0;
	size_t chunks = 0;
	Layout at;

	for (uint32_t r = 0; r < segment->nranges; r++)
	{
		const GpuScanCachedRange *range = &segment->ranges[r];

		nruns += range->nruns;
		for (uint32_t i = 0; i < ninputs; i++)
			chunks += range->chunks[i]->address == 0 ? range->chunks[i]->size : 0;
	}
	at.columns = align16(segment->nranges * sizeof(CudaRange));
	at.runs = at.columns + (size_t) segment->nranges * ninputs * sizeof(CudaColumn);
	at.ends = at.runs + align16(nruns * sizeof(GpuScanRows));
	at.chunks = at.ends + segment->nranges * ENDS_SIZE;
	at.size = at.chunks + chunks;
	return at;
}

/* What kernels need to know of a chunk that lies at `address`, and of its dictionary */
static CudaColumn
describe_chunk(const GpuScanChunk *chunk, uint64_t address, const GsValues *dictionary)
{
	bool is_text = chunk->cls == GPUSCAN_TEXT;
	bool is_integer = chunk->cls == GPUSCAN_I32 || chunk->cls == GPUSCAN_I64;
	CudaColumn column = {.data = address + chunk->data,
						 .width = chunk->width,
						 .base = chunk->base[0],
						 .base_high = chunk->base[1],
						 .nulls = chunk->nulls != 0 ? address + chunk->nulls : 0,
						 .low = (int64_t) chunk->min[0],
						 .high = (int64_t) chunk->max[0],
						 .nrows = chunk->nrows,
						 .nnulls = chunk->nnulls};

	switch ((GpuScanEncoding) chunk->encoding)
	{
		case GPUSCAN_ENCODING_CODES:
			column.flags = CUDA_COLUMN_CODES;
			column.values = (uintptr_t) dictionary->data;
			if (is_text)
				column.offsets = (uintptr_t) dictionary->offsets;
			break;
		case GPUSCAN_ENCODING_CONSTANT:
			column.flags = is_text ? CUDA_COLUMN_CONSTANT : 0;
			column.width = 0;
			column.values = column.data;
			column.data = address; /* words that are loaded for nothing */
			break;
		case GPUSCAN_ENCODING_RAW:
			column.flags = is_text || chunk->cls == GPUSCAN_I128 ? CUDA_COLUMN_RAW : 0;
			column.values = address;
			column.base = 0;
			column.width = is_text ? 32 : gpuscan_columns_value_size[chunk->cls] * 8;
			break;
		default:
			break;
	}
	if (column.flags == 0 && column.width > 32)
		column.flags = CUDA_COLUMN_WIDE;
	if (is_text != (column.flags == CUDA_COLUMN_CODES) || chunk->nnulls == chunk->nrows ||
		(column.flags & CUDA_COLUMN_RAW) != 0 || (chunk->cls == GPUSCAN_F64 && column.width != 64))
		column.flags |= CUDA_COLUMN_UNUSUAL;
	if (is_integer && (chunk->has_summary || chunk->nnulls == chunk->nrows))
		column.flags |= CUDA_COLUMN_BOUNDED;
	if (chunk->nulls != 0)
		column.flags |= CUDA_COLUMN_HAS_NULLS;
	else if (chunk->nnulls > 0)
		column.flags |= CUDA_COLUMN_IS_NULL;
	column.mask = column.width == 0 || column.width > 64 ? 0 : UINT64_MAX >> (64 - column.width);
	return column;
}

static void
widen(CudaBounds *bounds, int64_t low, int64_t high)
{
	bounds->low = low < bounds->low ? low : bounds->low;
	bounds->high = high > bounds->high ? high : bounds->high;
}

/* Widens an input's bounds by those of a chunk; a text's are its dictionary's. */
static void
widen_by_chunk(CudaBounds *bounds, const GpuScanChunk *chunk, const CudaColumn *column)
{
	if (chunk->nnulls == chunk->nrows || chunk->cls == GPUSCAN_TEXT)
		return;
	if (chunk->cls == GPUSCAN_BOOL)
		widen(bounds, 0, 1);
	else if ((column->flags & CUDA_COLUMN_BOUNDED) != 0)
		widen(bounds, column->low, column->high);
	else
		bounds->unknown = true;
}

/* Writes a segment's memory, which is to lie at `address`, into `copy`, and widens bounds. */
static void
describe_ranges(const GpuScanCachedSegment *segment, uint32_t ninputs, const GsValues *dictionaries,
				Layout at, uint64_t address, char *copy, CudaBounds *bounds)
{
	CudaRange *ranges = (CudaRange *) copy;
	CudaColumn *columns = (CudaColumn *) (copy + at.columns);

	for (uint32_t r = 0; r < segment->nranges; r++)
	{
		const GpuScanCachedRange *range = &segment->ranges[r];

		ranges[r] = (CudaRange){.runs = address + at.runs,
								.ends = address + at.ends,
								.nruns = (uint16_t) range->nruns,
								.nblocks = (uint16_t) range->nblocks};
		if (range->ends != NULL)
			memcpy(copy + at.ends, range->ends, ENDS_SIZE);
		at.ends += ENDS_SIZE;
		for (uint32_t i = 0; i < range->nruns; i++)
		{
			ranges[r].nrows += range->runs[i].n;
			memcpy(copy + at.runs, &range->runs[i], sizeof(GpuScanRows));
			at.runs += sizeof(GpuScanRows);
		}
		for (uint32_t i = 0; i < ninputs; i++)
		{
			const GpuScanChunk *chunk = range->chunks[i];
			uint64_t place = chunk->address;

			if (place == 0)
			{
				place = address + at.chunks;
				memcpy(copy + at.chunks, chunk, chunk->size);
				at.chunks += chunk->size;
			}
			*columns = describe_chunk(chunk, place, &dictionaries[i]);
			widen_by_chunk(&bounds[i], chunk, columns++);
		}
	}
}

static GpuScanCode
get_mirrors(GpuScanRequest *request, const GpuScanCachedSegment *segment, CudaPrepared *prepared,
			GsValues *values)
{
	const GpuScanProgram *program = request->options.program;

	for (uint32_t i = 0; segment->nranges > 0 && i < program->ninputs; i++)
	{
		uint8_t cls = GPUSCAN_REG_CLASSES(program)[GPUSCAN_INPUTS(program)[i].reg];
		CudaMirror *mirror;

		TRY(get_mirror(request, segment->ranges[0].dictionaries[i], (GpuScanClass) cls, &mirror));
		if (mirror == NULL)
			continue;
		mirror->users++;
		prepared->mirrors[prepared->nmirrors++] = mirror;
		values[i].data = (const char *) (uintptr_t) mirror->place.address;
		values[i].offsets =
			(const uint32_t *) (uintptr_t) (mirror->place.address + align16(mirror->max_size));
		if (cls == GPUSCAN_TEXT)
			widen(&prepared->bounds[i], (int64_t) (uintptr_t) values[i].offsets,
				  (int64_t) (uintptr_t) (values[i].offsets + mirror->count - 1));
	}
	return GPUSCAN_OK;
}

static void
free_prepared(GpuScanDevice *device, CUstream stream, CudaPrepared *prepared)
{
	if (prepared->place.size > 0)
		gpuscan_cuda_columns_free(device, stream, &prepared->place);
	for (uint32_t i = 0; i < prepared->nmirrors; i++)
		release_mirror(device, stream, prepared->mirrors[i]);
	free(prepared->bounds);
	free(prepared);
}

static GpuScanCode
fill_prepared(GpuScanRequest *request, const GpuScanCachedSegment *segment, CudaPrepared *prepared)
{
	uint32_t ninputs = request->options.program->ninputs;
	Layout at = lay_out(segment, ninputs);
	GsValues dictionaries[GPUSCAN_MAX_REGISTERS] = {0};
	CudaPlace place;
	char *copy;
	GpuScanCode code;
	GpuScanCode copied;

	prepared->bounds = malloc((ninputs + 1) * sizeof(CudaBounds));
	if (prepared->bounds == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < ninputs; i++)
		prepared->bounds[i] = CUDA_NO_BOUNDS;
	TRY(alloc(request, at.size, &place));
	prepared->place = place;
	prepared->segment = (CudaSegment){.ranges = place.address,
									  .columns = place.address + at.columns,
									  .nranges = segment->nranges};
	copy = calloc(1, at.size);
	if (copy == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	code = get_mirrors(request, segment, prepared, dictionaries);
	describe_ranges(segment, ninputs, dictionaries, at, place.address, copy, prepared->bounds);
	if (code == GPUSCAN_OK)
		code = copy_to(request, &place, 0, copy, at.size);
	/* of mirrors too, which others may use once the lock is gone, whatever has failed */
	copied = CUDA(stream_synchronize(stream_of(request)));
	free(copy);
	return code == GPUSCAN_OK ? copied : code;
}

/* Under the lock. */
static GpuScanCode
prepare(GpuScanRequest *request, GpuScanCachedSegment *segment)
{
	CudaPrepared *prepared =
		calloc(1, sizeof(CudaPrepared) + request->options.program->ninputs * sizeof(CudaMirror *));
	GpuScanCode code;

	if (prepared == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	code = fill_prepared(request, segment, prepared);
	if (code == GPUSCAN_OK)
		segment->prepared = prepared;
	else
		free_prepared(request->device, stream_of(request), prepared);
	return code;
}

GpuScanCode
gpuscan_cuda_segment_prepare(GpuScanRequest *request, GpuScanCachedSegment *segment,
							 CudaSegment *out, CudaBounds *bounds)
{
	pthread_mutex_t *lock = &request->device->columns.lock;
	GpuScanCode code = GPUSCAN_OK;

	pthread_mutex_lock(lock);
	if (segment->prepared == NULL)
		code = prepare(request, segment);
	if (code == GPUSCAN_OK)
	{
		const CudaPrepared *prepared = segment->prepared;

		*out = prepared->segment;
		for (uint32_t i = 0; i < request->options.program->ninputs; i++)
		{
			widen(&bounds[i], prepared->bounds[i].low, prepared->bounds[i].high);
			bounds[i].unknown |= prepared->bounds[i].unknown;
		}
	}
	pthread_mutex_unlock(lock);
	return code;
}

void
gpuscan_cuda_forget_segment(GpuScanDevice *device, GpuScanCachedSegment *segment)
{
	CudaColumns *columns = &device->columns;

	(void) gpuscan_cuda.context_set_current(device->context);
	pthread_mutex_lock(&columns->lock);
	if (segment->prepared != NULL)
		free_prepared(device, CUDA_MAIN_STREAM, segment->prepared);
	segment->prepared = NULL;
	pthread_mutex_unlock(&columns->lock);
}

void
gpuscan_cuda_forget_dictionary(GpuScanDevice *device, const GpuScanDictionary *dictionary)
{
	CudaColumns *columns = &device->columns;
	CudaMirror *mirror;

	(void) gpuscan_cuda.context_set_current(device->context);
	pthread_mutex_lock(&columns->lock);
	mirror = unlink_mirror(device, dictionary);
	if (mirror != NULL)
		release_mirror(device, CUDA_MAIN_STREAM, mirror);
	pthread_mutex_unlock(&columns->lock);
}
