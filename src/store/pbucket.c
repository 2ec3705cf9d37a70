/*
 * pbucket.c
 *	  Writing, finding and reading the blocks of p-buckets.
 *
 * Blocks are ordinary rows under ordinary MVCC: they appear when the
 * transaction that moved their events out of the journal commits, so a snapshot
 * that does not see them still sees the journal's tuples.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/toast_internals.h"
#include "access/tupmacs.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "debug_point.h"
#include "store/block_memory.h"
#include "store/block_output.h"
#include "store/codec.h"
#include "store/directory.h"
#include "store/event.h"
#include "store/index_entries.h"
#include "store/pbucket.h"
#include "store/room.h"
#include "store/staged.h"
#include "store/wal_flush.h"
#include "store/yield.h"

#define PBUCKET_FEW_BLOCKS	4

/* Columns of a smaller block are not worth being fetched one by one. */
#define PROJECT_MIN_BYTES	(32 * 1024)

/* What is fetched to begin with: the directory, as a rule. Not less than that of a chunk is read for less. */
#define PROJECT_HEAD_BYTES	1024

static struct varlena *
row_data(HeapTuple row)
{
	return (struct varlena *) ((char *) GETSTRUCT(row) + sizeof(PBucketRow));
}

static void
codec_check(CodecStatus status, const StreamStorage *storage)
{
	if (status == CODEC_OK)
		return;
	ereport(ERROR,
			(errcode(status == CODEC_TOO_LARGE ? ERRCODE_PROGRAM_LIMIT_EXCEEDED :
					 ERRCODE_DATA_CORRUPTED),
			 errmsg("block of stream \"%s\" cannot be %s: %s",
					get_rel_name(storage->stream) ? get_rel_name(storage->stream) : "?",
					status == CODEC_TOO_LARGE ? "written" : "read",
					codec_status_text(status))));
}

static BlockColumnDesc *
column_descs(TupleDesc stored)
{
	BlockColumnDesc *descs = palloc(sizeof(BlockColumnDesc) * Max(stored->natts, 1));

	for (int i = 0; i < stored->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(stored, i);

		/* values of a fixed length that does not keep its alignment (timetz) need to be placed one by one */
		descs[i].width = att->attlen;
		if (att->attlen <= 0 || att->attlen != att_align_nominal(att->attlen, att->attalign))
			descs[i].width = BLOCK_VARIABLE;
		switch (att->attalign)
		{
			case TYPALIGN_DOUBLE:
				descs[i].align = 8;
				break;
			case TYPALIGN_INT:
				descs[i].align = 4;
				break;
			case TYPALIGN_SHORT:
				descs[i].align = 2;
				break;
			default:
				descs[i].align = 1;
		}
	}
	return descs;
}

/*
 * Writing
 */

struct PBucketWriter
{
	const StreamStorage *storage;
	StreamSlot *slot;			/* NULL: none */
	Relation	blocks;
	Relation	toast;			/* where their data goes */
	IndexEntries *indexes;
	EventLayout *layout;
	BlockEncoder *encoder;
	BlockOutput *output;		/* from the encoder to the table */
	CodecMemory memory;
	MemoryContext context;		/* of the writer */
	MemoryContext block_context;	/* reset after each block */
	Datum	   *values;
	bool	   *isnull;
	int64		bucket;			/* of the events in the encoder */
	EventTime	first;
	EventTime	last;
	int64		written;
};

PBucketWriter *
pbucket_writer_begin(const StreamStorage *storage)
{
	PBucketWriter *writer = palloc0(sizeof(PBucketWriter));

	writer->storage = storage;
	writer->slot = directory_slot(storage->journal, false, false);
	writer->context = CurrentMemoryContext;
	writer->block_context = AllocSetContextCreate(CurrentMemoryContext, "aion block",
												  ALLOCSET_DEFAULT_SIZES);
	writer->blocks = table_open(storage->blocks, RowExclusiveLock);
	writer->toast = table_open(writer->blocks->rd_rel->reltoastrelid, RowExclusiveLock);
	writer->indexes = index_entries_begin(writer->blocks);
	writer->layout = event_layout(storage);
	writer->memory = block_memory(CurrentMemoryContext);
	writer->encoder = block_encoder_create(storage->stored->natts, column_descs(storage->stored),
										   &writer->memory);
	writer->output = block_output_begin(writer->encoder, storage->compress);
	writer->values = palloc(sizeof(Datum) * Max(storage->stored->natts, PBUCKET_COLUMNS));
	writer->isnull = palloc(sizeof(bool) * Max(storage->stored->natts, PBUCKET_COLUMNS));
	return writer;
}

/* An id for a new block. */
static int64
draw_id(void)
{
	int64		id;

	if (!pg_strong_random(&id, sizeof(id)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not draw a random number for a block")));
	return id & PG_INT64_MAX;
}

/*
 * Copies a block just written for an execution that is foreseen: read from the table it would be there too late. If this
 * transaction is rolled back, nobody will ever ask for the copy.
 */
static void
stage_written(StreamSlot *slot, HeapTuple row)
{
	BlockColumns columns = staged_noted_columns(slot);
	Size		length;
	char	   *bytes = pbucket_bytes(row, &columns, &length);

	(void) staged_put(slot, PBUCKET_ROW(row)->bucket, PBUCKET_ROW(row)->id, STAGED_ANONYMOUS, columns, bytes, length);
}

static void
insert_block(PBucketWriter *writer, const BlockOutputRow *row, bytea *data)
{
	MemoryContext old = MemoryContextSwitchTo(writer->block_context);
	bool		isnull[PBUCKET_COLUMNS] = {false};
	Datum		values[PBUCKET_COLUMNS];
	HeapTuple	tuple;

	values[0] = Int64GetDatum(row->bucket);
	values[1] = Int64GetDatum(draw_id());
	values[2] = Int64GetDatum(row->first);
	values[3] = Int64GetDatum(row->last);
	values[4] = Int32GetDatum(row->nevents);
	values[5] = Int32GetDatum(row->raw_bytes);
	values[6] = PointerGetDatum(data);
	tuple = heap_form_tuple(RelationGetDescr(writer->blocks), values, isnull);
	/* the row takes a page at most, as a small block stays in it */
	room_make(writer->blocks, 1, NULL);
	/* a page takes four pieces of a value; three, once line pointers of earlier ones are in the way */
	room_make(writer->toast, VARSIZE(data) / (BLCKSZ / 4 * 3) + 1, NULL);
	simple_heap_insert(writer->blocks, tuple);
	index_entries_add(writer->indexes, tuple);
	if (writer->slot && staged_expected(writer->slot, row->bucket))
		stage_written(writer->slot, tuple);
	MemoryContextSwitchTo(old);
	MemoryContextReset(writer->block_context);
	writer->written += row->nevents;
	DEBUG_POINT("block-written");
	wal_flush_soon(VARSIZE(data));
	store_yield();
}

/* Makes the encoder's events a block, if there are any, and writes the blocks that are ready; all of them after the last. */
static void
flush_block(PBucketWriter *writer, bool last)
{
	BlockOutputRow row;
	bytea	   *data;

	CHECK_FOR_INTERRUPTS();
	row.nevents = block_encoder_rows(writer->encoder);
	if (row.nevents > 0)
	{
		row.bucket = writer->bucket;
		row.first = writer->first;
		row.last = writer->last;
		row.raw_bytes = (int32) block_encoder_bytes(writer->encoder);
		codec_check(block_output_put(writer->output, &row, last), writer->storage);
	}
	for (;;)
	{
		codec_check(block_output_get(writer->output, last, &row, &data), writer->storage);
		if (data == NULL)
			break;
		insert_block(writer, &row, data);
		pfree(data);
	}
}

/* Adds one event's columns to the encoder. */
static void
encode_event(PBucketWriter *writer, const Event *event)
{
	TupleDesc	stored = writer->storage->stored;
	EventTime	time;

	event_deform(writer->layout, event, stored->natts, writer->values, writer->isnull);
	for (int i = 0; i < stored->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(stored, i);
		Datum		value = writer->values[i];
		CodecStatus status;

		if (writer->isnull[i])
			status = block_encoder_add(writer->encoder, i, NULL, 0);
		else if (att->attbyval)
		{
			union
			{
				char		bytes[sizeof(Datum)];
				int64		align;
			}			place;

			store_att_byval(place.bytes, value, att->attlen);
			status = block_encoder_add(writer->encoder, i, place.bytes, att->attlen);
		}
		else if (att->attlen == -1)
			status = block_encoder_add(writer->encoder, i, DatumGetPointer(value),
									   VARSIZE_ANY(DatumGetPointer(value)));
		else if (att->attlen == -2)
			status = block_encoder_add(writer->encoder, i, DatumGetPointer(value),
									   strlen(DatumGetCString(value)) + 1);
		else
			status = block_encoder_add(writer->encoder, i, DatumGetPointer(value), att->attlen);
		codec_check(status, writer->storage);
	}
	time = DatumGetTimestampTz(writer->values[writer->storage->time_att - 1]);
	writer->first = Min(writer->first, time);
	writer->last = Max(writer->last, time);
}

void
pbucket_writer_add(PBucketWriter *writer, int64 bucket, char *events, uint32 length)
{
	EVENT_FOREACH(event, events, length)
	{
		uint32		rows = block_encoder_rows(writer->encoder);

		if (rows > 0 &&
			(bucket != writer->bucket || rows >= PBUCKET_BLOCK_EVENTS ||
			 block_encoder_bytes(writer->encoder) + event->length > PBUCKET_BLOCK_BYTES))
		{
			flush_block(writer, false);
			rows = 0;
		}
		if (rows == 0)
		{
			writer->bucket = bucket;
			writer->first = PG_INT64_MAX;
			writer->last = PG_INT64_MIN;
		}
		encode_event(writer, event);
	}
}

int64
pbucket_writer_end(PBucketWriter *writer)
{
	int64		written;

	flush_block(writer, true);
	written = writer->written;
	block_output_end(writer->output);
	block_encoder_destroy(writer->encoder);
	index_entries_end(writer->indexes);
	table_close(writer->toast, NoLock);
	table_close(writer->blocks, NoLock);
	MemoryContextDelete(writer->block_context);
	pfree(writer);
	return written;
}

/* Notes the blocks in the TOAST table that hold a value of a row that is about to be deleted. */
static void
note_toast(struct varlena *data)
{
	struct varatt_external pointer;
	Relation	toast;
	Relation	index;
	IndexScanDesc scan;
	ScanKeyData key;
	ItemPointer tid;

	if (!VARATT_IS_EXTERNAL_ONDISK(data))
		return;
	VARATT_EXTERNAL_GET_POINTER(pointer, data);
	toast = table_open(pointer.va_toastrelid, RowExclusiveLock);
	index = index_open(toast_get_valid_index(pointer.va_toastrelid, RowExclusiveLock), NoLock);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(pointer.va_valueid));
	scan = index_beginscan(toast, index, GetActiveSnapshot(), NULL, 1, 0);
	index_rescan(scan, &key, 1, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
		room_note(toast, ItemPointerGetBlockNumber(tid));
	index_endscan(scan);
	index_close(index, NoLock);
	table_close(toast, NoLock);
}

void
pbucket_delete(Relation blocks, HeapTuple row)
{
	note_toast(row_data(row));
	simple_heap_delete(blocks, &row->t_self);
	room_note(blocks, ItemPointerGetBlockNumber(&row->t_self));
}

/* Reads the events of one block and packs them again, through "add". */
static int64
readd_block(PBucketWriter *writer, PBucketReader *reader, HeapTuple row, TupleTableSlot *slot)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion merge",
												  ALLOCSET_DEFAULT_SIZES);
	int64		n = 0;

	pbucket_reader_open(reader, row);
	while (pbucket_reader_next(reader, slot))
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		Size		length = event_measure(writer->layout, slot->tts_values, slot->tts_isnull);
		Size		size = MAXALIGN(length);
		char	   *event = palloc_extended(size, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

		event_pack(writer->layout, slot->tts_values, slot->tts_isnull, event, length);
		MemoryContextSwitchTo(old);
		pbucket_writer_add(writer, PBUCKET_ROW(row)->bucket, event, size);
		MemoryContextReset(context);
		n++;
	}
	pbucket_reader_close(reader);
	MemoryContextDelete(context);
	return n;
}

void
pbucket_writer_merge(PBucketWriter *writer, int64 bucket)
{
	PBucketScan scan;
	PBucketReader *reader;
	TupleTableSlot *slot;
	List	   *small = NIL;
	ListCell   *lc;
	HeapTuple	row;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	pbucket_scan_begin(&scan, writer->storage, snapshot, bucket, bucket);
	while ((row = pbucket_scan_next(&scan)) != NULL)
		if (PBUCKET_ROW(row)->nevents < PBUCKET_SMALL_BLOCK &&
			PBUCKET_ROW(row)->raw_bytes < PBUCKET_BLOCK_BYTES / 2)
			small = lappend(small, heap_copytuple(row));
	pbucket_scan_end(&scan);

	if (list_length(small) > PBUCKET_FEW_BLOCKS)
	{
		reader = pbucket_reader_create(writer->storage, NULL);
		slot = MakeSingleTupleTableSlot(writer->storage->stored, &TTSOpsVirtual);
		foreach(lc, small)
		{
			row = lfirst(lc);
			writer->written -= readd_block(writer, reader, row, slot);
			pbucket_delete(writer->blocks, row);
		}
		ExecDropSingleTupleTableSlot(slot);
	}
	list_free_deep(small);
	UnregisterSnapshot(snapshot);
}

/*
 * Scanning
 */

/* True for an index that gives rows in order of bucket, and is not being built or dropped concurrently. */
static bool
index_is_fit(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		fit;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	fit = form->indisvalid && form->indkey.values[0] == 1 &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		get_index_column_opclass(index, 1) == INT8_BTREE_OPS_OID;
	ReleaseSysCache(tuple);
	return fit;
}

Oid
pbucket_index(Relation blocks)
{
	List	   *indexes = RelationGetIndexList(blocks);
	List	   *previous = NIL;
	ListCell   *lc;

	/* looking at an index may show that the list has changed */
	while (!equal(indexes, previous))
	{
		foreach(lc, indexes)
			if (index_is_fit(lfirst_oid(lc)))
				return lfirst_oid(lc);
		previous = indexes;
		indexes = RelationGetIndexList(blocks);
	}
	return InvalidOid;
}

void
pbucket_scan_begin(PBucketScan *scan, const StreamStorage *storage, Snapshot snapshot,
				   int64 low, int64 high)
{
	ScanKeyData keys[2];
	Oid			index;

	scan->blocks = table_open(storage->blocks, AccessShareLock);
	index = pbucket_index(scan->blocks);
	if (!OidIsValid(index))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("table \"%s\" of an aion stream has lost its index",
						RelationGetRelationName(scan->blocks)),
				 errhint("CREATE INDEX ON %s (bucket).",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(scan->blocks)),
													RelationGetRelationName(scan->blocks)))));
	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(Max(low, PBUCKET_MARK + 1)));
	ScanKeyInit(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(high));
	scan->scan = systable_beginscan(scan->blocks, index, true, snapshot, 2, keys);
}

HeapTuple
pbucket_scan_next(PBucketScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	return systable_getnext(scan->scan);
}

void
pbucket_scan_end(PBucketScan *scan)
{
	systable_endscan(scan->scan);
	table_close(scan->blocks, NoLock);
}

/*
 * Reading
 */

struct PBucketReader
{
	const StreamStorage *storage;
	BlockColumnDesc *descs;
	int			nwanted;
	int		   *wanted;			/* attribute numbers, from 0 */
	BlockColumns columns;		/* the same */
	MemoryContext context;		/* of the open block */
	BlockDecoder decoder;
	CodecMemory memory;
	DecodedColumn *decoded;		/* by attribute number; of wanted ones in the block */
	int			ncolumns;		/* in the open block */
	uint32		nrows;
	uint32		next;
};

PBucketReader *
pbucket_reader_create(const StreamStorage *storage, Bitmapset *columns)
{
	PBucketReader *reader = palloc0(sizeof(PBucketReader));

	reader->storage = storage;
	reader->columns = pbucket_columns(storage, columns);
	reader->descs = column_descs(storage->stored);
	reader->wanted = palloc(sizeof(int) * Max(storage->stored->natts, 1));
	for (int i = 0; i < storage->stored->natts; i++)
		if (columns == NULL || bms_is_member(i + 1, columns))
			reader->wanted[reader->nwanted++] = i;
	reader->decoded = palloc0(sizeof(DecodedColumn) * Max(storage->stored->natts, 1));
	reader->context = AllocSetContextCreate(CurrentMemoryContext, "aion block",
											ALLOCSET_DEFAULT_SIZES);
	reader->memory = block_memory(reader->context);
	return reader;
}

static void
decode_column(PBucketReader *reader, int column)
{
	codec_check(block_decoder_column(&reader->decoder, column, &reader->descs[column],
									 &reader->decoded[column]),
				reader->storage);
}

/* Columns from BLOCK_COLUMNS_LAST on share a bit. */
static BlockColumns
column_bit(int column)
{
	return UINT64CONST(1) << Min(column, BLOCK_COLUMNS_LAST);
}

BlockColumns
pbucket_columns(const StreamStorage *storage, const Bitmapset *columns)
{
	BlockColumns result = column_bit(storage->time_att - 1);
	int			column = -1;

	if (columns == NULL)
		return BLOCK_COLUMNS_ALL;
	while ((column = bms_next_member(columns, column)) >= 0)
		result |= column_bit(column - 1);
	return result;
}

/* A block of which parts are fetched. */
typedef struct ToastedBlock
{
	struct varlena *data;
	struct varlena *head;		/* its first bytes; all of them, if it is not out of line yet */
} ToastedBlock;

static void
fetch_slice(void *arg, size_t from, size_t len, void *to)
{
	ToastedBlock *block = arg;
	struct varlena *slice;

	if (from + len <= VARSIZE(block->head) - VARHDRSZ)
	{
		memcpy(to, VARDATA(block->head) + from, len);
		return;
	}
	slice = detoast_attr_slice(block->data, from, len);
	if (VARSIZE(slice) - VARHDRSZ != len)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a block of an aion stream is shorter than it should be")));
	memcpy(to, VARDATA(slice), len);
	pfree(slice);
}

/* The columns of a block alone; NULL if it is better read as a whole, also where nothing can be made of it. */
static char *
read_columns(struct varlena *data, BlockColumns columns, Size *length)
{
	CodecMemory memory = block_memory(CurrentMemoryContext);
	ToastedBlock block;
	BlockSlices slices;
	Size		raw_size = toast_raw_datum_size(PointerGetDatum(data));
	bool		external = VARATT_IS_EXTERNAL_ONDISK(data);
	void	   *bytes;
	size_t		size = 0;

	/* compressed again: not by us */
	if (raw_size < PROJECT_MIN_BYTES ||
		!(external ? toast_datum_size(PointerGetDatum(data)) == raw_size - VARHDRSZ : VARATT_IS_4B_U(data)))
		return NULL;
	block.data = data;
	block.head = external ? detoast_attr_slice(data, 0, PROJECT_HEAD_BYTES) : data;
	slices.fetch = fetch_slice;
	slices.arg = &block;
	slices.len = raw_size - VARHDRSZ;
	if (block_project(&slices, columns, &memory, &bytes, &size) != CODEC_OK)
		bytes = NULL;
	if (external)
		pfree(block.head);
	*length = size;
	return bytes;
}

char *
pbucket_bytes(HeapTuple row, BlockColumns *columns, Size *length)
{
	struct varlena *data = row_data(row);
	char	   *part = *columns == BLOCK_COLUMNS_ALL ? NULL : read_columns(data, *columns, length);

	if (part != NULL)
		return part;
	*columns = BLOCK_COLUMNS_ALL;
	data = detoast_attr(data);
	*length = VARSIZE(data) - VARHDRSZ;
	return VARDATA(data);
}

/* The memory that bytes of blocks to be opened have to be in; reset for each block. */
MemoryContext
pbucket_reader_context(PBucketReader *reader)
{
	MemoryContextReset(reader->context);
	return reader->context;
}

void
pbucket_reader_open(PBucketReader *reader, HeapTuple row)
{
	MemoryContext old = MemoryContextSwitchTo(pbucket_reader_context(reader));
	BlockColumns columns = reader->columns;
	Size		length;
	char	   *bytes = pbucket_bytes(row, &columns, &length);

	MemoryContextSwitchTo(old);
	pbucket_reader_open_bytes(reader, bytes, length);
}

void
pbucket_reader_open_bytes(PBucketReader *reader, const char *bytes, Size length)
{
	codec_check(block_decoder_open(&reader->decoder, bytes, length, &reader->memory),
				reader->storage);
	reader->ncolumns = block_decoder_columns(&reader->decoder);
	reader->nrows = block_decoder_rows(&reader->decoder);
	reader->next = 0;
	for (int i = 0; i < reader->nwanted; i++)
		if (reader->wanted[i] < reader->ncolumns)
			decode_column(reader, reader->wanted[i]);
}

/* Stores the next event; columns that are not wanted show as NULL. */
bool
pbucket_reader_next(PBucketReader *reader, TupleTableSlot *slot)
{
	uint32		row = reader->next;
	TupleDesc	stored = reader->storage->stored;

	if (row >= reader->nrows)
		return false;
	reader->next++;
	ExecClearTuple(slot);
	if (reader->nwanted < stored->natts)
		memset(slot->tts_isnull, true, stored->natts);
	for (int i = 0; i < reader->nwanted; i++)
	{
		int			column = reader->wanted[i];
		DecodedColumn *decoded = &reader->decoded[column];
		Form_pg_attribute att = TupleDescAttr(stored, column);

		if (column >= reader->ncolumns)
		{
			slot->tts_values[column] = getmissingattr(stored, column + 1,
													  &slot->tts_isnull[column]);
			continue;
		}
		slot->tts_isnull[column] = decoded->nulls && block_column_is_null(decoded, row);
		if (slot->tts_isnull[column])
			slot->tts_values[column] = (Datum) 0;
		else if (reader->descs[column].width > 0)
			slot->tts_values[column] = fetch_att(decoded->values + (Size) row * att->attlen,
												 att->attbyval, att->attlen);
		else
			slot->tts_values[column] = PointerGetDatum(decoded->values + decoded->offsets[row]);
	}
	ExecStoreVirtualTuple(slot);
	return true;
}

EventTime *
pbucket_reader_times(PBucketReader *reader, int *n)
{
	int			column = reader->storage->time_att - 1;
	DecodedColumn decoded;

	codec_check(block_decoder_column(&reader->decoder, column, &reader->descs[column], &decoded),
				reader->storage);
	*n = reader->nrows;
	return (EventTime *) decoded.values;
}

void
pbucket_reader_close(PBucketReader *reader)
{
	MemoryContextReset(reader->context);
	reader->nrows = reader->next = 0;
}
