/*
 * view.h
 *	  Continuous views: what the workers need of them.
 */
#ifndef AION_VIEW_H
#define AION_VIEW_H

#include "postgres.h"
#include "nodes/pg_list.h"

#include "time/lateness.h"
#include "time/window.h"

/* A row of aion.view_def, with the stream's defaults applied. */
typedef struct ContinuousView
{
	Oid			view;			/* the user's view */
	Oid			stream;
	Oid			definition;
	Oid			results;
	WindowSpec	window;
	int64		early;			/* microseconds of processing time; 0: none */
	Lateness	allowed_lateness;
	double		staleness;		/* bound, from 0 to 1; negative: as aion.staleness says */
	Lateness	retain;			/* of results, after the end of their window; unlimited: for ever */
	bool		backfill;
	bool		paused;
} ContinuousView;

/* GUC: executions have their blocks read by the I/O worker. */
extern bool aion_staging;

/*
 * All continuous views of this database whose relations exist and whose stream could be locked
 * (AccessShareLock, kept) without waiting, under the active snapshot. Palloc'd.
 */
extern List *view_list(void);

/*
 * A relation on which the current transaction holds a lock that makes the workers wait for its end
 * before they are done with the stream and its views, or with the view; InvalidOid: none. Waits for no lock.
 */
extern Oid	view_held_lock(Oid relid);

/* True if the current transaction created the view: nothing can be fired for it yet. */
extern bool view_created_here(Oid view);

/*
 * Deletes the rows of window_state, window_firing and view_state whose view was
 * dropped. For the scheduler, inside a transaction with an active snapshot, when it
 * has seen that definitions changed and at its start: DROP VIEW itself doesn't touch
 * those rows, or it would make the scheduler wait for the user's commit.
 */
extern void view_forget_dropped(void);

/* The same for what set-aside events of "streams" (OIDs), which the caller has locked, say that such views missed. */
extern void view_forget_missed(List *streams);

typedef enum FiringKind
{
	FIRING_EARLY,
	FIRING_ON_TIME,
	FIRING_LATE,
	FIRING_FINAL,
	FIRING_REFRESH				/* asked for by name: executed although nothing is new; counts as late */
} FiringKind;

typedef enum FiringOutcome
{
	FIRING_DONE,				/* result committed */
	FIRING_GONE,				/* view or stream no longer there, or truncated since */
	FIRING_FAILED,				/* the query failed: recorded, stays so until its next firing */
	FIRING_RETRY,				/* transient error (classes 40, 53, 55, 57, 58): recorded, try again with back-off */
	FIRING_LOCKED,				/* the same because of somebody's lock, which other windows of the view would meet as well */
	FIRING_STOPPED				/* by view_stop_hook: as if it had not begun */
} FiringOutcome;

/*
 * Hooks that the workers set. The one has whatever executes for the view in this database stopped, without waiting
 * for that: view_stop_here() is called in its process, by a signal handler. The other tells whether what this
 * process executes was stopped. view_stop_here() does nothing in a process that executes nothing.
 */
extern void (*view_stop_hook) (Oid view);
extern bool (*view_stopped_hook) (void);
extern void view_stop_here(void);

/*
 * Executes one window of one view and replaces its result. To be called in a
 * worker outside any transaction; uses its own. Idempotent (I6); two calls for
 * the same window, in whatever processes, go one after the other. On a failure
 * the error is recorded in aion.window_firing and in the server log at most
 * once per window and message. "journal" names the life of the stream that the firing was ordered
 * for: after a TRUNCATE the window of the same name is another one. Counts the firing under "kind" in aion.window_firing;
 * FIRING_ON_TIME with final_too counts as both. "clock" is what the stream's lateness clock shows, which is noted with it.
 * *fired_events = window_state.events that the result reflects.
 */
extern FiringOutcome view_fire(Oid view, Oid journal, EventTime window_start, FiringKind kind,
							   bool final_too, EventTime clock, int64 *fired_events);

/*
 * Removes results of windows that start at or before last_start, which are final: a bounded number of
 * rows, but whole windows. In its own transaction, idempotent, and fails as view_fire() does; the
 * error is recorded in aion.view_state. *removed = last_start if nothing of that is left, else the start of the
 * last window whose results are gone.
 */
extern FiringOutcome view_remove_results(Oid view, Oid journal, EventTime last_start, EventTime *removed);

/* Hooks, function pointers of the stream layer; called once from _PG_init. */
extern void view_init(void);

#endif							/* AION_VIEW_H */
