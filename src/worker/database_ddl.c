/*
 * database_ddl.c
 *	  Statements that need a database without anyone connected to it, and the
 *	  creation of the extension in one.
 *
 * DROP DATABASE, ALTER DATABASE RENAME and SET TABLESPACE, and CREATE DATABASE
 * are refused by the server while workers are connected to the database, for the last the
 * template. So it is barred first, if the user may run the statement; its workers leave, none
 * is started; when the transaction has ended, either way, the bar is lifted. (SET TABLESPACE
 * ends one in its midst; what starts then waits for the server's lock on the database.)
 * The bar is in shared memory: a crash lifts it.
 *
 * After these statements, and any other ALTER DATABASE, the launcher looks at once which
 * databases are to be served.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
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

#define LEAVE_QUIETLY USECS_PER_SEC /* after that they are signalled */
#define LEAVE_PATIENCE (10 * USECS_PER_SEC)

static ProcessUtility_hook_type next_process_utility = NULL;

/* To be done when the transaction ends. */
static List *barred_databases = NIL;	/* in TopMemoryContext */
static bool poke_at_commit = false;	/* this database: it has the extension now */
static bool list_at_commit = false;	/* which databases there are, or which of them are to be served, has changed */

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
			if (list_at_commit && event != XACT_EVENT_ABORT)
				control_poke(InvalidOid, true);
			list_free(barred_databases);
			barred_databases = NIL;
			poke_at_commit = list_at_commit = false;
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
	char	   *name;

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
			name = find_option(castNode(CreatedbStmt, statement)->options, "template");
			return name != NULL ? name : "template1";
		default:
			return NULL;
	}
}

/*
 * True if the statement is the current user's to run: the database's owner's, or, as
 * far as he may create any, everybody's who copies a template, which is not served anyway. The current
 * database can be copied, but nothing else.
 */
static bool
may_clear(Node *statement, Oid database)
{
	HeapTuple	tuple;
	Form_pg_database form;
	bool		may;

	if (database == MyDatabaseId && !IsA(statement, CreatedbStmt))
		return false;
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_database) GETSTRUCT(tuple);
	may = has_privs_of_role(GetUserId(), form->datdba) ||
		(IsA(statement, CreatedbStmt) && form->datistemplate);
	ReleaseSysCache(tuple);
	return may;
}

/*
 * Bars the database until the end of the transaction and waits for its workers
 * to go, for so long; if some stay the server's own check has the word.
 */
static void
clear_database(Oid database)
{
	TimestampTz start = GetCurrentTimestamp();
	int64		waited = 0;
	MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

	barred_databases = lappend_oid(barred_databases, database);
	MemoryContextSwitchTo(caller);
	if (!control_bar(database))
		barred_databases = list_delete_oid(barred_databases, database);
	while (worker_dismiss(database, waited > LEAVE_QUIETLY) > 0 && waited < LEAVE_PATIENCE)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 20, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		waited = GetCurrentTimestamp() - start;
	}
}

static void
database_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
						 ProcessUtilityContext context, ParamListInfo params,
						 QueryEnvironment *environment, DestReceiver *dest,
						 QueryCompletion *completion)
{
	Node	   *statement = pstmt->utilityStmt;
	char	   *name = needed_database(statement);

	/* In a transaction block all but a renaming are refused anyway, in a read-only one, as on a standby, all are. */
	if (name != NULL && control_available() && !XactReadOnly &&
		(IsA(statement, RenameStmt) ||
		 !IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL)))
	{
		Oid			database = get_database_oid(name, true);

		if (OidIsValid(database) && may_clear(statement, database) &&
			!list_member_oid(barred_databases, database))
			clear_database(database);
	}
	if (IsA(statement, CreatedbStmt) || IsA(statement, AlterDatabaseStmt))
		list_at_commit = control_available();

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

PG_FUNCTION_INFO_V1(aion_start_workers);

/*
 * aion.start_workers(): the last thing that the extension's script does. The launcher is to look at this database once
 * the transaction has committed.
 */
Datum
aion_start_workers(PG_FUNCTION_ARGS)
{
	poke_at_commit = control_available();
	PG_RETURN_VOID();
}
