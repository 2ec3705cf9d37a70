#!/usr/bin/perl
# Prints the table of a benchmark run: for each measurement the medians of both sides, the median and range of the pairs'
# ratios, whether the limit is kept, and the noise: how far the values of the plain side, which is the same server doing
# the same thing again, lie apart. Reads the tab-separated lines that scripts/bench_lib.sh describes.
#
#   perl bench_table.pl FILE [SIDE]     SIDE heads the column of the other side, "plain" by default

use strict;
use warnings;

my ($file, $side) = (@ARGV, 'plain');
open(my $lines, '<', $file) or die "cannot read $file: $!\n";

my (@order, %pairs, %reason);
while (my $line = <$lines>)
{
	chomp $line;
	my ($what, $aion, $plain, $unit, $limit, $reason) = split /\t/, $line;
	next unless defined $limit;
	$reason{$what} = $reason if defined $reason;
	push @order, $what unless $pairs{$what};
	push @{ $pairs{$what} }, { aion => $aion, plain => $plain, unit => $unit, limit => $limit };
}

sub median
{
	my @values = sort { $a <=> $b } @_;
	my $half = int(@values / 2);
	return @values % 2 ? $values[$half] : ($values[ $half - 1 ] + $values[$half]) / 2;
}

sub figure { return $_[0] eq '-' ? '-' : sprintf($_[0] < 10 ? '%.3f' : '%.1f', $_[0]) }

# Distance of the extremes, as a share of the median.
sub spread
{
	my @values = sort { $a <=> $b } @_;
	return ($values[-1] - $values[0]) / median(@values);
}

my @rows = ([ 'measurement', 'pairs', 'unit', 'aion', $side, 'ratio', 'range', 'noise', 'limit', '' ]);
my @noise;
for my $what (@order)
{
	my @all = @{ $pairs{$what} };
	if ($all[0]{aion} eq '-')
	{
		push @rows, [ $what, '-', $all[0]{unit}, ('-') x 5, $all[0]{limit}, $reason{$what} ];
		next;
	}
	my ($unit, $limit, $compared) = ($all[0]{unit}, $all[0]{limit}, $all[0]{plain} ne '-');
	my $aion = median(map { $_->{aion} } @all);
	my @plain = map { $_->{plain} } @all;
	my @ratios = sort { $a <=> $b } map { $compared ? $_->{aion} / $_->{plain} : $_->{aion} } @all;
	# Of values that stand alone the worst counts, of ratios the median.
	my $judged = $compared ? median(@ratios) : $ratios[ $limit =~ /^>/ ? 0 : -1 ];
	my $noise = $compared && @all > 1 ? spread(@plain) : undef;
	push @noise, $noise if defined $noise;
	my $verdict = '';
	if (defined $reason{$what}) { $verdict = $reason{$what} }
	elsif ($limit =~ /^([<>])=\s*([\d.]+)/)
	{
		$verdict = ($1 eq '<' ? $judged <= $2 : $judged >= $2) ? 'ok' : 'missed';
	}
	push @rows, [ $what, scalar(@all), $unit, figure($aion),
		$compared ? figure(median(@plain)) : '-',
		$compared ? figure($judged) : '-',
		@all > 1 ? figure($ratios[0]) . '..' . figure($ratios[-1]) : '-',
		defined $noise ? sprintf('%.0f%%', 100 * $noise) : '-', $limit, $verdict ];
}

my @width = map { my $column = $_; (sort { $b <=> $a } map { length $_->[$column] } @rows)[0] } 0 .. $#{ $rows[0] };
for my $row (@rows)
{
	my $line = join('  ', map { $_ ? sprintf("%*s", $width[$_], $row->[$_]) : sprintf("%-*s", $width[0], $row->[0]) } 0 .. $#$row);
	print $line =~ s/\s+$//r, "\n";
}
printf "\nnoise of this machine: values of one measurement in column %s lie %.0f%% apart (median), %.0f%% at most\n", $side,
	100 * median(@noise), 100 * (sort { $a <=> $b } @noise)[-1] if @noise;
