/*
 * inspect.c
 *	  The parts of the inspection views that SQL can't reach: buckets, and
 *	  events that were set aside.
 *
 * The views call these with the rights of whoever looks, so each checks itself
 * what he may see. Journals and p-buckets are read under the statement's snapshot,
 * shared memory as it is at the moment; a bucket that is being destaged
 * may thus show in both. Blocks are counted by their rows, not read.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "store/journal.h"
#include "store/mbucket.h"
#include "store/pbucket.h"
#include "stream/extension.h"
#include "stream/stream.h"
#include "time/bucket.h"
#include "worker/access.h"
#include "worker/control.h"
#include "worker/set_aside.h"

#define BUCKET_COLUMNS 10
#define BLOCKS_DATA 7			/* attribute number of data in a table of blocks */

typedef struct BucketSums
{
	int64		number;			/* hash key */
	int64		memory_events;
	int64		memory_bytes;
	int64		staged_bytes;	/* of these */
	int64		disk_events;
	int64		disk_bytes;
	int64		journal_events;
} BucketSums;

static BucketSums *
find_sums(HTAB *buckets, int64 number)
{
	bool		found;
	BucketSums *sums = hash_search(buckets, &number, HASH_ENTER, &found);

	if (!found)
	{
		memset(sums, 0, sizeof(*sums));
		sums->number = number;
	}
	return sums;
}

static void
sum_memory(HTAB *buckets, Oid journal)
{
	int			n = 0;
	MBucketInfo *infos = control_available() ? mbucket_list(journal, &n) : NULL;

	for (int i = 0; i < n; i++)
	{
		BucketSums *sums;

		if (infos[i].events == 0 && infos[i].staged_bytes == 0)
			continue;
		sums = find_sums(buckets, infos[i].number);
		sums->memory_events = infos[i].events;
		sums->memory_bytes = infos[i].bytes + infos[i].staged_bytes;
		sums->staged_bytes = infos[i].staged_bytes;
	}
}

static void
sum_journal(HTAB *buckets, Oid journal)
{
	Relation	rel = try_table_open(journal, AccessShareLock);
	TableScanDesc scan;
	HeapTuple	tuple;

	if (rel == NULL)
		return;
	scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const JournalRow *row = JOURNAL_ROW(tuple);

		CHECK_FOR_INTERRUPTS();
		if (row->nevents > 0)
			find_sums(buckets, row->bucket)->journal_events += row->nevents;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
sum_blocks(HTAB *buckets, Oid blocks)
{
	Relation	rel = try_table_open(blocks, AccessShareLock);
	TableScanDesc scan;
	HeapTuple	tuple;

	if (rel == NULL)
		return;
	scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const PBucketRow *row = PBUCKET_ROW(tuple);
		BucketSums *sums;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (row->bucket == PBUCKET_MARK)
			continue;
		sums = find_sums(buckets, row->bucket);
		sums->disk_events += row->nevents;
		sums->disk_bytes += toast_datum_size(heap_getattr(tuple, BLOCKS_DATA,
														  RelationGetDescr(rel), &isnull));
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* By what the scheduler has published, and whether copies of blocks are in memory. */
static const char *
bucket_state(const StreamFacts *facts, EventTime end, bool staged)
{
	if (facts != NULL && end <= facts->purge_before)
		return "purging";
	if (staged)
		return "staged";
	return facts != NULL && end <= facts->past_before ? "past" : "filling";
}

static void
put_stream_buckets(ReturnSetInfo *rsinfo, const StreamStorage *storage)
{
	HASHCTL		ctl;
	HTAB	   *buckets;
	HASH_SEQ_STATUS seq;
	BucketSums *sums;
	StreamFacts facts;
	bool		has_facts;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(int64);
	ctl.entrysize = sizeof(BucketSums);
	ctl.hcxt = CurrentMemoryContext;
	buckets = hash_create("aion bucket sums", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	sum_memory(buckets, storage->journal);
	sum_journal(buckets, storage->journal);
	sum_blocks(buckets, storage->blocks);
	has_facts = control_available() && control_facts(storage->stream, &facts) &&
		facts.journal == storage->journal;

	hash_seq_init(&seq, buckets);
	while ((sums = hash_seq_search(&seq)) != NULL)
	{
		EventTime	end = bucket_end(storage->bucket_width, sums->number);
		Datum		values[BUCKET_COLUMNS];
		bool		nulls[BUCKET_COLUMNS] = {false};

		values[0] = ObjectIdGetDatum(storage->stream);
		values[1] = TimestampTzGetDatum(bucket_start(storage->bucket_width, sums->number));
		values[2] = TimestampTzGetDatum(Min(end, EVENT_TIME_MAX));
		values[3] = CStringGetTextDatum(bucket_state(has_facts ? &facts : NULL, end,
													 sums->staged_bytes > 0));
		values[4] = Int64GetDatum(sums->memory_events);
		values[5] = Int64GetDatum(sums->memory_bytes);
		values[6] = Int64GetDatum(sums->disk_events);
		values[7] = Int64GetDatum(sums->disk_bytes);
		values[8] = Int64GetDatum(sums->journal_events);
		values[9] = Int64GetDatum(sums->staged_bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	hash_destroy(buckets);
}

PG_FUNCTION_INFO_V1(aion_bucket_list);

/* aion.bucket_list(): buckets of all streams on which the user has any privilege, but those being changed by another */
Datum
aion_bucket_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, stream_list())
	{
		Oid			stream = lfirst_oid(lc);
		const StreamInfo *info;
		StreamStorage storage;

		/* who changes a stream keeps nobody from looking at the others */
		if (!access_visible(stream) || !ConditionalLockRelationOid(stream, AccessShareLock))
			continue;
		info = stream_is_stream(stream) ? stream_lookup(stream, true) : NULL;
		if (info == NULL || !info->has_storage || stream_out_of_reach(info))
		{
			UnlockRelationOid(stream, AccessShareLock);
			continue;
		}
		storage = info->storage;
		put_stream_buckets(rsinfo, &storage);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(aion_set_aside_event);

/* aion.set_aside_event(id bigint): the event as jsonb; NULL unless the user may SELECT from its stream */
Datum
aion_set_aside_event(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	SetAsideTable *table = set_aside_open(GetActiveSnapshot());
	Oid			stream = InvalidOid;
	Event	   *event = NULL;
	const StreamInfo *info;

	if (table != NULL)
	{
		stream = set_aside_stream(table, id);
		if (OidIsValid(stream))
			event = set_aside_event(table, id);
		set_aside_close(table);
	}
	if (event == NULL)
		PG_RETURN_NULL();
	LockRelationOid(stream, AccessShareLock);
	info = stream_is_stream(stream) ? stream_lookup(stream, true) : NULL;
	if (info == NULL || pg_class_aclcheck(stream, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		PG_RETURN_NULL();
	return stream_event_to_jsonb(info, event);
}
