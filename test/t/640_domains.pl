# Domains check values when these come. Reading runs no check, whatever the values are part of, so neither a reader's rights
# are at its disposal nor can a check that came later make events unreadable.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('domains', conf => "aion.late_interval = 0\nlog_min_messages = log");

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $looked_at = 0;

# Who has checked values since the last look.
sub checkers
{
	my %users = map { $_ => 1 } substr(slurp_file($node->logfile), $looked_at) =~ /checked as (\w+)/g;
	$looked_at = -s $node->logfile;
	return join ',', sort keys %users;
}

# ---- types in which domains are stored as text, with what a table reads from the same literals ------------------------------

sql(q{
	CREATE ROLE eve;
	GRANT USAGE ON FOREIGN SERVER aion TO eve;
	GRANT CREATE ON SCHEMA public TO eve;
	SET ROLE eve;
	CREATE FUNCTION trap(text) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE LOG 'checked as %', current_user; RETURN $1 <> 'later'; END$$;
	CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE DOMAIN dmood AS mood CHECK (public.trap(VALUE::text));
	CREATE DOMAIN dint AS int CHECK (public.trap(VALUE::text));
	CREATE DOMAIN dbox AS box CHECK (public.trap(VALUE::text));
	CREATE DOMAIN dnum AS numeric(6,2) CHECK (public.trap(VALUE::text));
	CREATE DOMAIN ddnum AS dnum NOT NULL;
	CREATE DOMAIN dints AS dint[] CHECK (public.trap(VALUE::text));
	CREATE TYPE pair AS (a dint, gone int, b text, m dmood, n dnum);
	ALTER TYPE pair DROP ATTRIBUTE gone;
	CREATE DOMAIN dpair AS pair CHECK (public.trap(VALUE::text));
	CREATE TYPE nest AS (p dpair, ps pair[], i dints, x int);
	CREATE TYPE drange AS RANGE (subtype = dint)});
my @columns = (
	['dmood', q{'sad'}],
	['dmood[]', q{'[0:1]={sad,NULL}'}],
	['dint[]', q{'{{1,2},{3,NULL}}'}],
	['dbox[]', q{'{(2,2),(1,1);(4,4),(3,3)}'}],
	['dnum[]', q{'{1.005,-2}'}],
	['ddnum[]', q{'{1.50,2}'}],
	['dints', q{'{1,2}'}],
	['dints[]', q{'[3:4]={"{1,NULL}","{}"}'}],
	['pair', q{'(1,"x,""y"" (",happy,3.456)'}],
	['pair', q{'(,,,)'}],
	['dpair', q{'(5,,sad,)'}],
	['pair[]', q{'{"(1,\\"a b\\",,)",NULL,"(2,,sad,1.1)"}'}],
	['dpair[]', q{'{}'}],
	['nest', q{ROW('(1,"\\\\",sad,2)', '{"(7,\\"{}\\",happy,)"}', '{4,5}', 6)}],
	['nest[]', q{ARRAY[ROW(NULL, NULL, '{}', NULL)::nest, ROW('(1,b,,)', '{NULL}', NULL, 1)::nest]}]);
my $names = join ', ', map { "c$_ $columns[$_][0]" } 0 .. $#columns;
my $values = join ', ', map { $_->[1] } @columns;
my $nulls = join ', ', map { 'NULL' } @columns;
sql(qq{
	SET ROLE eve;
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, $names) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	CREATE TABLE plain (at timestamptz, $names);
	INSERT INTO plain VALUES ('2024-03-01 10:00', $values), ('2024-03-01 10:01', $nulls);
	INSERT INTO s TABLE plain;
	CREATE FOREIGN TABLE r (at timestamptz NOT NULL, v drange) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	INSERT INTO r VALUES ('2024-03-01 10:00', '[1,5)')});
is(checkers(), 'eve', 'values are checked as they come');

sub compare
{
	my ($when) = @_;
	is(sql('SELECT count(*) FROM (SELECT s::text FROM s INTERSECT ALL SELECT plain::text FROM plain) x'), '2', "values are read as a table's: $when");
	is(sql('SELECT count(*) FROM s, plain WHERE s.* *= plain.*'), '2', "and are the same bytes: $when");
}

compare('from the journal');
sql(q{SELECT aion.destage('s')});
compare('from blocks');
is(checkers(), '', 'nobody checks what he reads');
is(sql('SELECT v FROM r'), '[1,5)', 'a range over a domain is read');
is(checkers(), 'eve', 'and is checked with the rights of the owner');

# ---- a check that came later -------------------------------------------------------------------------------------------------

sql(q{
	SET ROLE eve;
	ALTER DOMAIN dmood ADD CHECK (VALUE IS NULL) NOT VALID;
	ALTER DOMAIN dint ADD CHECK (VALUE < 0) NOT VALID;
	ALTER DOMAIN dints ADD CHECK (VALUE IS NULL) NOT VALID;
	ALTER DOMAIN dpair ADD CHECK (VALUE IS NULL) NOT VALID});
checkers();
compare('after a check was added');
is(checkers(), '', 'which is not executed');
like(($node->psql('postgres', q{INSERT INTO s (at, c0) VALUES ('2024-03-01 10:02', 'sad')}))[2], qr/violates check constraint/, 'other than on insertion');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
