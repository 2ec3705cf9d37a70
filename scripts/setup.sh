#!/bin/bash
# Installs, by apt, what building, testing and the demo need and this machine has not: a PostgreSQL server (the first of
# 15 to 18 that is installed, else the first that apt has; PG_MAJOR=N picks one), its headers, a compiler, liblz4,
# the Perl module that PostgreSQL's own test tools use, and xz. What is there already is left alone, nothing is upgraded.
#
#   scripts/setup.sh [gnuplot]    gnuplot as well, for benchmarks that draw
#
# No cluster is created or started: Debian's package would make one at its installation, which is switched off meanwhile.
# Ends with an error that names what is missing where it can't install: no apt, or neither root nor sudo.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

MAJORS="15 16 17 18"
EXTRA=${1:-}

has() { command -v "$1" >/dev/null 2>&1; }

# Is a server of this major here, with or without its headers?
installed_major()
{
	local major
	for major in ${PG_MAJOR:-$MAJORS}; do
		[ -x "/usr/lib/postgresql/$major/bin/postgres" ] && { echo "$major"; return; }
	done
	return 1
}

# The first major that apt could install, from the lists it has now.
available_major()
{
	local major
	for major in ${PG_MAJOR:-$MAJORS}; do
		[ -n "$(apt-cache madison "postgresql-server-dev-$major" 2>/dev/null)" ] && { echo "$major"; return; }
	done
	return 1
}

# Fills `packages` with what is missing. The compiler is tried, not looked up: without libc's headers it is of no use.
find_missing()
{
	packages=()
	if ! find_server; then
		local major
		major=$(installed_major || available_major || echo "${PG_MAJOR:-15}")
		packages+=("postgresql-$major" "postgresql-client-$major" "postgresql-server-dev-$major")
	fi
	has make || packages+=(make)
	echo '#include <stdio.h>' | cc -E -x c - >/dev/null 2>&1 || packages+=(gcc libc6-dev)
	echo '#include <lz4.h>' | cc -E -x c - >/dev/null 2>&1 || packages+=(liblz4-dev)
	perl -MIPC::Run -MTest::More -e 1 >/dev/null 2>&1 || packages+=(perl libipc-run-perl)
	has xz || packages+=(xz-utils)
	[ "$EXTRA" != gnuplot ] || has gnuplot || packages+=(gnuplot-nox)
	[ "$(id -u)" -ne 0 ] || has runuser || packages+=(util-linux)
}

find_missing
[ ${#packages[@]} -eq 0 ] && exit 0

has apt-get || die "missing here, and there is no apt to install it: ${packages[*]}"
can_be_root || die "missing here: ${packages[*]}
  Installing needs root or sudo. As root: apt-get install ${packages[*]}"

say "Installing by apt: ${packages[*]}"
as_root apt-get update -qq || say "apt-get update failed, going on with the package lists that are here"
find_missing		# which server apt has is known only now

NO_CLUSTER=/etc/postgresql-common/createcluster.d/aion-setup.conf
as_root mkdir -p "$(dirname $NO_CLUSTER)"
echo 'create_main_cluster = false' | as_root tee $NO_CLUSTER >/dev/null
trap 'as_root rm -f $NO_CLUSTER; clean_up' EXIT

LOG=$(mktemp)
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >"$LOG" 2>&1 ||
	{ tail -n 20 "$LOG" >&2; die "apt-get install failed (all of its output: $LOG)"; }
rm -f "$LOG"

find_missing
[ ${#packages[@]} -eq 0 ] || die "still missing after the installation: ${packages[*]}"
