/*
 * trigger.c
 *	  The staleness trigger: when late events are worth another execution.
 *
 * A view with a bound on staleness (Aion paper, section 3.4; arithmetic in
 * time/staleness.h) has a window executed again where a plan says, made from
 * how its late events came so far, and sooner if they come otherwise: when the
 * staleness would exceed the bound, the "guard". After each execution the rest
 * is planned anew, when the first event comes that the result lacks; without
 * one there is nothing to plan. Bound 0 asks for an execution for every event.
 * aion.late_interval, the least time between two executions, is due.c's.
 *
 * Time is told by the stream's lateness clock: W_e, which goes on with
 * processing time once it has stood still for a while. It never goes back, so
 * that windows can wait for it in a heap. A restart forgets how long W_e stood
 * still: the clock is W_e then.
 *
 * What is expected (how many late events a window has, and when) is learnt from
 * windows that became final, and kept in aion.view_state; a crash takes away
 * what was learnt about the times since it was written last.
 */
#include "postgres.h"

#include "worker/scheduler.h"

double		aion_staleness = 0;

/* W_e stands still when it has not moved for so long, or for two intervals. */
#define STANDS_STILL_AFTER	(1 * USECS_PER_SEC)

/* Windows keep their times while the forecast is no less than this share of what it was. */
#define FORECAST_TOLERANCE	0.95

/* Events after which the memory of when they came has faded by half or so. */
#define ARRIVALS_REMEMBERED	100000

/* Makes the forecast of a view that has none yet. */
void
trigger_init(SchedView *view)
{
	late_forecast_init(&view->forecast);
	arrival_shape_init(&view->arrivals, ARRIVALS_REMEMBERED);
	memset(&view->open, 0, sizeof(view->open));
	view->expected = 0;
}

/* ---- the lateness clock ---- */

/* How long W_e may rest before it stands still. */
static int64
patience(const SchedStream *stream)
{
	return Max(STANDS_STILL_AFTER, 2 * stream->options.watermark_interval);
}

/* How long W_e has been standing still now. */
static int64
standing_still(const SchedStream *stream, int64 now)
{
	return Max(0, now - stream->moved_at - patience(stream));
}

/* What the clock showed when W_e was there, as far as is known. */
EventTime
lateness_clock_at(const SchedStream *stream, EventTime event_watermark)
{
	return int64_add_saturating(event_watermark, stream->stood_still);
}

EventTime
lateness_clock(const SchedStream *stream, int64 now)
{
	return int64_add_saturating(stream->watermark.event_watermark,
								int64_add_saturating(stream->stood_still, standing_still(stream, now)));
}

/*
 * W_e moves; the caller sets it. What the clock went on by while W_e stood still is part of that way: only if W_e
 * makes up for less, the clock keeps the rest.
 */
void
lateness_clock_moved(SchedStream *stream, EventTime event_watermark, int64 now)
{
	int64		way = int64_sub_saturating(event_watermark, stream->watermark.event_watermark);
	int64		rest = int64_sub_saturating(standing_still(stream, now), way);

	stream->stood_still = int64_add_saturating(stream->stood_still, Max(0, rest));
	stream->moved_at = now;
}

/* When the clock shows t if W_e stands still (monotonic). */
int64
lateness_clock_reaches(const SchedStream *stream, EventTime t, int64 now)
{
	int64		ahead = int64_sub_saturating(t, lateness_clock(stream, now));

	return ahead <= 0 ? now : int64_add_saturating(Max(now, stream->moved_at + patience(stream)), ahead);
}

/* ---- the trigger ---- */

/* The bound in force for a view. */
double
view_staleness(const SchedView *view)
{
	return view->def.staleness < 0 ? aion_staleness : view->def.staleness;
}

/* Where an instant of the clock lies between a window's on-time execution and its end of lateness: 0 to 1. */
static double
position(const Window *window, EventTime clock)
{
	return staleness_position(int64_sub_saturating(clock, window->on_time_clock), window->lateness);
}

/*
 * When a window that was executed on time, and has events that its result lacks, is to be executed
 * again, on the lateness clock.
 */
EventTime
trigger_due(Window *window, int64 now)
{
	SchedView  *view = window->view;
	double		bound = view_staleness(view);
	double		expected = late_forecast_events(&view->forecast, &view->open, window->late_events);
	EventTime	clock = lateness_clock(view->stream, now);
	EventTime	due;

	/* An execution before W was reset, or one that idle time brought before a restart, may seem to be yet to come. */
	window->fired_clock = Min(window->fired_clock, clock);
	window->on_time_clock = Min(window->on_time_clock, window->fired_clock);
	due = staleness_due(window->fired_clock, window->events - window->fired_events, bound, window->lateness, expected);
	if (!(bound > 0))
		return due;
	if (window->planned < 0)
		window->planned = arrival_shape_next(&view->arrivals, bound, position(window, window->fired_clock),
											 position(window, clock));
	if (window->planned < 1)
		due = Min(due, staleness_instant(window->on_time_clock, window->lateness, window->planned));
	return due;
}

/* The window was executed when the clock showed "clock". */
void
trigger_executed(Window *window, EventTime clock, bool on_time)
{
	window->fired_clock = clock;
	if (on_time)
		window->on_time_clock = clock;
	window->planned = PLAN_NONE;
}

/* The bound has changed, or what is planned may not hold any more for another reason. */
void
trigger_replan(Window *window)
{
	window->planned = PLAN_NONE;
}

/* ---- what is learnt ---- */

/* n late events came for the window when the clock showed "clock"; EVENT_TIME_NEVER: that is not known any more. */
void
trigger_late_events(Window *window, int64 n, EventTime clock)
{
	SchedView  *view = window->view;

	if (n <= 0)
		return;
	if (window->late_events == 0)
		view->open.windows++;
	view->open.events += n;
	window->late_events += n;
	if (window->fired && clock != EVENT_TIME_NEVER)
		arrival_shape_add(&view->arrivals, int64_sub_saturating(clock, window->on_time_clock),
						  window->lateness, n);
}

/* The window is about to leave memory. */
void
trigger_forget(Window *window)
{
	SchedView  *view = window->view;

	if (window->late_events > 0)
		view->open.windows--;
	view->open.events -= window->late_events;
	window->late_events = 0;
}

/* The window becomes final: all its late events have come. */
void
trigger_final(const Window *window)
{
	late_forecast_add(&window->view->forecast, window->late_events);
}

/*
 * True if fewer late events are expected now than when windows of the view were given their times: those may
 * have become due. A little less does not count, or they would be looked at all the time.
 */
bool
trigger_expects_less(SchedView *view)
{
	double		expected = late_forecast_events(&view->forecast, &view->open, 0);
	bool		less = expected < view->expected * FORECAST_TOLERANCE;

	if (less || expected > view->expected)
		view->expected = expected;
	return less;
}

/* As aion.view_state keeps the times of arrival. Palloc'd. */
bytea *
trigger_pack_arrivals(const SchedView *view)
{
	bytea	   *packed = palloc(VARHDRSZ + ARRIVAL_SHAPE_BYTES);
	size_t		size = arrival_shape_encode(&view->arrivals, (uint8 *) VARDATA(packed));

	SET_VARSIZE(packed, VARHDRSZ + size);
	return packed;
}

/* The reverse; what can't be read is learnt anew. */
void
trigger_unpack_arrivals(SchedView *view, const bytea *packed)
{
	if (!arrival_shape_decode(&view->arrivals, (const uint8 *) VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed)))
		arrival_shape_init(&view->arrivals, ARRIVALS_REMEMBERED);
}
