# Schedules with a short allowed lateness, and a model that knows which events expire in which windows.
#
# The watermark is manual and each transaction is followed by a sync, so that it is determined by which W its events are
# judged: W_e of before. Crashes and restarts change nothing about that. The model keeps, for every view, the pairs
# (event, window) that expired; the batch query leaves them out. Now and then expired events are readmitted: then their pairs
# go, unless that was refused for want of events.
package Expiry;

use strict;
use warnings;

use Aion;
use Exporter 'import';
use List::Util qw(max min);
use Oracle qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql ts window_starts);
use POSIX ();
use PostgreSQL::Test::Utils;
use Schedule qw(compare);
use Session;
use Test::More;

our @EXPORT_OK = qw(run_expiry_round);

my $SECOND = 1_000_000;
my $BASE = 1_709_280_000 * $SECOND;    # 2024-03-01 08:00 UTC
my $WIDTH = 10 * $SECOND;

sub pick { return $_[ int(rand(scalar @_)) ] }
sub chance { return rand() < $_[0] }

# run_expiry_round(NODE, ROUND, STEPS => N): as Schedule::run_round
sub run_expiry_round
{
	my ($node, $number, %option) = @_;
	my $self = bless {
		node => $node, number => $number, stream => "e$number", table => "ep$number", fates => "fates$number",
		next_id => 1, w => undef, lateness => ($ENV{AION_LATENESS} // pick(0, 20, 45, 150, 300)) * $SECOND, events => [], late => 0, expired => 0, aside => 0,
		partial => 0, readmitted => 0, buckets => {}, log => [],
	}, __PACKAGE__;
	$self->{session} = Session->new($node);
	$self->_define;
	for my $step (1 .. $option{steps})
	{
		$self->_step;
		next if $step % 8 && $step != $option{steps};
		return 0 unless $self->_check("expiry round $number, step $step");
	}
	$self->_sql("DROP FOREIGN TABLE $self->{stream} CASCADE");
	$self->_sql("DROP TABLE $self->{table}, $self->{fates}");
	$self->{session}->close;
	return 1;
}

sub _sql
{
	my ($self, $sql) = @_;
	for (1 .. 3)
	{
		my $result = $self->{session}->query($sql);
		return $result->{out} if $result->{ok};
		die "failed: $sql\n$result->{out}" unless $result->{lost};
		$self->{session}->connect;
	}
	die "connection lost again and again: $sql";
}

sub _define
{
	my ($self) = @_;
	$self->_sql("CREATE FOREIGN TABLE $self->{stream} (" . COLUMNS . ") SERVER aion OPTIONS (event_time 'at', watermark 'manual', "
		. "allowed_lateness '$self->{lateness} us', bucket_width '$WIDTH us', watermark_interval '5 ms')");
	$self->_sql("CREATE TABLE $self->{table} (" . COLUMNS . ')');
	$self->_sql("CREATE TABLE $self->{fates} (id bigint, view text, start timestamptz)");
	$self->_sql("CREATE TABLE IF NOT EXISTS dim AS SELECT k, 'name' || k % 3 AS name, k * 10 AS factor FROM generate_series(0, 9) k");
	for my $i (1 .. 3)
	{
		my $size = pick(10, 17, 30, 60) * $SECOND + pick(0, 0, 123_457);
		my $slide = pick($size, $size, int($size / 2), int($size * 0.7), int($size * 1.4));
		my %view = (
			name => "ev$self->{number}_$i", query => pick(@QUERIES), size => $size, slide => $slide,
			origin => chance(0.3) ? $BASE + 3_000_001 : DEFAULT_ORIGIN, lateness => $self->{lateness});
		if (chance(0.5))
		{
			$view{lateness} = pick(0, 15, 90) * $SECOND;
			$view{allowed_lateness} = "'$view{lateness} us'";
		}
		note("view $view{name}: size $size, slide $slide, lateness $view{lateness}: $view{query}");
		$self->_sql(create_view_sql(\%view, $self->{stream}));
		push @{ $self->{views} }, { %view, seen => {} };
	}
	return;
}

# What becomes of an event that is accounted now.
sub _judge
{
	my ($self, $id, $t) = @_;
	my $w = $self->{w};
	my ($late, $closed, $open) = (0, 0, 0);
	my @fates;
	for my $view (@{ $self->{views} })
	{
		for my $start (window_starts($view, $t))
		{
			my $end = $start + $view->{size};
			$late = 1 if defined $w && $end <= $w;
			if (defined $w && $end + $view->{lateness} <= $w)
			{
				$closed++;
				push @fates, "($id, '$view->{name}', " . ts($start) . ')';
			}
			else
			{
				$open++;
				$view->{seen}{$start} = 1;
			}
		}
	}
	my $bucket_end = (POSIX::floor(($t - DEFAULT_ORIGIN) / $WIDTH) + 1) * $WIDTH + DEFAULT_ORIGIN;
	my $aside = !$open && ($closed || (defined $w && $bucket_end + $self->{lateness} <= $w));
	$self->{late} += $late;
	$self->{expired} += $closed || $aside ? 1 : 0;
	$self->{aside} += $aside ? 1 : 0;
	$self->{partial} += !$aside && $closed ? 1 : 0;
	push @{ $self->{events} }, { id => $id, t => $t, aside => $aside, bucket_end => $bucket_end };
	return @fates;
}

# One transaction of events, perhaps with an advance, perhaps rolled back; what it wrote is judged when it has committed.
sub _step
{
	my ($self) = @_;
	my $front = $self->{w} // $BASE;
	my @rows;
	if (chance(0.9))
	{
		for (1 .. pick(1, 5, 30, 200))
		{
			my $t = $front + int((rand(1) < 0.6 ? rand(60) : -rand(200)) * $SECOND);
			push @rows, [ $self->{next_id}++, int(rand(6)), int(rand(100)), "'n'", $t ];
		}
	}
	my $advance = !@rows || chance(0.35) ? $front + int(rand(60) * $SECOND) : undef;
	my $values = join ', ', map { '(' . join(', ', @$_[0 .. 3], ts($_->[4])) . ')' } @rows;
	my $rollback = chance(0.15);
	my @sql = ('BEGIN');
	push @sql, "INSERT INTO $self->{stream} VALUES $values", "INSERT INTO $self->{table} VALUES $values" if @rows;
	push @sql, "SELECT aion.advance_watermark('$self->{stream}', " . ts($advance) . ')' if defined $advance;
	my $prepared = !$rollback && chance(0.15);
	push @sql, $rollback ? 'ROLLBACK' : $prepared ? "PREPARE TRANSACTION 'e'" : 'COMMIT';
	$self->{session}->must($_) for @sql;
	if ($prepared)
	{
		$self->_sql("SELECT aion.sync('$self->{stream}')");
		$self->_disrupt if chance(0.3);
		$self->_sql("COMMIT PREPARED 'e'");
	}
	if (!$rollback)
	{
		my @fates = map { $self->_judge($_->[0], $_->[4]) } @rows;
		$self->{w} = max($self->{w} // $advance, $advance) if defined $advance;
		$self->_disrupt if chance(0.2);
		$self->_sql("INSERT INTO $self->{fates} VALUES " . join(', ', @fates)) if @fates;
	}
	$self->_sql("SELECT aion.sync('$self->{stream}', late => " . pick('true', 'false') . ')');
	$self->_sql("SELECT aion.destage('$self->{stream}')") if chance(0.1);
	$self->_sql("SELECT aion.refresh('" . pick(@{ $self->{views} })->{name} . "')") if chance(0.1);
	$self->_readmit if chance(0.15);
	$self->_disrupt if chance(0.05);
	return;
}

# Readmits something of what has expired: what the events of whose windows are likely to be there, some of that, or any one.
sub _readmit
{
	my ($self) = @_;
	my $there = "AND event_time >= (SELECT min(at) + interval '70 s' FROM $self->{stream})";
	my $some = pick($there, $there, "$there AND random() < 0.3", 'ORDER BY random() LIMIT 1');
	my @rows = map { [ split /\|/ ] } split /\n/, $self->_sql("SELECT id, event->>'id', partial FROM aion.expired WHERE stream = '$self->{stream}'::regclass $some");
	return unless @rows;
	my $ids = join ', ', map { $_->[0] } @rows;
	my $result = $self->{session}->query("SELECT aion.readmit(VARIADIC '{$ids}')");
	if (!$result->{ok})
	{
		die "failed: $result->{sql}\n$result->{out}" unless $result->{lost} || $result->{out} =~ /lacks events that were purged|has also missed/;
		$self->{session}->connect if $result->{lost};
		return if $self->_sql("SELECT count(*) FROM aion.expired WHERE id IN ($ids)") > 0;
	}
	note("r$self->{number}: readmitted " . scalar @rows);
	my %by_id = map { $_->{id} => $_ } @{ $self->{events} };
	for my $row (@rows)
	{
		my $event = $by_id{ $row->[1] };
		$self->{readmitted}++;
		$self->{ $row->[2] eq 't' ? 'partial' : 'aside' }--;
		$event->{aside} = 0;
		$event->{readmitted} = 1;
		for my $view (@{ $self->{views} })
		{
			$view->{seen}{$_} = 1 for window_starts($view, $event->{t});
		}
	}
	$self->_sql("DELETE FROM $self->{fates} WHERE id IN (" . join(', ', map { $_->[1] } @rows) . ')');
	return;
}

sub _disrupt
{
	my ($self) = @_;
	my $node = $self->{node};
	my $what = pick('restart', 'immediate', 'scheduler', 'io', 'postmaster');
	note("r$self->{number}: $what");
	if ($what eq 'restart') { $node->restart }
	elsif ($what eq 'immediate') { $node->stop('immediate'); $node->start }
	elsif ($what eq 'postmaster') { kill_server($node) }
	else
	{
		my $pid = $self->_sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'aion $what' LIMIT 1") || return;
		kill('KILL', $pid) or return;
		1 until $self->{session}->query('SELECT 1')->{lost};
	}
	$self->{session}->connect;
	return;
}

sub _check
{
	my ($self, $where) = @_;
	my ($stream, $table, $fates) = @$self{qw(stream table fates)};
	my @wrong;
	my $w = $self->{w};
	my $w_sql = defined $w ? ts($w) . '::timestamptz' : 'NULL::timestamptz';
	$self->_sql("SELECT aion.sync('$stream', late => true)");
	for my $view (@{ $self->{views} })
	{
		$self->_sql("SELECT aion.refresh('$view->{name}')");
		my $difference = compare($self->{session}, "SELECT * FROM $view->{name}", batch_query($view, $table, $fates));
		push @wrong, "$view->{name} (size $view->{size}, slide $view->{slide}, origin $view->{origin}, lateness $view->{lateness}): $view->{query}\n$difference" if $difference ne '';
		my @starts = keys %{ $view->{seen} };
		my $on_time = grep { defined $w && $_ + $view->{size} <= $w } @starts;
		my $final = grep { defined $w && $_ + $view->{size} + $view->{lateness} <= $w } @starts;
		my $got = $self->_sql("SELECT on_time_firings, final_firings FROM aion.views WHERE view = '$view->{name}'::regclass");
		push @wrong, "$view->{name}: firings on time and final $got, not $on_time|$final" if $got ne "$on_time|$final";
		$got = $self->_sql("SELECT window_start, state FROM aion.windows WHERE view = '$view->{name}'::regclass AND (state = 'final') IS DISTINCT FROM coalesce(window_end + interval '$view->{lateness} us' <= $w_sql, false)");
		push @wrong, "$view->{name}: W is $w_sql, state of window $got" if $got ne '';
	}
	my $count = @{ $self->{events} };
	my %want = (
		"SELECT events, late_events, expired_events, watermark IS NOT DISTINCT FROM $w_sql FROM aion.streams WHERE stream = '$stream'::regclass" => "$count|$self->{late}|$self->{expired}|t",
		"SELECT count(*) FILTER (WHERE NOT partial), count(*) FILTER (WHERE partial), count(DISTINCT (event->>'id')::bigint) FROM aion.expired WHERE stream = '$stream'::regclass" => "$self->{aside}|$self->{partial}|" . ($self->{expired} - $self->{readmitted}),
	);
	for my $sql (sort keys %want)
	{
		my $got = $self->_sql($sql);
		push @wrong, "$sql: $got, not $want{$sql}" if $got ne $want{$sql};
	}
	push @wrong, $self->_check_retained;
	ok(!@wrong, $where) or diag(join "\n", @wrong);
	return !@wrong;
}

# What must be there is; what is to be purged goes, soon. An event is purged when its bucket has had the stream's lateness,
# and every window that begins before the bucket's end its own.
sub _check_retained
{
	my ($self) = @_;
	my $w = $self->{w};
	my (@stay, @go);
	for my $event (grep { !$_->{aside} } @{ $self->{events} })
	{
		my $end = $event->{bucket_end};
		my $gone = defined $w && $end + $self->{lateness} <= $w;
		for my $view (@{ $self->{views} })
		{
			last unless $gone;
			# the last window that begins before the bucket's end; where that lies in a gap, its end may come before
			my ($start) = window_starts({ %$view, size => max($view->{size}, $view->{slide}) }, $end - 1);
			$gone &&= $start + $view->{size} + $view->{lateness} <= $w;
		}
		# what came back after its time goes at the next purge, whenever that is
		next if $gone && $event->{readmitted};
		push @{ $gone ? \@go : \@stay }, $event->{id};
	}
	my $stay = join ',', @stay;
	my $missing = $self->_sql("SELECT count(*), min(id) FROM unnest('{$stay}'::bigint[]) id WHERE id NOT IN (SELECT id FROM $self->{stream})");
	return "events that are to be retained are missing: $missing" if $missing !~ /^0/;
	my $double = $self->_sql("SELECT count(*) - count(DISTINCT id) FROM $self->{stream}");
	return "events are doubled: $double" if $double ne '0';
	my $go = join ',', @go;
	my $purged = $self->{node}->poll_query_until('postgres', "SELECT count(*) = 0 FROM $self->{stream} WHERE id = ANY ('{$go}')");
	return 'events that have had their lateness are not purged: ' . $self->_sql("SELECT count(*), min(at), max(at) FROM $self->{stream} WHERE id = ANY ('{$go}')") unless $purged;
	return;
}

1;
