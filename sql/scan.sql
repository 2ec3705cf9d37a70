-- Reading a stream: which buckets are looked at, where events come from, and shapes of plans.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
-- Without a watermark nothing is destaged in the background: where events are is up to this test.
CREATE FOREIGN TABLE sc (gone text, id int, pad text, at timestamptz NOT NULL, mood text DEFAULT 'm')
	SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour');
ALTER FOREIGN TABLE sc DROP COLUMN gone;
-- What scans of streams in a query's plan read.
CREATE FUNCTION sc_read(query text, OUT buckets_memory bigint, OUT buckets_disk bigint, OUT memory bigint, OUT journal bigint,
						OUT disk bigint, OUT rows bigint) LANGUAGE plpgsql AS $$
DECLARE j jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO j;
	SELECT sum((n->>'Buckets from Memory')::bigint), sum((n->>'Buckets from Disk')::bigint), sum((n->>'Events from Memory')::bigint),
		   sum((n->>'Events from Journal')::bigint), sum((n->>'Events from Disk')::bigint),
		   sum((n->>'Actual Rows')::numeric * (n->>'Actual Loops')::bigint)
	  INTO buckets_memory, buckets_disk, memory, journal, disk, rows
	  FROM jsonb_path_query(j, 'strict $.** ? (@."Node Type" == "Foreign Scan")') n;
END $$;
INSERT INTO sc (id, pad, at) SELECT g, 'pad ' || g, timestamptz '2024-03-01' + g * interval '1 min' FROM generate_series(0, 1439) g;
EXPLAIN (COSTS off) SELECT id FROM sc WHERE at >= '2024-03-01 10:00' AND id > 5;

-- bounds choose buckets; each row is checked all the same
SELECT * FROM sc_read('SELECT * FROM sc');
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at >= '2024-03-01 22:00' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at > '2024-03-01 21:59' AND at < '2024-03-01 22:00' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at <= '2024-03-01 01:00' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at < '2024-03-01 01:00' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at = '2024-03-01 05:30' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE '2024-03-01 05:30' <= at AND '2024-03-01 06:30' > at $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at BETWEEN '2024-03-01 05:30' AND timestamptz '2024-03-01' + interval '6 h' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at >= '2024-03-02' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at > '2024-03-01 12:00' AND at < '2024-03-01 11:00' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at > 'infinity' $$);
SELECT count(*) FROM sc WHERE at >= '-infinity' AND at <= 'infinity';
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at < NULL::timestamptz $$);
-- not bounds
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at >= '2024-03-01 22:00' OR id < 3 $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at <> '2024-03-01 05:30' $$);

-- the same from blocks, and from both
SELECT aion.destage('sc');
SELECT * FROM sc_read('SELECT * FROM sc');
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at >= '2024-03-01 22:00' $$);
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at = '2024-03-01 05:30' $$);
INSERT INTO sc (id, at) SELECT g, timestamptz '2024-03-01 22:30' + g * interval '1 h' FROM generate_series(0, 3) g;
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at >= '2024-03-01 22:00' $$);
BEGIN;
INSERT INTO sc (id, at) VALUES (9, '2024-03-01 22:45'), (9, '2024-03-01 12:45');
SELECT count(*) FROM sc WHERE at >= '2024-03-01 22:00' AND id = 9;
ROLLBACK;
BEGIN;
INSERT INTO sc (id, pad, at) SELECT 9, repeat('x', 100000), '2024-03-01 22:45' FROM generate_series(1, 50);
SELECT count(*), count(pad), sum(length(pad)) FROM sc WHERE at >= '2024-03-01 22:00' AND id = 9;
ROLLBACK;
-- a bucket by bucket comparison
SELECT count(*) AS different FROM (
	SELECT date_trunc('hour', at) AS h, count(*) AS n, sum(id) AS s FROM sc GROUP BY 1) a
	FULL JOIN generate_series(0, 25) g ON h = timestamptz '2024-03-01' + g * interval '1 h'
	WHERE (n, s) IS DISTINCT FROM (CASE WHEN g < 22 THEN 60 WHEN g < 24 THEN 61 ELSE 1 END,
								   CASE WHEN g < 24 THEN g * 3600 + 1770 ELSE 0 END + greatest(g - 22, 0));

-- values known at execution only: parameters, sub-selects, lateral joins, rescans
PREPARE since (timestamptz) AS SELECT count(*) FROM sc WHERE at >= $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE since ('2024-03-01 23:00');
EXECUTE since ('2024-03-01 12:00');
EXECUTE since (NULL);
SELECT * FROM sc_read($$ EXECUTE since ('2024-03-01 23:00') $$);
RESET plan_cache_mode;
SELECT * FROM sc_read($$ SELECT * FROM sc WHERE at >= (SELECT max(at) - interval '1 h' FROM (VALUES (timestamptz '2024-03-02')) v (at)) $$);
SELECT g, n FROM generate_series(timestamptz '2024-03-01', '2024-03-02', '6 h') g,
	LATERAL (SELECT count(*) AS n FROM sc WHERE at >= g AND at < g + interval '90 min') s ORDER BY g;
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM generate_series(0, 2) g JOIN sc ON sc.id = g AND at < '2024-03-01 01:00';
SELECT count(*) FROM sc a JOIN sc b ON a.at = b.at AND a.id < b.id WHERE a.at >= '2024-03-01 22:00' AND b.at >= '2024-03-01 22:00';
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT id FROM sc WHERE at < '2024-03-01 00:05' AND EXISTS (SELECT FROM sc s WHERE s.id = sc.id + 1 AND s.at = sc.at + interval '1 min') ORDER BY id;
SELECT id FROM sc ORDER BY at DESC, id LIMIT 3;
SELECT id FROM sc WHERE id = 7 LIMIT 1;

-- columns: none, some, all, the row
SELECT count(*) FROM sc;
SELECT count(*) FROM sc WHERE mood = 'm';
SELECT max(pad), min(id), max(at) FROM sc WHERE at < '2024-03-01 02:00';
SELECT sc FROM sc WHERE id = 100;
SELECT (sc).pad, tableoid::regclass FROM sc WHERE sc.id = 100;
SELECT row_to_json(s) FROM (SELECT at, id FROM sc WHERE at = '2024-03-01 10:00') s;
SELECT 1 AS one FROM sc WHERE at < '2024-03-01 00:02';

-- in a view, a set operation, a window function; no samples
CREATE VIEW sc_view WITH (security_barrier) AS SELECT id, at FROM sc WHERE id % 2 = 0;
SELECT * FROM sc_read($$ SELECT * FROM sc_view WHERE at >= '2024-03-01 23:30' $$);
SELECT count(*) FROM (SELECT id FROM sc UNION ALL SELECT id FROM sc_view) u;
SELECT id, lag(id) OVER (ORDER BY at) FROM sc WHERE at < '2024-03-01 00:03' ORDER BY at;
SELECT count(*) FROM sc TABLESAMPLE system (10);
-- partition pruning by event time
CREATE TABLE sc_p (id int, at timestamptz) PARTITION BY RANGE (at);
CREATE FOREIGN TABLE sc_p1 PARTITION OF sc_p FOR VALUES FROM ('2024-03-01') TO ('2024-03-02') SERVER aion OPTIONS (event_time 'at', watermark 'manual');
CREATE FOREIGN TABLE sc_p2 PARTITION OF sc_p FOR VALUES FROM ('2024-03-02') TO ('2024-03-03') SERVER aion OPTIONS (event_time 'at', watermark 'manual');
INSERT INTO sc_p SELECT g, timestamptz '2024-03-01 12:00' + g * interval '1 h' FROM generate_series(0, 23) g;
EXPLAIN (COSTS off) SELECT * FROM sc_p WHERE at >= '2024-03-02 06:00';
SELECT * FROM sc_read($$ SELECT * FROM sc_p WHERE at >= '2024-03-02 06:00' $$);
SELECT tableoid::regclass, count(*) FROM sc_p GROUP BY 1 ORDER BY 1;
DROP TABLE sc_p;
-- ANALYZE and statistics are not kept for streams
ANALYZE sc;
DROP VIEW sc_view;
DROP FOREIGN TABLE sc;
DROP FUNCTION sc_read;
