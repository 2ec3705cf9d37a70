/*
 * unpack.c
 *	  From stored columns to rows of the stream, and back.
 *
 * For most streams the two are the same. They differ where columns were dropped
 * or are computed on read, and where a column is stored as text because its own
 * stored form would contain OIDs. Text is written and read with all settings
 * pinned that types look at, whoever the user is.
 *
 * Domains checked their values when these came; reading executes no check, as it
 * doesn't with a table. The owner's code would have the reader's rights, and a check
 * that was added since would make events unreadable. So text is given to the input
 * functions of base types alone, at any depth: where an array or a row has domains
 * in it, it is taken apart by the server's own input function as an array or row of
 * base types, or of text for what has to be taken apart further. Only ranges over
 * domains are left to their input function, which acts as the stream's owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "store/event.h"
#include "stream/extension.h"
#include "stream/registry.h"
#include "stream/unpack.h"

/* Reads the text of values of one type. */
typedef struct TextReader
{
	Oid			type;			/* no domain */
	FmgrInfo	input;
	Oid			ioparam;
	int32		typmod;
	/* if the parts are domains, or have any in them: */
	struct TextReader **parts;	/* an array's elements, a row's columns; NULL: nothing to do */
	Oid			element;		/* an array's */
	int			nparts;			/* a row's, like all below */
	TupleDesc	desc;
	TupleDesc	desc_read;		/* of the columns that are not dropped */
} TextReader;

typedef struct TextColumn
{
	FmgrInfo	output;
	TextReader *reader;
} TextColumn;

struct RowConverter
{
	Oid			stream;
	int			ncolumns;		/* stored ones when this was made */
	StoredColumn *columns;
	bool	   *wanted;			/* by stored column */
	TextColumn **text;			/* by stored column; NULL: stored as it is */
	bool		any_text;
	bool		any_checks;		/* are executed on reading */
};

/* Parts that have to be taken apart themselves are read as text first. */
static Oid
part_read_as(const TextReader *part)
{
	return part->parts ? TEXTOID : part->type;
}

static int32
part_typmod(const TextReader *part)
{
	return part->parts ? -1 : part->typmod;
}

static TextReader *text_reader(Oid type, int32 typmod, bool *checks);

/* The element type is in the place of the array type's own. */
static void
prepare_array(TextReader *reader, bool *checks)
{
	reader->nparts = 1;
	reader->parts = palloc(sizeof(TextReader *));
	reader->parts[0] = text_reader(reader->element, -1, checks);
	reader->ioparam = part_read_as(reader->parts[0]);
	reader->typmod = part_typmod(reader->parts[0]);
}

static void
prepare_row(TextReader *reader, bool *checks)
{
	int			n = 0;

	reader->desc = lookup_rowtype_tupdesc_copy(reader->type, -1);
	reader->parts = palloc0(sizeof(TextReader *) * Max(reader->desc->natts, 1));
	for (int i = 0; i < reader->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(reader->desc, i);

		if (!att->attisdropped)
			reader->parts[reader->nparts++] = text_reader(att->atttypid, att->atttypmod, checks);
	}
	reader->desc_read = CreateTemplateTupleDesc(reader->nparts);
	for (; n < reader->nparts; n++)
		TupleDescInitEntry(reader->desc_read, n + 1, NULL, part_read_as(reader->parts[n]),
						   part_typmod(reader->parts[n]), 0);
	BlessTupleDesc(reader->desc_read);
	reader->ioparam = reader->desc_read->tdtypeid;
	reader->typmod = reader->desc_read->tdtypmod;
}

/* Sets *checks if reading does execute checks of domains. */
static TextReader *
text_reader(Oid type, int32 typmod, bool *checks)
{
	TextReader *reader = palloc0(sizeof(TextReader));
	Oid			function;

	check_stack_depth();
	reader->type = getBaseTypeAndTypmod(type, &typmod);
	reader->typmod = typmod;
	getTypeInputInfo(reader->type, &function, &reader->ioparam);
	fmgr_info(function, &reader->input);
	if (!type_holds_domain(reader->type))
		return reader;
	reader->element = get_element_type(reader->type);
	if (OidIsValid(reader->element))
		prepare_array(reader, checks);
	else if (get_typtype(reader->type) == TYPTYPE_COMPOSITE)
		prepare_row(reader, checks);
	else
		*checks = true;
	return reader;
}

static Datum read_text(TextReader *reader, char *text);

/* A part as it was read, made what it is. */
static Datum
read_part(TextReader *part, Datum value)
{
	return part->parts ? read_text(part, TextDatumGetCString(value)) : value;
}

static Datum
read_array(TextReader *reader, ArrayType *array)
{
	TextReader *part = reader->parts[0];

	if (part->parts)
	{
		Datum	   *values;
		bool	   *isnull;
		int			n;
		int16		length;
		bool		by_value;
		char		align;

		deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &isnull, &n);
		for (int i = 0; i < n; i++)
			if (!isnull[i])
				values[i] = read_part(part, values[i]);
		get_typlenbyvalalign(reader->element, &length, &by_value, &align);
		array = construct_md_array(values, isnull, ARR_NDIM(array), ARR_DIMS(array), ARR_LBOUND(array),
								   reader->element, length, by_value, align);
	}
	ARR_ELEMTYPE(array) = reader->element;
	return PointerGetDatum(array);
}

static Datum
read_row(TextReader *reader, HeapTupleHeader row)
{
	int			natts = reader->desc->natts;
	Datum	   *values = palloc0(sizeof(Datum) * Max(natts, 1));
	bool	   *isnull = palloc(sizeof(bool) * Max(natts, 1));
	Datum	   *read = palloc(sizeof(Datum) * Max(natts, 1));
	bool	   *read_isnull = palloc(sizeof(bool) * Max(natts, 1));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row),.t_data = row};
	int			n = 0;

	ItemPointerSetInvalid(&tuple.t_self);
	heap_deform_tuple(&tuple, reader->desc_read, read, read_isnull);
	for (int i = 0; i < natts; i++)
	{
		isnull[i] = TupleDescAttr(reader->desc, i)->attisdropped || read_isnull[n];
		if (!isnull[i])
			values[i] = read_part(reader->parts[n], read[n]);
		if (!TupleDescAttr(reader->desc, i)->attisdropped)
			n++;
	}
	return HeapTupleGetDatum(heap_form_tuple(reader->desc, values, isnull));
}

static Datum
read_text(TextReader *reader, char *text)
{
	Datum		value = InputFunctionCall(&reader->input, text, reader->ioparam, reader->typmod);

	check_stack_depth();
	if (reader->parts == NULL)
		return value;
	return reader->desc ? read_row(reader, DatumGetHeapTupleHeader(value)) :
		read_array(reader, DatumGetArrayTypeP(value));
}

static TextColumn *
text_column(Form_pg_attribute att, bool *checks)
{
	TextColumn *column = palloc(sizeof(TextColumn));
	Oid			function;
	bool		is_varlena;

	getTypeOutputInfo(att->atttypid, &function, &is_varlena);
	fmgr_info(function, &column->output);
	column->reader = text_reader(att->atttypid, att->atttypmod, checks);
	return column;
}

RowConverter *
row_converter_create(const StreamInfo *info, TupleDesc row_desc, const Bitmapset *wanted)
{
	RowConverter *converter = palloc0(sizeof(RowConverter));
	int			n = info->storage.stored->natts;

	converter->stream = info->relid;
	converter->ncolumns = n;
	converter->columns = palloc(sizeof(StoredColumn) * Max(n, 1));
	memcpy(converter->columns, info->columns, sizeof(StoredColumn) * n);
	converter->wanted = palloc0(sizeof(bool) * Max(n, 1));
	converter->text = palloc0(sizeof(TextColumn *) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		StoredColumn *column = &converter->columns[i];

		converter->wanted[i] = wanted == NULL || bms_is_member(column->attnum, wanted);
		if (!column->as_text || !converter->wanted[i])
			continue;
		converter->text[i] = text_column(TupleDescAttr(row_desc, column->attnum - 1),
										 &converter->any_checks);
		converter->any_text = true;
	}
	return converter;
}

void
row_from_stored(RowConverter *converter, TupleTableSlot *stored, TupleTableSlot *row)
{
	StreamOwnerSave save;
	int			guc_level;

	if (converter->any_checks)
		stream_become_owner(converter->stream, &save);
	guc_level = converter->any_text ? extension_pin_output() : 0;
	slot_getallattrs(stored);
	ExecClearTuple(row);
	memset(row->tts_isnull, true, row->tts_tupleDescriptor->natts);
	for (int i = 0; i < converter->ncolumns; i++)
	{
		int			attnum = converter->columns[i].attnum;
		TextColumn *column = converter->text[i];

		if (!converter->wanted[i] || stored->tts_isnull[i])
			continue;
		row->tts_isnull[attnum - 1] = false;
		row->tts_values[attnum - 1] = column == NULL ? stored->tts_values[i] :
			read_text(column->reader, TextDatumGetCString(stored->tts_values[i]));
	}
	ExecStoreVirtualTuple(row);
	if (converter->any_text)
		AtEOXact_GUC(true, guc_level);
	if (converter->any_checks)
		stream_become_self(&save);
}

void
row_to_stored(RowConverter *converter, TupleTableSlot *row, Datum *values, bool *isnull)
{
	int			guc_level = converter->any_text ? extension_pin_output() : 0;

	slot_getallattrs(row);
	for (int i = 0; i < converter->ncolumns; i++)
	{
		int			attnum = converter->columns[i].attnum;
		TextColumn *column = converter->text[i];

		values[i] = row->tts_values[attnum - 1];
		isnull[i] = row->tts_isnull[attnum - 1];
		if (column && !isnull[i])
			values[i] = CStringGetTextDatum(OutputFunctionCall(&column->output, values[i]));
	}
	if (converter->any_text)
		AtEOXact_GUC(true, guc_level);
}

struct EventReader
{
	const StreamInfo *info;
	RowConverter *converter;
	TupleTableSlot *stored;
	TupleTableSlot *row;
};

EventReader *
event_reader_create(const StreamInfo *info, TupleDesc row_desc)
{
	EventReader *reader = palloc(sizeof(EventReader));

	reader->info = info;
	reader->converter = row_converter_create(info, row_desc, NULL);
	reader->stored = MakeSingleTupleTableSlot(info->storage.stored, &TTSOpsVirtual);
	reader->row = MakeSingleTupleTableSlot(row_desc, &TTSOpsVirtual);
	return reader;
}

TupleTableSlot *
event_reader_row(EventReader *reader, const Event *event)
{
	ExecClearTuple(reader->stored);
	event_deform(reader->info->layout, event, reader->info->storage.stored->natts,
				 reader->stored->tts_values, reader->stored->tts_isnull);
	ExecStoreVirtualTuple(reader->stored);
	row_from_stored(reader->converter, reader->stored, reader->row);
	return reader->row;
}

void
event_reader_free(EventReader *reader)
{
	ExecDropSingleTupleTableSlot(reader->row);
	ExecDropSingleTupleTableSlot(reader->stored);
	pfree(reader);
}

/* The caller holds a lock on the stream. */
Datum
stream_event_to_jsonb(const StreamInfo *info, const Event *event)
{
	TupleDesc	row_desc = lookup_rowtype_tupdesc_copy(get_rel_type_id(info->relid), -1);
	EventReader *reader = event_reader_create(info, row_desc);
	StreamOwnerSave save;
	int			guc_level;
	Datum		json;

	/* types of the owner's have casts to json, and checks */
	stream_become_owner(info->relid, &save);
	guc_level = extension_pin_output();
	json = DirectFunctionCall1(row_to_json, ExecFetchSlotHeapTupleDatum(event_reader_row(reader, event)));
	json = DirectFunctionCall1(jsonb_in, CStringGetDatum(TextDatumGetCString(json)));
	AtEOXact_GUC(true, guc_level);
	stream_become_self(&save);
	/* not null, as they are in the row, but not part of the event */
	for (int i = 0; i < row_desc->natts; i++)
		if (attribute_is_virtual(TupleDescAttr(row_desc, i)))
			json = DirectFunctionCall2(jsonb_delete, json,
									   CStringGetTextDatum(NameStr(TupleDescAttr(row_desc, i)->attname)));
	event_reader_free(reader);
	return json;
}
