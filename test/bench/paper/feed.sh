# Feeds a workload into a stream and measures; to be sourced.
#
# Time runs on the events' clock. A step of it is: COPY of what arrives in it, in parts, on-time and late events apart; the
# watermark moves to its end, which executes the window that ends there; then a second further, which makes the window
# final that ended as many windows ago as late events are taken in for: the allowed lateness has that second more, so that
# the two executions of a step do not run at the same time.

# Makes the events of $2 windows with $1 past windows, unless the server has them from its last run. Sets EVENTS_DIR.
make_events()
{
	EVENTS_DIR=$SERVER/events/$WORKLOAD-$RATE-$1-$2
	[ ! -d "$EVENTS_DIR" ] || return 0
	rm -rf "$SERVER/events"
	as_server mkdir -p "$EVENTS_DIR"
	as_server "$GENERATE" "$WORKLOAD" "$RATE" $(($2 * WIDTH)) "$1" paper $((SLIDE * 1000 / PARTS)) "$EVENTS_DIR"
	sql "DROP TABLE IF EXISTS batch; CREATE TABLE batch (arrival timestamp, ts timestamp, $COLUMNS)"
	"$GENERATE" "$WORKLOAD" "$RATE" $(($2 * WIDTH)) "$1" paper | sql "COPY batch FROM STDIN"
	sql "CREATE INDEX ON batch (ts); ANALYZE batch"
}

# A new stream that takes late events for $1 past windows, and its view.
new_stream()
{
	sql "DROP FOREIGN TABLE IF EXISTS events CASCADE; TRUNCATE copies, steps, firings, samples; DROP TABLE IF EXISTS on_time"
	sql "CREATE FOREIGN TABLE events (ts timestamp NOT NULL, $COLUMNS, payload text) SERVER aion OPTIONS
		(event_time 'ts', watermark 'manual', idle_timeout 'off', max_ahead 'off', allowed_lateness '$(($1 * WIDTH + 1)) s')"
	sql "SELECT aion.create_view('results', \$q\$ ${QUERY//EVENTS/events} \$q\$, aion.sliding('$SIZE s', '$SLIDE s'))" >/dev/null
}

# The text of psql variable $1, the time on the server's clock, and a moment on the events'.
clock() { echo "SELECT clock_timestamp() AS $1 \\gset"; }
event_clock() { echo "timestamptz 'epoch' + interval '$1 s'"; }

advance()
{
	echo "SELECT aion.advance_watermark('events', $(event_clock "$1"));"
	clock "$2"
	echo "SELECT aion.sync('events', timeout => '10 min');"
}

# psql's script of step $1. $2 is a shell command to run before the final execution, after a checkpoint; or empty.
step_script()
{
	local part file end=$((($1 + 1) * SLIDE))
	clock began
	for ((part = $1 * PARTS; part < ($1 + 1) * PARTS; part++)); do
		file=$EVENTS_DIR/$(printf %06d $part)
		clock t0
		echo "COPY events FROM '$file.now';"
		echo "\\set now_events :ROW_COUNT"
		clock t1
		echo "COPY events FROM '$file.late';"
		echo "\\set late_events :ROW_COUNT"
		clock t2
		echo "INSERT INTO copies VALUES ($1, :now_events, :'t1'::timestamptz - :'t0', :late_events, :'t2'::timestamptz - :'t1');"
		[ -z "$PACE" ] || echo "SELECT pg_sleep($PACE::float8 * $SLIDE / $WIDTH / $PARTS - extract(epoch FROM clock_timestamp() - :'t0'));"
	done
	advance $end moved
	[ -z "$CAPTURE" ] || echo "INSERT INTO on_time SELECT * FROM results WHERE window_end = $(event_clock $end);"
	[ -z "$2" ] || printf '%s\n' "CHECKPOINT;" "\\! $2"
	advance $((end + 1)) moved_further
	clock ended
	echo "INSERT INTO steps VALUES ($1, $(event_clock $end), :'began', :'moved', :'moved_further', :'ended');"
}

# Feeds $2 windows with $1 past ones into a new stream, and compares the results of all final windows with the batch
# query. The first steps, until late events come for as many windows as they ever will, and one window more, are not
# measured: MEASURED is the first step that is, FED the seconds of the events' clock. Options:
#	CAPTURE=1	also keep what each window gave on time, and go on until all windows are final
#	COLD=1		drop the system's cache before each final execution
#	SAMPLE=1	sample memory
run_workload()
{
	local past=$1 windows=$2 steps step before= sampler watermark
	CAPTURE=${CAPTURE:-}
	make_events "$past" "$windows"
	new_stream "$past"
	MEASURED=$(((past + 1) * WIDTH / SLIDE))
	steps=$((windows * WIDTH / SLIDE))
	if [ -n "$CAPTURE" ]; then
		sql "CREATE TABLE on_time AS SELECT * FROM results"
		steps=$(ls "$EVENTS_DIR"/*.now | wc -l)
		steps=$((steps / PARTS))
	fi
	for ((step = 0; step < steps; step++)); do
		if [ -n "${COLD:-}" ] && [ $step -ge "$MEASURED" ]; then before=$DROP_CACHES; fi
		step_script $step "$before"
	done >"$SERVER/feed.sql"
	FED=$((steps * SLIDE)) watermark=$((steps * SLIDE + 1))
	if [ -n "$CAPTURE" ]; then
		watermark=$((watermark + SIZE + past * WIDTH))
		advance $watermark flushed >>"$SERVER/feed.sql"
	fi
	if [ -n "${SAMPLE:-}" ]; then
		perl "$HERE/sample.pl" 0.1 >"$SERVER/samples" &
		sampler=$!
	fi
	psql -X -A -t -q -v ON_ERROR_STOP=1 -o /dev/null -f "$SERVER/feed.sql"
	if [ -n "${SAMPLE:-}" ]; then
		kill $sampler
		wait $sampler 2>/dev/null || true
		# the last line may have been cut off
		head -n -1 "$SERVER/samples" | sql "COPY samples FROM STDIN"
	fi
	[ "$(sql "SELECT count(*) FROM aion.expired")" = 0 ] || die "$WORKLOAD: events were set aside"
	compare_results results "w.start <= timestamp 'epoch' + interval '$((watermark - SIZE - past * WIDTH - 1)) s'" true
}

# The rows of results $1 against those of the batch query, over the windows and rows that conditions choose.
compare_results()
{
	local differing
	differing=$(sql "WITH batch_rows AS MATERIALIZED ($(batch_query "$2" "$3")),
		aion_rows AS MATERIALIZED (SELECT w.* FROM (SELECT window_start::timestamp AS start, $RESULT FROM $1) w WHERE $2)
		SELECT count(*) FROM ((TABLE batch_rows EXCEPT ALL TABLE aion_rows) UNION ALL (TABLE aion_rows EXCEPT ALL TABLE batch_rows)) d")
	[ "$differing" = 0 ] || die "$WORKLOAD: $1 and the batch query differ in $differing rows"
}

# What the measured steps say, one figure; $1 is an expression over ...
of_copies() { sql "SELECT round(($1)::numeric, 4) FROM copies WHERE step >= $MEASURED"; }
# ... firings f of kind $2 (on time, final), with the step s that they belong to and their duration in seconds.
of_firings()
{
	local margin=0 moved=s.moved
	if [ "$2" = final ]; then margin=$(($3 * WIDTH)) moved=s.moved_further; fi
	sql "SELECT round(($1)::numeric, 4) FROM (SELECT f.*, extract(epoch FROM f.ended - f.began) AS seconds,
			extract(epoch FROM f.ended - $moved) AS delay FROM firings f
			JOIN steps s ON s.watermark = f.window_start + interval '$((SIZE + margin)) s'
		WHERE f.kind = '$2' AND s.step >= $MEASURED) f"
}
median() { echo "percentile_cont(0.5) WITHIN GROUP (ORDER BY $1)"; }

# Thousands a second.
ingestion() { of_copies "(sum(now_events) + sum(late_events)) / extract(epoch FROM sum(now_time) + sum(late_time)) / 1000"; }
on_time_ingestion() { of_copies "sum(now_events) / extract(epoch FROM sum(now_time)) / 1000"; }
late_ingestion() { of_copies "sum(late_events) / extract(epoch FROM sum(late_time)) / 1000"; }
# Of the executions of one kind with $2 past windows.
processing_rate() { of_firings "$(median "events / seconds / 1000")" "$1" "$2"; }
processing_ms() { of_firings "$(median "seconds * 1000")" "$1" "$2"; }

# Of the samples taken while measured steps ran, in MB.
of_samples()
{
	sql "SELECT round(($1)::numeric / 1024 / 1024, 3) FROM samples
		WHERE at BETWEEN (SELECT extract(epoch FROM min(began)) FROM steps WHERE step >= $MEASURED)
			AND (SELECT extract(epoch FROM max(ended)) FROM steps)"
}
