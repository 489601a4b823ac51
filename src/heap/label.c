/*-------------------------------------------------------------------------
 *
 * label.c
 *	  The security labels that keep a table out of the cache, or in it.
 *
 *		SECURITY LABEL FOR gpuscan ON TABLE t IS 'never cache'
 *
 * A label is the owner's to set, and pg_dump writes it.  A partition without one
 * has its parent's.
 *
 * Labels have no syscache.  So what was read of pg_seclabel is kept for each
 * relation until its relcache entry is invalidated, which setting a label does
 * too: it costs a query some hash lookups.  A partition's entry names its parent
 * instead of having the parent's label, so that each is invalidated by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/heap.h"

#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "commands/seclabel.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define PROVIDER "gpuscan"

typedef struct LabelEntry
{
	Oid relid;
	GpuScanLabel label;
	Oid parent; /* of a partition */
} LabelEntry;

static const char *const label_texts[] = {
	[GPUSCAN_LABEL_NEVER] = "never cache",
	[GPUSCAN_LABEL_ALWAYS] = "always cache",
};

static HTAB *labels = NULL;
static uint64 invalidations = 0;

static GpuScanLabel
parse_label(const char *text)
{
	for (int i = GPUSCAN_LABEL_NEVER; text != NULL && i < (int) lengthof(label_texts); i++)
	{
		if (strcmp(text, label_texts[i]) == 0)
			return i;
	}
	return GPUSCAN_LABEL_NONE;
}

/* Called by SECURITY LABEL, for the owner; text NULL removes the label. */
static void
check_label(const ObjectAddress *object, const char *text)
{
	char relkind = object->classId == RelationRelationId && object->objectSubId == 0
					   ? get_rel_relkind(object->objectId)
					   : '\0';

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		relkind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("gpuscan has security labels for tables and materialized views only"),
				 errdetail("A label says whether columns of the relation are cached.")));
	if (text != NULL && parse_label(text) == GPUSCAN_LABEL_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is not a security label of gpuscan", text),
				 errdetail("The labels are \"never cache\" and \"always cache\"."),
				 errhint("IS NULL removes a label: what is read is cached while there is room.")));
	CacheInvalidateRelcacheByRelid(object->objectId);
}

void
gpuscan_heap_register_labels(void)
{
	register_label_provider(PROVIDER, check_label);
}

static void
on_invalidation(Datum arg pg_attribute_unused(), Oid relid)
{
	HASH_SEQ_STATUS status;
	LabelEntry *entry;

	invalidations++;
	if (OidIsValid(relid))
	{
		(void) hash_search(labels, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&status, labels);
	while ((entry = hash_seq_search(&status)) != NULL)
		(void) hash_search(labels, &entry->relid, HASH_REMOVE, NULL);
}

static void
make_hash(void)
{
	HASHCTL ctl = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(LabelEntry),
		.hcxt = CacheMemoryContext,
	};

	labels = hash_create("gpuscan labels", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(on_invalidation, (Datum) 0);
}

static LabelEntry
read_entry(Oid relid)
{
	LabelEntry entry = {.relid = relid, .parent = InvalidOid};
	ObjectAddress object;
	char *text;

	ObjectAddressSet(object, RelationRelationId, relid);
	text = GetSecurityLabel(&object, PROVIDER);
	entry.label = parse_label(text);
	if (text != NULL)
		pfree(text);
	if (get_rel_relispartition(relid))
	{
		/* an ancestor is not locked: it may be no partition any more */
		List *ancestors = get_partition_ancestors(relid);

		if (ancestors != NIL)
			entry.parent = linitial_oid(ancestors);
		list_free(ancestors);
	}
	return entry;
}

static LabelEntry
get_entry(Oid relid)
{
	const LabelEntry *known;
	LabelEntry entry;
	uint64 before;

	if (labels == NULL)
		make_hash();
	known = hash_search(labels, &relid, HASH_FIND, NULL);
	if (known != NULL)
		return *known;

	/* What was read while it changed is not kept. */
	before = invalidations;
	entry = read_entry(relid);
	if (invalidations == before)
		*(LabelEntry *) hash_search(labels, &relid, HASH_ENTER, NULL) = entry;
	return entry;
}

GpuScanLabel
gpuscan_heap_label(Relation rel)
{
	LabelEntry entry = get_entry(RelationGetRelid(rel));

	while (entry.label == GPUSCAN_LABEL_NONE && OidIsValid(entry.parent))
		entry = get_entry(entry.parent);
	return entry.label;
}
