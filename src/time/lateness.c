/*
 * lateness.c
 *	  Adding a lateness to an event time, and turning the sum round.
 *
 * Months are added as timestamptz + interval does with TimeZone UTC: the day
 * of the month stays, or becomes the last one of a shorter month; then days,
 * then microseconds.  Results saturate after each of the three.
 *
 * Addition of months is not monotonic: 30 January 18:00 plus a month is later
 * than 31 January 06:00 plus a month, both being on the last of February.
 * lateness_threshold says how it deals with that.
 */
#include "time/lateness.h"

/* 2000-01-01 counted in days since 0000-03-01, in the Gregorian calendar. */
#define DAYS_TO_2000	INT64_C(730425)
#define DAYS_PER_ERA	INT64_C(146097)	/* 400 years */

typedef struct CivilDate
{
	int64_t		year;
	int			month;			/* 1 .. 12 */
	int			day;			/* 1 .. 31 */
} CivilDate;

/*
 * The day number, 2000-01-01 being 0, of a date of the proleptic Gregorian
 * calendar.  Years begin in March here, which puts the leap day at the end.
 */
static int64_t
days_from_civil(CivilDate date)
{
	int64_t		year = date.year - (date.month <= 2);
	int64_t		era = int64_floor_div(year, 400);
	int64_t		year_of_era = year - era * 400;
	int64_t		month = (date.month + 9) % 12;
	int64_t		day_of_year = (153 * month + 2) / 5 + date.day - 1;

	return era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 -
		year_of_era / 100 + day_of_year - DAYS_TO_2000;
}

/* The reverse of days_from_civil. */
static CivilDate
civil_from_days(int64_t days)
{
	CivilDate	date;
	int64_t		shifted = days + DAYS_TO_2000;
	int64_t		era = int64_floor_div(shifted, DAYS_PER_ERA);
	int64_t		day_of_era = shifted - era * DAYS_PER_ERA;
	int64_t		year_of_era = (day_of_era - day_of_era / 1460 +
							   day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t		day_of_year = day_of_era -
		(365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t		month = (5 * day_of_year + 2) / 153;

	date.day = (int) (day_of_year - (153 * month + 2) / 5 + 1);
	date.month = (int) (month < 10 ? month + 3 : month - 9);
	date.year = year_of_era + era * 400 + (date.month <= 2);
	return date;
}

/* How many days a month has. */
static int
days_in_month(int64_t year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool		leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return month == 2 && leap ? 29 : days[month - 1];
}

/* The event time that is time_of_day into a day, clamped to the range. */
static EventTime
event_time_from_day(int64_t day, int64_t time_of_day)
{
	if (day < int64_floor_div(EVENT_TIME_MIN, EVENT_TIME_DAY))
		return EVENT_TIME_MIN;
	if (day > int64_floor_div(EVENT_TIME_END, EVENT_TIME_DAY))
		return EVENT_TIME_END;
	return event_time_clamp(day * EVENT_TIME_DAY + time_of_day);
}

/*
 * t plus some months.  Where the day of the month is cut to fit, the time of
 * day stays as it is or, if ceiling, becomes the last of the day: then no
 * earlier t gives a later result.  t is in the range.
 */
static EventTime
add_months(EventTime t, int32_t months, bool ceiling)
{
	int64_t		time_of_day = int64_floor_mod(t, EVENT_TIME_DAY);
	CivilDate	date = civil_from_days(int64_floor_div(t, EVENT_TIME_DAY));
	int64_t		month = date.year * 12 + (date.month - 1) + months;
	int			length;

	date.year = int64_floor_div(month, 12);
	date.month = (int) int64_floor_mod(month, 12) + 1;
	length = days_in_month(date.year, date.month);
	if (date.day > length)
	{
		date.day = length;
		if (ceiling)
			time_of_day = EVENT_TIME_DAY - 1;
	}
	return event_time_from_day(days_from_civil(date), time_of_day);
}

/* t plus some days of 24 hours.  t is in the range. */
static EventTime
add_days(EventTime t, int32_t days)
{
	return event_time_from_day(int64_floor_div(t, EVENT_TIME_DAY) + days,
							   int64_floor_mod(t, EVENT_TIME_DAY));
}

/* event_time_add for a finite lateness; ceiling as in add_months. */
static EventTime
add_parts(EventTime t, const Lateness *lateness, bool ceiling)
{
	t = event_time_clamp(t);
	if (lateness->months != 0)
		t = add_months(t, lateness->months, ceiling);
	if (lateness->days != 0)
		t = add_days(t, lateness->days);
	return event_time_plus(t, lateness->usecs);
}

/*
 * t + lateness.  Unlimited lateness ends at EVENT_TIME_END, past every event;
 * NEVER stays NEVER.
 */
EventTime
event_time_add(EventTime t, const Lateness *lateness)
{
	if (t == EVENT_TIME_NEVER)
		return EVENT_TIME_NEVER;
	if (lateness->unlimited)
		return EVENT_TIME_END;
	return add_parts(t, lateness, false);
}

/*
 * The greatest threshold such that event_time_add(t, lateness) <= w for every
 * t up to it: what ends there or before has had its lateness when the
 * watermark is w.  EVENT_TIME_NEVER if there is none, or lateness is unlimited.
 *
 * With months, times beyond the threshold may qualify too, in the last days of
 * a month that are cut to one day (see above): they follow within that day.
 * Ask event_time_add about a single time.
 */
EventTime
lateness_threshold(EventTime w, const Lateness *lateness)
{
	EventTime	lo = EVENT_TIME_MIN;
	EventTime	hi = EVENT_TIME_END;

	if (w == EVENT_TIME_NEVER || lateness->unlimited ||
		add_parts(lo, lateness, true) > w)
		return EVENT_TIME_NEVER;

	/* lo qualifies; whatever is above hi doesn't, or is out of range */
	while (lo < hi)
	{
		uint64_t	gap = (uint64_t) hi - (uint64_t) lo;
		EventTime	middle = hi - (int64_t) (gap / 2);

		if (add_parts(middle, lateness, true) <= w)
			lo = middle;
		else
			hi = middle - 1;
	}
	return lo;
}
