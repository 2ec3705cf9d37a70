/*
 * decayed_counts.h
 *	  Counts of events in a few cells, in which later events weigh more.
 *
 * Each event takes the same factor off the weight of all before it.  The cells
 * are the caller's, in one array that is passed along, so that whatever they
 * stand for is one struct without pointers.
 */
#ifndef AION_DECAYED_COUNTS_H
#define AION_DECAYED_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value of memory for "nothing is ever forgotten". */
#define DECAYED_COUNTS_FOREVER	0

typedef struct DecayedCounts
{
	int			ncells;
	double		memory;			/* see decayed_counts_init */
	double		unit;			/* weight of the last event, as scaled here */
	double		total;			/* sum of all weights, scaled alike, */
	double		squares;		/* and of their squares */
} DecayedCounts;

/* The most bytes that so many cells are encoded in. */
#define DECAYED_COUNTS_BYTES(ncells)	(13 + 10 * (size_t) (ncells))

extern void decayed_counts_init(DecayedCounts *counts, double *cells,
								int ncells, double memory);
extern void decayed_counts_add(DecayedCounts *counts, double *cells, int cell,
							   int64_t events);
extern double decayed_counts_events(const DecayedCounts *counts);
extern int	decayed_counts_cell_at(const DecayedCounts *counts,
								   const double *cells, double share);
extern size_t decayed_counts_encode(const DecayedCounts *counts,
									const double *cells, uint8_t *bytes);
extern bool decayed_counts_decode(DecayedCounts *counts, double *cells,
								  const uint8_t *bytes, size_t nbytes);

#endif							/* AION_DECAYED_COUNTS_H */
