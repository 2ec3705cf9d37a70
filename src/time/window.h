/*
 * window.h
 *	  Windows of fixed size: which of them hold an event, and where they lie.
 *
 * A specification stands for the windows [s, s + size) with s = origin +
 * k * slide, for every integer k.  slide == size is a tumbling window; slide
 * need neither divide the size nor be smaller: with slide > size there are
 * gaps that belong to no window.  Calendar windows (months, days of a time
 * zone), sessions and count windows are not made here.
 */
#ifndef AION_WINDOW_H
#define AION_WINDOW_H

#include "time/eventtime.h"

/* No event may be in more windows than this. */
#define WINDOW_MAX_OVERLAP	10000

typedef struct WindowSpec
{
	int64_t		size;
	int64_t		slide;
	EventTime	origin;
} WindowSpec;

extern bool window_spec_check(const WindowSpec *spec, const char **reason);

extern EventTime window_first(const WindowSpec *spec, EventTime t);
extern EventTime window_last(const WindowSpec *spec, EventTime t);
extern EventTime window_end(const WindowSpec *spec, EventTime start);
extern bool window_contains(const WindowSpec *spec, EventTime start,
							EventTime t);
extern bool window_range(const WindowSpec *spec,
						 EventTime first_t, EventTime last_t,
						 EventTime *lo, EventTime *hi);
extern bool window_aligned(const WindowSpec *spec, int64_t bucket_width);

#endif							/* AION_WINDOW_H */
