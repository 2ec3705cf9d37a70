/*
 * options.c
 *	  The options of a stream: which there are, and what their values mean.
 *
 * aion_fdw_validator() is what CREATE and ALTER FOREIGN TABLE call with the
 * new options; stream_parse_options() reads the stored ones again whenever a
 * stream's definition is built, so both accept exactly the same. Neither
 * looks at the table: that event_time names a fit column is checked by the
 * DDL hook and at each build (stored_columns.c).
 *
 * Nothing here depends on settings of the session.
 */
#include "postgres.h"

#include <ctype.h>

#include "access/reloptions.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "common/int.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "stream/stream.h"

/* Bounds, in microseconds. */
#define WIDTH_MIN		EVENT_TIME_MSEC
#define SPAN_MAX		(1000 * EVENT_TIME_DAY)
#define AHEAD_MAX		(36500 * EVENT_TIME_DAY)
#define INTERVAL_MAX	EVENT_TIME_DAY

/* Bounds of allowed_lateness, field by field. */
#define LATENESS_MAX_MONTHS (12 * 10000)
#define LATENESS_MAX_DAYS	3660000
#define LATENESS_MAX_USECS	(LATENESS_MAX_DAYS * EVENT_TIME_DAY)

#define DEFAULT_WATERMARK_INTERVAL	(200 * EVENT_TIME_MSEC)
#define DEFAULT_IDLE_TIMEOUT		(30 * EVENT_TIME_SECOND)
#define DEFAULT_MAX_AHEAD			EVENT_TIME_DAY
#define DEFAULT_LATENESS_COVERAGE	0.99	/* also in the view aion.lateness */
#define DEFAULT_LATENESS_CONFIDENCE 0.95

/* Reads "value" into its place in the result; errors out on a bad one. */
typedef void (*OptionReader) (const char *name, const char *value, StreamOptions *result);

typedef struct OptionEntry
{
	const char *name;
	OptionReader read;			/* NULL: known, but not supported yet */
} OptionEntry;

PG_FUNCTION_INFO_V1(aion_fdw_validator);

/* Refuses a value: the error names option and value, the hint says what is valid. */
static void
refuse_value(const char *name, const char *value, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
			 detail ? errdetail_internal("%s", detail) : 0,
			 errhint("%s", hint)));
}

/*
 * Reads an interval as the session's IntervalStyle "postgres" would, whatever
 * the session's is: an option must mean the same to everybody.
 */
static Interval *
read_interval(const char *name, const char *value, const char *hint)
{
	MemoryContext context = CurrentMemoryContext;
	int			style = IntervalStyle;
	Interval   *volatile result = NULL;

	IntervalStyle = INTSTYLE_POSTGRES;
	PG_TRY();
	{
		result = DatumGetIntervalP(DirectFunctionCall3(interval_in,
													   CStringGetDatum(value),
													   ObjectIdGetDatum(InvalidOid),
													   Int32GetDatum(-1)));
	}
	PG_CATCH();
	{
		ErrorData  *error;

		IntervalStyle = style;
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		FlushErrorState();
		refuse_value(name, value, error->message, hint);
	}
	PG_END_TRY();
	IntervalStyle = style;

	return result;
}

/* An interval without months, least <= it <= greatest, in microseconds. */
static int64
read_span(const char *name, const char *value, int64 least, int64 greatest, const char *hint)
{
	Interval   *interval = read_interval(name, value, hint);
	int64		span;

	if (interval->month != 0 && !INTERVAL_NOT_FINITE(interval))
		refuse_value(name, value, "Months and years have no fixed length.", hint);
	if (INTERVAL_NOT_FINITE(interval) ||
		pg_mul_s64_overflow(interval->day, EVENT_TIME_DAY, &span) ||
		pg_add_s64_overflow(span, interval->time, &span) ||
		span < least || span > greatest)
		refuse_value(name, value, "The interval is out of range.", hint);

	return span;
}

/* The same, or 'off'. */
static int64
read_span_or_off(const char *name, const char *value, int64 least, int64 greatest,
				 const char *hint)
{
	if (pg_strcasecmp(value, "off") == 0)
		return WATERMARK_OFF;
	return read_span(name, value, least, greatest, hint);
}

static void
read_event_time(const char *name, const char *value, StreamOptions *result)
{
	if (value[0] == '\0')
		refuse_value(name, value, NULL, "Name the column that holds the event time.");
	result->event_time = pstrdup(value);
}

static void
read_bucket_width(const char *name, const char *value, StreamOptions *result)
{
	result->bucket_width =
		read_span(name, value, WIDTH_MIN, SPAN_MAX,
				  "Give an interval without months, from 1 millisecond to 1000 days, such as '1 hour'.");
}

static void
read_watermark_delay(const char *name, const char *value, StreamOptions *result)
{
	result->watermark.delay_us =
		read_span(name, value, 0, SPAN_MAX,
				  "Give an interval without months, from 0 to 1000 days, such as '5 seconds'.");
}

static void
read_watermark_interval(const char *name, const char *value, StreamOptions *result)
{
	result->watermark_interval =
		read_span(name, value, WIDTH_MIN, INTERVAL_MAX,
				  "Give an interval without months, from 1 millisecond to 1 day, such as '200 ms'.");
}

static void
read_watermark(const char *name, const char *value, StreamOptions *result)
{
	if (pg_strcasecmp(value, "manual") != 0)
		refuse_value(name, value, NULL,
					 "The only value is 'manual'; without this option, events move the watermark.");
	result->watermark.manual = true;
}

static void
read_idle_timeout(const char *name, const char *value, StreamOptions *result)
{
	result->watermark.idle_timeout_us =
		read_span_or_off(name, value, WIDTH_MIN, SPAN_MAX,
						 "Give an interval without months, from 1 millisecond to 1000 days, such as '30 seconds', or 'off'.");
}

static void
read_max_ahead(const char *name, const char *value, StreamOptions *result)
{
	result->watermark.max_ahead_us =
		read_span_or_off(name, value, 0, AHEAD_MAX,
						 "Give an interval without months, from 0 to 36500 days, such as '1 day', or 'off'.");
}

static void
read_allowed_lateness(const char *name, const char *value, StreamOptions *result)
{
	static const char *hint =
		"Give an interval from 0 to 10000 years, such as '30 days' or '2 months', 'unlimited', or 'auto'.";
	Interval   *interval;

	memset(&result->allowed_lateness, 0, sizeof(Lateness));
	if (pg_strcasecmp(value, "unlimited") == 0)
	{
		result->allowed_lateness.unlimited = true;
		return;
	}
	if (pg_strcasecmp(value, "auto") == 0)
	{
		result->allowed_lateness.unlimited = true;
		result->allowed_lateness.automatic = true;
		return;
	}

	interval = read_interval(name, value, hint);
	if (interval->month < 0 || interval->day < 0 || interval->time < 0)
		refuse_value(name, value, "No part of it may be negative.", hint);
	if (interval->month > LATENESS_MAX_MONTHS ||
		interval->day > LATENESS_MAX_DAYS ||
		interval->time > LATENESS_MAX_USECS)
		refuse_value(name, value, "The interval is out of range.", hint);
	result->allowed_lateness.months = interval->month;
	result->allowed_lateness.days = interval->day;
	result->allowed_lateness.usecs = interval->time;
}

/* A number between 0 and 1, both excluded. */
static double
read_share(const char *name, const char *value, const char *hint)
{
	char	   *end;
	double		share = strtod(value, &end);

	while (isspace((unsigned char) *end))
		end++;
	if (end == value || *end != '\0' || !(share > 0 && share < 1))
		refuse_value(name, value, NULL, hint);
	return share;
}

static void
read_lateness_coverage(const char *name, const char *value, StreamOptions *result)
{
	result->lateness_coverage =
		read_share(name, value,
				   "Give the share of late events that is to be in time, between 0 and 1, such as '0.99'.");
}

static void
read_lateness_confidence(const char *name, const char *value, StreamOptions *result)
{
	result->lateness_confidence =
		read_share(name, value,
				   "Give the probability of keeping what lateness_coverage says, between 0 and 1, such as '0.95'.");
}

static void
read_on_expired(const char *name, const char *value, StreamOptions *result)
{
	if (pg_strcasecmp(value, "keep") == 0)
		result->on_expired = ON_EXPIRED_KEEP;
	else if (pg_strcasecmp(value, "drop") == 0)
		result->on_expired = ON_EXPIRED_DROP;
	else if (pg_strcasecmp(value, "error") == 0)
		result->on_expired = ON_EXPIRED_ERROR;
	else
		refuse_value(name, value, NULL, "Valid values are 'keep', 'drop' and 'error'.");
}

static void
read_durable(const char *name, const char *value, StreamOptions *result)
{
	if (!parse_bool(value, &result->durable))
		refuse_value(name, value, NULL, "Valid values are 'on' and 'off'.");
}

static void
read_compression(const char *name, const char *value, StreamOptions *result)
{
	if (pg_strcasecmp(value, "lz4") == 0)
		result->compress = true;
	else if (pg_strcasecmp(value, "none") == 0)
		result->compress = false;
	else
		refuse_value(name, value, NULL, "Valid values are 'lz4' and 'none'.");
}

static const OptionEntry option_table[] = {
	{"event_time", read_event_time},
	{"bucket_width", read_bucket_width},
	{"watermark_delay", read_watermark_delay},
	{"watermark_interval", read_watermark_interval},
	{"watermark", read_watermark},
	{"idle_timeout", read_idle_timeout},
	{"max_ahead", read_max_ahead},
	{"allowed_lateness", read_allowed_lateness},
	{"lateness_coverage", read_lateness_coverage},
	{"lateness_confidence", read_lateness_confidence},
	{"on_expired", read_on_expired},
	{"durable", read_durable},
	{"compression", read_compression},
	{"watermark_every", NULL},
	{"watermark_when", NULL},
	{"watermark_source", NULL},
};

/* Reads one option into the result, or errors out. */
static void
read_option(DefElem *def, StreamOptions *result)
{
	StringInfoData names;

	for (int i = 0; i < lengthof(option_table); i++)
	{
		if (strcmp(option_table[i].name, def->defname) != 0)
			continue;
		if (option_table[i].read == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("option \"%s\" is not supported yet", def->defname)));
		option_table[i].read(def->defname, defGetString(def), result);
		return;
	}

	initStringInfo(&names);
	for (int i = 0; i < lengthof(option_table); i++)
		if (option_table[i].read != NULL)
			appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", option_table[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", def->defname),
			 errhint("Valid options of a stream are: %s.", names.data)));
}

/*
 * Reads the options of a stream, defaults filled in. Strings are allocated in
 * the current memory context. Errors out on an unknown option, a bad value or
 * a missing event_time.
 */
void
stream_parse_options(List *options, StreamOptions *result)
{
	ListCell   *cell;

	memset(result, 0, sizeof(StreamOptions));
	result->watermark.idle_timeout_us = DEFAULT_IDLE_TIMEOUT;
	result->watermark.max_ahead_us = DEFAULT_MAX_AHEAD;
	result->watermark_interval = DEFAULT_WATERMARK_INTERVAL;
	result->allowed_lateness.unlimited = true;
	result->allowed_lateness.automatic = true;
	result->lateness_coverage = DEFAULT_LATENESS_COVERAGE;
	result->lateness_confidence = DEFAULT_LATENESS_CONFIDENCE;
	result->on_expired = ON_EXPIRED_KEEP;
	result->durable = true;
	result->compress = true;

	foreach(cell, options)
		read_option((DefElem *) lfirst(cell), result);

	if (result->event_time == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"event_time\" is required for a stream"),
				 errhint("Name the column that holds the event time: OPTIONS (event_time 'column').")));
}

/*
 * aion_fdw_validator(options text[], catalog oid)
 *
 * Only foreign tables have options; whatever is given for the wrapper, a
 * server, a user mapping or a column is refused.
 */
Datum
aion_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	StreamOptions result;

	if (catalog == ForeignTableRelationId)
		stream_parse_options(options, &result);
	else if (options != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("invalid option \"%s\"", ((DefElem *) linitial(options))->defname),
				 errhint("Options of aion belong to a foreign table; there are no valid options in this context.")));

	PG_RETURN_VOID();
}
