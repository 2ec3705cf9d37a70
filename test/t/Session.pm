# A psql session that lives across statements, survives their errors, and tells when its server went away.
#
# Statements can be sent without waiting, so that several sessions work at once. Every wait ends after the time-out of
# PostgreSQL's own test modules, with a message that says what was waited for.
package Session;

use strict;
use warnings;

use IO::Select;
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

# Session->new(NODE [, DBNAME]): connects, waiting for a server that is starting.
sub new
{
	my ($class, $node, $dbname) = @_;
	my $self = bless { node => $node, dbname => $dbname // 'postgres', serial => 0 }, $class;
	$self->connect;
	return $self;
}

# Connects afresh; what the session had open is gone.
sub connect
{
	my ($self) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	my $last = '';
	while (time < $deadline)
	{
		$self->close;
		$self->_start;
		my $result = $self->query('SELECT pg_backend_pid()');
		if ($result->{ok})
		{
			$self->{backend} = $result->{out};
			return;
		}
		$last = $result->{out};
		usleep(50_000);
	}
	die "no connection to the server: $last";
}

sub _start
{
	my ($self) = @_;
	# not IPC::Open2: the test modules have tied STDOUT and STDERR
	pipe(my $out, my $child_out) or die "pipe: $!";
	pipe(my $child_in, my $in) or die "pipe: $!";
	my $connstr = $self->{node}->connstr($self->{dbname});
	$self->{pid} = fork // die "fork: $!";
	if ($self->{pid} == 0)
	{
		POSIX::dup2(fileno($child_in), 0);
		POSIX::dup2(fileno($child_out), 1);
		POSIX::dup2(fileno($child_out), 2);
		exec('psql', '-XAtq', '-d', $connstr) or POSIX::_exit(127);
	}
	close $child_out;
	close $child_in;
	$self->{in} = $in;
	$self->{out} = $out;
	$self->{select} = IO::Select->new($out);
	$self->{buffer} = '';
	$self->{waiting} = undef;
	return;
}

# Sends a statement (with its COPY data, if any), to be followed by a call of result().
sub send
{
	my ($self, $sql) = @_;
	die "session is busy with: $self->{waiting}" if defined $self->{waiting};
	$self->{waiting} = $sql;
	$self->{serial}++;
	$sql .= ';' unless $sql =~ /(;|\\\.)\s*$/;
	local $SIG{PIPE} = 'IGNORE';
	my $text = "$sql\n\\echo \@\@$self->{serial} :ERROR :SQLSTATE\n";
	my $offset = 0;
	while ($offset < length $text)
	{
		my $n = syswrite($self->{in}, $text, length($text) - $offset, $offset);
		next if !defined $n && $!{EINTR};
		last unless defined $n;    # psql is gone: result() says so
		$offset += $n;
	}
	return;
}

sub busy { return defined $_[0]->{waiting} }

# An answer that does not come: shows what everybody is doing. Needs no permission of the hanging session.
sub give_up
{
	my ($self) = @_;
	my $state = '';
	for my $sql ('SELECT * FROM aion.workers',
		q{SELECT pid, backend_type, state, wait_event_type, wait_event, left(query, 60) FROM pg_stat_activity WHERE datname IS NOT NULL},
		'SELECT * FROM pg_locks WHERE NOT granted', 'SELECT * FROM pg_prepared_xacts', 'SELECT * FROM aion.streams',
		q{SELECT stream, state, count(*), sum(memory_events), sum(disk_events), sum(journal_events) FROM aion.buckets GROUP BY 1, 2})
	{
		my ($code, $out, $error) = $self->{node}->psql($self->{dbname}, $sql);
		$state .= "-- $sql\n$out$error\n";
	}
	die 'no answer in time to: ' . substr($self->{waiting}, 0, 300) . "\n$state";
}

# The outcome of what was sent: { ok, out, sqlstate, lost }. "lost" means that the connection broke: a COMMIT on its way
# may or may not have happened.
sub result
{
	my ($self, $seconds) = @_;
	my $sql = $self->{waiting};
	my $deadline = time + ($seconds // $PostgreSQL::Test::Utils::timeout_default);
	my $mark = qr/^\@\@$self->{serial} (true|false) (\w*)\n/m;
	while ($self->{buffer} !~ $mark)
	{
		my $left = $deadline - time;
		$self->give_up if $left <= 0;
		# interrupted when another session's psql has ended: from 17 on the test modules handle that signal
		$self->{select}->can_read($left) or next;
		next if sysread($self->{out}, $self->{buffer}, 65536, length $self->{buffer});
		$self->{waiting} = undef;
		return { ok => 0, lost => 1, out => $self->{buffer}, sqlstate => '57P02', sql => $sql };
	}
	my ($out, $error, $sqlstate, $rest) = $self->{buffer} =~ /\A(.*?)$mark(.*)\z/s;
	$self->{buffer} = $rest;
	$self->{waiting} = undef;
	chomp $out;
	my $lost = $sqlstate eq '' || $out =~ /server closed the connection|terminating connection|no connection to the server/;
	# an answer that arrived together with word of a crash is mixed up with it: as good as none
	return { lost => $lost, ok => !$lost && $error eq 'false' && $out !~ /^(psql:.*)?(ERROR|FATAL|PANIC):/m, out => $out, sqlstate => $sqlstate, sql => $sql };
}

sub query
{
	my ($self, $sql, $seconds) = @_;
	$self->send($sql);
	return $self->result($seconds);
}

# A statement that must not fail; returns its output.
sub must
{
	my ($self, $sql, $seconds) = @_;
	my $result = $self->query($sql, $seconds);
	die "failed: $sql\n$result->{out}" unless $result->{ok};
	return $result->{out};
}

sub close
{
	my ($self) = @_;
	return unless $self->{pid};
	close $self->{in};
	close $self->{out};
	waitpid($self->{pid}, 0);
	delete $self->{pid};
	$? = 0;
	return;
}

sub DESTROY { local $?; $_[0]->close }

1;
