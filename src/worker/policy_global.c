/*
 * policy_global.c
 *	  The global policies: buckets stay in memory, past ones as well, until
 *	  memory is short.
 *
 * Above the high mark one bucket after the other is cut down to its
 * bootstrap set, until there is some room again; above the critical mark all are.
 * There are two orders: largest first takes the fewest jobs, slowest arrival
 * first delays the fewest events.
 */
#include "worker/policy.h"

#define ROOM_POINTS 5			/* percent below the high mark that relief goes to */

static int
slowest_first(const PolicyBucket *a, const PolicyBucket *b)
{
	return (a->rate > b->rate) - (a->rate < b->rate);
}

static void
relieve(const PolicyInput *input, PolicyPlan *plan, PolicyOrder order)
{
	if (policy_above(input, input->used, input->critical))
		policy_relieve(input, plan, order, POLICY_SPARE, 0);
	else if (policy_above(input, input->used, input->high))
		policy_relieve(input, plan, order, POLICY_SPARE, input->high - ROOM_POINTS);
}

void
policy_global(const PolicyInput *input, PolicyPlan *plan)
{
	relieve(input, plan, policy_largest_first);
}

void
policy_global_rate(const PolicyInput *input, PolicyPlan *plan)
{
	relieve(input, plan, slowest_first);
}
