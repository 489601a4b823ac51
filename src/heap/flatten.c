/*-------------------------------------------------------------------------
 *
 * flatten.c
 *	  Tuples that a device cannot decode, made so that it can.
 *
 * A device defers a tuple in which a needed value is compressed or out of line.
 * We hand it back as a tuple of the same layout in which the needed values are
 * plain, and nothing else is there: attributes that the Program does not read
 * are NULL, so that a large one is not fetched, or copied, in vain.  Attributes
 * that the tuple is too short for get their missing value on the way.
 *
 * The page must be pinned and the tuple visible to the active snapshot, which
 * keeps its TOAST chunks in place.
 *
 *-------------------------------------------------------------------------
 */
#include "heap/heap.h"

#include "access/htup_details.h"
#include "fmgr.h"

HeapTuple
gpuscan_heap_form(TupleDesc desc, const Datum *values, const bool *isnull,
				  const AttrNumber *attnums, int ncolumns)
{
	Datum *plain = palloc0(sizeof(Datum) * desc->natts);
	bool *leave_out = palloc(sizeof(bool) * desc->natts);
	HeapTuple result;

	memset(leave_out, true, sizeof(bool) * desc->natts);
	for (int i = 0; i < ncolumns; i++)
	{
		int att = attnums[i] - 1;

		leave_out[att] = isnull[att];
		if (isnull[att])
			continue;
		plain[att] = values[att];
		if (TupleDescAttr(desc, att)->attlen == -1)
			plain[att] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(values[att]));
	}
	result = heap_form_tuple(desc, plain, leave_out);

	for (int i = 0; i < ncolumns; i++)
	{
		int att = attnums[i] - 1;

		if (!leave_out[att] && plain[att] != values[att])
			pfree(DatumGetPointer(plain[att]));
	}
	pfree(plain);
	pfree(leave_out);
	return result;
}

HeapTuple
gpuscan_heap_flatten(Relation rel, Page page, OffsetNumber offset, const AttrNumber *attnums,
					 int ncolumns)
{
	TupleDesc desc = RelationGetDescr(rel);
	ItemId lp = PageGetItemId(page, offset);
	Datum *values = palloc(sizeof(Datum) * desc->natts);
	bool *isnull = palloc(sizeof(bool) * desc->natts);
	HeapTupleData tuple;
	HeapTuple result;

	Assert(ItemIdIsNormal(lp));
	tuple.t_data = (HeapTupleHeader) PageGetItem(page, lp);
	tuple.t_len = ItemIdGetLength(lp);
	tuple.t_tableOid = RelationGetRelid(rel);
	ItemPointerSetInvalid(&tuple.t_self);
	heap_deform_tuple(&tuple, desc, values, isnull);
	result = gpuscan_heap_form(desc, values, isnull, attnums, ncolumns);
	pfree(values);
	pfree(isnull);
	return result;
}
