/*
 * scan_plan.c
 *	  Planning a SELECT from a stream.
 *
 * The one thing a stream can leave out is buckets: conditions that compare the
 * event time with something that is constant during the scan become its bounds.
 * They are still checked for each row, so bounds need only be safe. The plan
 * also tells which columns are looked at; the others are not decoded.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "compat.h"
#include "store/event.h"
#include "stream/callbacks.h"
#include "stream/scan.h"
#include "stream/stream.h"

/* Bytes that an event takes on disk: a guess by the width of a row, compressed or not. */
#define BLOCK_COMPRESSION	4.0

/* Pages of a table and its TOAST table. */
static double
table_pages(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	double		pages = RelationGetNumberOfBlocks(rel);

	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation	toast = table_open(rel->rd_rel->reltoastrelid, AccessShareLock);

		pages += RelationGetNumberOfBlocks(toast);
		table_close(toast, AccessShareLock);
	}
	table_close(rel, AccessShareLock);
	return pages;
}

void
stream_get_foreign_rel_size(PlannerInfo *root, RelOptInfo *baserel, Oid relid)
{
	const StreamInfo *info = stream_lookup(relid, false);
	int32		width = get_relation_data_width(relid, NULL);
	double		journal_bytes = 0;
	double		block_bytes = 0;

	/* as the server refuses unlogged tables */
	if (stream_out_of_reach(info))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access stream \"%s\" during recovery", get_rel_name(relid)),
				 errdetail("It is not durable: its events are not logged, so a standby does not have them.")));
	if (info->has_storage)
	{
		journal_bytes = table_pages(info->storage.journal) * BLCKSZ;
		block_bytes = table_pages(info->storage.blocks) * BLCKSZ;
	}
	baserel->tuples = (journal_bytes + block_bytes * BLOCK_COMPRESSION) /
		(MAXALIGN(width) + sizeof(Event));
	baserel->pages = (journal_bytes + block_bytes) / BLCKSZ;
	set_baserel_size_estimates(root, baserel);
}

void
stream_get_foreign_paths(PlannerInfo *root, RelOptInfo *baserel, Oid relid)
{
	Cost		startup = baserel->baserestrictcost.startup;
	Cost		run = seq_page_cost * baserel->pages +
		(cpu_tuple_cost + baserel->baserestrictcost.per_tuple) * baserel->tuples;

	add_path(baserel, (Path *) create_foreignscan_path(root, baserel, NULL, baserel->rows, 0,
													   startup, startup + run, NIL,
													   baserel->lateral_relids, NULL, NIL, NIL));
}

/*
 * If the clause bounds the event time, adds the bounding expression and its
 * btree strategy to the lists.
 */
static void
add_bound(Index relid, AttrNumber time_attnum, Expr *clause, List **exprs, List **strategies)
{
	OpExpr	   *op = (OpExpr *) clause;
	Node	   *left;
	Node	   *right;
	Oid			opno;
	Oid			family;
	int			strategy;

	if (!IsA(clause, OpExpr) || list_length(op->args) != 2)
		return;
	left = linitial(op->args);
	right = lsecond(op->args);
	opno = op->opno;
	if (!(IsA(left, Var) && ((Var *) left)->varno == relid))
	{
		Node	   *swap = left;

		left = right;
		right = swap;
		opno = get_commutator(opno);
	}
	if (!OidIsValid(opno) || !IsA(left, Var) || ((Var *) left)->varno != relid ||
		((Var *) left)->varattno != time_attnum || ((Var *) left)->varlevelsup != 0 ||
		exprType(right) != ((Var *) left)->vartype ||
		contain_var_clause(right) || contain_volatile_functions(right))
		return;
	family = lookup_type_cache(exprType(right), TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	strategy = get_op_opfamily_strategy(opno, family);
	if (strategy == 0)
		return;
	*exprs = lappend(*exprs, right);
	*strategies = lappend_int(*strategies, strategy);
}

ForeignScan *
stream_get_foreign_plan(PlannerInfo *root, RelOptInfo *baserel, Oid relid,
						ForeignPath *best_path, List *tlist, List *scan_clauses, Plan *outer_plan)
{
	const StreamInfo *info = stream_lookup(relid, false);
	List	   *clauses = extract_actual_clauses(scan_clauses, false);
	List	   *exprs = NIL;
	List	   *strategies = NIL;
	List	   *columns = NIL;
	Bitmapset  *attrs = NULL;
	ListCell   *lc;
	int			attr = -1;

	foreach(lc, clauses)
		add_bound(baserel->relid, info->time_attnum, lfirst(lc), &exprs, &strategies);

	pull_varattnos((Node *) baserel->reltarget->exprs, baserel->relid, &attrs);
	pull_varattnos((Node *) clauses, baserel->relid, &attrs);
	while ((attr = bms_next_member(attrs, attr)) >= 0)
		columns = lappend_int(columns, attr + FirstLowInvalidHeapAttributeNumber);

	return make_foreignscan(tlist, clauses, baserel->relid, exprs,
							list_make2(strategies, columns), NIL, NIL, outer_plan);
}
