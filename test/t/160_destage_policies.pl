# Destage policies: what stays in memory under each of them, as aion.buckets shows it, and that no reader notices.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

# Some 485 pages of 8 kB.
my $node = new_node('policies', conf => "aion.memory = '4MB'\naion.idle_destage = '1h'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Parameters take effect by themselves.
sub set
{
	my (%value) = @_;
	sql(join('', map { "ALTER SYSTEM SET aion.$_ = '$value{$_}';\n" } sort keys %value) . 'SELECT pg_reload_conf()');
	return;
}

# Adds events to an hour, in so many transactions of ten, each of which is a chunk; with 600 bytes each, one to a page.
sub add
{
	my ($hour, $transactions, $bytes) = @_;
	$bytes //= 0;
	sql(qq{DO \$\$ BEGIN FOR i IN 1 .. $transactions LOOP
			INSERT INTO s SELECT timestamptz '2024-03-01' + $hour * interval '1 hour' + g * interval '1 s', i, repeat('x', $bytes) FROM generate_series(1, 10) g;
			INSERT INTO t SELECT timestamptz '2024-03-01' + $hour * interval '1 hour' + g * interval '1 s', i, repeat('x', $bytes) FROM generate_series(1, 10) g;
			COMMIT;
		END LOOP; END \$\$});
	return;
}

sub past
{
	my ($hour) = @_;
	sql("SELECT aion.advance_watermark('s', timestamptz '2024-03-01' + $hour * interval '1 hour'); SELECT aion.sync('s', late => true)");
	return;
}

# Waits until buckets hold so many events in memory and on disk, one "memory/disk" per bucket.
my $BUCKETS = q{coalesce((SELECT string_agg(memory_events || '/' || disk_events, ' ' ORDER BY bucket_start) FROM aion.buckets), '')};
my $JOURNAL = 'NOT EXISTS (SELECT FROM aion.buckets WHERE journal_events <> memory_events)';

sub buckets_become
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_until($node, "SELECT $BUCKETS = '$expected' AND $JOURNAL", $name) or diag(sql("SELECT $BUCKETS"));
	return exact("$name: readers");
}

# The stream holds what the table holds, and so does the view.
sub exact
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql('(TABLE s EXCEPT ALL TABLE t) UNION ALL (TABLE t EXCEPT ALL TABLE s)'), '', "$name see the same events");
	oracle_ok($node, 'v', q{
		SELECT date_trunc('hour', at) AS window_start, date_trunc('hour', at) + interval '1 hour' AS window_end, count(*) AS n, sum(k) AS k FROM t
		 WHERE at < (SELECT watermark FROM aion.streams) GROUP BY 1, 2}, "$name see the same results");
	return;
}

sub start_over
{
	sql(q{
		TRUNCATE s, t;
		SELECT aion.sync('s')});
	return;
}

sql(q{
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, k int, filler text) SERVER aion
		OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness 'unlimited');
	CREATE TABLE t (at timestamptz NOT NULL, k int, filler text);
	SELECT aion.create_view('v', 'SELECT count(*) AS n, sum(k) AS k FROM s', aion.tumbling('1 hour'))});

# ---- parameters -----------------------------------------------------------------------------------------------------

for my $bad ([ 'idle_destage', '-1' ], [ 'idle_destage', 'never' ], [ 'idle_destage', '1 byte' ], [ 'destage_policy', 'oldest' ],
	[ 'bootstrap_fraction', '1.5' ], [ 'memory_high', '100' ])
{
	my ($status, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET aion.$bad->[0] = '$bad->[1]'");
	isnt($status, 0, "$bad->[0] $bad->[1] is refused");
	like($err, qr/"auto", or a time/, 'and the alternatives are named') if $bad->[0] eq 'idle_destage';
}

# ---- local ----------------------------------------------------------------------------------------------------------

set(destage_policy => 'local', bootstrap_fraction => 0.1);
add($_, 20) for 0 .. 2;
my $reader = Session->new($node);
past(2);
$reader->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = $reader->must('SELECT count(*), sum(k) FROM s');
buckets_become('20/180 20/180 200/0', 'local: past buckets keep a tenth, open ones all');
is($reader->must('SELECT count(*), sum(k) FROM s'), $before, 'local: an old snapshot shows what it showed');
$reader->must('COMMIT');

# of 210 events, a tenth is 21, which takes three chunks
add(0, 1);
past(2);
buckets_become('30/180 20/180 200/0', 'local: the bootstrap set grows with late events');
add(0, 9);
past(2);
buckets_become('30/270 20/180 200/0', 'local: other late events leave it');

set(idle_destage => '10ms');
buckets_become('30/270 20/180 20/180', 'local: an idle open bucket keeps a tenth');
add(2, 1);
buckets_become('30/270 20/180 30/180', 'local: and takes in events again');
# of 310 events
set(idle_destage => 'auto');
add(2, 10);
buckets_become('30/270 20/180 40/270', 'local: executions that take a moment make it idle soon');

set(bootstrap_fraction => 0);
buckets_become('0/300 0/200 0/310', 'local: without bootstrap sets all of it goes');
set(bootstrap_fraction => 1);
add(1, 20);
past(2);
buckets_become('0/300 200/200 0/310', 'local: whole bootstrap sets stay');
sql(q{SELECT aion.destage('s')});
buckets_become('0/300 0/400 0/310', 'local: aion.destage() moves everything');

# ---- standard -------------------------------------------------------------------------------------------------------

start_over();
set(bootstrap_fraction => 0.5, destage_policy => 'standard');
add($_, 20) for 0 .. 2;
past(2);
buckets_become('0/200 0/200 200/0', 'standard: past buckets go, open ones stay');

start_over();
set(destage_policy => 'none');
add($_, 20) for 0 .. 2;
past(2);
sql(q{SELECT aion.sync('s')});
buckets_become('200/0 200/0 200/0', 'none: all stay');
set(destage_policy => 'standard');
buckets_become('0/200 0/200 200/0', 'standard again: past buckets go without a new event');

# ---- global ---------------------------------------------------------------------------------------------------------

start_over();
set(destage_policy => 'global', memory_high => 90, memory_critical => 95);
add(0, 40, 600);
add(1, 120, 600);
add(2, 20, 600);
past(3);
buckets_become('400/0 1200/0 200/0', 'global: past buckets stay while there is room');

# 37 % are used; 30 % is where relief goes to
set(memory_high => 35);
buckets_become('400/0 600/600 200/0', 'global: the largest bucket is cut down to its bootstrap set');
set(memory_high => 15, memory_critical => 20);
buckets_become('200/200 600/600 100/100', 'global: every bucket is, when memory is critical');
set(memory_critical => 10);
buckets_become('0/400 0/1200 100/100', 'global: then the oldest buckets go');

start_over();
set(bootstrap_fraction => 0, memory_high => 90, memory_critical => 95);
# the sooner it begins and the fewer events it has, the slower it is
add(0, 20, 600);
add(1, 40, 600);
add(2, 120, 600);
past(3);
buckets_become('200/0 400/0 1200/0', 'global-rate: past buckets stay while there is room');
# 31 % is where relief goes to
set(destage_policy => 'global-rate', memory_high => 36);
buckets_become('0/200 0/400 1200/0', 'global-rate: buckets that fill slowest go first');
sql(q{SELECT aion.destage('s')});
buckets_become('0/200 0/400 0/1200', 'global-rate: aion.destage() moves everything');

# ---- memory never runs out for good -----------------------------------------------------------------------------------

for my $policy ('local', 'global', 'global-rate', 'none')
{
	start_over();
	set(destage_policy => $policy, bootstrap_fraction => 1, memory_high => 40, memory_critical => 60);
	for my $hour (0 .. 9)
	{
		add($hour, 80, 600);
		past($hour);
	}
	wait_until($node, q{SELECT sum(memory_bytes) < 0.6 * pg_size_bytes(current_setting('aion.memory')) FROM aion.buckets},
		"$policy, whole bootstrap sets: memory is relieved");
	wait_until($node, q{SELECT memory_events = 0 AND disk_events = 800 FROM aion.buckets ORDER BY bucket_start LIMIT 1},
		"$policy, whole bootstrap sets: the oldest bucket went");
	is(sql(q{SELECT sum(memory_events) > 0 FROM aion.buckets}), 't', "$policy, whole bootstrap sets: others stay");
	exact("$policy, whole bootstrap sets: readers");
}

$reader->close;
$node->stop('fast');
done_testing();
