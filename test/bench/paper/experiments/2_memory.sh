# Memory with more and more past windows that still take late events, on a server that is restarted for each number: what
# m-buckets and aion's processes hold must not grow with it. If nothing is moved out of memory, it grows as expected:
# peak (K + 1 - mean lateness in windows) times what arrives in a window.

# Events come at a pace (PACE) that the I/O worker can keep up with, if several times that of the events' clock: what it
# has not got to yet would be measured instead.

OTHER_SIDE="compared with"

# MB that keeping everything takes at most, from the events of the current run.
expected_peak()
{
	sql "SELECT round($((RATE * WIDTH * BYTES)) / 1024.0 / 1024 * ($1 + 1 - avg(extract(epoch FROM date_bin('$WIDTH s', arrival, 'epoch')
		- date_bin('$WIDTH s', ts, 'epoch')) / $WIDTH)), 1) FROM batch
		WHERE arrival >= timestamp 'epoch' + $MEASURED * interval '$SLIDE s'"
}

WORKLOADS=${WORKLOADS:-average stock reports}
own_server memory
least=${PAST%% *} most=${PAST##* }
for workload in $WORKLOADS; do
	use_workload "$workload"
	: >"$SERVER/$workload.dat"
	for past in $PAST; do
		restart_with "$(standard_memory)"
		PACE=${PACE:-2} SAMPLE=1 run_workload "$past" $((past + 1 + WINDOWS))
		held=$(of_samples "$(median memory_bytes)")
		private=$(of_samples "$(median private_bytes)")
		expected=$(expected_peak "$past")
		if [ "$past" = "$least" ]; then held_least=$held private_least=$private; fi
		note "$workload, $past past windows: m-buckets $held MB (median), $(of_samples "max(memory_bytes)") MB (most);" \
			"private memory $private MB (median); p-buckets $(of_samples "max(disk_bytes)") MB (most); keeping everything would take $expected MB"
		kept=-
		if keep_everything; then
			restart_with "$(memory_for $((past + 2)))" "$KEEP_EVERYTHING"
			SAMPLE=1 run_workload "$past" $((past + 1 + WINDOWS))
			kept=$(of_samples "max(memory_bytes)")
			result "$workload: keeping everything, $past past windows, most, against what is expected" "$kept" "$expected" MB ">= 0.90"
		fi
		echo "$past $held $kept $expected" >>"$SERVER/$workload.dat"
	done
	result "$workload: m-buckets, median, $most past windows against $least" "$held" "$held_least" MB "<= 1.10"
	result "$workload: private memory of aion's processes, median, the same" "$private" "$private_least" MB "<= 1.10"
	keep_everything || result "$workload: keeping everything against what is expected" - - MB ">= 0.90" "$REASON"
done

plot <<-PLOT
	set title 'Memory of m-buckets, $TITLE'
	set xlabel 'past windows'; set ylabel 'MB'; set logscale y; set xrange [0:*]
	plot $(colour=1; for workload in $WORKLOADS; do
		echo "'$SERVER/$workload.dat' using 1:2 with linespoints lw 2 lc $colour title '$workload (median)',"
		! keep_everything || echo "'' using 1:3 with linespoints dt 2 lc $colour title '$workload, keeping everything (most)',"
		echo "'' using 1:4 with lines dt 3 lc $colour title '$workload, keeping everything (expected)',"
		colour=$((colour + 1))
	done | tr '\n' ' ' | sed 's/, *$//')
PLOT
