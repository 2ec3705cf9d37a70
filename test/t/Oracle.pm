# Views, and the batch queries that say what they must hold.
#
# A view is described by its query, with {S} in place of the stream and {WS} for the window's start, and by its windows in
# microseconds; the batch query is the same query run once per window over the same events in an ordinary table.
package Oracle;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();

our @EXPORT_OK = qw(@QUERIES COLUMNS DEFAULT_ORIGIN batch_query create_view_sql ts window_starts);

# Columns of stream and table.
use constant COLUMNS => 'id bigint, k int, v int, note text, at timestamptz NOT NULL';

# Monday 2000-01-03 in microseconds since 1970
use constant DEFAULT_ORIGIN => 946_857_600_000_000;

our @QUERIES = (
	'SELECT k, count(*) AS n, sum(v) AS s, count(v) AS nv, min(v) AS lo, max(v) AS hi FROM {S} e GROUP BY k',
	'SELECT count(DISTINCT v) AS d, count(*) AS n, max(note) AS note FROM {S} e',
	'SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS median FROM {S} e GROUP BY k',
	'SELECT k, array_agg(v ORDER BY at, id) AS vs, array_agg(id ORDER BY id) AS ids FROM {S} e GROUP BY k',
	'SELECT k, count(*) AS n FROM {S} e GROUP BY k HAVING count(*) % 2 = 1',
	'SELECT count(*) FILTER (WHERE v > 50) AS big, sum(v) FILTER (WHERE k = 1) AS ones FROM {S} e WHERE v % 7 <> 0',
	'SELECT d.name, count(*) AS n, sum(e.v * d.factor) AS f FROM {S} e JOIN dim d ON d.k = e.k GROUP BY d.name',
	'SELECT id, k, v, note FROM {S} e WHERE v % 3 = 0',
	'SELECT DISTINCT k, v % 5 AS m FROM {S} e',
	'SELECT id, at, v - m.most AS below FROM {S} e CROSS JOIN (SELECT max(v) AS most FROM {S} x) m WHERE k < 3',
	'SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY at, id) AS rank FROM {S} e',
	'SELECT k, max(at) - {WS} AS last, avg(v) AS a FROM {S} e GROUP BY k',
);

# A time in microseconds since 1970 as SQL.
sub ts
{
	my ($us) = @_;
	my $seconds = POSIX::floor($us / 1_000_000);
	my $rest = $us - $seconds * 1_000_000;
	my @t = gmtime($seconds);
	return sprintf("'%04d-%02d-%02d %02d:%02d:%02d.%06d+00'", $t[5] + 1900, $t[4] + 1, $t[3], $t[2], $t[1], $t[0], $rest);
}

sub create_view_sql
{
	my ($view, $stream) = @_;
	my $query = $view->{query} =~ s/\{S\}/$stream/gr;
	$query =~ s/\{WS\}/aion.window_start()/g;
	my $origin = $view->{origin} == DEFAULT_ORIGIN ? '' : ', origin => ' . ts($view->{origin});
	my $spec = $view->{size} == $view->{slide}
	  ? "aion.tumbling('$view->{size} us'$origin)"
	  : "aion.sliding('$view->{size} us', '$view->{slide} us'$origin)";
	my $more = join '', map { ", $_ => $view->{$_}" } grep { defined $view->{$_} } qw(allowed_lateness early staleness retain);
	return "SELECT aion.create_view('$view->{name}', \$\$$query\$\$, $spec$more)";
}

# The batch query. With "fates", pairs (id, view name, window start) of that table are left out: they expired.
sub batch_query
{
	my ($view, $table, $fates) = @_;
	my $left_out = $fates
	  ? "AND NOT EXISTS (SELECT FROM $fates f WHERE f.id = b.id AND f.view = '$view->{name}' AND f.start = w.window_start)"
	  : '';
	my $source = "(SELECT b.* FROM $table b WHERE b.at >= w.window_start AND b.at < w.window_end $left_out)";
	my $query = $view->{query} =~ s/\{S\}/$source/gr;
	$query =~ s/\{WS\}/w.window_start/g;
	my ($size, $slide, $origin) = @$view{qw(size slide origin)};
	my $has_events = $fates ? "WHERE EXISTS (SELECT FROM $source x)" : '';
	return qq{
		SELECT w.window_start, w.window_end, q.*
		  FROM (SELECT timestamptz 'epoch' + s * interval '1 us' AS window_start,
					   timestamptz 'epoch' + (s + $size) * interval '1 us' AS window_end
				  FROM (SELECT DISTINCT $origin + g * $slide AS s
						  FROM (SELECT DISTINCT (extract(epoch FROM at) * 1000000)::bigint AS t FROM $table) t,
							   generate_series(floor((t - $size - ($origin))::numeric / $slide)::bigint + 1,
											   floor((t - ($origin))::numeric / $slide)::bigint) g) s) w
		 CROSS JOIN LATERAL ($query) q $has_events};
}

# Starts of a view's windows that hold time t, all in microseconds.
sub window_starts
{
	my ($view, $t) = @_;
	use integer;
	my ($size, $slide) = @$view{qw(size slide)};
	my $phase = ($t - $view->{origin}) % $slide;
	$phase += $slide if $phase < 0;
	my @starts;
	for (my $start = $t - $phase; $start > $t - $size; $start -= $slide)
	{
		push @starts, $start;
	}
	return @starts;
}

1;
