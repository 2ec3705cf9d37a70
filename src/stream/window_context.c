/*
 * window_context.c
 *	  The window that this process is firing.
 *
 * Set by the view layer around the execution of a view's query. A scan of the
 * stream takes it when it begins, so that the query needs no rewriting.
 */
#include "postgres.h"

#include "stream/stream.h"

static StreamWindow *current = NULL;

void
stream_window_set(StreamWindow *window)
{
	Assert(current == NULL);
	current = window;
}

void
stream_window_unset(void)
{
	current = NULL;
}

StreamWindow *
stream_window_get(Oid stream)
{
	if (current == NULL || (OidIsValid(stream) && stream != current->stream))
		return NULL;
	return current;
}
