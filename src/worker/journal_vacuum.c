/*
 * journal_vacuum.c
 *	  Makes room in journals after destages.
 *
 * A destage leaves as many dead rows in the journal as it moved events; were
 * it left to autovacuum, the journal would be a multiple of what it has to
 * hold. So the blocks that jobs have emptied are pruned (store/room.c), as soon as
 * nobody can see what was there. That lets urgent work go first between two blocks, which VACUUM does not;
 * VACUUM is for what pruning leaves, line pointers and out-of-line values, and for giving back the file's end.
 * What is remembered here is this process's own and may be lost; autovacuum
 * remains for what it forgets. Locks are taken only if they are free.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "store/prune.h"
#include "store/room.h"
#include "worker/journal_vacuum.h"
#include "worker/table_vacuum.h"
#include "worker/worker.h"

#define LOCKED_MS 200			/* before trying again what was locked */
#define PAUSE_US (USECS_PER_SEC / 2)	/* between two VACUUMs of one journal, at least ... */
#define PAUSE_FACTOR 4			/* ... and so many times what the last one took */
#define TRUNCATE_PAUSE_US (30 * USECS_PER_SEC)
#define MIN_DEAD_BYTES (1024 * 1024)
#define MIN_FILE_BYTES (512 * 1024)	/* a shorter file is short enough */

typedef struct JournalVacuum
{
	Oid			journal;		/* hash key */
	int64		bytes;			/* dead since the last VACUUM, for which it takes that */
	int64		file_bytes;		/* size of the file when last pruned or vacuumed */
	TimestampTz next;			/* no VACUUM before */
	TimestampTz next_truncate;	/* the file is not made shorter before */
	bool		truncate_due;	/* there may be room at the end since it was last made shorter */
} JournalVacuum;

static HTAB *journals = NULL;

/* The entry of a journal, made if need be. */
static JournalVacuum *
find_journal(Oid journal)
{
	JournalVacuum *entry;
	bool		found;

	if (journals == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(JournalVacuum);
		journals = hash_create("aion journal vacuums", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(journals, &journal, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry, 0, sizeof(*entry));
		entry->journal = journal;
		/* a journal that is long now may be needed as long at once */
		entry->next_truncate = GetCurrentTimestamp() + TRUNCATE_PAUSE_US;
	}
	return entry;
}

/* Prunes what jobs have emptied, unless somebody has the journal locked. In a transaction of its own. */
static void
prune_if_free(JournalVacuum *entry)
{
	Relation	rel;

	StartTransactionCommand();
	rel = prune_open(entry->journal);
	if (rel != NULL)
	{
		DEBUG_POINT("io-before-prune");
		/* the horizon of what is dead is a snapshot's */
		PushActiveSnapshot(GetTransactionSnapshot());
		room_make(rel, PG_INT32_MAX, &entry->bytes);
		PopActiveSnapshot();
		entry->file_bytes = (int64) RelationGetNumberOfBlocks(rel) * BLCKSZ;
		entry->truncate_due = true;
		relation_close(rel, NoLock);
	}
	CommitTransactionCommand();
}

/* ms from now to a time; -1 if that is past, or so far off that the clock must have been set back. */
static long
ms_until(TimestampTz then, TimestampTz now, int64 longest)
{
	return then <= now || then > now + longest ? -1 : (then - now) / 1000 + 1;
}

/* As journal_vacuum(), for VACUUM alone. */
static long
vacuum_if_due(JournalVacuum *entry, int64 live)
{
	TimestampTz now = GetCurrentTimestamp();
	long		until_truncate = ms_until(entry->next_truncate, now, TRUNCATE_PAUSE_US);
	long		until_next = ms_until(entry->next, now, TRUNCATE_PAUSE_US);
	TimestampTz took;
	bool		enough;
	bool		truncate;

	/* Twice what is live is the bound on the whole; half of that leaves room for what comes meanwhile. */
	enough = entry->bytes >= MIN_DEAD_BYTES && entry->bytes >= live / 2;
	truncate = entry->truncate_due && entry->file_bytes >= 2 * live + MIN_FILE_BYTES;
	if (!enough && !(truncate && until_truncate < 0))
		return truncate ? until_truncate : -1;
	if (until_next >= 0)
		return until_next;

	DEBUG_POINT("io-before-vacuum");
	/* Giving back the file's end needs all others off the table for a moment: seldom. */
	if (!table_vacuum(entry->journal, until_truncate < 0))
	{
		entry->next = now + PAUSE_US;
		return PAUSE_US / 1000;
	}
	entry->bytes = 0;
	took = GetCurrentTimestamp();
	if (until_truncate < 0)
	{
		entry->truncate_due = false;
		entry->next_truncate = took + TRUNCATE_PAUSE_US;
	}
	entry->next = took + PAUSE_US + Max(0, Min(took - now, TRUNCATE_PAUSE_US / 8)) * PAUSE_FACTOR;
	return entry->truncate_due ? until_truncate : -1;
}

long
journal_vacuum(Oid journal, int64 live)
{
	JournalVacuum *entry = find_journal(journal);
	long		until_prune;
	long		again;

	if (room_due(journal) == 0)
		prune_if_free(entry);
	again = vacuum_if_due(entry, live);
	until_prune = room_due(journal);
	/* 0: it is locked */
	if (until_prune == 0)
		until_prune = LOCKED_MS;
	return worker_sooner(again, until_prune);
}
