/*
 * stream.h
 *	  A stream: its options, its storage, and how other layers reach them.
 *
 * stream_lookup() is the one way to a stream's definition. Entries live in a
 * backend-local cache and are rebuilt after an invalidation of the foreign
 * table; a pointer is good until the transaction ends, but describes the stream
 * for sure only while the caller holds a lock on it, so: lock the stream first.
 */
#ifndef AION_STREAM_H
#define AION_STREAM_H

#include "postgres.h"
#include "nodes/parsenodes.h"
#include "utils/rel.h"

#include "store/accounted.h"
#include "store/event.h"
#include "store/storage.h"
#include "time/late_histogram.h"
#include "time/lateness.h"
#include "time/watermark.h"
#include "time/window.h"

typedef enum OnExpired
{
	ON_EXPIRED_KEEP,
	ON_EXPIRED_DROP,
	ON_EXPIRED_ERROR
} OnExpired;

typedef struct StreamOptions
{
	char	   *event_time;		/* column name */
	int64		bucket_width;	/* microseconds; 0: not given */
	WatermarkConfig watermark;	/* delay, idle time-out, max_ahead, manual */
	int64		watermark_interval; /* microseconds of processing time */
	Lateness	allowed_lateness;	/* default: automatic */
	double		lateness_coverage;	/* of an automatic one: this share of late events ... */
	double		lateness_confidence;	/* ... is within it with this probability */
	OnExpired	on_expired;
	bool		durable;
	bool		compress;
} StreamOptions;

/* How a stored column relates to the stream's. */
typedef struct StoredColumn
{
	AttrNumber	attnum;			/* in the foreign table */
	bool		as_text;		/* its stored form would contain OIDs */
} StoredColumn;

typedef struct StreamInfo
{
	Oid			relid;
	StreamOptions options;
	bool		has_storage;	/* registered: storage's relations exist */
	bool		elsewhere;		/* registered by another database: being restored, can only be read */
	StreamStorage storage;		/* journal etc. InvalidOid while !has_storage; stored is always set */
	EventLayout *layout;		/* of events as storage.stored has them */
	StoredColumn *columns;		/* storage.stored->natts of them */
	bool		identity;		/* stored tuple == row of the table: no dropped or as_text column, no missing values */
	AttrNumber	time_attnum;	/* of the event time, in the foreign table */
	bool		time_is_timestamp;	/* "timestamp", read as UTC */
} StreamInfo;

/* GUC aion.initial_lateness, in seconds (30 days): of an automatic one, the first and the greatest. */
extern int	aion_initial_lateness;

/* Errors out (ERRCODE_WRONG_OBJECT_TYPE and the like) if relid is no stream, unless missing_ok: NULL. */
extern const StreamInfo *stream_lookup(Oid relid, bool missing_ok);

/* Errors out if the stream is being restored. */
extern void stream_check_home(const StreamInfo *info);

/* True if the stream's events can't be read here: not being logged, they are not on a standby. */
extern bool stream_out_of_reach(const StreamInfo *info);

/* True if relid is a foreign table of the wrapper "aion". */
extern bool stream_is_stream(Oid relid);

/*
 * Makes journal, p-bucket table and registry rows if the stream has none yet;
 * bucket_width (microseconds) counts only then and if the option is not set.
 * The caller holds at least RowExclusiveLock on the stream; takes a
 * self-exclusive lock on it until commit only if there is something to make.
 * Returns the refreshed entry.
 */
extern const StreamInfo *stream_register(Oid relid, int64 bucket_width);

/* All registered streams of this database (OIDs), under the active snapshot. */
extern List *stream_list(void);

/* The journals of all streams, of those that are being restored as well, under the active snapshot. */
extern List *stream_journals(void);

/*
 * Called for a stream that was truncated, in the truncating transaction, after
 * its storage was replaced; and for a column about to be dropped, retyped or
 * renamed (attnum) so that the view layer can refuse. Set by the view layer.
 */
typedef void (*StreamTruncateHook) (Oid stream);
extern StreamTruncateHook stream_truncate_hook;

/* When dependencies are recorded again, which dumps and pg_upgrade do not carry. */
typedef enum TieTime
{
	TIE_UPGRADED,				/* waits for no lock */
	TIE_RESTORING,				/* rows of a dump have come: leaves alone what is not a part for sure */
	TIE_RESTORED				/* all of it has: errors out on that */
} TieTime;

/*
 * Called for a stream, to record the dependencies of its views; false: some view was locked. Set by the view layer.
 */
typedef bool (*StreamTieHook) (Oid stream, TieTime time);
extern StreamTieHook stream_tie_hook;

/* adopt.c: records what dependencies of the stream and its views are missing; false: to be tried again. */
extern bool stream_tie(Oid relid, TieTime time);

/* What a view does with the events of its stream, as of now. Set by the view layer; a list of these, palloc'd. */
typedef struct StreamWindows
{
	Oid			view;
	WindowSpec	window;
	Lateness	allowed_lateness;
	bool		paused;
} StreamWindows;
typedef List *(*StreamWindowsHook) (Oid stream);
extern StreamWindowsHook stream_windows_hook;

/* Relcache invalidation sent to this table tells the scheduler to reload definitions. */
extern void stream_definitions_changed(void);

/* Set by the worker layer: wakes the scheduler of this database after commit. */
typedef void (*StreamWakeHook) (void);
extern StreamWakeHook stream_wake_hook;

/* options.c */
extern void stream_parse_options(List *options, StreamOptions *result);	/* errors out on a bad one */

/* late_bound.c: what follows from the options, for src/time/late_histogram.h */
extern void stream_late_bound_config(double coverage, double confidence, LateBoundConfig *config);
extern double stream_late_memory(const LateBoundConfig *config);

/* ddl.c: called by aion.c's hooks; see there for when */
extern void stream_ddl_init(void);
/* registry.c */
extern void stream_registry_init(void);
/* truncate.c: ExecForeignTruncate */
extern void stream_exec_truncate(List *rels, DropBehavior behavior, bool restart_seqs);
/* ingest.c */
extern void stream_ingest_init(void);

/* ingest.c: true if this transaction has written to a stream (sync and refresh are refused then). */
extern bool stream_transaction_has_written(void);

/* ingest.c: puts "advance the watermark to t" into the stream's journal, as events are. */
extern void stream_ingest_control(Oid relid, EventTime t);

/* window_context.c: the window that a firing runs in; scans of that stream yield its events alone. */
typedef struct StreamWindow
{
	Oid			stream;
	EventTime	start;
	EventTime	end;
	struct Accounted *set;		/* events of these transactions count */
	Size		stage_ahead;	/* bytes of events that a scan has staged ahead of itself; 0: it reads by itself */
	int64		waited_us;		/* that scans have waited for staging */
} StreamWindow;

extern void stream_window_set(StreamWindow *window);	/* which stays the caller's */
extern void stream_window_unset(void);	/* safe to call when none is set */
extern StreamWindow *stream_window_get(Oid stream); /* InvalidOid: of whichever; NULL: none */

/* owner.c: acting as the stream's owner, where code of his is run that somebody else comes upon */
typedef struct StreamOwnerSave
{
	Oid			user;
	int			sec_context;
	int			guc_level;
} StreamOwnerSave;

extern void stream_become_owner(Oid stream, StreamOwnerSave *save);
extern void stream_become_self(const StreamOwnerSave *save);

/* unpack.c: a packed event as json, names of its stored columns as keys (pinned, locale-free output). */
extern Datum stream_event_to_jsonb(const StreamInfo *stream, const Event *event);

/*
 * event_check.c: packed events, checked against the stream's constraints as INSERT does it, with its errors.
 * The caller keeps a lock on the stream, and leaves the rest to the end of the transaction after an error. He acts as
 * the stream's owner from begin to end.
 */
typedef struct EventCheck EventCheck;
extern EventCheck *event_check_begin(Relation rel, const StreamInfo *info);
extern void event_check(EventCheck *check, const Event *event);
extern void event_check_end(EventCheck *check);

/* event_check.c: differs if constraints differ that event_check() looks at. */
extern uint64 stream_constraints_hash(Relation rel);

#endif							/* AION_STREAM_H */
