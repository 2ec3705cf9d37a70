/*
 * visibility.c
 *	  Which chunks a snapshot shows: the heap's rules.
 *
 * Tags are full transaction ids, but compared by their low half: a chunk is
 * frozen, and a mark of removal resolved, by mbucket_reclaim() long before that
 * could be ambiguous.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "utils/snapmgr.h"

#include "store/visibility.h"

/* True if an MVCC snapshot shows the effects of "xid", which is known to have committed. */
bool
visible_committed(FullTransactionId xid, Snapshot snapshot)
{
	return !XidInMVCCSnapshot(XidFromFullTransactionId(xid), snapshot);
}

/* The same for a transaction that may be in progress, aborted, or this one. */
bool
visible_mover(FullTransactionId xid, Snapshot snapshot)
{
	TransactionId short_xid = XidFromFullTransactionId(xid);

	if (TransactionIdIsCurrentTransactionId(short_xid))
		return true;
	return !XidInMVCCSnapshot(short_xid, snapshot) && TransactionIdDidCommit(short_xid);
}

/* True if the snapshot shows that the chunk was written. */
static bool
chunk_inserted(const Chunk *chunk, Snapshot snapshot, uint32 flush_limit)
{
	TransactionId xmin = XidFromFullTransactionId(chunk->xmin);

	if (chunk->flags & CHUNK_FROZEN)
		return true;
	if (chunk->flags & CHUNK_ACCOUNTED)
		return visible_committed(chunk->top, snapshot);
	if (TransactionIdIsCurrentTransactionId(xmin))
		return chunk->cmin < snapshot->curcid && chunk->flush < flush_limit;

	/*
	 * The top-level transaction decides whether it is in progress for the
	 * snapshot, the subtransaction whether it was rolled back.
	 */
	return visible_committed(chunk->top, snapshot) && TransactionIdDidCommit(xmin);
}

/*
 * True if the snapshot shows the chunk's events in memory. Chunks that this
 * transaction itself wrote with flush number flush_limit or later are left
 * out: a scan that began before has taken those events from the pending ones.
 */
bool
chunk_visible(const Chunk *chunk, Snapshot snapshot, uint32 flush_limit)
{
	FullTransactionId xmax = chunk->xmax;

	if (!chunk_inserted(chunk, snapshot, flush_limit))
		return false;
	return !FullTransactionIdIsValid(xmax) || !visible_mover(xmax, snapshot);
}
