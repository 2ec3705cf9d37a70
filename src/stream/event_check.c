/*
 * event_check.c
 *	  Packed events, checked against the constraints that their stream has now.
 *
 * For events that come from somewhere else than an INSERT, and that may be older than a
 * constraint. The errors are those of an INSERT. Expressions are executed as the stream's
 * owner, in a user's session: no worker does this.
 *
 * Domains are part of it: an event is as it was packed, and reading checks no domain.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "stream/registry.h"
#include "stream/stream.h"
#include "stream/unpack.h"

/* A column of a domain, or with domains in it. */
typedef struct DomainColumn
{
	AttrNumber	attnum;
	FmgrInfo	output;
	FmgrInfo	input;
	Oid			ioparam;
	int32		typmod;
} DomainColumn;

struct EventCheck
{
	EState	   *estate;
	ResultRelInfo *rel_info;
	EventReader *reader;
	List	   *domains;		/* DomainColumn */
	List	   *ancestors;		/* partitioned tables that are locked for the check alone, by OID */
	StreamOwnerSave save;
};

static List *
domain_columns(TupleDesc desc)
{
	List	   *result = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		DomainColumn *column;
		Oid			function;
		bool		is_varlena;

		if (att->attisdropped || attribute_is_virtual(att) || !type_holds_domain(att->atttypid))
			continue;
		column = palloc(sizeof(DomainColumn));
		column->attnum = att->attnum;
		column->typmod = att->atttypmod;
		getTypeOutputInfo(att->atttypid, &function, &is_varlena);
		fmgr_info(function, &column->output);
		getTypeInputInfo(att->atttypid, &function, &column->ioparam);
		fmgr_info(function, &column->input);
		result = lappend(result, column);
	}
	return result;
}

/* Input functions check domains at any depth, and domains of a null. */
static void
check_domains(List *columns, TupleTableSlot *row)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		DomainColumn *column = lfirst(lc);
		bool		isnull;
		Datum		value = slot_getattr(row, column->attnum, &isnull);

		if (!isnull || !column->input.fn_strict)
			(void) InputFunctionCall(&column->input,
									 isnull ? NULL : OutputFunctionCall(&column->output, value),
									 column->ioparam, column->typmod);
	}
}

/* In this transaction, in the mode in which the server locks them to make a partition constraint. */
static bool
is_locked(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return LockHeldByMe(&tag, AccessShareLock, false);
}

static List *
unlocked_ancestors(Oid partition)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, get_partition_ancestors(partition))
		if (!is_locked(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	return result;
}

/* So that nobody waits for them who has the stream locked: the scheduler would wait for him, and the caller for it. */
static void
unlock_ancestors(List *ancestors)
{
	ListCell   *lc;

	foreach(lc, ancestors)
		while (is_locked(lfirst_oid(lc)))
			UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
}

EventCheck *
event_check_begin(Relation rel, const StreamInfo *info)
{
	EventCheck *check = palloc(sizeof(EventCheck));

	check->estate = CreateExecutorState();
	check->rel_info = makeNode(ResultRelInfo);
	InitResultRelInfo(check->rel_info, rel, 0, NULL, 0);
	check->reader = event_reader_create(info, RelationGetDescr(rel));
	check->domains = domain_columns(RelationGetDescr(rel));
	check->ancestors = rel->rd_rel->relispartition ? unlocked_ancestors(info->relid) : NIL;
	stream_become_owner(info->relid, &check->save);
	return check;
}

void
event_check(EventCheck *check, const Event *event)
{
	Relation	rel = check->rel_info->ri_RelationDesc;
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(check->estate));
	TupleTableSlot *row = event_reader_row(check->reader, event);

	row->tts_tableOid = RelationGetRelid(rel);
	check_domains(check->domains, row);
	MemoryContextSwitchTo(old);
	if (rel->rd_att->constr)
		ExecConstraints(check->rel_info, row, check->estate);
	if (rel->rd_rel->relispartition)
		ExecPartitionCheck(check->rel_info, row, check->estate, true);
	ResetPerTupleExprContext(check->estate);
}

void
event_check_end(EventCheck *check)
{
	stream_become_self(&check->save);
	event_reader_free(check->reader);
	FreeExecutorState(check->estate);
	list_free_deep(check->domains);
	unlock_ancestors(check->ancestors);
	list_free(check->ancestors);
	pfree(check);
}

static uint64
hash_string(const char *string, uint64 hash)
{
	return hash_combine64(hash, hash_any_extended((const unsigned char *) string, strlen(string), 0));
}

/* A partition's bounds, as text. */
static uint64
hash_bounds(Oid partition, uint64 hash)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(partition));
	bool		isnull;
	Datum		bounds;

	if (!HeapTupleIsValid(tuple))
		return hash;
	bounds = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	if (!isnull)
		hash = hash_string(TextDatumGetCString(bounds), hash);
	ReleaseSysCache(tuple);
	return hash;
}

/*
 * What the partition constraint is made from: which partition of which table at each level, a
 * partitioned table's key being there for good. For a default partition its siblings say it.
 * Read from the catalogs without a lock on any of these tables, for which the scheduler would
 * wait behind whoever waits for the caller. None is needed: bounds that get narrower take a
 * lock on the partition itself that the caller's excludes.
 */
static uint64
hash_partition(Oid partition, uint64 hash)
{
	ListCell   *lc;

	foreach(lc, get_partition_ancestors(partition))
	{
		Oid			parent = lfirst_oid(lc);

		hash = hash_combine64(hash, parent);
		if (get_default_partition_oid(parent) == partition)
		{
			ListCell   *child;

			foreach(child, find_inheritance_children(parent, NoLock))
				hash = hash_bounds(lfirst_oid(child), hash);
		}
		else
			hash = hash_bounds(partition, hash);
		partition = parent;
	}
	return hash;
}

/* The caller has the stream locked. */
uint64
stream_constraints_hash(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	uint64		hash = desc->natts;

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped && attribute_is_not_null(desc, i))
			hash = hash_combine64(hash, i);
	for (int i = 0; desc->constr && i < desc->constr->num_check; i++)
	{
		hash = hash_string(desc->constr->check[i].ccname, hash);
		hash = hash_string(desc->constr->check[i].ccbin, hash);
		hash = hash_combine64(hash, check_is_enforced(&desc->constr->check[i]));
	}
	if (rel->rd_rel->relispartition)
		hash = hash_partition(RelationGetRelid(rel), hash);
	return hash;
}
