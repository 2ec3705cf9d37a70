# Tables of a stream that are written anew or get new indexes (VACUUM FULL, CLUSTER, REINDEX CONCURRENTLY, ...): shared
# memory and sessions that know where something was in them find it again.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('rewritten', conf => "aion.destage_policy = 'none'\nautovacuum = off");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{
	CREATE TABLE p (id int, at timestamptz NOT NULL);
	CREATE FOREIGN TABLE s (id int, at timestamptz NOT NULL, filler text) SERVER aion
		OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness '1 day');
	SELECT aion.create_view('v', 'SELECT count(*) AS n, sum(id) AS ids FROM s', aion.tumbling('1 hour'), allowed_lateness => '1 day');
	INSERT INTO s VALUES (0, '2024-03-01 08:00+00');
	TRUNCATE s;
});
my ($journal, $blocks) = split /\|/, sql('SELECT journal, blocks FROM aion.stream_def');
my $next = 1;

# So many transactions, of which each leaves a hole in the journal before its tuples: a rewrite moves them all.
sub insert_events
{
	my ($n) = @_;
	my $script = '';
	for (1 .. $n)
	{
		my ($id, $hour) = ($next, 10 + $next % 4);
		$next++;
		$script .= "BEGIN; INSERT INTO s SELECT -1, '2024-03-01 $hour:00+00', repeat(md5(i::text), 30) FROM generate_series(1, 100) i; ROLLBACK;\n"
		  . join('', map { "INSERT INTO $_ (id, at) VALUES ($id, '2024-03-01 $hour:30+00');\n" } 's', 'p');
	}
	$node->safe_psql('postgres', $script);
	return;
}

my $STORED = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM ";

sub complete
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("$STORED s"), sql("$STORED p"), $name);
}

# ---- the journal ------------------------------------------------------------------------------------------------------

insert_events(12);
sql("SELECT aion.sync('s')");
# it has no lock on the journal, or nothing could rewrite that
my $old = Session->new($node);
$old->must('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = $old->must("$STORED p");
sql("CREATE INDEX journal_bucket ON $journal (bucket)");
my %rewrite = (
	'VACUUM FULL' => 'VACUUM FULL',
	'CLUSTER' => "CLUSTER $journal USING journal_bucket",
	'CLUSTER, in order of the index' => "SET enable_seqscan = off; SET enable_sort = off; CLUSTER $journal USING journal_bucket",
	'CLUSTER, rolled back' => "BEGIN; CLUSTER $journal USING journal_bucket; SELECT count(*) FROM s; ROLLBACK",
	'SET UNLOGGED' => "ALTER TABLE $journal SET UNLOGGED; ALTER TABLE $journal SET LOGGED");
for my $way (sort keys %rewrite)
{
	insert_events(12);
	sql("SELECT aion.sync('s')");
	sql($_) for $way =~ /rolled back|in order/ ? $rewrite{$way} : split /; /, $rewrite{$way};
	complete("$way: what memory holds");
	sql("SELECT aion.destage('s')");
	is(sql('SELECT coalesce(sum(memory_events), 0) FROM aion.buckets'), '0', "$way: all is moved");
	complete("$way: after a destage");
	if ($way eq 'CLUSTER')
	{
		is($old->must("$STORED s"), $before, '... an old snapshot');
		$old->must('COMMIT');
	}
	$node->restart;
	complete("$way: after a restart");
}

# One transaction writes, with a chunk and, what is too long for one, without, and rewrites the journal in between. Some
# of it comes too late. Accounting finds all of it where it is then.
insert_events(3);
sql("SELECT aion.advance_watermark('s', '2024-03-01 10:00+00'); SELECT aion.sync('s')");
sql(q{
	BEGIN;
	INSERT INTO s VALUES (-1, '2024-03-01 11:00+00');
	SAVEPOINT a;
	INSERT INTO s SELECT -1, '2024-03-01 11:00+00', string_agg(md5(i::text), '') FROM generate_series(1, 1000) i;
	SELECT count(*) FROM s;
	ROLLBACK;
	BEGIN;
	INSERT INTO s VALUES (1001, '2024-03-01 11:10+00'), (-2, '2024-02-28 09:10+00');
	INSERT INTO s SELECT 1002, '2024-03-01 11:20+00', string_agg(md5(i::text), '') FROM generate_series(1, 1000) i;
	SELECT count(*) FROM s;
	CLUSTER } . $journal . q{ USING journal_bucket;
	SELECT count(*) FROM s;
	INSERT INTO s VALUES (1003, '2024-03-01 12:10+00'), (-3, '2024-02-28 09:20+00');
	INSERT INTO s SELECT 1004, '2024-03-01 12:20+00', string_agg(md5(i::text), '') FROM generate_series(1, 1000) i;
	COMMIT;
	INSERT INTO p VALUES (1001, '2024-03-01 11:10+00'), (1002, '2024-03-01 11:20+00'), (1003, '2024-03-01 12:10+00'), (1004, '2024-03-01 12:20+00')});
sql("SELECT aion.advance_watermark('s', '2024-03-01 15:00+00'); SELECT aion.sync('s', late => true)");
my $BATCH = q{SELECT date_trunc('hour', at), date_trunc('hour', at) + interval '1 hour', count(*), sum(id) FROM p GROUP BY 1, 2};
oracle_ok($node, 'v', $BATCH, 'a transaction rewrites the journal: results');
is(sql("SELECT expired_events FROM aion.streams WHERE stream = 's'::regclass"), '2', '... what came too late');
complete('... events');
sql("SELECT aion.destage('s')");
complete('... after a destage');
sql("SELECT aion.refresh('v', window_start) FROM aion.windows");
oracle_ok($node, 'v', $BATCH, '... executed again');

# ---- indexes ----------------------------------------------------------------------------------------------------------

my $session = Session->new($node);
$session->must("$STORED s");
for my $table ($blocks, 'aion.stream_def', 'aion.window_state')
{
	sql("REINDEX TABLE CONCURRENTLY $table");
	is($session->must("$STORED s"), sql("$STORED p"), "REINDEX CONCURRENTLY of $table: a session that knew the index");
}
sql("SELECT aion.destage('s')");
sql("SELECT aion.refresh('v', window_start) FROM aion.windows");
oracle_ok($node, 'v', $BATCH, '... and workers');

# ---- indexes of others: kept as those of any table, whatever they are ------------------------------------------------------

sql("CREATE INDEX ON $_ (abs(bucket)) WHERE nevents > 0") for $journal, $blocks;
insert_events(5);
my $by_index = "SET enable_seqscan = off; SELECT sum(nevents) FROM (SELECT nevents FROM $journal WHERE abs(bucket) > 0 AND nevents > 0 UNION ALL SELECT nevents FROM $blocks WHERE abs(bucket) > 0 AND nevents > 0) t";
is(sql($by_index), sql('SELECT count(*) FROM s'), 'indexes that were made on journal and blocks show all events');
sql("SELECT aion.destage('s')");
is(sql($by_index), sql('SELECT count(*) FROM s'), '... and after a destage');
complete('... as the stream does');

# Rows of aion.view_def are written as a catalog's: an index that takes an expression or a condition can't be kept there, which
# is said.
my %odd = (expression => '((view::oid::int8 / 2))', partial => '(view) WHERE paused');
for my $kind (sort keys %odd)
{
	sql("CREATE INDEX $kind ON aion.view_def $odd{$kind}");
	like(($node->psql('postgres', $_))[2], qr/aion cannot maintain index "$kind"/, "$kind index on aion.view_def: $_")
	  for q{SELECT aion.create_view('w', 'SELECT count(*) AS n FROM s', aion.tumbling('1 hour'))}, q{SELECT aion.pause_view('v')};
	sql("DROP INDEX aion.$kind");
}

$node->stop;
done_testing();
