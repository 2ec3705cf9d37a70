-- Watermarks: bounded delay, by hand, what is too far ahead; never back but when told so.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';

-- the delay is applied once, and a window is open until W reaches its end (R06)
CREATE FOREIGN TABLE wm (at timestamptz, k text DEFAULT 'a') SERVER aion OPTIONS (event_time 'at', watermark_delay '30 s', idle_timeout 'off');
SELECT aion.create_view('wm_v', 'SELECT k, count(*) AS n FROM wm GROUP BY k', aion.tumbling('1 min'));
CREATE FUNCTION wm_add(VARIADIC times text[]) RETURNS void LANGUAGE sql BEGIN ATOMIC
	INSERT INTO wm SELECT ('2024-03-01 ' || t)::timestamptz FROM unnest(times) t;
END;
CREATE VIEW wm_windows AS
	SELECT to_char(window_start, 'HH24:MI') AS window, state, events, late_events AS late, firings,
		   (SELECT n FROM wm_v v WHERE v.window_start = w.window_start AND k = 'a') AS n
	  FROM aion.windows w WHERE view = 'wm_v'::regclass ORDER BY window_start;
SELECT wm_add('11:50:10', '11:50:40', '11:51:20');
SELECT aion.sync('wm', late => true);
SELECT aion.watermark('wm');
SELECT * FROM wm_windows;
SELECT wm_add('11:50:55');
SELECT aion.sync('wm', late => true);
SELECT aion.watermark('wm'), late_events FROM aion.streams WHERE stream = 'wm'::regclass;
SELECT * FROM wm_windows;
SELECT wm_add('11:51:29.999999');
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
SELECT * FROM wm_windows;
SELECT wm_add('11:51:30');
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
SELECT * FROM wm_windows;
SELECT wm_add('11:50:59');
SELECT aion.sync('wm', late => true);
SELECT aion.watermark('wm'), late_events FROM aion.streams WHERE stream = 'wm'::regclass;
SELECT * FROM wm_windows;

-- never back: not by old events, nor by a longer delay; a shorter one counts from the next event on
ALTER FOREIGN TABLE wm OPTIONS (SET watermark_delay '10 min');
SELECT wm_add('11:51:40', '10:00:00');
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
ALTER FOREIGN TABLE wm OPTIONS (SET watermark_delay '0');
SELECT wm_add('11:51:35');
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
-- all events of a transaction are judged by the W before it, then move it
BEGIN;
SELECT wm_add('12:00:00');
SELECT wm_add('11:52:30', '11:51:45');
COMMIT;
SELECT aion.sync('wm', late => true);
SELECT aion.watermark('wm'), late_events FROM aion.streams WHERE stream = 'wm'::regclass;
SELECT * FROM wm_windows WHERE "window" > '11:00';

-- by hand, on top of what events say; with its transaction, after that transaction's events
SELECT aion.advance_watermark('wm', '2024-03-01 12:30');
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
BEGIN;
SELECT aion.advance_watermark('wm', '2024-03-01 13:00');
SELECT wm_add('12:31:00');
SAVEPOINT a;
SELECT aion.advance_watermark('wm', '2024-03-01 14:00');
ROLLBACK TO a;
COMMIT;
SELECT aion.sync('wm', late => true);
SELECT aion.watermark('wm'), late_events FROM aion.streams WHERE stream = 'wm'::regclass;
SELECT * FROM wm_windows WHERE "window" > '12:00';
SELECT aion.advance_watermark('wm', '2024-03-01 12:00');
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
-- what is accounted for is not kept
DO $$
DECLARE
	n int;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE nevents = 0', (SELECT journal FROM aion.stream_def WHERE stream = 'wm'::regclass)) INTO n;
	RAISE NOTICE 'control entries: %', n;
END $$;

-- back, when told so: what has fired has fired, later events are judged anew
SELECT aion.reset_watermark('wm', '2024-03-01 12:40');
SELECT aion.watermark('wm');
SELECT wm_add('12:45:00', '12:31:30');
SELECT aion.sync('wm', late => true);
SELECT aion.watermark('wm'), late_events FROM aion.streams WHERE stream = 'wm'::regclass;
SELECT * FROM wm_windows WHERE "window" > '12:00';
SELECT aion.reset_watermark('wm', '2024-03-01 23:00');
SELECT aion.watermark('wm');
DROP VIEW wm_windows;
SET client_min_messages = warning;
DROP FOREIGN TABLE wm CASCADE;
RESET client_min_messages;

-- nothing but a hand moves a manual one
CREATE FOREIGN TABLE wm (at timestamptz, k text DEFAULT 'a') SERVER aion OPTIONS (event_time 'at', watermark 'manual', idle_timeout '1 ms', allowed_lateness '1 h');
SELECT aion.create_view('wm_v', 'SELECT k, count(*) AS n FROM wm GROUP BY k', aion.tumbling('1 min'));
INSERT INTO wm VALUES ('2024-03-01 10:00'), ('2024-03-01 15:00');
SELECT aion.sync('wm');
SELECT aion.watermark('wm') IS NULL AS none;
SELECT count(*) FROM wm_v;
SELECT aion.advance_watermark('wm', '2024-03-01 10:00:59.999999');
SELECT aion.sync('wm');
SELECT count(*) FROM wm_v;
SELECT aion.advance_watermark('wm', '2024-03-01 10:01');
SELECT aion.sync('wm');
SELECT to_char(window_start, 'HH24:MI') AS window, n FROM wm_v;
-- reset, to no less than what is final and its lateness
SELECT aion.advance_watermark('wm', '2024-03-01 13:00');
SELECT aion.sync('wm');
SELECT aion.reset_watermark('wm', '2024-03-01 09:00');
SELECT aion.watermark('wm');
SET client_min_messages = warning;
DROP FOREIGN TABLE wm CASCADE;
RESET client_min_messages;

-- one clock far ahead does not close anything for the others (R04)
CREATE FOREIGN TABLE wm (at timestamptz, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
SELECT aion.create_view('wm_v', 'SELECT k, count(*) AS n FROM wm GROUP BY k', aion.tumbling('1 min'));
INSERT INTO wm VALUES ('2024-03-01 10:00:10', 'a', 1), ('2024-03-01 10:02:10', 'a', 1);
INSERT INTO wm VALUES ('2024-03-02 10:00:00', 'bad', 1);
INSERT INTO wm VALUES ('2099-12-31 23:59:59', 'bad', 1);
SELECT aion.sync('wm');
INSERT INTO wm SELECT timestamptz '2024-03-01 10:03:05' + g * interval '1 min', 'a', 1 FROM generate_series(0, 9) g;
INSERT INTO wm VALUES ('2024-03-01 10:00:20', 'a', 1);
SELECT aion.sync('wm', late => true);
SELECT aion.refresh('wm_v');
SELECT to_char(window_start, 'YYYY-MM-DD HH24:MI') AS window, k, n FROM wm_v ORDER BY 1;
SELECT watermark, events, late_events, expired_events FROM aion.streams WHERE stream = 'wm'::regclass;
SELECT event_time, event->>'k' AS k, reason, partial FROM aion.expired WHERE stream = 'wm'::regclass;
-- the bound is measured against the clock at accounting, and may be off
INSERT INTO wm VALUES (now() + interval '23 h', 'near', 1), (now() + interval '25 h', 'far', 1);
SELECT aion.sync('wm');
SELECT k FROM wm WHERE at > now() ORDER BY k;
SELECT aion.watermark('wm') BETWEEN now() + interval '22 h' AND now() + interval '24 h' AS near;
ALTER FOREIGN TABLE wm OPTIONS (ADD max_ahead '30 days');
INSERT INTO wm VALUES (now() + interval '25 days', 'nearer', 1), (now() + interval '31 days', 'far', 1);
SELECT aion.sync('wm');
SELECT k FROM wm WHERE at > now() ORDER BY k;
ALTER FOREIGN TABLE wm OPTIONS (SET max_ahead 'off');
INSERT INTO wm VALUES ('2099-12-31 23:59:59', 'let in', 1);
SELECT aion.sync('wm');
SELECT aion.watermark('wm');
SELECT event->>'k' AS k, reason FROM aion.expired WHERE stream = 'wm'::regclass ORDER BY id;
SELECT events, expired_events FROM aion.streams WHERE stream = 'wm'::regclass;

SET client_min_messages = warning;
DROP FOREIGN TABLE wm CASCADE;
