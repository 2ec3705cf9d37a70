/*
 * turnover_vacuum.c
 *	  VACUUM of small tables whose rows come and go with windows.
 *
 * Where old windows are purged, their rows in window_state and window_firing, their blocks,
 * and the results that a view does not retain, go as fast as new ones come. What they
 * leave is small and soon a multiple of what is alive: autovacuum, which comes by
 * once in a minute, is made for larger tables. This looks more often, by the same counts and
 * thresholds, at tables that take milliseconds; larger ones are left to autovacuum.
 * The lock is the one that autovacuum takes, if it is free, and as briefly.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "stream/extension.h"
#include "stream/stream.h"
#include "view/view.h"
#include "worker/table_vacuum.h"
#include "worker/turnover_vacuum.h"

#define PAUSE_US		(5 * USECS_PER_SEC)
#define TIME_LIMIT_MS	500
#define LONG_PAUSE_US	(60 * USECS_PER_SEC)	/* after one that has exceeded it */
#define SMALL_BLOCKS	1024	/* with the TOAST table */
#define DEAD_ROWS		50		/* autovacuum's defaults */
#define DEAD_FRACTION	0.2

/* True if so many rows are dead, as far as has been reported. */
static bool
has_dead_rows(Oid relid)
{
	PgStat_StatTabEntry *counts = pgstat_fetch_stat_tabentry(relid);

	return counts != NULL &&
		counts->dead_tuples > DEAD_ROWS + DEAD_FRACTION * counts->live_tuples;
}

/* True for a table, not too large, that its owner has not kept autovacuum off. */
static bool
is_small_table(Relation rel)
{
	BlockNumber blocks = 0;

	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		(rel->rd_options && !((StdRdOptions *) rel->rd_options)->autovacuum.enabled))
		return false;
	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation	toast = table_open(rel->rd_rel->reltoastrelid, AccessShareLock);

		blocks = RelationGetNumberOfBlocks(toast);
		table_close(toast, AccessShareLock);
	}
	return blocks + RelationGetNumberOfBlocks(rel) <= SMALL_BLOCKS;
}

/* Adds the table to a list, allocated in "context", if it needs VACUUM and nobody has it locked. */
static List *
add_table(List *tables, Oid relid, MemoryContext context)
{
	Relation	rel;

	if (!OidIsValid(relid) || !has_dead_rows(relid) ||
		!ConditionalLockRelationOid(relid, AccessShareLock))
		return tables;
	rel = try_relation_open(relid, NoLock);
	if (rel != NULL)
	{
		if (is_small_table(rel))
		{
			MemoryContext old = MemoryContextSwitchTo(context);

			tables = lappend_oid(tables, relid);
			MemoryContextSwitchTo(old);
		}
		relation_close(rel, NoLock);
	}
	return tables;
}

/* Blocks of a stream; InvalidOid: none, or the stream is locked. */
static Oid
stream_blocks(Oid stream)
{
	const StreamInfo *info;

	if (!ConditionalLockRelationOid(stream, AccessShareLock))
		return InvalidOid;
	info = stream_is_stream(stream) ? stream_lookup(stream, true) : NULL;
	return info && info->has_storage ? info->storage.blocks : InvalidOid;
}

/* In a transaction of its own. Allocated in the caller's context. */
static List *
find_tables(const StreamFacts *facts, int n)
{
	static const char *const internal[] = {"window_state", "window_firing"};
	MemoryContext caller = CurrentMemoryContext;
	List	   *tables = NIL;
	ListCell   *lc;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < lengthof(internal); i++)
		tables = add_table(tables, extension_relation(internal[i]), caller);
	for (int i = 0; i < n; i++)
		tables = add_table(tables, stream_blocks(facts[i].stream), caller);
	foreach(lc, view_list())
	{
		ContinuousView *view = lfirst(lc);

		if (!view->retain.unlimited)
			tables = add_table(tables, view->results, caller);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return tables;
}

/*
 * VACUUM within the time limit: a session whose cursor stands on a page of an index would keep the I/O worker, and
 * all who need it, waiting for as long as it likes. False: there was not time enough, which leaves the table to autovacuum.
 */
static bool
vacuum_in_time(Oid relid)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool in_time = true;

	PG_TRY();
	{
		enable_timeout_after(STATEMENT_TIMEOUT, TIME_LIMIT_MS);
		(void) table_vacuum(relid, false);
		disable_timeout(STATEMENT_TIMEOUT, false);
	}
	PG_CATCH();
	{
		disable_timeout(STATEMENT_TIMEOUT, false);
		if (geterrcode() != ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		HOLD_INTERRUPTS();
		FlushErrorState();
		LWLockReleaseAll();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(caller);
		RESUME_INTERRUPTS();
		in_time = false;
	}
	PG_END_TRY();
	/* it may have come too late to be noticed by what it was for */
	QueryCancelPending = false;
	return in_time;
}

void
turnover_vacuum(const StreamFacts *facts, int n)
{
	static TimestampTz last = 0;
	static int64 pause = PAUSE_US;
	TimestampTz now = GetCurrentTimestamp();
	ListCell   *lc;

	if (now >= last && now - last < pause)
		return;
	last = now;
	pause = PAUSE_US;
	foreach(lc, find_tables(facts, n))
	{
		CHECK_FOR_INTERRUPTS();
		if (!vacuum_in_time(lfirst_oid(lc)))
			pause = LONG_PAUSE_US;
	}
}
