#!/usr/bin/perl
# Runs the SQL examples of a Markdown file, in order and in one psql session, as a reader would paste them.
#
#   perl scripts/readme_test.pl README.md      against the server that libpq's environment names
#
# A block fenced with ```sql is run, unless the line above it, blank lines aside, is `<!-- not run -->`. The session stops
# at the first error, because what follows builds upon it. Prints TAP, one test per block; exits with 1 on failure.

use strict;
use warnings;
use File::Temp;

my $readme = shift or die "usage: $0 FILE.md\n";
open(my $in, '<', $readme) or die "cannot read $readme: $!\n";

my (@blocks, $block);
my $above = '';
while (my $line = <$in>)
{
	if (defined $block)
	{
		if ($line =~ /^\s*```/) { undef $block; $above = '' }
		else { $block->{sql} .= $line if $block->{run} }
	}
	elsif ($line =~ /^\s*```(\w*)/)
	{
		$block = { line => $., sql => '', run => $1 eq 'sql' && $above !~ /^\s*<!-- not run -->/ };
		push @blocks, $block if $block->{run};
	}
	elsif ($line =~ /\S/) { $above = $line }
}
close($in);

# Each block announces its end; what was announced is what has passed.
my $script = File::Temp->new(SUFFIX => '.sql');
my $end = 'end of example';
print $script "$blocks[$_]{sql}\n;\n\\echo $end $_\n" for 0 .. $#blocks;
close($script);
my $output = `psql -X -q -v ON_ERROR_STOP=1 -f '$script' 2>&1 </dev/null`;

my $failed = 0;
for my $i (0 .. $#blocks)
{
	my $passed = $output =~ /^$end $i$/m;
	$failed++ unless $passed;
	print $passed ? '' : 'not ', 'ok ', $i + 1, " - $readme, line $blocks[$i]{line}\n";
}
print '1..', scalar(@blocks), "\n";
if ($failed)
{
	print "# $_\n" for split /\n/, $output;
}
exit($failed ? 1 : 0);
