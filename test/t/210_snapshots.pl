# Every snapshot sees each event exactly once, while others insert, roll back, destage and fire: a stream and a table get
# the same rows in the same transactions, and readers compare the two under one snapshot, over and over.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

# little memory, so that events are in memory, in the journal alone, and in blocks
my $node = new_node('snapshots', conf => "aion.memory = '4MB'\nautovacuum_naptime = 1s\naion.late_interval = '100 ms'");
my $rounds = 250;

$node->safe_psql('postgres', q{
	CREATE TABLE plain (at timestamptz NOT NULL, v int, pad text);
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, v int, pad text) SERVER aion
		OPTIONS (event_time 'at', bucket_width '10 s', idle_timeout 'off', allowed_lateness 'unlimited');
	SELECT aion.create_view('tumble', 'SELECT count(*) AS n, sum(v) AS s FROM s', aion.tumbling('1 min'));
	SELECT aion.create_view('slide', 'SELECT v % 3 AS k, count(*) AS n, sum(v) AS s FROM s GROUP BY 1', aion.sliding('25 s', '10 s'));

	-- writes rows out of order into both, some in savepoints that are rolled back, in transactions of all sizes
	CREATE PROCEDURE write(writer int, rounds int) LANGUAGE plpgsql AS $$
	DECLARE n int;
	BEGIN
		PERFORM setseed(writer / 10.0);
		FOR round IN 1 .. rounds LOOP
			n := (ARRAY[1, 1, 1, 5, 50, 500, 2000])[1 + floor(random() * 7)];
			CREATE TEMP TABLE new ON COMMIT DROP AS
				SELECT timestamptz '2024-03-01' + (round - random() * random() * 30) * interval '3 s' AS at, g AS v, repeat('x', (random() * 300)::int) AS pad
				  FROM generate_series(1, n) g;
			INSERT INTO plain TABLE new;
			INSERT INTO s TABLE new;
			BEGIN
				INSERT INTO s SELECT at, -1, pad FROM new;
				RAISE EXCEPTION 'undo';
			EXCEPTION WHEN raise_exception THEN NULL;
			END;
			BEGIN
				INSERT INTO s SELECT at, v + 1000000, pad FROM new LIMIT 10;
				INSERT INTO plain SELECT at, v + 1000000, pad FROM new LIMIT 10;
			EXCEPTION WHEN raise_exception THEN NULL;
			END;
			IF round % 7 = 0 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END $$;

	-- compares under one snapshot, with some time between the two reads, and twice
	CREATE PROCEDURE compare(what text) LANGUAGE plpgsql AS $$
	DECLARE a text; b text; c text; reads int := 0;
	BEGIN
		WHILE to_regclass('stop') IS NULL LOOP
			COMMIT;
			SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
			IF reads % 2 = 0 THEN
				SELECT format('%s %s %s', count(*), sum(v), sum(length(pad))) INTO a FROM plain;
				PERFORM pg_sleep(0.02);
				SELECT format('%s %s %s', count(*), sum(v), sum(length(pad))) INTO b FROM s;
			ELSE
				SELECT format('%s %s %s', count(*), sum(v), sum(length(pad))) INTO b FROM s;
				PERFORM pg_sleep(0.02);
				SELECT format('%s %s %s', count(*), sum(v), sum(length(pad))) INTO a FROM plain;
			END IF;
			PERFORM pg_sleep(0.02);
			SELECT format('%s %s %s', count(*), sum(v), sum(length(pad))) INTO c FROM s;
			IF a <> b OR a <> c THEN
				RAISE EXCEPTION 'plain: %, stream: %, then %', a, b, c;
			END IF;
			reads := reads + 1;
		END LOOP;
	END $$;
	CREATE PROCEDURE destage() LANGUAGE plpgsql AS $$
	BEGIN
		WHILE to_regclass('stop') IS NULL LOOP
			PERFORM aion.destage('s');
			COMMIT;
			PERFORM pg_sleep(0.01);
		END LOOP;
	END $$});

my $log = -s $node->logfile;
sub start_call
{
	my ($call) = @_;
	my $err = '';
	my $handle = IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $call ],
		'<', '/dev/null', '>', '/dev/null', '2>', \$err, IPC::Run::timeout(300));
	return sub { $handle->finish; return $err; };
}

my @others = map { start_call($_) } "CALL compare('one')", "CALL compare('two')", 'CALL destage()';
my @writers = map { start_call("CALL write($_, $rounds)") } 1 .. 4;
is(join('', map { $_->() } @writers), '', 'writers never fail');
$node->safe_psql('postgres', 'CREATE TABLE stop ()');
is(join('', map { $_->() } @others), '', 'every snapshot sees the same in stream and table');

sync_stream($node, 's');
$node->safe_psql('postgres', "SELECT aion.refresh('tumble'), aion.refresh('slide')");
is($node->safe_psql('postgres', 'SELECT events FROM aion.streams'), $node->safe_psql('postgres', 'SELECT count(*) FROM plain'), 'as many are accounted for');
oracle_ok($node, 'tumble', q{
	SELECT date_bin('1 min', at, '2000-01-03 00:00+00') AS window_start, date_bin('1 min', at, '2000-01-03 00:00+00') + interval '1 min' AS window_end,
		   count(*) AS n, sum(v) AS s FROM plain GROUP BY 1, 2});
oracle_ok($node, 'slide', q{
	SELECT w AS window_start, w + interval '25 s' AS window_end, v % 3 AS k, count(*) AS n, sum(v) AS s
	  FROM plain, generate_series(timestamptz '2024-02-29 23:50:00', '2024-03-01 00:20:00', '10 s') w WHERE at >= w AND at < w + interval '25 s' GROUP BY 1, 2, 3});
is($node->safe_psql('postgres', '(SELECT at, v, pad FROM s EXCEPT ALL TABLE plain) UNION ALL (TABLE plain EXCEPT ALL SELECT at, v, pad FROM s)'), '', 'the same rows in the end');
$node->safe_psql('postgres', "SELECT aion.destage('s')");
is($node->safe_psql('postgres', '(SELECT at, v, pad FROM s EXCEPT ALL TABLE plain) UNION ALL (TABLE plain EXCEPT ALL SELECT at, v, pad FROM s)'), '', 'and from blocks');
kill_server($node);
is($node->safe_psql('postgres', '(SELECT at, v, pad FROM s EXCEPT ALL TABLE plain) UNION ALL (TABLE plain EXCEPT ALL SELECT at, v, pad FROM s)'), '', 'and after a crash');
unlike(slurp_file($node->logfile, $log), qr/ERROR|PANIC|TRAP/, 'no error in the log');

# The first events of a stream show as soon as those of a table do, though who knows the stream is not told yet that it has
# storage.
$node->safe_psql('postgres', q{CREATE TABLE plain_first (id int, at timestamptz NOT NULL); CREATE FOREIGN TABLE s_first (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at')});
my ($reader, $writer) = map { Session->new($node) } 1 .. 2;
is($reader->must('SELECT (SELECT count(*) FROM plain_first), (SELECT count(*) FROM s_first)'), '0|0', 'a stream that is empty');
arm_fault($node, 'definitions-committed', 'wait');
$writer->send(q{BEGIN; INSERT INTO plain_first VALUES (1, '2024-03-01'); INSERT INTO s_first TABLE plain_first; COMMIT});
wait_for_fault($node, 'definitions-committed');
$reader->send('SELECT (SELECT count(*) FROM plain_first), (SELECT count(*) FROM s_first)');
wait_until($node, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $reader->{backend}", 'who sees the transaction waits until its commit is through');
release_fault($node, 'definitions-committed');
is($reader->result->{out}, '1|1', 'and sees its first event');
ok($writer->result->{ok}, 'which ends');
$_->close for $reader, $writer;

$node->stop;
done_testing();
