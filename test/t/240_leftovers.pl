# What those leave who are not there any more, a database, a worker or a reader: memory comes back, and work goes on.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# Some 485 pages of 8 kB.
my $node = new_node('leftovers', conf => "aion.memory = '4MB'\naion.memory_high = 60\naion.memory_critical = 98\naion.destage_policy = 'none'\nautovacuum = off");

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

sub create_stream
{
	my ($database) = @_;
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz NOT NULL, k int, filler text) SERVER aion
			OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness 'unlimited')}, $database);
	return;
}

# Adds so many chunks of ten events, of about a page each, which do not compress.
sub add
{
	my ($chunks, $database) = @_;
	sql(qq{DO \$\$ BEGIN FOR i IN 1 .. $chunks LOOP
			INSERT INTO s SELECT timestamptz '2024-03-01' + g * interval '1 s', i,
					(SELECT string_agg(md5(random()::text || g || h), '') FROM generate_series(1, 22) h) FROM generate_series(1, 10) g;
			COMMIT;
		END LOOP; END \$\$}, $database);
	return;
}

sub in_memory { return sql('SELECT coalesce(sum(memory_events), 0) FROM aion.buckets', $_[0]) }

# ---- a database that was dropped, an extension that was, a stream that was ---------------------------------------------------

create_stream('postgres');

sub memory_comes_back
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found = 0;
	for (1 .. 100)
	{
		sql('TRUNCATE s');
		add(300);
		last if ($found = in_memory()) == 3000;
		usleep(100_000);
	}
	is($found, 3000, $name);
	sql('TRUNCATE s');
	return;
}

for my $way ('DROP DATABASE other', 'DROP EXTENSION aion CASCADE', 'DROP FOREIGN TABLE s')
{
	sql('CREATE DATABASE other') unless sql("SELECT count(*) FROM pg_database WHERE datname = 'other'");
	sql('CREATE EXTENSION IF NOT EXISTS aion', 'other');
	create_stream('other');
	for (1 .. 100)
	{
		add(300, 'other');
		last if in_memory('other') == 3000;
		sql('TRUNCATE s', 'other');
		usleep(100_000);
	}
	is(in_memory('other'), 3000, "$way: another database takes up memory");
	sql($way, $way =~ /DATABASE/ ? 'postgres' : 'other');
	memory_comes_back("$way: and gives it back");
}

# ---- copies that nobody reads in a database that sleeps ------------------------------------------------------------------

sql('CREATE EXTENSION IF NOT EXISTS aion', 'other');
create_stream('other');
add(200, 'other');
sql("SELECT aion.sync('s'); SELECT aion.destage('s')", 'other');
# as soon as what was truncated above has been forgotten there is room
for (1 .. 100)
{
	sql("SELECT aion.stage('s', '2024-01-01', '2025-01-01')", 'other');
	last if sql('SELECT coalesce(sum(staged_bytes), 0) FROM aion.buckets', 'other') > 1024 * 1024;
	usleep(100_000);
}
ok(sql('SELECT coalesce(sum(staged_bytes), 0) FROM aion.buckets', 'other') > 1024 * 1024, 'another database has copies of blocks');
add(200);
sql("SELECT aion.advance_watermark('s', '2024-03-01 00:00:01'); SELECT aion.sync('s')");
$node->poll_query_until('other', 'SELECT coalesce(sum(staged_bytes), 0) = 0 FROM aion.buckets');
is(sql('SELECT coalesce(sum(staged_bytes), 0) FROM aion.buckets', 'other'), '0', 'they make room when memory is short');
is(sql('SELECT count(*) FROM s', 'other'), '2000', 'and nothing is lost');

# ---- a definition that changes just before the scheduler sleeps ------------------------------------------------------------

sql("TRUNCATE s; INSERT INTO s VALUES ('2024-03-01 00:30', 1, ''); SELECT aion.advance_watermark('s', '2024-03-01 01:00')");
sql("SELECT aion.sync('s')");
arm_fault($node, 'scheduler-turned', 'wait');
# wakes it, with nothing to do
$node->reload;
wait_for_fault($node, 'scheduler-turned');
sql("SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'))");
my $from = time;
release_fault($node, 'scheduler-turned');
# nothing that asks wakes it
wait_until($node, 'SELECT count(*) = 1 FROM v', 'the new view has its result');
cmp_ok(time - $from, '<', 30, 'without waiting for something else to happen');
sql('DROP VIEW v');

# ---- an I/O worker that is ended, when nothing else happens ----------------------------------------------------------------

sql('ALTER SYSTEM SET aion.destage_policy = standard');
$node->reload;
sql('TRUNCATE s');
arm_fault($node, 'destage-blocks-written', 'wait');
add(20);
sql("SELECT aion.advance_watermark('s', '2024-03-01 03:00'); SELECT aion.sync('s')");
wait_for_fault($node, 'destage-blocks-written');
kill_worker($node, 'io', 'TERM', 'postgres');
release_fault($node, 'destage-blocks-written');
wait_until($node, 'SELECT sum(memory_events) = 0 AND sum(disk_events) = 200 AND sum(journal_events) = 0 FROM aion.buckets',
	'what it was at is done by its successor');
is(sql('SELECT count(*), count(DISTINCT (at, k)) FROM s'), '200|200', 'once');

done_testing();
