# Versions of the extension: one that was installed, one that was updated and one that was dumped and restored are the same
# in every catalog; an update leaves streams and views at work; each release leaves a way to update from it.
use strict;
use warnings;

use Aion;
use Catalog;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = new_node('versions', extension => 0);
my $dir = $node->basedir;
my $project = dirname(abs_path(__FILE__)) . '/../..';
my $scripts = $node->config_data('--sharedir') . '/extension';
my ($version) = slurp_file("$scripts/aion.control") =~ /^default_version = '(.*)'/m;

sub sql { my ($db, $sql) = @_; return $node->safe_psql($db, $sql) }

sub database { my ($db, $sql) = @_; sql('postgres', "CREATE DATABASE $db"); sql($db, $sql) if $sql; return }

sub script { my ($name, $text) = @_; unlink "$scripts/$name"; append_to_file("$scripts/$name", $text); return }

# The lines that differ, for the log.
sub differences
{
	my ($one, $other) = @_;
	my %lines;
	$lines{$_}++ for split /\n/, $one;
	$lines{$_}-- for split /\n/, $other;
	return map { ($lines{$_} > 0 ? '- ' : '+ ') . substr($_, 0, 300) } grep { $lines{$_} } sort keys %lines;
}

sub same
{
	my ($got, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($got eq $expected, $name) || diag(join "\n", differences($expected, $got));
}

# Dumps a database and restores it into another one.
sub copy
{
	my ($from, $to) = @_;
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/$from.dump", '-d', $node->connstr($from) ], "dump of $from");
	database($to);
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr($to), "$dir/$from.dump" ], "restore into $to");
	return;
}

database('installed', 'CREATE EXTENSION aion');
my $expected = Catalog::extension($node, 'installed');
like($expected, qr/aion\.window_firing/, 'there is an extension');
copy('installed', 'restored');
same(Catalog::extension($node, 'restored'), $expected, 'restored is as installed');

# ---- releases ------------------------------------------------------------------------------------------------------------

# A release leaves its script as it was in sql/released, and a script that updates from it.
my @released = grep { !/unreleased/ } slurp_file("$project/CHANGELOG.md") =~ /^## (.*)$/mg;
for my $release (map { (split)[0] } @released)
{
	ok(-f "$project/sql/released/aion--$release.sql", "script of release $release");
}
my @old = map { /aion--(.*)\.sql$/ } glob("$project/sql/released/aion--*.sql");
for my $release (grep { $_ ne $version } @old)
{
	script("aion--$release.sql", slurp_file("$project/sql/released/aion--$release.sql"));
	(my $db = "from_$release") =~ s/\W/_/g;
	database($db, "CREATE EXTENSION aion VERSION '$release'; ALTER EXTENSION aion UPDATE");
	same(Catalog::extension($node, $db), $expected, "updated from $release is as installed");
}
if (grep { $_ eq $version } @old)
{
	is(slurp_file("$project/sql/released/aion--$version.sql"), slurp_file("$scripts/aion--$version.sql"), "what was released as $version is not changed");
}

# ---- the way itself --------------------------------------------------------------------------------------------------------

# An earlier version made up here: what an update has to bring is taken out of the present script, kind by kind.
my $old = slurp_file("$scripts/aion--$version.sql");
my @update;
sub take
{
	my ($pattern, $instead, $update) = @_;
	my ($found) = $old =~ /($pattern)/;
	die "not in the script: $pattern" unless defined $found;
	$old =~ s/\Q$found\E/$instead/;
	push @update, $update // $found;
	return;
}
take(qr/CREATE FUNCTION aion\.readmit\(.*?;\n/s, '');
take(qr/COMMENT ON FUNCTION aion\.readmit\(.*?;\n/s, '');
take(qr/GRANT SELECT ON aion\.io TO PUBLIC;\n/, '');
take(qr/SELECT pg_catalog\.pg_extension_config_dump\('aion\.stream_lateness', ''\);\n/, '');
take(qr/CREATE INDEX set_aside_stream .*?;\n/, '');
take(qr/ CHECK \(staleness BETWEEN 0 AND 1\)/, '', "ALTER TABLE aion.view_def ADD CONSTRAINT view_def_staleness_check CHECK (staleness BETWEEN 0 AND 1);\n");
take(qr/, d\.retain, s\.results_removed_through(?=\n\t  FROM aion\.view_def)/, '', '');
pop @update;
my ($views) = slurp_file("$scripts/aion--$version.sql") =~ /CREATE (VIEW aion\.views .*?;\n)/s;
push @update, "CREATE OR REPLACE $views";
take(qr/COMMENT ON COLUMN aion\.views\.retain .*?;\nCOMMENT ON COLUMN aion\.views\.results_removed_through .*?;\n/s, '');
script('aion--0.0.sql', $old);
my $guard = qq{\\echo Use "ALTER EXTENSION aion UPDATE" to load this file. \\quit\n};
script("aion--0.0--$version.sql", join '', $guard, @update);

database('updated', "CREATE EXTENSION aion VERSION '0.0'");
isnt(Catalog::extension($node, 'updated'), $expected, 'the earlier version differs');
sql('updated', q{
	CREATE FOREIGN TABLE s (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	CREATE TABLE t (id int, at timestamptz NOT NULL);
	SELECT aion.create_view('v', 'SELECT count(*) AS n, sum(id) AS ids FROM s', aion.tumbling('1 min'))});
my $rows = q{SELECT g, timestamptz '2024-03-01 08:00+00' + g * interval '1 s' FROM generate_series(%d, %d) g};
sql('updated', sprintf("INSERT INTO t $rows", 1, 600));
sql('updated', sprintf("INSERT INTO s $rows", 1, 300));
# an update while somebody inserts, and workers are at work
my $session = Session->new($node, 'updated');
$session->must('BEGIN; ' . sprintf("INSERT INTO s $rows", 301, 400));
sql('updated', "SELECT aion.advance_watermark('s', '2024-03-01 08:04+00')");
sql('updated', 'SET lock_timeout = 10000; ALTER EXTENSION aion UPDATE');
$session->must('COMMIT');
$session->must(sprintf("INSERT INTO s $rows", 401, 600));
$session->must("SELECT aion.advance_watermark('s', '2024-03-01 08:11+00')");
$session->must("SELECT aion.sync('s', late => true)");
my $batch = q{
	SELECT date_trunc('minute', at) AS window_start, date_trunc('minute', at) + interval '1 min' AS window_end, count(*) AS n, sum(id) AS ids
	  FROM t GROUP BY 1, 2};
oracle_ok($node, 'v', $batch, 'results after the update', 'updated');
same(Catalog::extension($node, 'updated'), $expected, 'updated is as installed');
copy('updated', 'updated_restored');
same(Catalog::extension($node, 'updated_restored'), $expected, 'updated, dumped and restored is as installed');
sql('updated_restored', "INSERT INTO s VALUES (601, '2024-03-01 08:00:30'); INSERT INTO t VALUES (601, '2024-03-01 08:00:30'); SELECT aion.sync('s', late => true)");
oracle_ok($node, 'v', $batch, 'results after that', 'updated_restored');
$session->close;

# whatever an update leaves out is noticed
for my $i (0 .. $#update)
{
	my @short = @update;
	my ($left_out) = splice @short, $i, 1;
	next if $left_out =~ /^CREATE FUNCTION|^CREATE OR REPLACE/;	# what follows needs it
	script("aion--0.0--$version.sql", join '', $guard, @short);
	database("short$i", "CREATE EXTENSION aion VERSION '0.0'; ALTER EXTENSION aion UPDATE");
	my @differences = differences($expected, Catalog::extension($node, "short$i"));
	ok(@differences > 0, 'noticed if left out: ' . (split /\n/, $left_out)[0]);
}

unlink "$scripts/aion--0.0.sql", "$scripts/aion--0.0--$version.sql";
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
