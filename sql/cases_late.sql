-- Cases from public reports: rows that come late, windows that are still open, keys that run ahead.
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\pset null NULL

-- R01: a row that is older than the delay gets in
CREATE FOREIGN TABLE cl (at timestamptz NOT NULL, k text, v int) SERVER aion OPTIONS (event_time 'at', watermark_delay '1 hour', idle_timeout 'off');
SELECT aion.create_view('cl_v', 'SELECT k, count(*) AS n, sum(v), avg(v) FROM cl GROUP BY k', aion.tumbling('1 hour'));
INSERT INTO cl VALUES ('2024-03-01 10:05', 'a', 10);
INSERT INTO cl VALUES ('2024-03-01 10:40', 'a', 20);
INSERT INTO cl VALUES ('2024-03-01 15:10', 'a', 1);
SELECT aion.sync('cl', late => true); SELECT aion.refresh('cl_v');
SELECT * FROM cl_v ORDER BY 1;
INSERT INTO cl VALUES ('2024-03-01 10:59', 'a', 5);
SELECT aion.sync('cl', late => true); SELECT aion.refresh('cl_v');
SELECT * FROM cl_v ORDER BY 1;
SELECT state, events, late_events FROM aion.windows WHERE view = 'cl_v'::regclass ORDER BY window_start;
-- the same after a destage, several at once, into a window that had none
SELECT aion.destage('cl');
INSERT INTO cl VALUES ('2024-03-01 10:00', 'b', 100), ('2024-03-01 10:59:59', 'a', 200), ('2024-03-01 12:30', 'c', 7);
SELECT aion.sync('cl', late => true);
SELECT * FROM cl_v ORDER BY 1, 3;
SET client_min_messages = warning;
DROP FOREIGN TABLE cl CASCADE;
RESET client_min_messages;

-- R02 (i): a window that was shown while open goes on growing
CREATE FOREIGN TABLE cl (at timestamptz NOT NULL, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
SELECT aion.create_view('cl_v', 'SELECT k, count(*) AS n, sum(v) FROM cl GROUP BY k', aion.tumbling('1 day'));
INSERT INTO cl VALUES ('2024-03-01 09:00', 'a', 1);
SELECT aion.sync('cl', late => true); SELECT aion.refresh('cl_v');
SELECT * FROM cl_v;
INSERT INTO cl VALUES ('2024-03-01 09:30', 'a', 2);
INSERT INTO cl VALUES ('2024-03-01 08:00', 'a', 4);
SELECT aion.sync('cl', late => true); SELECT aion.refresh('cl_v');
SELECT * FROM cl_v;
SELECT early_firings, on_time_firings, late_firings FROM aion.views WHERE view = 'cl_v'::regclass;
-- R03: one key that is in the next day already closes nothing for the others
TRUNCATE cl;
INSERT INTO cl VALUES ('2024-03-02 00:00:01', 'a', 1);
INSERT INTO cl VALUES ('2024-03-01 22:59:59', 'b', 1);
INSERT INTO cl VALUES ('2024-03-01 23:00', 'a', 1);
SELECT aion.sync('cl', late => true); SELECT aion.refresh('cl_v');
SELECT * FROM cl_v ORDER BY 1, 3;
SET client_min_messages = warning;
DROP FOREIGN TABLE cl CASCADE;
RESET client_min_messages;

-- R02 (ii): a slow replay ends as one that is sent at once, and shows one row at any time
CREATE FOREIGN TABLE cl (at timestamptz NOT NULL, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout '1 ms', watermark_interval '1 ms');
SELECT aion.create_view('cl_v', 'SELECT k, count(*) AS n, sum(v) FROM cl GROUP BY k', aion.tumbling('1 min'));
CREATE PROCEDURE cl_replay() LANGUAGE plpgsql AS $$
DECLARE part int; shown text; list text[];
BEGIN
	FOR part IN 0 .. 4 LOOP
		INSERT INTO cl SELECT timestamptz '2024-03-01 10:00' + g * interval '0.1 s', 'b', 1 FROM generate_series(part, 499, 5) g;
		COMMIT;
		PERFORM aion.sync('cl', late => true);
		PERFORM aion.refresh('cl_v');
		COMMIT;
		SELECT string_agg(format('%s %s %s', to_char(window_start, 'HH24:MI'), k, n), ', ') INTO shown FROM cl_v;
		list := list || shown;
		PERFORM pg_sleep(0.05);
		COMMIT;
	END LOOP;
	RAISE NOTICE '%', list;
END $$;
CALL cl_replay();
TRUNCATE cl;
INSERT INTO cl SELECT timestamptz '2024-03-01 10:00' + g * interval '0.1 s', 'b', 1 FROM generate_series(0, 499) g;
SELECT aion.sync('cl', late => true); SELECT aion.refresh('cl_v');
SELECT * FROM cl_v;

SET client_min_messages = warning;
DROP FOREIGN TABLE cl CASCADE;
DROP PROCEDURE cl_replay;

-- R13: the hours of a clock change are windows of their own, wherever rows are inserted and read
SET TimeZone = 'Europe/Paris';
CREATE FOREIGN TABLE dst (at timestamptz NOT NULL, v int) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
SELECT aion.create_view('dst_v', 'SELECT count(*) AS n FROM dst', aion.tumbling('1 hour'));
INSERT INTO dst VALUES ('2025-03-30 00:30Z', 1), ('2025-03-30 01:30Z', 1), ('2025-10-26 00:30Z', 1), ('2025-10-26 01:30Z', 1);
SELECT aion.advance_watermark('dst', '2025-10-27');
SELECT aion.sync('dst');
SELECT * FROM dst_v ORDER BY window_start;
RESET TimeZone;
SELECT * FROM dst_v ORDER BY window_start;
DROP FOREIGN TABLE dst CASCADE;
RESET client_min_messages;
