-- Cases from public reports: odd keys and values, undone input, empty views, statements that cannot be.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\pset null NULL

-- R15: NULL keys are one group each, before and after late rows, in memory and in blocks
CREATE FOREIGN TABLE ci (at timestamptz NOT NULL, k1 int, k2 int, v int) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
SELECT aion.create_view('ci_v', 'SELECT k1, k2, count(*) AS n, count(v) AS nv, sum(v) FROM ci GROUP BY k1, k2', aion.tumbling('1 hour'));
INSERT INTO ci VALUES ('2024-03-01 10:01', NULL, NULL);
INSERT INTO ci VALUES ('2024-03-01 10:02', 1, NULL);
INSERT INTO ci VALUES ('2024-03-01 10:03', NULL, 1);
INSERT INTO ci VALUES ('2024-03-01 10:04', NULL, NULL);
INSERT INTO ci VALUES ('2024-03-01 10:05', 1, NULL);
INSERT INTO ci VALUES ('2024-03-01 10:06', NULL, 1);
INSERT INTO ci VALUES ('2024-03-01 10:07', 11, 0, NULL), ('2024-03-01 10:08', 11, 0, NULL), ('2024-03-01 10:09', 11, 0, 10);
SELECT aion.advance_watermark('ci', '2024-03-01 11:00');
SELECT aion.sync('ci', late => true);
SELECT k1, k2, n, nv, sum FROM ci_v ORDER BY k1, k2;
INSERT INTO ci VALUES ('2024-03-01 10:10', NULL, NULL);
INSERT INTO ci VALUES ('2024-03-01 10:11', 1, NULL);
INSERT INTO ci VALUES ('2024-03-01 10:12', NULL, 1);
SELECT aion.sync('ci', late => true);
SELECT k1, k2, n, nv, sum FROM ci_v ORDER BY k1, k2;
SELECT aion.destage('ci');
SELECT aion.refresh('ci_v', '2024-03-01 10:00');
SELECT k1, k2, n, nv, sum FROM ci_v ORDER BY k1, k2;
SET client_min_messages = warning;
DROP FOREIGN TABLE ci CASCADE;
RESET client_min_messages;

-- R16: what is rolled back, or breaks off, does not count
CREATE FOREIGN TABLE ci (at timestamptz NOT NULL, k text, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
SELECT aion.create_view('ci_v', 'SELECT k, count(*) AS n, sum(v) FROM ci GROUP BY k', aion.tumbling('1 hour'));
BEGIN;
INSERT INTO ci VALUES ('2024-03-01 10:00', 'a', 1);
ROLLBACK;
BEGIN;
INSERT INTO ci VALUES ('2024-03-01 10:00', 'a', 2);
SAVEPOINT s;
INSERT INTO ci VALUES ('2024-03-01 10:01', 'a', 4);
ROLLBACK TO s;
INSERT INTO ci VALUES ('2024-03-01 10:02', 'a', 8);
SELECT sum(v) FROM ci;
COMMIT;
COPY ci FROM stdin;
2024-03-01 10:10	a	1000
2024-03-01 10:11	a	1000
xyz	a	1000
2024-03-01 10:12	a	1000
\.
BEGIN;
DO $$
BEGIN
	INSERT INTO ci VALUES ('2024-03-01 10:03', 'a', 16);
	RAISE EXCEPTION 'fails';
EXCEPTION WHEN raise_exception THEN NULL;
END $$;
COMMIT;
SELECT aion.sync('ci', late => true); SELECT aion.refresh('ci_v');
SELECT window_start, k, n, sum FROM ci_v;
SELECT events FROM aion.streams WHERE stream = 'ci'::regclass;
-- R14: a bad time refuses its statement; the good rows sent again count
INSERT INTO ci VALUES ('2024-03-01 13:00', 't', 1), (NULL, 't', 2), ('2024-03-01 13:01', 't', 4);
INSERT INTO ci VALUES ('2024-03-01 13:00', 't', 1), ('2024-03-01 13:01', 't', 4);
INSERT INTO ci VALUES ('infinity', 't', 16);
INSERT INTO ci VALUES ('-infinity', 't', 32);
INSERT INTO ci VALUES ('2024-03-01 13:02', 't', 8);
SELECT aion.sync('ci', late => true); SELECT aion.refresh('ci_v');
SELECT window_start, k, n, sum FROM ci_v ORDER BY 1;
SELECT aion.watermark('ci');
SET client_min_messages = warning;
DROP FOREIGN TABLE ci CASCADE;
RESET client_min_messages;

-- R17: a view without keys before its first row, over rows without values, and over a gap; filling the gaps
CREATE FOREIGN TABLE ci (at timestamptz NOT NULL, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
SELECT aion.create_view('ci_v', 'SELECT count(*) AS n, count(v) AS nv, sum(v), avg(v), min(v), max(v) FROM ci', aion.tumbling('5 min'));
SELECT * FROM ci_v;
SELECT aion.refresh('ci_v');
SELECT aion.sync('ci');
INSERT INTO ci VALUES ('2024-03-01 10:01', NULL);
INSERT INTO ci VALUES ('2024-03-01 10:02', NULL);
INSERT INTO ci VALUES ('2024-03-01 10:11', 7);
SELECT aion.sync('ci', late => true); SELECT aion.refresh('ci_v');
SELECT * FROM ci_v ORDER BY 1;
SELECT w AS window_start, coalesce(n, 0) AS n, sum FROM generate_series(timestamptz '2024-03-01 10:00', '2024-03-01 10:10', '5 min') w LEFT JOIN ci_v ON window_start = w ORDER BY 1;

-- R18: statements that a stream or view refuses; the rest goes on, in the same server process
SELECT pg_backend_pid() AS pid \gset
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci', aion.tumbling('0'));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci', aion.tumbling('-5 min'));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci', aion.tumbling(NULL));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci', aion.sliding('5 min', '0'));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci', aion.counting(0));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci', aion.session('0'));
SELECT aion.create_view('ci_bad', 'SELECT 1 AS n', aion.tumbling('5 min'));
SELECT aion.create_view('ci_bad', 'SELECT nix FROM ci', aion.tumbling('5 min'));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci');
SELECT aion.create_view('ci_bad', 'SELECT now() AS n FROM ci', aion.tumbling('5 min'));
SELECT aion.create_view('ci_bad', 'SELECT random() AS n FROM ci', aion.tumbling('5 min'));
SELECT aion.create_view('ci_bad', 'SELECT count(*) AS n FROM ci UNION ALL SELECT sum(v) FROM ci', aion.tumbling('5 min'));
UPDATE ci SET v = 0;
DELETE FROM ci;
INSERT INTO ci VALUES ('2024-03-01 10:00', 1) ON CONFLICT (v) DO UPDATE SET v = 2;
INSERT INTO ci (at, nix) VALUES ('2024-03-01 10:00', 1);
INSERT INTO ci_v VALUES ('2024-03-01 10:00', '2024-03-01 10:05', 1);
TRUNCATE ci;
INSERT INTO ci VALUES ('2024-03-01 10:00', 1) RETURNING v;
SELECT aion.refresh('ci_v'); SELECT aion.refresh('ci_bad');
SELECT window_start, n, sum FROM ci_v;
SELECT window_start, n FROM ci_bad ORDER BY n;
SELECT pg_backend_pid() = :pid AS same;

SET client_min_messages = warning;
DROP FOREIGN TABLE ci CASCADE;
