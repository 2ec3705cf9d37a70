/*
 * expiry.c
 *	  on_expired 'error': refusing an event that comes too late.
 *
 * What accounting would set aside by the W_e that is known when the statement
 * begins is refused: an event all of whose windows, in every view, have had
 * their allowed lateness, or one in no window whose bucket has had the
 * stream's. Accounting has the last word, so this need not be exact: what
 * expires after this look, or in a window that is final for another reason, is set
 * aside then; nothing is changed here.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "stream/extension.h"
#include "stream/ingest.h"
#include "time/bucket.h"

/* Columns of aion.stream_state. */
#define STATE_STREAM			1
#define STATE_EVENT_WATERMARK	4

/* What is final by now. */
typedef struct ViewExpiry
{
	WindowSpec	window;
	EventTime	threshold;		/* windows that end here or before have had their lateness */
} ViewExpiry;

struct ExpiryCheck
{
	EventTime	threshold;		/* the same for buckets */
	int64		bucket_width;
	int			nviews;
	ViewExpiry	views[FLEXIBLE_ARRAY_MEMBER];
};

StreamWindowsHook stream_windows_hook = NULL;

/* W_e of a stream as last committed; EVENT_TIME_NEVER: none. */
static EventTime
event_watermark(Oid stream)
{
	EventTime	result = EVENT_TIME_NEVER;
	ExtensionScan scan;
	HeapTuple	tuple;

	if (!extension_scan_begin(&scan, "stream_state", "stream_state_pkey", STATE_STREAM, stream,
							  AccessShareLock))
		return result;
	while ((tuple = extension_scan_next(&scan)) != NULL)
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, STATE_EVENT_WATERMARK,
										 RelationGetDescr(scan.rel), &isnull);

		if (!isnull)
			result = DatumGetTimestampTz(value);
	}
	extension_scan_end(&scan);
	return result;
}

/* What is to be asked about each event of a statement; NULL: nothing can be too late. Palloc'd. */
ExpiryCheck *
expiry_begin(const StreamInfo *info)
{
	EventTime	watermark;
	List	   *windows;
	ListCell   *lc;
	ExpiryCheck *check;

	if (info->options.on_expired != ON_EXPIRED_ERROR)
		return NULL;
	watermark = event_watermark(info->relid);
	if (watermark == EVENT_TIME_NEVER)
		return NULL;
	windows = stream_windows_hook ? stream_windows_hook(info->relid) : NIL;
	check = palloc(offsetof(ExpiryCheck, views) + list_length(windows) * sizeof(ViewExpiry));
	check->threshold = lateness_threshold(watermark, &info->options.allowed_lateness);
	check->bucket_width = info->storage.bucket_width;
	check->nviews = 0;
	foreach(lc, windows)
	{
		StreamWindows *view = lfirst(lc);
		ViewExpiry *expiry = &check->views[check->nviews++];

		expiry->window = view->window;
		/* a paused view makes nothing final */
		expiry->threshold = view->paused ? EVENT_TIME_NEVER :
			lateness_threshold(watermark, &view->allowed_lateness);
	}
	return check;
}

static bool
has_expired(const ExpiryCheck *check, EventTime t)
{
	bool		in_window = false;

	for (int i = 0; i < check->nviews; i++)
	{
		const ViewExpiry *view = &check->views[i];
		EventTime	last = window_last(&view->window, t);

		if (window_first(&view->window, t) > last)
			continue;
		if (window_end(&view->window, last) > view->threshold)
			return false;
		in_window = true;
	}
	return in_window ||
		bucket_start(check->bucket_width, bucket_number(check->bucket_width, t) + 1) <= check->threshold;
}

/* Errors out if an event of that time is too late. */
void
expiry_refuse(const ExpiryCheck *check, const StreamInfo *info, EventTime t)
{
	if (!event_time_is_valid(t) || !has_expired(check, t))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("event time \"%s\" is too late for stream \"%s\"",
					OidOutputFunctionCall(info->time_is_timestamp ? F_TIMESTAMP_OUT : F_TIMESTAMPTZ_OUT,
										  TimestampTzGetDatum(t)),
					get_rel_name(info->relid)),
			 errdetail("The watermark has passed it by more than the allowed lateness."),
			 errhint("With option \"on_expired\" set to 'keep' such events are set aside.")));
}
