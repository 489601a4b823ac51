/*-------------------------------------------------------------------------
 *
 * values.c
 *	  Constants, parameters and IN lists of a Program.
 *
 * A parameter is any expression without Vars that PostgreSQL evaluates once for
 * an execution: a Const, a Param, or stable built-in functions of these, such
 * as now() - interval '7 days'.  While planning only Consts are known; for
 * others something of the right class stands in.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "program/compiler.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* The value of a class that is not TEXT, nor of a numeric, as build_param wants it. */
int128
gpuscan_value_bits(Oid type, Datum datum)
{
	switch (type)
	{
		case BOOLOID:
			return DatumGetBool(datum);
		case INT2OID:
			return DatumGetInt16(datum);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(datum);
		case FLOAT4OID:
		{
			float4 f = DatumGetFloat4(datum);
			uint32 bits;

			memcpy(&bits, &f, sizeof(bits));
			return bits;
		}
		case FLOAT8OID:
		{
			float8 f = DatumGetFloat8(datum);
			uint64 bits;

			memcpy(&bits, &f, sizeof(bits));
			return bits;
		}
		default:
			return DatumGetInt64(datum);
	}
}

/* A constant of a base type from its Datum. */
bool
gpuscan_value_of_datum(GpuScanCompiler *c, Oid type, Datum datum, bool isnull, GpuScanValue *value)
{
	GpuScanDecode decode;
	int128 decimal;
	int scale;

	memset(value, 0, sizeof(*value));
	value->dscale = GPUSCAN_NO_REGISTER;
	if (!gpuscan_eligible_type(type, &value->cls, &decode))
		return gpuscan_compile_fail(c, "type %s is not offloaded", format_type_be(type));

	if (type == NUMERICOID)
	{
		value->numeric = true;
		if (isnull)
		{
			value->digits = 1;
			value->null_constant = true;
			value->reg = gpuscan_build_param(c, GPUSCAN_I64, true, 0);
			return true;
		}
		if (!gpuscan_decimal_parse(datum, &decimal, &scale))
			return gpuscan_compile_fail(
				c, "a numeric constant has more than 38 digits, or is NaN or infinite");
		gpuscan_decimal_constant(c, decimal, scale, value);
		return true;
	}

	value->null_constant = isnull;
	if (value->cls == GPUSCAN_TEXT)
	{
		text *t = isnull ? NULL : DatumGetTextPP(datum);

		value->reg = gpuscan_build_text(c, t ? VARDATA_ANY(t) : NULL, t ? VARSIZE_ANY_EXHDR(t) : 0);
	}
	else
		value->reg = gpuscan_build_param(c, value->cls, isnull,
										 isnull ? 0 : gpuscan_value_bits(type, datum));
	return true;
}

/* For what PostgreSQL has to give an expression one value */
typedef enum ValueOf
{
	VALUE_OF_EXECUTION,
	VALUE_OF_COLUMN_VALUE, /* of the one column in it, for this execution */
	VALUE_OF_ROW		   /* for ever */
} ValueOf;

typedef struct Variation
{
	ValueOf of;
	const Var *column; /* one in it, or NULL */
	Index varno;	   /* of a row's columns */
} Variation;

/*
 * True for what is volatile, or not written in C as part of PostgreSQL; and where there are
 * columns, for what looks at more than its arguments, such as tables by
 * SPI, which a caught error would leave in the middle: that is not parallel safe.  For
 * a row it has to be immutable.
 */
static bool
is_foreign_function(Oid funcid, void *context)
{
	ValueOf of = ((Variation *) context)->of;
	HeapTuple tuple;
	Form_pg_proc proc;
	bool foreign;

	if (funcid >= FirstNormalObjectId)
		return true;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tuple))
		return true;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	foreign = proc->prolang != INTERNALlanguageId || proc->provolatile == PROVOLATILE_VOLATILE ||
			  (of != VALUE_OF_EXECUTION && proc->proparallel != PROPARALLEL_SAFE) ||
			  (of == VALUE_OF_ROW && (proc->provolatile != PROVOLATILE_IMMUTABLE ||
									  proc->proretset || !gpuscan_eligible_is_immutable(funcid)));
	ReleaseSysCache(tuple);
	return foreign;
}

/* True if what compares or hashes a type by default is a user's, for array_eq, GREATEST and the like. */
static bool
is_compared_by_foreign(Oid type)
{
	TypeCacheEntry *entry =
		lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_CMP_PROC | TYPECACHE_HASH_PROC |
									TYPECACHE_HASH_EXTENDED_PROC);

	return entry->eq_opr >= FirstNormalObjectId || entry->cmp_proc >= FirstNormalObjectId ||
		   entry->hash_proc >= FirstNormalObjectId ||
		   entry->hash_extended_proc >= FirstNormalObjectId;
}

/*
 * What a user made can be changed, and some types name what can, as may the columns of a row.
 * The ranges that PostgreSQL has are over types that it can compare, so these need no look.
 */
static bool
is_foreign_type(Oid type)
{
	Oid element;

	type = getBaseType(type);
	while ((element = get_element_type(type)) != InvalidOid)
		type = getBaseType(element);
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGCOLLATIONOID:
			return true;
		default:
			return type >= FirstNormalObjectId || type_is_rowtype(type) ||
				   is_compared_by_foreign(type);
	}
}

/* True if a column cannot be there. */
static bool
column_varies(Variation *variation, const Var *column)
{
	switch (variation->of)
	{
		case VALUE_OF_EXECUTION:
			return true;
		case VALUE_OF_COLUMN_VALUE:
			if (variation->column != NULL && !equal(variation->column, column))
				return true;
			break;
		case VALUE_OF_ROW:
			if ((Index) column->varno != variation->varno || column->varlevelsup != 0 ||
				column->varattno <= 0)
				return true;
			break;
	}
	variation->column = column;
	return false;
}

/* True if PostgreSQL cannot give this one value for what `context`, a Variation, says. */
static bool
varies_walker(Node *node, void *context)
{
	Variation *variation = context;
	bool of_row = variation->of == VALUE_OF_ROW;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
			return expression_tree_walker(node, varies_walker, context);
		case T_Var:
			if (column_varies(variation, (Var *) node))
				return true;
			break;
		case T_CaseTestExpr:
			/* for a row the whole CASE is evaluated, for others perhaps a part */
			if (!of_row)
				return true;
			break;
		case T_SQLValueFunction:
		case T_XmlExpr:
		case T_RowCompareExpr: /* which finds a function by an operator family */
			if (of_row)
				return true;
			break;
		case T_ScalarArrayOpExpr:
		{
			Oid hashfuncid = ((ScalarArrayOpExpr *) node)->hashfuncid;

			if (OidIsValid(hashfuncid) && is_foreign_function(hashfuncid, context))
				return true;
			break;
		}
		case T_PlaceHolderVar:
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_SubLink:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_CoerceToDomain:
		case T_CoerceToDomainValue:
		case T_NextValueExpr:
		case T_CurrentOfExpr:
			return true;
		case T_Param:
			return of_row || (((Param *) node)->paramkind != PARAM_EXTERN &&
							  ((Param *) node)->paramkind != PARAM_EXEC);
		default:
			break;
	}
	if ((of_row && is_foreign_type(exprType(node))) ||
		check_functions_in_node(node, is_foreign_function, context))
		return true;
	return expression_tree_walker(node, varies_walker, context);
}

/*
 * The one column over which PostgreSQL can evaluate the expression for each of its
 * values, or NULL.
 */
const Var *
gpuscan_value_column(Expr *expr)
{
	Variation variation = {.of = VALUE_OF_COLUMN_VALUE};

	return varies_walker((Node *) expr, &variation) ? NULL : variation.column;
}

/* True if PostgreSQL can evaluate the expression for each row, once and for all. */
bool
gpuscan_value_of_rows(Expr *expr, Index varno)
{
	Variation variation = {.of = VALUE_OF_ROW, .varno = varno};

	return !varies_walker((Node *) expr, &variation) && variation.column != NULL;
}

/*
 * The value of a parameter.  *known is false, and nothing else set, while
 * planning.  Fails where the expression is no parameter.
 */
bool
gpuscan_value_datum(GpuScanCompiler *c, Expr *expr, Datum *datum, bool *isnull, bool *known)
{
	Variation variation = {.of = VALUE_OF_EXECUTION};

	*known = true;
	if (IsA(expr, Const))
	{
		*datum = ((Const *) expr)->constvalue;
		*isnull = ((Const *) expr)->constisnull;
		return true;
	}
	if (varies_walker((Node *) expr, &variation))
		return gpuscan_compile_fail(c, "an expression is not offloaded");
	if (c->input->evaluate == NULL)
	{
		*known = false;
		return true;
	}
	if (!c->input->evaluate(c->input->arg, expr, datum, isnull))
		return gpuscan_compile_fail(c, "a parameter cannot be evaluated");
	return true;
}

/* A parameter as a value. */
bool
gpuscan_value_of_parameter(GpuScanCompiler *c, Expr *expr, GpuScanValue *value)
{
	Oid type = getBaseType(exprType((Node *) expr));
	Datum datum;
	bool isnull;
	bool known;

	if (!gpuscan_value_datum(c, expr, &datum, &isnull, &known))
		return false;
	if (known)
		return gpuscan_value_of_datum(c, type, datum, isnull, value);

	/* while planning: a NULL, but with a usual scale */
	if (!gpuscan_value_of_datum(c, type, (Datum) 0, true, value))
		return false;
	value->null_constant = false;
	value->digits = value->numeric ? 10 : 0;
	value->scale = value->numeric ? 2 : 0;
	return true;
}

static int
compare_i32(const void *a, const void *b)
{
	int32 x = *(const int32 *) a;
	int32 y = *(const int32 *) b;

	return (x > y) - (x < y);
}

static int
compare_i64(const void *a, const void *b)
{
	int64 x = *(const int64 *) a;
	int64 y = *(const int64 *) b;

	return (x > y) - (x < y);
}

static int
compare_i128(const void *a, const void *b)
{
	int128 x;
	int128 y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static int
compare_f64(const void *a, const void *b)
{
	return float8_cmp_internal(*(const float8 *) a, *(const float8 *) b);
}

/* Sorts the members at the blob's end and drops repeated ones; how many are left. */
static uint32
sort_members(GpuScanCompiler *c, GpuScanClass cls, uint32 offset, uint32 n)
{
	static int (*const compare[GPUSCAN_NUM_CLASSES])(const void *, const void *) = {
		[GPUSCAN_I32] = compare_i32,
		[GPUSCAN_I64] = compare_i64,
		[GPUSCAN_I128] = compare_i128,
		[GPUSCAN_F64] = compare_f64,
	};
	size_t size = gpuscan_set_member_size(cls);
	char *base = c->blob.data + offset;
	uint32 kept = 0;

	qsort(base, n, size, compare[cls]);
	for (uint32 i = 0; i < n; i++)
	{
		if (kept > 0 && compare[cls](base + (kept - 1) * size, base + i * size) == 0)
			continue;
		memmove(base + kept * size, base + i * size, size);
		kept++;
	}
	c->blob.len = offset + kept * size;
	return kept;
}

/*
 * Texts into the blob: their bytes, and then, where the result says, the array of
 * offsets and lengths.
 */
uint32
gpuscan_value_texts(GpuScanCompiler *c, const Datum *datums, uint32 n, bool trim)
{
	uint32 *members = palloc(n * 2 * sizeof(uint32));
	uint32 offset;

	for (uint32 i = 0; i < n; i++)
	{
		text *t = DatumGetTextPP(datums[i]);
		uint32 len = VARSIZE_ANY_EXHDR(t);

		if (trim)
			len = bpchartruelen(VARDATA_ANY(t), len);
		members[2 * i] = c->blob.len;
		members[2 * i + 1] = len;
		appendBinaryStringInfo(&c->blob, VARDATA_ANY(t), len);
	}
	offset = gpuscan_build_align(c);
	appendBinaryStringInfo(&c->blob, (char *) members, n * 2 * sizeof(uint32));
	return offset;
}

/*
 * A numeric member as an integer of the scalar's scale.  False if no value of
 * the scalar can be equal to it.
 */
static bool
decimal_member(Datum datum, const GpuScanValue *scalar, GpuScanClass cls, int128 *decimal)
{
	int scale;
	int128 power;

	/* without its trailing zeros, what still has too many digits is out of reach */
	datum = DirectFunctionCall1(numeric_trim_scale, datum);
	if (!gpuscan_decimal_parse(datum, decimal, &scale))
		return false;
	power = gpuscan_power_of_ten(abs(scalar->scale - scale));
	if (scale > scalar->scale)
	{
		if (*decimal % power != 0)
			return false;
		*decimal /= power;
	}
	else if (__builtin_mul_overflow(*decimal, power, decimal))
		return false;
	return cls == GPUSCAN_I128 || (*decimal >= PG_INT64_MIN && *decimal <= PG_INT64_MAX);
}

/*
 * The set of the constant array of `scalar = ANY (array)`; the members have
 * class cls, to which the scalar was brought.
 */
bool
gpuscan_value_set(GpuScanCompiler *c, ScalarArrayOpExpr *expr, const GpuScanValue *scalar,
				  GpuScanClass cls, uint16 *set)
{
	Expr *array = (Expr *) lsecond(expr->args);
	Oid type = getBaseType(get_base_element_type(exprType((Node *) array)));
	Datum datum;
	Datum *members;
	bool *nulls;
	int nmembers = 0;
	uint32 n = 0;
	bool isnull;
	bool known;
	bool has_null = false;
	uint32 offset;
	int16 typlen;
	bool typbyval;
	char typalign;

	if (!gpuscan_value_datum(c, array, &datum, &isnull, &known))
		return false;
	if (known && isnull)
		return gpuscan_compile_fail(c, "the array of an ANY is NULL");
	if (known)
	{
		get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
		deconstruct_array(DatumGetArrayTypeP(datum), type, typlen, typbyval, typalign, &members,
						  &nulls, &nmembers);
	}
	for (int i = 0; i < nmembers; i++)
	{
		if (nulls[i])
			has_null = true;
		else
			members[n++] = members[i];
	}

	if (cls == GPUSCAN_TEXT)
	{
		offset = gpuscan_value_texts(c, members, n, type == BPCHAROID);
		*set = gpuscan_build_set(c, cls, has_null, n, offset, 0);
		return true;
	}

	offset = gpuscan_build_align(c);
	nmembers = n;
	n = 0;
	for (int i = 0; i < nmembers; i++)
	{
		int128 bits;
		float8 f;

		if (scalar->numeric)
		{
			if (!decimal_member(members[i], scalar, cls, &bits))
				continue;
		}
		else if (cls == GPUSCAN_F64)
		{
			f = type == FLOAT4OID ? (float8) DatumGetFloat4(members[i])
								  : DatumGetFloat8(members[i]);
			bits = 0;
			memcpy(&bits, &f, sizeof(f));
		}
		else
			bits = gpuscan_value_bits(type, members[i]);

		/* little-endian: the low bytes come first */
		appendBinaryStringInfo(&c->blob, (char *) &bits, gpuscan_set_member_size(cls));
		n++;
	}
	if (n == 0 && nmembers > 0)
	{
		/* an empty set would be false for NULL: put in what no numeric reaches */
		int128 unreached = cls == GPUSCAN_I64 ? PG_INT64_MAX : gpuscan_power_of_ten(38);

		appendBinaryStringInfo(&c->blob, (char *) &unreached, gpuscan_set_member_size(cls));
		n = 1;
	}
	n = sort_members(c, cls, offset, n);
	*set = gpuscan_build_set(c, cls, has_null, n, offset, 0);
	return true;
}
