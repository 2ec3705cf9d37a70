/*
 * destage.h
 *	  Moving events from memory and journal to p-buckets, and out of the store.
 *
 * All run inside a transaction of the caller (a worker; one process per
 * database at a time), which has to commit it and then call mbucket_reclaim(). Blocks
 * in, journal tuples out and chunks marked are one transaction: a snapshot sees
 * every event exactly once (invariant I2). Only events in "set" are touched.
 */
#ifndef AION_DESTAGE_H
#define AION_DESTAGE_H

#include "postgres.h"

#include "store/accounted.h"
#include "store/storage.h"

/*
 * Destages what memory holds of one bucket, but for the first chunks, in order
 * of arrival, that hold "keep" events. These stay in the journal as well: for readers it is as if
 * they had come after the rest was moved. Returns the number of events moved.
 */
extern int64 destage_bucket(const StreamStorage *storage, const Accounted *set, int64 bucket,
							int64 keep);

/*
 * One pass over the journal: events of "set" that have no chunk go to their
 * p-buckets, whatever the bucket. Bounded memory. Returns the number of events moved.
 */
extern int64 destage_fold(const StreamStorage *storage, const Accounted *set);

/*
 * Deletes all events of "set" in buckets that end at or before "before".
 * Returns their number and, if any, the greatest event time in *last.
 */
extern int64 destage_purge(const StreamStorage *storage, const Accounted *set,
						   EventTime before, EventTime *last);

#endif							/* AION_DESTAGE_H */
