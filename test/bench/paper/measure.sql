-- Where a run's measurements go. A run begins with empty tables.

-- Each part of a step: a COPY of on-time events, then one of late events, and how long they took.
CREATE TABLE copies (step int, now_events bigint, now_time interval, late_events bigint, late_time interval);

-- Each step of the watermark: where to, and when the transactions had committed that moved it there and, a second
-- further, made the oldest windows final; and when the latter had all their results.
CREATE TABLE steps (step int, watermark timestamptz, began timestamptz, moved timestamptz, moved_further timestamptz, ended timestamptz);

-- Each execution of a window.
CREATE TABLE firings (window_start timestamptz, kind text, events bigint, began timestamptz, ended timestamptz);

-- Memory, sampled by sample.pl.
CREATE TABLE samples (at float8, memory_bytes bigint, disk_bytes bigint, private_bytes bigint);

-- The executor's transaction begins with the execution; this row is its last but one step.
CREATE FUNCTION record_firing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.firings VALUES (NEW.window_start, CASE WHEN NEW.on_time > OLD.on_time THEN 'on time'
		WHEN NEW.final > OLD.final THEN 'final' ELSE 'other' END, NEW.fired_events, now(), clock_timestamp());
	RETURN NULL;
END $$;
CREATE TRIGGER record_firing AFTER UPDATE OF fired_events ON aion.window_firing
	FOR EACH ROW EXECUTE FUNCTION record_firing();
