/*-------------------------------------------------------------------------
 *
 * expr.c
 *	  From an expression to the instructions that compute it.
 *
 * Every branch of a CASE is computed for every tuple; the operations that
 * choose drop the errors of what PostgreSQL would not have evaluated, see
 * ops.h.  An expression that occurs again is computed once.  What no operation
 * computes is perhaps left to map.c, or is a column of its own (expression_column.c).
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "program/compiler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

/* Notes the first reason found; always false. */
bool
gpuscan_compile_fail(GpuScanCompiler *c, const char *fmt, ...)
{
	StringInfoData buf;

	if (c->reason != NULL)
		return false;
	initStringInfo(&buf);
	for (;;)
	{
		va_list args;
		int needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(&buf, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&buf, needed);
	}
	c->reason = buf.data;
	return false;
}

/* Equality under this collation is equality of bytes. */
bool
gpuscan_expr_deterministic(GpuScanCompiler *c, Oid collation)
{
	if (!OidIsValid(collation))
		return gpuscan_compile_fail(c, "a collation is not determined");
	if (!get_collation_isdeterministic(collation))
		return gpuscan_compile_fail(c, "collation \"%s\" is not deterministic",
									get_collation_name(collation));
	return true;
}

static Oid
base_type(Expr *expr)
{
	return getBaseType(exprType((Node *) expr));
}

static void
apply1(GpuScanCompiler *c, int op, GpuScanValue *value)
{
	value->reg = emit1(c, op, value->reg);
	value->cls = gpuscan_ops[op].dst;
}

/* Widens to a class that an operation wants. */
static bool
widen(GpuScanCompiler *c, GpuScanValue *value, GpuScanClass cls)
{
	if (value->cls == GPUSCAN_BOOL && cls == GPUSCAN_I32)
		apply1(c, GPUSCAN_OP_BOOL_TO_I32, value);
	else if (value->cls == GPUSCAN_I32 && cls == GPUSCAN_I64)
		apply1(c, GPUSCAN_OP_I32_TO_I64, value);
	else if (value->cls == GPUSCAN_F32 && cls == GPUSCAN_F64)
		apply1(c, GPUSCAN_OP_F32_TO_F64, value);
	else if (value->cls != cls)
		return gpuscan_compile_fail(c, "an operation on these types is not offloaded");
	return true;
}

/* The class in which two values are compared. */
static GpuScanClass
comparison_class(const GpuScanValue *a, const GpuScanValue *b)
{
	switch (a->cls)
	{
		case GPUSCAN_BOOL:
			return GPUSCAN_I32;
		case GPUSCAN_I32:
			return b->cls == GPUSCAN_I64 ? GPUSCAN_I64 : GPUSCAN_I32;
		case GPUSCAN_F32:
			return GPUSCAN_F64;
		default:
			return a->cls;
	}
}

/* The register of a comparison of two values of types that compare. */
bool
gpuscan_expr_compare(GpuScanCompiler *c, GpuScanComparison comparison, GpuScanValue a,
					 GpuScanValue b, uint16 *reg)
{
	static const int first_op[GPUSCAN_NUM_CLASSES] = {
		[GPUSCAN_I32] = GPUSCAN_OP_I32_EQ,	 [GPUSCAN_I64] = GPUSCAN_OP_I64_EQ,
		[GPUSCAN_I128] = GPUSCAN_OP_I128_EQ, [GPUSCAN_F64] = GPUSCAN_OP_F64_EQ,
		[GPUSCAN_TEXT] = GPUSCAN_OP_TEXT_EQ,
	};
	GpuScanClass cls;

	if (a.numeric)
	{
		GpuScanValue *both[] = {&a, &b};

		/* display scales do not matter here, so none shall be computed */
		a.dscale = b.dscale = GPUSCAN_NO_REGISTER;
		if (!gpuscan_decimal_rescale(c, &a, Max(a.scale, b.scale)) ||
			!gpuscan_decimal_rescale(c, &b, a.scale) || !gpuscan_decimal_unify(c, both, 2))
			return false;
		cls = a.cls;
	}
	else
	{
		cls = comparison_class(&a, &b);
		if (!widen(c, &a, cls) || !widen(c, &b, cls))
			return false;
	}
	*reg = emit2(c, first_op[cls] + comparison, a.reg, b.reg);
	return true;
}

/* Compiles both operands of a comparison, and brings them to comparable types. */
static bool
comparison_operands(GpuScanCompiler *c, List *args, Oid collation, GpuScanValue *a, GpuScanValue *b)
{
	Oid atype = base_type(linitial(args));
	Oid btype = base_type(lsecond(args));

	if (!gpuscan_expr_compile(c, linitial(args), a) || !gpuscan_expr_compile(c, lsecond(args), b))
		return false;
	if (a->cls == GPUSCAN_TEXT && !gpuscan_expr_deterministic(c, collation))
		return false;
	if (atype == BPCHAROID)
		apply1(c, GPUSCAN_OP_BPCHAR_TRIM, a);
	if (btype == BPCHAROID)
		apply1(c, GPUSCAN_OP_BPCHAR_TRIM, b);
	if (atype == DATEOID && btype == TIMESTAMPOID)
		apply1(c, GPUSCAN_OP_DATE_TO_TIMESTAMP, a);
	if (atype == TIMESTAMPOID && btype == DATEOID)
		apply1(c, GPUSCAN_OP_DATE_TO_TIMESTAMP, b);
	return true;
}

static void
set_bool(GpuScanValue *value, uint16 reg)
{
	memset(value, 0, sizeof(*value));
	value->cls = GPUSCAN_BOOL;
	value->dscale = GPUSCAN_NO_REGISTER;
	value->reg = reg;
}

/* The conversion to `type` of a value whose type was `from`. */
static bool
cast(GpuScanCompiler *c, Oid from, Oid type, GpuScanValue *value)
{
	if (value->numeric && type == FLOAT8OID)
	{
		gpuscan_decimal_to_float(c, value);
		return true;
	}
	if (value->numeric)
		gpuscan_decimal_to_integer(c, value);

	switch (type)
	{
		case INT2OID:
		case INT4OID:
			if (value->cls == GPUSCAN_BOOL)
				apply1(c, GPUSCAN_OP_BOOL_TO_I32, value);
			if (value->cls == GPUSCAN_F32)
				apply1(c, GPUSCAN_OP_F32_TO_F64, value);
			if (value->cls == GPUSCAN_F64)
				apply1(c, GPUSCAN_OP_F64_TO_I32, value);
			if (value->cls == GPUSCAN_I64)
				apply1(c, GPUSCAN_OP_I64_TO_I32, value);
			if (type == INT2OID)
				apply1(c, GPUSCAN_OP_I32_TO_INT2, value);
			return true;
		case INT8OID:
			if (value->cls == GPUSCAN_F32)
				apply1(c, GPUSCAN_OP_F32_TO_F64, value);
			if (value->cls == GPUSCAN_F64)
				apply1(c, GPUSCAN_OP_F64_TO_I64, value);
			return widen(c, value, GPUSCAN_I64);
		case FLOAT4OID:
			apply1(c,
				   value->cls == GPUSCAN_I32   ? GPUSCAN_OP_I32_TO_F32
				   : value->cls == GPUSCAN_I64 ? GPUSCAN_OP_I64_TO_F32
											   : GPUSCAN_OP_F64_TO_F32,
				   value);
			return true;
		case FLOAT8OID:
			apply1(c,
				   value->cls == GPUSCAN_I32   ? GPUSCAN_OP_I32_TO_F64
				   : value->cls == GPUSCAN_I64 ? GPUSCAN_OP_I64_TO_F64
											   : GPUSCAN_OP_F32_TO_F64,
				   value);
			return true;
		case NUMERICOID:
			gpuscan_decimal_of_integer(c, value);
			return true;
		case BOOLOID:
			apply1(c, GPUSCAN_OP_I32_TO_BOOL, value);
			return true;
		case TIMESTAMPOID:
			apply1(c, GPUSCAN_OP_DATE_TO_TIMESTAMP, value);
			return true;
		case DATEOID:
			apply1(c, GPUSCAN_OP_TIMESTAMP_TO_DATE, value);
			return true;
		case TEXTOID:
			Assert(from == BPCHAROID);
			apply1(c, GPUSCAN_OP_BPCHAR_TRIM, value);
			return true;
		default:
			return gpuscan_compile_fail(c, "a cast from %s to %s is not offloaded",
										format_type_be(from), format_type_be(type));
	}
}

/* A function's or an operator's call. */
static bool
call(GpuScanCompiler *c, Expr *expr, Oid funcid, List *args, Oid collation, GpuScanValue *value)
{
	const GpuScanFunction *function = gpuscan_eligible_function(funcid);
	GpuScanValue b;
	uint16 reg;

	if (function == NULL)
	{
		if (gpuscan_value_of_parameter(c, expr, value))
			return true;
		c->reason = NULL;
		return gpuscan_compile_fail(c, "function %s is not offloaded", format_procedure(funcid));
	}

	switch (function->action)
	{
		case GPUSCAN_DO_OP:
		{
			const GpuScanOpInfo *op = &gpuscan_ops[function->op];

			if (!gpuscan_expr_compile(c, linitial(args), value) || !widen(c, value, op->src[0]))
				return false;
			reg = 0;
			if (op->src[1] != GPUSCAN_NONE)
			{
				if (!gpuscan_expr_compile(c, lsecond(args), &b) || !widen(c, &b, op->src[1]))
					return false;
				reg = b.reg;
			}
			value->reg = emit2(c, function->op, value->reg, reg);
			value->cls = op->dst;
			value->null_constant = false;
			return true;
		}
		case GPUSCAN_DO_COMPARE:
			if (!comparison_operands(c, args, collation, value, &b) ||
				!gpuscan_expr_compare(c, function->op, *value, b, &reg))
				return false;
			set_bool(value, reg);
			return true;
		case GPUSCAN_DO_CAST:
			return gpuscan_expr_compile(c, linitial(args), value) &&
				   cast(c, base_type(linitial(args)), exprType((Node *) expr), value);
		case GPUSCAN_DO_NEGATE:
		case GPUSCAN_DO_ABS:
			if (!gpuscan_expr_compile(c, linitial(args), value))
				return false;
			gpuscan_decimal_sign(c, function->action, value);
			return true;
		case GPUSCAN_DO_ADD:
		case GPUSCAN_DO_SUBTRACT:
		case GPUSCAN_DO_MULTIPLY:
			return gpuscan_expr_compile(c, linitial(args), value) &&
				   gpuscan_expr_compile(c, lsecond(args), &b) &&
				   gpuscan_decimal_arithmetic(c, function->action, *value, b, value);
		case GPUSCAN_DO_TYPMOD:
			if (!IsA(lsecond(args), Const) || ((Const *) lsecond(args))->constisnull)
				return gpuscan_compile_fail(
					c, "a type modifier that is not constant is not offloaded");
			return gpuscan_expr_compile(c, linitial(args), value) &&
				   gpuscan_decimal_typmod(c, DatumGetInt32(((Const *) lsecond(args))->constvalue),
										  value);
	}
	pg_unreachable();
}

/* An input of a type. */
bool
gpuscan_expr_column(GpuScanCompiler *c, AttrNumber attnum, Oid type, int32 typmod,
					GpuScanValue *value)
{
	GpuScanDecode decode;

	if (getBaseType(type) == NUMERICOID)
		return gpuscan_decimal_column(c, attnum, type, typmod, value);

	memset(value, 0, sizeof(*value));
	value->dscale = GPUSCAN_NO_REGISTER;
	if (!gpuscan_eligible_type(getBaseType(type), &value->cls, &decode))
		return gpuscan_compile_fail(c, "type %s is not offloaded", format_type_be(type));
	value->reg = gpuscan_build_input(c, attnum, decode, 0);
	return true;
}

static bool
column(GpuScanCompiler *c, Var *var, GpuScanValue *value)
{
	if ((Index) var->varno != c->input->varno || var->varlevelsup != 0)
		return gpuscan_compile_fail(c, "a column of another relation is not offloaded");
	if (var->varattno == 0)
		return gpuscan_compile_fail(c, "a whole row is not offloaded");
	if (var->varattno < 0)
		return gpuscan_compile_fail(c, "a system column is not offloaded");
	return gpuscan_expr_column(c, var->varattno, var->vartype, var->vartypmod, value);
}

/* AND, OR and NOT. */
static bool
boolean(GpuScanCompiler *c, BoolExpr *expr, GpuScanValue *value)
{
	int op = expr->boolop == AND_EXPR ? GPUSCAN_OP_AND : GPUSCAN_OP_OR;

	if (!gpuscan_expr_compile(c, linitial(expr->args), value))
		return false;
	if (expr->boolop == NOT_EXPR)
	{
		apply1(c, GPUSCAN_OP_NOT, value);
		return true;
	}
	for (int i = 1; i < list_length(expr->args); i++)
	{
		GpuScanValue next;

		if (!gpuscan_expr_compile(c, list_nth(expr->args, i), &next))
			return false;
		set_bool(value, emit2(c, op, value->reg, next.reg));
	}
	return true;
}

static bool
boolean_test(GpuScanCompiler *c, BooleanTest *test, GpuScanValue *value)
{
	static const int ops[] = {
		[IS_TRUE] = GPUSCAN_OP_IS_TRUE,	   [IS_NOT_TRUE] = GPUSCAN_OP_IS_NOT_TRUE,
		[IS_FALSE] = GPUSCAN_OP_IS_FALSE,  [IS_NOT_FALSE] = GPUSCAN_OP_IS_NOT_FALSE,
		[IS_UNKNOWN] = GPUSCAN_OP_IS_NULL, [IS_NOT_UNKNOWN] = GPUSCAN_OP_IS_NOT_NULL,
	};

	if (!gpuscan_expr_compile(c, test->arg, value))
		return false;
	set_bool(value, emit1(c, ops[test->booltesttype], value->reg));
	return true;
}

static bool
null_test(GpuScanCompiler *c, NullTest *test, GpuScanValue *value)
{
	if (test->argisrow)
		return gpuscan_compile_fail(c, "a test of a row for NULL is not offloaded");
	if (!gpuscan_expr_compile(c, test->arg, value))
		return false;
	set_bool(value,
			 emit1(c, test->nulltesttype == IS_NULL ? GPUSCAN_OP_IS_NULL : GPUSCAN_OP_IS_NOT_NULL,
				   value->reg));
	return true;
}

/* Checks that an operator of IS DISTINCT FROM, NULLIF or IN is a listed equality. */
static bool
is_equality(GpuScanCompiler *c, Oid funcid, GpuScanComparison wanted)
{
	const GpuScanFunction *function = gpuscan_eligible_function(funcid);

	if (function == NULL || function->action != GPUSCAN_DO_COMPARE || function->op != (int) wanted)
		return gpuscan_compile_fail(c, "function %s is not offloaded here",
									format_procedure(funcid));
	return true;
}

static bool
distinct(GpuScanCompiler *c, DistinctExpr *expr, GpuScanValue *value)
{
	GpuScanValue b;
	uint16 differ;

	if (!is_equality(c, expr->opfuncid, GPUSCAN_EQ) ||
		!comparison_operands(c, expr->args, expr->inputcollid, value, &b) ||
		!gpuscan_expr_compare(c, GPUSCAN_NE, *value, b, &differ))
		return false;
	set_bool(value, emit3(c, GPUSCAN_OP_IS_DISTINCT, value->reg, b.reg, differ));
	return true;
}

static bool
nullif(GpuScanCompiler *c, NullIfExpr *expr, GpuScanValue *value)
{
	GpuScanValue a;
	GpuScanValue b;
	uint16 equal;

	if (!is_equality(c, expr->opfuncid, GPUSCAN_EQ) ||
		!comparison_operands(c, expr->args, expr->inputcollid, &a, &b) ||
		!gpuscan_expr_compare(c, GPUSCAN_EQ, a, b, &equal) ||
		!gpuscan_expr_compile(c, linitial(expr->args), value))
		return false;
	value->reg = emit2(c, GPUSCAN_OP_NULLIF_BOOL + value->cls, value->reg, equal);
	value->constant = false;
	return true;
}

static bool
any_of_array(GpuScanCompiler *c, ScalarArrayOpExpr *expr, GpuScanValue *value)
{
	static const int ops[GPUSCAN_NUM_CLASSES] = {
		[GPUSCAN_I32] = GPUSCAN_OP_ANY_EQ_I32,	 [GPUSCAN_I64] = GPUSCAN_OP_ANY_EQ_I64,
		[GPUSCAN_I128] = GPUSCAN_OP_ANY_EQ_I128, [GPUSCAN_F64] = GPUSCAN_OP_ANY_EQ_F64,
		[GPUSCAN_TEXT] = GPUSCAN_OP_ANY_EQ_TEXT,
	};
	Oid type = base_type(linitial(expr->args));
	Oid element = getBaseType(get_base_element_type(exprType(lsecond(expr->args))));
	GpuScanClass cls;
	GpuScanClass element_cls;
	GpuScanDecode decode;
	GpuScanValue member;
	uint16 set;

	/* = ANY and its negation <> ALL; the array's type is the scalar's or wider */
	if (!is_equality(c, expr->opfuncid, expr->useOr ? GPUSCAN_EQ : GPUSCAN_NE) ||
		!gpuscan_expr_compile(c, linitial(expr->args), value))
		return false;
	if (!gpuscan_eligible_type(element, &element_cls, &decode) ||
		(type == DATEOID) != (element == DATEOID))
		return gpuscan_compile_fail(c, "an array of type %s is not offloaded here",
									format_type_be(element));
	if (value->cls == GPUSCAN_TEXT && !gpuscan_expr_deterministic(c, expr->inputcollid))
		return false;
	if (type == BPCHAROID)
		apply1(c, GPUSCAN_OP_BPCHAR_TRIM, value);

	member = *value;
	member.cls = value->numeric ? value->cls : element_cls;
	cls = comparison_class(value, &member);
	if (!widen(c, value, cls) || !gpuscan_value_set(c, expr, value, cls, &set))
		return false;
	set_bool(value, gpuscan_build_instr(c, ops[cls], value->reg, 0, 0, set));
	if (!expr->useOr)
		apply1(c, GPUSCAN_OP_NOT, value);
	return true;
}

/* Brings values that one expression chooses among to one class and scale. */
static bool
unify(GpuScanCompiler *c, GpuScanValue *values, int n)
{
	GpuScanValue **pointers;

	if (!values[0].numeric)
		return true; /* the parser gave all of them one type */
	pointers = palloc(n * sizeof(GpuScanValue *));
	for (int i = 0; i < n; i++)
		pointers[i] = &values[i];
	return gpuscan_decimal_unify(c, pointers, n);
}

/* condition ? *value : other, into *value; both are unified. */
static void
choose(GpuScanCompiler *c, uint16 condition, GpuScanValue *value, const GpuScanValue *other)
{
	value->reg = emit3(c, GPUSCAN_OP_SELECT_BOOL + value->cls, condition, value->reg, other->reg);
	if (value->numeric && value->dscale != GPUSCAN_NO_REGISTER)
		value->dscale = emit3(c, GPUSCAN_OP_SELECT_I32, condition, value->dscale, other->dscale);
	value->constant = false;
	value->null_constant = value->null_constant && other->null_constant;
}

static bool
case_when(GpuScanCompiler *c, CaseExpr *expr, GpuScanValue *value)
{
	int n = list_length(expr->args);
	uint16 *conditions = palloc(n * sizeof(uint16));
	GpuScanValue *results = palloc((n + 1) * sizeof(GpuScanValue));
	const GpuScanValue *outer = c->case_value;
	GpuScanValue tested;
	bool ok = true;

	if (expr->arg != NULL && !gpuscan_expr_compile(c, expr->arg, &tested))
		return false;
	for (int i = 0; i < n && ok; i++)
	{
		CaseWhen *when = list_nth(expr->args, i);
		GpuScanValue condition;

		if (expr->arg != NULL)
			c->case_value = &tested;
		ok = gpuscan_expr_compile(c, when->expr, &condition);
		c->case_value = outer;
		ok = ok && gpuscan_expr_compile(c, when->result, &results[i]);
		conditions[i] = condition.reg;
	}
	if (!ok)
		return false;
	if (expr->defresult != NULL)
	{
		if (!gpuscan_expr_compile(c, expr->defresult, &results[n]))
			return false;
	}
	else if (!gpuscan_value_of_datum(c, getBaseType(expr->casetype), (Datum) 0, true, &results[n]))
		return false;
	if (!unify(c, results, n + 1))
		return false;

	*value = results[n];
	for (int i = n - 1; i >= 0; i--)
	{
		choose(c, conditions[i], &results[i], value);
		*value = results[i];
	}
	return true;
}

static bool
coalesce(GpuScanCompiler *c, CoalesceExpr *expr, GpuScanValue *value)
{
	int n = list_length(expr->args);
	GpuScanValue *args = palloc(n * sizeof(GpuScanValue));

	for (int i = 0; i < n; i++)
	{
		if (!gpuscan_expr_compile(c, list_nth(expr->args, i), &args[i]))
			return false;
	}
	if (!unify(c, args, n))
		return false;

	*value = args[n - 1];
	for (int i = n - 2; i >= 0; i--)
	{
		if (value->numeric && value->dscale != GPUSCAN_NO_REGISTER)
			value->dscale =
				emit3(c, GPUSCAN_OP_SELECT_I32, emit1(c, GPUSCAN_OP_IS_NOT_NULL, args[i].reg),
					  args[i].dscale, value->dscale);
		value->reg = emit2(c, GPUSCAN_OP_COALESCE_BOOL + value->cls, args[i].reg, value->reg);
		value->constant = false;
		value->null_constant = value->null_constant && args[i].null_constant;
	}
	return true;
}

static bool
least_greatest(GpuScanCompiler *c, MinMaxExpr *expr, GpuScanValue *value)
{
	int n = list_length(expr->args);
	GpuScanValue *args = palloc(n * sizeof(GpuScanValue));
	bool least = expr->op == IS_LEAST;

	for (int i = 0; i < n; i++)
	{
		if (!gpuscan_expr_compile(c, list_nth(expr->args, i), &args[i]))
			return false;
		if (args[i].cls == GPUSCAN_TEXT || args[i].cls == GPUSCAN_BOOL)
			return gpuscan_compile_fail(c, "%s of type %s is not offloaded",
										least ? "LEAST" : "GREATEST",
										format_type_be(expr->minmaxtype));
	}
	if (!unify(c, args, n))
		return false;
	*value = args[0];
	if (value->dscale != GPUSCAN_NO_REGISTER)
		return gpuscan_compile_fail(c, "%s of numerics with different scales is not offloaded",
									least ? "LEAST" : "GREATEST");
	for (int i = 1; i < n; i++)
	{
		int first = least ? GPUSCAN_OP_LEAST_I32 : GPUSCAN_OP_GREATEST_I32;

		value->reg = emit2(c, first + value->cls - GPUSCAN_I32, value->reg, args[i].reg);
		value->constant = false;
		value->null_constant = value->null_constant && args[i].null_constant;
	}
	return true;
}

static bool
compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value)
{
	switch (nodeTag(expr))
	{
		case T_Var:
			return column(c, (Var *) expr, value);
		case T_RelabelType:
		{
			Expr *arg = ((RelabelType *) expr)->arg;
			GpuScanClass cls;
			GpuScanDecode decode;
			bool text_like = gpuscan_eligible_type(base_type(arg), &cls, &decode) &&
							 cls == GPUSCAN_TEXT && base_type(arg) != BPCHAROID;

			/* same bytes; but from or to bpchar what is equal would change */
			if (base_type(expr) != base_type(arg) && !(text_like && base_type(expr) != BPCHAROID))
				return gpuscan_value_of_parameter(c, expr, value);
			return gpuscan_expr_compile(c, arg, value);
		}
		case T_FuncExpr:
			return call(c, expr, ((FuncExpr *) expr)->funcid, ((FuncExpr *) expr)->args,
						((FuncExpr *) expr)->inputcollid, value);
		case T_OpExpr:
			set_opfuncid((OpExpr *) expr);
			return call(c, expr, ((OpExpr *) expr)->opfuncid, ((OpExpr *) expr)->args,
						((OpExpr *) expr)->inputcollid, value);
		case T_DistinctExpr:
			set_opfuncid((OpExpr *) expr);
			return distinct(c, (DistinctExpr *) expr, value);
		case T_NullIfExpr:
			set_opfuncid((OpExpr *) expr);
			return nullif(c, (NullIfExpr *) expr, value);
		case T_ScalarArrayOpExpr:
			set_sa_opfuncid((ScalarArrayOpExpr *) expr);
			return any_of_array(c, (ScalarArrayOpExpr *) expr, value);
		case T_BoolExpr:
			return boolean(c, (BoolExpr *) expr, value);
		case T_NullTest:
			return null_test(c, (NullTest *) expr, value);
		case T_BooleanTest:
			return boolean_test(c, (BooleanTest *) expr, value);
		case T_CaseExpr:
			return case_when(c, (CaseExpr *) expr, value);
		case T_CaseTestExpr:
			if (c->case_value == NULL)
				return gpuscan_compile_fail(c, "an expression is not offloaded");
			*value = *c->case_value;
			return true;
		case T_CoalesceExpr:
			return coalesce(c, (CoalesceExpr *) expr, value);
		case T_MinMaxExpr:
			return least_greatest(c, (MinMaxExpr *) expr, value);
		case T_SubPlan:
		case T_AlternativeSubPlan:
			return gpuscan_compile_fail(c, "a subquery is not offloaded");
		default:
			return gpuscan_value_of_parameter(c, expr, value);
	}
}

/* Compiles an expression, or finds it among those already compiled. */
bool
gpuscan_expr_compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value)
{
	/* inside a CASE with an argument, equal expressions can differ in it */
	bool reuse = c->case_value == NULL;
	GpuScanBuildMark mark;
	ListCell *lc;
	ListCell *lv;

	check_stack_depth();
	if (reuse)
	{
		forboth(lc, c->known, lv, c->known_values)
		{
			if (equal(lfirst(lc), expr))
			{
				*value = *(GpuScanValue *) lfirst(lv);
				return true;
			}
		}
	}
	mark = gpuscan_build_mark(c);
	if (!compile(c, expr, value))
	{
		gpuscan_build_rewind(c, &mark);
		if (!gpuscan_map_compile(c, expr, value))
		{
			gpuscan_build_rewind(c, &mark);
			if (!gpuscan_expression_compile(c, expr, value))
				return false;
		}
	}
	if (c->nregs >= GPUSCAN_MAX_REGISTERS)
		return gpuscan_compile_fail(c, "the expressions are too large");
	if (reuse)
	{
		GpuScanValue *kept = palloc(sizeof(GpuScanValue));

		*kept = *value;
		c->known = lappend(c->known, expr);
		c->known_values = lappend(c->known_values, kept);
	}
	return true;
}
