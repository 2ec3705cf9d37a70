/*
 * visibility.h
 *	  What an MVCC snapshot shows, by full transaction ids.
 */
#ifndef AION_VISIBILITY_H
#define AION_VISIBILITY_H

#include "utils/snapshot.h"

#include "store/area_internal.h"

/* A snapshot with its xmin as a full id, so that old transactions are told from future ones. */
typedef struct FullSnapshot
{
	Snapshot	snapshot;
	FullTransactionId xmin;
} FullSnapshot;

extern FullSnapshot full_snapshot(Snapshot snapshot);

/* True if the transaction, which is known to have committed, is shown. Invalid: true. */
extern bool visible_committed(FullTransactionId xid, const FullSnapshot *snapshot);
extern bool visible_freed_by(const FreedBy *freed_by, const FullSnapshot *snapshot);

/* True if the snapshot finds nothing in the slot's journal that has no chunk. */
extern bool visible_clean(StreamSlot *slot, const FullSnapshot *snapshot);
extern bool chunk_visible(const Chunk *chunk, const FullSnapshot *snapshot, uint32 flush_limit);

#endif							/* AION_VISIBILITY_H */
