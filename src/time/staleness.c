/*
 * staleness.c
 *	  Schedules of executions that keep staleness within a bound, and the rule
 *	  that keeps it without a schedule.
 *
 * With F the curve of arrivals, a pair of executions a < b has the staleness
 * (b - a) * (F(b) - F(a)).
 *
 * The least number of executions for a bound comes from delaying each as long
 * as the bound allows ("greedy", ours): staleness grows with the interval, so
 * the i-th of them is no earlier than the i-th of any schedule that keeps the
 * bound.  Since the square roots of the pairs' staleness add up to at most the
 * square root of (1 - a) * (1 - F(a)), a being where the schedule begins, it
 * never needs more than 1 / sqrt(bound) of them, rounded up, whatever F is.
 *
 * Of all schedules with k executions, the greedy one for the smallest bound
 * that k can keep has the least maximum; its pairs are alike.  The paper finds
 * it by gradient descent; here the bound is bisected (ours), with the same
 * result.
 *
 * A plan keeps its maximum only as far as events come as forecast.  So the
 * caller also asks staleness_due, whatever the plan says, executes when that
 * comes first, and plans the rest of the window anew from there.  Without an
 * event since the last execution there is nothing to execute, but at the end.
 */
#include "time/staleness.h"

#include <math.h>
#include <stddef.h>

#include "time/eventtime.h"

/*
 * How much more than the bound counts as the bound.  Without it rounding would
 * make an eleventh execution of ten that just fit.
 */
#define BOUND_SLACK		1e-9

/* So many times the bound is halved; a double has no more to give. */
#define BISECTIONS		50

/* Edges of cells that differ by less are the same. */
#define EDGE_SLACK		1e-9

/* The first double that an int64 can't hold. */
#define INT64_LIMIT		9223372036854775808.0

/* A place on the curve. */
typedef struct Position
{
	double		x;
	double		share;			/* of the events, arrived by then */
	int			cell;			/* that begins or holds x */
} Position;

/*
 * Set up a curve from how much arrives in each cell, in any unit; uniform if
 * that is nothing, or NULL.  shares is room for cells + 1 values, and has to
 * live as long as the curve.
 */
void
arrival_curve_init(ArrivalCurve *curve, const double *masses, int cells,
				   bool stepwise, double *shares)
{
	double		total = 0;

	for (int i = 0; i < cells; i++)
	{
		shares[i] = total;
		total += masses != NULL ? masses[i] : 1;
	}
	for (int i = 0; i < cells; i++)
		shares[i] = total > 0 ? shares[i] / total : (double) i / cells;
	shares[cells] = 1;
	curve->cells = cells;
	curve->stepwise = stepwise;
	curve->shares = shares;
}

/* The place at x, in [0, 1]. */
static Position
position_at(const ArrivalCurve *curve, double x)
{
	Position	at;
	double		scaled = x * curve->cells;

	at.x = x;
	at.cell = (int) (scaled + EDGE_SLACK);
	if (at.cell >= curve->cells)
	{
		at.x = 1;
		at.cell = curve->cells;
		at.share = 1;
		return at;
	}
	at.share = curve->shares[at.cell];
	if (!curve->stepwise && scaled > at.cell)
		at.share += (scaled - at.cell) *
			(curve->shares[at.cell + 1] - at.share);
	return at;
}

/* The share of events that has arrived by x, in [0, 1]. */
double
arrival_curve_share(const ArrivalCurve *curve, double x)
{
	return position_at(curve, x).share;
}

/* Where cell ends. */
static Position
cell_end(const ArrivalCurve *curve, int cell)
{
	Position	end;

	end.cell = cell + 1;
	end.x = (double) end.cell / curve->cells;
	end.share = curve->shares[end.cell];
	return end;
}

static double
pair_staleness(const Position *a, const Position *b)
{
	return (b->x - a->x) * (b->share - a->share);
}

/*
 * Where the staleness since a reaches the bound in the cell that ends at end,
 * knowing that it does so between begin and there.
 */
static Position
crossing(const ArrivalCurve *curve, const Position *a, const Position *begin,
		 const Position *end, double bound)
{
	Position	at;
	double		density = curve->cells *
		(end->share - curve->shares[begin->cell]);
	double		elapsed = begin->x - a->x;
	double		arrived = begin->share - a->share;
	double		linear = arrived + density * elapsed;
	double		rest = bound - elapsed * arrived;
	double		step = 0;

	/* (elapsed + step) * (arrived + density * step) = bound, no digits lost */
	if (rest > 0)
		step = 2 * rest /
			(linear + sqrt(linear * linear + 4 * density * rest));
	at.x = fmin(begin->x + step, end->x);
	at.share = fmin(begin->share + density * step, end->share);
	at.cell = begin->cell;
	return at;
}

/*
 * The latest place for the execution that follows one at a.  If even the next
 * moment is more than the bound allows, then that moment: a step of the curve.
 */
static Position
latest_execution(const ArrivalCurve *curve, const Position *a, double bound)
{
	Position	begin = *a;

	while (begin.cell < curve->cells)
	{
		Position	end = cell_end(curve, begin.cell);

		if (pair_staleness(a, &end) > bound)
		{
			Position	at = begin;

			if (!curve->stepwise)
				at = crossing(curve, a, &begin, &end, bound);
			return at.x > a->x ? at : end;
		}
		begin = end;
	}
	return begin;
}

/*
 * The latest executions that keep the bound, after one at from.  Their times
 * go to times, the last one is 1.  Returns how many there are, or max_times +
 * 1 if more than that; then times holds the first of them.
 */
int
staleness_greedy(const ArrivalCurve *curve, double from, double bound,
				 double *times, int max_times)
{
	Position	at = position_at(curve, from);
	int			n = 0;

	bound *= 1 + BOUND_SLACK;
	do
	{
		if (n == max_times)
			return max_times + 1;
		at = latest_execution(curve, &at, bound);
		times[n++] = at.x;
	} while (at.x < 1);
	return n;
}

/*
 * The ntimes executions, after one at from, whose greatest staleness is least.
 * Returns how many they are: less than ntimes if more don't help.
 */
int
staleness_balance(const ArrivalCurve *curve, double from, double *times,
				  int ntimes)
{
	Position	begin = position_at(curve, from);
	double		rest = (1 - begin.x) * (1 - begin.share);
	double		low = 0;
	double		high = rest / ((double) ntimes * ntimes);

	/* steps may make that too little */
	if (staleness_greedy(curve, from, high, times, ntimes) > ntimes)
		high = rest;
	for (int i = 0; i < BISECTIONS; i++)
	{
		double		middle = low + (high - low) / 2;

		if (staleness_greedy(curve, from, middle, times, ntimes) <= ntimes)
			high = middle;
		else
			low = middle;
	}
	return staleness_greedy(curve, from, high, times, ntimes);
}

/*
 * Plan the executions of a window, or what is left of it after one at from: as
 * few as keep the bound, as fresh as so many can.  Returns their number.
 *
 * If more are needed than fit, times holds the first of them, not balanced;
 * the last is before 1, and from there is to be planned again.  A bound of
 * nothing needs no plan, but an execution for every event: returns 0.
 */
int
staleness_plan(const ArrivalCurve *curve, double from, double bound,
			   double *times, int max_times)
{
	int			n;

	if (!(bound > 0))
		return 0;
	n = staleness_greedy(curve, from, bound, times, max_times);
	if (n > max_times)
		return max_times;
	return staleness_balance(curve, from, times, n);
}

/* The greatest staleness of executions at these times, after one at from. */
double
staleness_max(const ArrivalCurve *curve, double from, const double *times,
			  int ntimes)
{
	Position	a = position_at(curve, from);
	double		worst = 0;

	for (int i = 0; i < ntimes; i++)
	{
		Position	b = position_at(curve, times[i]);

		worst = fmax(worst, pair_staleness(&a, &b));
		a = b;
	}
	return worst;
}

/* A duration in whole microseconds, at most INT64_MAX. */
static int64_t
microseconds(double duration)
{
	return duration < INT64_LIMIT ? (int64_t) duration : INT64_MAX;
}

/*
 * The time that t goes by where a watermark stood still for so long that it did
 * not make up for: a finite timestamp, or EVENT_TIME_NEVER without a watermark.
 */
int64_t
staleness_clock(int64_t watermark, int64_t stood_still)
{
	EventTime	clock = event_time_plus(watermark, stood_still);

	return clock > EVENT_TIME_MAX ? EVENT_TIME_MAX : clock;
}

/*
 * The instant at x of a window that was executed on time at on_time, and has
 * this allowed lateness.
 */
int64_t
staleness_instant(int64_t on_time, int64_t lateness, double x)
{
	if (x >= 1)
		return int64_add_saturating(on_time, lateness);
	return int64_add_saturating(on_time, microseconds((double) lateness * x));
}

/* The reverse: x after so long; 0 before the on-time execution, 1 from the end of the lateness on. */
double
staleness_position(int64_t elapsed, int64_t lateness)
{
	if (elapsed <= 0)
		return 0;
	if (elapsed >= lateness)
		return 1;
	return (double) elapsed / (double) lateness;
}

/*
 * The staleness of a result after so long and so many events.  Without an
 * event it is 0; with some, where none were expected, or no lateness is
 * allowed, HUGE_VAL.
 */
double
staleness_now(int64_t elapsed, int64_t events, int64_t lateness,
			  double expected)
{
	double		whole = (double) lateness * expected;

	if (events <= 0 || elapsed <= 0)
		return 0;
	return whole > 0 ? (double) elapsed * (double) events / whole : HUGE_VAL;
}

/*
 * When the staleness of a result that was made at last reaches the bound if no
 * more events come: execute then, or at once if that has passed.  With the
 * number of events changes the answer.  INT64_MAX if there is no event; never
 * mind the final execution, which comes whatever is said here.
 *
 * expected is N, as far as it is known.  If it is f times too large, so is the
 * staleness that is kept.  Just before each event the staleness is within the
 * bound, and that event adds at most 1 / N.
 */
int64_t
staleness_due(int64_t last, int64_t events, double bound, int64_t lateness,
			  double expected)
{
	double		whole = (double) lateness * expected;

	if (events <= 0)
		return INT64_MAX;
	if (!(bound > 0 && whole > 0))
		return last;
	return int64_add_saturating(last,
								microseconds(bound * whole / (double) events));
}
