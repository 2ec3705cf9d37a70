
/* Streams: foreign tables on server aion. Creating one needs USAGE on that server. */
CREATE FUNCTION aion.aion_fdw_handler() RETURNS fdw_handler
	LANGUAGE C STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION aion.aion_fdw_handler() IS 'handler of foreign-data wrapper aion';

CREATE FUNCTION aion.aion_fdw_validator(options text[], catalog oid) RETURNS void
	LANGUAGE C STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION aion.aion_fdw_validator(text[], oid) IS 'checks the options of streams';

CREATE FOREIGN DATA WRAPPER aion
	HANDLER aion.aion_fdw_handler
	VALIDATOR aion.aion_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER aion IS 'event-time streams';

CREATE SERVER aion FOREIGN DATA WRAPPER aion;
COMMENT ON SERVER aion IS 'streams of this database';

CREATE FUNCTION aion.feed() RETURNS trigger
	LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_feed';
COMMENT ON FUNCTION aion.feed() IS 'trigger function: copies an ordinary table''s new rows into the stream that its argument names';
