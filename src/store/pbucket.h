/*
 * pbucket.h
 *	  p-buckets: blocks of compressed events in an extension table.
 *
 * Columns of aion_data.blocks_N, all NOT NULL: bucket bigint, id bigint,
 * first_time bigint, last_time bigint, nevents int, raw_bytes int, data bytea (stored out of line,
 * not compressed again); an index on bucket. A row with nevents = 0 is the
 * mark that tells an unlogged table that was emptied by a crash.
 *
 * The id is a random number: it names the block's bytes wherever the row goes (VACUUM FULL, a
 * dump restored into a table that has blocks of its own), which its TID or xmin would not.
 */
#ifndef AION_PBUCKET_H
#define AION_PBUCKET_H

#include "postgres.h"
#include "access/genam.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"
#include "utils/rel.h"

#include "store/codec.h"
#include "store/storage.h"

typedef struct PBucketRow
{
	int64		bucket;
	int64		id;
	int64		first;
	int64		last;
	int32		nevents;
	int32		raw_bytes;
	/* the varlena follows */
} PBucketRow;

#define PBUCKET_ROW(tuple)	((const PBucketRow *) GETSTRUCT(tuple))

/* Bucket number of the mark. */
#define PBUCKET_MARK		PG_INT64_MIN

/* A block with fewer events than this is merged when its bucket has several. */
#define PBUCKET_SMALL_BLOCK 2048
#define PBUCKET_BLOCK_EVENTS 8192
#define PBUCKET_BLOCK_BYTES (1024 * 1024)

/* The columns of a block that a reader of "columns" needs (numbers of stored attributes; NULL: all). */
extern BlockColumns pbucket_columns(const StreamStorage *storage, const Bitmapset *columns);

/*
 * The bytes of a block that has at least *columns, in the row or palloc'd. If other columns take most of it, those
 * are not read at all; *columns is set to what the block has.
 */
extern char *pbucket_bytes(HeapTuple row, BlockColumns *columns, Size *length);

/* Writing: events of one bucket at a time. */
typedef struct PBucketWriter PBucketWriter;

extern PBucketWriter *pbucket_writer_begin(const StreamStorage *storage);
extern void pbucket_writer_add(PBucketWriter *writer, int64 bucket, char *events, uint32 length);
extern int64 pbucket_writer_end(PBucketWriter *writer); /* events written */

/* Deletes a block, within an active snapshot; what it took can be used again soon after the commit (room.h). */
extern void pbucket_delete(Relation blocks, HeapTuple row);

/*
 * To be called before a bucket's events are added: takes its small blocks out
 * and adds their events again, if there are more than a few.
 */
extern void pbucket_writer_merge(PBucketWriter *writer, int64 bucket);

/*
 * The index on bucket of a table of blocks, locked by the caller; InvalidOid: it has none. REINDEX
 * CONCURRENTLY puts another one in its place, and keeps it as long as that lock.
 */
extern Oid pbucket_index(Relation blocks);

/* Scanning rows of buckets low..high inclusive (never the mark), in order of bucket. */
typedef struct PBucketScan
{
	Relation	blocks;
	SysScanDesc scan;
} PBucketScan;

extern void pbucket_scan_begin(PBucketScan *scan, const StreamStorage *storage, Snapshot snapshot,
							   int64 low, int64 high);
extern HeapTuple pbucket_scan_next(PBucketScan *scan);
extern void pbucket_scan_end(PBucketScan *scan);

/* Reading the events of one row; only "columns" (numbers of stored attributes; NULL: all). */
typedef struct PBucketReader PBucketReader;

extern PBucketReader *pbucket_reader_create(const StreamStorage *storage, Bitmapset *columns);
extern void pbucket_reader_open(PBucketReader *reader, HeapTuple row);

/* The same from bytes that are in the reader's context, which is empty when it is asked for. */
extern MemoryContext pbucket_reader_context(PBucketReader *reader);
extern void pbucket_reader_open_bytes(PBucketReader *reader, const char *bytes, Size length);
extern bool pbucket_reader_next(PBucketReader *reader, TupleTableSlot *slot);	/* virtual slot */
extern EventTime *pbucket_reader_times(PBucketReader *reader, int *n);	/* of the open row */
extern void pbucket_reader_close(PBucketReader *reader);

#endif							/* AION_PBUCKET_H */
