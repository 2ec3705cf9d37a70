/* Loaded by CREATE EXTENSION only. */
\echo Use "CREATE EXTENSION aion" to load this file. \quit

/* Names and operators mean the server's, whatever somebody may have put in schema aion before. */
SET LOCAL search_path = pg_catalog, pg_temp;

/*
 * All of aion's schemas are the extension's own: nobody can have made one before
 * it, and a dump leaves them to CREATE EXTENSION.
 */
CREATE SCHEMA aion;
COMMENT ON SCHEMA aion IS 'functions and inspection views of aion, event-time stream processing';
GRANT USAGE ON SCHEMA aion TO PUBLIC;

/*
 * Tables that hold what must survive a restart. They are written by aion's C
 * code and workers alone; users read the inspection views. Whatever names a
 * relation is a regclass, so that a dump carries names and not OIDs.
 */
CREATE SCHEMA aion_data;
COMMENT ON SCHEMA aion_data IS 'journals and p-buckets of aion streams';

CREATE SCHEMA aion_results;
COMMENT ON SCHEMA aion_results IS 'result tables of aion continuous views';
GRANT USAGE, CREATE ON SCHEMA aion_results TO PUBLIC;

/*
 * What copies of this database's files have and dumps have not, so that entries
 * of a dump can be told from the database's own. Never dumped.
 */
CREATE TABLE aion.database (
	id			uuid NOT NULL
);
INSERT INTO aion.database VALUES (pg_catalog.gen_random_uuid());
COMMENT ON TABLE aion.database IS 'identity of this database';

/* A stream's storage: made at its first insert or view, replaced by TRUNCATE. */
CREATE TABLE aion.stream_def (
	stream		regclass PRIMARY KEY,
	home		text NOT NULL,		-- aion.database.id and the OID of the journal; another: restored, not taken over yet
	journal		regclass NOT NULL,
	blocks		regclass NOT NULL,	-- table of p-bucket blocks
	bucket_width bigint NOT NULL CHECK (bucket_width > 0),	-- microseconds
	durable		bool NOT NULL
);
COMMENT ON TABLE aion.stream_def IS 'storage of each stream that has some';

/* What accounting decided. Written by the scheduler alone, but for TRUNCATE. Sessions read columns by number: new ones come last. */
CREATE TABLE aion.stream_state (
	stream		regclass PRIMARY KEY,
	accounted	pg_snapshot NOT NULL,	-- what is visible in it is accounted for
	watermark	timestamptz,			-- W
	event_watermark timestamptz,		-- W_e, the part that idle time did not move
	last_window_end timestamptz,		-- end of the last window that held an event
	events		bigint NOT NULL DEFAULT 0,
	late_events bigint NOT NULL DEFAULT 0,
	expired_events bigint NOT NULL DEFAULT 0,
	last_event_at timestamptz,			-- when an event was last accounted for
	purged_time timestamptz,			-- greatest event time among purged events
	evidence_time timestamptz,			-- at this time or later lie 100 events, those ahead of the clock not counted
	expired_through timestamptz,		-- under allowed_lateness 'auto', windows without a row that end here or before take in no event
	/* the lateness clock: W_e, and how long it stood still */
	stood_still	bigint NOT NULL DEFAULT 0,	-- microseconds before it moved last, as far as it did not make up for them
	stands_still_from timestamptz		-- from here on it stands still again; may be yet to come
) WITH (fillfactor = 50);
COMMENT ON TABLE aion.stream_state IS 'accounting state of each stream';

/* How late events come. Written by the scheduler now and then, but for TRUNCATE. */
CREATE TABLE aion.stream_lateness (
	stream		regclass PRIMARY KEY,
	histogram	bytea NOT NULL,			-- as src/time/late_histogram.c packs it
	events		bigint NOT NULL,		-- late events of windows ever observed
	since		timestamptz				-- W_e at the first one
) WITH (fillfactor = 50);
COMMENT ON TABLE aion.stream_lateness IS 'how late the late events of each stream come';

/* Columns added to a stream that held events: what the earlier ones show. */
CREATE TABLE aion.added_column (
	stream		regclass NOT NULL,
	position	int NOT NULL,			-- among the columns that were not dropped
	value		text,					-- output form; NULL shows as NULL
	PRIMARY KEY (stream, position)
);
COMMENT ON TABLE aion.added_column IS 'values of columns added after events were stored';

CREATE TABLE aion.view_def (
	view		regclass PRIMARY KEY,
	stream		regclass NOT NULL,
	definition	regclass NOT NULL,		-- plain view that holds the query
	results		regclass NOT NULL,
	window_size bigint NOT NULL CHECK (window_size > 0),	-- microseconds
	window_slide bigint NOT NULL CHECK (window_slide > 0),	-- microseconds
	window_origin timestamptz NOT NULL,
	early		interval,				-- NULL: no early firings
	allowed_lateness text,				-- NULL: the stream's
	staleness	float8 CHECK (staleness BETWEEN 0 AND 1),	-- NULL: as aion.staleness says
	retain		interval,				-- NULL: results stay for ever
	backfill	bool NOT NULL,
	paused		bool NOT NULL DEFAULT false,
	settings	text[] NOT NULL			-- name=value pairs that can change an answer
);
CREATE INDEX view_def_stream ON aion.view_def (stream);
COMMENT ON TABLE aion.view_def IS 'continuous views';

/*
 * Made by the scheduler in the pass that takes the view up (counting the
 * retained events); its absence means that the view was not taken up yet.
 */
CREATE TABLE aion.view_state (
	view		regclass PRIMARY KEY,
	final_through timestamptz,			-- greatest end of a final window; one without a row that ends here or before is final
	final_until timestamptz,			-- greatest end + allowed lateness of a final window
	early_firings bigint NOT NULL DEFAULT 0,	-- firings of windows that were purged
	on_time_firings bigint NOT NULL DEFAULT 0,
	late_firings bigint NOT NULL DEFAULT 0,
	final_firings bigint NOT NULL DEFAULT 0,
	begins		timestamptz,			-- windows that start earlier are not the view's (backfill => false)
	incomplete_before timestamptz,		-- without a row, windows that start earlier are incomplete: events were purged
	late_counts	bigint[],				-- late events of the windows that became final last, oldest first
	late_arrivals bytea,				-- when late events come, as the scheduler packs it
	results_removed_through timestamptz,	-- windows that end here or before have no results any more ("retain")
	removal_error text					-- of the last attempt to remove results, if it failed; written by executors
) WITH (fillfactor = 50);
COMMENT ON TABLE aion.view_state IS 'progress of continuous views, and firings of their purged windows';

/* Accounting's half of a window. Written by the scheduler alone. */
CREATE TABLE aion.window_state (
	view		regclass NOT NULL,
	window_start timestamptz NOT NULL,
	events		bigint NOT NULL,		-- accounted, not expired
	late_events bigint NOT NULL DEFAULT 0,
	allowed_lateness bigint NOT NULL,	-- microseconds; what it was, or was taken for, when the row was made; if 'auto', what it stays
	final		bool NOT NULL DEFAULT false,
	incomplete	text,					-- why it is incomplete; NULL: it is not
	reopened	bool NOT NULL DEFAULT false,	-- takes in nothing, but is executed once more, for readmitted events; then final
	PRIMARY KEY (view, window_start)
) WITH (fillfactor = 70);
COMMENT ON TABLE aion.window_state IS 'what is accounted for in each window';

/* The executors' half of a window: what its result reflects. */
CREATE TABLE aion.window_firing (
	view		regclass NOT NULL,
	window_start timestamptz NOT NULL,
	fired_events bigint NOT NULL DEFAULT 0,	-- window_state.events of the last execution
	early		int NOT NULL DEFAULT 0,
	on_time		int NOT NULL DEFAULT 0,
	late		int NOT NULL DEFAULT 0,
	final		int NOT NULL DEFAULT 0,
	last_fired_at timestamptz,
	fired_clock timestamptz,			-- the lateness clock (W_e, and how long it stood still) of that execution; -infinity: no W_e yet
	on_time_clock timestamptz,			-- the same of the on-time execution, or of the last one before it
	staging_wait interval,				-- of the last execution: for blocks of p-buckets
	error		text,					-- of the last attempt, if it failed
	sqlstate	text,
	PRIMARY KEY (view, window_start)
) WITH (fillfactor = 70);
COMMENT ON TABLE aion.window_firing IS 'executions of each window';

/* Events that came too late for all their windows, or too far ahead of the clock. */
CREATE TABLE aion.set_aside (
	id			bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	stream		regclass NOT NULL,
	event_time	timestamptz NOT NULL,
	event		bytea NOT NULL,			-- as packed in the journal
	arrived_at	timestamptz NOT NULL,	-- when it was accounted for
	reason		text NOT NULL,
	partial		bool NOT NULL,			-- a copy: the event counts in other windows
	event_watermark timestamptz,		-- W_e in force then
	/* of a copy, the windows that missed the event, in runs: view, start of the first and of the last (microseconds since 2000) */
	missed_views regclass[],
	missed_first bigint[],
	missed_last bigint[]
);
CREATE INDEX set_aside_stream ON aion.set_aside (stream, event_time);
COMMENT ON TABLE aion.set_aside IS 'events set aside';

/*
 * A restore refreshes materialized views when all data and all other objects
 * are there, also a parallel one; so being refreshed, this one tells that
 * streams are complete, and they are taken over (src/stream/adopt.c).
 */
CREATE MATERIALIZED VIEW aion.restored AS SELECT pg_catalog.now() AS at;
COMMENT ON MATERIALIZED VIEW aion.restored IS 'when the last restore into this database was complete; refreshing it is its last step';

/* Rows of views that were dropped are left out: what they name has no name any more. */
SELECT pg_catalog.pg_extension_config_dump('aion.stream_def', '');
SELECT pg_catalog.pg_extension_config_dump('aion.stream_state', '');
SELECT pg_catalog.pg_extension_config_dump('aion.stream_lateness', '');
SELECT pg_catalog.pg_extension_config_dump('aion.added_column', '');
SELECT pg_catalog.pg_extension_config_dump('aion.view_def', '');
SELECT pg_catalog.pg_extension_config_dump('aion.view_state', 'WHERE view IN (SELECT view FROM aion.view_def)');
SELECT pg_catalog.pg_extension_config_dump('aion.window_state', 'WHERE view IN (SELECT view FROM aion.view_def)');
SELECT pg_catalog.pg_extension_config_dump('aion.window_firing', 'WHERE view IN (SELECT view FROM aion.view_def)');
SELECT pg_catalog.pg_extension_config_dump('aion.set_aside', '');
SELECT pg_catalog.pg_extension_config_dump('aion.set_aside_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('aion.restored', '');
