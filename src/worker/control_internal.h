/*
 * control_internal.h
 *	  Layout of the workers' shared state, for control.c, control_queue.c and
 *	  worker.c alone.
 */
#ifndef AION_CONTROL_INTERNAL_H
#define AION_CONTROL_INTERNAL_H

#include "postgres.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include "worker/control.h"
#include "worker/policy.h"

/*
 * A database that is served, being looked at, or barred. Entries never move.
 * A latch pointer stays valid memory after its process has gone (it is
 * part of a PGPROC), so that setting it late wakes a stranger in vain at worst.
 */
typedef struct DatabaseEntry
{
	pg_atomic_uint32 database;	/* atomic, written under the lock; InvalidOid: free */
	pg_atomic_uint32 wants_wake;	/* atomic; scheduler and wakers */
	Latch	   *volatile scheduler; /* written under the lock by the worker, read bare */
	/* under the lock: */
	Latch	   *io;
	int			barred;			/* number of statements that bar it */
	bool		shut;			/* launcher, scheduler: not to be served any more, workers are to leave */
	TimestampTz waiting_since;	/* launcher: no worker slot was free for its scheduler; 0: it does not wait */
	bool		no_extension;	/* scheduler: it looked and there was none */
	bool		io_unfinished;	/* an I/O worker has left although there may be something to do */
	uint32		executions;		/* of windows, that took ... */
	int32		execution_ms[POLICY_EXECUTIONS];	/* ... so long; of the latest, by number modulo size */
} DatabaseEntry;

/* A worker that lives or is being started; afterwards it remembers the last error of such workers. */
typedef struct WorkerSlot
{
	Oid			database;		/* InvalidOid: of a worker of the whole server, or never used */
	WorkerRole	role;
	bool		used;
	int			pid;			/* 0: not live */
	TimestampTz starting_until; /* 0: not being started; after that time it is taken for lost */
	uint32		serial;			/* names this use of the slot */
	Latch	   *latch;			/* while pid != 0 */
	TimestampTz since;			/* of state */
	char		state[64];		/* "" = idle */
	char		last_error[200];
} WorkerSlot;

typedef enum SlotState
{
	SLOT_FREE,
	SLOT_POSTED,				/* job: queued; request: not taken yet */
	SLOT_TAKEN,					/* job: running; request: being worked on */
	SLOT_DONE
} SlotState;

typedef struct JobSlot
{
	SlotState	state;
	Oid			database;
	int			pid;			/* who runs it ... */
	TimestampTz since;			/* ... and since when */
	bool		forgotten;		/* running for a scheduler that is no more */
	bool		stop;			/* it is to end now; read bare by the process that runs it */
	Job			job;
} JobSlot;

typedef struct RequestSlot
{
	SlotState	state;
	Oid			database;
	Latch	   *latch;			/* the caller's */
	Request		request;
} RequestSlot;

typedef struct ControlState
{
	LWLock	   *lock;			/* set once */
	pg_atomic_uint64 next_id;	/* atomic */
	/* under the lock: */
	Latch	   *launcher;		/* NULL: none at present */
	bool		slots_short;	/* launcher: a scheduler waits for a worker slot */
	TimestampTz no_slot_logged; /* when the log was last told that no worker slot was free; 0: never */
	PokedDatabases pokes;
	DatabaseEntry databases[CONTROL_DATABASES];
	WorkerSlot	workers[CONTROL_WORKERS];
	StreamFacts streams[CONTROL_STREAMS];	/* stream InvalidOid: free */
	JobSlot		jobs[CONTROL_JOBS];
	RequestSlot requests[CONTROL_REQUESTS];
} ControlState;

extern ControlState *control;

/* Entry of a database or NULL. Under the lock, or bare by those who know that it stays. */
extern DatabaseEntry *control_find_database(Oid database);

/* A job that this process was running is handed back. Under the lock, exclusively. */
extern void control_jobs_abandon(void);

#endif							/* AION_CONTROL_INTERNAL_H */
