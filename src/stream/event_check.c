/*
 * event_check.c
 *	  Packed events, checked against the constraints that their stream has now.
 *
 * For events that come from somewhere else than an INSERT, and that may be older than a
 * constraint. The errors are those of an INSERT. Expressions are executed as the stream's
 * owner, in a user's session: no worker does this.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "compat.h"
#include "stream/stream.h"
#include "stream/unpack.h"

struct EventCheck
{
	EState	   *estate;
	ResultRelInfo *rel_info;
	EventReader *reader;
	StreamOwnerSave save;
};

EventCheck *
event_check_begin(Relation rel, const StreamInfo *info)
{
	EventCheck *check = palloc(sizeof(EventCheck));

	check->estate = CreateExecutorState();
	check->rel_info = makeNode(ResultRelInfo);
	InitResultRelInfo(check->rel_info, rel, 0, NULL, 0);
	check->reader = event_reader_create(info, RelationGetDescr(rel));
	stream_become_owner(info->relid, &check->save);
	return check;
}

void
event_check(EventCheck *check, const Event *event)
{
	Relation	rel = check->rel_info->ri_RelationDesc;
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(check->estate));
	TupleTableSlot *row = event_reader_row(check->reader, event);

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
	pfree(check);
}

static uint64
hash_string(const char *string, uint64 hash)
{
	return hash_combine64(hash, hash_any_extended((const unsigned char *) string, strlen(string), 0));
}

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
	}
	if (rel->rd_rel->relispartition)
		hash = hash_string(nodeToString(RelationGetPartitionQual(rel)), hash);
	return hash;
}
