/*
 * executor.c
 *	  Runs windows that the scheduler handed out, in the background.
 *
 * Takes jobs of its database by priority, one at a time, and reports the outcome.
 * What a firing is, and that it may be repeated, is the view layer's affair; a
 * crash or the death of the process leaves a job that is handed back (worker.c)
 * and a transaction that never was. Leaves after some idle time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "debug_point.h"
#include "view/view.h"
#include "worker/control.h"
#include "worker/worker.h"

#define IDLE_MS 30000

/* Executes a job in this process, in transactions of its own. */
FiringOutcome
job_execute(const Job *job, int64 *fired_events)
{
	char		state[64];

	snprintf(state, sizeof(state), job->removal ? "removing results of view %u" : "firing a window of view %u",
			 job->view);
	worker_state(state);
	DEBUG_POINT("executor-taken");
	if (job->removal)
		return view_remove_results(job->view, job->journal, job->window_start, fired_events);
	return view_fire(job->view, job->journal, job->window_start, job->kind, job->final_too,
					 job->clock, fired_events);
}

/* Runs one job. An error that view_fire() did not record itself is as good as a transient one. */
static void
run_job(const Job *job, int slot)
{
	volatile FiringOutcome outcome = FIRING_RETRY;
	int64		fired_events = 0;
	int			failures = 0;

	PG_TRY();
	{
		outcome = job_execute(job, &fired_events);
	}
	PG_CATCH();
	{
		(void) worker_error(&failures);
	}
	PG_END_TRY();
	DEBUG_POINT("executor-fired");
	control_job_finish(slot, outcome, fired_events);
}

void
aion_executor_main(Datum main_arg)
{
	MemoryContext turn;
	TimestampTz idle_since;

	worker_begin(WORKER_EXECUTOR, main_arg);

	/*
	 * A result whose commit a crash takes back is computed again, since its
	 * count in window_firing went with it. So commits need not wait for the
	 * disk; the scheduler's do, before anything final builds on a result, and
	 * whoever answers a sync or refresh flushes first.
	 */
	SetConfigOption("synchronous_commit", "off", PGC_USERSET, PGC_S_OVERRIDE);
	turn = AllocSetContextCreate(TopMemoryContext, "aion executor turn", ALLOCSET_DEFAULT_SIZES);
	idle_since = GetCurrentTimestamp();

	for (;;)
	{
		Job			job;
		int			slot;

		worker_tick();
		MemoryContextSwitchTo(turn);
		MemoryContextReset(turn);
		if (worker_slots_short())
			break;
		/* Being idle is announced before the look, so that a job posted after it sets the latch. */
		worker_state(NULL);
		if (control_job_take(&job, &slot))
		{
			run_job(&job, slot);
			idle_since = GetCurrentTimestamp();
			continue;
		}
		if (!worker_sleep_idle(idle_since, IDLE_MS))
			break;
	}
	/* A job that comes now finds the scheduler woken by the exit callback. */
	proc_exit(0);
}
