# Space under a steady stream whose results are not kept for ever, case R27: after 5,000 windows the tables are as large as
# after 300, within twice, with autovacuum as it comes. At the pace of the case, ten windows a second, which is 600 times
# that of life: so it takes nine minutes, whatever SOAK_MINUTES says.
use strict;
use warnings;

use Aion;
use Session;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node('retention', conf => 'autovacuum = on');
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{
	CREATE FOREIGN TABLE s (key text, at timestamptz NOT NULL) SERVER aion
		OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness '2 hours');
	SELECT aion.create_view('v', 'SELECT key, count(*) AS n FROM s GROUP BY key', aion.tumbling('1 min'), retain => '2 hours')});

# Sends the events of minutes up to this one, and returns the sizes of all tables when everything has settled.
my ($session, $sent) = (Session->new($node), 0);
sub sizes_after
{
	my ($minutes) = @_;
	my $begin = time - $sent / 10;
	for (; $sent < $minutes; $sent++)
	{
		sleep($begin + $sent / 10 - time) if time < $begin + $sent / 10;
		$session->must("INSERT INTO s VALUES ('a', timestamptz '2024-03-01 10:00:30+00' + interval '$sent min')");
	}
	wait_until($node, q{SELECT count(*) = 120 AND min(window_start) = max(window_start) - interval '119 min' AND bool_and(n = 1) FROM v},
		"after $minutes minutes the results of two hours are there, and no others");
	wait_until($node, q{SELECT count(*) BETWEEN 119 AND 122 FROM s}, 'so are their events');
	wait_until($node, q{SELECT results_removed_through = (SELECT min(window_start) FROM v) FROM aion.views}, 'which is written down');
	my %sizes = map { split /\|/ } split /\n/, sql(q{
		SELECT nspname || CASE nspname WHEN 'aion' THEN '.' || relname ELSE '' END, sum(pg_total_relation_size(c.oid))
		FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = 'r' AND nspname IN ('aion', 'aion_data', 'aion_results') GROUP BY 1});
	note(join ', ', map { "$_ " . $sizes{$_} / 1024 . ' kB' } sort keys %sizes);
	return \%sizes;
}

my $early = sizes_after(300);
my $late  = sizes_after(5000);
for my $what (sort keys %$early)
{
	cmp_ok($late->{$what} / $early->{$what}, '<=', 2, "$what is not larger than twice what it was");
}
$node->stop;
done_testing();
