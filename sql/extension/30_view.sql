/*
 * Continuous views: what windows they have, and making, changing and dropping
 * them. The functions run with the caller's rights and check ownership
 * themselves.
 */
CREATE TYPE aion.window_spec AS (
	kind		text,			-- 'tumbling' or 'sliding'
	size		interval,
	slide		interval,
	origin		timestamptz,	-- NULL: Monday 2000-01-03 00:00 UTC
	timezone	text
);
COMMENT ON TYPE aion.window_spec IS 'how event time is cut into windows; made by aion.tumbling() and aion.sliding()';

CREATE FUNCTION aion.tumbling(size interval, origin timestamptz DEFAULT NULL, timezone text DEFAULT NULL)
	RETURNS aion.window_spec LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_tumbling';
COMMENT ON FUNCTION aion.tumbling(interval, timestamptz, text) IS
	'windows of one size, each beginning where the one before ends';

CREATE FUNCTION aion.sliding(size interval, slide interval, origin timestamptz DEFAULT NULL, timezone text DEFAULT NULL)
	RETURNS aion.window_spec LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_sliding';
COMMENT ON FUNCTION aion.sliding(interval, interval, timestamptz, text) IS
	'windows of one size that begin every "slide"; they may overlap or leave gaps';

CREATE FUNCTION aion.session(gap interval, key text DEFAULT NULL)
	RETURNS aion.window_spec LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_session';
COMMENT ON FUNCTION aion.session(interval, text) IS 'session windows; not supported in this version';

CREATE FUNCTION aion.session(gap interval, key text[])
	RETURNS aion.window_spec LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_session';
COMMENT ON FUNCTION aion.session(interval, text[]) IS 'session windows; not supported in this version';

CREATE FUNCTION aion.counting(size bigint, slide bigint DEFAULT NULL, key text DEFAULT NULL)
	RETURNS aion.window_spec LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_counting';
COMMENT ON FUNCTION aion.counting(bigint, bigint, text) IS 'count windows; not supported in this version';

/*
 * allowed_lateness is text in the first form, so that 'unlimited' can be
 * given; a literal such as '2 hours' is taken there, too. The second form
 * takes a value of type interval; being the only one in which
 * allowed_lateness has no default, it never competes when that is left out.
 */
CREATE FUNCTION aion.create_view(
	name text, query text, window_spec aion.window_spec,
	staleness float8 DEFAULT NULL, early interval DEFAULT NULL, allowed_lateness text DEFAULT NULL,
	emit_to regclass DEFAULT NULL, history bool DEFAULT NULL, backfill bool DEFAULT true,
	retain interval DEFAULT NULL, if_not_exists bool DEFAULT false)
	RETURNS regclass LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_create_view';
COMMENT ON FUNCTION aion.create_view(text, text, aion.window_spec, float8, interval, text, regclass, bool, bool, interval, bool) IS
	'creates a continuous view: a query that is run once per window of a stream';

CREATE FUNCTION aion.create_view(
	name text, query text, window_spec aion.window_spec, allowed_lateness interval,
	staleness float8 DEFAULT NULL, early interval DEFAULT NULL,
	emit_to regclass DEFAULT NULL, history bool DEFAULT NULL, backfill bool DEFAULT true,
	retain interval DEFAULT NULL, if_not_exists bool DEFAULT false)
	RETURNS regclass LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_create_view_interval';
COMMENT ON FUNCTION aion.create_view(text, text, aion.window_spec, interval, float8, interval, regclass, bool, bool, interval, bool) IS
	'creates a continuous view: a query that is run once per window of a stream';

CREATE FUNCTION aion.alter_view(
	view regclass, early interval DEFAULT NULL, allowed_lateness text DEFAULT NULL,
	owner regrole DEFAULT NULL, reset text[] DEFAULT NULL, staleness float8 DEFAULT NULL,
	retain interval DEFAULT NULL)
	RETURNS void LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_alter_view';
COMMENT ON FUNCTION aion.alter_view(regclass, interval, text, regrole, text[], float8, interval) IS
	'changes options of a continuous view; "reset" names those to be set back to their defaults';

CREATE FUNCTION aion.alter_view(
	view regclass, allowed_lateness interval, early interval DEFAULT NULL,
	owner regrole DEFAULT NULL, reset text[] DEFAULT NULL, staleness float8 DEFAULT NULL,
	retain interval DEFAULT NULL)
	RETURNS void LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_alter_view_interval';
COMMENT ON FUNCTION aion.alter_view(regclass, interval, interval, regrole, text[], float8, interval) IS
	'changes options of a continuous view; "reset" names those to be set back to their defaults';

CREATE FUNCTION aion.drop_view(view regclass)
	RETURNS void LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_drop_view';
COMMENT ON FUNCTION aion.drop_view(regclass) IS 'drops a continuous view with its results, as DROP VIEW does';

CREATE FUNCTION aion.pause_view(view regclass)
	RETURNS void LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_pause_view';
COMMENT ON FUNCTION aion.pause_view(regclass) IS
	'stops computing windows of a continuous view, also one that is being computed; its events are kept';

CREATE FUNCTION aion.resume_view(view regclass)
	RETURNS void LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_resume_view';
COMMENT ON FUNCTION aion.resume_view(regclass) IS
	'goes on with a paused continuous view, beginning with what became due meanwhile';

CREATE FUNCTION aion.staleness_plan(distribution float8[], bound float8, since float8 DEFAULT 0)
	RETURNS float8[] LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_staleness_plan';
COMMENT ON FUNCTION aion.staleness_plan(float8[], float8, float8) IS
	'when a window is executed for late events, in shares of its allowed lateness, so that staleness stays within a bound; "distribution" has how many come in each of equal parts of it, null means uniform';

CREATE FUNCTION aion.lateness_clock(watermark timestamptz, stood_still bigint, stands_still_from timestamptz)
	RETURNS timestamptz LANGUAGE C STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_lateness_clock';
COMMENT ON FUNCTION aion.lateness_clock(timestamptz, bigint, timestamptz) IS
	'event time by which late firings go: the watermark, and the clock where it stands still; for the view aion.windows';

CREATE FUNCTION aion.late_firing_due(arrivals bytea, bound float8, lateness bigint, on_time timestamptz,
									 fired timestamptz, clock timestamptz, window_end timestamptz, watermark timestamptz,
									 late bigint, expected float8, unlimited boolean, now timestamptz, not_before timestamptz)
	RETURNS timestamptz LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'aion_late_firing_due';
COMMENT ON FUNCTION aion.late_firing_due(bytea, float8, bigint, timestamptz, timestamptz, timestamptz, timestamptz, timestamptz, bigint, float8, boolean, timestamptz, timestamptz) IS
	'when a window is executed for its late events, for the view aion.windows';

CREATE FUNCTION aion.window_start()
	RETURNS timestamptz LANGUAGE C STABLE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'aion_window_start';
COMMENT ON FUNCTION aion.window_start() IS 'in the query of a continuous view: start of the window being computed';

CREATE FUNCTION aion.window_end()
	RETURNS timestamptz LANGUAGE C STABLE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'aion_window_end';
COMMENT ON FUNCTION aion.window_end() IS 'in the query of a continuous view: end of the window being computed';
