/*
 * callbacks.h
 *	  The foreign-data wrapper's callbacks, for handler.c. What each has to do is
 *	  described in the server's documentation, "Foreign Data Wrapper Callback Routines".
 */
#ifndef AION_CALLBACKS_H
#define AION_CALLBACKS_H

#include "postgres.h"
#include "foreign/fdwapi.h"
#include "nodes/pathnodes.h"

/* modify.c */
extern int	stream_is_foreign_rel_updatable(Relation rel);
extern List *stream_plan_foreign_modify(PlannerInfo *root, ModifyTable *plan,
										Index result_relation, int subplan_index);
extern void stream_begin_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rel_info,
										List *fdw_private, int subplan_index, int eflags);
extern void stream_begin_foreign_insert(ModifyTableState *mtstate, ResultRelInfo *rel_info);
extern TupleTableSlot *stream_exec_foreign_insert(EState *estate, ResultRelInfo *rel_info,
												  TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern void stream_end_foreign_modify(EState *estate, ResultRelInfo *rel_info);

/* scan_plan.c */
extern void stream_get_foreign_rel_size(PlannerInfo *root, RelOptInfo *baserel, Oid relid);
extern void stream_get_foreign_paths(PlannerInfo *root, RelOptInfo *baserel, Oid relid);
extern ForeignScan *stream_get_foreign_plan(PlannerInfo *root, RelOptInfo *baserel, Oid relid,
											ForeignPath *best_path, List *tlist,
											List *scan_clauses, Plan *outer_plan);

/* scan.c */
extern void stream_begin_foreign_scan(ForeignScanState *node, int eflags);
extern TupleTableSlot *stream_iterate_foreign_scan(ForeignScanState *node);
extern void stream_rescan_foreign_scan(ForeignScanState *node);
extern void stream_end_foreign_scan(ForeignScanState *node);
extern void stream_explain_foreign_scan(ForeignScanState *node, struct ExplainState *es);

#endif							/* AION_CALLBACKS_H */
