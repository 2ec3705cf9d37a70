/*
 * adopt.c
 *	  Streams that came with a dump: taking them over.
 *
 * A dump holds a stream as ordinary tables, rows of aion's tables and
 * definitions. What it can't hold is made here: the dependencies of these on each
 * other, and transaction ids that mean something in this cluster. Until then the
 * stream, whose entry names another database as its home, can be read but not
 * written to, and workers leave it alone.
 *
 * A restore, also a parallel one, refreshes materialized views when all else is
 * done. One of them is aion's; the transaction that refreshes it takes over the
 * streams that are there. A restore that does not get so far leaves them as
 * they are, one that is rolled back leaves none.
 *
 * Dependencies are recorded before that, as soon as the rows are there that tell of them: a stream or a view
 * that is dropped half-way takes its parts with it.
 *
 * pg_upgrade copies all files and keeps OIDs and transaction ids, so streams are at
 * home in the new cluster. It loses the dependencies, though: the scheduler asks
 * for them when it loads a stream.
 *
 * Lock order: the stream, its tables, its views.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "debug_point.h"
#include "store/arrivals.h"
#include "stream/extension.h"
#include "stream/registry.h"

/* True if a table that the stream's row names is a part of no other stream: its own could not be made under that name. */
static bool
is_own_table(Oid table)
{
	return list_length(registry_users_of_table(table)) == 1 && get_rel_relkind(table) == RELKIND_RELATION;
}

static void
check_own_table(Oid relid, Oid table)
{
	if (!is_own_table(table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" was not restored as a part of stream \"%s\"",
						get_rel_name(table), get_rel_name(relid)),
				 errdetail("It is of another kind, or a part of another stream as well."),
				 errhint("Restore into a database where schema aion_data has nothing of that name.")));
}

/* See stream.h. */
bool
stream_tie(Oid relid, TieTime time)
{
	RegistryEntry entry;

	if (!registry_read(relid, &entry) || !entry.exists)
		return true;
	if (time == TIE_RESTORED)
	{
		check_own_table(relid, entry.journal);
		check_own_table(relid, entry.blocks);
	}
	else if (time == TIE_RESTORING && !(is_own_table(entry.journal) && is_own_table(entry.blocks)))
		return true;
	if (storage_tie(relid, &entry))
		CommandCounterIncrement();
	return stream_tie_hook == NULL || stream_tie_hook(relid, time);
}

PG_FUNCTION_INFO_V1(aion_tie_restored);

/*
 * aion.tie_restored(), a trigger function: after a row of a stream or a view was inserted. Parallel restores fill the two tables
 * at the same time: they take turns here, so that the second one sees what the first one brought.
 */
Datum
aion_tie_restored(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	RegistryEntry entry;
	TupleDesc	desc;
	Oid			stream;
	bool		isnull;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"aion.tie_restored\" was not called by a trigger for a row")));
	desc = RelationGetDescr(data->tg_relation);
	stream = DatumGetObjectId(SPI_getbinval(data->tg_trigtuple, desc, SPI_fnumber(desc, "stream"), &isnull));
	CommandCounterIncrement();
	if (registry_read(stream, &entry) && !entry.elsewhere)
		return PointerGetDatum(NULL);	/* made here */
	LockRelationOid(extension_relation("restored"), ShareUpdateExclusiveLock);
	/* who has locked the stream is dropping it, or is in no restore */
	if (registry_read(stream, &entry) && entry.elsewhere && ConditionalLockRelationOid(stream, AccessShareLock))
		(void) stream_tie(stream, TIE_RESTORING);
	return PointerGetDatum(NULL);
}

/* Gives a table of the stream the owner that it would have had, had it been made here. */
static void
adopt_table(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	if (owner != GetUserId())
		ATExecChangeOwner(relid, GetUserId(), true, AccessExclusiveLock);
}

/* What the stream's row says is accounted for, by the dump. Palloc'd. */
static char *
restored_set(Oid relid)
{
	Oid			types[] = {REGCLASSOID};
	Datum		values[] = {ObjectIdGetDatum(relid)};

	if (SPI_execute_with_args("SELECT accounted::pg_catalog.text FROM aion.stream_state WHERE stream = $1",
							  1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read aion.stream_state");
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stream \"%s\" was restored without its row in aion.stream_state",
						get_rel_name(relid)),
				 errhint("Restore the data of all tables in schema aion.")));
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

/* Makes the rows of the stream those of one of this database. */
static void
adopt_rows(Oid relid, Oid journal, const char *accounted)
{
	Oid			types[] = {REGCLASSOID, TEXTOID};
	Datum		values[2];

	values[0] = ObjectIdGetDatum(relid);
	values[1] = CStringGetTextDatum(registry_home(journal));
	if (SPI_execute_with_args("UPDATE aion.stream_def SET home = $2 WHERE stream = $1",
							  2, types, values, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not update aion.stream_def");
	values[1] = CStringGetTextDatum(accounted);
	if (SPI_execute_with_args("UPDATE aion.stream_state SET accounted = $2::pg_catalog.pg_snapshot WHERE stream = $1",
							  2, types, values, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not update aion.stream_state");
}

/* Takes over one stream, between extension_begin() and extension_end(). */
static void
adopt_stream(Oid relid)
{
	const StreamInfo *info;
	RegistryEntry entry;
	Accounted  *set;

	LockRelationOid(relid, ShareUpdateExclusiveLock);
	info = stream_lookup(relid, true);
	if (info == NULL || !registry_read(relid, &entry) || !entry.elsewhere)
		return;					/* dropped, or somebody was here before */
	if (!info->has_storage)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stream \"%s\" was restored without its tables", get_rel_name(relid)),
				 errhint("Restore schema aion_data, too.")));
	(void) stream_tie(relid, TIE_RESTORED);
	if (storage_is_doubled(&entry))
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("data of stream \"%s\" was restored more than once", get_rel_name(relid)),
				 errdetail("Its events are there as often."),
				 errhint("Drop the stream, and restore it again.")));
	adopt_table(entry.journal);
	adopt_table(entry.blocks);

	set = accounted_from_text(restored_set(relid));
	PushActiveSnapshot(GetLatestSnapshot());
	set = arrivals_adopt(&info->storage, GetActiveSnapshot(), set);
	PopActiveSnapshot();
	adopt_rows(relid, entry.journal, accounted_to_text(set));
	CacheInvalidateRelcacheByRelid(relid);
	DEBUG_POINT("stream-adopted");
}

/*
 * A dump sets the sequence of ids of set-aside events to where it was when it was made; there may be greater ones
 * here. Not rolled back, which does no harm. No lock keeps a pass from drawing one meanwhile, which would have it wait
 * for this transaction: an id that is taken makes it fail, and begin again.
 */
static void
advance_set_aside_ids(void)
{
	extension_execute("SELECT pg_catalog.setval('aion.set_aside_id_seq', m.id)"
					  " FROM (SELECT pg_catalog.max(id) AS id FROM aion.set_aside) m, aion.set_aside_id_seq s"
					  " WHERE m.id >= s.last_value", SPI_OK_SELECT);
}

/*
 * Takes over all streams that have been restored: after REFRESH MATERIALIZED VIEW aion.restored,
 * in its transaction.
 */
void
adopt_restored(void)
{
	ExtensionSave save;
	List	   *streams = NIL;
	ListCell   *cell;

	CommandCounterIncrement();
	extension_begin(&save);
	if (SPI_execute("SELECT stream FROM aion.stream_def ORDER BY stream::pg_catalog.oid", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read aion.stream_def");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;

		streams = lappend_oid(streams, DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i],
																	  SPI_tuptable->tupdesc, 1, &isnull)));
	}
	foreach(cell, streams)
	{
		RegistryEntry entry;

		if (registry_read(lfirst_oid(cell), &entry) && entry.elsewhere)
			adopt_stream(lfirst_oid(cell));
	}
	advance_set_aside_ids();
	extension_end(&save);
	stream_definitions_changed();
}
