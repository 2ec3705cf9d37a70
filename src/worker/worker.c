/*
 * worker.c
 *	  The life of a worker process: start, registration, errors, end.
 *
 * A worker slot in shared memory is claimed by the one who starts a worker,
 * taken over by the worker as its first act, and freed by its exit callback. A
 * worker that never came (the postmaster could not fork) is taken for lost
 * after some seconds; should it come later, it sees that the slot is not its
 * own any more and leaves. What a worker is for, and when, is decided elsewhere.
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "store/serialize.h"
#include "worker/control.h"
#include "worker/control_internal.h"
#include "worker/io_queue.h"
#include "worker/worker.h"

#define START_PATIENCE_MS 10000
#define KEPT_MEMORY (8 * 1024 * 1024)	/* by a process, at most */
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS 60000

int			aion_executors = 2;

typedef struct RoleProperties
{
	const char *name;
	const char *main_function;
	bool		of_database;	/* serves one; the others are the whole server's, and connected to none */
	bool		dispensable;	/* there for speed alone: leaves when slots are short */
} RoleProperties;

static const RoleProperties roles[WORKER_ROLES] = {
	[WORKER_LAUNCHER] = {"launcher", "aion_launcher_main", false, false},
	[WORKER_SCHEDULER] = {"scheduler", "aion_scheduler_main", true, false},
	[WORKER_IO] = {"io", "aion_io_main", true, true},
	[WORKER_EXECUTOR] = {"executor", "aion_executor_main", true, true},
	[WORKER_SERIALIZER] = {"serializer", "aion_serializer_main", false, true},
};

/* This process's slot, if it is a worker. */
static WorkerSlot *my_slot = NULL;

/* It is about to leave for want of work. */
static bool out_of_work = false;

/* ---- starting others ---- */

/* Live, or being started and not lost. Under the lock. */
static bool
slot_in_use(const WorkerSlot *slot, TimestampTz now)
{
	return slot->pid != 0 || slot->starting_until > now;
}

/* Number in use of a role and database. Under the lock. */
static int
count_slots(WorkerRole role, Oid database, TimestampTz now)
{
	int			n = 0;

	for (int i = 0; i < CONTROL_WORKERS; i++)
	{
		WorkerSlot *slot = &control->workers[i];

		if (slot->used && slot->role == role && slot->database == database &&
			slot_in_use(slot, now))
			n++;
	}
	return n;
}

/*
 * Claims a slot; the remembered error of such workers goes with it if there is
 * one. NULL: all in use. Under the lock, exclusively.
 */
static WorkerSlot *
claim_slot(WorkerRole role, Oid database, TimestampTz now)
{
	WorkerSlot *best = NULL;
	int			best_rank = 0;

	for (int i = 0; i < CONTROL_WORKERS; i++)
	{
		WorkerSlot *slot = &control->workers[i];
		int			rank = !slot->used ? 2 : slot->role == role && slot->database == database ? 3 : 1;

		if (!slot_in_use(slot, now) && rank > best_rank)
		{
			best = slot;
			best_rank = rank;
		}
	}
	if (best != NULL)
	{
		if (best_rank == 1)
			best->last_error[0] = '\0';
		best->used = true;
		best->role = role;
		best->database = database;
		best->pid = 0;
		best->serial = (best->serial + 1) % (PG_UINT32_MAX / CONTROL_WORKERS);
		best->latch = NULL;
		best->since = now;
		strlcpy(best->state, "starting", sizeof(best->state));
		best->starting_until = now + START_PATIENCE_MS * INT64CONST(1000);
	}
	return best;
}

/* Says that no process could be had; the server's log is told so once a minute, by whoever meets it. */
static void
log_no_slot(WorkerRole role, Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz last;
	bool		due;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	last = control->no_slot_logged;
	due = last == 0 || now - last >= USECS_PER_MINUTE || now < last;
	if (due)
		control->no_slot_logged = now;
	LWLockRelease(control->lock);
	if (!due)
		return;
	ereport(LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 roles[role].of_database ?
			 errmsg("no background worker slot is free for aion's %s of database %u",
					roles[role].name, database) :
			 errmsg("no background worker slot is free for aion's %s", roles[role].name),
			 errhint("Consider raising max_worker_processes.")));
}

/* Asks the postmaster for the process. */
static bool
register_worker(WorkerRole role, uint32 arg)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "aion %s", roles[role].name);
	snprintf(worker.bgw_type, BGW_MAXLEN, "aion %s", roles[role].name);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "aion", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, roles[role].main_function, sizeof(worker.bgw_function_name));
	worker.bgw_main_arg = UInt32GetDatum(arg);
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* True if a database is served and neither barred nor shut. Under the lock. */
static bool
may_serve(Oid database)
{
	DatabaseEntry *entry = control_find_database(database);

	return entry != NULL && entry->barred == 0 && !entry->shut;
}

int
worker_start(WorkerRole role, Oid database, int max)
{
	TimestampTz now = GetCurrentTimestamp();
	WorkerSlot *slot = NULL;
	uint32		arg = 0;
	int			n;
	bool		wanted;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	n = count_slots(role, database, now);
	wanted = n < max && (!roles[role].of_database || may_serve(database)) &&
		!(roles[role].dispensable && control->slots_short);
	if (wanted && (slot = claim_slot(role, database, now)) != NULL)
		arg = slot->serial * CONTROL_WORKERS + (slot - control->workers);
	LWLockRelease(control->lock);

	if (!wanted)
		return n;
	if (slot != NULL && register_worker(role, arg))
		return n + 1;
	if (slot != NULL)
	{
		LWLockAcquire(control->lock, LW_EXCLUSIVE);
		slot->starting_until = 0;
		LWLockRelease(control->lock);
	}
	if (n == 0)
		log_no_slot(role, database);
	return n;
}

int
worker_count(WorkerRole role, Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	int			n;

	LWLockAcquire(control->lock, LW_SHARED);
	n = count_slots(role, database, now);
	LWLockRelease(control->lock);
	return n;
}

int
worker_rank(void)
{
	int			rank = 0;

	LWLockAcquire(control->lock, LW_SHARED);
	for (WorkerSlot *slot = control->workers; slot < my_slot; slot++)
		if (slot->pid != 0 && slot->role == my_slot->role && slot->database == my_slot->database)
			rank++;
	LWLockRelease(control->lock);
	return rank;
}

bool
worker_slots_short(void)
{
	bool		slots_short;

	LWLockAcquire(control->lock, LW_SHARED);
	slots_short = control->slots_short;
	LWLockRelease(control->lock);
	return slots_short;
}

/* Wakes the workers that are to leave, in whatever database. */
void
worker_set_slots_short(bool slots_short)
{
	Latch	   *latches[CONTROL_WORKERS];
	int			n = 0;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CONTROL_WORKERS && slots_short; i++)
	{
		WorkerSlot *slot = &control->workers[i];

		if (slot->pid != 0 && roles[slot->role].dispensable)
			latches[n++] = slot->latch;
	}
	control->slots_short = slots_short;
	LWLockRelease(control->lock);
	for (int i = 0; i < n; i++)
		SetLatch(latches[i]);
}

/* The signal is sent under the lock, so that it can't reach a stranger of the same pid. */
int
worker_dismiss(Oid database, bool at_once)
{
	TimestampTz now = GetCurrentTimestamp();
	int			n = 0;

	LWLockAcquire(control->lock, LW_SHARED);
	for (int i = 0; i < CONTROL_WORKERS; i++)
	{
		WorkerSlot *slot = &control->workers[i];

		if (!slot->used || !roles[slot->role].of_database || slot->database != database ||
			!slot_in_use(slot, now))
			continue;
		n++;
		if (slot->pid == 0)
			continue;
		if (at_once)
			kill(slot->pid, SIGTERM);
		else
			SetLatch(slot->latch);
	}
	LWLockRelease(control->lock);
	return n;
}

/* ---- being one ---- */

bool
worker_here(void)
{
	return my_slot != NULL;
}

/*
 * Exit callback, the last thing a worker does in shared memory but for leaving
 * the list of processes: its transaction is over.
 */
static void
leave(int code, Datum arg)
{
	WorkerSlot *slot = my_slot;
	WorkerRole	role;
	DatabaseEntry *entry;
	Latch	   *wake;

	if (slot == NULL)
		return;
	my_slot = NULL;
	role = slot->role;			/* it may be another's when the lock is released */
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	slot->pid = 0;
	slot->latch = NULL;
	entry = OidIsValid(slot->database) ? control_find_database(slot->database) : NULL;
	wake = control->launcher;
	if (slot->role == WORKER_LAUNCHER)
		wake = control->launcher = NULL;
	else if (entry != NULL)
	{
		if (slot->role == WORKER_SCHEDULER)
			entry->scheduler = NULL;
		else
			wake = entry->scheduler;
		if (slot->role == WORKER_IO)
		{
			entry->io = NULL;
			/* somebody may have had news for it since it looked */
			entry->io_unfinished |= !out_of_work || MyLatch->is_set;
		}
	}
	control_jobs_abandon();
	LWLockRelease(control->lock);
	io_queue_abandon();
	if (role == WORKER_SCHEDULER)
		io_queue_reset();
	serialize_abandon();
	if (wake != NULL)
		SetLatch(wake);
}

/* Takes over the slot that main_arg names; the launcher claims its own. False: not wanted. */
static bool
enter(WorkerRole role, Datum main_arg)
{
	TimestampTz now = GetCurrentTimestamp();
	WorkerSlot *slot;
	DatabaseEntry *entry;

	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if (role == WORKER_LAUNCHER)
	{
		slot = claim_slot(role, InvalidOid, now);
		if (slot != NULL)
			control->launcher = MyLatch;
	}
	else
	{
		uint32		arg = DatumGetUInt32(main_arg);

		slot = &control->workers[arg % CONTROL_WORKERS];
		if (slot->serial != arg / CONTROL_WORKERS || slot->role != role ||
			slot->pid != 0 || slot->starting_until == 0)
			slot = NULL;
		entry = slot == NULL ? NULL : control_find_database(slot->database);
		/* one that was taken for lost while it was starting may come after its successor */
		if (slot != NULL && roles[role].of_database &&
			(!may_serve(slot->database) ||
			 (role == WORKER_SCHEDULER && entry->scheduler != NULL) ||
			 (role == WORKER_IO && entry->io != NULL)))
		{
			slot->starting_until = 0;
			slot = NULL;
		}
		if (slot != NULL && role == WORKER_SCHEDULER)
			entry->scheduler = MyLatch;
		if (slot != NULL && role == WORKER_IO)
			entry->io = MyLatch;
	}
	if (slot != NULL)
	{
		slot->starting_until = 0;
		slot->pid = MyProcPid;
		slot->latch = MyLatch;
		slot->since = now;
		my_slot = slot;
	}
	LWLockRelease(control->lock);
	return slot != NULL;
}

/*
 * What ALTER ROLE or ALTER DATABASE ... SET, or postgresql.conf, must not spoil. Before the process connects,
 * which would apply them. The limit on temporary files is one on what users' queries may take: it holds
 * for executors, which retry, while what the others write is bounded otherwise.
 */
static void
pin_settings(WorkerRole role)
{
	static const char *const settings[][2] = {
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"transaction_timeout", "0"},	/* from 17 on */
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"session_replication_role", "origin"},
		{"restrict_nonsystem_relation_kind", ""},	/* from 15.8 and 16.4 on */
		{"exit_on_error", "off"},
		{"role", "none"},
		{"row_security", "on"},
		{"search_path", "pg_catalog, pg_temp"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	if (role != WORKER_EXECUTOR)
		SetConfigOption("temp_file_limit", "-1", PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * A view's query runs in a worker, with its owner's code in it. What that sets is undone afterwards, unless it has ended
 * the process before, and with it, where the scheduler executes windows itself, the work for everybody else. So in a
 * worker settings that make an error or a time-out fatal are for superusers.
 */
static void
reserve_fatal_settings(void)
{
	static const char *const settings[] = {
		"exit_on_error",
		"transaction_timeout",	/* from 17 on */
	};

	for (int i = 0; i < lengthof(settings); i++)
	{
		struct config_generic *setting = find_option(settings[i], false, true, ERROR);

		if (setting != NULL)
			setting->context = PGC_SUSET;
	}
}

/*
 * A turn of a worker allocates some MB and frees them. Left alone, malloc gives that back to the
 * system each time, and the next turn begins with a page fault for each 4 kB.
 */
static void
keep_freed_memory(void)
{
#ifdef __GLIBC__
	(void) mallopt(M_MMAP_THRESHOLD, KEPT_MEMORY);
	(void) mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY);
#endif
}

void
worker_begin(WorkerRole role, Datum main_arg)
{
	keep_freed_memory();
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGUSR2, control_stop_handler);
	BackgroundWorkerUnblockSignals();

	if (!enter(role, main_arg))
		proc_exit(0);
	on_shmem_exit(leave, (Datum) 0);

	pin_settings(role);
	reserve_fatal_settings();
	/* The launcher decides which databases are served; one that has just been closed to connections is left quietly. */
	BackgroundWorkerInitializeConnectionByOid(my_slot->database, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	/* which ALTER DATABASE ... SET session_authorization has changed */
	SetSessionAuthorization(GetAuthenticatedUserId(), true);
	worker_state(NULL);
}

/* Between two turns there is nothing that could be cancelled: such a request is for what is over. */
static void
accept_interrupts(void)
{
	HOLD_CANCEL_INTERRUPTS();
	CHECK_FOR_INTERRUPTS();
	RESUME_CANCEL_INTERRUPTS();
	QueryCancelPending = false;
}

void
worker_tick(void)
{
	(void) pgstat_report_stat(false);
	accept_interrupts();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (OidIsValid(MyDatabaseId) && control_barred())
		proc_exit(0);
}

void
worker_out_of_work(void)
{
	out_of_work = true;
}

void
worker_sleep(long ms, uint32 wait_event_info)
{
	worker_state(NULL);
	/* autovacuum goes by the counts of what was changed; workers have no client to report after */
	pgstat_report_stat(true);
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (ms >= 0 ? WL_TIMEOUT : 0),
					 ms, wait_event_info);
	ResetLatch(MyLatch);
	accept_interrupts();
}

bool
worker_sleep_idle(TimestampTz idle_since, long limit_ms)
{
	int64		idle_ms = (GetCurrentTimestamp() - idle_since) / 1000;

	if (idle_ms < 0 || idle_ms >= limit_ms)
		return false;
	worker_sleep(limit_ms - idle_ms, PG_WAIT_EXTENSION);
	return true;
}

/* Harmless in a process that is no worker. */
void
worker_state(const char *state)
{
	TimestampTz now;

	pgstat_report_activity(state == NULL ? STATE_IDLE : STATE_RUNNING, state);
	if (my_slot == NULL)
		return;
	if (state == NULL)
		state = "";
	now = GetCurrentTimestamp();
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	if (strcmp(my_slot->state, state) != 0)
	{
		strlcpy(my_slot->state, state, sizeof(my_slot->state));
		my_slot->since = now;
	}
	LWLockRelease(control->lock);
}

/* Remembers the message of the error being handled. */
static void
remember_error(void)
{
	ErrorData  *error;

	if (my_slot == NULL)
		return;
	error = CopyErrorData();
	LWLockAcquire(control->lock, LW_EXCLUSIVE);
	control_copy_text(my_slot->last_error, sizeof(my_slot->last_error),
					  error->message != NULL ? error->message : "unknown error");
	LWLockRelease(control->lock);
	FreeErrorData(error);
}

long
worker_error(int *failures)
{
	long		delay = RETRY_FIRST_MS;

	HOLD_INTERRUPTS();
	EmitErrorReport();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	MemoryContextSwitchTo(TopMemoryContext);
	remember_error();
	AbortCurrentTransaction();
	FlushErrorState();
	RESUME_INTERRUPTS();

	for (int i = 0; i < *failures && delay < RETRY_LAST_MS; i++)
		delay *= 2;
	(*failures)++;
	return Min(delay, RETRY_LAST_MS);
}

/* ---- looking at them ---- */

/* The last error of such workers as text of this database: it may be of one that has another encoding. */
static Datum
error_datum(char *error)
{
	if (!pg_verifymbstr(error, strlen(error), true))
		for (char *c = error; *c != '\0'; c++)
			if (IS_HIGHBIT_SET(*c))
				*c = '?';
	return CStringGetTextDatum(error);
}

PG_FUNCTION_INFO_V1(aion_worker_status);

/*
 * aion.worker_status(): pid, database oid, role, state, since, last_error of
 * live workers, and of schedulers that wait for a worker slot (pid NULL). Errors only to those who may
 * read all statistics.
 */
Datum
aion_worker_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		errors = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	WorkerSlot *slots;
	Oid			waiting[CONTROL_DATABASES];
	TimestampTz since[CONTROL_DATABASES];
	int			nwaiting;

	InitMaterializedSRF(fcinfo, 0);
	if (!control_available())
		return (Datum) 0;
	slots = palloc(sizeof(control->workers));
	LWLockAcquire(control->lock, LW_SHARED);
	memcpy(slots, control->workers, sizeof(control->workers));
	LWLockRelease(control->lock);

	for (int i = 0; i < CONTROL_WORKERS; i++)
	{
		WorkerSlot *slot = &slots[i];
		Datum		values[6];
		bool		nulls[6] = {false};

		if (slot->pid == 0)
			continue;
		values[0] = Int32GetDatum(slot->pid);
		values[1] = ObjectIdGetDatum(slot->database);
		nulls[1] = !OidIsValid(slot->database);
		values[2] = CStringGetTextDatum(roles[slot->role].name);
		values[3] = CStringGetTextDatum(slot->state[0] == '\0' ? "idle" : slot->state);
		values[4] = TimestampTzGetDatum(slot->since);
		values[5] = error_datum(slot->last_error);
		nulls[5] = slot->last_error[0] == '\0' || !errors;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	nwaiting = control_databases_waiting(waiting, since);
	for (int i = 0; i < nwaiting; i++)
	{
		Datum		values[6];
		bool		nulls[6] = {[0] = true, [5] = true};

		values[1] = ObjectIdGetDatum(waiting[i]);
		values[2] = CStringGetTextDatum(roles[WORKER_SCHEDULER].name);
		values[3] = CStringGetTextDatum("waiting for a worker slot");
		values[4] = TimestampTzGetDatum(since[i]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
