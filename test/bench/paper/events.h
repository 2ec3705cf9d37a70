/*
 * events.h
 *	  The events of the paper's workloads: every value is a function of seed
 *	  and record number, so that any part of a workload can be made by itself
 *	  and two programs can agree on it to the last byte.
 */
#ifndef AION_PAPER_EVENTS_H
#define AION_PAPER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAPER_SEED 100
#define PAPER_MAX_PAST 128		/* past windows */
#define PAPER_MAX_COLUMNS 256	/* bytes of an event's columns, payload aside */
#define US_PER_SECOND INT64_C(1000000)

/* Which events are late, and by how many windows. */
typedef enum LatenessLaw
{
	LATENESS_PAPER,				/* log-normal */
	LATENESS_NONE,
	LATENESS_SPREAD				/* all late, evenly over the past windows */
} LatenessLaw;

typedef struct Workload
{
	const char *name;
	int			width;			/* window in seconds */
	bool		delays;			/* records keep their time and arrive later; else they arrive evenly, with an earlier time */
	int			payload;		/* bytes; of tweets together with the body */
	size_t		(*columns) (char *out, uint64_t n, int rate, char separator);
} Workload;

/* One run of a workload. */
typedef struct PaperRun
{
	const Workload *workload;
	int			rate;			/* records per second of the event clock */
	int64_t		records;
	int			past;			/* windows that still take late events */
	LatenessLaw law;
} PaperRun;

typedef struct Record
{
	int64_t		arrival;		/* us since the origin of the windows */
	int64_t		time;
	bool		late;			/* its window was past when it arrived */
} Record;

extern const Workload *find_workload(const char *name);
extern uint64_t paper_random(int stream, uint64_t n);
extern int	windows_late(const PaperRun *run, uint64_t n, int64_t closed);
extern Record paper_record(const PaperRun *run, uint64_t n);
extern size_t paper_payload(char *out, uint64_t n, size_t size);

#endif							/* AION_PAPER_EVENTS_H */
