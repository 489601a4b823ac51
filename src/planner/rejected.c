/*-------------------------------------------------------------------------
 *
 * rejected.c
 *	  Why something was not offloaded, from the planner to EXPLAIN.
 *
 * The list is kept only while gpuscan.explain_rejected is on, in a context of
 * its own that each EXPLAIN empties first.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include "nodes/value.h"
#include "planner/planner.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static MemoryContext context = NULL;
static List *notes = NIL;

void
gpuscan_rejected_reset(void)
{
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "gpuscan rejected", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(context);
	notes = NIL;
}

/* Adds a line unless it is there: a subquery can be planned more than once. */
void
gpuscan_rejected_note(const char *node, Oid relid, const char *reason)
{
	MemoryContext old;
	String *note;

	if (!gpuscan_explain_rejected || context == NULL)
		return;
	old = MemoryContextSwitchTo(context);
	note = makeString(psprintf("%s on %s: %s", node, get_rel_name(relid), reason));
	if (!list_member(notes, note))
		notes = lappend(notes, note);
	MemoryContextSwitchTo(old);
}

void
gpuscan_rejected_note_cost(const char *node, Oid relid, const Path *ours, const Path *theirs)
{
	if (gpuscan_explain_rejected && !gpuscan_force && ours->total_cost >= theirs->total_cost)
		gpuscan_rejected_note(node, relid,
							  psprintf("it would cost %.2f, PostgreSQL's own plan costs %.2f",
									   ours->total_cost, theirs->total_cost));
}

/* The lines, as String nodes, in the order of planning. */
List *
gpuscan_rejected_list(void)
{
	return notes;
}
