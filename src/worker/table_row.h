/*
 * table_row.h
 *	  Reading aion's own tables without SPI: no name lookup by search_path, no
 *	  privileges of the current user, no error if the extension is being dropped.
 */
#ifndef AION_TABLE_ROW_H
#define AION_TABLE_ROW_H

#include "postgres.h"
#include "access/htup.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* Attribute numbers, as in sql/extension/10_tables.sql. */
#define STREAM_STATE_ACCOUNTED	2
#define STREAM_STATE_WATERMARK	3

/*
 * Opens table aion.<name>. NULL if there is none, or with "wait" false if the
 * lock is not to be had at once. The lock is kept until the end of the
 * transaction; table_close(rel, NoLock).
 */
extern Relation table_row_open(const char *name, LOCKMODE mode, bool wait);

/*
 * The row whose first column (a regclass) is "key" under the snapshot; NULL:
 * none. Palloc'd. Reads the table through: these have a row per stream or view.
 */
extern HeapTuple table_row_fetch(Relation rel, Snapshot snapshot, Oid key);

/* True if the transaction itself wrote the current version of that row. */
extern bool table_row_is_ours(const char *name, Oid key);

#endif							/* AION_TABLE_ROW_H */
