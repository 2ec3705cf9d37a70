# A hot standby: streams and results can be read there, exactly, and nothing else can be done; what other servers and
# their snapshots hold back does not take memory here.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;
use Twin qw(@VIEWS catch_up define_twins exact memory_is_free same_events start_load start_readers stop_load write_sql);

my $primary = new_node('primary', init => [ allows_streaming => 1 ],
	conf => "aion.memory = '4MB'\naion.late_interval = '20ms'\nautovacuum_naptime = 1s\nwal_keep_size = '1GB'");

sub sql { my ($sql, $on) = @_; return ($on // $primary)->safe_psql('postgres', $sql) }

# SQLSTATE, message, detail and hint of a statement that fails.
sub error_of
{
	my ($node, $statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$statement", timeout => 30);
	return $err;
}

# A standby of a standby is one, too. Readers are waited for rather than cancelled.
sub new_standby
{
	my ($name, $of) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$of->backup("for_$name");
	$node->init_from_backup($of, "for_$name", has_streaming => 1);
	$node->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = on\nwal_receiver_status_interval = 1s");
	$node->start;
	return $node;
}

define_twins($primary);
sql(q{
	CREATE FOREIGN TABLE loose (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', durable 'off', watermark 'manual');
	SELECT aion.create_view('loose_v', 'SELECT count(*) AS n FROM loose', aion.tumbling('1 min'));
	CREATE FOREIGN TABLE strict (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 min');
	CREATE TABLE feeding (id int, at timestamptz NOT NULL);
	CREATE TRIGGER feed AFTER INSERT ON feeding FOR EACH ROW EXECUTE FUNCTION aion.feed('strict')});
sql(write_sql(2000, 0));
my $standby = new_standby('standby', $primary);
my $cascading = new_standby('cascading', $standby);
my @standbys = ($standby, $cascading);

# ---- readers see the same under every snapshot, whatever the primary does ------------------------------------------------

my @readers = map { start_readers($_) } @standbys;
my @load = start_load($primary);
wait_until($primary, q{SELECT count(*) > 3000 FROM p}, 'there is load');
# a checkpoint, for a restart to begin at
sql('CHECKPOINT');
sql('CHECKPOINT', $standby);
wait_until($primary, q{SELECT count(*) > 6000 FROM p}, 'and more of it');
sql('CREATE TABLE stop ()');
is_deeply([ stop_load(@load) ], [ '', '', '' ], 'nobody failed on the primary');
like($_, qr/^NOTICE:  equal in [1-9]\d+ reads$|^psql:.*equal in [1-9]\d+ reads$/, 'stream and table are equal on the standby') for stop_load(@readers);

# ---- everything that can be looked at, as on the primary ------------------------------------------------------------------

sql(q{
	INSERT INTO loose SELECT g, timestamptz '2024-03-01 10:00+00' + g * interval '5 s' FROM generate_series(1, 60) g;
	SELECT aion.advance_watermark('loose', '2024-03-01 10:02+00');
	INSERT INTO strict SELECT g, timestamptz '2024-03-01 10:00+00' + g * interval '5 s' FROM generate_series(1, 60) g;
	SELECT aion.create_view('strict_v', 'SELECT count(*) AS n FROM strict', aion.tumbling('1 min'));
	SELECT aion.advance_watermark('strict', '2024-03-01 10:05+00')});
sql(q{SELECT aion.sync('strict'); SELECT aion.sync('loose')});
sql(q{INSERT INTO strict VALUES (100, '2024-03-01 10:00:07+00'), (101, '2024-03-01 10:00:08+00')});
exact($primary, 'primary');
sql(q{SELECT aion.sync('strict', late => true)});
catch_up($primary, @standbys);
same_events($_, $_->name) for @standbys;

my @looks = (
	(map { "SELECT * FROM $_->{name} ORDER BY $_->{name}.*" } @VIEWS), 'TABLE strict_v', 'TABLE loose_v', 'SELECT * FROM strict ORDER BY id',
	q{SELECT count(*), sum(id) FROM s WHERE at >= '2024-03-01 10:10' AND at < '2024-03-01 10:20'},
	'SELECT * FROM aion.streams ORDER BY 1', 'SELECT * FROM aion.views ORDER BY 1', 'SELECT * FROM aion.windows ORDER BY 1, 2',
	'SELECT * FROM aion.expired ORDER BY id', q{SELECT aion.watermark('s'), aion.watermark('strict')}, 'SELECT * FROM aion.lateness ORDER BY 1',
	q{SELECT stream, bucket_start, disk_events, disk_bytes FROM aion.buckets WHERE stream = 's'::regclass AND disk_events > 0 ORDER BY 2},
	q{SELECT sum(journal_events) FROM aion.buckets WHERE stream = 's'::regclass},
);
for my $look (@looks)
{
	my $here = sql($look);
	isnt($here, '', "there is something to see: $look");
	is(sql($look, $_), $here, $_->name . " shows the same: $look") for @standbys;
}
is(sql(q{SELECT count(*) FROM aion.buckets WHERE memory_events > 0 OR memory_bytes > 0}, $standby), '0', 'a standby holds no events in memory');
is(sql('SELECT count(*) FROM aion.workers', $standby), '0', 'no worker shows');
is(sql(q{SELECT count(*) FROM aion.io WHERE requests > 0}, $standby), '0', 'no I/O was asked for');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'aion%'}, $_), '0', 'no worker runs on ' . $_->name) for @standbys;

# ---- events that are not logged are not there ----------------------------------------------------------------------------------

like(error_of($standby, 'SELECT * FROM loose'), qr/0A000.*cannot access stream "loose" during recovery.*It is not durable/s, 'a stream that is not durable has nothing to read');
is(sql(q{SELECT count(*) FROM aion.buckets WHERE stream = 'loose'::regclass}, $standby), '0', 'aion.buckets leaves it out');
is(sql('TABLE loose_v', $standby), sql('TABLE loose_v'), 'its results are there');

# ---- what writes, or has workers do something, is refused -----------------------------------------------------------------------

my $id = sql('SELECT min(id) FROM aion.expired');
my %refused = (
	"aion.sync('s')" => 'aion.sync\(\)',
	"aion.refresh('tumble')" => 'aion.refresh\(\)',
	"aion.refresh('tumble', '2024-03-01 10:00+00')" => 'aion.refresh\(\)',
	"aion.destage('s')" => 'aion.destage\(\)',
	"aion.stage('s', '2024-03-01 10:00+00', '2024-03-01 10:10+00')" => 'aion.stage\(\)',
	"aion.advance_watermark('s', '2024-03-02')" => 'aion.advance_watermark\(\)',
	"aion.reset_watermark('s', '2024-03-02')" => 'aion.reset_watermark\(\)',
	"aion.readmit($id)" => 'aion.readmit\(\)',
	"aion.create_view('new', 'SELECT count(*) AS n FROM s', aion.tumbling('1 min'))" => 'aion.create_view\(\)',
	"aion.create_view('new', 'SELECT count(*) AS n FROM s', aion.tumbling('1 min'), interval '1 h')" => 'aion.create_view\(\)',
	"aion.alter_view('tumble', early => '1 min')" => 'aion.alter_view\(\)',
	"aion.alter_view('tumble', reset => '{early}')" => 'aion.alter_view\(\)',
	"aion.drop_view('tumble')" => 'aion.drop_view\(\)',
	"aion.pause_view('tumble')" => 'aion.pause_view\(\)',
	"aion.resume_view('tumble')" => 'aion.resume_view\(\)',
);
for my $call (sort keys %refused)
{
	like(error_of($standby, "SELECT $call"), qr/25006: cannot execute $refused{$call} (during recovery|in a read-only transaction)/, "refused: $call");
}
for my $statement (
	"INSERT INTO s VALUES (1, 1, 1, 'x', '2024-03-01 10:00+00')", "COPY s FROM STDIN;\n1\t1\t1\tx\t2024-03-01 10:00+00\n\\.", 'TRUNCATE s', 'DROP FOREIGN TABLE s CASCADE',
	q{CREATE FOREIGN TABLE n (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at')}, q{ALTER FOREIGN TABLE s OPTIONS (SET idle_timeout '1 s')},
	'ALTER TABLE p ADD COLUMN more int', 'ALTER TABLE p RENAME COLUMN v TO w', 'DROP VIEW tumble', q{INSERT INTO feeding VALUES (1, '2024-03-01')}, 'DROP EXTENSION aion CASCADE', 'CREATE DATABASE d TEMPLATE template1', 'DROP DATABASE template0')
{
	like(error_of($standby, $statement), qr/25006: cannot execute [A-Z ]+ (during recovery|in a read-only transaction)/, 'refused: ' . substr($statement, 0, 40));
}
like(error_of($standby, q{SELECT aion.sync('s')}), qr/DETAIL: .*on the primary\..*HINT: /s, 'a hint says where to call what waits');

# ---- a standby, and the primary, that are restarted ---------------------------------------------------------------------------------

$standby->restart;
sql('DROP TABLE stop');
catch_up($primary, @standbys);
@load = start_load($primary);
@readers = start_readers($cascading);
for my $round (1 .. 2)
{
	my $before = sql('SELECT count(*) FROM p');
	wait_until($primary, "SELECT count(*) > $before + 1000 FROM p", 'load goes on');
	$standby->stop('immediate');
	sql('SELECT count(*) FROM s', $cascading);
	$standby->start;
	catch_up($primary, @standbys);
	same_events($standby, 'a standby after a crash');
}
kill_worker($primary, 'scheduler');
$_->result for @load;
$primary->poll_query_until('postgres', 'SELECT true') or die 'no primary';
sql(write_sql(500, 500));
exact($primary, 'primary after a crash');
catch_up($primary, @standbys);
same_events($_, $_->name . ' after a crash of the primary') for @standbys;
is(sql("SELECT * FROM $_->{name} ORDER BY $_->{name}.*", $cascading), sql("SELECT * FROM $_->{name} ORDER BY $_->{name}.*"), "$_->{name} on a standby after a crash of the primary") for @VIEWS;
sql('CREATE TABLE stop ()');
like($_, qr/equal in [1-9]\d* reads/, 'readers noticed nothing') for stop_load(@readers);

# ---- DDL, while somebody has a snapshot ------------------------------------------------------------------------------------------------

catch_up($primary, @standbys);
my $reader = Session->new($standby);
$reader->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->must('TABLE feeding');
# a snapshot, and no lock on what follows
sql(q{
	CREATE FOREIGN TABLE fresh (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
	INSERT INTO fresh VALUES (1, '2024-03-01')});
sql('TRUNCATE s; TRUNCATE p');
sql(q{SELECT aion.drop_view('strict_v')});
sql('DROP FOREIGN TABLE strict CASCADE');
sql(write_sql(10, 0));
catch_up($primary, @standbys);
is($reader->must('SELECT count(*) FROM s'), '0', 'TRUNCATE is seen at once, as that of a table');
is($reader->must('SELECT count(*) FROM p'), '0', 'so it is');
is($reader->must('SELECT count(*) FROM fresh'), '0', 'what was inserted later is not');
ok(!$reader->query('SELECT * FROM strict')->{ok}, 'what was dropped is gone');
$reader->must('ROLLBACK');
is($reader->must('SELECT count(*) FROM s'), '10', 'the next snapshot shows what came since');
is($reader->must('SELECT count(*) FROM fresh'), '1', 'in a new stream, too');
# one who reads keeps it for the time being
$reader->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->must('DECLARE c CURSOR FOR SELECT id FROM s');
my ($first) = $reader->must('FETCH 1 FROM c');
sql('TRUNCATE s; TRUNCATE p');
sql(write_sql(5, 0));
is($reader->must('SELECT count(*) FROM s'), '10', 'a reader keeps what it reads');
isnt($reader->must('FETCH ALL FROM c'), '', 'so does its cursor');
$reader->must('COMMIT');
catch_up($primary, @standbys);
is($reader->must('SELECT count(*) FROM s'), '5', 'then it sees that the stream was truncated');
sql('DROP FOREIGN TABLE s CASCADE');
catch_up($primary, @standbys);
like($reader->query('SELECT * FROM s')->{out}, qr/relation "s" does not exist/, 'and later that it was dropped');
is($reader->must(q{SELECT count(*) FROM aion.views WHERE view::text NOT LIKE 'loose%'}), '0', 'with its views');
is($reader->must(q{SELECT count(*) FROM aion.buckets WHERE stream = 'fresh'::regclass}), '1', 'aion.buckets shows what there is');
$reader->close;

sql('CREATE DATABASE other');
$primary->safe_psql('other', q{CREATE EXTENSION aion; CREATE FOREIGN TABLE o (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at'); INSERT INTO o VALUES ('2024-03-01')});
catch_up($primary, @standbys);
is($standby->safe_psql('other', 'SELECT count(*) FROM o'), '1', 'another database');
sql('DROP DATABASE other');
catch_up($primary, @standbys);
is(sql(q{SELECT count(*) FROM pg_database WHERE datname = 'other'}, $standby), '0', 'dropped there as well');

# ---- a standby that does not load the library at its start ----------------------------------------------------------------------------------

$cascading->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$cascading->restart;
like(error_of($cascading, 'TABLE fresh'), qr/55000: aion is not loaded at server start.*HINT: .*shared_preload_libraries/s, 'streams can not be read then');
is(sql('TABLE loose_v', $cascading), sql('TABLE loose_v'), 'results can');

# ---- what holds back the primary's horizon does not hold its memory ---------------------------------------------------------------------------

memory_is_free($primary, 'memory is free');
sql(q{SELECT pg_create_physical_replication_slot('behind')});
$cascading->stop;
$standby->append_conf('postgresql.conf', q{primary_slot_name = 'behind'});
$standby->restart;
$reader = Session->new($standby);
$reader->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->must('TABLE feeding');
wait_until($primary, q{SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'behind'}, 'a snapshot on the standby holds a slot back');
memory_is_free($primary, 'a snapshot of a standby pins no memory');
$reader->close;
$standby->stop('immediate');
memory_is_free($primary, 'nor does the slot of a standby that is gone');
my $local = Session->new($primary);
$local->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
$local->must('TABLE feeding');
memory_is_free($primary, 'nor an old snapshot here');
$local->close;

# ---- what the logs say ---------------------------------------------------------------------------------------------------------------------

for my $node (@standbys)
{
	my $log = slurp_file($node->logfile);
	unlike($log, qr/TRAP:|PANIC:|aion (launcher|scheduler|io|executor|serializer)/, $node->name . ': no assertion, and no word of workers');
}
$primary->stop;
done_testing();
