/*
 * event_scan.h
 *	  Reading the events of a stream: memory, journal and p-buckets as one.
 *
 * The scan yields every event visible in its snapshot exactly once (I2),
 * whatever is destaged or purged meanwhile: pending events of this backend,
 * then m-buckets, then one pass over the journal if anything may be only
 * there, then p-bucket blocks, read by the query's own snapshot.
 */
#ifndef AION_EVENT_SCAN_H
#define AION_EVENT_SCAN_H

#include "postgres.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"
#include "utils/snapshot.h"

#include "store/accounted.h"
#include "store/storage.h"

typedef struct EventScan EventScan;

typedef struct EventScanStats
{
	int64		memory_buckets;
	int64		disk_buckets;
	int64		memory_events;
	int64		journal_events;
	int64		disk_events;
	int64		staged_blocks;	/* blocks of p-buckets read from copies in memory, */
	int64		read_blocks;	/* and from the table */
	int64		waited_us;		/* for blocks to be staged */
} EventScanStats;

/*
 * Begins a scan of events with low <= time < high, of "set" alone unless NULL.
 * With "exact" the times of single events are checked; otherwise whole buckets
 * are left out, and the caller checks. "columns" = attribute numbers of
 * storage->stored that will be looked at, NULL for all. "stage_ahead": bytes of
 * events to be asked for ahead of the reader, 0: p-buckets are read here. Lives in the
 * current memory context, whose reset or deletion ends it.
 */
extern EventScan *event_scan_begin(const StreamStorage *storage, Snapshot snapshot,
								   EventTime low, EventTime high, bool exact,
								   Bitmapset *columns, const Accounted *set, Size stage_ahead);

/*
 * Adds packed events that this backend has not flushed yet (MAXALIGNed,
 * copied by the caller); to be called before the first event_scan_next().
 */
extern void event_scan_add_own(EventScan *scan, char *events, uint32 length);

/* Next event as a tuple of storage->stored; NULL at the end. Valid until the next call. */
extern TupleTableSlot *event_scan_next(EventScan *scan);
extern void event_scan_end(EventScan *scan);
extern const EventScanStats *event_scan_stats(EventScan *scan);

#endif							/* AION_EVENT_SCAN_H */
