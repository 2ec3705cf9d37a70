/*
 * directory.c
 *	  The directory of shared memory: streams' slots, and their buckets.
 *
 * Knows that a bucket has chunks and staged blocks when it is to be removed,
 * and nothing else of them. A crash leaves nothing: shared memory begins empty.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"

#include "store/directory.h"

/*
 * Slots of streams
 */

static StreamSlot *
slot_search(Oid journal)
{
	for (int32 i = 0; i < area->nslots; i++)
		if (area_slots[i].journal == journal && area_slots[i].database == MyDatabaseId)
			return &area_slots[i];
	return NULL;
}

/*
 * The latest transaction that may have written to a journal before it gets its
 * slot: one of an earlier life of shared memory, the creator being the first
 * to write in this one, unless slots ran out.
 */
static FullTransactionId
last_before_creation(FullTransactionId creator)
{
	FullTransactionId limit = creator;

	if (!FullTransactionIdIsValid(creator) || area->slots_exhausted)
		limit = ReadNextFullTransactionId();
	FullTransactionIdRetreat(&limit);
	return limit;
}

/*
 * The slot of a journal of this database; NULL if it has none and none is
 * asked for or to be had. A slot once returned stays the journal's as long as
 * the caller holds a lock on it: only journals that no longer exist lose theirs.
 */
StreamSlot *
directory_slot(Oid journal, bool create, bool journal_is_new)
{
	StreamSlot *slot;

	static StreamSlot *latest = NULL;

	if (area == NULL)
		return NULL;
	/* no lock: if it is the journal's now, it was when the caller locked the journal */
	if (latest && latest->journal == journal && latest->database == MyDatabaseId)
		return latest;

	/* The lock orders the search against the assignment of slots. */
	LWLockAcquire(area_slots_lock(), LW_SHARED);
	slot = slot_search(journal);
	LWLockRelease(area_slots_lock());
	if (slot || !create)
		return latest = slot;

	LWLockAcquire(area_slots_lock(), LW_EXCLUSIVE);
	slot = slot_search(journal);
	for (int32 i = 0; slot == NULL && i < area->nslots; i++)
	{
		if (OidIsValid(area_slots[i].database))
			continue;
		slot = &area_slots[i];
		LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
		memset(slot, 0, sizeof(StreamSlot));
		pg_atomic_init_u64(&slot->read_columns, 0);
		slot->database = MyDatabaseId;
		slot->journal = journal;
		slot->creator = GetTopFullTransactionIdIfAny();
		slot->first_bucket = slot->first_inbox = slot->last_inbox = slot->taken = AREA_NONE;
		slot->overflow = slot->inherited = InvalidFullTransactionId;
		slot->clean_since = InvalidFullTransactionId;
		if (journal_is_new)
			slot->clean_since = slot->creator;
		else
		{
			/* what is in progress now, a prepared transaction say, may have written what has no chunk */
			slot->journal_writer = ReadNextFullTransactionId();
			FullTransactionIdRetreat(&slot->journal_writer);
			slot->inherited = last_before_creation(slot->creator);
			if (area->slots_exhausted)
				slot->overflow = slot->inherited;
		}
		LWLockRelease(area_stream_lock(slot));
	}
	if (slot == NULL)
		area->slots_exhausted = true;
	LWLockRelease(area_slots_lock());
	return slot;
}

/*
 * Buckets. All under the slot's stream lock (A1), exclusive for what changes.
 */

static int32 *
hash_head(const StreamSlot *slot, int64 number)
{
	uint32		hash = hash_combine(murmurhash32((uint32) (slot - area_slots)),
									murmurhash32((uint32) number ^ (uint32) (number >> 32)));

	return &area_hash[hash & (area->nhash - 1)];
}

/*
 * Hash chains run through buckets of different slots, whose locks differ, so a
 * chain is guarded by the area's spinlock on top of A1: it is a few links long.
 */
MBucket *
directory_find(StreamSlot *slot, int64 number)
{
	int32		slot_number = slot - area_slots;
	int32		i;

	SpinLockAcquire(&area->mutex);
	for (i = *hash_head(slot, number); i != AREA_NONE; i = area_buckets[i].hash_next)
		if (area_buckets[i].number == number && area_buckets[i].slot == slot_number)
			break;
	SpinLockRelease(&area->mutex);
	return i == AREA_NONE ? NULL : &area_buckets[i];
}

/* Makes an empty bucket; NULL if there is no entry to be had. */
static MBucket *
bucket_create(StreamSlot *slot, int64 number)
{
	int32		index = area_alloc_bucket();
	MBucket    *bucket;
	int32	   *head;

	if (index == AREA_NONE)
		return NULL;
	bucket = &area_buckets[index];
	bucket->number = number;
	bucket->first_chunk = bucket->last_chunk = bucket->swept_to = 0;
	bucket->first_page = bucket->open_page = AREA_NONE;
	bucket->npages = bucket->nevents = 0;
	bucket->first_staged = AREA_NONE;
	bucket->staged_pages = 0;
	bucket->staged_at = 0;
	bucket->expected = false;
	bucket->freed_by = slot->freed_by;
	bucket->marks = bucket->swept_marks = 0;
	bucket->moved = 0;
	bucket->filled = bucket->changed = 0;

	bucket->prev = AREA_NONE;
	bucket->next = slot->first_bucket;
	if (bucket->next != AREA_NONE)
		area_buckets[bucket->next].prev = index;
	slot->first_bucket = index;

	head = hash_head(slot, number);
	SpinLockAcquire(&area->mutex);
	bucket->slot = slot - area_slots;
	bucket->hash_next = *head;
	*head = index;
	SpinLockRelease(&area->mutex);
	return bucket;
}

MBucket *
directory_find_or_create(StreamSlot *slot, int64 number)
{
	MBucket    *bucket = directory_find(slot, number);

	return bucket ? bucket : bucket_create(slot, number);
}

/* Remembers the latest of the transactions that moved events out of chunks since freed. */
void
directory_note_freed(FullTransactionId *latest, FullTransactionId xid)
{
	if (FullTransactionIdPrecedes(*latest, xid))
		*latest = xid;
}

/* Takes an empty bucket out of the slot and gives its entry back. */
void
directory_remove(StreamSlot *slot, MBucket *bucket)
{
	int32		index = bucket - area_buckets;
	int32	   *link;

	Assert(bucket->npages == 0 && bucket->first_staged == AREA_NONE);
	Assert(pg_atomic_read_u32(&bucket->pins) == 0);
	directory_note_freed(&slot->freed_by.destage, bucket->freed_by.destage);
	directory_note_freed(&slot->freed_by.set_aside, bucket->freed_by.set_aside);

	SpinLockAcquire(&area->mutex);
	for (link = hash_head(slot, bucket->number); *link != index;)
		link = &area_buckets[*link].hash_next;
	*link = bucket->hash_next;
	SpinLockRelease(&area->mutex);

	if (bucket->prev != AREA_NONE)
		area_buckets[bucket->prev].next = bucket->next;
	else
		slot->first_bucket = bucket->next;
	if (bucket->next != AREA_NONE)
		area_buckets[bucket->next].prev = bucket->prev;
	area_free_bucket(index);
}

/* Pins a bucket, so that nothing of it is freed; NULL if memory has none of that number. */
MBucket *
directory_pin(StreamSlot *slot, int64 number)
{
	MBucket    *bucket;

	/* A5: the pin must be in place before anybody can sweep the bucket */
	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	bucket = directory_find(slot, number);
	if (bucket)
		pg_atomic_fetch_add_u32(&bucket->pins, 1);
	LWLockRelease(area_stream_lock(slot));
	return bucket;
}

/* Drops a pin; without a lock (A5). */
void
directory_unpin(MBucket *bucket)
{
	uint32		before PG_USED_FOR_ASSERTS_ONLY = pg_atomic_fetch_sub_u32(&bucket->pins, 1);

	Assert(before > 0);
}

/*
 * Looking
 */

static int
compare_numbers(const void *a, const void *b)
{
	int64		left = *(const int64 *) a;
	int64		right = *(const int64 *) b;

	return left < right ? -1 : left > right;
}

/* A range of fewer buckets is looked up one by one, a larger one by going through the slot's list. */
#define PROBE_LIMIT 64

/* Numbers of the slot's buckets from low to high inclusive, ascending. Palloc'd. */
int64 *
directory_numbers(StreamSlot *slot, int64 low, int64 high, int *n)
{
	int			capacity = PROBE_LIMIT;
	int64	   *numbers = palloc(capacity * sizeof(int64));

	if (low <= high && (uint64) high - (uint64) low < PROBE_LIMIT)
	{
		*n = 0;
		LWLockAcquire(area_stream_lock(slot), LW_SHARED);
		for (int64 i = 0; i <= high - low; i++)
			if (directory_find(slot, low + i))
				numbers[(*n)++] = low + i;
		LWLockRelease(area_stream_lock(slot));
		return numbers;
	}

	/* no palloc under the lock (I8): count, allocate, and try again if it grew */
	for (;;)
	{
		*n = 0;
		LWLockAcquire(area_stream_lock(slot), LW_SHARED);
		for (int32 i = slot->first_bucket; i != AREA_NONE; i = area_buckets[i].next)
		{
			if (area_buckets[i].number < low || area_buckets[i].number > high)
				continue;
			if (*n < capacity)
				numbers[*n] = area_buckets[i].number;
			(*n)++;
		}
		LWLockRelease(area_stream_lock(slot));
		if (*n <= capacity)
			break;
		capacity = *n + PROBE_LIMIT;
		numbers = repalloc(numbers, capacity * sizeof(int64));
	}
	qsort(numbers, *n, sizeof(int64), compare_numbers);
	return numbers;
}
