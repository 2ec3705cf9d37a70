/*
 * unpack.c
 *	  From stored columns to rows of the stream, and back.
 *
 * For most streams the two are the same. They differ where columns were dropped
 * or are computed on read, and where a column is stored as text because its own
 * stored form would contain OIDs. Text is written and read with all settings
 * pinned that types look at, whoever the user is.
 */
#include "postgres.h"

#include "executor/executor.h"
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

typedef struct TextColumn
{
	FmgrInfo	input;
	FmgrInfo	output;
	Oid			ioparam;
	int32		typmod;
} TextColumn;

struct RowConverter
{
	int			ncolumns;		/* stored ones when this was made */
	StoredColumn *columns;
	bool	   *wanted;			/* by stored column */
	TextColumn **text;			/* by stored column; NULL: stored as it is */
	bool		any_text;
};

static TextColumn *
text_column(Form_pg_attribute att)
{
	TextColumn *column = palloc0(sizeof(TextColumn));
	Oid			function;
	bool		is_varlena;

	getTypeInputInfo(att->atttypid, &function, &column->ioparam);
	fmgr_info(function, &column->input);
	getTypeOutputInfo(att->atttypid, &function, &is_varlena);
	fmgr_info(function, &column->output);
	column->typmod = att->atttypmod;
	return column;
}

RowConverter *
row_converter_create(const StreamInfo *info, TupleDesc row_desc, const Bitmapset *wanted)
{
	RowConverter *converter = palloc0(sizeof(RowConverter));
	int			n = info->storage.stored->natts;

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
		converter->text[i] = text_column(TupleDescAttr(row_desc, column->attnum - 1));
		converter->any_text = true;
	}
	return converter;
}

void
row_from_stored(RowConverter *converter, TupleTableSlot *stored, TupleTableSlot *row)
{
	int			guc_level = converter->any_text ? extension_pin_output() : 0;

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
			InputFunctionCall(&column->input, TextDatumGetCString(stored->tts_values[i]),
							  column->ioparam, column->typmod);
	}
	ExecStoreVirtualTuple(row);
	if (converter->any_text)
		AtEOXact_GUC(true, guc_level);
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
