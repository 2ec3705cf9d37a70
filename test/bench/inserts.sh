# Single-row INSERTs by pgbench, prepared: a stream with one view against a plain table without index, in short runs that
# take turns. An hour of event time passes in each second, so a window fires every second during the runs, and its
# bucket is destaged: the stream's side has all of aion's background work on the same machine. What that was is noted.

SECONDS_A_RUN=${SECONDS_A_RUN:-4}

write_script()
{
	cat >"$WORK/$1.pgbench" <<-SCRIPT
	\set delay random(-20, 120)
	\set distance random(50, 3000)
	INSERT INTO $1 VALUES (timestamp '2001-01-01' + 3600 * (clock_timestamp() - timestamptz '$BEGIN'), :delay, :distance, 'ORD', 'LAX');
	SCRIPT
}

# Transactions per second of one run. Errors stop the benchmark.
tps() { pgbench -n -M prepared -c "$2" -j "$2" -T "$SECONDS_A_RUN" -f "$WORK/$1.pgbench" 2>/dev/null | awk '/^tps/ { print $3 }'; }

# CPU seconds that aion's processes have used. An executor that left meanwhile is missed.
worker_cpu()
{
	local pid
	for pid in $(sql "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'aion %'"); do
		cat "/proc/$pid/stat" 2>/dev/null || true
	done | awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); cpu += $12 + $13 } END { printf "%.2f\n", cpu / hz }'
}

BEGIN=$(sql "SELECT now()")
write_script insert_stream
write_script insert_table
for commit in on off; do
	limit=$([ $commit = on ] && echo ">= 0.95" || echo ">= 0.90")
	sql "ALTER SYSTEM SET synchronous_commit = $commit" && sql "SELECT pg_reload_conf()" >/dev/null
	for clients in 1 2 8; do
		new_stream insert_stream
		new_view insert_view insert_stream "1 hour"
		new_table insert_table
		sql "CHECKPOINT"
		cpu=$(worker_cpu)
		for pair in $(seq "$PAIRS"); do
			# each side is first in every other pair: what is new to the machine costs the first more
			if [ $((pair % 2)) -eq 0 ]; then plain=$(tps insert_table $clients); fi
			aion=$(tps insert_stream $clients)
			settle insert_stream
			if [ $((pair % 2)) -eq 1 ]; then plain=$(tps insert_table $clients); fi
			result "INSERT, $clients clients, synchronous_commit $commit" "$aion" "$plain" TPS "$limit"
		done
		note "INSERT, $clients clients, synchronous_commit $commit: $(sql "SELECT format('%s events accounted, %s firings, %s events destaged',
			s.events, v.on_time_firings + v.late_firings, (SELECT sum(disk_events) FROM aion.buckets WHERE stream = s.stream))
			FROM aion.streams s, aion.views v WHERE v.view = 'insert_view'::regclass AND s.stream = 'insert_stream'::regclass"), $(
			awk -v a="$cpu" -v b="$(worker_cpu)" 'BEGIN { printf "%.1f", b - a }') CPU s of aion's workers"
	done
done
sql "ALTER SYSTEM RESET synchronous_commit" && sql "SELECT pg_reload_conf()" >/dev/null

sql "DROP FOREIGN TABLE insert_stream CASCADE"
sql "DROP TABLE insert_table"
