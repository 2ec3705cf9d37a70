-- Who may do what with a continuous view, and whose rights its query has.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE aion_vo_alice;
CREATE ROLE aion_vo_bob;
RESET client_min_messages;
CREATE SCHEMA vo;
GRANT ALL ON SCHEMA vo TO aion_vo_alice, aion_vo_bob;
CREATE FOREIGN TABLE vo.s (k int, secret int, at timestamptz NOT NULL)
	SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');

-- SELECT on what the query reads is needed, and no more
SET ROLE aion_vo_alice;
SELECT aion.create_view('vo.v', 'SELECT count(k) AS n FROM vo.s', aion.tumbling('1 h'));
RESET ROLE;
GRANT SELECT (k, at) ON vo.s TO aion_vo_alice;
SET ROLE aion_vo_alice;
SELECT aion.create_view('vo.v', 'SELECT sum(secret) AS n FROM vo.s', aion.tumbling('1 h'));
SELECT aion.create_view('vo.v', 'SELECT count(k) AS n, current_user AS who FROM vo.s', aion.tumbling('1 h'));

-- others may not touch it; the owner can let them read it
SET ROLE aion_vo_bob;
SELECT aion.create_view('public.v', 'SELECT 1 AS n FROM vo.s', aion.tumbling('1 h'));
SELECT * FROM vo.v;
SELECT * FROM aion_results.v;
SELECT aion.pause_view('vo.v');
SELECT aion.resume_view('vo.v');
SELECT aion.alter_view('vo.v', early => '1 s');
SELECT aion.drop_view('vo.v');
DELETE FROM aion.view_def;
SELECT count(*) FROM aion.window_state;
SET ROLE aion_vo_alice;
GRANT SELECT ON vo.v TO aion_vo_bob;

-- triggers on results run as the owner, restricted, outside the window
CREATE TABLE vo.log (who text, path text, win text);
CREATE FUNCTION vo.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE win text;
BEGIN
	BEGIN
		win := aion.window_start();
	EXCEPTION WHEN object_not_in_prerequisite_state THEN
		win := 'none';
	END;
	INSERT INTO vo.log VALUES (current_user, current_setting('search_path'), win);
	RETURN NEW;
END $$;
CREATE CONSTRAINT TRIGGER note AFTER INSERT ON aion_results.v INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vo.note();
RESET ROLE;
INSERT INTO vo.s VALUES (1, 42, '2024-03-01 10:00Z'), (2, 42, '2024-03-01 12:00Z');
SELECT aion.sync('vo.s');
SELECT DISTINCT * FROM vo.log;
SET ROLE aion_vo_bob;
SELECT * FROM vo.v;
SET ROLE aion_vo_alice;
CREATE OR REPLACE FUNCTION vo.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN NEW; END $$;
RESET ROLE;
INSERT INTO vo.s VALUES (2, 42, '2024-03-01 14:00Z');
SELECT aion.sync('vo.s');
SELECT window_start, state, error FROM aion.windows WHERE view = 'vo.v'::regclass AND error IS NOT NULL;
DROP TRIGGER note ON aion_results.v;

-- a privilege that is taken away fails the query
REVOKE SELECT (k, at) ON vo.s FROM aion_vo_alice;
SELECT aion.refresh('vo.v', '2024-03-01 12:00Z');
SELECT window_start, state, error FROM aion.windows WHERE view = 'vo.v'::regclass AND error IS NOT NULL;
GRANT SELECT ON vo.s TO aion_vo_alice, aion_vo_bob;
SELECT aion.refresh('vo.v', '2024-03-01 12:00Z');

-- all parts follow a new owner
ALTER VIEW vo.v OWNER TO aion_vo_bob;
SELECT relname, relkind, relowner::regrole FROM pg_class
	WHERE relname ~ '^(def_)?v(_aion_row_seq)?$' AND relkind IN ('v', 'r', 'S') ORDER BY relkind, relname;
SELECT aion.refresh('vo.v', '2024-03-01 10:00Z');
SELECT * FROM vo.v ORDER BY 1;
REASSIGN OWNED BY aion_vo_bob TO aion_vo_alice;
SELECT DISTINCT relowner::regrole FROM pg_class
	WHERE relname ~ '^(def_)?v(_aion_row_seq)?$' AND relkind IN ('v', 'r', 'S');
SELECT aion.alter_view('vo.v', owner => 'aion_vo_bob');
SELECT DISTINCT relowner::regrole FROM pg_class
	WHERE relname ~ '^(def_)?v(_aion_row_seq)?$' AND relkind IN ('v', 'r', 'S');
SET ROLE aion_vo_bob;
\set VERBOSITY sqlstate
SELECT aion.alter_view('vo.v', owner => 'aion_vo_alice');
\set VERBOSITY terse
RESET ROLE;

-- names may change
ALTER VIEW vo.v RENAME TO w;
ALTER VIEW vo.w SET SCHEMA public;
ALTER TABLE aion_results.v RENAME TO w;
ALTER TABLE aion_results.w RENAME COLUMN n TO m;
ALTER VIEW aion_results.def_v RENAME TO q;
SELECT aion.refresh('w', '2024-03-01 10:00Z');
SELECT * FROM w ORDER BY 1;

DROP ROLE aion_vo_bob;
DROP OWNED BY aion_vo_bob, aion_vo_alice;
SELECT count(*) FROM aion.view_def;
DROP ROLE aion_vo_alice, aion_vo_bob;
DROP SCHEMA vo CASCADE;
