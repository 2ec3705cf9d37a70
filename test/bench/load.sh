# Loading 3 million flights: into a durable stream with one view, against a plain table without index. Both are made
# anew for each load, in a transaction of their own, so that the table cannot skip its WAL.

load_stream_with_view()
{
	new_stream load_stream
	sql "SELECT aion.create_view('load_view', 'SELECT origin, count(*), avg(delay) FROM load_stream GROUP BY origin',
		aion.tumbling('1 hour'))" >/dev/null
}

new_table load_source
sql "COPY load_source FROM STDIN (FORMAT csv)" <"$FLIGHTS_CSV"
sql "VACUUM ANALYZE load_source"

COPY="FROM STDIN (FORMAT csv)"
for _ in $(seq "$PAIRS"); do
	load_stream_with_view
	new_table load_table
	sql "CHECKPOINT"
	aion=$(seconds "COPY load_stream $COPY" <"$FLIGHTS_CSV")
	sql "SELECT aion.sync('load_stream', timeout => '10 min')" >/dev/null		# firing is not to disturb the other side
	sql "CHECKPOINT"
	plain=$(seconds "COPY load_table $COPY" <"$FLIGHTS_CSV")
	result "COPY of 3 million flights" "$aion" "$plain" s "<= 0.90"

	load_stream_with_view
	new_table load_table
	sql "CHECKPOINT"
	aion=$(seconds "INSERT INTO load_stream SELECT * FROM load_source")
	sql "SELECT aion.sync('load_stream', timeout => '10 min')" >/dev/null
	sql "CHECKPOINT"
	plain=$(seconds "INSERT INTO load_table SELECT * FROM load_source")
	result "INSERT ... SELECT of 3 million flights" "$aion" "$plain" s "<= 0.60"
done

sql "DROP FOREIGN TABLE load_stream CASCADE"
sql "DROP TABLE load_table, load_source"
