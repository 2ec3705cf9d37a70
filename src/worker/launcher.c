/*
 * launcher.c
 *	  Serves every database that has the extension, by a scheduler each.
 *
 * A static worker without a database of its own. It lists pg_database now and
 * then, and when poked (CREATE EXTENSION, a session that finds no scheduler, the
 * end of a worker), and starts a scheduler in each database that it does not
 * know to be without the extension; the scheduler finds out and says so. What
 * it knows is its own memory: after its death, or a crash, it looks afresh.
 * It opens no table but pg_database and decides nothing about streams.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "store/mbucket.h"
#include "stream/stream.h"
#include "worker/control.h"
#include "worker/database_ddl.h"
#include "worker/serializer.h"
#include "worker/staging.h"
#include "worker/worker.h"

#define LIST_INTERVAL (60 * USECS_PER_SEC)	/* between two looks at pg_database without a poke */
#define LIST_PAUSE USECS_PER_SEC			/* at least */
#define SLOT_PAUSE USECS_PER_SEC			/* after a start that found no slot */
#define LOST_PAUSE (11 * USECS_PER_SEC)		/* by then a worker that was lost while starting is known to be */
#define LEAVE_QUIETLY USECS_PER_SEC			/* after that, workers of a database that is not to be served are signalled */
#define SETTLED (5 * USECS_PER_SEC)			/* having run that long, a scheduler's death is its first again */
#define BACKOFF_MAX 7						/* 2^6 s, cut to a minute */

/* A database that could be served. */
typedef struct KnownDatabase
{
	Oid			database;		/* hash key */
	bool		listed;			/* in the last listing */
	bool		no_extension;	/* a scheduler looked, nobody poked since */
	bool		poked;			/* since the scheduler was started */
	bool		afresh;			/* poked so since the scheduler was started */
	bool		started;		/* a scheduler was started and its end not noticed yet */
	bool		no_slot;		/* the last start found no worker slot */
	TimestampTz dismissed;		/* no longer listed, its workers were asked to leave; 0: not so */
	int			failures;		/* ends in short sequence */
	TimestampTz started_at;
	TimestampTz next_start;		/* not before */
} KnownDatabase;

static HTAB *known;

/* The entry of a database, made if need be. */
static KnownDatabase *
know_database(Oid database)
{
	bool		found;
	KnownDatabase *entry = hash_search(known, &database, HASH_ENTER, &found);

	if (!found)
	{
		memset(entry, 0, sizeof(*entry));
		entry->database = database;
	}
	return entry;
}

/*
 * Brings "known" up to date with pg_database, and forgets the memory of databases that are not there any
 * more.
 */
static void
list_databases(void)
{
	List	   *gone;
	ListCell   *lc;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	HASH_SEQ_STATUS seq;
	KnownDatabase *entry;

	hash_seq_init(&seq, known);
	while ((entry = hash_seq_search(&seq)) != NULL)
		entry->listed = false;

	StartTransactionCommand();
	/* before the look at pg_database, which then shows each that exists */
	gone = mbucket_databases();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		gone = list_delete_oid(gone, form->oid);
		/* A limit below -1 marks one that DROP DATABASE left half-done. */
		if (form->datistemplate || !form->datallowconn || form->datconnlimit < -1)
			continue;
		know_database(form->oid)->listed = true;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	/* what is being looked at just now waits for the next time */
	foreach(lc, gone)
		(void) mbucket_forget_database(lfirst_oid(lc));
	CommitTransactionCommand();
}

/* Someone says that there may be something to serve. */
static void
note_poke(KnownDatabase *entry, bool afresh)
{
	entry->poked = true;
	entry->no_extension = false;
	if (afresh)
	{
		entry->afresh = true;
		entry->failures = 0;
		entry->next_start = 0;
	}
}

/*
 * Notes pokes. Returns when to list the databases because of them: at once if a
 * statement may have made or dropped one, soon if some session has not been served.
 */
static TimestampTz
take_pokes(TimestampTz now, TimestampTz last_list)
{
	TimestampTz list_at = now + LIST_INTERVAL;
	PokedDatabases pokes;
	HASH_SEQ_STATUS seq;
	KnownDatabase *entry;

	control_take_pokes(&pokes);
	if (pokes.all || pokes.n > 0)
		list_at = Max(now, last_list + LIST_PAUSE);
	for (int i = 0; i < pokes.n; i++)
	{
		if (pokes.afresh[i])
			list_at = now;
		entry = hash_search(known, &pokes.databases[i], HASH_FIND, NULL);
		if (entry != NULL)
			note_poke(entry, pokes.afresh[i]);
	}
	if (pokes.all)
	{
		hash_seq_init(&seq, known);
		while ((entry = hash_seq_search(&seq)) != NULL)
			note_poke(entry, false);
	}
	return list_at;
}

/* The scheduler that was started is no more: what that means for the next one. */
static void
note_end(KnownDatabase *entry, TimestampTz now)
{
	entry->started = false;
	if (control_database_close(entry->database))
	{
		/* Someone may have created the extension after the scheduler had looked. */
		entry->no_extension = !entry->poked;
		entry->failures = 0;
		entry->next_start = now;
		return;
	}
	if (entry->afresh)
	{
		entry->next_start = now;
		return;
	}
	if (now - entry->started_at > SETTLED)
		entry->failures = 0;
	/* the first time at once, then after 1, 2, 4 ... seconds */
	entry->next_start = now;
	if (entry->failures > 0)
		entry->next_start += Min(60, 1 << (entry->failures - 1)) * USECS_PER_SEC;
	entry->failures = Min(entry->failures + 1, BACKOFF_MAX);
}

/* Starts the scheduler of a database that is due for one. */
static void
start_scheduler(KnownDatabase *entry, TimestampTz now)
{
	bool		open = control_database_open(entry->database);

	entry->started = open && worker_start(WORKER_SCHEDULER, entry->database, 1) > 0;
	/* not if it was barred in between */
	entry->no_slot = open && !entry->started && control_database_open(entry->database);
	control_database_waiting(entry->database, entry->no_slot);
	if (!entry->started)
	{
		entry->next_start = now + SLOT_PAUSE;	/* the end of a bar is a poke */
		return;
	}
	entry->started_at = now;
	entry->poked = entry->afresh = false;
}

/*
 * Looks after one database. Returns the time at which to look again at the latest.
 */
static TimestampTz
tend_database(KnownDatabase *entry, TimestampTz now)
{
	bool		alive = worker_count(WORKER_SCHEDULER, entry->database) > 0;

	if (!entry->listed)
	{
		/* Gone, or not to be served any more (made a template, or closed to connections). */
		control_database_shut(entry->database);
		if (entry->dismissed == 0)
			entry->dismissed = now;
		if (worker_dismiss(entry->database, now - entry->dismissed >= LEAVE_QUIETLY) > 0)
			return now + LEAVE_QUIETLY;
		(void) control_database_close(entry->database);
		hash_search(known, &entry->database, HASH_REMOVE, NULL);
		return now + LIST_INTERVAL;
	}
	if (entry->dismissed != 0)
	{
		/* It is to be served again, and some of its workers have not left yet. */
		(void) control_database_open(entry->database);
		entry->dismissed = 0;
	}
	if (alive)
	{
		entry->started = true;	/* also if a launcher before this one started it */
		if (entry->started_at == 0)
			entry->started_at = now;
		return now + (now - entry->started_at < LOST_PAUSE ? LOST_PAUSE : LIST_INTERVAL);
	}
	if (entry->started)
		note_end(entry, now);
	if (entry->no_extension)
	{
		(void) control_database_close(entry->database); /* again: other workers may have kept it */
		return now + LIST_INTERVAL;
	}
	if (entry->next_start > now)
		return entry->next_start;
	start_scheduler(entry, now);
	return entry->started ? now + LOST_PAUSE : entry->next_start;
}

/* Tends all databases; returns the time of the next look. */
static TimestampTz
tend_all(TimestampTz now)
{
	HASH_SEQ_STATUS seq;
	KnownDatabase *entry;
	TimestampTz next = now + LIST_INTERVAL;
	static bool slots_short = false;
	bool		now_short = false;

	hash_seq_init(&seq, known);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		TimestampTz then = tend_database(entry, now);	/* may remove the entry, which the scan allows */

		next = Min(next, then);
	}
	hash_seq_init(&seq, known);
	while ((entry = hash_seq_search(&seq)) != NULL)
		now_short |= entry->no_slot;

	/* A scheduler goes before other workers of other databases: they make room. */
	if (now_short || slots_short)
		worker_set_slots_short(now_short);
	if (now_short && !slots_short)
		next = Min(next, now + LIST_PAUSE);
	slots_short = now_short;
	return next;
}

void
aion_launcher_main(Datum main_arg)
{
	HASHCTL		ctl;
	Oid			served[CONTROL_DATABASES];
	int			nserved;
	TimestampTz next_list = 0;
	TimestampTz last_list = 0;

	worker_begin(WORKER_LAUNCHER, main_arg);

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(KnownDatabase);
	known = hash_create("aion databases", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	/* served by a launcher before this one; some may have been closed to us since */
	nserved = control_databases(served);
	for (int i = 0; i < nserved; i++)
		(void) know_database(served[i]);

	for (;;)
	{
		TimestampTz now;
		TimestampTz next;
		TimestampTz list_at;

		worker_tick();
		now = GetCurrentTimestamp();
		list_at = take_pokes(now, last_list);
		next_list = Min(next_list, list_at);
		if (now >= next_list)
		{
			list_databases();
			last_list = now;
			next_list = now + LIST_INTERVAL;
		}
		else if (last_list > now)
			last_list = now;	/* the clock was set back */
		next = tend_all(now);
		next = Min(next, next_list);
		worker_sleep(Max(10, (next - now) / 1000), PG_WAIT_EXTENSION);
	}
}

/* ---- set-up ---- */

void
worker_init(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	strlcpy(worker.bgw_name, "aion launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "aion launcher", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "aion", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "aion_launcher_main", sizeof(worker.bgw_function_name));
	/* pg_upgrade starts both servers; nobody may write to the one, nor see half of the other */
	if (!IsBinaryUpgrade)
		RegisterBackgroundWorker(&worker);

	stream_wake_hook = control_wake;
	view_stop_hook = control_jobs_stop;
	view_stopped_hook = control_job_stopped;
	staging_init();
	serializer_init();
	database_ddl_init();
}
