/*
 * requests.c
 *	  SQL functions that control streams and views, most of them by asking the
 *	  scheduler.
 *
 * The caller checks what only it can (privileges, its own transaction), posts a
 * request and waits for it (control_queue.c); the scheduler accounts, fires and
 * answers. While it waits the caller has neither an xid nor a lock of aion's,
 * only the snapshot of its statement. A crash, or a cancelled caller, leaves
 * nothing: what the scheduler did for a request it would have done later anyway.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "stream/stream.h"
#include "time/bucket.h"
#include "view/view.h"
#include "worker/control.h"
#include "worker/staging.h"
#include "worker/table_row.h"

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
				 errmsg("%s must not be null", what)));
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
	Oid			user = GetUserId();

	check_stream(stream);
	if (pg_class_aclmask(stream, user, ACL_SELECT | ACL_INSERT, ACLMASK_ANY) == 0 &&
		pg_attribute_aclcheck_all(stream, user, ACL_SELECT, ACLMASK_ANY) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(stream, user, ACL_INSERT, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_TABLE, get_rel_name(stream));
}

static void
check_stream_owner(Oid stream)
{
	check_stream(stream);
	if (!owns_relation(stream))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(stream));
}

/* Errors out unless relid is a continuous view of the current user's. */
static void
check_view_owner(Oid view)
{
	Relation	rel = table_row_open("view_def", AccessShareLock, true);
	Snapshot	snapshot;
	bool		found;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"aion\" is not installed in this database")));
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	found = table_row_fetch(rel, snapshot, view) != NULL;
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);

	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 get_rel_name(view) == NULL ?
				 errmsg("relation with OID %u does not exist", view) :
				 errmsg("\"%s\" is not a continuous view", get_rel_name(view))));
	if (!owns_relation(view))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_VIEW, get_rel_name(view));
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
	PreventCommandDuringRecovery(function);
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
get_time_argument(FunctionCallInfo fcinfo, int n)
{
	TimestampTz t;

	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("timestamp must not be null")));
	t = PG_GETARG_TIMESTAMPTZ(n);
	if (TIMESTAMP_NOT_FINITE(t))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp must be finite")));
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
					 errmsg("%s", request->message)));
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
		request.time = get_time_argument(fcinfo, 1);
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
	EventTime	t = get_time_argument(fcinfo, 1);

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
	EventTime	start = get_time_argument(fcinfo, 1);
	EventTime	end = get_time_argument(fcinfo, 2);
	int64		timeout = get_timeout_argument(fcinfo, 3);
	StreamStorage storage;
	int64		bytes;

	check_stream_owner(stream);
	control_require();
	PreventCommandDuringRecovery("aion.stage()");
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
	request.time = get_time_argument(fcinfo, 1);
	check_stream_owner(request.relation);
	PreventCommandIfReadOnly("aion.reset_watermark()");
	check_transaction("aion.reset_watermark()", "stream_def", request.relation);
	if (stream_is_registered(request.relation))
		ask_scheduler(&request, timeout, false);
	PG_RETURN_VOID();
}
