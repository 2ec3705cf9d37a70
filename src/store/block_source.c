/*
 * block_source.c
 *	  The p-bucket blocks that a scan reads, in order, from wherever they are.
 *
 * A lazy source lists the rows of its blocks first, which are small, and asks for
 * the blocks in groups, never more than so many bytes ahead of what has been
 * read: so a window of any size passes through memory of a fixed size. Each
 * block is waited for when its turn has come, as long as its request is alive,
 * and read from the table if it did not come.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "store/block_source.h"
#include "store/stage.h"
#include "store/staged.h"

#define MAX_REQUESTS 4			/* under way at a time */

typedef struct SourceBlock
{
	PBucketRow	row;
	ItemPointerData tid;
	bool		expected;		/* we are one of the readers that its copy is there for */
} SourceBlock;

typedef struct SourceRequest
{
	uint64		number;
	int			last;			/* index of the last block that it covers */
	bool		over;
} SourceRequest;

struct BlockSource
{
	const StreamStorage *storage;
	StreamSlot *slot;			/* NULL: there are no copies */
	Snapshot	snapshot;
	EventTime	first;
	EventTime	last;
	BlockColumns columns;		/* of the reader */
	PBucketScan scan;
	bool		scanning;
	PBucketRow	row;			/* of the block at hand */
	BlockSourceStats stats;

	/* lazy */
	Size		ahead;			/* 0: not lazy */
	SourceBlock *blocks;
	int			nblocks;
	int			next;			/* to be read */
	int			asked;			/* up to here, exclusive */
	Size		bytes_ahead;	/* of blocks from next to asked */
	SourceRequest requests[MAX_REQUESTS];
	int			nrequests;
	MemoryContextCallback callback;
};

/* The row of the next block in range; NULL: there is none. */
static HeapTuple
next_row(BlockSource *source)
{
	HeapTuple	row;

	while ((row = pbucket_scan_next(&source->scan)) != NULL)
		if (PBUCKET_ROW(row)->last >= source->first && PBUCKET_ROW(row)->first < source->last)
			return row;
	return NULL;
}

static void
end_scan(BlockSource *source)
{
	if (source->scanning)
		pbucket_scan_end(&source->scan);
	source->scanning = false;
}

/* Lists all blocks of a lazy source. */
static void
list_blocks(BlockSource *source)
{
	int			capacity = 16;
	HeapTuple	row;

	source->blocks = palloc(sizeof(SourceBlock) * capacity);
	while ((row = next_row(source)) != NULL)
	{
		SourceBlock *block;

		if (source->nblocks == capacity)
		{
			capacity *= 2;
			source->blocks = repalloc_huge(source->blocks, sizeof(SourceBlock) * capacity);
		}
		block = &source->blocks[source->nblocks++];
		block->row = *PBUCKET_ROW(row);
		block->tid = row->t_self;
		block->expected = false;
	}
	end_scan(source);
}

/* Takes back what was asked for and not read; also when the context goes away after an error. */
static void
stop_asking(void *arg)
{
	BlockSource *source = arg;

	for (int i = 0; i < source->nrequests; i++)
		stage_hooks->withdraw(source->requests[i].number);
	source->nrequests = 0;
	for (int i = source->next; i < source->asked; i++)
		if (source->blocks[i].expected)
			staged_unwant(source->slot, source->blocks[i].row.bucket, source->blocks[i].row.id);
	source->asked = source->next;
}

/*
 * Makes a group of the next blocks that have no copy: up to STAGE_REQUEST_BLOCKS, as far
 * ahead as is allowed. Returns their number. Those that have one will be kept for us.
 */
static int
next_group(BlockSource *source, BlockRef *refs)
{
	int			n = 0;

	while (source->asked < source->nblocks && n < STAGE_REQUEST_BLOCKS &&
		   (source->bytes_ahead < source->ahead || source->asked == source->next))
	{
		SourceBlock *block = &source->blocks[source->asked++];

		source->bytes_ahead += block->row.raw_bytes;
		block->expected = true;
		if (staged_want(source->slot, block->row.bucket, block->row.id, STAGED_READER, source->columns))
			continue;
		refs[n].bucket = block->row.bucket;
		refs[n].id = block->row.id;
		refs[n].tid = block->tid;
		refs[n].bytes = block->row.raw_bytes;
		refs[n++].nevents = block->row.nevents;
	}
	return n;
}

/* Asks for what may be asked for. If nobody can do it, all that is left is read here. */
static void
ask_ahead(BlockSource *source)
{
	BlockRef	refs[STAGE_REQUEST_BLOCKS];
	int			n;

	while (source->nrequests < MAX_REQUESTS && source->ahead > 0 &&
		   (n = next_group(source, refs)) > 0)
	{
		uint64		number = stage_hooks->request(source->storage, refs, n);

		if (number == 0)
		{
			source->ahead = 0;
			return;
		}
		source->requests[source->nrequests].number = number;
		source->requests[source->nrequests].last = source->asked - 1;
		source->requests[source->nrequests++].over = false;
	}
}

BlockSource *
block_source_begin(const StreamStorage *storage, StreamSlot *slot, Snapshot snapshot,
				   int64 low, int64 high, EventTime first, EventTime last, const Bitmapset *columns, Size ahead)
{
	BlockSource *source = palloc0(sizeof(BlockSource));

	source->storage = storage;
	source->slot = slot;
	source->snapshot = snapshot;
	source->first = first;
	source->last = last;
	source->columns = pbucket_columns(storage, columns);
	pbucket_scan_begin(&source->scan, storage, snapshot, low, high);
	source->scanning = true;
	if (ahead > 0 && stage_hooks && slot)
	{
		list_blocks(source);
		source->callback.func = stop_asking;
		source->callback.arg = source;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &source->callback);
		source->ahead = ahead;
		staged_note_columns(slot, source->columns);
		staged_expect(slot, low, high, false);
		ask_ahead(source);
	}
	return source;
}

/* Opens a copy of the block at hand; false: there is none. */
static bool
open_copy(BlockSource *source, PBucketReader *reader, bool expected)
{
	MemoryContext old;
	char	   *bytes;
	uint32		length;

	if (source->slot == NULL)
		return false;
	old = MemoryContextSwitchTo(pbucket_reader_context(reader));
	bytes = staged_read(source->slot, source->row.bucket, source->row.id, source->columns, expected, &length);
	MemoryContextSwitchTo(old);
	if (bytes == NULL)
		return false;
	pbucket_reader_open_bytes(reader, bytes, length);
	source->stats.staged++;
	return true;
}

/* Waits until something has happened to the request that covers block "index"; false: none is under way. */
static bool
wait_for_block(BlockSource *source, int index)
{
	for (int i = 0; i < source->nrequests; i++)
	{
		SourceRequest *request = &source->requests[i];
		StageWait	result;
		instr_time	start;
		instr_time	end;

		if (request->last < index)
			continue;
		if (request->over)
			return false;
		INSTR_TIME_SET_CURRENT(start);
		result = stage_hooks->wait(request->number);
		INSTR_TIME_SET_CURRENT(end);
		request->over = result != STAGE_PROGRESS;
		if (result == STAGE_BUSY)
			source->ahead = 0;	/* nor would the next request be begun soon */
		INSTR_TIME_SUBTRACT(end, start);
		source->stats.waited_us += INSTR_TIME_GET_MICROSEC(end);
		return true;
	}
	return false;
}

/* Reads a block of a lazy source from the table. */
static void
open_row(BlockSource *source, const SourceBlock *block, PBucketReader *reader)
{
	Relation	rel = table_open(source->storage->blocks, AccessShareLock);
	HeapTupleData tuple;
	Buffer		buffer;

	tuple.t_self = block->tid;
	if (!heap_fetch(rel, source->snapshot, &tuple, &buffer, false))
		elog(ERROR, "block (%u,%u) of relation %u is gone",
			 ItemPointerGetBlockNumber(&tuple.t_self),
			 ItemPointerGetOffsetNumber(&tuple.t_self), source->storage->blocks);
	pbucket_reader_open(reader, &tuple);
	ReleaseBuffer(buffer);
	table_close(rel, NoLock);
	source->stats.read++;
}

/* Forgets requests whose blocks have all been read. */
static void
forget_requests(BlockSource *source)
{
	int			kept = 0;

	for (int i = 0; i < source->nrequests; i++)
	{
		if (source->requests[i].last >= source->next)
			source->requests[kept++] = source->requests[i];
		else
			stage_hooks->withdraw(source->requests[i].number);
	}
	source->nrequests = kept;
}

static void
next_lazy(BlockSource *source, PBucketReader *reader)
{
	int			index = source->next;
	SourceBlock *block = &source->blocks[index];

	ask_ahead(source);
	source->row = block->row;
	while (!block->expected || !open_copy(source, reader, true))
	{
		CHECK_FOR_INTERRUPTS();
		if (!block->expected || !wait_for_block(source, index))
		{
			open_row(source, block, reader);
			break;
		}
	}
	source->next++;
	if (index < source->asked)
		source->bytes_ahead -= block->row.raw_bytes;
	else
		source->asked = source->next;
	forget_requests(source);
}

const PBucketRow *
block_source_next(BlockSource *source, PBucketReader *reader)
{
	HeapTuple	row;

	if (source->blocks)
	{
		if (source->next == source->nblocks)
			return NULL;
		next_lazy(source, reader);
		return &source->row;
	}
	row = next_row(source);
	if (row == NULL)
		return NULL;
	source->row = *PBUCKET_ROW(row);
	if (!open_copy(source, reader, false))
	{
		pbucket_reader_open(reader, row);
		source->stats.read++;
	}
	return &source->row;
}

const BlockSourceStats *
block_source_stats(const BlockSource *source)
{
	return &source->stats;
}

void
block_source_end(BlockSource *source)
{
	end_scan(source);
	stop_asking(source);
}
