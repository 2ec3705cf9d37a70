# The staleness trigger on the flights as they arrived, in steps of event time: how stale results became, and how many
# late executions that took, against an execution in each step that brought late events, and against schedules at equal
# distances of time ("deltat") or of events ("deltaev"), the shortest ones that keep the bound, which only what came
# afterwards can tell. Executions without news are not counted. The plot is like those of the paper's figure 9.

STALENESS_FLIGHTS=${STALENESS_FLIGHTS:-$ROWS}
STALENESS_STEP=${STALENESS_STEP:-15}	# minutes
STALENESS_BOUND=${STALENESS_BOUND:-0.05}

own_server late-events "aion.late_interval = 0" "synchronous_commit = off"

# All that arrives in a step is inserted, then W is where the step began, less half an hour.
sql "CREATE TABLE arrivals ($FLIGHT_COLUMNS)"
head -n "$STALENESS_FLIGHTS" "$FLIGHTS_CSV" | sql "COPY arrivals FROM STDIN (FORMAT csv)"
sql "CREATE TABLE steps AS
	SELECT (extract(epoch FROM departs + greatest(delay, 0) * interval '1 minute' - timestamp '2001-01-01') / 60 / $STALENESS_STEP)::int AS step, * FROM arrivals;
	CREATE INDEX ON steps (step); ANALYZE steps"
new_stream s "watermark 'manual'"
sql "SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'), staleness => $STALENESS_BOUND)" >/dev/null

# Each execution, with the W_e at which it was.
sql "CREATE TABLE executions (at bigserial, window_start timestamp, n bigint, watermark timestamptz);
	CREATE FUNCTION note_execution() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
		INSERT INTO public.executions (window_start, n, watermark)
			VALUES (NEW.window_start, NEW.n, (SELECT event_watermark FROM aion.streams WHERE stream = 'public.s'::regclass));
		RETURN NULL; END \$\$"
sql "SELECT format('CREATE TRIGGER note AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION note_execution()', results) FROM aion.views" | psql -X -q -v ON_ERROR_STOP=1

steps=$(sql "SELECT max(step) FROM steps")
for ((step = 0; step <= steps; step++)); do
	echo "INSERT INTO s SELECT departs, delay, distance, origin, destination FROM steps WHERE step = $step;"
	echo "SELECT aion.advance_watermark('s', timestamptz '2001-01-01 00:00+00' + ($step * $STALENESS_STEP - 30) * interval '1 minute');"
	echo "SELECT aion.sync('s');"
done >"$WORK/replay.sql"
replay=$(sh -c "psql -X -q -At -v ON_ERROR_STOP=1 -f '$WORK/replay.sql' -o /dev/null && date +%s" | awk -v begin="$(date +%s)" '{ print $1 - begin }')

sql "COPY (SELECT step, extract(epoch FROM date_trunc('hour', departs))::bigint, count(*) FROM steps GROUP BY 1, 2 ORDER BY 1) TO STDOUT" >"$WORK/arrivals.tsv"
sql "COPY (SELECT extract(epoch FROM window_start)::bigint, n, extract(epoch FROM watermark)::bigint FROM executions ORDER BY at) TO STDOUT" >"$WORK/executions.tsv"
[ -z "${KEEP:-}" ] || cp "$WORK/arrivals.tsv" "$WORK/executions.tsv" "$KEEP"
perl test/bench/late_events.pl "$STALENESS_STEP" "$STALENESS_BOUND" "$WORK/arrivals.tsv" "$WORK/executions.tsv" "$WORK/staleness" >"$WORK/staleness.out"
while IFS=$'\t' read -r what aion other unit limit; do result "$what" "$aion" "$other" "$unit" "$limit"; done <"$WORK/staleness.out"
note "Staleness trigger: $STALENESS_FLIGHTS flights, $((steps + 1)) steps of $STALENESS_STEP minutes, bound $STALENESS_BOUND, replayed in $replay s."
if command -v gnuplot >/dev/null; then
	gnuplot <<-PLOT
		set terminal svg size 900,540 font 'sans,13' background '#ffffff'
		set output 'test/bench/results/staleness.svg'; set grid; set key outside bottom center horizontal
		set title 'Flights: late executions per window against the bound on staleness they keep'
		set xlabel 'executions per window, mean of windows with 50 late events or more'; set ylabel 'greatest staleness, mean'; set logscale y
		plot '$WORK/staleness.deltat' using 1:2 with linespoints title 'deltat', \
			'$WORK/staleness.deltaev' using 1:2 with linespoints title 'deltaev', \
			'$WORK/staleness.aion' using 1:2 with points pt 7 ps 1.5 title 'aion, as measured'
	PLOT
fi

# ---- predictive cleanup: an allowed lateness learnt from the data, against the initial one ----

# Windows that are not final, and all bytes on disk of a stream's events.
kept() { sql "SELECT count(*) FROM aion.windows WHERE view = '$1_v'::regclass AND state NOT IN ('final', 'incomplete')"; }
on_disk() { sql "SELECT pg_total_relation_size(journal) + pg_total_relation_size(blocks) FROM aion.stream_def WHERE stream = '$1'::regclass"; }

sql "DROP FOREIGN TABLE s CASCADE"
for stream in auto initial; do
	lateness=$([ $stream = auto ] && echo auto || echo "30 days")
	sql "CREATE FOREIGN TABLE $stream ($FLIGHT_COLUMNS) SERVER aion
		OPTIONS (event_time 'departs', bucket_width '1 hour', watermark 'manual', max_ahead 'off', allowed_lateness '$lateness')"
	sql "SELECT aion.create_view('${stream}_v', 'SELECT count(*) AS n FROM $stream', aion.tumbling('1 hour'), staleness => 1)" >/dev/null
done
# Looked at once in ten days of event time.
: >"$WORK/kept"
for ((first = 0; first <= steps; first += 14400 / STALENESS_STEP)); do
	for stream in auto initial; do
		for ((step = first; step < first + 14400 / STALENESS_STEP && step <= steps; step += 4)); do
			echo "INSERT INTO $stream SELECT departs, delay, distance, origin, destination FROM steps WHERE step BETWEEN $step AND $step + 3;"
			echo "SELECT aion.advance_watermark('$stream', timestamptz '2001-01-01 00:00+00' + ($((step + 3)) * $STALENESS_STEP - 30) * interval '1 minute');"
			echo "SELECT aion.sync('$stream');"
		done | psql -X -q -At -v ON_ERROR_STOP=1 -o /dev/null
	done
	echo "$((first * STALENESS_STEP / 1440)) $(kept auto) $(kept initial)" >>"$WORK/kept"
done
result "windows kept, lateness 'auto' against 30 days" "$(kept auto)" "$(kept initial)" windows -
sql "SELECT aion.destage('auto'), aion.destage('initial')" >/dev/null
result "bytes on disk, the same" "$(on_disk auto)" "$(on_disk initial)" B -
result "late events set aside, of all late ones" "$(sql "SELECT round(expired_events::numeric / late_events, 5) FROM aion.streams WHERE stream = 'auto'::regclass")" - share "<= 0.01"
note "Predictive cleanup: $(sql "SELECT format('%s late events, bound %s (%s)', late_events, bound, state) FROM aion.lateness WHERE stream = 'auto'::regclass")"
