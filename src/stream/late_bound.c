/*
 * late_bound.c
 *	  Allowed lateness 'auto': what a stream's options ask of the bound, and
 *	  the bound that a kept histogram gives, for SQL.
 *
 * The arithmetic is src/time/late_histogram.c's. Who observes late events, and
 * when a new bound counts, is the scheduler's matter (worker/auto_lateness.c).
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "stream/stream.h"

/* GUC, in seconds. */
int			aion_initial_lateness = 30 * 24 * 3600;

PG_FUNCTION_INFO_V1(aion_late_bound);

/* The least bound: less is not worth the surprise when a clock is a bit off. */
#define BOUND_MIN		EVENT_TIME_SECOND

/* So many late events are remembered at least. */
#define MEMORY_MIN		5000

#define BOUND_COLUMNS	10

/* What is asked of the bound. */
void
stream_late_bound_config(double coverage, double confidence, LateBoundConfig *config)
{
	memset(config, 0, sizeof(*config));
	config->coverage = coverage;
	config->confidence = confidence;
	config->initial = (int64) aion_initial_lateness * EVENT_TIME_SECOND;
	config->minimum = BOUND_MIN;
}

/* How many late events a histogram must remember for that: twice as many as it takes. */
double
stream_late_memory(const LateBoundConfig *config)
{
	double		needed = (double) late_bound_events_needed(config->coverage, config->confidence);

	return Max(MEMORY_MIN, 2 * needed);
}

/* A lateness as interval, with days; "beyond", the histogram's own limit, is NULL. */
static Datum
lateness_datum(int64 lateness, bool *isnull)
{
	Interval   *interval = palloc0(sizeof(Interval));

	*isnull = lateness == LATENESS_BEYOND;
	if (*isnull)
		return (Datum) 0;
	interval->day = (int32) (lateness / EVENT_TIME_DAY);
	interval->time = lateness % EVENT_TIME_DAY;
	return IntervalPGetDatum(interval);
}

static const char *
state_name(LateBoundState state)
{
	switch (state)
	{
		case LATE_BOUND_INITIAL:
			return "initial";
		case LATE_BOUND_LEARNING:
			return "learning";
		case LATE_BOUND_ESTIMATED:
			return "estimated";
	}
	return "unknown";
}

/* Fills in one of aion_late_bound()'s columns for a share of the late events. */
static void
quantile_column(const LateHistogram *histogram, double share, Datum *value, bool *isnull)
{
	*value = lateness_datum(late_histogram_quantile(histogram, share), isnull);
	*isnull |= late_histogram_events(histogram) == 0;
}

/*
 * aion.late_bound(histogram bytea, coverage float8, confidence float8,
 *				   observed_since timestamptz, event_watermark timestamptz,
 *				   OUT effective_events float8, OUT needed_events bigint,
 *				   OUT p50 interval, OUT p90 interval, OUT p99 interval,
 *				   OUT candidate interval, OUT bound interval,
 *				   OUT state text, OUT reason text, OUT beyond float8)
 *
 * "histogram" as in aion.stream_lateness; NULL: nothing was late yet.
 */
Datum
aion_late_bound(PG_FUNCTION_ARGS)
{
	LateHistogram *histogram = palloc(sizeof(LateHistogram));
	LateBoundConfig config;
	LateBound	bound;
	TupleDesc	desc;
	Datum		values[BOUND_COLUMNS];
	bool		nulls[BOUND_COLUMNS] = {false};
	int64		observed = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	stream_late_bound_config(PG_GETARG_FLOAT8(1), PG_GETARG_FLOAT8(2), &config);
	if (!(config.coverage > 0 && config.coverage < 1 && config.confidence > 0 && config.confidence < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("coverage and confidence must be between 0 and 1")));
	late_histogram_init(histogram, stream_late_memory(&config));
	if (!PG_ARGISNULL(0))
	{
		bytea	   *packed = PG_GETARG_BYTEA_PP(0);

		(void) late_histogram_decode(histogram, (uint8 *) VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
	}
	if (!PG_ARGISNULL(3) && !PG_ARGISNULL(4))
		observed = int64_sub_saturating(PG_GETARG_TIMESTAMPTZ(4), PG_GETARG_TIMESTAMPTZ(3));
	bound = late_histogram_bound(histogram, &config, observed);

	values[0] = Float8GetDatum(bound.events);
	values[1] = Int64GetDatum(bound.events_needed);
	quantile_column(histogram, 0.5, &values[2], &nulls[2]);
	quantile_column(histogram, 0.9, &values[3], &nulls[3]);
	quantile_column(histogram, 0.99, &values[4], &nulls[4]);
	values[5] = lateness_datum(bound.candidate, &nulls[5]);
	nulls[5] |= bound.candidate == 0;
	values[6] = lateness_datum(bound.bound, &nulls[6]);
	values[7] = CStringGetTextDatum(state_name(bound.state));
	values[8] = CStringGetTextDatum(late_bound_reason(bound.reason));
	values[9] = Float8GetDatum(late_histogram_beyond(histogram, bound.bound));
	nulls[9] = bound.events == 0;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
