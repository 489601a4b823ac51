/*-------------------------------------------------------------------------
 *
 * finish.c
 *	  From a group row of a device to PostgreSQL's values.
 *
 * Everything that depends on types is decided once, at create: each output
 * column gets a slot with a method (finish_methods.c), one function that makes
 * the Datum from the bytes of its key or state, and the calls of PostgreSQL's
 * functions that it needs.  A row is then one indirect call for each column.
 *
 * Memory: GpuScanFinish and all in it, which is scratch space too, lives in the
 * context of create.  Results and what final functions allocate on the way go
 * to the current context, which the caller resets.
 *
 *-------------------------------------------------------------------------
 */
#include "executor/finish.h"

#include "access/htup_details.h"
#include "aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/finish_methods.h"
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

struct GpuScanFinish
{
	int ncolumns;
	char *empty_row; /* no input */
	StringInfoData scratch;
	GpuScanFinishSlot slots[FLEXIBLE_ARRAY_MEMBER];
};

static GpuScanFinishFamily
aggregate_family(Oid aggfnoid)
{
	switch (aggfnoid)
	{
		case F_COUNT_:
		case F_COUNT_ANY:
			return GPUSCAN_FINISH_COUNT;
		case F_MIN_INT2:
		case F_MIN_INT4:
		case F_MIN_INT8:
		case F_MIN_FLOAT4:
		case F_MIN_FLOAT8:
		case F_MIN_NUMERIC:
		case F_MIN_DATE:
		case F_MIN_TIMESTAMP:
		case F_MIN_TIMESTAMPTZ:
		case F_MAX_INT2:
		case F_MAX_INT4:
		case F_MAX_INT8:
		case F_MAX_FLOAT4:
		case F_MAX_FLOAT8:
		case F_MAX_NUMERIC:
		case F_MAX_DATE:
		case F_MAX_TIMESTAMP:
		case F_MAX_TIMESTAMPTZ:
		case F_BOOL_AND:
		case F_BOOL_OR:
		case F_EVERY:
		case F_BIT_AND_INT2:
		case F_BIT_AND_INT4:
		case F_BIT_AND_INT8:
		case F_BIT_OR_INT2:
		case F_BIT_OR_INT4:
		case F_BIT_OR_INT8:
			return GPUSCAN_FINISH_VALUE;
		case F_SUM_INT2:
		case F_SUM_INT4:
		case F_SUM_INT8:
		case F_SUM_FLOAT4:
		case F_SUM_FLOAT8:
		case F_SUM_NUMERIC:
			return GPUSCAN_FINISH_SUM;
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
		case F_AVG_FLOAT4:
		case F_AVG_FLOAT8:
		case F_AVG_NUMERIC:
			return GPUSCAN_FINISH_AVG;
		case F_VARIANCE_INT2:
		case F_VARIANCE_INT4:
		case F_VARIANCE_INT8:
		case F_VARIANCE_FLOAT4:
		case F_VARIANCE_FLOAT8:
		case F_VARIANCE_NUMERIC:
		case F_VAR_SAMP_INT2:
		case F_VAR_SAMP_INT4:
		case F_VAR_SAMP_INT8:
		case F_VAR_SAMP_FLOAT4:
		case F_VAR_SAMP_FLOAT8:
		case F_VAR_SAMP_NUMERIC:
		case F_VAR_POP_INT2:
		case F_VAR_POP_INT4:
		case F_VAR_POP_INT8:
		case F_VAR_POP_FLOAT4:
		case F_VAR_POP_FLOAT8:
		case F_VAR_POP_NUMERIC:
		case F_STDDEV_INT2:
		case F_STDDEV_INT4:
		case F_STDDEV_INT8:
		case F_STDDEV_FLOAT4:
		case F_STDDEV_FLOAT8:
		case F_STDDEV_NUMERIC:
		case F_STDDEV_SAMP_INT2:
		case F_STDDEV_SAMP_INT4:
		case F_STDDEV_SAMP_INT8:
		case F_STDDEV_SAMP_FLOAT4:
		case F_STDDEV_SAMP_FLOAT8:
		case F_STDDEV_SAMP_NUMERIC:
		case F_STDDEV_POP_INT2:
		case F_STDDEV_POP_INT4:
		case F_STDDEV_POP_INT8:
		case F_STDDEV_POP_FLOAT4:
		case F_STDDEV_POP_FLOAT8:
		case F_STDDEV_POP_NUMERIC:
			return GPUSCAN_FINISH_VARIANCE;
		default:
			return GPUSCAN_FINISH_NONE;
	}
}

bool
gpuscan_finish_supports(Oid aggfnoid)
{
	return aggregate_family(aggfnoid) != GPUSCAN_FINISH_NONE;
}

/*
 * A call to a deserialization or final function, with arguments that are not
 * NULL.  Deserialization functions insist on an aggregate's context but ask
 * nothing of it; an empty AggState node will do.
 */
static FunctionCallInfo
prepare_call(Oid function, int nargs)
{
	FmgrInfo *flinfo = palloc(sizeof(FmgrInfo));
	FunctionCallInfo fcinfo = palloc0(SizeForFunctionCallInfo(nargs));

	fmgr_info(function, flinfo);
	InitFunctionCallInfoData(*fcinfo, flinfo, nargs, InvalidOid, (Node *) makeNode(AggState), NULL);
	return fcinfo;
}

static void
prepare_final_calls(GpuScanFinishSlot *slot, Oid aggfnoid)
{
	HeapTuple tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	Form_pg_aggregate form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);

	slot->final = prepare_call(form->aggfinalfn, 1);
	if (OidIsValid(form->aggdeserialfn))
		slot->deserialize = prepare_call(form->aggdeserialfn, 2);
	ReleaseSysCache(tuple);
}

static void
prepare_transvalues(GpuScanFinishSlot *slot)
{
	Datum zeros[3] = {Float8GetDatum(0), Float8GetDatum(0), Float8GetDatum(0)};
	ArrayType *array = construct_array(zeros, lengthof(zeros), FLOAT8OID, sizeof(float8),
									   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);

	slot->transvalues = (float8 *) ARR_DATA_PTR(array);
	slot->final->args[0].value = PointerGetDatum(array);
}

static void
prepare_aggregate(GpuScanFinishSlot *slot, const GpuScanProgram *program,
				  const GpuScanFinishColumn *spec)
{
	const GpuScanAgg *aggs = GPUSCAN_AGGS(program);
	const GpuScanAgg *agg = &aggs[spec->index];
	GpuScanFinishFamily family = aggregate_family(spec->aggfnoid);

	if (family == GPUSCAN_FINISH_NONE)
		elog(ERROR, "aggregate %u has no result from a device", spec->aggfnoid);

	slot->null_if_empty = true;
	slot->state_offset = slot->value_offset = agg->offset;
	slot->scale = spec->scale;
	if (spec->dscale_index >= 0)
		slot->dscale_offset = aggs[spec->dscale_index].offset;

	if (family == GPUSCAN_FINISH_VALUE)
	{
		/* The display scale of one value is not the largest of all */
		Assert(spec->dscale_index < 0);
		slot->value_offset += offsetof(GpuScanValueState, value);
		slot->method = gpuscan_finish_value_method(spec->type, agg->cls);
		return;
	}

	slot->method = gpuscan_finish_state_method(family, agg->kind, spec->type);
	slot->null_if_empty = family != GPUSCAN_FINISH_COUNT;
	if (family == GPUSCAN_FINISH_VARIANCE)
	{
		prepare_final_calls(slot, spec->aggfnoid);
		if (agg->kind != GPUSCAN_AGG_SQUARES_I128)
			prepare_transvalues(slot);
	}
}

static void
prepare_key(GpuScanFinishSlot *slot, const GpuScanProgram *program, const GpuScanFinishColumn *spec)
{
	const GpuScanKey *key = &GPUSCAN_KEYS(program)[spec->index];

	slot->null_bit = UINT64CONST(1) << spec->index;
	slot->value_offset = key->offset;
	slot->scale = spec->scale;
	slot->method = gpuscan_finish_value_method(spec->type, key->cls);
}

GpuScanFinish *
gpuscan_finish_create(const GpuScanProgram *program, const GpuScanFinishColumn *columns,
					  int ncolumns)
{
	GpuScanFinish *finish =
		palloc0(offsetof(GpuScanFinish, slots) + sizeof(GpuScanFinishSlot) * ncolumns);

	finish->ncolumns = ncolumns;
	finish->empty_row = palloc0(program->row_size);
	initStringInfo(&finish->scratch);
	for (int i = 0; i < ncolumns; i++)
	{
		finish->slots[i].scratch = &finish->scratch;
		if (columns[i].is_key)
			prepare_key(&finish->slots[i], program, &columns[i]);
		else
			prepare_aggregate(&finish->slots[i], program, &columns[i]);
	}
	return finish;
}

void
gpuscan_finish_row(GpuScanFinish *finish, const char *chunk, const char *row, Datum *values,
				   bool *isnull)
{
	uint64 null_keys;

	if (row == NULL)
		row = finish->empty_row;
	null_keys = *(const uint64 *) row;

	for (int i = 0; i < finish->ncolumns; i++)
	{
		GpuScanFinishSlot *slot = &finish->slots[i];

		isnull[i] = (null_keys & slot->null_bit) != 0 ||
					(slot->null_if_empty && *(const int64 *) (row + slot->state_offset) == 0);
		values[i] = isnull[i]
						? (Datum) 0
						: slot->method(slot, chunk, row, row + slot->value_offset, &isnull[i]);
	}
}
