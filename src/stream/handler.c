/*
 * handler.c
 *	  The foreign-data wrapper "aion": a stream is one of its tables.
 */
#include "postgres.h"

#include "fmgr.h"
#include "foreign/fdwapi.h"

#include "stream/callbacks.h"
#include "stream/stream.h"

PG_FUNCTION_INFO_V1(aion_fdw_handler);

Datum
aion_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = stream_get_foreign_rel_size;
	routine->GetForeignPaths = stream_get_foreign_paths;
	routine->GetForeignPlan = stream_get_foreign_plan;
	routine->BeginForeignScan = stream_begin_foreign_scan;
	routine->IterateForeignScan = stream_iterate_foreign_scan;
	routine->ReScanForeignScan = stream_rescan_foreign_scan;
	routine->EndForeignScan = stream_end_foreign_scan;
	routine->ExplainForeignScan = stream_explain_foreign_scan;

	routine->IsForeignRelUpdatable = stream_is_foreign_rel_updatable;
	routine->PlanForeignModify = stream_plan_foreign_modify;
	routine->BeginForeignModify = stream_begin_foreign_modify;
	routine->ExecForeignInsert = stream_exec_foreign_insert;
	routine->EndForeignModify = stream_end_foreign_modify;
	routine->BeginForeignInsert = stream_begin_foreign_insert;
	routine->EndForeignInsert = stream_end_foreign_modify;
	routine->ExecForeignTruncate = stream_exec_truncate;

	PG_RETURN_POINTER(routine);
}
