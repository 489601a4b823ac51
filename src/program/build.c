/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Collecting the parts of a Program, and putting them into one block.
 *
 * Each array grows in a StringInfo of its own.  Offsets into the blob of texts
 * and sets are relative to the blob until gpuscan_build_program knows where the
 * blob lies.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "catalog/pg_attribute.h"
#include "program/compiler.h"
#include "utils/syscache.h"

GpuScanBuildMark
gpuscan_build_mark(const GpuScanCompiler *c)
{
	return (GpuScanBuildMark){
		.reg_classes = c->reg_classes.len,
		.inputs = c->inputs.len,
		.params = c->params.len,
		.sets = c->sets.len,
		.lists = c->lists.len,
		.instrs = c->instrs.len,
		.blob = c->blob.len,
		.nregs = c->nregs,
		.ncolumns = c->ncolumns,
		.known = list_length(c->known),
		.valued = list_length(c->valued),
		.expressions = list_length(c->expressions),
	};
}

/* Forgets what was collected since then. */
void
gpuscan_build_rewind(GpuScanCompiler *c, const GpuScanBuildMark *mark)
{
	c->reg_classes.len = mark->reg_classes;
	c->inputs.len = mark->inputs;
	c->params.len = mark->params;
	c->sets.len = mark->sets;
	c->lists.len = mark->lists;
	c->instrs.len = mark->instrs;
	c->blob.len = mark->blob;
	c->nregs = mark->nregs;
	c->ncolumns = mark->ncolumns;
	c->known = list_truncate(c->known, mark->known);
	c->known_values = list_truncate(c->known_values, mark->known);
	c->valued = list_truncate(c->valued, mark->valued);
	c->expressions = list_truncate(c->expressions, mark->expressions);
}

/* A new register, which the caller has one input, param or instruction write. */
uint16
gpuscan_build_register(GpuScanCompiler *c, GpuScanClass cls)
{
	appendStringInfoChar(&c->reg_classes, (char) cls);

	/* expr.c rejects a Program with too many */
	return (uint16) c->nregs++;
}

static bool
is_declared_not_null(Oid relid, AttrNumber attnum)
{
	HeapTuple tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attnum));
	bool not_null;

	/* a column that is an expression has another number */
	if (!HeapTupleIsValid(tuple))
		return false;
	not_null = ((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull;
	ReleaseSysCache(tuple);
	return not_null;
}

/* The register of an attribute, decoded so; an equal input is used again. */
uint16
gpuscan_build_input(GpuScanCompiler *c, AttrNumber attnum, GpuScanDecode decode, int scale)
{
	GpuScanInput *known = (GpuScanInput *) c->inputs.data;
	int ninputs = c->inputs.len / sizeof(GpuScanInput);
	int column = 0;
	GpuScanInput input;

	while (column < c->ncolumns && c->attnums[column] != attnum)
		column++;
	if (column == c->ncolumns)
		c->attnums[c->ncolumns++] = attnum;

	for (int i = 0; i < ninputs; i++)
	{
		if (known[i].column == column && known[i].decode == decode && known[i].scale == scale)
			return known[i].reg;
	}

	input.decode = decode;
	input.not_null = is_declared_not_null(c->input->relid, attnum);
	input.scale = scale;
	input.column = column;
	input.reg = gpuscan_build_register(c, gpuscan_decode_class(decode));
	appendBinaryStringInfo(&c->inputs, (char *) &input, sizeof(input));
	return input.reg;
}

/* Appends an instruction; returns the register of its result. */
uint16
gpuscan_build_instr(GpuScanCompiler *c, int op, uint16 a, uint16 b, uint16 cc, uint16 aux)
{
	GpuScanInstr instr;

	instr.op = op;
	instr.dst = gpuscan_build_register(c, gpuscan_ops[op].dst);
	instr.a = a;
	instr.b = b;
	instr.c = cc;
	instr.aux = aux;
	appendBinaryStringInfo(&c->instrs, (char *) &instr, sizeof(instr));
	return instr.dst;
}

static uint16
append_param(GpuScanCompiler *c, GpuScanClass cls, bool isnull, uint64 lo, uint64 hi, uint32 len)
{
	GpuScanParam param = {0};

	param.reg = gpuscan_build_register(c, cls);
	param.flags = isnull ? GPUSCAN_NULL : 0;
	param.len = len;
	param.lo = lo;
	param.hi = hi;
	appendBinaryStringInfo(&c->params, (char *) &param, sizeof(param));
	return param.reg;
}

/* A constant of any class but TEXT; a float's bits are its value's low bits. */
uint16
gpuscan_build_param(GpuScanCompiler *c, GpuScanClass cls, bool isnull, int128 value)
{
	return append_param(c, cls, isnull, (uint64) value, (uint64) (value >> 64), 0);
}

/* A text constant, or NULL where bytes is NULL. */
uint16
gpuscan_build_text(GpuScanCompiler *c, const char *bytes, uint32 len)
{
	uint32 offset = c->blob.len;

	if (bytes == NULL)
		return append_param(c, GPUSCAN_TEXT, true, 0, 0, 0);
	appendBinaryStringInfo(&c->blob, bytes, len);
	return append_param(c, GPUSCAN_TEXT, false, offset, 0, len);
}

/* A set whose n members are at `offset` of the blob, and its slots, or 0; its index. */
uint16
gpuscan_build_set(GpuScanCompiler *c, GpuScanClass cls, bool has_null, uint32 n, uint32 offset,
				  uint32 slots)
{
	GpuScanSet set = {0};

	set.cls = cls;
	set.has_null = has_null;
	set.n = n;
	set.offset = offset;
	set.slots = slots;
	appendBinaryStringInfo(&c->sets, (char *) &set, sizeof(set));
	return c->sets.len / sizeof(GpuScanSet) - 1;
}

/* A list of n values with their flags, both in the blob; its index. */
uint16
gpuscan_build_list(GpuScanCompiler *c, GpuScanClass cls, uint32 n, uint32 values, uint32 flags)
{
	GpuScanList list = {.cls = cls, .n = n, .values = values, .flags = flags};

	appendBinaryStringInfo(&c->lists, (char *) &list, sizeof(list));
	return c->lists.len / sizeof(GpuScanList) - 1;
}

/* Pads the blob to 8 bytes, and returns its length. */
uint32
gpuscan_build_align(GpuScanCompiler *c)
{
	while (c->blob.len % 8 != 0)
		appendStringInfoChar(&c->blob, 0);
	return c->blob.len;
}

/* n texts at `offset` of the Program */
static void
relocate_texts(GpuScanProgram *program, uint32 offset, uint32 n)
{
	uint32 *texts = (uint32 *) ((char *) program + offset);

	for (uint32 i = 0; i < n; i++)
		texts[2 * i] += program->blob;
}

/* Makes offsets into the blob offsets into the Program. */
static void
relocate_blob(GpuScanProgram *program)
{
	GpuScanParam *params = (GpuScanParam *) ((char *) program + program->params);
	GpuScanSet *sets = (GpuScanSet *) ((char *) program + program->sets);
	GpuScanList *lists = (GpuScanList *) ((char *) program + program->lists);

	for (int i = 0; i < program->nparams; i++)
	{
		if (GPUSCAN_REG_CLASSES(program)[params[i].reg] == GPUSCAN_TEXT)
			params[i].lo += program->blob;
	}
	for (int i = 0; i < program->nsets; i++)
	{
		sets[i].offset += program->blob;
		if (sets[i].slots != 0)
			sets[i].slots += program->blob;
		if (sets[i].cls == GPUSCAN_TEXT)
			relocate_texts(program, sets[i].offset, sets[i].n);
	}
	for (int i = 0; i < program->nlists; i++)
	{
		lists[i].values += program->blob;
		lists[i].flags += program->blob;
		if (lists[i].cls == GPUSCAN_TEXT)
			relocate_texts(program, lists[i].values, lists[i].n);
	}
}

/* The finished Program, palloc'd. */
GpuScanProgram *
gpuscan_build_program(GpuScanCompiler *c, uint16 filter, const GpuScanKey *keys, int nkeys,
					  const GpuScanAgg *aggs, int naggs, uint32 row_size)
{
	GpuScanProgram header = {0};
	struct
	{
		uint32 *offset;
		const void *data;
		size_t size;
	} parts[] = {
		{&header.reg_classes, c->reg_classes.data, c->reg_classes.len},
		{&header.inputs, c->inputs.data, c->inputs.len},
		{&header.params, c->params.data, c->params.len},
		{&header.sets, c->sets.data, c->sets.len},
		{&header.lists, c->lists.data, c->lists.len},
		{&header.instrs, c->instrs.data, c->instrs.len},
		{&header.keys, keys, nkeys * sizeof(GpuScanKey)},
		{&header.aggs, aggs, naggs * sizeof(GpuScanAgg)},
		{&header.blob, c->blob.data, c->blob.len},
	};
	size_t size = TYPEALIGN(8, sizeof(GpuScanProgram));
	char *block;
	GpuScanProgram *program;

	header.version = GPUSCAN_PROGRAM_VERSION;
	header.aggregate = c->input->aggregate;
	header.nregs = c->nregs;
	header.ncolumns = c->ncolumns;
	header.ninputs = c->inputs.len / sizeof(GpuScanInput);
	header.nparams = c->params.len / sizeof(GpuScanParam);
	header.nsets = c->sets.len / sizeof(GpuScanSet);
	header.nlists = c->lists.len / sizeof(GpuScanList);
	header.ninstrs = c->instrs.len / sizeof(GpuScanInstr);
	header.nkeys = nkeys;
	header.naggs = naggs;
	header.filter = filter;
	header.row_size = row_size;
	for (size_t i = 0; i < lengthof(parts); i++)
	{
		*parts[i].offset = size;
		size = TYPEALIGN(8, size + parts[i].size);
	}
	header.size = size;

	block = palloc0(size);
	program = (GpuScanProgram *) block;
	*program = header;
	for (size_t i = 0; i < lengthof(parts); i++)
	{
		if (parts[i].size > 0)
			memcpy(block + *parts[i].offset, parts[i].data, parts[i].size);
	}
	relocate_blob(program);
	return program;
}
