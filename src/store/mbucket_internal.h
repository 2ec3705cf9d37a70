/*
 * mbucket_internal.h
 *	  m-buckets, as the other files of the store see them.
 */
#ifndef AION_MBUCKET_INTERNAL_H
#define AION_MBUCKET_INTERNAL_H

#include "store/area_internal.h"
#include "store/mbucket.h"

extern StreamSlot *mbucket_slot(Oid journal, bool create, bool journal_is_new);
extern MBucket *mbucket_find(StreamSlot *slot, int64 number);
extern int32 mbucket_enter_inbox(StreamSlot *slot, FullTransactionId top);
extern Chunk *mbucket_reserve(StreamSlot *slot, int32 inbox, int64 number, const Chunk *header);
extern void mbucket_note_journal_write(StreamSlot *slot, FullTransactionId writer);
extern void mbucket_note_journal_blocks(StreamSlot *slot, int32 inbox,
										BlockNumber first, BlockNumber last);
extern int64 *mbucket_numbers(StreamSlot *slot, int64 low, int64 high, int *n);
extern Chunk *mbucket_chunk_of(StreamSlot *slot, int64 number, FullTransactionId top,
							   const ItemPointerData *tid);
extern MBucket *mbucket_pin(StreamSlot *slot, int64 number);
extern void mbucket_unpin(MBucket *bucket);
extern void mbucket_reclaim_slot(StreamSlot *slot);

#endif							/* AION_MBUCKET_INTERNAL_H */
