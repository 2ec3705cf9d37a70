/*
 * staging.c
 *	  Staging requests: how scans make them, how the I/O worker serves them.
 *
 * Requests go before everything else that the I/O worker does: it looks for
 * them between jobs, and during a job between two blocks (I5), where staging ahead is a job for
 * what is wanted now. There, in the job's transaction, each is served in a subtransaction, so
 * that its failure is its own. No relation lock is waited for. Where a request can't be served, or not soon, the
 * scan reads the blocks itself.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "debug_point.h"
#include "store/stage.h"
#include "store/yield.h"
#include "stream/stream.h"
#include "worker/control.h"
#include "worker/io_queue.h"
#include "worker/staging.h"
#include "worker/worker.h"

/* So long a scan waits for its request to be begun: the I/O worker may be in something that it can't interrupt. */
#define PATIENCE_MS 50

/* ---- asking ---- */

/* Queues a request and sees that there is somebody to serve it; 0: there is not. */
static uint64
post(const IORequest *request, bool wait)
{
	uint64		number;

	if (worker_start(WORKER_IO, MyDatabaseId, 1) == 0)
		return 0;
	number = io_queue_post(request, wait);
	if (number != 0)
		(void) control_wake_io();
	return number;
}

static uint64
request_blocks(const StreamStorage *storage, const BlockRef *blocks, int n)
{
	IORequest	request = {.kind = IO_STAGE};

	request.stream = storage->stream;
	request.journal = storage->journal;
	request.low = blocks[0].bucket;
	request.high = blocks[n - 1].bucket;
	request.nblocks = n;
	memcpy(request.blocks, blocks, sizeof(BlockRef) * n);
	return post(&request, true);
}

static StageWait
wait_for_blocks(uint64 number)
{
	IORequest	request;
	IOState		state = io_queue_state(number, &request);
	long		nap = 1000;

	if (state == IO_STATE_NONE || state == IO_STATE_DONE)
		return STAGE_OVER;
	if (state == IO_STATE_QUEUED)
	{
		nap = PATIENCE_MS - (GetCurrentTimestamp() - request.queued_at) / 1000;
		if (nap <= 0 || nap > PATIENCE_MS)
		{
			io_queue_withdraw(number);
			return STAGE_BUSY;
		}
	}
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, nap,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return STAGE_PROGRESS;
}

static const StageHooks hooks = {request_blocks, wait_for_blocks, io_queue_withdraw};

void
staging_init(void)
{
	stage_hooks = &hooks;
}

static void
withdraw(int code, Datum number)
{
	io_queue_withdraw(DatumGetUInt64(number));
}

int64
staging_stage_range(const StreamStorage *storage, int64 low, int64 high, int64 timeout_ms)
{
	IORequest	request = {.kind = IO_STAGE};
	TimestampTz begun = GetCurrentTimestamp();
	volatile int64 bytes = -1;
	uint64		number;

	request.stream = storage->stream;
	request.journal = storage->journal;
	request.low = low;
	request.high = high;
	request.deadline = begun;	/* after the requests of firings, which have none */
	number = post(&request, true);
	if (number == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("the I/O worker of this database cannot be asked"),
				 errdetail("Either none can be started, or too many requests are queued."),
				 errhint("See aion.io; you may need to increase max_worker_processes.")));
	PG_ENSURE_ERROR_CLEANUP(withdraw, UInt64GetDatum(number));
	{
		while (bytes < 0 &&
			   (timeout_ms < 0 || (GetCurrentTimestamp() - begun) / 1000 < timeout_ms))
		{
			IOState		state = io_queue_state(number, &request);

			if (state == IO_STATE_NONE || state == IO_STATE_DONE)
			{
				bytes = state == IO_STATE_DONE ? request.bytes : 0;
				continue;
			}
			/* now and then, in case that the worker has left between two requests */
			if (worker_start(WORKER_IO, MyDatabaseId, 1) > 0)
				(void) control_wake_io();
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 timeout_ms < 0 ? 1000 : Min(1000, timeout_ms), PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(withdraw, UInt64GetDatum(number));
	io_queue_withdraw(number);
	return bytes;
}

/* ---- the I/O worker ---- */

static void serve_within(IORequest *request);
static void serve_all(IOKind last, void (*serve_one) (IORequest *request));

static bool
note_progress(void *arg, int64 bytes, int64 events)
{
	return io_queue_progress(((IORequest *) arg)->number, bytes, events);
}

/* Between two blocks of a range, what a firing reads now goes first. */
static bool
note_progress_of_range(void *arg, int64 bytes, int64 events)
{
	bool		wanted = note_progress(arg, bytes, events);

	serve_all(IO_STAGE, serve_within);
	return wanted;
}

/* Serves a request, in a transaction. Someone who has a lock in the way is left alone. */
static void
serve(IORequest *request)
{
	const StreamInfo *info;
	Snapshot	snapshot;

	if (!ConditionalLockRelationOid(request->stream, AccessShareLock) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(request->stream)))
		return;
	info = stream_lookup(request->stream, true);
	if (info == NULL || !info->has_storage || info->storage.journal != request->journal ||
		!ConditionalLockRelationOid(info->storage.blocks, AccessShareLock) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(info->storage.blocks)))
		return;

	/* detoasting wants an active snapshot */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	DEBUG_POINT("stage-begun");
	if (request->nblocks > 0)
		(void) stage_blocks(&info->storage, request->blocks, request->nblocks,
							note_progress, request);
	else
		(void) stage_range(&info->storage, snapshot, request->low, request->high,
						   request->kind == IO_STAGE, note_progress_of_range, request);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
}

static void
serve_alone(IORequest *request)
{
	static int	failures = 0;
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		StartTransactionCommand();
		serve(request);
		CommitTransactionCommand();
		failures = 0;
	}
	PG_CATCH();
	{
		(void) worker_error(&failures);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

static void
serve_within(IORequest *request)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		serve(request);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* Serves all requests of the kinds up to "last". */
static void
serve_all(IOKind last, void (*serve_one) (IORequest *request))
{
	IORequest	request;

	while (io_queue_urgent() && io_queue_take(last, &request))
	{
		TimestampTz begun = GetCurrentTimestamp();

		serve_one(&request);
		if (io_queue_finish(request.number, &request) && request.events > 0)
			control_stage_measured(request.stream, GetCurrentTimestamp() - begun, request.events);
	}
}

void
staging_serve(void)
{
	serve_all(IO_PRESTAGE, serve_alone);
}

static void
serve_between_blocks(void)
{
	serve_all(IO_PRESTAGE, serve_within);
}

void
staging_serve_between_blocks(void)
{
	store_yield_hook = serve_between_blocks;
}
