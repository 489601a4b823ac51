/*-------------------------------------------------------------------------
 *
 * test_cpu_seek.c
 *	  A device finding the blocks that a scan may want in cached columns: those with
 *	  a tuple that it does not reject when it reads their pages.
 *
 *-------------------------------------------------------------------------
 */
#include "columns_fixture.h"

#define NUM_SEGMENTS 4

/* Few users, perhaps with an operation that fails for one key, or texts */
static GpuScanProgram *
make_scan(int32_t user, int32_t failing_key, bool texts)
{
	Builder *b = new_builder(NUM_COLUMNS, false);
	uint16_t one = add_param(b, GPUSCAN_I32, 1);
	uint16_t filter = add_instr(b, GPUSCAN_OP_I32_EQ, add_input(b, C_USER, GPUSCAN_DECODE_INT4, 0),
								add_param(b, GPUSCAN_I32, user), 0, 0);

	if (failing_key >= 0)
	{
		uint16_t key = add_input(b, C_KEY, GPUSCAN_DECODE_INT4, 0);
		uint16_t number = add_input(b, C_INT, GPUSCAN_DECODE_INT4, 0);
		uint16_t difference =
			add_instr(b, GPUSCAN_OP_INT4_SUB, key, add_param(b, GPUSCAN_I32, failing_key), 0, 0);
		uint16_t rare =
			add_instr(b, GPUSCAN_OP_I32_LT, number, add_param(b, GPUSCAN_I32, 400), 0, 0);
		uint16_t fails = add_instr(b, GPUSCAN_OP_I32_EQ, one,
								   add_instr(b, GPUSCAN_OP_INT4_DIV, one, difference, 0, 0), 0, 0);

		filter = add_instr(b, GPUSCAN_OP_OR, filter,
						   add_instr(b, GPUSCAN_OP_AND, rare, fails, 0, 0), 0, 0);
	}
	if (texts)
		filter = add_instr(b, GPUSCAN_OP_AND, filter,
						   add_instr(b, GPUSCAN_OP_IS_NOT_NULL,
									 add_input(b, C_TEXT, GPUSCAN_DECODE_TEXT, 0), 0, 0, 0),
						   0, 0);
	b->header.filter = filter;
	return build_program(b);
}

/* Describes the columns of blocks i with i % of < some, in a few segments, one of which has none. */
static void
describe(Columns *columns, const Table *table, uint32_t some, uint32_t of,
		 uint16_t (*ends)[GPUSCAN_RANGE_BLOCKS], GpuScanCachedSegment *segments)
{
	uint32_t share = (columns->nranges + NUM_SEGMENTS - 2) / (NUM_SEGMENTS - 1);

	for (uint32_t r = 0; r < columns->nranges; r++)
	{
		GpuScanCachedRange *range = &columns->ranges[r];
		uint16_t row = 0;

		*range = (GpuScanCachedRange){.number = r * 7 % GPUSCAN_MAP_RANGES,
									  .nblocks = columns->batches[r].nblocks,
									  .ends = ends[r],
									  .runs = columns->runs[r],
									  .chunks = (const GpuScanChunk *const *) columns->chunks[r],
									  .dictionaries =
										  (const GpuScanDictionary *const *) columns->dictionaries};
		for (uint32_t i = 0; i < GPUSCAN_RANGE_BLOCKS; i++)
		{
			bool is_there = i < range->nblocks && table->blocks[r * GPUSCAN_RANGE_BLOCKS + i].fills;
			uint16_t n = 0;

			if (is_there)
				n = (uint16_t) table->blocks[r * GPUSCAN_RANGE_BLOCKS + i].ntuples;
			if (is_there && i % of < some)
				columns->runs[r][range->nruns++] = (GpuScanRows){row, n};
			row += n;
			ends[r][i] = row;
		}
	}
	for (uint32_t s = 0; s < NUM_SEGMENTS; s++)
	{
		/* the second is the one without ranges */
		uint32_t first = (s < 2 ? s : s - 1) * share;
		uint32_t end = first + share < columns->nranges ? first + share : columns->nranges;

		segments[s] = (GpuScanCachedSegment){.map_page = 7 + s,
											 .nranges = s == 1 || first >= end ? 0 : end - first,
											 .ranges = &columns->ranges[first]};
	}
}

/* Blocks for which hits and the outcomes of their tuples say different things */
static int
count_wrong(const Columns *columns, const Table *table, uint32_t some, uint32_t of,
			const GpuScanCachedSegment *segments, uint64_t *hits, uint32_t *nhits)
{
	int wrong = 0;

	for (uint32_t s = 0; s < NUM_SEGMENTS; s++)
	{
		for (uint32_t r = 0; r < segments[s].nranges; r++)
		{
			const GpuScanCachedRange *range = &segments[s].ranges[r];
			uint64_t *word = &hits[s * GPUSCAN_MAP_RANGES + range->number];
			uint32_t first = (uint32_t) (range - columns->ranges) * GPUSCAN_RANGE_BLOCKS;

			for (uint32_t i = 0; i < range->nblocks; i++)
			{
				const GpuScanBlock *block = &table->blocks[first + i];
				bool expected = false;

				for (uint32_t t = 0; block->fills && i % of < some && t < block->ntuples; t++)
					expected |= block->outcome[t] != GPUSCAN_TUPLE_REJECTED;
				wrong += expected != ((*word >> i & 1) != 0);
				*nhits += expected;
				*word &= ~(UINT64_C(1) << i);
			}
		}
	}
	for (uint32_t i = 0; i < NUM_SEGMENTS * GPUSCAN_MAP_RANGES; i++)
		wrong += hits[i] != 0;
	return wrong;
}

static void
test_seek(uint32_t n, GpuScanProgram *program, bool any, const char *name)
{
	static const uint32_t parts[][2] = {{1, 1}, {1, 2}, {2, 3}, {63, 64}};
	Table *table = make_table(n, n);
	GpuScanLayout *layout = new_layout(attrs, NUM_COLUMNS, NUM_COLUMNS, NULL);
	Columns *columns = calloc(1, sizeof(Columns));
	uint64_t *hits = calloc(NUM_SEGMENTS * GPUSCAN_MAP_RANGES, sizeof(uint64_t));
	uint16_t(*ends)[GPUSCAN_RANGE_BLOCKS] = calloc(MAX_RANGES, sizeof(*ends));
	GpuScanCachedSegment segments[NUM_SEGMENTS];
	GpuScanCachedSegment *list[NUM_SEGMENTS];
	GpuScanRequest *request;
	Run *run;

	for (uint32_t i = 0; i < table->nblocks; i++)
		table->blocks[i].fills = n % 2 == 0 || i % 64 != 63;
	request = begin(program, (const GpuScanLayout *const *) &layout, &run);
	push_filling(request, program, table, columns);
	WAIT_FOR(run, run->answered == columns->nranges);
	for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
	{
		uint32_t nhits = 0;
		int wrong;

		describe(columns, table, parts[p][0], parts[p][1], ends, segments);
		for (int s = 0; s < NUM_SEGMENTS; s++)
			list[s] = &segments[s];
		device_ops->seek(
			request, &(GpuScanSeek){
						 .segments = list, .nsegments = NUM_SEGMENTS, .map_page = 7, .hits = hits});
		memset(list, 0, sizeof(list)); /* which need not stay */
		WAIT_FOR(run, run->answered == columns->nranges + p + 1);
		wrong = count_wrong(columns, table, parts[p][0], parts[p][1], segments, hits, &nhits);
		ok(run->batch_code == GPUSCAN_OK && wrong == 0 && (nhits > 0) == any,
		   "%u tuples, %u in %u blocks, %s: %u blocks of %u", n, parts[p][0], parts[p][1], name,
		   nhits, table->nblocks);
		for (int s = 0; s < NUM_SEGMENTS; s++)
			device_ops->forget_segment(device, &segments[s]);
	}
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	release(run);

	/* the same once more, ended in the middle */
	request = begin(program, (const GpuScanLayout *const *) &layout, &run);
	for (int s = 0; s < NUM_SEGMENTS; s++)
		list[s] = &segments[s];
	device_ops->seek(
		request,
		&(GpuScanSeek){.segments = list, .nsegments = NUM_SEGMENTS, .map_page = 7, .hits = hits});
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	ok(run->answered <= 1, "ended in the middle");
	for (int s = 0; s < NUM_SEGMENTS; s++)
		device_ops->forget_segment(device, &segments[s]);
	release(run);
	free(hits);
	free(ends);
	free_columns(columns);
	free(program);
	free(layout);
	free_table(table);
}

int
main(void)
{
	device = open_device(4);
	test_seek(1000, make_scan(-1, -1, false), false, "none passes");
	test_seek(30000, make_scan(777, -1, false), true, "a few pass");
	test_seek(170000, make_scan(777, -1, true), true, "a few pass");
	test_seek(170000, make_scan(-1, 7, false), true, "a few fail");
	test_seek(170001, make_scan(777, 7, true), true, "a few pass, or fail");
	test_seek(170000, make_scan(-1, -1, true), false, "no range may pass");
	device_ops->close(device);
	return done_testing();
}
