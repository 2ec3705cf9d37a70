# The random schedules of test/t/100_oracle.pl, for SOAK_MINUTES.
use strict;
use warnings;

use Aion;    # now: the modules of the server's tests set themselves up before the program runs
use Cwd qw(abs_path);
use File::Basename qw(dirname);

$ENV{AION_SECONDS} //= 60 * ($ENV{SOAK_MINUTES} // 20);
my $test = dirname(abs_path(__FILE__)) . '/../t/100_oracle.pl';
defined(do $test) or die $@ || "could not run $test: $!";
