# What the scripts of this project share; to be sourced by bash, after `set -euo pipefail`.
#
# Servers never run as root (initdb refuses) and never on a cluster that exists: each gets folders of its own, answers
# on a Unix socket only, and is stopped when the script ends, however it ends.

PROJECT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The caller's make must not hand its flags and job slots to the builds that a script runs, nor the caller's libpq
# settings lead psql to another server. The C locale keeps messages and sort orders the same everywhere.
for name in MAKEFLAGS MAKELEVEL MFLAGS ${!PG*}; do
	case $name in PG_CONFIG | PG_MAJOR) ;; *) unset "$name" ;; esac
done
export LC_ALL=C

say() { echo "$*" >&2; }
die() { say "error: $*"; exit 1; }

# ---- who does what --------------------------------------------------------------------------------------------------

can_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null; }; }
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# The user of servers and test builds: the caller, or for root the one that the server's package brings along.
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

# ---- which server ---------------------------------------------------------------------------------------------------

# Can extensions be built for the server of this pg_config, and can that server be run?
is_complete_server()
{
	local bin
	bin=$("$1" --bindir 2>/dev/null) &&
		[ -x "$bin/postgres" ] && [ -x "$bin/initdb" ] && [ -x "$bin/psql" ] && [ -x "$bin/pg_config" ] &&
		[ -e "$("$bin/pg_config" --pgxs)" ] && [ -e "$("$bin/pg_config" --includedir-server)/postgres.h" ] &&
		[[ "$("$bin/pg_config" --version)" =~ ^PostgreSQL\ (1[5-8])[^0-9] ]]
}

# Sets PG_CONFIG and PG_BIN: the server that PG_CONFIG or PG_MAJOR names, else the one that plain `make` builds for, else
# the first of Debian's. Fails where there is none.
find_server()
{
	local candidates=(pg_config) candidate
	if [ -n "${PG_CONFIG:-}" ]; then
		candidates=("$PG_CONFIG")
	elif [ -n "${PG_MAJOR:-}" ]; then
		candidates=("/usr/lib/postgresql/$PG_MAJOR/bin/pg_config")
	else
		candidates+=(/usr/lib/postgresql/1[5-8]/bin/pg_config)
	fi
	for candidate in "${candidates[@]}"; do
		if is_complete_server "$candidate"; then
			PG_BIN=$("$candidate" --bindir)
			PG_CONFIG=$PG_BIN/pg_config
			return
		fi
	done
	return 1
}

# ---- private folders ------------------------------------------------------------------------------------------------

WORK_DIRS=() SOCKET_DIRS=() SERVER_DIRS=()

# Makes a folder that the server's user owns; it goes when the script ends, unless KEEP is set. The name stands in WORK.
make_work_dir()
{
	WORK=$(mktemp -d "/tmp/aion-$1.XXXXXX")
	WORK_DIRS+=("$WORK")
	chmod 755 "$WORK"
	[ "$(id -u)" -ne 0 ] || chown postgres: "$WORK"
}

# Copies the project without version control and build products, as the server's user, into the existing folder $1.
copy_project()
{
	tar -C "$PROJECT" --exclude=./.git --exclude=./demo --exclude=./test/unit/build --exclude=./tmp_check --exclude='*.[oad]' --exclude='*.so' \
		--exclude='*.bc' --exclude=.build-flavour --exclude='./sql/aion--?.?.sql' -cf - . | as_server tar -C "$1" -xf - --no-same-owner
}

# Copies the server's installation below the folder $1 and points PG_CONFIG and PG_BIN there. A server finds its files
# relative to its own program, so the copy is a complete server in which an extension can be installed without root and
# without touching what is installed. Only programs are copied, all else is links.
make_private_server()
{
	local real_bin=$PG_BIN dir
	for dir in "$("$PG_CONFIG" --pkglibdir)" "$("$PG_CONFIG" --sharedir)" "$("$PG_CONFIG" --includedir-server)"; do
		as_server mkdir -p "$1$dir"
		as_server cp -rs "$dir/." "$1$dir/"
	done
	as_server mkdir -p "$1$real_bin"
	as_server cp -rL "$real_bin/." "$1$real_bin/"
	PG_BIN=$1$real_bin
	PG_CONFIG=$PG_BIN/pg_config
	find "$1" \( -name 'aion.*' -o -name 'aion--*' \) -exec rm -f {} +
}

# ---- servers --------------------------------------------------------------------------------------------------------

# Makes a cluster in the new folder $1/data, configured by the file $2 and further lines, and starts it; afterwards psql
# reaches it. The socket has a folder of its own, because a socket's path must be short. Programs start in the server's
# folder, because its user may have no access to where the caller is.
start_server()
{
	local dir=$1 config=$2
	shift 2
	local socket_dir
	socket_dir=$(mktemp -d /tmp/aion-socket.XXXXXX)
	SOCKET_DIRS+=("$socket_dir") SERVER_DIRS+=("$dir")
	[ "$(id -u)" -ne 0 ] || chown postgres: "$socket_dir"
	as_server env -C "$dir" "$PG_BIN/initdb" -D "$dir/data" -U postgres -A trust -N --no-locale -E UTF8 >"$dir/initdb.log" 2>&1 ||
		{ cat "$dir/initdb.log" >&2; die "could not make a cluster in $dir"; }
	{ cat "$config"; printf '%s\n' "$@" "listen_addresses = ''" "unix_socket_directories = '$socket_dir'"; } |
		as_server tee -a "$dir/data/postgresql.conf" >/dev/null
	as_server env -C "$dir" "$PG_BIN/pg_ctl" -D "$dir/data" -w -l "$dir/server.log" start >/dev/null ||
		{ tail -n 20 "$dir/server.log" >&2; die "the server did not start"; }
	export PGHOST=$socket_dir PGUSER=postgres PGDATABASE=postgres PATH=$PG_BIN:$PATH
}

# Stops every server whose data folder is below $1, those of an interrupted test included. A postmaster's file may be
# left over, so its process counts only if it works in that very folder.
stop_servers_below()
{
	local file pid
	while read -r file; do
		pid=$(head -n 1 "$file" 2>/dev/null || true)
		[ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$(dirname "$file")" ] || continue
		kill -INT "$pid" 2>/dev/null || continue
		for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || continue 2; sleep 0.1; done
		kill -QUIT "$pid" 2>/dev/null || true
	done < <(find "$(readlink -f "$1")" -name postmaster.pid 2>/dev/null)
}

clean_up()
{
	local dir
	for dir in ${SERVER_DIRS[@]+"${SERVER_DIRS[@]}"} ${WORK_DIRS[@]+"${WORK_DIRS[@]}"}; do
		stop_servers_below "$dir"
	done
	rm -rf ${SOCKET_DIRS[@]+"${SOCKET_DIRS[@]}"}
	for dir in ${WORK_DIRS[@]+"${WORK_DIRS[@]}"}; do
		if [ -n "${KEEP:-}" ]; then say "kept: $dir"; else rm -rf "$dir"; fi
	done
}

# For a subshell: what it starts and makes goes when it ends, what its parent has stays.
own_cleanup()
{
	WORK_DIRS=() SOCKET_DIRS=() SERVER_DIRS=()
	trap clean_up EXIT
}

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
