/*
 * yield.h
 *	  Where longer jobs of the store let urgent work go first.
 */
#ifndef AION_YIELD_H
#define AION_YIELD_H

#include "postgres.h"

/*
 * Called between the blocks and tuples of a longer job, in its transaction. Set in
 * the I/O worker; must leave transaction, snapshots and memory context as they were.
 */
extern void (*store_yield_hook) (void);

static inline void
store_yield(void)
{
	if (store_yield_hook)
		store_yield_hook();
}

#endif							/* AION_YIELD_H */
