# Late executions of "average" when the system's cache is cold, as they are and with a part of aion switched off; and what
# that part does for ingestion and memory. Runs of all variants take turns.

PAST_WINDOWS=5
OTHER_SIDE="compared with"

# The variants: what they are called; and, on the current server, whether this build has them. If so, SETTING says what to
# set, if not, REASON says what is missing.
VARIANTS=("as it is" "warm cache" "all kept in memory" "prestage off" "no serializers" "each reads its own")
available()
{
	case $1 in
		"all kept in memory") keep_everything && SETTING=$KEEP_EVERYTHING ;;
		"prestage off") has_settings aion.prestage && SETTING="aion.prestage = off" ;;
		"no serializers") has_settings aion.serializers && SETTING="aion.serializers = 0" ;;
		# each execution reads its own blocks
		"each reads its own") has_settings aion.staging && SETTING="aion.prestage = off;aion.staging = off" ;;
		*) SETTING= ;;
	esac
}

figures() { echo "$SERVER/${1// /_}.$2"; }

run_variant()
{
	local memory COLD=1
	memory=$(standard_memory)
	[ "$1" != "all kept in memory" ] || memory=$(memory_for $((PAST_WINDOWS + 2)))
	local settings
	IFS=";" read -ra settings <<<"$SETTING"
	restart_with "$memory" ${settings[@]+"${settings[@]}"}
	if [ "$1" = "warm cache" ] || [ -z "$DROP_CACHES" ]; then COLD=; fi
	SAMPLE=1 run_workload $PAST_WINDOWS $((PAST_WINDOWS + 1 + WINDOWS))
	processing_ms final $PAST_WINDOWS >>"$(figures "$1" final)"
	ingestion >>"$(figures "$1" ingestion)"
	of_samples "max(memory_bytes)" >>"$(figures "$1" memory)"
	say "   $1: $(tail -qn 1 "$(figures "$1" final)") ms"
}

own_server ablation
[ -n "$DROP_CACHES" ] || note "The cache could not be dropped, which takes root: all executions have it warm."
use_workload average
for pair in $(seq "$PAIRS"); do
	for ((i = 0; i < ${#VARIANTS[@]}; i++)); do
		# another one is the first each time, see 3_overhead
		variant=${VARIANTS[(i + pair) % ${#VARIANTS[@]}]}
		if available "$variant"; then run_variant "$variant"; fi
	done
done

# Each variant's figures $1, as what is named $2, against those of "as it is".
compare()
{
	local variant
	for variant in "${VARIANTS[@]:1}"; do
		if available "$variant"; then
			while read -r a b; do result "$2, $variant, against as it is" "$a" "$b" "$3" -; done \
				< <(paste -d ' ' "$(figures "$variant" "$1")" "$(figures "as it is" "$1")")
		else
			result "$2, $variant, against as it is" - - "$3" - "$REASON"
		fi
	done
}
if has_settings aion.prestage && keep_everything; then
	while read -r a b; do result "late execution, as it is, against all kept" "$a" "$b" ms "<= 1.20"; done \
		< <(paste -d ' ' "$(figures "as it is" final)" "$(figures "all kept in memory" final)")
else
	result "late execution, as it is, against all kept" "$(middle "$(figures "as it is" final)")" - ms "<= 1.20" "$REASON"
fi
compare final "late execution" ms
compare ingestion "ingestion" kevents/s
compare memory "m-buckets, most" MB

for variant in "${VARIANTS[@]}"; do
	[ ! -s "$(figures "$variant" final)" ] || echo "\"$variant\" $(middle "$(figures "$variant" final)")"
done >"$SERVER/variants.dat"
plot <<-PLOT
	set title 'A late execution of 20 s, scale $SCALE, cold cache, $TITLE'
	set ylabel 'ms'; set yrange [0:*]; set style fill solid 0.6; set boxwidth 0.6; unset key
	plot '$SERVER/variants.dat' using 0:2:xtic(1) with boxes, '' using 0:2:2 with labels offset 0,0.7
PLOT
