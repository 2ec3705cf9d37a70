/*
 * ddl.c
 *	  Data definition that concerns streams: the hooks, and what is not ALTER
 *	  TABLE (alter.c).
 *
 * The utility hook lets the server do its work and then checks the outcome:
 *	 CREATE FOREIGN TABLE	the event time names a fit column
 *	 ALTER TABLE			see alter.c
 *	 RENAME COLUMN			the option event_time follows its column
 *	 REFRESH				of aion.restored: see adopt.c
 *	 ALTER TYPE				refused where stored events hold the type's text
 * The object-access hook sees every drop, also by CASCADE, by recursion from a
 * parent or by DROP OWNED: a dropped column that stored events need is refused;
 * with a dropped stream go its rows in aion's tables.
 *
 * Everything is part of the user's transaction. Nothing is done under
 * pg_upgrade, nor in a database without the extension, where a hook costs a
 * look into the catalog cache for the few statements that it is interested in.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "stream/extension.h"
#include "stream/registry.h"

static ProcessUtility_hook_type next_process_utility = NULL;
static object_access_hook_type next_object_access = NULL;

/* After CREATE FOREIGN TABLE: checks the options against the columns. */
static void
created_foreign_table(CreateForeignTableStmt *stmt)
{
	RangeVar   *name = stmt->base.relation;
	Oid			relid;

	CommandCounterIncrement();
	relid = get_relname_relid(name->relname, RangeVarGetCreationNamespace(name));
	if (OidIsValid(relid) && stream_is_stream(relid))
		(void) stream_lookup(relid, false);
}

/* Sets the option event_time of a stream. */
static void
set_event_time_option(Oid relid, const char *column)
{
	Relation	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	HeapTuple	old = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	ForeignTable *table = GetForeignTable(relid);
	ForeignServer *server = GetForeignServer(table->serverid);
	DefElem    *def = makeDefElemExtended(NULL, "event_time", (Node *) makeString(pstrdup(column)),
										  DEFELEM_SET, -1);
	Datum		values[Natts_pg_foreign_table] = {0};
	bool		nulls[Natts_pg_foreign_table] = {0};
	bool		replace[Natts_pg_foreign_table] = {0};
	bool		isnull;
	HeapTuple	new;

	values[Anum_pg_foreign_table_ftoptions - 1] =
		transformGenericOptions(ForeignTableRelationId,
								SysCacheGetAttr(FOREIGNTABLEREL, old,
												Anum_pg_foreign_table_ftoptions, &isnull),
								list_make1(def),
								GetForeignDataWrapper(server->fdwid)->fdwvalidator);
	replace[Anum_pg_foreign_table_ftoptions - 1] = true;
	new = heap_modify_tuple(old, RelationGetDescr(catalog), values, nulls, replace);
	CatalogTupleUpdate(catalog, &new->t_self, new);
	CacheInvalidateRelcacheByRelid(relid);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Name of the column in option event_time; NULL if there is none. */
static const char *
event_time_option(Oid relid)
{
	ListCell   *cell;

	foreach(cell, GetForeignTable(relid)->options)
	{
		DefElem    *def = (DefElem *) lfirst(cell);

		if (strcmp(def->defname, "event_time") == 0)
			return defGetString(def);
	}
	return NULL;
}

/* After RENAME COLUMN: the option follows, in each stream whose column was renamed. */
static void
renamed_column(RenameStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	ListCell   *cell;

	if (!OidIsValid(relid))
		return;
	CommandCounterIncrement();
	foreach(cell, streams_under(relid, true))
	{
		Oid			stream = lfirst_oid(cell);
		const char *column = event_time_option(stream);

		if (column != NULL && strcmp(column, stmt->subname) == 0 &&
			get_attnum(stream, stmt->subname) == InvalidAttrNumber &&
			get_attnum(stream, stmt->newname) != InvalidAttrNumber)
			set_event_time_option(stream, stmt->newname);
	}
}

/*
 * Errors out if a stream holds events with values of "type" as text, which
 * would not be read back.
 */
static void
refuse_type_change(Oid type)
{
	ListCell   *cell;

	if (!OidIsValid(type))
		return;
	foreach(cell, registry_list(NULL, true))
	{
		Oid			relid = lfirst_oid(cell);
		const StreamInfo *info = stream_lookup(relid, true);

		for (int i = 0; info != NULL && i < info->storage.stored->natts; i++)
		{
			AttrNumber	attnum = info->columns[i].attnum;
			RegistryEntry entry;

			if (!info->columns[i].as_text || !type_involves(get_atttype(relid, attnum), type))
				continue;
			LockRelationOid(relid, ShareLock);
			if (!registry_read(relid, &entry) || !storage_holds_packed(relid, &entry))
				break;
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot alter type %s because stored events of stream \"%s\" use it",
							format_type_be(type), get_rel_name(relid)),
					 errdetail("Column \"%s\" is stored as text.",
							   get_attname(relid, attnum, false)),
					 errhint("TRUNCATE the stream first.")));
		}
	}
}

/* After ALTER TYPE of a composite type. */
static void
altered_composite_type(AlterTableStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);

	CommandCounterIncrement();
	if (OidIsValid(relid))
		refuse_type_change(get_rel_type_id(relid));
}

/* After ALTER TYPE ... RENAME VALUE. Adding one is harmless. */
static void
altered_enum(AlterEnumStmt *stmt)
{
	CommandCounterIncrement();
	if (stmt->oldVal != NULL)
		refuse_type_change(typenameTypeId(NULL, makeTypeNameFromNameList(stmt->typeName)));
}

/* True for REFRESH MATERIALIZED VIEW aion.restored. */
static bool
refreshes_restored(Node *parsetree)
{
	Oid			relid;

	if (!IsA(parsetree, RefreshMatViewStmt))
		return false;
	relid = RangeVarGetRelid(castNode(RefreshMatViewStmt, parsetree)->relation, NoLock, true);
	return OidIsValid(relid) && relid == extension_relation("restored");
}

/* True for the statements that this file has something to do for. */
static bool
statement_matters(Node *parsetree)
{
	switch (nodeTag(parsetree))
	{
		case T_CreateForeignTableStmt:
		case T_AlterTableStmt:
		case T_AlterEnumStmt:
		case T_RefreshMatViewStmt:
			break;
		case T_RenameStmt:
			if (((RenameStmt *) parsetree)->renameType != OBJECT_COLUMN)
				return false;
			break;
		default:
			return false;
	}
	/* the server refuses them all in a read-only transaction, and with that on a standby */
	return !XactReadOnly && !IsBinaryUpgrade && extension_installed();
}

/* What is to be done once the server has executed the statement. */
static void
after_statement(Node *parsetree, AlterWatch *watch)
{
	switch (nodeTag(parsetree))
	{
		case T_CreateForeignTableStmt:
			created_foreign_table((CreateForeignTableStmt *) parsetree);
			break;
		case T_AlterTableStmt:
			if (((AlterTableStmt *) parsetree)->objtype == OBJECT_TYPE)
				altered_composite_type((AlterTableStmt *) parsetree);
			else
				alter_watch_end(watch, (AlterTableStmt *) parsetree);
			break;
		case T_RenameStmt:
			renamed_column((RenameStmt *) parsetree);
			break;
		case T_AlterEnumStmt:
			altered_enum((AlterEnumStmt *) parsetree);
			break;
		case T_RefreshMatViewStmt:
			if (refreshes_restored(parsetree))
				adopt_restored();
			break;
		default:
			break;
	}
}

/* ProcessUtility hook. */
static void
stream_process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
					   ProcessUtilityContext context, ParamListInfo params,
					   QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *parsetree = pstmt->utilityStmt;
	bool		matters = statement_matters(parsetree);
	AlterWatch *watch = NULL;

	/* pg_upgrade has that done, too, which the server can't while it is told which OIDs to give */
	if (IsBinaryUpgrade && refreshes_restored(parsetree))
		return;
	if (matters)
	{
		/*
		 * The server may scribble on the tree it is given; look at an own copy
		 * afterwards.
		 */
		parsetree = copyObject(parsetree);
		if (IsA(parsetree, AlterTableStmt) &&
			(((AlterTableStmt *) parsetree)->objtype == OBJECT_TABLE ||
			 ((AlterTableStmt *) parsetree)->objtype == OBJECT_FOREIGN_TABLE))
			watch = alter_watch_begin((AlterTableStmt *) parsetree);
	}

	if (next_process_utility)
		next_process_utility(pstmt, query_string, read_only_tree, context, params,
							 query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
								query_env, dest, qc);

	if (matters)
		after_statement(parsetree, watch);
	/* what the other session's transaction had changed, definitions among it, is in force only now */
	if (IsA(parsetree, TransactionStmt) &&
		((TransactionStmt *) parsetree)->kind == TRANS_STMT_COMMIT_PREPARED &&
		stream_wake_hook && !IsBinaryUpgrade && extension_installed())
		stream_wake_hook();
}

/* A column of a stream is about to be dropped. */
static void
dropping_column(Oid relid, AttrNumber attnum)
{
	const StreamInfo *info = stream_lookup(relid, false);
	RegistryEntry entry;

	if (attnum == info->time_attnum)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop column \"%s\" of stream \"%s\" because it is its event time",
						get_attname(relid, attnum, false), get_rel_name(relid)),
				 errhint("Name another column in option \"event_time\" first, or drop the stream.")));
	if (stored_column_position(info, attnum) == 0 ||
		!registry_read(relid, &entry) || !entry.exists)
		return;
	stream_check_home(info);
	if (storage_holds_packed(relid, &entry))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot drop column \"%s\" of stream \"%s\"",
						get_attname(relid, attnum, false), get_rel_name(relid)),
				 errdetail("The stream holds events that store it."),
				 errhint("TRUNCATE the stream first.")));
	/* Positions in it would no longer be right, and nothing needs it. */
	storage_delete_added_columns(relid);
}

/* Object-access hook; the locks that a drop needs are held. */
static void
stream_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_object_access)
		next_object_access(access, class_id, object_id, sub_id, arg);

	if (access != OAT_DROP || class_id != RelationRelationId || IsBinaryUpgrade ||
		get_rel_relkind(object_id) != RELKIND_FOREIGN_TABLE || !stream_is_stream(object_id))
		return;

	if (sub_id != 0)
		dropping_column(object_id, sub_id);
	else
	{
		storage_delete_rows(object_id);
		stream_definitions_changed();
	}
}

/* Called once, from _PG_init. */
void
stream_ddl_init(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = stream_process_utility;
	next_object_access = object_access_hook;
	object_access_hook = stream_object_access;
	live_tables_init();
}
