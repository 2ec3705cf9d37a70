-- Columns of a stream that holds events, in memory, journal and blocks, and that views read.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE TYPE ac_mood AS ENUM ('sad', 'ok');
CREATE FOREIGN TABLE ac (id int, at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour');
SELECT aion.create_view('ac_v', 'SELECT count(*) AS n, sum(id) FROM ac', aion.tumbling('1 h'));
INSERT INTO ac VALUES (1, '2024-03-01 10:01');
SELECT aion.destage('ac');
INSERT INTO ac VALUES (2, '2024-03-01 10:02');

-- one by one: NULL, a constant, of each storage, what is stable at that moment
ALTER FOREIGN TABLE ac ADD COLUMN c1 text;
ALTER FOREIGN TABLE ac ADD COLUMN c2 numeric(6,2) DEFAULT 1.5 NOT NULL;
INSERT INTO ac VALUES (3, '2024-03-01 10:03', 'three', 3);
SELECT aion.destage('ac');
ALTER FOREIGN TABLE ac ADD COLUMN c3 ac_mood DEFAULT 'ok', ADD COLUMN c4 text DEFAULT repeat('x', 5), ADD COLUMN c5 int[] DEFAULT '{1,2}';
INSERT INTO ac (id, at) VALUES (4, '2024-03-01 10:04');
ALTER FOREIGN TABLE ac ALTER c2 SET DEFAULT 9, ALTER c3 SET DEFAULT 'sad', ALTER c4 DROP DEFAULT, ALTER c5 SET DEFAULT '{}';
INSERT INTO ac (id, at) VALUES (5, '2024-03-01 10:05');
ALTER FOREIGN TABLE ac ADD COLUMN c6 bool DEFAULT pg_has_role('pg_monitor', 'USAGE'), ADD COLUMN c7 timestamptz DEFAULT now();
SELECT id, at, c1, c2, c3, c4, c5, c6, c7 <= now() AS c7 FROM ac ORDER BY id;
SELECT count(*), count(DISTINCT c7) FROM ac;
-- needed columns only, conditions and aggregates on what is not stored
SELECT id FROM ac WHERE c4 = 'xxxxx' AND c3 = 'ok' ORDER BY id;
SELECT sum(c2), count(c1), min(c5) FROM ac;
SELECT aion.destage('ac');
SELECT id, c1, c2, c3, c4, c5, c6 FROM ac ORDER BY id;

-- refused while there are events: what the earlier ones could not show
ALTER FOREIGN TABLE ac ADD COLUMN x int NOT NULL;
ALTER FOREIGN TABLE ac ADD COLUMN x float8 DEFAULT random();
ALTER FOREIGN TABLE ac ADD COLUMN x timestamptz DEFAULT clock_timestamp();
CREATE SEQUENCE ac_seq;
ALTER FOREIGN TABLE ac ADD COLUMN x int DEFAULT nextval('ac_seq');
ALTER FOREIGN TABLE ac ADD COLUMN x int DEFAULT 1 / 0;
ALTER FOREIGN TABLE ac ADD COLUMN x int DEFAULT 1, ADD COLUMN y int NOT NULL;
SELECT count(*) FROM pg_attribute WHERE attrelid = 'ac'::regclass AND attname IN ('x', 'y');
-- undone
BEGIN;
ALTER FOREIGN TABLE ac ADD COLUMN x int DEFAULT 42;
INSERT INTO ac (id, at, x) VALUES (6, '2024-03-01 10:06', 43);
SELECT id, x FROM ac ORDER BY id;
ROLLBACK;
BEGIN;
INSERT INTO ac (id, at) VALUES (6, '2024-03-01 10:06');
ALTER FOREIGN TABLE ac ADD COLUMN x int DEFAULT 42;
SELECT id, x FROM ac ORDER BY id;
INSERT INTO ac (id, at) VALUES (7, '2024-03-01 10:07');
COMMIT;
SELECT id, x FROM ac ORDER BY id;
DO $$ BEGIN ALTER FOREIGN TABLE ac ADD COLUMN y int DEFAULT 1; RAISE EXCEPTION 'undo'; EXCEPTION WHEN raise_exception THEN NULL; END $$;
SELECT * FROM ac WHERE id = 7 AND c7 IS NOT NULL AND c7 < '1999-01-01';
-- a dropped column's place is not reused, where the server lets it go at all: in a stream without events
CREATE FOREIGN TABLE ac2 (id int, gone int, at timestamptz) SERVER aion OPTIONS (event_time 'at');
ALTER FOREIGN TABLE ac2 DROP COLUMN gone;
INSERT INTO ac2 VALUES (1, '2024-03-01 10:00');
ALTER FOREIGN TABLE ac2 ADD COLUMN gone text DEFAULT 'back';
SELECT * FROM ac2;

-- stored events are checked, wherever they are
ALTER FOREIGN TABLE ac ALTER c1 SET NOT NULL;
ALTER FOREIGN TABLE ac ALTER c2 SET NOT NULL, ALTER c5 SET NOT NULL;
ALTER FOREIGN TABLE ac ADD CONSTRAINT big CHECK (c2 > 1.5);
ALTER FOREIGN TABLE ac ADD CONSTRAINT fair CHECK (c2 >= 1.5 AND at > '2024-01-01');
\set VERBOSITY terse
INSERT INTO ac (id, at, c2) VALUES (8, '2024-03-01 10:08', 1);
INSERT INTO ac (id, at, c5) VALUES (8, '2024-03-01 10:08', NULL);
\set VERBOSITY default
ALTER FOREIGN TABLE ac ALTER c5 DROP NOT NULL;
ALTER FOREIGN TABLE ac DROP CONSTRAINT fair;

-- the view counts what came before and after alike
INSERT INTO ac (id, at, c1) VALUES (8, '2024-03-01 10:08', 'eight');
SELECT aion.advance_watermark('ac', '2024-03-01 11:00');
SELECT aion.sync('ac');
SELECT n, sum FROM ac_v;
SELECT aion.create_view('ac_all', 'SELECT c3, c2, x, count(*) AS n, array_agg(id ORDER BY id) AS ids FROM ac GROUP BY 1, 2, 3', aion.tumbling('1 h'));
SELECT aion.sync('ac');
SELECT c3, c2, x, n, ids FROM ac_all ORDER BY ids;

-- refused: dropping or retyping what events or views need
ALTER FOREIGN TABLE ac DROP COLUMN c1;
ALTER FOREIGN TABLE ac DROP COLUMN id;
SET client_min_messages = warning;
ALTER FOREIGN TABLE ac DROP COLUMN c3 CASCADE;
RESET client_min_messages;
ALTER FOREIGN TABLE ac DROP COLUMN at;
ALTER FOREIGN TABLE ac ALTER c1 TYPE varchar(5);
ALTER FOREIGN TABLE ac ALTER id TYPE bigint;
ALTER FOREIGN TABLE ac ALTER at TYPE timestamp;
ALTER FOREIGN TABLE ac OPTIONS (SET event_time 'c7');
SET client_min_messages = warning;
DROP TYPE ac_mood CASCADE;
RESET client_min_messages;
-- renamed: the option follows, the view goes on
ALTER FOREIGN TABLE ac RENAME at TO "when";
ALTER FOREIGN TABLE ac RENAME c3 TO mood;
ALTER FOREIGN TABLE ac RENAME TO ac_renamed;
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'ac_renamed'::regclass;
INSERT INTO ac_renamed (id, "when") VALUES (9, '2024-03-01 10:59');
SELECT aion.sync('ac_renamed', late => true);
SELECT n, sum FROM ac_v;
SELECT id FROM ac_renamed WHERE "when" > '2024-03-01 10:07' ORDER BY id;
-- events set aside show later columns as the others do
SELECT aion.advance_watermark('ac_renamed', '2024-03-01 15:00');
SELECT aion.sync('ac_renamed');
INSERT INTO ac_renamed (id, "when") VALUES (10, '2024-03-01 10:10');
SELECT aion.sync('ac_renamed');
ALTER FOREIGN TABLE ac_renamed ADD COLUMN last text DEFAULT 'added';
SELECT event - 'c7' FROM aion.expired WHERE stream = 'ac_renamed'::regclass;

SET client_min_messages = warning;
DROP FOREIGN TABLE ac_renamed, ac2 CASCADE;
DROP TYPE ac_mood;
DROP SEQUENCE ac_seq;

-- all events are in blocks, whatever their times
CREATE FOREIGN TABLE ac_blocks (at timestamptz NOT NULL, v int) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
INSERT INTO ac_blocks VALUES ('2024-03-01 10:00', 1);
SELECT aion.destage('ac_blocks');
ALTER FOREIGN TABLE ac_blocks ALTER v TYPE text;
ALTER FOREIGN TABLE ac_blocks ADD CHECK (v > 1);
ALTER FOREIGN TABLE ac_blocks OPTIONS (ADD bucket_width '1 hour');
ALTER FOREIGN TABLE ac_blocks ADD COLUMN x int NOT NULL;
ALTER FOREIGN TABLE ac_blocks ADD COLUMN a int NOT NULL DEFAULT 10;
SELECT * FROM ac_blocks;
TRUNCATE ac_blocks;
INSERT INTO ac_blocks VALUES ('2024-03-01 10:20', 1);
SELECT aion.destage('ac_blocks');
ALTER FOREIGN TABLE ac_blocks ALTER v TYPE text;
ALTER FOREIGN TABLE ac_blocks ADD COLUMN b int NOT NULL DEFAULT 20;
SELECT * FROM ac_blocks;
TRUNCATE ac_blocks;
INSERT INTO ac_blocks VALUES ('2024-03-01 10:40', 1);
SELECT aion.destage('ac_blocks');
ALTER FOREIGN TABLE ac_blocks ALTER v TYPE text;
ALTER FOREIGN TABLE ac_blocks ADD COLUMN c int NOT NULL DEFAULT 30;
SELECT * FROM ac_blocks;
TRUNCATE ac_blocks;
INSERT INTO ac_blocks VALUES ('2024-03-01 11:00', 1);
SELECT aion.destage('ac_blocks');
ALTER FOREIGN TABLE ac_blocks ALTER v TYPE text;
ALTER FOREIGN TABLE ac_blocks ADD COLUMN d int NOT NULL DEFAULT 40;
SELECT * FROM ac_blocks;
DROP FOREIGN TABLE ac_blocks;
