/*-------------------------------------------------------------------------
 *
 * codegen_cached.c
 *	  The text of the kernel over cached columns, k_cached.
 *
 * As k_run, but that registers are loaded from chunks, in two steps: first the
 * words of all inputs are fetched, then values are made of them.  With a filter
 * the text has its phase twice: for the rows that a warp looks at, and for those
 * that it keeps, where the compiler drops what nobody needs any more.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "codegen_impl.h"
#include "launch.h"

/* Bytes of a warp's largest struct Queue; of the largest of aggregate.h's states */
#define QUEUE_SIZE 1024
#define STATE_SIZE sizeof(GpuScanSquaresF64State)

/* Shared memory of a thread block for columns, and for slots */
#define COLUMNS_BYTES (40 * 1024)
#define SLOTS_BYTES (96 * 1024)
#define MAX_SLOTS 4096
#define MIN_SLOTS 64

/*
 * Threads of a thread block, of which a multiprocessor holds four.  With slots it is one
 * block, since each has to meet all groups; if columns need the room, two of half the threads.  64 registers
 * are left for each, and for a block that waits for pages to come over the bus (launch.h).
 */
#define THREADS 224
#define SLOT_THREADS 960

/* A filter looks at several rows of each thread where that takes at most so many instructions. */
#define MAX_EIGHT 8
#define MAX_FOUR 16

void
gpuscan_cuda_place_cached(Generator *g)
{
	CudaSource *source = g->source;
	uint32_t warp_size = g->program->ninputs * sizeof(CudaColumn) +
						 (g->program->filter != GPUSCAN_NO_REGISTER ? QUEUE_SIZE : 0);
	uint32_t slot_threads = SLOT_THREADS;
	bool fits = gpuscan_cuda_place_slot(g);

	source->threads = THREADS;
	while (source->threads / 32 * warp_size > COLUMNS_BYTES)
		source->threads = source->threads / 2 / 32 * 32;
	if (slot_threads / 32 * warp_size > COLUMNS_BYTES)
		slot_threads /= 2;
	if (!fits || slot_threads / 32 * warp_size > COLUMNS_BYTES)
		return;
	source->nslots = MAX_SLOTS;
	while (source->nslots * g->slot_words * 4 > SLOTS_BYTES)
		source->nslots /= 2;
	if (source->nslots < MIN_SLOTS)
		source->nslots = 0;
	else
		source->threads = slot_threads;
	source->slots_size = source->nslots * g->slot_words * 4;
}

void
gpuscan_cuda_emit_cached_head(Generator *g)
{
	const CpuPhase *filter = &g->plan->phases[CPU_FILTER];
	int size = filter->ninstrs;

	for (int i = 0; i < filter->ninputs; i++)
		size += is_short(g->classes[filter->inputs[i].reg]) ? 1 : 4;
	EMIT("#define FILTER_ROWS %d\n#define BATCH_ROWS %d\n#include \"cached.h\"\n",
		 size <= MAX_EIGHT	? 8
		 : size <= MAX_FOUR ? 4
							: 1,
		 g->program->filter == GPUSCAN_NO_REGISTER && gpuscan_cuda_has_quick(g) ? CUDA_BATCH_ROWS
																				: 1);
	if (!g->program->aggregate)
		EMIT("#include \"seek.h\"\n");
	if (g->source->nslots > 0)
		EMIT("#define SLOTS %u\n#include \"shared.h\"\n", g->source->nslots);
	EMIT("\n");
}

/*
 * Registers
 */

/* A text that only a key needs is loaded where its slot does not say enough. */
bool
gpuscan_cuda_is_lazy(const Generator *g, int phase, const GpuScanInput *input)
{
	return phase == CPU_REST && g->source->nslots > 0 && g->classes[input->reg] == GPUSCAN_TEXT &&
		   g->plan->key_use[input->reg] == CPU_ONLY_KEY;
}

/* Loaded in two steps; of a lazy text it is the code. */
static bool
is_fetched(const Generator *g, int phase, const GpuScanInput *input)
{
	unsigned cls = g->classes[input->reg];

	return cls != GPUSCAN_I128 && (cls != GPUSCAN_TEXT || gpuscan_cuda_is_lazy(g, phase, input));
}

/* The first step, of row `at` or, for several at a time, `first` and those behind it */
static void
emit_fetches(Generator *g, int phase, bool several)
{
	const CpuPhase *inputs = &g->plan->phases[phase];

	for (int i = 0; i < inputs->ninputs; i++)
	{
		int r = inputs->inputs[i].reg;
		unsigned cls = g->classes[r];

		if (!is_fetched(g, phase, &inputs->inputs[i]))
			continue;
		if (cls == GPUSCAN_TEXT)
			cls = GPUSCAN_I32;
		if (several)
			EMIT(
				"\tFetched w%d[FILTER_ROWS];\n\tfetch<%s, plain.value>(columns[%d], first, behind, "
				"w%d);\n",
				r, gpuscan_cuda_types[cls], gpuscan_cuda_input_of(g, (uint16_t) r), r);
		else
			EMIT("\tconst Fetched w%d = fetch<%s>(columns[%d], at);\n", r, gpuscan_cuda_types[cls],
				 gpuscan_cuda_input_of(g, (uint16_t) r));
	}
}

/* The second step for several rows at a time, but for their flags */
static void
emit_values(Generator *g, int phase)
{
	const CpuPhase *inputs = &g->plan->phases[phase];

	for (int i = 0; i < inputs->ninputs; i++)
	{
		int r = inputs->inputs[i].reg;
		const char *type = gpuscan_cuda_types[g->classes[r]];
		int column = gpuscan_cuda_input_of(g, (uint16_t) r);

		if (!is_fetched(g, phase, &inputs->inputs[i]) || g->classes[r] == GPUSCAN_TEXT)
			continue;
		EMIT("\t%s v%d[FILTER_ROWS];\n\tfetched_values<plain.value>(columns[%d], w%d, first, "
			 "v%d);\n",
			 type, r, column, r, r);
	}
}

/* The second step of row `at`, or number k of several; and the phase's instructions */
static void
emit_phase(Generator *g, int phase, bool several)
{
	const CpuPhase *inputs = &g->plan->phases[phase];

	for (int i = 0; i < inputs->ninputs; i++)
	{
		const GpuScanInput *input = &inputs->inputs[i];
		int r = input->reg;
		unsigned cls = g->classes[r];
		int column = gpuscan_cuda_input_of(g, (uint16_t) r);

		if (is_fetched(g, phase, input))
			EMIT("\tconst uint8_t f%d = fetched_flags(w%d%s, at);\n", r, r, several ? "[k]" : "");
		else
			EMIT("\tconst uint8_t f%d = column_flags(columns[%d], at);\n"
				 "\tconst %s r%d = column_%s(columns[%d], at);\n",
				 r, column, gpuscan_cuda_types[cls], r, cls == GPUSCAN_TEXT ? "text" : "i128",
				 column);
		if (several && is_fetched(g, phase, input))
			EMIT("\tconst %s r%d = v%d[k];\n", gpuscan_cuda_types[cls], r, r);
		else if (is_fetched(g, phase, input) && cls != GPUSCAN_TEXT)
			EMIT("\tconst %s r%d = fetched_value<%s>(columns[%d], w%d, at);\n",
				 gpuscan_cuda_types[cls], r, gpuscan_cuda_types[cls], column, r);
	}
	for (int i = 0; i < inputs->ninstrs; i++)
		gpuscan_cuda_emit_instr(g, &inputs->instrs[i]);
}

/*
 * What chunks say of the filter: bN of register N.  Where it may be an error, or
 * nothing is known of one of its operands, there is none.
 */
static bool
emit_bounds(Generator *g, const GpuScanInstr *instr, const bool *bounded)
{
	static const struct
	{
		uint16_t op32;
		uint16_t op64;
		const char *passes; /* less, equal, greater */
	} comparisons[] = {{GPUSCAN_OP_I32_EQ, GPUSCAN_OP_I64_EQ, "false, true, false"},
					   {GPUSCAN_OP_I32_LT, GPUSCAN_OP_I64_LT, "true, false, false"},
					   {GPUSCAN_OP_I32_LE, GPUSCAN_OP_I64_LE, "true, true, false"},
					   {GPUSCAN_OP_I32_GT, GPUSCAN_OP_I64_GT, "false, false, true"},
					   {GPUSCAN_OP_I32_GE, GPUSCAN_OP_I64_GE, "false, true, true"},
					   {GPUSCAN_OP_I32_NE, GPUSCAN_OP_I64_NE, "true, false, true"}};
	int d = instr->dst;
	int a = instr->a;
	int b = instr->b;

	if (!bounded[a])
		return false;
	switch (instr->op)
	{
		case GPUSCAN_OP_I32_TO_I64:
			EMIT("\tconst Bounds b%d = b%d;\n", d, a);
			return true;
		case GPUSCAN_OP_IS_NULL:
			EMIT("\tconst Bounds b%d = bounds_of_truth(b%d.may_be_null, !b%d.all_null, false);\n",
				 d, a, a);
			return true;
		case GPUSCAN_OP_IS_NOT_NULL:
			EMIT("\tconst Bounds b%d = bounds_of_truth(!b%d.all_null, b%d.may_be_null, false);\n",
				 d, a, a);
			return true;
		case GPUSCAN_OP_AND:
		case GPUSCAN_OP_OR:
			if (bounded[b])
				EMIT("\tconst Bounds b%d = bounds_of_truth(b%d.may_be_true %s b%d.may_be_true, "
					 "b%d.may_be_other %s b%d.may_be_other, true);\n",
					 d, a, instr->op == GPUSCAN_OP_AND ? "&&" : "||", b, a,
					 instr->op == GPUSCAN_OP_AND ? "||" : "&&", b);
			return bounded[b];
		default:
			break;
	}
	for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
	{
		if (bounded[b] && (instr->op == comparisons[i].op32 || instr->op == comparisons[i].op64))
		{
			EMIT("\tconst Bounds b%d = bounds_of_comparison(b%d, b%d, %s);\n", d, a, b,
				 comparisons[i].passes);
			return true;
		}
	}
	return false;
}

static void
emit_filter_bounds(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const CpuPhase *phase = &g->plan->phases[CPU_FILTER];
	bool bounded[GPUSCAN_MAX_REGISTERS] = {false};

	EMIT("\t[&]() -> Bounds\n\t{\n");
	for (int i = 0; p->filter != GPUSCAN_NO_REGISTER && i < phase->ninputs; i++)
	{
		int r = phase->inputs[i].reg;

		EMIT("\tconst Bounds b%d = bounds_of_input(columns[%d]);\n", r,
			 gpuscan_cuda_input_of(g, (uint16_t) r));
		bounded[r] = true;
	}
	for (int i = 0; p->filter != GPUSCAN_NO_REGISTER && i < p->nparams; i++)
	{
		int r = GPUSCAN_PARAMS(p)[i].reg;
		bool is_integer = g->classes[r] == GPUSCAN_I32 || g->classes[r] == GPUSCAN_I64;

		EMIT("\tconst Bounds b%d = bounds_of_param(%s%d, %s, f%d != 0);\n", r,
			 is_integer ? "r" : "", is_integer ? r : 0, is_integer ? "true" : "false", r);
		bounded[r] = true;
	}
	for (int i = 0; p->filter != GPUSCAN_NO_REGISTER && i < phase->ninstrs; i++)
		bounded[phase->instrs[i].dst] = emit_bounds(g, &phase->instrs[i], bounded);
	if (p->filter != GPUSCAN_NO_REGISTER && bounded[p->filter])
		EMIT("\treturn b%d;\n\t},\n", p->filter);
	else
		EMIT("\treturn bounds_of_truth(true, %s, false);\n\t},\n",
			 p->filter != GPUSCAN_NO_REGISTER ? "true" : "false");
}

/* Whether headers may tell all that the Program asks for: a CudaColumn has no bounds of 128 bits. */
static bool
is_told(const Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);
	bool told = g->plan->summarized;

	for (int i = 0; i < g->program->naggs; i++)
		told &= aggs[i].kind == GPUSCAN_AGG_COUNT || aggs[i].cls != GPUSCAN_I128;
	return told;
}

/* The bound that is an extremum */
static const char *
bound_of(const GpuScanAgg *agg)
{
	return agg->kind == GPUSCAN_AGG_MIN || agg->kind == GPUSCAN_AGG_BOOL_AND ? "low" : "high";
}

/* Whether headers tell what all rows of a range make of the states; then the thread that leads does it. */
static void
emit_tell(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);
	int naggs = is_told(g) ? g->program->naggs : 0;

	EMIT("\t[&](uint32_t nrows, bool leads) -> bool\n\t{\n");
	for (int i = 0; i < naggs; i++)
	{
		int column = gpuscan_cuda_input_of(g, aggs[i].arg);

		if (column >= 0)
			EMIT("\tif (columns[%d].nrows != nrows)\n\t\treturn false;\n", column);
		if (aggs[i].kind != GPUSCAN_AGG_COUNT && is_float(aggs[i].cls))
			EMIT("\tif (is_zero<%s>(columns[%d], columns[%d].%s))\n\t\treturn false;\n",
				 gpuscan_cuda_types[aggs[i].cls], column, column, bound_of(&aggs[i]));
	}
	for (int i = 0; i < naggs; i++)
	{
		int column = gpuscan_cuda_input_of(g, aggs[i].arg);

		/* advances by the value that decides, and by the number of the others */
		if (column < 0)
			EMIT("\tconst uint32_t n%d = leads ? nrows : 0;\n", i);
		else
			EMIT("\tconst uint32_t n%d = leads ? nrows - columns[%d].nnulls : 0;\n", i, column);
		EMIT("\tconst bool s%d = n%d != 0;\n\t{\n", i, i);
		if (aggs[i].kind != GPUSCAN_AGG_COUNT)
			EMIT("\tconst %s r%d = bound_value<%s>(columns[%d].%s);\n",
				 gpuscan_cuda_types[aggs[i].cls], aggs[i].arg, gpuscan_cuda_types[aggs[i].cls],
				 column, bound_of(&aggs[i]));
		gpuscan_cuda_emit_local_advance(g, i);
		EMIT("\ta%d.n += n%d - s%d;\n\t}\n", i, i, i);
	}
	EMIT("\treturn %s;\n\t},\n", is_told(g) ? "true" : "false");
}

/* Of a scan a row whose filter fails is wanted too. */
static void
emit_keep(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const CpuPhase *phase = &g->plan->phases[CPU_FILTER];

	EMIT("\t[&]() -> bool\n\t{\n\tuint32_t flags = 0;\n");
	for (int i = 0; p->filter != GPUSCAN_NO_REGISTER && i < phase->ninputs; i++)
		EMIT("\tflags |= columns[%d].flags;\n", gpuscan_cuda_input_of(g, phase->inputs[i].reg));
	EMIT("\treturn (flags & ~(CUDA_COLUMN_WIDE | CUDA_COLUMN_BOUNDED)) == 0;\n\t},\n"
		 "\t[&](auto plain, uint32_t first, uint32_t n%s) -> uint32_t\n\t{\n"
		 "\tuint32_t wanted = 0;\n",
		 p->aggregate ? ", bool &failed" : "");
	if (p->filter != GPUSCAN_NO_REGISTER)
	{
		EMIT("\tuint32_t behind[FILTER_ROWS];\n\trows_behind<plain.value>(n, behind);\n");
		emit_fetches(g, CPU_FILTER, true);
		emit_values(g, CPU_FILTER);
		EMIT("#pragma unroll\n\tfor (uint32_t k = 0; k < FILTER_ROWS; k++)\n\t{\n"
			 "\tconst uint32_t at = first + behind[k] * 32;\n");
		emit_phase(g, CPU_FILTER, true);
		if (p->aggregate)
			EMIT("\tfailed |= f%d == GPUSCAN_ERROR;\n", p->filter);
		else
			EMIT("\twanted |= (uint32_t) (f%d == GPUSCAN_ERROR) << k;\n", p->filter);
		EMIT("\twanted |= (uint32_t) (f%d == 0 && r%d) << k;\n\t}\n", p->filter, p->filter);
	}
	EMIT("\treturn wanted;\n\t}");
}

/*
 * The kernel
 */

/* A bit for each of the first 64 inputs that are read of every row */
static uint64_t
read_always(const Generator *g)
{
	bool filtered = g->program->filter != GPUSCAN_NO_REGISTER;
	uint64_t which = 0;

	for (int phase = 0; phase < (filtered ? CPU_REST : CPU_NUM_PHASES); phase++)
	{
		for (int i = 0; i < g->plan->phases[phase].ninputs; i++)
		{
			int column = gpuscan_cuda_input_of(g, g->plan->phases[phase].inputs[i].reg);

			which |= column < 64 ? UINT64_C(1) << column : 0;
		}
	}
	return which;
}

static void
emit_tuple(Generator *g, bool local, bool advances)
{
	const GpuScanProgram *p = g->program;
	bool in_slots = g->source->nslots > 0;

	EMIT("\t[&](uint32_t at, auto &found) -> uint32_t\n\t{\n");
	emit_fetches(g, CPU_FILTER, false);
	emit_fetches(g, CPU_REST, false);
	emit_phase(g, CPU_FILTER, false);
	emit_phase(g, CPU_REST, false);
	gpuscan_cuda_emit_selections(g);
	EMIT("\tuint32_t row = 0;\n");
	if (p->nkeys > 0)
	{
		gpuscan_cuda_emit_keys(g);
		if (in_slots)
			gpuscan_cuda_emit_find_slot(g);
		gpuscan_cuda_emit_find_row(g);
		if (in_slots)
			EMIT("\tif (shared)\n\t\tslot = make_slot(launch, keys, hash_of_slot, "
				 "row);\n\t}\n");
	}
	if (in_slots)
	{
		EMIT("\tif (slot != NO_SLOT)\n\t{\n");
		gpuscan_cuda_emit_slot_advance(g);
		EMIT("\t}\n");
	}
	gpuscan_cuda_emit_row(g, local, advances);
	EMIT("\treturn PASSED;\n\t},\n");
}

void
gpuscan_cuda_emit_cached(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);
	bool local = p->nkeys == 0;
	bool advances = p->nkeys > 0 || g->source->ndistinct > 0;
	bool in_slots = g->source->nslots > 0;
	uint32_t warps = g->source->threads / 32;
	size_t columns = (size_t) warps * p->ninputs * sizeof(CudaColumn);
	size_t states = local ? g->source->threads * STATE_SIZE : 0;

	if (advances)
		gpuscan_cuda_emit_found_struct(g, local);
	EMIT("extern \"C\" __global__ void __launch_bounds__(%u, %u)\n"
		 "k_cached(const __grid_constant__ CudaLaunch launch)\n{\n"
		 "\t__shared__ __align__(16) char room[%zu];\n"
		 "\t__shared__ Queue queues[%u];\n"
		 "\tCudaColumn *columns = (CudaColumn *) room + threadIdx.x / 32 * %u;\n"
		 "\tconst char *program = (const char *) launch.program;\n"
		 "\tconst GpuScanParam *params = (const GpuScanParam *) (program + %u);\n"
		 "\tconst GpuScanSet *sets = (const GpuScanSet *) (program + %u);\n"
		 "\tstatic_assert(sizeof(Queue) <= %d, \"as the host has it\");\n",
		 g->source->threads, in_slots ? SLOT_THREADS / g->source->threads : 4,
		 columns > states ? columns + 16 : states + 16,
		 p->filter != GPUSCAN_NO_REGISTER ? warps : 1, p->ninputs, p->params, p->sets, QUEUE_SIZE);
	gpuscan_cuda_emit_params(g);
	for (int i = 0; local && i < p->naggs; i++)
		EMIT("\t%s a%d = {};\n", gpuscan_cuda_state_type(&aggs[i]), i);
	if (in_slots)
		EMIT("\tbool sharing = launch.replicas != CUDA_NOT_SHARED;\n\tint32_t strayed = 0;\n"
			 "\tfor (uint32_t i = threadIdx.x; sharing && i < %u * SLOTS; i += blockDim.x)\n"
			 "\t\tslots[i] = 0;\n\t__syncthreads();\n",
			 g->slot_words);
	if (gpuscan_cuda_has_quick(g))
		gpuscan_cuda_emit_quick_state(g);
	EMIT("\trun_pieces<%s, %s, %s, %s>(launch, columns, %u, &queues[%s],\n"
		 "\t[&]() -> uint64_t { return 0x%llx%s; },\n",
		 p->filter != GPUSCAN_NO_REGISTER ? "true" : "false",
		 gpuscan_cuda_has_quick(g) ? "true" : "false", g->source->numbered ? "true" : "false",
		 advances ? "Found" : "NothingFound", p->ninputs,
		 p->filter != GPUSCAN_NO_REGISTER ? "threadIdx.x / 32" : "0",
		 (unsigned long long) read_always(g), gpuscan_cuda_has_quick(g) ? " & ~unread()" : "");
	emit_filter_bounds(g);
	emit_tell(g);
	emit_keep(g);
	EMIT(",\n");
	gpuscan_cuda_emit_quick(g);
	emit_tuple(g, local, advances);
	EMIT("\t[&](const auto &found)\n\t{\n");
	if (advances)
	{
		EMIT("\tuint32_t strays = __ballot_sync(WARP, found.row != NO_ROW);\n");
		if (in_slots)
			EMIT("\tif (sharing)\n\t{\n\t\tstrayed = max(strayed + __popc(strays) - 8, 0);\n"
				 "\t\tsharing = strayed < 1024;\n\t}\n");
		EMIT("\tif (strays == 0)\n\t\treturn;\n");
		gpuscan_cuda_emit_advance(g, local);
	}
	EMIT("\t});\n");
	if (local)
	{
		EMIT("\tchar *pages = room;\n");
		gpuscan_cuda_emit_local_merge(g);
	}
	if (in_slots)
		gpuscan_cuda_emit_flush(g);
	EMIT("}\n\n");
}

/* The kernel of a scan */
void
gpuscan_cuda_emit_seek(Generator *g)
{
	const GpuScanProgram *p = g->program;

	EMIT("extern \"C\" __global__ void __launch_bounds__(%u)\n"
		 "k_seek(const __grid_constant__ CudaLaunch launch)\n{\n"
		 "\t__shared__ CudaColumn room[%u];\n"
		 "\tCudaColumn *columns = room + threadIdx.x / 32 * %u;\n"
		 "\tconst char *program = (const char *) launch.program;\n"
		 "\tconst GpuScanParam *params = (const GpuScanParam *) (program + %u);\n"
		 "\tconst GpuScanSet *sets = (const GpuScanSet *) (program + %u);\n",
		 g->source->threads, g->source->threads / 32 * p->ninputs + 1, p->ninputs, p->params,
		 p->sets);
	gpuscan_cuda_emit_params(g);
	EMIT("\tseek_pieces<0x%llx>(launch, columns, %u,\n", (unsigned long long) read_always(g),
		 p->ninputs);
	emit_filter_bounds(g);
	emit_keep(g);
	EMIT(");\n}\n\n");
}
