# Every fault point in src/debug_points.inc: the workload below reaches it, a process crashes (and with it the server) or
# fails there, and after that everything is exact. A point that the workload does not reach fails the test, so that the
# list and the workload stay in step.
use strict;
use warnings;

use Aion;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Oracle qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql);
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;
use Time::HiRes qw(time usleep);

my $list = slurp_file(dirname(abs_path(__FILE__)) . '/../../src/debug_points.inc');
# whether a serializer gets to do anything here is a matter of time: 230_serializers sees to theirs; where nothing can fail
# any more 210_snapshots waits; restores are in 405_restore_ways
my @points = grep { !/^serializer-|^definitions-committed$|^stream-adopted$/ } $list =~ /"([^"]+)"/g;
@points = split /,/, $ENV{AION_POINTS} if $ENV{AION_POINTS};

my $node = new_node('faults', conf => "aion.late_interval = '10ms'\naion.memory = '4MB'\nautovacuum = off");
my $session = Session->new($node);
my $serial = 0;
my $next_id = 1;

# One statement or transaction of the workload. What a crash took, or an error rolled back, is done again until it
# succeeds: a COMMIT whose outcome is unknown is looked up, as an application would.
sub doing
{
	my ($sql, %option) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $deadline)
	{
		my $result = $session->query($sql);
		return $result->{out} if $result->{ok};
		if ($result->{lost}) { $session->connect }
		elsif ($result->{out} =~ /fault point/ || $option{retry}) { $session->query('ROLLBACK') }
		else { die "failed: $sql\n$result->{out}" }
		return '' if $option{done} && doing($option{done}) eq 't';
		usleep(20_000);
	}
	die "did not succeed in time: $sql";
}

# A transaction that writes the same events to stream and table.
sub write_events
{
	my ($s, $select, $n) = @_;
	my $id = $next_id;
	$next_id += $n;
	my $sql = "BEGIN;\n" . join("\n", map { "INSERT INTO $_$s SELECT i, i % 5, (i * 7919) % 100, repeat('n', (i % 9)::int), $select FROM generate_series($id\::bigint, " . ($id + $n - 1) . ") i;" } 's', 'p') . "\nCOMMIT";
	# psql goes on after an error in the middle; then the COMMIT rolls back
	return doing_exactly_once($sql, "SELECT EXISTS (SELECT FROM p$s WHERE id = $id)");
}

sub doing_exactly_once
{
	my ($sql, $done) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $deadline)
	{
		my $result = $session->query($sql);
		$session->connect if $result->{lost};
		return if doing($done) eq 't';
		die "failed: $sql\n$result->{out}" unless $result->{lost} || $result->{out} =~ /fault point/;
	}
	die "did not succeed in time: $sql";
}

my @LAYOUT = (
	{ query => $QUERIES[0], size => 60_000_000, slide => 60_000_000, origin => DEFAULT_ORIGIN },
	{ query => $QUERIES[3], size => 150_000_000, slide => 70_000_000, origin => DEFAULT_ORIGIN },
	# fails for one window of the first minute: 100 / v with v = 0
	{ query => 'SELECT k, sum(100 / v) AS s FROM {S} e GROUP BY k', size => 600_000_000, slide => 600_000_000, origin => DEFAULT_ORIGIN, fails => 1 },
);

# A view whose windows become final while their events are kept.
sub kept_view { return { %{ $LAYOUT[0] }, name => "vk$_[0]", allowed_lateness => "'5 min'" } }

# Reaches every point once at least. Three streams: one whose events are kept, so that views can be compared with all of
# them, one whose windows become final, whose late events are set aside and whose past is purged, and one whose events that
# were set aside are applied after all.
sub workload
{
	my ($reached) = @_;
	my $n = ++$serial;
	my $at = "timestamptz '2024-03-01 10:00+00'";
	my @steps = (
		sub {
			doing("CREATE TABLE IF NOT EXISTS p$_ (" . COLUMNS . ')') for $n, "x$n";
			doing("CREATE FOREIGN TABLE IF NOT EXISTS s$n (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark_interval '5 ms', allowed_lateness 'unlimited', bucket_width '30 s', idle_timeout 'off')");
			doing("CREATE FOREIGN TABLE IF NOT EXISTS sx$n (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark_interval '5 ms', allowed_lateness '5 min', bucket_width '30 s', watermark 'manual')");
		},
		# first events: the stream is registered, and a view taken up afterwards has something to count
		sub { write_events($n, "$at + i % 100 * interval '1 s'", 200) },
		sub {
			for my $i (0 .. $#LAYOUT)
			{
				my $view = { %{ $LAYOUT[$i] }, name => "v${n}_$i" };
				doing(create_view_sql($view, "s$n"), done => "SELECT to_regclass('v${n}_$i') IS NOT NULL");
			}
		},
		# more than a transaction's share of memory: some has no chunk, and is folded
		sub { write_events($n, "$at + i % 900 * interval '1 s'", 15000) },
		# an event so large that only VACUUM gives back what the journal keeps of it
		sub { doing_exactly_once(join("\n", 'BEGIN;', (map { "INSERT INTO $_$n SELECT -1, 1, 1, repeat('x', 1500000), $at;" } 's', 'p'), 'COMMIT'), "SELECT EXISTS (SELECT FROM p$n WHERE id = -1)") },
		sub { doing("SELECT aion.sync('s$n', late => true)") },
		sub { doing("SELECT aion.destage('s$n')") },
		# late events
		sub { write_events($n, "$at + i % 100 * interval '0.9 s'", 100) },
		sub { doing("SELECT aion.sync('s$n', late => true)") },
		sub { doing("SELECT aion.refresh('v${n}_0')") },
		# expiry and purge
		sub { write_events("x$n", "$at + i % 100 * interval '1 s'", 200) },
		sub {
			doing(create_view_sql({ %{ $LAYOUT[0] }, name => "vx$n" }, "sx$n"), done => "SELECT to_regclass('vx$n') IS NOT NULL");
			doing("SELECT aion.sync('sx$n')");
			doing("SELECT aion.destage('sx$n')") if $n % 2;
			doing("SELECT aion.advance_watermark('sx$n', '2024-03-01 10:30+00')");
			doing("SELECT aion.sync('sx$n')");
			wait_until($node, "SELECT count(*) = 0 FROM sx$n", "past of sx$n is purged") or die "not purged";
		},
		# too late; put aside
		sub { doing_exactly_once("BEGIN;\nINSERT INTO sx$n SELECT i, 1, 1, 'late', $at FROM generate_series(1, 3) i;\nINSERT INTO px$n SELECT -1, 1, 1, 'late', $at;\nCOMMIT", "SELECT EXISTS (SELECT FROM px$n WHERE id = -1)") },
		sub { doing("SELECT aion.sync('sx$n')") },
		sub { doing("SELECT aion.reset_watermark('sx$n', '2024-03-01 10:25+00')") },
		# set aside, and applied after all; results that are not retained
		sub {
			doing("CREATE TABLE IF NOT EXISTS pr$n (" . COLUMNS . ')');
			doing("CREATE FOREIGN TABLE IF NOT EXISTS sr$n (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark_interval '5 ms', allowed_lateness '1 day', bucket_width '30 s', watermark 'manual')");
			write_events("r$n", "$at + i % 100 * interval '1 s'", 100);
			for my $view (kept_view($n), { %{ kept_view($n) }, name => "vg$n", retain => "'10 min'" })
			{
				doing(create_view_sql($view, "sr$n"), done => "SELECT to_regclass('$view->{name}') IS NOT NULL");
			}
			doing("SELECT aion.advance_watermark('sr$n', '2024-03-01 10:30+00')");
			doing("SELECT aion.sync('sr$n')");
		},
		sub { write_events("r$n", "$at + i % 3 * interval '1 s'", 3) },
		sub { doing("SELECT aion.sync('sr$n')") },
		sub { doing("SELECT aion.readmit(VARIADIC (SELECT coalesce(array_agg(id), '{}') FROM aion.expired WHERE stream = 'sr$n'::regclass))") },
		sub { wait_until($node, "SELECT count(*) = 0 FROM vg$n", "results of vg$n are removed") or die "not removed" },
		# TRUNCATE, of a fourth stream
		sub {
			doing("CREATE FOREIGN TABLE IF NOT EXISTS st$n (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at')");
			doing("INSERT INTO st$n VALUES (1, 1, 1, 'gone', now())");
			doing("TRUNCATE st$n");
		},
		# memory gone without a crash of its own: not durable
		sub {
			doing("CREATE FOREIGN TABLE IF NOT EXISTS su$n (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', durable 'off')");
			doing("INSERT INTO su$n VALUES (1, 1, 1, 'lost', now())");
			doing("SELECT aion.sync('su$n')");
		},
		sub {
			$node->stop('immediate');
			$node->start;
			$session->connect;
			doing("SELECT aion.sync('su$n')");
			doing("SELECT aion.sync('s$n', late => true)");
		},
		sub { doing("VACUUM p$n"); doing("SELECT aion.destage('s$n')") },
	);
	for my $step (@steps)
	{
		$step->();
	}
	return $n;
}

# Everything of a workload's run is as if nothing had happened.
sub exact
{
	my ($n) = @_;
	my @wrong;
	doing("SELECT aion.sync('s$n', late => true)");
	push @wrong, map { "s$n: $_" } compare($session, "SELECT * FROM s$n", "SELECT * FROM p$n") || ();
	for my $i (0 .. $#LAYOUT)
	{
		my $view = { %{ $LAYOUT[$i] }, name => "v${n}_$i" };
		doing("SELECT aion.refresh('$view->{name}')");
		if ($view->{fails})
		{
			my $state = doing("SELECT string_agg(DISTINCT state, ',') FROM aion.windows WHERE view = 'v${n}_$i'::regclass");
			push @wrong, "windows of $view->{name} are $state" if $state !~ /failed/;
			next;
		}
		my $difference = compare($session, "SELECT * FROM $view->{name}", batch_query($view, "p$n"));
		push @wrong, "$view->{name}: $difference" if $difference ne '';
		my $counts = doing("SELECT on_time_firings, (SELECT count(DISTINCT window_start) FROM $view->{name} v, aion.streams s WHERE s.stream = 's$n'::regclass AND v.window_end <= s.watermark) FROM aion.views WHERE view = '$view->{name}'::regclass");
		push @wrong, "$view->{name}: on-time firings, complete windows: $counts" if $counts !~ /^(\d+)\|\1$/;
	}
	push @wrong, map { "sr$n: $_" } compare($session, "SELECT * FROM sr$n", "SELECT * FROM pr$n") || ();
	push @wrong, map { "vk$n: $_" } compare($session, "SELECT * FROM vk$n", batch_query(kept_view($n), "pr$n")) || ();
	my %want = (
		"SELECT events = (SELECT count(*) FROM p$n) AND expired_events = 0 FROM aion.streams WHERE stream = 's$n'::regclass" => 't',
		"SELECT events, expired_events FROM aion.streams WHERE stream = 'sx$n'::regclass" => '203|3',
		"SELECT count(*) FROM sx$n" => '0',
		"SELECT count(*), count(DISTINCT event->>'id') FROM aion.expired WHERE stream = 'sx$n'::regclass" => '3|3',
		"SELECT final_firings, on_time_firings FROM aion.views WHERE view = 'vx$n'::regclass" => '2|2',
		"SELECT sum(n) FROM vx$n" => '200',
		"SELECT count(*) FROM st$n" => '0',
		"SELECT events, expired_events FROM aion.streams WHERE stream = 'sr$n'::regclass" => '103|3',
		"SELECT count(*) FROM aion.expired WHERE stream = 'sr$n'::regclass" => '0',
		"SELECT final_firings, on_time_firings FROM aion.views WHERE view = 'vk$n'::regclass" => '2|2',
		"SELECT final_firings, on_time_firings FROM aion.views WHERE view = 'vg$n'::regclass" => '2|2',
		"SELECT count(*) FROM vg$n" => '0',
	);
	for my $sql (sort keys %want)
	{
		my $got = doing($sql);
		push @wrong, "$sql: $got, not $want{$sql}" if $got ne $want{$sql};
	}
	doing("DROP FOREIGN TABLE IF EXISTS s$n, sx$n, sr$n, st$n, su$n CASCADE");
	doing("DROP TABLE p$n, px$n, pr$n");
	return join "\n", @wrong;
}

sub fault_file { return $node->data_dir . "/aion_fault.$_[0]" }

# First without any fault: an unknown action only takes the file away.
append_to_file(fault_file($_), 'nothing') for @points;
my $begin = time;
my $n = workload();
ok(!-e fault_file($_), "$_: reached") for @points;
unlink fault_file($_) for @points;
is(exact($n), '', 'exact without a fault');
note(sprintf 'one workload takes %.1f s', time - $begin);

for my $action ($ENV{AION_ACTION} // ('crash', 'error'))
{
	for my $point (@points)
	{
		arm_fault($node, $point, $action);
		my $n = eval { workload() };
		my $error = $@;
		my $reached = !-e fault_file($point);
		unlink fault_file($point);
		ok($reached, "$point: reached to $action") or diag($error);
		my $wrong = $error ne '' ? $error : eval { exact($n) } // $@;
		is($wrong, '', "$point: exact after $action");
	}
}
$session->close;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
