/*
 * results.c
 *	  Running a view's definition and putting its rows in place of the old ones.
 *
 * Order of events: the definition runs inside the window, read-only, under the
 * active snapshot, into a tuplestore that spills beyond work_mem; the window is
 * unset; the window's old rows are deleted and the new ones inserted, by
 * ordinary statements, so that triggers, constraints and indexes that users
 * put on a results table work, and never inside a window.  All of it belongs
 * to the caller's transaction: a crash leaves the old rows.
 *
 * Plans are kept per view for the life of the process.  They are made as the
 * owner under the pinned search_path, and made anew when a name in them has
 * changed or when the window has grown out of what it was planned for.  Those of
 * views that were dropped go before the next firing of whatever view.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "debug_point.h"
#include "stream/stream.h"
#include "view/view_internal.h"

/* Under this name the statement that inserts sees the collected rows. */
#define ROWS_NAME "aion_rows"

/* The plan of a query is made anew for a window with this many times more or fewer events. */
#define REPLAN_FACTOR	8
#define REPLAN_EVENTS	1000

/* A statement that is kept. */
typedef struct KeptPlan
{
	char	   *sql;			/* NULL: none yet */
	SPIPlanPtr	plan;
} KeptPlan;

/* What is kept of one view. */
typedef struct ViewPlans
{
	Oid			view;			/* hash key */
	bool		suspect;		/* the view changed: is it still there? */
	int64		planned_events; /* of the window that the query was planned for */
	KeptPlan	query;
	KeptPlan	erase;
	KeptPlan	insert;
} ViewPlans;

static HTAB *kept_plans = NULL;
static bool any_suspect = false;

/* Drops a kept plan. */
static void
discard_plan(KeptPlan *kept)
{
	if (kept->plan != NULL)
		SPI_freeplan(kept->plan);
	if (kept->sql != NULL)
		pfree(kept->sql);
	memset(kept, 0, sizeof(KeptPlan));
}

/* The plan for "sql", kept from last time if that was the same text. SPI is connected. */
static SPIPlanPtr
keep_plan(KeptPlan *kept, const char *sql, int nargs, Oid *argtypes, int options)
{
	SPIPlanPtr	plan;

	if (kept->sql != NULL && strcmp(kept->sql, sql) == 0)
		return kept->plan;
	discard_plan(kept);
	plan = SPI_prepare_cursor(sql, nargs, argtypes, options);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	kept->sql = MemoryContextStrdup(TopMemoryContext, sql);
	SPI_keepplan(plan);
	kept->plan = plan;
	return plan;
}

/* Relcache callback: the view's plans (InvalidOid: all) are looked at before the next firing. */
static void
suspect_plans(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS scan;
	ViewPlans  *plans;

	if (OidIsValid(relid))
	{
		plans = hash_search(kept_plans, &relid, HASH_FIND, NULL);
		if (plans != NULL)
			plans->suspect = any_suspect = true;
		return;
	}
	hash_seq_init(&scan, kept_plans);
	while ((plans = hash_seq_search(&scan)) != NULL)
		plans->suspect = any_suspect = true;
}

/* The plans of a view, made empty if there are none. */
static ViewPlans *
plans_of_view(Oid view)
{
	ViewPlans  *plans;
	bool		found;

	if (kept_plans == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = sizeof(Oid);
		control.entrysize = sizeof(ViewPlans);
		control.hcxt = TopMemoryContext;
		kept_plans = hash_create("aion view plans", 64, &control,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		CacheRegisterRelcacheCallback(suspect_plans, (Datum) 0);
	}
	plans = hash_search(kept_plans, &view, HASH_ENTER, &found);
	if (!found)
	{
		memset(plans, 0, sizeof(ViewPlans));
		plans->view = view;
	}
	return plans;
}

/* Forgets the plans of a view that is gone. */
void
results_forget_plans(Oid view)
{
	ViewPlans  *plans = kept_plans ? hash_search(kept_plans, &view, HASH_FIND, NULL) : NULL;

	if (plans == NULL)
		return;
	discard_plan(&plans->query);
	discard_plan(&plans->erase);
	discard_plan(&plans->insert);
	hash_search(kept_plans, &view, HASH_REMOVE, NULL);
}

/* Forgets the plans of dropped views. In a transaction, before it uses any plan. */
void
results_sweep_plans(void)
{
	HASH_SEQ_STATUS scan;
	ViewPlans  *plans;

	AcceptInvalidationMessages();
	if (!any_suspect)
		return;
	any_suspect = false;
	hash_seq_init(&scan, kept_plans);
	while ((plans = hash_seq_search(&scan)) != NULL)
	{
		if (!plans->suspect)
			continue;
		plans->suspect = false;
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(plans->view)))
			results_forget_plans(plans->view);
	}
}

/* True if a plan made for a window of "planned" events is not fit for one of "expected". */
static bool
outgrown(int64 planned, int64 expected)
{
	return expected / REPLAN_FACTOR > planned + REPLAN_EVENTS ||
		planned / REPLAN_FACTOR > expected + REPLAN_EVENTS;
}

/*
 * Runs the definition inside the window into "store". Settings that its functions change last as long as it.
 * Returns microseconds that scans waited for staging.
 */
static int64
collect_rows(const ViewRow *row, ViewPlans *plans, EventTime start, EventTime end,
			 int64 expected_events, Accounted *set, Tuplestorestate *store)
{
	char	   *sql = psprintf("SELECT * FROM %s", view_qualified_name(row->definition));
	DestReceiver *receiver = CreateTuplestoreDestReceiver();
	SPIExecuteOptions options = {0};
	int			guc_level = NewGUCNestLevel();
	StreamWindow window = {.stream = row->stream, .start = start, .end = end, .set = set};

	if (outgrown(plans->planned_events, expected_events))
		discard_plan(&plans->query);
	SetTuplestoreDestReceiverParams(receiver, store, CurrentMemoryContext, false, NULL, NULL);
	options.read_only = true;
	options.dest = receiver;

	stream_window_set(&window);
	PG_TRY();
	{
		SPIPlanPtr	plan;
		int			result;

		/* planning may look at the window, too */
		if (plans->query.sql == NULL)
			plans->planned_events = expected_events;
		plan = keep_plan(&plans->query, sql, 0, NULL, 0);
		window.stage_ahead = view_stage_ahead(plan);
		result = SPI_execute_plan_extended(plan, &options);
		if (result != SPI_OK_SELECT)
			elog(ERROR, "unexpected result of \"%s\": %s", sql, SPI_result_code_string(result));
	}
	PG_FINALLY();
	{
		stream_window_unset();
	}
	PG_END_TRY();
	AtEOXact_GUC(false, guc_level);
	return window.waited_us;
}

/* Executes one of the statements that change the results, for the window. */
static void
change_results(SPIPlanPtr plan, EventTime start, EventTime end, int expected)
{
	Datum		values[2];
	int			result;

	/* timestamp and timestamptz alike: microseconds, the former meaning UTC */
	values[0] = Int64GetDatum(start);
	values[1] = Int64GetDatum(end);
	result = SPI_execute_plan(plan, values, NULL, false, 0);
	if (result != expected)
		elog(ERROR, "unexpected result of a change of results: %s", SPI_result_code_string(result));
}

/* The statement that inserts the collected rows. */
static char *
insert_statement(Relation results, Relation definition)
{
	int			ncolumns = RelationGetDescr(definition)->natts;
	StringInfoData columns;
	StringInfoData sources;

	if (RelationGetDescr(results)->natts < RESULTS_FIRST_ATTNUM - 1 + ncolumns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("results table \"%s\" lacks columns of the view's query",
						RelationGetRelationName(results)),
				 errhint("Drop the view and create it again.")));
	initStringInfo(&columns);
	initStringInfo(&sources);
	for (int i = RESULTS_START_ATTNUM - 1; i < RESULTS_FIRST_ATTNUM - 1 + ncolumns; i++)
	{
		const char *separator = i == RESULTS_START_ATTNUM - 1 ? "" : ", ";

		appendStringInfo(&columns, "%s%s", separator,
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(results), i)->attname)));
		if (i < RESULTS_FIRST_ATTNUM - 1)
			appendStringInfo(&sources, "%s$%d", separator, i - RESULTS_START_ATTNUM + 2);
		else
			appendStringInfo(&sources, "%s%s", separator,
							 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(definition),
																	i - RESULTS_FIRST_ATTNUM + 1)->attname)));
	}
	return psprintf("INSERT INTO %s (%s) SELECT %s FROM %s",
					view_qualified_name(RelationGetRelid(results)), columns.data, sources.data,
					ROWS_NAME);
}

/* Gives the collected rows a name for statements of this SPI connection. */
static void
name_rows(Oid definition, Tuplestorestate *store)
{
	EphemeralNamedRelation rows = palloc0(sizeof(EphemeralNamedRelationData));

	rows->md.name = pstrdup(ROWS_NAME);
	rows->md.reliddesc = definition;
	rows->md.enrtype = ENR_NAMED_TUPLESTORE;
	rows->md.enrtuples = tuplestore_tuple_count(store);
	rows->reldata = store;
	if (SPI_register_relation(rows) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register the rows of a firing");
}

/* Deletes the window's rows and inserts those of "store". */
static void
write_rows(const ViewRow *row, ViewPlans *plans, EventTime start, EventTime end,
		   Tuplestorestate *store)
{
	Relation	results = table_open(row->results, RowExclusiveLock);
	Relation	definition = table_open(row->definition, AccessShareLock);
	Oid			time_type = TupleDescAttr(RelationGetDescr(results), RESULTS_START_ATTNUM - 1)->atttypid;
	Oid			argtypes[2] = {time_type, time_type};
	char	   *insert = insert_statement(results, definition);
	char	   *erase = psprintf("DELETE FROM %s WHERE %s", view_qualified_name(row->results),
								 view_results_condition(row->results, "="));

	table_close(definition, NoLock);
	table_close(results, NoLock);

	/* planned each time, for the table's size of the moment: it grows fast from nothing */
	change_results(keep_plan(&plans->erase, erase, 2, argtypes, CURSOR_OPT_CUSTOM_PLAN),
				   start, end, SPI_OK_DELETE);
	DEBUG_POINT("fire-deleted");
	if (tuplestore_tuple_count(store) > 0)
	{
		name_rows(row->definition, store);
		change_results(keep_plan(&plans->insert, insert, 2, argtypes, CURSOR_OPT_GENERIC_PLAN),
					   start, end, SPI_OK_INSERT);
	}
	DEBUG_POINT("fire-inserted");
}

/*
 * Computes a window from the events of "set" and replaces its rows. SPI is connected,
 * the caller acts as the view's owner (identity.c), and the active snapshot is what
 * the query is to see. expected_events is a hint for planning. Returns the
 * microseconds that scans waited for staging.
 */
int64
results_replace(const ViewRow *row, EventTime start, EventTime end,
				int64 expected_events, Accounted *set)
{
	ViewPlans  *plans = plans_of_view(row->view);
	Tuplestorestate *store = tuplestore_begin_heap(false, false, work_mem);
	int64		waited_us;

	waited_us = collect_rows(row, plans, start, end, expected_events, set, store);
	DEBUG_POINT("fire-collected");
	write_rows(row, plans, event_time_clamp(start), event_time_clamp(end), store);
	tuplestore_end(store);
	return waited_us;
}

/*
 * Deletes all results of a view, whatever the transaction's snapshot shows, as
 * its owner. Takes RowExclusiveLock on the results until the end of the transaction.
 */
void
results_delete_all(const ViewRow *row)
{
	HeapTuple	tuple;
	OwnerContext saved;
	SPIPlanPtr	plan;
	Oid			owner;

	/* before the look: a DROP VIEW may be waited for */
	LockRelationOid(row->results, RowExclusiveLock);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(row->results));
	if (!HeapTupleIsValid(tuple))
	{
		UnlockRelationOid(row->results, RowExclusiveLock);
		return;
	}
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	view_become_owner(&saved, owner, row->settings, DEBUG1);
	plan = SPI_prepare(psprintf("DELETE FROM %s", view_qualified_name(row->results)), 0, NULL);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, GetLatestSnapshot(), InvalidSnapshot,
							 false, true, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not delete the results of view %u", row->view);
	view_become_self(&saved);
	SPI_finish();
}
