-- Definitions of continuous views: what is made, and which are refused (R18).
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\set VERBOSITY terse
\set SHOW_CONTEXT never
CREATE FOREIGN TABLE vc (k int, v numeric(8,2), name varchar(20) COLLATE "C", at timestamptz)
	SERVER aion OPTIONS (event_time 'at');
CREATE FOREIGN TABLE vc_other (k int, at timestamp) SERVER aion OPTIONS (event_time 'at');
CREATE TABLE vc_plain (k int, label text);

-- windows that can't be
SELECT aion.tumbling('0');
SELECT aion.tumbling('-5 min');
SELECT aion.tumbling(NULL);
SELECT aion.sliding('1 h', '0');
SELECT aion.sliding('1 day', '1 s');
SELECT aion.tumbling('1 month');
SELECT aion.tumbling('1 day', timezone => 'Europe/Paris');
SELECT aion.tumbling('1 day', origin => 'infinity');
SELECT aion.session('5 min', 'k');
SELECT aion.session('5 min', ARRAY['k', 'name']);
SELECT aion.counting(0);

-- queries that can't be
CREATE FUNCTION vc_try(query text) RETURNS void LANGUAGE sql AS
	$$ SELECT aion.create_view('vc_bad', query, aion.tumbling('1 h')) $$;
SELECT vc_try('SELECT 1 AS x');
SELECT vc_try('SELECT k FROM vc_plain');
SELECT vc_try('SELECT nix FROM vc');
SELECT vc_try('SELECT k FROM nix');
SELECT vc_try('SELEKT');
SELECT vc_try('');
SELECT vc_try('SELECT k FROM vc; SELECT k FROM vc');
SELECT vc_try('DELETE FROM vc_plain');
SELECT vc_try('WITH d AS (DELETE FROM vc_plain RETURNING k) SELECT vc.k FROM vc, d');
SELECT vc_try('SELECT k INTO vc_new FROM vc');
SELECT vc_try('SELECT k FROM vc FOR UPDATE');
SELECT vc_try('SELECT k, now() AS n FROM vc');
SELECT vc_try('SELECT k FROM vc WHERE at > current_timestamp - interval ''1 h''');
SELECT vc_try('SELECT k, random() AS r FROM vc');
SELECT vc_try('SELECT k, k + 1 FROM vc');
SELECT vc_try('SELECT k, v AS k FROM vc');
SELECT vc_try('SELECT k, at AS window_start FROM vc');
SELECT vc_try('SELECT vc.k FROM vc JOIN vc_other USING (k)');
SELECT vc_try('SELECT k FROM vc WHERE k = $1');
CREATE VIEW vc_hidden AS SELECT k, at < now() AS past FROM vc;
SELECT vc_try('SELECT past FROM vc_hidden');
CREATE TEMP TABLE vc_temp (k int);
SELECT vc_try('SELECT vc.k FROM vc JOIN vc_temp USING (k)');
CREATE TABLE vc_parent (k int, at timestamptz) PARTITION BY RANGE (at);
CREATE FOREIGN TABLE vc_part PARTITION OF vc_parent FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')
	SERVER aion OPTIONS (event_time 'at');
SELECT vc_try('SELECT k FROM vc_parent');

-- options that can't be
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', NULL);
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), staleness => 1.1);
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), emit_to => 'vc_other');
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), history => true);
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), retain => '-1 day');
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), allowed_lateness => 'automatic');
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), allowed_lateness => '-1 h');
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), early => '0');
SELECT aion.create_view('vc_plain', 'SELECT k FROM vc', aion.tumbling('1 h'));
SELECT aion.create_view('vc_plain', 'SELECT k FROM vc', aion.tumbling('1 h'), if_not_exists => true);
SELECT aion.create_view('pg_temp.vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'));

-- nothing remains of them, and the name is free
SELECT count(*) FROM aion.view_def;
SELECT relname FROM pg_class WHERE relnamespace = 'aion_results'::regnamespace;
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'));
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'));
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'), if_not_exists => true);

-- names, types, collations; a column named like the hidden key
CREATE SCHEMA vc_schema;
SELECT aion.create_view('vc_schema."Vc View"',
	$$ WITH q AS (SELECT k AS aion_row, sum(v)::numeric(10,1) AS s, min(name) AS name, 'x' AS lit FROM vc GROUP BY k)
	   SELECT q.*, p.label FROM q LEFT JOIN vc_plain p ON p.k = aion_row UNION ALL SELECT q.*, 'none' FROM q -- end $$,
	aion.sliding('1 h', '10 min', origin => '2024-01-01 00:05Z'), early => '1 min', allowed_lateness => interval '1 month 2 days');
\d vc_schema."Vc View"
\d aion_results."Vc View"
SELECT aion.create_view('vc_schema.vc_bad', 'SELECT count(*) AS n FROM vc_other', aion.tumbling('1 h'), allowed_lateness => 'unlimited');
\d vc_schema.vc_bad
SELECT view, stream, definition, results, window_size, window_slide, window_origin, early, allowed_lateness
	FROM aion.view_def ORDER BY view::text;

-- changes
SELECT aion.alter_view('vc_bad', early => '30 s', allowed_lateness => '3 h');
SELECT aion.alter_view('vc_schema."Vc View"', reset => '{early,allowed_lateness}');
SELECT aion.alter_view('vc_bad', early => '-1 s');
SELECT aion.alter_view('vc_bad', reset => '{nix}');
SELECT aion.alter_view('vc_plain', early => '1 s');
SELECT aion.pause_view('vc_bad');
SELECT view, early, allowed_lateness, paused FROM aion.view_def ORDER BY view::text;
SELECT aion.resume_view('vc_bad');
CREATE OR REPLACE VIEW aion_results.def_vc_bad AS SELECT k + 1 AS k FROM vc;
SELECT aion.window_start();

-- drops
\set VERBOSITY default
DROP TABLE aion_results.vc_bad CASCADE;
DROP VIEW aion_results.def_vc_bad;
DROP FOREIGN TABLE vc;
BEGIN;
DROP VIEW vc_bad;
SELECT aion.create_view('vc_bad', 'SELECT name FROM vc', aion.tumbling('1 h'));
ROLLBACK;
SELECT view FROM aion.view_def ORDER BY view::text;
SELECT aion.drop_view('vc_bad');
SELECT aion.drop_view(NULL);
SELECT aion.pause_view(NULL);
SELECT aion.resume_view(NULL);
-- in the schema of the results, too
SELECT aion.create_view('aion_results.vc_bar', 'SELECT k FROM vc', aion.tumbling('1 h'));
SELECT definition, results FROM aion.view_def WHERE view = 'aion_results.vc_bar'::regclass;
SELECT aion.drop_view('aion_results.vc_bar');
-- what a column's type is dropped with takes the whole view along
CREATE TYPE vc_mood AS ENUM ('sad', 'ok');
SELECT aion.create_view('vc_moods', 'SELECT min(''ok''::vc_mood) AS mood, min(k) AS k FROM vc', aion.tumbling('1 h'));
ALTER TABLE aion_results.vc_moods DROP COLUMN mood;
DROP TYPE vc_mood;
DROP TYPE vc_mood CASCADE;
DROP SCHEMA vc_schema CASCADE;
SELECT count(*) FROM aion.view_def;
SELECT relname FROM pg_class WHERE relnamespace = 'aion_results'::regnamespace;

SET client_min_messages = error;
CREATE PUBLICATION vc_all FOR ALL TABLES;
RESET client_min_messages;
SELECT aion.create_view('vc_bad', 'SELECT k FROM vc', aion.tumbling('1 h'));
DROP PUBLICATION vc_all;
DROP FOREIGN TABLE vc, vc_other CASCADE;
DROP TABLE vc_plain, vc_parent;
DROP FUNCTION vc_try;
