/*
 * tap.h
 *	  The few lines of TAP that the unit programs need, and their random
 *	  numbers.
 *
 * One check is one line of output; loops count their failures and check that
 * there were none.  Random numbers are the same in every run with one seed.
 */
#ifndef AION_TAP_H
#define AION_TAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static int	tap_count;
static int	tap_failures;

/* Report one check. */
static inline void
ok(bool passed, const char *what)
{
	tap_count++;
	if (!passed)
		tap_failures++;
	printf("%sok %d - %s\n", passed ? "" : "not ", tap_count, what);
}

/* Print the plan; the exit status of the program. */
static inline int
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures > 0;
}

/* The next 64 bits of a splitmix64 generator. */
static inline uint64_t
random_u64(uint64_t *state)
{
	uint64_t	z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* A random number in [lo, hi], hi - lo < 2^63. */
static inline int64_t
random_between(uint64_t *state, int64_t lo, int64_t hi)
{
	return lo + (int64_t) (random_u64(state) % ((uint64_t) (hi - lo) + 1));
}

#endif							/* AION_TAP_H */
