/*
 * table_row.c
 *	  Reading aion's own tables without SPI. Nothing is written here.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "stream/extension.h"
#include "worker/table_row.h"

Relation
table_row_open(const char *name, LOCKMODE mode, bool wait)
{
	Oid			relid = extension_relation(name);

	if (!OidIsValid(relid))
		return NULL;
	if (wait)
		LockRelationOid(relid, mode);
	else if (!ConditionalLockRelationOid(relid, mode))
		return NULL;
	return try_table_open(relid, NoLock);
}

HeapTuple
table_row_fetch(Relation rel, Snapshot snapshot, Oid key)
{
	ScanKeyData scankey;
	TableScanDesc scan;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	HeapTuple	tuple = NULL;

	ScanKeyInit(&scankey, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(key));
	scan = table_beginscan(rel, snapshot, 1, &scankey);
	if (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		tuple = ExecCopySlotHeapTuple(slot);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return tuple;
}

bool
table_row_is_ours(const char *name, Oid key)
{
	Relation	rel;
	Snapshot	snapshot;
	HeapTuple	tuple;
	bool		ours;

	/* Without an xid the transaction has written nothing. */
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return false;
	if ((rel = table_row_open(name, AccessShareLock, true)) == NULL)
		return false;
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	tuple = table_row_fetch(rel, snapshot, key);
	ours = tuple != NULL &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	return ours;
}
