/*
 * io.h
 *	  The I/O jobs, as the I/O worker does them or the scheduler inline.
 */
#ifndef AION_IO_H
#define AION_IO_H

#include "postgres.h"

#include "worker/control.h"

/*
 * Does what is due now for one stream: fold, purge, what the destage policy says,
 * a requested destage of everything, and brings the "done" fields of *facts up to
 * date. Outside any transaction; uses one per job. A stream that is
 * locked by someone is left for the next time. Returns the ms after which it
 * should be called again although the facts did not change (a bucket is still hot, or
 * the stream was locked), -1: when they change. Errors out.
 */
extern long io_stream_once(StreamFacts *facts);

/*
 * The same for all published streams of the database (recording progress with
 * control_progress), the policy looking at all of them at once, and VACUUM of their
 * journals. What the I/O worker does in a loop, and the scheduler if worker_start(WORKER_IO, ...) returned 0.
 */
extern long io_run_once(void);

/*
 * Scheduler: there may be I/O to do (facts published, events accounted). Starts the I/O worker
 * if there is none and sets its latch; if none can be had, does
 * io_run_once() inline, outside any transaction. Returns the ms
 * after which to call again for that reason, -1: none.
 */
extern long io_kick(void);

#endif							/* AION_IO_H */
