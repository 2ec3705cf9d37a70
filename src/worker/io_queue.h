/*
 * io_queue.h
 *	  The queue of the I/O workers: who wants which buckets read or written.
 *
 * Fixed size, like control.h: what finds no room is read by who wants it, or
 * asked for again. A lock of its own, held for a few instructions, a leaf. All functions
 * work on the current database.
 */
#ifndef AION_IO_QUEUE_H
#define AION_IO_QUEUE_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "store/stage.h"

/* In order of priority (algorithms: staging, then late events, then destaging). */
typedef enum IOKind
{
	IO_STAGE,					/* blocks that a firing reads now */
	IO_PRESTAGE,				/* buckets of a firing that is expected */
	IO_LATE,					/* journal to p-buckets */
	IO_DESTAGE,					/* memory to p-bucket */
	IO_PURGE					/* events that nobody needs any more */
} IOKind;

#define IO_KINDS		5
#define IO_REQUESTS		256		/* queued and running, in the whole server */

/* Waiting and service times are counted by powers of two of microseconds. */
#define IO_TIME_CLASSES	40

typedef struct IORequest
{
	IOKind		kind;
	Oid			stream;
	Oid			journal;
	int64		low;			/* buckets, inclusive */
	int64		high;
	TimestampTz deadline;		/* the earlier goes first within a kind */
	int			nblocks;		/* > 0: only these blocks */
	BlockRef	blocks[STAGE_REQUEST_BLOCKS];
	/* set by the queue */
	uint64		number;
	TimestampTz queued_at;
	TimestampTz started_at;		/* 0: not yet */
	int64		bytes;			/* moved so far */
	int64		events;
} IORequest;

typedef enum IOState
{
	IO_STATE_NONE,					/* done and forgotten, or never posted */
	IO_STATE_QUEUED,
	IO_STATE_RUNNING,
	IO_STATE_DONE						/* and waited for */
} IOState;

typedef struct IOTotals
{
	int64		requests;		/* done */
	int64		bytes;
	int64		events;
	int64		waits[IO_TIME_CLASSES];		/* from queued to started: times below 2^i us */
	int64		services[IO_TIME_CLASSES];	/* from started to done */
} IOTotals;

extern void io_queue_shmem_request(void);
extern void io_queue_shmem_startup(void);

/*
 * Queues a request; 0: no room. With "wait" the caller's latch is set when something has been
 * done, and the request stays until it is withdrawn.
 */
extern uint64 io_queue_post(const IORequest *request, bool wait);
extern IOState io_queue_state(uint64 number, IORequest *request);	/* a copy */
extern void io_queue_withdraw(uint64 number);

/* I/O worker: takes the most urgent request of the kinds up to "last"; false: there is none. */
extern bool io_queue_take(IOKind last, IORequest *request);

/* The same for a certain one, which may have been withdrawn: false. */
extern bool io_queue_start(uint64 number);

/* Without a lock. False: nothing is to be staged. True: perhaps; it may be another database's. */
extern bool io_queue_urgent(void);

/* True if something is queued that is to be staged for this database. */
extern bool io_queue_waiting(void);

/* Counts what was done for a running request; false: nobody wants the rest of it. */
extern bool io_queue_progress(uint64 number, int64 bytes, int64 events);

/* Ends it; *request (may be NULL) becomes a copy. False: there is no such request any more. */
extern bool io_queue_finish(uint64 number, IORequest *request);

/* When a process exits that does I/O: a range that somebody waits for is queued again, all else that it was at is over. */
extern void io_queue_abandon(void);

/* Scheduler, at its start and end: takes back what nobody waits for. */
extern void io_queue_reset(void);

/* Copies of the database's requests, palloc'd, and its totals by kind. */
extern IORequest *io_queue_list(int *n);
extern void io_queue_totals(IOTotals totals[IO_KINDS]);

#endif							/* AION_IO_QUEUE_H */
