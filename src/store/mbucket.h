/*
 * mbucket.h
 *	  m-buckets: the part of a stream's buckets that is in shared memory.
 *
 * This header is what the layers above may use; store-internal parts are in
 * mbucket_internal.h.
 */
#ifndef AION_MBUCKET_H
#define AION_MBUCKET_H

#include "postgres.h"
#include "access/transam.h"
#include "nodes/pg_list.h"
#include "time/eventtime.h"

/* One row of aion.buckets' memory half. */
typedef struct MBucketInfo
{
	int64		number;
	int64		events;			/* committed or not */
	int64		moved;			/* destaged since memory first held something of it */
	int64		bytes;			/* of whole pages that hold events, */
	int64		staged_bytes;	/* and of those that hold copies of blocks */
	int64		age_ms;			/* since an event was last added */
	int64		span_ms;		/* since one was first added */
	bool		read;			/* a scan is on it, or a block of it was staged a moment ago */
	bool		accounted_any;	/* holds events that could be destaged */
} MBucketInfo;

/* Buckets of (MyDatabaseId, journal) in memory, ascending by number. Palloc'd array. */
extern MBucketInfo *mbucket_list(Oid journal, int *n);

/* True if events could be destaged even if the first "keep" of these stay (destage_bucket()). */
extern bool mbucket_has_more(Oid journal, int64 number, int64 keep);

/*
 * Frees chunks that were destaged or purged by a committed transaction, or
 * written by an aborted one, and clears marks of aborted destages.
 */
extern void mbucket_reclaim(Oid journal);

/* The same of one bucket, after a transaction that moved it. */
extern void mbucket_reclaim_one(Oid journal, int64 number);

/*
 * Forgets all of a journal's memory: it no longer exists (dropped, truncated). False: a process that
 * needs no lock on the stream is looking at it at the moment; to be called again.
 */
extern bool mbucket_forget(Oid journal);

/* The same of a database that was dropped. */
extern bool mbucket_forget_database(Oid database);

/* Databases that have entries in shared memory. Palloc'd list of OIDs. */
extern List *mbucket_databases(void);

/* Journals of this database that have entries in shared memory. Palloc'd list of OIDs;
 * a journal that its creating transaction has not committed yet is left out. */
extern List *mbucket_journals(void);

#endif							/* AION_MBUCKET_H */
