/*-------------------------------------------------------------------------
 *
 * expression_cost.c
 *	  What it costs that PostgreSQL evaluates expressions for the cache.
 *
 * It is more than PostgreSQL's plan costs, once; later queries have them for nothing.
 * So what a session asks for again is an investment, of which a query pays a part.
 * For that the session remembers what expressions it has planned; and what scans have found by
 * them, since PostgreSQL has no statistics of most.  That lives in a hash table until the session
 * ends, or the table is full: then all is forgotten.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include <math.h>

#include "access/table.h"
#include "access/xact.h"
#include "executor/nodes.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "planner/planner.h"
#include "program/identity.h"
#include "service/client.h"
#include "utils/hsearch.h"
#include "utils/selfuncs.h"

/* Forming a tuple anew with its values takes so many times what a sequential scan takes for one. */
#define FORM_COST 5

/* Of the cost of evaluating what will be cached and is asked for again */
#define FIRST_SHARE 0.25

/* How many expressions are known, those of each partition by themselves: some 500 kB */
#define MAX_KNOWN 8192

/* How many plans are executed that pay so for one that does not come into the cache */
#define MAX_GRANTS 16

/* So much of a relation is most of it. */
#define MOST 0.75

/* Of the rows that PostgreSQL expects without statistics */
#define GUESS_SHARE 0.1

/* Of what the last scan has found, at each plan: other constants may find less */
#define FADING 0.9

/* A process more is worth it, as in executor/feeders.c */
#define PAGES_PER_EVALUATOR 512.0

typedef struct KnownKey
{
	Oid relid;
	int number;
} KnownKey;

/* An expression that this session has planned */
typedef struct Known
{
	KnownKey key;
	TimestampTz since; /* the statement */
	bool granted;	   /* the last plan counted a part, and no request has begun since */
	int grants;		   /* requests of such plans, since most of it was cached */
	bool was_sought;
	double found; /* if so, of the cached pages those that the last scan read */
} Known;

int
gpuscan_cost_expression_number(Oid relid, Oid parent, Expr *expr)
{
	/* the planner holds locks */
	Relation rel = table_open(relid, NoLock);
	Relation of = table_open(parent, NoLock);
	List *own = gpuscan_identity_own(rel, of, list_make1(expr));
	GpuScanExpression expression;

	gpuscan_identity_set(rel, linitial(own), &expression);
	table_close(of, NoLock);
	table_close(rel, NoLock);
	return gpuscan_expression_number(&expression);
}

/* What is known of the relation's expression of that number, from now on in any case. */
static Known *
find_number(Oid relid, int number)
{
	static HTAB *all_known = NULL;
	KnownKey key = {relid, number};
	Known *known;

	if (all_known != NULL)
	{
		known = hash_search(all_known, &key, HASH_FIND, NULL);
		if (known != NULL)
			return known;
		if (hash_get_num_entries(all_known) >= MAX_KNOWN)
		{
			hash_destroy(all_known);
			all_known = NULL;
		}
	}
	if (all_known == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(KnownKey), .entrysize = sizeof(Known)};

		all_known = hash_create("gpuscan expressions", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	known = hash_search(all_known, &key, HASH_ENTER, NULL);
	*known = (Known){.key = key, .since = GetCurrentStatementStartTimestamp()};
	return known;
}

static Known *
find_known(Oid relid, Expr *expr)
{
	return find_number(relid, gpuscan_cost_expression_number(relid, relid, expr));
}

void
gpuscan_cost_paid(Oid relid, List *expressions)
{
	ListCell *lc;

	foreach(lc, expressions)
	{
		Known *known = find_known(relid, lfirst(lc));

		known->grants += known->granted;
		known->granted = false;
	}
}

void
gpuscan_cost_learn(Oid relid, List *expressions, double found)
{
	ListCell *lc;

	foreach(lc, expressions)
	{
		Known *known = find_known(relid, lfirst(lc));

		known->was_sought = true;
		known->found = found;
	}
}

bool
gpuscan_cost_may_cache(Oid relid)
{
	Relation rel;
	bool may;

	if (!gpuscan_client_has_cache(NULL))
		return false;

	/* the planner holds a lock */
	rel = table_open(relid, NoLock);
	may = gpuscan_feed_may_be_cached(rel);
	table_close(rel, NoLock);
	return may;
}

/* True if one of the expressions is somewhere in the node. */
static bool
has_one_of(Node *node, List *expressions)
{
	if (node == NULL)
		return false;
	return list_member(expressions, node) || expression_tree_walker(node, has_one_of, expressions);
}

/* True if PostgreSQL would evaluate expressions for most rows too. */
static bool
come_first(PlannerInfo *root, RelOptInfo *rel, List *expressions)
{
	Selectivity before = 1;
	ListCell *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		Node *clause = (Node *) lfirst_node(RestrictInfo, lc)->clause;

		if (!has_one_of(clause, expressions))
			before *= clause_selectivity(root, clause, 0, JOIN_INNER, NULL);
	}
	return before >= MOST;
}

/*
 * True if expressions are worth more than this query: they will be cached, PostgreSQL would
 * evaluate them for most rows too, and they are asked for again.  What does not come into
 * the cache, for its values are errors, or there is no room, is in the end worth no more.
 */
static bool
is_an_investment(PlannerInfo *root, RelOptInfo *rel, Oid relid, List *expressions,
				 GpuScanPages pages)
{
	bool most_cached = pages.missing < (1 - MOST) * pages.all;
	bool worth = pages.visible > MOST * pages.all && gpuscan_cost_may_cache(relid) &&
				 come_first(root, rel, expressions);
	List *numbers = NIL;
	ListCell *lc;

	foreach(lc, expressions)
	{
		int number = gpuscan_cost_expression_number(relid, relid, lfirst(lc));
		Known *known = find_number(relid, number);

		numbers = lappend_int(numbers, number);
		if (most_cached)
			known->grants = 0;
		worth &= known->since != GetCurrentStatementStartTimestamp() && known->grants < MAX_GRANTS;
	}
	foreach(lc, numbers)
		find_number(relid, lfirst_int(lc))->granted = worth && !most_cached;
	return worth;
}

double
gpuscan_cost_evaluation(Path *path, PlannerInfo *root, RelOptInfo *rel, Oid relid,
						List *expressions, GpuScanPages pages, double tuples)
{
	double processes =
		1 + Min(max_parallel_workers_per_gather, pages.missing / PAGES_PER_EVALUATOR);
	double share;
	QualCost cost;
	Cost all;

	if (expressions == NIL)
		return 1;
	/* which also has to learn that nothing is missing */
	share = is_an_investment(root, rel, relid, expressions, pages) ? FIRST_SHARE : 1;
	if (tuples <= 0)
		return 1;
	cost_qual_eval(&cost, expressions, root);
	all = (cost.startup + (cost.per_tuple + FORM_COST * cpu_tuple_cost) * tuples) / processes;
	path->startup_cost += all * share;
	path->total_cost += all * share;
	return share;
}

/* True if a condition compares an expression of which PostgreSQL has no statistics. */
static bool
is_guess(PlannerInfo *root, Node *clause, List *expressions)
{
	VariableStatData variable;
	List *args;
	Node *other;
	bool on_left;
	bool guess;

	if (IsA(clause, OpExpr))
		args = ((OpExpr *) clause)->args;
	else if (IsA(clause, ScalarArrayOpExpr))
		args = ((ScalarArrayOpExpr *) clause)->args;
	else
		return false;
	if (!has_one_of(clause, expressions) ||
		!get_restriction_variable(root, args, 0, &variable, &other, &on_left))
		return false;
	guess = !HeapTupleIsValid(variable.statsTuple);
	ReleaseVariableStats(variable);
	return guess;
}

/*
 * How many rows pass, for what it costs to read the pages that have them.  Where PostgreSQL guesses,
 * mostly one of 200, the last scan has told more; before there was one, there are fewer.  If the guess
 * was right after all, the scan takes about as long as PostgreSQL's plan; if it was not, far less.
 */
static double
expected_rows(PlannerInfo *root, RelOptInfo *rel, Oid relid, List *expressions, double passed)
{
	bool guess = false;
	double found = 1;
	bool was_sought = false;
	ListCell *lc;

	foreach(lc, rel->baserestrictinfo)
		guess |= is_guess(root, (Node *) lfirst_node(RestrictInfo, lc)->clause, expressions);
	if (!guess)
		return passed;
	foreach(lc, expressions)
	{
		Known *known = find_known(relid, lfirst(lc));

		was_sought |= known->was_sought;
		if (known->was_sought)
			found = Min(found, known->found);
		known->found *= FADING;
	}

	/* as many as have that share of the pages, see gpuscan_cost_hits */
	if (was_sought)
		return -log(Max(1 - found, 1e-3)) * rel->pages;
	return passed * GUESS_SHARE;
}

void
gpuscan_cost_expressions(Path *path, PlannerInfo *root, RelOptInfo *rel, Oid relid,
						 const GpuScanCompiled *compiled, double cached, double passed)
{
	List *expressions = compiled->expressions;
	double tuples_per_page = rel->tuples / Max(rel->pages, 1);
	double visible = rel->pages * rel->allvisfrac;
	GpuScanPages pages = {rel->pages, visible, visible - cached};
	Cost read = seq_page_cost * pages.missing;
	double share = gpuscan_cost_evaluation(path, root, rel, relid, expressions, pages,
										   pages.missing * tuples_per_page);
	double hits =
		gpuscan_cost_hits(path, rel->pages, rel->tuples, gpuscan_cost_operations(compiled->program),
						  visible, expected_rows(root, rel, relid, expressions, passed));
	double here = (hits + rel->pages - visible) * tuples_per_page;
	Cost per_tuple = cpu_tuple_cost;
	ListCell *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		QualCost cost;

		cost_qual_eval_node(&cost, lfirst(lc), root);
		per_tuple += cost.per_tuple;
	}

	/* another request, for what is missing, which comes first */
	path->startup_cost += gpuscan_request_cost + read * share;
	path->total_cost += gpuscan_request_cost - read * (1 - share) + per_tuple * here;
}
