#!/usr/bin/perl
# What a replay of late events (late_events.sh) cost, and how stale it left results: for aion as it was measured, and for
# schedules that execute at equal distances of time or of events, on the same arrivals.
#
#   perl late_events.pl STEP BOUND ARRIVALS EXECUTIONS PLOTS
#
# ARRIVALS has a line per step and window: step, start of the window (seconds), events. EXECUTIONS has one per execution:
# start, events in the result, W_e (seconds). Prints lines of the benchmark's table, and leaves the plots' data in files
# beginning with PLOTS. Staleness is taken after each step, of what was not executed in it: t * n / (T * N).

use strict;
use warnings;
use List::Util qw(max min sum0);

my ($step_minutes, $bound, $arrivals_file, $executions_file, $plots) = @ARGV;
my $STEP = $step_minutes * 60;
my $T = 48 * 3600;
my $WINDOW = 3600;
my $ORIGIN = 978_307_200;    # 2001-01-01

# W_e once a step is over.
sub watermark { return $ORIGIN + $_[0] * $STEP - 1800 }

# Per window, its late events: [step, events], in order. What comes when W has passed the end is late, and taken in
# until W_e has passed end + T.
my (%late, %on_time);
open(my $file, '<', $arrivals_file) or die "$arrivals_file: $!\n";
while (<$file>)
{
	my ($step, $start, $n) = split;
	my $w = watermark($step - 1);
	if ($w < $start + $WINDOW) { $on_time{$start} += $n }
	elsif ($w < $start + $WINDOW + $T) { push @{ $late{$start} }, [ $step, $n ] }
}
my %executions;
open($file, '<', $executions_file) or die "$executions_file: $!\n";
while (<$file>)
{
	my ($start, $n, $w) = split;
	push @{ $executions{$start} }, [ $n, $w ];
}

# Windows that became final within the replay, by end; and what those before one had, for the N in force.
my $last = max(map { $_->[0] } map { @$_ } values %late);
my @windows = grep { $_ + $WINDOW + $T <= watermark($last) } sort { $a <=> $b } keys %on_time;
my @total = map { sum0(map { $_->[1] } @{ $late{$_} // [] }) } @windows;
my @sums = (0);
push @sums, $sums[-1] + $_ for @total;
my %index = map { $windows[$_] => $_ } 0 .. $#windows;

# How many late events were expected of a window at W_e, as src/time/late_forecast.c has it once ten windows are final.
sub expected
{
	my ($w, $own) = @_;
	my ($until, $end) = (0, scalar @windows);
	while ($until < $end)
	{
		my $middle = int(($until + $end) / 2);
		if ($windows[$middle] + $WINDOW + $T <= $w) { $until = $middle + 1 }
		else { $end = $middle }
	}
	return undef if $until < 10;
	my $n = min($until, 100);
	return max(($sums[$until] - $sums[ $until - $n ]) / $n, $own);
}

# Staleness after each step of a window that is executed at these W_e (and at its end): the greatest, of n expected events
# or, if that is undefined, of those in force, then less the 1/N that the last event may add. Also the executions with news.
sub follow
{
	my ($start, $times, $n) = @_;
	my $end = $start + $WINDOW;
	my @late = @{ $late{$start} // [] };
	my @times = (@$times, $end + $T);
	my ($executed, $lacking, $own, $greatest, $count) = ($end, 0, 0, 0, 0);
	return (0, 0) unless @late;
	for (my $step = $late[0][0]; $step <= $last; $step++)
	{
		my $w = watermark($step);
		while (@late && $late[0][0] == $step)
		{
			$lacking += $late[0][1];
			$own += $late[0][1];
			shift @late;
		}
		if (@times && $w >= $times[0])
		{
			shift @times while @times && $w >= $times[0];
			$count++ if $lacking;
			($executed, $lacking) = ($w, 0);
			last unless @times;
		}
		elsif ($lacking)
		{
			my $expected = $n // expected($w, $own) // next;
			$greatest = max($greatest, ($w - $executed) / $T * $lacking / $expected - 1 / $expected);
		}
		elsif (!@late) { last }
	}
	return ($greatest, $count);
}

# The schedules that are compared: k executions, the last of them at the end.
sub deltat
{
	my ($start, $k) = @_;
	return [ map { $start + $WINDOW + $_ / $k * $T } 1 .. $k - 1 ];
}

sub deltaev
{
	my ($start, $k) = @_;
	my $n = $total[ $index{$start} ];
	my ($seen, @times) = (0);
	for my $late (@{ $late{$start} // [] })
	{
		my $before = int($seen * $k / $n);
		$seen += $late->[1];
		push @times, watermark($late->[0]) if int($seen * $k / $n) > $before && $seen < $n;
	}
	return \@times;
}

# ---- aion, and an execution in each step that brought something ----

my ($aion, $each, $worst, $wrong) = (0, 0, 0, 0);
for my $start (@windows)
{
	my @executions = @{ $executions{$start} // [] };
	next unless @executions;
	my $first = shift @executions;
	$wrong++ if ($executions[-1] // $first)->[0] != $on_time{$start} + $total[ $index{$start} ];
	my ($greatest) = follow($start, [ map { $_->[1] } @executions ], undef);
	$worst = max($worst, $greatest);
	$aion += @executions;
	$each += @{ $late{$start} // [] };
}
die "$wrong windows do not have all their events\n" if $wrong;

# ---- one k for all windows, the least that keeps the bound in all but a thousandth of them, knowing what will come;
# ---- 200 if none does that is smaller

my %least;
for my $kind ('deltat', 'deltaev')
{
	my $schedule = $kind eq 'deltat' ? \&deltat : \&deltaev;
	my $allowed = @windows / 1000;
	for my $k (1 .. 200)
	{
		my ($missed, $executed) = (0, 0);
		for my $start (@windows)
		{
			my $n = $total[ $index{$start} ] or next;
			my ($greatest, $count) = follow($start, $schedule->($start, $k), $n);
			$executed += $count;
			$missed++ if $greatest > $bound;
			last if $missed > $allowed && $k < 200;
		}
		next if $missed > $allowed && $k < 200;
		$least{$kind} = [ $k, $executed ];
		last;
	}
}

printf "late executions, against one in each step\t%d\t%d\texecutions\t-\n", $aion, $each;
printf "late executions, against deltat, $least{deltat}[0] a window\t%d\t%d\texecutions\t-\n", $aion, $least{deltat}[1];
printf "late executions, against deltaev, $least{deltaev}[0] a window\t%d\t%d\texecutions\t-\n", $aion, $least{deltaev}[1];
printf "greatest staleness, less 1/N\t%.4f\t-\tof T*N\t<= %s\n", $worst, $bound;

# ---- for the plot: windows that have many late events ----

my @many = grep { $total[ $index{$_} ] >= 50 } @windows;
for my $kind ('deltat', 'deltaev')
{
	open(my $out, '>', "$plots.$kind") or die;
	my $schedule = $kind eq 'deltat' ? \&deltat : \&deltaev;
	for my $k (1, 2, 3, 4, 5, 7, 10, 15, 20, 30)
	{
		my ($stale, $executed) = (0, 0);
		for my $start (@many)
		{
			my ($greatest, $n) = follow($start, $schedule->($start, $k), $total[ $index{$start} ]);
			$stale += max($greatest, 0);
			$executed += $n;
		}
		printf $out "%f %f\n", $executed / @many, $stale / @many;
	}
	close $out;
}
open(my $out, '>', "$plots.aion") or die;
my ($stale, $executed) = (0, 0);
for my $start (@many)
{
	my @executions = @{ $executions{$start} };
	shift @executions;
	my ($greatest, $n) = follow($start, [ map { $_->[1] } @executions ], $total[ $index{$start} ]);
	$stale += max($greatest, 0);
	$executed += $n;
}
printf $out "%f %f\n", $executed / @many, $stale / @many;
