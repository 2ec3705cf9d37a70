# A window of 200 MB in 16 MB of memory: its result, by a query that takes events as they come and by one that sorts them,
# equals plain SQL, again after each round of late events, and memory stays within its bound. For SOAK_MINUTES.
use strict;
use warnings;

use Aion;    # now: the modules of the server's tests set themselves up before the program runs
use IO::Select;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time usleep);

my $BOUND = 16 * 1024 * 1024;
my $until = time + 60 * ($ENV{SOAK_MINUTES} // 10);
my $node  = new_node('staging', conf => "aion.memory = '16MB'\naion.late_interval = '1 h'\nshared_buffers = '64MB'");
my ($one, $two) = map { Session->new($node) } 1 .. 2;
my %query = (
	streaming => 'count(*) AS n, sum(id) AS ids, sum(hashtext(pad)::bigint) AS pads',
	sorting   => 'count(DISTINCT pad) AS n, percentile_disc(0.5) WITHIN GROUP (ORDER BY id) AS median');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Inserts the same events of about a kilobyte, which does not compress, into stream and table.
sub insert
{
	my ($n) = @_;
	return sql(qq{
		BEGIN;
		CREATE TEMP TABLE new ON COMMIT DROP AS
			SELECT timestamptz '2024-03-01' + random() * interval '59 min' AS at, (random() * 1e9)::bigint AS id,
				   (SELECT string_agg(md5(random()::text || g || h), '') FROM generate_series(1, 31) h) AS pad
			  FROM generate_series(1, $n) g;
		INSERT INTO s TABLE new;
		INSERT INTO p TABLE new;
		COMMIT});
}

# Runs a statement, and returns the most that memory held meanwhile, and the most of that in copies.
sub watch
{
	my ($statement) = @_;
	my ($most, $copies) = (0, 0);
	$one->send($statement);
	while (!IO::Select->new($one->{out})->can_read(0))
	{
		my ($used, $staged) = split /\|/, $two->must('SELECT coalesce(sum(memory_bytes), 0), coalesce(sum(staged_bytes), 0) FROM aion.buckets');
		$most   = $used   if $used > $most;
		$copies = $staged if $staged > $copies;
		usleep(20_000);
	}
	my $result = $one->result;
	ok($result->{ok}, $statement) or diag($result->{out});
	return ($most, $copies);
}

$two->must(q{CREATE FOREIGN TABLE s (at timestamptz NOT NULL, id bigint, pad text) SERVER aion OPTIONS (event_time 'at', bucket_width '1 h', watermark 'manual', allowed_lateness 'unlimited')});
$two->must('CREATE TABLE p (at timestamptz NOT NULL, id bigint, pad text)');
insert(10_000) for 1 .. 20;
$two->must(q{SELECT aion.destage('s')}, 600);
$two->must("SELECT aion.create_view('$_', 'SELECT $query{$_} FROM s', aion.tumbling('1 h'))") for sort keys %query;
$two->must(q{SELECT aion.advance_watermark('s', '2024-03-01 01:00')});
my $round = 0;
do
{
	my ($most, $copies) = watch(q{SELECT aion.sync('s', late => true)});
	cmp_ok($most,   '<=', $BOUND, "round $round: memory stays within its bound ($most bytes)");
	cmp_ok($copies, '>',  0,      "round $round: blocks are staged ($copies bytes at a time)");
	oracle_ok($node, $_, "SELECT timestamptz '2024-03-01' AS window_start, timestamptz '2024-03-01 01:00' AS window_end, $query{$_} FROM p", "round $round: $_") for sort keys %query;
	insert(500);
	$two->must(q{SELECT aion.sync('s')});
	$two->must(q{SELECT aion.destage('s')}, 600) if $round++ % 2;
} while (time < $until);
$_->close for $one, $two;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
