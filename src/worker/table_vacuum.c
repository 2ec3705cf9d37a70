/*
 * table_vacuum.c
 *	  VACUUM of one table, by a worker. When it is due is for others to say.
 */
#include "postgres.h"

#include "access/xact.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "compat.h"
#include "worker/table_vacuum.h"

static MemoryContext vacuum_context = NULL;

bool
table_vacuum(Oid relid, bool truncate)
{
	bool		locked;
	VacuumParams params;
	MemoryContext caller = CurrentMemoryContext;
	List	   *relations;
	BufferAccessStrategy ring;

	if (vacuum_context == NULL)
		vacuum_context = AllocSetContextCreate(TopMemoryContext, "aion vacuum",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(vacuum_context);
	MemoryContextSwitchTo(vacuum_context);
	compat_vacuum_params_init(&params);
	params.options = VACOPT_VACUUM | VACOPT_PROCESS_MAIN | VACOPT_PROCESS_TOAST | VACOPT_SKIP_LOCKED;
	params.freeze_min_age = -1;
	params.freeze_table_age = -1;
	params.multixact_freeze_min_age = -1;
	params.multixact_freeze_table_age = -1;
	params.log_min_duration = -1;
	params.index_cleanup = VACOPTVALUE_AUTO;
	params.truncate = truncate ? VACOPTVALUE_ENABLED : VACOPTVALUE_DISABLED;
	params.nworkers = -1;
	relations = list_make1(makeVacuumRelation(NULL, relid, NIL));
	/* from 16 on vacuum() makes none itself, and journals would push all else out of shared buffers */
	ring = GetAccessStrategy(BAS_VACUUM);

	/* vacuum() would say nothing if it left the table out. */
	StartTransactionCommand();
	locked = ConditionalLockRelationOid(relid, ShareUpdateExclusiveLock);
	CommitTransactionCommand();
	if (!locked)
	{
		MemoryContextSwitchTo(caller);
		return false;
	}

	StartTransactionCommand();
	MemoryContextSwitchTo(vacuum_context);
	PortalContext = vacuum_context; /* parent of vacuum()'s own context; outlives an error harmlessly */
	vacuum(relations, &params, ring, vacuum_context, true);
	CommitTransactionCommand();
	PortalContext = NULL;
	MemoryContextSwitchTo(caller);
	return true;
}
