# Windows that wait for the staleness trigger while their view or stream is paused, changed, truncated, dropped or fails,
# and through crashes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Aion;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
my $node = new_node('staleness_lifecycle', conf => "aion.late_interval = 0");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $FIRINGS = q{SELECT concat_ws('/', on_time_firings, late_firings, final_firings) FROM aion.views WHERE view = };
sub firings { return sql("$FIRINGS '$_[0]'::regclass") }
sub make { my ($n, $opt, $spec, $v) = @_;
	sql("CREATE FOREIGN TABLE $n (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', $opt);
	SELECT aion.create_view('${n}v', 'SELECT count(*) AS n FROM $n', $spec, $v);
	INSERT INTO $n SELECT timestamptz '2024-03-01' + g * interval '1 s', 1 FROM generate_series(1, 10) g; SELECT aion.sync('$n');
	SELECT aion.advance_watermark('$n', '2024-03-01 01:00'); SELECT aion.sync('$n');"); }
sub late { my ($n, $c) = @_; sql("INSERT INTO $n SELECT '2024-03-01 00:30', g FROM generate_series(1, $c) g; SELECT aion.sync('$n')"); }
sub past { my ($n, $h) = @_; sql("SELECT aion.advance_watermark('$n', timestamptz '2024-03-01 01:00' + $h * interval '1 hour'); SELECT aion.sync('$n')"); }
my $L = "allowed_lateness '100 hours'";

# pause / resume
make('p', $L, "aion.tumbling('1 hour')", 'staleness => 0.25');
late('p', 1); sql("SELECT aion.pause_view('pv')"); sql("SELECT aion.advance_watermark('p', '2024-03-02 12:00')"); sleep 1;
is(firings('pv'), '1/0/0', 'paused');
sql("SELECT aion.resume_view('pv')");
wait_until($node, "SELECT late_firings = 1 FROM aion.views WHERE view = 'pv'::regclass", 'resumed');
# alter lateness while waiting
late('p', 1);
sql("SELECT aion.alter_view('pv', allowed_lateness => '200 hours')"); past('p', 50);
is(firings('pv'), '1/1/0', 'bound not reached yet'); past('p', 90);
is(firings('pv'), '1/2/0', 'altered lateness, then due');
# late_interval
late('p', 1);
sql("ALTER SYSTEM SET aion.late_interval = -1; SELECT pg_reload_conf()"); sleep 0.5; past('p', 95); late('p', 3); past('p', 160);
is(firings('pv'), '1/2/0', 'late_interval -1');
is(sql("SELECT next_firing IS NULL FROM aion.windows WHERE view = 'pv'::regclass"), 't', 'next_firing null');
sql("ALTER SYSTEM RESET aion.late_interval; SELECT pg_reload_conf()");
wait_until($node, "SELECT late_firings = 3 FROM aion.views WHERE view = 'pv'::regclass", 'and back');
late('p', 1); past('p', 201); is(firings('pv'), '1/3/1', 'final'); is(sql('SELECT n FROM pv'), 18 - 1, 'exact');

# failing query
make('f', $L, "aion.tumbling('1 hour')", 'staleness => 0.25');
sql("CREATE TABLE div (x int); INSERT INTO div VALUES (1); SELECT aion.create_view('f2v', 'SELECT sum(10 / x) AS n FROM f, div', aion.tumbling('1 hour'), staleness => 0.25); SELECT aion.sync('f')");
is(firings('f2v'), '1/0/0', 'taken up');
sql("UPDATE div SET x = 0; INSERT INTO f VALUES ('2024-03-01 00:31', 0); SELECT aion.sync('f')"); past('f', 26);
is(sql("SELECT state FROM aion.windows WHERE view = 'f2v'::regclass"), 'failed', 'failed');
is(firings('f2v'), '1/0/0', 'failed late'); past('f', 60);
late('f', 1); is(firings('f2v'), '1/0/0', 'again'); note(sql("SELECT state, pending_events, next_firing FROM aion.windows WHERE view = 'f2v'::regclass"));
sql("UPDATE div SET x = 1"); late('f', 1); past('f', 99);
is(firings('f2v'), '1/1/0', 'succeeds');
note(firings('f2v') . ' ' . sql("SELECT state, pending_events FROM aion.windows WHERE view = 'f2v'::regclass"));

# unlimited, years
make('u', "allowed_lateness 'unlimited'", "aion.tumbling('1 hour')", 'staleness => 0.25');
late('u', 4); past('u', 24 * 365 * 50); is(firings('uv'), '1/1/0', 'unlimited'); late('u', 1); sleep 0.2; is(firings('uv'), '1/1/0', 'waits'); past('u', 24 * 365 * 51); is(firings('uv'), '1/2/0', 'after a year');
note(sql("SELECT staleness, next_firing FROM aion.windows WHERE view = 'uv'::regclass"));
# lateness 0
make('z', "allowed_lateness '0'", "aion.tumbling('1 hour')", 'staleness => 0.25'); late('z', 1); is(firings('zv'), '1/0/1', 'lateness 0');
# months
make('mo', "allowed_lateness '3 months'", "aion.tumbling('1 hour')", 'staleness => 0.5'); late('mo', 1); past('mo', 24 * 47); is(firings('mov'), '1/1/0', 'months');
# truncate while waiting
make('t', $L, "aion.tumbling('1 hour')", 'staleness => 0.25'); late('t', 1); sql("TRUNCATE t"); sql("SELECT aion.sync('t')");
sql("INSERT INTO t VALUES ('2024-03-01 00:30', 1); SELECT aion.sync('t')"); past('t', 0); late('t', 1); past('t', 26); is(firings('tv'), '1/1/0', 'truncated');
# drop a stream and view while waiting
late('t', 1); sql("SELECT aion.drop_view('tv')"); past('t', 60); sql("DROP FOREIGN TABLE t"); is(sql("SELECT 1"), '1', 'dropped');

# W_e stands still: staleness goes on by the clock, also while the server is down, and is shown as the trigger has it
make('st', "allowed_lateness '10 seconds'", "aion.tumbling('1 hour')", 'staleness => 0.5');
late('st', 1);
my $WINDOW = q{FROM aion.windows WHERE view = 'stv'::regclass};
wait_until($node, "SELECT staleness > 0.1 $WINDOW", 'staleness grows while the watermark stands still');
my ($before, $next) = split /\|/, sql("SELECT staleness, extract(epoch FROM next_firing) $WINDOW");
kill_server($node, 'KILL');
cmp_ok(sql("SELECT staleness $WINDOW"), '>', $before, 'a crash does not take that back');
cmp_ok(abs(sql("SELECT extract(epoch FROM next_firing) $WINDOW") - $next), '<', 0.01, 'the next execution stays where it was');
wait_until($node, "SELECT late_firings = 1 FROM aion.views WHERE view = 'stv'::regclass", 'executed while the watermark stands still');
my $off = sql("SELECT extract(epoch FROM last_fired_at) - $next $WINDOW");
ok($off > -0.1 && $off < 2, "when it was said to be: $off s off");
is(sql("SELECT staleness $WINDOW"), '0', 'and is fresh');
late('st', 1);
cmp_ok(sql("SELECT staleness $WINDOW"), '<', 0.2, 'what it stood still before that execution does not count again');
sql("SELECT aion.advance_watermark('st', '2024-03-01 01:00:01'); SELECT aion.sync('st')");
is(sql(q{SELECT event_watermark = '2024-03-01 01:00:01+00' AND stood_still BETWEEN 3e6 AND 30e6 FROM aion.stream_state WHERE stream = 'st'::regclass}), 't',
	'what the watermark does not make up for stays on the clock');
sql("SELECT aion.reset_watermark('st', '2024-03-01 01:00:00')");
is(sql(q{SELECT stood_still FROM aion.stream_state WHERE stream = 'st'::regclass}), '0', 'until it is reset');

# sliding, random, with kills
sql("CREATE FOREIGN TABLE s (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness '10 hours');
	CREATE TABLE s_all (at timestamptz, k int); SELECT aion.create_view('sv', 'SELECT count(*) AS n FROM s', aion.sliding('2 hours', '30 min'), staleness => 0.05)");
my $most = 0;
for my $i (0 .. 100)
{
	my $at = "timestamptz '2024-03-01' + $i * interval '20 min'";
	sql("WITH e AS (INSERT INTO s_all SELECT $at - interval '9 hours' * random() * random(), g FROM generate_series(1, 60) g RETURNING *) INSERT INTO s TABLE e;
		SELECT aion.advance_watermark('s', $at); SELECT aion.sync('s');");
	my $m = sql("SELECT coalesce(max(staleness), 0) FROM aion.windows WHERE view = 'sv'::regclass AND state IN ('on_time', 'late')");
	$most = $m if $m > $most;
	kill_server($node, 'KILL') if $i == 40;
	if ($i == 60) { kill_worker($node, 'scheduler'); sleep 1; $node->poll_query_until('postgres', 'SELECT true'); }
}
cmp_ok($most, '<=', 0.05 / 0.95 + 1e-6, "most $most");
is(sql("SELECT count(*) FROM aion.window_state WHERE view = 'sv'::regclass AND late_events < 0"), '0', 'counts');
note(sql("SELECT late_counts FROM aion.view_state WHERE view = 'sv'::regclass"));
note(firings('sv'));
# counts of final windows against the truth: an event is late for the windows that end at or before W when it came
sql("SELECT aion.sync('s', late => true)");
is(sql("SELECT count(*) FROM (SELECT w.window_start, w.events, (SELECT count(*) FROM s_all a WHERE a.at >= w.window_start AND a.at < w.window_end) AS n FROM aion.windows w WHERE view = 'sv'::regclass AND state = 'late') x WHERE events <> n"), '0', 'events');
is(sql("SELECT count(*) FROM aion.windows w JOIN sv USING (window_start) WHERE view = 'sv'::regclass AND state = 'late' AND n <> events"), '0', 'results exact');

# many windows
sql("CREATE FOREIGN TABLE b (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1000 days');
	SELECT aion.create_view('bv', 'SELECT count(*) AS n FROM b', aion.tumbling('10 s'), staleness => 0.05);
	INSERT INTO b SELECT timestamptz '2024-03-01' + g * interval '10 s' FROM generate_series(0, 19999) g; SELECT aion.sync('b', timeout => '100 s');
	SELECT aion.advance_watermark('b', '2024-03-05'); SELECT aion.sync('b', timeout => '100 s')");
my $t0 = time; sql("INSERT INTO b SELECT timestamptz '2024-03-01' + g * interval '10 s' FROM generate_series(0, 19999) g; SELECT aion.sync('b', timeout => '100 s')");
note(sprintf('20000 late windows: %.2f s', time - $t0));
$t0 = time; sql("INSERT INTO b VALUES ('2024-03-01', 1); SELECT aion.sync('b')"); note(sprintf('one more: %.2f s', time - $t0));
$t0 = time; note(sql("SELECT count(*), max(staleness), max(next_firing) - now(), count(*) FILTER (WHERE pending_events > 0) FROM aion.windows WHERE view = 'bv'::regclass")); note(sprintf('aion.windows: %.2f s', time - $t0));
$t0 = time; sql("SELECT * FROM aion.windows WHERE view = 'bv'::regclass AND window_start = '2024-03-01'"); note(sprintf('one window: %.2f s', time - $t0));
$t0 = time; sql("ALTER SYSTEM SET aion.staleness = 0.5; SELECT pg_reload_conf(); SELECT pg_sleep(0.2); SELECT aion.sync('b')"); note(sprintf('guc: %.2f s', time - $t0));
$node->stop('immediate');
done_testing();
