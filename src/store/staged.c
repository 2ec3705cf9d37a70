/*
 * staged.c
 *	  Copies of p-bucket blocks in shared memory.
 *
 * A copy counts the readers who are still to come ("wants"), which whoever
 * stages it announces; after the last one it is freed, at no write. A reader
 * who fails to come leaves a copy behind: such are evicted when memory is
 * short, and go with their bucket's events at last. A crash leaves nothing.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "store/directory.h"
#include "store/staged.h"

/* Copies that LZ4 has let go of leave so much of the pages free: they are far from where memory is relieved. */
#define DECOMPRESSED_RESERVE	0.5

/* The link to the copy of a block in a bucket's list; to AREA_NONE if there is none. Under A1. */
static int32 *
find_link(MBucket *bucket, int64 id)
{
	int32	   *link = &bucket->first_staged;

	while (*link != AREA_NONE && area_staged[*link].id != id)
		link = &area_staged[*link].next;
	return link;
}

/* The copy of a block, or NULL. Under A1. */
static StagedBlock *
find_block(StreamSlot *slot, int64 number, int64 id)
{
	MBucket    *bucket = directory_find(slot, number);
	int32		index = bucket ? *find_link(bucket, id) : AREA_NONE;

	return index == AREA_NONE ? NULL : &area_staged[index];
}

static bool
lacks(const StagedBlock *block, BlockColumns columns)
{
	return (columns & ~block->columns) != 0;
}

void
staged_note_columns(StreamSlot *slot, BlockColumns columns)
{
	if ((columns & ~pg_atomic_read_u64(&slot->read_columns)) != 0)
		(void) pg_atomic_fetch_or_u64(&slot->read_columns, columns);
}

BlockColumns
staged_noted_columns(StreamSlot *slot)
{
	BlockColumns columns = pg_atomic_read_u64(&slot->read_columns);

	return columns == 0 ? BLOCK_COLUMNS_ALL : columns;
}

/* Frees the copy that "link" points to. Under A1, exclusively; nobody is reading it. */
static void
free_block(MBucket *bucket, int32 *link)
{
	int32		index = *link;
	StagedBlock *block = &area_staged[index];

	Assert(pg_atomic_read_u32(&block->pins) == 0);
	*link = block->next;
	bucket->staged_pages -= block->npages;
	area_free_pages(block->first_page);
	area_free_staged(index);
	/* the execution has been, or memory is short */
	if (bucket->first_staged == AREA_NONE)
		bucket->expected = false;
}

/* Frees it if it is neither wanted nor being read. Under A1, exclusively. */
static void
free_if_unused(StreamSlot *slot, int64 number, int64 id)
{
	MBucket    *bucket = directory_find(slot, number);
	int32	   *link = bucket ? find_link(bucket, id) : NULL;

	if (link && *link != AREA_NONE && area_staged[*link].wants == 0 &&
		pg_atomic_read_u32(&area_staged[*link].pins) == 0)
		free_block(bucket, link);
}

bool
staged_want(StreamSlot *slot, int64 bucket, int64 id, StagedReader reader, BlockColumns columns)
{
	StagedBlock *block;

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	block = find_block(slot, bucket, id);
	if (block && lacks(block, columns))
		block = NULL;
	if (block && reader == STAGED_READER && block->anonymous > 0)
		block->anonymous--;
	else if (block)
	{
		block->wants++;
		block->anonymous += reader == STAGED_ANONYMOUS;
	}
	LWLockRelease(area_stream_lock(slot));
	return block != NULL;
}

void
staged_unwant(StreamSlot *slot, int64 bucket, int64 id)
{
	StagedBlock *block;

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	block = find_block(slot, bucket, id);
	if (block && block->wants > 0)
		block->wants--;
	if (block)
		block->anonymous = Min(block->anonymous, block->wants);
	free_if_unused(slot, bucket, id);
	LWLockRelease(area_stream_lock(slot));
}

/*
 * Links a filled copy to its bucket. One that lacks some of its columns makes place for it, and leaves it those who were
 * to come. False: there is no entry to be had for the bucket, or somebody else has made a copy meanwhile, or
 * is reading the other one.
 */
static bool
link_block(StreamSlot *slot, int64 number, int32 index)
{
	TimestampTz now = GetCurrentTimestamp();
	MBucket    *bucket;

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	bucket = directory_find_or_create(slot, number);
	if (bucket)
	{
		int32	   *link = find_link(bucket, area_staged[index].id);
		StagedBlock *other = *link == AREA_NONE ? NULL : &area_staged[*link];

		if (other && (!lacks(other, area_staged[index].columns) || pg_atomic_read_u32(&other->pins) > 0))
			bucket = NULL;
		else if (other)
		{
			area_staged[index].wants += other->wants;
			area_staged[index].anonymous += other->anonymous;
			free_block(bucket, link);
		}
	}
	if (bucket)
	{
		area_staged[index].next = bucket->first_staged;
		bucket->first_staged = index;
		bucket->staged_pages += area_staged[index].npages;
		bucket->staged_at = now;
	}
	LWLockRelease(area_stream_lock(slot));
	return bucket != NULL;
}

bool
staged_put(StreamSlot *slot, int64 bucket, int64 id, StagedReader reader, BlockColumns columns,
		   const char *data, uint32 length)
{
	int32		npages = area_pages_for(length);
	int32		index;
	int32		first;
	StagedBlock *block;

	if (staged_want(slot, bucket, id, reader, columns))
		return true;
	/* what is above the high mark is for events that arrive */
	if (!area_leaves_free(npages, 1 - aion_memory_high / 100.0))
		return false;
	index = area_alloc_staged();
	if (index == AREA_NONE)
		return false;
	first = area_alloc_pages(npages);
	block = &area_staged[index];
	block->first_page = first;
	block->npages = npages;
	block->length = length;
	block->id = id;
	block->columns = columns;
	block->wants = 1;
	block->anonymous = reader == STAGED_ANONYMOUS;
	if (first != AREA_NONE)
	{
		area_write_pages(first, data, length);
		if (link_block(slot, bucket, index))
			return true;
		area_free_pages(first);
	}
	area_free_staged(index);
	return false;
}

char *
staged_read(StreamSlot *slot, int64 bucket, int64 id, BlockColumns columns, bool expected, uint32 *length)
{
	StagedBlock *block;
	bool		fit;
	char	   *data;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	block = find_block(slot, bucket, id);
	fit = block != NULL && !lacks(block, columns);
	if (fit)
		pg_atomic_fetch_add_u32(&block->pins, 1);
	LWLockRelease(area_stream_lock(slot));
	if (!fit)
	{
		if (block != NULL && expected)
			staged_unwant(slot, bucket, id);
		return NULL;
	}

	/* nothing in between may fail and leave the pin behind */
	data = palloc_extended(Max(block->length, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	*length = block->length;
	if (data)
		area_read_pages(block->first_page, data, block->length);

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	pg_atomic_fetch_sub_u32(&block->pins, 1);
	if (expected && block->wants > 0)
		block->wants--;
	free_if_unused(slot, bucket, id);
	LWLockRelease(area_stream_lock(slot));
	return data;
}

void
staged_expect(StreamSlot *slot, int64 low, int64 high, bool expected)
{
	int			n;
	int64	   *numbers = directory_numbers(slot, low, high, &n);

	for (int i = 0; i < n; i++)
	{
		MBucket    *bucket;

		LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
		bucket = directory_find(slot, numbers[i]);
		if (bucket)
			bucket->expected = expected;
		LWLockRelease(area_stream_lock(slot));
	}
	pfree(numbers);
}

bool
staged_expected(StreamSlot *slot, int64 number)
{
	MBucket    *bucket;
	bool		expected;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	bucket = directory_find(slot, number);
	expected = bucket && bucket->expected;
	LWLockRelease(area_stream_lock(slot));
	return expected;
}

bool
staged_room_decompressed(uint32 length)
{
	return area_leaves_free(area_pages_for(length), DECOMPRESSED_RESERVE);
}

BlockColumns
staged_wanted(StreamSlot *slot, int64 bucket, int64 id)
{
	StagedBlock *block;
	BlockColumns columns;

	LWLockAcquire(area_stream_lock(slot), LW_SHARED);
	block = find_block(slot, bucket, id);
	columns = block != NULL && block->wants > 0 ? block->columns : 0;
	LWLockRelease(area_stream_lock(slot));
	return columns;
}

bool
staged_exchange(StreamSlot *slot, int64 number, int64 id, BlockColumns columns, const char *data, uint32 length)
{
	int32		npages = area_pages_for(length);
	int32		pages = area_alloc_pages(npages);
	StagedBlock *block;
	bool		exchanged;

	if (pages == AREA_NONE)
		return false;
	area_write_pages(pages, data, length);

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	block = find_block(slot, number, id);
	exchanged = block != NULL && block->columns == columns && block->wants > 0 && pg_atomic_read_u32(&block->pins) == 0;
	if (exchanged)
	{
		int32		former = block->first_page;

		directory_find(slot, number)->staged_pages += npages - block->npages;
		block->first_page = pages;
		block->npages = npages;
		block->length = length;
		pages = former;
	}
	LWLockRelease(area_stream_lock(slot));
	area_free_pages(pages);
	return exchanged;
}

int32
staged_evict_locked(MBucket *bucket)
{
	int32		before = bucket->staged_pages;

	for (int32 *link = &bucket->first_staged; *link != AREA_NONE;)
	{
		if (pg_atomic_read_u32(&area_staged[*link].pins) == 0)
			free_block(bucket, link);
		else
			link = &area_staged[*link].next;
	}
	return before - bucket->staged_pages;
}

int32
staged_evict(StreamSlot *slot, int64 number)
{
	MBucket    *bucket;
	int32		freed = 0;

	LWLockAcquire(area_stream_lock(slot), LW_EXCLUSIVE);
	bucket = directory_find(slot, number);
	if (bucket)
		freed = staged_evict_locked(bucket);
	LWLockRelease(area_stream_lock(slot));
	return freed;
}
