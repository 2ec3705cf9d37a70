# What is open while a standby is promoted: prepared transactions, snapshots, sessions; a promotion under load, of a
# stream that is not durable; and the old primary that is made to follow.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Twin qw(catch_up define_twins exact same_events start_load start_readers stop_load write_sql);

my $primary = new_node('primary', init => [ allows_streaming => 1 ],
	conf => "aion.memory = '4MB'\naion.late_interval = '20ms'\nautovacuum = off\nwal_keep_size = '1GB'\nwal_log_hints = on");

sub sql { my ($sql, $on) = @_; return ($on // $primary)->safe_psql('postgres', $sql) }

define_twins($primary);
sql(write_sql(1000, 0));
$primary->backup('base');

my $number = 0;

# A standby that follows from the backup on. Readers are waited for rather than cancelled.
sub new_standby
{
	my $standby = PostgreSQL::Test::Cluster->new('standby' . ++$number);
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = on\nwal_receiver_status_interval = 1s");
	$standby->start;
	return $standby;
}

# ---- prepared transactions, a snapshot, a session ---------------------------------------------------------------------------

# Prepared transactions: one larger than its share of memory is in the journal alone, on the standby all are.
my $standby = new_standby();
my $minute = 10 * $number;
sql('BEGIN;' . write_sql(100, $minute) . "; PREPARE TRANSACTION 'small'");
sql('BEGIN;' . write_sql(20000, $minute - 300) . "; PREPARE TRANSACTION 'large'");
sql('BEGIN;' . write_sql(100, $minute) . "; PREPARE TRANSACTION 'undone'");
catch_up($primary, $standby);
# a reader whose snapshot was taken in recovery
my $reader = Session->new($standby);
$reader->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $reader->must('SELECT count(*), sum(id) FROM p');
$reader->must('DECLARE c CURSOR FOR SELECT id FROM s');
$reader->must('FETCH 10 FROM c');
$standby->promote;
exact($standby, 'promoted with prepared transactions');
for my $node ($standby, $primary)
{
	sql($_, $node) for q{COMMIT PREPARED 'small'}, q{COMMIT PREPARED 'large'}, q{ROLLBACK PREPARED 'undone'};
}
exact($standby, 'prepared transactions that were finished after a promotion');
my @more = (write_sql(300, $minute - 200), q{SELECT aion.sync('s')}, q{SELECT aion.destage('s')}, write_sql(300, $minute + 4));
sql($_, $standby) for @more;
is($reader->must('SELECT count(*), sum(id) FROM s'), $seen, 'a snapshot that was taken before a promotion sees the same after it');
is($reader->must('MOVE ALL IN c; SELECT count(*), sum(id) FROM s'), $seen, 'and again');
$reader->must('COMMIT');
is($reader->must('SELECT count(*), sum(id) FROM s'), $reader->must('SELECT count(*), sum(id) FROM p'), 'the next one sees all');
# the session can write now
$reader->must(write_sql(10, $minute));
$reader->must(q{SELECT aion.sync('s')});
$reader->close;
exact($standby, 'a session that was there before');
$standby->stop('immediate');
$standby->start;
exact($standby, 'a crash after a promotion');
$standby->stop;

# ---- readers and load -------------------------------------------------------------------------------------------------

# Readers go on through a promotion in the middle of load, and load goes on there.
my @load = start_load($primary);
$standby = new_standby();
catch_up($primary, $standby);
my @readers = start_readers($standby);
my $lines = sql('SELECT count(*) FROM p', $standby);
wait_until($standby, "SELECT count(*) > $lines + 500 FROM p", 'load goes on');
$standby->promote;
my @more_load = start_load($standby);
$lines = sql('SELECT count(*) FROM p', $standby);
wait_until($standby, "SELECT count(*) > $lines + 2000 FROM p", 'load goes on there');
sql('CREATE TABLE stop ()', $_) for $primary, $standby;
is_deeply([ stop_load(@load, @more_load) ], [ ('') x 6 ], 'without an error on either');
like($_, qr/equal in [1-9]\d* reads/, 'readers noticed nothing') for stop_load(@readers);
exact($standby, 'promoted under load');
$standby->stop;

# ---- a stream that is not durable is as after a crash -------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE u (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', durable 'off', watermark 'manual');
	SELECT aion.create_view('u_v', 'SELECT count(*) AS n FROM u', aion.tumbling('10 min'));
	INSERT INTO u SELECT g, timestamptz '2024-03-01 10:00+00' + g * interval '1 min' FROM generate_series(0, 29) g;
	SELECT aion.advance_watermark('u', '2024-03-01 10:15+00')});
sql(q{SELECT aion.sync('u')});
$standby = new_standby();
catch_up($primary, $standby);
$standby->promote;
sql(q{SELECT aion.sync('u')}, $standby);
is(sql('SELECT count(*) FROM u', $standby), '0', 'not durable: events are lost by a promotion');
is(sql(q{SELECT watermark, events FROM aion.streams WHERE stream = 'u'::regclass}, $standby), '2024-03-01 10:15:00+00|30', 'not durable: W and counter stay');
is(sql(q{SELECT state, incomplete_reason FROM aion.windows WHERE view = 'u_v'::regclass}, $standby), 'incomplete|state lost', 'not durable: windows');
sql(q{INSERT INTO u VALUES (100, '2024-03-01 10:05+00'), (101, '2024-03-01 10:16+00')}, $standby);
sql(q{SELECT aion.sync('u', late => true); SELECT aion.refresh('u_v')}, $standby);
is(sql('SELECT window_start, n FROM u_v ORDER BY 1', $standby), "2024-03-01 10:00:00+00|10\n2024-03-01 10:10:00+00|1", 'not durable: a fired window keeps its result, the others begin anew');
exact($standby, 'beside a stream that is not durable');

# ---- the old primary, having gone on by itself, is made to follow, and takes over again ----------------------------------

exact($primary, 'the primary, in the end');
sql(write_sql(300, $minute + 6)) for 1 .. 2;
sql(q{SELECT aion.destage('s')});
sql(write_sql(300, $minute + 5), $standby);
sql(q{SELECT aion.destage('s')}, $standby);
# pg_rewind goes by the control file, which has the new timeline from the next checkpoint on
sql('CHECKPOINT', $standby);
$primary->stop;
my $file = $primary->data_dir . '/postgresql.conf';
my $config = slurp_file($file);
command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $primary->data_dir, '--source-server', $standby->connstr('postgres') ], 'pg_rewind');
unlink $file;
append_to_file($file, $config);
$primary->enable_streaming($standby);
$primary->start;
catch_up($standby, $primary);
same_events($primary, 'following');
is(sql('SELECT count(*) FROM s'), sql('SELECT count(*) FROM s', $standby), 'what it had written by itself is gone');
$standby->stop;
$primary->promote;
exact($primary, 'primary again');
sql(write_sql(300, $minute + 7));
exact($primary, 'primary again, and on');

$primary->stop;
unlike(slurp_file($primary->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
