/*-------------------------------------------------------------------------
 *
 * check.c
 *	  Whether a Program or a layout is well formed.
 *
 * A device trusts what passed here and checks nothing of it again, so this is
 * the only place between memory that a backend wrote and the pointers of the
 * service.  A check looks at each thing before it relies on it: the header's
 * size, then the place of every array, then the elements, in the order in
 * which a tuple meets them (inputs and params, instructions, filter, keys,
 * aggregates), with a map of the registers that are written by then.
 *
 * The memory must not change while it is checked and afterwards: the service
 * checks its own copy.
 *
 *-------------------------------------------------------------------------
 */
#include <stdalign.h>
#include <string.h>

#include "program/heap_format.h"
#include "program/op.h"

#define FAIL(why)                                                                                  \
	do                                                                                             \
	{                                                                                              \
		*reason = (why);                                                                           \
		return false;                                                                              \
	} while (0)

typedef struct Checker
{
	const GpuScanProgram *program;
	const uint8_t *classes;
	bool written[GPUSCAN_MAX_REGISTERS];
} Checker;

/* True if n elements of `width` bytes at `offset` lie between `start` and `size`, aligned */
static bool
lies_within(uint64_t offset, uint64_t n, uint64_t width, uint64_t align, uint64_t start,
			uint64_t size)
{
	return offset % align == 0 && offset >= start && offset <= size && n <= (size - offset) / width;
}

static bool
check_header(const GpuScanProgram *p, size_t size, const char **reason)
{
	const struct
	{
		uint32_t offset;
		uint32_t n;
		uint32_t width;
	} arrays[] = {
		{p->reg_classes, p->nregs, sizeof(uint8_t)},
		{p->inputs, p->ninputs, sizeof(GpuScanInput)},
		{p->params, p->nparams, sizeof(GpuScanParam)},
		{p->sets, p->nsets, sizeof(GpuScanSet)},
		{p->lists, p->nlists, sizeof(GpuScanList)},
		{p->instrs, p->ninstrs, sizeof(GpuScanInstr)},
		{p->keys, p->nkeys, sizeof(GpuScanKey)},
		{p->aggs, p->naggs, sizeof(GpuScanAgg)},
		{p->blob, 0, 1},
	};

	if (p->version != GPUSCAN_PROGRAM_VERSION)
		FAIL("another version");
	if (p->size != size || size > GPUSCAN_MAX_PROGRAM_SIZE)
		FAIL("size");
	if (p->aggregate > 1)
		FAIL("neither a scan nor an aggregation");
	if (p->nregs > GPUSCAN_MAX_REGISTERS)
		FAIL("too many registers");
	if (p->nkeys > GPUSCAN_MAX_KEYS)
		FAIL("too many keys");
	if (!p->aggregate && (p->nkeys != 0 || p->naggs != 0))
		FAIL("a scan with keys or aggregates");
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
	{
		if (!lies_within(arrays[i].offset, arrays[i].n, arrays[i].width, 8, sizeof(*p), size))
			FAIL("an array out of range");
	}
	return true;
}

/* A register that is read: written before, and of class `cls` or any */
static bool
is_readable(const Checker *checker, uint16_t reg, uint8_t cls)
{
	return reg < checker->program->nregs && checker->written[reg] &&
		   (cls == GPUSCAN_ANY || checker->classes[reg] == cls);
}

/* A register that is written: not before, and of class `cls` */
static bool
write_register(Checker *checker, uint16_t reg, uint8_t cls)
{
	if (reg >= checker->program->nregs || checker->written[reg] || checker->classes[reg] != cls)
		return false;
	checker->written[reg] = true;
	return true;
}

static bool
check_inputs(Checker *checker, const char **reason)
{
	const GpuScanProgram *p = checker->program;

	for (int i = 0; i < p->ninputs; i++)
	{
		const GpuScanInput *input = &GPUSCAN_INPUTS(p)[i];
		uint8_t cls = gpuscan_decode_class(input->decode);

		if (cls == GPUSCAN_NONE)
			FAIL("an input's decoding");
		if (input->column >= p->ncolumns)
			FAIL("an input's column");
		if (input->scale > 38)
			FAIL("an input's scale");
		if (!write_register(checker, input->reg, cls))
			FAIL("an input's register");
	}
	return true;
}

static bool
check_params(Checker *checker, const char **reason)
{
	const GpuScanProgram *p = checker->program;

	for (int i = 0; i < p->nparams; i++)
	{
		const GpuScanParam *param = &GPUSCAN_PARAMS(p)[i];

		if (param->flags != 0 && param->flags != GPUSCAN_NULL)
			FAIL("a parameter's flags");
		if (param->reg >= p->nregs ||
			!write_register(checker, param->reg, checker->classes[param->reg]))
			FAIL("a parameter's register");
		if (checker->classes[param->reg] == GPUSCAN_BOOL && param->lo > 1)
			FAIL("a parameter that is neither false nor true");
		if (checker->classes[param->reg] == GPUSCAN_TEXT &&
			!lies_within(param->lo, param->len, 1, 1, p->blob, p->size))
			FAIL("a parameter's text");
	}
	return true;
}

/* True if member i of a set is greater than the one before it */
static bool
is_ascending(const void *members, uint16_t cls, uint32_t i)
{
	switch (cls)
	{
		case GPUSCAN_I32:
			return ((const int32_t *) members)[i - 1] < ((const int32_t *) members)[i];
		case GPUSCAN_I64:
			return ((const int64_t *) members)[i - 1] < ((const int64_t *) members)[i];
		case GPUSCAN_I128:
		{
			const uint64_t *low = (const uint64_t *) members + 2 * (i - 1);

			if (low[1] != low[3])
				return (int64_t) low[1] < (int64_t) low[3];
			return low[0] < low[2];
		}
		case GPUSCAN_F64:
		{
			double a = ((const double *) members)[i - 1];
			double b = ((const double *) members)[i];

			/* NaN comes last */
			return a < b || (a == a && b != b);
		}
		default:
			return true;
	}
}

/* True if the slots of a set lie within the Program and hold numbers of its members */
static bool
check_slots(const GpuScanProgram *p, const GpuScanSet *set)
{
	const uint32_t *slots = (const uint32_t *) ((const char *) p + set->slots);

	if (set->cls != GPUSCAN_TEXT ||
		!lies_within(set->slots, 1, sizeof(uint32_t), 8, p->blob, p->size) ||
		(slots[0] & (slots[0] + 1)) != 0 ||
		!lies_within(set->slots, (uint64_t) slots[0] + 2, sizeof(uint32_t), 8, p->blob, p->size))
		return false;
	for (uint64_t i = 0; i <= slots[0]; i++)
	{
		if (slots[1 + i] > set->n)
			return false;
	}
	return true;
}

static bool
check_sets(const GpuScanProgram *p, const char **reason)
{
	for (int i = 0; i < p->nsets; i++)
	{
		const GpuScanSet *set = &GPUSCAN_SETS(p)[i];
		const char *members = (const char *) p + set->offset;
		size_t width = gpuscan_set_member_size(set->cls);

		if (width == 0)
			FAIL("a set's class");
		if (set->has_null > 1)
			FAIL("a set's NULL");
		if (!lies_within(set->offset, set->n, width, 8, p->blob, p->size))
			FAIL("a set out of range");
		for (uint32_t j = 0; j < set->n; j++)
		{
			const uint32_t *text = (const uint32_t *) members + 2 * j;

			if (set->cls == GPUSCAN_TEXT && !lies_within(text[0], text[1], 1, 1, p->blob, p->size))
				FAIL("a set's text");
			if (j > 0 && !is_ascending(members, set->cls, j))
				FAIL("a set that is not sorted");
		}
		if (set->slots != 0 && !check_slots(p, set))
			FAIL("a set's slots");
	}
	return true;
}

static bool
check_lists(const GpuScanProgram *p, const char **reason)
{
	for (int i = 0; i < p->nlists; i++)
	{
		const GpuScanList *list = &GPUSCAN_LISTS(p)[i];
		const char *values = (const char *) p + list->values;
		const uint8_t *flags = (const uint8_t *) p + list->flags;
		size_t width = gpuscan_list_value_size(list->cls);

		if (width == 0 || list->n == 0)
			FAIL("a list's class or length");
		if (!lies_within(list->values, list->n, width, 8, p->blob, p->size) ||
			!lies_within(list->flags, list->n, 1, 1, p->blob, p->size))
			FAIL("a list out of range");
		for (uint32_t j = 0; j < list->n; j++)
		{
			const uint32_t *text = (const uint32_t *) values + 2 * j;

			if (flags[j] != 0 && flags[j] != GPUSCAN_NULL && flags[j] != GPUSCAN_ERROR)
				FAIL("a list's flags");
			if (list->cls == GPUSCAN_BOOL && ((const uint8_t *) values)[j] > 1)
				FAIL("a list's value that is neither false nor true");
			if (list->cls == GPUSCAN_TEXT && !lies_within(text[0], text[1], 1, 1, p->blob, p->size))
				FAIL("a list's text");
		}
	}
	return true;
}

static bool
check_instrs(Checker *checker, const char **reason)
{
	const GpuScanProgram *p = checker->program;

	for (int i = 0; i < p->ninstrs; i++)
	{
		const GpuScanInstr *instr = &GPUSCAN_INSTRS(p)[i];
		const uint16_t operands[3] = {instr->a, instr->b, instr->c};
		const GpuScanOpInfo *op;

		if (instr->op >= GPUSCAN_NUM_OPS)
			FAIL("an unknown operation");
		op = &gpuscan_ops[instr->op];
		for (int j = 0; j < 3; j++)
		{
			if (op->src[j] != GPUSCAN_NONE && !is_readable(checker, operands[j], op->src[j]))
				FAIL("an operand");
		}
		if (op->set && (instr->aux >= p->nsets || GPUSCAN_SETS(p)[instr->aux].cls != op->src[0]))
			FAIL("an operation's set");
		if (instr->op == GPUSCAN_OP_FIND_TEXT && GPUSCAN_SETS(p)[instr->aux].slots == 0)
			FAIL("an operation's set without slots");
		if (op->list && (instr->aux >= p->nlists || GPUSCAN_LISTS(p)[instr->aux].cls != op->dst))
			FAIL("an operation's list");
		if (!write_register(checker, instr->dst, op->dst))
			FAIL("an operation's result");
	}
	return true;
}

/*
 * The parts of a group row follow each other: first the keys, in order, then
 * the states, in order, so that none overlaps another.
 */
static bool
check_row(const Checker *checker, const char **reason)
{
	const GpuScanProgram *p = checker->program;
	uint64_t end = sizeof(uint64_t);

	for (int i = 0; i < p->nkeys; i++)
	{
		const GpuScanKey *key = &GPUSCAN_KEYS(p)[i];
		size_t width = gpuscan_key_size(key->cls);

		if (width == 0 || !is_readable(checker, key->reg, (uint8_t) key->cls))
			FAIL("a key's register");
		if (!lies_within(key->offset, 1, width, 8, end, p->row_size))
			FAIL("a key's place");
		end = key->offset + width;
	}
	for (int i = 0; i < p->naggs; i++)
	{
		const GpuScanAgg *agg = &GPUSCAN_AGGS(p)[i];
		size_t width = gpuscan_agg_state_size(agg->kind, agg->cls);

		if (width == 0)
			FAIL("an aggregate of another class");
		if (agg->arg == GPUSCAN_NO_REGISTER ? agg->kind != GPUSCAN_AGG_COUNT
											: !is_readable(checker, agg->arg, (uint8_t) agg->cls))
			FAIL("an aggregate's argument");
		if (agg->filter != GPUSCAN_NO_REGISTER && !is_readable(checker, agg->filter, GPUSCAN_BOOL))
			FAIL("an aggregate's filter");
		if (!lies_within(agg->offset, 1, width, 8, end, p->row_size))
			FAIL("an aggregate's place");
		end = agg->offset + width;
	}
	if (p->aggregate &&
		(p->row_size % 8 != 0 || p->row_size < end || p->row_size > GPUSCAN_MAX_PROGRAM_SIZE))
		FAIL("the size of a group row");
	return true;
}

bool
gpuscan_program_check(const GpuScanProgram *program, size_t size, const char **reason)
{
	Checker checker;

	if (size < sizeof(*program) || (uintptr_t) program % alignof(uint64_t) != 0)
		FAIL("no room for a header");
	if (!check_header(program, size, reason))
		return false;

	checker.program = program;
	checker.classes = GPUSCAN_REG_CLASSES(program);
	memset(checker.written, 0, sizeof(checker.written));
	for (int i = 0; i < program->nregs; i++)
	{
		if (checker.classes[i] >= GPUSCAN_NUM_CLASSES)
			FAIL("a register's class");
	}
	if (!check_inputs(&checker, reason) || !check_params(&checker, reason) ||
		!check_sets(program, reason) || !check_lists(program, reason) ||
		!check_instrs(&checker, reason))
		return false;
	if (program->filter != GPUSCAN_NO_REGISTER &&
		!is_readable(&checker, program->filter, GPUSCAN_BOOL))
		FAIL("the filter");
	return check_row(&checker, reason);
}

/* The widths and alignments of attributes that a decoding can read */
static bool
decodes_from(unsigned decode, const GpuScanAttr *attr)
{
	switch (decode)
	{
		case GPUSCAN_DECODE_BOOL:
			return attr->len == 1;
		case GPUSCAN_DECODE_INT2:
			return attr->len == 2;
		case GPUSCAN_DECODE_INT4:
		case GPUSCAN_DECODE_FLOAT4:
			return attr->len == 4;
		case GPUSCAN_DECODE_INT8:
		case GPUSCAN_DECODE_FLOAT8:
			return attr->len == 8;
		default:
			return attr->len == -1;
	}
}

/*
 * A value for absent attributes: in range with all the bytes that its length
 * says, and neither compressed nor out of line.
 */
static bool
is_missing_valid(const GpuScanLayout *layout, const GpuScanAttr *attr, uint32_t offset)
{
	const uint64_t start = sizeof(*layout);
	const unsigned char *value = (const unsigned char *) layout + offset;
	uint32_t header;

	if (attr->len > 0)
		return lies_within(offset, 1, (uint64_t) attr->len, attr->align, start, layout->size);
	if (attr->len == -2)
		return lies_within(offset, 1, 1, 1, start, layout->size) &&
			   memchr(value, '\0', layout->size - offset) != NULL;

	if (!lies_within(offset, 1, 1, 1, start, layout->size))
		return false;
	if (GPUSCAN_VARLENA_IS_1B(value[0]))
		return !GPUSCAN_VARLENA_IS_EXTERNAL(value[0]) &&
			   lies_within(offset, GPUSCAN_VARLENA_1B_SIZE(value[0]), 1, 1, start, layout->size);
	if (!lies_within(offset, 1, sizeof(header), attr->align, start, layout->size))
		return false;
	memcpy(&header, value, sizeof(header));
	return !GPUSCAN_VARLENA_4B_IS_COMPRESSED(header) &&
		   GPUSCAN_VARLENA_4B_SIZE(header) >= sizeof(header) &&
		   lies_within(offset, GPUSCAN_VARLENA_4B_SIZE(header), 1, 1, start, layout->size);
}

static bool
check_columns(const GpuScanLayout *layout, const char **reason)
{
	const GpuScanAttr *attrs = GPUSCAN_LAYOUT_ATTRS(layout);
	const GpuScanColumn *columns = GPUSCAN_LAYOUT_COLUMNS(layout);

	for (int i = 0; i < layout->natts; i++)
	{
		const GpuScanAttr *attr = &attrs[i];

		if (attr->len == 0 || attr->len < -2)
			FAIL("an attribute's length");
		if (attr->align != 1 && attr->align != 2 && attr->align != 4 && attr->align != 8)
			FAIL("an attribute's alignment");
		if (attr->column != -1 && (attr->column < 0 || attr->column >= layout->ncolumns ||
								   columns[attr->column].attnum != i))
			FAIL("an attribute's column");
	}
	for (int i = 0; i < layout->ncolumns; i++)
	{
		const GpuScanColumn *column = &columns[i];

		if (column->attnum >= layout->natts || attrs[column->attnum].column != i)
			FAIL("a column's attribute");
		if (column->missing != 0 &&
			!is_missing_valid(layout, &attrs[column->attnum], column->missing))
			FAIL("a column's missing value");
		if (column->expression != 0 &&
			!lies_within(column->expression, 1, sizeof(GpuScanExpression), 1, sizeof(*layout),
						 layout->size))
			FAIL("a column's expression");
	}
	return true;
}

bool
gpuscan_layout_check(const GpuScanLayout *layout, size_t size, const GpuScanProgram *program,
					 const char **reason)
{
	if (size < sizeof(*layout) || (uintptr_t) layout % alignof(uint64_t) != 0)
		FAIL("no room for a header");
	if (layout->size != size || size % 8 != 0 || size > UINT32_MAX)
		FAIL("size");
	if (layout->ncolumns != program->ncolumns)
		FAIL("another number of columns than the Program's");
	if (!lies_within(layout->attrs, layout->natts, sizeof(GpuScanAttr), alignof(GpuScanAttr),
					 sizeof(*layout), size) ||
		!lies_within(layout->columns, layout->ncolumns, sizeof(GpuScanColumn),
					 alignof(GpuScanColumn), sizeof(*layout), size))
		FAIL("an array out of range");
	if (!check_columns(layout, reason))
		return false;

	for (int i = 0; i < program->ninputs; i++)
	{
		const GpuScanInput *input = &GPUSCAN_INPUTS(program)[i];
		uint16_t attnum = GPUSCAN_LAYOUT_COLUMNS(layout)[input->column].attnum;

		if (!decodes_from(input->decode, &GPUSCAN_LAYOUT_ATTRS(layout)[attnum]))
			FAIL("an attribute of another type than the Program's");
	}
	return true;
}
