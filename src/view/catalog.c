/*
 * catalog.c
 *	  Rows of aion.view_def, and of the state tables as far as views own them.
 *
 * They are read under a catalog snapshot, so that what counts is what is in
 * force now and not what a transaction's snapshot shows, except by view_list(),
 * which the scheduler calls in its pass and which follows the pass's snapshot.
 * They are written at heap level: the user who creates a view has no rights on
 * them.  Rows of aion.view_def are changed under ShareUpdateExclusiveLock, or
 * stronger, on the view.
 *
 * Dropping a view takes away its row of view_def alone.  Its window rows are
 * the scheduler's and the executors' to write: removing them in a user's
 * transaction would make those wait for its end, or deadlock.  They go by
 * view_forget_dropped() after the drop has been committed; a crash between
 * leaves rows that nobody looks at, until the next call.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/dependency.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "stream/extension.h"
#include "stream/stream.h"
#include "view/plain_index.h"
#include "view/view_internal.h"

/*
 * True if this database has aion's tables, and they are the extension's: to
 * be asked by hooks, which run whether or not it is installed.
 */
bool
view_catalog_exists(void)
{
	Oid			relid = extension_relation("view_def");
	Oid			extension;

	if (!OidIsValid(relid))
		return false;
	extension = get_extension_oid("aion", true);
	return OidIsValid(extension) &&
		getExtensionOfObject(RelationRelationId, relid) == extension;
}

/* The row in memory. Palloc'd. */
static ViewRow *
row_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	ViewRow    *row = palloc0(sizeof(ViewRow));
	Datum		values[VIEW_DEF_NATTS];
	bool		nulls[VIEW_DEF_NATTS];
	Datum	   *settings;
	int			nsettings;

	if (desc->natts != VIEW_DEF_NATTS)
		elog(ERROR, "aion.view_def has %d columns instead of %d", desc->natts, VIEW_DEF_NATTS);
	heap_deform_tuple(tuple, desc, values, nulls);
	row->view = DatumGetObjectId(values[VIEW_DEF_VIEW - 1]);
	row->stream = DatumGetObjectId(values[VIEW_DEF_STREAM - 1]);
	row->definition = DatumGetObjectId(values[VIEW_DEF_DEFINITION - 1]);
	row->results = DatumGetObjectId(values[VIEW_DEF_RESULTS - 1]);
	row->window.size = DatumGetInt64(values[VIEW_DEF_WINDOW_SIZE - 1]);
	row->window.slide = DatumGetInt64(values[VIEW_DEF_WINDOW_SLIDE - 1]);
	row->window.origin = DatumGetTimestampTz(values[VIEW_DEF_WINDOW_ORIGIN - 1]);
	if (!nulls[VIEW_DEF_EARLY - 1])
	{
		row->early = palloc(sizeof(Interval));
		*row->early = *DatumGetIntervalP(values[VIEW_DEF_EARLY - 1]);
	}
	if (!nulls[VIEW_DEF_ALLOWED_LATENESS - 1])
		row->allowed_lateness = TextDatumGetCString(values[VIEW_DEF_ALLOWED_LATENESS - 1]);
	row->staleness = nulls[VIEW_DEF_STALENESS - 1] ? -1 : DatumGetFloat8(values[VIEW_DEF_STALENESS - 1]);
	if (!nulls[VIEW_DEF_RETAIN - 1])
	{
		row->retain = palloc(sizeof(Interval));
		*row->retain = *DatumGetIntervalP(values[VIEW_DEF_RETAIN - 1]);
	}
	row->backfill = DatumGetBool(values[VIEW_DEF_BACKFILL - 1]);
	row->paused = DatumGetBool(values[VIEW_DEF_PAUSED - 1]);

	deconstruct_array(DatumGetArrayTypeP(values[VIEW_DEF_SETTINGS - 1]),
					  TEXTOID, -1, false, TYPALIGN_INT, &settings, NULL, &nsettings);
	for (int i = 0; i < nsettings; i++)
		row->settings = lappend(row->settings, TextDatumGetCString(settings[i]));
	return row;
}

/* The tuple of a row, for "desc". */
static HeapTuple
tuple_from_row(const ViewRow *row, TupleDesc desc)
{
	Datum		values[VIEW_DEF_NATTS];
	bool		nulls[VIEW_DEF_NATTS] = {false};
	Datum	   *settings = palloc(sizeof(Datum) * Max(list_length(row->settings), 1));
	int			nsettings = 0;
	ListCell   *lc;

	foreach(lc, row->settings)
		settings[nsettings++] = CStringGetTextDatum((char *) lfirst(lc));

	values[VIEW_DEF_VIEW - 1] = ObjectIdGetDatum(row->view);
	values[VIEW_DEF_STREAM - 1] = ObjectIdGetDatum(row->stream);
	values[VIEW_DEF_DEFINITION - 1] = ObjectIdGetDatum(row->definition);
	values[VIEW_DEF_RESULTS - 1] = ObjectIdGetDatum(row->results);
	values[VIEW_DEF_WINDOW_SIZE - 1] = Int64GetDatum(row->window.size);
	values[VIEW_DEF_WINDOW_SLIDE - 1] = Int64GetDatum(row->window.slide);
	values[VIEW_DEF_WINDOW_ORIGIN - 1] = TimestampTzGetDatum(row->window.origin);
	nulls[VIEW_DEF_EARLY - 1] = row->early == NULL;
	values[VIEW_DEF_EARLY - 1] = row->early ? IntervalPGetDatum(row->early) : (Datum) 0;
	nulls[VIEW_DEF_ALLOWED_LATENESS - 1] = row->allowed_lateness == NULL;
	values[VIEW_DEF_ALLOWED_LATENESS - 1] = row->allowed_lateness ?
		CStringGetTextDatum(row->allowed_lateness) : (Datum) 0;
	nulls[VIEW_DEF_STALENESS - 1] = row->staleness < 0;
	values[VIEW_DEF_STALENESS - 1] = Float8GetDatum(row->staleness);
	nulls[VIEW_DEF_RETAIN - 1] = row->retain == NULL;
	values[VIEW_DEF_RETAIN - 1] = row->retain ? IntervalPGetDatum(row->retain) : (Datum) 0;
	values[VIEW_DEF_BACKFILL - 1] = BoolGetDatum(row->backfill);
	values[VIEW_DEF_PAUSED - 1] = BoolGetDatum(row->paused);
	values[VIEW_DEF_SETTINGS - 1] =
		PointerGetDatum(construct_array(settings, nsettings, TEXTOID, -1, false, TYPALIGN_INT));
	return heap_form_tuple(desc, values, nulls);
}

/* The row of a view; NULL if it is no continuous view. Palloc'd. */
ViewRow *
view_row_read(Oid view)
{
	ExtensionScan scan;
	HeapTuple	tuple;
	ViewRow    *row = NULL;

	if (!extension_scan_begin(&scan, "view_def", "view_def_pkey",
							  VIEW_DEF_VIEW, view, AccessShareLock))
		return NULL;
	tuple = extension_scan_next(&scan);
	if (HeapTupleIsValid(tuple))
		row = row_from_tuple(tuple, RelationGetDescr(scan.rel));
	extension_scan_end(&scan);
	return row;
}

/* The rows of all views over a stream. Palloc'd list of ViewRow. */
List *
view_rows_of_stream(Oid stream)
{
	ExtensionScan scan;
	HeapTuple	tuple;
	List	   *rows = NIL;

	if (!extension_scan_begin(&scan, "view_def", "view_def_stream",
							  VIEW_DEF_STREAM, stream, AccessShareLock))
		return NIL;
	while (HeapTupleIsValid(tuple = extension_scan_next(&scan)))
		rows = lappend(rows, row_from_tuple(tuple, RelationGetDescr(scan.rel)));
	extension_scan_end(&scan);
	return rows;
}

/* True if the relation holds the query of a continuous view. */
bool
view_is_definition(Oid relid)
{
	ExtensionScan scan;
	bool		result;

	/* no index: there is one row per view, and the question is rare */
	if (!extension_scan_begin(&scan, "view_def", "(none)", VIEW_DEF_DEFINITION, relid, AccessShareLock))
		return false;
	result = HeapTupleIsValid(extension_scan_next(&scan));
	extension_scan_end(&scan);
	return result;
}

/* How often the relation is a continuous view or a part of one. */
int
view_uses_of_relation(Oid relid)
{
	static const AttrNumber columns[] = {VIEW_DEF_VIEW, VIEW_DEF_DEFINITION, VIEW_DEF_RESULTS};
	int			uses = 0;

	for (int i = 0; i < lengthof(columns); i++)
	{
		ExtensionScan scan;

		if (!extension_scan_begin(&scan, "view_def", "(none)", columns[i], relid, AccessShareLock))
			return 0;
		while (HeapTupleIsValid(extension_scan_next(&scan)))
			uses++;
		extension_scan_end(&scan);
	}
	return uses;
}

/* True if the view's row was made by the current transaction. */
bool
view_created_here(Oid view)
{
	ExtensionScan scan;
	HeapTuple	tuple;
	bool		result = false;

	if (!extension_scan_begin(&scan, "view_def", "view_def_pkey",
							  VIEW_DEF_VIEW, view, AccessShareLock))
		return false;
	tuple = extension_scan_next(&scan);
	if (HeapTupleIsValid(tuple))
		result = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	extension_scan_end(&scan);
	return result;
}

/* Adds a row to aion.view_def; visible to this transaction afterwards. */
void
view_row_insert(const ViewRow *row)
{
	Relation	rel = table_open(extension_relation("view_def"), RowExclusiveLock);
	CatalogIndexState indexes = plain_indexes_open(rel);

	CatalogTupleInsertWithInfo(rel, tuple_from_row(row, RelationGetDescr(rel)), indexes);
	CatalogCloseIndexes(indexes);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/* Replaces the row of row->view, which exists. The caller holds the lock of the file comment. */
void
view_row_update(const ViewRow *row)
{
	ExtensionScan scan;
	CatalogIndexState indexes;
	HeapTuple	old = NULL;
	HeapTuple	new;

	if (extension_scan_begin(&scan, "view_def", "view_def_pkey",
							 VIEW_DEF_VIEW, row->view, RowExclusiveLock))
		old = extension_scan_next(&scan);
	if (!HeapTupleIsValid(old))
		elog(ERROR, "aion.view_def has no row of view %u", row->view);
	new = tuple_from_row(row, RelationGetDescr(scan.rel));
	indexes = plain_indexes_open(scan.rel);
	CatalogTupleUpdateWithInfo(scan.rel, &old->t_self, new, indexes);
	CatalogCloseIndexes(indexes);
	extension_scan_end(&scan);
	CommandCounterIncrement();
}

/* Deletes the rows of "view" from one of aion's tables. Returns whether there were any. */
static bool
delete_rows(const char *table, const char *index, Oid view)
{
	ExtensionScan scan;
	HeapTuple	tuple;
	bool		any = false;

	if (!extension_scan_begin(&scan, table, index, 1, view, RowExclusiveLock))
		return false;
	while (HeapTupleIsValid(tuple = extension_scan_next(&scan)))
	{
		CHECK_FOR_INTERRUPTS();
		CatalogTupleDelete(scan.rel, &tuple->t_self);
		any = true;
	}
	extension_scan_end(&scan);
	return any;
}

/* Deletes the row of a view that is being dropped; false if it was no continuous view. */
bool
view_row_delete(Oid view)
{
	return delete_rows("view_def", "view_def_pkey", view);
}

/*
 * Deletes all that is known of a view's windows, and that it was taken up. The caller
 * holds a lock on the stream that keeps scheduler and executors out.
 */
void
view_state_delete(Oid view)
{
	delete_rows("window_state", "window_state_pkey", view);
	delete_rows("window_firing", "window_firing_pkey", view);
	delete_rows("view_state", "view_state_pkey", view);
}

/*
 * Deletes the window rows of views that were dropped: no relation has their OID any more. A view that is
 * being restored has none in aion.view_def either, if that comes after its window rows. For the scheduler, in a
 * transaction of its own or in its pass, after it saw that definitions changed.
 */
void
view_forget_dropped(void)
{
	static const char *const tables[] = {"window_state", "window_firing", "view_state"};

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	for (int i = 0; i < lengthof(tables); i++)
	{
		char	   *sql = psprintf("DELETE FROM aion.%s s"
								   " WHERE NOT EXISTS (SELECT FROM aion.view_def d WHERE d.view = s.view)"
								   " AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = s.view)",
								   tables[i]);

		if (SPI_execute(sql, false, 0) != SPI_OK_DELETE)
			elog(ERROR, "could not delete from aion.%s", tables[i]);
	}
	SPI_finish();
}

/*
 * Takes views that were dropped out of what copies of set-aside events say that they missed, and deletes copies that nothing
 * missed any more: the OID may be given to another view, here or where a dump is restored. For the scheduler, as
 * above; "streams" (OIDs) are locked, so that nobody else changes these rows.
 */
void
view_forget_missed(List *streams)
{
	static const char *const statements[] = {
		"DELETE FROM aion.set_aside s WHERE s.missed_views IS NOT NULL AND s.stream = ANY ($1)"
		" AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = ANY (s.missed_views::pg_catalog.oid[]))",
		"UPDATE aion.set_aside s SET (missed_views, missed_first, missed_last) ="
		" (SELECT pg_catalog.array_agg(v ORDER BY n), pg_catalog.array_agg(f ORDER BY n), pg_catalog.array_agg(l ORDER BY n)"
		"  FROM unnest(s.missed_views, s.missed_first, s.missed_last) WITH ORDINALITY u (v, f, l, n)"
		"  WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = u.v))"
		" WHERE s.stream = ANY ($1) AND EXISTS (SELECT FROM pg_catalog.unnest(s.missed_views) v"
		"  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = v))"
	};
	Oid			types[] = {OIDARRAYOID};
	Datum	   *oids = palloc(sizeof(Datum) * Max(list_length(streams), 1));
	Datum		values[1];

	for (int i = 0; i < list_length(streams); i++)
		oids[i] = ObjectIdGetDatum(list_nth_oid(streams, i));
	values[0] = PointerGetDatum(construct_array(oids, list_length(streams), OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	for (int i = 0; i < lengthof(statements); i++)
		if (SPI_execute_with_args(statements[i], 1, types, values, NULL, false, 0) < 0)
			elog(ERROR, "could not change aion.set_aside");
	SPI_finish();
}

/* An allowed lateness as text; errors out on a bad one, as the stream's option of that name does. */
Lateness
view_lateness(const char *text)
{
	StreamOptions options;

	stream_parse_options(list_make2(makeDefElem("event_time", (Node *) makeString("-"), -1),
									makeDefElem("allowed_lateness", (Node *) makeString(pstrdup(text)), -1)),
						 &options);
	return options.allowed_lateness;
}

/* How long results are retained; NULL: for ever. */
static Lateness
retain_span(const Interval *retain)
{
	Lateness	span = {.unlimited = retain == NULL};

	if (retain != NULL)
	{
		span.months = retain->month;
		span.days = retain->day;
		span.usecs = retain->time;
	}
	return span;
}

/*
 * The row with the stream's defaults applied; NULL if a relation of it is gone, or the
 * stream is locked: the scheduler, which holds locks on others, must not wait for it.
 */
static ContinuousView *
complete_row(const ViewRow *row)
{
	ContinuousView *view;
	const StreamInfo *stream;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->view)) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->definition)) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->results)))
		return NULL;
	view = palloc0(sizeof(ContinuousView));
	if (row->allowed_lateness)
		view->allowed_lateness = view_lateness(row->allowed_lateness);
	if (!ConditionalLockRelationOid(row->stream, AccessShareLock))
		return NULL;
	stream = stream_lookup(row->stream, true);
	if (stream == NULL)
		return NULL;
	if (!row->allowed_lateness)
		view->allowed_lateness = stream->options.allowed_lateness;
	view->view = row->view;
	view->stream = row->stream;
	view->definition = row->definition;
	view->results = row->results;
	view->window = row->window;
	if (row->early && !view_interval_usecs(row->early, &view->early))
		view->early = 0;
	view->staleness = row->staleness;
	view->retain = retain_span(row->retain);
	view->backfill = row->backfill;
	view->paused = row->paused;
	return view;
}

/* All continuous views of this database whose relations exist, under the active snapshot. */
List *
view_list(void)
{
	Oid			relid = extension_relation("view_def");
	List	   *rows = NIL;
	List	   *views = NIL;
	ListCell   *lc;
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(relid))
		return NIL;
	rel = table_open(relid, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, GetActiveSnapshot(), 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, row_from_tuple(tuple, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	foreach(lc, rows)
	{
		ContinuousView *view = complete_row(lfirst(lc));

		if (view != NULL)
			views = lappend(views, view);
	}
	return views;
}
