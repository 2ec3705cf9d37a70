/*
 * test_time.c
 *	  Event-time arithmetic against brute force, and against fixed cases.
 *
 * Windows are found by counting from the origin one by one, buckets likewise,
 * calendar months by walking the days of a month table: nothing here shares
 * its method with src/time.
 */
#include <stddef.h>

#include "time/bucket.h"
#include "time/evidence.h"
#include "time/lateness.h"
#include "time/watermark.h"
#include "time/window.h"
#include "tap.h"

#define SEC		EVENT_TIME_SECOND
#define MINUTE	EVENT_TIME_MINUTE
#define HOUR	EVENT_TIME_HOUR
#define DAY		EVENT_TIME_DAY

static uint64_t seed = 20000103;

static int
month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (month == 2 && (year % 400 == 0 || (year % 4 == 0 && year % 100 != 0)))
		return 29;
	return days[month - 1];
}

/* The event time of a date and time of day, found by walking from 2000. */
static EventTime
at(int year, int month, int day, int hour, int minute, int64_t usecs)
{
	int64_t		days = day - 1;

	for (int y = 2000; y < year; y++)
		days += month_days(y, 2) + 337;
	for (int y = year; y < 2000; y++)
		days -= month_days(y, 2) + 337;
	for (int m = 1; m < month; m++)
		days += month_days(year, m);
	return days * DAY + hour * HOUR + minute * MINUTE + usecs;
}

/* Of how many of the windows from .. to is t a member, and is it n exactly? */
static bool
windows_are(const WindowSpec *spec, EventTime t, EventTime from, EventTime to)
{
	int64_t		overlap = spec->size / spec->slide + 2;
	bool		fine = true;

	if (window_first(spec, t) != from || window_last(spec, t) != to)
		return false;
	for (int64_t i = -overlap; i <= overlap; i++)
	{
		EventTime	start = from + i * spec->slide;

		fine &= window_contains(spec, start, t) ==
			(start >= from && start <= to);
	}
	return fine;
}

static void
test_integers(void)
{
	int			bad = 0;

	for (int64_t a = -50; a <= 50; a++)
		for (int64_t b = 1; b <= 12; b++)
		{
			int64_t		q = -100;

			while ((q + 1) * b <= a)
				q++;
			bad += int64_floor_div(a, b) != q;
			bad += int64_floor_mod(a, b) != a - q * b;
		}
	ok(bad == 0, "floor division and remainder");
	ok(int64_floor_div(INT64_MIN, 1) == INT64_MIN &&
	   int64_floor_div(INT64_MIN, INT64_MAX) == -2 &&
	   int64_floor_div(INT64_MAX, INT64_MAX) == 1,
	   "floor division at the ends");
	ok(int64_add_saturating(INT64_MAX, 1) == INT64_MAX &&
	   int64_add_saturating(INT64_MIN, -1) == INT64_MIN &&
	   int64_add_saturating(INT64_MIN, INT64_MAX) == -1 &&
	   int64_sub_saturating(0, INT64_MIN) == INT64_MAX &&
	   int64_sub_saturating(-1, INT64_MIN) == INT64_MAX &&
	   int64_sub_saturating(INT64_MIN, 1) == INT64_MIN,
	   "saturating addition");
	ok(event_time_plus(EVENT_TIME_MAX, 1) == EVENT_TIME_END &&
	   event_time_plus(EVENT_TIME_MAX, INT64_MAX) == EVENT_TIME_END &&
	   event_time_minus(EVENT_TIME_MIN, INT64_MAX) == EVENT_TIME_MIN &&
	   event_time_plus(EVENT_TIME_NEVER, INT64_MAX) == EVENT_TIME_NEVER &&
	   event_time_minus(EVENT_TIME_NEVER, -1) == EVENT_TIME_NEVER,
	   "event times saturate, never stays never");
	ok(event_time_is_valid(EVENT_TIME_MIN) &&
	   event_time_is_valid(EVENT_TIME_MAX) &&
	   !event_time_is_valid(EVENT_TIME_END) &&
	   !event_time_is_valid(EVENT_TIME_MIN - 1), "range of event times");
	ok(at(2000, 1, 3, 0, 0, 0) == EVENT_TIME_ORIGIN &&
	   at(-4713, 11, 24, 0, 0, 0) == EVENT_TIME_MIN, "the oracle's calendar");
}

static void
test_buckets(void)
{
	static const int64_t widths[] = {1, 7, SEC, MINUTE, 90 * MINUTE, DAY,
		400 * DAY, EVENT_TIME_SPAN_MAX};
	int			bad = 0;

	for (int64_t width = 1; width <= 9; width++)
		for (int64_t t = EVENT_TIME_ORIGIN - 40; t < EVENT_TIME_ORIGIN + 40; t++)
		{
			int64_t		n = -100;

			while (EVENT_TIME_ORIGIN + (n + 1) * width <= t)
				n++;
			bad += bucket_number(width, t) != n;
			bad += bucket_start(width, n) != EVENT_TIME_ORIGIN + n * width;
			bad += bucket_end(width, n) != EVENT_TIME_ORIGIN + (n + 1) * width;
		}
	ok(bad == 0, "buckets around the origin");

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
	{
		int64_t		first = bucket_number(widths[i], EVENT_TIME_MIN);
		int64_t		last = bucket_number(widths[i], EVENT_TIME_MAX);

		bad += bucket_start(widths[i], first) != EVENT_TIME_MIN;
		bad += bucket_end(widths[i], last) != EVENT_TIME_END;
		bad += bucket_start(widths[i], INT64_MIN) != EVENT_TIME_MIN;
		bad += bucket_start(widths[i], INT64_MAX) != EVENT_TIME_END;
		bad += bucket_end(widths[i], INT64_MAX) != EVENT_TIME_END;
		bad += bucket_end(widths[i], INT64_MIN) != EVENT_TIME_MIN;
		for (int n = 0; n < 1000; n++)
		{
			EventTime	t = (EventTime) random_u64(&seed);
			int64_t		number = bucket_number(widths[i], t);

			bad += event_time_is_valid(t) &&
				(bucket_start(widths[i], number) > t ||
				 bucket_end(widths[i], number) <= t);
			bad += bucket_end(widths[i], number) !=
				bucket_start(widths[i], number + 1);
		}
	}
	ok(bad == 0, "buckets over the whole range");
}

/* The width by its definition, for spans of few seconds and days. */
static int64_t
brute_width(int64_t size, int64_t slide, EventTime origin, int64_t unit)
{
	for (int64_t width = DAY; width > SEC; width -= unit)
		if (size % width == 0 && slide % width == 0 &&
			(origin - EVENT_TIME_ORIGIN) % width == 0)
			return width;
	return SEC;
}

static void
test_bucket_width(void)
{
	const EventTime o = EVENT_TIME_ORIGIN;
	int			bad = 0;

	ok(bucket_width_for_window(MINUTE, MINUTE, o) == MINUTE &&
	   bucket_width_for_window(10 * MINUTE, 4 * MINUTE, o) == 2 * MINUTE &&
	   bucket_width_for_window(HOUR, HOUR, o + 10 * MINUTE) == 10 * MINUTE &&
	   bucket_width_for_window(HOUR, HOUR, o - 5 * HOUR) == HOUR &&
	   bucket_width_for_window(5500000, 5 * SEC, o) == SEC &&
	   bucket_width_for_window(100, 100, o) == SEC &&
	   bucket_width_for_window(1500000, 1500000, o) == 1500000,
	   "bucket width of short windows");
	ok(bucket_width_for_window(7 * DAY, DAY, o) == DAY &&
	   bucket_width_for_window(7 * DAY, 7 * DAY, o) == DAY &&
	   bucket_width_for_window(30 * HOUR, 30 * HOUR, o) == 15 * HOUR &&
	   bucket_width_for_window(25 * HOUR, 25 * HOUR, o) == 25 * HOUR / 2 &&
	   bucket_width_for_window(7 * DAY, 7 * DAY, o + 6 * HOUR) == 6 * HOUR,
	   "bucket width of long windows");
	ok(bucket_width_for_window(86400000067, 86400000067, o) == DAY &&
	   bucket_width_for_window(EVENT_TIME_SPAN_MAX, EVENT_TIME_SPAN_MAX,
							   EVENT_TIME_MIN) >= SEC &&
	   bucket_width_for_window(EVENT_TIME_SPAN_MAX - 1,
							   EVENT_TIME_SPAN_MAX - 1, o) >= SEC,
	   "bucket width of odd and huge windows");

	for (int i = 0; i < 300; i++)
	{
		int64_t		unit = i % 2 ? HOUR : 10 * MINUTE;
		int64_t		size = random_between(&seed, 1, 100) * unit;
		int64_t		slide = random_between(&seed, 1, 100) * unit;
		EventTime	origin = o + random_between(&seed, -50, 50) * unit;

		/* quotients of spans over a day may be finer than the unit */
		bad += bucket_width_for_window(size, slide, origin) !=
			brute_width(size, slide, origin, 10 * SEC);
	}
	ok(bad == 0, "bucket width against all widths");
}

static void
test_spec_check(void)
{
	const char *reason = NULL;
	WindowSpec	spec = {10000, 1, EVENT_TIME_ORIGIN};

	ok(window_spec_check(&spec, &reason) && reason == NULL, "10000 windows");
	spec.size = 10001;
	ok(!window_spec_check(&spec, &reason) && reason != NULL, "10001 windows");
	spec = (WindowSpec) {0, 1, 0};
	ok(!window_spec_check(&spec, NULL), "size 0");
	spec = (WindowSpec) {1, -1, 0};
	ok(!window_spec_check(&spec, &reason), "negative slide");
	spec = (WindowSpec) {INT64_MAX, INT64_MAX, 0};
	ok(!window_spec_check(&spec, &reason), "size beyond the limit");
	spec = (WindowSpec) {1, 1, INT64_MAX};
	ok(!window_spec_check(&spec, &reason), "infinite origin");
}

/* One small specification against a count of all windows near t. */
static int
brute_windows(const WindowSpec *spec, EventTime t)
{
	int64_t		near = (t - spec->origin) / spec->slide;
	int64_t		reach = spec->size / spec->slide + 3;
	bool		found = false;
	EventTime	first = 0;
	EventTime	last = 0;
	int			members = 0;
	int			bad = 0;

	for (int64_t k = near - reach; k <= near + reach; k++)
	{
		EventTime	start = spec->origin + k * spec->slide;

		if (start + spec->size > t && !found)
		{
			first = start;
			found = true;
		}
		if (start <= t)
			last = start;
		members += start <= t && t < start + spec->size;
		bad += window_contains(spec, start, t) !=
			(start <= t && t < start + spec->size);
	}
	bad += window_first(spec, t) != first;
	bad += window_last(spec, t) != last;
	bad += members != (first > last ? 0 : (last - first) / spec->slide + 1);
	return bad;
}

/* The windows that overlap [t, u], counted one by one. */
static int
brute_range(const WindowSpec *spec, EventTime t, EventTime u)
{
	int64_t		lo_k = (t - spec->origin - spec->size) / spec->slide - 2;
	int64_t		hi_k = (u - spec->origin) / spec->slide + 2;
	int64_t		count = 0;
	EventTime	lo;
	EventTime	hi;
	EventTime	lowest = 0;

	for (int64_t k = lo_k; k <= hi_k; k++)
	{
		EventTime	start = spec->origin + k * spec->slide;

		if (start <= u && start + spec->size > t && count++ == 0)
			lowest = start;
	}
	if (!window_range(spec, t, u, &lo, &hi))
		return count != 0;
	return lo != lowest || (hi - lo) / spec->slide + 1 != count;
}

static void
test_random_windows(void)
{
	int			bad = 0;
	int			bad_ranges = 0;
	int			bad_aligned = 0;

	for (int i = 0; i < 20000; i++)
	{
		int64_t		scale = i % 3 == 0 ? 1 : i % 3 == 1 ? 500000 : HOUR + 1;
		int64_t		width = random_between(&seed, 1, 6) * scale;
		WindowSpec	spec;
		EventTime	t;

		spec.size = random_between(&seed, 1, 60) * scale;
		spec.slide = random_between(&seed, 1, i % 2 ? 10 : 90) * scale;
		spec.origin = random_between(&seed, -40, 40) * scale +
			(i % 5 ? EVENT_TIME_ORIGIN : -300 * DAY);
		t = spec.origin + random_between(&seed, -300, 300) * scale +
			random_between(&seed, -1, 1);
		bad += brute_windows(&spec, t);
		bad_ranges += brute_range(&spec, t,
								  t + random_between(&seed, 0, 200) * scale);
		bad_aligned += window_aligned(&spec, width) !=
			(spec.size % width == 0 && spec.slide % width == 0 &&
			 (spec.origin - EVENT_TIME_ORIGIN) % width == 0);
	}
	ok(bad == 0, "windows of random specifications");
	ok(bad_ranges == 0, "ranges of windows");
	ok(bad_aligned == 0, "alignment of windows with buckets");
}

/* Anything goes in: bounds hold, and sanitizers see no overflow. */
static void
test_huge_windows(void)
{
	int			bad = 0;

	for (int i = 0; i < 200000; i++)
	{
		EventTime	t = (EventTime) random_u64(&seed);
		EventTime	first;
		EventTime	last;
		WindowSpec	spec;

		if (i % 4 == 0)
			t = i % 8 ? EVENT_TIME_MIN + (t & 0xffff) : EVENT_TIME_MAX - (t & 0xffff);
		spec.size = (int64_t) (random_u64(&seed) >> (3 + i % 60)) + 1;
		spec.slide = (int64_t) (random_u64(&seed) >> (3 + i % 53)) + 1;
		spec.origin = event_time_clamp((EventTime) random_u64(&seed));
		if (!window_spec_check(&spec, NULL))
			continue;
		first = window_first(&spec, t);
		last = window_last(&spec, t);
		t = event_time_clamp(t);
		bad += last > t || t - last >= spec.slide;
		bad += first < EVENT_TIME_END && (first <= t - spec.size ||
										  first - spec.slide > t - spec.size);
		bad += window_contains(&spec, last, t) != (first <= last) &&
			t < EVENT_TIME_END;
	}
	ok(bad == 0, "huge windows and times");
	ok(window_end(&(WindowSpec) {DAY, DAY, 0}, EVENT_TIME_MAX) == EVENT_TIME_END,
	   "a window's end saturates");
}

static void
test_fixed_windows(void)
{
	WindowSpec	five = {5 * MINUTE, 5 * MINUTE, EVENT_TIME_ORIGIN};
	WindowSpec	ten = {10 * SEC, 10 * SEC, EVENT_TIME_ORIGIN};
	WindowSpec	ten_by_five = {10 * SEC, 5 * SEC, EVENT_TIME_ORIGIN};
	WindowSpec	odd = {5500000, 5 * SEC, EVENT_TIME_ORIGIN};
	WindowSpec	ten_by_four = {10 * MINUTE, 4 * MINUTE, EVENT_TIME_ORIGIN};
	WindowSpec	hour = {HOUR, HOUR, EVENT_TIME_ORIGIN};
	EventTime	m = at(2024, 3, 1, 10, 0, 0);
	EventTime	j = at(2024, 7, 1, 0, 8, 0);
	EventTime	y1960 = at(1960, 5, 22, 0, 0, 30 * SEC);
	EventTime	y1969 = at(1969, 12, 31, 23, 59, 50 * SEC);
	EventTime	y1999 = at(1999, 12, 31, 23, 59, 50 * SEC);

	ok(windows_are(&five, m, m, m) &&
	   windows_are(&five, m + 5 * MINUTE - 1, m, m) &&
	   windows_are(&five, m + 5 * MINUTE, m + 5 * MINUTE, m + 5 * MINUTE) &&
	   windows_are(&five, m + 10 * MINUTE - 1, m + 5 * MINUTE, m + 5 * MINUTE) &&
	   windows_are(&five, m + 10 * MINUTE, m + 10 * MINUTE, m + 10 * MINUTE),
	   "edges of a tumbling window");
	ok(windows_are(&ten, y1960, y1960, y1960) &&
	   windows_are(&ten, y1969 + 8 * SEC, y1969, y1969) &&
	   windows_are(&ten, y1969, y1969, y1969) &&
	   windows_are(&ten, y1999 + 9500000, y1999, y1999) &&
	   windows_are(&ten, 0, 0, 0), "times before the epochs");
	ok(windows_are(&ten_by_five, y1999 + 9500000, y1999, y1999 + 5 * SEC),
	   "sliding windows before 2000");
	ok(windows_are(&odd, j + 33040400, j + 30 * SEC, j + 30 * SEC) &&
	   windows_are(&odd, j + 35200000, j + 30 * SEC, j + 35 * SEC) &&
	   windows_are(&odd, j + 35500000, j + 35 * SEC, j + 35 * SEC),
	   "slide that doesn't divide the size: 5.5 s by 5 s");
	ok(windows_are(&ten_by_four, m + 9 * MINUTE, m, m + 8 * MINUTE) &&
	   windows_are(&ten_by_four, m + 10 * MINUTE, m + 4 * MINUTE, m + 8 * MINUTE),
	   "slide that doesn't divide the size: 10 min by 4 min");
	ok(windows_are(&hour, at(2025, 10, 26, 0, 30, 0),
				   at(2025, 10, 26, 0, 0, 0), at(2025, 10, 26, 0, 0, 0)) &&
	   windows_are(&hour, at(2025, 10, 26, 1, 30, 0),
				   at(2025, 10, 26, 1, 0, 0), at(2025, 10, 26, 1, 0, 0)),
	   "hours are instants, whatever the local clock does");
}

/* t, given by its parts, plus months: the day cut to the month's length. */
static EventTime
brute_months(int year, int month, int day, int64_t time_of_day, int months)
{
	while (months != 0)
	{
		month += months > 0 ? 1 : -1;
		months += months > 0 ? -1 : 1;
		if (month == 13 || month == 0)
		{
			year += month ? 1 : -1;
			month = month ? 1 : 12;
		}
	}
	if (day > month_days(year, month))
		day = month_days(year, month);
	return at(year, month, day, 0, 0, time_of_day);
}

static void
test_event_time_add(void)
{
	Lateness	month = {false, false, 1, 0, 0};
	Lateness	mixed = {false, false, 1, 1, SEC};
	Lateness	year = {false, false, 12, 0, 0};
	Lateness	huge = {false, false, INT32_MAX, INT32_MAX, INT64_MAX};
	Lateness	tiny = {false, false, INT32_MIN, INT32_MIN, INT64_MIN};
	Lateness	forever = {true, false, 0, 0, 0};
	int			bad = 0;

	ok(event_time_add(at(2024, 1, 31, 5, 0, 7), &month) == at(2024, 2, 29, 5, 0, 7) &&
	   event_time_add(at(2023, 1, 31, 5, 0, 0), &month) == at(2023, 2, 28, 5, 0, 0) &&
	   event_time_add(at(2023, 1, 31, 0, 0, 0), &mixed) == at(2023, 3, 1, 0, 0, SEC) &&
	   event_time_add(at(2024, 2, 29, 0, 0, 0), &year) == at(2025, 2, 28, 0, 0, 0) &&
	   event_time_add(at(1999, 12, 31, 23, 59, 0), &month) == at(2000, 1, 31, 23, 59, 0),
	   "calendar months, then days, then time");
	ok(event_time_add(EVENT_TIME_MIN, &huge) == EVENT_TIME_END &&
	   event_time_add(EVENT_TIME_END, &tiny) == EVENT_TIME_MIN &&
	   event_time_add(0, &forever) == EVENT_TIME_END &&
	   event_time_add(EVENT_TIME_NEVER, &huge) == EVENT_TIME_NEVER,
	   "sums saturate");

	for (int i = 0; i < 20000; i++)
	{
		int			y = (int) random_between(&seed, 1600, 2400);
		int			m = (int) random_between(&seed, 1, 12);
		int			d = (int) random_between(&seed, 1, month_days(y, m));
		int64_t		time_of_day = random_between(&seed, 0, DAY - 1);
		Lateness	span = {false, false, (int32_t) random_between(&seed, -500, 500),
			(int32_t) random_between(&seed, -500, 500),
		random_between(&seed, -DAY, 90 * DAY)};

		if (i % 2)
			d = month_days(y, m);
		bad += event_time_add(at(y, m, d, 0, 0, time_of_day), &span) !=
			brute_months(y, m, d, time_of_day, span.months) +
			span.days * DAY + span.usecs;
	}
	ok(bad == 0, "random sums");
}

/* No t up to the threshold exceeds w; the next one does, or a later one. */
static int
brute_threshold(EventTime w, const Lateness *span)
{
	EventTime	threshold = lateness_threshold(w, span);
	bool		exceeded = false;
	int			bad = 0;

	/* in steps that hit the ends of days */
	for (int i = 0; i < 5 * 24; i++)
		bad += event_time_add(threshold - i * HOUR, span) > w;
	for (EventTime t = threshold + 1; t <= threshold + DAY; t += HOUR)
		exceeded |= event_time_add(t, span) > w;
	for (EventTime t = DAY * int64_floor_div(threshold, DAY) - 1;
		 t <= threshold; t += DAY)
		bad += event_time_add(t, span) > w;
	return bad + !exceeded;
}

static void
test_threshold(void)
{
	Lateness	minute = {false, false, 0, 0, MINUTE};
	Lateness	month = {false, false, 1, 0, 0};
	Lateness	forever = {true, false, 0, 0, 0};
	Lateness	huge = {false, false, INT32_MAX, 0, 0};
	int			bad = 0;

	ok(lateness_threshold(0, &minute) == -MINUTE &&
	   lateness_threshold(EVENT_TIME_END, &minute) == EVENT_TIME_END &&
	   lateness_threshold(EVENT_TIME_MIN, &minute) == EVENT_TIME_NEVER &&
	   lateness_threshold(EVENT_TIME_MIN + MINUTE, &minute) == EVENT_TIME_MIN &&
	   lateness_threshold(0, &forever) == EVENT_TIME_NEVER &&
	   lateness_threshold(EVENT_TIME_MAX, &huge) == EVENT_TIME_NEVER &&
	   lateness_threshold(EVENT_TIME_NEVER, &minute) == EVENT_TIME_NEVER,
	   "thresholds of plain spans");
	ok(lateness_threshold(at(2023, 3, 15, 1, 0, 0), &month) == at(2023, 2, 15, 1, 0, 0) &&
	   lateness_threshold(at(2023, 3, 30, 0, 0, 0), &month) == at(2023, 3, 1, 0, 0, -1) &&
	   lateness_threshold(at(2023, 2, 28, 1, 0, 0), &month) == at(2023, 1, 28, 1, 0, 0) &&
	   lateness_threshold(at(2023, 2, 28, 23, 59, 0), &month) == at(2023, 1, 28, 23, 59, 0) &&
	   lateness_threshold(at(2023, 3, 1, 0, 0, -1), &month) == at(2023, 2, 1, 0, 0, -1),
	   "thresholds at the ends of months");

	for (int i = 0; i < 3000; i++)
	{
		Lateness	span = {false, false, (int32_t) random_between(&seed, 0, 30),
			(int32_t) random_between(&seed, 0, 40),
		random_between(&seed, 0, i % 2 ? DAY : SEC)};
		EventTime	w = random_between(&seed, at(1900, 1, 1, 0, 0, 0),
									   at(2100, 1, 1, 0, 0, 0));

		bad += brute_threshold(i % 3 ? w : w - w % DAY, &span) != 0;
		span.months = 0;
		bad += lateness_threshold(w, &span) != w - span.days * DAY - span.usecs;
	}
	ok(bad == 0, "random thresholds");
}

static void
test_watermark(void)
{
	WatermarkConfig config = {false, 5 * SEC, 30 * SEC, DAY};
	WatermarkConfig manual = {true, 0, 30 * SEC, WATERMARK_OFF};
	WatermarkState state;

	watermark_init(&state);
	ok(!watermark_observe(&state, &config, EVENT_TIME_NEVER) &&
	   !watermark_idle(&state, &config, 0, 0, HOUR, HOUR) &&
	   state.watermark == EVENT_TIME_NEVER, "no event, no watermark");
	ok(watermark_observe(&state, &config, 0) && state.watermark == -5 * SEC &&
	   state.event_watermark == -5 * SEC, "W follows at the delay");
	ok(!watermark_observe(&state, &config, -1) && state.watermark == -5 * SEC,
	   "an older event doesn't move W");
	ok(!watermark_observe(&state, &manual, HOUR) &&
	   watermark_advance(&state, MINUTE) && state.watermark == MINUTE &&
	   state.event_watermark == MINUTE, "a manual watermark is advanced only");
	ok(!watermark_advance(&state, 0) && state.watermark == MINUTE,
	   "advance never lowers W");
	ok(watermark_reset(&state, 0, SEC) && state.watermark == SEC &&
	   state.event_watermark == SEC && !watermark_reset(&state, HOUR, 0),
	   "reset lowers W, not below the floor, and never raises it");
	watermark_init(&state);
	ok(watermark_observe(&state, &config, EVENT_TIME_MIN) &&
	   state.watermark == EVENT_TIME_MIN, "the delay saturates");
	ok(watermark_is_ahead(&config, 0, DAY + 1) &&
	   !watermark_is_ahead(&config, 0, DAY) &&
	   !watermark_is_ahead(&manual, 0, EVENT_TIME_MAX) &&
	   !watermark_is_ahead(&config, EVENT_TIME_MAX, EVENT_TIME_MAX),
	   "events ahead of the clock");
}

static void
test_idle(void)
{
	WatermarkConfig config = {false, 0, 30 * SEC, WATERMARK_OFF};
	WatermarkConfig off = {false, 0, WATERMARK_OFF, WATERMARK_OFF};
	WatermarkState state = {0, 0};
	int			bad = 0;

	ok(!watermark_idle(&state, &config, 100, 100, 100 + 30 * SEC, HOUR) &&
	   watermark_idle(&state, &config, 100, 100, 101 + 30 * SEC, HOUR) &&
	   state.watermark == 1 && state.event_watermark == 0,
	   "W rises after the idle time-out, W_e stays");
	ok(!watermark_idle(&state, &off, 0, 0, DAY, HOUR), "idle time-out off");
	ok(watermark_idle(&state, &config, 0, 40 * SEC, 50 * SEC, 5 * SEC) &&
	   state.watermark == 5 * SEC &&
	   !watermark_idle(&state, &config, 0, 50 * SEC, 60 * SEC, 5 * SEC) &&
	   !watermark_idle(&state, &config, 0, 60 * SEC, 70 * SEC, SEC) &&
	   state.watermark == 5 * SEC, "W doesn't rise beyond the cap, nor fall");
	ok(!watermark_idle(&state, &config, INT64_MAX, 0, INT64_MAX, HOUR) &&
	   watermark_idle(&state, &config, INT64_MIN, INT64_MIN, INT64_MAX,
					  EVENT_TIME_END) && state.watermark == EVENT_TIME_END,
	   "idle time saturates");

	/* however the time is cut into calls, the sum is the same */
	for (int i = 0; i < 1000; i++)
	{
		int64_t		now = 7 * SEC;

		state = (WatermarkState) {0, 0};
		while (now < 100 * SEC)
		{
			int64_t		next = now + random_between(&seed, 0, 9 * SEC);

			watermark_idle(&state, &config, 7 * SEC, now, next, DAY);
			now = next;
		}
		bad += state.watermark != now - 37 * SEC || state.event_watermark != 0;
	}
	ok(bad == 0, "idle time adds up");
}

/* The n-th greatest of some times. */
static EventTime
brute_nth(const EventTime *times, int ntimes, int n)
{
	for (int i = 0; i < ntimes; i++)
	{
		int			greater = 0;
		int			equal = 0;

		for (int j = 0; j < ntimes; j++)
		{
			greater += times[j] > times[i];
			equal += times[j] == times[i];
		}
		if (greater < n && greater + equal >= n)
			return times[i];
	}
	return EVENT_TIME_NEVER;
}

static void
test_evidence(void)
{
	EventTime	times[1000];
	int			bad = 0;

	for (int run = 0; run < 20; run++)
	{
		int64_t		spread = run % 2 ? 50 : DAY;
		Evidence	evidence;
		int			n = 0;

		evidence_init(&evidence, EVENT_TIME_NEVER);
		while (n < 300)
		{
			EventTime	t = random_between(&seed, 0, spread) + (run % 3 ? n * SEC : -n * SEC);
			int			events = (int) random_between(&seed, 1, 3);

			evidence_add(&evidence, t, events);
			while (events-- > 0)
				times[n++] = t;
			bad += evidence_time(&evidence) != brute_nth(times, n, EVIDENCE_EVENTS);
		}
	}
	ok(bad == 0, "evidence against all times");
	{
		Evidence	evidence;

		evidence_init(&evidence, 5 * SEC);
		ok(evidence_time(&evidence) == 5 * SEC && !evidence_wants(&evidence, 5 * SEC) &&
		   evidence_wants(&evidence, 6 * SEC), "evidence begun anew");
		evidence_add(&evidence, 6 * SEC, EVIDENCE_EVENTS - 1);
		ok(evidence_time(&evidence) == 5 * SEC, "one less than it takes moves nothing");
		evidence_add(&evidence, DAY, 1);
		ok(evidence_time(&evidence) == 6 * SEC, "one with a fast clock no further than the others");
		evidence_add(&evidence, 2 * DAY, INT64_MAX);
		ok(evidence_time(&evidence) == 2 * DAY, "very many at once");
	}
}

int
main(void)
{
	test_integers();
	test_buckets();
	test_bucket_width();
	test_spec_check();
	test_random_windows();
	test_huge_windows();
	test_fixed_windows();
	test_event_time_add();
	test_threshold();
	test_watermark();
	test_idle();
	test_evidence();
	return tap_done();
}
