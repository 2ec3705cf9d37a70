/*
 * io.c
 *	  Moves events from memory and journal to p-buckets, and out of the store.
 *
 * Per stream, by what the scheduler has published: fold the journal (after each
 * start of shared memory, when told so), purge, destage everything when asked for; over
 * all streams: destage what the policy says (destage_plan.c); after that: VACUUM of
 * journals. Each job is a transaction of its
 * own, which the store makes atomic (I2); a crash undoes the job that was under way and no
 * more, and what is due is found again. Only accounted events are
 * touched, by the set stored in stream_state under the job's own snapshot.
 *
 * No relation lock is waited for: a stream, journal or table that someone has
 * locked is left for the next time, so that DDL never deadlocks with this.
 * What is due is not decided here.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "debug_point.h"
#include "store/destage.h"
#include "store/mbucket.h"
#include "store/stage.h"
#include "stream/extension.h"
#include "stream/stream.h"
#include "worker/destage_plan.h"
#include "worker/io.h"
#include "worker/io_queue.h"
#include "worker/journal_vacuum.h"
#include "worker/purge_lock.h"
#include "worker/staging.h"
#include "worker/table_row.h"
#include "worker/turnover_prune.h"
#include "worker/worker.h"

#define IDLE_MS 60000			/* then the worker leaves */
#define LOCKED_MS 200			/* before trying again what was locked */
#define QUEUE_AHEAD 64			/* destages that stand in the queue at a time */

typedef enum IOJob
{
	JOB_LOOK,					/* only learn the bucket width */
	JOB_DESTAGE,
	JOB_FOLD,
	JOB_PURGE
} IOJob;

typedef enum IOResult
{
	IO_OK,
	IO_LOCKED,					/* someone has a lock in the way: try again */
	IO_GONE						/* no such stream (any more), or it is not taken up yet */
} IOResult;

typedef struct IOTask
{
	const StreamFacts *facts;
	IOJob		job;
	int64		bucket;			/* JOB_DESTAGE: number, */
	int64		keep;			/* how many events of it stay, */
	int64		bytes;			/* and what it is expected to move, for aion.io */
	EventTime	purge_before;	/* result of JOB_PURGE: what was purged */
	uint64		number;			/* of its request in the queue; 0: there is none yet */
	int64		moved;			/* result: number of events moved or removed */
} IOTask;

/* What this process remembers of a journal. */
typedef struct StreamMemory
{
	Oid			journal;		/* hash key */
	int64		bucket_width;	/* 0: not known yet */
	int			failures;		/* in sequence */
	TimestampTz retry_at;		/* not before: it failed, or a planned destage had to wait */
} StreamMemory;

static HTAB *memories = NULL;
static MemoryContext io_context = NULL;

static void
io_init(void)
{
	HASHCTL		ctl;

	if (io_context != NULL)
		return;
	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(StreamMemory);
	memories = hash_create("aion journals", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	io_context = AllocSetContextCreate(TopMemoryContext, "aion I/O", ALLOCSET_DEFAULT_SIZES);
}

static StreamMemory *
remember(Oid journal)
{
	bool		found;
	StreamMemory *memory = hash_search(memories, &journal, HASH_ENTER, &found);

	if (!found)
	{
		memset(memory, 0, sizeof(*memory));
		memory->journal = journal;
	}
	return memory;
}

/* ---- one job ---- */

/*
 * Locks aion's own tables that a job reads, without waiting, so that DROP
 * EXTENSION is neither waited for nor met half-way. Returns stream_state or NULL.
 */
static Relation
lock_registry(void)
{
	static const char *const read_only[] = {"stream_def", "added_column"};

	for (int i = 0; i < lengthof(read_only); i++)
	{
		Relation	rel = table_row_open(read_only[i], AccessShareLock, false);

		if (rel == NULL)
			return NULL;
		table_close(rel, NoLock);
	}
	return table_row_open("stream_state", RowExclusiveLock, false);
}

/* Locks the stream and its storage; sets *info. In a transaction. */
static IOResult
lock_stream(const StreamFacts *facts, const StreamInfo **info)
{
	const StreamStorage *storage;

	if (!ConditionalLockRelationOid(facts->stream, AccessShareLock))
		return IO_LOCKED;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(facts->stream)))
		return IO_GONE;
	*info = stream_lookup(facts->stream, true);
	if (*info == NULL || !(*info)->has_storage || (*info)->storage.journal != facts->journal)
		return IO_GONE;
	storage = &(*info)->storage;
	if (!ConditionalLockRelationOid(storage->journal, RowExclusiveLock) ||
		!ConditionalLockRelationOid(storage->blocks, RowExclusiveLock))
		return IO_LOCKED;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(storage->journal)) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(storage->blocks)))
		return IO_GONE;
	return IO_OK;
}

/* The set that accounting has stored for the stream; NULL: none yet. */
static Accounted *
read_accounted(Relation state, Oid stream)
{
	HeapTuple	tuple = table_row_fetch(state, GetActiveSnapshot(), stream);
	Oid			output;
	bool		varlena;
	bool		isnull;
	Datum		datum;

	if (tuple == NULL)
		return NULL;
	datum = heap_getattr(tuple, STREAM_STATE_ACCOUNTED, RelationGetDescr(state), &isnull);
	Assert(!isnull);
	getTypeOutputInfo(TupleDescAttr(RelationGetDescr(state), STREAM_STATE_ACCOUNTED - 1)->atttypid,
					  &output, &varlena);
	return accounted_from_text(OidOutputFunctionCall(output, datum));
}

/* Records the greatest event time among those purged. The row may be waited for: nothing waits for us meanwhile. */
static void
record_purged(Oid stream, EventTime last)
{
	Oid			types[] = {REGCLASSOID, TIMESTAMPTZOID};
	Datum		values[] = {ObjectIdGetDatum(stream), TimestampTzGetDatum(last)};

	SPI_connect();
	if (SPI_execute_with_args("UPDATE aion.stream_state"
							  " SET purged_time = greatest(purged_time, $2)"
							  " WHERE stream OPERATOR(pg_catalog.=) $1",
							  2, types, values, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not record a purge");
	SPI_finish();
}

/*
 * Up to where to purge now: what is published counts, and it stays true until
 * the end of the transaction (purge_lock.h). Without a published entry the scheduler itself
 * is calling, with its own facts. False: the scheduler is about to change it.
 */
static bool
lock_purge(const StreamFacts *facts, EventTime *before)
{
	StreamFacts published;

	if (!purge_lock(facts->stream))
		return false;
	*before = facts->purge_before;
	if (control_facts(facts->stream, &published) && published.journal == facts->journal)
		*before = published.purge_before;
	return true;
}

/* The body of a job, in its transaction. */
static IOResult
do_job(IOTask *task)
{
	const StreamFacts *facts = task->facts;
	Relation	state;
	const StreamInfo *info;
	Accounted  *set;
	EventTime	last = EVENT_TIME_NEVER;
	IOResult	result;

	state = lock_registry();
	if (state == NULL)
		return IO_LOCKED;
	result = lock_stream(facts, &info);
	if (result == IO_OK && task->job == JOB_PURGE && !lock_purge(facts, &task->purge_before))
		result = IO_LOCKED;
	if (result != IO_OK)
	{
		table_close(state, NoLock);
		return result;
	}
	remember(facts->journal)->bucket_width = info->storage.bucket_width;

	PushActiveSnapshot(GetTransactionSnapshot());
	set = read_accounted(state, facts->stream);
	table_close(state, NoLock);
	if (set == NULL)
		result = IO_GONE;
	else if (task->job == JOB_DESTAGE)
		task->moved = destage_bucket(&info->storage, set, task->bucket, task->keep);
	else if (task->job == JOB_FOLD)
		task->moved = destage_fold(&info->storage, set);
	else if (task->job == JOB_PURGE && task->purge_before > facts->purged_before)
	{
		task->moved = destage_purge(&info->storage, set, task->purge_before, &last);
		DEBUG_POINT("io-purged");
		if (task->moved > 0)
			record_purged(facts->stream, last);
	}
	PopActiveSnapshot();
	return result;
}

/* Enters a job in the queue, where aion.io shows it, if there is room. */
static void
queue_job(IOTask *task)
{
	IORequest	request = {.low = 1, .high = 0};

	request.kind = task->job == JOB_DESTAGE ? IO_DESTAGE : task->job == JOB_FOLD ? IO_LATE : IO_PURGE;
	request.stream = task->facts->stream;
	request.journal = task->facts->journal;
	if (task->job == JOB_DESTAGE)
		request.low = request.high = task->bucket;
	task->number = io_queue_post(&request, false);
}

/* The transaction of a job. */
static IOResult
run_in_transaction(IOTask *task)
{
	IOResult	result;

	task->moved = 0;
	StartTransactionCommand();
	result = do_job(task);
	DEBUG_POINT("io-before-commit");
	CommitTransactionCommand();
	DEBUG_POINT("io-after-commit");
	MemoryContextSwitchTo(io_context);
	if (task->moved > 0 || task->job == JOB_FOLD)
	{
		if (task->job == JOB_DESTAGE)
			mbucket_reclaim_one(task->facts->journal, task->bucket);
		else
			mbucket_reclaim(task->facts->journal);
	}
	CHECK_FOR_INTERRUPTS();
	return result;
}

/* Does a job in its own transaction. Errors out. */
static IOResult
run_job(IOTask *task)
{
	IOResult	result;

	if (task->number == 0 && task->job != JOB_LOOK)
		queue_job(task);
	if (task->number == 0 || !io_queue_start(task->number))
		return run_in_transaction(task);
	PG_TRY();
	{
		result = run_in_transaction(task);
		(void) io_queue_progress(task->number, task->moved > 0 ? task->bytes : 0, task->moved);
	}
	PG_FINALLY();
	{
		(void) io_queue_finish(task->number, NULL);
		task->number = 0;
	}
	PG_END_TRY();
	return result;
}

/* Queues the next destages, from number "first" on. */
static void
queue_destages(IOTask *tasks, int n, int first)
{
	for (int i = first; i < Min(n, first + QUEUE_AHEAD); i++)
		if (tasks[i].number == 0)
			queue_job(&tasks[i]);
}

/* Takes those back that were not done. */
static void
withdraw_destages(IOTask *tasks, int n)
{
	for (int i = 0; i < n; i++)
		if (tasks[i].number != 0)
			io_queue_withdraw(tasks[i].number);
}

/* ---- one stream ---- */

/* Destages all that memory holds of a stream. */
static IOResult
destage_all(const StreamFacts *facts)
{
	int			ninfos;
	MBucketInfo *infos = mbucket_list(facts->journal, &ninfos);
	IOTask	   *tasks = palloc0(Max(ninfos, 1) * sizeof(IOTask));
	volatile IOResult result = IO_OK;
	int			n = 0;

	for (int i = 0; i < ninfos; i++)
		if (infos[i].accounted_any)
			tasks[n++] = (IOTask) {.facts = facts, .job = JOB_DESTAGE, .bucket = infos[i].number,
				.bytes = infos[i].bytes};
	PG_TRY();
	{
		for (int i = 0; i < n && result == IO_OK; i++)
		{
			queue_destages(tasks, n, i);
			result = run_job(&tasks[i]);
			staging_serve();
		}
	}
	PG_FINALLY();
	{
		withdraw_destages(tasks, n);
	}
	PG_END_TRY();
	return result;
}

/* A fold, and the destage of all buckets if that was asked for. */
static IOResult
empty_journal(StreamFacts *facts)
{
	IOTask		fold = {.facts = facts, .job = JOB_FOLD};
	IOResult	result = run_job(&fold);

	if (result == IO_OK && facts->destage_done < facts->destage_wanted)
		result = destage_all(facts);
	if (result != IO_OK)
		return result;
	/* The wanted counters were read before: what was asked for since is still to be done. */
	facts->fold_done = facts->fold_wanted;
	facts->destage_done = facts->destage_wanted;
	return IO_OK;
}

/* All for one stream but for what the policy destages. As io_stream_once(). */
static long
serve_stream(StreamFacts *facts)
{
	StreamMemory *memory = remember(facts->journal);
	IOTask		purge = {.facts = facts, .job = JOB_PURGE};
	IOTask		look = {.facts = facts, .job = JOB_LOOK};
	IOResult	result = IO_OK;

	/* what old scans held back, rolled back transactions left, and failed jobs marked in vain */
	mbucket_reclaim(facts->journal);

	if (facts->fold_done < facts->fold_wanted || facts->destage_done < facts->destage_wanted)
		result = empty_journal(facts);
	if (result == IO_OK && facts->purge_before > facts->purged_before)
	{
		result = run_job(&purge);
		if (result == IO_OK)
			facts->purged_before = Max(facts->purged_before, purge.purge_before);
	}
	if (result == IO_OK && facts->past_before != EVENT_TIME_NEVER && memory->bucket_width == 0)
		result = run_job(&look);
	return result == IO_LOCKED ? LOCKED_MS : -1;
}

/* ---- what the policy says ---- */

/*
 * Carries out one job of a plan. False: there was nothing to do (any more). An error, a
 * lock that someone has, or its being about to go puts off its stream alone; *again = ms until
 * then at the latest.
 */
static bool
run_planned(IOTask *task, const PolicyJob *job, long *again)
{
	StreamMemory *memory = remember(task->facts->journal);
	volatile long put_off = -1;

	if (memory->retry_at > GetCurrentTimestamp() || !destage_plan_wants(job))
		return false;
	PG_TRY();
	{
		if (run_job(task) != IO_OK)
			put_off = LOCKED_MS;
	}
	PG_CATCH();
	{
		put_off = worker_error(&memory->failures);
		MemoryContextSwitchTo(io_context);
	}
	PG_END_TRY();
	if (put_off >= 0)
	{
		memory->retry_at = GetCurrentTimestamp() + put_off * 1000;
		*again = worker_sooner(*again, put_off);
	}
	return task->moved > 0 || put_off >= 0;
}

/*
 * Plans over all the streams, and carries the plan out. Returns the ms after which to do it
 * again: at once if memory is still short and the next plan will begin with something
 * else, be it only that streams were put off.
 */
static long
destage_planned(const StreamFacts *facts, int n)
{
	DestageStream *streams = palloc(Max(n, 1) * sizeof(DestageStream));
	int			nstreams = 0;
	PolicyPlan *plan;
	IOTask	   *tasks;
	long		again;
	bool		progress = false;

	for (int i = 0; i < n; i++)
	{
		StreamMemory *memory = remember(facts[i].journal);

		if (memory->bucket_width == 0 || memory->retry_at > GetCurrentTimestamp())
			continue;
		streams[nstreams].facts = &facts[i];
		streams[nstreams++].bucket_width = memory->bucket_width;
	}
	/* copies can be had again; they must not drive out what the journal alone would be left to hold */
	stage_evict(destage_memory_short);
	plan = destage_plan(streams, nstreams);
	again = plan->again_ms;
	tasks = palloc0(Max(plan->n, 1) * sizeof(IOTask));
	for (int i = 0; i < plan->n; i++)
	{
		const PolicyJob *job = &plan->jobs[i];

		tasks[i] = (IOTask) {.facts = streams[job->bucket->stream].facts, .job = JOB_DESTAGE,
			.bucket = job->bucket->number, .keep = job->keep, .bytes = job->frees};
	}
	for (int i = 0; i < plan->n; i++)
	{
		queue_destages(tasks, plan->n, i);
		progress |= run_planned(&tasks[i], &plan->jobs[i], &again);
		staging_serve();
	}
	withdraw_destages(tasks, plan->n);
	return progress && destage_memory_short() ? 0 : again;
}

long
io_stream_once(StreamFacts *facts)
{
	MemoryContext caller = CurrentMemoryContext;
	long		again;

	io_init();
	MemoryContextReset(io_context);
	MemoryContextSwitchTo(io_context);
	again = serve_stream(facts);
	again = worker_sooner(again, destage_planned(facts, 1));
	MemoryContextSwitchTo(caller);
	return again;
}

/* ---- all streams ---- */

/* Bytes that memory holds of a stream: what its journal has to hold in any case. */
static int64
bytes_in_memory(Oid journal)
{
	int			n;
	MBucketInfo *buckets = mbucket_list(journal, &n);
	int64		bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += buckets[i].bytes;
	return bytes;
}

/* The last thing for a stream in a turn, left out if there was an error before. */
static long
vacuum_stream(StreamFacts *facts)
{
	long		again = journal_vacuum(facts->journal, bytes_in_memory(facts->journal));

	remember(facts->journal)->failures = 0;
	return again;
}

/* Does one thing for one stream; its errors delay it alone. */
static long
tend_stream(StreamFacts *facts, long (*tend) (StreamFacts *facts))
{
	StreamMemory *memory = remember(facts->journal);
	TimestampTz now = GetCurrentTimestamp();
	volatile long again = -1;

	if (memory->retry_at > now)
		return (memory->retry_at - now) / 1000 + 1;
	PG_TRY();
	{
		again = tend(facts);
	}
	PG_CATCH();
	{
		again = worker_error(&memory->failures);
		MemoryContextSwitchTo(io_context);
		memory->retry_at = now + again * 1000;
	}
	PG_END_TRY();
	control_progress(facts);
	staging_serve();
	return again;
}

/*
 * True if the scheduler has published something since these were read. Whatever
 * a job waits for (a lock, say) may have reset the latch that told so.
 */
static bool
facts_changed(const StreamFacts *facts, int n)
{
	int			nnow;
	StreamFacts *now = control_all_facts(&nnow);
	bool		changed = n != nnow;

	for (int i = 0; i < n && !changed; i++)
		changed = now[i].stream != facts[i].stream || now[i].journal != facts[i].journal ||
			now[i].past_before != facts[i].past_before ||
			now[i].purge_before != facts[i].purge_before ||
			now[i].fold_wanted != facts[i].fold_wanted ||
			now[i].destage_wanted != facts[i].destage_wanted;
	pfree(now);
	return changed;
}

long
io_run_once(void)
{
	static int	failures = 0;
	StreamFacts *facts;
	int			n;
	volatile long again = -1;

	io_init();
	MemoryContextReset(io_context);
	MemoryContextSwitchTo(io_context);
	staging_serve();
	facts = control_all_facts(&n);
	for (int i = 0; i < n; i++)
		again = worker_sooner(again, tend_stream(&facts[i], serve_stream));
	PG_TRY();
	{
		again = worker_sooner(again, destage_planned(facts, n));
		turnover_prune(facts, n);
		failures = 0;
	}
	PG_CATCH();
	{
		again = worker_sooner(again, worker_error(&failures));
		MemoryContextSwitchTo(io_context);
	}
	PG_END_TRY();
	for (int i = 0; i < n; i++)
		again = worker_sooner(again, tend_stream(&facts[i], vacuum_stream));
	return facts_changed(facts, n) || io_queue_waiting() ? 0 : again;
}

long
io_kick(void)
{
	/* one that has left in between is followed by another */
	if (worker_start(WORKER_IO, MyDatabaseId, 1) == 0 ||
		(!control_wake_io() && worker_start(WORKER_IO, MyDatabaseId, 1) == 0))
		return io_run_once();
	return -1;
}

/* ---- the worker ---- */

void
aion_io_main(Datum main_arg)
{
	TimestampTz busy_at;

	worker_begin(WORKER_IO, main_arg);
	/* What a job did can be done again as long as it is not durable; memory is lost with it. */
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	staging_serve_between_blocks();
	busy_at = GetCurrentTimestamp();

	for (;;)
	{
		long		again;
		TimestampTz now;

		worker_tick();
		if (worker_slots_short())
			break;
		worker_state("looking after buckets");
		again = io_run_once();
		now = GetCurrentTimestamp();
		if (again >= 0 || now < busy_at)
			busy_at = now;
		else if (now - busy_at >= IDLE_MS * INT64CONST(1000))
		{
			worker_out_of_work();
			break;
		}
		worker_sleep(again >= 0 ? again : IDLE_MS - (now - busy_at) / 1000 + 1,
					 PG_WAIT_EXTENSION);
	}
	/* What comes now finds the scheduler woken by the exit callback. */
	proc_exit(0);
}
