/*
 * test_prestage.c
 *	  Prestaging arithmetic: the figures that it was designed with, and plans
 *	  against another way to make them.
 *
 * The figures are of the benchmarks: windows of so many events of so many
 * bytes, staged at so many bytes a microsecond.
 */
#include <stddef.h>

#include "time/prestage.h"
#include "tap.h"

#define SEC			INT64_C(1000000)
#define MAX_JOBS	8

/* What staging an event takes at 150 MB/s, the event having 2304 bytes. */
#define COST		15.36

static uint64_t seed = 20000103;

/* Are these the same but for rounding? */
static bool
near(double a, double b, double tolerance)
{
	return a - b <= tolerance && b - a <= tolerance;
}

static void
test_cost(void)
{
	double		cost = PRESTAGE_COST_UNKNOWN;

	ok(prestage_cost_update(cost, SEC, 0) == PRESTAGE_COST_UNKNOWN &&
	   prestage_cost_update(cost, -1, 10) == PRESTAGE_COST_UNKNOWN &&
	   prestage_cost_update(4, SEC, 0) == 4 &&
	   prestage_cost_update(4, -1, 10) == 4,
	   "what tells nothing changes nothing");
	cost = prestage_cost_update(cost, 3072000, 200000);
	ok(near(cost, COST, 1e-9), "the first measurement is the cost");
	cost = prestage_cost_update(cost, 2536000, 100000);
	ok(near(cost, 0.7 * 15.36 + 0.3 * 25.36, 1e-9) && near(cost, 18.36, 1e-9),
	   "a later one counts for 3 in 10");
	cost = prestage_cost_update(0, 10, 1);
	ok(near(cost, 3, 1e-9), "a cost of nothing is known");
	for (int i = 0; i < 100; i++)
		cost = prestage_cost_update(cost, 7 * SEC, SEC);
	ok(near(cost, 7, 1e-9), "the cost becomes what is measured again and again");
}

static void
test_start(void)
{
	ok(prestage_start(240 * SEC, COST, 200000) == 236928000 &&
	   prestage_start(260 * SEC, COST, 210000) == 256774400 &&
	   prestage_start(280 * SEC, COST, 150000) == 277696000,
	   "starts of single jobs");
	ok(prestage_duration(COST, 0) == 0 && prestage_duration(0, INT64_MAX) == 0 &&
	   prestage_duration(0.25, 1) == 0 && prestage_duration(0.25, 2) == 1 &&
	   prestage_duration(0.25, 3) == 1,
	   "durations are rounded to the nearest microsecond");
	ok(prestage_duration(2, INT64_MAX) == INT64_MAX &&
	   prestage_duration(1, INT64_MAX) == INT64_MAX &&
	   prestage_start(0, 1e300, INT64_MAX) == -INT64_MAX &&
	   prestage_start(-2, 1e300, INT64_MAX) == INT64_MIN, "they saturate");
}

/* How long whole windows take, and how much longer a window lasts. */
static void
test_windows(void)
{
	static const struct
	{
		const char *name;
		int64_t		window;		/* seconds */
		int64_t		events;
		double		bytes;		/* of one */
		double		seconds[3]; /* at each of the rates */
		double		ratio;		/* at the first one */
	}			cases[] = {
		{"average", 20, 200000, 2304, {3.07, 4.61, 0.92}, 6.5},
		{"bigrams", 30, 150000, 3584, {3.58, 5.38, 1.08}, 8.4},
		{"stock market", 30, 300000, 1664, {3.33, 4.99, 1.00}, 9.0},
		{"linear road", 60, 600000, 1536, {6.14, 9.22, 1.84}, 9.8},
	};
	static const double rates[] = {150, 100, 500};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		int64_t		period = cases[i].window * SEC;
		bool		fine = true;

		for (int rate = 0; rate < 3; rate++)
		{
			int64_t		duration = prestage_duration(cases[i].bytes / rates[rate],
													 cases[i].events);

			fine &= near((double) duration / SEC, cases[i].seconds[rate], 0.005);
			fine &= rate > 0 ||
				near((double) period / (double) duration, cases[i].ratio, 0.05);
			fine &= prestage_is_sustainable(duration, 0, period);
		}
		ok(fine, cases[i].name);
	}
	ok(prestage_is_sustainable(6 * SEC, 13 * SEC, 20 * SEC) &&
	   prestage_is_sustainable(7 * SEC - 1, 13 * SEC, 20 * SEC) &&
	   !prestage_is_sustainable(7 * SEC, 13 * SEC, 20 * SEC) &&
	   !prestage_is_sustainable(INT64_MAX, INT64_MAX, INT64_MAX) &&
	   !prestage_is_sustainable(0, 0, 0),
	   "sustainable if there is time left in every period");
}

static void
test_fixed_plans(void)
{
	PrestageJob jobs[] = {
		{1, 100 * SEC, 3 * SEC, 0},
		{2, 100 * SEC, 2 * SEC, 0},
		{3, 104 * SEC, 3 * SEC / 2, 0},
		{4, 110 * SEC, 4 * SEC, 0},
	};
	PrestageJob alike[] = {{7, 10, 2, 0}, {5, 10, 2, 0}, {6, 10, 2, 0}};
	PrestageJob extreme[] = {{1, INT64_MIN + 5, 3, 0}, {2, INT64_MIN + 5, 4, 0},
	{3, INT64_MAX, INT64_MAX, 0}};

	ok(prestage_plan(jobs, 4, 95 * SEC), "a plan that can just be kept");
	ok(jobs[0].id == 2 && jobs[0].start == 95 * SEC &&
	   jobs[1].id == 1 && jobs[1].start == 97 * SEC &&
	   jobs[2].id == 3 && jobs[2].start == 102 * SEC + SEC / 2 &&
	   jobs[3].id == 4 && jobs[3].start == 106 * SEC, "its starts");
	ok(!prestage_plan(jobs, 4, 95 * SEC + 1) && jobs[0].start == 95 * SEC,
	   "a moment later it can't");
	ok(prestage_plan(NULL, 0, INT64_MAX), "no jobs");
	ok(prestage_plan(alike, 3, 4) && alike[0].id == 5 && alike[1].id == 6 &&
	   alike[2].id == 7 && alike[0].start == 4, "jobs alike go by their id");
	ok(!prestage_plan(extreme, 3, INT64_MIN + 1) &&
	   extreme[0].id == 1 && extreme[0].start == INT64_MIN &&
	   extreme[1].start == INT64_MIN + 1 && extreme[2].start == 0,
	   "starts saturate");
}

/*
 * Can the jobs be done from now on, always doing the one that is due first?
 * If any order keeps the deadlines, this one does.
 */
static bool
earliest_first_succeeds(const PrestageJob *jobs, int njobs, int64_t now)
{
	bool		done[MAX_JOBS] = {false};

	for (int n = 0; n < njobs; n++)
	{
		int			next = -1;

		for (int i = 0; i < njobs; i++)
			if (!done[i] && (next < 0 || jobs[i].deadline < jobs[next].deadline))
				next = i;
		done[next] = true;
		now += jobs[next].duration;
		if (now > jobs[next].deadline)
			return false;
	}
	return true;
}

/* The latest start of a job that leaves time for it and all that follow. */
static int64_t
latest_start(const PrestageJob *jobs, int njobs, int job)
{
	int64_t		total = 0;
	int64_t		latest = INT64_MAX;

	for (int i = job; i < njobs; i++)
	{
		total += jobs[i].duration;
		if (jobs[i].deadline - total < latest)
			latest = jobs[i].deadline - total;
	}
	return latest;
}

static void
test_random_plans(void)
{
	int			unlike = 0;
	int			bad = 0;
	int			feasible = 0;

	for (int i = 0; i < 20000; i++)
	{
		PrestageJob jobs[MAX_JOBS];
		int			njobs = (int) random_between(&seed, 1, MAX_JOBS);
		int64_t		now = random_between(&seed, 0, 20);
		int			ids = 0;
		bool		expected;

		for (int j = 0; j < njobs; j++)
		{
			jobs[j].id = j;
			jobs[j].deadline = random_between(&seed, 10, 40);
			jobs[j].duration = random_between(&seed, 0, 6);
		}
		expected = earliest_first_succeeds(jobs, njobs, now);
		feasible += expected;
		unlike += prestage_plan(jobs, njobs, now) != expected;
		for (int j = 0; j < njobs; j++)
		{
			ids |= 1 << jobs[j].id;
			bad += jobs[j].start != latest_start(jobs, njobs, j);
			bad += j > 0 && jobs[j].start < jobs[j - 1].start + jobs[j - 1].duration;
		}
		bad += ids != (1 << njobs) - 1;
	}
	ok(unlike == 0 && feasible > 5000 && feasible < 15000,
	   "a plan can be kept if any order can");
	ok(bad == 0, "jobs don't overlap, and begin as late as possible");
}

static void
test_ahead(void)
{
	int64_t		ahead = prestage_ahead(200000, COST, 0.2);
	int			bad = 0;

	ok(near((double) ahead / 200000, 0.987, 0.0005),
	   "of a cheap function's window nearly all must be there");
	ok(near(200000 / (200000 - (double) ahead), 77, 0.5),
	   "it is so many times faster than staging");
	ok(prestage_ahead(150000, 3584 / 150.0, 30) == 0 &&
	   prestage_ahead(150000, COST, COST) == 0 &&
	   prestage_ahead(0, COST, 0) == 0 && prestage_ahead(10, 0, 0) == 0,
	   "nothing for one slower than staging");
	ok(prestage_ahead(150000, COST, 0) == 150000 &&
	   prestage_ahead(INT64_MAX, COST, 0) == INT64_MAX &&
	   prestage_ahead(4, 8, 2) == 3 && prestage_ahead(5, 8, 2) == 4,
	   "all for one that takes no time, else the next whole number");

	for (int i = 0; i < 20000; i++)
	{
		int64_t		total = random_between(&seed, 0, 100000);
		int64_t		cost = random_between(&seed, 1, 1000);
		int64_t		own = random_between(&seed, 0, 1200);

		ahead = prestage_ahead(total, (double) cost, (double) own);
		bad += ahead < 0 || ahead > total;
		bad += cost * (total - ahead) > own * total;
		bad += ahead > 0 && cost * (total - ahead + 1) <= own * total;
	}
	ok(bad == 0, "the least with which staging keeps up with the function");
}

int
main(void)
{
	test_cost();
	test_start();
	test_windows();
	test_fixed_plans();
	test_random_plans();
	test_ahead();
	return tap_done();
}
