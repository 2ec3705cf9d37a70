/*
 * eventtime.c
 *	  Floor division and saturating addition, on plain integers and on event
 *	  times.
 *
 * The int64_ functions know nothing of time.  The event_time_ functions
 * saturate at EVENT_TIME_MIN and EVENT_TIME_END and keep EVENT_TIME_NEVER.
 */
#include "time/eventtime.h"

/*
 * dividend / divisor, rounded toward minus infinity.  The divisor must be
 * positive.
 */
int64_t
int64_floor_div(int64_t dividend, int64_t divisor)
{
	int64_t		quotient = dividend / divisor;

	return quotient - (dividend % divisor < 0);
}

/*
 * What int64_floor_div leaves: in [0, divisor), also for negative dividends.
 * The divisor must be positive.
 */
int64_t
int64_floor_mod(int64_t dividend, int64_t divisor)
{
	int64_t		remainder = dividend % divisor;

	return remainder < 0 ? remainder + divisor : remainder;
}

/* a + b, or the end of int64 that the true sum lies beyond. */
int64_t
int64_add_saturating(int64_t a, int64_t b)
{
	if (b > 0 && a > INT64_MAX - b)
		return INT64_MAX;
	if (b < 0 && a < INT64_MIN - b)
		return INT64_MIN;
	return a + b;
}

/* a - b, or the end of int64 that the true difference lies beyond. */
int64_t
int64_sub_saturating(int64_t a, int64_t b)
{
	if (b > 0 && a < INT64_MIN + b)
		return INT64_MIN;
	if (b < 0 && a > INT64_MAX + b)
		return INT64_MAX;
	return a - b;
}

/* Can t be the time of an event, i.e. is it a finite timestamp? */
bool
event_time_is_valid(EventTime t)
{
	return t >= EVENT_TIME_MIN && t < EVENT_TIME_END;
}

/* The nearest of [EVENT_TIME_MIN, EVENT_TIME_END]; NEVER becomes MIN. */
EventTime
event_time_clamp(EventTime t)
{
	if (t < EVENT_TIME_MIN)
		return EVENT_TIME_MIN;
	return t > EVENT_TIME_END ? EVENT_TIME_END : t;
}

/* t + span, clamped; NEVER stays NEVER. */
EventTime
event_time_plus(EventTime t, int64_t span)
{
	if (t == EVENT_TIME_NEVER)
		return EVENT_TIME_NEVER;
	return event_time_clamp(int64_add_saturating(t, span));
}

/* t - span, clamped; NEVER stays NEVER. */
EventTime
event_time_minus(EventTime t, int64_t span)
{
	if (t == EVENT_TIME_NEVER)
		return EVENT_TIME_NEVER;
	return event_time_clamp(int64_sub_saturating(t, span));
}
