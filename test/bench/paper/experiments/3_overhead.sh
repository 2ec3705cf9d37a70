# What moving events to disk costs: ingestion, and the rate at which executions get through their windows' events, against
# keeping everything in memory that is large enough. And whether it makes results late: how much later than usual, by the
# median of all in the run, the slowest execution on time was done, in per cent of the window's length, though time runs
# faster here than on the events' clock.

OTHER_SIDE="all kept"

# One run on the current server; its figures go to the files $1.ingestion and so on, a line each.
measure_run()
{
	run_workload "$past" $((past + 1 + WINDOWS))
	ingestion >>"$1.ingestion"
	on_time_ingestion >>"$1.on-time"
	late_ingestion >>"$1.late"
	processing_rate final "$past" >>"$1.final"
	processing_rate "on time" "$past" >>"$1.first"
	of_firings "(max(delay) - $(median delay)) * 100 / $SIZE" "on time" "$past" >>"$1.delay"
}

run_mine()
{
	restart_with "$(standard_memory)"
	measure_run "$SERVER/mine"
}

run_kept()
{
	keep_everything || return 0
	restart_with "$(memory_for $((past + 2)))" "$KEEP_EVERYTHING"
	measure_run "$SERVER/kept"
}

# The sides take turns at being first: the second finds memory that the first has made the system's cache of, which a
# virtual machine may not even have had before.
measure_pair()
{
	if [ $(($1 % 2)) -eq 1 ]; then run_kept; run_mine; else run_mine; run_kept; fi
}

# The pairs of figures $2, as what is named $1.
compare()
{
	local mine=$SERVER/mine.$2 other=$SERVER/kept.$2
	if [ -s "$other" ]; then
		while read -r a b; do result "$workload, $past past windows: $1" "$a" "$b" "$3" "$4"; done < <(paste -d ' ' "$mine" "$other")
	else
		result "$workload, $past past windows: $1" "$(middle "$mine")" - "$3" "$4" "$REASON"
	fi
}

WORKLOADS=${WORKLOADS:-average reports}
own_server overhead
for workload in $WORKLOADS; do
	use_workload "$workload"
	: >"$SERVER/$workload.dat"
	for past in $OVERHEAD_PAST; do
		rm -f "$SERVER"/mine.* "$SERVER"/kept.*
		for pair in $(seq "$PAIRS"); do
			measure_pair "$pair"
		done
		compare "ingestion" ingestion kevents/s ">= 0.95"
		compare "ingestion of on-time events" on-time kevents/s -
		compare "ingestion of late events" late kevents/s -
		compare "late executions" final kevents/s ">= 0.90"
		compare "executions on time" first kevents/s -
		while read -r delay; do
			result "$workload, $past past windows: result on time delayed" "$delay" - "% of W" "<= 5"
		done <"$SERVER/mine.delay"
		for side in mine kept; do
			for figure in ingestion final; do
				if [ -s "$SERVER/$side.$figure" ]; then middle "$SERVER/$side.$figure"; else echo -; fi
			done
		done | paste -s -d ' ' | sed "s/^/$past /" >>"$SERVER/$workload.dat"
	done
done

# The lines of one figure, in columns $1 of aion and $2 of keeping everything.
lines()
{
	local colour=1
	for workload in $WORKLOADS; do
		echo "'$SERVER/$workload.dat' using 1:$1 with linespoints lw 2 lc $colour title '$workload',"
		! keep_everything || echo "'' using 1:$2 with linespoints dt 2 lc $colour title '$workload, all kept',"
		colour=$((colour + 1))
	done | tr '\n' ' ' | sed 's/, *$//'
}
plot <<-PLOT
	set multiplot layout 1, 2 title '$TITLE'
	set xlabel 'past windows'; set ylabel '1000 events per second'; set xrange [0:*]; set yrange [0:*]
	set title 'Ingestion'
	plot $(lines 2 4)
	set title 'Late executions'
	set logscale y; set yrange [*:*]
	plot $(lines 3 5)
PLOT
