/*
 * bucket.c
 *	  Numbers and bounds of buckets, and the width that suits a window.
 *
 * Widths are positive and at most EVENT_TIME_SPAN_MAX; the caller has checked
 * that.  A start saturates at EVENT_TIME_MIN, an end at EVENT_TIME_END, so
 * that the buckets of all event times are distinct and cover the whole range.
 */
#include "time/bucket.h"

/* How many quotients to try for a divisor of a long span; bounds the search. */
#define MAX_DIVISOR_TRIES	100000

/* The number of the bucket that holds t (clamped to the range). */
int64_t
bucket_number(int64_t width, EventTime t)
{
	return int64_floor_div(event_time_clamp(t) - EVENT_TIME_ORIGIN, width);
}

/*
 * The first instant of a bucket.  Any number is allowed: those before the
 * range give EVENT_TIME_MIN, those after it EVENT_TIME_END.
 */
EventTime
bucket_start(int64_t width, int64_t number)
{
	if (number <= bucket_number(width, EVENT_TIME_MIN))
		return EVENT_TIME_MIN;
	if (number > bucket_number(width, EVENT_TIME_MAX))
		return EVENT_TIME_END;
	return number * width + EVENT_TIME_ORIGIN;
}

/* The first instant after a bucket; saturates as bucket_start does. */
EventTime
bucket_end(int64_t width, int64_t number)
{
	if (number >= bucket_number(width, EVENT_TIME_MAX))
		return EVENT_TIME_END;
	return bucket_start(width, number + 1);
}

/* The greatest common divisor of a > 0 and b >= 0. */
static int64_t
greatest_common_divisor(int64_t a, int64_t b)
{
	while (b != 0)
	{
		int64_t		remainder = a % b;

		a = b;
		b = remainder;
	}
	return a;
}

/*
 * The greatest divisor of span within the bounds of a width, span being more
 * than a day: a whole day if that divides it.  A span without one (say, a
 * prime number of microseconds) gets a day, although its windows then begin
 * inside buckets: short buckets would only add work.
 */
static int64_t
width_within_span(int64_t span)
{
	int64_t		quotient = (span - 1) / BUCKET_WIDTH_MAX + 1;

	for (int tries = 0; tries < MAX_DIVISOR_TRIES; tries++, quotient++)
	{
		if (span / quotient < BUCKET_WIDTH_MIN)
			break;
		if (span % quotient == 0)
			return span / quotient;
	}
	return BUCKET_WIDTH_MAX;
}

/*
 * The widest bucket, from a second to a day, on whose boundaries all windows
 * of this specification begin and end.  Where they would need less than a
 * second it is a second: such windows begin inside buckets, which is allowed.
 */
int64_t
bucket_width_for_window(int64_t size, int64_t slide, EventTime origin)
{
	int64_t		width = greatest_common_divisor(size, slide);
	int64_t		phase = int64_floor_mod(origin, width) -
		int64_floor_mod(EVENT_TIME_ORIGIN, width);

	width = greatest_common_divisor(width, phase < 0 ? -phase : phase);
	if (width > BUCKET_WIDTH_MAX)
		return width_within_span(width);
	return width < BUCKET_WIDTH_MIN ? BUCKET_WIDTH_MIN : width;
}
