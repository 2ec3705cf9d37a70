/*
 * stage.h
 *	  Staging: copying blocks of p-buckets to shared memory ahead of their readers.
 *
 * The worker layer does it in the I/O worker, on request of a scan (through
 * StageHooks) or ahead of a predicted firing. A copy that is missing costs time
 * alone: the reader fetches the block itself.
 */
#ifndef AION_STAGE_H
#define AION_STAGE_H

#include "postgres.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "store/storage.h"

/* Where a block is. */
typedef struct BlockRef
{
	int64		bucket;
	int64		id;
	ItemPointerData tid;
	int32		bytes;			/* of its events, not compressed */
	int32		nevents;
} BlockRef;

/* Most blocks in one request. */
#define STAGE_REQUEST_BLOCKS 16

typedef enum StageWait
{
	STAGE_PROGRESS,				/* look again whether the block is there */
	STAGE_OVER,					/* the request is done, refused or lost */
	STAGE_BUSY					/* it was not begun soon, and taken back */
} StageWait;

/*
 * How a scan asks for blocks; set by the worker layer at start, NULL where there is
 * none. request() returns a number for the other two, or 0: nobody can do it. wait()
 * sleeps until something has happened to the request (interruptible; holds no LWLock).
 * withdraw() may be called more than once, and in an abort.
 */
typedef struct StageHooks
{
	uint64		(*request) (const StreamStorage *storage, const BlockRef *blocks, int n);
	StageWait	(*wait) (uint64 request);
	void		(*withdraw) (uint64 request);
} StageHooks;

extern const StageHooks *stage_hooks;

/*
 * Called for each block that now has a copy (bytes and events of it; 0: it had one already): false ends the
 * staging.
 */
typedef bool (*StageSink) (void *arg, int64 bytes, int64 events);

typedef enum StageResult
{
	STAGE_DONE,
	STAGE_NO_ROOM,
	STAGE_STOPPED				/* by the sink */
} StageResult;

/*
 * Stages certain blocks, for one reader each. Whoever named them has a snapshot that
 * shows them. AccessShareLock on the block table until the end of the transaction.
 */
extern StageResult stage_blocks(const StreamStorage *storage, const BlockRef *blocks, int n,
								StageSink sink, void *arg);

/* Stages all blocks of buckets low..high inclusive that the snapshot shows: whole, or what executions read of them. */
extern StageResult stage_range(const StreamStorage *storage, Snapshot snapshot, int64 low, int64 high, bool whole,
							   StageSink sink, void *arg);

/*
 * Frees copies that nobody is reading, of whatever database, one stream after the other as long as "wanted" says
 * so: all share the memory, and whoever left them behind may not be there any more.
 */
extern void stage_evict(bool (*wanted) (void));

#endif							/* AION_STAGE_H */
