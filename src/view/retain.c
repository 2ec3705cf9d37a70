/*
 * retain.c
 *	  Removing results of final windows that their view does not retain any longer.
 *
 * One transaction in a worker removes the rows of some windows, oldest first, as the
 * view's owner in the restricted context that firings have, by an ordinary DELETE, so
 * that triggers run. Windows are removed whole: no reader sees a part of a result. Which
 * windows those may be is the scheduler's to say; that they are final is looked up again
 * under the very snapshot that the DELETE uses, so that what a later firing writes for a
 * window that was reopened is out of its sight.
 *
 * Locks are those of a firing, in the same order, waited for as briefly. A crash leaves
 * the rows, and the scheduler, which alone remembers how far this has come, asks again;
 * that nothing is left is found by the index on window_start. An error stands in
 * aion.view_state, written in a transaction of its own.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "view/view_internal.h"

/* A transaction takes windows until it has so many rows. */
#define ROWS_AT_A_TIME	10000

/* One removal under way. */
typedef struct Removal
{
	Oid			view;
	Oid			journal;
	EventTime	last_start;		/* windows that start here or before */
	EventTime	removed;		/* result */
} Removal;

/* Runs a statement with two times under the active snapshot; returns the number of rows. */
static uint64
run(const char *sql, Oid *types, Datum *values, bool read_only, int expected)
{
	SPIPlanPtr	plan = SPI_prepare(sql, 2, types);
	int			code;

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	code = SPI_execute_snapshot(plan, values, NULL, GetActiveSnapshot(), InvalidSnapshot,
								read_only, true, 0);
	if (code != expected)
		elog(ERROR, "\"%s\" ended with %s", sql, SPI_result_code_string(code));
	return SPI_processed;
}

/* The time in the first column of the only row that the last statement gave; EVENT_TIME_NEVER: there is none. */
static EventTime
result_time(void)
{
	bool		isnull;
	Datum		value;

	if (SPI_processed == 0)
		return EVENT_TIME_NEVER;
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	return isnull ? EVENT_TIME_NEVER : DatumGetTimestampTz(value);
}

/* Nothing is removed from the first window on that is not final. */
static void
stop_at_unfinal(Removal *removal)
{
	Oid			types[2] = {REGCLASSOID, TIMESTAMPTZOID};
	Datum		values[2] = {ObjectIdGetDatum(removal->view), TimestampTzGetDatum(removal->last_start)};
	EventTime	first;

	(void) run("SELECT min(window_start) FROM aion.window_state WHERE view = $1 AND window_start <= $2"
			   " AND (NOT final OR reopened) AND incomplete IS NULL", types, values, true, SPI_OK_SELECT);
	first = result_time();
	if (first != EVENT_TIME_NEVER)
		removal->last_start = first - 1;
}

/* Deletes rows, as the owner. */
static void
delete_rows(const ViewRow *row, Removal *removal)
{
	char	   *results = view_qualified_name(row->results);
	const char *start = quote_identifier(get_attname(row->results, RESULTS_START_ATTNUM, false));
	char	   *condition = view_results_condition(row->results, "<=");
	EventTime	last_end = window_end(&row->window, removal->last_start);
	Oid			type = get_atttype(row->results, RESULTS_START_ATTNUM);
	Oid			types[2] = {type, type};
	Datum		values[2];
	EventTime	cut;

	/* timestamp and timestamptz alike: microseconds, the former meaning UTC */
	values[0] = Int64GetDatum(event_time_clamp(removal->last_start));
	values[1] = Int64GetDatum(event_time_clamp(last_end));
	(void) run(psprintf("SELECT %s FROM %s WHERE %s ORDER BY %s OFFSET %d LIMIT 1", start, results,
						condition, start, ROWS_AT_A_TIME - 1),
			   types, values, true, SPI_OK_SELECT);
	cut = result_time();
	if (cut != EVENT_TIME_NEVER)
	{
		removal->last_start = cut;
		values[0] = Int64GetDatum(cut);
	}
	(void) run(psprintf("DELETE FROM %s WHERE %s", results, condition),
			   types, values, false, SPI_OK_DELETE);
	removal->removed = removal->last_start;
	DEBUG_POINT("retain-deleted");
}

/* In a transaction of its own. Errors out with the transaction open. */
static FiringOutcome
remove_in_transaction(Removal *removal)
{
	OwnerContext saved;
	Oid			owner;
	ViewRow    *row;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	view_be_impatient();
	row = view_lock_for_work(removal->view, removal->journal, &owner);
	if (row == NULL)
	{
		AbortCurrentTransaction();
		return FIRING_GONE;
	}
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	PushActiveSnapshot(GetTransactionSnapshot());
	/* deferred triggers can't wait for the commit, when nobody acts as the owner */
	if (SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not make constraints immediate");
	stop_at_unfinal(removal);
	view_become_owner(&saved, owner, row->settings, DEBUG1);
	delete_rows(row, removal);
	view_become_self(&saved);
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
	DEBUG_POINT("retain-committed");
	return FIRING_DONE;
}

/* Writes the error to the view's state; true if it is not what was there already. */
static bool
write_error(const Removal *removal, const ErrorData *error)
{
	Oid			types[2] = {REGCLASSOID, TEXTOID};
	Datum		values[2];
	bool		changed;

	values[0] = ObjectIdGetDatum(removal->view);
	values[1] = CStringGetTextDatum(error->message ? error->message : "unknown error");
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	changed = run("UPDATE aion.view_state SET removal_error = $2 WHERE view = $1"
				  " AND removal_error IS DISTINCT FROM $2", types, values, false, SPI_OK_UPDATE) > 0;
	SPI_finish();
	PopActiveSnapshot();
	return changed;
}

/*
 * Records a failure in a transaction of its own, unless the view or its stream is being
 * changed, and logs it if it is new.
 */
static void
record_failure(const Removal *removal, const ErrorData *error)
{
	StartTransactionCommand();
	if (view_lock_for_failure(removal->view) && write_error(removal, error))
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("results of continuous view \"%s\" could not be removed: %s",
						get_rel_name(removal->view), error->message),
				 error->context ? errcontext("%s", error->context) : 0));
	CommitTransactionCommand();
}

/* See view.h. */
FiringOutcome
view_remove_results(Oid view, Oid journal, EventTime last_start, EventTime *removed)
{
	MemoryContext context = CurrentMemoryContext;
	Removal    *removal = palloc0(sizeof(Removal));
	volatile FiringOutcome outcome = FIRING_RETRY;
	ErrorData  *volatile error = NULL;

	removal->view = view;
	removal->journal = journal;
	removal->last_start = last_start;
	removal->removed = EVENT_TIME_NEVER;
	PG_TRY();
	{
		view_execution_begins();
		outcome = remove_in_transaction(removal);
		view_execution_ends();
	}
	PG_CATCH();
	{
		error = view_clean_up_after_error(context);
	}
	PG_END_TRY();
	if (error != NULL)
	{
		outcome = view_outcome_of_error(error);
		if (outcome != FIRING_STOPPED)
			record_failure(removal, error);
		FreeErrorData(error);
	}
	MemoryContextSwitchTo(context);
	*removed = removal->removed;
	return outcome;
}
