# Two-phase commit: prepared events count when, and only when, they are committed, in whatever life of the server that is.
use strict;
use warnings;

use Aion;
use Oracle qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql);
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;

my $node = new_node('two_phase', conf => "aion.late_interval = 0\naion.memory = '4MB'");
my $view = { name => 'v', query => $QUERIES[3], size => 60_000_000, slide => 60_000_000, origin => DEFAULT_ORIGIN };

sub setup
{
	my ($more) = @_;
	$node->safe_psql('postgres', join ";\n",
		'CREATE TABLE p (' . COLUMNS . ')',
		'CREATE FOREIGN TABLE s (' . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', idle_timeout 'off'"
		  . ", allowed_lateness '" . ($more // 'unlimited') . "')",
		create_view_sql($view, 's'));
	return;
}

sub teardown { $node->safe_psql('postgres', 'DROP FOREIGN TABLE s CASCADE; DROP TABLE p'); return }

my $next = 1;

# Statements that write n events to both, a second apart, from a minute on.
sub events
{
	my ($n, $minute) = @_;
	my $first = $next;
	$next += $n;
	my $last = $next - 1;
	return join '', map {
		"INSERT INTO $_ SELECT i, i % 3, i % 50, 'e', timestamptz '2024-03-01 10:00+00' + interval '$minute min' + (i - $first) % 60 * interval '1 s' FROM generate_series($first\::bigint, $last) i;\n"
	} 's', 'p';
}

sub run_sql { $node->safe_psql('postgres', $_[0]); return }

sub exact
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $session = Session->new($node);
	is(compare($session, 'SELECT * FROM s', 'SELECT * FROM p'), '', "$name: events");
	$session->must("SELECT aion.sync('s', late => true)");
	$session->must("SELECT aion.refresh('v')");
	is(compare($session, 'SELECT * FROM s', 'SELECT * FROM p'), '', "$name: events, settled");
	is(compare($session, 'SELECT * FROM v', batch_query($view, 'p')), '', "$name: view");
	is($session->must('SELECT events - (SELECT count(*) FROM p) FROM aion.streams'), '0', "$name: counter");
	is($session->must('SELECT watermark IS NOT DISTINCT FROM (SELECT max(at) FROM p) FROM aion.streams'), 't', "$name: W");
	$session->close;
	return;
}

my %BETWEEN = (
	'at once' => sub { },
	'after others committed' => sub { run_sql(events(100, 3) . "SELECT aion.sync('s')") },
	'after a destage' => sub { run_sql(events(100, 2)); run_sql("SELECT aion.destage('s')") },
	'after a fast restart' => sub { $node->restart },
	'after a crash' => sub { $node->stop('immediate'); $node->start },
	'after a checkpoint and kill -9' => sub { run_sql('CHECKPOINT'); kill_server($node) },
	'after two restarts with events and folds between' => sub {
		for (1 .. 2)
		{
			run_sql(events(50, 4));
			$node->restart;
			run_sql("SELECT aion.sync('s')");
			run_sql("SELECT aion.destage('s')");
		}
	},
);

# one small transaction, one larger than its share of memory
for my $n (50, 30000)
{
	for my $between (sort keys %BETWEEN)
	{
		setup();
		run_sql(events(10, 1));
		run_sql('BEGIN;' . events($n, 0) . "SAVEPOINT a;" . events($n, 5) . "ROLLBACK TO a; PREPARE TRANSACTION 'commit'");
		run_sql('BEGIN;' . events($n, 9) . "PREPARE TRANSACTION 'rollback'");
		exact("$n prepared");
		$BETWEEN{$between}->();
		exact("$n prepared, $between");
		run_sql("COMMIT PREPARED 'commit'");
		exact("$n committed $between");
		run_sql("ROLLBACK PREPARED 'rollback'");
		exact("$n rolled back $between");
		teardown();
	}
}

# W stands still while a transaction is prepared, others pass it by; committed, its events are late, and expire where they
# came too late.
setup('2 min');
run_sql('BEGIN;' . events(10, 0) . "PREPARE TRANSACTION 'late'");
run_sql('BEGIN;' . events(10, 8) . "PREPARE TRANSACTION 'in time'");
run_sql(events(60, 8));
run_sql("SELECT aion.sync('s')");
$node->restart;
run_sql("COMMIT PREPARED 'late'");
run_sql("COMMIT PREPARED 'in time'");
run_sql("SELECT aion.sync('s', late => true); SELECT aion.refresh('v')");
is($node->safe_psql('postgres', 'SELECT events, late_events, expired_events, watermark FROM aion.streams'),
	'80|10|10|2024-03-01 10:08:59+00', 'counters of what was prepared before W passed');
is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE partial) FROM aion.expired'), '10|0', 'expired events are listed');
is($node->safe_psql('postgres', 'SELECT count(*) FROM s'), '70', 'and not in the stream');
teardown();

# PREPARE refused, not half done, where the stream can't take it
setup();
my ($code, $out, $error) = $node->psql('postgres', "BEGIN; INSERT INTO s VALUES (1, 1, 1, 'x', NULL); PREPARE TRANSACTION 'bad'");
like($error, qr/null value in column "at"/, 'a bad row');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is prepared');

# advance_watermark travels with its transaction
run_sql(events(10, 0));
run_sql("SELECT aion.sync('s')");
run_sql("BEGIN; SELECT aion.advance_watermark('s', '2024-03-01 11:00+00'); PREPARE TRANSACTION 'w'");
run_sql("SELECT aion.sync('s')");
$node->stop('immediate');
$node->start;
run_sql("SELECT aion.sync('s')");
is($node->safe_psql('postgres', 'SELECT watermark FROM aion.streams'), '2024-03-01 10:00:09+00', 'W waits for the second phase');
run_sql("COMMIT PREPARED 'w'");
run_sql("SELECT aion.sync('s')");
is($node->safe_psql('postgres', 'SELECT watermark FROM aion.streams'), '2024-03-01 11:00:00+00', 'W moves with it');

# a definition that comes by way of PREPARE is noticed at its second phase, and not when the scheduler looks anyway
run_sql(q{BEGIN; CREATE FOREIGN TABLE s2 (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '5 ms', watermark 'manual');
	SELECT aion.create_view('v2', 'SELECT count(*) AS n FROM s2', aion.tumbling('1 min'));
	INSERT INTO s2 VALUES ('2024-03-01 10:00+00'); SELECT aion.advance_watermark('s2', '2024-03-01 11:00+00'); PREPARE TRANSACTION 'stream'});
my $begin = time;
run_sql("COMMIT PREPARED 'stream'");
wait_until($node, 'SELECT n = 1 FROM v2', 'a stream that was made in a prepared transaction works');
cmp_ok(time - $begin, '<', 30, 'at once');

# an open prepared transaction costs no CPU and holds no worker's transaction open
run_sql('BEGIN;' . events(10, 0) . "PREPARE TRANSACTION 'open'");
wait_until($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'aion %' AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)},
	'workers hold nothing open while a transaction is prepared');
run_sql("ROLLBACK PREPARED 'open'");

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
