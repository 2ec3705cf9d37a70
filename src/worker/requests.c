/*
 * requests.c
 *	  SQL functions that control streams and views, most of them by asking the
 *	  scheduler.
 *
 * The caller checks what only it can (privileges, its own transaction), posts a
 * request and waits for it (control_queue.c); the scheduler accounts, fires and
 * answers. While it waits the caller has neither an xid nor a lock of aion's,
 * only the snapshot of its statement. A crash, or a cancelled caller, leaves
 * nothing: what the scheduler did for a request it would have done later anyway. Only
 * aion.reset_watermark() and aion.readmit() change something; they are done wholly or not at all.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/dsm.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "stream/extension.h"
#include "stream/stream.h"
#include "time/bucket.h"
#include "view/view.h"
#include "worker/access.h"
#include "worker/control.h"
#include "worker/set_aside.h"
#include "worker/staging.h"
#include "worker/table_row.h"
#include "worker/worker.h"

/* ---- checks ---- */

/* True if the current user has the rights of the relation's owner. */
static bool
owns_relation(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		owns;

	if (!HeapTupleIsValid(tuple))
		return false;
	owns = has_privs_of_role(GetUserId(), ((Form_pg_class) GETSTRUCT(tuple))->relowner);
	ReleaseSysCache(tuple);
	return owns;
}

/* Argument n, which may not be NULL. */
static Oid
get_relation_argument(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be NULL", what)));
	return PG_GETARG_OID(n);
}

/* Errors out unless relid is a stream. */
static void
check_stream(Oid relid)
{
	if (!stream_is_stream(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 get_rel_name(relid) == NULL ?
				 errmsg("relation with OID %u does not exist", relid) :
				 errmsg("\"%s\" is not a stream", get_rel_name(relid)),
				 errhint("A stream is a foreign table on server \"aion\".")));
}

/* SELECT or INSERT on the stream, or on any column of it. */
static void
check_stream_access(Oid stream)
{
	check_stream(stream);
	if (!access_any(stream, ACL_SELECT | ACL_INSERT))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_TABLE, get_rel_name(stream));
}

static void
check_stream_owner(Oid stream)
{
	check_stream(stream);
	if (!owns_relation(stream))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(stream));
}

static void
report_no_extension(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("extension \"aion\" is not installed in this database")));
}

/* Errors out unless relid is a continuous view of the current user's. */
static void
check_view_owner(Oid view)
{
	Relation	rel = table_row_open("view_def", AccessShareLock, true);
	Snapshot	snapshot;
	bool		found;

	if (rel == NULL)
		report_no_extension();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	found = table_row_fetch(rel, snapshot, view) != NULL;
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);

	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 get_rel_name(view) == NULL ?
				 errmsg("relation with OID %u does not exist", view) :
				 errmsg("\"%s\" is not a continuous view", get_rel_name(view)),
				 errhint("aion.views lists the continuous views.")));
	if (!owns_relation(view))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_VIEW, get_rel_name(view));
}

/* On a standby there is no worker to ask. */
static void
check_recovery(const char *function)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", function),
				 errdetail("aion's workers run on the primary."),
				 errhint("Call it there; what comes of it shows here once it is replayed.")));
}

/* A worker that executes a view's query, or a trigger on its results, is itself what the function would wait for. */
static void
check_not_worker(const char *function)
{
	if (worker_here())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s cannot be called while a continuous view is executed", function),
				 errdetail("It would wait for the worker that calls it.")));
}

/*
 * The scheduler can't see what this transaction has done, and would wait for locks
 * that it holds: so a transaction that wrote to a stream, made what is asked for, or
 * locked what the workers need, is refused.
 */
static void
check_transaction(const char *function, const char *table, Oid relid)
{
	Oid			locked;

	control_require();
	check_recovery(function);
	check_not_worker(function);
	if (stream_transaction_has_written())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run in a transaction that has written to a stream", function),
				 errdetail("It takes into account what is committed."),
				 errhint("Call it after COMMIT.")));
	if (table_row_is_ours(table, relid))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run in the transaction that created or changed \"%s\"",
						function, get_rel_name(relid)),
				 errhint("Call it after COMMIT.")));
	locked = view_held_lock(relid);
	if (OidIsValid(locked))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run in a transaction that holds a lock on \"%s\"",
						function, get_rel_name(locked)),
				 errdetail("aion's workers would wait for that lock, and the transaction for them."),
				 errhint("Call it after COMMIT.")));
}

/* A finite timestamp argument. */
static EventTime
get_time_argument(FunctionCallInfo fcinfo, int n, const char *what)
{
	TimestampTz t;

	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be NULL", what)));
	t = PG_GETARG_TIMESTAMPTZ(n);
	if (TIMESTAMP_NOT_FINITE(t))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("argument \"%s\" must be finite", what)));
	return t;
}

/* A time-out in ms; NULL: -1, none. */
static int64
get_timeout_argument(FunctionCallInfo fcinfo, int n)
{
	Interval   *interval;
	double		ms;

	if (PG_ARGISNULL(n))
		return -1;
	interval = PG_GETARG_INTERVAL_P(n);
	ms = interval->time / 1000.0 +
		(interval->day + 30.0 * interval->month) * (SECS_PER_DAY * 1000.0);
	if (ms < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return (int64) Min(ms, 1e15);
}

/* ---- answers ---- */

/* Says that the time-out has passed, and what may be the matter. */
static void
report_timeout(const char *name)
{
	bool		served = control_served();

	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("timed out while waiting for aion's workers to process \"%s\"", name),
			 served ? errdetail("The work goes on in the background.") :
			 errdetail("No aion scheduler serves this database."),
			 served ? errhint("See aion.workers and aion.windows; a long transaction that holds a lock on the stream or the view delays it.") :
			 errhint("See aion.workers; if no background worker slot is free, raise max_worker_processes.")));
}

/* Posts a request and turns its result into an error or warnings. */
static void
ask_scheduler(Request *request, int64 timeout_ms, bool show_error)
{
	char	   *name = get_rel_name(request->relation);

	if (!request_wait(request, timeout_ms))
		report_timeout(name);
	switch (request->result)
	{
		case REQUEST_OK:
			break;
		case REQUEST_GONE:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" does not exist any more, or holds nothing yet", name)));
			break;
		case REQUEST_REFUSED:
			ereport(ERROR,
					(errcode(request->sqlstate),
					 errmsg("%s", request->message),
					 request->detail[0] != '\0' ? errdetail("%s", request->detail) : 0,
					 request->hint[0] != '\0' ? errhint("%s", request->hint) : 0));
			break;
	}
	if (request->failed_windows > 0)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg_plural("the query of %d window failed", "the queries of %d windows failed",
							   request->failed_windows, request->failed_windows),
				 show_error && request->message[0] != '\0' ?
				 errdetail("For example: %s", request->message) : 0,
				 errhint("See aion.windows.")));
	if (request->paused_views > 0)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg_plural("%d view is paused", "%d views are paused",
							   request->paused_views, request->paused_views),
				 errhint("aion.resume_view() lets it catch up.")));
}

/* True if the stream has storage, so that there can be something to wait for. */
static bool
stream_is_registered(Oid stream)
{
	const StreamInfo *info = stream_lookup(stream, false);

	stream_check_home(info);
	return info->has_storage;
}

/* ---- the functions ---- */

PG_FUNCTION_INFO_V1(aion_sync);

/* aion.sync(stream regclass, late bool, timeout interval) */
Datum
aion_sync(PG_FUNCTION_ARGS)
{
	Request		request = {.kind = REQUEST_SYNC};
	int64		timeout = get_timeout_argument(fcinfo, 2);

	request.relation = get_relation_argument(fcinfo, 0, "stream");
	request.late = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	check_stream_access(request.relation);
	check_transaction("aion.sync()", "stream_def", request.relation);
	if (stream_is_registered(request.relation))
		ask_scheduler(&request, timeout, false);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(aion_refresh);

/* aion.refresh(view regclass, window_start timestamptz, timeout interval) */
Datum
aion_refresh(PG_FUNCTION_ARGS)
{
	Request		request = {.kind = REQUEST_REFRESH};
	int64		timeout = get_timeout_argument(fcinfo, 2);

	request.relation = get_relation_argument(fcinfo, 0, "view");
	request.one_window = !PG_ARGISNULL(1);
	if (request.one_window)
		request.time = get_time_argument(fcinfo, 1, "window_start");
	check_view_owner(request.relation);
	check_transaction("aion.refresh()", "view_def", request.relation);
	ask_scheduler(&request, timeout, true);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(aion_destage);

/* aion.destage(stream regclass, timeout interval) */
Datum
aion_destage(PG_FUNCTION_ARGS)
{
	Request		request = {.kind = REQUEST_DESTAGE};
	int64		timeout = get_timeout_argument(fcinfo, 1);

	request.relation = get_relation_argument(fcinfo, 0, "stream");
	check_stream_owner(request.relation);
	check_transaction("aion.destage()", "stream_def", request.relation);
	if (stream_is_registered(request.relation))
		ask_scheduler(&request, timeout, false);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(aion_watermark);

/* aion.watermark(stream regclass): as of the statement's snapshot; NULL before the first one. */
Datum
aion_watermark(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	Relation	rel;
	HeapTuple	tuple;
	Datum		watermark = (Datum) 0;
	bool		isnull = true;

	check_stream_access(stream);
	rel = table_row_open("stream_state", AccessShareLock, true);
	if (rel == NULL)
		PG_RETURN_NULL();
	tuple = table_row_fetch(rel, GetActiveSnapshot(), stream);
	if (tuple != NULL)
		watermark = heap_getattr(tuple, STREAM_STATE_WATERMARK, RelationGetDescr(rel), &isnull);
	table_close(rel, AccessShareLock);
	if (isnull)
		PG_RETURN_NULL();
	return watermark;
}

PG_FUNCTION_INFO_V1(aion_advance_watermark);

/* aion.advance_watermark(stream regclass, ts timestamptz): takes effect when the transaction is accounted for */
Datum
aion_advance_watermark(PG_FUNCTION_ARGS)
{
	Oid			stream = get_relation_argument(fcinfo, 0, "stream");
	EventTime	t = get_time_argument(fcinfo, 1, "ts");

	check_stream_owner(stream);
	control_require();
	PreventCommandIfReadOnly("aion.advance_watermark()");
	LockRelationOid(stream, RowExclusiveLock);
	check_stream(stream);		/* it may have been dropped while we waited */
	(void) stream_register(stream, 0);
	stream_ingest_control(stream, t);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(aion_stage);

/* aion.stage(stream regclass, start_time timestamptz, end_time timestamptz, timeout interval): bytes copied */
Datum
aion_stage(PG_FUNCTION_ARGS)
{
	Oid			stream = get_relation_argument(fcinfo, 0, "stream");
	EventTime	start = get_time_argument(fcinfo, 1, "start_time");
	EventTime	end = get_time_argument(fcinfo, 2, "end_time");
	int64		timeout = get_timeout_argument(fcinfo, 3);
	StreamStorage storage;
	int64		bytes;

	check_stream_owner(stream);
	control_require();
	check_recovery("aion.stage()");
	check_not_worker("aion.stage()");
	if (end <= start)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("end_time must be after start_time")));
	if (!stream_is_registered(stream))
		PG_RETURN_INT64(0);
	storage = stream_lookup(stream, false)->storage;
	bytes = staging_stage_range(&storage, bucket_number(storage.bucket_width, start),
								bucket_number(storage.bucket_width, end - 1), timeout);
	if (bytes < 0)
		report_timeout(get_rel_name(stream));
	PG_RETURN_INT64(bytes);
}

PG_FUNCTION_INFO_V1(aion_reset_watermark);

/* aion.reset_watermark(stream regclass, ts timestamptz, timeout interval): at once, by the scheduler between two passes */
Datum
aion_reset_watermark(PG_FUNCTION_ARGS)
{
	Request		request = {.kind = REQUEST_RESET_WATERMARK};
	int64		timeout = get_timeout_argument(fcinfo, 2);

	request.relation = get_relation_argument(fcinfo, 0, "stream");
	request.time = get_time_argument(fcinfo, 1, "ts");
	check_stream_owner(request.relation);
	PreventCommandIfReadOnly("aion.reset_watermark()");
	check_transaction("aion.reset_watermark()", "stream_def", request.relation);
	if (stream_is_registered(request.relation))
		ask_scheduler(&request, timeout, false);
	PG_RETURN_VOID();
}

/* ---- readmit ---- */

#define READMIT_MOST		100000	/* events in a call */
#define READMIT_TIMEOUT_MS	(10 * 60 * 1000)

static int
compare_ids(const void *a, const void *b)
{
	int64		left = *(const int64 *) a;
	int64		right = *(const int64 *) b;

	return left < right ? -1 : left > right;
}

/* The ids in argument 0, ascending, each once. Palloc'd. */
static int64 *
get_ids_argument(FunctionCallInfo fcinfo, int *n)
{
	Datum	   *values;
	bool	   *nulls;
	int64	   *ids;
	int			distinct = 0;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"ids\" must not be NULL")));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &values, &nulls, n);
	if (*n > READMIT_MOST)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many events to readmit at a time"),
				 errdetail("There are %d ids, at most %d can be given.", *n, READMIT_MOST)));
	ids = palloc(sizeof(int64) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("argument \"ids\" must not be NULL")));
		ids[i] = DatumGetInt64(values[i]);
	}
	qsort(ids, *n, sizeof(int64), compare_ids);
	for (int i = 0; i < *n; i++)
		if (i == 0 || ids[i] != ids[i - 1])
			ids[distinct++] = ids[i];
	*n = distinct;
	return ids;
}

/* True if the user may know that the stream has set-aside events: as aion.expired shows them, or being its owner. */
static bool
may_see_events(Oid stream)
{
	return stream_is_stream(stream) &&
		(pg_class_aclcheck(stream, GetUserId(), ACL_SELECT) == ACLCHECK_OK || owns_relation(stream));
}

/* The stream of all these events, of which there is one at least. Errors out if there is none. */
static Oid
stream_of_events(SetAsideTable *table, const int64 *ids, int n)
{
	Oid			result = InvalidOid;

	for (int i = 0; i < n; i++)
	{
		Oid			stream = set_aside_stream(table, ids[i]);

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(stream) || !may_see_events(stream))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("there is no set-aside event with id " INT64_FORMAT, ids[i]),
					 errhint("aion.expired lists those that there are.")));
		if (OidIsValid(result) && stream != result)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("events of one stream at a time can be readmitted"),
					 errdetail("Event " INT64_FORMAT " is of stream \"%s\", event " INT64_FORMAT " of \"%s\".",
							   ids[0], get_rel_name(result), ids[i], get_rel_name(stream))));
		result = stream;
	}
	return result;
}

static void
event_error_context(void *arg)
{
	errcontext("set-aside event " INT64_FORMAT, *(int64 *) arg);
}

/*
 * Checks the events against the constraints that the stream has now, as INSERT would:
 * they may be older than some. Here and not in the scheduler, because a constraint
 * can execute what its author likes. Returns what the scheduler compares with the
 * constraints in force when it applies the events, as the lock on the stream does
 * not last that long: who waits for the scheduler must not have ALTER TABLE wait for him,
 * which the scheduler would be queued behind.
 */
static uint64
check_events(SetAsideTable *table, Oid stream, const int64 *ids, int n)
{
	Relation	rel = relation_open(stream, AccessShareLock);
	EventCheck *check = event_check_begin(rel, stream_lookup(stream, false));
	uint64		constraints = stream_constraints_hash(rel);
	int64		id;
	ErrorContextCallback callback = {error_context_stack, event_error_context, &id};

	error_context_stack = &callback;
	for (int i = 0; i < n; i++)
	{
		Event	   *event;

		CHECK_FOR_INTERRUPTS();
		id = ids[i];
		event = set_aside_event(table, id);
		if (event == NULL)
			continue;			/* the scheduler finds out */
		event_check(check, event);
		pfree(event);
	}
	error_context_stack = callback.previous;
	event_check_end(check);
	relation_close(rel, AccessShareLock);
	DEBUG_POINT("readmit-checked");
	return constraints;
}

PG_FUNCTION_INFO_V1(aion_readmit);

/* aion.readmit(VARIADIC ids bigint[]): all or none, by the scheduler between two passes */
Datum
aion_readmit(PG_FUNCTION_ARGS)
{
	Request		request = {.kind = REQUEST_READMIT};
	int64	   *ids = get_ids_argument(fcinfo, &request.nids);
	SetAsideTable *table;
	dsm_segment *segment;

	check_recovery("aion.readmit()");
	PreventCommandIfReadOnly("aion.readmit()");
	if (request.nids == 0)
		PG_RETURN_VOID();
	table = set_aside_open(GetLatestSnapshot());
	if (table == NULL)
		report_no_extension();
	request.relation = stream_of_events(table, ids, request.nids);
	check_stream_owner(request.relation);
	check_transaction("aion.readmit()", "stream_def", request.relation);
	/* it had been, when its events were set aside */
	if (!stream_is_registered(request.relation))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream \"%s\" is being restored", get_rel_name(request.relation))));
	request.constraints = check_events(table, request.relation, ids, request.nids);
	set_aside_close(table);
	/* it goes with the statement, and with that the request has an end, too */
	segment = dsm_create(sizeof(int64) * request.nids, 0);
	memcpy(dsm_segment_address(segment), ids, sizeof(int64) * request.nids);
	request.ids = dsm_segment_handle(segment);
	ask_scheduler(&request, READMIT_TIMEOUT_MS, true);
	dsm_detach(segment);
	PG_RETURN_VOID();
}
