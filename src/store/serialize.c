/*
 * serialize.c
 *	  Tasks for the serializers.
 *
 * An array of slots that go free -> posted -> taken -> (done, failed ->) free.
 *
 * Rows to be compressed travel in pages of the area, which belong to the task:
 * written by its owner before it is posted, by the serializer while it is
 * taken (the block takes the place of the rows), read by the owner when it is done. An owner
 * who gives up a task that is taken leaves the pages to the serializer, who
 * frees them when he is through or exits. The owner keeps rows of his own, so that
 * nothing is lost with a task.
 *
 * A block to be decompressed lies in the area as a staged copy (staged.c), which
 * the task only names: it may be gone, or read meanwhile, when the task comes to it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "compat.h"
#include "debug_point.h"
#include "store/block_memory.h"
#include "store/serialize.h"
#include "store/staged.h"

#define QUEUE_NAME "aion serializers"
#define MAX_TASKS 64

/*
 * Rows that take less are compressed about as fast as they are handed over, a full block of narrow ones too; more
 * would keep a process from interrupts.
 */
#define MIN_BYTES (384 * 1024)
#define MAX_BYTES (4 * 1024 * 1024)

/* Tasks leave this part of the pages to events that arrive. */
#define TASK_RESERVE 0.1

typedef enum TaskState
{
	TASK_FREE,
	TASK_POSTED,
	TASK_TAKEN,
	TASK_DONE,
	TASK_FAILED
} TaskState;

typedef struct Task
{
	TaskState	state;
	SerializeKind kind;
	uint64		number;			/* names this use of the slot: a serial number and the slot's */
	int			pid;			/* of the serializer, while taken */
	/* to compress */
	bool		forgotten;		/* by its owner, while taken */
	Latch	   *latch;			/* the owner's */
	int32		first_page;
	int32		npages;
	uint32		length;			/* of the rows, then of the block */
	/* to decompress */
	int32		slot;			/* index of the stream's */
	int64		bucket;
	int64		id;
} Task;

typedef struct SerializeQueue
{
	LWLock	   *lock;			/* set once; nothing is acquired under it */
	/* under the lock: */
	uint64		next_serial;
	int			nidle;
	Latch	   *idle[SERIALIZE_PROCESSES];	/* serializers that found nothing to do */
	Task		tasks[MAX_TASKS];
	SerializeTotals totals[SERIALIZE_KINDS];
} SerializeQueue;

bool		(*serialize_hook) (bool idle) = NULL;

static SerializeQueue *queue = NULL;

void
serialize_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(SerializeQueue)));
	RequestNamedLWLockTranche(QUEUE_NAME, 1);
}

void
serialize_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	queue = ShmemInitStruct(QUEUE_NAME, sizeof(SerializeQueue), &found);
	if (!found)
	{
		memset(queue, 0, sizeof(SerializeQueue));
		queue->lock = &GetNamedLWLockTranche(QUEUE_NAME)->lock;
		queue->next_serial = 1;
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ---- those who have tasks ---- */

/* True if there is somebody to do a task, or soon will be. */
static bool
find_serializer(void)
{
	bool		idle;

	if (serialize_hook == NULL)
		return false;
	LWLockAcquire(queue->lock, LW_SHARED);
	idle = queue->nidle > 0;
	LWLockRelease(queue->lock);
	return serialize_hook(idle);
}

/* Posts a task and wakes a serializer. Its number; 0: no room. */
static uint64
post(const Task *task)
{
	Task	   *slot = NULL;
	Latch	   *latch = NULL;
	uint64		number = 0;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_TASKS && slot == NULL; i++)
		if (queue->tasks[i].state == TASK_FREE)
			slot = &queue->tasks[i];
	if (slot != NULL)
	{
		*slot = *task;
		slot->state = TASK_POSTED;
		number = slot->number = queue->next_serial++ * MAX_TASKS + (slot - queue->tasks);
		if (queue->nidle > 0)
			latch = queue->idle[--queue->nidle];
	}
	LWLockRelease(queue->lock);
	if (latch != NULL)
		SetLatch(latch);
	return number;
}

/* The task of that number, which has not ended. Under the lock. */
static Task *
find_task(uint64 number)
{
	Task	   *task = &queue->tasks[number % MAX_TASKS];

	Assert(task->number == number && task->state != TASK_FREE);
	return task;
}

bool
serialize_can_compress(Size length)
{
	return length >= MIN_BYTES && length <= MAX_BYTES &&
		area_leaves_free(area_pages_for(length), TASK_RESERVE) && find_serializer();
}

uint64
serialize_compress(const char *saved, uint32 length)
{
	Task		task = {.kind = SERIALIZE_COMPRESS, .latch = MyLatch, .length = length};
	uint64		number;

	task.npages = area_pages_for(length);
	task.first_page = area_alloc_pages(task.npages);
	if (task.first_page == AREA_NONE)
		return 0;
	area_write_pages(task.first_page, saved, length);
	number = post(&task);
	if (number == 0)
		area_free_pages(task.first_page);
	return number;
}

bool
serialize_take_back(uint64 number)
{
	Task	   *task;
	int32		pages = AREA_NONE;
	bool		taken_back;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	task = find_task(number);
	taken_back = task->state == TASK_POSTED || task->state == TASK_FAILED;
	if (taken_back)
	{
		pages = task->first_page;
		task->state = TASK_FREE;
	}
	LWLockRelease(queue->lock);
	area_free_pages(pages);
	return taken_back;
}

bytea *
serialize_collect(uint64 number)
{
	Task	   *task;
	bool		done;
	bytea	   *block;

	LWLockAcquire(queue->lock, LW_SHARED);
	task = find_task(number);
	done = task->state == TASK_DONE;
	LWLockRelease(queue->lock);
	if (!done)
		return NULL;
	/* it is all ours now */
	block = palloc(VARHDRSZ + task->length);
	SET_VARSIZE(block, VARHDRSZ + task->length);
	area_read_pages(task->first_page, VARDATA(block), task->length);
	serialize_forget(number);
	return block;
}

void
serialize_forget(uint64 number)
{
	Task	   *task;
	int32		pages = AREA_NONE;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	task = find_task(number);
	if (task->state == TASK_TAKEN)
		task->forgotten = true;
	else
	{
		pages = task->first_page;
		task->state = TASK_FREE;
	}
	LWLockRelease(queue->lock);
	area_free_pages(pages);
}

void
serialize_decompress(StreamSlot *slot, int64 bucket, int64 id, const char *data, uint32 length)
{
	Task		task = {.kind = SERIALIZE_DECOMPRESS, .first_page = AREA_NONE};
	size_t		size;

	/* what LZ4 has hardly made shorter costs a reader nothing */
	if (block_decompressed_size(data, length, &size) != CODEC_OK || size > MAX_BYTES ||
		size < length + length / 8 || !staged_room_decompressed(size) || !find_serializer())
		return;
	task.slot = slot - area_slots;
	task.bucket = bucket;
	task.id = id;
	(void) post(&task);
}

/* ---- serializers ---- */

/* This process does not wait for a task (any more). Under the lock, exclusively. */
static void
leave_idle(void)
{
	int			kept = 0;

	for (int i = 0; i < queue->nidle; i++)
		if (queue->idle[i] != MyLatch)
			queue->idle[kept++] = queue->idle[i];
	queue->nidle = kept;
}

/* Takes the first task by kind and age; if there is none, the latch will be set for the next. */
static bool
take(Task *task)
{
	Task	   *best = NULL;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	leave_idle();
	for (int i = 0; i < MAX_TASKS; i++)
	{
		Task	   *candidate = &queue->tasks[i];

		if (candidate->state == TASK_POSTED &&
			(best == NULL || candidate->kind < best->kind ||
			 (candidate->kind == best->kind && candidate->number < best->number)))
			best = candidate;
	}
	if (best != NULL)
	{
		best->state = TASK_TAKEN;
		best->pid = MyProcPid;
		*task = *best;
	}
	else if (queue->nidle < SERIALIZE_PROCESSES)
		queue->idle[queue->nidle++] = MyLatch;
	LWLockRelease(queue->lock);
	return best != NULL;
}

/*
 * Ends the task that this process is at, if it is at one: as done, with a block of that length, or
 * with 0 as failed. Counts it if it has moved bytes.
 */
static void
end_taken(uint32 length, int64 bytes)
{
	int32		pages = AREA_NONE;
	Latch	   *latch = NULL;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_TASKS; i++)
	{
		Task	   *task = &queue->tasks[i];

		if (task->state != TASK_TAKEN || task->pid != MyProcPid)
			continue;
		if (bytes > 0)
		{
			queue->totals[task->kind].tasks++;
			queue->totals[task->kind].bytes += bytes;
		}
		if (task->kind == SERIALIZE_DECOMPRESS || task->forgotten)
		{
			pages = task->first_page;
			task->state = TASK_FREE;
		}
		else
		{
			task->length = length;
			task->state = length > 0 ? TASK_DONE : TASK_FAILED;
			latch = task->latch;
		}
	}
	LWLockRelease(queue->lock);
	area_free_pages(pages);
	if (latch != NULL)
		SetLatch(latch);
}

static void
compress(const Task *task)
{
	CodecMemory memory = block_memory(CurrentMemoryContext);
	char	   *saved = palloc(task->length);
	void	   *block;
	size_t		length;

	area_read_pages(task->first_page, saved, task->length);
	if (block_encode_saved(saved, task->length, true, &memory, &block, &length) != CODEC_OK ||
		area_pages_for(length) > task->npages)
	{
		/* its owner will meet the same error, or make the block, and knows what to say */
		end_taken(0, 0);
		return;
	}
	DEBUG_POINT("serializer-ready");
	area_write_pages(task->first_page, block, length);
	end_taken(length, task->length);
}

static void
decompress(const Task *task)
{
	CodecMemory memory = block_memory(CurrentMemoryContext);
	StreamSlot *slot = &area_slots[task->slot];
	char	   *data = NULL;
	uint32		length;
	void	   *block;
	size_t		size = 0;
	bool		exchanged = false;
	BlockColumns columns = staged_wanted(slot, task->bucket, task->id);

	if (columns != 0)
		data = staged_read(slot, task->bucket, task->id, columns, false, &length);
	if (data != NULL && block_decompress(data, length, &memory, &block, &size) == CODEC_OK &&
		staged_room_decompressed(size))
	{
		DEBUG_POINT("serializer-ready");
		exchanged = staged_exchange(slot, task->bucket, task->id, columns, block, size);
	}
	end_taken(0, exchanged ? size : 0);
}

bool
serialize_next(void)
{
	Task		task;

	if (!take(&task))
		return false;
	DEBUG_POINT("serializer-taken");
	if (task.kind == SERIALIZE_COMPRESS)
		compress(&task);
	else
		decompress(&task);
	return true;
}

void
serialize_abandon(void)
{
	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	leave_idle();
	LWLockRelease(queue->lock);
	end_taken(0, 0);
}

void
serialize_totals(SerializeTotals totals[SERIALIZE_KINDS])
{
	LWLockAcquire(queue->lock, LW_SHARED);
	memcpy(totals, queue->totals, sizeof(queue->totals));
	LWLockRelease(queue->lock);
}
