/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  What a request does with each tuple, worked out once at its start.
 *
 * Inputs and instructions go to the first phase if the filter needs them, to
 * the second if only keys or aggregates do, and nowhere if nothing does.
 * Registers that the second phase or the aggregates read and the first one
 * writes are carried over: they are compacted to the tuples that were kept.
 *
 * For each layout and phase, the leading attributes of fixed length have a
 * constant offset in a tuple without NULLs; the others are found by walking.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

static void
mark(uint8_t *set, uint16_t reg)
{
	if (reg != GPUSCAN_NO_REGISTER)
		set[reg] = 1;
}

/* Marks a register, and whatever it is computed from. */
static void
mark_needed(const GpuScanProgram *program, uint8_t *needed, uint16_t reg)
{
	const GpuScanInstr *instrs = GPUSCAN_INSTRS(program);

	if (reg == GPUSCAN_NO_REGISTER)
		return;
	needed[reg] = 1;

	/* each register is written before it is read: one pass backwards does */
	for (int i = program->ninstrs - 1; i >= 0; i--)
	{
		const uint8_t *src = gpuscan_ops[instrs[i].op].src;

		if (!needed[instrs[i].dst])
			continue;
		if (src[0] != GPUSCAN_NONE)
			needed[instrs[i].a] = 1;
		if (src[1] != GPUSCAN_NONE)
			needed[instrs[i].b] = 1;
		if (src[2] != GPUSCAN_NONE)
			needed[instrs[i].c] = 1;
	}
}

/* Marks what instruction i reads. */
static void
mark_read(const GpuScanInstr *instr, uint8_t *read)
{
	const uint8_t *src = gpuscan_ops[instr->op].src;

	if (src[0] != GPUSCAN_NONE)
		read[instr->a] = 1;
	if (src[1] != GPUSCAN_NONE)
		read[instr->b] = 1;
	if (src[2] != GPUSCAN_NONE)
		read[instr->c] = 1;
}

static int
compare_inputs(const void *a, const void *b)
{
	const GpuScanInput *left = a;
	const GpuScanInput *right = b;

	return (int) left->column - (int) right->column;
}

static bool
create_phases(CpuPlan *plan)
{
	const GpuScanProgram *program = plan->program;
	const GpuScanInput *inputs = GPUSCAN_INPUTS(program);
	const GpuScanInstr *instrs = GPUSCAN_INSTRS(program);
	const GpuScanKey *keys = GPUSCAN_KEYS(program);
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	uint8_t filter[GPUSCAN_MAX_REGISTERS] = {0};
	uint8_t rest[GPUSCAN_MAX_REGISTERS] = {0};
	uint8_t read[GPUSCAN_MAX_REGISTERS] = {0};
	uint8_t last[GPUSCAN_MAX_REGISTERS];
	uint8_t others[GPUSCAN_MAX_REGISTERS] = {0}; /* read by others than keys */

	mark_needed(program, filter, program->filter);
	for (int i = 0; i < program->nkeys; i++)
	{
		mark_needed(program, rest, keys[i].reg);
		read[keys[i].reg] = 1;
	}
	for (int i = 0; i < program->naggs; i++)
	{
		mark_needed(program, rest, aggs[i].arg);
		mark_needed(program, rest, aggs[i].filter);
		mark(read, aggs[i].arg);
		mark(read, aggs[i].filter);
		mark(others, aggs[i].arg);
		mark(others, aggs[i].filter);
	}
	memcpy(last, read, sizeof(last));

	for (int i = 0; i < CPU_NUM_PHASES; i++)
	{
		plan->phases[i].inputs = calloc(program->ninputs + 1, sizeof(GpuScanInput));
		plan->phases[i].instrs = calloc(program->ninstrs + 1, sizeof(GpuScanInstr));
		if (plan->phases[i].inputs == NULL || plan->phases[i].instrs == NULL)
			return false;
	}
	plan->carried = calloc((size_t) program->ninputs + program->ninstrs + 1, sizeof(uint16_t));
	plan->last = calloc((size_t) program->nregs + 1, sizeof(uint16_t));
	plan->input_of_reg = calloc((size_t) program->nregs + 1, sizeof(uint16_t));
	plan->key_use = calloc((size_t) program->nregs + 1, sizeof(uint8_t));
	plan->domains = calloc((size_t) program->nkeys + 1, sizeof(CpuDomain));
	if (plan->carried == NULL || plan->last == NULL || plan->input_of_reg == NULL ||
		plan->key_use == NULL || plan->domains == NULL)
		return false;
	plan->phases[CPU_FILL].ninputs = program->ninputs;

	for (int i = 0; i < program->ninputs; i++)
	{
		uint16_t reg = inputs[i].reg;

		plan->input_of_reg[reg] = (uint16_t) i;
		plan->phases[CPU_FILL].inputs[i] = inputs[i];
		if (filter[reg] || rest[reg])
		{
			CpuPhase *phase = &plan->phases[filter[reg] ? CPU_FILTER : CPU_REST];

			phase->inputs[phase->ninputs++] = inputs[i];
		}
	}
	for (int i = 0; i < program->ninstrs; i++)
	{
		uint16_t reg = instrs[i].dst;

		if (filter[reg] || rest[reg])
		{
			CpuPhase *phase = &plan->phases[filter[reg] ? CPU_FILTER : CPU_REST];

			phase->instrs[phase->ninstrs++] = instrs[i];
			if (filter[reg])
				continue;
			mark_read(&instrs[i], read);
			mark_read(&instrs[i], others);
		}
	}
	for (int i = 0; i < program->nkeys; i++)
		plan->key_use[keys[i].reg] = others[keys[i].reg] ? CPU_KEY_AND_MORE : CPU_ONLY_KEY;
	for (int i = 0; i < program->nregs; i++)
	{
		if (last[i])
			plan->last[plan->nlast++] = (uint16_t) i;
	}
	for (int i = 0; i < CPU_NUM_PHASES; i++)
		qsort(plan->phases[i].inputs, plan->phases[i].ninputs, sizeof(GpuScanInput),
			  compare_inputs);

	for (int i = 0; i < plan->phases[CPU_FILTER].ninputs; i++)
	{
		uint16_t reg = plan->phases[CPU_FILTER].inputs[i].reg;

		if (read[reg])
			plan->carried[plan->ncarried++] = reg;
	}
	for (int i = 0; i < plan->phases[CPU_FILTER].ninstrs; i++)
	{
		uint16_t reg = plan->phases[CPU_FILTER].instrs[i].dst;

		if (read[reg])
			plan->carried[plan->ncarried++] = reg;
	}
	return true;
}

/* The value that tuples without the attribute have. */
static GsText
missing_value(const GpuScanLayout *layout, const GpuScanColumn *column)
{
	const GpuScanAttr *attr = &GPUSCAN_LAYOUT_ATTRS(layout)[column->attnum];
	const char *value = (const char *) layout + column->missing;
	GsText result = {NULL, 0};
	uint32_t total;

	if (column->missing == 0 || column->missing >= layout->size)
		return result;
	if (attr->len == -1)
	{
		if (gpuscan_cpu_varlena(value, layout->size - column->missing, &result, &total) !=
			CPU_VARLENA_PLAIN)
			result.p = NULL;
	}
	else if (attr->len > 0 && (uint32_t) attr->len <= layout->size - column->missing)
		result = (GsText){value, (uint32_t) attr->len};
	return result;
}

static int
compare_fetches(const void *a, const void *b)
{
	const CpuFetch *left = a;
	const CpuFetch *right = b;

	return (int) left->att - (int) right->att;
}

bool
gpuscan_cpu_decode_create(CpuDecode *decode, const GpuScanLayout *layout, const CpuPhase *phase)
{
	const GpuScanColumn *columns = GPUSCAN_LAYOUT_COLUMNS(layout);
	uint32_t offset = 0;

	decode->attrs = GPUSCAN_LAYOUT_ATTRS(layout);
	decode->fetches = calloc(phase->ninputs + 1, sizeof(CpuFetch));
	if (decode->fetches == NULL)
		return false;

	for (uint16_t i = 0; i < phase->ninputs; i++)
	{
		const GpuScanColumn *column = &columns[phase->inputs[i].column];

		if (i > 0 && phase->inputs[i].column == phase->inputs[i - 1].column)
			decode->fetches[decode->nfetches - 1].ninputs++;
		else
			decode->fetches[decode->nfetches++] =
				(CpuFetch){.att = column->attnum,
						   .first_input = i,
						   .ninputs = 1,
						   .missing = missing_value(layout, column)};
		if (column->attnum >= decode->natts)
			decode->natts = column->attnum + 1;
	}
	qsort(decode->fetches, decode->nfetches, sizeof(CpuFetch), compare_fetches);

	decode->fetch_of_att = malloc((decode->natts + 1) * sizeof(int16_t));
	if (decode->fetch_of_att == NULL)
		return false;
	for (int i = 0; i < decode->natts; i++)
		decode->fetch_of_att[i] = -1;
	for (int i = 0; i < decode->nfetches; i++)
		decode->fetch_of_att[decode->fetches[i].att] = (int16_t) i;

	for (; decode->nfixed < decode->natts; decode->nfixed++)
	{
		const GpuScanAttr *attr = &decode->attrs[decode->nfixed];
		int16_t fetch = decode->fetch_of_att[decode->nfixed];

		if (attr->len <= 0)
			break;
		offset = (offset + attr->align - 1) & ~((uint32_t) attr->align - 1);
		if (fetch >= 0)
		{
			decode->fetches[fetch].fixed = true;
			decode->fetches[fetch].offset = offset;
		}
		offset += (uint32_t) attr->len;
	}
	decode->fixed_size = offset;
	return true;
}

void
gpuscan_cpu_decode_free(CpuDecode *decode)
{
	free(decode->fetches);
	free(decode->fetch_of_att);
}

static bool
create_layouts(CpuPlan *plan, const GpuScanRequestOptions *options)
{
	plan->nlayouts = options->nlayouts;
	plan->layout_sources = options->layouts;
	plan->layouts = calloc((size_t) options->nlayouts + 1, sizeof(*plan->layouts));
	if (plan->layouts == NULL)
		return false;
	for (uint32_t i = 0; i < options->nlayouts; i++)
	{
		for (int phase = 0; phase < CPU_NUM_PHASES; phase++)
		{
			CpuDecode *decode = &plan->layouts[i][phase];

			if (!gpuscan_cpu_decode_create(decode, options->layouts[i], &plan->phases[phase]))
				return false;
			if (decode->nfetches > plan->max_fetches)
				plan->max_fetches = decode->nfetches;
		}
	}
	return true;
}

/* Aggregates whose states need more than copying at the end. */
static void
classify_aggregates(CpuPlan *plan)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(plan->program);

	for (int i = 0; i < plan->program->naggs; i++)
	{
		bool is_float = aggs[i].cls == GPUSCAN_F32 || aggs[i].cls == GPUSCAN_F64;

		switch (aggs[i].kind)
		{
			case GPUSCAN_AGG_SUM_F64:
			case GPUSCAN_AGG_SQUARES_F64:
				plan->needs_check = true;
				break;
			case GPUSCAN_AGG_MIN:
			case GPUSCAN_AGG_MAX:
				plan->needs_check |= is_float;
				break;
			case GPUSCAN_AGG_COUNT_DISTINCT:
				plan->ndistinct++;
				break;
			default:
				break;
		}
	}
}

CpuPlan *
gpuscan_cpu_plan_create(const GpuScanRequestOptions *options)
{
	CpuPlan *plan = calloc(1, sizeof(CpuPlan));

	if (plan == NULL)
		return NULL;
	plan->program = options->program;
	plan->pass = options->pass;
	plan->threads = options->threads;
	plan->nparts = 1;
	plan->tuples_expected = options->tuples_expected / plan->threads;
	plan->groups_expected = options->groups_expected;
	classify_aggregates(plan);
	plan->bits = calloc((size_t) plan->ndistinct + 1, sizeof(CpuBits));
	if (plan->bits == NULL || !create_phases(plan) || !create_layouts(plan, options))
	{
		gpuscan_cpu_plan_free(plan);
		return NULL;
	}
	plan->summarized = gpuscan_cpu_plan_is_summarized(plan);
	return plan;
}

void
gpuscan_cpu_plan_free(CpuPlan *plan)
{
	if (plan == NULL)
		return;
	for (uint32_t i = 0; plan->layouts != NULL && i < plan->nlayouts; i++)
	{
		for (int phase = 0; phase < CPU_NUM_PHASES; phase++)
			gpuscan_cpu_decode_free(&plan->layouts[i][phase]);
	}
	for (int i = 0; i < CPU_NUM_PHASES; i++)
	{
		free(plan->phases[i].inputs);
		free(plan->phases[i].instrs);
	}
	free(plan->layouts);
	free(plan->input_of_reg);
	free(plan->key_use);
	free(plan->domains);
	free(plan->bits);
	free(plan->carried);
	free(plan->last);
	free(plan);
}
