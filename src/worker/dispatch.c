/*
 * dispatch.c
 *	  Hands windows that are ready to executors and takes in how they ended.
 *
 * Few more jobs are posted than there are executors, so that what falls due
 * later can still go first. Executors are started as jobs wait; if none can be
 * had, one job per turn is done here. Whatever is posted was made
 * durable by a pass before (I9). A job that is lost with its executor may have
 * committed: the window's row is read again before it is retried.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "debug_point.h"
#include "worker/scheduler.h"
#include "worker/worker.h"

#define JOBS_PER_EXECUTOR	4
#define PREDECESSOR_WAIT	5000	/* ms that jobs of a former scheduler get to end */
#define LOOK_AGAIN			(1 * USECS_PER_SEC)
#define HOLD_SHORTEST		(1 * USECS_PER_SEC)
#define HOLD_LONGEST		(60 * USECS_PER_SEC)

typedef struct Outstanding
{
	Oid			view;
	EventTime	start;
	bool		removal;		/* of results up to that window */
} Outstanding;

static Outstanding outstanding[CONTROL_JOBS];
static int	noutstanding = 0;

/* When to look again at windows whose view is held. */
static int64 held_next = MONO_NEVER;

/*
 * At the scheduler's start: jobs of a predecessor that still run would be
 * executed, and counted, a second time if their windows were dispatched before they
 * have ended.
 */
void
dispatch_start(void)
{
	control_jobs_reset();
	for (int waited = 0; control_jobs_running() > 0 && waited < PREDECESSOR_WAIT; waited += 100)
	{
		worker_tick();
		worker_sleep(100, PG_WAIT_EXTENSION);
	}
}

/* After windows were loaded: those that an executor has are running. */
void
dispatch_mark_running(SchedView *view)
{
	for (int i = 0; i < noutstanding; i++)
	{
		Window	   *window = outstanding[i].view == view->def.view && !outstanding[i].removal ?
			window_find(view, outstanding[i].start) : NULL;

		if (window != NULL)
			window_dispatched(window);
	}
}

/* ---- outcomes ---- */

static void
outcome_done(Window *window, const Job *job)
{
	window->fired_events = Max(window->fired_events, job->fired_events);
	trigger_executed(window, job->clock, !window->fired);
	window->attempts = 0;
	window_set_failed(window, false);
	if (job->kind == FIRING_ON_TIME)
	{
		window->fired = true;
		window_leave_firing(window);
	}
	if (job->kind == FIRING_FINAL || job->final_too)
		window->final_counted = true;
}

/* Reads again what the tables say of a window whose job ended without a verdict. True: an error is recorded there. */
static bool
reload_window(Window *window)
{
	WindowRow	row = {0};

	StartTransactionCommand();
	if (!store_lock_tables())
	{
		CommitTransactionCommand();
		MemoryContextSwitchTo(scheduler.context);
		return false;
	}
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to the SPI manager");
	PushActiveSnapshot(GetTransactionSnapshot());
	if (store_firing_load(window->key.view, window->key.start, &row))
	{
		window->fired_events = row.fired_events;
		window->final_counted = row.final > 0;
		trigger_load(window, row.on_time_clock, row.fired_clock);
		if (row.on_time > 0 && !window->fired)
		{
			window->fired = true;
			window_leave_firing(window);
		}
	}
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
	MemoryContextSwitchTo(scheduler.context);
	return row.failed;
}

/*
 * Somebody has locked what executions of the view need, or is changing the view: its other windows would wait
 * as that one did, and those of other views for executors. Until one gets the locks they are tried one by one, the more
 * seldom the longer it has been so.
 */
static void
hold_view(SchedView *view, bool anew, int64 now)
{
	ViewHold   *hold = &view->hold;

	if (hold->since == 0 || anew)
		hold->since = now;
	hold->until = now + Max(HOLD_SHORTEST, Min(now - hold->since, HOLD_LONGEST));
	hold->tried = EVENT_TIME_NEVER;
	held_next = Min(held_next, hold->until);
}

/* What the end of an execution tells of the locks. Who was stopped had them. */
static void
note_locks(SchedView *view, FiringOutcome outcome, int64 now)
{
	if (outcome == FIRING_LOCKED || outcome == FIRING_STOPPED)
		hold_view(view, outcome == FIRING_STOPPED, now);
	else
		view->hold.since = 0;
}

/* How a window's execution ended, and what is next for it. */
static void
take_outcome(const Job *job, int64 now)
{
	SchedView  *view = sched_view(job->view);
	Window	   *window = view == NULL ? NULL : window_find(view, job->window_start);
	bool		again;

	if (view != NULL)
		note_locks(view, job->outcome, now);
	if (window == NULL || window->place != PLACE_RUNNING)
		return;					/* the view is gone, or is yet to be loaded again */
	window->place = PLACE_IDLE;
	window->last_tried = now;
	again = window->again;
	window->again = false;
	switch (job->outcome)
	{
		case FIRING_DONE:
			outcome_done(window, job);
			break;
		case FIRING_FAILED:
			window->attempts = 0;
			window_set_failed(window, true);
			window_leave_firing(window);
			break;
		case FIRING_GONE:
			scheduler.definitions_changed = true;
			window_retry(window, false, now);
			break;
		case FIRING_RETRY:
		case FIRING_LOCKED:
			window_retry(window, reload_window(window), now);
			break;
		case FIRING_STOPPED:
			window_put_off(window, now);
			break;
	}
	window_set_news(window);
	if (view->def.paused)
		window_unplace(window);
	if (window->place == PLACE_IDLE)
	{
		if (again && (window->is_news || window->forced))
			window_make_due(window, view->stream->pass, false, now);
		else
			window_undue(window);
		window_schedule(window, now);
	}
}

/* The job has ended. */
static void
forget_outstanding(const Job *job)
{
	for (int i = 0; i < noutstanding; i++)
		if (outstanding[i].view == job->view && outstanding[i].start == job->window_start &&
			outstanding[i].removal == job->removal)
		{
			outstanding[i] = outstanding[--noutstanding];
			return;
		}
}

/*
 * Takes in the outcomes of finished jobs. Should that fail, the windows'
 * rows tell the same when they are loaded again.
 */
void
dispatch_collect(int64 now)
{
	Job			jobs[32];
	int			n;

	while (noutstanding > 0 && (n = control_jobs_collect(jobs, lengthof(jobs))) > 0)
	{
		for (int i = 0; i < n; i++)
			forget_outstanding(&jobs[i]);
		for (int i = 0; i < n; i++)
			if (jobs[i].removal)
				retention_outcome(&jobs[i], now);
			else
				take_outcome(&jobs[i], now);
	}
}

/* ---- dispatch ---- */

/* Whether any of the view's windows is to be handed out in this turn; see hold_view(). */
static void
update_hold(SchedView *view, int64 now)
{
	ViewHold   *hold = &view->hold;

	if (hold->since != 0 && hold->tried != EVENT_TIME_NEVER && now >= hold->until)
	{
		/* no lock is waited for that long */
		if (control_job_runs(view->def.view, hold->tried, HOLD_SHORTEST / 1000))
			hold->since = 0;
		else
			hold->until = now + HOLD_SHORTEST;
	}
	hold->closed = hold->since != 0 && now < hold->until;
	if (hold->closed)
		held_next = Min(held_next, hold->until);
}

static void
update_holds(int64 now)
{
	HASH_SEQ_STATUS seq;
	SchedStream *stream;
	ListCell   *lc;

	held_next = MONO_NEVER;
	hash_seq_init(&seq, scheduler.streams);
	while ((stream = hash_seq_search(&seq)) != NULL)
		foreach(lc, stream->views)
			update_hold(lfirst(lc), now);
}

/* A stream's windows wait while its journal is folded for them. */
static bool
usable(const Window *window)
{
	return !window->view->stream->fold_first && !window->view->hold.closed;
}

static bool
post(Window *window)
{
	ViewHold   *hold = &window->view->hold;
	Job			job = {0};

	if (noutstanding >= Min(CONTROL_JOBS, Max(1, aion_executors) * JOBS_PER_EXECUTOR))
		return false;
	job.view = window->key.view;
	job.journal = window->view->stream->storage.journal;
	job.window_start = window->key.start;
	job.kind = window_firing_kind(window, &job.final_too);
	job.clock = lateness_clock(window->view->stream, mono_now());
	job.priority = window_priority(window);
	if (!control_job_post(&job))
		return false;
	outstanding[noutstanding++] = (Outstanding) {job.view, job.window_start, false};
	if (hold->since != 0)
	{
		hold->tried = window->key.start;
		hold->until = mono_now() + HOLD_SHORTEST;
		hold->closed = true;
		held_next = Min(held_next, hold->until);
	}
	window_dispatched(window);
	return true;
}

/* Hands out the removal of results of a view's windows up to the one that starts then. False: no room. */
bool
dispatch_removal(const SchedView *view, EventTime last_start)
{
	Job			job = {0};

	job.view = view->def.view;
	job.journal = view->stream->storage.journal;
	job.window_start = last_start;
	job.removal = true;
	job.priority = removal_priority();
	if (noutstanding >= CONTROL_JOBS || !control_job_post(&job))
		return false;
	outstanding[noutstanding++] = (Outstanding) {job.view, last_start, true};
	return true;
}

/* Does one queued job in this process. */
static void
do_one_job(void)
{
	Job			job;
	int			slot;
	int64		fired_events = 0;
	volatile FiringOutcome outcome = FIRING_RETRY;

	if (!control_job_take(&job, &slot))
		return;
	PG_TRY();
	{
		outcome = job_execute(&job, &fired_events);
	}
	PG_FINALLY();
	{
		control_job_finish(slot, outcome, fired_events);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(scheduler.context);
}

/* Posts what is ready, and sees that somebody does it. */
void
dispatch_windows(int64 now)
{
	int			wanted;
	int			live;
	int			before;

	update_holds(now);
	due_dispatch(usable, post);
	if (noutstanding == 0)
		return;
	DEBUG_POINT("dispatch-posted");
	wanted = Min(noutstanding, aion_executors);
	live = worker_count(WORKER_EXECUTOR, MyDatabaseId);
	do
	{
		before = live;
		if (live < wanted)
			live = worker_start(WORKER_EXECUTOR, MyDatabaseId, wanted);
	} while (live > before && live < wanted);
	if (live == 0)
	{
		do_one_job();
		dispatch_collect(mono_now());
	}
}

/* While jobs are out, look now and then whether there still is somebody to do them. */
int64
dispatch_next(int64 now)
{
	if (noutstanding == 0)
		return held_next;
	if (worker_count(WORKER_EXECUTOR, MyDatabaseId) == 0)
		return now;
	return Min(now + LOOK_AGAIN, held_next);
}
