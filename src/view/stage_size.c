/*
 * stage_size.c
 *	  How far ahead of itself a firing's scan has p-buckets staged.
 *
 * A query that has to see all of its window before it can do anything (the
 * paper's blocking functions, section 3.4: it sorts, or an aggregate does) gets as
 * much as memory allows, since the first result waits for the last event in any
 * case. One that works on events as they come needs only what it consumes
 * while the next blocks are read: the rest streams through little memory. The plan
 * tells which it is.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "utils/plancache.h"
#include "utils/resowner.h"

#include "view/view_internal.h"

bool		aion_staging = true;

#define STREAMING_AHEAD (8 * 1024 * 1024)
#define BLOCKING_AHEAD	((Size) 1 << 40)	/* the store stops where there is no room */

/* True if an aggregate collects its input before it computes anything. */
static bool
has_collecting_aggregate(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		Aggref	   *aggref = (Aggref *) node;

		if (aggref->aggorder != NIL || aggref->aggdistinct != NIL ||
			aggref->aggkind != AGGKIND_NORMAL)
			return true;
	}
	return expression_tree_walker(node, has_collecting_aggregate, context);
}

static bool plans_block(List *plans);

static bool
plan_blocks(Plan *plan)
{
	if (plan == NULL)
		return false;
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_IncrementalSort:
		case T_WindowAgg:
		case T_Material:
			return true;
		case T_Agg:
			if (has_collecting_aggregate((Node *) plan->targetlist, NULL) ||
				has_collecting_aggregate((Node *) plan->qual, NULL))
				return true;
			break;
		case T_SubqueryScan:
			if (plan_blocks(((SubqueryScan *) plan)->subplan))
				return true;
			break;
		case T_Append:
			if (plans_block(((Append *) plan)->appendplans))
				return true;
			break;
		case T_MergeAppend:
			return true;
		default:
			break;
	}
	return plan_blocks(plan->lefttree) || plan_blocks(plan->righttree);
}

static bool
plans_block(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		if (plan_blocks(lfirst(lc)))
			return true;
	return false;
}

/* Bytes of events to be staged ahead by the scans of a kept plan (StreamWindow.stage_ahead). */
Size
view_stage_ahead(SPIPlanPtr plan)
{
	CachedPlan *cached = SPI_plan_get_cached_plan(plan);
	bool		blocks = false;
	ListCell   *lc;

	if (!aion_staging)
		return 0;
	/* not kept, or more than one statement: anything goes */
	if (cached == NULL)
		return STREAMING_AHEAD;
	foreach(lc, cached->stmt_list)
	{
		PlannedStmt *statement = lfirst_node(PlannedStmt, lc);

		blocks |= plan_blocks(statement->planTree) || plans_block(statement->subplans);
	}
	ReleaseCachedPlan(cached, CurrentResourceOwner);
	return blocks ? BLOCKING_AHEAD : STREAMING_AHEAD;
}
