/*
 * account.c
 *	  Judgement of arrivals: what each event is late for, expired in, counts in.
 *
 * All events of a pass are judged by the watermark in force before it. An
 * event is, for every view of its stream, in some windows; each of them takes it
 * in or, being final or incomplete, does not (it expires there). If none
 * takes it in, though there is one that it falls in, it leaves the journal: set
 * aside in aion.set_aside, or only counted (on_expired 'drop'). If some do, it
 * stays, and a copy is set aside. An event in no window at all leaves only when its
 * bucket has had the stream's lateness; one too far ahead of the clock always.
 *
 * Journal tuples whose events are all in the same windows are judged as one;
 * for others the event times are read. Everything is collected in the
 * StreamPass and in the pass's transaction: if that fails, nothing was judged.
 * Views that are yet to be taken up in this very pass take in everything, and
 * count it when they are taken up.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "debug_point.h"
#include "time/bucket.h"
#include "worker/scheduler.h"

#define BATCH_EVENTS	1000
#define BATCH_BYTES		(1024 * 1024)

/* What becomes of one event, or of several that are in the same windows. */
typedef struct Verdict
{
	bool		late;			/* for at least one window */
	bool		expired;		/* in at least one */
	bool		remove;			/* from the journal */
	bool		ahead;			/* of the clock */
	const char *reason;			/* of expired or remove */
} Verdict;

/* Windows of a view, one after the other, that did not take an event in. */
typedef struct MissedRun
{
	Oid			view;
	EventTime	first;			/* start of the first and of the last of them */
	EventTime	last;
} MissedRun;

/* The same of one event, as aion.set_aside keeps it: three array literals. NULL: none. */
typedef struct MissedWindows
{
	char	   *literals[3];
} MissedWindows;

typedef struct Judge
{
	StreamPass *pass;
	SchedStream *stream;
	MemoryContext arrival_context;	/* reset after each arrival */
	WindowDelta **recent;		/* per view, the window looked at last */
	MissedRun  *runs;			/* of the event judged last */
	int			nruns;
	int			run_room;
	const Arrival **evident;	/* those that may show how far event time has come ... */
	int			nevident;		/* ... and whose event times were not read */
	SetAsideBatch batch;
	/* of the arrival that is being set aside */
	const bool *remove;
	const bool *copy;
	const char **reasons;
	const MissedWindows *missed;	/* of those that are copied */
	int			next;			/* index of the event that the sink gets next, or before it */
} Judge;

/* What happens to events in a window that the pass meets for the first time. */
static void
judge_window(StreamPass *pass, WindowDelta *delta)
{
	SchedView  *view = delta->view;
	Window	   *window = window_find(view, delta->key.start);

	delta->window = window;
	delta->verdict = WINDOW_OPEN;
	if (delta->key.start < view->begins)
		delta->verdict = WINDOW_NONE;
	else if (!view->taken_up)
		delta->verdict = WINDOW_LATER;
	else if (window != NULL)
	{
		if (window->incomplete != NULL)
		{
			delta->verdict = WINDOW_CLOSED;
			delta->reason = window->incomplete;
		}
		else if (window->reopened)
		{
			delta->verdict = WINDOW_CLOSED;
			delta->reason = REASON_EXPIRED;
		}
	}
	else if (view_is_closed(view, delta->end))
	{
		delta->verdict = WINDOW_CLOSED;
		delta->reason = REASON_EXPIRED;
	}
	else if (delta->key.start < view->incomplete_before)
	{
		delta->verdict = WINDOW_CLOSED;
		delta->reason = REASON_PURGED;
	}
}

/* The pass's entry for a window, made and judged if it is not there yet. */
WindowDelta *
account_delta(StreamPass *pass, SchedView *view, EventTime start)
{
	WindowKey	key = {.start = start,.view = view->def.view,.zero = 0};
	bool		found;
	WindowDelta *delta = hash_search(pass->deltas, &key, HASH_ENTER, &found);

	if (!found)
	{
		memset((char *) delta + sizeof(WindowKey), 0, sizeof(WindowDelta) - sizeof(WindowKey));
		delta->view = view;
		delta->end = window_end(&view->def.window, start);
		delta->lateness = view_window_lateness(view, delta->end);
		judge_window(pass, delta);
	}
	return delta;
}

/* n events of the same windows expire in this one: it must stay closed to them for good. */
static void
note_expiry(StreamPass *pass, WindowDelta *delta)
{
	SchedView  *view = delta->view;

	if (delta->window == NULL && delta->end <= view->threshold &&
		delta->end > view->final_through)
		pass_window_closed(pass, view, delta->end, delta->lateness);
}

/* The event being judged misses a window of the view: "step" after the one before, if it missed that. */
static void
note_missed(Judge *judge, Oid view, EventTime start, int64 step)
{
	MissedRun  *run = judge->nruns > 0 ? &judge->runs[judge->nruns - 1] : NULL;

	if (run != NULL && run->view == view && run->last == start - step)
	{
		run->last = start;
		return;
	}
	if (judge->nruns == judge->run_room)
	{
		judge->run_room = Max(16, judge->run_room * 2);
		judge->runs = judge->runs == NULL ?
			MemoryContextAlloc(judge->pass->context, judge->run_room * sizeof(MissedRun)) :
			repalloc(judge->runs, judge->run_room * sizeof(MissedRun));
	}
	judge->runs[judge->nruns++] = (MissedRun) {view, start, start};
}

/* What the event judged last has missed, in the current memory context. */
static MissedWindows
missed_windows(const Judge *judge)
{
	StringInfoData text[3];
	MissedWindows missed;

	for (int i = 0; i < lengthof(text); i++)
		initStringInfo(&text[i]);
	for (int i = 0; i < judge->nruns; i++)
	{
		char		before = i == 0 ? '{' : ',';

		appendStringInfo(&text[0], "%c%u", before, judge->runs[i].view);
		appendStringInfo(&text[1], "%c" INT64_FORMAT, before, judge->runs[i].first);
		appendStringInfo(&text[2], "%c" INT64_FORMAT, before, judge->runs[i].last);
	}
	for (int i = 0; i < lengthof(text); i++)
	{
		appendStringInfoChar(&text[i], '}');
		missed.literals[i] = text[i].data;
	}
	return missed;
}

/* Judges n events that are in the same windows as time t, and counts them there. */
static Verdict
judge_events(Judge *judge, EventTime t, int64 n)
{
	StreamPass *pass = judge->pass;
	SchedStream *stream = judge->stream;
	Verdict		verdict = {0};
	bool		open = false;
	int			i = 0;
	ListCell   *lc;

	judge->nruns = 0;
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);
		const WindowSpec *spec = &view->def.window;
		EventTime	last = window_last(spec, t);
		WindowDelta **recent = &judge->recent[i++];

		for (EventTime start = window_first(spec, t); start <= last; start += spec->slide)
		{
			WindowDelta *delta = *recent;
			bool		late;

			/* an event can be in thousands of windows */
			CHECK_FOR_INTERRUPTS();
			if (delta == NULL || delta->key.start != start)
				*recent = delta = account_delta(pass, view, start);
			if (delta->verdict == WINDOW_NONE)
				continue;
			late = delta->end <= stream->watermark.watermark;
			verdict.late |= late;
			delta->observed += late ? n : 0;
			if (delta->verdict == WINDOW_CLOSED)
			{
				verdict.expired = true;
				verdict.reason = delta->reason;
				note_expiry(pass, delta);
				note_missed(judge, view->def.view, start, spec->slide);
				continue;
			}
			open = true;
			pass->last_window_end = Max(pass->last_window_end, delta->end);
			if (delta->verdict == WINDOW_OPEN)
			{
				delta->events += n;
				delta->late_events += late ? n : 0;
			}
		}
	}
	if (open)
		return verdict;
	if (!verdict.expired)
	{
		int64		width = stream->storage.bucket_width;

		if (bucket_end(width, bucket_number(width, t)) > stream->threshold)
			return verdict;
		verdict.reason = REASON_EXPIRED;
	}
	verdict.remove = true;
	return verdict;
}

/* As judge_events(), the clock first. */
static Verdict
judge_with_clock(Judge *judge, EventTime t, int64 n)
{
	Verdict		verdict = {.remove = true,.ahead = true,.reason = REASON_AHEAD};

	if (watermark_is_ahead(&judge->stream->options.watermark, judge->pass->now, t))
		return verdict;
	judge->pass->greatest = Max(judge->pass->greatest, t);
	return judge_events(judge, t, n);
}

static void
count_events(StreamPass *pass, const Verdict *verdict, int64 n)
{
	if (verdict->late)
		pass->late_events += n;
	if (verdict->expired || verdict->remove)
		pass->expired_events += n;
}

/* True if all events between first and last share the fate of the first. */
static bool
is_uniform(Judge *judge, EventTime first, EventTime last)
{
	SchedStream *stream = judge->stream;
	const WatermarkConfig *config = &stream->options.watermark;
	ListCell   *lc;

	if (first == last)
		return true;
	if (watermark_is_ahead(config, judge->pass->now, first) !=
		watermark_is_ahead(config, judge->pass->now, last))
		return false;
	foreach(lc, stream->views)
	{
		const WindowSpec *spec = &((SchedView *) lfirst(lc))->def.window;

		/* Both are monotonic, so what is equal at both ends is so in between. */
		if (window_first(spec, first) != window_first(spec, last) ||
			window_last(spec, first) != window_last(spec, last))
			return false;
	}
	return true;
}

/* Writes what is collected to aion.set_aside. */
static void
flush_batch(Judge *judge)
{
	if (judge->batch.n == 0)
		return;
	DEBUG_POINT("account-set-aside");
	store_set_aside(judge->stream, judge->pass->now, &judge->batch);
}

/* ArrivalSink: one event that leaves the journal, or of which a copy is kept. */
static void
set_aside_event(void *arg, EventTime time, const Event *event, bool copied)
{
	Judge	   *judge = arg;
	SetAsideBatch *batch = &judge->batch;
	MemoryContext old = MemoryContextSwitchTo(batch->context);
	bytea	   *packed;

	while (!judge->remove[judge->next] && !judge->copy[judge->next])
		judge->next++;
	if (batch->n == batch->room)
	{
		batch->room = batch->room == 0 ? 64 : batch->room * 2;
		if (batch->n == 0)
		{
			batch->times = palloc(batch->room * sizeof(Datum));
			batch->events = palloc(batch->room * sizeof(Datum));
			batch->reasons = palloc(batch->room * sizeof(Datum));
			batch->partial = palloc(batch->room * sizeof(Datum));
			for (int i = 0; i < lengthof(batch->missed); i++)
				batch->missed[i] = palloc(batch->room * sizeof(Datum));
			batch->none_missed = palloc(batch->room * sizeof(bool));
		}
		else
		{
			batch->times = repalloc(batch->times, batch->room * sizeof(Datum));
			batch->events = repalloc(batch->events, batch->room * sizeof(Datum));
			batch->reasons = repalloc(batch->reasons, batch->room * sizeof(Datum));
			batch->partial = repalloc(batch->partial, batch->room * sizeof(Datum));
			for (int i = 0; i < lengthof(batch->missed); i++)
				batch->missed[i] = repalloc(batch->missed[i], batch->room * sizeof(Datum));
			batch->none_missed = repalloc(batch->none_missed, batch->room * sizeof(bool));
		}
	}
	packed = palloc(VARHDRSZ + event->length);
	SET_VARSIZE(packed, VARHDRSZ + event->length);
	memcpy(VARDATA(packed), event, event->length);
	batch->times[batch->n] = Int64GetDatum(time);
	batch->events[batch->n] = PointerGetDatum(packed);
	batch->reasons[batch->n] = PointerGetDatum(judge->reasons[judge->next]);
	batch->partial[batch->n] = BoolGetDatum(copied);
	batch->none_missed[batch->n] = !copied;
	for (int i = 0; i < lengthof(batch->missed); i++)
		batch->missed[i][batch->n] = copied ?
			PointerGetDatum(pstrdup(judge->missed[judge->next].literals[i])) : (Datum) 0;
	batch->n++;
	batch->bytes += event->length;
	judge->next++;
	MemoryContextSwitchTo(old);
}

/* ArrivalSink of on_expired 'drop'. */
static void
drop_event(void *arg, EventTime time, const Event *event, bool copied)
{
}

/* Takes events of one arrival out of the journal, and keeps what is to be kept. */
static void
set_aside(Judge *judge, Arrival *arrival, const bool *remove, const bool *copy,
		  const char **reasons, const MissedWindows *missed)
{
	StreamPass *pass = judge->pass;
	bool		keep = judge->stream->options.on_expired != ON_EXPIRED_DROP;
	bool		any = false;

	for (int i = 0; i < arrival->nevents && !any; i++)
		any = remove[i] || (keep && copy[i]);
	if (!any)
		return;
	judge->remove = remove;
	judge->copy = copy;
	judge->reasons = reasons;
	judge->missed = missed;
	judge->next = 0;
	arrivals_set_aside(&pass->info->storage, pass->snapshot, arrival, remove,
					   keep ? copy : NULL, keep ? set_aside_event : drop_event, judge);
	if (judge->batch.n >= BATCH_EVENTS || judge->batch.bytes >= BATCH_BYTES)
		flush_batch(judge);
}

/* An arrival whose events share one fate. */
static void
judge_uniform(Judge *judge, Arrival *arrival)
{
	int			n = arrival->nevents;
	Verdict		verdict = judge_with_clock(judge, arrival->first, n);
	bool	   *remove;
	bool	   *copy;
	const char **reasons;
	MissedWindows *missed;

	if (!verdict.ahead)
	{
		judge->pass->greatest = Max(judge->pass->greatest, arrival->last);
		if (evidence_wants(&judge->stream->late->evidence, arrival->last))
			judge->evident[judge->nevident++] = arrival;
	}
	count_events(judge->pass, &verdict, n);
	if (!verdict.expired && !verdict.remove)
		return;
	remove = palloc(n * sizeof(bool));
	copy = palloc(n * sizeof(bool));
	reasons = palloc(n * sizeof(char *));
	missed = palloc0(n * sizeof(MissedWindows));
	for (int i = 0; i < n; i++)
	{
		remove[i] = verdict.remove;
		copy[i] = !verdict.remove;
		reasons[i] = verdict.reason;
		if (copy[i])
			missed[i] = i == 0 ? missed_windows(judge) : missed[0];
	}
	set_aside(judge, arrival, remove, copy, reasons, missed);
}

/* An arrival of which every event is judged by its own time. */
static void
judge_singly(Judge *judge, Arrival *arrival)
{
	StreamPass *pass = judge->pass;
	int			n = arrival->nevents;
	EventTime  *times = arrivals_times(&pass->info->storage, pass->snapshot, arrival);
	bool	   *remove = palloc(n * sizeof(bool));
	bool	   *copy = palloc(n * sizeof(bool));
	const char **reasons = palloc0(n * sizeof(char *));
	MissedWindows *missed = palloc0(n * sizeof(MissedWindows));
	bool		any = false;

	for (int i = 0; i < n; i++)
	{
		Verdict		verdict = judge_with_clock(judge, times[i], 1);

		if (!verdict.ahead)
			evidence_add(&judge->stream->late->evidence, times[i], 1);
		count_events(pass, &verdict, 1);
		remove[i] = verdict.remove;
		copy[i] = verdict.expired && !verdict.remove;
		reasons[i] = verdict.reason;
		if (copy[i])
			missed[i] = missed_windows(judge);
		any |= verdict.remove || verdict.expired;
	}
	if (any)
		set_aside(judge, arrival, remove, copy, reasons, missed);
}

/* Judges all arrivals of a pass over one stream. */
void
account_arrivals(StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	Arrivals   *arrivals = pass->arrivals;
	Judge		judge = {.pass = pass,.stream = stream};

	judge.evident = palloc(Max(1, arrivals->nitems) * sizeof(Arrival *));
	judge.recent = palloc0(Max(1, list_length(stream->views)) * sizeof(WindowDelta *));
	judge.arrival_context = AllocSetContextCreate(pass->context, "aion arrival",
												  ALLOCSET_DEFAULT_SIZES);
	judge.batch.context = AllocSetContextCreate(pass->context, "aion set-aside batch",
												ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < arrivals->nitems; i++)
	{
		Arrival    *arrival = &arrivals->items[i];
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (arrival->nevents == 0)
		{
			pass->advance = Max(pass->advance, arrival->first);
			arrivals_remove_control(&pass->info->storage, arrivals, arrival);
			continue;
		}
		pass->events += arrival->nevents;
		old = MemoryContextSwitchTo(judge.arrival_context);
		if (is_uniform(&judge, arrival->first, arrival->last))
			judge_uniform(&judge, arrival);
		else
			judge_singly(&judge, arrival);
		MemoryContextSwitchTo(old);
		MemoryContextReset(judge.arrival_context);
	}
	flush_batch(&judge);
	auto_lateness_evidence(pass, judge.evident, judge.nevident);
	pfree(judge.evident);
	MemoryContextDelete(judge.arrival_context);
	MemoryContextDelete(judge.batch.context);
	DEBUG_POINT("account-judged");
}
