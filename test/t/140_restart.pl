# Restarts and crashes: counters, W and results exactly as without them (case R20 among others); and what a stream that is
# not durable loses.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('restart', conf => "aion.late_interval = '20ms'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

my %crash = (
	'SIGKILL of the scheduler' => sub { kill_worker($node, 'scheduler') },
	'immediate stop and start' => sub { $node->stop('immediate'); $node->start },
	'fast restart' => sub { $node->restart },
	'SIGTERM to the scheduler' => sub { kill_worker($node, 'scheduler', 'TERM') },
	'kill -9 of the postmaster' => sub { kill_server($node) },
);

sub wait_for_server { $node->poll_query_until('postgres', 'SELECT true') or die 'no server'; return }

# ---- R20: 10 transactions of 100 rows, something dies after each ---------------------------------------------------

sub r20
{
	my ($name, $after) = @_;
	sql(q{
		CREATE FOREIGN TABLE r20 (key text, value int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
		SELECT aion.create_view('r20_v', 'SELECT key, count(*) AS n, sum(value) AS sum FROM r20 GROUP BY key', aion.tumbling('1 hour'))});
	for my $i (0 .. 9)
	{
		sql("INSERT INTO r20 SELECT 'a', 1, timestamptz '2024-03-01 10:00+00' + (g % 60) * interval '1 min' FROM generate_series($i * 100, $i * 100 + 99) g");
		$after->($i);
		wait_for_server();
	}
	sql("SELECT aion.sync('r20', late => true); SELECT aion.refresh('r20_v')");
	is(sql('TABLE r20_v'), '2024-03-01 10:00:00+00|2024-03-01 11:00:00+00|a|1000|1000', "R20, $name: view");
	is(sql('SELECT events, expired_events FROM aion.streams'), '1000|0', "R20, $name: counters");
	is(sql('SELECT events, late_events FROM aion.windows'), '1000|0', "R20, $name: window");
	sql('DROP FOREIGN TABLE r20 CASCADE');
	return;
}

r20('nothing dies', sub { });
for my $name (sort keys %crash)
{
	# a scheduler that ends again and again is started again after longer and longer times; a killed postmaster is slow to go
	my $every = $name =~ /TERM/ ? 6 : $name =~ /postmaster/ ? 4 : 1;
	r20("$name after every $every. commit", sub { $crash{$name}->() if $_[0] % $every == 0 });
}
my @three = map { $crash{$_} } ('SIGKILL of the scheduler', 'immediate stop and start', 'fast restart');
r20('each in turn', sub { $three[ $_[0] % 3 ]->() });

# at random moments, while the next transaction is under way
my $seed = $ENV{AION_SEED} // int(rand(1_000_000));
srand($seed);
diag("AION_SEED=$seed");
for my $round (1 .. $ENV{AION_ROUNDS} // 20)
{
	sql(q{
		CREATE FOREIGN TABLE r20 (key text, value int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
		CREATE TABLE done (i int);
		SELECT aion.create_view('r20_v', 'SELECT key, count(*) AS n, sum(value) AS sum FROM r20 GROUP BY key', aion.tumbling('1 hour'))});
	my $victim = int(rand(10));
	my $session = Session->new($node);
	for my $i (0 .. 9)
	{
		my $insert = "BEGIN; INSERT INTO done VALUES ($i); INSERT INTO r20 SELECT 'a', 1, timestamptz '2024-03-01 10:00+00' + g * interval '30 s' FROM generate_series(0, 99) g; COMMIT";
		# a transaction whose COMMIT was not acknowledged is sent again unless it is there
		until (sql("SELECT count(*) FROM done WHERE i = $i"))
		{
			$session->send($insert);
			if ($i == $victim)
			{
				usleep(int(rand(15_000)));
				if (rand() < 0.5) { kill 'KILL', $session->{backend} }
				else { kill 'KILL', worker_pid($node, 'scheduler') }
				$victim = -1;
				# the server is down for a moment
				usleep(100_000);
			}
			$session->connect if $session->result->{lost};
			wait_for_server();
		}
	}
	$session->connect;
	$session->must("SELECT aion.sync('r20', late => true)");
	$session->must("SELECT aion.refresh('r20_v')");
	is($session->must('SELECT n, sum FROM r20_v'), '1000|1000', "R20, at a random moment, round $round");
	is($session->must('SELECT events FROM aion.streams'), '1000', "R20, at a random moment, round $round: counter");
	$session->close;
	sql('DROP FOREIGN TABLE r20 CASCADE; DROP TABLE done');
}

# ---- the same steps with and without crashes -----------------------------------------------------------------------

# Steps of which each is followed by a sync, so that everything about the result is determined.
my $day = '2024-03-01';
my @steps = (
	"INSERT INTO s SELECT g, timestamptz '$day 10:00+00' + g * interval '7 s' FROM generate_series(1, 200) g",
	"SELECT aion.advance_watermark('s', '$day 10:10+00')",
	"INSERT INTO s SELECT g, timestamptz '$day 10:05+00' + g * interval '1 s' FROM generate_series(1, 60) g",
	"SELECT aion.destage('s')",
	"SELECT aion.refresh('s_slide')",
	"INSERT INTO s SELECT g, timestamptz '$day 10:20+00' + g * interval '5 s' FROM generate_series(1, 200) g",
	"BEGIN; INSERT INTO s VALUES (-1, '$day 10:00+00'), (-2, '$day 10:09+00'), (-3, '$day 10:31+00'); SELECT aion.advance_watermark('s', '$day 10:22+00'); COMMIT",
	"INSERT INTO s VALUES (-4, '$day 10:00+00'), (-5, '$day 10:13+00'), (-6, '$day 10:16+00'), (-7, '$day 10:30+00')",
	"SELECT aion.advance_watermark('s', '$day 10:40+00')",
	"INSERT INTO s VALUES (-8, '2099-01-01')",
	"SELECT aion.destage('s')",
	"INSERT INTO s SELECT g, timestamptz '$day 10:25+00' + g * interval '5 s' FROM generate_series(1, 300) g",
);

sub define
{
	sql(q{
		CREATE FOREIGN TABLE s (id int, at timestamptz NOT NULL)
			SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10 min', bucket_width '1 min');
		SELECT aion.create_view('s_tumble', 'SELECT count(*) AS n, sum(id) AS ids FROM s', aion.tumbling('5 min'));
		SELECT aion.create_view('s_slide', 'SELECT id % 3 AS k, count(*) AS n FROM s GROUP BY 1', aion.sliding('10 min', '4 min'), allowed_lateness => '3 min');
		SELECT aion.create_view('s_gap', 'SELECT max(id) AS m FROM s', aion.sliding('2 min', '7 min'))});
	return;
}

# All that may not depend on crashes. A bucket's purge takes its time, and window rows go with it; both are waited for.
sub state_of_all
{
	wait_until($node, q{SELECT count(*) = 0 FROM s WHERE at < '2024-03-01 10:28+00'}, 'past is purged');
	wait_until($node, q{SELECT count(*) = 0 FROM aion.windows WHERE window_end <= '2024-03-01 10:21+00'}, 'windows of the past are purged');
	return join "\n", map { "$_: " . sql($_) }
	  'SELECT events, late_events, expired_events, watermark, event_watermark FROM aion.streams',
	  'SELECT view, on_time_firings, final_firings, state FROM aion.views ORDER BY 1',
	  "SELECT view, window_start, state, events, late_events, pending_events FROM aion.windows WHERE window_end > '$day 10:30+00' ORDER BY 1, 2",
	  'SELECT event_time, event, reason, partial FROM aion.expired ORDER BY 1, 2::text, 3, 4',
	  'SELECT * FROM s ORDER BY at, id', map { "SELECT * FROM $_ ORDER BY $_.*" } qw(s_tumble s_slide s_gap);
}

sub run_steps
{
	my ($before_sync, $after_sync) = @_;
	define();
	for my $i (0 .. $#steps)
	{
		sql($steps[$i]);
		$before_sync->($i);
		wait_for_server();
		sql("SELECT aion.sync('s', late => true)");
		$after_sync->($i);
		wait_for_server();
	}
	my $state = state_of_all();
	sql('DROP FOREIGN TABLE s CASCADE');
	return $state;
}

my $expected = run_steps(sub { }, sub { });
like($expected, qr/\|[1-9]\d*\|[1-9]\d*\|2024-03-01 10:40:00/, 'some events are late, some expire');
my @names = sort keys %crash;
for my $name (@names)
{
	next if $name =~ /TERM/;
	my $every = $name =~ /postmaster/ ? 3 : 1;
	is(run_steps(sub { $crash{$name}->() if $_[0] % $every == 1 % $every }, sub { }), $expected, "as without a crash: $name before each sync");
}
is(run_steps(sub { }, sub { $crash{ $names[ $_[0] % @names ] }->() }), $expected, 'as without a crash: something after each sync');

# ---- idle time begins anew, W does not go back ---------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE s (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', idle_timeout '300 ms');
	SELECT aion.create_view('s_idle', 'SELECT count(*) AS n FROM s', aion.tumbling('1 s'));
	INSERT INTO s VALUES (1, '2024-03-01 10:00:00.5')});
wait_until($node, 'SELECT n = 1 FROM s_idle', 'idle time fires the last window');
my $w = sql('SELECT watermark FROM aion.streams');
for my $name (@names)
{
	$crash{$name}->();
	wait_for_server();
	is(sql(qq{SELECT watermark >= '$w', event_watermark FROM aion.streams}), 't|2024-03-01 10:00:00.5+00', "W does not go back: $name");
}
sql('DROP FOREIGN TABLE s CASCADE');

# ---- a stream that is not durable ------------------------------------------------------------------------------------

sub define_unlogged
{
	sql(q{
		CREATE FOREIGN TABLE u (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', durable 'off', watermark 'manual');
		SELECT aion.create_view('u_v', 'SELECT count(*) AS n FROM u', aion.tumbling('10 min'));
		INSERT INTO u SELECT g, timestamptz '2024-03-01 10:00+00' + g * interval '1 min' FROM generate_series(0, 29) g;
		SELECT aion.sync('u')});
	sql(q{SELECT aion.advance_watermark('u', '2024-03-01 10:15+00')});
	sql(q{SELECT aion.sync('u')});
	return;
}

my @survive = ('fast restart', 'SIGTERM to the scheduler');
for my $destage (0, 1)
{
	my $where = $destage ? 'destaged' : 'in memory';
	for my $name (@names)
	{
		define_unlogged();
		sql(q{SELECT aion.destage('u')}) if $destage;
		sql('CHECKPOINT') if $destage;
		$crash{$name}->();
		wait_for_server();
		if (grep { $_ eq $name } @survive)
		{
			is(sql('SELECT count(*) FROM u'), '30', "not durable, $where, $name: all there");
			sql(q{SELECT aion.sync('u'); SELECT aion.refresh('u_v')});
			is(sql('SELECT n FROM u_v ORDER BY window_start'), "10\n10\n10", "not durable, $where, $name: view");
			is(sql('SELECT state FROM aion.windows ORDER BY window_start'), "on_time\nopen\nopen", "not durable, $where, $name: windows");
		}
		else
		{
			is(sql('SELECT count(*) FROM u'), '0', "not durable, $where, $name: events are lost");
			sql(q{SELECT aion.sync('u')});
			is(sql('SELECT watermark, events FROM aion.streams'), '2024-03-01 10:15:00+00|30', "not durable, $where, $name: W and counter stay");
			is(sql('SELECT state, incomplete_reason FROM aion.windows ORDER BY window_start'), 'incomplete|state lost', "not durable, $where, $name: windows");
			sql(q{INSERT INTO u VALUES (100, '2024-03-01 10:05+00'), (101, '2024-03-01 10:16+00')});
			sql(q{SELECT aion.sync('u', late => true); SELECT aion.refresh('u_v')});
			is(sql('SELECT window_start, n FROM u_v ORDER BY 1'), "2024-03-01 10:00:00+00|10\n2024-03-01 10:10:00+00|1",
				"not durable, $where, $name: a fired window keeps its result, the others begin anew");
			is(sql('SELECT event_time, reason, partial FROM aion.expired'), '2024-03-01 10:05:00+00|state lost|f', "not durable, $where, $name: what comes for it is set aside");
			is(sql('SELECT events, expired_events FROM aion.streams'), '32|1', "not durable, $where, $name: counters");
			is(sql('SELECT id FROM u'), '101', "not durable, $where, $name: stream");
			# the next crash takes no more than what came since
			$node->restart;
			is(sql('SELECT id FROM u'), '101', "not durable, $where, $name: a clean restart loses nothing");
			is(sql('SELECT n FROM u_v ORDER BY window_start'), "10\n1", "not durable, $where, $name: nor the results");
		}
		sql('DROP FOREIGN TABLE u CASCADE');
	}
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
