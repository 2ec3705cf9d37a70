-- Events that come after their windows are final: per event and window; what is set aside, dropped, refused, purged.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FUNCTION lt_wait(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE met bool;
BEGIN
	FOR i IN 1 .. 3000 LOOP
		EXECUTE 'SELECT ' || condition INTO met;
		IF met THEN RETURN 'yes'; END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN 'no';
END $$;
CREATE VIEW lt_windows AS
	SELECT w.view, to_char(window_start, 'HH24:MI') AS window, w.state, w.events, w.late_events AS late, w.firings FROM aion.windows w ORDER BY w.view::text, window_start;
CREATE VIEW lt_counts AS SELECT stream, watermark, events, late_events AS late, expired_events AS expired FROM aion.streams;

-- later than the keep-horizon: not applied, counted, listed (R05); a late one in time is taken in
CREATE FOREIGN TABLE lt (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness '1 hour', bucket_width '10 min');
SELECT aion.create_view('lt_v', 'SELECT k, count(*) AS n, sum(v) FROM lt GROUP BY k', aion.tumbling('10 min'));
INSERT INTO lt VALUES ('2024-03-01 08:05', 'a', 10), ('2024-03-01 08:06', 'a', 20);
INSERT INTO lt VALUES ('2024-03-01 12:00', 'a', 1);
SELECT aion.sync('lt');
SELECT lt_wait($$ NOT EXISTS (SELECT FROM lt WHERE at < '2024-03-01 09:00') $$);
SELECT lt_wait($$ NOT EXISTS (SELECT FROM aion.windows WHERE view = 'lt_v'::regclass AND window_start < '2024-03-01 09:00') $$);
SELECT * FROM lt_windows;
INSERT INTO lt VALUES ('2024-03-01 08:07', 'a', 5);
SELECT aion.sync('lt', late => true); SELECT aion.refresh('lt_v');
SELECT window_start, k, n, sum FROM lt_v ORDER BY 1;
SELECT * FROM lt_counts WHERE stream = 'lt'::regclass;
SELECT event_time, event, reason, partial FROM aion.expired WHERE stream = 'lt'::regclass;
SELECT on_time_firings, late_firings, final_firings FROM aion.views WHERE view = 'lt_v'::regclass;
-- what is final, to the microsecond
INSERT INTO lt VALUES ('2024-03-01 10:59:59.999999', 'b', 1), ('2024-03-01 11:00', 'b', 2);
SELECT aion.sync('lt', late => true);
SELECT window_start, k, n, sum FROM lt_v WHERE k = 'b' ORDER BY 1;
INSERT INTO lt VALUES ('2024-03-01 12:09:59.999999', 'c', 1);
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-03-01 11:09:59.999999', 'c', 2);
SELECT aion.sync('lt', late => true);
INSERT INTO lt VALUES ('2024-03-01 12:10', 'c', 4);
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-03-01 11:09:59.999999', 'c', 8);
SELECT aion.sync('lt', late => true); SELECT aion.refresh('lt_v');
SELECT window_start, k, n, sum FROM lt_v WHERE k = 'c' ORDER BY 1;
SELECT event->>'v' AS v FROM aion.expired WHERE stream = 'lt'::regclass ORDER BY id;
-- a final window is not executed again
SELECT aion.refresh('lt_v', '2024-03-01 08:00');
SELECT * FROM lt_counts WHERE stream = 'lt'::regclass;
SET client_min_messages = warning;
DROP FOREIGN TABLE lt CASCADE;
RESET client_min_messages;

-- per event and window: set aside if it is too late for all windows of all views, else stored and listed as partly expired
CREATE FOREIGN TABLE lt (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour', bucket_width '10 min');
SELECT aion.create_view('lt_slide', 'SELECT count(*) AS n, sum(v) FROM lt', aion.sliding('20 min', '10 min'));
INSERT INTO lt VALUES ('2024-03-01 10:05', 'a', 1);
SELECT aion.advance_watermark('lt', '2024-03-01 11:15');
SELECT aion.sync('lt');
SELECT * FROM lt_windows;
INSERT INTO lt VALUES ('2024-03-01 10:06', 'partly', 2), ('2024-03-01 09:59', 'all', 4);
SELECT aion.sync('lt', late => true);
SELECT window_start, n, sum FROM lt_slide ORDER BY 1;
SELECT event->>'k' AS k, reason, partial FROM aion.expired WHERE stream = 'lt'::regclass ORDER BY id;
SELECT * FROM lt_counts WHERE stream = 'lt'::regclass;
SELECT k FROM lt ORDER BY k;
SELECT * FROM lt_windows;
-- a second view with a longer lateness keeps what the first is too late for
SELECT aion.create_view('lt_long', 'SELECT count(*) AS n, sum(v) FROM lt', aion.tumbling('10 min'), allowed_lateness => interval '3 hours');
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-03-01 10:07', 'partly too', 8), ('2024-03-01 07:00', 'all too', 16);
SELECT aion.sync('lt', late => true);
SELECT window_start, n, sum FROM lt_long ORDER BY 1;
SELECT window_start, n, sum FROM lt_slide ORDER BY 1;
SELECT event->>'k' AS k, reason, partial FROM aion.expired WHERE stream = 'lt'::regclass ORDER BY id;
SELECT * FROM lt_counts WHERE stream = 'lt'::regclass;
-- nothing is purged while a window over it can still change; then it is, and results stay
SELECT aion.advance_watermark('lt', '2024-03-01 13:09:59.999999');
SELECT aion.sync('lt');
SELECT count(*) FROM lt;
SELECT aion.advance_watermark('lt', '2024-03-01 13:10');
SELECT aion.sync('lt');
SELECT lt_wait('NOT EXISTS (SELECT FROM lt)');
SELECT aion.advance_watermark('lt', '2024-03-01 13:20');
SELECT aion.sync('lt');
SELECT lt_wait('NOT EXISTS (SELECT FROM lt_windows)');
SELECT window_start, n, sum FROM lt_long ORDER BY 1;
SELECT window_start, n, sum FROM lt_slide ORDER BY 1;
SELECT count(*) FROM aion.expired WHERE stream = 'lt'::regclass;
SELECT view, on_time_firings + early_firings + late_firings AS executed, final_firings FROM aion.views WHERE streams = ARRAY['lt'::regclass] ORDER BY view::text;
-- an event in no window at all follows the stream's lateness
SELECT aion.drop_view('lt_slide'); SELECT aion.drop_view('lt_long');
SELECT aion.create_view('lt_gap', 'SELECT count(*) AS n FROM lt', aion.sliding('1 min', '1 hour'));
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-03-01 12:25', 'no window', 1), ('2024-03-01 11:55', 'too late', 2);
SELECT aion.sync('lt');
SELECT k FROM lt;
SELECT event->>'k' AS k, reason FROM aion.expired WHERE stream = 'lt'::regclass ORDER BY id DESC LIMIT 1;
SET client_min_messages = warning;
DROP FOREIGN TABLE lt CASCADE;
RESET client_min_messages;

-- on_expired 'drop' only counts
CREATE FOREIGN TABLE lt (at timestamptz, k text) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '0', on_expired 'drop');
SELECT aion.create_view('lt_v', 'SELECT count(*) AS n FROM lt', aion.tumbling('1 h'));
INSERT INTO lt VALUES ('2024-03-01 10:30', 'a');
SELECT aion.advance_watermark('lt', '2024-03-01 11:00');
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-03-01 10:40', 'b');
SELECT aion.sync('lt', late => true);
SELECT n FROM lt_v;
SELECT * FROM lt_counts WHERE stream = 'lt'::regclass;
SELECT count(*) FROM aion.expired WHERE stream = 'lt'::regclass;
ALTER FOREIGN TABLE lt OPTIONS (SET on_expired 'keep');
INSERT INTO lt VALUES ('2024-03-01 10:50', 'f');
SELECT aion.sync('lt');
SELECT event->>'k' AS k, reason FROM aion.expired WHERE stream = 'lt'::regclass;
SET client_min_messages = warning;
DROP FOREIGN TABLE lt CASCADE;
RESET client_min_messages;

-- months are added by calendar; unlimited never ends
CREATE FOREIGN TABLE lt (at timestamptz, k text) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 month', bucket_width '1 day');
SELECT aion.create_view('lt_v', 'SELECT count(*) AS n FROM lt', aion.tumbling('1 day'));
INSERT INTO lt VALUES ('2024-01-30 12:00', 'a'), ('2024-02-28 12:00', 'a');
SELECT aion.advance_watermark('lt', '2024-02-28 23:59:59.999999');
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-01-30 13:00', 'in time');
SELECT aion.sync('lt', late => true);
SELECT aion.advance_watermark('lt', '2024-03-01 00:00');
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-01-30 14:00', 'too late'), ('2024-02-28 14:00', 'in time');
SELECT aion.sync('lt', late => true);
SELECT window_start, n FROM lt_v ORDER BY 1;
SELECT event->>'k' AS k FROM aion.expired WHERE stream = 'lt'::regclass;
SELECT aion.alter_view('lt_v', allowed_lateness => 'unlimited');
SELECT aion.advance_watermark('lt', '2030-01-01');
SELECT aion.sync('lt');
INSERT INTO lt VALUES ('2024-02-28 15:00', 'in time');
SELECT aion.sync('lt', late => true);
SELECT window_start, n FROM lt_v ORDER BY 1;
SELECT state, events FROM aion.windows WHERE view = 'lt_v'::regclass AND window_start = '2024-02-28';

SET client_min_messages = warning;
DROP FOREIGN TABLE lt CASCADE;
DROP VIEW lt_windows, lt_counts;
DROP FUNCTION lt_wait;
