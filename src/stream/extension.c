/*
 * extension.c
 *	  aion's own schema objects: finding them, and writing to them with their
 *	  owner's rights.
 *
 * Tables of schema aion are read as the server reads its catalogs, by scans
 * under a catalog snapshot: such a read needs no privilege, runs no user code,
 * works at any point of a transaction, in parallel workers and on a standby,
 * and shows what is in force now, not what an old snapshot would show. They
 * are written with SPI as their owner, since whoever inserts the first event
 * has no rights on them.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "stream/extension.h"

/* OID of relation "name" in schema aion; InvalidOid if there is none. Takes no lock. */
Oid
extension_relation(const char *name)
{
	Oid			schema = get_namespace_oid("aion", true);

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

/* True if the extension is installed in this database. */
bool
extension_installed(void)
{
	return OidIsValid(get_foreign_data_wrapper_oid("aion", true)) &&
		OidIsValid(extension_relation("stream_def"));
}

/* Owner of aion's tables. */
Oid
extension_owner(void)
{
	Oid			relid = extension_relation("stream_def");
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"aion\" is not installed in this database"),
				 errhint("CREATE EXTENSION aion.")));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);

	return owner;
}

/* See extension.h. */
bool
extension_depends(const ObjectAddress *depender, const ObjectAddress *referenced,
				  DependencyType type)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[3];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(depender->classId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(depender->objectId));
	ScanKeyInit(&keys[2], Anum_pg_depend_objsubid, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(depender->objectSubId));
	scan = systable_beginscan(rel, DependDependerIndexId, true, NULL, 3, keys);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		found = form->refclassid == referenced->classId && form->refobjid == referenced->objectId &&
			form->refobjsubid == referenced->objectSubId && form->deptype == (char) type;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* See extension.h. */
bool
extension_record_dependency(const ObjectAddress *depender, const ObjectAddress *referenced,
							DependencyType type)
{
	if (extension_depends(depender, referenced, type))
		return false;
	recordDependencyOn(depender, referenced, type);
	return true;
}

/* Sets a parameter until the current nest level ends. */
void
extension_pin(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* See extension.h. */
void
extension_begin(ExtensionSave *save)
{
	GetUserIdAndSecContext(&save->user, &save->sec_context);
	SetUserIdAndSecContext(extension_owner(),
						   save->sec_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	save->guc_level = NewGUCNestLevel();
	extension_pin("search_path", "pg_catalog, pg_temp");
	extension_pin("default_tablespace", "");
	extension_pin("default_table_access_method", "heap");

	save->pushed = !ActiveSnapshotSet();
	if (save->pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

/* Undoes extension_begin(). */
void
extension_end(const ExtensionSave *save)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	if (save->pushed)
		PopActiveSnapshot();
	AtEOXact_GUC(false, save->guc_level);
	SetUserIdAndSecContext(save->user, save->sec_context);
}

/* Runs one SQL statement between extension_begin() and extension_end(). */
void
extension_execute(const char *sql, int expected)
{
	int			result = SPI_execute(sql, false, 0);

	if (result != expected)
		elog(ERROR, "unexpected result %d of \"%s\"", result, sql);
}

/*
 * Pins what types' input and output functions look at, so that text written
 * here reads back the same in any session. Returns the level for AtEOXact_GUC().
 */
int
extension_pin_output(void)
{
	int			level = NewGUCNestLevel();

	extension_pin("search_path", "pg_catalog, pg_temp");
	extension_pin("datestyle", "ISO, MDY");
	extension_pin("intervalstyle", "postgres");
	extension_pin("timezone", "UTC");
	extension_pin("extra_float_digits", "1");
	extension_pin("bytea_output", "hex");
	extension_pin("lc_monetary", "C");
	extension_pin("xmloption", "content");
	extension_pin("array_nulls", "on");
	extension_pin("quote_all_identifiers", "off");

	return level;
}

/*
 * Begins a scan of aion.<table> for rows whose OID column "att" is "stream";
 * by the index if that exists still. False if the table doesn't exist (any
 * more), as while DROP EXTENSION is at work. The lock is kept until the end of
 * the transaction if it is stronger than AccessShareLock.
 */
bool
extension_scan_begin(ExtensionScan *scan, const char *table, const char *index,
					 AttrNumber att, Oid stream, LOCKMODE lockmode)
{
	Oid			relid = extension_relation(table);
	Oid			index_oid;
	ScanKeyData key;

	if (!OidIsValid(relid))
		return false;
	scan->lockmode = lockmode;
	scan->rel = table_open(relid, lockmode);
	/* not before there is a lock, which REINDEX CONCURRENTLY waits for before it drops an index */
	index_oid = extension_relation(index);
	ScanKeyInit(&key, att, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	scan->scan = systable_beginscan(scan->rel, index_oid, OidIsValid(index_oid),
									NULL, 1, &key);
	return true;
}

/* Next row, valid until the next call; NULL at the end. */
HeapTuple
extension_scan_next(ExtensionScan *scan)
{
	return systable_getnext(scan->scan);
}

/* Ends the scan. */
void
extension_scan_end(ExtensionScan *scan)
{
	systable_endscan(scan->scan);
	table_close(scan->rel, scan->lockmode == AccessShareLock ? AccessShareLock : NoLock);
}
