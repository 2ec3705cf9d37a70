# The paper's workloads, each with the first of its windowed operators; to be sourced.
#
# The stream is always called "events", the view "results". QUERY has EVENTS where the stream stands, so that the same
# text, over a plain table's rows of one window, says what a result must be.

# Sets what a workload is at $SCALE:
#	RATE		events per second of the event clock
#	WIDTH		seconds of a window of the paper, in which lateness is counted
#	SIZE, SLIDE	of the operator's windows, in seconds; SLIDE is also the step of the watermark
#	PARTS		how many times per step events are sent
#	BYTES		of an event
#	COLUMNS		what an event has besides time and payload
#	QUERY, RESULT	the operator and its columns
#	CONDENSED	query over the table "rows" of all results that makes of it what FINGERPRINT is taken of
#	FINGERPRINT	of the results of ten windows with three past ones at scale 0.1, known from elsewhere
#	ON_TIME_FINGERPRINT	the same of what the windows gave on time, where it is known
use_workload()
{
	WORKLOAD=$1 PARTS=10 ON_TIME_FINGERPRINT= CONDENSED="SELECT * FROM rows"
	local full_rate=10000
	case $1 in
		average)
			WIDTH=20 SIZE=20 SLIDE=20 BYTES=2304
			COLUMNS="value int"
			QUERY="SELECT count(*) AS n, sum(value) AS total, round(avg(value), 6) AS average FROM EVENTS"
			RESULT="n, total, average"
			FINGERPRINT=b36e27a3d29bf3274c81007ae3f241e0
			ON_TIME_FINGERPRINT=ea83e1f924bd07ee399a6ecfca78633e ;;
		bigrams)
			full_rate=5000
			WIDTH=30 SIZE=30 SLIDE=30 BYTES=3584
			COLUMNS="body text"
			QUERY="SELECT a[i] || ' ' || a[i + 1] AS bigram, count(*) AS c
				FROM (SELECT string_to_array(body, ' ') AS a FROM EVENTS) t, generate_series(1, cardinality(a) - 1) i GROUP BY 1"
			RESULT="bigram, c"
			CONDENSED="SELECT window_start, count(*) AS different, sum(c) AS bigrams, max(c) AS most,
				min(bigram COLLATE \"C\") FILTER (WHERE c = m) AS first_of_most
				FROM (SELECT *, max(c) OVER (PARTITION BY window_start) AS m FROM rows) x GROUP BY 1"
			FINGERPRINT=7a2d56c812897f4783f3676b69b84545 ;;
		stock)
			WIDTH=30 SIZE=10 SLIDE=5 PARTS=2 BYTES=1664
			COLUMNS="symbol text, price numeric"
			QUERY="SELECT symbol, min(price) AS low, max(price) AS high, round(avg(price), 6) AS mean FROM EVENTS GROUP BY 1"
			RESULT="symbol, low, high, mean"
			FINGERPRINT=0173998ba63b93eef8e58b00bf1345dd ;;
		reports)
			WIDTH=60 SIZE=60 SLIDE=60 BYTES=1536
			COLUMNS="vid int, speed int, xway int, lane int, dir int, seg int, pos int"
			QUERY="SELECT xway, dir, seg, count(*) AS reports, count(DISTINCT vid) AS cars, round(avg(speed), 6) AS speed
				FROM EVENTS GROUP BY 1, 2, 3"
			RESULT="xway, dir, seg, reports, cars, speed"
			FINGERPRINT=d82b0816fbe9a33faa26384adc15c9f6 ;;
		*) die "no such workload: $1" ;;
	esac
	RATE=$(awk -v r=$full_rate -v s="$SCALE" 'BEGIN { printf "%d\n", r * s }')
	[ "$RATE" -gt 0 ] || die "SCALE=$SCALE leaves no events"
}

# Rounded up to MB: what $1 windows of events take.
window_mb() { awk -v w="$1" -v n=$((RATE * WIDTH)) -v b="$BYTES" 'BEGIN { printf "%d\n", w * n * b / 1024 / 1024 + 1 }'; }

# The query that gives all results by plain SQL over the table "batch": for each window the operator over its rows.
# Conditions on a window w.start choose windows ($1) and rows ($2).
batch_query()
{
	local rows="(SELECT * FROM batch WHERE ts >= w.start AND ts < w.start + interval '$SIZE s' AND ${2:-true}) events"
	echo "SELECT w.start AS window_start, q.* FROM (
			SELECT DISTINCT first - n * interval '$SLIDE s' AS start
			FROM (SELECT DISTINCT date_bin('$SLIDE s', ts, 'epoch') AS first FROM batch) b, generate_series(0, $((SIZE / SLIDE)) - 1) n) w
		CROSS JOIN LATERAL (${QUERY//EVENTS/$rows}) q WHERE ${1:-true}"
}
