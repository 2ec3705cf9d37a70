/*
 * staged.h
 *	  Copies of p-bucket blocks in shared memory, inside the store.
 *
 * A block never changes and its id is not used again, so a copy is right for
 * whoever finds the block's row under his snapshot. Having one is a matter of
 * speed alone: it may be refused, and taken away while nobody reads it.
 */
#ifndef AION_STAGED_H
#define AION_STAGED_H

#include "store/area_internal.h"

typedef enum StagedReader
{
	STAGED_READER,				/* a scan: it takes the place of an anonymous reader if there is one */
	STAGED_ANONYMOUS			/* of an execution that is foreseen */
} StagedReader;

/*
 * Copies a block's bytes, which have these columns, to a bucket of the slot, for one reader who is to come. Where there is
 * a copy already, see staged_want(); one that lacks columns is replaced. False: no room, or the one that lacks
 * columns is just being read.
 */
extern bool staged_put(StreamSlot *slot, int64 bucket, int64 id, StagedReader reader, BlockColumns columns,
					   const char *data, uint32 length);

/* If there is a copy with these columns, one more reader is to come: true. */
extern bool staged_want(StreamSlot *slot, int64 bucket, int64 id, StagedReader reader, BlockColumns columns);

/* A reader does not come after all. */
extern void staged_unwant(StreamSlot *slot, int64 bucket, int64 id);

/*
 * The bytes of a block, palloc'd, or NULL if there is no copy with these columns. "expected": the caller is one of those
 * who were to come; after the last of them the copy goes.
 */
extern char *staged_read(StreamSlot *slot, int64 bucket, int64 id, BlockColumns columns, bool expected,
						 uint32 *length);

/*
 * An execution that is foreseen will read buckets low..high: what of them is still in memory is copied as it is
 * destaged; or, the other way round, it has begun. Another one that is foreseen for some of them will read what is
 * destaged from now on without copies.
 */
extern void staged_expect(StreamSlot *slot, int64 low, int64 high, bool expected);
extern bool staged_expected(StreamSlot *slot, int64 bucket);

/* The columns of a copy for which a reader is still to come; 0: there is none. */
extern BlockColumns staged_wanted(StreamSlot *slot, int64 bucket, int64 id);

/* An execution reads these columns: copies for executions are to have them from now on. */
extern void staged_note_columns(StreamSlot *slot, BlockColumns columns);

/* The columns that such a copy is to have: all that executions have read so far; if there was none, all there are. */
extern BlockColumns staged_noted_columns(StreamSlot *slot);

/* True if memory is plentiful enough for a block in a form of that length that only saves time. */
extern bool staged_room_decompressed(uint32 length);

/*
 * Puts another form of the block, with the same columns, in the place of a copy's bytes. False: it is not wanted any
 * more, or not with these columns, or just being read, or there is no room.
 */
extern bool staged_exchange(StreamSlot *slot, int64 bucket, int64 id, BlockColumns columns, const char *data,
							uint32 length);

/* Frees all copies of a bucket that nobody is reading. Returns their pages. */
extern int32 staged_evict(StreamSlot *slot, int64 bucket);

/* The same with the stream lock held exclusively. */
extern int32 staged_evict_locked(MBucket *bucket);

#endif							/* AION_STAGED_H */
