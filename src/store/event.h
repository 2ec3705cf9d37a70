/*
 * event.h
 *	  Packed events: MinimalTuples of a stream's stored descriptor, one after
 *	  the other, each at a MAXALIGNed place.
 */
#ifndef AION_EVENT_H
#define AION_EVENT_H

#include "postgres.h"
#include "access/htup_details.h"

#include "store/storage.h"

/* A larger row is refused (EVENT_MAX_BYTES of packed form). */
#define EVENT_MAX_BYTES		(512 * 1024 * 1024)

#define EVENT_SPACE(event)	MAXALIGN((event)->t_len)
#define EVENT_NEXT(event)	((MinimalTuple) ((char *) (event) + EVENT_SPACE(event)))

/*
 * Space that an event of these values takes, MAXALIGNed. Values that are out of
 * line are replaced in "values" by copies in line (in the current context).
 */
extern Size event_measure(TupleDesc stored, Datum *values, bool *isnull);

/* Writes the event into event_measure() zeroed bytes, MAXALIGNed. */
extern void event_pack(TupleDesc stored, Datum *values, bool *isnull,
					   char *place, Size size);

extern EventTime event_time(const StreamStorage *storage, MinimalTuple event);

/* Least and greatest event time, and number, of a run of packed events. */
extern int	event_run_bounds(const StreamStorage *storage, char *events, uint32 length,
							 EventTime *first, EventTime *last);

/* A heap tuple's view on an event, for the attribute functions. */
static inline void
event_as_heap_tuple(MinimalTuple event, HeapTupleData *tuple)
{
	tuple->t_len = event->t_len + MINIMAL_TUPLE_OFFSET;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	tuple->t_data = (HeapTupleHeader) ((char *) event - MINIMAL_TUPLE_OFFSET);
}

#endif							/* AION_EVENT_H */
