/*
 * mbucket.c
 *	  m-buckets: the chunks of buckets, and the inbox.
 *
 * A writer enters its transaction in the stream's inbox, reserves a chunk
 * for each journal tuple before it writes the tuple, and fills it in after. The
 * room may be refused at each step; then the tuple is written without a chunk.
 * Accounting empties the inbox (arrivals.c), destaging marks chunks
 * (destage.c), and mbucket_reclaim() here gives space back.
 *
 * A crash leaves nothing: shared memory begins empty.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

#include "store/area.h"
#include "store/directory.h"
#include "store/mbucket.h"
#include "store/mbucket_internal.h"
#include "store/staged.h"

/* One transaction may hold this part of the area's pages. */
#define TRANSACTION_SHARE	4

List *
mbucket_journals(void)
{
	List	   *journals = NIL;

	if (area == NULL)
		return NIL;
	for (int32 i = 0; i < area->nslots; i++)
	{
		Oid			journal = InvalidOid;
		FullTransactionId creator = InvalidFullTransactionId;

		LWLockAcquire(area_slots_lock(), LW_SHARED);
		if (area_slots[i].database == MyDatabaseId)
		{
			journal = area_slots[i].journal;
			creator = area_slots[i].creator;
		}
		LWLockRelease(area_slots_lock());
		if (!OidIsValid(journal) ||
			(FullTransactionIdIsValid(creator) &&
			 TransactionIdIsInProgress(XidFromFullTransactionId(creator))))
			continue;
		journals = lappend_oid(journals, journal);
		if (FullTransactionIdIsValid(creator))
		{
			/* has ended: not to be asked again when its id may be another's */
			LWLockAcquire(area_slots_lock(), LW_EXCLUSIVE);
			if (area_slots[i].journal == journal && area_slots[i].database == MyDatabaseId)
				area_slots[i].creator = InvalidFullTransactionId;
			LWLockRelease(area_slots_lock());
		}
	}
	return journals;
}

/*
 * Writing
 */

/*
 * Enters top-level transaction "top" in the slot's inbox, if *inbox says that it is not. Without
 * room for an entry, *inbox is AREA_NONE, and the slot tells accounting to look into the
 * journal. Stream lock held exclusively.
 */
static void
enter_inbox(StreamSlot *slot, FullTransactionId top, int32 *inbox)
{
	InboxXact  *entry;

	if (*inbox != INBOX_NOT_ENTERED)
		return;
	*inbox = area_alloc_inbox();
	if (*inbox == AREA_NONE)
	{
		if (FullTransactionIdPrecedes(slot->overflow, top))
			slot->overflow = top;
		return;
	}
	entry = &area_inbox[*inbox];
	entry->next = AREA_NONE;
	entry->top = top;
	entry->first_chunk = entry->last_chunk = 0;
	entry->bytes = 0;
	entry->first_block = entry->last_block = InvalidBlockNumber;
	entry->file = InvalidOid;
	if (slot->last_inbox == AREA_NONE)
		slot->first_inbox = *inbox;
	else
		area_inbox[slot->last_inbox].next = *inbox;
	slot->last_inbox = *inbox;
}

/* Takes over what is new in the inbox, and returns the first of all entries taken over (A6). */
int32
mbucket_take_inbox(StreamSlot *slot)
{
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	if (slot->first_inbox != AREA_NONE)
	{
		area_inbox[slot->last_inbox].next = slot->taken;
		slot->taken = slot->first_inbox;
		slot->first_inbox = slot->last_inbox = AREA_NONE;
	}
	LWLockRelease(area_stream_lock(slot));
	return slot->taken;
}

/* Room for "size" bytes in a page of the bucket, or NULL. Takes a new page if it must. */
static char *
bucket_room(MBucket *bucket, Size size)
{
	PageHeaderArea *page = bucket->open_page == AREA_NONE ? NULL : AREA_PAGE(bucket->open_page);
	char	   *room;

	if (page == NULL || page->free + size > AREA_PAGE_SIZE)
	{
		int32		fresh = area_alloc_page();
		PageHeaderArea *fresh_page;

		if (fresh == AREA_NONE)
			return NULL;
		fresh_page = AREA_PAGE(fresh);
		fresh_page->prev = AREA_NONE;
		fresh_page->next = bucket->first_page;
		if (bucket->first_page != AREA_NONE)
			AREA_PAGE(bucket->first_page)->prev = fresh;
		bucket->first_page = fresh;
		bucket->npages++;
		/* keep open whichever will have more room */
		if (page == NULL || page->free >= fresh_page->free + size)
			bucket->open_page = fresh;
		page = fresh_page;
	}
	room = (char *) page + page->free;
	page->free += size;
	page->live++;
	return room;
}

/*
 * Reserves a chunk for the events described by "header" (all fields but links,
 * tid, file and marks set) and links it where readers and accounting will find it.
 * Returns it for its events, tid and file to be filled in (A2), or NULL: journal only.
 * *inbox is the transaction's place in the inbox, made by the first call.
 */
Chunk *
mbucket_reserve(StreamSlot *slot, int32 *inbox, int64 number, const Chunk *header)
{
	Size		size = MAXALIGN(sizeof(Chunk)) + MAXALIGN(header->length);
	InboxXact  *entry;
	MBucket    *bucket = NULL;
	Chunk	   *chunk = NULL;

	Assert(MAXALIGN(sizeof(PageHeaderArea)) + size <= AREA_PAGE_SIZE);

	/* A1: the inbox, the bucket's pages and chunk list change */
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	enter_inbox(slot, header->top, inbox);
	entry = *inbox == AREA_NONE ? NULL : &area_inbox[*inbox];
	if (entry && entry->bytes + size <= (uint64) area->npages * AREA_PAGE_SIZE / TRANSACTION_SHARE)
		bucket = directory_find_or_create(slot, number);
	if (bucket)
		chunk = (Chunk *) bucket_room(bucket, size);
	if (chunk)
	{
		*chunk = *header;
		chunk->next = chunk->inbox_next = 0;
		chunk->xmax = InvalidFullTransactionId;
		chunk->accounted = chunk->set_aside = false;
		chunk->file = InvalidOid;
		ItemPointerSetInvalid(&chunk->tid);

		/* a scan follows the links without a lock: the chunk first, then the link to it */
		pg_write_barrier();
		if (bucket->last_chunk)
			((Chunk *) AREA_DEREF(bucket->last_chunk))->next = AREA_PTR(chunk);
		else
			bucket->first_chunk = AREA_PTR(chunk);
		bucket->last_chunk = AREA_PTR(chunk);
		bucket->changed = GetCurrentStatementStartTimestamp();
		if (bucket->nevents == 0)
			bucket->filled = bucket->changed;
		bucket->nevents += chunk->nevents;

		if (entry->last_chunk)
			((Chunk *) AREA_DEREF(entry->last_chunk))->inbox_next = AREA_PTR(chunk);
		else
			entry->first_chunk = AREA_PTR(chunk);
		entry->last_chunk = AREA_PTR(chunk);
		entry->bytes += size;
	}
	LWLockRelease(area_stream_lock(slot));
	return chunk;
}

/* To be called before top-level transaction "writer" writes a journal tuple of events without a chunk. */
static void
note_writer(StreamSlot *slot, FullTransactionId writer)
{
	if (FullTransactionIdPrecedes(slot->journal_writer, writer))
		slot->journal_writer = writer;
	slot->clean_since = slot->clean_pending = InvalidFullTransactionId;
	slot->journal_writes++;
}

/*
 * The same for what arrives: accounting will find it by the inbox. Control entries
 * alone (no "events") matter to nobody else.
 */
void
mbucket_note_journal_write(StreamSlot *slot, int32 *inbox, FullTransactionId writer, bool events)
{
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	enter_inbox(slot, writer, inbox);
	if (events)
		note_writer(slot, writer);
	LWLockRelease(area_stream_lock(slot));
}

/* The same for events that have been accounted for. */
void
mbucket_note_journal_rewrite(StreamSlot *slot, FullTransactionId writer)
{
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	note_writer(slot, writer);
	LWLockRelease(area_stream_lock(slot));
}

/*
 * To be called after, before the transaction ends: where accounting finds such tuples, in the
 * journal's file (relfilenode). A transaction that has the journal rewritten between two
 * inserts has them anywhere.
 */
void
mbucket_note_journal_blocks(StreamSlot *slot, int32 inbox, Oid file, BlockNumber first, BlockNumber last)
{
	InboxXact  *entry;

	if (inbox == AREA_NONE)
		return;					/* the whole journal will be gone through */
	entry = &area_inbox[inbox];
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	entry->file = entry->first_block == InvalidBlockNumber || entry->file == file ? file : InvalidOid;
	if (entry->first_block == InvalidBlockNumber || first < entry->first_block)
		entry->first_block = first;
	if (entry->last_block == InvalidBlockNumber || last > entry->last_block)
		entry->last_block = last;
	LWLockRelease(area_stream_lock(slot));
}

/* Enters a transaction that wrote to these journal blocks in an earlier life; false: no room. */
bool
mbucket_enter_straggler(StreamSlot *slot, FullTransactionId top, Oid file, BlockNumber first, BlockNumber last)
{
	int32		inbox = INBOX_NOT_ENTERED;

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	enter_inbox(slot, top, &inbox);
	LWLockRelease(area_stream_lock(slot));
	mbucket_note_journal_blocks(slot, inbox, file, first, last);
	return inbox != AREA_NONE;
}

/*
 * Looking
 */

/*
 * The chunk of transaction "top"'s journal tuple "flush" that accounting has not seen, NULL if it has none.
 * Nobody else frees such a chunk, so it stays good after the lock is gone.
 */
Chunk *
mbucket_chunk_of(StreamSlot *slot, int64 number, FullTransactionId top, uint32 flush)
{
	Chunk	   *found = NULL;
	MBucket    *bucket;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	bucket = directory_find(slot, number);
	for (AreaPtr at = bucket ? bucket->first_chunk : 0; at && found == NULL;)
	{
		Chunk	   *chunk = AREA_DEREF(at);

		if (FullTransactionIdEquals(chunk->top, top) && chunk->flush == flush)
			found = chunk;
		at = chunk->next;
	}
	LWLockRelease(area_stream_lock(slot));
	return found;
}

/*
 * The chunk after "chunk" in a pinned bucket, the first one after NULL; NULL: there is no further one. Without
 * a lock, since nothing is freed while the pin is held; chunks are appended meanwhile.
 */
Chunk *
mbucket_next_chunk(const MBucket *bucket, const Chunk *chunk)
{
	AreaPtr		next = chunk ? chunk->next : bucket->first_chunk;

	/* pairs with the barrier in mbucket_reserve() */
	pg_read_barrier();
	return next ? AREA_DEREF(next) : NULL;
}

/*
 * True if a chunk is accounted for and not moved out, beyond those that hold the first "keep"
 * such events. Mostly the first chunk is; others come first while their transactions are in progress. The
 * bucket is pinned.
 */
static bool
holds_movable(const MBucket *bucket, int64 keep)
{
	for (Chunk *chunk = NULL; (chunk = mbucket_next_chunk(bucket, chunk)) != NULL;)
	{
		if (!chunk->accounted || FullTransactionIdIsValid(chunk->xmax))
			continue;
		if (keep <= 0)
			return true;
		keep -= chunk->nevents;
	}
	return false;
}

bool
mbucket_has_more(Oid journal, int64 number, int64 keep)
{
	StreamSlot *slot = directory_slot(journal, false, false);
	MBucket    *bucket = slot ? directory_pin(slot, number) : NULL;
	bool		more;

	if (bucket == NULL)
		return false;
	more = holds_movable(bucket, keep);
	directory_unpin(bucket);
	return more;
}

/* A copy of a block that is not older is taken for one that will be read soon. In microseconds. */
#define STAGED_FRESH (10 * USECS_PER_SEC)

MBucketInfo *
mbucket_list(Oid journal, int *n)
{
	StreamSlot *slot = directory_slot(journal, false, false);
	TimestampTz now = GetCurrentTimestamp();
	int64	   *numbers;
	MBucketInfo *infos;
	int			kept = 0;

	*n = 0;
	if (slot == NULL)
		return NULL;
	numbers = directory_numbers(slot, PG_INT64_MIN, PG_INT64_MAX, n);
	infos = palloc0(sizeof(MBucketInfo) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		MBucket    *bucket = directory_pin(slot, numbers[i]);

		if (bucket == NULL)
			continue;
		if (bucket->npages + bucket->staged_pages > 0)
		{
			MBucketInfo *info = &infos[kept++];

			info->number = numbers[i];
			info->events = bucket->nevents;
			info->moved = bucket->moved;
			info->bytes = (int64) bucket->npages * AREA_PAGE_SIZE;
			info->staged_bytes = (int64) bucket->staged_pages * AREA_PAGE_SIZE;
			info->age_ms = (now - bucket->changed) / 1000;
			info->span_ms = (now - bucket->filled) / 1000;
			/* one of the pins is ours */
			info->read = pg_atomic_read_u32(&bucket->pins) > 1 ||
				(bucket->first_staged != AREA_NONE && now - bucket->staged_at < STAGED_FRESH);
			info->accounted_any = holds_movable(bucket, 0);
		}
		directory_unpin(bucket);
	}
	*n = kept;
	return infos;
}

/*
 * Giving space back
 */

/* Marks a chunk of bucket "number" as moved out by an accounting pass. */
void
mbucket_mark_set_aside(StreamSlot *slot, int64 number, Chunk *chunk, FullTransactionId mover)
{
	/* A4: the mark of an earlier pass that failed may be being cleared */
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	chunk->xmax = mover;
	chunk->set_aside = true;
	directory_find(slot, number)->marks++;
	LWLockRelease(area_stream_lock(slot));
}

/* Marks a chunk of bucket "number" as one whose (sub)transaction was rolled back. */
void
mbucket_mark_rolled_back(StreamSlot *slot, int64 number, Chunk *chunk)
{
	/* A1: a sweep may be looking at it */
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	chunk->xmin = InvalidFullTransactionId;
	directory_find(slot, number)->marks++;
	LWLockRelease(area_stream_lock(slot));
}

/* How the transactions ended that moved events out of a bucket: asked before the lock is taken. */
#define MAX_MOVERS 8

/* Chunks looked at in one hold of the stream lock. */
#define SWEEP_BATCH 256

typedef struct Movers
{
	int			n;
	FullTransactionId xid[MAX_MOVERS];
	bool		committed[MAX_MOVERS];
} Movers;

/*
 * Collects the distinct xmax of a pinned bucket's chunks, without a lock. If there are
 * more than fit, the rest is left for the next time.
 */
static void
find_movers(const MBucket *bucket, Movers *movers)
{
	movers->n = 0;
	for (Chunk *chunk = NULL; (chunk = mbucket_next_chunk(bucket, chunk)) != NULL;)
	{
		bool		known = !FullTransactionIdIsValid(chunk->xmax);

		for (int i = 0; i < movers->n && !known; i++)
			known = FullTransactionIdEquals(movers->xid[i], chunk->xmax);
		if (!known && movers->n < MAX_MOVERS)
			movers->xid[movers->n++] = chunk->xmax;
	}
}

/* Asks how the movers ended, and leaves those out that have not. */
static void
resolve_movers(Movers *movers)
{
	int			kept = 0;

	for (int i = 0; i < movers->n; i++)
	{
		TransactionId xid = XidFromFullTransactionId(movers->xid[i]);

		if (TransactionIdIsInProgress(xid))
			continue;
		movers->committed[kept] = TransactionIdDidCommit(xid);
		movers->xid[kept++] = movers->xid[i];
	}
	movers->n = kept;
}

/*
 * True if the chunk can be freed: moved out by a transaction that committed, or
 * rolled back (arrivals_accounted() has taken its xmin away). One that was set
 * aside is still in the inbox until arrivals_accounted() has marked it, too. Clears the
 * mark of a mover that was rolled back.
 */
static bool
chunk_is_dead(Chunk *chunk, const Movers *movers)
{
	for (int i = 0; i < movers->n; i++)
	{
		if (!FullTransactionIdEquals(movers->xid[i], chunk->xmax))
			continue;
		if (movers->committed[i])
			return chunk->accounted;
		chunk->xmax = InvalidFullTransactionId;
		chunk->set_aside = false;
	}
	return !FullTransactionIdIsValid(chunk->xmin);
}

/* Takes an empty page out of the bucket. */
static void
bucket_free_page(MBucket *bucket, int32 number)
{
	PageHeaderArea *page = AREA_PAGE(number);

	if (page->prev != AREA_NONE)
		AREA_PAGE(page->prev)->next = page->next;
	else
		bucket->first_page = page->next;
	if (page->next != AREA_NONE)
		AREA_PAGE(page->next)->prev = page->prev;
	if (bucket->open_page == number)
		bucket->open_page = AREA_NONE;
	bucket->npages--;
	area_free_page(number);
}

/* Takes a dead chunk out of the bucket; "link" points to it. */
static void
bucket_free_chunk(MBucket *bucket, AreaPtr *link)
{
	Chunk	   *chunk = AREA_DEREF(*link);
	int32		page = AREA_PAGE_OF(chunk);

	if (FullTransactionIdIsValid(chunk->xmin))
		directory_note_freed(chunk->set_aside ? &bucket->freed_by.set_aside : &bucket->freed_by.destage,
				   chunk->xmax);
	if (chunk->next == 0)
		bucket->last_chunk = bucket->swept_to;
	bucket->nevents -= chunk->nevents;
	if (bucket->nevents == 0)
		bucket->moved = 0;
	else if (FullTransactionIdIsValid(chunk->xmin) && !chunk->set_aside)
		bucket->moved += chunk->nevents;
	*link = chunk->next;
	if (--AREA_PAGE(page)->live == 0)
		bucket_free_page(bucket, page);
}

/*
 * Frees what can be freed of one bucket, which is not pinned, in the next SWEEP_BATCH chunks after
 * swept_to. One that is marked and has to stay counts as marked anew. True if that was the end
 * of the bucket. Stream lock held exclusively.
 */
static bool
bucket_sweep(MBucket *bucket, const Movers *movers)
{
	AreaPtr    *link = bucket->swept_to ? &((Chunk *) AREA_DEREF(bucket->swept_to))->next :
		&bucket->first_chunk;

	for (int n = 0; n < SWEEP_BATCH && *link; n++)
	{
		Chunk	   *chunk = AREA_DEREF(*link);

		if (chunk_is_dead(chunk, movers))
		{
			bucket_free_chunk(bucket, link);
			continue;
		}
		bucket->marks += FullTransactionIdIsValid(chunk->xmax);
		bucket->swept_to = *link;
		link = &chunk->next;
	}
	if (*link)
		return false;
	bucket->swept_to = 0;
	return true;
}

/*
 * True if the bucket is empty, no scan is on it, and no snapshot can ask for its freed_by any more, or
 * entries are scarce.
 */
static bool
is_unused(MBucket *bucket, FullTransactionId horizon)
{
	return bucket->npages == 0 && bucket->first_staged == AREA_NONE &&
		pg_atomic_read_u32(&bucket->pins) == 0 &&
		((FullTransactionIdPrecedes(bucket->freed_by.destage, horizon) &&
		  FullTransactionIdPrecedes(bucket->freed_by.set_aside, horizon)) ||
		 area_short_of_buckets());
}

/*
 * Sweeps one bucket, if chunks of it have been marked since the last time, and gives an empty one's
 * entry back.
 *
 * Two processes may sweep the same bucket, in turns of SWEEP_BATCH chunks. They share swept_to:
 * whoever begins sets it back, so that each goes through all of the bucket.
 */
static void
reclaim_bucket(StreamSlot *slot, int64 number, FullTransactionId horizon)
{
	MBucket    *bucket;
	Movers		movers = {0};
	bool		sweep;
	bool		first = true;
	bool		done = false;

	CHECK_FOR_INTERRUPTS();
	bucket = directory_pin(slot, number);
	if (bucket == NULL)
		return;
	sweep = bucket->marks != bucket->swept_marks;
	if (sweep)
		find_movers(bucket, &movers);
	directory_unpin(bucket);
	resolve_movers(&movers);

	while (!done)
	{
		done = !sweep;
		/* A5: nobody may pin the bucket or follow its chunks meanwhile */
		LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
		bucket = directory_find(slot, number);
		if (bucket == NULL || pg_atomic_read_u32(&bucket->pins) > 0)
		{
			if (bucket && !first)
				bucket->marks++;	/* the rest of the sweep is left for the next time */
			done = true;
		}
		else if (sweep)
		{
			if (first)
			{
				bucket->swept_to = 0;
				bucket->swept_marks = bucket->marks;
			}
			done = bucket_sweep(bucket, &movers);
		}
		if (bucket && is_unused(bucket, horizon))
			directory_remove(slot, bucket);
		LWLockRelease(area_stream_lock(slot));
		first = false;
	}
}

static FullTransactionId
reclaim_horizon(void)
{
	return area_full_xid(GetOldestNonRemovableTransactionId(NULL));
}

/* Resolves what the slot itself knows of transactions by now ended. */
static void
resolve_slot(StreamSlot *slot)
{
	FullTransactionId pending;
	bool		committed;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	pending = slot->clean_pending;
	LWLockRelease(area_stream_lock(slot));
	if (!FullTransactionIdIsValid(pending) ||
		TransactionIdIsInProgress(XidFromFullTransactionId(pending)))
		return;
	committed = TransactionIdDidCommit(XidFromFullTransactionId(pending));

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	/* unless a writer has cleared it since */
	if (FullTransactionIdEquals(slot->clean_pending, pending))
	{
		slot->clean_pending = InvalidFullTransactionId;
		if (committed)
			slot->clean_since = pending;
	}
	LWLockRelease(area_stream_lock(slot));
}

void
mbucket_reclaim_slot(StreamSlot *slot)
{
	FullTransactionId horizon = reclaim_horizon();
	int			n;
	int64	   *numbers = directory_numbers(slot, PG_INT64_MIN, PG_INT64_MAX, &n);

	resolve_slot(slot);
	for (int i = 0; i < n; i++)
		reclaim_bucket(slot, numbers[i], horizon);
	pfree(numbers);
}

void
mbucket_reclaim_one(Oid journal, int64 number)
{
	StreamSlot *slot = directory_slot(journal, false, false);

	if (slot)
		reclaim_bucket(slot, number, reclaim_horizon());
}

void
mbucket_reclaim(Oid journal)
{
	StreamSlot *slot = directory_slot(journal, false, false);

	if (slot)
		mbucket_reclaim_slot(slot);
}

/*
 * True if somebody has pinned a bucket of the slot, or a copy of a block. Stream lock held exclusively,
 * so nobody begins to meanwhile.
 */
static bool
is_pinned(const StreamSlot *slot)
{
	for (int32 i = slot->first_bucket; i != AREA_NONE; i = area_buckets[i].next)
	{
		if (pg_atomic_read_u32(&area_buckets[i].pins) > 0)
			return true;
		for (int32 j = area_buckets[i].first_staged; j != AREA_NONE; j = area_staged[j].next)
			if (pg_atomic_read_u32(&area_staged[j].pins) > 0)
				return true;
	}
	return false;
}

static void
free_inbox_list(int32 first)
{
	for (int32 inbox = first, next; inbox != AREA_NONE; inbox = next)
	{
		next = area_inbox[inbox].next;
		area_free_inbox(inbox);
	}
}

/*
 * The journal is gone for good, and so is every transaction and scan that could
 * use its memory: they held a lock on the stream. Those who look for what there is to do, the I/O worker and
 * serializers, hold none: what they have pinned stays for now.
 */
static bool
forget_slot(StreamSlot *slot, Oid database)
{
	bool		pinned;

	LWLockAcquire(area_slots_lock(), LW_EXCLUSIVE);
	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	pinned = is_pinned(slot);
	if (!pinned && slot->database == database)
	{
		free_inbox_list(slot->first_inbox);
		free_inbox_list(slot->taken);
		while (slot->first_bucket != AREA_NONE)
		{
			MBucket    *bucket = &area_buckets[slot->first_bucket];

			area_free_pages(bucket->first_page);
			bucket->npages = 0;
			(void) staged_evict_locked(bucket);
			directory_remove(slot, bucket);
		}
		slot->database = slot->journal = InvalidOid;
	}
	LWLockRelease(area_stream_lock(slot));
	LWLockRelease(area_slots_lock());
	return !pinned;
}

bool
mbucket_forget(Oid journal)
{
	StreamSlot *slot = directory_slot(journal, false, false);

	return slot == NULL || forget_slot(slot, MyDatabaseId);
}

/* Nobody makes slots of that database any more, so they can be looked for without a lock. */
bool
mbucket_forget_database(Oid database)
{
	bool		all = true;

	for (int32 i = 0; area != NULL && i < area->nslots; i++)
		if (area_slots[i].database == database)
			all &= forget_slot(&area_slots[i], database);
	return all;
}

/* Without a lock: a slot that is given to somebody meanwhile is of a database that exists. */
List *
mbucket_databases(void)
{
	List	   *databases = NIL;

	for (int32 i = 0; area != NULL && i < area->nslots; i++)
	{
		Oid			database = area_slots[i].database;

		if (OidIsValid(database))
			databases = list_append_unique_oid(databases, database);
	}
	return databases;
}
