# Settings that other people make for their database, their role or the whole server neither stop the workers nor change a
# result; and cancelling what a worker does loses nothing (case R21 among others).
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('settings', conf => "aion.late_interval = '20ms'\nlog_statement = none", extension => 0);
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');
sub sql { my ($text, $dbname) = @_; return $node->safe_psql($dbname // 'postgres', $text) }

sub restart_workers
{
	my ($dbname) = @_;
	my $old = worker_pid($node, 'scheduler', $dbname);
	sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '$dbname' AND backend_type LIKE 'aion %'");
	wait_until($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = '$dbname' AND backend_type = 'aion scheduler' AND pid <> $old", "$dbname has a new scheduler");
	return;
}

# How often the log tells that something of a worker's was cancelled; of a firing it does as of a failure of its window.
sub count_cancelled { return scalar(() = slurp_file($node->logfile) =~ /aion \w+ (?:ERROR|LOG): .*canceling statement due to user request/g) }

# Waits until it tells of more.
sub wait_for_cancelled
{
	my ($before) = @_;
	for (1 .. 18000)
	{
		return 1 if count_cancelled() > $before;
		usleep(10_000);
	}
	return 0;
}

# ---- R21 ------------------------------------------------------------------------------------------------------------

sql('CREATE DATABASE r21');
sql(q{
	CREATE EXTENSION aion;
	CREATE FOREIGN TABLE s (key int, v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', idle_timeout 'off');
	SELECT aion.create_view('v', 'SELECT key, count(*) AS n FROM s GROUP BY key', aion.tumbling('1 hour'))}, 'r21');
sql("ALTER $_ SET statement_timeout = '200ms'; ALTER $_ SET lock_timeout = '100ms'; ALTER $_ SET idle_in_transaction_session_timeout = '200ms'") for 'DATABASE r21', "ROLE $superuser", 'ROLE ALL';
$node->restart;
{
	# this session's part in it is not the matter
	local $ENV{PGOPTIONS} = '-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0';
	my $scheduler = worker_pid($node, 'scheduler', 'r21');
	# what a result says that it reflects is what it holds, at every moment
	my $fresh = q{SELECT coalesce(bool_and(f.fired_events = (SELECT sum(n) FROM v WHERE v.window_start = f.window_start)), true) FROM aion.window_firing f WHERE f.fired_events > 0};
	my $load = Session->new($node, 'r21');
	my $watch = Session->new($node, 'r21');
	$load->must(q{INSERT INTO s VALUES (0, 1, '2024-03-01 11:00+00')});
	my ($cancelled, $refreshes, $wrong) = (0, 0, 0);
	my @points = ('fire-counted', 'pass-before-commit', 'destage-blocks-added', 'pass-accounted', 'fire-claimed');
	for my $part (0 .. 29)
	{
		my $point = $part % 6 == 2 ? $points[ $part / 6 ] : undef;
		if ($point)
		{
			# what was cancelled before is done meanwhile
			wait_until($node, 'SELECT count(*) = 0 FROM aion.windows WHERE error IS NOT NULL', "R21: before $point", 'r21');
			arm_fault($node, $point, 'wait');
		}
		$load->send("INSERT INTO s SELECT i % 10, i, timestamptz '2024-03-01 10:00+00' + i % 3600 * interval '1 s' FROM generate_series(1, 10000) i");
		$wrong++ if $watch->must($fresh) ne 't';
		$load->result->{ok} or die 'no load';
		$load->send(q{SELECT aion.destage('s')}) if $point;
		if ($point)
		{
			wait_for_fault($node, $point);
			$wrong++ if $watch->must($fresh) ne 't';
			my $told = count_cancelled();
			$watch->must("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = 'r21' AND backend_type LIKE 'aion %'");
			ok(wait_for_cancelled($told), "R21: what was at $point was cancelled");
			$cancelled++;
			release_fault($node, $point);
			$load->result->{ok} or die 'no destage';
		}
		if ($part == 10 || $part == 20)
		{
			$load->send(q{SELECT aion.refresh('v')});
			$watch->must("SELECT pg_cancel_backend($load->{backend})");
			$load->result;
			$refreshes++;
		}
		$wrong++ if $watch->must($fresh) ne 't';
	}
	is("$cancelled $refreshes $wrong", '5 2 0', 'R21: five times the workers and two refreshes were cancelled; no result that claims more than it holds');
	$load->must(q{SELECT aion.sync('s', late => true)});
	$load->must(q{SELECT aion.refresh('v')});
	is($load->must(q{SELECT count(*), min(n), max(n) FROM v WHERE window_start < '2024-03-01 11:00+00'}), '10|30000|30000', 'R21: exact');
	is(worker_pid($node, 'scheduler', 'r21'), $scheduler, 'R21: the scheduler is the same');

	# a worker that has nothing to do has nothing that could be cancelled
	my $launcher = worker_pid($node, 'launcher');
	my $log = -s $node->logfile;
	for my $pid ($scheduler, $launcher)
	{
		wait_until($node, "SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid", 'a worker is idle');
		sql("SELECT pg_cancel_backend($pid)");
	}
	$load->must(q{INSERT INTO s VALUES (0, 1, '2024-03-01 11:00+00')});
	$load->must(q{SELECT aion.sync('s')});
	is(worker_pid($node, 'scheduler', 'r21'), $scheduler, 'a cancelled idle scheduler lives on');
	is(worker_pid($node, 'launcher'), $launcher, 'and so does the launcher');
	unlike(slurp_file($node->logfile, $log), qr/aion (launcher|scheduler) ERROR/, 'without a word');
	$_->close for $load, $watch;
	sql("ALTER ROLE $superuser RESET ALL; ALTER ROLE ALL RESET ALL");
}

# ---- hostile settings --------------------------------------------------------------------------------------------------

# The same steps in a database with hostile settings and in one without; all that can be seen must be the same.
my @hostile = (
	"statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'", "idle_session_timeout = '1ms'",
	"default_transaction_isolation = 'serializable'", 'default_transaction_read_only = on', 'default_transaction_deferrable = on',
	'row_security = off', "search_path = 'evil, nowhere'", "TimeZone = 'America/New_York'", "DateStyle = 'German, DMY'", "IntervalStyle = 'sql_standard'",
	'extra_float_digits = -15', 'bytea_output = escape', 'session_replication_role = replica', 'synchronous_commit = off', "work_mem = '64kB'",
	'enable_seqscan = off', 'enable_hashagg = off', 'enable_sort = off', 'enable_indexscan = off', "default_tablespace = 'evil'", 'client_min_messages = error',
	'check_function_bodies = off', "session_preload_libraries = 'no_such_library'", "local_preload_libraries = 'no_such_library'", 'role = evil', 'session_authorization = evil', q{log_statement = 'all'}, 'array_nulls = off',
	"default_text_search_config = 'pg_catalog.german'", 'quote_all_identifiers = on', "xmloption = document", 'xmlbinary = hex', 'transform_null_equals = on',
	'standard_conforming_strings = off', 'exit_on_error = on', 'log_min_messages = warning', "plan_cache_mode = 'force_generic_plan'",
	'vacuum_cost_delay = 100', 'track_activities = off', 'track_counts = off', 'temp_file_limit = 0', 'default_table_access_method = heap', "default_toast_compression = pglz",
	"max_parallel_workers_per_gather = 4", 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0', 'constraint_exclusion = on', 'geqo_threshold = 2',
	'join_collapse_limit = 1', 'from_collapse_limit = 1', 'commit_delay = 1000', 'log_duration = on', "lc_messages = 'C'", "backslash_quote = on", 'escape_string_warning = on');
for my $newer (q{transaction_timeout = '1ms'}, q{restrict_nonsystem_relation_kind = 'view,foreign-table'}, 'force_parallel_mode = on', 'debug_parallel_query = on')
{
	my ($name) = $newer =~ /^(\w+)/;
	push @hostile, $newer if sql("SELECT count(*) FROM pg_settings WHERE name = '$name'") || ($name =~ /^restrict/ && sql("SELECT current_setting('$name', true) IS NOT NULL") eq 't');
}
my %names = map { /^(\w+)/ ? ($1 => 1) : () } @hostile;

# What a session sets to be as usual again; the hostile ones strike with its first statement, if they can.
my $usual = "SET SESSION AUTHORIZATION $superuser; SET ROLE none; " . join(' ', map { "SET $_;" } 'statement_timeout = 0', 'idle_session_timeout = 0', 'lock_timeout = 0', 'idle_in_transaction_session_timeout = 0',
	'default_transaction_read_only = off', 'default_transaction_deferrable = off', q{default_transaction_isolation = 'read committed'}, 'search_path = public', q{TimeZone = 'UTC'},
	q{DateStyle = 'ISO, MDY'}, q{IntervalStyle = 'postgres'}, 'extra_float_digits = 1', 'bytea_output = hex', 'temp_file_limit = -1', q{default_tablespace = ''}, 'array_nulls = on', 'quote_all_identifiers = off',
	'standard_conforming_strings = on', 'transform_null_equals = off', q{xmloption = content}, q{xmlbinary = base64}, q{default_text_search_config = 'pg_catalog.english'}, 'row_security = on', 'exit_on_error = off',
	# parallel workers begin under the hostile ones
	'max_parallel_workers_per_gather = 0');
$usual .= ' SET transaction_timeout = 0;' if $names{transaction_timeout};
$usual .= q{ SET restrict_nonsystem_relation_kind = '';} if $names{restrict_nonsystem_relation_kind};

# Runs it in a session that is as usual; the time-out of one millisecond may hit the first of its statements, then again.
sub usual
{
	my ($text, $dbname) = @_;
	local $ENV{PGOPTIONS} = '-c statement_timeout=0 -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0' . ($names{transaction_timeout} ? ' -c transaction_timeout=0' : '')
	  . ' -c session_preload_libraries= -c local_preload_libraries=';
	my $out = sql("$usual\n$text", $dbname);
	return $out;
}

my $columns = q{id int, k int, v float8, mood mood, moods mood[], note text, raw bytea, span interval, cash money, at timestamptz NOT NULL};
my $query = q{SELECT k, count(*) AS n, round(sum(v)::numeric, 6) AS sum, max(at::text) AS at, string_agg(v::text, ',' ORDER BY id) AS vs, min(raw::text) AS raw, max(span::text) AS span, min(cash::text) AS cash,
	string_agg(moods::text, ';' ORDER BY id) AS moods, string_agg(date_trunc('day', at)::text, ',' ORDER BY id) AS days, string_agg(to_tsvector(note)::text, ' ' ORDER BY id) AS words, quote_ident('k' || k) AS quoted,
	array_agg('{NULL,x}'::text::text[] ORDER BY id) AS nulls, count(DISTINCT mood) AS d, max(jsonb_build_object('at', at)::text) AS j, extract(hour FROM max(at)) AS h FROM s e JOIN dim USING (k) GROUP BY k};
my $define = qq{
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
	CREATE FOREIGN TABLE s ($columns) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', allowed_lateness '1 month', idle_timeout 'off');
	CREATE TABLE p (LIKE s);
	CREATE TABLE dim (k int PRIMARY KEY, name text);
	INSERT INTO dim SELECT g, 'name ' || g FROM generate_series(0, 4) g;
	SELECT aion.create_view('v', \$q\$$query\$q\$, aion.tumbling('10 min'));
	SELECT aion.create_view('days', 'SELECT count(*) AS n, max(note) AS note FROM s', aion.sliding('1 day', '12 hours'), allowed_lateness => '2 days', retain => '40 days');
	SELECT aion.create_view('bad', 'SELECT count(*) / count(*) FILTER (WHERE k > 0) AS n FROM s', aion.tumbling('1 hour'))};
my $batch = "SELECT w.window_start, w.window_start + interval '10 min', q.* FROM (SELECT DISTINCT date_bin('10 min', at, '2000-01-03 00:00+00') AS window_start FROM p) w
	CROSS JOIN LATERAL (" . ($query =~ s/FROM s e/FROM (SELECT * FROM p WHERE at >= w.window_start AND at < w.window_start + interval '10 min') e/r) . ') q';

sub insert_sql
{
	my ($from, $to, $start, $step) = @_;
	return qq{WITH e AS (INSERT INTO p SELECT i, i % 5, i / 7.0, (enum_range(NULL::mood))[i % 3 + 1], ARRAY[(enum_range(NULL::mood))[i % 3 + 1], NULL], 'Running Houses ' || i, decode(lpad(to_hex(1000000 + i), 8, '0'), 'hex'),
		i * interval '1 day 1 min', (i * 1.5)::numeric::money, timestamptz '$start' + i * interval '$step' FROM generate_series($from, $to) i RETURNING *) INSERT INTO s SELECT * FROM e};
}

my @steps = (
	insert_sql(1, 400, '2024-03-10 05:00+00', '30 s'),    # across a change of clocks
	q{SELECT aion.sync('s')}, q{SELECT aion.destage('s')},
	insert_sql(401, 600, '2024-03-10 04:00+00', '20 s'),
	q{SELECT aion.sync('s', late => true)},
	insert_sql(601, 700, '2024-03-12 04:00+00', '10 min'),
	q{INSERT INTO s (id, k, at) VALUES (-1, 0, '2024-03-20 00:00+00')}, q{INSERT INTO p (id, k, at) VALUES (-1, 0, '2024-03-20 00:00+00')},
	q{SELECT aion.sync('s', late => true)}, q{SELECT aion.refresh('v')},
	insert_sql(701, 800, '2024-03-10 05:00+00', '1 s'),
	q{SELECT aion.sync('s', late => true)},
	q{INSERT INTO s (id, k, at) VALUES (-2, 1, '2024-04-10 04:30+00')}, q{INSERT INTO p (id, k, at) VALUES (-2, 1, '2024-04-10 04:30+00')},
	# within a month of that, by the calendar, or not
	q{SELECT aion.sync('s', late => true)}, q{SELECT aion.refresh('v')}, q{SELECT aion.destage('s')});

my %look = (
	'windows' => q{SELECT view, window_start, state, events, late_events, firings > 0, error, pending_events FROM aion.windows ORDER BY 1, 2},
	'streams' => q{SELECT stream, watermark, events, late_events, expired_events, event_watermark FROM aion.streams},
	'expired' => q{SELECT event_time, event, reason FROM aion.expired ORDER BY id},
	'v' => 'TABLE v ORDER BY 1, 3', 'days' => 'TABLE days ORDER BY 1', 'bad' => 'TABLE bad ORDER BY 1', 'events' => 'SELECT * FROM s ORDER BY id');

sub compare
{
	my ($name) = @_;
	for my $what (sort keys %look)
	{
		is(usual($look{$what}, 'hostile'), usual($look{$what}, 'plain'), "$name: $what");
	}
	my $difference = usual("SELECT count(*) FROM ((TABLE v EXCEPT ALL ($batch)) UNION ALL (($batch) EXCEPT ALL TABLE v)) x", 'hostile');
	is($difference, '0', "$name: equals the batch query");
	return;
}

my $tablespace = PostgreSQL::Test::Utils::tempdir;
sql('CREATE ROLE evil');
sql("CREATE TABLESPACE evil LOCATION '$tablespace'");
for my $dbname ('plain', 'hostile')
{
	sql("CREATE DATABASE $dbname");
	sql('CREATE EXTENSION aion', $dbname);
	sql($define, $dbname);
}
sql(q{CREATE SCHEMA evil; CREATE TABLE evil.stream_state (); CREATE FUNCTION evil.count() RETURNS bigint LANGUAGE sql AS 'SELECT -1'}, 'hostile');
sql(join('', map { "ALTER DATABASE hostile SET $_;\n" } @hostile));
restart_workers('hostile');
for my $step (@steps)
{
	usual($step, $_) for 'plain', 'hostile';
}
compare('for the database');
is(usual(q{SELECT count(*) FROM aion.windows WHERE state = 'final'}, 'hostile') > 0, 1, 'windows became final');
is(usual(q{SELECT count(*) FROM aion.windows WHERE state = 'failed'}, 'hostile') > 0, 1, 'and some failed, by themselves');

# views made and streams filled under them
is(sql(q{SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = 'hostile')}), '1', 'they are set');
{
	my $session = Session->new($node, 'plain');
	$session->must("SET $_") for grep { !/timeout|isolation|read_only|deferrable|^role|session_auth|preload|search_path|force_parallel|debug_p|exit_on_error|^restrict|tablespace|temp_file|^row_s|^log_|^client/ } @hostile;
	$session->must(q{CREATE FOREIGN TABLE odd ("a b" int, moods mood[], at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at')});
	$session->must(q{SELECT aion.create_view('odd_v', 'SELECT "a b", count(*) AS n, max(moods::text) AS moods, max(at::text) AS at FROM odd GROUP BY 1', aion.tumbling('1 hour'))});
	$session->must(q{INSERT INTO odd VALUES (1, ARRAY['sad', NULL]::mood[], '2024-03-10 10:00+00')});
	$session->must(q{SELECT aion.destage('odd')});
	$session->must(q{SELECT aion.refresh('odd_v')});
	is($session->must('SELECT "a b", n, moods, at FROM odd_v'), '1|1|{sad,NULL}|10.03.2024 06:00:00 EDT', 'a view keeps the settings it was made under');
	is($session->must('SELECT moods FROM odd'), '{sad,NULL}', 'what is stored as text is read back under any');
	$session->must('RESET ALL');
	$session->must('DROP FOREIGN TABLE odd CASCADE');
	$session->close;
}

# an insert in a database that is read-only gets the usual error, and so does what else writes
sql('CREATE DATABASE reading');
sql('CREATE EXTENSION aion', 'reading');
sql($define, 'reading');
sql(q{INSERT INTO s (id, k, at) VALUES (1, 1, '2024-03-10 10:00+00')}, 'reading');
sql('ALTER DATABASE reading SET default_transaction_read_only = on');
for my $statement (q{INSERT INTO s (id, k, at) VALUES (1, 1, now())}, q{COPY s FROM stdin}, q{TRUNCATE s}, q{SELECT aion.advance_watermark('s', '2024-03-11 00:00+00')}, q{SELECT aion.drop_view('v')},
	q{SELECT aion.create_view('w', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'))}, q{SELECT aion.pause_view('v')})
{
	my ($code, $out, $error) = $node->psql('reading', $statement);
	like($error, qr/ERROR:  cannot execute .* in a read-only transaction/, "read-only: $statement");
}
sql(q{SELECT aion.sync('s'); SELECT aion.refresh('v')}, 'reading');
is(sql('SELECT n FROM v', 'reading'), '1', 'reading and waiting are no writing');

# ---- for the role, and for the server ----------------------------------------------------------------------------------

sql(q{ALTER DATABASE hostile RESET ALL});
sql(join('', map { "ALTER ROLE $superuser IN DATABASE hostile SET $_;\n" } @hostile));
restart_workers('hostile');
my @more = (insert_sql(801, 900, '2024-04-09 04:00+00', '1 min'), q{SELECT aion.sync('s', late => true)}, q{SELECT aion.refresh('v')});
for my $step (@more) { usual($step, $_) for 'plain', 'hostile' }
compare('for the role');
sql("ALTER ROLE $superuser IN DATABASE hostile RESET ALL");

# by a reload, while workers live, and after a restart; transaction_timeout would end sessions that are just starting
for my $setting (grep { !/^(transaction_timeout|role|session_auth|default_tablespace|client_min_messages|session_rep|local_preload|session_preload|log_|debug_print|search_path|exit_on_error|track_activities|standard_c|quote_all|transform|array_n|xml|row_sec|default_text)/ } @hostile)
{
	usual("ALTER SYSTEM SET $setting");
}
usual('SELECT pg_reload_conf()');
for my $step (insert_sql(901, 1000, '2024-04-09 05:00+00', '1 min'), @more[ 1, 2 ]) { usual($step, $_) for 'plain', 'hostile' }
compare('for the server');
$node->restart;
for my $step (insert_sql(1001, 1100, '2024-04-09 06:00+00', '1 min'), @more[ 1, 2 ]) { usual($step, $_) for 'plain', 'hostile' }
compare('for the server, after a restart');
usual('ALTER SYSTEM RESET ALL');
usual('SELECT pg_reload_conf()');

# ---- a limit on temporary files is one on queries: their windows wait for it ------------------------------------------------

sql(q{CREATE FOREIGN TABLE big (id int, note text, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
	SELECT aion.create_view('sorted', 'SELECT note, count(*) AS n FROM big GROUP BY note', aion.tumbling('1 hour'));
	SELECT aion.create_view('counted', 'SELECT count(*) AS n FROM big', aion.tumbling('1 hour'))}, 'plain');
sql(q{ALTER DATABASE plain SET temp_file_limit = 0});
sql(q{ALTER DATABASE plain SET work_mem = '64kB'});
restart_workers('plain');
usual(q{INSERT INTO big SELECT i, repeat(md5(i::text), 10), timestamptz '2024-03-10 10:00+00' + i % 100 * interval '1 s' FROM generate_series(1, 20000) i; INSERT INTO big VALUES (-1, 'end', '2024-03-10 12:00+00')}, 'plain');
wait_until($node, q{SELECT count(*) = 1 FROM counted}, 'temp_file_limit: a view that needs no temporary file has its result', 'plain');
wait_until($node, q{SELECT count(*) = 1 FROM aion.windows WHERE view = 'sorted'::regclass AND error LIKE '%temp_file_limit%'}, 'temp_file_limit: the other waits, and aion.windows tells why', 'plain');
sql(q{ALTER DATABASE plain RESET ALL});
restart_workers('plain');
wait_until($node, q{SELECT count(*) = 20000 FROM sorted}, 'temp_file_limit: it goes on once the limit is lifted', 'plain');

$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP:|PANIC:/, 'no assertion failed');
is(join("\n", grep { /aion \w+ ERROR:/ && !/temp_file_limit|canceling statement due to user request/ } split /\n/, $log), '', 'no worker met an error');
done_testing();
