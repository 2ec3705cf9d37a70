# An event that was set aside is readmitted only if it satisfies what its stream demands by now.
use strict;
use warnings;

use Aion;
use Session;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('constraints', conf => "aion.late_interval = -1");
sub sql { return $node->safe_psql('postgres', $_[0]) }

# SQLSTATE and message, or what it returned
sub error_of
{
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$_[0]");
	return $err =~ s/^psql:<stdin>:\d+: //r;
}

# id 1 counts; 2 and 3 are set aside; one of them lacks a value
sql(q{
	CREATE TYPE mood AS ENUM ('good', 'bad');
	CREATE FOREIGN TABLE s (id int, gone int, at timestamptz NOT NULL, v int, m mood) SERVER aion
		OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 day', bucket_width '1 min', watermark_interval '5 ms');
	ALTER FOREIGN TABLE s DROP COLUMN gone;
	SELECT aion.create_view('sv', 'SELECT array_agg(id ORDER BY id) AS ids FROM s', aion.tumbling('1 min'), allowed_lateness => '0');
	INSERT INTO s VALUES (1, '2024-03-01 10:00+00', 5, 'good');
	SELECT aion.advance_watermark('s', '2024-03-01 10:02+00');
	SELECT aion.sync('s');
	INSERT INTO s VALUES (2, '2024-03-01 10:00+00', NULL, 'bad'), (3, '2024-03-01 10:00+00', -7, 'good');
	SELECT aion.sync('s')});
my ($two, $three) = split /\n/, sql(q{SELECT id FROM aion.expired ORDER BY event ->> 'id'});
my $all = "SELECT aion.readmit($two, $three)";
ok($three, 'two events are set aside');

sql('ALTER FOREIGN TABLE s ALTER v SET NOT NULL');
like(error_of($all), qr/^ERROR:  23502: null value in column "v" of relation "s" violates not-null constraint\n.*CONTEXT:  set-aside event $two\n/s,
	'NOT NULL that came later');
sql(q{ALTER FOREIGN TABLE s ALTER v DROP NOT NULL; ALTER FOREIGN TABLE s ADD CONSTRAINT positive CHECK (v > 0)});
like(error_of($all), qr/^ERROR:  23514: new row for relation "s" violates check constraint "positive"\n.*CONTEXT:  set-aside event $three\n/s,
	'CHECK that came later');
sql(q{ALTER FOREIGN TABLE s DROP CONSTRAINT positive; ALTER FOREIGN TABLE s ADD CONSTRAINT cheerful CHECK (m <> 'bad') NOT VALID});
like(error_of($all), qr/^ERROR:  23514: .*"cheerful"\n/, 'one that does not hold for what is stored, and on a column that is stored as text');
sql(q{ALTER FOREIGN TABLE s DROP CONSTRAINT cheerful;
	CREATE TABLE parent (id int, at timestamptz NOT NULL, v int, m mood) PARTITION BY RANGE (v);
	ALTER TABLE parent ATTACH PARTITION s FOR VALUES FROM (0) TO (10)});
like(error_of("SELECT aion.readmit($three)"), qr/^ERROR:  23514: new row for relation "s" violates partition constraint\n/, 'bounds of a partition');
sql('ALTER TABLE parent DETACH PARTITION s');
is(sql(q{SELECT count(*), (SELECT ids FROM sv) FROM aion.expired}), '2|{1}', 'both are as they were');

# ---- a constraint that is added between the check and the readmission ------------------------------------------------------

my $session = Session->new($node);
arm_fault($node, 'readmit-checked', 'wait');
$session->send($all);
wait_for_fault($node, 'readmit-checked');
sql('ALTER FOREIGN TABLE s ADD CONSTRAINT positive CHECK (v > 0)');
release_fault($node, 'readmit-checked');
like($session->result->{out}, qr/constraints of stream "s" were changed by another transaction/, 'is noticed');
is(sql('SELECT count(*) FROM aion.expired'), '2', 'and nothing is readmitted');

# ---- the expression is executed as whoever calls it, and only once it is his own stream --------------------------------------

sql(q{
	ALTER FOREIGN TABLE s DROP CONSTRAINT positive;
	CREATE ROLE owner; CREATE ROLE other;
	CREATE FUNCTION tell(int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'checked as %', current_user; RETURN true; END$$;
	ALTER FOREIGN TABLE s ADD CONSTRAINT told CHECK (tell(v)) NOT VALID;
	GRANT SELECT ON s TO other;
	ALTER FOREIGN TABLE s OWNER TO owner});
my $refused = error_of("SET ROLE other; $all");
like($refused, qr/ERROR:  42501: must be owner of foreign table s/, 'another user is refused');
unlike($refused, qr/checked as/, 'and nothing is checked for him');
my $told = error_of("SET ROLE owner; $all");
like($told, qr/checked as owner.*checked as owner/s, 'it is checked with the rights of the caller');
unlike($told, qr/ERROR/, 'and readmitted');
is(sql(q{SELECT count(*), (SELECT ids FROM sv) FROM aion.expired}), '0|{1,2,3}', 'with the result that it asks for');

# ---- domains, which check what comes, and not what is read ---------------------------------------------------------------------

sub set_aside
{
	sql("INSERT INTO s $_[0]; SELECT aion.sync('s')");
	return sql('SELECT max(id) FROM aion.expired');
}

sql(q{
	ALTER FOREIGN TABLE s DROP CONSTRAINT told;
	CREATE DOMAIN dint AS int; CREATE DOMAIN dmood AS mood; CREATE TYPE pair AS (n dint);
	ALTER FOREIGN TABLE s ADD d dint, ADD ds dint[], ADD p pair, ADD dm dmood});
my %events = (d => '7', ds => q{'{1,7}'}, p => q{'(7)'}, dm => q{'bad'});
my %ids = map { $_ => set_aside("(id, at, v, $_) VALUES (4, '2024-03-01 10:00+00', 1, $events{$_})") } sort keys %events;
my $older = set_aside(q{(id, at, v) VALUES (4, '2024-03-01 10:00+00', 1)});
sql(q{
	ALTER FOREIGN TABLE s ADD later dint DEFAULT 7;
	ALTER FOREIGN TABLE s ALTER later DROP DEFAULT});
my $newer = set_aside(q{(id, at, v, later) VALUES (5, '2024-03-01 10:00+00', 1, 1)});
sql(q{ALTER DOMAIN dint ADD CONSTRAINT small CHECK (VALUE < 7) NOT VALID; ALTER DOMAIN dmood ADD CONSTRAINT fine CHECK (VALUE <> 'bad') NOT VALID});
like(error_of("SELECT aion.readmit($ids{$_})"), qr/^ERROR:  23514: value for domain (public\.)?d(int|mood) violates check constraint "(small|fine)"\n.*CONTEXT:  set-aside event $ids{$_}\n/s,
	"a check that a domain got later: $_") for sort keys %ids;
like(error_of("SELECT aion.readmit($older)"), qr/^ERROR:  23514: value for domain/, 'on the default of a column that was added');
is(error_of("SELECT aion.readmit($newer)"), '', 'one that satisfies all is readmitted');
sql('ALTER DOMAIN dint DROP CONSTRAINT small; ALTER DOMAIN dmood DROP CONSTRAINT fine');

# ---- a partition: its parents are neither kept nor waited for -------------------------------------------------------------------

sql(q{
	DROP TABLE parent;
	CREATE TABLE parent (LIKE s) PARTITION BY RANGE (v);
	CREATE TABLE grandparent (LIKE s) PARTITION BY LIST (id);
	ALTER TABLE parent ATTACH PARTITION s DEFAULT;
	ALTER TABLE grandparent ATTACH PARTITION parent DEFAULT;
	ALTER FOREIGN TABLE s ADD CHECK (tableoid = 's'::regclass)});
my $readmit = "SELECT aion.readmit($ids{d})";
arm_fault($node, 'readmit-checked', 'wait');
$session->send("BEGIN; $readmit");
wait_for_fault($node, 'readmit-checked');
my $locker = Session->new($node);
$locker->query('BEGIN');
is($locker->query("SET lock_timeout = '5s'; LOCK ONLY parent, ONLY grandparent")->{ok} ? 1 : 0, 1, 'they can be locked while it waits for the scheduler');
release_fault($node, 'readmit-checked');
is($session->result->{ok} ? 1 : 0, 1, 'which does not wait for them');
$locker->query('COMMIT');
$session->query('COMMIT');

arm_fault($node, 'readmit-checked', 'wait');
$session->send("SELECT aion.readmit($ids{ds})");
wait_for_fault($node, 'readmit-checked');
sql('CREATE TABLE sibling PARTITION OF parent FOR VALUES FROM (1) TO (2)');
release_fault($node, 'readmit-checked');
like($session->result->{out}, qr/were changed by another transaction/, 'a sibling that leaves less to the default partition is noticed');
like(error_of("SELECT aion.readmit($ids{ds})"), qr/^ERROR:  23514: .*partition constraint/, 'and the event is not for it any more');

$node->stop;
done_testing();
