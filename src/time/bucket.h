/*
 * bucket.h
 *	  Buckets: the slices of equal width into which a stream's event time is
 *	  cut for memory and storage.
 *
 * Bucket n is [origin + n * width, origin + (n + 1) * width), the origin being
 * EVENT_TIME_ORIGIN.  What a bucket holds is none of this module's business.
 */
#ifndef AION_BUCKET_H
#define AION_BUCKET_H

#include "time/eventtime.h"

/* Bounds of the width that a view's windows can ask for. */
#define BUCKET_WIDTH_MIN	EVENT_TIME_SECOND
#define BUCKET_WIDTH_MAX	EVENT_TIME_DAY

extern int64_t bucket_number(int64_t width, EventTime t);
extern EventTime bucket_start(int64_t width, int64_t number);
extern EventTime bucket_end(int64_t width, int64_t number);
extern int64_t bucket_width_for_window(int64_t size, int64_t slide,
									   EventTime origin);

#endif							/* AION_BUCKET_H */
