/*
 * test_policy.c
 *	  Destage policies: fixed cases, and random memories that each policy has to
 *	  relieve in finitely many steps.
 */
#include <string.h>

#include "worker/policy.h"
#include "tap.h"

#define MB		INT64_C(1000000)
#define MAX		64

static uint64_t seed = 1618033988;

static PolicyBucket buckets[MAX];
static PolicyInput input;
static PolicyPlan plan;

/* Memory of 1000 MB. */
static void
begin(int64_t used)
{
	input = (PolicyInput) {buckets, 0, used, 1000 * MB, 75, 90, 1000};
}

/* A bucket of 1000 events, open and not idle. */
static PolicyBucket *
add(int64_t bytes, double rate, double fraction)
{
	PolicyBucket *bucket = &buckets[input.n++];

	memset(bucket, 0, sizeof(*bucket));
	bucket->number = bucket->start = input.n;
	bucket->bytes = bytes;
	bucket->events = 1000;
	bucket->keep = policy_bootstrap(1000, fraction);
	bucket->rate = rate;
	bucket->spare = bucket->events > bucket->keep;
	return bucket;
}

static void
make_plan(DestagePolicy policy)
{
	static PolicyJob jobs[MAX + 1];
	static bool planned[MAX + 1];
	static const PolicyBucket *order[MAX + 1];

	memset(planned, 0, sizeof(planned));
	plan.jobs = jobs;
	plan.planned = planned;
	plan.order = order;
	policy_plan(policy, &input, &plan);
}

/* Are the jobs for these buckets, a digit each, and is this what they free? */
static bool
plan_is(const char *numbers, int64_t frees)
{
	bool		fine = plan.n == (int) strlen(numbers) && input.used - plan.used == frees;

	for (int i = 0; i < plan.n && fine; i++)
		fine = plan.jobs[i].bucket->number == numbers[i] - '0';
	return fine;
}

static bool
keeps_all(int64_t keep)
{
	for (int i = 0; i < plan.n; i++)
		if (plan.jobs[i].keep != keep)
			return false;
	return true;
}

/* Four windows, 180 MB above what relief goes to. */
static void
four(double fraction)
{
	begin(880 * MB);
	add(50 * MB, 5, fraction);
	add(200 * MB, 100, fraction);
	add(120 * MB, 1, fraction);
	add(80 * MB, 20, fraction);
}

static void
test_bootstrap(void)
{
	int			bad = 0;

	for (int64_t n = 0; n <= 2000; n++)
		for (int percent = 0; percent <= 100; percent++)
			bad += policy_bootstrap(n, percent / 100.0) != (n * percent + 99) / 100;
	ok(bad == 0, "the bootstrap set is the least whole number");
	ok(policy_bootstrap(INT64_C(1) << 40, 1) == INT64_C(1) << 40 && policy_bootstrap(1, 1e-3) == 1,
	   "also of many events, and of one");
}

static void
test_idle(void)
{
	int32_t		ms[POLICY_EXECUTIONS] = {0};

	ok(policy_idle_ms(ms, 0) == 1000, "idle after a second while no execution is known");
	for (int i = 0; i < POLICY_EXECUTIONS; i++)
		ms[i] = 100 * ((i * 37) % POLICY_EXECUTIONS);
	ok(policy_idle_ms(ms, POLICY_EXECUTIONS) == 15000, "three times the median");
	ms[0] = 333;
	ok(policy_idle_ms(ms, 1) == 1000, "at least a second");
	ms[0] = INT32_MAX;
	ok(policy_idle_ms(ms, 1) == INT64_C(3) * INT32_MAX, "no overflow");
}

static void
test_global(void)
{
	four(0.05);
	make_plan(POLICY_GLOBAL);
	ok(plan_is("2", 190 * MB) && keeps_all(50), "global: the largest is enough");
	ok(plan.jobs[0].until == 700 * MB, "until five points below the high mark");
	make_plan(POLICY_GLOBAL_RATE);
	ok(plan_is("314", 237 * MB + MB / 2) && keeps_all(50), "global-rate: the three slowest");

	four(0);
	make_plan(POLICY_GLOBAL);
	ok(plan_is("2", 200 * MB) && keeps_all(0), "global: without bootstrap sets all of it goes");
	input.used = 910 * MB;
	make_plan(POLICY_GLOBAL);
	ok(plan_is("2341", 450 * MB) && keeps_all(0), "global: when critical every bucket, though fewer are enough");
	four(0.05);
	input.used = 910 * MB;
	make_plan(POLICY_GLOBAL_RATE);
	ok(plan_is("3142", 427 * MB + MB / 2) && keeps_all(50), "global-rate: when critical every bucket to its bootstrap set");

	four(1);
	make_plan(POLICY_GLOBAL);
	ok(plan_is("", 0), "global: whole bootstrap sets free nothing");
	input.used = 910 * MB;
	make_plan(POLICY_GLOBAL);
	ok(plan_is("12", 250 * MB) && keeps_all(0) && plan.jobs[0].until == 850 * MB,
	   "global: the oldest go when it is critical and nothing else helps");

	four(0.05);
	input.used = 750 * MB;
	make_plan(POLICY_GLOBAL);
	ok(plan_is("", 0) && plan.again_ms == -1, "global: nothing goes while there is room");
	four(0.05);
	buckets[1].busy = true;
	make_plan(POLICY_GLOBAL);
	ok(plan_is("34", 190 * MB), "global: a busy bucket is left out");
	four(0.05);
	for (int i = 0; i < 4; i++)
		buckets[i].bytes = 100 * MB;
	buckets[3].start = -1;
	make_plan(POLICY_GLOBAL);
	ok(plan_is("41", 190 * MB), "global: ties go by start");
}

static void
test_local(void)
{
	four(0.1);
	make_plan(POLICY_LOCAL);
	ok(plan_is("", 0) && plan.again_ms == 1000, "local: open buckets stay, until they are idle");
	buckets[0].past = buckets[1].past = true;
	buckets[2].age_ms = 1000;
	buckets[3].age_ms = 990;
	make_plan(POLICY_LOCAL);
	ok(plan_is("123", (45 + 180 + 108) * MB) && keeps_all(100) && plan.again_ms == 10,
	   "local: past and idle ones go, but for their bootstrap sets");
	buckets[0].spare = buckets[2].spare = false;
	buckets[1].busy = true;
	make_plan(POLICY_LOCAL);
	ok(plan_is("", 0), "local: nothing more goes");

	four(0.1);
	buckets[0].past = true;
	buckets[0].bytes = 70000;
	make_plan(POLICY_LOCAL);
	ok(plan_is("", 0) && plan.again_ms == 1000, "local: trifles of a past bucket wait");
	four(1);
	input.used = 905 * MB;
	for (int i = 0; i < 4; i++)
		buckets[i].past = true;
	make_plan(POLICY_LOCAL);
	ok(plan_is("12", 250 * MB) && keeps_all(0), "local: the oldest go when it is critical and nothing else helps");
}

static void
test_standard(void)
{
	four(0.1);
	make_plan(POLICY_STANDARD);
	ok(plan_is("123", 370 * MB) && keeps_all(0) && plan.jobs[2].until == 600 * MB,
	   "standard: relief takes whole buckets, oldest first");
	buckets[2].past = buckets[3].past = true;
	make_plan(POLICY_STANDARD);
	ok(plan_is("34", 200 * MB) && plan.jobs[0].until == -1, "standard: past buckets may be relief enough");
	buckets[2].bytes = buckets[3].bytes = 1000;
	buckets[2].age_ms = 2000;
	buckets[3].age_ms = 1500;
	input.used = 100 * MB;
	make_plan(POLICY_STANDARD);
	ok(plan_is("3", 1000) && plan.again_ms == 500, "standard: a small past bucket goes when it has cooled down");
	buckets[2].busy = true;
	make_plan(POLICY_STANDARD);
	ok(plan_is("", 0) && plan.again_ms == 200, "standard: one that is being read is looked at again soon");

	/* past, and not worth a job each: 60 of 1 to 60 kB are 1.83 of 64 MB */
	begin(10 * MB);
	for (int i = 0; i < 60; i++)
		add((i + 1) * 1000, 1, 0.1)->past = true;
	make_plan(POLICY_STANDARD);
	ok(plan_is("", 0) && plan.again_ms == 2000, "standard: past buckets that change keep a little of memory");
	input.total = 64 * MB;
	make_plan(POLICY_STANDARD);
	ok(plan.n == 29 && plan.jobs[0].bucket == &buckets[59] && plan.jobs[28].bucket == &buckets[31] &&
	   plan.jobs[0].until == -1, "standard: together no more than that, the largest go");
}

/* Does the job as the store does, in whole chunks of a few events. */
static void
do_job(const PolicyJob *job)
{
	PolicyBucket *bucket = &buckets[job->bucket - buckets];
	int64_t		rest = job->keep == 0 ? 0 : (job->keep + 6) / 7 * 7;
	int64_t		bytes;

	if (rest > bucket->events)
		rest = bucket->events;
	bytes = bucket->bytes / bucket->events * rest;
	input.used -= bucket->bytes - bytes;
	bucket->bytes = bytes;
	bucket->events = rest;
	bucket->spare = false;
}

/* Buckets that have nothing left are not listed. */
static void
drop_empty(void)
{
	int			n = 0;

	for (int i = 0; i < input.n; i++)
		if (buckets[i].events > 0)
			buckets[n++] = buckets[i];
	input.n = n;
}

/* Plans until there is nothing to do, from one random memory. False: it does not end, or memory is still critical. */
static bool
settles(DestagePolicy policy)
{
	double		fraction = random_between(&seed, 0, 4) / 4.0;

	begin(0);
	for (int n = random_between(&seed, 0, MAX); n > 0; n--)
	{
		PolicyBucket *bucket = add(random_between(&seed, 1, 50000) * 1000, random_between(&seed, 0, 9), fraction);

		bucket->start = random_between(&seed, 0, 20);
		bucket->past = random_between(&seed, 0, 1);
		bucket->age_ms = random_between(&seed, -10, 5000);
		bucket->keep = policy_bootstrap(1000, fraction);
		bucket->spare = bucket->events > (bucket->keep + 6) / 7 * 7;
		input.used += bucket->bytes;
	}
	input.total = input.used + input.used / random_between(&seed, 2, 50) + 100;
	input.high = random_between(&seed, 1, 99);
	input.critical = random_between(&seed, 1, 99);
	for (int round = 0; round < 3 * MAX; round++)
	{
		make_plan(policy);
		if (plan.n == 0)
			return !policy_above(&input, input.used, input.critical) || input.n == 0;
		for (int i = 0; i < plan.n; i++)
			if (plan.jobs[i].until < 0 || input.used > plan.jobs[i].until)
				do_job(&plan.jobs[i]);
		drop_empty();
	}
	return false;
}

static void
test_random(void)
{
	static const char *const names[] = {"standard", "local", "global", "global-rate", "none"};

	for (int policy = POLICY_STANDARD; policy <= POLICY_NONE; policy++)
	{
		int			bad = 0;
		char		what[80];

		for (int i = 0; i < 1000; i++)
			bad += !settles(policy);
		snprintf(what, sizeof(what), "%s: ends, and not while memory is critical", names[policy]);
		ok(bad == 0, what);
	}
}

int
main(void)
{
	test_bootstrap();
	test_idle();
	test_global();
	test_local();
	test_standard();
	test_random();
	return tap_done();
}
