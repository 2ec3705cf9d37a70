/* Control: functions that ask the workers, and the workers themselves. */

CREATE FUNCTION aion.sync(stream regclass, late bool DEFAULT false,
						  timeout interval DEFAULT interval '1 minute') RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_sync';
COMMENT ON FUNCTION aion.sync(regclass, bool, interval) IS
	'waits until everything committed in a stream is accounted for and every window that is due has its result';

CREATE FUNCTION aion.refresh(view regclass, window_start timestamptz DEFAULT NULL,
							 timeout interval DEFAULT interval '10 minutes') RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_refresh';
COMMENT ON FUNCTION aion.refresh(regclass, timestamptz, interval) IS
	'executes the windows of a view that have news, or one window, and waits for their results';

CREATE FUNCTION aion.destage(stream regclass, timeout interval DEFAULT interval '10 minutes') RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_destage';
COMMENT ON FUNCTION aion.destage(regclass, interval) IS
	'moves all committed events of a stream from memory and journal to compressed blocks';

CREATE FUNCTION aion.stage(stream regclass, start_time timestamptz, end_time timestamptz,
						   timeout interval DEFAULT interval '10 minutes') RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_stage';
COMMENT ON FUNCTION aion.stage(regclass, timestamptz, timestamptz, interval) IS
	'copies compressed blocks of a time range to shared memory, as far as there is room, and returns their bytes';

CREATE FUNCTION aion.watermark(stream regclass) RETURNS timestamptz
	LANGUAGE C STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'aion_watermark';
COMMENT ON FUNCTION aion.watermark(regclass) IS
	'watermark of a stream: no event before it is expected any more';

CREATE FUNCTION aion.advance_watermark(stream regclass, ts timestamptz) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_advance_watermark';
COMMENT ON FUNCTION aion.advance_watermark(regclass, timestamptz) IS
	'raises the watermark of a stream at commit';

CREATE FUNCTION aion.reset_watermark(stream regclass, ts timestamptz,
									 timeout interval DEFAULT interval '10 minutes') RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_reset_watermark';
COMMENT ON FUNCTION aion.reset_watermark(regclass, timestamptz, interval) IS
	'lowers the watermark of a stream, but not below what is final';

CREATE FUNCTION aion.readmit(VARIADIC ids bigint[]) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_readmit';
COMMENT ON FUNCTION aion.readmit(bigint[]) IS
	'applies events of a stream that were set aside, all or none, computes their windows again and waits for the results';

CREATE FUNCTION aion.worker_status(OUT pid int, OUT database oid, OUT role text, OUT state text,
								   OUT since timestamptz, OUT last_error text)
	RETURNS SETOF record
	LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'aion_worker_status';
COMMENT ON FUNCTION aion.worker_status() IS 'live workers, for the view aion.workers';

CREATE VIEW aion.workers AS
	SELECT w.pid, d.datname AS database, w.role, w.state, w.since, w.last_error
	  FROM aion.worker_status() w
	  LEFT JOIN pg_catalog.pg_database d ON d.oid = w.database;
COMMENT ON VIEW aion.workers IS 'live worker processes of aion in all databases, and databases that wait for one';
COMMENT ON COLUMN aion.workers.pid IS 'null: the scheduler of a database, for which no worker slot is free';
COMMENT ON COLUMN aion.workers.database IS 'the one it serves; null: the launcher and serializers, which serve all';
COMMENT ON COLUMN aion.workers.role IS 'launcher, scheduler, io, executor or serializer';
COMMENT ON COLUMN aion.workers.since IS 'when the state began';
COMMENT ON COLUMN aion.workers.last_error IS
	'last error of such a worker in that database, also of a former one; shown to pg_read_all_stats';
GRANT SELECT ON aion.workers TO PUBLIC;

/* Once this is committed the launcher finds the extension here. */
CREATE FUNCTION aion.start_workers() RETURNS void
	LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'aion_start_workers';
COMMENT ON FUNCTION aion.start_workers() IS 'has the launcher look at this database after commit';
REVOKE ALL ON FUNCTION aion.start_workers() FROM PUBLIC;
SELECT aion.start_workers();
