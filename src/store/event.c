/*
 * event.c
 *	  Packing and unpacking events.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "utils/timestamp.h"

#include "store/event.h"

typedef struct ColumnLayout
{
	int32		offset;			/* in every event without nulls; -1: it varies */
	int16		length;			/* as pg_type.typlen */
	bool		byval;
	char		align;			/* as pg_type.typalign */
} ColumnLayout;

struct EventLayout
{
	TupleDesc	stored;
	int			time_att;
	ColumnLayout columns[FLEXIBLE_ARRAY_MEMBER];
};

EventLayout *
event_layout(const StreamStorage *storage)
{
	TupleDesc	stored = storage->stored;
	EventLayout *layout = palloc(offsetof(EventLayout, columns) +
								 sizeof(ColumnLayout) * Max(stored->natts, 1));
	int32		offset = 0;

	layout->stored = stored;
	layout->time_att = storage->time_att;
	for (int i = 0; i < stored->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(stored, i);
		ColumnLayout *column = &layout->columns[i];

		column->length = att->attlen;
		column->byval = att->attbyval;
		column->align = att->attalign;
		/* a varlena at a place that needs no padding begins there whether its header is short or not */
		if (offset >= 0 && att->attlen < 0 && offset != att_align_nominal(offset, att->attalign))
			offset = -1;
		column->offset = offset >= 0 ? att_align_nominal(offset, att->attalign) : -1;
		offset = offset >= 0 && att->attlen > 0 ? column->offset + att->attlen : -1;
	}
	return layout;
}

static bool
any_null(TupleDesc stored, const bool *isnull)
{
	for (int i = 0; i < stored->natts; i++)
		if (isnull[i])
			return true;
	return false;
}

static Size
values_offset(TupleDesc stored, bool hasnull)
{
	return MAXALIGN(sizeof(Event) + (hasnull ? BITMAPLEN(stored->natts) : 0));
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
	size = values_offset(stored, any_null(stored, isnull)) +
		heap_compute_data_size(stored, values, isnull);
	if (size > EVENT_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("event of %zu bytes is too large", size),
				 errdetail("An event of a stream can have at most %d bytes.", EVENT_MAX_BYTES)));
	return size;
}

void
event_pack(TupleDesc stored, Datum *values, bool *isnull, char *place, Size length)
{
	Event	   *event = (Event *) place;
	Size		offset = values_offset(stored, any_null(stored, isnull));
	uint16		infomask = 0;

	Assert(length == offset + heap_compute_data_size(stored, values, isnull));
	event->length = length;
	event->natts = stored->natts;
	event->hasnull = offset > MAXALIGN(sizeof(Event));
	event->offset = offset / MAXIMUM_ALIGNOF;
	heap_fill_tuple(stored, values, isnull, place + offset, length - offset,
					&infomask, event->hasnull ? (bits8 *) (event + 1) : NULL);
}

void
event_deform(const EventLayout *layout, const Event *event, int natts,
			 Datum *values, bool *isnull)
{
	const char *data = (const char *) event + event->offset * MAXIMUM_ALIGNOF;
	bits8	   *present = event->hasnull ? (bits8 *) (event + 1) : NULL;
	int			stored_natts = Min(natts, event->natts);
	bool		fixed = true;	/* no null so far: offsets are as in the layout */
	uint32		offset = 0;
	int			i;

	for (i = 0; i < stored_natts; i++)
	{
		const ColumnLayout *column = &layout->columns[i];

		isnull[i] = present && att_isnull(i, present);
		if (isnull[i])
		{
			values[i] = (Datum) 0;
			fixed = false;
			continue;
		}
		if (fixed && column->offset >= 0)
			offset = column->offset;
		else
			offset = att_align_pointer(offset, column->align, column->length, data + offset);
		values[i] = fetch_att(data + offset, column->byval, column->length);
		offset = att_addlength_pointer(offset, column->length, data + offset);
	}
	for (; i < natts; i++)
		values[i] = getmissingattr(layout->stored, i + 1, &isnull[i]);
}

EventTime
event_time(const EventLayout *layout, const Event *event)
{
	int			index = layout->time_att - 1;
	Datum		values[MaxTupleAttributeNumber];
	bool		isnull[MaxTupleAttributeNumber];

	if (!event->hasnull && layout->columns[index].offset >= 0)
		return *(const EventTime *) ((const char *) event + event->offset * MAXIMUM_ALIGNOF +
									 layout->columns[index].offset);
	event_deform(layout, event, layout->time_att, values, isnull);
	Assert(!isnull[index]);
	return DatumGetTimestampTz(values[index]);
}

int
event_run_bounds(const EventLayout *layout, const char *events, uint32 length,
				 EventTime *first, EventTime *last)
{
	int			n = 0;

	*first = PG_INT64_MAX;
	*last = PG_INT64_MIN;
	EVENT_FOREACH(event, events, length)
	{
		EventTime	time = event_time(layout, event);

		*first = Min(*first, time);
		*last = Max(*last, time);
		n++;
	}
	return n;
}
