/*
 * late_histogram.c
 *	  A histogram of lateness with logarithmic cells, and an upper confidence
 *	  bound for a quantile of it.
 *
 * Of n observations in order, the r-th is at least the quantile for coverage p
 * with the wanted confidence if r = n * p + z * sqrt(n * p * (1 - p)), rounded
 * up, z being the confidence's quantile of the normal distribution (Wilson,
 * "Probable inference, the law of succession, and statistical inference",
 * 1927).  The plain percentile, n * p, is too small more often than not.  With
 * fewer than log(1 - confidence) / log(p) observations no order statistic is
 * large enough (ours: this minimum with Wilson's rank, which then differs from
 * the exact one by at most 1).
 *
 * The bound is the upper edge of the cell that has the r-th, so it is at most
 * one cell too large.  With weights, n is what they are worth, rounded down,
 * and the r-th is where the share r / n of the weight is reached.
 *
 * A stream observed for a time t can't have shown any lateness above t, and
 * has shown a lateness l in but 1 - l / t of its windows, so young estimates
 * are too small: one counts when it is at most a tenth of the time (ours).
 */
#include "time/late_histogram.h"

#include <math.h>

/* The upper edge of cell 0. */
#define FIRST_EDGE		1000.0

/* Each edge is at so much the one before: what is inside is known to 1 %. */
#define EDGE_RATIO		(1.01 / 0.99)

#define OVERFLOW_CELL	(LATE_HISTOGRAM_CELLS - 1)

/* An estimate must have been observed for so many times itself. */
#define TIMES_OBSERVED	10

/* More events than that make no difference to a rank's share. */
#define EVENTS_MAX		1e15

/* What rounding may add to a whole number. */
#define ROUNDING		1e-9

/* The greatest lateness that belongs to a cell. */
static int64_t
upper_edge(int cell)
{
	if (cell >= OVERFLOW_CELL)
		return LATENESS_BEYOND;
	return (int64_t) ceil(FIRST_EDGE * exp(cell * log(EDGE_RATIO)));
}

/* The cell that a lateness belongs to. */
static int
cell_of(int64_t lateness)
{
	int			cell;

	if (lateness <= (int64_t) FIRST_EDGE)
		return 0;
	if (lateness > upper_edge(OVERFLOW_CELL - 1))
		return OVERFLOW_CELL;

	/* an edge may come out on either side */
	cell = (int) ceil(log((double) lateness / FIRST_EDGE) / log(EDGE_RATIO));
	while (lateness > upper_edge(cell))
		cell++;
	while (lateness <= upper_edge(cell - 1))
		cell--;
	return cell;
}

/*
 * Start with nothing observed.  memory is how many of the last events count,
 * see decayed_counts_init.  It must be more than late_bound_events_needed, or
 * there will never be an estimate.
 */
void
late_histogram_init(LateHistogram *histogram, double memory)
{
	decayed_counts_init(&histogram->counts, histogram->cells,
						LATE_HISTOGRAM_CELLS, memory);
}

/* Remember more or fewer events from now on. */
void
late_histogram_set_memory(LateHistogram *histogram, double memory)
{
	histogram->counts.memory = memory;
}

/* Observe so many events of this lateness, in microseconds. */
void
late_histogram_add(LateHistogram *histogram, int64_t lateness, int64_t events)
{
	decayed_counts_add(&histogram->counts, histogram->cells, cell_of(lateness),
					   events);
}

/* How many events of the same weight the histogram is worth. */
double
late_histogram_events(const LateHistogram *histogram)
{
	return decayed_counts_events(&histogram->counts);
}

/*
 * A lateness that this share of the events, in (0, 1], does not exceed: the
 * upper edge of a cell.  LATENESS_BEYOND if the histogram doesn't reach so
 * far, 0 if it is empty.
 */
int64_t
late_histogram_quantile(const LateHistogram *histogram, double share)
{
	int			cell = decayed_counts_cell_at(&histogram->counts,
											  histogram->cells, share);

	return cell < 0 ? 0 : upper_edge(cell);
}

/*
 * The share of events that are later than that, those in its own cell not
 * counted; the histogram doesn't tell apart what is beyond it, of which all
 * are.  0 if it is empty.
 */
double
late_histogram_beyond(const LateHistogram *histogram, int64_t lateness)
{
	int			cell = cell_of(lateness);
	double		sum = 0;

	if (!(histogram->counts.total > 0))
		return 0;
	if (cell == OVERFLOW_CELL)
		cell--;
	for (int i = OVERFLOW_CELL; i > cell; i--)
		sum += histogram->cells[i];
	return fmin(sum / histogram->counts.total, 1);
}

/*
 * Put the histogram into bytes, room for LATE_HISTOGRAM_BYTES; returns their
 * number.  The form, a portable one, is in decayed_counts.c.
 */
size_t
late_histogram_encode(const LateHistogram *histogram, uint8_t *bytes)
{
	return decayed_counts_encode(&histogram->counts, histogram->cells, bytes);
}

/*
 * Replace the content of a histogram, which has been initialised, by an
 * encoded one.  Returns false, and changes nothing, if the bytes aren't one.
 */
bool
late_histogram_decode(LateHistogram *histogram, const uint8_t *bytes,
					  size_t nbytes)
{
	return decayed_counts_decode(&histogram->counts, histogram->cells, bytes,
								 nbytes);
}

/*
 * The quantile of the standard normal distribution for p in (0, 1): a rational
 * approximation (Abramowitz and Stegun, 26.2.23, good to 0.00045), made exact
 * by Newton's method on erfc.
 */
static double
normal_quantile(double p)
{
	double		tail = fmin(p, 1 - p);
	double		t = sqrt(-2 * log(tail));
	double		z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
		(1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

	for (int i = 0; i < 3; i++)
	{
		double		density = exp(-z * z / 2) / sqrt(2 * acos(-1));

		z += (erfc(z / sqrt(2)) / 2 - tail) / density;
	}
	return p < 0.5 ? -z : z;
}

/*
 * How many events it takes to have an upper bound for the share of coverage
 * with this confidence; both are in (0, 1).
 */
int64_t
late_bound_events_needed(double coverage, double confidence)
{
	return (int64_t) ceil(log1p(-confidence) / log(coverage) - ROUNDING);
}

/* Which of so many events, the last being the latest, is that bound. */
int64_t
late_bound_rank(int64_t events, double coverage, double confidence)
{
	double		n = (double) events;
	double		margin = normal_quantile(confidence) *
		sqrt(n * coverage * (1 - coverage));
	double		rank = ceil(n * coverage + margin - ROUNDING);

	if (rank >= n)
		return events;
	return rank > 1 ? (int64_t) rank : 1;
}

/*
 * The allowed lateness of a window created now, and why.  observed is for how
 * long the stream has been, in microseconds.
 */
LateBound
late_histogram_bound(const LateHistogram *histogram,
					 const LateBoundConfig *config, int64_t observed)
{
	LateBound	result;
	int64_t		n;
	int64_t		rank;

	result.state = LATE_BOUND_INITIAL;
	result.reason = LATE_BOUND_NO_EVENTS;
	result.bound = config->initial;
	result.candidate = 0;
	result.events = late_histogram_events(histogram);
	result.events_needed = late_bound_events_needed(config->coverage,
													config->confidence);
	n = (int64_t) fmin(result.events * (1 + ROUNDING), EVENTS_MAX);
	if (n == 0)
		return result;

	rank = late_bound_rank(n, config->coverage, config->confidence);
	result.candidate = late_histogram_quantile(histogram,
											   (double) rank / (double) n);
	if (n < result.events_needed)
	{
		result.state = LATE_BOUND_LEARNING;
		result.reason = LATE_BOUND_FEW_EVENTS;
	}
	else if (result.candidate == LATENESS_BEYOND)
		result.reason = LATE_BOUND_TOO_LATE;
	else if (observed / TIMES_OBSERVED < result.candidate)
	{
		result.state = LATE_BOUND_LEARNING;
		result.reason = LATE_BOUND_SHORT_TIME;
	}
	else
	{
		result.state = LATE_BOUND_ESTIMATED;
		if (result.candidate >= config->initial)
			result.reason = LATE_BOUND_AT_INITIAL;
		else if (result.candidate <= config->minimum)
		{
			result.reason = LATE_BOUND_AT_MINIMUM;
			if (config->minimum < config->initial)
				result.bound = config->minimum;
		}
		else
		{
			result.reason = LATE_BOUND_AS_ESTIMATED;
			result.bound = result.candidate;
		}
	}
	return result;
}

/* The reason in words. */
const char *
late_bound_reason(LateBoundReason reason)
{
	switch (reason)
	{
		case LATE_BOUND_NO_EVENTS:
			return "no late events";
		case LATE_BOUND_TOO_LATE:
			return "estimate beyond what is told apart";
		case LATE_BOUND_FEW_EVENTS:
			return "too few late events";
		case LATE_BOUND_SHORT_TIME:
			return "not observed for long enough";
		case LATE_BOUND_AS_ESTIMATED:
			return "as estimated";
		case LATE_BOUND_AT_INITIAL:
			return "estimate not below the initial lateness";
		case LATE_BOUND_AT_MINIMUM:
			return "estimate not above the least lateness";
	}
	return "unknown";
}
