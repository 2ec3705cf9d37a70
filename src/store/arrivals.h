/*
 * arrivals.h
 *	  What has arrived in a stream since the last accounting pass.
 *
 * The scheduler collects arrivals inside its pass transaction, decides what
 * they mean, and after that transaction has committed says so, which makes the
 * chunks accounted (so that they may be destaged) and empties the inbox. If the
 * transaction fails, nothing has changed and the next pass finds them again.
 *
 * An arrival is one journal tuple: events of one bucket and one transaction, or
 * a control entry (nevents = 0: "advance the watermark to first").
 */
#ifndef AION_ARRIVALS_H
#define AION_ARRIVALS_H

#include "postgres.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "store/accounted.h"
#include "store/event.h"
#include "store/storage.h"

typedef struct Arrival
{
	FullTransactionId top;		/* inserting top-level transaction */
	int64		bucket;			/* bucket number */
	EventTime	first;			/* least and greatest event time in it */
	EventTime	last;
	int32		nevents;		/* 0: control entry */
	uint32		flush;			/* which one of its transaction: see Chunk */
	ItemPointerData tid;		/* in the journal, as long as that is locked */
	uint64		chunk;			/* its chunk in shared memory; 0: none */
} Arrival;

typedef struct Arrivals
{
	Arrival    *items;			/* in order of arrival as far as known */
	int			nitems;
	bool		unfinished;		/* transactions in progress have arrivals: look again soon */
	int64		journal_only;	/* bytes of these items that want a fold: they have no chunk */
	struct InboxCut *cut;		/* private to the store */
} Arrivals;

/*
 * True if a call of arrivals_collect() could find anything: cheap (no table is
 * touched), to be asked before a pass is begun. "unfinished" as above.
 */
extern bool arrivals_pending(const StreamStorage *storage, bool *unfinished);

/*
 * Collects what "snapshot" shows and "prev" does not contain. "snapshot" must be the
 * active, registered snapshot of the pass; its Accounted form becomes the
 * stored set. Allocates in the current memory context. Takes AccessShareLock
 * on the journal until the end of the transaction.
 */
extern Arrivals *arrivals_collect(const StreamStorage *storage, Snapshot snapshot,
								  const Accounted *prev);

/* Event times of the events of one arrival, in stored order. Palloc'd, nevents of them. */
extern EventTime *arrivals_times(const StreamStorage *storage, Snapshot snapshot,
								 const Arrival *arrival);

/*
 * Takes a control entry out of the journal, in the current transaction: once it is accounted for, nobody needs it.
 * Takes RowExclusiveLock on the journal; if that is not to be had now, a fold is asked for.
 */
extern void arrivals_remove_control(const StreamStorage *storage, Arrivals *arrivals, Arrival *arrival);

/*
 * Takes the events with remove[i] out of the journal (in the current
 * transaction), calling "sink" for each with its packed form, and for those with
 * copy[i] alone (may be NULL), which stay.
 */
typedef void (*ArrivalSink) (void *arg, EventTime time, const Event *event, bool copied);
extern void arrivals_set_aside(const StreamStorage *storage, Snapshot snapshot,
							   Arrival *arrival, const bool *remove, const bool *copy,
							   ArrivalSink sink, void *arg);

/* To be called after the pass transaction committed, for each stream it collected. */
extern void arrivals_accounted(const StreamStorage *storage, Arrivals *arrivals);

/*
 * Counts the events of "set" that the snapshot shows, in p-buckets and journal:
 * calls back once per run of events of one bucket that the store holds together.
 * times is NULL unless want_times, else the nevents event times. The callback
 * runs in a memory context that is reset after it.
 */
typedef void (*RetainedSink) (void *arg, int64 bucket, int32 nevents,
							  EventTime first, EventTime last, const EventTime *times);
extern void arrivals_retained_between(const StreamStorage *storage, Snapshot snapshot,
									  const Accounted *set, EventTime low, EventTime high, bool want_times,
									  RetainedSink sink, void *arg);	/* in buckets that hold low <= time < high */
extern void arrivals_retained(const StreamStorage *storage, Snapshot snapshot,
							  const Accounted *set, bool want_times,
							  RetainedSink sink, void *arg);

/*
 * Writes events to the journal, in the current transaction, as ones that "set" and whatever follows it
 * contain: no pass will find them. Returns the bytes that they take; none has a chunk.
 */
extern int64 arrivals_readmit(const StreamStorage *storage, const Accounted *set,
							  const Event **events, int n);

/*
 * Writes the journal of a stream that was restored from a dump anew, in the current transaction and
 * without chunks, with transaction ids that mean something here: what "set" contains is accounted
 * for, the rest not. Returns the set that says so, palloc'd. Nobody else writes to the stream meanwhile.
 */
extern Accounted *arrivals_adopt(const StreamStorage *storage, Snapshot snapshot, const Accounted *set);

#endif							/* AION_ARRIVALS_H */
