# Random schedules against the oracle: see Schedule.pm. The seed is printed; AION_SEED repeats a run, AION_ROUNDS and
# AION_STEPS lengthen it, AION_FIRST skips the rounds before,
# AION_KIND=mixed or expiry does one kind alone, AION_LATENESS sets the allowed lateness of streams in the latter (seconds). Without them it begins no round after 60 seconds.
use strict;
use warnings;

use Aion;
use Expiry qw(run_expiry_round);
use PostgreSQL::Test::Utils;
use Schedule qw(run_round);
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{AION_SEED} // int(rand(1_000_000));
my $rounds = $ENV{AION_ROUNDS} // 1000;
my $seconds = $ENV{AION_SECONDS} // ($ENV{AION_ROUNDS} ? 1e9 : 60);
my $steps = $ENV{AION_STEPS} // 120;
diag("AION_SEED=$seed");

my $node = new_node('oracle');
my $begin = time;
for my $round (($ENV{AION_FIRST} // 1) .. $rounds)
{
	last if time - $begin > $seconds;
	# each round has a seed of its own, so that the first AION_ROUNDS of a run are always the same
	srand($seed + $round);
	my $memory = (qw(4MB 32MB 4MB 8MB))[ int(rand(4)) ];
	my $interval = ('0', '20ms', '1s', '-1')[ int(rand(4)) ];
	my $executors = int(rand(4));
	my $policy = (qw(standard local global global-rate none))[ int(rand(5)) ];
	my $fraction = (0, 0.1, 0.5, 1)[ int(rand(4)) ];
	my $idle = (qw(auto 20ms))[ int(rand(2)) ];
	my $prestage = ('on', 'off')[ int(rand(2)) ];
	note("round $round: aion.memory $memory, late_interval $interval, executors $executors, prestage $prestage, $policy policy, bootstrap_fraction $fraction, idle_destage $idle");
	$node->append_conf('postgresql.conf', "aion.memory = '$memory'\naion.late_interval = '$interval'\naion.executors = $executors\naion.prestage = $prestage\n"
		  . "aion.destage_policy = '$policy'\naion.bootstrap_fraction = $fraction\naion.idle_destage = '$idle'");
	$node->restart;
	my $good = eval {
		($ENV{AION_KIND} // ($round % 3 ? 'mixed' : 'expiry')) eq 'expiry'
		  ? run_expiry_round($node, $round, steps => $steps / 3)
		  : run_round($node, $round, steps => $steps, bulk => $memory eq '4MB');
	};
	if (!$good)
	{
		fail("round $round: $@") if $@;
		diag("repeat with AION_SEED=$seed AION_ROUNDS=$round AION_STEPS=$steps");
		last;
	}
	note(sprintf('round %d done after %.0f s', $round, time - $begin));
}
$node->stop('fast') if $node->{_pid};
my $log = slurp_file($node->logfile);
is(() = $log =~ /TRAP:|PANIC:|signal 11|signal 6/g, 0, 'no assertion failed, no process crashed by itself');
done_testing();
1;
