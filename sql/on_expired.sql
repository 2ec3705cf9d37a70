-- on_expired 'error': what the watermark expires already is refused; what expires later is set aside.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE oe (at timestamptz, k text) SERVER aion
	OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour', on_expired 'error', bucket_width '10 min');
CREATE VIEW oe_counts AS SELECT watermark, events, late_events AS late, expired_events AS expired FROM aion.streams WHERE stream = 'oe'::regclass;

-- without a view the stream's lateness counts, for whole buckets
INSERT INTO oe VALUES ('2024-03-01 10:30', 'no watermark yet'), ('2020-01-01', 'no watermark yet');
SELECT aion.advance_watermark('oe', '2024-03-01 11:30');
SELECT aion.sync('oe');
INSERT INTO oe VALUES ('2024-03-01 10:30', 'in time'), ('2024-03-01 10:29:59.999999', 'too late');
INSERT INTO oe VALUES ('2024-03-01 10:30', 'in time');
DO $$ BEGIN INSERT INTO oe VALUES ('2024-03-01 10:20', 'too late'); EXCEPTION WHEN datetime_field_overflow THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; END $$;
SELECT aion.sync('oe');
SELECT * FROM oe_counts;

-- with views, what is too late for all windows of all of them
SELECT aion.create_view('oe_short', 'SELECT count(*) AS n FROM oe', aion.sliding('20 min', '10 min'), allowed_lateness => '10 min');
SELECT aion.sync('oe');
INSERT INTO oe VALUES ('2024-03-01 11:09:59.999999', 'in windows until 11:10 and 11:20');
INSERT INTO oe VALUES ('2024-03-01 11:10', 'in windows until 11:20 and 11:30');
COPY oe FROM stdin;
2024-03-01 11:25	in time
2024-03-01 10:49	in windows until 11:00 and 11:10
\.
SELECT aion.create_view('oe_long', 'SELECT count(*) AS n FROM oe', aion.tumbling('1 hour'), allowed_lateness => 'unlimited');
SELECT aion.sync('oe');
INSERT INTO oe VALUES ('2024-02-01 10:49', 'taken by the other view');
SELECT aion.sync('oe');
SELECT * FROM oe_counts;
SELECT aion.pause_view('oe_long');
SELECT aion.drop_view('oe_long');
INSERT INTO oe VALUES ('2024-02-01 10:49', 'not any more');
-- NULL and infinity are what they were
INSERT INTO oe VALUES (NULL, 'a');
INSERT INTO oe VALUES ('-infinity', 'a');

-- what expires between its insert and its accounting is set aside
BEGIN;
INSERT INTO oe VALUES ('2024-03-01 11:30', 'expires meanwhile');
PREPARE TRANSACTION 'oe';
SELECT aion.advance_watermark('oe', '2024-03-01 13:00');
SELECT aion.sync('oe');
COMMIT PREPARED 'oe';
INSERT INTO oe VALUES ('2024-03-01 13:30', 'in time');
SELECT aion.sync('oe');
INSERT INTO oe VALUES ('2024-03-01 11:30', 'too late');
ALTER FOREIGN TABLE oe OPTIONS (SET on_expired 'keep');
INSERT INTO oe VALUES ('2024-03-01 11:30', 'too late, kept');
SELECT aion.sync('oe');
SELECT event->>'k' AS k, reason, partial FROM aion.expired WHERE stream = 'oe'::regclass ORDER BY id;
SELECT * FROM oe_counts;
-- TRUNCATE forgets the watermark, also in its own transaction
ALTER FOREIGN TABLE oe OPTIONS (SET on_expired 'error');
BEGIN;
TRUNCATE oe;
INSERT INTO oe VALUES ('2020-01-01', 'after truncate');
COMMIT;
SELECT aion.sync('oe');
SELECT k FROM oe;

DROP VIEW oe_counts;
SET client_min_messages = warning;
DROP FOREIGN TABLE oe CASCADE;
-- an event time without time zone is shown as it is
CREATE FOREIGN TABLE oe (at timestamp) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '0', on_expired 'error');
INSERT INTO oe VALUES ('2024-03-01 10:00');
SELECT aion.advance_watermark('oe', '2024-03-01 12:00');
SELECT aion.sync('oe');
SET timezone = 'Asia/Tokyo';
INSERT INTO oe VALUES ('2024-03-01 10:00');
DROP FOREIGN TABLE oe CASCADE;
