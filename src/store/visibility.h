/*
 * visibility.h
 *	  Which chunks a snapshot shows.
 */
#ifndef AION_VISIBILITY_H
#define AION_VISIBILITY_H

#include "utils/snapshot.h"

#include "store/area_internal.h"

extern bool visible_committed(FullTransactionId xid, Snapshot snapshot);
extern bool visible_mover(FullTransactionId xid, Snapshot snapshot);
extern bool chunk_visible(const Chunk *chunk, Snapshot snapshot, uint32 flush_limit);

#endif							/* AION_VISIBILITY_H */
