/*
 * relations.c
 *	  The relations of a continuous view, and how they depend on each other.
 *
 *	  definition   plain view in aion_results that holds the query
 *	  results	   table in aion_results: hidden key, window_start, window_end,
 *				   the query's columns; an index on window_start
 *	  view		   what the user named: a plain view over results without the key
 *
 * All are made by ordinary utility statements in the caller's transaction,
 * with the caller's rights, and belong to the caller.  Definition and results
 * depend internally on the view, which depends on the stream: DROP VIEW takes
 * all of them, and none of them goes without it.  aion finds them by OID.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "stream/extension.h"
#include "view/view_internal.h"

/* While this process makes a relation of a view. */
static bool making = false;

bool
view_relations_being_made(void)
{
	return making;
}

/* Quoted, qualified name of a relation. Palloc'd. */
char *
view_qualified_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		elog(ERROR, "cache lookup failed for relation %u", relid);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

/*
 * A condition on the bounds of windows in a table of results, $1 the start and $2 the end, under the names that
 * these columns have now: the table's owner may rename them. Both bounds are compared, because at the ends of the
 * range of timestamps one of them alone may be another window's. Palloc'd.
 */
char *
view_results_condition(Oid results, const char *operator)
{
	return psprintf("%s %s $1 AND %s %s $2",
					quote_identifier(get_attname(results, RESULTS_START_ATTNUM, false)), operator,
					quote_identifier(get_attname(results, RESULTS_END_ATTNUM, false)), operator);
}

/* True if a relation or type of that name exists in the schema. */
static bool
name_taken(const char *name, Oid schema)
{
	return OidIsValid(get_relname_relid(name, schema)) ||
		SearchSysCacheExists2(TYPENAMENSP, CStringGetDatum(name), ObjectIdGetDatum(schema));
}

/*
 * True if a name is free in the schema, and then nobody else's call returns true for it
 * until the end of the transaction: a lock on no object, beside the schema, that only aion takes. Two
 * names may share one, then their makers go one after the other, too.
 */
bool
view_claim_name(const char *name, Oid schema)
{
	/* the low bit sets it apart from the schema itself */
	uint16		number = hash_bytes((const unsigned char *) name, strlen(name)) | 1;

	if (name_taken(name, schema))
		return false;
	LockDatabaseObject(NamespaceRelationId, schema, number, ExclusiveLock);
	return !name_taken(name, schema);
}

/*
 * A name for a relation of a view in RESULTS_SCHEMA, claimed: "name", or else the first free
 * of name_1, name_2, ...; not the view's own, should that be made there. Palloc'd.
 */
static char *
free_name(const char *name, Oid view_schema, const char *view_name)
{
	Oid			schema = get_namespace_oid(RESULTS_SCHEMA, false);
	char	   *candidate = makeObjectName(name, NULL, NULL);

	for (int i = 1;
		 (schema == view_schema && strcmp(candidate, view_name) == 0) ||
		 !view_claim_name(candidate, schema); i++)
	{
		char		suffix[16];

		snprintf(suffix, sizeof(suffix), "%d", i);
		candidate = makeObjectName(name, NULL, suffix);
	}
	return candidate;
}

/* Runs a utility statement as if it had been sent, then makes its effects visible. */
static void
run_utility(Node *statement, const char *query, int location, int length)
{
	PlannedStmt *wrapper = makeNode(PlannedStmt);

	wrapper->commandType = CMD_UTILITY;
	wrapper->canSetTag = false;
	wrapper->utilityStmt = statement;
	wrapper->stmt_location = location;
	wrapper->stmt_len = length;
	making = true;
	PG_TRY();
	{
		ProcessUtility(wrapper, query, false, PROCESS_UTILITY_QUERY,
					   NULL, NULL, None_Receiver, NULL);
	}
	PG_FINALLY();
	{
		making = false;
	}
	PG_END_TRY();
	CommandCounterIncrement();
}

/* Runs a utility statement given as text, in which all names are qualified. */
static void
run_sql(const char *sql)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	making = true;
	PG_TRY();
	{
		if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "unexpected result of \"%s\"", sql);
	}
	PG_FINALLY();
	{
		making = false;
	}
	PG_END_TRY();
	SPI_finish();
	CommandCounterIncrement();
}

/* Creates the definition, with the caller's search_path; returns its OID. */
Oid
view_make_definition(Oid view_schema, const char *view_name, RawStmt *raw, const char *query)
{
	char	   *name = free_name(psprintf("def_%s", view_name), view_schema, view_name);
	ViewStmt   *statement = makeNode(ViewStmt);
	ErrorContextCallback callback;

	statement->view = makeRangeVar(pstrdup(RESULTS_SCHEMA), name, -1);
	statement->query = raw->stmt;
	statement->withCheckOption = NO_CHECK_OPTION;
	view_push_query_context(&callback, query);
	run_utility((Node *) statement, query, raw->stmt_location, raw->stmt_len);
	view_pop_query_context(&callback);
	return get_relname_relid(name, get_namespace_oid(RESULTS_SCHEMA, false));
}

/* A name for the hidden key that no column of the query has. Palloc'd. */
static char *
key_name(TupleDesc columns)
{
	char	   *name = pstrdup("aion_row");

	for (int i = 0; i < columns->natts; i++)
	{
		if (strcmp(NameStr(TupleDescAttr(columns, i)->attname), name) == 0)
		{
			name = psprintf("aion_row_%d", i + 1);
			i = -1;
		}
	}
	return name;
}

/* The statement that creates the results table; the query's columns are added as nodes, so no type is written as text. */
static CreateStmt *
results_statement(const char *name, TupleDesc columns, Oid time_type)
{
	const char *time_name = time_type == TIMESTAMPOID ? "timestamp" : "timestamptz";
	char	   *sql = psprintf("CREATE TABLE %s ("
							   "%s bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
							   "window_start pg_catalog.%s NOT NULL, "
							   "window_end pg_catalog.%s NOT NULL)",
							   quote_qualified_identifier(RESULTS_SCHEMA, name),
							   quote_identifier(key_name(columns)), time_name, time_name);
	RawStmt    *raw = linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT));
	CreateStmt *statement = castNode(CreateStmt, raw->stmt);

	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(columns, i);

		statement->tableElts = lappend(statement->tableElts,
									   makeColumnDef(NameStr(att->attname), att->atttypid,
													 att->atttypmod, att->attcollation));
	}
	return statement;
}

/* Creates the results table of a definition, with its index; returns its OID. */
Oid
view_make_results(Oid view_schema, const char *view_name, Oid definition, Oid time_type)
{
	char	   *name = free_name(view_name, view_schema, view_name);
	Relation	rel = table_open(definition, AccessShareLock);
	CreateStmt *statement = results_statement(name, RelationGetDescr(rel), time_type);
	Oid			results;

	table_close(rel, NoLock);
	run_utility((Node *) statement, "", -1, 0);
	results = get_relname_relid(name, get_namespace_oid(RESULTS_SCHEMA, false));
	run_sql(psprintf("CREATE INDEX ON %s (window_start)", view_qualified_name(results)));
	return results;
}

/* Creates the user's view over a results table; returns its OID. */
Oid
view_make_view(Oid schema, const char *view_name, Oid results)
{
	Relation	rel = table_open(results, AccessShareLock);
	TupleDesc	columns = RelationGetDescr(rel);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE VIEW %s AS SELECT ",
					 quote_qualified_identifier(get_namespace_name(schema), view_name));
	for (int i = RESULTS_START_ATTNUM - 1; i < columns->natts; i++)
		appendStringInfo(&sql, "%s%s", i >= RESULTS_START_ATTNUM ? ", " : "",
						 quote_identifier(NameStr(TupleDescAttr(columns, i)->attname)));
	/* The join with one row of no columns costs nothing, and keeps the view from being updatable. */
	appendStringInfo(&sql, " FROM %s CROSS JOIN (SELECT) AS one", view_qualified_name(results));
	table_close(rel, NoLock);
	run_sql(sql.data);
	return get_relname_relid(view_name, schema);
}

/*
 * Has the results table as a whole depend on what its columns depend on. By
 * themselves only the columns would, and DROP TYPE ... CASCADE would come from
 * a column to the view over it and from there to the table, drop that, and then
 * fail to find the column.
 */
static void
record_column_dependencies(const ObjectAddress *results)
{
	Relation	rel = table_open(results->objectId, AccessShareLock);
	List	   *types = NIL;
	List	   *collations = NIL;
	ObjectAddress used;
	ListCell   *lc;

	for (int i = RESULTS_FIRST_ATTNUM - 1; i < RelationGetDescr(rel)->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		types = list_append_unique_oid(types, att->atttypid);
		if (OidIsValid(att->attcollation))
			collations = list_append_unique_oid(collations, att->attcollation);
	}
	table_close(rel, NoLock);

	foreach(lc, types)
	{
		ObjectAddressSet(used, TypeRelationId, lfirst_oid(lc));
		extension_record_dependency(results, &used, DEPENDENCY_NORMAL);
	}
	foreach(lc, collations)
	{
		ObjectAddressSet(used, CollationRelationId, lfirst_oid(lc));
		extension_record_dependency(results, &used, DEPENDENCY_NORMAL);
	}
}

/* True if that was done: all is recorded in one transaction, so one tells. */
bool
view_has_dependencies(const ViewRelations *relations)
{
	ObjectAddress view;
	ObjectAddress definition;

	ObjectAddressSet(view, RelationRelationId, relations->view);
	ObjectAddressSet(definition, RelationRelationId, relations->definition);
	return extension_depends(&definition, &view, DEPENDENCY_INTERNAL);
}

/* Records what the file comment says about dependencies, as far as it is not recorded. */
void
view_record_dependencies(const ViewRelations *relations, Oid stream)
{
	ObjectAddress view;
	ObjectAddress definition;
	ObjectAddress results;
	ObjectAddress source;

	ObjectAddressSet(view, RelationRelationId, relations->view);
	ObjectAddressSet(definition, RelationRelationId, relations->definition);
	ObjectAddressSet(results, RelationRelationId, relations->results);
	ObjectAddressSet(source, RelationRelationId, stream);
	extension_record_dependency(&view, &source, DEPENDENCY_NORMAL);
	extension_record_dependency(&definition, &view, DEPENDENCY_INTERNAL);
	extension_record_dependency(&results, &view, DEPENDENCY_INTERNAL);
	record_column_dependencies(&results);
}
