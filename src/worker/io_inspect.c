/*
 * io_inspect.c
 *	  aion.io: what the I/O worker has to do, does, and has done.
 *
 * A request shows to those who have a privilege on its stream; the totals tell nothing
 * of any stream, and show to all.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "store/serialize.h"
#include "stream/stream.h"
#include "time/bucket.h"
#include "worker/access.h"
#include "worker/io_queue.h"

enum
{
	IO_KIND,
	IO_STATE,
	IO_STREAM,
	IO_BUCKET_START,
	IO_BUCKET_END,
	IO_NREQUESTS,
	IO_BYTES,
	IO_EVENTS,
	IO_WAIT,
	IO_WAIT_P50,
	IO_WAIT_P99,
	IO_SERVICE_P50,
	IO_SERVICE_P99,
	IO_COLUMNS
};

static const char *const kind_names[IO_KINDS] = {"stage", "prestage", "late", "destage", "purge"};

static Datum
interval_datum(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/* The bucket width of a stream that the user may know of; 0: he may not, or it is gone, or being changed by another. */
static int64
visible_width(Oid stream)
{
	const StreamInfo *info;
	int64		width;

	if (!access_visible(stream) || !ConditionalLockRelationOid(stream, AccessShareLock))
		return 0;
	info = stream_is_stream(stream) ? stream_lookup(stream, true) : NULL;
	width = info != NULL && info->has_storage ? info->storage.bucket_width : 0;
	UnlockRelationOid(stream, AccessShareLock);
	return width;
}

static void
put_request(ReturnSetInfo *rsinfo, const IORequest *request, TimestampTz now)
{
	Datum		values[IO_COLUMNS];
	bool		nulls[IO_COLUMNS];
	int64		width = visible_width(request->stream);

	if (width == 0)
		return;
	memset(nulls, true, sizeof(nulls));
	memset(nulls, false, sizeof(bool) * IO_WAIT_P50);
	values[IO_KIND] = CStringGetTextDatum(kind_names[request->kind]);
	values[IO_STATE] = CStringGetTextDatum(request->started_at ? "running" : "queued");
	values[IO_STREAM] = ObjectIdGetDatum(request->stream);
	values[IO_BUCKET_START] = TimestampTzGetDatum(event_time_clamp(bucket_start(width, request->low)));
	values[IO_BUCKET_END] = TimestampTzGetDatum(event_time_clamp(bucket_end(width, request->high)));
	values[IO_NREQUESTS] = Int64GetDatum(1);
	values[IO_BYTES] = Int64GetDatum(request->bytes);
	values[IO_EVENTS] = Int64GetDatum(request->events);
	values[IO_WAIT] = interval_datum((request->started_at ? request->started_at : now) - request->queued_at);
	/* a fold has no range of its own */
	nulls[IO_BUCKET_START] = nulls[IO_BUCKET_END] = request->low > request->high;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The least upper bound of a time class below which that share of the times lies; NULL: there are none. */
static void
put_quantile(const int64 *classes, double share, Datum *value, bool *isnull)
{
	int64		all = 0;
	int64		below = 0;
	int			class = 0;

	for (int i = 0; i < IO_TIME_CLASSES; i++)
		all += classes[i];
	*isnull = all == 0;
	if (all == 0)
		return;
	for (; class < IO_TIME_CLASSES - 1; class++)
	{
		below += classes[class];
		if (below >= all * share)
			break;
	}
	*value = interval_datum(INT64CONST(1) << class);
}

static void
put_totals(ReturnSetInfo *rsinfo, IOKind kind, const IOTotals *totals)
{
	Datum		values[IO_COLUMNS];
	bool		nulls[IO_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	values[IO_KIND] = CStringGetTextDatum(kind_names[kind]);
	values[IO_STATE] = CStringGetTextDatum("done");
	values[IO_NREQUESTS] = Int64GetDatum(totals->requests);
	values[IO_BYTES] = Int64GetDatum(totals->bytes);
	values[IO_EVENTS] = Int64GetDatum(totals->events);
	nulls[IO_KIND] = nulls[IO_STATE] = nulls[IO_NREQUESTS] = nulls[IO_BYTES] = nulls[IO_EVENTS] = false;
	put_quantile(totals->waits, 0.5, &values[IO_WAIT_P50], &nulls[IO_WAIT_P50]);
	put_quantile(totals->waits, 0.99, &values[IO_WAIT_P99], &nulls[IO_WAIT_P99]);
	put_quantile(totals->services, 0.5, &values[IO_SERVICE_P50], &nulls[IO_SERVICE_P50]);
	put_quantile(totals->services, 0.99, &values[IO_SERVICE_P99], &nulls[IO_SERVICE_P99]);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(aion_io_list);

/* What serializers have done, in the whole server: tasks, and their bytes when not compressed. */
static void
put_serialized(ReturnSetInfo *rsinfo, const char *kind, const SerializeTotals *totals)
{
	Datum		values[IO_COLUMNS];
	bool		nulls[IO_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	values[IO_KIND] = CStringGetTextDatum(kind);
	values[IO_STATE] = CStringGetTextDatum("done");
	values[IO_NREQUESTS] = Int64GetDatum(totals->tasks);
	values[IO_BYTES] = Int64GetDatum(totals->bytes);
	nulls[IO_KIND] = nulls[IO_STATE] = nulls[IO_NREQUESTS] = nulls[IO_BYTES] = false;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* aion.io_list(): requests that are queued or running, then the totals of each kind, and of the serializers */
Datum
aion_io_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = GetCurrentTimestamp();
	IOTotals	totals[IO_KINDS];
	SerializeTotals serialized[SERIALIZE_KINDS];
	IORequest  *requests;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	requests = io_queue_list(&n);
	for (int i = 0; i < n; i++)
		put_request(rsinfo, &requests[i], now);
	io_queue_totals(totals);
	for (int kind = 0; kind < IO_KINDS; kind++)
		put_totals(rsinfo, kind, &totals[kind]);
	serialize_totals(serialized);
	put_serialized(rsinfo, "compress", &serialized[SERIALIZE_COMPRESS]);
	put_serialized(rsinfo, "decompress", &serialized[SERIALIZE_DECOMPRESS]);
	return (Datum) 0;
}
