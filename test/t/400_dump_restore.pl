# Dumps of every format, of all of a database and by schema, restored in every way: all is as it was, and goes on by itself
# as its origin does.
use strict;
use warnings;

use Aion;
use Everything;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump', conf => "aion.late_interval = '20ms'\nmax_worker_processes = 32\nwal_level = logical", extension => 0);
my $dir = $node->basedir;

sub sql { my ($db, $sql) = @_; return $node->safe_psql($db, $sql) }

sub run { my ($name, @command) = @_; $node->command_ok(\@command, $name); return }

# Texts of many lines: the differences are enough.
sub same
{
	my ($got, $expected, $name) = @_;
	return pass($name) if $got eq $expected;
	my ($file_got, $file_expected) = map { "$dir/$_.txt" } qw(got expected);
	unlink $file_got, $file_expected;
	append_to_file($file_got, $got);
	append_to_file($file_expected, $expected);
	my $difference = `diff -U 2 '$file_expected' '$file_got' | cut -c 1-400 | head -n 60`;
	diag($difference);
	return fail($name);
}

Everything::roles($node);
sql('postgres', 'CREATE DATABASE origin');
Everything::create($node, 'origin');
my $state = Everything::state($node, 'origin');
my $objects = Everything::objects($node, 'origin');
like($state, qr/300\|/, 'there is something');

my @whole = ('--dbname', $node->connstr('origin'));
run('plain', 'pg_dump', '-f', "$dir/all.sql", @whole);
run('custom', 'pg_dump', '-Fc', '-f', "$dir/all.dump", @whole);
run('directory, in parallel', 'pg_dump', '-Fd', '-j', 3, '-f', "$dir/all.dir", @whole);
same(Everything::state($node, 'origin'), $state, 'the origin is as it was');

my @psql = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1');
my %restored = (
	'plain, in one transaction' => sub { my ($db) = @_; run($_[1], @psql, '--single-transaction', '-d', $node->connstr($db), '-f', "$dir/all.sql") },
	'plain' => sub { my ($db) = @_; run($_[1], @psql, '-d', $node->connstr($db), '-f', "$dir/all.sql") },
	'custom, in one transaction' => sub { my ($db) = @_; run($_[1], 'pg_restore', '--single-transaction', '-d', $node->connstr($db), "$dir/all.dump") },
	'directory, in parallel' => sub { my ($db) = @_; run($_[1], 'pg_restore', '-j', 3, '--exit-on-error', '-d', $node->connstr($db), "$dir/all.dir") },
);
my $n = 0;
my @copies;
for my $name (sort keys %restored)
{
	my $db = 'copy' . $n++;
	push @copies, [ $db, $name ];
	sql('postgres', "CREATE DATABASE $db");
	$restored{$name}->($db, "$name: restore");
	same(Everything::objects($node, $db), $objects, "$name: objects");
	same(Everything::state($node, $db), $state, "$name: state");
}

Everything::go_on($node, 'origin');
my $outcome = Everything::outcome($node, 'origin');
Everything::oracle($node, 'origin', 'origin');
for my $copy (@copies)
{
	my ($db, $name) = @$copy;
	Everything::go_on($node, $db);
	same(Everything::outcome($node, $db), $outcome, "$name: goes on as its origin");
	Everything::oracle($node, $db, $name);
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
