/*
 * evidence.c
 *	  The EVIDENCE_EVENTS greatest event times.
 *
 * To keep it, keep evidence_time() alone: begun anew with that, it is as if all
 * of these events had that time, so it shows less than before for a while, and
 * never more.
 */
#include "time/evidence.h"

/* Moves the root down to where it belongs. */
static void
sift_down(Evidence *evidence)
{
	EventTime  *times = evidence->times;
	EventTime	t = times[0];
	int			i = 0;

	for (;;)
	{
		int			child = 2 * i + 1;

		if (child >= evidence->n)
			break;
		if (child + 1 < evidence->n && times[child + 1] < times[child])
			child++;
		if (t <= times[child])
			break;
		times[i] = times[child];
		i = child;
	}
	times[i] = t;
}

/* Adds a time to a heap that has room. */
static void
push(Evidence *evidence, EventTime t)
{
	EventTime  *times = evidence->times;
	int			i = evidence->n++;

	while (i > 0 && times[(i - 1) / 2] > t)
	{
		times[i] = times[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	times[i] = t;
}

/* Start with as many events as it takes at t, or with none: EVENT_TIME_NEVER. */
void
evidence_init(Evidence *evidence, EventTime t)
{
	evidence->n = 0;
	if (t == EVENT_TIME_NEVER)
		return;
	evidence->n = EVIDENCE_EVENTS;
	for (int i = 0; i < EVIDENCE_EVENTS; i++)
		evidence->times[i] = t;
}

/* Would an event at t change anything? */
bool
evidence_wants(const Evidence *evidence, EventTime t)
{
	return evidence->n < EVIDENCE_EVENTS || t > evidence->times[0];
}

/* So many events have this time. */
void
evidence_add(Evidence *evidence, EventTime t, int64_t events)
{
	for (int64_t i = 0; i < events && evidence_wants(evidence, t); i++)
	{
		if (evidence->n < EVIDENCE_EVENTS)
		{
			push(evidence, t);
			continue;
		}
		evidence->times[0] = t;
		sift_down(evidence);
	}
}

/* At this time or later lie EVIDENCE_EVENTS events; EVENT_TIME_NEVER: there are not so many. */
EventTime
evidence_time(const Evidence *evidence)
{
	return evidence->n < EVIDENCE_EVENTS ? EVENT_TIME_NEVER : evidence->times[0];
}
