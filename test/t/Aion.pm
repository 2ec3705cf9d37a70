# What the TAP tests share: servers with the extension, its workers, fault points, and the comparison with the oracle.
#
# Nothing here sleeps for a time that is guessed: each wait polls for a condition and gives up after the time-out of
# PostgreSQL's own test modules, failing the test.
package Aion;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  new_node sync_stream wait_until oracle_ok
  worker_pid kill_worker kill_server
  arm_fault wait_for_fault release_fault wait_for_crash
);

my $CONFIG = dirname(abs_path(__FILE__)) . '/../aion.conf';
my $TIMEOUT = $PostgreSQL::Test::Utils::timeout_default;

# Polls a condition on this machine, as poll_query_until does one in a server.
sub _poll
{
	my ($condition) = @_;
	for (1 .. $TIMEOUT * 100)
	{
		return 1 if $condition->();
		usleep(10_000);
	}
	return 0;
}

# new_node(NAME [, conf => TEXT] [, start => 0] [, extension => 0] [, init => [...]] [, cluster => [...]])
#
# A server configured as all tests are, plus the given lines; started, with the extension in database postgres. It comes
# back by itself after a crash, unlike those of the core tests, since crashing is what many tests here do.
sub new_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, @{ $option{cluster} // [] });
	$node->init(@{ $option{init} // [] });
	$node->append_conf('postgresql.conf', slurp_file($CONFIG) . "restart_after_crash = on\n" . ($option{conf} // '') . "\n");
	return $node unless $option{start} // 1;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION aion') if $option{extension} // 1;
	return $node;
}

# Returns when all that is committed is reflected in results, late events included.
sub sync_stream
{
	my ($node, $stream, $dbname) = @_;
	$node->safe_psql($dbname // 'postgres', "SELECT aion.sync('$stream', late => true)");
	return;
}

# Waits until the query answers true. Tolerates a server that is down or recovering meanwhile.
sub wait_until
{
	my ($node, $query, $name, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until($dbname // 'postgres', $query), $name // "wait for: $query");
}

# A view must hold exactly the rows of the batch query, which yields the view's columns: window_start, window_end, then
# its own. Both are read by one statement, hence under one snapshot.
sub oracle_ok
{
	my ($node, $view, $batch_sql, $name, $dbname) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $difference = $node->safe_psql($dbname // 'postgres', qq{
		WITH expected AS ($batch_sql), actual AS (SELECT * FROM $view)
		(SELECT 'missing' AS row, e.* FROM (TABLE expected EXCEPT ALL TABLE actual) e LIMIT 20)
		UNION ALL
		(SELECT 'extra', a.* FROM (TABLE actual EXCEPT ALL TABLE expected) a LIMIT 20)});
	return is($difference, '', $name // "$view equals its batch query");
}

# The process of a worker, KIND as in pg_stat_activity without the prefix (launcher, scheduler, ...); waits until there
# is one. With a database's name, the one that serves it.
sub worker_pid
{
	my ($node, $kind, $dbname) = @_;
	my $where = "backend_type = 'aion $kind'" . ($dbname ? " AND datname = '$dbname'" : '');
	my $pid;
	_poll(
		sub {
			(my $code, $pid, my $error) = $node->psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $where ORDER BY pid LIMIT 1");
			return $code == 0 && $pid ne '';
		}) or die "no aion $kind came up";
	return $pid;
}

# Kills a worker and returns when that process is gone. KILL, the default, makes the server restart all its processes;
# TERM ends this one alone. Its successor is not waited for: worker_pid does that.
sub kill_worker
{
	my ($node, $kind, $signal, $dbname) = @_;
	my $pid;

	# one that has just ended by itself is not the one that is meant
	_poll(sub { return kill($signal // 'KILL', $pid = worker_pid($node, $kind, $dbname)) == 1 }) or die "could not signal aion $kind, process $pid: $!";
	_poll(sub { !kill(0, $pid) }) or die "aion $kind, process $pid, did not end";
	return $pid;
}

# Kills the postmaster as a failing machine would, and starts the server again as soon as its orphans have let go of the
# data folder.
sub kill_server
{
	my ($node) = @_;
	my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
	$node->kill9;
	_poll(sub { !kill(0, $pid) }) or die "postmaster $pid did not end";
	_poll(
		sub {
			return 1 if $node->start(fail_ok => 1);
			$node->stop('fast', fail_ok => 1);    # what a start that failed left behind
			return 0;
		}) or die 'the server did not start after kill -9';
	return;
}

# Waits until the server has restarted all its processes, after the end of its log was at $from. One that answers need not
# have noticed yet that one of them crashed.
sub wait_for_crash
{
	my ($node, $from) = @_;
	_poll(sub { slurp_file($node->logfile, $from) =~ /reinitializing.*ready to accept connections/s }) or die 'the server did not restart after a crash';
	return;
}

# ---- fault points (test builds only) ------------------------------------------------------------------------------
#
# A fault point is armed by a file in the data folder, aion_fault.NAME, that says what happens to the first process that
# gets there: crash, error or wait. That process removes the file. One that waits makes aion_fault.NAME.waiting and goes
# on when this is removed.

sub _fault_file
{
	my ($node, $name) = @_;
	return $node->data_dir . "/aion_fault.$name";
}

# Arms a fault point. Written aside and renamed, so that no process ever reads half a file.
sub arm_fault
{
	my ($node, $name, $action) = @_;
	die "unknown action \"$action\"" unless $action =~ /^(crash|error|wait)$/;
	my $file = _fault_file($node, $name);
	append_to_file("$file.new", $action);
	rename("$file.new", $file) or die "could not arm $name: $!";
	return;
}

# Returns when a process has got there: it waits there now, or has consumed the fault.
sub wait_for_fault
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $file = _fault_file($node, $name);
	return ok(_poll(sub { !-e $file }), "fault point $name was reached");
}

# Lets the process that waits at a fault point go on. Before any process got there, it disarms the point.
sub release_fault
{
	my ($node, $name) = @_;
	my $file = _fault_file($node, $name);
	return if unlink($file);
	_poll(sub { -e "$file.waiting" }) or die "no process waits at fault point $name";
	unlink("$file.waiting") or die "could not release $name: $!";
	return;
}

1;
