/*
 * room.h
 *	  Blocks of heaps in which this process has deleted rows, until others can be put there.
 *
 * What is noted is this process's own and may be lost: autovacuum remains for that.
 */
#ifndef AION_ROOM_H
#define AION_ROOM_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/relcache.h"

/* A row was deleted in a block. If the transaction is rolled back, pruning will find nothing. */
extern void room_note(Relation rel, BlockNumber block);

/* Rows were deleted whose space only VACUUM gives back. */
extern void room_note_lost(Relation rel, int64 bytes);

/*
 * Prunes blocks noted, in that order, until the map of free space has "wanted" of them more, or no further one can be
 * pruned, because somebody may see what was deleted. Urgent work goes
 * first between two blocks. *lost (may be NULL) grows by the bytes that only VACUUM gives back. The caller has a lock on
 * the relation and an active snapshot.
 */
extern void room_make(Relation rel, int wanted, int64 *lost);

/* ms until there may be something to prune, 0: now, -1: nothing was noted. */
extern long room_due(Oid relid);

#endif							/* AION_ROOM_H */
