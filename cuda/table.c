/*-------------------------------------------------------------------------
 *
 * table.c
 *	  The tables of a request in device memory: made, grown, finished.
 *
 *	 rows		group rows, dense, zero beyond those in use
 *	 claims		open addressing, twice as many as rows at least
 *	 texts		keys and distinct values that are bytes
 *	 entries	of each count(DISTINCT)
 *
 * Without keys there is one row, which only count(DISTINCT) uses.  The counters
 * of a table and the CudaDistinct of each count(DISTINCT) lie in the memory that
 * lane.c makes for a request.
 *
 * A table that is full grows to what the tuples seen so far let expect, keeping
 * what it has: rows keep their numbers and texts their offsets, claims and
 * entries are placed anew.  All memory counts against the request's limit, old
 * and new at the same time; where that is too much, the table grows by less.
 *
 * Everything here runs on the lane's own stream, and waits for it where the
 * host needs an answer: once for a result, with the rows that are fetched first.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdlib.h>

#define FIRST_ROWS (16 * 1024)
#define FIRST_TEXTS ((size_t) 256 * 1024)
#define FIRST_PAIRS (64 * 1024)

/* Where groups are expected: bytes of texts, and pairs, of each */
#define FIRST_TEXT 32
#define FIRST_PAIRS_OF_GROUP 8
#define MAX_ROWS (UINT32_C(1) << 30)
#define MAX_PAIRS (UINT32_C(1) << 31)

/* The factors by which a table grows; the last where nothing is known of the input */
#define MIN_GROWTH 2
#define MAX_GROWTH 8
#define GROWTH 4

#define TABLE_THREADS 256

static CUstream
stream_of(const GpuScanRequest *request)
{
	return request->lane->stream;
}

/* Memory filled with zeros */
static GpuScanCode
alloc_zeroed(GpuScanRequest *request, size_t size, uint64_t *pointer)
{
	CUdeviceptr memory;
	GpuScanCode code;

	*pointer = 0;
	TRY(gpuscan_cuda_alloc(request, size, &memory));
	code = CUDA(fill(memory, 0, size, stream_of(request)));
	if (code != GPUSCAN_OK)
		gpuscan_cuda_free(request, memory, size);
	else
		*pointer = memory;
	return code;
}

static GpuScanCode
synchronize(GpuScanRequest *request)
{
	return CUDA(stream_synchronize(stream_of(request)));
}

/* Copies to the host, which is to wait for it. */
static GpuScanCode
copy_back(GpuScanRequest *request, void *dst, CUdeviceptr src, size_t size)
{
	if (size == 0)
		return GPUSCAN_OK;
	request->stats.bus_bytes += size;
	return CUDA(copy_to_host(dst, src, size, stream_of(request)));
}

static GpuScanCode
read_back(GpuScanRequest *request, void *dst, CUdeviceptr src, size_t size)
{
	TRY(copy_back(request, dst, src, size));
	return synchronize(request);
}

const CudaKernels *
gpuscan_cuda_table_kernels(const GpuScanRequest *request)
{
	return request->kernels[request->kernels[CUDA_PAGES] != NULL ? CUDA_PAGES : CUDA_CACHED];
}

uint64_t
gpuscan_cuda_result_at(const GpuScanRequest *request, uint32_t number)
{
	return request->fixed + offsetof(CudaReport, results) + number * sizeof(CudaResult);
}

CudaLaunch
gpuscan_cuda_table_launch(const GpuScanRequest *request)
{
	return (CudaLaunch){.table = request->table,
						.program = request->program,
						.layouts = request->layouts,
						.pass_mask = request->options.pass.mask,
						.pass = request->options.pass.number,
						.result = gpuscan_cuda_result_at(request, CUDA_TABLE_RESULT),
						.replicas = CUDA_NOT_SHARED};
}

/* Runs one of the small kernels over n elements; `params` begins with the launch. */
static GpuScanCode
run_kernel(GpuScanRequest *request, CUfunction function, uint64_t n, void **params)
{
	uint64_t blocks = (n + TABLE_THREADS - 1) / TABLE_THREADS;
	unsigned grid = blocks > 4096 ? 4096 : (unsigned) blocks;

	if (n == 0)
		return GPUSCAN_OK;
	return CUDA(
		launch(function, grid, 1, 1, TABLE_THREADS, 1, 1, 0, stream_of(request), params, NULL));
}

static size_t
rows_size(const GpuScanRequest *request, uint32_t max_rows)
{
	return (size_t) max_rows * request->source.row_size;
}

static size_t
claims_size(const CudaTable *table)
{
	return table->claims == 0 ? 0 : ((size_t) table->claims_mask + 1) * sizeof(uint64_t);
}

static size_t
pairs_size(const GpuScanRequest *request, uint32_t number, uint32_t mask)
{
	return ((size_t) mask + 1) * request->source.distinct[number].entry_size;
}

/* The mask of a table of at least n places */
static uint32_t
mask_for(uint64_t n)
{
	uint32_t mask = 63;

	while (mask < n - 1)
		mask = mask * 2 + 1;
	return mask;
}

/* As many as wished and expected, or fewer where the limit is low */
static uint32_t
first_size(const GpuScanRequest *request, uint64_t wish, uint64_t expected, size_t width)
{
	uint64_t size = wish > expected ? wish : expected;

	while (size > 64 && (size > MAX_ROWS || size * width > request->options.memory_limit / 8))
		size /= 2;
	return (uint32_t) size;
}

/* Claims without a row */
static GpuScanCode
make_claims(GpuScanRequest *request)
{
	CudaTable *table = &request->table;

	table->claims_mask = mask_for((uint64_t) table->max_rows * 2);
	return alloc_zeroed(request, ((size_t) table->claims_mask + 1) * sizeof(uint64_t),
						&table->claims);
}

GpuScanCode
gpuscan_cuda_table_create(GpuScanRequest *request)
{
	CudaTable *table = &request->table;
	uint32_t ndistinct = request->source.ndistinct;
	uint32_t row_size = request->source.row_size;
	bool grouped = request->options.program->nkeys > 0;
	uint64_t groups = request->options.groups_expected;

	if (!request->options.program->aggregate)
		return GPUSCAN_OK;
	table->max_rows =
		grouped ? first_size(request, FIRST_ROWS, groups + groups / 4, row_size + 32) : 1;
	TRY(alloc_zeroed(request, rows_size(request, table->max_rows), &table->rows));
	if (grouped)
		TRY(make_claims(request));
	if (request->source.has_texts)
	{
		table->texts_size = first_size(request, FIRST_TEXTS, groups * FIRST_TEXT, 1);
		TRY(alloc_zeroed(request, table->texts_size, &table->texts));
	}

	request->distinct = calloc((size_t) ndistinct + 1, sizeof(CudaDistinct));
	if (request->distinct == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < ndistinct; i++)
	{
		CudaDistinct *distinct = &request->distinct[i];
		uint32_t n = first_size(request, FIRST_PAIRS, groups * FIRST_PAIRS_OF_GROUP,
								32 * (size_t) ndistinct);
		uint32_t mask = mask_for(n);

		TRY(alloc_zeroed(request, pairs_size(request, i, mask), &distinct->entries));
		distinct->mask = mask;
	}
	return GPUSCAN_OK;
}

void
gpuscan_cuda_table_free(GpuScanRequest *request)
{
	CudaTable *table = &request->table;

	gpuscan_cuda_free(request, request->rows,
					  (size_t) request->nrows * request->options.program->row_size);
	for (uint32_t i = 0; request->distinct != NULL && i < request->source.ndistinct; i++)
		gpuscan_cuda_free(request, request->distinct[i].entries,
						  pairs_size(request, i, request->distinct[i].mask));
	gpuscan_cuda_free(request, table->texts, table->texts_size);
	gpuscan_cuda_free(request, table->claims, claims_size(table));
	gpuscan_cuda_free(request, table->rows, rows_size(request, table->max_rows));
	free(request->distinct);
	free(request->row);
	free(request->texts);
	memset(table, 0, sizeof(*table));
}

/*
 * The counters, none beyond its capacity.  They have come back behind each launch, of which
 * none is under way, and do not fall while the table is the same: the highest are the last.
 */
static CudaControl
last_control(const GpuScanRequest *request)
{
	const CudaLane *lane = request->lane;
	CudaControl last = {0};

	for (int i = 0; i < CUDA_SLOTS; i++)
	{
		const CudaControl *control = &lane->reports[i].control;

		if (lane->slots[i].generation != request->generation)
			continue;
		if (last.nrows < control->nrows)
			last.nrows = control->nrows;
		if (last.texts_used < control->texts_used)
			last.texts_used = control->texts_used;
	}
	if (last.nrows > request->table.max_rows)
		last.nrows = request->table.max_rows;
	if (last.texts_used > request->table.texts_size)
		last.texts_used = request->table.texts_size;
	return last;
}

/* The factor by which a full table grows.  No launch is under way. */
static uint64_t
growth(const GpuScanRequest *request)
{
	uint64_t seen = request->stats.tuples;
	uint64_t factor;

	for (int i = 0; i < CUDA_SLOTS; i++)
	{
		const CudaSlot *slot = &request->lane->slots[i];

		if (slot->busy && slot->kind == CUDA_PAGES)
			seen += slot->ntuples - slot->result->waiting;
	}
	if (request->options.tuples_expected == 0)
		return GROWTH;
	factor = seen == 0 ? MAX_GROWTH : request->options.tuples_expected / seen;
	return factor < MIN_GROWTH ? MIN_GROWTH : factor > MAX_GROWTH ? MAX_GROWTH : factor;
}

/* Replaces memory by more, keeping the first `used` bytes; the rest is zero. */
static GpuScanCode
enlarge(GpuScanRequest *request, uint64_t *pointer, size_t old_size, size_t new_size, size_t used)
{
	uint64_t new_pointer;
	GpuScanCode code = GPUSCAN_OK;

	TRY(alloc_zeroed(request, new_size, &new_pointer));
	if (used > 0)
		code = CUDA(copy_on_device(new_pointer, *pointer, used, stream_of(request)));
	if (code != GPUSCAN_OK)
	{
		gpuscan_cuda_free(request, new_pointer, new_size);
		return code;
	}
	gpuscan_cuda_free(request, *pointer, old_size);
	*pointer = new_pointer;
	return GPUSCAN_OK;
}

static GpuScanCode
enlarge_texts(GpuScanRequest *request, size_t used)
{
	CudaTable *table = &request->table;

	for (uint64_t factor = growth(request);; factor /= 2)
	{
		GpuScanCode code =
			enlarge(request, &table->texts, table->texts_size, table->texts_size * factor, used);

		if (code == GPUSCAN_OK)
			table->texts_size *= factor;
		if (code != GPUSCAN_OUT_OF_MEMORY || factor < 2 * MIN_GROWTH)
			return code;
	}
}

static GpuScanCode
enlarge_rows(GpuScanRequest *request, uint32_t nrows)
{
	CudaTable *table = &request->table;

	for (uint64_t factor = growth(request);; factor /= 2)
	{
		uint64_t max_rows = table->max_rows * factor;
		GpuScanCode code = GPUSCAN_OUT_OF_MEMORY;

		if (max_rows <= MAX_ROWS)
			code = enlarge(request, &table->rows, rows_size(request, table->max_rows),
						   rows_size(request, (uint32_t) max_rows), rows_size(request, nrows));
		if (code == GPUSCAN_OK)
			table->max_rows = (uint32_t) max_rows;
		if (code != GPUSCAN_OUT_OF_MEMORY || factor < 2 * MIN_GROWTH)
			return code;
	}
}

/* More rows, if need be, and claims that lead to all rows and to no dead ones */
static GpuScanCode
grow_rows(GpuScanRequest *request, uint32_t nrows, bool more)
{
	CudaTable *table = &request->table;
	CudaLaunch launch;
	void *params[] = {&launch, &nrows};

	gpuscan_cuda_free(request, table->claims, claims_size(table));
	table->claims = 0;
	if (more)
		TRY(enlarge_rows(request, nrows));
	TRY(make_claims(request));
	launch = gpuscan_cuda_table_launch(request);
	return run_kernel(request, gpuscan_cuda_table_kernels(request)->rehash, nrows, params);
}

/* Places the pairs of a table in a new one; *full says if that was too small. */
static GpuScanCode
move_pairs(GpuScanRequest *request, uint32_t number, CudaDistinct *new, bool *full)
{
	CUdeviceptr place = request->table.distinct + number * sizeof(CudaDistinct);
	CudaDistinct *old = &request->distinct[number];
	CudaLaunch launch = gpuscan_cuda_table_launch(request);
	void *params[] = {&launch, old, &number};
	CudaResult result;

	TRY(CUDA(copy_to_device(place, new, sizeof(*new), stream_of(request))));
	TRY(CUDA(fill(launch.result, 0, sizeof(CudaResult), stream_of(request))));
	TRY(run_kernel(request, gpuscan_cuda_table_kernels(request)->rehash_pairs,
				   (uint64_t) old->mask + 1, params));
	TRY(read_back(request, &result, launch.result, sizeof(result)));
	*full = result.full != 0;
	return GPUSCAN_OK;
}

/* More entries: as many as growth lets expect, more where that is too few, or fewer */
static GpuScanCode
grow_pairs(GpuScanRequest *request, uint32_t number)
{
	CudaDistinct *distinct = &request->distinct[number];
	uint64_t too_small = (uint64_t) distinct->mask + 1;
	uint64_t size = mask_for(too_small * growth(request)) + UINT64_C(1);

	for (;;)
	{
		CudaDistinct new = {0, (uint32_t) (size - 1), 0};
		GpuScanCode code = GPUSCAN_OUT_OF_MEMORY;
		bool full = false;

		if (size <= MAX_PAIRS)
			code = alloc_zeroed(request, pairs_size(request, number, new.mask), &new.entries);
		if (code == GPUSCAN_OUT_OF_MEMORY && size / 2 > too_small)
		{
			size /= 2;
			continue;
		}
		TRY(code);
		code = move_pairs(request, number, &new, &full);
		if (code != GPUSCAN_OK || full)
			gpuscan_cuda_free(request, new.entries, pairs_size(request, number, new.mask));
		TRY(code);
		if (!full)
		{
			gpuscan_cuda_free(request, distinct->entries,
							  pairs_size(request, number, distinct->mask));
			*distinct = new;
			return GPUSCAN_OK;
		}
		too_small = size;
		size *= 2;
	}
}

GpuScanCode
gpuscan_cuda_table_grow(GpuScanRequest *request, uint32_t full)
{
	CudaTable *table = &request->table;
	uint32_t ndistinct = request->source.ndistinct;
	CudaControl control = last_control(request);

	TRY(CUDA(copy_to_device(table->control, &control, sizeof(control), stream_of(request))));
	if (ndistinct > 0)
		TRY(read_back(request, request->distinct, table->distinct,
					  ndistinct * sizeof(CudaDistinct)));

	if ((full & CUDA_FULL_TEXTS) != 0)
		TRY(enlarge_texts(request, control.texts_used));
	if (request->options.program->nkeys > 0 && (full & (CUDA_FULL_ROWS | CUDA_FULL_TEXTS)) != 0)
		TRY(grow_rows(request, control.nrows, (full & CUDA_FULL_ROWS) != 0));
	for (uint32_t i = 0; i < ndistinct; i++)
	{
		if (request->distinct[i].full)
			TRY(grow_pairs(request, i));
	}
	if ((full & CUDA_FULL_SUMS) != 0)
	{
		CudaLaunch launch = gpuscan_cuda_table_launch(request);
		void *params[] = {&launch, &control.nrows};

		TRY(run_kernel(request, gpuscan_cuda_table_kernels(request)->anchor, control.nrows,
					   params));
	}
	request->generation++;
	return synchronize(request);
}

/* Has row i and those behind it copied to the lane's window. */
static GpuScanCode
copy_window(GpuScanRequest *request, uint32_t i)
{
	size_t row_size = request->options.program->row_size;
	size_t n = CUDA_WINDOW_SIZE / row_size;

	if (n > request->nrows - i)
		n = request->nrows - i;
	request->window_first = i;
	request->window_end = i + (uint32_t) n;
	return copy_back(request, request->lane->window, request->rows + i * row_size, n * row_size);
}

/* Group rows in the form of program.h, in device memory; the first ones and texts on the host. */
static GpuScanCode
finish_groups(GpuScanRequest *request)
{
	CudaResult *result = &request->lane->reports[CUDA_TABLE_RESULT].results[CUDA_TABLE_RESULT];
	CudaLaunch launch = gpuscan_cuda_table_launch(request);
	CudaControl control = last_control(request);
	uint32_t nrows = control.nrows;
	CUdeviceptr rows;
	void *params[] = {&launch, &nrows, &rows};

	request->stats.groups = nrows;
	if (nrows == 0)
		return GPUSCAN_OK;
	request->nrows = nrows;
	TRY(alloc_zeroed(request, (size_t) nrows * request->options.program->row_size, &request->rows));
	rows = request->rows;
	TRY(CUDA(fill(launch.result, 0, sizeof(CudaResult), stream_of(request))));
	TRY(run_kernel(request, gpuscan_cuda_table_kernels(request)->emit, nrows, params));
	TRY(copy_back(request, result, launch.result, sizeof(CudaResult)));
	TRY(copy_window(request, 0));
	if (request->source.has_text_keys)
	{
		request->texts_used = control.texts_used;
		request->texts = malloc(control.texts_used + 1);
		if (request->texts == NULL)
			return GPUSCAN_OUT_OF_MEMORY;
		TRY(copy_back(request, request->texts, request->table.texts, control.texts_used));
	}
	TRY(synchronize(request));
	return (GpuScanCode) result->code;
}

/* Waits for what is copied to the host, and merges n partial rows of it into one. */
static GpuScanCode
merge_rows(GpuScanRequest *request, char *rows, size_t n)
{
	const GpuScanProgram *program = request->options.program;

	TRY(synchronize(request));
	for (size_t i = 0; i < n; i++)
	{
		char *source = rows + i * program->row_size;

		if (!gpuscan_cpu_merge_states(program, 1, &request->row, &source))
			return GPUSCAN_LEFT_TO_POSTGRES;
	}
	return GPUSCAN_OK;
}

/* Merges the partial rows that thread blocks have left, as many at a time as there is room for. */
static GpuScanCode
merge_partials(GpuScanRequest *request, char *room, size_t size)
{
	size_t row_size = request->options.program->row_size;
	size_t n = 0;

	for (int i = 0; i < CUDA_SLOTS * CUDA_NUM_KINDS; i++)
	{
		const CudaSlot *slot = &request->lane->slots[i / CUDA_NUM_KINDS];
		CUdeviceptr from = slot->partials[i % CUDA_NUM_KINDS];
		size_t left = slot->npartials[i % CUDA_NUM_KINDS];

		while (left > 0)
		{
			size_t part = size / row_size - n;

			if (part > left)
				part = left;
			TRY(copy_back(request, room + n * row_size, from, part * row_size));
			from += part * row_size;
			left -= part;
			n += part;
			if (n == size / row_size)
			{
				TRY(merge_rows(request, room, n));
				n = 0;
			}
		}
	}
	return merge_rows(request, room, n);
}

/* The one row, of all partial ones and of the counters of count(DISTINCT) */
static GpuScanCode
finish_single(GpuScanRequest *request)
{
	const GpuScanProgram *program = request->options.program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	char *counters = request->lane->window;
	size_t size = request->source.ndistinct > 0 ? request->source.row_size : 0;
	int distinct = 0;

	request->row = calloc(1, program->row_size);
	if (request->row == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	TRY(copy_back(request, counters, request->table.rows, size));
	TRY(merge_partials(request, counters + size, CUDA_WINDOW_SIZE - size));
	for (int i = 0; i < program->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_COUNT_DISTINCT)
			memcpy(request->row + aggs[i].offset,
				   counters + request->source.distinct[distinct++].counter, sizeof(int64_t));
	}
	if (!gpuscan_cpu_finish_states(program, request->row))
		return GPUSCAN_LEFT_TO_POSTGRES;
	request->nrows = 1;
	request->stats.groups = 1;
	return GPUSCAN_OK;
}

GpuScanCode
gpuscan_cuda_table_finish(GpuScanRequest *request)
{
	return request->options.program->nkeys > 0 ? finish_groups(request) : finish_single(request);
}

/*
 * Fetching: rows pass through the lane's window, texts are put behind them.
 */

/* Row i, copied from the device together with those behind it if need be */
static GpuScanCode
window_row(GpuScanRequest *request, uint32_t i, const char **row)
{
	size_t row_size = request->options.program->row_size;

	if (request->row != NULL)
	{
		*row = request->row;
		return GPUSCAN_OK;
	}
	if (i < request->window_first || i >= request->window_end)
	{
		TRY(CUDA(context_set_current(request->device->context)));
		TRY(copy_window(request, i));
		TRY(synchronize(request));
	}
	*row = request->lane->window + (i - request->window_first) * row_size;
	return GPUSCAN_OK;
}

/* A row's text: a length of 4 bytes and the bytes, or NULL */
static const char *
text_key(const GpuScanRequest *request, const char *row, int k)
{
	const GpuScanKey *key = &GPUSCAN_KEYS(request->options.program)[k];
	uint64_t offset = *(const uint64_t *) (row + key->offset);

	if (key->cls != GPUSCAN_TEXT || (*(const uint64_t *) row >> k & 1) != 0)
		return NULL;
	return request->texts + offset;
}

GpuScanCode
gpuscan_cuda_fetch(GpuScanRequest *request, void *buf, size_t size, uint32_t *nrows)
{
	const GpuScanProgram *program = request->options.program;
	uint32_t first = request->next_row;
	uint32_t n = 0;
	size_t used = 0;
	size_t texts;
	const char *row;

	*nrows = 0;
	if (size > UINT32_MAX)
		size = UINT32_MAX;
	for (; first + n < request->nrows; n++)
	{
		size_t need = program->row_size;

		TRY(window_row(request, first + n, &row));
		for (int k = 0; k < program->nkeys; k++)
		{
			const char *text = text_key(request, row, k);

			need += text == NULL ? 0 : *(const uint32_t *) text;
		}
		if (need > size - used)
			break;
		used += need;
		memcpy((char *) buf + (size_t) n * program->row_size, row, program->row_size);
	}
	if (n == 0)
		return first == request->nrows ? GPUSCAN_OK : GPUSCAN_OUT_OF_MEMORY;

	texts = (size_t) n * program->row_size;
	for (uint32_t i = 0; request->source.has_text_keys && i < n; i++)
	{
		char *copy = (char *) buf + (size_t) i * program->row_size;

		for (int k = 0; k < program->nkeys; k++)
		{
			const GpuScanKey *key = &GPUSCAN_KEYS(program)[k];
			const char *text = text_key(request, copy, k);
			uint32_t place[2] = {(uint32_t) texts, 0};

			if (key->cls != GPUSCAN_TEXT)
				continue;
			if (text != NULL)
			{
				place[1] = *(const uint32_t *) text;
				memcpy((char *) buf + texts, text + 4, place[1]);
				texts += place[1];
			}
			memcpy(copy + key->offset, place, sizeof(place));
		}
	}
	request->next_row += n;
	*nrows = n;
	return GPUSCAN_OK;
}
