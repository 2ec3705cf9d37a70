/*
 * policy_none.c
 *	  No policy: everything stays in memory as long as there is any.
 *
 * What the other policies are to be compared with, and for a server whose memory
 * holds all events that windows will ask for.
 */
#include "worker/policy.h"

void
policy_none(const PolicyInput *input, PolicyPlan *plan)
{
	(void) input;
	(void) plan;
}
