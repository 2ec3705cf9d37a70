/*
 * serializer.c
 *	  Compresses and decompresses blocks, for the I/O workers of all databases.
 *
 * Connected to no database, and in no transaction ever: a task (store/serialize.c) is
 * bytes in, bytes out, in shared memory. So one that fails or dies leaves
 * tasks that are given back, and whoever posted them does without. Leaves after
 * some idle time.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "store/serialize.h"
#include "worker/control.h"
#include "worker/serializer.h"
#include "worker/worker.h"

#define IDLE_MS 30000

/* After a start that found no slot, this process does not ask for another sooner. */
#define START_PAUSE_MS 5000

int			aion_serializers = 2;

/* For whoever has a task: is there a serializer? Starts one more if all are busy. */
static bool
summon(bool idle)
{
	static TimestampTz no_start_before = 0;
	TimestampTz now;

	if (aion_serializers == 0)
		return false;
	if (idle)
		return true;
	now = GetCurrentTimestamp();
	if (now < no_start_before && no_start_before - now <= START_PAUSE_MS * INT64CONST(1000))
		return false;
	if (worker_start(WORKER_SERIALIZER, InvalidOid, aion_serializers) > 0)
		return true;
	no_start_before = now + START_PAUSE_MS * INT64CONST(1000);
	return false;
}

void
serializer_init(void)
{
	serialize_hook = summon;
}

/* Does one task, if there is one. Returns ms to leave the next alone for after an error, else 0. */
static long
run_task(bool *found)
{
	static int	failures = 0;
	volatile long pause = 0;

	*found = true;
	PG_TRY();
	{
		*found = serialize_next();
		failures = 0;
	}
	PG_CATCH();
	{
		pause = worker_error(&failures);
		serialize_abandon();
	}
	PG_END_TRY();
	return pause;
}

void
aion_serializer_main(Datum main_arg)
{
	MemoryContext turn;
	TimestampTz idle_since;
	bool		busy = false;

	worker_begin(WORKER_SERIALIZER, main_arg);
	turn = AllocSetContextCreate(TopMemoryContext, "aion serializer turn",
								 ALLOCSET_DEFAULT_SIZES);
	idle_since = GetCurrentTimestamp();

	for (;;)
	{
		bool		found;
		long		pause;

		worker_tick();
		MemoryContextSwitchTo(turn);
		MemoryContextReset(turn);
		if (worker_slots_short() || worker_rank() >= aion_serializers)
			break;
		pause = run_task(&found);
		if (found && !busy)
			worker_state("compressing and decompressing blocks");
		busy = found;
		if (pause > 0)
			worker_sleep(pause, PG_WAIT_EXTENSION);
		if (found)
		{
			idle_since = GetCurrentTimestamp();
			continue;
		}
		if (!worker_sleep_idle(idle_since, IDLE_MS))
			break;
	}
	/* A task that comes now is taken back by whoever posted it. */
	proc_exit(0);
}
