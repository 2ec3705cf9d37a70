# Random rounds of late events under an automatic lateness, readmitted, retained, with resets, pauses and crashes, against the
# batch query. Repeat with AION_SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(usleep);
my $node = new_node('readmit_random', conf => "aion.late_interval = '10ms'\naion.initial_lateness = '20 s'\nautovacuum = off\nlog_statement = none");
my $session = Session->new($node);
my $SEC = 1_000_000;
my $BASE = 1_709_287_200 * $SEC;
my $seed = $ENV{AION_SEED} // int(rand(2**31));
note("AION_SEED=$seed");
srand($seed);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub at { return sprintf "(timestamptz 'epoch' + interval '%d us')", $_[0] }
sub lateness { my ($u, $v) = (1 - rand(), rand()); return int(exp(sqrt(-2 * log $u) * cos(6.283185307179586 * $v)) * $SEC) + 1 }
sql(q{CREATE FOREIGN TABLE z (id bigint, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 s', watermark_interval '5 ms', lateness_coverage '0.6', lateness_confidence '0.8');
	CREATE TABLE z_all (id bigint, at timestamptz);
	SELECT aion.create_view('z1', 'SELECT count(*) AS n, sum(id) AS ids FROM z', aion.tumbling('1 s'));
	SELECT aion.create_view('z4', 'SELECT count(*) AS n, sum(id) AS ids FROM z', aion.sliding('4 s', '1 s'));
	SELECT aion.create_view('zx', 'SELECT count(*) AS n, sum(id) AS ids FROM z', aion.sliding('3 s', '1 s'), allowed_lateness => '2 s');
	SELECT aion.create_view('zr', 'SELECT count(*) AS n, sum(id) AS ids FROM z', aion.tumbling('1 s'), retain => '5 s');
	SELECT aion.sync('z')});
my $id = 1;
my $w = $BASE;
sub step
{
	my ($times, $to) = @_;
	my $rows = join ',', map { '(' . $id++ . ',' . at($_) . ')' } @$times;
	my $s = 'BEGIN;';
	$s .= "WITH e AS (INSERT INTO z_all VALUES $rows RETURNING *) INSERT INTO z TABLE e;" if @$times;
	$s .= "SELECT aion.advance_watermark('z', " . at($to) . ');' if $to;
	sql("$s COMMIT");
	$w = $to if $to && $to > $w;
	return;
}
sub check
{
	my ($name) = @_;
	for my $v (qw(z1 z4 zx zr)) { my ($s, $o, $e) = $node->psql('postgres', "SELECT aion.sync('z'); SELECT aion.refresh('$v')"); note($e) if $e; }
	sql(q{DROP TABLE IF EXISTS fates; CREATE TABLE fates AS SELECT (event->>'id')::bigint AS id, x.view, x.window_start FROM aion.expired e, jsonb_to_recordset(e.windows) AS x (view text, window_start timestamptz) WHERE e.stream = 'z'::regclass; CREATE INDEX ON fates (id)});
	for my $v (['z1', 1], ['z4', 4], ['zx', 3])
	{
		my $expect = "SELECT w AS window_start, count(*) AS n, sum(id) AS ids FROM z_all a, generate_series(date_trunc('second', at) - interval '$v->[1] s' + interval '1 s', date_trunc('second', at), interval '1 s') w WHERE NOT EXISTS (SELECT FROM fates f WHERE f.id = a.id AND f.view = '$v->[0]' AND f.window_start = w) GROUP BY 1";
		is(sql("WITH e AS ($expect), a AS (SELECT window_start, n, ids FROM $v->[0]) (SELECT 'missing', e.* FROM (TABLE e EXCEPT ALL TABLE a) e LIMIT 5) UNION ALL (SELECT 'extra', e.* FROM (TABLE a EXCEPT ALL TABLE e) e LIMIT 5)"), '', "$name: $v->[0]");
	}
	is(sql(q{SELECT events - (SELECT count(*) FROM z_all) FROM aion.streams WHERE stream = 'z'::regclass}), '0', "$name: counted");
	is(sql(q{SELECT count(*) - count(DISTINCT id) FROM z}), '0', "$name: no doubles");
	return;
}
step([ map { $BASE + int(rand($SEC)) } 1 .. 10 ], $BASE + 30 * $SEC);
my %count;
for my $round (1 .. 160)
{
	step([ (map { $w - int(rand(3)) * $SEC - lateness() } 1 .. int(rand(15))), (map { $w + int(rand(3 * $SEC)) } 1 .. int(rand(60))) ], rand() < 0.8 ? $w + int(rand(3 * $SEC)) : undef);
	my $x = rand();
	if ($x < 0.3)
	{
		my $frac = (0.05, 0.3, 1)[ int(rand(3)) ];
		my $part = (q{true}, q{partial}, q{NOT partial})[ int(rand(3)) ];
		my ($s, $o, $e) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT aion.sync('z'); SELECT aion.readmit(VARIADIC coalesce((SELECT array_agg(id) FROM aion.expired WHERE stream = 'z'::regclass AND random() < $frac AND $part AND event_time > (SELECT event_watermark - interval '6 s' FROM aion.streams WHERE stream = 'z'::regclass)), '{}'))");
		$count{ $e =~ /(\w{5}): / ? $1 . ($e =~ /(purged|missed|paused)/ ? " $1" : '') : 'ok' }++;
	}
	elsif ($x < 0.36) { $node->psql('postgres', "SELECT aion.reset_watermark('z', " . at($w - int(rand(10 * $SEC))) . ')'); $w = sql("SELECT (extract(epoch FROM event_watermark) * 1000000)::bigint FROM aion.streams WHERE stream = 'z'::regclass"); $count{reset}++; }
	elsif ($x < 0.40) { sql("SELECT aion.pause_view('z4')"); }
	elsif ($x < 0.46) { sql("SELECT aion.resume_view('z4')"); }
	elsif ($x < 0.49) { kill_worker($node, 'scheduler', 'TERM'); }
	elsif ($x < 0.51) { kill_server($node); }
	if ($round % 20 == 0) { sql("SELECT aion.resume_view('z4')"); check("round $round"); }
}
note(join ', ', map { "$_: $count{$_}" } sort keys %count);
note(sql(q{SELECT * FROM aion.lateness WHERE stream = 'z'::regclass}));
step([ map { $w + 100 * $SEC + int(rand($SEC)) } 1 .. 200 ], $w + 101 * $SEC);
check('end');
is(sql(q{SELECT count(*) FROM aion.windows WHERE state NOT IN ('final') AND window_start < (SELECT watermark - interval '70 s' FROM aion.streams WHERE stream = 'z'::regclass)}), '0', 'all is final');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM zr WHERE window_end < (SELECT watermark - interval '70 s' FROM aion.streams WHERE stream = 'z'::regclass)});
is(sql(q{SELECT count(*) FROM zr WHERE window_end < (SELECT watermark - interval '70 s' FROM aion.streams WHERE stream = 'z'::regclass)}), '0', 'not retained');
$session->close;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
