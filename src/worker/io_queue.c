/*
 * io_queue.c
 *	  The queue of the I/O workers.
 *
 * An array of slots that go free -> queued -> running -> (done ->) free. A
 * scan's request belongs to the scan, which withdraws it on every way out; a running one
 * that was withdrawn goes when the worker is through with it. What belongs to nobody is
 * queued by scheduler or I/O worker for what the tables say is due, so that
 * losing it, with shared memory or with the worker, loses nothing. The scheduler takes
 * it back when it leaves, so that nothing stays of a database that is dropped.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "worker/control.h"
#include "worker/io_queue.h"

#define QUEUE_NAME "aion I/O queue"

/*
 * So many slots a kind leaves to those that need them more. What is wanted now may have all. A late event can
 * be one for very many windows. The jobs of I/O workers stand here only to be seen.
 */
static const int reserves[IO_KINDS] = {
	[IO_STAGE] = 0,
	[IO_PRESTAGE] = IO_REQUESTS / 2,
	[IO_LATE] = IO_REQUESTS * 3 / 4,
	[IO_DESTAGE] = IO_REQUESTS * 3 / 4,
	[IO_PURGE] = IO_REQUESTS * 3 / 4,
};

typedef struct QueueSlot
{
	IOState		state;			/* IO_STATE_NONE: free */
	Oid			database;
	int			pid;			/* who runs it, or will; 0: whoever is the I/O worker */
	bool		withdrawn;		/* while running */
	Latch	   *latch;			/* of who waits; NULL: nobody */
	IORequest	request;
} QueueSlot;

typedef struct QueueTotals
{
	Oid			database;		/* InvalidOid: free */
	IOTotals	totals[IO_KINDS];
} QueueTotals;

typedef struct IOQueue
{
	LWLock	   *lock;
	pg_atomic_uint32 nstages;	/* queued requests of the kinds up to IO_PRESTAGE, of all databases */
	/* under the lock: */
	uint64		next_number;
	QueueSlot	slots[IO_REQUESTS];
	QueueTotals databases[CONTROL_DATABASES];
} IOQueue;

static IOQueue *queue = NULL;

void
io_queue_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(IOQueue)));
	RequestNamedLWLockTranche(QUEUE_NAME, 1);
}

void
io_queue_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	queue = ShmemInitStruct(QUEUE_NAME, sizeof(IOQueue), &found);
	if (!found)
	{
		memset(queue, 0, sizeof(IOQueue));
		queue->lock = &GetNamedLWLockTranche(QUEUE_NAME)->lock;
		queue->next_number = 1;
		pg_atomic_init_u32(&queue->nstages, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* The slot of a request of this database, or NULL. Under the lock. */
static QueueSlot *
find_slot(uint64 number)
{
	for (int i = 0; i < IO_REQUESTS; i++)
	{
		QueueSlot  *slot = &queue->slots[i];

		if (slot->state != IO_STATE_NONE && slot->request.number == number &&
			slot->database == MyDatabaseId)
			return slot;
	}
	return NULL;
}

/* Every change of a slot's state, so that nstages is right. Under the lock, exclusively. */
static void
set_state(QueueSlot *slot, IOState state)
{
	if (slot->request.kind <= IO_PRESTAGE)
	{
		if (slot->state != IO_STATE_QUEUED && state == IO_STATE_QUEUED)
			pg_atomic_fetch_add_u32(&queue->nstages, 1);
		else if (slot->state == IO_STATE_QUEUED && state != IO_STATE_QUEUED)
			pg_atomic_fetch_sub_u32(&queue->nstages, 1);
	}
	slot->state = state;
}

uint64
io_queue_post(const IORequest *request, bool wait)
{
	QueueSlot  *slot = NULL;
	uint64		number = 0;
	int			nfree = 0;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < IO_REQUESTS; i++)
		if (queue->slots[i].state == IO_STATE_NONE)
		{
			slot = &queue->slots[i];
			nfree++;
		}
	if (slot != NULL && nfree > reserves[request->kind])
	{
		slot->database = MyDatabaseId;
		slot->pid = request->kind > IO_PRESTAGE ? MyProcPid : 0;
		slot->withdrawn = false;
		slot->latch = wait ? MyLatch : NULL;
		slot->request = *request;
		number = slot->request.number = queue->next_number++;
		slot->request.queued_at = GetCurrentTimestamp();
		slot->request.started_at = 0;
		slot->request.bytes = slot->request.events = 0;
		set_state(slot, IO_STATE_QUEUED);
	}
	LWLockRelease(queue->lock);
	return number;
}

IOState
io_queue_state(uint64 number, IORequest *request)
{
	QueueSlot  *slot;
	IOState		state = IO_STATE_NONE;

	LWLockAcquire(queue->lock, LW_SHARED);
	slot = find_slot(number);
	if (slot != NULL)
	{
		state = slot->state;
		*request = slot->request;
	}
	LWLockRelease(queue->lock);
	return state;
}

void
io_queue_withdraw(uint64 number)
{
	QueueSlot  *slot;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	slot = find_slot(number);
	if (slot != NULL)
	{
		slot->latch = NULL;
		if (slot->state == IO_STATE_RUNNING)
			slot->withdrawn = true;
		else
			set_state(slot, IO_STATE_NONE);
	}
	LWLockRelease(queue->lock);
}

bool
io_queue_urgent(void)
{
	return queue != NULL && pg_atomic_read_u32(&queue->nstages) > 0;
}

bool
io_queue_waiting(void)
{
	bool		waiting = false;

	if (!io_queue_urgent())
		return false;
	LWLockAcquire(queue->lock, LW_SHARED);
	for (int i = 0; i < IO_REQUESTS && !waiting; i++)
		waiting = queue->slots[i].state == IO_STATE_QUEUED &&
			queue->slots[i].database == MyDatabaseId && queue->slots[i].request.kind <= IO_PRESTAGE;
	LWLockRelease(queue->lock);
	return waiting;
}

/* True if request a is to be served before b. */
static bool
goes_before(const IORequest *a, const IORequest *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind;
	if (a->deadline != b->deadline)
		return a->deadline < b->deadline;
	return a->number < b->number;
}

static void
start_slot(QueueSlot *slot)
{
	set_state(slot, IO_STATE_RUNNING);
	slot->pid = MyProcPid;
	slot->request.started_at = GetCurrentTimestamp();
}

bool
io_queue_take(IOKind last, IORequest *request)
{
	QueueSlot  *best = NULL;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < IO_REQUESTS; i++)
	{
		QueueSlot  *slot = &queue->slots[i];

		if (slot->state == IO_STATE_QUEUED && slot->database == MyDatabaseId &&
			slot->request.kind <= last &&
			(best == NULL || goes_before(&slot->request, &best->request)))
			best = slot;
	}
	if (best != NULL)
	{
		start_slot(best);
		*request = best->request;
	}
	LWLockRelease(queue->lock);
	return best != NULL;
}

bool
io_queue_start(uint64 number)
{
	QueueSlot  *slot;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	slot = find_slot(number);
	if (slot != NULL)
		start_slot(slot);
	LWLockRelease(queue->lock);
	return slot != NULL;
}

bool
io_queue_progress(uint64 number, int64 bytes, int64 events)
{
	QueueSlot  *slot;
	Latch	   *latch = NULL;
	bool		wanted = false;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	slot = find_slot(number);
	if (slot != NULL)
	{
		slot->request.bytes += bytes;
		slot->request.events += events;
		latch = slot->latch;
		wanted = !slot->withdrawn;
	}
	LWLockRelease(queue->lock);
	if (latch != NULL)
		SetLatch(latch);
	return wanted;
}

/* The totals of this database; NULL: no room. Under the lock. */
static QueueTotals *
my_totals(bool create)
{
	QueueTotals *empty = NULL;

	for (int i = 0; i < CONTROL_DATABASES; i++)
	{
		if (queue->databases[i].database == MyDatabaseId)
			return &queue->databases[i];
		if (empty == NULL && queue->databases[i].database == InvalidOid)
			empty = &queue->databases[i];
	}
	if (!create || empty == NULL)
		return NULL;
	memset(empty, 0, sizeof(QueueTotals));
	empty->database = MyDatabaseId;
	return empty;
}

static void
count_time(int64 *classes, int64 us)
{
	int			class = us <= 0 ? 0 : pg_leftmost_one_pos64(us) + 1;

	classes[Min(class, IO_TIME_CLASSES - 1)]++;
}

bool
io_queue_finish(uint64 number, IORequest *request)
{
	QueueSlot  *slot;
	Latch	   *latch = NULL;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	slot = find_slot(number);
	if (slot != NULL)
	{
		QueueTotals *mine = my_totals(true);

		if (mine != NULL)
		{
			IOTotals   *totals = &mine->totals[slot->request.kind];

			totals->requests++;
			totals->bytes += slot->request.bytes;
			totals->events += slot->request.events;
			count_time(totals->waits, slot->request.started_at - slot->request.queued_at);
			count_time(totals->services, GetCurrentTimestamp() - slot->request.started_at);
		}
		if (request != NULL)
			*request = slot->request;
		latch = slot->latch;
		slot->pid = 0;
		set_state(slot, latch ? IO_STATE_DONE : IO_STATE_NONE);
	}
	LWLockRelease(queue->lock);
	if (latch != NULL)
		SetLatch(latch);
	return slot != NULL;
}

void
io_queue_abandon(void)
{
	if (queue == NULL)
		return;
	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < IO_REQUESTS; i++)
	{
		QueueSlot  *slot = &queue->slots[i];

		if (slot->pid != MyProcPid)
			continue;
		slot->pid = 0;

		/*
		 * Jobs begin anew by what the tables say, and what nobody waits for is not worth it. A scan has read
		 * some of its blocks by now, so it is not to be begun again: the scan asks for the rest, or reads it.
		 */
		if (slot->latch == NULL)
			set_state(slot, IO_STATE_NONE);
		else if (slot->request.nblocks == 0)
			set_state(slot, IO_STATE_QUEUED);
		else
		{
			set_state(slot, IO_STATE_DONE);
			SetLatch(slot->latch);
		}
	}
	LWLockRelease(queue->lock);
}

void
io_queue_reset(void)
{
	if (queue == NULL)
		return;
	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < IO_REQUESTS; i++)
	{
		QueueSlot  *slot = &queue->slots[i];

		if (slot->state == IO_STATE_QUEUED && slot->database == MyDatabaseId && slot->latch == NULL)
			set_state(slot, IO_STATE_NONE);
	}
	LWLockRelease(queue->lock);
}

IORequest *
io_queue_list(int *n)
{
	IORequest  *requests = palloc(sizeof(IORequest) * IO_REQUESTS);

	*n = 0;
	if (queue == NULL)
		return requests;
	LWLockAcquire(queue->lock, LW_SHARED);
	for (int i = 0; i < IO_REQUESTS; i++)
		if ((queue->slots[i].state == IO_STATE_QUEUED || queue->slots[i].state == IO_STATE_RUNNING) &&
			queue->slots[i].database == MyDatabaseId)
			requests[(*n)++] = queue->slots[i].request;
	LWLockRelease(queue->lock);
	return requests;
}

void
io_queue_totals(IOTotals totals[IO_KINDS])
{
	QueueTotals *mine;

	memset(totals, 0, sizeof(IOTotals) * IO_KINDS);
	if (queue == NULL)
		return;
	LWLockAcquire(queue->lock, LW_SHARED);
	mine = my_totals(false);
	if (mine != NULL)
		memcpy(totals, mine->totals, sizeof(IOTotals) * IO_KINDS);
	LWLockRelease(queue->lock);
}
