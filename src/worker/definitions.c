/*
 * definitions.c
 *	  Which streams and views this database has, and what the tables say of them.
 *
 * A relcache invalidation of aion.stream_def says that something was created,
 * altered, truncated or dropped; the lists are then read again and compared. What is
 * new, or was replaced, is loaded from the state tables in a transaction of its
 * own, as is everything after an error. A stream that somebody has locked
 * exclusively stays as it was and is looked at again soon: nothing here waits.
 *
 * Journals that no stream has any more are forgotten by the store.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "store/mbucket.h"
#include "stream/extension.h"
#include "worker/scheduler.h"

#define LOCKED_DELAY (100 * 1000)	/* microseconds */

typedef struct ViewRef
{
	Oid			view;			/* hash key */
	SchedView  *entry;
} ViewRef;

/* aion.stream_def, as of the last reload. */
static Oid	definitions_relid = InvalidOid;

static void
definitions_invalidated(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == definitions_relid)
		scheduler.definitions_changed = true;
}

void
definitions_init(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(SchedStream);
	ctl.hcxt = scheduler.context;
	scheduler.streams = hash_create("aion streams", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.entrysize = sizeof(ViewRef);
	scheduler.views = hash_create("aion views", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(definitions_invalidated, (Datum) 0);
	scheduler.definitions_changed = true;
	scheduler.reload_at = MONO_NEVER;
}

List *
sched_streams(void)
{
	List	   *streams = NIL;
	HASH_SEQ_STATUS seq;
	SchedStream *stream;

	hash_seq_init(&seq, scheduler.streams);
	while ((stream = hash_seq_search(&seq)) != NULL)
		streams = lappend(streams, stream);
	return streams;
}

SchedStream *
sched_stream(Oid relid)
{
	return hash_search(scheduler.streams, &relid, HASH_FIND, NULL);
}

SchedView *
sched_view(Oid view)
{
	ViewRef    *ref = hash_search(scheduler.views, &view, HASH_FIND, NULL);

	return ref == NULL ? NULL : ref->entry;
}

/*
 * The lateness that a window is made with, in microseconds. Where it is unlimited, what the trigger
 * takes it for: as much as 'auto' would allow.
 */
int64
view_window_lateness(const SchedView *view, EventTime end)
{
	/* automatic ones are among them */
	if (view->def.allowed_lateness.unlimited)
		return view->stream->late->bound.bound;
	return int64_sub_saturating(event_time_add(end, &view->def.allowed_lateness), end);
}

/* After W_e or an allowed lateness changed. */
void
stream_set_thresholds(SchedStream *stream)
{
	EventTime	watermark = stream->watermark.event_watermark;
	ListCell   *lc;

	stream->threshold = stream->options.allowed_lateness.automatic ? stream->late->expired_through :
		lateness_threshold(watermark, &stream->options.allowed_lateness);
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		view->limit = view_expiry_limit(view, watermark);
		view->threshold = view->def.allowed_lateness.automatic ? stream->late->expired_through : view->limit;
		view->retain_threshold = lateness_threshold(watermark, &view->def.retain);
	}
}

/* After an error: what this process remembers may be wrong. */
void
definitions_forget_state(void)
{
	HASH_SEQ_STATUS seq;
	SchedStream *stream;
	ListCell   *lc;

	scheduler.definitions_changed = true;
	hash_seq_init(&seq, scheduler.streams);
	while ((stream = hash_seq_search(&seq)) != NULL)
	{
		stream->loaded = false;
		foreach(lc, stream->views)
			((SchedView *) lfirst(lc))->loaded = false;
	}
}

/* ---- reading definitions ---- */

static bool
same_lateness(const Lateness *a, const Lateness *b)
{
	return a->unlimited == b->unlimited && a->automatic == b->automatic && a->months == b->months &&
		a->days == b->days && a->usecs == b->usecs;
}

/* A stream as its definition says now. */
static void
note_stream(const StreamInfo *info)
{
	bool		found;
	SchedStream *stream = hash_search(scheduler.streams, &info->relid, HASH_ENTER, &found);

	if (!found)
	{
		memset((char *) stream + sizeof(Oid), 0, sizeof(*stream) - sizeof(Oid));
		stream->pass_at = MONO_NEVER;
		due_init_stream(stream);
		auto_lateness_init(stream);
	}
	else if (stream->storage.journal != info->storage.journal)
	{
		ListCell   *lc;

		/* truncated: everything of it is new */
		stream->loaded = false;
		stream->checked = false;
		stream->published = false;
		stream->journal_only = 0;
		stream->fold_first = false;
		foreach(lc, stream->views)
			((SchedView *) lfirst(lc))->loaded = false;
	}
	else if (!same_lateness(&stream->options.allowed_lateness, &info->options.allowed_lateness))
		stream->wait_purge = true;
	stream->storage = info->storage;
	stream->storage.stored = NULL;
	stream->options = info->options;
	stream->options.event_time = NULL;
	stream->seen = true;
	if (stream->loaded)
		stream_set_thresholds(stream);
}

/* Reads the streams. False: some could not be locked. */
static bool
note_streams(List *relids)
{
	bool		all = true;
	ListCell   *lc;

	foreach(lc, relids)
	{
		Oid			relid = lfirst_oid(lc);
		const StreamInfo *info;

		if (!ConditionalLockRelationOid(relid, AccessShareLock))
		{
			SchedStream *stream = sched_stream(relid);
			ListCell   *lv;

			/* stays as it was known, and so do its views, which view_list() leaves out */
			if (stream != NULL)
			{
				stream->seen = true;
				foreach(lv, stream->views)
					((SchedView *) lfirst(lv))->seen = true;
			}
			all = false;
			continue;
		}
		info = stream_lookup(relid, true);
		if (info != NULL && info->has_storage)
			note_stream(info);
	}
	return all;
}

static char *
view_name(Oid view)
{
	char	   *name = get_rel_name(view);
	char	   *schema = get_namespace_name(get_rel_namespace(view));

	if (name == NULL || schema == NULL)
		return MemoryContextStrdup(scheduler.context, "?");
	return MemoryContextStrdup(scheduler.context, quote_qualified_identifier(schema, name));
}

static SchedView *
make_view(const ContinuousView *def, SchedStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(scheduler.context);
	SchedView  *view = palloc0(sizeof(SchedView));
	ViewRef    *ref = hash_search(scheduler.views, &def->view, HASH_ENTER, NULL);

	ref->entry = view;
	view->def = *def;
	view->stream = stream;
	view_heaps_init(view);
	trigger_init(view);
	stream->views = lappend(stream->views, view);
	MemoryContextSwitchTo(old);
	return view;
}

/* A view as its definition says now. */
static void
note_view(const ContinuousView *def, SchedStream *stream, int64 now)
{
	SchedView  *view = sched_view(def->view);
	ContinuousView before;

	if (view == NULL)
	{
		view = make_view(def, stream);
		view->name = view_name(def->view);
		view->seen = true;
		return;
	}
	before = view->def;
	view->def = *def;
	view->seen = true;
	view->hold.until = 0;
	pfree(view->name);
	view->name = view_name(def->view);
	if (!same_lateness(&before.allowed_lateness, &def->allowed_lateness))
	{
		/* Windows may have had their lateness that now have not, and the reverse. */
		stream->wait_purge = true;
		view->loaded = false;
	}
	if (!same_lateness(&before.retain, &def->retain))
		stream_want_pass(stream, now);	/* which sets the threshold */
	if (before.paused != def->paused || before.early != def->early || before.staleness != def->staleness)
	{
		if (def->paused)
			view_unschedule_all(view);
		else
			view_schedule_news(view, now);
		stream_want_pass(stream, now);
	}
}

static void
drop_view(SchedView *view)
{
	Oid			relid = view->def.view;

	window_table_drop_view(view);
	view->stream->views = list_delete_ptr(view->stream->views, view);
	pairingheap_free(view->unfired);
	pairingheap_free(view->overdue);
	pairingheap_free(view->unfinal);
	pairingheap_free(view->expiring);
	pfree(view->name);
	pfree(view);
	hash_search(scheduler.views, &relid, HASH_REMOVE, NULL);
}

static void
drop_stream(SchedStream *stream)
{
	while (stream->views != NIL)
		drop_view(linitial(stream->views));
	control_unpublish(stream->relid);
	if (stream->accounted != NULL)
		pfree(stream->accounted);
	pairingheap_free(stream->waiting);
	pfree(stream->late);
	hash_search(scheduler.streams, &stream->relid, HASH_REMOVE, NULL);
}

/* Drops what was not seen, and says of the rest whether purging may go on. */
static void
drop_unseen(void)
{
	List	   *streams = sched_streams();
	ListCell   *lc;

	foreach(lc, streams)
	{
		SchedStream *stream = lfirst(lc);
		List	   *views = list_copy(stream->views);
		ListCell   *lv;

		if (!stream->seen)
		{
			drop_stream(stream);
			continue;
		}
		foreach(lv, views)
		{
			SchedView  *view = lfirst(lv);

			if (!view->seen)
				drop_view(view);
			else if (!view->taken_up)
				stream->wait_purge = true;
		}
		if (stream->wait_purge)
		{
			publish_no_purge(stream);
			stream_want_pass(stream, mono_now());
		}
	}
}

/*
 * Journals in shared memory that are no stream's. "journals" was listed before the streams were. A stream that is
 * just being taken over may have events there, and counts though its definition isn't known yet: "named" are the journals
 * that definitions name. False: not all could be forgotten.
 */
static bool
forget_journals(List *journals, List *streams, List *named)
{
	ListCell   *lc;
	bool		all = true;

	foreach(lc, journals)
	{
		Oid			journal = lfirst_oid(lc);
		bool		used = list_member_oid(named, journal);
		ListCell   *ls;

		foreach(ls, streams)
			used |= ((SchedStream *) lfirst(ls))->storage.journal == journal;
		if (!used)
			all &= mbucket_forget(journal);
	}
	return all;
}

static void
mark_unseen(void)
{
	List	   *streams = sched_streams();
	ListCell   *lc;

	foreach(lc, streams)
	{
		SchedStream *stream = lfirst(lc);
		ListCell   *lv;

		stream->seen = false;
		foreach(lv, stream->views)
			((SchedView *) lfirst(lv))->seen = false;
	}
}

/*
 * Reads all definitions, in a transaction of its own. False: there is no
 * extension any more.
 */
bool
definitions_reload(int64 now)
{
	List	   *journals;
	List	   *streams;
	List	   *views;
	bool		all;
	ListCell   *lc;

	StartTransactionCommand();
	scheduler.definitions_changed = false;
	scheduler.reload_at = MONO_NEVER;
	journals = mbucket_journals();
	if (!extension_installed())
	{
		/* what is being looked at just now waits for the extension to be made again */
		(void) forget_journals(journals, NIL, NIL);
		CommitTransactionCommand();
		return false;
	}
	definitions_relid = extension_relation("stream_def");
	if (!store_lock_tables())
	{
		CommitTransactionCommand();
		scheduler.reload_at = now + LOCKED_DELAY;
		return true;
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	mark_unseen();
	streams = stream_list();
	all = note_streams(streams);
	views = view_list();
	foreach(lc, views)
	{
		const ContinuousView *def = lfirst(lc);
		SchedStream *stream = sched_stream(def->stream);

		if (stream != NULL)
			note_view(def, stream, now);
	}
	drop_unseen();
	if (!all || !forget_journals(journals, sched_streams(), stream_journals()))
		scheduler.reload_at = now + LOCKED_DELAY;
	view_forget_dropped();
	if (all)
		view_forget_missed(streams);
	PopActiveSnapshot();
	CommitTransactionCommand();
	DEBUG_POINT("definitions-reloaded");
	return true;
}

/* ---- loading state ---- */

/* A reason that stays, for one that was read. */
static const char *
intern_reason(const char *reason)
{
	static const char *const known[] = {REASON_PURGED, REASON_SET_ASIDE, REASON_STATE_LOST};

	if (reason == NULL)
		return NULL;
	for (int i = 0; i < lengthof(known); i++)
		if (strcmp(reason, known[i]) == 0)
			return known[i];
	return REASON_EXPIRED;
}

typedef struct WindowLoad
{
	SchedView  *view;
	int64		now;
	TimestampTz clock;
} WindowLoad;

/* WindowRowSink */
static void
load_window(void *arg, const WindowRow *row)
{
	WindowLoad *load = arg;
	Window	   *window = window_make(load->view, row->start);

	window->events = row->events;
	window->fired_events = row->fired_events;
	window->lateness = row->lateness;
	trigger_late_events(window, row->late_events, EVENT_TIME_NEVER);
	window->incomplete = intern_reason(row->incomplete);
	window->reopened = row->reopened;
	window->fired = row->on_time > 0;
	window->final_counted = row->final > 0;
	if (window->reopened && window->fired && window->events <= window->fired_events && !row->failed)
		window_finalize_next(window);	/* no pass would look at it: it has had its lateness */
	/* A failure that may pass is simply tried again; so is another, once. */
	window_set_failed(window, row->failed && !row->transient);
	trigger_load(window, row->on_time_clock, row->fired_clock);
	if (row->last_fired_at != 0)
		window->last_tried = load->now - Max(0, load->clock - row->last_fired_at);
	window_enter_heaps(window);
	window_set_news(window);
}

/* What is known of the late events of earlier windows. */
static void
load_forecast(SchedView *view, const ViewStateRow *row)
{
	Datum	   *counts;
	int			n;

	if (row->late_counts != NULL)
	{
		deconstruct_array(row->late_counts, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
						  &counts, NULL, &n);
		for (int i = 0; i < n; i++)
			late_forecast_add(&view->forecast, DatumGetInt64(counts[i]));
	}
	if (row->late_arrivals != NULL)
		trigger_unpack_arrivals(view, row->late_arrivals);
}

static void
load_view(SchedView *view, int64 now)
{
	ViewStateRow row;
	WindowLoad	load = {view, now, GetCurrentTimestamp()};

	window_table_drop_view(view);
	view->final_firings = 0;
	trigger_init(view);
	view->final_through = view->final_until = view->begins = view->incomplete_before = EVENT_TIME_NEVER;
	view->results_removed = view->removing = EVENT_TIME_NEVER;
	view->removed_changed = false;
	view->taken_up = store_view_load(view->def.view, &row);
	if (!view->taken_up)
		return;
	view->final_through = row.final_through;
	view->final_until = row.final_until;
	view->begins = row.begins;
	view->incomplete_before = row.incomplete_before;
	view->results_removed = row.results_removed;
	load_forecast(view, &row);
	store_windows_load(view->def.view, load_window, &load);
}

static void
load_stream_row(SchedStream *stream, int64 now)
{
	StreamStateRow row;
	MemoryContext old;

	if (!store_stream_load(stream->relid, &row))
		elog(ERROR, "stream %u has no row in aion.stream_state", stream->relid);
	old = MemoryContextSwitchTo(scheduler.context);
	if (stream->accounted != NULL)
		pfree(stream->accounted);
	stream->accounted = accounted_from_text(row.accounted);
	MemoryContextSwitchTo(old);
	stream->watermark.watermark = row.watermark;
	stream->watermark.event_watermark = row.event_watermark;
	stream->last_window_end = row.last_window_end;
	lateness_clock_load(stream, &row, now);
	stream->speed = 0;
	stream->speed_w = row.event_watermark;
	stream->speed_at = now;
	stream->last_pass = 0;
	stream->last_activity = now;
	stream->last_idle = now;
	stream->rows_purged = EVENT_TIME_NEVER;
	auto_lateness_load(stream, &row, now);
}

/* True if something of the stream is to be loaded. */
bool
stream_wants_load(const SchedStream *stream)
{
	ListCell   *lc;

	if (!stream->loaded)
		return true;
	foreach(lc, stream->views)
		if (!((SchedView *) lfirst(lc))->loaded)
			return true;
	return false;
}

/* After the commit: places loaded windows, and wants the pass that takes up what is new. */
static void
stream_loaded(SchedStream *stream, List *views, int64 now)
{
	ListCell   *lc;

	stream->loaded = true;
	stream_set_thresholds(stream);
	foreach(lc, views)
	{
		SchedView  *view = lfirst(lc);

		view->loaded = true;
		dispatch_mark_running(view);
		if (!view->taken_up)
			stream->wait_purge = true;
		else if (!view->def.paused)
		{
			windows_pass_end(view);
			view_schedule_news(view, now);
			(void) trigger_expects_less(view);
		}
	}
	if (stream->wait_purge)
		publish_no_purge(stream);
	requests_restart(stream);
	stream_want_pass(stream, now);
}

/* In a transaction of its own. */
static void
load_stream(SchedStream *stream, int64 now)
{
	const StreamInfo *info;
	List	   *views = NIL;
	ListCell   *lc;
	MemoryContext old = CurrentMemoryContext;

	StartTransactionCommand();
	info = store_lock_tables() && ConditionalLockRelationOid(stream->relid, AccessShareLock) ?
		stream_lookup(stream->relid, true) : NULL;
	if (info == NULL || !info->has_storage || info->storage.journal != stream->storage.journal ||
		(!stream->checked && !stream_tie(stream->relid, TIE_UPGRADED)))
	{
		CommitTransactionCommand();
		MemoryContextSwitchTo(old);
		scheduler.reload_at = now + LOCKED_DELAY;
		return;
	}
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to the SPI manager");
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!stream->checked)
		repair_lost_state(info, stream);
	if (!stream->loaded)
		load_stream_row(stream, now);
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (view->loaded)
			continue;
		load_view(view, now);
	}
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
	DEBUG_POINT("state-loaded");
	MemoryContextSwitchTo(old);
	stream->checked = true;
	foreach(lc, stream->views)
		if (!((SchedView *) lfirst(lc))->loaded)
			views = lappend(views, lfirst(lc));
	stream_loaded(stream, views, now);
}

/* Loads what is not loaded yet. */
void
definitions_load(int64 now)
{
	List	   *streams = sched_streams();
	ListCell   *lc;

	foreach(lc, streams)
		if (stream_wants_load(lfirst(lc)))
			load_stream(lfirst(lc), now);
}
