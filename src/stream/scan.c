/*
 * scan.c
 *	  Executing a SELECT from a stream: the wrapper's scan callbacks.
 *
 * A scan reads under the query's snapshot. If this process is firing a window
 * of the stream, it yields exactly that window's accounted events.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "stream/callbacks.h"
#include "stream/ingest.h"
#include "stream/scan.h"
#include "stream/unpack.h"

typedef struct StreamScan
{
	StreamInfo	info;			/* a copy: the cache's entry can go while a cursor is open */
	List	   *bounds;			/* ExprStates of bounding expressions ... */
	List	   *strategies;		/* ... and their btree strategies */
	Bitmapset  *columns;		/* stored columns looked at; NULL: all */
	RowConverter *converter;	/* NULL: stored tuples are rows */
	TupleTableSlot *row;
	EventScan  *scan;			/* begun at the first fetch */
	MemoryContext scan_context;
	MemoryContext row_context;
	EventScanStats stats;		/* of earlier scans of this node */
} StreamScan;

/*
 * The stored columns that correspond to the attribute numbers in the plan; NULL
 * if the whole row is wanted. *wanted: the attribute numbers, or NULL.
 */
static Bitmapset *
stored_columns(const StreamInfo *info, List *attnums, Bitmapset **wanted)
{
	Bitmapset  *columns = NULL;
	ListCell   *lc;

	*wanted = NULL;
	foreach(lc, attnums)
	{
		if (lfirst_int(lc) == InvalidAttrNumber)
		{
			*wanted = NULL;
			return NULL;
		}
		if (lfirst_int(lc) > 0)
			*wanted = bms_add_member(*wanted, lfirst_int(lc));
	}
	/* even if nothing is wanted, the set must not be empty: that means all */
	columns = bms_make_singleton(info->storage.time_att);
	*wanted = bms_add_member(*wanted, info->time_attnum);
	for (int i = 0; i < info->storage.stored->natts; i++)
		if (bms_is_member(info->columns[i].attnum, *wanted))
			columns = bms_add_member(columns, i + 1);
	return columns;
}

void
stream_begin_foreign_scan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	Relation	rel = node->ss.ss_currentRelation;
	const StreamInfo *info = stream_lookup(RelationGetRelid(rel), false);
	StreamScan *state = palloc0(sizeof(StreamScan));
	Bitmapset  *wanted;

	state->info = *info;
	state->info.storage.stored = CreateTupleDescCopyConstr(info->storage.stored);
	state->bounds = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	state->strategies = list_nth(plan->fdw_private, SCAN_PRIVATE_STRATEGIES);
	state->columns = stored_columns(info, list_nth(plan->fdw_private, SCAN_PRIVATE_COLUMNS),
									&wanted);
	if (!info->identity)
	{
		state->converter = row_converter_create(info, RelationGetDescr(rel), wanted);
		state->row = ExecInitExtraTupleSlot(node->ss.ps.state,
											CreateTupleDescCopy(RelationGetDescr(rel)),
											&TTSOpsVirtual);
	}
	state->scan_context = AllocSetContextCreate(CurrentMemoryContext, "aion scan",
												ALLOCSET_DEFAULT_SIZES);
	state->row_context = AllocSetContextCreate(CurrentMemoryContext, "aion scan row",
											   ALLOCSET_DEFAULT_SIZES);
	node->fdw_state = state;
}

/* Narrows [*low, *high) by what the bounding expressions say now. A NULL leaves nothing. */
static void
apply_bounds(ForeignScanState *node, StreamScan *state, EventTime *low, EventTime *high)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	ListCell   *bound;
	ListCell   *strategy;

	forboth(bound, state->bounds, strategy, state->strategies)
	{
		bool		isnull;
		EventTime	value = DatumGetTimestamp(ExecEvalExpr((ExprState *) lfirst(bound),
														   econtext, &isnull));
		EventTime	next = value < PG_INT64_MAX ? value + 1 : value;

		if (isnull)
		{
			*high = *low;
			return;
		}
		switch (lfirst_int(strategy))
		{
			case BTLessStrategyNumber:
				*high = Min(*high, value);
				break;
			case BTLessEqualStrategyNumber:
				*high = Min(*high, next);
				break;
			case BTEqualStrategyNumber:
				*low = Max(*low, value);
				*high = Min(*high, next);
				break;
			case BTGreaterEqualStrategyNumber:
				*low = Max(*low, value);
				break;
			case BTGreaterStrategyNumber:
				*low = Max(*low, next);
				break;
		}
	}
}

static void
begin_scan(ForeignScanState *node, StreamScan *state)
{
	EState	   *estate = node->ss.ps.state;
	EventTime	low = EVENT_TIME_MIN;
	EventTime	high = EVENT_TIME_END;
	StreamWindow *window = stream_window_get(state->info.relid);
	MemoryContext old;

	if (!state->info.has_storage)
		stream_check_home(&state->info);
	apply_bounds(node, state, &low, &high);
	if (window)
	{
		low = Max(low, window->start);
		high = Min(high, window->end);
	}
	old = MemoryContextSwitchTo(state->scan_context);
	state->scan = event_scan_begin(&state->info.storage, estate->es_snapshot, low, high,
								   window != NULL, state->columns, window ? window->set : NULL,
								   window ? window->stage_ahead : 0);
	/* a firing sees what is accounted for, which nothing of this transaction is */
	if (window == NULL && state->info.has_storage)
		ingest_add_to_scan(state->info.storage.journal, estate->es_snapshot, state->scan);
	MemoryContextSwitchTo(old);
}

TupleTableSlot *
stream_iterate_foreign_scan(ForeignScanState *node)
{
	StreamScan *state = node->fdw_state;
	TupleTableSlot *slot;

	if (state->scan == NULL)
		begin_scan(node, state);
	slot = event_scan_next(state->scan);
	if (slot == NULL)
		return ExecClearTuple(node->ss.ss_ScanTupleSlot);
	if (state->converter)
	{
		MemoryContext old;

		MemoryContextReset(state->row_context);
		old = MemoryContextSwitchTo(state->row_context);
		row_from_stored(state->converter, slot, state->row);
		MemoryContextSwitchTo(old);
		slot = state->row;
	}
	return slot;
}

/* Adds the statistics of the scan at hand, if there is one, to those of earlier ones. */
static void
add_stats(EventScanStats *total, const StreamScan *state)
{
	const EventScanStats *stats;

	if (state->scan == NULL)
		return;
	stats = event_scan_stats(state->scan);
	total->memory_buckets += stats->memory_buckets;
	total->disk_buckets += stats->disk_buckets;
	total->memory_events += stats->memory_events;
	total->journal_events += stats->journal_events;
	total->disk_events += stats->disk_events;
	total->staged_blocks += stats->staged_blocks;
	total->read_blocks += stats->read_blocks;
	total->waited_us += stats->waited_us;
}

static void
end_scan(StreamScan *state)
{
	StreamWindow *window = stream_window_get(state->info.relid);

	if (state->scan == NULL)
		return;
	add_stats(&state->stats, state);
	if (window)
		window->waited_us += event_scan_stats(state->scan)->waited_us;
	event_scan_end(state->scan);
	state->scan = NULL;
	MemoryContextReset(state->scan_context);
}

/* The bounds may depend on parameters that have changed, so everything begins anew. */
void
stream_rescan_foreign_scan(ForeignScanState *node)
{
	end_scan(node->fdw_state);
}

void
stream_end_foreign_scan(ForeignScanState *node)
{
	if (node->fdw_state)
		end_scan(node->fdw_state);
}

void
stream_explain_foreign_scan(ForeignScanState *node, struct ExplainState *es)
{
	StreamScan *state = node->fdw_state;
	EventScanStats stats;

	if (!es->analyze || state == NULL)
		return;
	stats = state->stats;
	add_stats(&stats, state);
	ExplainPropertyInteger("Buckets from Memory", NULL, stats.memory_buckets, es);
	ExplainPropertyInteger("Buckets from Disk", NULL, stats.disk_buckets, es);
	ExplainPropertyInteger("Events from Memory", NULL, stats.memory_events, es);
	ExplainPropertyInteger("Events from Journal", NULL, stats.journal_events, es);
	ExplainPropertyInteger("Events from Disk", NULL, stats.disk_events, es);
	ExplainPropertyInteger("Blocks Staged", NULL, stats.staged_blocks, es);
	ExplainPropertyInteger("Blocks Read", NULL, stats.read_blocks, es);
	if (es->timing)
		ExplainPropertyFloat("Staging Wait Time", "ms", stats.waited_us / 1000.0, 3, es);
}
