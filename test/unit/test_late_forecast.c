/*
 * test_late_forecast.c
 *	  What is learnt of late events for schedules: how many, and when.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "late_laws.h"
#include "time/late_forecast.h"
#include "tap.h"

#define SEC			INT64_C(1000000)
#define LATENESS	(600 * SEC)
#define MAX_TIMES	100

static uint64_t seed = 20000103;
static ArrivalShape shape;
static double shares[ARRIVAL_SHAPE_CELLS + 1];

static bool
near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance;
}

static void
test_number(void)
{
	static const OpenWindows none = {0, 0};
	static const OpenWindows some = {4, 30};
	LateForecast forecast;
	LateForecast copy;
	int			bad = 0;

	late_forecast_init(&forecast);
	ok(late_forecast_events(&forecast, &none, 0) == 0 &&
	   late_forecast_events(&forecast, &none, 5) == 5,
	   "nothing known but what the window has");
	for (int i = 0; i < LATE_FORECAST_ENOUGH - 1; i++)
		late_forecast_add(&forecast, 1000);
	ok(late_forecast_events(&forecast, &none, 5) == 5 &&
	   late_forecast_events(&forecast, &some, 5) == 7.5 &&
	   late_forecast_events(&forecast, &some, 8) == 8,
	   "nine purged windows: those that are open count");
	late_forecast_add(&forecast, 0);
	ok(near(late_forecast_events(&forecast, &some, 5), 900, 1e-9) &&
	   late_forecast_events(&forecast, &some, 901) == 901,
	   "ten: the mean of these counts, those without events included");

	late_forecast_init(&forecast);
	for (int i = 1; i <= 1000; i++)
	{
		int			first = i - LATE_FORECAST_WINDOWS + 1;

		first = first > 1 ? first : 1;
		late_forecast_add(&forecast, i);
		bad += i >= LATE_FORECAST_ENOUGH &&
			!near(late_forecast_events(&forecast, &some, 0), (first + i) / 2.0,
				  1e-9);
		bad += forecast.events[0] != first ||
			forecast.events[forecast.windows - 1] != i;
	}
	ok(bad == 0, "the last hundred count, in their order");
	late_forecast_init(&copy);
	for (int i = 0; i < forecast.windows; i++)
		late_forecast_add(&copy, forecast.events[i]);
	ok(copy.windows == forecast.windows &&
	   memcmp(copy.events, forecast.events, sizeof(copy.events)) == 0,
	   "kept numbers make the same");
	for (int i = 0; i < LATE_FORECAST_WINDOWS; i++)
		late_forecast_add(&forecast, INT64_MAX);
	ok(near(late_forecast_events(&forecast, &none, 0) / 9223372036854775807.0,
			1, 1e-9), "large numbers don't overflow");
}

static void
learn(const Law *law, int events)
{
	for (int i = 0; i < events; i++)
		arrival_shape_add(&shape, (int64_t) (law_quantile(law, random_unit(&seed)) *
											 (double) LATENESS), LATENESS, 1);
}

static void
test_shape(void)
{
	static Law	lnorm;
	static Law	norm;
	ArrivalCurve curve;
	double		times[MAX_TIMES];
	int			n;

	law_lognormal(&lnorm, 20);
	law_normal(&norm, 0.10);
	arrival_shape_init(&shape, 20000);
	ok(!arrival_shape_curve(&shape, &curve, shares) &&
	   staleness_plan(&curve, 0, 0.05, times, MAX_TIMES) == 5 &&
	   near(times[0], 0.2, 1e-6), "uniform at first");
	learn(&lnorm, 490);
	ok(!arrival_shape_curve(&shape, &curve, shares) &&
	   arrival_curve_share(&curve, 0.25) == 0.25, "and while there is too little");
	learn(&lnorm, 20000);
	ok(arrival_shape_curve(&shape, &curve, shares), "then as it came");
	n = staleness_plan(&curve, 0, 0.05, times, MAX_TIMES);
	ok(n == 4 && near(times[0], 0.0568, 0.004) && near(times[1], 0.1513, 0.01) &&
	   near(times[2], 0.3499, 0.02) && times[3] == 1 &&
	   near(staleness_max(&curve, 0, times, n), 0.02877, 0.002),
	   "its plan is nearly that of the law");
	learn(&norm, 60000);
	arrival_shape_curve(&shape, &curve, shares);
	n = staleness_plan(&curve, 0, 0.05, times, MAX_TIMES);
	ok(n == 4 && near(times[0], 0.3817, 0.01) && near(times[1], 0.5, 0.01),
	   "what changes is followed");
}

static void
test_shape_limits(void)
{
	static ArrivalShape copy;
	static uint8_t bytes[ARRIVAL_SHAPE_BYTES + 1];
	ArrivalCurve curve;
	size_t		nbytes;
	int			bad = 0;

	arrival_shape_init(&shape, DECAYED_COUNTS_FOREVER);
	arrival_shape_add(&shape, -1, LATENESS, 1000);
	arrival_shape_add(&shape, LATENESS, LATENESS, 1000);
	arrival_shape_add(&shape, INT64_MAX, LATENESS, 1000);
	arrival_shape_add(&shape, 0, 0, 1000);
	arrival_shape_add(&shape, 0, LATENESS, 0);
	ok(decayed_counts_events(&shape.counts) == 0, "what is outside doesn't count");
	arrival_shape_add(&shape, 0, LATENESS, ARRIVAL_SHAPE_ENOUGH - 1);
	arrival_shape_curve(&shape, &curve, shares);
	ok(!arrival_shape_curve(&shape, &curve, shares), "one too few");
	arrival_shape_add(&shape, INT64_MAX - 1, INT64_MAX, 1);
	ok(arrival_shape_curve(&shape, &curve, shares) &&
	   shape.cells[0] == ARRIVAL_SHAPE_ENOUGH - 1 &&
	   shape.cells[ARRIVAL_SHAPE_CELLS - 1] == 1 && shares[0] == 0 &&
	   shares[ARRIVAL_SHAPE_CELLS] == 1, "first and last cell");

	nbytes = arrival_shape_encode(&shape, bytes);
	arrival_shape_init(&copy, DECAYED_COUNTS_FOREVER);
	ok(nbytes == 33 && arrival_shape_decode(&copy, bytes, nbytes) &&
	   memcmp(&copy, &shape, sizeof(copy)) == 0, "a shape comes back");
	for (size_t i = 0; i < nbytes; i++)
		bad += arrival_shape_decode(&copy, bytes, i);
	bad += arrival_shape_decode(&copy, bytes, nbytes + 1);
	bytes[2]++;
	bad += arrival_shape_decode(&copy, bytes, nbytes);
	bytes[2]--;
	bytes[23]--;
	bytes[24] = ARRIVAL_SHAPE_CELLS;
	bad += arrival_shape_decode(&copy, bytes, nbytes);
	ok(bad == 0 && memcmp(&copy, &shape, sizeof(copy)) == 0,
	   "what isn't one is refused");
}

int
main(void)
{
	printf("# seed %llu\n", (unsigned long long) seed);
	test_number();
	test_shape();
	test_shape_limits();
	return tap_done();
}
