#!/bin/bash
# Runs every test and ends with one line, "N passed, N failed"; the exit code tells the same.
#
#   test/run.sh [SUITE]...        build layers unit regress isolation tap readme, all of them by default; and soak
#   TESTS="name ..." KEEP=1       only these tests of the regress, isolation and TAP suites; keep the work folder
#
# Everything happens in one private folder: a copy of the project, built with assertions and fault points, and a copy of
# the server's installation that it is installed in. So neither the installed extension nor any cluster is touched, and
# two runs do not disturb each other. All of it is done by the server's user, because servers refuse to run as root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ $# -gt 0 ] || set -- build layers unit regress isolation tap readme

export SOAK_MINUTES=${SOAK_MINUTES:-10}
PASSED=0 FAILED=0 FAILURES=
START=$SECONDS

# Runs a command as the server's user for at most so many seconds; what a hanging test has started goes with it.
limited() { as_server env HOME="$WORK" timeout --kill-after=10 "$@"; }

build()
{
	limited 900 make -s -C "$1" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" "${@:2}"
}

# Reads a suite's output, TAP or that of pg_regress before 16, into counts. Skipped tests do not count, and neither do
# those that are expected to fail.
count()
{
	perl -ne '
		if (/^not ok \d/) { $failed++ unless /# TODO/i }
		elsif (/^ok \d/) { $passed++ unless /# SKIP/i }
		elsif (/^(?:test|\s+) ?\S+\s+\.\.\. (ok|FAILED)\b/) { $1 eq "ok" ? $passed++ : $failed++ }
		END { print $passed // 0, " ", $failed // 0, "\n" }' "$1"
}

# Runs one suite (a function below). One that ends badly without a failed test, as by its time limit, or that runs no
# test at all, has failed itself.
run_suite()
{
	local name=$1 log=$WORK/logs/$1.log begin=$SECONDS status=0 passed failed
	say "== $name"
	(own_cleanup; "suite_$name") >"$log" 2>&1 </dev/null || status=$?
	if [ $status -eq 0 ] && grep -q '^nothing to run$' "$log"; then
		say "   no tests"
		return
	fi
	read -r passed failed < <(count "$log")
	if [ $failed -eq 0 ] && { [ $status -ne 0 ] || [ $passed -eq 0 ]; }; then
		failed=1
		case $status in 124 | 137) say "   time limit exceeded" ;; *) say "   ended with exit code $status" ;; esac
	fi
	if [ $failed -ne 0 ]; then
		show_failure "$name" "$log" || true
		FAILURES+=$(list_failures "$name" "$log" || true)$'\n'
	fi
	say "   $passed ok, $failed not ok, $((SECONDS - begin)) s"
	PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed))
}

# Names the failed tests of a suite and what each got, for the end of the output: all that is kept of it somewhere may be
# its end.
list_failures()
{
	perl -ne '
		BEGIN { $suite = shift }
		$file = $1 if /^(\S+\.pl) \.+ *$/;
		if (/^(?:test|\s+) ?\S+\s+\.\.\. FAILED/ || (/^not ok \d/ && !/# TODO/i)) { $failed = 1; $shown = 0 }
		elsif (!/^\s*#/) { $failed = 0 }
		print "   $suite: ", $file ? "$file: " : "", $_ if $failed && $shown++ < 12 && $lines++ < 60;
		print "   $suite: $_" if /^  (?:Parse errors|Non-zero exit)/' "$1" "$2"
}

# What one wants to read first: differences, the end of failed TAP logs, signs of a crash in server logs.
show_failure()
{
	local out=$WORK/results/$1 file
	case $1 in
		regress | isolation)
			grep -vE '\.\.\. ok|^ok ' "$2" | tail -n 40
			[ ! -f "$out/regression.diffs" ] || head -n 400 "$out/regression.diffs" ;;
		tap | soak)
			grep -vE '^\s*(ok|#)' "$2" | tail -n 60
			grep -lE 'not ok|Looks like you' "$out"/tmp_check/log/regress_log_* 2>/dev/null | while read -r file; do
				say "-- end of $(basename "$file")"
				tail -n 60 "$file"
			done ;;
		*) tail -n 100 "$2" ;;
	esac >&2
	find "$out" "$WORK/readme" -name '*.log' -exec grep -HE 'TRAP:|PANIC:|terminated by signal ([1-8]|1[0-9]):' {} + 2>/dev/null | tail -n 20 >&2 || true
}

# ---- the suites, each writing what `count` reads ---------------------------------------------------------------------

# The production build, from an exported tree: no warning, complete, and without fault points.
suite_build()
{
	local tree=$WORK/production root=$WORK/production-root library
	as_server mkdir -p "$tree"
	copy_project "$tree"
	if build "$tree" && build "$tree" install DESTDIR="$root"; then echo "ok 1 - builds and installs"; else echo "not ok 1 - builds and installs"; fi
	library=$(find "$root" -name aion.so)
	if [ -n "$library" ] && ! grep -q 'aion_fault' "$library"; then echo "ok 2 - no fault points"; else echo "not ok 2 - no fault points"; fi
	if [ -n "$(find "$root" -name 'aion--*.sql' -size +0)" ]; then echo "ok 3 - script installed"; else echo "not ok 3 - script installed"; fi
}

suite_layers() { limited 60 perl "$TREE/scripts/check_layers.pl" "$TREE"; }

suite_unit()
{
	[ -f "$TREE/test/unit/Makefile" ] || { echo "nothing to run"; return; }
	limited 300 make -s -C "$TREE/test/unit" PG_CONFIG="$PG_CONFIG" check || return
	[ "$(count "$WORK/logs/unit.log")" != "0 0" ] || echo "ok 1 - unit tests"
}

# Prints the names of the tests in the folder $1 of the tree, with suffix $2: those that TESTS names, else all, `setup` first.
test_names()
{
	local file name names=
	for file in "$TREE/$1"/*."$2"; do
		name=$(basename "$file" ".$2")
		case $name in '*' | aion--*) continue ;; esac
		if [ -n "${TESTS:-}" ] && [[ " $TESTS " != *" $name "* ]]; then continue; fi
		if [ "$name" = setup ]; then names="setup $names"; else names+="$name "; fi
	done
	echo $names
}

# pg_regress gives up at a test without expected output; with an empty one it goes on, and shows what the test printed.
add_missing_expected()
{
	local name
	for name in "${@:2}"; do
		[ -f "$TREE/$1/$name.out" ] || as_server install -D /dev/null "$TREE/$1/$name.out"
	done
}

# pg_regress sets a time zone and date style of its own for psql; `--launcher` puts the project's in their place, so
# that expected output is the same as in psql.
pg_regress()
{
	local suite=$1 program=$2 limit=$3
	shift 3
	as_server mkdir -p "$WORK/results/$suite"
	limited "$limit" "$PGXS_DIR/test/$program" --bindir="$PG_BIN" --temp-instance="$WORK/results/$suite/instance" \
		--temp-config="$TREE/test/aion.conf" --outputdir="$WORK/results/$suite" --no-locale --encoding=UTF8 \
		--dbname=aion_regress --launcher='env PGTZ=UTC PGDATESTYLE=ISO,MDY' "$@"
}

suite_regress()
{
	local tests load=--load-extension=aion
	tests=$(test_names sql sql)
	[ -n "$tests" ] || { echo "nothing to run"; return; }
	case $tests in setup*) load= ;; esac		# it creates the extension
	add_missing_expected expected $tests
	pg_regress regress regress/pg_regress 900 --inputdir="$TREE" $load $tests
}

suite_isolation()
{
	local tests
	tests=$(test_names test/specs spec)
	[ -n "$tests" ] || { echo "nothing to run"; return; }
	add_missing_expected test/expected $tests
	pg_regress isolation isolation/pg_isolation_regress 900 --inputdir="$TREE/test" --load-extension=aion $tests
}

# TAP tests in a folder below test/, each of which starts servers of its own. The server's modules put logs and data where
# TESTDIR says before 16, and where the other two do from then on.
prove_tests()
{
	local suite=$1 folder=$2 limit=$3 out=$WORK/results/$1 tests
	tests=$(printf "$folder/%s.pl " $(test_names "test/$folder" pl))
	[ "$tests" != "$folder/.pl " ] || { echo "nothing to run"; return; }
	as_server mkdir -p "$out"
	cd "$TREE/test"
	limited "$limit" env PATH="$PG_BIN:$PATH" PG_CONFIG="$PG_CONFIG" PG_REGRESS="$PGXS_DIR/test/regress/pg_regress" PGPORT=65432 \
		TESTDIR="$out" TESTDATADIR="$out/tmp_check" TESTLOGDIR="$out/tmp_check/log" \
		prove --verbose -I "$PGXS_DIR/test/perl" -I t ${PROVE_FLAGS:-} $tests
}

suite_tap() { prove_tests tap t 3600; }
suite_soak() { prove_tests soak soak $((SOAK_MINUTES * 120 + 3600)); }

suite_readme()
{
	[ -f README.md ] || { echo "nothing to run"; return; }
	as_server mkdir -p "$WORK/readme"
	start_server "$WORK/readme" "$TREE/test/aion.conf"
	cd "$TREE"
	limited 300 perl scripts/readme_test.pl README.md
}

# ---- the run --------------------------------------------------------------------------------------------------------

finish()
{
	[ -z "$FAILURES" ] || say "== failed"$'\n'"${FAILURES%$'\n'}"
	say "   total: $((SECONDS - START)) s"
	echo "$PASSED passed, $FAILED failed"
	[ "$FAILED" -eq 0 ] && [ "$PASSED" -gt 0 ]
	exit
}

fail_early() { say "error: $*"; FAILED=1; finish; }

scripts/setup.sh || fail_early "the set-up failed"
find_server || fail_early "no PostgreSQL server of 15 to 18 with its development files"
say "$("$PG_CONFIG" --version), user $(as_server id -un)"

make_work_dir test
TREE=$WORK/tree
as_server mkdir "$TREE" "$WORK/logs" "$WORK/results"
copy_project "$TREE"
make_private_server "$WORK/server"
PGXS_DIR=$(dirname "$("$PG_CONFIG" --pgxs)")/..
build "$TREE" TEST=1 >"$WORK/logs/make.log" 2>&1 && build "$TREE" TEST=1 install >>"$WORK/logs/make.log" 2>&1 ||
	{ tail -n 60 "$WORK/logs/make.log" >&2; fail_early "the test build failed"; }

for suite in "$@"; do
	run_suite "$suite"
done
finish
