/*
 * compat.h
 *	  Differences between PostgreSQL's major versions: the only file that tests
 *	  the version. Callers use the newest form.
 */
#ifndef AION_COMPAT_H
#define AION_COMPAT_H

#include "postgres.h"
#include "access/tupdesc.h"
#include "commands/vacuum.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "optimizer/pathnode.h"
#include "storage/lock.h"
#include "utils/guc_tables.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"				/* 16: split off postgres.h */
#endif
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"	/* 18: two headers were split off */
#include "commands/explain_state.h"
#else
#include "commands/explain.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "aion supports PostgreSQL 15 to 18"
#endif

/* 18: tuple descriptors keep a compact copy of each attribute, to be made anew after a change. */
#if PG_VERSION_NUM < 180000
#define populate_compact_attribute(desc, i) ((void) 0)
#endif

/* 18: NOT NULL can be declared without a check of the rows that are there. True if they have been checked. */
static inline bool
attribute_is_not_null(TupleDesc desc, int i)
{
#if PG_VERSION_NUM >= 180000
	return TupleDescCompactAttr(desc, i)->attnullability == ATTNULLABLE_VALID;
#else
	return TupleDescAttr(desc, i)->attnotnull;
#endif
}

/* 18: CHECK can be declared without being checked. */
#if PG_VERSION_NUM >= 180000
#define check_is_enforced(check) ((check)->ccenforced)
#else
#define check_is_enforced(check) ((void) (check), true)
#endif

/* 17: the expression of a generated column can be changed. */
#if PG_VERSION_NUM < 170000
#define AT_SetExpression ((AlterTableType) -1)
#endif

/* 16: vacuum() takes the memory context that outlives its transactions. */
#if PG_VERSION_NUM < 160000
#define vacuum(relations, params, strategy, context, top_level) \
	vacuum(relations, params, strategy, top_level)
#endif

/* 16: whether VACUUM does the table itself is an option. */
#if PG_VERSION_NUM < 160000
#define VACOPT_PROCESS_MAIN 0
#endif

/* 16: indexes that only summarize can be told apart. */
#if PG_VERSION_NUM < 160000
#define ExecInsertIndexTuples(rel_info, slot, estate, update, no_dup_error, conflict, arbiters, summarizing) \
	ExecInsertIndexTuples(rel_info, slot, estate, update, no_dup_error, conflict, arbiters)
#endif

/* 16: finds a parameter by its name. */
#if PG_VERSION_NUM < 160000
static inline struct config_generic *
find_option(const char *name, bool create_placeholders, bool skip_errors, int elevel)
{
	struct config_generic **all = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}
#endif

/* 18: eager freezing has a parameter of VACUUM; what is zero otherwise stands for "none". */
static inline void
compat_vacuum_params_init(VacuumParams *params)
{
	memset(params, 0, sizeof(*params));
#if PG_VERSION_NUM >= 180000
	params->max_eager_freeze_failure_rate = vacuum_max_eager_freeze_failure_rate;
#endif
}

/* 17: stronger modes can be asked for, too. */
#if PG_VERSION_NUM < 170000
#define LockHeldByMe(tag, mode, orstronger) LockHeldByMe(tag, mode)
#endif

/* 17: intervals can be infinite. */
#if PG_VERSION_NUM < 170000
#define INTERVAL_NOT_FINITE(interval) ((void) (interval), false)
#endif

/* 18: what an index scan does can be counted. */
#if PG_VERSION_NUM < 180000
#define index_beginscan(heap, index, snapshot, instrument, nkeys, norderbys) \
	index_beginscan(heap, index, snapshot, nkeys, norderbys)
#endif

/* 17, 18: paths of foreign scans have clauses that a pushed-down join uses up, and a count of disabled nodes. */
#if PG_VERSION_NUM < 170000
#define create_foreignscan_path(root, rel, target, rows, disabled_nodes, startup_cost, total_cost, \
								pathkeys, required_outer, outerpath, restrictinfo, private) \
	create_foreignscan_path(root, rel, target, rows, startup_cost, total_cost, \
							pathkeys, required_outer, outerpath, private)
#elif PG_VERSION_NUM < 180000
#define create_foreignscan_path(root, rel, target, rows, disabled_nodes, startup_cost, total_cost, \
								pathkeys, required_outer, outerpath, restrictinfo, private) \
	create_foreignscan_path(root, rel, target, rows, startup_cost, total_cost, \
							pathkeys, required_outer, outerpath, restrictinfo, private)
#endif

/* 16: counts of a table's rows have other names. */
#if PG_VERSION_NUM < 160000
#define live_tuples n_live_tuples
#define dead_tuples n_dead_tuples
#endif

/* 16: one function checks the ownership of any kind of object. */
#if PG_VERSION_NUM < 160000
#define relation_ownercheck(relid, role) pg_class_ownercheck(relid, role)
#define schema_ownercheck(schema, role) pg_namespace_ownercheck(schema, role)
#else
#define relation_ownercheck(relid, role) object_ownercheck(RelationRelationId, relid, role)
#define schema_ownercheck(schema, role) object_ownercheck(NamespaceRelationId, schema, role)
#endif

/* 16: the permissions that a query needs are in a list of their own, no longer in its range table. */
#if PG_VERSION_NUM < 160000
typedef RangeTblEntry RTEPermissionInfo;
#define CHECK_PERMS_PARAMETERS List *permissions, bool report
#define CHECK_PERMS_ARGUMENTS permissions, report
#else
#define CHECK_PERMS_PARAMETERS List *range_table, List *permissions, bool report
#define CHECK_PERMS_ARGUMENTS range_table, permissions, report
#endif

#endif							/* AION_COMPAT_H */

