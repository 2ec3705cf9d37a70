/*
 * window_spec.c
 *	  The SQL type aion.window_spec and the functions that make its values.
 *
 * A value says what the user wrote; nothing is stored in this form.  The
 * functions check at once what they can, and view_window_from_datum() checks
 * all of it again, since a composite value can be written by hand.  Kinds of
 * windows that this version does not have are refused here, by name.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/int.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "view/view_internal.h"

PG_FUNCTION_INFO_V1(aion_tumbling);
PG_FUNCTION_INFO_V1(aion_sliding);
PG_FUNCTION_INFO_V1(aion_session);
PG_FUNCTION_INFO_V1(aion_counting);

/* Columns of aion.window_spec. */
enum
{
	SPEC_KIND,
	SPEC_SIZE,
	SPEC_SLIDE,
	SPEC_ORIGIN,
	SPEC_TIMEZONE,
	SPEC_NATTS
};

/* Microseconds of an interval without months, days having 24 hours. False if it has months, is infinite or too long. */
bool
view_interval_usecs(const Interval *interval, int64 *usecs)
{
	int64		days;

	return interval->month == 0 && !INTERVAL_NOT_FINITE(interval) &&
		!pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &days) &&
		!pg_add_s64_overflow(days, interval->time, usecs);
}

/* An interval as messages show it. Palloc'd. */
char *
view_interval_text(const Interval *interval)
{
	return DatumGetCString(DirectFunctionCall1(interval_out,
											   IntervalPGetDatum(interval)));
}

/*
 * An argument of type interval as one of type text that means the same
 * whatever IntervalStyle is in force. NULL stays NULL.
 */
NullableDatum
view_lateness_argument(const NullableDatum *interval)
{
	NullableDatum result = *interval;
	struct pg_itm parts;
	char		buffer[MAXDATELEN + 1];

	if (!interval->isnull)
	{
		if (INTERVAL_NOT_FINITE(DatumGetIntervalP(interval->value)))
			strlcpy(buffer, "infinity", sizeof(buffer));
		else
		{
			interval2itm(*DatumGetIntervalP(interval->value), &parts);
			EncodeInterval(&parts, INTSTYLE_POSTGRES, buffer);
		}
		result.value = CStringGetTextDatum(buffer);
	}
	return result;
}

/* The microseconds of a size or slide ("what"), or an error that names the value. */
static int64
checked_span(const char *what, const Interval *interval)
{
	int64		usecs;

	if (interval == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window %s must not be NULL", what)));
	if (!INTERVAL_NOT_FINITE(interval) && interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("calendar windows are not supported in this version"),
				 errdetail("The window %s is %s, which contains months.",
						   what, view_interval_text(interval)),
				 errhint("Give the %s in days or shorter units.", what)));
	if (!view_interval_usecs(interval, &usecs))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window %s is out of range: %s",
						what, view_interval_text(interval))));
	if (usecs <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window %s must be positive, not %s",
						what, view_interval_text(interval))));
	return usecs;
}

/* The windows that these parts stand for; errors out on bad ones. NULL where the user gave nothing. */
static WindowSpec
checked_window(const Interval *size, const Interval *slide,
			   const TimestampTz *origin, const char *timezone)
{
	WindowSpec	spec;
	const char *reason;

	spec.size = checked_span("size", size);
	spec.slide = checked_span("slide", slide);
	if (timezone != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("windows in a time zone are not supported in this version"),
				 errdetail("The time zone given is \"%s\".", timezone)));
	spec.origin = origin != NULL ? *origin : EVENT_TIME_ORIGIN;
	if (TIMESTAMP_NOT_FINITE(spec.origin))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window origin must be finite, not %s",
						timestamptz_to_str(spec.origin))));
	if (!window_spec_check(&spec, &reason))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s", reason),
				 errdetail("The size is %s, the slide %s.",
						   view_interval_text(size), view_interval_text(slide))));
	return spec;
}

/* Makes the composite result of tumbling() and sliding() from checked arguments. */
static Datum
make_spec(FunctionCallInfo fcinfo, const char *kind, int slide_arg, int origin_arg)
{
	Interval   *size = PG_ARGISNULL(0) ? NULL : PG_GETARG_INTERVAL_P(0);
	Interval   *slide = PG_ARGISNULL(slide_arg) ? NULL : PG_GETARG_INTERVAL_P(slide_arg);
	bool		has_origin = !PG_ARGISNULL(origin_arg);
	TimestampTz origin = has_origin ? PG_GETARG_TIMESTAMPTZ(origin_arg) : 0;
	char	   *timezone = PG_ARGISNULL(origin_arg + 1) ? NULL :
		text_to_cstring(PG_GETARG_TEXT_PP(origin_arg + 1));
	Datum		values[SPEC_NATTS];
	bool		nulls[SPEC_NATTS] = {false};
	TupleDesc	desc;

	checked_window(size, slide, has_origin ? &origin : NULL, timezone);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != SPEC_NATTS)
		elog(ERROR, "aion.window_spec is not the expected composite type");
	values[SPEC_KIND] = CStringGetTextDatum(kind);
	values[SPEC_SIZE] = IntervalPGetDatum(size);
	values[SPEC_SLIDE] = IntervalPGetDatum(slide);
	values[SPEC_ORIGIN] = TimestampTzGetDatum(origin);
	nulls[SPEC_ORIGIN] = !has_origin;
	values[SPEC_TIMEZONE] = (Datum) 0;
	nulls[SPEC_TIMEZONE] = true;
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* aion.tumbling(size interval, origin timestamptz, timezone text) */
Datum
aion_tumbling(PG_FUNCTION_ARGS)
{
	return make_spec(fcinfo, "tumbling", 0, 1);
}

/* aion.sliding(size interval, slide interval, origin timestamptz, timezone text) */
Datum
aion_sliding(PG_FUNCTION_ARGS)
{
	return make_spec(fcinfo, "sliding", 1, 2);
}

/* aion.session(gap interval, key text or text[]): refused. */
Datum
aion_session(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("session windows are not supported in this version"),
			 errhint("Use aion.tumbling() or aion.sliding().")));
}

/* aion.counting(size bigint, slide bigint, key text): refused. */
Datum
aion_counting(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("count windows are not supported in this version"),
			 errhint("Use aion.tumbling() or aion.sliding().")));
}

/* The windows that a value of aion.window_spec stands for; errors out on a bad one. */
WindowSpec
view_window_from_datum(Datum composite)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(composite);
	Datum		values[SPEC_NATTS];
	bool		nulls[SPEC_NATTS];
	TimestampTz origin = 0;
	const char *kind;
	Interval   *size;
	Interval   *slide;

	for (int i = 0; i < SPEC_NATTS; i++)
		values[i] = GetAttributeByNum(header, i + 1, &nulls[i]);

	kind = nulls[SPEC_KIND] ? "(none)" : TextDatumGetCString(values[SPEC_KIND]);
	if (strcmp(kind, "tumbling") != 0 && strcmp(kind, "sliding") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown kind of window: %s", kind),
				 errhint("Make window specifications with aion.tumbling() or aion.sliding().")));
	size = nulls[SPEC_SIZE] ? NULL : DatumGetIntervalP(values[SPEC_SIZE]);
	slide = nulls[SPEC_SLIDE] ? NULL : DatumGetIntervalP(values[SPEC_SLIDE]);
	if (slide == NULL && strcmp(kind, "tumbling") == 0)
		slide = size;
	if (!nulls[SPEC_ORIGIN])
		origin = DatumGetTimestampTz(values[SPEC_ORIGIN]);
	return checked_window(size, slide, nulls[SPEC_ORIGIN] ? NULL : &origin,
						  nulls[SPEC_TIMEZONE] ? NULL :
						  TextDatumGetCString(values[SPEC_TIMEZONE]));
}
