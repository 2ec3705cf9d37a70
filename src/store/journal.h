/*
 * journal.h
 *	  The journal of a stream: its events that are not in a p-bucket, durable
 *	  and in order of arrival.
 *
 * A heap without an index, one tuple per run of events of one bucket, one
 * (sub)transaction and one command. Columns (aion_data.journal_N):
 *
 *	  bucket bigint, top xid8		bucket number; inserting top-level transaction
 *	  generation bigint				life of shared memory in which the tuple has a
 *									chunk; 0 = none
 *	  first_time, last_time bigint	least and greatest event time, microseconds since 2000
 *	  command int					command id; the tuple's cmin is what counts, this makes
 *									the events MAXALIGNed
 *	  flush int						flush number, for the same
 *	  nevents int					0: a control entry, "advance the watermark to first_time"
 *	  events bytea					packed events
 *
 * All are NOT NULL and laid out so that C can overlay a struct, and that events
 * in a plain tuple are MAXALIGNed. A tuple fills a page at most, but for an
 * event that alone needs more: that one is TOASTed and never has a chunk.
 */
#ifndef AION_JOURNAL_H
#define AION_JOURNAL_H

#include "postgres.h"
#include "access/htup_details.h"
#include "utils/rel.h"

#include "store/storage.h"

struct StreamSlot;
struct Chunk;

typedef struct JournalRow
{
	int64		bucket;
	FullTransactionId top;
	int64		generation;
	int64		first;
	int64		last;
	int32		command;
	int32		flush;
	int32		nevents;
	/* the varlena follows */
} JournalRow;

#define JOURNAL_NATTS		9
#define JOURNAL_ROW_SIZE	(offsetof(JournalRow, nevents) + sizeof(int32))
#define JOURNAL_ROW(tuple)	((const JournalRow *) GETSTRUCT(tuple))

/* What changes when the journal is rewritten, and its tuples' tids with it. */
#define JOURNAL_FILE(journal) ((journal)->rd_rel->relfilenode)

/* Most bytes of events in a tuple that fits a page: see journal.c. */
#define JOURNAL_RUN_MAX		8080

/* Events of one bucket and command that are to become one tuple. */
typedef struct JournalRun
{
	int64		bucket;
	CommandId	command;
	int32		nevents;
	EventTime	first;
	EventTime	last;
	uint32		length;
	char	   *events;			/* packed, MAXALIGNed */
} JournalRun;

/* A transaction's connection to one stream's journal and memory; zeroed at first. */
typedef struct JournalWriter
{
	struct StreamSlot *slot;
	int32		inbox;
	FullTransactionId top;
	bool		begun;
} JournalWriter;

/*
 * Writes runs to the journal and, where there is room, to memory, under the
 * current (sub)transaction. The caller holds RowExclusiveLock on the journal.
 */
extern void journal_write(Relation journal, JournalWriter *writer, const JournalRun *runs, int nruns);

/* Writes accounted events back that were left of a tuple when others were set aside. */
extern void journal_write_rest(const StreamStorage *storage, Relation journal,
							   FullTransactionId top, const JournalRun *run);

/* The next tuple that this backend writes will have this number: see Chunk.flush. */
extern uint32 journal_flush_number(void);

/*
 * Where the tuple of a committed chunk, not moved out, is in the journal; good as long as the caller's
 * lock on the journal.
 */
extern ItemPointerData journal_tid(Relation journal, struct StreamSlot *slot, const struct Chunk *chunk);

/* The packed events of a tuple, MAXALIGNed: in the tuple, or a palloc'd copy. */
extern char *journal_events(HeapTuple tuple, uint32 *length);

/* Bytes of the tuple in the TOAST table. */
extern Size journal_out_of_line(HeapTuple tuple);

/* True if the tuple has no chunk in this life of shared memory. */
extern bool journal_only(const JournalRow *row);

/* True if this transaction wrote the tuple with flush number "flush_limit" or later. */
extern bool journal_flushed_since(HeapTuple tuple, uint32 flush_limit);

#endif							/* AION_JOURNAL_H */
