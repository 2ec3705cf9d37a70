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

#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "worker/journal_vacuum.h"
#include "worker/table_vacuum.h"

#define PAUSE_US (USECS_PER_SEC / 2)	/* between two of one journal, at least ... */
#define PAUSE_FACTOR 4			/* ... and so many times what the last one took */
#define TRUNCATE_PAUSE_US (30 * USECS_PER_SEC)
#define MIN_DEAD_BYTES (1024 * 1024)

typedef struct JournalDead
{
	Oid			journal;		/* hash key */
	int64		bytes;			/* dead since the last VACUUM */
	TimestampTz next;			/* not before */
	TimestampTz next_truncate;	/* the file is not made shorter before */
	bool		truncate_due;	/* vacuumed since the file was last made shorter */
} JournalDead;

static HTAB *journals = NULL;

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

/* ms from now to a time; -1 if that is past, or so far off that the clock must have been set back. */
static long
ms_until(TimestampTz then, TimestampTz now, int64 longest)
{
	return then <= now || then > now + longest ? -1 : (then - now) / 1000 + 1;
}

long
journal_vacuum(Oid journal, int64 live)
{
	JournalDead *entry = find_journal(journal);
	TimestampTz now = GetCurrentTimestamp();
	long		until_truncate = ms_until(entry->next_truncate, now, TRUNCATE_PAUSE_US);
	long		until_next = ms_until(entry->next, now, TRUNCATE_PAUSE_US);
	TimestampTz took;
	bool		enough;

	/* Twice what is live is the bound on the whole; half of that leaves room for what comes meanwhile. */
	enough = entry->bytes >= MIN_DEAD_BYTES && entry->bytes >= live / 2;
	if (!enough && !(entry->truncate_due && until_truncate < 0))
		return entry->truncate_due ? until_truncate : -1;
	if (until_next >= 0)
		return until_next;

	DEBUG_POINT("io-before-vacuum");
	/* Giving back the file's end needs all others off the table for a moment: seldom. */
	if (!table_vacuum(journal, until_truncate < 0))
	{
		entry->next = now + PAUSE_US;
		return PAUSE_US / 1000;
	}
	entry->bytes = 0;
	entry->truncate_due = until_truncate >= 0;
	took = GetCurrentTimestamp();
	if (until_truncate < 0)
		entry->next_truncate = took + TRUNCATE_PAUSE_US;
	entry->next = took + PAUSE_US + Max(0, Min(took - now, TRUNCATE_PAUSE_US / 8)) * PAUSE_FACTOR;
	return entry->truncate_due ? until_truncate : -1;
}
