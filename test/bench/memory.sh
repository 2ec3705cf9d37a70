# 10 million events over 1,000 windows stream in, in transactions of 100,000, with aion.memory = 64MB and with enough of it:
# what the shared memory holds at most, and what it costs to have less.

LOADS=${LOADS:-3}

# Seconds that the load takes on the current server; what memory holds at most goes to the file $1, in MB.
stream_in()
{
	new_stream memory_stream
	new_view memory_view memory_stream "1 hour"
	sql "CHECKPOINT"
	while sql "SELECT sum(memory_bytes) / 1024 / 1024.0 FROM aion.buckets" && sleep 0.2; do :; done >"$1" &
	local watcher=$!
	seconds "SELECT" -f "$WORK/load.sql"
	kill $watcher
	wait $watcher 2>/dev/null || true
	settle memory_stream
	[ "$(sql "SELECT events FROM aion.streams WHERE stream = 'memory_stream'::regclass")" = $MANY ] || die "events were lost"
	sql "DROP FOREIGN TABLE memory_stream CASCADE"
}

highest() { sort -n "$1" | tail -n 1; }

prepare_many
EVENTS=$WORK/events
as_server mkdir "$EVENTS"
sql "COPY many TO PROGRAM 'split -l 100000 - $EVENTS/' (FORMAT csv)"

enough=$PGHOST
own_server memory "aion.memory = '64MB'"
for file in "$EVENTS"/*; do echo "COPY memory_stream FROM '$file' (FORMAT csv);"; done >"$WORK/load.sql"
little=$PGHOST
for _ in $(seq "$LOADS"); do
	export PGHOST=$little
	slow=$(stream_in "$WORK/held")
	result "shared memory for 10 million events, aion.memory = 64MB" "$(highest "$WORK/held")" - MB "<= 64"
	export PGHOST=$enough
	fast=$(stream_in "$WORK/held-enough")
	result "ingestion with 64MB against 1GB" "$(rate "$slow")" "$(rate "$fast")" kevents/s ">= 0.70"
	note "with 1GB, memory held $(highest "$WORK/held-enough") MB at most"
done
