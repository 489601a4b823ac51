/*-------------------------------------------------------------------------
 *
 * codegen_group.c
 *	  The part of the generated text that knows a group's row on the device.
 *
 * A row: a word with the NULL bits of the keys below their hash, the keys (a text
 * is its offset in the table's texts), a count of tuples, then of each aggregate
 * the state of states.h and a counter; behind all that the windows of float sums.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "codegen_impl.h"

/* Bytes of an aggregate's state in a group's row on the device, but for windows */
static uint32_t
state_size(const GpuScanAgg *agg)
{
	switch ((GpuScanAggKind) agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
			return 0;
		case GPUSCAN_AGG_SUM_I128:
			return agg->cls == GPUSCAN_I128 ? 24 : 16;
		case GPUSCAN_AGG_SQUARES_I128:
			return 48;
		case GPUSCAN_AGG_SUM_F64:
			return 8;
		case GPUSCAN_AGG_SQUARES_F64:
			return 2 * 8;
		case GPUSCAN_AGG_MIN:
		case GPUSCAN_AGG_MAX:
			return agg->cls == GPUSCAN_I128 ? 24 : (is_float(agg->cls) ? 16 : 8);
		default:
			return 8;
	}
}

/* Windows of a float sum: one more than fsum.h keeps; squares have another sum. */
static uint32_t
num_windows(const GpuScanAgg *agg)
{
	return agg->kind == GPUSCAN_AGG_SUM_F64 ? 4 : agg->kind == GPUSCAN_AGG_SQUARES_F64 ? 6 : 0;
}

/* A group and a distinct value of 32 bits make one word. */
static bool
pairs_are_packed(const GpuScanAgg *agg)
{
	return agg->cls == GPUSCAN_I32 || agg->cls == GPUSCAN_BOOL;
}

/*
 * Lays a group's row out: windows behind all else, so that those of an average
 * fill one sector of memory, and what a tuple reads first is together in another.
 */
void
gpuscan_cuda_place_states(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanKey *keys = GPUSCAN_KEYS(p);
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);
	uint32_t offset = 8;

	for (int k = 0; k < p->nkeys; k++)
	{
		g->key_offsets[k] = offset;
		offset += keys[k].cls == GPUSCAN_I128 ? 16 : 8;
		g->source->has_text_keys |= keys[k].cls == GPUSCAN_TEXT;
	}
	g->source->has_texts = g->source->has_text_keys;
	g->count_offset = offset;
	offset += 8;

	for (int i = 0; i < p->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		AggPlace *place = &g->places[i];

		place->state = offset;
		offset += state_size(agg);
		if (agg->arg != GPUSCAN_NO_REGISTER || agg->filter != GPUSCAN_NO_REGISTER)
		{
			for (int j = 0; j < i && place->counter == 0; j++)
			{
				if (aggs[j].arg == agg->arg && aggs[j].filter == agg->filter)
					place->counter = g->places[j].counter;
			}
			if (place->counter == 0)
			{
				place->counter = offset;
				offset += 8;
			}
		}
		g->source->has_sums |= num_windows(agg) > 0;
		if (agg->kind == GPUSCAN_AGG_COUNT_DISTINCT)
		{
			place->distinct = g->source->ndistinct++;
			g->source->distinct[place->distinct] =
				(CudaSourceDistinct){place->state, pairs_are_packed(agg) ? 8 : 16};
			g->source->has_texts |= agg->cls == GPUSCAN_I128 || agg->cls == GPUSCAN_TEXT;
		}
	}
	g->source->has_sums &= p->nkeys > 0;
	offset = (offset + 31) / 32 * 32;
	for (int i = 0; i < p->naggs; i++)
	{
		g->places[i].windows = offset;
		offset += num_windows(&aggs[i]) * (aggs[i].kind == GPUSCAN_AGG_SUM_F64 ? 8 : 16);
	}
	g->source->row_size = offset;
}

/*
 * Advancing
 */
const char *
gpuscan_cuda_sum_limit(const GpuScanAgg *agg)
{
	return agg->kind == GPUSCAN_AGG_SUM_F64 && agg->cls == GPUSCAN_F32 ? "GS_FSUM_F32_LIMIT"
																	   : "GS_FSUM_F64_LIMIT";
}

/* True if the aggregate's state advances by its argument. */
static bool
needs_argument(const GpuScanAgg *agg)
{
	return agg->kind != GPUSCAN_AGG_COUNT && agg->kind != GPUSCAN_AGG_COUNT_DISTINCT;
}

static bool
needed_before(const GpuScanAgg *aggs, int i)
{
	for (int j = 0; j < i; j++)
	{
		if (needs_argument(&aggs[j]) && aggs[j].arg == aggs[i].arg)
			return true;
	}
	return false;
}

/*
 * What the advance of a group's states needs to know of a tuple: its group,
 * whether its distinct values are new (also if it waits), and if it does not
 * wait, sI and the arguments.
 */
void
gpuscan_cuda_emit_found_struct(Generator *g, bool local)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("struct Found\n{\n\tuint32_t row;\n\tbool taken : 1;\n");
	for (int i = 0; i < g->program->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_COUNT_DISTINCT)
			EMIT("\tbool new%d;\n", i);
		if (!local)
			EMIT("\tbool s%d : 1;\n", i);
	}
	for (int i = 0; i < g->program->naggs; i++)
	{
		if (!local && needs_argument(&aggs[i]) && !needed_before(aggs, i))
			EMIT("\t%s r%d;\n", gpuscan_cuda_types[aggs[i].cls], aggs[i].arg);
	}
	EMIT("\tGS_MEMBER Found() : row(NO_ROW), taken(false)");
	for (int i = 0; i < g->program->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_COUNT_DISTINCT)
			EMIT(", new%d(false)", i);
		if (!local)
			EMIT(", s%d(false)", i);
	}
	EMIT(" {}\n};\n\n");
}

void
gpuscan_cuda_emit_found(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("\tfound.taken = true;\n");
	for (int i = 0; i < g->program->naggs; i++)
	{
		EMIT("\tfound.s%d = s%d;\n", i, i);
		if (needs_argument(&aggs[i]) && !needed_before(aggs, i))
			EMIT("\tfound.r%d = r%d;\n", aggs[i].arg, aggs[i].arg);
	}
}

/* Float sums reach far enough, distinct values are entered, or the tuple waits. */
void
gpuscan_cuda_emit_prepare(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	for (int i = 0; i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		uint32_t state = g->places[i].state;

		if (num_windows(agg) == 0 || g->program->nkeys == 0)
			continue;
		EMIT("\tif (s%d && !sum_prepare(launch, (SumHead *) (p + %u), r%d, %s))\n\t\treturn "
			 "CUDA_TUPLE_WAITS;\n",
			 i, state, agg->arg, gpuscan_cuda_sum_limit(agg));
		if (agg->kind == GPUSCAN_AGG_SQUARES_F64)
			EMIT("\tif (s%d && !sum_prepare_square(launch, (SumHead *) (p + %u), r%d))\n\t\treturn "
				 "CUDA_TUPLE_WAITS;\n",
				 i, state + 8, agg->arg);
	}
	for (int i = 0; i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		int r = agg->arg;

		if (agg->kind != GPUSCAN_AGG_COUNT_DISTINCT)
			continue;
		if (agg->cls == GPUSCAN_TEXT)
			EMIT("\tBytes d%d = {r%d};\n", i, r);
		else if (agg->cls == GPUSCAN_I128)
			EMIT("\tBytes d%d = {{(const char *) &r%d, 16}};\n", i, r);
		else if (is_float(agg->cls))
			EMIT("\tWord d%d = {distinct_word(r%d)};\n", i, r);
		else if (pairs_are_packed(agg))
			EMIT("\tuint32_t d%d = (uint32_t) r%d;\n", i, r);
		else
			EMIT("\tWord d%d = {(uint64_t) r%d};\n", i, r);
		EMIT("\tif (s%d && !add_pair(launch, %u, row, d%d, found.new%d))\n\t\treturn "
			 "CUDA_TUPLE_WAITS;\n",
			 i, g->places[i].distinct, i, i);
	}
}

/* True if an earlier aggregate has counted with this one's counter */
bool
gpuscan_cuda_counted_before(const Generator *g, int i)
{
	for (int j = 0; j < i; j++)
	{
		if (g->places[j].counter == g->places[i].counter)
			return true;
	}
	return false;
}

/* Run by the whole warp; threads without a tuple select nothing. */
void
gpuscan_cuda_emit_advance(Generator *g, bool local)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("\tPeers peers = find_peers(found.row);\n\tbool bad = false;\n"
		 "\tchar *p = (char *) launch.table.rows + (uint64_t) found.row * %uU;\n",
		 g->source->row_size);
	for (int i = 0; i < g->program->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_COUNT_DISTINCT)
			EMIT("\tgroup_count(peers, (uint64_t *) (p + %u), found.new%d);\n", g->places[i].state,
				 i);
	}
	if (!local)
		EMIT("\tgroup_count(peers, (uint64_t *) (p + %u), found.taken);\n", g->count_offset);
	for (int i = 0; !local && i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		const AggPlace *place = &g->places[i];
		const char *cast = is_float(agg->cls)		  ? "(double) "
						   : agg->cls == GPUSCAN_I128 ? ""
													  : "(int64_t) ";
		char head[64];

		snprintf(head, sizeof(head), "(peers, (uint64_t *) (p + %u), found.s%d, ", place->state, i);
		if (place->counter != 0 && !gpuscan_cuda_counted_before(g, i))
			EMIT("\tgroup_count(peers, (uint64_t *) (p + %u), found.taken && %sfound.s%d);\n",
				 place->counter, agg->filter == GPUSCAN_NO_REGISTER ? "!" : "", i);
		switch ((GpuScanAggKind) agg->kind)
		{
			case GPUSCAN_AGG_COUNT:
			case GPUSCAN_AGG_COUNT_DISTINCT:
				break;
			case GPUSCAN_AGG_SUM_I64:
				EMIT("\tgroup_add%sfound.r%d);\n", head, agg->arg);
				break;
			case GPUSCAN_AGG_SUM_I128:
				EMIT("\tgroup_add_wide%s%sfound.r%d);\n", head, cast, agg->arg);
				break;
			case GPUSCAN_AGG_SQUARES_I128:
				EMIT("\tbad |= group_squares%sfound.r%d);\n", head, agg->arg);
				break;
			case GPUSCAN_AGG_SUM_F64:
			case GPUSCAN_AGG_SQUARES_F64:
				EMIT("\tsum_add(peers, (SumHead *) (p + %u), (uint64_t *) (p + %u), %u, found.s%d, "
					 "found.r%d, %s);\n",
					 place->state, place->windows, num_windows(agg), i, agg->arg,
					 gpuscan_cuda_sum_limit(agg));
				if (agg->kind == GPUSCAN_AGG_SQUARES_F64)
					EMIT("\tsum_add_square(peers, (SumHead *) (p + %u), (uint64_t *) (p + %u), %u, "
						 "found.s%d, found.r%d);\n",
						 place->state + 8, place->windows + 48, num_windows(agg), i, agg->arg);
				break;
			case GPUSCAN_AGG_MIN:
			case GPUSCAN_AGG_MAX:
				EMIT("\tgroup_extremum<%s>%s%sfound.r%d);\n",
					 agg->kind == GPUSCAN_AGG_MIN ? "true" : "false", head, cast, agg->arg);
				break;
			case GPUSCAN_AGG_BOOL_AND:
			case GPUSCAN_AGG_BIT_AND:
			case GPUSCAN_AGG_BOOL_OR:
			case GPUSCAN_AGG_BIT_OR:
				EMIT("\tgroup_or(peers, (uint64_t *) (p + %u), found.s%d ? %s(uint64_t) (int64_t) "
					 "found.r%d : 0);\n",
					 place->state, i,
					 agg->kind == GPUSCAN_AGG_BOOL_AND || agg->kind == GPUSCAN_AGG_BIT_AND ? "~"
																						   : "",
					 agg->arg);
				break;
		}
	}
	EMIT("\tif (bad)\n\t\tatomicMax(&result_of(launch)->code, LEFT_TO_POSTGRES);\n");
}

/*
 * The kernels that the host runs when tuples wait for room, and at the end
 */
void
gpuscan_cuda_emit_rehash(Generator *g)
{
	EMIT("extern \"C\" __global__ void\n"
		 "k_rehash(const __grid_constant__ CudaLaunch launch, uint32_t nrows)\n{\n"
		 "\tfor (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < nrows; i += gridDim.x * "
		 "blockDim.x)\n"
		 "\t\tplace_row(launch, i, *(const uint32_t *) ((const char *) launch.table.rows + "
		 "(uint64_t) i * %uU + 4));\n}\n\n",
		 g->source->row_size);
}

void
gpuscan_cuda_emit_rehash_pairs(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("extern \"C\" __global__ void\n"
		 "k_rehash_pairs(const __grid_constant__ CudaLaunch launch, CudaDistinct old, uint32_t "
		 "number)\n{\n\tswitch (number)\n\t{\n");
	for (int i = 0; i < g->program->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_COUNT_DISTINCT)
			EMIT("\t\tcase %u:\n\t\t\tplace_pairs%s(launch, old, number);\n\t\t\tbreak;\n",
				 g->places[i].distinct,
				 pairs_are_packed(&aggs[i])									  ? ""
				 : aggs[i].cls == GPUSCAN_TEXT || aggs[i].cls == GPUSCAN_I128 ? "<Bytes>"
																			  : "<Word>");
	}
	EMIT("\t}\n}\n\n");
}

void
gpuscan_cuda_emit_anchor(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("extern \"C\" __global__ void\n"
		 "k_anchor(const __grid_constant__ CudaLaunch launch, uint32_t nrows)\n{\n"
		 "\tfor (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < nrows; i += gridDim.x * "
		 "blockDim.x)\n\t{\n"
		 "\t\tchar *p = (char *) launch.table.rows + (uint64_t) i * %uU;\n",
		 g->source->row_size);
	for (int i = 0; i < g->program->naggs; i++)
	{
		const AggPlace *place = &g->places[i];
		uint32_t n = num_windows(&aggs[i]);

		if (n > 0)
			EMIT("\t\tsum_anchor((SumHead *) (p + %u), (uint64_t *) (p + %u), %u);\n", place->state,
				 place->windows, n);
		if (aggs[i].kind == GPUSCAN_AGG_SQUARES_F64)
			EMIT("\t\tsum_anchor((SumHead *) (p + %u), (uint64_t *) (p + %u), %u);\n",
				 place->state + 8, place->windows + 48, n);
	}
	EMIT("\t}\n}\n\n");
}

/* The struct of aggregate.h */
const char *
gpuscan_cuda_state_type(const GpuScanAgg *agg)
{
	switch ((GpuScanAggKind) agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
		case GPUSCAN_AGG_COUNT_DISTINCT:
			return "GpuScanCountState";
		case GPUSCAN_AGG_SUM_I64:
			return "GpuScanSum64State";
		case GPUSCAN_AGG_SUM_I128:
			return "GpuScanSum128State";
		case GPUSCAN_AGG_SQUARES_I128:
			return "GpuScanSquares128State";
		case GPUSCAN_AGG_SUM_F64:
			return "GpuScanSumF64State";
		case GPUSCAN_AGG_SQUARES_F64:
			return "GpuScanSquaresF64State";
		default:
			return agg->cls == GPUSCAN_I128 ? "GpuScanValue128State" : "GpuScanValueState";
	}
}

static void
emit_emit_state(Generator *g, int i)
{
	const GpuScanAgg *agg = &GPUSCAN_AGGS(g->program)[i];
	const AggPlace *place = &g->places[i];
	const char *minmax = agg->kind == GPUSCAN_AGG_MIN ? "true" : "false";

	EMIT("\t\t{\n\t\t\t%s *a = (%s *) (out + %u);\n\t\t\tconst uint64_t *s = (const uint64_t *) (p "
		 "+ "
		 "%u);\n",
		 gpuscan_cuda_state_type(agg), gpuscan_cuda_state_type(agg), agg->offset, place->state);
	if (agg->kind == GPUSCAN_AGG_COUNT_DISTINCT)
		EMIT("\t\t\ta->n = (int64_t) s[0];\n");
	else if (place->counter == 0)
		EMIT("\t\t\ta->n = count;\n");
	else
		EMIT("\t\t\ta->n = %s*(const int64_t *) (p + %u);\n",
			 agg->filter == GPUSCAN_NO_REGISTER ? "count - " : "", place->counter);
	EMIT("\t\t\tif (a->n != 0)\n\t\t\t{\n");
	switch ((GpuScanAggKind) agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
		case GPUSCAN_AGG_COUNT_DISTINCT:
			break;
		case GPUSCAN_AGG_SUM_I64:
			EMIT("\t\t\t\ta->sum = (int64_t) s[0];\n");
			break;
		case GPUSCAN_AGG_SUM_I128:
			EMIT("\t\t\t\tok = emit_sum(a, s, %s) && ok;\n",
				 agg->cls == GPUSCAN_I128 ? "true" : "false");
			break;
		case GPUSCAN_AGG_SQUARES_I128:
			EMIT("\t\t\t\tok = emit_squares(a, s) && ok;\n");
			break;
		case GPUSCAN_AGG_SUM_F64:
		case GPUSCAN_AGG_SQUARES_F64:
			EMIT("\t\t\t\tconst uint64_t *w = (const uint64_t *) (p + %u);\n\n"
				 "\t\t\t\tok = a->n <= GPUSCAN_FSUM_MAX_N && ok;\n"
				 "\t\t\t\tok = emit_fsum(&a->sum, (const SumHead *) s, w, %u) && ok;\n",
				 place->windows, num_windows(agg));
			if (agg->kind == GPUSCAN_AGG_SQUARES_F64)
				EMIT("\t\t\t\tok = emit_fsum(&a->squares, (const SumHead *) s + 1, w + 6, 6) && "
					 "ok;\n");
			break;
		case GPUSCAN_AGG_MIN:
		case GPUSCAN_AGG_MAX:
			if (agg->cls == GPUSCAN_I128)
				EMIT("\t\t\t\ta->lo = s[1];\n\t\t\t\ta->hi = (int64_t) s[2];\n");
			else if (is_float(agg->cls))
				EMIT("\t\t\t\tok = emit_float_extremum<%s>(a, s) && ok;\n", minmax);
			else
				EMIT("\t\t\t\temit_extremum<%s>(a, s);\n", minmax);
			break;
		case GPUSCAN_AGG_BOOL_AND:
		case GPUSCAN_AGG_BIT_AND:
			EMIT("\t\t\t\ta->value.i = (int64_t) ~s[0];\n");
			break;
		case GPUSCAN_AGG_BOOL_OR:
		case GPUSCAN_AGG_BIT_OR:
			EMIT("\t\t\t\ta->value.i = (int64_t) s[0];\n");
			break;
	}
	EMIT("\t\t\t}\n\t\t}\n");
}

void
gpuscan_cuda_emit_emit(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanKey *keys = GPUSCAN_KEYS(p);

	EMIT("extern \"C\" __global__ void\n"
		 "k_emit(const __grid_constant__ CudaLaunch launch, uint32_t nrows, char *rows)\n{\n"
		 "\tfor (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < nrows; i += gridDim.x * "
		 "blockDim.x)\n\t{\n"
		 "\t\tconst char *p = (const char *) launch.table.rows + (uint64_t) i * %uU;\n"
		 "\t\tchar *out = rows + (uint64_t) i * %uU;\n"
		 "\t\tconst int64_t count = *(const int64_t *) (p + %u);\n"
		 "\t\tbool ok = true;\n\n"
		 "\t\t*(uint64_t *) out = *(const uint32_t *) p;\n",
		 g->source->row_size, p->row_size, g->count_offset);
	for (int k = 0; k < p->nkeys; k++)
	{
		EMIT("\t\t*(uint64_t *) (out + %u) = *(const uint64_t *) (p + %u);\n", keys[k].offset,
			 g->key_offsets[k]);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\t\t*(uint64_t *) (out + %u) = *(const uint64_t *) (p + %u);\n",
				 keys[k].offset + 8, g->key_offsets[k] + 8);
	}
	for (int i = 0; i < p->naggs; i++)
		emit_emit_state(g, i);
	EMIT("\t\tif (!ok)\n\t\t\tatomicMax(&result_of(launch)->code, LEFT_TO_POSTGRES);\n\t}\n}\n");
}
