/*
 * view_hooks.c
 *	  What happens to a continuous view when its relations or its stream change.
 *
 *	  view dropped, in whatever way: its row in aion.view_def goes (its window
 *			rows after the commit, see catalog.c); the core drops the rest
 *	  owner of the view changed, also by REASSIGN OWNED: definition and results follow
 *	  definition replaced: refused
 *	  stream restored, or the server upgraded: dependencies are recorded again
 *	  table or view made in aion_results, or moved there: refused, unless it is a view's
 *	  stream truncated: results and window rows of its views go; the scheduler
 *			then takes the views up as if they were new
 *
 * All of it is part of the transaction that changes the relation.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_rewrite.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "stream/extension.h"
#include "stream/stream.h"
#include "view/view_internal.h"

static object_access_hook_type previous_object_access_hook;

/*
 * Sets *class to a relation's row as this very command has left it, which the caches don't show yet;
 * false if there is none.
 */
static bool
relation_as_changed(Oid relid, FormData_pg_class *class)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(pg_class, ClassOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
		memcpy(class, GETSTRUCT(tuple), CLASS_TUPLE_SIZE);
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return found;
}

/* The owner of a relation as this command has left it. */
static Oid
owner_as_changed(Oid relid)
{
	FormData_pg_class class;

	return relation_as_changed(relid, &class) ? class.relowner : InvalidOid;
}

/*
 * Refuses a table or view that somebody puts into aion_results, where everybody may create: a restore finds parts
 * of views by name, and would take it for one, as its owner's after ALTER ... OWNER. Views are made with their
 * users' rights, restores with those of the extension's owner. A part that comes back from another schema is known.
 */
static void
refuse_stranger(Oid relid, bool created)
{
	Oid			schema = get_namespace_oid(RESULTS_SCHEMA, true);
	FormData_pg_class class;

	if (!OidIsValid(schema) || !relation_as_changed(relid, &class) || class.relnamespace != schema ||
		(class.relkind != RELKIND_VIEW && class.relkind != RELKIND_RELATION))
		return;
	if (created ? view_relations_being_made() :
		get_rel_namespace(relid) == schema || view_uses_of_relation(relid) > 0)
		return;
	if (!has_privs_of_role(GetUserId(), extension_owner()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to put \"%s\" into schema %s", NameStr(class.relname), RESULTS_SCHEMA),
				 errdetail("Only aion.create_view() makes tables and views there.")));
}

/*
 * Gives definition and results the owner that the view just got. Whoever could change
 * the view's owner may do that: they are parts of the view. Does nothing after other
 * changes to a view, owners being the same then. Of a view that is being restored only what belonged to its
 * owner is taken for a part.
 */
static void
follow_owner(Oid view)
{
	ViewRow    *row = view_row_read(view);
	ViewRelations relations;
	Oid			parts[2];
	Oid			owner;
	HeapTuple	before;

	if (row == NULL)
		return;
	relations = (ViewRelations) {.view = view,.definition = row->definition,.results = row->results};
	owner = owner_as_changed(view);
	before = SearchSysCache1(RELOID, ObjectIdGetDatum(view));
	if (!OidIsValid(owner) || !HeapTupleIsValid(before))
		return;
	parts[0] = row->results;
	parts[1] = row->definition;
	for (int i = 0; i < lengthof(parts); i++)
	{
		Oid			own = owner_as_changed(parts[i]);

		if (own != owner && (own == ((Form_pg_class) GETSTRUCT(before))->relowner || view_has_dependencies(&relations)))
			ATExecChangeOwner(parts[i], owner, true, AccessExclusiveLock);
	}
	ReleaseSysCache(before);
}

/*
 * Refuses CREATE OR REPLACE VIEW of a definition, "rule" being the one that holds
 * a view's query: the new query was not checked, and results of the old one would stay.
 */
static void
refuse_new_query(Oid rule)
{
	Relation	pg_rewrite = table_open(RewriteRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			relation = InvalidOid;

	ScanKeyInit(&key, Anum_pg_rewrite_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(rule));
	scan = systable_beginscan(pg_rewrite, RewriteOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		relation = ((Form_pg_rewrite) GETSTRUCT(tuple))->ev_class;
	systable_endscan(scan);
	table_close(pg_rewrite, AccessShareLock);

	if (view_is_definition(relation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replace \"%s\", which holds the query of a continuous view",
						get_rel_name(relation)),
				 errhint("Drop the continuous view and create it again.")));
}

/* Object access hook: runs for every object in every database, so it leaves early. */
static void
view_object_access(ObjectAccessType access, Oid class_id, Oid object, int sub, void *arg)
{
	if (previous_object_access_hook)
		previous_object_access_hook(access, class_id, object, sub, arg);

	if (sub != 0 || IsBinaryUpgrade)
		return;
	if (class_id == RewriteRelationId)
	{
		/* the server says "create" of a rule that takes the place of another, too */
		if (access == OAT_POST_CREATE && view_catalog_exists())
			refuse_new_query(object);
	}
	/* what the server makes for a moment, as when a table is rewritten, goes by itself */
	if (class_id == RelationRelationId &&
		((access == OAT_POST_CREATE && !((ObjectAccessPostCreate *) arg)->is_internal) || access == OAT_POST_ALTER) &&
		view_catalog_exists())
		refuse_stranger(object, access == OAT_POST_CREATE);
	if (class_id == RelationRelationId &&
		(access == OAT_DROP || access == OAT_POST_ALTER) &&
		get_rel_relkind(object) == RELKIND_VIEW && view_catalog_exists())
	{
		if (access == OAT_POST_ALTER)
			follow_owner(object);
		else if (view_row_delete(object))
			stream_definitions_changed();
	}
}

/*
 * Stream truncate hook: the stream is locked exclusively, which keeps
 * scheduler and executors away from its views.
 */
static void
view_stream_truncated(Oid stream)
{
	ListCell   *lc;

	foreach(lc, view_rows_of_stream(stream))
	{
		ViewRow    *row = lfirst(lc);

		view_state_delete(row->view);
		results_delete_all(row);
	}
}

/*
 * False if a part of a view that came with a dump is not its own: the name was another relation's, and the
 * restore went on. As the view's definition it would be executed with the rights of the view's owner.
 */
static bool
is_own_part(const ViewRow *row, Oid part, char relkind)
{
	FormData_pg_class view;
	FormData_pg_class class;

	if (!relation_as_changed(row->view, &view) || !relation_as_changed(part, &class))
		return true;			/* left out of the restore: there is nothing to execute */
	return class.relkind == relkind && class.relowner == view.relowner && view_uses_of_relation(part) == 1;
}

static void
check_own_part(const ViewRow *row, Oid part, char relkind)
{
	if (!is_own_part(row, part, relkind))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" was not restored as a part of continuous view \"%s\"",
						view_qualified_name(part), view_qualified_name(row->view)),
				 errdetail("It is of another kind, of another owner, or a part of another view as well."),
				 errhint("Drop or rename what had that name before the restore, and restore again.")));
}

/*
 * Stream tie hook: dependencies of the stream's views, as create_view() recorded them. A view
 * that is locked is perhaps being dropped.
 */
static bool
view_tie(Oid stream, TieTime time)
{
	bool		all = true;
	ListCell   *lc;

	foreach(lc, view_rows_of_stream(stream))
	{
		const ViewRow *row = lfirst(lc);
		ViewRelations relations = {.view = row->view,.definition = row->definition,.results = row->results};

		if (time == TIE_RESTORED)
		{
			check_own_part(row, row->definition, RELKIND_VIEW);
			check_own_part(row, row->results, RELKIND_RELATION);
		}
		else if (time == TIE_RESTORING && !(is_own_part(row, row->definition, RELKIND_VIEW) &&
											is_own_part(row, row->results, RELKIND_RELATION)))
			continue;
		if (view_has_dependencies(&relations))
			continue;
		if (time != TIE_UPGRADED)	/* another process of a parallel restore may be at the view */
			LockRelationOid(row->view, AccessShareLock);
		else if (!ConditionalLockRelationOid(row->view, AccessShareLock))
		{
			all = false;
			continue;
		}
		if (view_row_read(row->view) != NULL && get_rel_relkind(row->view) == RELKIND_VIEW &&
			get_rel_relkind(row->definition) == RELKIND_VIEW &&
			get_rel_relkind(row->results) == RELKIND_RELATION)
			view_record_dependencies(&relations, stream);
	}
	return all;
}

/* Stream windows hook: the views over a stream, as of now. */
static List *
view_stream_windows(Oid stream)
{
	const Lateness stream_lateness = stream_lookup(stream, false)->options.allowed_lateness;
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, view_rows_of_stream(stream))
	{
		const ViewRow *row = lfirst(lc);
		StreamWindows *windows = palloc(sizeof(StreamWindows));

		windows->view = row->view;
		windows->window = row->window;
		windows->allowed_lateness = row->allowed_lateness ? view_lateness(row->allowed_lateness) : stream_lateness;
		windows->paused = row->paused;
		result = lappend(result, windows);
	}
	return result;
}

/* Hooks, function pointers of the stream layer; called once from _PG_init. */
void
view_init(void)
{
	previous_object_access_hook = object_access_hook;
	object_access_hook = view_object_access;
	stream_truncate_hook = view_stream_truncated;
	stream_windows_hook = view_stream_windows;
	stream_tie_hook = view_tie;
	view_drop_init();
}
