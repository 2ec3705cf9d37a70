/*
 * control_queue.c
 *	  Jobs from the scheduler to executors, requests from backends to the
 *	  scheduler.
 *
 * Both are fixed arrays of slots that go free -> posted -> taken -> done -> free.
 * A job belongs to the scheduler that posted it: if the executor dies its exit
 * callback makes the job done (FIRING_RETRY), if the scheduler dies its
 * successor starts afresh. A request belongs to the backend that posted it,
 * which frees the slot on every way out; a scheduler that dies gives the
 * requests it had taken to its successor.
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "debug_point.h"
#include "worker/control.h"
#include "worker/control_internal.h"

/* ---- jobs ---- */

/* The job that this process is running; -1: none. Set under the lock, read by the signal handler. */
static volatile sig_atomic_t running_job = -1;

bool
control_job_post(const Job *job)
{
	JobSlot    *free_slot = NULL;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_JOBS && free_slot == NULL; i++)
		if (control->jobs[i].state == SLOT_FREE)
			free_slot = &control->jobs[i];
	if (free_slot != NULL)
	{
		free_slot->state = SLOT_POSTED;
		free_slot->database = MyDatabaseId;
		free_slot->pid = 0;
		free_slot->forgotten = false;
		free_slot->stop = false;
		free_slot->job = *job;
		/* not the first one alone: it may be about to take the job before this, which may not end for a long time */
		for (int i = 0; i < CONTROL_WORKERS; i++)
		{
			WorkerSlot *worker = &control->workers[i];

			if (worker->pid != 0 && worker->role == WORKER_EXECUTOR &&
				worker->database == MyDatabaseId && worker->state[0] == '\0')
				SetLatch(worker->latch);
		}
	}
	LWLockRelease(control->lock);
	return free_slot != NULL;
}

bool
control_job_take(Job *job, int *slot)
{
	JobSlot    *best = NULL;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_JOBS; i++)
	{
		JobSlot    *candidate = &control->jobs[i];

		if (candidate->state == SLOT_POSTED && candidate->database == MyDatabaseId &&
			(best == NULL || candidate->job.priority < best->job.priority))
			best = candidate;
	}
	if (best != NULL)
	{
		best->state = SLOT_TAKEN;
		best->pid = MyProcPid;
		best->since = GetCurrentTimestamp();
		*job = best->job;
		*slot = running_job = best - control->jobs;
	}
	LWLockRelease(control->lock);
	return best != NULL;
}

/* The end of a taken job. Under the lock, exclusively. */
static void
end_job(JobSlot *slot, FiringOutcome outcome, int64 fired_events)
{
	slot->job.outcome = outcome;
	slot->job.fired_events = fired_events;
	slot->pid = 0;
	slot->state = slot->forgotten ? SLOT_FREE : SLOT_DONE;
}

/* Notes how long an execution took. Under the lock, exclusively. */
static void
note_execution(TimestampTz since)
{
	DatabaseEntry *entry = control_find_database(MyDatabaseId);
	int64		ms = (GetCurrentTimestamp() - since) / 1000;

	/* a clock that was set back tells nothing */
	if (entry != NULL && ms >= 0)
		entry->execution_ms[entry->executions++ % POLICY_EXECUTIONS] = Min(ms, PG_INT32_MAX);
}

void
control_job_finish(int slot, FiringOutcome outcome, int64 fired_events)
{
	Assert(slot >= 0 && slot < CONTROL_JOBS);
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	Assert(control->jobs[slot].pid == MyProcPid);
	if (outcome == FIRING_DONE && !control->jobs[slot].job.removal)
		note_execution(control->jobs[slot].since);
	end_job(&control->jobs[slot], outcome, fired_events);
	running_job = -1;
	LWLockRelease(control->lock);
	control_wake_scheduler();
}

/*
 * Signals are sent under the lock, so that none can reach a stranger of the same pid. Code in a view's query that
 * changes the view does not stop itself.
 */
void
control_jobs_stop(Oid view)
{
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_JOBS; i++)
	{
		JobSlot    *slot = &control->jobs[i];

		if (slot->state == SLOT_TAKEN && slot->database == MyDatabaseId && slot->job.view == view &&
			slot->pid != MyProcPid)
		{
			slot->stop = true;
			kill(slot->pid, SIGUSR2);
		}
	}
	LWLockRelease(control->lock);
}

bool
control_job_runs(Oid view, EventTime window_start, int ms)
{
	bool		runs = false;

	LWLockAcquire(control->lock, LW_SHARED);
	for (int i = 0; i < CONTROL_JOBS; i++)
	{
		const JobSlot *slot = &control->jobs[i];

		if (slot->state == SLOT_TAKEN && slot->database == MyDatabaseId && slot->job.view == view &&
			slot->job.window_start == window_start && !slot->job.removal)
			runs = TimestampDifferenceExceeds(slot->since, GetCurrentTimestamp(), ms);
	}
	LWLockRelease(control->lock);
	return runs;
}

bool
control_job_stopped(void)
{
	return running_job >= 0 && control->jobs[running_job].stop;
}

void
control_stop_handler(SIGNAL_ARGS)
{
	int			save_errno = errno;

	if (control_job_stopped())
		view_stop_here();
	SetLatch(MyLatch);
	errno = save_errno;
}

int
control_execution_times(int32 *ms)
{
	DatabaseEntry *entry;
	int			n = 0;

	LWLockAcquire(control->lock, LW_SHARED);
	entry = control_find_database(MyDatabaseId);
	if (entry != NULL)
	{
		n = Min(entry->executions, POLICY_EXECUTIONS);
		memcpy(ms, entry->execution_ms, n * sizeof(int32));
	}
	LWLockRelease(control->lock);
	return n;
}

void
control_jobs_abandon(void)
{
	for (int i = 0; i < CONTROL_JOBS; i++)
		if (control->jobs[i].state == SLOT_TAKEN && control->jobs[i].pid == MyProcPid)
			end_job(&control->jobs[i], FIRING_RETRY, 0);
}

int
control_jobs_collect(Job *jobs, int max)
{
	int			n = 0;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_JOBS && n < max; i++)
	{
		JobSlot    *slot = &control->jobs[i];

		if (slot->state == SLOT_DONE && slot->database == MyDatabaseId)
		{
			jobs[n++] = slot->job;
			slot->state = SLOT_FREE;
		}
	}
	LWLockRelease(control->lock);
	return n;
}

/* Number of this database's jobs in a state. */
static int
count_jobs(SlotState state)
{
	int			n = 0;

	LWLockAcquire(control->lock, LW_SHARED);
	for (int i = 0; i < CONTROL_JOBS; i++)
		if (control->jobs[i].state == state && control->jobs[i].database == MyDatabaseId)
			n++;
	LWLockRelease(control->lock);
	return n;
}

int
control_jobs_running(void)
{
	return count_jobs(SLOT_TAKEN);
}

void
control_jobs_reset(void)
{
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_JOBS; i++)
	{
		JobSlot    *slot = &control->jobs[i];

		if (slot->database != MyDatabaseId)
			continue;
		if (slot->state == SLOT_TAKEN)
			slot->forgotten = true;
		else
			slot->state = SLOT_FREE;
	}
	LWLockRelease(control->lock);
}

/* ---- requests ---- */

/* Puts the request into a free slot. Errors out if there is none. */
static void
post_request(Request *request)
{
	RequestSlot *slot = NULL;

	request->id = pg_atomic_fetch_add_u64(&control->next_id, 1);
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_REQUESTS && slot == NULL; i++)
		if (control->requests[i].state == SLOT_FREE)
			slot = &control->requests[i];
	if (slot != NULL)
	{
		request->slot = slot - control->requests;
		slot->state = SLOT_POSTED;
		slot->database = MyDatabaseId;
		slot->latch = MyLatch;
		slot->request = *request;
	}
	LWLockRelease(control->lock);
	if (slot == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many sessions wait for aion's workers"),
				 errdetail("At most %d can wait at a time.", CONTROL_REQUESTS)));
}

/* Takes a request back, done or not. Also called when the process exits. */
static void
withdraw_request(int code, Datum arg)
{
	Request    *request = (Request *) DatumGetPointer(arg);
	RequestSlot *slot = &control->requests[request->slot];

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if (slot->state != SLOT_FREE && slot->request.id == request->id)
		slot->state = SLOT_FREE;
	LWLockRelease(control->lock);
}

/* True if the request is done; copies its result then. */
static bool
request_done(Request *request)
{
	RequestSlot *slot = &control->requests[request->slot];
	bool		done;

	LWLockAcquire(control->lock, LW_SHARED);
	Assert(slot->request.id == request->id);
	done = slot->state == SLOT_DONE;
	if (done)
		*request = slot->request;
	LWLockRelease(control->lock);
	return done;
}

bool
control_served(void)
{
	DatabaseEntry *entry;
	bool		served;

	LWLockAcquire(control->lock, LW_SHARED);
	entry = control_find_database(MyDatabaseId);
	served = entry != NULL && entry->scheduler != NULL;
	LWLockRelease(control->lock);
	return served;
}

/*
 * Looks once a second whether there still is a scheduler, so that its death, or
 * a latch set too early, costs a second and not the time-out.
 */
static bool
wait_until_done(Request *request, int64 timeout_ms)
{
	TimestampTz start = GetCurrentTimestamp();

	for (;;)
	{
		int64		waited;
		long		nap = 1000;

		if (request_done(request))
			return true;
		waited = (GetCurrentTimestamp() - start) / 1000;
		if (timeout_ms >= 0)
		{
			if (waited >= timeout_ms)
				return false;
			nap = Min(nap, timeout_ms - waited);
		}
		control_wake();			/* pokes the launcher if there is no scheduler */
		control_wake_scheduler();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 nap, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

bool
request_wait(Request *request, int64 timeout_ms)
{
	bool		done;

	post_request(request);
	PG_ENSURE_ERROR_CLEANUP(withdraw_request, PointerGetDatum(request));
	{
		DEBUG_POINT("request-posted");
		done = wait_until_done(request, timeout_ms);
	}
	PG_END_ENSURE_ERROR_CLEANUP(withdraw_request, PointerGetDatum(request));
	withdraw_request(0, PointerGetDatum(request));
	return done;
}

int
control_requests_take(Request *requests, int max)
{
	int			n = 0;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_REQUESTS && n < max; i++)
	{
		RequestSlot *slot = &control->requests[i];

		if (slot->state == SLOT_POSTED && slot->database == MyDatabaseId)
		{
			slot->state = SLOT_TAKEN;
			requests[n++] = slot->request;
		}
	}
	LWLockRelease(control->lock);
	return n;
}

bool
control_request_waited_for(const Request *request)
{
	RequestSlot *slot = &control->requests[request->slot];
	bool		waited_for;

	LWLockAcquire(control->lock, LW_SHARED);
	waited_for = slot->state == SLOT_TAKEN && slot->request.id == request->id;
	LWLockRelease(control->lock);
	return waited_for;
}

void
control_request_note(const Request *request)
{
	RequestSlot *slot = &control->requests[request->slot];

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if (slot->state == SLOT_TAKEN && slot->request.id == request->id)
		slot->request.applied_by = request->applied_by;
	LWLockRelease(control->lock);
}

void
control_request_finish(const Request *request)
{
	RequestSlot *slot = &control->requests[request->slot];
	Latch	   *latch = NULL;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if (slot->state == SLOT_TAKEN && slot->request.id == request->id)
	{
		slot->request = *request;
		slot->state = SLOT_DONE;
		latch = slot->latch;
	}
	LWLockRelease(control->lock);
	if (latch != NULL)
		SetLatch(latch);
}

void
control_requests_reset(void)
{
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_REQUESTS; i++)
		if (control->requests[i].state == SLOT_TAKEN &&
			control->requests[i].database == MyDatabaseId)
			control->requests[i].state = SLOT_POSTED;
	LWLockRelease(control->lock);
}
