# Cases that need several sessions, signals, restarts, or a server of their own.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('cases', conf => "log_min_messages = warning\nmax_connections = 50");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Runs a statement that may fail; returns the error message, or nothing.
sub error_of
{
	my ($statement, @options) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $statement, @options);
	return $status == 0 ? '' : $err;
}

# Starts psql on these statements; finish_session() waits for its end and tells what it wrote to stderr.
my $folder = PostgreSQL::Test::Utils::tempdir();
my $sessions = 0;

sub start_session
{
	my ($text) = @_;
	my $file = $folder . '/' . ++$sessions . '.sql';
	my $err = '';
	append_to_file($file, $text);
	my $handle = IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $file ],
		'<', '/dev/null', '>', '/dev/null', '2>', \$err, IPC::Run::timeout(180));
	return { handle => $handle, err => \$err };
}

sub finish_session
{
	my ($session) = @_;
	$session->{handle}->finish;
	return ${ $session->{err} };
}

# ---- R07: a stream that goes quiet shows its last window, and takes late rows all the same
{
	sql(q{
		CREATE FOREIGN TABLE s1 (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout '200 ms');
		CREATE FOREIGN TABLE s2 (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout '200 ms');
		SELECT aion.create_view('v1', 'SELECT k, count(*) AS n, sum(v) AS s FROM s1 GROUP BY k', aion.tumbling('1 s'));
		SELECT aion.create_view('v2', 'SELECT count(*) AS n FROM s2', aion.tumbling('1 s'));
		INSERT INTO s1 VALUES ('2024-03-01 10:00:00.1', 'a', 1), ('2024-03-01 10:00:00.5', 'a', 2)});
	wait_until($node, q{SELECT (n, s) = (2, 3) FROM v1}, 'R07: the last window shows without a further row');
	is(sql(q{SELECT aion.watermark('s1')}), '2024-03-01 10:00:01+00', 'R07: idle time moves W to the end of the last window');
	is(sql(q{SELECT event_watermark FROM aion.streams WHERE stream = 's1'::regclass}), '2024-03-01 10:00:00.5+00', 'R07: but not W_e');
	sql(q{INSERT INTO s1 VALUES ('2024-03-01 10:00:00.55', 'a', 4)});
	sync_stream($node, 's1');
	is(sql(q{SELECT k, n, s FROM v1}), 'a|3|7', 'R07: a later row is taken in');
	is(sql(q{SELECT state, late_events FROM aion.windows WHERE view = 'v1'::regclass}), 'late|1', 'R07: as a late one');
	is(sql(q{SELECT count(*) FROM v2}), '0', 'R07: a stream without events stays so');
	is(sql(q{SELECT aion.watermark('s1')}), '2024-03-01 10:00:01+00', 'R07: W went no further');
	sql(q{DROP FOREIGN TABLE s1, s2 CASCADE});
}

# ---- R14, R16: bad times; others see nothing before the commit
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('5 min'));
		SELECT aion.create_view('vs', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.sliding('10 min', '5 min'))});
	like(error_of(q{INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1), (NULL, 'a', 2), ('2024-03-01 10:01', 'a', 4)}), qr/event time "at" of stream "s" cannot be null/, 'R14: NULL');
	like(error_of(q{INSERT INTO s VALUES ('infinity', 'a', 16)}), qr/event time "at" of stream "s" cannot be infinite/, 'R14: infinity');
	like(error_of(q{INSERT INTO s VALUES ('-infinity', 'a', 32)}), qr/cannot be infinite/, 'R14: -infinity');
	sql(q{INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1), ('2024-03-01 10:01', 'a', 4)});
	sql(q{INSERT INTO s VALUES ('2024-03-01 10:02', 'a', 8)});
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v'), aion.refresh('vs')});
	is(sql(q{SELECT window_start, k, n, s FROM v}), '2024-03-01 10:00:00+00|a|3|13', 'R14: tumbling');
	is(sql(q{SELECT window_start, k, n, s FROM vs ORDER BY 1}), "2024-03-01 09:55:00+00|a|3|13\n2024-03-01 10:00:00+00|a|3|13", 'R14: sliding');
	is(sql(q{SELECT aion.watermark('s')}), '2024-03-01 10:02:00+00', 'R14: the watermark follows good rows');

	sql('TRUNCATE s');
	my $writer = $node->background_psql('postgres');
	$writer->query_safe(q{BEGIN; INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 2); SAVEPOINT x; INSERT INTO s VALUES ('2024-03-01 10:01', 'a', 4); ROLLBACK TO x; INSERT INTO s VALUES ('2024-03-01 10:02', 'a', 8)});
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM v)}), '0|0', 'R16: nothing is seen before the commit');
	$writer->query_safe('COMMIT');
	$writer->quit;
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT k, n, s FROM v}), 'a|2|10', 'R16: all of it after the commit');
	sql(q{DROP FOREIGN TABLE s CASCADE});
}

# ---- two-phase commit: durable at PREPARE, counts at COMMIT PREPARED, across a crash
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'));
		BEGIN; INSERT INTO s VALUES ('2024-03-01 10:00', 'p1', 1); SAVEPOINT x; INSERT INTO s VALUES ('2024-03-01 10:00', 'p1', 2); ROLLBACK TO x;
		INSERT INTO s VALUES ('2024-03-01 10:00', 'p1', 4); PREPARE TRANSACTION 'p1';
		BEGIN; INSERT INTO s SELECT '2024-03-01 10:00', 'p2', 1 FROM generate_series(1, 20000); PREPARE TRANSACTION 'p2';
		BEGIN; INSERT INTO s VALUES ('2024-03-01 10:00', 'p3', 1); PREPARE TRANSACTION 'p3';
		INSERT INTO s VALUES ('2024-03-01 10:00', 'n', 1), ('2024-03-01 12:00', 'n', 1)});
	sync_stream($node, 's');
	is(sql(q{SELECT k, n, s FROM v ORDER BY k}), 'n|1|1', 'two-phase: not before COMMIT PREPARED');
	kill_server($node);
	sql(q{COMMIT PREPARED 'p2'});
	sync_stream($node, 's');
	is(sql(q{SELECT k, n, s FROM v ORDER BY k}), "n|1|1\np2|20000|20000", 'two-phase: committed after a crash');
	sql(q{SELECT aion.destage('s')});
	$node->restart;
	sql(q{COMMIT PREPARED 'p1'});
	sql(q{ROLLBACK PREPARED 'p3'});
	sync_stream($node, 's');
	is(sql(q{SELECT k, n, s FROM v ORDER BY k}), "n|1|1\np1|2|5\np2|20000|20000", 'two-phase: committed after a restart, and rolled back');
	is(sql(q{SELECT events, late_events, expired_events FROM aion.streams}), '20004|20002|0', 'two-phase: counters');
	sql(q{DROP FOREIGN TABLE s CASCADE});
}

# ---- R20 in short: whatever dies between transactions, every row counts once
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'))});
	my @deaths = (
		sub { kill_worker($node, 'scheduler'); wait_until($node, 'SELECT true', 'R20: back after a killed scheduler'); },
		sub { $node->stop('immediate'); $node->start; },
		sub { $node->restart; },
		sub { kill_worker($node, 'scheduler', 'TERM'); },
		sub { kill_worker($node, 'io', 'TERM'); });
	for my $i (0 .. 9)
	{
		sql("INSERT INTO s SELECT timestamptz '2024-03-01 10:00' + (g % 60) * interval '1 min', 'a', 1 FROM generate_series(1, 100) g");
		$deaths[ $i % @deaths ]->();
	}
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT k, n, s FROM v}), 'a|1000|1000', 'R20: each row counts once');
	is(sql(q{SELECT events, late_events FROM aion.streams}), '1000|0', 'R20: counters');
	sql(q{DROP FOREIGN TABLE s CASCADE});
}

# ---- R22: eight writers, the first rows of both keys racing; on time, and late
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		CREATE FOREIGN TABLE untouched (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'))});
	my $log = -s $node->logfile;
	my @sessions;
	for my $s (1 .. 8)
	{
		push @sessions, start_session(join '', map {
			my $k = ($_ + $s) % 2 ? 'a' : 'b';
			my $at = sprintf '2024-03-01 10:%02d:%02d', $_ % 60, $s;
			"INSERT INTO s VALUES ('$at', '$k', 1);\n" . ($_ == 1 ? "INSERT INTO untouched VALUES ('$at', '$k', 1);\n" : '')
		} 1 .. 500);
	}
	is(join('', map { finish_session($_) } @sessions), '', 'R22: no error in any session');
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT window_start, k, n, s FROM v ORDER BY k}), "2024-03-01 10:00:00+00|a|2000|2000\n2024-03-01 10:00:00+00|b|2000|2000", 'R22: two rows');
	is(sql(q{SELECT count(*) FROM untouched}), '8', 'R22: the first insert of a stream by eight at once');
	sql(q{INSERT INTO s VALUES ('2024-03-01 12:00', 'a', 1)});
	sync_stream($node, 's');
	@sessions = map {
		start_session("INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1), ('2024-03-01 10:00', 'b', 1);\n" x 100 . "SELECT aion.sync('s', late => true);\n")
	} 1 .. 8;
	is(join('', map { finish_session($_) } @sessions), '', 'R22: no error in late sessions');
	is(sql(q{SELECT k, n, s FROM v WHERE window_start = '2024-03-01 10:00' ORDER BY k}), "a|2800|2800\nb|2800|2800", 'R22: late rows');
	unlike(slurp_file($node->logfile, $log), qr/ERROR|FATAL|PANIC/, 'R22: no error in the log');
	sql(q{DROP FOREIGN TABLE s, untouched CASCADE});
}

# ---- R23: no view, stopped workers, a trickle
{
	sql(q{CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout '200 ms')});
	sql(q{INSERT INTO s SELECT timestamptz '2024-03-01 00:00' + g * interval '100 ms', 'x' || g % 7, 1 FROM generate_series(1, 1000000) g});
	sql(q{SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'))});
	sql(q{INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1)});
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT n, s FROM v WHERE k = 'a'}), '1|1', 'R23 (i): a view after many rows without one');
	is(sql(q{SELECT sum(n) FROM v}), '1000001', 'R23 (i): with all that is retained');
	sql(q{DROP FOREIGN TABLE s CASCADE});

	# (ii) with the workers stopped, more than aion.memory holds is inserted; nothing waits for them
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int, pad text) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'));
		INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1, '')});
	sync_stream($node, 's');
	my @stopped = map { worker_pid($node, $_, 'postgres') } qw(scheduler io);
	kill 'STOP', @stopped;
	my ($acknowledged, $failed) = (1, '');
	for my $i (1 .. 25)
	{
		my $error = error_of("SET statement_timeout = '5s'; INSERT INTO s SELECT '2024-03-01 10:00', 'a', 1, repeat('x', 2000) FROM generate_series(1, 1000)");
		$error eq '' ? ($acknowledged += 1000) : ($failed .= $error);
	}
	my $error = error_of("SET statement_timeout = '5s'; SELECT aion.sync('s', timeout => '300 ms')");
	like($error, qr/timed out/, 'R23 (ii): sync tells that workers do not answer');
	$error = error_of("SET statement_timeout = '300ms'; SELECT aion.sync('s')");
	like($error, qr/canceling statement due to statement timeout/, 'R23 (ii): and can be cancelled');
	is(sql('SELECT count(*) FROM s'), $acknowledged, 'R23 (ii): events can be read meanwhile');
	kill 'CONT', @stopped;
	is($failed, '', 'R23 (ii): inserts go on while workers are stopped');
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT n, s FROM v}), "$acknowledged|$acknowledged", 'R23 (ii): every acknowledged row counts');
	sql(q{DROP FOREIGN TABLE s CASCADE});

	# (iii) three rows and then nothing
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout '100 ms');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('2 s'))});
	for my $row ([ '11:00:00', 1 ], [ '11:00:00.5', 2 ], [ '11:00:00.9', 4 ])
	{
		sql("INSERT INTO s VALUES ('2024-03-01 $row->[0]', 'a', $row->[1])");
		wait_until($node, qq{SELECT events = (SELECT count(*) FROM s) FROM aion.streams WHERE stream = 's'::regclass}, "R23 (iii): row $row->[1] is accounted for");
	}
	wait_until($node, q{SELECT (n, s) = (3, 7) FROM v}, 'R23 (iii): a trickle shows');
	sql(q{DROP FOREIGN TABLE s CASCADE});
}

# ---- R24: views are dropped and made again while rows flow
{
	my $rounds = 50;
	my $query = 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k';
	sql(qq{
		CREATE TABLE plain (at timestamptz, k text, v int);
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness 'unlimited');
		SELECT aion.create_view('v' || i, '$query', aion.tumbling('10 s')) FROM generate_series(1, 3) i});
	my $log = -s $node->logfile;
	# single rows without pause, into both in one transaction, until the table "stop" is there
	sql(q{
		CREATE PROCEDURE write() LANGUAGE plpgsql AS $$
		DECLARE i int := 0;
		BEGIN
			WHILE to_regclass('stop') IS NULL LOOP
				i := i + 1;
				INSERT INTO plain VALUES (timestamptz '2024-03-01' + i * interval '100 ms' - (i % 3) * interval '15 s', chr(97 + i % 3), i);
				INSERT INTO s VALUES (timestamptz '2024-03-01' + i * interval '100 ms' - (i % 3) * interval '15 s', chr(97 + i % 3), i);
				COMMIT;
			END LOOP;
		END $$});
	my $writer = start_session('CALL write();');
	wait_until($node, 'SELECT count(*) > 0 FROM plain', 'R24: the writer writes');
	my ($slowest, $errors) = (0, '');
	for my $round (1 .. $rounds)
	{
		my $end = $round % 5 == 0 ? 'ROLLBACK' : 'COMMIT';
		my $begin = time;
		$errors .= error_of("BEGIN; SELECT aion.drop_view('v1'), aion.drop_view('v3'); $end");
		my $took = time - $begin;
		$slowest = $took if $took > $slowest;
		$errors .= error_of("SELECT aion.create_view('v' || i, '$query', aion.tumbling('10 s')) FROM generate_series(1, 3, 2) i") if $end eq 'COMMIT';
	}
	sql('CREATE TABLE stop ()');
	is(finish_session($writer), '', 'R24: the writer never fails');
	is($errors, '', 'R24: neither does a drop');
	cmp_ok($slowest, '<', 5, 'R24: each drop takes less than 5 s');
	cmp_ok(sql('SELECT count(*) FROM plain'), '>', 100, 'R24: rows did flow');
	sync_stream($node, 's');
	for my $v (qw(v1 v2 v3))
	{
		sql("SELECT aion.refresh('$v')");
		oracle_ok($node, $v, q{
			SELECT date_bin('10 s', at, '2000-01-03 00:00+00') AS window_start, date_bin('10 s', at, '2000-01-03 00:00+00') + interval '10 s' AS window_end,
				   k, count(*) AS n, sum(v) AS s FROM plain GROUP BY 1, 2, 3}, "R24: $v has missed nothing");
	}
	unlike(slurp_file($node->logfile, $log), qr/deadlock|ERROR|FATAL|PANIC/, 'R24: no deadlock, no error');
	is(sql(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'aion_results'::regnamespace AND relkind IN ('r', 'v')}), '6', 'R24: no remains');
	sql(q{DROP FOREIGN TABLE s CASCADE; DROP TABLE plain, stop; DROP PROCEDURE write});
}

# ---- a journal that cannot be written: the statement or its commit fails, the server goes on
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'));
		INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1)});
	my $postmaster = sql('SELECT pg_postmaster_start_time()');
	for my $point (qw(journal-reserved journal-written before-commit))
	{
		for my $statement (
			q{INSERT INTO s VALUES ('2024-03-01 10:00', 'bad', 1)},
			q{INSERT INTO s SELECT '2024-03-01 10:00', 'bad', 1 FROM generate_series(1, 20000)},
			q{BEGIN; INSERT INTO s VALUES ('2024-03-01 10:00', 'bad', 1); SAVEPOINT a; INSERT INTO s VALUES ('2024-03-01 10:00', 'bad', 1); RELEASE a; COMMIT},
			q{BEGIN; INSERT INTO s VALUES ('2024-03-01 10:00', 'bad', 1); PREPARE TRANSACTION 'bad'})
		{
			arm_fault($node, $point, 'error');
			like(error_of($statement), qr/ERROR: .*fault/, "$point fails: " . substr($statement, 0, 60));
			wait_for_fault($node, $point);
		}
		sql(q{INSERT INTO s VALUES ('2024-03-01 10:00', 'good', 1)});
	}
	is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'a PREPARE that fails leaves nothing');
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT k, n FROM v ORDER BY k}), "a|1\ngood|3", 'what failed does not count');
	is(sql('SELECT pg_postmaster_start_time()'), $postmaster, 'the server went on');

	sql(q{DROP FOREIGN TABLE s CASCADE});
}

# ---- a journal that may not be touched: the same, and other streams go on
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		CREATE FOREIGN TABLE other (at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 hour'));
		INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1);
		INSERT INTO other VALUES ('2024-03-01 10:00')});
	sync_stream($node, 's');
	my $file = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath(journal) FROM aion.stream_def WHERE stream = 's'::regclass});
	chmod 0, $file or die "chmod: $!";
	for my $statement (
		q{INSERT INTO s VALUES ('2024-03-01 10:00', 'bad', 1)},
		q{BEGIN; INSERT INTO s SELECT '2024-03-01 10:00', 'bad', 1 FROM generate_series(1, 20000); COMMIT},
		q{BEGIN; INSERT INTO s VALUES ('2024-03-01 10:00', 'bad', 1); PREPARE TRANSACTION 'bad'})
	{
		like(error_of($statement), qr/could not open file .*Permission denied/, 'no access: ' . substr($statement, 0, 60));
	}
	sql(q{INSERT INTO other VALUES ('2024-03-01 10:00')});
	sync_stream($node, 'other');
	is(sql('SELECT count(*) FROM other'), '2', 'no access: other streams go on');
	chmod 0600, $file or die "chmod: $!";
	sql(q{INSERT INTO s VALUES ('2024-03-01 10:00', 'good', 1)});
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT k, n FROM v ORDER BY k}), "a|1\ngood|1", 'no access: it goes on with access');
	sql(q{DROP FOREIGN TABLE s, other CASCADE});
}

# ---- no more room: files of this server cannot grow beyond 32 MB, as on a full disk
{
	my $full = new_node('full', start => 0, conf => "autovacuum_naptime = 1s\naion.memory = '4MB'");
	my $sql = sub { return $full->safe_psql('postgres', $_[0]); };
	system('bash', '-c', 'ulimit -f 32768 && exec pg_ctl -s -w -D "$0" -l "$1" start', $full->data_dir, $full->logfile) == 0 or die 'the server did not start';
	$full->_update_pid(1);
	$sql->(q{
		CREATE EXTENSION aion;
		CREATE FOREIGN TABLE s (at timestamptz, k text, pad text) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 hour'));
		INSERT INTO s VALUES ('2024-03-01 10:00', 'a', '')});
	sync_stream($full, 's');
	my $start = $sql->('SELECT pg_postmaster_start_time()');
	for my $end ('COMMIT', q{PREPARE TRANSACTION 'bad'})
	{
		my ($status, $out, $err) = $full->psql('postgres', qq{
			BEGIN; INSERT INTO s SELECT '2024-03-01 10:00', 'bad', (SELECT string_agg(md5(i::text), '') FROM generate_series(g, g + 60) i) FROM generate_series(1, 25000) g; $end});
		like($err, qr/could not extend file .*File too large/, "no room: $end fails");
	}
	is($sql->('SELECT count(*) FROM s'), '1', 'no room: nothing of it is there');
	# what the failed ones took is given back by vacuum, and used again
	$sql->($sql->(q{SELECT 'VACUUM ' || journal FROM aion.stream_def}));
	for (1 .. 5)
	{
		$sql->(q{INSERT INTO s SELECT '2024-03-01 10:00', 'good', (SELECT string_agg(md5(i::text), '') FROM generate_series(g, g + 60) i) FROM generate_series(1, 1000) g});
	}
	$sql->(q{SELECT aion.refresh('v')});
	is($sql->('SELECT k, n FROM v ORDER BY k'), "a|1\ngood|5000", 'no room: it goes on when there is some');
	is($sql->('SELECT pg_postmaster_start_time()'), $start, 'no room: the server went on');
	$full->stop;
}

# ---- values of any size up to half a gigabyte; beyond, a clear error
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, a text, b text) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
		SELECT aion.create_view('v', 'SELECT max(length(a)) AS l, md5(max(a)) AS m FROM s', aion.tumbling('1 hour'));
		INSERT INTO s VALUES ('2024-03-01 10:00', repeat('x', 64 * 1024 * 1024), NULL)});
	is(sql(q{SELECT length(a), md5(a) = md5(repeat('x', 64 * 1024 * 1024)) FROM s}), '67108864|t', 'a value of 64 MB');
	sql(q{SELECT aion.destage('s')});
	is(sql(q{SELECT length(a), md5(a) = md5(repeat('x', 64 * 1024 * 1024)) FROM s}), '67108864|t', 'a value of 64 MB, destaged');
	sql(q{SELECT aion.refresh('v')});
	is(sql(q{SELECT l, m = md5(repeat('x', 64 * 1024 * 1024)) FROM v}), '67108864|t', 'a value of 64 MB in a view');
	like(error_of(q{INSERT INTO s SELECT '2024-03-01 10:00', t, t FROM (SELECT repeat('x', 260 * 1024 * 1024) AS t OFFSET 0) x}),
		qr/event of \d+ bytes is too large\nDETAIL:.*at most 536870912 bytes/, 'a row over the size limit');
	is(sql(q{SELECT count(*) FROM s}), '1', 'is not there');
	sql(q{DROP FOREIGN TABLE s CASCADE});
}

# ---- a server that has not loaded the library tells what to do; what it stored is kept
{
	sql(q{
		CREATE FOREIGN TABLE s (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('v', 'SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k', aion.tumbling('1 hour'));
		INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1);
		CREATE FOREIGN TABLE gone (at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('gone_v', 'SELECT count(*) AS n FROM gone', aion.tumbling('1 hour'));
		INSERT INTO gone VALUES ('2024-03-01 10:00')});
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
	$node->restart;
	for my $statement (
		q{SELECT * FROM s}, q{INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1)}, q{SELECT aion.sync('s')}, q{SELECT aion.refresh('v')}, q{TRUNCATE s},
		q{SELECT aion.create_view('w', 'SELECT k FROM s', aion.tumbling('1 hour'))},
		q{CREATE FOREIGN TABLE t (at timestamptz) SERVER aion OPTIONS (event_time 'at')})
	{
		like(error_of($statement), qr/shared_preload_libraries/, "not loaded: $statement");
	}
	is(sql('SELECT k, n, s FROM v'), 'a|1|1', 'not loaded: results can be read');
	my ($status, $out, $err) = $node->psql('template1', 'CREATE EXTENSION aion');
	like($err, qr/shared_preload_libraries/, 'not loaded: CREATE EXTENSION');
	sql('DROP FOREIGN TABLE gone CASCADE');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'aion'");
	$node->stop;	# ends the last session, if it is not gone yet, with a line of its own
	my $log = -s $node->logfile;
	$node->start;
	sql(q{INSERT INTO s VALUES ('2024-03-01 10:00', 'a', 1)});
	sync_stream($node, 's');
	sql(q{SELECT aion.refresh('v')});
	is(sql('SELECT k, n, s FROM v'), 'a|2|2', 'loaded again: goes on');
	sql(q{
		CREATE FOREIGN TABLE gone (at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
		SELECT aion.create_view('gone_v', 'SELECT count(*) AS n FROM gone', aion.tumbling('1 hour'));
		INSERT INTO gone VALUES ('2024-03-01 10:00'), ('2024-03-01 11:00')});
	sync_stream($node, 'gone');
	is(sql('SELECT n FROM gone_v'), '1', 'loaded again: a stream in the place of one that was dropped meanwhile');
	is(sql(q{SELECT (SELECT count(*) FROM aion.streams), (SELECT count(*) FROM aion.views)}), '2|2', 'loaded again: no remains are shown');
	unlike(slurp_file($node->logfile, $log), qr/ERROR|FATAL|PANIC/, 'loaded again: no error in the log');
}

$node->stop;
done_testing();
