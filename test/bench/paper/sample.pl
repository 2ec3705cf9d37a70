#!/usr/bin/perl
# Samples the memory of aion on the server that libpq's environment names, until it is killed or the server is gone.
#
#   perl sample.pl SECONDS       a line for each sample: time, bytes of m-buckets, bytes of p-buckets, private bytes
#
# Private bytes are those of all of aion's processes together, without shared mappings: the kernel counts a page of
# shared memory as private to a process if no other has touched it yet, so smaps_rollup would not do.

use strict;
use warnings;
use IPC::Open2;
use Time::HiRes qw(sleep);

my $interval = shift or die "usage: $0 SECONDS\n";
my $pid = open2(my $answers, my $questions, 'psql', '-X', '-A', '-t', '-q', '-F', "\t");
$SIG{TERM} = sub { kill 'TERM', $pid; exit };
$SIG{PIPE} = 'IGNORE';
$| = 1;

sub private_bytes
{
	my $kilobytes = 0;
	for my $process (@_)
	{
		open(my $smaps, '<', "/proc/$process/smaps") or next;    # it has left
		my $shared = 0;
		while (my $line = <$smaps>)
		{
			if ($line =~ /^[0-9a-f]+-[0-9a-f]+ ...([sp]) /) { $shared = $1 eq 's' }
			elsif (!$shared && $line =~ /^Private_(?:Clean|Dirty):\s+(\d+)/) { $kilobytes += $1 }
		}
	}
	return 1024 * $kilobytes;
}

while (1)
{
	print $questions "SELECT extract(epoch FROM clock_timestamp()), coalesce(sum(memory_bytes), 0), coalesce(sum(disk_bytes), 0),"
	  . " (SELECT string_agg(pid::text, ' ') FROM aion.workers) FROM aion.buckets;\n";
	$questions->flush();
	my $answer = <$answers> // last;
	chomp $answer;
	my ($at, $memory, $disk, $processes) = split /\t/, $answer;
	print join("\t", $at, $memory, $disk, private_bytes(split / /, $processes // '')), "\n";
	sleep($interval);
}
