# What the benchmarks share; to be sourced by bash after lib.sh.

export PGOPTIONS="-c client_min_messages=warning"
sql() { psql -X -A -t -q -v ON_ERROR_STOP=1 "${@:2}" -c "$1"; }

# A measured pair, to the file $RESULTS:
#   what it is | aion's value | the other side's value, or '-' | unit | limit, as '<= 0.9' or '>= 0.95', or '-' | why not
# The limit is one of the ratio, or, without another side, of aion's value itself. What can't be judged has the reason as
# the sixth, and '-' for a value that is not known.
result()
{
	(IFS=$'\t'; echo "$*") >>"$RESULTS"
	say "   $1: $2 $4$([ "$3" = - ] || echo ", against $3")${6:+ ($6)}"
}

# A line to stand below the table.
note() { echo "$*" >>"$NOTES"; }

# Percent of the machine's CPU that is used within a second: what others use, if the servers here are idle.
cpu_used()
{
	{ head -n 1 /proc/stat; sleep 1; head -n 1 /proc/stat; } 2>/dev/null |
		awk '{ idle = $5 + $6; all = 0; for (i = 2; i <= 9; i++) all += $i }
			NR == 2 { printf "%.0f\n", 100 - 100 * (idle - idle_before) / (all - all_before) } { idle_before = idle; all_before = all }'
}

# Builds the project for production in a copy of it below $WORK, and installs it in a private copy of the server.
build_private_server()
{
	find_server || die "no PostgreSQL server of 15 to 18 with its development files was found"
	as_server mkdir "$WORK/tree"
	copy_project "$WORK/tree"
	make_private_server "$WORK/installation"
	local target
	for target in all install; do
		as_server make -s -C "$WORK/tree" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" $target
	done
}
