/*
 * visibility.c
 *	  Which chunks a snapshot shows: the heap's rules.
 *
 * pg_xact is asked only about transactions that ended a moment ago: accounting
 * marks chunks as committed, mbucket_reclaim() resolves marks of removal. What
 * is known to have committed is compared with the snapshot by its full id, so
 * that it stays right however old it is.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "utils/snapmgr.h"

#include "store/visibility.h"

FullSnapshot
full_snapshot(Snapshot snapshot)
{
	FullSnapshot full = {snapshot, area_full_xid(snapshot->xmin)};

	return full;
}

bool
visible_committed(FullTransactionId xid, const FullSnapshot *snapshot)
{
	return FullTransactionIdPrecedes(xid, snapshot->xmin) ||
		!XidInMVCCSnapshot(XidFromFullTransactionId(xid), snapshot->snapshot);
}

bool
visible_freed_by(const FreedBy *freed_by, const FullSnapshot *snapshot)
{
	return visible_committed(freed_by->destage, snapshot) &&
		visible_committed(freed_by->set_aside, snapshot);
}

bool
visible_clean(StreamSlot *slot, const FullSnapshot *snapshot)
{
	FullTransactionId clean_since;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	clean_since = slot->clean_since;
	LWLockRelease(area_stream_lock(slot));
	return FullTransactionIdIsValid(clean_since) && visible_committed(clean_since, snapshot);
}

/* True if the snapshot shows that the chunk was written. */
static bool
chunk_inserted(const Chunk *chunk, const FullSnapshot *snapshot, uint32 flush_limit)
{
	TransactionId xmin = XidFromFullTransactionId(chunk->xmin);

	if (chunk->accounted)
		return visible_committed(chunk->top, snapshot);
	if (TransactionIdIsCurrentTransactionId(xmin))
		return chunk->cmin < snapshot->snapshot->curcid && chunk->flush < flush_limit;

	/*
	 * The top-level transaction decides whether it is in progress for the
	 * snapshot, the subtransaction whether it was rolled back.
	 */
	return visible_committed(chunk->top, snapshot) && TransactionIdDidCommit(xmin);
}

/* True if the snapshot shows that the chunk's events were moved out. */
static bool
chunk_moved(const Chunk *chunk, const FullSnapshot *snapshot)
{
	FullTransactionId xmax = chunk->xmax;
	TransactionId short_xmax = XidFromFullTransactionId(xmax);

	if (!FullTransactionIdIsValid(xmax))
		return false;
	if (TransactionIdIsCurrentTransactionId(short_xmax))
		return true;
	return visible_committed(xmax, snapshot) && TransactionIdDidCommit(short_xmax);
}

/*
 * True if the snapshot shows the chunk's events in memory. Chunks that this
 * transaction itself wrote with flush number flush_limit or later are left
 * out: a scan that began before has taken those events from the pending ones.
 */
bool
chunk_visible(const Chunk *chunk, const FullSnapshot *snapshot, uint32 flush_limit)
{
	return chunk_inserted(chunk, snapshot, flush_limit) && !chunk_moved(chunk, snapshot);
}
