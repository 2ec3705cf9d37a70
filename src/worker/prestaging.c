/*
 * prestaging.c
 *	  Has p-buckets staged before the windows that need them are executed.
 *
 * Three kinds of execution can be told in advance (Aion paper, section 3.4):
 *
 * late		a late event gives its window a time: the buckets are asked for at
 *			once, since the event says what will be needed (punctuated rule)
 * final	W_e approaches end + lateness: with the speed at which W_e moves and
 *			the measured cost per event, staging begins so much before that it
 *			is just done; several windows are planned backwards, for there is one I/O
 *			worker. While no cost is known, and for a first window, it begins when the
 *			window before has expired (pessimistic start)
 *
 * triggered	the staleness trigger has set an instant of the lateness clock: as for
 *			final ones
 *
 * A prediction that fails costs memory for a while, or time: an execution that
 * comes too early asks for its blocks itself. Nothing here is needed for
 * exactness, and a restart forgets it all.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "time/bucket.h"
#include "time/prestage.h"
#include "worker/io_queue.h"
#include "worker/scheduler.h"
#include "worker/worker.h"

bool		aion_prestage = true;

/* Weight of a new measurement of W_e's speed. */
#define SPEED_WEIGHT	0.3

/* Windows planned for at a time; the rest gets its turn when the first of them have been executed. */
#define MAX_PLANNED		64

/* When a staging that is planned is to begin; MONO_NEVER: none is. */
static int64 next_start = MONO_NEVER;

/* Asks for a window's buckets, which are to be there at "deadline" (monotonic). */
static void
ask(Window *window, int64 deadline, int64 now)
{
	SchedStream *stream = window->view->stream;
	IORequest	request = {.kind = IO_PRESTAGE};

	if (worker_start(WORKER_IO, MyDatabaseId, 1) == 0)
		return;
	request.stream = stream->relid;
	request.journal = stream->storage.journal;
	request.low = bucket_number(stream->storage.bucket_width, window->key.start);
	request.high = bucket_number(stream->storage.bucket_width, window->end - 1);
	request.deadline = GetCurrentTimestamp() + (deadline - now);
	window->prestage = io_queue_post(&request, false);
	if (window->prestage != 0)
		(void) control_wake_io();
}

/* A window that fired on time has a late event, and a time at which it will be executed. */
void
prestage_late(Window *window, int64 now)
{
	if (aion_prestage && window->prestage == 0 && window->at > now)
		ask(window, window->at, now);
}

void
prestage_end(Window *window)
{
	if (window->prestage != 0)
		io_queue_withdraw(window->prestage);
	window->prestage = 0;
}

/* Measures how fast W_e moves, in microseconds of event time per microsecond. */
static void
measure_speed(SchedStream *stream, int64 now)
{
	EventTime	w = stream->watermark.event_watermark;
	double		speed;

	if (w == stream->speed_w)
		return;
	if (stream->speed_w != EVENT_TIME_NEVER && now > stream->speed_at && w > stream->speed_w)
	{
		speed = ((double) w - stream->speed_w) / (now - stream->speed_at);
		stream->speed = stream->speed == 0 ? speed :
			(1 - SPEED_WEIGHT) * stream->speed + SPEED_WEIGHT * speed;
	}
	stream->speed_w = w;
	stream->speed_at = now;
}

/* The window of a view that becomes final next, if it will have to be executed then; or NULL. */
static Window *
next_final(SchedView *view)
{
	Window	   *window;

	if (view->def.paused || pairingheap_is_empty(view->expiring))
		return NULL;
	window = pairingheap_container(Window, expiring_node, pairingheap_first(view->expiring));
	if (!window->fired || window->prestage != 0 || !window_dirty(window) ||
		window->incomplete != NULL || window->place == PLACE_RUNNING)
		return NULL;
	return window;
}

/* The window of a stream that the staleness trigger will have executed next; or NULL. */
static Window *
next_triggered(SchedStream *stream)
{
	Window	   *window;

	if (pairingheap_is_empty(stream->waiting))
		return NULL;
	window = pairingheap_container(Window, place_node, pairingheap_first(stream->waiting));
	return window->prestage == 0 ? window : NULL;
}

/*
 * Fills in a job for the window, which is executed when W_e has moved on by "remaining". False: it can't be
 * told when, and W_e is not near yet: for a final execution, the window before has not expired.
 */
static bool
predict(const Window *window, int64 remaining, double cost, int64 now, PrestageJob *job)
{
	const SchedView *view = window->view;
	const SchedStream *stream = view->stream;
	bool		predecessor_expired = remaining <= view->def.window.slide;

	job->duration = 0;
	job->deadline = now;
	if (cost < 0 || stream->speed <= 0)
		return predecessor_expired;
	job->duration = prestage_duration(cost, window->events);
	job->deadline = stream->speed_at + (int64) Min(remaining / stream->speed, 1e15);
	return true;
}

/* Jobs of one scheduler's turn. */
typedef struct Predictions
{
	int			n;
	PrestageJob jobs[MAX_PLANNED];
	Window	   *windows[MAX_PLANNED];
} Predictions;

/* Adds a window, if there is room. */
static void
consider(Predictions *all, Window *window, int64 remaining, int64 now)
{
	StreamFacts facts;
	double		cost = PRESTAGE_COST_UNKNOWN;

	if (all->n == MAX_PLANNED)
		return;
	if (control_facts(window->view->stream->relid, &facts))
		cost = facts.stage_cost;
	all->jobs[all->n].id = all->n;
	all->windows[all->n] = window;
	all->n += predict(window, remaining, cost, now, &all->jobs[all->n]);
}

void
prestage_predicted(int64 now)
{
	Predictions all = {0};
	List	   *streams = sched_streams();
	ListCell   *ls;

	next_start = MONO_NEVER;
	if (!aion_prestage)
		return;
	foreach(ls, streams)
	{
		SchedStream *stream = lfirst(ls);
		Window	   *window;
		ListCell   *lv;

		if (!stream->loaded)
			continue;
		measure_speed(stream, now);
		foreach(lv, stream->views)
		{
			SchedView  *view = lfirst(lv);

			window = view->loaded ? next_final(view) : NULL;
			if (window != NULL)
				consider(&all, window, int64_sub_saturating(window->expires, view->limit), now);
		}
		window = next_triggered(stream);
		if (window != NULL)
			consider(&all, window, int64_sub_saturating(window->at, lateness_clock(stream, now)), now);
	}
	(void) prestage_plan(all.jobs, all.n, now);
	for (int i = 0; i < all.n; i++)
	{
		if (all.jobs[i].start <= now)
			ask(all.windows[all.jobs[i].id], all.jobs[i].deadline, now);
		else
			next_start = Min(next_start, all.jobs[i].start);
	}
}

int64
prestage_next(void)
{
	return next_start;
}
