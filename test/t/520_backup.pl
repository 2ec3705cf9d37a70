# Backups: a copy made under load, recovered to its end, to a name, to a position, to a time, holds exactly what was
# committed there, and goes on; and what a server writes that logs as little as it can survives a crash.
use strict;
use warnings;

use Aion;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Twin qw(@VIEWS define_twins exact same_events start_load stop_load write_sql);

my $primary = new_node('primary', init => [ allows_streaming => 1, has_archiving => 1 ],
	conf => "aion.memory = '4MB'\naion.late_interval = '20ms'\nautovacuum_naptime = 1s");

sub sql { my ($sql, $on) = @_; return ($on // $primary)->safe_psql('postgres', $sql) }

define_twins($primary);
sql(write_sql(1000, 0));

# ---- a copy made while others write ------------------------------------------------------------------------------------

my @load = start_load($primary);
wait_until($primary, q{SELECT count(*) > 2000 FROM p}, 'there is load');
$primary->backup('busy');

# Where a recovery can end, and what the table held just then: nobody else writes in between.
my @targets;

sub target
{
	my ($name, $setting) = @_;
	# nobody is writing then
	my $session = Session->new($primary);
	$session->must('BEGIN');
	$session->must('SELECT pg_advisory_xact_lock(1)');
	my $count = $session->must('SELECT count(*) FROM p');
	my $value = $setting eq 'recovery_target_name' ? $session->must("SELECT pg_create_restore_point('$name')") && $name
	  : $setting eq 'recovery_target_lsn' ? $session->must('SELECT pg_current_wal_insert_lsn()')
	  : $session->must('SELECT clock_timestamp()');
	$session->must('COMMIT');
	$session->close;
	push @targets, { name => $name, setting => $setting, value => $value, count => $count };
	my $before = sql('SELECT count(*) FROM p');
	wait_until($primary, "SELECT count(*) > $before + 500 FROM p", "load goes on after $name");
	return;
}

target('one', 'recovery_target_name');
target('two', 'recovery_target_lsn');
target('three', 'recovery_target_time');
target('four', 'recovery_target_name');
sql(q{BEGIN; INSERT INTO s VALUES (-1, 1, 1, 'prepared', '2024-03-01 10:00:30+00'); INSERT INTO p VALUES (-1, 1, 1, 'prepared', '2024-03-01 10:00:30+00'); PREPARE TRANSACTION 'open'});
target('five', 'recovery_target_name');
sql(q{COMMIT PREPARED 'open'});
sql('CREATE TABLE stop ()');
is_deeply([ stop_load(@load) ], [ '', '', '' ], 'nobody noticed the backup');
exact($primary, 'primary');
push @targets, { name => 'the end', count => sql('SELECT count(*) FROM p') };
my $file = sql('SELECT pg_walfile_name(pg_switch_wal())');
wait_until($primary, "SELECT last_archived_wal >= '$file' FROM pg_stat_archiver", 'all is archived');
$primary->stop;

for my $target (@targets)
{
	my $copy = PostgreSQL::Test::Cluster->new("copy_$target->{name}" =~ s/\W/_/gr);
	$copy->init_from_backup($primary, 'busy', has_restoring => 1, standby => 0);
	$copy->append_conf('postgresql.conf', 'archive_mode = off');
	$copy->append_conf('postgresql.conf', "$target->{setting} = '$target->{value}'\nrecovery_target_action = 'promote'") if $target->{setting};
	$copy->start;
	$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
	is(sql('SELECT count(*) FROM p', $copy), $target->{count}, "recovery ends where it should: $target->{name}");
	exact($copy, "recovered to $target->{name}");
	if ($target->{name} eq 'five')
	{
		sql(q{COMMIT PREPARED 'open'}, $copy);
		is(sql('SELECT count(*) FROM s WHERE id = -1', $copy), '1', 'a prepared transaction was recovered');
	}
	# the load is defined there, too, and finds no table "stop" but in the end
	sql('DROP TABLE IF EXISTS stop', $copy);
	my @more = start_load($copy);
	wait_until($copy, "SELECT count(*) > $target->{count} + 1000 FROM p", 'and goes on');
	sql('CREATE TABLE stop ()', $copy);
	is_deeply([ stop_load(@more) ], [ '', '', '' ], 'without an error');
	sql(write_sql(100, 400), $copy);
	exact($copy, "recovered to $target->{name}, and on");
	$copy->stop;
	unlike(slurp_file($copy->logfile), qr/TRAP:|PANIC:/, 'no assertion failed');
}

# ---- wal_level = minimal: what is made and filled in one transaction is not logged -------------------------------------------

my $minimal = new_node('minimal', conf => "wal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = '1TB'\naion.memory = '4MB'\naion.late_interval = '20ms'");
for my $destage (0, 1)
{
	my $name = $destage ? 'destaged' : 'in the journal';
	$minimal->safe_psql('postgres', 'DROP FOREIGN TABLE IF EXISTS m CASCADE; DROP TABLE IF EXISTS p_m');
	# skipping WAL takes a stream that its own transaction made or truncated; 40 MB are more than memory holds
	$minimal->safe_psql('postgres', q{
		BEGIN;
		CREATE FOREIGN TABLE m (id int, pad text, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness 'unlimited');
		CREATE TABLE p_m (id int, pad text, at timestamptz NOT NULL);
		SELECT aion.create_view('v_m', 'SELECT count(*) AS n, sum(id) AS ids, sum(length(pad)) AS bytes FROM m', aion.tumbling('1 min'));
		INSERT INTO p_m SELECT g, repeat('x', 200), timestamptz '2024-03-01' + g * interval '1 s' FROM generate_series(1, 30000) g;
		SAVEPOINT a;
		INSERT INTO m TABLE p_m;
		ROLLBACK TO a;
		INSERT INTO m TABLE p_m;
		INSERT INTO m VALUES (-1, repeat('y', 20000), '2024-03-01'), (-2, repeat(md5('z'), 20000), '2024-03-01');
		INSERT INTO p_m VALUES (-1, repeat('y', 20000), '2024-03-01'), (-2, repeat(md5('z'), 20000), '2024-03-01');
		COMMIT});
	$minimal->safe_psql('postgres', q{SELECT aion.destage('m')}) if $destage;
	kill_server($minimal);
	my $same = q{SELECT count(*) FROM ((TABLE m EXCEPT ALL TABLE p_m) UNION ALL (TABLE p_m EXCEPT ALL TABLE m)) d};
	is($minimal->safe_psql('postgres', $same), '0', "wal_level = minimal, made and filled, $name: a crash loses nothing");
	$minimal->safe_psql('postgres', q{BEGIN; TRUNCATE m; TRUNCATE p_m; INSERT INTO p_m SELECT g, 'new', timestamptz '2024-03-02' + g * interval '1 s' FROM generate_series(1, 5000) g; INSERT INTO m TABLE p_m; COMMIT});
	$minimal->safe_psql('postgres', q{SELECT aion.destage('m')}) if $destage;
	kill_server($minimal);
	is($minimal->safe_psql('postgres', $same), '0', "wal_level = minimal, truncated and filled, $name: a crash loses nothing");
	$minimal->safe_psql('postgres', q{SELECT aion.sync('m', late => true); SELECT aion.refresh('v_m')});
	oracle_ok($minimal, 'v_m', q{
		SELECT w AS window_start, w + interval '1 min' AS window_end, count(*) AS n, sum(id) AS ids, sum(length(pad)) AS bytes
		  FROM (SELECT *, date_trunc('minute', at) AS w FROM p_m) e GROUP BY w}, "wal_level = minimal, $name: view");
}
$minimal->stop;
unlike(slurp_file($minimal->logfile), qr/TRAP:/, 'no assertion failed');
done_testing();
