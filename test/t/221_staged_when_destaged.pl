# A late event announces an execution while its window's events are still in memory. What is destaged until then is copied as
# it is written, so that the execution waits for no disk.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('staged_when_destaged', conf => "aion.late_interval = '1 h'\naion.destage_policy = 'none'\nautovacuum = off\naion.executors = 1\naion.memory = 64MB");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub staged { return sql('SELECT coalesce(sum(staged_bytes), 0) FROM aion.buckets') }
sub done { return sql("SELECT coalesce(sum(requests), 0) FROM aion.io WHERE kind = '$_[0]' AND state = 'done'") }

sql(q{
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, pad text, id bigint) SERVER aion
		OPTIONS (event_time 'at', bucket_width '1 h', watermark 'manual', allowed_lateness '1 day');
	CREATE TABLE p (at timestamptz NOT NULL, pad text, id bigint);
	CREATE FUNCTION fill(since timestamptz, n int) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			CREATE TEMP TABLE new ON COMMIT DROP AS
				SELECT since + g * interval '1 h' / (n + 1) AS at, (SELECT string_agg(md5(g || '-' || h), '') FROM generate_series(1, 60) h) AS pad, g AS id
				  FROM generate_series(1, n) g;
			INSERT INTO s TABLE new;
			INSERT INTO p TABLE new;
		END $$;
	SELECT aion.create_view('v', 'SELECT count(*) AS n, sum(id) AS ids FROM s', aion.tumbling('1 h'))});

sub exact
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return oracle_ok($node, 'v', q{SELECT w AS window_start, w + interval '1 h' AS window_end, count(*) AS n, sum(id) AS ids
		FROM (SELECT *, date_trunc('hour', at) AS w FROM p) e WHERE w + interval '1 h' <= (SELECT watermark FROM aion.streams) GROUP BY w}, $name);
}

sql(q{SELECT fill('2024-03-01 00:00+00', 3000)});
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 01:00+00'); SELECT aion.sync('s')});
exact('a window on time, from memory');
is(sql('SELECT sum(disk_bytes) FROM aion.buckets'), 0, 'nothing is on disk');

sql(q{SELECT fill('2024-03-01 00:00+00', 10)});
sql(q{SELECT aion.sync('s')});
wait_until($node, q{SELECT sum(requests) > 0 FROM aion.io WHERE kind = 'prestage' AND state = 'done'}, 'a late execution is foreseen');
is(staged(), 0, 'there is nothing to be staged yet');

sql(q{SELECT aion.destage('s')});
my $disk = sql('SELECT sum(disk_bytes) FROM aion.buckets');
cmp_ok($disk, '>', 3_000_000, 'all is on disk');
my $staged = staged();
ok($staged > 0 && $staged < $disk / 5, "and what executions read of it in memory: $staged bytes of $disk");

sql(q{SELECT fill('2024-03-01 00:00+00', 5)});
sql(q{SELECT aion.sync('s'); SELECT aion.destage('s')});
cmp_ok(staged(), '>', $staged, 'later events, too');

my $asked = done('stage');
sql(q{SELECT aion.sync('s', late => true)});
exact('the late execution');
is(done('stage'), $asked, 'which asked for no block');
wait_until($node, 'SELECT coalesce(sum(staged_bytes), 0) = 0 FROM aion.buckets', 'the copies are gone');

# ---- an execution that is not foreseen leaves nothing behind ------------------------------------------------------------

sql(q{SELECT fill('2024-03-05 00:00+00', 3000)});
sql(q{SELECT aion.advance_watermark('s', '2024-03-05 01:00+00'); SELECT aion.sync('s'); SELECT aion.destage('s')});
exact('another window');
is(staged(), 0, 'no copies where no late event has come');
$node->stop;
done_testing();
