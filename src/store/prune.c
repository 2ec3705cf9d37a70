/*
 * prune.c
 *	  Space that deleted rows leave in a heap, before VACUUM comes.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/freespace.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "store/prune.h"

Relation
prune_open(Oid relid)
{
	return ConditionalLockRelationOid(relid, AccessShareLock) ? try_relation_open(relid, NoLock) : NULL;
}

static int
dead_line_pointers(Page page)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	int			n = 0;

	for (OffsetNumber i = FirstOffsetNumber; i <= last; i++)
		n += ItemIdIsDead(PageGetItemId(page, i));
	return n;
}

bool
prune_block(Relation rel, BlockNumber block, int64 *lost)
{
	Buffer		buffer = ReadBuffer(rel, block);
	Page		page = BufferGetPage(buffer);
	Size		space;
	bool		left;
	int			dead;

	/*
	 * The server prunes a page that is nearly full, or that somebody has found too full: that is a hint, which
	 * nothing needs to make durable.
	 */
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	dead = dead_line_pointers(page);
	if (TransactionIdIsValid(((PageHeader) page)->pd_prune_xid))
		PageSetFull(page);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	heap_page_prune_opt(rel, buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	left = TransactionIdIsValid(((PageHeader) page)->pd_prune_xid);
	if (lost)
		*lost += Max(0, dead_line_pointers(page) - dead) * (BLCKSZ / MaxHeapTuplesPerPage);
	space = PageGetHeapFreeSpace(page);
	UnlockReleaseBuffer(buffer);
	RecordPageWithFreeSpace(rel, block, space);
	return left;
}
