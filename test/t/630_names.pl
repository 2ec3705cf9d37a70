# Names: capitals, dots, quotes, per cents, backslashes, key words, 63 bytes, letters of several bytes; and names that
# change. Whatever they are, events are found, results are exact, and messages show them whole.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('names', conf => "aion.late_interval = 0\nlog_error_verbosity = terse");
my $session = Session->new($node);
my $UE = "\xc3\xbc";

sub sql { return $session->must($_[0]) }
sub ident { my ($name) = @_; return '"' . $name =~ s/"/""/gr . '"' }
sub literal { my ($text) = @_; return "'" . $text =~ s/'/''/gr . "'" }

# Schema, stream, its columns for a key and the event time, view, column of its query.
my %NAMES = (
	'capitals and blanks' => [ 'My Schema', 'My Stream', 'Key', 'At Time', 'My View', ' Sum ' ],
	'dots' => [ 'a.b', 'c.d', 'e.f', 'g.h', 'i.j', 'k.l' ],
	'the one name that has the hidden key' => [ 'aion_results2', 'aion_row', 'aion_row_1', 'aion_row_2', 'window_start', 'aion_row' ],
	'per cents, backslashes, quotes' => [ '%s "x" \\n', "100% 'q'", '%n%n', 'back\\slash', '%d%s\\', "it's" ],
	'key words' => [ 'select', 'table', 'group', 'order', 'from', 'where' ],
	'63 bytes' => [ $UE x 31 . 's', $UE x 31 . 't', 'k' x 63, $UE x 31 . 'a', $UE x 31 . 'v', $UE x 31 . 'r' ],
	'63 quotes' => [ '"' x 63, '"' x 62 . 't', '"' x 62 . 'k', '"' x 62 . 'a', '"' x 63, '"' x 62 . 'r' ],
	'letters and quotes' => [ qq{$UE"} x 21, qq{$UE"} x 20 . 'st', qq{$UE"} x 20 . 'ke', qq{$UE"} x 20 . 'at', qq{$UE"} x 20 . 'vi', qq{$UE"} x 20 . 're' ]);

my $serial = 0;

for my $kind (sort keys %NAMES)
{
	my ($schema, $stream, $key, $time, $view, $column) = @{ $NAMES{$kind} };
	my $s = ident($schema) . '.' . ident($stream);
	my $v = ident($schema) . '.' . ident($view);
	my $table = 'public.feeder_' . ++$serial;
	my $next = 1;

	# n events of one minute each, to the stream and to an ordinary table
	my $events = sub {
		my ($n, $from) = @_;
		my $first = $next;
		$next += $n;
		sql("INSERT INTO $_ SELECT i % 5, i, timestamptz '$from' + (i - $first) * interval '1 min' FROM generate_series($first, $next - 1) i") for $s, 'public.p';
	};
	my $exact = sub {
		my ($name) = @_;
		local $Test::Builder::Level = $Test::Builder::Level + 1;
		oracle_ok($node, $v, "SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', k, sum(v) FROM public.p GROUP BY 1, 2, 3", "$kind: $name");
	};

	sql('CREATE TABLE public.p (k int, v int, at timestamptz)');
	sql('CREATE SCHEMA ' . ident($schema));
	sql("CREATE FOREIGN TABLE $s (" . ident($key) . ' int, v int, ' . ident($time) . " timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time " . literal($time) . ", watermark 'manual', allowed_lateness '1 day', bucket_width '1 hour')");
	my $made = sql('SELECT aion.create_view(' . literal($v) . ', ' . literal('SELECT ' . ident($key) . ' AS aion_k, sum(v) AS ' . ident($column) . " FROM $s GROUP BY 1")
		  . ", aion.tumbling('1 hour'), allowed_lateness => '5 hours')");
	is(sql('SELECT ' . literal($made) . '::regclass = ' . literal($v) . '::regclass'), 't', "$kind: created");
	is($session->query("SELECT aion.create_view(" . literal($v) . ", 'SELECT 1 AS n FROM pg_class', aion.tumbling('1 hour'))")->{out} =~ /ERROR:  relation "(.*)" already exists/ ? $1 : '',
		$view, "$kind: a message names it");
	$events->(240, '2024-03-01 10:00');
	sql('SELECT aion.advance_watermark(' . literal($s) . ", '2024-03-01 14:00')");
	sql('SELECT aion.sync(' . literal($s) . ')');
	$exact->('on time');
	$events->(30, '2024-03-01 10:05');
	sql('SELECT aion.sync(' . literal($s) . ', late => true)');
	$exact->('late');
	sql('SELECT aion.destage(' . literal($s) . ')');
	sql('SELECT aion.stage(' . literal($s) . ", '2024-03-01 10:00', '2024-03-01 12:00')");
	sql('SELECT aion.pause_view(' . literal($v) . ')');
	sql('SELECT aion.resume_view(' . literal($v) . ')');
	sql('SELECT aion.alter_view(' . literal($v) . ", early => '1 day')");
	$events->(30, '2024-03-01 11:05');
	sql('SELECT aion.refresh(' . literal($v) . ')');
	sql('SELECT aion.refresh(' . literal($v) . ", '2024-03-01 10:00')");
	$exact->('from blocks, by refresh');

	# a table that feeds it
	sql("CREATE TABLE $table (" . ident($key) . ' int, v int, ' . ident($time) . ' timestamptz)');
	sql("CREATE TRIGGER feed AFTER INSERT ON $table FOR EACH ROW EXECUTE FUNCTION aion.feed(" . literal($s) . ')');
	sql("INSERT INTO $_ VALUES (3, 9, '2024-03-01 13:30')") for $table, 'public.p';
	sql('SELECT aion.sync(' . literal($s) . ', late => true)');
	$exact->('fed');

	# what inspection says can be used as it is
	is(sql("SELECT stream = " . literal($s) . '::regclass FROM aion.streams'), 't', "$kind: aion.streams");
	is(sql('SELECT count(*) > 0 FROM aion.buckets WHERE stream = ' . literal($s) . '::regclass'), 't', "$kind: aion.buckets");
	is(sql('SELECT count(*) FROM aion.windows WHERE view::text::regclass = ' . literal($v) . '::regclass'), '4', "$kind: aion.windows");
	my ($results, $definition) = split /\n/, sql('SELECT results FROM aion.views') . "\n" . sql(q{SELECT replace(definition, E'\n', ' ') FROM aion.views});
	is(sql("SELECT count(*) FROM $results"), sql("SELECT count(*) FROM $v"), "$kind: the name of the table of results");
	$definition =~ s/;\s*$//;
	is(sql("SELECT count(*) FROM ($definition) d"), '5', "$kind: the text of the definition");

	# failures name the view whole, to those who wait and in the server's log
	my $failing = substr($view, 0, -1) . '2';
	my $f = ident($schema) . '.' . ident($failing);
	sql('SELECT aion.create_view(' . literal($f) . ', ' . literal("SELECT max(100 / (v - 1)) AS n FROM $s") . ", aion.tumbling('1 hour'))");
	my $warning = $session->query('SELECT aion.refresh(' . literal($f) . ')')->{out};
	is($warning =~ /^DETAIL:  For example: view (.*), window starting at 2024-03-01 10:00:00\+00$/m ? sql('SELECT ' . literal($1) . "::regclass = " . literal($f) . '::regclass') : $warning, 't', "$kind: a warning names the view");
	ok(index(slurp_file($node->logfile), qq{window of continuous view "$failing" that starts at 2024-03-01 10:00:00+00 could not be computed: division by zero}) >= 0, "$kind: and so does the log");
	sql('SELECT aion.drop_view(' . literal($f) . ')');
	like($session->query('ALTER FOREIGN TABLE ' . $s . ' DROP COLUMN ' . ident($time))->{out}, qr/\Qcannot drop column "$time" of stream "$stream" because it is its event time\E/, "$kind: an error about the column");

	# all of it gets new names, and goes elsewhere
	my $digit = 3;
	my ($new_schema, $new_stream, $new_key, $new_time, $new_view) = map { substr($_, 0, -1) . $digit++ } $schema, $stream, $key, $time, $view;
	my ($s2, $v2) = map { ident($new_schema) . '.' . ident($_) } $new_stream, $new_view;
	my $moved = ident($new_schema) . '.' . ident($stream);
	sql($_)
	  for "ALTER FOREIGN TABLE $s RENAME COLUMN " . ident($time) . ' TO ' . ident($new_time), "ALTER FOREIGN TABLE $s RENAME COLUMN " . ident($key) . ' TO ' . ident($new_key),
	  "ALTER FOREIGN TABLE $s RENAME TO " . ident($new_stream), "ALTER VIEW $v RENAME TO " . ident($new_view), 'ALTER SCHEMA ' . ident($schema) . ' RENAME TO ' . ident($new_schema),
	  "ALTER TABLE $results RENAME TO " . ident($stream), 'ALTER TABLE aion_results.' . ident($stream) . ' SET SCHEMA ' . ident($new_schema),
	  "ALTER TABLE $moved RENAME COLUMN window_start TO " . ident(substr($column, 0, -1) . '4'), "ALTER TABLE $moved RENAME COLUMN window_end TO " . ident(substr($column, 0, -1) . '5'),
	  "ALTER TABLE $moved RENAME COLUMN " . ident($column) . ' TO window_start';
	($s, $v) = ($s2, $v2);
	like($session->query("INSERT INTO $table VALUES (3, 9, '2024-03-01 13:30')")->{out}, qr/ERROR:  .*does not exist/, "$kind: the trigger names a stream that is not there any more");
	$events->(90, '2024-03-01 12:00');
	sql('SELECT aion.sync(' . literal($s) . ', late => true)');
	$exact->('with new names');
	sql('CREATE SCHEMA other');
	sql("ALTER FOREIGN TABLE $s SET SCHEMA other");
	sql("ALTER VIEW $v SET SCHEMA other");
	($s, $v) = map { 'other.' . ident($_) } $new_stream, $new_view;
	sql('SELECT aion.destage(' . literal($s) . ')');
	$events->(90, '2024-03-01 12:30');
	sql('SELECT aion.sync(' . literal($s) . ', late => true)');
	sql('SELECT aion.refresh(' . literal($v) . ", '2024-03-01 12:00')");
	$exact->('in another schema');
	is(sql('SELECT streams[1]::text || view::text FROM aion.views') eq sql('SELECT ' . literal($s) . '::regclass::text || ' . literal($v) . '::regclass::text') ? 't' : 'f', 't', "$kind: aion.views shows the new names");

	# too late, and taken in all the same
	sql('SELECT aion.advance_watermark(' . literal($s) . ", '2024-03-01 20:00')");
	sql('SELECT aion.sync(' . literal($s) . ')');
	sql("INSERT INTO $s VALUES (4, 7, '2024-03-01 12:15')");
	sql('SELECT aion.sync(' . literal($s) . ')');
	is(sql(q{SELECT (windows->0->>'view')::regclass = } . literal($v) . '::regclass, event->>' . literal($new_key) . ', event->>' . literal($new_time) . ' FROM aion.expired'),
		't|4|2024-03-01T12:15:00+00:00', "$kind: aion.expired");
	sql('SELECT aion.readmit(id) FROM aion.expired');
	sql("INSERT INTO public.p VALUES (4, 7, '2024-03-01 12:15')");
	$exact->('readmitted');

	# the text of a dump makes the same of them
	my $dump = $node->data_dir . "/../dump_$serial.sql";
	$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump, '-Z', '0' ], "$kind: pg_dump");
	sql('CREATE DATABASE restored');
	my ($code, $out, $error) = $node->psql('restored', slurp_file($dump), on_error_die => 0);
	is($error, '', "$kind: the dump restores");
	is($node->safe_psql('restored', "SELECT count(*), sum(aion_k) FROM $v"), sql("SELECT count(*), sum(aion_k) FROM $v"), "$kind: and holds the results");
	is($node->safe_psql('restored', 'SELECT view::text || results::text || streams::text FROM aion.views'), sql('SELECT view::text || results::text || streams::text FROM aion.views'), "$kind: under the same names");
	sql('DROP DATABASE restored');

	sql('SELECT aion.alter_view(' . literal($v) . ", retain => '0')");
	sql('SELECT aion.advance_watermark(' . literal($s) . ", '2024-03-01 20:01')");
	wait_until($node, q{SELECT results_removed_through >= '2024-03-01 14:00' FROM aion.views}, "$kind: results are removed");
	is(sql("SELECT count(*) FROM $v"), '0', "$kind: all");

	sql('SELECT aion.drop_view(' . literal($v) . ')');
	sql("DROP FOREIGN TABLE $s");
	sql('DROP SCHEMA ' . ident($new_schema) . ', other CASCADE');
	sql("DROP TABLE public.p, $table");
	is(sql(q{SELECT (SELECT count(*) FROM aion.view_def), (SELECT count(*) FROM aion.stream_def), (SELECT count(*) FROM pg_class WHERE relnamespace IN ('aion_data'::regnamespace, 'aion_results'::regnamespace))}),
		'0|0|0', "$kind: nothing is left");
}

# ---- one name, twice --------------------------------------------------------------------------------------------------------

for my $schema ('one', 'two')
{
	sql("CREATE SCHEMA $schema");
	sql("CREATE FOREIGN TABLE $schema.s (v int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual')");
	sql("SELECT aion.create_view('$schema.v', 'SELECT sum(v) AS n FROM $schema.s', aion.tumbling('1 hour'))");
}
sql(q{INSERT INTO one.s VALUES (1, '2024-03-01 10:00')});
sql(q{INSERT INTO two.s VALUES (2, '2024-03-01 10:00')});
sql("SELECT aion.refresh('$_.v')") for 'one', 'two';
is(sql('SELECT (SELECT n FROM one.v), (SELECT n FROM two.v)'), '1|2', 'the same names in two schemas');
# names change places while the executors know both
sql(q{BEGIN; ALTER TABLE aion_results.v RENAME TO x; ALTER TABLE aion_results.v_1 RENAME TO v; ALTER TABLE aion_results.x RENAME TO v_1;
	ALTER VIEW aion_results.def_v RENAME TO x; ALTER VIEW aion_results.def_v_1 RENAME TO def_v; ALTER VIEW aion_results.x RENAME TO def_v_1;
	ALTER SCHEMA one RENAME TO x; ALTER SCHEMA two RENAME TO one; ALTER SCHEMA x RENAME TO two; COMMIT});
sql(q{INSERT INTO one.s VALUES (20, '2024-03-01 10:00')});
sql(q{INSERT INTO two.s VALUES (10, '2024-03-01 10:00')});
sql("SELECT aion.refresh('$_.v')") for 'one', 'two';
is(sql('SELECT (SELECT n FROM one.v), (SELECT n FROM two.v)'), '22|11', 'and after they changed places');
like($session->query(q{SELECT aion.create_view('one.v', 'SELECT count(*) AS n FROM one.s', aion.tumbling('1 hour'))})->{out}, qr/relation "v" already exists/, 'a third time it is refused');

# the search_path finds them
is(sql(q{SET search_path = two; SELECT aion.watermark('s'); SELECT aion.refresh('v'); SELECT n FROM v}), "\n\n11", 'unqualified');
is(sql(q{SELECT aion.drop_view('v'); RESET search_path; SELECT view FROM aion.views}), "\none.v", 'dropped where it was found');

$session->close;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|%!|\(null\)/, 'no assertion failed');
done_testing();
