/*
 * purge_lock.h
 *	  Purging a stream against opening windows over what is to be purged.
 *
 * The scheduler publishes up to where a stream may be purged, which stays true as
 * long as nothing opens windows below: taking up a new view does, a
 * longer allowed lateness, and a lowered watermark. So:
 *
 *	I/O worker	in the purging transaction: purge_lock(); then read
 *				purge_before again with control_facts(); purge; commit
 *	scheduler	publish EVENT_TIME_NEVER as purge_before; in its transaction:
 *				purge_lock(); open windows; commit; publish anew
 */
#ifndef AION_PURGE_LOCK_H
#define AION_PURGE_LOCK_H

#include "postgres.h"

/* Until the end of the transaction, without waiting; false: the other has it, try again later. */
extern bool purge_lock(Oid stream);

#endif							/* AION_PURGE_LOCK_H */
