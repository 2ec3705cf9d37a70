/*
 * late_laws.h
 *	  Laws by which late events arrive, for the unit programs.
 *
 * The curve is of the share of events that has arrived, over [0, 1], as
 * time/staleness.h has it.
 */
#ifndef AION_LATE_LAWS_H
#define AION_LATE_LAWS_H

#include <math.h>
#include <stdlib.h>

#include "time/staleness.h"
#include "tap.h"

#define LAW_MAX_CELLS	4000

typedef struct Law
{
	const char *name;
	ArrivalCurve curve;
	double		shares[LAW_MAX_CELLS + 1];
} Law;

/* The distribution function of the standard normal law. */
static inline double
normal_share(double z)
{
	return erfc(-z / sqrt(2)) / 2;
}

/* A random number in (0, 1). */
static inline double
random_unit(uint64_t *state)
{
	return ((double) (random_u64(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* A random number whose logarithm has the standard normal law. */
static inline double
random_lognormal(uint64_t *state)
{
	double		radius = sqrt(-2 * log(random_unit(state)));

	return exp(radius * cos(2 * acos(-1) * random_unit(state)));
}

static inline void
law_from_masses(Law *law, const char *name, const double *masses, int cells)
{
	law->name = name;
	arrival_curve_init(&law->curve, masses, cells, false, law->shares);
}

/*
 * The late events of the benchmark's generator: their window is 1 .. past
 * windows ago, which is the allowed lateness, by a log-normal law.
 */
static inline void
law_lognormal(Law *law, int past)
{
	double		masses[100];

	for (int k = 1; k <= past; k++)
		masses[k - 1] = normal_share(log(k + 1.5)) - normal_share(log(k + 0.5));
	law_from_masses(law, "lnorm", masses, past);
}

static inline void
law_uniform(Law *law)
{
	law_from_masses(law, "unif", NULL, 1);
}

/* Normal laws of one deviation, cut to [0, 1] as a whole. */
static inline void
law_mixture(Law *law, const char *name, double deviation, int parts,
			const double *weights, const double *means)
{
	static double masses[LAW_MAX_CELLS];

	for (int i = 0; i < LAW_MAX_CELLS; i++)
	{
		masses[i] = 0;
		for (int j = 0; j < parts; j++)
		{
			double		begin = ((double) i / LAW_MAX_CELLS - means[j]) / deviation;
			double		end = ((i + 1.0) / LAW_MAX_CELLS - means[j]) / deviation;

			masses[i] += weights[j] * (normal_share(end) - normal_share(begin));
		}
	}
	law_from_masses(law, name, masses, LAW_MAX_CELLS);
}

static inline void
law_normal(Law *law, double deviation)
{
	static const double weight[] = {1};
	static const double mean[] = {0.5};

	law_mixture(law, "norm", deviation, 1, weight, mean);
}

static inline void
law_bursts(Law *law, double deviation)
{
	static const double weights[] = {0.4, 0.3, 0.2, 0.1};
	static const double means[] = {0.10, 0.35, 0.60, 0.85};

	law_mixture(law, "bursts", deviation, 4, weights, means);
}

/* When a share of the events has arrived. */
static inline double
law_quantile(const Law *law, double share)
{
	const double *shares = law->shares;
	int			low = 0;
	int			high = law->curve.cells;

	if (share >= 1)
		return 1;
	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		if (shares[middle] <= share)
			low = middle;
		else
			high = middle;
	}
	return (low + (share - shares[low]) / (shares[high] - shares[low])) /
		law->curve.cells;
}

static inline int
compare_int64(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

/* So many arrivals in order, the lateness being so many microseconds. */
static inline void
law_sample(const Law *law, uint64_t *state, int64_t lateness, int64_t *arrivals,
		   int n)
{
	for (int i = 0; i < n; i++)
		arrivals[i] = (int64_t) (law_quantile(law, random_unit(state)) *
								 (double) lateness);
	qsort(arrivals, (size_t) n, sizeof(int64_t), compare_int64);
}

#endif							/* AION_LATE_LAWS_H */
