/*
 * events.c
 *	  Columns, arrival and lateness of the workloads' events.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "events.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define FEET 528000				/* length of an expressway */

static uint64_t
mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Number n of one of the independent streams of random numbers. */
uint64_t
paper_random(int stream, uint64_t n)
{
	return mix(mix(PAPER_SEED + GOLDEN * (stream + 1)) + GOLDEN * (n + 1));
}

/* Log-normal with the logarithm's mean 0 and deviation 1, rounded, minus 1: the probability of at most k, k >= 0. */
static double
index_at_most(int k)
{
	return 0.5 * erfc(-log(k + 1.5) / sqrt(2.0));
}

/* How many windows late record n is, if so many windows have closed before it. */
int
windows_late(const PaperRun *run, uint64_t n, int64_t closed)
{
	static double at_most[PAPER_MAX_PAST + 1];
	int			most = closed < run->past ? closed : run->past;
	double		chosen;
	int			index = 0;

	if (run->law == LATENESS_NONE || most == 0)
		return 0;
	if (run->law == LATENESS_SPREAD)
		return 1 + paper_random(0, n) % most;
	if (at_most[0] == 0)
		for (int k = 0; k <= PAPER_MAX_PAST; k++)
			at_most[k] = index_at_most(k);
	/* cut at the most that is possible, which is the same as drawing again until it is not exceeded */
	chosen = ldexp(paper_random(0, n) >> 11, -53) * at_most[most];
	while (index < most && chosen >= at_most[index])
		index++;
	return index;
}

/* When record n happened and arrives. */
Record
paper_record(const PaperRun *run, uint64_t n)
{
	int64_t		width = run->workload->width * US_PER_SECOND;
	int64_t		clock = n * US_PER_SECOND / run->rate;
	Record		record = {clock, clock, false};
	int			index;

	if (run->workload->delays)
	{
		index = windows_late(run, n, run->past);
		record.arrival += index * width;
	}
	else
	{
		index = windows_late(run, n, clock / width);
		record.time -= index * width;
	}
	record.late = index > 0;
	return record;
}

/* Six random bits per character, so that no compression makes the events smaller than the paper's. */
size_t
paper_payload(char *out, uint64_t n, size_t size)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint64_t	hash = 0;

	for (size_t i = 0; i < size; i++)
	{
		if (i % 10 == 0)
			hash = paper_random(15, n * 1024 + i / 10);
		out[i] = alphabet[hash & 63];
		hash >>= 6;
	}
	return size;
}

static size_t
average_columns(char *out, uint64_t n, int rate, char separator)
{
	(void) rate;
	(void) separator;
	return sprintf(out, "%d", (int) (paper_random(1, n) % 1000));
}

/* 8 to 16 words out of 8191, frequent ones as frequent as in texts. */
static size_t
tweet_columns(char *out, uint64_t n, int rate, char separator)
{
	int			words = 8 + paper_random(1, n) % 9;
	size_t		length = 0;

	(void) rate;
	(void) separator;
	for (int i = 0; i < words; i++)
	{
		uint64_t	hash = paper_random(2, n * 32 + i);
		int			octave = 1 << hash % 13;

		length += sprintf(out + length, "%sw%d", i > 0 ? " " : "", (int) (octave + (hash >> 8) % octave));
	}
	return length;
}

/* One of 1000 symbols; a price of 1000 with deviation 50, about normal as the sum of twelve even numbers. */
static size_t
stock_columns(char *out, uint64_t n, int rate, char separator)
{
	int64_t		sum = -393210;
	int64_t		cents;

	(void) rate;
	for (int i = 0; i < 3; i++)
	{
		uint64_t	hash = paper_random(2, n * 4 + i);

		for (int piece = 0; piece < 4; piece++)
			sum += hash >> (16 * piece) & 0xffff;
	}
	sum *= 5000;
	cents = 100000 + (sum >= 0 ? sum / 65536 : -((-sum + 65535) / 65536));
	return sprintf(out, "SYM%d%c%d.%02d", (int) (1 + paper_random(1, n) % 1000), separator,
				   (int) (cents / 100), (int) (cents % 100));
}

/*
 * A vehicle's report of every 30 s: vehicle, speed, expressway, lane,
 * direction, segment, position.  The first five pairs of vehicles of each
 * direction have an accident and stand in the same place for six reports.
 */
static size_t
report_columns(char *out, uint64_t n, int rate, char separator)
{
	int			vehicles = 30 * rate;
	int			ways = rate >= 500 ? rate / 500 : 1;
	int			vehicle = n % vehicles;
	int			report = n / vehicles;
	int			way = vehicle % ways;
	int			direction = vehicle / ways % 2;
	int			rank = vehicle / (2 * ways);
	int			speed = 25 + 10 * ((2 * way + direction) % 4) + paper_random(1, vehicle) % 10;
	int			lane = 1 + paper_random(3, vehicle) % 3;
	int64_t		entry = paper_random(2, vehicle) % FEET;
	int64_t		other = paper_random(6, vehicle) % FEET;
	int			position = ((entry < other ? entry : other) + INT64_C(44) * speed * report) % FEET;
	char		s = separator;

	if (direction == 1)
		position = FEET - 1 - position;
	if (rank < 10)
	{
		uint64_t	pair = 1000 * (rank / 2) + 2 * way + direction;
		int			stop = 4 + paper_random(4, pair) % 8;

		if (report >= stop && report < stop + 6)
		{
			speed = 0;
			lane = 2;
			position = paper_random(5, pair) % FEET;
		}
	}
	return sprintf(out, "%d%c%d%c%d%c%d%c%d%c%d%c%d", vehicle, s, speed, s, way, s, lane, s, direction, s,
				   position / 5280, s, position);
}

static const Workload workloads[] = {
	{"average", 20, false, 2304, average_columns},
	{"bigrams", 30, false, 3584, tweet_columns},
	{"stock", 30, false, 1664, stock_columns},
	{"reports", 60, true, 1536, report_columns},
};

/* NULL: there is none of this name. */
const Workload *
find_workload(const char *name)
{
	for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
		if (strcmp(workloads[i].name, name) == 0)
			return &workloads[i];
	return NULL;
}
