/*
 * index_entries.c
 *	  Entries in the indexes of a stream's tables.
 *
 * aion has one index, on the buckets of blocks. Whoever administers the database can
 * make others, of any kind, also on a journal, to CLUSTER it or to look for
 * something: they are kept as those of any table, since CLUSTER drops what an index lacks.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "compat.h"
#include "store/index_entries.h"

struct IndexEntries
{
	EState	   *estate;
	ResultRelInfo *rel_info;
	TupleTableSlot *slot;
};

IndexEntries *
index_entries_begin(Relation rel)
{
	IndexEntries *entries = palloc(sizeof(IndexEntries));

	entries->estate = CreateExecutorState();
	entries->rel_info = makeNode(ResultRelInfo);
	InitResultRelInfo(entries->rel_info, rel, 0, NULL, 0);
	ExecOpenIndices(entries->rel_info, false);
	entries->slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
	return entries;
}

void
index_entries_add(IndexEntries *entries, HeapTuple tuple)
{
	ExecStoreHeapTuple(tuple, entries->slot, false);
	entries->slot->tts_tableOid = RelationGetRelid(entries->rel_info->ri_RelationDesc);
	(void) ExecInsertIndexTuples(entries->rel_info, entries->slot, entries->estate,
								 false, false, NULL, NIL, false);
	ExecClearTuple(entries->slot);
	ResetPerTupleExprContext(entries->estate);
}

void
index_entries_end(IndexEntries *entries)
{
	ExecDropSingleTupleTableSlot(entries->slot);
	ExecCloseIndices(entries->rel_info);
	FreeExecutorState(entries->estate);
	pfree(entries);
}
