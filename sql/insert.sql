-- Ways to insert into a stream, and what is refused.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE ins (
	id int NOT NULL, kind text DEFAULT 'plain' CHECK (kind <> 'bad'), cost numeric(8,2) CHECK (cost >= 0),
	twice numeric GENERATED ALWAYS AS (cost * 2) STORED, at timestamptz NOT NULL DEFAULT '2024-03-01 10:00'
) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off', allowed_lateness 'unlimited');

INSERT INTO ins (id, cost) VALUES (1, 1.5);
INSERT INTO ins VALUES (2, DEFAULT, 2, DEFAULT, DEFAULT), (3, 'other', NULL, DEFAULT, '2024-03-01 09:59:59.999999');
INSERT INTO ins (id, kind, cost, at)
	SELECT g, CASE WHEN g % 2 = 0 THEN 'even' END, g / 4.0, timestamptz '2024-03-01 10:00' + g * interval '17 s'
	  FROM generate_series(4, 9) g;
COPY ins (id, cost, at) FROM stdin;
10	3	2024-03-01 11:00:00+01
11	\N	2023-12-31 23:59:59
\.
INSERT INTO ins (at, cost, id) VALUES ('2024-03-01 10:30', 7.777, 12), ('2024-03-01 10:31', 8, 13)
	RETURNING id, kind, cost, twice, at, tableoid::regclass;
WITH new AS (INSERT INTO ins (id, cost) VALUES (14, 14) RETURNING *)
	SELECT id, twice, (SELECT count(*) FROM ins) AS others FROM new;
SELECT * FROM ins ORDER BY id;
PREPARE add_one (int, numeric) AS INSERT INTO ins (id, cost) VALUES ($1, $2);
EXECUTE add_one (15, 15);
EXECUTE add_one (16, 16);
DEALLOCATE add_one;
SELECT count(*), sum(id), sum(twice) FROM ins;

-- constraints hold for every way in; nothing of a statement that fails stays
INSERT INTO ins (id, cost) VALUES (100, 1), (NULL, 1);
INSERT INTO ins (id, cost) VALUES (100, 1), (101, -1);
INSERT INTO ins (id, kind) SELECT 100 + g, CASE g WHEN 50 THEN 'bad' ELSE 'good' END FROM generate_series(1, 60) g;
INSERT INTO ins (id, twice) VALUES (100, 5);
INSERT INTO ins (id, cost) VALUES (100, 1e7);
INSERT INTO ins (id, nix) VALUES (100, 1);
INSERT INTO ins VALUES (100, 'x', 1, DEFAULT, 'yesterday evening');
COPY ins (id, cost, at) FROM stdin;
100	1	2024-03-01 10:00
101	1	xyz
\.
COPY ins (id, cost, at) FROM stdin;
100	1	2024-03-01 10:00
101	-1	2024-03-01 10:00
\.
INSERT INTO ins (id, at) VALUES (100, '2024-03-01'), (101, NULL);
INSERT INTO ins (id, at) VALUES (100, '2024-03-01'), (101, 'infinity');
INSERT INTO ins (id, at) VALUES (100, '-infinity');
SELECT count(*), sum(id), sum(twice) FROM ins;

-- events do not change; there is nothing to conflict with
UPDATE ins SET cost = 0;
UPDATE ins SET cost = 0 WHERE false;
DELETE FROM ins WHERE id = 1;
MERGE INTO ins USING (VALUES (1)) v (x) ON ins.id = v.x WHEN MATCHED THEN DELETE;
INSERT INTO ins (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET cost = 0;
INSERT INTO ins (id) VALUES (1) ON CONFLICT (id) DO NOTHING;
INSERT INTO ins (id) VALUES (17) ON CONFLICT DO NOTHING;
SELECT * FROM ins WHERE id = 1 FOR UPDATE;
CREATE UNIQUE INDEX ON ins (id);
SELECT count(*), sum(id), sum(twice) FROM ins;

-- triggers
CREATE FUNCTION ins_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id % 10 = 0 THEN RETURN NULL; END IF;
	NEW.kind := TG_OP || ' ' || TG_WHEN;
	NEW.cost := NEW.cost + 1;
	RETURN NEW;
END $$;
CREATE TABLE ins_log (id int, twice numeric, seen bigint);
CREATE FUNCTION ins_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id = 29 THEN RAISE EXCEPTION 'not 29'; END IF;
	INSERT INTO ins_log VALUES (NEW.id, NEW.twice, (SELECT count(*) FROM ins WHERE id BETWEEN 20 AND 40));
	RETURN NULL;
END $$;
CREATE FUNCTION ins_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % %', TG_WHEN, TG_LEVEL, (SELECT count(*) FROM ins WHERE id BETWEEN 20 AND 40);
	RETURN NULL;
END $$;
CREATE TRIGGER b BEFORE INSERT ON ins FOR EACH ROW EXECUTE FUNCTION ins_before();
CREATE TRIGGER a AFTER INSERT ON ins FOR EACH ROW EXECUTE FUNCTION ins_after();
CREATE TRIGGER sb BEFORE INSERT ON ins FOR EACH STATEMENT EXECUTE FUNCTION ins_statement();
CREATE TRIGGER sa AFTER INSERT ON ins FOR EACH STATEMENT EXECUTE FUNCTION ins_statement();
INSERT INTO ins (id, cost) VALUES (20, 1), (21, 1), (22, -1) RETURNING id, kind, cost, twice;
COPY ins (id, cost) FROM stdin;
23	5
30	5
24	6
\.
INSERT INTO ins (id, cost) VALUES (28, 1), (29, 1);
INSERT INTO ins (id, cost) VALUES (27, -2);
SELECT id, kind, cost, twice FROM ins WHERE id BETWEEN 20 AND 40 ORDER BY id;
SELECT * FROM ins_log ORDER BY id;
DROP TRIGGER b ON ins;
DROP TRIGGER a ON ins;
DROP TRIGGER sb ON ins;
DROP TRIGGER sa ON ins;

-- a stream as a partition, next to an ordinary one; its columns in another order
CREATE TABLE ins_p (id int, at timestamptz, note text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE ins_p1 PARTITION OF ins_p (note DEFAULT 'p1') FOR VALUES FROM (0) TO (10)
	SERVER aion OPTIONS (event_time 'at');
CREATE FOREIGN TABLE ins_p2 (gone int, note text, at timestamptz NOT NULL, id int CHECK (id <> 13))
	SERVER aion OPTIONS (event_time 'at');
ALTER FOREIGN TABLE ins_p2 DROP COLUMN gone;
ALTER TABLE ins_p ATTACH PARTITION ins_p2 FOR VALUES FROM (10) TO (20);
CREATE TABLE ins_p3 PARTITION OF ins_p FOR VALUES FROM (20) TO (30);
INSERT INTO ins_p SELECT g, timestamptz '2024-03-01' + g * interval '1 h', 'n' || g FROM generate_series(1, 28, 3) g WHERE g <> 13
	RETURNING tableoid::regclass, *;
COPY ins_p FROM stdin;
2	2024-03-01 10:00	copied
12	2024-03-01 10:00	copied
22	2024-03-01 10:00	copied
\.
INSERT INTO ins_p1 (id, at) VALUES (3, '2024-03-01');
INSERT INTO ins_p1 (id, at) VALUES (10, '2024-03-01');
INSERT INTO ins_p1 (id, at) VALUES (NULL, '2024-03-01');
INSERT INTO ins_p2 (id, at) VALUES (12, '2024-03-01'), (20, '2024-03-01');
COPY ins_p2 (id, at) FROM stdin;
20	2024-03-01 10:00
\.
INSERT INTO ins_p VALUES (13, '2024-03-01');
INSERT INTO ins_p VALUES (14, NULL);
INSERT INTO ins_p VALUES (4, NULL);
INSERT INTO ins_p VALUES (40, '2024-03-01');
UPDATE ins_p SET note = 'x' WHERE id = 1;
UPDATE ins_p3 SET id = 5 WHERE id = 22;
UPDATE ins_p SET id = 5 WHERE id = 22;
INSERT INTO ins_p VALUES (5, '2024-03-01') ON CONFLICT DO NOTHING;
SELECT tableoid::regclass, * FROM ins_p ORDER BY id, note;
SELECT count(*) FROM ins_p WHERE id < 10 AND at >= '2024-03-01 07:00';
DROP TABLE ins_p;

DROP FOREIGN TABLE ins;
DROP TABLE ins_log;
DROP FUNCTION ins_before, ins_after, ins_statement;
