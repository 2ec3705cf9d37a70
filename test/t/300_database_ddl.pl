# Statements about whole databases that aion serves: DROP, RENAME, SET TABLESPACE, copies, templates, and databases that
# take no connections; and the extension's coming and going (case R25 among others). None needs a manual step.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);
use POSIX ();

my $node = new_node('database_ddl', conf => "aion.late_interval = '20ms'\nlog_statement = none");
my $tablespace = PostgreSQL::Test::Utils::tempdir;

sub sql { my ($text, $dbname, @more) = @_; return $node->safe_psql($dbname // 'postgres', $text, @more) }

# The error of a statement that must fail.
sub error_of
{
	my ($text, $dbname, @more) = @_;
	my ($code, $out, $error) = $node->psql($dbname // 'postgres', $text, @more);
	return $code == 0 ? 'no error' : $error;
}

# A stream, a view over it and the table that tells what they must hold.
my $define = q{
	CREATE FOREIGN TABLE s (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', allowed_lateness 'unlimited');
	CREATE TABLE p (k int, at timestamptz NOT NULL);
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 min'))};
my $batch = q{SELECT date_trunc('minute', at), date_trunc('minute', at) + interval '1 min', k, count(*) FROM p GROUP BY 1, 2, 3};

sub create_database
{
	my ($dbname) = @_;
	sql("CREATE DATABASE $dbname");
	sql("CREATE EXTENSION aion; $define", $dbname);
	return;
}

# Events of some twenty windows; they are late for those that are there. Nothing is waited for, so workers are busy.
sub add_events
{
	my ($n, @dbnames) = @_;
	sql("WITH e AS (INSERT INTO p SELECT i % 5, timestamptz '2024-03-01 10:00+00' + i % 1200 * interval '1 s' FROM generate_series(1, $n) i RETURNING *) INSERT INTO s SELECT * FROM e", $_) for @dbnames;
	return;
}

sub exact
{
	my ($name, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql("SELECT aion.sync('s', late => true); SELECT aion.refresh('v')", $dbname);
	oracle_ok($node, 'v', $batch, "$name: view", $dbname);
	is(sql('SELECT s.events = (SELECT count(*) FROM p) AND s.events = (SELECT count(*) FROM s) FROM aion.streams s', $dbname), 't', "$name: counter and stream");
	return;
}

# Runs a statement that must succeed within the 10 seconds of R25.
sub soon
{
	my ($text, @more) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $begin = time;
	my ($code, $out, $error) = $node->psql('postgres', $text, @more);
	my $took = time - $begin;
	ok($code == 0 && $took < 10, sprintf('%s: %.1f s', $text, $took)) or diag($error);
	return;
}

my $served = q{EXISTS (SELECT FROM pg_stat_activity WHERE datname = '%s' AND backend_type = 'aion scheduler')};
sub is_served { return sprintf("SELECT $served", $_[0]) }
sub has_no_workers { return "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '$_[0]' AND backend_type LIKE 'aion %')" }

# What the log tells of workers since the last call: nothing, unless something went wrong or one was killed. With "busy"
# it may tell that one was ended in the middle of its work.
my $log_read = 0;
sub noise
{
	my ($busy) = @_;
	my $log = slurp_file($node->logfile, $log_read);
	$log_read += length $log;
	return join("\n", grep { (/aion (launcher|scheduler|io|executor|serializer)\b/ || /not currently accepting connections|FATAL: +database/)
			&& !($busy && /FATAL: +terminating background worker|exited with exit code 1$/) } split /\n/, $log);
}

sql("CREATE TABLESPACE other LOCATION '$tablespace'");
sql(q{CREATE ROLE owner LOGIN CREATEDB; CREATE ROLE stranger LOGIN CREATEDB; GRANT CREATE ON TABLESPACE other, pg_default TO owner});

# ---- R25 ------------------------------------------------------------------------------------------------------------

create_database($_) for qw(d1 d2);
my $other_load = Session->new($node, 'd2');
$other_load->send(q{DO $$ BEGIN LOOP INSERT INTO s SELECT g % 5, timestamptz '2024-03-01 10:00+00' + g * interval '1 s' FROM generate_series(1, 100) g; COMMIT; END LOOP; END $$});
add_events(5000, 'd1');
my $first = kill_worker($node, 'scheduler', 'TERM', 'd1');
isnt(worker_pid($node, 'scheduler', 'd1'), $first, 'R25: a killed scheduler returns');
noise();
add_events(5000, 'd1');
soon('ALTER DATABASE d1 RENAME TO d3');
add_events(5000, 'd3');
exact('renamed', 'd3');
add_events(20000, 'd3');
soon('DROP DATABASE d3');
is(sql(is_served('d2')), 't', 'R25: the other database is served');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO %'});
$other_load->result;
sql('INSERT INTO p SELECT * FROM s', 'd2');
exact('R25: d2 after the end of d1', 'd2');
sql('BEGIN; DROP EXTENSION aion CASCADE; ROLLBACK', 'd2');
add_events(500, 'd2');
exact('R25: DROP EXTENSION rolled back', 'd2');
is(noise('busy'), '', 'R25: not a word of workers in the log');
$other_load->send(q{DO $$ BEGIN LOOP INSERT INTO s SELECT g % 5, timestamptz '2024-03-01 10:00+00' + g * interval '1 s' FROM generate_series(1, 100) g; COMMIT; END LOOP; END $$});
wait_until($node, 'SELECT count(*) > 10000 FROM s', 'R25: load', 'd2');
{
	my $begin = time;
	sql('DROP EXTENSION aion CASCADE', 'd2');
	cmp_ok(time - $begin, '<', 10, 'R25: DROP EXTENSION CASCADE under load');
}
ok(!$other_load->result->{ok}, 'R25: the load ends');
$other_load->close;
wait_until($node, has_no_workers('d2'), 'R25: its workers leave');
is(noise('busy'), '', 'R25: in silence');
sql(q{CREATE EXTENSION aion; CREATE FOREIGN TABLE s (k text, v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
	SELECT aion.create_view('v', 'SELECT k, count(*) AS n FROM s GROUP BY k', aion.tumbling('1 hour')); INSERT INTO s VALUES ('a', 1, '2024-03-01 10:00+00')}, 'd2');
sql(q{SELECT aion.refresh('v')}, 'd2');
is(sql('SELECT k, n FROM v', 'd2'), 'a|1', 'R25: created again');
soon('DROP DATABASE d2');

# ---- the extension goes while others use it ------------------------------------------------------------------------------

# Sessions that come from streams to aion's tables and the other way round, workers that are busy, and the extension dropped
# all the time, by name or with its owner: nobody is in anybody's way for good.
sql('CREATE ROLE boss SUPERUSER');
sql('CREATE DATABASE d4');
sql("SET ROLE boss; CREATE EXTENSION aion; $define", 'd4');
sql(q{SET ROLE boss; CREATE FOREIGN TABLE s2 (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms');
	SELECT aion.create_view('v2', 'SELECT count(*) AS n FROM s2', aion.tumbling('1 min'))}, 'd4');
{
	my ($insert, $insert2) = map { "INSERT INTO $_ SELECT g % 5, timestamptz '2024-03-01 10:00+00' + g * interval '1 min' FROM generate_series(1, 10) g;" } qw(s s2);
	my @loops = (
		"$insert PERFORM count(*) FROM aion.streams; PERFORM count(*) FROM aion.views; PERFORM count(*) FROM v;",
		"PERFORM count(*) FROM aion.windows; PERFORM count(*) FROM aion.streams; $insert2",
		"PERFORM count(*) FROM v2; $insert2 PERFORM count(*) FROM aion.views;",
		'PERFORM count(definition) FROM aion.views; PERFORM count(*) FROM aion.expired;');
	my @sessions = map { Session->new($node, 'd4') } @loops;
	$sessions[$_]->send("DO \$\$ BEGIN LOOP $loops[$_] COMMIT; PERFORM pg_sleep(0.02 * random()); END LOOP; END \$\$") for 0 .. $#loops;
	my $failed = 0;
	for my $i (1 .. 40)
	{
		my $statement = $i % 2 ? 'DROP EXTENSION aion CASCADE' : 'DROP OWNED BY boss CASCADE';
		my ($code, $out, $error) = $node->psql('d4', "SET client_min_messages = error; BEGIN; $statement; ROLLBACK");
		$failed++ if $code != 0;
		diag("$statement: $error") if $code != 0;
	}
	is($failed, 0, 'the extension could be dropped each time');
	sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO %'}, 'd4');
	for my $session (@sessions)
	{
		like($session->result->{out}, qr/canceling statement due to user request/, 'a session that was not disturbed');
		$session->close;
	}
}
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'no deadlock');
is(noise('busy'), '', 'not a word of workers in the log');
is(sql('SELECT aion.sync($$s2$$); SELECT events > 0 AND events = (SELECT count(*) FROM s2) FROM aion.streams WHERE stream = $$s2$$::regclass', 'd4'), "\nt", 'and nothing lost');
sql('DROP FOREIGN TABLE s2 CASCADE; INSERT INTO p SELECT k, at FROM s', 'd4');
exact('after all', 'd4');
soon('DROP DATABASE d4');

# ---- moving, in the owner's hands ------------------------------------------------------------------------------------

create_database('d');
sql('ALTER DATABASE d OWNER TO owner');
my @owner = (extra_params => [ '-U', 'owner' ]);
my @stranger = (extra_params => [ '-U', 'stranger' ]);

for my $round (1 .. 3)
{
	add_events(5000, 'd');
	soon('ALTER DATABASE d SET TABLESPACE other', @owner);
	add_events(5000, 'd');
	soon('ALTER DATABASE d SET TABLESPACE pg_default', @owner);
	add_events(5000, 'd');
	soon('ALTER DATABASE d RENAME TO e', @owner);
	add_events(5000, 'e');
	soon('ALTER DATABASE e RENAME TO d', @owner);
}
exact('moved and renamed under load', 'd');
is(noise('busy'), '', 'not a word of workers in the log');

# workers that have nothing to do leave without a word
soon("ALTER DATABASE d SET TABLESPACE $_", @owner) for qw(other pg_default);
is(noise(), '', 'not even of leaving');

# who may not run the statement does not stop anything
my $scheduler = worker_pid($node, 'scheduler', 'd');
for my $statement ('DROP DATABASE d', 'DROP DATABASE d WITH (FORCE)', 'ALTER DATABASE d RENAME TO e', 'ALTER DATABASE d SET TABLESPACE other', 'CREATE DATABASE e TEMPLATE d')
{
	like(error_of($statement, 'postgres', @stranger), qr/must be owner of database d|permission denied to copy database "d"/, "$statement by a stranger");
}
like(error_of('BEGIN; DROP DATABASE d; COMMIT', 'postgres', @owner), qr/cannot run inside a transaction block/, 'nor what is refused anyway');
like(error_of('DROP DATABASE d', 'd', @owner), qr/cannot drop the currently open database/, 'nor what cannot be done from here');
is(worker_pid($node, 'scheduler', 'd'), $scheduler, 'its scheduler was not disturbed');

# a statement that fails, a transaction that is rolled back, a session that is ended: workers return by themselves
{
	my $session = Session->new($node, 'd');
	like(error_of('ALTER DATABASE d RENAME TO e'), qr/is being accessed by other users/, 'somebody else is connected');
	add_events(1000, 'd');
	exact('after a statement that was refused', 'd');
	$session->close;
	for my $end ('ROLLBACK', 'pg_terminate_backend', 'the launcher dies, then COMMIT')
	{
		my $session = Session->new($node);
		$session->must('BEGIN');
		$session->must('ALTER DATABASE d RENAME TO e');
		is(sql(has_no_workers('d')), 't', "$end: no workers during the transaction");
		if ($end eq 'pg_terminate_backend') { sql("SELECT pg_terminate_backend($session->{backend}, 10000)") }
		elsif ($end eq 'ROLLBACK') { $session->must($end) }
		else
		{
			kill_worker($node, 'launcher', 'TERM');
			worker_pid($node, 'launcher');
			is(sql(has_no_workers('d')), 't', "$end: the next launcher starts none");
			$session->must('COMMIT');
			sql('ALTER DATABASE e RENAME TO d');
		}
		$session->close;
		add_events(1000, 'd');
		exact("after $end", 'd');
	}
	$session = Session->new($node);
	$session->must('BEGIN');
	$session->must('ALTER DATABASE d RENAME TO e');
	kill 'KILL', $session->{backend};
	$session->close;
	wait_until($node, 'SELECT true', 'the server returns', 'd');
	add_events(1000, 'd');
	exact('after a crash', 'd');
}

# two statements at once: the bar is lifted after the second
{
	my ($first, $second) = map { Session->new($node) } 1 .. 2;
	$first->must('BEGIN');
	$first->must('ALTER DATABASE d RENAME TO e');
	$second->send('DROP DATABASE d');
	wait_until($node, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $second->{backend}", 'the second statement waits for the first');
	$first->must('ROLLBACK');
	ok($second->result->{ok}, 'and has its way');
	$_->close for $first, $second;
}
create_database('d');
sql('ALTER DATABASE d OWNER TO owner');
add_events(3000, 'd');

# ---- copies ------------------------------------------------------------------------------------------------------------

# Taken while events are in memory, in the journal and in p-buckets, some accounted for and some not.
sql("SELECT aion.destage('s')", 'd');
noise();
for my $strategy ('wal_log', 'file_copy')
{
	add_events(3000, 'd');
	soon("CREATE DATABASE c TEMPLATE d STRATEGY $strategy", @owner);
	is(sql('SELECT count(*) = (SELECT count(*) FROM p) FROM s', 'c'), 't', "copy by $strategy: the stream can be read at once");
	exact("copy by $strategy", 'c');
	add_events(2000, 'c');
	add_events(1000, 'd');
	exact("copy by $strategy goes on", 'c');
	exact("and so does its origin ($strategy)", 'd');
	sql("SELECT aion.destage('s')", 'c');
	add_events(500, 'd', 'c');
	sql('TRUNCATE s; TRUNCATE p', 'c');
	add_events(700, 'c', 'd');
	exact("copy by $strategy, made empty", 'c');
	exact("its origin is not ($strategy)", 'd');
	soon('DROP DATABASE c', @owner);
}
# the copy outlives its origin, also across a restart; a copy of a copy; a copy of the current database
sql('CREATE DATABASE c TEMPLATE d', 'd');
add_events(1000, 'c');
sql('CREATE DATABASE cc TEMPLATE c');
add_events(1000, 'cc');
soon('DROP DATABASE c');
exact('a copy of a copy', 'cc');
is(noise('busy'), '', 'not a word of workers in the log');
{
	my @sessions = map { Session->new($node, 'd') } 1 .. 3;
	$_->send(q{DO $$ BEGIN LOOP INSERT INTO s SELECT g % 5, timestamptz '2024-03-01 10:00+00' + g * interval '1 s' FROM generate_series(1, 20) g; COMMIT; END LOOP; END $$}) for @sessions;
	soon('DROP DATABASE d WITH (FORCE)');
	is($_->result->{lost}, 1, 'a session was ended by DROP DATABASE WITH (FORCE)') for @sessions;
}
is(noise('busy'), '', 'not a word of workers in the log');
$node->restart;
add_events(1000, 'cc');
exact('a copy without its origin, after a restart', 'cc');

# also by an owner who is no superuser, under load of his own
create_database('d');
sql('ALTER DATABASE d OWNER TO owner');
sql('GRANT INSERT ON s TO owner', 'd');
{
	my $pid = fork // die;
	if ($pid == 0)
	{
		$node->psql('d', q{DO $$ BEGIN LOOP INSERT INTO s SELECT g % 5, timestamptz '2024-03-01 10:00+00' + g * interval '1 s' FROM generate_series(1, 20) g; COMMIT; END LOOP; END $$}, @owner);
		POSIX::_exit(0);
	}
	wait_until($node, 'SELECT count(*) > 1000 FROM s', 'load of the owner', 'd');
	soon('DROP DATABASE d WITH (FORCE)', @owner);
	waitpid($pid, 0);
}

# ---- templates, and databases without connections -------------------------------------------------------------------------

create_database('t');
add_events(2000, 't');
exact('before it is a template', 't');
noise();
sql('ALTER DATABASE t IS_TEMPLATE true');
soon('CREATE DATABASE c TEMPLATE t', @stranger);
wait_until($node, has_no_workers('t'), 'a template is not served');
exact('a copy of a template', 'c');
soon('DROP DATABASE c');
sql('ALTER DATABASE t IS_TEMPLATE false');
wait_until($node, is_served('t'), 'one that is a template no longer is');
add_events(1000, 't');
sql(q{UPDATE pg_database SET datistemplate = true WHERE datname = 't'});
soon('CREATE DATABASE c TEMPLATE t', @stranger);
exact('a copy of a template that nobody was told of', 'c');
soon('DROP DATABASE c');
sql('ALTER DATABASE t IS_TEMPLATE false');
exact('and itself', 't');

add_events(2000, 't');
sql('ALTER DATABASE t ALLOW_CONNECTIONS false');
wait_until($node, has_no_workers('t'), 'a database that takes no connections is not served');
soon('CREATE DATABASE c TEMPLATE t');
exact('a copy of it is', 'c');
soon('DROP DATABASE c');
sql('ALTER DATABASE t ALLOW_CONNECTIONS true');
exact('and itself, as soon as it takes some', 't');
{
	# closed behind aion's back: who is connected goes on, workers that start meanwhile don't complain
	my $session = Session->new($node, 't');
	my $executors = q{SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 't' AND backend_type IN ('aion executor', 'aion io')};
	sql($executors);
	noise();
	sql(q{UPDATE pg_database SET datallowconn = false WHERE datname = 't'});
	$session->must(q{WITH e AS (INSERT INTO p SELECT i % 5, timestamptz '2024-03-02 10:00+00' + i % 1200 * interval '1 s' FROM generate_series(1, 1000) i RETURNING *) INSERT INTO s SELECT * FROM e});
	$session->must(q{SELECT aion.sync('s', late => true)});
	is($session->must('SELECT sum(n) > 1000 FROM v'), 't', 'a session in a database that was closed meanwhile');
	$session->close;
	sql('ALTER DATABASE t CONNECTION LIMIT 0');
	wait_until($node, has_no_workers('t'), 'then its workers leave');
	sql(q{UPDATE pg_database SET datallowconn = true WHERE datname = 't'});
	sql('ALTER DATABASE t CONNECTION LIMIT -1');
	exact('and return', 't');
}
is(noise(), '', 'not a word of workers in the log');

# template1 has the extension: so has each new database
sql("CREATE EXTENSION aion; $define", 'template1');
sql('CREATE DATABASE fresh');
add_events(1000, 'fresh');
exact('a database made from a template1 that has the extension', 'fresh');
sql(q{UPDATE pg_database SET datistemplate = false WHERE datname = 'template1'});
sql('ALTER DATABASE t CONNECTION LIMIT -1');
wait_until($node, is_served('template1'), 'template1 is served if it is no template');
sql('CREATE DATABASE fresher');
add_events(1000, 'fresher');
exact('and can be copied all the same', 'fresher');
is(sql('SELECT count(*) FROM s', 'fresh'), '1000', 'they share nothing');

$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
is(join("\n", grep { /aion \w+ ERROR:|deadlock/ } split /\n/, $log), '', 'no worker met an error, nothing a deadlock');
done_testing();
