/*
 * modify.c
 *	  INSERT and COPY into a stream: the wrapper's modify callbacks.
 *
 * The server leaves constraints of a foreign table to the wrapper: NOT NULL,
 * CHECK and, where the row was not routed here by a partitioned parent, the
 * partition's bounds are checked for each row. What passed goes to ingest.c.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "stream/callbacks.h"
#include "stream/ingest.h"
#include "stream/unpack.h"

typedef struct ModifyState
{
	const StreamInfo *info;
	StreamWrites *writes;
	RowConverter *converter;	/* NULL: rows are stored as they are */
	Datum	   *values;			/* by stored column */
	bool	   *isnull;
	int			natts;
	bool		check_constraints;
	bool		check_partition;
	ExpiryCheck *expiry;		/* NULL: nothing is too late */
} ModifyState;

/* INSERT alone; called by the server to decide whether the table can be changed. */
int
stream_is_foreign_rel_updatable(Relation rel)
{
	return 1 << CMD_INSERT;
}

/* Refuses what the planner lets through: ON CONFLICT with an action, and changes. */
List *
stream_plan_foreign_modify(PlannerInfo *root, ModifyTable *plan, Index result_relation,
						   int subplan_index)
{
	if (plan->operation != CMD_INSERT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change or delete events of a stream"),
				 errdetail("Events are immutable: a stream takes INSERT, COPY and TRUNCATE."),
				 errhint("Insert an event that corrects the result instead.")));
	if (plan->onConflictAction == ONCONFLICT_UPDATE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ON CONFLICT DO UPDATE is not supported on a stream"),
				 errdetail("A stream has no unique index that an event could conflict with.")));
	return NIL;
}

/*
 * Sets up the insertion of rows into one stream. Registers the stream at its first
 * insert ever.
 */
static void
begin_insert(EState *estate, ResultRelInfo *rel_info)
{
	Relation	rel = rel_info->ri_RelationDesc;
	const StreamInfo *info = stream_lookup(RelationGetRelid(rel), false);
	ModifyState *state = palloc0(sizeof(ModifyState));
	TupleConstr *constr = rel->rd_att->constr;

	if (!info->has_storage || info->elsewhere)
		info = stream_register(RelationGetRelid(rel), 0);
	state->writes = ingest_writes(info);
	state->info = info;
	state->natts = info->storage.stored->natts;
	state->values = palloc(sizeof(Datum) * Max(state->natts, 1));
	state->isnull = palloc(sizeof(bool) * Max(state->natts, 1));
	if (!info->identity)
		state->converter = row_converter_create(info, RelationGetDescr(rel), NULL);
	state->check_constraints = constr && (constr->has_not_null || constr->num_check > 0);
	/* a BEFORE trigger can take a routed row out of the partition again */
	state->check_partition = rel->rd_rel->relispartition &&
		(rel_info->ri_RootResultRelInfo == NULL ||
		 (rel_info->ri_TrigDesc && rel_info->ri_TrigDesc->trig_insert_before_row));
	state->expiry = expiry_begin(info);
	rel_info->ri_FdwState = state;
}

void
stream_begin_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rel_info,
							List *fdw_private, int subplan_index, int eflags)
{
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		begin_insert(mtstate->ps.state, rel_info);
}

/* COPY, and rows routed from a partitioned table. */
void
stream_begin_foreign_insert(ModifyTableState *mtstate, ResultRelInfo *rel_info)
{
	ModifyTable *plan = castNode(ModifyTable, mtstate->ps.plan);

	if (plan && plan->onConflictAction == ONCONFLICT_UPDATE)
		stream_plan_foreign_modify(NULL, plan, 0, 0);
	begin_insert(mtstate->ps.state, rel_info);
}

TupleTableSlot *
stream_exec_foreign_insert(EState *estate, ResultRelInfo *rel_info, TupleTableSlot *slot,
						   TupleTableSlot *plan_slot)
{
	ModifyState *state = rel_info->ri_FdwState;
	MemoryContext old;

	if (state->check_constraints)
		ExecConstraints(rel_info, slot, estate);
	if (state->check_partition)
		ExecPartitionCheck(rel_info, slot, estate, true);

	/* the server resets it for each row */
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	if (state->converter)
		row_to_stored(state->converter, slot, state->values, state->isnull);
	else
	{
		/* copied, as values that are out of line will be replaced */
		slot_getallattrs(slot);
		memcpy(state->values, slot->tts_values, sizeof(Datum) * state->natts);
		memcpy(state->isnull, slot->tts_isnull, sizeof(bool) * state->natts);
	}
	if (state->expiry && !state->isnull[state->info->storage.time_att - 1])
		expiry_refuse(state->expiry, state->info,
					  DatumGetTimestamp(state->values[state->info->storage.time_att - 1]));
	ingest_add(state->writes, state->info, state->values, state->isnull);
	MemoryContextSwitchTo(old);
	return slot;
}

void
stream_end_foreign_modify(EState *estate, ResultRelInfo *rel_info)
{
	rel_info->ri_FdwState = NULL;
}
