#!/bin/bash
# The paper's experiments, *.sh in experiments/, on private servers with a production build: the paper's workloads, made by
# generate.c, on the events' own clock. Prints for each a table of figures with their limits, and leaves it with a plot
# in test/bench/results.
#
#   test/bench/paper/run.sh [NAME]...    these only, without suffix; all by default
#   SCALE=0.1                            share of the paper's event rates; windows, lateness and events' sizes stay
#   WORKLOADS="average bigrams stock reports"   by default, as many of them as take a few minutes in each experiment
#   PAST="1 10 30"                       numbers of past windows for memory: up to 100
#   OVERHEAD_PAST="1 10"                 the same for overhead
#   WINDOWS=3, PAIRS=3                   windows measured in a run; pairs of runs of each comparison
#   PACE=0                               least seconds that a window takes to arrive; by default 2 for memory, else as
#                                        fast as can be
#
# An experiment is sourced, in a process of its own, and calls `result` (scripts/bench_lib.sh). What compares with a
# setting that this build does not have is reported as not available.
set -euo pipefail
cd "$(dirname "$0")/../../.."
HERE=$PWD/test/bench/paper
. scripts/lib.sh
. scripts/bench_lib.sh
. "$HERE/workloads.sh"
. "$HERE/feed.sh"

SCALE=${SCALE:-0.1}
PAST=${PAST:-1 10 30}
OVERHEAD_PAST=${OVERHEAD_PAST:-1 10}
WINDOWS=${WINDOWS:-3}
PAIRS=${PAIRS:-3}
PACE=${PACE:-}
OUTPUT=$PWD/test/bench/results

# ---- for the experiments --------------------------------------------------------------------------------------------

# Starts a server of the experiment's own in the folder $SERVER; it goes with the experiment.
own_server()
{
	make_work_dir "paper-$1"
	SERVER=$WORK
	start_server "$SERVER" "$HERE/paper.conf"
	sql "CREATE EXTENSION aion"
	psql -X -q -v ON_ERROR_STOP=1 -f "$HERE/measure.sql"
	warm_wal
}

# A server that has been up for a while uses its segments of WAL again, and does not make new ones, which would cost each
# side as much as it writes. So this makes as many as a checkpoint leaves, min_wal_size.
warm_wal()
{
	for _ in {1..128}; do printf '%s\n' "SELECT pg_logical_emit_message(false, '', '');" "SELECT pg_switch_wal();"; done |
		psql -X -q -o /dev/null -v ON_ERROR_STOP=1
	sql CHECKPOINT
}

# Restarts it with these settings ("name = value"), and no others but those of paper.conf.
restart_with()
{
	local setting
	sql "ALTER SYSTEM RESET ALL"
	for setting in "$@"; do sql "ALTER SYSTEM SET $setting"; done
	as_server env -C "$SERVER" "$PG_BIN/pg_ctl" -D "$SERVER/data" -w -l "$SERVER/server.log" restart >/dev/null
}

# Memory that holds $1 windows of the workload twice over. A transaction may take a quarter, and what is past is moved out
# when three quarters are used.
memory_for() { local mb; mb=$(($(window_mb "$1") * 2)); echo "aion.memory = '$((mb > 128 ? mb : 128))MB'"; }
# As aion is meant to run: the current window, one more that is read again, and room.
standard_memory() { memory_for 3; }

# Does this build have all of these parameters? If not, REASON says so.
has_settings()
{
	local name
	for name in "$@"; do
		[ "$(sql "SELECT count(*) FROM pg_settings WHERE name = '$name'")" = 1 ] && continue
		REASON="not available: $name"
		return 1
	done
}

# Can this build keep everything in memory that is large enough? Then KEEP_EVERYTHING is the setting for that: "none", or
# "global", which moves nothing out while there is room. If not, REASON says so.
keep_everything()
{
	local policy
	has_settings aion.destage_policy || return
	policy=$(sql "SELECT u.value FROM pg_settings, unnest('{none, global}'::text[]) WITH ORDINALITY u(value, n)
		WHERE name = 'aion.destage_policy' AND u.value = ANY (enumvals) ORDER BY n LIMIT 1")
	KEEP_EVERYTHING="aion.destage_policy = '$policy'" REASON="not available: a destage policy that keeps everything"
	[ -n "$policy" ]
}

# The median of a file of figures, one a line; of an even number the lower one.
middle() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# Draws the plot of the experiment by gnuplot's commands on standard input.
plot()
{
	{
		echo "set terminal svg size 900,540 font 'sans,13' background '#ffffff'"
		echo "set output '$OUTPUT/paper-$EXPERIMENT.svg'; set grid; set key outside bottom center horizontal"
		cat
	} | gnuplot
}

machine()
{
	. /etc/os-release
	printf '%d cores, %d GB, %s %s%s, PostgreSQL %s, scale %s\n' "$(nproc)" \
		"$(awk '/^MemTotal/ { print int($2 / 1024 / 1024 / 2 + 0.999) * 2 }' /proc/meminfo)" "${NAME%% *}" "${VERSION_ID:-}" \
		"$(grep -q '^flags.*hypervisor' /proc/cpuinfo && echo ' VM')" \
		"$("$PG_CONFIG" --version | sed 's/PostgreSQL \([0-9]*\).*/\1/')" "$SCALE"
}

# ---- the run --------------------------------------------------------------------------------------------------------

scripts/setup.sh gnuplot || exit
make_work_dir paper
build_private_server
GENERATE=$WORK/generate
as_server cc -O2 -std=gnu99 -o "$GENERATE" "$WORK/tree/test/bench/paper/generate.c" "$WORK/tree/test/bench/paper/events.c" -lm

# The cache is the system's, so dropping it takes root, and a container may not be allowed to.
DROP_CACHES=
if [ "$(id -u)" -eq 0 ] && sync && echo 3 2>/dev/null >/proc/sys/vm/drop_caches; then
	DROP_CACHES="sync; echo 3 > /proc/sys/vm/drop_caches"
fi

mkdir -p "$OUTPUT"
TITLE=$(machine)
status=0 RUN=$WORK
for file in "$HERE"/experiments/*.sh; do
	EXPERIMENT=$(basename "$file" .sh) RESULTS=$RUN/results.tsv NOTES=$RUN/notes OTHER_SIDE=other
	[ $# -eq 0 ] || [[ " $* " == *" $EXPERIMENT "* ]] || continue
	: >"$RESULTS"
	: >"$NOTES"
	begin=$SECONDS others=$(cpu_used)
	say "== $EXPERIMENT"
	# Not as a condition: there, the shell would go on after an error inside.
	set +e
	(own_cleanup; set -e; . "$file"; echo "$OTHER_SIDE" >"$RUN/other-side")
	failed=$?
	set -e
	if [ $failed -ne 0 ]; then
		say "   failed"
		status=1
		continue
	fi
	{
		echo "$EXPERIMENT, on $TITLE"
		echo
		perl scripts/bench_table.pl "$RESULTS" "$(cat "$RUN/other-side")"
		[ ! -s "$NOTES" ] || { echo; cat "$NOTES"; }
		echo
		echo "took $((SECONDS - begin)) s; other processes' share of the CPU before: $others %"
	} >"$OUTPUT/paper-$EXPERIMENT.txt"
	cat "$OUTPUT/paper-$EXPERIMENT.txt"
	echo
done
exit $status
