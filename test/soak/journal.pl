# The journal under a steady load with late events: its file stays within twice what is not destaged.
#
# Sampled after a warm-up of one bucket and a bit, for SOAK_MINUTES. What is not destaged is the live tuples of the
# journal; while these are less than 2 MB the file may have that much.
use strict;
use warnings;

use Aion;    # now: the modules of the server's tests set themselves up before the program runs
use IPC::Run qw(start);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $FLOOR   = 2 * 1024 * 1024;
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

my ($worst, $samples) = (0, 0);
my $until = time + $seconds + 25;
my $from  = time + 30;
while (time < $until)
{
	sleep 2;
	next if time < $from;
	my ($file, $live) = split /\|/, $node->safe_psql('postgres', q{
		SELECT pg_relation_size(journal), (SELECT (xpath('//n/text()', query_to_xml(format('SELECT coalesce(sum(pg_column_size(j.*) + 28), 0) AS n FROM %s j', journal), false, false, '')))[1]::text::bigint)
		FROM aion.stream_def WHERE stream = 's'::regclass});
	my $ratio = $file / ($live > $FLOOR / 2 ? $live : $FLOOR / 2);
	$worst = $ratio if $ratio > $worst;
	$samples++;
}
$load->finish;
like($out, qr/number of failed transactions: 0/, 'every insert succeeded');
cmp_ok($samples, '>=', $seconds / 10, 'sampled');
note("worst ratio $worst of $samples samples");
cmp_ok($worst, '<=', 2.0, sprintf('journal on disk at most twice what is not destaged (worst %.2f)', $worst));

sync_stream($node, 's');
my $inserted = $out =~ /transactions actually processed: (\d+)/ ? 5 * $1 : -1;
is($node->safe_psql('postgres', q{SELECT events FROM aion.streams}), $inserted, 'every event accounted for');
$node->stop;
done_testing();
