# The staleness trigger at its edges: clocks that were set back or stand still, bounds that ask for too much, forecasts
# that change within one pass, and what aion.windows shows then.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Aion;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node('staleness_edges', conf => "aion.late_interval = 0");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub try { my ($r, $o, $e) = $node->psql('postgres', $_[0], timeout => 20, timed_out => \my $t); return $t ? 'TIMEOUT' : $r ? "error: $e" : $o; }
my $FIRINGS = q{SELECT concat_ws('/', on_time_firings, late_firings, final_firings) FROM aion.views WHERE view = };
sub firings { return sql("$FIRINGS '$_[0]'::regclass") }

# 1 sync after the advance, same turn
sql(q{CREATE FOREIGN TABLE a (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1000 hours', bucket_width '1 hour');
SELECT aion.create_view('av', 'SELECT count(*) AS n, (SELECT count(*) FROM generate_series(1, 500000)) AS slow FROM a', aion.tumbling('1 hour'), staleness => 0.01);
INSERT INTO a SELECT timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 10) g;
SELECT aion.advance_watermark('a', '2024-03-01 01:00'); SELECT aion.sync('a')});
my $lost = 0;
for my $i (1 .. 6)
{
	my $n = sql(qq{INSERT INTO a VALUES ('2024-03-01 00:30', $i); SELECT aion.sync('a');
	SELECT aion.advance_watermark('a', timestamptz '2024-03-01 01:00' + $i * interval '20 hours' * $i); SELECT aion.sync('a');
	SELECT staleness FROM aion.windows WHERE view = 'av'::regclass});
	$n = (split /\n/, $n)[-1];
	$lost++ if $n ne '0';
	note("stale after sync: $n");
}
is($lost, 0, 'sync waits for windows that W_e made due');

# 2 a mad clock, and the way out, default bound
sql(q{CREATE FOREIGN TABLE m (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '20000 days', bucket_width '1 hour');
SELECT aion.create_view('mv', 'SELECT count(*) AS n FROM m', aion.tumbling('1 hour'));
INSERT INTO m SELECT timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 10) g;
SELECT aion.sync('m');
SELECT aion.advance_watermark('m', '2030-01-01'); SELECT aion.sync('m');
SELECT aion.reset_watermark('m', '2024-03-01 00:30'); SELECT aion.sync('m');
INSERT INTO m VALUES ('2024-03-01 00:40', 1); SELECT aion.sync('m')});
sleep 2;
is(sql('SELECT n FROM mv'), '11', 'after a reset the window takes events in');
is(firings('mv'), '1/1/0', 'by a late firing');
sql(q{SELECT aion.advance_watermark('m', '2024-03-02'); SELECT aion.sync('m')});
is(sql('SELECT n FROM mv'), '11', 'after a reset the window takes events in, W beyond its end again');

# 3 idle time fired it, then a restart, default bound
sql(q{CREATE FOREIGN TABLE i (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', idle_timeout '1 s', allowed_lateness '100 hours', bucket_width '1 hour');
SELECT aion.create_view('iv', 'SELECT count(*) AS n FROM i', aion.tumbling('1 min', origin => timestamptz '2024-03-01 00:00:08'));
INSERT INTO i VALUES ('2024-03-01 00:01:05', 1); SELECT aion.sync('i')});
wait_until($node, "SELECT on_time_firings = 1 FROM aion.views WHERE view = 'iv'::regclass", 'fired by idle time');
sql(q{CREATE FOREIGN TABLE i2 (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', idle_timeout '1 s', allowed_lateness '100 hours', bucket_width '1 hour');
SELECT aion.create_view('i2v', 'SELECT count(*) AS n FROM i2', aion.tumbling('12 s', origin => timestamptz '2024-03-01 00:00:00'));
INSERT INTO i2 VALUES ('2024-03-01 00:00:00', 1); SELECT aion.sync('i2')});
wait_until($node, "SELECT on_time_firings = 1 FROM aion.views WHERE view = 'i2v'::regclass", 'fired by idle time');
$node->restart;
my $t0 = time;
sql(q{INSERT INTO i2 VALUES ('2024-03-01 00:00:00', 2); SELECT aion.sync('i2')});
wait_until($node, "SELECT late_firings = 1 FROM aion.views WHERE view = 'i2v'::regclass", 'late firing');
cmp_ok(time - $t0, '<', 4, 'at once after a restart (' . (time - $t0) . ')');

# 4 the clock counts a standstill twice
sql(q{CREATE FOREIGN TABLE d (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '40 s', bucket_width '1 hour');
SELECT aion.create_view('dv', 'SELECT count(*) AS n FROM d', aion.tumbling('1 hour'), staleness => 0.25);
INSERT INTO d SELECT timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 10) g; SELECT aion.sync('d');
SELECT aion.advance_watermark('d', '2024-03-01 01:00'); SELECT aion.sync('d');
INSERT INTO d VALUES ('2024-03-01 00:30', 1); SELECT aion.sync('d')});
sleep 6.5;
sql(q{SELECT aion.advance_watermark('d', '2024-03-01 01:00:06.5'); SELECT aion.sync('d');  SELECT aion.sync('d')});
is(firings('dv'), '1/0/0', 'time that W_e makes up for is not counted twice');

# 4b a view that is loaded again after W_e has stood still
sql(q{CREATE FOREIGN TABLE g (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '20 s', bucket_width '1 hour');
SELECT aion.create_view('gv', 'SELECT count(*) AS n FROM g', aion.tumbling('1 hour'), staleness => 0.4);
INSERT INTO g SELECT timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 10) g; SELECT aion.sync('g');
SELECT aion.advance_watermark('g', '2024-03-01 00:59:59.999'); SELECT aion.sync('g')});
sleep 12;
sql(q{SELECT aion.advance_watermark('g', '2024-03-01 01:00'); SELECT aion.sync('g');
INSERT INTO g VALUES ('2024-03-01 00:30', 1); SELECT aion.sync('g')});
is(firings('gv'), '1/0/0', 'waits');
sql(q{SELECT aion.alter_view('gv', allowed_lateness => '21 s'); SELECT aion.sync('g'); SELECT pg_sleep(0.3); SELECT aion.sync('g')});
is(firings('gv'), '1/0/0', 'a lateness that was changed does not have it executed at once');

# 4c a forecast from what a pass has counted so far
sql(q{CREATE FOREIGN TABLE h (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1000 hours', bucket_width '1 hour');
SELECT aion.create_view('hv', 'SELECT count(*) AS n FROM h', aion.tumbling('10 min'), staleness => 0.01);
INSERT INTO h SELECT timestamptz '2024-03-01' + g * interval '10 min' FROM generate_series(0, 143) g; SELECT aion.sync('h');
SELECT aion.advance_watermark('h', '2024-03-02'); SELECT aion.sync('h');
INSERT INTO h SELECT timestamptz '2024-03-01' + g * interval '10 min' FROM generate_series(0, 143) g, generate_series(1, CASE g WHEN 65 THEN 300 ELSE 1 END) n; SELECT aion.sync('h')});
sql(q{SELECT aion.advance_watermark('h', timestamptz '2024-03-02' + 0.01 * 1000 * interval '1 hour' * (300 + 143) / 144.0 + interval '5 hours'); SELECT aion.sync('h')});
my $worst = sql(q{SELECT max(staleness) FROM aion.windows WHERE view = 'hv'::regclass});
cmp_ok($worst, '<=', 0.01 / 0.95, "no window waits by a forecast from a part of a pass ($worst)");

# 5 plans
is(substr(try("SELECT aion.staleness_plan(NULL, 0.1, 0.9999999999)"), 0, 30), '{1}', 'a plan that begins next to the end');
for my $q ("aion.staleness_plan(ARRAY[1e-320,1e-320]::float8[], 1e-8, 0)", "aion.staleness_plan(array_fill(1.0::float8, ARRAY[100000]), 1e-8, 0)", "aion.staleness_plan(ARRAY[1e308,1]::float8[], 1e-8, 0.5)", "aion.staleness_plan(array_append(array_fill(0::float8, ARRAY[99999]),1::float8), 1e-8, 0)")
{
	$t0 = time;
	my $r = try("SELECT cardinality($q), ($q)[cardinality($q)]");
	note(sprintf("%s: %s, %.2f s", $q, $r, time - $t0));
}

# 6 shown times
sql(q{CREATE FOREIGN TABLE n (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '100 hours', bucket_width '1 hour');
SELECT aion.create_view('nv', 'SELECT count(*) AS n FROM n', aion.tumbling('1 hour'), staleness => 1);
INSERT INTO n SELECT timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 10) g; SELECT aion.sync('n');
SELECT aion.advance_watermark('n', '2024-03-01 01:00'); SELECT aion.sync('n');
INSERT INTO n VALUES ('2024-03-01 00:30', 1); SELECT aion.sync('n');
SELECT aion.advance_watermark('n', '2024-03-03 01:00'); SELECT aion.sync('n', late => true);
INSERT INTO n VALUES ('2024-03-01 00:30', 1); SELECT aion.sync('n')});
note('next_firing with bound 1, 52 hours left: ' . sql(q{SELECT next_firing - now() FROM aion.windows WHERE view = 'nv'::regclass}));
is(sql(q{SELECT next_firing - now() <= interval '52 hours 1 s' FROM aion.windows WHERE view = 'nv'::regclass}), 't', 'not after the final firing');
sql(q{CREATE FOREIGN TABLE o (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10000 years', bucket_width '1 hour');
SELECT aion.create_view('ov', 'SELECT count(*) AS n FROM o', aion.tumbling('1 hour'), staleness => 1);
INSERT INTO o SELECT timestamptz '1001-03-01 BC' + g * interval '1 s' FROM generate_series(1, 10) g; SELECT aion.sync('o');
SELECT aion.advance_watermark('o', '1001-03-01 01:00 BC'); SELECT aion.sync('o');
INSERT INTO o SELECT '1001-03-01 00:30 BC', g FROM generate_series(1, 284) g; SELECT aion.sync('o', late => true);
INSERT INTO o SELECT '1001-03-01 00:30 BC', g FROM generate_series(1, 10) g; SELECT aion.sync('o')});
my $r = try('SELECT view, next_firing, staleness FROM aion.windows');
unlike($r, qr/error/, 'aion.windows can be read') or note($r);
note($r);
sql(q{SELECT aion.drop_view('ov')});

# 7 a tiny bound
sql(q{CREATE FOREIGN TABLE t (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '100 hours', bucket_width '1 hour');
SELECT aion.create_view('tv', 'SELECT count(*) AS n FROM t', aion.tumbling('1 hour'), staleness => 1e-300);
INSERT INTO t SELECT timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 10) g; SELECT aion.sync('t');
SELECT aion.advance_watermark('t', '2024-03-01 01:00'); SELECT aion.sync('t');
SELECT aion.advance_watermark('t', '2024-03-01 02:00'); SELECT aion.sync('t')});
is(try(q{INSERT INTO t VALUES ('2024-03-01 00:30', 1); SELECT aion.sync('t', timeout => '10 s')}), '', 'a tiny bound does not stop the scheduler');
is(try(q{SELECT count(*) FROM aion.windows WHERE view = 'tv'::regclass}), '1', 'nor aion.windows');
$node->stop('immediate');
done_testing();
