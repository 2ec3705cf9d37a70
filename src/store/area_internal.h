/*
 * area_internal.h
 *	  Layout of the shared memory area, for the files of the store alone.
 *
 * One area of aion.memory, fixed at server start, holds everything in shared
 * memory that grows with data (invariant I4):
 *
 *	  AreaHeader | StreamSlot[] | InboxXact[] | MBucket[] | StagedBlock[] | hash heads | pages
 *
 * Each array has a share of the area; when one is used up, events are in the
 * journal alone, which costs speed and never an error. A page belongs to one
 * bucket and holds chunks, or a part of a staged block; or to a task of the
 * serializers (serialize.c). Everything refers to everything by index or by
 * byte offset from the start of the area.
 *
 * Access rules (cited by number in the code; lock order is A1 before A3):
 * A1 A slot's stream lock (slot % AREA_STREAM_LOCKS) guards the slot, its
 *	  inbox entries, its buckets, their pages and the links between chunks.
 *	  Held for some hundred instructions, never across I/O or palloc (I8).
 * A2 A chunk's payload, tid and file are written by the backend that reserved
 *	  it, without a lock, before its transaction commits; nobody else looks at
 *	  them before they know that it has committed. After a rewrite of the
 *	  journal whoever needs the tid brings it up to date (journal_tid()), tid
 *	  before file, likewise without a lock: holding one on the journal, all
 *	  write the same. All other chunk fields are set under A1 before the chunk
 *	  is linked, but for xmax and flags (A4).
 * A3 A spinlock in the header guards the free lists.
 * A4 A chunk's xmax and set_aside are written under the stream lock in
 *	  exclusive mode, its "accounted" once and without a lock by accounting. Whoever
 *	  has pinned the bucket reads all of them bare: they change from one
 *	  state that a snapshot reads correctly to another such. A chunk that is
 *	  not accounted for is not freed unless its xmin is invalid.
 * A5 Chunks and pages of a bucket are freed only while it is not pinned, under
 *	  its stream lock in exclusive mode. A pin is taken in shared mode at least
 *	  (hence atomic), and dropped without a lock.
 *	  The same holds of a staged block and its own pins. Its bytes are written
 *	  before it is linked, and never change; its pages may be exchanged for
 *	  others, of another form of the block, where they might be freed.
 * A6 Inbox entries that accounting has taken over (StreamSlot.taken) are linked
 *	  and given back by it alone, without a lock. What a transaction wrote into
 *	  its entry is read by accounting when the transaction has ended for a
 *	  snapshot; taking the snapshot orders the two.
 */
#ifndef AION_AREA_INTERNAL_H
#define AION_AREA_INTERNAL_H

#include "postgres.h"
#include "access/transam.h"
#include "port/atomics.h"
#include "storage/itemptr.h"
#include "storage/lwlock.h"
#include "storage/s_lock.h"
#include "storage/spin.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "store/area.h"
#include "store/codec.h"
#include "time/eventtime.h"

typedef uint64 AreaPtr;			/* byte offset in the area; 0 is no place */

#define AREA_PAGE_SIZE		8192
#define AREA_STREAM_LOCKS	32
#define AREA_NONE			(-1)	/* no index */

/* The events of one journal tuple. Followed by the packed events, MAXALIGNed each. */
typedef struct Chunk
{
	AreaPtr		next;			/* in the bucket, in order of arrival */
	AreaPtr		inbox_next;		/* of the same transaction and stream */
	FullTransactionId xmin;		/* (sub)transaction that wrote it */
	FullTransactionId top;		/* its top-level transaction */
	FullTransactionId xmax;		/* transaction that moved its events out; or invalid */
	EventTime	first;			/* least and greatest event time */
	EventTime	last;
	CommandId	cmin;
	uint32		flush;			/* see journal_flush_number(); identifies it in its transaction */
	int32		nevents;
	uint32		length;			/* of the packed events, in bytes */
	Oid			file;			/* the journal's relfilenode, */
	ItemPointerData tid;		/* in which the tuple is here: see journal_tid() */
	bool		accounted;		/* committed and accounted for: no need to ask pg_xact */
	bool		set_aside;		/* xmax is a scheduler's pass that set events aside */
} Chunk;

#define CHUNK_EVENTS(chunk)	((char *) (chunk) + MAXALIGN(sizeof(Chunk)))

/*
 * The latest transactions that moved events out of chunks which were freed
 * since, one for each kind of mover. There is one process of a kind at a time,
 * so whoever sees its latest transaction sees all its earlier ones; of
 * different kinds that cannot be said.
 */
typedef struct FreedBy
{
	FullTransactionId destage;	/* destage, fold, purge */
	FullTransactionId set_aside;
} FreedBy;

typedef struct PageHeaderArea
{
	int32		next;			/* next page of the bucket, or of the free list */
	int32		prev;			/* previous page of the bucket */
	uint16		free;			/* offset of the first free byte in the page */
	uint16		live;			/* chunks not freed yet */
} PageHeaderArea;

typedef struct MBucket
{
	int64		number;
	int32		slot;			/* AREA_NONE: entry is free */
	int32		hash_next;
	int32		next;			/* in the slot's list; or in the free list */
	int32		prev;
	AreaPtr		first_chunk;
	AreaPtr		last_chunk;
	AreaPtr		swept_to;		/* last chunk that the sweep under way has kept; 0: none */
	int32		first_page;		/* of chunks */
	int32		open_page;		/* where the next chunk is tried */
	int32		npages;			/* of chunks */
	int32		first_staged;	/* staged blocks, in no order */
	int32		staged_pages;	/* of these */
	TimestampTz staged_at;		/* when the latest of these was copied */
	bool		expected;		/* an execution that is foreseen will read what is destaged until it begins */
	int32		nevents;
	uint32		marks;			/* how often chunks were marked, as moved out or rolled back, */
	uint32		swept_marks;	/* and after how many of these all such chunks were freed */
	pg_atomic_uint32 pins;		/* scans that are on it (A5) */
	FreedBy		freed_by;
	int64		moved;			/* events destaged and freed since the bucket was last empty */
	TimestampTz filled;			/* when a chunk was first added after that */
	TimestampTz changed;		/* when a chunk was last added */
} MBucket;

/* A copy of a p-bucket block's bytes, in pages of its own: see staged.c. */
typedef struct StagedBlock
{
	int32		next;			/* in the bucket's list, or in the free list */
	int32		first_page;
	int32		npages;
	uint32		length;			/* bytes of the block */
	int64		id;				/* of the block */
	BlockColumns columns;		/* that the bytes have */
	uint32		wants;			/* how many readers are still to come; under A1 */
	uint32		anonymous;		/* of these, whoever they may be: staged ahead */
	pg_atomic_uint32 pins;		/* those that are reading (A5) */
} StagedBlock;

/* What one transaction has put into one stream and accounting has not seen. */
typedef struct InboxXact
{
	int32		next;			/* in a list of the slot, or in the free list */
	Oid			file;			/* the journal's relfilenode, for the blocks below */
	FullTransactionId top;
	AreaPtr		first_chunk;
	AreaPtr		last_chunk;
	uint64		bytes;			/* of the area that it holds */
	BlockNumber first_block;	/* range of journal blocks that hold tuples */
	BlockNumber last_block;		/* of it without a chunk; Invalid: none */
} InboxXact;

typedef struct StreamSlot
{
	Oid			database;		/* InvalidOid: slot is free */
	Oid			journal;
	FullTransactionId creator;	/* transaction that made the slot: its journal may be uncommitted */
	int32		first_bucket;
	int32		first_inbox;	/* entries that are new since accounting last took them over */
	int32		last_inbox;
	int32		taken;			/* those that it has (A6) */

	/*
	 * Latest transaction that has written to the stream without an inbox
	 * entry. Until all up to it have ended and are accounted for, a pass goes
	 * through the whole journal.
	 */
	FullTransactionId overflow;

	/*
	 * The same of earlier lives of shared memory. These write no more (one in
	 * progress is a prepared one), so a single pass finds all there is to find.
	 */
	FullTransactionId inherited;

	/* Of buckets whose entry was given back since; a new entry begins with it. */
	FreedBy		freed_by;

	/*
	 * A snapshot that sees transaction clean_since finds nothing in the journal
	 * that has no chunk. Invalid: unknown. journal_writes counts the writes that
	 * made it invalid, so that a fold can tell whether it missed one.
	 */
	FullTransactionId clean_since;
	FullTransactionId clean_pending;	/* the same, once this transaction is known to have committed */
	uint64		journal_writes;
	FullTransactionId journal_writer;	/* latest transaction that wrote such a tuple */

	pg_atomic_uint64 read_columns;	/* BlockColumns that executions have asked for; 0: none has yet */
} StreamSlot;

typedef struct AreaHeader
{
	uint64		generation;		/* drawn at each start of shared memory; odd, hence never 0 */
	slock_t		mutex;			/* A3 */
	int32		free_page;
	int32		nfree_pages;
	int32		free_inbox;
	int32		free_bucket;
	int32		nfree_buckets;
	int32		free_staged;
	bool		slots_exhausted;	/* a stream once got no slot; under the slots lock */
	/* constant after start */
	int32		nslots;
	int32		ninbox;
	int32		nbuckets;
	int32		nstaged;
	int32		nhash;			/* power of two */
	int32		npages;
} AreaHeader;

/* area.c */
extern AreaHeader *area;
extern StreamSlot *area_slots;
extern InboxXact *area_inbox;
extern MBucket *area_buckets;
extern StagedBlock *area_staged;
extern int32 *area_hash;
extern char *area_pages;

#define AREA_DEREF(ptr)		((void *) ((char *) area + (ptr)))
#define AREA_PTR(p)			((AreaPtr) ((char *) (p) - (char *) area))
#define AREA_PAGE(n)		((PageHeaderArea *) (area_pages + (Size) (n) * AREA_PAGE_SIZE))
#define AREA_PAGE_DATA(n)	((char *) AREA_PAGE(n) + MAXALIGN(sizeof(PageHeaderArea)))
#define AREA_PAGE_ROOM		(AREA_PAGE_SIZE - MAXALIGN(sizeof(PageHeaderArea)))
#define AREA_PAGE_OF(chunk)	((int32) (((char *) (chunk) - area_pages) / AREA_PAGE_SIZE))

extern LWLock *area_stream_lock(const StreamSlot *slot);
extern LWLock *area_slots_lock(void);
extern int32 area_alloc_page(void);
extern void area_free_page(int32 page);
extern int32 area_alloc_pages(int32 n);
extern void area_free_pages(int32 first);
extern int32 area_pages_for(uint32 length);
extern void area_write_pages(int32 first, const char *data, uint32 length);
extern void area_read_pages(int32 first, char *data, uint32 length);
extern bool area_leaves_free(int32 n, double share);
extern int32 area_alloc_inbox(void);
extern void area_free_inbox(int32 inbox);
extern int32 area_alloc_bucket(void);
extern void area_free_bucket(int32 bucket);
extern bool area_short_of_buckets(void);
extern int32 area_alloc_staged(void);
extern void area_free_staged(int32 staged);
extern FullTransactionId area_full_xid(TransactionId xid);

#endif							/* AION_AREA_INTERNAL_H */
