/*
 * window_context.c
 *	  The window that this process is firing.
 *
 * Set by the view layer around the execution of a view's query. A scan of the
 * stream takes it when it begins, so that the query needs no rewriting.
 */
#include "postgres.h"

#include "stream/stream.h"

static struct
{
	Oid			stream;			/* InvalidOid: no window */
	EventTime	start;
	EventTime	end;
	struct Accounted *set;		/* owned by who set it */
}			current;

void
stream_window_set(Oid stream, EventTime start, EventTime end, struct Accounted *set)
{
	Assert(!OidIsValid(current.stream));
	current.stream = stream;
	current.start = start;
	current.end = end;
	current.set = set;
}

void
stream_window_unset(void)
{
	current.stream = InvalidOid;
	current.set = NULL;
}

bool
stream_window_get(Oid stream, EventTime *start, EventTime *end, struct Accounted **set)
{
	if (!OidIsValid(current.stream) || (OidIsValid(stream) && stream != current.stream))
		return false;
	*start = current.start;
	*end = current.end;
	if (set)
		*set = current.set;
	return true;
}
