-- Definition of streams that hold events: what may change, and what is refused.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';

CREATE TYPE ddl_mood AS ENUM ('sad', 'fine');
CREATE FOREIGN TABLE ddl_s (a int, at timestamptz NOT NULL, m ddl_mood)
	SERVER aion OPTIONS (event_time 'at');
-- no storage yet: everything may change
SELECT count(*) FROM aion.stream_def WHERE stream = 'ddl_s'::regclass;
ALTER FOREIGN TABLE ddl_s OPTIONS (ADD durable 'off', ADD bucket_width '1 hour');
ALTER FOREIGN TABLE ddl_s OPTIONS (DROP durable, DROP bucket_width);
ALTER FOREIGN TABLE ddl_s ADD COLUMN tmp int NOT NULL;
ALTER FOREIGN TABLE ddl_s ALTER tmp TYPE bigint;
ALTER FOREIGN TABLE ddl_s DROP COLUMN tmp;
ALTER FOREIGN TABLE ddl_s DROP COLUMN at;
ALTER FOREIGN TABLE ddl_s ALTER at TYPE text;

INSERT INTO ddl_s VALUES (1, '2024-03-01 10:00', 'sad'), (-2, '2024-03-01 10:01', NULL);
SELECT stream, bucket_width, durable FROM aion.stream_def WHERE stream = 'ddl_s'::regclass;

-- ADD COLUMN: events show the default of that moment
ALTER FOREIGN TABLE ddl_s ADD COLUMN plain int;
ALTER FOREIGN TABLE ddl_s ADD COLUMN t text DEFAULT 'old' NOT NULL;
ALTER FOREIGN TABLE ddl_s ALTER t SET DEFAULT 'new';
ALTER FOREIGN TABLE ddl_s ADD COLUMN m2 ddl_mood DEFAULT 'fine', ADD COLUMN day timestamptz DEFAULT '2024-01-01 12:00+02';
ALTER FOREIGN TABLE ddl_s ADD COLUMN IF NOT EXISTS t text DEFAULT 'other';
INSERT INTO ddl_s (a, at) VALUES (3, '2024-03-01 10:02');
SELECT * FROM ddl_s ORDER BY at;
SET datestyle = 'SQL, DMY';
SET timezone = 'Asia/Tokyo';
SELECT a, day FROM ddl_s ORDER BY at;
SET datestyle = 'ISO';
SET timezone = 'UTC';
-- refused
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad int NOT NULL;
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad float8 DEFAULT random();
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad serial;
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad int GENERATED ALWAYS AS IDENTITY;
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad int GENERATED ALWAYS AS (a + 1) STORED;
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad int DEFAULT 5 CHECK (bad > 5);
CREATE DOMAIN ddl_positive AS int CHECK (VALUE > 0);
ALTER FOREIGN TABLE ddl_s ADD COLUMN bad ddl_positive DEFAULT 0;

-- constraints are checked against stored events, also where the planner would believe them
SET constraint_exclusion = on;
ALTER FOREIGN TABLE ddl_s ALTER m SET NOT NULL;
ALTER FOREIGN TABLE ddl_s ALTER a SET NOT NULL;
ALTER FOREIGN TABLE ddl_s ADD CHECK (a > 0);
ALTER FOREIGN TABLE ddl_s ADD CONSTRAINT positive CHECK (a > 0) NOT VALID;
ALTER FOREIGN TABLE ddl_s VALIDATE CONSTRAINT positive;
ALTER FOREIGN TABLE ddl_s ADD CONSTRAINT small CHECK (a < 10);
RESET constraint_exclusion;

-- a copy of an event has the added value too; events of this transaction, pending ones included, count
CREATE FOREIGN TABLE ddl_plain (a int, at timestamptz) SERVER aion OPTIONS (event_time 'at');
INSERT INTO ddl_plain VALUES (1, '2024-03-01 10:00');
BEGIN;
INSERT INTO ddl_plain VALUES (-7, '2024-03-01 10:01');
ALTER FOREIGN TABLE ddl_plain ADD COLUMN b int DEFAULT 4 CHECK (b > 3);
INSERT INTO ddl_plain VALUES (8, '2024-03-01 10:02', 5);
SELECT * FROM ddl_plain ORDER BY a DESC;
SAVEPOINT one;
ALTER FOREIGN TABLE ddl_plain ADD CHECK (a > 0);
ROLLBACK TO one;
ALTER FOREIGN TABLE ddl_plain DROP COLUMN b;
ROLLBACK;
SELECT * FROM ddl_plain ORDER BY a DESC;
SELECT count(*) FROM aion.added_column WHERE stream = 'ddl_plain'::regclass;
DROP FOREIGN TABLE ddl_plain;

-- what stored events need stays
ALTER FOREIGN TABLE ddl_s DROP COLUMN a;
ALTER FOREIGN TABLE ddl_s DROP COLUMN at;
ALTER FOREIGN TABLE ddl_s ALTER a TYPE bigint;
DROP TYPE ddl_mood CASCADE;
ALTER TYPE ddl_mood RENAME VALUE 'sad' TO 'blue';
ALTER TYPE ddl_mood ADD VALUE 'great';
ALTER FOREIGN TABLE ddl_s OPTIONS (ADD bucket_width '1 hour');
ALTER FOREIGN TABLE ddl_s OPTIONS (ADD durable 'off');
ALTER FOREIGN TABLE ddl_s OPTIONS (SET event_time 'day');
-- the same width, and other options, may be given
ALTER FOREIGN TABLE ddl_s OPTIONS (ADD bucket_width '1 minute', ADD watermark_delay '3 s');

-- the option follows its column
ALTER FOREIGN TABLE ddl_s RENAME at TO "happened at";
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'ddl_s'::regclass;
ALTER FOREIGN TABLE ddl_s RENAME a TO aa;
SELECT count(*) FROM ddl_s WHERE "happened at" < '2024-03-01 10:02';

-- internal tables go with the stream, not alone
DO $$
BEGIN
	EXECUTE 'DROP TABLE ' || (SELECT journal FROM aion.stream_def WHERE stream = 'ddl_s'::regclass);
EXCEPTION WHEN dependent_objects_still_exist THEN
	RAISE NOTICE 'refused';
END $$;

-- TRUNCATE makes it as if new, and rolls back
BEGIN;
TRUNCATE ddl_s;
INSERT INTO ddl_s VALUES (9, '2024-03-02', 'sad');
SELECT aa FROM ddl_s;
SAVEPOINT one;
TRUNCATE ddl_s;
SELECT count(*) FROM ddl_s;
ROLLBACK TO one;
SELECT aa FROM ddl_s;
ROLLBACK;
SELECT count(*) FROM ddl_s;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM ddl_s;
TRUNCATE ddl_s;
COMMIT;
SELECT count(*) FROM ddl_s;
SELECT count(*) FROM aion.added_column WHERE stream = 'ddl_s'::regclass;
ALTER FOREIGN TABLE ddl_s OPTIONS (SET bucket_width '1 hour', ADD durable 'off');
SELECT bucket_width, durable, relpersistence
  FROM aion.stream_def JOIN pg_class ON pg_class.oid = journal WHERE stream = 'ddl_s'::regclass;
ALTER FOREIGN TABLE ddl_s DROP COLUMN aa, ALTER plain TYPE bigint;
INSERT INTO ddl_s ("happened at", plain) VALUES ('2024-03-03', 1::bigint << 40);
SELECT "happened at", plain, t FROM ddl_s;

-- a dropped stream leaves nothing
BEGIN;
DROP FOREIGN TABLE ddl_s;
ROLLBACK;
SELECT count(*) FROM ddl_s;
DROP FOREIGN TABLE ddl_s;
SELECT count(*) FROM aion.stream_def WHERE stream NOT IN (SELECT ftrelid FROM pg_foreign_table);
SELECT count(*) FROM aion.stream_state WHERE stream NOT IN (SELECT ftrelid FROM pg_foreign_table);
SELECT count(*) FROM pg_class WHERE relnamespace = 'aion_data'::regnamespace AND relkind = 'r'
   AND oid NOT IN (SELECT journal FROM aion.stream_def UNION ALL SELECT blocks FROM aion.stream_def);

-- partitions
CREATE TABLE ddl_p (a int, at timestamptz) PARTITION BY RANGE (a);
CREATE FOREIGN TABLE ddl_p1 PARTITION OF ddl_p FOR VALUES FROM (0) TO (10)
	SERVER aion OPTIONS (event_time 'at');
CREATE FOREIGN TABLE ddl_p2 (a int, at timestamptz) SERVER aion OPTIONS (event_time 'at');
INSERT INTO ddl_p VALUES (5, '2024-03-01');
INSERT INTO ddl_p2 VALUES (15, '2024-03-01');
ALTER TABLE ddl_p ATTACH PARTITION ddl_p2 FOR VALUES FROM (20) TO (30);
ALTER TABLE ddl_p ATTACH PARTITION ddl_p2 FOR VALUES FROM (10) TO (20);
ALTER TABLE ddl_p ADD COLUMN z int DEFAULT 3;
SELECT tableoid::regclass, * FROM ddl_p ORDER BY a;
ALTER TABLE ddl_p DROP COLUMN z;
ALTER TABLE ddl_p ALTER z TYPE text;
ALTER TABLE ddl_p ADD CHECK (z > 3);
ALTER TABLE ddl_p RENAME at TO happened;
SELECT ftrelid::regclass, ftoptions FROM pg_foreign_table
 WHERE ftrelid IN ('ddl_p1'::regclass, 'ddl_p2'::regclass) ORDER BY 1;
TRUNCATE ddl_p;
SELECT count(*) FROM ddl_p;
DROP TABLE ddl_p;

-- without superuser's rights: USAGE on the server, and nothing on internal tables
CREATE ROLE regress_ddl_owner;
CREATE ROLE regress_ddl_writer;
CREATE SCHEMA ddl AUTHORIZATION regress_ddl_owner;
SET ROLE regress_ddl_owner;
CREATE FOREIGN TABLE ddl.s (at timestamp, a int) SERVER aion OPTIONS (event_time 'at');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER aion TO regress_ddl_owner;
SET ROLE regress_ddl_owner;
CREATE FOREIGN TABLE ddl.s (at timestamp, a int) SERVER aion OPTIONS (event_time 'at');
GRANT USAGE ON SCHEMA ddl TO regress_ddl_writer;
GRANT INSERT ON ddl.s TO regress_ddl_writer;
RESET ROLE;
SET ROLE regress_ddl_writer;
INSERT INTO ddl.s VALUES ('2024-03-01', 1);
TRUNCATE ddl.s;
ALTER FOREIGN TABLE ddl.s ADD COLUMN b int;
RESET ROLE;
SET ROLE regress_ddl_owner;
SELECT * FROM ddl.s;
SELECT count(*) FROM aion.stream_def;
ALTER FOREIGN TABLE ddl.s ADD COLUMN b int DEFAULT 7 NOT NULL;
SELECT * FROM ddl.s;
TRUNCATE ddl.s;
RESET ROLE;
DROP OWNED BY regress_ddl_owner, regress_ddl_writer;
DROP ROLE regress_ddl_owner, regress_ddl_writer;
SELECT count(*) FROM aion.stream_def WHERE stream NOT IN (SELECT ftrelid FROM pg_foreign_table);

DROP TYPE ddl_mood;
DROP DOMAIN ddl_positive;
