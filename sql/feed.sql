-- aion.feed(): copying an ordinary table's new rows into a stream.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';

CREATE TABLE orders (id int, at timestamptz, note text, gone int);
ALTER TABLE orders DROP COLUMN gone;
CREATE FOREIGN TABLE orders_stream (
	at timestamptz NOT NULL, id bigint NOT NULL, source text DEFAULT 'feed',
	double bigint GENERATED ALWAYS AS (id * 2) STORED
) SERVER aion OPTIONS (event_time 'at');
CREATE TRIGGER to_stream AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed('orders_stream');

INSERT INTO orders VALUES (1, '2024-03-01 10:00', 'x'), (2, '2024-03-01 10:01', 'y');
COPY orders FROM stdin;
3	2024-03-01 10:02:00+00	z
\.
SELECT * FROM orders_stream ORDER BY id;

-- transactional
BEGIN;
INSERT INTO orders VALUES (4, '2024-03-01 10:03', NULL);
ROLLBACK;
SELECT max(id) FROM orders_stream;

-- a change of either table is noticed
ALTER FOREIGN TABLE orders_stream ADD COLUMN note text;
ALTER TABLE orders ADD COLUMN source text DEFAULT 'table';
INSERT INTO orders VALUES (5, '2024-03-01 10:04', 'w');
ALTER TABLE orders RENAME note TO remark;
INSERT INTO orders VALUES (6, '2024-03-01 10:05', 'v');
SELECT id, source, note FROM orders_stream ORDER BY id;

-- what the stream refuses, the table refuses
INSERT INTO orders VALUES (NULL, '2024-03-01 10:06', 'u');
INSERT INTO orders VALUES (7, NULL, 'u');
SELECT count(*) FROM orders;

-- the rights of whoever inserts
CREATE ROLE regress_feeder;
GRANT INSERT ON orders TO regress_feeder;
SET ROLE regress_feeder;
INSERT INTO orders VALUES (8, '2024-03-01 10:07', 'u');
RESET ROLE;
GRANT INSERT ON orders_stream TO regress_feeder;
SET ROLE regress_feeder;
INSERT INTO orders VALUES (8, '2024-03-01 10:07', 'u');
RESET ROLE;
SELECT max(id) FROM orders_stream;

-- wrong uses
SELECT aion.feed();
CREATE TRIGGER wrong BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed('orders_stream');
INSERT INTO orders VALUES (9, '2024-03-01 10:08', 'u');
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION aion.feed('orders_stream');
INSERT INTO orders VALUES (9, '2024-03-01 10:08', 'u');
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed('orders_stream');
UPDATE orders SET remark = 'r' WHERE id = 1;
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed();
INSERT INTO orders VALUES (9, '2024-03-01 10:08', 'u');
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed('orders');
INSERT INTO orders VALUES (9, '2024-03-01 10:08', 'u');
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION aion.feed('no_such_stream');
INSERT INTO orders VALUES (9, '2024-03-01 10:08', 'u');
DROP TRIGGER wrong ON orders;
CREATE TABLE other (x int);
CREATE TRIGGER wrong AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION aion.feed('orders_stream');
INSERT INTO other VALUES (1);
SELECT count(*) FROM orders;

-- a quoted name, another schema, a changed search_path
CREATE SCHEMA "Feed me";
CREATE FOREIGN TABLE "Feed me"."to ""me""" (at timestamptz, id int)
	SERVER aion OPTIONS (event_time 'at');
CREATE TRIGGER quoted AFTER INSERT ON orders FOR EACH ROW
	EXECUTE FUNCTION aion.feed('"Feed me"."to ""me"""');
INSERT INTO orders VALUES (10, '2024-03-01 10:09', 'u');
SET search_path = "Feed me";
DROP TRIGGER to_stream ON public.orders;
INSERT INTO public.orders VALUES (11, '2024-03-01 10:10', 'u');
RESET search_path;
SELECT * FROM "Feed me"."to ""me""" ORDER BY id;

DROP TABLE orders, other;
DROP FOREIGN TABLE orders_stream, "Feed me"."to ""me""";
DROP SCHEMA "Feed me";
DROP ROLE regress_feeder;
