/*
 * window.c
 *	  Placement of event times in windows of fixed size.
 *
 * All functions but window_spec_check expect a specification that passed it;
 * its bounds on size and slide are what keeps the sums below from overflow.
 * Times are clamped to the range of event times first.
 *
 * The start of a window is exact: one that holds EVENT_TIME_MIN may begin
 * before it, for a start identifies its window and must stay on the lattice
 * (use event_time_clamp to show it).  Starts after the range become
 * EVENT_TIME_END, which no event reaches, and so do the ends.
 */
#include <stddef.h>

#include "time/window.h"

/* Say why not, and that it is not. */
static bool
refuse(const char **reason, const char *text)
{
	if (reason != NULL)
		*reason = text;
	return false;
}

/*
 * Is this a specification that the other functions can work with?  If not,
 * *reason (unless reason is NULL) is set to a constant text for the user.
 */
bool
window_spec_check(const WindowSpec *spec, const char **reason)
{
	if (spec->size <= 0)
		return refuse(reason, "window size must be positive");
	if (spec->slide <= 0)
		return refuse(reason, "window slide must be positive");
	if (spec->size > EVENT_TIME_SPAN_MAX || spec->slide > EVENT_TIME_SPAN_MAX)
		return refuse(reason, "window size or slide is too large");
	if (!event_time_is_valid(spec->origin))
		return refuse(reason, "window origin is out of range");
	if ((spec->size - 1) / WINDOW_MAX_OVERLAP >= spec->slide)
		return refuse(reason, "window size is more than 10000 times the slide");
	return true;
}

/*
 * The greatest start at or before t, which may be as far as EVENT_TIME_SPAN_MAX
 * before the range.
 */
static EventTime
start_at_or_before(const WindowSpec *spec, EventTime t)
{
	int64_t		phase = int64_floor_mod(spec->origin, spec->slide);

	return t - int64_floor_mod(t - phase, spec->slide);
}

/*
 * The start of the first window that ends after t: the first that holds t, or,
 * if t is in a gap, the one after it.
 */
EventTime
window_first(const WindowSpec *spec, EventTime t)
{
	EventTime	before = start_at_or_before(spec,
											event_time_clamp(t) - spec->size);

	if (before > EVENT_TIME_END - spec->slide)
		return EVENT_TIME_END;
	return before + spec->slide;
}

/*
 * The start of the last window that begins at or before t.  The windows that
 * hold t start at window_first, in steps of slide, up to window_last: none if
 * the first is after the last.
 */
EventTime
window_last(const WindowSpec *spec, EventTime t)
{
	return start_at_or_before(spec, event_time_clamp(t));
}

/* The exclusive end of the window that begins at start. */
EventTime
window_end(const WindowSpec *spec, EventTime start)
{
	return start > EVENT_TIME_END - spec->size ? EVENT_TIME_END
		: start + spec->size;
}

/* Does the window that begins at start hold an event of time t? */
bool
window_contains(const WindowSpec *spec, EventTime start, EventTime t)
{
	return start <= t && t < window_end(spec, start);
}

/*
 * The starts *lo .. *hi, in steps of slide, of all windows that overlap the
 * event times first_t .. last_t, both inclusive and first_t <= last_t.  False,
 * and nothing to be made of *lo and *hi, if they all lie in a gap.
 */
bool
window_range(const WindowSpec *spec, EventTime first_t, EventTime last_t,
			 EventTime *lo, EventTime *hi)
{
	*lo = window_first(spec, first_t);
	*hi = window_last(spec, last_t);
	return *lo <= *hi;
}

/*
 * Is every start and every end of a window a boundary of buckets of this
 * width?  If so a bucket is in a window wholly or not at all.
 */
bool
window_aligned(const WindowSpec *spec, int64_t bucket_width)
{
	return spec->size % bucket_width == 0 &&
		spec->slide % bucket_width == 0 &&
		int64_floor_mod(spec->origin, bucket_width) ==
		int64_floor_mod(EVENT_TIME_ORIGIN, bucket_width);
}
