/*
 * auto_lateness.c
 *	  Allowed lateness 'auto': how late a stream's events come, and how long
 *	  windows wait for them (Aion paper, section 3; arithmetic in
 *	  time/late_histogram.h).
 *
 * Each late event of each window is observed by the pass that accounts for it:
 * W then minus the window's end, whether or not the window takes it in. Were
 * those that come too late left out, each bound would make the next one
 * smaller. That goes for every stream, so that 'auto' has something to go by
 * when it is chosen.
 *
 * A window that is made takes the bound in force, and keeps it. It has had its
 * lateness when the proven watermark reaches its end + that: W_e, but no more than
 * time/evidence.h bears out. A window without a row would have to get the present
 * bound, so those that end at or before proven watermark - bound are closed to
 * events ("expired_through"); what was closed so stays closed though the bound should
 * grow, since what is purged follows from it (publish.c).
 *
 * The histogram is written in a pass's transaction, but not in each one: when there
 * is something new to write and WRITE_INTERVAL has gone by, and before a
 * state is reached that changes the bound. The bound follows from what is in the table
 * alone. So a crash, or an error that has everything loaded again, takes away
 * what was observed since the last time, and no bound that was used. The evidence and
 * expired_through are in aion.stream_state, with W.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "debug_point.h"
#include "worker/scheduler.h"

/* At least so much time lies between two writes of a histogram that change no state. */
#define WRITE_INTERVAL	(5 * USECS_PER_SEC)

/* W_e as far as enough events bear it out; EVENT_TIME_NEVER: not at all. */
EventTime
proven_watermark(EventTime event_watermark, const AutoLateness *late)
{
	return Min(event_watermark, evidence_time(&late->evidence));
}

/* Windows of the view whose "expires" is here or before have had their lateness when W_e is event_watermark. */
EventTime
view_expiry_limit(const SchedView *view, EventTime event_watermark)
{
	if (view->def.allowed_lateness.automatic)
		return proven_watermark(event_watermark, view->stream->late);
	return lateness_threshold(event_watermark, &view->def.allowed_lateness);
}

/* The bound that follows from all that was observed. */
static LateBound
bound_at(const AutoLateness *late, EventTime event_watermark)
{
	int64		observed = late->since == EVENT_TIME_NEVER ? 0 :
		int64_sub_saturating(event_watermark, late->since);

	return late_histogram_bound(&late->histogram, &late->config, observed);
}

/* Takes over the stream's options and settings. False: they are as they were. */
static bool
configure(SchedStream *stream)
{
	AutoLateness *late = stream->late;
	LateBoundConfig config;

	stream_late_bound_config(stream->options.lateness_coverage, stream->options.lateness_confidence,
							 &config);
	if (memcmp(&config, &late->config, sizeof(config)) == 0)
		return false;
	late->config = config;
	late_histogram_set_memory(&late->histogram, stream_late_memory(&config));
	return true;
}

/* Makes what a stream has before it is loaded. */
void
auto_lateness_init(SchedStream *stream)
{
	stream->late = MemoryContextAllocZero(scheduler.context, sizeof(AutoLateness));
}

/* What the tables say, "row" among them; W_e is known. Between SPI_connect() and SPI_finish(). */
void
auto_lateness_load(SchedStream *stream, const StreamStateRow *row, int64 now)
{
	AutoLateness *late = stream->late;
	LatenessRow lateness;

	(void) configure(stream);
	late_histogram_init(&late->histogram, stream_late_memory(&late->config));
	late->events = 0;
	late->unwritten = 0;
	late->since = EVENT_TIME_NEVER;
	late->written_at = now;
	if (store_lateness_load(stream->relid, &lateness))
	{
		const uint8 *packed = (const uint8 *) VARDATA_ANY(lateness.histogram);

		late->events = lateness.events;
		/* W_e is lower than that after it was reset */
		late->since = Min(lateness.since, row->event_watermark);
		if (!late_histogram_decode(&late->histogram, packed, VARSIZE_ANY_EXHDR(lateness.histogram)))
			ereport(LOG,
					(errmsg("what was known of late events of stream %u can't be read, and is learnt anew",
							stream->relid)));
	}
	late->bound = bound_at(late, row->event_watermark);
	evidence_init(&late->evidence, row->evidence_time);
	late->expired_through = row->expired_through;
}

/* Begins a pass. After a change of options the bound is another one from here on, and this pass writes what it follows from. */
void
auto_lateness_begin(StreamPass *pass)
{
	AutoLateness *late = pass->stream->late;

	if (!configure(pass->stream))
		return;
	late->bound = bound_at(late, pass->stream->watermark.event_watermark);
	late->written_at = pass->mono - WRITE_INTERVAL;
}

static int
compare_last(const void *a, const void *b)
{
	EventTime	x = (*(const Arrival *const *) a)->last;
	EventTime	y = (*(const Arrival *const *) b)->last;

	return x < y ? 1 : x > y ? -1 : 0;
}

/*
 * Adds arrivals to the evidence. Latest first: then no more have to be read than there are times to be
 * remembered.
 */
void
auto_lateness_evidence(StreamPass *pass, const Arrival **arrivals, int n)
{
	Evidence   *evidence = &pass->stream->late->evidence;

	qsort(arrivals, n, sizeof(*arrivals), compare_last);
	for (int i = 0; i < n && evidence_wants(evidence, arrivals[i]->last); i++)
	{
		const Arrival *arrival = arrivals[i];
		EventTime  *times;

		if (arrival->first == arrival->last)
		{
			evidence_add(evidence, arrival->last, arrival->nevents);
			continue;
		}
		times = arrivals_times(&pass->info->storage, pass->snapshot, arrival);
		for (int e = 0; e < arrival->nevents; e++)
			evidence_add(evidence, times[e], 1);
		pfree(times);
	}
}

/*
 * Puts what came late in this pass into the histogram. Where INSERT refuses what comes too late (on_expired 'error')
 * that is never seen, and each bound would make the next one shorter: there the first estimate stays.
 */
static void
observe(StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	AutoLateness *late = stream->late;
	HASH_SEQ_STATUS seq;
	WindowDelta *delta;

	if (stream->options.on_expired == ON_EXPIRED_ERROR && late->bound.state == LATE_BOUND_ESTIMATED)
		return;
	hash_seq_init(&seq, pass->deltas);
	while ((delta = hash_seq_search(&seq)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (delta->observed == 0)
			continue;
		if (late->events == 0)
			late->since = stream->watermark.event_watermark;
		late_histogram_add(&late->histogram,
						   int64_sub_saturating(stream->watermark.watermark, delta->end),
						   delta->observed);
		late->events += delta->observed;
		late->unwritten += delta->observed;
	}
}

/* True if the histogram is to be written now. */
static bool
wants_write(const StreamPass *pass)
{
	const AutoLateness *late = pass->stream->late;

	if (late->unwritten == 0)
		return false;
	if (pass->mono - late->written_at >= WRITE_INTERVAL)
		return true;
	return late->bound.state != LATE_BOUND_ESTIMATED &&
		bound_at(late, pass->watermark.event_watermark).state != late->bound.state;
}

/*
 * Writes what the table lacks, in a transaction after which the stream is loaded again: "late" itself stays as
 * it is, so that nothing is lost if that fails.
 */
void
auto_lateness_save(const SchedStream *stream)
{
	const AutoLateness *late = stream->late;
	LatenessRow row;
	size_t		size;

	if (late->unwritten == 0)
		return;

	row.histogram = palloc(VARHDRSZ + LATE_HISTOGRAM_BYTES);
	size = late_histogram_encode(&late->histogram, (uint8 *) VARDATA(row.histogram));
	SET_VARSIZE(row.histogram, VARHDRSZ + size);
	row.events = late->events;
	row.since = late->since;
	store_lateness_write(stream->relid, &row);
	pfree(row.histogram);
}

static void
write_histogram(StreamPass *pass)
{
	AutoLateness *late = pass->stream->late;

	auto_lateness_save(pass->stream);
	late->unwritten = 0;
	late->written_at = pass->mono;
	DEBUG_POINT("lateness-written");
}

/*
 * In the pass's transaction, after its arrivals were judged and W was moved: observes, writes, and says what
 * the next pass goes by.
 */
void
auto_lateness_write(StreamPass *pass)
{
	AutoLateness *late = pass->stream->late;
	EventTime	watermark = pass->watermark.event_watermark;

	observe(pass);
	if (wants_write(pass))
	{
		write_histogram(pass);
		late->bound = bound_at(late, watermark);
	}
	else if (late->bound.reason == LATE_BOUND_SHORT_TIME && late->unwritten == 0)
		late->bound = bound_at(late, watermark);	/* W_e alone may make an estimate count */
	pass->expired_through = Max(late->expired_through,
								event_time_minus(proven_watermark(watermark, late), late->bound.bound));
}

/* After the commit. */
void
auto_lateness_applied(const StreamPass *pass)
{
	SchedStream *stream = pass->stream;
	AutoLateness *late = stream->late;

	late->expired_through = pass->expired_through;
	if (late->unwritten > 0)
		stream_want_pass(stream, late->written_at + WRITE_INTERVAL);
}

/*
 * W_e is about to be lowered: what of the evidence stays, and what is closed then. Windows that are final or
 * have refused events are closed by final_through.
 */
EventTime
auto_lateness_reset(const SchedStream *stream, const WatermarkState *watermark, EventTime *evident)
{
	const AutoLateness *late = stream->late;

	*evident = Min(evidence_time(&late->evidence), watermark->event_watermark);
	return Min(late->expired_through, event_time_minus(*evident, late->bound.bound));
}
