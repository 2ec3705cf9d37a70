/*
 * take_up.c
 *	  Views that are new, and streams that lost their state.
 *
 * A view without a row in aion.view_state is taken up by a pass over its stream:
 * that pass judges its arrivals first, without counting them for the view, and
 * then counts every event that is retained and accounted, those arrivals among them: each
 * once. From then on the view is like the others. A window of which events
 * were purged or set aside is incomplete.
 *
 * Purging is locked out meanwhile (purge_lock.h). All is part of the pass's
 * transaction: after a crash the view is simply taken up again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "worker/scheduler.h"

/*
 * Says which windows are those of views that this pass will take up. With
 * backfill => false, none that began before the W in force.
 */
void
take_up_prepare(StreamPass *pass)
{
	ListCell   *lc;

	foreach(lc, pass->stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (view->taken_up)
			continue;
		view->begins = view->def.backfill ? EVENT_TIME_NEVER : pass->stream->watermark.watermark;
		view->final_through = EVENT_TIME_NEVER;
		view->incomplete_before = EVENT_TIME_NEVER;
	}
}

typedef struct TakeUp
{
	StreamPass *pass;
	List	   *views;			/* those to be taken up */
} TakeUp;

/* n retained events that are in the same windows as t. */
static void
count_retained(StreamPass *pass, SchedView *view, EventTime t, int64 n)
{
	const WindowSpec *spec = &view->def.window;
	EventTime	last = window_last(spec, t);

	for (EventTime start = window_first(spec, t); start <= last; start += spec->slide)
	{
		WindowDelta *delta = account_delta(pass, view, start);

		if (delta->verdict != WINDOW_LATER)
			continue;
		delta->events += n;
		pass->last_window_end = Max(pass->last_window_end, delta->end);
	}
}

/* RetainedSink */
static void
see_retained(void *arg, int64 bucket, int32 nevents, EventTime first, EventTime last,
			 const EventTime *times)
{
	TakeUp	   *take_up = arg;
	ListCell   *lc;

	if (nevents == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	foreach(lc, take_up->views)
	{
		SchedView  *view = lfirst(lc);
		const WindowSpec *spec = &view->def.window;

		if (window_first(spec, first) == window_first(spec, last) &&
			window_last(spec, first) == window_last(spec, last))
			count_retained(take_up->pass, view, first, nevents);
		else
		{
			Assert(times != NULL);
			for (int32 i = 0; i < nevents; i++)
				count_retained(take_up->pass, view, times[i], 1);
		}
	}
}

/*
 * EventTimeSink: an event that was set aside. Windows that hold retained
 * events are incomplete, and those that may still get some. Others, which have had
 * their lateness, need no row.
 */
static void
see_set_aside(void *arg, EventTime t)
{
	TakeUp	   *take_up = arg;
	ListCell   *lc;

	foreach(lc, take_up->views)
	{
		SchedView  *view = lfirst(lc);
		const WindowSpec *spec = &view->def.window;
		EventTime	last = window_last(spec, t);

		for (EventTime start = window_first(spec, t); start <= last; start += spec->slide)
		{
			WindowKey	key = {.start = start,.view = view->def.view,.zero = 0};
			WindowDelta *delta = hash_search(take_up->pass->deltas, &key, HASH_FIND, NULL);

			if (delta == NULL && window_end(spec, start) > view->threshold)
				delta = account_delta(take_up->pass, view, start);
			if (delta != NULL && delta->verdict == WINDOW_LATER)
				delta->incomplete = REASON_SET_ASIDE;
		}
	}
}

/* Windows that begin at or before the last purged event lack some. */
static void
mark_purged(TakeUp *take_up)
{
	HASH_SEQ_STATUS seq;
	WindowDelta *delta;

	hash_seq_init(&seq, take_up->pass->deltas);
	while ((delta = hash_seq_search(&seq)) != NULL)
		if (delta->verdict == WINDOW_LATER && delta->events > 0 &&
			delta->key.start < delta->view->incomplete_before)
			delta->incomplete = REASON_PURGED;
}

/* True if the store has to tell event times: a bucket need not lie in one window. */
static bool
wants_times(const TakeUp *take_up)
{
	ListCell   *lc;

	foreach(lc, take_up->views)
		if (!window_aligned(&((SchedView *) lfirst(lc))->def.window,
							take_up->pass->info->storage.bucket_width))
			return true;
	return false;
}

/* Takes up the stream's new views, in the pass's transaction, after its arrivals were judged. */
void
take_up_views(StreamPass *pass)
{
	TakeUp		take_up = {.pass = pass};
	StreamStateRow row;
	ListCell   *lc;

	foreach(lc, pass->stream->views)
		if (!((SchedView *) lfirst(lc))->taken_up)
			take_up.views = lappend(take_up.views, lfirst(lc));
	if (take_up.views == NIL)
		return;
	if (!store_stream_load(pass->stream->relid, &row))
		elog(ERROR, "stream %u has no row in aion.stream_state", pass->stream->relid);
	foreach(lc, take_up.views)
		((SchedView *) lfirst(lc))->incomplete_before =
			row.purged_time == EVENT_TIME_NEVER ? EVENT_TIME_NEVER : row.purged_time + 1;

	/* What this transaction set aside must be out of sight; what others wrote since is not in the set. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	arrivals_retained(&pass->info->storage, GetActiveSnapshot(), pass->accounted,
					  wants_times(&take_up), see_retained, &take_up);
	PopActiveSnapshot();
	mark_purged(&take_up);
	store_set_aside_times(pass->stream->relid, see_set_aside, &take_up);
	foreach(lc, take_up.views)
		store_view_insert(lfirst(lc));
	pass->taken_up = take_up.views;
	DEBUG_POINT("take-up-counted");
}

/*
 * A stream that is not durable lost its events in a crash if the row that its
 * p-bucket table always holds is missing. Windows that had fired keep their
 * results and become incomplete, the others are as if they had never been. In the
 * caller's transaction, which puts the row back.
 */
void
repair_lost_state(const StreamInfo *info, SchedStream *stream)
{
	ListCell   *lc;

	if (info->options.durable || store_marker_present(info->storage.blocks))
		return;
	foreach(lc, stream->views)
		store_windows_lost(((SchedView *) lfirst(lc))->def.view);
	store_marker_insert(info->storage.blocks);
	ereport(LOG,
			(errmsg("stream %u is not durable and lost its events in a crash", stream->relid)));
	DEBUG_POINT("lost-state-repaired");
}
