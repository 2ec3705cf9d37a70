/*
 * turnover_vacuum.h
 *	  VACUUM of small tables whose rows come and go with windows.
 */
#ifndef AION_TURNOVER_VACUUM_H
#define AION_TURNOVER_VACUUM_H

#include "postgres.h"

#include "worker/control.h"

/*
 * Vacuums those that need it, unless that was done a moment ago; n streams' facts are given. For the I/O worker at the end of
 * a turn, outside any transaction. Errors out.
 */
extern void turnover_vacuum(const StreamFacts *facts, int n);

#endif							/* AION_TURNOVER_VACUUM_H */
