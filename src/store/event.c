/*
 * event.c
 *	  Packed events.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/timestamp.h"

#include "store/event.h"

static bool
any_null(TupleDesc stored, bool *isnull)
{
	for (int i = 0; i < stored->natts; i++)
		if (isnull[i])
			return true;
	return false;
}

static Size
header_size(TupleDesc stored, bool hasnull)
{
	return MAXALIGN(SizeofMinimalTupleHeader + (hasnull ? BITMAPLEN(stored->natts) : 0));
}

Size
event_measure(TupleDesc stored, Datum *values, bool *isnull)
{
	Size		size;

	/* An expanded value is flattened by event_pack, what is in a TOAST table must be fetched. */
	for (int i = 0; i < stored->natts; i++)
	{
		struct varlena *value = (struct varlena *) DatumGetPointer(values[i]);

		if (!isnull[i] && TupleDescAttr(stored, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(value) && !VARATT_IS_EXTERNAL_EXPANDED(value))
			values[i] = PointerGetDatum(detoast_external_attr(value));
	}
	size = header_size(stored, any_null(stored, isnull)) +
		heap_compute_data_size(stored, values, isnull);
	if (size > EVENT_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("event of %zu bytes is too large", size),
				 errdetail("An event of a stream can have at most %d bytes.", EVENT_MAX_BYTES)));
	return MAXALIGN(size);
}

void
event_pack(TupleDesc stored, Datum *values, bool *isnull, char *place, Size size)
{
	MinimalTuple event = (MinimalTuple) place;
	bool		hasnull = any_null(stored, isnull);
	Size		hoff = header_size(stored, hasnull);
	Size		data_size = heap_compute_data_size(stored, values, isnull);

	Assert(MAXALIGN(hoff + data_size) == size);
	event->t_len = hoff + data_size;
	HeapTupleHeaderSetNatts(event, stored->natts);
	event->t_hoff = hoff + MINIMAL_TUPLE_OFFSET;
	heap_fill_tuple(stored, values, isnull, place + hoff, data_size,
					&event->t_infomask, hasnull ? event->t_bits : NULL);
}

EventTime
event_time(const StreamStorage *storage, MinimalTuple event)
{
	HeapTupleData tuple;
	bool		isnull;
	Datum		value;

	event_as_heap_tuple(event, &tuple);
	value = fastgetattr(&tuple, storage->time_att, storage->stored, &isnull);
	Assert(!isnull);
	return DatumGetTimestampTz(value);
}

int
event_run_bounds(const StreamStorage *storage, char *events, uint32 length,
				 EventTime *first, EventTime *last)
{
	int			n = 0;

	*first = PG_INT64_MAX;
	*last = PG_INT64_MIN;
	for (char *at = events; at < events + length; at += EVENT_SPACE((MinimalTuple) at))
	{
		EventTime	time = event_time(storage, (MinimalTuple) at);

		*first = Min(*first, time);
		*last = Max(*last, time);
		n++;
	}
	return n;
}
