# Worker processes: names, deaths and returns, databases that get or lose the extension, shutdown under load, idleness,
# and too few slots.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('workers', conf => "aion.late_interval = '20ms'\nlog_statement = none");

sub sql { my ($text, $dbname) = @_; return $node->safe_psql($dbname // 'postgres', $text) }

# A stream, a view over it and the table that tells what they must hold.
my $define = q{
	CREATE FOREIGN TABLE s (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', allowed_lateness 'unlimited');
	CREATE TABLE p (k int, at timestamptz NOT NULL);
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 min'))};
my $batch = q{SELECT date_trunc('minute', at), date_trunc('minute', at) + interval '1 min', k, count(*) FROM p GROUP BY 1, 2, 3};

sub insert_sql
{
	my ($n, $minute) = @_;
	return "WITH e AS (INSERT INTO p SELECT i % 5, timestamptz '2024-03-01 10:00+00' + interval '$minute min' + i % 120 * interval '1 s' FROM generate_series(1, $n) i RETURNING *) INSERT INTO s SELECT * FROM e";
}

sub exact
{
	my ($name, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql("SELECT aion.sync('s', late => true); SELECT aion.refresh('v')", $dbname);
	oracle_ok($node, 'v', $batch, $name, $dbname);
	is(sql('SELECT s.events = (SELECT count(*) FROM p) AND s.events = (SELECT count(*) FROM s) FROM aion.streams s', $dbname), 't', "$name: counter");
	return;
}

# ---- names ----------------------------------------------------------------------------------------------------------

sql($define);
sql(insert_sql(1000, 0));
sql("SELECT aion.sync('s')");
sql("SELECT aion.destage('s')");
wait_until($node, q{SELECT array_agg(DISTINCT backend_type ORDER BY backend_type) @> ARRAY['aion executor', 'aion io', 'aion launcher', 'aion scheduler']
	FROM pg_stat_activity}, 'backend_type tells what a worker is');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE '%aion%' AND backend_type NOT LIKE 'aion %'}), '0', 'and begins with aion');
is(sql(q{SELECT string_agg(DISTINCT datname, ',') FROM pg_stat_activity WHERE backend_type IN ('aion scheduler', 'aion io', 'aion executor')}), 'postgres', 'each that serves a database is connected to it');
is(sql(q{SELECT count(*) FROM aion.workers w FULL JOIN (SELECT * FROM pg_stat_activity WHERE backend_type LIKE 'aion %') a USING (pid) WHERE a.pid IS NULL OR w.pid IS NULL OR a.backend_type <> 'aion ' || w.role}), '0', 'aion.workers lists the same');

# ---- a killed worker comes back ---------------------------------------------------------------------------------------

my $minute = 1;
for my $signal ('TERM', 'KILL')
{
	for my $kind (qw(executor io scheduler launcher))
	{
		sql(insert_sql(200, $minute++));
		my $pid = kill_worker($node, $kind, $signal);
		$node->poll_query_until('postgres', 'SELECT true');
		sql(insert_sql(200, $minute++));
		sql("SELECT aion.sync('s')");
		sql("SELECT aion.destage('s')");
		isnt(worker_pid($node, $kind), $pid, "$kind comes back after SIG$signal");
		exact("SIG$signal of the $kind");
	}
}

# a worker that is stopped is waited for, and loses nothing
my $scheduler = worker_pid($node, 'scheduler');
kill 'STOP', $scheduler;
sql(insert_sql(20000, $minute)) for 1 .. 5;
my ($code, $out, $error) = $node->psql('postgres', "SET statement_timeout = '300ms'; SELECT aion.sync('s')");
like($error, qr/canceling statement due to statement timeout/, 'sync can be cancelled while the scheduler stands still');
kill 'CONT', $scheduler;
exact('a scheduler that stood still');

# ---- other databases --------------------------------------------------------------------------------------------------

my $pid_before = sql("SELECT pg_postmaster_start_time()");
$node->safe_psql('postgres', 'CREATE DATABASE later');
sql('CREATE EXTENSION aion', 'later');
sql($define, 'later');
sql(insert_sql(500, 0), 'later');
exact('a database that got the extension later', 'later');
is(sql("SELECT pg_postmaster_start_time()"), $pid_before, 'without a restart');
ok(worker_pid($node, 'scheduler', 'later'), 'it has a scheduler');
sql('CREATE DATABASE empty');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE datname = 'empty'}), '0', 'a database without the extension has no workers');

# ---- DROP EXTENSION under load ------------------------------------------------------------------------------------------

# Sessions that insert without end; they stop when their stream is gone.
sub start_load
{
	my ($dbname, $n) = @_;
	my @sessions = map { Session->new($node, $dbname) } 1 .. $n;
	my $loop = "DO \$\$ BEGIN FOR i IN 1 .. 1000000 LOOP INSERT INTO s SELECT g % 5, timestamptz '2024-03-01 10:00+00' + i * interval '1 s' FROM generate_series(1, 20) g; COMMIT; END LOOP; END \$\$";
	$_->send($loop) for @sessions;
	return @sessions;
}

for my $round (1 .. 3)
{
	my @load = start_load('later', 2);
	$node->poll_query_until('later', 'SELECT count(*) > 2000 FROM s') or die 'no load';
	my $begin = time;
	sql('DROP EXTENSION aion CASCADE', 'later');
	cmp_ok(time - $begin, '<', 10, 'DROP EXTENSION CASCADE under load takes less than 10 s');
	for my $session (@load)
	{
		my $result = $session->result;
		like($result->{out}, qr/does not exist|could not open relation|cache lookup failed/, 'an insert fails once the stream is gone');
		$session->close;
	}
	is(sql("SELECT count(*) FROM pg_class WHERE relname IN ('s', 'v') OR relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'aion%')", 'later'), '0', 'nothing is left');
	wait_until($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'later' AND backend_type = 'aion scheduler'}, 'its scheduler leaves');
	sql('DROP TABLE IF EXISTS p', 'later');
	sql('CREATE EXTENSION aion', 'later');
	sql($define, 'later');
	sql(insert_sql(500, 0), 'later');
	exact("created again, round $round", 'later');
}
# rolled back: nothing happened
sql('BEGIN; DROP EXTENSION aion CASCADE; ROLLBACK', 'later');
sql(insert_sql(500, 2), 'later');
exact('DROP EXTENSION rolled back', 'later');
exact('the other database', 'postgres');

# ---- fast shutdown under load --------------------------------------------------------------------------------------------

for my $round (1 .. 3)
{
	my @load = (start_load('later', 2), start_load('postgres', 2));
	usleep(700_000);
	my $begin = time;
	$node->stop('fast');
	my $took = time - $begin;
	cmp_ok($took, '<', 10, sprintf('fast shutdown under load took %.1f s', $took));
	for my $session (@load) { $session->result; $session->close }
	$node->start;
	# what the load has inserted is not in p
	for my $dbname ('postgres', 'later')
	{
		sql('TRUNCATE p; INSERT INTO p SELECT * FROM s', $dbname);
		exact("after shutdown under load, round $round, $dbname", $dbname);
	}
}

# ---- interrupts in a long pass ---------------------------------------------------------------------------------------------

# few events can be in very many windows
sql('CREATE DATABASE many');
sql(q{CREATE EXTENSION aion;
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', bucket_width '1 day', allowed_lateness 'unlimited');
	SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.sliding('10000 s', '1 s'));
	INSERT INTO s SELECT timestamptz '2024-03-01' + i * interval '10000 s' FROM generate_series(1, 200) i}, 'many');
wait_until($node, q{SELECT count(*) > 0 FROM aion.workers WHERE database = 'many' AND role = 'scheduler' AND state = 'accounting'}, 'a pass over events in ten thousand windows each');
my $begun = time;
sql('DROP DATABASE many');
cmp_ok(time - $begun, '<', 5, 'its scheduler makes way at once');

# ---- idleness --------------------------------------------------------------------------------------------------------------

# CPU time of a process in clock ticks (100 a second)
sub cpu
{
	my ($pid) = @_;
	my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr;
	return $stat[11] + $stat[12];
}

# Idle time-out past, all destaged, journals vacuumed: wait until two looks in a row show the same.
my $busy = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'aion %' AND state <> 'idle'};
sql("SELECT aion.destage('s')", $_) for 'postgres', 'later';
my $idle = 0;
my ($share, @pids);
for my $attempt (1 .. 12)
{
	@pids = split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'aion %' ORDER BY pid});
	my %before = map { $_ => cpu($_) } grep { -e "/proc/$_/stat" } @pids;
	my $begin = time;
	sleep 4;
	my $ticks = 0;
	$ticks += cpu($_) - $before{$_} for grep { -e "/proc/$_/stat" } keys %before;
	$share = $ticks / (time - $begin);    # percent of one CPU
	last if $share < 1;
}
cmp_ok($share, '<', 1, sprintf('idle workers of two databases take %.2f %% of a CPU', $share));
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'aion %' AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)}), '0', 'and have no transaction open') for 1 .. 5;
sql('CREATE TABLE dead AS SELECT FROM generate_series(1, 1000); DELETE FROM dead');
like(($node->psql('postgres', 'VACUUM VERBOSE dead'))[2], qr/tuples: 1000 removed, 0 remain/, 'nor hold back VACUUM');

# ---- too few slots ----------------------------------------------------------------------------------------------------------

# the launcher, the server's own logical replication launcher, and one scheduler
$node->append_conf('postgresql.conf', "max_worker_processes = 3\nmax_logical_replication_workers = 1\nmax_parallel_workers = 0");
sql('DROP EXTENSION aion CASCADE', 'later');
$node->restart;
$minute = 100;
for my $round (1 .. 5)
{
	sql(insert_sql(3000, $minute += 3));
	sql("SELECT aion.destage('s')") if $round == 3;
	exact("one slot, round $round");
}
is(sql(q{SELECT string_agg(backend_type, ',' ORDER BY backend_type) FROM pg_stat_activity WHERE backend_type LIKE 'aion %'}), 'aion launcher,aion scheduler', 'only a scheduler fits');
kill_worker($node, 'scheduler', 'TERM');
sql(insert_sql(3000, $minute += 3));
exact('one slot, after its scheduler was ended');
$node->stop('immediate');
$node->start;
sql(insert_sql(3000, $minute += 3));
exact('one slot, after a crash');

$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
is(join("\n", grep { /aion \w+ ERROR:|deadlock/ } split /\n/, $log), '', 'no worker met an error, nothing a deadlock');
done_testing();
