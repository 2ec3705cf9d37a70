-- allowed_lateness 'auto': what is learnt of late events, what windows keep of it, and how many events make one final
\set VERBOSITY default
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE VIEW al_state AS
	SELECT state, reason, late_events, needed_events AS needed, bound, candidate BETWEEN interval '5 s' AND interval '5.11 s' AS about_5_s FROM aion.lateness WHERE stream::text = 'al';
CREATE VIEW al_windows AS
	SELECT to_char(window_start, 'HH24:MI:SS') AS window, w.state, w.events, s.allowed_lateness * interval '1 us' >= interval '30 days' AS initial,
		s.allowed_lateness BETWEEN 5000000 AND 5110000 AS about_5_s
	  FROM aion.windows w JOIN aion.window_state s USING (view, window_start) WHERE view::text = 'al_v' ORDER BY window_start;

-- the default of a stream; nothing is known, so windows have the initial lateness
CREATE FOREIGN TABLE al (at timestamptz, k text) SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '10 s', lateness_coverage '0.9', lateness_confidence ' 0.9 ');
SELECT count(*) FROM aion.lateness WHERE stream::text = 'al';
SELECT aion.create_view('al_v', 'SELECT count(*) AS n FROM al', aion.tumbling('10 s'));
SELECT aion.create_view('al_x', 'SELECT count(*) AS n FROM al', aion.tumbling('10 s'), allowed_lateness => '10 s');
INSERT INTO al VALUES ('2024-03-01 10:00:05', 'on time');
SELECT aion.advance_watermark('al', '2024-03-01 10:00:15');
SELECT aion.sync('al');
SELECT * FROM al_state;
SELECT stream, p50, p90, p99, effective_events, coverage, confidence, allowed_lateness, observed_for, evidence_time, beyond FROM aion.lateness WHERE stream::text = 'al';
SELECT * FROM al_windows;

-- enough late events, but not for long enough; each counts in two windows
INSERT INTO al SELECT '2024-03-01 10:00:06', 'late' FROM generate_series(1, 12);
SELECT aion.sync('al', late => true);
SELECT * FROM al_state;
SELECT aion.advance_watermark('al', '2024-03-01 10:01:00');
SELECT aion.sync('al');
SELECT state, reason, observed_for FROM aion.lateness WHERE stream::text = 'al';
-- now it has been, by the event watermark
SELECT aion.advance_watermark('al', '2024-03-01 10:01:10');
SELECT aion.sync('al');
SELECT state, reason, bound = candidate AS as_estimated, observed_for, round(beyond::numeric, 3) AS beyond FROM aion.lateness WHERE stream::text = 'al';
-- a window that is made from now on has the new bound; the other keeps its own
INSERT INTO al VALUES ('2024-03-01 10:01:15', 'on time');
SELECT aion.sync('al');
SELECT * FROM al_windows;

-- time alone makes no window final: that takes 100 events beyond; where lateness is not automatic, it does
SELECT aion.advance_watermark('al', '2024-03-01 10:01:30');
SELECT aion.sync('al');
INSERT INTO al SELECT '2024-03-01 10:01:40', 'beyond' FROM generate_series(1, 99);
SELECT aion.sync('al');
SELECT * FROM al_windows;
SELECT to_char(window_start, 'HH24:MI:SS') AS window, state FROM aion.windows WHERE view = 'al_x'::regclass ORDER BY window_start;
SELECT evidence_time FROM aion.lateness WHERE stream::text = 'al';
INSERT INTO al VALUES ('2024-03-01 10:01:16', 'in time');
SELECT aion.sync('al', late => true);
INSERT INTO al VALUES ('2024-03-01 10:01:40', 'beyond');
SELECT aion.sync('al');
SELECT * FROM al_windows;
SELECT evidence_time FROM aion.lateness WHERE stream::text = 'al';
-- what comes now is too late for the window that had the estimated bound, and not for the one before it; a window that
-- would have to be made is closed, too
INSERT INTO al VALUES ('2024-03-01 10:01:17', 'too late'), ('2024-03-01 10:00:07', 'in time'), ('2024-03-01 10:00:57', 'no row');
SELECT aion.sync('al', late => true);
SELECT * FROM al_windows;
SELECT event->>'k' AS k, reason, partial FROM aion.expired WHERE stream = 'al'::regclass ORDER BY id;
SELECT window_start, n FROM al_v ORDER BY 1;
SELECT aion.refresh('al_v', '2024-03-01 10:00:50');
-- an INSERT is refused if nothing would take it in
ALTER FOREIGN TABLE al OPTIONS (ADD on_expired 'error');
SELECT aion.alter_view('al_x', allowed_lateness => 'auto');
SELECT aion.sync('al');
INSERT INTO al VALUES ('2024-03-01 10:01:17', 'refused');
INSERT INTO al VALUES ('2024-03-01 10:00:57', 'refused');
INSERT INTO al VALUES ('2024-03-01 10:00:07', 'in time');
SELECT aion.sync('al', late => true);
SELECT window_start, n FROM al_v ORDER BY 1;

-- W goes back no further than what made a window final
SELECT aion.drop_view('al_x');
SELECT aion.reset_watermark('al', '2024-03-01 10:00:00');
SELECT watermark BETWEEN '2024-03-01 10:01:25' AND '2024-03-01 10:01:25.11' AS about_5_s FROM aion.streams WHERE stream = 'al'::regclass;
SELECT evidence_time BETWEEN '2024-03-01 10:01:25' AND '2024-03-01 10:01:25.11' AS about_5_s FROM aion.lateness WHERE stream::text = 'al';

-- another coverage counts at once; TRUNCATE forgets all
ALTER FOREIGN TABLE al OPTIONS (SET lateness_coverage '0.99', SET lateness_confidence '0.95');
SELECT aion.sync('al');
SELECT state, reason, needed_events FROM aion.lateness WHERE stream::text = 'al';
TRUNCATE al;
SELECT * FROM al_state;
SELECT count(*) FROM aion.stream_lateness WHERE stream = 'al'::regclass;
SELECT * FROM al_windows;

-- who has no privilege on the stream sees nothing of it
CREATE ROLE al_nobody;
SET ROLE al_nobody;
SELECT count(*) FROM aion.lateness;
RESET ROLE;
GRANT SELECT ON al TO al_nobody;
SET ROLE al_nobody;
SELECT allowed_lateness, state FROM aion.lateness;
SELECT * FROM aion.stream_lateness;
RESET ROLE;
REVOKE SELECT ON al FROM al_nobody;
DROP ROLE al_nobody;
SELECT (aion.late_bound(NULL, 0.9, 1, NULL, NULL)).state;
SELECT state, reason, needed_events FROM aion.late_bound('\x00', 0.99, 0.95, NULL, NULL);
SET client_min_messages = warning;
DROP VIEW al_state, al_windows;
DROP FOREIGN TABLE al CASCADE;
SELECT count(*) FROM aion.stream_lateness l WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.stream);
