# Locks: workers take none that keeps anybody from reading or inserting, wherever they are in their work; long transactions
# of others (a dump, an ALTER elsewhere) hold up nothing but what they are about; and whatever definitions are changed
# meanwhile, there is no deadlock.
use strict;
use warnings;

use Aion;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('locks', conf => "aion.late_interval = 0\naion.memory = '4MB'\nautovacuum = off\ndeadlock_timeout = '20ms'\nlog_lock_waits = off\nlog_error_verbosity = verbose");
my $session = Session->new($node);
my $probe = Session->new($node);
my $caller = Session->new($node);
my $next = 1;

sub sql { return $session->must($_[0]) }

sub setup
{
	sql(q{
		CREATE TABLE p (id int, k int, v int, at timestamptz NOT NULL);
		CREATE TABLE dim (k int PRIMARY KEY, name text);
		INSERT INTO dim SELECT i, 'n' || i FROM generate_series(0, 4) i;
		CREATE FOREIGN TABLE s (id int, k int, v int, at timestamptz NOT NULL) SERVER aion
			OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 day', bucket_width '1 hour');
		SELECT aion.create_view('v', 'SELECT d.name, count(*) AS n, sum(s.v) AS total FROM s JOIN dim d USING (k) GROUP BY d.name', aion.tumbling('1 hour'), allowed_lateness => '2 hours');
	});
	sql(q{CREATE INDEX ON aion_results.v (name)});
	return;
}

# Events into hours of 2024-03-01, n of them each.
sub insert_events
{
	my ($n, @hours) = @_;
	for my $hour (@hours)
	{
		my $first = $next;
		$next += $n;
		sql("INSERT INTO $_ SELECT i, i % 5, i, timestamptz '2024-03-01 $hour:00' + i % 3600 * interval '1 s' FROM generate_series($first, $next - 1) i") for 's', 'p';
	}
	return;
}

# All windows that hold events, or those before the watermark, have the results that they should.
my $COMPLETE = q{date_trunc('hour', at) < date_trunc('hour', aion.watermark('s'))};

sub exact
{
	my ($name, $which) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$which //= 'true';
	return oracle_ok($node, 'v', qq{SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', d.name, count(*), sum(v) FROM p JOIN dim d USING (k) WHERE $which GROUP BY 1, 2, 3}, $name);
}

# Locks of workers that nobody expects: on what users read, stronger than ROW EXCLUSIVE; on anything, in the way of it.
my $TOO_STRONG = q{
	SELECT DISTINCT a.backend_type, l.relation::regclass, l.mode
	  FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_class c ON c.oid = l.relation
	 WHERE a.backend_type LIKE 'aion %' AND l.locktype = 'relation'
	   AND (l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
			OR l.mode = 'ShareUpdateExclusiveLock' AND c.relnamespace NOT IN ('aion_data'::regnamespace, 'pg_toast'::regnamespace))
	   AND NOT (c.relkind = 'i' AND c.relnamespace = 'aion_data'::regnamespace)};

# What users do must be done at once, whatever worker stands where.
sub users_go_on
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($probe->must($TOO_STRONG), '', "$name: no strong lock");
	# the event is of a window that never comes to be computed
	my $result = $probe->query(q{
		BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '20s';
		INSERT INTO s VALUES (0, 1, 1, '2024-03-05 12:00');
		SELECT count(*) FROM s; SELECT count(*) FROM v; SELECT count(*) FROM aion_results.v; SELECT aion.watermark('s');
		SELECT count(*) FROM aion.streams; SELECT count(*) FROM aion.views; SELECT count(*) FROM aion.windows; SELECT count(*) FROM aion.buckets;
		SELECT count(*) FROM aion.expired; SELECT count(*) FROM aion.io; SELECT count(*) FROM aion.workers; SELECT count(*) FROM aion.lateness;
		COMMIT});
	ok($result->{ok}, "$name: users go on") or diag($result->{out});
	# as pg_dump begins
	$result = $probe->query(q{
		DO $$ DECLARE t regclass; BEGIN
			FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('aion', 'aion_data', 'aion_results', 'public') LOOP
				EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE NOWAIT', t);
			END LOOP; END $$});
	ok($result->{ok}, "$name: a dump can begin") or diag($result->{out});
	return;
}

# ---- a worker at each step ----------------------------------------------------------------------------------------------------

# Holds a worker at each of the points in turn. What leads there is prepared (before) and then, the point being armed, set
# going (after) and asked for by a statement whose end is waited for when the worker has gone on.
sub hold_at
{
	my ($points, %step) = @_;
	for my $point (@$points)
	{
		$step{before}->() if $step{before};
		arm_fault($node, $point, 'wait');
		$step{after}->() if $step{after};
		$caller->send(ref $step{call} ? $step{call}->() : $step{call});
		if (wait_for_fault($node, $point))
		{
			users_go_on("at $point");
			release_fault($node, $point);
		}
		my $result = $caller->result;
		ok($result->{ok}, "$point: done") or diag($result->{out});
	}
	return;
}

setup();
insert_events(300, 10 .. 15);
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 16:00')});
sql(q{SELECT aion.sync('s')});
hold_at([qw(scheduler-turned account-judged pass-accounted pass-before-commit pass-committed dispatch-posted executor-taken
	  fire-claimed fire-collected fire-deleted fire-inserted fire-counted fire-committed executor-fired)],
	after => sub { insert_events(20, 14, 15) }, call => q{SELECT aion.sync('s', late => true)});
exact('after each step of a firing', $COMPLETE);
# of hours that are not past, which nobody moves unasked
hold_at([qw(block-written destage-blocks-added destage-blocks-written destage-journal-deleted io-before-commit io-after-commit)],
	before => sub { insert_events(300, 20, 21) }, call => q{SELECT aion.destage('s')});
hold_at(['io-before-prune'], before => sub { insert_events(300, 20, 21) }, call => q{SELECT aion.destage('s')});
# a journal that is worth it
hold_at(['io-before-vacuum'], before => sub { insert_events(25000, 20, 21) }, call => q{SELECT aion.destage('s')});
hold_at(['fold-written'], before => sub { insert_events(300, 20) },
	after => sub { $_->close for $session, $probe, $caller; $node->restart; $_->connect for $session, $probe, $caller },
	call => q{SELECT aion.destage('s')});
my $hour = 10;
hold_at([qw(stage-begun stage-read stage-put)], call => sub { $hour++; return sprintf q{SELECT aion.stage('s', '2024-03-01 %d:00', '2024-03-01 %d:00')}, $hour - 1, $hour });
hold_at([qw(definitions-reloaded take-up-counted fire-error-recorded)], before => sub { sql(q{DROP VIEW IF EXISTS w}) },
	after => sub { sql(q{SELECT aion.create_view('w', 'SELECT sum(100 / (v - 1)) AS n FROM s', aion.tumbling('1 hour'))}) }, call => q{SELECT aion.refresh('w')});
sql(q{DROP VIEW w});
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 16:30')});
sql(q{SELECT aion.sync('s')});
hold_at(['reset-before-commit'], call => q{SELECT aion.reset_watermark('s', '2024-03-01 16:10')});
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 18:30')});
sql(q{SELECT aion.sync('s', late => true)});
hold_at([qw(account-set-aside set-aside-deleted)], after => sub { insert_events(20, 14) }, call => q{SELECT aion.sync('s')});
hold_at([qw(readmit-written readmit-before-commit readmit-committed)], before => sub { insert_events(20, 14); sql(q{SELECT aion.sync('s')}) },
	call => q{SELECT aion.readmit(VARIADIC array_agg(id)) FROM aion.expired});
exact('after events were readmitted', $COMPLETE);

# results go, then events
my $retain = 8;
hold_at([qw(retain-deleted retain-committed)], after => sub { $retain--; sql("SELECT aion.alter_view('v', retain => '$retain hours')") }, call => q{SELECT aion.sync('s')});
wait_until($node, q{SELECT results_removed_through >= '2024-03-01 12:00' FROM aion.views}, 'results are removed');
sql(q{DELETE FROM p WHERE at < '2024-03-01 12:00'});
exact('after results were removed', $COMPLETE);
sql(q{SELECT aion.alter_view('v', reset => '{retain}')});
$hour = 10;
hold_at([qw(pass-rows-purged purge-blocks-deleted purge-journal-deleted io-purged)], after => sub { $hour++; sql("SELECT aion.advance_watermark('s', '2024-03-02 $hour:00')") }, call => q{SELECT aion.sync('s')});
wait_until($node, q{SELECT count(*) = 0 FROM s WHERE at < '2024-03-01 14:00'}, 'events are purged');
sql(q{SELECT aion.sync('s', late => true)});
exact('after each step of a purge', $COMPLETE);
sql('DROP FOREIGN TABLE s CASCADE; DROP TABLE p, dim');

# ---- under load --------------------------------------------------------------------------------------------------------------

setup();
my @writers = map { Session->new($node) } 1 .. 2;
$writers[$_]->send(qq{DO \$\$ BEGIN FOR i IN 1 .. 400 LOOP
	INSERT INTO s SELECT $_ * 1000000 + i * 100 + j, j % 5, j, timestamptz '2024-03-01 10:00' + (i % 7) * interval '37 min' + j * interval '1 s' FROM generate_series(1, 60) j;
	COMMIT; END LOOP; END \$\$}) for 0, 1;
my %seen;
my @jobs = (q{SELECT aion.destage('s')}, q{SELECT aion.refresh('v')}, q{SELECT aion.sync('s', late => true)}, q{SELECT aion.stage('s', '2024-03-01 10:00', '2024-03-01 12:00')},
	q{SELECT aion.advance_watermark('s', '2024-03-01 12:00')});
my ($samples, $job) = (0, 0);
my $until = time + 10;
while (time < $until)
{
	if ($caller->busy) { $caller->result if $samples % 5 == 4 }
	else { $caller->send($jobs[ $job++ % @jobs ]) }
	$samples++;
	$seen{$_} = 1 for split /\n/, $probe->must(q{
		SELECT DISTINCT CASE l.relation WHEN 's'::regclass THEN 'stream' WHEN 'v'::regclass THEN 'view' WHEN 'aion_results.v'::regclass THEN 'results' WHEN 'aion_results.def_v'::regclass THEN 'definition'
				WHEN 'dim'::regclass THEN 'joined' END || ' ' || l.mode
		  FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.backend_type LIKE 'aion %' AND l.locktype = 'relation'
		   AND l.relation IN ('s'::regclass, 'v'::regclass, 'aion_results.v'::regclass, 'aion_results.def_v'::regclass, 'dim'::regclass)});
	my $strong = $probe->must($TOO_STRONG);
	$seen{"too strong: $strong"} = 1 if $strong ne '';
}
$caller->result if $caller->busy;
$_->busy && $_->result for @writers;
is(join(', ', grep { !/^(?:stream|view|results|definition|joined) (?:AccessShare|RowShare|RowExclusive)Lock$/ } sort keys %seen), '', "no strong lock of workers under load, in $samples samples");
ok($seen{'results RowExclusiveLock'} && $seen{'joined AccessShareLock'}, 'some were seen at work');
sql('INSERT INTO p SELECT * FROM s');
sql(q{SELECT aion.sync('s', late => true)});
sql(q{SELECT aion.refresh('v')});
exact('under load');

# ---- transactions that stay open ---------------------------------------------------------------------------------------------

sql(q{CREATE FOREIGN TABLE t (v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual')});
sql(q{INSERT INTO t VALUES (1, '2024-03-01 10:00')});
sql(q{SELECT aion.create_view('tv', 'SELECT count(*) AS n FROM t', aion.tumbling('1 hour'))});
my $dump = Session->new($node);
my $ddl = Session->new($node);
$dump->must(q{BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY});
$dump->must(q{DO $$ DECLARE t regclass; BEGIN
	FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('aion', 'aion_data', 'aion_results', 'public') LOOP
		EXECUTE format('SELECT count(*) FROM %s', t);
	END LOOP; END $$});
my $old = $dump->must('SELECT count(*) FROM s');
$ddl->must(q{BEGIN; ALTER FOREIGN TABLE t ADD COLUMN more int; ALTER VIEW tv RENAME TO tw});
for my $turn (1 .. 3)
{
	insert_events(200, 11, 12);
	sql(q{SELECT aion.sync('s', late => true, timeout => '30 s')});
	sql(q{SELECT aion.refresh('v', timeout => '30 s')});
	exact("beside a dump and an ALTER elsewhere, turn $turn");
	sql(q{SELECT aion.destage('s', timeout => '30 s')});
	is($dump->must('SELECT count(*) FROM s'), $old, "the dump sees what it saw, turn $turn");
}
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 20:00')});
sql(q{SELECT aion.sync('s', timeout => '30 s')});
insert_events(5, 11);
sql(q{SELECT aion.sync('s', timeout => '30 s')});
is(sql('SELECT count(*) FROM aion.expired'), '5', 'events are set aside');
sql(q{SELECT aion.readmit(id) FROM aion.expired});
exact('readmitted');
is(sql(q{SELECT count(*) FROM aion.streams; SELECT count(*) > 0 FROM aion.windows; SELECT count(*) FROM aion.views; SELECT DISTINCT stream FROM aion.buckets; SELECT count(*) > 0 FROM aion.io; SELECT count(*) FROM aion.lateness}),
	"2\nt\n2\ns\nt\n2", 'inspection goes on');
$ddl->must('ROLLBACK');
$dump->must('COMMIT');
$_->close for $dump, $ddl;
sql('DROP FOREIGN TABLE s, t CASCADE; DROP TABLE p, dim');

# Left out is what may deadlock by itself, without aion: REINDEX CONCURRENTLY beside other maintenance of a table, and
# transactions that take locks in an order of their own.
# ---- definitions that change at random ---------------------------------------------------------------------------------------

my $seed = $ENV{AION_SEED} // int(rand(1_000_000));
note("AION_SEED=$seed");
srand($seed);
sql(q{CREATE ROLE other; GRANT ALL ON SCHEMA public TO other});
my $CREATE = q{CREATE FOREIGN TABLE IF NOT EXISTS %1$s (k int, v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', idle_timeout 'off', allowed_lateness 'unlimited')};
my $VIEW = q{SELECT aion.create_view('%1$s_%2$s', 'SELECT k, count(*) AS n, sum(v) AS total FROM %1$s GROUP BY k', aion.tumbling('1 hour'), if_not_exists => true)};
my @OPERATIONS = (
	(q{INSERT INTO %1$s SELECT i %% 5, i, timestamptz '2024-03-01 10:00' + i * interval '1 min' FROM generate_series(1, 100) i}) x 6,
	(q{SELECT aion.sync('%1$s', late => true, timeout => '2 s')}) x 3, q{SELECT aion.refresh('%1$s_%2$s', timeout => '2 s')}, q{SELECT aion.destage('%1$s', '2 s')},
	(q{SELECT count(*) FROM %1$s}) x 2, (q{SELECT count(*) FROM %1$s_%2$s}) x 2, q{SELECT count(*) FROM aion.windows}, q{SELECT count(*) FROM aion.buckets},
	($CREATE) x 4, ($VIEW) x 10, q{SELECT aion.drop_view('%1$s_%2$s')}, q{DROP VIEW %1$s_%2$s CASCADE}, q{DROP FOREIGN TABLE %1$s CASCADE}, q{TRUNCATE %1$s},
	q{SELECT aion.pause_view('%1$s_%2$s')}, q{SELECT aion.resume_view('%1$s_%2$s')}, q{SELECT aion.alter_view('%1$s_%2$s', early => '1 s')},
	q{ALTER VIEW %1$s_%2$s OWNER TO other}, q{ALTER VIEW %1$s_%2$s OWNER TO postgres}, q{ALTER VIEW %1$s_%2$s RENAME COLUMN n TO m}, q{ALTER VIEW %1$s_%2$s RENAME COLUMN m TO n},
	q{ALTER FOREIGN TABLE %1$s ADD COLUMN more int DEFAULT 1}, q{ALTER FOREIGN TABLE %1$s RENAME COLUMN v TO w}, q{ALTER FOREIGN TABLE %1$s RENAME COLUMN w TO v},
	q{ALTER FOREIGN TABLE %1$s OPTIONS (SET watermark_interval '20 ms')}, q{ALTER FOREIGN TABLE %1$s ADD CONSTRAINT c CHECK (v IS NOT NULL)}, q{ALTER FOREIGN TABLE %1$s DROP CONSTRAINT c},
	q{BEGIN; TRUNCATE %1$s; INSERT INTO %1$s VALUES (1, 1, '2024-03-01 10:30'); ROLLBACK}, q{BEGIN; TRUNCATE %1$s; INSERT INTO %1$s VALUES (1, 1, '2024-03-01 10:30'); COMMIT},
	q{BEGIN; DROP VIEW %1$s_%2$s; ROLLBACK},
	# maintenance of results and of aion's own tables
	q{CREATE INDEX ON {R} (k)}, q{REINDEX TABLE {R}}, q{VACUUM FULL {R}}, q{VACUUM {R}}, q{CLUSTER {R} USING {I}}, q{ALTER TABLE {R} SET (fillfactor = 80)}, q{ALTER TABLE {R} ADD COLUMN more int DEFAULT 1},
	q{VACUUM FULL {T}}, q{VACUUM {T}}, q{REINDEX TABLE {T}}, q{ANALYZE {T}});
my @users = map { Session->new($node) } 1 .. 5;
sql(sprintf $CREATE, $_) for 'a', 'b';
sql(sprintf $VIEW, @$_) for [ 'a', 1 ], [ 'a', 2 ], [ 'b', 1 ], [ 'b', 2 ];

sub pick { return $_[ int(rand(@_)) ] }

sub operation
{
	my $sql = sprintf pick(@OPERATIONS), pick('a', 'b'), pick(1, 2);
	my @results = split /\n/, sql(q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'aion_results'::regnamespace AND relkind = 'r'});
	my @own = split /\n/, sql(q{SELECT oid::regclass FROM pg_class WHERE relnamespace IN ('aion'::regnamespace, 'aion_data'::regnamespace) AND relkind = 'r'});
	my $results = pick(@results) // 'none';
	my $index = 'aion_results.' . ($results =~ s/^aion_results\.//r) . '_window_start_idx';
	$index = $index =~ s/^aion_results\.//r;
	my $own = pick(@own);
	return $sql =~ s/\{R\}/$results/gr =~ s/\{I\}/$index/gr =~ s/\{T\}/$own/gr;
}

# Deadlocks and internal errors in the server's log, which tells those of workers as well, and of every statement of a
# transaction; without what the server itself answers to who changes what another has just changed or dropped.
my $NOBODYS_FAULT = qr/ERROR:  XX000: tuple concurrently (?:updated|deleted)|LOCATION:  (?:RangeVarCallbackForTruncate|GetForeignServerIdByRelId), /;

sub faults
{
	my ($log) = @_;
	my (@faults, $is_fault);
	for my $line (split /\n/, $log)
	{
		if ($line =~ /(?:LOG|NOTICE|WARNING|ERROR|FATAL|PANIC):  (\w{5}):/)
		{
			$is_fault = $1 =~ /^(?:40P01|XX)/;
			push @faults, '' if $is_fault;
		}
		$faults[-1] .= "$line\n" if $is_fault;
	}
	return grep { !/$NOBODYS_FAULT/ } @faults;
}

my (%outcomes, @lost);
my $operations = 0;
my $log_before = -s $node->logfile;
$until = time + ($ENV{AION_SECONDS} // 25);
while (time < $until || grep { $_->busy } @users)
{
	for my $user (@users)
	{
		if ($user->busy)
		{
			my $result = $user->result;
			my $outcome = $result->{ok} ? 'ok' : $result->{sqlstate};
			$outcomes{$outcome}++;
			$operations++;
			push @lost, $result->{sql} if $result->{lost};
			$user->query('ROLLBACK') if !$result->{ok};
		}
		$user->send(operation()) if time < $until;
	}
}
note("$operations operations: " . join ', ', map { "$_ $outcomes{$_}" } sort keys %outcomes);
is(join("\n", @lost), '', 'no session was lost');
cmp_ok($outcomes{ok}, '>', $operations / 3, 'and many succeed');
$_->close for @users;
is(sql('SELECT sum(deadlocks) FROM pg_stat_database'), '0', 'no deadlock');
is(join("\n", faults(slurp_file($node->logfile, $log_before))), '', 'nothing ends in a deadlock or an internal error, in workers neither');

# what is left is exact
for my $stream ('a', 'b')
{
	sql(sprintf $CREATE, $stream);
	$session->query("ALTER FOREIGN TABLE $stream RENAME COLUMN w TO v");
	sql(sprintf $VIEW, $stream, $_) for 1, 2;
	sql("SELECT aion.resume_view('${stream}_$_')") for 1, 2;
	sql("ALTER VIEW ${stream}_$_ OWNER TO postgres") for 1, 2;
	sql("INSERT INTO $stream VALUES (1, 1, '2024-03-01 10:30')");
	sql("SELECT aion.sync('$stream', late => true)");
	sql("SELECT aion.refresh('${stream}_$_')") for 1, 2;
	oracle_ok($node, "${stream}_$_", "SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', k, count(*), sum(v) FROM $stream GROUP BY 1, 2, 3", "${stream}_$_ is exact") for 1, 2;
}
is(sql(q{SELECT count(*) FROM aion.windows WHERE error IS NOT NULL}), '0', 'nothing failed for good');

$_->close for $session, $probe, $caller, @writers;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
