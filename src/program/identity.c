/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Expressions over a relation's columns, as columns of their own.
 *
 * What an expression's value depends on beside the bytes of a tuple makes up its identity, the
 * SHA-256 of:
 *
 *	 - the expression, as PostgreSQL writes down a tree of nodes: functions and collations by
 *	   OID, constants, and the relation's own attribute numbers with their types;
 *	 - where these attributes lie in a tuple, which the attributes before them say, and the
 *	   value of tuples that end before them;
 *	 - the setting timezone_abbreviations, which immutable functions read.
 *
 * What does not matter is taken out: where it stood in a query's text, and in its range table.
 *
 * All of that is one text, which another process can make the expression of again.  It begins
 * with the version of the catalogs, by which trees of nodes are written down.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "access/attmap.h"
#include "access/tupdesc_details.h"
#include "catalog/catversion.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "nodes/nodeFuncs.h"
#include "program/compiler.h"
#include "program/identity.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#define HEADER "%u\n"

bool
gpuscan_identity_missing(TupleDesc desc, int attnum, Datum *value)
{
	Form_pg_attribute att = TupleDescAttr(desc, attnum);
	const AttrMissing *missing;

	if (!att->atthasmissing || desc->constr == NULL || desc->constr->missing == NULL)
		return false;

	missing = &desc->constr->missing[attnum];
	if (!missing->am_present)
		return false;

	*value = missing->am_value;
	if (att->attlen == -1)
		*value = PointerGetDatum(PG_DETOAST_DATUM(*value));
	return true;
}

/* Makes the parent's columns those of a relation, by the map, if it is another. */
static Node *
own_columns_mutator(Node *node, void *context)
{
	const AttrMap *map = context;
	Var *var;

	if (node == NULL || !IsA(node, Var))
		return expression_tree_mutator(node, own_columns_mutator, context);
	var = copyObject((Var *) node);
	var->varno = 1;
	var->varnosyn = 0;
	var->varattnosyn = 0;
	if (map != NULL)
		var->varattno = map->attnums[var->varattno - 1];
	return (Node *) var;
}

List *
gpuscan_identity_own(Relation rel, Relation parent, List *expressions)
{
	AttrMap *map = NULL;
	List *own;

	if (rel != parent && expressions != NIL)
		map = build_attrmap_by_name(RelationGetDescr(rel), RelationGetDescr(parent));
	own = (List *) own_columns_mutator((Node *) expressions, map);
	fix_opfuncids((Node *) own);
	if (map != NULL)
		free_attrmap(map);
	return own;
}

/* Makes the numbers behind ":location" 0 in the tree's text, in place. */
static void
forget_locations(char *text)
{
	static const char location[] = ":location ";
	char *to = text;

	for (const char *from = text; *from != '\0';)
	{
		if (strncmp(from, location, strlen(location)) == 0)
		{
			memcpy(to, location, strlen(location));
			to += strlen(location);
			*to++ = '0';
			from += strlen(location);
			from += strspn(from, "-0123456789");
		}
		else
			*to++ = *from++;
	}
	*to = '\0';
}

/* Marks the attributes that an expression reads. */
static bool
attributes_walker(Node *node, void *context)
{
	bool *used = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		used[((Var *) node)->varattno - 1] = true;
	return expression_tree_walker(node, attributes_walker, context);
}

/* Adds where attributes lie that the expression reads, and what they are where they are missing. */
static void
append_attributes(StringInfo text, TupleDesc desc, Expr *expr)
{
	bool *used = palloc0(desc->natts * sizeof(bool));
	int last = desc->natts - 1;

	(void) attributes_walker((Node *) expr, used);
	while (!used[last])
		last--;
	for (int i = 0; i <= last; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Datum value;

		appendStringInfo(text, "%d%c", att->attlen, att->attalign);
		if (used[i] && gpuscan_identity_missing(desc, i, &value))
		{
			appendStringInfoChar(text, '=');
			if (att->attbyval)
				appendBinaryStringInfo(text, (char *) &value, sizeof(value));
			else
				appendBinaryStringInfo(text, DatumGetPointer(value),
									   datumGetSize(value, false, att->attlen));
		}
	}
	pfree(used);
}

void
gpuscan_identity_write(Relation rel, Expr *expr, StringInfo text)
{
	const char *abbreviations = GetConfigOption("timezone_abbreviations", false, false);
	char *tree = nodeToString(expr);

	forget_locations(tree);
	appendStringInfo(text, HEADER, CATALOG_VERSION_NO);
	appendBinaryStringInfo(text, tree, strlen(tree) + 1);
	appendBinaryStringInfo(text, abbreviations, strlen(abbreviations) + 1);
	append_attributes(text, RelationGetDescr(rel), expr);
	pfree(tree);
}

void
gpuscan_identity_hash(const StringInfoData *text, uint8 *identity)
{
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	StaticAssertStmt(sizeof(((GpuScanExpression *) 0)->identity) == PG_SHA256_DIGEST_LENGTH,
					 "an identity is a SHA-256");
	if (context == NULL || pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, (uint8 *) text->data, text->len) < 0 ||
		pg_cryptohash_final(context, identity, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not hash an expression");
	pg_cryptohash_free(context);
}

void
gpuscan_identity_set(Relation rel, Expr *expr, GpuScanExpression *expression)
{
	StringInfoData text;

	memset(expression, 0, sizeof(*expression));
	initStringInfo(&text);
	gpuscan_identity_write(rel, expr, &text);
	gpuscan_identity_hash(&text, expression->identity);
	pfree(text.data);
}

/* True if a column is none of the relation's, or not as it is now; `context` is its descriptor. */
static bool
foreign_column_walker(Node *node, void *context)
{
	TupleDesc desc = context;
	const Var *var = (const Var *) node;
	Form_pg_attribute att;

	if (node == NULL || !IsA(node, Var))
		return expression_tree_walker(node, foreign_column_walker, context);
	if (var->varattno < 1 || var->varattno > desc->natts)
		return true;
	att = TupleDescAttr(desc, var->varattno - 1);
	return att->attisdropped || att->atttypid != var->vartype || att->atttypmod != var->vartypmod ||
		   att->attcollation != var->varcollid;
}

static bool
is_dropped_collation(Oid collation)
{
	return OidIsValid(collation) && !SearchSysCacheExists1(COLLOID, ObjectIdGetDatum(collation));
}

/* True if a collation does not exist any more. */
static bool
dropped_collation_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, List) && (is_dropped_collation(exprCollation(node)) ||
							 is_dropped_collation(exprInputCollation(node))))
		return true;
	return expression_tree_walker(node, dropped_collation_walker, context);
}

Expr *
gpuscan_identity_read(Relation rel, const StringInfoData *text)
{
	uint32 version;
	int len = -1;
	GpuScanExpression now;
	GpuScanExpression then;
	Expr *expr;

	if (sscanf(text->data, HEADER "%n", &version, &len) != 1 || len < 0 ||
		version != CATALOG_VERSION_NO)
		return NULL;
	expr = stringToNode(text->data + len);
	fix_opfuncids((Node *) expr);
	if (!gpuscan_value_of_rows(expr, 1) ||
		foreign_column_walker((Node *) expr, RelationGetDescr(rel)) ||
		dropped_collation_walker((Node *) expr, NULL))
		return NULL;
	gpuscan_identity_hash(text, then.identity);
	gpuscan_identity_set(rel, expr, &now);
	return memcmp(now.identity, then.identity, sizeof(now.identity)) == 0 ? expr : NULL;
}

void
gpuscan_identity_name(Relation rel, Expr *expr, GpuScanExpression *expression)
{
	static const char dots[] = "...";
	List *names = deparse_context_for(RelationGetRelationName(rel), RelationGetRelid(rel));
	char *text = deparse_expression((Node *) expr, names, false, false);
	int len = strlen(text);

	if (len >= (int) sizeof(expression->text))
	{
		len = pg_mbcliplen(text, len, sizeof(expression->text) - sizeof(dots));
		memcpy(expression->text + len, dots, sizeof(dots));
	}
	memcpy(expression->text, text, len);
	pfree(text);
}
