# Workers at rest, and who they must not hold up: an idle server, a dump that takes its time, a shutdown, the end of the
# extension (cases R28 and R25). How long each takes is the caller's choice: the short form is among the ordinary tests,
# the long one among those of test/soak.
package Rest;

use strict;
use warnings;

use Aion;
use Exporter 'import';
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(rest_test);

my $DEFINE = q{
	CREATE TABLE p (k int, at timestamptz NOT NULL);
	CREATE FOREIGN TABLE s (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', allowed_lateness 'unlimited', idle_timeout '2 s');
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 min'))};
my $BATCH = q{SELECT date_trunc('minute', at), date_trunc('minute', at) + interval '1 min', k, count(*) FROM p GROUP BY 1, 2, 3};

# An INSERT of events into stream and table; those of minute N and of the ten before it, which are late.
sub _insert
{
	my ($n, $minute) = @_;
	return "WITH e AS (INSERT INTO p SELECT i % 5, timestamptz '2024-03-01 10:00+00' + interval '$minute min' - i % 11 * interval '1 min' FROM generate_series(1, $n) i RETURNING *) INSERT INTO s SELECT * FROM e";
}

sub _exact
{
	my ($session, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->must($_) for q{SELECT aion.sync('s', late => true)}, q{SELECT aion.refresh('v')};
	is($session->must("SELECT count(*) FROM ((TABLE v EXCEPT ALL ($BATCH)) UNION ALL (($BATCH) EXCEPT ALL TABLE v)) x"), '0', "$name: exact");
	is($session->must('SELECT s.events = (SELECT count(*) FROM p) FROM aion.streams s'), 't', "$name: counter");
	return;
}

# CPU time in seconds that the processes have taken
sub _cpu
{
	my $ticks = 0;
	for my $pid (@_)
	{
		my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr;
		$ticks += $stat[11] + $stat[12];
	}
	return $ticks / 100;
}

# Of one look at all workers: seconds that the oldest transaction has been open.
my $OLDEST = q{SELECT coalesce(max(extract(epoch FROM clock_timestamp() - coalesce(xact_start, state_change))), 0) FROM pg_stat_activity
	WHERE backend_type LIKE 'aion %' AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)};

sub _idle
{
	my ($node, $session, $seconds, $measure) = @_;
	$session->must(q{SELECT aion.destage('s')});
	my $oldest = 0;
	my @pids;
	if ($measure)
	{
		# The time that counts begins when what is put off has been done, truncation of the journal last, and nobody waits for more.
		wait_until($node, q{SELECT count(*) = 0 FROM aion.workers WHERE role NOT IN ('launcher', 'scheduler')}, 'idle: workers that are not needed leave');
		@pids = split /\n/, $session->must(q{SELECT pid FROM aion.workers ORDER BY pid});
	}
	my $cpu = _cpu(@pids);
	my $begin = time;
	while (time - $begin < $seconds)
	{
		sleep 0.2;
		$oldest = max($oldest, $session->must($OLDEST));
	}
	# aion.late_interval and watermark_interval: what it may take until results are as they should
	cmp_ok($oldest, '<', 1.01, sprintf('idle: the oldest transaction of a worker was open for %.3f s', $oldest));
	if ($measure)
	{
		my $share = 100 * (_cpu(@pids) - $cpu) / (time - $begin);
		cmp_ok($share, '<', 1, sprintf('idle: %d workers take %.2f %% of a CPU', scalar @pids, $share));
		is(join(',', split /\n/, $session->must(q{SELECT pid FROM aion.workers ORDER BY pid})), join(',', @pids), 'idle: and are the same all the time');
	}
	$session->must('CREATE TABLE dead AS SELECT FROM generate_series(1, 1000)');
	$session->must('DELETE FROM dead');
	like(($node->psql('postgres', 'VACUUM VERBOSE dead'))[2], qr/tuples: 1000 removed, 0 remain/, 'idle: VACUUM removes what is dead');
	return;
}

sub _dump
{
	my ($node, $session, $seconds) = @_;
	my $dump = Session->new($node);
	$dump->must('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	my $tables = $dump->must(q{SELECT string_agg(format('%I.%I', nspname, relname), ', ') FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r' AND nspname !~ '^pg_|^information_schema'});
	$dump->must("LOCK TABLE $tables IN ACCESS SHARE MODE");
	my $before = $dump->must('SELECT sum(n) FROM v');
	my ($minute, $slowest, $stale, $changes) = (100, 0, 0, 0);
	my $last = 0;
	my $begin = time;
	while (time - $begin < $seconds)
	{
		my $at = time;
		$session->must(_insert(200, ++$minute));
		$slowest = max($slowest, time - $at);
		$at = time;
		$node->poll_query_until('postgres', 'SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE pending_events = 0 OR state = $$open$$) FROM aion.windows') or die 'results do not follow';
		$stale = max($stale, time - $at);
		my $now = $session->must('SELECT sum(n) FROM v');
		$changes++ if $now != $last;
		$last = $now;
	}
	cmp_ok($slowest, '<', 5, sprintf('during a dump: the slowest insert took %.2f s', $slowest));
	cmp_ok($stale, '<', 10, sprintf('during a dump: results follow, after %.2f s at most', $stale));
	cmp_ok($changes, '>=', 2, 'during a dump: results change');
	_exact($session, 'during a dump');
	$session->must(q{SELECT aion.destage('s')});
	is($dump->must('SELECT sum(n) FROM v'), $before, 'the dump sees what it saw');
	is($dump->must('SELECT count(*) FROM s'), $dump->must('SELECT count(*) FROM p'), 'of the stream, too');
	$dump->must('COMMIT');
	$dump->close;
	return;
}

sub _start_load
{
	my ($node, $n) = @_;
	my @load = map { Session->new($node) } 1 .. $n;
	my $insert = _insert(20, 200);
	$_->send("DO \$\$ BEGIN LOOP $insert; COMMIT; END LOOP; END \$\$") for @load;
	return @load;
}

sub _shutdown
{
	my ($node, $session) = @_;
	my @load = _start_load($node, 4);
	my $acknowledged = $session->must('SELECT count(*) FROM p');
	for my $i (1 .. 20)
	{
		$session->must(_insert(50, 150 + $i));
		$acknowledged += 50;
	}
	my $begin = time;
	$node->stop('fast');
	my $took = time - $begin;
	cmp_ok($took, '<', 10, sprintf('fast shutdown under full load took %.1f s', $took));
	for my $session (@load) { $session->result; $session->close }
	$node->start;
	$session->connect;
	is($session->must("SELECT count(*) >= $acknowledged FROM p"), 't', 'what was acknowledged is there');
	_exact($session, 'after shutdown under load');
	return;
}

sub _end
{
	my ($node, $session, $seconds) = @_;
	my @load = _start_load($node, 2);
	$node->poll_query_until('postgres', 'SELECT (SELECT sum(on_time_firings + late_firings) FROM aion.views) > 20') or die 'no load';
	my $log = -s $node->logfile;
	my $begin = time;
	$session->must('DROP EXTENSION aion CASCADE');
	cmp_ok(time - $begin, '<', 10, 'DROP EXTENSION under load takes less than 10 s');
	for my $session (@load) { $session->result; $session->close }
	wait_until($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname IS NOT NULL AND backend_type LIKE 'aion %'}, 'no worker is left');
	sleep $seconds;
	is(join("\n", grep { /aion \w+ (ERROR|FATAL|WARNING)|exited with exit code/ } split /\n/, slurp_file($node->logfile, $log)), '', "no worker says anything in the next $seconds s");
	return;
}

# rest_test(idle => SECONDS, measure => BOOL, dump => SECONDS, silence => SECONDS); measure: CPU time, after minutes
sub rest_test
{
	my (%seconds) = @_;
	my $node = new_node('rest');
	my $session = Session->new($node);
	$session->must($_) for split /;\n/, $DEFINE;
	$session->must(_insert(5000, $_ * 5)) for 1 .. 10;
	_exact($session, 'to begin with');
	_idle($node, $session, $seconds{idle}, $seconds{measure});
	_dump($node, $session, $seconds{dump});
	_shutdown($node, $session);
	_end($node, $session, $seconds{silence});
	$session->close;
	$node->stop;
	my $log = slurp_file($node->logfile);
	unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
	is(join("\n", grep { /aion \w+ ERROR:|deadlock/ } split /\n/, $log), '', 'no worker met an error, nothing a deadlock');
	return;
}

1;
