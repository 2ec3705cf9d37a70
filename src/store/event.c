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
	char		align;			/* as pg_type.typalign ... */
	uint8		mask;			/* ... and in bytes, less one */
	bool		packable;		/* a varlena that can have a short header */
} ColumnLayout;

/* "at", or the next offset at which the column may begin; att_align_nominal() would ask for the kind each time. */
#define COLUMN_ALIGN(column, at) (((Size) (at) + (column)->mask) & ~(Size) (column)->mask)

struct EventLayout
{
	TupleDesc	stored;
	int			time_att;
	int			natts;
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
	layout->natts = stored->natts;
	for (int i = 0; i < stored->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(stored, i);
		ColumnLayout *column = &layout->columns[i];

		column->length = att->attlen;
		column->byval = att->attbyval;
		column->align = att->attalign;
		column->mask = att_align_nominal(1, att->attalign) - 1;
		column->packable = att->attlen == -1 && att->attstorage != TYPSTORAGE_PLAIN;
		/* a varlena at a place that needs no padding begins there whether its header is short or not */
		if (offset >= 0 && att->attlen < 0 && offset != att_align_nominal(offset, att->attalign))
			offset = -1;
		column->offset = offset >= 0 ? att_align_nominal(offset, att->attalign) : -1;
		offset = offset >= 0 && att->attlen > 0 ? column->offset + att->attlen : -1;
	}
	return layout;
}

static Size
values_offset(const EventLayout *layout, bool hasnull)
{
	return MAXALIGN(sizeof(Event) + (hasnull ? BITMAPLEN(layout->natts) : 0));
}

static bool
has_nulls(const EventLayout *layout, const bool *isnull)
{
	for (int i = 0; i < layout->natts; i++)
		if (isnull[i])
			return true;
	return false;
}

/* The value in one piece: out of a TOAST table (it may stay compressed), or of its expanded form. */
static Datum
flatten(Datum value)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);

	if (!VARATT_IS_EXTERNAL(pointer))
		return value;
	return PointerGetDatum(detoast_external_attr(pointer));
}

Size
event_measure(const EventLayout *layout, Datum *values, const bool *isnull)
{
	Size		size = 0;

	for (int i = 0; i < layout->natts; i++)
	{
		const ColumnLayout *column = &layout->columns[i];

		if (isnull[i])
			continue;
		if (column->length > 0)
			size = COLUMN_ALIGN(column, size) + column->length;
		else if (column->length == -1)
		{
			char	   *value;

			values[i] = flatten(values[i]);
			value = DatumGetPointer(values[i]);
			if (column->packable && VARATT_CAN_MAKE_SHORT(value))
				size += VARATT_CONVERTED_SHORT_SIZE(value);
			else if (VARATT_IS_SHORT(value))
				size += VARSIZE_SHORT(value);
			else
				size = COLUMN_ALIGN(column, size) + VARSIZE_ANY(value);
		}
		else
			size += strlen(DatumGetCString(values[i])) + 1;
	}
	size += values_offset(layout, has_nulls(layout, isnull));
	if (size > EVENT_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("event of %zu bytes is too large", size),
				 errdetail("An event of a stream can have at most %d bytes.", EVENT_MAX_BYTES)));
	return size;
}

/*
 * Writes one value at offset "at" of data, and returns the offset behind it; more than "room" if there is
 * no place for it there, and nothing is written then.
 */
static inline Size
pack_value(const ColumnLayout *column, Datum datum, char *data, Size at, Size room)
{
	char	   *value = DatumGetPointer(datum);
	Size		size;

	if (column->byval)
	{
		at = COLUMN_ALIGN(column, at);
		if (at + column->length <= room)
			store_att_byval(data + at, datum, column->length);
		return at + column->length;
	}
	if (column->length == -1)
	{
		if (column->packable && VARATT_CAN_MAKE_SHORT(value))
		{
			size = VARATT_CONVERTED_SHORT_SIZE(value);
			if (at + size <= room)
			{
				SET_VARSIZE_SHORT(data + at, size);
				memcpy(data + at + 1, VARDATA(value), size - 1);
			}
			return at + size;
		}
		if (VARATT_IS_EXTERNAL(value))
			return SIZE_MAX;
		if (!VARATT_IS_SHORT(value))
			at = COLUMN_ALIGN(column, at);
		size = VARSIZE_ANY(value);
	}
	else if (column->length > 0)
	{
		at = COLUMN_ALIGN(column, at);
		size = column->length;
	}
	else
		size = strlen(value) + 1;
	if (at + size <= room)
		memcpy(data + at, value, size);
	return at + size;
}

Size
event_pack(const EventLayout *layout, const Datum *values, const bool *isnull, char *place, Size room)
{
	Event	   *event = (Event *) place;
	bits8	   *present = (bits8 *) (event + 1);
	bool		hasnull = has_nulls(layout, isnull);
	Size		offset = values_offset(layout, hasnull);
	Size		at = 0;

	if (offset > room)
		return 0;
	for (int i = 0; i < layout->natts; i++)
	{
		if (isnull[i])
			continue;
		if (hasnull)
			present[i >> 3] |= 1 << (i & 7);
		at = pack_value(&layout->columns[i], values[i], place + offset, at, room - offset);
		if (at > room - offset)
		{
			memset(place, 0, room);
			return 0;
		}
	}
	event->length = offset + at;
	event->natts = layout->natts;
	event->hasnull = hasnull;
	event->offset = offset / MAXIMUM_ALIGNOF;
	return event->length;
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

struct EventProjection
{
	const EventLayout *layout;
	int			natts;			/* up to the last column that is wanted */
	bool		fixed;			/* all have fixed offsets in an event without nulls */
	bool	   *wanted;			/* by column, from 0 */
	int			n;
	int			columns[FLEXIBLE_ARRAY_MEMBER];	/* those that are wanted */
};

EventProjection *
event_projection(const EventLayout *layout, const Bitmapset *columns)
{
	int			natts = layout->stored->natts;
	EventProjection *projection = palloc0(offsetof(EventProjection, columns) + sizeof(int) * natts);

	projection->wanted = palloc0(sizeof(bool) * Max(natts, 1));
	projection->layout = layout;
	projection->fixed = true;
	for (int i = 0; i < natts; i++)
	{
		if (columns && !bms_is_member(i + 1, columns))
			continue;
		projection->wanted[i] = true;
		projection->columns[projection->n++] = i;
		projection->natts = i + 1;
		projection->fixed &= layout->columns[i].offset >= 0;
	}
	return projection;
}

void
event_project(const EventProjection *projection, const Event *event, Datum *values, bool *isnull)
{
	const char *data = (const char *) event + event->offset * MAXIMUM_ALIGNOF;

	if (!projection->fixed || event->hasnull || event->natts < projection->natts)
	{
		event_deform(projection->layout, event, projection->natts, values, isnull);
		for (int i = 0; i < projection->natts; i++)
			isnull[i] |= !projection->wanted[i];
		return;
	}
	for (int i = 0; i < projection->n; i++)
	{
		int			index = projection->columns[i];
		const ColumnLayout *column = &projection->layout->columns[index];

		isnull[index] = false;
		values[index] = fetch_att(data + column->offset, column->byval, column->length);
	}
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
