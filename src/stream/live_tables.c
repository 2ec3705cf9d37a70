/*
 * live_tables.c
 *	  Keeps rows of dumps out of the tables of streams that are in use here.
 *
 * A restore of data where it has been restored before, or into the database that it comes from, finds
 * the rows of aion's tables there, whose keys refuse them. Journals and blocks have no keys: all events would be
 * there twice. So nobody may insert into them by SQL, be it COPY or INSERT, once their stream is at home. Aion
 * itself writes them below that level, but for a row that makes a new stream, before that one is registered,
 * and the same in a worker.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "stream/extension.h"
#include "stream/registry.h"

static ExecutorCheckPerms_hook_type next_check_perms = NULL;

/* Errors out if the table is a part of a stream at home. */
static void
refuse_rows(Oid table)
{
	ListCell   *cell;

	if (MyBackendType == B_BG_WORKER || IsBinaryUpgrade ||
		get_rel_namespace(table) != get_namespace_oid("aion_data", true))
		return;
	foreach(cell, registry_users_of_table(table))
	{
		RegistryEntry entry;

		if (registry_read(lfirst_oid(cell), &entry) && entry.here)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot insert into \"%s\", a table of stream \"%s\"",
							get_rel_name(table), get_rel_name(lfirst_oid(cell))),
					 errdetail("The stream is in use here; if it was restored before, its events are there already."),
					 errhint("Drop the stream, and restore it with its definition, or restore into another database.")));
	}
}

/* Called for each query, and for COPY, after the server's own check of permissions. */
static bool
check_perms(CHECK_PERMS_PARAMETERS)
{
	ListCell   *cell;

	foreach(cell, permissions)
	{
		const RTEPermissionInfo *info = lfirst(cell);

		if ((info->requiredPerms & ACL_INSERT) != 0)
			refuse_rows(info->relid);
	}
	return next_check_perms == NULL || next_check_perms(CHECK_PERMS_ARGUMENTS);
}

/* Called once, from stream_ddl_init(). */
void
live_tables_init(void)
{
	next_check_perms = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_perms;
}
