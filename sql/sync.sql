-- Waiting for workers, moving the watermark by hand, and who may do that.
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE FOREIGN TABLE sync_s (key text, value int, at timestamptz NOT NULL)
	SERVER aion OPTIONS (event_time 'at', watermark 'manual');

-- A stream that holds nothing yet has nothing to wait for.
SELECT aion.sync('sync_s');
SELECT aion.watermark('sync_s') IS NULL AS none_yet;

SELECT aion.create_view('sync_v', 'SELECT key, count(*) AS n, sum(value) AS sum FROM sync_s GROUP BY key',
						aion.tumbling('10 minutes'));
INSERT INTO sync_s VALUES ('a', 1, '2024-03-01 10:01'), ('a', 2, '2024-03-01 10:09:59.999999'),
						  ('b', 4, '2024-03-01 10:10');
SELECT aion.sync('sync_s');
SELECT count(*) FROM sync_v;
SELECT aion.advance_watermark('sync_s', '2024-03-01 10:10');
SELECT aion.sync('sync_s');
SELECT aion.watermark('sync_s');
SELECT * FROM sync_v ORDER BY window_start, key;

-- Rolled back with its transaction; never back.
BEGIN;
SELECT aion.advance_watermark('sync_s', '2024-03-01 12:00');
ROLLBACK;
SELECT aion.advance_watermark('sync_s', '2024-03-01 09:00');
SELECT aion.sync('sync_s');
SELECT aion.watermark('sync_s');

-- A refresh fires what is not complete; late events are taken in at once if told so.
SELECT aion.refresh('sync_v');
SELECT * FROM sync_v ORDER BY window_start, key;
INSERT INTO sync_s VALUES ('a', 8, '2024-03-01 10:05');
SELECT aion.sync('sync_s', late => true);
SELECT * FROM sync_v ORDER BY window_start, key;
SELECT aion.refresh('sync_v', '2024-03-01 10:00');
SELECT events, late_events, expired_events FROM aion.streams WHERE stream = 'sync_s'::regclass;

-- Everything moves to blocks, and counts the same.
SELECT aion.destage('sync_s');
SELECT sum(journal_events) AS journal, sum(disk_events) AS disk FROM aion.buckets WHERE stream = 'sync_s'::regclass;
SELECT count(*), sum(value) FROM sync_s;

-- Down again, as nothing is final.
SELECT aion.reset_watermark('sync_s', '2024-03-01 09:30');
SELECT aion.watermark('sync_s');

-- Refused where it could not see what it is to wait for.
BEGIN;
INSERT INTO sync_s VALUES ('c', 1, '2024-03-01 11:00');
SELECT aion.sync('sync_s');
ROLLBACK;
BEGIN;
SELECT aion.create_view('sync_w', 'SELECT count(*) AS n FROM sync_s', aion.tumbling('1 hour'));
SELECT aion.refresh('sync_w');
ROLLBACK;

-- Or where the workers would wait for it: a lock on the stream, a view, its results, or what its query reads.
CREATE TABLE sync_t (key text, label text);
CREATE VIEW sync_labels AS SELECT * FROM sync_t;
SELECT aion.create_view('sync_j', 'SELECT l.label, count(*) AS n FROM sync_s s LEFT JOIN sync_labels l USING (key) GROUP BY l.label',
						aion.tumbling('10 minutes'));
BEGIN;
CREATE INDEX ON aion_results.sync_j (label);
SELECT aion.refresh('sync_j');
ROLLBACK;
BEGIN;
ALTER FOREIGN TABLE sync_s ALTER COLUMN value SET DEFAULT 0;
SELECT aion.destage('sync_s');
ROLLBACK;
BEGIN;
TRUNCATE sync_t;
SELECT aion.sync('sync_s');
ROLLBACK;
BEGIN;
COMMENT ON VIEW sync_j IS 'locked, but in nobody''s way';
LOCK TABLE sync_t IN EXCLUSIVE MODE;
SELECT * FROM sync_j WHERE false;
SELECT aion.sync('sync_s'), aion.refresh('sync_j'), aion.destage('sync_s');
ROLLBACK;
DROP VIEW sync_j, sync_labels;
DROP TABLE sync_t;

-- Nobody waits for ever.
SELECT aion.refresh('sync_v', timeout => '-1 s');
SELECT aion.destage('sync_s', timeout => NULL), aion.refresh('sync_v', timeout => '1 minute');

-- Bad input.
SELECT aion.sync(NULL);
SELECT aion.sync('pg_class');
SELECT aion.sync('sync_s', timeout => '-1 s');
SELECT aion.refresh('sync_s');
SELECT aion.advance_watermark('sync_s', NULL);
SELECT aion.advance_watermark('sync_s', 'infinity');
SELECT aion.reset_watermark('sync_s', '-infinity');

-- A paused view is not waited for.
SELECT aion.pause_view('sync_v');
INSERT INTO sync_s VALUES ('a', 16, '2024-03-01 10:06');
SELECT aion.advance_watermark('sync_s', '2024-03-01 10:30');
SELECT aion.sync('sync_s', late => true);
SELECT aion.resume_view('sync_v');
SELECT aion.sync('sync_s', late => true);
SELECT * FROM sync_v ORDER BY window_start, key;

-- Privileges.
CREATE ROLE regress_aion_sync;
SET ROLE regress_aion_sync;
SELECT aion.sync('sync_s');
SELECT aion.watermark('sync_s');
SELECT aion.refresh('sync_v');
RESET ROLE;
GRANT INSERT ON sync_s TO regress_aion_sync;
SET ROLE regress_aion_sync;
SELECT aion.sync('sync_s');
SELECT aion.watermark('sync_s');
SELECT aion.advance_watermark('sync_s', '2024-03-01 11:00');
SELECT aion.destage('sync_s');
RESET ROLE;
DROP FOREIGN TABLE sync_s CASCADE;
DROP ROLE regress_aion_sync;
