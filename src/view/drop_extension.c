/*
 * drop_extension.c
 *	  Locks for DROP EXTENSION aion, and for DROP OWNED, which may drop the extension or streams.
 *
 * The server locks what it is about to drop as it comes upon it: aion's own relations before
 * streams, and what a role owns in no order at all. Sessions go the other way: one that has
 * inserted into a stream looks at aion's tables. So what will be dropped is locked here before,
 * in the order of src/README.md.
 *
 * Nothing but streams is waited for while anything is locked. Sessions that read a view or an inspection view may come
 * to a stream afterwards, with the next statement of the transaction or in the same one (as
 * pg_get_viewdef() does). If something of that is in use, all locks are let go, and taken again
 * when that is over; unless it is again and again, when a deadlock has to be risked.
 *
 * Journals and blocks are left to the server: nobody uses them who has not locked their stream.
 * Nothing is locked for a user who may not drop it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_table.h"
#include "commands/extension.h"
#include "commands/user.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "stream/extension.h"
#include "stream/stream.h"
#include "view/view_internal.h"

/* To take all locks without the risk of a deadlock. */
#define ATTEMPTS	20

static ProcessUtility_hook_type next_process_utility = NULL;

/* What a statement is about to drop. */
typedef struct Drop
{
	bool		extension;		/* and with it everything else */
	List	   *owners;			/* what these roles (OIDs) own */
} Drop;

/* True if the statement drops the extension by its name. */
static bool
names_extension(Node *statement)
{
	ListCell   *lc;

	if (!IsA(statement, DropStmt) || castNode(DropStmt, statement)->removeType != OBJECT_EXTENSION)
		return false;
	foreach(lc, castNode(DropStmt, statement)->objects)
		if (strcmp(strVal(lfirst(lc)), "aion") == 0)
			return true;
	return false;
}

/* Fills in *drop; false if there is nothing to be locked for the statement, or the user may not run it. */
static bool
read_statement(Node *statement, Drop *drop)
{
	ListCell   *lc;

	*drop = (Drop) {.extension = names_extension(statement)};
	if ((!drop->extension && !IsA(statement, DropOwnedStmt)) || XactReadOnly || IsBinaryUpgrade ||
		!view_catalog_exists())
		return false;
	if (drop->extension)
		drop->owners = list_make1_oid(extension_owner());
	else
		drop->owners = roleSpecsToIds(castNode(DropOwnedStmt, statement)->roles);
	foreach(lc, drop->owners)
	{
		if (!has_privs_of_role(GetUserId(), lfirst_oid(lc)))
			return false;
		if (lfirst_oid(lc) == extension_owner())
			drop->extension = true;
	}
	return true;
}

/* True if the relation is one to be dropped, going by its owner. */
static bool
is_dropped(const Drop *drop, Oid relid)
{
	HeapTuple	tuple;
	bool		result;

	if (drop->extension)
		return true;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = list_member_oid(drop->owners, ((Form_pg_class) GETSTRUCT(tuple))->relowner);
	ReleaseSysCache(tuple);
	return result;
}

/* Appends the relations that a column of a table names, as far as they are dropped. */
static List *
append_column(List *relids, const Drop *drop, Oid table, AttrNumber column)
{
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(table))
		return relids;
	rel = table_open(table, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Oid			relid = DatumGetObjectId(heap_getattr(tuple, column, RelationGetDescr(rel), &isnull));

		if (is_dropped(drop, relid) && (table != ForeignTableRelationId || stream_is_stream(relid)))
			relids = lappend_oid(relids, relid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return relids;
}

static List *
dropped_streams(const Drop *drop)
{
	return append_column(NIL, drop, ForeignTableRelationId, Anum_pg_foreign_table_ftrelid);
}

/* Appends the relations of the extension itself. */
static List *
append_own_relations(List *relids)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_extension_oid("aion", true)));
	scan = systable_beginscan(rel, DependReferenceIndexId, true, NULL, lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == RelationRelationId && form->deptype == DEPENDENCY_EXTENSION)
			relids = lappend_oid(relids, form->objid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return relids;
}

/* What else is dropped and has to be locked: views, their definitions and results, the extension's own. */
static List *
dropped_others(const Drop *drop)
{
	Oid			views = extension_relation("view_def");
	List	   *relids = append_column(NIL, drop, views, VIEW_DEF_VIEW);

	relids = append_column(relids, drop, views, VIEW_DEF_DEFINITION);
	relids = append_column(relids, drop, views, VIEW_DEF_RESULTS);
	return drop->extension ? append_own_relations(relids) : relids;
}

static void
unlock(List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		UnlockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
}

static void
lock(List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		LockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
}

/* Locks all of them or none, without waiting; returns one that is in use. */
static Oid
lock_at_once(List *relids)
{
	List	   *locked = NIL;
	ListCell   *lc;

	foreach(lc, relids)
	{
		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessExclusiveLock))
		{
			unlock(locked);
			return lfirst_oid(lc);
		}
		locked = lappend_oid(locked, lfirst_oid(lc));
	}
	return InvalidOid;
}

/* Takes the locks; false if somebody was in the way, who is not any more. */
static bool
try_to_lock(const Drop *drop)
{
	List	   *streams = dropped_streams(drop);
	List	   *others = dropped_others(drop);
	Oid			in_use;

	lock(streams);
	in_use = lock_at_once(others);
	if (!OidIsValid(in_use))
	{
		/* more of them may have come while streams were waited for */
		if (equal(streams, dropped_streams(drop)) && equal(others, dropped_others(drop)))
			return true;
		unlock(others);
	}
	unlock(streams);
	if (OidIsValid(in_use))
	{
		LockRelationOid(in_use, AccessExclusiveLock);
		UnlockRelationOid(in_use, AccessExclusiveLock);
	}
	return false;
}

static void
lock_dropped(const Drop *drop)
{
	for (int i = 0; i < ATTEMPTS; i++)
	{
		if (try_to_lock(drop))
			return;
		CHECK_FOR_INTERRUPTS();
	}
	lock(dropped_streams(drop));
	lock(dropped_others(drop));
}

/* ProcessUtility hook. */
static void
drop_process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	Drop		drop;

	if (IsA(pstmt->utilityStmt, DropStmt))
		view_stop_dropped(castNode(DropStmt, pstmt->utilityStmt));
	if (read_statement(pstmt->utilityStmt, &drop))
		lock_dropped(&drop);
	if (next_process_utility)
		next_process_utility(pstmt, query_string, read_only_tree, context, params,
							 query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
								query_env, dest, qc);
}

/* Called once, from view_init(). */
void
view_drop_init(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = drop_process_utility;
}
