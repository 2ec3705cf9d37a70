/*
 * readmit.c
 *	  Applying events after all that were set aside: aion.readmit().
 *
 * One transaction of the scheduler between two passes, for all events of a request or for
 * none. Events go back to the journal, as ones that were accounted for long ago, so that
 * no pass judges them again; they leave aion.set_aside; and each window that missed them
 * counts them, and is executed because of that. W does not move, and the stream's
 * counters stay: they say what the events were when they came.
 *
 * A window that is closed is reopened (Window.reopened): it goes on refusing what arrives,
 * is executed once, and is final again. It can be, if the stream still holds everything
 * that it has counted. But its execution will see all that the stream holds of it, also
 * events that came too late for this window alone and are stored for the sake of others.
 * So such events have to be readmitted together, or stay out together. Both are found by
 * counting what is stored and comparing it with the number in the window's row.
 *
 * Purging is locked out (purge_lock.h). A crash before the commit leaves nothing; after it
 * everything: reopened windows are loaded, and executed, like any that have news. Whether
 * the transaction that a request names has committed tells a successor of this process
 * what to answer.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/dsm.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "worker/purge_lock.h"
#include "worker/scheduler.h"

typedef struct Readmission
{
	SchedStream *stream;
	Request    *request;
	const StreamInfo *info;
	const int64 *ids;
	SetAsideRow *rows;
	int			n;
	HTAB	   *windows;		/* ReadmitWindow */
	ReadmitWindow **list;		/* the same */
	int			nwindows;
	EventTime	purged_time;	/* greatest event time among purged events */
} Readmission;

/* ---- what the request is about ---- */

/* The ids of a request; NULL: its caller has left. Palloc'd. */
static int64 *
copy_ids(const Request *request)
{
	dsm_segment *segment = dsm_attach(request->ids);
	int64	   *ids;

	if (segment == NULL)
		return NULL;
	ids = palloc(sizeof(int64) * request->nids);
	memcpy(ids, dsm_segment_address(segment), sizeof(int64) * request->nids);
	dsm_detach(segment);
	return ids;
}

/* Says why not. The message is made by the caller. Returns false, for convenience. */
static bool
refuse(Readmission *r, int sqlstate, const char *hint)
{
	r->request->result = REQUEST_REFUSED;
	r->request->sqlstate = sqlstate;
	control_copy_text(r->request->hint, sizeof(r->request->hint), hint);
	return false;
}

/* False, and refused, if the caller has checked the events against other constraints than those in force. */
static bool
check_constraints(Readmission *r)
{
	Relation	rel = relation_open(r->stream->relid, NoLock);
	bool		same = stream_constraints_hash(rel) == r->request->constraints;

	if (!same)
		snprintf(r->request->message, sizeof(r->request->message),
				 "constraints of stream \"%s\" were changed by another transaction",
				 RelationGetRelationName(rel));
	relation_close(rel, NoLock);
	return same || refuse(r, ERRCODE_T_R_SERIALIZATION_FAILURE, "Call aion.readmit() again.");
}

/* False, and refused, unless there are rows for all ids. */
static bool
read_rows(Readmission *r)
{
	int			found;
	int			i = 0;

	r->rows = palloc(sizeof(SetAsideRow) * r->n);
	found = store_set_aside_read(r->stream->relid, r->ids, r->n, r->rows);
	if (found == r->n)
		return true;
	while (i < found && r->rows[i].id == r->ids[i])
		i++;
	snprintf(r->request->message, sizeof(r->request->message),
			 "there is no set-aside event with id " INT64_FORMAT, r->ids[i]);
	strlcpy(r->request->detail, "It has been readmitted meanwhile, or its stream was truncated.",
			sizeof(r->request->detail));
	return refuse(r, ERRCODE_UNDEFINED_OBJECT, "");
}

/* ---- its windows ---- */

static ReadmitWindow *
find_window(Readmission *r, SchedView *view, EventTime start)
{
	WindowKey	key = {.start = start,.view = view->def.view,.zero = 0};
	bool		found;
	ReadmitWindow *window = hash_search(r->windows, &key, HASH_ENTER, &found);

	if (!found)
	{
		memset((char *) window + sizeof(WindowKey), 0, sizeof(ReadmitWindow) - sizeof(WindowKey));
		window->view = view;
		window->end = window_end(&view->def.window, start);
	}
	return window;
}

/* An event that counts in no window comes back to all that it falls in. */
static void
add_event(Readmission *r, const SetAsideRow *row)
{
	ListCell   *lc;

	foreach(lc, r->stream->views)
	{
		SchedView  *view = lfirst(lc);
		const WindowSpec *spec = &view->def.window;
		EventTime	last = window_last(spec, row->time);

		for (EventTime start = window_first(spec, row->time); start <= last; start += spec->slide)
		{
			ReadmitWindow *window;

			if (start < view->begins)
				continue;
			window = find_window(r, view, start);
			window->added++;
			window->id = row->id;
		}
	}
}

/* One that is stored counts in those that missed it. Views that were dropped since are left out. */
static void
add_copy(Readmission *r, const SetAsideRow *row)
{
	for (int i = 0; i < row->nruns; i++)
	{
		SchedView  *view = sched_view(row->views[i]);

		if (view == NULL || view->stream != r->stream)
			continue;
		for (EventTime start = row->first[i]; start <= row->last[i]; start += view->def.window.slide)
		{
			ReadmitWindow *window = find_window(r, view, start);

			window->missed++;
			window->id = row->id;
		}
	}
}

static int
compare_windows(const void *a, const void *b)
{
	const ReadmitWindow *left = *(ReadmitWindow *const *) a;
	const ReadmitWindow *right = *(ReadmitWindow *const *) b;

	if (left->key.start != right->key.start)
		return left->key.start < right->key.start ? -1 : 1;
	return left->key.view < right->key.view ? -1 : left->key.view > right->key.view;
}

/* All windows of the request's events, by start. */
static void
find_windows(Readmission *r)
{
	HASHCTL		ctl;
	HASH_SEQ_STATUS seq;
	ReadmitWindow *window;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(WindowKey);
	ctl.entrysize = sizeof(ReadmitWindow);
	ctl.hcxt = CurrentMemoryContext;
	r->windows = hash_create("aion readmission", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < r->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (r->rows[i].partial)
			add_copy(r, &r->rows[i]);
		else
			add_event(r, &r->rows[i]);
	}
	r->list = palloc_extended(sizeof(ReadmitWindow *) * Max(hash_get_num_entries(r->windows), 1),
							  MCXT_ALLOC_HUGE);
	hash_seq_init(&seq, r->windows);
	while ((window = hash_seq_search(&seq)) != NULL)
		r->list[r->nwindows++] = window;
	qsort(r->list, r->nwindows, sizeof(ReadmitWindow *), compare_windows);
}

/* ---- whether they can be computed ---- */

static bool
refuse_window(Readmission *r, const ReadmitWindow *window, const char *why, const char *hint)
{
	snprintf(r->request->message, sizeof(r->request->message),
			 "set-aside event " INT64_FORMAT " cannot be readmitted", window->id);
	control_copy_text(r->request->detail, sizeof(r->request->detail),
					  psprintf("The window of view %s that starts at %s %s.", window->view->name,
							   timestamptz_to_str(event_time_clamp(window->key.start)), why));
	return refuse(r, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, hint);
}

static bool
refuse_purged(Readmission *r, const ReadmitWindow *window)
{
	return refuse_window(r, window, "lacks events that were purged",
						 "Its result stays as it is. A longer allowed lateness of the stream keeps events longer.");
}

/* Reads what is known of a window. False: it can't take anything in. */
static bool
look_up_window(Readmission *r, ReadmitWindow *window)
{
	SchedView  *view = window->view;
	Window	   *open = window_find(view, window->key.start);
	WindowRow	row;

	window->closed = open != NULL ? open->reopened :
		view_is_closed(view, window->end);
	window->found = store_firing_load(window->key.view, window->key.start, &row);
	if (window->found && row.incomplete != NULL)
	{
		char	   *why = psprintf("is incomplete (%s)", row.incomplete);

		return refuse_window(r, window, why, "An incomplete window is never computed again.");
	}
	/*
	 * Purging takes whole buckets, the earliest first: from a closed window that begins before its latest victim
	 * something is gone, and comparing numbers would take events that the window has missed for it.
	 */
	if (window->closed && window->key.start <= r->purged_time)
		return refuse_purged(r, window);
	if (window->found)
		window->counted = row.events;
	else if (window->key.start < view->incomplete_before)
		return refuse_purged(r, window);	/* it held no event, or they are gone and its row with them */
	return true;
}

/* Windows of the list that overlap the times are those from *from on, to the one that is returned. */
static int
overlapping(const Readmission *r, EventTime first, EventTime last, int *from)
{
	int			low = 0;
	int			high = r->nwindows;
	int64		longest = 0;
	ListCell   *lc;

	foreach(lc, r->stream->views)
		longest = Max(longest, ((SchedView *) lfirst(lc))->def.window.size);
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (r->list[middle]->key.start <= int64_sub_saturating(first, longest))
			low = middle + 1;
		else
			high = middle;
	}
	*from = low;
	while (low < r->nwindows && r->list[low]->key.start <= last)
		low++;
	return low;
}

/* n stored events at times between first and last count in windows that hold both. */
static void
count_stored(Readmission *r, EventTime first, EventTime last, const EventTime *times, int32 n)
{
	int			from;
	int			end = overlapping(r, first, last, &from);

	for (int i = from; i < end; i++)
	{
		ReadmitWindow *window = r->list[i];

		if (!window->closed)
			continue;
		if (window->key.start <= first && last < window->end)
			window->stored += n;
		else if (times != NULL)
			for (int32 j = 0; j < n; j++)
				window->stored += window->key.start <= times[j] && times[j] < window->end;
		else
			Assert(window->end <= first || last < window->key.start);
	}
}

/* RetainedSink */
static void
see_stored(void *arg, int64 bucket, int32 nevents, EventTime first, EventTime last, const EventTime *times)
{
	CHECK_FOR_INTERRUPTS();
	if (nevents > 0)
		count_stored(arg, first, last, times, nevents);
}

/* Counts what the stream holds of closed windows. */
static void
count_windows(Readmission *r)
{
	EventTime	low = EVENT_TIME_END;
	EventTime	high = EVENT_TIME_NEVER;
	bool		want_times = false;

	for (int i = 0; i < r->nwindows; i++)
	{
		const ReadmitWindow *window = r->list[i];

		if (!window->closed)
			continue;
		low = Min(low, window->key.start);
		high = Max(high, window->end);
		want_times |= !window_aligned(&window->view->def.window, r->info->storage.bucket_width);
	}
	if (low < high)
		arrivals_retained_between(&r->info->storage, GetActiveSnapshot(), r->stream->accounted,
								  low, high, want_times, see_stored, r);
}

/* False, and refused, if a window can't be computed from what the stream holds. */
static bool
check_windows(Readmission *r)
{
	for (int i = 0; i < r->nwindows; i++)
	{
		if (i % 64 == 0)
			CHECK_FOR_INTERRUPTS();
		if (!look_up_window(r, r->list[i]))
			return false;
	}
	count_windows(r);
	for (int i = 0; i < r->nwindows; i++)
	{
		const ReadmitWindow *window = r->list[i];
		int64		others = window->stored - window->counted - window->missed;

		if (!window->closed)
			continue;
		if (others < 0)
			return refuse_purged(r, window);
		if (others > 0)
			return refuse_window(r, window, psprintf("has also missed " INT64_FORMAT " other %s", others,
											   others == 1 ? "event that is stored" : "events that are stored"),
								 "Readmit all events that the window has missed in one call; \"windows\" in aion.expired names the windows of each.");
	}
	return true;
}

/* ---- the transaction ---- */

/* Writes everything. */
static void
write_readmission(Readmission *r)
{
	const Event **events = palloc(sizeof(Event *) * r->n);
	EventTime	last_end = EVENT_TIME_NEVER;
	int			n = 0;

	for (int i = 0; i < r->n; i++)
		if (!r->rows[i].partial)
			events[n++] = r->rows[i].event;
	r->stream->journal_only += arrivals_readmit(&r->info->storage, r->stream->accounted, events, n);
	DEBUG_POINT("readmit-written");
	auto_lateness_save(r->stream);
	store_set_aside_delete(r->ids, r->n);
	store_windows_readmit(r->list, r->nwindows, r->stream->watermark.watermark);
	for (int i = 0; i < r->nwindows; i++)
		last_end = Max(last_end, r->list[i]->end);
	if (last_end > r->stream->last_window_end)
		store_stream_window_end(r->stream->relid, last_end);
}

/* True if some view is yet to be taken up: it would count the events a second time. */
static bool
views_are_new(const SchedStream *stream)
{
	ListCell   *lc;

	foreach(lc, stream->views)
		if (!((SchedView *) lfirst(lc))->loaded || !((SchedView *) lfirst(lc))->taken_up)
			return true;
	return false;
}

/* The body of the transaction, SPI being connected. */
static ReadmitResult
readmit_locked(Readmission *r)
{
	StreamStateRow state;

	if (!store_stream_load(r->stream->relid, &state))
		elog(ERROR, "stream %u has no row in aion.stream_state", r->stream->relid);
	r->purged_time = state.purged_time;
	if (!check_constraints(r) || !read_rows(r))
		return READMIT_REFUSED;
	find_windows(r);
	if (!check_windows(r))
		return READMIT_REFUSED;
	write_readmission(r);
	r->request->applied_by = GetTopFullTransactionId();
	control_request_note(r->request);
	DEBUG_POINT("readmit-before-commit");
	return READMIT_DONE;
}

/* Up to, and without, the commit. Errors out with the transaction open. */
static ReadmitResult
readmit_in_transaction(Readmission *r)
{
	ReadmitResult result;
	MemoryContext old = CurrentMemoryContext;

	StartTransactionCommand();
	MemoryContextSwitchTo(old);
	if (!store_lock_tables() || (r->info = pass_lock_stream(r->stream, mono_now())) == NULL ||
		!purge_lock(r->stream->relid))
		return READMIT_LOCKED;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to the SPI manager");
	MemoryContextSwitchTo(old);
	PushActiveSnapshot(GetTransactionSnapshot());
	result = readmit_locked(r);
	PopActiveSnapshot();
	SPI_finish();
	return result;
}

/* An error concerns the request alone: it is its answer. */
static ReadmitResult
refuse_for_error(Readmission *r, MemoryContext context)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(context);
	FlushErrorState();
	RESUME_INTERRUPTS();
	control_copy_text(r->request->message, sizeof(r->request->message),
					  error->message ? error->message : "unknown error");
	control_copy_text(r->request->detail, sizeof(r->request->detail), error->detail ? error->detail : "");
	(void) refuse(r, error->sqlerrcode, error->hint ? error->hint : "");
	return READMIT_REFUSED;
}

/* After the commit: everything of the stream is loaded again. */
static void
forget_stream(SchedStream *stream)
{
	ListCell   *lc;

	stream->loaded = false;
	foreach(lc, stream->views)
		((SchedView *) lfirst(lc))->loaded = false;
	scheduler.definitions_changed = true;	/* no sleep before that */
}

/*
 * Applies the request's events. The caller has run a pass over the stream. In a transaction of its own; an
 * error in it is the request's answer.
 */
ReadmitResult
readmit_events(SchedStream *stream, Request *request)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion readmission",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Readmission r = {.stream = stream,.request = request,.n = request->nids};
	volatile ReadmitResult result = READMIT_GONE;

	if (views_are_new(stream))
		result = READMIT_LOCKED;
	else if ((r.ids = copy_ids(request)) != NULL)
	{
		publish_no_purge(stream);
		stream_want_pass(stream, mono_now());	/* that lets purging go on */
		PG_TRY();
		{
			result = readmit_in_transaction(&r);
			CommitTransactionCommand();
		}
		PG_CATCH();
		{
			result = refuse_for_error(&r, context);
		}
		PG_END_TRY();
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (result == READMIT_DONE)
	{
		forget_stream(stream);
		DEBUG_POINT("readmit-committed");
	}
	return result;
}
