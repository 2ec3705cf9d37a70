/*
 * stop.c
 *	  Stopping what executes for a view, so that it need not be waited for.
 *
 * A view's query may never end, and an execution holds the locks of the view all the while. Whoever is about to change
 * the view (pause_view, drop_view, alter_view with another owner, DROP VIEW) first takes VIEW_STOP_LOCK, which lets
 * no further execution begin until the end of his transaction, then has those that have begun interrupted, and only then
 * waits for their locks. An execution that was stopped is rolled back and leaves no trace; its window is still
 * due, and is executed again if that transaction is.
 *
 * Code of the view's that catches the cancellation is cancelled again as it goes on, and its process
 * ended if it never gives in.
 *
 * Other DDL waits for executions as ever. Pausing the view helps it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "view/view_internal.h"

void		(*view_stop_hook) (Oid view) = NULL;
bool		(*view_stopped_hook) (void) = NULL;

/* True where an error is an execution's, and taken care of as such. */
static volatile sig_atomic_t executing = false;

/* How often code of the view's may catch what interrupts it, as a handler of query_canceled does, before its process ends. */
#define CATCHES_BORNE 100
static int	caught;

/* ---- those who stop ---- */

/* Done when it returns, but for the time that it takes them to let go of their locks. For who may change the view. */
void
view_stop_work(Oid view)
{
	LockRelationOid(view, VIEW_STOP_LOCK);
	if (view_stop_hook != NULL)
		view_stop_hook(view);
}

/* A view's owner may drop it, or the owner of its schema. */
static bool
may_drop(Oid view)
{
	return relation_ownercheck(view, GetUserId()) || schema_ownercheck(get_rel_namespace(view), GetUserId());
}

/* Before DROP VIEW: stops what executes for those of the views that are continuous and that the user may drop. */
void
view_stop_dropped(const DropStmt *statement)
{
	ListCell   *lc;

	if (statement->removeType != OBJECT_VIEW || XactReadOnly || IsBinaryUpgrade || !view_catalog_exists())
		return;
	foreach(lc, statement->objects)
	{
		Oid			view = RangeVarGetRelid(makeRangeVarFromNameList(lfirst(lc)), NoLock, true);

		if (OidIsValid(view) && view_row_read(view) != NULL && may_drop(view))
			view_stop_work(view);
	}
}

/* ---- those who are stopped ---- */

/* Lets the caller, who has locked the view's stream, on to the view, unless it is being changed. */
void
view_enter(Oid view)
{
	LockRelationOid(view, VIEW_ENTRY_LOCK);
	LockRelationOid(view, AccessShareLock);
	UnlockRelationOid(view, VIEW_ENTRY_LOCK);
}

bool
view_stopped(void)
{
	return view_stopped_hook != NULL && view_stopped_hook();
}

/* See view.h. */
void
view_stop_here(void)
{
	if (executing)
		InterruptPending = QueryCancelPending = true;
}

/* After an error was caught: whoever has caught that he is stopped is interrupted again as he goes on. */
static void
interrupt_again(SubXactEvent event, SubTransactionId self, SubTransactionId parent, void *arg)
{
	if (event != SUBXACT_EVENT_ABORT_SUB || !executing || !view_stopped())
		return;
	if (++caught > CATCHES_BORNE)
		ProcDiePending = true;
	view_stop_here();
}

/* From here on the execution can be stopped; errors out if it was before. */
void
view_execution_begins(void)
{
	static bool registered = false;

	if (!registered)
		RegisterSubXactCallback(interrupt_again, NULL);
	registered = true;
	caught = 0;
	executing = true;
	if (view_stopped())
		view_stop_here();
	CHECK_FOR_INTERRUPTS();
}

/* It is committed or has failed: what could be interrupted now is something else. */
void
view_execution_ends(void)
{
	executing = false;
	if (view_stopped())
		QueryCancelPending = false;
}
