/*
 * prestage.c
 *	  The cost of staging, learnt from what was measured, and the latest
 *	  moments to begin that it leads to.
 *
 * A cost is microseconds per event, or PRESTAGE_COST_UNKNOWN; the functions
 * that take one for granted must not be given that.  Before there is a cost
 * the caller begins as early as it can.  Whoever begins too early only holds
 * memory for longer; too late, and the execution waits for the rest.
 */
#include "time/prestage.h"

#include <stdlib.h>

#include "time/eventtime.h"

/* How much of the cost so far a new measurement leaves. */
#define COST_KEPT		0.7

/* The first double that an int64 can't hold. */
#define INT64_LIMIT		9223372036854775808.0

/*
 * The cost after a staging of some events has taken this long.  What was
 * measured on no events, or on a clock that went back, tells nothing.
 */
double
prestage_cost_update(double cost, int64_t duration, int64_t events)
{
	double		measured;

	if (events <= 0 || duration < 0)
		return cost;
	measured = (double) duration / (double) events;
	if (cost < 0)
		return measured;
	return COST_KEPT * cost + (1 - COST_KEPT) * measured;
}

/* How long the staging of some events takes, to the nearest microsecond. */
int64_t
prestage_duration(double cost, int64_t events)
{
	double		duration = cost * (double) events + 0.5;

	return duration < INT64_LIMIT ? (int64_t) duration : INT64_MAX;
}

/* When to begin if nothing else is to be staged. */
int64_t
prestage_start(int64_t deadline, double cost, int64_t events)
{
	return int64_sub_saturating(deadline, prestage_duration(cost, events));
}

/* Jobs by deadline; of equal ones the shorter first, of alike ones by id. */
static int
compare_jobs(const void *a, const void *b)
{
	const PrestageJob *x = a;
	const PrestageJob *y = b;

	if (x->deadline != y->deadline)
		return x->deadline < y->deadline ? -1 : 1;
	if (x->duration != y->duration)
		return x->duration < y->duration ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/*
 * Plan the jobs for one worker, which does them one after the other: put them
 * in the order in which to do them, and set the latest start of each that
 * keeps all deadlines.  Returns whether they can be kept, that is, whether no
 * start is before now.
 */
bool
prestage_plan(PrestageJob *jobs, int njobs, int64_t now)
{
	int64_t		next_start = INT64_MAX;

	if (njobs == 0)
		return true;
	qsort(jobs, (size_t) njobs, sizeof(PrestageJob), compare_jobs);
	for (int i = njobs - 1; i >= 0; i--)
	{
		int64_t		end = jobs[i].deadline < next_start ? jobs[i].deadline
			: next_start;

		jobs[i].start = int64_sub_saturating(end, jobs[i].duration);
		next_start = jobs[i].start;
	}
	return next_start >= now;
}

/*
 * Can one worker keep up that in each period spends so long on staging, and on
 * other things (late events, destaging)?  Not if that leaves no time at all.
 */
bool
prestage_is_sustainable(int64_t staging, int64_t other, int64_t period)
{
	return int64_add_saturating(staging, other) < period;
}

/*
 * How many of the events of a window must be in memory when it is executed by
 * a function that takes them as they come, so that it never waits for those
 * that are staged meanwhile.  function_cost is what the function itself takes
 * for an event.  The same holds for bytes, if events are of one size.
 */
int64_t
prestage_ahead(int64_t total, double cost, double function_cost)
{
	if (cost <= function_cost)
		return 0;
	/* while the function takes all of them, so many can be staged */
	return total - (int64_t) ((double) total * function_cost / cost);
}
