#!/usr/bin/perl
# Prints the table of a benchmark run: for each measurement the medians of both sides, the median and range of the pairs'
# ratios, and whether the limit is kept. Reads the tab-separated lines that test/bench/run.sh describes.

use strict;
use warnings;

my (@order, %pairs);
while (my $line = <>)
{
	chomp $line;
	my ($what, $aion, $plain, $unit, $limit) = split /\t/, $line;
	next unless defined $limit;
	push @order, $what unless $pairs{$what};
	push @{ $pairs{$what} }, { aion => $aion, plain => $plain, unit => $unit, limit => $limit };
}

sub median
{
	my @values = sort { $a <=> $b } @_;
	my $half = int(@values / 2);
	return @values % 2 ? $values[$half] : ($values[ $half - 1 ] + $values[$half]) / 2;
}

sub figure { return sprintf($_[0] < 10 ? '%.3f' : '%.1f', $_[0]) }

my @rows = ([ 'measurement', 'pairs', 'unit', 'aion', 'plain', 'ratio', 'range', 'limit', '' ]);
for my $what (@order)
{
	my @all = @{ $pairs{$what} };
	my ($unit, $limit, $compared) = ($all[0]{unit}, $all[0]{limit}, $all[0]{plain} ne '-');
	my $aion = median(map { $_->{aion} } @all);
	my @ratios = sort { $a <=> $b } map { $compared ? $_->{aion} / $_->{plain} : $_->{aion} } @all;
	my $judged = median(@ratios);
	my $verdict = '';
	if ($limit =~ /^([<>])=\s*([\d.]+)/)
	{
		$verdict = ($1 eq '<' ? $judged <= $2 : $judged >= $2) ? 'kept' : 'MISSED';
	}
	push @rows, [ $what, scalar(@all), $unit, figure($aion),
		$compared ? figure(median(map { $_->{plain} } @all)) : '-',
		$compared ? figure($judged) : '-',
		figure($ratios[0]) . '..' . figure($ratios[-1]), $limit, $verdict ];
}

my @width = map { my $column = $_; (sort { $b <=> $a } map { length $_->[$column] } @rows)[0] } 0 .. $#{ $rows[0] };
for my $row (@rows)
{
	my $line = join('  ', map { $_ ? sprintf("%*s", $width[$_], $row->[$_]) : sprintf("%-*s", $width[0], $row->[0]) } 0 .. $#$row);
	print $line =~ s/\s+$//r, "\n";
}
