/*
 * bench_codec.c
 *	  Size and speed of blocks: of flights, if they are on standard input as
 *	  departs,delay,distance,origin,destination, and of made-up columns.
 *
 * Flights become blocks as a stream with buckets of an hour makes them: the
 * rows of one hour of departure, in order of arrival, up to 8192 a block.
 * Texts are what PostgreSQL stores: a byte (length + 1) << 1 | 1, then the
 * text.  The best of several rounds counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/codec.h"
#include "tap.h"

#define BLOCK_ROWS		8192
#define HOUR			INT64_C(3600000000)
#define NCOLS			5
#define ROUNDS			5
#define MAX_BLOCKS		100000

typedef struct Flight
{
	int64_t		departs;
	int32_t		delay;
	int32_t		distance;
	uint8_t		origin[8];
	uint8_t		destination[8];
	int			number;			/* in order of arrival */
} Flight;

typedef struct Block
{
	void	   *data;
	size_t		len;
} Block;

static const BlockColumnDesc descs[NCOLS] =
{{8, 8}, {4, 4}, {4, 4}, {BLOCK_VARIABLE, 1}, {BLOCK_VARIABLE, 1}};
static const char *const names[NCOLS] =
{"departs", "delay", "distance", "origin", "destination"};

static Block blocks[MAX_BLOCKS];
static int	nblocks;

static void *
plain_alloc(void *ctx, size_t size)
{
	(void) ctx;
	return malloc(size);
}

static void
plain_free(void *ctx, void *ptr)
{
	(void) ctx;
	free(ptr);
}

static const CodecMemory memory = {plain_alloc, plain_free, NULL};

/* Nanoseconds on the monotonic clock. */
static double
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

/* Stop on any failure: this is no test. */
static void
must(CodecStatus status)
{
	if (status == CODEC_OK)
		return;
	fprintf(stderr, "%s\n", codec_status_text(status));
	exit(1);
}

/* ---- flights ---- */

static void
make_text(uint8_t *out, const char *text)
{
	size_t		len = strlen(text);

	out[0] = (uint8_t) ((len + 1) << 1 | 1);
	memcpy(out + 1, text, len);
}

/* Days from 2001-01-01, for the months that the data covers. */
static int
day_of_2001(int month, int day)
{
	static const int before[] = {0, 31, 59, 90, 120, 151, 181};

	return before[(month - 1) % 7] + day - 1;
}

static bool
read_flight(Flight *flight, int number)
{
	char		line[200];
	char		from[7];
	char		to[7];
	int			month,
				day,
				hour,
				minute;

	if (fgets(line, sizeof(line), stdin) == NULL ||
		sscanf(line, "2001-%d-%d %d:%d:00,%d,%d,%6[^,],%6[^\n]", &month, &day,
			   &hour, &minute, &flight->delay, &flight->distance, from, to) != 8)
		return false;
	flight->departs = (366 + day_of_2001(month, day)) * 24 * HOUR +
		hour * HOUR + minute * (HOUR / 60);
	make_text(flight->origin, from);
	make_text(flight->destination, to);
	flight->number = number;
	return true;
}

static int
compare_flights(const void *a, const void *b)
{
	const Flight *x = a;
	const Flight *y = b;

	if (x->departs / HOUR != y->departs / HOUR)
		return x->departs < y->departs ? -1 : 1;
	return x->number - y->number;
}

static void
add_flight(BlockEncoder *encoder, const Flight *flight)
{
	must(block_encoder_add(encoder, 0, &flight->departs, 8));
	must(block_encoder_add(encoder, 1, &flight->delay, 4));
	must(block_encoder_add(encoder, 2, &flight->distance, 4));
	must(block_encoder_add(encoder, 3, flight->origin, flight->origin[0] >> 1));
	must(block_encoder_add(encoder, 4, flight->destination,
						   flight->destination[0] >> 1));
}

/* Encode all flights, sorted, into blocks. */
static void
encode_flights(const Flight *flights, int n, bool compress)
{
	BlockEncoder *encoder = block_encoder_create(NCOLS, descs, &memory);

	for (int i = 0; i < nblocks; i++)
		free(blocks[i].data);
	nblocks = 0;
	for (int i = 0; i < n; i++)
	{
		add_flight(encoder, &flights[i]);
		if (i + 1 < n &&
			flights[i + 1].departs / HOUR == flights[i].departs / HOUR &&
			block_encoder_rows(encoder) < BLOCK_ROWS)
			continue;
		must(block_encoder_finish(encoder, compress, &blocks[nblocks].data,
								  &blocks[nblocks].len));
		nblocks++;
	}
	block_encoder_destroy(encoder);
}

/* Decode one column of all blocks. */
static void
decode_column(int col, const BlockColumnDesc *desc)
{
	for (int i = 0; i < nblocks; i++)
	{
		BlockDecoder decoder;
		DecodedColumn column;

		must(block_decoder_open(&decoder, blocks[i].data, blocks[i].len,
								&memory));
		must(block_decoder_column(&decoder, col, desc, &column));
		block_column_free(&decoder, &column);
	}
}

/* The least time that decoding a column of all blocks takes. */
static double
time_column(int col, const BlockColumnDesc *desc)
{
	double		best = 1e18;

	for (int round = 0; round < ROUNDS; round++)
	{
		double		start = now_ns();

		decode_column(col, desc);
		start = now_ns() - start;
		best = start < best ? start : best;
	}
	return best;
}

/* Bytes of a column in all blocks, and its encodings, from the directories. */
static size_t
column_bytes(int col, int encodings[8])
{
	size_t		bytes = 0;

	memset(encodings, 0, 8 * sizeof(int));
	for (int i = 0; i < nblocks; i++)
	{
		const uint8_t *entry = (const uint8_t *) blocks[i].data + 16 + 16 * col;

		bytes += entry[8] + ((size_t) entry[9] << 8) + ((size_t) entry[10] << 16);
		encodings[entry[0] & 7]++;
	}
	return bytes;
}

static void
report_flights(const Flight *flights, int n, bool compress)
{
	double		encode = 1e18;
	double		decode = 0;
	size_t		bytes = 0;

	for (int round = 0; round < ROUNDS; round++)
	{
		double		start = now_ns();

		encode_flights(flights, n, compress);
		start = now_ns() - start;
		encode = start < encode ? start : encode;
	}
	printf("flights, %s: %d events, %d blocks\n", compress ? "lz4" : "none",
		   n, nblocks);
	for (int col = 0; col < NCOLS; col++)
	{
		double		column = time_column(col, &descs[col]);
		int			encodings[8];

		decode += column;
		printf("  %-12s %6.2f bytes/event %6.2f ns/event; ", names[col],
			   (double) column_bytes(col, encodings) / n, column / n);
		printf("dictionary %d, plain %d, shuffle %d, range %d, delta %d\n",
			   encodings[2], encodings[3], encodings[4], encodings[5],
			   encodings[6]);
	}
	for (int i = 0; i < nblocks; i++)
		bytes += blocks[i].len;
	printf("  all          %6.2f bytes/event %6.2f ns/event; encode %.1f ns/event\n",
		   (double) bytes / n, decode / n, encode / n);
}

static void
bench_flights(void)
{
	Flight	   *flights = NULL;
	int			n = 0;
	int			room = 0;

	do
	{
		if (n == room)
		{
			room = room > 0 ? 2 * room : 1024;
			flights = realloc(flights, (size_t) room * sizeof(Flight));
		}
	} while (read_flight(&flights[n], n) && ++n);
	if (n > 0)
	{
		qsort(flights, (size_t) n, sizeof(Flight), compare_flights);
		report_flights(flights, n, true);
		report_flights(flights, n, false);
	}
	free(flights);
}

/* ---- made-up columns ---- */

/* Throughput of a column of 8192 values, value i being make(i). */
static void
bench_column(const char *name, int32_t width, bool compress,
			 int64_t (*make) (int64_t i))
{
	static const char *const encodings[] = {"nulls", "constant", "dictionary",
	"plain", "shuffle", "range", "delta", "?"};
	BlockColumnDesc desc = {width, 8};
	BlockEncoder *encoder = block_encoder_create(1, &desc, &memory);
	const uint8_t *entry;
	double		ns;

	for (nblocks = 0; nblocks < 200; nblocks++)
	{
		for (int64_t i = 0; i < BLOCK_ROWS; i++)
		{
			int64_t		value = make(i);

			must(block_encoder_add(encoder, 0, &value, 8));
		}
		must(block_encoder_finish(encoder, compress, &blocks[nblocks].data,
								  &blocks[nblocks].len));
	}
	ns = time_column(0, &desc) / nblocks;
	entry = (const uint8_t *) blocks[0].data + 16;
	printf("%-24s width %2d %-10s %-3s %6.2f bytes/value %6.2f ns/value",
		   name, width, encodings[entry[0] & 7], entry[1] & 2 ? "lz4" : "",
		   (double) blocks[0].len / BLOCK_ROWS, ns / BLOCK_ROWS);
	if (width > 0)
		printf(" %6.2f GB/s", width * BLOCK_ROWS / ns);
	printf("\n");
	while (nblocks > 0)
		free(blocks[--nblocks].data);
	block_encoder_destroy(encoder);
}

static uint64_t seed = 7;

static int64_t
make_random(int64_t i)
{
	return (int64_t) random_u64(&seed) + i;
}

static int64_t
make_noisy(int64_t i)
{
	return (int64_t) (random_u64(&seed) & UINT64_C(0xff0f0000ff)) + (i & 1);
}

static int64_t
make_few(int64_t i)
{
	return (int64_t) (random_u64(&seed) % 200) * INT64_C(0x123456789abcdf) + (i & 0);
}

static int64_t
make_short(int64_t i)
{
	return (int64_t) (random_u64(&seed) % 50000) * 1000 + (i & 0);
}

static int64_t
make_rising(int64_t i)
{
	return i * 1000000 + (int64_t) (random_u64(&seed) % 100000);
}

int
main(void)
{
	bench_flights();
	bench_column("random", 8, true, make_random);
	bench_column("partly random", 8, true, make_noisy);
	bench_column("200 values", 8, true, make_few);
	bench_column("200 values", 4, true, make_few);
	bench_column("range", 8, true, make_short);
	bench_column("range", 4, true, make_short);
	bench_column("rising", 8, true, make_rising);
	bench_column("short text", BLOCK_VARIABLE, true, make_random);
	bench_column("short text, 200 values", BLOCK_VARIABLE, true, make_few);
	return 0;
}
