/*
 * arrivals.c
 *	  What has arrived in a stream since the last accounting pass.
 *
 * Normally the inbox says what is new: an entry for each transaction, with its
 * chunks and the range of journal blocks that hold its tuples without one.
 * After a start, and when the inbox had no room, the whole journal is gone
 * through instead; what is visible and not in the previous set is new by definition.
 * Either way every arrival is found once, because the set decides (I9).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "store/arrivals.h"
#include "store/directory.h"
#include "store/event.h"
#include "store/journal.h"
#include "store/mbucket_internal.h"
#include "store/pbucket.h"
#include "time/bucket.h"

/* An inbox entry that a pass has dealt with. */
typedef struct FinishedXact
{
	int32		inbox;
	bool		committed;
} FinishedXact;

typedef struct InboxCut
{
	FinishedXact *finished;
	int			nfinished;
	bool		whole_journal;	/* everything that the snapshot shows was looked at */
	FullTransactionId overflow; /* ... for the sake of these; see StreamSlot */
	FullTransactionId inherited;
	bool		overflow_done;	/* all transactions up to overflow have ended */
	Oid			file;			/* of the journal, for the blocks of these: */
	struct Straggler *stragglers;	/* those up to inherited that were in progress */
	int			nstragglers;
} InboxCut;

typedef struct BlockRange
{
	BlockNumber first;
	BlockNumber last;
} BlockRange;

/* A transaction in progress that has tuples in the journal and, being prepared, may lack an inbox entry. */
typedef struct Straggler
{
	FullTransactionId top;
	BlockRange	range;
} Straggler;

/* Growing array of arrivals, in the memory context that the pass runs in. */
static void
add_arrival(Arrivals *arrivals, int *capacity, const Arrival *arrival)
{
	if (arrivals->nitems == *capacity)
	{
		*capacity = *capacity ? *capacity * 2 : 64;
		arrivals->items = arrivals->items ?
			repalloc_huge(arrivals->items, sizeof(Arrival) * *capacity) :
			palloc(sizeof(Arrival) * *capacity);
	}
	arrivals->items[arrivals->nitems++] = *arrival;
}

bool
arrivals_pending(const StreamStorage *storage, bool *unfinished)
{
	StreamSlot *slot = directory_slot(storage->journal, true, false);
	bool		more;

	*unfinished = false;
	if (slot == NULL)
		return true;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	more = FullTransactionIdIsValid(slot->overflow) || FullTransactionIdIsValid(slot->inherited);
	LWLockRelease(area_stream_lock(slot));
	if (more)
		return true;

	/* no more than there are connections are in progress */
	for (int32 i = mbucket_take_inbox(slot); i != AREA_NONE; i = area_inbox[i].next)
	{
		if (!TransactionIdIsInProgress(XidFromFullTransactionId(area_inbox[i].top)))
			return true;
		*unfinished = true;
	}
	return false;
}

/* Lists the inbox entries of transactions that had ended when the pass's snapshot, "now", was taken. */
static void
list_finished(StreamSlot *slot, const Accounted *now, Arrivals *arrivals)
{
	InboxCut   *cut = arrivals->cut;
	int			capacity = 256;

	cut->finished = palloc(sizeof(FinishedXact) * capacity);
	for (int32 i = mbucket_take_inbox(slot); i != AREA_NONE; i = area_inbox[i].next)
	{
		FinishedXact *xact;

		if (!accounted_contains(now, area_inbox[i].top))
		{
			arrivals->unfinished = true;
			continue;
		}
		if (cut->nfinished == capacity)
		{
			capacity *= 2;
			cut->finished = repalloc_huge(cut->finished, sizeof(FinishedXact) * capacity);
		}
		xact = &cut->finished[cut->nfinished++];
		xact->inbox = i;
		xact->committed = TransactionIdDidCommit(XidFromFullTransactionId(area_inbox[i].top));
	}
}

/* Adds the chunks of a committed transaction, but for those of rolled back subtransactions. */
static void
add_chunks(const StreamStorage *storage, StreamSlot *slot, Relation journal, Arrivals *arrivals,
		   int *capacity, AreaPtr first)
{
	for (AreaPtr at = first; at;)
	{
		Chunk	   *chunk = AREA_DEREF(at);

		if (TransactionIdDidCommit(XidFromFullTransactionId(chunk->xmin)))
		{
			Arrival		arrival;

			arrival.top = chunk->top;
			arrival.first = chunk->first;
			arrival.last = chunk->last;
			arrival.nevents = chunk->nevents;
			arrival.flush = chunk->flush;
			arrival.tid = journal_tid(journal, slot, chunk);
			arrival.chunk = at;
			arrival.bucket = bucket_number(storage->bucket_width, chunk->first);
			add_arrival(arrivals, capacity, &arrival);
		}
		at = chunk->inbox_next;
	}
}

/*
 * Adds journal tuples of nblocks blocks from first on that the snapshot shows and
 * "prev" has not. With all, also those that have a chunk.
 */
static void
add_journal(Arrivals *arrivals, int *capacity, Relation journal, Snapshot snapshot,
			const Accounted *prev, const BlockRange *range, bool all)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(journal);
	TableScanDesc scan;
	HeapTuple	tuple;

	/* what a rolled back subtransaction wrote at the end may have been truncated away */
	if (range && range->first >= nblocks)
		return;
	scan = table_beginscan_strat(journal, snapshot, 0, NULL, true, false);
	if (range)
		heap_setscanlimits(scan, range->first, Min(range->last + 1, nblocks) - range->first);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);
		Arrival		arrival;

		CHECK_FOR_INTERRUPTS();
		if (accounted_contains(prev, row->top) || (!all && !journal_only(row)))
			continue;
		arrival.top = row->top;
		arrival.bucket = row->bucket;
		arrival.first = row->first;
		arrival.last = row->last;
		arrival.nevents = row->nevents;
		arrival.flush = row->flush;
		arrival.tid = tuple->t_self;
		arrival.chunk = 0;
		add_arrival(arrivals, capacity, &arrival);
		if (journal_only(row) && row->nevents > 0)
			arrivals->journal_only += tuple->t_len;
	}
	table_endscan(scan);
}

static int
compare_ranges(const void *a, const void *b)
{
	BlockNumber left = ((const BlockRange *) a)->first;
	BlockNumber right = ((const BlockRange *) b)->first;

	return left < right ? -1 : left > right;
}

/* Goes once through the union of the ranges. */
static void
add_journal_ranges(Arrivals *arrivals, int *capacity, Relation journal, Snapshot snapshot,
				   const Accounted *prev, BlockRange *ranges, int nranges)
{
	qsort(ranges, nranges, sizeof(BlockRange), compare_ranges);
	for (int i = 0; i < nranges;)
	{
		BlockRange	merged = ranges[i++];

		for (; i < nranges && ranges[i].first <= merged.last + 1; i++)
			merged.last = Max(merged.last, ranges[i].last);
		add_journal(arrivals, capacity, journal, snapshot, prev, &merged, false);
	}
}

/*
 * Lists transactions up to cut->inherited that the snapshot shows as in progress
 * and where their tuples are, so that they can be given inbox entries and the
 * whole journal need not be gone through again.
 */
static void
list_stragglers(InboxCut *cut, Relation journal, const Accounted *now)
{
	TableScanDesc scan = table_beginscan_strat(journal, SnapshotAny, 0, NULL, true, false);
	int			capacity = 0;
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		FullTransactionId top = JOURNAL_ROW(tuple)->top;
		BlockNumber block = ItemPointerGetBlockNumber(&tuple->t_self);
		Straggler  *straggler = NULL;

		CHECK_FOR_INTERRUPTS();
		if (FullTransactionIdPrecedes(cut->inherited, top) || accounted_contains(now, top))
			continue;
		for (int i = 0; i < cut->nstragglers && straggler == NULL; i++)
			if (FullTransactionIdEquals(cut->stragglers[i].top, top))
				straggler = &cut->stragglers[i];
		if (straggler == NULL)
		{
			if (cut->nstragglers == capacity)
			{
				capacity = capacity ? capacity * 2 : 16;
				cut->stragglers = cut->stragglers ?
					repalloc(cut->stragglers, sizeof(Straggler) * capacity) :
					palloc(sizeof(Straggler) * capacity);
			}
			straggler = &cut->stragglers[cut->nstragglers++];
			straggler->top = top;
			straggler->range.first = block;
		}
		straggler->range.last = block;
	}
	table_endscan(scan);
}

/*
 * Gives stragglers that have no inbox entry one. False if there is no room for all of
 * them. One that ends meanwhile is found by its entry as well. Nobody else enters them:
 * being prepared, they write no more.
 */
static bool
enter_stragglers(StreamSlot *slot, const InboxCut *cut)
{
	for (int i = 0; i < cut->nstragglers; i++)
	{
		const Straggler *straggler = &cut->stragglers[i];
		bool		known = false;

		for (int32 j = mbucket_take_inbox(slot); j != AREA_NONE && !known; j = area_inbox[j].next)
			known = FullTransactionIdEquals(area_inbox[j].top, straggler->top);
		if (!known && !mbucket_enter_straggler(slot, straggler->top, cut->file,
											   straggler->range.first, straggler->range.last))
			return false;
	}
	return true;
}

static int
compare_arrivals(const void *a, const void *b)
{
	Arrival    *left = (Arrival *) a;
	Arrival    *right = (Arrival *) b;

	if (!FullTransactionIdEquals(left->top, right->top))
		return FullTransactionIdPrecedes(left->top, right->top) ? -1 : 1;
	return ItemPointerCompare(&left->tid, &right->tid);
}

Arrivals *
arrivals_collect(const StreamStorage *storage, Snapshot snapshot, const Accounted *prev)
{
	Arrivals   *arrivals = palloc0(sizeof(Arrivals));
	InboxCut   *cut = arrivals->cut = palloc0(sizeof(InboxCut));
	StreamSlot *slot = directory_slot(storage->journal, true, false);
	Relation	journal = table_open(storage->journal, AccessShareLock);
	BlockRange *ranges;
	Accounted  *now = accounted_from_snapshot(snapshot);
	int			nranges = 0;
	int			capacity = 0;

	cut->file = JOURNAL_FILE(journal);
	cut->whole_journal = true;
	if (slot)
	{
		LWLockAcquire(area_stream_lock(slot), LW_SHARED);
		cut->overflow = slot->overflow;
		cut->inherited = slot->inherited;
		LWLockRelease(area_stream_lock(slot));
		cut->whole_journal = FullTransactionIdIsValid(cut->overflow) ||
			FullTransactionIdIsValid(cut->inherited);
		list_finished(slot, now, arrivals);
	}

	ranges = palloc_extended(sizeof(BlockRange) * Max(cut->nfinished, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < cut->nfinished; i++)
	{
		const InboxXact *entry = &area_inbox[cut->finished[i].inbox];
		bool		committed = cut->finished[i].committed;

		/* what was rolled back keeps the journal from being known as clean: it wants a fold as well */
		if (!committed && entry->first_block != InvalidBlockNumber)
			arrivals->journal_only += BLCKSZ;
		if (!committed || cut->whole_journal || accounted_contains(prev, entry->top))
			continue;
		add_chunks(storage, slot, journal, arrivals, &capacity, entry->first_chunk);
		if (entry->first_block != InvalidBlockNumber)
		{
			/* anywhere, if the journal was rewritten since */
			bool		known = entry->file == cut->file;

			ranges[nranges].first = known ? entry->first_block : 0;
			ranges[nranges++].last = known ? entry->last_block : MaxBlockNumber;
		}
	}
	if (cut->whole_journal)
	{
		add_journal(arrivals, &capacity, journal, snapshot, prev, NULL, true);
		cut->overflow_done = FullTransactionIdPrecedes(cut->overflow,
													   area_full_xid(snapshot->xmin));
		if (!FullTransactionIdPrecedes(cut->inherited, area_full_xid(snapshot->xmin)))
			list_stragglers(cut, journal, now);
		arrivals->unfinished |= !cut->overflow_done || cut->nstragglers > 0;
	}
	else
		add_journal_ranges(arrivals, &capacity, journal, snapshot, prev, ranges, nranges);

	/* transactions in the order in which they began, each one's tuples as written */
	qsort(arrivals->items, arrivals->nitems, sizeof(Arrival), compare_arrivals);
	table_close(journal, NoLock);
	return arrivals;
}

/* Calls back with the packed events of an arrival, wherever they are. */
static void
with_events(const StreamStorage *storage, Snapshot snapshot, const Arrival *arrival,
			void (*callback) (void *arg, char *events, uint32 length), void *arg)
{
	Relation	journal;
	HeapTupleData tuple;
	Buffer		buffer;
	uint32		length;
	char	   *events;

	if (arrival->chunk)
	{
		/* not accounted for, so nobody can free it */
		Chunk	   *chunk = AREA_DEREF(arrival->chunk);

		callback(arg, CHUNK_EVENTS(chunk), chunk->length);
		return;
	}
	journal = table_open(storage->journal, AccessShareLock);
	tuple.t_self = arrival->tid;
	if (!heap_fetch(journal, snapshot, &tuple, &buffer, false))
		elog(ERROR, "journal tuple (%u,%u) of relation %u is gone",
			 ItemPointerGetBlockNumber(&tuple.t_self),
			 ItemPointerGetOffsetNumber(&tuple.t_self), storage->journal);
	events = journal_events(&tuple, &length);
	callback(arg, events, length);
	ReleaseBuffer(buffer);
	table_close(journal, NoLock);
}

void
arrivals_remove_control(const StreamStorage *storage, Arrivals *arrivals, Arrival *arrival)
{
	Relation	journal;

	Assert(arrival->nevents == 0);
	if (!ConditionalLockRelationOid(storage->journal, RowExclusiveLock))
	{
		arrivals->journal_only++;	/* a fold removes it */
		return;
	}
	journal = table_open(storage->journal, NoLock);
	simple_heap_delete(journal, &arrival->tid);
	table_close(journal, NoLock);
}

typedef struct TimesState
{
	EventLayout *layout;
	EventTime  *times;
	int			n;
} TimesState;

static void
read_times(void *arg, char *events, uint32 length)
{
	TimesState *state = arg;

	EVENT_FOREACH(event, events, length)
		state->times[state->n++] = event_time(state->layout, event);
}

EventTime *
arrivals_times(const StreamStorage *storage, Snapshot snapshot, const Arrival *arrival)
{
	TimesState	state;

	state.layout = event_layout(storage);
	state.times = palloc(sizeof(EventTime) * Max(arrival->nevents, 1));
	state.n = 0;

	with_events(storage, snapshot, arrival, read_times, &state);
	Assert(state.n == arrival->nevents);
	return state.times;
}

/*
 * Setting aside
 */

typedef struct SetAsideState
{
	EventLayout *layout;
	const bool *remove;
	const bool *copy;
	ArrivalSink sink;
	void	   *arg;
	int			n;
	JournalRun	rest;
} SetAsideState;

static void
split_events(void *arg, char *events, uint32 length)
{
	SetAsideState *state = arg;

	state->rest.events = palloc_extended(length, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	EVENT_FOREACH(event, events, length)
	{
		int			i = state->n++;

		if (state->remove[i] || (state->copy && state->copy[i]))
			state->sink(state->arg, event_time(state->layout, event), event, !state->remove[i]);
		if (state->remove[i])
			continue;
		memcpy(state->rest.events + state->rest.length, event, event->length);
		state->rest.length += EVENT_SPACE(event);
	}
}

/* Marks the chunk of a journal tuple that this transaction deletes, if it has one. */
static void
mark_moved(const StreamStorage *storage, const Arrival *arrival)
{
	StreamSlot *slot = directory_slot(storage->journal, false, false);
	FullTransactionId self = GetTopFullTransactionId();
	Chunk	   *chunk;

	if (slot == NULL)
		return;
	chunk = arrival->chunk ? AREA_DEREF(arrival->chunk) :
		mbucket_chunk_of(slot, arrival->bucket, arrival->top, arrival->flush);
	if (chunk == NULL)
		return;
	mbucket_mark_set_aside(slot, arrival->bucket, chunk, self);
}

/*
 * The tuple is deleted, what remains of it is written as another one without a
 * chunk, and the chunk, if any, is marked as moved out by this transaction.
 */
void
arrivals_set_aside(const StreamStorage *storage, Snapshot snapshot, Arrival *arrival,
				   const bool *remove, const bool *copy, ArrivalSink sink, void *arg)
{
	SetAsideState state = {event_layout(storage), remove, copy, sink, arg, 0, {0}};
	Relation	journal;
	bool		any = false;

	with_events(storage, snapshot, arrival, split_events, &state);
	for (int i = 0; i < arrival->nevents; i++)
		any |= remove[i];
	if (any)
	{
		journal = table_open(storage->journal, RowExclusiveLock);
		simple_heap_delete(journal, &arrival->tid);
		DEBUG_POINT("set-aside-deleted");
		if (state.rest.length > 0)
		{
			state.rest.bucket = arrival->bucket;
			state.rest.command = 0;
			state.rest.nevents = event_run_bounds(state.layout, state.rest.events, state.rest.length,
												  &state.rest.first, &state.rest.last);
			journal_write_rest(storage, journal, arrival->top, &state.rest);
		}
		mark_moved(storage, arrival);
		table_close(journal, NoLock);
	}
	pfree(state.rest.events);
}

/*
 * Marks the chunks of a transaction: accounted, or, if it or the subtransaction that wrote
 * one was rolled back, to be freed. True if there are such. A chunk that is marked may
 * be gone at once, so the entry lets go of it before: asking pg_xact about the next one may fail, and then
 * all of this is done again.
 */
static bool
settle_chunks(const StreamStorage *storage, StreamSlot *slot, const FinishedXact *xact)
{
	InboxXact  *entry = &area_inbox[xact->inbox];
	bool		any_dead = false;

	while (entry->first_chunk)
	{
		Chunk	   *chunk = AREA_DEREF(entry->first_chunk);
		bool		committed = xact->committed &&
			TransactionIdDidCommit(XidFromFullTransactionId(chunk->xmin));

		entry->first_chunk = chunk->inbox_next;
		pg_memory_barrier();
		if (committed)
		{
			chunk->accounted = true;	/* A4 */
			continue;
		}
		any_dead = true;
		mbucket_mark_rolled_back(slot, bucket_number(storage->bucket_width, chunk->first), chunk);
	}
	return any_dead;
}

/* Takes the entries that were dealt with out of the list, and gives them back (A6). */
static void
remove_finished(StreamSlot *slot, const InboxCut *cut)
{
	int32	   *link = &slot->taken;

	for (int i = 0; i < cut->nfinished; i++)
		area_inbox[cut->finished[i].inbox].top = InvalidFullTransactionId;
	while (*link != AREA_NONE)
	{
		int32		inbox = *link;

		if (FullTransactionIdIsValid(area_inbox[inbox].top))
		{
			link = &area_inbox[inbox].next;
			continue;
		}
		*link = area_inbox[inbox].next;
		area_free_inbox(inbox);
	}
}

void
arrivals_accounted(const StreamStorage *storage, Arrivals *arrivals)
{
	StreamSlot *slot = directory_slot(storage->journal, false, false);
	InboxCut   *cut = arrivals->cut;
	bool		any_dead = false;
	bool		stragglers_entered;

	if (slot == NULL)
		return;
	for (int i = 0; i < cut->nfinished; i++)
		any_dead |= settle_chunks(storage, slot, &cut->finished[i]);
	remove_finished(slot, cut);
	if (cut->whole_journal)
	{
		stragglers_entered = enter_stragglers(slot, cut);
		LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
		if (cut->overflow_done && FullTransactionIdEquals(slot->overflow, cut->overflow))
			slot->overflow = InvalidFullTransactionId;
		if (stragglers_entered)
			slot->inherited = InvalidFullTransactionId;
		LWLockRelease(area_stream_lock(slot));
	}
	if (any_dead)
		mbucket_reclaim_slot(slot);
}

/*
 * Everything retained
 */

void
arrivals_retained(const StreamStorage *storage, Snapshot snapshot, const Accounted *set,
				  bool want_times, RetainedSink sink, void *arg)
{
	arrivals_retained_between(storage, snapshot, set, EVENT_TIME_MIN, EVENT_TIME_END, want_times, sink, arg);
}

void
arrivals_retained_between(const StreamStorage *storage, Snapshot snapshot, const Accounted *set,
						  EventTime low, EventTime high, bool want_times, RetainedSink sink, void *arg)
{
	int64		low_bucket = bucket_number(storage->bucket_width, low);
	int64		high_bucket = bucket_number(storage->bucket_width, high - 1);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion retained",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	PBucketReader *reader = pbucket_reader_create(storage, bms_make_singleton(storage->time_att));
	EventLayout *layout = event_layout(storage);
	PBucketScan blocks;
	Relation	journal;
	TableScanDesc scan;
	HeapTuple	tuple;
	MemoryContext tuple_context = AllocSetContextCreate(context, "aion retained tuple",
														ALLOCSET_DEFAULT_SIZES);

	pbucket_scan_begin(&blocks, storage, snapshot, low_bucket, high_bucket);
	while ((tuple = pbucket_scan_next(&blocks)) != NULL)
	{
		const PBucketRow *row = PBUCKET_ROW(tuple);
		EventTime  *times = NULL;
		int			n;

		if (want_times)
		{
			pbucket_reader_open(reader, tuple);
			times = pbucket_reader_times(reader, &n);
		}
		sink(arg, row->bucket, row->nevents, row->first, row->last, times);
		pbucket_reader_close(reader);
	}
	pbucket_scan_end(&blocks);

	/* what has a chunk is in the journal as well, so memory need not be looked at */
	journal = table_open(storage->journal, AccessShareLock);
	scan = table_beginscan_strat(journal, snapshot, 0, NULL, true, false);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);
		TimesState	state = {layout, NULL, 0};

		CHECK_FOR_INTERRUPTS();
		if (row->nevents == 0 || !accounted_contains(set, row->top) ||
			row->bucket < low_bucket || row->bucket > high_bucket)
			continue;
		MemoryContextSwitchTo(tuple_context);
		if (want_times)
		{
			uint32		length;
			char	   *events = journal_events(tuple, &length);

			state.times = palloc(sizeof(EventTime) * row->nevents);
			read_times(&state, events, length);
		}
		sink(arg, row->bucket, row->nevents, row->first, row->last, state.times);
		MemoryContextReset(tuple_context);
	}
	table_endscan(scan);
	table_close(journal, NoLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * What comes back
 */

typedef struct ReadmittedEvent
{
	int64		bucket;
	const Event *event;
} ReadmittedEvent;

static int
compare_readmitted(const void *a, const void *b)
{
	const ReadmittedEvent *left = a;
	const ReadmittedEvent *right = b;

	return left->bucket < right->bucket ? -1 : left->bucket > right->bucket;
}

/* Writes events of one bucket as one tuple. */
static void
write_readmitted(const StreamStorage *storage, Relation journal, const EventLayout *layout,
				 FullTransactionId top, const ReadmittedEvent *events, int n, Size length)
{
	JournalRun	run = {.bucket = events[0].bucket,.nevents = n};

	run.events = palloc_extended(length, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < n; i++)
	{
		memcpy(run.events + run.length, events[i].event, events[i].event->length);
		run.length += EVENT_SPACE(events[i].event);
	}
	(void) event_run_bounds(layout, run.events, run.length, &run.first, &run.last);
	journal_write_rest(storage, journal, top, &run);
	pfree(run.events);
}

int64
arrivals_readmit(const StreamStorage *storage, const Accounted *set, const Event **events, int n)
{
	EventLayout *layout = event_layout(storage);
	/* every set contains what is older than all that it lists, and xmin never goes back */
	FullTransactionId top = FullTransactionIdFromU64(U64FromFullTransactionId(set->xmin) - 1);
	ReadmittedEvent *sorted = palloc(sizeof(ReadmittedEvent) * Max(n, 1));
	Relation	journal = table_open(storage->journal, RowExclusiveLock);
	int64		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		sorted[i].event = events[i];
		sorted[i].bucket = bucket_number(storage->bucket_width, event_time(layout, events[i]));
	}
	qsort(sorted, n, sizeof(ReadmittedEvent), compare_readmitted);
	for (int i = 0; i < n;)
	{
		Size		length = EVENT_SPACE(sorted[i].event);
		int			next = i + 1;

		CHECK_FOR_INTERRUPTS();
		for (; next < n && sorted[next].bucket == sorted[i].bucket &&
			 length + EVENT_SPACE(sorted[next].event) <= JOURNAL_RUN_MAX; next++)
			length += EVENT_SPACE(sorted[next].event);
		write_readmitted(storage, journal, layout, top, &sorted[i], next - i, length);
		bytes += length;
		i = next;
	}
	table_close(journal, NoLock);
	pfree(sorted);
	return bytes;
}

/*
 * What comes from elsewhere
 */

/*
 * Ids of another cluster mean nothing here. These are older than every transaction that can have inserted
 * an event: one for what is accounted for, one for what is not. A pass judges all of that by the same
 * watermark, whichever transactions it came in.
 */
#define ADOPTED_ACCOUNTED	((uint64) FirstNormalTransactionId)
#define ADOPTED_PENDING		(ADOPTED_ACCOUNTED + 1)

Accounted *
arrivals_adopt(const StreamStorage *storage, Snapshot snapshot, const Accounted *set)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion adopted tuple",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	Relation	journal = table_open(storage->journal, RowExclusiveLock);
	TableScanDesc scan = table_beginscan_strat(journal, snapshot, 0, NULL, true, false);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);
		JournalRun	run = {.bucket = row->bucket,.nevents = row->nevents,.first = row->first,.last = row->last};
		uint64		top = accounted_contains(set, row->top) ? ADOPTED_ACCOUNTED : ADOPTED_PENDING;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(context);
		run.events = journal_events(tuple, &run.length);
		journal_write_rest(storage, journal, FullTransactionIdFromU64(top), &run);
		simple_heap_delete(journal, &tuple->t_self);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	table_endscan(scan);
	table_close(journal, NoLock);
	MemoryContextDelete(context);
	/* the first id that is not in it; none of this cluster is */
	return accounted_from_text(psprintf(UINT64_FORMAT ":" UINT64_FORMAT ":", ADOPTED_PENDING, ADOPTED_PENDING));
}
