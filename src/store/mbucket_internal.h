/*
 * mbucket_internal.h
 *	  m-buckets, as the other files of the store see them.
 */
#ifndef AION_MBUCKET_INTERNAL_H
#define AION_MBUCKET_INTERNAL_H

#include "store/area_internal.h"
#include "store/mbucket.h"

/* A transaction's place in a stream's inbox before it has asked for one; AREA_NONE: it got none. */
#define INBOX_NOT_ENTERED	(-2)

extern Chunk *mbucket_reserve(StreamSlot *slot, int32 *inbox, int64 number, const Chunk *header);
extern void mbucket_note_journal_write(StreamSlot *slot, int32 *inbox, FullTransactionId writer, bool events);
extern void mbucket_note_journal_rewrite(StreamSlot *slot, FullTransactionId writer);
extern void mbucket_note_journal_blocks(StreamSlot *slot, int32 inbox, Oid file,
										BlockNumber first, BlockNumber last);
extern bool mbucket_enter_straggler(StreamSlot *slot, FullTransactionId top, Oid file,
									BlockNumber first, BlockNumber last);
extern int32 mbucket_take_inbox(StreamSlot *slot);
extern Chunk *mbucket_next_chunk(const MBucket *bucket, const Chunk *chunk);
extern Chunk *mbucket_chunk_of(StreamSlot *slot, int64 number, FullTransactionId top,
							   uint32 flush);
extern void mbucket_mark_set_aside(StreamSlot *slot, int64 number, Chunk *chunk,
								   FullTransactionId mover);
extern void mbucket_mark_rolled_back(StreamSlot *slot, int64 number, Chunk *chunk);
extern void mbucket_reclaim_slot(StreamSlot *slot);

#endif							/* AION_MBUCKET_INTERNAL_H */
