/*
 * directory.h
 *	  The directory of shared memory, inside the store: streams' slots, and their
 *	  buckets.
 */
#ifndef AION_DIRECTORY_H
#define AION_DIRECTORY_H

#include "store/area_internal.h"

extern StreamSlot *directory_slot(Oid journal, bool create, bool journal_is_new);
extern MBucket *directory_find(StreamSlot *slot, int64 number);
extern MBucket *directory_find_or_create(StreamSlot *slot, int64 number);	/* NULL: no room */
extern void directory_note_freed(FullTransactionId *latest, FullTransactionId xid);
extern void directory_remove(StreamSlot *slot, MBucket *bucket);
extern MBucket *directory_pin(StreamSlot *slot, int64 number);
extern void directory_unpin(MBucket *bucket);
extern int64 *directory_numbers(StreamSlot *slot, int64 low, int64 high, int *n);

#endif							/* AION_DIRECTORY_H */
