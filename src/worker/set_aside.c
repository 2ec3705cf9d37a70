/*
 * set_aside.c
 *	  Reading aion.set_aside by id, without SPI. Nothing is written here.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "stream/extension.h"
#include "worker/set_aside.h"
#include "worker/table_row.h"

/* Columns of aion.set_aside. */
#define SET_ASIDE_ID		1
#define SET_ASIDE_STREAM	2
#define SET_ASIDE_EVENT		4

struct SetAsideTable
{
	Relation	rel;
	Oid			index;			/* InvalidOid: none, by which it would be slow */
	Snapshot	snapshot;
};

SetAsideTable *
set_aside_open(Snapshot snapshot)
{
	Relation	rel = table_row_open("set_aside", AccessShareLock, true);
	SetAsideTable *table;

	if (rel == NULL)
		return NULL;
	table = palloc(sizeof(SetAsideTable));
	table->rel = rel;
	table->index = extension_relation("set_aside_pkey");
	table->snapshot = RegisterSnapshot(snapshot);
	return table;
}

void
set_aside_close(SetAsideTable *table)
{
	UnregisterSnapshot(table->snapshot);
	table_close(table->rel, AccessShareLock);
	pfree(table);
}

/* Begins a scan for one id; *tuple is its row, valid until the scan is ended, or NULL. */
static SysScanDesc
find_row(SetAsideTable *table, int64 id, HeapTuple *tuple)
{
	ScanKeyData key;
	SysScanDesc scan;

	ScanKeyInit(&key, SET_ASIDE_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = systable_beginscan(table->rel, table->index, OidIsValid(table->index), table->snapshot, 1, &key);
	*tuple = systable_getnext(scan);
	return scan;
}

/* A column of a row; none of those that are read here is null. */
static Datum
row_column(SetAsideTable *table, HeapTuple tuple, int column)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column, RelationGetDescr(table->rel), &isnull);

	Assert(!isnull);
	return value;
}

Oid
set_aside_stream(SetAsideTable *table, int64 id)
{
	HeapTuple	tuple;
	SysScanDesc scan = find_row(table, id, &tuple);
	Oid			stream = HeapTupleIsValid(tuple) ?
		DatumGetObjectId(row_column(table, tuple, SET_ASIDE_STREAM)) : InvalidOid;

	systable_endscan(scan);
	return stream;
}

Event *
set_aside_event(SetAsideTable *table, int64 id)
{
	HeapTuple	tuple;
	SysScanDesc scan = find_row(table, id, &tuple);
	Event	   *event = NULL;

	if (HeapTupleIsValid(tuple))
	{
		Datum		column = row_column(table, tuple, SET_ASIDE_EVENT);
		struct varlena *packed = DatumGetByteaPP(column);
		Size		size = VARSIZE_ANY_EXHDR(packed);

		event = palloc(Max(size, sizeof(Event)));
		memcpy(event, VARDATA_ANY(packed), size);
		if (size < sizeof(Event) || event->length > size)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("event " INT64_FORMAT " that was set aside is damaged", id)));
		/* a copy if it was compressed or out of line */
		if ((Pointer) packed != DatumGetPointer(column))
			pfree(packed);
	}
	systable_endscan(scan);
	return event;
}
