/*
 * request_service.c
 *	  What backends ask the scheduler for: sync, refresh, destage,
 *	  reset_watermark, readmit.
 *
 * A request is taken before the pass that it waits for takes its snapshot, so
 * that pass accounts for all that its caller had committed. When it has committed, what
 * the request asks to be executed is made due, and the request is done as soon as
 * no window of the stream (view) that fell due by that pass is left undone. A
 * failure that was recorded is done; so is what a paused view keeps back.
 *
 * Requests live in shared memory; a successor finds those of a scheduler that
 * died posted again.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "utils/memutils.h"

#include "worker/scheduler.h"

#define LOOK_AGAIN (50 * 1000)	/* microseconds: for what nobody wakes us for */

typedef struct PendingRequest
{
	Request		request;
	uint64		pass;			/* that covered it; 0: none yet */
	uint64		destage;		/* number to wait for */
	bool		retry;			/* something is locked: look again soon */
} PendingRequest;

static List *pending = NIL;		/* in scheduler.context */

/* The stream that a request is about; NULL: there is none (any more). */
static SchedStream *
request_stream(const Request *request)
{
	SchedView  *view;

	if (request->kind != REQUEST_REFRESH)
		return sched_stream(request->relation);
	view = sched_view(request->relation);
	return view == NULL ? NULL : view->stream;
}

/* Takes what was posted. */
bool
requests_take(void)
{
	MemoryContext old = MemoryContextSwitchTo(scheduler.context);
	Request		requests[16];
	bool		any = false;
	int			n;

	do
	{
		n = control_requests_take(requests, lengthof(requests));
		for (int i = 0; i < n; i++)
		{
			PendingRequest *p = palloc0(sizeof(PendingRequest));

			p->request = requests[i];
			p->request.result = REQUEST_OK;
			p->request.failed_windows = 0;
			p->request.paused_views = 0;
			p->request.message[0] = p->request.detail[0] = p->request.hint[0] = '\0';
			pending = lappend(pending, p);
			any = true;
		}
	} while (n == lengthof(requests));
	MemoryContextSwitchTo(old);
	return any;
}

static void
drop_request(PendingRequest *p)
{
	pending = list_delete_ptr(pending, p);
	pfree(p);
}

/*
 * End of what has been written to the WAL. If that is the end of a page, the insert
 * position is behind the header of the next one, which no flush can reach yet.
 */
static XLogRecPtr
wal_end(void)
{
	XLogRecPtr	position = GetXLogInsertRecPtr();

	if (XLogSegmentOffset(position, wal_segment_size) == SizeOfXLogLongPHD)
		return position - SizeOfXLogLongPHD;
	if (position % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		return position - SizeOfXLogShortPHD;
	return position;
}

/* Answers a request; whatever it waited for is on disk then, also what executors committed without waiting. */
static void
finish(PendingRequest *p)
{
	XLogFlush(wal_end());
	control_request_finish(&p->request);
	drop_request(p);
}

static void
refuse(PendingRequest *p, int sqlstate, const char *message)
{
	p->request.result = REQUEST_REFUSED;
	p->request.sqlstate = sqlstate;
	control_copy_text(p->request.message, sizeof(p->request.message), message);
	finish(p);
}

/*
 * True if what the request asks for, and must not be done twice, was done: the transaction tells,
 * also if it was one of a scheduler that is no more.
 */
static bool
is_applied(const PendingRequest *p)
{
	return FullTransactionIdIsValid(p->request.applied_by) &&
		TransactionIdDidCommit(XidFromFullTransactionId(p->request.applied_by));
}

/* True if a pass over the stream is waited for, be it to make windows final. */
bool
requests_waiting(const SchedStream *stream)
{
	ListCell   *lc;

	foreach(lc, pending)
		if (request_stream(&((PendingRequest *) lfirst(lc))->request) == stream)
			return true;
	return false;
}

/* Definitions are fresh: requests about nothing are done, the others want a pass. */
void
requests_resolve(int64 now)
{
	List	   *requests = list_copy(pending);
	ListCell   *lc;

	foreach(lc, requests)
	{
		PendingRequest *p = lfirst(lc);
		SchedStream *stream = request_stream(&p->request);

		if (stream != NULL)
		{
			if (p->pass == 0)
				stream_want_pass(stream, now);
		}
		else if (scheduler.reload_at == MONO_NEVER && !scheduler.definitions_changed)
		{
			p->request.result = REQUEST_GONE;
			finish(p);
		}
	}
	list_free(requests);
}

/* ---- when the pass has committed ---- */

/* Late windows with news are executed now instead of later. */
static void
start_late(SchedStream *stream, int64 now)
{
	ListCell   *lc;

	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);
		dlist_iter	iter;

		dlist_foreach(iter, &view->news)
		{
			Window	   *window = dlist_container(Window, news_node, iter.cur);
			bool		seen = window->failed && window->events <= window->sent_events;

			if (window->end <= stream->watermark.watermark && window_dirty(window) && !seen)
				window_make_due(window, stream->pass, false, now);
		}
	}
}

/* One window is executed in any case, unless that is impossible. */
static void
start_one_window(PendingRequest *p, SchedView *view, int64 now)
{
	const WindowSpec *spec = &view->def.window;
	EventTime	start = p->request.time;
	Window	   *window = window_find(view, start);

	if (window_last(spec, start) != start)
		refuse(p, ERRCODE_INVALID_PARAMETER_VALUE, "no window of the view starts then");
	else if (window == NULL && view_is_closed(view, window_end(spec, start)))
		refuse(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the window is final");
	else if (window != NULL && window->incomplete != NULL)
		refuse(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the window is incomplete");
	else if (window != NULL)
		window_make_due(window, view->stream->pass, true, now);
}

static void
start_refresh(PendingRequest *p, int64 now)
{
	SchedView  *view = sched_view(p->request.relation);
	dlist_iter	iter;

	if (p->request.one_window)
	{
		start_one_window(p, view, now);
		return;
	}
	dlist_foreach(iter, &view->news)
		window_make_due(dlist_container(Window, news_node, iter.cur), view->stream->pass, false, now);
}

void
requests_passed(SchedStream *stream, int64 now)
{
	List	   *requests = list_copy(pending);
	ListCell   *lc;

	foreach(lc, requests)
	{
		PendingRequest *p = lfirst(lc);

		if (p->pass != 0 || request_stream(&p->request) != stream)
			continue;
		p->pass = stream->pass;
		switch (p->request.kind)
		{
			case REQUEST_SYNC:
				if (p->request.late)
					start_late(stream, now);
				break;
			case REQUEST_REFRESH:
				start_refresh(p, now);
				break;
			case REQUEST_DESTAGE:
				publish_stream(stream, false, true);
				p->destage = stream->facts.destage_wanted;
				break;
			case REQUEST_RESET_WATERMARK:
				break;
			case REQUEST_READMIT:
				if (is_applied(p))
					start_late(stream, now);
				break;
		}
	}
	list_free(requests);
}

/* The stream was loaded again: which of its windows were made due is forgotten, so begin anew. */
void
requests_restart(SchedStream *stream)
{
	ListCell   *lc;

	foreach(lc, pending)
	{
		PendingRequest *p = lfirst(lc);

		if (request_stream(&p->request) == stream)
			p->pass = 0;
	}
}

/* ---- when it is done ---- */

/* True if the view has no window left that fell due by that pass. */
static bool
view_is_done(SchedView *view, uint64 pass)
{
	return dlist_is_empty(&view->due) ||
		dlist_container(Window, due_node, dlist_head_node(&view->due))->due_pass > pass;
}

/* True if a paused view keeps back windows that would have been executed. */
static bool
view_keeps_back(SchedView *view, bool all)
{
	dlist_iter	iter;

	dlist_foreach(iter, &view->news)
		if (all || dlist_container(Window, news_node, iter.cur)->end <= view->stream->watermark.watermark)
			return true;
	return false;
}

/* Adds a view's failed windows to the result, and names one. */
static void
report_failed(PendingRequest *p, SchedView *view)
{
	dlist_iter	iter;

	if (view->nfailed == 0)
		return;
	dlist_foreach(iter, &view->news)
	{
		Window	   *window = dlist_container(Window, news_node, iter.cur);

		if (!window->failed ||
			(p->request.one_window && window->key.start != p->request.time))
			continue;
		if (p->request.failed_windows++ == 0)
			control_copy_text(p->request.message, sizeof(p->request.message),
							  psprintf("view %s, window starting at %s", view->name,
									   timestamptz_to_str(event_time_clamp(window->key.start))));
	}
}

static void
serve_sync(PendingRequest *p, SchedStream *stream)
{
	ListCell   *lc;

	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (!view->def.paused && !view_is_done(view, p->pass))
			return;
	}
	foreach(lc, stream->views)
	{
		SchedView  *view = lfirst(lc);

		if (view->def.paused)
			p->request.paused_views += view_keeps_back(view, false) ? 1 : 0;
		else
			report_failed(p, view);
	}
	finish(p);
}

static void
serve_refresh(PendingRequest *p, SchedView *view)
{
	if (view->def.paused)
		p->request.paused_views = p->request.one_window || view_keeps_back(view, true) ? 1 : 0;
	else if (p->request.one_window)
	{
		Window	   *window = window_find(view, p->request.time);

		if (window != NULL && window->is_due && window->due_pass <= p->pass)
			return;
		report_failed(p, view);
	}
	else if (!view_is_done(view, p->pass))
		return;
	else
		report_failed(p, view);
	finish(p);
}

/* Readmits events, then waits for their windows as sync does. */
static void
serve_readmit(PendingRequest *p, SchedStream *stream)
{
	if (is_applied(p))
	{
		serve_sync(p, stream);
		return;
	}
	switch (readmit_events(stream, &p->request))
	{
		case READMIT_DONE:
			p->retry = false;
			break;
		case READMIT_LOCKED:
			p->retry = true;
			break;
		case READMIT_REFUSED:
			finish(p);
			break;
		case READMIT_GONE:
			drop_request(p);
			break;
	}
}

/* Finishes requests that are done, and those that nobody waits for any more. */
void
requests_serve(int64 now)
{
	List	   *requests = list_copy(pending);
	ListCell   *lc;

	foreach(lc, requests)
	{
		PendingRequest *p = lfirst(lc);
		SchedStream *stream = request_stream(&p->request);

		if (!control_request_waited_for(&p->request))
		{
			drop_request(p);
			continue;
		}
		if (p->pass == 0 || stream == NULL || !stream->loaded)
			continue;
		switch (p->request.kind)
		{
			case REQUEST_SYNC:
				serve_sync(p, stream);
				break;
			case REQUEST_REFRESH:
				serve_refresh(p, sched_view(p->request.relation));
				break;
			case REQUEST_DESTAGE:
				publish_refresh(stream);
				if (stream->facts.destage_done >= p->destage)
					finish(p);
				break;
			case REQUEST_RESET_WATERMARK:
				p->retry = !pass_reset_watermark(stream, p->request.time);
				if (!p->retry)
					finish(p);
				break;
			case REQUEST_READMIT:
				serve_readmit(p, stream);
				break;
		}
	}
	list_free(requests);
}

int64
requests_next(int64 now)
{
	ListCell   *lc;

	foreach(lc, pending)
	{
		PendingRequest *p = lfirst(lc);

		if (p->retry || request_stream(&p->request) == NULL)
			return now + LOOK_AGAIN;
	}
	return pending == NIL ? MONO_NEVER : now + USECS_PER_SEC;	/* it may be withdrawn */
}
