/*
 * unpack.h
 *	  From stored columns to rows of the stream, and back.
 */
#ifndef AION_UNPACK_H
#define AION_UNPACK_H

#include "postgres.h"
#include "executor/tuptable.h"

#include "stream/stream.h"

/* Conversion between the stored form and rows, for streams that need one. */
typedef struct RowConverter RowConverter;

/* "wanted": attribute numbers of the stream whose values matter; NULL: all. */
extern RowConverter *row_converter_create(const StreamInfo *info, TupleDesc row_desc,
										  const Bitmapset *wanted);

/* Fills a virtual slot of row_desc; values may be allocated in the current context. */
extern void row_from_stored(RowConverter *converter, TupleTableSlot *stored, TupleTableSlot *row);

/* Fills arrays by stored column from a row; values may be allocated in the current context. */
extern void row_to_stored(RowConverter *converter, TupleTableSlot *row,
						  Datum *values, bool *isnull);

/* Packed events as rows of the stream, one at a time. The caller keeps a lock on the stream. */
typedef struct EventReader EventReader;

extern EventReader *event_reader_create(const StreamInfo *info, TupleDesc row_desc);
extern void event_reader_free(EventReader *reader);

/* Valid as long as the event, up to the next call; values may be allocated in the current context. */
extern TupleTableSlot *event_reader_row(EventReader *reader, const Event *event);

#endif							/* AION_UNPACK_H */
