/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  What a device must know of a relation to decode its tuples.
 *
 * A GpuScanLayout is one piece of flat memory:
 *
 *		header | attributes | columns | missing values and expressions
 *
 * Attributes end with the last that the Program reads.  Dropped ones still lie
 * in old tuples, so they keep their place with their length and alignment.
 * Expressions are attributes behind the relation's own.
 *
 * A tuple that is older than ALTER TABLE ADD COLUMN ... DEFAULT ends before the
 * new attribute, whose value then is the catalog's missing value.  Each is
 * stored here as a tuple would hold it, at a MAXALIGN'ed offset, which suits
 * any alignment that an attribute can ask for.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/heap.h"

#include "access/tupmacs.h"
#include "nodes/nodeFuncs.h"
#include "program/identity.h"
#include "utils/datum.h"

static uint8
align_bytes(char attalign)
{
	switch (attalign)
	{
		case TYPALIGN_CHAR:
			return 1;
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT;
		case TYPALIGN_INT:
			return ALIGNOF_INT;
		default:
			Assert(attalign == TYPALIGN_DOUBLE);
			return ALIGNOF_DOUBLE;
	}
}

TupleDesc
gpuscan_heap_descriptor(Relation rel, List *expressions)
{
	TupleDesc relation = RelationGetDescr(rel);
	TupleDesc desc = CreateTemplateTupleDesc(relation->natts + list_length(expressions));
	ListCell *lc;

	for (int i = 1; i <= relation->natts; i++)
		TupleDescCopyEntry(desc, (AttrNumber) i, relation, (AttrNumber) i);
	foreach(lc, expressions)
		TupleDescInitEntry(desc, relation->natts + 1 + foreach_current_index(lc), NULL,
						   exprType(lfirst(lc)), -1, 0);
	return desc;
}

GpuScanLayout *
gpuscan_heap_layout(Relation rel, const AttrNumber *attnums, int ncolumns, List *expressions)
{
	TupleDesc relation = RelationGetDescr(rel);
	TupleDesc desc =
		expressions != NIL ? gpuscan_heap_descriptor(rel, expressions) : RelationGetDescr(rel);
	int natts = 0;
	Size attrs_offset = MAXALIGN(sizeof(GpuScanLayout));
	Size columns_offset;
	Size size;
	GpuScanLayout *layout;
	GpuScanAttr *attrs;
	GpuScanColumn *columns;
	Datum *values = palloc(sizeof(Datum) * Max(ncolumns, 1));

	for (int i = 0; i < ncolumns; i++)
		natts = Max(natts, attnums[i]);

	/* Where everything goes */
	columns_offset = attrs_offset + MAXALIGN(sizeof(GpuScanAttr) * natts);
	size = columns_offset + MAXALIGN(sizeof(GpuScanColumn) * ncolumns);
	columns = palloc0(sizeof(GpuScanColumn) * Max(ncolumns, 1));
	for (int i = 0; i < ncolumns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attnums[i] - 1);

		Assert(!att->attisdropped);
		columns[i].attnum = attnums[i] - 1;
		if (attnums[i] > relation->natts)
		{
			columns[i].expression = size;
			size += MAXALIGN(sizeof(GpuScanExpression));
		}
		else if (gpuscan_identity_missing(relation, attnums[i] - 1, &values[i]))
		{
			columns[i].missing = size;
			size += MAXALIGN(datumGetSize(values[i], att->attbyval, att->attlen));
		}
	}

	layout = palloc0(size);
	layout->size = size;
	layout->natts = natts;
	layout->ncolumns = ncolumns;
	layout->attrs = attrs_offset;
	layout->columns = columns_offset;

	attrs = (GpuScanAttr *) ((char *) layout + attrs_offset);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		attrs[i].len = att->attlen;
		attrs[i].align = align_bytes(att->attalign);
		attrs[i].column = -1;
	}

	for (int i = 0; i < ncolumns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, columns[i].attnum);
		char *missing = (char *) layout + columns[i].missing;

		Assert(attrs[columns[i].attnum].column == -1);
		attrs[columns[i].attnum].column = i;
		if (columns[i].expression != 0)
		{
			Expr *expr = list_nth(expressions, columns[i].attnum - relation->natts);
			GpuScanExpression *to = (GpuScanExpression *) ((char *) layout + columns[i].expression);

			gpuscan_identity_set(rel, expr, to);
			gpuscan_identity_name(rel, expr, to);
		}
		if (columns[i].missing == 0)
			continue;
		if (att->attbyval)
			store_att_byval(missing, values[i], att->attlen);
		else
			memcpy(missing, DatumGetPointer(values[i]),
				   datumGetSize(values[i], false, att->attlen));
	}
	memcpy((char *) layout + columns_offset, columns, sizeof(GpuScanColumn) * ncolumns);

	if (desc != relation)
		FreeTupleDesc(desc);
	pfree(columns);
	pfree(values);
	return layout;
}
