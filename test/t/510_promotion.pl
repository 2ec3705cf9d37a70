# Promotion: a standby goes on exactly where the primary was, whatever that was in the middle of. A fault point holds the
# primary there, what it has written so far is replayed, and the standby is promoted; the primary then goes on, too, and
# both must come to the same.
use strict;
use warnings;

use Aion;
use Oracle qw(COLUMNS DEFAULT_ORIGIN batch_query create_view_sql);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;
use Twin qw(catch_up define_twins exact write_sql);

my $primary = new_node('primary', init => [ allows_streaming => 1 ],
	conf => "aion.memory = '4MB'\naion.late_interval = '20ms'\nautovacuum = off\nwal_keep_size = '1GB'");

sub sql { my ($sql, $on) = @_; return ($on // $primary)->safe_psql('postgres', $sql) }

# Stream e, where events expire, are set aside, purged and readmitted, and results are removed. Its table says which of
# them count.
my $MINUTE = 60_000_000;
my $EXPIRING = {
	name => 'v_e', query => 'SELECT k, count(*) AS n, sum(v) AS s, array_agg(id ORDER BY id) AS ids FROM {S} e GROUP BY k',
	size => $MINUTE, slide => $MINUTE, origin => DEFAULT_ORIGIN, retain => "'1 day'"
};

define_twins($primary);
sql('CREATE FOREIGN TABLE e (' . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 min', allowed_lateness '10 min')");
sql('CREATE TABLE p_e (' . COLUMNS . ', counts bool DEFAULT true)');
sql(create_view_sql($EXPIRING, 'e'));
sql(write_sql(1000, 0));
$primary->backup('base');

my $day = 0;    # of stream e: each round has its own, so that results of an earlier one go
sub at { return sprintf q{timestamptz '2024-03-01 %s+00' + interval '%d days'}, $_[0], $day * 3 }

my $next = 1;

# Events of stream e into stream and table.
sub events_e
{
	my ($n, $time, $counts, $on) = @_;
	my ($first, $last) = ($next, $next + $n - 1);
	$next += $n;
	$counts //= 'true';
	my $at = at($time);
	return qq{
		INSERT INTO e SELECT i, i % 3, i % 50, 'e', $at + (i - $first) * interval '5 s' FROM generate_series($first, $last) i;
		INSERT INTO p_e SELECT i, i % 3, i % 50, 'e', $at + (i - $first) * interval '5 s', $counts FROM generate_series($first, $last) i};
}

sub advance_e { return q{SELECT aion.advance_watermark('e', } . at($_[0]) . ')' }

# What holds of stream e once all is settled: results of the last day alone, events until they are purged.
sub exact_e
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $session = Session->new($node);
	$session->must(q{SELECT aion.sync('e', late => true)});
	$session->must(q{SELECT aion.refresh('v_e')});
	my $kept = q{(SELECT event_watermark - interval '1 day' FROM aion.streams WHERE stream = 'e'::regclass)};
	wait_until($node, "SELECT NOT EXISTS (SELECT FROM v_e WHERE window_end <= $kept)", "$name: results that are not retained go");
	$session->must('CREATE TEMP VIEW counting AS SELECT id, k, v, note, at FROM p_e WHERE counts');
	my $complete = q{(SELECT watermark FROM aion.streams WHERE stream = 'e'::regclass)};
	is(compare($session, 'SELECT * FROM v_e', "SELECT * FROM (" . batch_query($EXPIRING, 'counting') . ") b WHERE window_end > $kept"), '', "$name: results of stream e");
	wait_until($node, q{SELECT NOT EXISTS (SELECT FROM e WHERE at < (SELECT event_watermark - interval '12 min' FROM aion.streams WHERE stream = 'e'::regclass))}, "$name: events are purged");
	is(compare($session, q{SELECT id FROM e}, q{SELECT id FROM counting WHERE at >= (SELECT date_trunc('minute', event_watermark) - interval '10 min' FROM aion.streams WHERE stream = 'e'::regclass)}), '', "$name: events of stream e");
	is($session->must(q{SELECT events, (SELECT count(*) FROM aion.expired WHERE stream = 'e'::regclass) FROM aion.streams WHERE stream = 'e'::regclass}),
		$session->must('SELECT count(*), count(*) FILTER (WHERE NOT counts) FROM p_e'), "$name: counters of stream e");
	$session->close;
	return;
}

my $number = 0;

# A standby that follows from the backup on.
sub new_standby
{
	my $standby = PostgreSQL::Test::Cluster->new('standby' . ++$number);
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	return $standby;
}

# Holds the primary where "point" is passed after the last of "statements", which is not waited for. "done" holds for the
# primary then, and for the standby, too, if it has seen the commit, "committed".
sub promote_at
{
	my ($point, %round) = @_;
	$day++;
	my @statements = $round{statements}->();
	my $last = pop @statements;
	my $standby = new_standby();
	sql($_) for @statements;
	arm_fault($primary, $point, 'wait');
	my $session = Session->new($primary);
	$session->send($last);
	wait_for_fault($primary, $point);
	catch_up($primary, $standby);
	$standby->promote;
	release_fault($primary, $point);
	ok($session->result->{ok}, "$point: the primary goes on");
	$session->close;
	my @more = (write_sql(100, 6 * $number), events_e(20, '12:00'), advance_e('12:05'), q{SELECT aion.sync('e')}, events_e(3, '11:00', 'false'), advance_e('12:20'));
	my $done = $round{done} ? $round{done}->() : undef;
	sql($done) if $done;
	sql($done, $standby) if $done && $round{committed};
	exact($standby, "$point, promoted");
	exact_e($standby, "$point, promoted") if $round{e};
	sql($_, $standby) for @more;
	exact($standby, "$point, promoted, and on");
	exact_e($standby, "$point, promoted, and on");
	$standby->stop;
	unlike(slurp_file($standby->logfile), qr/TRAP:|PANIC:|ERROR:.*aion/, "$point: nothing in the log");
	sql($_) for @more;
	return;
}

sub minute { return 6 * $number + 3 }
sub sync { return "SELECT aion.sync('$_[0]')" }

# ---- destaging, folding, accounting, firing ----------------------------------------------------------------------------

for my $point (qw(destage-blocks-written destage-journal-deleted io-before-commit io-after-commit))
{
	promote_at($point, statements => sub { write_sql(200, minute()), sync('s'), q{SELECT aion.destage('s')} });
}
# more than a transaction gets of memory
promote_at('fold-written', statements => sub { write_sql(20000, minute() - 300) . q{; SELECT aion.destage('s')} });
for my $point (qw(pass-before-commit pass-committed fire-inserted fire-counted fire-committed))
{
	promote_at($point, statements => sub { write_sql(100, minute()), sync('s'), write_sql(200, minute() + 5) });
}
promote_at('before-commit', statements => sub { write_sql(100, minute()) });

# ---- expiry, purging, readmission, removal of results --------------------------------------------------------------------

sub day_of_e { return (events_e(60, '10:00'), advance_e('10:10'), sync('e')) }
# too late for a window that holds nothing and is later than all that is purged, so that they can be readmitted
sub set_aside { return (day_of_e(), advance_e('10:30'), sync('e'), events_e(4, '10:08', 'false'), sync('e')) }

promote_at('account-set-aside', e => 1, statements => sub { day_of_e(), advance_e('10:30'), sync('e'), 'BEGIN;' . events_e(4, '10:01', 'false') . '; COMMIT' });
for my $point (qw(purge-blocks-deleted purge-journal-deleted io-purged pass-rows-purged))
{
	promote_at($point, e => 1, statements => sub { day_of_e(), q{SELECT aion.destage('e')}, events_e(10, '10:03'), sync('e'), advance_e('10:30') });
}
for my $point (qw(retain-deleted retain-committed))
{
	promote_at($point, e => 1, statements => sub { set_aside(), do { $day++; advance_e('00:00') } });
}
for my $point (qw(readmit-written readmit-before-commit readmit-committed))
{
	promote_at($point, e => 1, committed => ($point =~ /committed/ ? 1 : 0), statements => sub { set_aside(), q{SELECT aion.readmit(VARIADIC ARRAY(SELECT id FROM aion.expired WHERE stream = 'e'::regclass AND event_time > } . at('00:00') . '))' },
		done => sub { q{UPDATE p_e SET counts = true WHERE at BETWEEN } . at('10:08') . ' AND ' . at('10:09') });
}
exact($primary, 'the primary, in the end');
exact_e($primary, 'the primary, in the end');

$primary->stop;
unlike(slurp_file($primary->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
