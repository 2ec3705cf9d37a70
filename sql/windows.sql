-- Which windows an event is in: edges, times before 1970 and 2000, slides of any ratio, origins.
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\set opt 'OPTIONS (event_time \'at\', idle_timeout \'off\', allowed_lateness \'unlimited\')'

-- half-open windows (R08)
CREATE FOREIGN TABLE wi (at timestamptz, k text DEFAULT 'a', v int DEFAULT 1) SERVER aion :opt;
SELECT aion.create_view('wi_5', 'SELECT count(*) AS n, min(at), max(at) FROM wi', aion.tumbling('5 min'));
INSERT INTO wi VALUES ('2024-03-01 10:00:00'), ('2024-03-01 10:04:59.999999'), ('2024-03-01 10:05:00'), ('2024-03-01 10:09:59.999999'), ('2024-03-01 10:10:00');
SELECT aion.sync('wi'); SELECT aion.refresh('wi_5');
SELECT * FROM wi_5 ORDER BY 1;
TRUNCATE wi;
SELECT aion.drop_view('wi_5');

-- before the epochs, rounding toward minus infinity (R09)
SELECT aion.create_view('wi_10', 'SELECT count(*) AS n, bool_and(at >= aion.window_start() AND at < aion.window_end()) AS inside FROM wi', aion.tumbling('10 s'));
SELECT aion.create_view('wi_10_5', 'SELECT count(*) AS n, bool_and(at >= aion.window_start() AND at < aion.window_end()) AS inside FROM wi WHERE at > ''1990-01-01'' AND at < ''2000-01-01''', aion.sliding('10 s', '5 s'));
SELECT aion.create_view('wi_week', 'SELECT count(*) AS n FROM wi', aion.tumbling('7 days'));
INSERT INTO wi VALUES ('1960-05-22 00:00:30'), ('1969-12-31 23:59:58'), ('1969-12-31 23:59:50'), ('1999-12-31 23:59:59.5'), ('2000-01-01 00:00:00');
SELECT aion.refresh('wi_10'); SELECT aion.refresh('wi_10_5'); SELECT aion.refresh('wi_week');
SELECT * FROM wi_10 ORDER BY 1;
SELECT * FROM wi_10_5 WHERE n > 0 ORDER BY 1;
SELECT window_start, to_char(window_start, 'Dy') AS day, n FROM wi_week ORDER BY 1;
TRUNCATE wi;
SELECT aion.drop_view(v) FROM unnest('{wi_10,wi_10_5,wi_week}'::regclass[]) v;

-- a slide that does not divide the size (R10), one that is larger
SELECT aion.create_view('wi_a', 'SELECT count(*) AS n FROM wi', aion.sliding('5.5 s', '5 s'));
INSERT INTO wi VALUES ('2024-07-01 00:08:33.0404'), ('2024-07-01 00:08:35.2'), ('2024-07-01 00:08:35.5');
SELECT aion.refresh('wi_a');
SELECT * FROM wi_a ORDER BY 1;
TRUNCATE wi;
SELECT aion.drop_view('wi_a');
SELECT aion.create_view('wi_b', 'SELECT count(*) AS n, sum(v) FROM wi', aion.sliding('10 min', '4 min'));
SELECT aion.create_view('wi_gap', 'SELECT count(*) AS n, sum(v), array_agg(v ORDER BY v) AS vs FROM wi', aion.sliding('1 min', '10 min'));
INSERT INTO wi VALUES ('2024-03-01 10:09:00', 'a', 1), ('2024-03-01 10:10:00', 'a', 10);
SELECT aion.refresh('wi_b'); SELECT aion.refresh('wi_gap');
SELECT * FROM wi_b ORDER BY 1;
SELECT * FROM wi_gap ORDER BY 1;
INSERT INTO wi VALUES ('2024-03-01 10:10:59.999999', 'a', 100), ('2024-03-01 10:11:00', 'a', 1000), ('2024-03-01 10:20:00', 'a', 10000);
SELECT aion.sync('wi'); SELECT aion.refresh('wi_gap');
SELECT * FROM wi_gap ORDER BY 1;
TRUNCATE wi;
SELECT aion.drop_view(v) FROM unnest('{wi_b,wi_gap}'::regclass[]) v;

-- many windows per event, at the limit of size to slide
SELECT aion.create_view('wi_many', 'SELECT count(*) AS n FROM wi', aion.sliding('1000 s', '100 ms'));
INSERT INTO wi VALUES ('2024-03-01 10:00:00.05');
SELECT aion.refresh('wi_many');
SELECT count(*), min(window_start), max(window_start), sum(n) FROM wi_many;
TRUNCATE wi;
SELECT aion.drop_view('wi_many');

-- an origin; size and slide of days; windows wider than a bucket and narrower, over the same buckets
SELECT aion.create_view('wi_o', 'SELECT count(*) AS n, sum(v) FROM wi', aion.tumbling('1 h', '1970-01-01 00:20'));
SELECT aion.create_view('wi_o2', 'SELECT count(*) AS n, sum(v) FROM wi', aion.tumbling('1 h', '2100-01-01 00:20+00'));
SELECT aion.create_view('wi_d', 'SELECT count(*) AS n, sum(v) FROM wi', aion.sliding('2 days', '1 day', '2024-03-01 06:00'));
SELECT aion.create_view('wi_s', 'SELECT count(*) AS n, sum(v) FROM wi', aion.tumbling('0.5 s'));
INSERT INTO wi VALUES ('2024-03-01 10:19:59.999999', 'a', 1), ('2024-03-01 10:20', 'a', 2), ('2024-03-01 11:20', 'a', 4), ('2024-03-02 05:59:59.75', 'a', 8);
SELECT aion.refresh(v) FROM unnest('{wi_o,wi_o2,wi_d,wi_s}'::regclass[]) v;
SELECT * FROM wi_o ORDER BY 1;
SELECT count(*) AS different FROM (TABLE wi_o EXCEPT TABLE wi_o2) d;
SELECT * FROM wi_d ORDER BY 1;
SELECT * FROM wi_s ORDER BY 1;
SELECT view, window_spec FROM aion.views WHERE view::text ~ '^wi_' ORDER BY view::text;
TRUNCATE wi;
SELECT aion.drop_view(v) FROM unnest('{wi_o,wi_o2,wi_d,wi_s}'::regclass[]) v;

-- every bucket width holds every window: the same views over streams that differ in that alone
CREATE FUNCTION wi_fill(width text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE FOREIGN TABLE %I (at timestamptz, v int) SERVER aion OPTIONS (event_time %L, idle_timeout %L, allowed_lateness %L, bucket_width %L)',
				   'wi ' || width, 'at', 'off', 'unlimited', width);
	EXECUTE format('INSERT INTO %I SELECT timestamptz %L + (g * g %% 7919) * interval %L, g FROM generate_series(1, 3000) g', 'wi ' || width, '1999-12-31 23:00', '1.7 s');
	PERFORM aion.create_view(format('%I', 'wi 7 ' || width), format('SELECT count(*) AS n, sum(v) AS s, array_agg(v ORDER BY at, v) AS vs FROM %I', 'wi ' || width), aion.sliding('7 min', '3 min'));
	PERFORM aion.create_view(format('%I', 'wi 20 ' || width), format('SELECT count(*) AS n, sum(v) AS s, array_agg(v ORDER BY at, v) AS vs FROM %I', 'wi ' || width), aion.tumbling('20 s', '1980-01-01 00:00:03'));
END $$;
CREATE TABLE wi_plain AS SELECT timestamptz '1999-12-31 23:00' + (g * g % 7919) * interval '1.7 s' AS at, g AS v FROM generate_series(1, 3000) g;
CREATE FUNCTION wi_wrong(width text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE a bigint; b bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM (
		(SELECT w, w + interval %2$L, count(*), sum(v), array_agg(v ORDER BY at, v) FROM wi_plain, generate_series(timestamptz %4$L, %5$L, %3$L) w
		  WHERE at >= w AND at < w + interval %2$L GROUP BY w EXCEPT ALL TABLE %1$I) UNION ALL
		(TABLE %1$I EXCEPT ALL SELECT w, w + interval %2$L, count(*), sum(v), array_agg(v ORDER BY at, v) FROM wi_plain, generate_series(timestamptz %4$L, %5$L, %3$L) w
		  WHERE at >= w AND at < w + interval %2$L GROUP BY w)) d', 'wi 7 ' || width, '7 min', '3 min', '1999-12-31 22:00', '2000-01-01 03:00') INTO a;
	EXECUTE format('SELECT count(*) FROM (
		(SELECT w, w + interval %2$L, count(*), sum(v), array_agg(v ORDER BY at, v) FROM
			(SELECT *, date_bin(%2$L, at, %3$L) AS w FROM wi_plain) p GROUP BY w EXCEPT ALL TABLE %1$I) UNION ALL
		(TABLE %1$I EXCEPT ALL SELECT w, w + interval %2$L, count(*), sum(v), array_agg(v ORDER BY at, v) FROM
			(SELECT *, date_bin(%2$L, at, %3$L) AS w FROM wi_plain) p GROUP BY w)) d', 'wi 20 ' || width, '20 s', '1980-01-01 00:00:03') INTO b;
	RETURN a + b;
END $$;
\set widths 'unnest(\'{1 ms,1 s,13 s,1 min,37 min,1 hour,1 day,1000 days}\'::text[]) w'
SELECT wi_fill(w) FROM :widths;
SELECT aion.refresh(format('%I', n || w)::regclass) FROM :widths, (VALUES ('wi 7 '), ('wi 20 ')) n (n);
SELECT w AS bucket_width, wi_wrong(w) AS wrong, (SELECT bucket_width FROM aion.streams WHERE stream = format('%I', 'wi ' || w)::regclass) FROM :widths;
SELECT aion.destage(format('%I', 'wi ' || w)::regclass) FROM :widths;
DO $$
DECLARE w text;
BEGIN
	FOREACH w IN ARRAY '{1 ms,1 s,13 s,1 min,37 min,1 hour,1 day,1000 days}'::text[] LOOP
		EXECUTE format('INSERT INTO %I SELECT at + interval %L, -v FROM wi_plain', 'wi ' || w, '11 s');
	END LOOP;
END $$;
INSERT INTO wi_plain SELECT at + interval '11 s', -v FROM wi_plain;
SELECT aion.refresh(format('%I', n || w)::regclass) FROM :widths, (VALUES ('wi 7 '), ('wi 20 ')) n (n);
SELECT w AS bucket_width, wi_wrong(w) AS wrong FROM :widths;

SET client_min_messages = warning;
DO $$
DECLARE w text;
BEGIN
	FOREACH w IN ARRAY '{1 ms,1 s,13 s,1 min,37 min,1 hour,1 day,1000 days}'::text[] LOOP
		EXECUTE format('DROP FOREIGN TABLE %I CASCADE', 'wi ' || w);
	END LOOP;
END $$;
DROP FOREIGN TABLE wi CASCADE;
DROP TABLE wi_plain;
DROP FUNCTION wi_fill, wi_wrong;
