/*
 * area.c
 *	  The shared memory area: layout, locks, and free lists.
 *
 * The area is a cache: a crash or restart begins with an empty one of a new
 * generation, and nothing that was in the old one is needed. It knows
 * nothing of what pages and entries are used for.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "store/area.h"
#include "store/area_internal.h"

#define AREA_TRANCHE "aion"

int			aion_memory = 131072;
int			aion_memory_high = 75;

AreaHeader *area = NULL;
StreamSlot *area_slots;
InboxXact  *area_inbox;
MBucket    *area_buckets;
StagedBlock *area_staged;
int32	   *area_hash;
char	   *area_pages;

static LWLockPadded *area_locks;

/* How many of each there are, and where each array begins. */
typedef struct AreaLayout
{
	int32		nslots;
	int32		ninbox;
	int32		nbuckets;
	int32		nstaged;
	int32		nhash;
	int32		npages;
	Size		slots;
	Size		inbox;
	Size		buckets;
	Size		staged;
	Size		hash;
	Size		pages;
} AreaLayout;

/*
 * Shares of the arrays: 1/64 for inbox entries, 1/32 for buckets with one hash
 * head each, one stream per 64 kB, one staged block per 4 pages, the rest
 * for pages. Used both to request the area and to initialise it.
 */
static AreaLayout
area_layout(void)
{
	AreaLayout	layout;
	Size		total = (Size) aion_memory * 1024;
	Size		offset = MAXALIGN(sizeof(AreaHeader));

	layout.nslots = total / (64 * 1024);
	layout.ninbox = total / 64 / sizeof(InboxXact);
	layout.nbuckets = total / 32 / (sizeof(MBucket) + sizeof(int32));
	layout.nstaged = total / (4 * AREA_PAGE_SIZE);
	for (layout.nhash = 64; layout.nhash * 2 <= layout.nbuckets;)
		layout.nhash *= 2;

	layout.slots = offset;
	offset += MAXALIGN(layout.nslots * sizeof(StreamSlot));
	layout.inbox = offset;
	offset += MAXALIGN(layout.ninbox * sizeof(InboxXact));
	layout.buckets = offset;
	offset += MAXALIGN(layout.nbuckets * sizeof(MBucket));
	layout.staged = offset;
	offset += MAXALIGN(layout.nstaged * sizeof(StagedBlock));
	layout.hash = offset;
	offset += MAXALIGN(layout.nhash * sizeof(int32));
	layout.pages = TYPEALIGN(PG_CACHE_LINE_SIZE, offset);
	layout.npages = (total - layout.pages) / AREA_PAGE_SIZE;
	return layout;
}

void
area_shmem_request(void)
{
	RequestAddinShmemSpace((Size) aion_memory * 1024);
	RequestNamedLWLockTranche(AREA_TRANCHE, AREA_STREAM_LOCKS + 1);
}

/* Chains n entries into a free list; "next" of entry i is at base + i * size. */
#define INIT_FREE_LIST(array, n, field) \
	do { \
		for (int32 i_ = 0; i_ < (n); i_++) \
			(array)[i_].field = i_ + 1 < (n) ? i_ + 1 : AREA_NONE; \
	} while (0)

static void
area_initialize(const AreaLayout *layout)
{
	memset(area, 0, layout->pages);
	SpinLockInit(&area->mutex);
	while (area->generation == 0)
		if (!pg_strong_random(&area->generation, sizeof(area->generation)))
			ereport(FATAL,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not draw a random number for the memory generation")));
	area->generation &= PG_INT64_MAX;
	area->generation |= 1;

	area->nslots = layout->nslots;
	area->ninbox = layout->ninbox;
	area->nbuckets = layout->nbuckets;
	area->nstaged = layout->nstaged;
	area->nhash = layout->nhash;
	area->npages = layout->npages;
	area->nfree_pages = layout->npages;
	area->nfree_buckets = layout->nbuckets;

	INIT_FREE_LIST(area_inbox, layout->ninbox, next);
	INIT_FREE_LIST(area_buckets, layout->nbuckets, next);
	INIT_FREE_LIST(area_staged, layout->nstaged, next);
	for (int32 i = 0; i < layout->nbuckets; i++)
	{
		area_buckets[i].slot = AREA_NONE;
		pg_atomic_init_u32(&area_buckets[i].pins, 0);
	}
	for (int32 i = 0; i < layout->nstaged; i++)
		pg_atomic_init_u32(&area_staged[i].pins, 0);
	for (int32 i = 0; i < layout->nhash; i++)
		area_hash[i] = AREA_NONE;
	for (int32 i = 0; i < layout->npages; i++)
		AREA_PAGE(i)->next = i + 1 < layout->npages ? i + 1 : AREA_NONE;
}

void
area_shmem_startup(void)
{
	AreaLayout	layout = area_layout();
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	area = ShmemInitStruct("aion area", (Size) aion_memory * 1024, &found);
	area_slots = (StreamSlot *) ((char *) area + layout.slots);
	area_inbox = (InboxXact *) ((char *) area + layout.inbox);
	area_buckets = (MBucket *) ((char *) area + layout.buckets);
	area_staged = (StagedBlock *) ((char *) area + layout.staged);
	area_hash = (int32 *) ((char *) area + layout.hash);
	area_pages = (char *) area + layout.pages;
	if (!found)
		area_initialize(&layout);
	LWLockRelease(AddinShmemInitLock);

	area_locks = GetNamedLWLockTranche(AREA_TRANCHE);
}

bool
area_exists(void)
{
	return area != NULL;
}

/*
 * Each database has its own, so that the journal tuples in a copy of a database (CREATE DATABASE ... TEMPLATE)
 * have no chunk there.
 */
uint64
area_generation(void)
{
	return area ? area->generation ^ ((uint64) MyDatabaseId << 1) : 0;
}

/* Guards the assignment of slots to streams; taken before any stream lock. */
LWLock *
area_slots_lock(void)
{
	return &area_locks[AREA_STREAM_LOCKS].lock;
}

LWLock *
area_stream_lock(const StreamSlot *slot)
{
	return &area_locks[(slot - area_slots) % AREA_STREAM_LOCKS].lock;
}

/*
 * Free lists (A3). "links" is where the first entry of the array keeps the index of the next one in
 * the list, "size" how far apart entries are, "count" how many are free, or NULL.
 */
static int32
list_take(int32 *head, void *links, Size size, int32 *count)
{
	int32		index;

	SpinLockAcquire(&area->mutex);
	index = *head;
	if (index != AREA_NONE)
	{
		*head = *(int32 *) ((char *) links + index * size);
		if (count)
			(*count)--;
	}
	SpinLockRelease(&area->mutex);
	return index;
}

static void
list_give(int32 *head, void *links, Size size, int32 *count, int32 index)
{
	SpinLockAcquire(&area->mutex);
	*(int32 *) ((char *) links + index * size) = *head;
	*head = index;
	if (count)
		(*count)++;
	SpinLockRelease(&area->mutex);
}

/* A page, empty and with no next one; AREA_NONE if there is none. */
int32
area_alloc_page(void)
{
	int32		page = list_take(&area->free_page, &AREA_PAGE(0)->next, AREA_PAGE_SIZE,
								 &area->nfree_pages);

	if (page != AREA_NONE)
	{
		AREA_PAGE(page)->next = AREA_PAGE(page)->prev = AREA_NONE;
		AREA_PAGE(page)->free = MAXALIGN(sizeof(PageHeaderArea));
		AREA_PAGE(page)->live = 0;
	}
	return page;
}

void
area_free_page(int32 page)
{
	list_give(&area->free_page, &AREA_PAGE(0)->next, AREA_PAGE_SIZE, &area->nfree_pages, page);
}

/* n pages, chained; AREA_NONE if there are not so many. */
int32
area_alloc_pages(int32 n)
{
	int32		first = AREA_NONE;

	for (int32 i = 0; i < n; i++)
	{
		int32		page = area_alloc_page();

		if (page == AREA_NONE)
		{
			area_free_pages(first);
			return AREA_NONE;
		}
		AREA_PAGE(page)->next = first;
		first = page;
	}
	return first;
}

/* Gives a chain of pages back. */
void
area_free_pages(int32 first)
{
	for (int32 page = first, next; page != AREA_NONE; page = next)
	{
		next = AREA_PAGE(page)->next;
		area_free_page(page);
	}
}

int32
area_pages_for(uint32 length)
{
	return (length + AREA_PAGE_ROOM - 1) / AREA_PAGE_ROOM;
}

/* Writes bytes to a chain of pages that has room for them. */
void
area_write_pages(int32 first, const char *data, uint32 length)
{
	int32		page = first;

	for (uint32 done = 0; done < length; page = AREA_PAGE(page)->next)
	{
		uint32		n = Min(length - done, AREA_PAGE_ROOM);

		memcpy(AREA_PAGE_DATA(page), data + done, n);
		done += n;
	}
}

/* And back. */
void
area_read_pages(int32 first, char *data, uint32 length)
{
	int32		page = first;

	for (uint32 done = 0; done < length; page = AREA_PAGE(page)->next)
	{
		uint32		n = Min(length - done, AREA_PAGE_ROOM);

		memcpy(data + done, AREA_PAGE_DATA(page), n);
		done += n;
	}
}

/*
 * True if "share" of all pages would still be free without n more. Read without the spinlock: a reserve need
 * not be exact.
 */
bool
area_leaves_free(int32 n, double share)
{
	return area->nfree_pages - n >= area->npages * share;
}

int32
area_alloc_inbox(void)
{
	return list_take(&area->free_inbox, &area_inbox->next, sizeof(InboxXact), NULL);
}

void
area_free_inbox(int32 inbox)
{
	list_give(&area->free_inbox, &area_inbox->next, sizeof(InboxXact), NULL, inbox);
}

int32
area_alloc_bucket(void)
{
	return list_take(&area->free_bucket, &area_buckets->next, sizeof(MBucket), &area->nfree_buckets);
}

void
area_free_bucket(int32 bucket)
{
	area_buckets[bucket].slot = AREA_NONE;
	list_give(&area->free_bucket, &area_buckets->next, sizeof(MBucket), &area->nfree_buckets, bucket);
}

/*
 * True if there may be no entry for a bucket though there is a page for it, each taking a page at least. Read
 * without the spinlock: it need not be exact.
 */
bool
area_short_of_buckets(void)
{
	return area->nfree_buckets < area->nfree_pages;
}

int32
area_alloc_staged(void)
{
	return list_take(&area->free_staged, &area_staged->next, sizeof(StagedBlock), NULL);
}

void
area_free_staged(int32 staged)
{
	list_give(&area->free_staged, &area_staged->next, sizeof(StagedBlock), NULL, staged);
}

void
area_usage(int64 *used, int64 *total)
{
	*total = (int64) area->npages * AREA_PAGE_SIZE;
	*used = *total - (int64) area->nfree_pages * AREA_PAGE_SIZE;
}

/* The full id of a transaction that is not more than 2^31 away from the next one. */
FullTransactionId
area_full_xid(TransactionId xid)
{
	FullTransactionId next;
	uint32		epoch;

	if (!TransactionIdIsNormal(xid))
		return FullTransactionIdFromEpochAndXid(0, xid);
	next = ReadNextFullTransactionId();
	epoch = EpochFromFullTransactionId(next);
	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}
