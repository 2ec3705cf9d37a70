-- Events come and go with their transaction and its savepoints, and follow each snapshot.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE tx (id int, pad text, at timestamptz NOT NULL DEFAULT '2024-03-01 10:00')
	SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness 'unlimited');
CREATE VIEW tx_ids AS SELECT array_agg(id ORDER BY id) AS ids FROM tx;

-- own events are seen by later commands, not by the command that inserts them
BEGIN;
INSERT INTO tx VALUES (1), (2);
TABLE tx_ids;
INSERT INTO tx SELECT id + 10 FROM tx;
TABLE tx_ids;
INSERT INTO tx SELECT id + 100, repeat('x', 10000) FROM tx, generate_series(1, 20);
SELECT count(*), sum(id) FROM tx;
ROLLBACK;
TABLE tx_ids;

-- savepoints: released, rolled back, nested, reused; small and larger than a batch
BEGIN;
INSERT INTO tx VALUES (1);
SAVEPOINT a;
INSERT INTO tx VALUES (2);
SAVEPOINT b;
INSERT INTO tx SELECT 3, repeat('x', 100000);
ROLLBACK TO b;
TABLE tx_ids;
INSERT INTO tx VALUES (4);
RELEASE b;
TABLE tx_ids;
SAVEPOINT b;
INSERT INTO tx VALUES (5);
RELEASE a;
SAVEPOINT c;
INSERT INTO tx SELECT 6, repeat('x', 1000) FROM generate_series(1, 500);
SAVEPOINT d;
INSERT INTO tx SELECT 7, repeat('x', 1000) FROM generate_series(1, 100);
RELEASE d;
ROLLBACK TO c;
INSERT INTO tx VALUES (8);
TABLE tx_ids;
SAVEPOINT e;
INSERT INTO tx SELECT 9, repeat('x', 70000);
RELEASE e;
INSERT INTO tx VALUES (10);
COMMIT;
TABLE tx_ids;

-- a rolled-back savepoint as the last thing, and a transaction of nothing else
BEGIN; SAVEPOINT a; INSERT INTO tx VALUES (20); ROLLBACK TO a; COMMIT;
BEGIN; INSERT INTO tx VALUES (21); SAVEPOINT a; INSERT INTO tx VALUES (22); ROLLBACK;
BEGIN; SAVEPOINT a; SAVEPOINT b; INSERT INTO tx VALUES (23); RELEASE b; RELEASE a; COMMIT;
TABLE tx_ids;

-- exception blocks, and a loop of them
DO $$
BEGIN
	INSERT INTO tx VALUES (30);
	BEGIN
		INSERT INTO tx VALUES (31);
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN
		INSERT INTO tx VALUES (32);
	END;
	FOR i IN 33 .. 38 LOOP
		BEGIN
			INSERT INTO tx VALUES (i);
			INSERT INTO tx VALUES (i * 100, NULL, CASE WHEN i % 2 = 0 THEN timestamptz '2024-03-01' END);
		EXCEPTION WHEN not_null_violation THEN NULL;
		END;
	END LOOP;
END $$;
SELECT array_agg(id ORDER BY id) FROM tx WHERE id >= 30;

-- commits inside a procedure
CREATE PROCEDURE tx_steps() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO tx VALUES (40); COMMIT;
	INSERT INTO tx VALUES (41); ROLLBACK;
	INSERT INTO tx VALUES (42); COMMIT;
	INSERT INTO tx VALUES (43);
	RAISE EXCEPTION 'too late';
END $$;
CALL tx_steps();
SELECT array_agg(id ORDER BY id) FROM tx WHERE id BETWEEN 40 AND 49;

-- two streams in one transaction, and a table
CREATE FOREIGN TABLE tx2 (id int, at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
CREATE TABLE tx_table (id int);
BEGIN;
INSERT INTO tx VALUES (50); INSERT INTO tx2 VALUES (50, '2024-03-01'); INSERT INTO tx_table VALUES (50);
SAVEPOINT a;
INSERT INTO tx VALUES (51); INSERT INTO tx2 VALUES (51, '2024-03-01'); INSERT INTO tx_table VALUES (51);
ROLLBACK TO a;
COMMIT;
SELECT id FROM tx JOIN tx2 USING (id) JOIN tx_table USING (id);

-- an error at commit undoes all
CREATE TABLE tx_unique (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
BEGIN; INSERT INTO tx VALUES (60); INSERT INTO tx_unique VALUES (1), (1); COMMIT;
SELECT count(*) FROM tx WHERE id = 60;

-- cursors keep their snapshot, across flushes, destage and, WITH HOLD, commit
CREATE FUNCTION tx_rest(c refcursor) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int := 0; id int;
BEGIN
	LOOP
		FETCH c INTO id;
		EXIT WHEN NOT FOUND;
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
BEGIN;
INSERT INTO tx SELECT 70 + g, repeat('x', 3000) FROM generate_series(0, 9) g;
DECLARE c CURSOR FOR SELECT id FROM tx WHERE id BETWEEN 70 AND 79;
MOVE 2 FROM c;
INSERT INTO tx SELECT 75, repeat('x', 3000) FROM generate_series(1, 100);
SAVEPOINT a;
INSERT INTO tx SELECT 76, repeat('x', 3000) FROM generate_series(1, 100);
ROLLBACK TO a;
SELECT tx_rest('c');
SELECT count(*) FROM tx WHERE id BETWEEN 70 AND 79;
COMMIT;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM tx WHERE id BETWEEN 70 AND 79;
INSERT INTO tx VALUES (79);
COMMIT;
SELECT aion.destage('tx');
SELECT tx_rest('h');
CLOSE h;
INSERT INTO tx VALUES (80);
BEGIN;
DECLARE d CURSOR FOR SELECT id FROM tx;
MOVE 1 FROM d;
DECLARE e CURSOR FOR SELECT id FROM tx;
SELECT aion.destage('tx');
SELECT tx_rest('d'), tx_rest('e'), count(*) FROM tx;
COMMIT;

-- a snapshot from before a destage sees what it saw
INSERT INTO tx VALUES (81);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(id) FROM tx;
SELECT aion.destage('tx');
SELECT count(*), sum(id) FROM tx;
INSERT INTO tx VALUES (82);
SELECT count(*), sum(id) FROM tx;
COMMIT;
SELECT count(*), sum(id) FROM tx;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM tx;
INSERT INTO tx VALUES (90);
SELECT count(*) FROM tx;
COMMIT;
BEGIN READ ONLY;
SELECT count(*) FROM tx;
INSERT INTO tx VALUES (91);
ROLLBACK;

SET client_min_messages = warning;
DROP FOREIGN TABLE tx, tx2 CASCADE;
DROP TABLE tx_table, tx_unique;
DROP PROCEDURE tx_steps;
DROP FUNCTION tx_rest;
