/*
 * control.h
 *	  Shared state of the workers: databases, processes, published facts, jobs,
 *	  requests.
 *
 * Fixed size, outside aion.memory: nothing here grows with data. One LWLock
 * (the control lock) guards all but what is marked "atomic"; the functions
 * below take it for a few instructions at a time, none waits while holding it
 * (I8), none raises an error unless it says so. Lock order: see src/README.md
 * (the control lock is a leaf: nothing is acquired under it).
 *
 * All of it is a cache of intentions: after a restart of shared memory the
 * scheduler finds everything in the tables again. Whoever dies leaves nothing
 * behind that another would wait for (see worker_begin in worker.h, and
 * request_wait). All functions work on the current database (MyDatabaseId)
 * unless they take one.
 */
#ifndef AION_CONTROL_H
#define AION_CONTROL_H

#include "postgres.h"
#include "access/transam.h"
#include "datatype/timestamp.h"
#include "storage/dsm_impl.h"
#include "storage/latch.h"

#include "time/eventtime.h"
#include "view/view.h"

typedef enum WorkerRole
{
	WORKER_LAUNCHER,
	WORKER_SCHEDULER,
	WORKER_IO,
	WORKER_EXECUTOR,
	WORKER_SERIALIZER
} WorkerRole;

#define WORKER_ROLES 5

#define CONTROL_DATABASES	64		/* served at a time */
#define CONTROL_WORKERS		256		/* live worker processes, remembered errors */
#define CONTROL_STREAMS		1024	/* streams with published facts */
#define CONTROL_JOBS		256		/* windows handed to executors and not collected */
#define CONTROL_REQUESTS	256		/* sync, refresh, ... waiting */

extern Size control_shmem_size(void);
extern void control_shmem_request(void);
extern void control_shmem_startup(void);
extern void worker_init(void);	/* GUC-independent set-up: hooks, static launcher; from _PG_init while preloading */

/* True if the library was preloaded, so that the shared state exists. */
extern bool control_available(void);

/* Errors out, with a hint that names shared_preload_libraries, unless control_available(). */
extern void control_require(void);

/* Copies text into a field of shared memory; what does not fit is cut off between two characters. */
extern void control_copy_text(char *field, Size size, const char *text);

/* ---- databases ---- */

/*
 * Asks the launcher to look at a database (again), InvalidOid: at which databases there are. "afresh":
 * whatever ended its last scheduler is no reason to wait before the next. Any process, also in
 * a transaction callback.
 */
extern void control_poke(Oid database, bool afresh);

/*
 * Wakes this database's scheduler if it asked for that (control_sleep), or
 * pokes the launcher, at most once a second per process, if there is none. Cheap
 * (no lock) when there is nothing to do; callable in a transaction callback.
 * Installed as stream_wake_hook. To be called after what it announces is
 * visible (in the inbox, or committed).
 */
extern void control_wake(void);

/* True if this database has a scheduler. */
extern bool control_served(void);

/* Sets the scheduler's latch in any case, if there is one. */
extern void control_wake_scheduler(void);

/* The same of the I/O worker. False: there is none; one that starts will look at everything. */
extern bool control_wake_io(void);

/*
 * Scheduler: says whether control_wake() is to set its latch. The order is:
 * control_sleep(true), look once more whether anything is pending, WaitLatch,
 * ResetLatch, control_sleep(false). false while it works, or sleeps to the end
 * of a watermark_interval after which it will look anyway.
 */
extern void control_sleep(bool wants_wake);

/*
 * Scheduler: there is no extension here, so all workers of this database are to leave. To be called before
 * it leaves itself; the launcher starts it again on a poke only.
 */
extern void control_no_extension(void);

/* Scheduler: true once after an I/O worker of this database has left for any reason but want of work. */
extern bool control_take_io_unfinished(void);

/* True if this database's workers have to leave: it is barred (database DDL is under way) or shut. */
extern bool control_barred(void);

/* Launcher and database DDL. */
typedef struct PokedDatabases
{
	bool		all;
	int			n;
	Oid			databases[CONTROL_DATABASES];
	bool		afresh[CONTROL_DATABASES];
} PokedDatabases;

extern void control_take_pokes(PokedDatabases *pokes);
extern bool control_database_open(Oid database);	/* makes an entry; false: barred, or no room */
extern bool control_database_close(Oid database);	/* frees the entry unless barred or used; true: its scheduler found no extension */
extern int	control_databases(Oid databases[CONTROL_DATABASES]);	/* those that have an entry */
extern void control_database_shut(Oid database);	/* its workers are to leave, until it is opened again */
extern void control_database_waiting(Oid database, bool waiting);	/* for a worker slot to run its scheduler in */
extern bool control_bar(Oid database);	/* false: no room for an entry, without which it has no workers */
extern void control_unbar(Oid database);

/* Databases that wait for a worker slot, and since when; returns how many. */
extern int	control_databases_waiting(Oid databases[CONTROL_DATABASES],
									  TimestampTz since[CONTROL_DATABASES]);

/* ---- published facts: scheduler to I/O worker, and back ---- */

/*
 * What the I/O worker goes by, one per stream. An entry is for one life of a
 * stream: publishing another journal (after TRUNCATE) starts it anew. "wanted" and
 * "done" are counters: done >= wanted = nothing to do. A new entry wants
 * one fold (what the journal holds from before this start of shared memory).
 */
typedef struct StreamFacts
{
	Oid			database;
	Oid			stream;
	Oid			journal;
	EventTime	past_before;	/* scheduler: buckets ending at or before are past */
	EventTime	purge_before;	/* scheduler: events of buckets ending at or before are to be purged */
	EventTime	purged_before;	/* I/O: purge_before of the last purge committed */
	uint64		fold_wanted;	/* scheduler */
	uint64		fold_done;		/* I/O */
	uint64		destage_wanted;	/* scheduler: everything accounted out of memory and journal */
	uint64		destage_done;	/* I/O */
	double		stage_cost;		/* I/O: microseconds that staging takes per event; PRESTAGE_COST_UNKNOWN */
} StreamFacts;

/*
 * Scheduler: publishes past_before and purge_before (EVENT_TIME_NEVER: none),
 * and asks for a fold (a destage) more if told so. Sets *facts (if not NULL) to the entry as
 * it is then, so destage_wanted there is the number to wait for. Does not set
 * the I/O worker's latch: control_wake_io() does, after worker_start() if there is none.
 * False: no room. Then the caller keeps a StreamFacts of its own (zeroed,
 * then fold_wanted = 1, purged_before = EVENT_TIME_NEVER) and
 * does the I/O itself with io_stream_once(&facts).
 */
extern bool control_publish(Oid stream, Oid journal, EventTime past_before, EventTime purge_before,
							bool fold, bool destage, StreamFacts *facts);

/* Frees the entry of a stream that is gone (InvalidOid: of all streams of the database). */
extern void control_unpublish(Oid stream);

/* The entry of one stream; false: none. All entries of the database, palloc'd. */
extern bool control_facts(Oid stream, StreamFacts *facts);
extern StreamFacts *control_all_facts(int *n);

/* I/O worker: records progress (the three "done" fields) and sets the scheduler's latch if any of them moved. */
extern void control_progress(const StreamFacts *facts);

/* I/O worker: has staged so many events of a stream in so many microseconds. */
extern void control_stage_measured(Oid stream, int64 duration, int64 events);

/* ---- jobs: scheduler to executors, and back ---- */

typedef struct Job
{
	Oid			view;
	Oid			journal;		/* of its stream: see view_fire() */
	EventTime	window_start;
	FiringKind	kind;
	bool		final_too;
	EventTime	clock;			/* the lateness clock of the stream */
	bool		removal;		/* no firing: removes results of windows up to this one */
	int64		priority;		/* smaller goes first */
	/* when done: */
	FiringOutcome outcome;		/* FIRING_RETRY too if the executor was lost */
	int64		fired_events;	/* of a removal: start of the last window whose results are gone */
} Job;

/*
 * Scheduler: queues a job and sets the latches of idle executors; false: no
 * room. At most one job per window should be outstanding. The caller starts executors
 * (worker_start) as it sees fit.
 */
extern bool control_job_post(const Job *job);

/* Scheduler: takes up to max finished jobs; returns their number. Their slots are free then. */
extern int	control_jobs_collect(Job *jobs, int max);

/* Scheduler: takes a queued job (the first by priority) to do itself: no executor could be started. False: none queued. */
extern bool control_job_take(Job *job, int *slot);

/* Executor: the outcome of a job taken with control_job_take(); sets the scheduler's latch. */
extern void control_job_finish(int slot, FiringOutcome outcome, int64 fired_events);

/*
 * Installed as view_stop_hook: asks whoever runs a job of the view to end it, by SIGUSR2. The signal is worth
 * nothing by itself: its handler looks whether the job that the process is running is meant, so one that comes late
 * stops nothing else.
 */
extern void control_jobs_stop(Oid view);
extern void control_stop_handler(SIGNAL_ARGS);

/* Installed as view_stopped_hook: true if the job that this process is running was stopped. */
extern bool control_job_stopped(void);

/* Does it, in whatever worker; executor.c. */
extern FiringOutcome job_execute(const Job *job, int64 *fired_events);

/* How long the latest executions took that gave a result: up to POLICY_EXECUTIONS numbers; returns how many. */
extern int	control_execution_times(int32 *ms);

/* Scheduler: true if somebody has been executing that window for so many ms. */
extern bool control_job_runs(Oid view, EventTime window_start, int ms);

/* Jobs of this database that are running. */
extern int	control_jobs_running(void);

/* Scheduler, at its start: forgets jobs of its predecessor; those running end unnoticed. */
extern void control_jobs_reset(void);

/* ---- requests: backends to the scheduler ---- */

typedef enum RequestKind
{
	REQUEST_SYNC,				/* relation = stream; late */
	REQUEST_REFRESH,			/* relation = view; one_window, time = window start */
	REQUEST_DESTAGE,			/* relation = stream */
	REQUEST_RESET_WATERMARK,	/* relation = stream; time = new W */
	REQUEST_READMIT				/* relation = stream; ids, nids */
} RequestKind;

typedef enum RequestResult
{
	REQUEST_OK,
	REQUEST_GONE,				/* no such (registered) stream or view */
	REQUEST_REFUSED				/* see message and sqlstate */
} RequestResult;

typedef struct Request
{
	/* set by the caller */
	RequestKind kind;
	Oid			relation;
	bool		late;
	bool		one_window;
	EventTime	time;
	dsm_handle	ids;			/* nids int64, distinct, ascending; the caller's segment */
	int			nids;
	uint64		constraints;	/* stream_constraints_hash() that the events were checked under */
	/* set by the scheduler */
	RequestResult result;
	int			failed_windows;	/* whose last attempt failed: a WARNING */
	int			paused_views;	/* that have something due: a WARNING */
	int			sqlstate;		/* of REQUEST_REFUSED */
	/* there is room for a qualified name, each part with as many quotes as can be */
	char		message[400];	/* of REQUEST_REFUSED, and an example of a failed window for the WARNING */
	char		detail[400];	/* of REQUEST_REFUSED; may be empty, as the hint */
	char		hint[200];
	FullTransactionId applied_by;	/* transaction that did, or was to do, what can't be done twice */
	/* private */
	uint64		id;				/* names this use of the slot */
	int			slot;
} Request;

/*
 * Caller: posts the request, wakes the scheduler (or pokes the launcher) and
 * waits until it is done; fills in the result fields. Returns false after timeout_ms
 * (-1: none), then the request is withdrawn. Errors out if there is no room, and on
 * interrupts (the request is withdrawn then too). Holds no lock, takes no xid.
 */
extern bool request_wait(Request *request, int64 timeout_ms);

/*
 * Scheduler: requests posted since the last call are copied (up to max) and
 * belong to the scheduler; to be called before the pass's snapshot is
 * taken, so that the pass covers what the caller committed.
 */
extern int	control_requests_take(Request *requests, int max);

/* Scheduler: true if the caller still waits (it may have been cancelled). */
extern bool control_request_waited_for(const Request *request);

/* Scheduler: keeps applied_by for a successor, before that transaction commits. */
extern void control_request_note(const Request *request);

/* Scheduler: done; result fields of *request go to the caller, whose latch is set. */
extern void control_request_finish(const Request *request);

/* Scheduler, at its start: what its predecessor took and did not finish counts as posted again. */
extern void control_requests_reset(void);

#endif							/* AION_CONTROL_H */
