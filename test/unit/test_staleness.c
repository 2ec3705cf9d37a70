/*
 * test_staleness.c
 *	  Schedules of executions: the figures that they were designed with, plans
 *	  against all there are, and the rule that needs none, on random arrivals.
 *
 * The figures are those of the paper's figure 9, as far as it tells them.  Its
 * two baselines are made here, to compare with: "deltat" executes at equal
 * times, "deltaev" after equal numbers of events.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "late_laws.h"
#include "time/staleness.h"
#include "tap.h"

#define MAX_TIMES	400
#define SEC			INT64_C(1000000)
#define LATENESS	(600 * SEC)

static uint64_t seed = 20000103;
static Law	lnorm;
static Law	unif;
static Law	norm;
static Law	bursts;
static const Law *const laws[] = {&lnorm, &unif, &norm, &bursts};
static const double bounds[] = {0.10, 0.05, 0.01};

/* Are these the same but for rounding? */
static bool
near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance;
}

static int
greedy_count(const Law *law, double bound)
{
	double		times[MAX_TIMES];

	return staleness_greedy(&law->curve, 0, bound, times, MAX_TIMES);
}

/* The least maximum of so many executions. */
static double
balanced_max(const Law *law, int n)
{
	double		times[MAX_TIMES];

	n = staleness_balance(&law->curve, 0, times, n);
	return staleness_max(&law->curve, 0, times, n);
}

static double
deltat_max(const Law *law, int n)
{
	double		times[MAX_TIMES];

	for (int i = 0; i < n; i++)
		times[i] = (i + 1.0) / n;
	return staleness_max(&law->curve, 0, times, n);
}

static double
deltaev_max(const Law *law, int n)
{
	double		times[MAX_TIMES];

	for (int i = 0; i < n; i++)
		times[i] = law_quantile(law, (i + 1.0) / n);
	return staleness_max(&law->curve, 0, times, n);
}

/* With how many executions a baseline first keeps the bound. */
static int
first_count(double (*max) (const Law *, int), const Law *law, double bound)
{
	int			n = 1;

	while (n < MAX_TIMES && max(law, n) > bound + 1e-12)
		n++;
	return n;
}

/* Do the greedy schedule, deltat and deltaev need so many executions? */
static bool
counts_are(const Law *law, double bound, const int *expected)
{
	int			counts[3];

	counts[0] = greedy_count(law, bound);
	counts[1] = first_count(deltat_max, law, bound);
	counts[2] = first_count(deltaev_max, law, bound);
	if (memcmp(counts, expected, sizeof(counts)) == 0)
		return true;
	printf("# %s at %.2f: %d %d %d\n", law->name, bound,
		   counts[0], counts[1], counts[2]);
	return false;
}

static void
test_figure_9_counts(void)
{
	static const int expected[4][3][3] = {
		{{3, 8, 8}, {4, 13, 15}, {7, 31, 52}},
		{{4, 4, 4}, {5, 5, 5}, {10, 10, 10}},
		{{3, 6, 5}, {4, 8, 8}, {8, 20, 32}},
		{{4, 5, 5}, {5, 8, 8}, {9, 20, 20}},
	};
	int			above = 0;

	for (int i = 0; i < 4; i++)
	{
		bool		fine = true;
		char		what[100];

		for (int j = 0; j < 3; j++)
			fine &= counts_are(laws[i], bounds[j], expected[i][j]);
		snprintf(what, sizeof(what), "%s: executions for a bound", laws[i]->name);
		ok(fine, what);
	}
	for (int n = 25; n <= 30; n++)
		above += deltat_max(&lnorm, n) > 0.01 && deltaev_max(&lnorm, n) > 0.01;
	ok(lround(100 * 4 / 13.0) == 31 && lround(100 * 4 / 15.0) == 27 && above == 6,
	   "31 % and 27 % of the baselines' at 0.05, which don't reach 0.01 in 30");
	ok(deltat_max(&bursts, 20) <= 0.01 && deltat_max(&bursts, 26) > 0.01 &&
	   deltat_max(&bursts, 27) <= 0.01,
	   "more executions may be worse for a baseline");
}

static void
test_other_laws(void)
{
	static const struct
	{
		int			past;
		int			expected[3][3];
	}			cases[] = {
		{3, {{4, 5, 5}, {5, 6, 7}, {10, 14, 16}}},
		{5, {{3, 6, 6}, {5, 8, 9}, {10, 17, 22}}},
		{7, {{3, 6, 6}, {4, 9, 10}, {9, 19, 26}}},
		{10, {{3, 7, 7}, {4, 10, 12}, {9, 23, 33}}},
		{15, {{3, 8, 8}, {4, 12, 14}, {8, 27, 43}}},
		{20, {{3, 8, 8}, {4, 13, 15}, {7, 31, 52}}},
		{25, {{3, 9, 9}, {3, 14, 16}, {7, 35, 58}}},
		{30, {{3, 9, 9}, {3, 15, 16}, {6, 38, 64}}},
	};
	static const int wide[2][3][3] = {
		{{4, 5, 4}, {5, 7, 7}, {10, 16, 23}},
		{{4, 5, 5}, {5, 7, 8}, {10, 18, 18}},
	};
	static Law	law;
	bool		fine = true;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		law_lognormal(&law, cases[i].past);
		for (int j = 0; j < 3; j++)
			fine &= counts_are(&law, bounds[j], cases[i].expected[j]);
	}
	ok(fine, "lnorm with another lateness");
	for (int past = 19; past <= 23; past++)
	{
		law_lognormal(&law, past);
		fine &= counts_are(&law, 0.05, cases[5].expected[1]);
	}
	ok(fine, "19 to 23 windows of lateness give the paper's figures");
	fine = true;
	law_normal(&law, 1 / 6.0);
	for (int j = 0; j < 3; j++)
		fine &= counts_are(&law, bounds[j], wide[0][j]);
	law_bursts(&law, 0.05);
	for (int j = 0; j < 3; j++)
		fine &= counts_are(&law, bounds[j], wide[1][j]);
	ok(fine, "wider norm and bursts");
}

static void
test_maximum_staleness(void)
{
	static const struct
	{
		int			n;
		double		lnorm[3];	/* balanced, deltat, deltaev */
		double		norm[3];
		double		bursts;		/* balanced; 0: not known */
	}			cases[] = {
		{1, {1, 1, 1}, {1, 1, 1}, 1},
		{2, {0.13965, 0.49089, 0.47234}, {0.25000, 0.25000, 0.25000}, 0.23192},
		{3, {0.05446, 0.31672, 0.30218}, {0.09030, 0.30147, 0.15231}, 0.10756},
		{4, {0.02877, 0.22837, 0.21899}, {0.04516, 0.12345, 0.10814}, 0.05508},
		{5, {0.01801, 0.17479, 0.17080}, {0.02686, 0.13654, 0.08317}, 0.03476},
		{7, {0.00901, 0.11326, 0.11614}, {0.01259, 0.07499, 0.05618}, 0},
		{10, {0.00433, 0.06953, 0.07671}, {0.00578, 0.03413, 0.03718}, 0.00747},
		{15, {0.00191, 0.03664, 0.04739}, {0.00244, 0.01741, 0.02333}, 0},
		{20, {0.00107, 0.02384, 0.03335}, {0.00134, 0.00957, 0.01678}, 0.00128},
		{30, {0.00047, 0.01059, 0.02012}, {0.00058, 0.00435, 0.01055}, 0.00051},
	};
	const double tolerance = 1.1e-5;	/* they have five digits */
	bool		lnorm_fine = true;
	bool		norm_fine = true;
	bool		others_fine = true;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		int			n = cases[i].n;
		double		even = 1.0 / (n * n);

		lnorm_fine &= near(balanced_max(&lnorm, n), cases[i].lnorm[0], tolerance) &&
			near(deltat_max(&lnorm, n), cases[i].lnorm[1], tolerance) &&
			near(deltaev_max(&lnorm, n), cases[i].lnorm[2], tolerance);
		norm_fine &= near(balanced_max(&norm, n), cases[i].norm[0], tolerance) &&
			near(deltat_max(&norm, n), cases[i].norm[1], tolerance) &&
			near(deltaev_max(&norm, n), cases[i].norm[2], tolerance);
		others_fine &= cases[i].bursts == 0 ||
			near(balanced_max(&bursts, n), cases[i].bursts, tolerance);
		others_fine &= near(balanced_max(&unif, n), even, 1e-8) &&
			near(deltat_max(&unif, n), even, 1e-8) &&
			near(deltaev_max(&unif, n), even, 1e-8);
	}
	ok(lnorm_fine, "lnorm: maximum staleness of so many executions");
	ok(norm_fine, "norm: the same");
	ok(others_fine, "bursts and unif: the same");
}

static void
test_schedules(void)
{
	static const struct
	{
		const Law  *law;
		double		bound;
		int			n;
		double		greedy[7];
		double		balanced[7];
		double		max;
	}			cases[] = {
		{&lnorm, 0.10, 3, {0.1307, 0.5790, 1}, {0.0859, 0.2729, 1}, 0.05446},
		{&lnorm, 0.05, 4, {0.0814, 0.2489, 0.8365, 1},
		{0.0568, 0.1513, 0.3499, 1}, 0.02877},
		{&lnorm, 0.01, 7, {0.0324, 0.0709, 0.1252, 0.2050, 0.3395, 0.6051, 1},
		{0.0307, 0.0662, 0.1154, 0.1867, 0.2978, 0.5016, 1}, 0.00901},
		{&norm, 0.05, 4, {0.3870, 0.5094, 0.6403, 1},
		{0.3817, 0.5000, 0.6183, 1}, 0.04516},
		{&bursts, 0.05, 5, {0.1321, 0.3585, 0.6013, 0.8740, 1},
		{0.1142, 0.3338, 0.4803, 0.6546, 1}, 0.03476},
		{&unif, 0.05, 5, {0.2236, 0.4472, 0.6708, 0.8944, 1},
		{0.2, 0.4, 0.6, 0.8, 1}, 0.04},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const ArrivalCurve *curve = &cases[i].law->curve;
		int			n = cases[i].n;
		double		greedy[MAX_TIMES];
		double		planned[MAX_TIMES];
		bool		fine;
		char		what[100];

		fine = staleness_greedy(curve, 0, cases[i].bound, greedy, MAX_TIMES) == n;
		fine &= staleness_plan(curve, 0, cases[i].bound, planned, MAX_TIMES) == n;
		for (int j = 0; fine && j < n; j++)
		{
			double		begin = j > 0 ? planned[j - 1] : 0;

			fine &= near(greedy[j], cases[i].greedy[j], 1e-3) &&
				near(planned[j], cases[i].balanced[j], 1e-3);
			/* each pair alone, not just the worst */
			fine &= near(staleness_max(curve, begin, &planned[j], 1),
						 cases[i].max, 1.1e-5);
		}
		snprintf(what, sizeof(what), "%s at %.2f: the schedules",
				 cases[i].law->name, cases[i].bound);
		ok(fine, what);
	}
}

/* Are these times in order, after from, the last one being 1? */
static bool
is_schedule(double from, const double *times, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (!(times[i] > (i > 0 ? times[i - 1] : from)))
			return false;
	}
	return n > 0 && times[n - 1] == 1;
}

/*
 * The greedy schedule as the paper's words could be taken: executions at the
 * end of the first of so many instants that is more than the bound allows.
 */
static int
literal_greedy(const ArrivalCurve *curve, double bound, double *times)
{
	int			n = 0;
	double		from = 0;

	for (int i = 1; i <= curve->cells; i++)
	{
		double		at = (double) i / curve->cells;

		if (i == curve->cells || staleness_max(curve, from, &at, 1) > bound)
		{
			times[n++] = at;
			from = at;
		}
	}
	return n;
}

/* The law as it is seen at so many instants only. */
static void
at_instants(const Law *law, int instants, Law *result)
{
	static double masses[LAW_MAX_CELLS];
	double		before = 0;

	for (int i = 0; i < instants; i++)
	{
		double		share = arrival_curve_share(&law->curve, (i + 1.0) / instants);

		masses[i] = share - before;
		before = share;
	}
	law_from_masses(result, law->name, masses, instants);
	result->curve.stepwise = true;
}

static void
test_pitfalls(void)
{
	static const int coarse[] = {9, 10, 9, 11};
	static const int fine[] = {7, 10, 8, 9};
	static const double burst[] = {0, 0, 0, 8, 1, 1, 0, 0};
	static const double early[] = {5, 5, 0, 0, 0, 0, 0, 0};
	static Law	law;
	double		times[MAX_TIMES];
	int			bad = 0;
	int			n;

	bad += greedy_count(&unif, 0.01) != 10;
	for (int k = 2; k <= 100; k++)
		bad += greedy_count(&unif, 1.0 / (k * k)) != k;
	ok(bad == 0, "rounding makes no further execution");

	at_instants(&lnorm, 50, &law);
	n = literal_greedy(&law.curve, 0.05, times);
	ok(n == 3 && near(staleness_max(&law.curve, 0, times, n), 0.0695, 5e-5),
	   "the first instant beyond the bound would be dishonest");
	n = staleness_greedy(&law.curve, 0, 0.05, times, MAX_TIMES);
	ok(n >= 4 && staleness_max(&law.curve, 0, times, n) <= 0.05 * (1 + 2e-9),
	   "the last within it is taken");

	bad = 0;
	for (int i = 0; i < 4; i++)
	{
		at_instants(laws[i], 50, &law);
		bad += greedy_count(&law, 0.01) != coarse[i];
		at_instants(laws[i], 1000, &law);
		bad += greedy_count(&law, 0.01) != fine[i];
	}
	ok(bad == 0, "few instants cost executions, many don't");

	law_from_masses(&law, "burst", burst, 8);
	law.curve.stepwise = true;
	n = staleness_greedy(&law.curve, 0, 0.05, times, MAX_TIMES);
	ok(n == 4 && times[0] == 3 / 8.0 && times[1] == 4 / 8.0 &&
	   times[2] == 6 / 8.0 && times[3] == 1,
	   "a step beyond the bound is executed at");

	law_from_masses(&law, "early", early, 8);
	n = staleness_greedy(&law.curve, 0, 0.05, times, MAX_TIMES);
	ok(n >= 2 && is_schedule(0, times, n) &&
	   staleness_plan(&law.curve, 0.25, 1e-9, times, MAX_TIMES) == 1 &&
	   times[0] == 1 &&
	   staleness_due(0, 0, 0.01, LATENESS, 100) == INT64_MAX &&
	   staleness_due(0, 0, 0, LATENESS, 100) == INT64_MAX,
	   "no event, no execution but the final one");
}

/* Random masses: some cells empty, some with very much. */
static void
random_law(Law *law)
{
	static double masses[LAW_MAX_CELLS];
	int			cells = (int) random_between(&seed, 1, 60);

	for (int i = 0; i < cells; i++)
	{
		int64_t		kind = random_between(&seed, 0, 9);

		masses[i] = kind < 3 ? 0 : random_unit(&seed);
		if (kind == 9)
			masses[i] *= 1000;
	}
	law_from_masses(law, "random", masses, cells);
}

static void
test_random_laws(void)
{
	static Law	law;
	int			too_many = 0;
	int			bad = 0;
	int			unlike = 0;
	int			better = 0;

	for (int i = 0; i < 2000; i++)
	{
		double		bound = exp(-7 * random_unit(&seed));
		double		from = random_between(&seed, 0, 3) == 0 ?
			random_unit(&seed) : 0;
		double		rest;
		double		times[MAX_TIMES];
		double		max;
		int			n;
		int			planned;

		random_law(&law);
		rest = (1 - from) * (1 - arrival_curve_share(&law.curve, from));
		n = staleness_greedy(&law.curve, from, bound, times, MAX_TIMES);
		too_many += n > (int) ceil(sqrt(rest / bound) - 1e-6) && n > 1;
		bad += !is_schedule(from, times, n) ||
			staleness_max(&law.curve, from, times, n) > bound * (1 + 3e-9);

		planned = staleness_plan(&law.curve, from, bound, times, MAX_TIMES);
		max = staleness_max(&law.curve, from, times, planned);
		bad += planned != n || !is_schedule(from, times, n) ||
			max > rest / (n * n) * (1 + 3e-9) || max > bound * (1 + 3e-9);
		for (int j = 0; j < n; j++)
			unlike += !near(staleness_max(&law.curve, j > 0 ? times[j - 1] : from,
										  &times[j], 1), max, 1e-6 * bound);
		/* nothing near it may be better */
		for (int j = 0; j + 1 < n; j++)
		{
			double		kept = times[j];
			double		end = times[j + 1];
			double		begin = j > 0 ? times[j - 1] : from;

			times[j] = begin + (end - begin) * random_unit(&seed);
			better += staleness_max(&law.curve, from, times, n) < max * (1 - 1e-6);
			times[j] = kept;
		}
	}
	ok(too_many == 0, "never more than 1 / sqrt(bound) executions");
	ok(bad == 0, "schedules keep the bound; balanced ones 1 / n^2, too");
	ok(unlike == 0, "pairs of a balanced schedule are alike");
	ok(better == 0, "no execution moved makes it better");
}

/*
 * The least number of executions at ends of cells that keep the bound, and the
 * least maximum of n executions, found by trying all.  A count of 0: none does.
 */
static void
try_all(const ArrivalCurve *curve, double bound, int n, int *count, double *max)
{
	*count = 0;
	*max = 2;
	for (unsigned mask = 0; mask < 1u << (curve->cells - 1); mask++)
	{
		double		times[20];
		int			chosen = 0;
		double		worst;

		for (int i = 0; i < curve->cells - 1; i++)
			if (mask >> i & 1)
				times[chosen++] = (i + 1.0) / curve->cells;
		times[chosen++] = 1;
		worst = staleness_max(curve, 0, times, chosen);
		if (worst <= bound * (1 + 1e-9) && (*count == 0 || chosen < *count))
			*count = chosen;
		if (chosen <= n && worst < *max)
			*max = worst;
	}
}

static void
test_against_all(void)
{
	static Law	law;
	int			kept = 0;
	int			worse = 0;
	int			unlike = 0;
	int			unbalanced = 0;

	for (int i = 0; i < 500; i++)
	{
		static const double some[] = {0.02, 0.05, 0.1, 0.2, 0.3};
		double		bound = some[random_between(&seed, 0, 4)];
		double		masses[9];
		double		times[20];
		int			cells = (int) random_between(&seed, 1, 9);
		int			n = (int) random_between(&seed, 1, 4);
		int			count;
		double		max;

		for (int j = 0; j < cells; j++)
			masses[j] = (double) random_between(&seed, 0, 4);
		law_from_masses(&law, "small", masses, cells);
		try_all(&law.curve, bound, n, &count, &max);
		if (count > 0)
			worse += greedy_count(&law, bound) > count;
		law.curve.stepwise = true;
		if (count > 0)
		{
			kept++;
			unlike += greedy_count(&law, bound) != count;
		}
		n = staleness_balance(&law.curve, 0, times, n);
		unbalanced += !near(staleness_max(&law.curve, 0, times, n), max, 1e-8);
	}
	ok(worse == 0 && kept > 100, "no choice of instants needs fewer executions");
	ok(unlike == 0, "at these instants the greedy schedule needs as few");
	ok(unbalanced == 0, "and the balanced one has the least maximum");
}

/* Plans that begin inside the window, end before it, or can't be made. */
static void
test_replanning(void)
{
	static Law	law;
	double		all[MAX_TIMES];
	double		rest[MAX_TIMES];
	int			bad = 0;
	int			n = staleness_greedy(&lnorm.curve, 0, 0.01, all, MAX_TIMES);

	for (int i = 0; i + 1 < n; i++)
	{
		int			left = staleness_greedy(&lnorm.curve, all[i], 0.01, rest,
											MAX_TIMES);

		bad += left != n - i - 1;
		for (int j = 0; j < left; j++)
			bad += !near(rest[j], all[i + 1 + j], 1e-9);
	}
	ok(bad == 0, "the rest of a greedy schedule is one");
	bad = 0;
	for (int cells = 2; cells < 200; cells++)
	{
		law_from_masses(&law, "steps", NULL, cells);
		law.curve.stepwise = true;
		n = staleness_greedy(&law.curve, 0, 0.01, all, MAX_TIMES);
		for (int i = 0; i + 1 < n; i++)
			bad += staleness_greedy(&law.curve, all[i], 0.01, rest,
									MAX_TIMES) != n - i - 1 ||
				rest[0] != all[i + 1];
	}
	ok(bad == 0, "also of one in steps");

	n = staleness_plan(&lnorm.curve, 0.3395, 0.01, rest, MAX_TIMES);
	ok(n == 2 && is_schedule(0.3395, rest, 2) &&
	   near(staleness_max(&lnorm.curve, 0.3395, rest, 1),
			staleness_max(&lnorm.curve, rest[0], rest + 1, 1), 1e-9),
	   "what is left of a window is balanced");
	ok(staleness_plan(&lnorm.curve, 1, 0.01, rest, MAX_TIMES) == 1 && rest[0] == 1,
	   "at the end there is the final execution");

	n = staleness_plan(&unif.curve, 0, 1e-4, rest, 7);
	ok(n == 7 && near(rest[6], 0.07, 1e-8), "as many as fit, to be planned on");
	n = staleness_plan(&unif.curve, rest[6], 1e-4, rest, MAX_TIMES);
	ok(n == 93 && near(rest[0], 0.08, 1e-8), "planned on");
	ok(staleness_plan(&unif.curve, 0, 0, rest, MAX_TIMES) == 0 &&
	   staleness_plan(&unif.curve, 0, -1, rest, MAX_TIMES) == 0 &&
	   staleness_plan(&unif.curve, 0, NAN, rest, MAX_TIMES) == 0,
	   "no bound, no plan");
	ok(staleness_plan(&unif.curve, 0, 1, rest, MAX_TIMES) == 1 &&
	   staleness_plan(&unif.curve, 0, 1e-300, rest, MAX_TIMES) == MAX_TIMES &&
	   is_schedule(0, rest, 1) == false && rest[MAX_TIMES - 1] < 1,
	   "the largest and the smallest bound");
}

/* One window while its late events come, and what became of it. */
typedef struct Run
{
	const ArrivalCurve *curve;	/* to plan by; NULL: the rule alone */
	double		bound;
	double		expected;
	int64_t		last;			/* execution */
	int64_t		events;			/* since then */
	double		times[MAX_TIMES];	/* the plan, */
	int			planned;
	int			next;			/* and how far it has been followed */
	int			executions;
	double		before;			/* greatest staleness just before an event */
	double		after;			/* and at all */
} Run;

static void
plan_from(Run *run, double from)
{
	run->next = run->planned = 0;
	if (run->curve != NULL)
		run->planned = staleness_plan(run->curve, from, run->bound, run->times,
									  MAX_TIMES);
}

static void
execute(Run *run, int64_t now, bool as_planned)
{
	run->executions++;
	run->after = fmax(run->after, staleness_now(now - run->last, run->events,
												LATENESS, run->expected));
	run->last = now;
	run->events = 0;
	if (!as_planned)
		plan_from(run, (double) now / LATENESS);
}

/* Execute as often as it is due before now. */
static void
advance(Run *run, int64_t now)
{
	for (;;)
	{
		int64_t		due = staleness_due(run->last, run->events, run->bound,
										LATENESS, run->expected);
		int64_t		plan = INT64_MAX;

		if (run->next < run->planned)
			plan = staleness_instant(0, LATENESS, run->times[run->next]);
		if (plan < due && plan < now)
		{
			run->next++;
			if (run->events > 0)
				execute(run, plan, true);
		}
		else if (due < now)
			execute(run, due, false);
		else
			break;
	}
}

/*
 * Run a window whose late events come at these times after the on-time
 * execution: by the rule alone, or by a plan that the rule guards.
 */
static Run
run_window(const int64_t *arrivals, int n, double bound, double expected,
		   const ArrivalCurve *curve)
{
	Run			run = {.curve = curve,.bound = bound,.expected = expected};

	plan_from(&run, 0);
	for (int i = 0; i <= n; i++)
	{
		int64_t		now = i < n ? arrivals[i] : LATENESS;

		advance(&run, now);
		run.before = fmax(run.before, staleness_now(now - run.last, run.events,
													LATENESS, expected));
		if (i < n)
		{
			run.events++;
			if (staleness_due(run.last, run.events, bound, LATENESS,
							  expected) < now)
				execute(&run, now, false);
		}
	}
	execute(&run, LATENESS, true);
	return run;
}

static void
test_reactive(void)
{
	static const int sizes[] = {100, 1000, 10000};
	static int64_t arrivals[10000];
	int			late = 0;
	int			over = 0;
	int			far = 0;
	int			off[3] = {0, 0, 0};	/* executions too many or few, */
	int			samples[3] = {0, 0, 0}; /* in all of them */

	for (int size = 0; size < 3; size++)
	{
		int			n = sizes[size];

		for (int i = 0; i < 4 * (n < 10000 ? 100 : 5); i++)
		{
			const Law  *law = laws[i % 4];

			law_sample(law, &seed, LATENESS, arrivals, n);
			for (int j = 0; j < 3; j++)
			{
				Run			run = run_window(arrivals, n, bounds[j], n, NULL);
				int			unlike = abs(run.executions -
										 greedy_count(law, bounds[j]));

				late += run.before > bounds[j] * (1 + 1e-9);
				over += run.after > bounds[j] + 1.0 / n + 1e-9;
				off[size] += unlike;
				samples[size]++;
				far += unlike > 1;
			}
		}
	}
	ok(late == 0, "before an event, staleness is within the bound");
	ok(over == 0, "an event adds no more than itself");
	printf("# executions off by 1 in %d, %d, %d of %d, %d, %d\n", off[0], off[1],
		   off[2], samples[0], samples[1], samples[2]);
	ok(far == 0 && off[1] * 100 < samples[1] && off[2] == 0,
	   "the rule needs as many executions as the greedy schedule");
}

/* A forecast that is wrong by a factor makes the bound wrong by it. */
static void
test_wrong_forecast(void)
{
	static const struct
	{
		double		factor;
		int			least[2];	/* executions at 0.05 and 0.01 */
		int			most[2];
	}			cases[] = {
		{0.5, {5, 10}, {5, 10}},
		{0.8, {4, 8}, {4, 8}},
		{1, {4, 7}, {4, 7}},
		{1.25, {3, 6}, {3, 7}},
		{2, {3, 5}, {3, 5}},
	};
	static int64_t arrivals[1000];
	int			bad = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		int			sum[2] = {0, 0};

		for (int sample = 0; sample < 50; sample++)
		{
			law_sample(&lnorm, &seed, LATENESS, arrivals, 1000);
			for (int j = 0; j < 2; j++)
			{
				double		bound = bounds[j + 1];
				Run			run = run_window(arrivals, 1000, bound,
												 1000 * cases[i].factor, NULL);

				sum[j] += run.executions;
				bad += run.after * cases[i].factor >
					bound * cases[i].factor + 0.001 + 1e-9;
			}
		}
		for (int j = 0; j < 2; j++)
		{
			/* nearly all samples are like the expected one */
			double		mean = sum[j] / 50.0;

			bad += mean < cases[i].least[j] - 0.3 || mean > cases[i].most[j] + 0.3;
		}
	}
	ok(bad == 0, "the bound is off as the forecast of N is");
}

static int
compare_double(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* A plan alone keeps its maximum on average only; guarded it keeps the bound. */
static void
test_plan_and_guard(void)
{
	static const struct
	{
		double		mean;		/* realised maximum at 0.01, N = 1000 */
		double		most[2];	/* 95 in 100 are below, N = 1000 and 10000 */
	}			cases[] = {
		{0.0106, {0.0130, 0.0098}},
		{0.0116, {0.0127, 0.0109}},
		{0.0110, {0.0128, 0.0100}},
		{0.0103, {0.0115, 0.0097}},
	};
	static int64_t arrivals[10000];
	int			unlike = 0;
	int			over = 0;
	int			many = 0;

	for (int i = 0; i < 4; i++)
		for (int size = 0; size < 2; size++)
		{
			int			n = size == 0 ? 1000 : 10000;
			int			samples = size == 0 ? 100 : 20;
			double		times[MAX_TIMES];
			double		worst[100];
			double		sum = 0;
			int			planned = staleness_plan(&laws[i]->curve, 0, 0.01, times,
												 MAX_TIMES);

			for (int sample = 0; sample < samples; sample++)
			{
				Run			guarded;
				int64_t		last = 0;
				int			arrived = 0;

				law_sample(laws[i], &seed, LATENESS, arrivals, n);
				worst[sample] = 0;
				for (int j = 0; j < planned; j++)
				{
					int64_t		at = staleness_instant(0, LATENESS, times[j]);
					int			events = 0;

					while (arrived < n && arrivals[arrived] <= at)
						arrived++, events++;
					worst[sample] = fmax(worst[sample],
										 staleness_now(at - last, events, LATENESS, n));
					last = at;
				}
				sum += worst[sample];

				guarded = run_window(arrivals, n, 0.01, n, &laws[i]->curve);
				over += guarded.before > 0.01 * (1 + 1e-9) ||
					guarded.after > 0.01 + 1.0 / n + 1e-9;
				many += guarded.executions > planned + 2;
			}
			qsort(worst, samples, sizeof(double), compare_double);
			printf("# %s, N = %d: a plan's realised maximum %.4f, 95 %% below %.4f\n",
				   laws[i]->name, n, sum / samples,
				   worst[samples * 95 / 100 - 1]);
			unlike += size == 0 && !near(sum / samples, cases[i].mean, 0.0006);
			unlike += !near(worst[samples * 95 / 100 - 1], cases[i].most[size],
							size == 0 ? 0.0016 : 0.0009);
		}
	ok(unlike == 0, "a plan alone keeps its maximum about as well as foreseen");
	ok(over == 0, "a guarded plan keeps the bound whatever comes");
	ok(many == 0, "and takes hardly more executions");
}

static void
test_instants(void)
{
	ok(staleness_instant(100, 1000, 0) == 100 &&
	   staleness_instant(100, 1000, 0.5) == 600 &&
	   staleness_instant(100, 1000, 0.9999) == 1099 &&
	   staleness_instant(100, 1000, 1) == 1100 &&
	   staleness_instant(-5, INT64_MAX, 1) == INT64_MAX - 5 &&
	   staleness_instant(5, INT64_MAX, 1) == INT64_MAX &&
	   staleness_instant(INT64_MAX, INT64_MAX, 0.999) == INT64_MAX &&
	   staleness_instant(INT64_MIN, INT64_MAX, nextafter(1, 0)) <= -1,
	   "instants of a schedule");
	ok(near(staleness_now(30 * SEC, 10, 60 * SEC, 100), 0.05, 1e-12) &&
	   staleness_now(0, 10, 60 * SEC, 100) == 0 &&
	   staleness_now(-1, 10, 60 * SEC, 100) == 0 &&
	   staleness_now(30 * SEC, 0, 60 * SEC, 100) == 0 &&
	   staleness_now(1, 1, 0, 100) == HUGE_VAL &&
	   staleness_now(1, 1, 60 * SEC, 0) == HUGE_VAL &&
	   near(staleness_now(INT64_MAX, INT64_MAX, INT64_MAX, 9223372036854775807.0),
			1, 1e-9),
	   "staleness by now");
	ok(staleness_due(7, 1, 0.05, 60 * SEC, 100) == 7 + 300 * SEC &&
	   staleness_due(7, 10, 0.05, 60 * SEC, 100) == 7 + 30 * SEC &&
	   staleness_due(7, 7, 1, 10, 1) == 8 &&
	   staleness_due(7, 1, 0, 60 * SEC, 100) == 7 &&
	   staleness_due(7, 1, NAN, 60 * SEC, 100) == 7 &&
	   staleness_due(7, 1, 0.05, 0, 100) == 7 &&
	   staleness_due(7, 1, 0.05, 60 * SEC, 0) == 7,
	   "when it is due");
	ok(staleness_due(7, 1, 1, INT64_MAX, 1e300) == INT64_MAX &&
	   staleness_due(INT64_MIN, 1, 1, INT64_MAX, 2) == -1 &&
	   staleness_due(INT64_MAX, 1, 0.5, INT64_MAX, 1) == INT64_MAX &&
	   staleness_due(0, INT64_MAX, 1, INT64_MAX, 1) == 1,
	   "it saturates");
}

/* How long a plan over a thousand cells takes; sanitizers make it slower. */
static void
test_speed(void)
{
	static double masses[1000];
	static Law	law;
	double		times[MAX_TIMES];
	clock_t		begin;
	double		each;
	int			n = 0;

	for (int i = 0; i < 1000; i++)
		masses[i] = random_unit(&seed);
	law_from_masses(&law, "random", masses, 1000);
	begin = clock();
	for (int i = 0; i < 100; i++)
		n += staleness_plan(&law.curve, 0, 0.01, times, MAX_TIMES);
	each = (double) (clock() - begin) / CLOCKS_PER_SEC / 100;
	printf("# a plan of %d executions over 1000 cells takes %.3f ms\n",
		   n / 100, each * 1000);
	ok(each < 0.02, "a plan is made in no time");
}

int
main(void)
{
	printf("# seed %llu\n", (unsigned long long) seed);
	law_lognormal(&lnorm, 20);
	law_uniform(&unif);
	law_normal(&norm, 0.10);
	law_bursts(&bursts, 0.02);
	test_figure_9_counts();
	test_other_laws();
	test_maximum_staleness();
	test_schedules();
	test_pitfalls();
	test_random_laws();
	test_against_all();
	test_replanning();
	test_reactive();
	test_wrong_forecast();
	test_plan_and_guard();
	test_instants();
	test_speed();
	return tap_done();
}
