# Late events for 100 past windows at once, evenly, against as many on-time ones of the current window: how fast they are
# taken in, and how fast they are in p-buckets. Of the past windows each has a tenth of the events that it has at this
# scale, which is enough to have them.

PAST_WINDOWS=100
OTHER_SIDE="on time"

# Events, and seconds until they were committed and until they were in p-buckets.
send()
{
	{
		echo "CHECKPOINT;"
		clock t0
		echo "COPY events FROM '$1';"
		echo "\\set events :ROW_COUNT"
		clock t1
		echo "SELECT aion.destage('events') \\g /dev/null"
		echo "SELECT :events, extract(epoch FROM :'t1'::timestamptz - :'t0'), extract(epoch FROM clock_timestamp() - :'t0');"
	} | psql -X -A -t -q -F ' ' -v ON_ERROR_STOP=1
}
per_second() { awk -v n="$1" -v s="$2" 'BEGIN { printf "%.3f\n", n / s / 1000 }'; }

WORKLOADS=${WORKLOADS:-average stock}
own_server late
: >"$SERVER/late.dat"
for workload in $WORKLOADS; do
	use_workload "$workload"
	restart_with "$(memory_for 4)"
	new_stream $PAST_WINDOWS
	for set in past now late; do
		as_server rm -rf "$SERVER/$set"
		as_server mkdir "$SERVER/$set"
	done
	last=$((PAST_WINDOWS + PAIRS + 1))
	part=$((WIDTH * 1000))
	measured="$((PAST_WINDOWS * WIDTH)) $((last * WIDTH))"
	as_server "$GENERATE" "$workload" $(((RATE + 9) / 10)) $((PAST_WINDOWS * WIDTH)) 0 none $part "$SERVER/past"
	as_server "$GENERATE" "$workload" "$RATE" $((last * WIDTH)) 0 none $part "$SERVER/now" $measured
	as_server "$GENERATE" "$workload" "$RATE" $((last * WIDTH)) $PAST_WINDOWS spread $part "$SERVER/late" $measured

	for file in "$SERVER"/past/*.now; do echo "COPY events FROM '$file';"; done >"$SERVER/feed.sql"
	advance $((PAST_WINDOWS * WIDTH)) moved >>"$SERVER/feed.sql"
	echo "SELECT aion.destage('events');" >>"$SERVER/feed.sql"
	psql -X -A -t -q -v ON_ERROR_STOP=1 -o /dev/null -f "$SERVER/feed.sql"

	# The first pair is not measured: it makes the stream's relations grow for the first time.
	for ((window = PAST_WINDOWS; window < last; window++)); do
		name=$(printf %06d $window)
		# another one is the first each time, see 3_overhead
		order="late now"
		[ $((window % 2)) -eq 0 ] || order="now late"
		for set in $order; do
			read -r "${set}_events" "${set}_taken" "${set}_folded" < <(send "$SERVER/$set/$name.$set")
		done
		[ $window -gt $PAST_WINDOWS ] || continue
		late=$(per_second "$late_events" "$late_taken")
		folded=$(per_second "$late_events" "$late_folded")
		result "$workload: ingestion of events that are late for 100 windows" "$late" "$(per_second "$now_events" "$now_taken")" kevents/s ">= 0.90"
		result "$workload: the same, until they are in p-buckets" "$folded" "$(per_second "$now_events" "$now_folded")" kevents/s -
	done
	sent=$(cat "$SERVER"/past/*.now "$SERVER"/now/*.now "$SERVER"/late/*.late | wc -l)
	[ "$(sql "SELECT events - expired_events FROM aion.streams")" = "$sent" ] || die "$workload: events were lost"
	echo "$workload $late $(per_second "$now_events" "$now_taken") $folded $(per_second "$now_events" "$now_folded")" >>"$SERVER/late.dat"
done

plot <<-PLOT
	set title 'Late events for 100 past windows, the last pair, $TITLE'
	set ylabel '1000 events per second'; set yrange [0:*]; set style data histogram; set style fill solid 0.6
	plot '$SERVER/late.dat' using 2:xtic(1) title 'late, committed', '' using 3 title 'on time, committed', \
		'' using 4 title 'late, in p-buckets', '' using 5 title 'on time, in p-buckets'
PLOT
