/*
 * policy.h
 *	  Destage policies: which buckets leave memory, in which order, and how much
 *	  of each stays.
 *
 * A policy is one function, in a file of its own, over what memory holds at the moment. It
 * decides and does nothing: destage_plan.c gathers the buckets, io.c carries the
 * jobs out. Whatever it leaves, policy_plan() relieves memory that is
 * nearly full, so that a policy can be wrong without doing harm. A further one is a
 * file policy_NAME.c, its place in DestagePolicy and in policies[] of policy.c, and
 * its name in destage_plan.c.
 *
 * No server header: policies are compiled and tested alone.
 */
#ifndef AION_POLICY_H
#define AION_POLICY_H

#include "time/eventtime.h"

typedef enum DestagePolicy
{
	POLICY_STANDARD,
	POLICY_LOCAL,
	POLICY_GLOBAL,
	POLICY_GLOBAL_RATE,
	POLICY_NONE
} DestagePolicy;

/* A bucket of which memory holds something that could be moved. */
typedef struct PolicyBucket
{
	int			stream;			/* the caller's number of it */
	int64_t		number;
	EventTime	start;
	int64_t		bytes;			/* of memory */
	int64_t		events;			/* in memory */
	int64_t		keep;			/* of these, its bootstrap set: the first so many to arrive */
	double		rate;			/* of arrival, in events per second since the first one */
	int64_t		age_ms;			/* since the last one */
	bool		past;
	bool		busy;			/* being executed, or staged for an execution: left alone */
	bool		spare;			/* more than the bootstrap set can be moved; only if policy_keeps() */
} PolicyBucket;

typedef struct PolicyInput
{
	const PolicyBucket *buckets;
	int			n;
	int64_t		used;			/* bytes of memory */
	int64_t		total;
	int			high;			/* percent of total */
	int			critical;
	int64_t		idle_ms;		/* an open bucket without an event for so long is idle */
} PolicyInput;

/* Destage a bucket, but for the first "keep" events. */
typedef struct PolicyJob
{
	const PolicyBucket *bucket;
	int64_t		keep;
	int64_t		frees;			/* bytes, an estimate */
	int64_t		until;			/* only while more bytes than that are used; -1: in any case */
} PolicyJob;

typedef struct PolicyPlan
{
	/* set by the caller: room for as many as there are buckets */
	PolicyJob  *jobs;
	bool	   *planned;		/* by number of the bucket: it has a job; all false */
	const PolicyBucket **order; /* to sort in */
	/* the plan */
	int			n;
	int64_t		used;			/* bytes after it, an estimate */
	int64_t		again_ms;		/* when another plan is due although nothing happens; -1: not */
} PolicyPlan;

#define POLICY_EXECUTIONS 101	/* so many of the latest tell how long one takes */

extern void policy_plan(DestagePolicy policy, const PolicyInput *input, PolicyPlan *plan);
extern bool policy_keeps(DestagePolicy policy);
extern int64_t policy_bootstrap(int64_t events, double fraction);
extern int64_t policy_idle_ms(const int32_t *execution_ms, int n);

/* ---- the policies ---- */
extern void policy_standard(const PolicyInput *input, PolicyPlan *plan);
extern void policy_local(const PolicyInput *input, PolicyPlan *plan);
extern void policy_global(const PolicyInput *input, PolicyPlan *plan);
extern void policy_global_rate(const PolicyInput *input, PolicyPlan *plan);
extern void policy_none(const PolicyInput *input, PolicyPlan *plan);

/* ---- what they are made of ---- */
typedef enum PolicyExtent
{
	POLICY_WHOLE,				/* nothing of a bucket stays */
	POLICY_SPARE				/* the bootstrap set does */
} PolicyExtent;

typedef int (*PolicyOrder) (const PolicyBucket *a, const PolicyBucket *b);

extern int	policy_oldest_first(const PolicyBucket *a, const PolicyBucket *b);
extern int	policy_largest_first(const PolicyBucket *a, const PolicyBucket *b);
extern bool policy_above(const PolicyInput *input, int64_t used, int percent);
extern void policy_again(PolicyPlan *plan, int64_t ms);
extern void policy_destage(const PolicyInput *input, PolicyPlan *plan, const PolicyBucket *bucket,
						   PolicyExtent extent, int64_t until);
extern void policy_destage_past(const PolicyInput *input, PolicyPlan *plan, PolicyExtent extent);
extern void policy_relieve(const PolicyInput *input, PolicyPlan *plan, PolicyOrder order,
						   PolicyExtent extent, int percent);

#endif							/* AION_POLICY_H */
