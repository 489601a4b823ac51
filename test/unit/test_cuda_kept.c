/*-------------------------------------------------------------------------
 *
 * test_cuda_kept.c
 *	  Pages that the cuda device keeps: what it makes of the copies is what it made of the
 *	  pages, whatever has become of those.
 *
 * Runs on a GPU, or the emulated one.
 *
 *-------------------------------------------------------------------------
 */
#include "columns_fixture.h"

#define MAX_BLOCKS 600
#define PER_BATCH 50

static const GpuScanLayout *layout;
static GpuScanBlock blocks[MAX_BLOCKS];
static uint16_t offsets[MAX_BLOCKS][256];
static uint64_t places[MAX_BLOCKS];
static uint64_t deferred[MAX_BLOCKS][4];

/* A table of which some tuples have toasted texts */
static Table *
make_pages(uint32_t n)
{
	Table *table = new_table(attrs);
	uint64_t seed = n;

	for (uint32_t i = 0; i < n; i++)
	{
		uint64_t r = unit_random(&seed);
		uint8_t truth = r % 3 == 0;
		Value values[NUM_COLUMNS] = {int4_value((int32_t) (r % 40)),
									 int4_value((int32_t) (r >> 40)),
									 f64_value((double) (int64_t) r / 3),
									 numeric_value(V_SHORT, (int64_t) (r >> 20) % 100000),
									 r % 101 == 0 ? text_value(V_EXTERNAL, "x")
												  : text_value(V_SHORT, words[(r >> 8) % 5]),
									 fixed_value(&truth, 1),
									 null_value()};

		add_tuple(table, NUM_COLUMNS, values);
	}
	return table;
}

/* The tables' pages, of every second one only some tuples */
static void
take_blocks(const Table *table)
{
	for (uint32_t b = 0; b < table->nblocks; b++)
	{
		blocks[b] = table->blocks[b];
		if (b % 2 == 0)
			continue;
		blocks[b].ntuples = 0;
		for (uint32_t i = 0; i < table->blocks[b].ntuples; i += 1 + b % 3)
			offsets[b][blocks[b].ntuples++] = (uint16_t) (i + 1);
		blocks[b].offsets = offsets[b];
	}
}

static Run *
run_blocks(const GpuScanProgram *program, uint32_t n)
{
	GpuScanBatch batches[MAX_BLOCKS / PER_BATCH];
	uint32_t nbatches = 0;
	Run *run;
	GpuScanRequest *request = begin(program, &layout, &run);

	for (uint32_t b = 0; b < n; b += PER_BATCH)
	{
		batches[nbatches] =
			(GpuScanBatch){.nblocks = n - b < PER_BATCH ? n - b : PER_BATCH, .blocks = &blocks[b]};
		device_ops->push(request, &batches[nbatches++]);
	}
	return finish(request, program, run, nbatches);
}

/* Whether two runs have the same groups, and deferred as many tuples */
static bool
same(const Run *a, const Run *b)
{
	return a->finish_code == GPUSCAN_OK && b->finish_code == GPUSCAN_OK && a->nrows > 0 &&
		   a->nrows == b->nrows && a->ndeferred == b->ndeferred &&
		   memcmp(a->rows, b->rows, a->nrows * a->row_size) == 0;
}

/* How many tuples are said to be deferred in one way alone */
static uint32_t
count_different(const Table *table)
{
	uint32_t n = 0;

	for (uint32_t b = 0; b < table->nblocks; b++)
	{
		for (uint32_t i = 0; i < blocks[b].ntuples; i++)
			n += (table->blocks[b].outcome[i] == GPUSCAN_TUPLE_DEFERRED) !=
				 (deferred[b][i / 64] >> i % 64 & 1);
	}
	return n;
}

static void
test_kept(const char *name, GpuScanProgram *program)
{
	Table *table = make_pages(20000);
	Run *pages;
	Run *keeping;
	Run *kept;

	take_blocks(table);
	ok(table->nblocks <= MAX_BLOCKS && table->nblocks > 2 * PER_BATCH, "%s: %u pages", name,
	   table->nblocks);
	pages = run_blocks(program, table->nblocks);
	for (uint32_t b = 0; b < table->nblocks; b++)
		blocks[b].kept = places[b];
	keeping = run_blocks(program, table->nblocks);
	ok(same(pages, keeping) && pages->ndeferred > 0, "%s: pages that it is to keep are pages",
	   name);

	for (uint32_t b = 0; b < table->nblocks; b++)
	{
		memset((char *) blocks[b].base, 0xA5, PAGE_SIZE);
		memset(offsets[b], 0xA5, sizeof(offsets[b]));
		memset(deferred[b], 0xA5, sizeof(deferred[b]));
		blocks[b] = (GpuScanBlock){.size = PAGE_SIZE,
								   .ntuples = blocks[b].ntuples,
								   .deferred = deferred[b],
								   .kept = places[b]};
	}
	kept = run_blocks(program, table->nblocks);
	ok(same(pages, kept), "%s: so are the copies", name);
	ok(count_different(table) == 0, "%s: they say which tuples are deferred", name);
	ok(kept->stats.bus_bytes < pages->stats.bus_bytes / 10, "%s: and cross the bus no more", name);
	release(pages);
	release(keeping);
	release(kept);
}

int
main(void)
{
	const char *reason = "";
	uint64_t size;

	device_ops = &gpuscan_cuda_device;
	device = device_ops->open(0, 2, &reason);
	if (device == NULL)
	{
		printf("1..0 # SKIP the cuda device does not open: %s\n", reason);
		return 0;
	}
	layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);

	/* the device learns its limits from a request */
	release(run_blocks(make_program(0), 0));
	size = device_ops->keep_pages(device, MAX_BLOCKS, PAGE_SIZE, places);
	ok(size >= (uint64_t) MAX_BLOCKS * PAGE_SIZE, "there is room for pages");
	ok(device_ops->keep_pages(device, 1000000, PAGE_SIZE, places + 1) == 0,
	   "but not for any number of them");
	ok(device_ops->keep_pages(device, 1, 2 * PAGE_SIZE, places + 1) == 0, "nor of any size");
	if (size > 0)
	{
		test_kept("all", make_program(0));
		test_kept("some", make_program(4));
	}
	device_ops->close(device);
	return done_testing();
}
