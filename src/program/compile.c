/*-------------------------------------------------------------------------
 *
 * compile.c
 *	  From a scan's or an aggregation's expressions to a Program.
 *
 * The same code runs while planning, to find out whether a Program exists, and
 * at each start of a scan, when the parameters are known: a numeric parameter's
 * digits decide which operations are used.  It takes some microseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "program/compiler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

/* The filter register of a list of ANDed conditions. */
static bool
compile_filter(GpuScanCompiler *c, List *quals, uint16 *filter)
{
	ListCell *lc;

	*filter = GPUSCAN_NO_REGISTER;
	foreach(lc, quals)
	{
		GpuScanValue value;

		if (!gpuscan_expr_compile(c, lfirst(lc), &value))
			return false;
		*filter = *filter == GPUSCAN_NO_REGISTER ? value.reg
												 : emit2(c, GPUSCAN_OP_AND, *filter, value.reg);
	}
	return true;
}

static bool
compile_key(GpuScanCompiler *c, Expr *expr, GpuScanKey *key, GpuScanFinishColumn *output)
{
	Oid type = getBaseType(exprType((Node *) expr));
	GpuScanValue value;

	if (!gpuscan_expr_compile(c, expr, &value))
		return false;
	if (value.cls == GPUSCAN_TEXT && !gpuscan_expr_deterministic(c, exprCollation((Node *) expr)))
		return false;

	/* equal values must look the same, since any of them may be shown */
	if (value.dscale != GPUSCAN_NO_REGISTER)
		return gpuscan_compile_fail(c, "grouping by a numeric whose scale varies is not offloaded");
	output->typmod = exprTypmod((Node *) expr);
	if (type == BPCHAROID)
	{
		(void) getBaseTypeAndTypmod(exprType((Node *) expr), &output->typmod);
		if (!IsA(expr, Var) || output->typmod < 0)
			return gpuscan_compile_fail(
				c, "grouping by a character value of no fixed length is not offloaded");
	}

	key->cls = value.cls;
	key->reg = value.reg;
	output->is_key = true;
	output->type = type;
	output->scale = value.scale;
	output->dscale_index = -1;
	return true;
}

/* The aggregate's index; an equal one is used again. */
static int
add_aggregate(GpuScanAgg *aggs, int *naggs, const GpuScanAgg *agg)
{
	for (int i = 0; i < *naggs; i++)
	{
		if (aggs[i].kind == agg->kind && aggs[i].cls == agg->cls && aggs[i].arg == agg->arg &&
			aggs[i].filter == agg->filter)
			return i;
	}
	aggs[*naggs] = *agg;
	return (*naggs)++;
}

static bool
compile_aggregate(GpuScanCompiler *c, Aggref *aggref, GpuScanAgg *aggs, int *naggs,
				  GpuScanFinishColumn *output)
{
	const GpuScanAggregateFunction *function = gpuscan_eligible_aggregate(aggref->aggfnoid);
	GpuScanAgg agg = {0};
	GpuScanValue value;

	if (function == NULL)
		return gpuscan_compile_fail(c, "aggregate %s is not offloaded",
									format_procedure(aggref->aggfnoid));
	if (aggref->aggorder != NIL || aggref->agglevelsup != 0 || aggref->aggdirectargs != NIL)
		return gpuscan_compile_fail(c, "an aggregate with ORDER BY is not offloaded");
	if (aggref->aggdistinct != NIL && function->kind != GPUSCAN_AGG_COUNT)
		return gpuscan_compile_fail(c, "DISTINCT in aggregate %s is not offloaded",
									format_procedure(aggref->aggfnoid));

	output->type = aggref->aggtype;
	output->aggfnoid = aggref->aggfnoid;
	output->dscale_index = -1;
	agg.kind = function->kind;
	agg.arg = GPUSCAN_NO_REGISTER;
	agg.filter = GPUSCAN_NO_REGISTER;
	if (aggref->aggfilter != NULL)
	{
		if (!gpuscan_expr_compile(c, aggref->aggfilter, &value))
			return false;
		agg.filter = value.reg;
	}

	if (!aggref->aggstar)
	{
		Expr *arg = ((TargetEntry *) linitial(aggref->args))->expr;

		if (!gpuscan_expr_compile(c, arg, &value))
			return false;
		output->argtype = getBaseType(exprType((Node *) arg));
		output->scale = value.scale;
		if (aggref->aggdistinct != NIL)
		{
			agg.kind = GPUSCAN_AGG_COUNT_DISTINCT;
			if (value.cls == GPUSCAN_TEXT &&
				!gpuscan_expr_deterministic(c, exprCollation((Node *) arg)))
				return false;
			if (output->argtype == BPCHAROID)
				value.reg = emit1(c, GPUSCAN_OP_BPCHAR_TRIM, value.reg);
		}
		agg.cls = value.cls;
		agg.arg = value.reg;
		if (value.numeric && value.dscale != GPUSCAN_NO_REGISTER && agg.kind != GPUSCAN_AGG_COUNT &&
			agg.kind != GPUSCAN_AGG_COUNT_DISTINCT)
		{
			GpuScanAgg dscale = agg;

			if (agg.kind == GPUSCAN_AGG_MIN || agg.kind == GPUSCAN_AGG_MAX)
				return gpuscan_compile_fail(
					c, "min and max of a numeric whose scale varies are not offloaded");

			/* the scale of a NULL does not count */
			dscale.kind = GPUSCAN_AGG_MAX;
			dscale.cls = GPUSCAN_I32;
			dscale.arg = emit2(c, GPUSCAN_OP_NULLIF_I32, value.dscale,
							   emit1(c, GPUSCAN_OP_IS_NULL, value.reg));
			output->dscale_index = add_aggregate(aggs, naggs, &dscale);
		}
	}
	output->index = add_aggregate(aggs, naggs, &agg);
	return true;
}

/* Gives keys and states their places in a group row; the row's size. */
static uint32
place_row(GpuScanKey *keys, int nkeys, GpuScanAgg *aggs, int naggs)
{
	uint32 offset = sizeof(uint64);

	for (int i = 0; i < nkeys; i++)
	{
		keys[i].offset = offset;
		offset += gpuscan_key_size(keys[i].cls);
	}
	for (int i = 0; i < naggs; i++)
	{
		aggs[i].offset = offset;
		offset += gpuscan_agg_state_size(aggs[i].kind, aggs[i].cls);
	}
	return offset;
}

GpuScanCompiled *
gpuscan_program_compile(const GpuScanCompileInput *input, const char **reason)
{
	GpuScanCompiler *c = palloc0(sizeof(GpuScanCompiler));
	GpuScanCompiled *compiled = palloc0(sizeof(GpuScanCompiled));
	int nkeys = list_length(input->keys);
	int naggrefs = list_length(input->aggrefs);
	GpuScanKey *keys = palloc0(nkeys * sizeof(GpuScanKey));
	GpuScanAgg *aggs = palloc0(2 * naggrefs * sizeof(GpuScanAgg));
	int naggs = 0;
	uint16 filter;
	uint32 row_size;
	ListCell *lc;
	bool ok;

	c->input = input;
	initStringInfo(&c->reg_classes);
	initStringInfo(&c->inputs);
	initStringInfo(&c->params);
	initStringInfo(&c->sets);
	initStringInfo(&c->lists);
	initStringInfo(&c->instrs);
	initStringInfo(&c->blob);
	compiled->noutputs = nkeys + naggrefs;
	compiled->outputs = palloc0(compiled->noutputs * sizeof(GpuScanFinishColumn));

	ok = compile_filter(c, input->quals, &filter);
	if (ok && nkeys > GPUSCAN_MAX_KEYS)
		ok = gpuscan_compile_fail(c, "grouping by more than %d keys is not offloaded",
								  GPUSCAN_MAX_KEYS);
	for (int i = 0; i < nkeys && ok; i++)
	{
		compiled->outputs[i].index = i;
		ok = compile_key(c, list_nth(input->keys, i), &keys[i], &compiled->outputs[i]);
	}
	for (int i = 0; i < naggrefs && ok; i++)
		ok = compile_aggregate(c, list_nth(input->aggrefs, i), aggs, &naggs,
							   &compiled->outputs[nkeys + i]);
	if (ok && c->nregs >= GPUSCAN_MAX_REGISTERS)
		ok = gpuscan_compile_fail(c, "the expressions are too large");
	if (!ok)
	{
		*reason = c->reason;
		return NULL;
	}

	row_size = place_row(keys, nkeys, aggs, naggs);
	compiled->program =
		gpuscan_build_program(c, filter, keys, nkeys, aggs, naggs, input->aggregate ? row_size : 0);
	if (compiled->program->size > GPUSCAN_MAX_PROGRAM_SIZE)
	{
		*reason = "the constants are too large";
		return NULL;
	}
	compiled->ncolumns = c->ncolumns;
	compiled->expressions = c->expressions;
	foreach(lc, c->valued)
		compiled->valued =
			lappend_int(compiled->valued, ((GpuScanValuedColumn *) lfirst(lc))->attnum);
	compiled->attnums = palloc(c->ncolumns * sizeof(AttrNumber));
	memcpy(compiled->attnums, c->attnums, c->ncolumns * sizeof(AttrNumber));
	return compiled;
}
