/*
 * state_store.c
 *	  The scheduler's SQL: aion.stream_state, stream_lateness, view_state,
 *	  window_state, window_firing and set_aside.
 *
 * Plans are prepared once per process and kept; what a pass writes for many windows
 * goes as arrays. Everything runs in the caller's transaction, between
 * SPI_connect() and SPI_finish(), as the extension's owner (the worker is the
 * bootstrap superuser). Errors out; nothing is kept in memory but plans.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "stream/extension.h"
#include "worker/scheduler.h"

/* Window rows per statement or fetch. */
#define WINDOWS_AT_A_TIME	10000

typedef struct Statement
{
	const char *sql;
	int			expected;		/* SPI_OK_... */
	int			nargs;
	Oid			args[13];
	SPIPlanPtr	plan;
} Statement;

static Statement stream_load = {
	"SELECT accounted::text, watermark, event_watermark, last_window_end, purged_time,"
	" evidence_time, expired_through, stood_still, stands_still_from"
	" FROM aion.stream_state WHERE stream = $1",
SPI_OK_SELECT, 1, {REGCLASSOID}, NULL};

static Statement stream_update = {
	"UPDATE aion.stream_state SET accounted = $2::pg_snapshot, watermark = $3,"
	" event_watermark = $4, last_window_end = $5, events = events + $6,"
	" late_events = late_events + $7, expired_events = expired_events + $8,"
	" last_event_at = coalesce($9, last_event_at), evidence_time = $10, expired_through = $11,"
	" stood_still = $12, stands_still_from = $13 WHERE stream = $1",
	SPI_OK_UPDATE, 13, {REGCLASSOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}, NULL};

static Statement stream_watermark = {
	"UPDATE aion.stream_state SET watermark = $2, event_watermark = $3, evidence_time = $4,"
	" expired_through = $5, stood_still = $6, stands_still_from = $7 WHERE stream = $1",
	SPI_OK_UPDATE, 7, {REGCLASSOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}, NULL};

static Statement lateness_load = {
	"SELECT histogram, events, since FROM aion.stream_lateness WHERE stream = $1",
SPI_OK_SELECT, 1, {REGCLASSOID}, NULL};

static Statement lateness_write = {
	"INSERT INTO aion.stream_lateness (stream, histogram, events, since) VALUES ($1, $2, $3, $4)"
	" ON CONFLICT (stream) DO UPDATE SET histogram = excluded.histogram,"
	" events = excluded.events, since = excluded.since",
SPI_OK_INSERT, 4, {REGCLASSOID, BYTEAOID, INT8OID, TIMESTAMPTZOID}, NULL};

static Statement view_load = {
	"SELECT final_through, begins, incomplete_before, late_counts, late_arrivals, results_removed_through,"
	" final_until"
	" FROM aion.view_state WHERE view = $1",
SPI_OK_SELECT, 1, {REGCLASSOID}, NULL};

static Statement view_insert = {
	"INSERT INTO aion.view_state (view, final_through, begins, incomplete_before)"
	" VALUES ($1, $2, $3, $4)",
SPI_OK_INSERT, 4, {REGCLASSOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID}, NULL};

static Statement view_update = {
	"UPDATE aion.view_state SET final_through = greatest(final_through, $2),"
	" final_firings = final_firings + $3, late_counts = $4, late_arrivals = $5, results_removed_through = $6,"
	" removal_error = CASE WHEN results_removed_through IS NOT DISTINCT FROM $6 THEN removal_error END,"
	" final_until = greatest(final_until, $7) WHERE view = $1",
	SPI_OK_UPDATE, 7, {REGCLASSOID, TIMESTAMPTZOID, INT8OID, INT8ARRAYOID, BYTEAOID, TIMESTAMPTZOID,
TIMESTAMPTZOID}, NULL};

#define WINDOW_COLUMNS \
	"s.window_start, s.events, s.incomplete, f.fired_events, f.on_time, f.final," \
	" f.last_fired_at, f.error IS NOT NULL, left(f.sqlstate, 2) IN ('40', '53', '55', '57', '58')," \
	" s.late_events, s.allowed_lateness, f.on_time_clock, f.fired_clock, s.reopened" \
	" FROM aion.window_state s LEFT JOIN aion.window_firing f USING (view, window_start)"

static Statement windows_load = {
	"SELECT " WINDOW_COLUMNS " WHERE s.view = $1 AND (NOT s.final OR s.reopened)",
SPI_OK_SELECT, 1, {REGCLASSOID}, NULL};

static Statement firing_load = {
	"SELECT " WINDOW_COLUMNS " WHERE s.view = $1 AND s.window_start = $2",
SPI_OK_SELECT, 2, {REGCLASSOID, TIMESTAMPTZOID}, NULL};

static Statement windows_write = {
	"INSERT INTO aion.window_state AS w (view, window_start, events, late_events, final,"
	" allowed_lateness, incomplete) SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)"
	" ON CONFLICT (view, window_start) DO UPDATE SET events = w.events + excluded.events,"
	" late_events = w.late_events + excluded.late_events, final = w.final OR excluded.final,"
	" reopened = w.reopened AND NOT excluded.final,"
	" incomplete = coalesce(w.incomplete, excluded.incomplete)",
	SPI_OK_INSERT, 7, {REGCLASSARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
BOOLARRAYOID, INT8ARRAYOID, TEXTARRAYOID}, NULL};

static Statement windows_purge = {
	"WITH w AS (DELETE FROM aion.window_state WHERE view = $1 AND window_start <= $2"
	" AND (final OR incomplete IS NOT NULL) AND NOT reopened RETURNING window_start),"
	" f AS (DELETE FROM aion.window_firing f USING w WHERE f.view = $1"
	" AND f.window_start = w.window_start RETURNING early, on_time, late, f.final),"
	" t AS (SELECT coalesce(sum(early), 0) AS early, coalesce(sum(on_time), 0) AS on_time,"
	" coalesce(sum(late), 0) AS late, coalesce(sum(final), 0) AS final FROM f)"
	" UPDATE aion.view_state v SET early_firings = early_firings + t.early,"
	" on_time_firings = on_time_firings + t.on_time, late_firings = late_firings + t.late,"
	" final_firings = final_firings + t.final FROM t WHERE v.view = $1",
SPI_OK_UPDATE, 2, {REGCLASSOID, TIMESTAMPTZOID}, NULL};

static Statement windows_lost_fired = {
	"UPDATE aion.window_state w SET incomplete = $2, reopened = false WHERE view = $1"
	" AND (NOT final OR reopened) AND incomplete IS NULL AND EXISTS (SELECT FROM aion.window_firing f WHERE f.view = $1"
	" AND f.window_start = w.window_start AND f.early + f.on_time + f.late + f.final > 0)",
SPI_OK_UPDATE, 2, {REGCLASSOID, TEXTOID}, NULL};

static Statement windows_lost_forgotten = {
	"WITH w AS (DELETE FROM aion.window_state WHERE view = $1 AND NOT final"
	" AND incomplete IS NULL RETURNING window_start)"
	" DELETE FROM aion.window_firing f USING w WHERE f.view = $1 AND f.window_start = w.window_start",
SPI_OK_DELETE, 1, {REGCLASSOID}, NULL};

static Statement set_aside_insert = {
	"INSERT INTO aion.set_aside (stream, event_time, event, arrived_at, reason, partial, event_watermark,"
	" missed_views, missed_first, missed_last)"
	" SELECT $1, t, e, $2, r, p, $7, v::regclass[], f::bigint[], l::bigint[]"
	" FROM unnest($3, $4, $5, $6, $8, $9, $10) AS u (t, e, r, p, v, f, l)",
	SPI_OK_INSERT, 10, {REGCLASSOID, TIMESTAMPTZOID, TIMESTAMPTZARRAYOID, BYTEAARRAYOID,
TEXTARRAYOID, BOOLARRAYOID, TIMESTAMPTZOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID}, NULL};

static Statement set_aside_read = {
	"SELECT id, event_time, event, partial, missed_views::oid[], missed_first, missed_last"
	" FROM aion.set_aside WHERE id = ANY ($1) AND stream = $2 ORDER BY id",
SPI_OK_SELECT, 2, {INT8ARRAYOID, REGCLASSOID}, NULL};

static Statement set_aside_delete = {
	"DELETE FROM aion.set_aside WHERE id = ANY ($1)",
SPI_OK_DELETE, 1, {INT8ARRAYOID}, NULL};

static Statement windows_readmit = {
	"INSERT INTO aion.window_state AS w (view, window_start, events, late_events, reopened, allowed_lateness)"
	" SELECT * FROM unnest($1, $2, $3, $4, $5, $6)"
	" ON CONFLICT (view, window_start) DO UPDATE SET events = w.events + excluded.events,"
	" late_events = w.late_events + excluded.late_events, reopened = w.reopened OR excluded.reopened",
	SPI_OK_INSERT, 6, {REGCLASSARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
BOOLARRAYOID, INT8ARRAYOID}, NULL};

/*
 * A window that became final without an execution was counted in view_state. Now it will
 * have one, which is not to count again.
 */
static Statement windows_count_final = {
	"WITH f AS (UPDATE aion.window_firing f SET final = 1 FROM aion.window_state w"
	" WHERE (w.view, w.window_start) IN (SELECT * FROM unnest($1, $2)) AND w.final AND w.reopened"
	" AND f.view = w.view AND f.window_start = w.window_start AND f.final = 0 RETURNING f.view),"
	" n AS (SELECT view, count(*) AS n FROM f GROUP BY view)"
	" UPDATE aion.view_state v SET final_firings = final_firings - n.n FROM n WHERE v.view = n.view",
SPI_OK_UPDATE, 2, {REGCLASSARRAYOID, TIMESTAMPTZARRAYOID}, NULL};

/* Results of reopened windows are to be removed again. */
static Statement views_unremove = {
	"WITH w AS (SELECT v, min(e) AS e FROM unnest($1, $2, $3) AS u (v, e, r) WHERE r GROUP BY v)"
	" UPDATE aion.view_state s SET results_removed_through = w.e - interval '1 microsecond'"
	" FROM w WHERE s.view = w.v AND s.results_removed_through >= w.e",
SPI_OK_UPDATE, 3, {REGCLASSARRAYOID, TIMESTAMPTZARRAYOID, BOOLARRAYOID}, NULL};

/* What was closed only by W_e stays so: W may not be reset below what is reopened. */
static Statement views_close = {
	"WITH w AS (SELECT v, max(e) AS e, max(u) AS u FROM unnest($1, $2, $3, $4) AS x (v, e, r, u)"
	" JOIN aion.view_state s ON s.view = v WHERE r AND (e <= s.final_through) IS NOT TRUE GROUP BY v)"
	" UPDATE aion.view_state s SET final_through = greatest(final_through, w.e), final_until = greatest(final_until, w.u)"
	" FROM w WHERE s.view = w.v",
SPI_OK_UPDATE, 4, {REGCLASSARRAYOID, TIMESTAMPTZARRAYOID, BOOLARRAYOID, TIMESTAMPTZARRAYOID}, NULL};

static Statement stream_window_end = {
	"UPDATE aion.stream_state SET last_window_end = greatest(last_window_end, $2) WHERE stream = $1",
SPI_OK_UPDATE, 2, {REGCLASSOID, TIMESTAMPTZOID}, NULL};

/* Not of events ahead of the clock: a window does not miss them, whenever its view was made. */
static Statement set_aside_times = {
	"SELECT event_time FROM aion.set_aside WHERE stream = $1 AND NOT partial"
	" AND reason <> '" REASON_AHEAD "'",
SPI_OK_SELECT, 1, {REGCLASSOID}, NULL};

/*
 * Locks aion's own tables until the end of the transaction, without waiting, so
 * that DROP EXTENSION is neither waited for nor met half-way while streams are
 * locked: what follows can't deadlock with it. False: try again later.
 */
bool
store_lock_tables(void)
{
	static const char *const tables[] = {
		"stream_def", "stream_state", "stream_lateness", "added_column", "view_def", "view_state",
		"window_state", "window_firing", "set_aside"
	};

	for (int i = 0; i < lengthof(tables); i++)
	{
		Oid			relid = extension_relation(tables[i]);

		if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, RowExclusiveLock))
			return false;
	}
	return extension_installed();
}

static SPIPlanPtr
prepared(Statement *statement)
{
	if (statement->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement->sql, statement->nargs, statement->args);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\": %s", statement->sql,
				 SPI_result_code_string(SPI_result));
		statement->plan = plan;
	}
	return statement->plan;
}

/*
 * Runs a statement; nulls as SPI has them, NULL for none. Returns the number of
 * rows. Here, as in all functions below, the memory context stays what it was, which SPI
 * by itself does not see to.
 */
static uint64
run(Statement *statement, Datum *values, const char *nulls)
{
	MemoryContext old = CurrentMemoryContext;
	int			code = SPI_execute_plan(prepared(statement), values, nulls, false, 0);

	MemoryContextSwitchTo(old);
	if (code != statement->expected)
		elog(ERROR, "\"%s\" ended with %s", statement->sql, SPI_result_code_string(code));
	return SPI_processed;
}

/* A time as SQL shows it: EVENT_TIME_NEVER is NULL, and what no timestamp reaches the last one. */
static Datum
time_datum(EventTime t, char *null)
{
	*null = t == EVENT_TIME_NEVER ? 'n' : ' ';
	return TimestampTzGetDatum(Min(t, EVENT_TIME_MAX));
}

static Datum
field(int row, int column, bool *null)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, null);
}

static EventTime
time_field(int row, int column)
{
	bool		null;
	Datum		value = field(row, column, &null);

	return null ? EVENT_TIME_NEVER : DatumGetTimestampTz(value);
}

static int64
int8_field(int row, int column)
{
	bool		null;
	Datum		value = field(row, column, &null);

	return null ? 0 : DatumGetInt64(value);
}

static int32
int4_field(int row, int column)
{
	bool		null;
	Datum		value = field(row, column, &null);

	return null ? 0 : DatumGetInt32(value);
}

static bool
bool_field(int row, int column)
{
	bool		null;
	Datum		value = field(row, column, &null);

	return !null && DatumGetBool(value);
}

/* Palloc'd in "context". NULL for NULL. */
static char *
text_field(int row, int column, MemoryContext context)
{
	char	   *value = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);

	return value == NULL ? NULL : MemoryContextStrdup(context, value);
}

/* A value of variable length, palloc'd in the SPI procedure's context. NULL for NULL. */
static struct varlena *
varlena_field(int row, int column)
{
	bool		null;
	Datum		value = field(row, column, &null);

	return null ? NULL : PG_DETOAST_DATUM_COPY(value);
}

/* An array of n values of a type of fixed or variable length. */
static Datum
array_of(Datum *values, bool *nulls, int n, Oid type)
{
	int			dims[1] = {n};
	int			lbs[1] = {1};
	int16		length;
	bool		by_value;
	char		align;

	get_typlenbyvalalign(type, &length, &by_value, &align);
	return PointerGetDatum(construct_md_array(values, nulls, 1, dims, lbs, type,
											  length, by_value, align));
}

/* ---- streams ---- */

/* False: no row. The text is palloc'd in the SPI procedure's context. */
bool
store_stream_load(Oid stream, StreamStateRow *row)
{
	Datum		values[] = {ObjectIdGetDatum(stream)};

	if (run(&stream_load, values, NULL) == 0)
		return false;
	row->accounted = text_field(0, 1, CurrentMemoryContext);
	row->watermark = time_field(0, 2);
	row->event_watermark = time_field(0, 3);
	row->last_window_end = time_field(0, 4);
	row->purged_time = time_field(0, 5);
	row->evidence_time = time_field(0, 6);
	row->expired_through = time_field(0, 7);
	row->stood_still = int8_field(0, 8);
	row->stands_still_from = time_field(0, 9);
	SPI_freetuptable(SPI_tuptable);
	return true;
}

/* Columns stood_still and stands_still_from. */
static void
stand_still_datums(const StandStill *stand_still, Datum *values)
{
	values[0] = Int64GetDatum(stand_still->before);
	values[1] = TimestampTzGetDatum(GetCurrentTimestamp() + (stand_still->from - mono_now()));
}

/* What a pass has found about its stream. */
void
store_stream_update(const StreamPass *pass)
{
	Datum		values[13];
	char		nulls[13];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = ObjectIdGetDatum(pass->stream->relid);
	values[1] = CStringGetTextDatum(accounted_to_text(pass->accounted));
	values[2] = time_datum(pass->watermark.watermark, &nulls[2]);
	values[3] = time_datum(pass->watermark.event_watermark, &nulls[3]);
	values[4] = time_datum(pass->last_window_end, &nulls[4]);
	values[5] = Int64GetDatum(pass->events);
	values[6] = Int64GetDatum(pass->late_events);
	values[7] = Int64GetDatum(pass->expired_events);
	values[8] = TimestampTzGetDatum(pass->now);
	nulls[8] = pass->events > 0 ? ' ' : 'n';
	values[9] = time_datum(evidence_time(&pass->stream->late->evidence), &nulls[9]);
	values[10] = time_datum(pass->expired_through, &nulls[10]);
	stand_still_datums(&pass->stand_still, &values[11]);
	if (run(&stream_update, values, nulls) != 1)
		elog(ERROR, "stream %u has no row in aion.stream_state", pass->stream->relid);
}

/* W was lowered. */
void
store_stream_watermark(Oid stream, const WatermarkState *watermark, const StandStill *stand_still,
					   EventTime evidence_time, EventTime expired_through)
{
	Datum		values[7];
	char		nulls[7] = {' ', ' ', ' ', ' ', ' ', ' ', ' '};

	values[0] = ObjectIdGetDatum(stream);
	values[1] = time_datum(watermark->watermark, &nulls[1]);
	values[2] = time_datum(watermark->event_watermark, &nulls[2]);
	values[3] = time_datum(evidence_time, &nulls[3]);
	values[4] = time_datum(expired_through, &nulls[4]);
	stand_still_datums(stand_still, &values[5]);
	run(&stream_watermark, values, nulls);
}

/* How late the stream's events come; false: no row. */
bool
store_lateness_load(Oid stream, LatenessRow *row)
{
	Datum		values[] = {ObjectIdGetDatum(stream)};

	if (run(&lateness_load, values, NULL) == 0)
		return false;
	row->histogram = (bytea *) varlena_field(0, 1);
	row->events = int8_field(0, 2);
	row->since = time_field(0, 3);
	SPI_freetuptable(SPI_tuptable);
	return true;
}

void
store_lateness_write(Oid stream, const LatenessRow *row)
{
	Datum		values[4];
	char		nulls[4] = {' ', ' ', ' ', ' '};

	values[0] = ObjectIdGetDatum(stream);
	values[1] = PointerGetDatum(row->histogram);
	values[2] = Int64GetDatum(row->events);
	values[3] = time_datum(row->since, &nulls[3]);
	run(&lateness_write, values, nulls);
}

/* ---- views ---- */

bool
store_view_load(Oid view, ViewStateRow *row)
{
	Datum		values[] = {ObjectIdGetDatum(view)};

	if (run(&view_load, values, NULL) == 0)
		return false;
	row->final_through = time_field(0, 1);
	row->begins = time_field(0, 2);
	row->incomplete_before = time_field(0, 3);
	row->late_counts = (ArrayType *) varlena_field(0, 4);
	row->late_arrivals = (bytea *) varlena_field(0, 5);
	row->results_removed = time_field(0, 6);
	row->final_until = time_field(0, 7);
	SPI_freetuptable(SPI_tuptable);
	return true;
}

void
store_view_insert(const SchedView *view)
{
	Datum		values[4];
	char		nulls[4] = {' ', ' ', ' ', ' '};

	values[0] = ObjectIdGetDatum(view->def.view);
	values[1] = time_datum(view->final_through, &nulls[1]);
	values[2] = time_datum(view->begins, &nulls[2]);
	values[3] = time_datum(view->incomplete_before, &nulls[3]);
	run(&view_insert, values, nulls);
}

/* Does nothing for a view that was dropped meanwhile. */
void
store_view_update(const SchedView *view, int64 final_firings)
{
	Datum		values[7];
	char		nulls[7] = {' ', ' ', ' ', ' ', ' ', ' ', ' '};
	Datum		counts[LATE_FORECAST_WINDOWS];

	for (int i = 0; i < view->forecast.windows; i++)
		counts[i] = Int64GetDatum(view->forecast.events[i]);
	values[0] = ObjectIdGetDatum(view->def.view);
	values[1] = time_datum(view->final_through, &nulls[1]);
	values[2] = Int64GetDatum(final_firings);
	values[3] = array_of(counts, NULL, view->forecast.windows, INT8OID);
	values[4] = PointerGetDatum(trigger_pack_arrivals(view));
	values[5] = time_datum(view->results_removed, &nulls[5]);
	values[6] = time_datum(view->final_until, &nulls[6]);
	run(&view_update, values, nulls);
}

/* ---- windows ---- */

static void
read_window(int i, WindowRow *row, MemoryContext context)
{
	EventTime	fired_at = time_field(i, 7);

	row->start = time_field(i, 1);
	row->events = int8_field(i, 2);
	row->incomplete = text_field(i, 3, context);
	row->fired_events = int8_field(i, 4);
	row->on_time = int4_field(i, 5);
	row->final = int4_field(i, 6);
	row->last_fired_at = fired_at == EVENT_TIME_NEVER ? 0 : fired_at;
	row->failed = bool_field(i, 8);
	row->transient = bool_field(i, 9);
	row->late_events = int8_field(i, 10);
	row->lateness = int8_field(i, 11);
	row->on_time_clock = time_field(i, 12);
	row->fired_clock = time_field(i, 13);
	row->reopened = bool_field(i, 14);
}

/* Calls back for each window of a view that is not final. */
void
store_windows_load(Oid view, WindowRowSink sink, void *arg)
{
	MemoryContext old = CurrentMemoryContext;
	Datum		values[] = {ObjectIdGetDatum(view)};
	Portal		portal = SPI_cursor_open(NULL, prepared(&windows_load), values, NULL, false);

	for (;;)
	{
		SPI_cursor_fetch(portal, true, WINDOWS_AT_A_TIME);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			WindowRow	row;

			read_window(i, &row, CurrentMemoryContext);
			sink(arg, &row);
			if (row.incomplete != NULL)
				pfree(row.incomplete);
		}
		SPI_freetuptable(SPI_tuptable);
		CHECK_FOR_INTERRUPTS();
	}
	SPI_cursor_close(portal);
	MemoryContextSwitchTo(old);
}

/* One window, also if final; false: no row. */
bool
store_firing_load(Oid view, EventTime start, WindowRow *row)
{
	Datum		values[] = {ObjectIdGetDatum(view), TimestampTzGetDatum(start)};

	if (run(&firing_load, values, NULL) == 0)
		return false;
	read_window(0, row, CurrentMemoryContext);
	SPI_freetuptable(SPI_tuptable);
	return true;
}

typedef struct WindowColumns
{
	int			n;
	Datum	   *columns[7];
	bool	   *nulls;			/* of the last */
} WindowColumns;

static void
write_columns(WindowColumns *w)
{
	static const Oid types[] = {REGCLASSOID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, INT8OID, TEXTOID};
	Datum		values[lengthof(types)];

	if (w->n == 0)
		return;
	for (int i = 0; i < lengthof(types); i++)
		values[i] = array_of(w->columns[i], i == lengthof(types) - 1 ? w->nulls : NULL, w->n, types[i]);
	run(&windows_write, values, NULL);
	for (int i = 0; i < lengthof(types); i++)
		pfree(DatumGetPointer(values[i]));
	w->n = 0;
}

/* Adds what a pass has found to the windows' rows. */
void
store_windows_write(HTAB *deltas)
{
	WindowColumns w = {0};
	HASH_SEQ_STATUS seq;
	WindowDelta *delta;
	int			room = Min(hash_get_num_entries(deltas), WINDOWS_AT_A_TIME);

	if (room == 0)
		return;
	for (int i = 0; i < lengthof(w.columns); i++)
		w.columns[i] = palloc(room * sizeof(Datum));
	w.nulls = palloc(room * sizeof(bool));
	hash_seq_init(&seq, deltas);
	while ((delta = hash_seq_search(&seq)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (delta->events == 0 && !delta->final && delta->incomplete == NULL)
			continue;
		w.columns[0][w.n] = ObjectIdGetDatum(delta->key.view);
		w.columns[1][w.n] = TimestampTzGetDatum(delta->key.start);
		w.columns[2][w.n] = Int64GetDatum(delta->events);
		w.columns[3][w.n] = Int64GetDatum(delta->late_events);
		w.columns[4][w.n] = BoolGetDatum(delta->final);
		w.nulls[w.n] = delta->incomplete == NULL;
		w.columns[5][w.n] = Int64GetDatum(delta->lateness);
		w.columns[6][w.n] = w.nulls[w.n] ? (Datum) 0 : CStringGetTextDatum(delta->incomplete);
		if (++w.n == room)
			write_columns(&w);
	}
	write_columns(&w);
}

/* Deletes rows of final and incomplete windows that start at or before last_start, keeping their firings in view_state. */
void
store_windows_purge(Oid view, EventTime last_start)
{
	Datum		values[] = {ObjectIdGetDatum(view), TimestampTzGetDatum(last_start)};

	run(&windows_purge, values, NULL);
}

/* The stream's events are lost: windows that fired stay as they are, others are forgotten. */
void
store_windows_lost(Oid view)
{
	Datum		values[] = {ObjectIdGetDatum(view), CStringGetTextDatum(REASON_STATE_LOST)};

	run(&windows_lost_fired, values, NULL);
	run(&windows_lost_forgotten, values, NULL);
}

/* ---- the row that an unlogged stream loses with its events ---- */

/* Runs a statement once. Returns the number of rows. */
static uint64
run_text(const char *sql, int expected)
{
	MemoryContext old = CurrentMemoryContext;
	int			code = SPI_execute(sql, false, 0);

	MemoryContextSwitchTo(old);
	if (code != expected)
		elog(ERROR, "\"%s\" ended with %s", sql, SPI_result_code_string(code));
	return SPI_processed;
}

static const char *
qualified_name(Oid relation)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
									  get_rel_name(relation));
}

bool
store_marker_present(Oid blocks)
{
	char	   *sql = psprintf("SELECT FROM %s WHERE bucket = " INT64_FORMAT, qualified_name(blocks),
							   PG_INT64_MIN);

	return run_text(sql, SPI_OK_SELECT) > 0;
}

void
store_marker_insert(Oid blocks)
{
	char	   *sql = psprintf("INSERT INTO %s (bucket, id, first_time, last_time, nevents, raw_bytes, data)"
							   " VALUES (" INT64_FORMAT ", 0, 0, 0, 0, 0, '')", qualified_name(blocks),
							   PG_INT64_MIN);

	run_text(sql, SPI_OK_INSERT);
}

/* ---- set-aside events ---- */

/* Writes and empties the batch. Its reasons and literals are C strings. */
void
store_set_aside(const SchedStream *stream, TimestampTz now, SetAsideBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);
	Datum		values[10];
	char		nulls[10];

	for (int i = 0; i < batch->n; i++)
	{
		batch->reasons[i] = CStringGetTextDatum(DatumGetCString(batch->reasons[i]));
		for (int j = 0; j < lengthof(batch->missed) && !batch->none_missed[i]; j++)
			batch->missed[j][i] = CStringGetTextDatum(DatumGetCString(batch->missed[j][i]));
	}
	memset(nulls, ' ', sizeof(nulls));
	values[0] = ObjectIdGetDatum(stream->relid);
	values[1] = TimestampTzGetDatum(now);
	values[2] = array_of(batch->times, NULL, batch->n, TIMESTAMPTZOID);
	values[3] = array_of(batch->events, NULL, batch->n, BYTEAOID);
	values[4] = array_of(batch->reasons, NULL, batch->n, TEXTOID);
	values[5] = array_of(batch->partial, NULL, batch->n, BOOLOID);
	values[6] = time_datum(stream->watermark.event_watermark, &nulls[6]);
	for (int j = 0; j < lengthof(batch->missed); j++)
		values[7 + j] = array_of(batch->missed[j], batch->none_missed, batch->n, TEXTOID);
	run(&set_aside_insert, values, nulls);
	MemoryContextSwitchTo(old);
	MemoryContextReset(batch->context);
	batch->n = 0;
	batch->room = 0;
	batch->bytes = 0;
}

/* Calls back with the time of each event of the stream that was set aside wholly. */
void
store_set_aside_times(Oid stream, EventTimeSink sink, void *arg)
{
	MemoryContext old = CurrentMemoryContext;
	Datum		values[] = {ObjectIdGetDatum(stream)};
	Portal		portal = SPI_cursor_open(NULL, prepared(&set_aside_times), values, NULL, false);

	for (;;)
	{
		SPI_cursor_fetch(portal, true, WINDOWS_AT_A_TIME);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
			sink(arg, time_field(i, 1));
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	MemoryContextSwitchTo(old);
}

/* ---- events that come back ---- */

/* The values of an array of fixed-length, pass-by-value elements without NULLs. Palloc'd. */
static int64 *
array_values(struct varlena *array, Oid type, int *n)
{
	int64	   *result;
	Datum	   *values;

	*n = 0;
	if (array == NULL)
		return NULL;
	deconstruct_array((ArrayType *) array, type, type == OIDOID ? sizeof(Oid) : sizeof(int64), true,
					  type == OIDOID ? TYPALIGN_INT : TYPALIGN_DOUBLE, &values, NULL, n);
	result = palloc(sizeof(int64) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		result[i] = type == OIDOID ? (int64) DatumGetObjectId(values[i]) : DatumGetInt64(values[i]);
	return result;
}

/* A packed event as a MAXALIGNed copy. Palloc'd. */
static Event *
copy_event(const struct varlena *packed, int64 id)
{
	Size		size = VARSIZE_ANY_EXHDR(packed);
	Event	   *event = palloc_extended(Max(size, sizeof(Event)), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	memcpy(event, VARDATA_ANY(packed), size);
	if (size < sizeof(Event) || event->length != size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("event " INT64_FORMAT " that was set aside is damaged", id)));
	return event;
}

/* Row i of the result, as far as it can be told. */
static void
read_set_aside(int i, SetAsideRow *row)
{
	bool		null;
	int			n;
	int64	   *views;

	row->id = int8_field(i, 1);
	row->time = time_field(i, 2);
	row->event = copy_event(PG_DETOAST_DATUM_PACKED(field(i, 3, &null)), row->id);
	row->partial = bool_field(i, 4);
	views = array_values(varlena_field(i, 5), OIDOID, &row->nruns);
	row->views = palloc(sizeof(Oid) * Max(row->nruns, 1));
	for (int j = 0; j < row->nruns; j++)
		row->views[j] = (Oid) views[j];
	row->first = array_values(varlena_field(i, 6), INT8OID, &n);
	row->last = array_values(varlena_field(i, 7), INT8OID, &n);
}

static Datum
id_array(const int64 *ids, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = Int64GetDatum(ids[i]);
	return array_of(values, NULL, n, INT8OID);
}

/* Reads the rows with these ids, which are distinct, of the stream, by id; returns how many there are. */
int
store_set_aside_read(Oid stream, const int64 *ids, int n, SetAsideRow *rows)
{
	Datum		values[] = {id_array(ids, n), ObjectIdGetDatum(stream)};
	int			found = run(&set_aside_read, values, NULL);

	Assert(found <= n);
	for (int i = 0; i < found; i++)
		read_set_aside(i, &rows[i]);
	SPI_freetuptable(SPI_tuptable);
	return found;
}

void
store_set_aside_delete(const int64 *ids, int n)
{
	Datum		values[] = {id_array(ids, n)};

	if (run(&set_aside_delete, values, NULL) != n)
		elog(ERROR, "events that were set aside are gone");
}

/* Counts readmitted events in their windows; those that are closed are reopened. "watermark" is W. */
void
store_windows_readmit(ReadmitWindow *const *windows, int n, EventTime watermark)
{
	Datum	   *columns[8];
	Datum		values[8];
	static const Oid types[] = {REGCLASSOID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID};

	for (int i = 0; i < lengthof(columns); i++)
		columns[i] = palloc(sizeof(Datum) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		const ReadmitWindow *w = windows[i];
		int64		events = w->added + w->missed;
		int64		lateness = view_window_lateness(w->view, w->end);

		columns[0][i] = ObjectIdGetDatum(w->key.view);
		columns[1][i] = TimestampTzGetDatum(w->key.start);
		columns[2][i] = Int64GetDatum(events);
		columns[3][i] = Int64GetDatum(w->end <= watermark ? events : 0);
		columns[4][i] = BoolGetDatum(w->closed);
		columns[5][i] = Int64GetDatum(lateness);
		columns[6][i] = TimestampTzGetDatum(Min(w->end, EVENT_TIME_MAX));
		columns[7][i] = TimestampTzGetDatum(Min(event_time_plus(w->end, lateness), watermark));
	}
	for (int i = 0; i < lengthof(columns); i++)
		values[i] = array_of(columns[i], NULL, n, types[i]);
	run(&windows_readmit, values, NULL);
	run(&windows_count_final, values, NULL);
	values[1] = values[6];
	values[2] = values[4];
	values[3] = values[7];
	run(&views_unremove, values, NULL);
	run(&views_close, values, NULL);
}

void
store_stream_window_end(Oid stream, EventTime last_window_end)
{
	Datum		values[2] = {ObjectIdGetDatum(stream)};
	char		nulls[2] = {' ', ' '};

	values[1] = time_datum(last_window_end, &nulls[1]);
	run(&stream_window_end, values, nulls);
}
