/*
 * aion.c
 *	  Module entry: parameters, shared memory and hooks.
 *
 * A session that loads the library without its having been preloaded gets
 * definitions alone (options can be checked, tables dropped); whatever needs
 * shared memory says that it must be preloaded.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "guc.h"
#include "store/area.h"
#include "stream/stream.h"
#include "view/view.h"
#include "worker/control.h"

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
	control_shmem_request();
}

/* Also runs after a crash, in the postmaster that goes on: everything begins anew then. */
static void
start_shared_memory(void)
{
	if (previous_shmem_startup_hook)
		previous_shmem_startup_hook();
	area_shmem_startup();
	control_shmem_startup();
}

void
_PG_init(void)
{
	guc_init();
	stream_registry_init();
	stream_ingest_init();
	stream_ddl_init();
	view_init();

	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	worker_init();
}
