/*
 * journal.c
 *	  Writing and reading the journal's tuples.
 *
 * For each run of events: a chunk is reserved, the tuple is written (which is
 * what makes the events durable, at commit), the chunk is filled in. Whatever
 * stops this in between rolls the (sub)transaction back, and accounting frees
 * what was reserved.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "store/area.h"
#include "store/directory.h"
#include "store/index_entries.h"
#include "store/journal.h"
#include "store/mbucket_internal.h"
#include "store/wal_flush.h"

#define JOURNAL_HEADER_SIZE MAXALIGN(SizeofHeapTupleHeader)

StaticAssertDecl((MAXALIGN(SizeofHeapTupleHeader) + JOURNAL_ROW_SIZE + VARHDRSZ) % MAXIMUM_ALIGNOF == 0,
				 "events in a journal tuple must be MAXALIGNed");
StaticAssertDecl(MAXALIGN(SizeofHeapTupleHeader) + JOURNAL_ROW_SIZE + VARHDRSZ + JOURNAL_RUN_MAX <= MaxHeapTupleSize,
				 "a journal tuple must fit a page");
StaticAssertDecl(MAXALIGN(sizeof(PageHeaderArea)) + MAXALIGN(sizeof(Chunk)) + JOURNAL_RUN_MAX <= AREA_PAGE_SIZE,
				 "a journal tuple's chunk must fit a page of the area");

/* Tuples handed to heap_multi_insert() at a time. */
#define WRITE_BATCH 32

static uint32 flush_number = 0;

uint32
journal_flush_number(void)
{
	return flush_number;
}

/* A journal tuple of a run; in one palloc'd piece. */
static HeapTuple
form_tuple(const JournalRun *run, FullTransactionId top, uint64 generation, uint32 flush)
{
	Size		size = JOURNAL_HEADER_SIZE + JOURNAL_ROW_SIZE + VARHDRSZ + run->length;
	HeapTuple	tuple = palloc_extended(HEAPTUPLESIZE + size, MCXT_ALLOC_HUGE);
	JournalRow *row;
	char	   *data;

	tuple->t_len = size;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	tuple->t_data = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	memset(tuple->t_data, 0, JOURNAL_HEADER_SIZE);
	HeapTupleHeaderSetNatts(tuple->t_data, JOURNAL_NATTS);
	tuple->t_data->t_infomask = HEAP_HASVARWIDTH;
	tuple->t_data->t_hoff = JOURNAL_HEADER_SIZE;

	row = (JournalRow *) GETSTRUCT(tuple);
	row->bucket = run->bucket;
	row->top = top;
	row->generation = generation;
	row->first = run->first;
	row->last = run->last;
	row->command = run->command;
	row->flush = flush;
	row->nevents = run->nevents;
	data = (char *) row + JOURNAL_ROW_SIZE;
	SET_VARSIZE(data, VARHDRSZ + run->length);
	memcpy(data + VARHDRSZ, run->events, run->length);
	return tuple;
}

/* Slots for heap_multi_insert(); made once per backend. */
static TupleTableSlot **
insert_slots(Relation journal)
{
	static TupleTableSlot *slots[WRITE_BATCH];

	if (slots[0] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
		TupleDesc	desc = CreateTupleDescCopy(RelationGetDescr(journal));

		for (int i = WRITE_BATCH - 1; i >= 0; i--)
			slots[i] = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
		MemoryContextSwitchTo(old);
	}
	return slots;
}

/* Inserts tuples of one command into the table alone; sets their t_self. */
static void
insert_into_heap(Relation journal, HeapTuple *tuples, int n, CommandId command)
{
	TupleTableSlot **slots;

	if (n == 1)
	{
		/* nothing reads the journal through logical decoding */
		heap_insert(journal, tuples[0], command, HEAP_INSERT_NO_LOGICAL, NULL);
		return;
	}
	slots = insert_slots(journal);
	for (int i = 0; i < n; i++)
		ExecStoreHeapTuple(tuples[i], slots[i], false);
	heap_multi_insert(journal, slots, n, command, 0, NULL); /* does not take that option */
	for (int i = 0; i < n; i++)
	{
		tuples[i]->t_self = slots[i]->tts_tid;
		ExecClearTuple(slots[i]);
	}
}

/* Inserts tuples of one command; sets their t_self. */
static void
insert_tuples(Relation journal, HeapTuple *tuples, int n, CommandId command)
{
	IndexEntries *entries;

	insert_into_heap(journal, tuples, n, command);
	if (!journal->rd_rel->relhasindex)
		return;
	entries = index_entries_begin(journal);
	for (int i = 0; i < n; i++)
		index_entries_add(entries, tuples[i]);
	index_entries_end(entries);
}

static void
writer_begin(JournalWriter *writer, Relation journal)
{
	writer->top = GetTopFullTransactionId();
	writer->slot = directory_slot(RelationGetRelid(journal), true,
								journal->rd_createSubid != InvalidSubTransactionId);
	writer->inbox = writer->slot ? INBOX_NOT_ENTERED : AREA_NONE;
	writer->begun = true;
}

static Chunk *
reserve_chunk(JournalWriter *writer, const JournalRun *run, uint32 flush)
{
	Chunk		header;

	if (writer->slot == NULL || run->nevents == 0 || run->length > JOURNAL_RUN_MAX)
		return NULL;
	memset(&header, 0, sizeof(header));
	header.xmin = GetCurrentFullTransactionId();
	header.top = writer->top;
	header.first = run->first;
	header.last = run->last;
	header.cmin = run->command;
	header.flush = flush;
	header.nevents = run->nevents;
	header.length = run->length;
	return mbucket_reserve(writer->slot, &writer->inbox, run->bucket, &header);
}

/* Writes up to WRITE_BATCH runs of one command. */
static void
write_batch(JournalWriter *writer, Relation journal, const JournalRun *runs, int n)
{
	HeapTuple	tuples[WRITE_BATCH];
	Chunk	   *chunks[WRITE_BATCH];
	BlockNumber first_block = InvalidBlockNumber;
	BlockNumber last_block = 0;
	bool		all_chunks = true;
	bool		all_events_chunks = true;
	Size		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		/* counted even if this fails: another chunk of the transaction must not get it, too */
		uint32		flush = flush_number++;

		chunks[i] = reserve_chunk(writer, &runs[i], flush);
		all_chunks &= chunks[i] != NULL;
		all_events_chunks &= chunks[i] != NULL || runs[i].nevents == 0;
		tuples[i] = form_tuple(&runs[i], writer->top, chunks[i] ? area_generation() : 0, flush);
		bytes += tuples[i]->t_len;
	}
	if (!all_chunks && writer->slot)
		mbucket_note_journal_write(writer->slot, &writer->inbox, writer->top, !all_events_chunks);
	DEBUG_POINT("journal-reserved");

	insert_tuples(journal, tuples, n, runs[0].command);
	DEBUG_POINT("journal-written");
	wal_flush_soon(bytes);

	for (int i = 0; i < n; i++)
	{
		if (chunks[i])
		{
			memcpy(CHUNK_EVENTS(chunks[i]), runs[i].events, runs[i].length);
			chunks[i]->tid = tuples[i]->t_self;
			chunks[i]->file = JOURNAL_FILE(journal);
		}
		else
		{
			BlockNumber block = ItemPointerGetBlockNumber(&tuples[i]->t_self);

			first_block = Min(first_block, block);
			last_block = Max(last_block, block);
		}
		pfree(tuples[i]);
	}
	if (!all_chunks && writer->slot)
		mbucket_note_journal_blocks(writer->slot, writer->inbox, JOURNAL_FILE(journal),
									first_block, last_block);
}

void
journal_write(Relation journal, JournalWriter *writer, const JournalRun *runs, int nruns)
{
	if (!writer->begun)
		writer_begin(writer, journal);

	for (int i = 0; i < nruns;)
	{
		int			n = 1;

		/* one command at a time, and an event that needs a tuple for itself alone */
		while (n < WRITE_BATCH && i + n < nruns && runs[i + n].command == runs[i].command &&
			   runs[i].length <= JOURNAL_RUN_MAX && runs[i + n].length <= JOURNAL_RUN_MAX)
			n++;
		write_batch(writer, journal, &runs[i], n);
		i += n;
	}
}

void
journal_write_rest(const StreamStorage *storage, Relation journal, FullTransactionId top,
				   const JournalRun *run)
{
	StreamSlot *slot = directory_slot(storage->journal, true, false);
	/* counted, or this transaction's next scan would take the tuple for a later one */
	HeapTuple	tuple = form_tuple(run, top, 0, flush_number++);

	if (slot)
		mbucket_note_journal_rewrite(slot, GetTopFullTransactionId());
	insert_tuples(journal, &tuple, 1, GetCurrentCommandId(true));
	pfree(tuple);
}

/*
 * Where chunks' tuples are
 *
 * A tid is good as long as the journal has the file in which it was. VACUUM FULL, CLUSTER and
 * some forms of ALTER TABLE give it another; they wait for everybody who holds a lock on the
 * journal, so whoever does may keep tids meanwhile. Across transactions a tuple is known
 * by its transaction and the number it has there.
 */

typedef struct TupleKey
{
	uint64		top;
	uint64		flush;
} TupleKey;

typedef struct TuplePlace
{
	TupleKey	key;
	ItemPointerData tid;
} TuplePlace;

/* The places of committed tuples that may have a chunk. */
static HTAB *
list_places(Relation journal)
{
	HASHCTL		ctl = {.keysize = sizeof(TupleKey),.entrysize = sizeof(TuplePlace),.hcxt = CurrentMemoryContext};
	HTAB	   *places = hash_create("aion journal tuples", 1024, &ctl,
									 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan_strat(journal, snapshot, 0, NULL, true, false);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);
		TupleKey	key = {U64FromFullTransactionId(row->top), (uint32) row->flush};

		CHECK_FOR_INTERRUPTS();
		if (!journal_only(row))
			((TuplePlace *) hash_search(places, &key, HASH_ENTER, NULL))->tid = tuple->t_self;
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	return places;
}

/* Notes in the slot's chunks where their tuples are in the journal's present file. */
static void
locate_chunks(Relation journal, StreamSlot *slot)
{
	HTAB	   *places = list_places(journal);
	int			n;
	int64	   *numbers = directory_numbers(slot, PG_INT64_MIN, PG_INT64_MAX, &n);

	for (int i = 0; i < n; i++)
	{
		/* nothing can fail while it is pinned */
		MBucket    *bucket = directory_pin(slot, numbers[i]);

		for (Chunk *chunk = NULL; bucket && (chunk = mbucket_next_chunk(bucket, chunk)) != NULL;)
		{
			TupleKey	key = {U64FromFullTransactionId(chunk->top), chunk->flush};
			TuplePlace *place = hash_search(places, &key, HASH_FIND, NULL);

			if (place == NULL || chunk->file == JOURNAL_FILE(journal))
				continue;
			chunk->tid = place->tid;	/* A2 */
			pg_write_barrier();
			chunk->file = JOURNAL_FILE(journal);
		}
		if (bucket)
			directory_unpin(bucket);
	}
	pfree(numbers);
	hash_destroy(places);
}

ItemPointerData
journal_tid(Relation journal, StreamSlot *slot, const Chunk *chunk)
{
	if (chunk->file != JOURNAL_FILE(journal))
		locate_chunks(journal, slot);
	if (chunk->file != JOURNAL_FILE(journal))
		elog(ERROR, "journal tuple of relation %u is gone", RelationGetRelid(journal));
	pg_read_barrier();
	return chunk->tid;
}

Size
journal_out_of_line(HeapTuple tuple)
{
	struct varlena *value = (struct varlena *) ((char *) GETSTRUCT(tuple) + JOURNAL_ROW_SIZE);

	return VARATT_IS_EXTERNAL(value) ? toast_datum_size(PointerGetDatum(value)) : 0;
}

char *
journal_events(HeapTuple tuple, uint32 *length)
{
	struct varlena *value = (struct varlena *) ((char *) GETSTRUCT(tuple) + JOURNAL_ROW_SIZE);
	char	   *events;

	if (VARATT_IS_EXTENDED(value))
		value = detoast_attr(value);
	*length = VARSIZE(value) - VARHDRSZ;
	events = VARDATA(value);
	if (events == (char *) MAXALIGN(events))
		return events;
	return memcpy(palloc_extended(*length, MCXT_ALLOC_HUGE), events, *length);
}

bool
journal_only(const JournalRow *row)
{
	return row->generation == 0 || row->generation != area_generation();
}

bool
journal_flushed_since(HeapTuple tuple, uint32 flush_limit)
{
	return (uint32) JOURNAL_ROW(tuple)->flush >= flush_limit &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}
