/*
 * storage.h
 *	  What the store has to know of a stream.
 *
 * The stream layer makes this from the catalog and the stream's options; the
 * store never looks at either. "stored" describes a packed event: the columns
 * of the stream that were not dropped, in their order, those whose stored form
 * would contain an OID being text. For packed events see event.h.
 */
#ifndef AION_STORAGE_H
#define AION_STORAGE_H

#include "postgres.h"
#include "access/tupdesc.h"

#include "time/eventtime.h"

typedef struct StreamStorage
{
	Oid			stream;			/* the foreign table */
	Oid			journal;
	Oid			blocks;			/* table of p-bucket blocks */
	int64		bucket_width;	/* microseconds */
	TupleDesc	stored;			/* not reference counted; constr->missing filled in */
	int			time_att;		/* attribute number of the event time in "stored" */
	bool		compress;		/* LZ4 for new blocks */
	bool		foreign_journal;	/* came with a dump: what it says of its writers is of other processes */
} StreamStorage;

/* Columns of a table of blocks (pbucket.h). */
#define PBUCKET_COLUMNS 7

#endif							/* AION_STORAGE_H */
