# What a stream can be given only on newer servers: infinite intervals and other expressions of generated columns (17);
# virtual generated columns, NOT NULL that is not checked at first, and the definition of another table (18).
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('newer', start => 0);
plan skip_all => 'there is nothing newer in this version' if $node->pg_version < 17;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION aion');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The statement must fail so.
sub refused
{
	my ($statement, $error, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(($node->psql('postgres', $statement))[2], $error, $name);
	return;
}

# ---- 17: infinite intervals ------------------------------------------------------------------------------------------

for my $infinite ('infinity', '-infinity')
{
	refused(qq{CREATE FOREIGN TABLE x (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark_delay '$infinite')},
		qr/invalid value for option "watermark_delay": "$infinite".*The interval is out of range/s, "$infinite as an option");
	refused(qq{SELECT aion.tumbling('$infinite')}, qr/window size is out of range: $infinite/, "$infinite as a window's size");
}

# ---- 17: a stored generated column's other expression --------------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE g (at timestamptz NOT NULL, k int, twice int GENERATED ALWAYS AS (k * 2) STORED)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	ALTER FOREIGN TABLE g ALTER twice SET EXPRESSION AS (k * 20);
	INSERT INTO g VALUES ('2024-03-01 10:00+00', 1)});
sql(q{SELECT aion.sync('g', timeout => 'infinity')});
refused(q{SELECT aion.create_view('x', 'SELECT count(*) AS n FROM g', aion.tumbling('1 hour'), early => 'infinity')},
	qr/invalid value for option "early": "infinity"/, 'infinity as the time between early firings');
is(sql('SELECT k, twice FROM g'), '1|20', 'changed before there are events');
refused('ALTER FOREIGN TABLE g ALTER twice SET EXPRESSION AS (k + 2)',
	qr/cannot change the expression of column "twice" of stream "g".*TRUNCATE the stream first/s, 'refused afterwards');
sql('ALTER FOREIGN TABLE g ALTER twice SET EXPRESSION AS (k * 20)');
sql('TRUNCATE g');
sql('ALTER FOREIGN TABLE g ALTER twice SET EXPRESSION AS (k + 2)');
sql(q{INSERT INTO g VALUES ('2024-03-01 10:00+00', 1)});
is(sql('SELECT k, twice FROM g'), '1|3', 'changed once the stream is empty');
sql('ALTER FOREIGN TABLE g ALTER twice DROP EXPRESSION');
sql(q{INSERT INTO g VALUES ('2024-03-01 10:00+00', 2, 22)});
is(sql('SELECT k, twice FROM g ORDER BY k'), "1|3\n2|22", 'without one, values stay and are given');

# ---- 17: transaction_timeout of the database does not end a worker that computes for longer ------------------------------

sql(q{ALTER DATABASE postgres SET transaction_timeout = '50ms'});
$node->restart;
{
	local $ENV{PGOPTIONS} = '-c transaction_timeout=0';
	sql(q{
		SELECT aion.create_view('slow', 'SELECT count(*) AS n, (SELECT count(*) FROM generate_series(1, 3000000)) AS m FROM g', aion.tumbling('1 hour'));
		SELECT aion.advance_watermark('g', '2024-03-01 11:00+00');
		SELECT aion.sync('g')});
	is(sql('SELECT n, m FROM slow'), '2|3000000', 'transaction_timeout is not for workers');
	sql('ALTER DATABASE postgres RESET transaction_timeout');
}
unlike(slurp_file($node->logfile), qr/due to transaction timeout/, 'none was ended by it');

# ---- the end, before 18 --------------------------------------------------------------------------------------------------

if ($node->pg_version < 18)
{
	unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
	done_testing();
	exit;
}

# ---- 18: virtual generated columns ---------------------------------------------------------------------------------------

refused(q{CREATE FOREIGN TABLE x (t timestamptz, at timestamptz GENERATED ALWAYS AS (t) VIRTUAL) SERVER aion OPTIONS (event_time 'at')},
	qr/column "at" cannot be the event time.*virtual generated column, which is not stored.*Columns that can be it: "t"/s,
	'an event time must be stored');
sql(q{
	CREATE FOREIGN TABLE v (k int, twice int GENERATED ALWAYS AS (k * 2) VIRTUAL CHECK (twice < 100), at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness '1 day');
	SELECT aion.create_view('per_twice', 'SELECT twice, count(*) AS n, sum(twice) AS s FROM v GROUP BY twice', aion.tumbling('1 hour'))});
is(sql(q{INSERT INTO v (k, at) SELECT g % 3, timestamptz '2024-03-01 10:00+00' + g * interval '1 min' FROM generate_series(1, 90) g RETURNING twice})
	=~ tr/\n//, 89, 'RETURNING');
refused(q{INSERT INTO v VALUES (50, DEFAULT, '2024-03-01 10:00+00')}, qr/violates check constraint "v_twice_check"/, 'a CHECK of one refuses an event');
refused(q{INSERT INTO v VALUES (1, 2, '2024-03-01 10:00+00')}, qr/cannot insert a non-DEFAULT value/, 'no value can be given');
sql(q{COPY v (k, at) FROM PROGRAM 'echo "7,2024-03-01 10:30+00"' (FORMAT csv)});

# The same from memory, from blocks, and by the columns that a query looks at.
for my $from ('memory', 'disk')
{
	is(sql('SELECT twice, count(*) FROM v GROUP BY 1 ORDER BY 1'), "0|30\n2|30\n4|30\n14|1", "$from: computed on read");
	is(sql(q{SELECT v FROM v WHERE twice = 14}), '(7,14,"2024-03-01 10:30:00+00")', "$from: in the whole row");
	is(sql('SELECT count(*) FROM v WHERE twice <> k * 2 OR twice IS NULL'), '0', "$from: in conditions");
	sql(q{SELECT aion.destage('v')}) if $from eq 'memory';
}

sql(q{SELECT aion.advance_watermark('v', '2024-03-01 12:00+00'); SELECT aion.sync('v')});
my $batch = q{SELECT date_bin('1 hour', at, '2024-01-01 00:00+00') AS window_start, date_bin('1 hour', at, '2024-01-01 00:00+00') + interval '1 hour' AS window_end,
	twice, count(*) AS n, sum(twice) AS s FROM v GROUP BY 1, 2, 3};
oracle_ok($node, 'per_twice', $batch, 'a view by one');
sql(q{INSERT INTO v VALUES (7, DEFAULT, '2024-03-01 11:30+00')});
sync_stream($node, 'v');
oracle_ok($node, 'per_twice', $batch, 'amended by a late event');

sql(q{SELECT aion.advance_watermark('v', '2024-03-03 15:00+00'); SELECT aion.sync('v');
	INSERT INTO v VALUES (8, DEFAULT, '2024-03-01 09:30+00'); SELECT aion.sync('v')});
is(sql(q{SELECT event FROM aion.expired}), '{"k": 8, "at": "2024-03-01T09:30:00+00:00"}', 'not part of an event that was set aside');

# Nothing of it is stored, so all about it may change while there are events.
sql(q{INSERT INTO v VALUES (9, DEFAULT, '2024-03-03 16:00+00'), (-9, DEFAULT, '2024-03-03 16:00+00')});
sql('ALTER FOREIGN TABLE v ADD COLUMN big bigint GENERATED ALWAYS AS (k * 1000) VIRTUAL');
is(sql('SELECT k, twice, big FROM v WHERE abs(k) = 9 ORDER BY k'), "-9|-18|-9000\n9|18|9000", 'added');
refused('ALTER FOREIGN TABLE v ADD CHECK (big > 0)', qr/is violated by some row/, 'a new CHECK is checked');
refused('ALTER FOREIGN TABLE v ADD n int GENERATED ALWAYS AS (nullif(k, 9)) VIRTUAL NOT NULL', qr/column "n" of relation "v" contains null values/,
	'and a new NOT NULL');
sql('ALTER FOREIGN TABLE v DROP CONSTRAINT v_twice_check');    # the server can't yet change expressions beside one
sql('ALTER FOREIGN TABLE v ALTER big TYPE numeric(20,1), ALTER big SET EXPRESSION AS (k * 10)');
sql('ALTER FOREIGN TABLE v ADD last text DEFAULT \'old\'');
is(sql('SELECT k, big, last FROM v WHERE k = 9'), '9|90.0|old', 'of another type and expression, with a stored column behind it');
sql('ALTER FOREIGN TABLE v DROP COLUMN big');
sql(q{INSERT INTO v VALUES (10, DEFAULT, '2024-03-03 16:00+00', 'new')});
is(sql('SELECT k, twice, last FROM v WHERE k > 8 ORDER BY k'), "9|18|old\n10|20|new", 'dropped');

# ---- 18: constraints that say nothing about stored events --------------------------------------------------------------

sql(q{
	CREATE FOREIGN TABLE n (at timestamptz NOT NULL, k int) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	INSERT INTO n VALUES ('2024-03-01 10:00+00', NULL);
	ALTER FOREIGN TABLE n ADD CONSTRAINT k_there NOT NULL k NOT VALID});
refused(q{INSERT INTO n VALUES ('2024-03-01 10:00+00', NULL)}, qr/null value in column "k"/, 'NOT NULL NOT VALID holds for new events');
refused('ALTER FOREIGN TABLE n ADD CHECK (at IS NOT NULL), ALTER k SET DEFAULT 1, VALIDATE CONSTRAINT k_there',
	qr/column "k" of relation "n" contains null values/, 'and for stored ones once it is validated');
sql('ALTER FOREIGN TABLE n DROP CONSTRAINT k_there');
refused('ALTER FOREIGN TABLE n ADD CONSTRAINT k_there NOT NULL k', qr/column "k" of relation "n" contains null values/, 'or if it is to be valid at once');
sql('ALTER FOREIGN TABLE n ADD CONSTRAINT k_is CHECK (k IS NOT NULL) NOT ENFORCED');
sql(q{INSERT INTO n VALUES ('2024-03-01 10:00+00', NULL)});
is(sql('SELECT count(*) FROM n WHERE k IS NULL'), '2', 'CHECK NOT ENFORCED is not enforced');

# ---- 18: a stream like a table ---------------------------------------------------------------------------------------

sql(q{
	CREATE TABLE plain (at timestamptz NOT NULL, k int DEFAULT 3 CHECK (k > 2), twice int GENERATED ALWAYS AS (k * 2) VIRTUAL);
	CREATE FOREIGN TABLE alike (LIKE plain INCLUDING ALL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	CREATE TRIGGER feed AFTER INSERT ON plain FOR EACH ROW EXECUTE FUNCTION aion.feed('alike');
	INSERT INTO plain (at) VALUES ('2024-03-01 10:00+00')});
is(sql('SELECT k, twice FROM alike'), '3|6', 'LIKE, and fed by that table');
refused(q{CREATE FOREIGN TABLE x (LIKE plain) SERVER aion OPTIONS (event_time 'none')}, qr/column "none" named by option "event_time" of stream "x" does not exist/,
	'its event time is checked');

unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
$node->stop;
done_testing();
