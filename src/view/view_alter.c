/*
 * view_alter.c
 *	  Changing continuous views: alter_view, drop_view, pause_view, resume_view.
 *
 * For the view's owner only.  Each locks the view first (one at a time may
 * change it), then reads its row anew, changes it in the caller's transaction
 * and has the scheduler told at commit.  Changed options count for what is
 * judged and fired after that.
 *
 * pause_view(), and what would have to wait for an execution of the view, has it stopped (stop.c).
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "stream/stream.h"
#include "view/view_internal.h"

PG_FUNCTION_INFO_V1(aion_alter_view);
PG_FUNCTION_INFO_V1(aion_alter_view_interval);
PG_FUNCTION_INFO_V1(aion_drop_view);
PG_FUNCTION_INFO_V1(aion_pause_view);
PG_FUNCTION_INFO_V1(aion_resume_view);

/* Arguments of aion.alter_view. */
enum
{
	ARG_VIEW,
	ARG_EARLY,
	ARG_ALLOWED_LATENESS,
	ARG_OWNER,
	ARG_RESET,
	ARG_STALENESS,
	ARG_RETAIN,
	ARG_COUNT
};

/*
 * Locks the view that is argument 0 of "function" and returns its row. Errors out
 * unless it is a continuous view that the caller owns; that is checked before
 * the lock, so that nobody can lock what isn't his, and again after it. From VIEW_STOP_LOCK on,
 * executions of the view are stopped.
 */
static ViewRow *
lock_own_view(FunctionCallInfo fcinfo, const char *function, LOCKMODE lockmode)
{
	ViewRow    *row = NULL;
	Oid			view;

	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
	if (PG_ARGISNULL(ARG_VIEW))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"view\" must not be NULL")));
	view = PG_GETARG_OID(ARG_VIEW);
	for (int pass = 0; pass < 2; pass++)
	{
		char	   *name = get_rel_name(view);

		if (name == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation with OID %u does not exist", view)));
		row = view_row_read(view);
		if (row == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is not a continuous view", name),
					 errhint("aion.views lists the continuous views.")));
		if (!relation_ownercheck(view, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_VIEW, name);
		if (pass == 0)
			LockRelationOid(view, Min(lockmode, VIEW_STOP_LOCK));
	}
	if (lockmode >= VIEW_STOP_LOCK)
	{
		view_stop_work(view);
		LockRelationOid(view, lockmode);
	}
	return row;
}

/* Sets the options named in an array of names back to their defaults. */
static void
reset_options(ViewRow *row, ArrayType *names)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *name = nulls[i] ? "NULL" : TextDatumGetCString(values[i]);

		if (strcmp(name, "early") == 0)
			row->early = NULL;
		else if (strcmp(name, "allowed_lateness") == 0)
			row->allowed_lateness = NULL;
		else if (strcmp(name, "staleness") == 0)
			row->staleness = -1;
		else if (strcmp(name, "retain") == 0)
			row->retain = NULL;
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" is not an option that can be reset", name),
					 errhint("Valid names are \"early\", \"allowed_lateness\", \"staleness\" and \"retain\".")));
	}
}

/*
 * aion.alter_view(view regclass, early interval, allowed_lateness text, owner regrole, reset text[],
 *				   staleness float8, retain interval)
 *
 * NULL leaves an option as it is. With "owner" definition and results follow the view
 * (view_hooks.c), whose lock is then exclusive.
 */
Datum
aion_alter_view(PG_FUNCTION_ARGS)
{
	bool		has_owner = !PG_ARGISNULL(ARG_OWNER);
	ViewRow    *row = lock_own_view(fcinfo, "aion.alter_view()",
									has_owner ? AccessExclusiveLock : ShareUpdateExclusiveLock);

	if (!PG_ARGISNULL(ARG_RESET))
		reset_options(row, PG_GETARG_ARRAYTYPE_P(ARG_RESET));
	if (!PG_ARGISNULL(ARG_EARLY))
	{
		row->early = PG_GETARG_INTERVAL_P(ARG_EARLY);
		view_check_early(row->early);
	}
	if (!PG_ARGISNULL(ARG_ALLOWED_LATENESS))
	{
		row->allowed_lateness = text_to_cstring(PG_GETARG_TEXT_PP(ARG_ALLOWED_LATENESS));
		(void) view_lateness(row->allowed_lateness);
	}
	if (!PG_ARGISNULL(ARG_STALENESS))
	{
		row->staleness = PG_GETARG_FLOAT8(ARG_STALENESS);
		view_check_staleness(row->staleness);
	}
	if (!PG_ARGISNULL(ARG_RETAIN))
	{
		row->retain = PG_GETARG_INTERVAL_P(ARG_RETAIN);
		view_check_retain(row->retain);
	}
	view_row_update(row);
	if (has_owner)
		ATExecChangeOwner(row->view, PG_GETARG_OID(ARG_OWNER), false, AccessExclusiveLock);
	stream_definitions_changed();
	PG_RETURN_VOID();
}

/* The same with allowed_lateness as an interval, which is then the second argument. */
Datum
aion_alter_view_interval(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, ARG_COUNT);

	InitFunctionCallInfoData(*call, fcinfo->flinfo, ARG_COUNT, fcinfo->fncollation, NULL, NULL);
	for (int i = 0; i < ARG_COUNT; i++)
		call->args[i] = fcinfo->args[i];
	call->args[ARG_EARLY] = fcinfo->args[ARG_ALLOWED_LATENESS];
	call->args[ARG_ALLOWED_LATENESS] = view_lateness_argument(&fcinfo->args[ARG_EARLY]);
	return aion_alter_view(call);
}

/* aion.drop_view(view regclass): DROP VIEW. */
Datum
aion_drop_view(PG_FUNCTION_ARGS)
{
	ViewRow    *row = lock_own_view(fcinfo, "aion.drop_view()", AccessExclusiveLock);
	ObjectAddress address;

	ObjectAddressSet(address, RelationRelationId, row->view);
	performDeletion(&address, DROP_RESTRICT, 0);
	PG_RETURN_VOID();
}

/* Pauses or resumes a view. Doing so twice is fine. */
static void
set_paused(FunctionCallInfo fcinfo, const char *function, bool paused)
{
	ViewRow    *row = lock_own_view(fcinfo, function, paused ? VIEW_STOP_LOCK : ShareUpdateExclusiveLock);

	if (row->paused == paused)
		return;
	row->paused = paused;
	view_row_update(row);
	stream_definitions_changed();
}

/* aion.pause_view(view regclass): no window of it is computed until it is resumed; one that is being computed is stopped. */
Datum
aion_pause_view(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, "aion.pause_view()", true);
	PG_RETURN_VOID();
}

/* aion.resume_view(view regclass): what became due meanwhile is computed. */
Datum
aion_resume_view(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, "aion.resume_view()", false);
	PG_RETURN_VOID();
}
