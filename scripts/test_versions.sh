#!/bin/bash
# Runs every test on other major versions of PostgreSQL, each in a chroot with Debian's server of that version, and ends
# with one line, "N passed, N failed", over all of them; the exit code tells the same.
#
#   scripts/test_versions.sh [SUITE]...    suites as test/run.sh takes them, all of them by default
#   VERSIONS="17 18"                       which majors: 15, 17 and 18 can be had
#   ROOTS=folder                           where chroots are kept for the next time (pg17, ...), made if they are not there
#   TESTS="name ..." KEEP=1                as for test/run.sh; KEEP leaves the chroots, too
#
# The test of pg_upgrade there begins with a server of 15, if this machine has one that the extension can be built for.
#
# Without ROOTS, chroots go when the script ends; making one takes a minute and 0.7 GB. What runs in a chroot has process
# ids, mounts, /tmp and shared memory of its own, so nothing of it outlives the script. Needs root, and mmdebstrap, which
# it installs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

VERSIONS=${VERSIONS:-17 18}
PASSED=0 FAILED=0
INSIDE=				# the unshare whose child is the first process in the chroot

# The suite of Debian that has this major; no suite has 16.
debian_suite()
{
	case $1 in
		15) echo bookworm ;;
		17) echo trixie ;;
		18) echo forky ;;
		*) return 1 ;;
	esac
}

get_mmdebstrap()
{
	! command -v mmdebstrap >/dev/null || return 0
	command -v apt-get >/dev/null || die "mmdebstrap is missing here, and there is no apt to install it"
	say "Installing by apt: mmdebstrap"
	apt-get update -qq || say "apt-get update failed, going on with the package lists that are here"
	env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends mmdebstrap >"$WORK/apt.log" 2>&1 ||
		{ tail -n 20 "$WORK/apt.log" >&2; die "mmdebstrap could not be installed"; }
}

# Makes a chroot with the server $1 in the new folder $2. The server's development package depends on a whole LLVM, which
# only bitcode for JIT needs, so it is unpacked without its dependencies. Lists of suites that are not released yet can be
# past their date.
make_root()
{
	local suite
	suite=$(debian_suite "$1")
	get_mmdebstrap
	say "Making a chroot with PostgreSQL $1 of Debian's $suite ..."
	rm -rf "$2.new"
	mmdebstrap --mode=root --variant=minbase \
		--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--essential-hook='mkdir -p "$1/etc/postgresql-common" && echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"' \
		--include="postgresql-$1,libpq-dev,gcc,libc6-dev,make,liblz4-dev,libipc-run-perl,xz-utils" \
		--customize-hook='chroot "$1" sh -ec "cd /tmp && apt-get download -q postgresql-server-dev-'"$1"' &&
			dpkg-deb -x postgresql-server-dev-*.deb / && rm postgresql-server-dev-*.deb && chmod 1777 /dev/shm"' \
		"$suite" "$2.new" >"$WORK/mmdebstrap.log" 2>&1 || {
			grep -E '^(E|W):|rror' "$WORK/mmdebstrap.log" | tail -n 20 >&2
			rm -rf "$2.new"
			die "no chroot with PostgreSQL $1 could be made; perhaps Debian's $suite has another major by now"
		}
	mv "$2.new" "$2"
}

# Puts a server of 15 with the extension into the folder $2/old15, for the chroot $1 that sees $2 as its /tmp. Programs find
# their other files from where they are themselves; libraries that the chroot lacks are put where tests look for them.
make_old_server()
{
	local config=/usr/lib/postgresql/15/bin/pg_config old=$2/old15 dir library
	is_complete_server "$config" || { say "no server of 15 here, so pg_upgrade is tested within one version"; return 0; }
	# a minor release of ours can be younger than the chroot's, which then does not know what pg_upgrade has to carry over
	if grep -q pg_attver "$(dirname "$config")/postgres" && ! grep -q pg_attver "$1"/usr/lib/postgresql/*/bin/postgres; then
		say "15 is younger than the server of the chroot, so pg_upgrade is tested within one version"
		return 0
	fi
	mkdir -p "$old/build"
	for dir in "$("$config" --bindir)" "$("$config" --pkglibdir)" "$("$config" --sharedir)"; do
		mkdir -p "$old$dir"
		cp -rL "$dir/." "$old$dir/"
	done
	find "$old" \( -name 'aion.*' -o -name 'aion--*' \) -exec rm -f {} +
	copy_project "$old/build"
	make -s -C "$old/build" -j"$(nproc)" TEST=1 PG_CONFIG="$config" DESTDIR="$old" install >"$WORK/old15.log" 2>&1 ||
		{ tail -n 20 "$WORK/old15.log" >&2; die "the extension could not be built for 15"; }
	ldd "$old$("$config" --bindir)"/{postgres,psql,pg_ctl} | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r library; do
		[ -n "$(find "$1/lib/" "$1/usr/lib" -name "$(basename "$library")" -print -quit)" ] || cp -L "$library" "$old$("$config" --pkglibdir)/"
	done
	chmod -R a+rX "$old"
	OLD_SERVER=/tmp/old15$(dirname "$("$config" --bindir)")
}

# Runs test/run.sh on a copy of the project in the chroot $1; its closing line goes to $WORK/closing. The chroot sees the
# folder $2 as its /tmp, so that nothing is left in it. The tests are waited for in the background, since a signal must not
# wait for them.
run_tests()
{
	mkdir "$2" "$2/aion"
	chmod 1777 "$2"
	copy_project "$2/aion"
	OLD_SERVER=
	case " ${*:3} " in *" tap "* | "  ") make_old_server "$1" "$2" ;; esac
	unshare --mount --propagation private --pid --fork --kill-child --ipc sh -ec '
		root=$1 tmp=$2
		shift 2
		mount -t proc proc "$root/proc"
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
		mount --bind "$tmp" "$root/tmp"
		exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh \
		"$1" "$2" TESTS="${TESTS:-}" KEEP="${KEEP:-}" SOAK_MINUTES="${SOAK_MINUTES:-}" AION_OLD_SERVER="$OLD_SERVER" /tmp/aion/test/run.sh "${@:3}" >"$WORK/closing" &
	INSIDE=$!
	wait "$INSIDE" || true
	INSIDE=
}

# With the first process of a process namespace, all others in it go, and then unshare.
stop_inside()
{
	[ -n "$INSIDE" ] || return 0
	kill -KILL $(cat "/proc/$INSIDE/task/$INSIDE/children" 2>/dev/null) 2>/dev/null || true
	wait "$INSIDE" || true
}

test_version()
{
	local major=$1 root=${ROOTS:-$WORK}/pg$1 passed failed
	shift
	[ -x "$root/usr/lib/postgresql/$major/bin/postgres" ] || make_root "$major" "$root"
	run_tests "$root" "$WORK/tmp$major" "$@"
	passed=0 failed=1			# of a run that has no closing line
	if [[ "$(tail -n 1 "$WORK/closing")" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
		passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
	fi
	summary+=("PostgreSQL $major: $passed passed, $failed failed")
	PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed))
}

# Copies are root's: the chroots' own server user makes copies of them, and the host need not have one.
as_server() { "$@"; }

trap 'stop_inside; clean_up' EXIT

for major in $VERSIONS; do
	debian_suite "$major" >/dev/null || die "no suite of Debian has PostgreSQL $major; VERSIONS can be made of 15, 17 and 18"
done
[ "$(id -u)" -eq 0 ] || die "chroots need root: sudo make test-versions"
unshare --mount --pid --ipc --fork true 2>/dev/null || die "namespaces of its own are not allowed to root here, as in a container without privileges"

WORK=$(mktemp -d /tmp/aion-versions.XXXXXX)
WORK_DIRS+=("$WORK")
chmod 755 "$WORK"
[ -z "${ROOTS:-}" ] || { mkdir -p "$ROOTS"; ROOTS=$(readlink -f "$ROOTS"); }

summary=()
for major in $VERSIONS; do
	test_version "$major" "$@"
done
say "== all versions"
printf '   %s\n' "${summary[@]}" >&2
say "   total: $SECONDS s"
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" -eq 0 ] && [ "$PASSED" -gt 0 ]
