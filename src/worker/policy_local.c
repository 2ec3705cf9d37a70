/*
 * policy_local.c
 *	  The local policy: each bucket by itself, whatever memory there is.
 *
 * A past bucket keeps its bootstrap set, which the next execution reads while the
 * rest is fetched. So does an open bucket that has had no event for some time.
 * A past bucket that takes in no more is not met here, because it is purged.
 */
#include "worker/policy.h"

void
policy_local(const PolicyInput *input, PolicyPlan *plan)
{
	policy_destage_past(input, plan, POLICY_SPARE);
	for (int i = 0; i < input->n; i++)
	{
		const PolicyBucket *bucket = &input->buckets[i];

		if (bucket->past || bucket->busy || !bucket->spare)
			continue;
		if (bucket->age_ms >= input->idle_ms)
			policy_destage(input, plan, bucket, POLICY_SPARE, -1);
		else
			policy_again(plan, input->idle_ms - (bucket->age_ms > 0 ? bucket->age_ms : 0));
	}
}
