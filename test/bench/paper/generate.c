/*
 * generate.c
 *	  Writes a workload's events in PostgreSQL's text format for COPY.
 *
 *		generate WORKLOAD RATE SECONDS PAST paper|none|spread PART DIR [FROM TO]
 *			the stream's events, a file for each PART milliseconds of arrival
 *			and for on-time and late events apart: DIR/000000.now, DIR/000000.late, ...
 *			Only of what arrives from second FROM up to TO, if given.
 *		generate WORKLOAD RATE SECONDS PAST paper|none|spread
 *			to standard output, preceded by the arrival and without payload: for
 *			the batch query that results are compared with
 *
 * The events' clock begins in 1970, which is a multiple of every window.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "events.h"

#define MAX_PAYLOAD 4096

static void
fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Appends a timestamp and a tab. Most calls are of the second before. */
static size_t
put_time(char *out, int64_t us)
{
	static time_t last = -1;
	static char text[32];
	time_t		second = us / US_PER_SECOND;

	if (second != last)
	{
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", gmtime(&second));
		last = second;
	}
	return sprintf(out, "%s.%06d\t", text, (int) (us % US_PER_SECOND));
}

/* Writes record n, with its arrival or with its payload. */
static void
write_record(FILE *file, const PaperRun *run, uint64_t n, const Record *record, bool with_payload)
{
	char		line[2 * 32 + PAPER_MAX_COLUMNS + MAX_PAYLOAD + 2];
	size_t		length = 0;
	size_t		columns;

	if (!with_payload)
		length += put_time(line, record->arrival);
	length += put_time(line + length, record->time);
	columns = run->workload->columns(line + length, n, run->rate, '\t');
	length += columns;
	if (with_payload)
	{
		/* a tweet is filled up to its size, the others have a payload of their own */
		size_t		size = run->workload->payload - (strcmp(run->workload->name, "bigrams") == 0 ? columns : 0);

		line[length++] = '\t';
		length += paper_payload(line + length, n, size);
	}
	line[length++] = '\n';
	if (fwrite(line, 1, length, file) != length)
		fail("write");
}

static void
write_all(const PaperRun *run)
{
	for (int64_t n = 0; n < run->records; n++)
	{
		Record		record = paper_record(run, n);

		write_record(stdout, run, n, &record, false);
	}
	if (fflush(stdout) != 0)
		fail("write");
}

static FILE *
open_part(const char *dir, int64_t part, const char *suffix)
{
	char		path[4096];
	FILE	   *file;

	snprintf(path, sizeof(path), "%s/%06d.%s", dir, (int) part, suffix);
	file = fopen(path, "w");
	if (file == NULL)
		fail(path);
	return file;
}

/* The first record whose clock is at or after a time. */
static int64_t
first_record(const PaperRun *run, int64_t us)
{
	int64_t		n = us <= 0 ? 0 : (us * run->rate + US_PER_SECOND - 1) / US_PER_SECOND;

	return n < run->records ? n : run->records;
}

/* What arrives from one time up to another. A delayed record's clock is a number of windows earlier. */
static void
write_part(const PaperRun *run, int64_t from, int64_t to, FILE *now, FILE *late)
{
	int			furthest = run->workload->delays ? run->past : 0;

	for (int index = furthest; index >= 0; index--)
	{
		int64_t		earlier = index * run->workload->width * US_PER_SECOND;
		int64_t		end = first_record(run, to - earlier);

		for (int64_t n = first_record(run, from - earlier); n < end; n++)
		{
			Record		record = paper_record(run, n);

			if (record.arrival >= from && record.arrival < to)
				write_record(record.late ? late : now, run, n, &record, true);
		}
	}
}

static void
write_parts(const PaperRun *run, int64_t part_us, const char *dir, int64_t from, int64_t to)
{
	for (int64_t part = from * US_PER_SECOND / part_us; part * part_us < to * US_PER_SECOND; part++)
	{
		FILE	   *now = open_part(dir, part, "now");
		FILE	   *late = open_part(dir, part, "late");

		write_part(run, part * part_us, (part + 1) * part_us, now, late);
		if (fclose(now) != 0 || fclose(late) != 0)
			fail(dir);
	}
}

int
main(int argc, char **argv)
{
	static const char *const laws[] = {"paper", "none", "spread"};
	PaperRun	run = {0};
	int			law = 0;

	if (argc == 6 || argc == 8 || argc == 10)
	{
		run.workload = find_workload(argv[1]);
		run.rate = atoi(argv[2]);
		run.records = (int64_t) run.rate * atoi(argv[3]);
		run.past = atoi(argv[4]);
		while (law < 3 && strcmp(laws[law], argv[5]) != 0)
			law++;
	}
	if (run.workload == NULL || run.rate <= 0 || run.past < 0 || run.past > PAPER_MAX_PAST || law == 3 ||
		(argc > 6 && atoi(argv[6]) <= 0))
	{
		fprintf(stderr, "usage: %s average|bigrams|stock|reports RATE SECONDS PAST paper|none|spread [PART DIR [FROM TO]]\n", argv[0]);
		return 2;
	}
	run.law = law;
	if (argc == 6)
		write_all(&run);
	else
	{
		int64_t		from = argc == 10 ? atoi(argv[8]) : 0;
		int64_t		last = atoi(argv[3]) + (run.workload->delays ? run.past * run.workload->width : 0);

		write_parts(&run, atoi(argv[6]) * (US_PER_SECOND / 1000), argv[7], from, argc == 10 ? atoi(argv[9]) : last);
	}
	return 0;
}
