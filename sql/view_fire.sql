-- What windows show: placement, late amendments, NULLs, failures.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\set SHOW_CONTEXT never

-- R01: a row later than the delay amends its window
CREATE FOREIGN TABLE vf (at timestamptz NOT NULL, k text, v int)
	SERVER aion OPTIONS (event_time 'at', watermark_delay '1 hour', idle_timeout 'off');
SELECT aion.create_view('vf_hour', 'SELECT k, count(*) AS n, sum(v), avg(v) FROM vf GROUP BY k', aion.tumbling('1 h'));
SELECT * FROM vf_hour;
INSERT INTO vf VALUES ('2024-03-01 10:05Z', 'a', 10), ('2024-03-01 10:40Z', 'a', 20), ('2024-03-01 15:10Z', 'a', 1);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_hour;
SELECT aion.refresh('vf_hour');
SELECT * FROM vf_hour ORDER BY 1;
INSERT INTO vf VALUES ('2024-03-01 10:59Z', 'a', 5);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_hour ORDER BY 1;
SELECT window_start, state, events, late_events FROM aion.windows WHERE view = 'vf_hour'::regclass ORDER BY 1;
DROP FOREIGN TABLE vf CASCADE;

-- R08 (i), R09, R10: edges, times before 1970 and 2000, slides that don't divide the size
CREATE FOREIGN TABLE vf (at timestamptz NOT NULL, k text, v int)
	SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness 'unlimited');
SELECT aion.create_view('vf_5min', 'SELECT count(*) AS n FROM vf WHERE k = ''edge''', aion.tumbling('5 min'));
SELECT aion.create_view('vf_10s', 'SELECT count(*) AS n FROM vf WHERE k = ''old''', aion.tumbling('10 s'));
SELECT aion.create_view('vf_old', 'SELECT count(*) AS n FROM vf WHERE k = ''old''', aion.sliding('10 s', '5 s'));
SELECT aion.create_view('vf_frac', 'SELECT count(*) AS n FROM vf WHERE k = ''frac''', aion.sliding('5.5 s', '5 s'));
SELECT aion.create_view('vf_slide', 'SELECT count(*) AS n, sum(v) FROM vf WHERE k = ''slide''', aion.sliding('10 min', '4 min'));
SELECT aion.create_view('vf_gap', 'SELECT count(*) AS n, array_agg(v ORDER BY at) AS v FROM vf WHERE k = ''slide''', aion.sliding('1 min', '10 min'));
INSERT INTO vf VALUES ('2024-03-01 10:00:00Z', 'edge', 1), ('2024-03-01 10:04:59.999999Z', 'edge', 1),
	('2024-03-01 10:05:00Z', 'edge', 1), ('2024-03-01 10:09:59.999999Z', 'edge', 1), ('2024-03-01 10:10:00Z', 'edge', 1);
INSERT INTO vf VALUES ('1960-05-22 00:00:30Z', 'old', 1), ('1969-12-31 23:59:58Z', 'old', 1),
	('1969-12-31 23:59:50Z', 'old', 1), ('1999-12-31 23:59:59.5Z', 'old', 1), ('2000-01-01 00:00:00Z', 'old', 1);
INSERT INTO vf VALUES ('2024-07-01 00:08:33.0404Z', 'frac', 1), ('2024-07-01 00:08:35.2Z', 'frac', 1), ('2024-07-01 00:08:35.5Z', 'frac', 1);
INSERT INTO vf VALUES ('2024-03-01 10:09:00Z', 'slide', 1), ('2024-03-01 10:10:00Z', 'slide', 10);
INSERT INTO vf VALUES ('2024-08-01 00:00Z', 'end', 0);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_5min WHERE n > 0 ORDER BY 1;
SELECT * FROM vf_10s WHERE n > 0 ORDER BY 1;
SELECT * FROM vf_old WHERE n > 0 AND window_start BETWEEN '1999-12-31 12:00Z' AND '2000-01-01 12:00Z' ORDER BY 1;
SELECT * FROM vf_frac WHERE n > 0 ORDER BY 1;
SELECT * FROM vf_slide WHERE n > 0 ORDER BY 1;
SELECT * FROM vf_gap WHERE n > 0 ORDER BY 1;
-- TRUNCATE takes results along, and the views begin anew
TRUNCATE vf;
SELECT count(*) FROM vf_5min;
INSERT INTO vf VALUES ('2024-03-01 10:00:00Z', 'edge', 7), ('2024-03-01 11:00:00Z', 'edge', 7);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_5min WHERE n > 0 ORDER BY 1;
DROP FOREIGN TABLE vf CASCADE;

-- R15, R17: NULL keys, NULL values, empty windows; the window's bounds in the query
CREATE FOREIGN TABLE vf (at timestamptz NOT NULL, k1 int, k2 int, v int)
	SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
SELECT aion.create_view('vf_null', 'SELECT k1, k2, count(*) AS n, count(v) AS nv, sum(v) FROM vf GROUP BY k1, k2', aion.tumbling('1 h'));
SELECT aion.create_view('vf_all', 'SELECT count(*) AS n, count(v) AS nv, sum(v), avg(v), min(v), max(v) FROM vf WHERE k1 = 0', aion.tumbling('5 min'));
SELECT aion.create_view('vf_bounds', 'SELECT max(aion.window_end() - at) AS before_end, bool_and(at >= aion.window_start()) AS inside FROM vf WHERE k1 = 11', aion.tumbling('1 h'));
INSERT INTO vf VALUES ('2024-03-01 10:00Z', NULL, NULL), ('2024-03-01 10:00Z', 1, NULL), ('2024-03-01 10:00Z', NULL, 1);
INSERT INTO vf VALUES ('2024-03-01 10:01Z', NULL, NULL), ('2024-03-01 10:01Z', 1, NULL), ('2024-03-01 10:01Z', NULL, 1);
INSERT INTO vf VALUES ('2024-03-01 10:02Z', 11, 0, NULL), ('2024-03-01 10:03Z', 11, 0, NULL), ('2024-03-01 10:04Z', 11, 0, 10);
INSERT INTO vf VALUES ('2024-03-01 12:01Z', 0, 0, NULL), ('2024-03-01 12:02Z', 0, 0, NULL), ('2024-03-01 12:11Z', 0, 0, 7), ('2024-03-01 14:00Z', 9, 9, 9);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_null WHERE window_start < '2024-03-01 12:00Z' ORDER BY k1, k2;
INSERT INTO vf VALUES ('2024-03-01 10:05Z', NULL, NULL), ('2024-03-01 10:05Z', 1, NULL), ('2024-03-01 10:05Z', NULL, 1);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_null WHERE window_start < '2024-03-01 12:00Z' ORDER BY k1, k2;
SELECT * FROM vf_all WHERE n > 0 ORDER BY 1;
SELECT * FROM vf_bounds WHERE inside;

-- a query that fails fails that window alone, until it succeeds
\set VERBOSITY terse
SELECT aion.create_view('vf_fail', 'SELECT 100 / (count(*) - 2) AS q FROM vf WHERE v > 100', aion.tumbling('1 h'));
INSERT INTO vf VALUES ('2024-03-01 15:00Z', 0, 0, 101), ('2024-03-01 15:01Z', 0, 0, 102), ('2024-03-01 16:00Z', 0, 0, 103), ('2024-03-01 17:00Z', 0, 0, 0);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_fail WHERE window_start >= '2024-03-01 15:00Z' ORDER BY 1;
SELECT window_start, state, error FROM aion.windows WHERE view = 'vf_fail'::regclass AND error IS NOT NULL;
INSERT INTO vf VALUES ('2024-03-01 15:02Z', 0, 0, 104);
SELECT aion.sync('vf', late => true);
SELECT * FROM vf_fail WHERE window_start >= '2024-03-01 15:00Z' ORDER BY 1;
SELECT window_start, state, error FROM aion.windows WHERE view = 'vf_fail'::regclass AND error IS NOT NULL;
DROP FOREIGN TABLE vf CASCADE;
