/*
 * query_check.c
 *	  Which queries a continuous view may have.
 *
 * A query is checked in two steps.  First as written: exactly one SELECT, with
 * names for its columns that can stand in a table beside the window's.  Then
 * as it will run, "SELECT * FROM definition" with all views in it expanded:
 * exactly one stream, nothing that ends with the session, and nothing that could
 * make a later firing give another answer for the same events.  A function's body
 * is not looked into: what it is declared to be is believed, as the server does.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "rewrite/rewriteSupport.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/regproc.h"

#include "stream/stream.h"
#include "view/view_internal.h"

#define USE_WINDOW_END_HINT "Use aion.window_start() and aion.window_end(), the bounds of the window being computed."

/* Turns a position in an error into one in the view's query: the statement that was sent is another one. */
static void
query_error_callback(void *arg)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery((const char *) arg);
	}
}

/* Has errors report positions in "query" until view_pop_query_context(). */
void
view_push_query_context(ErrorContextCallback *callback, const char *query)
{
	callback->callback = query_error_callback;
	callback->arg = unconstify(char *, query);
	callback->previous = error_context_stack;
	error_context_stack = callback;
}

void
view_pop_query_context(const ErrorContextCallback *callback)
{
	error_context_stack = callback->previous;
}

/* The query's parse tree; errors out unless it is exactly one SELECT (or VALUES, TABLE, UNION ...). */
RawStmt *
view_parse_query(const char *query)
{
	ErrorContextCallback callback;
	List	   *statements;
	RawStmt    *raw;

	view_push_query_context(&callback, query);
	statements = raw_parser(query, RAW_PARSE_DEFAULT);
	view_pop_query_context(&callback);

	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("the query of a continuous view must be one SELECT statement"),
				 errdetail("It consists of %d statements.", list_length(statements))));
	raw = linitial_node(RawStmt, statements);
	if (!IsA(raw->stmt, SelectStmt))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("the query of a continuous view must be one SELECT statement")));
	if (((SelectStmt *) raw->stmt)->intoClause != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("the query of a continuous view must not contain SELECT INTO")));
	return raw;
}

/* Refuses a column that can't stand in a results table; "previous" are those before it. */
static void
check_column(const TargetEntry *column, List *previous)
{
	ListCell   *lc;

	if (column->resname == NULL || strcmp(column->resname, "?column?") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_DEFINITION),
				 errmsg("column %d of the query has no name", column->resno),
				 errhint("Give it one with AS.")));
	if (strcmp(column->resname, "window_start") == 0 ||
		strcmp(column->resname, "window_end") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_RESERVED_NAME),
				 errmsg("column name \"%s\" is reserved in a continuous view", column->resname),
				 errdetail("The view has columns of that name for the bounds of the window."),
				 errhint("Give the query's column another name with AS.")));
	foreach(lc, previous)
	{
		TargetEntry *other = lfirst_node(TargetEntry, lc);

		if (!other->resjunk && strcmp(other->resname, column->resname) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("column \"%s\" stands more than once in the query", column->resname),
					 errhint("Give one of them another name with AS.")));
	}
}

/*
 * Analyses the query with the caller's rights and search_path, and checks what
 * can be checked of it as written. The locks taken stay until the end of the transaction.
 */
void
view_check_columns(RawStmt *raw, const char *query)
{
	ErrorContextCallback callback;
	List	   *previous = NIL;
	ListCell   *lc;
	Query	   *analyzed;

	view_push_query_context(&callback, query);
	analyzed = parse_analyze_fixedparams(copyObject(raw), query, NULL, 0, NULL);
	view_pop_query_context(&callback);

	if (analyzed->commandType != CMD_SELECT || analyzed->utilityStmt != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("the query of a continuous view must be one SELECT statement")));
	if (analyzed->hasModifyingCTE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the query of a continuous view must not change data"),
				 errdetail("It contains a data-modifying statement in WITH.")));
	if (isQueryUsingTempRelation(analyzed))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("a continuous view must not use temporary tables or views")));
	foreach(lc, analyzed->targetList)
	{
		TargetEntry *column = lfirst_node(TargetEntry, lc);

		if (column->resjunk)
			continue;
		check_column(column, previous);
		previous = lappend(previous, column);
	}
}

/* True if the object is in a schema of temporary objects. */
static bool
is_temporary(Oid class_id, Oid object)
{
	AttrNumber	att = is_objectclass_supported(class_id) ? get_object_attnum_namespace(class_id) : InvalidAttrNumber;
	bool		isnull = true;
	Datum		schema = (Datum) 0;
	Relation	catalog;
	HeapTuple	tuple;

	if (att == InvalidAttrNumber)
		return false;
	catalog = table_open(class_id, AccessShareLock);
	tuple = get_catalog_object_by_oid(catalog, get_object_attnum_oid(class_id), object);
	if (HeapTupleIsValid(tuple))
		schema = heap_getattr(tuple, att, RelationGetDescr(catalog), &isnull);
	table_close(catalog, AccessShareLock);
	return !isnull && isAnyTempNamespace(DatumGetObjectId(schema));
}

/*
 * Refuses a definition that uses a temporary function, type or operator: the server would drop the view at
 * the end of the session. Temporary tables were refused before.
 */
void
view_check_persistent(Oid definition)
{
	Relation	pg_depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RewriteRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_rewrite_oid(definition, ViewSelectRuleName, false)));
	scan = systable_beginscan(pg_depend, DependDependerIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend row = (Form_pg_depend) GETSTRUCT(tuple);
		ObjectAddress used;

		if (!is_temporary(row->refclassid, row->refobjid))
			continue;
		ObjectAddressSet(used, row->refclassid, row->refobjid);
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("a continuous view must not use temporary objects"),
				 errdetail("Its query uses %s.", getObjectDescription(&used, false))));
	}
	systable_endscan(scan);
	table_close(pg_depend, AccessShareLock);
}

/* Does what the function returns depend on when the query runs? Some of these are declared stable. */
static bool
is_clock_function(Oid function)
{
	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_CLOCK_TIMESTAMP:
		case F_TIMEOFDAY:
		case F_AGE_TIMESTAMP:	/* with one argument: age of it today */
		case F_AGE_TIMESTAMPTZ:
		case F_AGE_XID:
		case F_TXID_CURRENT:
		case F_TXID_CURRENT_IF_ASSIGNED:
		case F_TXID_CURRENT_SNAPSHOT:
		case F_PG_CURRENT_XACT_ID:
		case F_PG_CURRENT_XACT_ID_IF_ASSIGNED:
		case F_PG_CURRENT_SNAPSHOT:
			return true;
		default:
			return false;
	}
}

/* For check_functions_in_node(): errors out on a function that a view must not use. */
static bool
check_function(Oid function, void *context)
{
	bool		is_clock = is_clock_function(function);

	if (is_clock || func_volatile(function) == PROVOLATILE_VOLATILE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 is_clock ?
				 errmsg("function %s must not be used in a continuous view",
						format_procedure(function)) :
				 errmsg("volatile function %s must not be used in a continuous view",
						format_procedure(function)),
				 errdetail("A window may be computed again when late events arrive, and must then give the same answer for the same events."),
				 is_clock ? errhint(USE_WINDOW_END_HINT) :
				 function >= FirstNormalObjectId ?
				 errhint("Declare it STABLE or IMMUTABLE if it is; functions are volatile unless they say otherwise.") : 0));
	return false;
}

/* Errors out on CURRENT_TIMESTAMP and the like; the other "SQL value functions" name the view's owner. */
static void
check_value_function(const SQLValueFunction *function)
{
	switch (function->op)
	{
		case SVFOP_CURRENT_DATE:
		case SVFOP_CURRENT_TIME:
		case SVFOP_CURRENT_TIME_N:
		case SVFOP_CURRENT_TIMESTAMP:
		case SVFOP_CURRENT_TIMESTAMP_N:
		case SVFOP_LOCALTIME:
		case SVFOP_LOCALTIME_N:
		case SVFOP_LOCALTIMESTAMP:
		case SVFOP_LOCALTIMESTAMP_N:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("the current date or time must not be used in a continuous view"),
					 errdetail("A window may be computed again when late events arrive, and must then give the same answer for the same events."),
					 errhint(USE_WINDOW_END_HINT)));
			break;
		default:
			break;
	}
}

/* Streams of the query found so far. */
typedef struct QueryWalk
{
	List	   *streams;		/* OIDs, each once */
} QueryWalk;

/* Refuses a table of which a stream is a partition or child: it would be read without regard to the window. */
static void
check_children(Oid parent)
{
	ListCell   *lc;

	if (!has_subclass(parent))
		return;
	foreach(lc, find_all_inheritors(parent, AccessShareLock, NULL))
	{
		if (stream_is_stream(lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("stream \"%s\" cannot be used through its parent \"%s\"",
							get_rel_name(lfirst_oid(lc)), get_rel_name(parent)),
					 errhint("Name the stream itself in FROM.")));
	}
}

static void
check_range_table_entry(const RangeTblEntry *rte, QueryWalk *walk)
{
	if (rte->rtekind != RTE_RELATION || rte->relkind == RELKIND_VIEW)
		return;
	if (rte->tablesample != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("TABLESAMPLE must not be used in a continuous view")));
	if (stream_is_stream(rte->relid))
		walk->streams = list_append_unique_oid(walk->streams, rte->relid);
	else if (rte->inh)
		check_children(rte->relid);
}

static bool
check_walker(Node *node, QueryWalk *walk)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		check_range_table_entry((RangeTblEntry *) node, walk);
		return false;
	}
	if (IsA(node, Query))
	{
		if (((Query *) node)->rowMarks != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("FOR UPDATE and FOR SHARE must not be used in a continuous view")));
		return query_tree_walker((Query *) node, check_walker, walk, QTW_EXAMINE_RTES_BEFORE);
	}
	if (IsA(node, SQLValueFunction))
		check_value_function((SQLValueFunction *) node);
	if (IsA(node, NextValueExpr))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("sequences must not be used in a continuous view")));
	(void) check_functions_in_node(node, check_function, NULL);
	return expression_tree_walker(node, check_walker, walk);
}

/*
 * Checks the query of the definition as it will run, and returns its stream.
 * "definition_name" is the quoted, qualified name of the definition.
 */
Oid
view_check_definition(const char *definition_name, const char *view_name)
{
	char	   *sql = psprintf("SELECT * FROM %s", definition_name);
	RawStmt    *raw = linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT));
	QueryWalk	walk = {NIL};
	ListCell   *lc;

	foreach(lc, pg_analyze_and_rewrite_fixedparams(raw, sql, NULL, 0, NULL))
		(void) check_walker(lfirst(lc), &walk);

	if (walk.streams == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("the query of continuous view \"%s\" reads no stream", view_name),
				 errhint("Name a foreign table of server \"aion\" in FROM; the results of other continuous views are no stream.")));
	if (list_length(walk.streams) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("several streams in one query are not supported in this version"),
				 errdetail("The query of continuous view \"%s\" reads \"%s\" and \"%s\".", view_name,
						   get_rel_name(linitial_oid(walk.streams)),
						   get_rel_name(lsecond_oid(walk.streams)))));
	return linitial_oid(walk.streams);
}
