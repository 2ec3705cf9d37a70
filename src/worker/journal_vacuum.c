/*
 * journal_vacuum.c
 *	  Makes room in journals after destages.
 *
 * A destage leaves as many dead rows in the journal as it moved events; were
 * it left to autovacuum, the journal would be a multiple of what it has to
 * hold. So the blocks that jobs have emptied are pruned, mostly while they are still in shared buffers, as soon as
 * nobody can see what was there. That lets urgent work go first between two blocks, which VACUUM does not;
 * VACUUM is for what pruning leaves, line pointers and out-of-line values, and for giving back the file's end.
 * What is remembered here is this process's own and may be lost; autovacuum
 * remains for what it forgets. Locks are taken only if they are free.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "store/yield.h"
#include "worker/journal_vacuum.h"
#include "worker/table_vacuum.h"

#define PRUNE_PAUSE_MS 200
#define PRUNE_MAX_BLOCKS (64 * 1024)	/* then it is for VACUUM */
#define PRUNE_MAX_LEFT 16		/* so many blocks that cannot be pruned yet: nor can later ones */
#define PAUSE_US (USECS_PER_SEC / 2)	/* between two VACUUMs of one journal, at least ... */
#define PAUSE_FACTOR 4			/* ... and so many times what the last one took */
#define TRUNCATE_PAUSE_US (30 * USECS_PER_SEC)
#define MIN_DEAD_BYTES (1024 * 1024)
#define MIN_FILE_BYTES (512 * 1024)	/* a shorter file is short enough */

typedef struct JournalRoom
{
	Oid			journal;		/* hash key */
	PruneList	emptied;		/* blocks to be pruned */
	TimestampTz next_prune;		/* not before: somebody may still see what is left */
	int64		bytes;			/* dead since the last VACUUM, for which it takes that */
	int64		file_bytes;		/* size of the file when last pruned or vacuumed */
	TimestampTz next;			/* no VACUUM before */
	TimestampTz next_truncate;	/* the file is not made shorter before */
	bool		truncate_due;	/* there may be room at the end since it was last made shorter */
} JournalRoom;

static HTAB *journals = NULL;

/* The entry of a journal, made if need be. */
static JournalRoom *
find_journal(Oid journal)
{
	JournalRoom *entry;
	bool		found;

	if (journals == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(JournalRoom);
		journals = hash_create("aion journal room", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(journals, &journal, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry, 0, sizeof(*entry));
		entry->journal = journal;
		entry->emptied.context = TopMemoryContext;
	}
	return entry;
}

void
journal_vacuum_note(Oid journal, const JournalDead *dead)
{
	JournalRoom *entry = find_journal(journal);

	entry->bytes += dead->out_of_line;
	for (int i = 0; i < dead->blocks.n; i++)
	{
		if (entry->emptied.n < PRUNE_MAX_BLOCKS)
			prune_list_add(&entry->emptied, dead->blocks.blocks[i]);
		else
			entry->bytes += BLCKSZ;
	}
}

/* Prunes the blocks of the list that can be; those that cannot yet stay in it. */
static void
prune_journal(JournalRoom *entry, Relation rel)
{
	PruneList  *list = &entry->emptied;
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	BlockNumber first = InvalidBlockNumber;
	BlockNumber last = 0;
	int			left = 0;
	int			i;

	for (i = 0; i < list->n && left < PRUNE_MAX_LEFT; i++)
	{
		BlockNumber block = list->blocks[i];

		CHECK_FOR_INTERRUPTS();
		store_yield();
		/* of a file that was truncated or rewritten since: any other block is as good, or not there */
		if (block >= nblocks)
			continue;
		first = Min(first, block);
		last = Max(last, block);
		if (prune_block(rel, block, &entry->bytes))
			list->blocks[left++] = block;
	}
	memmove(&list->blocks[left], &list->blocks[i], sizeof(BlockNumber) * (list->n - i));
	list->n -= i - left;
	if (first != InvalidBlockNumber)
		FreeSpaceMapVacuumRange(rel, first, last + 1);
	entry->file_bytes = (int64) nblocks * BLCKSZ;
	entry->truncate_due = true;
}

/* Prunes what the list has, unless somebody has the journal locked. In a transaction of its own. */
static void
prune_if_free(JournalRoom *entry)
{
	Relation	rel;

	StartTransactionCommand();
	rel = prune_open(entry->journal);
	if (rel != NULL)
	{
		DEBUG_POINT("io-before-prune");
		/* the horizon of what is dead is a snapshot's */
		PushActiveSnapshot(GetTransactionSnapshot());
		prune_journal(entry, rel);
		PopActiveSnapshot();
		relation_close(rel, NoLock);
	}
	CommitTransactionCommand();
	if (entry->emptied.n > 0)
		entry->next_prune = GetCurrentTimestamp() + PRUNE_PAUSE_MS * INT64CONST(1000);
}

/* ms from now to a time; -1 if that is past, or so far off that the clock must have been set back. */
static long
ms_until(TimestampTz then, TimestampTz now, int64 longest)
{
	return then <= now || then > now + longest ? -1 : (then - now) / 1000 + 1;
}

/* As journal_vacuum(), for VACUUM alone. */
static long
vacuum_if_due(JournalRoom *entry, int64 live)
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
	JournalRoom *entry = find_journal(journal);
	long		until_prune = ms_until(entry->next_prune, GetCurrentTimestamp(), PRUNE_PAUSE_MS * INT64CONST(1000));
	long		again;

	if (entry->emptied.n > 0 && until_prune < 0)
	{
		prune_if_free(entry);
		until_prune = PRUNE_PAUSE_MS;
	}
	again = vacuum_if_due(entry, live);
	if (entry->emptied.n == 0)
		return again;
	return again < 0 ? until_prune : Min(again, until_prune);
}
