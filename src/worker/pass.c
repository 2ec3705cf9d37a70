/*
 * pass.c
 *	  One accounting pass: a transaction that takes in what has arrived.
 *
 * In this order: lock aion's tables and the streams (those that someone holds exclusively
 * wait for a later pass), take the snapshot that decides what is accounted for,
 * then for each stream collect its arrivals, judge them by the W in force, take
 * up new views, move W, make windows final, and write all that to the tables;
 * commit; only then tell the store (arrivals_accounted), change what
 * this process remembers, and let windows fall due. So nothing acts on what a crash
 * could undo (I3, I9). A crash before the commit leaves nothing, one after it
 * leaves all: the next scheduler loads it from the tables, and the stored
 * set says that these arrivals were judged.
 *
 * Heaps of windows are changed before the commit; if the transaction fails,
 * the caller has everything loaded again (definitions_forget_state).
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "time/bucket.h"
#include "worker/purge_lock.h"
#include "worker/scheduler.h"

/* How long a stream that someone has locked is left alone, in microseconds. */
#define LOCKED_DELAY (20 * 1000)

/* What a pass allocates; kept until after its commit, so not part of the transaction. */
static MemoryContext pass_context = NULL;

/* The view's row in aion.view_state is to be written. */
void
pass_view_changed(StreamPass *pass, SchedView *view)
{
	MemoryContext old = MemoryContextSwitchTo(pass->context);

	pass->changed_views = list_append_unique_ptr(pass->changed_views, view);
	MemoryContextSwitchTo(old);
}

/* A window ending then is final from now on, or refused an event: one without a row must stay closed for good. */
void
pass_window_closed(StreamPass *pass, SchedView *view, EventTime end, int64 lateness)
{
	view->final_through = Max(view->final_through, end);
	view->final_until = Max(view->final_until, event_time_plus(end, lateness));
	pass_view_changed(pass, view);
}

/* True if the pass has found events for a window that it knew already. */
static bool
has_arrivals(StreamPass *pass, Window *window)
{
	WindowDelta *delta = hash_search(pass->deltas, &window->key, HASH_FIND, NULL);

	return delta != NULL && delta->events > 0;
}

/* The window becomes final in this transaction. */
static void
make_final(StreamPass *pass, Window *window)
{
	SchedView  *view = window->view;

	account_delta(pass, view, window->key.start)->final = true;
	pass->finals = lappend(pass->finals, window);
	if (!window->final_counted)
		view->final_firings++;
	if (!window->reopened)
		trigger_final(window);
	pass_window_closed(pass, view, window->end, window->lateness);
}

/* A window has had its lateness: it is final now, or has to be executed before. */
static void
window_moved(Window *window, void *arg)
{
	StreamPass *pass = arg;

	if (window->incomplete != NULL)
	{
		/* its row goes when it is purged, and must not be made anew should W be reset */
		pass->finals = lappend(pass->finals, window);
		pass_window_closed(pass, window->view, window->end, window->lateness);
	}
	else if (window->fired && !window->failed && !window_dirty(window) &&
			 window->place != PLACE_RUNNING && !has_arrivals(pass, window))
		make_final(pass, window);
	else
		pass->moved = lappend(pass->moved, window);
}

/* The same for incomplete windows that this very pass makes, of views that it takes up. */
static void
close_incomplete(StreamPass *pass)
{
	HASH_SEQ_STATUS seq;
	WindowDelta *delta;

	hash_seq_init(&seq, pass->deltas);
	while ((delta = hash_seq_search(&seq)) != NULL)
	{
		EventTime	expires = window_expires(delta->view, delta->end, delta->lateness);

		CHECK_FOR_INTERRUPTS();
		if (delta->incomplete != NULL && delta->window == NULL &&
			expires <= view_expiry_limit(delta->view, pass->watermark.event_watermark))
			pass_window_closed(pass, delta->view, delta->end, delta->lateness);
	}
}

/* Makes windows final that have nothing left to show. */
static void
finalize_windows(StreamPass *pass)
{
	ListCell   *lc;

	if (pass->taken_up != NIL)
		close_incomplete(pass);

	foreach(lc, pass->stream->views)
	{
		SchedView  *view = lfirst(lc);
		EventTime	limit;
		dlist_mutable_iter iter;

		if (view->def.paused || !view->taken_up)
			continue;
		dlist_foreach_modify(iter, &view->finalize)
		{
			Window	   *window = dlist_container(Window, finalize_node, iter.cur);

			if (!has_arrivals(pass, window))
				make_final(pass, window);
		}
		limit = view_expiry_limit(view, pass->watermark.event_watermark);
		windows_pass_lateness(view, limit, window_moved, pass);
	}
}

/* Events first, then what users said, then idle time. */
static void
move_watermark(StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	const WatermarkConfig *config = &stream->options.watermark;

	pass->watermark = stream->watermark;
	if (pass->greatest != EVENT_TIME_NEVER)
		watermark_observe(&pass->watermark, config, pass->greatest);
	if (pass->advance != EVENT_TIME_NEVER)
		watermark_advance(&pass->watermark, pass->advance);
	if (pass->events == 0 && pass->last_window_end != EVENT_TIME_NEVER)
		watermark_idle(&pass->watermark, config, stream->last_activity, stream->last_idle,
					   pass->mono, pass->last_window_end);
	pass->stand_still = lateness_clock_moved(stream, pass->watermark.event_watermark, pass->mono);
	Assert(pass->watermark.watermark >= stream->watermark.watermark);
	Assert(pass->watermark.event_watermark <= pass->watermark.watermark);
}

/* Rows of final windows all of whose buckets were purged go. */
static void
purge_rows(StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	int64		width = stream->storage.bucket_width;
	EventTime	purged = stream->facts.purged_before;
	ListCell   *lc;

	pass->rows_purged = stream->rows_purged;
	if (!stream->published || purged == EVENT_TIME_NEVER)
		return;
	purged = bucket_start(width, bucket_number(width, purged));
	if (purged <= stream->rows_purged)
		return;
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (view->taken_up)
			store_windows_purge(view->def.view, event_time_minus(purged, view->def.window.size));
	}
	pass->rows_purged = purged;
	DEBUG_POINT("pass-rows-purged");
}

/* Writes what the pass has found. */
static void
write_pass(StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	ListCell   *lc;

	auto_lateness_write(pass);
	store_windows_write(pass->deltas);
	foreach(lc, stream->views)
		if (((SchedView *) lfirst(lc))->removed_changed)
			pass_view_changed(pass, lfirst(lc));
	foreach(lc, pass->changed_views)
	{
		SchedView  *view = lfirst(lc);

		store_view_update(view, view->final_firings);
	}
	if (pass->arrivals->nitems > 0 ||
		pass->last_window_end != stream->last_window_end ||
		pass->expired_through != stream->late->expired_through ||
		pass->watermark.watermark != stream->watermark.watermark ||
		pass->watermark.event_watermark != stream->watermark.event_watermark)
		store_stream_update(pass);
	purge_rows(pass);
}

/* Everything between snapshot and commit for one stream. */
static StreamPass *
run_stream(SchedStream *stream, const StreamInfo *info, Snapshot snapshot, int64 now)
{
	StreamPass *pass = palloc0(sizeof(StreamPass));
	HASHCTL		ctl;

	pass->stream = stream;
	pass->info = info;
	pass->context = pass_context;
	pass->snapshot = snapshot;
	pass->now = GetCurrentTimestamp();
	pass->mono = now;
	pass->clock = lateness_clock(stream, now);
	pass->greatest = EVENT_TIME_NEVER;
	pass->advance = EVENT_TIME_NEVER;
	pass->last_window_end = stream->last_window_end;
	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(WindowKey);
	ctl.entrysize = sizeof(WindowDelta);
	ctl.hcxt = pass_context;
	pass->deltas = hash_create("aion pass", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	auto_lateness_begin(pass);
	take_up_prepare(pass);
	pass->arrivals = arrivals_collect(&info->storage, snapshot, stream->accounted);
	pass->accounted = accounted_from_snapshot(snapshot);
	account_arrivals(pass);
	take_up_views(pass);
	move_watermark(pass);
	finalize_windows(pass);
	write_pass(pass);
	return pass;
}

/* After the commit: what the pass has found about windows goes into memory. */
static void
apply_windows(StreamPass *pass)
{
	HASH_SEQ_STATUS seq;
	WindowDelta *delta;
	ListCell   *lc;

	foreach(lc, pass->finals)
		window_remove(lfirst(lc));
	hash_seq_init(&seq, pass->deltas);
	while ((delta = hash_seq_search(&seq)) != NULL)
	{
		Window	   *window = delta->window;

		CHECK_FOR_INTERRUPTS();
		if (delta->final || (delta->events == 0 && delta->incomplete == NULL))
			continue;
		if (window == NULL)
		{
			window = window_make(delta->view, delta->key.start);
			window->incomplete = delta->incomplete;
			window->lateness = delta->lateness;
			window_enter_heaps(window);
		}
		delta->window = window;
		window->events += delta->events;
		trigger_late_events(window, delta->late_events, pass->clock);
		window_set_news(window);
	}
	/* After all were counted: the forecast by which they get their times is made from all. */
	hash_seq_init(&seq, pass->deltas);
	while ((delta = hash_seq_search(&seq)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!delta->final && (delta->events > 0 || delta->incomplete != NULL))
			window_schedule(delta->window, pass->mono);
	}
}

/* Counterpart of window_moved() for windows that this very pass has made. */
static void
new_window_moved(Window *window, void *arg)
{
	if (window->incomplete != NULL)
		window_remove(window);
	else
		window_schedule(window, *(int64 *) arg);
}

/* After the commit: lets windows fall due by the new W. */
static void
apply_watermark(StreamPass *pass)
{
	ListCell   *lc;

	foreach(lc, pass->stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (view->def.paused)
			continue;
		windows_pass_lateness(view, view->limit, new_window_moved, &pass->mono);
		windows_pass_end(view);
	}
	foreach(lc, pass->moved)
		window_schedule(lfirst(lc), pass->mono);
	foreach(lc, pass->stream->views)
		if (trigger_expects_less(lfirst(lc)))
			view_schedule_waiting(lfirst(lc), pass->mono);
	/* Now, not in the next turn: who waits for this pass waits for them too. */
	due_run_lateness_clock(pass->stream, pass->mono);
}

/* After the commit: the stream as this process remembers it. */
static void
apply_pass(StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	MemoryContext old;
	ListCell   *lc;

	arrivals_accounted(&stream->storage, pass->arrivals);
	DEBUG_POINT("pass-accounted");
	if (pass->arrivals->nitems > 0)
	{
		Accounted  *previous = stream->accounted;

		old = MemoryContextSwitchTo(scheduler.context);
		stream->accounted = accounted_copy(pass->accounted);
		pfree(previous);
		MemoryContextSwitchTo(old);
	}
	stream->stand_still = pass->stand_still;
	stream->watermark = pass->watermark;
	stream->last_window_end = pass->last_window_end;
	stream->rows_purged = pass->rows_purged;
	stream->journal_only += pass->arrivals->journal_only;
	if (pass->expired_events > 0)
		stream->journal_only++; /* what remains of a journal tuple has no chunk */
	stream->last_pass = pass->mono;
	stream->last_idle = pass->mono;
	if (pass->events > 0)
		stream->last_activity = pass->mono;
	stream->pass = scheduler.pass;
	stream->must_pass = false;
	stream->pass_at = MONO_NEVER;
	stream->wait_purge = false;
	foreach(lc, pass->taken_up)
		((SchedView *) lfirst(lc))->taken_up = true;
	foreach(lc, pass->changed_views)
	{
		SchedView  *view = lfirst(lc);

		view->final_firings = 0;
		view->removed_changed = false;
	}
	auto_lateness_applied(pass);
	stream_set_thresholds(stream);
	apply_windows(pass);
	apply_watermark(pass);
	if (pass->arrivals->nitems > 0)
		scheduler.io_wanted = true;
}

/*
 * Locks a stream for a pass and finds its definition; NULL: not now. Whoever
 * holds it exclusively (TRUNCATE, DROP, ALTER) will have changed definitions.
 */
const StreamInfo *
pass_lock_stream(SchedStream *stream, int64 now)
{
	const StreamInfo *info;

	if (!ConditionalLockRelationOid(stream->relid, AccessShareLock))
	{
		stream->locked_until = now + LOCKED_DELAY;
		return NULL;
	}
	info = stream_lookup(stream->relid, true);
	if (info == NULL || !info->has_storage || info->storage.journal != stream->storage.journal)
	{
		scheduler.definitions_changed = true;
		stream->locked_until = now + LOCKED_DELAY;
		return NULL;
	}
	if (stream->wait_purge && !purge_lock(stream->relid))
	{
		stream->locked_until = now + LOCKED_DELAY;
		return NULL;
	}
	return info;
}

static void
reset_pass_context(void)
{
	if (pass_context == NULL)
		pass_context = AllocSetContextCreate(scheduler.context, "aion pass", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(pass_context);
}

/* One pass over these streams (SchedStream *), as far as they can be locked. */
void
pass_run(List *streams, int64 now)
{
	MemoryContext old;
	Snapshot	snapshot;
	List	   *passes = NIL;
	List	   *infos = NIL;
	List	   *locked = NIL;
	bool		tables;
	ListCell   *lc;
	ListCell   *li;

	reset_pass_context();
	scheduler.pass++;
	StartTransactionCommand();
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to the SPI manager");
	old = MemoryContextSwitchTo(pass_context);
	tables = store_lock_tables();
	foreach(lc, streams)
	{
		const StreamInfo *info = tables ? pass_lock_stream(lfirst(lc), now) : NULL;

		if (!tables)
			((SchedStream *) lfirst(lc))->locked_until = now + LOCKED_DELAY;
		if (info == NULL)
			continue;
		locked = lappend(locked, lfirst(lc));
		infos = lappend(infos, unconstify(StreamInfo *, info));
	}

	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	PushActiveSnapshot(snapshot);
	forboth(lc, locked, li, infos)
		passes = lappend(passes, run_stream(lfirst(lc), lfirst(li), snapshot, now));
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	MemoryContextSwitchTo(old);
	SPI_finish();
	DEBUG_POINT("pass-before-commit");
	CommitTransactionCommand();
	DEBUG_POINT("pass-committed");

	MemoryContextSwitchTo(pass_context);
	foreach(lc, passes)
	{
		StreamPass *pass = lfirst(lc);

		apply_pass(pass);
		requests_passed(pass->stream, now);
	}
	MemoryContextSwitchTo(scheduler.context);
	MemoryContextReset(pass_context);
}

/*
 * Lowers W to t, but to no less than what keeps final windows final, and has the
 * stream loaded again. The caller has run a pass over it. False: it, or its purge,
 * is locked; to be called again.
 */
bool
pass_reset_watermark(SchedStream *stream, EventTime t)
{
	WatermarkState watermark = stream->watermark;
	StandStill	stand_still = lateness_clock_stopped(stream, mono_now());
	EventTime	floor = EVENT_TIME_NEVER;
	EventTime	evidence_time;
	EventTime	expired_through;
	bool		moved = false;
	bool		locked;
	ListCell   *lc;

	publish_no_purge(stream);
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		floor = Max(floor, view->def.allowed_lateness.automatic ? view->final_until :
					event_time_add(view->final_through, &view->def.allowed_lateness));
	}
	reset_pass_context();
	StartTransactionCommand();
	locked = store_lock_tables() && pass_lock_stream(stream, mono_now()) != NULL &&
		purge_lock(stream->relid);
	if (locked)
		moved = watermark_reset(&watermark, t, floor);
	if (moved)
	{
		if (SPI_connect() != SPI_OK_CONNECT)
			elog(ERROR, "could not connect to the SPI manager");
		PushActiveSnapshot(GetTransactionSnapshot());
		auto_lateness_save(stream);
		expired_through = auto_lateness_reset(stream, &watermark, &evidence_time);
		store_stream_watermark(stream->relid, &watermark, &stand_still, evidence_time, expired_through);
		PopActiveSnapshot();
		SPI_finish();
		DEBUG_POINT("reset-before-commit");
	}
	CommitTransactionCommand();
	if (moved)
	{
		stream->loaded = false;
		foreach(lc, stream->views)
			((SchedView *) lfirst(lc))->loaded = false;
	}
	return locked;
}
