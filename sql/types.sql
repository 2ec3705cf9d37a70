-- Columns of all kinds of types read back as a plain table's, from the pending batch, journal, memory and blocks.
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE TYPE ty_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE ty_pair AS (a int, b text, m ty_mood);
CREATE TYPE ty_nest AS (p ty_pair, q numeric[]);
CREATE TYPE ty_moods AS RANGE (subtype = ty_mood);
CREATE DOMAIN ty_pos AS int CHECK (VALUE > 0);
CREATE DOMAIN ty_dmood AS ty_mood CHECK (VALUE <> 'sad');
CREATE DOMAIN ty_dpair AS ty_pair CHECK ((VALUE).a > 0);

-- Makes a stream and a table of the same columns, with the rows of the query, and says whether they are the same.
CREATE FUNCTION ty_same() RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint; m bigint;
BEGIN
	SELECT count(*) INTO n FROM (SELECT stream::text FROM ty stream EXCEPT ALL SELECT plain::text FROM ty_plain plain) x;
	SELECT count(*) INTO m FROM (SELECT plain::text FROM ty_plain plain EXCEPT ALL SELECT stream::text FROM ty stream) x;
	RETURN format('%s rows, %s extra, %s missing', (SELECT count(*) FROM ty), n, m);
END $$;
CREATE TABLE ty_plain (
	at timestamptz, b bool, c "char", i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, num numeric, num2 numeric(10,3),
	money money, t text, v varchar(10), ch char(8), nm name, by bytea, d date, tm time, tz timetz, ts timestamp, ts0 timestamptz(0),
	iv interval, u uuid, ip inet, cd cidr, mac macaddr, mac8 macaddr8, bits bit(5), vbits varbit, pt point, ln line, box box,
	path path, poly polygon, circ circle, js json, jb jsonb, jp jsonpath, x xml, vec tsvector, q tsquery, lsn pg_lsn, snap pg_snapshot,
	o oid, x8 xid8, tid tid, i4r int4range, tsr tstzrange, i4m int4multirange, ai int[], at2 text[][], an numeric[], atz timestamptz[],
	coll text COLLATE "C", mood ty_mood, moods ty_mood[], moodr ty_moods, pair ty_pair, pairs ty_pair[], nest ty_nest, pos ty_pos, poss ty_pos[],
	dmood ty_dmood, dpair ty_dpair, rc regclass, rp regprocedure, rt regtype, rr regrole, rn regnamespace, arc regclass[]);
DO $$
BEGIN
	EXECUTE (SELECT format('CREATE FOREIGN TABLE ty (%s) SERVER aion OPTIONS (event_time %L, idle_timeout %L, allowed_lateness %L)',
						   string_agg(format('%I %s %s', attname, format_type(atttypid, atttypmod),
											 CASE WHEN attname = 'coll' THEN 'COLLATE "C"' END), ', ' ORDER BY attnum), 'at', 'off', 'unlimited')
			   FROM pg_attribute WHERE attrelid = 'ty_plain'::regclass AND attnum > 0);
END $$;
INSERT INTO ty_plain VALUES (
	'2024-03-01 10:00', true, 'c', -1, 2, 3, 'NaN', '-Infinity', '-12345678901234567890.000123', 1.5,
	'12.34', 'text', 'varchar', 'char', 'name', '\x00ff', '2024-02-29', '24:00', '12:00+02', 'infinity', '2024-03-01 10:00:00.7',
	'1 mon -2 days 03:04:05.678901', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.1.2.3/24', '10.1.0.0/16', '08:00:2b:01:02:03',
	'08:00:2b:01:02:03:04:05', '10101', '101', '(1,2)', '{1,2,3}', '(1,2),(3,4)', '[(1,2),(3,4)]', '((1,2),(3,4),(5,6))', '<(1,2),3>',
	'{"a" : 1}', '{"a": [1, null, "x"]}', '$.a', '<a/>', 'a:1A b:2', 'a & !b', '16/B374D848', '10:20:10,14,15', 4294967295, '99999999999',
	'(1,2)', '[1,5)', '[2024-03-01,)', '{[1,2],[5,9)}', '[0:1]={1,NULL}', '{{a,b},{"c,d",NULL}}', '{1.5,NaN}', '{2024-03-01,-infinity}',
	'é', 'sad', '{sad,NULL,happy}', '[sad,happy)', '(1,"b,""c",ok)', '{"(1,,sad)",NULL}', '("(1,x,happy)","{1,2}")', 5, '{1,2}',
	'ok', '(3,z,)', 'pg_class', 'abs(int)', 'integer', 'postgres', 'pg_catalog', '{pg_class,aion.stream_def}');
INSERT INTO ty_plain (at) VALUES ('1999-12-31 23:59:59.999999'), ('2024-03-01 10:00:30');
INSERT INTO ty_plain (at, t, by, jb, an, ai, num) VALUES
	('2024-03-01 10:01', repeat('compressible ', 1000), decode(repeat('00', 20000), 'hex'), jsonb_build_object('k', repeat('x', 9000)),
	 (SELECT array_agg(g / 7.0) FROM generate_series(1, 2000) g), (SELECT array_agg(g) FROM generate_series(1, 5000) g), 10::numeric ^ 300);
ALTER TABLE ty_plain ALTER t SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL;
INSERT INTO ty_plain (at, t, by, pair, moods) SELECT timestamptz '2024-03-01 10:02' + g * interval '20 s',
	(SELECT string_agg(md5(g || '.' || i), '') FROM generate_series(1, 400 * g) i),
	(SELECT string_agg(sha256(convert_to(g || '.' || i, 'utf8')), '') FROM generate_series(1, 300 * g) i),
	ROW(g, repeat('long ', g * 3000), 'ok')::ty_pair, array_fill('happy'::ty_mood, ARRAY[g * 1000]) FROM generate_series(1, 6) g;
INSERT INTO ty_plain SELECT '2024-03-02', true, 'x', g, g, g, g, g, g, g, g::text::money, 'row ' || g FROM generate_series(1, 500) g;

BEGIN;
INSERT INTO ty TABLE ty_plain;
SELECT ty_same();
COMMIT;
SELECT ty_same();
SELECT aion.destage('ty');
SELECT sum(journal_events) AS journal, sum(disk_events) AS disk FROM aion.buckets WHERE stream = 'ty'::regclass;
SELECT ty_same();
-- both places mixed
INSERT INTO ty SELECT * FROM ty_plain WHERE at < '2024-03-02';
INSERT INTO ty_plain SELECT * FROM ty_plain WHERE at < '2024-03-02';
SELECT ty_same();

-- values that the executor holds in expanded form, and records made on the spot
DO $$
DECLARE
	a int[] := ARRAY(SELECT generate_series(1, 3000));
	p ty_pair := ROW(7, 'made here', 'happy');
	pp ty_pair[];
	moods ty_mood[] := '{sad}';
BEGIN
	a[5] := -1; a := a || 4;
	pp[1] := p; pp[2] := ROW(8, NULL, 'sad');
	moods[3] := 'ok';
	INSERT INTO ty_plain (at, ai, pair, pairs, moods, nest) VALUES ('2024-03-03', a, p, pp, moods, ROW(p, '{1}'));
	INSERT INTO ty (at, ai, pair, pairs, moods, nest) VALUES ('2024-03-03', a, p, pp, moods, ROW(p, '{1}'));
END $$;
SELECT ty_same();
SELECT (pair).b, (nest).p.m, array_upper(ai, 1), ai[5], pairs[2] FROM ty WHERE at = '2024-03-03';
SELECT count(*) FROM ty WHERE mood = 'sad' OR 'happy' = ANY (moods) AND t IS NOT NULL;

-- types whose stored form is text follow what is renamed
ALTER TYPE ty_mood RENAME TO ty_feeling;
ALTER TYPE ty_pair RENAME ATTRIBUTE b TO bb;
SELECT aion.destage('ty');
SELECT mood, moodr, (pair).bb, dpair, rc, rp FROM ty WHERE i4 = 2 AND num IS NOT NULL AND pos = 5 ORDER BY at;
ALTER TYPE ty_feeling RENAME TO ty_mood;
ALTER TYPE ty_pair RENAME ATTRIBUTE bb TO b;
SELECT ty_same();
-- domains are checked
\set VERBOSITY terse
INSERT INTO ty (at, pos) VALUES ('2024-03-01', 0);
INSERT INTO ty (at, poss) VALUES ('2024-03-01', '{1,0}');
INSERT INTO ty (at, dmood) VALUES ('2024-03-01', 'sad');

-- values of several MB
CREATE FOREIGN TABLE ty_big (at timestamptz, id int, t text, b bytea) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
CREATE TABLE ty_big_plain (id int, t text, b bytea);
INSERT INTO ty_big_plain SELECT g, repeat(md5(g::text), g * 100000), decode(repeat(md5(g::text), 150000), 'hex') FROM generate_series(1, 3) g;
INSERT INTO ty_big SELECT '2024-03-01 10:00', * FROM ty_big_plain;
SELECT id, length(t), md5(t) = (SELECT md5(t) FROM ty_big_plain p WHERE p.id = s.id) AS t, b = (SELECT b FROM ty_big_plain p WHERE p.id = s.id) AS b FROM ty_big s ORDER BY id;
SELECT aion.destage('ty_big');
SELECT id, length(t), md5(t) = (SELECT md5(t) FROM ty_big_plain p WHERE p.id = s.id) AS t, b = (SELECT b FROM ty_big_plain p WHERE p.id = s.id) AS b FROM ty_big s ORDER BY id;

-- an event time without time zone is UTC, whatever the session's zone
CREATE FOREIGN TABLE ty_ts (at timestamp, v int) SERVER aion OPTIONS (event_time 'at', idle_timeout 'off');
SELECT aion.create_view('ty_ts_v', 'SELECT count(*) AS n FROM ty_ts', aion.tumbling('1 h'));
SET timezone = 'America/New_York';
INSERT INTO ty_ts VALUES ('2024-03-10 02:30', 1), ('2024-03-10 03:00', 2), ('2024-03-10 04:00', 3);
SELECT aion.sync('ty_ts');
SELECT window_start, n, pg_typeof(window_start) FROM ty_ts_v ORDER BY 1;
SELECT aion.watermark('ty_ts');
SELECT count(*) FROM ty_ts WHERE at < '2024-03-10 03:00';
SET timezone = 'UTC';

SET client_min_messages = warning;
DROP FOREIGN TABLE ty, ty_big, ty_ts CASCADE;
DROP TABLE ty_plain, ty_big_plain;
DROP FUNCTION ty_same;
DROP DOMAIN ty_pos, ty_dmood, ty_dpair;
DROP TYPE ty_nest, ty_pair, ty_moods, ty_mood CASCADE;
