# From the commit that moves the watermark past a window's end to the commit of its result: 1,000 events stand in the
# window and are accounted for; the last pass of the scheduler is longer ago than watermark_interval (200 ms). Both commits
# are dated by the server itself (track_commit_timestamp), so no client polls and disturbs.

SAMPLES=${SAMPLES:-120}

own_server latency "track_commit_timestamp = on"
new_stream latency_stream "watermark_delay '0'"
new_view latency_view latency_stream "1 hour"
hour() { echo "timestamp '2001-01-01' + ($1) * interval '1 hour'"; }

for n in $(seq "$SAMPLES"); do
	echo "INSERT INTO latency_stream SELECT $(hour "$n") + i * interval '3 s', i, i, 'ORD', 'LAX' FROM generate_series(0, 999) i;"
	echo "SELECT pg_sleep(0.3 + 0.1 * random());"
	echo "WITH moved AS (INSERT INTO latency_stream VALUES ($(hour "$n + 1"), 0, 0, 'ORD', 'LAX') RETURNING departs)
		INSERT INTO moves SELECT $n, pg_current_xact_id() FROM moved;"
	echo "SELECT pg_sleep(0.25 + 0.1 * random());"
done >"$WORK/latency.sql"
sql "CREATE TABLE moves (n int, top xid8)"
psql -X -q -v ON_ERROR_STOP=1 -f "$WORK/latency.sql" >/dev/null
settle latency_stream

results=$(sql "SELECT results FROM aion.views WHERE view = 'latency_view'::regclass")
sql "SELECT round(1000 * extract(epoch FROM pg_xact_commit_timestamp(r.xmin) - pg_xact_commit_timestamp(m.top::xid)), 3)
	FROM moves m JOIN $results r ON r.window_start = $(hour m.n)" >"$WORK/latencies"
[ "$(wc -l <"$WORK/latencies")" -eq "$SAMPLES" ] || die "windows without result, or with several rows"
percentile() { sort -n "$WORK/latencies" | awk -v p="$1" '{ v[NR] = $1 } END { i = p * NR; i = i > int(i) ? int(i) + 1 : i; print v[i] }'; }
result "commit to result, median of $SAMPLES" "$(percentile 0.5)" - ms "<= 20"
result "commit to result, 99th percentile" "$(percentile 0.99)" - ms "<= 100"
note "commit to result: $(percentile 0.01) to $(percentile 1) ms, 90th percentile $(percentile 0.9) ms"
