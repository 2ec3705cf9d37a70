/*
 * policy.c
 *	  What destage policies are made of, and what holds under each of them.
 *
 * Plans are made again whenever something happened, from what memory holds
 * then, so nothing has to be remembered between them, and a job that could not
 * be done is planned again. It ends because each job moves events, of which
 * there are finitely many: a bucket that has no more to give is not planned.
 */
#include <stdlib.h>

#include "worker/policy.h"

#define WORTHWHILE_BYTES (64 * 1024)	/* a past bucket goes at once if that much can, */
#define COOLING_MS		2000	/* else when it has not changed for so long, */
#define LINGERING_PART	64		/* or all that wait for that together hold so great a part of memory */
#define BUSY_MS			200		/* before looking again at one that is being read */
#define PRESSURE_MS		500		/* before trying again to relieve memory */
#define RESORT_POINTS	5		/* percent below critical that the last resort goes to */
#define IDLE_EXECUTIONS 3		/* so many times an execution without an event is idle ... */
#define IDLE_LEAST_MS	1000	/* ... but not less than that */

static const struct
{
	void		(*plan) (const PolicyInput *input, PolicyPlan *plan);
	bool		keeps;			/* bootstrap sets */
}			policies[] =
{
	[POLICY_STANDARD] = {policy_standard, false},
	[POLICY_LOCAL] = {policy_local, true},
	[POLICY_GLOBAL] = {policy_global, true},
	[POLICY_GLOBAL_RATE] = {policy_global_rate, true},
	[POLICY_NONE] = {policy_none, false},
};

/* True if the policy asks what more than the bootstrap set there is. */
bool
policy_keeps(DestagePolicy policy)
{
	return policies[policy].keeps;
}

/*
 * What the policy wants to be moved now. If that is nothing, although memory is
 * critically short, the oldest buckets go with all that they hold: running out
 * of memory would cost more than what the policy hopes to gain.
 */
void
policy_plan(DestagePolicy policy, const PolicyInput *input, PolicyPlan *plan)
{
	plan->n = 0;
	plan->used = input->used;
	plan->again_ms = -1;
	policies[policy].plan(input, plan);
	if (policy_above(input, input->used, input->critical))
	{
		if (plan->n == 0)
			policy_relieve(input, plan, policy_oldest_first, POLICY_WHOLE,
						   input->critical - RESORT_POINTS);
		policy_again(plan, PRESSURE_MS);
	}
}

/* The size of the bootstrap set of so many events: the least whole number that is at least the fraction. */
int64_t
policy_bootstrap(int64_t events, double fraction)
{
	double		exact = (double) events * fraction;
	int64_t		whole = (int64_t) exact;

	/* what the product is off by is no event */
	return whole + (exact - (double) whole > 1e-6);
}

static int
compare_int32(const void *a, const void *b)
{
	int32_t		left = *(const int32_t *) a;
	int32_t		right = *(const int32_t *) b;

	return (left > right) - (left < right);
}

/* After how long without an event an open bucket is idle, by how long the latest executions took. */
int64_t
policy_idle_ms(const int32_t *execution_ms, int n)
{
	int32_t		sorted[POLICY_EXECUTIONS];
	int64_t		idle = 0;

	for (int i = 0; i < n; i++)
		sorted[i] = execution_ms[i];
	qsort(sorted, n, sizeof(int32_t), compare_int32);
	if (n > 0)
		idle = (int64_t) sorted[n / 2] * IDLE_EXECUTIONS;
	return idle > IDLE_LEAST_MS ? idle : IDLE_LEAST_MS;
}

int
policy_oldest_first(const PolicyBucket *a, const PolicyBucket *b)
{
	return (a->start > b->start) - (a->start < b->start);
}

/* True if "used" is more than so many percent of memory. */
bool
policy_above(const PolicyInput *input, int64_t used, int percent)
{
	return used > input->total / 100 * percent;
}

/* A plan is due in so many ms at the latest. */
void
policy_again(PolicyPlan *plan, int64_t ms)
{
	if (plan->again_ms < 0 || ms < plan->again_ms)
		plan->again_ms = ms;
}

/* How many bytes a job frees, if events are of one size. */
static int64_t
frees(const PolicyBucket *bucket, int64_t keep)
{
	return keep == 0 ? bucket->bytes :
		(int64_t) ((double) bucket->bytes * (double) (bucket->events - keep) / (double) bucket->events);
}

/* True if a job of that extent would move something. */
static bool
has_work(const PolicyBucket *bucket, PolicyExtent extent)
{
	return !bucket->busy && (extent == POLICY_WHOLE || bucket->spare);
}

/* Adds a job, unless the bucket is to be left alone, has nothing to give, or has one already. */
void
policy_destage(const PolicyInput *input, PolicyPlan *plan, const PolicyBucket *bucket,
			   PolicyExtent extent, int64_t until)
{
	PolicyJob  *job = &plan->jobs[plan->n];

	if (!has_work(bucket, extent) || plan->planned[bucket - input->buckets])
		return;
	job->bucket = bucket;
	job->keep = extent == POLICY_WHOLE ? 0 : bucket->keep;
	job->frees = frees(bucket, job->keep);
	job->until = until;
	plan->planned[bucket - input->buckets] = true;
	plan->used -= job->frees;
	plan->n++;
}

int
policy_largest_first(const PolicyBucket *a, const PolicyBucket *b)
{
	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* The order that a sort is by at the moment. */
static PolicyOrder sort_order;

static int
compare_buckets(const void *a, const void *b)
{
	const PolicyBucket *left = *(const PolicyBucket *const *) a;
	const PolicyBucket *right = *(const PolicyBucket *const *) b;
	int			result = sort_order(left, right);

	return result != 0 ? result : policy_oldest_first(left, right);
}

static void
sort_buckets(const PolicyBucket **buckets, int n, PolicyOrder order)
{
	sort_order = order;
	if (n > 0)
		qsort(buckets, n, sizeof(*buckets), compare_buckets);
}

/*
 * Destages past buckets; of one that still changes no trifles, unless there are so many
 * that the trifles add up: then the largest of them.
 */
void
policy_destage_past(const PolicyInput *input, PolicyPlan *plan, PolicyExtent extent)
{
	int64_t		lingering = 0;
	int64_t		tolerated = input->total / LINGERING_PART;
	int			n = 0;

	for (int i = 0; i < input->n; i++)
	{
		const PolicyBucket *bucket = &input->buckets[i];
		int64_t		bytes;

		if (bucket->past && bucket->busy)
			policy_again(plan, BUSY_MS);
		if (!bucket->past || !has_work(bucket, extent))
			continue;
		bytes = frees(bucket, extent == POLICY_WHOLE ? 0 : bucket->keep);
		if (bucket->age_ms >= COOLING_MS || bytes >= WORTHWHILE_BYTES)
			policy_destage(input, plan, bucket, extent, -1);
		else
		{
			policy_again(plan, COOLING_MS - (bucket->age_ms > 0 ? bucket->age_ms : 0));
			plan->order[n++] = bucket;
			lingering += bytes;
		}
	}
	if (lingering <= tolerated)
		return;
	sort_buckets(plan->order, n, policy_largest_first);
	for (int i = 0; i < n && lingering > tolerated / 2; i++)
	{
		lingering -= frees(plan->order[i], extent == POLICY_WHOLE ? 0 : plan->order[i]->keep);
		policy_destage(input, plan, plan->order[i], extent, -1);
	}
}

/*
 * Destages one bucket after the other, ties by start, until so many percent of
 * memory are used.
 */
void
policy_relieve(const PolicyInput *input, PolicyPlan *plan, PolicyOrder order,
			   PolicyExtent extent, int percent)
{
	int64_t		until = input->total / 100 * (percent > 0 ? percent : 0);

	for (int i = 0; i < input->n; i++)
		plan->order[i] = &input->buckets[i];
	sort_buckets(plan->order, input->n, order);
	for (int i = 0; i < input->n && plan->used > until; i++)
		policy_destage(input, plan, plan->order[i], extent, until);
	policy_again(plan, PRESSURE_MS);
}
