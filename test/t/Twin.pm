# A stream and an ordinary table that get the same rows in the same transactions, with views over the stream: wherever a
# copy of that server begins or ends, the two agree there, and the table says what the views must hold.
package Twin;

use strict;
use warnings;

use Aion;
use Exporter 'import';
use Oracle qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql);
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;

our @EXPORT_OK = qw(@VIEWS catch_up define_twins exact memory_is_free same_events start_load start_readers stop_load write_sql);

my $MINUTE = 60_000_000;

our @VIEWS = (
	{ name => 'tumble', query => $QUERIES[0], size => $MINUTE, slide => $MINUTE, origin => DEFAULT_ORIGIN },
	{ name => 'lists', query => $QUERIES[3], size => 5 * $MINUTE, slide => 2 * $MINUTE, origin => DEFAULT_ORIGIN },
	{ name => 'gaps', query => $QUERIES[1], size => 30_000_000, slide => 70_000_000, origin => DEFAULT_ORIGIN },
);

# Stream s, table p, the views, and procedures that write to both.
sub define_twins
{
	my ($node) = @_;
	$node->safe_psql('postgres', join ";\n",
		'CREATE TABLE p (' . COLUMNS . ')', 'CREATE INDEX ON p (at)',
		'CREATE FOREIGN TABLE s (' . COLUMNS . q{) SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', idle_timeout 'off', allowed_lateness 'unlimited')},
		(map { create_view_sql($_, 's') } @VIEWS),
		q{
		-- n events, a second apart, from that minute on; one in ten is up to an hour late. Who holds the advisory lock 1 keeps
		-- all others from writing.
		CREATE PROCEDURE write(first bigint, n int, minute float8) LANGUAGE sql AS $$
			SELECT pg_advisory_xact_lock_shared(1);
			WITH e AS (INSERT INTO p
				SELECT i, i % 4, i % 100, 'n' || i % 17, timestamptz '2024-03-01 10:00+00' + minute * interval '1 min'
					   + (i - first) * interval '1 s' - CASE WHEN i % 10 = 0 THEN (i % 3600) * interval '1 s' ELSE interval '0' END
				  FROM generate_series(first, first + n - 1) i
				RETURNING *)
			INSERT INTO s TABLE e $$},
		q{
		-- The following go on until there is a table "stop"; should the test die before, not for ever.
		CREATE FUNCTION goes_on() RETURNS bool LANGUAGE sql VOLATILE AS $$
			SELECT to_regclass('stop') IS NULL AND clock_timestamp() - (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) < interval '60 s' $$;
		-- transactions of all sizes, some of them undone as a whole or in part
		CREATE PROCEDURE load(writer int) LANGUAGE plpgsql AS $$
		DECLARE
			i bigint := writer * 100000000;
			n int;
		BEGIN
			PERFORM setseed(writer / 10.0);
			FOR round IN 0 .. 1000000 LOOP
				EXIT WHEN NOT goes_on();
				n := (ARRAY[1, 1, 3, 20, 100, 400])[1 + floor(random() * 6)];
				CALL write(i, n, round * 0.2);
				BEGIN
					CALL write(i + 50000000, 20, round * 0.2);
					RAISE EXCEPTION 'undo';
				EXCEPTION WHEN raise_exception THEN NULL;
				END;
				IF round % 7 = 3 THEN
					ROLLBACK;
				ELSE
					COMMIT;
				END IF;
				i := i + n;
				PERFORM pg_sleep(0.02);
			END LOOP;
		END $$;
		-- destages over and over
		CREATE PROCEDURE destage() LANGUAGE plpgsql AS $$
		BEGIN
			WHILE goes_on() LOOP
				PERFORM aion.destage('s');
				COMMIT;
				PERFORM pg_sleep(0.05);
			END LOOP;
		END $$;
		-- compares the two under one snapshot, with some time between
		CREATE PROCEDURE compare() LANGUAGE plpgsql AS $$
		DECLARE a text; b text; c text; reads int := 0;
		BEGIN
			WHILE goes_on() LOOP
				COMMIT;
				SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
				SELECT format('%s %s %s', count(*), sum(id), sum(hashtext(note || at::text)::bigint)) INTO a FROM p;
				PERFORM pg_sleep(0.03);
				SELECT format('%s %s %s', count(*), sum(id), sum(hashtext(note || at::text)::bigint)) INTO b FROM s;
				PERFORM pg_sleep(0.03);
				SELECT format('%s %s %s', count(*), sum(id), sum(hashtext(note || at::text)::bigint)) INTO c FROM s;
				IF a <> b OR a <> c THEN
					RAISE EXCEPTION 'table: %, stream: %, then %', a, b, c;
				END IF;
				reads := reads + 1;
			END LOOP;
			RAISE NOTICE 'equal in % reads', reads;
		END $$});
	return;
}

# Statement that writes n events to both.
my $next = 1;

sub write_sql
{
	my ($n, $minute) = @_;
	my $first = $next;
	$next += $n;
	return "CALL write($first, $n, $minute)";
}

# The stream holds what the table holds.
sub same_events
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $session = Session->new($node);
	my $difference = compare($session, 'SELECT * FROM s', 'SELECT * FROM p');
	$session->close;
	return is($difference, '', "$name: events");
}

# Stream, views and counters are what the table says, once all is accounted for.
sub exact
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	same_events($node, "$name, before a sync");
	my $session = Session->new($node);
	$session->must('ANALYZE p');
	$session->must("SELECT aion.sync('s', late => true)");
	$session->must("SELECT aion.refresh('$_->{name}')") for @VIEWS;
	same_events($node, $name);
	is(compare($session, "SELECT * FROM $_->{name}", batch_query($_, 'p')), '', "$name: $_->{name}") for @VIEWS;
	is($session->must(q{SELECT events = (SELECT count(*) FROM p), expired_events, watermark = (SELECT max(at) FROM p) FROM aion.streams WHERE stream = 's'::regclass}),
		't|0|t', "$name: counters");
	$session->close;
	return;
}

# Returns when each copy has replayed all that the server has written, committed or not.
sub catch_up
{
	my ($node, @copies) = @_;
	# a commit flushes what others have written before
	$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, '', '')});
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	$_->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'::pg_lsn") or die $_->name . ' does not catch up' for @copies;
	return;
}

# Memory serves events of as many buckets as ever, however many have come and gone. There are more entries for buckets than
# pages, some 900 with aion.memory = 4MB.
sub memory_is_free
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', q{CREATE FOREIGN TABLE many (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', bucket_width '1 s', watermark 'manual')});
	my $fill = sub {
		my ($n) = @_;
		# a transaction gets a quarter of memory
		$node->safe_psql('postgres', "INSERT INTO many SELECT timestamptz '2024-03-01' + ($n * 300 + $_ * 50 + g) * interval '1 s' FROM generate_series(0, 49) g") for 0 .. 5;
	};
	for my $n (0 .. 7)
	{
		$fill->($n);
		$node->safe_psql('postgres', q{SELECT aion.destage('many')});
	}
	$fill->(8);
	is($node->safe_psql('postgres', q{SELECT sum(memory_events) FROM aion.buckets WHERE stream = 'many'::regclass}), '300', $name);
	$node->safe_psql('postgres', 'DROP FOREIGN TABLE many');
	return;
}

# Sessions that run a procedure until there is a table "stop".
sub _start
{
	my ($node, @calls) = @_;
	return map { my $session = Session->new($node); $session->send($_); $session } @calls;
}

sub start_load { my ($node) = @_; return _start($node, 'CALL load(1)', 'CALL load(2)', 'CALL destage()') }
sub start_readers { my ($node) = @_; return _start($node, ('CALL compare()') x 2) }

# What sessions ended with, as one text for each.
sub stop_load
{
	my @results = map { my $result = $_->result; $_->close; $result } @_;
	return map { $_->{ok} ? $_->{out} : "failed: $_->{out}" } @results;
}

1;
