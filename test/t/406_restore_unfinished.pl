# Streams that came with a dump and are not taken over yet, and what others do meanwhile: nobody's relation is taken for a part
# of a restored view, and nothing spoils what the restore brought.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('unfinished', conf => "aion.late_interval = '20ms'\nmax_worker_processes = 32", extension => 0);
my $dir = $node->basedir;

sub sql { my ($db, $sql) = @_; return $node->safe_psql($db, $sql) }

sub fails_like
{
	my ($db, $sql, $pattern, $name, @options) = @_;
	my ($code, $out, $error) = $node->psql($db, $sql, @options);
	return like($error, $pattern, $name);
}

sub database { my ($db, $sql) = @_; sql('postgres', "CREATE DATABASE $db"); sql($db, $sql) if $sql; return }

# Errors are ignored, as both programs do by default.
sub restore { my ($db, @options) = @_; system_log('pg_restore', @options, '-d', $node->connstr($db), "$dir/origin.dump"); return }

sql('postgres', 'CREATE ROLE alice LOGIN; CREATE ROLE mallory LOGIN');
database('origin', q{
	CREATE EXTENSION aion;
	GRANT USAGE ON FOREIGN SERVER aion TO PUBLIC;
	GRANT CREATE ON SCHEMA public TO PUBLIC;
	SET SESSION AUTHORIZATION alice;
	CREATE TYPE mood AS ENUM ('good', 'bad');
	CREATE FOREIGN TABLE s (n int, x mood, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', allowed_lateness '10 d');
	SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.tumbling('10 min'));
	SELECT aion.create_view('gone', 'SELECT sum(n) AS sum FROM s', aion.tumbling('20 min'));
	INSERT INTO s SELECT g, 'good', '2024-03-01 08:00'::timestamptz + g * interval '1 min' FROM generate_series(1, 300) g;
	SELECT aion.sync('s');
	INSERT INTO s VALUES (0, 'bad', '2024-01-01 08:00');
	SELECT aion.sync('s');
	RESET SESSION AUTHORIZATION;
	CREATE SCHEMA a;
	CREATE MATERIALIZED VIEW a.m AS SELECT count(*) AS n FROM s});
is(sql('origin', 'SELECT count(*) FROM aion.set_aside'), 1, 'an event is set aside');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/origin.dump", '-d', $node->connstr('origin') ], 'dump');

# ---- relations of strangers ---------------------------------------------------------------------------------------------------

database('squatted', q{CREATE EXTENSION aion; GRANT USAGE ON FOREIGN SERVER aion TO PUBLIC; CREATE SCHEMA m; GRANT ALL ON SCHEMA m TO mallory});
for my $statement ('CREATE VIEW aion_results.def_v AS SELECT 1::bigint AS n', 'CREATE TABLE aion_results.v (n int)',
	'CREATE VIEW m.def_v AS SELECT 1::bigint AS n; ALTER VIEW m.def_v SET SCHEMA aion_results', 'CREATE TABLE m.v (n int); ALTER TABLE m.v SET SCHEMA aion_results')
{
	fails_like('squatted', $statement, qr/permission denied to put "(def_)?v" into schema aion_results/, "mallory: $statement", connstr => $node->connstr('squatted') . ' user=mallory');
}
# what is a part of an own view may have any name
sql('squatted', q{
	DROP VIEW IF EXISTS m.def_v; DROP TABLE IF EXISTS m.v;
	SET SESSION AUTHORIZATION mallory;
	CREATE FOREIGN TABLE m.own (n int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
	SELECT aion.create_view('m.mine', 'SELECT count(*) AS n FROM m.own', aion.tumbling('10 min'));
	ALTER VIEW aion_results.def_mine SET SCHEMA m;
	ALTER VIEW m.def_mine SET SCHEMA aion_results;
	ALTER VIEW aion_results.def_mine RENAME TO def_v});
restore('squatted');
fails_like('squatted', 'REFRESH MATERIALIZED VIEW aion.restored', qr/aion_results\.def_v" was not restored as a part of continuous view "public\.v"/, 'the definition of another view is no definition of this one');
# nor is one that a superuser put there, of another owner
for my $part ('VIEW aion_results.def_v AS SELECT 1::bigint AS n', 'TABLE aion_results.v (n int)')
{
	my ($kind, $relation) = $part =~ /^(\w+) (\S+)/;
	my $db = "owner_$kind";
	$db = lc $db;
	database($db, "CREATE EXTENSION aion; CREATE $part; ALTER $kind $relation OWNER TO mallory");
	restore($db, '--no-owner');
	next if $kind eq 'TABLE';	# the view over it could not be made
	fails_like($db, 'REFRESH MATERIALIZED VIEW aion.restored', qr/"\Q$relation\E" was not restored as a part/, "$kind of another owner");
	is(sql($db, 'SELECT count(*) FROM s'), 300, 'the stream waits');
}
# the journal of another stream is not this one's
database('taken');
restore('taken');
sql('taken', q{CREATE FOREIGN TABLE other (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
	INSERT INTO other VALUES ('2024-03-01 08:00');
	UPDATE aion.stream_def SET home = '', journal = (SELECT journal FROM aion.stream_def WHERE stream = 'other'::regclass) WHERE stream = 's'::regclass});
fails_like('taken', 'REFRESH MATERIALIZED VIEW aion.restored', qr/was not restored as a part of stream "s"/, 'the journal of another stream');

# ---- before it is taken over ----------------------------------------------------------------------------------------------

# all but the last step
my ($list) = run_command([ 'pg_restore', '-l', "$dir/origin.dump" ]);
append_to_file("$dir/list.txt", join("\n", grep { !/MATERIALIZED VIEW DATA aion restored/ } split(/\n/, $list)) . "\n");
database('waiting');
restore('waiting', '-L', "$dir/list.txt");
for my $statement ('ALTER FOREIGN TABLE s ALTER COLUMN n TYPE text', 'ALTER FOREIGN TABLE s ADD COLUMN c int DEFAULT 5',
	'ALTER FOREIGN TABLE s DROP COLUMN n CASCADE', q{ALTER FOREIGN TABLE s OPTIONS (SET allowed_lateness '20 d')})
{
	fails_like('waiting', $statement, qr/stream "s" is being restored/, "refused: $statement");
}
fails_like('waiting', q{ALTER TYPE mood RENAME VALUE 'good' TO 'fine'}, qr/cannot alter type mood because stored events of stream "s" use it/, 'refused: another name of a value');
fails_like('waiting', 'ALTER FOREIGN TABLE s ADD CHECK (n > 5)', qr/violated/, 'a constraint is checked');
sql('waiting', $_) for 'ALTER FOREIGN TABLE s ADD CHECK (n > 5) NOT VALID', 'ALTER FOREIGN TABLE s ADD CHECK (n >= 0)', 'ALTER FOREIGN TABLE s OWNER TO mallory',
	'GRANT SELECT ON s TO mallory', q{COMMENT ON FOREIGN TABLE s IS 'waiting'},
	q{CREATE TABLE parted (n int, x mood, at timestamptz NOT NULL) PARTITION BY RANGE (at); ALTER TABLE parted ATTACH PARTITION s FOR VALUES FROM ('2020-01-01') TO ('2030-01-01')};
is(sql('waiting', 'SELECT count(*), sum(n) FROM s'), '300|45150', 'nothing is spoilt');
sql('waiting', 'REFRESH MATERIALIZED VIEW aion.restored');
is(sql('waiting', 'SELECT count(*), sum(n) FROM parted'), '300|45150', 'it is taken over');

# ---- dropped before it is taken over -----------------------------------------------------------------------------------------

# Its tables, and those of its views, go with it, in whatever way the rows came that tell of them.
my $parts = q{SELECT count(*) FROM pg_class WHERE relnamespace IN ('aion_data'::regnamespace, 'aion_results'::regnamespace) AND relkind IN ('r', 'v')};
$node->command_ok([ 'pg_dump', '--inserts', '-f', "$dir/inserts.sql", '-d', $node->connstr('origin') ], 'dump as INSERT');
my $inserts = slurp_file("$dir/inserts.sql");
$inserts =~ s/^REFRESH MATERIALIZED VIEW aion\.restored;$//m or die;
append_to_file("$dir/inserts_unfinished.sql", $inserts);
my %unfinished = (
	copy => sub { restore($_[0], '-L', "$dir/list.txt") },
	parallel => sub { restore($_[0], '-L', "$dir/list.txt", '-j', 3) },
	inserts => sub { system_log('psql', '-Xq', '-d', $node->connstr($_[0]), '-f', "$dir/inserts_unfinished.sql") });
for my $way (sort keys %unfinished)
{
	for my $statement ('DROP FOREIGN TABLE s CASCADE', 'DROP OWNED BY alice CASCADE')
	{
		my $db = "drop_$way";
		database($db);
		$unfinished{$way}->($db);
		fails_like($db, q{INSERT INTO s VALUES (1, 'good', '2024-03-01 14:00')}, qr/being restored/, "$way: not taken over");
		is(sql($db, $parts), 6, "$way: all parts are there");
		fails_like($db, 'DROP FOREIGN TABLE s', qr/view v depends on foreign table s/, "$way: views hold it");
		sql($db, 'DROP VIEW gone');
		is(sql($db, $parts), 4, "$way: a view takes its parts with it");
		sql($db, $statement);
		is(sql($db, $parts), 0, "$way: $statement leaves nothing");
		sql($db, 'REFRESH MATERIALIZED VIEW aion.restored');
		is(sql($db, 'SELECT count(*) FROM aion.stream_def'), 0, "$way: nothing to take over");
		sql('postgres', "DROP DATABASE $db");
	}
}

# ---- restored twice ----------------------------------------------------------------------------------------------------------

# data twice, then the rest: not taken over, but it can be dropped and restored again
for my $way ('copy', 'inserts')
{
	my $db = "twice_$way";
	database($db);
	$unfinished{$way}->($db);
	if ($way eq 'copy') { restore($db, '--section=data', '-L', "$dir/list.txt") }
	else { $unfinished{$way}->($db) }
	fails_like($db, 'REFRESH MATERIALIZED VIEW aion.restored', qr/data of stream "s" was restored more than once/, "$way: twice before it is taken over");
	fails_like($db, q{\set VERBOSITY sqlstate
		REFRESH MATERIALIZED VIEW aion.restored}, qr/ERROR:  23505/, "$way: SQLSTATE");
	sql($db, 'DROP FOREIGN TABLE s CASCADE');
	is(sql($db, $parts), 0, "$way: it can be dropped");
}
# where a stream is in use, its origin among them
for my $db ('origin', 'waiting')
{
	my $count = sql($db, 'SELECT count(*), sum(n) FROM s');
	my $results = sql($db, 'SELECT count(*) FROM v');
	restore($db, '--section=data');
	system_log('psql', '-Xq', '-d', $node->connstr($db), '-f', "$dir/inserts.sql");
	is(sql($db, 'SELECT count(*), sum(n) FROM s'), $count, "$db: no event is doubled");
	is(sql($db, 'SELECT count(*) FROM v'), $results, "$db: no result is doubled");
	sql($db, 'SELECT aion.sync($$s$$)');
	is(sql($db, 'SELECT events FROM aion.streams'), sql($db, 'SELECT count(*) + 1 FROM s'), "$db: nor is it counted");
	for my $table (split /\n/, sql($db, q{SELECT unnest(ARRAY[journal, blocks]) FROM aion.stream_def}))
	{
		fails_like($db, "COPY $table FROM stdin", qr/cannot insert into "\w+", a table of stream "s"/, "$db: COPY $table");
		fails_like($db, "INSERT INTO $table SELECT * FROM $table", qr/cannot insert into "\w+", a table of stream "s"/, "$db: INSERT INTO $table");
	}
}

# other materialized views are filled before, in the same transaction if the restore is one
database('single');
$node->command_ok([ 'pg_restore', '--single-transaction', '-d', $node->connstr('single'), "$dir/origin.dump" ], 'restore in one transaction');
is(sql('single', 'SELECT n FROM a.m'), 300, 'a materialized view that was filled first');

# a definition is looked for among streams that are known, while another one is just being taken over and gets events
database('busy');
restore('busy', '-L', "$dir/list.txt");
my $session = Session->new($node, 'busy');
ok($session->query($_)->{ok}, "take-over: $_") for 'BEGIN', 'REFRESH MATERIALIZED VIEW aion.restored', 'ROLLBACK', 'BEGIN', 'REFRESH MATERIALIZED VIEW aion.restored',
	q{INSERT INTO s VALUES (301, 'good', '2024-03-01 14:00')};
sql('busy', q{CREATE FOREIGN TABLE another (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at'); INSERT INTO another VALUES ('2024-03-01 08:00')});
sql('busy', q{SELECT aion.sync('another')});
ok($session->query('COMMIT')->{ok}, 'take-over: COMMIT');
is(sql('busy', 'SELECT count(*) FROM s'), 301, 'an event that was inserted with it is there');
$session->close;

# rows of windows may come before the view's row in aion.view_def
database('early', q{
	CREATE EXTENSION aion;
	CREATE VIEW w AS SELECT 1 AS n;
	INSERT INTO aion.window_state (view, window_start, events, allowed_lateness) VALUES ('w', '2024-03-01 08:00', 1, 0);
	INSERT INTO aion.window_firing (view, window_start) VALUES ('w', '2024-03-01 08:00');
	CREATE FOREIGN TABLE another (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
	INSERT INTO another VALUES ('2024-03-01 08:00');
	SELECT aion.sync('another')});
my $rows = 'SELECT (SELECT count(*) FROM aion.window_state), (SELECT count(*) FROM aion.window_firing)';
is(sql('early', $rows), '1|1', 'they are not taken for those of a view that was dropped');
sql('early', q{DROP VIEW w; CREATE FOREIGN TABLE more (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at'); INSERT INTO more VALUES ('2024-03-01 08:00'); SELECT aion.sync('more')});
ok($node->poll_query_until('early', $rows, '0|0'), 'which go');

# ids of set-aside events go on behind those that are there
database('ids', q{
	CREATE EXTENSION aion;
	CREATE FOREIGN TABLE own (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', allowed_lateness '0');
	SELECT aion.create_view('strict', 'SELECT count(*) AS n FROM own', aion.tumbling('10 min'));
	SELECT aion.create_view('strict2', 'SELECT count(*) AS n FROM own', aion.tumbling('10 min'));
	SELECT aion.create_view('loose', 'SELECT count(*) AS n FROM own', aion.tumbling('10 min'), allowed_lateness => '10 d'::text);
	INSERT INTO own VALUES ('2024-03-01 08:00');
	SELECT aion.sync('own');
	INSERT INTO own SELECT '2024-03-01 07:00'::timestamptz + g * interval '1 s' FROM generate_series(1, 3) g;
	SELECT aion.sync('own');
	DELETE FROM aion.set_aside WHERE id = 1});
is(sql('ids', 'SELECT count(*), bool_and(partial) FROM aion.set_aside'), '2|t', 'there are set-aside events');
restore('ids');
is(sql('ids', q{SELECT count(*) FROM aion.set_aside WHERE stream = 's'::regclass}), 1, 'and a restored one');
is(sql('ids', q{SELECT nextval('aion.set_aside_id_seq') > max(id) FROM aion.set_aside}), 't', 'a new one has an id of its own');

# OIDs of dropped views may be given to others
my $missed = q{SELECT count(*), string_agg(DISTINCT array_to_string(missed_views, ','), ' ') FROM aion.set_aside WHERE stream = 'own'::regclass};
is(sql('ids', $missed), '2|strict,strict2', 'events say which views missed them');
sql('ids', 'DROP VIEW strict');
ok($node->poll_query_until('ids', $missed, '2|strict2'), 'a dropped view is not named any more');
is(sql('ids', q{SELECT DISTINCT array_length(missed_first, 1), array_length(missed_last, 1) FROM aion.set_aside WHERE stream = 'own'::regclass}), '1|1', 'nor are its windows');
sql('ids', 'DROP VIEW strict2');
ok($node->poll_query_until('ids', $missed, '0|'), 'events that nothing missed are not set aside');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
