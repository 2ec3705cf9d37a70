/*
 * event_scan.c
 *	  Reading the events of a stream from memory, journal and p-buckets.
 *
 * How each event comes exactly once (I2), whatever moves meanwhile:
 *
 * - Memory. For each bucket in range: if chunks of it were freed by a
 *	 transaction that the snapshot does not see, the bucket is not read from
 *	 memory. Otherwise it is pinned, so that nothing of it is freed,
 *	 and the chunks that the snapshot shows are read.
 * - Journal. Tuples that the snapshot shows are read if they have no chunk in
 *	 this life of shared memory, or belong to a bucket that was not read from memory: it
 *	 may have been freed, dead tuples and all being kept by VACUUM as long as
 *	 the snapshot lasts. Left out if the slot says that there can be none.
 * - p-buckets. Blocks that the snapshot shows. They appeared, and the
 *	 journal's tuples and the chunks disappeared, in one transaction.
 *
 * The transaction's own unflushed events are added by the caller, and whatever
 * of the transaction is flushed from then on is left out.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "store/block_source.h"
#include "store/directory.h"
#include "store/event.h"
#include "store/event_scan.h"
#include "store/journal.h"
#include "store/mbucket_internal.h"
#include "store/pbucket.h"
#include "store/visibility.h"
#include "time/bucket.h"

typedef enum ScanPhase
{
	SCAN_OWN,
	SCAN_MEMORY,
	SCAN_JOURNAL,
	SCAN_BLOCKS,
	SCAN_DONE
} ScanPhase;

/* Unflushed events of this backend. */
typedef struct OwnRun
{
	char	   *events;
	uint32		length;
} OwnRun;

struct EventScan
{
	MemoryContext context;		/* what outlives a call is allocated here */
	const StreamStorage *storage;
	FullSnapshot snapshot;
	EventTime	low;			/* low <= time < high */
	EventTime	high;
	bool		exact;
	const Accounted *set;
	Bitmapset  *columns;
	uint32		flush_limit;
	int64		low_bucket;		/* inclusive */
	int64		high_bucket;
	ScanPhase	phase;
	EventScanStats stats;

	/* the run of packed events at hand */
	char	   *at;
	char	   *end;
	int64	   *run_counter;	/* statistic that its events count in */
	bool		check_time;		/* the run may hold events out of range */
	EventLayout *layout;
	EventProjection *projection;	/* of packed events */
	TupleTableSlot *packed_slot;

	List	   *own;			/* of OwnRun */

	/* memory */
	StreamSlot *slot;
	int64	   *numbers;
	int			nnumbers;
	int			next_number;
	bool	   *from_memory;	/* by index into numbers */
	MBucket    *pinned;
	Chunk	   *chunk;			/* last one read */
	bool		counted_bucket;	/* the pinned bucket is in the statistics */
	ResourceOwner owner;		/* while a bucket is pinned, */
	dlist_node	pinning_node;	/* in "pinning" */
	MemoryContextCallback unpin;

	/* journal */
	Relation	journal;
	TableScanDesc journal_scan;
	MemoryContext tuple_context;

	/* p-buckets */
	BlockSource *blocks;		/* NULL: there is no range, or no storage */
	PBucketReader *reader;
	TupleTableSlot *block_slot;
	int64		last_block_bucket;
};

/* Scans of this process that have a bucket pinned. */
static dlist_head pinning = DLIST_STATIC_INIT(pinning);

/* Lets go of the bucket at hand, also when the scan's context goes away after an error. */
static void
scan_unpin(void *arg)
{
	EventScan  *scan = arg;

	if (scan->pinned)
	{
		directory_unpin(scan->pinned);
		dlist_delete(&scan->pinning_node);
	}
	scan->pinned = NULL;
}

/*
 * A transaction that fails loses its locks at once, and with them what keeps the stream's memory in
 * place, while contexts may stay until it is rolled back.
 */
static void
unpin_aborted(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS || is_commit)
		return;
	dlist_foreach_modify(iter, &pinning)
	{
		EventScan  *scan = dlist_container(EventScan, pinning_node, iter.cur);

		if (scan->owner == CurrentResourceOwner)
			scan_unpin(scan);
	}
}

/* Pins a bucket; false: memory has none of that number. */
static bool
scan_pin(EventScan *scan, int64 number)
{
	static bool registered = false;

	if (!registered)
		RegisterResourceReleaseCallback(unpin_aborted, NULL);
	registered = true;
	scan->pinned = directory_pin(scan->slot, number);
	if (scan->pinned == NULL)
		return false;
	scan->owner = CurrentResourceOwner;
	dlist_push_tail(&pinning, &scan->pinning_node);
	return true;
}

EventScan *
event_scan_begin(const StreamStorage *storage, Snapshot snapshot, EventTime low, EventTime high,
				 bool exact, Bitmapset *columns, const Accounted *set, Size stage_ahead)
{
	EventScan  *scan = palloc0(sizeof(EventScan));

	scan->context = CurrentMemoryContext;
	scan->storage = storage;
	scan->snapshot = full_snapshot(snapshot);
	scan->low = low;
	scan->high = high;
	scan->exact = exact;
	scan->set = set;
	if (columns)
		scan->columns = bms_add_member(bms_copy(columns), storage->time_att);
	scan->flush_limit = storage->foreign_journal ? PG_UINT32_MAX : journal_flush_number();
	scan->low_bucket = bucket_number(storage->bucket_width, low);
	scan->high_bucket = bucket_number(storage->bucket_width, high - 1);
	scan->phase = low < high ? SCAN_OWN : SCAN_DONE;
	scan->layout = event_layout(storage);
	scan->projection = event_projection(scan->layout, columns);
	scan->packed_slot = MakeTupleTableSlot(storage->stored, &TTSOpsVirtual);
	memset(scan->packed_slot->tts_isnull, true, storage->stored->natts);
	scan->unpin.func = scan_unpin;
	scan->unpin.arg = scan;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &scan->unpin);

	if (OidIsValid(storage->journal))
	{
		scan->slot = directory_slot(storage->journal, false, false);
		scan->journal = table_open(storage->journal, AccessShareLock);
		/* a serializable reader conflicts with later writers through the journal */
		PredicateLockRelation(scan->journal, snapshot);
		if (low < high)
			scan->blocks = block_source_begin(storage, scan->slot, snapshot, scan->low_bucket,
											  scan->high_bucket, low, high, scan->columns, stage_ahead);
	}
	return scan;
}

void
event_scan_add_own(EventScan *scan, char *events, uint32 length)
{
	OwnRun	   *run = palloc(sizeof(OwnRun));

	run->events = events;
	run->length = length;
	scan->own = lappend(scan->own, run);
}

static bool
is_accounted(EventScan *scan, FullTransactionId top)
{
	return scan->set == NULL || accounted_contains(scan->set, top);
}

static void
start_run(EventScan *scan, char *events, uint32 length, EventTime first, EventTime last,
		  int64 *counter)
{
	scan->at = events;
	scan->end = events + length;
	scan->run_counter = counter;
	scan->check_time = scan->exact && (first < scan->low || last >= scan->high);
}

static bool
next_own_run(EventScan *scan)
{
	OwnRun	   *run;

	if (scan->own == NIL)
		return false;
	run = linitial(scan->own);
	scan->own = list_delete_first(scan->own);
	start_run(scan, run->events, run->length, PG_INT64_MIN, PG_INT64_MAX, &scan->stats.memory_events);
	return true;
}

/*
 * Pins the next bucket that can be read from memory. One that has been freed,
 * even if only in part, by what the snapshot does not see is left to the journal.
 */
static bool
pin_next_bucket(EventScan *scan)
{
	while (scan->next_number < scan->nnumbers)
	{
		int			i = scan->next_number++;

		if (!scan_pin(scan, scan->numbers[i]))
			continue;

		/* stands still while the bucket is pinned, as only a sweep changes it */
		if (!visible_freed_by(&scan->pinned->freed_by, &scan->snapshot))
		{
			scan_unpin(scan);
			continue;
		}
		scan->from_memory[i] = true;
		scan->chunk = NULL;
		scan->counted_bucket = false;
		return true;
	}
	return false;
}

/* True if the chunk at hand is visible. A serializable reader conflicts with who wrote it if it is not. */
static bool
chunk_is_seen(EventScan *scan)
{
	if (chunk_visible(scan->chunk, &scan->snapshot, scan->flush_limit))
		return true;
	if (IsolationIsSerializable())
		CheckForSerializableConflictOut(scan->journal,
										XidFromFullTransactionId(scan->chunk->top),
										scan->snapshot.snapshot);
	return false;
}

static bool
next_memory_run(EventScan *scan)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (scan->pinned == NULL && !pin_next_bucket(scan))
			return false;
		scan->chunk = mbucket_next_chunk(scan->pinned, scan->chunk);
		if (scan->chunk == NULL)
		{
			scan_unpin(scan);
			continue;
		}
		if (scan->chunk->last >= scan->low && scan->chunk->first < scan->high &&
			is_accounted(scan, scan->chunk->top) &&
			chunk_is_seen(scan))
		{
			scan->stats.memory_buckets += !scan->counted_bucket;
			scan->counted_bucket = true;
			start_run(scan, CHUNK_EVENTS(scan->chunk), scan->chunk->length,
					  scan->chunk->first, scan->chunk->last, &scan->stats.memory_events);
			return true;
		}
	}
}

static bool
read_from_memory(EventScan *scan, int64 bucket)
{
	int			low = 0;
	int			high = scan->nnumbers;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (scan->numbers[middle] == bucket)
			return scan->from_memory[middle];
		if (scan->numbers[middle] < bucket)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* True if the journal may hold something that memory did not show. */
static bool
journal_needed(EventScan *scan)
{
	FreedBy		freed_by;

	if (scan->slot == NULL)
		return true;
	for (int i = 0; i < scan->nnumbers; i++)
		if (!scan->from_memory[i])
			return true;

	LWLockAcquire(area_stream_lock(scan->slot), LW_SHARED);
	freed_by = scan->slot->freed_by;
	LWLockRelease(area_stream_lock(scan->slot));
	return !visible_freed_by(&freed_by, &scan->snapshot) ||
		!visible_clean(scan->slot, &scan->snapshot);
}

static bool
next_journal_run(EventScan *scan)
{
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan->journal_scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);
		char	   *events;
		uint32		length;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (row->nevents == 0 || row->last < scan->low || row->first >= scan->high ||
			!is_accounted(scan, row->top) || journal_flushed_since(tuple, scan->flush_limit))
			continue;
		if (!journal_only(row) && read_from_memory(scan, row->bucket))
			continue;

		MemoryContextReset(scan->tuple_context);
		old = MemoryContextSwitchTo(scan->tuple_context);
		events = journal_events(tuple, &length);
		MemoryContextSwitchTo(old);
		start_run(scan, events, length, row->first, row->last, &scan->stats.journal_events);
		return true;
	}
	return false;
}

/* Steps to the next phase and sets it up. */
static void
next_phase(EventScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->context);

	scan->phase++;
	if (scan->phase == SCAN_MEMORY && scan->slot)
	{
		scan->numbers = directory_numbers(scan->slot, scan->low_bucket, scan->high_bucket,
										&scan->nnumbers);
		scan->from_memory = palloc0(sizeof(bool) * Max(scan->nnumbers, 1));
	}
	else if (scan->phase == SCAN_JOURNAL && scan->journal && journal_needed(scan))
	{
		scan->journal_scan = table_beginscan_strat(scan->journal, scan->snapshot.snapshot, 0, NULL,
												   true, false);
		scan->tuple_context = AllocSetContextCreate(CurrentMemoryContext, "aion journal tuple",
													ALLOCSET_DEFAULT_SIZES);
	}
	else if (scan->phase == SCAN_BLOCKS && scan->blocks)
	{
		scan->reader = pbucket_reader_create(scan->storage, scan->columns);
		scan->block_slot = MakeTupleTableSlot(scan->storage->stored, &TTSOpsVirtual);
		scan->last_block_bucket = PBUCKET_MARK;
	}
	MemoryContextSwitchTo(old);
}

/* Finds the next run of packed events, in whatever phase; false: on to the blocks. */
static bool
next_run(EventScan *scan)
{
	for (;;)
	{
		if ((scan->phase == SCAN_OWN && next_own_run(scan)) ||
			(scan->phase == SCAN_MEMORY && scan->slot && next_memory_run(scan)) ||
			(scan->phase == SCAN_JOURNAL && scan->journal_scan && next_journal_run(scan)))
			return true;
		if (scan->phase >= SCAN_BLOCKS)
			return false;
		next_phase(scan);
	}
}

/* In the scan's context, because the source allocates while it goes on. */
static bool
next_block(EventScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	const PBucketRow *header = block_source_next(scan->blocks, scan->reader);

	MemoryContextSwitchTo(old);
	if (header == NULL)
		return false;
	if (header->bucket != scan->last_block_bucket)
		scan->stats.disk_buckets++;
	scan->last_block_bucket = header->bucket;
	scan->check_time = scan->exact && (header->first < scan->low || header->last >= scan->high);
	return true;
}

static TupleTableSlot *
next_block_event(EventScan *scan)
{
	TupleTableSlot *slot = scan->block_slot;

	for (;;)
	{
		while (pbucket_reader_next(scan->reader, slot))
		{
			if (scan->check_time)
			{
				EventTime	time = DatumGetTimestampTz(slot->tts_values[scan->storage->time_att - 1]);

				if (time < scan->low || time >= scan->high)
					continue;
			}
			scan->stats.disk_events++;
			return slot;
		}
		if (!next_block(scan))
		{
			scan->phase = SCAN_DONE;
			return NULL;
		}
	}
}

TupleTableSlot *
event_scan_next(EventScan *scan)
{
	for (;;)
	{
		while (scan->at < scan->end)
		{
			const Event *event = (const Event *) scan->at;
			TupleTableSlot *slot = scan->packed_slot;

			scan->at += EVENT_SPACE(event);
			/* long events are a miss each; the address is inside the run or just behind it */
			__builtin_prefetch(scan->at);
			if (scan->check_time)
			{
				EventTime	time = event_time(scan->layout, event);

				if (time < scan->low || time >= scan->high)
					continue;
			}
			(*scan->run_counter)++;
			/* one that holds the event before, and nothing of its own, only gets other values */
			if (slot->tts_flags & (TTS_FLAG_EMPTY | TTS_FLAG_SHOULDFREE))
			{
				ExecClearTuple(slot);
				ExecStoreVirtualTuple(slot);
			}
			event_project(scan->projection, event, slot->tts_values, slot->tts_isnull);
			return slot;
		}
		if (scan->phase < SCAN_BLOCKS && next_run(scan))
			continue;
		if (scan->phase == SCAN_BLOCKS && scan->blocks)
			return next_block_event(scan);
		return NULL;
	}
}

const EventScanStats *
event_scan_stats(EventScan *scan)
{
	if (scan->blocks)
	{
		const BlockSourceStats *blocks = block_source_stats(scan->blocks);

		scan->stats.staged_blocks = blocks->staged;
		scan->stats.read_blocks = blocks->read;
		scan->stats.waited_us = blocks->waited_us;
	}
	return &scan->stats;
}

/* The memory goes with the context that the scan was begun in. */
void
event_scan_end(EventScan *scan)
{
	scan_unpin(scan);
	if (scan->journal_scan)
		table_endscan(scan->journal_scan);
	if (scan->blocks)
		block_source_end(scan->blocks);
	if (scan->journal)
		table_close(scan->journal, NoLock);
	scan->journal_scan = NULL;
	scan->blocks = NULL;
	scan->journal = NULL;
	scan->phase = SCAN_DONE;
	scan->at = scan->end = NULL;
}
