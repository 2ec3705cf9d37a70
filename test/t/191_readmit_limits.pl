# Where aion.readmit(), purging, reset_watermark and what is learnt of lateness meet.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('limits', conf => "aion.late_interval = -1\naion.initial_lateness = '50 s'\nautovacuum = off");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sub error_of
{
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$_[0]");
	return $err;
}

# ---- as many events were purged as the window has missed others: the numbers tell nothing ------------------------------------

sql(q{
	CREATE FOREIGN TABLE p (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 min', watermark_interval '5 ms', allowed_lateness '3 min');
	SELECT aion.create_view('pv', 'SELECT array_agg(id ORDER BY id) AS ids FROM p', aion.sliding('10 min', '1 min'));
	INSERT INTO p SELECT g, '2024-03-01 10:00:30+00' FROM generate_series(1, 3) g;
	INSERT INTO p SELECT 10 + g, '2024-03-01 10:05:30+00' FROM generate_series(1, 2) g;
	SELECT aion.advance_watermark('p', '2024-03-01 10:13:00+00'); SELECT aion.sync('p')});
is(sql(q{SELECT ids FROM pv WHERE window_start = '2024-03-01 10:00+00'}), '{1,2,3,11,12}', 'a final window');
wait_until($node, 'SELECT count(*) = 2 FROM p', 'three of its events are purged');
sql(q{INSERT INTO p SELECT 100 + g, '2024-03-01 10:05:40+00' FROM generate_series(1, 4) g; SELECT aion.sync('p', late => true)});
is(sql(q{SELECT count(*) FROM aion.expired WHERE partial}), '4', 'four that it has missed are stored');
like(error_of('SELECT aion.readmit((SELECT min(id) FROM aion.expired))'), qr/55000.*lacks events that were purged/s, 'one of them alone is refused');
is(sql(q{SELECT ids FROM pv WHERE window_start = '2024-03-01 10:00+00'}), '{1,2,3,11,12}', 'and the result stays');

# ---- what was observed of late events is not lost -----------------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE o (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 s', watermark_interval '5 ms');
	SELECT aion.create_view('ov', 'SELECT count(*) AS n FROM o', aion.tumbling('1 s'), allowed_lateness => '10 s');
	INSERT INTO o SELECT g, '2024-03-01 10:00:00+00' FROM generate_series(1, 3) g;
	SELECT aion.advance_watermark('o', '2024-03-01 10:01:00+00'); SELECT aion.sync('o')});
for (1 .. 8)
{
	sql(q{INSERT INTO o SELECT g, '2024-03-01 10:00:00+00' FROM generate_series(1, 100) g; SELECT aion.sync('o')});
	sql('SELECT aion.readmit(' . sql(q{SELECT min(id) FROM aion.expired WHERE stream = 'o'::regclass}) . ')');
}
wait_until($node, q{SELECT late_events = 800 FROM aion.lateness WHERE stream = 'o'::regclass}, 'all late events are observed, whatever is readmitted between');

# ---- W is not reset below the end of a window that is open again ----------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE w (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '0', watermark_interval '5 ms');
	SELECT aion.create_view('w1', 'SELECT count(*) AS n FROM w', aion.tumbling('1 min'));
	INSERT INTO w VALUES (1, '2024-03-01 09:00:00+00'); SELECT aion.advance_watermark('w', '2024-03-01 11:00+00'); SELECT aion.sync('w');
	INSERT INTO w VALUES (2, '2024-03-01 10:30:00+00'); SELECT aion.sync('w');
	SELECT aion.drop_view('w1');
	SELECT aion.create_view('w2', 'SELECT count(*) AS n FROM w', aion.tumbling('1 min'));
	SELECT aion.sync('w'); SELECT aion.pause_view('w2')});
sql(q{SELECT aion.readmit((SELECT id FROM aion.expired WHERE stream = 'w'::regclass))});
sql(q{SELECT aion.reset_watermark('w', '2024-03-01 09:30+00')});
is(sql(q{SELECT watermark FROM aion.streams WHERE stream = 'w'::regclass}), '2024-03-01 10:31:00+00', 'W goes back to the end of the window');
sql(q{SELECT aion.resume_view('w2'); SELECT aion.sync('w')});
usleep(500_000);
is(sql(q{SELECT early_firings, (SELECT n FROM w2 WHERE window_start = '2024-03-01 10:30+00') FROM aion.views WHERE view = 'w2'::regclass}), '0|1', 'which is executed, and not for ever');

# ---- an incomplete window does not begin anew when its row is purged and W is reset ------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE i (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '5 min', bucket_width '1 min', watermark_interval '5 ms');
	SELECT aion.create_view('i1', 'SELECT count(*) AS n FROM i', aion.tumbling('1 min'), allowed_lateness => '0');
	INSERT INTO i VALUES (1, '2024-03-01 10:00:10+00'); SELECT aion.advance_watermark('i', '2024-03-01 10:02+00'); SELECT aion.sync('i');
	INSERT INTO i VALUES (2, '2024-03-01 10:00:20+00'); SELECT aion.sync('i');
	SELECT aion.drop_view('i1');
	SELECT aion.create_view('i2', 'SELECT count(*) AS n FROM i', aion.tumbling('1 min'));
	SELECT aion.sync('i'); SELECT aion.advance_watermark('i', '2024-03-01 10:20+00'); SELECT aion.sync('i')});
wait_until($node, q{SELECT count(*) = 0 FROM aion.windows WHERE view = 'i2'::regclass}, 'the row of an incomplete window is purged');
sql(q{
	SELECT aion.reset_watermark('i', '2024-03-01 10:00+00'); INSERT INTO i VALUES (3, '2024-03-01 10:00:30+00');
	SELECT aion.advance_watermark('i', '2024-03-01 10:02+00'); SELECT aion.sync('i')});
is(sql('SELECT count(*) FROM i2'), '0', 'it gets no result');

# ---- what INSERT refuses is never seen: the first estimate stays ---------------------------------------------------------

$node->safe_psql('postgres', q{
	CREATE FOREIGN TABLE refusing (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 s',
		lateness_coverage '0.5', lateness_confidence '0.5', on_expired 'error');
	SELECT aion.create_view('refusing_v', 'SELECT count(*) AS n FROM refusing', aion.tumbling('1 s'))});
for my $second (1 .. 60)
{
	my $at = "timestamptz '2024-03-01' + interval '$second s'";
	$node->safe_psql('postgres', "INSERT INTO refusing VALUES ($at), ($at - interval '1.5 s');
		SELECT aion.advance_watermark('refusing', $at); SELECT aion.sync('refusing')");
}
my $seen = q{SELECT state, late_events FROM aion.lateness WHERE stream = 'refusing'::regclass};
# lowering W writes what is not written yet
$node->safe_psql('postgres', q{SELECT aion.reset_watermark('refusing', '2024-03-01 00:00:59.9')});
my $before = $node->safe_psql('postgres', $seen);
like($before, qr/^estimated/, 'the lateness is estimated');
$node->safe_psql('postgres', q{INSERT INTO refusing SELECT timestamptz '2024-03-01 00:00:58' FROM generate_series(1, 50);
	SELECT aion.sync('refusing'); SELECT aion.reset_watermark('refusing', '2024-03-01 00:00:59.8')});
is($node->safe_psql('postgres', $seen), $before, 'late events are not observed any more');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
