/*
 * scheduler.h
 *	  What the parts of the scheduler share: streams, views and windows as this
 *	  process keeps them.
 *
 * All of it is private memory of the scheduler and a copy of tables: of
 * aion.stream_state, stream_lateness, view_state and window_state, which it alone writes, and
 * of window_firing, which executors write. After an error the copy is thrown
 * away and loaded again.
 *
 *	scheduler.c			main loop: when a pass is due, dispatch, sleep
 *	definitions.c		which streams and views there are; loading them
 *	pass.c				one accounting pass, a transaction
 *	account.c			judgement of arrivals
 *	auto_lateness.c		how late they come, and the lateness that follows
 *	take_up.c			views that are new, streams that lost their state
 *	window_table.c		windows that are not final
 *	due.c				which of them is to be executed when
 *	trigger.c			the same for late ones, by staleness
 *	prestaging.c		what is staged ahead of executions
 *	retention.c			results that are not retained any longer
 *	readmit.c			events that were set aside and are applied after all
 *	dispatch.c			windows to executors, and their outcomes
 *	publish.c			what the I/O worker is told
 *	state_store.c		the SQL
 *	request_service.c	what backends asked for
 */
#ifndef AION_SCHEDULER_H
#define AION_SCHEDULER_H

#include "postgres.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "utils/array.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "store/accounted.h"
#include "store/arrivals.h"
#include "stream/stream.h"
#include "time/eventtime.h"
#include "time/evidence.h"
#include "time/late_forecast.h"
#include "time/late_histogram.h"
#include "view/view.h"
#include "worker/control.h"

/* GUC: ms between executions of a late window; 0: no limit, -1: only by its final firing. */
extern int	aion_late_interval;

/* GUC: bound on staleness of views that do not set their own. */
extern double aion_staleness;

/* GUC: p-buckets are staged before an execution that can be foreseen. */
extern bool aion_prestage;

#define MONO_NEVER PG_INT64_MAX		/* on the monotonic clock, microseconds */

/* Why a window is incomplete, also the reason given for its set-aside events. */
#define REASON_PURGED		"events purged"
#define REASON_SET_ASIDE	"events set aside"
#define REASON_STATE_LOST	"state lost"
#define REASON_EXPIRED		"expired"
#define REASON_AHEAD		"ahead of the clock"

/* How late the events of a stream come, and what follows under allowed_lateness 'auto'; see auto_lateness.c. */
typedef struct AutoLateness
{
	LateHistogram histogram;	/* with what is not in aion.stream_lateness yet */
	int64		events;			/* late ones ever observed ... */
	int64		unwritten;		/* ... of which the table lacks these */
	EventTime	since;			/* W_e at the first observation; EVENT_TIME_NEVER: none */
	int64		written_at;		/* monotonic */
	LateBoundConfig config;		/* that the bound was made for */
	LateBound	bound;			/* of the histogram in the table; of windows that are made now */

	/* as in aion.stream_state */
	Evidence	evidence;
	EventTime	expired_through;	/* windows without a row that end here or before have had their lateness */
} AutoLateness;

/* How W_e stands still, for the lateness clock. */
typedef struct StandStill
{
	int64		before;			/* microseconds that it did before it moved last, and did not make up for */
	int64		from;			/* it does again from here on (monotonic); may be yet to come */
} StandStill;

typedef struct SchedStream
{
	Oid			relid;			/* hash key */
	bool		loaded;			/* state and windows are as in the tables */
	bool		checked;		/* for lost state and dependencies, since this process started */
	bool		must_pass;		/* a pass is wanted though nothing arrived ... */
	int64		pass_at;		/* ... at this time, or MONO_NEVER */
	StreamStorage storage;		/* a copy; stored is NULL */
	StreamOptions options;		/* a copy; event_time is NULL */

	/* as in aion.stream_state */
	Accounted  *accounted;
	WatermarkState watermark;
	EventTime	last_window_end;	/* EVENT_TIME_NEVER: no window held an event yet */
	AutoLateness *late;
	EventTime	threshold;		/* what ends here or before has had the stream's lateness */

	/* on the monotonic clock */
	int64		last_pass;
	int64		last_activity;	/* an event was accounted for */
	int64		last_idle;		/* watermark_idle() was called */
	int64		locked_until;	/* someone had it locked: no pass before */

	/* the lateness clock, see trigger.c */
	StandStill	stand_still;
	pairingheap *waiting;		/* windows that wait for it */

	/* how W_e moves, for prestaging */
	double		speed;			/* of W_e against the monotonic clock; 0: not known */
	EventTime	speed_w;		/* W_e when it last moved, and when that was seen */
	int64		speed_at;

	/* I/O */
	StreamFacts facts;			/* as last published or seen */
	bool		published;
	bool		wait_purge;		/* the next pass opens windows: it needs purge_lock() */
	bool		own_facts;		/* there was no room in shared memory */
	int64		journal_only;	/* bytes without a chunk that came since a fold was last asked for */
	int64		last_fold;		/* when that was, on the monotonic clock */
	bool		fold_first;		/* windows wait for the fold ... */
	int64		fold_deadline;	/* ... but not beyond this */
	EventTime	rows_purged;	/* windows ending here or before were deleted */

	List	   *views;			/* SchedView * */
	uint64		pass;			/* number of the last pass that committed */
	bool		seen;			/* by the reload of definitions */
} SchedStream;

/* A view whose executions find locked what they need, or were stopped. Times are monotonic. */
typedef struct ViewHold
{
	int64		since;			/* 0: they don't */
	int64		until;			/* no window is handed out before, */
	EventTime	tried;			/* nor before it is known of this one whether it got the locks; EVENT_TIME_NEVER: none */
	bool		closed;			/* so, in this turn */
} ViewHold;

typedef struct SchedView
{
	ContinuousView def;
	char	   *name;			/* for messages */
	SchedStream *stream;
	bool		loaded;
	bool		taken_up;		/* has a row in aion.view_state */
	EventTime	final_through;	/* windows without a row that end here or before are final */
	EventTime	begins;			/* windows that start earlier are not the view's */
	EventTime	incomplete_before;	/* ... that start earlier are incomplete if without a row */
	EventTime	final_until;	/* greatest end + lateness of a final window */
	EventTime	threshold;		/* windows without a row that end here or before have had their lateness, */
	EventTime	limit;			/* and others whose "expires" is here or before */

	/* heaps by window start; a window is in at most one of the first two */
	pairingheap *unfired;		/* W has not passed their end, as of the last pass */
	pairingheap *overdue;		/* W has; not fired on time and not failed */
	pairingheap *unfinal;		/* all that are not final */
	pairingheap *expiring;		/* of these, by "expires", those that have not had their lateness */
	dlist_head	news;			/* whose result lacks events, or failed */
	dlist_head	due;			/* to be executed or made final, by due_pass */
	dlist_head	finalize;		/* to be made final by the next pass */
	int			nfailed;
	LateForecast forecast;		/* how many late events windows have ... */
	OpenWindows open;			/* ... those in memory among them ... */
	ArrivalShape arrivals;		/* ... and when */
	double		expected;		/* late events of a window, as of when windows were given their times */
	int64		final_firings;	/* without an execution; to be added to view_state by the pass */
	/* retention.c */
	EventTime	retain_threshold;	/* lateness_threshold(W_e, def.retain) */
	EventTime	results_removed;	/* windows that end here or before have no results any more */
	bool		removed_changed;	/* that is to be written by the pass */
	EventTime	removing;		/* a job does so up to the window that starts then; EVENT_TIME_NEVER: none */
	int64		remove_at;		/* not before (monotonic) */
	int			remove_failures;	/* in a row */
	ViewHold	hold;			/* dispatch.c */
	bool		seen;			/* by the reload of definitions */
} SchedView;

typedef struct WindowKey
{
	EventTime	start;
	Oid			view;
	uint32		zero;			/* no padding in a hash key */
} WindowKey;

typedef enum WindowPlace
{
	PLACE_IDLE,
	PLACE_TIMED,				/* in the heap of timers */
	PLACE_WAITING,				/* for its stream's lateness clock */
	PLACE_READY,				/* in the heap of what can be dispatched */
	PLACE_RUNNING				/* an executor has it */
} WindowPlace;

/* Value of Window.planned: to be planned when there is something new. */
#define PLAN_NONE	(-1.0)

/* A window that is not final. */
typedef struct Window
{
	WindowKey	key;			/* hash key */
	SchedView  *view;
	EventTime	end;
	int64		events;			/* as in window_state */
	int64		late_events;	/* of these */
	int64		lateness;		/* microseconds: that it was made with */
	EventTime	expires;		/* has had its lateness when view->limit is there */
	int64		fired_events;	/* as in window_firing */
	int64		sent_events;	/* "events" when it was last dispatched */
	const char *incomplete;		/* reason; NULL: it is not */
	bool		fired;			/* on time */
	bool		failed;			/* last execution */
	bool		reopened;		/* for readmitted events: takes in nothing, but is executed once more and then final */
	bool		final_counted;	/* an execution counted as final */
	bool		tried_on_time;	/* an execution was tried since W passed the end ... */
	bool		tried_final;	/* ... and since it has had its lateness */
	bool		again;			/* while running: execute once more */
	bool		forced;			/* execute although nothing is new */
	bool		is_due;			/* in view->due */
	bool		is_news;		/* in view->news */
	uint64		prestage;		/* request by which staging was asked for, for its next execution; 0: none */
	bool		to_finalize;	/* in view->finalize */
	int			attempts;		/* transient failures in a row */
	pairingheap *firing_heap;	/* unfired, overdue or NULL */
	bool		is_unfinal;		/* in view->unfinal */
	bool		is_expiring;	/* in view->expiring */
	pairingheap_node firing_node;
	pairingheap_node unfinal_node;
	pairingheap_node expiring_node;
	dlist_node	news_node;
	dlist_node	due_node;
	dlist_node	finalize_node;
	uint64		due_pass;
	int64		last_tried;		/* monotonic; of the last execution of any kind */
	/* trigger.c, on the stream's lateness clock */
	EventTime	on_time_clock;	/* of the on-time execution */
	EventTime	fired_clock;	/* of the last one */
	double		planned;		/* next execution, 0 to 1; PLAN_NONE */
	/* due.c */
	WindowPlace place;
	pairingheap_node place_node;
	int			rank;			/* while ready */
	int64		at;				/* while timed or ready: monotonic, or by event time; while waiting: on the lateness clock */
} Window;

/* What a pass adds to a window. */
typedef enum WindowVerdict
{
	WINDOW_NONE,				/* not a window of the view */
	WINDOW_OPEN,				/* takes events in */
	WINDOW_LATER,				/* of a view that is yet to be taken up */
	WINDOW_CLOSED				/* final or incomplete: events expire */
} WindowVerdict;

typedef struct WindowDelta
{
	WindowKey	key;			/* hash key */
	SchedView  *view;
	Window	   *window;			/* NULL: has no entry yet */
	EventTime	end;
	WindowVerdict verdict;
	const char *reason;			/* of WINDOW_CLOSED */
	const char *incomplete;		/* becomes incomplete */
	int64		events;
	int64		late_events;
	int64		observed;		/* late ones, also if it takes them in no more */
	int64		lateness;		/* of a window that is made, microseconds */
	bool		final;			/* becomes final */
} WindowDelta;

/* One pass over one stream, until it has committed. */
typedef struct StreamPass
{
	SchedStream *stream;
	const StreamInfo *info;
	MemoryContext context;		/* of the pass */
	Snapshot	snapshot;
	TimestampTz now;
	int64		mono;
	Arrivals   *arrivals;
	Accounted  *accounted;		/* the new set */
	HTAB	   *deltas;			/* WindowDelta */
	int64		events;			/* added to the stream's counters ... */
	int64		late_events;
	int64		expired_events;
	EventTime	greatest;		/* event time that moves W */
	EventTime	advance;		/* greatest control entry */
	EventTime	last_window_end;
	WatermarkState watermark;	/* new */
	StandStill	stand_still;	/* new */
	EventTime	expired_through;	/* new */
	EventTime	clock;			/* lateness clock by which events were judged */
	List	   *changed_views;	/* SchedView *: view_state is to be written */
	List	   *taken_up;		/* SchedView * */
	List	   *finals;			/* Window *: made final, leave memory after commit */
	List	   *moved;			/* Window *: passed end + lateness, to be scheduled after commit */
	EventTime	rows_purged;
} StreamPass;

/* The scheduler's own state. */
typedef struct Scheduler
{
	MemoryContext context;		/* of all that stays */
	HTAB	   *streams;		/* SchedStream */
	HTAB	   *views;			/* of pointers, see definitions.c */
	bool		definitions_changed;
	int64		reload_at;		/* a stream was locked: look again then; MONO_NEVER */
	uint64		pass;			/* number of the last pass begun */
	bool		io_wanted;		/* facts or accounted events are new to the I/O worker */
	int64		io_at;			/* call io_kick() then; MONO_NEVER */
} Scheduler;

extern Scheduler scheduler;

/* ---- scheduler.c ---- */
extern int64 mono_now(void);	/* microseconds */
extern void stream_want_pass(SchedStream *stream, int64 at);

/* ---- publish.c ---- */
extern void publish_stream(SchedStream *stream, bool fold, bool destage);
extern void publish_no_purge(SchedStream *stream);
extern void publish_refresh(SchedStream *stream);
extern void publish_all(int64 now);
extern int64 publish_next(void);	/* when to call publish_all() although nothing happened */

/* ---- dispatch.c ---- */
extern void dispatch_start(void);
extern void dispatch_mark_running(SchedView *view);
extern void dispatch_collect(int64 now);
extern void dispatch_windows(int64 now);
extern bool dispatch_removal(const SchedView *view, EventTime last_start);
extern int64 dispatch_next(int64 now);	/* when to look at jobs although nobody woke us */

/* ---- retention.c ---- */
extern void retention_run(int64 now);
extern void retention_outcome(const Job *job, int64 now);
extern int64 retention_next(void);	/* when to call retention_run() although nothing happened */

/* ---- readmit.c ---- */
typedef enum ReadmitResult
{
	READMIT_DONE,				/* committed; the stream is to be loaded again */
	READMIT_REFUSED,			/* the request says why */
	READMIT_LOCKED,				/* something is locked: try again */
	READMIT_GONE				/* nobody waits for it any more */
} ReadmitResult;
extern ReadmitResult readmit_events(SchedStream *stream, Request *request);

/* ---- prestaging.c ---- */
extern void prestage_late(Window *window, int64 now);
extern void prestage_end(Window *window);	/* its execution begins, and asks for what is not there yet */
extern void prestage_predicted(int64 now);
extern int64 prestage_next(void);	/* when to call prestage_predicted() although nothing happened */

/* ---- definitions.c ---- */
extern void definitions_init(void);
extern bool definitions_reload(int64 now);	/* own transaction; false: there is no extension any more */
extern void definitions_load(int64 now);	/* own transactions */
extern void definitions_forget_state(void); /* after an error: all is to be loaded again */
extern List *sched_streams(void);	/* of all; SchedStream *, palloc'd */
extern SchedStream *sched_stream(Oid relid);	/* NULL: unknown */
extern SchedView *sched_view(Oid view);
extern bool stream_wants_load(const SchedStream *stream);
extern void stream_set_thresholds(SchedStream *stream);
extern int64 view_window_lateness(const SchedView *view, EventTime end);

/* ---- pass.c ---- */
extern void pass_run(List *streams, int64 now);	/* SchedStream *; own transaction */
extern bool pass_reset_watermark(SchedStream *stream, EventTime t); /* own transaction; false: try again */
extern const StreamInfo *pass_lock_stream(SchedStream *stream, int64 now);
extern void pass_view_changed(StreamPass *pass, SchedView *view);
extern void pass_window_closed(StreamPass *pass, SchedView *view, EventTime end, int64 lateness);

/* ---- account.c ---- */
extern void account_arrivals(StreamPass *pass);
extern WindowDelta *account_delta(StreamPass *pass, SchedView *view, EventTime start);

/* ---- auto_lateness.c ---- */
typedef struct StreamStateRow StreamStateRow;
extern void auto_lateness_init(SchedStream *stream);
extern void auto_lateness_load(SchedStream *stream, const StreamStateRow *row, int64 now);
extern void auto_lateness_begin(StreamPass *pass);
extern void auto_lateness_evidence(StreamPass *pass, const Arrival **arrivals, int n);
extern void auto_lateness_write(StreamPass *pass);
extern void auto_lateness_save(const SchedStream *stream);
extern void auto_lateness_applied(const StreamPass *pass);
extern EventTime auto_lateness_reset(const SchedStream *stream, const WatermarkState *watermark,
									 EventTime *evident);
extern EventTime proven_watermark(EventTime event_watermark, const AutoLateness *late);
extern EventTime view_expiry_limit(const SchedView *view, EventTime event_watermark);

/* ---- take_up.c ---- */
extern void take_up_prepare(StreamPass *pass);	/* before arrivals are judged */
extern void take_up_views(StreamPass *pass);	/* after */
extern void repair_lost_state(const StreamInfo *info, SchedStream *stream);

/* ---- window_table.c ---- */
extern void window_table_init(MemoryContext context);
extern Window *window_find(const SchedView *view, EventTime start);
extern Window *window_make(SchedView *view, EventTime start);
extern void window_remove(Window *window);
extern void window_table_drop_view(SchedView *view);
extern void window_set_news(Window *window);	/* after events, fired_events or failed changed */
extern void window_set_failed(Window *window, bool failed);
extern void window_leave_firing(Window *window);
extern EventTime window_expires(const SchedView *view, EventTime end, int64 lateness);
extern void window_enter_heaps(Window *window);
extern void windows_pass_end(SchedView *view);
extern void windows_pass_lateness(SchedView *view, EventTime limit,
								  void (*moved) (Window *window, void *arg), void *arg);
extern EventTime view_first_unfired(const SchedView *view); /* EVENT_TIME_END: none */
extern EventTime view_first_unfinal(const SchedView *view);
extern void view_heaps_init(SchedView *view);
extern int64 window_table_size(void);

/* True if a window of the view that has no row, and ends then, takes in no events. */
static inline bool
view_is_closed(const SchedView *view, EventTime end)
{
	return end <= Max(view->final_through, view->threshold);
}

static inline bool
window_dirty(const Window *window)
{
	return window->events > window->fired_events;
}

/* ---- due.c ---- */
extern void due_init(void);
extern void due_init_stream(SchedStream *stream);
extern void window_schedule(Window *window, int64 now);
extern void window_make_due(Window *window, uint64 pass, bool forced, int64 now);
extern void window_undue(Window *window);
extern void window_unplace(Window *window);
extern void window_dispatched(Window *window);
extern void window_retry(Window *window, bool recorded, int64 now);
extern void window_put_off(Window *window, int64 now);
extern void due_run_timers(int64 now);
extern void due_run_lateness_clock(SchedStream *stream, int64 now);
extern int64 due_next_timer(int64 now);
extern void due_dispatch(bool (*usable) (const Window *window), bool (*post) (Window *window));
extern FiringKind window_firing_kind(const Window *window, bool *final_too);
extern int64 window_priority(const Window *window);
extern int64 removal_priority(void);
extern void window_finalize_next(Window *window);
extern void view_schedule_news(SchedView *view, int64 now);
extern void view_schedule_waiting(SchedView *view, int64 now);
extern void view_unschedule_all(SchedView *view);

/* ---- trigger.c ---- */
extern void trigger_init(SchedView *view);
extern EventTime lateness_clock_at(const SchedStream *stream, EventTime event_watermark);
extern EventTime lateness_clock(const SchedStream *stream, int64 now);
extern StandStill lateness_clock_moved(const SchedStream *stream, EventTime event_watermark, int64 now);
extern StandStill lateness_clock_stopped(const SchedStream *stream, int64 now);
extern void lateness_clock_load(SchedStream *stream, const StreamStateRow *row, int64 now);
extern int64 lateness_clock_reaches(const SchedStream *stream, EventTime t, int64 now);
extern double view_staleness(const SchedView *view);
extern EventTime trigger_due(Window *window, int64 now);
extern void trigger_executed(Window *window, EventTime clock, bool on_time);
extern void trigger_load(Window *window, EventTime on_time_clock, EventTime fired_clock);
extern void trigger_replan(Window *window);
extern void trigger_late_events(Window *window, int64 n, EventTime clock);
extern void trigger_forget(Window *window);
extern void trigger_final(const Window *window);
extern bool trigger_expects_less(SchedView *view);
extern bytea *trigger_pack_arrivals(const SchedView *view);
extern void trigger_unpack_arrivals(SchedView *view, const bytea *packed);

/* ---- state_store.c: all between SPI_connect() and SPI_finish() ---- */
struct StreamStateRow
{
	char	   *accounted;		/* palloc'd */
	EventTime	watermark;		/* EVENT_TIME_NEVER for NULL, here and below */
	EventTime	event_watermark;
	EventTime	last_window_end;
	EventTime	purged_time;
	EventTime	evidence_time;
	EventTime	expired_through;
	int64		stood_still;
	EventTime	stands_still_from;
};

typedef struct LatenessRow
{
	bytea	   *histogram;		/* palloc'd */
	int64		events;
	EventTime	since;
} LatenessRow;

typedef struct WindowRow
{
	EventTime	start;
	int64		events;
	int64		late_events;
	int64		lateness;		/* microseconds */
	char	   *incomplete;
	int64		fired_events;
	EventTime	on_time_clock;	/* the lateness clock at the on-time execution, and at the last one */
	EventTime	fired_clock;
	bool		reopened;
	int			on_time;
	int			final;
	TimestampTz last_fired_at;	/* 0: never */
	bool		failed;
	bool		transient;		/* failed, of a kind that is retried */
} WindowRow;

typedef struct ViewStateRow
{
	EventTime	final_through;
	EventTime	final_until;
	EventTime	begins;
	EventTime	incomplete_before;
	ArrayType  *late_counts;	/* NULL: none; palloc'd, as the next one */
	bytea	   *late_arrivals;
	EventTime	results_removed;
} ViewStateRow;

typedef void (*WindowRowSink) (void *arg, const WindowRow *row);
typedef void (*EventTimeSink) (void *arg, EventTime t);

/* Events that are to be set aside, collected. */
typedef struct SetAsideBatch
{
	MemoryContext context;		/* of the arrays and events; reset when written */
	int			n;
	int64		bytes;
	int			room;
	Datum	   *times;
	Datum	   *events;
	Datum	   *reasons;
	Datum	   *partial;
	Datum	   *missed[3];		/* array literals: views, first and last starts */
	bool	   *none_missed;	/* ... unless there are none */
} SetAsideBatch;

extern bool store_lock_tables(void);	/* first of all in a transaction */
extern bool store_stream_load(Oid stream, StreamStateRow *row);
extern void store_stream_update(const StreamPass *pass);
extern void store_stream_watermark(Oid stream, const WatermarkState *watermark,
								   const StandStill *stand_still, EventTime evidence_time,
								   EventTime expired_through);
extern bool store_lateness_load(Oid stream, LatenessRow *row);
extern void store_lateness_write(Oid stream, const LatenessRow *row);
extern bool store_view_load(Oid view, ViewStateRow *row);
extern void store_view_insert(const SchedView *view);
extern void store_view_update(const SchedView *view, int64 final_firings);
extern void store_windows_load(Oid view, WindowRowSink sink, void *arg);
extern bool store_firing_load(Oid view, EventTime start, WindowRow *row);
extern void store_windows_write(HTAB *deltas);
extern void store_windows_purge(Oid view, EventTime last_start);
extern void store_windows_lost(Oid view);
extern bool store_marker_present(Oid blocks);
extern void store_marker_insert(Oid blocks);
extern void store_set_aside(const SchedStream *stream, TimestampTz now, SetAsideBatch *batch);
extern void store_set_aside_times(Oid stream, EventTimeSink sink, void *arg);

/* An event that was set aside. All palloc'd. */
typedef struct SetAsideRow
{
	int64		id;
	EventTime	time;
	Event	   *event;			/* MAXALIGNed */
	bool		partial;
	int			nruns;			/* of windows that missed it, if partial */
	Oid		   *views;
	int64	   *first;
	int64	   *last;
} SetAsideRow;

/* A window that gets readmitted events. */
typedef struct ReadmitWindow
{
	WindowKey	key;			/* hash key */
	SchedView  *view;
	EventTime	end;
	bool		closed;			/* it is final, or was reopened: its events have to be counted again */
	bool		found;			/* there is a row */
	int64		counted;		/* events in the row */
	int64		stored;			/* events that the stream holds of it */
	int64		added;			/* events that come back to the stream */
	int64		missed;			/* events that the stream holds and it missed */
	int64		id;				/* of one of these */
} ReadmitWindow;

extern int	store_set_aside_read(Oid stream, const int64 *ids, int n, SetAsideRow *rows);
extern void store_set_aside_delete(const int64 *ids, int n);
extern void store_windows_readmit(ReadmitWindow *const *windows, int n, EventTime watermark);
extern void store_stream_window_end(Oid stream, EventTime last_window_end);

/* ---- request_service.c ---- */
extern bool requests_take(void);	/* true if there are new ones */
extern void requests_resolve(int64 now);	/* wants the passes that they need */
extern void requests_passed(SchedStream *stream, int64 now);	/* a pass over it has committed */
extern void requests_restart(SchedStream *stream);
extern void requests_serve(int64 now);
extern int64 requests_next(int64 now);	/* when to look again */
extern bool requests_waiting(const SchedStream *stream);

#endif							/* AION_SCHEDULER_H */
