/*
 * aion.c
 *	  Module entry: parameters, shared memory and hooks.
 *
 * Without its having been preloaded the library does not load: shared memory
 * and workers would be missing, and hooks in all sessions that have no need of it.
 * So every statement that needs it tells that it must be preloaded; results can be
 * read, and relations dropped.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "guc.h"
#include "store/area.h"
#include "store/serialize.h"
#include "stream/stream.h"
#include "view/view.h"
#include "worker/control.h"
#include "worker/io_queue.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type previous_shmem_request_hook = NULL;
static shmem_startup_hook_type previous_shmem_startup_hook = NULL;

static void
request_shared_memory(void)
{
	if (previous_shmem_request_hook)
		previous_shmem_request_hook();
	area_shmem_request();
	serialize_shmem_request();
	control_shmem_request();
	io_queue_shmem_request();
}

/* Also runs after a crash, in the postmaster that goes on: everything begins anew then. */
static void
start_shared_memory(void)
{
	if (previous_shmem_startup_hook)
		previous_shmem_startup_hook();
	area_shmem_startup();
	serialize_shmem_startup();
	control_shmem_startup();
	io_queue_shmem_startup();
}

void
_PG_init(void)
{
	/* Without shared memory and workers, or in some sessions only, hooks would miss what they must see. */
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("aion is not loaded at server start"),
				 errhint("Add aion to shared_preload_libraries and restart the server.")));
	guc_init();
	stream_registry_init();
	stream_ingest_init();
	stream_ddl_init();
	view_init();

	previous_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	worker_init();
}
