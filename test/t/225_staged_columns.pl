# Staging copies of a block the columns that executions read. Who needs others gets them, and the right ones, whatever copies
# are there.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

# Late events have to be asked for; what they need is prestaged when they come.
my $node = new_node('staged_columns', conf => "aion.late_interval = '1 h'\nautovacuum = off\naion.executors = 1\naion.memory = 32MB");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub staged { return sql('SELECT coalesce(sum(staged_bytes), 0) FROM aion.buckets') }
sub moved { return sql("SELECT coalesce(sum(bytes), 0) FROM aion.io WHERE kind IN ('stage', 'prestage') AND state = 'done'") }
sub quiet { return wait_until($node, q{SELECT NOT EXISTS (SELECT FROM aion.io WHERE state <> 'done')}, 'staging is through') }

sub exact
{
	my ($view, $query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return oracle_ok($node, $view, qq{
		SELECT w AS window_start, w + interval '1 h' AS window_end, $query
		  FROM (SELECT *, date_trunc('hour', at) AS w FROM p) e
		 WHERE w + interval '1 h' <= (SELECT watermark FROM aion.streams) GROUP BY w}, $name);
}

# Seventy columns, so that some share a bit, of which one takes nearly all of a block; blocks of fewer columns come first.
my $columns = join ', ', map { "c$_ int" } 1 .. 70;
sql(qq{
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, pad text, id bigint, $columns) SERVER aion
		OPTIONS (event_time 'at', bucket_width '1 h', watermark 'manual', allowed_lateness 'unlimited');
	CREATE TABLE p (at timestamptz NOT NULL, pad text, id bigint, $columns);
	CREATE FUNCTION fill(since timestamptz, n int) RETURNS void LANGUAGE plpgsql AS \$\$
		BEGIN
			CREATE TEMP TABLE new ON COMMIT DROP AS
				SELECT since + g * interval '1 h' / (n + 1) AS at, (SELECT string_agg(md5(g || '-' || h), '') FROM generate_series(1, 60) h) AS pad, g AS id,
					   g % 7 AS c1, g % 1000 AS c61, -g AS c70
				  FROM generate_series(1, n) g;
			INSERT INTO s (at, pad, id, c1, c61, c70) TABLE new;
			INSERT INTO p (at, pad, id, c1, c61, c70) TABLE new;
		END \$\$;
	SELECT aion.create_view('narrow', 'SELECT count(*) AS n, sum(id) AS ids FROM s', aion.tumbling('1 h'))});
sql("SELECT fill('2024-03-01 00:00+00', 3000)");
sql(q{SELECT aion.destage('s')});
my $NARROW = 'count(*) AS n, sum(id) AS ids';

# ---- few columns are fetched ------------------------------------------------------------------------------------------

my ($disk) = sql('SELECT sum(disk_bytes) FROM aion.buckets');
cmp_ok($disk, '>', 3_000_000, 'blocks are large');
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 02:00+00'); SELECT aion.sync('s')});
exact('narrow', $NARROW, 'a window of which few columns are read');
my $moved = moved();
ok($moved > 0 && $moved < $disk / 20, "which were staged alone: $moved bytes of $disk");

# ---- copies that lack a column ----------------------------------------------------------------------------------------

sub late { return sql("INSERT INTO s (at, id, pad) VALUES ('2024-03-01 00:30+00', $_[0], 'late'); INSERT INTO p (at, id, pad) VALUES ('2024-03-01 00:30+00', $_[0], 'late'); SELECT aion.sync('s')") }
late(1);
wait_until($node, 'SELECT sum(staged_bytes) > 0 FROM aion.buckets', 'a late execution is foreseen, its blocks are there');
quiet();
my $narrow = staged();
cmp_ok($narrow, '<', $disk / 10, "their columns, that is: $narrow bytes");
is(sql('SELECT sum(hashtext(pad)::bigint), sum(c61), sum(c70), count(c2) FROM s'), sql('SELECT sum(hashtext(pad)::bigint), sum(c61), sum(c70), count(c2) FROM p'),
	'other readers find all columns');
is(sql('SELECT sum(id), min(at), max(at) FROM s'), sql('SELECT sum(id), min(at), max(at) FROM p'), 'or use the copies');

sql(q{SELECT aion.create_view('wide', 'SELECT sum(hashtext(pad)::bigint) AS pads, sum(c61) AS sixties, sum(c70) AS seventies, count(c69) AS nothing FROM s',
	aion.tumbling('1 h')); SELECT aion.sync('s')});
my $WIDE = 'sum(hashtext(pad)::bigint) AS pads, sum(c61) AS sixties, sum(c70) AS seventies, count(c69) AS nothing';
exact('wide', $WIDE, 'a view that reads more');
cmp_ok(moved() - $moved, '>', $disk / 2, 'was given more');
sql(q{SELECT aion.refresh('narrow', '2024-03-01 00:00+00'); SELECT aion.refresh('wide', '2024-03-01 00:00+00')});
exact('narrow', $NARROW, 'the narrow one takes what is there');
exact('wide', $WIDE, 'and so does the wide one');

# ---- by hand: all of a block ------------------------------------------------------------------------------------------

quiet();
sql(q{SELECT aion.destage('s')});
my $bytes = sql(q{SELECT aion.stage('s', '2024-03-01 00:00+00', '2024-03-01 01:00+00')});
cmp_ok($bytes + staged(), '>=', $disk * 0.9, 'staging by hand copies whole blocks');
like(sql('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT pad, c70 FROM s'), qr/Staged|staged|memory/, 'which any reader uses');

# ---- blocks of fewer columns than the stream has by now ---------------------------------------------------------------

sql(q{ALTER FOREIGN TABLE s ADD COLUMN more int DEFAULT 5; ALTER TABLE p ADD COLUMN more int DEFAULT 5});
sql(q{SELECT aion.create_view('added', 'SELECT sum(more) AS mores, max(c70) AS seventies FROM s', aion.tumbling('1 h')); SELECT aion.sync('s')});
exact('added', 'sum(more) AS mores, max(c70) AS seventies', 'a column that was added since');
late(2);
kill_server($node, 'KILL');
sql(q{SELECT aion.sync('s', late => true)});
exact($_->[0], $_->[1], "$_->[0]: after a crash") for [ 'narrow', $NARROW ], [ 'wide', $WIDE ], [ 'added', 'sum(more) AS mores, max(c70) AS seventies' ];

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
