/*-------------------------------------------------------------------------
 *
 * finish_numeric.c
 *	  From scaled 128-bit integers to PostgreSQL's numerics.
 *
 * A numeric's contents are private to numeric.c, which offers three doors, and
 * we use them all:
 *
 *	 - int64_div_fast_to_numeric, where the integer has 64 bits: no text, no
 *	   division, and the display scale is the power of ten;
 *	 - numeric_recv, the binary protocol's reader, for the others;
 *	 - the deserialization functions of parallel aggregation, for a variance's
 *	   transition state.
 *
 * The last two read decimal digits in groups of four, each an int16, aligned to
 * the decimal point, with the weight of the first group (0: units), a sign and
 * the display scale; they differ in the width of these four fields.
 *
 *-------------------------------------------------------------------------
 */
#include "executor/finish_numeric.h"

#include "fmgr.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"

#define GROUP_DIGITS 4
#define GROUP_BASE 10000
#define MAX_GROUPS 11 /* 39 digits of an int128, split anywhere */
#define SIGN_POSITIVE 0x0000
#define SIGN_NEGATIVE 0x4000

/* The digits of a value; first is the most significant group. */
typedef struct Digits
{
	int ngroups;
	int weight;
	int sign;
	int first;
	int16 groups[MAX_GROUPS];
} Digits;

static const int64 powers[] = {INT64CONST(1),
							   INT64CONST(10),
							   INT64CONST(100),
							   INT64CONST(1000),
							   INT64CONST(10000),
							   INT64CONST(100000),
							   INT64CONST(1000000),
							   INT64CONST(10000000),
							   INT64CONST(100000000),
							   INT64CONST(1000000000),
							   INT64CONST(10000000000),
							   INT64CONST(100000000000),
							   INT64CONST(1000000000000),
							   INT64CONST(10000000000000),
							   INT64CONST(100000000000000),
							   INT64CONST(1000000000000000),
							   INT64CONST(10000000000000000),
							   INT64CONST(100000000000000000),
							   INT64CONST(1000000000000000000)};

static void
make_digits(Digits *digits, int128 value, int scale)
{
	uint128 rest = value < 0 ? -(uint128) value : (uint128) value;
	int partial = scale % GROUP_DIGITS;
	int first = MAX_GROUPS;
	int last_weight = -((scale + GROUP_DIGITS - 1) / GROUP_DIGITS);
	uint64 rest64;

	if (partial > 0)
	{
		digits->groups[--first] = (int) (rest % powers[partial]) * powers[GROUP_DIGITS - partial];
		rest /= powers[partial];
	}
	for (; rest > PG_UINT64_MAX; rest /= GROUP_BASE)
		digits->groups[--first] = rest % GROUP_BASE;
	for (rest64 = rest; rest64 > 0; rest64 /= GROUP_BASE)
		digits->groups[--first] = rest64 % GROUP_BASE;

	digits->first = first;
	digits->ngroups = MAX_GROUPS - first;
	digits->weight = last_weight + digits->ngroups - 1;
	digits->sign = value < 0 ? SIGN_NEGATIVE : SIGN_POSITIVE;
}

static void
send_groups(StringInfo buf, const Digits *digits)
{
	for (int i = digits->first; i < MAX_GROUPS; i++)
		pq_sendint16(buf, digits->groups[i]);
}

Numeric
gpuscan_finish_numeric(StringInfo scratch, int128 value, int scale, int dscale)
{
	int surplus = scale - dscale;
	Digits digits;

	if (value == (int64) value && surplus >= 0 && surplus < (int) lengthof(powers))
	{
		int64 small = (int64) value;

		if (surplus > 0)
			small /= powers[surplus];
		return int64_div_fast_to_numeric(small, dscale);
	}

	make_digits(&digits, value, scale);
	resetStringInfo(scratch);
	pq_sendint16(scratch, digits.ngroups);
	pq_sendint16(scratch, digits.weight);
	pq_sendint16(scratch, digits.sign);
	pq_sendint16(scratch, dscale);
	send_groups(scratch, &digits);
	return DatumGetNumeric(DirectFunctionCall3(numeric_recv, PointerGetDatum(scratch),
											   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

/*
 * What numericvar_serialize() in numeric.c writes.
 */
static void
send_variable(StringInfo buf, int128 value, int scale, int dscale)
{
	Digits digits;

	make_digits(&digits, value, scale);
	pq_sendint32(buf, digits.ngroups);
	pq_sendint32(buf, digits.weight);
	pq_sendint32(buf, digits.sign);
	pq_sendint32(buf, dscale);
	send_groups(buf, &digits);
}

bytea *
gpuscan_finish_squares(StringInfo scratch, bool poly, int64 n, int128 sum, int128 squares,
					   int scale, int dscale)
{
	/* As pq_begintypsend() begins, but in memory that is there already */
	resetStringInfo(scratch);
	appendStringInfoSpaces(scratch, VARHDRSZ);

	pq_sendint64(scratch, n);
	send_variable(scratch, sum, scale, dscale);
	send_variable(scratch, squares, 2 * scale, 2 * dscale);
	if (!poly)
	{
		pq_sendint32(scratch, dscale); /* the largest among the inputs */
		pq_sendint64(scratch, n);	   /* how many had it: for moving aggregates */
		pq_sendint64(scratch, 0);	   /* NaNs */
		pq_sendint64(scratch, 0);	   /* infinities */
		pq_sendint64(scratch, 0);	   /* negative infinities */
	}
	return pq_endtypsend(scratch);
}
