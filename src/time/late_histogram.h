/*
 * late_histogram.h
 *	  How late the late events of a stream are, and the allowed lateness that
 *	  follows from it for new windows (Aion paper, section 3).
 *
 * One observation is one late event of one window: watermark at its arrival
 * minus end of the window, in microseconds.  Those beyond the allowed lateness
 * must be observed, too, or the bound feeds on itself and shrinks: what was
 * refused would never be seen to come.
 *
 * Only a window that is created takes the bound, and keeps it.  Whose windows
 * these are, and since when the stream is observed, is the caller's matter.
 */
#ifndef AION_LATE_HISTOGRAM_H
#define AION_LATE_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "time/decayed_counts.h"

/*
 * Cell 0 is up to a millisecond, each further one is about 2 % wide, the last
 * has what is later than LATE_HISTOGRAM_LAST_EDGE says, some 4 years.
 */
#define LATE_HISTOGRAM_CELLS	1282
#define LATE_HISTOGRAM_BYTES	DECAYED_COUNTS_BYTES(LATE_HISTOGRAM_CELLS)

/* A lateness that is more than the histogram can tell. */
#define LATENESS_BEYOND		INT64_MAX

typedef struct LateHistogram
{
	DecayedCounts counts;
	double		cells[LATE_HISTOGRAM_CELLS];
} LateHistogram;

/* What is asked of a bound. */
typedef struct LateBoundConfig
{
	double		coverage;		/* this share of late events, in (0, 1), */
	double		confidence;		/* is within the bound with this probability */
	int64_t		initial;		/* until there is an estimate; the largest */
	int64_t		minimum;		/* the least */
} LateBoundConfig;

typedef enum LateBoundState
{
	LATE_BOUND_INITIAL,			/* there is nothing to go by */
	LATE_BOUND_LEARNING,		/* there is not enough yet */
	LATE_BOUND_ESTIMATED
} LateBoundState;

typedef enum LateBoundReason
{
	LATE_BOUND_NO_EVENTS,		/* initial: nothing was late */
	LATE_BOUND_TOO_LATE,		/* initial: estimate beyond the histogram */
	LATE_BOUND_FEW_EVENTS,		/* learning: fewer than needed */
	LATE_BOUND_SHORT_TIME,		/* learning: not observed for long enough */
	LATE_BOUND_AS_ESTIMATED,	/* estimated, and within the limits */
	LATE_BOUND_AT_INITIAL,		/* estimated to be more than the initial one */
	LATE_BOUND_AT_MINIMUM		/* estimated to be less than the minimum */
} LateBoundReason;

typedef struct LateBound
{
	LateBoundState state;
	LateBoundReason reason;
	int64_t		bound;			/* for new windows */
	int64_t		candidate;		/* so far; LATENESS_BEYOND, or 0: none */
	double		events;			/* that the estimate is worth, */
	int64_t		events_needed;	/* and must be, to be used */
} LateBound;

extern void late_histogram_init(LateHistogram *histogram, double memory);
extern void late_histogram_set_memory(LateHistogram *histogram,
									  double memory);
extern void late_histogram_add(LateHistogram *histogram, int64_t lateness,
							   int64_t events);
extern double late_histogram_events(const LateHistogram *histogram);
extern int64_t late_histogram_quantile(const LateHistogram *histogram,
									   double share);
extern double late_histogram_beyond(const LateHistogram *histogram,
									int64_t lateness);
extern size_t late_histogram_encode(const LateHistogram *histogram,
									uint8_t *bytes);
extern bool late_histogram_decode(LateHistogram *histogram,
								  const uint8_t *bytes, size_t nbytes);

extern int64_t late_bound_events_needed(double coverage, double confidence);
extern int64_t late_bound_rank(int64_t events, double coverage,
							   double confidence);
extern LateBound late_histogram_bound(const LateHistogram *histogram,
									  const LateBoundConfig *config,
									  int64_t observed);
extern const char *late_bound_reason(LateBoundReason reason);

#endif							/* AION_LATE_HISTOGRAM_H */
