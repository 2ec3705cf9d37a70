/*
 * registry.c
 *	  The definitions of streams: a backend-local cache over the catalog, the
 *	  options and aion.stream_def; and registration, which gives a stream its storage.
 *
 * An entry is built at first use and again after a relcache invalidation of
 * the foreign table, which ALTER, registration and TRUNCATE send. It shows
 * what is in force now, like a relcache entry, not what an old snapshot shows.
 *
 * Callers keep pointers into an entry while they hold a lock on the stream,
 * which invalidations for harmless reasons (GRANT, ANALYZE) don't wait for. So
 * a replaced entry is not freed at once, but by the first look-up of a later
 * transaction.
 *
 * Registration happens at most once per stream, at its first insert or view,
 * in that transaction: tables, their dependency on the stream, and the rows in
 * aion.stream_def and aion.stream_state. A crash or rollback leaves none of
 * it. Two transactions that both come first take turns: the second waits for
 * the end of the first, then looks again.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "debug_point.h"
#include "store/pbucket.h"
#include "stream/extension.h"
#include "stream/registry.h"

#define DEFAULT_BUCKET_WIDTH EVENT_TIME_MINUTE

/* Columns of aion.stream_def. */
enum
{
	DEF_STREAM = 1,
	DEF_HOME,
	DEF_JOURNAL,
	DEF_BLOCKS,
	DEF_BUCKET_WIDTH,
	DEF_DURABLE
};

typedef struct CacheEntry
{
	Oid			relid;			/* hash key */
	bool		valid;
	MemoryContext context;		/* holds info and all it points to */
	StreamInfo *info;
} CacheEntry;

StreamTruncateHook stream_truncate_hook = NULL;
StreamTieHook stream_tie_hook = NULL;

static HTAB *cache = NULL;
static uint64 invalidations = 0;	/* relcache invalidations of any kind seen */
static List *retired = NIL;		/* contexts of replaced entries */
static bool definitions_changed = false;	/* by this transaction */
static bool retired_are_old = false;	/* a transaction ended since the last look-up */

/* True if relid is a foreign table of the wrapper "aion". */
bool
stream_is_stream(Oid relid)
{
	HeapTuple	tuple;
	Oid			server;
	Oid			wrapper;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	wrapper = get_foreign_data_wrapper_oid("aion", true);
	if (!OidIsValid(wrapper))
		return false;

	/* While the foreign table is being created it has no row here yet. */
	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	server = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver;
	ReleaseSysCache(tuple);

	return GetForeignServer(server)->fdwid == wrapper;
}

/*
 * What aion.stream_def.home says of a stream of this database with that journal.
 * A copy of the database's files (CREATE DATABASE ... TEMPLATE, pg_upgrade) has the same
 * id and the same OIDs. A dump has neither: the id is drawn with the extension,
 * the journal is made anew, even where a database is restored into itself. Palloc'd; empty while
 * DROP EXTENSION is at work.
 */
char *
registry_home(Oid journal)
{
	Oid			relid = extension_relation("database");
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *home;
	bool		isnull;

	if (!OidIsValid(relid))
		return pstrdup("");
	rel = table_open(relid, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "aion.database is empty");
	home = psprintf("%s/%u",
					DatumGetCString(DirectFunctionCall1(uuid_out, heap_getattr(tuple, 1, RelationGetDescr(rel), &isnull))),
					journal);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return home;
}

/* Reads one row of aion.stream_def. */
static void
read_entry(HeapTuple tuple, TupleDesc desc, RegistryEntry *entry)
{
	bool		isnull;
	char	   *home = TextDatumGetCString(heap_getattr(tuple, DEF_HOME, desc, &isnull));
	char	   *own;

	entry->journal = DatumGetObjectId(heap_getattr(tuple, DEF_JOURNAL, desc, &isnull));
	entry->blocks = DatumGetObjectId(heap_getattr(tuple, DEF_BLOCKS, desc, &isnull));
	entry->bucket_width = DatumGetInt64(heap_getattr(tuple, DEF_BUCKET_WIDTH, desc, &isnull));
	entry->durable = DatumGetBool(heap_getattr(tuple, DEF_DURABLE, desc, &isnull));
	own = registry_home(entry->journal);
	entry->exists = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(entry->journal)) &&
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(entry->blocks));
	entry->elsewhere = strcmp(home, own) != 0;
	entry->here = !entry->elsewhere && entry->exists;
	pfree(home);
	pfree(own);
}

/* See registry.h. */
bool
registry_read(Oid relid, RegistryEntry *entry)
{
	ExtensionScan scan;
	HeapTuple	tuple;

	if (!extension_scan_begin(&scan, "stream_def", "stream_def_pkey", DEF_STREAM,
							  relid, AccessShareLock))
		return false;
	tuple = extension_scan_next(&scan);
	if (tuple != NULL)
		read_entry(tuple, RelationGetDescr(scan.rel), entry);
	extension_scan_end(&scan);

	return tuple != NULL;
}

/* The streams (OIDs) whose row names the table as one of theirs. */
List *
registry_users_of_table(Oid table)
{
	static const AttrNumber columns[] = {DEF_JOURNAL, DEF_BLOCKS};
	List	   *streams = NIL;

	for (int i = 0; i < lengthof(columns); i++)
	{
		ExtensionScan scan;
		HeapTuple	tuple;

		/* no index: there is one row per stream, and the question is rare */
		if (!extension_scan_begin(&scan, "stream_def", "(none)", columns[i], table, AccessShareLock))
			return NIL;
		while ((tuple = extension_scan_next(&scan)) != NULL)
		{
			bool		isnull;

			streams = lappend_oid(streams, DatumGetObjectId(heap_getattr(tuple, DEF_STREAM, RelationGetDescr(scan.rel), &isnull)));
		}
		extension_scan_end(&scan);
	}
	return streams;
}

/* Which rows of aion.stream_def: */
typedef enum RegistryRows
{
	ROWS_ALL,
	ROWS_EXISTING,				/* foreign table and storage are there */
	ROWS_HERE					/* and it is not being restored */
} RegistryRows;

static bool
row_matters(HeapTuple tuple, TupleDesc desc, RegistryRows which)
{
	RegistryEntry entry;
	bool		isnull;

	if (which == ROWS_ALL)
		return true;
	read_entry(tuple, desc, &entry);
	return entry.exists && (which == ROWS_EXISTING || entry.here) &&
		stream_is_stream(DatumGetObjectId(heap_getattr(tuple, DEF_STREAM, desc, &isnull)));
}

/* A column, of OIDs, of rows of aion.stream_def: under a snapshot, or as they are now if that is NULL. */
static List *
list_column(Snapshot snapshot, RegistryRows which, AttrNumber column)
{
	Oid			relid = extension_relation("stream_def");
	List	   *result = NIL;
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(relid))
		return NIL;
	rel = table_open(relid, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		TupleDesc	desc = RelationGetDescr(rel);
		bool		isnull;

		if (row_matters(tuple, desc, which))
			result = lappend_oid(result, DatumGetObjectId(heap_getattr(tuple, column, desc, &isnull)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	return result;
}

/*
 * All registered streams of this database (OIDs), as "snapshot" shows them, or
 * as they are now if that is NULL. Those whose foreign table or storage is
 * gone are left out, and without "elsewhere" those that are being restored.
 */
List *
registry_list(Snapshot snapshot, bool elsewhere)
{
	return list_column(snapshot, elsewhere ? ROWS_EXISTING : ROWS_HERE, DEF_STREAM);
}

/* All registered streams of this database, under the active snapshot. */
List *
stream_list(void)
{
	return registry_list(GetActiveSnapshot(), false);
}

/* See stream.h. */
List *
stream_journals(void)
{
	return list_column(GetActiveSnapshot(), ROWS_ALL, DEF_JOURNAL);
}

/* True if a p-bucket table, which has to be as this version of aion makes it, has its index. */
static bool
blocks_have_index(Oid blocks)
{
	Relation	rel = table_open(blocks, AccessShareLock);
	bool		result = OidIsValid(pbucket_index(rel));
	int			ncolumns = RelationGetNumberOfAttributes(rel);

	table_close(rel, AccessShareLock);
	if (ncolumns != PBUCKET_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("table \"%s\" of an aion stream has %d columns instead of %d",
						get_rel_name(blocks), ncolumns, PBUCKET_COLUMNS),
				 errhint("It must not be altered.")));
	return result;
}

/* Builds the definition of "rel", a stream, in the current memory context. */
static StreamInfo *
build_info(Relation rel)
{
	StreamInfo *info = palloc0(sizeof(StreamInfo));
	RegistryEntry entry;

	info->relid = RelationGetRelid(rel);
	stream_parse_options(GetForeignTable(info->relid)->options, &info->options);
	info->time_attnum = stream_event_time_column(rel, info->options.event_time);
	info->time_is_timestamp =
		TupleDescAttr(RelationGetDescr(rel), info->time_attnum - 1)->atttypid == TIMESTAMPOID;

	info->storage.stream = info->relid;
	info->storage.compress = info->options.compress;
	/* What registration would choose; nobody should have to divide by zero. */
	info->storage.bucket_width = info->options.bucket_width > 0 ?
		info->options.bucket_width : DEFAULT_BUCKET_WIDTH;
	if (!registry_read(info->relid, &entry))
		entry.exists = entry.elsewhere = false;
	info->elsewhere = entry.elsewhere;
	/* the index may not have been restored yet: then there is nothing to be read yet */
	if (entry.exists)
		info->has_storage = blocks_have_index(entry.blocks) || !entry.elsewhere;
	if (info->has_storage)
	{
		info->storage.journal = entry.journal;
		info->storage.blocks = entry.blocks;
		info->storage.bucket_width = entry.bucket_width;
		info->storage.foreign_journal = entry.elsewhere;
	}
	stored_columns_build(rel, info);
	info->layout = event_layout(&info->storage);

	return info;
}

/* Frees replaced entries if nobody can hold a pointer to them any more. */
static void
free_retired(void)
{
	ListCell   *cell;

	if (!retired_are_old)
		return;
	foreach(cell, retired)
		MemoryContextDelete((MemoryContext) lfirst(cell));
	list_free(retired);
	retired = NIL;
	retired_are_old = false;
}

/* Takes an entry out of the cache; its memory stays until a later transaction. */
static void
retire(CacheEntry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	retired = lappend(retired, entry->context);
	MemoryContextSwitchTo(old);
	hash_search(cache, &entry->relid, HASH_REMOVE, NULL);
}

/* Builds an entry for "rel" and puts it into the cache. */
static StreamInfo *
cache_build(Relation rel)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion stream",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	uint64		before = invalidations;
	Oid			relid = RelationGetRelid(rel);
	StreamInfo *info = build_info(rel);
	CacheEntry *entry;

	MemoryContextSwitchTo(old);
	entry = hash_search(cache, &relid, HASH_FIND, NULL);
	if (entry != NULL)
		retire(entry);
	entry = hash_search(cache, &relid, HASH_ENTER, NULL);
	MemoryContextSetParent(context, CacheMemoryContext);
	entry->context = context;
	entry->info = info;
	entry->valid = (before == invalidations);

	return info;
}

/* Reports that relid is no stream. */
static void
refuse_relation(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a stream", name),
			 errdetail("A stream is a foreign table on server \"aion\".")));
}

/*
 * True if an entry, though valid, is behind. The stream may have been registered by the COPY of a restore, which
 * invalidates nothing; or its registration has been committed, so that a snapshot may show its first events, but
 * the invalidation, which follows the commit, has not been sent yet. No lock orders the two for who only reads.
 */
static bool
is_behind(const StreamInfo *info)
{
	RegistryEntry entry;

	return !info->has_storage && registry_read(info->relid, &entry) && entry.exists;
}

/* See stream.h. */
const StreamInfo *
stream_lookup(Oid relid, bool missing_ok)
{
	CacheEntry *entry = cache == NULL ? NULL : hash_search(cache, &relid, HASH_FIND, NULL);
	Relation	rel;
	StreamInfo *info;

	if (entry != NULL && entry->valid && !is_behind(entry->info))
		return entry->info;

	free_retired();
	if (!stream_is_stream(relid))
	{
		if (entry != NULL)
			retire(entry);
		if (!missing_ok)
			refuse_relation(relid);
		return NULL;
	}

	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
	{
		if (!missing_ok)
			refuse_relation(relid);
		return NULL;
	}
	info = cache_build(rel);
	relation_close(rel, AccessShareLock);

	return info;
}

/* See stream.h. */
void
stream_check_home(const StreamInfo *info)
{
	if (info->elsewhere)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream \"%s\" is being restored", get_rel_name(info->relid)),
				 errdetail("Its data came with a dump whose restore is not complete."),
				 errhint("A restore ends with REFRESH MATERIALIZED VIEW aion.restored, which makes the stream go on; run it if your way of restoring leaves it out.")));
}

/* See stream.h. Not a part of the entry: promotion invalidates nothing. */
bool
stream_out_of_reach(const StreamInfo *info)
{
	return info->has_storage && RecoveryInProgress() &&
		get_rel_persistence(info->storage.journal) == RELPERSISTENCE_UNLOGGED;
}

/* See stream.h. */
const StreamInfo *
stream_register(Oid relid, int64 bucket_width)
{
	const StreamInfo *info = stream_lookup(relid, false);
	int64		width;

	stream_check_home(info);
	if (info->has_storage)
		return info;

	LockRelationOid(relid, ShareUpdateExclusiveLock);
	AcceptInvalidationMessages();
	info = stream_lookup(relid, false);
	stream_check_home(info);
	if (info->has_storage)
		return info;

	width = info->options.bucket_width;
	if (width == 0)
		width = bucket_width > 0 ? bucket_width : DEFAULT_BUCKET_WIDTH;
	storage_delete_rows(relid);
	storage_create(relid, width, info->options.durable);
	DEBUG_POINT("stream-registered");

	info = stream_lookup(relid, false);
	Assert(info->has_storage);
	return info;
}

/* See stream.h. */
void
stream_definitions_changed(void)
{
	Oid			relid = extension_relation("stream_def");

	if (OidIsValid(relid))
		CacheInvalidateRelcacheByRelid(relid);
	definitions_changed = true;
}

/* Relcache callback: the entry of relid, or all, must be built anew. */
static void
invalidate(Datum arg, Oid relid)
{
	invalidations++;
	if (OidIsValid(relid))
	{
		CacheEntry *entry = hash_search(cache, &relid, HASH_FIND, NULL);

		if (entry != NULL)
			entry->valid = false;
	}
	else
	{
		HASH_SEQ_STATUS status;
		CacheEntry *entry;

		hash_seq_init(&status, cache);
		while ((entry = hash_seq_search(&status)) != NULL)
			entry->valid = false;
	}
}

/* Pointers that a transaction took from the cache are dead once it ended. */
static void
transaction_ended(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	retired_are_old = true;
	if (event == XACT_EVENT_COMMIT && definitions_changed)
		DEBUG_POINT("definitions-committed");
	if (event != XACT_EVENT_COMMIT)
		definitions_changed = false;
}

/*
 * Wakes the scheduler for definitions that a commit has changed. Not before the commit's invalidations
 * were sent, which is after the callback above: woken sooner it would look, see none, and sleep on.
 */
static void
transaction_released(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level || !definitions_changed)
		return;
	definitions_changed = false;
	if (is_commit && stream_wake_hook != NULL)
		stream_wake_hook();
}

/* Called once, from _PG_init. */
void
stream_registry_init(void)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(CacheEntry);
	cache = hash_create("aion streams", 16, &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	RegisterXactCallback(transaction_ended, NULL);
	RegisterResourceReleaseCallback(transaction_released, NULL);
}
