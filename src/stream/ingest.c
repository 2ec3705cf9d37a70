/*
 * ingest.c
 *	  From rows to the journal: the pending batches of a transaction.
 *
 * Rows are packed into batches, in memory of the inserting backend alone. A
 * batch belongs to one nesting level of the transaction:
 *
 * - it is written out (journal_write) when it is full and its level is current. Full
 *	 is 64 kB at first and up to 1 MB in a transaction that goes on: events of many
 *	 buckets then still make journal tuples worth their header;
 * - when a savepoint is released it goes to the level above, but is written
 *	 out first if the two would be too large together, so that pending memory
 *	 is bounded by the depth of nesting;
 * - when a savepoint is rolled back it is thrown away;
 * - before commit and prepare the top level's batch is written out.
 *
 * Inside a batch, events are collected in runs of one bucket and one command:
 * what becomes a journal tuple. A crash or an abort loses what was pending, as
 * it should.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "store/event.h"
#include "store/journal.h"
#include "stream/ingest.h"
#include "time/bucket.h"

#define BATCH_FIRST_BYTES	(64 * 1024)
#define BATCH_MAX_BYTES		(1024 * 1024)
#define BATCH_OVERHEAD		4	/* memory may be so many times the events' bytes */
#define RUN_FIRST_BYTES		64

typedef struct PendingRun
{
	JournalRun	run;
	EventTime	low;			/* bounds of its bucket, low inclusive; or both 0: not known */
	EventTime	high;
	uint32		capacity;
	struct PendingRun *next;	/* in the batch, in order of creation */
} PendingRun;

typedef struct RunKey
{
	int64		bucket;
	CommandId	command;
} RunKey;

typedef struct OpenRun
{
	RunKey		key;
	PendingRun *run;
	char		status;
} OpenRun;

#define SH_PREFIX		open_runs
#define SH_ELEMENT_TYPE	OpenRun
#define SH_KEY_TYPE		RunKey
#define SH_KEY			key
#define SH_HASH_KEY(tb, key)	hash_combine(murmurhash32((uint32) (key).bucket), \
											 murmurhash32((uint32) ((key).bucket >> 32) ^ (key).command))
#define SH_EQUAL(tb, a, b)	((a).bucket == (b).bucket && (a).command == (b).command)
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

typedef struct Batch
{
	struct Batch *parent;		/* of a lower nesting level */
	int			level;
	MemoryContext context;		/* of runs and their events */
	PendingRun *first;
	PendingRun *last;
	int			nruns;
	Size		bytes;			/* of events */
	Size		memory;			/* allocated for runs and their events */
	PendingRun *current;		/* run of the latest event */
	open_runs_hash *open;		/* made for the second run */
} Batch;

struct StreamWrites
{
	StreamWrites *next;
	Oid			journal;
	int64		bucket_width;
	JournalWriter writer;
	Batch	   *batch;			/* of the highest nesting level that has one */
	Size		batch_bytes;	/* a batch with so many is full */
};

/* In TopTransactionContext; all of one transaction. */
static StreamWrites *all_writes = NULL;

StreamWakeHook stream_wake_hook = NULL;

StreamWrites *
ingest_writes(const StreamInfo *info)
{
	StreamWrites *writes;

	Assert(info->has_storage);
	for (writes = all_writes; writes; writes = writes->next)
		if (writes->journal == info->storage.journal)
			return writes;
	writes = MemoryContextAllocZero(TopTransactionContext, sizeof(StreamWrites));
	writes->batch_bytes = BATCH_FIRST_BYTES;
	writes->journal = info->storage.journal;
	writes->bucket_width = info->storage.bucket_width;
	writes->next = all_writes;
	return all_writes = writes;
}

static void
batch_forget_runs(Batch *batch)
{
	MemoryContextReset(batch->context);
	batch->first = batch->last = batch->current = NULL;
	batch->open = NULL;
	batch->nruns = 0;
	batch->bytes = batch->memory = 0;
}

/*
 * The batch of the current nesting level. With a new one comes a lock on the
 * journal: rolling a savepoint back releases the locks taken in it.
 */
static Batch *
current_batch(StreamWrites *writes)
{
	int			level = GetCurrentTransactionNestLevel();
	Batch	   *batch = writes->batch;

	if (batch && batch->level == level)
		return batch;

	/* what writes the batch at commit must not have to wait for a lock then */
	LockRelationOid(writes->journal, RowExclusiveLock);
	batch = MemoryContextAllocZero(TopTransactionContext, sizeof(Batch));
	batch->level = level;
	batch->context = AllocSetContextCreate(TopTransactionContext, "aion batch",
										   ALLOCSET_DEFAULT_SIZES);
	batch->parent = writes->batch;
	writes->batch = batch;
	return batch;
}

static PendingRun *
batch_new_run(Batch *batch, int64 bucket, CommandId command, Size size)
{
	PendingRun *run = MemoryContextAllocZero(batch->context, sizeof(PendingRun));

	run->run.bucket = bucket;
	run->run.command = command;
	run->run.first = PG_INT64_MAX;
	run->run.last = PG_INT64_MIN;
	run->capacity = size;
	run->run.events = MemoryContextAllocExtended(batch->context, run->capacity,
												 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	if (batch->last)
		batch->last->next = run;
	else
		batch->first = run;
	batch->last = run;
	batch->nruns++;
	batch->memory += sizeof(PendingRun) + run->capacity;
	return run;
}

/* The run that takes an event of "size" bytes. */
static PendingRun *
batch_run(Batch *batch, int64 bucket, CommandId command, Size size)
{
	PendingRun *run = batch->current;
	RunKey		key = {bucket, command};
	OpenRun    *entry = NULL;
	bool		found;

	if (run == NULL || run->run.bucket != bucket || run->run.command != command)
	{
		if (run && batch->open == NULL)
		{
			RunKey		first = {run->run.bucket, run->run.command};

			batch->open = open_runs_create(batch->context, 16, NULL);
			open_runs_insert(batch->open, first, &found)->run = run;
		}
		run = NULL;
		if (batch->open)
		{
			entry = open_runs_insert(batch->open, key, &found);
			run = found ? entry->run : NULL;
		}
	}
	if (run == NULL || run->run.length + size > JOURNAL_RUN_MAX)
	{
		run = batch_new_run(batch, bucket, command, Max(RUN_FIRST_BYTES, size));
		if (entry == NULL && batch->open)
			entry = open_runs_insert(batch->open, key, &found);
		if (entry)
			entry->run = run;
	}
	return batch->current = run;
}

/* Place for "size" more bytes of events in a run; zeroed. */
static char *
run_extend(Batch *batch, PendingRun *run, Size size)
{
	JournalRun *events = &run->run;

	if (events->length + size > run->capacity)
	{
		uint32		capacity = Min(JOURNAL_RUN_MAX, Max(run->capacity * 4, events->length + size));

		events->events = repalloc(events->events, capacity);
		memset(events->events + run->capacity, 0, capacity - run->capacity);
		batch->memory += capacity - run->capacity;
		run->capacity = capacity;
	}
	events->length += size;
	batch->bytes += size;
	return events->events + events->length - size;
}

/* Makes runs of one bucket one, whatever their commands: nobody can tell them apart any more. */
static void
batch_merge_commands(Batch *batch)
{
	PendingRun *runs = batch->first;

	batch->first = batch->last = batch->current = NULL;
	batch->open = NULL;
	batch->nruns = 0;
	for (PendingRun *run = runs; run; run = run->next)
	{
		PendingRun *target;

		if (run->run.nevents == 0 || run->run.length > JOURNAL_RUN_MAX)
		{
			target = batch_new_run(batch, run->run.bucket, FirstCommandId, run->run.length);
			memcpy(target->run.events, run->run.events, run->run.length);
			target->run.length = run->run.length;
			batch->current = NULL;
			batch->open = NULL;
		}
		else
		{
			target = batch_run(batch, run->run.bucket, FirstCommandId, run->run.length);
			memcpy(run_extend(batch, target, run->run.length), run->run.events, run->run.length);
		}
		target->run.nevents += run->run.nevents;
		target->run.first = Min(target->run.first, run->run.first);
		target->run.last = Max(target->run.last, run->run.last);
	}
}

/* Such a server insists on a snapshot wherever there is a TOAST table, used or not. */
static bool
server_has_assertions(void)
{
	static int	known = -1;

	if (known < 0)
		known = strcmp(GetConfigOption("debug_assertions", false, false), "on") == 0;
	return known;
}

/*
 * Writes a batch out under the current (sub)transaction. A journal that this
 * transaction has dropped takes nothing any more. This is a part of every commit
 * that follows an insert, so it looks nothing up that it can do without.
 */
static void
batch_flush(StreamWrites *writes, Batch *batch, bool final)
{
	MemoryContext old;
	JournalRun *runs;
	int			n = 0;
	bool		needs_snapshot = server_has_assertions();
	Relation	journal;

	if (batch->nruns == 0)
		return;
	journal = RelationIdGetRelation(writes->journal);
	if (!RelationIsValid(journal))
	{
		batch_forget_runs(batch);
		return;
	}
	pgstat_init_relation(journal);	/* RelationIdGetRelation() leaves that to relation_open() */
	old = MemoryContextSwitchTo(batch->context);
	if (final && batch->first->run.command != batch->last->run.command)
		batch_merge_commands(batch);
	runs = palloc(sizeof(JournalRun) * batch->nruns);
	for (PendingRun *run = batch->first; run; run = run->next)
	{
		/* a large event goes to the journal's TOAST table, which takes a snapshot */
		needs_snapshot |= run->run.length > JOURNAL_RUN_MAX;
		runs[n++] = run->run;
	}
	/* so may the functions of an index that somebody has made on it */
	needs_snapshot |= journal->rd_rel->relhasindex;
	/* at commit and RELEASE there is none */
	needs_snapshot &= !ActiveSnapshotSet();
	if (needs_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	journal_write(journal, &writes->writer, runs, n);
	if (needs_snapshot)
		PopActiveSnapshot();
	RelationClose(journal);
	MemoryContextSwitchTo(old);
	batch_forget_runs(batch);
}

static bool
batch_is_full(const StreamWrites *writes, Size bytes, Size memory)
{
	return bytes > writes->batch_bytes || memory > writes->batch_bytes * BATCH_OVERHEAD;
}

static void
check_event_time(const StreamInfo *info, Datum value, bool isnull)
{
	const char *column;
	Timestamp	time;

	if (!isnull)
	{
		time = DatumGetTimestamp(value);
		if (!TIMESTAMP_NOT_FINITE(time))
			return;
	}
	column = get_attname(info->relid, info->time_attnum, false);
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("event time \"%s\" of stream \"%s\" cannot be null",
						column, get_rel_name(info->relid))));
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("event time \"%s\" of stream \"%s\" cannot be infinite",
					column, get_rel_name(info->relid))));
}

/* The batch that takes the next "size" bytes, written out first if it would be too large with them. */
static Batch *
batch_with_room(StreamWrites *writes, Size size)
{
	Batch	   *batch = current_batch(writes);

	if (batch->nruns > 0 && batch_is_full(writes, batch->bytes + size, batch->memory))
	{
		batch_flush(writes, batch, false);
		writes->batch_bytes = Min(writes->batch_bytes * 2, BATCH_MAX_BYTES);
	}
	return batch;
}

void
ingest_add(StreamWrites *writes, const StreamInfo *info, Datum *values, bool *isnull)
{
	int			time_index = info->storage.time_att - 1;
	EventTime	time;
	Size		length = 0;
	Batch	   *batch;
	PendingRun *run;
	CommandId	command;

	check_event_time(info, values[time_index], isnull[time_index]);
	time = DatumGetTimestamp(values[time_index]);

	batch = batch_with_room(writes, 0);
	command = GetCurrentCommandId(true);
	run = batch->current;
	/* mostly the event goes where the one before it went; a division less tells that, and it is packed in one go */
	if (run && time >= run->low && time < run->high && run->run.command == command)
		length = event_pack(info->layout, values, isnull, run->run.events + run->run.length,
							run->capacity - run->run.length);
	if (length > 0)
		run_extend(batch, run, MAXALIGN(length));
	else
	{
		int64		width = writes->bucket_width;
		Size		size;

		length = event_measure(info->layout, values, isnull);
		size = MAXALIGN(length);
		batch = batch_with_room(writes, size);
		run = batch_run(batch, bucket_number(width, time), command, size);
		run->low = bucket_start(width, run->run.bucket);
		run->high = bucket_end(width, run->run.bucket);
		event_pack(info->layout, values, isnull, run_extend(batch, run, size), length);
	}
	run->run.nevents++;
	run->run.first = Min(run->run.first, time);
	run->run.last = Max(run->run.last, time);
}

void
stream_ingest_control(Oid relid, EventTime t)
{
	StreamWrites *writes = ingest_writes(stream_lookup(relid, false));
	Batch	   *batch = current_batch(writes);
	PendingRun *run = batch_new_run(batch, 0, GetCurrentCommandId(true), 0);

	run->run.first = run->run.last = t;
	/* never mistaken for a run that takes events */
	batch->current = NULL;
	batch->open = NULL;
}

bool
stream_transaction_has_written(void)
{
	return all_writes != NULL;
}

void
ingest_add_to_scan(Oid journal, Snapshot snapshot, EventScan *scan)
{
	for (StreamWrites *writes = all_writes; writes; writes = writes->next)
	{
		if (writes->journal != journal)
			continue;
		for (Batch *batch = writes->batch; batch; batch = batch->parent)
			for (PendingRun *run = batch->first; run; run = run->next)
			{
				char	   *copy;

				if (run->run.length == 0 || run->run.command >= snapshot->curcid)
					continue;
				copy = palloc_extended(run->run.length, MCXT_ALLOC_HUGE);
				memcpy(copy, run->run.events, run->run.length);
				event_scan_add_own(scan, copy, run->run.length);
			}
	}
}

/*
 * The ends of transactions, all here. What can fail (writing) happens before
 * the commit; afterwards there is only memory, which goes by itself.
 */

static void
before_commit(void)
{
	for (StreamWrites *writes = all_writes; writes; writes = writes->next)
	{
		if (writes->batch == NULL || writes->batch->nruns == 0)
			continue;
		Assert(writes->batch->parent == NULL);
		batch_flush(writes, writes->batch, true);
	}
	DEBUG_POINT("before-commit");
}

static void
ingest_xact_callback(XactEvent event, void *arg)
{
	if (all_writes == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			before_commit();
			break;
		case XACT_EVENT_COMMIT:
			if (stream_wake_hook)
				stream_wake_hook();
			all_writes = NULL;
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			all_writes = NULL;
			break;
		default:
			break;
	}
}

static void
batch_delete(StreamWrites *writes, Batch *batch)
{
	writes->batch = batch->parent;
	MemoryContextDelete(batch->context);
	pfree(batch);
}

/*
 * A released savepoint's batch goes to the level above. What is in it is copied,
 * so that many small savepoints leave no more memory behind than their events take.
 */
static void
batch_hand_up(StreamWrites *writes)
{
	Batch	   *batch = writes->batch;
	Batch	   *parent = batch->parent;

	if (parent == NULL || parent->level < batch->level - 1)
	{
		batch->level--;
		return;
	}
	for (PendingRun *run = batch->first; run; run = run->next)
	{
		PendingRun *copy = batch_new_run(parent, run->run.bucket, run->run.command,
										 run->run.length);
		char	   *events = copy->run.events;

		copy->run = run->run;
		copy->run.events = memcpy(events, run->run.events, run->run.length);
		parent->bytes += run->run.length;
	}
	/* further events get runs of their own */
	parent->current = NULL;
	parent->open = NULL;
	batch_delete(writes, batch);
}

static void
ingest_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent_subid,
						void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	for (StreamWrites *writes = all_writes; writes; writes = writes->next)
	{
		Batch	   *batch = writes->batch;

		if (batch == NULL || batch->level < level)
			continue;
		switch (event)
		{
			case SUBXACT_EVENT_PRE_COMMIT_SUB:
				if (batch->parent &&
					batch_is_full(writes, batch->bytes + batch->parent->bytes,
								  batch->memory + batch->parent->memory))
					batch_flush(writes, batch, false);
				break;
			case SUBXACT_EVENT_COMMIT_SUB:
				batch_hand_up(writes);
				break;
			case SUBXACT_EVENT_ABORT_SUB:
				batch_delete(writes, batch);
				break;
			default:
				break;
		}
	}
}

void
stream_ingest_init(void)
{
	RegisterXactCallback(ingest_xact_callback, NULL);
	RegisterSubXactCallback(ingest_subxact_callback, NULL);
}
