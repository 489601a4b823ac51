/*-------------------------------------------------------------------------
 *
 * test_program.c
 *	  check.c, print.c, hash.c and op.c: a Program and a layout that are well
 *	  formed pass, each kind of damage is found, and no bytes whatever make the
 *	  check, or the printing of what passed it, leave the block (ASan watches).
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "aggregate.h"
#include "program/op.h"

#include "unit.h"

/*
 * A Program as the compiler lays one out, with its arrays at fixed offsets:
 *
 *	 SELECT t, a < 10, sum(a), count(*) FILTER (WHERE a IN (-7, 0, 3, 1000, NULL)),
 *			sum(-b) FILTER (WHERE t IN (...)), count(DISTINCT d)
 *	 WHERE a < 10 OR t = 'o''k' GROUP BY 1, 2
 */
typedef struct Sample
{
	GpuScanProgram header;
	uint8_t classes[24];
	GpuScanInput inputs[4];
	GpuScanParam params[3];
	GpuScanSet sets[2];
	GpuScanList lists[2];
	GpuScanInstr instrs[10];
	GpuScanKey keys[2];
	GpuScanAgg aggs[4];
	int32_t numbers[4];
	uint32_t texts[4];
	uint32_t slots[6];
	uint32_t strings[6];
	uint8_t bools[8];
	uint8_t flags[8];
	char bytes[8];
} Sample;

/* instrs is padded to a multiple of 8 bytes by its even length */
_Static_assert(offsetof(Sample, keys) % 8 == 0 && offsetof(Sample, inputs) % 8 == 0,
			   "arrays are 8-byte aligned");

enum
{
	R_A,	   /* i32 */
	R_B,	   /* f64 */
	R_T,	   /* text */
	R_D,	   /* i64, dec64 */
	R_TEN,	   /* i32 */
	R_NAME,	   /* text */
	R_NONE,	   /* i128, NULL */
	R_LESS,	   /* bool */
	R_IN,	   /* bool */
	R_IS_NAME, /* bool */
	R_FILTER,  /* bool */
	R_IN_TEXT, /* bool */
	R_ZERO,	   /* f64 */
	R_AT,	   /* i32 */
	R_TEXT_AT, /* i32 */
	R_MADE,	   /* text */
	R_TRUE,	   /* bool */
	NUM_REGS
};

#define NO_REG GPUSCAN_NO_REGISTER

static const Sample sample = {
	.header = {.version = GPUSCAN_PROGRAM_VERSION,
			   .size = sizeof(Sample),
			   .aggregate = 1,
			   .nregs = NUM_REGS,
			   .ncolumns = 4,
			   .ninputs = 4,
			   .nparams = 3,
			   .nsets = 2,
			   .nlists = 2,
			   .ninstrs = 10,
			   .nkeys = 2,
			   .naggs = 4,
			   .filter = R_FILTER,
			   .row_size = 8 + 8 + 8 + 16 + 8 + 40 + 8,
			   .reg_classes = offsetof(Sample, classes),
			   .inputs = offsetof(Sample, inputs),
			   .params = offsetof(Sample, params),
			   .sets = offsetof(Sample, sets),
			   .lists = offsetof(Sample, lists),
			   .instrs = offsetof(Sample, instrs),
			   .keys = offsetof(Sample, keys),
			   .aggs = offsetof(Sample, aggs),
			   .blob = offsetof(Sample, numbers)},
	.classes = {GPUSCAN_I32, GPUSCAN_F64, GPUSCAN_TEXT, GPUSCAN_I64, GPUSCAN_I32, GPUSCAN_TEXT,
				GPUSCAN_I128, GPUSCAN_BOOL, GPUSCAN_BOOL, GPUSCAN_BOOL, GPUSCAN_BOOL, GPUSCAN_BOOL,
				GPUSCAN_F64, GPUSCAN_I32, GPUSCAN_I32, GPUSCAN_TEXT, GPUSCAN_BOOL},
	.inputs = {{.decode = GPUSCAN_DECODE_INT4, .column = 0, .reg = R_A},
			   {.decode = GPUSCAN_DECODE_FLOAT8, .column = 1, .reg = R_B},
			   {.decode = GPUSCAN_DECODE_TEXT, .column = 2, .reg = R_T},
			   {.decode = GPUSCAN_DECODE_DEC64, .scale = 2, .column = 3, .reg = R_D}},
	.params = {{.reg = R_TEN, .lo = 10},
			   {.reg = R_NAME, .len = 3, .lo = offsetof(Sample, bytes)},
			   {.reg = R_NONE, .flags = GPUSCAN_NULL}},
	.sets = {{GPUSCAN_I32, 1, 4, offsetof(Sample, numbers), 0},
			 {GPUSCAN_TEXT, 0, 2, offsetof(Sample, texts), offsetof(Sample, slots)}},
	.lists = {{GPUSCAN_BOOL, 0, 5, offsetof(Sample, bools), offsetof(Sample, flags)},
			  {GPUSCAN_TEXT, 0, 3, offsetof(Sample, strings), offsetof(Sample, flags)}},
	.instrs = {{GPUSCAN_OP_I32_LT, R_LESS, R_A, R_TEN, NO_REG, 0},
			   {GPUSCAN_OP_ANY_EQ_I32, R_IN, R_A, NO_REG, NO_REG, 0},
			   {GPUSCAN_OP_TEXT_EQ, R_IS_NAME, R_T, R_NAME, NO_REG, 0},
			   {GPUSCAN_OP_OR, R_FILTER, R_LESS, R_IS_NAME, NO_REG, 0},
			   {GPUSCAN_OP_ANY_EQ_TEXT, R_IN_TEXT, R_T, NO_REG, NO_REG, 1},
			   {GPUSCAN_OP_F64_NEG, R_ZERO, R_B, NO_REG, NO_REG, 0},
			   {GPUSCAN_OP_FIND_I32, R_AT, R_A, NO_REG, NO_REG, 0},
			   {GPUSCAN_OP_FIND_TEXT, R_TEXT_AT, R_T, NO_REG, NO_REG, 1},
			   {GPUSCAN_OP_TAKE_TEXT, R_MADE, R_TEXT_AT, NO_REG, NO_REG, 1},
			   {GPUSCAN_OP_TAKE_BOOL, R_TRUE, R_AT, NO_REG, NO_REG, 0}},
	.keys = {{GPUSCAN_TEXT, R_T, 8}, {GPUSCAN_BOOL, R_LESS, 16}},
	.aggs = {{GPUSCAN_AGG_SUM_I64, GPUSCAN_I32, R_A, NO_REG, 24, 0},
			 {GPUSCAN_AGG_COUNT, 0, NO_REG, R_IN, 40, 0},
			 {GPUSCAN_AGG_SUM_F64, GPUSCAN_F64, R_ZERO, R_IN_TEXT, 48, 0},
			 {GPUSCAN_AGG_COUNT_DISTINCT, GPUSCAN_I64, R_D, NO_REG, 88, 0}},
	.numbers = {-7, 0, 3, 1000},
	.texts = {offsetof(Sample, bytes), 3, offsetof(Sample, bytes) + 3, 5},
	.slots = {3, 0, 2, 0, 1},
	.strings = {offsetof(Sample, bytes), 1, offsetof(Sample, bytes) + 1, 2, offsetof(Sample, bytes),
				0},
	.bools = {1, 0, 1, 0, 0},
	.flags = {0, GPUSCAN_ERROR, 0, 0, GPUSCAN_NULL},
	.bytes = "o'kother",
};

typedef struct SampleLayout
{
	GpuScanLayout header;
	GpuScanAttr attrs[5];
	GpuScanColumn columns[4];
	GpuScanExpression expression;
	unsigned char text[8];
	double number;
} SampleLayout;

static const SampleLayout sample_layout = {
	.header = {.size = sizeof(SampleLayout),
			   .natts = 5,
			   .ncolumns = 4,
			   .attrs = offsetof(SampleLayout, attrs),
			   .columns = offsetof(SampleLayout, columns)},
	.attrs = {{4, 4, 0, 0}, {-2, 1, 0, -1}, {8, 8, 0, 1}, {-1, 4, 0, 3}, {-1, 4, 0, 2}},
	.columns = {{0, 0, 0, 0},
				{2, 0, offsetof(SampleLayout, number), 0},
				{4, 0, offsetof(SampleLayout, text), 0},
				{3, 0, 0, offsetof(SampleLayout, expression)}},
	.text = {7 << 2, 0, 0, 0, 'a', 'b', 'c'},
	.number = 1.5,
};

/* The check of a copy on the heap, of exactly that size */
static bool
passes_sized(const void *program, size_t size, const char **reason)
{
	char *copy = malloc(size > 0 ? size : 1);
	char listing[200];
	bool passed;

	memcpy(copy, program, size);
	passed = gpuscan_program_check((GpuScanProgram *) copy, size, reason);
	if (passed)
	{
		gpuscan_program_print((GpuScanProgram *) copy, listing, sizeof(listing));
		gpuscan_program_hash((GpuScanProgram *) copy);
	}
	free(copy);
	return passed;
}

static bool
passes(const Sample *program)
{
	const char *reason = NULL;
	bool passed = passes_sized(program, sizeof(*program), &reason);

	if (!passed)
		printf("# %s\n", reason);
	return passed;
}

static bool
layout_passes(const void *layout, size_t size)
{
	const char *reason = NULL;
	char *copy = malloc(size > 0 ? size : 1);
	bool passed;

	memcpy(copy, layout, size);
	passed = gpuscan_layout_check((GpuScanLayout *) copy, size, &sample.header, &reason);
	free(copy);
	return passed;
}

/* A Sample, or a SampleLayout, in which `assignment` was done does not pass */
#define REJECTS(assignment)                                                                        \
	do                                                                                             \
	{                                                                                              \
		Sample s = sample;                                                                         \
		s.assignment;                                                                              \
		ok(!passes(&s), "rejects %s", #assignment);                                                \
	} while (0)
#define ACCEPTS(assignment)                                                                        \
	do                                                                                             \
	{                                                                                              \
		Sample s = sample;                                                                         \
		s.assignment;                                                                              \
		ok(passes(&s), "accepts %s", #assignment);                                                 \
	} while (0)
#define LAYOUT_REJECTS(assignment)                                                                 \
	do                                                                                             \
	{                                                                                              \
		SampleLayout s = sample_layout;                                                            \
		s.assignment;                                                                              \
		ok(!layout_passes(&s, sizeof(s)), "rejects layout %s", #assignment);                       \
	} while (0)

static void
test_check(void)
{
	Sample scan = sample;

	ok(passes(&sample), "the sample passes");
	scan.header.aggregate = 0;
	ok(!passes(&scan), "rejects a scan with keys");
	scan.header.nkeys = scan.header.naggs = 0;
	scan.header.row_size = 0;
	ok(passes(&scan), "the sample as a scan passes");

	REJECTS(header.version = 99);
	REJECTS(header.size = sizeof(Sample) - 8);
	REJECTS(header.aggregate = 2);
	REJECTS(header.nregs = GPUSCAN_MAX_REGISTERS + 1);
	REJECTS(header.nregs = NUM_REGS - 1);
	REJECTS(header.ncolumns = 3);
	REJECTS(header.ninputs = 3);
	REJECTS(header.nparams = 60000);
	REJECTS(header.nsets = 1);
	REJECTS(header.nlists = 1);
	REJECTS(header.ninstrs = 1);
	REJECTS(header.nkeys = 33);
	REJECTS(header.naggs = 65535);
	REJECTS(header.filter = R_A);
	REJECTS(header.filter = NUM_REGS);
	ACCEPTS(header.filter = NO_REG);
	REJECTS(header.row_size = 88);
	REJECTS(header.row_size = 97);
	REJECTS(header.row_size = UINT32_MAX - 7);
	ACCEPTS(header.row_size = 104);
	REJECTS(header.inputs = UINT32_MAX - 7);
	REJECTS(header.params = 4);
	REJECTS(header.instrs += 4);
	REJECTS(header.blob = sizeof(Sample) + 8);
	REJECTS(classes[R_NONE] = GPUSCAN_NUM_CLASSES);
	REJECTS(classes[R_A] = GPUSCAN_I64);
	REJECTS(inputs[0].decode = 10);
	REJECTS(inputs[0].decode = GPUSCAN_DECODE_INT8);
	REJECTS(inputs[0].column = 4);
	REJECTS(inputs[1].reg = R_A);
	REJECTS(inputs[3].scale = 39);
	REJECTS(params[0].reg = R_A);
	REJECTS(params[0].reg = NO_REG);
	REJECTS(params[0].flags = GPUSCAN_ERROR);
	REJECTS(params[1].lo = UINT64_MAX);
	REJECTS(params[1].lo = 0);
	REJECTS(params[1].len = 9);
	REJECTS(params[1].len = UINT32_MAX);
	REJECTS(sets[0].cls = GPUSCAN_I64);
	REJECTS(sets[0].cls = GPUSCAN_BOOL);
	REJECTS(sets[0].n = UINT32_MAX);
	REJECTS(sets[0].offset = 8);
	REJECTS(sets[0].has_null = 2);
	REJECTS(numbers[1] = -7);
	REJECTS(numbers[2] = 1001);
	REJECTS(texts[1] = 9);
	REJECTS(texts[2] = UINT32_MAX);
	REJECTS(sets[0].slots = offsetof(Sample, slots));
	REJECTS(sets[1].slots = 0);
	REJECTS(sets[1].slots = 8);
	REJECTS(sets[1].slots = sizeof(Sample) - 8);
	REJECTS(slots[0] = 2);
	REJECTS(slots[0] = UINT32_MAX);
	REJECTS(slots[2] = 3);
	REJECTS(lists[0].cls = GPUSCAN_I32);
	REJECTS(lists[0].cls = GPUSCAN_NUM_CLASSES);
	REJECTS(lists[0].n = 0);
	REJECTS(lists[0].n = UINT32_MAX);
	REJECTS(lists[0].values = 8);
	REJECTS(lists[0].flags = UINT32_MAX);
	REJECTS(lists[1].values += 4);
	REJECTS(bools[1] = 2);
	REJECTS(flags[3] = 3);
	REJECTS(strings[1] = 9);
	REJECTS(strings[2] = 8);
	REJECTS(instrs[0].op = GPUSCAN_NUM_OPS);
	REJECTS(instrs[0].a = R_FILTER);
	REJECTS(instrs[0].b = R_B);
	REJECTS(instrs[0].dst = R_A);
	REJECTS(instrs[0].dst = NO_REG);
	REJECTS(instrs[3].b = R_FILTER);
	REJECTS(instrs[1].aux = 1);
	REJECTS(instrs[1].aux = 2);
	REJECTS(instrs[8].a = R_T);
	REJECTS(instrs[8].aux = 0);
	REJECTS(instrs[9].aux = 2);
	REJECTS(keys[0].cls = GPUSCAN_I32);
	REJECTS(keys[0].reg = NUM_REGS);
	REJECTS(keys[0].offset = 0);
	REJECTS(keys[1].offset = 8);
	REJECTS(keys[1].offset = 20);
	REJECTS(keys[1].cls = 256 + GPUSCAN_BOOL);
	REJECTS(aggs[0].kind = GPUSCAN_AGG_COUNT_DISTINCT + 1);
	REJECTS(aggs[0].kind = GPUSCAN_AGG_BOOL_OR);
	REJECTS(aggs[0].kind = GPUSCAN_AGG_SQUARES_I128);
	REJECTS(aggs[0].cls = GPUSCAN_I64);
	REJECTS(aggs[0].arg = NO_REG);
	REJECTS(aggs[0].filter = R_A);
	REJECTS(aggs[1].offset = 24);
	REJECTS(aggs[2].offset = 52);
	REJECTS(aggs[3].offset = UINT32_MAX - 7);
	REJECTS(aggs[3].arg = R_B);
}

static void
test_layout(void)
{
	SampleLayout compressed = sample_layout;
	SampleLayout shorter = sample_layout;

	ok(layout_passes(&sample_layout, sizeof(sample_layout)), "the sample layout passes");
	LAYOUT_REJECTS(header.size = sizeof(SampleLayout) - 8);
	LAYOUT_REJECTS(header.natts = 4);
	LAYOUT_REJECTS(header.natts = 65535);
	LAYOUT_REJECTS(header.ncolumns = 3);
	LAYOUT_REJECTS(header.attrs = UINT32_MAX - 3);
	LAYOUT_REJECTS(header.columns = 2);
	LAYOUT_REJECTS(attrs[0].len = 0);
	LAYOUT_REJECTS(attrs[0].len = -3);
	LAYOUT_REJECTS(attrs[0].len = 8);
	LAYOUT_REJECTS(attrs[0].align = 3);
	LAYOUT_REJECTS(attrs[0].align = 0);
	LAYOUT_REJECTS(attrs[0].column = -1);
	LAYOUT_REJECTS(attrs[0].column = 4);
	LAYOUT_REJECTS(attrs[1].column = 0);
	LAYOUT_REJECTS(attrs[1].column = -2);
	LAYOUT_REJECTS(columns[0].attnum = 5);
	LAYOUT_REJECTS(columns[0].attnum = 1);
	LAYOUT_REJECTS(columns[1].missing = sizeof(SampleLayout) - 4);
	LAYOUT_REJECTS(columns[1].missing = offsetof(SampleLayout, number) + 4);
	LAYOUT_REJECTS(columns[1].missing = UINT32_MAX);
	LAYOUT_REJECTS(columns[1].missing = 4);
	LAYOUT_REJECTS(columns[3].expression = sizeof(SampleLayout) - 4);
	LAYOUT_REJECTS(columns[3].expression = UINT32_MAX);
	LAYOUT_REJECTS(columns[3].expression = 4);
	LAYOUT_REJECTS(text[0] = 200);
	LAYOUT_REJECTS(text[0] = 0);
	LAYOUT_REJECTS(text[0] = 1);
	LAYOUT_REJECTS(text[0] = 255);
	compressed.text[0] = 7 << 2 | 2;
	ok(!layout_passes(&compressed, sizeof(compressed)), "rejects a compressed missing value");
	shorter.text[0] = 4 << 1 | 1;
	ok(layout_passes(&shorter, sizeof(shorter)), "accepts a short missing value");
}

/* Flips bytes, words or the size; what passes is printed and hashed */
static void
test_fuzz(void)
{
	uint64_t seed = 42;
	int passed = 0;
	int layouts_passed = 0;

	for (int i = 0; i < 300000; i++)
	{
		Sample s = sample;
		SampleLayout l = sample_layout;
		size_t size = sizeof(s);
		size_t layout_size = sizeof(l);
		const char *reason = NULL;

		for (uint64_t n = unit_random(&seed) % 3; n < 3; n++)
		{
			static const uint16_t words[] = {0, 1, 7, 8, 0x7FFF, 0x8000, 0xFFF8, 0xFFFF};
			uint64_t random = unit_random(&seed);
			size_t at = random % (random >> 60 < 4 ? sizeof(s.header) : sizeof(s) - 1);
			size_t layout_at = random % (sizeof(l) - 1);

			if ((random >> 40 & 1) != 0)
			{
				memcpy((char *) &s + at, &words[random >> 41 & 7], 2);
				memcpy((char *) &l + layout_at, &words[random >> 41 & 7], 2);
			}
			else
			{
				((char *) &s)[at] = (char) (random >> 48);
				((char *) &l)[layout_at] = (char) (random >> 48);
			}
		}
		if (unit_random(&seed) % 8 == 0)
		{
			size = unit_random(&seed) % (sizeof(s) + 1);
			s.header.size = (uint32_t) size;
			layout_size = unit_random(&seed) % (sizeof(l) + 1);
			l.header.size = (uint32_t) layout_size;
		}
		passed += passes_sized(&s, size, &reason);
		layouts_passed += layout_passes(&l, layout_size);
	}
	ok(passed > 0 && layouts_passed > 0, "fuzzed Programs and layouts stay in bounds");
	printf("# %d Programs and %d layouts passed\n", passed, layouts_passed);
}

static void
test_print(void)
{
	static const char expected[] = "aggregation: 17 registers, row of 96 bytes\n"
								   "r0 i32 = column 0 int4\n"
								   "r1 f64 = column 1 float8\n"
								   "r2 text = column 2 text\n"
								   "r3 i64 = column 3 dec64 scale 2\n"
								   "r4 i32 = param 10\n"
								   "r5 text = param 'o\\x27k'\n"
								   "r6 i128 = param NULL\n"
								   "r7 bool = I32_LT r0, r4\n"
								   "r8 bool = ANY_EQ_I32 r0, set 0 of 4 and NULL\n"
								   "r9 bool = TEXT_EQ r2, r5\n"
								   "r10 bool = OR r7, r9\n"
								   "r11 bool = ANY_EQ_TEXT r2, set 1 of 2\n"
								   "r12 f64 = F64_NEG r1\n"
								   "r13 i32 = FIND_I32 r0, set 0 of 4 and NULL\n"
								   "r14 i32 = FIND_TEXT r2, set 1 of 2\n"
								   "r15 text = TAKE_TEXT r14, list 1 of 3\n"
								   "r16 bool = TAKE_BOOL r13, list 0 of 5\n"
								   "filter r10\n"
								   "key 0 text = r2 at 8\n"
								   "key 1 bool = r7 at 16\n"
								   "agg 0 i32 = sum_i64(r0) at 24\n"
								   "agg 1 bool = count(*) at 40 where r8\n"
								   "agg 2 f64 = sum_f64(r12) at 48 where r11\n"
								   "agg 3 i64 = count_distinct(r3) at 88\n";
	Sample s = sample;
	char buf[2000];
	char shorter[64];

	if (!ok(gpuscan_program_print(&sample.header, buf, sizeof(buf)) == sizeof(expected) - 1 &&
				strcmp(buf, expected) == 0,
			"the listing"))
		printf("%s", buf);
	ok(gpuscan_program_print(&sample.header, shorter, sizeof(shorter)) == sizeof(expected) - 1 &&
		   strlen(shorter) == sizeof(shorter) - 1 && strncmp(shorter, expected, 63) == 0,
	   "a listing cut short");
	ok(gpuscan_program_print(&sample.header, NULL, 0) == sizeof(expected) - 1, "its length alone");

	s.params[2].flags = 0;
	s.params[2].hi = 1ULL << 63;
	gpuscan_program_print(&s.header, buf, sizeof(buf));
	ok(strstr(buf, "r6 i128 = param -170141183460469231731687303715884105728\n") != NULL,
	   "the smallest 128-bit integer");
}

#define HASH_SAME(same, assignment)                                                                \
	do                                                                                             \
	{                                                                                              \
		Sample s = sample;                                                                         \
		s.assignment;                                                                              \
		ok((gpuscan_program_hash(&s.header) == gpuscan_program_hash(&sample.header)) == (same),    \
		   "hash %s with %s", (same) ? "same" : "differs", #assignment);                           \
	} while (0)

static void
test_hash(void)
{
	HASH_SAME(true, params[0].lo = 11);
	HASH_SAME(true, params[1].len = 2);
	HASH_SAME(true, params[2].flags = 0);
	HASH_SAME(true, numbers[0] = -8);
	HASH_SAME(true, bytes[0] = 'x');
	HASH_SAME(true, sets[0].n = 3);
	HASH_SAME(true, lists[0].n = 3);
	HASH_SAME(true, flags[0] = GPUSCAN_NULL);
	HASH_SAME(false, lists[1].cls = GPUSCAN_I64);
	HASH_SAME(false, header.filter = R_IN);
	HASH_SAME(false, instrs[0].op = GPUSCAN_OP_I32_LE);
	HASH_SAME(false, inputs[3].scale = 3);
	HASH_SAME(false, inputs[3].not_null = 1);
	HASH_SAME(false, keys[0].offset = 16);
	HASH_SAME(false, aggs[1].filter = R_LESS);
	HASH_SAME(false, classes[R_ZERO] = GPUSCAN_I64);
}

static void
test_tables(void)
{
	int failed = 0;

	for (int i = 0; i < GPUSCAN_NUM_OPS; i++)
	{
		const GpuScanOpInfo *op = &gpuscan_ops[i];

		failed += op->dst >= GPUSCAN_NUM_CLASSES || op->src[0] == GPUSCAN_NONE;
		failed += op->set && gpuscan_set_member_size(op->src[0]) == 0;
		failed +=
			op->set != (strncmp(op->name, "ANY_EQ", 6) == 0 || strncmp(op->name, "FIND", 4) == 0);
		failed += op->list != (strncmp(op->name, "TAKE", 4) == 0);
	}
	ok(failed == 0, "operations");
	ok(strcmp(gpuscan_ops[GPUSCAN_OP_SELECT_I128].name, "SELECT_I128") == 0 &&
		   gpuscan_ops[GPUSCAN_OP_SELECT_I128].src[2] == GPUSCAN_I128,
	   "an operation by number");
	ok(gpuscan_agg_state_size(GPUSCAN_AGG_SQUARES_F64, GPUSCAN_F32) ==
			   sizeof(GpuScanSquaresF64State) &&
		   gpuscan_agg_state_size(GPUSCAN_AGG_MIN, GPUSCAN_I128) == sizeof(GpuScanValue128State) &&
		   gpuscan_agg_state_size(GPUSCAN_AGG_MAX, GPUSCAN_TEXT) == 0 &&
		   gpuscan_agg_state_size(99, GPUSCAN_I32) == 0 &&
		   gpuscan_agg_state_size(GPUSCAN_AGG_COUNT, 7) == 0,
	   "sizes of states");
	ok(strcmp(gpuscan_decode_name(10), "?") == 0 && strcmp(gpuscan_class_name(7), "?") == 0 &&
		   strcmp(gpuscan_agg_name(13), "?") == 0,
	   "names of nothing");
}

int
main(void)
{
	test_check();
	test_layout();
	test_fuzz();
	test_print();
	test_hash();
	test_tables();
	return done_testing();
}
