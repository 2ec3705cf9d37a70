/*
 * destage_plan.c
 *	  What is to be destaged now, by the policy that is set.
 *
 * Gathers the buckets of all given streams from memory and asks the policy.
 * Its answer is good for the moment: between plan and job events arrive, scans
 * hold on to chunks, others free some. So a job is asked about again before it is
 * done (destage_plan_wants), moves what there is by then, and the next plan sees the rest.
 *
 * The bootstrap set of a bucket is a fraction of all events that came since memory
 * last held none of it, whether they are still there or not. So it stays
 * the same when the rest is moved, and grows with what arrives later.
 *
 * The parameters of destaging are kept here.
 */
#include "postgres.h"

#include <limits.h>

#include "store/area.h"
#include "store/mbucket.h"
#include "time/bucket.h"
#include "worker/control.h"
#include "worker/destage_plan.h"

#define IDLE_AUTO (-1)

int			aion_destage_policy = POLICY_STANDARD;
int			aion_memory_critical = 90;
double		aion_bootstrap_fraction = 0.1;
char	   *aion_idle_destage = "auto";

static int	idle_destage_ms = IDLE_AUTO;

const struct config_enum_entry aion_destage_policies[] =
{
	{"standard", POLICY_STANDARD, false},
	{"local", POLICY_LOCAL, false},
	{"global", POLICY_GLOBAL, false},
	{"global-rate", POLICY_GLOBAL_RATE, false},
	{"none", POLICY_NONE, false},
	{NULL, 0, false}
};

/* ---- aion.idle_destage: 'auto', or a time ---- */

static bool
parse_idle_destage(const char *value, int *ms, const char **hint)
{
	*hint = NULL;
	if (pg_strcasecmp(value, "auto") == 0)
	{
		*ms = IDLE_AUTO;
		return true;
	}
	return parse_int(value, ms, GUC_UNIT_MS, hint) && *ms >= 0;
}

bool
destage_check_idle(char **value, void **extra, GucSource source)
{
	const char *hint;
	int			ms;

	if (parse_idle_destage(*value, &ms, &hint))
		return true;
	GUC_check_errdetail("It is \"auto\", or a time from 0 to %d ms.", INT_MAX);
	if (hint != NULL)
		GUC_check_errhint("%s", _(hint));
	return false;
}

void
destage_assign_idle(const char *value, void *extra)
{
	const char *hint;

	(void) parse_idle_destage(value, &idle_destage_ms, &hint);
}

bool
destage_settings_changed(void)
{
	static struct
	{
		int			policy;
		int			high;
		int			critical;
		double		fraction;
		int			idle_ms;
	}			last;
	bool		changed = last.policy != aion_destage_policy || last.high != aion_memory_high ||
		last.critical != aion_memory_critical || last.fraction != aion_bootstrap_fraction ||
		last.idle_ms != idle_destage_ms;

	last.policy = aion_destage_policy;
	last.high = aion_memory_high;
	last.critical = aion_memory_critical;
	last.fraction = aion_bootstrap_fraction;
	last.idle_ms = idle_destage_ms;
	return changed;
}

/* ---- gathering ---- */

static void
fill_bucket(PolicyBucket *bucket, int stream, const DestageStream *of, const MBucketInfo *info)
{
	int64		seen = info->events + info->moved;
	EventTime	end = bucket_end(of->bucket_width, info->number);

	bucket->stream = stream;
	bucket->number = info->number;
	bucket->start = bucket_start(of->bucket_width, info->number);
	bucket->bytes = info->bytes;
	bucket->events = info->events;
	bucket->keep = policy_bootstrap(seen, aion_bootstrap_fraction);
	bucket->rate = (double) seen * 1000 / Max(info->span_ms, 1);
	bucket->age_ms = info->age_ms;
	bucket->past = end <= of->facts->past_before;
	bucket->busy = info->read;
	bucket->spare = policy_keeps(aion_destage_policy) && bucket->keep < info->events &&
		mbucket_has_more(of->facts->journal, info->number, bucket->keep);
}

/* Buckets of which something could be moved. Palloc'd; at least one element. */
static PolicyBucket *
gather_buckets(const DestageStream *streams, int nstreams, int *n)
{
	int			capacity = 64;
	PolicyBucket *buckets = palloc(capacity * sizeof(PolicyBucket));

	*n = 0;
	for (int i = 0; i < nstreams; i++)
	{
		int			ninfos;
		MBucketInfo *infos = mbucket_list(streams[i].facts->journal, &ninfos);

		for (int j = 0; j < ninfos; j++)
		{
			if (!infos[j].accounted_any)
				continue;
			if (*n == capacity)
			{
				capacity *= 2;
				buckets = repalloc_huge(buckets, capacity * sizeof(PolicyBucket));
			}
			fill_bucket(&buckets[(*n)++], i, &streams[i], &infos[j]);
		}
	}
	return buckets;
}

static int64
idle_ms(void)
{
	int32		execution_ms[POLICY_EXECUTIONS];

	if (idle_destage_ms != IDLE_AUTO)
		return idle_destage_ms;
	return policy_idle_ms(execution_ms, control_execution_times(execution_ms));
}

/* ---- planning ---- */

PolicyPlan *
destage_plan(const DestageStream *streams, int n)
{
	PolicyInput input;
	PolicyPlan *plan = palloc0(sizeof(PolicyPlan));

	input.buckets = gather_buckets(streams, n, &input.n);
	area_usage(&input.used, &input.total);
	input.high = aion_memory_high;
	input.critical = aion_memory_critical;
	input.idle_ms = idle_ms();

	plan->jobs = palloc_extended((input.n + 1) * sizeof(PolicyJob), MCXT_ALLOC_HUGE);
	plan->planned = palloc0((input.n + 1) * sizeof(bool));
	plan->order = palloc((input.n + 1) * sizeof(PolicyBucket *));
	policy_plan(aion_destage_policy, &input, plan);
	return plan;
}

bool
destage_plan_wants(const PolicyJob *job)
{
	int64		used;
	int64		total;

	area_usage(&used, &total);
	return job->until < 0 || used > job->until;
}

bool
destage_memory_short(void)
{
	int64		used;
	int64		total;

	area_usage(&used, &total);
	return used > total / 100 * Min(aion_memory_high, aion_memory_critical);
}
