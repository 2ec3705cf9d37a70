-- Settings that a view keeps from its creation and that have become invalid since: its windows fail, all else goes on.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
\set SHOW_CONTEXT never
\set VERBOSITY terse
CREATE FUNCTION ks_wait(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE met bool;
BEGIN
	FOR i IN 1 .. 3000 LOOP
		EXECUTE 'SELECT ' || condition INTO met;
		IF met THEN RETURN 'yes'; END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN 'no';
END $$;
CREATE TEXT SEARCH CONFIGURATION ks_words (COPY = pg_catalog.simple);
SET default_text_search_config = 'ks_words';
CREATE FOREIGN TABLE ks (at timestamptz, words text) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour');
SELECT aion.create_view('ks_v', 'SELECT words, to_tsvector(words) AS v FROM ks', aion.tumbling('1 hour'), retain => '2 hours');
RESET default_text_search_config;
INSERT INTO ks VALUES ('2024-03-01 00:30', 'the one');
SELECT aion.advance_watermark('ks', '2024-03-01 01:00');
SELECT aion.sync('ks');
SELECT * FROM ks_v;
DROP TEXT SEARCH CONFIGURATION ks_words;

-- no result under another setting
INSERT INTO ks VALUES ('2024-03-01 01:30', 'the other');
SELECT aion.advance_watermark('ks', '2024-03-01 02:00');
SELECT aion.sync('ks');
SELECT window_start, state, error FROM aion.windows WHERE view = 'ks_v'::regclass ORDER BY 1;
SELECT count(*) FROM ks_v;

-- results go when their time has come
SELECT aion.advance_watermark('ks', '2024-03-01 03:00');
SELECT ks_wait('count(*) = 0 FROM ks_v');
SELECT removal_error FROM aion.view_state WHERE view = 'ks_v'::regclass;

-- the setting is valid again
CREATE TEXT SEARCH CONFIGURATION ks_words (COPY = pg_catalog.simple);
SELECT aion.refresh('ks_v', '2024-03-01 01:00');
SELECT * FROM ks_v;
DROP TEXT SEARCH CONFIGURATION ks_words;

-- the stream can be truncated; so it can with settings that another machine does not know
TRUNCATE ks;
SELECT (SELECT count(*) FROM ks), (SELECT count(*) FROM ks_v);
UPDATE aion.view_def SET settings = '{TimeZone=Nowhere/Town,lc_monetary=xx_XX,lc_numeric=xx_XX,lc_time=xx_XX}' WHERE view = 'ks_v'::regclass;
INSERT INTO ks VALUES ('2024-03-01 00:30', 'the last');
SELECT aion.advance_watermark('ks', '2024-03-01 01:00');
SELECT aion.sync('ks');
SELECT window_start, state, error FROM aion.windows WHERE view = 'ks_v'::regclass ORDER BY 1;
INSERT INTO aion_results.ks_v (window_start, window_end) VALUES ('2024-03-01 00:00', '2024-03-01 01:00');
TRUNCATE ks;
SELECT (SELECT count(*) FROM ks), (SELECT count(*) FROM ks_v);
DROP FOREIGN TABLE ks CASCADE;
DROP FUNCTION ks_wait;
