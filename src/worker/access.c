/*
 * access.c
 *	  What the current user may know of a stream or view.
 *
 * The inspection views that are plain SQL ask has_table_privilege() and
 * has_any_column_privilege(); functions ask here, to the same effect. No lock is
 * needed for it: nobody waits for another's DDL only to be told that he may not.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/syscache.h"

#include "worker/access.h"

/* What can be granted on a stream or view in every version, and on columns. */
#define PRIVILEGES \
	(ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE | ACL_REFERENCES | ACL_TRIGGER)

bool
access_any(Oid relid, AclMode privileges)
{
	AclMode		of_columns = privileges & ACL_ALL_RIGHTS_COLUMN;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return false;
	return pg_class_aclmask(relid, GetUserId(), privileges, ACLMASK_ANY) != 0 ||
		pg_attribute_aclcheck_all(relid, GetUserId(), of_columns, ACLMASK_ANY) == ACLCHECK_OK;
}

bool
access_visible(Oid relid)
{
	return access_any(relid, PRIVILEGES);
}
