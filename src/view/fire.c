/*
 * fire.c
 *	  Firing: computing one window of one view in a worker.
 *
 * One transaction: the stream is locked, then the view's relations, and the
 * view's row is read under those locks; the window's row in
 * aion.window_firing is locked, which lets one firing of a window at a time;
 * a snapshot taken after that shows what accounting has decided, and is what
 * the query runs under; the result is replaced as the view's owner
 * (results.c); the firing is counted; commit.
 *
 * The snapshot shows stream_state and window_state of one accounting pass,
 * and the query sees the events of exactly that pass's set, so that
 * fired_events says which events the result reflects: that is what makes a
 * later event due.
 *
 * A crash anywhere leaves the old result and the old count: the window is
 * still due.  An error is recorded in a transaction of its own; if that is
 * lost, so is the note, not the window.
 *
 * Lock order: aion's own tables, which only DROP EXTENSION locks against us, then
 * stream, view, definition, results, as DROP takes them; then whatever the query
 * and the results' triggers want.  A lock of any of these that is not to be had
 * soon (someone's uncommitted DDL) gives the firing up for a later try, so that
 * other windows don't wait for it.
 *
 * Whoever changes the view does not wait for a firing, but has it stopped (stop.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "store/accounted.h"
#include "stream/stream.h"
#include "view/view_internal.h"

/* How long a firing waits for each lock, from its start to its commit: not for a transaction that stays open after DDL. */
#define LOCK_PATIENCE "300ms"

/* A firing under way. */
typedef struct Firing
{
	Oid			view;
	Oid			journal;		/* of the stream when the firing was ordered */
	EventTime	start;
	FiringKind	kind;
	bool		final_too;
	EventTime	clock;

	ViewRow    *row;			/* what follows is known once all is locked */
	Oid			owner;
	volatile bool claimed;		/* the failure of a firing counts as the window's from here on */

	bool		executed;		/* before, with success as the last outcome */
	int64		fired_events;	/* that the current result reflects */
	int64		events;			/* accounted to the window */
	bool		closed;			/* final or incomplete: must not be computed */
	Accounted  *set;			/* what the query may see; NULL: nothing was accounted yet */
	int64		waited_us;		/* for staging */
} Firing;

/* Statements on aion's own tables, kept for the life of the process. */
typedef struct OwnStatement
{
	const char *sql;
	int			nargs;
	Oid			argtypes[9];
	SPIPlanPtr	plan;
} OwnStatement;

static OwnStatement claim_insert = {
	"INSERT INTO aion.window_firing (view, window_start) VALUES ($1, $2) ON CONFLICT DO NOTHING",
	2, {REGCLASSOID, TIMESTAMPTZOID}, NULL
};
static OwnStatement claim_lock = {
	"SELECT fired_events, last_fired_at IS NOT NULL AND error IS NULL FROM aion.window_firing "
	"WHERE view = $1 AND window_start = $2 FOR UPDATE",
	2, {REGCLASSOID, TIMESTAMPTZOID}, NULL
};
static OwnStatement read_accounting = {
	"SELECT s.accounted::text, w.events, (w.final AND NOT w.reopened) OR w.incomplete IS NOT NULL "
	"FROM aion.stream_state s LEFT JOIN aion.window_state w ON w.view = $1 AND w.window_start = $2 "
	"WHERE s.stream = $3",
	3, {REGCLASSOID, TIMESTAMPTZOID, REGCLASSOID}, NULL
};
/* a window fires on time once and finally once, also if the scheduler never heard of the first try's commit */
static OwnStatement count_firing = {
	"UPDATE aion.window_firing SET fired_events = $3, early = early + $4, on_time = greatest(on_time, $5), "
	"late = late + $6, final = greatest(final, $7), last_fired_at = clock_timestamp(), staging_wait = $8, "
	"fired_clock = $9, on_time_clock = CASE WHEN on_time = 0 THEN $9 ELSE on_time_clock END, "
	"error = NULL, sqlstate = NULL "
	"WHERE view = $1 AND window_start = $2",
	9, {REGCLASSOID, TIMESTAMPTZOID, INT8OID, INT4OID, INT4OID, INT4OID, INT4OID, INTERVALOID, TIMESTAMPTZOID}, NULL
};
static OwnStatement record_error = {
	"INSERT INTO aion.window_firing AS f (view, window_start, error, sqlstate) VALUES ($1, $2, $3, $4) "
	"ON CONFLICT (view, window_start) DO UPDATE SET error = EXCLUDED.error, sqlstate = EXCLUDED.sqlstate "
	"WHERE (f.error, f.sqlstate) IS DISTINCT FROM (EXCLUDED.error, EXCLUDED.sqlstate)",
	4, {REGCLASSOID, TIMESTAMPTZOID, TEXTOID, TEXTOID}, NULL
};

/* Runs one of the statements above, as the worker itself; returns SPI's result. */
static int
run_own(OwnStatement *statement, Datum *values, bool read_only)
{
	int			result;

	if (statement->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement->sql, statement->nargs, statement->argtypes);

		if (plan == NULL)
			elog(ERROR, "could not prepare \"%s\": %s", statement->sql,
				 SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		statement->plan = plan;
	}
	result = SPI_execute_plan(statement->plan, values, NULL, read_only, 0);
	if (result < 0)
		elog(ERROR, "could not run \"%s\": %s", statement->sql, SPI_result_code_string(result));
	return result;
}

/* Column of the first row that the last statement returned. */
static Datum
result_column(int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, isnull);
}

/* True if the view's relations exist; sets its owner. */
static bool
find_owner(const ViewRow *row, Oid *owner)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(row->view));

	if (!HeapTupleIsValid(tuple))
		return false;
	*owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->stream)) &&
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->definition)) &&
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->results));
}

/*
 * Locks aion's own tables that a firing works on, before anything is computed. DROP EXTENSION
 * has them only together with the view's relations, which are locked. False if they are gone.
 */
static bool
lock_own_tables(void)
{
	static const struct
	{
		const char *name;
		LOCKMODE	mode;
	}			tables[] =
	{
		{"stream_state", AccessShareLock},
		{"window_state", AccessShareLock},
		{"window_firing", RowExclusiveLock},
	};

	for (int i = 0; i < lengthof(tables); i++)
	{
		Oid			schema = get_namespace_oid("aion", true);
		Oid			relid = get_relname_relid(tables[i].name, schema);

		if (!OidIsValid(relid))
			return false;
		LockRelationOid(relid, tables[i].mode);
	}
	return true;
}

/*
 * Takes the locks and reads the view's row, and its owner, under them. NULL if the view is gone or
 * paused, or its stream was truncated. Errors out with ERRCODE_LOCK_NOT_AVAILABLE if a lock is not to be had.
 */
ViewRow *
view_lock_for_work(Oid view, Oid journal, Oid *owner)
{
	ViewRow    *row = view_row_read(view);

	if (row == NULL)
		return NULL;
	LockRelationOid(row->stream, AccessShareLock);
	view_enter(row->view);
	LockRelationOid(row->definition, AccessShareLock);
	LockRelationOid(row->results, RowExclusiveLock);

	row = lock_own_tables() ? view_row_read(view) : NULL;
	if (row == NULL || row->paused || !find_owner(row, owner) ||
		stream_lookup(row->stream, false)->storage.journal != journal)
		return NULL;
	return row;
}

/* The same for a firing. */
static bool
lock_view(Firing *firing)
{
	firing->row = view_lock_for_work(firing->view, firing->journal, &firing->owner);
	return firing->row != NULL;
}

/* Makes the window's row in window_firing if need be, locks it and reads it. */
static void
claim_window(Firing *firing)
{
	Datum		values[2] = {ObjectIdGetDatum(firing->view), TimestampTzGetDatum(firing->start)};
	bool		isnull;

	run_own(&claim_insert, values, false);
	run_own(&claim_lock, values, false);
	if (SPI_processed != 1)
		elog(ERROR, "window_firing lost a row of view %u", firing->view);
	firing->claimed = true;
	firing->fired_events = DatumGetInt64(result_column(1, &isnull));
	firing->executed = DatumGetBool(result_column(2, &isnull));
}

/* Reads what accounting has decided, as the active snapshot shows it. */
static void
read_window(Firing *firing)
{
	Datum		values[3] = {ObjectIdGetDatum(firing->view), TimestampTzGetDatum(firing->start),
	ObjectIdGetDatum(firing->row->stream)};
	bool		isnull;
	Datum		value;

	run_own(&read_accounting, values, true);
	if (SPI_processed == 0)
		return;
	firing->set = accounted_from_text(TextDatumGetCString(result_column(1, &isnull)));
	value = result_column(2, &isnull);
	firing->events = isnull ? 0 : DatumGetInt64(value);
	value = result_column(3, &isnull);
	firing->closed = !isnull && DatumGetBool(value);
}

/*
 * True if computing the window would be wrong, or a late firing would have nothing new to show. A
 * window without events does not fire: the stream was truncated since the firing was ordered.
 */
static bool
nothing_to_do(const Firing *firing)
{
	return firing->set == NULL || firing->closed || firing->events == 0 ||
		(firing->kind == FIRING_LATE && firing->executed &&
		 firing->events == firing->fired_events);
}

/* Computes the window and replaces its result, as the view's owner. */
static void
compute_window(Firing *firing)
{
	OwnerContext saved;

	/* deferred constraints of a results table can't wait for the commit, when nobody acts as its owner */
	if (SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not make constraints immediate");
	view_become_owner(&saved, firing->owner, firing->row->settings, ERROR);
	firing->waited_us = results_replace(firing->row, firing->start,
										window_end(&firing->row->window, firing->start),
										firing->events, firing->set);
	view_become_self(&saved);
}

/* Counts the firing and notes which events the result reflects. */
static void
count_window(const Firing *firing)
{
	Datum		values[9];
	Interval	waited = {.time = firing->waited_us};

	values[0] = ObjectIdGetDatum(firing->view);
	values[1] = TimestampTzGetDatum(firing->start);
	values[2] = Int64GetDatum(firing->events);
	values[3] = Int32GetDatum(firing->kind == FIRING_EARLY);
	values[4] = Int32GetDatum(firing->kind == FIRING_ON_TIME);
	values[5] = Int32GetDatum(firing->kind == FIRING_LATE || firing->kind == FIRING_REFRESH);
	values[6] = Int32GetDatum(firing->kind == FIRING_FINAL ||
							  (firing->kind == FIRING_ON_TIME && firing->final_too));
	values[7] = IntervalPGetDatum(&waited);
	values[8] = TimestampTzGetDatum(firing->clock); /* EVENT_TIME_NEVER is -infinity */
	run_own(&count_firing, values, false);
	if (SPI_processed != 1)
		elog(ERROR, "window_firing lost a row of view %u", firing->view);
}

/* The firing's transaction, with SPI connected; false if it has nothing to commit. */
static bool
fire_locked(Firing *firing)
{
	bool		skip;

	PushActiveSnapshot(GetTransactionSnapshot());
	claim_window(firing);
	PopActiveSnapshot();
	DEBUG_POINT("fire-claimed");

	/* taken after the claim: shows what the firing before this one committed, and all accounting until now */
	PushActiveSnapshot(GetTransactionSnapshot());
	read_window(firing);
	skip = nothing_to_do(firing);
	if (!skip)
	{
		compute_window(firing);
		count_window(firing);
		DEBUG_POINT("fire-counted");
	}
	PopActiveSnapshot();
	return !skip;
}

/* No lock is waited for longer than LOCK_PATIENCE until the transaction ends. */
void
view_be_impatient(void)
{
	(void) set_config_option("lock_timeout", LOCK_PATIENCE, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/* Fires in a transaction of its own. Errors out with the transaction open. */
static FiringOutcome
fire_in_transaction(Firing *firing)
{
	bool		commit;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	view_be_impatient();
	results_sweep_plans();
	if (!lock_view(firing))
	{
		results_forget_plans(firing->view);
		AbortCurrentTransaction();
		return FIRING_GONE;
	}
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	commit = fire_locked(firing);
	SPI_finish();
	if (commit)
	{
		CommitTransactionCommand();
		DEBUG_POINT("fire-committed");
	}
	else
		AbortCurrentTransaction();
	return FIRING_DONE;
}

/* What an error makes of the work that it ended: some may go away by themselves. */
FiringOutcome
view_outcome_of_error(const ErrorData *error)
{
	if (view_stopped())
		return FIRING_STOPPED;
	if (error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
		return FIRING_LOCKED;
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:	/* class 40 */
		case ERRCODE_INSUFFICIENT_RESOURCES:	/* 53 */
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:	/* 55 */
		case ERRCODE_OPERATOR_INTERVENTION: /* 57 */
		case ERRCODE_SYSTEM_ERROR:	/* 58 */
			return FIRING_RETRY;
		default:
			return FIRING_FAILED;
	}
}

/* Writes the error to the window's row; true if it is not what the row said already. */
static bool
write_error(const Firing *firing, const ErrorData *error)
{
	Datum		values[4];
	bool		changed;

	values[0] = ObjectIdGetDatum(firing->view);
	values[1] = TimestampTzGetDatum(firing->start);
	values[2] = CStringGetTextDatum(error->message ? error->message : "unknown error");
	values[3] = CStringGetTextDatum(unpack_sql_state(error->sqlerrcode));
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run_own(&record_error, values, false);
	changed = SPI_processed > 0;
	SPI_finish();
	PopActiveSnapshot();
	return changed;
}

/* Says in the server log why a window could not be computed. */
static void
log_error(const Firing *firing, const ErrorData *error)
{
	char	   *name = get_rel_name(firing->view);

	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("window of continuous view \"%s\" that starts at %s could not be computed: %s",
					name ? name : "?", timestamptz_to_str(firing->start), error->message),
			 error->detail_log ? errdetail_internal("%s", error->detail_log) :
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->context ? errcontext("%s", error->context) : 0));
}

/*
 * Locks the view to record a failure of work on it. False: it, or its stream, is gone or being changed by
 * someone, who is not waited for.
 */
bool
view_lock_for_failure(Oid view)
{
	ViewRow    *row;

	view_be_impatient();
	row = view_row_read(view);
	return row != NULL &&
		ConditionalLockRelationOid(row->stream, AccessShareLock) &&
		ConditionalLockRelationOid(row->view, AccessShareLock) &&
		view_row_read(view) != NULL;
}

/*
 * Records the failure of a firing in a transaction of its own, unless the view or its stream is
 * being changed, and logs it if it is new.
 */
static void
record_failure(const Firing *firing, const ErrorData *error)
{
	StartTransactionCommand();
	if (view_lock_for_failure(firing->view))
	{
		if (write_error(firing, error))
			log_error(firing, error);
		DEBUG_POINT("fire-error-recorded");
	}
	CommitTransactionCommand();
}

/* After an error: ends the transaction and returns the error, allocated in "context". */
ErrorData *
view_clean_up_after_error(MemoryContext context)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	view_execution_ends();
	QueryCancelPending = false;
	stream_window_unset();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(context);
	FlushErrorState();
	RESUME_INTERRUPTS();
	return error;
}

/* See view.h. */
FiringOutcome
view_fire(Oid view, Oid journal, EventTime window_start, FiringKind kind, bool final_too,
		  EventTime clock, int64 *fired_events)
{
	MemoryContext context = CurrentMemoryContext;
	Firing		firing = {0};
	volatile FiringOutcome outcome = FIRING_RETRY;
	ErrorData  *volatile error = NULL;

	firing.view = view;
	firing.journal = journal;
	firing.start = window_start;
	firing.kind = kind;
	firing.final_too = final_too;
	firing.clock = clock;

	PG_TRY();
	{
		view_execution_begins();
		outcome = fire_in_transaction(&firing);
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
		if (firing.claimed && outcome != FIRING_STOPPED)
			record_failure(&firing, error);
		FreeErrorData(error);
	}
	MemoryContextSwitchTo(context);
	*fired_events = outcome == FIRING_DONE ? firing.events : 0;
	return outcome;
}
