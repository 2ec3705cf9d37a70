/*
 * publish.c
 *	  What the scheduler tells the I/O worker, and learns from it.
 *
 * Per stream: up to where buckets are past, up to where they are to be purged,
 * and when to fold the journal. "Past" is min(W, start of the earliest window
 * that waits for its on-time firing). "To be purged" is before every instant of
 * which a window may still take in or show an event: the stream's lateness has
 * gone by, the first window that an event could still make for a view starts
 * later, and so does each window that is there and not final. That bound holds
 * whatever arrives afterwards; what lowers it is kept apart by purge_lock.h.
 *
 * Windows over much that only the journal holds wait until it is folded: each
 * of them would have to read all of it.
 *
 * Shared memory only; lost at a crash and published anew by the first pass.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "time/prestage.h"
#include "worker/destage_plan.h"
#include "worker/io.h"
#include "worker/scheduler.h"
#include "worker/worker.h"

#define FOLD_BYTES			(4 * 1024 * 1024)	/* folded at once, and before windows fire */
#define FOLD_DELAY			(2 * USECS_PER_SEC) /* less than that, after this time */
#define FOLD_PATIENCE		(60 * USECS_PER_SEC)

static EventTime
past_before(const SchedStream *stream)
{
	EventTime	past = stream->watermark.watermark;
	ListCell   *lc;

	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (!view->taken_up)
			return EVENT_TIME_NEVER;
		if (!view->def.paused)
			past = Min(past, view_first_unfired(view));
	}
	return past;
}

static EventTime
purge_before(const SchedStream *stream)
{
	EventTime	purge = stream->threshold;
	ListCell   *lc;

	if (stream->wait_purge)
		return EVENT_TIME_NEVER;
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (!view->taken_up || view->threshold == EVENT_TIME_NEVER)
			return EVENT_TIME_NEVER;
		purge = Min(purge, window_first(&view->def.window, view->threshold));
		purge = Min(purge, view_first_unfinal(view));
	}
	return purge;
}

/* Publishes for a stream whose entry did not fit into shared memory: into its own. */
static void
publish_own(SchedStream *stream, EventTime past, EventTime purge, bool fold, bool destage)
{
	StreamFacts *facts = &stream->facts;

	if (!stream->own_facts)
	{
		memset(facts, 0, sizeof(*facts));
		facts->database = MyDatabaseId;
		facts->stream = stream->relid;
		facts->journal = stream->storage.journal;
		facts->purged_before = EVENT_TIME_NEVER;
		facts->fold_wanted = 1;
		facts->stage_cost = PRESTAGE_COST_UNKNOWN;
		stream->own_facts = true;
	}
	facts->past_before = past;
	facts->purge_before = purge;
	facts->fold_wanted += fold ? 1 : 0;
	facts->destage_wanted += destage ? 1 : 0;
}

static void
publish(SchedStream *stream, EventTime past, EventTime purge, bool fold, bool destage)
{
	if (stream->published && !fold && !destage &&
		stream->facts.past_before == past && stream->facts.purge_before == purge)
		return;
	if (control_publish(stream->relid, stream->storage.journal, past, purge, fold, destage,
						&stream->facts))
		stream->own_facts = false;
	else
		publish_own(stream, past, purge, fold, destage);
	stream->published = true;
	scheduler.io_wanted = true;
}

/* Publishes what is so now. The stream is loaded. */
void
publish_stream(SchedStream *stream, bool fold, bool destage)
{
	bool		first = !stream->published;

	publish(stream, past_before(stream), purge_before(stream), fold, destage);
	if (first && stream->facts.fold_done < stream->facts.fold_wanted &&
		stream->watermark.watermark != EVENT_TIME_NEVER)
	{
		/* What the journal holds from before a restart has no chunks. */
		stream->fold_first = true;
		stream->fold_deadline = mono_now() + FOLD_PATIENCE;
	}
}

/* Windows are about to be opened over the past: nothing is to be purged until further notice. */
void
publish_no_purge(SchedStream *stream)
{
	stream->wait_purge = true;
	publish(stream, stream->published ? stream->facts.past_before : EVENT_TIME_NEVER,
			EVENT_TIME_NEVER, false, false);
}

/* Looks how far the I/O worker has come. */
void
publish_refresh(SchedStream *stream)
{
	StreamFacts facts;

	if (!stream->published || stream->own_facts)
		return;
	if (control_facts(stream->relid, &facts) && facts.journal == stream->storage.journal)
	{
		if (facts.purged_before > stream->facts.purged_before)
			stream_want_pass(stream, mono_now() + USECS_PER_SEC);	/* rows of windows can go */
		stream->facts = facts;
	}
}

/* True if the stream has enough that only the journal holds. */
static bool
wants_fold(SchedStream *stream, int64 now)
{
	if (stream->journal_only == 0 ||
		(stream->journal_only < FOLD_BYTES && now < stream->last_fold + FOLD_DELAY))
		return false;
	if (stream->journal_only >= FOLD_BYTES)
	{
		stream->fold_first = true;
		stream->fold_deadline = now + FOLD_PATIENCE;
	}
	stream->journal_only = 0;
	stream->last_fold = now;
	return true;
}

/* True if the I/O worker is gone, or never came, with something left to do that was asked for. */
static bool
io_is_lost(const SchedStream *stream)
{
	const StreamFacts *facts = &stream->facts;

	return (facts->fold_done < facts->fold_wanted || facts->destage_done < facts->destage_wanted ||
			facts->purged_before < facts->purge_before) &&
		worker_count(WORKER_IO, MyDatabaseId) == 0;
}

/* Publishes for all streams, sees how far I/O has come, and wakes the I/O worker if it has to know. */
void
publish_all(int64 now)
{
	List	   *streams = sched_streams();
	ListCell   *lc;

	foreach(lc, streams)
	{
		SchedStream *stream = lfirst(lc);

		if (!stream->loaded || stream->pass == 0)
			continue;
		publish_refresh(stream);
		publish_stream(stream, wants_fold(stream, now), false);
		scheduler.io_wanted |= io_is_lost(stream);
		if (stream->own_facts && scheduler.io_wanted)
			(void) io_stream_once(&stream->facts);
		if (stream->fold_first && (stream->facts.fold_done >= stream->facts.fold_wanted ||
								   now >= stream->fold_deadline))
			stream->fold_first = false;
	}
	/* the exit of one that was ended has woken us: buckets that it was to destage are seen by the next one alone */
	if (destage_settings_changed() || control_take_io_unfinished())
		scheduler.io_wanted = true;
	if (scheduler.io_wanted || now >= scheduler.io_at)
	{
		long		again = io_kick();

		scheduler.io_wanted = false;
		scheduler.io_at = again < 0 ? MONO_NEVER : now + again * 1000;
	}
}

int64
publish_next(void)
{
	int64		next = scheduler.io_at;
	List	   *streams = sched_streams();
	ListCell   *lc;

	foreach(lc, streams)
	{
		SchedStream *stream = lfirst(lc);

		if (stream->loaded && stream->journal_only > 0)
			next = Min(next, stream->last_fold + FOLD_DELAY);
		if (stream->fold_first)
			next = Min(next, stream->fold_deadline);
	}
	return next;
}
