# Events that were set aside and are applied after all (aion.readmit), and results that are not retained any longer.
use strict;
use warnings;

use Aion;
use Oracle qw(COLUMNS DEFAULT_ORIGIN batch_query create_view_sql);
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;

my $node = new_node('readmit', conf => "aion.late_interval = '10ms'\nlog_statement = none");
my $session = Session->new($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# SQLSTATE and the message, detail and hint of a statement that fails; of one that succeeds, its warnings.
sub error_of
{
	my ($statement, $user) = @_;
	my $set = $user ? "SET SESSION AUTHORIZATION $user;" : '';
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$set$statement");
	return $err;
}

my $MINUTE = 60_000_000;
my $QUERY = 'SELECT k, count(*) AS n, sum(v) AS s, array_agg(id ORDER BY id) AS ids FROM {S} e GROUP BY k';

sub view
{
	my ($name, $size, $slide, $lateness) = @_;
	return { name => $name, query => $QUERY, size => $size, slide => $slide, origin => DEFAULT_ORIGIN, allowed_lateness => "'$lateness'" };
}

# The view equals the batch query over the table, which holds what is to count.
sub exact
{
	my ($view, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(compare($session, "SELECT * FROM $view->{name}", batch_query($view, $table)), '', $name);
}

sub make_stream
{
	my ($name, $options) = @_;
	sql("CREATE FOREIGN TABLE $name (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 min', watermark_interval '5 ms', $options)");
	sql("CREATE TABLE p_$name (" . COLUMNS . ')');
	return;
}

# Events into stream and table.
sub events
{
	my ($stream, $select) = @_;
	sql("WITH e AS (INSERT INTO p_$stream $select RETURNING *) INSERT INTO $stream TABLE e");
	return;
}

sub ids { return sql("SELECT string_agg(id::text, ', ' ORDER BY id) FROM aion.expired WHERE stream = '$_[0]'::regclass" . ($_[1] ? " AND $_[1]" : '')) }
sub counters { return sql("SELECT events, late_events, expired_events, watermark, event_watermark FROM aion.streams WHERE stream = '$_[0]'::regclass") }
sub firings { return sql("SELECT on_time_firings, final_firings, late_firings FROM aion.views WHERE view = '$_[0]'::regclass") }

# ---- one that was too late for everything -------------------------------------------------------------------------------

my @views = (view('s1', $MINUTE, $MINUTE, '5 min'), view('s2', 3 * $MINUTE, $MINUTE, '5 min'), view('s3', 90_000_000, 70_000_000, '2 min'));
make_stream('s', "allowed_lateness '1 day'");
sql(create_view_sql($_, 's')) for @views;
events('s', q{SELECT g, g % 3, g, 'n', timestamptz '2024-03-01 10:00+00' + g * interval '5 s' FROM generate_series(1, 120) g});
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 11:00+00')});
sql(q{SELECT aion.sync('s')});
is(sql(q{SELECT count(*) FROM aion.windows WHERE state <> 'final'}), '0', 'all windows are final');
# in a window that holds events, and in one that holds none
events('s', q{SELECT 1000 + g, 1, g, 'late', timestamptz '2024-03-01 10:03:30+00' + g * interval '17 min' FROM generate_series(0, 1) g});
sql(q{SELECT aion.sync('s')});
is(sql(q{SELECT count(*), bool_or(partial) FROM aion.expired}), '2|f', 'events that come now are set aside');
is(sql(q{SELECT id, event->>'id', lateness, windows FROM aion.expired ORDER BY id LIMIT 1}),
	'1|1000|00:56:30|[{"view": "s1", "window_start": "2024-03-01T10:03:00+00:00"}, {"view": "s2", "window_start": "2024-03-01T10:01:00+00:00"}, '
	  . '{"view": "s2", "window_start": "2024-03-01T10:02:00+00:00"}, {"view": "s2", "window_start": "2024-03-01T10:03:00+00:00"}, '
	  . '{"view": "s3", "window_start": "2024-03-01T10:03:00+00:00"}]', 'aion.expired tells which, how late and for what') or diag(sql("SELECT * FROM s3"));
my $counters = counters('s');
my @before = map { firings($_->{name}) } @views;
sql('SELECT aion.readmit(' . ids('s') . ')');
exact($_, 'p_s', "$_->{name} is as if they had come in time") for @views;
is(sql('SELECT count(*), count(DISTINCT id) FROM s'), '122|122', 'the stream holds them, once');
is(ids('s'), '', 'they are not set aside any more');
is(counters('s'), $counters, 'neither counters nor watermark have changed');
is(sql(q{SELECT count(*) FROM aion.windows WHERE state <> 'final'}), '0', 'all windows are final again');
is(firings('s1'), '12|12|1', 's1: one window executed again, one for the first time');
like(error_of('SELECT aion.readmit(1)'), qr/42704.*there is no set-aside event with id 1/s, 'what was readmitted can not be again');
sql(q{SELECT aion.destage('s')});
is(sql('SELECT count(*), count(DISTINCT id) FROM s'), '122|122', 'destaging keeps them');

# the windows are as closed as before
my $expect = sql(q{INSERT INTO s VALUES (2000, 1, 1, 'x', '2024-03-01 10:03:31+00') RETURNING id});
sql(q{SELECT aion.sync('s', late => true)});
is(sql(q{SELECT count(*) FROM aion.expired WHERE stream = 's'::regclass}), '1', 'what comes later is set aside as ever');
exact($_, 'p_s', "$_->{name} has not changed") for @views;

# while a window is open again, what arrives is too late as well
arm_fault($node, 'executor-taken', 'wait');
$session->send('SELECT aion.readmit(' . ids('s') . ')');
wait_for_fault($node, 'executor-taken');
sql(q{INSERT INTO s VALUES (2001, 1, 1, 'x', '2024-03-01 10:03:32+00')});
wait_until($node, q{SELECT count(*) = 1 FROM aion.expired WHERE event->>'id' = '2001'}, 'what arrives while a window is open again has expired');
sql(q{INSERT INTO p_s VALUES (2000, 1, 1, 'x', '2024-03-01 10:03:31+00')});
release_fault($node, 'executor-taken');
ok($session->result->{ok}, 'readmit returns');
exact($_, 'p_s', "$_->{name} holds what was readmitted alone") for @views;

# ---- refusals -----------------------------------------------------------------------------------------------------------

like(error_of('SELECT aion.readmit(4, NULL)'), qr/22004.*argument "ids" must not be NULL/s, 'NULL is refused');
is(error_of('SELECT aion.readmit(VARIADIC ARRAY[]::bigint[])'), '', 'no id at all is fine');
like(error_of('SELECT aion.readmit(' . ids('s') . ', 999)'), qr/42704.*there is no set-aside event with id 999/s, 'an unknown id is refused, and the others with it');
is(sql(q{SELECT count(*) FROM aion.expired WHERE stream = 's'::regclass}), '1', 'all or none');
like(error_of(q{BEGIN; INSERT INTO s VALUES (1, 1, 1, 'x', '2024-03-02 10:00+00'); SELECT aion.readmit(} . ids('s') . ')'), qr/25001.*has written to a stream/s, 'not after writing to a stream');

make_stream('g', "allowed_lateness '2 min'");
sql(create_view_sql(view('g1', $MINUTE, $MINUTE, '2 min'), 'g'));
events('g', q{SELECT g, g % 3, g, 'n', timestamptz '2024-03-01 10:00+00' + g * interval '5 s' FROM generate_series(1, 24) g});
sql(q{SELECT aion.advance_watermark('g', '2024-03-01 11:00+00'); SELECT aion.sync('g')});
wait_until($node, 'SELECT count(*) = 0 FROM g', 'events are purged');
sql(q{INSERT INTO g VALUES (100, 1, 1, 'x', '2024-03-01 10:00:30+00'), (101, 1, 1, 'x', '2024-03-01 10:30+00')});
sql(q{SELECT aion.sync('g')});
like(error_of('SELECT aion.readmit(' . ids('g') . ')'), qr/55000.*set-aside event \d+ cannot be readmitted.*DETAIL: .*window of view public.g1 that starts at 2024-03-01 10:00:00\+00 lacks events that were purged.*HINT/s, 'events of the window are purged');
like(error_of('SELECT aion.readmit(' . ids('s') . ', ' . ids('g') . ')'), qr/22023.*one stream at a time/s, 'several streams are refused');
wait_until($node, q{SELECT count(*) = 0 FROM aion.windows WHERE view = 'g1'::regclass}, 'rows of windows are gone');
like(error_of('SELECT aion.readmit(' . ids('g', "event->>'id' = '100'") . ')'), qr/55000.*lacks events that were purged/s, 'and so are their rows');
is(error_of('SELECT aion.readmit(' . ids('g', "event->>'id' = '101'") . ')'), '', 'a window after all that was purged held nothing: it can be computed');
is(sql(q{SELECT n, ids FROM g1 WHERE window_start = '2024-03-01 10:30+00'}), '1|{101}', 'and is');

# a view that was made afterwards
sql(create_view_sql(view('s4', $MINUTE, $MINUTE, '1 day'), 's'));
sql(q{SELECT aion.sync('s')});
like(error_of('SELECT aion.readmit(' . ids('s') . ')'), qr/55000.*view public.s4 that starts at 2024-03-01 10:03:00\+00 is incomplete \(events set aside\)/s, 'a window is incomplete');
sql(q{SELECT aion.drop_view('s4')});

# privileges
sql(q{CREATE ROLE reader; CREATE ROLE stranger; GRANT SELECT ON s TO reader});
my $one = ids('s');
like(error_of("SELECT aion.readmit($one)", 'reader'), qr/42501.*must be owner of foreign table s/s, 'who may read the stream may not readmit');
like(error_of("SELECT aion.readmit($one)", 'stranger'), qr/42704.*there is no set-aside event with id $one/s, 'who may not is not told that there is something');
sql('ALTER FOREIGN TABLE s OWNER TO reader');
is(error_of("SELECT aion.readmit($one)", 'reader'), '', 'the owner may');
sql('INSERT INTO p_s VALUES (2001, 1, 1, $$x$$, $$2024-03-01 10:03:32+00$$)');
exact($_, 'p_s', "$_->{name} is exact") for @views;
sql('ALTER FOREIGN TABLE s OWNER TO ' . sql('SELECT current_user'));

# ---- two calls with the same id -----------------------------------------------------------------------------------------

events('s', q{SELECT 3000 + g, 1, g, 'late', timestamptz '2024-03-01 10:05:30+00' FROM generate_series(1, 2) g});
sql(q{SELECT aion.sync('s')});
my ($a, $b) = split /, /, ids('s');
my $other = Session->new($node);
arm_fault($node, 'readmit-before-commit', 'wait');
$session->send("SELECT aion.readmit($a, $b)");
wait_for_fault($node, 'readmit-before-commit');
$other->send("SELECT aion.readmit($b)");
wait_until($node, q{SELECT count(*) = 2 FROM pg_stat_activity WHERE query LIKE 'SELECT aion.readmit(%' AND wait_event = 'Extension'}, 'two calls wait');
release_fault($node, 'readmit-before-commit');
ok($session->result->{ok}, 'the first succeeds');
like($other->result->{out}, qr/there is no set-aside event with id $b.*It has been readmitted meanwhile/s, 'the second is told that it is too late');
exact($_, 'p_s', "$_->{name}: the events count once") for @views;

# ---- partly expired -----------------------------------------------------------------------------------------------------

make_stream('h', "allowed_lateness '1 day'");
my @partly = (view('h1', $MINUTE, $MINUTE, '0'), view('h2', 10 * $MINUTE, 10 * $MINUTE, '1 day'), view('h3', 4 * $MINUTE, $MINUTE, '1 min'));
sql(create_view_sql($_, 'h')) for @partly;
sql("CREATE TABLE fates (id bigint, view text, start timestamptz)");
events('h', q{SELECT g, g % 3, g, 'n', timestamptz '2024-03-01 10:00+00' + g * interval '5 s' FROM generate_series(1, 120) g});
sql(q{SELECT aion.advance_watermark('h', '2024-03-01 10:08+00'); SELECT aion.sync('h')});
sub show_open_windows { sql(join '; ', map { "SELECT aion.refresh('$_->{name}')" } @partly); return }
show_open_windows();
# h1: final up to 10:07; h3: windows that start at 10:03 or before
events('h', q{SELECT 1000 + g, 1, g, 'late', timestamptz '2024-03-01 10:04:30+00' FROM generate_series(1, 2) g});
sql(q{SELECT aion.sync('h', late => true)});
show_open_windows();
is(sql(q{SELECT DISTINCT partial, windows FROM aion.expired WHERE stream = 'h'::regclass}),
	't|[{"view": "h1", "window_start": "2024-03-01T10:04:00+00:00"}, {"view": "h3", "window_start": "2024-03-01T10:01:00+00:00"}, '
	  . '{"view": "h3", "window_start": "2024-03-01T10:02:00+00:00"}, {"view": "h3", "window_start": "2024-03-01T10:03:00+00:00"}]', 'copies name the windows that missed them');
my ($h1, $h2) = split /, /, ids('h');
like(error_of("SELECT aion.readmit($h1)"), qr/55000.*set-aside event $h1 cannot be readmitted.*view public.h3 that starts at 2024-03-01 10:01:00\+00 has also missed 1 other event.*HINT: .*in one call/s, 'one of two that a window missed and that are stored: refused');
$counters = counters('h');
sql("SELECT aion.readmit($h1, $h2, $h1)");
exact($_, 'p_h', "$_->{name} is exact after its copies were readmitted") for @partly;
is(counters('h'), $counters, 'counters have not changed');
is(sql('SELECT count(*), count(DISTINCT id) FROM h'), '122|122', 'the stream holds them once');
is(sql(q{SELECT sum(events) FROM aion.windows WHERE view = 'h1'::regclass}), '122', 'windows count them once');
# whole ones and copies together
events('h', q{SELECT 2000 + g, 2, g, 'late', timestamptz '2024-03-01 10:00:30+00' + g * interval '1 min' FROM generate_series(1, 8) g});
show_open_windows();
sql("SELECT aion.readmit(VARIADIC (SELECT array_agg(id) FROM aion.expired WHERE stream = 'h'::regclass))");
exact($_, 'p_h', "$_->{name} is exact after all copies were readmitted at once") for @partly;

# a paused view catches up; one whose query fails says so
sql(q{SELECT aion.pause_view('h1')});
events('h', q{VALUES (3000, 2, 3, 'late', timestamptz '2024-03-01 10:01:30+00')});
sql(q{SELECT aion.refresh('h2')});
like(error_of('SELECT aion.readmit(' . ids('h') . ')'), qr/WARNING.*1 view is paused/s, 'a paused view gives a warning');
is(sql(q{SELECT state FROM aion.windows WHERE view = 'h1'::regclass AND window_start = '2024-03-01 10:01+00'}), 'late', 'its window waits');
exact($partly[2], 'p_h', 'the other view has its result');
kill_server($node);
$session->connect;
sql(q{SELECT aion.resume_view('h1')});
sql(q{SELECT aion.sync('h')});
exact($_, 'p_h', "$_->{name} is exact after it was resumed") for @partly;
is(sql(q{SELECT count(*) FROM aion.windows WHERE view = 'h1'::regclass AND state <> 'final' AND window_end <= '2024-03-01 10:08+00'}), '0', 'and its windows are final');

# ---- ahead of the clock -------------------------------------------------------------------------------------------------

sql("CREATE FOREIGN TABLE c (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark_interval '5 ms', idle_timeout 'off')");
sql(create_view_sql(view('c1', $MINUTE, $MINUTE, '1 day'), 'c'));
sql(q{INSERT INTO c VALUES (1, 1, 1, 'now', now()), (2, 1, 1, 'ahead', now() + interval '10 days'); SELECT aion.sync('c')});
my $w = sql(q{SELECT aion.watermark('c')});
is(sql(q{SELECT reason, lateness IS NULL OR lateness < '0' FROM aion.expired WHERE stream = 'c'::regclass}), 'ahead of the clock|t', 'ahead of the clock');
sql('SELECT aion.readmit(' . ids('c') . ')');
is(sql('SELECT array_agg(id ORDER BY id) FROM c'), '{1,2}', 'the owner says so: it is an event');
is(sql(q{SELECT aion.watermark('c')}), $w, 'the watermark has not moved');
is(sql(q{SELECT state, events FROM aion.windows WHERE view = 'c1'::regclass ORDER BY window_start DESC LIMIT 1}), 'open|1', 'its window is open');
sql(q{SELECT aion.refresh('c1')});
is(sql('SELECT count(*) FROM c1'), '2', 'and is computed as any');

# ---- crashes ------------------------------------------------------------------------------------------------------------

make_stream('x', "allowed_lateness '1 day'");
my @crashed = (view('x1', $MINUTE, $MINUTE, '5 min'), view('x2', 3 * $MINUTE, $MINUTE, '5 min'));
sql(create_view_sql($_, 'x')) for @crashed;
events('x', q{SELECT g, g % 3, g, 'n', timestamptz '2024-03-01 10:00+00' + g * interval '5 s' FROM generate_series(1, 120) g});
sql(q{SELECT aion.advance_watermark('x', '2024-03-01 11:00+00'); SELECT aion.sync('x')});
my $id = 10_000;

sub reconnect
{
	my ($from) = @_;
	wait_for_crash($node, $from);
	$session->connect;
	return;
}
for my $point ('readmit-written', 'readmit-before-commit', 'readmit-committed', 'state-loaded', 'executor-taken', 'fire-inserted', 'fire-committed', 'pass-before-commit', 'pass-committed')
{
	for my $action ('crash', 'error')
	{
		events('x', "SELECT $id + g, 1, g, 'late', timestamptz '2024-03-01 10:00:30+00' + g * interval '2 min' FROM generate_series(1, 3) g");
		$id += 10;
		sql(q{SELECT aion.sync('x')});
		my $final = sql(q{SELECT sum(final_firings), sum(on_time_firings) FROM aion.views WHERE view IN ('x1'::regclass, 'x2'::regclass)});
		my $log = -s $node->logfile;
		arm_fault($node, $point, $action);
		my $result = $session->query('SELECT aion.readmit(' . ids('x') . ')');
		wait_for_fault($node, $point);
		reconnect($log) if $action eq 'crash';
		my $left = sql(q{SELECT count(*) FROM aion.expired WHERE stream = 'x'::regclass});
		like($left, qr/^[03]$/, "$action at $point: all or none");
		is($left, '0', "$action at $point: a call that returned has done it") if $result->{ok};
		is($left, '3', "$action at $point: one that was refused has not") if !$result->{ok} && !$result->{lost};
		sql('SELECT aion.readmit(' . ids('x') . ')') if $left;
		# an execution that failed at the point is tried again by this
		sql(q{SELECT aion.refresh('x1'); SELECT aion.refresh('x2'); SELECT aion.sync('x')});
		exact($_, 'p_x', "$action at $point: $_->{name} is exact") for @crashed;
		is(sql('SELECT count(*) - count(DISTINCT id) FROM x'), '0', "$action at $point: no event is doubled");
		is(sql(q{SELECT sum(final_firings), sum(on_time_firings) FROM aion.views WHERE view IN ('x1'::regclass, 'x2'::regclass)}), $final, "$action at $point: windows are final once");
		is(sql(q{SELECT count(*) FROM aion.windows WHERE view IN ('x1'::regclass, 'x2'::regclass) AND (state <> 'final' OR pending_events > 0)}), '0', "$action at $point: and are so again");
		is(sql(q{SELECT events = (SELECT count(*) FROM p_x), expired_events = (SELECT count(*) FROM p_x WHERE id > 10000) FROM aion.streams WHERE stream = 'x'::regclass}), 't|t', "$action at $point: counters");
	}
}
# the scheduler ends while the caller waits: its successor knows what was done
for my $point ('readmit-committed', 'executor-taken')
{
	events('x', "SELECT $id + g, 1, g, 'late', timestamptz '2024-03-01 10:00:30+00' + g * interval '2 min' FROM generate_series(1, 3) g");
	$id += 10;
	sql(q{SELECT aion.sync('x')});
	arm_fault($node, $point, 'wait');
	$session->send('SELECT aion.readmit(' . ids('x') . ')');
	wait_for_fault($node, $point);
	kill_worker($node, 'scheduler', 'TERM');
	release_fault($node, $point) if -e $node->data_dir . "/aion_fault.$point.waiting";
	ok($session->result->{ok}, "scheduler ended at $point: the caller has his answer");
	exact($_, 'p_x', "scheduler ended at $point: $_->{name} is exact") for @crashed;
}

# ---- retain: case R27 ---------------------------------------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE r (key text, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness '2 hours', watermark_interval '5 ms', bucket_width '1 min');
	SELECT aion.create_view('rv', 'SELECT key, count(*) AS n FROM r GROUP BY key', aion.tumbling('1 min'), retain => '2 hours')});
sub minutes
{
	my ($from, $to) = @_;
	sql("INSERT INTO r SELECT 'a', timestamptz '2024-03-01 10:00:30+00' + g * interval '1 min' FROM generate_series($from, $to) g; SELECT aion.sync('r')");
	return;
}
minutes($_ * 50, $_ * 50 + 49) for 0 .. 5;
wait_until($node, 'SELECT count(*) = 120 FROM rv', '120 complete windows are left');
is(sql(q{SELECT min(window_start), max(window_start), bool_and(n = 1) FROM rv}), '2024-03-01 12:59:00+00|2024-03-01 14:58:00+00|t', 'the right ones');
wait_until($node, q{SELECT count(*) = 0 FROM r WHERE at < '2024-03-01 12:58+00'}, 'events of the others are purged');
wait_until($node, q{SELECT count(*) = 0 FROM aion.windows WHERE view = 'rv'::regclass AND window_start < '2024-03-01 12:58+00'}, 'nothing is left of windows');
wait_until($node, q{SELECT results_removed_through = '2024-03-01 12:59+00' FROM aion.views WHERE view = 'rv'::regclass}, 'how far it came is kept');
$node->restart;
kill_server($node);
$session->connect;
is(sql(q{SELECT count(*), sum(n) FROM rv}), '120|120', 'restarts remove nothing');
minutes($_ * 100, $_ * 100 + 99) for 3 .. 49;
wait_until($node, 'SELECT count(*) = 120 FROM rv', 'and 120 after 5000 minutes');
is(sql(q{SELECT max(window_start) - min(window_start) FROM rv}), '01:59:00', 'the latest ones');
# the sizes are in soak/retention.pl
for my $table ('aion.window_state', 'aion.window_firing', 'aion_results.rv')
{
	wait_until($node, "SELECT pg_relation_size('$table', 'fsm') > 0", "room in $table is made without waiting for autovacuum");
}

# whoever stands on a page holds up what is done there, but not the I/O worker
my $reader = Session->new($node);
$reader->must('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off');
$reader->must('BEGIN; DECLARE c CURSOR FOR SELECT window_start FROM aion_results.rv ORDER BY 1; FETCH 5 FROM c');
for my $round (0 .. 7)
{
	minutes(5000 + $round * 100, 5099 + $round * 100);
	sql(q{SELECT aion.destage('r', timeout => '20 s'), pg_sleep(1)});
}
$reader->must('COMMIT');
wait_until($node, 'SELECT count(*) = 120 FROM rv', 'destages go on while a cursor is open');

# killed at any point
for my $point ('retain-deleted', 'retain-committed')
{
	for my $action ('crash', 'error')
	{
		my $log = -s $node->logfile;
		arm_fault($node, $point, $action);
		my $from = sql(q{SELECT extract(epoch FROM max(at) - '2024-03-01 10:00:30+00') / 60 + 1 FROM r}) + 0;
		eval { minutes($from, $from + 9) };
		wait_for_fault($node, $point);
		reconnect($log) if $action eq 'crash';
		minutes($from + 10, $from + 10);
		wait_until($node, 'SELECT count(*) = 120 FROM rv', "$action at $point: the rest goes");
	}
}

# ---- retain: triggers ---------------------------------------------------------------------------------------------------

sql(q{
	CREATE ROLE keeper;
	CREATE TABLE removed (who text, start timestamptz);
	GRANT INSERT ON removed TO keeper;
	CREATE TABLE obstacle (here bool);
	GRANT SELECT ON obstacle TO keeper;
	INSERT INTO obstacle VALUES (true);
	CREATE FUNCTION note_removal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF EXISTS (SELECT FROM public.obstacle) THEN RAISE 'not yet'; END IF;
		INSERT INTO public.removed VALUES (current_user, OLD.window_start); RETURN OLD; END $$;
	GRANT SELECT ON r TO keeper;
	GRANT CREATE ON SCHEMA public TO keeper});
sql(q{SELECT aion.create_view('kept', 'SELECT count(*) AS n FROM r', aion.tumbling('1 hour'), allowed_lateness => '0', retain => '3 hours')});
sql(q{SELECT aion.sync('r')});
sql(q{SELECT aion.alter_view('kept', owner => 'keeper')});
sql(q{CREATE TRIGGER note BEFORE DELETE ON aion_results.kept FOR EACH ROW EXECUTE FUNCTION note_removal()});
my $from = sql(q{SELECT extract(epoch FROM max(at) - '2024-03-01 10:00:30+00') / 60 + 1 FROM r}) + 0;
minutes($from, $from + 400);
wait_until($node, q{SELECT last_error = 'not yet' FROM aion.views WHERE view = 'kept'::regclass}, 'a trigger that fails shows');
my $count = sql('SELECT count(*) FROM kept');
cmp_ok($count, '>', 5, 'and keeps the rows');
minutes($from + 401, $from + 500);
wait_until($node, 'SELECT count(*) = 120 FROM rv', 'but stops nothing else');
my @logged = slurp_file($node->logfile) =~ /results of continuous view "kept" could not be removed: not yet/g;
is(scalar @logged, 1, 'it is logged once');
sql('DELETE FROM obstacle');
wait_until($node, q{SELECT count(*) BETWEEN 3 AND 5 FROM kept}, 'it is tried again');
is(sql('SELECT DISTINCT who FROM removed'), 'keeper', 'as the owner of the view');
wait_until($node, q{SELECT last_error IS NULL FROM aion.views WHERE view = 'kept'::regclass}, 'then the error is gone');

# ---- retain: options, batches, what is not final -----------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE q (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour', watermark_interval '5 ms');
	CREATE TABLE divisors (d int);
	INSERT INTO divisors VALUES (0);
	SELECT aion.create_view('many', 'SELECT k, count(*) AS n FROM q GROUP BY k', aion.tumbling('1 hour'));
	SELECT aion.create_view('failing', 'SELECT count(*) / (SELECT d FROM divisors) AS n FROM q', aion.tumbling('1 hour'), retain => '0');
	INSERT INTO q SELECT g, timestamptz '2024-03-01 10:00+00' + h * interval '1 hour' FROM generate_series(1, 6000) g, generate_series(0, 4) h;
	SELECT aion.advance_watermark('q', '2024-03-01 16:00+00')});
is(error_of(q{SELECT aion.sync('q')}) =~ /the queries of 5 windows failed/ ? 1 : 0, 1, 'a view fails');
is(sql('SELECT count(*) FROM many'), '30000', 'without retain results stay');
sql(q{SELECT aion.pause_view('many'); SELECT aion.alter_view('many', retain => '2 hours 30 minutes'); SELECT aion.sync('r')});
$node->append_conf('postgresql.conf', "aion.executors = 1");
$node->reload;
is(sql('SELECT count(*) FROM many'), '30000', 'those of a paused view, too');
sql(q{SELECT aion.resume_view('many')});
# a reader sees whole windows
for (1 .. 200)
{
	my $n = sql('SELECT count(*), count(DISTINCT window_start) FROM many');
	my ($rows, $windows) = split /\|/, $n;
	fail("$rows rows of $windows windows") if $rows != 6000 * $windows;
	last if $windows == 2;
}
wait_until($node, 'SELECT count(*) = 12000 FROM many', 'they go when it is resumed');
is(sql('SELECT min(window_start) FROM many'), '2024-03-01 13:00:00+00', 'the last to go ended at 13:00');
sql(q{SELECT aion.alter_view('many', reset => '{retain}')});
sql(q{UPDATE divisors SET d = 1; SELECT aion.refresh('failing')});
wait_until($node, q{SELECT count(*) = 0 FROM failing}, 'results of a failed window go when it has become final');
wait_until($node, q{SELECT results_removed_through = '2024-03-01 13:00+00' FROM aion.views WHERE view = 'many'::regclass}, 'how far it came is kept');

# ---- retain and readmit -------------------------------------------------------------------------------------------------

make_stream('b', "allowed_lateness '1 day'");
my $both = view('b1', $MINUTE, $MINUTE, '1 min');
sql(create_view_sql($both, 'b'));
sql(q{SELECT aion.alter_view('b1', retain => '5 minutes'); CREATE TABLE seen (start timestamptz, n bigint);
	CREATE FUNCTION note_result() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES (NEW.window_start, NEW.n); RETURN NEW; END $$;
	CREATE TRIGGER note BEFORE INSERT ON aion_results.b1 FOR EACH ROW EXECUTE FUNCTION note_result()});
events('b', q{SELECT g, 1, g, 'n', timestamptz '2024-03-01 10:00+00' + g * interval '10 s' FROM generate_series(0, 119) g});
sql(q{SELECT aion.advance_watermark('b', '2024-03-01 10:10+00'); SELECT aion.sync('b')});
wait_until($node, q{SELECT min(window_start) = '2024-03-01 10:05+00' FROM b1}, 'results of 5 windows are removed');
wait_until($node, q{SELECT results_removed_through = '2024-03-01 10:05+00' FROM aion.views WHERE view = 'b1'::regclass}, 'as is kept');
sql(q{INSERT INTO b VALUES (1000, 1, 1, 'late', '2024-03-01 10:02:30+00'); SELECT aion.sync('b')});
sql('SELECT aion.readmit(' . ids('b') . ')');
is(sql(q{SELECT n FROM seen WHERE start = '2024-03-01 10:02+00' ORDER BY n DESC LIMIT 1}), '7', 'a window whose result was removed is computed again');
wait_until($node, q{SELECT count(*) = 0 FROM b1 WHERE window_start < '2024-03-01 10:05+00'}, 'and its result is removed again');

$session->close;
$other->close;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
