/*
 * late_forecast.c
 *	  Learning how many late events windows have, and when they come.
 *
 * Counts of purged windows are complete, so their mean is the forecast.
 * Before there are enough of them the windows that still wait for events stand
 * in, with what they have so far.  A window never expects fewer than it has.
 *
 * The forecast too large by a factor makes staleness larger by as much.  A
 * wrong shape only costs executions: staleness_due doesn't use it.
 */
#include "time/late_forecast.h"

#include <math.h>
#include <string.h>

/* So many executions are planned at a time, ... */
#define PLAN_PART		256

/* ... and so many times: a bound that needs more is kept by staleness_due. */
#define PLAN_PARTS		16

void
late_forecast_init(LateForecast *forecast)
{
	forecast->windows = 0;
}

/*
 * Learn that a window which was purged had so many late events, none included.
 * The oldest is forgotten if there are enough.
 */
void
late_forecast_add(LateForecast *forecast, int64_t events)
{
	if (forecast->windows == LATE_FORECAST_WINDOWS)
	{
		forecast->windows--;
		memmove(&forecast->events[0], &forecast->events[1],
				sizeof(int64_t) * (size_t) forecast->windows);
	}
	forecast->events[forecast->windows++] = events;
}

/*
 * How many late events a window will have that has so many by now.  0 if
 * nothing is known at all.
 */
double
late_forecast_events(const LateForecast *forecast, const OpenWindows *open,
					 int64_t own)
{
	double		expected = 0;

	if (forecast->windows >= LATE_FORECAST_ENOUGH)
	{
		for (int i = 0; i < forecast->windows; i++)
			expected += (double) forecast->events[i] / forecast->windows;
	}
	else if (open->windows > 0)
		expected = (double) open->events / (double) open->windows;
	return fmax(expected, (double) own);
}

/*
 * Start with no shape.  memory is how many of the last events count, as in
 * decayed_counts.h, and should be several times ARRIVAL_SHAPE_ENOUGH.
 */
void
arrival_shape_init(ArrivalShape *shape, double memory)
{
	decayed_counts_init(&shape->counts, shape->cells, ARRIVAL_SHAPE_CELLS,
						memory);
}

/*
 * Learn that so many late events have come so long after the on-time execution
 * of their window, which has this allowed lateness.  Those after its end don't
 * count: they will not be executed for.
 */
void
arrival_shape_add(ArrivalShape *shape, int64_t elapsed, int64_t lateness,
				  int64_t events)
{
	int			cell;

	if (elapsed < 0 || elapsed >= lateness)
		return;
	cell = (int) ((double) elapsed / (double) lateness * ARRIVAL_SHAPE_CELLS);
	if (cell >= ARRIVAL_SHAPE_CELLS)
		cell = ARRIVAL_SHAPE_CELLS - 1;
	decayed_counts_add(&shape->counts, shape->cells, cell, events);
}

/*
 * The curve of arrivals learnt so far, or the uniform one if that is from too
 * few events.  Returns whether it was enough.  shares is room for
 * ARRIVAL_SHAPE_CELLS + 1 values, and has to live as long as the curve.
 */
bool
arrival_shape_curve(const ArrivalShape *shape, ArrivalCurve *curve,
					double *shares)
{
	bool		enough = decayed_counts_events(&shape->counts) >=
		ARRIVAL_SHAPE_ENOUGH;

	arrival_curve_init(curve, enough ? shape->cells : NULL,
					   ARRIVAL_SHAPE_CELLS, false, shares);
	return enough;
}

/*
 * When a window is to be executed next that was executed at last, and has been
 * without a new event since, up to now: the first execution of a plan for the
 * bound that comes after now.  1 if none does before the end, or nothing is to
 * be planned, or it would be too long a plan.
 */
double
arrival_shape_next(const ArrivalShape *shape, double bound, double last,
				   double now)
{
	double		shares[ARRIVAL_SHAPE_CELLS + 1];
	double		times[PLAN_PART];
	ArrivalCurve curve;

	arrival_shape_curve(shape, &curve, shares);
	for (int part = 0; part < PLAN_PARTS && last < 1; part++)
	{
		int			n = staleness_plan(&curve, last, bound, times, PLAN_PART);

		for (int i = 0; i < n; i++)
			if (times[i] > now)
				return times[i];
		if (n == 0 || times[n - 1] <= last)
			break;
		last = times[n - 1];
	}
	return 1;
}

/*
 * Put a shape into bytes, room for ARRIVAL_SHAPE_BYTES; returns their number.
 */
size_t
arrival_shape_encode(const ArrivalShape *shape, uint8_t *bytes)
{
	return decayed_counts_encode(&shape->counts, shape->cells, bytes);
}

/*
 * Replace a shape, which has been initialised, by an encoded one.  Returns
 * false, and changes nothing, if the bytes aren't one.
 */
bool
arrival_shape_decode(ArrivalShape *shape, const uint8_t *bytes, size_t nbytes)
{
	return decayed_counts_decode(&shape->counts, shape->cells, bytes, nbytes);
}
