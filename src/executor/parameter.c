/*-------------------------------------------------------------------------
 *
 * parameter.c
 *	  The values of a Program's parameters, and of expressions over one column
 *	  for each of the column's values.
 *
 * They are evaluated before the first tuple is read, where PostgreSQL would
 * evaluate them for each tuple, or never.  So an error that such an evaluation
 * raises need not be the query's: it makes the node run its replaced plan,
 * which raises it or not.  Catching it without a subtransaction is sound
 * because values.c admits only PostgreSQL's own C functions, which hold nothing
 * but memory when they report bad data, a name that does not exist or a limit;
 * every other error is passed on.
 * Uncorrelated subqueries are run outside of that, as a parallel plan of
 * PostgreSQL's would.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/executor.h"
#include "executor/nodes.h"
#include "executor/nodeSubplan.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Runs the subqueries whose results the expression reads. */
static bool
run_subqueries_walker(Node *node, ExprContext *econtext)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		ParamExecData *param = &econtext->ecxt_param_exec_vals[((Param *) node)->paramid];

		if (param->execPlan != NULL)
			ExecSetParamPlan(param->execPlan, econtext);
	}
	return expression_tree_walker(node, run_subqueries_walker, econtext);
}

/* Evaluates; false if that raises an error which may not be the query's. */
static bool
try_evaluate(ExprState *state, ExprContext *econtext, Datum *value, bool *isnull)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool ok = true;

	PG_TRY();
	{
		*value = ExecEvalExprSwitchContext(state, econtext, isnull);
	}
	PG_CATCH();
	{
		switch (ERRCODE_TO_CATEGORY(geterrcode()))
		{
			case ERRCODE_DATA_EXCEPTION:
			case ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION:
			case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
			case ERRCODE_FEATURE_NOT_SUPPORTED:
				break;
			default:
				PG_RE_THROW();
		}
		MemoryContextSwitchTo(context);
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	return ok;
}

/* A GpuScanEvaluate; `arg` is the node.  The value lives in the current context. */
bool
gpuscan_parameter_evaluate(void *arg, Expr *expr, Datum *value, bool *isnull)
{
	GpuScanNodeState *node = arg;
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	int16 typlen;
	bool typbyval;

	run_subqueries_walker((Node *) expr, econtext);

	/* without a parent it is not handed to the JIT, which would take longer than the node */
	if (!try_evaluate(ExecInitExpr(expr, NULL), econtext, value, isnull))
		return false;
	get_typlenbyval(exprType((Node *) expr), &typlen, &typbyval);
	if (!*isnull)
		*value = datumCopy(*value, typbyval, typlen);
	return true;
}

/* Puts the value that an ExprContext holds in the place of the column. */
static Node *
replace_column_mutator(Node *node, void *context)
{
	CaseTestExpr *value;
	Var *column = (Var *) node;

	if (node == NULL || !IsA(node, Var))
		return expression_tree_mutator(node, replace_column_mutator, context);
	value = makeNode(CaseTestExpr);
	value->typeId = column->vartype;
	value->typeMod = column->vartypmod;
	value->collation = column->varcollid;
	return (Node *) value;
}

/* A GpuScanEvaluateEach; `arg` is the node.  Results live in the current context. */
void
gpuscan_parameter_evaluate_each(void *arg, Expr *expr, const GpuScanColumnValues *values,
								Datum *results, uint8 *flags)
{
	GpuScanNodeState *node = arg;
	ExprContext *econtext = CreateExprContext(node->css.ss.ps.state);
	Expr *over_value = (Expr *) replace_column_mutator((Node *) expr, NULL);
	ExprState *state = ExecInitExpr(over_value, NULL);
	Size size = 0;
	int16 typlen;
	bool typbyval;

	run_subqueries_walker((Node *) expr, econtext);
	get_typlenbyval(exprType((Node *) expr), &typlen, &typbyval);
	for (uint32 i = 0; i <= values->n; i++)
	{
		bool isnull;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		econtext->caseValue_isNull = i == values->n;
		econtext->caseValue_datum = i < values->n ? values->values[i] : (Datum) 0;
		if (!try_evaluate(state, econtext, &results[i], &isnull))
			flags[i] = GPUSCAN_ERROR;
		else if (isnull)
			flags[i] = GPUSCAN_NULL;
		else
		{
			size += typbyval ? 0 : datumGetSize(results[i], typbyval, typlen);
			if (size > GPUSCAN_MAX_PROGRAM_SIZE)
				flags[i] = GPUSCAN_ERROR; /* what came before fills a Program */
			else
			{
				flags[i] = 0;
				results[i] = datumCopy(results[i], typbyval, typlen);
			}
		}
	}
	FreeExprContext(econtext, true);
}
