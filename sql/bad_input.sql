-- Bad input: each gets a clear error, of a fitting SQLSTATE, at once, and leaves nothing behind.
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE bi (k text, v int, at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
CREATE TABLE bi_plain (k text, at timestamptz);
-- Runs a statement that must fail; tells how.
CREATE FUNCTION bi_try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; d text; h text;
BEGIN
	EXECUTE statement;
	RETURN 'no error: ' || statement;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || m || coalesce(E'\n  detail: ' || nullif(d, ''), '') || coalesce(E'\n  hint: ' || nullif(h, ''), '');
END $$;
\pset format unaligned
\pset tuples_only on

-- event times
SELECT bi_try(s) FROM unnest(ARRAY[
	$$ INSERT INTO bi VALUES ('a', 1, NULL) $$,
	$$ INSERT INTO bi VALUES ('a', 1) $$,
	$$ INSERT INTO bi (k) VALUES ('a') $$,
	$$ INSERT INTO bi DEFAULT VALUES $$,
	$$ INSERT INTO bi VALUES ('a', 1, '2024-03-01'), ('a', 1, NULL) $$,
	$$ INSERT INTO bi VALUES ('a', 1, 'infinity') $$,
	$$ INSERT INTO bi VALUES ('a', 1, '-infinity') $$,
	$$ INSERT INTO bi VALUES ('a', 1, 'xyz') $$,
	$$ INSERT INTO bi VALUES ('a', 1, '300000-01-01') $$,
	$$ INSERT INTO bi SELECT 'a', g, CASE WHEN g < 5000 THEN timestamptz '2024-03-01' END FROM generate_series(1, 5000) g $$
]) s;
SELECT count(*) FROM bi;
-- the extremes that timestamptz has are times like others
INSERT INTO bi VALUES ('first', 1, '4713-11-24 00:00:00 BC'), ('last', 1, '294276-12-31 23:59:59.999999');
SELECT aion.sync('bi');
SELECT k, at FROM bi ORDER BY at;
SELECT event_time, reason FROM aion.expired WHERE stream = 'bi'::regclass ORDER BY 1;

-- definitions of streams
SELECT bi_try(format('CREATE FOREIGN TABLE bi_bad (at timestamptz, b timestamp, d date, t text) SERVER aion%s', s)) FROM unnest(ARRAY[
	'', ' OPTIONS (event_time $$$$)', ' OPTIONS (event_time $$nix$$)', ' OPTIONS (event_time $$AT$$)', ' OPTIONS (event_time $$d$$)',
	' OPTIONS (event_time $$t$$)', ' OPTIONS (event_time $$tableoid$$)',
	' OPTIONS (event_time $$at$$, event_time $$b$$)', ' OPTIONS (event_time $$at$$, nix $$1$$)',
	' OPTIONS (event_time $$at$$, bucket_width $$0$$)', ' OPTIONS (event_time $$at$$, bucket_width $$-1 s$$)',
	' OPTIONS (event_time $$at$$, bucket_width $$1 month$$)', ' OPTIONS (event_time $$at$$, bucket_width $$$$)',
	' OPTIONS (event_time $$at$$, allowed_lateness $$-1 s$$)', ' OPTIONS (event_time $$at$$, lateness_coverage $$2$$)']) s;
SELECT bi_try('CREATE TABLE bi_bad (at timestamptz) SERVER aion');
SELECT bi_try('CREATE FOREIGN TABLE bi_bad () SERVER aion OPTIONS (event_time $$at$$)');
SELECT bi_try('CREATE FOREIGN TABLE bi (at timestamptz) SERVER aion OPTIONS (event_time $$at$$)');
SELECT bi_try('IMPORT FOREIGN SCHEMA public FROM SERVER aion INTO public');

-- windows and views
SELECT bi_try(format('SELECT aion.create_view(%L, %L, %s)', 'bi_bad', 'SELECT k, count(*) AS n FROM bi GROUP BY k', s)) FROM unnest(ARRAY[
	'aion.tumbling($$0$$)', 'aion.tumbling($$-5 min$$)', 'aion.tumbling(NULL)', 'aion.tumbling($$1 month$$)', 'aion.tumbling($$5 apples$$)',
	'aion.tumbling($$0.0000004 s$$)', 'aion.sliding($$10 min$$, $$0$$)', 'aion.sliding($$10 min$$, $$-1 min$$)', 'aion.sliding($$10 min$$, NULL)', 'aion.sliding(NULL, $$1 min$$)',
	'aion.sliding($$1 day$$, $$1 s$$)', 'aion.sliding($$1 year$$, $$1 s$$)', 'aion.tumbling($$1 h$$, $$infinity$$)', 'aion.tumbling($$1 h$$, NULL, $$Mars$$)',
	'aion.session($$0$$)', 'aion.session($$5 min$$, $$k$$)', 'aion.counting(0)', 'aion.counting(3)', 'NULL',
	'ROW($$hopping$$, $$1 h$$, $$1 h$$, NULL, NULL)']) s;
SELECT bi_try(format('SELECT aion.create_view(%L, %L, aion.tumbling(%L))', 'bi_bad', s, '1 h')) FROM unnest(ARRAY[
	'SELECT 1 AS one', 'SELECT k FROM bi_plain', 'SELECT nix FROM bi', 'SELECT k FROM nix', 'SELECT nix(k) FROM bi', 'SELECT k FROM bi; DROP TABLE bi_plain',
	'', 'nonsense', 'INSERT INTO bi VALUES (1)', 'TABLE bi_plain', 'VALUES (1)', 'SELECT now() AS n FROM bi', 'SELECT k, random() AS r FROM bi', 'SELECT clock_timestamp() AS c FROM bi',
	'SELECT k FROM bi WHERE at > now() - interval ''1 day''', 'SELECT current_date AS d FROM bi', 'SELECT k, count(*) AS k FROM bi GROUP BY 1',
	'SELECT count(*), count(k) FROM bi', 'SELECT k AS window_start FROM bi', 'SELECT k AS window_end FROM bi', 'SELECT k, v, FROM bi', 'SELECT sum(k) FROM bi',
	'SELECT at FROM bi_view', 'SELECT 1 / 0 AS x']) s;
CREATE FUNCTION bi_own(text) RETURNS text LANGUAGE sql RETURN upper($1);
SELECT bi_try($$ SELECT aion.create_view('bi_bad', 'SELECT bi_own(k) AS k FROM bi', aion.tumbling('1 h')) $$);
DROP FUNCTION bi_own;
SELECT bi_try(s) FROM unnest(ARRAY[
	$$ SELECT aion.create_view('bi', 'SELECT k FROM bi', aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view('bi_plain', 'SELECT k FROM bi', aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view('', 'SELECT k FROM bi', aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view(NULL, 'SELECT k FROM bi', aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view('bi_bad', NULL, aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view('nix.bi_bad', 'SELECT k FROM bi', aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view('pg_temp.bi_bad', 'SELECT k FROM bi', aion.tumbling('1 h')) $$,
	$$ SELECT aion.create_view('bi_bad', 'SELECT k FROM bi', aion.tumbling('1 h'), allowed_lateness => '-1 s') $$,
	$$ SELECT aion.create_view('bi_bad', 'SELECT k FROM bi', aion.tumbling('1 h'), early => '0') $$,
	$$ SELECT aion.create_view('bi_bad', 'SELECT k FROM bi', aion.tumbling('1 h'), retain => '-1 h') $$,
	$$ SELECT aion.drop_view('bi') $$, $$ SELECT aion.drop_view('bi_nix') $$, $$ SELECT aion.refresh('bi_plain') $$, $$ SELECT aion.pause_view('bi') $$,
	$$ SELECT aion.window_start() $$, $$ SELECT aion.window_end() $$, $$ SELECT aion.sync('bi_plain') $$, $$ SELECT aion.destage('bi_plain') $$,
	$$ SELECT aion.watermark('bi_plain') $$, $$ SELECT aion.advance_watermark('bi', 'infinity') $$]) s;

-- no remains: every name is free, and good definitions work
SELECT count(*) FROM pg_class WHERE relname ~ 'bi_bad';
SELECT count(*) FROM aion.view_def WHERE view::text ~ 'bi_bad';
SELECT aion.create_view('bi_bad', 'SELECT k, count(*) AS n FROM bi GROUP BY k UNION SELECT NULL, count(*) FROM bi', aion.tumbling('1 h'));
SELECT bi_try($$ INSERT INTO bi_bad VALUES (now(), now(), 'a', 1) $$);
SELECT bi_try($$ UPDATE bi_bad SET n = 0 $$);
SELECT bi_try($$ DELETE FROM bi_bad $$);
SELECT bi_try($$ TRUNCATE bi_bad $$);
SELECT bi_try($$ SELECT aion.create_view('bi_bad', 'SELECT v FROM bi', aion.tumbling('1 h')) $$);
SELECT aion.create_view('bi_bad', 'SELECT v FROM bi', aion.tumbling('1 h'), if_not_exists => true);
INSERT INTO bi VALUES ('a', 1, '2024-03-01 10:00');
SELECT aion.refresh('bi_bad');
SELECT window_start, k, n FROM bi_bad WHERE window_start > '2000-01-01' ORDER BY k;

-- a stream whose registry entry came from another database, by a dump: it can be read, until the restore is complete
CREATE FOREIGN TABLE bi_copied (k int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at');
INSERT INTO bi_copied VALUES (1, '2024-03-01 10:00');
SELECT aion.destage('bi_copied');
UPDATE aion.stream_def SET home = '1/1' WHERE stream = 'bi_copied'::regclass;
\c
SELECT bi_try(s) FROM unnest(ARRAY[
	$$ INSERT INTO bi_copied VALUES (1, '2024-03-01') $$, $$ TRUNCATE bi_copied $$,
	$$ SELECT aion.sync('bi_copied') $$, $$ SELECT aion.destage('bi_copied') $$, $$ SELECT aion.advance_watermark('bi_copied', '2024-03-01') $$,
	$$ SELECT aion.create_view('bi_copied_view', 'SELECT k FROM bi_copied', aion.tumbling('1 h')) $$]) s;
SELECT k FROM bi_copied;
REFRESH MATERIALIZED VIEW aion.restored;
INSERT INTO bi_copied VALUES (2, '2024-03-01 10:00');
SELECT aion.sync('bi_copied');
SELECT k FROM bi_copied ORDER BY k;
DROP FOREIGN TABLE bi_copied;

SET client_min_messages = warning;
DROP FOREIGN TABLE bi CASCADE;
DROP TABLE bi_plain;
DROP FUNCTION bi_try;
