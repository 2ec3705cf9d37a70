/*
 * prestage.h
 *	  When to begin bringing past events into memory, so that they are there
 *	  when a window is executed again.
 *
 * Pure arithmetic on one clock, whichever it is: instants and durations are
 * microseconds.  What is staged, by whom, and what happens if it comes too
 * late is not decided here.
 */
#ifndef AION_PRESTAGE_H
#define AION_PRESTAGE_H

#include <stdbool.h>
#include <stdint.h>

/* The cost per event before anything has been measured. */
#define PRESTAGE_COST_UNKNOWN	(-1.0)

/* The staging for one execution. */
typedef struct PrestageJob
{
	int			id;				/* the caller's name for it */
	int64_t		deadline;		/* when it has to be done: the execution */
	int64_t		duration;
	int64_t		start;			/* set by prestage_plan */
} PrestageJob;

extern double prestage_cost_update(double cost, int64_t duration,
								   int64_t events);
extern int64_t prestage_duration(double cost, int64_t events);
extern int64_t prestage_start(int64_t deadline, double cost, int64_t events);
extern bool prestage_plan(PrestageJob *jobs, int njobs, int64_t now);
extern bool prestage_is_sustainable(int64_t staging, int64_t other,
									int64_t period);
extern int64_t prestage_ahead(int64_t total, double cost,
							  double function_cost);

#endif							/* AION_PRESTAGE_H */
