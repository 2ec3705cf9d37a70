/*
 * storage_tables.c
 *	  A stream's tables: journal, p-bucket table, and its rows in aion's own
 *	  tables; making, replacing and dropping them.
 *
 * Both tables belong to the owner of the extension and depend internally on
 * the foreign table: they go with it, can't be dropped without it, and are
 * dumped as any table. That dependency is not in a dump: see adopt.c. Rows in aion's tables (regclass columns carry no
 * dependency) are deleted when the foreign table is dropped: directly, as the
 * server deletes catalog rows, because that works in the middle of DROP ...
 * CASCADE, whatever else is gone already, and under every isolation level.
 *
 * All of it is part of the caller's transaction: rolled back, or lost in a
 * crash before commit, it leaves nothing.
 *
 * Lock order: the stream (held by the caller), then its tables, then rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "debug_point.h"
#include "store/pbucket.h"
#include "stream/extension.h"
#include "stream/registry.h"

/* Column numbers that are read or deleted by here. */
#define STATE_STREAM		1
#define STATE_EVENTS		6
#define LATENESS_STREAM		1
#define ADDED_STREAM		1
#define ASIDE_STREAM		2
#define DEF_STREAM			1

/*
 * What a new stream has accounted for: nothing. Every transaction that can write
 * to its journal has an id from FirstNormalTransactionId on.
 */
#define NOTHING_ACCOUNTED	"3:3:"

/*
 * Bucket of the one row whose loss shows that an unlogged stream lost its events, and of which there are two if
 * they were restored twice.
 */
#define MARKER_BUCKET		"-9223372036854775808"

static const char *const journal_columns =
	"bucket bigint NOT NULL, top xid8 NOT NULL, generation bigint NOT NULL, "
	"first_time bigint NOT NULL, last_time bigint NOT NULL, command int NOT NULL, "
	"flush int NOT NULL, nevents int NOT NULL, events bytea NOT NULL";

static const char *const blocks_columns =
	"bucket bigint NOT NULL, id bigint NOT NULL, first_time bigint NOT NULL, last_time bigint NOT NULL, "
	"nevents int NOT NULL, raw_bytes int NOT NULL, data bytea NOT NULL";

/* A free name in aion_data: prefix_<oid of the stream>, or with a number after it. */
static char *
choose_name(const char *prefix, Oid stream)
{
	Oid			schema = get_namespace_oid("aion_data", false);
	char	   *name = psprintf("%s_%u", prefix, stream);

	for (int i = 1; OidIsValid(get_relname_relid(name, schema)); i++)
		name = psprintf("%s_%u_%d", prefix, stream, i);

	return name;
}

/* Makes one of the tables depend on the stream. False: it does already. */
static bool
tie_table(Oid relid, Oid stream)
{
	ObjectAddress self;
	ObjectAddress owner;

	ObjectAddressSet(self, RelationRelationId, relid);
	ObjectAddressSet(owner, RelationRelationId, stream);
	return extension_record_dependency(&self, &owner, DEPENDENCY_INTERNAL);
}

/*
 * Makes the stream's tables depend on it, as they did where they come from. False: they do
 * already. The caller holds a lock on the stream.
 */
bool
storage_tie(Oid relid, const RegistryEntry *entry)
{
	bool		journal = tie_table(entry->journal, relid);
	bool		blocks = tie_table(entry->blocks, relid);

	return journal || blocks;
}

/* True if the tables were filled by more than one restore. Between extension_begin() and extension_end(). */
bool
storage_is_doubled(const RegistryEntry *entry)
{
	extension_execute(psprintf("SELECT FROM %s WHERE bucket = '" MARKER_BUCKET "'",
							   quote_qualified_identifier(get_namespace_name(get_rel_namespace(entry->blocks)),
														  get_rel_name(entry->blocks))),
					  SPI_OK_SELECT);
	return SPI_processed > 1;
}

/* Creates one of the tables and makes it depend on the stream. Returns its OID. */
static Oid
create_table(Oid stream, const char *name, const char *columns, const char *options,
			 const char *bytea_column, bool durable)
{
	Oid			relid;

	extension_execute(psprintf("CREATE %s TABLE aion_data.%s (%s) WITH (%s)",
							   durable ? "" : "UNLOGGED", name, columns, options),
					  SPI_OK_UTILITY);
	extension_execute(psprintf("ALTER TABLE aion_data.%s ALTER %s SET STORAGE EXTERNAL",
							   name, bytea_column),
					  SPI_OK_UTILITY);
	relid = get_relname_relid(name, get_namespace_oid("aion_data", false));
	(void) tie_table(relid, stream);

	return relid;
}

/* Adds the stream's rows to aion.stream_def and aion.stream_state. */
static void
insert_rows(Oid stream, Oid journal, Oid blocks, int64 bucket_width, bool durable)
{
	Oid			types[] = {REGCLASSOID, TEXTOID, REGCLASSOID, REGCLASSOID, INT8OID, BOOLOID};
	Datum		values[] = {
		ObjectIdGetDatum(stream), CStringGetTextDatum(registry_home(journal)),
		ObjectIdGetDatum(journal), ObjectIdGetDatum(blocks),
		Int64GetDatum(bucket_width), BoolGetDatum(durable)
	};

	if (SPI_execute_with_args("INSERT INTO aion.stream_def"
							  " (stream, home, journal, blocks, bucket_width, durable)"
							  " VALUES ($1, $2, $3, $4, $5, $6)",
							  6, types, values, NULL, false, 0) != SPI_OK_INSERT ||
		SPI_execute_with_args("INSERT INTO aion.stream_state (stream, accounted)"
							  " VALUES ($1, '" NOTHING_ACCOUNTED "')",
							  1, types, values, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not register stream %u", stream);
}

/*
 * Makes the stream's tables and rows. The caller holds ShareUpdateExclusiveLock
 * on the stream or more, and has made sure that there are none.
 */
void
storage_create(Oid relid, int64 bucket_width, bool durable)
{
	ExtensionSave save;
	char	   *journal_name;
	char	   *blocks_name;
	Oid			journal;
	Oid			blocks;

	extension_begin(&save);
	journal_name = choose_name("journal", relid);
	blocks_name = choose_name("blocks", relid);
	journal = create_table(relid, journal_name, journal_columns,
						   "toast_tuple_target = 8160", "events", durable);
	blocks = create_table(relid, blocks_name, blocks_columns,
						  "fillfactor = 100", "data", durable);
	extension_execute(psprintf("CREATE INDEX ON aion_data.%s (bucket)", blocks_name),
					  SPI_OK_UTILITY);
	extension_execute(psprintf("INSERT INTO aion_data.%s"
							   " VALUES ('" MARKER_BUCKET "', 0, 0, 0, 0, 0, '')", blocks_name),
					  SPI_OK_INSERT);
	insert_rows(relid, journal, blocks, bucket_width, durable);
	extension_end(&save);

	CacheInvalidateRelcacheByRelid(relid);
	stream_definitions_changed();
	CommandCounterIncrement();
}

/* Drops one of the stream's tables. */
static void
drop_table(Oid relid, Oid stream)
{
	ObjectAddress self;

	/* Without the dependency: dropping a part would mean dropping the whole. */
	deleteDependencyRecordsForSpecific(RelationRelationId, relid, DEPENDENCY_INTERNAL,
									   RelationRelationId, stream);
	CommandCounterIncrement();
	ObjectAddressSet(self, RelationRelationId, relid);
	performDeletion(&self, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

/*
 * Puts new, empty tables and rows in the place of the stream's, as if it had
 * just been made. The caller holds AccessExclusiveLock on the stream.
 */
void
storage_replace(Oid relid, const RegistryEntry *entry, int64 bucket_width, bool durable)
{
	storage_delete_rows(relid);
	drop_table(entry->journal, relid);
	drop_table(entry->blocks, relid);
	DEBUG_POINT("storage-dropped");
	storage_create(relid, bucket_width, durable);
	DEBUG_POINT("storage-replaced");
}

/* Deletes the rows of aion.<table> whose column "att" is "stream". */
static void
delete_rows(const char *table, const char *index, AttrNumber att, Oid stream)
{
	ExtensionScan scan;
	HeapTuple	tuple;

	if (!extension_scan_begin(&scan, table, index, att, stream, RowExclusiveLock))
		return;
	while ((tuple = extension_scan_next(&scan)) != NULL)
		simple_heap_delete(scan.rel, &tuple->t_self);
	extension_scan_end(&scan);
}

/* Deletes what was recorded of columns added to a stream. Locks as below. */
void
storage_delete_added_columns(Oid relid)
{
	delete_rows("added_column", "added_column_pkey", ADDED_STREAM, relid);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
}

/*
 * Deletes the stream's rows from aion's tables, as far as both exist. The
 * caller holds AccessExclusiveLock on the stream, so that no accounting pass
 * is at work on them, or knows that they are stale.
 */
void
storage_delete_rows(Oid relid)
{
	delete_rows("stream_def", "stream_def_pkey", DEF_STREAM, relid);
	delete_rows("stream_state", "stream_state_pkey", STATE_STREAM, relid);
	delete_rows("stream_lateness", "stream_lateness_pkey", LATENESS_STREAM, relid);
	delete_rows("set_aside", "set_aside_stream", ASIDE_STREAM, relid);
	storage_delete_added_columns(relid);
}

/* True if the table has a row that a new snapshot shows; of blocks, one that holds events. */
static bool
table_has_events(Oid relid, bool blocks)
{
	Relation	rel = table_open(relid, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	bool		found = false;

	while (!found && (tuple = systable_getnext(scan)) != NULL)
		found = !blocks || PBUCKET_ROW(tuple)->nevents > 0;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	return found;
}

/*
 * True if the stream holds committed events, or this transaction may have
 * written some. Exact only under AccessExclusiveLock on the stream.
 */
bool
storage_holds_events(Oid relid, const RegistryEntry *entry)
{
	return stream_transaction_has_written() ||
		table_has_events(entry->journal, false) ||
		table_has_events(entry->blocks, true);
}

/* True if there are packed events of the stream anywhere, set-aside ones included. */
bool
storage_holds_packed(Oid relid, const RegistryEntry *entry)
{
	ExtensionScan scan;
	bool		found;

	if (storage_holds_events(relid, entry))
		return true;
	if (!extension_scan_begin(&scan, "set_aside", "set_aside_stream", ASIDE_STREAM, relid,
							  AccessShareLock))
		return false;
	found = extension_scan_next(&scan) != NULL;
	extension_scan_end(&scan);

	return found;
}

/* True if the stream never held an event since its creation or the last TRUNCATE. */
bool
storage_is_new(Oid relid, const RegistryEntry *entry)
{
	ExtensionScan scan;
	HeapTuple	tuple;
	int64		events = 0;

	if (storage_holds_packed(relid, entry))
		return false;
	if (!extension_scan_begin(&scan, "stream_state", "stream_state_pkey", STATE_STREAM, relid,
							  AccessShareLock))
		return true;
	tuple = extension_scan_next(&scan);
	if (tuple != NULL)
	{
		bool		isnull;

		events = DatumGetInt64(heap_getattr(tuple, STATE_EVENTS,
											RelationGetDescr(scan.rel), &isnull));
	}
	extension_scan_end(&scan);

	return events == 0;
}
