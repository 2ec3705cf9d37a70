/*
 * block_source.h
 *	  The p-bucket blocks that a scan reads, in order, from wherever they are.
 *
 * A firing's scan is the paper's lazy iterator (section 3.3): it asks for
 * blocks to be staged while it still reads memory, some way ahead, and waits
 * only when it has caught up. Any other scan reads the blocks itself, and uses
 * copies that happen to be there.
 */
#ifndef AION_BLOCK_SOURCE_H
#define AION_BLOCK_SOURCE_H

#include "store/area_internal.h"
#include "store/pbucket.h"

typedef struct BlockSourceStats
{
	int64		staged;			/* blocks that were read from copies */
	int64		read;			/* and from the table */
	int64		waited_us;		/* for blocks to be staged */
} BlockSourceStats;

typedef struct BlockSource BlockSource;

/*
 * Blocks of buckets low..high inclusive that the snapshot shows and that may hold
 * events with first <= time < last. "ahead": bytes to be asked for ahead of the
 * reader; 0: nothing is to be staged. "columns": those of the reader. Allocates in the current context, which also ends what
 * was asked for. AccessShareLock on the block table until the end of the transaction.
 */
extern BlockSource *block_source_begin(const StreamStorage *storage, StreamSlot *slot, Snapshot snapshot,
									   int64 low, int64 high, EventTime first, EventTime last,
									   const Bitmapset *columns, Size ahead);

/* Opens the next block in the reader; its row's header, or NULL at the end. */
extern const PBucketRow *block_source_next(BlockSource *source, PBucketReader *reader);
extern const BlockSourceStats *block_source_stats(const BlockSource *source);
extern void block_source_end(BlockSource *source);

#endif							/* AION_BLOCK_SOURCE_H */
