/*
 * prune.h
 *	  Space that deleted rows leave in a heap, before VACUUM comes.
 */
#ifndef AION_PRUNE_H
#define AION_PRUNE_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/relcache.h"

/*
 * Opens a relation of any kind with AccessShareLock, a reader's; NULL: it is gone, or somebody has a lock in the way,
 * which is not waited for: whoever prunes has urgent work as well.
 */
extern Relation prune_open(Oid relid);

/*
 * Takes rows out of a block that are dead to everybody, as any reader would who came by, however empty it is, and
 * tells the free space map: its upper levels are the caller's to bring up to date. Waits for a moment at most.
 * True: something dead is left, because somebody may see it or is on the page. *lost (may be NULL) grows by the
 * bytes that line pointers which only VACUUM frees may keep from being used. The caller has a lock on the relation.
 */
extern bool prune_block(Relation rel, BlockNumber block, int64 *lost);

#endif							/* AION_PRUNE_H */
