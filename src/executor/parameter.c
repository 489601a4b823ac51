/*-------------------------------------------------------------------------
 *
 * parameter.c
 *	  The values of a Program's parameters.
 *
 * They are evaluated before the first tuple is read, where PostgreSQL would
 * evaluate them for each tuple, or never.  So an error that such an evaluation
 * raises need not be the query's: it makes the node run its replaced plan,
 * which raises it or not.  Catching it without a subtransaction is sound
 * because values.c admits only built-in functions, which hold nothing but
 * memory when they report a data exception; every other error is passed on.
 * Uncorrelated subqueries are run outside of that, as a parallel plan of
 * PostgreSQL's would.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "executor/executor.h"
#include "executor/nodes.h"
#include "executor/nodeSubplan.h"
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

/* A GpuScanEvaluate; `arg` is the node.  The value lives in the current context. */
bool
gpuscan_parameter_evaluate(void *arg, Expr *expr, Datum *value, bool *isnull)
{
	GpuScanNodeState *node = arg;
	PlanState *ps = &node->css.ss.ps;
	MemoryContext context = CurrentMemoryContext;
	volatile bool ok = true;

	run_subqueries_walker((Node *) expr, ps->ps_ExprContext);
	PG_TRY();
	{
		/* without a parent it is not handed to the JIT, which would take longer than the node */
		ExprState *state = ExecInitExpr(expr, NULL);

		*value = ExecEvalExprSwitchContext(state, ps->ps_ExprContext, isnull);
	}
	PG_CATCH();
	{
		int sqlerrcode = geterrcode();

		if (ERRCODE_TO_CATEGORY(sqlerrcode) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();

	if (ok && !*isnull)
	{
		int16 typlen;
		bool typbyval;

		get_typlenbyval(exprType((Node *) expr), &typlen, &typbyval);
		*value = datumCopy(*value, typbyval, typlen);
	}
	return ok;
}
