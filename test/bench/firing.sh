# 10 million events over 1,000 windows in one transaction, with aion.memory = 64MB, so that most are in the journal alone:
# accounting for them and firing every window, against the batch query over a plain table. The load's own time, with its
# commit, does not count.

LOADS=${LOADS:-3}

own_server firing "aion.memory = '64MB'"
prepare_many
for _ in $(seq "$LOADS"); do
	new_stream firing_stream
	new_view firing_view firing_stream "1 hour"
	sql "CHECKPOINT"
	sql "INSERT INTO firing_stream SELECT * FROM many"
	aion=$(seconds "SELECT aion.sync('firing_stream', timeout => '10 min')")
	settle firing_stream
	batch="SELECT date_bin('1 hour', departs, timestamp '2000-01-03') AS window_start, origin, count(*), avg(delay) FROM many GROUP BY 1, 2"
	plain=$(seconds "$batch")
	result "firing 1,000 windows after 10 million events in one transaction" "$aion" "$plain" s "<= 3"
done
# The last windows are still open.
[ "$(sql "SELECT count(*) FROM (SELECT window_start, origin, count, avg FROM firing_view EXCEPT ALL ($batch)) d")" = 0 ] || die "the result differs"
note "firing: $(sql "SELECT format('%s windows fired', on_time_firings) FROM aion.views")"
sql "DROP FOREIGN TABLE firing_stream CASCADE"
