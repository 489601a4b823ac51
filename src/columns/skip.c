/*-------------------------------------------------------------------------
 *
 * skip.c
 *	  Whether a range can have a row that a Program's filter keeps, or one that
 *	  it does not keep, by what its chunks say of the least and the greatest value.
 *
 * The filter's operations run over intervals.  Comparisons of integers (dates,
 * timestamps and scaled numerics among them) with constants, tests for NULL, and
 * AND and OR of those, give an answer; whatever else is taken for something that
 * may be true, may not be, and may be an error, which is PostgreSQL's to find.
 *
 *-------------------------------------------------------------------------
 */
#include "columns/columns.h"

#include "program/op.h"

/* What is known of a register's values in the range */
typedef struct Bounds
{
	bool known; /* those that are not NULL are low .. high */
	bool all_null;
	bool may_be_null;
	bool may_be_true;
	bool may_be_other; /* false, or NULL */
	bool may_be_error;
	int64_t low;
	int64_t high;
} Bounds;

static const Bounds unknown = {.may_be_null = true,
							   .may_be_true = true,
							   .may_be_other = true,
							   .may_be_error = true};

static bool
is_integer(unsigned cls)
{
	return cls == GPUSCAN_I32 || cls == GPUSCAN_I64;
}

static Bounds
bounds_of_input(unsigned cls, const GpuScanChunk *chunk)
{
	Bounds bounds = {.may_be_true = true, .may_be_other = true};

	bounds.all_null = chunk->nnulls == chunk->nrows;
	bounds.may_be_null = chunk->nnulls > 0;
	bounds.known = is_integer(cls) && (bounds.all_null || chunk->has_summary);
	bounds.low = (int64_t) chunk->min[0];
	bounds.high = (int64_t) chunk->max[0];
	return bounds;
}

static Bounds
bounds_of_param(unsigned cls, const GpuScanParam *param)
{
	Bounds bounds = {.may_be_true = true, .may_be_other = true};

	bounds.known = is_integer(cls);
	bounds.all_null = bounds.may_be_null = param->flags != 0;
	bounds.low = bounds.high = cls == GPUSCAN_I32 ? (int32_t) param->lo : (int64_t) param->lo;
	return bounds;
}

static Bounds
bounds_of_comparison(uint16_t op, const Bounds *a, const Bounds *b)
{
	Bounds bounds = {.may_be_null = a->may_be_null || b->may_be_null,
					 .may_be_true = true,
					 .may_be_other = true,
					 .may_be_error = a->may_be_error || b->may_be_error};
	bool may_be_equal = a->low <= b->high && b->low <= a->high;
	bool one_value = a->low == a->high && b->low == b->high;

	if (!a->known || !b->known)
		return bounds;
	switch (op)
	{
		case GPUSCAN_OP_I32_EQ:
		case GPUSCAN_OP_I64_EQ:
			bounds.may_be_true = may_be_equal;
			bounds.may_be_other = !may_be_equal || !one_value;
			break;
		case GPUSCAN_OP_I32_NE:
		case GPUSCAN_OP_I64_NE:
			bounds.may_be_true = !may_be_equal || !one_value;
			bounds.may_be_other = may_be_equal;
			break;
		case GPUSCAN_OP_I32_LT:
		case GPUSCAN_OP_I64_LT:
			bounds.may_be_true = a->low < b->high;
			bounds.may_be_other = a->high >= b->low;
			break;
		case GPUSCAN_OP_I32_LE:
		case GPUSCAN_OP_I64_LE:
			bounds.may_be_true = a->low <= b->high;
			bounds.may_be_other = a->high > b->low;
			break;
		case GPUSCAN_OP_I32_GT:
		case GPUSCAN_OP_I64_GT:
			bounds.may_be_true = a->high > b->low;
			bounds.may_be_other = a->low <= b->high;
			break;
		default:
			bounds.may_be_true = a->high >= b->low;
			bounds.may_be_other = a->low < b->high;
			break;
	}
	bounds.all_null = a->all_null || b->all_null;
	bounds.may_be_true &= !bounds.all_null;
	bounds.may_be_other |= bounds.may_be_null;
	return bounds;
}

static Bounds
bounds_of_instr(const GpuScanInstr *instr, const Bounds *registers)
{
	const Bounds *a = &registers[instr->a];
	const Bounds *b;

	switch (instr->op)
	{
		case GPUSCAN_OP_I32_EQ:
		case GPUSCAN_OP_I32_NE:
		case GPUSCAN_OP_I32_LT:
		case GPUSCAN_OP_I32_LE:
		case GPUSCAN_OP_I32_GT:
		case GPUSCAN_OP_I32_GE:
		case GPUSCAN_OP_I64_EQ:
		case GPUSCAN_OP_I64_NE:
		case GPUSCAN_OP_I64_LT:
		case GPUSCAN_OP_I64_LE:
		case GPUSCAN_OP_I64_GT:
		case GPUSCAN_OP_I64_GE:
			return bounds_of_comparison(instr->op, a, &registers[instr->b]);
		case GPUSCAN_OP_I32_TO_I64:
			return *a;
		case GPUSCAN_OP_IS_NULL:
			return (Bounds){.may_be_true = a->may_be_null,
							.may_be_other = !a->all_null,
							.may_be_error = a->may_be_error};
		case GPUSCAN_OP_IS_NOT_NULL:
			return (Bounds){.may_be_true = !a->all_null,
							.may_be_other = a->may_be_null,
							.may_be_error = a->may_be_error};
		case GPUSCAN_OP_AND:
			b = &registers[instr->b];
			return (Bounds){.may_be_null = true,
							.may_be_true = a->may_be_true && b->may_be_true,
							.may_be_other = a->may_be_other || b->may_be_other,
							.may_be_error = a->may_be_error || b->may_be_error};
		case GPUSCAN_OP_OR:
			b = &registers[instr->b];
			return (Bounds){.may_be_null = true,
							.may_be_true = a->may_be_true || b->may_be_true,
							.may_be_other = a->may_be_other && b->may_be_other,
							.may_be_error = a->may_be_error || b->may_be_error};
		default:
			return unknown;
	}
}

/* What is known of the filter. */
static Bounds
bounds_of_filter(const GpuScanProgram *program, const GpuScanChunk *const *chunks)
{
	const uint8_t *classes = GPUSCAN_REG_CLASSES(program);
	const GpuScanInput *inputs = GPUSCAN_INPUTS(program);
	const GpuScanParam *params = GPUSCAN_PARAMS(program);
	const GpuScanInstr *instrs = GPUSCAN_INSTRS(program);
	Bounds registers[GPUSCAN_MAX_REGISTERS];

	if (program->filter == GPUSCAN_NO_REGISTER || program->nregs > GPUSCAN_MAX_REGISTERS)
		return program->filter == GPUSCAN_NO_REGISTER ? (Bounds){.may_be_true = true} : unknown;
	for (int i = 0; i < program->ninputs; i++)
		registers[inputs[i].reg] = bounds_of_input(classes[inputs[i].reg], chunks[i]);
	for (int i = 0; i < program->nparams; i++)
		registers[params[i].reg] = bounds_of_param(classes[params[i].reg], &params[i]);
	for (int i = 0; i < program->ninstrs; i++)
	{
		registers[instrs[i].dst] = bounds_of_instr(&instrs[i], registers);
		if (instrs[i].dst == program->filter)
			break;
	}
	return registers[program->filter];
}

bool
gpuscan_columns_may_pass(const GpuScanProgram *program, const GpuScanChunk *const *chunks)
{
	Bounds filter = bounds_of_filter(program, chunks);

	return filter.may_be_true || filter.may_be_error;
}

bool
gpuscan_columns_all_pass(const GpuScanProgram *program, const GpuScanChunk *const *chunks)
{
	Bounds filter = bounds_of_filter(program, chunks);

	return !filter.may_be_other && !filter.may_be_error;
}
