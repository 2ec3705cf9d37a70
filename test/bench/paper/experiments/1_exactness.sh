# Ten windows of each workload with three past ones: what each gives on time and in the end, against the batch query and
# against fingerprints that are known of scale 0.1.

# The fingerprint of the rows of $1, which has the columns of "results".
fingerprint()
{
	sql "WITH rows AS (SELECT window_start::timestamp, $RESULT FROM $1), condensed AS ($CONDENSED)
		SELECT md5(string_agg(r::text, E'\n' ORDER BY r::text COLLATE \"C\")) FROM condensed r"
}

same() { result "$1" "$([ "$2" = "$3" ] && echo 0 || echo 1)" - "of 1" "<= 0"; }

WORKLOADS=${WORKLOADS:-average bigrams stock reports}
own_server exactness
for workload in $WORKLOADS; do
	use_workload "$workload"
	restart_with "$(standard_memory)"
	CAPTURE=1 run_workload 3 10
	result "$workload: rows that differ from the batch query, final" 0 - rows "<= 0"
	compare_results on_time "w.start <= timestamp 'epoch' + interval '$((FED - SIZE)) s'" \
		"arrival < w.start + interval '$SIZE s'"
	result "$workload: the same on time" 0 - rows "<= 0"
	note "$workload: $(sql "SELECT format('%s events, %s late; %s', s.events, s.late_events,
		(SELECT string_agg(format('%s executions %s', n, kind), ', ' ORDER BY kind DESC) FROM (SELECT kind, count(*) AS n FROM firings GROUP BY 1) f))
		FROM aion.streams s")"
	[ "$SCALE" = 0.1 ] || continue
	same "$workload: fingerprint of final results is another" "$(fingerprint results)" "$FINGERPRINT"
	[ -z "$ON_TIME_FINGERPRINT" ] || same "$workload: fingerprint of results on time is another" "$(fingerprint on_time)" "$ON_TIME_FINGERPRINT"
done
