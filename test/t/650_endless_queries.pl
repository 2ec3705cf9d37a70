# Queries that never end: whoever may change the view stops its executions, at once and without a trace, wherever they run;
# other views are served again.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my ($node, $user, $admin);

sub sql { return $admin->must($_[0]) }

# Executions of the endless query that are under way, by process and beginning.
my $RUNNING = q{SELECT DISTINCT l.pid, a.xact_start FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 'endless'::regclass AND a.backend_type ~ '^aion'};

my $longest = 0;

sub executions_are
{
	my ($n, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $begin = time;
	wait_until($node, "SELECT count(*) = $n FROM ($RUNNING) x", $name);
	$longest = time - $begin if $longest < time - $begin;
	return;
}

# What must return although the view is being executed.
sub returns
{
	my ($session, $statement, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->query("SET statement_timeout = '20s'; $statement; RESET statement_timeout");
	return ok($result->{ok}, $name // "$statement returns") || diag($result->{out});
}

sub no_failure
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql(q{SELECT count(*) FROM aion.windows WHERE view = 'v'::regclass AND (state = 'failed' OR error IS NOT NULL OR firings > 0)}), '0', "$name: no window has failed or fired");
	return;
}

# While there is a row in "endless", v's query does not end.
my $ENDLESS = '(WITH RECURSIVE r(i) AS (SELECT 1 FROM public.endless UNION ALL SELECT i FROM r) SELECT count(*) FROM r)';

sub create_view
{
	my ($loops) = @_;
	$loops //= $ENDLESS;
	sql(qq{SET ROLE joe;
		SELECT aion.create_view('v', 'SELECT count(*) AS n, $loops AS loops FROM public.s', aion.tumbling('1 hour'));
		RESET ROLE});
	return;
}

sub start
{
	my ($name, $conf) = @_;
	$node = new_node($name, conf => $conf);
	($user, $admin) = map { Session->new($node) } 1 .. 2;
	sql(q{
		CREATE ROLE joe; CREATE ROLE jim; GRANT CREATE ON SCHEMA public TO joe, jim; GRANT joe, jim TO CURRENT_USER;
		CREATE TABLE endless AS SELECT; GRANT SELECT ON endless TO joe, jim;
		CREATE FOREIGN TABLE s (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness 'unlimited');
		CREATE FOREIGN TABLE t (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness 'unlimited');
		GRANT SELECT ON s TO joe, jim;
		SELECT aion.create_view('w', 'SELECT count(*) AS n FROM t', aion.tumbling('1 hour'))});
	create_view();
	$user->must('SET ROLE joe');
	return;
}

my ($hour, $window) = (0, 0);

# A window more of the other view, which has a result as soon as somebody computes it.
sub other_window
{
	$hour++;
	sql("INSERT INTO t SELECT timestamptz '2024-03-01 00:00+00' + $hour * interval '1 hour' FROM generate_series(1, $hour)");
	sql("SELECT aion.advance_watermark('t', timestamptz '2024-03-01 01:00+00' + $hour * interval '1 hour')");
	return;
}

sub other_is_served
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	returns($admin, q{SELECT aion.sync('t')}, "$name: the other view is served");
	oracle_ok($node, 'w', q{SELECT at, at + interval '1 hour', count(*) FROM t GROUP BY at}, "$name: and right");
	return;
}

sub finish
{
	# executors look for themselves after 30 s
	cmp_ok($longest, '<', 25, 'no executor slept while windows were ready');
	$_->close for $user, $admin;
	$node->stop;
	my $log = slurp_file($node->logfile);
	unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
	is(join("\n", grep { /aion \w+ (ERROR|WARNING|LOG):.*(cancel|could not be computed)|aion \w+ (ERROR|WARNING):|deadlock detected/ } split /\n/, $log), '', 'the log tells of no error');
	return;
}

# Two executions of v, or as many as there can be, take whoever executes.
sub make_endless
{
	my ($n, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('INSERT INTO endless SELECT WHERE NOT EXISTS (TABLE endless)');
	sql("INSERT INTO s SELECT timestamptz '2024-03-01 00:00+00' + i * interval '1 hour' FROM generate_series($window, $window + 1) i");
	$window += 2;
	sql("SELECT aion.advance_watermark('s', timestamptz '2024-03-01 00:00+00' + $window * interval '1 hour')");
	return executions_are($n, $name);
}

# v's, every query of it having come to an end.
sub results_are_right
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return oracle_ok($node, 'v', q{SELECT at, at + interval '1 hour', count(*), 0 FROM s GROUP BY at}, $name // 'the results are right');
}

# Code that catches what interrupts it, once or as often as that happens.
sub stubborn_code_is_stopped
{
	my ($n, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $times ('once', 'always')
	{
		sql(sprintf q{
			CREATE FUNCTION stubborn() RETURNS bigint STABLE LANGUAGE plpgsql AS $$ BEGIN
				WHILE EXISTS (SELECT FROM public.endless) LOOP
					BEGIN PERFORM pg_sleep(3600); EXCEPTION WHEN query_canceled THEN %s; END;
				END LOOP;
				RETURN 0; END $$}, $times eq 'once' ? 'PERFORM pg_sleep(3600)' : 'NULL');
		create_view('public.stubborn()');
		make_endless($n, "$name: code that catches cancellation $times is endless");
		returns($user, q{SELECT aion.pause_view('v')}, 'pausing returns');
		executions_are(0, 'and stops it');
		no_failure('caught');
		other_window();
		other_is_served('caught');
		sql('DELETE FROM endless');
		returns($user, q{SELECT aion.resume_view('v')});
		returns($admin, q{SELECT aion.sync('s')}, 'it ends when executed again');
		results_are_right();
		returns($user, 'DROP VIEW v');
		sql('DROP FUNCTION stubborn');
	}
	return;
}

# A view of which much is due, and that somebody holds locked, keeps nobody from executing others; "endless" is empty.
sub held_views_take_no_executors
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $statement (q{SELECT aion.pause_view('v')}, q{LOCK TABLE aion_results.v})
	{
		$user->must("BEGIN; $statement");
		sql("INSERT INTO s SELECT timestamptz '2024-03-01 00:00+00' + i * interval '1 hour' FROM generate_series($window, $window + 299) i");
		$window += 300;
		$hour = $window;	# what ends later goes later
		sql("SELECT aion.advance_watermark('s', timestamptz '2024-03-01 00:00+00' + $window * interval '1 hour')");
		wait_until($node, "SELECT aion.watermark('s') = timestamptz '2024-03-01 00:00+00' + $window * interval '1 hour'", "$name: many windows are due");
		for my $turn (1 .. 3)
		{
			other_window();
			other_is_served("$name: while $statement is not committed");
		}
		$user->must('ROLLBACK');
		returns($admin, q{SELECT aion.sync('s')}, "$name: rolled back");
		results_are_right();
	}
	return;
}

# ---- executors --------------------------------------------------------------------------------------------------------

start('endless_executors', "aion.executors = 2\naion.late_interval = 0\ndeadlock_timeout = '50ms'");
make_endless(2, 'endless executions take all executors');
other_window();
is(sql('SELECT count(*) FROM w'), '0', 'the other view waits');
returns($user, q{SELECT aion.pause_view('v')});
executions_are(0, 'pausing stops them');
other_is_served('paused');
no_failure('paused');

returns($user, q{SELECT aion.resume_view('v')});
executions_are(2, 'resumed, they begin again');
$user->must('BEGIN');
returns($user, q{SELECT aion.pause_view('v')}, 'pausing in a transaction returns');
executions_are(0, 'and stops them at once');
other_window();
other_is_served('not committed');
$user->must('ROLLBACK');
executions_are(2, 'rolled back, they begin again');
no_failure('rolled back');
$user->must(q{BEGIN; SELECT aion.pause_view('v'); PREPARE TRANSACTION 'pause'});
executions_are(0, 'a prepared transaction keeps them from beginning');
$user->must(q{ROLLBACK PREPARED 'pause'});
executions_are(2, 'until it is rolled back');

my $before = sql("SELECT array_agg(x ORDER BY x) FROM ($RUNNING) x");
returns($user, q{SELECT aion.alter_view('v', early => '1 min')});
is(sql("SELECT array_agg(x ORDER BY x) FROM ($RUNNING) x"), $before, 'changed options stop nothing');
returns($admin, q{SELECT aion.alter_view('v', owner => 'jim')});
executions_are(2, 'they go on as those of the new owner');
my $refused = $user->query(q{SELECT aion.pause_view('v')});
is($refused->{sqlstate}, '42501', 'somebody else may not pause it');
$refused = $user->query(q{DROP VIEW v});
is($refused->{sqlstate}, '42501', 'nor drop it');
is(sql("SELECT count(*) FROM ($RUNNING) x"), '2', 'and stops nothing');
returns($admin, q{SELECT aion.alter_view('v', owner => 'joe')});
$user->must('BEGIN');
returns($user, 'DROP VIEW v', 'DROP VIEW returns');
$user->must('ROLLBACK');
executions_are(2, 'rolled back, they begin again');
no_failure('not dropped');

# windows were due all the time, and have the right result once the query ends
sql('DELETE FROM endless');
returns($user, q{SELECT aion.pause_view('v')});
returns($user, q{SELECT aion.resume_view('v')});
returns($admin, q{SELECT aion.sync('s')}, 'the query ends');
results_are_right();
is(sql(q{SELECT DISTINCT firings FROM aion.windows WHERE view = 'v'::regclass}), '1', 'after one execution each');

held_views_take_no_executors('executors');

# executions that end by themselves just then, and others by the same processes
for my $round (1 .. 40)
{
	sql("INSERT INTO s SELECT timestamptz '2024-03-01 00:00+00' + i * interval '1 hour' FROM generate_series($window, $window + 5) i");
	$window += 6;
	sql("SELECT aion.advance_watermark('s', timestamptz '2024-03-01 00:00+00' + $window * interval '1 hour')");
	other_window();
	$user->must(q{SELECT aion.pause_view('v')});
	$user->must(q{SELECT aion.resume_view('v')});
}
other_is_served('paused many times');
returns($admin, q{SELECT aion.sync('s')});
results_are_right('paused many times: the results are right');
is(sql(q{SELECT count(*) FROM aion.windows WHERE firings <> 1 OR error IS NOT NULL}), '0', 'one execution each');

make_endless(2, 'endless again');
returns($user, q{SELECT aion.drop_view('v')});
executions_are(0, 'dropping stops them');
create_view();
executions_are(2, 'a new view of that name begins');
returns($user, 'DROP VIEW v', 'DROP VIEW returns');
other_window();
other_is_served('dropped');
create_view();
executions_are(2, 'another one begins');
sql('ALTER SCHEMA public OWNER TO jim');
returns($admin, 'SET ROLE jim; DROP VIEW v; RESET ROLE', 'DROP VIEW by the owner of its schema returns');
stubborn_code_is_stopped(2, 'executors');
finish();

# ---- the scheduler itself ----------------------------------------------------------------------------------------------

# one slot for the launcher, one for the scheduler
start('endless_scheduler', "max_worker_processes = 2\nmax_logical_replication_workers = 0\naion.late_interval = 0");
($hour, $window) = (0, 0);
make_endless(1, 'an endless execution takes the scheduler');
is(sql(q{SELECT string_agg(backend_type, ',') FROM pg_stat_activity WHERE backend_type LIKE 'aion %' AND backend_type <> 'aion launcher'}), 'aion scheduler', 'which is alone');
other_window();
returns($user, q{SELECT aion.pause_view('v')});
other_is_served('paused, one process');
executions_are(0, 'it is stopped');
no_failure('paused, one process');
returns($user, q{SELECT aion.resume_view('v')});
executions_are(1, 'resumed, it begins again');
$user->must('BEGIN');
returns($user, q{SELECT aion.pause_view('v')}, 'pausing in a transaction returns');
other_window();
other_is_served('not committed, one process');
$user->must('ROLLBACK');
executions_are(1, 'rolled back, it begins again');
returns($admin, q{SELECT aion.alter_view('v', owner => 'jim')});
executions_are(1, 'and for the new owner');
returns($admin, q{SELECT aion.drop_view('v')});
other_window();
other_is_served('dropped, one process');
sql('DELETE FROM endless');
create_view();
held_views_take_no_executors('one process');
make_endless(1, 'a new view of that name begins');
returns($user, 'DROP VIEW v', 'DROP VIEW returns');
other_window();
other_is_served('dropped by DROP VIEW, one process');
stubborn_code_is_stopped(1, 'one process');
finish();

done_testing();
