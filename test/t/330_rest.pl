# Workers at rest, and who they must not hold up (cases R28 and R25): the short form; the long one is test/soak/rest.pl.
use strict;
use warnings;

use Aion;
use Rest;
use Test::More;

rest_test(idle => 5, dump => 8, silence => 3);
done_testing();
