# Code that a user puts in the way of aion runs with his own rights or, where somebody else's statement comes upon it, with
# that user's; never with those of a worker, of the extension's owner, or of a superuser who looks on.
#
# Each trap writes where it sits and as whom it ran to the server's log. A trap must have been stepped on, or it proves
# nothing; and then by those alone who may be.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('untrusted', conf => "aion.late_interval = 0\nlog_min_messages = log");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub as { my ($role, $sql) = @_; return sql("SET SESSION AUTHORIZATION $role; $sql") }

# SQLSTATE and text of a statement that fails; '' if it does not.
sub failure
{
	my ($role, $sql, $dbname) = @_;
	my ($code, $out, $error) = $node->psql($dbname // 'postgres', "\\set VERBOSITY verbose\nSET SESSION AUTHORIZATION $role;\n$sql");
	return $code == 0 ? '' : $error =~ /ERROR:\s+(.*)/ ? $1 : $error;
}

# Who stepped on the traps of a place since the last look: names in order, joined.
my $looked_at = 0;

sub victims
{
	my ($place) = @_;
	my %users = map { $_ => 1 } substr(slurp_file($node->logfile), $looked_at) =~ /trap \Q$place\E as (\w+)/g;
	return join ',', sort keys %users;
}

sub look_anew { $looked_at = -s $node->logfile; return }

sql(q{
	CREATE ROLE eve LOGIN;
	CREATE ROLE dave LOGIN;
	GRANT USAGE ON FOREIGN SERVER aion TO eve, dave;
	CREATE SCHEMA eve AUTHORIZATION eve;
	CREATE SCHEMA dave AUTHORIZATION dave;
	GRANT USAGE ON SCHEMA eve, dave TO PUBLIC;
});
as('eve', q{
	CREATE FUNCTION eve.trap(place text) RETURNS bool LANGUAGE plpgsql STABLE AS $$
		BEGIN RAISE LOG 'trap % as %', place, current_user; RETURN true; END $$;
	CREATE FUNCTION eve.trap_value(place text, value int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN RAISE LOG 'trap % as %', place, current_user; RETURN value; END $$;
	CREATE FUNCTION eve.trap_row() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE LOG 'trap % as %', TG_ARGV[0], current_user;
			PERFORM set_config('search_path', 'eve, pg_catalog', false);
			SET CONSTRAINTS ALL DEFERRED;
			RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
		END $$;
	CREATE FUNCTION eve.op(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN RAISE LOG 'trap operator as %', current_user; RETURN $1; END $$;
	CREATE OPERATOR eve.@@@ (LEFTARG = int, RIGHTARG = int, FUNCTION = eve.op);
	CREATE DOMAIN eve.number AS int CHECK (eve.trap_value('domain', VALUE) IS NOT NULL);

	-- a type whose values are stored as text, and read back with a check
	CREATE TYPE eve.color AS ENUM ('red', 'green');
	CREATE FUNCTION eve.trap_color(place text, value eve.color) RETURNS bool LANGUAGE plpgsql AS $$
		BEGIN RAISE LOG 'trap % as %', place, current_user; PERFORM set_config('search_path', 'eve, pg_catalog', false); RETURN true; END $$;
	CREATE DOMAIN eve.checked_color AS eve.color CHECK (eve.trap_color('text', VALUE));
	CREATE FUNCTION eve.color_json(eve.color) RETURNS json LANGUAGE plpgsql AS $$
		BEGIN RAISE LOG 'trap cast as %', current_user; RETURN '"seen"'; END $$;
	CREATE CAST (eve.color AS json) WITH FUNCTION eve.color_json(eve.color);
});

# ---- a view's query, and what hangs on its results ----------------------------------------------------------------------

as('dave', q{
	CREATE FOREIGN TABLE dave.s (k int, v int, at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10 hours', bucket_width '1 hour');
	CREATE TABLE dave.dim (k int, name text);
	INSERT INTO dave.dim SELECT i, 'n' || i FROM generate_series(1, 3) i;
	ALTER TABLE dave.dim ENABLE ROW LEVEL SECURITY;
	CREATE POLICY p ON dave.dim USING (eve.trap('policy') AND k < 3);
	GRANT SELECT ON dave.s, dave.dim TO eve;
	INSERT INTO dave.s VALUES (1, 10, '2024-03-01 10:10'), (2, 20, '2024-03-01 10:20'), (3, 30, '2024-03-01 10:30');
});
as('eve', q{
	CREATE VIEW eve.barrier WITH (security_barrier) AS SELECT * FROM dave.s WHERE eve.trap_value('barrier', v) > 0;
	SELECT aion.create_view('eve.v',
		$$ SELECT d.name, sum(s.v OPERATOR(eve.@@@) 0) AS total, max(s.v::eve.number)::eve.number AS most
			 FROM eve.barrier s JOIN dave.dim d ON d.k = s.k WHERE eve.trap('query') GROUP BY d.name $$,
		aion.tumbling('1 hour'), allowed_lateness => '2 hours', retain => '3 hours');
	CREATE INDEX ON aion_results.v (eve.trap_value('index', total::int));
	ALTER TABLE aion_results.v ADD COLUMN extra int DEFAULT eve.trap_value('default', (random() * 10)::int);
	CREATE TRIGGER put AFTER INSERT ON aion_results.v FOR EACH ROW EXECUTE FUNCTION eve.trap_row('insert');
	CREATE TRIGGER taken AFTER DELETE ON aion_results.v FOR EACH ROW EXECUTE FUNCTION eve.trap_row('delete');
	CREATE CONSTRAINT TRIGGER later AFTER INSERT ON aion_results.v DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION eve.trap_row('deferred');
	CREATE TABLE eve.copied (name text, seen bool);
	CREATE RULE also AS ON INSERT TO aion_results.v DO ALSO INSERT INTO eve.copied VALUES (NEW.name, eve.trap('rule'));
	CREATE POLICY p ON aion_results.v USING (eve.trap('results_policy'));
	ALTER TABLE aion_results.v ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
});

# Eve's triggers switch deferring on: what they would leave for the commit, when nobody acts as the owner, is an error.
look_anew();
sql(q{SELECT aion.advance_watermark('dave.s', '2024-03-01 11:00')});
sql(q{SELECT aion.sync('dave.s')});
as('eve', q{SELECT aion.refresh('eve.v', '2024-03-01 10:00')});
is(sql(q{SELECT state, error FROM aion.windows WHERE view = 'eve.v'::regclass}),
	'failed|cannot fire deferred trigger within security-restricted operation', 'no trigger is left for the commit');
as('eve', q{
	DROP TRIGGER later ON aion_results.v;
	CREATE CONSTRAINT TRIGGER later AFTER INSERT ON aion_results.v DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION eve.trap_row('deferred');
	CREATE OR REPLACE FUNCTION eve.trap_row() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE LOG 'trap % as %', TG_ARGV[0], current_user;
			PERFORM set_config('search_path', 'eve, pg_catalog', false);
			RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
		END $$;
	SELECT aion.refresh('eve.v');
});
is(as('eve', q{SELECT name, total, most FROM eve.v ORDER BY 1}), "n1|10|10\nn2|20|20", 'the query sees what its owner may');
is(victims($_), 'eve', "$_: with the view owner's rights")
  for qw(query operator domain policy barrier index default insert deferred rule results_policy);

# what others do to the stream comes upon the same traps
look_anew();
as('dave', q{INSERT INTO dave.s VALUES (1, 5, '2024-03-01 10:40')});
sql(q{SELECT aion.sync('dave.s', late => true)});
is(victims($_), 'eve', "$_: again, for a late event") for qw(query operator policy insert delete);
is(as('eve', q{SELECT name, total FROM eve.v ORDER BY 1}), "n1|15\nn2|20", 'amended');

look_anew();
sql(q{SELECT aion.advance_watermark('dave.s', '2024-03-01 13:00')});
sql(q{SELECT aion.sync('dave.s')});
as('dave', q{INSERT INTO dave.s VALUES (1, 7, '2024-03-01 10:50')});
sql(q{SELECT aion.sync('dave.s')});
is(sql(q{SELECT count(*) FROM aion.expired}), '1', 'an event that came too late');
sql(q{SELECT aion.readmit(id) FROM aion.expired});
is(victims('query'), 'eve', 'readmitted by a superuser: still with the rights of the owner of the view');
is(as('eve', q{SELECT name, total FROM eve.v ORDER BY 1}), "n1|22\nn2|20", 'readmitted');

look_anew();
sql(q{SELECT aion.advance_watermark('dave.s', '2024-03-01 14:00')});
wait_until($node, q{SELECT results_removed_through = '2024-03-01 11:00' FROM aion.views WHERE view = 'eve.v'::regclass}, 'results are removed');
is(victims('delete'), 'eve', 'results that are not retained are removed with the rights of their owner');

# TRUNCATE deletes results, in whose session ever; what the triggers set there is undone
look_anew();
as('dave', q{INSERT INTO dave.s VALUES (1, 10, '2024-03-01 15:10')});
sql(q{SELECT aion.refresh('eve.v')});
is(sql(q{SET search_path = public; BEGIN; TRUNCATE dave.s; SHOW search_path; COMMIT}), 'public', 'TRUNCATE by a superuser leaves his settings alone');
is(victims('delete'), 'eve', 'and deletes results with the rights of their owner');

# a function that waits for the worker which runs it
as('eve', q{
	CREATE FUNCTION eve.wait(int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN PERFORM aion.sync('dave.s', timeout => '1 hour'); RETURN $1; END $$;
	SELECT aion.create_view('eve.w', 'SELECT max(eve.wait(v)) AS m FROM dave.s', aion.tumbling('1 hour'));
});
as('dave', q{INSERT INTO dave.s VALUES (1, 10, '2024-03-01 16:10')});
sql(q{SELECT aion.sync('dave.s')});
sql(q{SELECT aion.refresh('eve.w')});
is(sql(q{SELECT state, error FROM aion.windows WHERE view = 'eve.w'::regclass}),
	'failed|aion.sync() cannot be called while a continuous view is executed', 'a query cannot wait for its own worker');
as('eve', q{SELECT aion.drop_view('eve.w')});

# a function that would end the process that runs it, which serves others as well
for my $setting ('exit_on_error', sql('SHOW server_version_num') >= 170000 ? 'transaction_timeout' : ())
{
	as('eve', qq{
		CREATE FUNCTION eve.die(int) RETURNS int LANGUAGE plpgsql STABLE AS \$\$
			BEGIN PERFORM set_config('$setting', '1', false), pg_sleep(0.1); RAISE 'to be fatal'; END \$\$;
		SELECT aion.create_view('eve.w', 'SELECT max(eve.die(v)) AS m FROM dave.s', aion.tumbling('1 hour'));
	});
	as('dave', q{INSERT INTO dave.s VALUES (1, 10, '2024-03-01 16:20')});
	sql(q{SELECT aion.sync('dave.s')});
	sql(q{SELECT aion.refresh('eve.w')});
	is(sql(q{SELECT DISTINCT state, error FROM aion.windows WHERE view = 'eve.w'::regclass}),
		qq{failed|permission denied to set parameter "$setting"}, "a query cannot end its worker by $setting");
	as('eve', q{SELECT aion.drop_view('eve.w'); DROP FUNCTION eve.die(int)});
}

# a column that was added after events: workers know what these show, and do not ask the domain
as('eve', q{
	CREATE FOREIGN TABLE eve.a (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	INSERT INTO eve.a VALUES ('2024-03-01 10:10');
});
as('eve', q{ALTER FOREIGN TABLE eve.a ADD COLUMN n eve.number DEFAULT 5, ADD COLUMN c eve.checked_color DEFAULT 'red'});
kill_worker($node, 'scheduler', 'TERM');
look_anew();
sql(q{SELECT aion.sync('eve.a')});
sql(q{SELECT aion.destage('eve.a')});
is(victims($_), '', "$_: not asked by workers") for qw(domain text);
is(as('eve', q{SELECT n, c FROM eve.a}), '5|red', 'what the added columns show');
is(victims($_), '', "$_: nor by readers") for qw(domain text);
as('eve', 'DROP FOREIGN TABLE eve.a');

# what is gone with a session can't be part of a view
for my $temporary (
	['a function', 'CREATE FUNCTION pg_temp.f(int) RETURNS int LANGUAGE sql STABLE AS $$ SELECT 1 $$', 'pg_temp.f(v)'],
	['a type', 'CREATE DOMAIN pg_temp.d AS int', 'v::pg_temp.d'],
	['an operator', 'CREATE OPERATOR pg_temp.!!! (RIGHTARG = int, FUNCTION = int4um)', 'OPERATOR(pg_temp.!!!) v'])
{
	my ($what, $create, $expression) = @$temporary;
	like(failure('eve', "$create; SELECT aion.create_view('eve.t', 'SELECT $expression AS x FROM dave.s', aion.tumbling('1 hour'))"),
		qr/^42P16: a continuous view must not use temporary objects/, "$what of pg_temp is refused");
}

# ---- events that were set aside: read by anybody who may, with code of the stream's owner ----------------------------------

as('eve', q{
	CREATE FOREIGN TABLE eve.s (c eve.color, d eve.checked_color CHECK (eve.trap('check')), at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '0');
	SELECT aion.advance_watermark('eve.s', '2024-03-02 00:00');
	GRANT SELECT ON eve.s TO dave;
});
sql(q{SELECT aion.sync('eve.s')});
as('eve', q{INSERT INTO eve.s VALUES ('green', 'red', '2024-03-01 10:20')});
sql(q{SELECT aion.sync('eve.s')});
for my $reader ('postgres', 'dave')
{
	look_anew();
	is(as($reader, q{SET search_path = public; BEGIN; SELECT event->>'c', event->>'d' FROM aion.expired WHERE stream = 'eve.s'::regclass ORDER BY id; SHOW search_path; COMMIT}),
		"seen|seen\npublic", "$reader reads what was set aside");
	is(victims('cast'), 'eve', 'cast: with the rights of the owner of the stream');
	is(victims('text'), '', 'text: not at all');
}
look_anew();
like(failure('postgres', 'SELECT aion.readmit(id) FROM aion.expired'), qr/^(55000|$)/, 'a superuser readmits it');
is(victims($_), 'eve', "$_: with the rights of the owner of the stream") for qw(check text);
as('eve', q{INSERT INTO eve.s VALUES ('green', 'red', '2024-03-01 10:20')});
sql(q{SELECT aion.sync('eve.s')});
is(failure('eve', q{CREATE OR REPLACE FUNCTION eve.color_json(eve.color) RETURNS json LANGUAGE plpgsql AS $$ BEGIN SET ROLE postgres; RETURN '1'; END $$}), '', 'a trap that would change the role');
like(failure('postgres', 'SELECT event FROM aion.expired'), qr/^42501: cannot set parameter "role" within security-/, 'it can not');
as('eve', 'DROP FOREIGN TABLE eve.s');

# ---- names that stand before the server's ----------------------------------------------------------------------------------

# Operators and functions that fit aion's own statements as well as, or better than, the server's; for all who connect.
my @operators;
for my $type (qw(regclass oid timestamptz bigint int4 text bool bytea float8 interval xid8 pg_snapshot))
{
	push @operators, "CREATE FUNCTION eve.same($type, $type) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN RAISE LOG 'trap path as %', current_user; RETURN false; END \$\$",
	  map { "CREATE OPERATOR eve.$_ (LEFTARG = $type, RIGHTARG = $type, FUNCTION = eve.same)" } '=', '<>', '<', '<=', '>', '>=';
}
for my $function ('lower(text)', 'has_table_privilege(regclass, text)', 'pg_has_role(oid, text)', 'now()', 'clock_timestamp()', 'format(text, interval)')
{
	my ($result) = $function =~ /^(lower|format)/ ? 'text' : $function =~ /^(now|clock)/ ? 'timestamptz' : 'bool';
	push @operators, "CREATE FUNCTION eve.$function RETURNS $result LANGUAGE plpgsql STABLE AS \$\$ BEGIN RAISE LOG 'trap path as %', current_user; RETURN NULL; END \$\$";
}
my $operators = join ";\n", @operators;
as('eve', $operators);
my $scheduler = worker_pid($node, 'scheduler');
sql(q{ALTER DATABASE postgres SET search_path = eve, pg_catalog});
kill('TERM', $scheduler);
look_anew();
like(failure('postgres', q{SELECT pg_catalog.now() = pg_catalog.now()}), qr/^$/, 'the trap is set');
is(victims('path'), 'postgres', 'and works: for statements that users write');
look_anew();
for my $durable ('on', 'off')
{
	sql($_)
	  for "CREATE FOREIGN TABLE dave.p (k int, v int, at timestamptz NOT NULL)
			SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10 hours', durable '$durable')",
	  q{INSERT INTO dave.p VALUES (1, 1, '2024-03-01 10:10'), (2, 2, '2024-03-01 11:10')},
	  q{SELECT aion.create_view('dave.pv', 'SELECT pg_catalog.count(*) AS n FROM dave.p', aion.tumbling('1 hour'), allowed_lateness => '2 hours', retain => '3 hours')},
	  q{SELECT aion.advance_watermark('dave.p', '2024-03-01 11:00')}, q{SELECT aion.sync('dave.p', late => true)},
	  q{SELECT aion.destage('dave.p')}, q{INSERT INTO dave.p VALUES (1, 1, '2024-03-01 10:20')}, q{SELECT aion.refresh('dave.pv')},
	  q{SELECT aion.stage('dave.p', '2024-03-01 10:00', '2024-03-01 12:00')}, q{SELECT aion.reset_watermark('dave.p', '2024-03-01 10:30')},
	  q{ALTER FOREIGN TABLE dave.p ADD COLUMN w int DEFAULT 7}, q{ALTER FOREIGN TABLE dave.p ADD CONSTRAINT c CHECK (w OPERATOR(pg_catalog.>) 0)}, q{ALTER FOREIGN TABLE dave.p ALTER w SET NOT NULL},
	  q{SELECT * FROM dave.p}, q{SELECT aion.advance_watermark('dave.p', '2024-03-01 13:30')}, q{SELECT aion.sync('dave.p')},
	  q{INSERT INTO dave.p VALUES (1, 1, '2024-03-01 10:20')}, q{SELECT aion.sync('dave.p')},
	  (map { "TABLE aion.$_" } qw(streams windows buckets io workers expired lateness)),
	  # not the definition: the server's own pg_get_viewdef() looks into the path
	  q{SELECT view, window_spec, state, on_time_firings, last_error FROM aion.views},
	  q{SELECT aion.readmit(id) FROM aion.expired}, q{SELECT aion.alter_view('dave.pv', early => '1 s')},
	  q{SELECT aion.pause_view('dave.pv')}, q{SELECT aion.resume_view('dave.pv')}, q{SELECT aion.watermark('dave.p')},
	  q{SELECT aion.advance_watermark('dave.p', '2024-03-02 00:00')}, q{SELECT aion.sync('dave.p')},
	  q{TRUNCATE dave.p}, q{SELECT aion.drop_view('dave.pv')}, q{DROP FOREIGN TABLE dave.p};
}
is(victims('path'), '', 'no statement of aion, in a session or a worker, looks into it');
sql(q{ALTER DATABASE postgres RESET search_path});

# ---- the extension's script -------------------------------------------------------------------------------------------------

sql('CREATE DATABASE eves OWNER eve');
my $traps = $operators =~ s/eve\./aion./gr;
is(failure('eve', "CREATE SCHEMA aion; $traps;
	CREATE FUNCTION aion.times(bigint, interval) RETURNS interval LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN RAISE LOG 'trap path as %', current_user; RETURN NULL; END \$\$;
	CREATE OPERATOR aion.* (LEFTARG = bigint, RIGHTARG = interval, FUNCTION = aion.times);
	GRANT USAGE ON SCHEMA aion TO PUBLIC", 'eves'), '', 'a schema that waits for the extension');
look_anew();
like(failure('postgres', 'CREATE EXTENSION aion', 'eves'), qr/^42P06: schema "aion" already exists/, 'the extension does not move in with a user');
$node->safe_psql('eves', 'ALTER SCHEMA aion RENAME TO eves; CREATE EXTENSION aion');
is($node->safe_psql('eves', q{
	SELECT pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
	  FROM pg_depend d
	 WHERE (refclassid, refobjid) IN (SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE proowner = 'eve'::regrole
									  UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oprowner = 'eve'::regrole)
	   AND pg_describe_object(d.classid, d.objid, d.objsubid) !~ 'operator'}), '', 'nothing in it refers to what it found there');
$node->safe_psql('eves', q{
	CREATE FOREIGN TABLE public.s (v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	SELECT aion.create_view('public.v', 'SELECT count(*) AS n FROM public.s', aion.tumbling('1 hour'))});
$node->safe_psql('eves', $_) for q{INSERT INTO public.s VALUES (1, '2024-03-01 10:00')}, q{SELECT aion.refresh('public.v')},
  map { "TABLE aion.$_" } qw(streams views windows buckets io workers expired lateness);
is($node->safe_psql('eves', 'SELECT n FROM public.v'), '1', 'it works there');
is(victims('path'), '', 'and steps on no trap');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
