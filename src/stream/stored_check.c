/*
 * stored_check.c
 *	  New constraints on a stream, checked against its stored events.
 *
 * The server trusts constraints of foreign tables and checks nothing. The FDW
 * checks events as they come; when NOT NULL or CHECK is added, or the stream
 * becomes a partition, the ones that are there already are checked by a query
 * over the stream, with its owner's rights in a restricted context. Errors are
 * worded as the server words them for its own tables.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_constraint.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "stream/extension.h"
#include "stream/registry.h"

/*
 * True if an event of the stream satisfies "condition", an SQL expression in which
 * all names are qualified but those of pg_catalog. Sees what is committed now, and
 * the transaction's own events.
 */
static bool
any_event(Relation rel, const char *condition)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												  RelationGetRelationName(rel));
	char	   *sql = psprintf("SELECT 1 FROM ONLY %s WHERE %s LIMIT 1", name, condition);
	StreamOwnerSave save;
	SPIPlanPtr	plan;
	bool		found;

	stream_become_owner(RelationGetRelid(rel), &save);
	/* Operators are written without a schema where they are the server's, and must be. */
	extension_pin("search_path", "pg_catalog, pg_temp");
	/* Or the planner would believe the constraint that is to be checked. */
	extension_pin("constraint_exclusion", "off");

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = SPI_prepare(sql, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\"", sql);
	if (SPI_execute_snapshot(plan, NULL, NULL, GetLatestSnapshot(), InvalidSnapshot,
							 true, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_snapshot failed for \"%s\"", sql);
	found = SPI_processed > 0;
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");

	stream_become_self(&save);

	return found;
}

/* Begins a scan of the constraints of relid. */
static SysScanDesc
constraint_scan(Relation catalog, Oid relid)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	return systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
}

/* OIDs of the relation's valid CHECK constraints. */
List *
stored_check_constraints(Oid relid)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan = constraint_scan(catalog, relid);
	List	   *result = NIL;
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

		if (form->contype == CONSTRAINT_CHECK && form->convalidated)
			result = lappend_oid(result, form->oid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);

	return result;
}

/* SQL text of a CHECK constraint's expression, all names qualified. */
static char *
check_expression(Relation catalog, HeapTuple tuple, Oid relid)
{
	bool		isnull;
	Datum		bin = heap_getattr(tuple, Anum_pg_constraint_conbin,
								   RelationGetDescr(catalog), &isnull);
	int			level;
	Datum		result;

	if (isnull)
		elog(ERROR, "check constraint of relation %u has no expression", relid);
	level = extension_pin_output();
	result = DirectFunctionCall2(pg_get_expr, bin, ObjectIdGetDatum(relid));
	AtEOXact_GUC(false, level);

	return TextDatumGetCString(result);
}

/* Checks stored events against the valid CHECK constraints that are not in "before". */
static void
check_constraints(Relation rel, List *before)
{
	Oid			relid = RelationGetRelid(rel);
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan = constraint_scan(catalog, relid);
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

		if (form->contype != CONSTRAINT_CHECK || !form->convalidated ||
			list_member_oid(before, form->oid))
			continue;
		if (any_event(rel, psprintf("NOT (%s)", check_expression(catalog, tuple, relid))))
			ereport(ERROR,
					(errcode(ERRCODE_CHECK_VIOLATION),
					 errmsg("check constraint \"%s\" of relation \"%s\" is violated by some row",
							NameStr(form->conname), RelationGetRelationName(rel)),
					 errtableconstraint(rel, NameStr(form->conname))));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * Checks stored events of "rel" against what is new: valid NOT NULL that
 * "before" doesn't have, and CHECK constraints not in "constraints_before".
 * The caller holds AccessExclusiveLock on it, or another that keeps writers out.
 */
void
stored_check_new(Relation rel, TupleDesc before, List *constraints_before)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || !attribute_is_not_null(desc, i) ||
			(i < before->natts && attribute_is_not_null(before, i)))
			continue;
		/* Not IS NULL: later versions' planner takes the column's word for it. */
		if (any_event(rel, psprintf("pg_catalog.num_nulls(%s) > 0",
									quote_identifier(NameStr(att->attname)))))
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("column \"%s\" of relation \"%s\" contains null values",
							NameStr(att->attname), RelationGetRelationName(rel)),
					 errtablecol(rel, att->attnum)));
	}
	check_constraints(rel, constraints_before);
}

/* Checks stored events of a stream against its partition constraint, if it has one. */
void
stored_check_partition(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	Expr	   *qual = get_partition_qual_relid(relid);

	if (qual != NULL)
	{
		int			level = extension_pin_output();
		char	   *text = deparse_expression((Node *) qual,
											  deparse_context_for(RelationGetRelationName(rel), relid),
											  false, false);

		AtEOXact_GUC(false, level);
		if (any_event(rel, psprintf("NOT (%s)", text)))
			ereport(ERROR,
					(errcode(ERRCODE_CHECK_VIOLATION),
					 errmsg("partition constraint of relation \"%s\" is violated by some row",
							RelationGetRelationName(rel)),
					 errtable(rel)));
	}
	table_close(rel, NoLock);
}
