/*
 * destage.c
 *	  Moving events to p-buckets, and out of the store.
 *
 * A destage writes blocks, deletes the journal's tuples and marks the chunks
 * with its transaction, in this order. A crash or error in between rolls the
 * table changes back; the marks then name an aborted transaction, which
 * readers disregard and mbucket_reclaim() clears.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "store/destage.h"
#include "store/directory.h"
#include "store/journal.h"
#include "store/mbucket_internal.h"
#include "store/pbucket.h"
#include "store/room.h"
#include "store/staged.h"
#include "store/visibility.h"
#include "store/yield.h"
#include "time/bucket.h"

/* A pinned bucket, let go when the context is reset after an error. */
typedef struct Pin
{
	MBucket    *bucket;
	MemoryContextCallback callback;
} Pin;

static void
release_pin(void *arg)
{
	Pin		   *pin = arg;

	if (pin->bucket)
		directory_unpin(pin->bucket);
	pin->bucket = NULL;
}

/*
 * Pins a bucket: nothing of it is freed while its chunks are read and marked. NULL if
 * memory has nothing of it.
 */
static Pin *
pin_bucket(StreamSlot *slot, int64 number)
{
	Pin		   *pin = palloc0(sizeof(Pin));

	pin->callback.func = release_pin;
	pin->callback.arg = pin;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &pin->callback);

	pin->bucket = directory_pin(slot, number);
	return pin->bucket ? pin : NULL;
}

/* True if the chunk's events were not moved out: nobody tried, or was rolled back. */
static bool
not_moved(const Chunk *chunk)
{
	TransactionId xmax = XidFromFullTransactionId(chunk->xmax);

	return !FullTransactionIdIsValid(chunk->xmax) ||
		(!TransactionIdIsInProgress(xmax) && !TransactionIdDidCommit(xmax));
}

/*
 * The chunks of a pinned bucket whose events can be moved, but for the first ones that hold "keep"
 * events. Listed once: accounting may mark further ones at any moment, and what is deleted must
 * be what was written.
 */
static Chunk **
list_movable(MBucket *bucket, const Accounted *set, int64 keep, int *n)
{
	int			capacity = 64;
	Chunk	  **chunks = palloc(sizeof(Chunk *) * capacity);

	*n = 0;
	for (Chunk *chunk = NULL; (chunk = mbucket_next_chunk(bucket, chunk)) != NULL;)
	{
		if (!chunk->accounted || !accounted_contains(set, chunk->top) ||
			!not_moved(chunk))
			continue;
		if (keep > 0)
		{
			keep -= chunk->nevents;
			continue;
		}
		if (*n == capacity)
		{
			capacity *= 2;
			chunks = repalloc_huge(chunks, sizeof(Chunk *) * capacity);
		}
		chunks[(*n)++] = chunk;
	}
	return chunks;
}

static void
delete_tuple(Relation journal, ItemPointer tid)
{
	simple_heap_delete(journal, tid);
	room_note(journal, ItemPointerGetBlockNumber(tid));
}

/* Chunks marked in one hold of the stream lock. */
#define MARK_BATCH 256

/* Deletes the journal tuples of chunks and marks them as moved out. */
static void
remove_chunks(StreamSlot *slot, MBucket *bucket, Chunk **chunks, int n, Relation journal)
{
	FullTransactionId self = GetTopFullTransactionId();

	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid = journal_tid(journal, slot, chunks[i]);

		CHECK_FOR_INTERRUPTS();
		store_yield();
		delete_tuple(journal, &tid);
	}
	for (int i = 0; i < n;)
	{
		/* A4 */
		LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
		bucket->marks++;
		for (int end = Min(n, i + MARK_BATCH); i < end; i++)
		{
			chunks[i]->xmax = self;
			chunks[i]->set_aside = false;
		}
		LWLockRelease(area_stream_lock(slot));
	}
}

int64
destage_bucket(const StreamStorage *storage, const Accounted *set, int64 number, int64 keep)
{
	StreamSlot *slot = directory_slot(storage->journal, false, false);
	Pin		   *pin = slot ? pin_bucket(slot, number) : NULL;
	Chunk	  **chunks;
	int			n;
	int64		moved = 0;

	if (pin == NULL)
		return 0;
	chunks = list_movable(pin->bucket, set, keep, &n);
	if (n > 0)
	{
		Relation	journal = table_open(storage->journal, RowExclusiveLock);
		PBucketWriter *writer = pbucket_writer_begin(storage);

		pbucket_writer_merge(writer, number);
		for (int i = 0; i < n; i++)
			pbucket_writer_add(writer, number, CHUNK_EVENTS(chunks[i]), chunks[i]->length);
		DEBUG_POINT("destage-blocks-added");
		moved = pbucket_writer_end(writer);
		DEBUG_POINT("destage-blocks-written");
		remove_chunks(slot, pin->bucket, chunks, n, journal);
		DEBUG_POINT("destage-journal-deleted");
		table_close(journal, NoLock);
	}
	pfree(chunks);
	release_pin(pin);
	return moved;
}

/*
 * Folding
 */

typedef struct FoldTuple
{
	int64		bucket;
	ItemPointerData tid;
} FoldTuple;

/* The most tuples that one fold sorts; what remains waits for the next. */
#define FOLD_MAX_TUPLES		(1024 * 1024)

typedef struct FoldList
{
	FoldTuple  *tuples;
	int			n;
	int			capacity;
	bool		complete;		/* no events that have no chunk were left out */
} FoldList;

static int
compare_fold_tuples(const void *a, const void *b)
{
	FoldTuple  *left = (FoldTuple *) a;
	FoldTuple  *right = (FoldTuple *) b;

	if (left->bucket != right->bucket)
		return left->bucket < right->bucket ? -1 : 1;
	return ItemPointerCompare(&left->tid, &right->tid);
}

/* Lists accounted tuples without a chunk in buckets up to "last_bucket", by bucket. */
static void
list_journal_only(Relation journal, Snapshot snapshot, const Accounted *set, int64 last_bucket,
				  FoldList *list)
{
	TableScanDesc scan = table_beginscan_strat(journal, snapshot, 0, NULL, true, false);
	HeapTuple	tuple;

	list->n = 0;
	list->capacity = 1024;
	list->tuples = palloc(sizeof(FoldTuple) * list->capacity);
	list->complete = true;
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);

		CHECK_FOR_INTERRUPTS();
		store_yield();
		if (!journal_only(row))
			continue;
		if (!accounted_contains(set, row->top) || row->bucket > last_bucket ||
			list->n == FOLD_MAX_TUPLES)
		{
			list->complete &= row->nevents == 0;
			continue;
		}
		if (list->n == list->capacity)
		{
			list->capacity *= 2;
			list->tuples = repalloc_huge(list->tuples, sizeof(FoldTuple) * list->capacity);
		}
		list->tuples[list->n].bucket = row->bucket;
		list->tuples[list->n++].tid = tuple->t_self;
	}
	table_endscan(scan);
	qsort(list->tuples, list->n, sizeof(FoldTuple), compare_fold_tuples);
}

/* Adds one journal tuple's events to the writer (none: a control entry) and deletes it. */
static void
fold_tuple(PBucketWriter *writer, Relation journal, Snapshot snapshot, FoldTuple *item,
		   MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	HeapTupleData tuple;
	Buffer		buffer;

	tuple.t_self = item->tid;
	if (!heap_fetch(journal, snapshot, &tuple, &buffer, false))
		elog(ERROR, "journal tuple of relation %u is gone", RelationGetRelid(journal));
	if (JOURNAL_ROW(&tuple)->nevents > 0)
	{
		uint32		length;
		char	   *events = journal_events(&tuple, &length);

		pbucket_writer_add(writer, item->bucket, events, length);
	}
	room_note_lost(journal, journal_out_of_line(&tuple));
	ReleaseBuffer(buffer);
	delete_tuple(journal, &item->tid);
	MemoryContextSwitchTo(old);
	MemoryContextReset(context);
}

/*
 * Notes that nothing without a chunk is left, for readers that see this
 * transaction: if nothing was left out and no writer was busy meanwhile.
 */
static void
note_clean(StreamSlot *slot, uint64 journal_writes, Snapshot snapshot)
{
	FullTransactionId self = GetTopFullTransactionId();

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	if (slot->journal_writes == journal_writes &&
		FullTransactionIdPrecedes(slot->journal_writer, area_full_xid(snapshot->xmin)))
		slot->clean_pending = self; /* mbucket_reclaim() makes it so after the commit */
	LWLockRelease(area_stream_lock(slot));
}

int64
destage_fold(const StreamStorage *storage, const Accounted *set)
{
	StreamSlot *slot = directory_slot(storage->journal, true, false);
	uint64		journal_writes = 0;
	Snapshot	snapshot;
	Relation	journal = table_open(storage->journal, RowExclusiveLock);
	PBucketWriter *writer;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion fold",
												  ALLOCSET_DEFAULT_SIZES);
	FoldList	list;
	int64		moved;

	if (slot)
	{
		LWLockAcquire(area_stream_lock(slot), LW_SHARED);
		journal_writes = slot->journal_writes;
		LWLockRelease(area_stream_lock(slot));
	}
	/* taken after the count, so that whoever wrote before it is in the snapshot or in progress */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	list_journal_only(journal, snapshot, set, PG_INT64_MAX, &list);

	writer = pbucket_writer_begin(storage);
	for (int i = 0; i < list.n; i++)
	{
		store_yield();
		if (i == 0 || list.tuples[i].bucket != list.tuples[i - 1].bucket)
			pbucket_writer_merge(writer, list.tuples[i].bucket);
		fold_tuple(writer, journal, snapshot, &list.tuples[i], context);
	}
	moved = pbucket_writer_end(writer);
	DEBUG_POINT("fold-written");
	if (slot && list.complete)
		note_clean(slot, journal_writes, snapshot);
	pfree(list.tuples);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(context);
	table_close(journal, NoLock);
	return moved;
}

/*
 * Purging
 */

/* Deletes blocks of buckets up to last_bucket. */
static int64
purge_blocks(const StreamStorage *storage, Snapshot snapshot, int64 last_bucket, EventTime *last)
{
	PBucketScan scan;
	HeapTuple	row;
	int64		purged = 0;
	Relation	blocks = table_open(storage->blocks, RowExclusiveLock);

	pbucket_scan_begin(&scan, storage, snapshot, PG_INT64_MIN, last_bucket);
	while ((row = pbucket_scan_next(&scan)) != NULL)
	{
		purged += PBUCKET_ROW(row)->nevents;
		*last = Max(*last, PBUCKET_ROW(row)->last);
		store_yield();
		pbucket_delete(blocks, row);
	}
	pbucket_scan_end(&scan);
	table_close(blocks, NoLock);
	return purged;
}

/* Removes what memory holds of buckets up to last_bucket, and its journal tuples. */
static int64
purge_memory(StreamSlot *slot, Relation journal, const Accounted *set, int64 last_bucket,
			 EventTime *last)
{
	int			n;
	int64	   *numbers = directory_numbers(slot, PG_INT64_MIN, last_bucket, &n);
	int64		purged = 0;

	for (int i = 0; i < n; i++)
	{
		Pin		   *pin = pin_bucket(slot, numbers[i]);
		Chunk	  **chunks;
		int			nchunks;

		if (pin == NULL)
			continue;
		chunks = list_movable(pin->bucket, set, 0, &nchunks);
		for (int j = 0; j < nchunks; j++)
		{
			purged += chunks[j]->nevents;
			*last = Max(*last, chunks[j]->last);
		}
		remove_chunks(slot, pin->bucket, chunks, nchunks, journal);
		pfree(chunks);
		release_pin(pin);
	}
	pfree(numbers);
	return purged;
}

/* Frees copies of blocks of buckets up to last_bucket. */
static void
purge_staged(StreamSlot *slot, int64 last_bucket)
{
	int			n;
	int64	   *numbers = directory_numbers(slot, PG_INT64_MIN, last_bucket, &n);

	for (int i = 0; i < n; i++)
		(void) staged_evict(slot, numbers[i]);
	pfree(numbers);
}

/* Deletes journal tuples without a chunk of buckets up to last_bucket. */
static int64
purge_journal(Relation journal, Snapshot snapshot, const Accounted *set, int64 last_bucket,
			  EventTime *last)
{
	FoldList	list;
	int64		purged = 0;

	list_journal_only(journal, snapshot, set, last_bucket, &list);
	for (int i = 0; i < list.n; i++)
	{
		HeapTupleData tuple;
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		store_yield();
		tuple.t_self = list.tuples[i].tid;
		if (!heap_fetch(journal, snapshot, &tuple, &buffer, false))
			elog(ERROR, "journal tuple of relation %u is gone", RelationGetRelid(journal));
		purged += JOURNAL_ROW(&tuple)->nevents;
		if (JOURNAL_ROW(&tuple)->nevents > 0)
			*last = Max(*last, JOURNAL_ROW(&tuple)->last);
		room_note_lost(journal, journal_out_of_line(&tuple));
		ReleaseBuffer(buffer);
		delete_tuple(journal, &list.tuples[i].tid);
	}
	pfree(list.tuples);
	return purged;
}

int64
destage_purge(const StreamStorage *storage, const Accounted *set, EventTime before, EventTime *last)
{
	StreamSlot *slot = directory_slot(storage->journal, false, false);
	/* the last bucket that ends at or before "before" */
	int64		last_bucket = bucket_number(storage->bucket_width, before) - 1;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	FullSnapshot full = full_snapshot(snapshot);
	Relation	journal = table_open(storage->journal, RowExclusiveLock);
	int64		purged;

	*last = EVENT_TIME_NEVER;
	purged = purge_blocks(storage, snapshot, last_bucket, last);
	DEBUG_POINT("purge-blocks-deleted");
	if (slot)
		purged += purge_memory(slot, journal, set, last_bucket, last);
	if (slot == NULL || !visible_clean(slot, &full))
		purged += purge_journal(journal, snapshot, set, last_bucket, last);
	/* after all that may have let a request for them go first */
	if (slot)
		purge_staged(slot, last_bucket);
	DEBUG_POINT("purge-journal-deleted");
	UnregisterSnapshot(snapshot);
	table_close(journal, NoLock);
	return purged;
}
