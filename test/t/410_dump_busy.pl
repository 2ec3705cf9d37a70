# Dumps of a database at work: each is one consistent state, whatever is going on, and nothing waits for a dump.
use strict;
use warnings;

use Aion;
use POSIX ();
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('busy', conf => "aion.late_interval = '20ms'\naion.memory = '8MB'\nmax_worker_processes = 32");
my $dir = $node->basedir;

sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }

sql(q{
	CREATE FOREIGN TABLE s (id bigint, k int, v int, at timestamptz NOT NULL) SERVER aion
		OPTIONS (event_time 'at', watermark_delay '1 min', watermark_interval '10 ms', allowed_lateness 'unlimited', bucket_width '1 min');
	CREATE TABLE b (id bigint, k int, v int, at timestamptz NOT NULL);
	CREATE FOREIGN TABLE e (id bigint, at timestamptz NOT NULL) SERVER aion
		OPTIONS (event_time 'at', watermark_interval '10 ms', allowed_lateness '1 min', bucket_width '1 min');
	CREATE TABLE be (id bigint);
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('5 min'));
	SELECT aion.create_view('slide', 'SELECT count(*) AS n FROM s', aion.sliding('4 min', '2 min'));
	SELECT aion.create_view('ve', 'SELECT count(*) AS n FROM e', aion.tumbling('2 min'))});

# One transaction writes the same to streams and tables: time goes on, with late events, some of which expire in the second stream.
my $serial = 0;
sub next_transaction
{
	my $first = 1 + 200 * $serial++;
	my $last = $first + 199;
	my $time = "timestamptz '2024-03-01 08:00+00' + g * interval '150 ms' - CASE WHEN g % 10 = 0 THEN g % 700 * interval '1 s' ELSE '0' END";
	return qq{
		BEGIN;
		INSERT INTO b SELECT g, g % 7, g % 1000, $time FROM generate_series($first, $last) g;
		INSERT INTO s SELECT g, g % 7, g % 1000, $time FROM generate_series($first, $last) g;
		INSERT INTO be SELECT g FROM generate_series($first, $last) g;
		INSERT INTO e SELECT g, $time FROM generate_series($first, $last) g;
		COMMIT};
}

# The writer is a psql of its own, fed by hand, so that it works while a dump runs.
my $writer = Session->new($node);
my $writes = 0;
sub write_on { $writer->must(next_transaction()); $writes++; return }
write_on() for 1 .. 30;

my $batch_v = q{
	SELECT w, w + interval '5 min', k, count(*), sum(v) FROM (SELECT date_bin('5 min', at, '2000-01-03 00:00+00') AS w, k, v FROM b) x
	 GROUP BY w, k};
my $batch_slide = q{
	SELECT w, w + interval '4 min', count(*) FROM b, generate_series(date_bin('2 min', at, '2000-01-03 00:00+00') - interval '2 min', date_bin('2 min', at, '2000-01-03 00:00+00'), '2 min') w
	 GROUP BY w};

sub check
{
	my ($db, $name) = @_;
	my $count = sql('SELECT count(*) FROM b', $db);
	is(sql('SELECT count(*), count(DISTINCT id) FROM s', $db), "$count|$count", "$name: the stream holds what the table holds");
	is(sql('(SELECT id, k, v, at FROM s EXCEPT ALL TABLE b) UNION ALL (TABLE b EXCEPT ALL SELECT id, k, v, at FROM s)', $db), '', "$name: the same rows");
	is(sql('SELECT count(*) FROM be', $db), $count, "$name: and in the second table");
	sql("SELECT aion.sync('s', late => true); SELECT aion.sync('e', late => true); SELECT aion.refresh('v'); SELECT aion.refresh('slide')", $db);
	is(sql(q{SELECT events FROM aion.streams ORDER BY stream::text}, $db), "$count\n$count", "$name: counters");
	oracle_ok($node, 'v', $batch_v, "$name: view", $db);
	oracle_ok($node, 'slide', $batch_slide, "$name: overlapping windows", $db);
	# in the other stream each event is counted in its window, purged with it, or set aside
	is(sql(q{SELECT expired_events - (SELECT count(*) FROM aion.expired) FROM aion.streams WHERE stream = 'e'::regclass}, $db), 0, "$name: what expired is set aside");
	is(sql(q{SELECT (SELECT sum(n) FROM ve) + (SELECT count(*) FROM aion.expired)}, $db), sql(q{SELECT events FROM aion.streams WHERE stream = 'e'::regclass}, $db),
		"$name: each event is in a result or set aside") if sql(q{SELECT aion.refresh('ve')}, $db) eq '';
	return;
}

# ---- while all goes on ------------------------------------------------------------------------------------------------------

my @formats = ([ 'plain', '-Fp' ], [ 'custom', '-Fc' ], [ 'parallel', '-Fd', '-j', '2' ]);
for my $format (@formats)
{
	my ($name, @options) = @$format;
	my $file = "$dir/$name";
	my $before = $writes;
	my $dump = fork // die "fork: $!";
	if ($dump == 0)
	{
		$ENV{PGHOST} = $node->host;
		$ENV{PGPORT} = $node->port;
		exec('pg_dump', @options, '-f', $file, '-d', 'postgres') or POSIX::_exit(127);
	}
	my $ended = 0;
	until ($ended)
	{
		write_on();
		$writer->must("SELECT aion.destage('s')") if $writes % 5 == 0;
		$ended = waitpid($dump, POSIX::WNOHANG()) == $dump;
	}
	is($?, 0, "$name: dump");
	ok($writes - $before > 1, "$name: inserts went on meanwhile");
	sql("CREATE DATABASE $name");
	$node->command_ok($name eq 'plain' ? [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($name), '-f', $file ] :
		  [ 'pg_restore', '--exit-on-error', '-d', $node->connstr($name), $name eq 'parallel' ? ('-j', 2) : (), $file ], "$name: restore");
	check($name, $name);
}

# ---- nothing waits for a dump -------------------------------------------------------------------------------------------------

# the locks that a dump takes, held for as long as it pleases
my $dump = Session->new($node);
$dump->must('BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY');
my $tables = $dump->must(q{SELECT string_agg(oid::regclass::text, ', ') FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text ~ '^(aion|public)'});
$dump->must("LOCK TABLE $tables IN ACCESS SHARE MODE");
my $seen = $dump->must('SELECT count(*) FROM s');
$writer->must("SET lock_timeout = '5 s'");
for (1 .. 5)
{
	write_on();
	$writer->must("SELECT aion.destage('s')");
	$writer->must("SELECT aion.sync('s', late => true)");
	$writer->must("SELECT aion.sync('e', late => true)");
}
$writer->must(q{SELECT aion.create_view('more', 'SELECT count(*) AS n FROM s', aion.tumbling('10 min'))});
$writer->must("SELECT aion.sync('s', late => true)");
ok($writer->must('SELECT sum(n) > 0 FROM more'), 'a view can be made and is filled meanwhile');
is($dump->must('SELECT count(*) FROM s'), $seen, 'the dump sees what it saw');
is($dump->must('SELECT count(*) FROM b'), $seen, 'as in the table');
$dump->must('COMMIT');
check('postgres', 'origin');

# ---- what is not accounted for yet --------------------------------------------------------------------------------------------

# transactions that the dump has and no pass has seen: what is late, and what expires, is decided where they are accounted for,
# by the watermark that the dump has
sql('CREATE DATABASE pending');
sql(q{
	CREATE EXTENSION aion;
	CREATE FOREIGN TABLE p (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10 min');
	SELECT aion.create_view('pv', 'SELECT count(*) AS n, sum(id) AS ids FROM p', aion.tumbling('1 min'))}, 'pending');
sql($_, 'pending')
  for q{INSERT INTO p VALUES (1, '2024-03-01 08:00'), (2, '2024-03-01 08:11')}, q{SELECT aion.advance_watermark('p', '2024-03-01 08:15')}, q{SELECT aion.sync('p')};
$writer->close;
# other databases have nothing to account for, so it is this one that gets there
arm_fault($node, 'pass-before-commit', 'wait');
sql(q{INSERT INTO p VALUES (3, '2024-03-01 08:02'), (4, '2024-03-01 08:12'), (5, '2024-03-01 08:16')}, 'pending');
wait_for_fault($node, 'pass-before-commit');
sql($_, 'pending') for q{SELECT aion.advance_watermark('p', '2024-03-01 08:30')}, q{INSERT INTO p VALUES (6, '2024-03-01 08:03'), (7, '2024-03-01 08:31')},
  q{BEGIN; INSERT INTO p VALUES (8, '2024-03-01 08:14'); SAVEPOINT a; INSERT INTO p VALUES (99, '2024-03-01 08:14'); ROLLBACK TO a; COMMIT};
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/pending.dump", '-d', $node->connstr('pending') ], 'dump of what is not accounted for');
release_fault($node, 'pass-before-commit');
sql('CREATE DATABASE pending_restored');
$node->command_ok([ 'pg_restore', '--single-transaction', '-d', $node->connstr('pending_restored'), "$dir/pending.dump" ], 'restore');
my @outcome;
for my $db (qw(pending pending_restored))
{
	sql(q{SELECT aion.sync('p', late => true)}, $db);
	wait_until($node, q{SELECT count(*) = 0 FROM aion.windows WHERE window_end <= '2024-03-01 08:20'}, "$db: what is final is purged", $db);
	push @outcome, join "\n", map { sql($_, $db) } 'SELECT events, late_events, expired_events, watermark FROM aion.streams', 'TABLE pv ORDER BY 1',
	  'SELECT event_time, reason, partial FROM aion.expired ORDER BY 1', 'SELECT view, window_start, state, events, late_events FROM aion.windows ORDER BY 2';
}
like($outcome[0], qr/^8\|4\|2\|2024-03-01 08:30/, 'some are late, some expire');
is($outcome[1], $outcome[0], 'restored, they are judged alike');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
