# Views that read different columns of one stream, whose blocks are staged with some of them, while columns and views come and
# go, processes are killed and fault points act: every result is that of its batch query.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{AION_SEED} // int(rand(1_000_000));
note("AION_SEED=$seed");
srand($seed);
my $memory = $ENV{AION_MEMORY} // '4MB';
my $serializers = $ENV{AION_SERIALIZERS} // pick(0, 3);
note("memory $memory, serializers $serializers");
my $node = new_node('staged_random', conf => "aion.late_interval = 0\nautovacuum = off\naion.executors = 3\naion.memory = '$memory'\naion.serializers = $serializers\naion.memory_high = 75\naion.idle_destage = '1s'");
my $session = Session->new($node);
sub pick { return $_[ int(rand(@_)) ] }
sub sql { return $session->must($_[0]) }
# A statement that may meet a crash: the server decides what became of it.
sub try
{
	my $result = $session->query($_[0]);
	return $result if $result->{ok};
	if ($result->{lost}) { $session->connect } else { $session->query('ROLLBACK') }
	return $result;
}

sql(q{
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
	CREATE TYPE pair AS (a int, b text);
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, pad text, id bigint, k int, note text, m mood, pr pair, arr int[], num numeric, tz timetz, sparse text) SERVER aion
		OPTIONS (event_time 'at', bucket_width '1 h', watermark 'manual', allowed_lateness 'unlimited');
	CREATE TABLE p (at timestamptz NOT NULL, pad text, id bigint, k int, note text, m mood, pr pair, arr int[], num numeric, tz timetz, sparse text)});

my %COLUMNS = (
	pad => 'sum(hashtext(pad)::bigint)', id => 'sum(id)', k => 'sum(k)', note => 'sum(hashtext(note)::bigint)', m => 'max(m::text)', pr => 'sum(hashtext(pr::text)::bigint)',
	arr => 'sum(hashtext(arr::text)::bigint)', num => 'sum(num)', tz => 'max(tz)', sparse => 'count(sparse)', '*' => q{sum(hashtext(row_to_json(s)->>'pad')::bigint)},
	tableoid => q{count(tableoid)}, '1' => 'count(*)');
my %views;
my $serial = 0;
my $added = 0;
sub create
{
	my @columns = sort grep { rand() < 0.3 } grep { $_ ne '*' || rand() < 0.2 } keys %COLUMNS;
	@columns = ('1') unless @columns;
	my $name = 'v' . ++$serial;
	my $query = join ', ', map { "$COLUMNS{$_} AS c_" . ($_ eq '*' ? 'all' : $_) } @columns;
	my $size = pick('1 h', '2 h', '30 min');
	my $result = try("SELECT aion.create_view('$name', \$\$SELECT $query FROM s\$\$, aion.tumbling('$size'))");
	$views{$name} = [$query, $size] if $result->{ok} || $result->{lost};
	note("create $name ($size): $query") if $result->{ok};
	diag($result->{out}) if !$result->{ok} && !$result->{lost};
	return;
}
sub drop { my $name = pick(keys %views) // return; my $result = try("DROP VIEW $name"); delete $views{$name} if $result->{ok}; return }

my $id = 0;
sub insert
{
	my $n = pick(1, 3, 50, 400, 1000);
	my $first = $id + 1; $id += $n;
	my $hour = int(rand(6));
	my $long = pick(1, 1, 10, 40, 60);
	$long = 2000 if $n < 5 && rand() < 0.4;
	my $null = sub { my $p = pick(0, 0, 0.5, 1); return "CASE WHEN random() >= $p THEN $_[0] END" };
	my $rows = "SELECT timestamptz '2024-03-01 0$hour:00+00' + (g % 3600) * interval '1 s' AS at, " . join(', ',
		$null->("(SELECT string_agg(md5(random()::text || g || h), '') FROM generate_series(1, $long) h)") . ' AS pad', 'g::bigint AS id', $null->('(g % 7)::int') . ' AS k', $null->("'note ' || g % 10") . ' AS note',
		$null->("(ARRAY['sad','ok','happy']::mood[])[1 + g % 3]") . ' AS m', $null->("ROW(g, 'x' || g)::pair") . ' AS pr', $null->('ARRAY[g::int, (g % 3)::int]') . ' AS arr',
		$null->('(g / 7.0)::numeric') . ' AS num', $null->("'10:00:00+02'::timetz") . ' AS tz', ($n > 50 ? 'NULL::text' : $null->("repeat('s', 3000)")) . ' AS sparse') . " FROM generate_series($first, $id) g";
	my $cols = 'at, pad, id, k, note, m, pr, arr, num, tz, sparse';
	try("BEGIN; CREATE TEMP TABLE new ON COMMIT DROP AS $rows; INSERT INTO p ($cols) SELECT $cols FROM new; INSERT INTO s ($cols) SELECT $cols FROM new; COMMIT");
	return;
}

# DDL that views do not stand in the way of.
sub alter
{
	my $name = 'x' . ++$added;
	my $default = pick("int DEFAULT $added", "text DEFAULT 'd$added'", 'bigint', "text NOT NULL DEFAULT repeat('y', 300)", 'int GENERATED ALWAYS AS (id::int % 11) STORED');
	my $result = try("BEGIN; ALTER FOREIGN TABLE s ADD COLUMN $name $default; ALTER TABLE p ADD COLUMN $name $default; COMMIT");
	if (!$result->{ok} && !$result->{lost}) { note("refused: $default: $result->{out}"); return }
	$COLUMNS{$name} = "sum(hashtext($name\::text)::bigint)";
	return;
}
sub drop_column
{
	my $name = pick(grep { /^x/ } keys %COLUMNS) // return;
	# whole-row references would be of another shape
	my $result = try("BEGIN; ALTER FOREIGN TABLE s DROP COLUMN $name; ALTER TABLE p DROP COLUMN $name; COMMIT");
	if (!$result->{ok}) { return }
	delete $COLUMNS{$name};
	return;
}
sub rename_column
{
	my $name = pick(grep { /^x/ } keys %COLUMNS) // return;
	my $new = 'x' . ++$added;
	my $result = try("BEGIN; ALTER FOREIGN TABLE s RENAME COLUMN $name TO $new; ALTER TABLE p RENAME COLUMN $name TO $new; COMMIT");
	if (!$result->{ok}) { return }
	delete $COLUMNS{$name};
	$COLUMNS{$new} = "sum(hashtext($new\::text)::bigint)";
	$_->[0] =~ s/hashtext\($name\::text/hashtext($new\::text/ for values %views;
	return;
}

# What became of DDL that met a crash.
sub reconcile
{
	my %have = map { $_ => 1 } split /\n/, sql(q{SELECT attname FROM pg_attribute WHERE attrelid = 'p'::regclass AND attname ~ '^x' AND attnum > 0 AND NOT attisdropped});
	delete $COLUMNS{$_} for grep { /^x/ && !$have{$_} } keys %COLUMNS;
	$COLUMNS{$_} //= "sum(hashtext($_\::text)::bigint)" for keys %have;
	return;
}

sub settle
{
	for (1 .. 5)
	{
		my $result = try(q{SELECT aion.sync('s', late => true, timeout => '100 s')});
		return if $result->{ok};
		note("sync: $result->{out}");
	}
	fail('sync');
	return;
}
sub check
{
	my ($what) = @_;
	settle();
	# an error that a fault point raised stands there until the window is executed again
	sql("SELECT aion.refresh(view, window_start) FROM (SELECT view, window_start FROM aion.windows WHERE error ~ 'fault point' OFFSET 0) w");
	is(sql(q{SELECT string_agg(view::text || ' ' || error, E'\n') FROM aion.windows WHERE error IS NOT NULL}), '', "$what: no errors");
	for (keys %views) { delete $views{$_} if sql("SELECT to_regclass('$_') IS NULL") eq 't' }
	for my $name (sort keys %views)
	{
		my ($query, $size) = @{ $views{$name} };
		$query =~ s/row_to_json\(s\)/row_to_json(p)/; $query =~ s/\(tableoid/(p.tableoid/;
		oracle_ok($node, $name, qq{SELECT w AS window_start, w + interval '$size' AS window_end, $query FROM
			(SELECT at AS at_, date_bin('$size', at, '2000-01-03+00') AS w, p.ctid AS c FROM p) e JOIN p ON p.ctid = c WHERE w + interval '$size' <= (SELECT watermark FROM aion.streams) GROUP BY w}, "$what: $name");
	}
	is(sql('SELECT count(*), sum(hashtext(s::text)::bigint) FROM s'), sql('SELECT count(*), sum(hashtext(p::text)::bigint) FROM p'), "$what: SELECT *")
	  or diag(sql(q{SELECT id, left(regexp_replace(s::text, '[0-9a-f]{32,}', '', 'g'), 300), left(regexp_replace(p::text, '[0-9a-f]{32,}', '', 'g'), 300) FROM s JOIN p USING (id) WHERE s::text <> p::text LIMIT 5}) . sql(q{SELECT attname, count(*) FROM pg_attribute WHERE attrelid IN ('s'::regclass, 'p'::regclass) AND attnum > 0 GROUP BY 1 HAVING count(*) < 2}));
	return;
}

my $other = Session->new($node);
my @points = qw(stage-read stage-put stage-begun serializer-taken serializer-ready fire-collected fire-deleted block-written destage-blocks-written fold-written io-before-commit io-after-commit executor-taken);
insert() for 1 .. 10;
sql(q{SELECT aion.advance_watermark('s', '2024-03-01 12:00+00')});
create() for 1 .. 4;
my ($until, $turn) = (time + ($ENV{AION_SECONDS} // 20), 0);
while (time < $until && Test::More->builder->is_passing)
{
	$turn++;
	for (1 .. 12)
	{
		my $r = rand();
		if ($r < 0.3) { insert() }
		elsif ($r < 0.42) { try(q{SELECT aion.destage('s', '60 s')}) }
		elsif ($r < 0.5) { create() if keys %views < 8 }
		elsif ($r < 0.55) { drop() }
		elsif ($r < 0.62) { my $v = pick(keys %views); try("SELECT aion.refresh('$v', timeout => '60 s')") if $v }
		elsif ($r < 0.70) { my $h = int(rand(6)); my $res = try("SELECT aion.stage('s', '2024-03-01 0$h:00+00', '2024-03-01 0$h:59+00', timeout => '10 s')"); note($res->{out}) if !$res->{ok} }
		elsif ($r < 0.75) { alter() }
		elsif ($r < 0.77) { drop_column() }
		elsif ($r < 0.79) { rename_column() }
		elsif ($r < 0.86) { $other->result if $other->busy; $other->send(pick('SELECT count(*), sum(hashtext(s::text)::bigint) FROM s', 'EXPLAIN (ANALYZE) SELECT count(*) FROM s', 'EXPLAIN (ANALYZE) SELECT id, note FROM s WHERE k = 3', 'SELECT max(tz), count(sparse) FROM s')) }
		elsif ($r < 0.92) { try(q{SELECT aion.sync('s')}) }
		elsif ($r < 0.97) { my $p = pick(@points); arm_fault($node, $p, pick('crash', 'error', 'error')); }
		elsif ($r < 0.975) { kill_server($node); $_->connect for $session, $other }
		elsif ($r < 0.985) { my (undef, $out) = $node->psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type IN ('aion serializer', 'aion io', 'aion executor') ORDER BY random() LIMIT 1}); kill(pick('KILL', 'TERM'), $out) if $out }
		else { try('VACUUM FULL p') }
		# a crash may have taken it
		try('SELECT 1');
		$other->connect if !$other->busy && !$other->query('SELECT 1')->{ok};
	}
	unlink($node->data_dir . "/aion_fault.$_") for @points;
	$session->connect;
	$node->poll_query_until('postgres', 'SELECT true');
	$other->result if $other->busy; $other->connect;
	reconcile();
	check("turn $turn");
}
is(sql('SELECT count(*) FROM s'), $session->must('SELECT count(*) FROM p'), 'as many events');
note(sql(q{SELECT kind, sum(bytes) FROM aion.io GROUP BY 1}));
$_->close for $session, $other;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|corrupted|cannot be read/, 'no assertion failed');
done_testing();
