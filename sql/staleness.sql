-- What the staleness trigger plans, and its options.
CREATE FUNCTION pg_temp.plan(distribution float8[], bound float8, since float8 DEFAULT 0) RETURNS text
	LANGUAGE sql AS $$ SELECT string_agg(round(x::numeric, 4)::text, ' ' ORDER BY x) FROM unnest(aion.staleness_plan(distribution, bound, since)) x $$;
-- Nothing known: as if events came evenly. As few executions as keep the bound, then as fresh as so many can be.
SELECT pg_temp.plan(NULL, 0.10), pg_temp.plan(NULL, 0.05);
SELECT cardinality(aion.staleness_plan(NULL, 0.01)) AS ten, cardinality(aion.staleness_plan(NULL, 1)) AS one;
-- Most events come early: so do executions.
SELECT pg_temp.plan('{16,8,4,2,1,0,0,0}', 0.05), pg_temp.plan('{0,0,0,0,0,0,0,1}', 0.05);
-- The rest of a plan is a plan of the rest.
SELECT pg_temp.plan(NULL, 0.05, 0.2), pg_temp.plan(NULL, 0.05, 0.5);
SELECT aion.staleness_plan(NULL, NULL) IS NULL AS nothing;
SELECT aion.staleness_plan(NULL, 0);
SELECT aion.staleness_plan(NULL, 1.1);
SELECT aion.staleness_plan(NULL, 'NaN');
SELECT aion.staleness_plan(NULL, 1e-10);
SELECT aion.staleness_plan('{}', 0.1);
SELECT aion.staleness_plan('{1,-1}', 0.1);
SELECT aion.staleness_plan('{1,NULL}', 0.1);
SELECT aion.staleness_plan('{0,0}', 0.1);
SELECT aion.staleness_plan('{1,Infinity}', 0.1);
SELECT aion.staleness_plan('{{1},{2}}', 0.1);
SELECT aion.staleness_plan(NULL, 0.1, 1);

CREATE FOREIGN TABLE stale_s (at timestamptz NOT NULL) SERVER aion OPTIONS (event_time 'at', watermark 'manual');
SELECT aion.create_view('stale_v', 'SELECT count(*) FROM stale_s', aion.tumbling('1 hour'), staleness => -0.1);
SELECT aion.create_view('stale_v', 'SELECT count(*) FROM stale_s', aion.tumbling('1 hour'), staleness => 'NaN');
SELECT aion.create_view('stale_v', 'SELECT count(*) FROM stale_s', aion.tumbling('1 hour'), staleness => 0.05);
SELECT staleness FROM aion.view_def WHERE view = 'stale_v'::regclass;
SELECT aion.alter_view('stale_v', staleness => 2);
SELECT aion.alter_view('stale_v', staleness => 0.5);
SELECT staleness FROM aion.view_def WHERE view = 'stale_v'::regclass;
SELECT aion.alter_view('stale_v', reset => '{staleness}');
SELECT staleness FROM aion.view_def WHERE view = 'stale_v'::regclass;
SELECT name, setting, unit, min_val, max_val, short_desc FROM pg_settings WHERE name = 'aion.staleness';
DROP FOREIGN TABLE stale_s CASCADE;
