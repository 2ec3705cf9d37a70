/*
 * evidence.h
 *	  How far event time has come by the word of many events, and not of one.
 *
 * One event with a fast clock moves a watermark as far as that clock is wrong.
 * Where that must not have consequences that can't be undone, the watermark is
 * believed only as far as so many events lie at or beyond it.
 */
#ifndef AION_EVIDENCE_H
#define AION_EVIDENCE_H

#include "time/eventtime.h"

#define EVIDENCE_EVENTS		100

/* The greatest event times seen, as a heap whose root is the least of them. */
typedef struct Evidence
{
	int			n;
	EventTime	times[EVIDENCE_EVENTS];
} Evidence;

extern void evidence_init(Evidence *evidence, EventTime t);
extern void evidence_add(Evidence *evidence, EventTime t, int64_t events);
extern bool evidence_wants(const Evidence *evidence, EventTime t);
extern EventTime evidence_time(const Evidence *evidence);

#endif							/* AION_EVIDENCE_H */
