/*
 * late_forecast.h
 *	  How many late events a window will have, and when: what schedules of
 *	  executions (staleness.h) are made from, learnt from windows before it.
 *
 * Kept per query and length of allowed lateness.  Both structs are plain
 * numbers without pointers.
 */
#ifndef AION_LATE_FORECAST_H
#define AION_LATE_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "time/decayed_counts.h"
#include "time/staleness.h"

/* So many purged windows are remembered, and must be to be relied on. */
#define LATE_FORECAST_WINDOWS	100
#define LATE_FORECAST_ENOUGH	10

/*
 * Late events of the windows purged last, oldest first; to keep it, keep those
 * numbers, and add them again.
 */
typedef struct LateForecast
{
	int			windows;
	int64_t		events[LATE_FORECAST_WINDOWS];
} LateForecast;

/* What is known of windows that were executed on time and aren't purged. */
typedef struct OpenWindows
{
	int64_t		windows;		/* those that have late events */
	int64_t		events;			/* late ones, of all together */
} OpenWindows;

#define ARRIVAL_SHAPE_CELLS		200
#define ARRIVAL_SHAPE_BYTES		DECAYED_COUNTS_BYTES(ARRIVAL_SHAPE_CELLS)

/* A curve of arrivals is made from no fewer events than that. */
#define ARRIVAL_SHAPE_ENOUGH	500

/* When late events come, in cells over the allowed lateness. */
typedef struct ArrivalShape
{
	DecayedCounts counts;
	double		cells[ARRIVAL_SHAPE_CELLS];
} ArrivalShape;

extern void late_forecast_init(LateForecast *forecast);
extern void late_forecast_add(LateForecast *forecast, int64_t events);
extern double late_forecast_events(const LateForecast *forecast,
								   const OpenWindows *open, int64_t own);

extern void arrival_shape_init(ArrivalShape *shape, double memory);
extern void arrival_shape_add(ArrivalShape *shape, int64_t elapsed,
							  int64_t lateness, int64_t events);
extern bool arrival_shape_curve(const ArrivalShape *shape, ArrivalCurve *curve,
								double *shares);
extern double arrival_shape_next(const ArrivalShape *shape, double bound,
								 double last, double now);
extern size_t arrival_shape_encode(const ArrivalShape *shape, uint8_t *bytes);
extern bool arrival_shape_decode(ArrivalShape *shape, const uint8_t *bytes,
								 size_t nbytes);

#endif							/* AION_LATE_FORECAST_H */
