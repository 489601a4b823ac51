/*-------------------------------------------------------------------------
 *
 * expression_column.c
 *	  Expressions that no device computes, over any columns of a row.
 *
 * Such an expression is a column of its own: PostgreSQL evaluates it once for each
 * tuple of a block that goes into the cache, or cannot be there, and the backend
 * hands the value over behind the tuple's attributes (executor/evaluator.c).
 *
 * It is immutable, reads nothing but the row's columns, and consists of PostgreSQL's
 * own C functions, without parameters (gpuscan_value_of_rows).  So a block that has
 * not changed has the same values for everybody, at any time.
 *
 * It is evaluated for all tuples of a block, also for those that other conditions
 * exclude.  If it raises an error for one of them an aggregation runs its replaced plan, and
 * a scan reads the blocks around it.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "program/compiler.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* Of one Program */
#define MAX_EXPRESSIONS 32

/* The expression's number among those of the Program; a new one is added. */
static int
expression_number(GpuScanCompiler *c, Expr *expr)
{
	ListCell *lc;

	foreach(lc, c->expressions)
	{
		if (equal(lfirst(lc), expr))
			return foreach_current_index(lc);
	}
	c->expressions = lappend(c->expressions, expr);
	return list_length(c->expressions) - 1;
}

/* Functions whose numeric results have more digits than a column holds, and that cut them off */
static bool
is_division(Oid funcid, void *context pg_attribute_unused())
{
	switch (funcid)
	{
		case F_NUMERIC_DIV:
		case F_SQRT_NUMERIC:
		case F_EXP_NUMERIC:
		case F_LN_NUMERIC:
		case F_LOG_NUMERIC:
		case F_LOG_NUMERIC_NUMERIC:
		case F_NUMERIC_POWER:
		case F_POW_NUMERIC_NUMERIC:
		case F_POWER_NUMERIC_NUMERIC:
			return true;
		default:
			return false;
	}
}

static bool
is_rounding(Oid funcid, void *context pg_attribute_unused())
{
	return funcid == F_ROUND_NUMERIC || funcid == F_ROUND_NUMERIC_INT4 ||
		   funcid == F_TRUNC_NUMERIC || funcid == F_TRUNC_NUMERIC_INT4 ||
		   funcid == F_FLOOR_NUMERIC || funcid == F_CEIL_NUMERIC || funcid == F_CEILING_NUMERIC;
}

/* True if a numeric value is a quotient or the like, and is not rounded. */
static bool
division_walker(Node *node, void *context)
{
	bool ends = node == NULL || check_functions_in_node(node, is_rounding, context);

	/* so does what is no numeric */
	if (node != NULL && (IsA(node, OpExpr) || IsA(node, FuncExpr) || IsA(node, CoerceViaIO)))
		ends |= exprType(node) != NUMERICOID;
	if (ends)
		return false;
	return check_functions_in_node(node, is_division, context) ||
		   expression_tree_walker(node, division_walker, context);
}

/* Compiles an expression as a column. */
bool
gpuscan_expression_compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value)
{
	Oid type = getBaseType(exprType((Node *) expr));
	GpuScanClass cls;
	GpuScanDecode decode;

	/* within a CASE with an argument it may stand for something else in each tuple */
	if (!c->input->with_expressions || IsA(expr, Var) || c->case_value != NULL ||
		list_length(c->expressions) >= MAX_EXPRESSIONS ||
		!gpuscan_eligible_type(type, &cls, &decode) ||
		!gpuscan_value_of_rows(expr, c->input->varno))
		return false;

	/* it would have to be left to PostgreSQL each time */
	if (type == NUMERICOID && exprTypmod((Node *) expr) < 0 && division_walker((Node *) expr, NULL))
		return gpuscan_compile_fail(c, "a numeric quotient is not offloaded");
	c->reason = NULL;
	return gpuscan_expr_column(c, -1 - expression_number(c, expr), type, exprTypmod((Node *) expr),
							   value);
}
