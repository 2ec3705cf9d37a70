-- TRUNCATE makes a stream as if new: events, set-aside events, watermark, windows and results go; all of it can be undone.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE tr (k text, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness '1 hour');
SELECT aion.create_view('tr_v', 'SELECT k, count(*) AS n FROM tr GROUP BY k', aion.tumbling('10 min'));
SELECT aion.create_view('tr_w', 'SELECT count(*) AS n FROM tr', aion.sliding('10 min', '5 min'));
CREATE FUNCTION tr_state(OUT events bigint, OUT stored bigint, OUT counted bigint, OUT late bigint, OUT expired bigint, OUT aside bigint,
						 OUT w timestamptz, OUT v bigint, OUT vw bigint, OUT windows bigint, OUT on_time numeric) LANGUAGE sql
	BEGIN ATOMIC
	SELECT (SELECT count(*) FROM tr),
		   (SELECT sum(journal_events + disk_events) FROM aion.buckets WHERE stream = 'tr'::regclass),
		   s.events, s.late_events, s.expired_events, (SELECT count(*) FROM aion.expired WHERE stream = 'tr'::regclass), s.watermark,
		   (SELECT count(*) FROM tr_v), (SELECT count(*) FROM tr_w), (SELECT count(*) FROM aion.windows WHERE view IN ('tr_v'::regclass, 'tr_w'::regclass)),
		   (SELECT sum(on_time_firings) FROM aion.views WHERE view IN ('tr_v'::regclass, 'tr_w'::regclass))
	  FROM aion.streams s WHERE s.stream = 'tr'::regclass;
	END;
INSERT INTO tr VALUES ('a', '2024-03-01 10:01'), ('b', '2024-03-01 10:07'), ('a', '2024-03-01 10:20');
SELECT aion.sync('tr', late => true);
INSERT INTO tr VALUES ('late', '2024-03-01 10:05'), ('much too late', '2024-03-01 08:05');
SELECT aion.sync('tr', late => true);
SELECT aion.destage('tr');
INSERT INTO tr VALUES ('journal', '2024-03-01 10:06');
SELECT aion.sync('tr', late => true);
SELECT * FROM tr_state();
SELECT * FROM tr_v ORDER BY 1, 3;

-- undone
BEGIN;
TRUNCATE tr;
SELECT count(*) FROM tr;
SELECT count(*) FROM tr_v;
INSERT INTO tr VALUES ('new', '2024-03-01 09:01');
SELECT k FROM tr;
ROLLBACK;
BEGIN;
SAVEPOINT a;
TRUNCATE tr;
INSERT INTO tr VALUES ('new', '2024-03-01 09:01');
ROLLBACK TO a;
INSERT INTO tr VALUES ('kept', '2024-03-01 10:08');
SELECT count(*) FROM tr;
COMMIT;
SELECT aion.sync('tr', late => true);
SELECT * FROM tr_state();
SELECT * FROM tr_v ORDER BY 1, 3;

-- done, with events in the same transaction before and after; the view goes on
BEGIN;
INSERT INTO tr VALUES ('before', '2024-03-01 11:00');
TRUNCATE tr;
INSERT INTO tr VALUES ('after', '2024-03-01 07:01');
SAVEPOINT a;
INSERT INTO tr VALUES ('after too', '2024-03-01 07:02');
RELEASE a;
SELECT k FROM tr ORDER BY k;
COMMIT;
SELECT aion.sync('tr', late => true);
SELECT * FROM tr_state();
INSERT INTO tr VALUES ('next', '2024-03-01 07:20');
SELECT aion.sync('tr', late => true);
SELECT * FROM tr_state();
SELECT * FROM tr_v ORDER BY 1, 3;
SELECT * FROM tr_w ORDER BY 1;
-- twice in a row, empty, several at once with RESTART and CASCADE
TRUNCATE tr; TRUNCATE tr;
SELECT * FROM tr_state();
CREATE TABLE tr_plain (id serial, x int);
INSERT INTO tr_plain (x) VALUES (1);
INSERT INTO tr VALUES ('x', '2024-03-01 07:20');
TRUNCATE tr, tr_plain RESTART IDENTITY CASCADE;
INSERT INTO tr_plain (x) VALUES (2);
SELECT (SELECT count(*) FROM tr), (SELECT max(id) FROM tr_plain);
-- a stream with nothing to truncate; results tables are the view's alone
CREATE FOREIGN TABLE tr_new (at timestamptz) SERVER aion OPTIONS (event_time 'at');
TRUNCATE tr_new;
SELECT count(*) FROM aion.stream_def WHERE stream = 'tr_new'::regclass;
-- triggers: from 16 on foreign tables can have some for TRUNCATE
CREATE TABLE tr_notes (note text);
CREATE FUNCTION tr_note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO tr_notes VALUES (TG_WHEN || ' ' || TG_OP); RETURN NULL; END $$;
DO $$
BEGIN
	CREATE TRIGGER n AFTER TRUNCATE ON tr FOR EACH STATEMENT EXECUTE FUNCTION tr_note();
EXCEPTION WHEN wrong_object_type THEN
	INSERT INTO tr_notes VALUES ('AFTER TRUNCATE');
END $$;
INSERT INTO tr VALUES ('x', '2024-03-01 07:20');
TRUNCATE tr;
SELECT count(*) FROM tr;
TABLE tr_notes;
-- who may
CREATE ROLE regress_tr;
GRANT SELECT, INSERT ON tr TO regress_tr;
SET ROLE regress_tr;
TRUNCATE tr;
RESET ROLE;
GRANT TRUNCATE ON tr TO regress_tr;
SET ROLE regress_tr;
TRUNCATE tr;
RESET ROLE;

-- old storage is gone
SELECT count(*) FROM pg_class WHERE relnamespace = 'aion_data'::regnamespace AND relkind = 'r'
   AND oid NOT IN (SELECT journal FROM aion.stream_def UNION ALL SELECT blocks FROM aion.stream_def);
DROP FUNCTION tr_state;
SET client_min_messages = warning;
DROP FOREIGN TABLE tr, tr_new CASCADE;
DROP TABLE tr_plain, tr_notes;
DROP FUNCTION tr_note;
DROP ROLE regress_tr;
