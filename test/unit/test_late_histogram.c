/*
 * test_late_histogram.c
 *	  The allowed lateness estimated from late events: the figures that it was
 *	  designed with, what it covers on random lateness, and its encoded form.
 *
 * Random lateness has a log-normal law; its median is a second, or what is
 * said.  "True" coverage of a bound is that law's share below it.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "late_laws.h"
#include "time/late_histogram.h"
#include "tap.h"

#define SEC			INT64_C(1000000)
#define DAY			(86400 * SEC)

/* How much wider than the one before a cell's upper edge can be. */
#define RATIO		(1.01 / 0.99)

static uint64_t seed = 20000103;
static LateHistogram histogram;

static bool
near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance;
}

static int64_t
random_lateness(int64_t median)
{
	return (int64_t) ceil((double) median * random_lognormal(&seed));
}

/* The share of random lateness that is within a bound. */
static double
coverage(int64_t bound, int64_t median)
{
	return normal_share(log((double) bound / (double) median));
}

/* P(r or more of n), each with probability p, for r not below the mean. */
static double
binomial_tail(int n, double p, int r)
{
	double		term = exp(lgamma(n + 1.0) - lgamma(r + 1.0) - lgamma(n - r + 1.0) +
						   r * log(p) + (n - r) * log1p(-p));
	double		sum = 0;

	for (int i = r; i <= n; i++)
	{
		sum += term;
		term *= (double) (n - i) / (i + 1) * p / (1 - p);
	}
	return sum;
}

/* The exact rank; 0 if none of n will do. */
static int
exact_rank(int n, double p, double confidence)
{
	int			r = (int) ceil(n * p);

	while (r <= n && binomial_tail(n, p, r) > 1 - confidence)
		r++;
	return r <= n ? r : 0;
}

static void
test_ranks(void)
{
	static const struct
	{
		int64_t		n;
		int64_t		rank99;
		int64_t		rank95;
	}			cases[] = {
		{300, 300, 292},
		{500, 499, 484},
		{1000, 996, 962},
		{5000, 4962, 4776},
		{10000, 9917, 9536},	/* the exact one is 9537 */
		{100000, 99052, 95114},
		{1000000, 990164, 950359},
	};
	static const double shares[] = {0.90, 0.95, 0.99};
	bool		fine = true;
	int			far = 0;

	ok(late_bound_events_needed(0.90, 0.95) == 29 &&
	   late_bound_events_needed(0.95, 0.95) == 59 &&
	   late_bound_events_needed(0.99, 0.90) == 230 &&
	   late_bound_events_needed(0.99, 0.95) == 299 &&
	   late_bound_events_needed(0.99, 0.99) == 459 &&
	   late_bound_events_needed(0.999, 0.95) == 2995 &&
	   late_bound_events_needed(0.5, 0.5) == 1 &&
	   late_bound_events_needed(0.9, 0.19) == 2, "events needed");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fine &= late_bound_rank(cases[i].n, 0.99, 0.95) == cases[i].rank99 &&
			late_bound_rank(cases[i].n, 0.95, 0.95) == cases[i].rank95;
	ok(fine, "ranks of the upper bound");
	for (int i = 0; i < 3; i++)
	{
		int			needed = (int) late_bound_events_needed(shares[i], 0.95);

		far += exact_rank(needed, shares[i], 0.95) != needed ||
			exact_rank(needed - 1, shares[i], 0.95) != 0;
		for (int n = 300; n < 12000; n += 137)
			far += llabs(late_bound_rank(n, shares[i], 0.95) -
						 exact_rank(n, shares[i], 0.95)) > 1;
	}
	ok(far == 0, "they are next to the exact ones, or those");
	ok(late_bound_rank(459, 0.99, 0.99) == 459 &&
	   late_bound_rank(536, 0.99, 0.99) == 536 &&
	   late_bound_rank(1, 0.99, 0.95) == 1 &&
	   late_bound_rank(1, 0.5, 0.001) == 1 &&
	   late_bound_rank(100, 0.5, 0.5) == 50 &&
	   late_bound_rank(10000, 0.5, 0.841344746068543) == 5050 &&
	   late_bound_rank(10000, 0.5, 1 - 0.841344746068543) == 4950,
	   "and stay within what there is");
}

static void
test_monotony(void)
{
	static const double levels[] = {0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999};
	int			bad = 0;

	for (int64_t n = 1; n < 5000; n++)
		for (int i = 0; i < 7; i++)
		{
			int64_t		rank = late_bound_rank(n, levels[i], 0.95);

			bad += late_bound_rank(n + 1, levels[i], 0.95) < rank;
			/* the share is less with each doubling */
			bad += late_bound_rank(2 * n, levels[i], 0.95) > 2 * rank;
			bad += i > 0 && rank < late_bound_rank(n, levels[i - 1], 0.95);
			bad += i > 0 && late_bound_rank(n, 0.9, levels[i]) <
				late_bound_rank(n, 0.9, levels[i - 1]);
		}
	for (int i = 1; i < 7; i++)
	{
		bad += late_bound_events_needed(levels[i], 0.95) <
			late_bound_events_needed(levels[i - 1], 0.95);
		bad += late_bound_events_needed(0.9, levels[i]) <
			late_bound_events_needed(0.9, levels[i - 1]);
	}
	ok(bad == 0, "ranks grow with events, coverage and confidence");

	bad = 0;
	for (int i = 0; i < 50; i++)
	{
		int64_t		last = INT64_MAX;

		for (int times = 1; times <= 64; times *= 2)
		{
			uint64_t	from = seed;
			LateBoundConfig config = {0.95, 0.95, 1000 * DAY, 0};
			int64_t		bound;

			late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
			for (int j = 0; j < 100; j++)
				late_histogram_add(&histogram, random_lateness(SEC), times);
			if (times < 64)
				seed = from;
			bound = late_histogram_bound(&histogram, &config, INT64_MAX).bound;
			bad += bound > last;
			last = bound;
			config.coverage = 0.97;
			bad += late_histogram_bound(&histogram, &config, INT64_MAX).bound < bound;
			config.coverage = 0.95;
			config.confidence = 0.99;
			bad += late_histogram_bound(&histogram, &config, INT64_MAX).bound < bound;
		}
	}
	ok(bad == 0, "more of the same brings the bound down, higher demands up");
}

/* Every lateness has a cell not much wider than itself, or the last one. */
static void
test_cells(void)
{
	int			bad = 0;
	int64_t		last = 0;

	for (int i = 0; i < 20000; i++)
	{
		int64_t		lateness = (int64_t) exp(36.7 * random_unit(&seed));
		int64_t		edge;

		late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
		late_histogram_add(&histogram, lateness, 1);
		edge = late_histogram_quantile(&histogram, 1);
		bad += edge < lateness;
		if (lateness > 1000)
			bad += (double) edge > (double) lateness * RATIO + 1 &&
				lateness < 1460 * DAY;
		else
			bad += edge != 1000;
		if (edge == LATENESS_BEYOND)
			continue;

		/* edges belong to the cell below */
		late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
		late_histogram_add(&histogram, edge, 1);
		bad += late_histogram_quantile(&histogram, 1) != edge;
		bad += late_histogram_beyond(&histogram, edge) != 0;
		late_histogram_add(&histogram, edge + 1, 1);
		bad += late_histogram_quantile(&histogram, 1) <= edge;
		bad += late_histogram_quantile(&histogram, 0.5) != edge;
		bad += late_histogram_beyond(&histogram, edge) != 0.5;
	}
	ok(bad == 0, "cells are of 2 %");

	late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
	for (int64_t edge = 0;;)
	{
		late_histogram_add(&histogram, edge + 1, 1);
		last = edge;
		edge = late_histogram_quantile(&histogram, 1);
		if (edge == LATENESS_BEYOND)
			break;
	}
	ok(late_histogram_events(&histogram) == LATE_HISTOGRAM_CELLS &&
	   last > 1460 * DAY, "there are so many, to 4 years");
	ok(late_histogram_beyond(&histogram, last) == 1.0 / LATE_HISTOGRAM_CELLS &&
	   late_histogram_beyond(&histogram, INT64_MAX) == 1.0 / LATE_HISTOGRAM_CELLS &&
	   late_histogram_beyond(&histogram, 1000) == 1 - 1.0 / LATE_HISTOGRAM_CELLS &&
	   late_histogram_beyond(&histogram, 0) ==
	   late_histogram_beyond(&histogram, 1000), "shares beyond a lateness");

	late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
	ok(late_histogram_quantile(&histogram, 0.5) == 0 &&
	   late_histogram_beyond(&histogram, 0) == 0 &&
	   late_histogram_events(&histogram) == 0, "nothing in an empty one");
	late_histogram_add(&histogram, SEC, 0);
	late_histogram_add(&histogram, SEC, -1);
	ok(late_histogram_events(&histogram) == 0, "no events change nothing");
	late_histogram_add(&histogram, -5, 3);
	late_histogram_add(&histogram, INT64_MIN, 4);
	ok(late_histogram_events(&histogram) == 7 &&
	   late_histogram_quantile(&histogram, 1) == 1000, "what isn't late is little");
}

static bool
decides(int64_t observed, const LateBoundConfig *config, LateBoundState state,
		LateBoundReason reason, int64_t bound)
{
	LateBound	result = late_histogram_bound(&histogram, config, observed);

	return result.state == state && result.reason == reason &&
		result.bound == bound;
}

static void
test_decisions(void)
{
	LateBoundConfig config = {0.99, 0.95, 30 * DAY, SEC / 2};
	int64_t		edge;

	late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
	ok(decides(INT64_MAX, &config, LATE_BOUND_INITIAL, LATE_BOUND_NO_EVENTS,
			   30 * DAY), "initial without events");
	late_histogram_add(&histogram, SEC, 298);
	edge = late_histogram_quantile(&histogram, 1);
	ok(decides(INT64_MAX, &config, LATE_BOUND_LEARNING, LATE_BOUND_FEW_EVENTS,
			   30 * DAY) &&
	   late_histogram_bound(&histogram, &config, 0).events == 298 &&
	   late_histogram_bound(&histogram, &config, 0).events_needed == 299 &&
	   late_histogram_bound(&histogram, &config, 0).candidate == edge,
	   "learning while events are too few");
	late_histogram_add(&histogram, 1, 1);
	ok(decides(10 * edge - 1, &config, LATE_BOUND_LEARNING,
			   LATE_BOUND_SHORT_TIME, 30 * DAY) &&
	   decides(-1, &config, LATE_BOUND_LEARNING, LATE_BOUND_SHORT_TIME, 30 * DAY),
	   "learning until it has been observed ten times as long");
	ok(decides(10 * edge, &config, LATE_BOUND_ESTIMATED, LATE_BOUND_AS_ESTIMATED,
			   edge), "then estimated");
	config.initial = edge;
	ok(decides(10 * edge, &config, LATE_BOUND_ESTIMATED, LATE_BOUND_AT_INITIAL,
			   edge), "never more than the initial one");
	config.initial = edge + 1;
	config.minimum = edge;
	ok(decides(10 * edge, &config, LATE_BOUND_ESTIMATED, LATE_BOUND_AT_MINIMUM,
			   edge), "never less than the least");
	config.minimum = edge + 7;
	ok(decides(10 * edge, &config, LATE_BOUND_ESTIMATED, LATE_BOUND_AT_MINIMUM,
			   edge + 1), "the initial one is the stronger limit");

	config.initial = 30 * DAY;
	config.minimum = 0;
	late_histogram_add(&histogram, 2000 * DAY, 1);
	ok(decides(INT64_MAX, &config, LATE_BOUND_INITIAL, LATE_BOUND_TOO_LATE,
			   30 * DAY) &&
	   late_histogram_bound(&histogram, &config, INT64_MAX).candidate ==
	   LATENESS_BEYOND, "no estimate from beyond the histogram");
	late_histogram_add(&histogram, SEC, 1000);
	ok(decides(INT64_MAX, &config, LATE_BOUND_ESTIMATED, LATE_BOUND_AS_ESTIMATED,
			   edge), "until that is rare enough");
	for (int reason = LATE_BOUND_NO_EVENTS; reason <= LATE_BOUND_AT_MINIMUM; reason++)
		if (strcmp(late_bound_reason(reason), "unknown") == 0)
			edge = 0;
	ok(edge > 0, "each reason has a text");
}

/* How often the bound covers what it says, from samples of one size. */
static void
test_repetition(int n, int rank, double least, double most)
{
	static int64_t sample[1000];
	LateBoundConfig config = {0.99, 0.95, 1000 * DAY, 0};
	int64_t		quantile = (int64_t) (10.2405 * SEC);
	int			covered = 0;
	int			plain = 0;
	int			off = 0;
	int			less = 0;

	for (int i = 0; i < 2000; i++)
	{
		int64_t		bound;

		late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
		for (int j = 0; j < n; j++)
		{
			sample[j] = random_lateness(SEC);
			late_histogram_add(&histogram, sample[j], 1);
		}
		qsort(sample, n, sizeof(int64_t), compare_int64);
		bound = late_histogram_bound(&histogram, &config, INT64_MAX).bound;
		covered += sample[rank - 1] >= quantile;
		plain += sample[(n * 99 + 99) / 100 - 1] >= quantile;
		less += bound < sample[rank - 1];
		off += (double) bound > (double) sample[rank - 1] * RATIO + 1;
	}
	printf("# n = %d: the bound covers in %.1f %%, the plain percentile in %.1f %%\n",
		   n, covered / 20.0, plain / 20.0);
	ok(covered >= 20 * least && covered <= 20 * most && plain < 1000,
	   "the rank covers as often as it should, the plain percentile doesn't");
	ok(less == 0 && off == 0, "the bound is at most 2 % above it");
}

/* The values that bounds of a log-normal law should come to. */
static void
test_expected_bounds(void)
{
	static const struct
	{
		int			n;
		double		bound;		/* at 0.99, in medians */
	}			cases[] = {{1000, 13.15}, {5000, 11.23}, {100000, 10.44}};
	LateBoundConfig config = {0.99, 0.95, 50 * SEC, 0};
	bool		fine = true;

	for (int i = 0; i < 3; i++)
	{
		double		sum = 0;
		int			runs = 200000 / cases[i].n;

		for (int run = 0; run < runs; run++)
		{
			late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
			for (int j = 0; j < cases[i].n; j++)
				late_histogram_add(&histogram, random_lateness(SEC), 1);
			sum += log((double) late_histogram_bound(&histogram, &config,
													 INT64_MAX).bound / SEC);
		}
		/* half a cell more on average, its law being skew a bit more */
		fine &= near(exp(sum / runs) / cases[i].bound, 1.02, 0.07);
	}
	ok(fine, "bounds come to what they should");
}

/* Quantiles of the benchmark generator's late events, in windows. */
static void
test_generator_quantiles(void)
{
	static const struct
	{
		int			past;
		double		quantile99;
		double		quantile95;
	}			cases[] = {{10, 8.54, 5.76}, {20, 12.15, 6.66}, {64, 13.45, 6.83}};
	static Law	law;
	bool		fine = true;

	for (int i = 0; i < 3; i++)
	{
		const int	steps = 10000;
		double		found[2];

		law_lognormal(&law, cases[i].past);
		late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
		for (int j = 0; j < steps; j++)
		{
			double		x = law_quantile(&law, (j + 0.5) / steps);

			late_histogram_add(&histogram, (int64_t) (cases[i].past * x * SEC), 1);
		}
		found[0] = (double) late_histogram_quantile(&histogram, 0.99) / SEC;
		found[1] = (double) late_histogram_quantile(&histogram, 0.95) / SEC;
		fine &= found[0] > cases[i].quantile99 - 0.01 &&
			found[0] < cases[i].quantile99 * RATIO + 0.01 &&
			found[1] > cases[i].quantile95 - 0.01 &&
			found[1] < cases[i].quantile95 * RATIO + 0.01;
	}
	ok(fine, "quantiles of the generator's late events");
}

/*
 * Rounds of events, each bound made from one round, used in the next: the
 * histogram's, and what the rank alone comes to.
 */
static void
test_feedback(bool all_seen)
{
	static const double shrinking[] = {11.71, 9.19, 5.93, 4.30, 2.95, 1.63};
	static const int rounds[] = {1, 2, 5, 10, 20, 50};
	static int64_t seen[5000];
	LateBoundConfig config = {0.99, 0.95, 50 * SEC, 0};
	int64_t		bound = config.initial;
	int64_t		exact = config.initial;
	double		lost = 0;
	bool		fine = true;

	for (int round = 1, i = 0; round <= 50; round++)
	{
		int			n = 0;

		late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
		for (int j = 0; j < 5000; j++)
		{
			int64_t		lateness = random_lateness(SEC);

			if (all_seen || lateness <= bound)
				late_histogram_add(&histogram, lateness, 1);
			if (all_seen || lateness <= exact)
				seen[n++] = lateness;
		}
		qsort(seen, (size_t) n, sizeof(int64_t), compare_int64);
		exact = seen[late_bound_rank(n, 0.99, 0.95) - 1];
		bound = late_histogram_bound(&histogram, &config, INT64_MAX).bound;
		lost += 1 - coverage(bound, SEC);
		if (all_seen)
			fine &= exact > 8.8 * SEC && exact < 14.6 * SEC &&
				bound > 8.8 * SEC && bound < 15 * SEC;
		else if (round == rounds[i])
			fine &= near((double) exact / SEC / shrinking[i++], 1, 0.2);
	}
	printf("# after 50 rounds: %.2f medians, %.1f %%; with exact ranks %.2f, %.1f %%\n",
		   (double) bound / SEC, 100 * coverage(bound, SEC),
		   (double) exact / SEC, 100 * coverage(exact, SEC));
	if (all_seen)
	{
		ok(fine, "with all late events observed the bound stays");
		ok(lost / 50 <= 0.01, "no more events are lost than may be");
	}
	else
		ok(fine && near(coverage(exact, SEC), 0.688, 0.04) &&
		   coverage(bound, SEC) < 0.85, "without those refused it would shrink");
}

/* A stream observed for a time has not shown long lateness as often as it is. */
static void
test_startup(void)
{
	static const struct
	{
		int			times;
		double		covered;
	}			cases[] = {
		{1, 0.9599}, {2, 0.9792}, {3, 0.9838}, {5, 0.9867}, {10, 0.9885},
		{20, 0.9893}
	};
	const double quantile = 10.2405;
	LateBoundConfig config = {0.99, 0.95, 1000 * SEC, 0};
	bool		fine = true;
	bool		learning = true;

	for (int i = 0; i < 6; i++)
	{
		double		observed = cases[i].times * quantile;
		int64_t		tau = (int64_t) (observed * SEC);
		LateBoundState state;
		int64_t		estimate;

		late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
		for (int j = 1; j <= 20000; j++)
		{
			double		x = j * observed / 20000;
			double		density = exp(-log(x) * log(x) / 2) / x * (1 - x / observed);

			late_histogram_add(&histogram, (int64_t) (x * SEC),
							   (int64_t) (density * 1e6));
		}
		estimate = late_histogram_quantile(&histogram, 0.99);
		/* the upper edge may be a cell more */
		fine &= coverage(estimate, SEC) > cases[i].covered - 0.0001 &&
			coverage((int64_t) (estimate / RATIO), SEC) < cases[i].covered + 0.0001;
		state = late_histogram_bound(&histogram, &config, tau).state;
		learning &= state == (cases[i].times < 10 ? LATE_BOUND_LEARNING :
							  LATE_BOUND_ESTIMATED);
	}
	ok(fine, "early estimates cover so much less");
	ok(learning, "they aren't used before ten times the estimate");
}

/* How many events it takes to follow when lateness doubles, the median run. */
static int
events_to_follow(int memory)
{
	static int64_t needed[100];
	const int	runs = memory < 5000 ? 99 : 19;
	LateBoundConfig config = {0.99, 0.95, 1000 * SEC, 0};

	for (int run = 0; run < runs; run++)
	{
		LateBound	bound;

		late_histogram_init(&histogram, memory);
		for (int i = 0; i < 6 * memory; i++)
			late_histogram_add(&histogram, random_lateness(SEC), 1);
		needed[run] = 0;
		do
		{
			late_histogram_add(&histogram, random_lateness(2 * SEC), 1);
			needed[run]++;
			bound = late_histogram_bound(&histogram, &config, INT64_MAX);
		} while (coverage(bound.bound, 2 * SEC) < 0.985);
	}
	qsort(needed, (size_t) runs, sizeof(int64_t), compare_int64);
	return (int) needed[runs / 2];
}

static void
test_drift(void)
{
	/* what it takes if the last so many count alike, and none before */
	static const int window[] = {44, 194, 2176};
	static const int least[] = {1, 20, 600};
	static const int memory[] = {500, 1000, 5000};
	bool		fine = true;

	for (int i = 0; i < 3; i++)
	{
		int			needed = events_to_follow(memory[i]);

		printf("# with a memory of %d events: %d to follow\n", memory[i], needed);
		fine &= needed >= least[i] && needed <= window[i];
	}
	ok(fine, "doubled lateness is followed soon");
}

/* Weights, too, must cover as often as is said, if nothing changes. */
static void
test_weighted_repetition(int memory)
{
	LateBoundConfig config = {0.99, 0.95, 1000 * SEC, 0};
	int64_t		quantile = (int64_t) (10.2405 * SEC);
	int			covered = 0;

	late_histogram_init(&histogram, memory);
	for (int i = 0; i < 5 * memory; i++)
		late_histogram_add(&histogram, random_lateness(SEC), 1);
	for (int i = 0; i < 1000; i++)
	{
		for (int j = 0; j < memory / 2; j++)
			late_histogram_add(&histogram, random_lateness(SEC), 1);
		covered += late_histogram_bound(&histogram, &config, INT64_MAX).bound >=
			quantile;
	}
	printf("# with a memory of %d events the bound covers in %.1f %%\n",
		   memory, covered / 10.0);
	ok(covered >= 920, "weighted events cover about as often");
}

static void
test_memory(void)
{
	double		single;
	int			bad = 0;

	late_histogram_init(&histogram, 4999);	/* a factor of 0.9996 */
	for (int i = 0; i < 100000; i++)
		late_histogram_add(&histogram, random_lateness(SEC), 1);
	ok(near(late_histogram_events(&histogram), 4999, 0.01),
	   "weights are worth the memory");

	/* 0.9996, worked out from the definition of the weights */
	late_histogram_init(&histogram, 4999);
	for (int n = 1; n <= 2000; n++)
	{
		double		kept = pow(0.9996, n);
		double		sum = (1 - kept) / 0.0004;

		late_histogram_add(&histogram, SEC, 1);
		bad += !near(late_histogram_events(&histogram),
					 sum * sum * (1 - 0.9996 * 0.9996) / (1 - kept * kept), 1e-6);
	}
	ok(bad == 0, "and before there are so many, as they should be");

	single = late_histogram_events(&histogram);
	late_histogram_init(&histogram, 4999);
	late_histogram_add(&histogram, SEC, 1234);
	late_histogram_add(&histogram, 2 * SEC, 766);
	ok(near(late_histogram_events(&histogram), single, 1e-6) &&
	   near(late_histogram_beyond(&histogram, SEC),
			(1 - pow(0.9996, 766)) / (1 - pow(0.9996, 2000)), 1e-9),
	   "many at once are as many one by one");
	late_histogram_add(&histogram, 3 * SEC, INT64_MAX);
	ok(late_histogram_beyond(&histogram, 2 * SEC) == 1 &&
	   near(late_histogram_events(&histogram), 4999, 1e-6),
	   "a flood makes the rest forgotten");

	/* so long that weights must be scaled many times */
	bad = 0;
	late_histogram_init(&histogram, 10);
	for (int i = 0; i < 20000; i++)
	{
		late_histogram_add(&histogram, i % 2 == 0 ? SEC : 2 * SEC, 1);
		bad += i > 100 && !near(late_histogram_events(&histogram), 10, 1e-6);
		bad += i > 100 && !near(late_histogram_beyond(&histogram, SEC),
								i % 2 == 0 ? 0.45 : 0.55, 1e-9);
	}
	ok(bad == 0, "weights never run out of range");
	late_histogram_set_memory(&histogram, 4999);
	late_histogram_add(&histogram, 3 * SEC, 100);
	ok(late_histogram_events(&histogram) > 90 && late_histogram_events(&histogram) < 110,
	   "a longer memory begins with what there is ...");
	late_histogram_add(&histogram, 3 * SEC, 100000);
	ok(near(late_histogram_events(&histogram), 4999, 1e-6), "... and becomes full");
	late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
	for (int i = 0; i < 1000; i++)
		late_histogram_add(&histogram, SEC, INT64_MAX / 1000);
	ok(late_histogram_events(&histogram) > 9.2e18, "nor do numbers");
}

/* Are these equal in all that can be asked of them? */
static bool
same_histogram(const LateHistogram *a, const LateHistogram *b, double tolerance)
{
	if (!near(late_histogram_events(a), late_histogram_events(b),
			  tolerance * late_histogram_events(a)))
		return false;
	for (int i = 0; i < LATE_HISTOGRAM_CELLS; i++)
		if (!near(a->cells[i] / a->counts.unit, b->cells[i] / b->counts.unit,
				  tolerance * (1 + a->cells[i] / a->counts.unit)))
			return false;
	return true;
}

static void
test_encoding(void)
{
	static LateHistogram copy;
	static LateHistogram kept;
	static uint8_t bytes[LATE_HISTOGRAM_BYTES + 1];
	static uint8_t again[LATE_HISTOGRAM_BYTES];
	static const uint8_t one[] = {
		1, 5, 2, 0, 1, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0,
		0, 0, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0
	};
	LateBoundConfig config = {0.99, 0.95, 30 * DAY, 0};
	size_t		nbytes;
	int			bad = 0;

	late_histogram_init(&histogram, 1000);
	late_histogram_init(&copy, 1000);
	late_histogram_add(&copy, SEC, 5);
	nbytes = late_histogram_encode(&histogram, bytes);
	ok(nbytes == 13 && late_histogram_decode(&copy, bytes, nbytes) &&
	   late_histogram_events(&copy) == 0, "an empty histogram");
	late_histogram_add(&histogram, 5, 1);
	nbytes = late_histogram_encode(&histogram, bytes);
	ok(nbytes == sizeof(one) && memcmp(bytes, one, nbytes) == 0,
	   "the form is what is written of it");

	for (int i = 0; i < 200; i++)
	{
		late_histogram_init(&histogram, i % 2 == 0 ? DECAYED_COUNTS_FOREVER : 300);
		late_histogram_init(&copy, histogram.counts.memory);
		for (int j = 0; j < 10 * i; j++)
			late_histogram_add(&histogram, random_lateness(SEC),
							   random_between(&seed, 1, 30));
		nbytes = late_histogram_encode(&histogram, bytes);
		bad += !late_histogram_decode(&copy, bytes, nbytes) ||
			!same_histogram(&histogram, &copy, 1e-12) ||
			late_histogram_encode(&copy, again) != nbytes ||
			memcmp(bytes, again, nbytes) != 0;
		late_histogram_add(&histogram, 7 * SEC, 3);
		late_histogram_add(&copy, 7 * SEC, 3);
		bad += !same_histogram(&histogram, &copy, 1e-9);
	}
	ok(bad == 0, "histograms come back, and go on as if nothing had been");
	late_histogram_init(&histogram, DECAYED_COUNTS_FOREVER);
	for (int64_t edge = 0; edge != LATENESS_BEYOND;
		 edge = late_histogram_quantile(&histogram, 1))
		late_histogram_add(&histogram, edge + 1, INT64_MAX / LATE_HISTOGRAM_CELLS);
	ok(late_histogram_encode(&histogram, again) == LATE_HISTOGRAM_BYTES &&
	   late_histogram_decode(&copy, again, LATE_HISTOGRAM_BYTES),
	   "the fullest one fits");

	/* what isn't one is refused, and changes nothing */
	late_histogram_init(&copy, 300);
	late_histogram_add(&copy, SEC, 77);
	kept = copy;
	bad = 0;
	for (size_t i = 0; i < nbytes; i++)
		bad += late_histogram_decode(&copy, bytes, i);
	bad += late_histogram_decode(&copy, bytes, nbytes + 1);
	bad += late_histogram_decode(&copy, bytes, 0);
	ok(bad == 0 && memcmp(&copy, &kept, sizeof(copy)) == 0,
	   "no bytes may be missing or too many");
	memcpy(bytes, one, sizeof(one));
	bytes[5] = 0x40;			/* squares 4, */
	bytes[6] = 0x10;
	ok(!late_histogram_decode(&copy, bytes, sizeof(one)),
	   "a weight of 1 isn't 2 squared");
	bytes[15] = 0x40;			/* weight 2 */
	bytes[16] = 0;
	ok(!late_histogram_decode(&copy, bytes, sizeof(one)),
	   "no event weighs 2");
	bytes[5] = bytes[15] = 0x45;	/* both 2^83 */
	bytes[6] = bytes[16] = 0x20;
	ok(late_histogram_decode(&copy, bytes, sizeof(one)) &&
	   late_histogram_bound(&copy, &config, INT64_MAX).bound == 1000,
	   "more events than can be counted");
}

/* Changed and random bytes: refused without a trace, or a sound histogram. */
static void
test_garbage(void)
{
	static LateHistogram copy;
	static LateHistogram kept;
	static uint8_t bytes[LATE_HISTOGRAM_BYTES];
	static uint8_t again[LATE_HISTOGRAM_BYTES];
	int			bad = 0;
	int			refused = 0;

	late_histogram_init(&kept, 300);
	late_histogram_add(&kept, SEC, 77);
	for (int i = 0; i < 50000; i++)
	{
		int			entries = (int) random_between(&seed, 0, 12);
		size_t		nbytes;

		late_histogram_init(&histogram, 300);
		for (int j = 0; j < entries; j++)
			late_histogram_add(&histogram, random_lateness(SEC), 1);
		nbytes = late_histogram_encode(&histogram, bytes);
		for (int j = (int) random_between(&seed, 1, 3); j > 0; j--)
			bytes[random_between(&seed, 0, (int64_t) nbytes - 1)] =
				(uint8_t) random_u64(&seed);
		if (i % 10 == 0)
			for (size_t j = 5; j < nbytes; j++)
				bytes[j] = (uint8_t) random_u64(&seed);

		copy = kept;
		if (!late_histogram_decode(&copy, bytes, nbytes))
		{
			refused++;
			bad += memcmp(&copy, &kept, sizeof(copy)) != 0;
			continue;
		}
		bad += late_histogram_encode(&copy, again) != nbytes ||
			memcmp(bytes, again, nbytes) != 0;
		bad += !(late_histogram_events(&copy) >= 0) ||
			!isfinite(late_histogram_events(&copy)) ||
			late_histogram_beyond(&copy, 0) > 1;
		late_histogram_add(&copy, SEC, 1);
		bad += late_histogram_quantile(&copy, 1) <= 0;
	}
	printf("# %d of 50000 refused\n", refused);
	ok(bad == 0 && refused > 25000, "garbage is refused, or does no harm");
}

int
main(void)
{
	printf("# seed %llu\n", (unsigned long long) seed);
	test_ranks();
	test_monotony();
	test_cells();
	test_decisions();
	test_repetition(300, 300, 93, 97);
	test_repetition(1000, 996, 96, 98.5);
	test_expected_bounds();
	test_generator_quantiles();
	test_feedback(true);
	test_feedback(false);
	test_startup();
	test_drift();
	test_weighted_repetition(500);
	test_weighted_repetition(1000);
	test_memory();
	test_encoding();
	test_garbage();
	return tap_done();
}
