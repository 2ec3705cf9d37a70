# A grouping query over 3 million flights, and the bytes that they take: in m-buckets, then in p-buckets alone, against a
# plain table that is vacuumed and in shared_buffers. The stream's watermark is manual, so that nothing is destaged before
# it is asked for.

QUERY="SELECT origin, count(*), avg(delay) FROM"

compare_queries()
{
	local what=$1 limit=$2 aion plain
	seconds "$QUERY select_stream GROUP BY origin" >/dev/null
	seconds "$QUERY select_table GROUP BY origin" >/dev/null
	for _ in $(seq "$PAIRS"); do
		aion=$(seconds "$QUERY select_stream GROUP BY origin")
		plain=$(seconds "$QUERY select_table GROUP BY origin")
		result "SELECT ... GROUP BY over $what" "$aion" "$plain" s "$limit"
	done
}

new_stream select_stream "watermark 'manual'"
new_table select_table
sql "COPY select_stream FROM STDIN (FORMAT csv)" <"$FLIGHTS_CSV"
sql "COPY select_table FROM STDIN (FORMAT csv)" <"$FLIGHTS_CSV"
sql "VACUUM ANALYZE select_table"
sql "CHECKPOINT"
settle select_stream
heap_bytes=$(sql "SELECT pg_relation_size('select_table') / $ROWS.0")

held() { sql "SELECT coalesce(sum($1), 0) FROM aion.buckets WHERE stream = 'select_stream'::regclass"; }

[ "$(held memory_events)" = $ROWS ] && [ "$(held disk_events)" = 0 ] || die "not all events are in memory"
result "m-bucket bytes per event" "$(sql "SELECT $(held memory_bytes) / $ROWS.0")" "$heap_bytes" B "<= 0.80"
compare_queries m-buckets "<= 0.95"

sql "SELECT aion.destage('select_stream')" >/dev/null
sql "CHECKPOINT"
[ "$(held memory_events)" = 0 ] && [ "$(held journal_events)" = 0 ] || die "not all events are on disk"
# The whole table of blocks, its index included, counts.
result "p-bucket bytes per event" "$(sql "SELECT pg_total_relation_size(blocks) / $ROWS.0 FROM aion.stream_def
	WHERE stream = 'select_stream'::regclass")" "$heap_bytes" B "<= 0.25"
compare_queries "p-buckets" "<= 1.20"

[ -z "$(sql "(SELECT * FROM select_stream EXCEPT ALL SELECT * FROM select_table) LIMIT 1")" ] || die "the stream differs from the table"
sql "DROP FOREIGN TABLE select_stream"
sql "DROP TABLE select_table"
