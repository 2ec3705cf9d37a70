-- How long results stay (retain), and what aion.readmit() refuses before it asks anybody.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE FUNCTION rt_wait(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE met bool;
BEGIN
	FOR i IN 1 .. 3000 LOOP
		EXECUTE 'SELECT ' || condition INTO met;
		IF met THEN RETURN 'yes'; END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN 'no';
END $$;
CREATE FOREIGN TABLE rt (at timestamptz, k text) SERVER aion OPTIONS (event_time 'at', watermark 'manual', allowed_lateness '1 hour');

-- refused
SELECT aion.create_view('rt_bad', 'SELECT k FROM rt', aion.tumbling('1 h'), retain => '-1 day');
SELECT aion.create_view('rt_bad', 'SELECT k FROM rt', aion.tumbling('1 h'), retain => '1 month -1 day');
SELECT aion.create_view('rt_bad', 'SELECT k FROM rt', aion.tumbling('1 h'), retain => '20000 years');
SELECT aion.create_view('rt_bad', 'SELECT k FROM rt', aion.tumbling('1 h'), retain => 'soon');

-- given and changed, in both forms
SELECT aion.create_view('rt_a', 'SELECT count(*) AS n FROM rt', aion.tumbling('1 hour'), retain => '2 hours');
SELECT aion.create_view('rt_b', 'SELECT count(*) AS n FROM rt', aion.tumbling('1 hour'), interval '30 min', retain => '1 month 2 days 03:00');
SELECT aion.create_view('rt_c', 'SELECT count(*) AS n FROM rt', aion.tumbling('1 hour'));
SELECT view, retain FROM aion.views WHERE view::text LIKE 'rt%' ORDER BY view::text;
SELECT aion.alter_view('rt_b', retain => '0');
SELECT aion.alter_view('rt_b', allowed_lateness => interval '2 hours', retain => '1 day');
SELECT aion.alter_view('rt_c', retain => '-1 s');
SELECT view, retain FROM aion.views WHERE view::text LIKE 'rt%' ORDER BY view::text;
SELECT aion.alter_view('rt_b', reset => '{retain}');
SELECT aion.alter_view('rt_b', reset => '{retention}');
SELECT view, retain FROM aion.views WHERE view::text LIKE 'rt%' ORDER BY view::text;

-- it counts from the end of the window, in event time, but what is not final stays
INSERT INTO rt SELECT timestamptz '2024-03-01 00:30' + g * interval '1 hour', 'a' FROM generate_series(0, 11) g;
SELECT aion.advance_watermark('rt', '2024-03-01 12:00');
SELECT aion.sync('rt');
SELECT rt_wait($$ (SELECT min(window_start) = '2024-03-01 10:00' FROM rt_a) $$);
SELECT count(*), min(window_start), max(window_start) FROM rt_a;
SELECT count(*) FROM rt_b;
SELECT count(*) FROM rt_c;
SELECT aion.alter_view('rt_c', retain => '0', allowed_lateness => '5 hours');
SELECT aion.advance_watermark('rt', '2024-03-01 13:00');
SELECT aion.sync('rt');
SELECT rt_wait($$ (SELECT min(window_start) = '2024-03-01 11:00' FROM rt_a) $$);
SELECT aion.advance_watermark('rt', '2024-03-01 16:59:59.999999');
SELECT aion.sync('rt');
SELECT rt_wait($$ (SELECT min(window_start) = '2024-03-01 11:00' FROM rt_c) $$);
SELECT rt_wait($$ (SELECT count(*) = 0 FROM rt_a) $$);
SELECT aion.advance_watermark('rt', '2024-03-01 17:00');
SELECT aion.sync('rt');
SELECT rt_wait($$ (SELECT count(*) = 0 FROM rt_c) $$);
SELECT count(*) FROM rt_b;

-- months are added by the calendar: 28 February plus a month is 28 March
SELECT aion.create_view('rt_d', 'SELECT count(*) AS n FROM rt', aion.tumbling('1 day'), allowed_lateness => '0', retain => '1 month');
INSERT INTO rt VALUES ('2025-02-27 12:00', 'b'), ('2025-02-28 12:00', 'b');
SELECT aion.advance_watermark('rt', '2025-03-28 00:00');
SELECT aion.sync('rt');
SELECT rt_wait($$ (SELECT min(window_start) = '2025-02-28' FROM rt_d) $$);
SELECT window_start, n FROM rt_d;

-- TRUNCATE begins anew
TRUNCATE rt;
INSERT INTO rt VALUES ('2024-03-01 00:30', 'c');
SELECT aion.advance_watermark('rt', '2024-03-01 02:00');
SELECT aion.sync('rt');
SELECT window_start, n FROM rt_a;
SELECT results_removed_through FROM aion.views WHERE view = 'rt_a'::regclass;

-- readmit: arguments
SELECT aion.readmit(NULL::bigint);
SELECT aion.readmit(VARIADIC NULL::bigint[]);
SELECT aion.readmit(VARIADIC '{}'::bigint[]);
SELECT aion.readmit(-1);
SELECT aion.readmit(VARIADIC array_agg(g)) FROM generate_series(1, 100001) g;
BEGIN READ ONLY;
SELECT aion.readmit(1);
ROLLBACK;
-- in time for one view, too late for another; then in time for both
INSERT INTO rt VALUES ('2024-03-01 03:30', 'd');
SELECT aion.advance_watermark('rt', '2024-03-01 05:00');
SELECT aion.alter_view('rt_d', allowed_lateness => '10 days');
SELECT aion.sync('rt');
INSERT INTO rt VALUES ('2024-03-01 03:40', 'e');
SELECT aion.sync('rt');
SELECT event_time, event->>'k' AS k, lateness, reason, partial, windows FROM aion.expired WHERE stream = 'rt'::regclass;
SELECT count(*) FROM rt WHERE k = 'e';
SELECT aion.readmit(VARIADIC (SELECT array_agg(id) FROM aion.expired WHERE stream = 'rt'::regclass));
SELECT count(*) FROM rt WHERE k = 'e';
SELECT count(*) FROM aion.expired WHERE stream = 'rt'::regclass;
SELECT window_start, n FROM rt_a WHERE window_start >= '2024-03-01 03:00' ORDER BY 1;
SELECT events, late_events, expired_events, watermark FROM aion.streams WHERE stream = 'rt'::regclass;

SET client_min_messages = warning;
DROP FOREIGN TABLE rt CASCADE;
DROP FUNCTION rt_wait;
