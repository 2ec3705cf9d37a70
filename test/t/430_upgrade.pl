# pg_upgrade, and a dump restored by the newer server's programs: from the server that AION_OLD_SERVER names (a folder with its
# bin and the extension), or else from one of the same version.
use strict;
use warnings;

use Aion;
use Catalog;
use Cwd qw(abs_path getcwd);
use Everything;
use PostgreSQL::Test::Utils;
use Test::More;

my $old_server = $ENV{AION_OLD_SERVER};
# also for what pg_upgrade starts
$ENV{LD_LIBRARY_PATH} = "$old_server/lib" if $old_server;
my $conf = "aion.late_interval = '20ms'\nmax_worker_processes = 32";
# what is the default depends on the version, and both must have the same
my @init = (extra => [ '--locale', 'C', '--encoding', 'UTF8', '--data-checksums' ]);

my $old = new_node('old', conf => $conf, start => 0, init => [@init], cluster => $old_server ? [ install_path => $old_server ] : []);
my $new = new_node('new', conf => $conf, start => 0, init => [@init]);
note('from ' . $old->pg_version . ' to ' . $new->pg_version);

sub same
{
	my ($got, $expected, $name) = @_;
	# some versions write queries with the tables' aliases, where these can be left out
	s/\b[de]\.//g for $got, $expected;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %lines;
	$lines{$_}++ for split /\n/, $expected;
	$lines{$_}-- for split /\n/, $got;
	return ok($got eq $expected, $name) ||
	  diag(join "\n", grep { defined } (map { ($lines{$_} > 0 ? '- ' : '+ ') . substr($_, 0, 400) } grep { $lines{$_} } sort keys %lines)[ 0 .. 40 ]);
}

# Some definitions are written in another way by another version.
my $same_version = $old->pg_version == $new->pg_version;

$old->start;
Everything::roles($old);
$old->safe_psql('postgres', 'CREATE DATABASE origin');
Everything::create($old, 'origin');
my $state = Everything::state($old, 'origin');
my $objects = Everything::objects($old, 'origin');
my $extension = Catalog::extension($old, 'origin');

# ---- a dump, made and restored by the newer server's programs ------------------------------------------------------------

my $dir = $new->basedir;
$new->command_ok([ 'pg_dump', '-Fd', '-j', 2, '-f', "$dir/dump", '-d', $old->connstr('origin') ], 'dump');
# a second database to be upgraded, with events in memory alone and nothing accounted for
$old->safe_psql('postgres', 'CREATE DATABASE small');
$old->safe_psql('small', q{
	CREATE EXTENSION aion;
	CREATE FOREIGN TABLE s (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
	SELECT aion.create_view('v', 'SELECT count(*) AS n FROM s', aion.tumbling('1 min'))});
$old->safe_psql('small', q{SELECT aion.sync('s')});
arm_fault($old, 'pass-before-commit', 'error');
$old->safe_psql('small', q{INSERT INTO s SELECT g, timestamptz '2024-03-01 08:00+00' + g * interval '1 s' FROM generate_series(0, 599) g});
$old->stop;

# ---- pg_upgrade ----------------------------------------------------------------------------------------------------------

# started processes show in logs, which are kept; it writes some things where it is run
$_->append_conf('postgresql.conf', 'log_min_messages = debug1') for $old, $new;
mkdir "$dir/upgrade";
my $here = getcwd();
my ($old_data, $new_data) = map { abs_path($_->data_dir) } $old, $new;
chdir "$dir/upgrade" or die "chdir: $!";
$new->command_ok([ 'pg_upgrade', '--no-sync', '--retain', '-d', $old_data, '-D', $new_data, '-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'),
		'-s', $new->host, '-p', $old->port, '-P', $new->port ], 'pg_upgrade');
chdir $here or die "chdir: $!";
my $logs = join '', map { slurp_file($_) } glob("$new_data/pg_upgrade_output.d/*/log/pg_upgrade_server*.log");
like($logs, qr/DEBUG: .*database system is ready to accept connections/s, 'logs of the servers that it started');
unlike($logs, qr/"aion launcher"/, 'no worker of aion runs in them');
$_->append_conf('postgresql.conf', 'log_min_messages = warning') for $old, $new;
$new->start;
wait_until($new, q{SELECT count(*) >= 2 FROM pg_stat_activity WHERE backend_type = 'aion scheduler'}, 'workers come up');
# dependencies come with the first look of the scheduler
wait_until($new, q{
	SELECT count(*) = 0 FROM aion.view_def v WHERE NOT EXISTS (
		SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = v.results AND refobjid = v.view AND deptype = 'i')},
	'views are whole again', 'origin');
same(Everything::state($new, 'origin'), $state, 'upgraded: state');
if ($same_version)
{
	same(Everything::objects($new, 'origin'), $objects, 'upgraded: objects');
	same(Catalog::extension($new, 'origin'), $extension, 'upgraded: extension');
}
$new->safe_psql('postgres', 'CREATE DATABASE fresh');
$new->safe_psql('fresh', 'CREATE EXTENSION aion');
same(Catalog::extension($new, 'small'), Catalog::extension($new, 'fresh'), 'upgraded: extension as installed');
is($new->safe_psql('small', q{SELECT count(*) FROM s}), 600, 'upgraded: events that only the journal had');
$new->safe_psql('small', q{SELECT aion.sync('s'); SELECT aion.refresh('v')});
is($new->safe_psql('small', q{SELECT count(*), sum(n) FROM v}), '10|600', 'upgraded: and nobody had accounted for');

$new->safe_psql('postgres', 'CREATE DATABASE restored');
$new->command_ok([ 'pg_restore', '--exit-on-error', '-j', 2, '-d', $new->connstr('restored'), "$dir/dump" ], 'restore');
same(Everything::state($new, 'restored'), $state, 'restored: state');
same(Everything::objects($new, 'restored'), Everything::objects($new, 'origin'), 'restored: objects as upgraded');
same(Catalog::extension($new, 'restored'), Catalog::extension($new, 'origin'), 'restored: extension as upgraded');

# ---- both go on as their origin --------------------------------------------------------------------------------------------

Everything::go_on($new, $_) for qw(origin restored);
my @outcome = map { Everything::outcome($new, $_) } qw(origin restored);
Everything::oracle($new, $_, $_) for qw(origin restored);
$new->safe_psql('origin', 'DROP VIEW app.resting');
is($new->safe_psql('origin', q{SELECT count(*) FROM pg_class WHERE relname ~ 'resting'}), 0, 'a view goes with all that belongs to it');
$old->start;
Everything::go_on($old, 'origin');
my $outcome = Everything::outcome($old, 'origin');
same($outcome[0], $outcome, 'upgraded: goes on as its origin');
same($outcome[1], $outcome, 'restored: goes on as its origin');
$new->stop;
$old->stop;
unlike(slurp_file($_->logfile), qr/TRAP:|PANIC:/, 'no assertion failed') for $old, $new;
done_testing();
