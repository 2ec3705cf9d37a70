#!/bin/bash
# The newcomer's path: builds and installs aion, starts a private server in ./demo, replays 50,000 real flights in the
# order in which they became known, and shows what came of it. Takes less than a minute after the set-up; can be run
# again at any time. The server answers on a Unix socket only and is stopped at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

BATCH=1000

heading() { printf '\n%s\n' "$*"; }
sql() { psql -X -A -t -q -v ON_ERROR_STOP=1 -c "$1"; }
show() { psql -X -q -v ON_ERROR_STOP=1 -P footer=off -P null=- -c "$1"; }

# ---- build, install, start ------------------------------------------------------------------------------------------

scripts/setup.sh || exit
find_server || die "no PostgreSQL server of 15 to 18 with its development files was found"

# The server's user must be able to get to its folder, which in root's home it cannot.
DEMO=$PROJECT/demo
[ ! -d "$DEMO" ] || stop_servers_below "$DEMO"
rm -rf "$DEMO"
mkdir "$DEMO"
[ "$(id -u)" -ne 0 ] || chown postgres: "$DEMO"
if ! as_server test -w "$DEMO"; then
	rmdir "$DEMO"
	make_work_dir demo
	DEMO=$WORK
	say "The server's user cannot get to ./demo, so the server's files are in $DEMO for the while."
fi

say "Building for $("$PG_CONFIG" --version) ..."
make -s -j"$(nproc)" PG_CONFIG="$PG_CONFIG"
if can_be_root; then
	as_root make -s install PG_CONFIG="$PG_CONFIG"
else
	say "Neither root nor sudo: installing into a private copy of the server instead."
	make_private_server "$DEMO/server"
	make -s install PG_CONFIG="$PG_CONFIG"
fi

cat >"$DEMO/demo.conf" <<-CONF
	shared_preload_libraries = 'aion'
	timezone = 'UTC'
CONF
start_server "$DEMO" "$DEMO/demo.conf"
export PGOPTIONS="-c statement_timeout=60s -c client_min_messages=warning"

# ---- a stream, a view -----------------------------------------------------------------------------------------------

heading "A stream of flights, its event time the scheduled departure; and a view that counts departures per hour:"
DEFINITION="
CREATE FOREIGN TABLE flights (
    departs timestamp NOT NULL, delay int, distance int, origin text, destination text
) SERVER aion OPTIONS (event_time 'departs', bucket_width '1 hour',
                       watermark_delay '30 minutes', allowed_lateness '2 days', max_ahead 'off');

SELECT aion.create_view('departures_per_hour',
    \$\$ SELECT origin, count(*) AS flights, round(avg(delay), 1) AS avg_delay FROM flights GROUP BY origin \$\$,
    aion.tumbling('1 hour'));
"
echo "$DEFINITION"
sql "CREATE EXTENSION aion" >/dev/null
sql "$DEFINITION" >/dev/null

# ---- the replay -----------------------------------------------------------------------------------------------------

# A window's first result is remembered as it stood when it appeared, to be compared with what late flights made of it.
sql "CREATE TABLE first_result AS SELECT * FROM departures_per_hour"
REMEMBER="INSERT INTO first_result SELECT * FROM departures_per_hour v
	WHERE NOT EXISTS (SELECT FROM first_result f WHERE f.window_start = v.window_start)"

heading "Replaying 50,000 flights in order of arrival (departure plus delay):"
mkdir "$DEMO/batches"
xz -dc test/data/flights-50k.csv.xz | split -l $BATCH -a 3 - "$DEMO/batches/"
sent=0
for batch in "$DEMO"/batches/*; do
	sql "COPY flights FROM STDIN (FORMAT csv)" <"$batch"
	sql "SELECT aion.sync('flights')" >/dev/null
	sql "$REMEMBER"
	sent=$((sent + $(wc -l <"$batch")))
	progress=$(sql "SELECT format('watermark %s, %s windows, %s results',
		to_char(aion.watermark('flights') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), count(DISTINCT window_start), count(*))
		FROM departures_per_hour")
	line=$(printf '  %6d flights, %s' $sent "$progress")
	if [ -t 1 ]; then printf '\r%s\033[K' "$line"; elif [ $((sent % (10 * BATCH))) -eq 0 ]; then echo "$line"; fi
done
[ ! -t 1 ] || echo
sql "SELECT aion.sync('flights', late => true)" >/dev/null

# ---- what came of it ------------------------------------------------------------------------------------------------

heading "The busiest hours (SELECT ... FROM departures_per_hour ORDER BY flights DESC LIMIT 8):"
show "SELECT * FROM departures_per_hour ORDER BY flights DESC, window_start LIMIT 8"

heading "Flights that were late changed results that stood already. The airport and hour they changed most:"
show "SELECT v.window_start, v.origin, f.flights AS flights_before, v.flights AS flights_after,
		f.avg_delay AS avg_delay_before, v.avg_delay AS avg_delay_after
	FROM departures_per_hour v JOIN first_result f USING (window_start, origin)
	JOIN aion.windows w ON w.view = 'departures_per_hour'::regclass AND w.window_start = v.window_start
	ORDER BY v.flights - f.flights DESC, v.window_start, v.origin LIMIT 1"

heading "How often that hour was computed (SELECT ... FROM aion.windows):"
show "SELECT w.window_start, w.window_end, w.state, w.events, w.late_events, w.firings
	FROM aion.windows w JOIN departures_per_hour v ON w.window_start = v.window_start
	JOIN first_result f ON (f.window_start, f.origin) = (v.window_start, v.origin)
	WHERE w.view = 'departures_per_hour'::regclass
	ORDER BY v.flights - f.flights DESC, v.window_start, v.origin LIMIT 1"

heading "Where the events are (SELECT ... FROM aion.buckets):"
show "SELECT bucket_start, state, memory_events, memory_bytes, disk_events, disk_bytes, journal_events
	FROM aion.buckets ORDER BY bucket_start LIMIT 8"

heading "Done in $SECONDS s; the server stops now. In a server of yours: shared_preload_libraries = 'aion', then CREATE EXTENSION aion."
