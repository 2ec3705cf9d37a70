/*
 * ingest.h
 *	  Pending events of the current transaction, inside the stream layer.
 */
#ifndef AION_INGEST_H
#define AION_INGEST_H

#include "postgres.h"
#include "executor/tuptable.h"

#include "store/event_scan.h"
#include "stream/stream.h"

typedef struct StreamWrites StreamWrites;

/*
 * The transaction's writes to a stream's current journal; made at the first
 * call. "info" must have storage. Valid until the transaction ends.
 */
extern StreamWrites *ingest_writes(const StreamInfo *info);

/*
 * Adds one event: values and nulls by stored column, changed in place where
 * they are out of line (palloc'd in the current context). Checks the event time.
 */
extern void ingest_add(StreamWrites *writes, const StreamInfo *info, Datum *values, bool *isnull);

/* Hands the pending events that "snapshot" may see to a scan that has not begun to read. */
extern void ingest_add_to_scan(Oid journal, Snapshot snapshot, EventScan *scan);

/* expiry.c: refuses what comes too late (on_expired 'error'). */
typedef struct ExpiryCheck ExpiryCheck;
extern ExpiryCheck *expiry_begin(const StreamInfo *info);
extern void expiry_refuse(const ExpiryCheck *check, const StreamInfo *info, EventTime t);

#endif							/* AION_INGEST_H */
