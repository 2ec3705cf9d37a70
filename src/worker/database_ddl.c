/*
 * database_ddl.c
 *	  Statements that need a database without anyone connected to it, and the
 *	  creation of the extension in one.
 *
 * DROP DATABASE, ALTER DATABASE RENAME and SET TABLESPACE, and CREATE DATABASE
 * with a TEMPLATE are refused by the server while workers are connected. So the database is
 * barred first, if the user may run the statement; its workers leave, none
 * is started; when the transaction has ended, either way, the bar is lifted.
 * The bar is in shared memory: a crash lifts it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "worker/control.h"
#include "worker/database_ddl.h"
#include "worker/worker.h"

#define LEAVE_PATIENCE (10 * USECS_PER_SEC)

static ProcessUtility_hook_type next_process_utility = NULL;

/* To be done when the transaction ends. */
static List *barred_databases = NIL;	/* in TopMemoryContext */
static bool poke_at_commit = false;

static void
at_transaction_end(XactEvent event, void *arg)
{
	ListCell   *lc;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			foreach(lc, barred_databases)
				control_unbar(lfirst_oid(lc));
			if (poke_at_commit && event != XACT_EVENT_ABORT)
				control_poke(MyDatabaseId, true);
			list_free(barred_databases);
			barred_databases = NIL;
			poke_at_commit = false;
			break;
		default:
			break;
	}
}

/* The string value of an option, NULL if it is not given. */
static char *
find_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return NULL;
}

/* Name of the database that the statement needs for itself; NULL: none. */
static char *
needed_database(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return castNode(DropdbStmt, statement)->dbname;
		case T_RenameStmt:
			if (castNode(RenameStmt, statement)->renameType == OBJECT_DATABASE)
				return castNode(RenameStmt, statement)->subname;
			return NULL;
		case T_AlterDatabaseStmt:
			if (find_option(castNode(AlterDatabaseStmt, statement)->options, "tablespace") != NULL)
				return castNode(AlterDatabaseStmt, statement)->dbname;
			return NULL;
		case T_CreatedbStmt:
			return find_option(castNode(CreatedbStmt, statement)->options, "template");
		default:
			return NULL;
	}
}

/* True if the current user has the rights of the database's owner. */
static bool
owns_database(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		owns;

	if (!HeapTupleIsValid(tuple))
		return false;
	owns = has_privs_of_role(GetUserId(), ((Form_pg_database) GETSTRUCT(tuple))->datdba);
	ReleaseSysCache(tuple);
	return owns;
}

/*
 * Bars the database until the end of the transaction and waits for its workers
 * to go, for so long; if some stay the server's own check has the word.
 */
static void
clear_database(Oid database)
{
	TimestampTz start = GetCurrentTimestamp();
	MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

	barred_databases = lappend_oid(barred_databases, database);
	MemoryContextSwitchTo(caller);
	control_bar(database);
	while (worker_terminate(database) > 0 &&
		   GetCurrentTimestamp() - start < LEAVE_PATIENCE)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 20, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
database_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
						 ProcessUtilityContext context, ParamListInfo params,
						 QueryEnvironment *environment, DestReceiver *dest,
						 QueryCompletion *completion)
{
	char	   *name = needed_database(pstmt->utilityStmt);

	/* In a transaction block all but a renaming are refused anyway, in a read-only one, as on a standby, all are. */
	if (name != NULL && control_available() && !XactReadOnly &&
		(IsA(pstmt->utilityStmt, RenameStmt) ||
		 !IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL)))
	{
		Oid			database = get_database_oid(name, true);

		if (OidIsValid(database) && database != MyDatabaseId && owns_database(database) &&
			!list_member_oid(barred_databases, database))
			clear_database(database);
	}

	if (next_process_utility != NULL)
		next_process_utility(pstmt, query, read_only_tree, context, params,
							 environment, dest, completion);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params,
								environment, dest, completion);
}

void
database_ddl_init(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = database_process_utility;
	RegisterXactCallback(at_transaction_end, NULL);
}

/*
 * Errors out if schema "aion", which CREATE EXTENSION takes if it is there already, is an ordinary user's. He could rename
 * it and put another in its place, whose tables workers would write to, and fire triggers on, as superuser.
 */
static void
check_schema_owner(void)
{
	HeapTuple	tuple = SearchSysCache1(NAMESPACENAME, CStringGetDatum("aion"));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "there is no schema \"aion\"");
	owner = ((Form_pg_namespace) GETSTRUCT(tuple))->nspowner;
	ReleaseSysCache(tuple);
	if (owner != GetUserId() && !superuser_arg(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("schema \"aion\" belongs to role \"%s\"", GetUserNameFromId(owner, false)),
				 errdetail("Its owner could change what aion's workers trust."),
				 errhint("Drop it, rename it, or give it to a superuser.")));
}

PG_FUNCTION_INFO_V1(aion_start_workers);

/*
 * aion.start_workers(): the last thing that the extension's script does. The launcher is to look at this database once
 * the transaction has committed.
 */
Datum
aion_start_workers(PG_FUNCTION_ARGS)
{
	check_schema_owner();
	poke_at_commit = control_available();
	PG_RETURN_VOID();
}
