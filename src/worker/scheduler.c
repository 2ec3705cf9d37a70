/*
 * scheduler.c
 *	  The scheduler: one process per database that accounts, moves watermarks,
 *	  and decides what is to be executed.
 *
 * Each turn, in this order: take requests; bring definitions and state up to
 * date; take in outcomes and timers; run one pass over the streams that are due
 * (pass.c); answer requests; publish for the I/O worker; dispatch. Then sleep until the
 * next thing is due. A stream is due when something arrived, but not sooner than
 * watermark_interval after its last pass; when idle time would complete a
 * window; when somebody waits. With nothing of that kind the scheduler sleeps
 * without a transaction and without a timer of less than a minute.
 *
 * Committing backends set the latch only while control_sleep(true) holds: not
 * while a pass is going to come anyway.
 *
 * An error, wherever, aborts the transaction and has everything loaded from the
 * tables again after a pause; the death of this process amounts to the same.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "debug_point.h"
#include "worker/io_queue.h"
#include "worker/scheduler.h"
#include "worker/worker.h"

#define LONGEST_SLEEP	(60 * USECS_PER_SEC)
#define LONGEST_DEAF	(200 * 1000)	/* sleep during which commits don't wake us */
#define IDLE_STEP		(1 * USECS_PER_SEC) /* least time between idle passes that complete nothing */

Scheduler	scheduler;

static MemoryContext turn_context = NULL;

/* The monotonic clock in microseconds. */
int64
mono_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/* A pass over the stream is wanted at that time, whatever arrives. */
void
stream_want_pass(SchedStream *stream, int64 at)
{
	stream->pass_at = stream->must_pass ? Min(stream->pass_at, at) : at;
	stream->must_pass = true;
}

/* When idle time will have moved W to the end of the next window that waits; MONO_NEVER: it won't. */
static int64
idle_pass_at(const SchedStream *stream)
{
	const WatermarkConfig *config = &stream->options.watermark;
	EventTime	watermark = stream->watermark.watermark;
	EventTime	target = stream->last_window_end;
	int64		since;
	ListCell   *lc;

	if (config->manual || config->idle_timeout_us < 0 || watermark == EVENT_TIME_NEVER ||
		watermark >= stream->last_window_end)
		return MONO_NEVER;
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);
		EventTime	first = view->def.paused ? EVENT_TIME_END : view_first_unfired(view);

		if (first != EVENT_TIME_END)
			target = Min(target, Max(window_end(&view->def.window, first), watermark));
	}
	since = Max(int64_add_saturating(stream->last_activity, config->idle_timeout_us),
				stream->last_idle);
	/* What has risen is made durable now and then, so that a restart loses little of it. */
	return int64_add_saturating(since, Min(int64_sub_saturating(target, watermark) + 1,
										   Max(config->idle_timeout_us, IDLE_STEP)));
}

/* When the next pass over the stream is due. Sets *known if arrivals are known to wait for it. */
static int64
pass_due_at(SchedStream *stream, int64 now, bool *known)
{
	int64		interval = stream->options.watermark_interval;
	int64		regular = stream->last_pass == 0 ? now : int64_add_saturating(stream->last_pass, interval);
	int64		at = idle_pass_at(stream);
	bool		unfinished = false;

	*known = false;
	if (stream->must_pass)
		at = Min(at, requests_waiting(stream) ? stream->pass_at : Max(stream->pass_at, regular));
	if (arrivals_pending(&stream->storage, &unfinished))
	{
		at = Min(at, regular);
		*known = true;
	}
	else if (unfinished)
		at = Min(at, Max(regular, now + Max(interval, 10 * 1000)));
	return Max(at, stream->locked_until);
}

/* Streams whose pass is due; *next = when that of the first other one is, *known as above for any of those. */
static List *
due_streams(int64 now, int64 *next, bool *known)
{
	List	   *due = NIL;
	List	   *streams = sched_streams();
	ListCell   *lc;

	*next = MONO_NEVER;
	*known = false;
	foreach(lc, streams)
	{
		SchedStream *stream = lfirst(lc);
		bool		waits;
		int64		at;

		/* also if a view is yet to be loaded: its windows may be in the order of a lateness that has changed */
		if (stream_wants_load(stream))
			continue;
		at = pass_due_at(stream, now, &waits);
		if (at <= now)
			due = lappend(due, stream);
		else
		{
			*next = Min(*next, at);
			*known |= waits;
		}
	}
	return due;
}

/* Takes in invalidations, which otherwise come with the next transaction. */
static void
accept_invalidations(void)
{
	StartTransactionCommand();
	CommitTransactionCommand();
	MemoryContextSwitchTo(turn_context);
}

/* aion.late_interval or aion.staleness was changed: windows that wait by the old one get a new time. */
static void
look_at_settings(int64 now)
{
	static int	last_interval = 0;
	static double last_staleness = 0;
	static bool known = false;
	List	   *streams;
	ListCell   *lc;

	if (known && last_interval == aion_late_interval && last_staleness == aion_staleness)
		return;
	last_interval = aion_late_interval;
	last_staleness = aion_staleness;
	if (!known)
	{
		known = true;
		return;
	}
	streams = sched_streams();
	foreach(lc, streams)
	{
		ListCell   *lv;

		foreach(lv, ((SchedStream *) lfirst(lc))->views)
			view_schedule_news(lfirst(lv), now);
	}
}

/* Definitions and state as they are in the tables. False: the extension is gone. */
static bool
bring_up_to_date(int64 now)
{
	if (scheduler.definitions_changed || now >= scheduler.reload_at)
	{
		worker_state("reading definitions");
		if (!definitions_reload(now))
			return false;
		MemoryContextSwitchTo(turn_context);
	}
	definitions_load(now);
	MemoryContextSwitchTo(turn_context);
	return true;
}

/* One turn. False: the extension is gone. */
static bool
turn(void)
{
	int64		now = mono_now();
	List	   *due;
	int64		next;
	bool		known;

	requests_take();
	accept_invalidations();
	if (!bring_up_to_date(now))
		return false;
	look_at_settings(now);
	dispatch_collect(now);
	due_run_timers(now);
	requests_resolve(now);
	due = due_streams(now, &next, &known);
	if (due != NIL)
	{
		worker_state("accounting");
		pass_run(due, now);
		MemoryContextSwitchTo(turn_context);
	}
	requests_serve(now);
	publish_all(now);
	retention_run(now);
	dispatch_windows(now);
	MemoryContextSwitchTo(turn_context);
	prestage_predicted(now);
	DEBUG_POINT("scheduler-turned");
	return true;
}

static int64
sooner(int64 a, int64 b)
{
	return a < b ? a : b;
}

/* Sleeps until the next thing is due, or somebody wakes us. */
static void
sleep_until_due(void)
{
	int64		now = mono_now();
	int64		next;
	int64		pass_next;
	bool		known;
	List	   *due = due_streams(now, &pass_next, &known);

	if (due != NIL || scheduler.definitions_changed)
		return;
	next = Min(pass_next, now + LONGEST_SLEEP);
	next = sooner(next, scheduler.reload_at);
	next = sooner(next, due_next_timer(now));
	next = sooner(next, publish_next());
	next = sooner(next, requests_next(now));
	next = sooner(next, dispatch_next(now));
	next = sooner(next, prestage_next());
	next = sooner(next, retention_next());
	if (known)
		next = Min(next, now + LONGEST_DEAF);
	else
	{
		/* Who commits after this sets the latch; who did before is found by the second look. */
		control_sleep(true);
		accept_invalidations();
		due = due_streams(now, &pass_next, &known);
		if (due != NIL || known || scheduler.definitions_changed)
			next = now;
	}
	if (next > now)
		worker_sleep((long) ((next - now + 999) / 1000), PG_WAIT_EXTENSION);
	control_sleep(false);
}

/* Makes the scheduler's memory. */
static void
start(void)
{
	MemoryContext old;

	scheduler.context = AllocSetContextCreate(TopMemoryContext, "aion scheduler",
											  ALLOCSET_DEFAULT_SIZES);
	turn_context = AllocSetContextCreate(scheduler.context, "aion turn", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(scheduler.context);
	scheduler.io_at = MONO_NEVER;
	window_table_init(scheduler.context);
	due_init();
	definitions_init();
	MemoryContextSwitchTo(old);
	dispatch_start();
	control_requests_reset();
	io_queue_reset();
}

/*
 * Leaves when the extension is gone (for good, until the launcher is poked) or
 * the database is barred.
 */
void
aion_scheduler_main(Datum main_arg)
{
	int			failures = 0;

	worker_begin(WORKER_SCHEDULER, main_arg);
	start();
	for (;;)
	{
		volatile long pause = 0;
		volatile bool gone = false;

		worker_tick();
		MemoryContextReset(turn_context);
		MemoryContextSwitchTo(turn_context);
		PG_TRY();
		{
			gone = !turn();
			failures = 0;
		}
		PG_CATCH();
		{
			pause = worker_error(&failures);
			MemoryContextSwitchTo(turn_context);
			definitions_forget_state();
		}
		PG_END_TRY();
		if (gone)
			break;
		if (pause > 0)
			worker_sleep(pause, PG_WAIT_EXTENSION);
		else
			sleep_until_due();
	}
	control_no_extension();
	(void) worker_dismiss(MyDatabaseId, false);
	proc_exit(0);
}
