/*
 * window_table.c
 *	  The windows that are not final, in the scheduler's memory.
 *
 * A hash table finds a window by view and start. Each view keeps its windows in
 * heaps, so that neither a pass nor the low-water marks ever look at all of them.
 * A pair is ordered by start, which for windows of one size is the order of their ends
 * too: not yet past their end, and past it but not fired on time; what W passes
 * goes from one to the other. Another heap ordered by start has all that are not
 * final, incomplete ones included; those of them that have not had their
 * lateness are in a fourth one, too, ordered by when they will have: where each
 * window has a lateness of its own, that is not the order of their starts.
 *
 * Nothing here touches a table; a crash leaves nothing.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "worker/scheduler.h"

static HTAB *windows = NULL;

void
window_table_init(MemoryContext context)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(WindowKey);
	ctl.entrysize = sizeof(Window);
	ctl.hcxt = context;
	windows = hash_create("aion windows", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

int64
window_table_size(void)
{
	return hash_get_num_entries(windows);
}

/* Least start first. */
static int
compare_firing(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	EventTime	x = pairingheap_const_container(Window, firing_node, a)->key.start;
	EventTime	y = pairingheap_const_container(Window, firing_node, b)->key.start;

	return x < y ? 1 : x > y ? -1 : 0;
}

static int
compare_unfinal(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	EventTime	x = pairingheap_const_container(Window, unfinal_node, a)->key.start;
	EventTime	y = pairingheap_const_container(Window, unfinal_node, b)->key.start;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* What expires first, first. */
static int
compare_expiring(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	EventTime	x = pairingheap_const_container(Window, expiring_node, a)->expires;
	EventTime	y = pairingheap_const_container(Window, expiring_node, b)->expires;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Makes the heaps of a new view, in the current memory context. */
void
view_heaps_init(SchedView *view)
{
	view->unfired = pairingheap_allocate(compare_firing, NULL);
	view->overdue = pairingheap_allocate(compare_firing, NULL);
	view->unfinal = pairingheap_allocate(compare_unfinal, NULL);
	view->expiring = pairingheap_allocate(compare_expiring, NULL);
	dlist_init(&view->news);
	dlist_init(&view->due);
	dlist_init(&view->finalize);
}

static WindowKey
make_key(const SchedView *view, EventTime start)
{
	WindowKey	key = {.start = start,.view = view->def.view,.zero = 0};

	return key;
}

Window *
window_find(const SchedView *view, EventTime start)
{
	WindowKey	key = make_key(view, start);

	return hash_search(windows, &key, HASH_FIND, NULL);
}

/* A new window without events and in no heap; it must not be there. */
Window *
window_make(SchedView *view, EventTime start)
{
	WindowKey	key = make_key(view, start);
	bool		found;
	Window	   *window = hash_search(windows, &key, HASH_ENTER, &found);

	Assert(!found);
	memset((char *) window + sizeof(WindowKey), 0, sizeof(Window) - sizeof(WindowKey));
	window->view = view;
	window->end = window_end(&view->def.window, start);
	trigger_executed(window, lateness_clock_at(view->stream, window->end), true);
	return window;
}

/*
 * What view_expiry_limit() is compared with. An automatic lateness is the window's own; any other is the
 * view's, by calendar, so that windows have had it in the order of their ends.
 */
EventTime
window_expires(const SchedView *view, EventTime end, int64 lateness)
{
	return view->def.allowed_lateness.automatic ? event_time_plus(end, lateness) : end;
}

/* Puts a new window where the view's next look at W and W_e finds it. */
void
window_enter_heaps(Window *window)
{
	SchedView  *view = window->view;

	if (!window->fired && window->incomplete == NULL)
	{
		window->firing_heap = view->unfired;
		pairingheap_add(view->unfired, &window->firing_node);
	}
	window->expires = window_expires(view, window->end, window->lateness);
	window->is_unfinal = true;
	pairingheap_add(view->unfinal, &window->unfinal_node);
	/* one that was reopened has had its lateness, whatever W_e says now */
	window->is_expiring = !window->reopened;
	if (window->is_expiring)
		pairingheap_add(view->expiring, &window->expiring_node);
}

/* It fired on time, or failed to: it holds back nothing any more. */
void
window_leave_firing(Window *window)
{
	if (window->firing_heap != NULL)
		pairingheap_remove(window->firing_heap, &window->firing_node);
	window->firing_heap = NULL;
}

void
window_set_failed(Window *window, bool failed)
{
	window->view->nfailed += (int) failed - (int) window->failed;
	window->failed = failed;
}

/* Keeps the view's list of windows that have something new to show. */
void
window_set_news(Window *window)
{
	bool		news = window->incomplete == NULL && (window_dirty(window) || window->failed);

	if (news == window->is_news)
		return;
	if (news)
		dlist_push_tail(&window->view->news, &window->news_node);
	else
		dlist_delete(&window->news_node);
	window->is_news = news;
}

/* Takes a window out of everything: it is final, or its view is to be loaded again. */
void
window_remove(Window *window)
{
	window_unplace(window);
	window_undue(window);
	window_set_failed(window, false);
	trigger_forget(window);
	window_leave_firing(window);
	if (window->is_unfinal)
		pairingheap_remove(window->view->unfinal, &window->unfinal_node);
	if (window->is_expiring)
		pairingheap_remove(window->view->expiring, &window->expiring_node);
	if (window->is_news)
		dlist_delete(&window->news_node);
	if (window->to_finalize)
		dlist_delete(&window->finalize_node);
	hash_search(windows, &window->key, HASH_REMOVE, NULL);
}

/* Removes all windows of a view. Looks at the whole table: definitions change seldom. */
void
window_table_drop_view(SchedView *view)
{
	HASH_SEQ_STATUS seq;
	Window	   *window;

	hash_seq_init(&seq, windows);
	while ((window = hash_seq_search(&seq)) != NULL)
		if (window->view == view)
			window_remove(window);
	Assert(view->nfailed == 0);
}

/* W has moved (and is durable): windows whose end it passed are overdue. */
void
windows_pass_end(SchedView *view)
{
	EventTime	watermark = view->stream->watermark.watermark;

	while (!pairingheap_is_empty(view->unfired))
	{
		Window	   *window = pairingheap_container(Window, firing_node,
												   pairingheap_first(view->unfired));

		CHECK_FOR_INTERRUPTS();
		if (window->end > watermark)
			break;
		pairingheap_remove_first(view->unfired);
		window->firing_heap = view->overdue;
		pairingheap_add(view->overdue, &window->firing_node);
		if (window->place != PLACE_RUNNING)
			window_schedule(window, mono_now());
	}
}

/* W_e moves: what "expires" up to limit has had its lateness. Calls "moved" for each such window. */
void
windows_pass_lateness(SchedView *view, EventTime limit,
					  void (*moved) (Window *window, void *arg), void *arg)
{
	while (!pairingheap_is_empty(view->expiring))
	{
		Window	   *window = pairingheap_container(Window, expiring_node,
												   pairingheap_first(view->expiring));

		if (window->expires > limit)
			break;
		pairingheap_remove_first(view->expiring);
		window->is_expiring = false;
		moved(window, arg);
	}
}

/* Start of the earliest window that waits for its on-time firing. */
EventTime
view_first_unfired(const SchedView *view)
{
	EventTime	first = EVENT_TIME_END;
	pairingheap *heaps[] = {view->unfired, view->overdue};

	for (int i = 0; i < lengthof(heaps); i++)
		if (!pairingheap_is_empty(heaps[i]))
			first = Min(first, pairingheap_container(Window, firing_node,
													 pairingheap_first(heaps[i]))->key.start);
	return first;
}

/* Start of the earliest window that is not final. */
EventTime
view_first_unfinal(const SchedView *view)
{
	if (pairingheap_is_empty(view->unfinal))
		return EVENT_TIME_END;
	return pairingheap_container(Window, unfinal_node, pairingheap_first(view->unfinal))->key.start;
}
