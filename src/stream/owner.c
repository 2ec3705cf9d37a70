/*
 * owner.c
 *	  Acting as the owner of a stream.
 *
 * Making something else of stored events runs code that the stream's owner wrote:
 * checks of domains, casts of types, constraints. It is done with his rights in a
 * security-restricted operation, as the server's maintenance of tables is, whoever
 * wants it done. What such code sets is undone.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#include "stream/stream.h"

/* From here to stream_become_self(); after an error the transaction's abort undoes it. The stream is locked. */
void
stream_become_owner(Oid stream, StreamOwnerSave *save)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(stream));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", stream);
	GetUserIdAndSecContext(&save->user, &save->sec_context);
	SetUserIdAndSecContext(((Form_pg_class) GETSTRUCT(tuple))->relowner,
						   save->sec_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	ReleaseSysCache(tuple);
	save->guc_level = NewGUCNestLevel();
}

void
stream_become_self(const StreamOwnerSave *save)
{
	AtEOXact_GUC(false, save->guc_level);
	SetUserIdAndSecContext(save->user, save->sec_context);
}
