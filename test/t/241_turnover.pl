# Small tables whose rows come and go with windows are pruned by the I/O worker, as a reader might. Whatever their owners do
# to them meanwhile, it waits for nobody: others need it.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('turnover', conf => "aion.late_interval = 0\nautovacuum = off\nlog_lock_waits = off");
my $session = Session->new($node);
sub sql { return $session->must($_[0]) }

sql(q{
	CREATE ROLE owner; GRANT ALL ON SCHEMA public TO owner; GRANT USAGE ON FOREIGN SERVER aion TO owner;
	CREATE FOREIGN TABLE t (v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour')});
my $owner = Session->new($node);
$owner->must(q{
	SET SESSION AUTHORIZATION owner;
	CREATE FOREIGN TABLE s (k int, v text, at timestamptz NOT NULL) SERVER aion
		OPTIONS (event_time 'at', watermark 'manual', allowed_lateness 'unlimited', bucket_width '1 hour');
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n, max(v) AS v FROM s GROUP BY k', aion.tumbling('1 hour'), retain => '1 year')});

# A value too long for a page, and not to be compressed, for each of 200 keys.
sub fire
{
	$owner->must(q{
		INSERT INTO s SELECT i, (SELECT string_agg(md5(random()::text || i || j), '') FROM generate_series(1, 100) j), '2024-03-01 10:30' FROM generate_series(1, 200) i});
	$owner->must(q{SELECT aion.advance_watermark('s', '2024-03-01 12:00'); SELECT aion.sync('s', late => true)});
	return;
}
fire() for 1 .. 3;
wait_until($node, q{SELECT n_dead_tup > 200 FROM pg_stat_all_tables WHERE relid = 'aion_results.v'::regclass}, 'results have dead rows');

# The I/O worker is at work, long enough to come by what there is to be pruned.
sub io_goes_on
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($result, $until) = ({ ok => 1 }, time + 8);
	while ($result->{ok} && time < $until)
	{
		$result = $session->query(q{INSERT INTO t VALUES (1, '2024-03-01 10:30'); SELECT aion.destage('t', '10 s'); SELECT pg_sleep(0.5)});
	}
	ok($result->{ok}, "$name: the I/O worker serves others") or diag($result->{out});
	is($node->safe_psql('postgres', q{SELECT backend_type, relation::regclass, mode FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted}), '', "$name: nobody waits for a lock");
	return;
}

for my $sql ('REINDEX INDEX aion_results.v_window_start_idx', 'REINDEX TABLE aion_results.v', 'ALTER TABLE aion_results.v SET (fillfactor = 90)', 'LOCK TABLE aion_results.v')
{
	$owner->must("BEGIN; $sql");
	io_goes_on($sql);
	$owner->must('ROLLBACK');
}

# Nothing in the way: what is replaced takes the place of what was, long values included.
fire();
io_goes_on('nothing in the way');
my $size = sql(q{SELECT pg_total_relation_size('aion_results.v')});
for (1 .. 3)
{
	fire();
	io_goes_on('results are replaced');
}
cmp_ok(sql(q{SELECT pg_total_relation_size('aion_results.v')}), '<', 1.2 * $size, 'results take no more space');

# The pages of purged blocks, too many for that, are used again for others: each hour's events are written while those of
# two hours before go. Blocks of seconds are small enough to stay in their rows.
for my $case (['hours', 'h', '1 hour', 10000, 32], ['seconds', 'se', '1 second', 3600, 45])
{
	my ($name, $stream, $width, $events, $words) = @$case;
	sql("CREATE FOREIGN TABLE $stream (v text, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour', bucket_width '$width')");
	my $pages = "SELECT (pg_relation_size(oid) + pg_relation_size(reltoastrelid)) / 1024 FROM pg_class WHERE oid = (SELECT blocks FROM aion.stream_def WHERE stream = '$stream'::regclass)";
	my %kb;
	for my $hour (1 .. 15)
	{
		my $end = "timestamptz '2024-03-01 00:00' + interval '$hour hours'";
		sql("INSERT INTO $stream SELECT (SELECT string_agg(md5(random()::text || i || j), '') FROM generate_series(1, $words) j), $end - interval '1 hour' + i % 3600 * interval '1 s' FROM generate_series(1, $events) i");
		sql("SELECT aion.advance_watermark('$stream', $end); SELECT aion.sync('$stream'); SELECT aion.destage('$stream')");
		wait_until($node, "SELECT count(*) = 0 FROM $stream WHERE at < $end - interval '1 hour'", "$name: what ended an hour before hour $hour is purged");
		$kb{$hour} = sql($pages);
	}
	cmp_ok($kb{3}, '>', 8 * 1024, "$name: blocks are not few");
	# Line pointers that only VACUUM frees cost a page a quarter of what it holds, and what comes before somebody's snapshot
	# has gone takes new ones; five times as much it would be if none were used again.
	cmp_ok($kb{15}, '<', 3 * $kb{3}, "$name: blocks of 15 hours do not take the pages of 15 hours ($kb{3} kB, $kb{15} kB)");
}

$_->close for $session, $owner;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|deadlock detected/, 'no assertion failed, no deadlock');
done_testing();
