/*
 * stage.c
 *	  Staging: p-bucket blocks to shared memory.
 *
 * The p-bucket stays as it is: staging only reads, and what it has copied is
 * freed without a write. Whatever stops it leaves copies that are good. They have
 * the columns that executions of the stream's views read, if there is more to a block, and are
 * as compressed as on disk; a serializer may decompress them before their readers come.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "store/directory.h"
#include "store/pbucket.h"
#include "store/serialize.h"
#include "store/stage.h"
#include "store/staged.h"

const StageHooks *stage_hooks = NULL;

/* Tells the sink. If nobody wants any more, the block at hand is not wanted either. */
static StageResult
tell(StreamSlot *slot, const PBucketRow *header, int64 bytes, int64 events, StageSink sink, void *arg)
{
	if (sink(arg, bytes, events))
		return STAGE_DONE;
	staged_unwant(slot, header->bucket, header->id);
	return STAGE_STOPPED;
}

/* Copies the block of a row, unless there is a copy. */
static StageResult
stage_row(StreamSlot *slot, HeapTuple row, StagedReader reader, BlockColumns columns, MemoryContext context,
		  StageSink sink, void *arg)
{
	const PBucketRow *header = PBUCKET_ROW(row);
	MemoryContext old;
	Size		length;
	char	   *bytes;
	bool		room;

	CHECK_FOR_INTERRUPTS();

	/*
	 * A scan asks for blocks that have no copy. If this one has by now, it is somebody else's; the scan reads the
	 * block itself if it is gone when its turn has come.
	 */
	if (reader == STAGED_READER && (columns & ~staged_wanted(slot, header->bucket, header->id)) == 0)
		return sink(arg, 0, 0) ? STAGE_DONE : STAGE_STOPPED;
	if (reader == STAGED_ANONYMOUS && staged_want(slot, header->bucket, header->id, reader, columns))
		return tell(slot, header, 0, 0, sink, arg);
	old = MemoryContextSwitchTo(context);
	bytes = pbucket_bytes(row, &columns, &length);
	DEBUG_POINT("stage-read");
	room = staged_put(slot, header->bucket, header->id, reader, columns, bytes, length);
	if (room)
		serialize_decompress(slot, header->bucket, header->id, bytes, length);
	MemoryContextSwitchTo(old);
	MemoryContextReset(context);
	if (!room)
		return STAGE_NO_ROOM;
	DEBUG_POINT("stage-put");
	return tell(slot, header, length, header->nevents, sink, arg);
}

StageResult
stage_blocks(const StreamStorage *storage, const BlockRef *blocks, int n, StageSink sink, void *arg)
{
	StreamSlot *slot = directory_slot(storage->journal, true, false);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion stage",
												  ALLOCSET_DEFAULT_SIZES);
	StageResult result = slot ? STAGE_DONE : STAGE_NO_ROOM;
	Relation	rel = table_open(storage->blocks, AccessShareLock);

	for (int i = 0; i < n && result == STAGE_DONE; i++)
	{
		HeapTupleData tuple;
		Buffer		buffer;

		/*
		 * Whether the row is visible is the reader's business; that it is the row that he means, its id
		 * tells.
		 */
		tuple.t_self = blocks[i].tid;
		/* one who has gone, and his snapshot with him, may have named what VACUUM has taken away since */
		if (ItemPointerGetBlockNumber(&tuple.t_self) >= RelationGetNumberOfBlocks(rel))
			continue;
		if (!heap_fetch(rel, SnapshotAny, &tuple, &buffer, false))
			continue;
		if (PBUCKET_ROW(&tuple)->id == blocks[i].id && PBUCKET_ROW(&tuple)->bucket == blocks[i].bucket)
		{
			HeapTuple	row = heap_copytuple(&tuple);

			/* not while the buffer is pinned: detoasting takes time */
			ReleaseBuffer(buffer);
			result = stage_row(slot, row, STAGED_READER, staged_noted_columns(slot), context, sink, arg);
			heap_freetuple(row);
		}
		else
			ReleaseBuffer(buffer);
	}
	table_close(rel, NoLock);
	MemoryContextDelete(context);
	return result;
}

StageResult
stage_range(const StreamStorage *storage, Snapshot snapshot, int64 low, int64 high, bool whole,
			StageSink sink, void *arg)
{
	StreamSlot *slot = directory_slot(storage->journal, true, false);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion stage",
												  ALLOCSET_DEFAULT_SIZES);
	StageResult result = slot ? STAGE_DONE : STAGE_NO_ROOM;
	PBucketScan scan;
	HeapTuple	row;

	/* before the scan: what is not on disk yet when it looks comes later */
	if (slot && !whole)
		staged_expect(slot, low, high, true);
	pbucket_scan_begin(&scan, storage, snapshot, low, high);
	while (result == STAGE_DONE && (row = pbucket_scan_next(&scan)) != NULL)
		result = stage_row(slot, row, STAGED_ANONYMOUS, whole ? BLOCK_COLUMNS_ALL : staged_noted_columns(slot),
						   context, sink, arg);
	pbucket_scan_end(&scan);
	MemoryContextDelete(context);
	return result;
}

void
stage_evict(bool (*wanted) (void))
{
	for (int32 i = 0; area != NULL && i < area->nslots && wanted(); i++)
	{
		StreamSlot *slot = &area_slots[i];
		int64	   *numbers;
		int			n;

		/* without a lock: one that is another stream's by now is as good */
		if (!OidIsValid(slot->database))
			continue;
		CHECK_FOR_INTERRUPTS();
		numbers = directory_numbers(slot, PG_INT64_MIN, PG_INT64_MAX, &n);
		for (int j = 0; j < n; j++)
			(void) staged_evict(slot, numbers[j]);
		pfree(numbers);
	}
}
