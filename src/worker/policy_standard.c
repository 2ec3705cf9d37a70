/*
 * policy_standard.c
 *	  The standard policy: what is past leaves memory, the rest stays.
 *
 * A past bucket is moved with all that memory holds of it as soon as that is worth a
 * transaction. If memory is short all the same, buckets in any state
 * follow, oldest first.
 */
#include "worker/policy.h"

/* Relief goes down to 4/5 of the high mark, so that it is not needed again at once. */
#define RELIEF_LOW(high) ((high) * 4 / 5)

void
policy_standard(const PolicyInput *input, PolicyPlan *plan)
{
	policy_destage_past(input, plan, POLICY_WHOLE);
	if (policy_above(input, plan->used, input->high))
		policy_relieve(input, plan, policy_oldest_first, POLICY_WHOLE, RELIEF_LOW(input->high));
}
