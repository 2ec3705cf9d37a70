/*
 * lateness.h
 *	  Allowed lateness: a span in PostgreSQL's interval terms, added to event
 *	  times by the calendar, in UTC.
 *
 * The names of the fields follow Interval, not its layout.  How a lateness is
 * chosen or predicted is not decided here; one that is predicted, window by
 * window, counts as unlimited for who knows no more than this.
 */
#ifndef AION_LATENESS_H
#define AION_LATENESS_H

#include "time/eventtime.h"

typedef struct Lateness
{
	bool		unlimited;		/* nothing ever expires; ignore the rest */
	bool		automatic;		/* each window has its own; unlimited, too */
	int32_t		months;
	int32_t		days;			/* of 24 hours: UTC has no clock change */
	int64_t		usecs;
} Lateness;

extern EventTime event_time_add(EventTime t, const Lateness *lateness);
extern EventTime lateness_threshold(EventTime w, const Lateness *lateness);

#endif							/* AION_LATENESS_H */
