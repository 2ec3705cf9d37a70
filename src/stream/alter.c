/*
 * alter.c
 *	  ALTER FOREIGN TABLE, and ALTER TABLE of whatever streams inherit from.
 *
 * What a statement changed is found by comparing, not by reading it: each
 * stream that it may reach is noted before the server executes it and compared
 * afterwards, so recursion, IF NOT EXISTS and merged definitions need no care.
 * In this order: the new options and the event time; options that are fixed
 * while there are events; columns of another type or expression; added
 * columns; new constraints against stored events. Any error undoes the whole
 * statement.
 *
 * Dropped columns are not seen to here, but by the object-access hook (ddl.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "stream/registry.h"

/* One stream as it was before the statement. */
typedef struct WatchedStream
{
	Oid			relid;
	bool		has_storage;
	RegistryEntry entry;		/* if it has */
	AttrNumber	time_attnum;	/* 0: option and columns didn't fit */
	TupleDesc	desc;
	List	   *constraints;	/* OIDs of valid CHECK constraints */
} WatchedStream;

struct AlterWatch
{
	List	   *streams;		/* of WatchedStream */
};

/*
 * Streams among relid and, with "recurse", what inherits from it. Takes no
 * locks, so one may be dropped before it is locked.
 */
List *
streams_under(Oid relid, bool recurse)
{
	List	   *relids = list_make1_oid(relid);
	List	   *result = NIL;
	ListCell   *cell;

	if (recurse && has_subclass(relid))
		relids = find_all_inheritors(relid, NoLock, NULL);
	foreach(cell, relids)
		if (stream_is_stream(lfirst_oid(cell)))
			result = lappend_oid(result, lfirst_oid(cell));

	return result;
}

/* Number of the column that the option event_time names now; 0 if there is none. */
static AttrNumber
current_time_attnum(Oid relid)
{
	ListCell   *cell;

	foreach(cell, GetForeignTable(relid)->options)
	{
		DefElem    *def = (DefElem *) lfirst(cell);

		if (strcmp(def->defname, "event_time") == 0)
			return get_attnum(relid, defGetString(def));
	}
	return InvalidAttrNumber;
}

/*
 * Notes how a stream is now. The caller has locked it. One that is being restored keeps its columns and options, which
 * its data goes by that may be still to come; constraints may be a part of the restore.
 */
static WatchedStream *
watch_stream(Oid relid, bool changes_columns)
{
	WatchedStream *stream = palloc0(sizeof(WatchedStream));
	Relation	rel = table_open(relid, NoLock);

	stream->relid = relid;
	stream->has_storage = registry_read(relid, &stream->entry) && stream->entry.exists;
	if (changes_columns && stream->has_storage && stream->entry.elsewhere)
		stream_check_home(stream_lookup(relid, false));
	stream->time_attnum = current_time_attnum(relid);
	stream->desc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
	stream->constraints = stored_check_constraints(relid);
	table_close(rel, NoLock);

	return stream;
}

/* True if a command of this kind can concern what this file looks at. */
static bool
command_matters(AlterTableType subtype)
{
	if (subtype == AT_SetExpression)	/* not in every version's enum */
		return true;
	switch (subtype)
	{
		case AT_AddColumn:
		case AT_SetNotNull:
		case AT_AddConstraint:
		case AT_ValidateConstraint:
		case AT_AlterColumnType:
		case AT_GenericOptions:
			return true;
		default:
			return false;
	}
}

/* True if a command of this kind can change what events are made of, or the options. */
static bool
command_changes_columns(AlterTableType subtype)
{
	return subtype == AT_SetExpression || subtype == AT_AddColumn || subtype == AT_AlterColumnType ||
		subtype == AT_GenericOptions;
}

/*
 * Called before the server executes the statement; NULL if there is nothing to
 * watch. Takes the locks that the server will take, after its permission
 * checks, on the relation and on each stream below it.
 */
AlterWatch *
alter_watch_begin(AlterTableStmt *stmt)
{
	AlterWatch *watch;
	bool		matters = false;
	bool		changes_columns = false;
	LOCKMODE	lockmode;
	Oid			relid;
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableType subtype = ((AlterTableCmd *) lfirst(cell))->subtype;

		matters |= command_matters(subtype);
		changes_columns |= command_changes_columns(subtype);
	}
	if (!matters)
		return NULL;
	lockmode = AlterTableGetLockLevel(stmt->cmds);
	relid = AlterTableLookupRelation(stmt, lockmode);
	if (!OidIsValid(relid))
		return NULL;

	watch = palloc0(sizeof(AlterWatch));
	foreach(cell, streams_under(relid, stmt->relation->inh))
	{
		Oid			stream = lfirst_oid(cell);

		LockRelationOid(stream, lockmode);
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(stream)))
			watch->streams = lappend(watch->streams, watch_stream(stream, changes_columns));
	}

	return watch->streams == NIL ? NULL : watch;
}

/*
 * Options that are fixed while there are events. A stream without any gets new
 * storage that goes with them. Returns true if it did. The type of the event
 * time is fixed for good once there is storage, because views may be over it.
 */
static bool
check_fixed_options(WatchedStream *before, const StreamInfo *info)
{
	const char *option = NULL;
	int64		width = info->options.bucket_width;

	if (before->time_attnum != InvalidAttrNumber &&
		TupleDescAttr(before->desc, before->time_attnum - 1)->atttypid !=
		(info->time_is_timestamp ? TIMESTAMPOID : TIMESTAMPTZOID))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the type of the event time of stream \"%s\"",
						get_rel_name(info->relid)),
				 errdetail("Results of its views have the type that it had at first."),
				 errhint("Drop the stream and create it anew.")));

	if (width == 0)
		width = before->entry.bucket_width;
	if (info->time_attnum != before->time_attnum)
		option = "event_time";
	else if (width != before->entry.bucket_width)
		option = "bucket_width";
	else if (info->options.durable != before->entry.durable)
		option = "durable";
	if (option == NULL)
		return false;

	if (!storage_is_new(info->relid, &before->entry))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change option \"%s\" of stream \"%s\"",
						option, get_rel_name(info->relid)),
				 errdetail("It is fixed from the stream's first event on."),
				 errhint("TRUNCATE the stream first.")));
	storage_replace(info->relid, &before->entry, width, info->options.durable);
	return true;
}

/* Columns that were stored and have another type now. */
static void
check_retyped(WatchedStream *before, Relation rel)
{
	for (int i = 0; i < before->desc->natts; i++)
	{
		Form_pg_attribute old = TupleDescAttr(before->desc, i);
		Form_pg_attribute new = TupleDescAttr(RelationGetDescr(rel), i);

		if (old->attisdropped || attribute_is_virtual(old) ||
			(old->atttypid == new->atttypid && old->atttypmod == new->atttypmod &&
			 old->attcollation == new->attcollation))
			continue;
		if (storage_holds_packed(before->relid, &before->entry))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot change the type of column \"%s\" of stream \"%s\"",
							NameStr(new->attname), RelationGetRelationName(rel)),
					 errdetail("The stream holds events that were stored with the old type."),
					 errhint("Add a column of the new type, or TRUNCATE the stream first.")));
		storage_delete_added_columns(before->relid);
	}
}

/* The expression of a column if it is a stored generated one; otherwise NULL. */
static const char *
stored_expression(TupleDesc desc, int i)
{
	if (TupleDescAttr(desc, i)->attgenerated != ATTRIBUTE_GENERATED_STORED)
		return NULL;
	for (int d = 0; d < desc->constr->num_defval; d++)
		if (desc->constr->defval[d].adnum == i + 1)
			return desc->constr->defval[d].adbin;
	return NULL;
}

/* Stored generated columns that have another expression now. The server would compute them anew in a table of its own. */
static void
check_expressions(WatchedStream *before, Relation rel)
{
	for (int i = 0; i < before->desc->natts; i++)
	{
		const char *old = stored_expression(before->desc, i);
		const char *new = stored_expression(RelationGetDescr(rel), i);

		if (old != NULL && new != NULL && strcmp(old, new) != 0 &&
			storage_holds_packed(before->relid, &before->entry))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot change the expression of column \"%s\" of stream \"%s\"",
							NameStr(TupleDescAttr(before->desc, i)->attname),
							RelationGetRelationName(rel)),
					 errdetail("The stream holds events that were stored with values of the old one."),
					 errhint("TRUNCATE the stream first.")));
	}
}

/* Records the columns that the stream has got. */
static void
record_added(WatchedStream *before, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = before->desc->natts; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || attribute_is_virtual(att))
			continue;
		if (!storage_holds_packed(before->relid, &before->entry))
			return;
		added_column_record(rel, att->attnum,
							stored_column_position(stream_lookup(before->relid, false),
												   att->attnum));
	}
}

/* Compares one stream with how it was. */
static void
check_stream(WatchedStream *before)
{
	const StreamInfo *info = stream_lookup(before->relid, false);
	Relation	rel;

	stream_definitions_changed();
	if (!before->has_storage || check_fixed_options(before, info))
		return;

	rel = table_open(before->relid, NoLock);
	check_retyped(before, rel);
	check_expressions(before, rel);
	record_added(before, rel);
	table_close(rel, NoLock);
	CommandCounterIncrement();

	rel = table_open(before->relid, NoLock);
	if (storage_holds_events(before->relid, &before->entry))
		stored_check_new(rel, before->desc, before->constraints);
	table_close(rel, NoLock);
}

/* The streams that ALTER TABLE ... ATTACH PARTITION made partitions. */
static void
check_attached(AlterTableCmd *cmd)
{
	RangeVar   *name = ((PartitionCmd *) cmd->def)->name;
	Oid			relid = RangeVarGetRelid(name, NoLock, true);
	ListCell   *cell;

	if (!OidIsValid(relid))
		return;
	foreach(cell, streams_under(relid, true))
	{
		RegistryEntry entry;

		if (registry_read(lfirst_oid(cell), &entry) && entry.exists &&
			storage_holds_events(lfirst_oid(cell), &entry))
			stored_check_partition(lfirst_oid(cell));
	}
}

/* Called after the server executed the statement. "watch" may be NULL. */
void
alter_watch_end(AlterWatch *watch, AlterTableStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = (AlterTableCmd *) lfirst(cell);

		if (cmd->subtype == AT_AttachPartition)
		{
			CommandCounterIncrement();
			check_attached(cmd);
		}
	}
	if (watch == NULL)
		return;
	CommandCounterIncrement();
	foreach(cell, watch->streams)
		check_stream((WatchedStream *) lfirst(cell));
}
