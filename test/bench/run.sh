#!/bin/bash
# Runs the benchmarks, test/bench/*.sh and *.sql, against a private server with a production build, and prints a table of
# ratios to plain tables: both sides are measured in the same run, in interleaved pairs, and the medians count.
#
#   test/bench/run.sh [NAME]...          these only, without suffix; all by default
#   PAIRS=5                              how many pairs of each measurement
#   LOADS=3, SAMPLES=120, SECONDS_A_RUN=4   the same of the loads of 10 million, of latencies, and the length of pgbench's runs
#   FLIGHTS=flights.csv.xz               the data; by default the project's sample, repeated up to 3 million rows
#
# A benchmark in SQL prints rows of five columns, one for each measured pair:
#   what it is | aion's value | the plain table's value, or '-' | unit | limit of the ratio, as '<= 0.9' or '>= 0.95', or '-'
# One in shell is sourced here, with psql set up, and calls `result` with the same five. Without a plain value, the limit
# is one of aion's value itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/bench_lib.sh

PAIRS=${PAIRS:-5}
ROWS=3000000

# ---- for the benchmarks ---------------------------------------------------------------------------------------------

# Seconds that a statement and further arguments of psql take, commits included; standard input is left to them.
seconds()
{
	psql -X -A -t -q -v ON_ERROR_STOP=1 -o /dev/null -c '\timing on' -c "$1" "${@:2}" |
		awk '/^Time:/ { ms += $2 } END { printf "%.4f\n", ms / 1000 }'
}

# The flights in order of arrival, 3 million rows, is what most benchmarks load: $FLIGHTS_CSV. A stream (with further
# options), a view of one or a table for them:
FLIGHT_COLUMNS="departs timestamp NOT NULL, delay int, distance int, origin text, destination text"
new_stream()
{
	local options="event_time 'departs', bucket_width '1 hour', allowed_lateness '2 days', max_ahead 'off'"
	sql "DROP FOREIGN TABLE IF EXISTS $1 CASCADE"
	sql "CREATE FOREIGN TABLE $1 ($FLIGHT_COLUMNS) SERVER aion OPTIONS ($options, ${2:-watermark_delay '30 minutes'})"
}
new_view()
{
	sql "SELECT aion.create_view('$1', 'SELECT origin, count(*), avg(delay) FROM $2 GROUP BY origin', aion.tumbling('$3'))" >/dev/null
}
new_table() { sql "DROP TABLE IF EXISTS $1; CREATE TABLE $1 ($FLIGHT_COLUMNS)"; }

# Waits until aion's work on a stream is done: accounted, fired, destaged what is past, the journal vacuumed.
settle()
{
	sql "SELECT aion.sync('$1', late => true, timeout => '10 min')" >/dev/null
	local idle=0 busy
	for _ in $(seq 600); do
		sleep 0.1
		busy=$(sql "SELECT count(*) FROM aion.workers WHERE role IN ('io', 'executor') AND state <> 'idle'")
		idle=$([ "$busy" = 0 ] && echo $((idle + 1)) || echo 0)
		[ $idle -lt 5 ] || return 0
	done
	die "aion does not come to rest"
}

# The table "many" of the current server: 10 million events that arrive evenly in 1,000 hours, each as late as a flight is.
MANY=10000000
prepare_many()
{
	new_table flights
	sql "COPY flights FROM STDIN (FORMAT csv)" <"$FLIGHTS_CSV"
	new_table many
	for ((first = 0; first < MANY; first += ROWS)); do
		sql "INSERT INTO many SELECT timestamp '2001-01-01' + n * interval '0.36 s' - greatest(delay, 0) * interval '1 minute',
			delay, distance, origin, destination
			FROM (SELECT row_number() OVER () - 1 + $first AS n, * FROM flights LIMIT $MANY - $first) f"
	done
	sql "DROP TABLE flights"
	sql "VACUUM ANALYZE many"
}

# Thousands of these events a second, from the seconds that they took.
rate() { awk -v s="$1" -v n=$MANY 'BEGIN { printf "%.1f\n", n / s / 1000 }'; }

# Starts a server of the benchmark's own, with further settings; it goes with the benchmark.
own_server()
{
	make_work_dir "bench-$1"
	start_server "$WORK" test/bench/bench.conf "${@:2}"
	sql "CREATE EXTENSION aion"
}

# ---- the run --------------------------------------------------------------------------------------------------------

scripts/setup.sh || exit
make_work_dir bench
build_private_server

start_server "$WORK" test/bench/bench.conf
sql "CREATE EXTENSION aion"

FLIGHTS_CSV=$WORK/flights.csv
say "Preparing $ROWS flights ..."
if [ -n "${FLIGHTS:-}" ]; then
	xz -dc "$FLIGHTS" | head -n $ROWS >"$FLIGHTS_CSV" || [ $? -eq 141 ]		# head closes the pipe
else
	# Four days cover the sample, its latest arrival included: so each repetition follows the one before it.
	new_table sample
	xz -dc test/data/flights-50k.csv.xz | sql "COPY sample FROM STDIN (FORMAT csv)"
	sql "COPY (SELECT departs + n * interval '4 days', delay, distance, origin, destination
		FROM generate_series(0, $ROWS / 50000 - 1) n, sample ORDER BY n, sample.ctid) TO STDOUT (FORMAT csv)" >"$FLIGHTS_CSV"
	sql "DROP TABLE sample"
fi

RESULTS=$WORK/results.tsv NOTES=$WORK/notes
: >"$RESULTS"
: >"$NOTES"
status=0 others=
for file in test/bench/*.sh test/bench/*.sql; do
	name=$(basename "${file%.*}")
	[ -f "$file" ] && [ "$name" != run ] || continue
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	others+="${others:+, }$(cpu_used) %"
	say "== $name"
	# Not as a condition: there, the shell would go on after an error inside.
	set +e
	case $file in
		*.sh) (own_cleanup; set -e; . "$file") ;;
		*.sql) psql -X -A -t -q -F $'\t' -v ON_ERROR_STOP=1 -v pairs="$PAIRS" -v flights="$FLIGHTS_CSV" -f "$file" >>"$RESULTS" ;;
	esac
	[ $? -eq 0 ] || { say "   failed"; status=1; }
	set -e
done

[ -s "$RESULTS" ] || die "nothing was measured"
perl scripts/bench_table.pl "$RESULTS"
echo "other processes' share of the CPU before each benchmark: $others"
echo
sort "$NOTES"
exit $status
