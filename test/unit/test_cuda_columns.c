/*-------------------------------------------------------------------------
 *
 * test_cuda_columns.c
 *	  Columns on the cuda device: the cpu device's, byte for byte, in either tier
 *	  and after moving; what is made of segments and dictionaries; limits, requests
 *	  that end in the middle, and calls of the driver that fail.
 *
 * Runs on a driver that is made up, where nothing of this needs a kernel, or with
 * GPUSCAN_TEST_DEVICE=cuda on a GPU.
 *
 *-------------------------------------------------------------------------
 */
#include "columns_fixture.h"

#include <dlfcn.h>
#include <unistd.h>

#include "../../cuda/cuda_device.h"
#include "cuda_faults.h"


/* Calls that fail: each, but for ThreadSanitizer, which is slow */
#ifdef __SANITIZE_THREAD__
#define STEP 7
#else
#define STEP 1
#endif

static GpuScanDevice *cpu;
static GpuScanLayout *layout;

/* Loads a library of build/units/.../fake, which is there for who asks for its name again. */
static void
load_fake(const char *name)
{
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[len > 0 ? len : 0] = '\0';
	for (int i = 0; i < 2 && strrchr(path, '/') != NULL; i++)
		*strrchr(path, '/') = '\0';
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/fake/%s", name);
	if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL)
		ok(false, "%s is there: %s", name, dlerror());
}

static void
use_cpu(void)
{
	device_ops = &gpuscan_cpu_device;
	device = cpu;
}

static void
open_cuda(uint32_t threads)
{
	const char *reason = "";

	device_ops = &gpuscan_cuda_device;
	device = device_ops->open(0, threads, &reason);
	if (device == NULL)
	{
		printf("1..0 # SKIP the cuda device does not open: %s\n", reason);
		exit(0);
	}
}

static GpuScanDeviceStatus
status(void)
{
	GpuScanDeviceStatus result = {.model = ""};

	device_ops->status(device, &result);
	return result;
}

/* A copy of what lies in device memory, or pinned */
static char *
read_back(uint64_t address, size_t size, uint32_t tier)
{
	char *copy = malloc(size + 1);

	if (tier == GPUSCAN_TIER_HOST)
	{
		memcpy(copy, (void *) (uintptr_t) address, size);
		return copy;
	}
	gpuscan_cuda.context_set_current(device->context);
	gpuscan_cuda.copy_to_host(copy, address, size, CUDA_MAIN_STREAM);
	gpuscan_cuda.stream_synchronize(CUDA_MAIN_STREAM);
	return copy;
}

/* Whether a chunk is the same as the cpu device's, in its header and where it lies */
static bool
same_chunk(const GpuScanChunk *chunk, const GpuScanChunk *expected)
{
	GpuScanChunk header = *chunk;
	char *copy = read_back(chunk->address, chunk->size, chunk->tier);
	bool same;

	header.address = 0;
	header.tier = 0;
	same = chunk->address != 0 && chunk->address % 16 == 0 &&
		   memcmp(&header, expected, sizeof(header)) == 0 &&
		   memcmp(copy, expected, expected->size) == 0;
	free(copy);
	return same;
}

/* How many chunks are not what they should be; `all`: or missing. */
static int
count_wrong(const Columns *columns, const Columns *expected, bool all)
{
	int wrong = columns->nranges != expected->nranges;

	for (uint32_t r = 0; r < expected->nranges; r++)
	{
		for (int i = 0; i < MAX_INPUTS; i++)
		{
			const GpuScanChunk *chunk = columns->chunks[r][i];

			wrong += all && columns->unfit[r][i] != expected->unfit[r][i];
			if (chunk == NULL || expected->chunks[r][i] == NULL)
				wrong += all && chunk != expected->chunks[r][i];
			else
				wrong += !same_chunk(chunk, expected->chunks[r][i]);
		}
	}
	return wrong;
}

/* Bytes of a tier's chunks */
static uint64_t
count_bytes(const Columns *columns, GpuScanTier tier)
{
	uint64_t bytes = 0;

	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		for (int i = 0; i < MAX_INPUTS; i++)
		{
			const GpuScanChunk *chunk = columns->chunks[r][i];

			bytes += chunk != NULL && chunk->tier == tier ? chunk->size : 0;
		}
	}
	return bytes;
}

static Columns *
expect_columns(const GpuScanProgram *program, Table *table)
{
	Columns *columns = calloc(1, sizeof(Columns));

	use_cpu();
	release(run_filling(program, layout, table, columns));
	return columns;
}

static void
free_expected(Columns *columns)
{
	use_cpu();
	free_columns(columns);
}

/* A table whose last tuple has a toasted text */
static Table *
make_pages(uint32_t n)
{
	Table *table = make_table(n, n);
	Value toasted[NUM_COLUMNS] = {int4_value(1),
								  int4_value(1),
								  f64_value(1),
								  numeric_value(V_SHORT, 1),
								  text_value(V_EXTERNAL, "x"),
								  null_value()};

	add_tuple(table, NUM_COLUMNS, toasted);
	for (uint32_t i = 0; i < table->nblocks; i++)
		table->blocks[i].fills = i % 5 != 0;
	table->blocks[table->nblocks - 1].fills = true;
	return table;
}

/* Moves every chunk that is not there to a tier; returns how many stayed. */
static int
move_all(Columns *columns, GpuScanTier tier)
{
	int stayed = 0;

	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		for (int i = 0; i < MAX_INPUTS; i++)
		{
			GpuScanChunk *chunk = columns->chunks[r][i];
			GpuScanChunk *moved;

			if (chunk == NULL)
				continue;
			moved = device_ops->move_chunk(device, chunk, tier);
			stayed += moved == NULL;
			if (moved != NULL)
				columns->chunks[r][i] = moved;
		}
	}
	return stayed;
}

/* Columns with a share of their room, in percent, and moved to and fro */
static void
test_tiers(GpuScanProgram *program, Table *table, const Columns *expected, uint64_t percent)
{
	uint64_t total = count_bytes(expected, GPUSCAN_TIER_DEVICE);
	Columns *columns = calloc(1, sizeof(Columns));
	uint64_t in_device;
	uint64_t in_host;
	int stayed;

	columns_limit = total * percent / 100;
	open_cuda(1);
	release(run_filling(program, layout, table, columns));
	ok(count_wrong(columns, expected, true) == 0, "columns as the cpu device makes them, room %d%%",
	   (int) percent);
	in_device = count_bytes(columns, GPUSCAN_TIER_DEVICE);
	in_host = count_bytes(columns, GPUSCAN_TIER_HOST);
	ok(in_device + in_host == total && in_device <= columns_limit &&
		   (in_host == 0) == (percent >= 100) && (in_device == 0) == (percent == 0),
	   "%d bytes of %d in device memory", (int) in_device, (int) total);
	ok(status().memory_columns == in_device && status().memory_used == in_device,
	   "the device has counted them");

	ok(move_all(columns, GPUSCAN_TIER_HOST) == 0 && status().memory_used == 0 &&
		   count_bytes(columns, GPUSCAN_TIER_HOST) == total,
	   "all moved to the host");
	ok(count_wrong(columns, expected, true) == 0, "they are what they were");
	stayed = move_all(columns, GPUSCAN_TIER_DEVICE);
	in_device = count_bytes(columns, GPUSCAN_TIER_DEVICE);
	ok((stayed == 0) == (percent >= 100) && in_device <= columns_limit &&
		   status().memory_columns == in_device,
	   "moved back as far as there is room (%d stay)", stayed);
	ok(count_wrong(columns, expected, true) == 0, "they are still");

	free_columns(columns);
	ok(status().memory_used == 0 && status().memory_columns == 0, "all is given back");
	device_ops->close(device);
	columns_limit = UINT64_C(1) << 30;
}

/* Several threads give codes in any order, so values are compared. */
static void
test_threads(GpuScanProgram *program, Table *table, const Columns *expected)
{
	static double values[2][GPUSCAN_RANGE_TUPLES * 2];
	static uint8_t flags[2][GPUSCAN_RANGE_TUPLES];
	Columns *columns = calloc(1, sizeof(Columns));
	int wrong = 0;

	open_cuda(4);
	release(run_filling(program, layout, table, columns));
	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		for (int i = 0; i < program->ninputs; i++)
		{
			const GpuScanChunk *a = expected->chunks[r][i];
			const GpuScanChunk *chunk = columns->chunks[r][i];
			GpuScanChunk *b;

			wrong += (a == NULL) != (chunk == NULL);
			if (a == NULL || chunk == NULL || chunk->cls == GPUSCAN_TEXT)
				continue;
			memset(values, 0, sizeof(values));
			memset(flags, 0, sizeof(flags));
			b = (GpuScanChunk *) read_back(chunk->address, chunk->size, chunk->tier);
			gpuscan_columns_decode(a, expected->dictionaries[i], 0, a->nrows, values[0], flags[0]);
			gpuscan_columns_decode(b, columns->dictionaries[i], 0, b->nrows, values[1], flags[1]);
			wrong += a->nrows != b->nrows || memcmp(flags[0], flags[1], sizeof(flags[0])) != 0;
			if (a->nnulls == 0)
				wrong += memcmp(values[0], values[1], sizeof(values[0])) != 0;
			free(b);
		}
	}
	ok(wrong == 0, "columns made by four threads (%d wrong)", wrong);
	free_columns(columns);
	device_ops->close(device);
}

/* Ends requests while columns are made of their batches; one thread makes what is expected. */
static void
test_end(GpuScanProgram *program, Table *table, const Columns *expected, uint32_t threads)
{
	int wrong = 0;

	open_cuda(threads);
	for (int i = 0; i < ROUNDS(40); i++)
	{
		const GpuScanLayout *const layouts[] = {layout};
		Columns *columns = calloc(1, sizeof(Columns));
		Run *run;
		GpuScanRequest *request = begin(program, layouts, &run);

		push_filling(request, program, table, columns);
		usleep((useconds_t) i * 500);
		device_ops->end(request);
		WAIT_FOR(run, run->ended > 0);
		wrong += threads == 1 ? count_wrong(columns, expected, false) : 0;
		release(run);
		free_columns(columns);
	}
	ok(wrong == 0 && status().memory_used == 0, "requests that end in the middle, %u threads",
	   threads);
	device_ops->close(device);
}

/* A request that only loads */
static void
test_only_fills(GpuScanProgram *program, Table *table, const Columns *expected)
{
	const GpuScanLayout *const layouts[] = {layout};
	Columns *columns = calloc(1, sizeof(Columns));
	GpuScanRequest *request;
	Run *run;

	open_cuda(1);
	only_fills = true;
	request = begin(program, layouts, &run);
	only_fills = false;
	push_filling(request, program, table, columns);
	WAIT_FOR(run, run->answered == columns->nranges);
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	ok(run->batch_code == GPUSCAN_OK && count_wrong(columns, expected, true) == 0,
	   "columns of a request that only loads");
	release(run);
	free_columns(columns);
	ok(status().memory_used == 0, "are given back");
	device_ops->close(device);
}

/* A batch that is not well formed */
static void
test_invalid(GpuScanProgram *program, Table *table)
{
	Columns *columns = calloc(1, sizeof(Columns));
	GpuScanBlock block = table->blocks[1];
	GpuScanBatch batch = {.nblocks = 1, .blocks = &block, .fill = &columns->fills[0]};
	const GpuScanLayout *const layouts[] = {layout};
	GpuScanRequest *request;
	Run *run;

	open_cuda(1);
	columns->fills[0] = (GpuScanFill){.dictionaries = columns->dictionaries,
									  .chunks = columns->chunks[0],
									  .unfit = columns->unfit[0]};
	columns->nranges = 1;
	request = begin(program, layouts, &run);
	block.layout = 1;
	device_ops->push(request, &batch);
	WAIT_FOR(run, run->answered == 1);
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	ok(run->batch_code == GPUSCAN_INVALID && columns->chunks[0][0] == NULL,
	   "a layout that is not there");
	release(run);
	free_columns(columns);
	device_ops->close(device);
}

/*
 * Segments and dictionaries
 */

/* A request whose lane has nothing to do */
typedef struct Lane
{
	Run *run;
	GpuScanRequest *request;
	GpuScanCachedSegment *segment;
	CudaSegment out;
	GpuScanCode code;
} Lane;

/* False if the device takes no request any more. */
static bool
open_lane(Lane *lane, const GpuScanProgram *program, Table *table)
{
	const GpuScanLayout *const layouts[] = {layout};
	GpuScanBatch batch = {.nblocks = 1, .blocks = table->blocks};

	lane->request = begin(program, layouts, &lane->run);
	if (lane->request == NULL)
	{
		release(lane->run);
		return false;
	}
	device_ops->push(lane->request, &batch);
	WAIT_FOR(lane->run, lane->run->answered == 1);
	return true;
}

static void
close_lane(Lane *lane)
{
	device_ops->end(lane->request);
	WAIT_FOR(lane->run, lane->run->ended > 0);
	release(lane->run);
}

static void *
prepare_main(void *arg)
{
	Lane *lane = arg;
	CudaBounds bounds[GPUSCAN_MAX_REGISTERS] = {{0}};

	gpuscan_cuda.context_set_current(device->context);
	lane->code = gpuscan_cuda_segment_prepare(lane->request, lane->segment, &lane->out, bounds);
	return NULL;
}

/* Whether what was prepared is the segment */
static bool
same_segment(const CudaSegment *out, const GpuScanCachedSegment *segment, uint32_t ninputs)
{
	CudaRange *ranges = (CudaRange *) read_back(out->ranges, out->nranges * sizeof(CudaRange), 0);
	bool same = out->nranges == segment->nranges;

	for (uint32_t r = 0; same && r < out->nranges; r++)
	{
		const GpuScanCachedRange *range = &segment->ranges[r];
		CudaColumn *columns =
			(CudaColumn *) read_back(out->columns + (size_t) r * ninputs * sizeof(CudaColumn),
									 ninputs * sizeof(CudaColumn), 0);
		char *runs = read_back(ranges[r].runs, range->nruns * sizeof(GpuScanRows), 0);
		uint32_t nrows = 0;

		for (uint32_t i = 0; i < range->nruns; i++)
			nrows += range->runs[i].n;
		same &= ranges[r].nruns == range->nruns && ranges[r].nrows == nrows &&
				(range->nruns == 0 ||
				 memcmp(runs, range->runs, range->nruns * sizeof(GpuScanRows)) == 0);
		for (uint32_t i = 0; same && i < ninputs; i++)
		{
			const GpuScanChunk *chunk = range->chunks[i];
			bool is_constant =
				chunk->encoding == GPUSCAN_ENCODING_CONSTANT && chunk->cls != GPUSCAN_TEXT;
			uint64_t address = columns[i].data - (is_constant ? 0 : chunk->data);

			if (chunk->encoding == GPUSCAN_ENCODING_CONSTANT && chunk->cls == GPUSCAN_TEXT)
				address = columns[i].values - chunk->data;
			if (chunk->address != 0)
				same = address == chunk->address;
			else
			{
				char *copy = read_back(address, chunk->size, 0);

				same = address % 16 == 0 && memcmp(copy, chunk, chunk->size) == 0;
				free(copy);
			}
		}
		free(columns);
		free(runs);
	}
	free(ranges);
	return same;
}

/*
 * Whether the first `count` values of an input's dictionary are on the device, if one of its
 * ranges has codes
 */
static bool
same_dictionary(const CudaSegment *out, uint32_t ninputs, uint32_t input,
				const GpuScanDictionary *dictionary, unsigned cls, uint32_t count)
{
	CudaColumn *columns = (CudaColumn *) read_back(
		out->columns, (size_t) out->nranges * ninputs * sizeof(CudaColumn), 0);
	const CudaColumn *column = &columns[input];
	GsValues values = gpuscan_dictionary_values(dictionary);
	bool text = cls == GPUSCAN_TEXT;
	size_t size = text ? values.offsets[count] : count * gpuscan_columns_value_size[cls];
	bool same = true;

	for (uint32_t r = 0; r < out->nranges; r++, column += ninputs)
	{
		char *data;

		if ((column->flags & CUDA_COLUMN_CODES) == 0)
			continue;
		data = read_back(column->values, size, 0);
		same &= memcmp(data, values.data, size) == 0;
		free(data);
		if (text)
		{
			data = read_back(column->offsets, (count + 1) * sizeof(uint32_t), 0);
			same &= memcmp(data, values.offsets, (count + 1) * sizeof(uint32_t)) == 0;
			free(data);
		}
	}
	free(columns);
	return same;
}

/* Two lanes prepare the same segment, which has some chunks that lie behind their headers. */
static void
test_segment(GpuScanProgram *program, Table *table, const Columns *expected)
{
	Columns *columns = calloc(1, sizeof(Columns));
	const GpuScanChunk *chunks[MAX_RANGES][MAX_INPUTS];
	Lane lanes[2];
	pthread_t threads[2];
	uint64_t before;
	bool dictionaries = true;

	open_cuda(1);
	release(run_filling(program, layout, table, columns));
	before = status().memory_used;
	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		for (int i = 0; i < program->ninputs; i++)
			chunks[r][i] = (r + (uint32_t) i) % 3 == 0 || columns->chunks[r][i] == NULL
							   ? expected->chunks[0][i]
							   : columns->chunks[r][i];
		columns->runs[r][0] = (GpuScanRows){1, (uint16_t) (r + 3)};
		columns->runs[r][1] = (GpuScanRows){(uint16_t) (r + 10), 5};
		columns->ranges[r] = (GpuScanCachedRange){
			.nruns = r % 3,
			.runs = columns->runs[r],
			.chunks = chunks[r],
			.dictionaries = (const GpuScanDictionary *const *) columns->dictionaries};
	}
	columns->segments[0] =
		(GpuScanCachedSegment){.nranges = columns->nranges, .ranges = columns->ranges};
	for (int i = 0; i < 2; i++)
	{
		open_lane(&lanes[i], program, table);
		lanes[i].segment = &columns->segments[0];
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, prepare_main, &lanes[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ok(lanes[0].code == GPUSCAN_OK && lanes[1].code == GPUSCAN_OK &&
		   lanes[0].out.ranges == lanes[1].out.ranges,
	   "two lanes prepare a segment, once");
	ok(same_segment(&lanes[0].out, &columns->segments[0], program->ninputs), "it is the segment");
	for (uint32_t i = 0; i < program->ninputs; i++)
	{
		unsigned cls = GPUSCAN_REG_CLASSES(program)[GPUSCAN_INPUTS(program)[i].reg];

		if (columns->dictionaries[i] != NULL && gpuscan_dictionary_count(columns->dictionaries[i]))
			dictionaries &=
				same_dictionary(&lanes[1].out, program->ninputs, i, columns->dictionaries[i], cls,
								gpuscan_dictionary_count(columns->dictionaries[i]));
	}
	ok(dictionaries, "with its dictionaries");
	ok(status().memory_columns > before, "it counts as columns");
	for (int i = 0; i < 2; i++)
		close_lane(&lanes[i]);
	device_ops->forget_segment(device, &columns->segments[0]);
	ok(columns->segments[0].prepared == NULL, "it is forgotten");
	free_columns(columns);
	ok(status().memory_used == 0, "all is given back");
	device_ops->close(device);
}

#define TEXT_ROWS 4000

/* Encodes texts of `count` numbers from `first` on. */
static GpuScanChunk *
encode_texts(GpuScanDictionary *dictionary, uint32_t first, uint32_t count)
{
	static char memory[TEXT_ROWS][32];
	GsText texts[TEXT_ROWS];

	for (uint32_t i = 0; i < TEXT_ROWS; i++)
	{
		snprintf(memory[i], sizeof(memory[i]), "a text, that of number %u", first + i % count);
		texts[i] = (GsText){memory[i], (uint32_t) strlen(memory[i])};
	}
	return gpuscan_columns_encode(GPUSCAN_TEXT, texts, NULL, TEXT_ROWS, dictionary);
}

/* A dictionary that grows beside segments that were prepared before */
static void
test_dictionary(Table *table)
{
	static const uint32_t counts[] = {3, 5, 100, 700, 20, 1000};
	enum
	{
		N = sizeof(counts) / sizeof(counts[0])
	};
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t text = add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0);
	GpuScanDictionary *dictionary = gpuscan_dictionary_create(GPUSCAN_TEXT);
	const GpuScanDictionary *const dictionaries[] = {dictionary};
	const GpuScanChunk *chunks[N];
	GpuScanCachedRange ranges[N];
	GpuScanCachedSegment segments[N];
	uint32_t codes[N];
	GpuScanProgram *program;
	uint32_t next = 0;
	bool same = true;
	bool older = true;
	Lane lane;

	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, text, NO_REG);
	program = build_program(b);
	open_cuda(1);
	open_lane(&lane, program, table);
	gpuscan_cuda.context_set_current(device->context);
	for (int i = 0; i < N; i++)
	{
		chunks[i] = encode_texts(dictionary, next, counts[i]);
		next += counts[i];
		codes[i] = gpuscan_dictionary_count(dictionary);
		ranges[i] = (GpuScanCachedRange){.chunks = &chunks[i], .dictionaries = dictionaries};
		segments[i] = (GpuScanCachedSegment){.nranges = 1, .ranges = &ranges[i]};
		lane.segment = &segments[i];
		prepare_main(&lane);
		same &= lane.code == GPUSCAN_OK && codes[i] == next &&
				same_segment(&lane.out, &segments[i], 1) &&
				same_dictionary(&lane.out, 1, 0, dictionary, GPUSCAN_TEXT, codes[i]);
		for (int k = 0; k < i; k++)
		{
			lane.segment = &segments[k];
			prepare_main(&lane);
			older &= same_dictionary(&lane.out, 1, 0, dictionary, GPUSCAN_TEXT, codes[k]);
		}
	}
	ok(same, "a dictionary that grows to %d values", (int) next);
	ok(older, "segments that were prepared before keep what they know of it");
	close_lane(&lane);
	for (int i = 0; i < N / 2; i++)
		device_ops->forget_segment(device, &segments[i]);
	device_ops->forget_dictionary(device, dictionary);
	for (int i = N / 2; i < N; i++)
		device_ops->forget_segment(device, &segments[i]);
	ok(status().memory_used == 0, "all is given back");
	for (int i = 0; i < N; i++)
		free((void *) chunks[i]);
	gpuscan_dictionary_free(dictionary);
	device_ops->close(device);
	free(program);
}

/* Pieces of pinned memory of all sizes, which must not overlap, and that what is empty goes */
static void
test_pinned(void)
{
	enum
	{
		N = 5000
	};
	static struct
	{
		char *p;
		size_t size;
	} parts[N];
	uint64_t seed = 1;
	int most = 0;
	int wrong = 0;

	pieces = 0;
	open_cuda(1);
	for (int i = 0; i < ROUNDS(20000) + N; i++)
	{
		uint64_t r = unit_random(&seed);
		int n = i < N ? i : (int) (r % N);
		size_t size = r >> 40 & 127 ? 96 + (r >> 20) % 40000 : 1 << 20;

		if (i == N / 2)
			size = (size_t) 40 << 20;
		if (parts[n].p != NULL)
		{
			wrong += parts[n].p[0] != (char) n || parts[n].p[parts[n].size - 1] != (char) n;
			wrong += parts[n].p[parts[n].size / 2] != (char) n;
			(void) gpuscan_cuda_pinned_free(device, parts[n].p, parts[n].size);
		}
		parts[n].p = gpuscan_cuda_pinned_alloc(device, size);
		parts[n].size = size;
		wrong += parts[n].p == NULL || (uintptr_t) parts[n].p % 16 != 0;
		memset(parts[n].p, n, size);
		most = pieces > most ? pieces : most;
	}
	for (int n = 0; n < N; n++)
	{
		wrong += parts[n].p[0] != (char) n || parts[n].p[parts[n].size - 1] != (char) n;
		(void) gpuscan_cuda_pinned_free(device, parts[n].p, parts[n].size);
	}
	gpuscan_cuda_pinned_trim(device);
	ok(wrong == 0 && most > 3 && pieces == 1, "pinned memory: %d pieces, then %d", most, pieces);
	device_ops->close(device);
	ok(pieces == 0, "then none");
}

/* Fails the 1st, 2nd, ... call until columns are made and prepared without a failure. */
static void
test_faults(GpuScanProgram *program, Table *table, const Columns *expected, const char *name,
			int with_error, bool lasts, uint64_t limit)
{
	GpuScanCode expected_code =
		with_error == CUDA_ERROR_OUT_OF_MEMORY ? GPUSCAN_OUT_OF_MEMORY : GPUSCAN_DEVICE_FAILED;
	int wrong = 0;
	int leaks = 0;
	int n = 0;
	bool passed = false;

	columns_limit = limit;
	for (fail_at = 1; !passed && fail_at < 5000; fail_at += STEP, n++)
	{
		Columns *columns = calloc(1, sizeof(Columns));
		Lane lane = {.segment = &columns->segments[0]};
		GpuScanCode code;
		Run *run;

		error = 0;
		pieces = 0;
		open_cuda(1);
		error = with_error;
		persist = lasts;
		calls = 0;
		run = run_filling(program, layout, table, columns);
		code = run->finish_code;
		release(run);
		wrong += code != GPUSCAN_OK && code != expected_code;
		for (uint32_t r = 0; r < columns->nranges; r++)
			columns->ranges[r] = (GpuScanCachedRange){
				.chunks = (const GpuScanChunk *const *) expected->chunks[0],
				.dictionaries = (const GpuScanDictionary *const *) columns->dictionaries};
		columns->segments[0] =
			(GpuScanCachedSegment){.nranges = columns->nranges, .ranges = columns->ranges};
		/* a fill may find a lost context behind a request's good end */
		if (code == GPUSCAN_OK && open_lane(&lane, program, table))
		{
			prepare_main(&lane);
			wrong += lane.code != GPUSCAN_OK && lane.code != expected_code;
			close_lane(&lane);
			(void) move_all(columns, GPUSCAN_TIER_HOST);
			(void) move_all(columns, GPUSCAN_TIER_DEVICE);
		}
		passed = calls < fail_at;
		error = 0;
		wrong += count_wrong(columns, expected, passed);
		device_ops->forget_segment(device, &columns->segments[0]);
		free_columns(columns);
		leaks += status().memory_used != 0;
		device_ops->close(device);
		leaks += pieces != 0;
	}
	ok(passed && wrong == 0 && leaks == 0, "%s: %d calls fail in turn (%d wrong, %d leak)", name,
	   n - 1, wrong, leaks);
	columns_limit = UINT64_C(1) << 30;
}

int
main(void)
{
	const char *name = getenv("GPUSCAN_TEST_DEVICE");
	GpuScanProgram *program;
	Columns *expected;
	GpuScanDevice *first;
	Table *table;

	setenv("GPUSCAN_FAKE_CUDA", "/nonexistent", 0);
	if (name == NULL || strcmp(name, "cuda") != 0)
	{
		load_fake("libcuda.so.1");
		load_fake("libnvrtc.so.13");
	}
	/* before any thread calls them */
	if (gpuscan_cuda_driver_open(&(const char *){NULL}))
		replace_functions();
	cpu = gpuscan_cpu_device.open(0, 1, &(const char *){NULL});
	layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	program = make_program(0);
	table = make_pages(30000);
	expected = expect_columns(program, table);
	open_cuda(1); /* keeps the context, so that opening costs little */
	first = device;

	for (uint64_t percent = 0; percent <= 120; percent += 40)
		test_tiers(program, table, expected, percent);
	test_threads(program, table, expected);
	test_end(program, table, expected, 1);
	test_end(program, table, expected, 3);
	test_only_fills(program, table, expected);
	test_invalid(program, table);
	test_segment(program, table, expected);
	test_dictionary(table);
	free_expected(expected);
	free_table(table);

	table = make_pages(9000);
	expected = expect_columns(program, table);
	test_pinned();
	/* where kernels are slow: no, since none matters here */
	if (!is_quick())
	{
		test_faults(program, table, expected, "no memory once", CUDA_ERROR_OUT_OF_MEMORY, false,
					UINT64_MAX);
		test_faults(program, table, expected, "no memory", CUDA_ERROR_OUT_OF_MEMORY, true,
					UINT64_MAX);
		test_faults(program, table, expected, "no memory, columns in the host's",
					CUDA_ERROR_OUT_OF_MEMORY, true, 0);
		test_faults(program, table, expected, "context lost", ERROR_LAUNCH_FAILED, true,
					UINT64_MAX);
	}
	free_expected(expected);
	free_table(table);
	free(program);
	gpuscan_cpu_device.close(cpu);
	gpuscan_cuda_device.close(first);
	return done_testing();
}
