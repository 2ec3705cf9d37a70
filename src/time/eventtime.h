/*
 * eventtime.h
 *	  Instants of event time, and arithmetic on them that can't overflow.
 *
 * An EventTime counts microseconds since 2000-01-01 00:00 UTC, as PostgreSQL's
 * timestamptz does.  Everything in src/time rounds toward minus infinity and
 * saturates at the ends of the range; nothing here knows time zones, SQL or
 * the server, so that it can be compiled and fuzzed alone.
 */
#ifndef AION_EVENTTIME_H
#define AION_EVENTTIME_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t EventTime;

#define EVENT_TIME_MSEC		INT64_C(1000)
#define EVENT_TIME_SECOND	INT64_C(1000000)
#define EVENT_TIME_MINUTE	(60 * EVENT_TIME_SECOND)
#define EVENT_TIME_HOUR		(60 * EVENT_TIME_MINUTE)
#define EVENT_TIME_DAY		(24 * EVENT_TIME_HOUR)

/*
 * The finite timestamps of PostgreSQL are [EVENT_TIME_MIN, EVENT_TIME_END);
 * EVENT_TIME_MAX is the last one.  The end of a half-open interval may be
 * EVENT_TIME_END, so that the interval still holds EVENT_TIME_MAX.
 */
#define EVENT_TIME_MIN		INT64_C(-211813488000000000)
#define EVENT_TIME_END		INT64_C(9223371331200000000)
#define EVENT_TIME_MAX		(EVENT_TIME_END - 1)

/* Before every event: "no watermark yet", "no threshold". Arithmetic keeps it. */
#define EVENT_TIME_NEVER	INT64_MIN

/* Monday 2000-01-03 00:00 UTC: where buckets begin, and windows by default. */
#define EVENT_TIME_ORIGIN	(2 * EVENT_TIME_DAY)

/*
 * The longest width, size or slide (some 73,000 years).  Sums of an event time
 * and three such spans stay clear of overflow below, and saturate above.
 */
#define EVENT_TIME_SPAN_MAX (INT64_C(1) << 61)

extern int64_t int64_floor_div(int64_t dividend, int64_t divisor);
extern int64_t int64_floor_mod(int64_t dividend, int64_t divisor);
extern int64_t int64_add_saturating(int64_t a, int64_t b);
extern int64_t int64_sub_saturating(int64_t a, int64_t b);

extern bool event_time_is_valid(EventTime t);
extern EventTime event_time_clamp(EventTime t);
extern EventTime event_time_plus(EventTime t, int64_t span);
extern EventTime event_time_minus(EventTime t, int64_t span);

#endif							/* AION_EVENTTIME_H */
