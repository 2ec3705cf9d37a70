# What a stream takes on disk under a steady load with late events, executed again and purged: a third into SOAK_MINUTES it
# has levelled off, and at their end it is at most 1.5 times what it was then. (At SOAK_MINUTES=30: after 10 and 30 minutes.)
#
# Sizes go up and down with each bucket that fills and is destaged, so the most in a cycle is compared. Autovacuum is as it comes.
use strict;
use warnings;

use Aion;    # now: the modules of the server's tests set themselves up before the program runs
use IPC::Run qw(start);
use List::Util qw(max sum);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $CYCLE   = 60;    # seconds
my $seconds = 60 * max(6, $ENV{SOAK_MINUTES} // 10);
my $node    = new_node('disk', conf => "autovacuum = on\naion.memory = 32MB");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, key int, value float8) SERVER aion
		OPTIONS (event_time 'at', bucket_width '10 seconds', watermark_delay '2 seconds', allowed_lateness '40 seconds');
	SELECT aion.create_view('v', 'SELECT key % 100 AS k, count(*) AS n, sum(value) AS sum FROM s GROUP BY 1',
		aion.tumbling('10 seconds'), retain => '1 minute')});
my $script = $node->basedir . '/load.sql';
append_to_file($script, q{INSERT INTO s SELECT now() - interval '1 s' * exp(3.5 * random() ^ 3), random() * 1000, random() FROM generate_series(1, 5);} . "\n");

my $load = start(
	[ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', 2, '-R', 400, '-T', $seconds + 5, '-f', $script, 'postgres' ],
	'>', \my $out, '2>', \my $err);

# [ seconds since the start, { schema => bytes } ]
my @samples;
my $begin = time;
while (time < $begin + $seconds)
{
	sleep 2;
	push @samples, [ time - $begin, { map { split /\|/ } split /\n/, sql(q{
		SELECT nspname, sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = 'r' AND nspname IN ('aion', 'aion_data', 'aion_results') GROUP BY 1}) } ];
}
$load->finish;
like($out, qr/number of failed transactions: 0/, 'every insert succeeded');

# The most in the cycle that ends then.
sub most_before
{
	my ($end, $schema) = @_;
	return max(map { $schema ? $_->[1]{$schema} : sum(values %{ $_->[1] }) } grep { $_->[0] > $end - $CYCLE && $_->[0] <= $end } @samples);
}
for my $schema ('aion', 'aion_data', 'aion_results', undef)
{
	my ($early, $late) = map { most_before($_, $schema) } $seconds / 3, $seconds;
	cmp_ok($late / $early, '<=', 1.5, sprintf('%s: %.1f MB are at most 1.5 times %.1f MB', $schema // 'all', $late / 1e6, $early / 1e6));
}
sync_stream($node, 's');
my $inserted = $out =~ /transactions actually processed: (\d+)/ ? 5 * $1 : -1;
is(sql('SELECT events FROM aion.streams'), $inserted, 'every event is accounted for');
cmp_ok(sql('SELECT count(*) FROM aion.windows'), '<', 100, 'windows are purged');
$node->stop;
done_testing();
