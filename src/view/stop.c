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
 * Other DDL waits for executions as ever. Pausing the view helps it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"

#include "compat.h"
#include "view/view_internal.h"

void		(*view_stop_hook) (Oid view) = NULL;
bool		(*view_stopped_hook) (void) = NULL;

/* True where an error is an execution's, and taken care of as such. */
static volatile sig_atomic_t executing = false;

/* ---- those who stop ---- */

/* Done when it returns, but for the time that it takes them to let go of their locks. For who may change the view. */
void
view_stop_work(Oid view)
{
	LockRelationOid(view, VIEW_STOP_LOCK);
	if (view_stop_hook != NULL)
		view_stop_hook(view);
}

/* Before DROP VIEW: stops what executes for those of the views that are continuous and the user's. */
void
view_stop_dropped(const DropStmt *statement)
{
	ListCell   *lc;

	if (statement->removeType != OBJECT_VIEW || XactReadOnly || IsBinaryUpgrade || !view_catalog_exists())
		return;
	foreach(lc, statement->objects)
	{
		Oid			view = RangeVarGetRelid(makeRangeVarFromNameList(lfirst(lc)), NoLock, true);

		if (OidIsValid(view) && view_row_read(view) != NULL && relation_ownercheck(view, GetUserId()))
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

/* From here on the execution can be stopped; errors out if it was before. */
void
view_execution_begins(void)
{
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
