/*
 * journal_vacuum.c
 *	  VACUUM of journals after destages.
 *
 * A destage leaves as many dead rows in the journal as it moved events; were
 * it left to autovacuum, the journal would be a multiple of what it has to
 * hold. The count of dead bytes is this process's own and may be lost; autovacuum
 * remains for what it forgets. Locks are taken only if they are free.
 */
#include "postgres.h"

#include "access/xact.h"
#include "nodes/makefuncs.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "debug_point.h"
#include "worker/journal_vacuum.h"

#define PAUSE_US (3 * USECS_PER_SEC)	/* between two of one journal */
#define TRUNCATE_PAUSE_US (30 * USECS_PER_SEC)
#define MIN_DEAD_BYTES (256 * 1024)

typedef struct JournalDead
{
	Oid			journal;		/* hash key */
	int64		bytes;			/* dead since the last VACUUM */
	TimestampTz next;			/* not before */
	TimestampTz next_truncate;	/* the file is not made shorter before */
} JournalDead;

static HTAB *journals = NULL;
static MemoryContext vacuum_context = NULL;

/* The entry of a journal, made if need be. */
static JournalDead *
find_journal(Oid journal)
{
	JournalDead *entry;
	bool		found;

	if (journals == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(JournalDead);
		journals = hash_create("aion dead bytes", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(journals, &journal, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry, 0, sizeof(*entry));
		entry->journal = journal;
	}
	return entry;
}

void
journal_vacuum_note(Oid journal, int64 bytes)
{
	JournalDead *entry;

	if (bytes <= 0)
		return;
	entry = find_journal(journal);
	entry->bytes = bytes > PG_INT64_MAX - entry->bytes ? PG_INT64_MAX : entry->bytes + bytes;
}

/* VACUUM as autovacuum does it: transactions of its own, no wait for locks. */
static void
vacuum_table(Oid relid, bool truncate)
{
	VacuumParams params;
	MemoryContext caller = CurrentMemoryContext;
	List	   *relations;

	if (vacuum_context == NULL)
		vacuum_context = AllocSetContextCreate(TopMemoryContext, "aion vacuum",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(vacuum_context);
	MemoryContextSwitchTo(vacuum_context);
	PortalContext = vacuum_context;	/* parent of vacuum()'s own context; outlives an error harmlessly */
	compat_vacuum_params_init(&params);
	params.options = VACOPT_VACUUM | VACOPT_PROCESS_TOAST | VACOPT_SKIP_LOCKED;
	params.freeze_min_age = -1;
	params.freeze_table_age = -1;
	params.multixact_freeze_min_age = -1;
	params.multixact_freeze_table_age = -1;
	params.log_min_duration = -1;
	params.index_cleanup = VACOPTVALUE_AUTO;
	params.truncate = truncate ? VACOPTVALUE_ENABLED : VACOPTVALUE_DISABLED;
	params.nworkers = -1;
	relations = list_make1(makeVacuumRelation(NULL, relid, NIL));

	StartTransactionCommand();
	MemoryContextSwitchTo(vacuum_context);
	vacuum(relations, &params, NULL, vacuum_context, true);
	CommitTransactionCommand();
	PortalContext = NULL;
	MemoryContextSwitchTo(caller);
}

long
journal_vacuum(Oid journal, int64 live)
{
	JournalDead *entry = find_journal(journal);
	TimestampTz now = GetCurrentTimestamp();
	bool		truncate;

	/* Twice what is live is the bound on the whole; half of that leaves room for what comes meanwhile. */
	if (entry->bytes < MIN_DEAD_BYTES || entry->bytes < live / 2)
		return -1;
	if (entry->next > now && entry->next <= now + PAUSE_US)
		return (entry->next - now) / 1000 + 1;
	entry->next = now + PAUSE_US;
	DEBUG_POINT("io_before_vacuum");
	/* Giving back the file's end needs all others off the table for a moment: seldom. */
	truncate = entry->next_truncate <= now || entry->next_truncate > now + TRUNCATE_PAUSE_US;
	if (truncate)
		entry->next_truncate = now + TRUNCATE_PAUSE_US;
	vacuum_table(journal, truncate);
	entry->bytes = 0;
	return -1;
}
