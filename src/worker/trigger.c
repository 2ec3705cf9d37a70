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
 * that windows can wait for it in a heap. aion.stream_state has what it takes to
 * tell it after a restart, and to show in aion.windows what it shows.
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
	return Max(0, now - stream->stand_still.from);
}

/* What the clock showed when W_e was there, as far as is known. */
EventTime
lateness_clock_at(const SchedStream *stream, EventTime event_watermark)
{
	return staleness_clock(event_watermark, stream->stand_still.before);
}

EventTime
lateness_clock(const SchedStream *stream, int64 now)
{
	return staleness_clock(stream->watermark.event_watermark,
						   int64_add_saturating(stream->stand_still.before, standing_still(stream, now)));
}

/*
 * What is to be known of W_e's standing still if it gets to where it is given. What the clock went on by while W_e
 * stood still is part of that way: only if W_e makes up for less, the clock keeps the rest.
 */
StandStill
lateness_clock_moved(const SchedStream *stream, EventTime event_watermark, int64 now)
{
	StandStill	result = stream->stand_still;
	int64		way = int64_sub_saturating(event_watermark, stream->watermark.event_watermark);

	if (way == 0)
		return result;
	result.before = int64_add_saturating(result.before,
										 Max(0, int64_sub_saturating(standing_still(stream, now), way)));
	result.from = now + patience(stream);
	return result;
}

/* The same if it was put somewhere else, and the clock with it. */
StandStill
lateness_clock_stopped(const SchedStream *stream, int64 now)
{
	return (StandStill) {.before = 0, .from = now + patience(stream)};
}

/* As aion.stream_state has it. A clock that was set back in between does not stop this one for long. */
void
lateness_clock_load(SchedStream *stream, const StreamStateRow *row, int64 now)
{
	int64		longest = now + patience(stream);

	stream->stand_still.before = row->stood_still;
	stream->stand_still.from = row->stands_still_from == EVENT_TIME_NEVER ? longest :
		Min(longest, now + (row->stands_still_from - GetCurrentTimestamp()));
}

/* When the clock shows t if W_e stands still (monotonic). */
int64
lateness_clock_reaches(const SchedStream *stream, EventTime t, int64 now)
{
	int64		ahead = int64_sub_saturating(t, lateness_clock(stream, now));

	return ahead <= 0 ? now : int64_add_saturating(Max(now, stream->stand_still.from), ahead);
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

/* As aion.window_firing has it; EVENT_TIME_NEVER: not executed yet. */
void
trigger_load(Window *window, EventTime on_time_clock, EventTime fired_clock)
{
	if (fired_clock == EVENT_TIME_NEVER)
		return;
	trigger_executed(window, on_time_clock, true);
	trigger_executed(window, fired_clock, false);
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
