
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

/*
 * Rows of these tables that come with a dump: what they name is made parts of its stream or view, so that it goes with it
 * also before the restore is complete. In what order a dump fills the tables is not known.
 */
CREATE FUNCTION aion.tie_restored() RETURNS trigger
	LANGUAGE C
	AS 'MODULE_PATHNAME', 'aion_tie_restored';
COMMENT ON FUNCTION aion.tie_restored() IS 'trigger function, for aion''s own tables';
REVOKE ALL ON FUNCTION aion.tie_restored() FROM PUBLIC;
CREATE TRIGGER tie_restored AFTER INSERT ON aion.stream_def FOR EACH ROW EXECUTE FUNCTION aion.tie_restored();
CREATE TRIGGER tie_restored AFTER INSERT ON aion.view_def FOR EACH ROW EXECUTE FUNCTION aion.tie_restored();
