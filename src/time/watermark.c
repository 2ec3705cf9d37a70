/*
 * watermark.c
 *	  The rules by which W and W_e move.
 *
 * Every function returns whether W moved.  Only watermark_reset lowers it.
 */
#include "time/watermark.h"

/* No event seen, nothing expected to be complete. */
void
watermark_init(WatermarkState *state)
{
	state->watermark = EVENT_TIME_NEVER;
	state->event_watermark = EVENT_TIME_NEVER;
}

/* Raise W to t, if that is higher. */
static bool
raise_watermark(WatermarkState *state, EventTime t)
{
	if (t <= state->watermark)
		return false;
	state->watermark = t;
	return true;
}

/* Raise W_e to t, if that is higher, and W with it. */
static bool
raise_event_watermark(WatermarkState *state, EventTime t)
{
	if (t > state->event_watermark)
		state->event_watermark = t;
	return raise_watermark(state, t);
}

/*
 * Events up to max_event_time have been accounted: W follows at the delay,
 * unless the watermark is manual.  EVENT_TIME_NEVER stands for no event.
 */
bool
watermark_observe(WatermarkState *state, const WatermarkConfig *config,
				  EventTime max_event_time)
{
	if (config->manual)
		return false;
	return raise_event_watermark(state, event_time_minus(max_event_time,
														 config->delay_us));
}

/* The user says that nothing before t will come. */
bool
watermark_advance(WatermarkState *state, EventTime t)
{
	return raise_event_watermark(state, t);
}

/*
 * Lower W, and W_e where it is higher, to t but not below floor (the greatest
 * time whose windows are final).  Never raises them.
 */
bool
watermark_reset(WatermarkState *state, EventTime t, EventTime floor)
{
	EventTime	target = t > floor ? t : floor;

	if (target >= state->watermark)
		return false;
	state->watermark = target;
	if (state->event_watermark > target)
		state->event_watermark = target;
	return true;
}

/*
 * Time passed on the monotonic clock, from previous_mono_us (the call before)
 * to now_mono_us.  What of it lies more than the idle time-out after the last
 * newly accounted event is added to W, but not beyond cap, the end of the last
 * window that holds an event.  W_e stays.  Before the first event there is no
 * W that could rise.
 */
bool
watermark_idle(WatermarkState *state, const WatermarkConfig *config,
			   int64_t last_activity_mono_us,
			   int64_t previous_mono_us, int64_t now_mono_us, EventTime cap)
{
	int64_t		since;
	EventTime	target;

	if (config->manual || config->idle_timeout_us < 0 ||
		state->watermark == EVENT_TIME_NEVER)
		return false;

	since = int64_add_saturating(last_activity_mono_us,
								 config->idle_timeout_us);
	if (since < previous_mono_us)
		since = previous_mono_us;
	if (now_mono_us <= since)
		return false;

	target = event_time_plus(state->watermark,
							 int64_sub_saturating(now_mono_us, since));
	return raise_watermark(state, target < cap ? target : cap);
}

/*
 * Is t too far ahead of now, the server's clock at accounting, to be believed?
 * Such an event is set aside and must not be given to watermark_observe.
 */
bool
watermark_is_ahead(const WatermarkConfig *config, EventTime now, EventTime t)
{
	return config->max_ahead_us >= 0 &&
		t > event_time_plus(now, config->max_ahead_us);
}
