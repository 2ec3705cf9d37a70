# Staging: who is served before whom, what is left in memory afterwards, and that the loss of a process or of a race costs
# time alone. Fault points hold the I/O worker where something is to happen to it; what it has done shows in aion.io.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use IO::Select;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

# Blocks have a megabyte; a transaction has 8 MB of memory, what it writes beyond that is in the journal alone. Late events
# have to be asked for.
my $node = new_node('staging', conf => "aion.late_interval = '1 h'\nautovacuum = off\naion.executors = 1");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub is_sql
{
	my ($query, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql($query), $expected, $name);
}

sub fault_armed { return -e $node->data_dir . "/aion_fault.$_[0]" ? 1 : 0 }

sub at { return sprintf "timestamptz '2024-03-01 00:00+00' + %s * interval '1 h'", $_[0] }

# The same events of about a kilobyte, which does not compress, in stream and table, spread over an hour from hour $hour on.
sub fill
{
	my ($hour, $n, $stream, $on) = @_;
	$stream //= 's';
	my $at = at($hour);
	return ($on // $node)->safe_psql('postgres', qq{
		BEGIN;
		CREATE TEMP TABLE new ON COMMIT DROP AS SELECT at, id, pad FROM new_events($at, $n);
		INSERT INTO $stream TABLE new;
		INSERT INTO p_$stream TABLE new;
		COMMIT});
}

sub define
{
	my ($on, $stream, $options) = @_;
	$on->safe_psql('postgres', qq{
		CREATE OR REPLACE FUNCTION new_events(since timestamptz, n int, OUT at timestamptz, OUT id bigint, OUT pad text) RETURNS SETOF record LANGUAGE sql AS \$\$
			SELECT since + g * interval '1 h' / (n + 1), g, (SELECT string_agg(md5(random()::text || g || h), '') FROM generate_series(1, 31) h)
			  FROM generate_series(1, n) g \$\$;
		CREATE FOREIGN TABLE $stream (at timestamptz NOT NULL, id bigint, pad text) SERVER aion
			OPTIONS (event_time 'at', bucket_width '1 h', watermark 'manual'$options);
		CREATE TABLE p_$stream (at timestamptz NOT NULL, id bigint, pad text);
		SELECT aion.create_view('v_$stream', 'SELECT count(*) AS n, sum(id) AS ids, sum(hashtext(pad)::bigint) AS pads FROM $stream', aion.tumbling('1 h'))});
	return;
}

sub advance
{
	my ($hour, $stream) = @_;
	$stream //= 's';
	return sql("SELECT aion.advance_watermark('$stream', " . at($hour) . "); SELECT aion.sync('$stream')");
}

sub exact
{
	my ($name, $stream, $on) = @_;
	$stream //= 's';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return oracle_ok($on // $node, "v_$stream", qq{
		SELECT w AS window_start, w + interval '1 h' AS window_end, count(*) AS n, sum(id) AS ids, sum(hashtext(pad)::bigint) AS pads
		  FROM (SELECT *, date_trunc('hour', at) AS w FROM p_$stream) e
		 WHERE w + interval '1 h' <= (SELECT watermark FROM aion.streams WHERE stream = '$stream'::regclass) GROUP BY w}, $name);
}

# What is under way, and how many requests of a kind were served.
sub under_way { return sql(q{SELECT string_agg(kind || ' ' || state, ', ' ORDER BY kind, state) FROM aion.io WHERE state <> 'done'}) }
sub done { return sql("SELECT requests FROM aion.io WHERE kind = '$_[0]' AND state = 'done'") }
sub quiet { local $Test::Builder::Level = $Test::Builder::Level + 1; return wait_until($node, q{SELECT NOT EXISTS (SELECT FROM aion.io WHERE state <> 'done')}, $_[0]) }
sub staged { return sql('SELECT coalesce(sum(staged_bytes), 0) FROM aion.buckets') }
sub refresh_call { return "SELECT aion.refresh('v_s', " . at($_[0]) . ')' }
sub stage_call { my ($hour, $stream) = @_; return "SELECT aion.stage('" . ($stream // 's') . "', " . at($hour) . ', ' . at($hour + 1) . ')' }

my ($one, $two) = map { Session->new($node) } 1 .. 2;
define($node, 's', ", allowed_lateness 'unlimited'");

# ---- the order: staging goes between two blocks, then late events, then the destage ----------------------------------

fill(0, 3000);
sql(q{SELECT aion.destage('s')});
# so much that only the journal holds is folded at once
arm_fault($node, 'block-written', 'wait');
fill(1, 12000);
wait_for_fault($node, 'block-written');
is(under_way(), 'late running', 'a block has been written');
is_sql("SELECT memory_events > 0 AND journal_events > memory_events FROM aion.buckets WHERE bucket_start = " . at(1), 't', 'of what is in the journal alone; the rest is in memory');
$one->send(q{SELECT aion.destage('s')});
$two->send(stage_call(0));
wait_until($node, q{SELECT EXISTS (SELECT FROM aion.io WHERE kind = 'stage' AND state = 'queued')}, 'staging is asked for');
arm_fault($node, $_, 'wait') for qw(stage-begun fold-written destage-blocks-written);
release_fault($node, 'block-written');
wait_for_fault($node, 'stage-begun');
is(under_way(), 'late running, stage running', 'staging comes first, in the middle of the fold');
is(fault_armed('fold-written'), 1, 'which is not through');
release_fault($node, 'stage-begun');
cmp_ok($two->result->{out}, '>', 2_500_000, 'and is done');
wait_for_fault($node, 'fold-written');
is(fault_armed('destage-blocks-written'), 1, 'nothing was destaged before the fold');
release_fault($node, 'fold-written');
wait_for_fault($node, 'destage-blocks-written');
release_fault($node, 'destage-blocks-written');
ok($one->result->{ok}, 'then the destage is done');
is_sql(q{SELECT sum(memory_events), sum(journal_events), sum(disk_events) FROM aion.buckets}, '0|0|15000', 'everything is in blocks');

advance(2);
exact('windows that have been staged');
is(staged(), 0, 'copies are gone when they have been read');

# ---- prestaging for late events --------------------------------------------------------------------------------------

sub late_event { return sql("BEGIN; INSERT INTO s SELECT " . at('0.5') . ", $_[0], 'late'; INSERT INTO p_s SELECT " . at('0.5') . ", $_[0], 'late'; COMMIT; SELECT aion.sync('s')") }

fill(2, 4000);
sql(q{SELECT aion.sync('s')});
my $before = done('prestage');
arm_fault($node, 'block-written', 'wait');
$one->send(q{SELECT aion.destage('s')});
wait_for_fault($node, 'block-written');
late_event(-1);
wait_until($node, q{SELECT EXISTS (SELECT FROM aion.io WHERE kind = 'prestage' AND state = 'queued')}, 'a late event asks for its window');
is(under_way(), 'destage running, prestage queued', 'which waits for the block in progress');
arm_fault($node, $_, 'wait') for qw(stage-begun destage-blocks-written);
release_fault($node, 'block-written');
wait_for_fault($node, 'stage-begun');
is(under_way() . fault_armed('destage-blocks-written'), 'destage running, prestage running1', 'and no longer');
late_event($_) for -5 .. -2;
release_fault($node, $_) for qw(stage-begun destage-blocks-written);
ok($one->result->{ok}, 'the destage goes on');
is(done('prestage'), $before + 1, 'further late events ask for nothing more');
cmp_ok(staged(), '>', 3_000_000, 'copies wait for the window');
sync_stream($node, 's');
exact('all late events are in');
is(staged(), 0, 'the copies are gone');
is(done('prestage'), $before + 1, 'and were made once');

# what is wanted now does not wait for the rest of what is staged ahead
arm_fault($node, 'stage-put', 'wait');
late_event(-6);
wait_for_fault($node, 'stage-put');
$two->send(stage_call(1));
wait_until($node, q{SELECT EXISTS (SELECT FROM aion.io WHERE kind = 'stage' AND state = 'queued')}, 'staging is asked for during one that is not urgent');
arm_fault($node, 'stage-begun', 'wait');
release_fault($node, 'stage-put');
wait_for_fault($node, 'stage-begun');
is(under_way(), 'prestage running, stage running', 'and goes in between');
arm_fault($node, 'stage-put', 'wait');
release_fault($node, 'stage-begun');
wait_for_fault($node, 'stage-put');

# an execution before the end of its staging, which does not get on
ok($one->query(q{SELECT aion.sync('s', late => true)})->{ok}, 'an execution does not wait for ever');
exact('and is right');
is(under_way(), 'prestage running, stage running', 'the staging has not got on meanwhile');
release_fault($node, 'stage-put');
# a staging that is overtaken leaves copies for the next execution
ok($two->result->{ok}, 'now it has');
quiet('and the rest');
sql(refresh_call($_)) for 0 .. 1;
is(staged(), 0, 'all its copies are used');

# ---- a process that goes away ----------------------------------------------------------------------------------------

arm_fault($node, 'stage-put', 'wait');
$one->send(refresh_call(1));
wait_for_fault($node, 'stage-put');
kill_worker($node, 'io', 'TERM');
release_fault($node, 'stage-put');
ok($one->result->{ok}, 'without the I/O worker a firing reads the rest itself');
exact('and is right');

arm_fault($node, 'stage-read', 'wait');
$one->send(refresh_call(1));
wait_for_fault($node, 'stage-read');
kill_worker($node, 'executor', 'TERM');
release_fault($node, 'stage-read');
ok($one->result->{ok}, 'an executor that went away in the middle is replaced');
exact('and the window is right');
quiet('nothing is under way');
is(staged(), 0, 'nothing that the first one asked for is left');

fill(3, 2000);
sql(q{SELECT aion.sync('s')});
arm_fault($node, 'block-written', 'wait');
$one->send(q{SELECT aion.destage('s')});
wait_for_fault($node, 'block-written');
kill_worker($node, 'io', 'TERM');
release_fault($node, 'block-written');
ok($one->result->{ok}, 'a destage is done by the next I/O worker');
quiet('the job of the one that was killed is not shown any more');

# ---- a reader with an old snapshot through all that -------------------------------------------------------------------

fill(4, 2000);
advance(5);
my $digest = "SELECT count(*), sum(id), sum(hashtext(pad)::bigint) FROM";
$one->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $one->must("$digest p_s");
for my $step ('SELECT 1', q{SELECT aion.destage('s')}, stage_call(4), refresh_call(4), q{SELECT aion.destage('s')}, stage_call(0))
{
	sql($step);
	is($one->must("$digest s"), $seen, "the old snapshot sees the same after $step");
	is(sql("$digest s"), sql("$digest p_s"), 'and a new one all there is');
	fill(4.1, 10);
}
$one->must('COMMIT');
quiet('late events had their window staged');
sql("SELECT aion.sync('s', late => true); " . join '; ', map { refresh_call($_) } 0, 4);
is(staged(), 0, 'all copies are used');

# ---- windows that become final ---------------------------------------------------------------------------------------

define($node, 'f', ", allowed_lateness '2 h'");
$node->append_conf('postgresql.conf', "aion.late_interval = -1");
$node->reload;
fill($_, 2000, 'f') for 0 .. 3;
advance($_, 'f') for 1 .. 4;
sql(q{SELECT aion.destage('f')});
for my $hour (2 .. 3)
{
	my $asked = done('prestage');
	my $bytes = sql(q{SELECT bytes FROM aion.io WHERE kind = 'stage' AND state = 'done'});
	sql("INSERT INTO f SELECT " . at($hour + 0.5) . ", -1, 'late'; INSERT INTO p_f SELECT " . at($hour + 0.5) . ", -1, 'late'; SELECT aion.sync('f')");
	# steadily up to shortly before the end of what is allowed
	advance($hour + 3 - $_ / 10, 'f') for reverse 1 .. 9;
	wait_until($node, qq{SELECT requests > $asked FROM aion.io WHERE kind = 'prestage' AND state = 'done'}, "hour $hour is staged before its final execution");
	is_sql("SELECT late_events, pending_events FROM aion.windows WHERE view = 'v_f'::regclass AND window_start = " . at($hour), '1|1', 'which has not been');
	advance($hour + 3, 'f');
	exact("hour $hour: final result", 'f');
	is_sql(q{SELECT bytes FROM aion.io WHERE kind = 'stage' AND state = 'done'}, $bytes, 'it staged nothing itself');
}
is(staged(), 0, 'copies of final windows are gone');

# ---- without prestaging ----------------------------------------------------------------------------------------------

$node->append_conf('postgresql.conf', "aion.late_interval = '1 h'\naion.prestage = off");
$node->reload;
wait_until($node, q{SELECT setting = 'off' FROM pg_settings WHERE name = 'aion.prestage'}, 'aion.prestage is off');
sql(q{SELECT aion.sync('s', late => true)});
my ($prestages, $stages) = map { done($_) } qw(prestage stage);
late_event(-7);
sql(q{SELECT aion.sync('s', late => true)});
exact('late events without prestaging');
is(done('prestage'), $prestages, 'nothing is staged ahead');
cmp_ok(done('stage'), '>', $stages, 'but when it is needed');

$node->append_conf('postgresql.conf', 'aion.staging = off');
$node->reload;
# executors take it in between two executions
wait_until($node, q{SELECT setting = 'off' FROM pg_settings WHERE name = 'aion.staging'}, 'aion.staging is off');
sql(q{SELECT aion.sync('s', late => true)});
$stages = done('stage');
late_event(-7);
sql(q{SELECT aion.sync('s', late => true)});
exact('late events whose executions read by themselves');
is(done('stage'), $stages, 'nothing is staged');
$node->append_conf('postgresql.conf', 'aion.staging = on');
$node->reload;

# ---- memory that staging fills, and a queue that it fills -------------------------------------------------------------

$node->append_conf('postgresql.conf', "aion.memory = '4MB'\naion.prestage = on");
$node->restart;
$_->connect for $one, $two;
sql(q{SELECT aion.sync('s', late => true)});
my ($least, $bound) = (2_000_000, 4 * 1024 * 1024);
cmp_ok(sql(stage_call(1)), '<', $bound, 'more than memory holds is staged as far as there is room');
cmp_ok(staged(), '>', $least, 'that much is there');
my $destages = done('destage');
fill(5, 2000);
wait_until($node, q{SELECT coalesce(sum(staged_bytes), 0) = 0 FROM aion.buckets}, 'events that arrive push copies out');
is_sql("SELECT memory_events > 0 FROM aion.buckets WHERE bucket_start = " . at(5), 't', 'and stay in memory themselves');
is(done('destage'), $destages, 'nothing was destaged for that');

# a window several times as large as memory, by a query that takes events as they come and one that sorts them
fill(6, 20000);
sql(q{SELECT aion.sync('s'); SELECT aion.destage('s')});
sql(q{SELECT aion.create_view('v_blocking', 'SELECT count(DISTINCT pad) AS n FROM s', aion.tumbling('1 h'), backfill => false)});
$one->send(join '; ', map { "SELECT aion.refresh('$_', " . at(6) . ')' } qw(v_s v_blocking));
my ($most, $staged_most) = (0, 0);
while (!IO::Select->new($one->{out})->can_read(0))
{
	my ($used, $copies) = split /\|/, $two->must('SELECT coalesce(sum(memory_bytes), 0), coalesce(sum(staged_bytes), 0) FROM aion.buckets');
	$most = $used if $used > $most;
	$staged_most = $copies if $copies > $staged_most;
}
ok($one->result->{ok}, 'a window of 20 MB is executed in 4 MB of memory');
cmp_ok($most, '<=', $bound, "which is never exceeded ($most, of this staged $staged_most)");
cmp_ok(done('stage'), '>', 0, 'it was staged');
is_sql('SELECT n, ids, pads FROM v_s WHERE window_start = ' . at(6), sql('SELECT count(*), sum(id), sum(hashtext(pad)::bigint) FROM p_s WHERE at >= ' . at(6) . ' AND at < ' . at(7)), 'the result is right');
is_sql('SELECT n FROM v_blocking WHERE window_start = ' . at(6), sql('SELECT count(DISTINCT pad) FROM p_s WHERE at >= ' . at(6) . ' AND at < ' . at(7)), 'that of the sorting query, too');
is(staged(), 0, 'nothing is left behind');

# very many windows of which one late event is asks for one staging each
define($node, 'w', ", allowed_lateness 'unlimited'");
sql(q{SELECT aion.create_view('sliding', 'SELECT count(*) AS n FROM w', aion.sliding('1 h', '10 s'))});
fill(0, 100, 'w');
advance(3, 'w');
sql(q{SELECT aion.destage('w')});
arm_fault($node, 'stage-begun', 'wait');
sql('INSERT INTO w SELECT ' . at('0.5') . q{, 0, 'late'; SELECT aion.sync('w')});
wait_for_fault($node, 'stage-begun');
wait_until($node, q{SELECT count(*) > 100 FROM aion.io WHERE state = 'queued'}, 'very much is to be staged ahead');
$two->send(stage_call(1));
wait_until($node, q{SELECT EXISTS (SELECT FROM aion.io WHERE kind = 'stage' AND state = 'queued')}, 'there is room for what is wanted now');

# ---- another database ------------------------------------------------------------------------------------------------

# One that has nothing to do is not kept awake by requests that wait elsewhere. Its I/O worker is there because it just had.
sql('CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION aion');
$node->safe_psql('other', q{CREATE FOREIGN TABLE o (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual')});
$node->safe_psql('other', q{INSERT INTO o VALUES ('2024-03-01')});
$node->safe_psql('other', q{SELECT aion.destage('o')});
wait_until($node, q{SELECT count(*) = 1 FROM aion.workers WHERE database = 'other' AND role = 'io' AND state = 'idle' AND since < clock_timestamp() - interval '1 s'}, 'its I/O worker sleeps', 'other');
release_fault($node, 'stage-begun');
ok($two->result->{ok}, 'what was wanted is staged');

# ---- a stream that is dropped while a failed transaction that was reading it has not ended ----------------------------

fill(3, 100, 'w');
$one->must('BEGIN');
is($one->query('DO $$ BEGIN PERFORM 1 / (id - 10) FROM w; END $$')->{sqlstate}, '22012', 'a query fails in the middle of memory');
sql(q{DROP FOREIGN TABLE w CASCADE});
fill(7, 1);
sql(q{SELECT aion.sync('s')});
ok($one->query('ROLLBACK')->{ok}, 'its memory is given back without harm');

$one->close;
$two->close;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
