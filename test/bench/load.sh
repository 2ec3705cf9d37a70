# Loading 3 million flights: into a durable stream with one view, against a plain table without index. Both are made
# anew for each load, in a transaction of their own, so that the table cannot skip its WAL. The stream has fired what was
# due before the table's turn comes.

prepare_load()
{
	new_stream load_stream
	new_view load_view load_stream "1 hour"
	new_table load_table
	sql "CHECKPOINT"
}

load_pair()
{
	local what=$1 limit=$2 to_stream=$3 to_table=$4 aion plain
	prepare_load
	aion=$(seconds "$to_stream" <"$FLIGHTS_CSV")
	settle load_stream
	sql "CHECKPOINT"
	plain=$(seconds "$to_table" <"$FLIGHTS_CSV")
	[ "$what" = warm-up ] || result "$what" "$aion" "$plain" s "$limit"
}

new_table load_source
sql "COPY load_source FROM STDIN (FORMAT csv)" <"$FLIGHTS_CSV"
sql "VACUUM ANALYZE load_source"

COPY="FROM STDIN (FORMAT csv)"
load_pair warm-up - "COPY load_stream $COPY" "COPY load_table $COPY"
for _ in $(seq "$PAIRS"); do
	load_pair "COPY of 3 million flights, one view" "<= 0.90" "COPY load_stream $COPY" "COPY load_table $COPY"
	load_pair "INSERT ... SELECT of the same" "<= 0.60" \
		"INSERT INTO load_stream SELECT * FROM load_source" "INSERT INTO load_table SELECT * FROM load_source"
done

sql "DROP FOREIGN TABLE load_stream CASCADE"
sql "DROP TABLE load_table, load_source"
