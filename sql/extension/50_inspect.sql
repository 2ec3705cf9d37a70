/*
 * Inspection. The views read aion's tables with their owner's rights and show
 * each user what he has a privilege on. Functions in them run with the rights
 * of the user and check by themselves.
 */
CREATE VIEW aion.streams WITH (security_barrier) AS
	SELECT d.stream, s.watermark,
		   coalesce(s.events, 0) AS events,
		   coalesce(s.late_events, 0) AS late_events,
		   coalesce(s.expired_events, 0) AS expired_events,
		   s.last_event_at,
		   s.event_watermark,
		   d.bucket_width * interval '1 microsecond' AS bucket_width,
		   d.durable
	  FROM aion.stream_def d
	  LEFT JOIN aion.stream_state s ON s.stream = d.stream
	 WHERE has_table_privilege(d.stream, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		OR has_any_column_privilege(d.stream, 'SELECT, INSERT, UPDATE, REFERENCES');
COMMENT ON VIEW aion.streams IS 'streams that have storage: watermark and exact counters';
COMMENT ON COLUMN aion.streams.watermark IS 'no event before it is expected any more';
COMMENT ON COLUMN aion.streams.events IS 'events accounted for since creation or TRUNCATE, purged ones included';
COMMENT ON COLUMN aion.streams.late_events IS 'of these, the ones that were late for at least one window';
COMMENT ON COLUMN aion.streams.expired_events IS
	'of these, the ones that came too late for at least one window, or were too far ahead of the clock';
COMMENT ON COLUMN aion.streams.last_event_at IS 'when an event was last accounted for';
COMMENT ON COLUMN aion.streams.event_watermark IS 'the part of the watermark that idle time did not move';
GRANT SELECT ON aion.streams TO PUBLIC;

CREATE FUNCTION aion.late_bound(histogram bytea, coverage float8, confidence float8,
								observed_since timestamptz, event_watermark timestamptz,
								OUT effective_events float8, OUT needed_events bigint,
								OUT p50 interval, OUT p90 interval, OUT p99 interval,
								OUT candidate interval, OUT bound interval,
								OUT state text, OUT reason text, OUT beyond float8)
	RETURNS record
	LANGUAGE C STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'aion_late_bound';
COMMENT ON FUNCTION aion.late_bound(bytea, float8, float8, timestamptz, timestamptz) IS
	'what allowed_lateness ''auto'' makes of a histogram of late events, for the view aion.lateness';

CREATE VIEW aion.lateness WITH (security_barrier) AS
	SELECT d.stream, coalesce(l.events, 0) AS late_events, b.effective_events,
		   b.p50, b.p90, b.p99, b.bound, b.state, b.reason, b.beyond,
		   o.coverage, o.confidence, o.allowed_lateness,
		   b.needed_events, b.candidate,
		   CASE WHEN l.since IS NOT NULL THEN greatest(s.event_watermark - l.since, interval '0') END AS observed_for,
		   s.evidence_time
	  FROM aion.stream_def d
	  JOIN pg_catalog.pg_foreign_table t ON t.ftrelid = d.stream
	  LEFT JOIN aion.stream_state s ON s.stream = d.stream
	  LEFT JOIN aion.stream_lateness l ON l.stream = d.stream
	 CROSS JOIN LATERAL (
			SELECT coalesce(min(option_value) FILTER (WHERE option_name = 'lateness_coverage')::float8, 0.99) AS coverage,
				   coalesce(min(option_value) FILTER (WHERE option_name = 'lateness_confidence')::float8, 0.95) AS confidence,
				   coalesce(min(option_value) FILTER (WHERE option_name = 'allowed_lateness'), 'auto') AS allowed_lateness
			  FROM pg_catalog.pg_options_to_table(t.ftoptions)) o
	 CROSS JOIN LATERAL aion.late_bound(l.histogram, o.coverage, o.confidence, l.since, s.event_watermark) b
	 WHERE has_table_privilege(d.stream, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		OR has_any_column_privilege(d.stream, 'SELECT, INSERT, UPDATE, REFERENCES');
COMMENT ON VIEW aion.lateness IS 'how late events of streams come, and the allowed lateness that follows from it where that is ''auto''; as last written, every few seconds';
COMMENT ON COLUMN aion.lateness.late_events IS 'late events observed, once for each window that they were late for, also if it did not take them in';
COMMENT ON COLUMN aion.lateness.effective_events IS 'what the estimate is worth: older events count for less';
COMMENT ON COLUMN aion.lateness.p50 IS 'half of the late events were no later than that; to 2 percent';
COMMENT ON COLUMN aion.lateness.p90 IS '90 percent were no later than that';
COMMENT ON COLUMN aion.lateness.p99 IS '99 percent were no later than that';
COMMENT ON COLUMN aion.lateness.bound IS 'allowed lateness of windows that are made now, where it is ''auto''';
COMMENT ON COLUMN aion.lateness.state IS
	'initial: nothing to go by; learning: not enough yet; estimated: the bound follows from late events';
COMMENT ON COLUMN aion.lateness.reason IS 'why the bound is what it is';
COMMENT ON COLUMN aion.lateness.beyond IS 'share of the late events that were later than the bound';
COMMENT ON COLUMN aion.lateness.coverage IS 'option lateness_coverage of the stream';
COMMENT ON COLUMN aion.lateness.confidence IS 'option lateness_confidence of the stream';
COMMENT ON COLUMN aion.lateness.allowed_lateness IS 'of the stream; its views may have their own';
COMMENT ON COLUMN aion.lateness.needed_events IS 'effective events that an estimate takes';
COMMENT ON COLUMN aion.lateness.candidate IS 'the estimate so far, used or not';
COMMENT ON COLUMN aion.lateness.observed_for IS 'event time since the first late event: an estimate must not be more than a tenth of it';
COMMENT ON COLUMN aion.lateness.evidence_time IS
	'100 events lie at this time or later: no window with an ''auto'' lateness becomes final before that passes its end by its lateness';
GRANT SELECT ON aion.lateness TO PUBLIC;

CREATE VIEW aion.views WITH (security_barrier) AS
	SELECT d.view, d.results, ARRAY[d.stream] AS streams,
		   pg_get_viewdef(d.definition) AS definition,
		   CASE WHEN d.window_size = d.window_slide
				THEN format('tumbling(%L', d.window_size * interval '1 microsecond')
				ELSE format('sliding(%L, %L', d.window_size * interval '1 microsecond',
							d.window_slide * interval '1 microsecond')
		   END ||
		   CASE WHEN d.window_origin = timestamptz '2000-01-03 00:00:00+00' THEN ')'
				ELSE format(', origin => %L)', d.window_origin)
		   END AS window_spec,
		   CASE WHEN d.paused THEN 'paused' WHEN e.failed THEN 'failed' ELSE 'active' END AS state,
		   'list'::text AS state_kind,
		   coalesce(s.on_time_firings, 0) + f.on_time AS on_time_firings,
		   coalesce(s.early_firings, 0) + f.early AS early_firings,
		   coalesce(s.late_firings, 0) + f.late AS late_firings,
		   coalesce(s.final_firings, 0) + f.final AS final_firings,
		   CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN coalesce(e.error, CASE WHEN d.retain IS NOT NULL THEN s.removal_error END) END AS last_error,
		   d.early, d.allowed_lateness, d.staleness, d.retain, s.results_removed_through
	  FROM aion.view_def d
	  JOIN pg_catalog.pg_class c ON c.oid = d.view
	  LEFT JOIN aion.view_state s ON s.view = d.view
	 CROSS JOIN LATERAL (
			SELECT coalesce(sum(w.on_time), 0)::bigint AS on_time,
				   coalesce(sum(w.early), 0)::bigint AS early,
				   coalesce(sum(w.late), 0)::bigint AS late,
				   coalesce(sum(w.final), 0)::bigint AS final
			  FROM aion.window_firing w WHERE w.view = d.view) f
	  LEFT JOIN LATERAL (
			SELECT true AS failed, w.error
			  FROM aion.window_firing w WHERE w.view = d.view AND w.error IS NOT NULL
			 ORDER BY w.last_fired_at DESC NULLS LAST, w.window_start DESC LIMIT 1) e ON true
	 WHERE has_table_privilege(d.view, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		OR has_any_column_privilege(d.view, 'SELECT, INSERT, UPDATE, REFERENCES');
COMMENT ON VIEW aion.views IS 'continuous views';
COMMENT ON COLUMN aion.views.results IS 'table that holds the results: indexes and publications go there';
COMMENT ON COLUMN aion.views.state IS 'active, paused, or failed: the last execution of some window failed';
COMMENT ON COLUMN aion.views.state_kind IS 'what is kept: list = the events';
COMMENT ON COLUMN aion.views.on_time_firings IS 'first executions of complete windows';
COMMENT ON COLUMN aion.views.early_firings IS 'executions of windows that were not complete';
COMMENT ON COLUMN aion.views.late_firings IS 'later executions: for late events, or by aion.refresh()';
COMMENT ON COLUMN aion.views.final_firings IS 'windows that became final, executed for it or not';
COMMENT ON COLUMN aion.views.last_error IS 'of a window whose last execution failed, or of the last removal of results if that failed; shown to the owner';
COMMENT ON COLUMN aion.views.early IS 'how often windows that are not complete are computed; null: never';
COMMENT ON COLUMN aion.views.allowed_lateness IS 'of this view; null: the stream''s';
COMMENT ON COLUMN aion.views.staleness IS 'bound of this view; null: aion.staleness';
COMMENT ON COLUMN aion.views.retain IS 'how long after the end of their window results are kept, in event time; null: for ever';
COMMENT ON COLUMN aion.views.results_removed_through IS 'results of windows that end here or before were removed; null: none were';
GRANT SELECT ON aion.views TO PUBLIC;

/* What the staleness trigger expects of a view's windows; as in src/time/late_forecast.c. */
CREATE VIEW aion.late_forecast AS
	SELECT d.view, coalesce(d.staleness, current_setting('aion.staleness', true)::float8, 0) AS bound,
		   CASE WHEN cardinality(s.late_counts) >= 10
				THEN (SELECT avg(n) FROM unnest(s.late_counts) n)
				ELSE (SELECT avg(w.late_events) FROM aion.window_state w
					   WHERE w.view = d.view AND w.late_events > 0 AND NOT w.final)
		   END::float8 AS expected,
		   s.late_arrivals,
		   lower(coalesce(d.allowed_lateness, o.option_value, '')) = 'unlimited' AS unlimited
	  FROM aion.view_def d
	  LEFT JOIN aion.view_state s ON s.view = d.view
	  LEFT JOIN pg_catalog.pg_foreign_table t ON t.ftrelid = d.stream
	  LEFT JOIN LATERAL pg_catalog.pg_options_to_table(t.ftoptions) o ON o.option_name = 'allowed_lateness';
COMMENT ON VIEW aion.late_forecast IS 'what is expected of the late events of windows, for the view aion.windows';

CREATE VIEW aion.windows WITH (security_barrier) AS
	WITH v AS MATERIALIZED (SELECT * FROM aion.late_forecast)
	SELECT d.view, w.window_start,
		   l.window_end,
		   NULL::jsonb AS key,
		   CASE WHEN w.incomplete IS NOT NULL THEN 'incomplete'
				WHEN w.final AND NOT w.reopened THEN 'final'
				WHEN f.error IS NOT NULL THEN 'failed'
				WHEN coalesce(f.on_time, 0) = 0 THEN 'open'
				WHEN f.late > 0 OR w.late_events > 0 THEN 'late'
				ELSE 'on_time'
		   END AS state,
		   w.events, w.late_events,
		   coalesce(f.early + f.on_time + f.late + f.final, 0) AS firings,
		   f.last_fired_at,
		   CASE WHEN l.pending = 0 THEN 0
				WHEN l.pending > 0 THEN
					greatest(0, extract(epoch FROM k.clock - f.fired_clock)::float8)
					* l.pending / nullif(w.allowed_lateness / 1e6 * greatest(v.expected, w.late_events), 0)
		   END AS staleness,
		   CASE WHEN l.pending > 0 AND f.error IS NULL AND NOT w.final AND NOT d.paused
					 AND current_setting('aion.late_interval', true) <> '-1'
				THEN aion.late_firing_due(v.late_arrivals, v.bound, w.allowed_lateness, f.on_time_clock, f.fired_clock, k.clock,
										  l.window_end, s.event_watermark, l.pending, greatest(v.expected, w.late_events), v.unlimited,
										  now(), f.last_fired_at + current_setting('aion.late_interval', true)::interval)
		   END AS next_firing,
		   CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN f.error END AS error,
		   w.incomplete AS incomplete_reason,
		   w.events - coalesce(f.fired_events, 0) AS pending_events,
		   f.staging_wait
	  FROM aion.view_def d
	  JOIN pg_catalog.pg_class c ON c.oid = d.view
	  JOIN aion.stream_state s ON s.stream = d.stream
	 CROSS JOIN LATERAL (SELECT aion.lateness_clock(s.event_watermark, s.stood_still, s.stands_still_from) AS clock) k
	  JOIN v ON v.view = d.view
	  JOIN aion.window_state w ON w.view = d.view
	  LEFT JOIN aion.window_firing f ON f.view = w.view AND f.window_start = w.window_start
	 CROSS JOIN LATERAL (
			SELECT w.window_start + d.window_size * interval '1 microsecond' AS window_end,
				   CASE WHEN f.on_time > 0 AND w.incomplete IS NULL THEN w.events - f.fired_events END AS pending) l
	 WHERE has_table_privilege(d.view, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		OR has_any_column_privilege(d.view, 'SELECT, INSERT, UPDATE, REFERENCES');
COMMENT ON VIEW aion.windows IS 'windows that hold events, until their events are purged';
COMMENT ON COLUMN aion.windows.key IS 'null: windows of fixed size have none';
COMMENT ON COLUMN aion.windows.state IS
	'open: not complete; on_time: complete; late: had late events; failed: its last execution failed; final: takes in no more; incomplete: events are missing, it never fires again';
COMMENT ON COLUMN aion.windows.events IS 'events accounted for that did not come too late, before the query''s WHERE';
COMMENT ON COLUMN aion.windows.firings IS 'early, on-time, late and final firings together';
COMMENT ON COLUMN aion.windows.staleness IS
	'share of the late events that are expected which the result lacks, times the share of the allowed lateness since the last execution, by event time and, while the watermark stands still, by the clock; null: not executed on time yet';
COMMENT ON COLUMN aion.windows.next_firing IS
	'when late events that the result lacks are taken in if no more come and the watermark keeps pace with the clock';
COMMENT ON COLUMN aion.windows.error IS 'of the last execution if it failed; shown to the owner of the view';
COMMENT ON COLUMN aion.windows.incomplete_reason IS 'why the window is incomplete';
COMMENT ON COLUMN aion.windows.pending_events IS 'events that the result does not reflect yet';
COMMENT ON COLUMN aion.windows.staging_wait IS 'how long the last execution waited for compressed blocks to be read';
GRANT SELECT ON aion.windows TO PUBLIC;

CREATE FUNCTION aion.bucket_list(OUT stream regclass, OUT bucket_start timestamptz, OUT bucket_end timestamptz,
								 OUT state text, OUT memory_events bigint, OUT memory_bytes bigint,
								 OUT disk_events bigint, OUT disk_bytes bigint, OUT journal_events bigint,
								 OUT staged_bytes bigint)
	RETURNS SETOF record
	LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_bucket_list';
COMMENT ON FUNCTION aion.bucket_list() IS 'buckets, for the view aion.buckets';

CREATE VIEW aion.buckets AS
	SELECT stream, bucket_start, bucket_end, state, memory_events, memory_bytes,
		   disk_events, disk_bytes, journal_events, staged_bytes
	  FROM aion.bucket_list();
COMMENT ON VIEW aion.buckets IS 'buckets that hold events: where they are and what they take; without streams that somebody is changing';
COMMENT ON COLUMN aion.buckets.state IS 'filling; past: it goes, or went, to compressed blocks; staged: past, and blocks are copied to memory; purging: its events are removed';
COMMENT ON COLUMN aion.buckets.memory_events IS 'events in shared memory, also of transactions in progress';
COMMENT ON COLUMN aion.buckets.memory_bytes IS 'bytes of shared memory, in whole pages';
COMMENT ON COLUMN aion.buckets.disk_events IS 'events in compressed blocks';
COMMENT ON COLUMN aion.buckets.disk_bytes IS 'bytes of these blocks';
COMMENT ON COLUMN aion.buckets.journal_events IS 'events in the journal, in memory or not';
COMMENT ON COLUMN aion.buckets.staged_bytes IS 'bytes of shared memory, part of memory_bytes, that hold copies of compressed blocks';
GRANT SELECT ON aion.buckets TO PUBLIC;

CREATE FUNCTION aion.io_list(OUT kind text, OUT state text, OUT stream regclass, OUT bucket_start timestamptz,
							 OUT bucket_end timestamptz, OUT requests bigint, OUT bytes bigint, OUT events bigint,
							 OUT wait interval, OUT wait_p50 interval, OUT wait_p99 interval,
							 OUT service_p50 interval, OUT service_p99 interval)
	RETURNS SETOF record
	LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_io_list';
COMMENT ON FUNCTION aion.io_list() IS 'requests to the I/O worker, for the view aion.io';

CREATE VIEW aion.io AS
	SELECT kind, state, stream, bucket_start, bucket_end, requests, bytes, events,
		   wait, wait_p50, wait_p99, service_p50, service_p99
	  FROM aion.io_list();
COMMENT ON VIEW aion.io IS 'requests to the I/O worker of this database that are queued or running, those done by kind, and what serializers did';
COMMENT ON COLUMN aion.io.kind IS
	'in order of priority: stage, prestage (compressed blocks to memory), late (journal to compressed blocks), destage (memory to compressed blocks), purge; and what serializers did for these in the whole server: compress, decompress';
COMMENT ON COLUMN aion.io.state IS 'queued, running, or done: all of the kind since the server''s start';
COMMENT ON COLUMN aion.io.bytes IS 'so far; of stage and prestage as on disk, of destage in memory, of compress and decompress without compression';
COMMENT ON COLUMN aion.io.wait IS 'how long it has been, or was, queued';
COMMENT ON COLUMN aion.io.wait_p50 IS 'median of the times that requests were queued, up to the next power of two';
COMMENT ON COLUMN aion.io.service_p50 IS 'the same of the times that they took then';
GRANT SELECT ON aion.io TO PUBLIC;

CREATE FUNCTION aion.set_aside_event(id bigint) RETURNS jsonb
	LANGUAGE C STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'aion_set_aside_event';
COMMENT ON FUNCTION aion.set_aside_event(bigint) IS 'an event that was set aside, for the view aion.expired';

/* Starts of a view's windows that missed an event: those of the runs that were noted, if any were, else all that it falls in. */
CREATE FUNCTION aion.missed_windows(view regclass, size bigint, slide bigint, origin timestamptz, event_time timestamptz,
									views regclass[], first bigint[], last bigint[])
	RETURNS SETOF timestamptz LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT timestamptz '2000-01-01 00:00:00+00' + w * interval '1 microsecond'
	  FROM unnest($6, $7, $8) AS r (v, f, l)
	 CROSS JOIN LATERAL generate_series(f, l, $3) w
	 WHERE v = $1
	 UNION ALL
	SELECT $4 + w * interval '1 microsecond'
	  FROM (SELECT (extract(epoch FROM $5) * 1000000 - extract(epoch FROM $4) * 1000000)::bigint) t (since)
	 CROSS JOIN LATERAL generate_series(floor(since::numeric / $3)::bigint * $3, since - $2 + 1, -$3) w
	 WHERE $6 IS NULL;
END;
COMMENT ON FUNCTION aion.missed_windows(regclass, bigint, bigint, timestamptz, timestamptz, regclass[], bigint[], bigint[]) IS
	'starts of the windows of a view in which a set-aside event does not count, for the view aion.expired';

CREATE VIEW aion.expired WITH (security_barrier) AS
	SELECT s.id, s.stream, s.event_time, aion.set_aside_event(s.id) AS event,
		   s.arrived_at, s.reason, s.partial,
		   s.event_watermark - s.event_time AS lateness,
		   (SELECT coalesce(jsonb_agg(jsonb_build_object('view', d.view::text, 'window_start', m.start)
									  ORDER BY d.view::text, m.start), '[]')
			  FROM aion.view_def d
			 CROSS JOIN LATERAL aion.missed_windows(d.view, d.window_size, d.window_slide, d.window_origin, s.event_time,
				s.missed_views, s.missed_first, s.missed_last) m(start)
			 WHERE d.stream = s.stream) AS windows
	  FROM aion.set_aside s
	 WHERE has_table_privilege(s.stream, 'SELECT');
COMMENT ON VIEW aion.expired IS 'events that were set aside, of streams that you may read';
COMMENT ON COLUMN aion.expired.arrived_at IS 'when the event was accounted for';
COMMENT ON COLUMN aion.expired.reason IS 'why it was set aside';
COMMENT ON COLUMN aion.expired.partial IS 'true: a copy; the event still counts in other windows';
COMMENT ON COLUMN aion.expired.lateness IS 'how far it was behind the event watermark then; negative, or null if there was none: it was ahead';
COMMENT ON COLUMN aion.expired.windows IS 'views and windows in which it does not count';
GRANT SELECT ON aion.expired TO PUBLIC;
