/*
 * purge_lock.c
 *	  The lock between purging a stream and opening windows over its past.
 *
 * A lock on an object that is none, next to the stream, so that neither users'
 * statements nor VACUUM ever meet it. It ends with the transaction, whatever happens.
 */
#include "postgres.h"

#include "catalog/pg_foreign_table.h"
#include "miscadmin.h"
#include "storage/lock.h"

#include "worker/purge_lock.h"

bool
purge_lock(Oid stream)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ForeignTableRelationId, stream, 1);
	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}
