/*-------------------------------------------------------------------------
 *
 * clicks.c
 *	  The six queries of bench/clicks as Programs, timed on a device alone, then
 *	  a sweep over the number of groups, as CSV.
 *
 *		clicks [cpu | cuda] [rows] [batches under way] [cached [queries [times]]]
 *
 * Heap pages of the clicks table are made in shared memory that is registered
 * with the device, as PostgreSQL's buffers would be, and pushed in batches of 32
 * pages.  With `cached` columns are made of them first, with as many copies of them
 * as it says; the six queries run over those, and each result is compared with that of
 * the pages if it is of one.  Printed are the first run (with compiling), and of five
 * more the median, the least CPU time of all threads, and bytes of pages per second;
 * then what compiling took, and the fastest kernels; with `cached` the bytes of the
 * columns that the query reads, how many of them kernels read in a second, and the
 * share of an H200's bandwidth.  It fails if a point of the sweep is twice as slow as
 * its neighbour.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_fixture.h"

#include "cuda_device.h"
#include "program/bytes.h"

#include <math.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NUM_COLUMNS 7
#define BATCH_PAGES 32
#define NUM_RUNS 6

/* Of the memory of an H200, measured, in GB/s */
#define BANDWIDTH 4530

enum
{
	C_USER,
	C_TS,
	C_CATEGORY,
	C_DURATION,
	C_LOAD_MS,
	C_PRICE,
	C_COUNTRY
};

static const GpuScanAttr attrs[] = {
	{4, 4, 0, C_USER},	  {8, 8, 0, C_TS},	   {4, 4, 0, C_CATEGORY}, {8, 8, 0, C_DURATION},
	{4, 4, 0, C_LOAD_MS}, {-1, 4, 0, C_PRICE}, {-1, 4, 0, C_COUNTRY}};

static char *pages;
static GpuScanBlock *blocks;
static uint16_t offsets[300];
static uint32_t rows_per_page;
static uint32_t npages;
static uint64_t nrows;
static uint32_t nthreads;

/* Cached columns: of each range and column, `times` after one another */
static uint32_t nranges;
static uint32_t times = 1;
static GpuScanDictionary *dictionaries[NUM_COLUMNS];
static GpuScanChunk *(*chunks)[NUM_COLUMNS];

static double
uniform(uint64_t row, uint64_t n)
{
	uint64_t state = row * 7 + n;

	return ((double) (unit_random(&state) >> 11) + 0.5) / 9007199254740992.0;
}

static double
clock_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double) now.tv_sec * 1e3 + (double) now.tv_nsec / 1e6;
}

static void
make_row(uint64_t i, Value *values)
{
	char country[8];

	snprintf(country, sizeof(country), "%c%c", 'A' + (int) (20 * pow(uniform(i, 7), 3)),
			 'A' + (int) (10 * uniform(i, 8)));
	values[C_USER] =
		int4_value((int32_t) (1 + (int64_t) (1e6 * pow(uniform(i, 1), 2)) * 7919 % 1000000));
	values[C_TS] = int8_value(820454400000000 + (int64_t) (7776e9 * (double) i / (double) nrows));
	values[C_CATEGORY] = int4_value((int32_t) (500 * pow(uniform(i, 3), 2)));
	values[C_DURATION] = i % 100 == 99 ? null_value() : f64_value(-45 * log(uniform(i, 4)));
	values[C_LOAD_MS] = int4_value((int32_t) (150 / (uniform(i, 5) + 0.005)));
	values[C_PRICE] =
		i % 20 == 9 ? null_value() : numeric_value(V_SHORT, (int64_t) (-4500 * log(uniform(i, 6))));
	values[C_COUNTRY] = text_value(V_SHORT, country);
}

static void *
make_pages(void *arg)
{
	uint32_t first = (uint32_t) (uintptr_t) arg;

	for (uint32_t p = first; p < npages; p += nthreads)
	{
		char *page = pages + (size_t) p * PAGE_SIZE;
		uint32_t at = PAGE_SIZE;

		for (uint32_t i = 0; i < rows_per_page; i++)
		{
			char tuple[256] __attribute__((aligned(8))) = {0};
			Value values[NUM_COLUMNS];
			uint32_t len;
			uint32_t lp;

			make_row((uint64_t) p * rows_per_page + i, values);
			len = form_tuple(tuple, attrs, NUM_COLUMNS, values);
			at -= (len + 7) / 8 * 8;
			memcpy(page + at, tuple, len);
			lp = at | GPUSCAN_LP_NORMAL << 15 | len << 17;
			memcpy(page + GPUSCAN_PAGE_HEADER_SIZE + 4 * i, &lp, 4);
		}
		blocks[p] = (GpuScanBlock){.base = page,
								   .size = PAGE_SIZE,
								   .ntuples = rows_per_page,
								   .offsets = offsets,
								   .outcome = malloc(rows_per_page),
								   .fills = true};
	}
	return NULL;
}

static void
make_table(void)
{
	pthread_t threads[64];
	size_t size;

	rows_per_page = 107;
	npages = (uint32_t) (nrows / rows_per_page);
	npages = npages / BATCH_PAGES * BATCH_PAGES;
	size = (size_t) npages * PAGE_SIZE;
	pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	blocks = calloc(npages, sizeof(GpuScanBlock));
	for (int i = 0; i < 300; i++)
		offsets[i] = (uint16_t) (i + 1);
	nthreads = (uint32_t) sysconf(_SC_NPROCESSORS_ONLN);
	if (nthreads > 64)
		nthreads = 64;
	for (uint32_t i = 0; i < nthreads; i++)
		pthread_create(&threads[i], NULL, make_pages, (void *) (uintptr_t) i);
	for (uint32_t i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
}

static uint16_t
column_input(Builder *b, int column)
{
	static const GpuScanDecode decodes[NUM_COLUMNS] = {
		GPUSCAN_DECODE_INT4, GPUSCAN_DECODE_INT8,  GPUSCAN_DECODE_INT4, GPUSCAN_DECODE_FLOAT8,
		GPUSCAN_DECODE_INT4, GPUSCAN_DECODE_DEC64, GPUSCAN_DECODE_TEXT};

	uint16_t reg = add_input(b, column, decodes[column], column == C_PRICE ? 2 : 0);

	b->inputs[b->header.ninputs - 1].not_null = column != C_DURATION && column != C_PRICE;
	return reg;
}

/* The Programs, as the compiler would make them */
static GpuScanProgram *
query(int number)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t category =
		number == 1 || number == 3 || number == 4 ? NO_REG : column_input(b, C_CATEGORY);
	uint16_t duration = number == 3 || number == 6 ? NO_REG : column_input(b, C_DURATION);
	uint16_t ts = number == 1 || number == 3 ? NO_REG : column_input(b, C_TS);
	uint16_t price = number == 2 || number == 3 || number == 6 ? column_input(b, C_PRICE) : NO_REG;
	uint16_t slow = NO_REG;

	if (number == 1 || number == 4 || number == 5)
		slow = add_instr(b, GPUSCAN_OP_I32_GT, column_input(b, C_LOAD_MS),
						 add_param(b, GPUSCAN_I32, 3000), 0, 0);
	switch (number)
	{
		case 1:
			b->header.filter = slow;
			add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
			add_agg(b, GPUSCAN_AGG_SUM_F64, duration, NO_REG);
			break;
		case 2:
			add_key(b, category);
			add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
			add_agg(b, GPUSCAN_AGG_SUM_F64, duration, NO_REG);
			add_agg(b, GPUSCAN_AGG_MAX, ts, NO_REG);
			add_agg(b, GPUSCAN_AGG_SUM_I128, price, NO_REG);
			break;
		case 3:
			add_key(b, column_input(b, C_COUNTRY));
			add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
			add_agg(b, GPUSCAN_AGG_SUM_I128, price, NO_REG);
			break;
		case 4:
		case 5:
			add_key(b, column_input(b, C_USER));
			add_agg(b, GPUSCAN_AGG_SUM_F64, duration, NO_REG);
			add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
			add_agg(b, GPUSCAN_AGG_MAX, ts, NO_REG);
			add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, slow);
			if (number == 5)
				add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, category, NO_REG);
			break;
		default:
		{
			uint16_t from = add_instr(b, GPUSCAN_OP_I64_GE, ts,
									  add_param(b, GPUSCAN_I64, 823132800000000), 0, 0);
			uint16_t to = add_instr(b, GPUSCAN_OP_I64_LT, ts,
									add_param(b, GPUSCAN_I64, 825638400000000), 0, 0);
			uint16_t low =
				add_instr(b, GPUSCAN_OP_I32_LT, category, add_param(b, GPUSCAN_I32, 50), 0, 0);

			b->header.filter = add_instr(b, GPUSCAN_OP_AND,
										 add_instr(b, GPUSCAN_OP_AND, from, to, 0, 0), low, 0, 0);
			add_agg(b, GPUSCAN_AGG_SUM_I128,
					add_instr(b, GPUSCAN_OP_DEC64_MUL, price, add_param(b, GPUSCAN_I64, 95), 0, 0),
					NO_REG);
		}
	}
	return build_program(b);
}

/* count, float sum and max by (user * 64 + load_ms % 64) % n, which is random */
static GpuScanProgram *
sweep_query(int32_t n)
{
	Builder *b = new_builder(NUM_COLUMNS, true);
	uint16_t user = column_input(b, C_USER);
	uint16_t load_ms = column_input(b, C_LOAD_MS);
	uint16_t c64 = add_param(b, GPUSCAN_I32, 64);
	uint16_t high = add_instr(b, GPUSCAN_OP_INT4_MUL, user, c64, 0, 0);
	uint16_t low = add_instr(b, GPUSCAN_OP_INT4_MOD, load_ms, c64, 0, 0);
	uint16_t both = add_instr(b, GPUSCAN_OP_INT4_ADD, high, low, 0, 0);

	add_key(b, add_instr(b, GPUSCAN_OP_INT4_MOD, both, add_param(b, GPUSCAN_I32, n), 0, 0));
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_F64, column_input(b, C_DURATION), NO_REG);
	add_agg(b, GPUSCAN_AGG_MAX, load_ms, NO_REG);
	return build_program(b);
}

/* A number of a result's row that depends on all its bits */
static uint64_t
row_hash(const GpuScanProgram *program, const char *chunk, char *row)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(program);
	uint64_t hash = 0;

	for (int k = 0; k < program->nkeys; k++)
	{
		uint32_t *text = (uint32_t *) (row + keys[k].offset);

		if (keys[k].cls != GPUSCAN_TEXT)
			continue;
		hash = bytes_mix(hash, bytes_hash(chunk + text[0], text[1]));
		text[0] = 0;
	}
	return bytes_mix(hash, bytes_hash(row, program->row_size));
}

/*
 * Fetches every row, as the service does, into an area that it gives away.  The
 * sum of their hashes goes to *hash, where that is wanted.
 */
static size_t
count_rows(GpuScanRequest *request, const GpuScanProgram *program, uint64_t *hash)
{
	static char chunk[1024 * 1024] __attribute__((aligned(64)));
	size_t nrows = 0;
	uint32_t n;

	while (device_ops->fetch(request, chunk, sizeof(chunk), &n) == GPUSCAN_OK && n > 0)
	{
		nrows += n;
		for (uint32_t i = 0; hash != NULL && i < n; i++)
			*hash += row_hash(program, chunk, chunk + (size_t) i * program->row_size);
	}
	return nrows;
}

/* A chunk like another one, in the same tier of the device */
static GpuScanChunk *
copy_chunk(GpuScanDevice *device, GpuScanChunk *chunk)
{
	CudaPlace place;

	if (chunk->address == 0)
		return chunk;
	if (!gpuscan_cuda_columns_alloc(device, CUDA_MAIN_STREAM, chunk->size, UINT64_MAX, UINT64_MAX,
									&place) ||
		place.tier != GPUSCAN_TIER_DEVICE ||
		gpuscan_cuda.copy_on_device(place.address, chunk->address, chunk->size, CUDA_MAIN_STREAM) !=
			CUDA_SUCCESS)
	{
		printf("no memory for so many columns\n");
		exit(1);
	}
	return gpuscan_cuda_chunk_header(chunk, &place);
}

/* Makes columns of all pages, and copies of them on the device. */
static void
make_columns(GpuScanDevice *device, const GpuScanLayout *layout)
{
	static bool unfit[NUM_COLUMNS];
	uint32_t once = (npages + GPUSCAN_RANGE_BLOCKS - 1) / GPUSCAN_RANGE_BLOCKS;
	Builder *b = new_builder(NUM_COLUMNS, true);
	Run *run = new_run();
	double start = clock_ms(CLOCK_MONOTONIC);
	GpuScanRequestOptions options;
	GpuScanRequest *request;
	GpuScanFill *fills;
	uint64_t size = 0;

	nranges = once * times;
	chunks = calloc(nranges, sizeof(*chunks));
	fills = calloc(once, sizeof(GpuScanFill));
	for (int c = 0; c < NUM_COLUMNS; c++)
	{
		(void) column_input(b, c);
		dictionaries[c] = gpuscan_dictionary_create((GpuScanClass) b->classes[c]);
	}
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	options = run_options(run, build_program(b), &layout, 1, 0);
	options.device_memory_limit = options.columns_limit = UINT64_C(1) << 40;
	device_ops->begin(device, &options, &request);
	for (uint32_t r = 0; r < once; r++)
	{
		uint32_t first = r * GPUSCAN_RANGE_BLOCKS;
		uint32_t left = npages - first;

		fills[r] = (GpuScanFill){.dictionaries = dictionaries, .chunks = chunks[r], .unfit = unfit};
		WAIT_FOR(run, r - run->answered < 64);
		device_ops->push(
			request,
			&(GpuScanBatch){.nblocks = left < GPUSCAN_RANGE_BLOCKS ? left : GPUSCAN_RANGE_BLOCKS,
							.blocks = &blocks[first],
							.fill = &fills[r]});
	}
	WAIT_FOR(run, run->answered == once);
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	release(run);
	free(fills);
	if (times > 1 && device_ops == &gpuscan_cuda_device)
		(void) gpuscan_cuda.context_set_current(device->context);
	for (uint32_t r = 0; r < nranges; r++)
	{
		for (int c = 0; c < NUM_COLUMNS; c++)
		{
			if (r >= once)
				chunks[r][c] = copy_chunk(device, chunks[r % once][c]);
			if (chunks[r][c] == NULL)
			{
				printf("column %d of range %u could not be made\n", c, r);
				exit(1);
			}
			size += chunks[r][c]->size;
		}
	}
	if (times > 1 && device_ops == &gpuscan_cuda_device)
		(void) gpuscan_cuda.stream_synchronize(CUDA_MAIN_STREAM);
	printf("%.2f GB of columns, made in %.0f ms\n", (double) size / 1e9,
		   clock_ms(CLOCK_MONOTONIC) - start);
}

/* All columns as a Program's inputs */
static GpuScanCachedRange *
cached_ranges(const GpuScanProgram *program)
{
	GpuScanCachedRange *ranges = calloc(nranges, sizeof(GpuScanCachedRange));

	for (uint32_t r = 0; r < nranges; r++)
	{
		const GpuScanChunk **inputs = calloc(program->ninputs, sizeof(GpuScanChunk *));
		const GpuScanDictionary **theirs = calloc(program->ninputs, sizeof(GpuScanDictionary *));
		GpuScanRows *rows = calloc(1, sizeof(GpuScanRows));

		for (int i = 0; i < program->ninputs; i++)
		{
			inputs[i] = chunks[r][GPUSCAN_INPUTS(program)[i].column];
			theirs[i] = dictionaries[GPUSCAN_INPUTS(program)[i].column];
		}
		*rows = (GpuScanRows){0, (uint16_t) inputs[0]->nrows};
		ranges[r] = (GpuScanCachedRange){
			.nruns = 1,
			.nblocks = GPUSCAN_RANGE_BLOCKS,
			.runs = rows,
			.chunks = inputs,
			.dictionaries = theirs,
		};
	}
	return ranges;
}

/* Bytes of the columns that a Program reads */
static double
cached_size(const GpuScanProgram *program)
{
	double size = 0;

	for (uint32_t r = 0; r < nranges; r++)
	{
		for (int i = 0; i < program->ninputs; i++)
			size += chunks[r][GPUSCAN_INPUTS(program)[i].column]->size;
	}
	return size;
}

/*
 * Runs a request, over ranges or else over pages with at most so many batches
 * under way; the time up to the last row.
 */
static double
run_query(GpuScanDevice *device, const GpuScanProgram *program, uint64_t groups,
		  const GpuScanLayout *layout, GpuScanCachedSegment *segment, uint32_t under_way, Run *run,
		  double *scanned, uint64_t *hash)
{
	GpuScanRequestOptions options = run_options(run, program, &layout, 1, 0);
	uint32_t nbatches = segment != NULL ? 0 : npages / BATCH_PAGES;
	double start = clock_ms(CLOCK_MONOTONIC);
	GpuScanRequest *request;

	options.memory_limit = UINT64_C(16) << 30;
	options.device_memory_limit = options.columns_limit = UINT64_C(1) << 40;
	options.tuples_expected = (uint64_t) npages * rows_per_page * (segment == NULL ? 1 : times);
	options.groups_expected = groups;
	if (device_ops->begin(device, &options, &request) != GPUSCAN_OK)
		exit(1);
	if (segment != NULL)
		device_ops->push_cached(request, &(GpuScanCachedSegment *){segment}, 1);
	for (uint32_t i = 0; i < nbatches; i++)
	{
		WAIT_FOR(run, i - run->answered < under_way);
		device_ops->push(request, &(GpuScanBatch){.nblocks = BATCH_PAGES,
												  .blocks = &blocks[(size_t) i * BATCH_PAGES]});
	}
	WAIT_FOR(run, run->answered == nbatches);
	*scanned = clock_ms(CLOCK_MONOTONIC) - start;
	device_ops->finish(request);
	WAIT_FOR(run, run->finished);
	if (run->finish_code == GPUSCAN_OK)
		run->nrows = count_rows(request, program, hash);
	start = clock_ms(CLOCK_MONOTONIC) - start;
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	return start;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return (x > y) - (x < y);
}

/*
 * Prints the times of a query whose planner expects so many groups, as columns
 * or as CSV; returns the median.
 */
static double
time_query(GpuScanDevice *device, const char *name, const GpuScanProgram *program, uint64_t groups,
		   const GpuScanLayout *layout, uint32_t under_way)
{
	double runs[NUM_RUNS];
	double scans[NUM_RUNS];
	double cpu = INFINITY;
	GpuScanCachedSegment segment = {.nranges = nranges};
	uint64_t hashes[2] = {0, 0};
	double rate;
	size_t rows = 0;
	uint64_t memory = 0;
	double compiled = 0;
	double kernel = INFINITY;

	if (nranges > 0)
		segment.ranges = cached_ranges(program);
	for (int i = 0; i < NUM_RUNS; i++)
	{
		Run *run = new_run();
		double start = clock_ms(CLOCK_PROCESS_CPUTIME_ID);

		runs[i] = run_query(device, program, groups, layout, nranges > 0 ? &segment : NULL,
							under_way, run, &scans[i], i == 0 ? &hashes[0] : NULL);
		cpu = fmin(cpu, clock_ms(CLOCK_PROCESS_CPUTIME_ID) - start);
		if (run->finish_code != GPUSCAN_OK)
			printf("code %d\n", run->finish_code);
		rows = run->nrows;
		memory = run->stats.memory;
		compiled += (double) run->stats.compile_ns / 1e6;
		kernel = fmin(kernel, (double) run->stats.kernel_ns / 1e6);
		release(run);
	}
	if (nranges > 0 && times == 1)
	{
		Run *run = new_run();
		double scan;

		run_query(device, program, groups, layout, NULL, under_way, run, &scan, &hashes[1]);
		if (hashes[0] != hashes[1])
			printf("the pages give another result\n");
		release(run);
	}
	qsort(runs + 1, NUM_RUNS - 1, sizeof(double), compare_doubles);
	qsort(scans + 1, NUM_RUNS - 1, sizeof(double), compare_doubles);
	rate = (double) npages * PAGE_SIZE / runs[3] / 1e6;
	if (name != NULL)
		printf("%-18s %10.2f %10.2f %10.2f %10.1f %8.1f %9zu %8.1f %10.1f %10.3f", name, runs[0],
			   runs[3], scans[3], cpu, rate, rows, (double) memory / 1e6, compiled, kernel);
	if (name != NULL && nranges > 0)
		printf(" %9.1f %8.1f %8.1f", cached_size(program) / 1e6,
			   cached_size(program) / kernel / 1e6,
			   cached_size(program) / kernel / 1e4 / BANDWIDTH);
	if (name != NULL)
		printf("\n");
	else
		printf("%zu,%.1f,%.1f,%.1f\n", rows, runs[3], scans[3], rate);
	return runs[3];
}

int
main(int argc, char **argv)
{
	static const char *const names[] = {"",		   "filtered sum", "by category", "by country",
										"by user", "and distinct", "net sales"};
	static const uint64_t expected[] = {0, 1, 500, 200, 400000, 400000, 1};
	const GpuScanLayout *layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	uint32_t under_way = argc > 3 ? (uint32_t) atoi(argv[3]) : 1024;
	GpuScanDevice *device;
	double start;
	double last = 0;
	int cliffs = 0;

	setenv("GPUSCAN_TEST_DEVICE", argc > 1 ? argv[1] : "cuda", 1);
	nrows = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000000;
	setvbuf(stdout, NULL, _IOLBF, 0);
	device = open_device(0);
	make_table();
	start = clock_ms(CLOCK_MONOTONIC);
	if (device_ops->register_memory != NULL &&
		device_ops->register_memory(device, pages, (size_t) npages * PAGE_SIZE) != GPUSCAN_OK)
		printf("the pages could not be registered\n");
	printf("%s: %.1f million rows, %.2f GB, registered in %.0f ms, %u batches under way\n",
		   device_ops->name, (double) npages * rows_per_page / 1e6,
		   (double) npages * PAGE_SIZE / 1e9, clock_ms(CLOCK_MONOTONIC) - start, under_way);
	if (argc > 6)
		times = (uint32_t) atoi(argv[6]);
	if (argc > 4 && strcmp(argv[4], "cached") == 0)
		make_columns(device, layout);
	printf("%-18s %10s %10s %10s %10s %8s %9s %8s %10s %10s", "query", "first ms", "median ms",
		   "scan ms", "cpu ms", "GB/s", "rows", "MB used", "compile ms", "kernel ms");
	printf(nranges > 0 ? " %9s %8s %8s\n" : "\n", "MB read", "GB/s", "percent");
	for (int q = 1; q <= 6; q++)
	{
		if (argc <= 5 || strchr(argv[5], '0' + q) != NULL)
			time_query(device, names[q], query(q), expected[q], layout, under_way);
	}

	if (nranges > 0)
	{
		device_ops->close(device);
		return 0;
	}

	/* as if the planner expected half of them */
	printf("groups,ms,scan ms,GB/s\n");
	for (uint64_t n = 1; n / 2 < nrows; n *= 2)
	{
		double ms = time_query(device, NULL, sweep_query((int32_t) n), n / 2, layout, under_way);

		cliffs += last > 0 && (ms > 2 * last || last > 2 * ms);
		last = ms;
	}
	printf("%d points are twice as slow as a neighbour\n", cliffs);
	device_ops->close(device);
	return cliffs > 0;
}
