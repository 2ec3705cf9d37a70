/*
 * expiry.c
 *	  on_expired 'error': refusing an event that comes too late.
 *
 * What accounting would set aside by the W_e that is known when the statement
 * begins is refused: an event all of whose windows, in every view, have had
 * their allowed lateness, or one in no window whose bucket has had the
 * stream's. Under 'auto' a window that has a row keeps the lateness that it was
 * made with, so it is looked at before its events are refused. Accounting has the last word, so this need not be exact: what
 * expires after this look, or in a window that is final for another reason, is set
 * aside then; nothing is changed here.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
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
#define STATE_EXPIRED_THROUGH	12

/* Columns of aion.window_state. */
#define WINDOW_VIEW				1
#define WINDOW_START			2
#define WINDOW_FINAL			6
#define WINDOW_INCOMPLETE		7

/* How far the lateness of windows has gone by. */
typedef struct Progress
{
	EventTime	watermark;		/* W_e; EVENT_TIME_NEVER: none */
	EventTime	expired_through;	/* under 'auto', windows without a row that end here or before */
} Progress;

/* What is final by now. */
typedef struct ViewExpiry
{
	Oid			view;
	WindowSpec	window;
	bool		automatic;		/* but those that have a row may have a longer one */
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

static EventTime
time_column(HeapTuple tuple, AttrNumber att, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, att, desc, &isnull);

	return isnull ? EVENT_TIME_NEVER : DatumGetTimestampTz(value);
}

/* A stream's progress as last committed. */
static Progress
stream_progress(Oid stream)
{
	Progress	result = {EVENT_TIME_NEVER, EVENT_TIME_NEVER};
	ExtensionScan scan;
	HeapTuple	tuple;

	if (!extension_scan_begin(&scan, "stream_state", "stream_state_pkey", STATE_STREAM, stream,
							  AccessShareLock))
		return result;
	while ((tuple = extension_scan_next(&scan)) != NULL)
	{
		result.watermark = time_column(tuple, STATE_EVENT_WATERMARK, RelationGetDescr(scan.rel));
		result.expired_through = time_column(tuple, STATE_EXPIRED_THROUGH, RelationGetDescr(scan.rel));
	}
	extension_scan_end(&scan);
	return result;
}

/* What has had its lateness by now. */
static EventTime
threshold(const Progress *progress, const Lateness *lateness)
{
	return lateness->automatic ? progress->expired_through :
		lateness_threshold(progress->watermark, lateness);
}

/* What is to be asked about each event of a statement; NULL: nothing can be too late. Palloc'd. */
ExpiryCheck *
expiry_begin(const StreamInfo *info)
{
	Progress	progress;
	List	   *windows;
	ListCell   *lc;
	ExpiryCheck *check;

	if (info->options.on_expired != ON_EXPIRED_ERROR)
		return NULL;
	progress = stream_progress(info->relid);
	if (progress.watermark == EVENT_TIME_NEVER)
		return NULL;
	windows = stream_windows_hook ? stream_windows_hook(info->relid) : NIL;
	check = palloc(offsetof(ExpiryCheck, views) + list_length(windows) * sizeof(ViewExpiry));
	check->threshold = threshold(&progress, &info->options.allowed_lateness);
	check->bucket_width = info->storage.bucket_width;
	check->nviews = 0;
	foreach(lc, windows)
	{
		StreamWindows *view = lfirst(lc);
		ViewExpiry *expiry = &check->views[check->nviews++];

		expiry->view = view->view;
		expiry->window = view->window;
		expiry->automatic = view->allowed_lateness.automatic;
		/* a paused view makes nothing final */
		expiry->threshold = view->paused ? EVENT_TIME_NEVER :
			threshold(&progress, &view->allowed_lateness);
	}
	return check;
}

/* True if the window has a row, and takes in events. */
static bool
window_is_open(Oid view, EventTime start)
{
	Relation	rel = table_open(extension_relation("window_state"), AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		open = false;

	ScanKeyInit(&keys[0], WINDOW_VIEW, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(view));
	ScanKeyInit(&keys[1], WINDOW_START, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, TimestampTzGetDatum(start));
	scan = systable_beginscan(rel, extension_relation("window_state_pkey"), true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		TupleDesc	desc = RelationGetDescr(rel);
		bool		isnull;

		open = !DatumGetBool(heap_getattr(tuple, WINDOW_FINAL, desc, &isnull)) &&
			heap_attisnull(tuple, WINDOW_INCOMPLETE, desc);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return open;
}

/* True if a window of an automatic view that ends at or before the threshold still takes in events at t. */
static bool
lateness_is_longer(const ViewExpiry *view, EventTime t)
{
	EventTime	last = window_last(&view->window, t);

	for (EventTime start = window_first(&view->window, t); start <= last; start += view->window.slide)
		if (window_is_open(view->view, start))
			return true;
	return false;
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
		if (view->automatic && lateness_is_longer(view, t))
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
