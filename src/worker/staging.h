/*
 * staging.h
 *	  Staging requests: how scans make them, how the I/O worker serves them.
 */
#ifndef AION_STAGING_H
#define AION_STAGING_H

#include "postgres.h"

#include "store/storage.h"

/* At start, in every process: scans can ask for blocks (stage_hooks). */
extern void staging_init(void);

/*
 * Has the I/O worker stage what p-buckets low..high hold, as far as there is room, and waits for it. Returns the
 * bytes that were copied, -1 after timeout_ms (-1: none). Errors out if there is no I/O worker to
 * be had; interruptible.
 */
extern int64 staging_stage_range(const StreamStorage *storage, int64 low, int64 high,
								 int64 timeout_ms);

/*
 * I/O worker: from now on, jobs let staging requests go first between two blocks
 * (store_yield_hook).
 */
extern void staging_serve_between_blocks(void);

/* I/O worker: serves all requests, each in a transaction of its own. Outside any transaction. */
extern void staging_serve(void);

#endif							/* AION_STAGING_H */
