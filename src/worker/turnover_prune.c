/*
 * turnover_prune.c
 *	  Space that rows leave in small tables where they come and go with windows.
 *
 * Where old windows are purged, their rows in window_state and window_firing, their blocks,
 * and the results that a view does not retain, go as fast as new ones come. What they
 * leave is small and soon a multiple of what is alive: autovacuum, which comes by
 * once in a minute, is made for larger tables. Until it does, this reads tables that take
 * milliseconds as any reader might, in the order of each index: which prunes
 * their pages, and marks the entries of dead rows, for the index to put new ones in their place instead of splitting a page.
 * The free space map is told. All that is left to autovacuum is line pointers. The locks are those of a
 * reader, and nothing waits.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "store/prune.h"
#include "store/yield.h"
#include "stream/extension.h"
#include "stream/stream.h"
#include "view/view.h"
#include "worker/turnover_prune.h"

#define PAUSE_US		(5 * USECS_PER_SEC)
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

/*
 * Reads a table through an index, unless somebody has that locked: REINDEX locks it alone, for as long as its
 * transaction lasts. Without an index scan's conditions only btree is sure to return every row, and it alone marks entries.
 */
static void
read_in_order(Relation rel, Oid index_oid)
{
	Relation	index = prune_open(index_oid);
	SysScanDesc scan;

	if (index == NULL)
		return;
	if (index->rd_rel->relam == BTREE_AM_OID && index->rd_index->indisvalid)
	{
		scan = systable_beginscan_ordered(rel, index, GetActiveSnapshot(), 0, NULL);
		while (systable_getnext_ordered(scan, ForwardScanDirection) != NULL)
		{
			CHECK_FOR_INTERRUPTS();
			store_yield();
		}
		systable_endscan_ordered(scan);
	}
	relation_close(index, AccessShareLock);
}

/* Prunes all pages, also those to which no index leads any more. */
static void
prune_pages(Relation rel)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);

	for (BlockNumber block = 0; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		store_yield();
		(void) prune_block(rel, block, NULL);
	}
	FreeSpaceMapVacuum(rel);
}

/* Its lock is held. */
static void
prune_relation(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
		read_in_order(rel, lfirst_oid(lc));
	list_free(indexes);
	prune_pages(rel);
}

/* Prunes a table and its TOAST table, if it is due, not too large, and its owner has not kept autovacuum off. */
static void
prune_table(Relation rel)
{
	Relation	toast = NULL;
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relam != HEAP_TABLE_AM_OID ||
		(rel->rd_options && !((StdRdOptions *) rel->rd_options)->autovacuum.enabled))
		return;
	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		toast = prune_open(rel->rd_rel->reltoastrelid);
		if (toast == NULL)
			return;
		blocks += RelationGetNumberOfBlocks(toast);
	}
	if (blocks <= SMALL_BLOCKS)
	{
		prune_relation(rel);
		if (toast != NULL)
			prune_relation(toast);
	}
	if (toast != NULL)
		relation_close(toast, AccessShareLock);
}

/* The same, unless somebody has it locked. */
static void
prune_if_free(Oid relid)
{
	Relation	rel;

	if (!OidIsValid(relid) || !has_dead_rows(relid))
		return;
	rel = prune_open(relid);
	if (rel == NULL)
		return;
	prune_table(rel);
	relation_close(rel, AccessShareLock);
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

void
turnover_prune(const StreamFacts *facts, int n)
{
	static const char *const internal[] = {"window_state", "window_firing"};
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext caller = CurrentMemoryContext;
	ListCell   *lc;

	if (now >= last && now - last < PAUSE_US)
		return;
	last = now;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < lengthof(internal); i++)
		prune_if_free(extension_relation(internal[i]));
	for (int i = 0; i < n; i++)
		prune_if_free(stream_blocks(facts[i].stream));
	foreach(lc, view_list())
	{
		ContinuousView *view = lfirst(lc);

		if (!view->retain.unlimited)
			prune_if_free(view->results);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
}
