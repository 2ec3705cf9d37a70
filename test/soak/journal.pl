# The journal under a steady load with late events: its file stays within twice what is not destaged.
#
# Sampled after a warm-up, for SOAK_MINUTES. What is not destaged, the live tuples of the journal, goes up and down with
# each bucket that fills and is destaged, while a file cannot shrink under writers at once: it is compared with the most
# that was not destaged in the cycle that ends with the sample. The worst ratio to the very moment is noted as well.
use strict;
use warnings;

use Aion;    # now: the modules of the server's tests set themselves up before the program runs
use IPC::Run qw(start);
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $CYCLE   = 25;    # seconds: a bucket, and until it is destaged
my $seconds = 60 * ($ENV{SOAK_MINUTES} // 10);
my $node    = new_node('journal', conf => "autovacuum = on\naion.memory = 32MB");

$node->safe_psql('postgres', q{
	CREATE FOREIGN TABLE s (at timestamptz NOT NULL, key int, value float8)
		SERVER aion OPTIONS (event_time 'at', bucket_width '20 seconds', watermark_delay '2 seconds', allowed_lateness '2 minutes');
	SELECT aion.create_view('v', 'SELECT key % 10 AS k, count(*) AS n, sum(value) AS sum FROM s GROUP BY 1', aion.tumbling('20 seconds'))});
my $script = $node->basedir . '/load.sql';
append_to_file($script, q{INSERT INTO s SELECT now() - interval '1 s' * exp(3 * random() ^ 3), random() * 1000, random() FROM generate_series(1, 5);} . "\n");

my $load = start(
	[ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', 2, '-R', 1000, '-T', $seconds + 30, '-f', $script, 'postgres' ],
	'>', \my $out, '2>', \my $err);

my ($worst, $worst_now, $samples) = (0, 0, 0);
my @cycle;
my $until = time + $seconds + 25;
my $from  = time + 30;
while (time < $until)
{
	sleep 2;
	next if time < $from;
	my ($file, $live) = split /\|/, $node->safe_psql('postgres', q{
		SELECT pg_relation_size(journal), (SELECT (xpath('//n/text()', query_to_xml(format('SELECT coalesce(sum(pg_column_size(j.*) + 28), 0) AS n FROM %s j', journal), false, false, '')))[1]::text::bigint)
		FROM aion.stream_def WHERE stream = 's'::regclass});
	push @cycle, [ time, $live ];
	shift @cycle while $cycle[0][0] < time - $CYCLE;
	next if time < $from + $CYCLE;
	$worst     = max($worst,     $file / max(1, map { $_->[1] } @cycle));
	$worst_now = max($worst_now, $file / max(1, $live));
	$samples++;
}
$load->finish;
like($out, qr/number of failed transactions: 0/, 'every insert succeeded');
cmp_ok($samples, '>=', ($seconds - $CYCLE) / 10, 'sampled');
note(sprintf 'worst ratio of %d samples: %.2f to the most in a cycle, %.2f to the moment', $samples, $worst, $worst_now);
cmp_ok($worst, '<=', 2.0, sprintf('journal on disk at most twice what is not destaged (worst %.2f)', $worst));

sync_stream($node, 's');
my $inserted = $out =~ /transactions actually processed: (\d+)/ ? 5 * $1 : -1;
is($node->safe_psql('postgres', q{SELECT events FROM aion.streams}), $inserted, 'every event accounted for');
$node->stop;
done_testing();
