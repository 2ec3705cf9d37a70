/*
 * worker.h
 *	  The life of a worker process: start, registration, errors, end.
 *
 * Every worker's main function is:
 *
 *	worker_begin(role, main_arg);	signals, connection, settings, registration
 *	for (;;)
 *	{
 *		worker_tick();				interrupts, configuration, leave if barred
 *		PG_TRY(); { ... one turn ... }
 *		PG_CATCH(); { delay = worker_error(&failures); }
 *		PG_END_TRY();
 *		worker_sleep(ms);
 *	}
 */
#ifndef AION_WORKER_H
#define AION_WORKER_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "worker/control.h"

/* GUC: the most executors per database. */
extern int	aion_executors;

/*
 * Starts a dynamic worker for a database (InvalidOid: for the server), unless "max" of that role are live or
 * starting there already (or it is barred). Returns the number live or starting
 * afterwards, so 0 means: none, and none can be had now (logged at most once a
 * minute). Does not wait.
 */
extern int	worker_start(WorkerRole role, Oid database, int max);

/* Number of that role live (or starting) for a database. */
extern int	worker_count(WorkerRole role, Oid database);

/* How many live workers of the same role and database have come before this one, by their places. */
extern int	worker_rank(void);

/*
 * True if a database waits for a slot to run its scheduler in: workers
 * that are there for speed alone (I/O, executors, serializers) leave, and none are started.
 */
extern bool worker_slots_short(void);

/* Launcher: says so, or that it is over. */
extern void worker_set_slots_short(bool slots_short);

/*
 * Asks all workers of a database, which is barred or shut, to leave: after what they are at, or by SIGTERM,
 * which the log tells of. Returns the number that live or are being started.
 */
extern int	worker_dismiss(Oid database, bool at_once);

/*
 * First thing a worker calls: signal handlers, connection, settings that other
 * people's ALTER ROLE/DATABASE SET must not spoil, registration in shared memory (and
 * an exit callback that undoes it, hands back a job that was
 * running, and wakes the launcher or scheduler). Exits quietly if it is not
 * wanted (barred, or the slot is lost).
 */
extern void worker_begin(WorkerRole role, Datum main_arg);

/* Once per turn: interrupts, configuration file; leaves (proc_exit(0)) if the database is barred. */
extern void worker_tick(void);

/* I/O worker: it leaves now because there is nothing to do; any other end makes the scheduler see to what is left. */
extern void worker_out_of_work(void);

/* Sleeps until the latch is set or ms (-1: for ever) have passed; resets the latch. Shows "idle". */
extern void worker_sleep(long ms, uint32 wait_event_info);

/* The shorter of two waiting times in ms, -1 being never. */
static inline long
worker_sooner(long a, long b)
{
	return a < 0 ? b : b < 0 ? a : Min(a, b);
}

/*
 * Sleeps, as nothing has been to do since idle_since. False, at once: that is limit_ms ago (or the clock
 * went back), so the worker leaves.
 */
extern bool worker_sleep_idle(TimestampTz idle_since, long limit_ms);

/* What the worker does, for aion.workers and pg_stat_activity; NULL: idle. */
extern void worker_state(const char *state);

/*
 * In PG_CATCH: reports the error to the log and to aion.workers, aborts the
 * transaction (releases all), and returns how many ms to wait before trying
 * again: 1 s doubled by each failure up to 1 min. *failures is counted up;
 * the caller zeroes it after a good turn. The memory context is TopMemoryContext
 * afterwards.
 */
extern long worker_error(int *failures);

/* True in a worker, also while it runs a user's code. */
extern bool worker_here(void);

/* Main functions (bgw_function_name). */
extern PGDLLEXPORT void aion_launcher_main(Datum main_arg);
extern PGDLLEXPORT void aion_scheduler_main(Datum main_arg);	/* scheduler.c */
extern PGDLLEXPORT void aion_io_main(Datum main_arg);
extern PGDLLEXPORT void aion_executor_main(Datum main_arg);
extern PGDLLEXPORT void aion_serializer_main(Datum main_arg);

#endif							/* AION_WORKER_H */
