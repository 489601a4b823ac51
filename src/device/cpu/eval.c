/*-------------------------------------------------------------------------
 *
 * eval.c
 *	  The interpreter: one loop over a chunk for each operation.
 *
 * The loops are made from ops.h.  An operation is computed for every tuple of
 * the chunk, whether its operands are NULL or not; scalar.h takes any operand.
 * The flags of strict operations follow in a second loop, and only where an
 * operand has any: registers know when they are clean, and share one array of
 * zeros then.  So the common case is a plain loop that the compiler vectorizes,
 * for AVX2 and AVX-512 as well where it can choose at run time.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#define TYPE_BOOL uint8_t
#define TYPE_I32 int32_t
#define TYPE_I64 int64_t
#define TYPE_I128 gs_i128
#define TYPE_F32 float
#define TYPE_F64 double
#define TYPE_TEXT GsText

const uint8_t gpuscan_cpu_zeros[CPU_CHUNK] __attribute__((aligned(64))) = {0};

/* For each byte the numbers of its bits that are set, ascending, in a byte each */
#define BYTE(m, b) (((m) >> (b)) % 2 * ((uint64_t) (b) << 8 * __builtin_popcount((m) % (1 << (b)))))
#define BYTES(m)                                                                                   \
	BYTE(m, 1) | BYTE(m, 2) | BYTE(m, 3) | BYTE(m, 4) | BYTE(m, 5) | BYTE(m, 6) | BYTE(m, 7),
#define BYTES_4(m) BYTES(m) BYTES(m + 1) BYTES(m + 2) BYTES(m + 3)
#define BYTES_16(m) BYTES_4(m) BYTES_4(m + 4) BYTES_4(m + 8) BYTES_4(m + 12)
#define BYTES_64(m) BYTES_16(m) BYTES_16(m + 16) BYTES_16(m + 32) BYTES_16(m + 48)
static const uint64_t bits_of_byte[256] = {BYTES_64(0) BYTES_64(64) BYTES_64(128) BYTES_64(192)};

uint32_t
gpuscan_cpu_list(const uint8_t *chosen, uint32_t n, uint16_t *list)
{
	typedef uint8_t Bytes __attribute__((vector_size(8)));
	typedef uint16_t Words __attribute__((vector_size(16)));
	uint32_t nlisted = 0;
	uint32_t i = 0;

	for (; i + 8 <= n; i += 8)
	{
		uint64_t bytes = bytes_load_u64((const char *) chosen + i);
		Bytes bits = (Bytes) bits_of_byte[bytes * UINT64_C(0x0102040810204080) >> 56];
		Words words = __builtin_convertvector(bits, Words) + (uint16_t) i;

		/* eight, of which those that count come first */
		memcpy(list + nlisted, &words, sizeof(words));
		nlisted += (uint32_t) (bytes * UINT64_C(0x0101010101010101) >> 56);
	}
	for (; i < n; i++)
	{
		list[nlisted] = (uint16_t) i;
		nlisted += chosen[i];
	}
	return nlisted;
}

#define GATHER(T)                                                                                  \
	do                                                                                             \
	{                                                                                              \
		const T *source = from->values;                                                            \
		T *values = to->values;                                                                    \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
			values[i] = source[some[i]];                                                           \
	} while (0)

void
gpuscan_cpu_gather(CpuRegister *to, const CpuRegister *from, unsigned cls, const uint16_t *some,
				   uint32_t n)
{
	uint8_t any = 0;

	switch (gpuscan_columns_value_size[cls])
	{
		case 1:
			GATHER(uint8_t);
			break;
		case 4:
			GATHER(uint32_t);
			break;
		case 8:
			GATHER(uint64_t);
			break;
		default:
			GATHER(gs_i128);
			break;
	}
	for (uint32_t i = 0; !from->clean && i < n; i++)
		any |= to->own[i] = from->flags[some[i]];
	cpu_set_flags(to, any);
}

/* One instruction, with its registers. */
typedef struct Step
{
	const GpuScanProgram *program;
	const GpuScanInstr *instr;
	CpuRegister *dst;
	const CpuRegister *a;
	const CpuRegister *b;
	const CpuRegister *c;
	uint32_t n;
} Step;

/*
 * The flags of a strict operation: those of its operands, an error before a
 * NULL, or else its own, which lie in `own` already if `fails`.
 */
CLONES static void
strict_flags(const Step *step, const CpuRegister *a, const CpuRegister *b, bool fails)
{
	uint8_t *restrict own = step->dst->own;
	const uint8_t *fa = a->flags;
	const uint8_t *fb = b->flags;
	uint8_t any = 0;

	for (uint32_t i = 0; i < step->n; i++)
	{
		uint8_t flags = fa[i] | fb[i];
		uint8_t mine = fails ? own[i] : 0;

		flags = flags & (uint8_t) ~(flags >> 1);
		flags = flags != 0 ? flags : mine;
		own[i] = flags;
		any |= flags;
	}
	cpu_set_flags(step->dst, any);
}

static void
finish_step(const Step *step, const CpuRegister *a, const CpuRegister *b, bool fails, uint8_t any)
{
	if (a->clean && b->clean)
		cpu_set_flags(step->dst, any);
	else
		strict_flags(step, a, b, fails);
}

#define GPUSCAN_UNARY(name, D, A, fn)                                                              \
	CLONES static void eval_##name(const Step *step)                                               \
	{                                                                                              \
		const TYPE_##A *a = step->a->values;                                                       \
		TYPE_##D *restrict dst = step->dst->values;                                                \
                                                                                                   \
		for (uint32_t i = 0; i < step->n; i++)                                                     \
			fn(a[i], &dst[i]);                                                                     \
		finish_step(step, step->a, step->a, false, 0);                                             \
	}

#define GPUSCAN_BINARY(name, D, A, B, fn)                                                          \
	CLONES static void eval_##name(const Step *step)                                               \
	{                                                                                              \
		const TYPE_##A *a = step->a->values;                                                       \
		const TYPE_##B *b = step->b->values;                                                       \
		TYPE_##D *restrict dst = step->dst->values;                                                \
                                                                                                   \
		for (uint32_t i = 0; i < step->n; i++)                                                     \
			fn(a[i], b[i], &dst[i]);                                                               \
		finish_step(step, step->a, step->b, false, 0);                                             \
	}

#define GPUSCAN_UNARY_E(name, D, A, fn)                                                            \
	CLONES static void eval_##name(const Step *step)                                               \
	{                                                                                              \
		const TYPE_##A *a = step->a->values;                                                       \
		TYPE_##D *restrict dst = step->dst->values;                                                \
		uint8_t *restrict own = step->dst->own;                                                    \
		uint8_t any = 0;                                                                           \
                                                                                                   \
		for (uint32_t i = 0; i < step->n; i++)                                                     \
		{                                                                                          \
			own[i] = fn(a[i], &dst[i]);                                                            \
			any |= own[i];                                                                         \
		}                                                                                          \
		finish_step(step, step->a, step->a, true, any);                                            \
	}

#define GPUSCAN_BINARY_E(name, D, A, B, fn)                                                        \
	CLONES static void eval_##name(const Step *step)                                               \
	{                                                                                              \
		const TYPE_##A *a = step->a->values;                                                       \
		const TYPE_##B *b = step->b->values;                                                       \
		TYPE_##D *restrict dst = step->dst->values;                                                \
		uint8_t *restrict own = step->dst->own;                                                    \
		uint8_t any = 0;                                                                           \
                                                                                                   \
		for (uint32_t i = 0; i < step->n; i++)                                                     \
		{                                                                                          \
			own[i] = fn(a[i], b[i], &dst[i]);                                                      \
			any |= own[i];                                                                         \
		}                                                                                          \
		finish_step(step, step->a, step->b, true, any);                                            \
	}

#define GPUSCAN_SPECIAL(name, dst, a, b, c)
#include "program/ops.h"

/*
 * The special operations.  A body computes `value` and `flags` of tuple i
 * from the operands' flags fa, fb, fc.
 */
#define SPECIAL(name, T, body)                                                                     \
	static void eval_##name(const Step *step)                                                      \
	{                                                                                              \
		const uint8_t *fa = step->a->flags;                                                        \
		const uint8_t *fb = step->b->flags;                                                        \
		const uint8_t *fc = step->c->flags;                                                        \
		T *restrict values = step->dst->values;                                                    \
		uint8_t *restrict own = step->dst->own;                                                    \
		uint8_t any = 0;                                                                           \
                                                                                                   \
		(void) fb;                                                                                 \
		(void) fc;                                                                                 \
		for (uint32_t i = 0; i < step->n; i++)                                                     \
		{                                                                                          \
			T value;                                                                               \
			uint8_t flags;                                                                         \
                                                                                                   \
			body;                                                                                  \
			values[i] = value;                                                                     \
			own[i] = flags;                                                                        \
			any |= flags;                                                                          \
		}                                                                                          \
		cpu_set_flags(step->dst, any);                                                             \
	}

#define A(T) (((const T *) step->a->values)[i])
#define B(T) (((const T *) step->b->values)[i])
#define C(T) (((const T *) step->c->values)[i])

/*
 * AND and OR of values with flags.  `deciding` is the value that ends the
 * evaluation: the left operand's error counts always, the right one's only
 * where the left operand did not decide.
 */
static inline uint8_t
logic(uint8_t a, uint8_t fa, uint8_t b, uint8_t fb, uint8_t deciding, uint8_t *flags)
{
	bool a_decides = fa == 0 && a == deciding;
	bool b_decides = fb == 0 && b == deciding;

	if (fa == GPUSCAN_ERROR || (fb == GPUSCAN_ERROR && !a_decides))
		*flags = GPUSCAN_ERROR;
	else
		*flags = a_decides || b_decides ? 0 : fa | fb;
	return a_decides || b_decides ? deciding : !deciding;
}

SPECIAL(FLAGGED_AND, uint8_t, value = logic(A(uint8_t), fa[i], B(uint8_t), fb[i], 0, &flags))
SPECIAL(FLAGGED_OR, uint8_t, value = logic(A(uint8_t), fa[i], B(uint8_t), fb[i], 1, &flags))

#define CLEAN_LOGIC(name, operator)                                                                \
	CLONES static void eval_##name(const Step *step)                                               \
	{                                                                                              \
		const uint8_t *a = step->a->values;                                                        \
		const uint8_t *b = step->b->values;                                                        \
		uint8_t *restrict dst = step->dst->values;                                                 \
		uint32_t n = step->n;                                                                      \
                                                                                                   \
		if (!step->a->clean || !step->b->clean)                                                    \
		{                                                                                          \
			eval_FLAGGED_##name(step);                                                             \
			return;                                                                                \
		}                                                                                          \
		for (uint32_t i = 0; i < n; i++)                                                           \
			dst[i] = a[i] operator b[i];                                                           \
		cpu_set_flags(step->dst, 0);                                                               \
	}

CLEAN_LOGIC(AND, &)
CLEAN_LOGIC(OR, |)

#define TEST(name, test) SPECIAL(name, uint8_t, value = (test); flags = fa[i] & GPUSCAN_ERROR)

TEST(IS_NULL, fa[i] == GPUSCAN_NULL)
TEST(IS_NOT_NULL, fa[i] == 0)
TEST(IS_TRUE, fa[i] == 0 && A(uint8_t))
TEST(IS_NOT_TRUE, !(fa[i] == 0 && A(uint8_t)))
TEST(IS_FALSE, fa[i] == 0 && !A(uint8_t))
TEST(IS_NOT_FALSE, !(fa[i] == 0 && !A(uint8_t)))

static inline uint8_t
distinct(uint8_t fa, uint8_t fb, uint8_t c, uint8_t fc, uint8_t *flags)
{
	*flags = (fa | fb) & GPUSCAN_ERROR;
	if (fa == 0 && fb == 0)
	{
		*flags = fc;
		return c;
	}
	return fa != fb;
}

SPECIAL(IS_DISTINCT, uint8_t, value = distinct(fa[i], fb[i], C(uint8_t), fc[i], &flags))

#define SELECT(cls, T)                                                                             \
	SPECIAL(SELECT_##cls, T, bool first = fa[i] == 0 && A(uint8_t); value = first ? B(T) : C(T);   \
			flags = fa[i] == GPUSCAN_ERROR ? GPUSCAN_ERROR : (first ? fb[i] : fc[i]))
#define COALESCE(cls, T)                                                                           \
	SPECIAL(COALESCE_##cls, T, bool second = fa[i] == GPUSCAN_NULL; value = second ? B(T) : A(T);  \
			flags = second ? fb[i] : fa[i])
#define NULLIF(cls, T)                                                                             \
	SPECIAL(NULLIF_##cls, T, value = A(T);                                                         \
			flags = ((fa[i] | fb[i]) & GPUSCAN_ERROR)		 ? GPUSCAN_ERROR                       \
					: fa[i] == 0 && fb[i] == 0 && B(uint8_t) ? GPUSCAN_NULL                        \
															 : fa[i])
#define CHOICES(cls, T)                                                                            \
	SELECT(cls, T)                                                                                 \
	COALESCE(cls, T)                                                                               \
	NULLIF(cls, T)

CHOICES(BOOL, uint8_t)
CHOICES(I32, int32_t)
CHOICES(I64, int64_t)
CHOICES(I128, gs_i128)
CHOICES(F32, float)
CHOICES(F64, double)
CHOICES(TEXT, GsText)

#define EXTREMUM(name, T, fn)                                                                      \
	SPECIAL(name, T, fn(A(T), B(T), &value); value = fa[i] == GPUSCAN_NULL ? B(T) : value;         \
			value = fb[i] == GPUSCAN_NULL ? A(T) : value;                                          \
			flags = ((fa[i] | fb[i]) & GPUSCAN_ERROR) | (fa[i] & fb[i] & GPUSCAN_NULL))
#define EXTREMA(cls, T, fn)                                                                        \
	EXTREMUM(LEAST_##cls, T, gs_##fn##_least)                                                      \
	EXTREMUM(GREATEST_##cls, T, gs_##fn##_greatest)

EXTREMA(I32, int32_t, i32)
EXTREMA(I64, int64_t, i64)
EXTREMA(I128, gs_i128, i128)
EXTREMA(F32, float, f32)
EXTREMA(F64, double, f64)

/* a = ANY (set), where `found` says if the set has a */
static inline uint8_t
any_flags(uint8_t fa, bool found, const GpuScanSet *set)
{
	if (fa == GPUSCAN_NULL && set->n == 0 && !set->has_null)
		return 0;
	return fa != 0 ? fa : (!found && set->has_null ? GPUSCAN_NULL : 0);
}

#define MEMBERS(set) ((const void *) ((const char *) step->program + (set)->offset))
#define ANY_EQ(cls, T, find)                                                                       \
	SPECIAL(ANY_EQ_##cls, uint8_t,                                                                 \
			const GpuScanSet *set = &GPUSCAN_SETS(step->program)[step->instr->aux];                \
			value = fa[i] == 0 && find; flags = any_flags(fa[i], value, set))


ANY_EQ(I32, int32_t, gs_i32_any(A(int32_t), MEMBERS(set), set->n))
ANY_EQ(I64, int64_t, gs_i64_any(A(int64_t), MEMBERS(set), set->n))
ANY_EQ(I128, gs_i128, gs_i128_any(A(gs_i128), MEMBERS(set), set->n))
ANY_EQ(F64, double, gs_f64_any(A(double), MEMBERS(set), set->n))
ANY_EQ(TEXT, GsText, gs_text_any(A(GsText), (const char *) step->program, MEMBERS(set), set->n))

#define FIND(cls, T, find)                                                                         \
	SPECIAL(FIND_##cls, int32_t,                                                                   \
			const GpuScanSet *set = &GPUSCAN_SETS(step->program)[step->instr->aux];                \
			uint32_t at = fa[i] == 0 ? find : set->n; value = (int32_t) at;                        \
			flags = gs_find_flags(fa[i], at, set->n))

FIND(I32, int32_t, gs_i32_find(A(int32_t), MEMBERS(set), set->n))
FIND(I64, int64_t, gs_i64_find(A(int64_t), MEMBERS(set), set->n))
FIND(TEXT, GsText,
	 gs_text_find(A(GsText), (const char *) step->program, MEMBERS(set), set->n,
				  (const uint32_t *) ((const char *) step->program + set->slots)))

#define TAKE(cls, T, take)                                                                         \
	SPECIAL(TAKE_##cls, T, const char *program = (const char *) step->program;                     \
			const GpuScanList *list = &GPUSCAN_LISTS(step->program)[step->instr->aux];             \
			const void *members = program + list->values; value = take;                            \
			flags = gs_take_flags(fa[i], A(int32_t), program + list->flags, list->n))

TAKE(BOOL, uint8_t, gs_bool_take(A(int32_t), members, list->n))
TAKE(I32, int32_t, gs_i32_take(A(int32_t), members, list->n))
TAKE(I64, int64_t, gs_i64_take(A(int32_t), members, list->n))
TAKE(I128, gs_i128, gs_i128_take(A(int32_t), members, list->n))
TAKE(F32, float, gs_f32_take(A(int32_t), members, list->n))
TAKE(F64, double, gs_f64_take(A(int32_t), members, list->n))
TAKE(TEXT, GsText, gs_text_take(A(int32_t), program, members, list->n))

#define GPUSCAN_UNARY(name, D, A, fn) eval_##name,
#define GPUSCAN_UNARY_E(name, D, A, fn) eval_##name,
#define GPUSCAN_BINARY(name, D, A, B, fn) eval_##name,
#define GPUSCAN_BINARY_E(name, D, A, B, fn) eval_##name,
#define GPUSCAN_SPECIAL(name, dst, a, b, c) eval_##name,
static void (*const evals[GPUSCAN_NUM_OPS])(const Step *step) = {
#include "program/ops.h"
};

void
gpuscan_cpu_eval(const GpuScanProgram *program, const CpuPhase *phase, CpuRegister *registers,
				 uint32_t n)
{
	for (int i = 0; i < phase->ninstrs; i++)
	{
		const GpuScanInstr *instr = &phase->instrs[i];
		const uint8_t *src = gpuscan_ops[instr->op].src;
		const CpuRegister *a = &registers[instr->a];
		Step step = {.program = program,
					 .instr = instr,
					 .dst = &registers[instr->dst],
					 .a = a,
					 .b = src[1] == GPUSCAN_NONE ? a : &registers[instr->b],
					 .c = src[2] == GPUSCAN_NONE ? a : &registers[instr->c],
					 .n = n};

		evals[instr->op](&step);
	}
}

#define FILL(T, value)                                                                             \
	do                                                                                             \
	{                                                                                              \
		T *values = reg->values;                                                                   \
                                                                                                   \
		for (uint32_t k = 0; k < CPU_CHUNK; k++)                                                   \
			values[k] = (value);                                                                   \
	} while (0)

void
gpuscan_cpu_load_params(const GpuScanProgram *program, CpuRegister *registers)
{
	const GpuScanParam *params = GPUSCAN_PARAMS(program);
	const uint8_t *classes = GPUSCAN_REG_CLASSES(program);

	for (int i = 0; i < program->nparams; i++)
	{
		const GpuScanParam *param = &params[i];
		CpuRegister *reg = &registers[param->reg];
		uint32_t low = (uint32_t) param->lo;
		double f64;
		float f32;

		memcpy(&f64, &param->lo, sizeof(f64));
		memcpy(&f32, &low, sizeof(f32));
		switch ((GpuScanClass) classes[param->reg])
		{
			case GPUSCAN_BOOL:
				FILL(uint8_t, param->lo != 0);
				break;
			case GPUSCAN_I32:
				FILL(int32_t, (int32_t) low);
				break;
			case GPUSCAN_I64:
				FILL(int64_t, (int64_t) param->lo);
				break;
			case GPUSCAN_I128:
				FILL(gs_i128, (gs_i128) ((gs_u128) param->hi << 64 | param->lo));
				break;
			case GPUSCAN_F32:
				FILL(float, f32);
				break;
			case GPUSCAN_F64:
				FILL(double, f64);
				break;
			case GPUSCAN_TEXT:
				FILL(GsText, ((GsText){(const char *) program + param->lo, param->len}));
				break;
		}
		memset(reg->own, param->flags, CPU_CHUNK);
		cpu_set_flags(reg, (uint8_t) param->flags);
	}
}
