/*
 * due.c
 *	  Which window is to be executed, and when.
 *
 * A window is in one place: idle, in the heap of timers (processing time: early
 * and late firings, retries), in its stream's heap of what waits for the lateness clock
 * (late firings under a bound on staleness), in the heap of what is ready to be
 * dispatched, or running. window_schedule() finds the place from the window's
 * state, by the rules below; whoever changes that state calls it.
 *
 *	on time	W passed the end: at once
 *	final	it has had its lateness: at once if its result lacks events, or
 *			failed; else the next pass makes it final without an execution
 *	late	fired on time, result lacks events: when the staleness trigger says,
 *			but no sooner than aion.late_interval after its last execution of any kind
 *	early	not past its end, result lacks events: "early" after its last
 *			execution, or after its first event
 *	failed	again at its next on-time or final firing, or as late when events
 *			have come since; a transient failure with back-off
 *
 * A due window (is_due) is one that a waiting sync or refresh has to wait for. Order
 * of dispatch: on time and early by end, then final, then late by age.
 */
#include "postgres.h"

#include "worker/scheduler.h"

int			aion_late_interval = 1000;

#define RETRY_FIRST		(1 * USECS_PER_SEC)
#define RETRY_LONGEST	(60 * USECS_PER_SEC)

/* A window that keeps failing for lack of something is waited for this many attempts. */
#define RETRIES_WAITED_FOR 2

enum
{
	RANK_CURRENT,
	RANK_FINAL,
	RANK_LATE
};

static pairingheap *timers = NULL;
static pairingheap *ready = NULL;

static int
compare_timers(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	int64		x = pairingheap_const_container(Window, place_node, a)->at;
	int64		y = pairingheap_const_container(Window, place_node, b)->at;

	return x < y ? 1 : x > y ? -1 : 0;
}

static int
compare_ready(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const Window *x = pairingheap_const_container(Window, place_node, a);
	const Window *y = pairingheap_const_container(Window, place_node, b);

	if (x->rank != y->rank)
		return x->rank < y->rank ? 1 : -1;
	return x->at < y->at ? 1 : x->at > y->at ? -1 : 0;
}

/* Makes the heaps, in the current memory context. */
void
due_init(void)
{
	timers = pairingheap_allocate(compare_timers, NULL);
	ready = pairingheap_allocate(compare_ready, NULL);
}

/* Makes a stream's heap. */
void
due_init_stream(SchedStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(scheduler.context);

	stream->waiting = pairingheap_allocate(compare_timers, NULL);
	MemoryContextSwitchTo(old);
}

/* Takes it out of either heap. A running window's job goes on. */
void
window_unplace(Window *window)
{
	if (window->place == PLACE_TIMED)
		pairingheap_remove(timers, &window->place_node);
	else if (window->place == PLACE_WAITING)
		pairingheap_remove(window->view->stream->waiting, &window->place_node);
	else if (window->place == PLACE_READY)
		pairingheap_remove(ready, &window->place_node);
	window->place = PLACE_IDLE;
}

/* Nobody has to wait for it any more. */
void
window_undue(Window *window)
{
	if (window->is_due)
		dlist_delete(&window->due_node);
	window->is_due = false;
	window->forced = false;
}

/* Those who ask from now on, or have asked before this pass, wait for it. */
static void
mark_due(Window *window, uint64 pass)
{
	if (window->is_due)
		return;
	window->is_due = true;
	window->due_pass = pass;
	dlist_push_tail(&window->view->due, &window->due_node);
}

static bool
past_end(const Window *window)
{
	return window->end <= window->view->stream->watermark.watermark;
}

static bool
past_lateness(const Window *window)
{
	return window->is_unfinal && !window->is_expiring;
}

/* What the next execution is to be counted as. */
FiringKind
window_firing_kind(const Window *window, bool *final_too)
{
	bool		final = past_lateness(window) && !window->final_counted;

	*final_too = false;
	if (!window->fired && !past_end(window))
		return FIRING_EARLY;
	if (!window->fired)
	{
		*final_too = final;
		return FIRING_ON_TIME;
	}
	if (final)
		return FIRING_FINAL;
	return window->forced && !window_dirty(window) ? FIRING_REFRESH : FIRING_LATE;
}

static void
place_ready(Window *window, int64 now)
{
	bool		final_too;

	window_unplace(window);
	switch (window_firing_kind(window, &final_too))
	{
		case FIRING_EARLY:
		case FIRING_ON_TIME:
			window->rank = RANK_CURRENT;
			window->at = window->end;
			break;
		case FIRING_FINAL:
			window->rank = RANK_FINAL;
			window->at = window->end;
			break;
		case FIRING_LATE:
		case FIRING_REFRESH:
			window->rank = past_lateness(window) ? RANK_FINAL : RANK_LATE;
			window->at = window->rank == RANK_FINAL ? window->end : now;
			break;
	}
	window->place = PLACE_READY;
	pairingheap_add(ready, &window->place_node);
	mark_due(window, window->view->stream->pass);
}

static void
place_timed(Window *window, int64 at, int64 now)
{
	if (at <= now)
	{
		place_ready(window, now);
		return;
	}
	window_unplace(window);
	window->at = at;
	window->place = PLACE_TIMED;
	pairingheap_add(timers, &window->place_node);
}

/* When a window that fired on time, or failed to, may be executed again; MONO_NEVER: not by itself. */
static int64
late_firing_at(const Window *window)
{
	if (aion_late_interval < 0)
		return MONO_NEVER;
	return int64_add_saturating(window->last_tried, (int64) aion_late_interval * 1000);
}

/* It has late events to take in, or failed to fire on time: as soon as it may. */
static void
place_late(Window *window, int64 now)
{
	int64		at = late_firing_at(window);

	if (at == MONO_NEVER)
	{
		window_unplace(window);
		return;
	}
	place_timed(window, at, now);
	prestage_late(window, now);
}

/* It has late events to take in: when the trigger says. */
static void
place_triggered(Window *window, int64 now)
{
	SchedStream *stream = window->view->stream;
	EventTime	due = trigger_due(window, now);

	if (due <= lateness_clock(stream, now) || late_firing_at(window) == MONO_NEVER)
	{
		place_late(window, now);
		return;
	}
	window_unplace(window);
	window->at = due;
	window->place = PLACE_WAITING;
	pairingheap_add(stream->waiting, &window->place_node);
}

/* True if it holds events that the last execution, good or not, did not see. */
static bool
has_fresh_events(const Window *window)
{
	return window->events > window->fired_events &&
		!(window->failed && window->events <= window->sent_events);
}

/* True if its on-time or final firing is due and was not tried yet. */
static bool
due_by_event_time(const Window *window)
{
	if (!window->fired && past_end(window) && !window->tried_on_time)
		return true;
	if (!past_lateness(window))
		return false;
	/* Whatever is new at this point goes in at once, so that the window can become final. */
	return window->failed ? !window->tried_final : window_dirty(window) || !window->fired;
}

/* The next pass makes it final, unless its view is paused. */
void
window_finalize_next(Window *window)
{
	if (!window->to_finalize)
		dlist_push_tail(&window->view->finalize, &window->finalize_node);
	window->to_finalize = true;
}

/*
 * Finds a window's place from its state. Does nothing for one that is running:
 * its outcome does it. One that is ready, or waits for its retry, stays so.
 */
void
window_schedule(Window *window, int64 now)
{
	SchedView  *view = window->view;

	if (window->to_finalize && (window_dirty(window) || window->failed))
	{
		dlist_delete(&window->finalize_node);
		window->to_finalize = false;
	}
	if (window->place == PLACE_RUNNING || window->place == PLACE_READY)
		return;
	if (window->incomplete != NULL || view->def.paused)
	{
		window_unplace(window);
		window_undue(window);
		return;
	}
	if (window->attempts > 0 && window->place == PLACE_TIMED)
		return;
	if (due_by_event_time(window))
		place_ready(window, now);
	else if (past_lateness(window) && window->fired && !window_dirty(window) && !window->failed)
	{
		window_unplace(window);
		window_finalize_next(window);
		mark_due(window, view->stream->pass);
		stream_want_pass(view->stream, now);
	}
	else if (!has_fresh_events(window))
		window_unplace(window);
	else if (window->fired)
		place_triggered(window, now);
	else if (past_end(window))
		place_late(window, now);
	else if (view->def.early > 0)
	{
		if (window->place != PLACE_TIMED)
			place_timed(window, int64_add_saturating(window->last_tried != 0 ? window->last_tried : now,
													 view->def.early), now);
	}
	else
		window_unplace(window);
}

/*
 * Asked for by name (sync with late, refresh): ready now. "forced" executes it
 * although it has nothing new. While it is running, it goes once more.
 */
void
window_make_due(Window *window, uint64 pass, bool forced, int64 now)
{
	if (window->incomplete != NULL || window->view->def.paused)
		return;
	window->forced |= forced;
	mark_due(window, pass);
	if (window->place == PLACE_RUNNING)
		window->again = true;
	else if (window->place != PLACE_READY)
		place_ready(window, now);
}

/* It was handed to an executor. */
void
window_dispatched(Window *window)
{
	window_unplace(window);
	prestage_end(window);
	window->place = PLACE_RUNNING;
	window->sent_events = window->events;
	window->forced = false;
	if (past_end(window))
		window->tried_on_time = true;
	if (past_lateness(window))
		window->tried_final = true;
	if (window->to_finalize)
		dlist_delete(&window->finalize_node);
	window->to_finalize = false;
}

/* It is ready again after that time, as if it had not been dispatched. */
static void
place_again(Window *window, int64 delay, int64 now)
{
	window->again = false;
	window->tried_on_time = false;
	window->tried_final = false;
	place_timed(window, now + delay, now);
}

/* Its execution was stopped by somebody who is changing the view, and is given the time for it. */
void
window_put_off(Window *window, int64 now)
{
	place_again(window, RETRY_FIRST, now);
}

/*
 * It failed for a reason that may pass. Once that was recorded some times over,
 * whoever waits is told of the failure instead.
 */
void
window_retry(Window *window, bool recorded, int64 now)
{
	int64		delay = RETRY_FIRST << Min(window->attempts, 6);

	window->attempts++;
	place_again(window, Min(delay, RETRY_LONGEST), now);
	if (recorded && window->attempts > RETRIES_WAITED_FOR)
	{
		window_set_failed(window, true);
		window_undue(window);
	}
}

/* Windows that have waited long enough by their stream's clock. */
void
due_run_lateness_clock(SchedStream *stream, int64 now)
{
	EventTime	clock = lateness_clock(stream, now);

	while (!pairingheap_is_empty(stream->waiting))
	{
		Window	   *window = pairingheap_container(Window, place_node,
												   pairingheap_first(stream->waiting));

		if (window->at > clock)
			break;
		place_late(window, now);
	}
}

/* Timers that have run out make their windows ready. */
void
due_run_timers(int64 now)
{
	HASH_SEQ_STATUS seq;
	SchedStream *stream;

	hash_seq_init(&seq, scheduler.streams);
	while ((stream = hash_seq_search(&seq)) != NULL)
		due_run_lateness_clock(stream, now);
	while (!pairingheap_is_empty(timers))
	{
		Window	   *window = pairingheap_container(Window, place_node,
												   pairingheap_first(timers));

		if (window->at > now)
			break;
		place_ready(window, now);
	}
}

/* When to call that although nothing happened. */
int64
due_next_timer(int64 now)
{
	int64		next = MONO_NEVER;
	HASH_SEQ_STATUS seq;
	SchedStream *stream;

	if (!pairingheap_is_empty(timers))
		next = pairingheap_container(Window, place_node, pairingheap_first(timers))->at;
	hash_seq_init(&seq, scheduler.streams);
	while ((stream = hash_seq_search(&seq)) != NULL)
		if (!pairingheap_is_empty(stream->waiting))
		{
			Window	   *window = pairingheap_container(Window, place_node,
													   pairingheap_first(stream->waiting));

			next = Min(next, lateness_clock_reaches(stream, window->at, now));
		}
	return next;
}

/*
 * Offers ready windows to post() in their order, until it returns false; one
 * that it takes has to be gone from here (window_dispatched). Those for which
 * usable() is not true, their stream waiting for I/O, keep their turn.
 */
void
due_dispatch(bool (*usable) (const Window *window), bool (*post) (Window *window))
{
	List	   *held = NIL;
	ListCell   *lc;

	while (!pairingheap_is_empty(ready))
	{
		Window	   *window = pairingheap_container(Window, place_node,
												   pairingheap_first(ready));

		if (!usable(window))
		{
			pairingheap_remove_first(ready);
			held = lappend(held, window);
		}
		else if (!post(window))
			break;
	}
	foreach(lc, held)
		pairingheap_add(ready, &((Window *) lfirst(lc))->place_node);
	list_free(held);
}

/* Priority of a job, smaller first; within a rank the order of dispatch decides. */
static int64
job_priority(int rank)
{
	static int64 sequence = 0;

	return ((int64) rank << 56) + ++sequence;
}

int64
window_priority(const Window *window)
{
	return job_priority(window->rank);
}

/* Of a job that removes results: nobody waits for it, but it must have its turn. */
int64
removal_priority(void)
{
	return job_priority(RANK_LATE);
}

/* Finds the places of all windows of a view that have news, after its definition or a setting changed. */
void
view_schedule_news(SchedView *view, int64 now)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &view->news)
	{
		Window	   *window = dlist_container(Window, news_node, iter.cur);

		if (window->place == PLACE_WAITING || (window->place == PLACE_TIMED && window->attempts == 0))
			window_unplace(window);
		trigger_replan(window);
		window_schedule(window, now);
	}
}

/* Finds new times for windows that wait by the staleness trigger: its forecast has changed. */
void
view_schedule_waiting(SchedView *view, int64 now)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &view->news)
	{
		Window	   *window = dlist_container(Window, news_node, iter.cur);

		if (window->place == PLACE_WAITING)
			window_schedule(window, now);
	}
}

static void
unschedule(Window *window)
{
	if (window->place == PLACE_RUNNING)
		return;
	window_unplace(window);
	window_undue(window);
}

/* A view was paused: nothing of it is due but what runs, until that has ended. */
void
view_unschedule_all(SchedView *view)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &view->news)
		unschedule(dlist_container(Window, news_node, iter.cur));
	dlist_foreach_modify(iter, &view->due)
		unschedule(dlist_container(Window, due_node, iter.cur));
}
