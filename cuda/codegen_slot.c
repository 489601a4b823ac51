/*-------------------------------------------------------------------------
 *
 * codegen_slot.c
 *	  The part of k_cached's text that keeps groups in shared memory.
 *
 * A slot of a group has words for: itself; the group's row; the keys, of which a
 * text is where its dictionary has it; the count of tuples; the state and counter of
 * each aggregate; and what the quick way looks at.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "codegen_impl.h"
#include "launch.h"

/* Of a slot's state, but for SLOT_READY */
#define SLOT_BITS 31

/* Words of an aggregate's state in a slot; 0 with *fits false: it has no such form */
static uint32_t
slot_words(const GpuScanAgg *agg, bool *fits)
{
	switch ((GpuScanAggKind) agg->kind)
	{
		case GPUSCAN_AGG_COUNT:
			return 0;
		case GPUSCAN_AGG_SUM_I64:
			return 2;
		case GPUSCAN_AGG_SUM_I128:
			return agg->cls == GPUSCAN_I128 ? 5 : 3;
		case GPUSCAN_AGG_SUM_F64:
			return 1 + 2 * 4;
		case GPUSCAN_AGG_MIN:
		case GPUSCAN_AGG_MAX:
			*fits &= agg->cls != GPUSCAN_I128;
			return is_float(agg->cls) ? 4 : 2;
		case GPUSCAN_AGG_BOOL_AND:
		case GPUSCAN_AGG_BOOL_OR:
		case GPUSCAN_AGG_BIT_AND:
		case GPUSCAN_AGG_BIT_OR:
			return 2;
		default:
			*fits = false;
			return 0;
	}
}

/* The input that is a register, or -1 */
int
gpuscan_cuda_input_of(const Generator *g, uint16_t reg)
{
	for (int i = 0; i < g->program->ninputs; i++)
	{
		if (GPUSCAN_INPUTS(g->program)[i].reg == reg)
			return i;
	}
	return -1;
}

/* A key of 32 bits has one word; any other words of 64 bits, which begin at even ones. */
static uint32_t
key_word(const GpuScanKey *key, uint32_t at)
{
	return is_short(key->cls) ? at : at + at % 2;
}

static uint32_t
behind_key(const GpuScanKey *key, uint32_t at)
{
	return key_word(key, at) + (is_short(key->cls) ? 1 : key->cls == GPUSCAN_I128 ? 4 : 2);
}

/* Bits of a slot's state that say what of a key is 0; a text's place is only that of NULL. */
static uint32_t
zero_bits(const GpuScanKey *key)
{
	return key->cls == GPUSCAN_TEXT ? 0 : key->cls == GPUSCAN_I128 ? 2 : 1;
}

/* The same of states that are advanced 64 bits at a time */
static bool
is_long(const GpuScanAgg *agg)
{
	return agg->kind >= GPUSCAN_AGG_MIN && agg->kind <= GPUSCAN_AGG_BIT_OR;
}

/* Groups have numbers if their keys are inputs that have. */
static void
place_numbers(Generator *g)
{
	const GpuScanProgram *p = g->program;

	g->source->numbered = p->nkeys <= CUDA_NUMBERED_KEYS;
	for (int k = 0; k < p->nkeys && g->source->numbered; k++)
	{
		const GpuScanKey *key = &GPUSCAN_KEYS(p)[k];
		int input = gpuscan_cuda_input_of(g, key->reg);

		g->source->numbered = input >= 0 && !is_float(key->cls) && key->cls != GPUSCAN_I128;
		g->source->number_inputs[k] = (uint16_t) input;
	}
}

/* How many extrema an input has; 0 if something else needs it too */
static uint32_t
count_extrema(const Generator *g, uint16_t reg)
{
	const GpuScanProgram *p = g->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);
	bool only =
		(g->classes[reg] == GPUSCAN_I32 || g->classes[reg] == GPUSCAN_I64) && p->filter != reg;
	uint32_t n = 0;

	for (int i = 0; i < p->ninstrs; i++)
	{
		const GpuScanInstr *instr = &GPUSCAN_INSTRS(p)[i];

		only &= instr->a != reg && instr->b != reg && instr->c != reg;
	}
	for (int k = 0; k < p->nkeys; k++)
		only &= GPUSCAN_KEYS(p)[k].reg != reg;
	for (int i = 0; i < p->naggs; i++)
	{
		only &= aggs[i].filter != reg;
		if (aggs[i].arg != reg)
			continue;
		only &= aggs[i].kind == GPUSCAN_AGG_MIN || aggs[i].kind == GPUSCAN_AGG_MAX;
		n++;
	}
	return only ? n : 0;
}

/*
 * Inputs that need not be looked at where their extrema can change nothing: those for all of
 * whose extrema there is room
 */
static void
place_skips(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);
	CudaSource *source = g->source;

	for (uint16_t input = 0; input < p->ninputs; input++)
	{
		uint16_t reg = GPUSCAN_INPUTS(p)[input].reg;
		uint32_t n = count_extrema(g, reg);

		if (n == 0 || source->nskips + n > CUDA_SKIPS)
			continue;
		for (int i = 0; i < p->naggs; i++)
		{
			if (aggs[i].arg == reg)
				source->skips[source->nskips++] =
					(CudaSourceSkip){input, (uint16_t) i, aggs[i].kind == GPUSCAN_AGG_MIN};
		}
	}
}

/* Places a slot's words; false if groups cannot be kept in slots. */
bool
gpuscan_cuda_place_slot(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanKey *keys = GPUSCAN_KEYS(p);
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);
	bool fits = p->nkeys > 0;
	uint32_t bits = p->nkeys;
	uint32_t at = 2;

	g->slot_keys = at;
	for (int k = 0; k < p->nkeys; k++)
	{
		at = behind_key(&keys[k], at);
		bits += zero_bits(&keys[k]);
		fits &= keys[k].cls != GPUSCAN_TEXT || gpuscan_cuda_input_of(g, keys[k].reg) >= 0;
	}
	fits &= bits <= SLOT_BITS;
	g->slot_count = at++;
	for (int i = 0; i < p->naggs; i++)
	{
		AggPlace *place = &g->places[i];

		if (place->counter != 0 && !gpuscan_cuda_counted_before(g, i))
			place->slot_counter = at++;
		at += is_long(&aggs[i]) ? at % 2 : 0;
		place->slot_state = at;
		at += slot_words(&aggs[i], &fits);
	}
	g->slot_quick = at;
	for (int i = 0; i < p->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_SUM_F64)
			g->places[i].slot_quick = at++;
	}
	at += at == g->slot_quick;
	g->slot_words = at;
	place_numbers(g);
	place_skips(g);
	return fits;
}

/* `before` a place in the slot `between` the part of key k that is there */
static void
emit_slot_key(Generator *g, int k, uint32_t at, const char *before, const char *between)
{
	const GpuScanKey *key = &GPUSCAN_KEYS(g->program)[k];

	if (is_short(key->cls))
		EMIT("%sSLOT_WORD(slot, %u)%s(uint32_t) k%d;\n", before, at, between, k);
	else
		EMIT("%sSLOT_LONG(slot, %u)%s%c%d;\n", before, at, between,
			 key->cls == GPUSCAN_TEXT ? 'i' : 'k', k);
	if (key->cls == GPUSCAN_I128)
		EMIT("%sSLOT_LONG(slot, %u)%sh%d;\n", before, at + 2, between, k);
}

/* The hash of several keys, or of one whose neighbours mean nothing */
static void
emit_slot_mix(Generator *g)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(g->program);

	EMIT("\t\tuint32_t h = slot_mix(0, nulls);\n");
	for (int k = 0; k < g->program->nkeys; k++)
	{
		char word = keys[k].cls == GPUSCAN_TEXT ? 'i' : 'k';

		EMIT("\t\th = slot_mix(h, (uint32_t) %c%d);\n", word, k);
		if (keys[k].cls != GPUSCAN_I32 && keys[k].cls != GPUSCAN_BOOL &&
			keys[k].cls != GPUSCAN_TEXT)
			EMIT("\t\th = slot_mix(h >> 7 ^ h, (uint32_t) (%c%d >> 32));\n", word, k);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\t\th = slot_mix(h, (uint32_t) h%d);\n", k);
	}
	EMIT("\t\treturn h;\n");
}

/* The bits of a slot's state: which keys are NULL, and behind those, which of their words are 0 */
static void
emit_slot_bits(Generator *g)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(g->program);
	int bit = g->program->nkeys;

	EMIT("\tGS_MEMBER uint32_t slot_bits() const\n\t{\n\t\tuint32_t bits = nulls;\n");
	for (int k = 0; k < g->program->nkeys; k++)
	{
		if (keys[k].cls == GPUSCAN_TEXT)
			continue;
		EMIT("\t\tbits |= %sk%d == 0 ? %uU : 0;\n", is_short(keys[k].cls) ? "(uint32_t) " : "", k,
			 1U << bit++);
		if (keys[k].cls == GPUSCAN_I128)
			EMIT("\t\tbits |= h%d == 0 ? %uU : 0;\n", k, 1U << bit++);
	}
	EMIT("\t\treturn bits;\n\t}\n");
}

/* Members of Keys: what is the same as in a slot, and what is put there */
void
gpuscan_cuda_emit_slot_keys(Generator *g)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(g->program);
	uint32_t at = g->slot_keys;

	for (int k = 0; k < g->program->nkeys; k++)
	{
		if (keys[k].cls == GPUSCAN_TEXT)
			EMIT("\tuint64_t i%d;\n", k);
	}
	EMIT("\tGS_MEMBER uint32_t slot_number(const CudaLaunch &launch) const\n\t{\n"
		 "\t\tuint32_t number = 0;\n");
	for (int k = 0; g->source->numbered && k < g->program->nkeys; k++)
		EMIT("\t\tnumber = number * launch.hints.keys[%d].count + "
			 "number_of_key(launch.hints.keys[%d], %s%c%d, (nulls & %uU) != 0);\n",
			 k, k, is_short(keys[k].cls) ? "(uint32_t) " : "",
			 keys[k].cls == GPUSCAN_TEXT ? 'i' : 'k', k, 1U << k);
	EMIT("\t\treturn number;\n\t}\n\tGS_MEMBER uint32_t slot_hash() const\n\t{\n");
	if (g->program->nkeys == 1 && keys[0].cls == GPUSCAN_TEXT)
		EMIT("\t\treturn slot_near((uint32_t) (i0 / 4));\n");
	else if (g->program->nkeys == 1 && !is_float(keys[0].cls) && keys[0].cls != GPUSCAN_I128)
		EMIT("\t\treturn slot_near((uint32_t) k0%s);\n",
			 is_short(keys[0].cls) ? "" : " + (uint32_t) (k0 >> 32) * 0x9E3779B1U");
	else
		emit_slot_mix(g);
	EMIT("\t}\n");
	emit_slot_bits(g);
	EMIT("\tGS_MEMBER bool is_in(uint32_t slot) const\n\t{\n\t\tbool same = true;\n");
	for (int k = 0; k < g->program->nkeys; k++)
	{
		emit_slot_key(g, k, key_word(&keys[k], at), "\t\tsame = same && seen_by_others(", ") == ");
		at = behind_key(&keys[k], at);
	}
	EMIT("\t\treturn same;\n\t}\n\tGS_MEMBER void put_in(uint32_t slot) const\n\t{\n");
	at = g->slot_keys;
	for (int k = 0; k < g->program->nkeys; k++)
	{
		emit_slot_key(g, k, key_word(&keys[k], at), "\t\tseen_by_others(", ") = ");
		at = behind_key(&keys[k], at);
	}
	EMIT("\t}\n");
}

/*
 * Groups in slots
 */

/* Looks for the group's slot; makes one with the group's row if there is none. */
void
gpuscan_cuda_emit_find_slot(Generator *g)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(g->program);
	const CpuPhase *rest = &g->plan->phases[CPU_REST];

	EMIT("\tuint32_t slot = NO_SLOT;\n\tuint32_t hash_of_slot = 0;\n\tbool shared = sharing;\n");
	for (int k = 0; k < g->program->nkeys; k++)
	{
		int r = keys[k].reg;
		int column = gpuscan_cuda_input_of(g, keys[k].reg);
		char code[64];

		if (keys[k].cls != GPUSCAN_TEXT)
			continue;
		if (g->plan->key_use[r] == CPU_ONLY_KEY)
			snprintf(code, sizeof(code), "fetched_code(columns[%d], w%d, at)", column, r);
		else
			snprintf(code, sizeof(code), "column_code(columns[%d], at)", column);
		EMIT("\tshared = shared && (columns[%d].flags & CUDA_COLUMN_CODES) != 0;\n"
			 "\tkeys.i%d = f%d || !shared ? 0 : columns[%d].offsets + 4 * (uint64_t) %s;\n",
			 column, k, r, column, code);
	}
	EMIT("\tif (shared)\n\t{\n\t\thash_of_slot = launch.numbered ? keys.slot_number(launch) : "
		 "keys.slot_hash();\n"
		 "\t\tslot = find_slot(launch, keys, hash_of_slot);\n\t}\n"
		 "\tif (slot == NO_SLOT)\n\t{\n\tKeys copy = keys;\n\tKeys &keys = copy;\n");
	for (int i = 0; i < rest->ninputs; i++)
	{
		if (gpuscan_cuda_is_lazy(g, CPU_REST, &rest->inputs[i]))
			EMIT("\tconst GsText r%d = column_text(columns[%d], at);\n", rest->inputs[i].reg,
				 gpuscan_cuda_input_of(g, rest->inputs[i].reg));
	}
}

/* What lets an extremum be passed over; NULL: nothing */
static const CudaSourceSkip *
skip_of(const Generator *g, int agg)
{
	for (uint32_t j = 0; j < g->source->nskips; j++)
	{
		if (g->source->skips[j].agg == agg)
			return &g->source->skips[j];
	}
	return NULL;
}

/* Advances an extremum, if `condition` with its number is true. */
static void
emit_slot_extremum(Generator *g, int i, const char *condition)
{
	const GpuScanAgg *agg = &GPUSCAN_AGGS(g->program)[i];
	uint32_t at = g->places[i].slot_state;

	EMIT("\tif (%s%d)\n\t\tslot_extremum<%s>(LONG(%u), LONG(%u), %sr%d);\n", condition, i,
		 agg->kind == GPUSCAN_AGG_MIN ? "true" : "false", at, at + 2,
		 is_float(agg->cls) ? "(double) " : "(int64_t) ", agg->arg);
}

/* Advances the states of a slot but for float sums and, if it is the quick way, extrema that may be skipped. */
static void
emit_slot_states(Generator *g, bool quick)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("\tatomicAdd(WORD(%u), 1);\n", g->slot_count);
	for (int i = 0; i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		const AggPlace *place = &g->places[i];
		uint32_t at = place->slot_state;
		int r = agg->arg;

		if (place->slot_counter != 0)
			EMIT("\tif (%ss%d)\n\t\tatomicAdd(WORD(%u), 1);\n",
				 agg->filter == GPUSCAN_NO_REGISTER ? "!" : "", i, place->slot_counter);
		switch ((GpuScanAggKind) agg->kind)
		{
			case GPUSCAN_AGG_SUM_I64:
				EMIT("\tslot_add(WORD(%u), s%d ? (int64_t) r%d : 0);\n", at, i, r);
				break;
			case GPUSCAN_AGG_SUM_I128:
				EMIT("\tslot_add_wide(WORD(%u), s%d ? %sr%d : 0);\n", at, i,
					 agg->cls == GPUSCAN_I128 ? "" : "(int64_t) ", r);
				break;
			case GPUSCAN_AGG_MIN:
			case GPUSCAN_AGG_MAX:
				if (!quick || skip_of(g, i) == NULL)
					emit_slot_extremum(g, i, "s");
				break;
			case GPUSCAN_AGG_BOOL_AND:
			case GPUSCAN_AGG_BIT_AND:
			case GPUSCAN_AGG_BOOL_OR:
			case GPUSCAN_AGG_BIT_OR:
				EMIT("\tif (s%d)\n\t\tslot_or(LONG(%u), %s(uint64_t) (int64_t) r%d);\n", i, at,
					 agg->kind == GPUSCAN_AGG_BOOL_AND || agg->kind == GPUSCAN_AGG_BIT_AND ? "~"
																						   : "",
					 r);
				break;
			default:
				break;
		}
	}
}

/* Sees to it that float sums reach far enough, or the tuple waits; then advances. */
void
gpuscan_cuda_emit_slot_advance(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("\tuint32_t *const words = slots + slot;\n\tbool waits = false;\n");
	for (int i = 0; i < g->program->naggs; i++)
	{
		if (aggs[i].kind != GPUSCAN_AGG_SUM_F64)
			continue;
		EMIT("\tSlotSummand t%d = slot_summand(r%d, %s);\n"
			 "\tif (s%d)\n\t\tslot_sum_prepare(launch, slot, %uU, %uU, WORD(%u), t%d, waits);\n",
			 i, aggs[i].arg, gpuscan_cuda_sum_limit(&aggs[i]), i, g->source->row_size,
			 g->places[i].state, g->places[i].slot_state, i);
	}
	EMIT("\tif (waits)\n\t\treturn CUDA_TUPLE_WAITS;\n");
	emit_slot_states(g, false);
	for (int i = 0; i < g->program->naggs; i++)
	{
		const AggPlace *place = &g->places[i];

		if (aggs[i].kind == GPUSCAN_AGG_SUM_F64)
			EMIT("\tif (s%d)\n\t{\n\t\tslot_sum_add(WORD(%u), t%d);\n"
				 "\t\tslot_set_quick(WORD(%u), slot_sum_quick(t%d, %s));\n\t}\n",
				 i, place->slot_state, i, place->slot_quick, i, gpuscan_cuda_sum_limit(&aggs[i]));
	}
	EMIT("\tslot_set_quick(WORD(%u), QUICK_READY);\n\treturn PASSED;\n", g->slot_quick);
}

/* At the end of a thread block its slots go to the rows. */
void
gpuscan_cuda_emit_flush(Generator *g)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(g->program);

	EMIT("\t__syncthreads();\n\tif (launch.replicas == CUDA_NOT_SHARED)\n\t\treturn;\n"
		 "\tfor (uint32_t slot = threadIdx.x; slot < SLOTS; slot += blockDim.x)\n\t{\n"
		 "\tif (slots[slot] == SLOT_EMPTY)\n\t\tcontinue;\n"
		 "\tchar *p = (char *) launch.table.rows + (uint64_t) *SLOT_WORD(slot, 1) * %uU;\n"
		 "\tflush_add((uint64_t *) (p + %u), *SLOT_WORD(slot, %u));\n",
		 g->source->row_size, g->count_offset, g->slot_count);
	for (int i = 0; i < g->program->naggs; i++)
	{
		const GpuScanAgg *agg = &aggs[i];
		const AggPlace *place = &g->places[i];
		uint32_t at = place->slot_state;
		uint32_t to = place->state;

		if (place->slot_counter != 0)
			EMIT("\tflush_add((uint64_t *) (p + %u), *SLOT_WORD(slot, %u));\n", place->counter,
				 place->slot_counter);
		switch ((GpuScanAggKind) agg->kind)
		{
			case GPUSCAN_AGG_COUNT:
				break;
			case GPUSCAN_AGG_SUM_I64:
				EMIT("\tflush_add((uint64_t *) (p + %u), slot_long(SLOT_WORD(slot, %u)));\n", to,
					 at);
				break;
			case GPUSCAN_AGG_SUM_I128:
				EMIT("\tflush_wide%s((uint64_t *) (p + %u), SLOT_WORD(slot, %u));\n",
					 agg->cls == GPUSCAN_I128 ? "r" : "", to, at);
				break;
			case GPUSCAN_AGG_SUM_F64:
				EMIT("\tflush_sum((SumHead *) (p + %u), (uint64_t *) (p + %u), SLOT_WORD(slot, "
					 "%u));\n",
					 to, place->windows, at);
				break;
			case GPUSCAN_AGG_MIN:
			case GPUSCAN_AGG_MAX:
				EMIT("\tflush_max((uint64_t *) (p + %u), *SLOT_LONG(slot, %u));\n", to, at);
				if (is_float(agg->cls))
					EMIT("\tflush_or((uint64_t *) (p + %u), *SLOT_LONG(slot, %u));\n", to + 8,
						 at + 2);
				break;
			default:
				EMIT("\tflush_or((uint64_t *) (p + %u), *SLOT_LONG(slot, %u));\n", to, at);
				break;
		}
	}
	EMIT("\t}\n");
}

/*
 * The quick way
 */

/* It is there if each input is a number, or a text that only a key needs: see usual_values(). */
bool
gpuscan_cuda_has_quick(const Generator *g)
{
	const GpuScanProgram *p = g->program;
	bool fits = g->source->nslots > 0;

	for (int i = 0; i < p->ninputs; i++)
	{
		uint16_t r = GPUSCAN_INPUTS(p)[i].reg;

		fits &= g->classes[r] != GPUSCAN_I128 &&
				(g->classes[r] != GPUSCAN_TEXT || g->plan->key_use[r] == CPU_ONLY_KEY);
	}
	return fits;
}

/* Bits of a quick word for each extremum that may be passed over */
static uint32_t
skip_bits(const Generator *g)
{
	return CUDA_SKIP_BITS / g->source->nskips;
}

/* True if an input is loaded only for extrema that a piece may change */
static bool
is_skipped(const Generator *g, int input)
{
	for (uint32_t j = 0; j < g->source->nskips; j++)
	{
		if (g->source->skips[j].input == input)
			return true;
	}
	return false;
}

/* What lasts from one batch to the next: what pieces need of extrema, and who had to load values */
void
gpuscan_cuda_emit_quick_state(Generator *g)
{
	EMIT("\tuint32_t *const at_hand = slots_at_hand();\n"
		 "\tconst uint32_t copies = launch.replicas + 1;\n"
		 "\tconst uint32_t copy = threadIdx.x & launch.replicas;\n");
	for (uint32_t j = 0; j < g->source->nskips; j++)
		EMIT("\tuint32_t needed%u = 0;\n", j);
	for (int i = 0; i < g->program->ninputs; i++)
	{
		if (is_skipped(g, i))
			EMIT("\tbool eager%d = true;\n", GPUSCAN_INPUTS(g->program)[i].reg);
	}
	EMIT("\tauto unread = [&]() -> uint64_t\n\t{\n\t\tuint64_t which = 0;\n");
	for (int i = 0; i < g->program->ninputs && i < 64; i++)
	{
		if (is_skipped(g, i))
			EMIT("\t\twhich |= eager%d ? 0 : 0x%llx;\n", GPUSCAN_INPUTS(g->program)[i].reg,
				 1ULL << i);
	}
	EMIT("\t\treturn which;\n\t};\n");
}

/*
 * All loads of a batch.  Of extrema those threads load that needed values the last time.
 * The assembler moves no load across what a whole warp meets at.
 */
static void
emit_quick_loads(Generator *g)
{
	const GpuScanProgram *p = g->program;

	for (int i = 0; i < p->ninputs; i++)
	{
		int r = GPUSCAN_INPUTS(p)[i].reg;
		unsigned cls = g->classes[r] == GPUSCAN_TEXT ? GPUSCAN_I32 : g->classes[r];

		EMIT("\t%s v%d[BATCH_ROWS]%s;\n", gpuscan_cuda_types[cls], r,
			 is_skipped(g, i) ? " = {}" : "");
		if (is_skipped(g, i))
			EMIT("\tif (eager%d)\n\t", r);
		EMIT("\tusual_values(columns[%d], row, v%d);\n", i, r);
		if (!GPUSCAN_INPUTS(p)[i].not_null)
			EMIT("\tuint32_t n%d[BATCH_ROWS];\n\tusual_nulls(columns[%d], row, n%d);\n", r, i, r);
	}
	EMIT("\tif (BATCH_ROWS > 1)\n\t\t__syncwarp();\n");
}

/* Extrema that a row may change; others are not even loaded. */
static void
emit_quick_extrema(Generator *g)
{
	const CudaSource *source = g->source;
	uint32_t mask = source->nskips > 0 ? (1U << skip_bits(g)) - 1 : 0;

	for (uint32_t j = 0; j < source->nskips; j++)
		EMIT("\tconst bool e%u = s%u && (quick >> %u & %uU) < needed%u;\n", source->skips[j].agg,
			 source->skips[j].agg, CUDA_SKIP_FIRST + j * skip_bits(g), mask, j);
	for (int i = 0; i < g->program->ninputs; i++)
	{
		int r = GPUSCAN_INPUTS(g->program)[i].reg;

		if (!is_skipped(g, i))
			continue;
		EMIT("\tif (false");
		for (uint32_t j = 0; j < source->nskips; j++)
		{
			if (source->skips[j].input == i)
				EMIT(" || e%u", source->skips[j].agg);
		}
		EMIT(")\n\t{\n\tif (!eager%d)\n\t\tusual_value(columns[%d], row + k * 32, r%d);\n"
			 "\tlater%d = true;\n",
			 r, i, r, r);
		for (uint32_t j = 0; j < source->nskips; j++)
		{
			int agg = source->skips[j].agg;

			if (source->skips[j].input != i)
				continue;
			emit_slot_extremum(g, agg, "e");
			EMIT("\tif (e%d)\n\t\tslot_set_skip(WORD(%u), launch.hints.skips[%u], %u, %uU, "
				 "LONG(%u));\n",
				 agg, g->slot_quick, j, CUDA_SKIP_FIRST + j * skip_bits(g), mask,
				 g->places[agg].slot_state);
		}
		EMIT("\t}\n");
	}
}

/* A row of a batch, number k: PASSED, or nothing has been done */
static void
emit_quick_row(Generator *g)
{
	const GpuScanProgram *p = g->program;
	const GpuScanAgg *aggs = GPUSCAN_AGGS(p);

	for (int i = 0; i < p->ninputs; i++)
	{
		int r = GPUSCAN_INPUTS(p)[i].reg;

		if (GPUSCAN_INPUTS(p)[i].not_null)
			EMIT("\tconst uint8_t f%d = 0;\n", r);
		else
			EMIT("\tconst uint8_t f%d = n%d[k] >> (row & 31) & 1;\n", r, r);
		if (g->classes[r] != GPUSCAN_TEXT)
			EMIT("\t%s r%d = v%d[k];\n", gpuscan_cuda_types[g->classes[r]], r, r);
	}
	for (int phase = 0; phase < CPU_NUM_PHASES; phase++)
	{
		for (int i = 0; i < g->plan->phases[phase].ninstrs; i++)
			gpuscan_cuda_emit_instr(g, &g->plan->phases[phase].instrs[i]);
	}
	gpuscan_cuda_emit_selections(g);
	gpuscan_cuda_emit_keys(g);
	for (int k = 0; k < p->nkeys; k++)
	{
		int r = GPUSCAN_KEYS(p)[k].reg;

		if (GPUSCAN_KEYS(p)[k].cls == GPUSCAN_TEXT)
			EMIT("\tkeys.i%d = f%d ? 0 : columns[%d].offsets + 4 * (uint64_t) (uint32_t) v%d[k];\n",
				 k, r, gpuscan_cuda_input_of(g, (uint16_t) r), r);
	}
	EMIT("\tconst uint32_t hash = numbered.value ? keys.slot_number(launch) : keys.slot_hash();\n"
		 "\tconst uint32_t slot = (numbered.value ? hash * copies : hash * copies & (SLOTS - 1)) + "
		 "copy;\n"
		 "\tuint32_t *const words = at_hand + slot;\n"
		 "\tconst uint32_t quick = seen_by_others(WORD(%u));\n"
		 "\tbool ok = numbered.value ? (quick & QUICK_READY) != 0 : is_slot_of(keys, slot);\n",
		 g->slot_quick);
	for (int i = 0; i < p->naggs; i++)
	{
		uint32_t at = g->places[i].slot_quick;

		if (aggs[i].kind != GPUSCAN_AGG_SUM_F64)
			continue;
		EMIT("\tQuickSummand t%d;\n\tok &= quick_summand(s%d ? r%d : 0, ", i, i, aggs[i].arg);
		if (at == g->slot_quick)
			EMIT("quick");
		else
			EMIT("seen_by_others(WORD(%u))", at);
		EMIT(", t%d) | !s%d;\n", i, i);
	}
	EMIT("\tif (!ok || (todo >> k & 1) == 0)\n\t\treturn REJECTED;\n");
	for (int i = 0; i < p->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_SUM_F64)
			EMIT("\tquick_sum_add(WORD(%u), t%d);\n", g->places[i].slot_state, i);
	}
	emit_slot_states(g, true);
	emit_quick_extrema(g);
	for (int i = 0; i < p->naggs; i++)
	{
		if (aggs[i].kind == GPUSCAN_AGG_SUM_F64)
			EMIT("\tquick_sum_carry(WORD(%u), t%d);\n", g->places[i].slot_state, i);
	}
	EMIT("\treturn PASSED;\n");
}

/*
 * Two functions: what begins with a piece of usual columns, which returns false if one
 * has NULLs that it should not; and a batch of its rows
 */
void
gpuscan_cuda_emit_quick(Generator *g)
{
	const GpuScanProgram *p = g->program;

	if (!gpuscan_cuda_has_quick(g))
	{
		EMIT("\t[&]() -> bool { return false; },\n"
			 "\t[&](auto numbered, uint32_t row, uint32_t todo) -> uint32_t { return 0; },\n");
		return;
	}
	EMIT("\t[&]() -> bool\n\t{\n\tuint32_t flags = 0;\n");
	for (uint32_t j = 0; j < g->source->nskips; j++)
		EMIT("\tneeded%u = skip_needs<%s>(launch.hints.skips[%u], columns[%u]);\n", j,
			 g->source->skips[j].is_min ? "true" : "false", j, g->source->skips[j].input);
	for (int i = 0; i < p->ninputs; i++)
	{
		if (GPUSCAN_INPUTS(p)[i].not_null)
			EMIT("\tflags |= columns[%d].flags;\n", i);
	}
	EMIT("\treturn (flags & CUDA_COLUMN_HAS_NULLS) == 0;\n\t},\n"
		 "\t[&](auto numbered, uint32_t row, uint32_t todo) -> uint32_t\n\t{\n\tuint32_t done = "
		 "0;\n");
	emit_quick_loads(g);
	for (int i = 0; i < p->ninputs; i++)
	{
		if (is_skipped(g, i))
			EMIT("\tbool later%d = false;\n", GPUSCAN_INPUTS(p)[i].reg);
	}
	EMIT("#pragma unroll\n\tfor (uint32_t k = 0; k < BATCH_ROWS; k++)\n\t{\n"
		 "\tauto advance = [&]() -> uint32_t\n\t{\n");
	emit_quick_row(g);
	EMIT("\t};\n\tdone |= (uint32_t) (advance() == PASSED) << k;\n\t}\n");
	for (int i = 0; i < p->ninputs; i++)
	{
		int r = GPUSCAN_INPUTS(p)[i].reg;

		if (is_skipped(g, i))
			EMIT("\teager%d = later%d;\n", r, r);
	}
	EMIT("\treturn done;\n\t},\n");
}
