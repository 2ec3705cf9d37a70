/*
 * retention.c
 *	  When results of final windows are removed, for views with "retain".
 *
 * A window's results go when it is final and W_e has passed its end by retain. Windows
 * being of one size, that is all up to one of them; none before it may be left that is
 * not final. A job for an executor says which one (view/retain.c does it). One job of the
 * database is out at a time, none sooner than RUN_EVERY after the view's last, and none
 * unless a window ended in between. A job takes a bounded number of rows: the next follows
 * at once if some are left. A failure is tried again with back-off. A paused view's
 * results stay; they go after it is resumed.
 *
 * How far it came is written by the next pass. After a crash before that, the same job
 * runs again and finds nothing: what executors commit is in the WAL before what the pass
 * writes.
 */
#include "postgres.h"

#include "worker/scheduler.h"

#define RUN_EVERY		(1 * USECS_PER_SEC)
#define RETRY_LONGEST	(60 * USECS_PER_SEC)
#define PERSIST_AFTER	(1 * USECS_PER_SEC)

/* Start of the last window whose results may go; EVENT_TIME_NEVER: none. */
static EventTime
last_removable(const SchedView *view)
{
	const WindowSpec *spec = &view->def.window;
	EventTime	ended = Min(view->retain_threshold, view->threshold);
	EventTime	unfinal;
	EventTime	start;

	if (view->def.retain.unlimited || view->def.paused || !view->loaded || !view->taken_up ||
		ended == EVENT_TIME_NEVER)
		return EVENT_TIME_NEVER;
	unfinal = view_first_unfinal(view);
	start = window_last(spec, event_time_minus(ended, spec->size));
	if (start >= unfinal)
		start = window_last(spec, unfinal - 1);
	return window_end(spec, start) > view->results_removed ? start : EVENT_TIME_NEVER;
}

/* True if a removal is out, of whichever view. */
static bool
any_out(List *streams)
{
	ListCell   *lc;

	foreach(lc, streams)
	{
		ListCell   *lv;

		foreach(lv, ((SchedStream *) lfirst(lc))->views)
			if (((SchedView *) lfirst(lv))->removing != EVENT_TIME_NEVER)
				return true;
	}
	return false;
}

/* The view that has been waiting longest for a removal; NULL: none has anything to remove. */
static SchedView *
next_view(List *streams)
{
	SchedView  *next = NULL;
	ListCell   *lc;

	foreach(lc, streams)
	{
		SchedStream *stream = lfirst(lc);
		ListCell   *lv;

		if (!stream->loaded || stream->pass == 0)
			continue;
		foreach(lv, stream->views)
		{
			SchedView  *view = lfirst(lv);

			if ((next == NULL || view->remove_at < next->remove_at) &&
				last_removable(view) != EVENT_TIME_NEVER)
				next = view;
		}
	}
	return next;
}

/* Has results removed, if it is time. */
void
retention_run(int64 now)
{
	List	   *streams = sched_streams();
	SchedView  *view = any_out(streams) ? NULL : next_view(streams);
	EventTime	start;

	if (view == NULL || view->remove_at > now)
		return;
	start = last_removable(view);
	view->remove_at = now + RUN_EVERY;
	if (dispatch_removal(view, start))
		view->removing = start;
}

/* A removal has ended. */
void
retention_outcome(const Job *job, int64 now)
{
	SchedView  *view = sched_view(job->view);

	/* if it was loaded again meanwhile, windows may have been reopened */
	if (view == NULL || view->removing != job->window_start)
		return;
	view->removing = EVENT_TIME_NEVER;
	if (job->outcome != FIRING_DONE)
	{
		scheduler.definitions_changed |= job->outcome == FIRING_GONE;
		view->remove_at = now + Min(RUN_EVERY << Min(view->remove_failures, 6), RETRY_LONGEST);
		view->remove_failures += job->outcome != FIRING_STOPPED;
		return;
	}
	view->remove_failures = 0;
	if (job->fired_events < job->window_start)
		view->remove_at = now;	/* that was not all */
	view->results_removed = Max(view->results_removed, window_end(&view->def.window, job->fired_events));
	view->removed_changed = true;
	stream_want_pass(view->stream, now + PERSIST_AFTER);
}

int64
retention_next(void)
{
	List	   *streams = sched_streams();
	SchedView  *view = any_out(streams) ? NULL : next_view(streams);

	return view == NULL ? MONO_NEVER : view->remove_at;
}
