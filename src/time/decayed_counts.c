/*
 * decayed_counts.c
 *	  Keeping weights, and putting them into bytes.
 *
 * The weight of an event is g ^ (number of events after it).  Instead of
 * multiplying all cells by g for each event, an event is added with a weight
 * that is larger than the one before by 1/g; cells are scaled down only when
 * that becomes very large.
 *
 * As many events of weight 1 as these weights are worth is the square of their
 * sum over the sum of their squares (Kish, Survey Sampling, 1965).  That tends
 * to (1 + g) / (1 - g), which is what the caller says as "memory".
 *
 * Bytes, all numbers big-endian, doubles as IEEE 754 has them, the weight of
 * the last event being 1:
 *
 *		 0	version, 1
 *		 1	number of cells (2)
 *		 3	number of cells that aren't 0 (2)
 *		 5	sum of the squares of all weights (8)
 *		13	for each that isn't 0: number (2), weight (8)
 *
 * There is one encoding for the same counts, and what isn't one is refused.
 */
#include "time/decayed_counts.h"

#include <math.h>
#include <string.h>

#define VERSION			1
#define HEADER_BYTES	13
#define CELL_BYTES		10

/* Scale cells down when a new event would weigh more than this. */
#define UNIT_MAX		1e60

/* What weighs less, the last event being 1, has been forgotten. */
#define WEIGHT_MIN		1e-30

/* No sum of weights is as large, nor worth as many events. */
#define WEIGHT_MAX		1e30

/* How much sums of weights may differ by rounding, written and in memory. */
#define ROUNDING		1e-9
#define SHARE_SLACK		1e-12

/*
 * Start with nothing.  memory is how many of the last events, as if they
 * weighed the same, count: at least 2, or DECAYED_COUNTS_FOREVER.
 */
void
decayed_counts_init(DecayedCounts *counts, double *cells, int ncells,
					double memory)
{
	memset(cells, 0, sizeof(double) * (size_t) ncells);
	counts->ncells = ncells;
	counts->memory = memory;
	counts->unit = 1;
	counts->total = 0;
	counts->squares = 0;
}

/* Multiply all weights, forget the smallest; the unit becomes 1. */
static void
rescale(DecayedCounts *counts, double *cells, double factor)
{
	counts->total = 0;
	for (int i = 0; i < counts->ncells; i++)
	{
		cells[i] *= factor;
		if (cells[i] < WEIGHT_MIN)
			cells[i] = 0;
		counts->total += cells[i];
	}
	counts->squares *= factor * factor;
	if (!(counts->total > 0))
		counts->squares = 0;
	counts->unit = 1;
}

/* Count so many events in a cell. */
void
decayed_counts_add(DecayedCounts *counts, double *cells, int cell,
				   int64_t events)
{
	double		n = (double) events;
	double		weight = n;		/* of these events, the last being 1 */
	double		squares = n;

	if (events <= 0)
		return;
	if (counts->memory != DECAYED_COUNTS_FOREVER)
	{
		double		lost = 2 / (counts->memory + 1);	/* 1 - g */
		double		log_g = log1p(-lost);
		double		kept = exp(n * log_g);

		weight = -expm1(n * log_g) / lost;
		squares = -expm1(2 * n * log_g) / (lost * (2 - lost));
		if (counts->unit > UNIT_MAX * kept)
			rescale(counts, cells, kept / counts->unit);
		else
			counts->unit /= kept;
	}
	cells[cell] += weight * counts->unit;
	counts->total += weight * counts->unit;
	counts->squares += squares * counts->unit * counts->unit;
}

/* How many events of the same weight this is worth. */
double
decayed_counts_events(const DecayedCounts *counts)
{
	return counts->total > 0 ?
		counts->total * counts->total / counts->squares : 0;
}

/*
 * The first cell up to which there is this share of all weight; the last that
 * isn't empty, if rounding leaves less.  -1 if all are empty.
 */
int
decayed_counts_cell_at(const DecayedCounts *counts, const double *cells,
					   double share)
{
	double		wanted = share * counts->total * (1 - SHARE_SLACK);
	double		sum = 0;
	int			last = -1;

	for (int i = 0; i < counts->ncells; i++)
	{
		if (cells[i] <= 0)
			continue;
		sum += cells[i];
		last = i;
		if (sum >= wanted)
			break;
	}
	return last;
}

static void
put_number(uint8_t *bytes, int nbytes, uint64_t number)
{
	for (int i = nbytes - 1; i >= 0; i--, number >>= 8)
		bytes[i] = (uint8_t) number;
}

static uint64_t
get_number(const uint8_t *bytes, int nbytes)
{
	uint64_t	number = 0;

	for (int i = 0; i < nbytes; i++)
		number = number << 8 | bytes[i];
	return number;
}

static void
put_double(uint8_t *bytes, double value)
{
	uint64_t	number;

	memcpy(&number, &value, sizeof(number));
	put_number(bytes, 8, number);
}

static double
get_double(const uint8_t *bytes)
{
	uint64_t	number = get_number(bytes, 8);
	double		value;

	memcpy(&value, &number, sizeof(value));
	return value;
}

/*
 * Put counts into bytes, room for DECAYED_COUNTS_BYTES of the cells.  Returns
 * how many they are.  The memory isn't among them.
 */
size_t
decayed_counts_encode(const DecayedCounts *counts, const double *cells,
					  uint8_t *bytes)
{
	size_t		nbytes = HEADER_BYTES;
	int			used = 0;

	for (int i = 0; i < counts->ncells; i++)
	{
		double		weight = cells[i] / counts->unit;

		if (weight < WEIGHT_MIN)
			continue;
		put_number(bytes + nbytes, 2, (uint64_t) i);
		put_double(bytes + nbytes + 2, weight);
		nbytes += CELL_BYTES;
		used++;
	}
	bytes[0] = VERSION;
	put_number(bytes + 1, 2, (uint64_t) counts->ncells);
	put_number(bytes + 3, 2, (uint64_t) used);
	put_double(bytes + 5, used == 0 ? 0 :
			   counts->squares / counts->unit / counts->unit);
	return nbytes;
}

/* Is this encoded counts of so many cells, as far as their form tells? */
static bool
encoding_is_valid(const uint8_t *bytes, size_t nbytes, int ncells)
{
	double		total = 0;
	double		squares;
	int64_t		last = -1;
	size_t		used;

	if (nbytes < HEADER_BYTES || bytes[0] != VERSION ||
		get_number(bytes + 1, 2) != (uint64_t) ncells)
		return false;
	used = (size_t) get_number(bytes + 3, 2);
	if (nbytes != HEADER_BYTES + used * CELL_BYTES)
		return false;
	for (size_t i = 0; i < used; i++)
	{
		const uint8_t *entry = bytes + HEADER_BYTES + i * CELL_BYTES;
		int64_t		cell = (int64_t) get_number(entry, 2);
		double		weight = get_double(entry + 2);

		if (cell <= last || cell >= ncells ||
			!(weight >= WEIGHT_MIN && weight < WEIGHT_MAX))
			return false;
		last = cell;
		total += weight;
	}

	/* no event weighs more than 1, and together they are worth one or more */
	squares = get_double(bytes + 5);
	if (used == 0)
		return get_number(bytes + 5, 8) == 0;
	return squares <= total * (1 + ROUNDING) &&
		squares <= total * total * (1 + ROUNDING) &&
		squares > total * total / WEIGHT_MAX;
}

/*
 * Replace counts, which have been initialised, by encoded ones of as many
 * cells.  Returns false, and changes nothing, if the bytes aren't that.
 */
bool
decayed_counts_decode(DecayedCounts *counts, double *cells,
					  const uint8_t *bytes, size_t nbytes)
{
	if (!encoding_is_valid(bytes, nbytes, counts->ncells))
		return false;
	decayed_counts_init(counts, cells, counts->ncells, counts->memory);
	for (size_t at = HEADER_BYTES; at < nbytes; at += CELL_BYTES)
	{
		double		weight = get_double(bytes + at + 2);

		cells[get_number(bytes + at, 2)] = weight;
		counts->total += weight;
	}
	counts->squares = get_double(bytes + 5);
	return true;
}
