# A database that has a bit of everything that aion keeps, what is to be seen of it, and how it goes on: for tests that
# dump, restore, copy or upgrade it.
#
# Nothing in it moves by itself: watermarks are manual, and everything is accounted for and executed when create() returns.
# So a copy must show exactly the same, and must show the same as its origin after the same steps.
package Everything;

use strict;
use warnings;

use Aion;
use Test::More;
use Time::HiRes qw(usleep);

use constant DAY => '2024-03-01';

my $ROLES = q{
	CREATE ROLE maker LOGIN;
	CREATE ROLE reader LOGIN;
	CREATE ROLE feeder LOGIN;
};

my $OBJECTS = q{
	CREATE EXTENSION aion;
	CREATE SCHEMA app;
	CREATE SCHEMA "Odd.schema";
	GRANT USAGE ON FOREIGN SERVER aion TO maker;
	GRANT CREATE, USAGE ON SCHEMA app, "Odd.schema" TO maker;
	GRANT USAGE ON SCHEMA app TO reader, feeder;
	CREATE TYPE app.mood AS ENUM ('low', 'high');
	CREATE TYPE app.pair AS (a int, m app.mood);
	CREATE TYPE app.span AS RANGE (subtype = numeric);
	CREATE DOMAIN app.positive AS int CHECK (VALUE > 0);
	CREATE TABLE app.dim (k int PRIMARY KEY, name text NOT NULL, factor int NOT NULL);
	INSERT INTO app.dim SELECT g, 'name ' || g, g FROM generate_series(0, 9) g;
	GRANT SELECT ON app.dim TO maker;

	SET SESSION AUTHORIZATION maker;

	-- columns of all kinds; one is dropped, one is added later
	CREATE FOREIGN TABLE app.kinds (
		id bigint NOT NULL, gone int, k int, v int CHECK (v < 1000000), note text DEFAULT 'none', mood app.mood, pair app.pair,
		span app.span, p app.positive, rel regclass, typ regtype, moods app.mood[], pairs app.pair[], nums numeric(10, 2)[], js jsonb,
		at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 day', bucket_width '1 minute');
	COMMENT ON FOREIGN TABLE app.kinds IS 'all kinds';
	COMMENT ON COLUMN app.kinds.mood IS 'of the moment';
	ALTER FOREIGN TABLE app.kinds DROP COLUMN gone;
	GRANT SELECT ON app.kinds TO reader;
	GRANT INSERT, SELECT ON app.kinds TO feeder;

	-- lateness that is learnt
	CREATE FOREIGN TABLE app.learnt (id bigint, k int, v int, at timestamp NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', lateness_coverage '0.7', lateness_confidence '0.9');

	-- odd names; events that expire, some partly; lateness of its own in a view; results that go
	CREATE FOREIGN TABLE "Odd.schema"."Strange ""name" (id bigint, "K""k" int, v int, "at" timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '10 min', bucket_width '5 min', compression 'none');

	CREATE FOREIGN TABLE app.fleeting (id bigint, k int, v int, at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', durable 'off', on_expired 'drop');

	CREATE TABLE app.parted (id bigint, k int, v int, at timestamptz NOT NULL) PARTITION BY LIST (k);
	CREATE FOREIGN TABLE app.part1 PARTITION OF app.parted FOR VALUES IN (1)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness 'unlimited');

	-- events expire that are to be had back
	CREATE FOREIGN TABLE app.slow (id bigint, k int, v int, mood app.mood, at timestamptz NOT NULL)
		SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 day');

	-- not used yet
	CREATE FOREIGN TABLE app.unused (id bigint, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');

	CREATE TABLE app.source (id bigint PRIMARY KEY, k int, v int, at timestamptz NOT NULL);
	CREATE TRIGGER feed AFTER INSERT ON app.source FOR EACH ROW EXECUTE FUNCTION aion.feed('app.part1');
};

# name, stream, query, windows, options, batch: size, slide
my @VIEWS = (
	[ 'app.by_k', 'app.kinds', 'SELECT k, count(*) AS n, sum(v) AS s, max(mood) AS mood FROM %s e GROUP BY k', 10, 10, '' ],
	[ 'app.moods', 'app.kinds', 'SELECT mood, count(pair) AS n, array_agg(id ORDER BY id) AS ids, (array_agg(pair ORDER BY id))[1] AS pair FROM %s e GROUP BY mood', 20, 5,
		", staleness => 0.5, early => '1 hour'" ],
	[ 'app.joined', 'app.kinds', 'SELECT d.name, sum(e.v * d.factor) AS f FROM %s e JOIN app.dim d ON d.k = e.k GROUP BY d.name', 30, 30, ", allowed_lateness => 'unlimited'" ],
	[ 'app.resting', 'app.kinds', 'SELECT count(*) AS n FROM %s e', 60, 60, '' ],
	[ 'app.learned', 'app.learnt', 'SELECT count(*) AS n, sum(v) AS s FROM %s e', 1, 1, '' ],
	[ '"Odd.schema"."V.iew"', '"Odd.schema"."Strange ""name"', 'SELECT "K""k" AS "a b", count(*) AS n FROM %s e GROUP BY 1', 10, 5, ", allowed_lateness => '5 min'" ],
	[ 'app.kept', '"Odd.schema"."Strange ""name"', 'SELECT count(*) AS n FROM %s e', 5, 5, ", retain => '1 hour'" ],
	[ 'app.strict', 'app.slow', 'SELECT mood, count(*) AS n, sum(v) AS s FROM %s e GROUP BY mood', 10, 10, ", allowed_lateness => '5 min'" ],
	[ 'app.fleet', 'app.fleeting', 'SELECT k, count(*) AS n FROM %s e GROUP BY k', 10, 10, '' ],
	[ 'app.parts', 'app.part1', 'SELECT count(*) AS n, min(v) AS lo FROM %s e', 15, 15, '' ],
);

my $DECORATIONS = q{
	ALTER VIEW app.joined OWNER TO maker;
	COMMENT ON VIEW app.by_k IS 'by k';
	GRANT SELECT ON app.by_k, app.joined TO reader;
	GRANT SELECT (n) ON app.moods TO reader;
	CREATE FUNCTION app.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO app.noted VALUES (TG_OP); RETURN NULL; END';
	CREATE TABLE app.noted (op text);
	GRANT INSERT ON app.noted TO maker;
	CREATE TRIGGER note AFTER INSERT ON aion_results.by_k FOR EACH ROW EXECUTE FUNCTION app.note();
	CREATE INDEX by_k_n ON aion_results.by_k (k, n DESC);
	CREATE PUBLICATION results FOR TABLE aion_results.by_k;
	CREATE VIEW app.above AS SELECT window_start, sum(n) AS n FROM app.by_k GROUP BY 1;
	CREATE MATERIALIZED VIEW app.cached AS SELECT k, count(*) AS n, sum(v) AS s, max(mood) AS mood FROM app.kinds GROUP BY k;
};

# Rows of the stream app.kinds, from id $first to $last, from $start on, one every $step; its later column is $later.
sub _kinds
{
	my ($first, $last, $start, $step, $later) = @_;
	my $columns = 'id, k, v, note, mood, pair, span, p, rel, typ, moods, pairs, nums, js, at' . (defined $later ? ', later' : '');
	my $more = defined $later ? ", $later" : '';
	return qq{INSERT INTO app.kinds ($columns)
		SELECT g, g % 5, g, nullif('note ' || g, 'note 7'), (ARRAY['low', 'high', NULL]::app.mood[])[1 + g % 3], ROW(g, 'low')::app.pair,
			   app.span(g, g + 1), g, 'app.dim'::regclass, 'app.mood'::regtype, ARRAY['high', 'low']::app.mood[], ARRAY[ROW(1, 'high')]::app.pair[],
			   ARRAY[g / 3.0, NULL], jsonb_build_object('g', g), timestamptz '@{[DAY]} $start+00' + (g - $first) * interval '$step'$more
		  FROM generate_series($first, $last) g};
}

sub _simple
{
	my ($stream, $k, $first, $last, $start, $step) = @_;
	return qq{INSERT INTO $stream SELECT g, $k, g, timestamptz '@{[DAY]} $start' + (g - $first) * interval '$step' FROM generate_series($first, $last) g};
}

# Every event that was inserted, for the oracle, by stream.
sub streams { return ('app.kinds', 'app.learnt', '"Odd.schema"."Strange ""name"', 'app.slow', 'app.fleeting', 'app.part1') }

sub _run
{
	my ($node, $db, @statements) = @_;
	for my $statement (@statements)
	{
		# what is learnt of lateness depends on what is accounted for together
		$node->safe_psql($db, $statement);
		sync($node, $db);
	}
	return;
}

sub sync
{
	my ($node, $db) = @_;
	$node->safe_psql($db, join('; ', 'SET client_min_messages = error', map { "SELECT aion.sync('$_', late => true)" } streams()));
	return;
}

# Everything accounted for, executed, purged.
sub settle
{
	my ($node, $db) = @_;
	sync($node, $db);
	# what is due to go, goes a little later: events, windows, results
	$node->poll_query_until($db, q{
		SELECT count(*) = 0 FROM "Odd.schema"."Strange ""name" WHERE at < (SELECT event_watermark - interval '10 min' FROM aion.streams
			WHERE stream = '"Odd.schema"."Strange ""name"'::regclass)}) or die 'events of the past are not purged';
	$node->poll_query_until($db, q{
		SELECT count(*) = 0 FROM app.kept k WHERE k.window_end <= (SELECT event_watermark - interval '1 hour' FROM aion.streams
			WHERE stream = '"Odd.schema"."Strange ""name"'::regclass)}) or die 'results are not removed';
	# what is observed of late events is written some seconds later
	my ($before, $changed) = ('', time);
	while (time < $changed + 7)
	{
		my $now = state($node, $db);
		($before, $changed) = ($now, time) if $now ne $before;
		usleep(500_000);
	}
	return;
}

sub roles { my ($node) = @_; $node->safe_psql('postgres', $ROLES); return }

# In database DB, which exists and has nothing.
sub create
{
	my ($node, $db) = @_;
	my $day = DAY;
	$node->safe_psql($db, $OBJECTS);
	for my $view (@VIEWS)
	{
		my ($name, $stream, $query, $size, $slide, $more) = @$view;
		my $windows = $size == $slide ? "aion.tumbling('$size min')" : "aion.sliding('$size min', '$slide min')";
		$query = sprintf($query, $stream);
		$node->safe_psql($db, "SET SESSION AUTHORIZATION maker; SET TimeZone = 'Europe/Vienna'; SELECT aion.create_view('$name', \$\$$query\$\$, $windows$more)");
	}
	$node->safe_psql($db, $DECORATIONS);
	_run($node, $db,
		_kinds(1, 300, '08:00', '20 s'),
		"ALTER FOREIGN TABLE app.kinds ADD COLUMN later int DEFAULT 42",
		"SELECT aion.advance_watermark('app.kinds', '$day 09:30+00')",
		"SELECT aion.destage('app.kinds')",
		_kinds(301, 400, '08:10', '7 s', '1'),	# late, to stay in the journal
		_kinds(401, 700, '09:20', '13 s', 'g'),
		"SELECT aion.pause_view('app.resting')",

		_simple('app.learnt', 'g % 3', 1, 2000, '08:00+00', '1.7 s'),
		"SELECT aion.advance_watermark('app.learnt', '$day 08:40+00')",
		_simple('app.learnt', 'g % 3', 2001, 4000, '08:00+00', '1.1 s'),

		_simple('"Odd.schema"."Strange ""name"', 'g % 3', 1, 300, '08:00+00', '30 s'),
		"SELECT aion.advance_watermark('\"Odd.schema\".\"Strange \"\"name\"', '$day 10:00+00')",
		# all too late; too late for one of two views; one ahead of the clock
		_simple('"Odd.schema"."Strange ""name"', '1', 301, 310, '08:00+00', '30 s'),
		_simple('"Odd.schema"."Strange ""name"', '2', 311, 330, '09:46+00', '20 s'),
		qq{INSERT INTO "Odd.schema"."Strange ""name" VALUES (331, 0, 0, '2099-01-01')},

		"INSERT INTO app.slow SELECT g, 1, g, 'low', timestamptz '$day 08:00+00' + g * interval '30 s' FROM generate_series(1, 100) g",
		"SELECT aion.advance_watermark('app.slow', '$day 09:00+00')",
		"INSERT INTO app.slow SELECT g, 1, g, 'high', timestamptz '$day 08:00+00' + g * interval '3 s' FROM generate_series(101, 150) g",

		_simple('app.fleeting', '1', 1, 100, '08:00+00', '30 s'),
		"SELECT aion.advance_watermark('app.fleeting', '$day 08:30+00')",

		"INSERT INTO app.parted SELECT g, 1, g, timestamptz '$day 08:00+00' + g * interval '1 min' FROM generate_series(1, 100) g",
		"INSERT INTO app.source SELECT g, 1, g, timestamptz '$day 08:00:30+00' + g * interval '1 min' FROM generate_series(101, 150) g",
		"SELECT aion.advance_watermark('app.part1', '$day 08:45+00')",
		"SELECT aion.destage('app.part1')",
		'REFRESH MATERIALIZED VIEW app.cached');
	settle($node, $db);
	# written out now and then by the scheduler
	$node->poll_query_until($db, q{SELECT late_events = 2000 FROM aion.lateness WHERE stream = 'app.learnt'::regclass}) or die 'no lateness learnt';
	return;
}

# Goes on with a copy as with its origin.
sub go_on
{
	my ($node, $db) = @_;
	my $day = DAY;
	_run($node, $db,
		_kinds(1001, 1100, '08:30', '11 s', '2'),
		"SELECT aion.resume_view('app.resting')",
		_kinds(1101, 1200, '10:00', '11 s', '3'),
		"SELECT aion.advance_watermark('app.kinds', '$day 10:40+00')",
		_simple('app.learnt', 'g % 3', 5001, 5500, '08:20+00', '1.1 s'),
		"SELECT aion.advance_watermark('app.learnt', '$day 08:50+00')",
		_simple('"Odd.schema"."Strange ""name"', 'g % 3', 1001, 1200, '09:50+00', '30 s'),
		"SELECT aion.advance_watermark('\"Odd.schema\".\"Strange \"\"name\"', '$day 11:00+00')",
		q{SELECT aion.readmit(VARIADIC (SELECT array_agg(id ORDER BY id) FROM aion.expired WHERE stream = 'app.slow'::regclass))},
		_simple('app.fleeting', '1', 101, 150, '08:32+00', '30 s'),
		"SELECT aion.advance_watermark('app.fleeting', '$day 09:00+00')",
		"INSERT INTO app.source SELECT g, 1, g, timestamptz '$day 08:00:30+00' + (g - 80) * interval '1 min' FROM generate_series(151, 250) g",
		"SELECT aion.advance_watermark('app.part1', '$day 09:30+00')",
		"INSERT INTO app.unused VALUES (1, '$day 08:00+00')",
		"SELECT aion.sync('app.unused')");
	settle($node, $db);
	return;
}

# ---- what is to be seen -----------------------------------------------------------------------------------------------

my @STATE = (
	'TABLE aion.streams ORDER BY stream::text',
	'TABLE aion.views ORDER BY view::text',
	'SELECT view, window_start, window_end, key, state, events, late_events, firings, last_fired_at, staleness > 0, error, incomplete_reason, pending_events FROM aion.windows ORDER BY view::text, window_start',
	'TABLE aion.expired ORDER BY id',
	'TABLE aion.lateness ORDER BY stream::text',
	'SELECT stream, sum(disk_events) + sum(journal_events) AS events FROM aion.buckets GROUP BY stream ORDER BY stream::text',
	'SELECT stream, position, value FROM aion.added_column ORDER BY stream::text, position',
	'SELECT view, stream, definition, results, window_size, window_slide, window_origin, early, allowed_lateness, staleness, retain, backfill, paused, settings FROM aion.view_def ORDER BY view::text',
	'SELECT view, final_through, final_until, begins, incomplete_before, late_counts, late_arrivals, results_removed_through FROM aion.view_state ORDER BY view::text',
	'SELECT view, window_start, events, late_events, allowed_lateness, final, incomplete, reopened FROM aion.window_state ORDER BY view::text, window_start',
	'SELECT view, window_start, fired_events, early, on_time, late, final, last_fired_at, fired_clock, on_time_clock, error FROM aion.window_firing ORDER BY view::text, window_start',
	'SELECT stream, watermark, event_watermark, last_window_end, events, late_events, expired_events, last_event_at, stood_still, purged_time, evidence_time, expired_through FROM aion.stream_state ORDER BY stream::text',
	'SELECT stream, histogram, events, since FROM aion.stream_lateness ORDER BY stream::text',
	(map { "SELECT * FROM $_ ORDER BY at, id" } streams(), 'app.unused', 'app.parted'),
	(map { "SELECT * FROM $_->[0] ORDER BY 1, 2, 3" } @VIEWS),
	'TABLE app.above ORDER BY 1', 'TABLE app.cached ORDER BY 1', 'TABLE app.noted',
);

# How the objects are made: definitions, owners, privileges, comments, dependencies. Names of tables in aion_data have the OID of
# another database in them, or not: told apart by their stream.
my @OBJECTS = (
	q{SELECT c.oid::regclass, c.relkind, c.relpersistence, pg_get_userbyid(c.relowner), c.relacl, c.reloptions, obj_description(c.oid, 'pg_class'),
			 CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END, CASE WHEN c.relkind = 'i' THEN pg_get_indexdef(c.oid) END
		FROM pg_class c WHERE c.relnamespace IN ('app'::regnamespace, '"Odd.schema"'::regnamespace, 'aion_results'::regnamespace)
	   ORDER BY c.oid::regclass::text},
	q{SELECT a.attrelid::regclass, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attacl,
			 pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum)
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		JOIN pg_class c ON c.oid = a.attrelid
	   WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'f', 'v', 'm', 'p')
		 AND c.relnamespace IN ('app'::regnamespace, '"Odd.schema"'::regnamespace, 'aion_results'::regnamespace) ORDER BY a.attrelid::regclass::text, 2},
	q{SELECT t.ftrelid::regclass, s.srvname, (SELECT array_agg(o ORDER BY o) FROM unnest(t.ftoptions) o) FROM pg_foreign_table t JOIN pg_foreign_server s ON s.oid = t.ftserver ORDER BY t.ftrelid::regclass::text},
	q{SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1},
	q{SELECT schemaname, tablename FROM pg_publication_tables ORDER BY 1, 2},
	q{SELECT d.stream, d.durable, d.bucket_width, c.relpersistence, c.reloptions, pg_get_userbyid(c.relowner) = pg_get_userbyid(e.extowner), c.relacl,
			 (SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) || attstorage::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0),
			 (SELECT count(*) FROM pg_index WHERE indrelid = c.oid)
		FROM aion.stream_def d CROSS JOIN LATERAL (VALUES (journal), (blocks)) j(t) JOIN pg_class c ON c.oid = t JOIN pg_extension e ON e.extname = 'aion'
	   ORDER BY d.stream::text, c.reloptions::text},
	q{WITH o AS (SELECT oid, oid::regclass::text AS name FROM pg_class WHERE relnamespace IN ('app'::regnamespace, '"Odd.schema"'::regnamespace, 'aion_results'::regnamespace)
				  UNION SELECT journal, 'journal of ' || stream FROM aion.stream_def UNION SELECT blocks, 'blocks of ' || stream FROM aion.stream_def)
	  SELECT o.name, (pg_identify_object_as_address(d.refclassid, d.refobjid, 0)).type,
			 coalesce(r.name, (pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid)).identity), d.deptype, count(*)
		FROM pg_depend d JOIN o ON d.classid = 'pg_class'::regclass AND d.objid = o.oid
		LEFT JOIN o r ON d.refclassid = 'pg_class'::regclass AND d.refobjid = r.oid
	   WHERE (pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid)).identity !~ '^aion_data|toast' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4},
);

# After the same steps, times of the clock differ, and so does what follows from when workers came to what. As after a restart,
# the evidence that time has come is gathered anew. In which order a pass counts the late events of views, and so what they weigh,
# depends on the views' OIDs.
sub _of_the_steps
{
	my ($sql) = @_;
	$sql =~ s/TABLE aion\.streams/SELECT stream, watermark, events, late_events, expired_events, event_watermark, bucket_width, durable FROM aion.streams/;
	$sql =~ s/TABLE aion\.views/SELECT view, results, streams, definition, window_spec, state, on_time_firings, final_firings, retain FROM aion.views/;
	$sql =~ s/TABLE aion\.expired/SELECT stream, event_time, event, reason, partial, lateness, windows FROM aion.expired/;
	$sql =~ s/firings, last_fired_at, staleness > 0, error/error/;
	$sql =~ s/, early, on_time, late, final, last_fired_at, fired_clock, on_time_clock/, on_time, final/;
	$sql =~ s/TABLE aion\.lateness/SELECT stream, late_events, round(effective_events::numeric, 6), bound, state, reason FROM aion.lateness/;
	$sql =~ s/last_event_at, stood_still, //;
	$sql =~ s/, evidence_time, expired_through//;
	$sql =~ s/late_counts, late_arrivals, results_removed_through/1/;
	return $sql if $sql !~ /aion\.stream_lateness|app\.noted|app\.cached/;
	return;
}

sub _answers
{
	my ($node, $db, @queries) = @_;
	my $text = '';
	for my $sql (@queries)
	{
		$text .= "-- $sql\n" . $node->safe_psql($db, $sql) . "\n";
	}
	return $text;
}

sub state { my ($node, $db) = @_; return _answers($node, $db, @STATE) }
sub objects { my ($node, $db) = @_; return _answers($node, $db, @OBJECTS) }
sub outcome { my ($node, $db) = @_; return _answers($node, $db, grep { defined } map { _of_the_steps($_) } @STATE) }

# Views whose events are all there equal their batch query.
sub oracle
{
	my ($node, $db, $name) = @_;
	for my $view (@VIEWS)
	{
		my ($view_name, $stream, $query, $size, $slide) = @$view;
		next if $stream =~ /Odd|learnt|fleeting/;		# events are purged or set aside
		my $source = sprintf('(SELECT * FROM %s WHERE at >= w.window_start AND at < w.window_end)', $stream);
		my $batch = sprintf($query, $source);
		oracle_ok($node, $view_name, qq{
			SELECT w.window_start, w.window_end, q.*
			  FROM (SELECT window_start, window_end FROM aion.windows WHERE view = '$view_name'::regclass AND state <> 'open') w
			 CROSS JOIN LATERAL ($batch) q}, "$name: $view_name equals its batch query", $db);
	}
	return;
}

1;
