-- The inspection views: what they show, and to whom.
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE FOREIGN TABLE inspect_s (key text, value int, at timestamptz NOT NULL)
	SERVER aion OPTIONS (event_time 'at', watermark 'manual', bucket_width '1 hour', allowed_lateness '2 hours');
SELECT aion.create_view('inspect_v', 'SELECT key, sum(100 / value) AS n FROM inspect_s GROUP BY key',
						aion.tumbling('1 hour'));
INSERT INTO inspect_s VALUES ('a', 1, '2024-03-01 08:30'), ('a', 2, '2024-03-01 10:30'), ('a', 0, '2024-03-01 11:30'),
							 ('b', 4, '2024-03-01 12:30');
SELECT aion.advance_watermark('inspect_s', '2024-03-01 12:00');
SELECT aion.sync('inspect_s');
INSERT INTO inspect_s VALUES ('b', 4, '2024-03-01 08:45'), ('a', 5, '2024-03-01 10:40');
SELECT aion.sync('inspect_s', late => true);

SELECT stream, watermark, event_watermark, events, late_events, expired_events, last_event_at IS NOT NULL AS has_last,
	   bucket_width, durable
  FROM aion.streams WHERE stream = 'inspect_s'::regclass;
SELECT view, results IS NOT NULL AS has_results, streams, window_spec, state, state_kind,
	   on_time_firings, early_firings, late_firings, final_firings, last_error
  FROM aion.views WHERE view = 'inspect_v'::regclass;
BEGIN;
SELECT aion.alter_view('inspect_v', early => '1 minute', allowed_lateness => '3 days', staleness => 0.5, retain => '1 month');
SELECT early, allowed_lateness, staleness, retain FROM aion.views WHERE view = 'inspect_v'::regclass;
ROLLBACK;
SELECT early, allowed_lateness, staleness, retain FROM aion.views WHERE view = 'inspect_v'::regclass;
SELECT window_start, window_end, key, state, events, late_events, firings, last_fired_at IS NOT NULL AS fired,
	   staleness, next_firing, error
  FROM aion.windows WHERE view = 'inspect_v'::regclass AND window_start >= '2024-03-01 10:00' ORDER BY 1;
SELECT stream, event_time, event, reason, partial FROM aion.expired WHERE stream = 'inspect_s'::regclass ORDER BY id;

-- In memory or in the journal, then in blocks.
SELECT bucket_start, bucket_end, greatest(memory_events, journal_events, disk_events) AS events
  FROM aion.buckets WHERE stream = 'inspect_s'::regclass AND bucket_start >= '2024-03-01 10:00' ORDER BY 1;
SELECT aion.destage('inspect_s');
SELECT bucket_start, state, journal_events, disk_events, disk_bytes > 0 AS has_bytes
  FROM aion.buckets WHERE stream = 'inspect_s'::regclass AND bucket_start >= '2024-03-01 10:00' ORDER BY 1;

-- Workers of this database.
SELECT DISTINCT role, state IS NOT NULL AS has_state, since <= clock_timestamp() AS since
  FROM aion.workers WHERE database = current_database() AND role = 'scheduler';
SELECT count(*) FROM aion.workers WHERE role = 'launcher' AND database IS NULL;
SELECT backend_type, count(*) FROM pg_stat_activity
 WHERE backend_type IN ('aion launcher') OR (backend_type = 'aion scheduler' AND datname = current_database())
 GROUP BY 1 ORDER BY 1;

-- Others see what they have a privilege on, and no error texts.
CREATE ROLE regress_aion_inspect;
SET ROLE regress_aion_inspect;
SELECT (SELECT count(*) FROM aion.streams) AS streams, (SELECT count(*) FROM aion.views) AS views,
	   (SELECT count(*) FROM aion.windows) AS windows, (SELECT count(*) FROM aion.buckets) AS buckets,
	   (SELECT count(*) FROM aion.expired) AS expired;
SELECT * FROM aion.set_aside;
RESET ROLE;
GRANT INSERT ON inspect_s TO regress_aion_inspect;
GRANT SELECT ON inspect_v TO regress_aion_inspect;
SET ROLE regress_aion_inspect;
SELECT (SELECT count(*) FROM aion.streams) AS streams, (SELECT count(*) FROM aion.views) AS views,
	   (SELECT count(*) FROM aion.windows) > 0 AS windows, (SELECT count(*) FROM aion.buckets) > 0 AS buckets,
	   (SELECT count(*) FROM aion.expired) AS expired;
SELECT state, last_error FROM aion.views;
SELECT state, error FROM aion.windows WHERE window_start = '2024-03-01 11:00';
RESET ROLE;
DROP FOREIGN TABLE inspect_s CASCADE;
DROP ROLE regress_aion_inspect;

-- Nothing is left without a comment.
SELECT pg_describe_object(d.classid, d.objid, 0) AS uncommented
  FROM pg_depend d JOIN pg_extension e ON e.extname = 'aion' AND d.refobjid = e.oid AND d.deptype = 'e'
 WHERE obj_description(d.objid, d.classid::regclass::name) IS NULL
   AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_namespace'::regclass)
   AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = d.objid AND c.relkind IN ('S', 'i', 't', 'c'))
 ORDER BY 1;
