# allowed_lateness 'auto': the bound that late events make, what windows keep of it, what makes them final, and that results
# and purging follow it; across restarts and crashes.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Aion;
use List::Util qw(max min sum0);
use POSIX qw(ceil floor);
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;

my $SEC = 1_000_000;
my $BASE = 1_709_287_200 * $SEC;    # 2024-03-01 10:00 UTC
my $INITIAL = 50 * $SEC;
my $RATIO = 1.01 / 0.99;            # of two edges of the histogram

# Late windows are executed only when a test asks for it: they are many.
my $node = new_node('auto', conf => "aion.late_interval = -1\naion.initial_lateness = '50 s'\nautovacuum = off");
my $session = Session->new($node);
my $next_id = 1;
srand(20240301);

sub sql { return $session->must($_[0]) }
sub at { return sprintf "(timestamptz 'epoch' + interval '%d us')", $_[0] }

# A lateness in microseconds: log-normal with median 1 s.
sub lateness
{
	my ($scale) = @_;
	my ($u, $v) = (1 - rand(), rand());
	return int(exp(sqrt(-2 * log $u) * cos(6.283185307179586 * $v)) * ($scale // 1) * $SEC) + 1;
}

# A stream with a copy of all its events in a table, and a view of windows of one second.
sub create
{
	my ($s, $options, $view_options) = @_;
	sql("CREATE FOREIGN TABLE $s (id bigint, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', bucket_width '1 s', watermark_interval '5 ms'$options)");
	sql("CREATE TABLE ${s}_all (id bigint, at timestamptz)");
	sql("SELECT aion.create_view('${s}_v', 'SELECT count(*) AS n, sum(id) AS ids FROM $s', aion.tumbling('1 s')$view_options)");
	sql("SELECT aion.sync('$s')");
	return { s => $s, w => undef, seen => [], events => [] };
}

# One transaction: events at these times, then W there; what happens before it is accounted for.
sub step
{
	my ($t, $times, $w, $between) = @_;
	my $s = $t->{s};
	my $rows = join ',', map { '(' . $next_id++ . ',' . at($_) . ')' } @$times;
	sql('BEGIN');
	sql("INSERT INTO ${s}_all VALUES $rows") if @$times;
	sql("INSERT INTO $s SELECT * FROM ${s}_all WHERE id >= " . ($next_id - @$times)) if @$times;
	sql("SELECT aion.advance_watermark('$s', " . at($w) . ')') if defined $w;
	sql('COMMIT');
	$between->() if $between;
	sql("SELECT aion.sync('$s')");
	for my $i (0 .. $#$times)
	{
		my $end = (floor(($times->[$i] - $BASE) / $SEC) + 1) * $SEC + $BASE;
		my $lateness = defined $t->{w} ? $t->{w} - $end : -1;
		push @{ $t->{seen} }, [$lateness] if $lateness >= 0;
		push @{ $t->{events} }, { id => $next_id - @$times + $i, time => $times->[$i], end => $end, lateness => $lateness, step => $t->{step} // 0 };
	}
	$t->{step}++;
	$t->{w} = $w if defined $w;
	return;
}

# Times of n late events, and of others up to where W goes.
sub late_times { my ($t, $n, $scale) = @_; return map { $t->{w} - $SEC - lateness($scale) } 1 .. $n }
sub spread { my ($from, $to, $n) = @_; return map { $from + int(($to - $from) * ($_ - 0.5) / $n) } 1 .. $n }

sub known { my ($t, $columns) = @_; return sql("SELECT $columns FROM aion.lateness WHERE stream = '$t->{s}'::regclass") }
sub us { return sql("SELECT (extract(epoch FROM interval '$_[0]') * 1000000)::bigint") }
sub bound { return us(known($_[0], 'bound')) }

sub written
{
	my ($t) = @_;
	my $n = @{ $t->{seen} };
	return wait_until($node, "SELECT late_events = $n FROM aion.lateness WHERE stream = '$t->{s}'::regclass", "$n late events are written");
}

# Where the exact bound may lie, coverage 0.99 and confidence 0.95: weights fall off as in a memory of 5000 events. The
# order within a transaction is open, so one of the next few will do.
sub exact_bounds
{
	my ($t) = @_;
	my $g = 1 - 2 / 5001;
	my @seen = @{ $t->{seen} };
	my @weighed = map { [ $seen[$_][0], $g**($#seen - $_) ] } 0 .. $#seen;
	my $total = sum0(map { $_->[1] } @weighed);
	my $n = floor($total**2 / sum0(map { $_->[1]**2 } @weighed) + 1e-6);
	my $rank = min($n, ceil($n * 0.99 + 1.6448536 * sqrt($n * 0.99 * 0.01)));
	my @sorted = sort { $a->[0] <=> $b->[0] } @weighed;
	my ($sum, $i) = (0, -1);
	$sum += $sorted[++$i][1] while $sum < $rank / $n * $total * (1 - 1e-9) && $i < $#sorted;
	return ($sorted[ max(0, $i - 2) ][0], $sorted[ min($#sorted, $i + 2) ][0]);
}

sub bound_is_exact
{
	my ($t, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($low, $high) = exact_bounds($t);
	my $bound = bound($t);
	ok($low <= $bound && $bound <= $high * $RATIO + 1, $name) or diag("$bound is not in $low .. $high");
	return;
}

# Results are those of the batch query over what has not expired, and nothing is lost silently.
sub exact
{
	my ($t, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $s = $t->{s};
	sql("SELECT aion.refresh('${s}_v')");
	my $difference = compare($session, "SELECT * FROM ${s}_v", qq{
		SELECT date_trunc('second', at) AS window_start, date_trunc('second', at) + interval '1 second' AS window_end, count(*) AS n, sum(id) AS ids
		FROM ${s}_all WHERE id NOT IN (SELECT (event->>'id')::bigint FROM aion.expired WHERE stream = '$s'::regclass AND NOT partial) GROUP BY 1, 2
		HAVING date_trunc('second', at) + interval '1 second' <= (SELECT watermark FROM aion.streams WHERE stream = '$s'::regclass)
			OR date_trunc('second', at) IN (SELECT window_start FROM ${s}_v)});
	is($difference, '', "$name: exact");
	is(sql("SELECT events - (SELECT count(*) FROM ${s}_all), expired_events - (SELECT count(*) FROM aion.expired WHERE stream = '$s'::regclass) FROM aion.streams WHERE stream = '$s'::regclass"),
		'0|0', "$name: counted");
	return;
}

# ---- from nothing to an estimate ------------------------------------------------------------------------------------------------

my $l = create('l', ", watermark 'manual'", '');
is(known($l, "state, reason, bound, late_events, p99 IS NULL, coverage, confidence, allowed_lateness"), 'initial|no late events|00:00:50|0|t|0.99|0.95|auto', 'nothing is known of a new stream');
step($l, [ spread($BASE, $BASE + $SEC, 20) ], $BASE + 60 * $SEC);
step($l, [ late_times($l, 100) ], $l->{w} + $SEC);
is(known($l, "state, reason, bound, late_events, needed_events"), 'learning|too few late events|00:00:50|100|299', 'late events are observed');
step($l, [ late_times($l, 100) ], $l->{w} + $SEC) for 1 .. 3;
written($l);
is(known($l, "state, reason, bound, late_events"), 'learning|not observed for long enough|00:00:50|400', 'enough of them, but not for ten times the estimate');
step($l, [ late_times($l, 30), spread($l->{w} + 2 * $SEC, $l->{w} + 9 * $SEC, 20) ], $l->{w} + 10 * $SEC) for 1 .. 4;
is(known($l, 'state'), 'learning', 'a little later still not');
my $kept = sql("SELECT count(*), min(allowed_lateness), max(allowed_lateness) FROM aion.window_state WHERE view = 'l_v'::regclass AND NOT final");
like($kept, qr/^\d+\|$INITIAL\|$INITIAL$/, 'all windows so far have the initial lateness');
for (1 .. 20)
{
	step($l, [ late_times($l, 30), spread($l->{w} + 2 * $SEC, $l->{w} + 20 * $SEC, 40) ], $l->{w} + 20 * $SEC + int(rand($SEC)));
	last if known($l, 'state') eq 'estimated';
}
is(known($l, 'state, reason'), 'estimated|as estimated', 'then there is an estimate');
is(sql("SELECT min(allowed_lateness) FROM aion.window_state WHERE view = 'l_v'::regclass AND NOT final"), $INITIAL, 'windows of before have the initial lateness');
written($l);
bound_is_exact($l, 'it is in the cell of the exact rank');
cmp_ok(bound($l), '<', 25 * $SEC, 'and less than the initial lateness');
is(known($l, "beyond < 0.01 AND p50 BETWEEN '0.9 s' AND '2.2 s' AND p50 < p90 AND p90 < p99"), 't', 'quantiles are shown');

# ---- new windows have it, others keep theirs ------------------------------------------------------------------------------------

step($l, [ spread($l->{w}, $l->{w} + $SEC, 5), late_times($l, 5) ], $l->{w} + 2 * $SEC);
my $bound = sql("SELECT allowed_lateness FROM aion.window_state WHERE view = 'l_v'::regclass ORDER BY window_start DESC LIMIT 1");
cmp_ok(abs($bound / bound($l) - 1), '<', 0.1, 'a new window has the estimate');
is(sql("SELECT max(allowed_lateness) FROM aion.window_state WHERE view = 'l_v'::regclass"), $INITIAL, 'those before keep the initial lateness');
my $count = "SELECT expired_events FROM aion.streams WHERE stream = 'l'::regclass";
my $few = sql($count);
my $old = $l->{w} - 6 * $SEC;
step($l, [ spread($l->{w} + 2 * $SEC, $l->{w} + 30 * $SEC, 120) ], $l->{w} + 30 * $SEC);
step($l, [$old]);
is(sql($count), $few, 'and take in what comes after the estimate and before that');
exact($l, 'after learning');

# ---- restarts and crashes ---------------------------------------------------------------------------------------------------------

written($l);
my $before = known($l, 'late_events, effective_events, p50, p90, p99, bound, state, reason, observed_for, evidence_time');
my $unfinal = "SELECT window_start, allowed_lateness FROM aion.window_state WHERE view = 'l_v'::regclass AND NOT final ORDER BY 1";
my $windows = sql($unfinal);
for my $how ('restart', 'crash')
{
	if ($how eq 'restart') { $node->restart } else { kill_server($node, 'KILL') }
	$session->connect;
	sql("SELECT aion.sync('l')");
	is(known($l, 'late_events, effective_events, p50, p90, p99, bound, state, reason, observed_for, evidence_time'), $before, "$how: what was learnt is still known");
	is(sql($unfinal), $windows, "$how: windows keep their lateness");
	$bound = bound($l);
	my $t = $l->{w} + 3 * $SEC / 2;
	step($l, [$t], $l->{w} + 2 * $SEC);
	is(sql("SELECT allowed_lateness FROM aion.window_state WHERE view = 'l_v'::regclass AND window_start <= " . at($t) . " ORDER BY window_start DESC LIMIT 1"),
		$bound, "$how: a new window has the bound of before");
	$windows = sql($unfinal);
	$before = known($l, 'late_events, effective_events, p50, p90, p99, bound, state, reason, observed_for, evidence_time');
}
exact($l, 'after a crash');

# ---- no feedback: what comes too late counts as well ------------------------------------------------------------------------------

# 20000 late events in a memory of 5000. If only those in time were observed, the bound would fall to about half.
my (@bounds, @buckets);
my ($late, $expired) = split /\|/, sql("SELECT late_events, expired_events FROM aion.streams WHERE stream = 'l'::regclass");
for my $round (1 .. 40)
{
	step($l, [ late_times($l, 500), spread($l->{w}, $l->{w} + 5 * $SEC, 150) ], $l->{w} + 5 * $SEC + int(rand($SEC)));
	push @bounds, bound($l);
	push @buckets, sql("SELECT count(*) FROM aion.buckets WHERE stream = 'l'::regclass") if $round % 10 == 0;
}
written($l);
bound_is_exact($l, 'after 20000 more the bound is that of the exact rank');
my ($least, $most) = (min(@bounds), max(@bounds));
cmp_ok($least, '>', 8.5 * $SEC, 'it has not shrunk');
cmp_ok($most, '<', 17 * $SEC, 'nor grown');
my ($late_after, $expired_after) = split /\|/, sql("SELECT late_events, expired_events FROM aion.streams WHERE stream = 'l'::regclass");
my $lost = ($expired_after - $expired) / ($late_after - $late);
cmp_ok($expired_after - $expired, '>', 0, 'some came too late');
cmp_ok($lost, '<', 0.011, 'no more than the coverage allows') or diag($lost);
exact($l, 'after 20000 late events');
is(sql(q{SELECT count(*) FROM aion.expired WHERE stream = 'l'::regclass AND (reason <> 'expired' OR partial)}), '0', 'all of them expired');

# ---- what has had its lateness is purged -------------------------------------------------------------------------------------------

my $from = at($l->{w} - $most - 10 * $SEC);
wait_until($node, "SELECT count(*) = 0 FROM l WHERE at < $from", 'events are purged after the bound that was learnt');
wait_until($node, "SELECT count(*) = 0 FROM aion.buckets WHERE stream = 'l'::regclass AND bucket_end < $from", 'so are their buckets');
step($l, [], $l->{w} + $SEC);
wait_until($node, "SELECT count(*) = 0 FROM aion.window_state WHERE view = 'l_v'::regclass AND window_start < $from - interval '1 s'", 'and the rows of their windows');
cmp_ok($buckets[-1], '<=', 2 * $buckets[0], 'buckets did not become more and more') or diag("@buckets");
exact($l, 'after purging');

# ---- a change of law -----------------------------------------------------------------------------------------------------------------

step($l, [ late_times($l, 500, 2), spread($l->{w}, $l->{w} + 5 * $SEC, 150) ], $l->{w} + 5 * $SEC) for 1 .. 12;
written($l);
bound_is_exact($l, 'the bound follows events that come later than before');
cmp_ok(bound($l), '>', 15 * $SEC, 'and is longer');
exact($l, 'after a change');
sql("ALTER FOREIGN TABLE l OPTIONS (ADD lateness_coverage '0.5')");
sql("SELECT aion.sync('l')");
cmp_ok(bound($l), '<', 4 * $SEC, 'another coverage counts at once');
my $t = $l->{w} + 3 * $SEC / 2;
step($l, [$t], $l->{w} + 2 * $SEC);
is(sql("SELECT allowed_lateness FROM aion.window_state WHERE view = 'l_v'::regclass AND window_start <= " . at($t) . " ORDER BY window_start DESC LIMIT 1"),
	bound($l), 'for a new window, too');
sql("ALTER SYSTEM SET aion.initial_lateness = '1 s'");
sql('SELECT pg_reload_conf()');
wait_until($node, "SELECT bound = '1 s' AND reason = 'estimate not below the initial lateness' FROM aion.lateness WHERE stream = 'l'::regclass", 'no bound exceeds the initial lateness');
sql('ALTER SYSTEM RESET aion.initial_lateness');
sql('SELECT pg_reload_conf()');
wait_until($node, "SELECT bound > '1 s' FROM aion.lateness WHERE stream = 'l'::regclass", 'and back');
exact($l, 'after changes of options');

# ---- one row with a fast clock, or 99 -------------------------------------------------------------------------------------------------

my $m = create('m', ", idle_timeout 'off', watermark_delay '0'", '');
sql("SELECT aion.create_view('m_x', 'SELECT count(*) AS n FROM m', aion.tumbling('1 s'), allowed_lateness => '50 s')");
sql("SELECT aion.sync('m')");
sub mad { my ($n) = @_; return map { $BASE + 12 * 3600 * $SEC } 1 .. $n }
sub states { return sql("SELECT string_agg(DISTINCT state, ' ' ORDER BY state) FROM aion.windows WHERE view = '$_[0]'::regclass AND window_start < " . at($BASE + 3600 * $SEC)) }
step($m, [ spread($BASE, $BASE + 20 * $SEC, 40) ]);
step($m, [ mad(1) ]);
is(states('m_v'), 'on_time', 'a row with a fast clock makes no window final');
is(states('m_x'), 'final', 'unless the lateness is not automatic');
step($m, [ spread($BASE, $BASE + 30 * $SEC, 60) ]);
is(sql("SELECT expired_events FROM aion.streams WHERE stream = 'm'::regclass"), '60', 'honest rows are late ...');
is(sql("SELECT sum(events) FROM aion.windows WHERE view = 'm_v'::regclass AND window_start < " . at($BASE + 3600 * $SEC)), '100', '... and count');
step($m, [ mad(98) ]);
is(states('m_v'), 'late', 'nor do 99 rows');
sql("SELECT aion.refresh('m_v')");
is(sql("SELECT sum(n) FROM m_v WHERE window_start < " . at($BASE + 3600 * $SEC)), '100', 'results have the honest ones');
$node->restart;
$session->connect;
sql("SELECT aion.sync('m')");
step($m, [ mad(1) ]);
is(states('m_v'), 'late', 'after a restart the evidence begins at what 100 events had reached');
step($m, [ mad(99) ]);
wait_until($node, "SELECT count(*) = 0 FROM m WHERE at < " . at($BASE + 3600 * $SEC), '100 rows are believed');
exact($m, 'after fast clocks');
sql("SELECT aion.reset_watermark('m', " . at($BASE) . ')');
my $w = sql("SELECT extract(epoch FROM watermark - " . at($BASE) . ") FROM aion.streams WHERE stream = 'm'::regclass");
is($w, '80.000000', 'W goes back to where the last honest window was final');
is(known($m, 'evidence_time <= ' . at($BASE + 80 * $SEC)), 't', 'and the evidence with it');
step($m, [ spread($BASE + 80 * $SEC, $BASE + 85 * $SEC, 120) ]);
step($m, [ $BASE + 81 * $SEC ]);
exact($m, 'after W was reset');
is(sql("SELECT count(*) FROM m WHERE at BETWEEN " . at($BASE + 80 * $SEC) . ' AND ' . at($BASE + 85 * $SEC)), '121', 'with which honest rows count again');

# ---- final to the microsecond, not sooner and not twice as late ------------------------------------------------------------------

my $f = create('f', ", watermark 'manual'", '');
step($f, [ $BASE + $SEC / 2, map { $BASE + 100 * $SEC } 1 .. 100 ], $BASE + $SEC);
step($f, [ $BASE ], $BASE + 51 * $SEC - 1);
is(sql("SELECT final_firings FROM aion.views WHERE view = 'f_v'::regclass"), '0', 'a microsecond before end + lateness it is not final');
step($f, [ $BASE + 1 ], $BASE + 51 * $SEC);
is(sql("SELECT final_firings, (SELECT n FROM f_v WHERE window_start = " . at($BASE) . ") FROM aion.views WHERE view = 'f_v'::regclass"), '1|3', 'at end + lateness it is');
step($f, [ $BASE + 2 ]);
is(sql("SELECT events, late_events, expired_events FROM aion.streams WHERE stream = 'f'::regclass"), '104|3|1', 'what comes then has expired');
exact($f, 'at the edge');

# ---- whatever happens ----------------------------------------------------------------------------------------------------------

my $z = create('z', ", watermark 'manual', lateness_coverage '0.7', lateness_confidence '0.9'", '');
my %disruption = (
	restart => sub { $node->restart },
	immediate => sub { $node->stop('immediate'); $node->start },
	crash => sub { kill_server($node, 'KILL') },
	scheduler => sub { kill_worker($node, 'scheduler', 'KILL'); 1 until $session->query('SELECT 1')->{lost} },
);
step($z, [ spread($BASE, $BASE + $SEC, 20) ], $BASE + $SEC);
for my $round (1 .. 60)
{
	my $what = rand() < 0.15 ? (sort keys %disruption)[ int(rand(keys %disruption)) ] : undef;
	my $advance = rand() < 0.8 ? 1 + int(rand(4 * $SEC)) : 0;
	note("round $round: $what") if $what;
	step($z, [ late_times($z, int(rand(20)), 0.3 + 0.2 * ($round % 3)), spread($z->{w} - 2 * $SEC, $z->{w} + 4 * $SEC, int(rand(120))) ], $z->{w} + $advance,
		$what && sub { $disruption{$what}->(); $session->connect });
	next if $round % 20;
	exact($z, "round $round");
	# nothing expires within the least bound, nor without evidence
	my %expired = map { $_ => 1 } split /\n/, sql("SELECT event->>'id' FROM aion.expired WHERE stream = 'z'::regclass");
	my @wrong;
	for my $event (grep { $expired{ $_->{id} } } @{ $z->{events} })
	{
		my $beyond = grep { $_->{step} < $event->{step} && $_->{time} >= $event->{end} + $SEC } @{ $z->{events} };
		push @wrong, "$event->{id}: lateness $event->{lateness}, $beyond beyond" if $event->{lateness} < $SEC || $beyond < 100;
	}
	is("@wrong", '', "round $round: what expired had to");
	note('expired: ' . keys %expired);
}
is(known($z, 'state'), 'estimated', 'with an estimate');

# ---- dump ----------------------------------------------------------------------------------------------------------------------

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
like(slurp_file($dump), qr/^COPY aion\.stream_lateness .*\n(?:[^\n]+\n)*?public\.l\t/m, 'what is known of lateness is in a dump');

$session->close;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
done_testing();
