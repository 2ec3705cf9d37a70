# Dumps of a small database, restored in all ways that there are: by schema, where the extension is, into itself, by other
# roles, in parts, half-way, into another server. No way loses or doubles anything, and no way needs a further step unless it
# leaves one out (case R26 and its kind).
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('ways', conf => "aion.late_interval = '20ms'\nmax_worker_processes = 32", extension => 0);
my $dir = $node->basedir;

sub sql { my ($db, $sql) = @_; return $node->safe_psql($db, $sql) }

sub run { my ($name, @command) = @_; $node->command_ok(\@command, $name); return }

sub database { my ($db, $sql) = @_; sql('postgres', "CREATE DATABASE $db"); sql($db, $sql) if $sql; return }

database('r26', q{
	CREATE EXTENSION aion;
	CREATE FOREIGN TABLE s (key text, value int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness 'unlimited');
	CREATE TABLE t (key text, value int, at timestamptz NOT NULL);
	SELECT aion.create_view('v', 'SELECT count(*) AS n, sum(value) AS sum FROM s', aion.tumbling('10 min'))});

sub r26_insert
{
	my ($db, $rows) = @_;
	sql($db, "WITH x (k, v, at) AS (VALUES $rows) INSERT INTO $_ SELECT k, v, ('2024-03-01 ' || at)::timestamptz FROM x") for qw(s t);
	sql($db, q{SELECT aion.sync('s', late => true); SELECT aion.refresh('v')});
	return;
}

sub r26_is
{
	my ($db, $expected, $name) = @_;
	is(sql($db, q{SELECT to_char(window_start, 'HH24:MI'), n, sum FROM v ORDER BY 1}), $expected, $name);
	is(sql($db, 'SELECT events FROM aion.streams'), sql($db, 'SELECT count(*) FROM t'), "$name: counter");
	oracle_ok($node, 'v', q{SELECT w, w + interval '10 min', count(*), sum(value) FROM (SELECT *, date_bin('10 min', at, '2000-01-03 00:00+00') AS w FROM t) x GROUP BY w},
		"$name: equals its batch query", $db);
	return;
}

r26_insert('r26', "('a', 10, '08:05'), ('a', 20, '08:06')");
sql('r26', q{SELECT aion.destage('s')});
r26_insert('r26', "('a', 1, '12:00')");
r26_is('r26', "08:00|2|30\n12:00|1|1", 'R26: origin');
my @r26 = ('--dbname', $node->connstr('r26'));
run('R26: plain', 'pg_dump', '-f', "$dir/r26.sql", @r26);
run('R26: custom', 'pg_dump', '-Fc', '-f', "$dir/r26.dump", @r26);

# What each restore must show, and show after the case's further events; those count as late, and for an open window.
sub r26_restored
{
	my ($db, $name) = @_;
	r26_is($db, "08:00|2|30\n12:00|1|1", "R26: $name");
	r26_insert($db, "('a', 5, '08:07'), ('a', 2, '12:01')");
	r26_is($db, "08:00|3|35\n12:00|2|3", "R26: $name, goes on");
	return;
}

my @single = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '--single-transaction');
database('r26_plain');
run('R26: restore plain', @single, '-d', $node->connstr('r26_plain'), '-f', "$dir/r26.sql");
r26_restored('r26_plain', 'plain');
database('r26_custom');
run('R26: restore custom', 'pg_restore', '--single-transaction', '-d', $node->connstr('r26_custom'), "$dir/r26.dump");
r26_restored('r26_custom', 'custom');

# ---- other ways -------------------------------------------------------------------------------------------------------------

# into a database that has the extension already, and a stream of its own
database('existing', q{
	CREATE EXTENSION aion;
	CREATE SCHEMA own;
	CREATE FOREIGN TABLE own.o (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
	INSERT INTO own.o VALUES ('2024-03-01 08:00')});
run('restore where the extension is', @single, '-d', $node->connstr('existing'), '-f', "$dir/r26.sql");
is(sql('existing', 'SELECT count(*) FROM own.o'), 1, 'what was there is there');
sql('existing', 'DROP FOREIGN TABLE own.o');
r26_restored('existing', 'where the extension is');

# by schema; into the database that it comes from, too
my @schemas = map { ('-n', $_) } qw(public aion_data aion_results);
run('dump by schema', 'pg_dump', '-Fc', '-e', 'aion', @schemas, '-f', "$dir/schemas.dump", @r26);
database('schemas', 'DROP SCHEMA public');
run('restore by schema', 'pg_restore', '--exit-on-error', '-d', $node->connstr('schemas'), "$dir/schemas.dump");
r26_restored('schemas', 'by schema');
database('itself');
run('restore into itself: first', @single, '-d', $node->connstr('itself'), '-f', "$dir/r26.sql");
run('restore into itself: dump', 'pg_dump', '-f', "$dir/itself.sql", '-d', $node->connstr('itself'));
sql('itself', 'DROP FOREIGN TABLE s CASCADE; DROP TABLE t');
is(sql('itself', q{SELECT count(*) FROM pg_class WHERE relnamespace IN ('aion_data'::regnamespace, 'aion_results'::regnamespace) AND relkind = 'r'}), 0, 'nothing is left of a restored stream that is dropped');
run('restore into itself', @single, '-d', $node->connstr('itself'), '-f', "$dir/itself.sql");
r26_restored('itself', 'into itself');

# a dump of what was restored, as often as you like
run('dump of a copy', 'pg_dump', '-Fc', '-f', "$dir/again.dump", '-d', $node->connstr('schemas'));
database('again');
run('restore of a copy', 'pg_restore', '--single-transaction', '-d', $node->connstr('again'), "$dir/again.dump");
r26_is('again', "08:00|3|35\n12:00|2|3", 'R26: a copy of a copy');

# by another superuser, without the owners of the dump
sql('postgres', 'CREATE ROLE boss SUPERUSER LOGIN; CREATE ROLE helper SUPERUSER LOGIN');
database('bosses');
run('restore by another superuser', 'pg_restore', '-U', 'helper', '--no-owner', '--role', 'boss', '--exit-on-error', '-d', $node->connstr('bosses'), "$dir/r26.dump");
is(sql('bosses', q{SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace::regnamespace::text ~ 'aion'}), 'boss', 'who owns all of it');
r26_restored('bosses', 'without owners');
database('owned');
run('restore by another superuser, with owners', 'pg_restore', '-U', 'helper', '--exit-on-error', '-d', $node->connstr('owned'), "$dir/r26.dump");
is(sql('owned', q{SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'aion_data'::regnamespace}), 'helper', 'tables of streams belong to the owner of the extension');
r26_restored('owned', 'by another superuser');

# definitions first, data later: the last step is the user's
database('parts');
run('definitions', 'pg_restore', '--section=pre-data', '--exit-on-error', '-d', $node->connstr('parts'), "$dir/r26.dump");
run('data', 'pg_restore', '--section=data', '--exit-on-error', '-d', $node->connstr('parts'), "$dir/r26.dump");

# between any two steps nothing moves, and whatever would spoil the rest is refused
my ($code, $out, $error) = $node->psql('parts', "INSERT INTO s VALUES ('a', 1, '2024-03-01 09:00')");
like($error, qr/stream "s" is being restored.*aion\.restored/s, 'a stream that is not complete takes no events');
for my $statement ("TRUNCATE s", "SELECT aion.sync('s')", "SELECT aion.advance_watermark('s', now())", "SELECT aion.create_view('w', 'SELECT count(*) AS n FROM s', aion.tumbling('1 h'))")
{
	($code, $out, $error) = $node->psql('parts', $statement);
	like($error, qr/stream "s" is being restored/, "nor is there: $statement");
}
is(sql('parts', 'SELECT stream, events FROM aion.streams'), 's|3', 'it is listed');
run('the rest', 'pg_restore', '--section=post-data', '--exit-on-error', '-d', $node->connstr('parts'), "$dir/r26.dump");
r26_restored('parts', 'in parts');

# a restore that fails half-way leaves nothing if it is one transaction, and what can be gone on with if it is not
database('failing', 'CREATE EXTENSION aion; CREATE MATERIALIZED VIEW t AS SELECT 1');
$node->command_fails([ @single, '-d', $node->connstr('failing'), '-f', "$dir/r26.sql" ], 'a restore that fails');
is(sql('failing', 'SELECT count(*) FROM aion.stream_def'), 0, 'it leaves nothing');
sql('failing', 'DROP MATERIALIZED VIEW t');
run('the same again', @single, '-d', $node->connstr('failing'), '-f', "$dir/r26.sql");
r26_restored('failing', 'after one that failed');

# data apart from definitions
run('definitions alone', 'pg_dump', '--schema-only', '-f', "$dir/schema.sql", @r26);
run('data alone', 'pg_dump', '--data-only', '-f', "$dir/data.sql", @r26);
database('apart');
run('restore of definitions', @single, '-d', $node->connstr('apart'), '-f', "$dir/schema.sql");
is(sql('apart', 'SELECT count(*) FROM s'), 0, 'definitions alone are an empty stream');
run('restore of data', @single, '-d', $node->connstr('apart'), '-f', "$dir/data.sql");
($code, $out, $error) = $node->psql('apart', "INSERT INTO s VALUES ('a', 1, '2024-03-01 09:00')");
like($error, qr/being restored/, 'the last step is not in a dump of data alone');
# it is taken over wholly or not at all
for my $action ('error', 'crash')
{
	my $log = -s $node->logfile;
	arm_fault($node, 'stream-adopted', $action);
	($code, $out, $error) = $node->psql('apart', 'REFRESH MATERIALIZED VIEW aion.restored');
	isnt($code, 0, "$action in the last step");
	wait_for_fault($node, 'stream-adopted');
	wait_for_crash($node, $log) if $action eq 'crash';
	($code, $out, $error) = $node->psql('apart', "INSERT INTO s VALUES ('a', 1, '2024-03-01 09:00')");
	like($error, qr/being restored/, "$action in the last step: nothing is taken over");
}
sql('apart', 'REFRESH MATERIALIZED VIEW aion.restored');
r26_restored('apart', 'data apart from definitions');

r26_is('r26', "08:00|2|30\n12:00|1|1", 'R26: the origin is unchanged');

# of all databases
run('all databases', 'pg_dumpall', '--no-role-passwords', '-f', "$dir/cluster.sql", '-d', $node->connstr('postgres'));
my $other = new_node('other', extension => 0, conf => 'max_worker_processes = 32');
$node->command_ok([ 'psql', '-Xq', '-d', $other->connstr('postgres'), '-f', "$dir/cluster.sql" ], 'into another server');
is($other->safe_psql('r26', q{SELECT to_char(window_start, 'HH24:MI'), n, sum FROM v ORDER BY 1}), "08:00|2|30\n12:00|1|1", 'in another server');
$other->safe_psql('r26', "INSERT INTO s VALUES ('a', 5, '2024-03-01 08:07'), ('a', 2, '2024-03-01 12:01')");
$other->safe_psql('r26', q{SELECT aion.sync('s', late => true); SELECT aion.refresh('v')});
is($other->safe_psql('r26', q{SELECT to_char(window_start, 'HH24:MI'), n, sum FROM v ORDER BY 1}), "08:00|3|35\n12:00|2|3", 'in another server it goes on');
$other->stop;
unlike(slurp_file($other->logfile), qr/TRAP:|PANIC:/, 'no assertion failed there');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
