/*-------------------------------------------------------------------------
 *
 * codegen.c
 *	  From a Program and its layouts to CUDA C.
 *
 * The text is straight-line code over local variables, rN and fN being value
 * and flags of register N:
 *
 *	 decode_P_S		one function for each phase and shape of layout, which finds
 *					the attributes that the phase reads
 *	 Keys			a struct of a tuple's keys as words
 *	 k_run			for each tuple: decode what the filter needs, filter; decode the
 *					rest; make room in the group's tables; advance the states, those
 *					of groups by what is in a struct Found
 *	 k_rehash, k_rehash_pairs, k_anchor
 *					what the host runs when tuples wait for room
 *	 k_emit			group rows in the form of program.h
 *
 * All that varies between runs of one query (constants, members of IN lists,
 * values of missing attributes) is read from memory, so the text depends on
 * the shape of Program and layouts alone.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "codegen_impl.h"

const char *const gpuscan_cuda_types[GPUSCAN_NUM_CLASSES] = {
	"uint8_t", "int32_t", "int64_t", "gs_i128", "float", "double", "GsText"};
static const char *const class_names[GPUSCAN_NUM_CLASSES] = {"bool", "i32", "i64", "i128",
															 "f32",	 "f64", "text"};

/* The function of scalar.h behind an operation */
static const struct
{
	const char *fn;
	bool fails;
} functions[GPUSCAN_NUM_OPS] = {
#define GPUSCAN_UNARY(name, dst, a, fn) {#fn, false},
#define GPUSCAN_UNARY_E(name, dst, a, fn) {#fn, true},
#define GPUSCAN_BINARY(name, dst, a, b, fn) {#fn, false},
#define GPUSCAN_BINARY_E(name, dst, a, b, fn) {#fn, true},
#define GPUSCAN_SPECIAL(name, dst, a, b, c) {NULL, false},
#include "program/ops.h"
};

static bool
same_shape(const GpuScanLayout *a, const GpuScanLayout *b)
{
	const GpuScanAttr *x = GPUSCAN_LAYOUT_ATTRS(a);
	const GpuScanAttr *y = GPUSCAN_LAYOUT_ATTRS(b);

	if (a->natts != b->natts || a->ncolumns != b->ncolumns)
		return false;
	for (int i = 0; i < a->natts; i++)
	{
		if (x[i].len != y[i].len || x[i].align != y[i].align || x[i].column != y[i].column)
			return false;
	}
	return true;
}

/* Sorts the layouts by shape; false if there are too many. */
static bool
find_shapes(Generator *g, const GpuScanRequestOptions *options)
{
	for (uint32_t i = 0; i < options->nlayouts; i++)
	{
		uint32_t shape = 0;

		while (shape < g->nshapes &&
			   !same_shape(options->layouts[i], options->layouts[g->first_of_shape[shape]]))
			shape++;
		if (shape == CUDA_MAX_SHAPES)
			return false;
		if (shape == g->nshapes)
			g->first_of_shape[g->nshapes++] = i;
		g->source->shapes[i] = (uint16_t) shape;
	}
	return true;
}

/*
 * Decoding
 */

/*
 * A tuple without NULLs that has all attributes, as most have, is decoded by
 * code of its own: the leading attributes of fixed length lie at constant
 * offsets, behind them is one step for each attribute.  Any other is walked from
 * its start by walk_tuple, which is told where values go by a table.
 */
static void
emit_steps(Generator *g, const CpuDecode *decode)
{
	for (int att = decode->nfixed; att < decode->natts; att++)
	{
		const GpuScanAttr *attr = &decode->attrs[att];
		int16_t fetch = decode->fetch_of_att[att];
		char target[32] = "scratch";

		if (fetch >= 0)
			snprintf(target, sizeof(target), "v[%d]", decode->fetches[fetch].first_input);
		if (attr->len == -1)
			EMIT("\t\tf = walk_varlena(t, %d, %s, offset, %s);\n", attr->align,
				 fetch >= 0 ? "true" : "false", target);
		else if (attr->len == -2)
			EMIT("\t\tf = walk_cstring(t, %d, offset);\n", attr->align);
		else
			EMIT("\t\tf = walk_fixed(t, %d, %d, offset, %s);\n", attr->len, attr->align, target);
		EMIT("\t\tif (f == RECHECK)\n\t\t\treturn RECHECK;\n\t\tfault |= f;\n");
	}
}

static void
emit_decode(Generator *g, int phase, uint32_t shape)
{
	const CpuDecode *decode = &g->plan->layouts[g->first_of_shape[shape]][phase];
	int nvalues = g->plan->phases[phase].ninputs;

	EMIT("GS_TABLE int16_t value_of_%d_%u[] = {", phase, shape);
	for (int att = 0; att < decode->natts; att++)
	{
		int16_t fetch = decode->fetch_of_att[att];

		EMIT("%d, ", fetch < 0 ? -1 : decode->fetches[fetch].first_input);
	}
	EMIT("};\n\nGS_DEVICE uint32_t\ndecode_%d_%u(const Tuple &t, const char *layout, GsText "
		 "*v)\n{\n",
		 phase, shape);
	EMIT("\tuint32_t fault = 0;\n\n\tif (t.nulls == 0 && t.natts >= %d && t.size >= %u)\n\t{\n",
		 decode->natts, decode->fixed_size);
	EMIT("\t\tuint32_t offset = %u;\n\t\tuint32_t f;\n\t\tGsText scratch;\n\n", decode->fixed_size);
	for (int f = 0; f < decode->nfetches && decode->fetches[f].fixed; f++)
		EMIT("\t\tv[%d].p = t.data + %u;\n\t\tv[%d].len = %d;\n", decode->fetches[f].first_input,
			 decode->fetches[f].offset, decode->fetches[f].first_input,
			 decode->attrs[decode->fetches[f].att].len);
	emit_steps(g, decode);
	EMIT("\t}\n\telse\n\t{\n\t\tGsText w[%d];\n\n"
		 "\t\tfault = walk_tuple(t, layout, value_of_%d_%u, %d, w);\n",
		 nvalues, phase, shape, decode->natts);
	for (int f = 0; f < decode->nfetches; f++)
	{
		int value = decode->fetches[f].first_input;

		EMIT("\t\tv[%d].p = w[%d].p;\n\t\tv[%d].len = w[%d].len;\n", value, value, value, value);
	}
	EMIT("\t}\n\treturn fault;\n}\n\n");
}

/* The alignment that a column has in every shape */
static int
column_align(const Generator *g, int phase, uint16_t first_input)
{
	int align = 8;

	for (uint32_t s = 0; s < g->nshapes; s++)
	{
		const CpuDecode *decode = &g->plan->layouts[g->first_of_shape[s]][phase];

		for (int f = 0; f < decode->nfetches; f++)
		{
			if (decode->fetches[f].first_input == first_input &&
				decode->attrs[decode->fetches[f].att].align < align)
				align = decode->attrs[decode->fetches[f].att].align;
		}
	}
	return align;
}

static void
emit_input(Generator *g, int phase, const GpuScanInput *input, int value)
{
	int align = column_align(g, phase, (uint16_t) value);
	int r = input->reg;
	const char *stored = NULL;
	int width = 0;

	EMIT("\t%s r%d = %s;\n\tuint8_t f%d = GPUSCAN_NULL;\n", gpuscan_cuda_types[g->classes[r]], r,
		 g->classes[r] == GPUSCAN_TEXT ? "{0, 0}" : "0", r);
	EMIT("\tif (v[%d].p)\n\t{\n\t\tf%d = 0;\n", value, r);
	switch ((GpuScanDecode) input->decode)
	{
		case GPUSCAN_DECODE_BOOL:
			EMIT("\t\tr%d = *v[%d].p != 0;\n", r, value);
			break;
		case GPUSCAN_DECODE_INT2:
			stored = "int16_t";
			width = 2;
			break;
		case GPUSCAN_DECODE_INT4:
		case GPUSCAN_DECODE_FLOAT4:
			stored = gpuscan_cuda_types[g->classes[r]];
			width = 4;
			break;
		case GPUSCAN_DECODE_INT8:
		case GPUSCAN_DECODE_FLOAT8:
			stored = gpuscan_cuda_types[g->classes[r]];
			width = 8;
			break;
		case GPUSCAN_DECODE_DEC64:
		case GPUSCAN_DECODE_DEC128:
			EMIT("\t\tf%d = numeric_to_%s(v[%d], %d, &r%d);\n", r, class_names[g->classes[r]],
				 value, input->scale, r);
			break;
		case GPUSCAN_DECODE_DSCALE:
			EMIT("\t\tf%d = numeric_dscale(v[%d], &r%d);\n", r, value, r);
			break;
		case GPUSCAN_DECODE_TEXT:
			EMIT("\t\tr%d = v[%d];\n", r, value);
			break;
	}
	if (stored != NULL)
		EMIT("\t\tr%d = %s<%s>(v[%d].p);\n", r, align >= width ? "load" : "load_unaligned", stored,
			 value);
	EMIT("\t}\n");
}

/* Decodes the phase's inputs, and returns from the tuple with its fault. */
static void
emit_inputs(Generator *g, int phase)
{
	const CpuPhase *inputs = &g->plan->phases[phase];
	int value = 0;

	if (inputs->ninputs == 0)
		return;
	EMIT("\tGsText v%d[%d];\n\tuint32_t fault%d = 0;\n", phase, inputs->ninputs, phase);
	if (g->nshapes == 1)
		EMIT("\tfault%d = decode_%d_0(t, layout, v%d);\n", phase, phase, phase);
	else
	{
		EMIT("\tswitch (block.shape)\n\t{\n");
		for (uint32_t s = 0; s < g->nshapes; s++)
			EMIT("\t\tcase %u:\n\t\t\tfault%d = decode_%d_%u(t, layout, v%d);\n\t\t\tbreak;\n", s,
				 phase, phase, s, phase);
		EMIT("\t}\n");
	}
	EMIT("\tif (fault%d)\n\t\treturn fault%d;\n", phase, phase);
	EMIT("#define v v%d\n", phase);
	for (int i = 0; i < inputs->ninputs; i++)
	{
		if (i > 0 && inputs->inputs[i].column != inputs->inputs[i - 1].column)
			value = i;
		emit_input(g, phase, &inputs->inputs[i], value);
	}
	EMIT("#undef v\n");
}

void
gpuscan_cuda_emit_params(Generator *g)
{
	const GpuScanParam *params = GPUSCAN_PARAMS(g->program);

	for (int i = 0; i < g->program->nparams; i++)
	{
		static const char *const values[GPUSCAN_NUM_CLASSES] = {
			"(uint8_t) (params[%d].lo != 0)",
			"(int32_t) (uint32_t) params[%d].lo",
			"(int64_t) params[%d].lo",
			"wide(params[%d].lo, params[%d].hi)",
			"bits_as<float>((uint32_t) params[%d].lo)",
			"bits_as<double>(params[%d].lo)",
			"text_param(program, &params[%d])"};
		int r = params[i].reg;
		char value[80];

		/* one of them names the parameter twice */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
		snprintf(value, sizeof(value), values[g->classes[r]], i, i);
#pragma GCC diagnostic pop
		EMIT("\tconst %s r%d = %s;\n\tconst uint8_t f%d = (uint8_t) params[%d].flags;\n",
			 gpuscan_cuda_types[g->classes[r]], r, value, r, i);
	}
}

/*
 * Instructions
 */
static void
emit_any(Generator *g, const GpuScanInstr *instr, unsigned cls)
{
	int d = instr->dst;
	int a = instr->a;

	EMIT("\tconst GpuScanSet *set%d = &sets[%d];\n", d, instr->aux);
	if (cls == GPUSCAN_TEXT)
		EMIT("\tuint8_t r%d = f%d == 0 && gs_text_any(r%d, program, (const uint32_t *) (program + "
			 "set%d->offset), set%d->n);\n",
			 d, a, a, d, d);
	else
		EMIT("\tuint8_t r%d = f%d == 0 && gs_%s_any(r%d, program + set%d->offset, set%d->n);\n", d,
			 a, class_names[cls], a, d, d);
	EMIT("\tuint8_t f%d = any_flags(f%d, r%d, set%d);\n", d, a, d, d);
}

static void
emit_find(Generator *g, const GpuScanInstr *instr, unsigned cls)
{
	int d = instr->dst;
	int a = instr->a;

	EMIT("\tconst GpuScanSet *set%d = &sets[%d];\n", d, instr->aux);
	if (cls == GPUSCAN_TEXT)
		EMIT("\tint32_t r%d = f%d == 0 ? gs_text_find(r%d, program, (const uint32_t *) (program + "
			 "set%d->offset), set%d->n, (const uint32_t *) (program + set%d->slots)) : set%d->n;\n",
			 d, a, a, d, d, d, d);
	else
		EMIT("\tint32_t r%d = f%d == 0 ? gs_%s_find(r%d, program + set%d->offset, set%d->n) : "
			 "set%d->n;\n",
			 d, a, class_names[cls], a, d, d, d);
	EMIT("\tuint8_t f%d = gs_find_flags(f%d, r%d, set%d->n);\n", d, a, d, d);
}

static void
emit_take(Generator *g, const GpuScanInstr *instr, unsigned cls)
{
	int d = instr->dst;
	int a = instr->a;

	EMIT("\tconst GpuScanList *list%d = (const GpuScanList *) (program + %u) + %d;\n", d,
		 g->program->lists, instr->aux);
	if (cls == GPUSCAN_TEXT)
		EMIT("\tGsText r%d = gs_text_take(r%d, program, (const uint32_t *) (program + "
			 "list%d->values), list%d->n);\n",
			 d, a, d, d);
	else
		EMIT("\t%s r%d = gs_%s_take(r%d, program + list%d->values, list%d->n);\n",
			 gpuscan_cuda_types[cls], d, class_names[cls], a, d, d);
	EMIT("\tuint8_t f%d = gs_take_flags(f%d, r%d, program + list%d->flags, list%d->n);\n", d, a, a,
		 d, d);
}

static void
emit_special(Generator *g, const GpuScanInstr *instr)
{
	int d = instr->dst;
	int a = instr->a;
	int b = instr->b;
	int c = instr->c;
	unsigned cls = g->classes[d];
	const char *type = gpuscan_cuda_types[cls];

	switch (instr->op)
	{
		case GPUSCAN_OP_AND:
		case GPUSCAN_OP_OR:
			EMIT("\tuint8_t f%d;\n\tuint8_t r%d = logic(r%d, f%d, r%d, f%d, %d, f%d);\n", d, d, a,
				 a, b, b, instr->op == GPUSCAN_OP_OR, d);
			return;
		case GPUSCAN_OP_IS_NULL:
			EMIT("\tuint8_t r%d = f%d == GPUSCAN_NULL;\n", d, a);
			break;
		case GPUSCAN_OP_IS_NOT_NULL:
			EMIT("\tuint8_t r%d = f%d == 0;\n", d, a);
			break;
		case GPUSCAN_OP_IS_TRUE:
			EMIT("\tuint8_t r%d = f%d == 0 && r%d;\n", d, a, a);
			break;
		case GPUSCAN_OP_IS_NOT_TRUE:
			EMIT("\tuint8_t r%d = !(f%d == 0 && r%d);\n", d, a, a);
			break;
		case GPUSCAN_OP_IS_FALSE:
			EMIT("\tuint8_t r%d = f%d == 0 && !r%d;\n", d, a, a);
			break;
		case GPUSCAN_OP_IS_NOT_FALSE:
			EMIT("\tuint8_t r%d = !(f%d == 0 && !r%d);\n", d, a, a);
			break;
		case GPUSCAN_OP_IS_DISTINCT:
			EMIT("\tuint8_t f%d;\n\tuint8_t r%d = distinct(f%d, f%d, r%d, f%d, f%d);\n", d, d, a, b,
				 c, c, d);
			return;
		default:
			if (gpuscan_ops[instr->op].list)
				emit_take(g, instr, cls);
			else if (instr->op >= GPUSCAN_OP_FIND_I32 && instr->op <= GPUSCAN_OP_FIND_TEXT)
				emit_find(g, instr, gpuscan_ops[instr->op].src[0]);
			else if (gpuscan_ops[instr->op].set)
				emit_any(g, instr, gpuscan_ops[instr->op].src[0]);
			else if (instr->op >= GPUSCAN_OP_SELECT_BOOL && instr->op <= GPUSCAN_OP_SELECT_TEXT)
			{
				EMIT("\t%s r%d = f%d == 0 && r%d ? r%d : r%d;\n", type, d, a, a, b, c);
				EMIT("\tuint8_t f%d = f%d == GPUSCAN_ERROR ? GPUSCAN_ERROR : f%d == 0 && r%d ? f%d "
					 ": "
					 "f%d;\n",
					 d, a, a, a, b, c);
			}
			else if (instr->op >= GPUSCAN_OP_COALESCE_BOOL && instr->op <= GPUSCAN_OP_COALESCE_TEXT)
			{
				EMIT("\t%s r%d = f%d == GPUSCAN_NULL ? r%d : r%d;\n", type, d, a, b, a);
				EMIT("\tuint8_t f%d = f%d == GPUSCAN_NULL ? f%d : f%d;\n", d, a, b, a);
			}
			else if (instr->op >= GPUSCAN_OP_NULLIF_BOOL && instr->op <= GPUSCAN_OP_NULLIF_TEXT)
			{
				EMIT("\t%s r%d = r%d;\n", type, d, a);
				EMIT("\tuint8_t f%d = (f%d | f%d) & GPUSCAN_ERROR ? GPUSCAN_ERROR : f%d == 0 && "
					 "f%d == "
					 "0 && r%d ? GPUSCAN_NULL : f%d;\n",
					 d, a, b, a, b, b, a);
			}
			else
			{
				bool least = instr->op >= GPUSCAN_OP_LEAST_I32 && instr->op <= GPUSCAN_OP_LEAST_F64;

				EMIT("\t%s r%d;\n\tgs_%s_%s(r%d, r%d, &r%d);\n", type, d, class_names[cls],
					 least ? "least" : "greatest", a, b, d);
				EMIT("\tr%d = f%d == GPUSCAN_NULL ? r%d : r%d;\n", d, a, b, d);
				EMIT("\tr%d = f%d == GPUSCAN_NULL ? r%d : r%d;\n", d, b, a, d);
				EMIT(
					"\tuint8_t f%d = ((f%d | f%d) & GPUSCAN_ERROR) | (f%d & f%d & GPUSCAN_NULL);\n",
					d, a, b, a, b);
			}
			return;
	}
	EMIT("\tuint8_t f%d = f%d & GPUSCAN_ERROR;\n", d, a);
}

void
gpuscan_cuda_emit_instr(Generator *g, const GpuScanInstr *instr)
{
	const char *fn = functions[instr->op].fn;
	bool binary = gpuscan_ops[instr->op].src[1] != GPUSCAN_NONE;
	int d = instr->dst;
	char operands[32];
	char flags[32];

	if (fn == NULL)
	{
		emit_special(g, instr);
		return;
	}
	snprintf(operands, sizeof(operands), binary ? "r%d, r%d" : "r%d", instr->a, instr->b);
	snprintf(flags, sizeof(flags), binary ? "f%d | f%d" : "f%d", instr->a, instr->b);
	EMIT("\t%s r%d;\n", gpuscan_cuda_types[g->classes[d]], d);
	if (functions[instr->op].fails)
		EMIT("\tuint8_t f%d = %s(%s, &r%d);\n\tf%d = strict(%s, f%d);\n", d, fn, operands, d, d,
			 flags, d);
	else
		EMIT("\t%s(%s, &r%d);\n\tuint8_t f%d = strict(%s, 0);\n", fn, operands, d, d, flags);
}

static void
emit_phase(Generator *g, int phase)
{
	emit_inputs(g, phase);
	for (int i = 0; i < g->plan->phases[phase].ninstrs; i++)
		gpuscan_cuda_emit_instr(g, &g->plan->phases[phase].instrs[i]);
}

/*
 * Keys
 */
static void
emit_key_struct(Generator *g, bool in_slots)
{
	const GpuScanProgram *p = g->program;
	const GpuScanKey *keys = GPUSCAN_KEYS(p);

	EMIT("struct Keys\n{\n\tstatic const uint32_t row_size = %u;\n\tuint32_t nulls;\n",
		 g->source->row_size);
	for (int k = 0; k < p->nkeys; k++)
	{
		EMIT("\tuint64_t k%d;\n", k);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\tuint64_t h%d;\n", k);
		if (keys[k].cls == GPUSCAN_TEXT)
			EMIT("\tGsText t%d;\n", k);
	}
	EMIT("\tGS_MEMBER bool keep_texts(const CudaLaunch &launch)\n\t{\n\t\tbool ok = true;\n");
	for (int k = 0; k < p->nkeys; k++)
	{
		if (keys[k].cls == GPUSCAN_TEXT)
			EMIT("\t\tok = ok && ((nulls & %uU) || keep_text(launch, t%d, k%d));\n", 1U << k, k, k);
	}
	EMIT("\t\treturn ok;\n\t}\n\tGS_MEMBER void write(char *row) const\n\t{\n");
	for (int k = 0; k < p->nkeys; k++)
	{
		EMIT("\t\t*(uint64_t *) (row + %u) = k%d;\n", g->key_offsets[k], k);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\t\t*(uint64_t *) (row + %u) = h%d;\n", g->key_offsets[k] + 8, k);
	}
	EMIT("\t}\n\tGS_MEMBER bool equals(const CudaLaunch &launch, const char *row) const\n\t{\n");
	EMIT("\t\tbool same = *(const uint32_t *) row == nulls;\n");
	for (int k = 0; k < p->nkeys; k++)
	{
		char word[48];

		snprintf(word, sizeof(word), "*(const uint64_t *) (row + %u)", g->key_offsets[k]);
		if (keys[k].cls == GPUSCAN_TEXT)
			EMIT("\t\tsame = same && ((nulls & %uU) || gs_text_is_equal(kept_text(launch, %s), "
				 "t%d));\n",
				 1U << k, word, k);
		else
			EMIT("\t\tsame = same && %s == k%d;\n", word, k);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\t\tsame = same && *(const uint64_t *) (row + %u) == h%d;\n",
				 g->key_offsets[k] + 8, k);
	}
	EMIT("\t\treturn same;\n\t}\n");
	if (in_slots)
		gpuscan_cuda_emit_slot_keys(g);
	EMIT("};\n\n");
}

/* Fills `keys`, but for texts. */
void
gpuscan_cuda_emit_keys(Generator *g)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(g->program);

	EMIT("\tKeys keys;\n\tkeys.nulls = 0;\n");
	for (int k = 0; k < g->program->nkeys; k++)
	{
		int r = keys[k].reg;

		EMIT("\tif (f%d == GPUSCAN_ERROR)\n\t\treturn RECHECK;\n", r);
		EMIT("\tkeys.nulls |= f%d ? %uU : 0;\n", r, 1U << k);
		if (keys[k].cls == GPUSCAN_TEXT)
			EMIT("\tkeys.k%d = 0;\n", k);
		else if (keys[k].cls == GPUSCAN_I128)
			EMIT(
				"\tkeys.k%d = f%d ? 0 : (uint64_t) r%d;\n\tkeys.h%d = f%d ? 0 : (uint64_t) (r%d >> "
				"64);\n",
				k, r, r, k, r, r);
		else if (is_float(keys[k].cls))
		{
			EMIT("\tkeys.k%d = f%d ? 0 : float_word(r%d);\n", k, r, r);
			EMIT("\tif (keys.k%d == NEGATIVE_ZERO)\n\t\treturn RECHECK;\n", k);
		}
		else
			EMIT("\tkeys.k%d = f%d ? 0 : (uint64_t) (int64_t) r%d;\n", k, r, r);
	}
}

/* Finds the row of the group, where `row` is declared. */
void
gpuscan_cuda_emit_find_row(Generator *g)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(g->program);

	for (int k = 0; k < g->program->nkeys; k++)
	{
		int r = keys[k].reg;

		if (keys[k].cls == GPUSCAN_TEXT)
			EMIT("\tkeys.t%d = r%d;\n\tif (f%d)\n\t\tkeys.t%d.len = 0;\n", k, r, r, k);
	}
	EMIT("\tuint64_t hash = keys.nulls;\n");
	for (int k = 0; k < g->program->nkeys; k++)
	{
		EMIT("\thash = mix(hash, keys.%c%d);\n", keys[k].cls == GPUSCAN_TEXT ? 't' : 'k', k);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\thash = mix(hash, keys.h%d);\n", k);
	}
	EMIT("\tif (((uint32_t) hash & launch.pass_mask) != launch.pass)\n\t\treturn PASSED;\n");
	EMIT("\trow = find_row(launch, keys, (uint32_t) (hash >> 32));\n");
	EMIT("\tif (row == NO_ROW)\n\t\treturn CUDA_TUPLE_WAITS;\n");
}

/*
 * Aggregates
 */

/* sI: aggregate I sees the tuple and its argument is not NULL.  Errors end it all. */
void
gpuscan_cuda_emit_selections(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	for (int i = 0; i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];

		if (agg->filter == GPUSCAN_NO_REGISTER)
			EMIT("\tbool s%d = true;\n", i);
		else
			EMIT(
				"\tif (f%d == GPUSCAN_ERROR)\n\t\treturn RECHECK;\n\tbool s%d = f%d == 0 && r%d;\n",
				agg->filter, i, agg->filter, agg->filter);
		if (agg->arg != GPUSCAN_NO_REGISTER)
			EMIT("\tif (s%d && f%d == GPUSCAN_ERROR)\n\t\treturn RECHECK;\n\ts%d = s%d && f%d == "
				 "0;\n",
				 i, agg->arg, i, i, agg->arg);
	}
}

void
gpuscan_cuda_emit_local_advance(Generator *g, int i)
{
	const GpuScanAgg *agg = &GPUSCAN_AGGS(g->program)[i];
	const char *minmax = agg->kind == GPUSCAN_AGG_MIN ? "true" : "false";
	const char *cast = is_float(agg->cls)		  ? "(double) "
					   : agg->cls == GPUSCAN_I128 ? ""
												  : "(int64_t) ";

	if (agg->kind == GPUSCAN_AGG_COUNT_DISTINCT)
		return;
	EMIT("\tif (s%d)\n\t\t", i);
	switch ((GpuScanAggKind) agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
			EMIT("a%d.n++;\n", i);
			break;
		case GPUSCAN_AGG_SUM_I64:
		case GPUSCAN_AGG_SUM_I128:
		case GPUSCAN_AGG_SUM_F64:
			EMIT("bad |= local_sum(a%d, r%d);\n", i, agg->arg);
			break;
		case GPUSCAN_AGG_SQUARES_I128:
		case GPUSCAN_AGG_SQUARES_F64:
			EMIT("bad |= local_squares(a%d, r%d);\n", i, agg->arg);
			break;
		case GPUSCAN_AGG_MIN:
		case GPUSCAN_AGG_MAX:
			EMIT("local_extremum<%s>(a%d, %sr%d);\n", minmax, i, cast, agg->arg);
			break;
		case GPUSCAN_AGG_BOOL_AND:
		case GPUSCAN_AGG_BIT_AND:
			EMIT("local_and(a%d, r%d);\n", i, agg->arg);
			break;
		default:
			EMIT("local_or(a%d, r%d);\n", i, agg->arg);
			break;
	}
}

void
gpuscan_cuda_emit_row(Generator *g, bool local, bool advances)
{
	EMIT("\tchar *p = (char *) launch.table.rows + (uint64_t) row * %uU;\n", g->source->row_size);
	if (advances)
		EMIT("\tfound.row = row;\n");
	gpuscan_cuda_emit_prepare(g);
	if (!local)
	{
		gpuscan_cuda_emit_found(g);
		return;
	}
	EMIT("\tbool bad = false;\n");
	for (int i = 0; i < g->program->naggs; i++)
		gpuscan_cuda_emit_local_advance(g, i);
	EMIT("\tif (bad)\n\t\treturn RECHECK;\n");
}

/* Merges the local states of a thread block into its partial row. */
void
gpuscan_cuda_emit_local_merge(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("\tchar *partial = (char *) launch.partials + (uint64_t) blockIdx.x * %uU;\n",
		 g->program->row_size);
	for (int i = 0; i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		const char *merge = "MergeSum";

		switch ((GpuScanAggKind) agg->kind)
		{
			case GPUSCAN_AGG_COUNT:
				merge = "MergeCount";
				break;
			case GPUSCAN_AGG_MIN:
				merge = is_float(agg->cls) ? "MergeFloatExtremum<true>" : "MergeExtremum<true>";
				break;
			case GPUSCAN_AGG_MAX:
				merge = is_float(agg->cls) ? "MergeFloatExtremum<false>" : "MergeExtremum<false>";
				break;
			case GPUSCAN_AGG_BOOL_AND:
			case GPUSCAN_AGG_BIT_AND:
				merge = "MergeAnd";
				break;
			case GPUSCAN_AGG_BOOL_OR:
			case GPUSCAN_AGG_BIT_OR:
				merge = "MergeOr";
				break;
			case GPUSCAN_AGG_COUNT_DISTINCT:
				continue;
			default:
				break;
		}
		EMIT("\tmerge_block<%s>(launch, a%d, pages, partial + %u);\n", merge, i, agg->offset);
	}
}

/*
 * Kernels
 */
static void
emit_run(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);
	bool local = p->aggregate && p->nkeys == 0;
	bool advances = p->nkeys > 0 || g->source->ndistinct > 0;

	if (advances)
		gpuscan_cuda_emit_found_struct(g, local);
	EMIT("extern \"C\" __global__ void __launch_bounds__(CUDA_THREADS, 65536 / 64 / CUDA_THREADS)\n"
		 "k_run(const __grid_constant__ CudaLaunch launch)\n{\n"
		 "\t__shared__ __align__(16) char pages[CUDA_WARPS * CUDA_PAGE_SIZE];\n"
		 "\tconst char *program = (const char *) launch.program;\n"
		 "\tconst GpuScanParam *params = (const GpuScanParam *) (program + %u);\n"
		 "\tconst GpuScanSet *sets = (const GpuScanSet *) (program + %u);\n",
		 p->params, p->sets);
	for (int i = 0; local && i < p->naggs; i++)
		EMIT("\t%s a%d = {};\n", gpuscan_cuda_state_type(&aggs[i]), i);
	EMIT("\trun_blocks<%s, %s>(launch, pages,\n"
		 "\t[&](const Tuple &t, const CudaBlock &block, auto &found) -> uint32_t\n"
		 "\t{\n\tconst char *layout = ((const char *const *) launch.layouts)[block.layout];\n",
		 p->aggregate ? "false" : "true", advances ? "Found" : "NothingFound");

	gpuscan_cuda_emit_params(g);
	emit_phase(g, CPU_FILTER);
	if (p->filter != GPUSCAN_NO_REGISTER)
		EMIT("\tif (f%d == GPUSCAN_ERROR)\n\t\treturn RECHECK;\n\tif (f%d || !r%d)\n\t\treturn "
			 "REJECTED;\n",
			 p->filter, p->filter, p->filter);
	if (p->aggregate)
	{
		emit_phase(g, CPU_REST);
		gpuscan_cuda_emit_selections(g);
		EMIT("\tuint32_t row = 0;\n");
		if (!local)
		{
			gpuscan_cuda_emit_keys(g);
			gpuscan_cuda_emit_find_row(g);
		}
		gpuscan_cuda_emit_row(g, local, advances);
	}
	EMIT("\treturn PASSED;\n\t},\n\t[&](const auto &found)\n\t{\n");
	if (advances)
		gpuscan_cuda_emit_advance(g, local);
	EMIT("\t});\n");
	if (local)
		gpuscan_cuda_emit_local_merge(g);
	EMIT("}\n\n");
}

/* A module: the kernel over tuples, and all that its request may need besides */
static void
emit_source(Generator *g, CudaKind kind)
{
	const GpuScanProgram *p = g->program;
	bool in_slots = kind == CUDA_CACHED && g->source->nslots > 0;

	if (kind == CUDA_CACHED)
		gpuscan_cuda_emit_cached_head(g);
	else
		EMIT("#include \"kernel.h\"\n\n");
	for (uint32_t shape = 0; kind == CUDA_PAGES && shape < g->nshapes; shape++)
	{
		for (int phase = 0; phase < CPU_NUM_PHASES; phase++)
		{
			if (g->plan->phases[phase].ninputs > 0)
				emit_decode(g, phase, shape);
		}
	}
	if (p->nkeys > 0)
		emit_key_struct(g, in_slots);
	if (kind == CUDA_CACHED && p->aggregate)
		gpuscan_cuda_emit_cached(g);
	else if (kind == CUDA_CACHED)
		gpuscan_cuda_emit_seek(g);
	else
		emit_run(g);
	if (p->nkeys > 0)
	{
		gpuscan_cuda_emit_rehash(g);
		gpuscan_cuda_emit_emit(g);
	}
	if (g->source->ndistinct > 0)
		gpuscan_cuda_emit_rehash_pairs(g);
	if (g->source->has_sums)
		gpuscan_cuda_emit_anchor(g);
}

GpuScanCode
gpuscan_cuda_source_create(CudaSource *source, const CpuPlan *plan,
						   const GpuScanRequestOptions *options)
{
	const GpuScanProgram *p = plan->program;
	Generator *g = calloc(1, sizeof(Generator));
	GpuScanCode code = GPUSCAN_OK;

	memset(source, 0, sizeof(*source));
	source->generator = g;
	source->shapes = calloc(options->nlayouts + 1, sizeof(uint16_t));
	source->distinct = calloc((size_t) p->naggs + 1, sizeof(CudaSourceDistinct));
	if (g == NULL || source->shapes == NULL || source->distinct == NULL)
		return GPUSCAN_OUT_OF_MEMORY;
	g->plan = plan;
	g->program = p;
	g->classes = GPUSCAN_REG_CLASSES(p);
	g->source = source;
	g->places = calloc((size_t) p->naggs + 1, sizeof(AggPlace));
	g->key_offsets = calloc((size_t) p->nkeys + 1, sizeof(uint32_t));
	if (g->places == NULL || g->key_offsets == NULL)
		code = GPUSCAN_OUT_OF_MEMORY;
	else if (options->nlayouts > UINT16_MAX || !find_shapes(g, options))
		code = GPUSCAN_LEFT_TO_POSTGRES;
	else
	{
		gpuscan_cuda_place_states(g);
		gpuscan_cuda_place_cached(g);
	}
	return code;
}

char *
gpuscan_cuda_source_text(const CudaSource *source, CudaKind kind)
{
	Generator *g = source->generator;
	char *text = NULL;
	size_t size;

	g->out = open_memstream(&text, &size);
	if (g->out == NULL)
		return NULL;
	emit_source(g, kind);
	if (fclose(g->out) != 0)
	{
		free(text);
		return NULL;
	}
	return text;
}

void
gpuscan_cuda_source_free(CudaSource *source)
{
	if (source->generator != NULL)
	{
		free(source->generator->places);
		free(source->generator->key_offsets);
	}
	free(source->generator);
	free(source->shapes);
	free(source->distinct);
	memset(source, 0, sizeof(*source));
}
