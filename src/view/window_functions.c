/*
 * window_functions.c
 *	  aion.window_start() and aion.window_end(): the window that a view's query
 *	  is being run for.
 *
 * They take the place of now() in a query.  Outside a firing there is no
 * window, and they say so instead of returning NULL, which a condition would
 * swallow.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "stream/stream.h"
#include "time/eventtime.h"

PG_FUNCTION_INFO_V1(aion_window_start);
PG_FUNCTION_INFO_V1(aion_window_end);

/* The current window; errors out in the name of "function" if there is none. */
static const StreamWindow *
current_window(const char *function)
{
	const StreamWindow *window = stream_window_get(InvalidOid);

	if (window == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s can only be used in the query of a continuous view", function),
				 errdetail("No window is being computed.")));
	return window;
}

/* aion.window_start() returns timestamptz */
Datum
aion_window_start(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(event_time_clamp(current_window("aion.window_start()")->start));
}

/* aion.window_end() returns timestamptz */
Datum
aion_window_end(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(event_time_clamp(current_window("aion.window_end()")->end));
}
