# Few worker slots: the server's default of eight carries four databases; one that finds no slot waits, visibly and with
# little said about it, and is served by itself as soon as there is one.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

# what the server has by default
my $node = new_node('worker_slots', extension => 0, conf => "max_worker_processes = 8\naion.late_interval = '20ms'\naion.idle_destage = '1s'");
is($node->safe_psql('postgres', 'SELECT boot_val FROM pg_settings WHERE name = $$max_worker_processes$$'), '8', 'the default');

sub sql { my ($text, $dbname) = @_; return $node->safe_psql($dbname // 'postgres', $text) }

my $define = q{
	CREATE EXTENSION aion;
	CREATE FOREIGN TABLE s (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', allowed_lateness 'unlimited');
	CREATE TABLE p (k int, at timestamptz NOT NULL);
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 min'));
	SELECT aion.create_view('w', 'SELECT count(DISTINCT k) AS n, max(at) AS last FROM s', aion.sliding('10 min', '5 min'))};
my %batch = (
	v => q{SELECT date_trunc('minute', at), date_trunc('minute', at) + interval '1 min', k, count(*) FROM p GROUP BY 1, 2, 3},
	w => q{SELECT b, b + interval '10 min', count(DISTINCT k), max(at)
		FROM (SELECT k, at, date_bin('5 min', at, '2000-01-03 00:00+00') - o * interval '5 min' AS b FROM p, generate_series(0, 1) o) x GROUP BY b});

sub insert_sql
{
	my ($n, $minute) = @_;
	return "WITH e AS (INSERT INTO p SELECT i % 7, timestamptz '2024-03-01 10:00+00' + interval '$minute min' + i % 900 * interval '1 s' FROM generate_series(1, $n) i RETURNING *) INSERT INTO s SELECT * FROM e";
}

sub exact
{
	my ($name, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql("SELECT aion.sync('s', late => true); SELECT aion.refresh('v'); SELECT aion.refresh('w')", $dbname);
	oracle_ok($node, $_, $batch{$_}, "$name, $dbname: $_", $dbname) for qw(v w);
	is(sql('SELECT s.events = (SELECT count(*) FROM p) AND s.events = (SELECT count(*) FROM s) FROM aion.streams s', $dbname), 't', "$name, $dbname: counter and stream");
	return;
}

# ---- four databases -------------------------------------------------------------------------------------------------

my @databases = map { "d$_" } 1 .. 4;
for my $dbname (@databases)
{
	sql("CREATE DATABASE $dbname");
	sql($define, $dbname);
}
# all at once: inserts, firings, destages
my %session = map { $_ => Session->new($node, $_) } @databases;
for my $round (0 .. 3)
{
	$session{$_}->send(insert_sql(4000, 4 * $round)) for @databases;
	$session{$_}->result->{ok} or die for @databases;
	$session{$_}->send($round % 2 ? q{SELECT aion.destage('s')} : q{SELECT aion.sync('s')}) for @databases;
	for my $dbname (@databases)
	{
		my $result = $session{$dbname}->result;
		ok($result->{ok}, "round $round, $dbname is served") or diag($result->{out});
	}
}
$_->close for values %session;
exact('four databases', $_) for @databases;
is(sql(q{SELECT string_agg(datname, ',' ORDER BY datname) FROM pg_stat_activity WHERE backend_type = 'aion scheduler'}), 'd1,d2,d3,d4', 'each has its scheduler');
is(sql(q{SELECT count(*) FROM aion.workers WHERE pid IS NULL}, 'd1'), '0', 'none waits');

# ---- no slot is left ---------------------------------------------------------------------------------------------------

# A query in a parallel worker keeps a slot for as long as it likes.
my @sleepers;
sub take_slots
{
	my ($n) = @_;
	my $debug_parallel = sql(q{SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
	# workers that are there for speed hold some; they leave when they have been idle for a while
	sql(q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type IN ('aion executor', 'aion io', 'aion serializer')});
	for (1 .. $n)
	{
		my $session = Session->new($node);
		$session->must("SET $debug_parallel = on");
		my $before = sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'});
		for (1 .. 1000)
		{
			# one that found no slot runs in the session itself: once more, until those that have one leave
			$session->send('SELECT pg_sleep(600)');
			$node->poll_query_until('postgres', "SELECT wait_event = 'PgSleep' OR (SELECT count(*) > $before FROM pg_stat_activity WHERE backend_type = 'parallel worker') FROM pg_stat_activity WHERE pid = $session->{backend}") or die;
			last if sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'}) > $before;
			sql("SELECT pg_cancel_backend($session->{backend})");
			$session->result;
		}
		push @sleepers, $session;
	}
	return;
}

sub give_slot
{
	my $session = shift @sleepers;
	sql("SELECT pg_cancel_backend($session->{backend})");
	$session->result;
	$session->close;
	return;
}

my $log_start = -s $node->logfile;
my $begin = time;
sql('CREATE DATABASE d5');
take_slots(2);
sql($define, 'd5');
sql(insert_sql(1000, 0), 'd5');
wait_until($node, q{SELECT count(*) = 1 FROM aion.workers WHERE pid IS NULL AND database = 'd5' AND role = 'scheduler' AND state = 'waiting for a worker slot' AND since < now()},
	'a database that finds no slot is shown as waiting', 'd1');
my ($code, $out, $error) = $node->psql('d5', q{SELECT aion.sync('s', timeout => '500 ms')});
like($error, qr/timed out.*No aion scheduler serves this database.*max_worker_processes/s, 'who waits for it is told');
is(sql('SELECT count(*) FROM s', 'd5'), '1000', 'its stream can be read');
for my $round (1 .. 2)
{
	sql(insert_sql(3000, 20 + $round), $_) for @databases;
	sql(q{SELECT aion.destage('s')}, $_) for @databases;
	exact("without a slot to spare, round $round", $_) for @databases;
}
is(sql(q{SELECT string_agg(DISTINCT backend_type, ',') FROM pg_stat_activity WHERE backend_type LIKE 'aion %'}), 'aion launcher,aion scheduler', 'schedulers do all the work');
is(sql(q{SELECT count(*) FROM aion.workers WHERE pid IS NULL}, 'd5'), '1', 'it waits still');
my $minutes = (time - $begin) / 60;
my @lines = grep { /no background worker slot is free/ } split /\n/, slurp_file($node->logfile, $log_start);
cmp_ok(scalar @lines, '>=', 1, 'the log tells of it');
cmp_ok(scalar @lines, '<=', 1 + $minutes, 'once a minute at most, all processes together');

# ---- and then one is -----------------------------------------------------------------------------------------------------

give_slot();
exact('once a slot is free', 'd5');
is(sql(q{SELECT count(*) FROM aion.workers WHERE pid IS NULL}, 'd5'), '0', 'it does not wait any longer');

# a scheduler that dies makes room for another's; what its database does is done when there is a slot again
sql('DROP EXTENSION aion CASCADE', 'd4');
sql('DROP TABLE p', 'd4');
wait_until($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'd4' AND backend_type LIKE 'aion %'}, 'a database without the extension gives its slot back');
sql($define, 'd4');
sql(insert_sql(1000, 0), 'd4');
exact('and gets one again', 'd4');
give_slot() while @sleepers;
for my $dbname (@databases, 'd5')
{
	sql(insert_sql(2000, 50), $dbname);
	exact('at the end', $dbname);
}
$node->stop('immediate');
$node->start;
for my $dbname (@databases, 'd5')
{
	sql(insert_sql(500, 55), $dbname);
	exact('five databases after a crash', $dbname);
}

$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
is(join("\n", grep { /aion \w+ (ERROR|WARNING):|deadlock/ } split /\n/, $log), '', 'no worker met an error, nothing a deadlock');
done_testing();
