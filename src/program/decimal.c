/*-------------------------------------------------------------------------
 *
 * decimal.c
 *	  numeric as scaled integers: which class, how many digits, which scale.
 *
 * A numeric(p,s) column is an integer scaled by 10^s.  The compiler knows how
 * many digits each value can have, so that up to 18 digits it uses 64-bit
 * operations that need no check; beyond, 128-bit ones that give GPUSCAN_ERROR
 * at 10^38.
 *
 * PostgreSQL shows a result with a display scale that follows from its
 * operands': the larger for + and -, the sum for *.  For columns with a typmod
 * it is known here.  Where it is not (a column of plain numeric, a CASE whose
 * branches differ) an I32 register carries it along, and sum() finds the
 * largest as numeric_sum does.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "program/compiler.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define DIGITS64 18 /* of every value that an I64 holds */
#define DIGITS128 38

/* Digits after the point that a plain numeric column without statistics may have. */
#define DEFAULT_PLAIN_SCALE 6

int128
gpuscan_power_of_ten(int n)
{
	int128 power = 1;

	Assert(n >= 0 && n <= DIGITS128);
	while (n-- > 0)
		power *= 10;
	return power;
}

static int
count_digits(int128 value)
{
	int digits = 1;

	for (value = value < 0 ? -value : value; value >= 10; value /= 10)
		digits++;
	return digits;
}

/*
 * A numeric Datum as an integer and its scale, trailing zeros included.  False
 * if it is NaN, infinite or has more than 38 digits.
 */
bool
gpuscan_decimal_parse(Datum numeric, int128 *decimal, int *scale)
{
	char *text = DatumGetCString(DirectFunctionCall1(numeric_out, numeric));
	char *p = text;
	int digits = 0;
	bool negative = *p == '-';

	*decimal = 0;
	*scale = 0;
	if (negative)
		p++;
	for (bool fraction = false; *p != '\0'; p++)
	{
		if (*p == '.')
		{
			fraction = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			return false;
		if (*decimal != 0 || *p != '0')
			digits++;
		*scale += fraction;
		if (digits > DIGITS128 || *scale > DIGITS128)
			return false;
		*decimal = *decimal * 10 + (*p - '0');
	}
	if (negative)
		*decimal = -*decimal;
	pfree(text);
	return true;
}

/* A constant, in the narrowest class. */
void
gpuscan_decimal_constant(GpuScanCompiler *c, int128 decimal, int scale, GpuScanValue *value)
{
	memset(value, 0, sizeof(*value));
	value->numeric = true;
	value->constant = true;
	value->decimal = decimal;
	value->scale = scale;
	value->digits = count_digits(decimal);
	value->dscale = GPUSCAN_NO_REGISTER;
	value->cls = value->digits <= DIGITS64 ? GPUSCAN_I64 : GPUSCAN_I128;
	value->reg = gpuscan_build_param(c, value->cls, false, decimal);
}

/*
 * How many digits after the point to make room for in a column of plain
 * numeric: what its statistics show and two more.  A value with more leaves the
 * request to PostgreSQL.
 */
static int
plain_scale(Oid relid, AttrNumber attnum)
{
	static const int kinds[] = {STATISTIC_KIND_MCV, STATISTIC_KIND_HISTOGRAM};
	HeapTuple tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(attnum),
									  BoolGetDatum(false));
	int scale = -1;

	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(attnum),
								BoolGetDatum(true));
	if (!HeapTupleIsValid(tuple))
		return DEFAULT_PLAIN_SCALE;
	for (size_t i = 0; i < lengthof(kinds); i++)
	{
		AttStatsSlot slot;

		if (!get_attstatsslot(&slot, tuple, kinds[i], InvalidOid, ATTSTATSSLOT_VALUES))
			continue;
		for (int j = 0; j < slot.nvalues && slot.valuetype == NUMERICOID; j++)
		{
			NullableDatum arg = {slot.values[j], false};
			LOCAL_FCINFO(fcinfo, 1);
			Datum value_scale;

			/* NULL for NaN and infinities */
			InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
			fcinfo->args[0] = arg;
			value_scale = numeric_scale(fcinfo);
			if (!fcinfo->isnull)
				scale = Max(scale, DatumGetInt32(value_scale));
		}
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return scale < 0 ? DEFAULT_PLAIN_SCALE : scale + 2;
}

/* A column. */
bool
gpuscan_decimal_column(GpuScanCompiler *c, AttrNumber attnum, Oid type, int32 typmod,
					   GpuScanValue *value)
{
	(void) getBaseTypeAndTypmod(type, &typmod);
	memset(value, 0, sizeof(*value));
	value->numeric = true;
	value->dscale = GPUSCAN_NO_REGISTER;
	if (typmod >= (int32) VARHDRSZ)
	{
		/* as numeric.c packs it: precision, and an 11-bit signed scale */
		value->digits = ((typmod - VARHDRSZ) >> 16) & 0xffff;
		value->scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
		if (value->scale < 0 || value->scale > DIGITS128 || value->digits > DIGITS128)
			return gpuscan_compile_fail(c, "numeric(%d,%d) is not offloaded", value->digits,
										value->scale);
	}
	else
	{
		value->digits = DIGITS128;
		value->scale = plain_scale(c->input->relid, attnum);
		if (value->scale > DIGITS128 / 2)
			return gpuscan_compile_fail(c, "a numeric column has too many digits after the point");
		value->dscale = gpuscan_build_input(c, attnum, GPUSCAN_DECODE_DSCALE, 0);
	}
	value->cls = value->digits <= DIGITS64 ? GPUSCAN_I64 : GPUSCAN_I128;
	value->reg = gpuscan_build_input(
		c, attnum, value->cls == GPUSCAN_I64 ? GPUSCAN_DECODE_DEC64 : GPUSCAN_DECODE_DEC128,
		value->scale);
	return true;
}

/* The register that holds the value's display scale. */
uint16
gpuscan_decimal_dscale(GpuScanCompiler *c, const GpuScanValue *value)
{
	if (value->dscale != GPUSCAN_NO_REGISTER)
		return value->dscale;
	return gpuscan_build_param(c, GPUSCAN_I32, value->null_constant, value->scale);
}

void
gpuscan_decimal_widen(GpuScanCompiler *c, GpuScanValue *value)
{
	if (value->cls == GPUSCAN_I128)
		return;
	value->cls = GPUSCAN_I128;
	if (value->constant)
		value->reg = gpuscan_build_param(c, GPUSCAN_I128, false, value->decimal);
	else
		value->reg = emit1(c, GPUSCAN_OP_I64_TO_I128, value->reg);
}

/* Multiplies by a power of ten, so that the value has a larger scale. */
bool
gpuscan_decimal_rescale(GpuScanCompiler *c, GpuScanValue *value, int scale)
{
	int power = scale - value->scale;

	if (power == 0)
		return true;
	if (value->null_constant)
	{
		value->scale = scale;
		return true;
	}
	if (scale > DIGITS128)
		return gpuscan_compile_fail(c, "a numeric has more than 38 digits after the point");
	if (value->constant)
	{
		uint16 dscale = value->dscale;

		if (value->digits + power > DIGITS128)
			return gpuscan_compile_fail(c, "a numeric constant has too many digits");
		gpuscan_decimal_constant(c, value->decimal * gpuscan_power_of_ten(power), scale, value);
		value->dscale = dscale;
		return true;
	}
	value->scale = scale;
	value->digits += power;
	if (value->digits <= DIGITS64 && value->cls == GPUSCAN_I64)
		value->reg = emit2(c, GPUSCAN_OP_DEC64_MUL, value->reg,
						   gpuscan_build_param(c, GPUSCAN_I64, false, gpuscan_power_of_ten(power)));
	else
	{
		gpuscan_decimal_widen(c, value);
		value->digits = Min(value->digits, DIGITS128);
		value->reg =
			emit2(c, GPUSCAN_OP_DEC128_MUL, value->reg,
				  gpuscan_build_param(c, GPUSCAN_I128, false, gpuscan_power_of_ten(power)));
	}
	return true;
}

/*
 * Brings values that one expression chooses among to one scale and class.  If
 * their display scales differ, each gets a register for its own.
 */
bool
gpuscan_decimal_unify(GpuScanCompiler *c, GpuScanValue **values, int n)
{
	int scale = 0;
	int digits = 1;
	bool varies = false;
	bool wide = false;
	int first = -1;

	for (int i = 0; i < n; i++)
	{
		if (values[i]->null_constant)
			continue;
		scale = Max(scale, values[i]->scale);
		varies |= values[i]->dscale != GPUSCAN_NO_REGISTER;
		varies |= first >= 0 && values[i]->scale != values[first]->scale;
		first = first < 0 ? i : first;
	}
	for (int i = 0; i < n; i++)
	{
		if (varies)
			values[i]->dscale = gpuscan_decimal_dscale(c, values[i]);
		if (!gpuscan_decimal_rescale(c, values[i], scale))
			return false;
		wide |= values[i]->cls == GPUSCAN_I128;
		digits = Max(digits, values[i]->digits);
	}
	for (int i = 0; i < n; i++)
	{
		if (wide)
			gpuscan_decimal_widen(c, values[i]);
		values[i]->digits = digits;
	}
	return true;
}

/* a + b, a - b or a * b. */
bool
gpuscan_decimal_arithmetic(GpuScanCompiler *c, GpuScanAction action, GpuScanValue a, GpuScanValue b,
						   GpuScanValue *value)
{
	bool multiply = action == GPUSCAN_DO_MULTIPLY;
	bool varies = a.dscale != GPUSCAN_NO_REGISTER || b.dscale != GPUSCAN_NO_REGISTER;

	memset(value, 0, sizeof(*value));
	value->numeric = true;
	value->dscale = GPUSCAN_NO_REGISTER;
	if (varies)
		value->dscale = emit2(c, multiply ? GPUSCAN_OP_INT4_ADD : GPUSCAN_OP_GREATEST_I32,
							  gpuscan_decimal_dscale(c, &a), gpuscan_decimal_dscale(c, &b));

	if (multiply)
	{
		value->scale = a.scale + b.scale;
		value->digits = a.digits + b.digits;
		if (value->scale > DIGITS128)
			return gpuscan_compile_fail(
				c, "a numeric product has more than 38 digits after the point");
	}
	else
	{
		int scale = Max(a.scale, b.scale);

		if (!gpuscan_decimal_rescale(c, &a, scale) || !gpuscan_decimal_rescale(c, &b, scale))
			return false;
		value->scale = scale;
		value->digits = Max(a.digits, b.digits) + 1;
	}

	if (a.cls == GPUSCAN_I64 && b.cls == GPUSCAN_I64 && value->digits <= DIGITS64)
	{
		value->cls = GPUSCAN_I64;
		value->reg = emit2(c,
						   multiply					  ? GPUSCAN_OP_DEC64_MUL
						   : action == GPUSCAN_DO_ADD ? GPUSCAN_OP_DEC64_ADD
													  : GPUSCAN_OP_DEC64_SUB,
						   a.reg, b.reg);
		return true;
	}

	/* two values of 18 digits have a product of 36 */
	value->cls = GPUSCAN_I128;
	if (multiply && a.cls == GPUSCAN_I64 && b.cls == GPUSCAN_I64)
		value->reg = emit2(c, GPUSCAN_OP_DEC64_MUL_WIDE, a.reg, b.reg);
	else
	{
		gpuscan_decimal_widen(c, &a);
		gpuscan_decimal_widen(c, &b);
		value->reg = emit2(c,
						   multiply					  ? GPUSCAN_OP_DEC128_MUL
						   : action == GPUSCAN_DO_ADD ? GPUSCAN_OP_DEC128_ADD
													  : GPUSCAN_OP_DEC128_SUB,
						   a.reg, b.reg);
	}
	value->digits = Min(value->digits, DIGITS128);
	return true;
}

/* -value or abs(value). */
void
gpuscan_decimal_sign(GpuScanCompiler *c, GpuScanAction action, GpuScanValue *value)
{
	bool wide = value->cls == GPUSCAN_I128;

	if (action == GPUSCAN_DO_NEGATE)
		value->reg = emit1(c, wide ? GPUSCAN_OP_DEC128_NEG : GPUSCAN_OP_DEC64_NEG, value->reg);
	else
		value->reg = emit1(c, wide ? GPUSCAN_OP_DEC128_ABS : GPUSCAN_OP_DEC64_ABS, value->reg);
	value->constant = false;
}

/* Rounds to a smaller scale, half away from zero. */
static void
round_to(GpuScanCompiler *c, GpuScanValue *value, int scale)
{
	int128 power = gpuscan_power_of_ten(value->scale - scale);

	if (value->scale == scale)
		return;

	/* numeric(18,23) has 18 digits, and more behind the point */
	if (value->scale - scale > DIGITS64)
		gpuscan_decimal_widen(c, value);
	value->reg =
		emit2(c, value->cls == GPUSCAN_I128 ? GPUSCAN_OP_DEC128_ROUND : GPUSCAN_OP_DEC64_ROUND,
			  value->reg, gpuscan_build_param(c, value->cls, false, power));
	value->digits = Max(value->digits - (value->scale - scale) + 1, 1);
	value->scale = scale;
	value->constant = false;
}

/* The cast to numeric(p,s). */
bool
gpuscan_decimal_typmod(GpuScanCompiler *c, int32 typmod, GpuScanValue *value)
{
	int precision;
	int scale;

	if (typmod < (int32) VARHDRSZ)
		return true;
	precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
	scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
	if (scale < 0 || scale > DIGITS128 || precision > DIGITS128)
		return gpuscan_compile_fail(c, "numeric(%d,%d) is not offloaded", precision, scale);
	if (value->scale > scale)
		round_to(c, value, scale);
	else if (!gpuscan_decimal_rescale(c, value, scale))
		return false;
	if (value->digits > precision)
	{
		value->reg = emit2(
			c, value->cls == GPUSCAN_I128 ? GPUSCAN_OP_DEC128_CHECK : GPUSCAN_OP_DEC64_CHECK,
			value->reg, gpuscan_build_param(c, value->cls, false, gpuscan_power_of_ten(precision)));
		value->digits = precision;
		value->constant = false;
	}
	value->dscale = GPUSCAN_NO_REGISTER;
	return true;
}

/* From an integer value of class I32 or I64. */
void
gpuscan_decimal_of_integer(GpuScanCompiler *c, GpuScanValue *value)
{
	bool small = value->cls == GPUSCAN_I32;
	uint16 reg = small ? emit1(c, GPUSCAN_OP_I32_TO_I64, value->reg) : value->reg;

	memset(value, 0, sizeof(*value));
	value->numeric = true;
	value->dscale = GPUSCAN_NO_REGISTER;
	value->digits = small ? 10 : 19;
	value->cls = small ? GPUSCAN_I64 : GPUSCAN_I128;
	value->reg = small ? reg : emit1(c, GPUSCAN_OP_I64_TO_I128, reg);
}

/* To an integer of class I64, rounded; range errors are an error's. */
void
gpuscan_decimal_to_integer(GpuScanCompiler *c, GpuScanValue *value)
{
	round_to(c, value, 0);
	if (value->cls == GPUSCAN_I128)
		value->reg = emit1(c, GPUSCAN_OP_I128_TO_I64, value->reg);
	value->cls = GPUSCAN_I64;
	value->numeric = false;
	value->dscale = GPUSCAN_NO_REGISTER;
}

/* To float8. */
void
gpuscan_decimal_to_float(GpuScanCompiler *c, GpuScanValue *value)
{
	uint16 scale = gpuscan_build_param(c, GPUSCAN_I32, false, value->scale);

	value->reg =
		emit2(c, value->cls == GPUSCAN_I128 ? GPUSCAN_OP_DEC128_TO_F64 : GPUSCAN_OP_DEC64_TO_F64,
			  value->reg, scale);
	value->cls = GPUSCAN_F64;
	value->numeric = false;
	value->dscale = GPUSCAN_NO_REGISTER;
}
