/*
 * event.h
 *	  Packed events: the columns of a stream's stored descriptor in a row, one
 *	  event after the other, each at a MAXALIGNed place.
 *
 * An event is an 8 byte header, a bitmap of columns that are not null (only if one
 * is null; padded to MAXALIGN), and the values, aligned and padded as in a heap
 * tuple, nothing out of line. A heap tuple's own header would be most of a
 * small event, and of what follows from its size: memory, WAL, journal.
 *
 * An event may have fewer columns than the descriptor: those added later are
 * taken from constr->missing.
 */
#ifndef AION_EVENT_H
#define AION_EVENT_H

#include "postgres.h"
#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"

#include "store/storage.h"

typedef struct Event
{
	uint32		length;			/* in bytes, not padded */
	uint16		natts;
	uint8		hasnull;
	uint8		offset;			/* of the values, in MAXALIGN units */
	/* null bitmap, values */
} Event;

/* A larger row is refused. */
#define EVENT_MAX_BYTES		(512 * 1024 * 1024)

#define EVENT_SPACE(event)	MAXALIGN((event)->length)

/* Goes through the packed events in "length" bytes. */
#define EVENT_FOREACH(event, events, bytes) \
	for (const Event *event = (const Event *) (events); \
		 (const char *) event < (const char *) (events) + (bytes); \
		 event = (const Event *) ((const char *) event + EVENT_SPACE(event)))

/* How columns lie in events; made once per scan or operation. Palloc'd. */
typedef struct EventLayout EventLayout;

extern EventLayout *event_layout(const StreamStorage *storage);

/*
 * Length of the event that these values make; it takes MAXALIGN of that. Values
 * that are out of line or expanded are replaced in "values" by flat copies (in
 * the current context).
 */
extern Size event_measure(const EventLayout *layout, Datum *values, const bool *isnull);

/*
 * Writes the event to a MAXALIGNed place of "room" zeroed bytes and returns its length. Returns 0, and
 * leaves zeroed bytes, if it does not fit or a value is not flat: neither can be after event_measure().
 */
extern Size event_pack(const EventLayout *layout, const Datum *values, const bool *isnull,
					   char *place, Size room);

/* The first natts columns; pass-by-reference values point into the event. */
extern void event_deform(const EventLayout *layout, const Event *event, int natts,
						 Datum *values, bool *isnull);

/*
 * The same of certain columns alone (attribute numbers; NULL: all), which is cheaper where all of
 * them lie at fixed offsets. Others stay, or become, NULL: whoever copies the row copies them, too.
 * Palloc'd.
 */
typedef struct EventProjection EventProjection;

extern EventProjection *event_projection(const EventLayout *layout, const Bitmapset *columns);
extern void event_project(const EventProjection *projection, const Event *event,
						  Datum *values, bool *isnull);

extern EventTime event_time(const EventLayout *layout, const Event *event);

/* Least and greatest event time, and number, of a run of packed events. */
extern int	event_run_bounds(const EventLayout *layout, const char *events, uint32 length,
							 EventTime *first, EventTime *last);

#endif							/* AION_EVENT_H */
