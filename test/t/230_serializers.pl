# Serializers: that they come, share the work and leave; that nothing depends on them, whatever happens to one.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('serializers', conf => "aion.serializers = 1\nautovacuum = off");
my $session = Session->new($node);
my $columns = 'id bigint, k int, v int, name text, at timestamptz NOT NULL';
my $rows = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub set_serializers
{
	my ($n) = @_;
	sql("ALTER SYSTEM SET aion.serializers = $n");
	$node->reload;
	return;
}

# How many tasks serializers have done of a kind.
sub tasks { return sql("SELECT requests FROM aion.io WHERE kind = '$_[0]'") }

# Some blocks of events, all of one bucket, so that one writer writes them.
sub insert_events
{
	my $n = 35_000;
	my $select = "SELECT i, i % 7, i % 9973 * 7919, CASE WHEN i % 11 > 0 THEN repeat('n' || i % 5, (i % 9 * 9)::int) || i END,"
	  . " timestamptz '2024-03-01 10:00+00' + i % 3600 * interval '1 s' FROM generate_series($rows + 1, $rows + $n) i";
	sql("BEGIN; INSERT INTO p $select; INSERT INTO s $select; COMMIT; SELECT aion.sync('s')");
	$rows += $n;
	return;
}

sub exact
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql(q{SELECT (SELECT count(*) FROM (TABLE s EXCEPT ALL TABLE p) x), (SELECT count(*) FROM (TABLE p EXCEPT ALL TABLE s) x), (SELECT count(*) FROM s)}),
		"0|0|$rows", "$name: stream and table are equal");
	return;
}

sub destaged
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->result;
	ok($result->{ok}, "$name: the destage ends") or diag($result->{out});
	is(sql("SELECT sum(disk_events), sum(memory_events), sum(journal_events) FROM aion.buckets"), "$rows|0|0", "$name: all is in blocks");
	exact($name);
	return;
}

# A destage whose writer stands before its end, with blocks under way.
sub begin_destage
{
	arm_fault($node, 'destage-blocks-added', 'wait');
	$session->send("SELECT aion.destage('s')");
	wait_for_fault($node, 'destage-blocks-added');
	return;
}

sub create_stream
{
	my ($stream) = @_;
	return sql("CREATE FOREIGN TABLE $stream ($columns) SERVER aion
		OPTIONS (event_time 'at', bucket_width '1 day', watermark 'manual', allowed_lateness 'unlimited')");
}

sql("CREATE TABLE p ($columns)");
create_stream('s');

# ---- compression ----------------------------------------------------------------------------------------------------

insert_events();
is(sql("SELECT count(*) FROM aion.workers WHERE role = 'serializer'"), '0', 'none without a task');
begin_destage();
wait_until($node, "SELECT requests > 0 FROM aion.io WHERE kind = 'compress'", 'a serializer compresses blocks');
release_fault($node, 'destage-blocks-added');
destaged('compressed by a serializer');
is(sql("SELECT count(*), count(database) FROM aion.workers WHERE role = 'serializer'"), '1|0', 'it shows in aion.workers, without a database');
is(sql("SELECT count(*), count(datid), count(backend_xmin) FROM pg_stat_activity WHERE backend_type = 'aion serializer'"), '1|0|0', 'and in pg_stat_activity');

# Ended while it is at a task, at its beginning or with the block made
for my $point ('taken', 'ready')
{
	insert_events();
	arm_fault($node, "serializer-$point", 'wait');
	begin_destage();
	wait_for_fault($node, "serializer-$point");
	kill_worker($node, 'serializer', 'TERM');
	release_fault($node, "serializer-$point");
	release_fault($node, 'destage-blocks-added');
	destaged("serializer ended, $point");
}

# One that stands still is waited for a moment; what it brings after that is not taken
for my $point ('taken', 'ready')
{
	insert_events();
	arm_fault($node, "serializer-$point", 'wait');
	begin_destage();
	wait_for_fault($node, "serializer-$point");
	release_fault($node, 'destage-blocks-added');
	destaged("serializer stood still, $point");
	release_fault($node, "serializer-$point");
	exact("serializer stood still, $point, and goes on");
}

for my $point ('taken', 'ready')
{
	insert_events();
	arm_fault($node, "serializer-$point", 'error');
	begin_destage();
	wait_for_fault($node, "serializer-$point");
	release_fault($node, 'destage-blocks-added');
	destaged("serializer failed, $point");
	like(sql("SELECT max(last_error) FROM aion.workers WHERE role = 'serializer'"), qr/fault point "serializer-$point"/, 'its error shows');
}

# The writer ends with tasks under way, one of them begun
insert_events();
arm_fault($node, 'serializer-taken', 'wait');
begin_destage();
wait_for_fault($node, 'serializer-taken');
kill_worker($node, 'io', 'TERM');
release_fault($node, 'destage-blocks-added');
release_fault($node, 'serializer-taken');
sql("SELECT aion.destage('s')");
destaged('I/O worker ended with tasks under way');

# The whole server goes down with it; where the writer is then is a matter of time
for my $point ('taken', 'ready')
{
	insert_events();
	arm_fault($node, "serializer-$point", 'crash');
	arm_fault($node, 'destage-blocks-added', 'wait');
	$session->send("SELECT aion.destage('s')");
	wait_for_fault($node, "serializer-$point");
	$session->result;
	unlink map { $node->data_dir . "/aion_fault.destage-blocks-added$_" } '', '.waiting';
	$session->connect;
	$session->send("SELECT aion.destage('s')");
	destaged("serializer crashed, $point");
}

# ---- number of them ---------------------------------------------------------------------------------------------------

set_serializers(3);
insert_events();
arm_fault($node, 'serializer-taken', 'wait');
begin_destage();
wait_for_fault($node, 'serializer-taken');
wait_until($node, "SELECT count(*) > 1 FROM aion.workers WHERE role = 'serializer'", 'another comes where one is busy');
release_fault($node, 'serializer-taken');
release_fault($node, 'destage-blocks-added');
destaged('several serializers');
cmp_ok(sql("SELECT count(*) FROM aion.workers WHERE role = 'serializer'"), '<=', 3, 'but no more than are allowed');
set_serializers(1);
wait_until($node, "SELECT count(*) = 1 FROM aion.workers WHERE role = 'serializer'", 'those beyond the number leave');
set_serializers(0);
wait_until($node, "SELECT count(*) = 0 FROM aion.workers WHERE role = 'serializer'", 'with 0 all leave');
my $before = tasks('compress');
insert_events();
$session->send("SELECT aion.destage('s')");
destaged('no serializers');
is(tasks('compress'), $before, 'with 0 nobody gets a task');

# ---- decompression ------------------------------------------------------------------------------------------------------

# Streams of their own, each with copies that nobody has read. Bytes of the copies.
sub stage_stream
{
	my ($stream) = @_;
	create_stream($stream);
	sql("INSERT INTO $stream SELECT * FROM p WHERE id <= 30000");
	sql("SELECT aion.destage('$stream')");
	is(sql("SELECT aion.stage('$stream', '2024-03-01', '2024-03-02') > 0"), 't', "$stream is staged");
	return staged_bytes($stream);
}

sub staged_bytes { return sql("SELECT sum(staged_bytes) FROM aion.buckets WHERE stream = '$_[0]'::regclass") }

sub stream_exact
{
	my ($stream, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql(qq{WITH e AS (SELECT * FROM p WHERE id <= 30000)
		SELECT (SELECT count(*) FROM (TABLE $stream EXCEPT ALL TABLE e) x), (SELECT count(*) FROM (TABLE e EXCEPT ALL TABLE $stream) x)}),
		'0|0', "$name: stream and table are equal");
	return;
}

my $compressed = stage_stream('d0');
stream_exact('d0', 'compressed copies');
is(staged_bytes('d0'), $compressed, 'with 0 copies stay as they are');
is(tasks('decompress'), 0, 'and nobody gets a task');

set_serializers(1);
stage_stream('d1');
wait_until($node, "SELECT sum(staged_bytes) > 1.5 * $compressed FROM aion.buckets WHERE stream = 'd1'::regclass", 'a serializer decompresses copies');
wait_until($node, "SELECT requests > 0 AND bytes > 0 FROM aion.io WHERE kind = 'decompress'", 'which aion.io counts');
stream_exact('d1', 'decompressed copies');
sql(q{SELECT aion.create_view('v1', 'SELECT k, count(*) AS n, sum(v) AS s, max(name) AS m FROM d1 GROUP BY k', aion.tumbling('10 min'));
	SELECT aion.refresh('v1')});
oracle_ok($node, 'v1', q{SELECT b, b + interval '10 min', k, count(*), sum(v), max(name) FROM (SELECT *, date_bin('10 min', at, '2024-03-01 10:00+00') AS b FROM p WHERE id <= 30000) e GROUP BY 1, 2, 3},
	'firings that read them');

for my $point ('taken', 'ready')
{
	arm_fault($node, "serializer-$point", 'wait');
	stage_stream("d_$point");
	wait_for_fault($node, "serializer-$point");
	stream_exact("d_$point", "while a serializer is at a copy, $point");
	kill_worker($node, 'serializer', 'TERM');
	release_fault($node, "serializer-$point");
	stream_exact("d_$point", "serializer ended while it was at a copy, $point");
}

# The copy goes before the serializer is through with it
arm_fault($node, 'serializer-ready', 'wait');
stage_stream('d2');
wait_for_fault($node, 'serializer-ready');
sql('TRUNCATE d2');
sql("INSERT INTO d2 SELECT * FROM p WHERE id <= 30000");
release_fault($node, 'serializer-ready');
stream_exact('d2', 'truncated while a serializer was at a copy');

$session->close;
$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
