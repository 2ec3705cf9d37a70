/*
 * table_vacuum.h
 *	  VACUUM of one table, by a worker.
 */
#ifndef AION_TABLE_VACUUM_H
#define AION_TABLE_VACUUM_H

#include "postgres.h"

/*
 * VACUUM as autovacuum does it: transactions of its own, no wait for locks; "truncate" gives back the file's
 * end, for which all others have to be off the table. Outside any transaction. False: someone, perhaps autovacuum,
 * has a lock that is in the way. Errors out.
 */
extern bool table_vacuum(Oid relid, bool truncate);

#endif							/* AION_TABLE_VACUUM_H */
