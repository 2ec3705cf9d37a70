# Random schedules: a stream and an ordinary table are fed by the same transactions, in several sessions at once, with
# rollbacks, savepoints, prepared transactions, destages, stagings, restarts and kills between; after each phase every
# view must equal its batch query over the table.
#
# What is committed needs no bookkeeping here: the table is written by the same transactions. Transactions whose COMMIT
# was acknowledged are remembered all the same, and must be there.
package Schedule;

use strict;
use warnings;

use Aion;
use Exporter 'import';
use List::Util qw(max min shuffle);
use Oracle qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql ts);
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT_OK = qw(run_round compare);

my $SECOND = 1_000_000;

# run_round(NODE, ROUND, STEPS => N, SESSIONS => N): one stream with its views, from creation to DROP. Dies or fails the
# test with a diagnosis. Randomness is perl's rand().
sub run_round
{
	my ($node, $number, %option) = @_;
	my $self = bless {
		node => $node, number => $number, stream => "s$number", table => "p$number",
		next_id => 1, acked => [], prepared => {}, serial => 0, bulk => $option{bulk}, log => [], kills => 0,
	}, __PACKAGE__;
	$self->{sessions} = [ map { { session => Session->new($node), open => 0, index => $_ } } 1 .. $option{sessions} // 3 ];
	$self->{control} = Session->new($node);
	$self->_define;
	for my $step (1 .. $option{steps})
	{
		$self->_step;
		if ($step % ($option{phase} // 20) == 0 || $step == $option{steps})
		{
			return 0 unless $self->_check("round $number, step $step");
		}
	}
	$self->_settle;
	return 0 unless $self->_check("round $number, end");
	$self->_sql("DROP FOREIGN TABLE $self->{stream} CASCADE");
	$self->_sql("DROP TABLE $self->{table}, acked");
	$_->{session}->close for @{ $self->{sessions} };
	$self->{control}->close;
	return 1;
}

sub pick { return $_[ int(rand(scalar @_)) ] }
sub chance { return rand() < $_[0] }

sub _note
{
	my ($self, $text) = @_;
	push @{ $self->{log} }, $text;
	note("r$self->{number}: $text") if $ENV{AION_VERBOSE};
	return;
}

# ---- definitions --------------------------------------------------------------------------------------------------

sub _window
{
	my ($self) = @_;
	my $unit = $self->{unit};
	my $size = int($unit * (3 + rand(40)));
	my $slide = pick($size, $size, int($size / 2), int($size / pick(3, 4, 5)), int($size * 0.7), int($size * 1.6));
	my $origin = chance(0.3) ? $self->{base} + int(rand(10) * $unit) : DEFAULT_ORIGIN;
	($size, $slide) = map { max(1, int($_ / $SECOND)) * $SECOND } $size, $slide if chance(0.5) && $unit >= $SECOND;
	return (size => $size, slide => $slide, origin => $origin);
}

sub _define
{
	my ($self) = @_;
	my ($stream, $table) = @$self{qw(stream table)};
	$self->{unit} = pick(0.137 * $SECOND, $SECOND, 7.3 * $SECOND, 60 * $SECOND, 3600 * $SECOND);
	# 2024, around 2000, before 1970
	$self->{base} = pick(1_709_280_000, 1_709_280_000, 946_684_700, -300_000_000) * $SECOND + int(rand(1e6));
	$self->{progress} = 0;
	my %options = (
		event_time => 'at', allowed_lateness => 'unlimited', watermark_interval => pick('1 ms', '5 ms', '20 ms', '100 ms'),
		idle_timeout => pick('off', 'off', '200 ms'), watermark_delay => pick('0', int($self->{unit} * 5) . ' us'));
	$options{bucket_width} = int($self->{unit} * pick(3, 20, 61)) . ' us' if chance(0.6);
	$self->{delay} = $options{watermark_delay} =~ /(\d+)/ ? $1 : 0;
	$self->{idle} = $options{idle_timeout} ne 'off';
	my $list = join ', ', map { "$_ '$options{$_}'" } sort keys %options;
	$self->_note("base $self->{base}, unit $self->{unit}, $list");
	$self->_sql("CREATE FOREIGN TABLE $stream (" . COLUMNS . ") SERVER aion OPTIONS ($list)");
	$self->_sql("CREATE TABLE $table (" . COLUMNS . ')');
	$self->_sql("CREATE INDEX ON $table (at)");
	$self->_sql("CREATE TABLE acked (tx int)");
	$self->_sql("CREATE TABLE IF NOT EXISTS dim AS SELECT k, 'name' || k % 3 AS name, k * 10 AS factor FROM generate_series(0, 9) k");
	$self->{views} = [];
	$self->_add_view for 1 .. 4;
	return;
}

sub _add_view
{
	my ($self) = @_;
	my %view = (name => "v$self->{number}_" . (++$self->{serial}), query => pick(@QUERIES), $self->_window);
	$view{early} = "'50 ms'" if chance(0.2);
	$view{staleness} = pick(0.5, 0.05, 1e-6) if chance(0.3);
	$self->_note("view $view{name}: size $view{size}, slide $view{slide}, origin $view{origin}: $view{query}");
	$self->_sql(create_view_sql(\%view, $self->{stream}));
	push @{ $self->{views} }, \%view;
	return;
}

# ---- events ---------------------------------------------------------------------------------------------------------

# Event times move on, most of them a little out of order, some far behind.
sub _time
{
	my ($self) = @_;
	my $unit = $self->{unit};
	return $self->{base} + int(rand($self->{progress} + 1) * $unit) if chance(0.15);
	return $self->{base} + int(($self->{progress} + rand(6)) * $unit);
}

sub _row
{
	my ($self) = @_;
	my $id = $self->{next_id}++;
	my $note = chance(0.1) ? 'NULL' : "'" . ('x' x int(rand(chance(0.02) ? 9000 : 20))) . "'";
	my $v = chance(0.05) ? 'NULL' : int(rand(100));
	return [ $id, int(rand(6)), $v, $note, ts($self->_time) ];
}

# SQL that writes the same events to the stream and to the table; a list of statements.
sub _writes
{
	my ($self) = @_;
	my ($stream, $table) = @$self{qw(stream table)};
	$self->{progress} += rand(2);
	my $kind = rand();
	if ($kind < 0.75)
	{
		my $n = $kind < 0.3 ? 1 : 1 + int(rand(40));
		my @rows = map { $self->_row } 1 .. $n;
		if ($kind < 0.55)
		{
			my $values = join ', ', map { '(' . join(', ', @$_) . ')' } @rows;
			return map { "INSERT INTO $_ VALUES $values" } chance(0.5) ? ($stream, $table) : ($table, $stream);
		}
		my $data = join '', map { join("\t", map { /^NULL$/ ? '\N' : tr/'//dr } @$_) . "\n" } @rows;
		return map { "COPY $_ FROM stdin;\n$data\\." } $stream, $table;
	}
	my $n = $self->{bulk} ? 2000 + int(rand(4000)) : 50 + int(rand(800));
	my $first = $self->{next_id};
	$self->{next_id} += $n;
	my $from = ts($self->{base} + int((chance(0.8) ? $self->{progress} : rand($self->{progress} + 1)) * $self->{unit}));
	my $spread = int($self->{unit} * 6);
	my $select = "SELECT i, i % 6, (i * 7919) % 100, repeat('y', (i % 30)::int), $from\::timestamptz + (i * 7877 % $spread) * interval '1 us'"
	  . " FROM generate_series($first\::bigint, " . ($first + $n - 1) . ') i';
	return map { "INSERT INTO $_ $select" } $stream, $table;
}

# ---- steps ----------------------------------------------------------------------------------------------------------

# A statement of the test itself; tolerates that the connection is lost to a crash just before.
sub _sql
{
	my ($self, $sql, $seconds) = @_;
	for my $attempt (1 .. 3)
	{
		my $result = $self->{control}->query($sql, $seconds);
		return $result->{out} if $result->{ok};
		die "failed: $sql\n$result->{out}" unless $result->{lost};
		$self->{control}->connect;
	}
	die "connection lost again and again: $sql";
}

# True if a serializable transaction was told to try again, as it may be at any statement; it is rolled back then, and
# nobody tries again. Any other transaction must not be told so.
sub _told_to_retry
{
	my ($self, $s, $result) = @_;
	return 0 unless $s->{serializable} && $result->{out} =~ /ERROR:  could not serialize access/;
	$s->{open} = 0;
	my $rollback = $s->{session}->query('ROLLBACK');
	$self->_lost($s) if $rollback->{lost};
	return 1;
}

# Runs a statement in a session that is expected to work; false if the transaction or the connection is gone.
sub _run
{
	my ($self, $s, $sql) = @_;
	my $result = $s->{session}->query($sql);
	return 1 if $result->{ok};
	return 0 if $self->_told_to_retry($s, $result);
	die "session $s->{index}: failed: " . substr($sql, 0, 500) . "\n$result->{out}" unless $result->{lost};
	$self->_lost($s);
	return 0;
}

sub _lost
{
	my ($self, $s) = @_;
	$s->{open} = 0;
	$s->{session}->connect;
	return;
}

sub _write
{
	my ($self, $s) = @_;
	for my $sql ($self->_writes)
	{
		$self->_run($s, $sql) or return 0;
	}
	return 1;
}

sub _begin
{
	my ($self, $s) = @_;
	my $isolation = chance(0.15) ? ' ISOLATION LEVEL ' . pick('REPEATABLE READ', 'SERIALIZABLE') : '';
	$s->{serializable} = $isolation =~ /SERIALIZABLE/;
	$self->_run($s, "BEGIN$isolation") or return 0;
	$s->{open} = 1;
	$s->{tx} = ++$self->{serial};
	return $self->_run($s, "INSERT INTO acked VALUES ($s->{tx})");
}

sub _commit
{
	my ($self, $s) = @_;
	my $tx = $s->{tx};
	$s->{open} = 0;
	$self->_run($s, 'COMMIT') and push @{ $self->{acked} }, $tx;
	return;
}

sub _step_session
{
	my ($self) = @_;
	my $s = pick(@{ $self->{sessions} });
	if (!$s->{open})
	{
		$self->_begin($s) or return;
		$self->_write($s) or return;
		$self->_commit($s) if chance(0.6);
		return;
	}
	my $what = rand();
	if ($what < 0.35) { $self->_write($s) }
	elsif ($what < 0.5)
	{
		# a savepoint, rolled back or kept, perhaps with one inside
		$self->_run($s, 'SAVEPOINT a') && $self->_write($s) or return;
		if (chance(0.4))
		{
			$self->_run($s, 'SAVEPOINT b') && $self->_write($s) && $self->_run($s, pick('RELEASE b', 'ROLLBACK TO b')) or return;
		}
		$self->_run($s, pick('RELEASE a', 'ROLLBACK TO a', 'ROLLBACK TO a')) or return;
		$self->_write($s) if chance(0.3);
	}
	elsif ($what < 0.58)
	{
		# the transaction sees its own events, and no one else's
		my $stream = $self->_run_value($s, "SELECT count(*), sum(id) FROM $self->{stream}") // return;
		my $table = $self->_run_value($s, "SELECT count(*), sum(id) FROM $self->{table}") // return;
		# READ COMMITTED takes two snapshots, but nobody else commits between them: this test does one thing at a time
		die "own transaction sees $stream in the stream, $table in the table" if $stream ne $table;
	}
	elsif ($what < 0.75) { $self->_commit($s) }
	elsif ($what < 0.85)
	{
		$s->{open} = 0;
		$self->_run($s, 'ROLLBACK');
	}
	else
	{
		my $gid = 'g' . (++$self->{serial});
		$s->{open} = 0;
		$self->_run($s, "PREPARE TRANSACTION '$gid'") or return;
		$self->{prepared}{$gid} = $s->{tx};
	}
	return;
}

sub _run_value
{
	my ($self, $s, $sql) = @_;
	my $result = $s->{session}->query($sql);
	return $result->{out} if $result->{ok};
	return if $self->_told_to_retry($s, $result);
	die "failed: $sql\n$result->{out}" unless $result->{lost};
	$self->_lost($s);
	return;
}

sub _step_prepared
{
	my ($self, $gid) = @_;
	$gid //= pick(sort keys %{ $self->{prepared} }) // return;
	my $tx = delete $self->{prepared}{$gid};
	if (chance(0.6))
	{
		$self->_sql("COMMIT PREPARED '$gid'");
		push @{ $self->{acked} }, $tx;
	}
	else { $self->_sql("ROLLBACK PREPARED '$gid'") }
	return;
}

# Puts one session to work and returns it; it is in the middle of something, perhaps its COMMIT, when the caller goes on.
sub _busy_session
{
	my ($self) = @_;
	my ($s) = grep { !$_->{open} } shuffle @{ $self->{sessions} };
	return unless $s;
	$self->_begin($s) or return;
	$s->{session}->send(join("\n", (map { /\\\.$/ ? $_ : "$_;" } $self->_writes), "COMMIT;"));
	return $s;
}

# What a session that was left at work has come to.
sub _finish_busy
{
	my ($self, $s) = @_;
	return unless $s;
	my $result = $s->{session}->result;
	$s->{open} = 0;
	if ($result->{ok}) { push @{ $self->{acked} }, $s->{tx} }
	elsif ($result->{lost} || $result->{out} =~ /FATAL|terminating connection|the database system is/) { $self->_lost($s) }
	elsif (!$self->_told_to_retry($s, $result)) { die "failed: " . substr($result->{sql}, 0, 300) . "\n$result->{out}" }
	return;
}

# After a restart or crash: all sessions are new.
sub _reconnect
{
	my ($self) = @_;
	for my $s (@{ $self->{sessions} })
	{
		$s->{open} = 0;
		$s->{session}->result if $s->{session}->busy;
		$s->{session}->connect;
	}
	$self->{control}->connect;
	return;
}

# Returns when every backend of before the crash is gone.
sub _await_crash
{
	my ($self) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	for my $s ($self->{control}, map { $_->{session} } @{ $self->{sessions} })
	{
		while (1)
		{
			last if $s->busy ? $s->result->{lost} : $s->query('SELECT 1')->{lost};
			die 'the server did not restart after a process was killed' if time > $deadline;
			usleep(10_000);
		}
	}
	return;
}

my %DISRUPT = (
	'fast restart' => sub { $_[0]{node}->restart },
	'immediate restart' => sub { $_[0]{node}->stop('immediate'); $_[0]{node}->start },
	'kill -9 of the postmaster' => sub { kill_server($_[0]{node}) },
	'kill -9 of a backend' => sub {
		my ($self) = @_;
		kill 'KILL', pick(@{ $self->{sessions} })->{session}{backend};
		$self->_await_crash;
	},
	(map {
		my $kind = $_;
		(
			"kill -9 of the $kind" => sub {
				my ($self) = @_;
				my $pid = $self->_sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'aion $kind' LIMIT 1") || return 0;
				kill('KILL', $pid) or return 0;
				$self->_await_crash;
			},
			"SIGTERM to the $kind" => sub {
				my ($self) = @_;
				my $pid = $self->_sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'aion $kind' LIMIT 1") || return 0;
				kill 'TERM', $pid;
				return 0;    # sessions live on
			})
	} qw(launcher scheduler io executor)),
);

sub _step_disrupt
{
	my ($self) = @_;
	my $what = pick(sort keys %DISRUPT);
	my $busy = chance(0.7) ? $self->_busy_session : undef;
	usleep(int rand(40_000)) if $busy || chance(0.5);
	$self->_note($what);
	$self->{kills}++;
	my $gone = $DISRUPT{$what}->($self);
	if (defined $gone && $gone eq '0') { $self->_finish_busy($busy) }
	else { $self->_finish_reconnect($busy) }
	return;
}

# The busy session's COMMIT may have been acknowledged just before the server went.
sub _finish_reconnect
{
	my ($self, $busy) = @_;
	if ($busy && $busy->{session}->busy)
	{
		my $result = $busy->{session}->result;
		push @{ $self->{acked} }, $busy->{tx} if $result->{ok};
	}
	$self->_reconnect;
	return;
}

sub _step_truncate
{
	my ($self) = @_;
	return if %{ $self->{prepared} } || grep { $_->{open} } @{ $self->{sessions} };
	my $s = $self->{sessions}[0];
	my $end = pick('COMMIT', 'COMMIT', 'ROLLBACK');
	$self->_note("TRUNCATE, $end");
	$self->_begin($s) or return;
	$self->_write($s) or return if chance(0.3);
	$self->_run($s, "TRUNCATE $self->{stream}, $self->{table}") or return;
	$self->_write($s) or return if chance(0.6);
	$s->{open} = 0;
	$self->_run($s, $end) or return;
	push @{ $self->{acked} }, $s->{tx} if $end eq 'COMMIT';
	if ($end eq 'COMMIT') { $self->{watermark} = undef; $self->{truncated} = 1 }
	return;
}

# Copies blocks of a random range, which nobody may come for, to memory.
sub _step_stage
{
	my ($self) = @_;
	my $start = $self->{base} + int(rand($self->{progress} + 1) * $self->{unit});
	my $end = $start + 1 + int(rand(pick(1, 10, 1000)) * $self->{unit});
	$self->_sql("SELECT aion.stage('$self->{stream}', " . ts($start) . ', ' . ts($end) . ')');
	return;
}

sub _step
{
	my ($self) = @_;
	my $what = rand();
	if ($what < 0.72) { $self->_step_session }
	elsif ($what < 0.78) { $self->_step_prepared if %{ $self->{prepared} } }
	elsif ($what < 0.81) { $self->_sql("SELECT aion.destage('$self->{stream}')") }
	elsif ($what < 0.83) { $self->_step_stage }
	elsif ($what < 0.86) { $self->_sql("SELECT aion.sync('$self->{stream}', late => " . pick('true', 'false') . ')') }
	elsif ($what < 0.89) { $self->_sql("SELECT aion.refresh('" . pick(@{ $self->{views} })->{name} . "')") }
	elsif ($what < 0.91) { $self->_step_truncate if chance(0.5) }
	elsif ($what < 0.93 && @{ $self->{views} } < 6) { $self->_add_view }
	elsif ($what < 0.935 && @{ $self->{views} } > 2)
	{
		my $view = pop @{ $self->{views} };
		$self->_sql("SELECT aion.drop_view('$view->{name}')");
	}
	else { $self->_step_disrupt }
	return;
}

# Nothing stays open.
sub _settle
{
	my ($self) = @_;
	for my $s (grep { $_->{open} } @{ $self->{sessions} })
	{
		if (chance(0.7)) { $self->_commit($s) }
		else { $s->{open} = 0; $self->_run($s, 'ROLLBACK') }
	}
	$self->_step_prepared($_) for sort keys %{ $self->{prepared} };
	return;
}

# ---- comparison -----------------------------------------------------------------------------------------------------

# compare(SESSION, LEFT, RIGHT): rows that are in one of two queries alone, as text; '' if there are none.
sub compare
{
	my ($session, $actual, $expected, $seconds) = @_;
	my $sql = qq{
		WITH actual AS MATERIALIZED ($actual), expected AS MATERIALIZED ($expected)
		(SELECT 'missing' AS difference, e.* FROM (TABLE expected EXCEPT ALL TABLE actual) e LIMIT 8)
		UNION ALL
		(SELECT 'extra', a.* FROM (TABLE actual EXCEPT ALL TABLE expected) a LIMIT 8)};
	return $session->must($sql, $seconds);
}

sub _explain
{
	my ($self, $view, $difference) = @_;
	my ($stream, $table) = @$self{qw(stream table)};
	diag($difference);
	diag($self->_sql("SELECT * FROM aion.streams WHERE stream = '$stream'::regclass"));
	return unless $view;
	my ($start) = $difference =~ /^(?:missing|extra)\|([^|]+)\|/m;
	my $end = "timestamptz '$start' + interval '$view->{size} us'";
	diag("window $start of $view->{name} (size $view->{size}, slide $view->{slide}, origin $view->{origin}): $view->{query}");
	diag($self->_sql("SELECT * FROM aion.windows WHERE view = '$view->{name}'::regclass AND window_start = '$start'"));
	diag($self->_sql("SELECT * FROM aion.views WHERE view = '$view->{name}'::regclass"));
	for my $relation ($stream, $table)
	{
		diag("events in $relation: " . $self->_sql("SELECT count(*), sum(id) FROM $relation WHERE at >= '$start' AND at < $end"));
	}
	return;
}

sub _check
{
	my ($self, $where) = @_;
	my ($stream, $table) = @$self{qw(stream table)};
	my $failed = sub {
		my ($name, $difference, $view) = @_;
		fail("$where: $name");
		diag("last steps: " . join('; ', @{ $self->{log} }[max(0, @{ $self->{log} } - 12) .. $#{ $self->{log} }]));
		$self->_explain($view, $difference) if $difference ne '';
		return 0;
	};

	my $difference = compare($self->{control}, "SELECT * FROM $stream", "SELECT * FROM $table");
	return $failed->('stream equals the table', $difference) if $difference ne '';
	my $lost = $self->_sql('SELECT string_agg(tx::text, \',\') FROM unnest(ARRAY[' . join(',', @{ $self->{acked} }) . ']::int[]) tx'
		. ' WHERE tx NOT IN (SELECT tx FROM acked)');
	return $failed->('acknowledged transactions are there', "lost: $lost") if $lost ne '';

	$self->_sql("SELECT aion.sync('$stream', late => true)");
	$self->_sql("SELECT aion.refresh('$_->{name}')") for @{ $self->{views} };
	$difference = compare($self->{control}, "SELECT * FROM $stream", "SELECT * FROM $table");
	return $failed->('stream equals the table after sync', $difference) if $difference ne '';
	for my $view (@{ $self->{views} })
	{
		$difference = compare($self->{control}, "SELECT * FROM $view->{name}", batch_query($view, $table));
		return $failed->("$view->{name} equals its batch query", $difference, $view) if $difference ne '';
	}
	return $self->_check_counters($where, $failed);
}

# Counters and W. Events since the last TRUNCATE are those in the table: nothing expires here.
sub _check_counters
{
	my ($self, $where, $failed) = @_;
	my ($stream, $table) = @$self{qw(stream table)};
	my $row = $self->_sql(qq{
		SELECT s.events, (SELECT count(*) FROM $table), s.expired_events, (SELECT count(*) FROM aion.expired WHERE stream = s.stream),
			   coalesce((extract(epoch FROM s.watermark) * 1000000)::bigint::text, 'none'),
			   coalesce((extract(epoch FROM (SELECT max(at) FROM $table)) * 1000000)::bigint::text, 'none')
		  FROM aion.streams s WHERE s.stream = '$stream'::regclass});
	my ($events, $rows, $expired, $aside, $watermark, $newest) = split /\|/, $row;
	return $failed->('events', "aion.streams.events is $events, committed are $rows") if $events != $rows;
	return $failed->('expired events', "expired $expired, listed $aside") if $expired != 0 || $aside != 0;
	return $failed->('watermark', "W is $watermark, newest event is $newest") if ($watermark eq 'none') != ($newest eq 'none');
	if ($watermark ne 'none')
	{
		my $least = $newest - $self->{delay};
		return $failed->('watermark', "W is $watermark, events alone give $least")
		  if $self->{idle} ? $watermark < $least : $watermark != $least;
		return $failed->('watermark', "W was $self->{watermark} and is $watermark") if defined $self->{watermark} && $watermark < $self->{watermark};
		$self->{watermark} = $watermark;
	}
	for my $view (@{ $self->{views} })
	{
		last if $self->{truncated};
		my $batch = batch_query({ %$view, query => 'SELECT 1' }, $table);
		my ($fired, $complete);
		# idle time moves W, so that a window can have become complete since the sync
		for (1 .. ($self->{idle} ? 20 : 1))
		{
			$row = $self->_sql(qq{
				SELECT on_time_firings, (SELECT count(*) FROM ($batch) b, aion.streams s
										  WHERE s.stream = '$stream'::regclass AND b.window_end <= s.watermark)
				  FROM aion.views WHERE view = '$view->{name}'::regclass});
			($fired, $complete) = split /\|/, $row;
			last if $fired == $complete;
			$self->_sql("SELECT aion.sync('$stream')");
		}
		return $failed->('on-time firings', "$view->{name}: $fired on-time firings, $complete complete windows") if $fired != $complete;
	}
	$row = $self->_sql(q{SELECT * FROM aion.windows WHERE error IS NOT NULL OR state IN ('failed', 'incomplete', 'final') LIMIT 3});
	return $failed->('windows', "unexpected state: $row") if $row ne '';
	pass($where);
	return 1;
}

1;
