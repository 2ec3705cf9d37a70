/*
 * control.c
 *	  Shared state of the workers: creation, databases, published facts.
 *
 * Jobs and requests are in control_queue.c, worker processes in worker.c. Nothing
 * here waits, touches a table or fails but for lack of preloading.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "time/prestage.h"
#include "worker/control.h"
#include "worker/control_internal.h"

#define CONTROL_NAME "aion control"

ControlState *control = NULL;

Size
control_shmem_size(void)
{
	return MAXALIGN(sizeof(ControlState));
}

void
control_shmem_request(void)
{
	RequestAddinShmemSpace(control_shmem_size());
	RequestNamedLWLockTranche(CONTROL_NAME, 1);
}

/* The caller holds AddinShmemInitLock or not, as it likes: it is taken here. */
void
control_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	control = ShmemInitStruct(CONTROL_NAME, control_shmem_size(), &found);
	if (!found)
	{
		memset(control, 0, sizeof(ControlState));
		control->lock = &GetNamedLWLockTranche(CONTROL_NAME)->lock;
		pg_atomic_init_u64(&control->next_id, 1);
		for (int i = 0; i < CONTROL_DATABASES; i++)
		{
			pg_atomic_init_u32(&control->databases[i].database, InvalidOid);
			pg_atomic_init_u32(&control->databases[i].wants_wake, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

bool
control_available(void)
{
	return control != NULL;
}

void
control_require(void)
{
	if (!control_available())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("aion is not loaded at server start"),
				 errhint("Add aion to shared_preload_libraries and restart the server.")));
}

void
control_copy_text(char *field, Size size, const char *text)
{
	int			length = pg_mbcliplen(text, strlen(text), size - 1);

	memcpy(field, text, length);
	field[length] = '\0';
}

/* ---- databases ---- */

DatabaseEntry *
control_find_database(Oid database)
{
	for (int i = 0; i < CONTROL_DATABASES; i++)
		if (pg_atomic_read_u32(&control->databases[i].database) == database)
			return &control->databases[i];
	return NULL;
}

/* The entry of a database, made if there is room; else NULL. Under the lock, exclusively. */
static DatabaseEntry *
make_database(Oid database)
{
	DatabaseEntry *entry = control_find_database(database);

	if (entry == NULL && (entry = control_find_database(InvalidOid)) != NULL)
	{
		pg_atomic_write_u32(&entry->wants_wake, 0);
		entry->scheduler = NULL;
		entry->io = NULL;
		entry->barred = 0;
		entry->shut = false;
		entry->waiting_since = 0;
		entry->no_extension = false;
		entry->io_unfinished = false;
		entry->executions = 0;
		pg_atomic_write_u32(&entry->database, database);
	}
	return entry;
}

/* True if a worker of the database lives or is being started. Under the lock. */
static bool
database_in_use(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < CONTROL_WORKERS; i++)
	{
		WorkerSlot *slot = &control->workers[i];

		if (slot->database == database && (slot->pid != 0 || slot->starting_until > now))
			return true;
	}
	return false;
}

/* The current database's entry, found without the lock; NULL: none. */
static DatabaseEntry *
my_database(void)
{
	static DatabaseEntry *entry = NULL;

	if (!control_available() || !OidIsValid(MyDatabaseId))
		return NULL;
	if (entry == NULL || pg_atomic_read_u32(&entry->database) != MyDatabaseId)
		entry = control_find_database(MyDatabaseId);
	return entry;
}

void
control_poke(Oid database, bool afresh)
{
	PokedDatabases *pokes;
	Latch	   *launcher;
	int			i;

	if (!control_available())
		return;
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	pokes = &control->pokes;
	for (i = 0; i < pokes->n && pokes->databases[i] != database; i++)
		;
	if (i == CONTROL_DATABASES)
		pokes->all = true;
	else
	{
		if (i == pokes->n)
		{
			pokes->databases[pokes->n++] = database;
			pokes->afresh[i] = false;
		}
		pokes->afresh[i] |= afresh;
	}
	launcher = control->launcher;
	LWLockRelease(control->lock);
	if (launcher != NULL)
		SetLatch(launcher);
}

void
control_take_pokes(PokedDatabases *pokes)
{
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	*pokes = control->pokes;
	control->pokes.all = false;
	control->pokes.n = 0;
	LWLockRelease(control->lock);
}

void
control_wake(void)
{
	static TimestampTz last_poke = 0;
	DatabaseEntry *entry = my_database();
	Latch	   *latch = entry == NULL ? NULL : entry->scheduler;
	TimestampTz now;

	if (latch != NULL)
	{
		/* What is announced was written before the flag is read; control_sleep() has the other half. */
		pg_memory_barrier();
		if (pg_atomic_read_u32(&entry->wants_wake) != 0 &&
			pg_atomic_exchange_u32(&entry->wants_wake, 0) != 0)
			SetLatch(latch);
		return;
	}
	if (!control_available() || !OidIsValid(MyDatabaseId))
		return;
	now = GetCurrentTimestamp();
	if (now - last_poke >= USECS_PER_SEC || now < last_poke)
	{
		last_poke = now;
		control_poke(MyDatabaseId, false);
	}
}

void
control_wake_scheduler(void)
{
	DatabaseEntry *entry = my_database();
	Latch	   *latch = entry == NULL ? NULL : entry->scheduler;

	if (latch != NULL)
		SetLatch(latch);
}

/* Under the lock, so that one that is leaving either sees its latch set or is seen to have left (worker.c). */
bool
control_wake_io(void)
{
	DatabaseEntry *entry;
	Latch	   *latch;

	LWLockAcquire(control->lock, LW_SHARED);
	entry = control_find_database(MyDatabaseId);
	latch = entry == NULL ? NULL : entry->io;
	if (latch != NULL)
		SetLatch(latch);
	LWLockRelease(control->lock);
	return latch != NULL;
}

void
control_sleep(bool wants_wake)
{
	DatabaseEntry *entry = my_database();

	/* A full barrier: whoever wrote before reading 0 here is seen by the look that follows. */
	if (entry != NULL)
		pg_atomic_exchange_u32(&entry->wants_wake, wants_wake ? 1 : 0);
}

void
control_no_extension(void)
{
	DatabaseEntry *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if ((entry = control_find_database(MyDatabaseId)) != NULL)
		entry->no_extension = entry->shut = true;
	for (int i = 0; i < CONTROL_STREAMS; i++)
		if (control->streams[i].database == MyDatabaseId)
			control->streams[i].stream = InvalidOid;
	LWLockRelease(control->lock);
}

bool
control_take_io_unfinished(void)
{
	DatabaseEntry *entry;
	bool		unfinished;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	entry = control_find_database(MyDatabaseId);
	unfinished = entry != NULL && entry->io_unfinished;
	if (unfinished)
		entry->io_unfinished = false;
	LWLockRelease(control->lock);
	return unfinished;
}

bool
control_barred(void)
{
	DatabaseEntry *entry;
	bool		barred;

	LWLockAcquire(control->lock, LW_SHARED);
	entry = control_find_database(MyDatabaseId);
	barred = entry != NULL && (entry->barred > 0 || entry->shut);
	LWLockRelease(control->lock);
	return barred;
}

bool
control_database_open(Oid database)
{
	DatabaseEntry *entry;
	bool		open;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	entry = make_database(database);
	open = entry != NULL && entry->barred == 0;
	if (open)
		entry->no_extension = entry->shut = false;
	LWLockRelease(control->lock);
	return open;
}

int
control_databases(Oid databases[CONTROL_DATABASES])
{
	int			n = 0;

	LWLockAcquire(control->lock, LW_SHARED);
	for (int i = 0; i < CONTROL_DATABASES; i++)
	{
		databases[n] = pg_atomic_read_u32(&control->databases[i].database);
		n += OidIsValid(databases[n]) ? 1 : 0;
	}
	LWLockRelease(control->lock);
	return n;
}

void
control_database_shut(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if ((entry = control_find_database(database)) != NULL)
		entry->shut = true;
	LWLockRelease(control->lock);
}

void
control_database_waiting(Oid database, bool waiting)
{
	DatabaseEntry *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if ((entry = control_find_database(database)) != NULL)
	{
		if (!waiting)
			entry->waiting_since = 0;
		else if (entry->waiting_since == 0)
			entry->waiting_since = GetCurrentTimestamp();
	}
	LWLockRelease(control->lock);
}

int
control_databases_waiting(Oid databases[CONTROL_DATABASES], TimestampTz since[CONTROL_DATABASES])
{
	int			n = 0;

	LWLockAcquire(control->lock, LW_SHARED);
	for (int i = 0; i < CONTROL_DATABASES; i++)
	{
		DatabaseEntry *entry = &control->databases[i];
		Oid			database = pg_atomic_read_u32(&entry->database);

		if (!OidIsValid(database) || entry->waiting_since == 0)
			continue;
		databases[n] = database;
		since[n++] = entry->waiting_since;
	}
	LWLockRelease(control->lock);
	return n;
}

bool
control_database_close(Oid database)
{
	DatabaseEntry *entry;
	bool		had_none = false;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	entry = control_find_database(database);
	if (entry != NULL)
	{
		had_none = entry->no_extension;
		if (entry->barred == 0 && !database_in_use(database))
			pg_atomic_write_u32(&entry->database, InvalidOid);
	}
	LWLockRelease(control->lock);
	return had_none;
}

/* Without room for an entry there is nothing to bar: only databases with an entry have workers. */
bool
control_bar(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if ((entry = make_database(database)) != NULL)
		entry->barred++;
	LWLockRelease(control->lock);
	return entry != NULL;
}

/* Frees the entry too, so that a dropped database leaves nothing; the launcher makes it anew if it is to be served. */
void
control_unbar(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	entry = control_find_database(database);
	if (entry != NULL && entry->barred > 0 && --entry->barred == 0 &&
		!database_in_use(database))
		pg_atomic_write_u32(&entry->database, InvalidOid);
	LWLockRelease(control->lock);
	control_poke(database, true);
}

/* ---- published facts ---- */

/* The entry of a stream of this database, or with InvalidOid a free one; NULL: none. Under the lock. */
static StreamFacts *
find_facts(Oid stream)
{
	for (int i = 0; i < CONTROL_STREAMS; i++)
	{
		StreamFacts *facts = &control->streams[i];

		if (facts->stream == stream &&
			(facts->database == MyDatabaseId || !OidIsValid(stream)))
			return facts;
	}
	return NULL;
}

bool
control_publish(Oid stream, Oid journal, EventTime past_before, EventTime purge_before,
				bool fold, bool destage, StreamFacts *facts)
{
	StreamFacts *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	entry = find_facts(stream);
	if (entry == NULL)
		entry = find_facts(InvalidOid);
	if (entry != NULL)
	{
		if (entry->stream != stream || entry->journal != journal)
		{
			uint64		destages = entry->stream == stream ? entry->destage_wanted : 0;

			memset(entry, 0, sizeof(*entry));
			entry->database = MyDatabaseId;
			entry->stream = stream;
			entry->journal = journal;
			entry->purged_before = EVENT_TIME_NEVER;
			entry->fold_wanted = 1;
			entry->stage_cost = PRESTAGE_COST_UNKNOWN;
			/* Events of the former life are gone, so what was asked for them is done. */
			entry->destage_wanted = entry->destage_done = destages;
		}
		entry->past_before = past_before;
		entry->purge_before = purge_before;
		entry->fold_wanted += fold ? 1 : 0;
		entry->destage_wanted += destage ? 1 : 0;
		if (facts != NULL)
			*facts = *entry;
	}
	LWLockRelease(control->lock);
	return entry != NULL;
}

void
control_unpublish(Oid stream)
{
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_STREAMS; i++)
	{
		StreamFacts *facts = &control->streams[i];

		if (facts->database == MyDatabaseId && OidIsValid(facts->stream) &&
			(facts->stream == stream || !OidIsValid(stream)))
			facts->stream = InvalidOid;
	}
	LWLockRelease(control->lock);
}

void
control_stage_measured(Oid stream, int64 duration, int64 events)
{
	StreamFacts *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if ((entry = find_facts(stream)) != NULL)
		entry->stage_cost = prestage_cost_update(entry->stage_cost, duration, events);
	LWLockRelease(control->lock);
}

bool
control_facts(Oid stream, StreamFacts *facts)
{
	StreamFacts *entry;

	LWLockAcquire(control->lock, LW_SHARED);
	if ((entry = find_facts(stream)) != NULL)
		*facts = *entry;
	LWLockRelease(control->lock);
	return entry != NULL;
}

StreamFacts *
control_all_facts(int *n)
{
	StreamFacts *facts = palloc(CONTROL_STREAMS * sizeof(StreamFacts));

	*n = 0;
	LWLockAcquire(control->lock, LW_SHARED);
	for (int i = 0; i < CONTROL_STREAMS; i++)
		if (control->streams[i].database == MyDatabaseId &&
			OidIsValid(control->streams[i].stream))
			facts[(*n)++] = control->streams[i];
	LWLockRelease(control->lock);
	return facts;
}

void
control_progress(const StreamFacts *facts)
{
	StreamFacts *entry;
	bool		moved = false;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	entry = find_facts(facts->stream);
	if (entry != NULL && entry->journal == facts->journal)
	{
		moved = entry->fold_done != facts->fold_done ||
			entry->destage_done != facts->destage_done ||
			entry->purged_before != facts->purged_before;
		entry->fold_done = facts->fold_done;
		entry->destage_done = facts->destage_done;
		entry->purged_before = facts->purged_before;
	}
	LWLockRelease(control->lock);
	if (moved)
		control_wake_scheduler();
}
