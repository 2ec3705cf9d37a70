-- Options of a stream: what is accepted, and how a bad one is refused.
\set VERBOSITY default
\set SHOW_CONTEXT never

-- all of them, with the values that differ from the defaults
CREATE FOREIGN TABLE opt_all (a int, at timestamptz) SERVER aion OPTIONS (
	event_time 'at', bucket_width '90 minutes', watermark_delay '5 seconds',
	watermark_interval '1 s', watermark 'manual', idle_timeout 'off', max_ahead 'off',
	allowed_lateness '2 months 3 days', on_expired 'error', durable 'off', compression 'none');
-- the other spellings
CREATE FOREIGN TABLE opt_more (a int, at timestamp) SERVER aion OPTIONS (
	event_time 'at', idle_timeout '10 s', max_ahead '0', allowed_lateness 'unlimited',
	on_expired 'drop', durable 'true', compression 'lz4');
DROP FOREIGN TABLE opt_all, opt_more;

-- an interval means the same under every IntervalStyle
SET IntervalStyle = sql_standard;
CREATE FOREIGN TABLE opt_style (at timestamptz)
	SERVER aion OPTIONS (event_time 'at', watermark_delay '-1 day 25:00:00');
RESET IntervalStyle;
DROP FOREIGN TABLE opt_style;

-- event_time: required, a fit column
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion;
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (bucket_width '1 hour');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time '');
CREATE FOREIGN TABLE bad (at timestamptz, b timestamp, c date) SERVER aion OPTIONS (event_time 'nix');
CREATE FOREIGN TABLE bad (at timestamptz, b timestamp, c date) SERVER aion OPTIONS (event_time 'c');
CREATE FOREIGN TABLE bad (c text) SERVER aion OPTIONS (event_time 'c');

-- unknown, and not supported yet
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucketwidth '1 hour');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark_every '100');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark_when 'true');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark_source 'a');

-- bad values
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucket_width '0');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucket_width '-1 hour');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucket_width '1 month');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucket_width '1001 days');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucket_width 'an hour');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', bucket_width '');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark_delay '-1 s');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark_interval '0');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', watermark 'automatic');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout '0');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', idle_timeout 'never');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', max_ahead '-1 s');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', allowed_lateness '1 month -1 day');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', allowed_lateness '20000 years');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', allowed_lateness 'automatic');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', lateness_coverage '1');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', lateness_coverage '0');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', lateness_coverage '99 %');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', lateness_confidence 'nan');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', lateness_confidence '-0.5');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', lateness_confidence '');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', on_expired 'ignore');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', durable 'perhaps');
CREATE FOREIGN TABLE bad (at timestamptz) SERVER aion OPTIONS (event_time 'at', compression 'zip');

-- only foreign tables have options
ALTER FOREIGN DATA WRAPPER aion OPTIONS (event_time 'at');
CREATE SERVER other FOREIGN DATA WRAPPER aion OPTIONS (host 'nowhere');
CREATE USER MAPPING FOR CURRENT_USER SERVER aion OPTIONS (password 'secret');
CREATE FOREIGN TABLE bad (at timestamptz OPTIONS (name 'x')) SERVER aion OPTIONS (event_time 'at');

-- none of all that has left anything behind
SELECT count(*) FROM pg_class WHERE relname IN ('bad', 'opt_all', 'opt_more', 'opt_style');
