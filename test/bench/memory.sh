# 10 million events over 1,000 windows stream in, in transactions of 100,000, with aion.memory = 64MB and with enough of it:
# what the shared memory holds at most, and what it costs to have less. First as such data comes, each window soon past;
# then with a watermark that stands still, so that no bucket is past and the memory must fill.

LOADS=${LOADS:-3}

# Seconds that the load takes on the current server, into a stream with the option $1; what memory holds at most goes to
# the file $2, in MB.
stream_in()
{
	new_stream memory_stream "$1"
	new_view memory_view memory_stream "1 hour"
	sql "CHECKPOINT"
	while sql "SELECT round(sum(memory_bytes) / 1024 / 1024, 1) FROM aion.buckets" && sleep 0.2; do :; done >"$2" &
	local watcher=$!
	seconds "SELECT" -f "$WORK/load.sql"
	kill $watcher
	wait $watcher 2>/dev/null || true
	settle memory_stream
	[ "$(sql "SELECT events FROM aion.streams WHERE stream = 'memory_stream'::regclass")" = $MANY ] || die "events were lost"
	sql "DROP FOREIGN TABLE memory_stream CASCADE"
}

highest() { sort -n "$1" | tail -n 1; }

compare_memory()
{
	local how=$1 option=$2 slow fast
	export PGHOST=$little
	slow=$(stream_in "$option" "$WORK/held")
	result "memory for 10 million events, $how, aion.memory = 64MB" "$(highest "$WORK/held")" - MB "<= 64"
	export PGHOST=$enough
	fast=$(stream_in "$option" "$WORK/held-enough")
	result "ingestion of 10 million events, $how, 64MB against 1GB" "$(rate "$slow")" "$(rate "$fast")" kevents/s ">= 0.70"
	note "memory for 10 million events, $how, aion.memory = 1GB: $(highest "$WORK/held-enough") MB"
}

prepare_many
as_server mkdir "$WORK/events"
sql "COPY many TO PROGRAM 'split -l 100000 - $WORK/events/' (FORMAT csv)"
sql "DROP TABLE many"
load=$(for file in "$WORK/events"/*; do echo "COPY memory_stream FROM '$file' (FORMAT csv);"; done)

enough=$PGHOST
own_server memory "aion.memory = '64MB'"
little=$PGHOST
echo "$load" >"$WORK/load.sql"
for _ in $(seq "$LOADS"); do
	compare_memory "windows soon past" "watermark_delay '30 minutes'"
	compare_memory "no window past" "watermark 'manual'"
done
