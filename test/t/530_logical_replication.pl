# Logical replication: results that a subscriber follows through amendments, streams that a subscription's rows feed, and
# decoding of all that aion writes.
use strict;
use warnings;

use Aion;
use Oracle qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;
use Twin qw(@VIEWS define_twins exact memory_is_free start_load stop_load write_sql);

my $CONF = "aion.memory = '4MB'\naion.late_interval = '20ms'\nautovacuum_naptime = 1s\nwal_receiver_status_interval = 1s";
# Decoding has little memory, or none: at the limit, 18 looks whether a transaction was rolled back, and crashes if it was and had savepoints.
my ($major) = `postgres --version` =~ / (\d+)/;
my $memory = $major < 18 ? "logical_decoding_work_mem = '64kB'" : 'debug_logical_replication_streaming = immediate';
my $pub = new_node('publisher', init => [ allows_streaming => 'logical' ], conf => "$CONF\n$memory");
my $sub = new_node('subscriber', init => [ allows_streaming => 'logical' ], conf => $CONF);

sub sql { my ($sql, $on) = @_; return ($on // $pub)->safe_psql('postgres', $sql) }

sub error_of
{
	my ($node, $statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$statement");
	return $err;
}

sub subscribe
{
	my ($name, $publication, $options) = @_;
	sql("CREATE SUBSCRIPTION $name CONNECTION \$\$" . $pub->connstr('postgres') . "\$\$ PUBLICATION $publication" . ($options ? " WITH ($options)" : ''), $sub);
	wait_until($sub, q{SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel JOIN pg_subscription s ON s.oid = srsubid WHERE subname = '} . $name . q{'}, "$name: initial copy is done");
	return;
}

# Returns when a subscriber has all that is committed on the publisher.
sub follow { $pub->wait_for_catchup($_) for @_; return }

# ---- results, followed by a subscriber ---------------------------------------------------------------------------------

define_twins($pub);
sql(q{
	CREATE FOREIGN TABLE r (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '2 min');
	SELECT aion.create_view('short', 'SELECT k, count(*) AS n FROM r GROUP BY k', aion.tumbling('1 min'), retain => interval '5 min');
	INSERT INTO r SELECT g % 3, timestamptz '2024-03-01 10:00' + g * interval '1 s' FROM generate_series(1, 900) g;
	SELECT aion.advance_watermark('r', '2024-03-01 10:06')});
sql(q{SELECT aion.sync('r')});
wait_until($pub, q{SELECT count(*) = 15 FROM short}, 'results that are not retained go');
sql(write_sql(300, 0));
sql(q{SELECT aion.sync('s', late => true)});
my %results = map { split /\|/ } split /\n/, sql('SELECT view, results FROM aion.views');
sql('CREATE PUBLICATION results FOR TABLE ' . join(', ', values %results));
my ($dump) = run_command([ 'pg_dump', '-s', '--no-owner', '--no-privileges', (map { ('-t', $_) } values %results), '-d', $pub->connstr('postgres') ]);
sql($dump, $sub);
subscribe('results', 'results');

my @names = sort keys %results;
sub following
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	follow('results');
	for my $view (@names)
	{
		is(sql("SELECT * FROM $results{$view} r ORDER BY r.*", $sub), sql("SELECT * FROM $results{$view} r ORDER BY r.*"), "$name: the subscriber's $view");
	}
	return;
}
following('initial copy');
isnt(sql("SELECT count(*) FROM $results{tumble}", $sub), '0', 'there is something');

# late events, early results, failures rolled back
sql(write_sql(500, 2));
sql(write_sql(300, 1));
exact($pub, 'amended');
following('amended');
sql("BEGIN; " . write_sql(5000, 0) . '; ROLLBACK');
sql(write_sql(20000, 3));
exact($pub, 'amended by a large transaction');
following('amended by a large transaction');
# results that are not retained go
sql(q{SELECT aion.advance_watermark('r', '2024-03-01 10:11')});
wait_until($pub, q{SELECT count(*) = 15 AND min(window_start) = '2024-03-01 10:06+00' FROM short}, 'they do later on, too');
following('removed');
kill_worker($pub, 'scheduler');
wait_until($pub, 'SELECT true', 'the publisher is back');
sql(write_sql(400, 20));
exact($pub, 'amended after a crash');
following('amended after a crash');
my @load = start_load($pub);
wait_until($pub, q{SELECT count(*) > 30000 FROM p}, 'there is load');
sql('CREATE TABLE stop ()');
is_deeply([ stop_load(@load) ], [ '', '', '' ], 'without an error');
exact($pub, 'amended under load');
following('amended under load');
# the subscriber may query and index what it has
is(sql("SELECT sum(n) FROM $results{tumble}", $sub), sql('SELECT sum(n) FROM tumble'), 'sums agree');
sql('TRUNCATE s; TRUNCATE p');
sql(write_sql(100, 0));
exact($pub, 'truncated');
following('truncated');
sql('DROP SUBSCRIPTION results', $sub);

# ---- streams can't be published ---------------------------------------------------------------------------------------------

like(error_of($pub, 'CREATE PUBLICATION no FOR TABLE s'), qr/22023: cannot add relation "s" to publication.*foreign tables/s, 'a stream can not be published');
like(error_of($pub, 'CREATE PUBLICATION no FOR TABLE tumble'), qr/22023: cannot add relation "tumble" to publication.*views/s, 'nor can a view; its results can');

# ---- a publication FOR ALL TABLES ----------------------------------------------------------------------------------------------

# somebody decodes all of it, in two formats, while it is written
sql('CREATE PUBLICATION everything FOR ALL TABLES');
sql(q{SELECT pg_create_logical_replication_slot('decoded', 'test_decoding'), pg_create_logical_replication_slot('published', 'pgoutput', false, true)});
sql('DROP TABLE stop');
my $log = -s $pub->logfile;
like(error_of($pub, q{SELECT aion.create_view('warned', 'SELECT count(*) AS n FROM s', aion.tumbling('1 min'))}), qr/WARNING: .*a publication FOR ALL TABLES also publishes aion's internal tables/, 'create_view warns');
@load = start_load($pub);
my $decode = q{SELECT count(*) > 0 FROM pg_logical_slot_get_changes('decoded', NULL, NULL)};
my $publish = q{SELECT count(*) > 0 FROM pg_logical_slot_get_binary_changes('published', NULL, NULL, 'proto_version', '3', 'publication_names', 'everything')};
my $steps = 0;
for my $step (
	write_sql(30000, 0),
	q{CREATE FOREIGN TABLE e (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 min', allowed_lateness '5 min');
	  SELECT aion.create_view('v_e', 'SELECT k, count(*) AS n FROM e GROUP BY k', aion.tumbling('1 min'), retain => '1 hour');
	  INSERT INTO e SELECT g % 3, timestamptz '2024-03-01 10:00' + g * interval '1 s' FROM generate_series(1, 900) g;
	  SELECT aion.advance_watermark('e', '2024-03-01 10:10')},
	q{SELECT aion.sync('e', late => true)}, q{SELECT aion.destage('e')}, q{SELECT aion.advance_watermark('e', '2024-03-01 11:00')}, q{SELECT aion.sync('e')},
	q{INSERT INTO e SELECT g % 3, timestamptz '2024-03-01 10:20' + g * interval '1 s' FROM generate_series(1, 5) g}, q{SELECT aion.sync('e')},
	q{SELECT aion.readmit(VARIADIC (SELECT array_agg(id) FROM aion.expired WHERE stream = 'e'::regclass))},
	q{SELECT aion.alter_view('v_e', retain => '10 min', early => '1 s')}, q{ALTER FOREIGN TABLE e ADD COLUMN more text DEFAULT 'x'}, q{SELECT aion.pause_view('v_e')}, q{SELECT aion.resume_view('v_e')},
	q{SELECT aion.advance_watermark('e', '2024-03-01 12:00')}, q{SELECT aion.sync('e')}, q{SELECT aion.reset_watermark('e', '2024-03-01 11:50')},
	q{BEGIN; INSERT INTO e VALUES (1, '2024-03-01 11:55', 'p'); PREPARE TRANSACTION 'decoded'}, q{COMMIT PREPARED 'decoded'},
	'TRUNCATE e', q{INSERT INTO e VALUES (1, '2024-03-01 11:55', 'p')}, q{SELECT aion.refresh('v_e')}, q{SELECT aion.drop_view('v_e')}, 'DROP FOREIGN TABLE e')
{
	is(error_of($pub, $step) =~ s/.*WARNING.*a publication FOR ALL TABLES.*//sr, '', 'with all published: ' . substr($step, 0, 50));
	next if $steps++ % 6;
	is(sql($decode), 't', 'decoded');
	is(sql($publish), 't', 'and as a subscriber would get it');
}
sql('CREATE TABLE stop ()');
is_deeply([ stop_load(@load) ], [ '', '', '' ], 'without an error under load');
exact($pub, 'published and decoded');
sql($decode);
sql($publish);
unlike(slurp_file($pub->logfile, $log), qr/(?<!autovacuum worker )ERROR:|PANIC:|TRAP:/, 'nothing failed');

# a slot that nobody reads holds the catalogs' horizon back, and no memory
sql(write_sql(10, 10));
memory_is_free($pub, 'a logical slot that lags pins no memory');
sql($decode);
sql($publish);
sql(q{SELECT pg_drop_replication_slot('decoded'), pg_drop_replication_slot('published')});
sql('DROP PUBLICATION everything');

# ---- a subscription's rows feed a stream ---------------------------------------------------------------------------------------------

# Columns in another order, one more and one less than the stream has.
sql('CREATE TABLE orders (id bigint PRIMARY KEY, note text, at timestamptz NOT NULL, v int, k int, secret int); CREATE PUBLICATION orders FOR TABLE orders WHERE (id >= 0)');
sql(q{INSERT INTO orders SELECT g, 'n', timestamptz '2024-03-01 10:00+00' + g * interval '1 s', g % 10, g % 3, 0 FROM generate_series(-100, 500) g});
sql('CREATE TABLE orders (secret int, at timestamptz NOT NULL, k int, v int, id bigint PRIMARY KEY, note text)', $sub);
my $view = { name => 'per_order', query => $QUERIES[3], size => 60_000_000, slide => 60_000_000, origin => DEFAULT_ORIGIN };
sql('CREATE FOREIGN TABLE fed (' . COLUMNS . q{, here text DEFAULT 'sub') SERVER aion OPTIONS (event_time 'at', watermark_interval '10 ms', idle_timeout 'off', allowed_lateness 'unlimited')}, $sub);
sql(create_view_sql($view, 'fed'), $sub);
# not qualified: those who apply rows have an empty search_path
sql(q{CREATE TRIGGER feed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed('fed')}, $sub);

my $IN = 'SELECT id, k, v, note, at FROM';
sub fed
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	follow('orders');
	my $session = Session->new($sub);
	is(compare($session, "$IN fed", "$IN orders"), '', "$name: events");
	is(compare($session, 'SELECT DISTINCT here FROM fed', q{SELECT 'sub'::text}), '', "$name: what the table lacks is the default");
	$session->must(q{SELECT aion.sync('fed', late => true)});
	$session->must(q{SELECT aion.refresh('per_order')});
	is(compare($session, "$IN fed", "$IN orders"), '', "$name: events, settled");
	$session->must("CREATE OR REPLACE TEMP VIEW batch AS $IN orders");
	is(compare($session, 'SELECT * FROM per_order', batch_query($view, 'batch')), '', "$name: view");
	is($session->must(q{SELECT events = (SELECT count(*) FROM orders) FROM aion.streams WHERE stream = 'fed'::regclass}), 't', "$name: counter");
	$session->close;
	is(sql('SELECT count(*) FROM orders', $sub), sql('SELECT count(*) FROM orders WHERE id >= 0'), "$name: all has come");
	return;
}

# an ordinary trigger does not fire for them
subscribe('orders', 'orders', 'copy_data = false');
sql(q{INSERT INTO orders VALUES (1000, 'n', '2024-03-01 10:00+00', 1, 1, 1)});
follow('orders');
is(sql('SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM fed)', $sub), '1|0', 'a trigger that is not enabled ALWAYS does not fire for a subscription');
sql('DROP SUBSCRIPTION orders; TRUNCATE orders; ALTER TABLE orders ENABLE ALWAYS TRIGGER feed', $sub);
for my $options ('streaming = off', 'streaming = on', 'two_phase = on, streaming = on', 'binary = true')
{
	subscribe('orders', 'orders', $options);
	fed("$options: initial copy");
	my $next = sql('SELECT max(id) + 1 FROM orders');
	my $insert = sub {
		my ($n, $minute) = @_;
		my $first = $next;
		$next += $n;
		return "INSERT INTO orders SELECT g, 'n' || g % 7, timestamptz '2024-03-01 10:00+00' + interval '$minute min' + (g - $first) % 600 * interval '1 s', g % 10, g % 3, 0 FROM generate_series($first, $next - 1) g;";
	};
	sql($insert->(1, 1)) for 1 .. 5;
	# more than decoding keeps in memory, savepoints among it
	sql('BEGIN;' . $insert->(3000, 1) . 'SAVEPOINT a;' . $insert->(1000, 2) . 'ROLLBACK TO a;' . $insert->(2000, 2) . 'SAVEPOINT b;' . $insert->(10, 2) . 'RELEASE b; COMMIT');
	sql('BEGIN;' . $insert->(3000, 1) . 'ROLLBACK');
	# rows that the filter leaves out, and columns that change
	sql(q{INSERT INTO orders SELECT g, 'n', timestamptz '2024-03-01 10:00+00', 1, 1, 1 FROM generate_series((SELECT min(id) - 10 FROM orders), (SELECT min(id) - 1 FROM orders)) g});
	fed($options);
	sql('BEGIN;' . $insert->(2000, 3) . "PREPARE TRANSACTION 'a'");
	sql('BEGIN;' . $insert->(200, 3) . "PREPARE TRANSACTION 'b'");
	follow('orders');
	is(sql('SELECT count(*) FROM pg_prepared_xacts', $sub), $options =~ /two_phase/ ? '2' : '0', "$options: prepared transactions");
	if ($options =~ /two_phase/)
	{
		sql(q{SELECT aion.sync('fed')}, $sub);
		kill_worker($sub, 'scheduler');
		$sub->poll_query_until('postgres', 'SELECT true') or die 'no subscriber';
	}
	sql(q{COMMIT PREPARED 'a'; ROLLBACK PREPARED 'b'});
	fed("$options, prepared");
	# one row is in the way, until it is removed: what is tried again leaves nothing behind
	sql("BEGIN; ALTER TABLE orders DISABLE TRIGGER feed; INSERT INTO orders VALUES (0, '2024-03-01', 1, 1, $next + 50, 'in the way'); ALTER TABLE orders ENABLE ALWAYS TRIGGER feed; COMMIT", $sub);
	sql($insert->(100, 4));
	wait_until($sub, q{SELECT apply_error_count > 0 FROM pg_stat_subscription_stats WHERE subname = 'orders'}, "$options: a conflict");
	sql(q{DELETE FROM orders WHERE note = 'in the way'}, $sub);
	fed("$options, after a conflict");
	sql('DROP SUBSCRIPTION orders; TRUNCATE orders, fed', $sub);
}

$_->stop for $sub, $pub;
unlike(slurp_file($_->logfile), qr/TRAP:|PANIC:/, $_->name . ': no assertion failed') for $sub, $pub;
done_testing();
