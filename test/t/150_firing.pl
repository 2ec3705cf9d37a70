# Firings that meet locks, plans of views that are gone, and waiting for workers that are not there.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('firing', conf => "aion.executors = 1\nlog_statement = none");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub error_of
{
	my ($statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $statement);
	return $status == 0 ? '' : $err;
}

# ---- a lock on a table that a query or a trigger uses stops nobody else -------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	CREATE TABLE t (k int, label text);
	CREATE TABLE log (n bigint);
	-- what a function sets ends with the query
	CREATE FUNCTION patient() RETURNS bool LANGUAGE sql STABLE AS $$ SELECT set_config('lock_timeout', '0', false) IS NOT NULL $$;
	CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (NEW.n); RETURN NEW; END $$;
	SELECT aion.create_view('joined', 'SELECT count(*) AS n, (SELECT count(*) FROM t) AS ts FROM s', aion.tumbling('1 hour'));
	SELECT aion.create_view('noting', 'SELECT count(*) AS n, bool_and(public.patient()) AS p FROM s', aion.tumbling('1 hour'));
	SELECT aion.create_view('plain', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'));
	CREATE TRIGGER noted BEFORE INSERT ON aion_results.noting FOR EACH ROW EXECUTE FUNCTION noted()});

my $hour = 0;
for my $executors (1, 0)
{
	$node->append_conf('postgresql.conf', "aion.executors = $executors");
	$node->restart;
	sql("INSERT INTO s SELECT '2024-03-01 00:00+00'::timestamptz + $hour * interval '1 hour', i FROM generate_series(1, 3) i");
	my $locker = Session->new($node);
	$locker->must('BEGIN; LOCK TABLE t, log IN ACCESS EXCLUSIVE MODE');
	$hour++;
	sql("SELECT aion.advance_watermark('s', '2024-03-01 00:00+00'::timestamptz + $hour * interval '1 hour')");
	wait_until($node, "SELECT count(*) = $hour FROM plain", "$executors executors: a view that needs no locked table has its result");
	wait_until($node, q{SELECT count(*) = 2 FROM aion.windows WHERE error LIKE '%lock timeout%'}, "$executors executors: the others say what they miss");
	like(error_of(q{SELECT aion.refresh('joined', timeout => '500 ms')}), qr/timed out.*The work goes on in the background/s, "$executors executors: refresh gives up");
	$locker->must('COMMIT');
	wait_until($node, "SELECT (SELECT count(*) FROM joined) = $hour AND (SELECT count(*) FROM noting) = $hour AND (SELECT count(*) FROM log) = $hour", "$executors executors: and get there when it is released");
	is(sql('SELECT count(*) FROM aion.windows WHERE error IS NOT NULL'), '0', "$executors executors: no error is left");
}

# ---- plans of dropped views are freed ------------------------------------------------------------------------------------

# What the only executor has allocated, in kB.
sub memory
{
	my $pid = worker_pid($node, 'executor');
	my $from = -s $node->logfile;
	sql("SELECT pg_log_backend_memory_contexts($pid)");
	for (1 .. 1000)
	{
		return int($1 / 1024) if substr(slurp_file($node->logfile), $from) =~ /Grand total: (\d+) bytes/;
		usleep(10_000);
	}
	die 'the executor does not tell what memory it has';
}

$node->append_conf('postgresql.conf', 'aion.executors = 1');
$node->restart;
my $last;
for my $round (0 .. 3)
{
	sql(q{DO $$ BEGIN FOR i IN 1 .. 50 LOOP PERFORM aion.create_view('v' || i, 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour')); END LOOP; END $$});
	sql(q{SELECT aion.sync('s')});
	my $full = memory();
	sql(q{DO $$ BEGIN FOR i IN 1 .. 50 LOOP PERFORM aion.drop_view('v' || i); END LOOP; END $$});
	sql(q{SELECT aion.refresh('plain', '2024-03-01 00:00+00')});
	my $left = memory();
	cmp_ok($left, '<', $full - 1000, "plans of dropped views are freed, round $round: from $full to $left kB");
	cmp_ok($left, '<', $last + 100, "nothing of them stays, round $round") if $round > 1;
	$last = $left;
}

# ---- a firing that was ordered before a TRUNCATE ---------------------------------------------------------------------

sql(q{INSERT INTO s VALUES ('2024-04-01 00:30+00', 1)});
sql(q{SELECT aion.sync('s')});
arm_fault($node, 'executor-taken', 'wait');
sql(q{SELECT aion.advance_watermark('s', '2024-04-01 01:00+00')});
wait_for_fault($node, 'executor-taken');
# the hour begins anew, and is not complete
sql('TRUNCATE s');
sql(q{INSERT INTO s VALUES ('2024-04-01 00:10+00', 2)});
wait_until($node, q{SELECT count(*) > 0 FROM aion.windows WHERE window_start = '2024-04-01 00:00+00' AND events = 1}, 'the event after TRUNCATE is accounted for');
release_fault($node, 'executor-taken');
sql(q{SELECT aion.sync('s')});
is(sql(q{SELECT count(*) FROM plain WHERE window_start = '2024-04-01 00:00+00'}), '0', 'a firing that was ordered before TRUNCATE shows nothing of the hour that began after it');
is(sql(q{SELECT DISTINCT state, firings FROM aion.windows WHERE window_start = '2024-04-01 00:00+00'}), 'open|0', 'nor does it count');

# ---- no scheduler ------------------------------------------------------------------------------------------------------

# one slot: the launcher's
$node->append_conf('postgresql.conf', "max_worker_processes = 1\nmax_logical_replication_workers = 0\nmax_parallel_workers = 0");
$node->restart;
for my $call ("aion.sync('s', timeout => '300 ms')", "aion.refresh('plain', timeout => '300 ms')", "aion.destage('s', '300 ms')")
{
	like(error_of("SELECT $call"), qr/timed out.*No aion scheduler serves this database.*max_worker_processes/s, "$call tells that there is no scheduler");
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
