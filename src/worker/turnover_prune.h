/*
 * turnover_prune.h
 *	  Space that rows leave in small tables where they come and go with windows.
 */
#ifndef AION_TURNOVER_PRUNE_H
#define AION_TURNOVER_PRUNE_H

#include "postgres.h"

#include "worker/control.h"

/*
 * Makes it free for new rows, unless that was done a moment ago; n streams' facts are given. For the I/O worker at the end of
 * a turn, outside any transaction. Waits for nobody, and locks no table against anything but its being dropped or
 * rewritten. Errors out.
 */
extern void turnover_prune(const StreamFacts *facts, int n);

#endif							/* AION_TURNOVER_PRUNE_H */
