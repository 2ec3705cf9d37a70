/*
 * destage_plan.h
 *	  What is to be destaged now, by the policy that is set, and the parameters
 *	  of that.
 */
#ifndef AION_DESTAGE_PLAN_H
#define AION_DESTAGE_PLAN_H

#include "postgres.h"
#include "utils/guc.h"

#include "worker/control.h"
#include "worker/policy.h"

extern int	aion_destage_policy;	/* a DestagePolicy */
extern int	aion_memory_critical;
extern double aion_bootstrap_fraction;	/* of a bucket's events */
extern char *aion_idle_destage; /* "auto", or a time */

extern const struct config_enum_entry aion_destage_policies[];
extern bool destage_check_idle(char **value, void **extra, GucSource source);
extern void destage_assign_idle(const char *value, void *extra);

/* A stream whose buckets may be destaged. */
typedef struct DestageStream
{
	const StreamFacts *facts;
	int64		bucket_width;
} DestageStream;

/*
 * Plans over all these streams; PolicyBucket.stream of a job is an index into "streams".
 * Palloc'd. Takes no lock on relations, and needs no transaction.
 */
extern PolicyPlan *destage_plan(const DestageStream *streams, int n);

/* True if a job's reason still stands, now that those before it are done. */
extern bool destage_plan_wants(const PolicyJob *job);

/* True if memory is short, so that a plan which achieved something is worth following up. */
extern bool destage_memory_short(void);

/* True once after each change of a parameter that plans depend on. */
extern bool destage_settings_changed(void);

#endif							/* AION_DESTAGE_PLAN_H */
