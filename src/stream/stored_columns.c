/*
 * stored_columns.c
 *	  Which columns of a stream are stored, and in which form.
 *
 * A packed event outlives what a heap tuple would not: it is dumped as bytes
 * and read back in another database, where the OIDs of user-made types differ.
 * So a column whose stored form would contain an OID (enum, composite, reg*,
 * arrays and ranges over such or over user-made types) is stored as its text.
 * All others are stored as they are. Columns computed on read (virtual
 * generated ones) are not stored at all.
 *
 * An event that was packed before a column was added has no such attribute.
 * What it shows then was recorded in aion.added_column when the column came,
 * and is put into the descriptor as its "missing" value, as the server does
 * for its own tables.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "compat.h"
#include "stream/extension.h"
#include "stream/registry.h"

/* Columns of aion.added_column. */
enum
{
	ADDED_STREAM = 1,
	ADDED_POSITION,
	ADDED_VALUE
};

/* True for a column that is computed on read ('v' exists from version 18 on). */
bool
attribute_is_virtual(Form_pg_attribute att)
{
	return att->attgenerated == 'v';
}

/* True if values of "type" contain OIDs that mean nothing in another database. */
bool
type_holds_oids(Oid type)
{
	Oid			element;

	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case ACLITEMOID:
			return true;
	}

	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			return type_holds_oids(getBaseType(type));
		case TYPTYPE_ENUM:
		case TYPTYPE_COMPOSITE:
		case TYPTYPE_PSEUDO:
			return true;
		case TYPTYPE_RANGE:
			return type >= FirstNormalObjectId || type_holds_oids(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return type >= FirstNormalObjectId || type_holds_oids(get_multirange_range(type));
	}

	element = get_element_type(type);
	return OidIsValid(element) &&
		(element >= FirstNormalObjectId || type_holds_oids(element));
}

/* True if values of "type" are of a domain, or have values of one in them at any depth. */
bool
type_holds_domain(Oid type)
{
	TupleDesc	desc;
	bool		result = false;

	check_stack_depth();
	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			return true;
		case TYPTYPE_RANGE:
			return type_holds_domain(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return type_holds_domain(get_multirange_range(type));
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(type, -1);
			for (int i = 0; i < desc->natts && !result; i++)
				result = !TupleDescAttr(desc, i)->attisdropped &&
					type_holds_domain(TupleDescAttr(desc, i)->atttypid);
			ReleaseTupleDesc(desc);
			return result;
	}
	type = get_element_type(type);
	return OidIsValid(type) && type_holds_domain(type);
}

/* type_involves() for the columns of a composite type. */
static bool
composite_involves(Oid type, Oid part)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	bool		result = false;

	for (int i = 0; i < desc->natts && !result; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		result = !att->attisdropped && type_involves(att->atttypid, part);
	}
	ReleaseTupleDesc(desc);

	return result;
}

/* True if "type" is "part", or is made of it at any depth. */
bool
type_involves(Oid type, Oid part)
{
	Oid			element;

	check_stack_depth();
	if (type == part)
		return true;
	if (type < FirstNormalObjectId)
		return false;

	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			return type_involves(getBaseType(type), part);
		case TYPTYPE_COMPOSITE:
			return composite_involves(type, part);
		case TYPTYPE_RANGE:
			return type_involves(get_range_subtype(type), part);
		case TYPTYPE_MULTIRANGE:
			return type_involves(get_multirange_range(type), part);
	}

	element = get_element_type(type);
	return OidIsValid(element) && type_involves(element, part);
}

/* True for the types that an event time may have. */
static bool
is_event_time_type(Oid type)
{
	return type == TIMESTAMPTZOID || type == TIMESTAMPOID;
}

/* Hint that lists the columns which could be the event time. */
static char *
event_time_hint(TupleDesc desc)
{
	StringInfoData hint;
	int			n = 0;

	initStringInfo(&hint);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || !is_event_time_type(att->atttypid) || attribute_is_virtual(att))
			continue;
		appendStringInfo(&hint, "%s\"%s\"", n++ == 0 ? "Columns that can be it: " : ", ",
						 NameStr(att->attname));
	}
	appendStringInfoString(&hint, n > 0 ? "." :
						   "The foreign table has no column of type timestamp with time zone or timestamp; it needs one.");

	return hint.data;
}

/*
 * Number of the column "name" if it can be the event time of "rel"; errors out
 * otherwise, with a hint that lists the columns that can.
 */
AttrNumber
stream_event_time_column(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Form_pg_attribute att = NULL;

	for (int i = 0; i < desc->natts && att == NULL; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped &&
			strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0)
			att = TupleDescAttr(desc, i);
	}
	if (att == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" named by option \"event_time\" of stream \"%s\" does not exist",
						name, RelationGetRelationName(rel)),
				 errhint("%s", event_time_hint(desc))));
	if (!is_event_time_type(att->atttypid))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" cannot be the event time of stream \"%s\"",
						name, RelationGetRelationName(rel)),
				 errdetail("It is of type %s, not timestamp with time zone or timestamp.",
						   format_type_be(att->atttypid)),
				 errhint("%s", event_time_hint(desc))));
	if (attribute_is_virtual(att))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("column \"%s\" cannot be the event time of stream \"%s\"",
						name, RelationGetRelationName(rel)),
				 errdetail("It is a virtual generated column, which is not stored."),
				 errhint("%s", event_time_hint(desc))));

	return att->attnum;
}

/* Position of column "attnum" among the stored ones, from 1; 0 if it is not stored. */
int
stored_column_position(const StreamInfo *info, AttrNumber attnum)
{
	for (int i = 0; i < info->storage.stored->natts; i++)
		if (info->columns[i].attnum == attnum)
			return i + 1;
	return 0;
}

/*
 * The stored form of a recorded value: its text, or what the type's input
 * function makes of it.
 */
static Datum
read_added_value(Form_pg_attribute att, bool as_text, char *value)
{
	int32		typmod = att->atttypmod;
	Oid			base;
	Oid			input;
	Oid			param;

	if (as_text)
		return CStringGetTextDatum(value);

	/* A domain's constraints were checked when the column was added. */
	base = getBaseTypeAndTypmod(att->atttypid, &typmod);
	getTypeInputInfo(base, &input, &param);
	return OidInputFunctionCall(input, value, param, typmod);
}

/* Notes in "stored" that attribute "position" shows "value" where an event lacks it. */
static void
set_missing(TupleDesc stored, int position, Datum value)
{
	Form_pg_attribute att = TupleDescAttr(stored, position - 1);

	if (stored->constr == NULL)
	{
		stored->constr = palloc0(sizeof(TupleConstr));
		stored->constr->missing = palloc0(stored->natts * sizeof(AttrMissing));
	}
	stored->constr->missing[position - 1].am_present = true;
	stored->constr->missing[position - 1].am_value =
		datumCopy(value, att->attbyval, att->attlen);
	att->atthasmissing = true;
	populate_compact_attribute(stored, position - 1);
}

/* Fills in what events show that were packed before a column was added. */
static void
load_added_columns(Relation rel, StreamInfo *info)
{
	TupleDesc	stored = info->storage.stored;
	ExtensionScan scan;
	HeapTuple	tuple;
	int			level;

	if (!extension_scan_begin(&scan, "added_column", "added_column_pkey", ADDED_STREAM,
							  info->relid, AccessShareLock))
		return;

	level = extension_pin_output();
	while ((tuple = extension_scan_next(&scan)) != NULL)
	{
		TupleDesc	desc = RelationGetDescr(scan.rel);
		bool		isnull;
		int			position;
		Datum		value;
		StoredColumn *column;

		position = DatumGetInt32(heap_getattr(tuple, ADDED_POSITION, desc, &isnull));
		value = heap_getattr(tuple, ADDED_VALUE, desc, &isnull);
		if (isnull || position < 1 || position > stored->natts)
			continue;
		column = &info->columns[position - 1];
		/* A short tuple, copied as it is, would lose its missing values. */
		info->identity = false;
		set_missing(stored, position,
					read_added_value(TupleDescAttr(RelationGetDescr(rel), column->attnum - 1),
									 column->as_text, TextDatumGetCString(value)));
	}
	extension_scan_end(&scan);
	AtEOXact_GUC(false, level);
}

/*
 * Fills in columns, storage.stored, storage.time_att and identity of "info",
 * in the current memory context. relid, has_storage and time_attnum are set
 * already. The caller holds a lock on "rel".
 */
void
stored_columns_build(Relation rel, StreamInfo *info)
{
	TupleDesc	desc = RelationGetDescr(rel);
	TupleDesc	stored;
	int			n = 0;

	info->columns = palloc0(Max(desc->natts, 1) * sizeof(StoredColumn));
	info->identity = true;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		StoredColumn *column = &info->columns[n];

		if (att->attisdropped || attribute_is_virtual(att))
		{
			info->identity = false;
			continue;
		}
		column->attnum = att->attnum;
		column->as_text = type_holds_oids(att->atttypid);
		if (column->as_text)
			info->identity = false;
		if (att->attnum == info->time_attnum)
			info->storage.time_att = n + 1;
		n++;
	}

	stored = CreateTemplateTupleDesc(n);
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, info->columns[i].attnum - 1);

		if (info->columns[i].as_text)
			TupleDescInitEntry(stored, i + 1, NameStr(att->attname), TEXTOID, -1, 0);
		else
			TupleDescCopyEntry(stored, i + 1, desc, att->attnum);
	}
	info->storage.stored = stored;

	if (info->has_storage)
		load_added_columns(rel, info);
}
