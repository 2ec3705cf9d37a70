/*
 * registry.h
 *	  What the files of the stream layer know of each other's work on a
 *	  stream's definition and storage. Other layers use stream.h.
 */
#ifndef AION_REGISTRY_H
#define AION_REGISTRY_H

#include "postgres.h"
#include "utils/snapshot.h"

#include "stream/stream.h"

/* A row of aion.stream_def. */
typedef struct RegistryEntry
{
	Oid			journal;
	Oid			blocks;
	int64		bucket_width;	/* microseconds */
	bool		durable;
	bool		exists;			/* both tables do */
	bool		elsewhere;		/* made by another database: being restored, see adopt.c */
	bool		here;			/* made by this one, and both tables exist */
} RegistryEntry;

/* registry.c: false if the stream has no row. Reads what is in force now. */
extern bool registry_read(Oid relid, RegistryEntry *entry);
extern char *registry_home(Oid journal);
extern List *registry_list(Snapshot snapshot, bool elsewhere);	/* NULL: what is in force now */
extern List *registry_users_of_table(Oid table);

/* stored_columns.c */
extern AttrNumber stream_event_time_column(Relation rel, const char *name);
extern void stored_columns_build(Relation rel, StreamInfo *info);
extern int	stored_column_position(const StreamInfo *info, AttrNumber attnum);
extern bool attribute_is_virtual(Form_pg_attribute att);
extern bool type_holds_oids(Oid type);
extern bool type_holds_domain(Oid type);
extern bool type_involves(Oid type, Oid part);

/* storage_tables.c: see there for locks. */
extern void storage_create(Oid relid, int64 bucket_width, bool durable);
extern void storage_replace(Oid relid, const RegistryEntry *entry,
							int64 bucket_width, bool durable);
extern void storage_delete_rows(Oid relid);
extern void storage_delete_added_columns(Oid relid);
extern bool storage_holds_events(Oid relid, const RegistryEntry *entry);
extern bool storage_holds_packed(Oid relid, const RegistryEntry *entry);
extern bool storage_is_new(Oid relid, const RegistryEntry *entry);
extern bool storage_tie(Oid relid, const RegistryEntry *entry);
extern bool storage_is_doubled(const RegistryEntry *entry);

/* adopt.c */
extern void adopt_restored(void);

/* live_tables.c */
extern void live_tables_init(void);

/* alter.c: what ALTER TABLE does to streams, before and after the server did it */
typedef struct AlterWatch AlterWatch;
extern AlterWatch *alter_watch_begin(AlterTableStmt *stmt);
extern void alter_watch_end(AlterWatch *watch, AlterTableStmt *stmt);
extern List *streams_under(Oid relid, bool recurse);

/* added_column.c */
extern void added_column_record(Relation rel, AttrNumber attnum, int position);

/* stored_check.c: constraints that stored events have to satisfy */
extern List *stored_check_constraints(Oid relid);
extern void stored_check_new(Relation rel, TupleDesc before, List *constraints_before);
extern void stored_check_partition(Oid relid);

#endif							/* AION_REGISTRY_H */
