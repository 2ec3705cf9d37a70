# Who may do what: a superuser, the owner of a stream, the owner of a view over it, one who inserts, one who reads the view,
# and nobody; and what becomes of streams and views when roles and their privileges change.
#
# What there is to be asked about is read from the catalog: a function, view, table or schema that is missing here fails
# the test.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('roles', conf => 'aion.late_interval = 0');
my $session = Session->new($node);
my @ROLES = qw(nora rita ivan bob alice postgres);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub as { my ($role, $sql) = @_; return sql("SET SESSION AUTHORIZATION $role; $sql") }

# The outcome of a statement in a transaction that is rolled back: 'ok', or its SQLSTATE.
sub outcome
{
	my ($role, $sql) = @_;
	$session->must("BEGIN; SET LOCAL SESSION AUTHORIZATION $role");
	my $result = $session->query($sql);
	$session->must('ROLLBACK');
	return $result->{ok} ? 'ok' : $result->{sqlstate};
}

# The text of the error of a statement; '' if there was none.
sub failure
{
	my ($role, $sql) = @_;
	my ($code, $out, $error) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role;\n$sql");
	return $code == 0 ? '' : $error;
}

sql(join ";\n", map { "CREATE ROLE $_ LOGIN" } grep { $_ ne 'postgres' } @ROLES);
sql(q{
	GRANT USAGE ON FOREIGN SERVER aion TO alice;
	CREATE SCHEMA app;
	GRANT USAGE ON SCHEMA app TO PUBLIC;
	GRANT CREATE ON SCHEMA app TO alice, bob;
	CREATE TABLE app.p (k int, v int, at timestamptz);
});
as('alice', q{
	CREATE FOREIGN TABLE app.s (k int, v int, at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 day', bucket_width '1 hour');
	CREATE FOREIGN TABLE app.own (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	INSERT INTO app.own VALUES (1, '2024-03-01 10:00');
	GRANT SELECT ON app.s TO bob;
	GRANT INSERT ON app.s TO ivan;
});
as('bob', q{
	SELECT aion.create_view('app.v', 'SELECT k, sum(100 / v) AS n FROM app.s GROUP BY k', aion.tumbling('1 hour'), allowed_lateness => '2 hours');
	GRANT SELECT ON app.v TO rita;
});
as('ivan', q{INSERT INTO app.s VALUES (1, 1, '2024-03-01 10:10'), (2, 0, '2024-03-01 12:10'), (3, 5, '2024-03-01 13:10')});
as('alice', q{SELECT aion.advance_watermark('app.s', '2024-03-01 14:00')});
as('ivan', q{SELECT aion.sync('app.s')});
as('ivan', q{INSERT INTO app.s VALUES (8, 1, '2024-03-01 10:20'), (9, 1, '2024-03-01 10:30')});
as('ivan', q{SELECT aion.sync('app.s')});
my ($expired, $expired2) = split /\n/, sql('SELECT id FROM aion.expired ORDER BY id');
ok($expired2, 'two events were set aside');

# ---- schemas, server, relations -------------------------------------------------------------------------------------------

my $MEMBERS = q{SELECT classid, objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'aion'
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'};
is(sql("SELECT DISTINCT classid::regclass::text FROM ($MEMBERS) m ORDER BY 1"),
	join("\n", qw(pg_class pg_foreign_data_wrapper pg_foreign_server pg_namespace pg_proc pg_type)), 'kinds of objects of the extension');
is(sql("SELECT objid::regtype FROM ($MEMBERS) m JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
	WHERE t.typrelid = 0 AND t.typelem = 0 OR t.typrelid IN (SELECT oid FROM pg_class WHERE relkind = 'c') ORDER BY 1"),
	'aion.window_spec', 'types that stand for themselves');

my %SCHEMAS = (aion => 'tf', aion_data => 'ff', aion_results => 'tt');    # USAGE, CREATE
is(sql(q{SELECT nspname FROM pg_namespace WHERE nspname LIKE 'aion%' ORDER BY 1}), join("\n", sort keys %SCHEMAS), 'schemas');
for my $role (grep { $_ ne 'postgres' } @ROLES)
{
	is(sql("SELECT has_schema_privilege('$role', '$_', 'USAGE') || '' || has_schema_privilege('$role', '$_', 'CREATE')") =~ s/(t|f)\w*?(t|f)\w*/$1$2/r,
		$SCHEMAS{$_}, "schema $_ for $role") for sort keys %SCHEMAS;
	is(sql("SELECT has_server_privilege('$role', 'aion', 'USAGE'), has_foreign_data_wrapper_privilege('$role', 'aion', 'USAGE')"),
		$role eq 'alice' ? 't|f' : 'f|f', "server and wrapper for $role");
}

# How many rows each role sees; "open": all may look, "closed": none but a superuser.
my %RELATIONS = (
	'aion.streams' => [ 0, 0, 1, 1, 2, 2 ],
	'aion.lateness' => [ 0, 0, 1, 1, 2, 2 ],
	'aion.buckets' => [ 0, 0, 3, 3, 4, 4 ],
	'aion.expired' => [ 0, 0, 0, 2, 2, 2 ],
	'aion.views' => [ 0, 1, 0, 1, 0, 1 ],
	'aion.windows' => [ 0, 3, 0, 3, 0, 3 ],
	'aion.io' => 'open',
	'aion.workers' => 'open',
	map { $_ => 'closed' } qw(aion.database aion.restored aion.stream_def aion.stream_state aion.stream_lateness aion.added_column aion.view_def
	  aion.view_state aion.window_state aion.window_firing aion.set_aside aion.set_aside_id_seq aion.late_forecast
	  aion_data.journal aion_data.blocks));
my $relations = sql(q{
	SELECT DISTINCT n.nspname || '.' || regexp_replace(c.relname, '_\d+(_\d+)?$', '')
	  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	 WHERE n.nspname IN ('aion', 'aion_data') AND c.relkind NOT IN ('i', 'c') ORDER BY 1});
is($relations, join("\n", sort keys %RELATIONS), 'relations');
my $all = sql(q{SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c WHERE relnamespace::regnamespace::text IN ('aion', 'aion_data') AND relkind NOT IN ('i', 'c')});
for my $relation (split / /, $all)
{
	my $kind = $RELATIONS{ $relation =~ s/_\d+$//r };
	for my $i (0 .. $#ROLES)
	{
		my $role = $ROLES[$i];
		my $super = $role eq 'postgres';
		is(outcome($role, "SELECT FROM $relation"), $kind eq 'closed' && !$super ? '42501' : 'ok', "SELECT of $role from $relation");
		is($session->must("BEGIN; SET LOCAL SESSION AUTHORIZATION $role; SELECT count(*) FROM $relation; ROLLBACK"),
			$kind->[$i], "rows of $relation that $role sees") if ref $kind;
		next if $super;
		next if $relation =~ /_seq$/;
		isnt(outcome($role, $_), 'ok', "$_ of $role") for "DELETE FROM $relation", "TRUNCATE $relation", "INSERT INTO $relation DEFAULT VALUES", "LOCK TABLE $relation IN ROW EXCLUSIVE MODE";
	}
}
is(sql(q{SELECT c.oid::regclass, a.grantee::regrole, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
	WHERE relnamespace::regnamespace::text IN ('aion', 'aion_data') AND a.grantee <> c.relowner AND a.grantee <> 0}), '', 'nothing there is granted to anybody by name');
is(sql(q{SELECT relname FROM pg_class c, aclexplode(c.relacl) a WHERE relnamespace::regnamespace::text IN ('aion', 'aion_data') AND a.grantee = 0
	AND a.privilege_type = 'SELECT' ORDER BY 1}), join("\n", sort map { s/^aion\.//r } grep { $RELATIONS{$_} ne 'closed' } keys %RELATIONS), 'all may look at the inspection views');
is(sql(q{SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE relnamespace::regnamespace::text IN ('aion', 'aion_data') AND a.grantee = 0
	AND a.privilege_type <> 'SELECT'}), '0', 'and no more');

# results and definition are their owner's, the view is for those to whom he grants it
for my $role (@ROLES)
{
	my $own = $role eq 'bob' || $role eq 'postgres' ? 'ok' : '42501';
	is(outcome($role, 'SELECT FROM app.v'), $role eq 'rita' ? 'ok' : $own, "SELECT of $role from the view");
	is(outcome($role, "SELECT FROM aion_results.$_"), $own, "SELECT of $role from aion_results.$_") for qw(v def_v);
	is(outcome($role, $_), $own, "$_ of $role") for 'DELETE FROM aion_results.v', 'CREATE INDEX ON aion_results.v (n)', 'DROP VIEW app.v', 'ALTER VIEW app.v RENAME TO x';
	is(outcome($role, 'SELECT FROM app.s'), $role =~ /bob|alice|postgres/ ? 'ok' : '42501', "SELECT of $role from the stream");
	is(outcome($role, q{INSERT INTO app.s VALUES (1, 1, '2024-03-01 13:00')}), $role =~ /ivan|alice|postgres/ ? 'ok' : '42501', "INSERT of $role");
	is(outcome($role, 'TRUNCATE app.s'), $role =~ /alice|postgres/ ? 'ok' : '42501', "TRUNCATE of $role");
	is(outcome($role, q{CREATE FOREIGN TABLE aion_results.n (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at')}), $role =~ /alice|postgres/ ? 'ok' : '42501', "CREATE FOREIGN TABLE of $role");
}

# ---- functions --------------------------------------------------------------------------------------------------------------

my $OWNER_OF_STREAM = { alice => 'ok', postgres => 'ok' };
my $OWNER_OF_VIEW = { bob => 'ok', postgres => 'ok' };
my $READER_OF_STREAM = { bob => 'ok', alice => 'ok', postgres => 'ok' };
my $USER_OF_STREAM = { ivan => 'ok', bob => 'ok', alice => 'ok', postgres => 'ok' };
my $VIEW = q{'aion_results.n', 'SELECT count(*) AS n FROM app.s', aion.tumbling('1 hour')};

# Signature without schema => [a call, who may (all others: 42501); or one outcome for all]
my %FUNCTIONS = (
	'advance_watermark(regclass,timestamp with time zone)' => [ q{advance_watermark('app.s', '2024-03-01 14:00')}, $OWNER_OF_STREAM ],
	'aion_fdw_handler()' => [ 'aion_fdw_handler() IS NULL', 'ok' ],
	'aion_fdw_validator(text[],oid)' => [ q{aion_fdw_validator('{}', 'pg_class'::regclass)}, 'ok' ],
	'alter_view(regclass,interval,interval,regrole,text[],double precision,interval)' => [ q{alter_view('app.v', allowed_lateness => interval '2 hours')}, $OWNER_OF_VIEW ],
	'alter_view(regclass,interval,text,regrole,text[],double precision,interval)' => [ q{alter_view('app.v', early => '1 hour')}, $OWNER_OF_VIEW ],
	'bucket_list()' => [ 'bucket_list()', 'ok' ],
	'counting(bigint,bigint,text)' => [ 'counting(3)', '0A000' ],
	'create_view(text,text,aion.window_spec,double precision,interval,text,regclass,boolean,boolean,interval,boolean)' => [ "create_view($VIEW)", $READER_OF_STREAM ],
	'create_view(text,text,aion.window_spec,interval,double precision,interval,regclass,boolean,boolean,interval,boolean)' => [ "create_view($VIEW, interval '1 hour')", $READER_OF_STREAM ],
	'destage(regclass,interval)' => [ q{destage('app.s')}, $OWNER_OF_STREAM ],
	'drop_view(regclass)' => [ q{drop_view('app.v')}, $OWNER_OF_VIEW ],
	'feed()' => [ 'feed()', '39P01' ],
	'io_list()' => [ 'io_list()', 'ok' ],
	'late_bound(bytea,double precision,double precision,timestamp with time zone,timestamp with time zone)' => [ 'late_bound(NULL, 0.9, 0.9, NULL, NULL)', 'ok' ],
	'lateness_clock(timestamp with time zone,bigint,timestamp with time zone)' => [ 'lateness_clock(now(), 0, now())', 'ok' ],
	'late_firing_due(bytea,double precision,bigint,timestamp with time zone,timestamp with time zone,timestamp with time zone,timestamp with time zone,timestamp with time zone,bigint,double precision,boolean,timestamp with time zone,timestamp with time zone)' =>
	  [ 'late_firing_due(NULL, 0.1, 1000, now(), now(), now(), now(), now(), 3, 5, false, now(), now())', 'ok' ],
	'missed_windows(regclass,bigint,bigint,timestamp with time zone,timestamp with time zone,regclass[],bigint[],bigint[])' =>
	  [ q{missed_windows('app.v', 1000, 1000, now(), now(), NULL, NULL, NULL)}, 'ok' ],
	'pause_view(regclass)' => [ q{pause_view('app.v')}, $OWNER_OF_VIEW ],
	# one who may not see the event is told that there is none
	'readmit(bigint[])' => [ 'readmit({ID})', { nora => '42704', rita => '42704', ivan => '42704', %$OWNER_OF_STREAM } ],
	'refresh(regclass,timestamp with time zone,interval)' => [ q{refresh('app.v')}, $OWNER_OF_VIEW ],
	'reset_watermark(regclass,timestamp with time zone,interval)' => [ q{reset_watermark('app.s', '2024-03-01 14:00')}, $OWNER_OF_STREAM ],
	'resume_view(regclass)' => [ q{resume_view('app.v')}, $OWNER_OF_VIEW ],
	'session(interval,text)' => [ q{session('1 hour')}, '0A000' ],
	'session(interval,text[])' => [ q{session('1 hour', '{k}'::text[])}, '0A000' ],
	'set_aside_event(bigint)' => [ "set_aside_event($expired)", 'ok' ],
	'sliding(interval,interval,timestamp with time zone,text)' => [ q{sliding('2 hours', '1 hour')}, 'ok' ],
	'stage(regclass,timestamp with time zone,timestamp with time zone,interval)' => [ q{stage('app.s', '2024-03-01 12:00', '2024-03-01 13:00')}, $OWNER_OF_STREAM ],
	'staleness_plan(double precision[],double precision,double precision)' => [ 'staleness_plan(NULL, 0.1)', 'ok' ],
	'start_workers()' => [ 'start_workers()', { postgres => 'ok' } ],
	'tie_restored()' => [ 'tie_restored()', { postgres => '39P01' } ],
	'sync(regclass,boolean,interval)' => [ q{sync('app.s')}, $USER_OF_STREAM ],
	'tumbling(interval,timestamp with time zone,text)' => [ q{tumbling('1 hour')}, 'ok' ],
	'watermark(regclass)' => [ q{watermark('app.s')}, $USER_OF_STREAM ],
	'window_end()' => [ 'window_end()', '55000' ],
	'window_start()' => [ 'window_start()', '55000' ],
	'worker_status()' => [ 'worker_status()', 'ok' ]);
my @functions = split /\n/, sql("SELECT regexp_replace(objid::regprocedure::text, '^aion\\.', '') FROM ($MEMBERS) m WHERE classid = 'pg_proc'::regclass");
is_deeply([ sort @functions ], [ sort keys %FUNCTIONS ], 'functions');
is(sql("SELECT objid::regprocedure FROM ($MEMBERS) m JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass WHERE prosecdef"), '', 'none lends its owner\'s rights');
for my $function (sort @functions)
{
	my ($call, $who) = @{ $FUNCTIONS{$function} // [ 'none()', 'unknown' ] };
	for my $role (@ROLES)
	{
		my $id = $role eq 'postgres' ? $expired2 : $expired;    # gone once it is readmitted
		is(outcome($role, 'SELECT aion.' . $call =~ s/\{ID\}/$id/r), ref $who ? $who->{$role} // '42501' : $who, "$role calls $function");
	}
}
is(sql('SELECT count(*) FROM aion.set_aside'), '0', 'readmitted');

# ---- error texts, and other people's data ---------------------------------------------------------------------------------

as('bob', q{SELECT aion.create_view('app.leak', $$ SELECT max(CASE WHEN v = 5 THEN ('secret' || k || v)::int END) AS n FROM app.s $$, aion.tumbling('1 hour'))});
as('bob', q{GRANT SELECT ON app.leak TO rita});
my ($code, $out, $error) = $node->psql('postgres', q{SET SESSION AUTHORIZATION ivan; SELECT aion.sync('app.s')});
like($error, qr/WARNING:  the queries? of \d windows? failed/, 'whoever syncs is told that windows failed');
unlike($error, qr/secret/, 'but not with which data');
for my $role (@ROLES)
{
	my $see = $role eq 'bob' || $role eq 'postgres' ? '1' : '0';
	is(as($role, q{SELECT count(*) FROM aion.windows WHERE error LIKE '%secret35%'}), $see, "error of a window, for $role");
	is(as($role, q{SELECT count(*) FROM aion.views WHERE last_error LIKE '%secret35%'}), $see, "error of a view, for $role");
	is(as($role, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'aion %' AND query NOT LIKE '<insufficient%' AND query <> ''}) > 0 ? 1 : 0,
		$role eq 'postgres' ? 1 : 0, "what workers do, for $role");
	like(failure($role, 'EXPLAIN ANALYZE SELECT * FROM app.s'), $role =~ /bob|alice|postgres/ ? qr/^$/ : qr/permission denied for foreign table s/, "EXPLAIN ANALYZE of the stream, for $role");
}
is(as('rita', 'SELECT state FROM aion.views ORDER BY view::text'), "failed\nfailed", 'that it failed is no secret');
is(sql('SELECT count(*) FROM pg_stats WHERE schemaname IN (\'app\') AND tablename IN (\'s\', \'own\')'), '0', 'there are no statistics of streams to tell');
as('bob', q{SELECT aion.drop_view('app.leak')});

# columns: what is granted can be used, and what is not does not show in an error either
as('alice', q{ALTER FOREIGN TABLE app.s ADD CONSTRAINT positive CHECK (k > 0)});
sql(q{CREATE ROLE carl LOGIN});
as('alice', q{GRANT SELECT (k, at), INSERT (k, at) ON app.s TO carl});
is(as('carl', q{INSERT INTO app.s (k, at) VALUES (4, '2024-03-01 15:10'); SELECT count(k) FROM app.s WHERE at >= '2024-03-01 15:00'}), '1', 'some columns of a stream');
like(failure('carl', $_), qr/permission denied for foreign table s/, $_)
  for 'SELECT v FROM app.s', 'SELECT * FROM app.s', q{INSERT INTO app.s VALUES (4, 4, '2024-03-01 15:10')}, 'COPY app.s FROM stdin',
  q{SELECT aion.create_view('aion_results.c', 'SELECT sum(v) AS n FROM app.s', aion.tumbling('1 hour'))};
my $refused = failure('carl', q{INSERT INTO app.s (k, at) VALUES (-1, '2024-03-01 15:10')});
like($refused, qr/violates check constraint "positive"\nDETAIL:  Failing row contains \(k, at\) = \(-1, 2024-03-01 15:10:00\+00\)/, 'a refused row shows the columns that he may see');
as('alice', q{REVOKE SELECT (at) ON app.s FROM carl});
unlike(failure('carl', q{INSERT INTO app.s (k, at) VALUES (-1, '2024-03-01 15:10')}), qr/null/, 'and no others');
is(as('carl', q{SELECT aion.sync('app.s'); SELECT count(*), (SELECT count(*) > 0 FROM aion.buckets), (SELECT count(*) FROM aion.lateness), (SELECT count(*) FROM aion.expired) FROM aion.streams}),
	"\n1|t|1|0", 'inspection shows him the stream, but not its events');

# a trigger that feeds a stream does it with the rights of whoever inserts into its table
as('alice', q{
	CREATE TABLE app.feeder (k int, v int, at timestamptz);
	CREATE TRIGGER feed AFTER INSERT ON app.feeder FOR EACH ROW EXECUTE FUNCTION aion.feed('app.s');
	GRANT INSERT ON app.feeder TO ivan, rita;
});
is(outcome('ivan', q{INSERT INTO app.feeder VALUES (1, 1, '2024-03-01 15:00')}), 'ok', 'one who may insert into both feeds the stream');
like(failure('rita', q{INSERT INTO app.feeder VALUES (1, 1, '2024-03-01 15:00')}), qr/permission denied for foreign table s/, 'one who may not does not');
as('alice', 'DROP TABLE app.feeder');

# ---- a query that loses a privilege -----------------------------------------------------------------------------------------

sql(q{
	CREATE ROLE dora;
	CREATE SCHEMA lib AUTHORIZATION dora;
	GRANT USAGE ON SCHEMA lib TO bob;
	SET SESSION AUTHORIZATION dora;
	CREATE TABLE lib.dim (k int, name text, factor int);
	INSERT INTO lib.dim SELECT i, 'n' || i % 3, i FROM generate_series(1, 9) i;
	CREATE FUNCTION lib.twice(int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 2 * $1; END';
	REVOKE ALL ON FUNCTION lib.twice(int) FROM PUBLIC;
	GRANT SELECT ON lib.dim TO bob;
	GRANT EXECUTE ON FUNCTION lib.twice TO bob;
});
as('bob', q{SELECT aion.drop_view('app.v')});
sql('TRUNCATE app.s');
my %QUERIES = (
	plain => 'SELECT k, count(*) AS n FROM {S} s GROUP BY k',
	joined => 'SELECT d.name, sum(s.v * d.factor) AS n FROM {S} s JOIN lib.dim d ON d.k = s.k GROUP BY d.name',
	called => 'SELECT sum(lib.twice(v)) AS n FROM {S} s');
my @VIEWS = sort keys %QUERIES;

sub create_view
{
	my ($role, $name, $query) = @_;
	$query =~ s/\{S\}/app.s/;
	as($role, "SELECT aion.create_view('app.$name', \$\$ $query \$\$, aion.tumbling('1 hour'), allowed_lateness => 'unlimited')");
	return;
}

create_view('bob', $_, $QUERIES{$_}) for @VIEWS;

my $next = 1;

# Twenty more events for all windows.
sub insert_events
{
	my $first = $next;
	$next += 20;
	sql("INSERT INTO app.$_ SELECT i % 9 + 1, i, timestamptz '2024-03-01 10:00' + i % 4 * interval '1 hour' FROM generate_series($first, $next - 1) i") for 's', 'p';
	return;
}

sub exact
{
	my ($name, @views) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $view (@views)
	{
		my $batch = $QUERIES{$view} =~ s/\{S\}/(SELECT p.* FROM app.p WHERE p.at >= w.window_start AND p.at < w.window_end)/r;
		oracle_ok($node, "app.$view", qq{
			SELECT w.window_start, w.window_end, q.*
			  FROM (SELECT DISTINCT date_trunc('hour', at) AS window_start, date_trunc('hour', at) + interval '1 hour' AS window_end FROM app.p) w
			 CROSS JOIN LATERAL ($batch) q}, "$name: $view is exact");
	}
	return;
}

sub failed { return sql(q{SELECT coalesce(string_agg(DISTINCT view::text || ': ' || error, ', '), '') FROM aion.windows WHERE error IS NOT NULL}) }

insert_events();
sql(q{SELECT aion.advance_watermark('app.s', '2024-03-01 14:00')});
sql(q{SELECT aion.sync('app.s', late => true)});
exact('with all privileges', @VIEWS);
for my $case (
	[ 'a joined table', 'SELECT ON lib.dim', ['joined'], 'permission denied for table dim' ],
	[ 'a function', 'EXECUTE ON FUNCTION lib.twice', ['called'], 'permission denied for function twice' ],
	[ 'the results', 'ALL ON aion_results.joined', ['joined'], 'permission denied for table joined' ],
	[ 'the definition', 'ALL ON aion_results.def_joined', ['joined'], 'permission denied for view def_joined' ],
	[ 'the stream', 'SELECT ON app.s', [qw(called joined plain)], 'permission denied for foreign table s' ],
	[ 'the schema of results', 'USAGE ON SCHEMA aion_results', [qw(called joined plain)], 'permission denied for schema aion_results', 'PUBLIC' ])
{
	my ($what, $privilege, $views, $message, $from) = @$case;
	$from //= 'bob';
	sql("REVOKE $privilege FROM $from");
	insert_events();
	sql(q{SELECT aion.sync('app.s', late => true)});
	is(failed(), join(', ', map { "app.$_: $message" } @$views), "without $what, its windows fail, and no others");
	exact("without $what", grep { my $v = $_; !grep { $_ eq $v } @$views } @VIEWS);
	is(as('rita', 'SELECT count(*) FROM aion.windows'), '0', 'nothing of it shows to others');
	sql("GRANT $privilege TO $from");
	as('bob', "SELECT aion.refresh('app.$_')") for @$views;
	is(failed(), '', "with $what again, they recover");
	exact("with $what again", @VIEWS);
}

# Granted again, it needs no refresh either: the next late event will do.
sql('REVOKE SELECT ON lib.dim FROM bob');
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
isnt(failed(), '', 'failed once more');
sql('GRANT SELECT (k, name, factor) ON lib.dim TO bob');
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
is(failed(), '', 'windows recover by themselves with their next events');
exact('recovered', @VIEWS);

# ---- row-level security of a table that queries join ------------------------------------------------------------------------

sql(q{
	SET SESSION AUTHORIZATION dora;
	CREATE TABLE lib.rights (k int, who name);
	INSERT INTO lib.rights SELECT i, CASE WHEN i < 5 THEN 'bob' ELSE 'alice' END FROM generate_series(1, 9) i;
	ALTER TABLE lib.rights ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON lib.rights USING (who = current_user);
	GRANT SELECT ON lib.rights TO bob, alice;
	GRANT USAGE ON SCHEMA lib TO alice;
});
create_view($_, "${_}_rows", 'SELECT k, count(*) AS n FROM {S} JOIN lib.rights USING (k) GROUP BY k') for 'alice', 'bob';
sql(q{ALTER DATABASE postgres SET row_security = off});
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
for my $case ([ 'alice', 'k >= 5' ], [ 'bob', 'k < 5' ])
{
	my ($role, $rows) = @$case;
	oracle_ok($node, "app.${role}_rows", "SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', k, count(*) FROM app.p WHERE $rows GROUP BY 1, 2, 3", "rows of $role");
}
sql(q{ALTER DATABASE postgres RESET row_security});

# the same plan serves another owner: he sees his own rows
sql('ALTER VIEW app.bob_rows OWNER TO alice');
as('alice', qq{SELECT aion.refresh('app.bob_rows', '2024-03-01 ${_}:00')}) for 10 .. 13;
oracle_ok($node, 'app.bob_rows', q{SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', k, count(*) FROM app.p WHERE k >= 5 GROUP BY 1, 2, 3}, 'after a change of owner');
as('alice', "SELECT aion.drop_view('app.${_}_rows')") for 'alice', 'bob';

# ---- owners that change -----------------------------------------------------------------------------------------------------

sql($_) for 'ALTER ROLE bob RENAME TO robert', 'ALTER ROLE robert NOLOGIN', 'REVOKE CREATE ON SCHEMA app FROM robert', 'ALTER ROLE alice RENAME TO "Alice B."', 'ALTER ROLE "Alice B." NOLOGIN';
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
is(failed(), '', 'owners that were renamed, may not log in, and may not create anything any more');
exact('renamed owners', @VIEWS);

# rights of a superuser go with that
sql(q{
	ALTER ROLE robert SUPERUSER;
	CREATE TABLE lib.closed AS SELECT i AS k FROM generate_series(1, 3) i;
});
create_view('robert', 'high', 'SELECT count(*) AS n FROM {S} JOIN lib.closed USING (k)');
sql(q{SELECT aion.sync('app.s', late => true)});
is(failed(), '', 'as a superuser');
sql('ALTER ROLE robert NOSUPERUSER');
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
is(failed(), 'app.high: permission denied for table closed', 'not one any more');
exact('once a superuser', @VIEWS);
as('robert', q{SELECT aion.drop_view('app.high')});

like(failure('postgres', 'DROP ROLE robert'), qr/cannot be dropped because some objects depend on it\nDETAIL:.*owner of view app\.called/s, 'an owner of views is kept');
like(failure('postgres', 'DROP ROLE "Alice B."'), qr/cannot be dropped because some objects depend on it\nDETAIL:.*owner of foreign table app\.s/s, 'and one of streams');
like(failure('postgres', 'DROP OWNED BY "Alice B."'), qr/cannot drop desired object\(s\) because other objects depend on them\nDETAIL:.*view app\.called depends on foreign table app\.s/s,
	'what others have views over is not dropped unasked');

# a stream with another owner: the former one has no more say
sql('CREATE ROLE emma; ALTER FOREIGN TABLE app.s OWNER TO emma; GRANT SELECT ON app.s TO emma, robert');
is(outcome('"Alice B."', q{SELECT aion.destage('app.s')}), '42501', 'the former owner of a stream');
is(outcome('emma', q{SELECT aion.destage('app.s')}), 'ok', 'the new one');
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
exact('after a change of the owner of the stream', @VIEWS);

# views with another owner, who must have what their queries need
sql('REASSIGN OWNED BY robert TO emma');
is(sql(q{SELECT DISTINCT relowner::regrole FROM pg_class WHERE relkind IN ('v', 'r', 'S', 'i') AND relnamespace IN ('app'::regnamespace, 'aion_results'::regnamespace) AND relname <> 'p'}),
	'emma', 'all parts of views go to the new owner');
insert_events();
sql(q{SELECT aion.sync('app.s', late => true)});
like(failed(), qr/app\.called: permission denied for function twice.*app\.joined: permission denied for table dim/, 'whose rights count from then on');
sql('GRANT USAGE ON SCHEMA lib TO emma; GRANT SELECT ON lib.dim TO emma; GRANT EXECUTE ON FUNCTION lib.twice TO emma');
sql("SELECT aion.refresh('app.$_')") for @VIEWS;
is(failed(), '', 'all granted');
exact('after REASSIGN OWNED', @VIEWS);
sql('DROP OWNED BY robert; DROP ROLE robert');

sql('DROP OWNED BY emma');
is(sql(q{SELECT count(*) FROM aion.view_def}) . sql(q{SELECT count(*) FROM aion.stream_def}), '01', 'DROP OWNED takes streams and views');
is(sql(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'aion_results'::regnamespace}), '0', 'with their results');
sql('DROP ROLE emma');

# ---- the extension's owner ----------------------------------------------------------------------------------------------------

sql('CREATE ROLE boss SUPERUSER LOGIN');
sql('CREATE DATABASE other');
$node->safe_psql('other', q{SET SESSION AUTHORIZATION boss; CREATE EXTENSION aion});
sql('ALTER ROLE boss NOSUPERUSER NOLOGIN');
$node->safe_psql('other', $_)
  for q{CREATE FOREIGN TABLE s (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual'); GRANT ALL ON s TO rita; GRANT CREATE ON SCHEMA public TO rita},
  q{SET SESSION AUTHORIZATION rita; INSERT INTO s VALUES (1, '2024-03-01 10:00')},
  q{SET SESSION AUTHORIZATION rita; SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'))},
  q{SET SESSION AUTHORIZATION rita; SELECT aion.refresh('v')};
is($node->safe_psql('other', 'SELECT n FROM v'), '1', 'the owner of the extension is no superuser any more');
$node->safe_psql('other', 'REASSIGN OWNED BY boss TO postgres');
sql('REASSIGN OWNED BY boss TO postgres; DROP ROLE boss');
$node->safe_psql('other', $_)
  for q{SET SESSION AUTHORIZATION rita; INSERT INTO s VALUES (1, '2024-03-01 10:00')}, q{TRUNCATE s}, q{SET SESSION AUTHORIZATION rita; INSERT INTO s VALUES (1, '2024-03-01 10:00')},
  q{SET SESSION AUTHORIZATION rita; SELECT aion.refresh('v')};
is($node->safe_psql('other', 'SELECT n FROM v'), '1', 'nor there at all');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
