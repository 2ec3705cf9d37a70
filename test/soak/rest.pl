# Workers at rest, and who they must not hold up (cases R28 and R25): SOAK_MINUTES of idleness, a fifth of that of a dump.
use strict;
use warnings;

use Aion;
use Rest;
use Test::More;

my $minutes = $ENV{SOAK_MINUTES} // 10;
rest_test(idle => 60 * $minutes, measure => 1, dump => 12 * $minutes, silence => 60);
done_testing();
