/*-------------------------------------------------------------------------
 *
 * cpu_fixture.h
 *	  What the tests of the cpu device share: building Programs, layouts, tuples
 *	  and pages by hand, and running a request to its end.
 *
 * Tests are short and free little of their own memory.  LeakSanitizer is told
 * so by the names of the functions here that allocate; what the device leaks
 * it does report.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CPU_FIXTURE_H
#define GPUSCAN_CPU_FIXTURE_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate.h"
#include "device/device.h"
#include "program/heap_format.h"
#include "program/op.h"

#include "unit.h"

const char *__lsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *
__lsan_default_suppressions(void)
{
	return "leak:new_builder\nleak:build_program\nleak:new_layout\nleak:new_table\n"
		   "leak:add_page\nleak:new_run\nleak:fetch_all\n";
}

#define NO_REG GPUSCAN_NO_REGISTER
#define PAGE_SIZE 8192
#define MAX_PARTS 64

/* Whether GPUSCAN_TEST_QUICK says that the device is slow: an emulated one */
static inline bool
is_quick(void)
{
	return getenv("GPUSCAN_TEST_QUICK") != NULL;
}

/* Tuples, groups and repetitions, of which a slow device gets a tenth */
#define FEWER(n) (is_quick() ? (n) / 10 : (n))

/* Rounds of a loop over corrupted pages, in which ThreadSanitizer has nothing to find */
#ifdef __SANITIZE_THREAD__
#define ROUNDS(n) ((n) / 20)
#else
#define ROUNDS(n) (is_quick() ? (n) / 20 : (n))
#endif

/*
 * The device under test: cpu, or what the environment names
 */
static const GpuScanDeviceOps *device_ops = &gpuscan_cpu_device;

/* Opens the device.  Where there is none the test is over, and says so. */
static inline GpuScanDevice *
open_device(uint32_t threads)
{
	const char *name = getenv("GPUSCAN_TEST_DEVICE");
	const char *error = "";
	GpuScanDevice *device;

	if (name != NULL && strcmp(name, "cuda") == 0)
		device_ops = &gpuscan_cuda_device;
	device = device_ops->open(0, threads, &error);
	if (device == NULL)
	{
		printf("1..0 # SKIP the %s device does not open: %s\n", device_ops->name, error);
		exit(0);
	}
	return device;
}

/*
 * Programs
 */
typedef struct Builder
{
	uint8_t classes[256];
	GpuScanInput inputs[MAX_PARTS];
	GpuScanParam params[MAX_PARTS];
	GpuScanSet sets[MAX_PARTS];
	GpuScanList lists[MAX_PARTS];
	GpuScanInstr instrs[MAX_PARTS];
	GpuScanKey keys[MAX_PARTS];
	GpuScanAgg aggs[MAX_PARTS];
	char blob[8192];
	uint32_t blob_size;
	GpuScanProgram header;
} Builder;

static inline Builder *
new_builder(int ncolumns, bool aggregate)
{
	Builder *b = calloc(1, sizeof(Builder));

	b->header = (GpuScanProgram){.version = GPUSCAN_PROGRAM_VERSION,
								 .aggregate = aggregate,
								 .ncolumns = (uint16_t) ncolumns,
								 .filter = NO_REG,
								 .row_size = 8};
	return b;
}

static inline uint16_t
add_register(Builder *b, unsigned cls)
{
	b->classes[b->header.nregs] = (uint8_t) cls;
	return b->header.nregs++;
}

static inline uint16_t
add_input(Builder *b, int column, GpuScanDecode decode, int scale)
{
	uint16_t reg = add_register(b, gpuscan_decode_class(decode));

	b->inputs[b->header.ninputs++] = (GpuScanInput){.decode = (uint8_t) decode,
													.scale = (uint16_t) scale,
													.column = (uint16_t) column,
													.reg = reg};
	return reg;
}

static inline uint16_t
add_param(Builder *b, GpuScanClass cls, int64_t value)
{
	uint16_t reg = add_register(b, cls);

	b->params[b->header.nparams++] =
		(GpuScanParam){.reg = reg, .lo = (uint64_t) value, .hi = value < 0 ? UINT64_MAX : 0};
	return reg;
}

static inline uint16_t
add_null(Builder *b, GpuScanClass cls)
{
	uint16_t reg = add_param(b, cls, 0);

	b->params[b->header.nparams - 1].flags = GPUSCAN_NULL;
	return reg;
}

static inline uint16_t
add_f64(Builder *b, double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return add_param(b, GPUSCAN_F64, bits);
}

/* Offsets of texts and sets are relative to the blob until build_program. */
static inline uint32_t
add_blob(Builder *b, const void *data, size_t size)
{
	uint32_t offset = b->blob_size;

	memcpy(b->blob + offset, data, size);
	b->blob_size += (uint32_t) ((size + 15) & ~(size_t) 15);
	return offset;
}

static inline uint16_t
add_text(Builder *b, const char *text)
{
	uint16_t reg = add_register(b, GPUSCAN_TEXT);

	b->params[b->header.nparams++] = (GpuScanParam){
		.reg = reg, .len = (uint32_t) strlen(text), .lo = add_blob(b, text, strlen(text))};
	return reg;
}

static inline uint16_t
add_set(Builder *b, GpuScanClass cls, const void *members, uint32_t n, bool has_null)
{
	uint32_t offset = add_blob(b, members, n * gpuscan_set_member_size(cls));

	b->sets[b->header.nsets] = (GpuScanSet){(uint16_t) cls, has_null, n, offset, 0};
	return b->header.nsets++;
}

/* A set of texts with slots, for FIND_TEXT: `texts` as a set's members */
static inline uint16_t
add_text_set(Builder *b, const uint32_t *texts, uint32_t n)
{
	uint32_t slots[1 + 64] = {63};
	uint16_t set = add_set(b, GPUSCAN_TEXT, texts, n, false);

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t at = gs_text_hash((GsText){b->blob + texts[2 * i], texts[2 * i + 1]}) & 63;

		while (slots[1 + at] != 0)
			at = (at + 1) & 63;
		slots[1 + at] = i + 1;
	}
	b->sets[set].slots = add_blob(b, slots, sizeof(slots));
	return set;
}

static inline uint16_t
add_list(Builder *b, GpuScanClass cls, const void *values, const uint8_t *flags, uint32_t n)
{
	GpuScanList list = {.cls = (uint16_t) cls, .n = n};

	list.values = add_blob(b, values, n * gpuscan_list_value_size(cls));
	list.flags = add_blob(b, flags, n);
	b->lists[b->header.nlists] = list;
	return b->header.nlists++;
}

static inline uint16_t
add_instr(Builder *b, GpuScanOp op, uint16_t x, uint16_t y, uint16_t z, uint16_t aux)
{
	uint16_t reg = add_register(b, gpuscan_ops[op].dst);

	b->instrs[b->header.ninstrs++] = (GpuScanInstr){(uint16_t) op, reg, x, y, z, aux};
	return reg;
}

/* Returns the key's offset in a group row.  All keys come before any aggregate. */
static inline uint32_t
add_key(Builder *b, uint16_t reg)
{
	uint32_t offset = b->header.row_size;
	unsigned cls = b->classes[reg];

	b->keys[b->header.nkeys++] = (GpuScanKey){(uint16_t) cls, reg, offset};
	b->header.row_size += (uint32_t) gpuscan_key_size(cls);
	return offset;
}

/* Returns the state's offset. */
static inline uint32_t
add_agg(Builder *b, GpuScanAggKind kind, uint16_t arg, uint16_t filter)
{
	uint32_t offset = b->header.row_size;
	unsigned cls = arg == NO_REG ? 0 : b->classes[arg];

	b->aggs[b->header.naggs++] =
		(GpuScanAgg){(uint16_t) kind, (uint16_t) cls, arg, filter, offset, 0};
	b->header.row_size += (uint32_t) gpuscan_agg_state_size(kind, cls);
	return offset;
}

static inline void
append_array(char *block, uint32_t *size, uint32_t *offset, const void *array, size_t bytes)
{
	*offset = *size;
	memcpy(block + *size, array, bytes);
	*size += (uint32_t) ((bytes + 15) & ~(size_t) 15);
}

static inline GpuScanProgram *
build_program(Builder *b)
{
	char *block = aligned_alloc(64, 64 * 1024);
	GpuScanProgram *p = (GpuScanProgram *) block;
	uint32_t size = (sizeof(GpuScanProgram) + 15) & ~(size_t) 15;
	const char *reason = "";

	memset(block, 0, 64 * 1024);
	*p = b->header;
	append_array(block, &size, &p->reg_classes, b->classes, p->nregs);
	append_array(block, &size, &p->inputs, b->inputs, p->ninputs * sizeof(GpuScanInput));
	append_array(block, &size, &p->params, b->params, p->nparams * sizeof(GpuScanParam));
	append_array(block, &size, &p->sets, b->sets, p->nsets * sizeof(GpuScanSet));
	append_array(block, &size, &p->lists, b->lists, p->nlists * sizeof(GpuScanList));
	append_array(block, &size, &p->instrs, b->instrs, p->ninstrs * sizeof(GpuScanInstr));
	append_array(block, &size, &p->keys, b->keys, p->nkeys * sizeof(GpuScanKey));
	append_array(block, &size, &p->aggs, b->aggs, p->naggs * sizeof(GpuScanAgg));
	append_array(block, &size, &p->blob, b->blob, b->blob_size);
	p->size = size;

	for (int i = 0; i < p->nparams; i++)
	{
		GpuScanParam *param = (GpuScanParam *) (block + p->params) + i;

		if (b->classes[param->reg] == GPUSCAN_TEXT)
			param->lo += p->blob;
	}
	for (int i = 0; i < p->nsets; i++)
	{
		GpuScanSet *set = (GpuScanSet *) (block + p->sets) + i;

		set->offset += p->blob;
		set->slots += set->slots != 0 ? p->blob : 0;
		for (uint32_t k = 0; set->cls == GPUSCAN_TEXT && k < set->n; k++)
			((uint32_t *) (block + set->offset))[2 * k] += p->blob;
	}
	for (int i = 0; i < p->nlists; i++)
	{
		GpuScanList *list = (GpuScanList *) (block + p->lists) + i;

		list->values += p->blob;
		list->flags += p->blob;
		for (uint32_t k = 0; list->cls == GPUSCAN_TEXT && k < list->n; k++)
			((uint32_t *) (block + list->values))[2 * k] += p->blob;
	}
	if (!gpuscan_program_check(p, p->size, &reason))
		ok(false, "the Program is well formed: %s", reason);
	free(b);
	return p;
}

/*
 * Layouts: an attribute list, column numbers in it, and missing values as bytes
 */
typedef struct Missing
{
	const void *bytes;
	size_t size;
} Missing;

static inline GpuScanLayout *
new_layout(const GpuScanAttr *attrs, int natts, int ncolumns, const Missing *missing)
{
	char *block = aligned_alloc(64, 8192);
	GpuScanLayout *layout = (GpuScanLayout *) block;
	uint32_t size = (sizeof(GpuScanLayout) + 15) & ~(size_t) 15;
	GpuScanColumn columns[MAX_PARTS] = {0};
	uint32_t ignored;

	memset(block, 0, 8192);
	layout->natts = (uint16_t) natts;
	layout->ncolumns = (uint16_t) ncolumns;
	append_array(block, &size, &layout->attrs, attrs, (size_t) natts * sizeof(GpuScanAttr));
	for (int i = 0; i < natts; i++)
	{
		if (attrs[i].column >= 0)
			columns[attrs[i].column].attnum = (uint16_t) i;
	}
	append_array(block, &size, &layout->columns, columns,
				 (size_t) ncolumns * sizeof(GpuScanColumn));
	for (int i = 0; missing != NULL && i < ncolumns; i++)
	{
		if (missing[i].bytes == NULL)
			continue;
		((GpuScanColumn *) (block + layout->columns))[i].missing = size;
		append_array(block, &size, &ignored, missing[i].bytes, missing[i].size);
	}
	layout->size = size;
	return layout;
}

/*
 * Tuples
 */
typedef enum ValueKind
{
	V_NULL,
	V_FIXED,
	V_SHORT, /* a varlena with a header of one byte */
	V_LONG,	 /* of four bytes */
	V_COMPRESSED,
	V_EXTERNAL,
	V_CSTRING
} ValueKind;

typedef struct Value
{
	ValueKind kind;
	uint32_t len;
	char data[300];
} Value;

static inline Value
fixed_value(const void *data, uint32_t len)
{
	Value value = {V_FIXED, len, {0}};

	memcpy(value.data, data, len);
	return value;
}

static inline Value
int4_value(int32_t number)
{
	return fixed_value(&number, sizeof(number));
}

static inline Value
int8_value(int64_t number)
{
	return fixed_value(&number, sizeof(number));
}

static inline Value
f64_value(double number)
{
	return fixed_value(&number, sizeof(number));
}

static inline Value
null_value(void)
{
	return (Value){V_NULL, 0, {0}};
}

static inline Value
text_value(ValueKind kind, const char *text)
{
	Value value = {kind, (uint32_t) strlen(text), {0}};

	memcpy(value.data, text, strlen(text));
	return value;
}

/* numeric with two digits after the point, as numeric.c stores it in its short form */
static inline Value
numeric_value(ValueKind kind, int64_t hundredths)
{
	uint64_t magnitude = hundredths < 0 ? 0 - (uint64_t) hundredths : (uint64_t) hundredths;
	uint64_t integer = magnitude / 100;
	uint16_t digits[8];
	int ndigits = 0;
	int weight = -1;
	uint16_t words[9];

	for (uint64_t rest = integer; rest > 0; rest /= 10000)
		weight++;
	for (int i = weight; i >= 0; i--)
	{
		uint64_t power = 1;

		for (int k = 0; k < i; k++)
			power *= 10000;
		digits[ndigits++] = (uint16_t) (integer / power % 10000);
	}
	digits[ndigits++] = (uint16_t) (magnitude % 100 * 100);
	while (ndigits > 0 && digits[ndigits - 1] == 0)
		ndigits--;
	if (ndigits == 0)
		weight = 0;
	words[0] = (uint16_t) (0x8000 | (hundredths < 0 ? 0x2000 : 0) | 2 << 7 | (weight & 0x7f));
	memcpy(words + 1, digits, (size_t) ndigits * 2);

	Value value = {kind, 2 + 2 * (uint32_t) ndigits, {0}};

	memcpy(value.data, words, value.len);
	return value;
}

/* Puts an attribute at *offset or behind its padding. */
static inline void
put_value(char *data, uint32_t *offset, const GpuScanAttr *attr, const Value *value)
{
	uint32_t align = attr->align;
	uint32_t word = (value->len + 4) << 2;

	if (value->kind == V_SHORT || value->kind == V_EXTERNAL || value->kind == V_CSTRING)
		align = 1;
	*offset = (*offset + align - 1) / align * align;
	switch (value->kind)
	{
		case V_NULL:
			break;
		case V_SHORT:
			data[(*offset)++] = (char) ((value->len + 1) << 1 | 1);
			memcpy(data + *offset, value->data, value->len);
			*offset += value->len;
			break;
		case V_COMPRESSED:
			word |= 2;
			/* fall through */
		case V_LONG:
			memcpy(data + *offset, &word, 4);
			memcpy(data + *offset + 4, value->data, value->len);
			*offset += 4 + value->len;
			break;
		case V_EXTERNAL:
			data[*offset] = 1;
			data[*offset + 1] = GPUSCAN_VARTAG_ONDISK;
			*offset += GPUSCAN_VARLENA_ONDISK_SIZE;
			break;
		case V_CSTRING:
			memcpy(data + *offset, value->data, value->len + 1);
			*offset += value->len + 1;
			break;
		case V_FIXED:
			memcpy(data + *offset, value->data, value->len);
			*offset += value->len;
			break;
	}
}

/* Forms a tuple of natts attributes at dst, which is zeroed; its length. */
static inline uint32_t
form_tuple(char *dst, const GpuScanAttr *attrs, int natts, const Value *values)
{
	bool has_null = false;
	uint32_t hoff = GPUSCAN_TUPLE_HEADER_SIZE;
	uint32_t offset = 0;
	uint16_t infomask2 = (uint16_t) natts;
	uint16_t infomask = 0x0900; /* xmin committed, xmax invalid */

	for (int i = 0; i < natts; i++)
		has_null |= values[i].kind == V_NULL;
	if (has_null)
	{
		hoff += (uint32_t) (natts + 7) / 8;
		infomask |= GPUSCAN_TUPLE_HASNULL;
	}
	hoff = (hoff + 7) / 8 * 8;
	memcpy(dst + GPUSCAN_TUPLE_INFOMASK2, &infomask2, 2);
	memcpy(dst + GPUSCAN_TUPLE_INFOMASK, &infomask, 2);
	dst[GPUSCAN_TUPLE_HOFF] = (char) hoff;
	for (int i = 0; i < natts; i++)
	{
		if (values[i].kind == V_NULL)
			continue;
		if (has_null)
			dst[GPUSCAN_TUPLE_HEADER_SIZE + i / 8] |= (char) (1 << (i % 8));
		put_value(dst + hoff, &offset, &attrs[i], &values[i]);
	}
	return hoff + offset;
}

/*
 * Tables: pages that fill up, each a block with outcomes
 */
typedef struct Table
{
	const GpuScanAttr *attrs;
	uint32_t layout;
	uint32_t nblocks;
	uint32_t used; /* of the last page, from its end */
	GpuScanBlock *blocks;
} Table;

static inline Table *
new_table(const GpuScanAttr *attrs)
{
	Table *table = calloc(1, sizeof(Table));

	table->attrs = attrs;
	return table;
}

static inline void
add_page(Table *table)
{
	char *page = aligned_alloc(PAGE_SIZE, PAGE_SIZE);

	memset(page, 0, PAGE_SIZE);
	table->blocks = realloc(table->blocks, (table->nblocks + 1) * sizeof(GpuScanBlock));
	table->blocks[table->nblocks++] = (GpuScanBlock){.base = page,
													 .size = PAGE_SIZE,
													 .layout = table->layout,
													 .offsets = calloc(300, sizeof(uint16_t)),
													 .outcome = malloc(300)};
	table->used = 0;
}

static inline void
add_tuple(Table *table, int natts, const Value *values)
{
	char tuple[4096] __attribute__((aligned(8))) = {0};
	uint32_t len = form_tuple(tuple, table->attrs, natts, values);
	uint32_t room = (len + 7) / 8 * 8;
	GpuScanBlock *block = table->nblocks > 0 ? &table->blocks[table->nblocks - 1] : NULL;
	uint32_t offset;
	uint32_t lp;

	if (block == NULL || block->ntuples == 290 ||
		GPUSCAN_PAGE_HEADER_SIZE + 4 * (block->ntuples + 1) + table->used + room > PAGE_SIZE)
	{
		add_page(table);
		block = &table->blocks[table->nblocks - 1];
	}
	table->used += room;
	offset = PAGE_SIZE - table->used;
	memcpy((char *) block->base + offset, tuple, len);
	lp = offset | GPUSCAN_LP_NORMAL << 15 | len << 17;
	memcpy((char *) block->base + GPUSCAN_PAGE_HEADER_SIZE + 4 * block->ntuples, &lp, 4);
	((uint16_t *) block->offsets)[block->ntuples] = (uint16_t) (block->ntuples + 1);
	block->outcome[block->ntuples] = 99;
	block->ntuples++;
}

static inline void
free_table(Table *table)
{
	for (uint32_t i = 0; i < table->nblocks; i++)
	{
		free((void *) table->blocks[i].base);
		free((void *) table->blocks[i].offsets);
		free(table->blocks[i].outcome);
	}
	free(table->blocks);
	free(table);
}

/*
 * Running a request
 */
typedef struct Run
{
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t answered;
	GpuScanCode batch_code; /* the first that is not GPUSCAN_OK */
	GpuScanCode finish_code;
	bool finished;
	int ended;
	GpuScanRequestStats stats;
	GpuScanCode fetch_code;
	uint32_t ndeferred;
	size_t nrows;
	size_t row_size;
	char *rows; /* texts are at offsets from `rows` */
	size_t size;
} Run;

static inline void
on_batch_done(void *arg, void *tag, GpuScanCode code, uint32_t ndeferred)
{
	Run *run = arg;

	(void) tag;
	pthread_mutex_lock(&run->lock);
	run->answered++;
	run->ndeferred += ndeferred;
	if (run->batch_code == GPUSCAN_OK)
		run->batch_code = code;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
}

static inline void
on_finish_done(void *arg, GpuScanCode code)
{
	Run *run = arg;

	pthread_mutex_lock(&run->lock);
	run->finished = true;
	run->finish_code = code;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
}

static inline void
on_ended(void *arg, const GpuScanRequestStats *stats)
{
	Run *run = arg;

	pthread_mutex_lock(&run->lock);
	run->ended++;
	run->stats = *stats;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
}

static inline Run *
new_run(void)
{
	Run *run = calloc(1, sizeof(Run));

	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->changed, NULL);
	return run;
}

static inline void
release(Run *run)
{
	free(run->rows);
	free(run);
}

#define WAIT_FOR(run, condition)                                                                   \
	do                                                                                             \
	{                                                                                              \
		pthread_mutex_lock(&(run)->lock);                                                          \
		while (!(condition))                                                                       \
			pthread_cond_wait(&(run)->changed, &(run)->lock);                                      \
		pthread_mutex_unlock(&(run)->lock);                                                        \
	} while (0)

static inline GpuScanRequestOptions
run_options(Run *run, const GpuScanProgram *program, const GpuScanLayout *const *layouts,
			uint32_t nlayouts, uint32_t threads)
{
	return (GpuScanRequestOptions){.program = program,
								   .layouts = layouts,
								   .nlayouts = nlayouts,
								   .threads = threads,
								   .memory_limit = UINT64_C(4) << 30,
								   .device_memory_limit = UINT64_C(8) << 30,
								   .tuples_expected = 1000000,
								   .arg = run,
								   .batch_done = on_batch_done,
								   .finish_done = on_finish_done,
								   .ended = on_ended};
}

/* Fetches every row, in chunks of some size, into one array with one area of texts. */
static inline void
fetch_all(GpuScanRequest *request, const GpuScanProgram *program, size_t chunk_size, Run *run)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(program);
	char *chunk = aligned_alloc(64, (chunk_size + 63) / 64 * 64);
	char *texts = NULL;
	size_t texts_size = 0;
	uint32_t n;

	run->row_size = program->row_size;
	for (;;)
	{
		run->fetch_code = device_ops->fetch(request, chunk, chunk_size, &n);
		if (run->fetch_code != GPUSCAN_OK || n == 0)
			break;
		run->rows = realloc(run->rows, (run->nrows + n) * run->row_size);
		for (uint32_t i = 0; i < n; i++)
		{
			char *row = chunk + i * run->row_size;

			for (int k = 0; k < program->nkeys; k++)
			{
				uint32_t *place = (uint32_t *) (row + keys[k].offset);

				if (keys[k].cls != GPUSCAN_TEXT)
					continue;
				texts = realloc(texts, texts_size + place[1] + 1);
				memcpy(texts + texts_size, chunk + place[0], place[1]);
				place[0] = (uint32_t) texts_size;
				texts_size += place[1];
			}
			memcpy(run->rows + (run->nrows + i) * run->row_size, row, run->row_size);
		}
		run->nrows += n;
	}
	run->size = run->nrows * run->row_size + texts_size;
	run->rows = realloc(run->rows, run->size + 1);
	memcpy(run->rows + run->nrows * run->row_size, texts == NULL ? "" : texts, texts_size);
	for (size_t i = 0; i < run->nrows; i++)
	{
		for (int k = 0; k < program->nkeys; k++)
		{
			if (keys[k].cls == GPUSCAN_TEXT)
				*(uint32_t *) (run->rows + i * run->row_size + keys[k].offset) +=
					(uint32_t) (run->nrows * run->row_size);
		}
	}
	free(texts);
	free(chunk);
}

/*
 * Runs a whole request over tables, `per_batch` pages in a batch, the batches in
 * an order that `seed` gives, or the given one for 0.
 */
static inline Run *
run_tables(GpuScanDevice *device, GpuScanRequestOptions *options, Table *const *tables, int ntables,
		   uint32_t per_batch, uint64_t seed)
{
	Run *run = options->arg;
	GpuScanRequest *request = NULL;
	uint32_t nbatches = 0;
	GpuScanBatch *batches = calloc(100000, sizeof(GpuScanBatch));

	for (int t = 0; t < ntables; t++)
	{
		for (uint32_t i = 0; i < tables[t]->nblocks; i += per_batch)
		{
			uint32_t left = tables[t]->nblocks - i;

			batches[nbatches++] = (GpuScanBatch){.nblocks = left < per_batch ? left : per_batch,
												 .blocks = &tables[t]->blocks[i]};
		}
	}
	for (uint32_t i = nbatches; seed != 0 && i > 1; i--)
	{
		uint32_t k = (uint32_t) (unit_random(&seed) % i);
		GpuScanBatch swap = batches[k];

		batches[k] = batches[i - 1];
		batches[i - 1] = swap;
	}

	if (device_ops->begin(device, options, &request) != GPUSCAN_OK)
	{
		ok(false, "begin");
		exit(1);
	}
	for (uint32_t i = 0; i < nbatches; i++)
		device_ops->push(request, &batches[i]);
	WAIT_FOR(run, run->answered == nbatches);
	if (options->program->aggregate)
	{
		device_ops->finish(request);
		WAIT_FOR(run, run->finished);
		if (run->finish_code == GPUSCAN_OK)
			fetch_all(request, options->program, 64 * 1024, run);
	}
	device_ops->end(request);
	WAIT_FOR(run, run->ended > 0);
	free(batches);
	return run;
}

static inline Run *
run_table(GpuScanDevice *device, const GpuScanProgram *program, const GpuScanLayout *layout,
		  Table *table, uint32_t threads)
{
	GpuScanRequestOptions options = run_options(new_run(), program, &layout, 1, threads);

	return run_tables(device, &options, &table, 1, 8, 0);
}

#endif /* GPUSCAN_CPU_FIXTURE_H */
