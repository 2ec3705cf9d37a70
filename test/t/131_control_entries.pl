# Entries that advance a manual watermark: each counts when, and only when, its transaction and the savepoint it is in are committed,
# and none stays in the journal, whatever is done to that and wherever the server stops.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{AION_SEED} // int(rand(1_000_000));
note("AION_SEED=$seed");
srand($seed);
my $node = new_node('control', conf => "aion.late_interval = 0\nautovacuum = off\naion.memory = '4MB'");
my $session = Session->new($node);
my $locker = Session->new($node);
sub pick { return $_[ int(rand(@_)) ] }
sub sql { return $session->must($_[0]) }

sql(q{
	CREATE TABLE p (v int, at timestamptz NOT NULL);
	CREATE TABLE w (at timestamptz);
	CREATE FOREIGN TABLE s (v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness 'unlimited');
	SELECT aion.create_view('v', 'SELECT count(*) AS n, sum(v) AS total FROM s', aion.tumbling('1 hour'))});
my $journal = sql(q{SELECT journal FROM aion.stream_def});
my ($minute, $id) = (0, 0);
sub advance { my $back = pick(0, 0, 5); $minute += pick(1, 7, 30); my $t = "timestamptz '2024-03-01 00:00+00' + interval '" . ($minute - $back) . " min'"; return "SELECT aion.advance_watermark('s', $t); INSERT INTO w SELECT $t; " }
sub events { my $n = pick(1, 30, 500); my $m = int(rand(300)); my $first = ++$id; $id += $n; return join '', map { "INSERT INTO $_ SELECT g, timestamptz '2024-03-01 00:00+00' + interval '$m min' + g % 60 * interval '1 s' FROM generate_series($first, $id) g; " } 's', 'p' }
sub part { return rand() < 0.6 ? advance() : events() }
my @prepared;
sub transaction
{
	my $sql = 'BEGIN; ';
	for (1 .. pick(1, 2, 6, 20)) { $sql .= pick(part(), 'SAVEPOINT a; ' . part() . 'ROLLBACK TO a; ', 'SAVEPOINT a; ' . part() . 'SAVEPOINT b; ' . part() . 'ROLLBACK TO b; ' . part() . 'RELEASE a; ', 'SAVEPOINT a; ' . part() . part() . 'RELEASE a; ') }
	if (@prepared < 5 && rand() < 0.25) { my $name = "g$id" . int(rand(1e6)); push @prepared, $name; return $sql . "PREPARE TRANSACTION '$name'" }
	return $sql . pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK');
}
sub run
{
	my $result = $session->query($_[0]);
	return $result if $result->{ok};
	note("$_[0]: $result->{out}") unless $result->{lost};
	if ($result->{lost}) { $session->connect } else { $session->query('ROLLBACK') }
	return $result;
}
sub check
{
	my ($what) = @_;
	$locker->connect;
	my $ok = 0;
	for (1 .. 3) { my $r = run(q{SELECT aion.sync('s', late => true, timeout => '60 s'); SELECT aion.refresh('v', timeout => '60 s')}); $ok = $r->{ok}; last if $ok }
	ok($ok, "$what: settled");
	is(sql(q{SELECT watermark FROM aion.streams}), sql(q{SELECT max(at) FROM w}), "$what: the watermark is the greatest that was committed");
	oracle_ok($node, 'v', q{SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', count(*), sum(v) FROM p GROUP BY 1, 2}, "$what: results");
	is(sql('SELECT count(*) FROM s'), sql('SELECT count(*) FROM p'), "$what: events");
	return;
}
my @points = qw(account-judged pass-accounted pass-before-commit pass-committed fold-written io-before-commit io-after-commit before-commit journal-written);
my $until = time + ($ENV{AION_SECONDS} // 15);
my $turn = 0;
while (time < $until && Test::More->builder->is_passing)
{
	$turn++;
	for (1 .. 15)
	{
		my $r = rand();
		if ($r < 0.6) { run(transaction()) }
		elsif ($r < 0.66) { my $name = pop @prepared; run(pick("COMMIT PREPARED '$name'", "COMMIT PREPARED '$name'", "ROLLBACK PREPARED '$name'")) if $name }
		elsif ($r < 0.70) { run(q{SELECT aion.sync('s', timeout => '5 s')}) }
		elsif ($r < 0.74) { run(q{SELECT aion.destage('s', timeout => '5 s')}) }
		elsif ($r < 0.80 && !@prepared) { run("SET lock_timeout = '3s'; " . pick("VACUUM FULL $journal", "VACUUM $journal", "CREATE INDEX ON $journal (top)", "CREATE INDEX CONCURRENTLY ON $journal (bucket)", "REINDEX TABLE $journal")) }
		elsif ($r < 0.85) { $locker->connect; $locker->query("BEGIN; SET LOCAL lock_timeout = '1 s'; LOCK TABLE $journal IN SHARE UPDATE EXCLUSIVE MODE") }
		elsif ($r < 0.88 && !@prepared) { $locker->connect; $locker->query("BEGIN; SET LOCAL lock_timeout = '1 s'; LOCK TABLE $journal IN SHARE MODE"); run(q{SET statement_timeout = '2 s'; SELECT aion.sync('s', timeout => '1 s')}); $locker->query('ROLLBACK'); run('RESET statement_timeout') }
		elsif ($r < 0.92) { arm_fault($node, pick(@points), pick('crash', 'error')) }
		elsif ($r < 0.94) { kill_server($node); $session->connect; $locker->connect }
		elsif ($r < 0.97) { kill_worker($node, 'scheduler', 'TERM', 'postgres') }
		else { run(q{CHECKPOINT}) }
	}
	unlink($node->data_dir . "/aion_fault.$_") for @points;
	$session->connect;
	my $exists = sql(q{SELECT string_agg(gid, ' ') FROM pg_prepared_xacts});
	@prepared = split / /, $exists;
	check("turn $turn");
}
while (my $name = pop @prepared) { run("COMMIT PREPARED '$name'") }
check('prepared ones committed');
sql(q{SELECT aion.advance_watermark('s', '2030-01-01'); SELECT aion.sync('s'); SELECT aion.destage('s')});
wait_until($node, "SELECT count(*) = 0 FROM $journal", 'the journal is empty');
$_->close for $session, $locker;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|updated by self|concurrently/, 'no assertion failed');
done_testing();
