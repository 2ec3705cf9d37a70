/*
 * define.c
 *	  aion.create_view().
 *
 * All in the caller's transaction and with the caller's rights, in this order:
 * options are checked; the name is claimed; the query is checked as written; the stream is locked
 * and given its storage; definition, results and view are made and tied to
 * each other; the definition is planned once as a firing would, so that a missing privilege
 * shows now; the row in aion.view_def is written; the scheduler is told, and learns
 * of it at commit.  An error anywhere undoes everything, and the name is free again.
 *
 * No window is computed here: the scheduler takes the view up in its first pass
 * after the commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "compat.h"
#include "store/accounted.h"
#include "stream/stream.h"
#include "time/bucket.h"
#include "view/view_internal.h"

PG_FUNCTION_INFO_V1(aion_create_view);
PG_FUNCTION_INFO_V1(aion_create_view_interval);

/* Bounds of retain, field by field; as of allowed_lateness. */
#define RETAIN_MAX_MONTHS	(12 * 10000)
#define RETAIN_MAX_DAYS		3660000

/* Arguments of the SQL function. */
enum
{
	ARG_NAME,
	ARG_QUERY,
	ARG_WINDOW,
	ARG_STALENESS,
	ARG_EARLY,
	ARG_ALLOWED_LATENESS,
	ARG_EMIT_TO,
	ARG_HISTORY,
	ARG_BACKFILL,
	ARG_RETAIN,
	ARG_IF_NOT_EXISTS,
	ARG_COUNT
};

/* What the caller asked for, checked as far as that needs no look at the query. */
typedef struct ViewRequest
{
	RangeVar   *name;
	char	   *query;
	WindowSpec	window;
	Interval   *early;
	char	   *allowed_lateness;
	double		staleness;
	Interval   *retain;
	bool		backfill;
	bool		if_not_exists;
} ViewRequest;

/* Refuses an option of later versions that was given. */
static void
refuse_option(bool given, const char *name)
{
	if (given)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("option \"%s\" of a continuous view is not supported in this version", name)));
}

/* Errors out if a required argument is NULL. */
static void
require_argument(bool isnull, const char *name)
{
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be NULL", name)));
}

/* Refuses an interval that can't be the time between early firings. */
void
view_check_early(const Interval *early)
{
	int64		usecs;

	if (!view_interval_usecs(early, &usecs) || usecs <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"early\": \"%s\"", view_interval_text(early)),
				 errhint("Give a positive interval without months, such as '10 seconds'.")));
}

/* Refuses what can't be a bound on staleness. */
void
view_check_staleness(double bound)
{
	if (!(bound >= 0 && bound <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"staleness\": %g", bound),
				 errdetail("Staleness is a share, from 0 to 1."),
				 errhint("0 takes late events in as they come, 1 by the final firing alone.")));
}

/* Refuses an interval for which results can't be retained. */
void
view_check_retain(const Interval *retain)
{
	const char *detail = NULL;

	if (INTERVAL_NOT_FINITE(retain))
		detail = "It must be finite.";
	else if (retain->month < 0 || retain->day < 0 || retain->time < 0)
		detail = "No part of it may be negative.";
	else if (retain->month > RETAIN_MAX_MONTHS || retain->day > RETAIN_MAX_DAYS ||
			 retain->time > RETAIN_MAX_DAYS * USECS_PER_DAY)
		detail = "The interval is out of range.";
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"retain\": \"%s\"", view_interval_text(retain)),
				 errdetail("%s", detail),
				 errhint("Give an interval from 0 to 10000 years, such as '30 days' or '2 months'.")));
}

/* The name of a view, written as in SQL. */
static RangeVar *
name_from_text(text *name)
{
	List	   *parts;

	if (!SplitIdentifierString(text_to_cstring(name), '.', &parts) || parts == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid name of a continuous view: \"%s\"", text_to_cstring(name)),
				 errhint("Write it as in SQL, with or without its schema, and in double quotes where SQL needs them, such as '\"Per Ad\"'.")));
	return makeRangeVarFromNameList(textToQualifiedNameList(name));
}

/* Reads and checks the arguments. */
static ViewRequest
read_arguments(FunctionCallInfo fcinfo)
{
	ViewRequest request = {0};

	require_argument(PG_ARGISNULL(ARG_NAME), "name");
	require_argument(PG_ARGISNULL(ARG_QUERY), "query");
	require_argument(PG_ARGISNULL(ARG_WINDOW), "window_spec");
	require_argument(PG_ARGISNULL(ARG_BACKFILL), "backfill");
	require_argument(PG_ARGISNULL(ARG_IF_NOT_EXISTS), "if_not_exists");
	refuse_option(!PG_ARGISNULL(ARG_EMIT_TO), "emit_to");
	refuse_option(!PG_ARGISNULL(ARG_HISTORY) && PG_GETARG_BOOL(ARG_HISTORY), "history");

	request.name = name_from_text(PG_GETARG_TEXT_PP(ARG_NAME));
	request.query = text_to_cstring(PG_GETARG_TEXT_PP(ARG_QUERY));
	request.window = view_window_from_datum(PG_GETARG_DATUM(ARG_WINDOW));
	if (!PG_ARGISNULL(ARG_EARLY))
	{
		request.early = PG_GETARG_INTERVAL_P(ARG_EARLY);
		view_check_early(request.early);
	}
	if (!PG_ARGISNULL(ARG_ALLOWED_LATENESS))
	{
		request.allowed_lateness = text_to_cstring(PG_GETARG_TEXT_PP(ARG_ALLOWED_LATENESS));
		(void) view_lateness(request.allowed_lateness);
	}
	request.staleness = -1;
	if (!PG_ARGISNULL(ARG_STALENESS))
	{
		request.staleness = PG_GETARG_FLOAT8(ARG_STALENESS);
		view_check_staleness(request.staleness);
	}
	if (!PG_ARGISNULL(ARG_RETAIN))
	{
		request.retain = PG_GETARG_INTERVAL_P(ARG_RETAIN);
		view_check_retain(request.retain);
	}
	request.backfill = PG_GETARG_BOOL(ARG_BACKFILL);
	request.if_not_exists = PG_GETARG_BOOL(ARG_IF_NOT_EXISTS);
	return request;
}

/*
 * The schema in which the view is to be made, its name there claimed. If the name exists, errors out
 * or, if the caller allows it and it is a continuous view, sets *existing with a NOTICE.
 */
static Oid
target_schema(const ViewRequest *request, Oid *existing)
{
	Oid			schema = RangeVarGetCreationNamespace(request->name);
	Oid			relid;

	*existing = InvalidOid;
	if (isTempOrTempToastNamespace(schema))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("a continuous view cannot be temporary")));
	(void) view_claim_name(request->name->relname, schema);
	relid = get_relname_relid(request->name->relname, schema);
	if (!OidIsValid(relid))
		return schema;
	if (!request->if_not_exists)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", request->name->relname)));
	if (view_row_read(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists and is not a continuous view",
						request->name->relname)));
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("continuous view \"%s\" already exists, skipping", request->name->relname)));
	*existing = relid;
	return schema;
}

/*
 * Has the server plan the definition and check its privileges as a firing
 * would: as the owner, restricted, search_path pinned, inside a window.
 */
static void
try_definition(Oid definition, Oid stream, const WindowSpec *window, List *settings)
{
	char	   *sql = psprintf("EXPLAIN SELECT * FROM %s", view_qualified_name(definition));
	OwnerContext saved;
	StreamWindow current = {.stream = stream};

	current.start = window->origin;
	current.end = window_end(window, window->origin);
	current.set = accounted_from_text("3:3:");
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	view_become_owner(&saved, GetUserId(), settings, ERROR);
	stream_window_set(&current);
	PG_TRY();
	{
		if (SPI_execute(sql, false, 0) < 0)
			elog(ERROR, "could not run \"%s\"", sql);
	}
	PG_FINALLY();
	{
		stream_window_unset();
	}
	PG_END_TRY();
	view_become_self(&saved);
	SPI_finish();
	PopActiveSnapshot();
}

/* Says what a publication of all tables means for the tables that aion makes. */
static void
warn_of_publications(void)
{
	if (GetAllTablesPublications() != NIL)
		ereport(WARNING,
				(errmsg("a publication FOR ALL TABLES also publishes aion's internal tables"),
				 errhint("Publish the tables that subscribers need, results in schema aion_results among them, by name.")));
}

/* Makes the view in its schema; returns its OID. */
static Oid
create_view(const ViewRequest *request, Oid schema)
{
	const char *name = request->name->relname;
	List	   *settings = view_current_settings();
	RawStmt    *raw = view_parse_query(request->query);
	const StreamInfo *info;
	ViewRelations relations;
	ViewRow		row = {0};
	Oid			stream;

	view_check_columns(raw, request->query);
	relations.definition = view_make_definition(schema, name, raw, request->query);
	view_check_persistent(relations.definition);
	stream = view_check_definition(view_qualified_name(relations.definition), name);

	LockRelationOid(stream, RowExclusiveLock);
	info = stream_register(stream, bucket_width_for_window(request->window.size,
														   request->window.slide,
														   request->window.origin));
	relations.results = view_make_results(schema, name, relations.definition,
										  info->time_is_timestamp ? TIMESTAMPOID : TIMESTAMPTZOID);
	relations.view = view_make_view(schema, name, relations.results);
	view_record_dependencies(&relations, stream);
	CommandCounterIncrement();
	try_definition(relations.definition, stream, &request->window, settings);

	row.view = relations.view;
	row.stream = stream;
	row.definition = relations.definition;
	row.results = relations.results;
	row.window = request->window;
	row.early = request->early;
	row.allowed_lateness = request->allowed_lateness;
	row.staleness = request->staleness;
	row.retain = request->retain;
	row.backfill = request->backfill;
	row.settings = settings;
	view_row_insert(&row);
	stream_definitions_changed();
	return relations.view;
}

/*
 * aion.create_view(name text, query text, window_spec aion.window_spec, ...) returns regclass
 *
 * The stream stays locked in RowExclusiveLock until the end of the
 * transaction, the new relations exclusively.
 */
Datum
aion_create_view(PG_FUNCTION_ARGS)
{
	ViewRequest request;
	Oid			schema;
	Oid			view;

	PreventCommandIfReadOnly("aion.create_view()");
	PreventCommandDuringRecovery("aion.create_view()");
	request = read_arguments(fcinfo);
	schema = target_schema(&request, &view);
	if (!OidIsValid(view))
	{
		view = create_view(&request, schema);
		warn_of_publications();
	}
	PG_RETURN_OID(view);
}

/*
 * The same with allowed_lateness as an interval, which is then the first
 * argument after window_spec, being the only one there without a default.
 */
Datum
aion_create_view_interval(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, ARG_COUNT);

	InitFunctionCallInfoData(*call, fcinfo->flinfo, ARG_COUNT, fcinfo->fncollation, NULL, NULL);
	for (int i = 0; i < ARG_COUNT; i++)
	{
		if (i < ARG_STALENESS || i > ARG_ALLOWED_LATENESS)
			call->args[i] = fcinfo->args[i];
		else if (i < ARG_ALLOWED_LATENESS)
			call->args[i] = fcinfo->args[i + 1];
		else
			call->args[i] = view_lateness_argument(&fcinfo->args[ARG_STALENESS]);
	}
	return aion_create_view(call);
}
