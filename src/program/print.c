/*-------------------------------------------------------------------------
 *
 * print.c
 *	  A readable listing of a Program:
 *
 *		aggregation: 4 registers, row of 32 bytes
 *		r0 i32 = column 0 int4
 *		r1 i32 = param 10
 *		r2 bool = I32_LT r0, r1
 *		r3 bool = ANY_EQ_I32 r0, set 0 of 3
 *		filter r2
 *		key 0 i32 = r0 at 8
 *		agg 0 i64 = count(*) at 16 where r3
 *
 * The Program has passed gpuscan_program_check.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program/op.h"
#include "scalar.h"

typedef struct Listing
{
	char *buf;
	size_t size;
	size_t len; /* of the whole listing, which may be more than buf holds */
} Listing;

static void __attribute__((format(printf, 2, 3))) append(Listing *listing, const char *format, ...)
{
	size_t used = listing->len < listing->size ? listing->len : listing->size;
	va_list args;

	va_start(args, format);
	listing->len += (size_t) vsnprintf(listing->size > used ? listing->buf + used : NULL,
									   listing->size - used, format, args);
	va_end(args);
}

static void
append_i128(Listing *listing, uint64_t lo, uint64_t hi)
{
	gs_i128 value = (gs_i128) ((gs_u128) hi << 64 | lo);
	gs_u128 rest = gs_u128_abs(value);
	char digits[40];
	int i = sizeof(digits) - 1;

	digits[i] = '\0';
	do
	{
		digits[--i] = (char) ('0' + (int) (rest % 10));
		rest /= 10;
	} while (rest != 0);
	append(listing, "%s%s", value < 0 ? "-" : "", digits + i);
}

static void
append_text(Listing *listing, const char *text, uint32_t len)
{
	append(listing, "'");
	for (uint32_t i = 0; i < len; i++)
	{
		if (isprint((unsigned char) text[i]) && text[i] != '\'' && text[i] != '\\')
			append(listing, "%c", text[i]);
		else
			append(listing, "\\x%02x", (unsigned char) text[i]);
	}
	append(listing, "'");
}

static void
append_param(Listing *listing, const GpuScanProgram *p, const GpuScanParam *param)
{
	float f32;
	double f64;

	append(listing, "param ");
	if (param->flags & GPUSCAN_NULL)
	{
		append(listing, "NULL");
		return;
	}
	switch (GPUSCAN_REG_CLASSES(p)[param->reg])
	{
		case GPUSCAN_BOOL:
			append(listing, "%s", param->lo ? "true" : "false");
			break;
		case GPUSCAN_I32:
			append(listing, "%d", (int32_t) param->lo);
			break;
		case GPUSCAN_I64:
			append(listing, "%lld", (long long) param->lo);
			break;
		case GPUSCAN_I128:
			append_i128(listing, param->lo, param->hi);
			break;
		case GPUSCAN_F32:
			memcpy(&f32, &param->lo, sizeof(f32));
			append(listing, "%.9g", (double) f32);
			break;
		case GPUSCAN_F64:
			memcpy(&f64, &param->lo, sizeof(f64));
			append(listing, "%.17g", f64);
			break;
		default:
			append_text(listing, (const char *) p + param->lo, param->len);
			break;
	}
}

/* "r5 i64 = ", of the register that a line defines */
static void
append_register(Listing *listing, const GpuScanProgram *p, uint16_t reg)
{
	append(listing, "r%u %s = ", reg, gpuscan_class_name(GPUSCAN_REG_CLASSES(p)[reg]));
}

static void
append_instr(Listing *listing, const GpuScanProgram *p, const GpuScanInstr *instr)
{
	const GpuScanOpInfo *op = &gpuscan_ops[instr->op];
	const uint16_t operands[3] = {instr->a, instr->b, instr->c};

	append_register(listing, p, instr->dst);
	append(listing, "%s", op->name);
	for (int i = 0; i < 3; i++)
	{
		if (op->src[i] != GPUSCAN_NONE)
			append(listing, "%s r%u", i > 0 ? "," : "", operands[i]);
	}
	if (op->set)
		append(listing, ", set %u of %u%s", instr->aux, GPUSCAN_SETS(p)[instr->aux].n,
			   GPUSCAN_SETS(p)[instr->aux].has_null ? " and NULL" : "");
	if (op->list)
		append(listing, ", list %u of %u", instr->aux, GPUSCAN_LISTS(p)[instr->aux].n);
	append(listing, "\n");
}

size_t
gpuscan_program_print(const GpuScanProgram *p, char *buf, size_t size)
{
	Listing listing = {buf, size, 0};

	append(&listing, "%s: %u registers", p->aggregate ? "aggregation" : "scan", p->nregs);
	if (p->aggregate)
		append(&listing, ", row of %u bytes", p->row_size);
	append(&listing, "\n");
	for (int i = 0; i < p->ninputs; i++)
	{
		const GpuScanInput *input = &GPUSCAN_INPUTS(p)[i];

		append_register(&listing, p, input->reg);
		append(&listing, "column %u %s", input->column, gpuscan_decode_name(input->decode));
		if (input->decode == GPUSCAN_DECODE_DEC64 || input->decode == GPUSCAN_DECODE_DEC128)
			append(&listing, " scale %u", input->scale);
		append(&listing, "\n");
	}
	for (int i = 0; i < p->nparams; i++)
	{
		append_register(&listing, p, GPUSCAN_PARAMS(p)[i].reg);
		append_param(&listing, p, &GPUSCAN_PARAMS(p)[i]);
		append(&listing, "\n");
	}
	for (int i = 0; i < p->ninstrs; i++)
		append_instr(&listing, p, &GPUSCAN_INSTRS(p)[i]);
	if (p->filter != GPUSCAN_NO_REGISTER)
		append(&listing, "filter r%u\n", p->filter);
	for (int i = 0; i < p->nkeys; i++)
	{
		const GpuScanKey *key = &GPUSCAN_KEYS(p)[i];

		append(&listing, "key %d %s = r%u at %u\n", i, gpuscan_class_name(key->cls), key->reg,
			   key->offset);
	}
	for (int i = 0; i < p->naggs; i++)
	{
		const GpuScanAgg *agg = &GPUSCAN_AGGS(p)[i];

		append(&listing, "agg %d %s = %s", i, gpuscan_class_name(agg->cls),
			   gpuscan_agg_name(agg->kind));
		if (agg->arg == GPUSCAN_NO_REGISTER)
			append(&listing, "(*)");
		else
			append(&listing, "(r%u)", agg->arg);
		append(&listing, " at %u", agg->offset);
		if (agg->filter != GPUSCAN_NO_REGISTER)
			append(&listing, " where r%u", agg->filter);
		append(&listing, "\n");
	}
	return listing.len;
}
