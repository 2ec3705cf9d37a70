-- Copies of compressed blocks in memory: what aion.stage() makes, who uses them, and when they go.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE st (id int, at timestamptz NOT NULL)
	SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness '1 day');
-- Blocks that a query reads, and where from.
CREATE FUNCTION st_read(query text, OUT disk bigint, OUT staged bigint, OUT read bigint) LANGUAGE plpgsql AS $$
DECLARE j jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO j;
	SELECT sum((n->>'Events from Disk')::bigint), sum((n->>'Blocks Staged')::bigint), sum((n->>'Blocks Read')::bigint)
	  INTO disk, staged, read
	  FROM jsonb_path_query(j, 'strict $.** ? (@."Node Type" == "Foreign Scan")') n;
END $$;
-- A plan as every version shows it: later ones count rows with decimals.
CREATE FUNCTION st_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || query LOOP
		RETURN NEXT replace(line, '.00 loops', ' loops');
	END LOOP;
END $$;
CREATE VIEW st_buckets AS
	SELECT bucket_start, state = 'staged' AS staged, memory_events, disk_events, staged_bytes > 0 AS copies, memory_bytes = staged_bytes AS nothing_else
	  FROM aion.buckets WHERE stream = 'st'::regclass;

-- nothing to stage: no storage yet, events in memory alone
SELECT aion.stage('st', '2024-03-01', '2024-03-02');
INSERT INTO st SELECT g, timestamptz '2024-03-01' + g * interval '1 min' FROM generate_series(0, 239) g;
SELECT aion.stage('st', '2024-03-01', '2024-03-02');
SELECT aion.destage('st');
SELECT * FROM st_buckets ORDER BY 1;
SELECT * FROM st_read('SELECT * FROM st');

-- whole buckets of the range, which is half-open; once more copies nothing
SELECT aion.stage('st', '2024-03-01 01:30', '2024-03-01 03:00') > 0 AS copied;
SELECT * FROM st_buckets ORDER BY 1;
SELECT aion.stage('st', '2024-03-01 01:30', '2024-03-01 03:00') AS copied_again;
-- a query of a user uses copies and leaves them
SELECT * FROM st_read('SELECT * FROM st');
SELECT * FROM st_read('SELECT * FROM st');
SELECT * FROM st_explain($$ SELECT id FROM st WHERE at >= '2024-03-01 02:00' AND at < '2024-03-01 04:00' $$);
SELECT count(*), sum(id) FROM st;
-- what comes later has no copy
INSERT INTO st SELECT g, timestamptz '2024-03-01 02:30' FROM generate_series(1000, 1009) g;
SELECT * FROM st_buckets WHERE copies ORDER BY 1;
SELECT aion.destage('st');
SELECT * FROM st_read($$ SELECT * FROM st WHERE at >= '2024-03-01 02:00' AND at < '2024-03-01 03:00' $$);

-- the firings that were expected use them up: one for each time that they were staged
SELECT aion.create_view('st_v', 'SELECT count(*) AS n, sum(id) AS s FROM st', aion.tumbling('1 hour'));
SELECT aion.advance_watermark('st', '2024-03-01 04:00');
SELECT aion.sync('st');
SELECT * FROM st_v ORDER BY 1;
SELECT * FROM st_buckets ORDER BY 1;
SELECT aion.refresh('st_v', '2024-03-01 01:00'), aion.refresh('st_v', '2024-03-01 02:00');
SELECT * FROM st_buckets ORDER BY 1;
SELECT window_start, staging_wait >= '0' AS measured FROM aion.windows WHERE view = 'st_v'::regclass ORDER BY 1;

-- a range may be as long as time is, but not infinite
SELECT aion.stage('st', '-infinity', 'infinity');
SELECT aion.stage('st', '4000-01-01 BC', '294000-01-01') > 0 AS copied;
SELECT * FROM st_buckets ORDER BY 1;
-- what was done, by kind in order of priority
SELECT kind, state, stream, bucket_start, bucket_end, requests > 0 AS some, bytes > 0 AS bytes, events > 0 AS events, wait,
	   wait_p50 <= wait_p99 AS waits, service_p50 <= service_p99 AS services
  FROM aion.io WHERE kind IN ('stage', 'destage') AND state = 'done';
SELECT kind FROM aion.io WHERE state = 'done';

-- purging
SELECT aion.advance_watermark('st', '2024-03-02 02:00');
SELECT aion.sync('st');
DO $$ BEGIN
	WHILE EXISTS (SELECT FROM aion.buckets WHERE stream = 'st'::regclass AND bucket_start < '2024-03-01 02:00') LOOP
		PERFORM pg_sleep(0.01);
		COMMIT;
	END LOOP;
END $$;
SELECT * FROM st_buckets ORDER BY 1;
SELECT count(*) FROM st;

-- TRUNCATE, rolled back and committed
BEGIN;
TRUNCATE st;
SELECT * FROM st_buckets ORDER BY 1;
ROLLBACK;
SELECT * FROM st_read('SELECT * FROM st');
TRUNCATE st;
SELECT * FROM st_buckets ORDER BY 1;
SELECT aion.stage('st', '2024-03-01', '2024-03-02');
INSERT INTO st VALUES (1, '2024-03-01 03:00');
SELECT aion.destage('st');
SELECT aion.stage('st', '2024-03-01', '2024-03-02') > 0 AS copied;

-- whoever owns the stream; a lock that is in the way is not waited for
CREATE ROLE st_other;
GRANT SELECT, INSERT ON st TO st_other;
SET ROLE st_other;
SELECT aion.stage('st', '2024-03-01', '2024-03-02');
RESET ROLE;
BEGIN;
ALTER FOREIGN TABLE st OPTIONS (ADD max_ahead 'off');
SELECT aion.stage('st', '2024-03-01', '2024-03-02');
ROLLBACK;
-- bad input
SELECT aion.stage(NULL, '2024-03-01', '2024-03-02');
SELECT aion.stage('st', NULL, '2024-03-02');
SELECT aion.stage('st', '2024-03-01', NULL);
SELECT aion.stage('st', '2024-03-02', '2024-03-01');
SELECT aion.stage('st', '2024-03-01', '2024-03-01');
SELECT aion.stage('st', '2024-03-01', '2024-03-02', '-1 s');
SELECT aion.stage('st', '2024-03-01', '2024-03-02', timeout => NULL) AS no_timeout;
SELECT aion.stage('st_v', '2024-03-01', '2024-03-02');
SELECT aion.stage('st_buckets', '2024-03-01', '2024-03-02');

DROP FOREIGN TABLE st CASCADE;
SELECT count(*) FROM aion.buckets WHERE staged_bytes > 0;
SELECT count(*) FROM aion.io WHERE kind IN ('stage', 'prestage') AND state <> 'done';
DROP ROLE st_other;
DROP FUNCTION st_read, st_explain;
