# The staleness trigger: when late events have a window executed again, by W_e and by the clock, and that results stay exact.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('staleness', conf => "aion.late_interval = 0");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub create_stream
{
	my ($name, $options) = @_;
	sql(qq{
		CREATE FOREIGN TABLE $name (at timestamptz NOT NULL, k int) SERVER aion
			OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '100 hours', $options);
		CREATE TABLE ${name}_all (at timestamptz, k int)});
	return;
}

# Adds n events to the first hour.
sub add
{
	my ($name, $n) = @_;
	sql(qq{WITH e AS (INSERT INTO ${name}_all SELECT timestamptz '2024-03-01' + g * interval '1 s', g FROM generate_series(1, $n) g RETURNING *)
		INSERT INTO $name TABLE e; SELECT aion.sync('$name')});
	return;
}

# W, so many hours after the end of the first window.
sub past
{
	my ($name, $hours) = @_;
	sql("SELECT aion.advance_watermark('$name', timestamptz '2024-03-01 01:00' + $hours * interval '1 hour'); SELECT aion.sync('$name')");
	return;
}

my $FIRINGS = q{SELECT concat_ws('/', on_time_firings, late_firings, final_firings) FROM aion.views WHERE view = };
sub firings_are
{
	my ($view, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("$FIRINGS '$view'::regclass"), $expected, $name);
}

sub exact
{
	my ($view, $stream, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return oracle_ok($node, $view, qq{
		SELECT date_trunc('hour', at) AS window_start, date_trunc('hour', at) + interval '1 hour' AS window_end, count(*) AS n FROM ${stream}_all GROUP BY 1, 2},
		$name);
}

sub staleness
{
	my ($view) = @_;
	return sql("SELECT round(staleness::numeric, 3) FROM aion.windows WHERE view = '$view'::regclass AND window_start = '2024-03-01'");
}

# ---- the guard: the first late event of all is all that is expected ----------------------------------------------------------

create_stream('s', "bucket_width '1 hour'");
sql("SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'), staleness => 0.25)");
add('s', 10);
is(staleness('v'), '', 'a window that is open has no staleness');
past('s', 0);
firings_are('v', '1/0/0', 'fired on time');
is(staleness('v'), '0.000', 'a result that lacks nothing is not stale');
add('s', 1);
firings_are('v', '1/0/0', 'a late event does not have it executed at once');
past('s', 20);
firings_are('v', '1/0/0', 'nor within the bound');
is(staleness('v'), '0.200', 'its staleness is shown');
is(sql(q{SELECT extract(epoch FROM next_firing - now()) BETWEEN 4.9 * 3600 AND 5.1 * 3600 FROM aion.windows WHERE view = 'v'::regclass}), 't', 'and when it would reach the bound');
past('s', 25);
firings_are('v', '1/1/0', 'at the bound it is executed');
is(staleness('v'), '0.000', 'which makes it fresh');
exact('v', 's', 'and exact');
past('s', 60);
firings_are('v', '1/1/0', 'without an event it is not executed again');

# ---- a bound that changes -------------------------------------------------------------------------------------------------

add('s', 1);
past('s', 61);
firings_are('v', '1/1/0', 'an event within the bound waits');
cmp_ok(staleness('v'), '>', 0.15, 'since the execution before it');
sql("SELECT aion.alter_view('v', staleness => 0.1)");
wait_until($node, "SELECT late_firings = 2 FROM aion.views WHERE view = 'v'::regclass", 'a closer bound counts at once');
exact('v', 's', 'exact after it');
sql("SELECT aion.alter_view('v', reset => '{staleness}')");
add('s', 1);
wait_until($node, "SELECT late_firings = 3 FROM aion.views WHERE view = 'v'::regclass", 'without one of its own the view has the default, 0: at once');
sql("ALTER SYSTEM SET aion.staleness = 1; SELECT pg_reload_conf()");
wait_until($node, 'SELECT current_setting(\'aion.staleness\') = \'1\'', 'the default is changed');
add('s', 5);
past('s', 99);
firings_are('v', '1/3/0', 'with the bound 1 late events wait ...');
past('s', 100);
firings_are('v', '1/3/1', '... for the final firing');
exact('v', 's', 'exact in the end');
sql("ALTER SYSTEM RESET aion.staleness; SELECT pg_reload_conf()");

# ---- a restart between -----------------------------------------------------------------------------------------------------

create_stream('r', "bucket_width '1 hour'");
sql("SELECT aion.create_view('rv', 'SELECT count(*) AS n FROM r', aion.tumbling('1 hour'), staleness => 0.25)");
add('r', 10);
past('r', 0);
add('r', 1);
past('r', 20);
kill_server($node, 'KILL');
sql("SELECT aion.sync('r')");
is(staleness('rv'), '0.200', 'staleness survives a crash');
firings_are('rv', '1/0/0', 'and is no reason to execute');
past('r', 25);
firings_are('rv', '1/1/0', 'the bound is kept after it');
exact('rv', 'r', 'exact after it');

# ---- W_e stands still: its clock goes on with the time that passes ------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE c (at timestamptz NOT NULL, k int) SERVER aion
		OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '20 s', bucket_width '1 hour');
	CREATE TABLE c_all (at timestamptz, k int);
	SELECT aion.create_view('cv', 'SELECT count(*) AS n FROM c', aion.tumbling('1 hour'), staleness => 0.1)});
add('c', 10);
past('c', 0);
add('c', 1);
firings_are('cv', '1/0/0', 'not at once');
wait_until($node, "SELECT late_firings = 1 FROM aion.views WHERE view = 'cv'::regclass", 'executed although the watermark stands still');
exact('cv', 'c', 'exact');

# ---- what was learnt from windows before ---------------------------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE l (at timestamptz NOT NULL, k int) SERVER aion
		OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10 hours', bucket_width '1 hour');
	CREATE TABLE l_all (at timestamptz, k int);
	SELECT aion.create_view('lv', 'SELECT count(*) AS n FROM l', aion.tumbling('1 hour'), staleness => 0.05)});
# Each hour has 25 events on time, 45 in the first hour after its end and 30 in the fifth.
my $HOUR = q{timestamptz '2024-03-01' + %d * interval '1 hour'};
my $most = 0;
for my $hour (0 .. 30)
{
	my $at = sprintf($HOUR, $hour);
	for my $step (0 .. 3)
	{
		sql(qq{
			WITH e AS (INSERT INTO l_all
				SELECT t, g FROM (VALUES ($at + interval '1 min', CASE $step WHEN 0 THEN 10 ELSE 0 END), ($at - interval '50 min', 15),
					($at - interval '4 hours 50 min', CASE $step WHEN 1 THEN 30 ELSE 0 END)) v (t, n), generate_series(1, n) g RETURNING *)
			INSERT INTO l TABLE e;
			SELECT aion.advance_watermark('l', $at + $step * interval '15 min');
			SELECT aion.sync('l')});
		my $stale = sql(q{SELECT coalesce(max(staleness), 0) FROM aion.windows WHERE view = 'lv'::regclass AND state IN ('on_time', 'late')});
		$most = $stale if $stale > $most;
	}
}
cmp_ok($most, '<=', 0.05 + 1e-6, "after each look no result is staler than the bound ($most)");
is(sql(q{SELECT late_counts[cardinality(late_counts)] FROM aion.view_state WHERE view = 'lv'::regclass}), '75', 'late events of windows that became final were counted');
cmp_ok(sql(q{SELECT late_firings FROM aion.views WHERE view = 'lv'::regclass}), '<=', 36 * 5, 'with no more executions than the bound can need');
sql("SELECT aion.sync('l', late => true)");
oracle_ok($node, 'lv', q{
	SELECT date_trunc('hour', at) AS window_start, date_trunc('hour', at) + interval '1 hour' AS window_end, count(*) AS n FROM l_all
	 WHERE at < (SELECT date_trunc('hour', watermark) FROM aion.streams WHERE stream = 'l'::regclass) GROUP BY 1, 2}, 'exact');

$node->stop;
done_testing();
