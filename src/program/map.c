/*-------------------------------------------------------------------------
 *
 * map.c
 *	  Expressions that no device computes, over one column.
 *
 * A column has few values, often.  PostgreSQL evaluates the expression once for
 * each of them, and for NULL, as the execution starts; for a tuple the device finds
 * the number of its value, and takes what PostgreSQL made of it.  So regular
 * expressions, upper(), comparisons under any collation, casts to text and whatever
 * else a built-in function does are PostgreSQL's to the last bit.  Expressions
 * over one column share the search.
 *
 * The expression is not volatile, and made of PostgreSQL's own C functions
 * (gpuscan_value_column), so evaluating it for values in any order, or of rows that
 * other conditions exclude, has no effect but its result.  Where it raises an
 * error the result is GPUSCAN_ERROR, which matters only for a tuple for which
 * PostgreSQL would have evaluated it.
 *
 * The values are those of the tuples that the snapshot sees, so a tuple's value is
 * always found.
 *
 * Columns of numerics, whose equal values differ in their scale, and of floats have
 * no such values.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "port/pg_bitutils.h"
#include "program/compiler.h"
#include "scalar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

GpuScanCompileInput
gpuscan_program_group_values(Oid relid, const Var *column)
{
	Var *key = copyObject((Var *) column);

	if (OidIsValid(key->varcollid))
		key->varcollid = C_COLLATION_OID;
	return (GpuScanCompileInput){
		.varno = column->varno,
		.relid = relid,
		.aggregate = true,
		.keys = list_make1(key),
	};
}

/* A value of a column of integers */
typedef struct Member
{
	int64 bits;
	Datum datum;
} Member;

static int
compare_members(const void *a, const void *b)
{
	int64 x = ((const Member *) a)->bits;
	int64 y = ((const Member *) b)->bits;

	return (x > y) - (x < y);
}

/* The set of a column of integers, and its values in the set's order. */
static uint16
integer_set(GpuScanCompiler *c, Oid type, GpuScanClass cls, GpuScanColumnValues *values)
{
	uint32 offset = gpuscan_build_align(c);
	Member *members = palloc(values->n * sizeof(Member));

	for (uint32 i = 0; i < values->n; i++)
	{
		members[i].bits = (int64) gpuscan_value_bits(type, values->values[i]);
		members[i].datum = values->values[i];
	}
	qsort(members, values->n, sizeof(Member), compare_members);
	values->values = palloc(values->n * sizeof(Datum));
	for (uint32 i = 0; i < values->n; i++)
	{
		/* little-endian: the low bytes come first */
		appendBinaryStringInfo(&c->blob, (char *) &members[i].bits, gpuscan_set_member_size(cls));
		values->values[i] = members[i].datum;
	}
	return gpuscan_build_set(c, cls, false, values->n, offset, 0);
}

/* The set of a column of texts, with its slots. */
static uint16
text_set(GpuScanCompiler *c, const GpuScanColumnValues *values)
{
	uint32 mask = pg_nextpower2_32(2 * values->n + 1) - 1;
	uint32 *slots = palloc0((mask + 2) * sizeof(uint32));
	uint32 members;
	uint32 offset;

	slots[0] = mask;
	for (uint32 i = 0; i < values->n; i++)
	{
		text *t = DatumGetTextPP(values->values[i]);
		GsText key = {VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)};
		uint32 at = gs_text_hash(key) & mask;

		while (slots[1 + at] != 0)
			at = (at + 1) & mask;
		slots[1 + at] = i + 1;
	}
	/* an offset of 0 would say that there are none */
	if (c->blob.len == 0)
		appendStringInfoChar(&c->blob, 0);
	members = gpuscan_value_texts(c, values->values, values->n, false);
	offset = gpuscan_build_align(c);
	appendBinaryStringInfo(&c->blob, (char *) slots, (mask + 2) * sizeof(uint32));
	return gpuscan_build_set(c, GPUSCAN_TEXT, false, values->n, members, offset);
}

/* The column, found or made; NULL with a reason. */
static const GpuScanValuedColumn *
valued_column(GpuScanCompiler *c, const Var *var)
{
	Oid type = getBaseType(var->vartype);
	GpuScanValuedColumn *column;
	const GpuScanColumnValues *values;
	GpuScanValue key;
	uint16 set;
	int op;
	ListCell *lc;

	foreach(lc, c->valued)
	{
		column = lfirst(lc);
		if (column->attnum == var->varattno)
			return column;
	}
	if (type == NUMERICOID || !gpuscan_expr_compile(c, (Expr *) var, &key))
		return NULL;
	if (key.cls == GPUSCAN_BOOL)
	{
		key.reg = emit1(c, GPUSCAN_OP_BOOL_TO_I32, key.reg);
		key.cls = GPUSCAN_I32;
	}
	if (key.cls != GPUSCAN_I32 && key.cls != GPUSCAN_I64 && key.cls != GPUSCAN_TEXT)
		return NULL;
	values = c->input->values_of(c->input->arg, var, &c->reason);
	if (values == NULL)
		return NULL;

	column = palloc(sizeof(GpuScanValuedColumn));
	column->attnum = var->varattno;
	column->values = *values;
	op = key.cls == GPUSCAN_I32	  ? GPUSCAN_OP_FIND_I32
		 : key.cls == GPUSCAN_I64 ? GPUSCAN_OP_FIND_I64
								  : GPUSCAN_OP_FIND_TEXT;
	set = key.cls == GPUSCAN_TEXT ? text_set(c, values)
								  : integer_set(c, type, key.cls, &column->values);
	column->at = gpuscan_build_instr(c, op, key.reg, 0, 0, set);
	c->valued = lappend(c->valued, column);
	return column;
}

/* What PostgreSQL made of n - 1 values and of NULL */
typedef struct Results
{
	uint32 n;
	Datum *datums;
	uint8 *flags;
} Results;

/* The index of a list of texts. */
static uint16
text_list(GpuScanCompiler *c, const Results *results)
{
	Datum empty = PointerGetDatum(cstring_to_text(""));
	uint32 values;
	uint32 flags;

	for (uint32 i = 0; i < results->n; i++)
	{
		if (results->flags[i] != 0)
			results->datums[i] = empty;
	}
	values = gpuscan_value_texts(c, results->datums, results->n, false);
	flags = c->blob.len;
	appendBinaryStringInfo(&c->blob, (char *) results->flags, results->n);
	return gpuscan_build_list(c, GPUSCAN_TEXT, results->n, values, flags);
}

/* The index of a list of another class, given its values. */
static uint16
number_list(GpuScanCompiler *c, GpuScanClass cls, const Results *results, const int128 *bits)
{
	uint32 values = gpuscan_build_align(c);
	uint32 flags;

	for (uint32 i = 0; i < results->n; i++)
		appendBinaryStringInfo(&c->blob, (const char *) &bits[i], gpuscan_list_value_size(cls));
	flags = c->blob.len;
	appendBinaryStringInfo(&c->blob, (char *) results->flags, results->n);
	return gpuscan_build_list(c, cls, results->n, values, flags);
}

/*
 * The values of numeric results, of which all have one scale; what a device does
 * not hold is an error.
 */
static bool
numeric_bits(GpuScanCompiler *c, const Results *results, int128 *bits, GpuScanValue *value)
{
	bool found = false;

	value->numeric = true;
	value->digits = 1;
	for (uint32 i = 0; i < results->n; i++)
	{
		int scale;

		bits[i] = 0;
		if (results->flags[i] != 0)
			continue;
		if (!gpuscan_decimal_parse(results->datums[i], &bits[i], &scale))
		{
			bits[i] = 0;
			results->flags[i] = GPUSCAN_ERROR;
			continue;
		}
		if (found && scale != value->scale)
			return gpuscan_compile_fail(
				c, "numerics of various scales from a function are not offloaded");
		found = true;
		value->scale = scale;
		while (bits[i] <= -gpuscan_power_of_ten(value->digits) ||
			   bits[i] >= gpuscan_power_of_ten(value->digits))
			value->digits++;
	}
	if (c->input->evaluate_each == NULL)
	{
		value->digits = 10;
		value->scale = 2;
	}
	value->cls = value->digits <= 18 ? GPUSCAN_I64 : GPUSCAN_I128;
	return true;
}

/* Compiles an expression by what PostgreSQL makes of each value of its column. */
bool
gpuscan_map_compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value)
{
	Oid type = getBaseType(exprType((Node *) expr));
	const GpuScanValuedColumn *column;
	const Var *var;
	Results results;
	int128 *bits;
	GpuScanDecode decode;
	uint16 list;

	memset(value, 0, sizeof(*value));
	value->dscale = GPUSCAN_NO_REGISTER;
	if (c->input->values_of == NULL || IsA(expr, Var) ||
		!gpuscan_eligible_type(type, &value->cls, &decode) ||
		(var = gpuscan_value_column(expr)) == NULL || (column = valued_column(c, var)) == NULL)
		return false;

	results.n = column->values.n + 1;
	results.datums = palloc0(results.n * sizeof(Datum));
	results.flags = palloc0(results.n);
	if (c->input->evaluate_each != NULL)
		c->input->evaluate_each(c->input->arg, expr, &column->values, results.datums,
								results.flags);
	else
		results.flags[0] = GPUSCAN_NULL;

	if (value->cls == GPUSCAN_TEXT)
		list = text_list(c, &results);
	else
	{
		bits = palloc(results.n * sizeof(int128));
		if (type == NUMERICOID)
		{
			if (!numeric_bits(c, &results, bits, value))
				return false;
		}
		else
		{
			for (uint32 i = 0; i < results.n; i++)
				bits[i] = results.flags[i] ? 0 : gpuscan_value_bits(type, results.datums[i]);
		}
		list = number_list(c, value->cls, &results, bits);
	}
	value->reg = gpuscan_build_instr(c, GPUSCAN_OP_TAKE_BOOL + value->cls, column->at, 0, 0, list);
	c->reason = NULL;
	return true;
}
